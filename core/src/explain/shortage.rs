//! Why nodes do not hold a gang, counted over all of them.

use super::reason::NodeRefusal;
use crate::model::input::Text;

/// Why nodes do not hold a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeShortage {
    /// Nodes looked at.
    pub nodes: u32,
    /// Members asked for.
    pub asked: u32,
    /// Members that would fit.
    pub holds: u32,
    /// Refusals by kind with the number of nodes, in order of their first words.
    pub refusals: Vec<(NodeRefusal, u32)>,
    /// The node that comes closest and the resource it lacks.
    pub nearest: Option<Nearest>,
    /// Where the pod's author excludes every node of its flavors, or no amount of room would open
    /// any: by what most of them are closed, and how many, whatever else refuses those.
    pub unwanted: Option<(NodeRefusal, u32)>,
    /// As if this many workloads had left that may be preempted for it; 0: as things are.
    pub gone: u32,
    /// The search for places ended before it had looked at all of them.
    pub ended: Option<SearchBound>,
}

/// Why no one domain of a level holds a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainShortage {
    /// Level.
    pub level: Text,
    /// Pods asked.
    pub asked: u32,
    /// Domain that holds most (of slices: none is named).
    pub best: Option<Text>,
    /// How many it holds. All of them: they fit one by one, and not together as was asked.
    pub holds: u32,
    /// What its nodes say to the next, where members depend on each other's places.
    pub next: Option<Box<NodeShortage>>,
    /// Its members go there in slices of so many; then pods are counted in whole slices.
    pub slice: Option<u32>,
    /// As if this many workloads had left that may be preempted for it; 0: as things are.
    pub gone: u32,
    /// The search for places ended before it had looked at all of them.
    pub ended: Option<SearchBound>,
}

/// Where a search for the places of a gang, or for whom to preempt, ends although there may be
/// some: that it found none is not the cluster's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchBound {
    /// After so many placements tried.
    Tries(u32),
    /// After so many domains.
    Domains(u32),
    /// Members are tried in every order only where at most this many nodes are to choose from.
    Nodes(u32),
    /// The same where at most this many members are to be placed.
    Members(u32),
    /// After so many were taken for gone who may be preempted.
    Victims(u32),
    /// After so many domains in which somebody may be preempted.
    Cleared(u32),
    /// After so many choices of members that start, or of their flavors.
    Choices(u32),
}

/// The node that comes closest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Node.
    pub node: Text,
    /// Resource that it lacks.
    pub resource: Text,
    /// Amount that one pod asks.
    pub asked: i64,
    /// Amount free there (may be negative: debt from outside).
    pub free: i64,
}
