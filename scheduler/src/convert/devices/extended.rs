//! Extended resources that devices back (DRAExtendedResource, KEP-5004).
//!
//! Decides what a pod's containers ask of devices for such resources, under which names; which
//! class backs a resource; and what the claim that is made for a pod is called.
//!
//! Containers that run together (ordinary ones and sidecars) each get devices of their own. An
//! init container uses those of containers that start after it, and asks for more only where it
//! needs more; init containers run one after the other, so that the largest such request serves
//! them all. A request is named after its container and its resource: `container-0-request-1` is
//! the first container's, init containers counted first, for the second of all that it requests,
//! in the order of names. All of that is as kube-scheduler has it: users see the names.
//!
//! Where several classes name one resource, the newest backs it, then the one of the lower name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{
    ClaimSpec, DeviceAsk, DeviceCount, ExtendedClaim, PodClaim, RequestMapping, RequestSpec, Text,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::claim::{self, Classes};
use super::queries::{Queries, renew};
use super::{Claimant, DeviceDirectory, EXTENDED};
use crate::api::devices as api;
use crate::api::pod::{Container, PodSpec};
use crate::convert::requests;
use crate::convert::sharing::Shared;

/// Marks the claim that a scheduler made for a pod's extended resources.
pub const ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";

/// The extended resource of a class that names none is this, then its name.
pub const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// Between the name of a pod and what makes the name of its claim the only one.
pub const INFIX: &str = "-extended-resources-";

/// What the containers of a pod ask for of extended resources, whatever backs those.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExtendedDraft {
    /// In the order of names.
    requests: Vec<Request>,
    /// By resource, first those of containers that run together.
    mappings: Vec<RequestMapping>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    name: Text,
    resource: Text,
    count: u64,
}

/// A container that asks for extended resources.
struct Asks<'a> {
    name: &'a str,
    /// It ends before the next one starts.
    passes: bool,
    /// Amounts by resource, with the name that a request for it has.
    amounts: BTreeMap<Text, (u64, Text)>,
}

/// Whether a class may back a resource of this name: an extended one, as API servers tell them.
fn may_be_backed(resource: &str) -> bool {
    let native = !resource.contains('/') || resource.contains("kubernetes.io/");
    (!native && !resource.starts_with("requests.")) || resource.starts_with(IMPLICIT)
}

/// What a pod's containers ask for of extended resources; `None`: nothing.
pub fn draft(spec: &PodSpec, shared: &mut Shared) -> Option<ExtendedDraft> {
    let all = || spec.init_containers.iter().chain(&spec.containers);
    let named = |container: &Container| {
        let lists = [&container.resources.requests, &container.resources.limits];
        lists.iter().any(|list| list.keys().any(|name| may_be_backed(name)))
    };
    if !all().any(named) {
        return None;
    }
    let mut containers = Vec::new();
    for (at, container) in all().enumerate() {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        let passes = at < spec.init_containers.len() && !sidecar;
        let asked = requests::defaulted(&container.resources);
        let mut amounts = BTreeMap::new();
        for (position, (resource, amount)) in asked.into_iter().enumerate() {
            let count = u64::try_from(amount).unwrap_or(0);
            if count > 0 && may_be_backed(&resource) {
                shared.implicit |= resource.starts_with(IMPLICIT);
                let name = shared.texts.text(&format!("container-{at}-request-{position}"));
                amounts.insert(resource, (count, name));
            }
        }
        containers.push(Asks { name: &container.name, passes, amounts });
    }
    let resources: BTreeSet<&Text> = containers.iter().flat_map(|one| one.amounts.keys()).collect();
    let mut draft = ExtendedDraft::default();
    for resource in resources {
        draft.add(resource, &containers, shared);
    }
    draft.requests.sort();
    (!draft.requests.is_empty()).then_some(draft)
}

impl ExtendedDraft {
    /// What containers ask for of one resource.
    fn add(&mut self, resource: &Text, containers: &[Asks<'_>], shared: &mut Shared) {
        let mut mapping = |container: &Asks<'_>, request: &Text| RequestMapping {
            container: shared.texts.text(container.name),
            resource: resource.clone(),
            request: request.clone(),
        };
        // Of each container that stays.
        let mut own: Vec<Option<&(u64, Text)>> = vec![None; containers.len()];
        for (at, container) in containers.iter().enumerate().filter(|(_, one)| !one.passes) {
            own[at] = container.amounts.get(resource);
            self.mappings.extend(own[at].map(|(_, name)| mapping(container, name)));
        }
        let mut largest: Option<(u64, &Text)> = None;
        let (mut reused, mut more) = (Vec::new(), Vec::new());
        for (at, container) in containers.iter().enumerate().filter(|(_, one)| one.passes) {
            let Some((asked, name)) = container.amounts.get(resource) else { continue };
            let mut lacking = *asked;
            for (count, name) in own[at..].iter().flatten() {
                if lacking == 0 {
                    break;
                }
                reused.push((at, reused.len(), mapping(container, name)));
                lacking = lacking.saturating_sub(*count);
            }
            if lacking > 0 {
                more.push((at, container));
                if largest.is_none_or(|(most, _)| most < lacking) {
                    largest = Some((lacking, name));
                }
            }
        }
        if let Some((count, name)) = largest {
            self.requests.push(Request { name: name.clone(), resource: resource.clone(), count });
            for (at, container) in more {
                reused.push((at, usize::MAX, mapping(container, name)));
            }
        }
        reused.sort_by_key(|(container, nth, _)| (*container, *nth));
        self.mappings.extend(reused.into_iter().map(|(.., mapping)| mapping));
        let own = own.into_iter().flatten();
        self.requests.extend(own.map(|(count, name)| Request {
            name: name.clone(),
            resource: resource.clone(),
            count: *count,
        }));
    }

    /// The resources, repeats possible.
    pub fn resources(&self) -> impl Iterator<Item = &Text> {
        self.requests.iter().map(|request| &request.resource)
    }
}

/// Which classes back which extended resources.
#[derive(Debug, Default)]
pub struct Backing {
    known: BTreeMap<Text, Backed>,
    /// Resources of classes that name none are known, too.
    implicit: bool,
}

/// What backs a resource.
#[derive(Debug)]
struct Backed {
    class: Text,
    /// A claim for one device.
    spec: Arc<ClaimSpec>,
}

impl Backing {
    /// Whether it has to be settled though no class changed: pods name classes by now.
    pub fn is_stale(&self, shared: &Shared) -> bool {
        self.implicit != shared.implicit
    }

    /// Classes changed. Resources that are backed otherwise now, and queries that nobody asks.
    pub fn settle(
        &mut self,
        classes: &Classes,
        queries: &mut Queries,
        shared: &mut Shared,
    ) -> (BTreeSet<Text>, Vec<Text>) {
        self.implicit = shared.implicit;
        let mut newest: BTreeMap<Text, (Option<&Time>, &Text)> = BTreeMap::new();
        for (name, class) in classes {
            if let Some(resource) = &class.resource {
                let best = newest.entry(resource.clone()).or_insert((class.created.as_ref(), name));
                // Names come in order: of two as old, the first stays.
                if class.created.as_ref() > best.0 {
                    *best = (class.created.as_ref(), name);
                }
            }
            if self.implicit {
                newest.insert(shared.texts.text(&format!("{IMPLICIT}{name}")), (None, name));
            }
        }
        let (mut changed, mut unasked) = (BTreeSet::new(), Vec::new());
        self.known.retain(|resource, backed| {
            let stays = newest.contains_key(resource);
            if !stays {
                unasked.extend(queries.remove(&backed.spec));
                changed.insert(resource.clone());
            }
            stays
        });
        for (resource, (_, class)) in newest {
            let new = claim::spec(&one_of(class), classes);
            let empty = || Backed { class: class.clone(), spec: Arc::default() };
            let backed = self.known.entry(resource.clone()).or_insert_with(empty);
            if backed.class != *class || *backed.spec != new {
                backed.class = class.clone();
                unasked.extend(renew(&mut backed.spec, new, queries, shared));
                changed.insert(resource);
            }
        }
        (changed, unasked)
    }

    /// Whether nothing is backed.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// All resources that are backed.
    pub fn resources(&self) -> BTreeSet<Text> {
        self.known.keys().cloned().collect()
    }

    /// Whether devices may have a say in a draft.
    pub fn concerns(&self, draft: &ExtendedDraft) -> bool {
        !self.known.is_empty() && draft.resources().any(|name| self.known.contains_key(name))
    }

    /// What a pod asks of devices.
    pub fn claim(&self, draft: &ExtendedDraft) -> ExtendedClaim {
        let mut claim = ExtendedClaim::default();
        for request in &draft.requests {
            let Some(backed) = self.known.get(&request.resource) else { continue };
            let fault = backed.spec.fault.clone();
            claim.spec.fault = claim.spec.fault.or(fault);
            let one = backed.spec.requests.iter().flat_map(|request| &request.options);
            let options = one.map(|ask| DeviceAsk {
                name: request.name.clone(),
                count: DeviceCount::Exactly(request.count),
                ..ask.clone()
            });
            let options = options.collect();
            claim.spec.requests.push(RequestSpec { name: request.name.clone(), options });
            claim.resources.push(request.resource.clone());
            claim.classes.push(backed.class.clone());
        }
        let backed = |mapping: &&RequestMapping| self.known.contains_key(&mapping.resource);
        claim.mappings = draft.mappings.iter().filter(backed).cloned().collect();
        claim
    }
}

impl DeviceDirectory {
    /// The claim for a pod's extended resources, and its name; `None`: it needs none.
    ///
    /// A pod that is not bound needs one on some nodes, and its name is known beforehand. One that
    /// is bound has it, or needs none where it is.
    pub(super) fn extended(
        &self,
        draft: Option<&ExtendedDraft>,
        made: &Option<Text>,
        pod: &Claimant<'_>,
        shared: &mut Shared,
    ) -> Option<(PodClaim, Text)> {
        let there = self.special.get(pod.uid).map(|(_, name)| name);
        let backed = draft.filter(|draft| self.backing.concerns(draft));
        let claim = backed.map(|draft| shared.extended.of(self.backing.claim(draft)));
        let name = there.cloned();
        if pod.bound {
            let name = name.or_else(|| made.clone());
            return match (claim, name) {
                (Some(claim), name) => {
                    let name = name.unwrap_or_default();
                    Some((PodClaim::Extended { claim, left: false }, name))
                }
                (None, Some(name)) => {
                    let (of, spec) = (shared.texts.text(EXTENDED), Arc::default());
                    Some((PodClaim::Own { name: of, spec }, name))
                }
                (None, None) => None,
            };
        }
        if claim.is_none() && there.is_none() {
            return None;
        }
        let name = name.unwrap_or_else(|| claim_name(pod.name, pod.uid));
        let (claim, left) = (claim.unwrap_or_default(), there.is_some());
        Some((PodClaim::Extended { claim, left }, name))
    }
}

/// A claim for one device of a class.
fn one_of(class: &str) -> api::ClaimSpec {
    let exactly = api::Exactly { device_class_name: class.to_owned(), ..api::Exactly::default() };
    let name = class.to_owned();
    let request = api::Request { name, exactly: Some(exactly), first_available: Vec::new() };
    let devices = api::ClaimDevices { requests: vec![request], constraints: Vec::new() };
    api::ClaimSpec { devices }
}

/// Characters that generated names end with.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// So many of them: even ten thousand pods whose names are cut off alike get names of their own.
const SUFFIX: usize = 10;
/// Longest name of a claim that API servers generate.
const NAME_MAX: usize = 63;

/// The name of a pod's claim for extended resources. It follows from the pod, so that a try that
/// comes twice, after a lost answer or a crash, makes one claim.
pub fn claim_name(pod: &str, uid: &str) -> Text {
    // FNV-1a, 64 bits.
    let mut hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut name = format!("{pod}{INFIX}");
    let mut length = name.len().min(NAME_MAX - SUFFIX);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    name.truncate(length);
    for _ in 0..SUFFIX {
        let count = ALPHABET.len() as u64;
        name.push(char::from(ALPHABET[(hash % count) as usize]));
        hash /= count;
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn drafted(spec: Value) -> Option<ExtendedDraft> {
        let spec: PodSpec = serde_json::from_value(spec).expect("spec");
        draft(&spec, &mut Shared::default())
    }

    fn asks(amount: u64) -> Value {
        let requests = json!({ "cpu": "1", "example.com/gpu": amount });
        json!({ "name": "c", "resources": { "requests": requests } })
    }

    fn init(name: &str, amount: u64) -> Value {
        json!({ "name": name, "resources": { "requests": { "example.com/gpu": amount } } })
    }

    fn requests(draft: &ExtendedDraft) -> Vec<(&str, u64)> {
        draft.requests.iter().map(|request| (&*request.name, request.count)).collect()
    }

    fn mappings(draft: &ExtendedDraft) -> Vec<(&str, &str)> {
        draft.mappings.iter().map(|one| (&*one.container, &*one.request)).collect()
    }

    #[test]
    fn a_request_is_named_after_its_container_and_its_resource() {
        let limits = json!({ "name": "d", "resources": {
            "limits": { "cpu": "1", "a.com/x": 2, "example.com/gpu": 3, "memory": "1Gi" } } });
        let found = drafted(json!({ "containers": [asks(1), limits] })).expect("asks");
        let of = [("container-0-request-1", 1), ("container-1-request-0", 2)];
        assert_eq!(requests(&found), [of[0], of[1], ("container-1-request-2", 3)]);
        let by = [("d", "container-1-request-0"), ("c", "container-0-request-1")];
        assert_eq!(mappings(&found), [by[0], by[1], ("d", "container-1-request-2")]);
    }

    #[test]
    fn native_resources_and_none_of_one_ask_for_nothing() {
        let zero = json!({ "resources": { "requests": { "example.com/gpu": 0, "cpu": "1",
            "hugepages-2Mi": "2Mi", "x.kubernetes.io/y": 1 } } });
        assert_eq!(drafted(json!({ "containers": [zero] })), None);
        assert_eq!(drafted(json!({ "containers": [{}] })), None);
        let implicit = json!({ "resources": { "limits": {
            "deviceclass.resource.kubernetes.io/gpu": 1 } } });
        assert!(drafted(json!({ "containers": [implicit] })).is_some());
    }

    #[test]
    fn init_containers_use_what_comes_after_them_and_share_the_rest() {
        let found = drafted(json!({
            "initContainers": [init("a", 5), init("b", 3), init("e", 1)],
            "containers": [asks(2)],
        }));
        let found = found.expect("asks");
        // Three more for the first serve the second, which needs one more, too.
        let of = [("container-0-request-0", 3), ("container-3-request-1", 2)];
        assert_eq!(requests(&found), of);
        let (own, more) = ("container-3-request-1", "container-0-request-0");
        let by = [("c", own), ("a", own), ("a", more), ("b", own), ("b", more), ("e", own)];
        assert_eq!(mappings(&found), by);
    }

    #[test]
    fn sidecars_keep_theirs_and_lend_them_to_who_starts_before() {
        let mut sidecar = init("s", 1);
        sidecar["restartPolicy"] = json!("Always");
        let found = drafted(json!({
            "initContainers": [init("a", 2), sidecar, init("b", 2)],
            "containers": [asks(1)],
        }));
        let found = found.expect("asks");
        let of = [("container-1-request-0", 1), ("container-2-request-0", 1)];
        assert_eq!(requests(&found), [of[0], of[1], ("container-3-request-1", 1)]);
        let (side, own, more) =
            ("container-1-request-0", "container-3-request-1", "container-2-request-0");
        let by = [("s", side), ("c", own), ("a", side), ("a", own), ("b", own), ("b", more)];
        assert_eq!(mappings(&found), by);
    }

    #[test]
    fn a_claim_is_named_after_its_pod_and_no_other() {
        let name = claim_name("p", "u1");
        assert!(name.starts_with("p-extended-resources-") && name.len() == 31, "{name}");
        assert_eq!(claim_name("p", "u1"), name);
        assert_ne!(claim_name("p", "u2"), name);
        let long = claim_name(&"x".repeat(200), "u1");
        assert_eq!((long.len(), &long[53..]), (63, &name[21..]));
    }
}
