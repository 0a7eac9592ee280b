//! Claims bound as the volume controller and provisioners would, at once.

use capstan_core::model::input::{
    Attach, ClaimFacts, Input, StorageClassFacts, StorageFact, StorageKind, Text, VolumeFacts,
};
use capstan_core::plan::{EffectResult, VolumeSetting};

use super::{Identity, World};

impl World {
    /// Binds claims as they were chosen; nobody else binds them here.
    pub(super) fn bind_claims(&mut self, settings: &[VolumeSetting]) -> EffectResult {
        for setting in settings {
            let Some(claim) = self.volume_claim(setting).cloned() else {
                return EffectResult::Gone;
            };
            if claim.fully_bound() {
                continue;
            }
            let volume = match &setting.volume {
                Some(name) => match self.volume(name) {
                    Some(volume) if volume.claim.is_some() && !volume.is_for(&claim) => {
                        let why = format!("volume {name} was given to another claim");
                        return EffectResult::Conflict(why.into());
                    }
                    Some(volume) => volume.clone(),
                    None => return EffectResult::Gone,
                },
                None => self.made_for(&claim),
            };
            for fact in bound(&claim, volume, setting) {
                self.put_object(Input::Storage(fact));
            }
        }
        EffectResult::Done
    }

    fn storage(&self, kind: StorageKind, namespace: &Text, name: &Text) -> Option<&StorageFact> {
        let id = Identity::Storage((kind, namespace.clone(), name.clone()));
        match self.objects.get(&id)? {
            Input::Storage(fact) => Some(fact),
            _ => None,
        }
    }

    fn volume_claim(&self, setting: &VolumeSetting) -> Option<&ClaimFacts> {
        let key = &setting.claim;
        match self.storage(StorageKind::Claim, &key.namespace, &key.name)? {
            StorageFact::Claim(claim) => Some(claim).filter(|claim| claim.uid == setting.uid),
            _ => None,
        }
    }

    fn volume(&self, name: &Text) -> Option<&VolumeFacts> {
        match self.storage(StorageKind::Volume, &"".into(), name)? {
            StorageFact::Volume(volume) => Some(volume),
            _ => None,
        }
    }

    fn class(&self, name: &Text) -> Option<&StorageClassFacts> {
        match self.storage(StorageKind::Class, &"".into(), name)? {
            StorageFact::Class(class) => Some(class),
            _ => None,
        }
    }

    /// A volume as a provisioner makes it, which every node can use: where it really could be
    /// used only that provisioner knows.
    fn made_for(&self, claim: &ClaimFacts) -> VolumeFacts {
        let name: Text = format!("pvc-{}", claim.uid).into();
        let driver = self.class(&claim.class).and_then(|class| class.driver.clone());
        VolumeFacts {
            name: name.clone(),
            class: claim.class.clone(),
            capacity: claim.size.unwrap_or(0),
            modes: claim.modes,
            block: claim.block,
            attributes: claim.attributes.clone(),
            labels: Default::default(),
            nodes: None,
            claim: None,
            available: false,
            deleting: false,
            attach: driver.map(|driver| Attach { driver, handle: name, migrated: false }),
            taken_over: None,
        }
    }
}

/// A claim and its volume once they are bound to each other.
pub fn bound(claim: &ClaimFacts, volume: VolumeFacts, setting: &VolumeSetting) -> [StorageFact; 2] {
    let selected = setting.volume.is_none().then(|| setting.node.clone());
    let claim = ClaimFacts {
        volume: Some(volume.name.clone()),
        bound: true,
        selected_node: selected.or_else(|| claim.selected_node.clone()),
        ..claim.clone()
    };
    let of = Some((claim.key.clone(), Some(claim.uid.clone())));
    let volume = VolumeFacts { claim: of, available: false, ..volume };
    [StorageFact::Volume(volume), StorageFact::Claim(claim)]
}
