//! What has a say in the facts of pods and Jobs: who owns them, which classes exist, which
//! namespaces have a default queue.
//!
//! Decides which owner a reference means and how far up owners are looked at. Knows what it was
//! told and nothing of where that came from: files and watches fill the same directory.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::{PodShape, Text};

use super::devices::DeviceDirectory;
use super::gathered::{OwnerDraft, PriorityClassDraft};
use super::job::JobDraft;
use super::marks::{Marks, OWNER_KINDS, OwnerName};
use super::neighbours::Relevance;
use super::remarks::Known;
use super::runtime::RuntimeClassDraft;

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
    /// Labels of pods that selectors of others read.
    pub relevance: Relevance,
    /// Owners.
    pub owners: BTreeMap<OwnerKey, Owner>,
    /// Devices, and claims on them.
    pub devices: DeviceDirectory,
    /// All owners of the kinds that are read are told of; an owner that is not here is gone or
    /// comes later. Else (in files) it may be left out.
    pub whole: bool,
}

/// An owner whose labels count for what it owns.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    /// A Job, which is a gang of its own as well.
    Job(Box<JobDraft>),
    /// Any other.
    Other(Box<OwnerDraft>),
}

impl Directory {
    /// A pod, or a template of a Job, was seen; whether more labels of others are read now.
    pub fn meet(&mut self, shape: &PodShape, scheduler: Option<&str>) -> bool {
        self.relevance.meet(shape, scheduler == Some(&*self.scheduler))
    }
}

impl Owner {
    /// Kind, namespace and name.
    pub fn key(&self) -> OwnerKey {
        match self {
            Owner::Job(job) => ("Job".into(), job.namespace.clone(), job.name.clone()),
            Owner::Other(other) => {
                (other.kind.clone(), other.namespace.clone(), other.name.clone())
            }
        }
    }

    /// Unique id.
    pub fn uid(&self) -> &Text {
        match self {
            Owner::Job(job) => &job.uid,
            Owner::Other(owner) => &owner.uid,
        }
    }

    /// Namespace.
    pub fn namespace(&self) -> &Text {
        match self {
            Owner::Job(job) => &job.namespace,
            Owner::Other(owner) => &owner.namespace,
        }
    }

    /// Our labels and annotations on it.
    pub fn marks(&self) -> &Marks {
        match self {
            Owner::Job(job) => &job.marks,
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
            Owner::Other(owner) => owner.owner.as_ref(),
        }
    }

    /// The Job that it is.
    pub fn job(&self) -> Option<&JobDraft> {
        match self {
            Owner::Job(job) => Some(job),
            Owner::Other(_) => None,
        }
    }

    /// Whether what it owns would notice no difference if it became the other.
    pub fn same_below(&self, other: &Owner) -> bool {
        match (self, other) {
            (Owner::Job(one), Owner::Job(other)) => one.same_below(other),
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
        named.filter(|it| self.whole && OWNER_KINDS.iter().any(|(kind, _)| *kind == &*it.kind))
    }

    /// The owner that is meant: same name and, where both say it, same uid.
    fn find(&self, namespace: &Text, name: &OwnerName) -> Option<&Owner> {
        let owner = self.owners.get(&name.key(namespace))?;
        let same = name.uid.is_empty() || name.uid == *owner.uid() || made_up(owner.uid());
        same.then_some(owner)
    }
}

impl OwnerName {
    /// Where the directory has the owner that is named.
    pub fn key(&self, namespace: &Text) -> OwnerKey {
        (self.kind.clone(), namespace.clone(), self.name.clone())
    }
}

/// Whether we made the uid up, so that a reference cannot know it.
fn made_up(uid: &str) -> bool {
    uid.contains('/')
}
