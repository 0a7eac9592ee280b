//! Who has reserved which claims, as the API shows it.
//!
//! Problem: a claim keeps its devices for as long as anybody has reserved it who has not ended, be
//! it that one has no place: a pod that waits, of this scheduler or of another, or one that is not
//! known here. Without those who use it the claim is not free, and who leaves for it leaves in
//! vain.
//!
//! Wanted: such a claim comes free for nobody. A pod that has a place may leave with the others; of
//! one that waits here the reservation may go back (`engine/giving_back.rs`). One that has ended is
//! taken off its claims by their controller, a moment later: it stands in nobody's way. A claim
//! that all are about to give back who have reserved it loses its devices: until it shows that,
//! nobody begins to use it.
//!
//! Uids become pods when facts come, in any order: what is asked within searches compares numbers.
//! All of it is facts, which no transaction changes. Cost: a look-up for each fact of a pod while
//! any claim is reserved. Restart: claims and pods show it; of a pod that ended before it only the
//! claim is left to tell, until its controller has looked at that.

use std::collections::{BTreeMap, BTreeSet};

use super::state::Devices;
use crate::model::ids::PodIdx;
use crate::model::input::{ResourceClaimKey, Text};

/// Whom a uid names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserver {
    /// A pod that has not ended.
    Pod(PodIdx),
    /// One that has.
    Ended,
    /// Nobody that is known.
    Unknown,
}

/// Who has reserved one claim.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reservers {
    /// Pods that have not ended.
    pods: BTreeSet<PodIdx>,
    /// Others that are not known, by uid.
    unknown: BTreeSet<Text>,
    /// Pods that have ended, by uid.
    ended: BTreeSet<Text>,
}

/// Who has reserved which claims.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    of: BTreeMap<ResourceClaimKey, Reservers>,
    /// Claims that pods have reserved.
    by_pod: BTreeMap<PodIdx, BTreeSet<ResourceClaimKey>>,
    /// Claims that those have reserved who are not known.
    by_uid: BTreeMap<Text, BTreeSet<ResourceClaimKey>>,
}

impl Reservations {
    /// These have reserved a claim, and nobody else; whether somebody who had not ended no longer
    /// has.
    fn put(
        &mut self,
        key: &ResourceClaimKey,
        uids: &[Text],
        who: impl Fn(&Text) -> Reserver,
    ) -> bool {
        let old = self.of.remove(key).unwrap_or_default();
        old.pods.iter().for_each(|pod| drop_key(&mut self.by_pod, pod, key));
        old.unknown.iter().for_each(|uid| drop_key(&mut self.by_uid, uid, key));
        let mut new = Reservers::default();
        for uid in uids {
            match who(uid) {
                Reserver::Pod(pod) => {
                    new.pods.insert(pod);
                    self.by_pod.entry(pod).or_default().insert(key.clone());
                }
                // It ended when it was known.
                Reserver::Unknown if !old.ended.contains(uid) => {
                    new.unknown.insert(uid.clone());
                    self.by_uid.entry(uid.clone()).or_default().insert(key.clone());
                }
                Reserver::Ended | Reserver::Unknown => _ = new.ended.insert(uid.clone()),
            }
        }
        let fewer = !old.pods.is_subset(&new.pods) || !old.unknown.is_subset(&new.unknown);
        if new != Reservers::default() {
            self.of.insert(key.clone(), new);
        }
        fewer
    }

    /// A pod is known now, or has ended; whether that is news of claims that it has reserved.
    fn tell(&mut self, pod: PodIdx, uid: &Text, ended: bool) -> bool {
        if self.of.is_empty() {
            return false;
        }
        let unknown = self.by_uid.remove(uid).unwrap_or_default();
        let left = if ended { self.by_pod.remove(&pod) } else { None };
        let known = left.unwrap_or_default();
        for key in unknown.iter().chain(&known) {
            let reservers = self.of.get_mut(key).expect("what is reserved is known");
            reservers.unknown.remove(uid);
            reservers.pods.remove(&pod);
            match ended {
                true => _ = reservers.ended.insert(uid.clone()),
                false => {
                    reservers.pods.insert(pod);
                    self.by_pod.entry(pod).or_default().insert(key.clone());
                }
            }
        }
        !unknown.is_empty() || !known.is_empty()
    }

    /// Whether all who have reserved a claim and have not ended are known, and as is asked.
    pub fn all(&self, key: &ResourceClaimKey, is_so: impl Fn(PodIdx) -> bool) -> bool {
        let Some(reservers) = self.of.get(key) else { return true };
        reservers.unknown.is_empty() && reservers.pods.iter().all(|pod| is_so(*pod))
    }

    /// Whether anybody who has reserved a claim, and has not ended, is as is asked.
    fn any(&self, key: &ResourceClaimKey, is_so: impl Fn(PodIdx) -> bool) -> bool {
        self.of.get(key).is_some_and(|reservers| reservers.pods.iter().any(|pod| is_so(*pod)))
    }
}

/// Somebody has not reserved a claim any more.
fn drop_key<K: Ord>(
    claims: &mut BTreeMap<K, BTreeSet<ResourceClaimKey>>,
    of: &K,
    key: &ResourceClaimKey,
) {
    let Some(keys) = claims.get_mut(of) else { return };
    keys.remove(key);
    if keys.is_empty() {
        claims.remove(of);
    }
}

impl Devices {
    /// Notes who has reserved a claim, of which there was a fact; whether somebody who had not
    /// ended no longer has.
    pub(crate) fn note_reserved(
        &mut self,
        key: &ResourceClaimKey,
        who: impl Fn(&Text) -> Reserver,
    ) -> bool {
        let has = self.claims.get(key).and_then(|claim| claim.allocation.as_ref());
        let uids = has.map_or(&[][..], |has| &has.reserved[..]);
        self.reservations.put(key, uids, who)
    }

    /// Notes that a pod is there, or has ended; whether that is news of claims that it has
    /// reserved.
    pub(crate) fn note_reserver(&mut self, pod: PodIdx, uid: &Text, ended: bool) -> bool {
        self.reservations.tell(pod, uid, ended)
    }

    /// Claims that a pod has reserved which pods with a place use, and that nobody else has
    /// reserved but those, and `others`: without these reservations they would come free once all
    /// such pods have left. One of the pods with a place has reserved it: else the claim would lose
    /// its devices with the last reservation, while the pod is still prepared that is to use them.
    pub(crate) fn reserved_beside_users(
        &self,
        pod: PodIdx,
        others: impl Fn(PodIdx) -> bool,
    ) -> Vec<ResourceClaimKey> {
        let keys = self.reservations.by_pod.get(&pod).into_iter().flatten();
        let beside = |key: &&ResourceClaimKey| {
            let goes = |by| others(by) || self.users.is_user(key, by);
            let stays = self.reservations.any(key, |by| self.users.is_user(key, by));
            stays && self.reservations.all(key, goes)
        };
        keys.filter(beside).cloned().collect()
    }

    /// Whether all who have reserved a claim, and have not ended, are known and as is asked.
    pub(crate) fn reserved_by_such(
        &self,
        key: &ResourceClaimKey,
        is_so: impl Fn(PodIdx) -> bool,
    ) -> bool {
        self.reservations.all(key, is_so)
    }

    /// Pods that have reserved a claim and have not ended, those that are known.
    pub(crate) fn reservers(&self, key: &ResourceClaimKey) -> impl Iterator<Item = PodIdx> {
        self.reservations.of.get(key).into_iter().flat_map(|of| of.pods.iter().copied())
    }

    /// Claims that lose their devices before long.
    pub(crate) fn losing(&self) -> &BTreeSet<ResourceClaimKey> {
        &self.losing
    }

    /// These are all of them now.
    pub(crate) fn lose(&mut self, keys: BTreeSet<ResourceClaimKey>) {
        self.losing = keys;
    }

    /// Whether any claim is reserved.
    pub(crate) fn any_reserved(&self) -> bool {
        !self.reservations.of.is_empty()
    }

    /// Compares who has reserved claims with what facts say.
    ///
    /// # Panics
    /// When they differ.
    pub(crate) fn recount_reserved(&self, who: impl Fn(&Text) -> Reserver) {
        let none = Reservers::default();
        for claim in self.claims.values() {
            let Some(has) = &claim.allocation else { continue };
            let known = self.reservations.of.get(&claim.key).unwrap_or(&none);
            let count = known.pods.len() + known.unknown.len() + known.ended.len();
            let uids: BTreeSet<&Text> = has.reserved.iter().collect();
            assert_eq!(count, uids.len(), "who has reserved {}", claim.key.1);
            for uid in uids {
                let is_so = match who(uid) {
                    Reserver::Pod(pod) => known.pods.contains(&pod),
                    Reserver::Ended => known.ended.contains(uid),
                    Reserver::Unknown => known.unknown.contains(uid) || known.ended.contains(uid),
                };
                assert!(is_so, "{uid} has reserved {}", claim.key.1);
            }
        }
        let pods = self.reservations.of.iter();
        let pods = pods.flat_map(|(key, of)| of.pods.iter().map(move |pod| (*pod, key)));
        let mut by_pod: BTreeMap<PodIdx, BTreeSet<ResourceClaimKey>> = BTreeMap::new();
        pods.for_each(|(pod, key)| _ = by_pod.entry(pod).or_default().insert(key.clone()));
        assert_eq!(self.reservations.by_pod, by_pod, "claims that pods have reserved");
    }
}
