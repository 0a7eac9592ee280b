//! Victims that lose some members and go on.
//!
//! Problem: victims are chosen whole. A gang that runs with more members than it needs would lose
//! all of them where the room of one would do.
//!
//! Wanted: of such a gang only those leave who have to, while it keeps its minimum. It runs on, and
//! what is made in their stead joins it as any member above a minimum does. Who may leave that way
//! is told by [`may_leave_singly`](crate::model::state::ClusterState): members of PodGroups, but
//! for those that want all or none. A Job, and any owner that is suspended, is stopped whole: its
//! pods would be deleted one by one, and each would count as a failure of the Job.
//!
//! Decides it last of all, when it is certain that all victims are needed, and where their
//! preemptor goes then: what was found for who leaves whole holds for less. Nobody else is chosen
//! for it, but for members of that kind alone (`instead`). Where quota is short only for own work
//! of the queue, and not by shares: what is taken back from others is counted by workload. Own work
//! is taken whole, too, where somebody elsewhere is stopped beside it, or for who took too many
//! turns of late: it may leave so that its queue borrows nothing. So are all whose turn came by
//! shares, all while starts are reserved for others (what the rest of a gang leaves may be what
//! they wait for), and whoever leaves for members that join a gang that runs (`joining`).
//!
//! Phases: all who may leave -> as many of the last of them as it takes -> everyone of these goes
//! back without whom it fits, the most important first. Of many only those are looked at who stand
//! where the preemptor would go, if they will do. If more would leave than may, those stay who hold
//! least of something that is asked, however long they run: one large member leaves where three
//! small ones might not. If still too many would leave, the same is tried on one node after the
//! other; then once more among all, but those leave first who stand where, by amounts, the fewest
//! have to for one member of the preemptor. (It takes another order: all of one, of whom one after
//! the other goes back without whom it fits, come down to the same as its last do.) Else the gang
//! leaves whole. Each try is a look for places for all members of the preemptor, which has
//! [`TRIES_MAX`], and [`TRIES_ACROSS`] more for that other order: who is not looked at by then
//! leaves.
//!
//! Restart: who leaves is marked as leaving by itself, and claimed again as any victim. Cost: for
//! preemptors that chose such gangs; and for some choices that they have
//! ([`PARTED_MAX`](super::toll::PARTED_MAX)).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::cycle::Entry;
use crate::cycle::overlap::Planned;
use crate::cycle::preemptions::is_elsewhere;
use crate::cycle::toll::Parts;
use crate::engine::Engine;
use crate::model::claim::Places;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::workload::Assignment;
use crate::plan::PreemptionReason;
use crate::quota::flavors::SetDemand;
use crate::resources;
use crate::time::Time;
use crate::victims::Victim;

/// Looks for places for one preemptor, at most.
const TRIES_MAX: u32 = 128;

/// As many more, where it takes members of several nodes: enough for three such gangs of a hundred,
/// of which a few leave.
const TRIES_ACROSS: u32 = 64;

/// Members of one victim that are all looked at, wherever they stand.
const ANYWHERE_MAX: usize = 16;

/// Nodes that are looked at one by one where others would have to lose more than may leave.
const NODES_MAX: usize = 16;

/// A preemptor, and what is known of whom it needs.
struct Parting<'a> {
    entry: &'a Entry,
    assignment: &'a Arc<Assignment>,
    /// Who leaves.
    names: &'a [WorkloadIdx],
    /// Of these some only with these members: with those it fits.
    parts: Parts,
    /// Tries left.
    tries: u32,
    /// Those left for members of several nodes.
    across: u32,
}

impl Parting<'_> {
    /// Whether of a victim only some leave, and no more than so many.
    fn is_few(&self, (victim, spare): (WorkloadIdx, usize)) -> bool {
        self.parts.get(&victim).is_some_and(|leave| leave.len() <= spare)
    }
}

/// Who leaves in the end.
pub(super) enum Leaves {
    /// The victims, of whom some only with these members.
    Victims(Parts),
    /// These members of any gangs in their stead.
    Members(Vec<PodIdx>),
}

impl Engine {
    /// Of victims that go on with fewer members only those leave who have to: they stand for them
    /// among the victims then. Where everyone goes, and once who has left.
    pub(super) fn part(
        &mut self,
        now: Time,
        entry: &Entry,
        assignment: &Arc<Assignment>,
        found: &mut Vec<Victim>,
        (places, mut names): Planned,
    ) -> Planned {
        let (places, leaves) =
            self.leaves_in_the_end(now, entry, assignment, found, (places, &names[..]));
        let parts = match leaves {
            Leaves::Victims(parts) => parts,
            Leaves::Members(leave) => {
                *found = self.set_all_apart(now, &leave);
                return (places, found.iter().map(|victim| victim.workload).collect());
            }
        };
        for at in (0..found.len()).rev() {
            let Victim { workload, reason } = found[at];
            let Some(leave) = parts.get(&workload) else { continue };
            let apart = self.set_apart(now, workload, leave);
            let victims: Vec<Victim> =
                apart.iter().map(|own| Victim { workload: *own, reason }).collect();
            found.splice(at..=at, victims);
            names.splice(at..=at, apart);
        }
        (places, names)
    }

    /// Where everyone goes if only those leave who have to, and who those are. It changes nothing:
    /// choices are compared by it, too ([`toll`](super::toll)).
    pub(super) fn leaves_in_the_end(
        &mut self,
        now: Time,
        entry: &Entry,
        assignment: &Arc<Assignment>,
        found: &[Victim],
        (mut places, names): (Places, &[WorkloadIdx]),
    ) -> (Places, Leaves) {
        let elsewhere = found.iter().any(|victim| is_elsewhere(victim.reason));
        let by_rank = elsewhere || self.state.quota.shares_fairly();
        let short = !entry.choice.contested.is_empty();
        if !self.reservations.is_empty() || short && by_rank {
            return (places, Leaves::Victims(Parts::new()));
        }
        let name = &self.state.workloads[entry.workload].full_name;
        let within = elsewhere || self.state.turns.spent(name, now).is_some();
        let whole = |reason| match reason {
            PreemptionReason::InClusterQueue => within,
            reason => reason == PreemptionReason::InCohortFairSharing,
        };
        let (tries, across, parts) = (TRIES_MAX, TRIES_ACROSS, Parts::new());
        let mut parting = Parting { entry, assignment, names, parts, tries, across };
        for victim in found.iter().rev().filter(|victim| !whole(victim.reason)) {
            let (order, spare) = self.state.may_leave_singly(victim.workload);
            if spare == 0 || order.is_empty() {
                continue;
            }
            let of = (victim.workload, spare);
            let orders = self.orders_to_stay(entry, order);
            let mut then = self.few_in_order(&mut parting, of, orders.clone(), &places);
            if then.is_none() {
                then = self.few_on_a_node(&mut parting, of, &orders, &places);
            }
            if then.is_none() {
                then = self.few_on_nodes(&mut parting, of, &orders);
            }
            match then {
                Some(then) => places = then,
                None => drop(parting.parts.remove(&victim.workload)),
            }
        }
        let parts = parting.parts;
        if names.len() == found.len()
            && let Some((places, leave)) = self.surplus_instead(entry, assignment, found, &parts)
        {
            return (places, Leaves::Members(leave));
        }
        (places, Leaves::Victims(parts))
    }

    /// Orders in which members of a victim stay, who stays longest first: the given one; and for
    /// each resource that the preemptor asks, and of which they hold different amounts, one in
    /// which who holds less of it stays longer, within PodDisruptionBudgets and whatever they say.
    fn orders_to_stay(&self, entry: &Entry, order: Vec<PodIdx>) -> Vec<Vec<PodIdx>> {
        let (room, pods) = (&self.state.room, &self.state.pods);
        let mut asked: BTreeSet<ResourceIdx> = BTreeSet::new();
        for set in &entry.sets {
            let request = room.ledger.request(room.shape(set.shape).request);
            asked.extend(request.entries().iter().map(|(resource, _)| *resource));
        }
        let guarded = self.state.break_budgets(&order);
        let mut orders = vec![order];
        for resource in asked {
            let holds = |pod: &PodIdx| room.ledger.request(pods[*pod].holds).get(resource);
            for heeds in [true, false] {
                let mut by_size = orders[0].clone();
                by_size.sort_by_key(|pod| (heeds && !guarded.contains(pod), holds(pod)));
                if !orders.contains(&by_size) {
                    orders.push(by_size);
                }
            }
        }
        orders
    }

    /// Of members in one order after the other the fewest who have to leave, until those are no
    /// more than so many; where everyone goes then.
    fn few_in_order(
        &mut self,
        parting: &mut Parting<'_>,
        of: (WorkloadIdx, usize),
        orders: Vec<Vec<PodIdx>>,
        places: &Places,
    ) -> Option<Places> {
        orders.into_iter().find_map(|order| {
            let found = self.fewest(parting, of, order, places)?;
            parting.is_few(of).then_some(found)
        })
    }

    /// Finds the fewest of some members of a victim, who stays longest first, who have to leave
    /// beside all others; where everyone goes then. `None`: it does not fit with the rest of them.
    fn fewest(
        &mut self,
        parting: &mut Parting<'_>,
        of: (WorkloadIdx, usize),
        mut order: Vec<PodIdx>,
        places: &Places,
    ) -> Option<Places> {
        let mut near: Vec<PodIdx> = Vec::new();
        if order.len() > ANYWHERE_MAX {
            let nodes: BTreeSet<NodeIdx> = places.members.iter().map(|(_, node)| *node).collect();
            let place = |pod: PodIdx| self.state.pods[pod].place;
            let there = |pod: &&PodIdx| place(**pod).is_some_and(|node| nodes.contains(&node));
            near.extend(order.iter().filter(there));
        }
        let there = match near.is_empty() {
            true => None,
            false => self.leaves_only(parting, of.0, near.clone()),
        };
        let found = match there {
            Some(places) => {
                order = near;
                places
            }
            None => self.leaves_only(parting, of.0, order.clone())?,
        };
        Some(self.fewest_of(parting, of, order, found))
    }

    /// The same of members with all of whom it fits. Once it is certain that those are more than so
    /// many, who else goes back is not looked for.
    fn fewest_of(
        &mut self,
        parting: &mut Parting<'_>,
        (victim, spare): (WorkloadIdx, usize),
        mut order: Vec<PodIdx>,
        mut found: Places,
    ) -> Places {
        let (mut few, mut most) = (0, order.len());
        while most - few > 1 {
            let middle = few + (most - few) / 2;
            let last = order[order.len() - middle..].to_vec();
            match self.leaves_only(parting, victim, last) {
                Some(places) => (found, most) = (places, middle),
                None => few = middle,
            }
        }
        let mut leave = order.split_off(order.len() - most);
        let mut at = 0;
        while leave.len() > 1 && at < leave.len() && at <= spare {
            let stays = leave.remove(at);
            match self.leaves_only(parting, victim, leave.clone()) {
                Some(places) => found = places,
                None => {
                    leave.insert(at, stays);
                    at += 1;
                }
            }
        }
        found
    }

    /// The same among members that stand on one node: of the first on which no more than so many
    /// have to leave. Nodes whose members were made last come first.
    fn few_on_a_node(
        &mut self,
        parting: &mut Parting<'_>,
        of: (WorkloadIdx, usize),
        orders: &[Vec<PodIdx>],
        places: &Places,
    ) -> Option<Places> {
        let place = |pod: &PodIdx| self.state.pods[*pod].place;
        let mut nodes: Vec<NodeIdx> = Vec::new();
        for node in orders[0].iter().rev().filter_map(place) {
            if nodes.len() < NODES_MAX && !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        let mut by_node: Vec<Vec<Vec<PodIdx>>> = Vec::new();
        for node in nodes {
            let mut here: Vec<Vec<PodIdx>> = Vec::new();
            for order in orders {
                let stands = |pod: &&PodIdx| place(pod) == Some(node);
                let order: Vec<PodIdx> = order.iter().filter(stands).copied().collect();
                if !here.contains(&order) {
                    here.push(order);
                }
            }
            by_node.push(here);
        }
        by_node.into_iter().find_map(|here| self.few_in_order(parting, of, here, places))
    }

    /// The same among all members, wherever they stand: those leave first who stand where the
    /// fewest have to for one member of the preemptor.
    fn few_on_nodes(
        &mut self,
        parting: &mut Parting<'_>,
        of: (WorkloadIdx, usize),
        orders: &[Vec<PodIdx>],
    ) -> Option<Places> {
        let tries = std::mem::replace(&mut parting.tries, parting.across);
        let mut tried: Vec<Vec<PodIdx>> = Vec::new();
        let then = orders.iter().find_map(|order| {
            let order = self.by_use(parting.entry, order);
            let known = order.len() <= ANYWHERE_MAX && orders.contains(&order);
            if known || tried.contains(&order) {
                return None;
            }
            tried.push(order.clone());
            let found = self.leaves_only(parting, of.0, order.clone())?;
            let found = self.fewest_of(parting, of, order, found);
            parting.is_few(of).then_some(found)
        });
        parting.across = std::mem::replace(&mut parting.tries, tries);
        then
    }

    /// Members in an order, but those first who stand where more have to leave than elsewhere
    /// before one more member of the preemptor has room, or where all of them make none.
    fn by_use(&self, entry: &Entry, order: &[PodIdx]) -> Vec<PodIdx> {
        let place = |pod: &PodIdx| self.state.pods[*pod].place;
        let mut by_node: BTreeMap<NodeIdx, Vec<PodIdx>> = BTreeMap::new();
        for pod in order {
            if let Some(node) = place(pod) {
                by_node.entry(node).or_default().push(*pod);
            }
        }
        let leave = |(node, there): (NodeIdx, Vec<PodIdx>)| {
            (node, self.leave_for_one(entry, node, &there).unwrap_or(usize::MAX))
        };
        let leave: BTreeMap<NodeIdx, usize> = by_node.into_iter().map(leave).collect();
        let most = |pod: &PodIdx| place(pod).and_then(|node| leave.get(&node).copied());
        let mut by_use = order.to_vec();
        by_use.sort_by_key(|pod| Reverse(most(pod)));
        by_use
    }

    /// How many of these members, the last ones first, have to leave a node before it has room for
    /// one more member of the preemptor than it has, by amounts. `None`: it never has.
    fn leave_for_one(&self, entry: &Entry, node: NodeIdx, there: &[PodIdx]) -> Option<usize> {
        let (room, pods) = (&self.state.room, &self.state.pods);
        let of_set = |set: &SetDemand| {
            let request = room.ledger.request(room.shape(set.shape).request);
            let slots = |leave: usize| {
                let gone = &there[there.len() - leave..];
                let asked = request.entries().iter().filter(|(_, asked)| *asked > 0);
                let slots = asked.map(|&(resource, asked)| {
                    let holds = |pod: &PodIdx| room.ledger.request(pods[*pod].holds).get(resource);
                    let freed = resources::total(gone.iter().map(holds));
                    room.ledger.free(node, resource).saturating_add(freed).max(0) / asked
                });
                slots.min()
            };
            let now = slots(0);
            (1..=there.len()).find(|leave| slots(*leave) > now)
        };
        entry.sets.iter().filter_map(of_set).min()
    }

    /// Where everyone goes if of one victim only these members leave; that is kept if it fits.
    fn leaves_only(
        &mut self,
        parting: &mut Parting<'_>,
        victim: WorkloadIdx,
        leave: Vec<PodIdx>,
    ) -> Option<Places> {
        parting.tries = parting.tries.checked_sub(1)?;
        let (parts, names) = (&parting.parts, parting.names);
        let assignment = parting.assignment.clone();
        let found = self.plan_without(parting.entry, assignment, |txn| {
            for name in names {
                let part = if *name == victim { Some(&leave) } else { parts.get(name) };
                match part {
                    Some(members) => members.iter().for_each(|member| txn.remove(*member)),
                    None => _ = txn.remove_workload(*name),
                }
            }
        })?;
        parting.parts.insert(victim, leave);
        Some(found)
    }

    /// These members of a gang leave by themselves: the workloads that they are from now on. The
    /// gang, which may stop others for more members in their stead, is stopped by that, too.
    pub(super) fn set_apart(
        &mut self,
        now: Time,
        gang: WorkloadIdx,
        members: &[PodIdx],
    ) -> Vec<WorkloadIdx> {
        let name = self.state.workloads[gang].full_name.clone();
        self.state.turns.note(&name, now);
        let apart = self.state.set_apart(gang, members);
        for workload in apart.iter().copied().chain([gang]) {
            self.refile(workload, now);
        }
        self.mark(gang);
        apart
    }
}
