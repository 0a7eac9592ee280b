//! What has a say in the facts of pods and Jobs: who owns them, which classes exist, which
//! namespaces have a default queue.
//!
//! Decides which owner a reference means and how far up owners are looked at. Knows what it was
//! told and nothing of where that came from: files and watches fill the same directory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{PodShape, Text};
use capstan_core::time::Time;

use super::budget::Guards;
use super::devices::{DeviceDirectory, PodClaimDraft};
use super::gang::GangDraft;
use super::gathered::{OwnerDraft, PriorityClassDraft};
use super::group::GroupDraft;
use super::job::JobDraft;
use super::marks::{Marks, OwnerName, owner_group};
use super::neighbours::Relevance;
use super::pod::PodDraft;
use super::ranges::LimitRanges;
use super::ranks::Ranked;
use super::remarks::Known;
use super::runtime::{Runtime, RuntimeClassDraft};
use crate::gangs::grouped::Grouped;
use crate::gangs::kinds::Kind;
use crate::gangs::upstream;

/// Owners looked at above a pod: ReplicaSet and Deployment, with room to spare.
pub const OWNERS_MAX: usize = 4;

/// Kind, namespace and name of an owner.
pub type OwnerKey = (Text, Text, Text);

/// Owners by kind, namespace and name, and what else counts for others.
#[derive(Debug, Default)]
pub struct Directory {
    /// Pods of this `schedulerName` are ours.
    pub scheduler: Text,
    /// Namespaces with a LocalQueue called `default`.
    pub default_queues: BTreeSet<Text>,
    /// PriorityClasses by name.
    pub classes: BTreeMap<Text, PriorityClassDraft>,
    /// RuntimeClasses by name.
    pub runtimes: BTreeMap<Text, RuntimeClassDraft>,
    /// LimitRanges.
    pub ranges: LimitRanges,
    /// Labels of pods that selectors of others read.
    pub relevance: Relevance,
    /// Which pods PodDisruptionBudgets mean.
    pub guards: Guards,
    /// Owners.
    pub owners: BTreeMap<OwnerKey, Owner>,
    /// Devices, and claims on them.
    pub devices: DeviceDirectory,
    /// All owners of the kinds that are read are told of; an owner that is not here is gone or
    /// comes later. Else (in files) it may be left out.
    pub whole: bool,
    /// Pods of each PodGroup, and of each gang that its members or their owners name, by who
    /// schedules them.
    pub cast: BTreeMap<OwnerKey, BTreeMap<Option<Text>, u32>>,
    /// Pods of each PodGroup of Kubernetes that preempt others and, after those, that never do, as
    /// they say it.
    pub preempting: BTreeMap<OwnerKey, [u32; 2]>,
    /// Pods of a gang which their owners name, not they: which.
    pub named_above: BTreeMap<Text, OwnerKey>,
    /// Pods of owners that are in another gang than their owner's.
    pub grouped: Grouped,
}

/// An owner whose labels count for what it owns.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    /// A Job, which is a gang of its own as well.
    Job(Box<JobDraft>),
    /// An owner of another project that is a gang of its own as well.
    Gang(Box<GangDraft>),
    /// A PodGroup, which owns nothing; its members look at it as at an owner.
    Group(Box<GroupDraft>),
    /// Any other.
    Other(Box<OwnerDraft>),
}

impl Directory {
    /// A template was seen; whether more labels of others are read now.
    pub fn meet(&mut self, shape: &PodShape, scheduler: Option<&str>) -> bool {
        scheduler == Some(&*self.scheduler) && self.relevance.meet(shape, true)
    }

    /// The same of a pod. What one of another scheduler wants of those around it is not ours to see
    /// to, and what it wants of who comes matters once it stands somewhere.
    pub fn meet_pod(&mut self, pod: &PodDraft) -> bool {
        let ours = pod.ours(&self.scheduler);
        let counts = ours || pod.stands_on(&self.scheduler).is_some();
        counts && self.relevance.meet(&pod.shape, ours)
    }
}

impl Owner {
    /// Kind, namespace and name.
    pub fn key(&self) -> OwnerKey {
        match self {
            Owner::Job(job) => ("Job".into(), job.namespace.clone(), job.name.clone()),
            Owner::Gang(it) => (it.kind.row().key.into(), it.namespace.clone(), it.name.clone()),
            Owner::Group(it) => (it.kind.row().key.into(), it.namespace.clone(), it.name.clone()),
            Owner::Other(other) => {
                (other.kind.clone(), other.namespace.clone(), other.name.clone())
            }
        }
    }

    /// Unique id.
    pub fn uid(&self) -> &Text {
        match self {
            Owner::Job(job) => &job.uid,
            Owner::Gang(gang) => &gang.uid,
            Owner::Group(group) => &group.uid,
            Owner::Other(owner) => &owner.uid,
        }
    }

    /// Namespace.
    pub fn namespace(&self) -> &Text {
        match self {
            Owner::Job(job) => &job.namespace,
            Owner::Gang(gang) => &gang.namespace,
            Owner::Group(group) => &group.namespace,
            Owner::Other(owner) => &owner.namespace,
        }
    }

    /// Our labels and annotations on it.
    pub fn marks(&self) -> &Marks {
        match self {
            Owner::Job(job) => &job.marks,
            Owner::Gang(gang) => &gang.marks,
            Owner::Group(group) => &group.marks,
            Owner::Other(owner) => &owner.marks,
        }
    }

    /// How remarks know it.
    pub fn known(&self) -> Known<'_> {
        match self {
            Owner::Job(job) => {
                let marks = [Some(&*job.template), Some(&*job.marks)];
                Known { kind: "Job", name: &job.name, marks }
            }
            Owner::Gang(gang) => {
                let template = gang.says.roles.first().map(|role| &*role.template);
                let marks = [template, Some(&*gang.marks)];
                Known { kind: gang.kind.row().name, name: &gang.name, marks }
            }
            Owner::Group(group) => {
                let marks = [None, Some(&*group.marks)];
                Known { kind: group.kind.row().name, name: &group.name, marks }
            }
            Owner::Other(other) => {
                let marks = [Some(&*other.template), Some(&*other.marks)];
                Known { kind: &other.kind, name: &other.name, marks }
            }
        }
    }

    /// Who owns it.
    pub fn owner(&self) -> Option<&OwnerName> {
        match self {
            Owner::Job(job) => job.owner.as_ref(),
            Owner::Gang(gang) => gang.owner.as_ref(),
            Owner::Group(group) => group.owner.as_ref(),
            Owner::Other(owner) => owner.owner.as_ref(),
        }
    }

    /// The Job that it is.
    pub fn job(&self) -> Option<&JobDraft> {
        match self {
            Owner::Job(job) => Some(job),
            _ => None,
        }
    }

    /// The gang of another project that it is.
    pub fn gang(&self) -> Option<&GangDraft> {
        match self {
            Owner::Gang(gang) => Some(gang),
            _ => None,
        }
    }

    /// Claims on devices of the pods that it makes.
    pub fn claims(&self) -> Vec<&[PodClaimDraft]> {
        let drafts: Vec<&Option<Arc<Vec<PodClaimDraft>>>> = match self {
            Owner::Job(job) => vec![&job.claims],
            Owner::Gang(gang) => gang.templates().map(|role| &role.claims).collect(),
            Owner::Group(_) | Owner::Other(_) => Vec::new(),
        };
        drafts.into_iter().flatten().map(|all| all.as_slice()).collect()
    }

    /// The PodGroup that it is.
    pub fn group(&self) -> Option<&GroupDraft> {
        match self {
            Owner::Group(group) => Some(group),
            _ => None,
        }
    }

    /// Creation time, if given, of one that may have facts of its own.
    pub fn created(&self) -> Option<Time> {
        match self {
            Owner::Job(job) => job.created,
            Owner::Gang(gang) => gang.created,
            Owner::Group(_) | Owner::Other(_) => None,
        }
    }

    /// Whether it may have facts of its own.
    pub fn runs(&self) -> bool {
        matches!(self, Owner::Job(_) | Owner::Gang(_))
    }

    /// How its pods are ranked, each role by itself.
    pub fn ranked(&self) -> impl Iterator<Item = &Ranked> {
        let job = self.job().map(|job| &job.ranked);
        let roles = self.gang().into_iter().flat_map(|gang| &gang.says.roles);
        job.into_iter().chain(roles.map(|role| &role.ranked))
    }

    /// Shapes of its pods, and who schedules them.
    pub fn shapes(&self) -> impl Iterator<Item = (&Arc<PodShape>, Option<&str>)> {
        let job = self.job().map(|job| (&job.shape, job.scheduler.as_deref()));
        let roles = self.gang().into_iter().flat_map(|gang| {
            let of_all = gang.says.scheduler.as_deref();
            gang.templates().map(move |role| (role, role.scheduler.as_deref().or(of_all)))
        });
        let roles = roles.flat_map(|(role, scheduler)| {
            let apart = role.apart.iter().map(|job| &job.shape);
            let shapes = std::iter::once(&role.shape).chain(apart);
            shapes.map(move |shape| (shape, scheduler))
        });
        let workers = self.gang().and_then(|gang| gang.says.worker.as_deref());
        let example = workers.and_then(|workers| {
            Some((workers.example.as_ref()?, workers.role.scheduler.as_deref()))
        });
        job.into_iter().chain(roles).chain(example)
    }

    /// RuntimeClasses of its pods.
    pub fn runtimes(&self) -> impl Iterator<Item = &Runtime> {
        let job = self.job().and_then(|job| job.runtime.as_deref());
        let roles = self.gang().into_iter().flat_map(GangDraft::templates);
        job.into_iter().chain(roles.filter_map(|role| role.runtime.as_deref()))
    }

    /// Whether all its pods are known to name this scheduler, before there is any.
    pub fn names(&self, scheduler: &str) -> bool {
        match self {
            Owner::Job(job) => job.ours(scheduler),
            Owner::Gang(gang) => gang.names(scheduler),
            Owner::Group(_) | Owner::Other(_) => false,
        }
    }

    /// Whether its pods may be ranked by a PriorityClass that is looked up, or the default one.
    pub fn names_class(&self) -> bool {
        let group = self.group().is_some_and(|group| {
            group.says.class.is_some()
                || (upstream::compares(group) && group.says.priority.is_none())
        });
        let gang = self.gang().is_some_and(|gang| gang.says.class.is_some());
        group || gang
    }

    /// Whether what it owns would notice no difference if it became the other; who we are.
    pub fn same_below(&self, other: &Owner, scheduler: &str) -> bool {
        match (self, other) {
            (Owner::Job(one), Owner::Job(other)) => one.same_below(other),
            (Owner::Gang(one), Owner::Gang(other)) => one.same_below(other, scheduler),
            (Owner::Group(one), Owner::Group(other)) => one.same_below(other),
            (one, other) => one == other,
        }
    }
}

impl Directory {
    /// Puts an owner under its name; the one that was there before comes back.
    pub fn put(&mut self, owner: Owner) -> Option<Owner> {
        self.owners.insert(owner.key(), owner)
    }

    /// Owners from the nearest up.
    pub fn above(&self, namespace: &Text, first: Option<&OwnerName>) -> Vec<&Owner> {
        let mut chain = Vec::new();
        let mut next = first.and_then(|name| self.find(namespace, name));
        while let Some(owner) = next {
            chain.push(owner);
            if chain.len() == OWNERS_MAX {
                break;
            }
            next = owner.owner().and_then(|name| self.find(namespace, name));
        }
        chain
    }

    /// The first owner from the nearest up that should be known and is not.
    pub fn unknown<'a>(
        &'a self,
        first: Option<&'a OwnerName>,
        above: &[&'a Owner],
    ) -> Option<&'a OwnerName> {
        let named = match above.last() {
            Some(_) if above.len() == OWNERS_MAX => None,
            Some(last) => last.owner(),
            None => first,
        };
        named.filter(|it| self.whole && owner_group(&it.kind).is_some())
    }

    /// The PodGroup at a key.
    pub fn group(&self, key: &OwnerKey) -> Option<&GroupDraft> {
        self.owners.get(key)?.group()
    }

    /// Notes that a pod is there, as far as it names its gang; `true`: who schedules the members
    /// of that is not what it was, or whether all of them preempt others or none does.
    pub fn enlist(&mut self, group: &OwnerKey, pod: &PodDraft) -> bool {
        let cast = self.cast.entry(group.clone()).or_default();
        let count = cast.entry(pod.scheduler.clone()).or_default();
        *count += 1;
        let mixed = cast.len() > 1;
        self.count_preempting(group, pod, 1) || mixed
    }

    /// Notes that a pod is there no more; see [`Directory::enlist`].
    pub fn dismiss(&mut self, group: &OwnerKey, pod: &PodDraft) -> bool {
        let Some(cast) = self.cast.get_mut(group) else { return false };
        let mixed = cast.len() > 1;
        if let Some(count) = cast.get_mut(&pod.scheduler) {
            *count -= 1;
            if *count == 0 {
                cast.remove(&pod.scheduler);
            }
        }
        if cast.is_empty() {
            self.cast.remove(group);
        }
        self.count_preempting(group, pod, -1) || mixed
    }

    /// Counts a pod of a PodGroup of Kubernetes by what it says of preempting others; whether such
    /// pods begin or cease to be unlike each other.
    fn count_preempting(&mut self, group: &OwnerKey, pod: &PodDraft, by: i32) -> bool {
        let of_kubernetes = *group.0 == *Kind::UpstreamGroup.row().key;
        let alive = of_kubernetes && !pod.phase.terminal();
        let Some(never) = pod.ranked.never_preempts.filter(|_| alive) else { return false };
        let counts = self.preempting.entry(group.clone()).or_default();
        let unlike = |counts: &[u32; 2]| counts.iter().all(|count| *count > 0);
        let before = unlike(counts);
        let count = &mut counts[usize::from(never)];
        *count = count.saturating_add_signed(by);
        let after = unlike(counts);
        if *counts == [0, 0] {
            self.preempting.remove(group);
        }
        before != after
    }

    /// Whether any pod of a PodGroup of Kubernetes says that it never preempts others, or does.
    pub fn has_preempting(&self, group: &OwnerKey, never: bool) -> bool {
        self.preempting.get(group).is_some_and(|counts| counts[usize::from(never)] > 0)
    }

    /// Members of such a gang of ours that name another scheduler. A group that is all another's
    /// is none of ours: its members are not counted anew with each that comes.
    pub fn foreign(&self, group: &OwnerKey) -> u32 {
        let Some(cast) = self.cast.get(group) else { return 0 };
        let ours = |name: &Option<Text>| name.as_deref() == Some(&*self.scheduler);
        if !cast.keys().any(ours) {
            return 0;
        }
        cast.iter().filter(|(name, _)| !ours(name)).map(|(_, count)| *count).sum()
    }

    /// Members of such a gang that name this scheduler.
    pub fn ours_in(&self, group: &OwnerKey) -> u32 {
        let cast = self.cast.get(group);
        let ours = cast.and_then(|cast| cast.get(&Some(self.scheduler.clone())));
        ours.copied().unwrap_or(0)
    }

    /// The owner that is meant: same name and, where both say it, same uid.
    fn find(&self, namespace: &Text, name: &OwnerName) -> Option<&Owner> {
        let owner = self.owners.get(&name.key(namespace))?;
        name.means(owner.uid()).then_some(owner)
    }
}

impl OwnerName {
    /// Whether the owner of this uid is meant, as far as both say one.
    pub fn means(&self, uid: &str) -> bool {
        self.uid.is_empty() || *self.uid == *uid || made_up(uid)
    }

    /// Where the directory has the owner that is named.
    pub fn key(&self, namespace: &Text) -> OwnerKey {
        (self.kind.clone(), namespace.clone(), self.name.clone())
    }
}

/// Whether we made the uid up, so that a reference cannot know it.
fn made_up(uid: &str) -> bool {
    uid.contains('/')
}
