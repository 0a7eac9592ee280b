//! Scores: named integer terms, each 0..=1000, multiplied by a profile's weights.

/// Weights of the score terms; 0 switches a term off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Price of the share of the node used.
    pub cost: u32,
    /// Capacity type against the workload's list.
    pub capacity: u32,
    /// How close together a gang is.
    pub locality: u32,
    /// Fill used nodes first, keep whole nodes free.
    pub packing: u32,
    /// Do not break a fuller node than needed.
    pub gpu_fit: u32,
    /// PreferNoSchedule taints.
    pub soft_taints: u32,
}

impl Weights {
    /// Largest weight that a configuration may set.
    pub const MAX: u32 = 100;
}

impl Default for Weights {
    fn default() -> Weights {
        Weights { cost: 3, capacity: 2, locality: 3, packing: 2, gpu_fit: 2, soft_taints: 3 }
    }
}
