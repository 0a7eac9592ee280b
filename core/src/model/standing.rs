//! Where a workload stands: its queue, its priority, its name, and what its members charge.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_topology::ResourceIdx;

use crate::explain::quantity::USD_PER_HOUR;
use crate::explain::reason::Reason;
use crate::model::apply::Changes;
use crate::model::facts::DEFAULT_QUEUE;
use crate::model::ids::{FlavorIdx, PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{
    BindingNote, ClusterQueueFacts, GangKey, GangSource, Held, Labels, PodClaim, StopPolicy, Text,
};
use crate::model::pod::Pod;
use crate::model::state::ClusterState;
use crate::model::workload::{BY_NODE, QueueRef, SetAssignment, WorkloadId};
use crate::policy::UnqueuedWorkloads;
use crate::quota::build::all_rules;
use crate::resources::USD;
use crate::rules::dynamic_resources::USERS_MAX;
use crate::rules::selector::selects;
use crate::time::Time;

impl ClusterState {
    /// Queue and priority of a workload. Who runs and stands lower than before may be stopped by
    /// others now: they are looked at again.
    pub(super) fn derive_queue(&mut self, workload: WorkloadIdx, changes: &mut Changes) {
        let queue = self.resolve_queue(workload);
        self.derive_standing(workload, queue, changes);
    }

    /// The same where neither queue objects nor its wish changed: who was found to be in a queue
    /// that works is in it still, unless a member says otherwise.
    pub(super) fn derive_same_queue(&mut self, workload: WorkloadIdx, changes: &mut Changes) {
        match self.workloads[workload].queue {
            QueueRef::Queue(queue) if self.held_by_members(workload).is_none() => {
                let queue = QueueRef::Queue(queue);
                debug_assert_eq!(self.resolve_queue(workload), queue, "no queue object changed");
                self.derive_standing(workload, queue, changes);
            }
            _ => self.derive_queue(workload, changes),
        }
    }

    fn derive_standing(&mut self, workload: WorkloadIdx, queue: QueueRef, changes: &mut Changes) {
        let orphaned = self.is_orphaned(workload);
        self.workloads[workload].cluster_queue = self.charged_queue(workload, &queue, orphaned);
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let of_pods = range(self.heard(workload));
        let of_pods = of_pods.or_else(|| range(members.filter(|pod| pod.active())));
        // Who said it is gone, and it runs: it stands where it did.
        let stood = orphaned.then_some(self.workloads[workload].priority);
        let highest = of_pods.map(|(highest, _)| highest);
        let own = self.of_template(workload).or(stood).or(highest).unwrap_or(0);
        let lowest = of_pods.map(|(_, lowest)| lowest);
        let class = self.class_of(workload, orphaned);
        let entry = &mut self.workloads[workload];
        let priority = match (&queue, &class) {
            (_, None) => own,
            (QueueRef::Unqueued, _) if !orphaned => own,
            (_, Some((_, value))) => *value,
        };
        entry.class = class;
        let before = std::mem::replace(&mut entry.priority, priority);
        (entry.lowest_priority, entry.queue) = (lowest.unwrap_or(own), queue);
        if let Some(assignment) = entry.assignment.as_ref().filter(|_| priority < before) {
            changes.room = true;
            changes.queues.extend(assignment.queue);
        }
    }

    /// The class that a workload names and its present value; once the class is gone, the last that
    /// it had while the workload named it. An owner that was deleted takes the name of its class
    /// with it: what runs keeps it.
    fn class_of(&self, workload: WorkloadIdx, orphaned: bool) -> Option<(Text, i32)> {
        let entry = &self.workloads[workload];
        let last = || entry.class.as_ref().filter(|_| orphaned);
        let named = entry.wishes.priority_class.as_ref();
        let name = named.or_else(|| last().map(|(name, _)| name))?;
        let present = self.facts.priorities.get(name).map(|value| (name.clone(), *value));
        present.or_else(|| entry.class.clone().filter(|(of, _)| of == name))
    }

    fn resolve_queue(&mut self, workload: WorkloadIdx) -> QueueRef {
        if let Some(why) = self.held_by_members(workload) {
            return QueueRef::Broken(why);
        }
        let entry = &self.workloads[workload];
        let name = entry.wishes.queue.as_ref().unwrap_or(&DEFAULT_QUEUE);
        let known = self.found_queues.get_pair(&entry.id.namespace, name).copied();
        let Some(known) = known else { return self.find_queue(workload) };
        debug_assert_eq!(self.find_queue(workload), QueueRef::Queue(known), "no object changed");
        QueueRef::Queue(known)
    }

    /// The queue of a workload by queue objects; it is remembered if it works.
    fn find_queue(&mut self, workload: WorkloadIdx) -> QueueRef {
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
        if let Some(rule) = all_rules(&facts.broken) {
            return QueueRef::Broken(Reason::LocalQueueBroken { local_queue: local_queue(), rule });
        }
        if facts.stop != StopPolicy::None {
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
        match self.admits_from(queue, &namespace) {
            true => {
                self.found_queues.insert((namespace, facts.name.clone()), index);
                QueueRef::Queue(index)
            }
            false => QueueRef::Broken(Reason::NamespaceNotSelected {
                cluster_queue: name,
                namespace,
                selector_absent: queue.namespaces.is_none(),
            }),
        }
    }

    /// Whether a ClusterQueue selects a namespace.
    pub(super) fn admits_from(&self, queue: &ClusterQueueFacts, namespace: &Text) -> bool {
        let none = Labels::new();
        let labels = self.facts.namespaces.get(namespace).unwrap_or(&none);
        queue.namespaces.as_ref().is_some_and(|it| selects(it, labels))
    }

    /// What members that wait say of why their workload has to.
    fn held_by_members(&self, workload: WorkloadIdx) -> Option<Reason> {
        let says = |pod: &PodIdx| {
            let gang = &self.pods[*pod].gang;
            gang.unknown_owner.is_some() || gang.held.is_some()
        };
        if !self.workloads[workload].members.iter().any(says) {
            return self.claim_of_too_many(workload);
        }
        let waiting = || self.heard(workload).filter(|pod| pod.place.is_none());
        let unknown = waiting().filter_map(|pod| pod.gang.unknown_owner.as_ref()).min();
        if let Some(owner) = unknown {
            return Some(Reason::OwnerUnknown { owner: owner.clone() });
        }
        if let Some(claim) = self.claim_of_too_many(workload) {
            return Some(claim);
        }
        let held = waiting().filter_map(|pod| pod.gang.held.as_ref()).min()?;
        if matches!(held, Held::ForeignMembers(_)) && !self.lacks_strangers(workload) {
            return None;
        }
        Some(match held {
            Held::GroupMissing(group) => Reason::GroupMissing { group: group.clone() },
            Held::OfTree(parent) => Reason::OfTree { parent: parent.clone() },
            Held::ForeignMembers(pods) => Reason::ForeignMembers { pods: *pods },
            Held::OtherPriority { pod, own, group } => {
                Reason::OtherPriority { pod: pod.clone(), own: *own, group: *group }
            }
            Held::Crowded { before, most } => Reason::Crowded { before: *before, most: *most },
            Held::OtherPreemption { pod, never, of_group } => {
                Reason::OtherPreemption { pod: pod.clone(), never: *never, of_group: *of_group }
            }
        })
    }

    /// A claim on devices that more members use than can, without all of whom, and of those that
    /// are too many for other claims, too few could run.
    fn claim_of_too_many(&self, workload: WorkloadIdx) -> Option<Reason> {
        let entry = &self.workloads[workload];
        if entry.min_member <= USERS_MAX {
            return None;
        }
        let users = self.users_of_claims(workload);
        let all: u32 = entry.sets.iter().map(|set| set.count).sum();
        let too_many = |users: u32| users > USERS_MAX;
        let alone = |users: u32| too_many(users) && all - users + USERS_MAX < entry.min_member;
        let found = users.iter().find(|(_, users)| alone(**users)).or_else(|| {
            let claim = users.iter().find(|(_, users)| too_many(**users))?;
            let off = self.surplus(workload);
            let could = all.saturating_sub(off.len() as u32);
            let beyond = self.beyond_claims(workload, &off).len() as u32;
            let least = entry.min_member;
            (could >= least && could.saturating_sub(beyond) < least).then_some(claim)
        });
        found.map(|(claim, pods)| Reason::ClaimOfTooMany { claim: (*claim).clone(), pods: *pods })
    }

    /// Whether all members of a workload together are no more than can use one claim.
    fn is_within_claims(&self, workload: WorkloadIdx) -> bool {
        self.workloads[workload].sets.iter().map(|set| set.count).sum::<u32>() <= USERS_MAX
    }

    /// How many members of a workload use each claim on devices that several may use.
    fn users_of_claims(&self, workload: WorkloadIdx) -> BTreeMap<&Text, u32> {
        let mut users: BTreeMap<&Text, u32> = BTreeMap::new();
        for set in &self.workloads[workload].sets {
            for claim in self.claims_of(set.shape) {
                *users.entry(claim).or_default() += set.count;
            }
        }
        users
    }

    /// Claims that pods of a shape name; a pod may name one twice.
    fn claims_of(&self, shape: ShapeIdx) -> BTreeSet<&Text> {
        let claims = self.room.shape(shape).facts.claims.iter();
        let named = claims.filter_map(|claim| match claim {
            PodClaim::Named((_, name)) => Some(name),
            _ => None,
        });
        named.collect()
    }

    /// Members that wait beyond as many as can use a claim at a time, in their order; those apart
    /// that are put `off` already. Other users of the claim than members are not looked at.
    pub(crate) fn beyond_claims(&self, workload: WorkloadIdx, off: &[PodIdx]) -> Vec<PodIdx> {
        if self.is_within_claims(workload) {
            return Vec::new();
        }
        let mut users = self.users_of_claims(workload);
        if users.values().all(|users| *users <= USERS_MAX) {
            return Vec::new();
        }
        users.values_mut().for_each(|users| *users = 0);
        let off: BTreeSet<PodIdx> = off.iter().copied().collect();
        let mut beyond = Vec::new();
        for placed in [true, false] {
            for &pod in &self.workloads[workload].members {
                let entry = &self.pods[pod];
                let waits = entry.place.is_none();
                let skips = waits && (entry.gated || off.contains(&pod));
                if waits == placed || !entry.counts() || skips {
                    continue;
                }
                let claims = self.claims_of(entry.shape);
                let full = |claim: &&Text| users.get(*claim).is_some_and(|has| *has >= USERS_MAX);
                if waits && claims.iter().any(full) {
                    beyond.push(pod);
                    continue;
                }
                for claim in claims {
                    *users.entry(claim).or_default() += 1;
                }
            }
        }
        beyond
    }

    /// Why those members wait that are too many for their group, or else for a claim, if their gang
    /// runs.
    pub(super) fn too_many_told(&self, workload: WorkloadIdx) -> Option<Reason> {
        self.surplus_told(workload).or_else(|| self.beyond_told(workload))
    }

    fn beyond_told(&self, workload: WorkloadIdx) -> Option<Reason> {
        if self.is_within_claims(workload) {
            return None;
        }
        let mut users = self.users_of_claims(workload).into_iter();
        let (claim, pods) = users.find(|(_, users)| *users > USERS_MAX)?;
        let waiting = self.beyond_claims(workload, &self.surplus(workload)).len() as u32;
        if waiting == 0 {
            return None;
        }
        let then = Some(Box::new(Reason::ClaimOfTooMany { claim: claim.clone(), pods }));
        Some(Reason::Extras { waiting, then })
    }

    /// Names, unique in their namespace: the first by creation and uid gets the plain name, the
    /// others get their source appended. What is left of an owner that is gone comes last: who was
    /// made anew under its name is the one that people mean by it. Runs of one owner share its
    /// name. Who has a name keeps it when a plainer one comes free: people and marks on pods tell
    /// of work by its name.
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
            if self.has_name(workload, &base) {
                continue;
            }
            let namespace = &self.workloads[workload].id.namespace;
            match self.workload_by_name.get_pair(namespace, &base).copied() {
                Some(holder) if holder != workload && self.workloads.get(holder).is_some() => {
                    for (workload, base) in taken {
                        let namespace = self.workloads[workload].id.namespace.clone();
                        self.workload_by_name.remove(&(namespace, base));
                    }
                    return false;
                }
                _ => {}
            }
            self.workload_by_name.insert((namespace.clone(), base.clone()), workload);
            taken.push((workload, base));
        }
        for (workload, base) in taken {
            self.set_name(workload, base);
        }
        true
    }

    fn derive_name(&mut self, workload: WorkloadIdx) {
        let base = self.base_name(workload);
        if self.has_name(workload, &base) {
            return;
        }
        let entry = &self.workloads[workload];
        let holder = self.workload_by_name.get_pair(&entry.id.namespace, &base).copied();
        let holder = holder.filter(|h| *h != workload && self.workloads.get(*h).is_some());
        let rank = |w: WorkloadIdx| {
            let w = &self.workloads[w];
            let left =
                matches!(&w.id.key, GangKey::Owner(uid, _) if !self.owners.contains_key(uid));
            (left, w.created, w.uid.clone(), w.id.key.clone())
        };
        let run_after = |h: WorkloadIdx| run_after(&self.workloads[h].id.key, &entry.id.key);
        match holder.map(|holder| (holder, run_after(holder))) {
            Some((holder, None)) if rank(holder) < rank(workload) => {
                self.rename(workload, self.suffixed(&base, workload));
            }
            Some((holder, None)) => {
                let other = self.suffixed(&base, holder);
                let runs: Vec<WorkloadIdx> = self.runs_before(holder).collect();
                runs.into_iter().for_each(|run| self.set_name(run, other.clone()));
                self.rename(holder, other);
                self.rename(workload, base);
            }
            _ => self.rename(workload, base),
        }
    }

    /// A free name with the source of a workload behind it, numbered if that is taken too.
    fn suffixed(&self, base: &str, workload: WorkloadIdx) -> Text {
        let namespace = &self.workloads[workload].id.namespace;
        let plain = suffixed(base, self.workloads[workload].source);
        let taken = |name: &Text| {
            let holder = self.workload_by_name.get_pair(namespace, name);
            let other = |h: &WorkloadIdx| {
                let other = self.workloads.get(*h).filter(|_| *h != workload);
                other.is_some_and(|o| {
                    run_after(&o.id.key, &self.workloads[workload].id.key).is_none()
                })
            };
            holder.is_some_and(other)
        };
        let numbered = (2_u32..).map(|number| Text::from(format!("{plain}-{number}")));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        names.find(|name| !taken(name)).expect("some number is free")
    }

    /// Runs of its owner before a workload that are still there, the last one first.
    fn runs_before(&self, workload: WorkloadIdx) -> impl Iterator<Item = WorkloadIdx> {
        let first = self.run_before(&self.workloads[workload].id);
        std::iter::successors(first, |run| self.run_before(&self.workloads[*run].id))
    }

    /// Whether a run of its owner before a workload still holds quota: the work is counted as that.
    pub(crate) fn follows_a_run(&self, workload: WorkloadIdx) -> bool {
        self.runs_before(workload).any(|run| self.workloads[run].assignment.is_some())
    }

    /// Whether a workload is counted among what waits in its queue.
    pub(crate) fn counts_as_waiting(&self, workload: WorkloadIdx) -> bool {
        self.workloads[workload].competes() && !self.follows_a_run(workload)
    }

    /// The run of an owner before this one, if it is still there.
    pub(super) fn run_before(&self, id: &WorkloadId) -> Option<WorkloadIdx> {
        let GangKey::Owner(uid, run) = &id.key else { return None };
        let key = GangKey::Owner(uid.clone(), run.checked_sub(1)?);
        self.workload_by_id.get(&WorkloadId { namespace: id.namespace.clone(), key }).copied()
    }

    /// Whether a workload has the plain name already, or that with its source behind it.
    fn has_name(&self, workload: WorkloadIdx, base: &Text) -> bool {
        let entry = &self.workloads[workload];
        if !is_name_of(&entry.name, base, entry.source) {
            return false;
        }
        // Only runs of an owner share a name; who else has one is found by it.
        let sure = !entry.name.is_empty() && !matches!(entry.id.key, GangKey::Owner(..));
        debug_assert!(!sure || self.found_by_name(workload), "{} is not found", entry.full_name);
        sure || self.found_by_name(workload)
    }

    /// Whether people who look for the name of a workload find it, or a later run of its owner.
    fn found_by_name(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.workloads[workload];
        let holder = self.workload_by_name.get_pair(&entry.id.namespace, &entry.name);
        let holder = holder.and_then(|held| self.workloads.get(*held));
        holder.is_some_and(|holder| {
            holder.id == entry.id || run_after(&holder.id.key, &entry.id.key) == Some(true)
        })
    }

    /// The plain name: of the run before, if that is still there, else of the owner or the gang.
    fn base_name(&self, workload: WorkloadIdx) -> Text {
        let before = self.runs_before(workload).next().map(|before| &self.workloads[before].name);
        if let Some(name) = before.filter(|name| !name.is_empty()) {
            return name.clone();
        }
        if let Some(owner) = self.owner_of(workload) {
            return owner.name.clone();
        }
        let entry = &self.workloads[workload];
        let first = entry.members.first().expect("a workload without owner has members");
        let gang = &self.pods[*first].gang;
        match entry.id.key.was_left_alone(&gang.key) && !entry.name.is_empty() {
            true => entry.name.clone(),
            false => gang.name.clone(),
        }
    }

    /// Names a workload. Of several runs the last is what people look at: it is found by their
    /// name; pods of one before may still be leaving.
    fn rename(&mut self, workload: WorkloadIdx, name: Text) {
        let id = &self.workloads[workload].id;
        let key = (id.namespace.clone(), name.clone());
        let holder = self.workload_by_name.get(&key).and_then(|held| self.workloads.get(*held));
        if holder.is_none_or(|holder| run_after(&holder.id.key, &id.key) != Some(true)) {
            self.workload_by_name.insert(key, workload);
        }
        self.set_name(workload, name);
    }

    /// The name is the workload's, and the one that it had before is free.
    fn set_name(&mut self, workload: WorkloadIdx, name: Text) {
        let entry = &mut self.workloads[workload];
        if entry.name == name {
            return;
        }
        let namespace = entry.id.namespace.clone();
        entry.full_name = [&*namespace, "/", &*name].concat().into();
        let old = (namespace, std::mem::replace(&mut entry.name, name));
        if old.1.is_empty() {
            return;
        }
        self.renamed.push(workload);
        if self.workload_by_name.remove_if(&old, |named| *named == workload).is_some() {
            self.vacated.push(old);
        }
    }

    /// Resources that a pod of a shape counts against quota, `pods` included.
    pub fn asked(&self, shape: ShapeIdx) -> Vec<ResourceIdx> {
        self.room.counted(shape).entries().iter().map(|(resource, _)| *resource).collect()
    }

    /// Whether a quota of money counts at all.
    pub fn counts_money(&self) -> bool {
        self.policy.quota.charges(USD_PER_HOUR)
    }

    /// What one member of a shape charges with these flavors. `pods` counts only where covered.
    pub fn set_assignment_of(
        &mut self,
        shape: ShapeIdx,
        mut flavors: Vec<(ResourceIdx, FlavorIdx)>,
    ) -> SetAssignment {
        flavors.sort_unstable();
        let (counted, pays) = (self.room.counted(shape), self.counts_money());
        let mut charge = Vec::with_capacity(flavors.len());
        for &(resource, flavor) in &flavors {
            let amount = counted.get(resource);
            let charged = match resource {
                USD if pays => BY_NODE,
                _ if amount > 0 => amount,
                _ => continue,
            };
            charge.push((self.quota.intern_fr(flavor, resource), charged));
        }
        let mut nodes_of: Vec<FlavorIdx> = flavors.iter().map(|(_, flavor)| *flavor).collect();
        nodes_of.sort_unstable();
        nodes_of.dedup();
        SetAssignment { shape, flavors, nodes_of, charge }
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
            queue: assignment
                .and_then(|it| it.queue)
                .map(|queue| self.quota.queue(queue).name.clone()),
            began_with: self.begins_with(workload),
        }
    }

    /// Who of several goes first, in a queue or of those that were promised something: higher
    /// priority, then earlier in its queue, then uid.
    pub fn queue_order(&self, workload: WorkloadIdx) -> (Reverse<i32>, Time, &Text) {
        let entry = &self.workloads[workload];
        (Reverse(entry.priority), self.queued_at(workload), &entry.uid)
    }

    /// When a workload took its place in its queue: its creation, or, if it waits because its pods
    /// did not come up, when it was stopped for that, where such work goes behind.
    pub fn queued_at(&self, workload: WorkloadIdx) -> Time {
        let entry = &self.workloads[workload];
        let behind = self.policy.pods_ready.is_some_and(|ready| ready.requeuing.behind);
        match entry.requeue.unready_at().filter(|_| behind && entry.pending()) {
            Some(at) => at.max(entry.created),
            None => entry.created,
        }
    }
}

/// The highest priority of some pods, and the lowest.
fn range<'a>(pods: impl Iterator<Item = &'a Pod>) -> Option<(i32, i32)> {
    let ranges = pods.map(|pod| (pod.priority, pod.priority));
    ranges.reduce(|(highest, lowest), (one, other)| (highest.max(one), lowest.min(other)))
}

/// Whether one is a later run of the owner that the other is a run of; `None`: of no one owner.
fn run_after(one: &GangKey, other: &GangKey) -> Option<bool> {
    match (one, other) {
        (GangKey::Owner(a, run), GangKey::Owner(b, before)) if a == b => Some(run > before),
        _ => None,
    }
}

/// Whether a name is the plain one, or that with its source behind it, numbered or not.
pub fn is_name_of(name: &str, base: &str, source: GangSource) -> bool {
    let behind = |number: &str| {
        let digits = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit());
        number.is_empty() || number.strip_prefix('-').is_some_and(digits)
    };
    let is_longer = || name.strip_prefix(&*suffixed(base, source)).is_some_and(behind);
    name == base || name.len() > base.len() && is_longer()
}

fn suffixed(base: &str, source: GangSource) -> Text {
    let source = match source {
        GangSource::SchedulingGroup => "schedulinggroup",
        GangSource::PodGroup | GangSource::VolcanoGroup => "podgroup",
        GangSource::CapstanGang => "gang",
        GangSource::KueueGroup => "kueuegroup",
        GangSource::Job => "job",
        GangSource::Owner => "owner",
        GangSource::Pod => "pod",
    };
    format!("{base}-{source}").into()
}
