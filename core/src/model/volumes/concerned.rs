//! Whom facts of storage concern: whose nodes count otherwise, and who may fit now.
//!
//! Work that waits is woken by it (`engine/wakes.rs`), so that what was merely bound, made or
//! attached for somebody wakes nobody else.

use capstan_topology::NodeIdx;

use crate::model::input::{ClaimKey, Text};

/// Who of those that wait may fit because of a fact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MayFit {
    /// Nobody: it says nothing new, or that something was taken.
    #[default]
    Nobody,
    /// Who uses a claim.
    Users(ClaimKey),
    /// Whoever has volumes.
    WhoHasVolumes,
}

/// Whom a fact concerns beside those who look at stamps.
#[derive(Debug, Default)]
pub struct Concerned {
    /// Who may fit.
    pub may_fit: MayFit,
    /// Nodes whose holdings count otherwise now.
    pub nodes: Vec<NodeIdx>,
    /// The same, by name.
    pub named: Option<Text>,
}

impl Concerned {
    /// Whoever has volumes may fit, if it says something new.
    pub(super) fn if_new(changed: bool) -> Concerned {
        let may_fit = if changed { MayFit::WhoHasVolumes } else { MayFit::Nobody };
        Concerned { may_fit, ..Concerned::default() }
    }
}
