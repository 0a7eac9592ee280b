//! Whom a change of an owner concerns.
//!
//! Decides that an owner is known by its name before it is there: what names it hears of it when
//! it comes. Owners of kinds that are never watched have nobody below them here.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::Text;

use crate::convert::directory::{OWNERS_MAX, OwnerKey};
use crate::convert::marks::{OwnerName, owner_group};

/// What each owner owns directly.
#[derive(Debug, Default)]
pub struct Below {
    owners: BTreeMap<OwnerKey, Owned>,
    /// Gangs by the owners that they are named for.
    named: BTreeMap<OwnerKey, OwnerKey>,
}

/// What one owner owns.
#[derive(Debug, Default)]
pub struct Owned {
    /// Uids of pods.
    pub pods: BTreeSet<Text>,
    /// Owners.
    pub owners: BTreeSet<OwnerKey>,
}

impl Owned {
    fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.owners.is_empty()
    }
}

impl Below {
    /// A pod names an owner.
    pub fn add_pod(&mut self, namespace: &Text, owner: Option<&OwnerName>, uid: &Text) {
        if let Some(key) = key(namespace, owner) {
            self.owners.entry(key).or_default().pods.insert(uid.clone());
        }
    }

    /// A pod names an owner no more.
    pub fn remove_pod(&mut self, namespace: &Text, owner: Option<&OwnerName>, uid: &Text) {
        self.change(namespace, owner, |owned| owned.pods.remove(uid));
    }

    /// A pod names an object that is not its owner.
    pub fn add_named(&mut self, named: OwnerKey, uid: &Text) {
        self.owners.entry(named).or_default().pods.insert(uid.clone());
    }

    /// A pod names an object no more.
    pub fn remove_named(&mut self, named: &OwnerKey, uid: &Text) {
        self.change_at(named, |owned| owned.pods.remove(uid));
    }

    /// The pods of an owner will be in this gang, which it does not own.
    pub fn name(&mut self, own: &OwnerKey, gang: Option<OwnerKey>) {
        if self.named.get(own) == gang.as_ref() {
            return;
        }
        if let Some(before) = self.named.remove(own) {
            self.change_at(&before, |owned| owned.owners.remove(own));
        }
        if let Some(gang) = gang {
            self.owners.entry(gang.clone()).or_default().owners.insert(own.clone());
            self.named.insert(own.clone(), gang);
        }
    }

    /// An owner names one above it.
    pub fn add_owner(&mut self, owner: Option<&OwnerName>, own: &OwnerKey) {
        if let Some(key) = key(&own.1, owner) {
            self.owners.entry(key).or_default().owners.insert(own.clone());
        }
    }

    /// An owner names one above it no more.
    pub fn remove_owner(&mut self, owner: Option<&OwnerName>, own: &OwnerKey) {
        self.change(&own.1, owner, |owned| owned.owners.remove(own));
    }

    /// What an owner owns directly.
    pub fn of(&self, key: &OwnerKey) -> Option<&Owned> {
        self.owners.get(key)
    }

    /// All that looks at an owner, directly or through others: pods and owners.
    pub fn all(&self, key: &OwnerKey) -> Owned {
        let mut all = Owned::default();
        let mut level = BTreeSet::from([key.clone()]);
        for _ in 0..OWNERS_MAX {
            let mut next = BTreeSet::new();
            for owned in level.iter().filter_map(|key| self.owners.get(key)) {
                all.pods.extend(owned.pods.iter().cloned());
                next.extend(owned.owners.iter().cloned());
            }
            all.owners.extend(next.iter().cloned());
            level = next;
        }
        all
    }

    fn change(
        &mut self,
        namespace: &Text,
        owner: Option<&OwnerName>,
        remove: impl FnOnce(&mut Owned) -> bool,
    ) {
        if let Some(key) = key(namespace, owner) {
            self.change_at(&key, remove);
        }
    }

    fn change_at(&mut self, key: &OwnerKey, remove: impl FnOnce(&mut Owned) -> bool) {
        let Some(owned) = self.owners.get_mut(key) else { return };
        remove(owned);
        if owned.is_empty() {
            self.owners.remove(key);
        }
    }
}

fn key(namespace: &Text, owner: Option<&OwnerName>) -> Option<OwnerKey> {
    let owner = owner.filter(|owner| owner_group(&owner.kind).is_some())?;
    Some(owner.key(namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: &str, name: &str) -> OwnerName {
        OwnerName { kind: kind.into(), name: name.into(), uid: "".into() }
    }

    fn at(kind: &str, name: &str) -> OwnerKey {
        (kind.into(), "ns".into(), name.into())
    }

    #[test]
    fn a_change_concerns_all_levels_and_ends_where_owners_go_round() {
        let mut below = Below::default();
        let namespace = "ns".into();
        below.add_pod(&namespace, Some(&named("ReplicaSet", "r")), &"p".into());
        below.add_pod(&namespace, Some(&named("DaemonSet", "d")), &"q".into());
        below.add_owner(Some(&named("Deployment", "d")), &at("ReplicaSet", "r"));
        below.add_owner(Some(&named("ReplicaSet", "r")), &at("Deployment", "d"));
        let all = below.all(&at("Deployment", "d"));
        assert_eq!(all.pods, BTreeSet::from(["p".into()]));
        assert_eq!(all.owners.len(), 2);
        assert!(below.all(&at("DaemonSet", "d")).is_empty());
    }

    #[test]
    fn nothing_is_kept_of_what_is_gone() {
        let mut below = Below::default();
        let (namespace, owner) = ("ns".into(), named("Job", "j"));
        below.add_pod(&namespace, Some(&owner), &"p".into());
        below.add_owner(Some(&owner), &at("Job", "k"));
        below.remove_pod(&namespace, Some(&owner), &"p".into());
        below.remove_owner(Some(&owner), &at("Job", "k"));
        assert!(below.owners.is_empty());
    }

    #[test]
    fn a_gang_concerns_the_owner_that_names_it_until_it_names_another() {
        let mut below = Below::default();
        let (own, one, other) = (at("Job", "j"), at("gang", "g"), at("gang", "h"));
        let concerns =
            |below: &Below, gang: &OwnerKey| below.all(gang).owners.contains(&at("Job", "j"));
        below.name(&own, Some(one.clone()));
        assert!(concerns(&below, &one));
        below.name(&own, Some(other.clone()));
        assert!(!concerns(&below, &one) && concerns(&below, &other));
        below.name(&own, None);
        assert!(below.owners.is_empty() && below.named.is_empty());
    }
}
