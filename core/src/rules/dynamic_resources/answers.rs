//! What queries say of devices.
//!
//! A query that is still being evaluated on some slice gets nobody any devices: which of them match
//! must not depend on how far it has come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::input::{Answer, Text};

/// Answers of all queries.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<Text, OfQuery>);

#[derive(Debug, Default)]
struct OfQuery {
    of_slices: BTreeMap<Text, Arc<[Answer]>>,
    /// Slices on which it is still being evaluated.
    awaited: BTreeSet<Text>,
    /// Slices with devices on which it fails.
    failing: BTreeSet<Text>,
}

/// Whom new answers concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nobody: nothing is new, or the query is awaited as it was.
    None,
    /// Who can use the slice's devices.
    OfSlice,
    /// All: the query is awaited now, or no longer.
    OfQuery,
}

impl Answers {
    /// What a query says of a slice.
    pub fn put(&mut self, query: Text, slice: Text, answers: Arc<[Answer]>) -> News {
        let of_query = self.0.entry(query).or_default();
        if of_query.of_slices.get(&slice) == Some(&answers) {
            return News::None;
        }
        let before = !of_query.awaited.is_empty();
        note(&mut of_query.awaited, &slice, is_awaited(&answers));
        note(&mut of_query.failing, &slice, fails(&answers));
        of_query.of_slices.insert(slice, answers);
        match (before, !of_query.awaited.is_empty()) {
            (false, false) => News::OfSlice,
            (true, true) => News::None,
            _ => News::OfQuery,
        }
    }

    /// A slice is gone. Whether some query is awaited no longer.
    pub fn remove_slice(&mut self, slice: &Text) -> bool {
        let mut settled = false;
        for of_query in self.0.values_mut() {
            of_query.of_slices.remove(slice);
            of_query.failing.remove(slice);
            settled |= of_query.awaited.remove(slice) && of_query.awaited.is_empty();
        }
        settled
    }

    /// Nobody asks a query any more.
    pub fn remove_query(&mut self, query: &Text) {
        self.0.remove(query);
    }

    /// What a query says of a device of a slice; `None`: nobody has said it yet.
    pub fn of(&self, query: &Text, slice: &Text, device: usize) -> Option<&Answer> {
        if query.is_empty() {
            return Some(&Answer::Yes);
        }
        self.0.get(query)?.of_slices.get(slice)?.get(device)
    }

    /// On how many slices a query is still being evaluated, and of how many, if on any.
    pub fn awaited(&self, query: &Text) -> Option<(usize, usize)> {
        let of_query = self.0.get(query)?;
        let awaited = of_query.awaited.len();
        (awaited > 0).then_some((awaited, of_query.of_slices.len()))
    }

    /// Whether a query fails on some device.
    pub fn fails(&self, query: &Text) -> bool {
        self.0.get(query).is_some_and(|of_query| !of_query.failing.is_empty())
    }

    /// Compares which slices are awaited, and on which queries fail, with what answers say.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self) {
        for (query, of_query) in &self.0 {
            let listed = |is: fn(&[Answer]) -> bool| -> BTreeSet<Text> {
                let of_slices = of_query.of_slices.iter().filter(|(_, answers)| is(answers));
                of_slices.map(|(slice, _)| slice.clone()).collect()
            };
            assert_eq!(of_query.awaited, listed(is_awaited), "slices that {query} is awaited on");
            assert_eq!(of_query.failing, listed(fails), "slices that {query} fails on");
        }
    }
}

fn is_awaited(answers: &[Answer]) -> bool {
    answers.contains(&Answer::Awaited)
}

fn fails(answers: &[Answer]) -> bool {
    answers.iter().any(|answer| matches!(answer, Answer::Fails(_)))
}

fn note(slices: &mut BTreeSet<Text>, slice: &Text, listed: bool) {
    match listed {
        true => _ = slices.insert(slice.clone()),
        false => _ = slices.remove(slice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(all: &mut Answers, slice: &str, answers: &[Answer]) -> News {
        all.put("q".into(), slice.into(), answers.into())
    }

    #[test]
    fn what_is_awaited_and_what_fails_is_what_answers_say() {
        let mut all = Answers::default();
        let query: Text = "q".into();
        assert_eq!(put(&mut all, "s", &[Answer::Yes, Answer::Awaited]), News::OfQuery);
        assert_eq!(put(&mut all, "t", &[Answer::Awaited]), News::None);
        assert_eq!(all.awaited(&query), Some((2, 2)));
        all.recount();
        assert_eq!(put(&mut all, "s", &[Answer::Fails("no key".into()), Answer::No]), News::None);
        assert!(all.fails(&query));
        all.recount();
        assert!(all.remove_slice(&"t".into()), "it was the last that was awaited");
        assert_eq!(all.awaited(&query), None);
        all.recount();
        assert!(!all.remove_slice(&"s".into()));
        assert!(!all.fails(&query));
        all.recount();
    }

    #[test]
    #[should_panic(expected = "is awaited on")]
    fn a_recount_notices_a_slice_that_is_not_awaited_any_more() {
        let mut all = Answers::default();
        put(&mut all, "s", &[Answer::Awaited]);
        let of_query = all.0.get_mut("q").expect("just put");
        of_query.of_slices.insert("s".into(), [Answer::Yes].into());
        all.recount();
    }
}
