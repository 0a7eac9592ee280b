//! Placeholder: what a node costs and how it is bought.

use capstan_core::model::input::{CapacityType, Labels, Price};

use crate::config::PriceConfig;

/// How a node is bought and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEconomics {
    /// How it is bought.
    pub capacity_type: CapacityType,
    /// Price of the whole node, if anybody knows it.
    pub price: Option<Price>,
}

/// What labels, annotations and the price list say of a node.
pub fn economics(_labels: &Labels, _annotations: &Labels, _prices: &PriceConfig) -> NodeEconomics {
    NodeEconomics { capacity_type: CapacityType::Unknown, price: None }
}
