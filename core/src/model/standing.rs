//! Where a workload stands: its queue, its priority, its name, and what it already holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::explain::reason::Reason;
use crate::model::apply::Changes;
use crate::model::ids::{FlavorIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{BindingNote, GangKey, GangSource, Labels, Text};
use crate::model::state::ClusterState;
use crate::model::workload::{Assignment, QueueRef, SetAssignment};
use crate::policy::UnqueuedWorkloads;
use crate::rules::selector::selects;
use crate::time::Time;

impl ClusterState {
    /// Queue and priority of a workload.
    pub(super) fn derive_queue(&mut self, workload: WorkloadIdx) {
        let queue = self.resolve_queue(workload);
        self.workloads[workload].cluster_queue = self.charged_queue(workload);
        let entry = &self.workloads[workload];
        let owner = self.owner_of(workload).map(|owner| owner.priority);
        let pods = entry.members.iter().map(|pod| &self.pods[*pod]);
        let of_pods = pods.filter(|pod| pod.active()).map(|pod| pod.priority).max();
        let own = owner.or(of_pods).unwrap_or(0);
        let class = entry.wishes.priority_class.as_ref();
        let class = class.and_then(|name| self.facts.priorities.get(name)).copied();
        let entry = &mut self.workloads[workload];
        entry.priority = match queue {
            QueueRef::Unqueued => own,
            _ => class.unwrap_or(own),
        };
        entry.queue = queue;
    }

    fn resolve_queue(&mut self, workload: WorkloadIdx) -> QueueRef {
        let entry = &self.workloads[workload];
        let namespace = entry.id.namespace.clone();
        let named = entry.wishes.queue.as_ref();
        let found = match named {
            None if !self.facts.any_queue() => return QueueRef::Unqueued,
            named => self.facts.local_queue(&namespace, named),
        };
        let Some(facts) = found else {
            return match (named, self.policy.unqueued) {
                (Some(name), _) => {
                    let name = name.clone();
                    QueueRef::Broken(Reason::LocalQueueMissing { namespace, name })
                }
                (None, UnqueuedWorkloads::Allow) => QueueRef::Unqueued,
                (None, UnqueuedWorkloads::Hold) => QueueRef::Broken(Reason::Unqueued),
            };
        };
        let local_queue = || format!("{namespace}/{}", facts.name).into();
        let name = facts.cluster_queue.clone();
        if facts.stopped {
            return QueueRef::Broken(Reason::LocalQueueStopped { local_queue: local_queue() });
        }
        let Some(queue) = self.facts.cluster_queues.get(&name) else {
            let local_queue = local_queue();
            return QueueRef::Broken(Reason::ClusterQueueMissing { local_queue, name });
        };
        let index = self.quota.intern_queue(&name);
        if let Some(why) = &self.quota.queue(index).inactive {
            let why = why.clone();
            return QueueRef::Broken(Reason::Inactive { cluster_queue: name, why });
        }
        let none = Labels::new();
        let labels = self.facts.namespaces.get(&namespace).unwrap_or(&none);
        let selected = queue.namespaces.as_ref().is_some_and(|s| selects(s, labels));
        match selected {
            true => QueueRef::Queue(index),
            false => QueueRef::Broken(Reason::NamespaceNotSelected {
                cluster_queue: name,
                namespace,
                selector_absent: queue.namespaces.is_none(),
            }),
        }
    }

    /// The queue whose quota a workload's placed members count against, whether or not that
    /// queue admits anything now.
    fn charged_queue(&mut self, workload: WorkloadIdx) -> Option<QueueIdx> {
        let entry = &self.workloads[workload];
        let facts = self.facts.local_queue(&entry.id.namespace, entry.wishes.queue.as_ref())?;
        self.facts.cluster_queues.get(&facts.cluster_queue)?;
        Some(self.quota.intern_queue(&facts.cluster_queue))
    }

    /// Names, unique in their namespace: the first by creation and uid keeps the plain name, the
    /// others get their source appended. Runs of one owner share its name.
    pub(super) fn derive_names(&mut self, dirty: &[WorkloadIdx]) {
        if self.take_free_names(dirty) {
            return;
        }
        // Who collides with whom may depend on who comes first: that is decided by identity.
        let mut ordered = dirty.to_vec();
        ordered.sort_by(|a, b| self.workloads[*a].id.cmp(&self.workloads[*b].id));
        for workload in ordered {
            self.derive_name(workload);
        }
    }

    /// Gives everybody the plain name if nobody has or wants the same; else nothing, and `false`.
    fn take_free_names(&mut self, dirty: &[WorkloadIdx]) -> bool {
        let mut taken: Vec<(WorkloadIdx, Text)> = Vec::new();
        for &workload in dirty {
            let base = self.base_name(workload);
            let entry = &self.workloads[workload];
            let key = (entry.id.namespace.clone(), base.clone());
            match self.workload_by_name.get(&key).copied() {
                Some(holder) if holder == workload && entry.name == base => continue,
                Some(holder) if holder != workload && self.workloads.get(holder).is_some() => {
                    for (workload, base) in taken {
                        let namespace = self.workloads[workload].id.namespace.clone();
                        self.workload_by_name.remove(&(namespace, base));
                    }
                    return false;
                }
                _ => {}
            }
            self.workload_by_name.insert(key, workload);
            taken.push((workload, base));
        }
        for (workload, base) in taken {
            self.set_name(workload, base);
        }
        true
    }

    fn derive_name(&mut self, workload: WorkloadIdx) {
        let base = self.base_name(workload);
        let entry = &self.workloads[workload];
        let key = (entry.id.namespace.clone(), base.clone());
        let holder = self.workload_by_name.get(&key).copied();
        let holder = holder.filter(|h| *h != workload && self.workloads.get(*h).is_some());
        let rank = |w: WorkloadIdx| {
            let w = &self.workloads[w];
            (w.created, w.uid.clone(), w.id.key.clone())
        };
        let same_owner = |h: WorkloadIdx| {
            entry.owner.is_some() && same_owner(&self.workloads[h].id.key, &entry.id.key)
        };
        match holder {
            Some(holder) if !same_owner(holder) && rank(holder) < rank(workload) => {
                self.rename(workload, self.suffixed(&base, workload));
            }
            Some(holder) if !same_owner(holder) => {
                self.rename(holder, self.suffixed(&base, holder));
                self.rename(workload, base);
            }
            _ => self.rename(workload, base),
        }
    }

    /// A free name with the source of a workload behind it, numbered if that is taken too.
    fn suffixed(&self, base: &str, workload: WorkloadIdx) -> Text {
        let namespace = self.workloads[workload].id.namespace.clone();
        let plain = suffixed(base, self.workloads[workload].source);
        let taken = |name: &Text| {
            let holder = self.workload_by_name.get(&(namespace.clone(), name.clone()));
            holder.is_some_and(|h| *h != workload && self.workloads.get(*h).is_some())
        };
        let numbered = (2_u32..).map(|number| Text::from(format!("{plain}-{number}")));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        names.find(|name| !taken(name)).expect("some number is free")
    }

    fn base_name(&self, workload: WorkloadIdx) -> Text {
        if let Some(owner) = self.owner_of(workload) {
            return owner.name.clone();
        }
        let members = &self.workloads[workload].members;
        let first = members.first().expect("a workload without owner has members");
        self.pods[*first].gang.name.clone()
    }

    fn rename(&mut self, workload: WorkloadIdx, name: Text) {
        let namespace = self.workloads[workload].id.namespace.clone();
        self.workload_by_name.insert((namespace, name.clone()), workload);
        self.set_name(workload, name);
    }

    /// The name is the workload's, and the one that it had before is free.
    fn set_name(&mut self, workload: WorkloadIdx, name: Text) {
        let entry = &mut self.workloads[workload];
        if entry.name == name {
            return;
        }
        let namespace = entry.id.namespace.clone();
        entry.full_name = format!("{namespace}/{name}").into();
        let old = (namespace, std::mem::replace(&mut entry.name, name));
        if !old.1.is_empty() && self.workload_by_name.get(&old) == Some(&workload) {
            self.workload_by_name.remove(&old);
        }
    }

    /// Members that are bound without this engine having decided it: what they hold is read from
    /// what was written on them, else from the labels of their nodes.
    pub(super) fn adopt_assignment(&mut self, workload: WorkloadIdx, changes: &mut Changes) {
        let settling: Vec<(PodIdx, NodeIdx)> = self.workloads[workload]
            .members
            .iter()
            .filter_map(|pod| {
                let due = changes.to_settle.get(pod).copied();
                Some((*pod, due.or(self.pods[*pod].place)?))
            })
            .collect();
        let Some(&(first, _)) = settling.first() else { return };
        let queue = self.workloads[workload].cluster_queue;
        let known = self.workloads[workload].assignment.clone();
        let covered = |shape: &ShapeIdx, known: &Arc<Assignment>| known.set(*shape).is_some();
        let mut shapes: Vec<ShapeIdx> = Vec::new();
        for &(pod, _) in &settling {
            let shape = self.pods[pod].shape;
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        if let Some(known) = &known
            && known.queue == queue
            && shapes.iter().all(|shape| covered(shape, known))
        {
            return;
        }
        // Charges change with the assignment, so nothing may be placed meanwhile.
        for &(pod, node) in &settling {
            if self.pods[pod].place.is_some() {
                self.unsettle(pod);
                changes.to_settle.insert(pod, node);
            }
        }
        let mut sets = Vec::new();
        for shape in shapes {
            let at = settling.iter().find(|(pod, _)| self.pods[*pod].shape == shape);
            let &(pod, node) = at.expect("shapes come from these pods");
            sets.push(self.adopt_set(shape, pod, node, queue));
        }
        let pod = &self.pods[first];
        let note = pod.note.as_ref().and_then(|note| note.admitted_at);
        let at = note.or(pod.bound_at).unwrap_or(pod.created);
        let assignment = Assignment { queue, sets, at };
        self.workloads[workload].found_running |= known.is_none();
        self.set_assignment(workload, Some(Arc::new(assignment)));
    }

    fn adopt_set(
        &mut self,
        shape: ShapeIdx,
        pod: PodIdx,
        node: NodeIdx,
        queue: Option<QueueIdx>,
    ) -> SetAssignment {
        let note = self.pods[pod].note.clone();
        let mut flavors = Vec::new();
        if let Some(queue) = queue {
            let groups = self.quota.queue(queue).groups.clone();
            for resource in self.asked(shape) {
                let noted = note.as_ref().and_then(|note| self.noted(note, resource));
                let group = groups.iter().find(|group| group.covered.contains(&resource));
                let guess = || self.flavor_of_node(&group?.flavors, node);
                if let Some(flavor) = noted.or_else(guess) {
                    flavors.push((resource, flavor));
                }
            }
        }
        self.set_assignment_of(shape, flavors)
    }

    fn noted(&self, note: &BindingNote, resource: ResourceIdx) -> Option<FlavorIdx> {
        let name = note.flavors.get(self.room.resources.name(resource))?;
        self.quota.find_flavor(name)
    }

    fn flavor_of_node(&self, flavors: &[FlavorIdx], node: NodeIdx) -> Option<FlavorIdx> {
        let labels = &self.room.facts(node)?.labels;
        let of = |flavor: &&FlavorIdx| {
            let facts = self.quota.flavor(**flavor);
            facts.is_some_and(|f| f.node_labels.iter().all(|(k, v)| labels.get(k) == Some(v)))
        };
        flavors.iter().find(of).copied()
    }

    /// Resources that a pod of a shape asks, `pods` included.
    pub fn asked(&self, shape: ShapeIdx) -> Vec<ResourceIdx> {
        let request = self.room.ledger.request(self.room.shape(shape).request);
        request.entries().iter().map(|(resource, _)| *resource).collect()
    }

    /// What one member of a shape charges with these flavors. `pods` counts only where covered.
    pub fn set_assignment_of(
        &mut self,
        shape: ShapeIdx,
        mut flavors: Vec<(ResourceIdx, FlavorIdx)>,
    ) -> SetAssignment {
        flavors.sort_unstable();
        let request = self.room.ledger.request(self.room.shape(shape).request).clone();
        let charge = flavors
            .iter()
            .map(|&(resource, flavor)| {
                (self.quota.intern_fr(flavor, resource), request.get(resource))
            })
            .filter(|(_, amount)| *amount > 0)
            .collect();
        let nodes_of: BTreeSet<FlavorIdx> = flavors.iter().map(|(_, flavor)| *flavor).collect();
        SetAssignment { shape, flavors, nodes_of: nodes_of.into_iter().collect(), charge }
    }

    /// What is written on pods and owners of an admitted workload.
    pub fn note(&self, workload: WorkloadIdx, shape: Option<ShapeIdx>) -> BindingNote {
        let entry = &self.workloads[workload];
        let assignment = entry.assignment.as_ref();
        let sets = assignment.map_or(&[][..], |assignment| &assignment.sets);
        let of_shape = |set: &&SetAssignment| shape.is_none_or(|shape| set.shape == shape);
        let chosen = sets.iter().filter(of_shape).flat_map(|set| &set.flavors);
        let named = chosen.map(|(resource, flavor)| {
            let resource = self.room.resources.name(*resource).clone();
            (resource, self.quota.flavor_name(*flavor).clone())
        });
        BindingNote {
            flavors: Arc::new(named.collect()),
            admitted_at: assignment.map(|assignment| assignment.at),
            price: None,
            workload: Some(entry.name.clone()),
        }
    }

    /// When a workload took its place in its queue: its creation.
    pub fn queued_at(&self, workload: WorkloadIdx) -> Time {
        self.workloads[workload].created
    }
}

fn same_owner(a: &GangKey, b: &GangKey) -> bool {
    matches!((a, b), (GangKey::Owner(a, _), GangKey::Owner(b, _)) if a == b)
}

fn suffixed(base: &str, source: GangSource) -> Text {
    let source = match source {
        GangSource::SchedulingGroup => "schedulinggroup",
        GangSource::PodGroup => "podgroup",
        GangSource::CapstanGang => "gang",
        GangSource::KueueGroup => "kueuegroup",
        GangSource::Job => "job",
        GangSource::Owner => "owner",
        GangSource::Pod => "pod",
    };
    format!("{base}-{source}").into()
}
