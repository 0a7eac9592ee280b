//! Who uses which claims, and what comes free with whom.
//!
//! An allocated claim keeps its devices until nobody uses it any more; its controller takes them
//! back then. Who looks for victims asks what would be free without them: a pod *goes* within a
//! transaction, and *returns* when that is taken back. A claim is as good as free once all its
//! users have gone so. A pod whose end is a fact has left: its claims stay what the API shows, and
//! come free when it shows that.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ids::PodIdx;
use crate::model::input::ResourceClaimKey;

/// Users of claims.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// Pods with a place, by claims that others may use too.
    of: BTreeMap<ResourceClaimKey, BTreeSet<PodIdx>>,
    /// Pods that have gone within the transaction, by any claim of theirs.
    gone: BTreeMap<ResourceClaimKey, BTreeSet<PodIdx>>,
}

impl Users {
    /// A pod with a place uses a claim.
    pub fn join(&mut self, key: &ResourceClaimKey, pod: PodIdx) {
        self.of.entry(key.clone()).or_default().insert(pod);
    }

    /// A pod has its place no more.
    pub fn leave(&mut self, key: &ResourceClaimKey, pod: PodIdx) {
        take(&mut self.of, key, pod);
    }

    /// A pod goes, as far as a transaction is concerned.
    pub fn go(&mut self, key: &ResourceClaimKey, pod: PodIdx) {
        self.gone.entry(key.clone()).or_default().insert(pod);
    }

    /// It does not after all.
    pub fn come_back(&mut self, key: &ResourceClaimKey, pod: PodIdx) {
        take(&mut self.gone, key, pod);
    }

    /// Whether a pod with a place uses a claim.
    pub fn any(&self, key: &ResourceClaimKey) -> bool {
        self.of.contains_key(key)
    }

    /// Whether all who use a claim have gone.
    pub fn all_gone(&self, key: &ResourceClaimKey) -> bool {
        let Some(gone) = self.gone.get(key) else { return false };
        self.of.get(key).is_none_or(|users| users.is_subset(gone))
    }

    /// Claims that somebody who has gone uses, in order.
    pub fn left_behind(&self) -> impl Iterator<Item = &ResourceClaimKey> {
        self.gone.keys()
    }

    /// Compares users with those that pods with a place make; nobody is on the way.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, placed: impl Iterator<Item = (ResourceClaimKey, PodIdx)>) {
        let mut anew: BTreeMap<ResourceClaimKey, BTreeSet<PodIdx>> = BTreeMap::new();
        placed.for_each(|(key, pod)| _ = anew.entry(key).or_default().insert(pod));
        assert_eq!(self.of, anew, "users of claims");
        assert!(self.gone.is_empty(), "a pod with devices was removed for good by a decision");
    }
}

fn take(
    users: &mut BTreeMap<ResourceClaimKey, BTreeSet<PodIdx>>,
    key: &ResourceClaimKey,
    pod: PodIdx,
) {
    let of = users.get_mut(key).expect("it was put there");
    assert!(of.remove(&pod), "it was put there");
    if of.is_empty() {
        users.remove(key);
    }
}
