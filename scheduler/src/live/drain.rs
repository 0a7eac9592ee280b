//! Facts of what changed, in the order in which others refer to them.
//!
//! Decides that a fact is told once for all changes since the last time, that pods which hold
//! nothing and are not ours are not told at all, and that remarks wait until everything was seen:
//! before that an owner may only seem to be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Input;
use capstan_core::model::input::{BudgetFacts, GangKey, OwnerFacts, PodFacts, Text, Wishes};
use capstan_core::time::Time;

use super::Drained;
use super::cluster::{Dirty, Live};
use super::queues::Changes;
use super::roster::Named;
use crate::convert::crowd;
use crate::convert::directory::{Owner, OwnerKey};
use crate::convert::facts::{Facts, Missing};
use crate::convert::gang::GangDraft;
use crate::convert::job::JobDraft;
use crate::convert::pod::PodDraft;
use crate::convert::quota::{self, Objects};
use crate::convert::remarks::Remarks;
use crate::convert::resolve::{DEFAULT_NAMESPACE, Resolved, namespace_input};
use crate::convert::theirs::Theirs;
use crate::gangs::kinds::TABLE;
use crate::gangs::{train, wishes};

/// What the engine knows, as far as it matters for what it is told next.
#[derive(Debug, Default)]
pub struct Told {
    pods: BTreeSet<Text>,
    jobs: BTreeSet<Text>,
    nodes: BTreeSet<Text>,
    namespaces: BTreeMap<Text, Input>,
    budgets: BTreeMap<Named, Arc<BudgetFacts>>,
    /// Namespaces that LocalQueues name.
    queued: BTreeSet<Text>,
    /// Facts were told before everything was seen, so that nothing was remarked on them.
    unremarked: bool,
}

/// Facts and remarks in the making.
#[derive(Default)]
struct News {
    gone: Vec<Input>,
    facts: Vec<Input>,
    remarks: Remarks,
    missing: Missing,
}

impl Live {
    /// What is said of a pod, or of a workload, that another scheduler is to place; `None`: there
    /// is none of that name.
    pub fn says_whose(&self, of_pod: bool, namespace: &str, name: &str) -> Option<String> {
        let ours = &self.directory.scheduler;
        let pod = || {
            self.pods.values().find_map(|pod| {
                let named = (&*pod.namespace, &*pod.name) == (namespace, name);
                named.then(|| Theirs::of_pod(pod, ours)).flatten()
            })
        };
        let owner = (!of_pod).then(|| self.theirs(namespace, name)).flatten();
        owner.or_else(pod).map(|theirs| theirs.told(namespace, name, ours))
    }

    /// The owner of this name, if its pods name another scheduler.
    pub fn theirs(&self, namespace: &str, name: &str) -> Option<Theirs> {
        let kinds = std::iter::once("Job").chain(TABLE.iter().map(|row| row.key));
        let mut keys =
            kinds.map(|kind| -> OwnerKey { (kind.into(), namespace.into(), name.into()) });
        let owners = &self.directory.owners;
        let of = |key: OwnerKey| Theirs::of(owners.get(&key)?, &self.directory.scheduler);
        keys.find_map(of)
    }

    /// What changed since the last time.
    pub fn drain(&mut self, now: Time) -> Drained {
        let mut news = News::default();
        let queues = self.settle_queues();
        let synced = self.synced();
        if synced && std::mem::take(&mut self.told.unremarked) {
            self.remark_all(now, &mut news);
        }
        self.settle_devices();
        self.settle_ranges();
        self.settle_budgets();
        self.count_again();
        let dirty = std::mem::take(&mut self.dirty);
        self.tell_namespaces(&dirty, &mut news);
        news.facts.extend(queues.facts);
        self.tell_nodes(&dirty, &mut news);
        let (storage_gone, storage) = self.storage.drain();
        news.facts.extend(storage);
        let mut devices = self.directory.devices.news();
        news.facts.append(&mut devices.facts);
        self.tell_budgets(&dirty, &mut news);
        self.tell_owners(&dirty, now, &mut news);
        self.tell_pods(&dirty, now, &mut news);
        let Changes { gone: mut queues_gone, mut notices, .. } = queues;
        let mut inputs = news.gone;
        self.forget_nodes_and_namespaces(&dirty, &mut queues_gone);
        inputs.append(&mut queues_gone);
        inputs.extend(storage_gone);
        inputs.append(&mut devices.gone);
        inputs.append(&mut news.facts);
        notices.splice(0..0, self.notes.take());
        if synced {
            news.remarks.retain_new(&mut self.notes.said);
            notices.extend(news.remarks.notices(&BTreeMap::new()));
            notices.extend(self.notes.missing(news.missing).notices("cluster"));
        } else {
            self.told.unremarked = true;
        }
        Drained { inputs, notices, queues_anew: std::mem::take(&mut self.queues_anew) }
    }

    /// Whether more is told the next time though nothing changes.
    pub fn owes(&self) -> bool {
        self.directory.devices.owes()
    }

    /// Everything that there is, as a new engine would be fed.
    pub fn everything(&mut self, now: Time) -> Vec<Input> {
        self.count_again();
        let objects = self.queues.objects(&self.joining);
        let local = objects.local_queues.iter().map(|(_, queue)| queue.namespace.clone());
        let names: BTreeSet<Text> = self
            .namespaces
            .keys()
            .chain(self.inhabited.keys())
            .cloned()
            .chain(local)
            .chain([DEFAULT_NAMESPACE.into()])
            .collect();
        let mut resolved = Resolved::default();
        resolved.inputs.extend(names.iter().map(|name| self.namespace(name)));
        self.default_queues(&objects);
        quota::inputs(objects, &mut resolved);
        let mut inputs = resolved.inputs;
        inputs.extend(self.nodes.values().map(|entry| Input::Node(entry.facts.clone())));
        inputs.extend(self.storage.everything());
        inputs.extend(self.budgets.values().cloned().map(Input::Budget));
        self.directory.devices.settle(&mut self.shared);
        inputs.extend(self.directory.devices.everything());
        let mut missing = Missing::default();
        let mut facts =
            Facts { directory: &self.directory, shared: &mut self.shared, missing: &mut missing };
        let since = |uid: &Text| self.undated.get(uid).copied().unwrap_or(now);
        for owner in self.directory.owners.values().filter(|owner| owner.runs()) {
            inputs.extend(facts.of_owner(owner, since(owner.uid())).map(Input::Owner));
        }
        crowd::limit_all(&mut inputs);
        for pod in self.pods.values().filter(|pod| counts(pod, &self.directory.scheduler)) {
            inputs.push(Input::Pod(facts.of_pod(pod, since(&pod.uid))));
        }
        inputs
    }

    /// Queues first: they decide which namespaces exist and what queues by default.
    fn settle_queues(&mut self) -> Changes {
        if !self.queues.take_changed() {
            return Changes::default();
        }
        let objects = self.queues.objects(&self.joining);
        let local = objects.local_queues.iter().map(|(_, queue)| queue.namespace.clone());
        let queued: BTreeSet<Text> = local.collect();
        self.dirty.namespaces.extend(queued.symmetric_difference(&self.told.queued).cloned());
        self.told.queued = queued;
        self.default_queues(&objects);
        self.queues.settle(objects)
    }

    /// What claims ask; a claim concerns the pods that name it, a template the Jobs that do.
    fn settle_devices(&mut self) {
        let changed = self.directory.devices.settle(&mut self.shared);
        for key in &changed.claims {
            self.dirty.pods.extend(self.claimants.of(key).cloned());
        }
        let known = |uid: &&Text| self.pods.contains_key(*uid);
        self.dirty.pods.extend(changed.pods.iter().filter(known).cloned());
        if changed.is_of_pods_only() {
            return;
        }
        if !changed.resources.is_empty() {
            let concerned = self.pods.values().filter(|pod| {
                let claims = pod.claims.as_ref();
                claims.is_some_and(|claims| changed.concerns(claims, &pod.namespace))
            });
            self.dirty.pods.extend(concerned.map(|pod| pod.uid.clone()));
        }
        let concerned = self.directory.owners.iter().filter(|(key, owner)| {
            let claims = owner.claims();
            claims.into_iter().any(|claims| changed.concerns(claims, &key.1))
        });
        let concerned: Vec<OwnerKey> = concerned.map(|(key, _)| key.clone()).collect();
        self.tell_templates(concerned);
    }

    /// A default queue concerns the Jobs of its namespace that name none, and their pods.
    fn default_queues(&mut self, objects: &Objects) {
        let after = objects.default_queues();
        let before = std::mem::replace(&mut self.directory.default_queues, after);
        let directory = &self.directory;
        for namespace in before.symmetric_difference(&directory.default_queues) {
            let first: OwnerKey = ("Job".into(), namespace.clone(), "".into());
            let here = |(key, _): &(&OwnerKey, &Owner)| (&key.0, &key.1) == (&first.0, &first.1);
            for (key, owner) in directory.owners.range(first.clone()..).take_while(here) {
                let names_none = |job: &JobDraft| wishes::queue(&job.chain(directory)).is_none();
                if owner.job().is_some_and(names_none) {
                    self.dirty.owners.insert(key.clone());
                }
                let pods = self.below.of(key).into_iter().flat_map(|owned| &owned.pods);
                for pod in pods.filter_map(|uid| self.pods.get(uid)) {
                    if wishes::queue(&pod.chain(directory)).is_none() {
                        self.dirty.pods.insert(pod.uid.clone());
                    }
                }
            }
        }
    }

    fn exists(&self, namespace: &Text) -> bool {
        self.namespaces.contains_key(namespace)
            || self.inhabited.contains_key(namespace)
            || self.told.queued.contains(namespace)
            || **namespace == *DEFAULT_NAMESPACE
    }

    fn namespace(&self, name: &Text) -> Input {
        let labels = self.namespaces.get(name).cloned().unwrap_or_default();
        namespace_input(name.clone(), labels)
    }

    fn tell_namespaces(&mut self, dirty: &Dirty, news: &mut News) {
        for name in &dirty.namespaces {
            if !self.exists(name) {
                continue;
            }
            let input = self.namespace(name);
            if self.told.namespaces.get(name) != Some(&input) {
                news.facts.push(input.clone());
                self.told.namespaces.insert(name.clone(), input);
            }
        }
    }

    fn tell_nodes(&mut self, dirty: &Dirty, news: &mut News) {
        for name in &dirty.nodes {
            if let Some(entry) = self.nodes.get(name) {
                news.facts.push(Input::Node(entry.facts.clone()));
                self.told.nodes.insert(name.clone());
            }
        }
    }

    fn tell_budgets(&mut self, dirty: &Dirty, news: &mut News) {
        for named in &dirty.budgets {
            match self.budgets.get(named) {
                Some(budget) if self.told.budgets.get(named) == Some(budget) => {}
                Some(budget) => {
                    news.facts.push(Input::Budget(budget.clone()));
                    self.told.budgets.insert(named.clone(), budget.clone());
                }
                None if self.told.budgets.remove(named).is_some() => {
                    let (namespace, name) = named.clone();
                    news.gone.push(Input::BudgetGone { namespace, name });
                }
                None => {}
            }
        }
    }

    /// What others refer to goes after them.
    fn forget_nodes_and_namespaces(&mut self, dirty: &Dirty, gone: &mut Vec<Input>) {
        let mut nodes = Vec::new();
        for name in dirty.nodes.iter().filter(|name| !self.nodes.contains_key(*name)) {
            if self.told.nodes.remove(name) {
                nodes.push(Input::NodeGone(name.clone()));
            }
        }
        gone.splice(0..0, nodes);
        let namespaces: Vec<&Text> =
            dirty.namespaces.iter().filter(|name| !self.exists(name)).collect();
        for name in namespaces {
            if self.told.namespaces.remove(name).is_some() {
                gone.push(Input::NamespaceGone(name.clone()));
            }
        }
    }

    fn tell_owners(&mut self, dirty: &Dirty, now: Time, news: &mut News) {
        let mut facts = Facts {
            directory: &self.directory,
            shared: &mut self.shared,
            missing: &mut news.missing,
        };
        let mut owners: Vec<OwnerFacts> = Vec::new();
        for owner in dirty.owners.iter().filter_map(|key| facts.directory.owners.get(key)) {
            let (uid, created) = (owner.uid(), owner.created());
            let made = match owner.runs() {
                true => facts.of_owner(owner, since(&mut self.undated, created, uid, now)),
                false => None,
            };
            facts.remark(owner, made.as_ref(), &mut news.remarks);
            let Some(made) = made else {
                if self.told.jobs.remove(uid) {
                    self.crowd.forget(uid);
                    news.gone.push(Input::OwnerGone(uid.clone()));
                }
                continue;
            };
            self.told.jobs.insert(uid.clone());
            self.crowd.note(&made);
            owners.push(made);
        }
        for uid in dirty.jobs.iter().filter(|uid| !self.jobs.contains(*uid)) {
            if self.told.jobs.remove(uid) {
                self.crowd.forget(uid);
                news.gone.push(Input::OwnerGone(uid.clone()));
            }
        }
        // Others of a namespace that asks for too much may have their turn, or none any more.
        let mut others = self.crowd.settle();
        owners.iter().for_each(|owner| _ = others.remove(&owner.uid));
        if !others.is_empty() {
            let directory = facts.directory;
            let runs = directory.owners.values().filter(|owner| owner.runs());
            for owner in runs.filter(|owner| others.contains(owner.uid())) {
                let start = since(&mut self.undated, owner.created(), owner.uid(), now);
                owners.extend(facts.of_owner(owner, start));
            }
        }
        for mut owner in owners {
            self.crowd.limit(&mut owner);
            news.facts.push(Input::Owner(owner));
        }
    }

    fn tell_pods(&mut self, dirty: &Dirty, now: Time, news: &mut News) {
        let mut facts = Facts {
            directory: &self.directory,
            shared: &mut self.shared,
            missing: &mut news.missing,
        };
        let mut gone = Vec::new();
        for uid in &dirty.pods {
            let pod = self.pods.get(uid).filter(|pod| counts(pod, &facts.directory.scheduler));
            let Some(pod) = pod else {
                if self.told.pods.remove(uid) {
                    let pod = uid.clone();
                    gone.push(match dirty.ended.get(uid) {
                        Some(&well) => Input::PodEnded { pod, well },
                        None => Input::PodGone(pod),
                    });
                }
                continue;
            };
            let start = since(&mut self.undated, pod.created, uid, now);
            let made = facts.of_pod(pod, start);
            facts.remark_pod(pod, &made, &mut news.remarks);
            compare_wishes(&made, &self.pods, &mut self.firsts, &mut news.remarks);
            self.told.pods.insert(pod.uid.clone());
            news.facts.push(Input::Pod(made));
        }
        // Pods go before the owners that they look at.
        news.gone.splice(0..0, gone);
    }

    /// Once everything was seen: remarks on what was told before that.
    fn remark_all(&mut self, now: Time, news: &mut News) {
        let mut facts = Facts {
            directory: &self.directory,
            shared: &mut self.shared,
            missing: &mut news.missing,
        };
        for (key, owner) in self.directory.owners.iter() {
            if !self.dirty.owners.contains(key) {
                let made = facts.of_owner(owner, now);
                facts.remark(owner, made.as_ref(), &mut news.remarks);
            }
            // Later than now one is without its JobSet for no longer than that takes to be made.
            let unmade = |gang: &&GangDraft| train::unmade(gang, facts.directory);
            if let Some(gang) = owner.gang().filter(unmade) {
                news.remarks.on_unmade(gang);
            }
        }
        for pod in self.pods.values().filter(|pod| !self.dirty.pods.contains(&pod.uid)) {
            if counts(pod, &facts.directory.scheduler) {
                let made = facts.of_pod(pod, now);
                facts.remark_pod(pod, &made, &mut news.remarks);
                compare_wishes(&made, &self.pods, &mut self.firsts, &mut news.remarks);
            }
        }
    }
}

/// Whether a pod is the engine's business: it is ours, or it holds room.
fn counts(pod: &PodDraft, scheduler: &str) -> bool {
    pod.ours(scheduler) || pod.stands_on(scheduler).is_some()
}

/// What stands for a creation time that nobody gave: when the object was told first.
fn since(undated: &mut BTreeMap<Text, Time>, created: Option<Time>, uid: &Text, now: Time) -> Time {
    match created {
        Some(created) => created,
        None => *undated.entry(uid.clone()).or_insert(now),
    }
}

/// Holds what a member of a named gang asks for against what another member does.
fn compare_wishes(
    facts: &PodFacts,
    pods: &BTreeMap<Text, Box<PodDraft>>,
    firsts: &mut BTreeMap<(Text, GangKey), (Text, Arc<Wishes>)>,
    remarks: &mut Remarks,
) {
    if !facts.ours || !matches!(facts.gang.key, GangKey::Group(..)) {
        return;
    }
    let gang = (facts.namespace.clone(), facts.gang.key.clone());
    let own = (facts.uid.clone(), facts.wishes.clone());
    match firsts.get(&gang) {
        Some((uid, asked)) if *uid != facts.uid && pods.contains_key(uid) => {
            remarks.gang_asks(gang, asked);
        }
        _ => {
            firsts.insert(gang, own);
        }
    }
}
