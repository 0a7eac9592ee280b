//! Claims on devices, as the API server and the controller of claims would have them: given to pods
//! that are bound, taken back from those that end.

use std::sync::Arc;

use capstan_core::model::input::{
    Allocation, Input, PodFacts, ResourceClaimFacts, ResourceClaimKey,
};
use capstan_core::plan::{ClaimGrant, EffectResult, PodRef};

use super::{World, claim_identity};

impl World {
    /// Gives claims what was chosen for them.
    pub(super) fn allocate(&mut self, pod: &PodRef, claims: &[ClaimGrant]) -> EffectResult {
        if !self.pods.contains_key(&pod.uid) {
            return EffectResult::Gone;
        }
        for grant in claims {
            if let (Some(_), None) = (&grant.special, self.claim(&grant.key)) {
                let (key, uid) = (grant.key.clone(), format!("{}-claim", pod.uid).into());
                let spec = Arc::default();
                self.put_claim(ResourceClaimFacts {
                    key,
                    uid,
                    of_one_pod: true,
                    spec,
                    allocation: None,
                });
            }
            let Some(claim) = self.claim(&grant.key).cloned() else {
                return EffectResult::Conflict(format!("claim {} is gone", grant.key.1).into());
            };
            let Some(chosen) = &grant.chosen else { continue };
            let taken = chosen.devices.iter().filter(|one| !one.admin);
            let devices = taken.map(|one| one.device.clone()).collect();
            let allocation =
                Allocation { nodes: chosen.nodes.clone(), devices, ..Allocation::default() };
            match &claim.allocation {
                Some(has) if **has == allocation => {}
                Some(_) => {
                    let why = format!("claim {} was allocated elsewhere", grant.key.1);
                    return EffectResult::Conflict(why.into());
                }
                None => self.put_claim(ResourceClaimFacts {
                    allocation: Some(Arc::new(allocation)),
                    ..claim
                }),
            }
        }
        EffectResult::Done
    }

    /// Takes back what was chosen for claims of a pod that is not bound.
    pub(super) fn release(&mut self, pod: &PodRef, claims: &[ClaimGrant]) -> EffectResult {
        for grant in claims {
            if grant.special.is_some() {
                if self.claim(&grant.key).is_some() {
                    self.put_object(Input::ResourceClaimGone(grant.key.clone()));
                }
                continue;
            }
            if grant.chosen.is_none() && grant.unready.is_none() {
                continue;
            }
            self.free_claim(&grant.key, |other| *other.uid == *pod.uid);
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
                Some(false) => self.free_claim(&key, |other| other.uid == pod.uid),
                None => {}
            }
        }
    }

    /// Takes an allocation back, unless some pod uses it that is not left out.
    fn free_claim(&mut self, key: &ResourceClaimKey, left_out: impl Fn(&PodFacts) -> bool) {
        let uses = |pod: &&PodFacts| {
            let named = pod.claims.iter().flat_map(|names| names.iter()).any(|it| *it == key.1);
            let runs = pod.node.is_some() && !pod.phase.terminal();
            named && runs && pod.namespace == key.0 && !left_out(pod)
        };
        let used = self.pods.values().any(|pod| uses(&pod));
        let claim = self.claim(key).filter(|claim| claim.allocation.is_some() && !used).cloned();
        if let Some(claim) = claim {
            self.put_claim(ResourceClaimFacts { allocation: None, ..claim });
        }
    }

    fn claim(&self, key: &ResourceClaimKey) -> Option<&ResourceClaimFacts> {
        match self.objects.get(&claim_identity(key)) {
            Some(Input::ResourceClaim(claim)) => Some(claim),
            _ => None,
        }
    }

    fn put_claim(&mut self, claim: ResourceClaimFacts) {
        self.put_object(Input::ResourceClaim(claim));
    }
}
