//! Which pods a change of a claim concerns: those that name it.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::{ResourceClaimKey, Text};

use crate::convert::devices::{ClaimSource, PodClaimDraft};
use crate::convert::pod::PodDraft;

/// Pods by the claims that they name, whether those exist or not.
#[derive(Debug, Default)]
pub struct Claimants {
    pods: BTreeMap<ResourceClaimKey, BTreeSet<Text>>,
}

impl Claimants {
    /// A pod names claims.
    pub fn add(&mut self, pod: &PodDraft) {
        for key in keys(pod) {
            self.pods.entry(key).or_default().insert(pod.uid.clone());
        }
    }

    /// A pod names them no more.
    pub fn remove(&mut self, pod: &PodDraft) {
        for key in keys(pod) {
            if let Some(pods) = self.pods.get_mut(&key) {
                pods.remove(&pod.uid);
                if pods.is_empty() {
                    self.pods.remove(&key);
                }
            }
        }
    }

    /// Pods that name a claim.
    pub fn of(&self, key: &ResourceClaimKey) -> impl Iterator<Item = &Text> {
        self.pods.get(key).into_iter().flatten()
    }
}

fn keys(pod: &PodDraft) -> impl Iterator<Item = ResourceClaimKey> + '_ {
    let named = |draft: &PodClaimDraft| match &draft.source {
        ClaimSource::Named(name) | ClaimSource::Made(_, Some(name)) => {
            Some((pod.namespace.clone(), name.clone()))
        }
        _ => None,
    };
    pod.claims.iter().flat_map(|claims| claims.iter()).filter_map(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{pod, sharing::Shared};

    #[test]
    fn nothing_is_kept_of_pods_that_are_gone() {
        let spec = serde_json::json!({ "containers": [{}], "resourceClaims": [
            { "name": "a", "resourceClaimName": "shared" },
            { "name": "b", "resourceClaimTemplateName": "t" },
        ] });
        let object = serde_json::json!({ "metadata": { "name": "p", "uid": "u" }, "spec": spec });
        let object = serde_json::from_value(object).expect("a pod");
        let draft = pod::draft(&object, &mut Shared::default()).expect("a draft");
        let mut claimants = Claimants::default();
        claimants.add(&draft);
        let key = ("default".into(), "shared".into());
        assert_eq!(claimants.of(&key).collect::<Vec<_>>(), [&Text::from("u")]);
        claimants.remove(&draft);
        assert!(claimants.pods.is_empty());
    }
}
