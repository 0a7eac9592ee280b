//! Prices and capacity types as configured.

use std::collections::BTreeMap;

use capstan_core::model::input::{CapacityType, Labels, Text};
use capstan_core::money::MicroUsd;

/// What the configuration says of prices and capacity types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceConfig {
    /// Prices; the entry with the most conditions that match a node holds, the first of equals.
    pub entries: Vec<PriceEntry>,
    /// Node labels that say how a node is bought, before the well-known ones.
    pub capacity_labels: Vec<CapacityLabel>,
    /// Price of reserved capacity per node and hour, where no entry says otherwise.
    pub reserved_per_hour: MicroUsd,
}

/// One price. What is `None` or empty matches every node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceEntry {
    /// Instance type.
    pub instance_type: Option<Text>,
    /// Region.
    pub region: Option<Text>,
    /// Zone.
    pub zone: Option<Text>,
    /// Capacity type.
    pub capacity_type: Option<CapacityType>,
    /// Node labels that must be equal.
    pub labels: Labels,
    /// Price of the whole node per hour.
    pub per_hour: MicroUsd,
}

/// A node label whose values say how a node is bought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapacityLabel {
    /// Label.
    pub key: Text,
    /// What its values mean; others mean nothing.
    pub values: BTreeMap<Text, CapacityType>,
}
