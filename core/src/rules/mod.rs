//! Placement rules: on which nodes a pod may run.
//!
//! One file per rule. A rule is a row of [`TABLE`]: its name, whether it reads only facts (then
//! the answer is kept per class and node) or also what pods hold, its `check`, and for rules that
//! count, how many more pods fit. The order is kube-scheduler's; on one node the first rule that
//! refuses gives the reasons. A stateful rule also exports its state with `place`, `remove` and
//! `recount` (see [`node_ports`]); what pods hold of resources is the hardware ledger's, what they
//! hold of storage is kept by [`crate::model::volumes`]. The four volume rules are asked only for
//! pods that have volumes; devices are counted last, for as many pods as all other rules leave.

use capstan_topology::NodeIdx;

use crate::explain::reason::NodeRefusal;
use crate::model::ids::FlavorIdx;
use crate::model::input::FlavorFacts;
use crate::model::room::{Room, Shape};
use crate::model::volumes::Demand;
use crate::rules::neighbours::Outlook;

pub mod capacity_type;
pub mod declared_features;
pub mod dynamic_resources;
pub mod flavor;
pub mod neighbours;
pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
pub mod node_volume_limits;
pub mod pod_affinity;
pub mod price;
pub mod resources_fit;
pub mod selector;
pub mod taints;
pub mod topology_spread;
pub mod unschedulable;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;

/// What is asked of a rule: may this kind of pod run on this node, as things are?
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// Nodes, ledger, ports.
    pub room: &'a Room,
    /// The pod's shape.
    pub shape: &'a Shape,
    /// Flavors chosen for it; their labels, taints and tolerations count.
    pub flavors: &'a [(FlavorIdx, std::sync::Arc<FlavorFacts>)],
    /// The node; always an offered one.
    pub node: NodeIdx,
    /// Pods of the same kind that are taken to be there already, beyond those that are.
    pub beside: u32,
    /// Its queue has a quota of money.
    pub pays: bool,
    /// What the pod makes of the pods around each node; `None`: nobody asks.
    pub neighbours: Option<&'a Outlook>,
    /// What its volumes mean as things are; `None`: it has none.
    pub volumes: Option<&'a Demand>,
}

impl<'a> Question<'a> {
    /// Facts of the node.
    pub fn facts(&self) -> &'a crate::model::input::NodeFacts {
        self.room.facts(self.node).expect("only offered nodes are asked about")
    }
}

/// What a rule reads, which says how long its answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Facts of the node, against what the pod's author wants: nothing that becomes of the node
    /// makes it another one.
    Wishes,
    /// Facts of node, pod and flavors only.
    Facts,
    /// Also what pods hold.
    Holdings,
}

/// One rule.
pub struct Rule {
    /// kube-scheduler's plugin name, or ours.
    pub name: &'static str,
    /// What it reads.
    pub reads: Reads,
    /// Adds its refusals; none: it accepts.
    pub check: fn(&Question<'_>, &mut Vec<NodeRefusal>),
    /// How many more pods of this kind fit, for rules that read holdings.
    pub slots: Option<fn(&Question<'_>) -> u32>,
}

const fn wishes(name: &'static str, check: fn(&Question<'_>, &mut Vec<NodeRefusal>)) -> Rule {
    Rule { name, reads: Reads::Wishes, check, slots: None }
}

const fn facts(name: &'static str, check: fn(&Question<'_>, &mut Vec<NodeRefusal>)) -> Rule {
    Rule { name, reads: Reads::Facts, check, slots: None }
}

/// A rule about volumes, which count together, or devices: for who has such (see [`slots`]).
const fn apart(name: &'static str, check: fn(&Question<'_>, &mut Vec<NodeRefusal>)) -> Rule {
    Rule { name, reads: Reads::Holdings, check, slots: None }
}

/// The rule that looks at amounts.
const ROOM: &str = "NodeResourcesFit";

/// The rules that ask who is around: their answers depend on who came first.
const AROUND: [&str; 2] = ["PodTopologySpread", "InterPodAffinity"];

/// All rules in order.
pub const TABLE: [Rule; 17] = [
    facts("NodeUnschedulable", unschedulable::check),
    wishes("NodeName", node_name::check),
    facts("TaintToleration", taints::check),
    wishes("NodeAffinity", node_affinity::check),
    facts("Flavor", flavor::check),
    wishes("CapacityType", capacity_type::check),
    facts("Price", price::check),
    Rule {
        name: "NodePorts",
        reads: Reads::Holdings,
        check: node_ports::check,
        slots: Some(node_ports::slots),
    },
    Rule {
        name: ROOM,
        reads: Reads::Holdings,
        check: resources_fit::check,
        slots: Some(resources_fit::slots),
    },
    apart("VolumeRestrictions", volume_restrictions::check),
    apart("NodeVolumeLimits", node_volume_limits::check),
    apart("VolumeBinding", volume_binding::check),
    apart("VolumeZone", volume_zone::check),
    Rule {
        name: "PodTopologySpread",
        reads: Reads::Holdings,
        check: topology_spread::check,
        slots: Some(topology_spread::slots),
    },
    Rule {
        name: "InterPodAffinity",
        reads: Reads::Holdings,
        check: pod_affinity::check,
        slots: Some(pod_affinity::slots),
    },
    apart("DynamicResources", dynamic_resources::check),
    facts("NodeDeclaredFeatures", declared_features::check),
];

/// Whether the rules that read only facts accept.
pub fn facts_accept(question: &Question<'_>, scratch: &mut Vec<NodeRefusal>) -> bool {
    scratch.clear();
    for rule in TABLE.iter().filter(|rule| rule.reads != Reads::Holdings) {
        (rule.check)(question, scratch);
        if !scratch.is_empty() {
            return false;
        }
    }
    true
}

/// Whether the pod's author excluded a node, whatever else refuses it.
pub fn is_unwanted(question: &Question<'_>, scratch: &mut Vec<NodeRefusal>) -> bool {
    scratch.clear();
    for rule in TABLE.iter().filter(|rule| rule.reads == Reads::Wishes) {
        (rule.check)(question, scratch);
    }
    !scratch.is_empty()
}

/// How many more pods of this kind fit, as far as holdings go.
#[inline]
pub fn slots(question: &Question<'_>) -> u32 {
    let mut slots = u32::MAX;
    for rule in &TABLE {
        if let Some(count) = rule.slots {
            slots = slots.min(count(question));
        }
    }
    if let Some(demand) = question.volumes.filter(|_| slots > 0) {
        slots = slots.min(slots_for_volumes(question, demand));
    }
    dynamic_resources::slots(question, slots)
}

/// How many more pods with the same volumes fit, as far as volumes go.
fn slots_for_volumes(question: &Question<'_>, demand: &Demand) -> u32 {
    let checks = [
        volume_restrictions::check,
        node_volume_limits::check,
        volume_binding::check,
        volume_zone::check,
    ];
    let mut refusals = Vec::new();
    for check in checks {
        check(question, &mut refusals);
        if !refusals.is_empty() {
            return 0;
        }
    }
    match !demand.exclusive.is_empty() || demand.clashing.is_some() {
        true => 1,
        false => u32::MAX,
    }
}

/// Rules that refuse, each by itself: a bit for each row of [`TABLE`].
pub fn refusing(question: &Question<'_>) -> u32 {
    let mut found = Vec::new();
    let mut refuses = |rule: &Rule| {
        found.clear();
        (rule.check)(question, &mut found);
        u32::from(!found.is_empty())
    };
    TABLE.iter().enumerate().fold(0, |all, (at, rule)| all | (refuses(rule) << at))
}

/// Refusals of the first rule that refuses whatever amounts are free, as things are. The rules that
/// read only facts are known to accept.
pub fn but_for_room(question: &Question<'_>, found: &mut Vec<NodeRefusal>) {
    found.clear();
    for rule in TABLE.iter().filter(|rule| rule.reads == Reads::Holdings && rule.name != ROOM) {
        (rule.check)(question, found);
        if !found.is_empty() {
            return;
        }
    }
}

/// Refusals of the first rule that refuses whoever was to be there and is about to be bound: its
/// volumes and devices are seen to by themselves. `around`: pods around are asked about as well,
/// for somebody else was looked at when the place was found.
pub fn on_bind(question: &Question<'_>, around: bool) -> Vec<NodeRefusal> {
    let mut found = Vec::new();
    let has_a_say = |rule: &&Rule| match rule.reads {
        Reads::Wishes | Reads::Facts => true,
        Reads::Holdings => rule.slots.is_some() && (around || !AROUND.contains(&rule.name)),
    };
    for rule in TABLE.iter().filter(has_a_say) {
        (rule.check)(question, &mut found);
        if !found.is_empty() {
            break;
        }
    }
    found
}

/// Refusals of the first rule that refuses; empty: the node is feasible.
pub fn verdict(question: &Question<'_>) -> Vec<NodeRefusal> {
    let mut found = Vec::new();
    refusals(question, false, &mut found);
    found
}

/// The same into a list that is used again and again. `accepted`: the rules that read only facts
/// are known to accept.
pub fn refusals(question: &Question<'_>, accepted: bool, found: &mut Vec<NodeRefusal>) {
    found.clear();
    for rule in TABLE.iter().filter(|rule| !accepted || rule.reads == Reads::Holdings) {
        (rule.check)(question, found);
        if !found.is_empty() {
            return;
        }
    }
}
