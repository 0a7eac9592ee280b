//! Facts of dynamic resource allocation: devices that drivers offer, and claims on them.
//!
//! Selectors are CEL, which the shell evaluates: a request names its selectors as one query, and
//! for each query and slice there are answers, one for each device.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{NodeSelector, Taint, Text, Toleration};
use crate::time::Time;

/// An amount exact to a billionth of a unit: capacities and counters of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nano(pub i128);

/// Namespace and name of a claim.
pub type ResourceClaimKey = (Text, Text);

/// Driver, pool and name of a device.
pub type DeviceId = (Text, Text, Text);

/// A ResourceSlice: devices of one driver that are offered together.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceFacts {
    /// Its name; the identity.
    pub name: Text,
    /// Driver.
    pub driver: Text,
    /// Pool that it is a part of.
    pub pool: Text,
    /// Generation of the pool; only the newest counts.
    pub generation: i64,
    /// Slices that the pool has in that generation.
    pub slices: i64,
    /// From where its devices can be used.
    pub nodes: Reach,
    /// Devices, in order; none where it has counters.
    pub devices: Vec<DeviceFacts>,
    /// What devices of the pool share, by set and counter.
    pub counters: Vec<(Text, BTreeMap<Text, Nano>)>,
}

/// The nodes that reach devices.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// One node.
    Node(Text),
    /// Those that a selector matches.
    Selected(NodeSelector),
    /// All of them.
    Everywhere,
    /// Each device says it for itself.
    PerDevice,
    /// Said in no way that is known: no node.
    Nowhere,
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFacts {
    /// Name within its pool.
    pub name: Text,
    /// From where it can be used, where its slice leaves that to it.
    pub nodes: Option<Reach>,
    /// Attributes by full name, `domain/name`.
    pub attributes: BTreeMap<Text, Attribute>,
    /// Taints, soft ones left out.
    pub taints: Vec<Taint>,
    /// What it takes of counters while it is in use: set, counter, amount.
    pub consumes: Vec<(Text, Text, Nano)>,
    /// Several claims may have a share of it.
    pub shared: bool,
    /// What it has to give, by name.
    pub capacity: BTreeMap<Text, Capacity>,
    /// Who has it can use it from one node only, wherever it could be used before.
    pub binds: bool,
    /// What must be said of it before a pod that uses it is bound; `None`: nothing.
    pub ready_when: Option<Arc<ReadyWhen>>,
}

/// What drivers say of a device, once a claim has it, before a pod may be bound (binding
/// conditions, KEP-5007).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyWhen {
    /// Conditions all of which must be true; never empty.
    pub conditions: Vec<Text>,
    /// Conditions of which one that is true says that they never will.
    pub failures: Vec<Text>,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// A whole number.
    Int(i64),
    /// Yes or no.
    Bool(bool),
    /// A text.
    Text(Text),
    /// A version, in its one canonical form.
    Version(Text),
    /// Several values, of one kind each of them; never empty.
    List(Vec<Attribute>),
}

impl Attribute {
    /// Its values, of which most attributes have one.
    pub fn values(&self) -> &[Attribute] {
        match self {
            Attribute::List(all) => all,
            one => std::slice::from_ref(one),
        }
    }
}

/// One thing that a device has to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// How much.
    pub value: Nano,
    /// Which shares of it may be had; `None`: any, and all of it where none is asked.
    pub policy: Option<CapacityPolicy>,
}

/// Which shares of a capacity may be had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityPolicy {
    /// What is taken where nothing is asked.
    pub default: Option<Nano>,
    /// The only amounts that can be had, ascending; empty: any.
    pub values: Vec<Nano>,
    /// Least, most, and the step between amounts.
    pub range: Option<CapacityRange>,
}

/// A range of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityRange {
    /// Least.
    pub min: Nano,
    /// Most.
    pub max: Option<Nano>,
    /// Amounts are this far apart, from the least on.
    pub step: Option<Nano>,
}

/// What the selectors of a query say of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It does not match.
    No,
    /// It matches.
    Yes,
    /// They fail on it: which selector, and how.
    Fails(Text),
    /// Nobody knows yet: they are still being evaluated on its slice.
    Awaited,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimSpec {
    /// Requests, all of which must be met.
    pub requests: Vec<RequestSpec>,
    /// What devices must have in common, or not.
    pub constraints: Vec<Constraint>,
    /// What keeps it from being allocated anywhere.
    pub fault: Option<Text>,
}

/// One request of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestSpec {
    /// Its name.
    pub name: Text,
    /// What would meet it, best first; never empty.
    pub options: Vec<DeviceAsk>,
}

/// Devices that would meet a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceAsk {
    /// `request`, or `request/option` of several.
    pub name: Text,
    /// The query that its class and its selectors make; empty: every device.
    pub query: Text,
    /// How many.
    pub count: DeviceCount,
    /// Access for administration: devices in use can be had, and are not used by it.
    pub admin: bool,
    /// Device taints that it tolerates.
    pub tolerations: Vec<Toleration>,
    /// What it asks of each device's capacity.
    pub capacity: BTreeMap<Text, Nano>,
}

/// How many devices a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceCount {
    /// So many.
    Exactly(u64),
    /// All that match.
    All,
}

/// What devices of a claim must have in common, or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    /// Requests that it is for, by name, or options as `request/option`; empty: all.
    pub requests: Vec<Text>,
    /// Full name of the attribute.
    pub attribute: Text,
    /// Values must differ; else they must be equal.
    pub distinct: bool,
}

/// A ResourceClaim.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceClaimFacts {
    /// Namespace and name; the identity.
    pub key: ResourceClaimKey,
    /// Unique id.
    pub uid: Text,
    /// It was made for one pod, and no other uses it.
    pub of_one_pod: bool,
    /// What it asks for.
    pub spec: Arc<ClaimSpec>,
    /// What it has been given.
    pub allocation: Option<Arc<Allocation>>,
}

/// What a claim has been given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Nodes that can use it; `None`: all.
    pub nodes: Option<NodeSelector>,
    /// Devices that it keeps from others; access for administration keeps none.
    pub devices: Vec<AllocatedDevice>,
    /// Whether pods that use it may be bound.
    pub readiness: Readiness,
    /// When it was given, where that is said.
    pub at: Option<Time>,
    /// Uids of those who have reserved the claim.
    pub reserved: Vec<Text>,
}

/// Whether the devices of a claim are ready for use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// They are.
    #[default]
    Ready,
    /// A device has conditions that are not true yet: which device, and which conditions.
    Waits(Text),
    /// A device never will be: which, and why.
    Failed(Text),
}

impl Readiness {
    /// A device lacks conditions: `device g0 is not Attached, Ready`.
    pub fn waits_for<'a>(device: &str, lacks: impl Iterator<Item = &'a str>) -> Readiness {
        let lacks: Vec<&str> = lacks.collect();
        Readiness::Waits(format!("device {device} is not {}", lacks.join(", ")).into())
    }
}

/// A device in use.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedDevice {
    /// Which.
    pub id: DeviceId,
    /// It has a share of it, and others may too.
    pub share: bool,
    /// What its share takes.
    pub consumed: BTreeMap<Text, Nano>,
}

/// A claim as a pod needs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodClaim {
    /// Made for this pod only and not allocated: any devices will do. Members of a gang that are
    /// alike in this are alike.
    Own {
        /// Its name in the pod.
        name: Text,
        /// What it asks for.
        spec: Arc<ClaimSpec>,
    },
    /// This very claim: others may use it too, or it has devices already.
    Named(ResourceClaimKey),
    /// The one claim that is made for all extended resources of a pod which devices back, where it
    /// goes to a node that offers them in no other way.
    Extended {
        /// What it asks for.
        claim: Arc<ExtendedClaim>,
        /// An earlier try left one: no other is made before that is gone.
        left: bool,
    },
    /// One that cannot be used as it is, and why.
    Unusable(Text),
}

/// What a pod's extended resources ask of devices, those that a class backs. On a node that offers
/// a resource itself (its device plugin does), the requests for that one are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExtendedClaim {
    /// All requests, in the order of their names.
    pub spec: ClaimSpec,
    /// The resource that each of them is for.
    pub resources: Vec<Text>,
    /// The DeviceClass that each of them names.
    pub classes: Vec<Text>,
    /// Which container uses which request for which resource.
    pub mappings: Vec<RequestMapping>,
}

/// Devices that a container uses for an extended resource: an entry of the pod's status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestMapping {
    /// Name of the container.
    pub container: Text,
    /// The extended resource.
    pub resource: Text,
    /// Name of the request.
    pub request: Text,
}
