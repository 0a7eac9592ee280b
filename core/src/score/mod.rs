//! Scores: which of the feasible nodes is best.
//!
//! Named integer terms, each 0..=1000 with a documented meaning, are multiplied by the weights of
//! a profile and added. A term depends on pod class and the state of nodes only, never on which of
//! them are candidates, so a node's score can be kept. Terms split into those that depend on facts
//! of the node (kept per class and node until it changes; when the share of nodes that have an
//! image is another one, what that makes is added; when the most that any has of what is preferred
//! is, all are scored anew), those that depend on holdings, and those of
//! pods around, which change with other nodes of a domain, and for all nodes with the scale of a
//! class.
//!
//! | term | 1000 means | 0 means |
//! |---|---|---|
//! | `cost` | the share used costs nothing | it costs about $1,000 an hour; 50 less per doubling |
//! | `capacity` | first of the workload's allow-list, or reserved | last choice |
//! | `locality` | the gang is on one node | the gang shares no known domain |
//! | `packing` | the pod's scarcest resource is in full use | the node is unused |
//! | `gpuFit` | no GPU of the node stays idle | all stay idle |
//! | `softTaints` | no untolerated PreferNoSchedule taint | a thousand; one is half of none |
//! | `nodeAffinity` | no node has more of what is preferred of nodes | nothing of it |
//! | `podAffinity` | no node is preferred more for the pods around it | none is less |
//! | `topologySpread` | no domain is emptier, by its ScheduleAnyway constraints | none is fuller |
//! | `deviceChoice` | of devices its claims get what they list first | they get what comes last |
//! | `imageLocality` | 1000 MiB a container, times the share of nodes that have them | 23 MiB |
//! | `storageCapacity` | what is made for its claims takes nothing of what is left | it takes all |
//!
//! A term that a pod has no use for (it prefers nothing) counts neither as good nor as bad.
//!
//! Locality is a property of the gang's domain, not of a node: it chooses the domain
//! ([`crate::place`]) and is the same for all nodes in it.

mod device_choice;
mod images;
mod node_affinity;
mod pods_around;
mod storage_capacity;

pub use images::worth as worth_of_images;
pub use node_affinity::wishes_met;
pub use pods_around::terms as terms_around;

use capstan_topology::UNLIMITED;

use crate::explain::view::{ScoreView, TermView};
use crate::model::input::{CapacityType, TaintEffect};
use crate::money::MicroUsd;
use crate::resources;
use crate::rules::{Question, taints};

/// Weights of the score terms; 0 switches a term off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Price of the share of the node used.
    pub cost: u32,
    /// Capacity type against the workload's list.
    pub capacity: u32,
    /// How close together a gang is; 0: gangs take the best nodes wherever they are.
    pub locality: u32,
    /// Fill used nodes first, keep whole nodes free.
    pub packing: u32,
    /// Do not break a fuller node than needed.
    pub gpu_fit: u32,
    /// PreferNoSchedule taints.
    pub soft_taints: u32,
    /// Preferred node affinity.
    pub node_affinity: u32,
    /// Images that are there.
    pub image_locality: u32,
    /// Preferred pod affinity and anti-affinity.
    pub pod_affinity: u32,
    /// ScheduleAnyway spread constraints.
    pub topology_spread: u32,
    /// What claims on devices list first.
    pub device_choice: u32,
    /// Storage that is left where volumes are made for the pod.
    pub storage_capacity: u32,
}

impl Weights {
    /// Largest weight that a configuration may set.
    pub const MAX: u32 = 100;
}

impl Default for Weights {
    fn default() -> Weights {
        Weights {
            cost: 4,
            capacity: 2,
            locality: 3,
            packing: 2,
            gpu_fit: 2,
            soft_taints: 3,
            // A wish of a pod's author outweighs how we would fill nodes.
            node_affinity: 5,
            image_locality: 1,
            pod_affinity: 5,
            topology_spread: 5,
            device_choice: 5,
            storage_capacity: 1,
        }
    }
}

/// The best value of a term.
pub const FULL: u32 = 1_000;
/// A term that nothing is known about.
pub const NEUTRAL: u32 = 500;

/// Weighted sum of the terms that depend on facts; `shares`: of nodes that have the pod's images;
/// `wished`: the most that any node has of what is preferred of nodes.
pub fn fact_terms(
    question: &Question<'_>,
    weights: &Weights,
    (shares, wished): (&[u32], u64),
) -> u32 {
    weights.cost * cost(question)
        + weights.capacity * capacity(question)
        + weights.soft_taints * soft_taints(question)
        + weights.node_affinity * node_affinity::value(question, wished).unwrap_or(0)
        + weights.image_locality * images::value(question, shares).unwrap_or(0)
}

/// Weighted sum of the terms that depend on holdings.
#[inline]
pub fn holding_terms(question: &Question<'_>, weights: &Weights) -> u32 {
    let chosen = match weights.device_choice {
        0 => 0,
        weight => weight * device_choice::value(question).unwrap_or(0),
    };
    let left = match weights.storage_capacity {
        0 => 0,
        weight => weight * storage_capacity::value(question).unwrap_or(0),
    };
    weights.packing * packing(question) + weights.gpu_fit * gpu_fit(question) + chosen + left
}

/// Every term of a node's score, for people; `wished` as for [`fact_terms`].
pub fn explain(
    question: &Question<'_>,
    weights: &Weights,
    (locality, wished): (u32, u64),
) -> ScoreView {
    let term = |name, value, weight| TermView { name, value, weight };
    let mut terms = vec![
        term("cost", cost(question), weights.cost),
        term("capacity", capacity(question), weights.capacity),
        term("locality", locality, weights.locality),
        term("packing", packing(question), weights.packing),
        term("gpuFit", gpu_fit(question), weights.gpu_fit),
        term("softTaints", soft_taints(question), weights.soft_taints),
    ];
    let preferred = node_affinity::value(question, wished);
    terms.extend(preferred.map(|value| term("nodeAffinity", value, weights.node_affinity)));
    let (room, node) = (question.room, question.node);
    let near = question.neighbours.and_then(|around| pods_around::affinity(around, room, node));
    terms.extend(near.map(|value| term("podAffinity", value, weights.pod_affinity)));
    let spread = question.neighbours.and_then(|around| pods_around::spread(around, room, node));
    terms.extend(spread.map(|value| term("topologySpread", value, weights.topology_spread)));
    let chosen = device_choice::value(question);
    terms.extend(chosen.map(|value| term("deviceChoice", value, weights.device_choice)));
    let left = storage_capacity::value(question);
    terms.extend(left.map(|value| term("storageCapacity", value, weights.storage_capacity)));
    let shares = room.images.shares(&question.shape.facts.images);
    let images = images::value(question, &shares);
    terms.extend(images.map(|value| term("imageLocality", value, weights.image_locality)));
    let sum: u32 = terms.iter().map(|term| term.value * term.weight).sum();
    let weighed: u32 = terms.iter().map(|term| term.weight).sum();
    let total = sum.checked_div(weighed).unwrap_or(0);
    ScoreView { total, terms, price_unknown: hourly(question).is_none() }
}

/// Price per hour of the share of the node that one pod uses: the node's price times the largest
/// share of any resource or kind of devices that it takes. `None`: the node's price is unknown, or
/// nothing that the pod asks is limited there.
pub fn hourly(question: &Question<'_>) -> Option<MicroUsd> {
    let price = question.facts().price.as_ref()?;
    let (used, of) = question.room.share_taken(question.shape, question.node);
    match used {
        0 if price.per_hour.0 != 0 && unlimited(question) => None,
        _ => Some(price.per_hour.times(used, of)),
    }
}

/// The score of a node where nothing but its price counts: 1 less for each micro-USD an hour that a
/// pod costs there, up to $4,294. Of one whose price is not known, the least.
pub fn thrift(question: &Question<'_>) -> u32 {
    let price = hourly(question).map_or(i64::MAX, |price| price.0.max(0));
    (u32::MAX - 1).saturating_sub(u32::try_from(price).unwrap_or(u32::MAX))
}

/// Whether the node states nothing about what it has.
fn unlimited(question: &Question<'_>) -> bool {
    let cpu = question.room.ledger.allocatable(question.node, crate::resources::CPU);
    cpu == UNLIMITED
}

fn cost(question: &Question<'_>) -> u32 {
    hourly(question).map_or(NEUTRAL, price_value)
}

/// 1000 at a tenth of a cent an hour and below, 50 less for each doubling. The logarithm is
/// piecewise linear between powers of two: monotone, and equal ratios cost about equal points.
fn price_value(per_hour: MicroUsd) -> u32 {
    const CHEAPEST: u64 = 1_000;
    const POINTS_PER_DOUBLING: u64 = 50;
    let price = u64::try_from(per_hour.0).unwrap_or(0).max(CHEAPEST);
    let scaled = (u128::from(price) << 32) / u128::from(CHEAPEST);
    let whole = 127 - scaled.leading_zeros();
    let fraction = ((scaled << 16) >> whole) as u64 - (1 << 16);
    let doublings = (u64::from(whole - 32) << 16) + fraction;
    let lost = (doublings * POINTS_PER_DOUBLING) >> 16;
    FULL.saturating_sub(u32::try_from(lost).unwrap_or(FULL))
}

/// Place in the workload's ordered allow-list; without one reserved, then spot, then on-demand.
fn capacity(question: &Question<'_>) -> u32 {
    let node = question.facts().capacity_type;
    let allowed = &question.shape.facts.capacity_types;
    match allowed.iter().position(|allowed| *allowed == node) {
        Some(at) => FULL - (at as u32 * FULL / allowed.len() as u32),
        None => match node {
            CapacityType::Reserved => FULL,
            CapacityType::Spot => 700,
            CapacityType::OnDemand => 400,
            CapacityType::Unknown => 400,
        },
    }
}

fn soft_taints(question: &Question<'_>) -> u32 {
    let soft = |taint: &&crate::model::input::Taint| {
        taint.effect == TaintEffect::PreferNoSchedule && !taints::tolerated(question, taint)
    };
    let count = question.facts().taints.iter().filter(soft).count();
    // One more always counts, and the first most: kube-scheduler makes the most of the moment nil.
    FULL / u32::try_from(count + 1).unwrap_or(u32::MAX)
}

/// How much of the resource that the pod takes most of is already in use.
fn packing(question: &Question<'_>) -> u32 {
    let room = question.room;
    let (used, _, resource) = room.dominant_share(question.shape.request, question.node);
    if used == 0 {
        return 0;
    }
    let has = room.ledger.allocatable(question.node, resource);
    let free = room.ledger.free(question.node, resource).clamp(0, has);
    share(has - free, has)
}

/// How much of the node's GPUs would be in use with the pod there; a node without GPUs wastes
/// none.
fn gpu_fit(question: &Question<'_>) -> u32 {
    let room = question.room;
    let total = room.total_gpus(question.node);
    if total <= 0 {
        return FULL;
    }
    let request = room.ledger.request(question.shape.request);
    let asked = resources::total(room.resources.gpus().iter().map(|gpu| request.get(*gpu)));
    let idle = (room.idle_gpus(question.node) - asked).clamp(0, total);
    share(total - idle, total)
}

/// `part / whole` in thousandths.
fn share(part: i64, whole: i64) -> u32 {
    match part.checked_mul(FULL.into()) {
        Some(scaled) => (scaled / whole) as u32,
        // The same with as many bits as that takes.
        None => (i128::from(part) * i128::from(FULL) / i128::from(whole)) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubling_of_price_costs_fifty_points_everywhere() {
        let value = |dollars: i64| price_value(MicroUsd(dollars * 1_000_000));
        assert_eq!(price_value(MicroUsd(0)), FULL);
        assert_eq!(price_value(MicroUsd(1_000)), FULL);
        for dollars in [1, 2, 3, 8, 50] {
            let lost = value(dollars) - value(2 * dollars);
            assert!((49..=51).contains(&lost), "{dollars}: {lost}");
        }
        assert_eq!(price_value(MicroUsd(i64::MAX)), 0);
    }

    #[test]
    fn a_higher_price_is_never_worth_more() {
        let mut last = FULL;
        for step in 0..2_000_i64 {
            let value = price_value(MicroUsd(step * step * 97));
            assert!(value <= last);
            last = value;
        }
    }
}
