//! Nodes.
//!
//! Decides what a node has when it does not say: allocatable, else capacity, else no limit on
//! what every node has and nothing of anything else. Conditions are not looked at. Of images only
//! those are kept that could matter to anybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{Amounts, Images, Labels, NodeFacts, Text, UNLIMITED};

use super::Refusal;
use super::marks;
use super::note;
use super::selector::taints;
use super::sharing::Shared;
use crate::api::node::{Node, NodeStatus};
use crate::config::PriceConfig;
use crate::prices::{PRICE_ANNOTATION, economics, parse_usd};
use crate::quantity::Quantity;

/// What every node has, without limit where nothing is stated.
const UNSTATED: [&str; 4] = ["cpu", "ephemeral-storage", "memory", "pods"];

/// Bytes of an image below which it is not kept: kube-scheduler values no sum of them either.
const IMAGE_LEAST: i64 = 23 << 20;

/// The facts of a node.
pub fn facts(node: &Node, prices: &PriceConfig, shared: &mut Shared) -> NodeFacts {
    let labels = marks::labels(&node.metadata.labels, shared);
    let annotations = marks::labels(&node.metadata.annotations, shared);
    let economics = economics(&labels, &annotations, prices);
    NodeFacts {
        name: shared.texts.text(marks::name(&node.metadata)),
        labels,
        taints: taints(&node.spec.taints),
        unschedulable: node.spec.unschedulable,
        allocatable: allocatable(&node.status, shared),
        features: features(&node.status, shared),
        images: images(&node.status, shared),
        capacity_type: economics.capacity_type,
        price: economics.price,
    }
}

/// Gives facts the price that holds now; `false`: that is what they had.
pub fn price(facts: &mut Arc<NodeFacts>, annotations: &Labels, prices: &PriceConfig) -> bool {
    let now = economics(&facts.labels, annotations, prices);
    let changed = (facts.capacity_type, &facts.price) != (now.capacity_type, &now.price);
    if changed {
        let facts = Arc::make_mut(facts);
        (facts.capacity_type, facts.price) = (now.capacity_type, now.price);
    }
    changed
}

/// What is said of a node that is taken in nonetheless: its price may not be readable.
pub fn remark(node: &Node) -> Option<String> {
    let text = node.metadata.annotations.as_ref()?.get(PRICE_ANNOTATION)?;
    let wanted = "US dollars an hour (try 3.06)";
    let unread = parse_usd(text.trim()).is_none();
    unread.then(|| note::malformed(PRICE_ANNOTATION, text, wanted).to_string())
}

/// What an API server would not take in a node, beyond wrong types.
pub fn refuse(node: &Node) -> Result<(), Vec<Refusal>> {
    let status = &node.status;
    let refusals: Vec<Refusal> = Refusal::negative(&status.allocatable, "status.allocatable")
        .chain(Refusal::negative(&status.capacity, "status.capacity"))
        .collect();
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

fn features(status: &NodeStatus, shared: &mut Shared) -> Vec<Text> {
    let mut all: Vec<Text> =
        status.declared_features.iter().map(|name| shared.texts.text(name)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn images(status: &NodeStatus, shared: &mut Shared) -> Arc<Images> {
    let large = status.images.iter().filter(|image| image.size_bytes >= IMAGE_LEAST);
    let mut all = Images::new();
    for image in large {
        let names = image.names.iter();
        all.extend(names.map(|name| (shared.texts.text(name), image.size_bytes)));
    }
    shared.images.of(all)
}

fn allocatable(status: &NodeStatus, shared: &mut Shared) -> Amounts {
    let stated: &BTreeMap<String, Quantity> =
        if status.allocatable.is_empty() { &status.capacity } else { &status.allocatable };
    if stated.is_empty() {
        return UNSTATED.iter().map(|name| (shared.texts.text(name), UNLIMITED)).collect();
    }
    // What is stated has an end, however large.
    let amount = |quantity: &Quantity, name: &str| quantity.amount_of(name).min(UNLIMITED - 1);
    stated
        .iter()
        .map(|(name, quantity)| (shared.texts.text(name), amount(quantity, name)))
        .filter(|(_, amount)| *amount > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(node: Value) -> NodeFacts {
        let node: Node = serde_json::from_value(node).expect("node");
        facts(&node, &PriceConfig::default(), &mut Shared::default())
    }

    fn amount(facts: &NodeFacts, resource: &str) -> i64 {
        facts.allocatable.get(resource).copied().unwrap_or(0)
    }

    #[test]
    fn what_is_stated_is_not_unlimited() {
        let stated = json!({"allocatable": {"cpu": "1e300"}});
        let facts = read(json!({"metadata": {"name": "n"}, "status": stated}));
        assert_eq!(amount(&facts, "cpu"), UNLIMITED - 1);
    }

    #[test]
    fn allocatable_goes_before_capacity() {
        let status = json!({ "allocatable": { "cpu": "1" }, "capacity": { "cpu": 2, "pods": 9 } });
        let facts = read(json!({ "metadata": { "name": "n" }, "status": status }));
        assert_eq!((amount(&facts, "cpu"), amount(&facts, "pods")), (1_000, 0));
        let status = json!({ "capacity": { "cpu": "100k" } });
        let facts = read(json!({ "metadata": { "name": "n" }, "status": status }));
        assert_eq!(amount(&facts, "cpu"), 100_000_000);
    }

    #[test]
    fn a_node_that_states_nothing_has_no_limits_and_no_devices() {
        let facts = read(json!({ "metadata": { "name": "n" } }));
        assert!(UNSTATED.iter().all(|name| amount(&facts, name) == UNLIMITED));
        assert_eq!(amount(&facts, "nvidia.com/gpu"), 0);
    }

    #[test]
    fn amounts_below_zero_are_refused_by_field() {
        let status =
            json!({ "allocatable": { "cpu": "-3" }, "capacity": { "nvidia.com/gpu": -1 } });
        let node: Node = serde_json::from_value(json!({ "status": status })).expect("node");
        let refusals = refuse(&node).expect_err("refused");
        assert_eq!(refusals[0].path, "status.allocatable.cpu");
        assert_eq!(refusals[0].problem, "-3 is below zero; an amount is 0 or more");
        assert_eq!(refusals[1].path, r#"status.capacity["nvidia.com/gpu"]"#);
    }

    #[test]
    fn taints_and_cordons_are_read() {
        let spec = json!({
            "unschedulable": true,
            "taints": [{ "key": "k", "value": "v", "effect": "NoExecute" }],
        });
        let facts = read(json!({ "metadata": { "name": "n", "labels": { "a": "b" } },
            "spec": spec }));
        assert!(facts.unschedulable);
        assert_eq!(facts.taints.len(), 1);
        assert_eq!(facts.labels.get("a").map(|value| &**value), Some("b"));
    }
}
