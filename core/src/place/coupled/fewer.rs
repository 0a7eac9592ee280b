//! Which members of an elastic gang find places together, where not all of them do.
//!
//! Problem: a gang needs its minimum, whichever members those are. Where members exclude each
//! other (by a host port, a volume that one alone can use, a wish to be away from others) or need
//! each other, to take as many of each kind as go, one kind after the other, may leave too few,
//! though others of them would do.
//!
//! The search goes through members and nodes as the one for all of them does, and besides leaves
//! members out: where the order does not matter, the kind whose turn it is once each of its nodes
//! was tried; else whoever is left when enough have places. What cannot reach the number any more
//! is not looked at: those who have places, and of the others as many as find slots now; before it
//! begins, as many as flow to nodes ([`at_once`]).
//!
//! What is found is how many of each ask: with these it is placed anew, as any gang. The search
//! looks past levels and slices of sets, so what it found need not do; what it found not, if no
//! bound ended it, is not there.
//!
//! Bounds are those of the search for all.

use std::ops::Range;

use capstan_topology::NodeIdx;

use super::{Count, NODES_MAX, Search, TRIES_MAX, TopologyAsk, prepare, to_look_in};
use crate::explain::reason::SearchBound;
use crate::model::txn::Txn;
use crate::place::{at_once, budget};

/// Whom to look for.
#[derive(Clone, Copy, Debug)]
pub struct Fewer<'a> {
    /// Members in all.
    pub least: u32,
    /// Unlike ways to make them up that are of use.
    pub ways: usize,
    /// Ways that are known, by ask.
    pub known: &'a [Vec<u32>],
    /// Placements that may be tried; `None`: as many as for a whole gang.
    pub steps: Option<u32>,
}

/// How many of each ask, each way that was found.
pub type Ways = Vec<Vec<u32>>;

/// Members that may be left out while a search goes on.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    least: u32,
    ways: usize,
    steps: Option<u32>,
    known: Ways,
    found: Ways,
    /// By ask: others may let some in, so that slots of now say nothing.
    let_in: Vec<bool>,
}

impl Leaving {
    /// Placements that may be tried, of so many that the search for all may try.
    pub fn steps(&self, most: u32) -> u32 {
        self.steps.map_or(most, |steps| steps.min(most))
    }
}

/// How many of each ask find places together, within a domain of a required level; and where the
/// search ended that found fewer ways than are wanted. The transaction is left as it was.
pub fn some(
    txn: &mut Txn<'_>,
    asks: &[Count],
    topology: TopologyAsk,
    wanted: Fewer<'_>,
) -> (Ways, Option<SearchBound>) {
    let required = topology.required.filter(|_| !topology.per_set);
    let topology = TopologyAsk { required, ..TopologyAsk::default() };
    let (mut found, mut bound, mut tries) = (Ways::new(), None, 0);
    for domain in to_look_in(txn, asks, topology).into_iter().flatten() {
        if budget::is_spent(txn) {
            return (found, bound.or(Some(SearchBound::Tries(txn.count_steps(0)))));
        }
        let domain = txn.state().room.tree.domain(domain);
        let range = domain.start..domain.end;
        let known = &[wanted.known, &found].concat();
        let rest = Fewer { known, ways: wanted.ways - found.len(), ..wanted };
        let Some(search) = Search::leaving(txn, asks, range, rest) else { continue };
        tries += 1;
        if tries > TRIES_MAX {
            return (found, Some(SearchBound::Domains(TRIES_MAX as u32)));
        }
        let (more, ended) = search.run_leaving(txn);
        found.extend(more);
        if found.len() >= wanted.ways {
            return (found, None);
        }
        bound = bound.or(ended);
    }
    (found, bound)
}

/// The same in a range of positions.
pub fn some_within(
    txn: &mut Txn<'_>,
    asks: &[Count],
    range: Range<usize>,
    wanted: Fewer<'_>,
) -> (Ways, Option<SearchBound>) {
    let search = Search::leaving(txn, asks, range, wanted);
    search.map_or((Ways::new(), None), |search| search.run_leaving(txn))
}

impl Search {
    /// `None`: fewer find places in the range, whoever goes where.
    fn leaving(
        txn: &mut Txn<'_>,
        asks: &[Count],
        range: Range<usize>,
        wanted: Fewer<'_>,
    ) -> Option<Search> {
        let shapes = prepare(txn, asks);
        let mut search = Search::new(txn, asks, shapes, range);
        let state = txn.state();
        let members = asks.iter().zip(&search.opened);
        let let_in =
            members.map(|(count, opened)| at_once::are_let_in(state, *count, *opened)).collect();
        search.leaving = Some(Box::new(Leaving {
            least: wanted.least,
            ways: wanted.ways,
            steps: wanted.steps,
            known: wanted.known.to_vec(),
            found: Ways::new(),
            let_in,
        }));
        search.may_begin(txn).then_some(search)
    }

    /// Members that are to have places.
    pub(super) fn least(&self) -> u64 {
        let all = || self.left.iter().map(|left| u64::from(*left)).sum();
        self.leaving.as_ref().map_or_else(all, |leaving| leaving.least.into())
    }

    fn may_begin(&self, txn: &mut Txn<'_>) -> bool {
        self.asks.iter().for_each(|class| txn.fresh(*class));
        let most = |at: usize| self.upper(txn, at).min(u64::from(self.left[at]));
        let all = (0..self.asks.len()).map(most).fold(0, u64::saturating_add);
        let large = self.range.len() > NODES_MAX;
        let nodes: Vec<usize> = if large { Vec::new() } else { self.range.clone().collect() };
        all >= self.least()
            && (large || at_once::may_hold_some(txn, &self.counts(), &nodes, self.least()))
    }

    /// Looks for ways; the transaction is left as it was.
    fn run_leaving(mut self, txn: &mut Txn<'_>) -> (Ways, Option<SearchBound>) {
        let (start, left) = (txn.checkpoint(), self.left.clone());
        // Of as many as go one after the other the first ones go, too.
        let enough = self.advance_some(txn) && self.note_way();
        txn.rollback_to(start);
        self.places.clear();
        self.left = left;
        let enough = enough || self.everything(txn);
        txn.rollback_to(start);
        let bound = if enough { None } else { self.bound() };
        (self.leaving.map_or_else(Ways::new, |leaving| leaving.found), bound)
    }

    /// Everybody who goes to the best nodes; whether those are enough.
    fn advance_some(&mut self, txn: &mut Txn<'_>) -> bool {
        self.advance(txn);
        txn.count_steps(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        self.places.len() as u64 >= self.least()
    }

    /// Notes how many of each ask have places, of the first who are enough; whether no more ways
    /// are wanted.
    fn note_way(&mut self) -> bool {
        let Some(leaving) = &mut self.leaving else { return true };
        let mut counts = vec![0; self.asks.len()];
        let first = self.places.iter().take(leaving.least as usize);
        first.for_each(|place| counts[place.ask] += 1);
        if !leaving.known.contains(&counts) && !leaving.found.contains(&counts) {
            leaving.found.push(counts);
        }
        leaving.found.len() >= leaving.ways
    }

    /// Every choice of whom to leave out, until one leads to the end.
    pub(super) fn go_on_leaving(&mut self, txn: &mut Txn<'_>) -> bool {
        if self.steps > self.most {
            return false;
        }
        if self.places.len() as u64 >= self.least() {
            return self.note_way();
        }
        if !self.may_reach(txn) {
            return false;
        }
        let next = self.next(txn);
        if !self.in_any_order {
            return next.into_iter().any(|at| self.try_nodes(txn, at));
        }
        let Some(&at) = next.first() else { return false };
        self.try_nodes(txn, at) || self.leave_out(txn, at)
    }

    /// Whether as many may still have places as are to.
    fn may_reach(&self, txn: &mut Txn<'_>) -> bool {
        let Some(leaving) = &self.leaving else { return true };
        self.asks.iter().for_each(|class| txn.fresh(*class));
        let need = self.least().saturating_sub(self.places.len() as u64);
        let most = |at: usize| -> u64 {
            let left = u64::from(self.left[at]);
            if left == 0 || leaving.let_in[at] {
                return left;
            }
            let slots = self.spots(txn, at).into_iter().map(|(slots, _)| u64::from(slots));
            slots.fold(0, u64::saturating_add).min(left)
        };
        (0..self.asks.len()).map(most).fold(0, u64::saturating_add) >= need
    }

    /// All that are left without those of an ask.
    fn leave_out(&mut self, txn: &mut Txn<'_>, at: usize) -> bool {
        let gone = (at as u16, NodeIdx(u32::MAX), 0);
        if self.steps > self.most || !self.is_new(gone) {
            return false;
        }
        self.steps += 1;
        let left = std::mem::take(&mut self.left[at]);
        self.state.push(gone);
        let found = self.go_on(txn);
        self.state.pop();
        self.left[at] = left;
        found
    }
}
