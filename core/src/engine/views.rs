//! What people look at: plain copies of the state, made on request.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::{NodeIdx, clamped};

use crate::engine::Engine;
use crate::explain::obstacles::{self, Asked};
use crate::explain::reason::Reason;
use crate::explain::view::{
    NodeView, Obstacle, PodPlace, PodSetView, QueueView, QuotaView, Uncharged, WorkloadExplanation,
    WorkloadView,
};
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, QuotaIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{Amounts, QueueingStrategy, Text};
use crate::model::txn::Txn;
use crate::model::workload::{QueueRef, Workload};
use crate::money::MicroUsd;
use crate::plan::{Preemption, State};
use crate::quota::flavors::each_part::{self, Refused};
use crate::resources;
use crate::time::Time;

impl Engine {
    /// All workloads, by namespace and name.
    pub fn workloads(&self) -> Vec<WorkloadView> {
        let mut views: Vec<WorkloadView> =
            self.state.workloads.iter().map(|(index, _)| self.workload_view(index)).collect();
        views.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        views
    }

    pub(super) fn workload_view(&self, index: WorkloadIdx) -> WorkloadView {
        let state = &self.state;
        let entry = &state.workloads[index];
        let queue = entry.cluster_queue;
        let flavors = state.flavors_by_set(index);
        let mut of_shape: BTreeMap<ShapeIdx, u32> = BTreeMap::new();
        for pod in state.placed(index) {
            *of_shape.entry(state.pods[pod].shape).or_default() += 1;
        }
        let pod_sets = entry.sets.iter().map(|set| PodSetView {
            name: set.name.clone(),
            count: set.count,
            placed: of_shape.get(&set.shape).copied().unwrap_or(0),
            requests: state.room.shape(set.shape).facts.requests.clone(),
            flavors: flavors.get(&set.name).cloned().unwrap_or_default(),
        });
        let (kept, real): (Vec<PodIdx>, Vec<PodIdx>) =
            entry.members.iter().copied().partition(|pod| state.pods[*pod].kept());
        // A pod that has a gate is there, and so is the place that is kept for it.
        let there: BTreeSet<&Text> = match kept.is_empty() {
            true => BTreeSet::new(),
            false => real.iter().map(|pod| &state.pods[*pod].name).collect(),
        };
        let placed = |pod: &PodIdx| {
            let pod = &state.pods[*pod];
            if pod.kept() && there.contains(&pod.name) {
                return None;
            }
            let node = pod.place.map(|node| state.room.node(node).name.clone());
            (node.is_some() || !pod.kept()).then(|| PodPlace { pod: pod.name.clone(), node })
        };
        let mut pods: Vec<PodPlace> = entry.members.iter().filter_map(placed).collect();
        pods.sort();
        WorkloadView {
            namespace: entry.id.namespace.clone(),
            name: entry.name.clone(),
            local_queue: self.local_queue_of(index),
            cluster_queue: queue.map(|queue| state.quota.queue(queue).name.clone()),
            priority: entry.priority,
            state: entry.state,
            found_running: entry.found_running,
            stays: entry.stays,
            preempted: self.preempted(index),
            pod_sets: pod_sets.collect(),
            pods,
            min_member: entry.min_member,
            borrowed: self.borrows(index),
            per_hour: state.hourly(index),
            unpriced: state.unpriced(index),
            reserved: self.reservations.of(index).filter(|_| entry.state == State::Queued),
            unreserved: self.reservations.without(index),
            reason: self.reason_of(index),
            uncharged: self.uncharged(index),
            created: entry.created,
            waits_since: entry.waits_since(),
            admitted_at: entry.assignment.as_ref().map(|assignment| assignment.at),
            gpus: self.gpus(index),
        }
    }

    /// For whom it was stopped and not admitted again since; nobody where its owner is done.
    fn preempted(&self, index: WorkloadIdx) -> Option<Preemption> {
        let done = self.state.owner_of(index).is_some_and(|owner| owner.finished.is_some());
        let known = self.preemptions.get(&self.state.workloads[index].full_name);
        known.filter(|_| !done).cloned()
    }

    /// The LocalQueue that a workload names, or falls to where its namespace has a default one.
    pub(super) fn local_queue_of(&self, index: WorkloadIdx) -> Option<Text> {
        let entry = &self.state.workloads[index];
        let fallen = || self.state.facts.local_queue(&entry.id.namespace, None);
        entry.wishes.queue.clone().or_else(|| fallen().map(|queue| queue.name.clone()))
    }

    /// What members use beside the quota of their queue.
    fn uncharged(&self, index: WorkloadIdx) -> Option<Uncharged> {
        let state = &self.state;
        let assignment = state.workloads[index].assignment.as_ref();
        let assignment = assignment.filter(|_| state.uncharged.contains(&index))?;
        let queue = state.quota.queue(assignment.queue?);
        let mut found = Uncharged {
            cluster_queue: queue.name.clone(),
            pods: 0,
            nodes: Vec::new(),
            amounts: Amounts::new(),
            flavors: Vec::new(),
        };
        for pod in state.placed(index).map(|pod| &state.pods[pod]) {
            let Some(set) = assignment.set(pod.shape) else { continue };
            let lacking = state.lacking(assignment.queue, set);
            if lacking.is_empty() {
                continue;
            }
            found.pods += 1;
            found.nodes.extend(pod.place.map(|node| state.room.node(node).name.clone()));
            let counted = state.room.counted(pod.shape);
            for resource in lacking {
                let name = state.room.resources.name(resource).clone();
                let sum = found.amounts.entry(name).or_default();
                *sum = sum.saturating_add(counted.get(resource));
                let group = queue.groups.iter().find(|group| group.covered.contains(&resource));
                for flavor in group.iter().flat_map(|group| &group.flavors) {
                    let flavor = state.quota.flavor_name(*flavor);
                    if !found.flavors.contains(flavor) {
                        found.flavors.push(flavor.clone());
                    }
                }
            }
        }
        found.nodes.sort_unstable();
        found.nodes.dedup();
        (found.pods > 0).then_some(found)
    }

    /// Why a workload waits: its own reason, or what the first of its equals met, or its place.
    pub(super) fn reason_of(&self, index: WorkloadIdx) -> Option<Reason> {
        let entry = &self.state.workloads[index];
        let waits = matches!(entry.state, State::Gathering | State::Queued | State::Reserved);
        if !waits {
            let of_some =
                |why: &&Reason| matches!(why, Reason::Incomplete { .. } | Reason::Extras { .. });
            let of_some = entry.reason.as_ref().filter(of_some).cloned();
            let told = self.unprepared(index).or(of_some).or_else(|| self.gated_late(index));
            return told.or_else(|| tried_again(entry));
        }
        let shared = || self.waiting.why(index).cloned().map(|why| self.of_itself(index, why));
        if let Some(reason) = self.behind_head(index).or_else(shared) {
            return Some(reason);
        }
        if entry.reason.is_some() || !self.waiting.contains(index) {
            return entry.reason.clone();
        }
        let ahead = self.waiting.ahead(index)? as u32;
        let queue = match &entry.queue {
            QueueRef::Queue(queue) => self.state.quota.queue(*queue).name.clone(),
            _ => "work without a queue".into(),
        };
        Some(Reason::Behind { ahead, queue })
    }

    /// That members of a gang have gates for which it keeps places, where too few run without them.
    fn gated_late(&self, index: WorkloadIdx) -> Option<Reason> {
        let entry = &self.state.workloads[index];
        let members = || entry.members.iter().map(|pod| &self.state.pods[*pod]);
        let pods = members().filter(|pod| pod.place_kept).count() as u32;
        if entry.state != State::Running || pods == 0 {
            return None;
        }
        let have = members().filter(|pod| pod.place.is_some() && !pod.kept()).count() as u32;
        let (need, then) = (entry.min_member, Some(Box::new(Reason::Gated { pods })));
        (have < need).then_some(Reason::Incomplete { have, need, then })
    }

    /// Who is before it in a strict queue, which nothing passes.
    pub(super) fn behind_head(&self, index: WorkloadIdx) -> Option<Reason> {
        let QueueRef::Queue(queue) = self.state.workloads[index].queue else { return None };
        let first = self.waiting.head(Some(queue))?;
        let promised = self.preemptor_before(Some(queue), index);
        let head = promised.or((first != index).then_some(first))?;
        let slot = self.state.quota.queue(queue);
        let strict = slot.facts.as_ref()?.strategy == QueueingStrategy::StrictFifo;
        (strict && self.waiting.contains(index)).then(|| Reason::BehindHead {
            head: self.state.workloads[head].full_name.clone(),
            queue: slot.name.clone(),
        })
    }

    fn borrows(&self, index: WorkloadIdx) -> bool {
        let state = &self.state;
        let Some(assignment) = &state.workloads[index].assignment else { return false };
        let Some(node) = assignment.queue.and_then(|q| state.quota.queue(q).node) else {
            return false;
        };
        let mut charged = assignment.sets.iter().flat_map(|set| &set.charge);
        charged
            .any(|(fr, _)| state.quota.tree.usage(node, *fr) > state.quota.tree.nominal(node, *fr))
    }

    fn gpus(&self, index: WorkloadIdx) -> i64 {
        let room = &self.state.room;
        let of_set = |set: &crate::model::workload::PodSet| {
            let request = room.ledger.request(room.shape(set.shape).request);
            let gpus = resources::total(room.resources.gpus().iter().map(|gpu| request.get(*gpu)));
            gpus.saturating_mul(set.count.into())
        };
        self.state.workloads[index].sets.iter().map(of_set).fold(0, i64::saturating_add)
    }

    /// All ClusterQueues, by name.
    pub fn queues(&self) -> Vec<QueueView> {
        let lent = self.lent();
        let mut pending: BTreeMap<QueueIdx, u32> = BTreeMap::new();
        for (index, workload) in self.state.workloads.iter() {
            let waits = |_: &QueueIdx| self.state.counts_as_waiting(index);
            if let Some(queue) = workload.cluster_queue.filter(waits) {
                *pending.entry(queue).or_default() += 1;
            }
        }
        let queues: Vec<QueueIdx> = self.state.quota.existing().map(|(index, _)| index).collect();
        let view = |queue: QueueIdx| QueueView {
            pending: pending.get(&queue).copied().unwrap_or(0),
            ..self.queue_view(queue, &lent)
        };
        queues.into_iter().map(view).collect()
    }

    /// A ClusterQueue, what waits in it not counted.
    fn queue_view(&self, index: QueueIdx, lent: &BTreeMap<(QuotaIdx, FrIdx), i128>) -> QueueView {
        let state = &self.state;
        let queue = state.quota.queue(index);
        let facts = queue.facts.as_ref().expect("existing queues have facts");
        let node = queue.node.expect("existing queues have a node");
        let tree = &state.quota.tree;
        let quota = |group: &crate::quota::build::Group| {
            let pairs = group
                .flavors
                .iter()
                .flat_map(|flavor| group.covered.iter().map(move |resource| (*flavor, *resource)));
            let view = |(flavor, resource)| {
                let fr = state.quota.find_fr(flavor, resource)?;
                let nominal = tree.nominal(node, fr);
                let used = tree.usage(node, fr) - state.claims.claimed(index, fr);
                Some(QuotaView {
                    flavor: state.quota.flavor_name(flavor).clone(),
                    resource: state.room.resources.name(resource).clone(),
                    nominal,
                    used,
                    borrowed: (used - nominal).max(0),
                    lent: clamped(lent.get(&(node, fr)).copied().unwrap_or(0)),
                    available: tree.available(node, fr),
                })
            };
            pairs.filter_map(view).collect::<Vec<_>>()
        };
        let hourly = queue.holding.iter().filter_map(|workload| state.hourly(*workload));
        QueueView {
            name: queue.name.clone(),
            cohort: facts.cohort.clone(),
            inactive: queue
                .inactive
                .clone()
                .map(|why| Reason::Inactive { cluster_queue: queue.name.clone(), why }),
            quotas: queue.groups.iter().flat_map(quota).collect(),
            pending: 0,
            admitted: queue.holding.len() as u32,
            per_hour: hourly.reduce(MicroUsd::plus),
            unpriced: queue.holding.iter().filter(|it| state.unpriced(**it) > 0).count() as u32,
            share: state.quota.shares_fairly().then(|| state.quota.share(node).shown()),
            spending: self.account_of(index),
        }
    }

    /// What each queue lends now to those that borrow; what is claimed borrows nothing yet.
    fn lent(&self) -> BTreeMap<(QuotaIdx, FrIdx), i128> {
        let quota = &self.state.quota;
        if self.state.claims.is_empty() {
            return quota.tree.lent();
        }
        let mut tree = quota.tree.clone();
        for (queue, fr, amount) in self.state.claims.quota() {
            let Some(node) = quota.queue(queue).node else { continue };
            match amount {
                1.. => tree.discharge(node, fr, amount),
                _ => tree.charge(node, fr, -amount),
            }
        }
        tree.lent()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<NodeView> {
        let room = &self.state.room;
        let mut spent: BTreeMap<NodeIdx, MicroUsd> = BTreeMap::new();
        for (_, pod) in self.state.pods.iter() {
            if let (Some(node), Some(price)) = (pod.place, self.state.pod_hourly(pod)) {
                let sum = spent.entry(node).or_default();
                *sum = sum.plus(price);
            }
        }
        let nodes = room.nodes_by_name().map(|(index, facts)| {
            let name = |resource| room.resources.name(resource).clone();
            let has = room.ledger.capacity(index).entries();
            let has = has.filter(|(r, _)| room.is_shown(index, *r)).map(|(r, n)| (name(r), n));
            let held = room.ledger.held(index).entries();
            let held = held.filter(|(r, _)| room.is_shown(index, *r));
            // Pods are charged by what each asks most of; together that may be more than all.
            let charged = spent.get(&index).copied().unwrap_or_default();
            let price = facts.price.as_ref().map_or(charged, |price| price.per_hour);
            NodeView {
                name: facts.name.clone(),
                allocatable: has.collect(),
                used: held.map(|(r, n)| (name(r), clamped(n))).collect(),
                pods: room.ledger.pods(index),
                capacity_type: facts.capacity_type,
                price: facts.price.clone(),
                used_per_hour: charged.min(price),
            }
        });
        nodes.collect()
    }

    /// Why a workload waits or runs; `None`: no such workload.
    pub fn explain_workload(
        &mut self,
        now: Time,
        namespace: &str,
        name: &str,
    ) -> Option<WorkloadExplanation> {
        let key: (Text, Text) = (namespace.into(), name.into());
        let index = *self.state.workload_by_name.get(&key)?;
        self.state.now = now;
        let mut view = self.workload_view(index);
        if let Some(reason) = self.reason_now(index) {
            view.reason = Some(reason);
        }
        let mut in_the_way = self.obstacles(index, &view);
        in_the_way.extend(self.awaits_others(index, &view));
        in_the_way.iter_mut().for_each(|obstacle| self.bind_to_limit(now, obstacle));
        let waiting = self.shown(index, view.reason.as_ref());
        let placed = self.state.placed(index).next().filter(|_| waiting.is_none());
        let nodes_of = waiting.or(placed).and_then(|pod| self.pod_set_of(index, pod));
        let nodes = waiting.or(placed).map_or_else(Vec::new, |pod| self.verdicts(pod));
        let nodes_as = placed.map(|pod| self.state.pods[pod].name.clone());
        Some(WorkloadExplanation {
            ahead: self.waiting.ahead(index).map(|ahead| ahead as u32),
            position: self.position_of(index),
            forecast: self.forecast_of(index),
            beyond: self.beyond_line(index),
            in_the_way,
            remedies: self.remedies(now, index),
            nodes_of,
            nodes,
            nodes_as,
            workload: view,
        })
    }

    /// The member whose nodes are shown: of the pod set that the reason names, else the first
    /// without a node, best of those that are not too many.
    fn shown(&self, index: WorkloadIdx, reason: Option<&Reason>) -> Option<PodIdx> {
        let surplus = self.state.surplus(index);
        let waits = |pod: &PodIdx| !surplus.contains(pod);
        let unplaced = || self.state.unplaced(index);
        let first = || unplaced().find(waits).or_else(|| unplaced().next());
        let named = match reason.map(obstacles::told) {
            Some(Reason::Flavors { pod_set, .. } | Reason::Together { pod_set, .. }) => pod_set,
            _ => return first(),
        };
        let sets = &self.state.workloads[index].sets;
        let shape = sets.iter().find(|set| set.name == *named).map(|set| set.shape);
        let of_set = |pod: &PodIdx| Some(self.state.pods[*pod].shape) == shape;
        unplaced().find(|pod| waits(pod) && of_set(pod)).or_else(first)
    }

    /// That nothing is admitted until other work has started, where more is in a workload's way.
    fn awaits_others(&self, index: WorkloadIdx, view: &WorkloadView) -> Option<Obstacle> {
        let QueueRef::Queue(queue) = self.state.workloads[index].queue else { return None };
        let told = view.reason.as_ref().map(obstacles::told);
        if !self.waiting.contains(index) || matches!(told?, Reason::AwaitsOthers { .. }) {
            return None;
        }
        self.kept_out(Some(queue), index).map(obstacles::obstacle)
    }

    /// All that is in a workload's way: for a queued one everything that its flavors lack.
    fn obstacles(&mut self, index: WorkloadIdx, view: &WorkloadView) -> Vec<Obstacle> {
        let entry = &self.state.workloads[index];
        let QueueRef::Queue(queue) = entry.queue else { return obstacles::of(view) };
        // Members that join others have their flavors: nothing but what is told is in their way.
        if entry.state != State::Queued {
            return obstacles::of(view);
        }
        let Some(Reason::Flavors { tried, pod_set, .. }) =
            view.reason.as_ref().map(obstacles::told)
        else {
            return obstacles::of(view);
        };
        let Ok(topology) = self.topology_ask(Some(queue), index) else {
            return obstacles::of(view);
        };
        let (sets, profile) = (self.least_demands(index), self.profile(Some(queue)));
        let asked = Asked { workload: index, queue, pod_set, sets: &sets, topology, profile };
        let others = self.refused_parts(&asked);
        let mut txn = Txn::begin(&mut self.state);
        let all = obstacles::of_parts(&mut txn, &asked, tried, &others);
        all.into_iter().map(obstacles::obstacle).collect()
    }

    /// The parts of work that waits which find no flavor, looked at as when it is nominated.
    fn refused_parts(&mut self, asked: &Asked<'_>) -> Vec<Refused> {
        // What is not filed was not nominated just now: its queue may be one that admits nothing.
        if !self.waiting.contains(asked.workload) {
            return Vec::new();
        }
        let passed = self.state.pass_nominated(asked.workload);
        let found = each_part::refused(&mut Txn::begin(&mut self.state), &asked.demand());
        self.state.restore_nominated(passed);
        found
    }
}

/// What happened before to work that is being resumed, if its pods did not come up then.
fn tried_again(entry: &Workload) -> Option<Reason> {
    let stops = entry.requeue.unready();
    (entry.state == State::Resuming && stops > 0).then_some(Reason::TriedAgain { stops })
}
