//! Topology that people want for a gang.

use super::Text;

/// Topology wanted for a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyWish {
    /// All members within one domain of this level (a node label key), or none.
    pub required: Option<Text>,
    /// Within one domain of this level if possible.
    pub preferred: Option<Text>,
    /// Every so many members of a pod set within one domain of a level.
    pub slices: Option<SliceWish>,
    /// The levels hold for each pod set by itself (Kueue's annotations), not for the whole gang.
    pub per_pod_set: bool,
}

/// Topology wanted for one pod set, where the sets of a gang do not all want the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetLevels {
    /// All its members within one domain of this level (a node label key), or none.
    pub required: Option<Text>,
    /// Within one domain of this level if possible.
    pub preferred: Option<Text>,
    /// Every so many of its members within one domain of a level.
    pub slices: Option<SliceWish>,
}

impl SetLevels {
    /// Levels without which its members cannot go anywhere.
    pub fn needed(&self) -> impl Iterator<Item = &Text> {
        self.required.iter().chain(self.slices.iter().map(|slices| &slices.level))
    }
}

/// Slices of each pod set that are to be close together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SliceWish {
    /// Each within one domain of this level (a node label key).
    pub level: Text,
    /// Members of a slice; at least one.
    pub size: u32,
}
