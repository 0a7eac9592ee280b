//! What pods with a place hold for their claims until the API shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::Devices;
use crate::model::ids::PodIdx;
use crate::model::input::ResourceClaimKey;
use crate::plan::Chosen;

/// What a pod with a place holds for one of its claims.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    /// Position of the claim among the pod's.
    pub claim: usize,
    /// The claim itself, once it exists.
    pub key: Option<ResourceClaimKey>,
    /// What it has.
    pub chosen: Arc<Chosen>,
}

/// A claim of several pods that was given devices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SharedHold {
    /// What it has.
    pub chosen: Arc<Chosen>,
    /// Pods with a place that need it.
    pub users: BTreeSet<PodIdx>,
}

/// Claims of several pods that were given devices.
pub(super) type SharedHolds = BTreeMap<ResourceClaimKey, SharedHold>;

/// All that a pod holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodHold {
    /// For claims of its own.
    pub(crate) own: Vec<Held>,
    /// For claims that others may use.
    pub(crate) shared: Vec<(ResourceClaimKey, Arc<Chosen>)>,
    /// For those that all others have left, as far as a transaction is concerned.
    pub(super) anew: Vec<(ResourceClaimKey, Arc<Chosen>)>,
}

impl PodHold {
    /// What it is for the claim at a position among the pod's.
    pub(crate) fn own(&self, claim: usize) -> Option<&Arc<Chosen>> {
        self.own.iter().find(|held| held.claim == claim).map(|held| &held.chosen)
    }

    /// What it is for a claim that others may use.
    pub(crate) fn shared(&self, key: &ResourceClaimKey) -> Option<&Arc<Chosen>> {
        self.shared.iter().find(|(of, _)| of == key).map(|(_, chosen)| chosen)
    }

    /// Whether that is nothing.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.shared.is_empty() && self.anew.is_empty()
    }

    /// Holds this for a claim that others may use, as things are.
    pub(super) fn put(&mut self, devices: &Devices, key: &ResourceClaimKey, chosen: Arc<Chosen>) {
        let holds = if devices.vacated(key) { &mut self.anew } else { &mut self.shared };
        holds.push((key.clone(), chosen));
    }
}

/// A pod needs a claim that has these; whether it is the first.
pub(super) fn join(
    holds: &mut SharedHolds,
    (key, chosen): (&ResourceClaimKey, &Arc<Chosen>),
    pod: PodIdx,
) -> bool {
    let first = !holds.contains_key(key);
    let new = || SharedHold { chosen: chosen.clone(), users: BTreeSet::new() };
    holds.entry(key.clone()).or_insert_with(new).users.insert(pod);
    first
}

/// A pod needs a claim no more; whether it was the last.
pub(super) fn part(holds: &mut SharedHolds, key: &ResourceClaimKey, pod: PodIdx) -> bool {
    let entry = holds.get_mut(key).expect("what a pod holds is known");
    entry.users.remove(&pod);
    let last = entry.users.is_empty();
    if last {
        holds.remove(key);
    }
    last
}
