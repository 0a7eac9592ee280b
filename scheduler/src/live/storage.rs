//! Claims, volumes and what makes them: each object is one fact, and concerns nobody else here.

use std::collections::BTreeMap;
use std::fmt::Debug;

use capstan_core::Input;
use capstan_core::model::input::{ClaimKey, StorageFact};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Kind;
use super::cluster::Live;
use super::roster::Named;
use crate::convert::sharing::Shared;
use crate::convert::storage::Storage;
use crate::read::kinds::StorageKind;

/// A storage object that was seen and is not a fact yet.
pub trait Stored: Debug + Send + Sync {
    /// What it says.
    fn fact(&self, shared: &mut Shared) -> StorageFact;
    /// Another of the same.
    fn copy(&self) -> Box<dyn Stored>;
}

impl<S: Storage + Clone + Debug + Send + Sync + 'static> Stored for S {
    fn fact(&self, shared: &mut Shared) -> StorageFact {
        Storage::fact(self, shared)
    }

    fn copy(&self) -> Box<dyn Stored> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Stored> {
    fn clone(&self) -> Box<dyn Stored> {
        (**self).copy()
    }
}

/// Storage as it is seen.
#[derive(Debug, Default)]
pub(super) struct Storages {
    facts: BTreeMap<(StorageKind, Named), StorageFact>,
    /// What changed since the last time, with what was told then.
    before: BTreeMap<(StorageKind, Named), Option<StorageFact>>,
}

impl Storages {
    fn put(&mut self, key: (StorageKind, Named), fact: StorageFact) {
        if self.facts.get(&key) != Some(&fact) {
            let old = self.facts.insert(key.clone(), fact);
            self.before.entry(key).or_insert(old);
        }
    }

    /// An object is gone.
    pub fn remove(&mut self, kind: StorageKind, named: &Named) {
        let key = (kind, named.clone());
        if let Some(old) = self.facts.remove(&key) {
            self.before.entry(key).or_insert(Some(old));
        }
    }

    /// What is there.
    pub fn everything(&self) -> impl Iterator<Item = Input> {
        self.facts.values().cloned().map(Input::Storage)
    }

    /// What changed since the last time: what is gone, and what is there.
    pub fn drain(&mut self) -> (Vec<Input>, Vec<Input>) {
        let (mut gone, mut there) = (Vec::new(), Vec::new());
        for (key, before) in std::mem::take(&mut self.before) {
            match self.facts.get(&key) {
                now if now == before.as_ref() => {}
                Some(fact) => there.push(Input::Storage(fact.clone())),
                None => gone.push(Input::Storage(gone_of(key))),
            }
        }
        (gone, there)
    }
}

/// That an object is gone.
fn gone_of((kind, (namespace, name)): (StorageKind, Named)) -> StorageFact {
    match kind {
        StorageKind::Claim => StorageFact::ClaimGone(ClaimKey { namespace, name }),
        StorageKind::Volume => StorageFact::VolumeGone(name),
        StorageKind::Class => StorageFact::ClassGone(name),
        StorageKind::Driver => StorageFact::DriverGone(name),
        StorageKind::Node => StorageFact::LimitsGone(name),
        StorageKind::Capacity => StorageFact::CapacityGone(namespace, name),
        StorageKind::Attachment => StorageFact::AttachmentGone(name),
    }
}

impl Live {
    /// A storage object was seen.
    pub(super) fn put_storage(&mut self, kind: StorageKind, meta: &ObjectMeta, seen: &dyn Stored) {
        let named = self.enter(Kind::Storage(kind), meta);
        self.notes.faults(Kind::Storage(kind), &named, []);
        let fact = seen.fact(&mut self.shared);
        self.storage.put((kind, named), fact);
    }
}
