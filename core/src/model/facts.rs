//! Queue objects as they were fed, kept until they are built into the quota tree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use capstan_topology::LEVELS_MAX;

use crate::model::input::{
    ClusterQueueFacts, CohortFacts, FlavorFacts, Labels, LocalQueueFacts, Text,
};
use crate::model::lookup::Lookup;

/// The LocalQueue of work that names none.
pub(super) static DEFAULT_QUEUE: LazyLock<Text> = LazyLock::new(|| "default".into());

/// All queue objects, namespaces and levels.
#[derive(Debug, Default)]
pub struct QueueFacts {
    /// ClusterQueues by name.
    pub cluster_queues: BTreeMap<Text, Arc<ClusterQueueFacts>>,
    /// LocalQueues by namespace and name, to be walked.
    pub local_queues: BTreeMap<(Text, Text), Arc<LocalQueueFacts>>,
    /// The same, to be asked for one: every pod that comes or goes asks.
    local_queue_of: Lookup<(Text, Text), Arc<LocalQueueFacts>>,
    /// Cohort objects by name.
    pub cohorts: BTreeMap<Text, Arc<CohortFacts>>,
    /// ResourceFlavors by name.
    pub flavors: BTreeMap<Text, Arc<FlavorFacts>>,
    /// WorkloadPriorityClasses by name.
    pub priorities: BTreeMap<Text, i32>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<Text, Labels>,
    /// Topology objects: level keys, outermost first.
    pub topologies: BTreeMap<Text, Vec<Text>>,
    /// Workloads that may not run, by namespace and name, with the uids of the objects' owners.
    pub deactivated: BTreeMap<(Text, Text), Arc<[Text]>>,
    /// The same objects by the uids of their owners.
    pub deactivated_owners: BTreeMap<Text, BTreeSet<(Text, Text)>>,
    /// Something that the quota tree is built from changed.
    pub stale: bool,
}

/// Labels of topology levels that are known without any configuration, outermost first. On one
/// cluster usually one key per level exists; a level that no node carries is left out.
pub const WELL_KNOWN_LEVELS: [&str; 17] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.k8s.aws/network-node-layer-1",
    "network.topology.nvidia.com/spine",
    "fabric.topograph.run/tier-1",
    "cloud.google.com/gce-topology-block",
    "oci.oraclecloud.com/host.network_block_id",
    "topology.k8s.aws/network-node-layer-2",
    "cloud.provider.com/topology-block",
    "topology.kubernetes.io/block",
    "fabric.topograph.run/tier-0",
    "network.topology.nvidia.com/leaf",
    "cloud.google.com/gce-topology-subblock",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.provider.com/topology-rack",
    "topology.kubernetes.io/rack",
    "kubernetes.io/hostname",
];

impl QueueFacts {
    /// Whether any queue object exists; without one Capstan is a plain gang scheduler.
    pub fn any_queue(&self) -> bool {
        !self.cluster_queues.is_empty() || !self.local_queues.is_empty()
    }

    /// The LocalQueue that work of a namespace is for: the one that it names, else `default`.
    pub fn local_queue(
        &self,
        namespace: &Text,
        named: Option<&Text>,
    ) -> Option<&Arc<LocalQueueFacts>> {
        let name = named.unwrap_or(&DEFAULT_QUEUE);
        self.local_queue_of.get_pair(namespace, name)
    }

    /// Takes a LocalQueue as it is now.
    pub fn put_local_queue(&mut self, facts: Arc<LocalQueueFacts>) {
        let name = (facts.namespace.clone(), facts.name.clone());
        self.local_queue_of.insert(name.clone(), facts.clone());
        self.local_queues.insert(name, facts);
    }

    /// A LocalQueue is gone.
    pub fn remove_local_queue(&mut self, name: &(Text, Text)) {
        self.local_queue_of.remove(name);
        self.local_queues.remove(name);
    }

    /// A flavor with the levels that its Topology has now.
    pub fn with_levels(&self, flavor: &Arc<FlavorFacts>) -> Arc<FlavorFacts> {
        let Some(topology) = &flavor.topology else { return flavor.clone() };
        let levels = self.topologies.get(topology).cloned().unwrap_or_default();
        Arc::new(FlavorFacts { levels, ..FlavorFacts::clone(flavor) })
    }

    /// Level keys: configured, else of all Topology objects, else the well-known ones; the first
    /// [`LEVELS_MAX`] of them.
    pub fn levels(&self, configured: Option<&[Text]>) -> Vec<Text> {
        let mut levels = self.all_levels(configured);
        levels.truncate(LEVELS_MAX);
        levels
    }

    fn all_levels(&self, configured: Option<&[Text]>) -> Vec<Text> {
        if let Some(configured) = configured {
            return configured.to_vec();
        }
        if self.topologies.is_empty() {
            return WELL_KNOWN_LEVELS.iter().map(|key| (*key).into()).collect();
        }
        let mut merged: Vec<Text> = Vec::new();
        for levels in self.topologies.values() {
            // Insert what is new right behind its predecessor, so that each object's order holds.
            let mut at = 0;
            for key in levels {
                at = match merged.iter().position(|known| known == key) {
                    Some(known) => known + 1,
                    None => {
                        merged.insert(at, key.clone());
                        at + 1
                    }
                };
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_from_configuration_then_objects_then_the_known_ones() {
        let mut facts = QueueFacts::default();
        assert_eq!(facts.levels(None).len(), WELL_KNOWN_LEVELS.len());
        facts.topologies.insert("a".into(), vec!["zone".into(), "host".into()]);
        facts.topologies.insert("b".into(), vec!["zone".into(), "rack".into(), "host".into()]);
        let levels = facts.levels(None);
        assert_eq!(levels.iter().map(|l| &**l).collect::<Vec<_>>(), ["zone", "rack", "host"]);
        let configured = ["pod".into()];
        assert_eq!(facts.levels(Some(&configured)), configured);
    }
}
