//! Minimums of a gang's roles, each by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Text;

/// What a gang's source says of its roles, as one member sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The role of this member; `None`: none that has a name.
    pub own: Option<Text>,
    /// How many members of each role must run together; none is zero.
    pub least: Arc<BTreeMap<Text, u32>>,
    /// Members of its role that are of use only together, this one among them.
    pub replica: Option<Replica>,
}

/// So many members of a role that start together, or none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// What tells it from others of its role; `None`: any so many members are one.
    pub name: Option<Text>,
    /// Members that it has when it is whole; at least one.
    pub size: u32,
}
