//! Placeholder of the configuration: only what [`crate::prices`] and [`crate::cli`] read.

use std::collections::BTreeMap;

use capstan_core::model::input::CapacityType;
use capstan_core::money::MicroUsd;

/// What the configuration says about prices.
#[derive(Clone, Debug, Default)]
pub struct PriceConfig {
    /// The price list, in file order.
    pub list: Vec<PriceRule>,
    /// More label keys that say how a node is bought, first hit wins.
    pub capacity_keys: Vec<CapacityKey>,
    /// What a reserved node costs.
    pub reserved_usd_per_hour: Option<MicroUsd>,
}

/// One line of the price list.
#[derive(Clone, Debug, Default)]
pub struct PriceRule {
    /// Instance type.
    pub instance_type: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Zone.
    pub zone: Option<String>,
    /// How it is bought.
    pub capacity_type: Option<CapacityType>,
    /// Labels that the node must have.
    pub node_labels: BTreeMap<String, String>,
    /// Price of the whole node.
    pub per_hour: MicroUsd,
}

/// A label key that says how nodes are bought.
#[derive(Clone, Debug, Default)]
pub struct CapacityKey {
    /// Label key.
    pub key: String,
    /// Label value to capacity type.
    pub values: BTreeMap<String, CapacityType>,
}
