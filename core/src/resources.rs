//! The table of resource names, and which of them are devices.
//!
//! Index order is the order first met, so it never decides anything that people see; whatever is
//! shown or compared goes by name. Names are never forgotten: a cluster has a few dozen kinds of
//! resources, and every vector of amounts is indexed by them.

use std::collections::BTreeMap;

use capstan_topology::{Request, ResourceIdx};

use crate::explain::quantity::USD_PER_HOUR;
use crate::gpus::{is_gpu, is_whole_gpu};
use crate::model::input::{Amounts, Text};

/// `cpu`, in milli-units.
pub const CPU: ResourceIdx = ResourceIdx(0);
/// `memory`, in bytes.
pub const MEMORY: ResourceIdx = ResourceIdx(1);
/// `ephemeral-storage`, in bytes.
pub const EPHEMERAL: ResourceIdx = ResourceIdx(2);
/// `pods`: every pod takes one.
pub const PODS: ResourceIdx = ResourceIdx(3);
/// Money per hour, in micro-USD: no node offers it, and no pod asks for it; it is what a pod costs
/// where it is.
pub const USD: ResourceIdx = ResourceIdx(4);

/// What names share that come after [`NAMES_MAX`] others: no node offers it, so a pod that asks for
/// it waits. A cluster has dozens of names; only an attack has so many.
pub const BEYOND: ResourceIdx = ResourceIdx(NAMES_MAX);

/// Names that are told apart.
pub const NAMES_MAX: u16 = u16::MAX;

const NATIVE: [&str; 5] = ["cpu", "memory", "ephemeral-storage", "pods", USD_PER_HOUR];

/// Names and kinds of all resources met so far.
#[derive(Clone, Debug)]
pub struct Resources {
    names: Vec<Text>,
    gpu: Vec<bool>,
    gpus: Vec<ResourceIdx>,
    by_name: BTreeMap<Text, ResourceIdx>,
}

impl Default for Resources {
    fn default() -> Resources {
        let mut table = Resources {
            names: Vec::new(),
            gpu: Vec::new(),
            gpus: Vec::new(),
            by_name: BTreeMap::new(),
        };
        for name in NATIVE {
            table.intern(&name.into());
        }
        table
    }
}

impl Resources {
    /// The index of a name, new names included.
    pub fn intern(&mut self, name: &Text) -> ResourceIdx {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let index = ResourceIdx(u16::try_from(self.names.len()).unwrap_or(NAMES_MAX));
        if index >= BEYOND {
            if self.names.len() == BEYOND.at() {
                self.names.push("(a resource name beyond the first 65535)".into());
                self.gpu.push(false);
            }
            return BEYOND;
        }
        self.names.push(name.clone());
        self.by_name.insert(name.clone(), index);
        self.gpu.push(is_gpu(name));
        if is_whole_gpu(name) {
            self.gpus.push(index);
        }
        index
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none; the native ones always are.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The index of a name, if it was met.
    pub fn find(&self, name: &str) -> Option<ResourceIdx> {
        self.by_name.get(name).copied()
    }

    /// The name of an index.
    pub fn name(&self, index: ResourceIdx) -> &Text {
        &self.names[index.at()]
    }

    /// Whether it counts GPUs, or parts of them.
    pub fn is_gpu(&self, index: ResourceIdx) -> bool {
        self.gpu[index.at()]
    }

    /// All resources that count whole GPUs.
    pub fn gpus(&self) -> &[ResourceIdx] {
        &self.gpus
    }

    /// Amounts by name as a request, with one of `pods` added.
    pub fn pod_request(&mut self, amounts: &Amounts) -> Request {
        let mut entries: Vec<(ResourceIdx, i64)> =
            amounts.iter().map(|(name, amount)| (self.intern(name), *amount)).collect();
        entries.retain(|(resource, _)| *resource != PODS);
        entries.push((PODS, 1));
        Request::new(entries)
    }
}

/// Adds amounts up; what is beyond 64 bits is the most that they hold. (API servers take amounts
/// of which two have no sum; quota trees and ledgers count in 128 bits, words and wants need not.)
pub fn total(amounts: impl Iterator<Item = i64>) -> i64 {
    amounts.fold(0, i64::saturating_add)
}

/// Adds to an amount as [`total`] does.
pub fn add(to: &mut i64, amount: i64) {
    *to = to.saturating_add(amount);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_resources_have_fixed_indices() {
        let table = Resources::default();
        assert_eq!(table.find("cpu"), Some(CPU));
        assert_eq!(table.find("pods"), Some(PODS));
        assert_eq!(table.find(USD_PER_HOUR), Some(USD));
        assert_eq!(table.find("nvidia.com/gpu"), None);
    }

    #[test]
    fn every_pod_asks_for_one_of_pods() {
        let mut table = Resources::default();
        let request = table.pod_request(&Amounts::from([("cpu".into(), 500)]));
        assert_eq!(request.entries(), [(CPU, 500), (PODS, 1)]);
    }

    #[test]
    fn names_beyond_the_last_share_one_index() {
        let mut table = Resources::default();
        for at in NATIVE.len()..usize::from(NAMES_MAX) {
            assert_eq!(table.intern(&format!("example.com/r{at}").into()).at(), at);
        }
        assert_eq!(table.intern(&"example.com/one".into()), BEYOND);
        assert_eq!(table.intern(&"example.com/other".into()), BEYOND);
        assert_eq!(table.intern(&"example.com/r9".into()).at(), 9);
        assert_eq!(&**table.name(BEYOND), "(a resource name beyond the first 65535)");
        assert!(!table.is_gpu(BEYOND));
    }

    #[test]
    fn partitions_are_not_whole_gpus() {
        let mut table = Resources::default();
        let gpu = table.intern(&"nvidia.com/gpu".into());
        let mig = table.intern(&"nvidia.com/mig-1g.10gb".into());
        assert!(table.is_gpu(gpu) && table.is_gpu(mig) && !table.is_gpu(CPU));
        assert_eq!(table.gpus(), [gpu]);
    }
}
