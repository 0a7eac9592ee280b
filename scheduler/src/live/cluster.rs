//! The objects themselves, as drafts, and what has to be told again because of them.
//!
//! Decides where each object goes and whom its change concerns. An object that an API server
//! should not have taken is named, and its last good version stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{BudgetFacts, GangKey, Labels, NodeFacts, Text, Wishes};
use capstan_core::time::Time;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::below::Below;
use super::claimants::Claimants;
use super::notes::{Fault, Notes};
use super::objects::{identity, value_identity};
use super::queues::Queues;
use super::roster::{Named, Roster};
use super::storage::Storages;
use super::unscheduled::Unscheduled;
use super::{Kind, Object, Seen};
use crate::api::node::Node;
use crate::config::{Config, PriceConfig};
use crate::convert::crowd::Crowd;
use crate::convert::directory::{Directory, Owner, OwnerKey};
use crate::convert::facts::ClassKind;
use crate::convert::gathered::{OwnerDraft, PriorityClassDraft};
use crate::convert::pod::PodDraft;
use crate::convert::ranks::Ranked;
use crate::convert::resolve::DEFAULT_NAMESPACE;
use crate::convert::runtime::RuntimeClassDraft;
use crate::convert::sharing::Shared;
use crate::convert::{Refusal, job, marks, node};
use crate::prices::PRICE_ANNOTATION;
use crate::read::kinds::{Origin, Queueing};
use crate::read::queueing;

/// Values that may gather before what nobody holds any more is looked for.
const SWEEP_AFTER: usize = 4_096;

/// The cluster as the API shows it.
#[derive(Debug, Default)]
pub struct Live {
    pub(super) prices: PriceConfig,
    pub(super) kinds: BTreeSet<Kind>,
    /// Those of them that another configuration added and that were not all listed yet: nothing
    /// of them is told.
    pub(super) joining: BTreeSet<Kind>,
    /// Kinds that another configuration left out, until those that it added have joined.
    pub(super) parting: BTreeSet<Kind>,
    pub(super) roster: Roster,
    pub(super) shared: Shared,
    /// Shared values after the last sweep.
    swept: usize,
    pub(super) directory: Directory,
    /// Jobs, by uid.
    pub(super) jobs: BTreeSet<Text>,
    pub(super) pods: BTreeMap<Text, Box<PodDraft>>,
    /// What pods of ours say that have no node, by uid.
    pub(super) unscheduled: BTreeMap<Text, Unscheduled>,
    pub(super) nodes: BTreeMap<Text, NodeEntry>,
    pub(super) namespaces: BTreeMap<Text, Labels>,
    /// Pods and Jobs in each namespace.
    pub(super) inhabited: BTreeMap<Text, usize>,
    pub(super) queues: Queues,
    /// Queue objects that came or went since the last time.
    pub(super) queues_anew: Vec<(Kind, Named)>,
    pub(super) below: Below,
    pub(super) storage: Storages,
    /// PodDisruptionBudgets.
    pub(super) budgets: BTreeMap<Named, Arc<BudgetFacts>>,
    /// How many pods owners ask for that were told of.
    pub(super) crowd: Crowd,
    /// Pods by the claims that they name.
    pub(super) claimants: Claimants,
    /// Pods whose priority is still their class's to say.
    pub(super) unranked: BTreeSet<Text>,
    /// When pods and Jobs without a creation time were told first, by uid.
    pub(super) undated: BTreeMap<Text, Time>,
    /// One member of each named gang, and what it asks for.
    pub(super) firsts: BTreeMap<(Text, GangKey), (Text, Arc<Wishes>)>,
    pub(super) dirty: Dirty,
    pub(super) notes: Notes,
    pub(super) told: super::drain::Told,
}

/// What has to be told again.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Pods, by uid; also those that are gone.
    pub pods: BTreeSet<Text>,
    /// Those of them that ended, and whether they did well.
    pub ended: BTreeMap<Text, bool>,
    /// Owners; Jobs among them have facts, the others remarks.
    pub owners: BTreeSet<OwnerKey>,
    /// Jobs that are gone, by uid.
    pub jobs: BTreeSet<Text>,
    /// Nodes, by name; also those that are gone.
    pub nodes: BTreeSet<Text>,
    /// Namespaces, by name; also those that are gone.
    pub namespaces: BTreeSet<Text>,
    /// PodDisruptionBudgets; also those that are gone.
    pub budgets: BTreeSet<Named>,
}

/// A node, with the annotation that says its price.
#[derive(Debug, PartialEq)]
pub struct NodeEntry {
    /// Facts at the prices that hold now, which the engine shares.
    pub facts: Arc<NodeFacts>,
    annotations: Labels,
}

impl Live {
    /// Nothing seen yet.
    pub fn new(config: &Config) -> Live {
        let mut live = Live::default();
        live.directory.scheduler = config.scheduler_name.clone();
        live.directory.whole = true;
        live.prices = config.prices.clone();
        live.kinds = Kind::all(config);
        live.dirty.namespaces.insert(DEFAULT_NAMESPACE.into());
        live
    }

    /// Records an event.
    pub fn take(&mut self, seen: Seen) {
        let kind = match &seen {
            Seen::Listing(kind)
            | Seen::Complete(kind)
            | Seen::Absent(kind)
            | Seen::Forbidden(kind, _) => *kind,
            Seen::Listed(object) | Seen::Applied(object) | Seen::Deleted(object) => object.kind(),
        };
        if !self.kinds.contains(&kind) {
            return;
        }
        let gone = match seen {
            Seen::Listing(kind) => {
                self.roster.begin(kind);
                Vec::new()
            }
            Seen::Listed(object) | Seen::Applied(object) => {
                self.put(object);
                Vec::new()
            }
            Seen::Complete(kind) => self.roster.complete(kind),
            Seen::Absent(kind) => self.roster.absent(kind),
            Seen::Forbidden(..) => Vec::new(),
            Seen::Deleted(object) => {
                let (named, uid) = object.identity();
                let there = self.roster.gone(kind, &named, &uid);
                if there { vec![(named, uid)] } else { Vec::new() }
            }
        };
        for (named, uid) in gone {
            self.remove(kind, &named, &uid);
        }
        self.join();
        if self.shared.len() > 2 * self.swept + SWEEP_AFTER {
            self.sweep();
        }
    }

    /// Takes another configuration: what it changes about objects is told again.
    pub fn reconfigure(&mut self, config: &Config) {
        let before =
            std::mem::replace(&mut self.directory.scheduler, config.scheduler_name.clone());
        let after = &self.directory.scheduler;
        if before != *after {
            let pods = self.pods.iter().filter(|(_, pod)| pod.ours(&before) != pod.ours(after));
            self.dirty.pods.extend(pods.map(|(uid, _)| uid.clone()));
            // Which members of a gang are ours is asked of owners and groups of every kind.
            self.dirty.owners.extend(self.directory.owners.keys().cloned());
            self.drop_ended_of_others();
        }
        if self.prices != config.prices {
            self.prices = config.prices.clone();
            for (name, entry) in &mut self.nodes {
                if node::price(&mut entry.facts, &entry.annotations, &self.prices) {
                    self.dirty.nodes.insert(name.clone());
                }
            }
        }
        self.follow(Kind::all(config));
    }

    /// Other kinds are looked at. Those that are new do not stop what is decided on the others:
    /// they join once all of them were listed, for half of a group of queues must not be taken
    /// for all of it. Before everything was seen once, nothing is decided anyway. Those that are
    /// looked at no more stay as they were until then: between two groups of queues there is no
    /// moment without any, in which work would run beside all quota.
    fn follow(&mut self, kinds: BTreeSet<Kind>) {
        let synced = self.synced();
        let before = std::mem::replace(&mut self.kinds, kinds);
        let (never_told, told): (Vec<Kind>, Vec<Kind>) = before
            .difference(&self.kinds)
            .copied()
            .partition(|kind| self.joining.remove(kind) || !synced);
        never_told.into_iter().for_each(|kind| self.forget(kind));
        if synced {
            let known = |kind: &&Kind| before.contains(kind) || self.parting.contains(kind);
            self.joining.extend(self.kinds.iter().filter(|kind| !known(kind)));
        }
        self.parting.extend(told);
        self.parting.retain(|kind| !self.kinds.contains(kind));
        self.join();
    }

    /// Takes in the kinds that join, if nothing is awaited of them any more; those that part go in
    /// the same moment.
    fn join(&mut self) {
        if !self.roster.waiting(&self.joining).is_empty() {
            return;
        }
        if !self.joining.is_empty() {
            self.joining.clear();
            self.queues.count_again();
        }
        let parting = std::mem::take(&mut self.parting);
        parting.into_iter().for_each(|kind| self.forget(kind));
    }

    /// Forgets all objects of a kind.
    fn forget(&mut self, kind: Kind) {
        for (named, uid) in self.roster.forget(kind) {
            self.remove(kind, &named, &uid);
        }
    }

    /// Whether all that was to be seen at the start was seen.
    pub fn synced(&self) -> bool {
        self.waiting_for().is_empty()
    }

    /// Kinds that were neither listed completely nor found absent and without which nothing is
    /// known of the cluster.
    pub fn waiting_for(&self) -> Vec<Kind> {
        let mut waiting = self.unread();
        waiting.retain(|kind| !self.joining.contains(kind));
        waiting
    }

    /// Kinds that were neither listed completely nor found absent, those that join among them.
    pub fn unread(&self) -> Vec<Kind> {
        self.roster.waiting(&self.kinds)
    }

    /// Whether there is an object of a kind under this name; the namespace is empty where a kind
    /// has none.
    pub fn holds(&self, kind: Kind, namespace: &Text, name: &Text) -> bool {
        self.roster.holds(kind, &(namespace.clone(), name.clone()))
    }

    /// Objects of a kind that exist.
    pub fn count(&self, kind: Kind) -> usize {
        self.roster.count(kind)
    }

    fn put(&mut self, object: Object) {
        let kind = object.kind();
        match object {
            Object::Pod(pod) => self.put_pod(&pod),
            Object::Node(node) => self.put_node(&node),
            Object::Job(job) => match job::draft(&job, &mut self.shared) {
                Ok(draft) => self.put_owner(kind, Owner::Job(Box::new(draft))),
                Err(refusals) => self.refuse(kind, &job.metadata, refusals),
            },
            Object::Meta(Kind::Namespace, object) => {
                let labels = marks::labels(&object.metadata.labels, &mut self.shared);
                let named = self.enter(kind, &object.metadata);
                if self.namespaces.get(&named.1) != Some(&labels) {
                    self.dirty.namespaces.insert(named.1.clone());
                    self.namespaces.insert(named.1, labels);
                }
            }
            Object::Meta(_, object) => {
                let (meta, template) = (&object.metadata, ObjectMeta::default());
                let draft = OwnerDraft::of(kind.name(), meta, &template, &mut self.shared);
                self.put_owner(kind, Owner::Other(Box::new(draft)));
            }
            Object::PriorityClass(class) => {
                let named = self.enter(kind, &class.metadata);
                let draft = PriorityClassDraft::of(&class);
                if self.directory.classes.insert(named.1.clone(), draft) != Some(draft) {
                    self.notes.found(ClassKind::Priority, &named.1);
                    self.rank_again();
                }
            }
            Object::RuntimeClass(class) => match RuntimeClassDraft::of(&class) {
                Ok(draft) => self.put_runtime_class(&class.metadata, draft),
                Err(refusals) => self.refuse(kind, &class.metadata, refusals),
            },
            Object::LimitRange(range) => self.put_limit_range(&range),
            Object::Budget(budget) => self.put_budget(&budget),
            Object::Storage(of, object, seen) => self.put_storage(of, &object.metadata, &*seen),
            Object::Devices(object) => {
                let named = self.enter(kind, object.metadata());
                self.notes.faults(kind, &named, []);
                self.directory.devices.put(&object, &mut self.shared);
            }
            Object::Queueing(queueing, origin, value) => {
                self.put_queueing(kind, queueing, origin, *value);
            }
            Object::Gang(gang, value) => self.put_gang(gang, &value),
            Object::Broken(_, object, path, problem) => {
                self.refuse(kind, &object.metadata, vec![Refusal { path, problem }]);
            }
        }
    }

    /// Notes that an object exists; one that stood under its name before is gone.
    pub(super) fn enter(&mut self, kind: Kind, meta: &ObjectMeta) -> Named {
        let (named, uid) = identity(kind, meta);
        self.enter_as(kind, &named, &uid);
        named
    }

    pub(super) fn enter_as(&mut self, kind: Kind, named: &Named, uid: &Text) {
        if let Some(other) = self.roster.seen(kind, named, uid) {
            self.remove(kind, named, &other);
        }
    }

    /// An object that should not exist as it is.
    pub(super) fn refuse(&mut self, kind: Kind, meta: &ObjectMeta, refusals: Vec<Refusal>) {
        let named = self.enter(kind, meta);
        let fault = |refusal: Refusal| -> Fault { (Some(refusal.path), refusal.problem) };
        self.notes.faults(kind, &named, refusals.into_iter().map(fault));
    }

    fn put_node(&mut self, node: &Node) {
        if let Err(refusals) = node::refuse(node) {
            return self.refuse(Kind::Node, &node.metadata, refusals);
        }
        let named = self.enter(Kind::Node, &node.metadata);
        self.notes.faults(Kind::Node, &named, node::remark(node).map(|problem| (None, problem)));
        let facts = Arc::new(node::facts(node, &self.prices, &mut self.shared));
        let mut annotations = marks::labels(&node.metadata.annotations, &mut self.shared);
        annotations.retain(|key, _| **key == *PRICE_ANNOTATION);
        let entry = NodeEntry { facts, annotations };
        if self.nodes.get(&named.1) != Some(&entry) {
            self.dirty.nodes.insert(named.1.clone());
            self.nodes.insert(named.1, entry);
        }
    }

    fn put_owner(&mut self, kind: Kind, owner: Owner) {
        self.put_owner_with(kind, owner, []);
    }

    /// An owner of which these things are wrong.
    pub(super) fn put_owner_with(
        &mut self,
        kind: Kind,
        owner: Owner,
        faults: impl IntoIterator<Item = Fault>,
    ) {
        let key = owner.key();
        let named = (key.1.clone(), key.2.clone());
        self.enter_as(kind, &named, owner.uid());
        self.notes.faults(kind, &named, faults);
        let old = self.directory.owners.get(&key);
        if old == Some(&owner) {
            return;
        }
        let scheduler = &self.directory.scheduler;
        let disturbs = old.is_none_or(|old| !old.same_below(&owner, scheduler));
        if disturbs {
            self.disturb(&key);
            self.disturb_train(&owner);
        }
        if let Some(old) = self.directory.owners.remove(&key) {
            self.unlink_owner(&key, &old);
            self.disturb_train(&old);
            self.tell_above(&old);
        }
        let mut more = false;
        for (shape, scheduler) in owner.shapes() {
            more |= self.directory.meet(shape, scheduler);
        }
        if more {
            self.see_all_again();
        }
        self.below.add_owner(owner.owner(), &key);
        if owner.runs() {
            self.inhabit(&key.1);
            self.jobs.insert(owner.uid().clone());
        }
        self.tell_above(&owner);
        self.dirty.owners.insert(key);
        self.directory.put(owner);
    }

    fn remove_owner(&mut self, key: &OwnerKey) {
        let Some(old) = self.directory.owners.remove(key) else { return };
        self.unlink_owner(key, &old);
        self.tell_above(&old);
        self.disturb(key);
        self.disturb_train(&old);
    }

    fn unlink_owner(&mut self, key: &OwnerKey, old: &Owner) {
        self.below.remove_owner(old.owner(), key);
        self.below.name(key, None);
        if old.runs() {
            self.leave(&key.1);
            self.jobs.remove(old.uid());
            self.dirty.jobs.insert(old.uid().clone());
        }
    }

    /// All that looks at an owner has to be looked at again.
    pub(super) fn disturb(&mut self, key: &OwnerKey) {
        let below = self.below.all(key);
        self.dirty.pods.extend(below.pods);
        self.dirty.owners.extend(below.owners);
    }

    /// More labels of pods matter to others than did.
    pub(super) fn see_all_again(&mut self) {
        self.dirty.pods.extend(self.pods.keys().cloned());
        let jobs = self.directory.owners.iter().filter(|(_, owner)| owner.runs());
        self.dirty.owners.extend(jobs.map(|(key, _)| key.clone()));
    }

    /// Priorities that classes decide have to be looked at again.
    fn rank_again(&mut self) {
        self.dirty.pods.extend(self.unranked.iter().cloned());
        // Of templates it is asked as well whether the class that they name is there.
        let named = |ranked: &Ranked| ranked.open() || ranked.class.is_some();
        let open = |owner: &Owner| owner.names_class() || owner.ranked().any(named);
        let jobs = self.directory.owners.iter().filter(|(_, owner)| open(owner));
        self.dirty.owners.extend(jobs.map(|(key, _)| key.clone()));
        let groups = self.directory.owners.iter().filter(|(_, owner)| owner.names_class());
        let groups: Vec<OwnerKey> = groups.map(|(key, _)| key.clone()).collect();
        groups.iter().for_each(|key| self.disturb(key));
        self.tell_trains();
    }

    fn put_runtime_class(&mut self, meta: &ObjectMeta, draft: RuntimeClassDraft) {
        let named = self.enter(Kind::RuntimeClass, meta);
        self.notes.faults(Kind::RuntimeClass, &named, []);
        if self.directory.runtimes.get(&named.1) != Some(&draft) {
            self.notes.found(ClassKind::Runtime, &named.1);
            self.shape_again(&named.1);
            self.directory.runtimes.insert(named.1, draft);
        }
    }

    /// A RuntimeClass changed: pods are as the API server made them, templates are not.
    fn shape_again(&mut self, class: &Text) {
        let of_class = |owner: &Owner| owner.runtimes().any(|runtime| runtime.class == *class);
        let concerned = self.directory.owners.iter().filter(|(_, owner)| of_class(owner));
        let concerned = concerned.map(|(key, _)| key.clone()).collect();
        self.tell_templates(concerned);
    }

    fn put_queueing(&mut self, kind: Kind, queue: Queueing, origin: Origin, mut value: Value) {
        queueing::without_nulls(&mut value);
        queueing::upgrade(&mut value, origin);
        let (named, uid) = value_identity(kind, &value);
        if queueing::comes_anew(queue, origin, &value, self.roster.holds(kind, &named)) {
            self.queues_anew.push((kind, named.clone()));
        }
        self.enter_as(kind, &named, &uid);
        match queueing::decode(queue, origin, (&named.0, &named.1), &value) {
            Ok(mut decoded) => {
                let ours = !queueing::is_anothers(queue, &value, &self.directory.scheduler);
                match decoded.draft.take().filter(|_| ours) {
                    Some(draft) => self.queues.put(kind, &named, (origin, draft), &value),
                    None => self.queues.remove(kind, &named),
                }
                self.notes.faults(kind, &named, decoded.said());
            }
            Err(findings) => {
                let broken = findings.iter().map(|one| format!("{}: {}", one.path, one.problem));
                let broken = broken.map(Text::from).collect();
                let faults = findings.into_iter().map(|one| (Some(one.path), one.problem));
                self.notes.faults(kind, &named, faults);
                let since = queueing::deleted(&value);
                value["spec"] = Value::Object(Map::new());
                let bare = queueing::decode(queue, origin, (&named.0, &named.1), &value);
                let bare = bare.ok().and_then(|bare| Some((origin, bare.draft?)));
                self.queues.refuse(kind, &named, (broken, since), bare);
            }
        }
    }

    pub(super) fn remove(&mut self, kind: Kind, named: &Named, uid: &Text) {
        self.notes.forget(kind, named);
        self.undated.remove(uid);
        self.unscheduled.remove(uid);
        match kind {
            Kind::Pod => self.remove_pod(uid),
            Kind::Node => {
                self.nodes.remove(&named.1);
                self.dirty.nodes.insert(named.1.clone());
            }
            Kind::Namespace => {
                self.namespaces.remove(&named.1);
                self.dirty.namespaces.insert(named.1.clone());
            }
            Kind::PriorityClass => {
                if self.directory.classes.remove(&named.1).is_some() {
                    self.rank_again();
                }
            }
            Kind::RuntimeClass => {
                if self.directory.runtimes.remove(&named.1).is_some() {
                    self.shape_again(&named.1);
                }
            }
            Kind::Job | Kind::ReplicaSet | Kind::StatefulSet | Kind::Deployment => {
                self.remove_owner(&(kind.name().into(), named.0.clone(), named.1.clone()));
            }
            Kind::Budget => self.remove_budget(named),
            Kind::LimitRange => self.remove_limit_range(named),
            Kind::Storage(kind) => self.storage.remove(kind, named),
            Kind::Devices(of) => self.directory.devices.remove(of, named),
            Kind::Gang(gang) => {
                self.remove_owner(&(gang.row().key.into(), named.0.clone(), named.1.clone()));
            }
            Kind::Queueing(..) => {
                self.queues.remove(kind, named);
                self.queues_anew.push((kind, named.clone()));
            }
        }
    }

    pub(super) fn inhabit(&mut self, namespace: &Text) {
        let count = self.inhabited.entry(namespace.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.dirty.namespaces.insert(namespace.clone());
        }
    }

    pub(super) fn leave(&mut self, namespace: &Text) {
        let Some(count) = self.inhabited.get_mut(namespace) else { return };
        *count -= 1;
        if *count == 0 {
            self.inhabited.remove(namespace);
            self.dirty.namespaces.insert(namespace.clone());
        }
    }

    /// Forgets what nobody holds any more.
    fn sweep(&mut self) {
        let pods = &self.pods;
        self.firsts.retain(|_, (uid, _)| pods.contains_key(uid));
        self.notes.forget_gangs();
        self.shared.sweep();
        self.swept = self.shared.len();
    }
}
