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
        match answers.contains(&Answer::Awaited) {
            true => of_query.awaited.insert(slice.clone()),
            false => of_query.awaited.remove(&slice),
        };
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
}
