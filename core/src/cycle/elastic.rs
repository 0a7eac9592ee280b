//! Which members of an elastic gang start, when not all of them can.
//!
//! Problem: a gang needs its minimum, whichever members those are, and takes more where they fit.
//! With one shape that is a number; with several it matters which shapes are cut. The most
//! members that fit are found by filling the shapes one after the other, each as far as it goes
//! beside those before it, in a few orders: as the members stand, the other way round, and the
//! smallest first (which fits the most of anything that is counted in one sum, as quota is). Where
//! each shape has nodes of its own, any order finds the most.
//!
//! Wanted: fewer members fit wherever more do; the order of the members decides between equals;
//! no member is cut that a later look would have kept in the same order. Members of several shapes
//! may need each other to find nodes (a master and its workers, roles that spread together), or
//! exclude each other, and then it does not do that each shape goes as far as it can beside those
//! before it: who is left out is searched for ([`left_out`](super::left_out)).
//!
//! Where others leave for a minimum and more of its members would find places then, the minimum is
//! one of theirs, and its places are those that it would have with all of them: whoever joins last
//! finds what was left for it, unless somebody else took that. Nothing is kept for the rest.
//!
//! Of work that an owner makes in a queue (a Job with a minimum) as many start as fit or may stop
//! others for it, as in Kueue (spec/quota.md 13): all of them before any fewer, whoever has to
//! leave. Gangs of pods that are there and have a minimum are no matter of Kueue's: for them
//! somebody leaves for the minimum alone, and of the orders that find one that counts for which
//! others pay least ([`toll`](super::toll)); pods that are no gang (those of a plain Job without a
//! queue, or of a PodGroup that says so) start as far as they fit, and have others stopped for all
//! the rest. Where nothing fits, the gang waits for its smallest members that some node admits, and
//! says what those lack: what all of its members lack need never come.
//!
//! Cost: for each order and shape the logarithm of its members in tries, at most [`TRIES_MAX`] in
//! all; a try is a nomination of fewer members, rolled back. The same again, with [`TRIES_KEPT`] of
//! them, for each choice of whom to stop for a minimum, and for the one that is settled. Then what
//! the search for places may cost, once for the minimum as things are and once as if others had
//! left. Nothing survives a restart, nothing needs to.

use std::cmp::Reverse;

use crate::cycle::left_out::{Aim, Others};
use crate::cycle::nominate::{COMBINATIONS_FEWER, Look};
use crate::cycle::toll::{PARTED_MAX, Toll};
use crate::cycle::{Entry, Head, Premise, Verdict};
use crate::engine::Engine;
use crate::explain::reason::{Reason, SearchBound};
use crate::model::ids::{PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::workload::QueueRef;
use crate::place::gang::TopologyAsk;
use crate::quota::flavors::SetDemand;

/// Tries of one nomination, or of one look at members that a running gang lacks: enough for three
/// orders of eight shapes of a thousand members; a gang of more shapes takes what was found so
/// far.
pub(super) const TRIES_MAX: u32 = 256;

/// Of these, kept for the minimum alone, which may preempt: shapes are taken whole or cut once, so
/// it needs few.
const TRIES_KEPT: u32 = 64;

/// Looks of the scan of flavors in one try: a set may have to leave its first flavor to another
/// that has no choice.
const LOOKS_FEWER: u32 = 4;

/// Tries that look at every choice of flavors of a gang of five shapes and two flavors, which is
/// [`COMBINATIONS_WIDE`]; the others at [`COMBINATIONS_FEWER`].
const TRIES_WIDE: u32 = 48;

/// Of these, kept for the minimum alone.
const TRIES_WIDE_KEPT: u32 = 16;

/// All choices of two flavors for five shapes.
pub(super) const COMBINATIONS_WIDE: u32 = 32;

/// Gangs up to so many members are looked at whether others of them are more: a few are often told
/// apart by what they need, and a search of so many ends.
const RAISED_MAX: u32 = 16;

/// One elastic gang that does not fit whole.
pub(super) struct Search<'a> {
    pub whole: &'a Entry,
    pub sets: &'a [SetDemand],
    pub topology: TopologyAsk,
    pub premise: Premise<'a>,
    /// Tries left.
    tries: u32,
    /// Of these, those that may look at many choices of flavors.
    wide: u32,
    /// With more room on nodes some try might have ended otherwise.
    pub room: bool,
    /// Steps that searches for whom to leave out took.
    pub steps: u32,
    /// Where one of them ended before it had looked at everything.
    pub ended: Option<SearchBound>,
    /// Where the search for places of the last try did.
    pub tried: Option<SearchBound>,
    /// Enough members find places together as things are.
    pub some: bool,
    /// Choices left of which it is found out who leaves for them in the end.
    parted: u32,
}

impl Engine {
    /// A gang that does not fit whole: the most members that fit as things are, or for an owner's
    /// that others would leave for; else its minimum, which may preempt; else why its minimum
    /// waits.
    ///
    /// What the scan of flavors remembers is of all members: with fewer it begins anew each time,
    /// and goes on within the try.
    pub(super) fn nominate_fewer(
        &mut self,
        whole: &Entry,
        sets: &[SetDemand],
        (least, all): (u32, u32),
        (topology, premise): (TopologyAsk, Premise<'_>),
    ) -> Entry {
        let mut search = Search::new(whole, sets, (topology, premise));
        let somehow = |entry: &Entry| matches!(entry.verdict, Verdict::Fit | Verdict::Preempt(_));
        let partial = self.starts_in_part(whole.workload);
        let accepted: fn(&Entry) -> bool = if partial { somehow } else { fits_as_is };
        // What was promised to others after somebody leaves was promised to their minimum: the rest
        // comes last.
        if (partial || premise.gone.is_empty())
            && let Some(entry) = self.nominate_most(&mut search, (least, all - 1), accepted)
        {
            return entry;
        }
        search.tries += TRIES_KEPT;
        search.wide += TRIES_WIDE_KEPT;
        let found = self.members_by_order(&mut search, (least, least), somehow);
        if let Some(entry) = self.beside_most(&mut search, found) {
            return entry;
        }
        let as_is = !premise.gone.is_empty() || search.some;
        let others = [Some(Others::Stay).filter(|_| as_is), Some(Others::Leave)];
        for others in others.into_iter().flatten() {
            let aim = Aim { least, others, hard: true };
            let found = self.members_together(&mut search, aim, somehow);
            let found = found.into_iter().map(|entry| (least, entry)).collect();
            if let Some(entry) = self.beside_most(&mut search, found) {
                return entry;
            }
        }
        self.waits_for_minimum(&search)
    }

    /// Whether others are stopped for as many of its members as may start then, and not only for
    /// its minimum: an owner makes them, in a queue.
    pub(crate) fn starts_in_part(&self, workload: WorkloadIdx) -> bool {
        let queued = matches!(self.state.workloads[workload].queue, QueueRef::Queue(_));
        queued && self.state.owner_of(workload).is_some()
    }

    /// Whether it is no gang: all members that wait are work of their own.
    pub(super) fn each_by_itself(&self, workload: WorkloadIdx) -> bool {
        self.needy(workload).iter().all(self.stops_by_itself(workload))
    }

    /// Whether others are stopped for a member as for work of its own: not for those that stand
    /// lower than others of that kind, with whose priority nobody may be stopped for them.
    pub(super) fn stops_by_itself(&self, workload: WorkloadIdx) -> impl Fn(&PodIdx) -> bool + '_ {
        let pods = &self.state.pods;
        let own = self.state.workloads[workload].members.iter().map(|pod| &pods[*pod]);
        let own = own.filter(|pod| pod.gang.by_itself && pod.counts());
        let highest = own.map(|pod| pod.priority).max();
        move |pod| pods[*pod].gang.by_itself && Some(pods[*pod].priority) == highest
    }

    /// The most members that `fits` accepts.
    fn nominate_most(
        &mut self,
        search: &mut Search<'_>,
        (least, most): (u32, u32),
        fits: fn(&Entry) -> bool,
    ) -> Option<Entry> {
        let mut found = self.most_members(search, (least, most), fits);
        let others = Others::Stay;
        if found.is_none() {
            let aim = Aim { least, others, hard: true };
            found = self.members_together(search, aim, fits).map(|entry| (least, entry));
        }
        let (total, best) = found?;
        Some(self.one_by_one(search, (total, most), fits).unwrap_or(best))
    }

    /// One member more than so many, and again one more, as long as others of them find places
    /// together.
    fn one_by_one(
        &mut self,
        search: &mut Search<'_>,
        (mut total, most): (u32, u32),
        fits: fn(&Entry) -> bool,
    ) -> Option<Entry> {
        let mut best = None;
        while total < most && count(search.sets) <= RAISED_MAX {
            let aim = Aim { least: total + 1, others: Others::Stay, hard: false };
            let Some(entry) = self.members_together(search, aim, fits) else { break };
            (total, best) = (total + 1, Some(entry));
        }
        best
    }

    /// Of minimums that were found the one for which others pay least; of several such the one
    /// beside which the most members would find places then, the first of equals.
    fn beside_most(&mut self, search: &mut Search<'_>, found: Vec<(u32, Entry)>) -> Option<Entry> {
        let tolls = self.tolls(search, &found);
        let least = tolls.iter().min().copied()?;
        let mut tried: Vec<Vec<WorkloadIdx>> = Vec::new();
        let mut best: Option<(u32, Entry, Option<Entry>)> = None;
        for ((total, entry), toll) in found.into_iter().zip(tolls) {
            let gone = gone_for(search.premise, &entry);
            if toll > least || tried.contains(&gone) {
                continue;
            }
            let most = match gone.is_empty() {
                true => None,
                false => self.most_once_gone(&entry, &gone),
            };
            let stand = most.as_ref().map_or(total, |most| count(&most.sets));
            if best.as_ref().is_none_or(|(known, ..)| stand > *known) {
                best = Some((stand, entry, most));
            }
            tried.push(gone);
        }
        let (_, entry, most) = best?;
        let Some(most) = most.filter(|most| !has_all(most, &entry)) else { return Some(entry) };
        Some(self.minimum_of(search, &entry, &most).unwrap_or(entry))
    }

    /// A minimum among those who would find places together once others have left, for which no
    /// others leave than for the one that was found.
    fn minimum_of(
        &mut self,
        search: &mut Search<'_>,
        found: &Entry,
        most: &Entry,
    ) -> Option<Entry> {
        let of = |entry: &Entry, shape: ShapeIdx| {
            let set = entry.sets.iter().find(|set| set.shape == shape);
            set.map_or(0, |set| set.count)
        };
        let sets = search.sets;
        let shapes = || sets.iter().map(|set| set.shape);
        let mut counts: Vec<u32> =
            shapes().map(|shape| of(found, shape).min(of(most, shape))).collect();
        let mut left = count(&found.sets).saturating_sub(counts.iter().sum());
        for (own, shape) in counts.iter_mut().zip(shapes()) {
            let more = left.min(of(most, shape) - *own);
            *own += more;
            left -= more;
        }
        let premise = search.premise;
        let gone = gone_for(premise, found);
        self.try_counts(search, &counts, &|entry: &Entry| {
            let fits = matches!(entry.verdict, Verdict::Fit | Verdict::Preempt(_));
            fits && gone_for(premise, entry) == gone
        })
    }

    /// As many members as would start once these have left and nobody else, if those are more than
    /// an entry has.
    pub(super) fn most_once_gone(&mut self, entry: &Entry, gone: &[WorkloadIdx]) -> Option<Entry> {
        let (queue, workload) = (entry.queue, entry.workload);
        let sets = self.demands(workload);
        let (planned, all) = (count(&entry.sets), count(&sets));
        if planned >= all {
            return None;
        }
        let topology = self.topology_ask(queue, workload).ok()?;
        let premise = Premise { gone, nobody_leaves: true };
        let look = Look { start: &[], combinations: COMBINATIONS_FEWER, premise };
        let whole = self.try_sets(queue, workload, sets.clone(), topology, look);
        if fits_as_is(&whole) {
            return Some(whole);
        }
        let more = (planned + 1, all - 1);
        if more.0 > more.1 {
            return None;
        }
        let mut search = Search::new(&whole, &sets, (topology, premise));
        (search.tries, search.wide) = (TRIES_KEPT, TRIES_WIDE_KEPT);
        let found = self.most_members(&mut search, more, fits_as_is);
        let (total, best) = found.map_or((planned, None), |(total, best)| (total, Some(best)));
        self.one_by_one(&mut search, (total, more.1), fits_as_is).or(best)
    }

    /// Why the minimum waits.
    fn waits_for_minimum(&mut self, search: &Search<'_>) -> Entry {
        let (queue, workload) = (search.whole.queue, search.whole.workload);
        let minimum = self.least_demands(workload);
        let premise = search.premise;
        let look = Look { start: &[], combinations: COMBINATIONS_FEWER, premise };
        let mut entry = self.try_sets(queue, workload, minimum, search.topology, look);
        entry.room |= search.room;
        entry.choice.next = search.whole.choice.next.clone();
        if let Some(bound) = search.ended {
            let reason = entry.choice.reason.take();
            entry.choice.reason = reason.map(|reason| reason.with_ended(bound));
        }
        entry
    }

    /// The nomination with the most members, at least `least`, that `fits` accepts; of several the
    /// one for which others pay least, the first of equals.
    fn most_members(
        &mut self,
        search: &mut Search<'_>,
        range: (u32, u32),
        fits: impl Fn(&Entry) -> bool,
    ) -> Option<(u32, Entry)> {
        let found = self.members_by_order(search, range, fits);
        let tolls = self.tolls(search, &found);
        let in_order = found.into_iter().zip(tolls);
        let best = in_order.min_by_key(|((total, _), toll)| (Reverse(*total), *toll));
        best.map(|(found, _)| found)
    }

    /// What others pay for each of these; where there is no other it is asked of none.
    fn tolls(&mut self, search: &mut Search<'_>, found: &[(u32, Entry)]) -> Vec<Toll> {
        if found.len() < 2 {
            return vec![Toll::default(); found.len()];
        }
        let gone = search.premise.gone;
        let toll = |(_, entry): &(u32, Entry)| self.toll_of(entry, gone, &mut search.parted);
        found.iter().map(toll).collect()
    }

    /// For each order the nomination with the most members, at least `least`, that `fits` accepts,
    /// until one has all that are wanted and nobody leaves for it.
    fn members_by_order(
        &mut self,
        search: &mut Search<'_>,
        (least, most): (u32, u32),
        fits: impl Fn(&Entry) -> bool,
    ) -> Vec<(u32, Entry)> {
        let sets = search.sets;
        let mut limits: Vec<u32> = sets.iter().map(|set| set.count).collect();
        if let [only] = limits.as_mut_slice() {
            *only = most.min(*only);
        }
        let mut by_order: Vec<(u32, Entry)> = Vec::new();
        let shapes: Vec<ShapeIdx> = sets.iter().map(|set| set.shape).collect();
        for order in self.orders(&shapes) {
            let mut found = None;
            let mut tries = search.tries;
            let counts = fill(&limits, &order, (least, most), &mut tries, |counts| {
                let entry = self.try_counts(search, counts, &fits);
                let accepted = entry.is_some();
                found = entry.or(found.take());
                accepted
            });
            search.tries = tries;
            let Some(total) = counts.map(|counts| counts.iter().sum()) else { continue };
            let Some(entry) = found else { continue };
            let leave = entry.verdict.victims();
            by_order.push((total, entry));
            if total == most && leave == 0 {
                break;
            }
        }
        by_order
    }

    /// The nomination with so many members of each shape, if `fits` accepts it.
    pub(super) fn try_counts(
        &mut self,
        search: &mut Search<'_>,
        counts: &[u32],
        fits: &impl Fn(&Entry) -> bool,
    ) -> Option<Entry> {
        let head = (search.whole.queue, search.whole.workload);
        let fewer = with_counts(search.sets, counts);
        let premise = (search.topology, search.premise, combinations(&mut search.wide));
        let mut entry = self.scan_fewer(head, &fewer, premise, fits);
        entry.choice.next.clear();
        search.room |= entry.room;
        search.tried = entry.choice.reason.as_ref().and_then(Reason::ended);
        fits(&entry).then_some(entry)
    }

    /// The first nomination of a scan of flavors that `fits` accepts, else the first of all.
    pub(super) fn scan_fewer(
        &mut self,
        (queue, workload): Head,
        sets: &[SetDemand],
        (topology, premise, combinations): (TopologyAsk, Premise<'_>, u32),
        fits: &impl Fn(&Entry) -> bool,
    ) -> Entry {
        let mut try_from = |start: &[_]| {
            let look = Look { start, combinations, premise };
            self.try_sets(queue, workload, sets.to_vec(), topology, look)
        };
        let first = try_from(&[]);
        let (mut start, mut looks) = (first.choice.next.clone(), 1);
        let mut room = first.room;
        if fits(&first) {
            return first;
        }
        while !start.is_empty() && looks < LOOKS_FEWER {
            let mut entry = try_from(&start);
            room |= entry.room;
            if fits(&entry) {
                entry.room |= room;
                return entry;
            }
            start = std::mem::take(&mut entry.choice.next);
            looks += 1;
        }
        Entry { room, ..first }
    }

    /// Orders in which shapes are filled.
    pub(super) fn orders(&self, shapes: &[ShapeIdx]) -> Vec<Vec<usize>> {
        let as_they_stand: Vec<usize> = (0..shapes.len()).collect();
        let reversed = as_they_stand.iter().rev().copied().collect();
        let mut by_size = as_they_stand.clone();
        by_size.sort_by_key(|at| self.state.room.size(shapes[*at]));
        let mut orders = vec![as_they_stand, by_size, reversed];
        orders.dedup();
        orders
    }
}

impl<'a> Search<'a> {
    fn new(
        whole: &'a Entry,
        sets: &'a [SetDemand],
        (topology, premise): (TopologyAsk, Premise<'a>),
    ) -> Search<'a> {
        Search {
            whole,
            sets,
            topology,
            premise,
            tries: TRIES_MAX - TRIES_KEPT,
            wide: TRIES_WIDE - TRIES_WIDE_KEPT,
            room: whole.room,
            steps: 0,
            ended: None,
            tried: None,
            some: false,
            parted: PARTED_MAX,
        }
    }
}

fn fits_as_is(entry: &Entry) -> bool {
    entry.verdict == Verdict::Fit
}

fn count(sets: &[SetDemand]) -> u32 {
    sets.iter().map(|set| set.count).sum()
}

/// Who has left when an entry starts: whom it takes for gone, and its victims.
fn gone_for(premise: Premise<'_>, entry: &Entry) -> Vec<WorkloadIdx> {
    let victims = match &entry.verdict {
        Verdict::Preempt(victims) => &victims[..],
        Verdict::Fit | Verdict::Blocked | Verdict::NoFit => &[],
    };
    let victims = victims.iter().map(|victim| victim.workload);
    let mut gone: Vec<WorkloadIdx> = premise.gone.iter().copied().chain(victims).collect();
    gone.sort_unstable();
    gone
}

/// Whether an entry has all members of another one, with the same flavors.
pub(super) fn has_all(most: &Entry, entry: &Entry) -> bool {
    entry.sets.iter().zip(&entry.choice.sets).all(|(set, flavors)| {
        let mut sets = most.sets.iter().zip(&most.choice.sets);
        sets.any(|(of, chosen)| of.shape == set.shape && of.count >= set.count && chosen == flavors)
    })
}

/// How many choices of flavors a try looks at.
fn combinations(wide: &mut u32) -> u32 {
    let some = *wide > 0;
    *wide = wide.saturating_sub(1);
    if some { COMBINATIONS_WIDE } else { COMBINATIONS_FEWER }
}

/// The same sets with these counts; those without members are left out.
pub(super) fn with_counts(sets: &[SetDemand], counts: &[u32]) -> Vec<SetDemand> {
    let mut sets = sets.to_vec();
    for (set, count) in sets.iter_mut().zip(counts) {
        set.count = *count;
    }
    sets.retain(|set| set.count > 0);
    sets
}

/// Fills the places of `limits` in an order, each as far as `fits` allows beside those before it,
/// at most `most` in all. `None`: not even `least` in this order.
pub(super) fn fill(
    limits: &[u32],
    order: &[usize],
    (least, most): (u32, u32),
    tries: &mut u32,
    mut fits: impl FnMut(&[u32]) -> bool,
) -> Option<Vec<u32>> {
    let mut counts = vec![0; limits.len()];
    let mut left = most;
    let mut later: u32 = limits.iter().sum();
    for &at in order {
        later -= limits[at];
        let (mut low, mut high) = (0, limits[at].min(left));
        // With fewer of these, those after them could not make up the minimum.
        let floor = least.saturating_sub(most - left).saturating_sub(later);
        if floor > high {
            return None;
        }
        let mut probe = high;
        while low < high && *tries > 0 {
            *tries -= 1;
            counts[at] = probe;
            if fits(&counts) {
                low = probe;
            } else if probe <= floor {
                return None;
            } else {
                high = probe - 1;
            }
            let middle = low + (high - low).div_ceil(2);
            probe = if low < floor { floor } else { middle };
        }
        counts[at] = low;
        left -= low;
    }
    (most - left >= least).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn each_shape_goes_as_far_as_it_can_beside_those_before_it() {
        // Sizes 3 and 1 in a room of 10.
        let fits = |counts: &[u32]| counts[0] * 3 + counts[1] <= 10;
        let limits = [4, 8];
        let most = |order: &[usize], range| fill(&limits, order, range, &mut 99, fits);
        assert_eq!(most(&[0, 1], (0, 12)), Some(vec![3, 1]));
        assert_eq!(most(&[1, 0], (0, 12)), Some(vec![0, 8]));
        assert_eq!(most(&[1, 0], (0, 5)), Some(vec![0, 5]));
        assert_eq!(most(&[0, 1], (4, 12)), Some(vec![3, 1]));
        assert_eq!(most(&[0, 1], (5, 12)), None);
    }

    #[test]
    fn a_shape_that_fits_nowhere_hides_no_other() {
        let only_second = fill(&[5, 4], &[0, 1], (1, 9), &mut 99, |counts| counts[0] == 0);
        assert_eq!(only_second, Some(vec![0, 4]));
        assert_eq!(fill(&[5, 4], &[0, 1], (1, 9), &mut 99, |_| false), None);
    }

    #[test]
    fn below_the_minimum_nothing_is_tried() {
        let mut tried = Vec::new();
        let found = fill(&[64], &[0], (32, 63), &mut 99, |counts| {
            tried.push(counts[0]);
            false
        });
        assert_eq!((found, tried), (None, vec![63, 32]));
    }

    #[test]
    fn the_bound_keeps_what_was_found() {
        let mut tries = 1;
        assert_eq!(fill(&[5, 4], &[0, 1], (2, 9), &mut tries, |_| true), Some(vec![5, 0]));
        assert_eq!(tries, 0);
    }

    #[test]
    fn the_smallest_first_fit_the_most() {
        let cases = (0..3 * 3 * 4 * 4 * 4 * 24).map(|n| {
            let sizes = [1 + n % 3, 1 + n / 3 % 3, 2];
            (sizes, [n / 9 % 4, n / 36 % 4, n / 144 % 4], n / 576)
        });
        for (sizes, limits, room) in cases {
            let weigh = |c: &[u32]| c.iter().zip(sizes).map(|(n, size)| n * size).sum::<u32>();
            let mut order = [0, 1, 2];
            order.sort_by_key(|at| sizes[*at]);
            let found = fill(&limits, &order, (0, 99), &mut 99, |c| weigh(c) <= room);
            let every = |at: usize| 0..=limits[at];
            let all =
                every(0).flat_map(|a| every(1).flat_map(move |b| every(2).map(move |c| [a, b, c])));
            let most = all.filter(|c| weigh(c) <= room).map(|c| c.iter().sum::<u32>()).max();
            let found = found.map(|counts| counts.iter().sum());
            assert_eq!(found, most, "sizes {sizes:?}, limits {limits:?}, room {room}");
        }
    }
}
