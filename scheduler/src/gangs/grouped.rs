//! Pods of an owner that are members of another gang than its own, by the roles that they are of.
//!
//! Problem: an operator puts the pods of an owner into a PodGroup as it makes them (KubeRay those
//! of a cluster), and not all of them: what submits a RayJob is outside of it. Templates may name
//! a group for one role only. Those that are left are a gang as well, of the owner; one that waited
//! for members which are in another would never start.
//!
//! Decides of which roles pods are in another gang: those whose template names one
//! ([`super::owner::Gang::is_elsewhere`]), which holds before any pod is there, and those of which
//! such pods are there. That a PodGroup is owned by the owner tells nothing: it does not say which
//! roles are in it. Of an application of Spark nobody knows templates, and those of a
//! LeaderWorkerSet may be others than a group of it was made of, which has its leader and its
//! workers for roles: their pods tell.
//!
//! What is seen of one pod of a role is taken to be so of all: they are made by one template, and
//! by one operator. A pod that is lost and made again changes nothing then.
//!
//! Cost: an entry for each such pod, none for pods whose gang is their owner's.

use std::collections::BTreeMap;

use capstan_core::model::input::Text;

use super::owner::Gang;
use super::{lws, spark};
use crate::convert::directory::{Directory, OwnerKey};
use crate::convert::pod::PodDraft;

/// Pods of owners that are members of another gang than their owner's.
#[derive(Debug, Default)]
pub struct Grouped {
    /// The owner, by uid, and the role of each such pod, by uid.
    pods: BTreeMap<Text, (Text, Text)>,
    /// Their owners, by uid.
    owners: BTreeMap<Text, Parts>,
}

/// The roles of an owner of which pods are in another gang.
#[derive(Debug)]
struct Parts {
    /// What its other pods, and its facts, are told again with.
    key: OwnerKey,
    /// Such pods of each role.
    roles: BTreeMap<Text, u32>,
}

/// The part of an owner's work that a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What its other pods, and its facts, are told again with.
    pub key: OwnerKey,
    /// The owner, by uid.
    pub owner: Text,
    /// The role.
    pub role: Text,
}

impl Grouped {
    /// Roles of the owner of this uid of which pods are in another gang, with how many.
    pub fn roles(&self, owner: &Text) -> Option<&BTreeMap<Text, u32>> {
        self.owners.get(owner).map(|parts| &parts.roles)
    }

    /// Whether a pod is counted as this part, or as none.
    pub fn counts(&self, pod: &Text, part: Option<&Part>) -> bool {
        let known = self.pods.get(pod).map(|(owner, role)| (owner, role));
        known == part.map(|part| (&part.owner, &part.role))
    }

    /// A pod of another gang is there; whom that concerns, if it is the first of its role.
    pub fn add(&mut self, pod: &Text, part: Part) -> Option<OwnerKey> {
        let Part { key, owner, role } = part;
        self.pods.insert(pod.clone(), (owner.clone(), role.clone()));
        let roles = BTreeMap::new();
        let parts = self.owners.entry(owner).or_insert_with(|| Parts { key, roles });
        let count = parts.roles.entry(role).or_default();
        *count += 1;
        let first = *count == 1;
        first.then(|| parts.key.clone())
    }

    /// It is there no more; whom that concerns, if it was the last of its role.
    pub fn remove(&mut self, pod: &Text) -> Option<OwnerKey> {
        let (owner, role) = self.pods.remove(pod)?;
        let parts = self.owners.get_mut(&owner)?;
        let count = parts.roles.get_mut(&role)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        parts.roles.remove(&role);
        let (key, none) = (parts.key.clone(), parts.roles.is_empty());
        if none {
            self.owners.remove(&owner);
        }
        Some(key)
    }
}

/// The part of an owner's work that a pod is which is a member of another gang, this one, as far as
/// its role is known.
pub fn part_of(pod: &PodDraft, gang: &OwnerKey, directory: &Directory) -> Option<Part> {
    if let Some(part) = lws::part_of(&pod.marks, &pod.namespace) {
        // Its group is a gang that it names as well.
        return (part.key != *gang).then_some(part);
    }
    if let Some(part) = spark::part_of(&pod.marks, &pod.namespace) {
        return Some(part);
    }
    let above = directory.above(&pod.namespace, pod.owner.as_deref());
    let gang = Gang::above(&above, directory)?;
    let of_job = pod.owner.as_deref().is_some_and(|owner| &*owner.kind == "Job");
    let role = gang.role_of(&pod.labels, of_job)?;
    let top = gang.top;
    Some(Part {
        key: (top.kind.row().key.into(), top.namespace.clone(), top.name.clone()),
        owner: top.uid.clone(),
        role: role.name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_pod_of_a_role_concern_its_owner() {
        let key: OwnerKey = ("RayJob".into(), "ns".into(), "r".into());
        let part = |role: &str| Part { key: key.clone(), owner: "u".into(), role: role.into() };
        let mut grouped = Grouped::default();
        let (p, q, r): (Text, Text, Text) = ("p".into(), "q".into(), "r".into());
        assert_eq!(grouped.add(&p, part("w")), Some(key.clone()));
        assert_eq!(grouped.add(&q, part("w")), None);
        assert_eq!(grouped.add(&r, part("head")), Some(key.clone()));
        let known = grouped.roles(&"u".into()).expect("an owner");
        assert_eq!(known, &BTreeMap::from([("head".into(), 1), ("w".into(), 2)]));
        assert!(grouped.counts(&p, Some(&part("w"))) && !grouped.counts(&p, None));
        assert!(!grouped.counts(&p, Some(&part("head"))) && grouped.counts(&"x".into(), None));
        assert_eq!([grouped.remove(&p), grouped.remove(&p)], [None, None]);
        assert_eq!(grouped.remove(&q), Some(key.clone()));
        assert_eq!(grouped.remove(&r), Some(key));
        assert!(grouped.pods.is_empty() && grouped.owners.is_empty());
    }
}
