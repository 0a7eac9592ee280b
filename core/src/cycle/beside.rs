//! What members join a gang with that runs, and why they wait.
//!
//! Problem: members of a running gang that have no place yet (lost ones that came back, late
//! ones, extras) share the flavor of those of their shape that run. Those may run where the queue
//! would not have put them: somebody else bound them, or the queue was edited since. What runs is
//! charged where it is; what is added follows only to flavors and resources that the queue lists
//! now and that exist, else it would run beside all quota, or borrow what its queue may not.
//!
//! Wanted: whoever joins is charged to what its queue lists; whoever waits says why, with numbers.
//! Members of a shape that nobody runs with get flavors as waiting work does, beside those that
//! join with them and have flavors already.
//!
//! Cost: a check looks at the resources of each shape once; a reason counts nodes like any other
//! refusal.

use std::sync::Arc;

use capstan_topology::{DomainIdx, LevelIdx, NodeIdx};

use crate::cycle::nominate::COMBINATIONS_MAX;
use crate::cycle::promised::{asks_with, peers};
use crate::engine::Engine;
use crate::engine::reservations::timetable::Slot;
use crate::explain::reason::{FlavorRefusal, Inactive, Reason};
use crate::explain::{obstacles, together, verdict};
use crate::model::ids::{ClassIdx, FlavorIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{QueueingStrategy, Text};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::workload::{Assignment, BY_NODE, QueueRef, SetAssignment};
use crate::place::classes::Scoring;
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::place::pod_sets;
use crate::quota::build::Group;
use crate::quota::flavors::{self, Demand, Mode, SetDemand};
use crate::quota::money;
use crate::resources::USD;

/// Why members cannot be charged; `None`: what they belong to holds no quota any more.
pub(super) type Refusal = Option<Reason>;

impl Engine {
    /// What a workload holds quota with, flavors for members of new shapes added.
    pub(super) fn with_all_shapes(
        &mut self,
        workload: WorkloadIdx,
        members: &[PodIdx],
    ) -> Result<Arc<Assignment>, Refusal> {
        self.with_shapes(workload, members, Mode::Fit)
    }

    /// The same where flavors of new shapes fit at least so well.
    pub(super) fn with_shapes(
        &mut self,
        workload: WorkloadIdx,
        members: &[PodIdx],
        least: Mode,
    ) -> Result<Arc<Assignment>, Refusal> {
        let assignment = self.state.workloads[workload].assignment.clone().ok_or(None)?;
        if let Some(why) = self.unlisted(workload, &assignment, members) {
            return Err(Some(why));
        }
        let (mut missing, mut known) = (Vec::<SetDemand>::new(), Vec::new());
        for pod in members {
            let shape = self.state.pods[*pod].shape;
            match missing.iter_mut().find(|set| set.shape == shape) {
                Some(set) => set.count += 1,
                None if assignment.set(shape).is_some() => known.push(*pod),
                None => missing.push(SetDemand { shape, name: "main".into(), count: 1 }),
            }
        }
        if missing.is_empty() {
            return Ok(assignment);
        }
        let topology = self.topology_ask(assignment.queue, workload)?;
        let profile = self.profile(assignment.queue);
        let chosen = match assignment.queue {
            None => vec![Vec::new(); missing.len()],
            Some(queue) => {
                self.assigns(queue)?;
                let held = (queue, &*assignment);
                let mut choice =
                    self.choose_beside(workload, held, (&missing, &known), (topology, profile));
                // Others may leave for all of them together.
                if choice.mode < least && !known.is_empty() {
                    choice =
                        self.choose_beside(workload, held, (&missing, &[]), (topology, profile));
                }
                if choice.mode < least {
                    return Err(choice.reason);
                }
                choice.sets
            }
        };
        let mut extended = Assignment::clone(&assignment);
        for (set, chosen) in missing.iter().zip(chosen) {
            let added = self.state.set_assignment_of(set.shape, chosen);
            let members = &self.state.workloads[workload].members;
            extended.extend(added, |shape| {
                members.iter().any(|pod| self.state.pods[*pod].shape == shape)
            });
        }
        Ok(Arc::new(extended))
    }

    /// Flavors for members of new shapes, beside members whose flavors are known.
    fn choose_beside(
        &mut self,
        workload: WorkloadIdx,
        (queue, assignment): (QueueIdx, &Assignment),
        (sets, known): (&[SetDemand], &[PodIdx]),
        (topology, profile): (TopologyAsk, Scoring),
    ) -> flavors::Choice {
        let mut txn = Txn::begin(&mut self.state);
        txn.vacate(workload);
        let (start, combinations) = (&[][..], COMBINATIONS_MAX);
        let kept = &kept_by(txn.state(), workload)[..];
        put_known(&mut txn, workload, (known, assignment), (topology, profile));
        let demand = Demand { workload, queue, sets, topology, profile, start, combinations, kept };
        first_that_fits(&mut txn, &demand)
    }

    /// Whether flavors of a queue can be chosen at all. Its gangs may run while it admits nothing:
    /// a flavor of it may be gone, or a quota for what it covers.
    fn assigns(&self, queue: QueueIdx) -> Result<(), Refusal> {
        let quota = &self.state.quota;
        let slot = quota.queue(queue);
        let whole = slot.groups.iter().all(|group| {
            let exists = |flavor| quota.flavor(flavor).is_some();
            let listed = |flavor| group.covered.iter().all(|r| quota.find_fr(flavor, *r).is_some());
            let usable = |flavor: &_| exists(*flavor) && listed(*flavor);
            !group.flavors.is_empty() && group.flavors.iter().all(usable)
        });
        let inactive = |why| Reason::Inactive { cluster_queue: slot.name.clone(), why };
        if whole { Ok(()) } else { Err(slot.inactive.clone().map(inactive)) }
    }

    /// Why members cannot be charged as those of their shape are that run: the queue does not
    /// cover what they ask, or the flavor is none of its own.
    fn unlisted(
        &self,
        workload: WorkloadIdx,
        assignment: &Assignment,
        members: &[PodIdx],
    ) -> Option<Reason> {
        let queue = assignment.queue?;
        let mut last: Option<ShapeIdx> = None;
        members.iter().find_map(|pod| {
            let shape = self.state.pods[*pod].shape;
            if last.replace(shape) == Some(shape) {
                return None;
            }
            self.unlisted_set(workload, queue, assignment.set(shape)?)
        })
    }

    /// Whether a queue lists some flavor no more that an assignment charges to it, or does not
    /// cover what it is for.
    pub(crate) fn charges_unlisted(&self, assignment: &Assignment) -> bool {
        let Some(queue) = assignment.queue else { return false };
        let groups = &self.state.quota.queue(queue).groups;
        let mut chosen = assignment.sets.iter().flat_map(|set| &set.flavors);
        chosen.any(|(of, flavor)| {
            let lists =
                |group: &Group| group.covered.contains(of) && group.flavors.contains(flavor);
            !groups.iter().any(lists)
        })
    }

    fn unlisted_set(
        &self,
        workload: WorkloadIdx,
        queue: QueueIdx,
        set: &SetAssignment,
    ) -> Option<Reason> {
        let state = &self.state;
        let slot = state.quota.queue(queue);
        let cluster_queue = || slot.name.clone();
        let money = state.quota.money_group(queue).map(|_| (USD, state.dearest(workload, None)));
        let counted = state.room.counted(set.shape).entries().iter().copied();
        counted.chain(money).find_map(|(of, asked)| {
            let resource = || state.room.resources.name(of).clone();
            let Some(group) = slot.groups.iter().find(|group| group.covered.contains(&of)) else {
                let needs_none = of == crate::resources::PODS;
                let (cluster_queue, resource) = (cluster_queue(), resource());
                return (!needs_none).then_some(Reason::NotCovered {
                    cluster_queue,
                    resource,
                    asked,
                });
            };
            let Some((_, flavor)) = set.flavors.iter().find(|(resource, _)| *resource == of) else {
                let of_shape = |pod: &PodIdx| state.pods[*pod].shape == set.shape;
                let pods = state.placed(workload).filter(of_shape).count() as u32;
                let (cluster_queue, resource) = (cluster_queue(), resource());
                return Some(Reason::NoFlavorYet { cluster_queue, resource, pods, asked });
            };
            let named = state.quota.flavor_name(*flavor).clone();
            match (group.flavors.contains(flavor), state.quota.flavor(*flavor)) {
                (false, _) => Some(Reason::FlavorNotListed {
                    cluster_queue: cluster_queue(),
                    flavor: named,
                    resource: resource(),
                }),
                (true, None) => {
                    let why = Inactive::FlavorMissing(named);
                    Some(Reason::Inactive { cluster_queue: cluster_queue(), why })
                }
                (true, Some(_)) => None,
            }
        })
    }

    /// Why a running gang gets no extras, whatever they ask: its queue admits nothing, has spent
    /// its budget, or is strict and has a head that waits, be it for its victims, which nothing of
    /// that queue passes.
    pub(super) fn holds_extras(&self, workload: WorkloadIdx) -> Option<Reason> {
        let entry = &self.state.workloads[workload];
        if let QueueRef::Broken(why) = &entry.queue {
            return Some(why.clone());
        }
        let queue = entry.assignment.as_ref().and_then(|assignment| assignment.queue)?;
        if let Some(reason) = self.overspent(queue) {
            return Some(reason);
        }
        let slot = self.state.quota.queue(queue);
        let strict = slot.facts.as_ref()?.strategy == QueueingStrategy::StrictFifo;
        let order = |workload: &WorkloadIdx| self.head_order(Some(queue), *workload);
        let waits = self.waiting.head(Some(queue)).into_iter();
        let claimants = self.state.claims.of_queue(Some(queue));
        let heads = waits.chain(claimants.filter(|head| !self.state.claims_to_join(*head)));
        let head = heads.filter(|_| strict).min_by(|a, b| order(a).cmp(&order(b)))?;
        let head = self.state.workloads[head].full_name.clone();
        Some(Reason::BehindHead { head, queue: slot.name.clone() })
    }

    /// Why none of the members above the minimum joins that wait.
    pub(super) fn no_extra_joins(&mut self, workload: WorkloadIdx, waiting: &[PodIdx]) -> Refusal {
        let lots = self.state.lots(workload, &[waiting.to_vec()]).concat();
        let Some(first) = lots.first() else { return self.state.not_whole(workload, waiting) };
        let together = first.len() as u32;
        let exposed = self.exposes(workload, &lots);
        exposed.or_else(|| self.no_place_or_kept(workload, &lots.concat(), together))
    }

    /// Members above the minimum wait.
    pub(super) fn extras_wait(&mut self, workload: WorkloadIdx, waiting: u32, then: Refusal) {
        if waiting > 0 {
            self.set_reason(workload, Reason::Extras { waiting, then: then.map(Box::new) });
        }
    }

    /// Why members that a gang cannot run without find no place, with the numbers of now; or that
    /// they are `held` though others might leave for them.
    fn why_incomplete(
        &mut self,
        workload: WorkloadIdx,
        missing: &[PodIdx],
        held: Refusal,
    ) -> Reason {
        let have = self.state.placed(workload).count() as u32;
        let need = have.saturating_add(self.missing(workload));
        if let Some(why) = self.queueless(workload) {
            return Reason::Incomplete { have, need, then: Some(Box::new(why)) };
        }
        let then = match have + (missing.len() as u32) < need {
            true => Some(self.state.gathering(workload)),
            false => held.or_else(|| {
                let why = self.no_place_for_some(workload, missing, need - have)?;
                match self.stops_ended(workload, need - have) {
                    Some(bound) => Some(why.with_stops_ended(bound)),
                    None => Some(why),
                }
            }),
        };
        let then = then.map(Box::new);
        Reason::Incomplete { have, need, then }
    }

    /// Why so many of the members that wait find no place, and whether the search said so before it
    /// had looked at all of them.
    pub(super) fn no_place_for_some(
        &mut self,
        workload: WorkloadIdx,
        missing: &[PodIdx],
        count: u32,
    ) -> Refusal {
        let why = self.no_place(workload, missing, count)?;
        let ended = self.join_search_ended(workload, missing, count);
        match ended.or_else(|| self.choices_ended(workload, count)) {
            Some(bound) => Some(why.with_ended(bound)),
            None => Some(why),
        }
    }

    /// Why nothing more of a gang may start: the queue that it names does not exist, and it holds
    /// no quota of another; or its members wait for what no queue can give them.
    pub(super) fn queueless(&self, workload: WorkloadIdx) -> Option<Reason> {
        let entry = &self.state.workloads[workload];
        let charged = entry.assignment.as_ref().is_some_and(|held| held.queue.is_some());
        let of_members = |why: &Reason| {
            matches!(
                why,
                Reason::OtherPriority { .. }
                    | Reason::OtherPreemption { .. }
                    | Reason::OwnerUnknown { .. }
            )
        };
        match &entry.queue {
            QueueRef::Broken(why) if !charged || of_members(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Members that a gang cannot run without find no place, or are held.
    pub(super) fn incomplete(&mut self, workload: WorkloadIdx, missing: &[PodIdx], held: Refusal) {
        let reason = self.why_incomplete(workload, missing, held);
        self.waits_on(workload, reason);
    }

    /// With the numbers of now, why members that were looked at in vain join no gang that runs.
    pub(crate) fn joins_not(&mut self, workload: WorkloadIdx) -> Option<Reason> {
        let waiting = self.needy(workload);
        if waiting.is_empty() || !self.growth_parked.contains(&workload) {
            return None;
        }
        if let Some(reason) = self.who_leaves(workload) {
            return Some(reason);
        }
        if let Some(lacks) = self.lacks_anew(workload) {
            return Some(self.why_not_anew(workload, &waiting, lacks));
        }
        let placed = self.state.placed(workload).count() as u32;
        let held = self.held_for_start(workload);
        if placed < self.state.workloads[workload].min_member {
            return Some(self.why_incomplete(workload, &waiting, held));
        }
        let then = self.holds_extras(workload).or(held).or_else(|| {
            self.keep_back_strict();
            let why = self.no_extra_joins(workload, &waiting);
            self.state.let_go();
            why
        });
        Some(Reason::Extras { waiting: waiting.len() as u32, then: then.map(Box::new) })
    }

    /// For whose reserved start members of a gang waited when they were looked at, if it is
    /// reserved still.
    fn held_for_start(&self, workload: WorkloadIdx) -> Refusal {
        let known = self.state.workloads[workload].reason.as_ref().map(obstacles::told)?;
        let Reason::Reserved { head, start, .. } = known else { return None };
        let stands = |slot: &Slot| {
            slot.start == *start && self.state.workloads[slot.workload].full_name == *head
        };
        self.slots(Some(workload)).iter().any(stands).then(|| known.clone())
    }

    /// Where other members of a gang are, as one of this shape looks at them, and the domain that
    /// a required level keeps it in.
    pub(crate) fn company(
        &self,
        workload: WorkloadIdx,
        shape: ShapeIdx,
        topology: TopologyAsk,
    ) -> (Vec<NodeIdx>, Option<(LevelIdx, DomainIdx)>) {
        let peers = peers(&self.state, workload);
        let topology = topology.beside(&self.state.room, &[(shape, 1)], &peers);
        let company: Vec<NodeIdx> = peers
            .into_iter()
            .filter(|(of, _)| !topology.per_set || pod_sets::alike(&self.state.room, *of, shape))
            .map(|(_, node)| node)
            .collect();
        let tree = &self.state.room.tree;
        let home = topology.required.and_then(|l| Some((l, gang::home(tree, l, &company)?)));
        (company, home)
    }

    /// The flavors that one member of a shape would be tried with, if nobody of its shape runs;
    /// `None`: the queue cannot choose any.
    pub(crate) fn choice_for_one(
        &mut self,
        workload: WorkloadIdx,
        queue: QueueIdx,
        shape: ShapeIdx,
    ) -> Option<flavors::Choice> {
        self.assigns(queue).ok()?;
        let topology = self.topology_ask(Some(queue), workload).ok()?;
        let profile = self.profile(Some(queue));
        let sets = &[SetDemand { shape, name: "main".into(), count: 1 }];
        let (start, combinations) = (&[][..], COMBINATIONS_MAX);
        let mut txn = Txn::begin(&mut self.state);
        txn.vacate(workload);
        let kept = &kept_by(txn.state(), workload)[..];
        let demand = Demand { workload, queue, sets, topology, profile, start, combinations, kept };
        Some(first_that_fits(&mut txn, &demand))
    }

    /// Why up to so many of the members that wait find no place beside the others, told of those
    /// of the first shape, or of all of them together. `None`: they would.
    pub(super) fn no_place(
        &mut self,
        workload: WorkloadIdx,
        waiting: &[PodIdx],
        most: u32,
    ) -> Refusal {
        let assignment = self.state.workloads[workload].assignment.clone()?;
        if let Some(why) = self.unlisted(workload, &assignment, waiting) {
            return Some(why);
        }
        let shape = self.state.pods[*waiting.first()?].shape;
        let alike = waiting.iter().filter(|pod| self.state.pods[**pod].shape == shape);
        let asked: Vec<PodIdx> = alike.take(most as usize).copied().collect();
        let count = asked.len() as u32;
        let assignment = match self.with_all_shapes(workload, &asked) {
            Ok(assignment) => assignment,
            Err(why) => return why,
        };
        let topology = match self.topology_ask(assignment.queue, workload) {
            Ok(topology) => topology,
            Err(why) => return Some(why),
        };
        let set = assignment.set(shape)?;
        let profile = self.profile(assignment.queue);
        let (_, home) = self.company(workload, shape, topology);
        let mut txn = Txn::begin(&mut self.state);
        let class = txn.class(shape, &set.nodes_of, profile);
        let room = match home {
            Some(home) => verdict::shortage_beside(&mut txn, class, count, home),
            None if gang::holds(&mut txn, class, count, topology) => None,
            None => Some(verdict::unqueued_shortage(&mut txn, class, count, topology)),
        };
        // What the gang keeps for them is theirs.
        txn.vacate(workload);
        let short = |queue| short_of(txn.state(), workload, queue, (set, class), count);
        // Of who lacks both, nodes alone would not help, which autoscalers would build.
        let lacks = assignment.queue.and_then(short).or(room);
        drop(txn);
        lacks
            .or_else(|| self.no_place_together(workload, waiting, most, topology))
            .or_else(|| self.no_place_beside(workload, waiting, most, topology))
    }

    /// Why members find no places beside those that run, though nodes have room for as many by
    /// themselves.
    fn no_place_beside(
        &mut self,
        workload: WorkloadIdx,
        waiting: &[PodIdx],
        most: u32,
        topology: TopologyAsk,
    ) -> Refusal {
        let members = &waiting[..waiting.len().min(most as usize)];
        let assignment = self.with_all_shapes(workload, members).ok()?;
        let profile = self.profile(assignment.queue);
        let passed = self.state.pass_nominated_for(members);
        let mut txn = Txn::begin(&mut self.state);
        txn.vacate(workload);
        txn.assign(workload, Some(assignment.clone()));
        let near = peers(txn.state(), workload);
        let asks = asks_with(&mut txn, &assignment, members.iter().copied(), profile);
        let short = asks.and_then(|asks| {
            let placed = gang::place_beside(&mut txn, &asks, topology, &near);
            (!placed).then(|| together::not_beside(&mut txn, &asks, topology))
        });
        drop(txn);
        self.state.restore_nominated(passed);
        short
    }

    /// Why members of several shapes find no places together, though those of each shape may.
    fn no_place_together(
        &mut self,
        workload: WorkloadIdx,
        waiting: &[PodIdx],
        most: u32,
        topology: TopologyAsk,
    ) -> Refusal {
        let asked = &waiting[..waiting.len().min(most as usize)];
        let assignment = self.with_all_shapes(workload, asked).ok()?;
        let profile = self.profile(assignment.queue);
        let mut by_shape: Vec<(ShapeIdx, Vec<PodIdx>)> = Vec::new();
        for &pod in asked {
            let shape = self.state.pods[pod].shape;
            match by_shape.iter_mut().find(|(of, _)| *of == shape) {
                Some((_, pods)) => pods.push(pod),
                None => by_shape.push((shape, vec![pod])),
            }
        }
        if by_shape.len() < 2 {
            return None;
        }
        let sets = self.state.workloads[workload].sets.clone();
        let named = |(shape, _): &(ShapeIdx, _)| {
            sets.iter().find(|set| set.shape == *shape).map(|set| &set.name)
        };
        let names: Vec<&Text> = by_shape.iter().map(named).collect::<Option<_>>()?;
        let mut txn = Txn::begin(&mut self.state);
        let mut asks = Vec::new();
        for (shape, pods) in &by_shape {
            let class = txn.class(*shape, &assignment.set(*shape)?.nodes_of, profile);
            asks.push(Ask { class, pods: pods.clone() });
        }
        let start = txn.checkpoint();
        let placed = gang::place(&mut txn, &asks, topology);
        txn.rollback_to(start);
        (!placed).then(|| together::shortage(&mut txn, &asks, &names, topology))
    }
}

/// By group name of pod sets, the flavors that a workload has for members of it.
fn kept_by(state: &ClusterState, workload: WorkloadIdx) -> Vec<(Text, FlavorIdx)> {
    let assignment = state.workloads[workload].assignment.as_ref();
    let sets = assignment.map_or(&[][..], |assignment| &assignment.sets);
    let of_set = |set: &SetAssignment| {
        let name = state.room.shape(set.shape).facts.set_group.clone()?;
        Some(set.nodes_of.iter().map(|flavor| (name.clone(), *flavor)).collect::<Vec<_>>())
    };
    sets.iter().filter_map(of_set).flatten().collect()
}

/// Looks at the flavors of a queue that members of a new shape get: as many as queues usually list.
const LOOKS_MAX: u32 = 16;

/// The first flavors that fit as things are, also behind those at which the queue would stop to
/// preempt: whoever can joins without that. None: what the first look found.
fn first_that_fits(txn: &mut Txn<'_>, demand: &Demand<'_>) -> flavors::Choice {
    let first = flavors::assign(txn, demand);
    if first.mode == Mode::Fit {
        return first;
    }
    let mut start = first.next.clone();
    for _ in 1..LOOKS_MAX {
        if start.is_empty() {
            break;
        }
        let found = flavors::assign(txn, &Demand { start: &start, ..*demand });
        if found.mode == Mode::Fit {
            return found;
        }
        start = found.next;
    }
    first
}

/// The quota that so many more members of a set lack.
fn short_of(
    state: &ClusterState,
    workload: WorkloadIdx,
    queue: QueueIdx,
    (set, class): (&SetAssignment, ClassIdx),
    count: u32,
) -> Refusal {
    let charge = set.charge.iter();
    let short = charge.filter_map(|&(fr, each)| {
        let each = match each {
            BY_NODE => money::least(state, class).unwrap_or(0),
            each => each,
        };
        flavors::shortage(state, queue, fr, each.saturating_mul(count.into()))
    });
    let tried: Vec<FlavorRefusal> = short.collect();
    let sets = &state.workloads[workload].sets;
    let pod_set = sets.iter().find(|of| of.shape == set.shape).map(|of| of.name.clone());
    (!tried.is_empty()).then(|| Reason::Flavors {
        cluster_queue: state.quota.queue(queue).name.clone(),
        pod_set: pod_set.unwrap_or_else(|| "main".into()),
        tried,
    })
}

/// Takes quota and room for members whose flavors are known, before those of other shapes choose
/// theirs; where they find no room (others may leave for it), quota alone. Never kept.
fn put_known(
    txn: &mut Txn<'_>,
    workload: WorkloadIdx,
    (members, assignment): (&[PodIdx], &Assignment),
    (topology, profile): (TopologyAsk, Scoring),
) {
    let asks = asks_with(txn, assignment, members.iter().copied(), profile).unwrap_or_default();
    let peers = peers(txn.state(), workload);
    if asks.is_empty() || gang::place_beside(txn, &asks, topology, &peers) {
        return;
    }
    let Some(queue) = assignment.queue else { return };
    for pod in members {
        let shape = txn.state().pods[*pod].shape;
        let charge = assignment.set(shape).into_iter().flat_map(|set| &set.charge);
        charge.for_each(|(fr, amount)| txn.propose(queue, *fr, *amount, true));
    }
}
