//! The topology tree: which nodes share a zone, a block, a rack.
//!
//! Levels are ordered, outermost first. A domain is identified by its full path, so rack `r1` of
//! two zones is two domains. A node that lacks a level's value is in no domain of that level. The
//! tree is a graph of domains with containment edges; nodes stand in one order in which every
//! domain is a contiguous range, so that sums and maxima over a domain are range queries.

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::ids::{DomainIdx, LevelIdx, NodeIdx};

/// Where a node is: one value per level (equal value = same domain within the same parent), and
/// its rank among all nodes, which orders nodes inside a domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Values, outermost first; numbers that the caller ordered as it wants domains ordered.
    pub values: Vec<Option<u32>>,
    /// Rank of the node, unique.
    pub rank: u32,
    /// The node.
    pub node: NodeIdx,
}

/// One domain.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Its level; `None` for the root, which holds every node.
    pub level: Option<LevelIdx>,
    /// Its value at that level.
    pub value: u32,
    /// First position of its nodes.
    pub start: usize,
    /// Position after its last node.
    pub end: usize,
}

/// Domains of all levels over one order of nodes.
#[derive(Clone, Debug)]
pub struct Tree {
    graph: DiGraph<Domain, ()>,
    order: Vec<NodeIdx>,
    position: Vec<u32>,
    by_level: Vec<Vec<DomainIdx>>,
    of_node: Vec<Vec<Option<DomainIdx>>>,
}

/// Levels that a tree can have: more than any cluster has.
pub const LEVELS_MAX: usize = 128;

/// Position of a node that is not in the tree.
const ABSENT: u32 = u32::MAX;

impl Tree {
    /// Builds the tree from the places of all nodes; their order does not matter.
    pub fn build(levels: usize, mut places: Vec<Place>) -> Tree {
        assert!(levels <= LEVELS_MAX, "whoever reads levels keeps to the bound");
        // A missing value sorts last, so that what is known comes first.
        let key = |value: &Option<u32>| value.map_or(u64::from(u32::MAX) + 1, u64::from);
        places.sort_by(|a, b| {
            let path = a.values.iter().map(key).cmp(b.values.iter().map(key));
            path.then(a.rank.cmp(&b.rank))
        });
        let slots = places.iter().map(|p| p.node.at() + 1).max().unwrap_or(0);
        let mut tree = Tree {
            graph: DiGraph::new(),
            order: places.iter().map(|p| p.node).collect(),
            position: vec![ABSENT; slots],
            by_level: vec![Vec::new(); levels],
            of_node: vec![vec![None; places.len()]; levels],
        };
        for (at, node) in tree.order.iter().enumerate() {
            tree.position[node.at()] = at as u32;
        }
        let root =
            tree.graph.add_node(Domain { level: None, value: 0, start: 0, end: places.len() });
        tree.split(&places, root, 0, 0, places.len());
        tree
    }

    /// Groups `places[start..end]` by their value at `level` below `parent`, and so on down.
    fn split(
        &mut self,
        places: &[Place],
        parent: NodeIndex,
        level: usize,
        start: usize,
        end: usize,
    ) {
        if level == self.by_level.len() {
            return;
        }
        let mut from = start;
        while from < end {
            let value = places[from].values[level];
            let same = places[from..end].iter().take_while(|p| p.values[level] == value).count();
            let to = from + same;
            let below = match value {
                None => parent,
                Some(value) => {
                    let domain =
                        Domain { level: Some(LevelIdx(level as u8)), value, start: from, end: to };
                    let added = self.graph.add_node(domain);
                    self.graph.add_edge(parent, added, ());
                    let index = DomainIdx(added.index() as u32);
                    self.by_level[level].push(index);
                    self.of_node[level][from..to].fill(Some(index));
                    added
                }
            };
            self.split(places, below, level + 1, from, to);
            from = to;
        }
    }

    /// The root: all nodes.
    pub fn root(&self) -> DomainIdx {
        DomainIdx(0)
    }

    /// A domain.
    pub fn domain(&self, domain: DomainIdx) -> &Domain {
        &self.graph[NodeIndex::new(domain.at())]
    }

    /// Number of domains, the root included.
    pub fn domain_count(&self) -> usize {
        self.graph.node_count()
    }

    /// Number of levels.
    pub fn levels(&self) -> usize {
        self.by_level.len()
    }

    /// Domains of a level, in path order.
    pub fn domains_at(&self, level: LevelIdx) -> &[DomainIdx] {
        &self.by_level[level.at()]
    }

    /// Domains directly inside a domain, in path order.
    pub fn children(&self, domain: DomainIdx) -> Vec<DomainIdx> {
        let edges = self.graph.neighbors_directed(NodeIndex::new(domain.at()), Direction::Outgoing);
        let mut children: Vec<DomainIdx> = edges.map(|n| DomainIdx(n.index() as u32)).collect();
        children.sort_unstable();
        children
    }

    /// The domain that directly contains a domain; `None` for the root.
    pub fn parent(&self, domain: DomainIdx) -> Option<DomainIdx> {
        let mut edges =
            self.graph.neighbors_directed(NodeIndex::new(domain.at()), Direction::Incoming);
        edges.next().map(|n| DomainIdx(n.index() as u32))
    }

    /// Nodes in tree order.
    pub fn order(&self) -> &[NodeIdx] {
        &self.order
    }

    /// Position of a node in that order; `None` when it is not in the tree.
    #[inline]
    pub fn position(&self, node: NodeIdx) -> Option<usize> {
        match self.position.get(node.at()) {
            None | Some(&ABSENT) => None,
            Some(&at) => Some(at as usize),
        }
    }

    /// The domain of a level that holds the node at a position.
    #[inline]
    pub fn domain_of(&self, level: LevelIdx, position: usize) -> Option<DomainIdx> {
        self.of_node[level.at()][position]
    }
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::build(0, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(node: u32, values: &[Option<u32>]) -> Place {
        Place { values: values.to_vec(), rank: node, node: NodeIdx(node) }
    }

    #[test]
    fn domains_are_contiguous_and_identified_by_path() {
        // Zones 0 and 1 both have a rack 7.
        let tree = Tree::build(
            2,
            vec![
                place(3, &[Some(1), Some(7)]),
                place(0, &[Some(0), Some(7)]),
                place(2, &[Some(0), Some(8)]),
                place(1, &[Some(0), Some(7)]),
            ],
        );
        assert_eq!(tree.order(), [NodeIdx(0), NodeIdx(1), NodeIdx(2), NodeIdx(3)]);
        let racks: Vec<(usize, usize)> = tree
            .domains_at(LevelIdx(1))
            .iter()
            .map(|d| (tree.domain(*d).start, tree.domain(*d).end))
            .collect();
        assert_eq!(racks, [(0, 2), (2, 3), (3, 4)]);
        let zones = tree.domains_at(LevelIdx(0));
        assert_eq!(tree.children(zones[0]).len(), 2);
        assert_eq!(tree.parent(zones[0]), Some(tree.root()));
    }

    #[test]
    fn a_node_without_a_value_is_in_no_domain_of_that_level() {
        let tree = Tree::build(2, vec![place(0, &[Some(0), None]), place(1, &[None, Some(4)])]);
        assert_eq!(tree.domain_of(LevelIdx(1), 0), None);
        let rack = tree.domain_of(LevelIdx(1), 1).expect("node 1 has a rack");
        assert_eq!(tree.parent(rack), Some(tree.root()));
        assert_eq!(tree.position(NodeIdx(9)), None);
    }

    #[test]
    fn the_order_of_places_does_not_matter() {
        let places: Vec<Place> =
            (0..9).map(|n| place(n, &[Some(n % 3), (n != 4).then_some(n % 2)])).collect();
        let mut reversed = places.clone();
        reversed.reverse();
        assert_eq!(Tree::build(2, places).order(), Tree::build(2, reversed).order());
    }
}
