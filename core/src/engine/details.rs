//! What the API shows of workloads, LocalQueues and Cohorts: everything of one by name, all of
//! them in pages, the quota that each LocalQueue's work holds, and which Cohorts are broken. Of
//! finished work, of which nothing is kept, what its owner or pods that ended still tell.
//!
//! Cost: one workload costs its members; a page costs its workloads and those passed over; the
//! LocalQueues together cost one look at every workload.

use std::collections::BTreeMap;

use super::news::uninteresting;
use crate::engine::Engine;
use crate::explain::reason::{Inactive, Reason};
use crate::explain::view::{
    CohortView, FIRST_PODS, LocalQueueView, PodSetView, QueueView, WorkloadDetails, WorkloadView,
};
use crate::model::ids::{PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{
    Amounts, BindingNote, GangKey, LocalQueueFacts, PodPhase, StopPolicy, Text,
};
use crate::model::pod::Pod;
use crate::model::workload::{QueueRef, Workload};
use crate::money::MicroUsd;
use crate::plan::{PodRef, State};
use crate::quota::build::all_rules;
use crate::resources;

/// Namespace and name of a LocalQueue.
type QueueName = (Text, Text);

impl Engine {
    /// All that is shown of a workload; `None`: there is none of that name.
    pub fn details(&self, namespace: &Text, name: &Text) -> Option<WorkloadDetails> {
        let key = (namespace.clone(), name.clone());
        let index = *self.state.workload_by_name.get(&key)?;
        self.state.workloads.get(index)?;
        Some(self.details_at(index))
    }

    /// Details of up to `most` workloads from a mark on (at first 0), and the mark to go on from;
    /// left out are pods of their own that run without ever having waited, and earlier runs of an
    /// owner, whose pods are still leaving while the last run bears its name.
    pub fn details_from(&self, mark: usize, most: usize) -> (Vec<WorkloadDetails>, Option<usize>) {
        let all = self.state.workloads.iter().skip_while(|(index, _)| index.slot() < mark);
        let bears_its_name = |index: WorkloadIdx, entry: &Workload| {
            let name = (entry.id.namespace.clone(), entry.name.clone());
            self.state.workload_by_name.get(&name) == Some(&index)
        };
        let shown = |(index, entry): &(WorkloadIdx, &Workload)| {
            let interesting = entry.pending() && !entry.members.is_empty() || !uninteresting(entry);
            interesting && bears_its_name(*index, entry)
        };
        let mut all = all.filter(shown).map(|(index, _)| index);
        let page: Vec<WorkloadIdx> = all.by_ref().take(most).collect();
        let next = all.next().map(|index| index.slot());
        (page.into_iter().map(|index| self.details_at(index)).collect(), next)
    }

    /// Namespaces and names of all workloads, in order, and of those whose owner goes on, but has
    /// no pods for now.
    pub fn names(&self) -> Vec<(Text, Text)> {
        let name = |entry: &Workload| (entry.id.namespace.clone(), entry.name.clone());
        let mut names: Vec<_> = self.state.workloads.iter().map(|(_, w)| name(w)).collect();
        names.extend(self.state.podless.names().cloned());
        names.sort_unstable();
        names
    }

    fn details_at(&self, index: WorkloadIdx) -> WorkloadDetails {
        let state = &self.state;
        let entry = &state.workloads[index];
        let members = || entry.members.iter().map(|pod| &state.pods[*pod]);
        let waits = |pod: &&Pod| pod.needs_place() && pod.ours && !pod.kept();
        // Who is too many waits for nothing while the others do.
        let (there, _) = state.there(index);
        let told = !entry.pending() || there == 0;
        let mut surplus = if told { state.surplus(index) } else { Vec::new() };
        if told {
            surplus.extend(state.beyond_claims(index, &surplus));
        }
        let surplus = surplus.into_iter().map(|pod| &state.pods[pod]);
        let claim = state.claims.get(index);
        let victims = claim.map_or(&[][..], |claim| &claim.victims);
        let planned = claim.map_or(&[][..], |claim| &claim.places.members);
        let planned = planned.iter().filter_map(|(pod, node)| {
            let node = state.room.facts(*node)?;
            Some((state.pods.get(*pod)?.uid.clone(), node.name.clone()))
        });
        let named = |victim: &WorkloadIdx| Some(state.workloads.get(*victim)?.full_name.clone());
        let owner = self.owner_ref(index);
        let most = if owner.is_some() { 1 } else { FIRST_PODS };
        let mut view = self.workload_view(index);
        if view.state == State::Finished && view.pod_sets.is_empty() {
            self.say_what_ended(index, &mut view);
        }
        WorkloadDetails {
            view,
            source: entry.source,
            group: match &entry.id.key {
                GangKey::Group(_, name) => Some(name.clone()),
                GangKey::Owner(..) | GangKey::Pod(_) => None,
            },
            owner,
            first_pods: self.first_pods(index, most),
            lone: entry.lone(),
            priority_class: entry.wishes.priority_class.clone(),
            pod_class: entry.wishes.pod_class.clone(),
            members: there,
            ended: state.ended_so_far(index),
            needed: entry.min_member,
            placed: state.placed(index).filter(|pod| !state.pods[*pod].kept()).count() as u32,
            running: members().filter(|pod| pod.phase.runs()).count() as u32,
            started: entry.started,
            ready: members().filter(|pod| pod.phase == PodPhase::Running).count() as u32,
            up: entry.up,
            owner_end: state.owner_of(index).and_then(|owner| owner.finished.clone()),
            suspended: state.owner_of(index).is_some_and(|owner| owner.suspended),
            failed: state.failed(index),
            waiting: members().filter(waits).chain(surplus).map(|pod| pod.reference()).collect(),
            planned: planned.collect(),
            victims: victims.iter().filter_map(named).collect(),
            stop_asked: self.stops.awaits(index),
            held: state.is_held(index),
            failures: entry.requeue.failures.max(entry.requeue.unready()),
            retry_at: entry.requeue.not_before,
        }
    }

    /// Says of finished work of which nobody goes on what it was like, as far as its owner says so
    /// still, or members that ended: for who did not see it run.
    fn say_what_ended(&self, index: WorkloadIdx, view: &mut WorkloadView) {
        let (state, entry) = (&self.state, &self.state.workloads[index]);
        let least = match state.owner_of(index) {
            Some(owner) => {
                // Of several sets it is not known whose members ended.
                let [set] = &owner.pod_sets[..] else { return };
                // It makes those no more, where it says how many it makes.
                let ended = owner.left.map_or(0, |_| state.ended_so_far(index));
                let count = set.count.saturating_add(ended);
                let note = owner.admitted.as_ref().filter(|_| !owner.suspended);
                view.pod_sets.push(set_of((set.name.clone(), count), &set.shape.requests, note));
                owner.min_stated.then(|| owner.min_member.saturating_add(ended))
            }
            None => {
                let ended = state.ended_last(index);
                view.pod_sets = self.sets_that_ended(&ended);
                if entry.class.is_none() || matches!(entry.queue, QueueRef::Unqueued) {
                    let highest = ended.iter().map(|pod| pod.priority).max();
                    view.priority = highest.unwrap_or(view.priority);
                }
                ended.iter().filter_map(|pod| pod.gang.min_member).max()
            }
        };
        view.pod_sets.retain(|set| set.count > 0);
        let all = view.pod_sets.iter().map(|set| set.count).fold(0, u32::saturating_add);
        view.min_member = least.map_or(all, |least| least.min(all)).max(1);
        let known = &state.room.resources;
        let gpus = |set: &PodSetView| {
            let names = known.gpus().iter().map(|gpu| known.name(*gpu));
            let each = resources::total(names.filter_map(|name| set.requests.get(name).copied()));
            each.saturating_mul(set.count.into())
        };
        view.gpus = resources::total(view.pod_sets.iter().map(gpus));
    }

    /// Pod sets of such members, named as those of who goes on are.
    fn sets_that_ended(&self, ended: &[&Pod]) -> Vec<PodSetView> {
        let mut sets: Vec<(ShapeIdx, PodSetView)> = Vec::new();
        for pod in ended {
            if let Some((_, set)) = sets.iter_mut().find(|(shape, _)| *shape == pod.shape) {
                set.count += 1;
                continue;
            }
            let requests = &self.state.room.shape(pod.shape).facts.requests;
            let name = Text::from(format!("set-{}", sets.len()));
            sets.push((pod.shape, set_of((name, 1), requests, pod.note.as_deref())));
        }
        if let [(_, only)] = &mut sets[..] {
            only.name = "main".into();
        }
        sets.into_iter().map(|(_, set)| set).collect()
    }

    /// The first members of a workload, so many at most; those that are being deleted only where
    /// there is nobody else.
    fn first_pods(&self, index: WorkloadIdx, most: usize) -> Vec<PodRef> {
        let state = &self.state;
        let members = state.workloads[index].members.iter().map(|pod| &state.pods[*pod]);
        let there = members.filter(|pod| !pod.kept());
        let mut pods: Vec<_> = there.clone().filter(|pod| !pod.terminating).take(most).collect();
        if pods.is_empty() {
            pods = there.take(most).collect();
        }
        pods.into_iter().map(|pod| pod.reference()).collect()
    }

    /// All Cohort objects, by name.
    pub fn cohorts(&self) -> Vec<CohortView> {
        let view = |name: &Text| CohortView {
            name: name.clone(),
            inactive: self.state.quota.broken_cohort(name).cloned(),
            share: self.state.quota.cohort_share(name),
        };
        self.state.facts.cohorts.keys().map(view).collect()
    }

    /// A ClusterQueue that is being deleted and of which nothing else could be read, so that no
    /// quota is charged there: how much runs that it admitted, as LocalQueues and pods say.
    pub fn unread_queue(&self, name: &Text) -> QueueView {
        let state = &self.state;
        let leads = |entry: &Workload| {
            let named = entry.wishes.queue.as_ref();
            let local = state.facts.local_queue(&entry.id.namespace, named);
            local.is_some_and(|local| local.cluster_queue == *name)
        };
        let says = |pod: PodIdx| {
            let note = state.pods[pod].note.as_ref().and_then(|note| note.queue.as_ref());
            note.is_some_and(|queue| queue == name)
        };
        let runs_there = |(index, entry): &(WorkloadIdx, &Workload)| {
            let mut placed = state.placed(*index).peekable();
            placed.peek().is_some() && (leads(entry) || placed.any(says))
        };
        let why = Inactive::Terminating;
        QueueView {
            name: name.clone(),
            cohort: None,
            inactive: Some(Reason::Inactive { cluster_queue: name.clone(), why }),
            quotas: Vec::new(),
            pending: 0,
            admitted: state.workloads.iter().filter(runs_there).count() as u32,
            per_hour: None,
            unpriced: 0,
            share: None,
            spending: None,
        }
    }

    /// All LocalQueues, by namespace and name.
    pub fn local_queues(&self) -> Vec<LocalQueueView> {
        let mut views: BTreeMap<QueueName, LocalQueueView> = BTreeMap::new();
        for (name, facts) in &self.state.facts.local_queues {
            views.insert(name.clone(), self.empty_local_queue(facts));
        }
        for (index, entry) in self.state.workloads.iter() {
            let named = entry.wishes.queue.as_ref();
            let facts = self.state.facts.local_queue(&entry.id.namespace, named);
            let name = facts.map(|facts| (facts.namespace.clone(), facts.name.clone()));
            let Some(view) = name.and_then(|name| views.get_mut(&name)) else { continue };
            if self.state.counts_as_waiting(index) {
                view.pending += 1;
            }
            self.add_usage(index, view);
        }
        views.into_values().collect()
    }

    fn empty_local_queue(&self, facts: &LocalQueueFacts) -> LocalQueueView {
        let quota = &self.state.quota;
        let queue = quota.find_queue(&facts.cluster_queue);
        let groups = queue.map_or(&[][..], |queue| &quota.queue(queue).groups);
        let pairs = groups.iter().flat_map(|group| {
            let covered = move |flavor| group.covered.iter().map(move |of| (flavor, *of));
            group.flavors.iter().flat_map(move |flavor| covered(*flavor))
        });
        let named = |(flavor, resource)| {
            let resource = self.state.room.resources.name(resource).clone();
            ((quota.flavor_name(flavor).clone(), resource), 0)
        };
        let local_queue = || Text::from(format!("{}/{}", facts.namespace, facts.name));
        let inactive = match (all_rules(&facts.broken), queue) {
            (Some(rule), _) => Some(Reason::LocalQueueBroken { local_queue: local_queue(), rule }),
            _ if facts.stop != StopPolicy::None => {
                Some(Reason::LocalQueueStopped { local_queue: local_queue() })
            }
            (None, None) => Some(Reason::ClusterQueueMissing {
                local_queue: local_queue(),
                name: facts.cluster_queue.clone(),
            }),
            (None, Some(queue)) => quota
                .queue(queue)
                .inactive
                .clone()
                .map(|why| Reason::Inactive { cluster_queue: facts.cluster_queue.clone(), why }),
        };
        LocalQueueView {
            namespace: facts.namespace.clone(),
            name: facts.name.clone(),
            cluster_queue: facts.cluster_queue.clone(),
            inactive,
            pending: 0,
            admitted: 0,
            used: pairs.map(named).collect(),
            consumed: queue.and_then(|queue| self.consumed(queue, facts)),
            usage: queue.and_then(|queue| self.usage_of(queue, facts)),
            per_hour: None,
            unpriced: 0,
        }
    }

    /// Adds what a workload holds, if it holds quota of the queue behind this one.
    fn add_usage(&self, index: WorkloadIdx, view: &mut LocalQueueView) {
        let state = &self.state;
        let Some(assignment) = &state.workloads[index].assignment else { return };
        let Some(queue) = assignment.queue else { return };
        if state.quota.queue(queue).name != view.cluster_queue {
            return;
        }
        view.admitted += 1;
        for (_, fr, amount) in state.placed(index).flat_map(|pod| state.charges_of(pod)) {
            let (flavor, resource) = state.quota.fr(fr);
            let flavor = state.quota.flavor_name(flavor).clone();
            let key = (flavor, state.room.resources.name(resource).clone());
            resources::add(view.used.entry(key).or_default(), amount);
        }
        view.unpriced += u32::from(state.unpriced(index) > 0);
        if let Some(price) = state.hourly(index) {
            view.per_hour = Some(view.per_hour.unwrap_or(MicroUsd(0)).plus(price));
        }
    }
}

/// A pod set of so many of whom nobody goes on, with what was written on one of them, or its owner.
fn set_of(
    (name, count): (Text, u32),
    requests: &Amounts,
    note: Option<&BindingNote>,
) -> PodSetView {
    let flavors = note.map(|note| BTreeMap::clone(&note.flavors)).unwrap_or_default();
    PodSetView { name, count, placed: 0, requests: requests.clone(), flavors }
}
