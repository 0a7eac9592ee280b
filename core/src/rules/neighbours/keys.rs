//! Node labels that name domains: for each key which node is in which domain.
//!
//! Domains of a key are numbered by their value, so that no number depends on what came first.
//! Tables are made again with the topology tree, when nodes came, went or changed labels.

use capstan_topology::{Interner, NodeIdx};

use crate::model::input::{NodeFacts, Text};

/// A node without the label is in no domain.
const NOWHERE: u32 = u32::MAX;

/// A topology key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyIdx(pub u32);

/// All keys that some pod's terms name.
#[derive(Debug, Default)]
pub struct Keys {
    known: Interner<Text>,
    tables: Vec<KeyTable>,
}

/// The domains of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyTable {
    /// Domain by node slot.
    of: Vec<u32>,
    /// Nodes by domain.
    nodes: Vec<Vec<NodeIdx>>,
}

impl KeyTable {
    fn build<'a>(key: &str, nodes: impl Iterator<Item = (NodeIdx, &'a NodeFacts)>) -> KeyTable {
        let labelled = nodes.filter_map(|(node, facts)| Some((facts.labels.get(key)?, node)));
        let mut labelled: Vec<(&Text, NodeIdx)> = labelled.collect();
        labelled.sort_unstable();
        let mut table = KeyTable::default();
        let mut last = None;
        for (value, node) in labelled {
            if last != Some(value) {
                table.nodes.push(Vec::new());
                last = Some(value);
            }
            let domain = table.nodes.len() - 1;
            table.nodes[domain].push(node);
            if table.of.len() <= node.at() {
                table.of.resize(node.at() + 1, NOWHERE);
            }
            table.of[node.at()] = domain as u32;
        }
        table
    }

    /// The domain of a node.
    #[inline]
    pub fn domain(&self, node: NodeIdx) -> Option<usize> {
        let domain = *self.of.get(node.at())?;
        (domain != NOWHERE).then_some(domain as usize)
    }

    /// How many domains there are.
    pub fn domains(&self) -> usize {
        self.nodes.len()
    }

    /// Nodes of a domain.
    pub fn nodes(&self, domain: usize) -> &[NodeIdx] {
        &self.nodes[domain]
    }

    /// Whether every domain is one node, as host names are.
    pub fn single(&self) -> bool {
        self.nodes.iter().all(|nodes| nodes.len() == 1)
    }
}

impl Keys {
    /// The key of a name, if it is known.
    pub fn find(&self, key: &str) -> Option<KeyIdx> {
        self.known.find(key).map(KeyIdx)
    }

    /// The table of a key.
    #[inline]
    pub fn table(&self, key: KeyIdx) -> &KeyTable {
        &self.tables[key.0 as usize]
    }

    /// Makes a key known.
    pub fn add<'a>(&mut self, key: &Text, nodes: impl Iterator<Item = (NodeIdx, &'a NodeFacts)>) {
        if self.known.find(key).is_some() {
            return;
        }
        let at = self.known.add(key.clone());
        self.tables.resize_with(self.known.slots(), KeyTable::default);
        self.tables[at as usize] = KeyTable::build(key, nodes);
    }

    /// Makes all tables again.
    pub fn rebuild<'a, N>(&mut self, nodes: impl Fn() -> N)
    where
        N: Iterator<Item = (NodeIdx, &'a NodeFacts)>,
    {
        for (key, at) in self.known.iter() {
            self.tables[at as usize] = KeyTable::build(key, nodes());
        }
    }

    /// Forgets the keys that are not used; whether there were any.
    pub fn sweep(&mut self, used: impl Fn(&Text) -> bool) -> bool {
        let before = self.known.len();
        let mut marks = vec![false; self.known.slots()];
        self.known.iter().for_each(|(key, at)| marks[at as usize] = used(key));
        self.known.sweep(&marks, &mut self.tables, |table| *table = KeyTable::default());
        self.known.len() < before
    }

    /// Compares every table with one made anew.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount<'a, N>(&self, nodes: impl Fn() -> N)
    where
        N: Iterator<Item = (NodeIdx, &'a NodeFacts)>,
    {
        self.known.recount();
        for (key, at) in self.known.iter() {
            assert_eq!(self.tables[at as usize], KeyTable::build(key, nodes()), "domains of {key}");
        }
    }
}
