//! Counts by domain, for one class of pods and one thing that it wants.

use std::collections::BTreeMap;

use capstan_topology::NodeIdx;

use super::keys::{KeyIdx, KeyTable};

/// What a counter counts, for one class of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Pods that match all affinity terms: there must be some.
    Near,
    /// Pods that an anti-affinity term means: there must be none.
    Apart,
    /// Pods whose anti-affinity means this class: there must be none.
    Repelled,
    /// Pods that a preferred term means, by its place.
    Preferred(usize),
    /// Pods that a spread constraint counts, by its place.
    Spread(usize),
}

/// Pods of one kind, by domain of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What for.
    pub aim: Aim,
    /// Key of the domains.
    pub key: KeyIdx,
    /// As last seen, by node slot.
    on_node: Vec<u32>,
    in_domain: Vec<u32>,
    total: u64,
    /// For spread constraints.
    pub balance: Option<Balance>,
}

/// The domains of a spread constraint, and how full they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// 1: pods of the class count themselves.
    pub own: u32,
    /// Largest difference.
    pub max_skew: u32,
    /// With fewer domains the fewest are none.
    pub min_domains: u32,
    /// It is no preference.
    pub required: bool,
    /// Nodes that make domains, by node slot.
    eligible: Vec<bool>,
    /// How many of them each domain has.
    nodes_in: Vec<u32>,
    /// Domains that count, by how many pods they have.
    by_count: BTreeMap<u32, u32>,
}

impl Balance {
    /// One without domains.
    pub fn new(own: bool, max_skew: u32, min_domains: u32, required: bool) -> Balance {
        let (eligible, nodes_in, by_count) = (Vec::new(), Vec::new(), BTreeMap::new());
        let own = u32::from(own);
        Balance { own, max_skew, min_domains, required, eligible, nodes_in, by_count }
    }

    /// How many pods the emptiest domain counts as having.
    pub fn least(&self) -> u32 {
        let domains: u32 = self.by_count.values().sum();
        match self.by_count.first_key_value() {
            Some((least, _)) if domains >= self.min_domains => *least,
            _ => 0,
        }
    }

    /// Whether a domain with so many pods takes one more.
    fn takes(&self, count: u32, least: u32) -> bool {
        u64::from(count) + u64::from(self.own) <= u64::from(least) + u64::from(self.max_skew)
    }

    fn count(&mut self, count: u32, domains: i32) {
        let entry = self.by_count.entry(count).or_default();
        *entry = entry.checked_add_signed(domains).expect("a domain is counted before it goes");
        if *entry == 0 {
            self.by_count.remove(&count);
        }
    }

    /// A node begins or ceases to make its domain, which has so many pods.
    fn set_eligible(&mut self, node: NodeIdx, domain: usize, eligible: bool, count: u32) {
        self.eligible[node.at()] = eligible;
        let nodes = &mut self.nodes_in[domain];
        let before = *nodes;
        *nodes = if eligible { before + 1 } else { before - 1 };
        match (before, *nodes) {
            (0, _) => self.count(count, 1),
            (_, 0) => self.count(count, -1),
            _ => {}
        }
    }
}

/// What a counter said before nodes changed.
#[derive(Debug, Default)]
pub struct Before {
    least: u32,
    domains: Vec<(usize, bool)>,
}

impl Counter {
    /// One that has counted nothing.
    pub fn new(aim: Aim, key: KeyIdx, balance: Option<Balance>) -> Counter {
        let (on_node, in_domain) = (Vec::new(), Vec::new());
        Counter { aim, key, on_node, in_domain, total: 0, balance }
    }

    /// Makes room for these nodes and domains.
    pub fn size(&mut self, slots: usize, table: &KeyTable) {
        self.on_node.resize(slots, 0);
        self.in_domain.resize(table.domains(), 0);
        if let Some(balance) = &mut self.balance {
            balance.eligible.resize(slots, false);
            balance.nodes_in.resize(table.domains(), 0);
        }
    }

    /// Without slots of nodes that are gone.
    ///
    /// # Panics
    /// When somebody is counted there.
    pub fn cut(&self, slots: usize) -> Counter {
        let mut cut = self.clone();
        let gone = cut.on_node.drain(slots.min(cut.on_node.len())..);
        assert!(gone.sum::<u32>() == 0, "pods around a node that is gone");
        if let Some(balance) = &mut cut.balance {
            balance.eligible.truncate(slots);
        }
        cut
    }

    /// Whether a pod of the class may come into a domain, as far as this counter goes. `open`: it
    /// may be the first of those that want to be near each other.
    #[inline]
    pub fn takes(&self, domain: usize, open: bool) -> bool {
        let count = self.in_domain[domain];
        match (self.aim, &self.balance) {
            (Aim::Near, _) => open || count > 0,
            (_, Some(balance)) => balance.takes(count, balance.least()),
            _ => count == 0,
        }
    }

    /// Pods in a domain.
    pub fn count(&self, domain: usize) -> u32 {
        self.in_domain[domain]
    }

    /// Pods in all domains.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether a node makes a domain of the spread constraint.
    pub fn eligible(&self, node: NodeIdx) -> bool {
        self.balance.as_ref().is_none_or(|balance| balance.eligible[node.at()])
    }

    /// What it says now, before nodes change.
    pub fn before(&self) -> Before {
        let least = self.balance.as_ref().map_or(0, Balance::least);
        Before { least, domains: Vec::new() }
    }

    /// Counts a node anew: so many pods, and whether it makes a domain.
    pub fn set(
        &mut self,
        (node, domain): (NodeIdx, Option<usize>),
        (count, eligible): (u32, bool),
        before: &mut Before,
    ) {
        let Some(domain) = domain else { return };
        let count = if eligible { count } else { 0 };
        let was_eligible = self.eligible(node);
        let old = self.on_node[node.at()];
        if old == count && (self.balance.is_none() || was_eligible == eligible) {
            return;
        }
        let took = match &self.balance {
            Some(balance) => balance.takes(self.in_domain[domain], before.least),
            None => self.takes(domain, false),
        };
        before.domains.push((domain, took));
        self.on_node[node.at()] = count;
        let had = self.in_domain[domain];
        let has = had - old + count;
        self.in_domain[domain] = has;
        self.total = self.total - u64::from(old) + u64::from(count);
        if let Some(balance) = &mut self.balance {
            if balance.nodes_in[domain] > 0 && had != has {
                balance.count(had, -1);
                balance.count(has, 1);
            }
            if was_eligible != eligible {
                balance.set_eligible(node, domain, eligible, has);
            }
        }
    }

    /// Domains whose answer turned.
    pub fn turned(&self, before: &Before, mut each: impl FnMut(usize)) {
        let least = self.balance.as_ref().map_or(0, Balance::least);
        match &self.balance {
            Some(balance) if before.least != least => {
                for (domain, count) in self.in_domain.iter().enumerate() {
                    // Of those that changed what was is noted.
                    if balance.takes(*count, before.least) != balance.takes(*count, least) {
                        each(domain);
                    }
                }
            }
            _ => {}
        }
        for (domain, took) in &before.domains {
            if *took != self.takes(*domain, false) {
                each(*domain);
            }
        }
    }
}
