//! What was promised comes first: claims whose victims left, gangs with missing members, and work
//! for which victims of an engine before this one leave.
//!
//! A reserved workload goes where it was planned if that still holds, else wherever it fits now;
//! if it fits nowhere it gives its claim up and queues again. Members that a running gang lost
//! (or gained) are placed beside the others: those below its minimum first and together, those
//! above it last and one by one. Heads that could stop the gang for the room that those take go
//! before them: they would stop all of it, and the room would be lost twice.

use capstan_topology::NodeIdx;

use crate::cycle::{Entry, Head, Round, Verdict, elastic};
use crate::engine::Engine;
use crate::explain::reason::Reason;
use crate::model::claim::Claim;
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, QuotaIdx, ShapeIdx, WorkloadIdx};
use crate::model::state::{ClusterState, Held};
use crate::model::txn::Txn;
use crate::model::workload::Assignment;
use crate::place::gang::{self, Ask};
use crate::plan::State;
use crate::resources;
use crate::time::Time;
use crate::victims::{Victim, candidates};

/// Work for which victims of an engine before this one leave.
#[derive(Debug, Default)]
pub(super) struct Promised {
    /// What was settled first: not to be looked at again in this round.
    settled: Vec<Head>,
    /// What is settled together with the heads, the first of its queue or not.
    among_heads: Vec<Head>,
}

impl Promised {
    /// Whom to settle: those of `heads` that were not settled, and those to go among them whose
    /// queue is `meant`.
    pub(super) fn with(
        &self,
        mut heads: Vec<Head>,
        meant: impl Fn(Option<QueueIdx>) -> bool,
    ) -> Vec<Head> {
        heads.extend(self.among_heads.iter().filter(|(queue, _)| meant(*queue)));
        heads.retain(|head| !self.settled.contains(head));
        heads.sort_unstable();
        heads.dedup();
        heads
    }

    /// Marks those who go among the heads.
    pub(super) fn mark(&self, entries: &mut [Entry]) {
        for entry in entries {
            entry.promised = self.among_heads.contains(&(entry.queue, entry.workload));
        }
    }
}

/// What became of a claim whose victims have left.
enum Redeemed {
    /// Its members have their places.
    Placed,
    /// It will fit once victims of others have left, which hold quota until then.
    NotYet,
    /// It fits nowhere any more.
    NeverFits,
}

impl Engine {
    /// Claims whose victims left.
    pub(crate) fn redeem_claims(&mut self, now: Time, round: &mut Round) {
        let mut ready: Vec<WorkloadIdx> = self.state.claims.workloads().collect();
        ready.retain(|workload| {
            let claim = self.state.claims.get(*workload).expect("just listed");
            claim.victims.is_empty()
        });
        self.state.in_queue_order(&mut ready);
        for workload in ready {
            let claim = self.state.drop_claim(workload).expect("just listed");
            match self.redeem(workload, &claim) {
                Redeemed::Placed => self.admit(now, workload),
                Redeemed::NotYet => {
                    self.state.add_claim(workload, claim.assignment, claim.places, Vec::new());
                    continue;
                }
                Redeemed::NeverFits => {
                    // What it kept is free for others.
                    self.state.workloads[workload].state = State::Queued;
                    self.mark(workload);
                    self.refile(workload, now);
                    self.waiting.wake(|_| true, |_| true);
                    self.growth.append(&mut self.growth_parked);
                }
            }
            round.decided = true;
        }
    }

    /// Settles those first, head of their queue or not, for whom victims of an engine before this
    /// one leave, if nobody else has to leave for them. Who fits without, and has a head that fits
    /// before it, takes its turn among the heads. For anything more they wait their turn.
    pub(super) fn settle_promised(&mut self, now: Time, round: &mut Round) -> Promised {
        let mut promised = Promised::default();
        let (mut first, mut fit) = (Vec::new(), Vec::new());
        for (queue, workload) in self.promised_before() {
            let entry = self.nominate(queue, workload);
            match self.needs_no_more(&entry.verdict) {
                true if entry.verdict == Verdict::Fit => fit.push(entry),
                true => first.push(entry),
                false => {}
            }
        }
        let ahead = match fit.is_empty() {
            true => Vec::new(),
            false => self.fitting_heads(),
        };
        let before = |entry: &Entry| ahead.iter().any(|head| self.goes_before(head, entry));
        let (among, free): (Vec<Entry>, Vec<Entry>) = fit.into_iter().partition(before);
        let name = |entry: &Entry| (entry.queue, entry.workload);
        promised.among_heads = among.iter().map(name).collect();
        promised.settled = first.iter().chain(&free).map(name).collect();
        // Who fits by now needs less of what is free than who does not: it has victims too.
        self.settle_in_order(now, first, round);
        let free = free.into_iter().map(|entry| Entry { promised: true, ..entry }).collect();
        self.settle_in_order(now, free, round);
        promised
    }

    /// Heads of queues, and of work without a queue, that fit as things are.
    fn fitting_heads(&mut self) -> Vec<Entry> {
        let heads = self.still_ahead(&[]).collect();
        let mut entries = self.nominate_all(heads);
        entries.retain(|entry| entry.verdict == Verdict::Fit);
        entries
    }

    /// Of a queue from which several are settled in one round, who fits and stands further back
    /// counts as borrowing no less than those before it that fit: it goes after them. `entries`
    /// stand in order of queues.
    pub(super) fn keep_queue_order(&self, entries: &mut [Entry]) {
        let of_one_queue = |a: &Entry, b: &Entry| a.queue == b.queue;
        for together in entries.chunk_by_mut(of_one_queue).filter(|some| some.len() > 1) {
            let order = |entry: &Entry| self.state.queue_order(entry.workload);
            together.sort_by(|a, b| order(a).cmp(&order(b)));
            let mut most = 0;
            for entry in together.iter_mut().filter(|entry| entry.verdict == Verdict::Fit) {
                most = most.max(entry.choice.borrowing);
                entry.choice.borrowing = most;
            }
        }
    }

    /// Keeps the quota of those who go among the heads, and fit, until it is their turn, but for
    /// what their victims still hold, as a claim would: it may be what others of them left.
    pub(super) fn keep_quota(&mut self, entries: &[Entry]) {
        let fits = |entry: &&Entry| entry.promised && entry.verdict == Verdict::Fit;
        for entry in entries.iter().filter(fits) {
            let Some(queue) = entry.queue else { continue };
            for &(fr, asked) in &entry.choice.usage {
                let amount = (asked - self.still_to_come(entry.workload, fr)).max(0);
                self.state.hold(Held { queue, fr, amount, by: entry.workload, promised: true });
            }
        }
    }

    /// What those hold who leave for a workload on behalf of an engine before this one.
    fn still_to_come(&self, workload: WorkloadIdx, fr: FrIdx) -> i64 {
        let state = &self.state;
        let name = &state.workloads[workload].full_name;
        let leave = state.inherited.iter().filter(|(_, note)| note.preemptor == *name);
        let amounts = leave.flat_map(|(victim, _)| {
            let held = state.workloads[*victim].assignment.as_ref();
            let pods = state.placed(*victim).map(|pod| state.pods[pod].shape);
            let sets = pods.filter_map(move |shape| held?.set(shape));
            sets.flat_map(|set| &set.charge).filter(move |(of, _)| *of == fr).map(|(_, n)| *n)
        });
        resources::total(amounts)
    }

    /// The turn of one that goes among the heads: what it fits into may be taken by now, and then
    /// it has what it was promised.
    pub(super) fn as_promised(&mut self, entry: Entry) -> Entry {
        let now = self.nominate(entry.queue, entry.workload);
        match self.needs_no_more(&now.verdict) {
            true => now,
            false => entry,
        }
    }

    /// Whether nobody has to leave who is not leaving.
    fn needs_no_more(&self, verdict: &Verdict) -> bool {
        let leaving = |victim: &Victim| self.state.leaving(victim.workload);
        match verdict {
            Verdict::Fit => true,
            Verdict::Preempt(victims) => victims.iter().all(leaving),
            Verdict::Blocked | Verdict::NoFit => false,
        }
    }

    /// Whether a head is settled before another entry, be that the first of its queue or not.
    fn goes_before(&self, head: &Entry, entry: &Entry) -> bool {
        if head.queue == entry.queue {
            return head.workload != entry.workload;
        }
        match (head.queue, entry.queue) {
            (Some(_), Some(_)) => self.settling_order(head) < self.settling_order(entry),
            // What has no claim to anything comes last.
            (ours, _) => ours.is_some(),
        }
    }

    /// Places what gangs lack that run below their minimum, but for those that a head still to be
    /// looked at could stop.
    pub(crate) fn complete_gangs(&mut self, now: Time, looked_at: &[Head], round: &mut Round) {
        for workload in self.growing(true) {
            let state = &self.state;
            let stops = |(queue, head)| candidates::could_take(state, head, queue, workload);
            if !self.still_ahead(looked_at).any(stops) {
                self.grow(now, workload, round);
            }
        }
    }

    /// Extra members of elastic gangs, after everybody else.
    pub(crate) fn place_extras(&mut self, now: Time, round: &mut Round) {
        for workload in self.growing(false) {
            match self.holds_extras(workload) {
                None => self.grow(now, workload, round),
                why => {
                    let waiting = self.needy(workload);
                    self.extras_wait(workload, waiting.len() as u32, why);
                }
            }
        }
    }

    /// Places a reserved workload.
    fn redeem(&mut self, workload: WorkloadIdx, claim: &Claim) -> Redeemed {
        let queue = claim.assignment.queue;
        let profile = self.profile(queue);
        let Ok(topology) = self.topology_ask(queue, workload) else {
            return Redeemed::NeverFits;
        };
        let mut txn = Txn::begin(&mut self.state);
        txn.assign(workload, Some(claim.assignment.clone()));
        let members = claim.places.iter().map(|(pod, _)| *pod);
        let Some(asks) = asks_with(&mut txn, &claim.assignment, members, profile) else {
            return Redeemed::NeverFits;
        };
        let start = txn.checkpoint();
        let planned = place_as_planned(&mut txn, &asks, &claim.places);
        if !planned {
            txn.rollback_to(start);
        }
        let placed = planned || gang::place(&mut txn, &asks, topology);
        if !placed || !within_quota(&txn, claim) {
            return Redeemed::NeverFits;
        }
        let end = txn.checkpoint();
        txn.count_no_claims();
        let fits_now = within_quota(&txn, claim);
        txn.rollback_to(end);
        if !fits_now {
            return Redeemed::NotYet;
        }
        txn.commit();
        Redeemed::Placed
    }

    /// Workloads that hold quota and have members without a place: below their minimum, or above.
    fn growing(&self, below: bool) -> Vec<WorkloadIdx> {
        let needs = |workload: &WorkloadIdx| {
            let entry = &self.state.workloads[*workload];
            let placed = self.state.placed(*workload).count() as u32;
            (placed < entry.min_member) == below
        };
        let mut growing: Vec<WorkloadIdx> = self.growth.iter().copied().filter(needs).collect();
        self.state.in_queue_order(&mut growing);
        growing
    }

    /// Places members that have no place: those below the minimum together, others one by one.
    fn grow(&mut self, now: Time, workload: WorkloadIdx, round: &mut Round) {
        let placed = self.state.placed(workload).count() as u32;
        let missing = self.state.workloads[workload].min_member.saturating_sub(placed);
        let groups = self.needy_by_shape(workload);
        let grown = match missing {
            0 => self.place_some(workload, &groups),
            _ if self.queueless(workload).is_some() => false,
            missing => self.place_missing(workload, &groups, missing),
        };
        // What is above the minimum is looked at again, after everybody else.
        if !(grown && missing > 0) {
            self.growth.remove(&workload);
        }
        if grown {
            round.decided = true;
            let assignment = self.state.workloads[workload].assignment.as_ref();
            round.gained.extend(assignment.and_then(|assignment| assignment.queue));
            if matches!(self.state.workloads[workload].reason, Some(Reason::Extras { .. })) {
                self.clear_reason(workload);
            }
            match missing {
                0 => self.send(now, workload),
                _ => self.complete(now, workload),
            }
            return;
        }
        self.growth_parked.insert(workload);
        let waiting: Vec<PodIdx> = groups.into_iter().flatten().collect();
        match missing {
            _ if waiting.is_empty() => {}
            0 => {
                let then = self.no_place(workload, &waiting, 1);
                self.extras_wait(workload, waiting.len() as u32, then);
            }
            _ => self.incomplete(workload, &waiting),
        }
    }

    /// Members that wait for a place.
    pub(super) fn needy(&self, workload: WorkloadIdx) -> Vec<PodIdx> {
        let pods = &self.state.pods;
        let needy = |pod: &PodIdx| pods[*pod].needs_place() && !pods[*pod].kept();
        self.state.unplaced(workload).filter(needy).collect()
    }

    /// Members without a place, those of one shape together, in order.
    fn needy_by_shape(&self, workload: WorkloadIdx) -> Vec<Vec<PodIdx>> {
        let pods = &self.state.pods;
        let mut groups: Vec<Vec<PodIdx>> = Vec::new();
        for pod in self.needy(workload) {
            match groups.iter_mut().find(|group| pods[group[0]].shape == pods[pod].shape) {
                Some(group) => group.push(pod),
                None => groups.push(vec![pod]),
            }
        }
        groups
    }

    /// Places as many members as fit, one by one; whether any did.
    fn place_some(&mut self, workload: WorkloadIdx, groups: &[Vec<PodIdx>]) -> bool {
        let mut grown = false;
        for group in groups {
            // Where one does not fit, no other of its shape does.
            let fits = |pod: &&PodIdx| self.place_members(workload, &[**pod], true);
            grown |= group.iter().take_while(fits).count() > 0;
        }
        grown
    }

    /// Places exactly the members that a gang cannot run without, whichever fit; else none.
    fn place_missing(
        &mut self,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
        missing: u32,
    ) -> bool {
        let limits: Vec<u32> = groups.iter().map(|group| group.len() as u32).collect();
        let mut tries = elastic::TRIES_MAX;
        let shapes: Vec<_> = groups.iter().map(|group| self.state.pods[group[0]].shape).collect();
        for order in self.orders(&shapes) {
            let members = |counts: &[u32]| -> Vec<PodIdx> {
                let taken = groups.iter().zip(counts);
                taken.flat_map(|(group, count)| &group[..*count as usize]).copied().collect()
            };
            let exactly = (missing, missing);
            let counts = elastic::fill(&limits, &order, exactly, &mut tries, |counts| {
                self.place_members(workload, &members(counts), false)
            });
            if let Some(counts) = counts {
                return self.place_members(workload, &members(&counts), true);
            }
        }
        false
    }

    /// Places some members with the flavors that the workload has; kept, or only tried.
    fn place_members(&mut self, workload: WorkloadIdx, members: &[PodIdx], keep: bool) -> bool {
        let Ok(assignment) = self.with_all_shapes(workload, members) else { return false };
        let queue = assignment.queue;
        let profile = self.profile(queue);
        let Ok(topology) = self.topology_ask(queue, workload) else { return false };
        let mut txn = Txn::begin(&mut self.state);
        txn.assign(workload, Some(assignment.clone()));
        let members = members.iter().copied();
        let Some(asks) = asks_with(&mut txn, &assignment, members, profile) else { return false };
        let room_before = quota_room(&mut txn, queue);
        let peers = peers(txn.state(), workload);
        if !gang::place_beside(&mut txn, &asks, topology, &peers) {
            return false;
        }
        let fits = room_before.iter().all(|(node, fr, left)| {
            let before = txn.state().quota.tree.usage(*node, *fr);
            before <= *left
        });
        if fits && keep {
            txn.commit();
        }
        fits
    }
}

/// Where the members that have a place are.
pub(super) fn peers(state: &ClusterState, workload: WorkloadIdx) -> Vec<(ShapeIdx, NodeIdx)> {
    let placed = state.placed(workload).map(|pod| &state.pods[pod]);
    placed.filter_map(|pod| Some((pod.shape, pod.place?))).collect()
}

/// Members with the flavors of an assignment, by class; `None`: a member is gone, or has none.
fn asks_with(
    txn: &mut Txn<'_>,
    assignment: &Assignment,
    members: impl Iterator<Item = PodIdx>,
    profile: u32,
) -> Option<Vec<Ask>> {
    let mut asks: Vec<Ask> = Vec::new();
    for pod in members {
        let shape = txn.state().pods.get(pod)?.shape;
        let class = txn.class(shape, &assignment.set(shape)?.nodes_of, profile);
        match asks.iter_mut().find(|ask| ask.class == class) {
            Some(ask) => ask.pods.push(pod),
            None => asks.push(Ask { class, pods: vec![pod] }),
        }
    }
    Some(asks)
}

/// For each flavor and resource of a queue: the usage that it may not exceed, neither now nor
/// once victims of others have left.
fn quota_room(txn: &mut Txn<'_>, queue: Option<QueueIdx>) -> Vec<(QuotaIdx, FrIdx, i64)> {
    let quota = &txn.state().quota;
    let Some(node) = queue.and_then(|queue| quota.queue(queue).node) else { return Vec::new() };
    let left = |txn: &Txn<'_>| -> Vec<i64> {
        let tree = &txn.state().quota.tree;
        tree.covered(node).map(|fr| tree.available(node, fr)).collect()
    };
    let then = left(txn);
    let start = txn.checkpoint();
    txn.count_no_claims();
    let now = left(txn);
    txn.rollback_to(start);
    let tree = &txn.state().quota.tree;
    let most = |(fr, (then, now)): (FrIdx, (i64, i64))| {
        (node, fr, tree.usage(node, fr).saturating_add(then.min(now)))
    };
    tree.covered(node).zip(then.into_iter().zip(now)).map(most).collect()
}

/// Every member to the node that was planned, if all of them still fit there.
fn place_as_planned(txn: &mut Txn<'_>, asks: &[Ask], places: &[(PodIdx, NodeIdx)]) -> bool {
    for ask in asks {
        for &(pod, node) in places.iter().filter(|(pod, _)| ask.pods.contains(pod)) {
            txn.fresh(ask.class);
            let Some(position) = txn.state().room.tree.position(node) else { return false };
            if txn.state().classes.fit(ask.class).spot(position).slots == 0 {
                return false;
            }
            txn.place(pod, node);
        }
    }
    true
}

/// Whether a queue is within what its quota rules leave it of all that a claim charges.
fn within_quota(txn: &Txn<'_>, claim: &Claim) -> bool {
    let quota = &txn.state().quota;
    let queue = claim.assignment.queue;
    let Some(node) = queue.and_then(|queue| quota.queue(queue).node) else { return true };
    let charges = claim.assignment.sets.iter().flat_map(|set| &set.charge);
    charges.into_iter().all(|(fr, _)| !quota.tree.overdrawn(node, *fr))
}
