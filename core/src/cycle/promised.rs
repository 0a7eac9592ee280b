//! What was promised comes first: claims whose victims left, gangs with missing members, and work
//! for which victims of an engine before this one leave.
//!
//! A reserved workload goes where it was planned if that still holds, else wherever it fits now;
//! if it fits nowhere it gives its claim up and queues again. Members that a running gang lost
//! (or gained) are placed beside the others: those below its minimum first and together, those
//! above it last and one by one. Heads that could stop the gang for the room that those take go
//! before them: they would stop all of it, and the room would be lost twice.
//!
//! Places kept for pods of a resumed owner do not outlive a restart, what is written on the owner
//! does: they are kept anew, before anybody else is looked at.
//!
//! Claims do not outlive a restart, marks on victims do. Who is named there claims again, as if its
//! victims had left, which is what the engine before this one did: it plans the same, nobody takes
//! what another counts on, and heads find the state that they would have found.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_topology::NodeIdx;

use crate::cycle::left_out::members_of;
use crate::cycle::{Entry, Head, Premise, Round, Verdict, elastic};
use crate::engine::Engine;
use crate::explain::reason::Reason;
use crate::model::claim::Claim;
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, QuotaIdx, ShapeIdx, WorkloadIdx};
use crate::model::pod::Pod;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::workload::Assignment;
use crate::place::classes::{Paying, Scoring};
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::plan::State;
use crate::quota::money::{self, Purse};
use crate::time::Time;
use crate::victims::{Victim, candidates};

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
        ready.retain(|workload| !self.waits_for_devices(*workload));
        self.state.in_queue_order(&mut ready);
        for workload in ready {
            if self.state.claims_to_join(workload) {
                self.redeem_beside(now, workload, round);
                continue;
            }
            let claim = self.state.claims.get(workload).expect("just listed");
            if let Some(reason) = self.kept_out(claim.assignment.queue, workload) {
                self.set_reason(workload, reason);
                continue;
            }
            let claim = self.state.drop_claim(workload).expect("just listed");
            let passed = self.state.pass_nominated(workload);
            let redeemed = self.redeem(workload, &claim);
            self.state.restore_nominated(passed);
            match redeemed {
                Redeemed::Placed => self.admit(now, workload),
                Redeemed::NotYet => {
                    self.state.add_claim(workload, claim.assignment, claim.places, Vec::new());
                    continue;
                }
                Redeemed::NeverFits => {
                    // What it kept is free for others, and others of it may begin.
                    self.state.workloads[workload].state = State::Queued;
                    self.state.derive_roles(workload);
                    self.mark(workload);
                    self.refile(workload, now);
                    self.claim_is_free();
                }
            }
            round.decided = true;
        }
    }

    /// Whether devices that victims had, who are gone, are still to come free; that is said. Those
    /// of a claim that somebody else has reserved meanwhile are not waited for.
    fn waits_for_devices(&mut self, workload: WorkloadIdx) -> bool {
        let claim = self.state.claims.get(workload).expect("just listed");
        let devices = &self.state.room.devices;
        let mut awaited = claim.places.frees.iter().filter(|key| devices.coming_free(key));
        let Some((namespace, name)) = awaited.next().cloned() else { return false };
        let more = awaited.count() as u32;
        let claim = format!("{namespace}/{name}").into();
        self.set_reason(workload, Reason::WaitingForDevices { claim, more });
        true
    }

    /// Claims again what an engine before this one claimed for work that waits, the first of its
    /// queue or not: what its victims that are still there leave, and what others who leave anyway
    /// do. For anything more it waits its turn. Who was settled.
    pub(super) fn settle_promised(&mut self, now: Time, round: &mut Round) -> Vec<Head> {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (head, victims) in self.promised_before() {
            match self.after_its_victims(head, victims) {
                Some(entry) => own.push(entry),
                None => others.push(head),
            }
        }
        let mut settled: Vec<Head> =
            own.iter().map(|entry| (entry.queue, entry.workload)).collect();
        self.settle_in_order(now, own, round);
        // What they would be without their victims nobody has looked at.
        settled.iter().for_each(|(_, workload)| _ = self.tried.remove(workload));
        let mut found = Vec::new();
        for (queue, workload) in others {
            let entry = self.nominate_promised((queue, workload), Premise::default());
            let leaving = |victim: &Victim| self.state.leaving(victim.workload);
            if matches!(&entry.verdict, Verdict::Preempt(all) if all.iter().all(leaving)) {
                settled.push((queue, workload));
                found.push(entry);
            }
        }
        self.settle_in_order(now, found, round);
        settled
    }

    /// Keeps nodes anew for the pods of owners that an engine before this one resumed a moment ago.
    /// They have had their turn; who fits nowhere any more waits for another. Who was settled.
    pub(super) fn settle_resumed(&mut self, now: Time, round: &mut Round) -> Vec<Head> {
        let waiting = &self.waiting;
        let head = |workload: &WorkloadIdx| Some((waiting.to_look_at(*workload)?, *workload));
        let heads: Vec<Head> = self.resumed_before.iter().filter_map(head).collect();
        let found = heads.into_iter().map(|(queue, workload)| self.nominate(queue, workload));
        let fits: Vec<Entry> = found.filter(|entry| entry.verdict == Verdict::Fit).collect();
        let settled = fits.iter().map(|entry| (entry.queue, entry.workload)).collect();
        self.settle_in_order(now, fits, round);
        settled
    }

    /// A head that fits once those have left who leave for it.
    fn after_its_victims(&mut self, head: Head, victims: Vec<Victim>) -> Option<Entry> {
        let gone: Vec<WorkloadIdx> = victims.iter().map(|victim| victim.workload).collect();
        let premise = Premise { gone: &gone, ..Premise::default() };
        let entry = self.nominate_promised(head, premise);
        let fits = entry.verdict == Verdict::Fit;
        fits.then_some(Entry { verdict: Verdict::Preempt(victims), ..entry })
    }

    /// What could be done for a head that was promised room. The budget of its queue was not spent
    /// then, and an engine that goes on does not ask again.
    fn nominate_promised(&mut self, (queue, workload): Head, premise: Premise<'_>) -> Entry {
        let lifted = self.state.spending.lift(queue);
        let entry = self.nominate_as(queue, workload, premise);
        self.state.spending.lift(lifted);
        entry
    }

    /// Places what gangs lack that run below their minimum, but for those that a head still to be
    /// looked at could stop. Not even that holds up one that was admitted a moment ago: its owner
    /// is still making its pods, or an engine before this one was still binding them. It had its
    /// turn; who takes its room now, without stopping it, would leave it in part.
    pub(crate) fn complete_gangs(&mut self, now: Time, looked_at: &[Head], round: &mut Round) {
        for workload in self.growing(true) {
            let state = &self.state;
            let stops = |(queue, head)| candidates::could_take(state, head, queue, workload);
            let stopped = || {
                let retried = self.to_try().filter(|_| looked_at.is_empty());
                self.still_ahead(looked_at).chain(retried).any(stops)
            };
            let held = state.workloads[workload].assignment.as_ref();
            let young = held.is_some_and(|it| it.at.plus(state.policy.resume_timeout) > now);
            // Not who was stopped for members of another one meanwhile.
            if self.growth.contains(&workload) && (young || !stopped()) {
                self.grow(now, workload, round);
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
        // The configuration changed meanwhile, and flavors have to be chosen for more.
        if claim.assignment.sets.iter().any(|set| !self.state.is_whole(queue, set)) {
            return Redeemed::NeverFits;
        }
        // It is admitted now; when it was promised says nothing about when its pods must be there.
        let admitted = Assignment { at: self.state.now, ..(*claim.assignment).clone() };
        let mut txn = Txn::begin(&mut self.state);
        txn.assign(workload, Some(Arc::new(admitted)));
        let members = claim.places.members.iter().map(|(pod, _)| *pod);
        let Some(asks) = asks_with(&mut txn, &claim.assignment, members, profile) else {
            return Redeemed::NeverFits;
        };
        let start = txn.checkpoint();
        let planned =
            place_as_planned(&mut txn, &asks, &claim.places.members) && within_quota(&txn, claim);
        if !planned {
            txn.rollback_to(start);
            let purse = Purse::of(txn.state(), queue, &asks);
            let placed = money::place(&mut txn, &asks, topology, &purse).is_ok();
            if !placed || !within_quota(&txn, claim) {
                return Redeemed::NeverFits;
            }
        }
        let end = txn.checkpoint();
        txn.count_no_claims(queue);
        let fits_now = within_quota(&txn, claim);
        txn.rollback_to(end);
        if !fits_now {
            return Redeemed::NotYet;
        }
        txn.commit();
        Redeemed::Placed
    }

    /// Workloads that hold quota and have members without a place: below their minimum, or above.
    pub(super) fn growing(&self, below: bool) -> Vec<WorkloadIdx> {
        let needs = |workload: &WorkloadIdx| (self.missing(*workload) > 0) == below;
        let mut growing: Vec<WorkloadIdx> = self.growth.iter().copied().filter(needs).collect();
        self.state.in_queue_order(&mut growing);
        growing
    }

    /// Places members that have no place: those below the minimum together, others one by one.
    pub(super) fn grow(&mut self, now: Time, workload: WorkloadIdx, round: &mut Round) {
        let missing = self.missing(workload);
        let groups = self.needy_by_shape(workload);
        if let Some(lacks) = self.lacks_anew(workload) {
            return self.grow_anew(now, workload, (&groups, lacks), round);
        }
        if self.state.claims_to_join(workload) {
            return self.join_without_victims(now, workload, (&groups, missing), round);
        }
        let grown = match missing {
            0 => self.place_some(workload, &groups),
            _ if self.queueless(workload).is_some() => false,
            missing => self.place_missing(workload, &groups, missing, true),
        };
        // What is above the minimum is looked at again, after everybody else.
        if !(grown && missing > 0) {
            self.growth.remove(&workload);
        }
        if grown {
            return self.joined(now, workload, missing, round);
        }
        self.growth_parked.insert(workload);
        self.give_back_of_members(now, workload, &groups, missing);
        let held = match self.make_room_beside(now, workload, (&groups, missing), round) {
            Ok(true) => return,
            Ok(false) => None,
            Err(late) => Some(*late),
        };
        let waiting: Vec<PodIdx> = groups.into_iter().flatten().collect();
        match missing {
            _ if waiting.is_empty() => {}
            0 => {
                let then = held.or_else(|| self.no_extra_joins(workload, &waiting));
                self.extras_wait(workload, waiting.len() as u32, then);
            }
            _ => self.incomplete(workload, &waiting, held),
        }
        self.give_back_useless(now, workload);
        self.keep_out_while_owed(now, workload);
    }

    /// Members that wait for a place, those that an owner has still to make among them.
    pub(super) fn needy(&self, workload: WorkloadIdx) -> Vec<PodIdx> {
        let pods = &self.state.pods;
        let keeps = self.state.workloads[workload].keeps();
        let needy = |pod: &PodIdx| pods[*pod].needs_place() && (keeps || !pods[*pod].kept());
        self.state.unplaced(workload).filter(needy).collect()
    }

    /// Members without a place, those of one shape together, in order.
    pub(super) fn needy_by_shape(&self, workload: WorkloadIdx) -> Vec<Vec<PodIdx>> {
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

    /// Places exactly the members that a gang cannot run without, whichever fit; else none. Kept,
    /// or only tried.
    pub(super) fn place_missing(
        &mut self,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
        missing: u32,
        keep: bool,
    ) -> bool {
        let limits: Vec<u32> = groups.iter().map(|group| group.len() as u32).collect();
        if limits.iter().sum::<u32>() == missing {
            // Nobody can be left out, and parts of a slice may fit nowhere where the whole does.
            if self.place_members(workload, &groups.concat(), keep) {
                return true;
            }
            // But others of their roles may be there, who stand behind them.
            return self.others_join(workload, (missing, keep), |engine, members| {
                engine.place_members(workload, members, keep)
            });
        }
        let mut tries = elastic::TRIES_MAX;
        let shapes: Vec<_> = groups.iter().map(|group| self.state.pods[group[0]].shape).collect();
        let exactly = (missing, missing);
        for order in self.orders(&shapes) {
            let counts = elastic::fill(&limits, &order, exactly, &mut tries, |counts| {
                self.place_members(workload, &members_of(groups, counts), false)
            });
            if let Some(counts) = counts {
                let members = members_of(groups, &counts);
                return !keep || self.place_before_rest(workload, &members, groups);
            }
        }
        self.missing_together(workload, groups, missing, keep)
    }

    /// Places members that a gang lacks, before others of it that wait. Where those find no places
    /// beside them, and all do together, they go where they are then.
    fn place_before_rest(
        &mut self,
        workload: WorkloadIdx,
        members: &[PodIdx],
        groups: &[Vec<PodIdx>],
    ) -> bool {
        let all = groups.concat();
        let sliced = self.state.workloads[workload].in_slices(&self.state.room);
        let passed = self.state.pass_nominated_for(&all);
        let planned = match sliced || self.leaves_room(workload, members, &all) {
            true => None,
            false => self.places_of_all(workload, &all),
        };
        self.state.restore_nominated(passed);
        let passed = self.state.pass_nominated_for(members);
        let placed =
            planned.is_some_and(|places| self.placed_as_planned(workload, members, &places));
        self.state.restore_nominated(passed);
        placed || self.place_members(workload, members, true)
    }

    /// Whether others of all that wait find places once these have theirs, as far as these find
    /// any.
    fn leaves_room(&mut self, workload: WorkloadIdx, members: &[PodIdx], all: &[PodIdx]) -> bool {
        let first: BTreeSet<PodIdx> = members.iter().copied().collect();
        let rest: Vec<PodIdx> = all.iter().copied().filter(|pod| !first.contains(pod)).collect();
        let Some(txn) = self.put_beside(workload, members) else { return true };
        let aside = txn.set_aside();
        let fits = self.put_beside(workload, &rest).is_some();
        drop(Txn::take_up(&mut self.state, aside));
        fits
    }

    /// Where members go, if all of them find places beside the others.
    fn places_of_all(
        &mut self,
        workload: WorkloadIdx,
        all: &[PodIdx],
    ) -> Option<Vec<(PodIdx, NodeIdx)>> {
        let txn = self.put_beside(workload, all)?;
        let place = |pod: &PodIdx| (*pod, txn.state().pods[*pod].place.expect("was placed"));
        Some(all.iter().map(place).collect())
    }

    /// Members go where it was planned, if they still fit there.
    fn placed_as_planned(
        &mut self,
        workload: WorkloadIdx,
        members: &[PodIdx],
        places: &[(PodIdx, NodeIdx)],
    ) -> bool {
        let Ok(assignment) = self.with_all_shapes(workload, members) else { return false };
        let txn = self.put_by(workload, (members, &assignment), None, |txn, asks, _, _| {
            place_as_planned(txn, asks, places)
        });
        txn.map(Txn::commit).is_some()
    }

    /// Places some members with the flavors that the workload has; kept, or only tried.
    pub(super) fn place_members(
        &mut self,
        workload: WorkloadIdx,
        members: &[PodIdx],
        keep: bool,
    ) -> bool {
        let passed = self.state.pass_nominated_for(members);
        let placed = self.put_beside(workload, members);
        let fits = placed.is_some();
        if let Some(txn) = placed.filter(|_| keep) {
            txn.commit();
        }
        self.state.restore_nominated(passed);
        fits
    }

    /// Places members with the flavors that were promised to them, where they find none as things
    /// are; whether they fit.
    pub(super) fn join_as_promised(
        &mut self,
        workload: WorkloadIdx,
        members: &[PodIdx],
        promised: &Assignment,
    ) -> bool {
        let held = self.state.workloads[workload].assignment.clone();
        let Some(held) = held.filter(|held| held.queue == promised.queue) else { return false };
        let mut extended = Assignment::clone(&held);
        let joins = |shape| members.iter().any(|pod| self.state.pods[*pod].shape == shape);
        let new = promised.sets.iter();
        let new = new.filter(|set| held.set(set.shape).is_none() && joins(set.shape));
        extended.sets.extend(new.cloned());
        let whole = |set| self.state.is_whole(extended.queue, set);
        if !extended.sets.iter().all(whole) || self.charges_unlisted(&extended) {
            return false;
        }
        let passed = self.state.pass_nominated_for(members);
        let placed = self.put_with(workload, members, &Arc::new(extended), None);
        let fits = placed.map(Txn::commit).is_some();
        self.state.restore_nominated(passed);
        fits
    }

    /// Members beside the others of a gang that runs, where nothing is kept yet; `None`: they do
    /// not fit.
    pub(super) fn put_beside(
        &mut self,
        workload: WorkloadIdx,
        members: &[PodIdx],
    ) -> Option<Txn<'_>> {
        let assignment = self.with_all_shapes(workload, members).ok()?;
        self.put_with(workload, members, &assignment, None)
    }

    /// The same with these flavors: as things are, or once those have left who are `gone`, and all
    /// others who leave have given what was promised.
    pub(super) fn put_with(
        &mut self,
        workload: WorkloadIdx,
        members: &[PodIdx],
        assignment: &Arc<Assignment>,
        gone: Option<&[WorkloadIdx]>,
    ) -> Option<Txn<'_>> {
        self.put_by(workload, (members, assignment), gone, gang::place_beside)
    }

    /// The same where `place` says where they go, all of them or none.
    fn put_by(
        &mut self,
        workload: WorkloadIdx,
        (members, assignment): (&[PodIdx], &Arc<Assignment>),
        gone: Option<&[WorkloadIdx]>,
        place: impl Fn(&mut Txn<'_>, &[Ask], TopologyAsk, &[(ShapeIdx, NodeIdx)]) -> bool,
    ) -> Option<Txn<'_>> {
        let queue = assignment.queue;
        let profile = self.profile(queue);
        let topology = self.topology_ask(queue, workload).ok()?;
        let mut txn = Txn::begin(&mut self.state);
        txn.remove_workloads(gone.unwrap_or_default().iter().copied());
        txn.vacate(workload);
        txn.assign(workload, Some(assignment.clone()));
        let members = members.iter().copied();
        let asks = asks_with(&mut txn, assignment, members, profile)?;
        let room_before = quota_room(&mut txn, queue, gone.is_none());
        let peers = peers(txn.state(), workload);
        let start = txn.checkpoint();
        let put = |txn: &mut Txn<'_>, asks: &[Ask], topology| {
            let placed = place(txn, asks, topology, &peers);
            let tree = &txn.state().quota.tree;
            let within =
                |(node, fr, most): &(QuotaIdx, FrIdx, i64)| tree.usage(*node, *fr) <= *most;
            let fits = placed && room_before.iter().all(within);
            if !fits {
                txn.rollback_to(start);
            }
            fits
        };
        if put(&mut txn, &asks, topology) {
            return Some(txn);
        }
        // Where that was too dear, on the cheapest nodes.
        if profile.paying == Paying::Free {
            return None;
        }
        let cheapest = money::cheapest(&mut txn, &asks);
        let mut wishes = money::thrifty(topology);
        wishes.any(|topology| put(&mut txn, &cheapest, topology)).then_some(txn)
    }
}

/// Where the members are that have a place and keep it, beside whom others join; if none do, those
/// that are being deleted.
pub(super) fn peers(state: &ClusterState, workload: WorkloadIdx) -> Vec<(ShapeIdx, NodeIdx)> {
    let placed = || state.placed(workload).map(|pod| &state.pods[pod]);
    let some_stay = placed().any(Pod::stays);
    let counted = placed().filter(|pod| pod.stays() || !some_stay);
    counted.filter_map(|pod| Some((pod.shape, pod.place?))).collect()
}

/// Members with the flavors of an assignment, by class; `None`: a member is gone, or has none.
pub(super) fn asks_with(
    txn: &mut Txn<'_>,
    assignment: &Assignment,
    members: impl Iterator<Item = PodIdx>,
    profile: Scoring,
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

/// For each flavor and resource of a queue: the usage that it may not exceed once victims of others
/// have left; and before that, if it is `now`.
pub(super) fn quota_room(
    txn: &mut Txn<'_>,
    queue: Option<QueueIdx>,
    now: bool,
) -> Vec<(QuotaIdx, FrIdx, i64)> {
    let quota = &txn.state().quota;
    let Some(node) = queue.and_then(|queue| quota.queue(queue).node) else { return Vec::new() };
    let left = |txn: &Txn<'_>| -> Vec<i64> {
        let tree = &txn.state().quota.tree;
        tree.covered(node).map(|fr| tree.available(node, fr)).collect()
    };
    let then = left(txn);
    let start = txn.checkpoint();
    if now {
        txn.count_no_claims(queue);
    }
    let now = left(txn);
    txn.rollback_to(start);
    let tree = &txn.state().quota.tree;
    let most = |(fr, (then, now)): (FrIdx, (i64, i64))| {
        (node, fr, tree.usage(node, fr).saturating_add(then.min(now)))
    };
    tree.covered(node).zip(then.into_iter().zip(now)).map(most).collect()
}

/// Every member to the node that was planned, if all of them still fit there.
pub(super) fn place_as_planned(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    places: &[(PodIdx, NodeIdx)],
) -> bool {
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
