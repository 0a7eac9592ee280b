//! What we write on pods and owners, as it is read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Stops, Text};
use crate::money::MicroUsd;
use crate::plan::PreemptionReason;
use crate::time::{Span, Time};

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
    /// ClusterQueue whose quota it counts against, also once no LocalQueue leads there any more.
    pub queue: Option<Text>,
    /// How many members of its gang had to run together, those that had ended well included.
    pub began_with: Option<u32>,
}

/// Why a pod or owner is being stopped, as marked on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionNote {
    /// `namespace/name` of the preemptor.
    pub preemptor: Text,
    /// Reason.
    pub reason: PreemptionReason,
}

/// What the next run of an owner that we stopped has to know of those before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequeueNote {
    /// When it was stopped last.
    pub at: Time,
    /// How often in a row it was stopped because its pods did not come up.
    pub unready: u32,
    /// The same as `at`, if that was one of those.
    pub unready_at: Option<Time>,
    /// It queues again then and not before.
    pub not_before: Option<Time>,
    /// How long its runs held quota, all together.
    pub ran: Span,
    /// Why it was ever stopped.
    pub stops: Stops,
}
