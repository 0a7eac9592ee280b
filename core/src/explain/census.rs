//! How many of what: numbers over everything, for whoever counts and for nobody who decides.

use std::collections::BTreeMap;

use crate::model::input::Text;

/// Numbers of now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Work by ClusterQueue; the empty name is work without one.
    pub queues: BTreeMap<Text, Tally>,
    /// Work by namespace and LocalQueue, of LocalQueues that exist.
    pub local_queues: BTreeMap<(Text, Text), Tally>,
    /// ClusterQueues, by name.
    pub shapes: Vec<QueueShape>,
    /// Cohorts in the quota tree, those without an object included, by name.
    pub cohorts: Vec<CohortTally>,
}

/// How much work there is of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Work that waits and that the next rounds look at, or that waits for its victims to leave.
    pub active: u32,
    /// Work that waits and is not looked at until something changes.
    pub inadmissible: u32,
    /// Work that holds quota, or nodes.
    pub admitted: u32,
    /// Work that has ended and is still shown.
    pub finished: u32,
    /// Work that is not admitted, by machine-readable word of why; held work is counted too.
    pub why: BTreeMap<&'static str, u32>,
    /// What the work that waits asks of what its queue has quota for, by resource; `cpu` in
    /// thousandths.
    pub asked: BTreeMap<Text, i64>,
}

/// Where a ClusterQueue stands in the quota tree, and its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueShape {
    /// Name.
    pub name: Text,
    /// Cohorts from its own up to the root; none: it is in no cohort that counts.
    pub cohorts: Vec<Text>,
    /// One for each flavor and resource.
    pub limits: Vec<Limits>,
}

/// Limits of a ClusterQueue for one flavor and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Flavor.
    pub flavor: Text,
    /// Resource.
    pub resource: Text,
    /// How much may be borrowed; `None`: as much as there is.
    pub borrowing: Option<i64>,
    /// How much may be lent; `None`: all.
    pub lending: Option<i64>,
    /// In use, and promised to work that waits for its victims to leave.
    pub reserved: i64,
}

/// A cohort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CohortTally {
    /// Name.
    pub name: Text,
    /// The cohort above it.
    pub parent: Option<Text>,
    /// The highest above it; its own name where nothing is.
    pub root: Text,
    /// Its dominant resource share in thousandths, as that of a queue; `None`: fair sharing is off.
    pub share: Option<i64>,
    /// Work that holds quota in queues below it.
    pub admitted: u32,
    /// One for each flavor and resource.
    pub quotas: Vec<CohortQuota>,
}

/// One flavor and resource of a cohort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CohortQuota {
    /// Flavor.
    pub flavor: Text,
    /// Resource.
    pub resource: Text,
    /// Own quota, and what those below it own and lend.
    pub quota: i64,
    /// What all queues below it use or were promised.
    pub reserved: i64,
}
