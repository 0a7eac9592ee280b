//! Who uses which claims, and what comes free with whom.
//!
//! An allocated claim keeps its devices until nobody uses it any more; its controller takes them
//! back then. Who looks for victims asks what would be free without them: a pod *goes* within a
//! transaction, and *returns* when that is taken back. A claim is as good as free once all its
//! users have gone so, with everybody else who has reserved it (`reserved.rs`): whoever names it
//! may get others for it, and is no user of what it had. A pod whose end is a fact has left: its
//! claims stay what the API shows, and come free when it shows that. Until then nobody begins to
//! use what comes free for somebody: whoever is made in the stead of a victim would keep it, and be
//! stopped in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::{Concerns, Devices};
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{
    AllocatedDevice, Allocation, PodClaim, PodShape, Readiness, ResourceClaimFacts,
    ResourceClaimKey,
};
use crate::plan::Chosen;

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

    /// Whether this pod, which has a place, uses a claim.
    pub fn is_user(&self, key: &ResourceClaimKey, pod: PodIdx) -> bool {
        self.of.get(key).is_some_and(|users| users.contains(&pod))
    }

    /// Whether a pod has gone that had a claim.
    fn is_gone(&self, key: &ResourceClaimKey, pod: PodIdx) -> bool {
        self.gone.get(key).is_some_and(|gone| gone.contains(&pod))
    }

    /// Whether all who use a claim have gone, but for these.
    fn all_gone(&self, key: &ResourceClaimKey, but: Option<&BTreeSet<PodIdx>>) -> bool {
        let Some(gone) = self.gone.get(key) else { return false };
        let stays = |pod: &PodIdx| !gone.contains(pod) && !but.is_some_and(|but| but.contains(pod));
        !self.of.get(key).is_some_and(|users| users.iter().any(stays))
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

impl Devices {
    /// A pod that has a place now uses the claims that its shape names; whom that concerns.
    pub(crate) fn join(&mut self, pod: PodIdx, shape: &PodShape) -> Concerns {
        let join = |key| self.change_users(key, |users| users.join(key, pod));
        named(shape).map(join).fold(Concerns::Nobody, Concerns::and)
    }

    /// A pod has its place no more; whom that concerns.
    pub(crate) fn leave(&mut self, pod: PodIdx, shape: &PodShape) -> Concerns {
        let leave = |key| self.change_users(key, |users| users.leave(key, pod));
        named(shape).map(leave).fold(Concerns::Nobody, Concerns::and)
    }

    /// A pod to which the API has given these claims goes, or comes back, as far as a transaction
    /// is concerned; whom that concerns.
    pub(crate) fn go(
        &mut self,
        pod: PodIdx,
        claims: impl Iterator<Item = ResourceClaimKey>,
        back: bool,
    ) -> Concerns {
        let mut concerns = Concerns::Nobody;
        for key in claims {
            concerns = concerns.and(self.change_users(&key, |users| match back {
                true => users.come_back(&key, pod),
                false => users.go(&key, pod),
            }));
        }
        concerns
    }

    /// Changes who uses a claim; whom that concerns.
    fn change_users(
        &mut self,
        key: &ResourceClaimKey,
        change: impl FnOnce(&mut Users),
    ) -> Concerns {
        let before = self.vacated(key);
        self.count_claim(key, false);
        change(&mut self.users);
        self.count_claim(key, true);
        match self.vacated(key) == before {
            true => Concerns::Nobody,
            false => self.vacating_concerns(key),
        }
    }

    /// Whether all who use a claim have gone, but for those who got devices for it since then, and
    /// nobody else has reserved it: what the API shows it to have is free, and so is what was held
    /// for it before.
    pub(super) fn vacated(&self, key: &ResourceClaimKey) -> bool {
        self.users.all_gone(key, self.anew.get(key).map(|hold| &hold.users))
            && self.reservations.all(key, |pod| self.users.is_gone(key, pod))
    }

    /// Whom it concerns that a claim is left by all, or is not after all: who names it may go to
    /// other nodes then than where its devices are.
    fn vacating_concerns(&self, key: &ResourceClaimKey) -> Concerns {
        let claim = self.claims.get(key);
        if claim.is_some_and(|claim| !claim.of_one_pod) {
            return Concerns::Everybody;
        }
        let has = claim.and_then(|claim| claim.allocation.as_ref());
        let has = has.into_iter().flat_map(|has| &has.devices);
        let held = self.own.get(key).into_iter().flat_map(|pod| &self.held[pod].own);
        let held = held.filter(|held| held.key.as_ref() == Some(key));
        let held = held.flat_map(|held| &held.chosen.devices).map(|one| &one.device);
        self.devices_concern(has.chain(held))
    }

    /// Whether a pod to which the API has given these claims has devices that several nodes can
    /// use, or a claim that pods of a shape name too.
    pub(crate) fn holds_for_many(
        &self,
        pod: PodIdx,
        mut claims: impl Iterator<Item = ResourceClaimKey>,
        wanted: &PodShape,
    ) -> bool {
        let own = self.held.get(&pod).map(|hold| self.hold_concerns(hold));
        own == Some(Concerns::Everybody)
            || claims.any(|key| {
                let has = self.claims.get(&key).and_then(|claim| claim.allocation.as_ref());
                let has = has.map(|has| self.devices_concern(has.devices.iter()));
                has == Some(Concerns::Everybody) || named(wanted).any(|it| *it == key)
            })
    }

    /// Claims with devices that nobody would use any more without those who have gone.
    pub(crate) fn left_behind(&self) -> Vec<ResourceClaimKey> {
        let allocated = |key: &&ResourceClaimKey| {
            self.vacated(key)
                && self.claims.get(*key).is_some_and(|claim| claim.allocation.is_some())
        };
        self.users.left_behind().filter(allocated).cloned().collect()
    }

    /// Whether a pod with a place uses a claim.
    pub(crate) fn in_use(&self, key: &ResourceClaimKey) -> bool {
        self.users.any(key)
    }

    /// Pods with a place that use a claim, or hold devices for it.
    pub(crate) fn pods_with(&self, key: &ResourceClaimKey) -> Vec<PodIdx> {
        let users = self.users.of.get(key).into_iter().flatten();
        users.chain(self.own.get(key)).copied().collect()
    }

    /// Whether facts of a claim tell nothing new but who has reserved it, where its devices are
    /// ready: that changes often, and no node says anything else because of it.
    pub(crate) fn reserves_only(&self, facts: &ResourceClaimFacts) -> bool {
        let Some(old) = self.claims.get(&facts.key) else { return false };
        let (Some(had), Some(has)) = (&old.allocation, &facts.allocation) else { return false };
        let with = |allocation| ResourceClaimFacts { allocation, ..facts.clone() };
        has.readiness == Readiness::Ready
            && had.reserved != has.reserved
            && **has == Allocation { reserved: has.reserved.clone(), ..Allocation::clone(had) }
            && with(old.allocation.clone()) == *old
    }

    /// Whether facts of a claim tell nothing new but that it has devices now, and nothing comes
    /// free by that: whatever is held for it is among them.
    pub(crate) fn only_takes(&self, facts: &ResourceClaimFacts) -> bool {
        let Some(old) = self.claims.get(&facts.key).filter(|old| old.allocation.is_none()) else {
            return false;
        };
        let Some(has) = &facts.allocation else { return false };
        let shared = self.shared.get(&facts.key).map(|hold| &hold.chosen);
        let own = self.own.get(&facts.key).into_iter().flat_map(|pod| &self.held[pod].own);
        let own = own.filter(|held| held.key.as_ref() == Some(&facts.key));
        let held = own.map(|held| &held.chosen).chain(shared).flat_map(|chosen| &chosen.devices);
        ResourceClaimFacts { allocation: None, ..facts.clone() } == *old
            && held.into_iter().all(|one| one.admin || has.devices.contains(&one.device))
    }

    /// Stores such facts. Returns whether work that waits may do something about the claim now: it
    /// has been left by somebody, and is in nobody's use.
    pub(crate) fn put_reserved(&mut self, facts: ResourceClaimFacts) -> bool {
        let of = |claim: &ResourceClaimFacts| {
            claim.allocation.as_ref().map_or(Vec::new(), |has| has.reserved.clone())
        };
        let had = self.claims.get(&facts.key).map_or(Vec::new(), of);
        let has = of(&facts);
        let left = had.iter().any(|by| !has.contains(by)) && !self.users.any(&facts.key);
        self.claims.insert(facts.key.clone(), facts);
        left
    }

    /// Whether a claim has devices that nobody uses any more, and that nobody has reserved who has
    /// not ended: its controller is about to take them.
    pub(crate) fn coming_free(&self, key: &ResourceClaimKey) -> bool {
        let allocated = self.claims.get(key).is_some_and(|claim| claim.allocation.is_some());
        allocated && !self.users.any(key) && self.reservations.all(key, |_| false)
    }

    /// Of claims that are left behind, those that somebody got other devices for since then.
    pub(crate) fn given_anew(&self) -> Vec<ResourceClaimKey> {
        self.left_behind().into_iter().filter(|key| self.anew.contains_key(key)).collect()
    }

    /// Claims come free for whom victims leave, or are not to any more; of these it gets devices
    /// for some itself. Whom that concerns.
    pub(crate) fn promise(
        &mut self,
        workload: WorkloadIdx,
        (frees, takes): (&[ResourceClaimKey], &[ResourceClaimKey]),
        promised: bool,
    ) -> Concerns {
        let mut concerns = Concerns::Nobody;
        for key in frees {
            if promised {
                let by = self.promised.entry(key.clone()).or_default();
                by.insert(workload, takes.contains(key));
            } else if let Some(by) = self.promised.get_mut(key) {
                by.remove(&workload);
                if by.is_empty() {
                    self.promised.remove(key);
                }
            }
            if self.claims.get(key).is_some_and(|claim| !claim.of_one_pod) {
                concerns = Concerns::Everybody;
            }
        }
        concerns
    }

    /// Whether a claim comes free for somebody, and so is for nobody else to begin to use: until it
    /// is free, or has what that one needs it for.
    pub(crate) fn is_promised(&self, key: &ResourceClaimKey) -> bool {
        let Some(by) = self.promised.get(key) else { return false };
        self.shown(key).is_some() || by.values().any(|takes| *takes)
    }

    /// Keeps devices for whom victims leave. The inverse is [`Devices::let_go`].
    pub(crate) fn keep(&mut self, workload: WorkloadIdx, devices: &Arc<[AllocatedDevice]>) {
        if devices.is_empty() {
            return;
        }
        devices.iter().for_each(|device| self.count(device, true));
        let old = self.kept.insert(workload, devices.clone());
        assert!(old.is_none(), "devices are kept once");
    }

    /// Keeps nothing any more.
    pub(crate) fn let_go(&mut self, workload: WorkloadIdx) {
        let devices = self.kept.remove(&workload);
        devices.iter().flat_map(|kept| kept.iter()).for_each(|device| self.count(device, false));
    }

    /// Devices that members hold, to be kept for them.
    pub(crate) fn held_by_all(
        &self,
        members: impl Iterator<Item = PodIdx>,
    ) -> Vec<AllocatedDevice> {
        let mut chosen: Vec<&Arc<Chosen>> = Vec::new();
        let mut shared: BTreeSet<&ResourceClaimKey> = BTreeSet::new();
        for hold in members.filter_map(|pod| self.held.get(&pod)) {
            chosen.extend(hold.own.iter().map(|held| &held.chosen));
            let several = hold.shared.iter().chain(&hold.anew);
            let once = several.filter(|(key, _)| shared.insert(key));
            chosen.extend(once.map(|(_, chosen)| chosen));
        }
        let devices = chosen.into_iter().flat_map(|chosen| &chosen.devices);
        devices.filter(|one| !one.admin).map(|one| one.device.clone()).collect()
    }
}

/// Claims that a shape names.
pub(crate) fn named(shape: &PodShape) -> impl Iterator<Item = &ResourceClaimKey> {
    shape.claims.iter().filter_map(|claim| match claim {
        PodClaim::Named(key) => Some(key),
        PodClaim::Own { .. } | PodClaim::Extended { .. } | PodClaim::Unusable(_) => None,
    })
}
