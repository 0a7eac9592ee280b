//! From queue objects to the quota tree, and which queues are inactive and why.
//!
//! Queue objects change rarely, so the tree is built anew whenever one does; usage is then
//! charged again from what workloads hold. Queues and flavors keep their indices for as long as
//! anything names them, so assignments survive edits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_topology::{Interner, ResourceIdx};

use crate::explain::reason::Inactive;
use crate::model::facts::QueueFacts;
use crate::model::ids::{FlavorIdx, FrIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::input::{
    ClusterQueueFacts, FlavorFacts, Quota, ResourceGroup, StopPolicy, Text, Weight,
};
use crate::model::sweep::Used;
use crate::policy::{Policy, QuotaArgs};
use crate::quota::share::{Share, Shares};
use crate::quota::tree::QuotaTree;
use crate::resources::Resources;

/// Quota tree, queues and flavors.
#[derive(Debug, Default)]
pub struct QuotaState {
    /// The arithmetic.
    pub tree: QuotaTree,
    /// What shares of nodes are reckoned from; `None`: fair sharing is off.
    shares: Option<Shares>,
    /// Cohorts that are in the tree, those without an object included.
    cohorts: BTreeMap<Text, QuotaIdx>,
    queues: Vec<Queue>,
    queue_by_name: Interner<Text>,
    flavors: Vec<(Text, Option<Arc<FlavorFacts>>)>,
    flavor_by_name: Interner<Text>,
    frs: Vec<(FlavorIdx, ResourceIdx)>,
    fr_by_pair: Interner<(FlavorIdx, ResourceIdx)>,
    queue_of: Vec<Option<QueueIdx>>,
    /// Per quota node (used at roots): counts releases and edits.
    generations: Vec<u64>,
    /// Cohorts that are not in the tree, and why: nothing below them is admitted.
    broken_cohorts: BTreeMap<Text, Inactive>,
    /// Queues that are being deleted, by name.
    leaving: Vec<QueueIdx>,
}

/// A ClusterQueue slot; it outlives its object.
#[derive(Debug, Default)]
pub struct Queue {
    /// Name.
    pub name: Text,
    /// The object; `None`: it does not exist.
    pub facts: Option<Arc<ClusterQueueFacts>>,
    /// Its node in the tree, when it exists.
    pub node: Option<QuotaIdx>,
    /// Why it admits nothing.
    pub inactive: Option<Inactive>,
    /// Resource groups by index.
    pub groups: Vec<Group>,
    /// Workloads that hold quota in it.
    pub holding: BTreeSet<WorkloadIdx>,
}

/// A resource group by index.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Resources covered, sorted.
    pub covered: Vec<ResourceIdx>,
    /// Flavors in the order they are tried.
    pub flavors: Vec<FlavorIdx>,
}

impl QuotaState {
    /// The slot of a queue name, new names included.
    pub fn intern_queue(&mut self, name: &Text) -> QueueIdx {
        if let Some(known) = self.queue_by_name.find(name) {
            return QueueIdx(known);
        }
        let index = QueueIdx(self.queue_by_name.add(name.clone()));
        self.queues.resize_with(self.queue_by_name.slots(), Queue::default);
        self.queues[index.at()].name = name.clone();
        index
    }

    /// Why nothing below a cohort is admitted, if that is so.
    pub fn broken_cohort(&self, name: &Text) -> Option<&Inactive> {
        self.broken_cohorts.get(name)
    }

    /// The queue of this name, if its object exists.
    pub fn find_queue(&self, name: &str) -> Option<QueueIdx> {
        let known = QueueIdx(self.queue_by_name.find(name)?);
        self.queue(known).facts.is_some().then_some(known)
    }

    /// The index of a flavor name, new names included.
    pub fn intern_flavor(&mut self, name: &Text) -> FlavorIdx {
        if let Some(known) = self.flavor_by_name.find(name) {
            return FlavorIdx(known);
        }
        let index = FlavorIdx(self.flavor_by_name.add(name.clone()));
        self.flavors.resize_with(self.flavor_by_name.slots(), Default::default);
        self.flavors[index.at()].0 = name.clone();
        index
    }

    /// The index of a flavor name, if it was met.
    pub fn find_flavor(&self, name: &str) -> Option<FlavorIdx> {
        self.flavor_by_name.find(name).map(FlavorIdx)
    }

    /// The index of a flavor and resource.
    pub fn intern_fr(&mut self, flavor: FlavorIdx, resource: ResourceIdx) -> FrIdx {
        let pair = (flavor, resource);
        if let Some(known) = self.fr_by_pair.find(&pair) {
            return FrIdx(known);
        }
        let index = FrIdx(self.fr_by_pair.add(pair));
        self.frs.resize(self.fr_by_pair.slots(), pair);
        self.frs[index.at()] = pair;
        index
    }

    /// The index of a flavor and resource; `None`: nobody has a quota for it. A queue may cover a
    /// resource and forget its quota; such a queue is inactive.
    pub fn find_fr(&self, flavor: FlavorIdx, resource: ResourceIdx) -> Option<FrIdx> {
        self.fr_by_pair.find(&(flavor, resource)).map(FrIdx)
    }

    /// The index of a flavor and resource of an active queue, which has a quota for each.
    pub fn listed_fr(&self, flavor: FlavorIdx, resource: ResourceIdx) -> FrIdx {
        self.find_fr(flavor, resource).expect("an active queue has a quota for all that it covers")
    }

    /// Flavor and resource behind an index.
    pub fn fr(&self, fr: FrIdx) -> (FlavorIdx, ResourceIdx) {
        self.frs[fr.at()]
    }

    /// Name of a flavor.
    pub fn flavor_name(&self, flavor: FlavorIdx) -> &Text {
        &self.flavors[flavor.at()].0
    }

    /// Facts of a flavor, if its object exists.
    pub fn flavor(&self, flavor: FlavorIdx) -> Option<&Arc<FlavorFacts>> {
        self.flavors[flavor.at()].1.as_ref()
    }

    /// Facts of those flavors whose object exists, by name: which of them is named first to
    /// people, or lends a toleration, must not depend on their numbers.
    pub fn facts_by_name(&self, flavors: &[FlavorIdx]) -> Vec<(FlavorIdx, Arc<FlavorFacts>)> {
        let known = |flavor: &FlavorIdx| Some((*flavor, self.flavor(*flavor)?.clone()));
        let mut facts: Vec<_> = flavors.iter().filter_map(known).collect();
        facts.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        facts
    }

    /// A queue slot.
    pub fn queue(&self, queue: QueueIdx) -> &Queue {
        &self.queues[queue.at()]
    }

    /// A queue slot, to keep its holders.
    pub fn queue_mut(&mut self, queue: QueueIdx) -> &mut Queue {
        &mut self.queues[queue.at()]
    }

    /// How many workloads hold quota in some queue.
    pub fn holders(&self) -> usize {
        self.queues.iter().map(|queue| queue.holding.len()).sum()
    }

    /// All queues whose object exists, by name.
    pub fn existing(&self) -> impl Iterator<Item = (QueueIdx, &Queue)> {
        let indices = self.queue_by_name.iter().map(|(_, index)| QueueIdx(index));
        let named = indices.map(|index| (index, self.queue(index)));
        named.filter(|(_, queue)| queue.facts.is_some())
    }

    /// Names of the queues that are being deleted and in which nobody holds quota.
    pub fn unused(&self) -> Vec<Text> {
        let queues = self.leaving.iter().map(|index| self.queue(*index));
        queues.filter(|queue| queue.holding.is_empty()).map(|queue| queue.name.clone()).collect()
    }

    /// The queue at a leaf of the tree.
    pub fn queue_at(&self, node: QuotaIdx) -> Option<QueueIdx> {
        self.queue_of[node.at()]
    }

    /// Changes usage of a queue; queues without an object keep no numbers.
    pub fn change(&mut self, queue: QueueIdx, fr: FrIdx, amount: i64) {
        let Some(node) = self.queues[queue.at()].node else { return };
        match amount {
            0 => {}
            1.. => self.tree.charge(node, fr, amount),
            _ => self.tree.discharge(node, fr, -amount),
        }
    }

    /// Notes that room came free, or quota was edited, in a queue's tree.
    pub fn advance(&mut self, queue: QueueIdx) {
        if let Some(node) = self.queues[queue.at()].node {
            self.generations[self.tree.root(node).at()] += 1;
        }
    }

    /// Counts releases and edits in a queue's tree.
    pub fn generation(&self, queue: QueueIdx) -> u64 {
        self.queues[queue.at()].node.map_or(0, |n| self.generations[self.tree.root(n).at()])
    }

    /// Root of a queue's tree.
    pub fn root(&self, queue: QueueIdx) -> Option<QuotaIdx> {
        self.queues[queue.at()].node.map(|node| self.tree.root(node))
    }

    /// Names of ClusterQueues, those without an object included.
    pub fn queue_names(&self) -> &Interner<Text> {
        &self.queue_by_name
    }

    /// Names of flavors, those without an object included.
    pub fn flavor_names(&self) -> &Interner<Text> {
        &self.flavor_by_name
    }

    /// Pairs of flavor and resource.
    pub fn frs(&self) -> &Interner<(FlavorIdx, ResourceIdx)> {
        &self.fr_by_pair
    }

    /// Forgets names that nothing uses.
    pub fn sweep(&mut self, used: &Used) {
        self.fr_by_pair.sweep(&used.frs, &mut self.frs, |_| {});
        let flavors = &mut self.flavors;
        self.flavor_by_name.sweep(&used.flavors, flavors, |slot| *slot = Default::default());
        self.queue_by_name.sweep(&used.queues, &mut self.queues, |queue| {
            assert!(queue.holding.is_empty(), "a queue that work holds quota in");
            *queue = Queue::default();
        });
    }

    /// Compares names with what stands in their slots.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount_names(&self) {
        self.queue_by_name.recount();
        for (name, index) in self.queue_by_name.iter() {
            assert_eq!(self.queues[index as usize].name, *name, "name of queue slot {index}");
        }
        self.flavor_by_name.recount();
        for (name, index) in self.flavor_by_name.iter() {
            assert_eq!(self.flavors[index as usize].0, *name, "name of flavor slot {index}");
        }
        self.fr_by_pair.recount();
        for (pair, index) in self.fr_by_pair.iter() {
            assert_eq!(self.frs[index as usize], *pair, "flavor and resource of slot {index}");
        }
    }

    /// Compares usage with charges counted from scratch.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, charges: impl Iterator<Item = (QueueIdx, FrIdx, i64)>) {
        if let Some(shares) = &self.shares {
            shares.recount(&self.tree, |fr| self.fr(fr).1);
        }
        let node = |queue: QueueIdx| self.queue(queue).node;
        self.tree.recount(charges.filter_map(|(queue, fr, n)| Some((node(queue)?, fr, n))));
    }

    /// Whether queues of a cohort share by weight.
    pub fn shares_fairly(&self) -> bool {
        self.shares.is_some()
    }

    /// Whether what a queue borrows gives way to everybody else, as it has no weight, or a cohort
    /// around it has none; while fair sharing is off nobody does.
    pub fn weightless(&self, queue: QueueIdx) -> bool {
        let node = self.queues[queue.at()].node;
        let shares = self.shares.as_ref().zip(node);
        shares.is_some_and(|(shares, node)| shares.weightless(&self.tree, node))
    }

    /// Share of a node as things are; while fair sharing is off nobody has any.
    pub fn share(&self, node: QuotaIdx) -> Share {
        self.share_with(node, &[])
    }

    /// The same as if it used so much more.
    pub fn share_with(&self, node: QuotaIdx, more: &[(FrIdx, i64)]) -> Share {
        let of = |shares: &Shares| shares.of(&self.tree, (node, more), |fr| self.fr(fr).1);
        self.shares.as_ref().map_or(Share::NONE, of)
    }

    /// Share of a cohort in thousandths, if it is in the tree and fair sharing is on.
    pub fn cohort_share(&self, name: &Text) -> Option<i64> {
        let node = self.cohorts.get(name).filter(|_| self.shares_fairly());
        node.map(|node| self.share(*node).shown())
    }

    /// The name of a node of the tree, and whether it is a cohort's.
    pub fn name_of(&self, node: QuotaIdx) -> Option<(&Text, bool)> {
        if let Some(queue) = self.queue_at(node) {
            return Some((&self.queue(queue).name, false));
        }
        self.cohorts().find(|(_, cohort)| *cohort == node).map(|(name, _)| (name, true))
    }

    /// Cohorts that are in the tree, those without an object included, by name.
    pub fn cohorts(&self) -> impl Iterator<Item = (&Text, QuotaIdx)> {
        self.cohorts.iter().map(|(name, node)| (name, *node))
    }

    /// Puts a tree of the same nodes with other quotas in place, for a try; the one before it.
    pub fn replace_tree(&mut self, tree: QuotaTree) -> QuotaTree {
        assert_eq!(tree.len(), self.tree.len(), "the same nodes");
        let before = std::mem::replace(&mut self.tree, tree);
        if let Some(shares) = &mut self.shares {
            shares.follow(&self.tree, |fr| self.frs[fr.at()].1);
        }
        before
    }

    /// Weights by node. `cohorts` are those that stand in the tree.
    fn weights(
        &self,
        facts: &QueueFacts,
        cohorts: &BTreeMap<Text, Result<QuotaIdx, Inactive>>,
    ) -> Vec<Weight> {
        let mut weights = vec![Weight::ONE; self.tree.len()];
        for (name, cohort) in &facts.cohorts {
            if let Some(Ok(node)) = cohorts.get(name) {
                weights[node.at()] = cohort.weight;
            }
        }
        for (_, queue) in self.existing() {
            if let (Some(node), Some(facts)) = (queue.node, &queue.facts) {
                weights[node.at()] = facts.weight;
            }
        }
        weights
    }

    /// Builds everything from the objects, without usage: the caller charges it again.
    pub fn rebuild(&mut self, facts: &QueueFacts, policy: &Policy, resources: &mut Resources) {
        for flavor in &mut self.flavors {
            flavor.1 = None;
        }
        for (name, flavor) in &facts.flavors {
            let index = self.intern_flavor(name);
            self.flavors[index.at()].1 = Some(facts.with_levels(flavor));
        }
        // Beyond all that anybody remembers, and not by more: there are edits for years.
        let edits = self.generations.iter().max().map_or(0, |latest| latest + 1);
        self.tree = QuotaTree::default();
        let cohorts = self.add_cohorts(facts, resources);
        for queue in &mut self.queues {
            (queue.facts, queue.node, queue.groups) = (None, None, Vec::new());
        }
        self.leaving.clear();
        for (name, queue) in &facts.cluster_queues {
            let index = self.intern_queue(name);
            self.leaving.extend(queue.deleted.map(|_| index));
            let quotas = self.quotas(&queue.groups, resources);
            let placed = queue.cohort.as_ref().map(|cohort| cohorts[cohort].clone());
            let parent = placed.clone().and_then(|placed| placed.ok());
            let node = self.tree.add(parent, &quotas);
            let groups = self.groups(queue, &policy.quota, resources);
            let inactive = self.inactive(queue, placed.and_then(|placed| placed.err()), facts);
            let slot = self.queue_mut(index);
            slot.facts = Some(queue.clone());
            slot.node = Some(node);
            slot.groups = groups;
            slot.inactive = inactive;
        }
        let shares = policy.fair_sharing.map(|_| self.weights(facts, &cohorts));
        let placed = |(name, placed): (&Text, &Result<QuotaIdx, Inactive>)| {
            Some((name.clone(), *placed.as_ref().ok()?))
        };
        self.cohorts = cohorts.iter().filter_map(placed).collect();
        let broken =
            |(name, placed): (Text, Result<QuotaIdx, Inactive>)| Some((name, placed.err()?));
        self.broken_cohorts = cohorts.into_iter().filter_map(broken).collect();
        self.tree.finish();
        self.shares = shares.map(|weights| Shares::new(&self.tree, weights, |fr| self.fr(fr).1));
        self.generations = vec![edits; self.tree.len()];
        self.queue_of = vec![None; self.tree.len()];
        for (at, queue) in self.queues.iter().enumerate() {
            if let Some(node) = queue.node {
                self.queue_of[node.at()] = Some(QueueIdx(at as u32));
            }
        }
    }

    /// Adds cohorts, parents first. Members of a cycle (and all below it) get an error instead.
    fn add_cohorts(
        &mut self,
        facts: &QueueFacts,
        resources: &mut Resources,
    ) -> BTreeMap<Text, Result<QuotaIdx, Inactive>> {
        let named = facts.cluster_queues.values().filter_map(|queue| queue.cohort.clone());
        let parents = facts.cohorts.values().filter_map(|cohort| cohort.parent.clone());
        let all: BTreeSet<Text> =
            named.chain(parents).chain(facts.cohorts.keys().cloned()).collect();
        let mut placed: BTreeMap<Text, Result<QuotaIdx, Inactive>> = BTreeMap::new();
        for name in all {
            // Walk up to the first ancestor that is placed, or a root, or a cohort seen twice.
            let mut seen = BTreeSet::from([name.clone()]);
            let mut path = vec![name];
            let parent = loop {
                let last = path.last().expect("never empty").clone();
                if let Some(known) = placed.get(&last) {
                    path.pop();
                    break known.clone().map(Some);
                }
                match facts.cohorts.get(&last).and_then(|cohort| cohort.parent.clone()) {
                    None => break Ok(None),
                    Some(parent) if !seen.insert(parent.clone()) => {
                        break Err(Inactive::CohortCycle(parent));
                    }
                    Some(parent) => path.push(parent),
                }
            };
            self.place_cohorts(path, parent, facts, resources, &mut placed);
        }
        placed
    }

    fn place_cohorts(
        &mut self,
        path: Vec<Text>,
        mut above: Result<Option<QuotaIdx>, Inactive>,
        facts: &QueueFacts,
        resources: &mut Resources,
        placed: &mut BTreeMap<Text, Result<QuotaIdx, Inactive>>,
    ) {
        for name in path.into_iter().rev() {
            let object = facts.cohorts.get(&name);
            if let Some(broken) = object.and_then(|cohort| all_rules(&cohort.broken)) {
                above = Err(Inactive::CohortBroken(name.clone(), broken));
            }
            let result = above.clone().map(|parent| {
                let groups = object.map_or(&[][..], |cohort| &cohort.groups);
                let quotas = self.quotas(groups, resources);
                self.tree.add(parent, &quotas)
            });
            above = result.clone().map(Some);
            placed.insert(name, result);
        }
    }

    fn quotas(
        &mut self,
        groups: &[ResourceGroup],
        resources: &mut Resources,
    ) -> Vec<(FrIdx, Quota)> {
        let mut quotas = Vec::new();
        for flavor in groups.iter().flat_map(|group| &group.flavors) {
            let index = self.intern_flavor(&flavor.flavor);
            for (resource, quota) in &flavor.resources {
                let resource = resources.intern(resource);
                quotas.push((self.intern_fr(index, resource), *quota));
            }
        }
        quotas
    }

    /// What each group covers of what counts.
    fn groups(
        &mut self,
        queue: &ClusterQueueFacts,
        args: &QuotaArgs,
        resources: &mut Resources,
    ) -> Vec<Group> {
        let mut groups = Vec::new();
        for group in &queue.groups {
            let named = group.covered.iter().filter(|name| args.charges(name));
            let mut covered: Vec<ResourceIdx> = named.map(|name| resources.intern(name)).collect();
            covered.sort_unstable();
            let flavors = group.flavors.iter().map(|f| self.intern_flavor(&f.flavor)).collect();
            groups.push(Group { covered, flavors });
        }
        groups
    }

    fn inactive(
        &self,
        queue: &ClusterQueueFacts,
        cohort: Option<Inactive>,
        facts: &QueueFacts,
    ) -> Option<Inactive> {
        if queue.deleted.is_some() {
            return Some(Inactive::Terminating);
        }
        if let Some(broken) = all_rules(&queue.broken) {
            return Some(Inactive::Broken(broken));
        }
        if queue.stop != StopPolicy::None {
            return Some(Inactive::Stopped);
        }
        let flavors = queue.groups.iter().flat_map(|group| &group.flavors);
        flavors.map(|quota| &quota.flavor).find_map(|flavor| unusable(flavor, facts)).or(cohort)
    }
}

/// Why no queue may use a flavor.
fn unusable(name: &Text, facts: &QueueFacts) -> Option<Inactive> {
    let Some(flavor) = facts.flavors.get(name) else {
        return Some(Inactive::FlavorMissing(name.clone()));
    };
    if let Some(broken) = all_rules(&flavor.broken) {
        return Some(Inactive::FlavorBroken(name.clone(), broken));
    }
    let unknown = |topology: &&Text| !facts.topologies.contains_key(*topology);
    let topology = flavor.topology.as_ref().filter(unknown)?.clone();
    Some(Inactive::TopologyMissing { flavor: name.clone(), topology })
}

/// All rules that an object breaks, in one text.
pub fn all_rules(broken: &[Text]) -> Option<Text> {
    (!broken.is_empty()).then(|| broken.join("; ").into())
}
