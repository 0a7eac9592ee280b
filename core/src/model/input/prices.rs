//! How nodes are bought, and at what price.

use crate::money::MicroUsd;

/// A node's price and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// Micro-USD per hour for the whole node.
    pub per_hour: MicroUsd,
    /// Which of the three sources said so.
    pub source: PriceSource,
}

/// Where a price was found, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PriceSource {
    /// The node's own annotation.
    Annotation,
    /// The configured price list.
    Configured,
    /// The built-in catalogue.
    Catalogue,
}

/// How capacity is bought; the order is the default preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// Already paid for (reservations, capacity blocks).
    Reserved,
    /// May be taken back at short notice.
    Spot,
    /// Paid by the hour, not taken back.
    OnDemand,
    /// No label says.
    Unknown,
}
