//! How a node is bought, from the labels that clouds and provisioners put on it.
//!
//! Configured keys come first, then the table below in order; the first key with a value that it
//! knows wins, values compared without case and with `_` as `-`. A node without any of them is
//! on-demand when a cloud's label shows that it is rented, and unknown otherwise: on premises
//! nobody says how a node was bought.

use capstan_core::model::input::{CapacityType, Labels};

use super::{catalogue, instance_type};
use crate::config::CapacityLabel;

use CapacityType::{OnDemand, Reserved, Spot};

/// A value that stands for every value but `false`: the key's presence says it.
const PRESENT: &str = "*";

/// Label key, value, what it means. All rows of one key stand together.
const TABLE: [(&str, &str, CapacityType); 31] = [
    ("karpenter.sh/capacity-type", "spot", Spot),
    ("karpenter.sh/capacity-type", "on-demand", OnDemand),
    ("karpenter.sh/capacity-type", "reserved", Reserved),
    ("eks.amazonaws.com/capacityType", "spot", Spot),
    ("eks.amazonaws.com/capacityType", "on-demand", OnDemand),
    ("eks.amazonaws.com/capacityType", "capacity-block", Reserved),
    // Before gke-provisioning, which is `standard` on such nodes and would hide them.
    ("cloud.google.com/reservation-name", PRESENT, Reserved),
    // Runs for days and is not taken back while it runs.
    ("cloud.google.com/gke-flex-start", "true", OnDemand),
    ("cloud.google.com/gke-provisioning", "spot", Spot),
    ("cloud.google.com/gke-provisioning", "preemptible", Spot),
    ("cloud.google.com/gke-provisioning", "standard", OnDemand),
    ("cloud.google.com/gke-spot", "true", Spot),
    ("cloud.google.com/gke-preemptible", "true", Spot),
    ("kubernetes.azure.com/scalesetpriority", "spot", Spot),
    ("kubernetes.azure.com/scalesetpriority", "regular", OnDemand),
    ("kubernetes.azure.com/priority", "spot", Spot),
    ("kubernetes.azure.com/priority", "regular", OnDemand),
    // Cluster API writes it with an empty value.
    ("cluster.x-k8s.io/interruptible", PRESENT, Spot),
    // kops and older AWS groups.
    ("node.kubernetes.io/lifecycle", "spot", Spot),
    ("node.kubernetes.io/lifecycle", "normal", OnDemand),
    ("node.kubernetes.io/lifecycle", "on-demand", OnDemand),
    ("spotinst.io/node-lifecycle", "spot", Spot),
    ("spotinst.io/node-lifecycle", "od", OnDemand),
    ("scheduling.cast.ai/spot", "true", Spot),
    ("karpenter.k8s.aws/capacity-reservation-id", PRESENT, Reserved),
    ("topology.k8s.aws/capacity-block-id", PRESENT, Reserved),
    ("capacity-type", "spot", Spot),
    ("capacity-type", "preemptible", Spot),
    ("capacity-type", "on-demand", OnDemand),
    ("capacity-type", "ondemand", OnDemand),
    ("capacity-type", "reserved", Reserved),
];

/// Prefixes of label keys that only rented nodes carry.
const CLOUD_PREFIXES: [&str; 9] = [
    "eks.amazonaws.com/",
    "k8s.amazonaws.com/",
    "topology.k8s.aws/",
    "cloud.google.com/",
    "kubernetes.azure.com/",
    "karpenter.sh/",
    "karpenter.k8s.aws/",
    "karpenter.k8s.gcp/",
    "karpenter.azure.com/",
];

/// How the node with these labels is bought.
pub fn capacity_type(labels: &Labels, configured: &[CapacityLabel]) -> CapacityType {
    from_configured_keys(labels, configured)
        .or_else(|| from_known_keys(labels))
        .unwrap_or(if rented(labels) { OnDemand } else { CapacityType::Unknown })
}

fn from_configured_keys(labels: &Labels, configured: &[CapacityLabel]) -> Option<CapacityType> {
    configured.iter().find_map(|key| {
        let value = labels.get(&key.key)?;
        let known = key.values.iter().find(|(name, _)| same(name, value));
        known.map(|(_, bought)| *bought)
    })
}

fn from_known_keys(labels: &Labels) -> Option<CapacityType> {
    let row = TABLE.iter().find(|(key, known, _)| {
        labels.get(*key).is_some_and(|value| match *known {
            PRESENT => !value.eq_ignore_ascii_case("false"),
            known => same(known, value),
        })
    });
    row.map(|(_, _, bought)| *bought)
}

/// Whether some label shows that a cloud rents the node out.
fn rented(labels: &Labels) -> bool {
    let prefixed = |key: &str| CLOUD_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    // An instance type alone may be a distribution's name (`k3s`); a cloud's controller writes
    // the region beside it.
    let typed = instance_type(labels).is_some_and(|name| {
        catalogue::find(name).is_some() || labels.contains_key("topology.kubernetes.io/region")
    });
    typed || labels.keys().any(|key| prefixed(key))
}

/// Equal but for case and `_` against `-`: `ON_DEMAND` is `on-demand`.
fn same(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.bytes().map(plain).eq(other.bytes().map(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> CapacityType {
        let labels = pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        capacity_type(&labels, &[])
    }

    #[test]
    fn every_row_of_the_table_is_read() {
        for (key, value, expected) in TABLE {
            let value = if value == PRESENT { "res-1" } else { value };
            assert_eq!(read(&[(key, value)]), expected, "{key}={value}");
        }
    }

    #[test]
    fn values_are_read_as_each_cloud_writes_them() {
        let rows = [
            ("eks.amazonaws.com/capacityType", "ON_DEMAND", OnDemand),
            ("eks.amazonaws.com/capacityType", "SPOT", Spot),
            ("eks.amazonaws.com/capacityType", "CAPACITY_BLOCK", Reserved),
            ("cluster.x-k8s.io/interruptible", "", Spot),
            ("cluster.x-k8s.io/interruptible", "false", CapacityType::Unknown),
            ("capacity-type", "Spot", Spot),
            ("capacity-type", "cheap", CapacityType::Unknown),
            ("cloud.google.com/gke-spot", "false", OnDemand),
            ("kubernetes.azure.com/agentpool", "gpu", OnDemand),
            ("node.kubernetes.io/instance-type", "p5.48xlarge", OnDemand),
            ("node.kubernetes.io/instance-type", "k3s", CapacityType::Unknown),
        ];
        for (key, value, expected) in rows {
            assert_eq!(read(&[(key, value)]), expected, "{key}={value}");
        }
        let generic = [
            ("node.kubernetes.io/instance-type", "m9.big"),
            ("topology.kubernetes.io/region", "r"),
        ];
        assert_eq!(read(&generic), OnDemand);
    }

    #[test]
    fn the_first_key_wins_and_an_unknown_value_is_passed_over() {
        let karpenter = [("karpenter.sh/capacity-type", "on-demand"), ("capacity-type", "spot")];
        assert_eq!(read(&karpenter), OnDemand);
        let passed_over = [("karpenter.sh/capacity-type", "new"), ("capacity-type", "spot")];
        assert_eq!(read(&passed_over), Spot);
        let reservation = [
            ("cloud.google.com/gke-provisioning", "standard"),
            ("cloud.google.com/reservation-name", "h100-block"),
        ];
        assert_eq!(read(&reservation), Reserved);
        assert_eq!(read(&[]), CapacityType::Unknown);
    }

    #[test]
    fn configured_keys_come_before_the_table() {
        let labels: Labels = [("pool", "LEASED"), ("karpenter.sh/capacity-type", "spot")]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        let key =
            CapacityLabel { key: "pool".into(), values: [("leased".into(), Reserved)].into() };
        assert_eq!(capacity_type(&labels, std::slice::from_ref(&key)), Reserved);
        let other = CapacityLabel { values: [("owned".into(), Reserved)].into(), ..key };
        assert_eq!(capacity_type(&labels, &[other]), Spot);
    }
}
