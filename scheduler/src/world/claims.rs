//! Claims on devices, as the API server and the controller of claims would have them: given to pods
//! that are bound and reserved for them, taken back from those that end.
//!
//! What is allocated, and what a release gives back, has to be what the claim has: as in `act`, a
//! claim that was allocated elsewhere is lost, and a release leaves alone what another try got,
//! what its pod has not reserved, and what was not seen so.

use std::sync::Arc;

use capstan_core::model::input::{
    AllocatedDevice, Allocation, Input, PodFacts, ResourceClaimFacts, ResourceClaimKey, Text,
};
use capstan_core::plan::{Chosen, ClaimGrant, EffectResult, PodRef};

use super::{World, claim_identity};

impl World {
    /// Gives claims what was chosen for them, and reserves them for the pod.
    pub(super) fn allocate(&mut self, pod: &PodRef, claims: &[ClaimGrant]) -> EffectResult {
        if !self.pods.contains_key(&pod.uid) {
            return EffectResult::Gone;
        }
        for grant in claims {
            if let Err(why) = self.allocate_one(pod, grant) {
                return EffectResult::Conflict(format!("claim {} {why}", grant.key.1).into());
            }
        }
        EffectResult::Done
    }

    fn allocate_one(&mut self, pod: &PodRef, grant: &ClaimGrant) -> Result<(), &'static str> {
        let claim = match &grant.special {
            Some(_) => self.special_for(pod, &grant.key)?,
            None => {
                let found = self.claim(&grant.key).filter(|claim| claim.uid == grant.uid);
                found.cloned().ok_or("is gone")?
            }
        };
        let allocation = match (&claim.allocation, &grant.chosen) {
            (Some(has), Some(chosen)) if !same(has, chosen) => {
                return Err("was allocated elsewhere");
            }
            (Some(has), _) if has.reserved.contains(&pod.uid) => return Ok(()),
            (Some(has), _) => Allocation::clone(has),
            (None, Some(chosen)) => Allocation {
                nodes: chosen.nodes.clone(),
                devices: taken(chosen).cloned().collect(),
                ..Allocation::default()
            },
            (None, None) => return Err("has no devices any more"),
        };
        let mut reserved = allocation.reserved.clone();
        reserved.push(pod.uid.clone());
        let allocation = Some(Arc::new(Allocation { reserved, ..allocation }));
        self.put_claim(ResourceClaimFacts { allocation, ..claim });
        Ok(())
    }

    /// The claim for a pod's extended resources, made if there is none.
    fn special_for(
        &self,
        pod: &PodRef,
        key: &ResourceClaimKey,
    ) -> Result<ResourceClaimFacts, &'static str> {
        match self.claim(key) {
            Some(claim) if !claim.of_one_pod => Err("is of another try"),
            Some(claim) => Ok(claim.clone()),
            None => Ok(ResourceClaimFacts {
                key: key.clone(),
                uid: format!("{}-claim", pod.uid).into(),
                of_one_pod: true,
                spec: Arc::default(),
                allocation: None,
            }),
        }
    }

    /// Takes back what was chosen for claims of a pod that is not bound: the last that has reserved
    /// a claim takes its devices back.
    pub(super) fn release(&mut self, pod: &PodRef, claims: &[ClaimGrant]) -> EffectResult {
        for grant in claims {
            if grant.special.is_some() {
                if self.claim(&grant.key).is_some_and(|claim| claim.of_one_pod) {
                    self.put_object(Input::ResourceClaimGone(grant.key.clone()));
                }
                continue;
            }
            let Some(claim) = self.claim(&grant.key).filter(|claim| claim.uid == grant.uid) else {
                continue;
            };
            let Some(has) = &claim.allocation else { continue };
            let others: Vec<Text> =
                has.reserved.iter().filter(|by| **by != pod.uid).cloned().collect();
            let reserves = others.len() < has.reserved.len();
            let goes_back = match &grant.seen {
                None => reserves && grant.chosen.as_ref().is_none_or(|chosen| same(has, chosen)),
                Some(seen) => (reserves || others.is_empty()) && seen.is(has),
            };
            if goes_back {
                let left = Allocation { reserved: others, ..Allocation::clone(has) };
                let allocation = (!left.reserved.is_empty()).then(|| Arc::new(left));
                let claim = claim.clone();
                self.put_claim(ResourceClaimFacts { allocation, ..claim });
            }
        }
        EffectResult::Done
    }

    /// A pod has ended: claims that were made for it go with it, others are free if nobody else
    /// uses them.
    pub(super) fn end_claims(&mut self, pod: &PodFacts) {
        let Some(names) = pod.claims.clone() else { return };
        for name in names.iter().filter(|name| !name.is_empty()) {
            let key = (pod.namespace.clone(), name.clone());
            match self.claim(&key).map(|claim| claim.of_one_pod) {
                Some(true) => self.put_object(Input::ResourceClaimGone(key)),
                Some(false) => self.leave_claim(&key, pod),
                None => {}
            }
        }
    }

    /// The controller of claims takes a pod that used one off it, and pods that are gone with it;
    /// whoever is left keeps the devices, one that runs and has not reserved it too.
    fn leave_claim(&mut self, key: &ResourceClaimKey, left: &PodFacts) {
        let runs = |pod: &PodFacts| {
            let named = pod.claims.iter().flat_map(|names| names.iter()).any(|it| *it == key.1);
            let runs = pod.node.is_some() && !pod.phase.terminal();
            named && runs && pod.namespace == key.0 && pod.uid != left.uid
        };
        let Some(claim) = self.claim(key).cloned() else { return };
        let Some(has) = &claim.allocation else { return };
        if left.node.is_none() && !has.reserved.contains(&left.uid) {
            return;
        }
        let stays = |by: &&Text| {
            let pod = self.pods.get(*by).filter(|pod| !pod.phase.terminal());
            **by != left.uid && pod.is_some()
        };
        let reserved: Vec<Text> = has.reserved.iter().filter(stays).cloned().collect();
        let used = !reserved.is_empty() || self.pods.values().any(runs);
        let allocation = match used {
            true if reserved == has.reserved => return,
            true => Some(Arc::new(Allocation { reserved, ..Allocation::clone(has) })),
            false => None,
        };
        self.put_claim(ResourceClaimFacts { allocation, ..claim });
    }

    pub(super) fn claim(&self, key: &ResourceClaimKey) -> Option<&ResourceClaimFacts> {
        match self.objects.get(&claim_identity(key)) {
            Some(Input::ResourceClaim(claim)) => Some(claim),
            _ => None,
        }
    }

    fn put_claim(&mut self, claim: ResourceClaimFacts) {
        self.put_object(Input::ResourceClaim(claim));
    }
}

/// Devices that a choice keeps from others.
fn taken(chosen: &Chosen) -> impl Iterator<Item = &AllocatedDevice> {
    chosen.devices.iter().filter(|one| !one.admin).map(|one| &one.device)
}

/// Whether a claim has just what was chosen: the devices, what is taken of each, and the nodes.
fn same(has: &Allocation, chosen: &Chosen) -> bool {
    has.devices.iter().eq(taken(chosen)) && has.nodes == chosen.nodes
}
