//! Work that people hold by its Workload object.

use super::Text;

/// A Workload object whose `spec.active` is false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeactivatedFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name: that of the workload.
    pub name: Text,
    /// Uids of its owners. It speaks of work of one of them, of the group of its name whoever is in
    /// it, and of whatever bears its name where it has none: an object of the same name that was
    /// made anew is other work.
    pub owners: Vec<Text>,
}
