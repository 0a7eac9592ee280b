//! With whom a gang begins whose roles have minimums, where members of a role look different.
//!
//! Problem: such a gang begins with as many of each role as that must have, the first in the order
//! of members. Where those find no places, others of the same roles may: some look different, ask
//! less, or may run where room is.
//!
//! Wanted: a gang begins with those who stand first wherever they find places; else with others of
//! its roles for whom nobody leaves; else with those for whom others pay least
//! ([`toll`](super::toll)). Who is chosen is decided at each nomination anew and told with the
//! [`Entry`]; while others leave for it, it is who has places in its claim.
//!
//! Phases: the members by role and shape are filled one after the other, each as far as it goes
//! beside those before it and as its role and the others need, in the orders of
//! [`elastic`](super::elastic). Then all choices of so many of each, one after the other, those who
//! stand first most: which finds what members need that find places only together. At last the same
//! with more members than must begin, as few more as do: those whom others want near, or among whom
//! they spread, and whom no minimum counts.
//!
//! A gang that lost members of a role is completed, too, by others of the role than those who stand
//! first ([`joiners`](super::joiners)).
//!
//! Cost: nothing for gangs that fit, or of whose roles all look the same; for others at most
//! [`TRIES_MAX`] nominations, rolled back, [`TRIES_HELPED`] more where members help others, and
//! what the search says then. Nothing survives a restart, nothing needs to.

use std::collections::BTreeSet;

use crate::cycle::elastic::{COMBINATIONS_WIDE, TRIES_MAX};
use crate::cycle::toll::{PARTED_MAX, Toll};
use crate::cycle::{Entry, Premise, Verdict};
use crate::engine::Engine;
use crate::explain::reason::SearchBound;
use crate::model::ids::{PodIdx, ShapeIdx};
use crate::model::roles::Choices;
use crate::model::txn::Txn;
use crate::place::classes::Scoring;
use crate::place::coupled::{self, Count};
use crate::place::gang::TopologyAsk;
use crate::quota::flavors::SetDemand;

/// Steps from one slot to the next of one search, for each try.
const STEPS_MAX: u32 = 16 * TRIES_MAX;

/// Tries kept for choices with more members than must begin: a few are often enough to help.
pub(super) const TRIES_HELPED: u32 = 64;

/// Which slots help others, and how many members must begin, while more may.
type Helped = (Vec<bool>, u32);

/// One gang that does not begin with those who stand first.
struct Search<'a> {
    whole: &'a Entry,
    choices: Choices,
    /// Some begin for the sake of others.
    helped: Option<Helped>,
    topology: TopologyAsk,
    premise: Premise<'a>,
    /// Tries left.
    tries: u32,
    /// Choices that were looked at, by their members of each shape: who looks alike finds the same.
    seen: BTreeSet<Vec<(ShapeIdx, u32)>>,
    /// The best of them that could start, if that is better than what was found for who stands
    /// first.
    best: Option<Entry>,
    /// What others pay for the best so far.
    least: Option<Toll>,
    /// Choices left of which it is found out who leaves for them in the end.
    parted: u32,
    /// With more room on nodes some try might have ended otherwise.
    room: bool,
    /// Steps left to go through choices, of which many may be alike.
    steps: u32,
}

impl Engine {
    /// What is done for a gang that begins with others of its roles than those who stand first,
    /// where that is better; else what was found for those.
    pub(super) fn others_of_roles(
        &mut self,
        mut whole: Entry,
        (topology, premise): (TopologyAsk, Premise<'_>),
    ) -> Entry {
        if whole.verdict == Verdict::Fit {
            return whole;
        }
        let Some(choices) = self.state.choices(whole.workload) else { return whole };
        let mut search = Search {
            whole: &whole,
            choices,
            helped: None,
            topology,
            premise,
            tries: TRIES_MAX,
            seen: BTreeSet::new(),
            best: None,
            least: None,
            parted: PARTED_MAX,
            room: false,
            steps: STEPS_MAX,
        };
        let mut first: Vec<_> = whole.sets.iter().map(|set| (set.shape, set.count)).collect();
        first.sort_unstable();
        search.seen.insert(first);
        let slots = search.choices.slots.iter();
        let shapes: Vec<ShapeIdx> = slots.map(|slot| slot.shape).collect();
        for order in self.orders(&shapes) {
            let counts = search.fill(self, &order);
            if search.look_at(self, &counts) {
                break;
            }
        }
        if !search.fits() {
            let mut counts = vec![0; shapes.len()];
            search.look_at_all(self, 0, &mut counts);
        }
        let mut ended = search.ended();
        if !search.fits() {
            let helpers = self.helpers(&shapes);
            ended |= search.look_at_helped(self, helpers);
        }
        let Search { best, room, .. } = search;
        whole.room |= room;
        match best {
            Some(best) => best,
            None => {
                if ended {
                    let bound = SearchBound::Choices(TRIES_MAX);
                    let reason = whole.choice.reason.take();
                    whole.choice.reason = reason.map(|reason| reason.with_ended(bound));
                }
                whole
            }
        }
    }
}

impl Engine {
    /// Which of these shapes of a gang may open nodes for others of them.
    pub(super) fn helpers(&mut self, shapes: &[ShapeIdx]) -> Vec<bool> {
        let mut txn = Txn::begin(&mut self.state);
        // Of whatever flavor, and how well it suits does not matter.
        let class = |shape: &ShapeIdx| (txn.class(*shape, &[], Scoring::default()), 1);
        let asks: Vec<Count> = shapes.iter().map(class).collect();
        match coupled::are_coupled(&mut txn, &asks) {
            true => coupled::are_helpers(&mut txn, &asks),
            false => vec![false; asks.len()],
        }
    }
}

impl Search<'_> {
    /// Whether there may be choices that were not looked at.
    fn ended(&self) -> bool {
        self.tries == 0 || self.steps == 0
    }

    fn fits(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.verdict == Verdict::Fit)
    }

    /// As many of each slot as find places beside those of the slots before it, and as the other
    /// roles leave.
    fn fill(&mut self, engine: &mut Engine, order: &[usize]) -> Vec<u32> {
        let mut counts = vec![0; order.len()];
        for (step, &at) in order.iter().enumerate() {
            let (low, high) = self.choices.range(&counts, at, &order[step + 1..]);
            let (mut fits, mut next) = (low, high);
            let mut most = high;
            while fits < most && self.tries > 0 {
                counts[at] = next;
                match self.attempt(engine, &counts).verdict {
                    Verdict::Fit => fits = next,
                    _ => most = next - 1,
                }
                next = fits + (most - fits).div_ceil(2);
            }
            counts[at] = fits;
        }
        counts
    }

    /// Looks at every choice, of the slots from this one on; whether one fits.
    fn look_at_all(&mut self, engine: &mut Engine, at: usize, counts: &mut Vec<u32>) -> bool {
        self.steps = self.steps.saturating_sub(1);
        if at == counts.len() {
            return self.look_at(engine, counts);
        }
        let rest: Vec<usize> = (at + 1..counts.len()).collect();
        let (low, high) = self.choices.range(counts, at, &rest);
        let high = high.min(most_beside(self.helped.as_ref(), at, counts));
        for count in (low..=high).rev() {
            counts[at] = count;
            if self.ended() {
                break;
            }
            if self.look_at_all(engine, at + 1, counts) {
                return true;
            }
        }
        counts[at] = 0;
        false
    }

    /// Looks at choices with more members than must begin, one more of those who help others each
    /// time, until one fits; whether there may be some that were not looked at.
    fn look_at_helped(&mut self, engine: &mut Engine, helpers: Vec<bool>) -> bool {
        let most = self.choices.most_with(&helpers);
        self.helped = Some((helpers, self.choices.all));
        (self.tries, self.steps) = (self.tries.max(TRIES_HELPED), STEPS_MAX);
        while self.choices.all < most && !self.ended() {
            self.choices.all += 1;
            let mut counts = vec![0; self.choices.slots.len()];
            if self.look_at_all(engine, 0, &mut counts) {
                break;
            }
        }
        self.ended()
    }

    /// Looks at a choice, unless it was; whether it fits.
    fn look_at(&mut self, engine: &mut Engine, counts: &[u32]) -> bool {
        let of_shapes = self.choices.of_shapes(counts);
        if !self.seen.insert(of_shapes) {
            return self.fits();
        }
        let entry = self.attempt(engine, counts);
        let better = match entry.verdict {
            Verdict::Fit => true,
            Verdict::Preempt(_) => self.costs_less(engine, &entry),
            Verdict::Blocked | Verdict::NoFit => false,
        };
        if better {
            self.best = Some(entry);
        }
        self.fits()
    }

    /// Whether others pay less for a choice than for the best so far, for which nobody may do: it
    /// is the best then.
    fn costs_less(&mut self, engine: &mut Engine, entry: &Entry) -> bool {
        let (whole, gone) = (self.whole, self.premise.gone);
        if self.least.is_none() && matches!(whole.verdict, Verdict::Preempt(_)) {
            self.least = Some(engine.toll_of(whole, gone, &mut self.parted));
        }
        let toll = engine.toll_of(entry, gone, &mut self.parted);
        let less = self.least.is_none_or(|least| toll < least);
        if less {
            self.least = Some(toll);
        }
        less
    }

    /// What is found for so many of each slot, who begin without the others.
    fn attempt(&mut self, engine: &mut Engine, counts: &[u32]) -> Entry {
        self.tries = self.tries.saturating_sub(1);
        let (queue, workload) = (self.whole.queue, self.whole.workload);
        let of_shapes = self.choices.of_shapes(counts);
        let mut sets: Vec<SetDemand> = Vec::new();
        for set in &engine.state.workloads[workload].sets {
            let count = of_shapes.iter().find(|(shape, _)| *shape == set.shape);
            if let Some((shape, count)) = count.copied() {
                sets.push(SetDemand { shape, name: set.name.clone(), count });
            }
        }
        let later = self.choices.others(counts);
        let before = engine.state.begin_without(workload, &later);
        let premise = (self.topology, self.premise, COMBINATIONS_WIDE);
        let fits = |entry: &Entry| matches!(entry.verdict, Verdict::Fit | Verdict::Preempt(_));
        let mut entry = engine.scan_fewer((queue, workload), &sets, premise, &fits);
        engine.state.begin_without(workload, &before);
        entry.choice.next.clear();
        self.room |= entry.room;
        entry.later = Some(later);
        entry
    }
}

/// The most of a slot beside so many of those before it: of those who help nobody no more begin
/// than must.
fn most_beside(helped: Option<&Helped>, at: usize, counts: &[u32]) -> u32 {
    let Some((helpers, least)) = helped.filter(|(helpers, _)| !helpers[at]) else {
        return u32::MAX;
    };
    let before = counts[..at].iter().zip(helpers).filter(|(_, helps)| !**helps);
    least.saturating_sub(before.map(|(count, _)| count).sum())
}

impl Choices {
    /// How many may begin where these slots help others, of whom no more begin than must.
    pub(super) fn most_with(&self, helpers: &[bool]) -> u32 {
        let (mut own, mut more) = (0, 0);
        for (slot, helps) in self.slots.iter().zip(helpers) {
            let members = if *helps { &mut more } else { &mut own };
            *members += slot.members.len() as u32;
        }
        self.all.min(own).saturating_add(more)
    }

    /// The fewest and the most of a slot, beside so many of those before it, that leave enough of
    /// `rest` to each role, and to those who begin in any case.
    fn range(&self, counts: &[u32], at: usize, rest: &[usize]) -> (u32, u32) {
        let has = |at: &usize| self.slots[*at].members.len() as u32;
        if self.slots[at].fixed {
            return (has(&at), has(&at));
        }
        let fixed = |role: Option<usize>| -> u32 {
            let of_role = |at: &&usize| self.slots[**at].fixed && self.slots[**at].role == role;
            rest.iter().filter(of_role).map(has).sum()
        };
        let of = |role: usize| {
            let slots = self.slots.iter().zip(counts).filter(move |(it, _)| it.role == Some(role));
            self.least[role].saturating_sub(slots.map(|(_, count)| count).sum())
        };
        let left = self.all.saturating_sub(counts.iter().sum());
        let own = self.slots[at].role;
        let others = (0..self.least.len()).filter(|role| Some(*role) != own);
        let others: u32 = others.map(|role| of(role).max(fixed(Some(role)))).sum();
        let others = others + fixed(own) + own.map_or(0, |_| fixed(None));
        let same = rest.iter().filter(|at| self.slots[**at].role == own).map(has).sum();
        let most = has(&at).min(left.saturating_sub(others));
        let needed = own.map_or(0, of).saturating_sub(same);
        let needed = needed.max(left.saturating_sub(rest.iter().map(has).sum()));
        (needed.min(most), most)
    }

    /// How many of each shape so many of each slot are, by shape; those of which there are none are
    /// left out.
    fn of_shapes(&self, counts: &[u32]) -> Vec<(ShapeIdx, u32)> {
        let mut of_shapes: Vec<(ShapeIdx, u32)> = Vec::new();
        for (slot, count) in self.slots.iter().zip(counts).filter(|(_, count)| **count > 0) {
            match of_shapes.iter_mut().find(|(shape, _)| *shape == slot.shape) {
                Some((_, sum)) => *sum += count,
                None => of_shapes.push((slot.shape, *count)),
            }
        }
        of_shapes.sort_unstable();
        of_shapes
    }

    /// So many choices at most, those who stand first most; of those that look alike the first. And
    /// whether those are all that there are.
    pub(super) fn first(&self, most: usize, helped: Option<&Helped>) -> (Vec<Vec<u32>>, bool) {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut steps = STEPS_MAX;
        let mut open: Vec<Vec<u32>> = vec![Vec::new()];
        while let Some(begun) = open.pop() {
            if found.len() == most || steps == 0 {
                return (found, false);
            }
            steps -= 1;
            let at = begun.len();
            if at == self.slots.len() {
                let whole = begun.iter().sum::<u32>() == self.all;
                if whole && seen.insert(self.of_shapes(&begun)) {
                    found.push(begun);
                }
                continue;
            }
            let rest: Vec<usize> = (at + 1..self.slots.len()).collect();
            let (low, high) = self.range(&begun, at, &rest);
            let high = high.min(most_beside(helped, at, &begun));
            // The last one is taken up first.
            open.extend((low..=high).map(|count| [&begun[..], &[count]].concat()));
        }
        (found, true)
    }

    /// Who begins, in order.
    pub(super) fn members(&self, counts: &[u32]) -> Vec<PodIdx> {
        let slots = self.slots.iter().zip(counts);
        slots.flat_map(|(slot, count)| slot.members[..*count as usize].iter().copied()).collect()
    }

    /// Who does not begin, of those who could.
    pub(super) fn others(&self, counts: &[u32]) -> BTreeSet<PodIdx> {
        let slots = self.slots.iter().zip(counts);
        let others = slots.flat_map(|(slot, count)| &slot.members[*count as usize..]);
        others.chain(&self.off).copied().collect()
    }
}
