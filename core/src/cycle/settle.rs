//! Settling: what is done about one nominated head, checked again against what the heads before
//! it in this round took.

use std::sync::Arc;

use crate::cycle::backfill::place_in;
use crate::cycle::needs::Kept;
use crate::cycle::nominate::asks;
use crate::cycle::{Entry, Round, Verdict};
use crate::engine::Engine;
use crate::engine::waiting::Wake;
use crate::explain::reason::Reason;
use crate::model::claim::Places;
use crate::model::held::Held;
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, WorkloadIdx};
use crate::model::input::QueueingStrategy;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::workload::{Assignment, FlavorScan};
use crate::place::gang;
use crate::quota::flavors;
use crate::quota::money::{self, Costs, Purse, Unplaced};
use crate::time::Time;
use crate::victims::{self, Victim};

impl Engine {
    /// Does what was nominated, if it still holds.
    pub(crate) fn settle(&mut self, now: Time, entry: Entry, round: &mut Round) {
        let workload = entry.workload;
        self.kept_back.has_turn(workload);
        let passed = self.state.pass_nominated(workload);
        // Who waits for victims and does not start without begins with those who have places there.
        let claimed = self.state.claims.get(workload).is_some();
        let others = entry.later.as_ref().map(|later| self.state.begin_without(workload, later));
        self.settle_one(now, entry, round);
        let holds = |state: &ClusterState| {
            let promised = !claimed && state.claims.get(workload).is_some();
            state.workloads[workload].assignment.is_some() || promised
        };
        if let Some(later) = others.filter(|_| !holds(&self.state)) {
            self.state.begin_without(workload, &later);
        }
        self.state.restore_nominated(passed);
    }

    fn settle_one(&mut self, now: Time, mut entry: Entry, round: &mut Round) {
        if self.state.claims.get(entry.workload).is_some() {
            return self.settle_retried(now, entry, round);
        }
        if entry.verdict != Verdict::Fit && self.waits_for_idle_claims(now, &entry) {
            return self.wait_for_claims(entry, round);
        }
        let verdict = std::mem::replace(&mut entry.verdict, Verdict::NoFit);
        if matches!(verdict, Verdict::Fit | Verdict::Preempt(_))
            && let Some(reason) = self.kept_out(entry.queue, entry.workload)
        {
            entry.choice.reason = Some(reason);
            entry.choice.next.clear();
            return self.wait(entry, round);
        }
        if matches!(verdict, Verdict::Fit | Verdict::Preempt(_)) && self.gives_way(&entry) {
            return self.let_pass(&entry, round);
        }
        match verdict {
            Verdict::Fit => self.settle_fit(now, entry, round),
            Verdict::Preempt(victims) => match self.passage(&mut entry, &victims) {
                Ok(_) => self.settle_preempt(now, entry, victims, round),
                Err(late) => self.hold_for_others(entry, *late, round),
            },
            waits @ (Verdict::Blocked | Verdict::NoFit) => {
                entry.verdict = waits;
                self.wait(entry, round);
            }
        }
    }

    /// Its start is reserved, and others have their turn first: it is looked at in the next round
    /// as if it had not been in this one, and says what it did.
    fn let_pass(&mut self, entry: &Entry, round: &mut Round) {
        let told = self.state.workloads[entry.workload].reason.clone();
        let reason = told.unwrap_or_else(|| self.quota_reason(entry));
        round.more = true;
        self.waits_on(entry.workload, reason);
    }

    fn settle_fit(&mut self, now: Time, mut entry: Entry, round: &mut Round) {
        if !self.quota_still_fits(&entry) {
            let why = self.held_back(&entry, &[]);
            return self.lost_race(entry, why, round);
        }
        let kept = match self.passage(&mut entry, &[]) {
            Ok(kept) => kept,
            Err(late) => return self.hold_for_others(entry, *late, round),
        };
        if let Some(reason) = self.still_held(&entry) {
            entry.choice.reason = Some(reason);
            entry.choice.next.clear();
            return self.wait(entry, round);
        }
        let assignment = self.assignment_for(&entry, now);
        let workload = entry.workload;
        match self.try_place(&entry, assignment, &kept, true) {
            Ok(_) => {
                round.decided = true;
                round.gained.extend(entry.queue);
                self.state.workloads[workload].requeue.scan = None;
                self.admit(now, workload);
            }
            Err(Unplaced::NoRoom) => self.lost_race(entry, None, round),
            Err(Unplaced::TooDear(costs)) => self.too_dear(entry, &costs, round),
        }
    }

    /// Where it can go now it costs more than is left: others of the round took the cheaper nodes,
    /// or money. Where nobody took anything the next round would find the same: it waits.
    fn too_dear(&mut self, mut entry: Entry, costs: &Costs, round: &mut Round) {
        entry.choice.pay(costs);
        entry.room = true;
        let kept = self.held_back(&entry, &[]);
        if kept.is_some() || round.decided {
            return self.lost_race(entry, kept, round);
        }
        let held = self.still_held(&entry);
        entry.choice.reason = Some(held.unwrap_or_else(|| self.quota_reason(&entry)));
        entry.choice.next.clear();
        self.wait(entry, round);
    }

    pub(crate) fn quota_still_fits(&self, entry: &Entry) -> bool {
        let Some(queue) = entry.queue else { return true };
        let quota = &self.state.quota;
        let node = quota.queue(queue).node.expect("only existing queues have heads");
        // Of money it is known once all are placed.
        let mut usage = entry.choice.usage.iter().filter(|(fr, _)| !quota.is_money(*fr));
        usage.all(|(fr, n)| *n <= quota.tree.available(node, *fr))
    }

    /// What fits once victims of others have left, and not before.
    pub(super) fn still_held(&mut self, entry: &Entry) -> Option<Reason> {
        let queue = entry.queue.filter(|_| !self.state.claims.is_empty())?;
        let mut txn = Txn::begin(&mut self.state);
        txn.count_no_claims(Some(queue));
        let quota = &txn.state().quota;
        let slot = quota.queue(queue);
        let node = slot.node.expect("only existing queues have heads");
        let left = |(fr, asked): &(_, i64)| (*fr, *asked, quota.tree.available(node, *fr));
        let mut usage = entry.choice.usage.iter().map(left);
        let (fr, asked, left) = usage.find(|(_, asked, left)| asked > left)?;
        let (flavor, resource) = quota.fr(fr);
        Some(Reason::StillHeld {
            cluster_queue: slot.name.clone(),
            flavor: quota.flavor_name(flavor).clone(),
            resource: txn.state().room.resources.name(resource).clone(),
            asked,
            left,
        })
    }

    /// What the workload will hold quota with.
    pub(crate) fn assignment_for(&mut self, entry: &Entry, now: Time) -> Arc<Assignment> {
        let chosen = entry.sets.iter().zip(&entry.choice.sets);
        let sets = chosen
            .map(|(set, flavors)| self.state.set_assignment_of(set.shape, flavors.clone()))
            .collect();
        let at = self.admitted_before(entry.workload).unwrap_or(now);
        Arc::new(Assignment { queue: entry.queue, sets, at })
    }

    /// Places all members with an assignment, beside what is left alone. Kept, or only tried; where
    /// they go.
    pub(crate) fn try_place(
        &mut self,
        entry: &Entry,
        assignment: Arc<Assignment>,
        beside: &Kept,
        keep: bool,
    ) -> Result<Places, Unplaced> {
        let topology = self.topology_ask(entry.queue, entry.workload);
        let topology = topology.map_err(|_| Unplaced::NoRoom)?;
        let profile = self.profile(entry.queue);
        let mut txn = Txn::begin(&mut self.state);
        beside.count(&mut txn, true);
        let places = place_in(&mut txn, entry, assignment, profile, topology)?;
        beside.count(&mut txn, false);
        // Victims of others hold their money until they have left.
        let costs = places.costs(txn.state(), entry.workload);
        if !costs.is_empty() && !txn.state().claims.is_empty() {
            let placed = txn.checkpoint();
            txn.count_no_claims(entry.queue);
            let quota = &txn.state().quota;
            let node = entry.queue.and_then(|queue| quota.queue(queue).node);
            let over = |fr: FrIdx| node.is_some_and(|node| quota.tree.overdrawn(node, fr));
            if costs.iter().any(|(fr, cost)| *cost > 0 && over(*fr)) {
                return Err(Unplaced::TooDear(costs));
            }
            txn.rollback_to(placed);
        }
        if keep {
            txn.commit();
        }
        Ok(places)
    }

    /// Where everyone goes once these have left; `None`: it no longer fits.
    pub(crate) fn plan_after(
        &mut self,
        entry: &Entry,
        assignment: Arc<Assignment>,
        leave: &[WorkloadIdx],
    ) -> Option<Places> {
        self.plan_without(entry, assignment, |txn| {
            txn.remove_workloads(leave.iter().copied());
        })
    }

    /// Where everyone goes once those are gone whom `remove` takes away; `None`: it does not fit.
    pub(super) fn plan_without(
        &mut self,
        entry: &Entry,
        assignment: Arc<Assignment>,
        remove: impl FnOnce(&mut Txn<'_>),
    ) -> Option<Places> {
        let topology = self.topology_ask(entry.queue, entry.workload).ok()?;
        let profile = self.profile(entry.queue);
        let mut txn = Txn::begin(&mut self.state);
        remove(&mut txn);
        if let Some(queue) = entry.queue {
            let quota = &txn.state().quota;
            let node = quota.queue(queue).node.expect("only existing queues have heads");
            let fits = |(fr, n): &(_, i64)| *n <= quota.tree.available(node, *fr);
            if !entry.choice.usage.iter().all(fits) {
                return None;
            }
        }
        let asks = asks(&mut txn, entry, profile);
        place_all(&mut txn, entry.workload, assignment, &asks, topology).ok()
    }

    /// A blocked head keeps what it could use from others of this round, unless it may reclaim
    /// it from anyone later, or has its start reserved: nobody delays that anyway, and whoever is
    /// through before it may have the quota.
    pub(crate) fn hold_back(&mut self, entry: &Entry) {
        let Some(queue) = entry.queue else { return };
        if self.reservations.of(entry.workload).is_some() {
            return;
        }
        let slot = self.state.quota.queue(queue);
        let facts = slot.facts.as_ref().expect("only existing queues have heads");
        if !victims::holds_back(facts.preemption.reclaim) {
            return;
        }
        let (by, borrowing) = (entry.workload, entry.choice.borrowing);
        for &(fr, asked) in &entry.choice.usage {
            let amount = self.state.keeps(queue, fr, (asked, borrowing));
            self.state.hold(Held { queue, fr, amount, by, asked, borrowing });
        }
    }

    /// Somebody before it in this round took what it needed: it stays at the head. Where nobody
    /// took anything, heads only keep it back, the next round would find the same: others of its
    /// queue are looked at, unless the queue is strict.
    pub(super) fn lost_race(&mut self, mut entry: Entry, then: Option<Reason>, round: &mut Round) {
        let kept = matches!(then, Some(Reason::HeldBack { .. })) && !round.decided;
        let shown = then.or_else(|| entry.choice.reason.clone());
        if kept {
            self.note_kept_out(&entry);
        }
        let stays = !kept || self.strict(entry.queue);
        let goes_on = self.remember_scan(&mut entry, round);
        let reason = match shown {
            Some(reason) => Reason::LostRace { then: Box::new(reason) },
            None => Reason::LostRace { then: Box::new(self.quota_reason(&entry)) },
        };
        if !stays && !goes_on {
            let wake = Wake { room: entry.room, quota: true, held: true };
            self.waiting.park(entry.workload, wake, reason.clone());
            self.note_lack_of_nodes(entry.workload, &reason);
            round.more = true;
        }
        self.waits_on(entry.workload, reason);
    }

    pub(crate) fn strict(&self, queue: Option<QueueIdx>) -> bool {
        queue.is_some_and(|queue| {
            let facts = self.state.quota.queue(queue).facts.as_ref();
            facts.is_some_and(|facts| facts.strategy == QueueingStrategy::StrictFifo)
        })
    }

    /// Who keeps back what an entry would fit into once these have left; `None`: without that it
    /// would not fit either.
    pub(super) fn held_back(&mut self, entry: &Entry, victims: &[Victim]) -> Option<Reason> {
        if self.state.held.is_empty() {
            return None;
        }
        let queue = entry.queue?;
        let usage = &entry.choice.usage;
        let left = self.left_after(queue, usage, victims);
        let mut short = usage.iter().zip(left).filter(|((_, asked), left)| left < asked);
        let (&(fr, asked), beside) = short.next()?;
        let others = self.state.held.iter().filter(|held| held.fr != fr || held.amount <= 0);
        let others: Vec<Held> = others.copied().collect();
        let all = self.state.hold_instead(others);
        let without = self.left_after(queue, &[(fr, asked)], victims)[0];
        self.state.hold_again(all);
        (without >= asked).then(|| self.who_keeps_back(fr, (asked, beside))).flatten()
    }

    /// Who keeps most of something back, of which so much is asked and so much left.
    pub(super) fn who_keeps_back(&self, fr: FrIdx, (asked, left): (i64, i64)) -> Option<Reason> {
        let holds = self.state.held.iter().filter(|held| held.fr == fr && held.amount > 0);
        let most = holds.max_by_key(|held| held.amount)?;
        let (flavor, resource) = self.state.quota.fr(fr);
        Some(Reason::HeldBack {
            head: self.state.workloads[most.by].full_name.clone(),
            queue: self.state.quota.queue(most.queue).name.clone(),
            flavor: self.state.quota.flavor_name(flavor).clone(),
            resource: self.state.room.resources.name(resource).clone(),
            kept: most.amount,
            asked,
            left,
        })
    }

    /// What the quota rules leave a queue of each of these once these victims have left.
    fn left_after(
        &mut self,
        queue: QueueIdx,
        usage: &[(FrIdx, i64)],
        victims: &[Victim],
    ) -> Vec<i64> {
        let mut txn = Txn::begin(&mut self.state);
        txn.remove_workloads(victims.iter().map(|victim| victim.workload));
        let quota = &txn.state().quota;
        let node = quota.queue(queue).node.expect("only existing queues have heads");
        usage.iter().map(|(fr, _)| quota.tree.available(node, *fr)).collect()
    }

    /// What is short for an entry that fitted when the round began.
    pub(super) fn quota_reason(&self, entry: &Entry) -> Reason {
        let state = &self.state;
        let workload = &state.workloads[entry.workload];
        let Some(queue) = entry.queue else { return Reason::RoomTaken };
        let usage = entry.choice.usage.iter();
        let short = usage.filter_map(|&(fr, n)| flavors::shortage(state, queue, fr, n));
        let slot = state.quota.queue(queue);
        let tried: Vec<_> = short.collect();
        if tried.is_empty() {
            return Reason::RoomTaken;
        }
        let pod_set = workload.sets.first().map_or("main".into(), |set| set.name.clone());
        Reason::Flavors { cluster_queue: slot.name.clone(), pod_set, tried }
    }

    /// Where the next scan of a head goes on: after the flavor that it tried last. Whether it goes
    /// on at once. A head looks at its flavors once after each decision, not again and again while
    /// others look at theirs, or because it keeps back at one flavor what it did not at another.
    ///
    /// A scan of several rounds ends with a look from the first flavor. It is a scan of its own
    /// if somebody was decided on since the one before began; else it finds what that one found.
    ///
    /// What more room on nodes might have led to in any look of the scan, it might lead to when
    /// the scan has ended.
    pub(super) fn remember_scan(&mut self, entry: &mut Entry, round: &mut Round) -> bool {
        let Some(queue) = entry.queue else { return false };
        let fresh = self.scan_start(entry.queue, entry.workload).is_empty();
        let known = self.state.workloads[entry.workload].requeue.scan.take();
        let (began, last) = match &known {
            Some(scan) if !fresh => (scan.began, false),
            Some(scan) if scan.once_more && scan.began > self.decided_round => (scan.began, true),
            _ => (self.round_number, false),
        };
        let goes_on_with = known.as_ref().filter(|_| began < self.round_number);
        entry.room |= goes_on_with.is_some_and(|scan| scan.room);
        let repeats = known.as_ref().is_some_and(|scan| scan.began > self.decided_round);
        let ends = self.round_number - began >= self.flavors_to_try(entry, queue);
        let mut next = entry.choice.next.clone();
        if ends || last || (fresh && repeats && !round.decided) {
            next.clear();
        }
        let once_more = next.is_empty() && !fresh;
        let goes_on = !next.is_empty() || once_more;
        if known.is_none() && !goes_on {
            return false;
        }
        round.more |= goes_on;
        let generation = self.state.quota.generation(queue);
        let (round, room) = (self.round_number, entry.room);
        let scan = FlavorScan { next, generation, round, began, once_more, room };
        self.state.workloads[entry.workload].requeue.scan = Some(Box::new(scan));
        goes_on
    }

    /// Rounds in which a scan meets something new at most.
    fn flavors_to_try(&self, entry: &Entry, queue: QueueIdx) -> u64 {
        let groups = &self.state.quota.queue(queue).groups;
        let flavors: usize = groups.iter().map(|group| group.flavors.len()).sum();
        (flavors * entry.sets.len()) as u64
    }

    /// It will be looked at again once claims of its members have no devices any more.
    fn wait_for_claims(&mut self, mut entry: Entry, round: &mut Round) {
        let reason = entry.choice.reason.take().unwrap_or_else(|| self.quota_reason(&entry));
        (entry.choice.reason, entry.room) = (Some(reason), true);
        entry.choice.next.clear();
        self.wait(entry, round);
    }

    /// It does not fit: a strict queue keeps its head, another one tries the next.
    fn wait(&mut self, mut entry: Entry, round: &mut Round) {
        self.reserve(&entry, false);
        // Only then: what it keeps back counts as if its queue used it, and whose start is reserved
        // would stand behind where it does.
        if entry.verdict == Verdict::Blocked {
            self.hold_back(&entry);
        }
        let strict = self.strict(entry.queue);
        let goes_on = self.remember_scan(&mut entry, round);
        let reason = entry.choice.reason.take().expect("what does not fit has a reason");
        if !strict && !goes_on {
            let wake = Wake { room: entry.room, quota: true, held: false };
            self.waiting.park(entry.workload, wake, reason.clone());
            self.note_lack_of_nodes(entry.workload, &reason);
            round.more = true;
        }
        self.waits_on(entry.workload, reason);
        self.give_back_useless(self.state.now, entry.workload);
        self.keep_out_while_owed(self.state.now, entry.workload);
    }
}

/// Places a pod that is no gang on the node for which its status nominates it, if it fits there.
fn place_as_nominated(txn: &mut Txn<'_>, asks: &[gang::Ask], topology: gang::TopologyAsk) -> bool {
    let [ask] = asks else { return false };
    let [pod] = ask.pods[..] else { return false };
    let state = txn.state();
    let topology = topology.of_class(state, ask.class);
    let Some(node) = state.nomination_of(pod).filter(|_| topology.slices.is_none()) else {
        return false;
    };
    let tree = &state.room.tree;
    let Some(position) = tree.position(node) else { return false };
    let outside = |level| tree.domain_of(level, position).is_none();
    if topology.required.is_some_and(outside) {
        return false;
    }
    txn.fresh(ask.class);
    let fits = txn.state().classes.fit(ask.class).spot(position).slots > 0;
    if fits {
        txn.place(pod, node);
    }
    fits
}

/// Gives a workload its flavors and every member a node that its queue can pay for; where they
/// went.
pub(super) fn place_all(
    txn: &mut Txn<'_>,
    workload: WorkloadIdx,
    assignment: Arc<Assignment>,
    asks: &[gang::Ask],
    topology: gang::TopologyAsk,
) -> Result<Places, Unplaced> {
    let purse = Purse::of(txn.state(), assignment.queue, asks);
    txn.assign(workload, Some(assignment));
    if !(purse.is_empty() && place_as_nominated(txn, asks, topology)) {
        money::place(txn, asks, topology, &purse)?;
    }
    let state = txn.state();
    let members = || asks.iter().flat_map(|ask| &ask.pods);
    let place = |pod: &PodIdx| (*pod, state.pods[*pod].place.expect("was placed"));
    let devices = &state.room.devices;
    let prices = members().map(|pod| state.bills.amount(*pod)).filter(|_| !purse.is_empty());
    let held = devices.held_by_all(members().copied());
    Ok(Places {
        members: members().map(place).collect(),
        prices: prices.collect(),
        devices: if held.is_empty() { Arc::default() } else { held.into() },
        frees: devices.left_behind(),
        takes: devices.given_anew(),
    })
}
