//! Facts of devices and of claims on them, as short as tests want them.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{
    ClaimSpec, DeviceAsk, DeviceCount, DeviceFacts, GangKey, GangRef, GangSource, Input, PodClaim,
    PodFacts, PodShape, Reach, RequestSpec, ResourceClaimFacts, SliceFacts, Text,
};

use crate::facts::{self, TEAM, amounts, in_queue, text};

/// Devices of these names that are local to a node.
pub fn slice(node: &str, devices: &[&str]) -> Input {
    let device = |name: &&str| DeviceFacts {
        name: text(name),
        nodes: None,
        attributes: BTreeMap::new(),
        taints: Vec::new(),
        consumes: Vec::new(),
        shared: false,
        capacity: BTreeMap::new(),
        binds: false,
        ready_when: None,
    };
    Input::Slice(Arc::new(SliceFacts {
        name: text(node),
        driver: text("d"),
        pool: text(node),
        generation: 1,
        slices: 1,
        nodes: Reach::Node(text(node)),
        devices: devices.iter().map(device).collect(),
        counters: Vec::new(),
    }))
}

/// Asks for so many devices, whichever.
pub fn spec(count: u64) -> Arc<ClaimSpec> {
    let ask = DeviceAsk {
        name: text("r"),
        query: text(""),
        count: DeviceCount::Exactly(count),
        admin: false,
        tolerations: Vec::new(),
        capacity: BTreeMap::new(),
    };
    let requests = vec![RequestSpec { name: text("r"), options: vec![ask] }];
    Arc::new(ClaimSpec { requests, ..ClaimSpec::default() })
}

/// Namespace and name of a claim.
pub fn key(name: &str) -> (Text, Text) {
    (text(TEAM), text(name))
}

/// A claim that has no devices yet.
pub fn claim(name: &str, of_one_pod: bool, spec: Arc<ClaimSpec>) -> ResourceClaimFacts {
    let uid = text(format!("uid-{name}"));
    ResourceClaimFacts { key: key(name), uid, of_one_pod, spec, allocation: None }
}

/// A member of the gang `g` of that many, with one claim of a name.
pub fn member(name: &str, of: u32, needs: PodClaim, claim: &str) -> PodFacts {
    let requests = amounts(&[("cpu", 1_000)]);
    let shape = PodShape { requests, claims: vec![needs], ..PodShape::default() };
    let mut pod = facts::pod(name, &Arc::new(shape), &in_queue(None));
    pod.claims = Some(Arc::new(vec![text(claim)]));
    pod.gang = GangRef {
        key: GangKey::Group(GangSource::CapstanGang, text("g")),
        name: text("g"),
        source: GangSource::CapstanGang,
        min_member: Some(of),
        total: None,
        held: None,
        to_come: None,
        roles: None,
        by_itself: false,
        singly: false,
        unknown_owner: None,
    };
    pod
}
