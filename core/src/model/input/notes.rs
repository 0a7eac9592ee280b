//! What we write on pods and owners, as it is read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Text;
use crate::money::MicroUsd;
use crate::plan::PreemptionReason;
use crate::time::Time;

/// What we wrote on a pod (or owner) when it was admitted; enough to rebuild placements.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BindingNote {
    /// Resource name to flavor name; shared between the members of a set.
    pub flavors: Arc<BTreeMap<Text, Text>>,
    /// When quota was taken.
    pub admitted_at: Option<Time>,
    /// Hourly price at that moment.
    pub price: Option<MicroUsd>,
    /// Name of the workload.
    pub workload: Option<Text>,
}

/// Why a pod or owner is being stopped, as marked on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionNote {
    /// `namespace/name` of the preemptor.
    pub preemptor: Text,
    /// Reason.
    pub reason: PreemptionReason,
}
