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
    /// Pods that a DoNotSchedule constraint counts, by its place.
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
    /// Pods that are only nominated, where there are any. As kube-scheduler has it, a node is asked
    /// about with those of that node and without them, and both must hold.
    nominated: BTreeMap<NodeIdx, u32>,
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
    /// Nodes that make domains, by node slot.
    eligible: Vec<bool>,
    /// How many of them each domain has.
    nodes_in: Vec<u32>,
    /// Domains that count, by how many pods they have.
    by_count: BTreeMap<u32, u32>,
}

impl Balance {
    /// One without domains.
    pub fn new(own: bool, max_skew: u32, min_domains: u32) -> Balance {
        let (eligible, nodes_in, by_count) = (Vec::new(), Vec::new(), BTreeMap::new());
        let own = u32::from(own);
        Balance { own, max_skew, min_domains, eligible, nodes_in, by_count }
    }

    /// How many pods the emptiest domain counts as having.
    pub fn least(&self) -> u32 {
        self.least_with(0, 0)
    }

    /// The same if a domain that has `count` pods had `more` of them.
    fn least_with(&self, count: u32, more: u32) -> u32 {
        let domains: u32 = self.by_count.values().sum();
        let mut by_count = self.by_count.iter().filter(|_| domains >= self.min_domains);
        match by_count.next() {
            Some((least, 1)) if *least == count && more > 0 => {
                by_count.next().map_or(count + more, |(next, _)| (count + more).min(*next))
            }
            Some((least, _)) => *least,
            None => 0,
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
        let (on_node, in_domain, nominated) = (Vec::new(), Vec::new(), BTreeMap::new());
        Counter { aim, key, on_node, in_domain, total: 0, nominated, balance }
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
        assert!(cut.nominated.keys().all(|node| node.at() < slots), "pods kept for it");
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

    /// Whether a domain may take a pod of the class once so many at most have left it. The fewest
    /// of all domains become no more by that.
    pub fn might_take(&self, domain: usize, gone: u32) -> bool {
        let count = self.in_domain[domain].saturating_sub(gone);
        match &self.balance {
            Some(balance) => balance.takes(count, balance.least()),
            None => count == 0,
        }
    }

    /// Whether a node of a domain takes one more beside the pods that are nominated for it, if the
    /// domain does without them.
    #[inline]
    pub fn takes_beside(&self, node: NodeIdx, domain: usize) -> bool {
        match (self.nominated(node), self.aim, &self.balance) {
            (0, ..) | (_, Aim::Near, _) => true,
            (more, _, Some(balance)) => {
                let count = self.in_domain[domain];
                balance.takes(count + more, balance.least_with(count, more))
            }
            _ => false,
        }
    }

    /// The emptiest domain has no more pods than this once so many more have come.
    pub fn least_after(&self, more: u64) -> u64 {
        let Some(balance) = &self.balance else { return 0 };
        let domains: u32 = balance.by_count.values().sum();
        if domains == 0 || domains < balance.min_domains {
            return 0;
        }
        let counted = balance.by_count.iter().map(|(count, of)| u64::from(*count) * u64::from(*of));
        counted.fold(more, u64::saturating_add) / u64::from(domains)
    }

    /// No more pods of the class than this come into a domain while the emptiest one has so many
    /// at most. `counts`: whether they are counted there themselves.
    pub fn most(&self, domain: usize, least: u64, counts: bool) -> u64 {
        let Some(balance) = &self.balance else { return u64::MAX };
        let next = u64::from(self.in_domain[domain]) + u64::from(balance.own);
        let limit = least.saturating_add(u64::from(balance.max_skew));
        match counts {
            _ if next > limit => 0,
            true => limit - next + 1,
            false => u64::MAX,
        }
    }

    /// Pods that are only nominated for a node.
    #[inline]
    pub fn nominated(&self, node: NodeIdx) -> u32 {
        match self.nominated.is_empty() {
            true => 0,
            false => self.nominated.get(&node).copied().unwrap_or(0),
        }
    }

    /// Pods in the domain of a node, and the fewest in any, as [`Balance::least`] has it, with
    /// those that are nominated for the node if it is they who are too many.
    pub fn unevenness(&self, node: NodeIdx, domain: usize, balance: &Balance) -> (u32, u32) {
        let (count, least) = (self.in_domain[domain], balance.least());
        match balance.takes(count, least) {
            true => {
                let more = self.nominated(node);
                (count + more, balance.least_with(count, more))
            }
            false => (count, least),
        }
    }

    /// Pods in a domain.
    pub fn count(&self, domain: usize) -> u32 {
        self.in_domain[domain]
    }

    /// Whether it counts nobody.
    pub fn is_empty(&self) -> bool {
        self.total == 0 && self.nominated.is_empty()
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

    /// Counts a node anew: so many pods, so many that are only nominated, and whether it makes a
    /// domain.
    pub fn set(
        &mut self,
        (node, domain): (NodeIdx, Option<usize>),
        ([count, nominated], eligible): ([u32; 2], bool),
        before: &mut Before,
    ) {
        let Some(domain) = domain else { return };
        let [count, nominated] = if eligible { [count, nominated] } else { [0, 0] };
        match nominated {
            0 if self.nominated.is_empty() => {}
            0 => drop(self.nominated.remove(&node)),
            _ => drop(self.nominated.insert(node, nominated)),
        }
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

    /// Nodes for which pods are nominated, if their answer may have turned: what those make of it
    /// is not the domain's alone.
    pub fn turned_beside(&self, before: &Before) -> impl Iterator<Item = NodeIdx> + '_ {
        let least = self.balance.as_ref().map_or(0, Balance::least);
        let changed = !before.domains.is_empty() || before.least != least;
        self.nominated.keys().copied().filter(move |_| changed)
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
