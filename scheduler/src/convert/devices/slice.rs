//! ResourceSlices: facts of devices, and devices as selectors see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{
    Attribute, Capacity, CapacityPolicy, CapacityRange, DeviceFacts, Nano, Reach, ReadyWhen,
    SliceFacts, Taint, TaintEffect, Text,
};
use k8s_openapi::api::core::v1::NodeSelector;

use crate::api::devices::{self as api, ResourceSlice};
use crate::cel::{Amount, Key, Map, Semver, Value};
use crate::convert::sharing::Shared;
use crate::convert::{marks, selector};
use crate::quantity::Quantity;

/// The facts of a slice.
pub fn facts(slice: &ResourceSlice, shared: &mut Shared) -> SliceFacts {
    let spec = &slice.spec;
    // Slices with counters have no devices; older ones that do are read as kube-scheduler does.
    let devices = if spec.shared_counters.is_empty() { spec.devices.as_slice() } else { &[] };
    let nodes = match spec.per_device_node_selection {
        Some(true) => Reach::PerDevice,
        _ => reach(&spec.node_name, &spec.node_selector, spec.all_nodes, shared),
    };
    let counters = spec.shared_counters.iter().map(|set| {
        let values = set.counters.iter();
        let values = values.map(|(name, counter)| (shared.texts.text(name), nano(counter.value)));
        let values: BTreeMap<Text, Nano> = values.collect();
        (shared.texts.text(&set.name), values)
    });
    let counters = counters.collect();
    SliceFacts {
        name: marks::name(&slice.metadata).into(),
        driver: shared.texts.text(&spec.driver),
        pool: shared.texts.text(&spec.pool.name),
        generation: spec.pool.generation,
        slices: spec.pool.resource_slice_count,
        nodes,
        devices: devices.iter().map(|one| device(one, shared)).collect(),
        counters,
    }
}

/// An amount, exact.
pub fn nano(quantity: Quantity) -> Nano {
    Nano(quantity.nano())
}

fn reach(
    node: &Option<String>,
    selected: &Option<NodeSelector>,
    all: Option<bool>,
    shared: &mut Shared,
) -> Reach {
    match (node.as_deref().filter(|node| !node.is_empty()), all, selected) {
        (Some(node), ..) => Reach::Node(shared.texts.text(node)),
        (None, Some(true), _) => Reach::Everywhere,
        (None, _, Some(selected)) => Reach::Selected(selector::node_selector(selected)),
        (None, _, None) => Reach::Nowhere,
    }
}

fn device(device: &api::Device, shared: &mut Shared) -> DeviceFacts {
    let own = reach(&device.node_name, &device.node_selector, device.all_nodes, shared);
    let taints = device.taints.iter().filter_map(|taint| {
        let effect = selector::effect(&taint.effect)?;
        (effect != TaintEffect::PreferNoSchedule).then(|| Taint {
            key: shared.texts.text(&taint.key),
            value: shared.texts.text(&taint.value),
            effect,
        })
    });
    let taints = taints.collect();
    let mut consumes = Vec::new();
    for consumption in &device.consumes_counters {
        for (counter, amount) in &consumption.counters {
            let set = shared.texts.text(&consumption.counter_set);
            consumes.push((set, shared.texts.text(counter), nano(amount.value)));
        }
    }
    let attributes = device.attributes.iter();
    let attributes = attributes
        .filter_map(|(name, value)| Some((shared.texts.text(name), attribute(value, shared)?)))
        .collect();
    let capacity = device.capacity.iter();
    let capacity =
        capacity.map(|(name, one)| (shared.texts.text(name), capacity_of(one))).collect();
    DeviceFacts {
        name: shared.texts.text(&device.name),
        nodes: (own != Reach::Nowhere).then_some(own),
        attributes,
        taints,
        consumes,
        shared: device.allow_multiple_allocations == Some(true),
        capacity,
        ready_when: ready_when(device, shared),
        binds: device.binds_to_node,
    }
}

fn ready_when(device: &api::Device, shared: &mut Shared) -> Option<Arc<ReadyWhen>> {
    if device.binding_conditions.is_empty() {
        return None;
    }
    let mut texts = |all: &[String]| all.iter().map(|one| shared.texts.text(one)).collect();
    let conditions = texts(&device.binding_conditions);
    let failures = texts(&device.binding_failure_conditions);
    Some(Arc::new(ReadyWhen { conditions, failures }))
}

fn attribute(value: &api::Attribute, shared: &mut Shared) -> Option<Attribute> {
    let api::Attribute { ints, bools, strings, versions, .. } = value;
    let mut list: Vec<Attribute> = ints.iter().map(|one| Attribute::Int(*one)).collect();
    list.extend(bools.iter().map(|one| Attribute::Bool(*one)));
    list.extend(strings.iter().map(|one| Attribute::Text(shared.texts.text(one))));
    list.extend(versions.iter().map(|one| Attribute::Version(shared.texts.text(one))));
    if !list.is_empty() {
        return Some(Attribute::List(list));
    }
    match value {
        api::Attribute { int: Some(value), .. } => Some(Attribute::Int(*value)),
        api::Attribute { bool: Some(value), .. } => Some(Attribute::Bool(*value)),
        api::Attribute { string: Some(text), .. } => Some(Attribute::Text(shared.texts.text(text))),
        api::Attribute { version: Some(text), .. } => {
            Some(Attribute::Version(shared.texts.text(text)))
        }
        _ => None,
    }
}

fn capacity_of(capacity: &api::Capacity) -> Capacity {
    let policy = capacity.request_policy.as_ref().map(|policy| CapacityPolicy {
        default: policy.default.map(nano),
        values: policy.valid_values.iter().copied().map(nano).collect(),
        range: policy.valid_range.as_ref().map(|range| CapacityRange {
            min: nano(range.min),
            max: range.max.map(nano),
            step: range.step.map(nano),
        }),
    });
    Capacity { value: nano(capacity.value), policy }
}

/// A device as an expression sees it, under the name `device`.
pub fn value(slice: &SliceFacts, device: &DeviceFacts) -> Value {
    let driver = &slice.driver;
    let attributes = device.attributes.iter().map(|(name, one)| (name, attribute_value(one)));
    let amount = |one: &Capacity| Amount::kept(Quantity::of_nano(one.value.0));
    let quantity = |one: &Capacity| Value::Quantity(Arc::new(amount(one)));
    let capacity = device.capacity.iter().map(|(name, one)| (name, quantity(one)));
    let fields = [
        ("driver", Value::Text(driver.clone())),
        ("allowMultipleAllocations", Value::Bool(device.shared)),
        ("attributes", by_domain(driver, attributes)),
        ("capacity", by_domain(driver, capacity)),
    ];
    let entries = fields.into_iter().map(|(name, value)| (Key::Text(name.into()), value));
    Value::Map(Arc::new(Map { entries: entries.collect(), open: false }))
}

fn attribute_value(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Int(value) => Value::Int(*value),
        Attribute::Bool(value) => Value::Bool(*value),
        Attribute::Text(text) => Value::Text(text.clone()),
        // An API server takes no other text for a version.
        Attribute::Version(text) => match Semver::parse(text, false) {
            Some(version) => Value::Semver(Arc::new(version)),
            None => Value::Text(text.clone()),
        },
        Attribute::List(all) => Value::List(Arc::new(all.iter().map(attribute_value).collect())),
    }
}

/// The domain of a name, and the name in it.
pub fn in_domain(driver: &Text, name: &Text) -> (Text, Text) {
    match name.split_once('/') {
        Some((domain, name)) => (domain.into(), name.into()),
        None => (driver.clone(), name.clone()),
    }
}

/// Names with a domain apart from those of other domains; without one they are the driver's.
fn by_domain<'a>(driver: &Text, all: impl Iterator<Item = (&'a Text, Value)>) -> Value {
    let mut domains: BTreeMap<Key, BTreeMap<Key, Value>> = BTreeMap::new();
    for (name, value) in all {
        let (domain, name) = in_domain(driver, name);
        domains.entry(Key::Text(domain)).or_default().insert(Key::Text(name), value);
    }
    let entries = domains
        .into_iter()
        .map(|(domain, entries)| (domain, Value::Map(Arc::new(Map { entries, open: false }))));
    Value::Map(Arc::new(Map { entries: entries.collect(), open: true }))
}
