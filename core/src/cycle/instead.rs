//! Members that gangs can do without, in the stead of victims.
//!
//! Problem: victims are whole workloads. What a gang runs with beyond its minimum is no victim by
//! itself: who goes before it leaves, or a PodDisruptionBudget is broken, where a few of those
//! members would do.
//!
//! Decides, once victims of work without a queue are certain, whether members that may leave gangs
//! by themselves (`model/apart.rs`) leave in their stead, and nobody else: if others pay less for
//! that ([`toll`](super::toll)). In queues that is not asked: there it counts by workload what is
//! taken back, and turns are counted, too. Nor is it where nobody was found who leaves whole, or
//! such members would do only beside others.
//!
//! Phases: gangs of lower priority -> what of each may leave on one node, if amounts would do, and
//! everywhere -> of each such set as many of the last as it takes, and everyone of these goes back
//! without whom it fits -> the least toll. Each try is a look for places for all members of the
//! preemptor, which has [`TRIES_MAX`]. Who was made last is looked at, however much it holds.
//!
//! Restart: as for any members that leave by themselves. Cost: one pass over work without a queue
//! for each preemptor among it that stops somebody; the rest only where such gangs are.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_topology::NodeIdx;

use crate::cycle::Entry;
use crate::cycle::toll::{Parts, Toll};
use crate::engine::Engine;
use crate::model::claim::Places;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::GangKey;
use crate::model::workload::Assignment;
use crate::plan::PreemptionReason;
use crate::resources;
use crate::time::Time;
use crate::victims::{self, Victim};

/// Looks for places for one preemptor, at most.
const TRIES_MAX: u32 = 128;

/// Gangs that are looked at, those of the lowest priority first.
const GANGS_MAX: usize = 64;

/// Nodes that are looked at, those first where the lowest priorities leave.
const NODES_MAX: usize = 16;

/// Members that are looked at together, wherever they stand, if they are no more.
const ANYWHERE_MAX: usize = 64;

/// What a gang can do without: who may leave, who stays longest first, and how many together.
type Surplus = (Vec<PodIdx>, usize);

impl Engine {
    /// Members of gangs that leave rather than victims, of whom some only in part; and where
    /// everyone goes then. `None`: the victims are better, or nothing else would do.
    pub(super) fn surplus_instead(
        &mut self,
        entry: &Entry,
        assignment: &Arc<Assignment>,
        found: &[Victim],
        parts: &Parts,
    ) -> Option<(Places, Vec<PodIdx>)> {
        if entry.queue.is_some() {
            return None;
        }
        let most = self.toll_in_part(found, parts);
        let surplus = self.surplus_below(entry.workload, most);
        let mut tries = TRIES_MAX;
        let mut best: Option<(Toll, Vec<PodIdx>)> = None;
        for set in self.sets_of(entry, &surplus) {
            let some = fewest(&set, |leave| {
                let more = tries > 0;
                tries = tries.saturating_sub(1);
                more && self.plan_without_members(entry, assignment, leave).is_some()
            });
            let Some(leave) = some else { continue };
            let toll = self.toll_of_members(&leave);
            if toll < best.as_ref().map_or(most, |(least, _)| *least) {
                best = Some((toll, leave));
            }
        }
        let (_, leave) = best?;
        let places = self.plan_without_members(entry, assignment, &leave)?;
        Some((places, leave))
    }

    /// These members leave their gangs: the victims that they are from now on.
    pub(super) fn set_all_apart(&mut self, now: Time, members: &[PodIdx]) -> Vec<Victim> {
        let mut by_gang: BTreeMap<WorkloadIdx, Vec<PodIdx>> = BTreeMap::new();
        for &member in members {
            let gang = self.state.pods[member].workload.expect("it is a member of a gang");
            by_gang.entry(gang).or_default().push(member);
        }
        let mut victims = Vec::with_capacity(members.len());
        for (gang, members) in by_gang {
            let reason = PreemptionReason::Priority;
            let apart = self.set_apart(now, gang, &members);
            victims.extend(apart.into_iter().map(|workload| Victim { workload, reason }));
        }
        victims
    }

    fn plan_without_members(
        &mut self,
        entry: &Entry,
        assignment: &Arc<Assignment>,
        members: &[PodIdx],
    ) -> Option<Places> {
        self.plan_without(entry, assignment.clone(), |txn| {
            members.iter().for_each(|member| txn.remove(*member));
        })
    }

    /// What gangs without a queue can do without, of lower priority than a preemptor, if that could
    /// cost less than this: those of the lowest priority first.
    fn surplus_below(&self, preemptor: WorkloadIdx, most: Toll) -> Vec<(i32, Surplus)> {
        let state = &self.state;
        let below = state.workloads[preemptor].priority;
        let may = |workload: &WorkloadIdx| {
            let gang = &state.workloads[*workload];
            matches!(gang.id.key, GangKey::Group(..))
                && gang.priority < below
                && most.is_above(gang.priority)
                && gang.stays.is_none()
                && *workload != preemptor
                && !victims::refused_of_late(state, *workload)
        };
        let mut gangs: Vec<WorkloadIdx> =
            state.unqueued_holding.iter().copied().filter(may).collect();
        gangs.sort_by(|one, other| {
            let (one, other) = (&state.workloads[*one], &state.workloads[*other]);
            let named = || one.full_name.cmp(&other.full_name);
            one.priority.cmp(&other.priority).then_with(named)
        });
        let surplus = gangs.into_iter().map(|gang| {
            let priority = state.workloads[gang].priority;
            (priority, state.may_leave_singly(gang))
        });
        let spares = |(_, (order, spare)): &(i32, Surplus)| *spare > 0 && !order.is_empty();
        surplus.filter(spares).take(GANGS_MAX).collect()
    }

    /// Members of which some could leave together, each time who stays longest first: those on one
    /// node where amounts would do then, and those everywhere. Of each gang no more than it can do
    /// without.
    fn sets_of(&self, entry: &Entry, surplus: &[(i32, Surplus)]) -> Vec<Vec<PodIdx>> {
        let place = |pod: PodIdx| self.state.pods[pod].place;
        let mut all: Vec<PodIdx> = Vec::new();
        let mut by_node: BTreeMap<NodeIdx, (i32, Vec<PodIdx>)> = BTreeMap::new();
        for (priority, (order, spare)) in surplus.iter().rev() {
            let last = |of: &[PodIdx]| of[of.len().saturating_sub(*spare)..].to_vec();
            all.extend(last(order));
            let mut here: BTreeMap<NodeIdx, Vec<PodIdx>> = BTreeMap::new();
            for &pod in order {
                if let Some(node) = place(pod) {
                    here.entry(node).or_default().push(pod);
                }
            }
            for (node, there) in here {
                by_node.entry(node).or_insert((*priority, Vec::new())).1.extend(last(&there));
            }
        }
        let anywhere = by_node.len() > 1 && all.len() <= ANYWHERE_MAX;
        let mut nodes: Vec<(NodeIdx, (i32, Vec<PodIdx>))> = by_node.into_iter().collect();
        nodes.retain(|(node, (_, leave))| self.holds_one_without(entry, *node, leave));
        nodes.sort_by(|(one, (highest, _)), (other, (its, _))| {
            let name = |node: NodeIdx| &self.state.room.node(node).name;
            highest.cmp(its).then_with(|| name(*one).cmp(name(*other)))
        });
        let mut sets: Vec<Vec<PodIdx>> =
            nodes.into_iter().take(NODES_MAX).map(|(_, (_, leave))| leave).collect();
        sets.extend(anywhere.then_some(all));
        for set in &mut sets {
            let guarded = self.state.break_budgets(set);
            set.sort_by_key(|pod| !guarded.contains(pod));
        }
        sets
    }

    /// Whether a node has enough for a member of some shape once these have left, by amounts.
    fn holds_one_without(&self, entry: &Entry, node: NodeIdx, leave: &[PodIdx]) -> bool {
        let (room, pods) = (&self.state.room, &self.state.pods);
        entry.sets.iter().any(|set| {
            let request = room.ledger.request(room.shape(set.shape).request);
            request.entries().iter().all(|&(resource, asked)| {
                let holds = |pod: &PodIdx| room.ledger.request(pods[*pod].holds).get(resource);
                let freed = resources::total(leave.iter().map(holds));
                room.ledger.free(node, resource).saturating_add(freed) >= asked
            })
        })
    }
}

/// Of some, who stay longest first, as many of the last as it takes, but for those without whom it
/// fits; `None`: it does not, though all leave.
fn fewest(all: &[PodIdx], mut fits: impl FnMut(&[PodIdx]) -> bool) -> Option<Vec<PodIdx>> {
    if !fits(all) {
        return None;
    }
    let (mut few, mut most) = (0, all.len());
    while most - few > 1 {
        let middle = few + (most - few) / 2;
        match fits(&all[all.len() - middle..]) {
            true => most = middle,
            false => few = middle,
        }
    }
    let mut leave = all[all.len() - most..].to_vec();
    let mut at = 0;
    while leave.len() > 1 && at < leave.len() {
        let stays = leave.remove(at);
        if !fits(&leave) {
            leave.insert(at, stays);
            at += 1;
        }
    }
    Some(leave)
}
