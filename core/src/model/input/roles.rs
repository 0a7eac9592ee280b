//! Minimums of a gang's roles, each by itself, how members of one are told apart, and the pod
//! sets of which an owner makes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{PodShape, Text};

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

/// One template of an owner, or what one kind of pods is of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPodSet {
    /// Name of the set (`main` for a Job).
    pub name: Text,
    /// Pods that it makes.
    pub count: u32,
    /// Pods of the same template in the sets before it, or that are there before: the number of its
    /// first.
    pub before: u32,
    /// Their shape.
    pub shape: Arc<PodShape>,
    /// What its pods say of roles, where the owner states minimums of those.
    pub roles: Option<Arc<Roles>>,
    /// Its pods are only made once others of the owner run, or have ended: so many of them ended
    /// well, as far as the owner has counted them. Their shape names the set
    /// ([`PodShape::pod_set`]).
    pub late: Option<u32>,
}

/// What a member of a gang knows of pods that are only made once others of it have nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToCome {
    /// Who makes this member and those, by uid.
    pub maker: Text,
    /// The name of that, after which places for those are called; `None`: as the gang is called.
    pub name: Option<Text>,
    /// The pod set of this member.
    pub own: Option<Text>,
    /// Pod sets that are made after it ([`OwnerPodSet::late`]), each as large as its gang needs
    /// it: their members bear the same maker, and the name of their set. What this member says of
    /// a minimum is without them.
    pub sets: Vec<OwnerPodSet>,
    /// Members that must run together, those among them that are to come; `None`: the minimum of
    /// this member and all of those.
    pub least: Option<u32>,
    /// Members that must run together by what is stated, once nobody is still to come; `None`: as
    /// many as before.
    pub stated: Option<u32>,
    /// Topology level that is preferred for those that are to come, which will be pinned to where
    /// the first is; nobody asked for it.
    pub level: Option<Text>,
    /// Members that must run together by what is stated of the whole gang, where some of those that
    /// it counts are made once others run, or are over: what this member says of a minimum is then
    /// of those alone that who made it can make. `None`: nothing is stated.
    pub counted: Option<u32>,
    /// Pods of who makes this member that [`ToCome::counted`] may count and that nobody waits for:
    /// made after it, and in none of its sets, or over before it.
    pub unplaced: u32,
}

/// Where a pod stands among those that are made from the same template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rank {
    /// It has no index.
    #[default]
    None,
    /// It has an index, which is in its name: they stand in order of names.
    Named,
    /// The same, and this is its number among all of them, the first one's is 0.
    Number(u32),
    /// Its group gives it this index, whatever its name: they stand in order of that.
    Index(u32),
}

/// So many members of a role that start together, or none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// What tells it from others of its role; `None`: any so many members are one.
    pub name: Option<Text>,
    /// Members that it has when it is whole; at least one.
    pub size: u32,
}
