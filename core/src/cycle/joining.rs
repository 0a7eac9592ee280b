//! Room beside a gang that runs: whom to stop for members that it cannot do without.
//!
//! Problem: members come late. A launcher is made once its workers run, executors once their driver
//! does, a pod that died is made again. What runs meanwhile does nothing, or goes on in part, and
//! would be stopped whole after a while, although work of lower priority stands in the way.
//!
//! Decides for whom of the members that found no place others may be stopped: for what a gang below
//! its minimum lacks, all of it together; else for members that are work of their own (the source
//! of the gang says who is: the launcher of an MPIJob, executors, pods of a plain Job without a
//! queue or of a PodGroup without a gang), as many together as may. Whatever else is above a
//! minimum joins where there is room. Who may be stopped is what it is for any preemptor of the
//! queue and the priority, and quota is asked for the members alone; who leaves already is counted
//! on first. Nobody is stopped unless the members are placed beside the others with those gone, and
//! delay no reserved start there: what a gang lacks none that a head of its queue and priority may
//! not delay, others none that extras may not.
//!
//! Who leaves anyway, because it stayed in part for too long, makes room for others in part: what
//! they lack is claimed there for those who can be whole by that.
//!
//! What leaves is claimed, by work that holds quota: until then nothing is kept for what it lacks
//! otherwise, and the gang is not stopped for being in part. Members join without their victims
//! where they can, and once those have left before anybody else is looked at.
//!
//! Restart: victims bear the gang's name, and are taken again when its members are looked at; until
//! then a head may take what they leave. Members above a minimum for which they left wait for the
//! next period if the budget of their queue was spent meanwhile. Cost: when anything changed, some
//! searches for victims for each gang that lacks members, and one for each shape of members that
//! are work of their own; for those of work without a queue one in a round for all that are alike,
//! while nobody would leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_topology::{DomainIdx, NodeIdx};

use crate::cycle::Round;
use crate::cycle::left_out::members_of;
use crate::cycle::promised::{asks_with, peers};
use crate::cycle::toll::Toll;
use crate::engine::Engine;
use crate::explain::reason::Reason;
use crate::model::claim::Places;
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::SetLevels;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::workload::{Assignment, QueueRef};
use crate::place::classes::Paying;
use crate::place::coupled;
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::place::{levels, pod_sets};
use crate::plan::{Outcome, State};
use crate::quota::flavors::Mode;
use crate::quota::money;
use crate::resources;
use crate::time::Time;
use crate::victims::{self, Need, Victim};

/// Members that may join, whom to stop for that, and where they go then.
pub(super) struct Joining {
    assignment: Arc<Assignment>,
    /// What they will charge.
    usage: Vec<(FrIdx, i64)>,
    pub(super) victims: Vec<Victim>,
    places: Places,
}

/// Room for members; or whom they would delay for whom others might leave, if that is all.
pub(super) type Room = Result<Joining, Option<Box<Reason>>>;

impl Engine {
    /// Stops others for members of a gang that runs, which found no place beside it as things are:
    /// those that it lacks, or that are work of their own; whether anybody leaves for them, or
    /// whose reserved start would come late if anybody did.
    pub(super) fn make_room_beside(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        (groups, missing): (&[Vec<PodIdx>], u32),
        round: &mut Round,
    ) -> Result<bool, Box<Reason>> {
        let held = missing > 0 && self.queueless(workload).is_some();
        if held || self.gives_back(workload) {
            return Ok(false);
        }
        let joining = match missing {
            0 => self.room_for_their_own(workload, groups, round),
            missing => self.room_for_missing(workload, groups, missing as usize),
        };
        let Joining { assignment, usage, victims, places } = match joining {
            Ok(joining) => joining,
            Err(late) => return late.map_or(Ok(false), Err),
        };
        let needs = (&usage[..], &places.members[..]);
        let preemptions = self.preemptions_for(now, workload, &victims, needs);
        self.note_taking(now, workload, &victims, &usage);
        for (victim, preemption) in victims.iter().zip(&preemptions) {
            round.claimed.insert(victim.workload);
            self.evict(now, victim.workload, preemption.clone());
        }
        round.gained.extend(assignment.queue);
        round.decided = true;
        self.reservations.doubtful |= !self.reservations.is_empty();
        let names = victims.iter().map(|victim| victim.workload).collect();
        // The claim counts what was kept for what it lacks.
        self.state.drop_vacancies(workload);
        self.state.add_claim(workload, assignment, places, names);
        self.report_outcome(workload, Outcome::Preempting(preemptions));
        self.say_who_leaves(workload);
        Ok(true)
    }

    /// Of as many members as a gang lacks, those for which others pay least: all, or others of
    /// their roles; or of shapes in the orders in which they are tried, whole or cut once; else
    /// whichever others of them could go if all had left who may be stopped.
    pub(super) fn room_for_missing(
        &mut self,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
        missing: usize,
    ) -> Room {
        let all: usize = groups.iter().map(Vec::len).sum();
        if all < missing {
            return Err(None);
        }
        if all == missing {
            let first = self.room_for(workload, &groups.concat(), true);
            let paid = first.as_ref().ok().map(|found| self.toll(&found.victims));
            let wanted = (missing as u32, paid);
            let less = self.cheapest_of_others(workload, wanted, |engine, members| {
                let found = engine.room_for(workload, members, true).ok()?;
                Some((engine.toll(&found.victims), found))
            });
            return less.map_or(first, Ok);
        }
        let shapes: Vec<ShapeIdx> =
            groups.iter().map(|group| self.state.pods[group[0]].shape).collect();
        let in_order = |order: Vec<usize>| -> Vec<PodIdx> {
            order.into_iter().flat_map(|at| &groups[at]).copied().take(missing).collect()
        };
        let choices = self.orders(&shapes).into_iter().map(in_order).collect();
        self.least_paid(workload, choices).or_else(|late| {
            if self.stops_others_in(workload).is_none() {
                return Err(late);
            }
            let (others, _) = self.ways_once_left(workload, groups, (missing, None));
            let choices = others.iter().map(|counts| members_of(groups, counts)).collect();
            self.least_paid(workload, choices).map_err(|why| late.or(why))
        })
    }

    /// Of choices of members that a gang lacks the first for which others pay least.
    fn least_paid(&mut self, workload: WorkloadIdx, choices: Vec<Vec<PodIdx>>) -> Room {
        let (mut best, mut late): (Option<(Toll, Joining)>, _) = (None, None);
        for members in choices {
            let found = match self.room_for(workload, &members, true) {
                Ok(found) => found,
                Err(why) => {
                    late = late.or(why);
                    continue;
                }
            };
            let toll = self.toll(&found.victims);
            if best.as_ref().is_none_or(|(least, _)| toll < *least) {
                best = Some((toll, found));
            }
        }
        best.map(|(_, found)| found).ok_or(late)
    }

    /// Of members that are work of their own the most of one shape for which others may be stopped.
    fn room_for_their_own(
        &mut self,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
        round: &mut Round,
    ) -> Room {
        let priority = self.state.workloads[workload].priority;
        let mut late = None;
        for group in groups {
            let by_itself = self.stops_by_itself(workload);
            let group: Vec<PodIdx> = group.iter().copied().filter(by_itself).collect();
            let Some(first) = group.first() else { continue };
            let shape = self.state.pods[*first].shape;
            let plain = self.finds_what_others_find(workload);
            let in_vain = |known: &i32| plain && priority <= *known;
            if round.in_vain.get(&shape).is_some_and(in_vain) {
                continue;
            }
            let found = self.room_for_most(workload, &group);
            let Err(why) = found else { return found };
            // Others of its kind may delay nobody.
            if plain && why.is_none() {
                round.in_vain.insert(shape, priority);
            }
            late = late.or(why);
        }
        Err(late)
    }

    /// Of members of one shape that are work of their own the most for which others may be stopped:
    /// all, else half as many each time.
    pub(super) fn room_for_most(&mut self, workload: WorkloadIdx, group: &[PodIdx]) -> Room {
        // Where there is none for one there is none for more.
        let one = self.room_for(workload, &group[..1], false)?;
        let mut most = group.len();
        while most > 1 {
            if let Ok(more) = self.room_for(workload, &group[..most], false) {
                return Ok(more);
            }
            most /= 2;
        }
        Ok(one)
    }

    /// Whether members of it find what those of any gang do that are of their shape and priority:
    /// it is in no queue, and its members may go anywhere.
    fn finds_what_others_find(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.state.workloads[workload];
        let needs = |own: &SetLevels| own.needed().next().is_some();
        let anywhere = entry.topology().required.is_none() && entry.topology().slices.is_none();
        let anywhere = anywhere && !entry.own_levels(&self.state.room).any(needs);
        anywhere && self.stops_others_in(workload) == Some(None)
    }

    /// Keeps for gangs in part what they lack of what those leave who are `gone`, in queue order:
    /// where there is enough for all of that. Who they are.
    pub(crate) fn complete_of_what_leaves(&mut self, gone: &[WorkloadIdx]) -> Vec<WorkloadIdx> {
        let mut kept = Vec::new();
        if gone.is_empty() {
            return kept;
        }
        let mut lacking: Vec<WorkloadIdx> = self.state.in_part.keys().copied().collect();
        lacking.retain(|workload| {
            let state = self.state.workloads[*workload].state;
            matches!(state, State::Running | State::Binding)
                && self.state.claims.get(*workload).is_none()
                && !self.state.leaving(*workload)
        });
        self.state.in_queue_order(&mut lacking);
        for workload in lacking {
            let Some((assignment, places)) = self.whole_once_gone(workload, gone) else { continue };
            self.reservations.doubtful |= !self.reservations.is_empty();
            // The claim counts what was kept for what it lacks.
            self.state.drop_vacancies(workload);
            self.state.add_claim(workload, assignment, places, gone.to_vec());
            self.say_who_leaves(workload);
            kept.push(workload);
        }
        kept
    }

    /// Where all that a gang lacks goes once those have left who are `gone`, and with which
    /// flavors; `None`: it does not exist, or fits nowhere even then.
    fn whole_once_gone(
        &mut self,
        workload: WorkloadIdx,
        gone: &[WorkloadIdx],
    ) -> Option<(Arc<Assignment>, Places)> {
        let missing = self.missing(workload) as usize;
        let groups = self.needy_by_shape(workload);
        let all: usize = groups.iter().map(Vec::len).sum();
        let broken = matches!(self.state.workloads[workload].queue, QueueRef::Broken(_));
        let waits = missing > 0 && all >= missing && !broken;
        if !waits || self.lacks_anew(workload).is_some() || self.gives_back(workload) {
            return None;
        }
        let shapes: Vec<ShapeIdx> =
            groups.iter().map(|group| self.state.pods[group[0]].shape).collect();
        let look = |engine: &mut Engine, members: &[PodIdx]| {
            let passed = engine.state.pass_nominated_for(members);
            let found = engine.places_once_gone(workload, members, gone);
            engine.state.restore_nominated(passed);
            found
        };
        let found = self.orders(&shapes).into_iter().find_map(|order| {
            let in_order = order.into_iter().flat_map(|at| &groups[at]).copied();
            let members: Vec<PodIdx> = in_order.take(missing).collect();
            look(self, &members)
        });
        found.or_else(|| {
            let (others, _) = self.ways_once_left(workload, &groups, (missing, Some(gone)));
            others.iter().find_map(|counts| look(self, &members_of(&groups, counts)))
        })
    }

    fn places_once_gone(
        &mut self,
        workload: WorkloadIdx,
        members: &[PodIdx],
        gone: &[WorkloadIdx],
    ) -> Option<(Arc<Assignment>, Places)> {
        let assignment = self.with_shapes(workload, members, Mode::Preempt).ok()?;
        let pays = self.profile(assignment.queue).paying == Paying::Pays;
        let txn = self.put_with(workload, members, &assignment, Some(gone))?;
        let places = places_of(txn.state(), members, pays);
        drop(txn);
        Some((assignment, places))
    }

    /// Whom to stop for exactly these members, which the gang `lacks`, or not; `Err`: nobody would
    /// do, or nobody has to leave, or somebody would be delayed.
    fn room_for(&mut self, workload: WorkloadIdx, members: &[PodIdx], lacks: bool) -> Room {
        let passed = self.state.pass_nominated_for(members);
        let found = self.look_for_room(workload, members).ok_or(None);
        let found = found.and_then(|found| {
            match self.delayed_once_gone(workload, (members, lacks), &found) {
                None => Ok(found),
                late => Err(late.map(Box::new)),
            }
        });
        self.state.restore_nominated(passed);
        found
    }

    /// Whose reserved start would come late if members had their places beside a gang, and those
    /// had left who would be stopped for that. Starts that are late anyway are nobody's to delay.
    fn delayed_once_gone(
        &mut self,
        workload: WorkloadIdx,
        (members, lacks): (&[PodIdx], bool),
        joining: &Joining,
    ) -> Option<Reason> {
        if self.reservations.is_empty() {
            return None;
        }
        let gone: Vec<WorkloadIdx> = joining.victims.iter().map(|it| it.workload).collect();
        let txn = self.put_with(workload, members, &joining.assignment, Some(&gone))?;
        let aside = txn.set_aside();
        let slots = self.not_to_delay(workload, lacks);
        let late = match lacks {
            true => self.late_beside_member(workload, &slots),
            false => self.late_beside_extra((workload, &gone[..]), &slots),
        };
        drop(Txn::take_up(&mut self.state, aside));
        late.filter(|_| !self.are_late_anyway(workload, &slots))
    }

    fn look_for_room(&mut self, workload: WorkloadIdx, members: &[PodIdx]) -> Option<Joining> {
        let queue = self.stops_others_in(workload)?;
        let assignment = self.with_shapes(workload, members, Mode::Preempt).ok()?;
        let topology = self.topology_ask(queue, workload).ok()?;
        let profile = self.profile(queue);
        let mut txn = Txn::begin(&mut self.state);
        txn.vacate(workload);
        let asks = asks_with(&mut txn, &assignment, members.iter().copied(), profile)?;
        let need = need_of(&txn, (workload, queue, &assignment), (members, &asks), topology);
        let victims = victims::search_for(&mut txn, workload, &need, &asks).ok()?;
        drop(txn);
        if victims.is_empty() {
            return None;
        }
        let gone: Vec<WorkloadIdx> = victims.iter().map(|victim| victim.workload).collect();
        let txn = self.put_with(workload, members, &assignment, Some(&gone))?;
        let places = places_of(txn.state(), members, profile.paying == Paying::Pays);
        drop(txn);
        Some(Joining { assignment, usage: need.usage, victims, places })
    }

    /// The queue for which a gang that runs may stop others, if it may: whose budget is spent only
    /// for what it lacks, without which it would be stopped whole.
    pub(super) fn stops_others_in(&self, workload: WorkloadIdx) -> Option<Option<QueueIdx>> {
        let entry = &self.state.workloads[workload];
        let queue = match &entry.queue {
            QueueRef::Unqueued => None,
            QueueRef::Queue(queue) => Some(*queue),
            QueueRef::Broken(_) => return None,
        };
        let admits = |queue: QueueIdx| {
            let slot = self.state.quota.queue(queue);
            slot.facts.is_some() && slot.node.is_some() && slot.inactive.is_none()
        };
        let held = entry.assignment.as_ref()?.queue;
        let may = held == queue
            && queue.is_none_or(admits)
            && !entry.never_preempts
            && !self.state.leaving(workload)
            && (self.missing(workload) > 0 || self.overspent_for(queue, workload).is_none());
        may.then_some(queue)
    }

    /// Room is being made for some members of a gang that runs: they join without, once they can;
    /// so do others that may.
    pub(super) fn join_without_victims(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        (groups, missing): (&[Vec<PodIdx>], u32),
        round: &mut Round,
    ) {
        self.growth.remove(&workload);
        let claim = self.state.drop_claim(workload).expect("room is being made for it");
        let members: Vec<PodIdx> = claim.places.members.iter().map(|(pod, _)| *pod).collect();
        if self.join_in_time(workload, &members, missing > 0) {
            self.joined(now, workload, missing, round);
            self.refile(workload, now);
            return self.claim_is_free();
        }
        self.state.add_claim(workload, claim.assignment, claim.places, claim.victims);
        self.growth_parked.insert(workload);
        let rest = |group: &Vec<PodIdx>| -> Vec<PodIdx> {
            group.iter().copied().filter(|pod| !members.contains(pod)).collect()
        };
        let rest: Vec<Vec<PodIdx>> = groups.iter().map(rest).collect();
        if missing == 0 && self.place_some(workload, &rest) {
            self.joined(now, workload, missing, round);
        }
        self.say_who_leaves(workload);
    }

    /// Whether members join as things are: those that a gang lacks wherever they fit, others if
    /// they delay nobody whose start is reserved.
    fn join_in_time(&mut self, workload: WorkloadIdx, members: &[PodIdx], lacks: bool) -> bool {
        if lacks || self.reservations.is_empty() {
            return self.place_members(workload, members, true);
        }
        let passed = self.state.pass_nominated_for(members);
        let aside = self.put_beside(workload, members).map(Txn::set_aside);
        let joins = aside.is_some_and(|aside| {
            let late = self.delayed_by_member(workload);
            let txn = Txn::take_up(&mut self.state, aside);
            if late.is_none() {
                txn.commit();
            }
            late.is_none()
        });
        self.state.restore_nominated(passed);
        joins
    }

    /// Those have left who left for members of a gang that runs: they join, wherever there is room.
    pub(super) fn redeem_beside(&mut self, now: Time, workload: WorkloadIdx, round: &mut Round) {
        // Others of it are in the middle of something.
        if !matches!(self.state.workloads[workload].state, State::Running | State::Binding) {
            return;
        }
        let missing = self.missing(workload);
        let claim = self.state.drop_claim(workload).expect("just listed");
        let members: Vec<PodIdx> = claim.places.members.iter().map(|(pod, _)| *pod).collect();
        // Too few stay of those that they were to join.
        let few = self.lacks_anew(workload).is_some_and(|lacks| members.len() < lacks as usize);
        let promised = &claim.assignment;
        if !few
            && (self.place_members(workload, &members, true)
                || self.join_as_promised(workload, &members, promised))
        {
            self.reservations.doubtful |= !self.reservations.is_empty();
            self.joined(now, workload, missing, round);
            return self.refile(workload, now);
        }
        let then = self.with_all_shapes(workload, &members).ok();
        let then = then.filter(|_| !few).is_some_and(|assignment| {
            self.put_with(workload, &members, &assignment, Some(&[])).is_some()
        });
        if then {
            // Once victims of others have left.
            self.state.add_claim(workload, claim.assignment, claim.places, Vec::new());
            return;
        }
        // What it kept is free for others, and others of it may join.
        self.state.derive_roles(workload);
        self.mark(workload);
        self.refile(workload, now);
        self.claim_is_free();
        round.decided = true;
    }

    /// Members have their places beside the others.
    pub(super) fn joined(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        missing: u32,
        round: &mut Round,
    ) {
        round.decided = true;
        self.reservations.doubtful |= missing > 0;
        let assignment = self.state.workloads[workload].assignment.as_ref();
        round.gained.extend(assignment.and_then(|assignment| assignment.queue));
        if matches!(self.state.workloads[workload].reason, Some(Reason::Extras { .. })) {
            self.clear_reason(workload);
        }
        match missing {
            0 => self.send(now, workload),
            _ => self.complete(now, workload),
        }
    }

    /// What a claim kept is free for others.
    pub(super) fn claim_is_free(&mut self) {
        self.waiting.wake(|_| true, |_| true);
        self.growth.append(&mut self.growth_parked);
        self.try_anew();
    }

    /// How many members a gang lacks for its minimum.
    pub(super) fn missing(&self, workload: WorkloadIdx) -> u32 {
        self.state.lacks_for_minimum(workload, self.needy(workload).len() as u32)
    }

    /// Members of a gang that runs wait for others to leave.
    fn say_who_leaves(&mut self, workload: WorkloadIdx) {
        if let Some(reason) = self.who_leaves(workload) {
            self.set_reason(workload, reason);
        }
    }

    /// For whose leaving members of a gang that runs wait, if room is being made for them.
    pub(super) fn who_leaves(&self, workload: WorkloadIdx) -> Option<Reason> {
        let claim = self.state.claims.get(workload).filter(|claim| !claim.victims.is_empty())?;
        let victims = claim.victims.len() as u32;
        let then = Some(Box::new(Reason::WaitingForVictims { victims }));
        let need = self.state.workloads[workload].min_member;
        let have = self.state.placed(workload).count() as u32;
        if have < need {
            return Some(Reason::Incomplete { have, need, then });
        }
        Some(Reason::Extras { waiting: self.needy(workload).len() as u32, then })
    }
}

/// What must fit beside a gang once others have left.
fn need_of(
    txn: &Txn<'_>,
    (workload, queue, assignment): (WorkloadIdx, Option<QueueIdx>, &Assignment),
    (members, asks): (&[PodIdx], &[Ask]),
    topology: TopologyAsk,
) -> Need {
    let state = txn.state();
    let mut sums: BTreeMap<FrIdx, i64> = BTreeMap::new();
    let sets = members.iter().filter_map(|pod| assignment.set(state.pods[*pod].shape));
    for (fr, amount) in sets.flat_map(|set| &set.charge) {
        resources::add(sums.entry(*fr).or_default(), *amount);
    }
    let mut usage: Vec<(FrIdx, i64)> = sums.into_iter().collect();
    if let Some(queue) = queue {
        money::put_least(state, queue, asks, &mut usage);
    }
    let node = queue.and_then(|queue| state.quota.queue(queue).node);
    let short = |(fr, amount): &&(FrIdx, i64)| {
        node.is_some_and(|node| *amount > state.quota.tree.available(node, *fr))
    };
    let shapes: Vec<ShapeIdx> =
        asks.iter().map(|ask| state.classes.class(ask.class).key.shape).collect();
    let (peers, home) = company_of(txn, workload, asks, topology);
    Need {
        contested: usage.iter().filter(short).map(|(fr, _)| *fr).collect(),
        usage,
        asks: asks.iter().map(|ask| (ask.class, ask.pods.len() as u32)).collect(),
        together: coupled::together(txn, shapes.iter().copied()),
        topology,
        peers,
        home,
    }
}

/// Members of a gang that run, where levels or slices keep others beside them, and the domain in
/// which that is for all that are asked for, if it is one.
fn company_of(
    txn: &Txn<'_>,
    workload: WorkloadIdx,
    asks: &[Ask],
    topology: TopologyAsk,
) -> (Vec<(ShapeIdx, NodeIdx)>, Option<DomainIdx>) {
    let anywhere = |asked: TopologyAsk| asked.required.is_none() && asked.slices.is_none();
    if anywhere(topology) && !topology.own_levels {
        return (Vec::new(), None);
    }
    let (peers, state) = (peers(txn.state(), workload), txn.state());
    let of = |ask: &Ask| topology.beside(&state.room, &levels::members_of(state, [ask]), &peers);
    if anywhere(topology) && asks.iter().all(|ask| anywhere(of(ask))) {
        return (Vec::new(), None);
    }
    let tree = &state.room.tree;
    let home = |ask: &Ask| {
        let near = match topology.per_set {
            true => pod_sets::peers_of(txn, ask, &peers),
            false => peers.iter().map(|(_, node)| *node).collect(),
        };
        gang::home(tree, of(ask).required?, &near)
    };
    let mut homes = asks.iter().map(home);
    let first = homes.next().flatten();
    let home = first.filter(|first| homes.all(|home| home == Some(*first)));
    (peers, home)
}

/// Where members that were placed are, what each costs there, and with which devices.
pub(super) fn places_of(state: &ClusterState, members: &[PodIdx], pays: bool) -> Places {
    let place = |pod: &PodIdx| (*pod, state.pods[*pod].place.expect("was placed"));
    let prices = members.iter().map(|pod| state.bills.amount(*pod)).filter(|_| pays);
    let devices = &state.room.devices;
    Places {
        members: members.iter().map(place).collect(),
        prices: prices.collect(),
        devices: devices.held_by_all(members.iter().copied()).into(),
        frees: devices.left_behind(),
        takes: devices.given_anew(),
    }
}
