//! Queries that claims ask, and what they say of devices.
//!
//! A query is the selectors of a class and of a request, in order, as one text: claims that ask the
//! same ask one query, which is evaluated once for each slice. Each part of the text is preceded by
//! its length: an expression may contain any character. What cannot be read of it fails, and never
//! says that a device will do.
//!
//! One evaluation may take a hundredth of a second, and there may be thousands of devices: it is
//! done in turns of bounded cost, counted in steps of CEL and not in time. What a slice is still
//! awaited for is told as awaited, and the engine gives nobody devices by a query that is awaited
//! anywhere, so that what is given does not depend on how far the work has come. Each turn is
//! divided equally among the queries that have work; what one leaves goes to the others, and the
//! next turn begins with who got nothing. Devices that are alike in all that a query looks at have
//! one answer, and one evaluation in a turn.
//!
//! Files are looked at once: what they ask is evaluated at once, up to [`AT_ONCE`] steps. Of the
//! devices beyond that it is said that they were not looked at, and why: whoever could have one of
//! them waits for that reason, and not because it does not match.
//!
//! Cost of a turn: [`TURN`] steps, and one evaluation more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{
    Answer, Attribute, ClaimSpec, DeviceFacts, Nano, SliceFacts, Text,
};

use super::DeviceDirectory;
use super::slice::{in_domain, value};
use crate::cel::{self, Program, Reads, Value};
use crate::convert::sharing::Shared;

/// What all queries together may cost in a turn, in steps.
pub const TURN: u64 = 10 * cel::COST_MAX;

/// What all queries of files together may cost, in steps: as much as two thousand evaluations that
/// each cost as much as one may, which takes half a minute. Selectors that people write cost some
/// dozen steps.
const AT_ONCE: u64 = 2_000 * cel::COST_MAX;

/// What it costs to look at a device, in steps, evaluated or not.
const LOOK_COST: u64 = 20;

/// All slices, by name.
pub type Slices = BTreeMap<Text, Arc<SliceFacts>>;

/// Queries that claims ask.
#[derive(Debug, Default)]
pub struct Queries {
    known: BTreeMap<Text, Query>,
    /// Who got nothing of the last turn: the next begins with it.
    next: Option<Text>,
}

/// A selector by its name; or why it cannot be read.
type Named = (String, Result<Program, cel::Fault>);

#[derive(Debug)]
struct Query {
    selectors: Vec<Named>,
    reads: Reads,
    uses: usize,
    /// It has slices, if there are any.
    begun: bool,
    /// Answers of slices that are done.
    done: BTreeMap<Text, Arc<[Answer]>>,
    /// Slices that are not, with the answers so far.
    open: BTreeMap<Text, Vec<Answer>>,
    /// Slices of which something else is to be told than was told last.
    fresh: BTreeSet<Text>,
}

impl Query {
    fn of(text: &str) -> Query {
        let selectors = selectors(text);
        let mut reads = Reads::default();
        selectors.iter().filter_map(|(_, it)| it.as_ref().ok()).for_each(|it| reads.add(it));
        Query {
            selectors,
            reads,
            uses: 0,
            begun: false,
            done: BTreeMap::new(),
            open: BTreeMap::new(),
            fresh: BTreeSet::new(),
        }
    }

    /// What is told of a slice.
    fn said(&self, slice: &SliceFacts) -> Arc<[Answer]> {
        let awaited = || slice.devices.iter().map(|_| Answer::Awaited).collect();
        self.done.get(&slice.name).cloned().unwrap_or_else(awaited)
    }

    /// What it says of a device, and what it cost to find that out.
    fn answer(&self, slice: &SliceFacts, device: &DeviceFacts) -> (Answer, u64) {
        let (device, mut cost) = (value(slice, device), 0);
        for (name, selector) in &self.selectors {
            let fails = |problem: String| Answer::Fails(format!("{name}: {problem}").into());
            let selector = match selector {
                Ok(selector) => selector,
                Err(fault) => return (fails(format!("CEL compile error: {fault}")), cost),
            };
            let (outcome, spent) = cel::weigh(selector, "device", device.clone());
            cost += spent;
            match outcome {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => return (Answer::No, cost),
                Ok(other) => {
                    return (fails(format!("CEL result is a {}, not a bool", other.kind())), cost);
                }
                Err(fault) => return (fails(format!("CEL runtime error: {fault}")), cost),
            }
        }
        (Answer::Yes, cost)
    }
}

impl Queries {
    /// A claim asks what this spec has.
    pub fn add(&mut self, spec: &ClaimSpec) {
        for query in queries_of(spec) {
            let new = || Query::of(query);
            self.known.entry(query.clone()).or_insert_with(new).uses += 1;
        }
    }

    /// A claim does not ask that any more. Queries that nobody asks now and that were told.
    pub fn remove(&mut self, spec: &ClaimSpec) -> Vec<Text> {
        let mut gone = Vec::new();
        for query in queries_of(spec) {
            let Some(entry) = self.known.get_mut(query) else { continue };
            entry.uses -= 1;
            if entry.uses == 0 {
                gone.extend(self.known.remove(query).filter(|it| it.begun).map(|_| query.clone()));
            }
        }
        gone
    }

    /// A slice is another than it was: what was said of it is worth nothing.
    pub fn slice_changed(&mut self, name: &Text) {
        for query in self.known.values_mut().filter(|query| query.begun) {
            query.done.remove(name);
            query.open.insert(name.clone(), Vec::new());
            query.fresh.insert(name.clone());
        }
    }

    /// A slice is gone.
    pub fn slice_gone(&mut self, name: &Text) {
        for query in self.known.values_mut() {
            query.done.remove(name);
            query.open.remove(name);
            query.fresh.remove(name);
        }
    }

    /// New queries are asked of all slices.
    pub fn begin(&mut self, slices: &Slices) {
        for query in self.known.values_mut().filter(|query| !query.begun) {
            query.begun = true;
            query.open = slices.keys().map(|name| (name.clone(), Vec::new())).collect();
            query.fresh = slices.keys().cloned().collect();
        }
    }

    /// Whether some query is not done with some slice.
    pub fn owes(&self) -> bool {
        self.known.values().any(|query| !query.open.is_empty())
    }

    /// Goes on with all queries, until so many steps are spent or all is done.
    pub fn work(&mut self, slices: &Slices, budget: u64) {
        let (mut left, first) = (budget, self.next.take());
        let known = self.known.iter_mut().filter(|(_, query)| !query.open.is_empty());
        let mut turns: Vec<Turn<'_>> = known.map(|(text, query)| Turn::new(text, query)).collect();
        let begins = turns.partition_point(|turn| first.as_ref().is_some_and(|it| turn.text < it));
        let begins = if begins < turns.len() { begins } else { 0 };
        turns.rotate_left(begins);
        while left > 0 && !turns.is_empty() {
            let share = (left / turns.len() as u64).max(1);
            for turn in &mut turns {
                if left == 0 {
                    self.next = Some(turn.text.clone());
                    break;
                }
                left = left.saturating_sub(turn.go_on(slices, share.min(left)));
            }
            turns.retain(|turn| !turn.query.open.is_empty());
        }
    }

    /// Says of all devices that are left that nobody will look at them, as it would cost too much.
    fn give_up(&mut self, slices: &Slices, budget: u64) {
        let bound = format!("selectors of all claims cost more than {budget} steps");
        let unknown = Answer::Fails(format!("not evaluated, as {bound}").into());
        for query in self.known.values_mut() {
            while let Some((name, mut answers)) = query.open.pop_first() {
                let Some(slice) = slices.get(&name) else { continue };
                answers.resize(slice.devices.len(), unknown.clone());
                query.fresh.insert(name.clone());
                query.done.insert(name, answers.into());
            }
        }
    }

    /// Calls back with each query, slice and answers that were not told yet.
    pub fn tell(&mut self, slices: &Slices, mut with: impl FnMut(&Text, &Text, Arc<[Answer]>)) {
        for (text, query) in &mut self.known {
            for name in std::mem::take(&mut query.fresh) {
                if let Some(slice) = slices.get(&name) {
                    with(text, &name, query.said(slice));
                }
            }
        }
    }

    /// Calls back with each query, slice and answers.
    pub fn each(&self, slices: &Slices, mut with: impl FnMut(&Text, &Text, Arc<[Answer]>)) {
        for (text, query) in &self.known {
            slices.values().for_each(|slice| with(text, &slice.name, query.said(slice)));
        }
    }
}

/// A query at work.
struct Turn<'a> {
    text: &'a Text,
    query: &'a mut Query,
    /// Answers for devices that look like this.
    known: BTreeMap<Look<'a>, Answer>,
}

impl<'a> Turn<'a> {
    fn new(text: &'a Text, query: &'a mut Query) -> Turn<'a> {
        Turn { text, query, known: BTreeMap::new() }
    }

    /// Spends so many steps or all that there is to do; how many it were.
    fn go_on(&mut self, slices: &'a Slices, share: u64) -> u64 {
        let mut spent = 0;
        while let Some((name, mut answers)) = self.query.open.pop_first() {
            let Some(slice) = slices.get(&name) else { continue };
            for device in &slice.devices[answers.len().min(slice.devices.len())..] {
                if spent >= share {
                    break;
                }
                spent += LOOK_COST;
                let look = Look::of(slice, device, &self.query.reads);
                let answer = self.known.entry(look).or_insert_with(|| {
                    let (answer, cost) = self.query.answer(slice, device);
                    spent += cost;
                    answer
                });
                answers.push(answer.clone());
            }
            if answers.len() < slice.devices.len() {
                self.query.open.insert(name, answers);
                break;
            }
            self.query.fresh.insert(name.clone());
            self.query.done.insert(name, answers.into());
        }
        spent
    }
}

/// What a query sees of a device.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Look<'a> {
    driver: &'a Text,
    shared: bool,
    attributes: Vec<(&'a Text, &'a Attribute)>,
    capacity: Vec<(&'a Text, Nano)>,
}

impl<'a> Look<'a> {
    fn of(slice: &'a SliceFacts, device: &'a DeviceFacts, reads: &Reads) -> Look<'a> {
        let (driver, all) = (&slice.driver, reads.all);
        let is_read = |of: &BTreeSet<(Text, Text)>, name: &Text| {
            all || (!of.is_empty() && of.contains(&in_domain(driver, name)))
        };
        let attributes = device.attributes.iter();
        let capacity = device.capacity.iter();
        Look {
            driver,
            shared: device.shared,
            attributes: attributes.filter(|(name, _)| is_read(&reads.attributes, name)).collect(),
            capacity: capacity
                .filter(|(name, _)| is_read(&reads.capacity, name))
                .map(|(name, amount)| (name, amount.value))
                .collect(),
        }
    }
}

impl DeviceDirectory {
    /// Evaluates all selectors on all devices at once, as far as a bound allows; it is settled.
    pub fn evaluate(&mut self) {
        self.evaluate_within(AT_ONCE);
    }

    /// The same with so many steps.
    pub(super) fn evaluate_within(&mut self, budget: u64) {
        self.queries.begin(&self.slices);
        self.queries.work(&self.slices, budget);
        self.queries.give_up(&self.slices, budget);
    }

    /// Whether more news come without a change of any object.
    pub fn owes(&self) -> bool {
        self.queries.owes()
    }
}

/// Puts a new spec in place of an old one; queries that nobody asks any more.
pub fn renew(
    spec: &mut Arc<ClaimSpec>,
    new: ClaimSpec,
    queries: &mut Queries,
    shared: &mut Shared,
) -> Vec<Text> {
    if **spec == new {
        return Vec::new();
    }
    let old = std::mem::replace(spec, shared.claims.of(new));
    queries.add(spec);
    queries.remove(&old)
}

fn queries_of(spec: &ClaimSpec) -> impl Iterator<Item = &Text> {
    let asks = spec.requests.iter().flat_map(|request| &request.options);
    asks.map(|ask| &ask.query).filter(|query| !query.is_empty())
}

/// Writes a part of a query behind its length.
pub fn write_part(query: &mut String, part: &str) {
    *query += &format!("{}:{part}", part.len());
}

/// The first part of a query, and the others.
fn part(query: &str) -> Option<(&str, &str)> {
    let (length, rest) = query.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

/// The selectors of a query.
fn selectors(query: &str) -> Vec<Named> {
    let (mut all, mut rest) = (Vec::new(), query);
    while !rest.is_empty() {
        let named = part(rest).and_then(|(name, rest)| Some((name, part(rest)?)));
        let Some((name, (expression, after))) = named else {
            all.push((rest.to_owned(), Err(cel::Fault::new("a selector without expression"))));
            break;
        };
        all.push((name.to_owned(), cel::parse(expression)));
        rest = after;
    }
    all
}

#[cfg(test)]
mod tests {
    use capstan_core::model::input::Reach;

    use super::*;

    fn query(parts: &[&str]) -> String {
        let mut query = String::new();
        parts.iter().for_each(|part| write_part(&mut query, part));
        query
    }

    #[test]
    fn selectors_are_read_as_they_were_written_whatever_is_in_them() {
        for odd in ["'x\u{1e}y' == 'z'", "'x\u{1f}y' == 'z'", "'1:2:' == 'é3:'", "true"] {
            let read = selectors(&query(&["a", odd, "b", "false"]));
            let names: Vec<&str> = read.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["a", "b"], "{odd}");
            assert!(read.iter().all(|(_, expression)| expression.is_ok()), "{odd}");
        }
    }

    #[test]
    fn what_cannot_be_read_matches_no_device() {
        let whole = query(&["a", "true", "b", "true"]);
        let torn = &whole[..whole.len() - 1];
        for bad in [query(&["a", "("]), query(&["a"]), torn.to_owned(), "x".to_owned()] {
            let read = selectors(&bad);
            assert!(read.iter().any(|(_, expression)| expression.is_err()), "{bad}");
        }
    }

    /// A slice of devices that are numbered from here on, alike in `model`.
    fn slice(name: &str, from: i64, count: i64) -> (Text, Arc<SliceFacts>) {
        let device = |at: i64| DeviceFacts {
            name: format!("g{at}").into(),
            nodes: None,
            attributes: [
                ("at".into(), Attribute::Int(at)),
                ("model".into(), Attribute::Text("m".into())),
            ]
            .into(),
            taints: Vec::new(),
            consumes: Vec::new(),
            shared: false,
            capacity: BTreeMap::new(),
            ready_when: None,
            binds: false,
        };
        let slice = SliceFacts {
            name: name.into(),
            driver: "d.x".into(),
            pool: "p".into(),
            generation: 1,
            slices: 1,
            nodes: Reach::Everywhere,
            devices: (from..from + count).map(device).collect(),
            counters: Vec::new(),
        };
        (name.into(), Arc::new(slice))
    }

    fn slices() -> Slices {
        [slice("s", 0, 5), slice("t", 5, 3), slice("u", 8, 0)].into()
    }

    /// Queries of these expressions, begun.
    fn asked(expressions: &[&str], slices: &Slices) -> Queries {
        let mut queries = Queries::default();
        for expression in expressions {
            let text: Text = query(&["a", expression]).into();
            queries.known.insert(text.clone(), Query { uses: 1, ..Query::of(&text) });
        }
        queries.begin(slices);
        queries
    }

    type Said = BTreeMap<(Text, Text), Arc<[Answer]>>;

    /// What is told in the end, when so much is done at a time; and in how many turns.
    fn told(expressions: &[&str], budget: u64) -> (Said, usize) {
        let slices = slices();
        let (mut queries, mut said, mut turns) = (asked(expressions, &slices), Said::new(), 0);
        while queries.owes() {
            queries.work(&slices, budget);
            queries.tell(&slices, |query, slice, answers| {
                let before = said.insert((query.clone(), slice.clone()), answers);
                // It is told as awaited once, and then what it is.
                let awaited = |before: Arc<[Answer]>| before.contains(&Answer::Awaited);
                assert!(&**slice == "u" || before.is_none_or(awaited), "{slice}");
            });
            turns += 1;
        }
        let mut all = Said::new();
        queries.each(&slices, |query, slice, answers| {
            all.insert((query.clone(), slice.clone()), answers);
        });
        assert_eq!(said, all);
        (said, turns)
    }

    const ALL: [&str; 3] = [
        "device.attributes['d.x'].at % 2 == 0",
        "device.attributes['d.x'].model == 'm' && lists.range(500).all(x, x >= 0)",
        "device.attributes['d.x'].none",
    ];

    #[test]
    fn answers_do_not_depend_on_how_much_is_done_at_a_time() {
        let (at_once, turns) = told(&ALL, u64::MAX);
        assert_eq!(turns, 1);
        assert_eq!(at_once.len(), 9);
        assert!(at_once.values().all(|answers| !answers.contains(&Answer::Awaited)));
        for budget in [1, 100, 700, 2_000] {
            let (in_turns, turns) = told(&ALL, budget);
            assert!(turns > 1, "{budget}");
            assert_eq!(in_turns, at_once, "{budget}");
        }
    }

    #[test]
    fn devices_that_are_alike_in_what_is_looked_at_are_evaluated_once_a_turn() {
        let slices = slices();
        let spent = |expression: &str| {
            let mut queries = asked(&[expression], &slices);
            let (text, query) = queries.known.first_key_value().expect("a query");
            let (text, one) = (text.clone(), query.answer(&slices["s"], &slices["s"].devices[0]).1);
            let query = queries.known.get_mut(&text).expect("a query");
            (one, Turn::new(&text, query).go_on(&slices, u64::MAX))
        };
        let (one, all) = spent("device.attributes['d.x'].model == 'm'");
        assert_eq!(all, one + 8 * LOOK_COST);
        let (one, all) = spent("device.attributes['d.x'].at >= 0");
        assert_eq!(all, 8 * (one + LOOK_COST));
        let (one, all) = spent("'at' in device.attributes['d.x']");
        assert_eq!(all, 8 * (one + LOOK_COST));
    }

    #[test]
    fn a_costly_query_keeps_no_other_waiting() {
        let slices = slices();
        let costly = "lists.range(2000).all(x, device.attributes['d.x'].at >= x - 9999)";
        let cheap = "device.attributes['d.x'].at >= 0";
        let mut queries = asked(&[costly, cheap], &slices);
        queries.work(&slices, 3_000);
        let of = |queries: &Queries, text: &str| {
            let known = &queries.known[&Text::from(query(&["a", text]).as_str())];
            known
                .open
                .values()
                .map(Vec::len)
                .chain(known.done.values().map(|it| it.len()))
                .sum::<usize>()
        };
        assert_eq!(of(&queries, cheap), 8, "all of it");
        assert_eq!(of(&queries, costly), 1, "one, however costly");
        // Who got nothing of a turn is the first in the next.
        let more = format!("{costly} && true");
        let mut queries = asked(&[costly, &more], &slices);
        for count in 1..=4 {
            queries.work(&slices, 1);
            assert_eq!(of(&queries, costly) + of(&queries, &more), count);
        }
        assert_eq!((of(&queries, costly), of(&queries, &more)), (2, 2));
    }

    #[test]
    fn a_slice_that_changes_begins_anew_and_one_that_is_gone_is_owed_nothing() {
        let mut slices = slices();
        let mut queries = asked(&[ALL[0]], &slices);
        queries.work(&slices, 50);
        slices.extend([slice("s", 1, 1)]);
        queries.slice_changed(&"s".into());
        slices.remove("t");
        queries.slice_gone(&"t".into());
        queries.work(&slices, u64::MAX);
        let mut said = Vec::new();
        queries.tell(&slices, |_, slice, answers| said.push((slice.clone(), answers.to_vec())));
        assert_eq!(said, [("s".into(), vec![Answer::No]), ("u".into(), vec![])]);
        queries.tell(&slices, |_, slice, _| panic!("{slice} is told twice"));
        assert!(!queries.owes());
    }
}
