//! How many pods that do not exist places are planned for.
//!
//! Problem: the engine plans a place for each pod that a suspended owner will make, some hundred
//! bytes each, and an owner that says a number costs whoever writes it nothing: fifty Jobs of one
//! namespace would take the memory of all.
//!
//! Wanted: no namespace has more than [`PLACES_MAX`] planned for. Who is one too many waits, and
//! is told so, until others are gone. Those that run come first, then the oldest; who fits beside
//! those before it is not held up by a larger one. Namespaces do not count against each other:
//! whoever may write in one harms nobody elsewhere.
//!
//! Decides it for all owners of a namespace as they are now, in whatever order they came. Cost: an
//! entry for each owner; a look at all of a namespace only where it asks for too many.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::Input;
use capstan_core::model::input::{Held, OwnerFacts, Text};
use capstan_core::time::Time;

/// Pods of owners in one namespace that places are planned for at most: several times what
/// Kubernetes is made for in a whole cluster, and some 300 MB.
pub const PLACES_MAX: u32 = 1_000_000;

/// Whose turn it is among those of a namespace: it is suspended, its creation, its uid.
type Turn = (bool, Time, Text);

/// What owners of a namespace ask for.
#[derive(Debug, Default)]
struct Crowded {
    /// Pods of each.
    pods: BTreeMap<Turn, u32>,
    /// Of all.
    sum: u64,
    /// Who is one too many, by uid, and how many pods come before it.
    beyond: BTreeMap<Text, u32>,
}

/// What owners ask for.
#[derive(Debug, Default)]
pub struct Crowd {
    namespaces: BTreeMap<Text, Crowded>,
    /// Where each owner stands, by uid.
    known: BTreeMap<Text, (Text, Turn)>,
    /// Namespaces that asked for too many, or do, and changed.
    touched: BTreeSet<Text>,
}

impl Crowded {
    /// Finds out anew who is one too many; who was and is not, who was not, and of whom the number
    /// before it changed.
    fn look(&mut self) -> BTreeSet<Text> {
        let (mut beyond, mut before) = (BTreeMap::new(), 0_u32);
        for ((.., uid), pods) in &self.pods {
            match before.checked_add(*pods).filter(|sum| *sum <= PLACES_MAX) {
                Some(sum) => before = sum,
                None => _ = beyond.insert(uid.clone(), before),
            }
        }
        let was = std::mem::replace(&mut self.beyond, beyond);
        let same = |uid: &&Text| was.get(*uid) == self.beyond.get(*uid);
        was.keys().chain(self.beyond.keys()).filter(|uid| !same(uid)).cloned().collect()
    }
}

impl Crowd {
    /// An owner with these facts is there.
    pub fn note(&mut self, owner: &OwnerFacts) {
        self.forget(&owner.uid);
        let pods = owner.pods();
        if !owner.ours || owner.finished.is_some() || pods == 0 {
            return;
        }
        let turn: Turn = (owner.suspended, owner.created, owner.uid.clone());
        let here = self.namespaces.entry(owner.namespace.clone()).or_default();
        here.pods.insert(turn.clone(), pods);
        here.sum += u64::from(pods);
        if here.sum > u64::from(PLACES_MAX) {
            self.touched.insert(owner.namespace.clone());
        }
        self.known.insert(owner.uid.clone(), (owner.namespace.clone(), turn));
    }

    /// An owner has no facts any more.
    pub fn forget(&mut self, uid: &Text) {
        let Some((namespace, turn)) = self.known.remove(uid) else { return };
        let Some(here) = self.namespaces.get_mut(&namespace) else { return };
        let pods = here.pods.remove(&turn).unwrap_or(0);
        here.sum -= u64::from(pods);
        if here.beyond.is_empty() && here.pods.is_empty() {
            self.namespaces.remove(&namespace);
        } else if !here.beyond.is_empty() {
            self.touched.insert(namespace);
        }
    }

    /// Looks again where something changed; of whom something else is to be told, by uid. Some of
    /// them may be gone.
    pub fn settle(&mut self) -> BTreeSet<Text> {
        let mut changed = BTreeSet::new();
        for namespace in std::mem::take(&mut self.touched) {
            let Some(here) = self.namespaces.get_mut(&namespace) else { continue };
            changed.append(&mut here.look());
            if here.pods.is_empty() {
                self.namespaces.remove(&namespace);
            }
        }
        changed
    }

    /// Makes of the facts of an owner that is one too many those of one that is held. What runs
    /// goes on: only nothing is kept for pods of it that do not come.
    pub fn limit(&self, owner: &mut OwnerFacts) {
        let here = self.namespaces.get(&owner.namespace);
        let Some(before) = here.and_then(|here| here.beyond.get(&owner.uid)) else { return };
        if !owner.suspended {
            owner.admitted = None;
            return;
        }
        // One stands for all.
        let mut left = 1;
        for set in &mut owner.pod_sets {
            set.count = set.count.min(left);
            left -= set.count;
        }
        owner.min_member = 1;
        owner.held.get_or_insert(Held::Crowded { before: *before, most: PLACES_MAX });
    }
}

/// The same for all owners that there are.
pub fn limit_all(inputs: &mut [Input]) {
    let mut crowd = Crowd::default();
    for input in inputs.iter() {
        if let Input::Owner(owner) = input {
            crowd.note(owner);
        }
    }
    if crowd.settle().is_empty() {
        return;
    }
    for input in inputs {
        if let Input::Owner(owner) = input {
            crowd.limit(owner);
        }
    }
}
