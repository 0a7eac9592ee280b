//! Quota arithmetic of hierarchical cohorts, slow and obviously right.
//!
//! Every number is computed anew, by recursion over the facts, straight from the definitions:
//! for a node of the tree with nominal N, borrowing limit B, lending limit L and usage U
//!
//! - Sub: N of a queue; N of a cohort plus what each child lends it (Sub - Local of the child);
//! - Local: what it keeps, max(0, Sub - L), and 0 without L;
//! - U of a cohort: what each child uses beyond its Local;
//! - what a pod counts of a resource: what it asks, unless that is left out or replaced, plus what
//!   transformations make of the rest, together not below 0;
//! - share: what a node uses beyond Sub of the resource of which that is most, over what its parent
//!   could use at most, over the weight;
//! - available: at the root Sub - U; else max(0, Local - U) plus what the parent has, that
//!   bounded by (Sub - Local) - max(0, U - Local) + B.
//!
//! It exists to be compared with the engine's incremental numbers.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::{
    Amounts, ClusterQueueFacts, CohortFacts, Input, Quota, Text, Weight,
};
use capstan_core::policy::QuotaArgs;

pub mod classical;
mod fair;

/// A flavor and a resource.
pub type Pair = (Text, Text);

/// The tree of one cluster with its usage.
#[derive(Clone, Debug, Default)]
pub struct QuotaModel {
    queues: BTreeMap<Text, ClusterQueueFacts>,
    cohorts: BTreeMap<Text, CohortFacts>,
    usage: BTreeMap<(Text, Pair), i64>,
}

/// What a pod that asks this counts of a resource; for amounts that are whole in the end.
pub fn counted(args: &QuotaArgs, asked: &Amounts, resource: &Text) -> i64 {
    // In billionths of a unit.
    let asked = |name: &Text| -> i128 {
        let one = if &**name == "cpu" { 1_000_000 } else { 1_000_000_000 };
        let amount = asked.get(name).filter(|_| args.counts(name)).copied();
        i128::from(amount.unwrap_or(0)) * one
    };
    let (mut own, mut made) = (asked(resource), 0);
    for transformation in &args.transformations {
        let input = asked(&transformation.input);
        if transformation.input == *resource && transformation.replaces {
            own = 0;
        }
        let by = transformation.multiply_by.as_ref().map_or(0, asked);
        let by = if by == 0 { 1_000_000_000 } else { by };
        for (output, each) in &transformation.outputs {
            if output == resource {
                made += input * each / 1_000_000_000 * by / 1_000_000_000;
            }
        }
    }
    let one = if &**resource == "cpu" { 1_000_000 } else { 1_000_000_000 };
    ((own + made.max(0)) / one) as i64
}

/// A node of the tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node<'a> {
    Queue(&'a Text),
    Cohort(&'a Text),
}

impl<'a> Node<'a> {
    fn name(self) -> &'a Text {
        match self {
            Node::Queue(name) | Node::Cohort(name) => name,
        }
    }
}

/// A dominant resource share, as a fraction.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    borrowed: i64,
    lendable: i64,
    /// In billionths.
    weight: u64,
    /// It borrows anything at all.
    pub borrows: bool,
}

impl Share {
    fn ratio(&self, other: &Share) -> Ordering {
        let across = |one: &Share, other: &Share| i128::from(one.borrowed) * other.lendable as i128;
        across(self, other).cmp(&across(other, self))
    }

    fn infinite(&self) -> bool {
        self.borrows && self.weight == 0
    }

    /// In thousandths, rounded up.
    pub fn shown(&self) -> i64 {
        if self.infinite() {
            return i64::MAX;
        }
        let above = i128::from(self.borrowed) * 1_000 * i128::from(Weight::ONE.0);
        let below = i128::from(self.lendable) * i128::from(self.weight);
        ((above + below - 1) / below) as i64
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Share) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<Ordering> {
        Some(match (self.infinite(), other.infinite()) {
            (true, true) => self.ratio(other),
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let across = |one: &Share, other: &Share| {
                    i128::from(one.borrowed) * i128::from(other.lendable) * i128::from(other.weight)
                };
                across(self, other).cmp(&across(other, self))
            }
        })
    }
}

impl QuotaModel {
    /// Reads queues and cohorts; the other facts are passed over.
    pub fn new<'a>(facts: impl IntoIterator<Item = &'a Input>) -> QuotaModel {
        let mut model = QuotaModel::default();
        for fact in facts {
            match fact {
                Input::ClusterQueue(queue) => {
                    model.queues.insert(queue.name.clone(), queue.clone());
                }
                Input::Cohort(cohort) => {
                    model.cohorts.insert(cohort.name.clone(), cohort.clone());
                }
                _ => {}
            }
        }
        model
    }

    /// The same where all weigh the same.
    pub fn unweighted(mut self) -> QuotaModel {
        self.queues.values_mut().for_each(|queue| queue.weight = Weight::ONE);
        self.cohorts.values_mut().for_each(|cohort| cohort.weight = Weight::ONE);
        self
    }

    /// Charges a queue.
    pub fn charge(&mut self, queue: &Text, flavor: &Text, resource: &Text, amount: i64) {
        let pair = (flavor.clone(), resource.clone());
        *self.usage.entry((queue.clone(), pair)).or_default() += amount;
    }

    /// Names of all queues.
    pub fn queues(&self) -> Vec<Text> {
        self.queues.keys().cloned().collect()
    }

    /// Flavors and resources that a queue lists.
    pub fn pairs(&self, queue: &Text) -> Vec<Pair> {
        let groups = &self.queues[queue].groups;
        let flavors = groups.iter().flat_map(|group| &group.flavors);
        let pairs = flavors.flat_map(|flavor| {
            flavor.resources.keys().map(|resource| (flavor.flavor.clone(), resource.clone()))
        });
        pairs.collect()
    }

    /// What a queue uses.
    pub fn used(&self, queue: &Text, pair: &Pair) -> i64 {
        self.usage.get(&(queue.clone(), pair.clone())).copied().unwrap_or(0)
    }

    /// What a queue could still use; negative where facts from outside left debt.
    pub fn room(&self, queue: &Text, pair: &Pair) -> i64 {
        self.available(Node::Queue(queue), pair)
    }

    /// The most that a queue could ever use.
    pub fn potential(&self, queue: &Text, pair: &Pair) -> i64 {
        self.most(Node::Queue(queue), pair)
    }

    /// Own quota of a queue.
    pub fn nominal_of(&self, queue: &Text, pair: &Pair) -> i64 {
        self.quota(Node::Queue(queue), pair).nominal
    }

    /// Dominant resource share of a queue or cohort, by name; a queue's where both have it.
    pub fn share(&self, name: &Text) -> Share {
        let (node, weight) = self.node(name);
        let none = Share { borrowed: 0, lendable: 1, weight: 1, borrows: false };
        let Some(parent) = self.parent(node) else { return none };
        let pairs = self.pairs_of_tree(node);
        let beyond = |pair: &Pair| (self.usage(node, pair) - self.subtree(node, pair)).max(0);
        if pairs.iter().all(|pair| beyond(pair) == 0) {
            return none;
        }
        let resources: BTreeSet<&Text> = pairs.iter().map(|(_, resource)| resource).collect();
        let of = |resource: &Text| {
            let of_it = || pairs.iter().filter(|(_, of)| of == resource);
            let borrowed: i64 = of_it().map(beyond).sum();
            let lendable: i64 = of_it().map(|pair| self.most(parent, pair)).sum();
            Share { borrowed, lendable, weight: weight.0, borrows: true }
        };
        let lent = resources.into_iter().map(of).filter(|share| share.lendable > 0);
        let most = lent.max_by(|one, other| one.ratio(other));
        most.unwrap_or(Share { weight: weight.0, borrows: true, ..none })
    }

    /// Of two queues of one tree: the nodes from each up to below the lowest cohort of both.
    pub fn sides(&self, one: &Text, other: &Text) -> Option<(Vec<Text>, Vec<Text>)> {
        let (up, down) = (self.path(one), self.path(other));
        let common = up.iter().find(|node| down.contains(node))?.clone();
        let below = |path: Vec<Text>| path.into_iter().take_while(|it| *it != common).collect();
        Some((below(up), below(down)))
    }

    /// A queue and the cohorts around it.
    fn path(&self, queue: &Text) -> Vec<Text> {
        let queue = self.queues.get_key_value(queue);
        let (mut at, mut path) = (queue.map(|(name, _)| Node::Queue(name)), Vec::new());
        while let Some(node) = at {
            path.push(node.name().clone());
            at = self.parent(node);
        }
        path
    }

    /// Name of the root above a node.
    fn top<'a>(&'a self, node: Node<'a>) -> &'a Text {
        let mut top = node;
        while let Some(parent) = self.parent(top) {
            top = parent;
        }
        top.name()
    }

    fn node(&self, name: &Text) -> (Node<'_>, Weight) {
        if let Some((name, queue)) = self.queues.get_key_value(name) {
            return (Node::Queue(name), queue.weight);
        }
        let (name, cohort) = self.cohorts.get_key_value(name).expect("a known cohort");
        (Node::Cohort(name), cohort.weight)
    }

    /// Flavors and resources that anybody lists in the tree of a node, or holds although nobody
    /// lists them any more.
    fn pairs_of_tree(&self, node: Node<'_>) -> BTreeSet<Pair> {
        let root = self.top(node);
        let queues = self.queues.iter().filter(|(name, _)| self.top(Node::Queue(name)) == root);
        let cohorts = self.cohorts.iter().filter(|(name, _)| self.top(Node::Cohort(name)) == root);
        let groups = queues.flat_map(|(_, queue)| &queue.groups);
        let groups = groups.chain(cohorts.flat_map(|(_, cohort)| &cohort.groups));
        let flavors = groups.flat_map(|group| &group.flavors);
        let pairs = flavors.flat_map(|flavor| {
            flavor.resources.keys().map(|resource| (flavor.flavor.clone(), resource.clone()))
        });
        let held = self.usage.keys().map(|(_, pair)| pair.clone());
        pairs.chain(held).collect()
    }

    /// Everything that the rules do not allow; empty in a cluster that started without debt.
    pub fn overruns(&self) -> Vec<String> {
        let mut found = Vec::new();
        for queue in self.queues.keys() {
            for pair in self.pairs(queue) {
                let room = self.room(queue, &pair);
                if room < 0 {
                    found.push(format!("{queue} is {} over for {pair:?}", -room));
                }
            }
        }
        found
    }

    fn quota(&self, node: Node, pair: &Pair) -> Quota {
        let groups = match node {
            Node::Queue(name) => &self.queues[name].groups,
            Node::Cohort(name) => match self.cohorts.get(name) {
                Some(cohort) => &cohort.groups,
                None => return Quota::default(),
            },
        };
        let flavors = groups.iter().flat_map(|group| &group.flavors);
        let mut found = flavors.filter(|flavor| flavor.flavor == pair.0);
        found.find_map(|flavor| flavor.resources.get(&pair.1)).copied().unwrap_or_default()
    }

    /// Queues and cohorts below a circle stand alone.
    fn parent<'a>(&'a self, node: Node<'a>) -> Option<Node<'a>> {
        let name = match node {
            Node::Queue(name) => self.queues[name].cohort.as_ref().filter(|it| !self.circles(it)),
            Node::Cohort(name) => self.above(name).filter(|it| !self.circles(it)),
        };
        name.map(Node::Cohort)
    }

    fn above(&self, cohort: &Text) -> Option<&Text> {
        self.cohorts.get(cohort).and_then(|cohort| cohort.parent.as_ref())
    }

    /// Whether the way up from a cohort never ends.
    pub fn circles(&self, cohort: &Text) -> bool {
        let mut at = cohort;
        for _ in 0..=self.cohorts.len() {
            match self.above(at) {
                Some(parent) => at = parent,
                None => return false,
            }
        }
        true
    }

    fn children(&self, cohort: &Text) -> Vec<Node<'_>> {
        let queues = self.queues.values().filter(|q| q.cohort.as_ref() == Some(cohort));
        let cohorts = self.cohorts.values().filter(|c| c.parent.as_ref() == Some(cohort));
        let queues = queues.map(|queue| Node::Queue(&queue.name));
        queues.chain(cohorts.map(|cohort| Node::Cohort(&cohort.name))).collect()
    }

    fn subtree(&self, node: Node, pair: &Pair) -> i64 {
        let own = self.quota(node, pair).nominal;
        let lent = |child: Node| self.subtree(child, pair) - self.local(child, pair);
        match node {
            Node::Queue(_) => own,
            Node::Cohort(name) => own + self.children(name).into_iter().map(lent).sum::<i64>(),
        }
    }

    fn local(&self, node: Node, pair: &Pair) -> i64 {
        match self.quota(node, pair).lending {
            Some(lending) => (self.subtree(node, pair) - lending).max(0),
            None => 0,
        }
    }

    fn usage(&self, node: Node, pair: &Pair) -> i64 {
        let beyond = |child: Node| (self.usage(child, pair) - self.local(child, pair)).max(0);
        match node {
            Node::Queue(name) => self.used(name, pair),
            Node::Cohort(name) => self.children(name).into_iter().map(beyond).sum(),
        }
    }

    fn available(&self, node: Node, pair: &Pair) -> i64 {
        let (subtree, usage) = (self.subtree(node, pair), self.usage(node, pair));
        let Some(parent) = self.parent(node) else { return subtree - usage };
        let local = self.local(node, pair);
        let mut above = self.available(parent, pair);
        if let Some(borrowing) = self.quota(node, pair).borrowing {
            above = above.min((subtree - local) - (usage - local).max(0) + borrowing);
        }
        (local - usage).max(0) + above
    }

    fn most(&self, node: Node, pair: &Pair) -> i64 {
        let subtree = self.subtree(node, pair);
        let Some(parent) = self.parent(node) else { return subtree };
        let reach = self.local(node, pair) + self.most(parent, pair);
        match self.quota(node, pair).borrowing {
            Some(borrowing) => reach.min(subtree + borrowing),
            None => reach,
        }
    }
}

/// All resources that queues of a model list, each once.
pub fn resources(model: &QuotaModel) -> BTreeSet<Text> {
    let queues = model.queues();
    queues.iter().flat_map(|queue| model.pairs(queue)).map(|(_, resource)| resource).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{DEFAULT, cluster_queue, cohort, group, text};

    fn quota(nominal: i64, borrowing: Option<i64>, lending: Option<i64>) -> Quota {
        Quota { nominal, borrowing, lending }
    }

    fn queue(name: &str, parent: &str, quota: Quota) -> Input {
        let group = group(&[(DEFAULT, &[("cpu", quota)])]);
        Input::ClusterQueue(cluster_queue(name, Some(parent), group))
    }

    fn cohort_of(name: &str, parent: Option<&str>, quota: Quota) -> Input {
        let mut facts = cohort(name, parent);
        facts.groups = vec![group(&[(DEFAULT, &[("cpu", quota)])])];
        Input::Cohort(facts)
    }

    fn rooms(facts: &[Input], used: &[(&str, i64)], ask: &[&str]) -> Vec<(i64, i64)> {
        let mut model = QuotaModel::new(facts);
        for (queue, amount) in used {
            model.charge(&text(queue), &text(DEFAULT), &text("cpu"), *amount);
        }
        let pair = (text(DEFAULT), text("cpu"));
        let both =
            |queue: &&str| (model.room(&text(queue), &pair), model.potential(&text(queue), &pair));
        ask.iter().map(both).collect()
    }

    #[test]
    fn a_flat_cohort_with_limits() {
        let facts = [
            cohort_of("all", None, quota(10, None, None)),
            queue("plain", "all", quota(10, None, None)),
            queue("capped", "all", quota(10, Some(2), None)),
            queue("kind", "all", quota(10, None, Some(5))),
        ];
        let used = [("plain", 20), ("capped", 10), ("kind", 6)];
        let have = rooms(&facts, &used, &["plain", "capped", "kind"]);
        assert_eq!(have, [(4, 35), (2, 12), (4, 40)]);
    }

    #[test]
    fn two_levels_and_guarantees() {
        let facts = [
            cohort_of("left", Some("root"), quota(10, None, None)),
            cohort_of("right", Some("root"), quota(10, None, None)),
            queue("l", "left", quota(10, None, None)),
            queue("r", "right", quota(10, None, Some(0))),
        ];
        let have = rooms(&facts, &[("l", 10), ("r", 5)], &["l", "r"]);
        assert_eq!(have, [(20, 30), (25, 40)]);
    }

    #[test]
    fn limits_of_cohorts_bound_their_subtrees() {
        let facts = [
            cohort_of("left", Some("root"), quota(10, Some(5), None)),
            cohort_of("right", Some("root"), quota(10, None, None)),
            queue("one", "left", quota(10, None, None)),
            queue("two", "left", quota(10, Some(5), None)),
            queue("three", "right", quota(10, None, None)),
        ];
        let have = rooms(&facts, &[], &["one", "two", "three"]);
        assert_eq!(have.iter().map(|(room, _)| *room).collect::<Vec<_>>(), [35, 15, 50]);
        let facts = [
            cohort_of("left", Some("root"), quota(0, None, Some(5))),
            Input::Cohort(cohort("right", Some("root"))),
            queue("one", "left", quota(10, None, Some(5))),
            queue("two", "left", quota(10, None, None)),
            queue("far", "right", quota(0, None, None)),
        ];
        let have = rooms(&facts, &[], &["far", "two", "one"]);
        assert_eq!(have.iter().map(|(room, _)| *room).collect::<Vec<_>>(), [5, 15, 20]);
    }

    /// The example of spec/quota.md 9.1, with other weights: 5 used of 3 owned, 9 in all.
    #[test]
    fn shares_are_by_weight() {
        let three = |name: &str, weight: u64| match queue(name, "all", quota(3, None, None)) {
            Input::ClusterQueue(facts) => {
                Input::ClusterQueue(ClusterQueueFacts { weight: Weight(weight), ..facts })
            }
            other => other,
        };
        let one = Weight::ONE.0;
        for (weight, shown) in [(one, 223), (2 * one, 112), (one / 2, 445), (0, i64::MAX)] {
            let facts = [three("a", 0), three("b", weight), three("c", one)];
            let mut model = QuotaModel::new(&facts);
            model.charge(&text("a"), &text(DEFAULT), &text("cpu"), 3);
            model.charge(&text("b"), &text(DEFAULT), &text("cpu"), 5);
            let of = |name: &str| model.share(&text(name));
            assert_eq!(of("b").shown(), shown, "weight {weight}");
            assert_eq!((of("a").shown(), of("a").borrows), (0, false), "whatever it weighs");
            assert!(of("b") > of("a") && of("a") == of("c"));
            assert_eq!(model.clone().unweighted().share(&text("b")).shown(), 223);
        }
        // 1 of 9 beyond its own at no weight is more than 2 of 9 at any, and less than 2 at none.
        for (weight, more) in [(1, Ordering::Greater), (0, Ordering::Less)] {
            let facts = [three("a", 0), three("b", weight), three("c", one)];
            let mut model = QuotaModel::new(&facts);
            model.charge(&text("a"), &text(DEFAULT), &text("cpu"), 4);
            model.charge(&text("b"), &text(DEFAULT), &text("cpu"), 5);
            let [a, b] = ["a", "b"].map(|name| model.share(&text(name)));
            assert_eq!(a.partial_cmp(&b), Some(more));
        }
    }

    /// The resource of which most is borrowed makes the share (spec/quota.md 9.1).
    #[test]
    fn shares_are_of_the_dominant_resource() {
        let both = |cpu: i64, gpus: i64| {
            let none = |nominal| quota(nominal, None, None);
            group(&[(DEFAULT, &[("cpu", none(cpu)), ("gpu", none(gpus))])])
        };
        let all = CohortFacts { groups: vec![both(10, 4)], ..cohort("all", None) };
        let queue = cluster_queue("a", Some("all"), both(0, 0));
        let mut model = QuotaModel::new(&[Input::Cohort(all), Input::ClusterQueue(queue)]);
        model.charge(&text("a"), &text(DEFAULT), &text("cpu"), 3);
        assert_eq!(model.share(&text("a")).shown(), 300, "3 of 10 cpu");
        model.charge(&text("a"), &text(DEFAULT), &text("gpu"), 2);
        assert_eq!(model.share(&text("a")).shown(), 500, "2 of 4 GPUs");
    }

    #[test]
    fn debt_is_negative_and_found() {
        let facts = [
            cohort_of("all", None, quota(10, None, None)),
            queue("a", "all", quota(10, None, None)),
            queue("b", "all", quota(10, Some(0), Some(0))),
        ];
        let mut model = QuotaModel::new(&facts);
        assert!(model.overruns().is_empty());
        model.charge(&text("a"), &text(DEFAULT), &text("cpu"), 31);
        assert_eq!(model.overruns().len(), 2, "the debt of a eats the guarantee of b");
        assert_eq!(resources(&model).len(), 1);
    }
}
