//! Short ways to write facts about storage: claims, volumes and their class, each a plain one of
//! which callers change public fields.

use capstan_core::model::input::{
    AccessModes, ClaimFacts, ClaimKey, NodeSelector, NodeSelectorTerm, Operator, Requirement,
    StorageClassFacts, StorageFact, VolumeFacts,
};

use crate::facts::{TEAM, text};

/// The class that [`class`] makes and [`claim`] and [`volume`] are of: it waits for the first pod.
pub const LATE: &str = "late";

/// The key of a claim.
pub fn key(name: &str) -> ClaimKey {
    ClaimKey { namespace: text(TEAM), name: text(name) }
}

/// A claim of one byte that one node may use, without a volume yet.
pub fn claim(name: &str) -> ClaimFacts {
    ClaimFacts {
        key: key(name),
        uid: text(format!("uid-{name}")),
        class: text(LATE),
        size: Some(1),
        modes: AccessModes::ONE_NODE,
        block: false,
        attributes: None,
        selector: None,
        volume: None,
        bound: false,
        lost: false,
        deleting: false,
        selected_node: None,
        made_for: None,
    }
}

/// A volume of one byte that is there on one node only, free to be claimed.
pub fn volume(name: &str, node: &str) -> VolumeFacts {
    let on_node = Requirement {
        key: text("kubernetes.io/hostname"),
        operator: Operator::In,
        values: vec![text(node)],
    };
    let term = NodeSelectorTerm { labels: vec![on_node], fields: Vec::new() };
    VolumeFacts {
        name: text(name),
        class: text(LATE),
        capacity: 1,
        modes: AccessModes::ONE_NODE,
        block: false,
        attributes: None,
        labels: Default::default(),
        nodes: Some(NodeSelector { terms: vec![term] }),
        claim: None,
        available: true,
        deleting: false,
        attach: None,
        taken_over: None,
    }
}

/// The class; without a provisioner it has only the volumes that there are.
pub fn class(provisioner: Option<&str>) -> StorageFact {
    StorageFact::Class(StorageClassFacts {
        name: text(LATE),
        provisioner: provisioner.map(text),
        driver: provisioner.map(text),
        waits: true,
        topologies: Vec::new(),
    })
}
