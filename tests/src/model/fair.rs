//! Who leaves for whom while queues share fairly: slow, and straight from spec/quota.md 9.4.
//!
//! Three rules are ours beyond that. Who would take its place again stays: in the end each victim
//! by shares must have left a share that, with it, is no smaller than the preemptor's, and must not
//! own what the preemptor borrows then, if its queue's policy lets it take anything back from the
//! preemptor; else all is sought anew without it. Who had too many turns stops others only within
//! its queue's own quota; where that is so without others of its queue, those. And cohorts of equal
//! shares are entered where the first candidate comes first.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::{PreemptReclaim, Text};
use capstan_core::policy::FairSharing;
use capstan_core::time::Time;

use super::classical::{Classical, Work, names_of, within};
use super::{Node, Pair, Share};

/// Names of those who leave, sorted; `None`: nothing allowed would do.
pub(super) fn victims(
    rules: &Classical,
    work: &Work,
    pair: &Pair,
    strategies: FairSharing,
) -> Option<Vec<Text>> {
    let model = rules.model();
    let used = model.used(&work.queue, pair) + work.amount;
    let owns = used <= model.nominal_of(&work.queue, pair);
    if work.rests && !owns && model.parent(model.node(&work.queue).0).is_some() {
        return rules.own_victims(work, pair);
    }
    let mut stay = BTreeSet::new();
    loop {
        let mut search = Search::new(rules, work, pair, (owns, &stay));
        if !search.finds(strategies) {
            return None;
        }
        match search.taken.iter().find(|one| search.comes_back(one)) {
            Some(back) => stay.insert(back.name.clone()),
            None => return Some(names_of(&search.taken)),
        };
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    FinalShare,
    InitialShare,
}

/// Place among all candidates.
type Place = (bool, i32, Reverse<Option<Time>>, i64, Text);

/// Those of other queues than the preemptor's come first.
fn order(candidate: &Work, own: &Text) -> Place {
    let taken = candidate.held.as_ref().map(|(_, at)| *at);
    let Work { priority, lost, uid, .. } = candidate;
    (candidate.queue == *own, *priority, Reverse(taken), *lost, uid.clone())
}

struct Search<'a> {
    /// With the preemptor charged, and without those that were taken.
    left: Classical,
    work: &'a Work,
    pair: &'a Pair,
    /// The queue stays within its own quota with all that it holds and the preemptor.
    owns: bool,
    /// Candidates that are left, by queue, the next one first.
    candidates: BTreeMap<Text, Vec<Work>>,
    taken: Vec<Work>,
    dropped: BTreeSet<Text>,
}

impl<'a> Search<'a> {
    /// Of a preemptor; `owns`: what it asks is its queue's own. `stay`: who is no candidate.
    fn new(
        rules: &Classical,
        work: &'a Work,
        pair: &'a Pair,
        (owns, stay): (bool, &BTreeSet<Text>),
    ) -> Search<'a> {
        let mut candidates: BTreeMap<Text, Vec<Work>> = BTreeMap::new();
        let policy = &rules.queue(&work.queue).preemption;
        for one in rules.holders() {
            let on_it = one.held.as_ref().is_some_and(|(held, _)| held == pair);
            let allowed = if one.queue == work.queue {
                within(policy, work, one)
            } else {
                let near = rules.model().sides(&one.queue, &work.queue).is_some();
                let reclaimed = match policy.reclaim {
                    PreemptReclaim::Never => false,
                    PreemptReclaim::LowerPriority => one.priority < work.priority,
                    PreemptReclaim::Any => true,
                };
                near && reclaimed && rules.beyond(&one.queue, pair)
            };
            if on_it && allowed && rules.may_leave(one) && !stay.contains(&one.name) {
                candidates.entry(one.queue.clone()).or_default().push(one.clone());
            }
        }
        for list in candidates.values_mut() {
            list.sort_by_key(|one| order(one, &work.queue));
        }
        let mut left = rules.clone();
        left.change(work, pair, 1);
        let (taken, dropped) = (Vec::new(), BTreeSet::new());
        Search { left, work, pair, owns, candidates, taken, dropped }
    }

    /// Takes candidates until it fits, and gives back who is not needed; whether anybody leaves.
    fn finds(&mut self, strategies: FairSharing) -> bool {
        let first = match strategies {
            FairSharing::FinalShare | FairSharing::FinalThenInitial => Strategy::FinalShare,
            FairSharing::InitialShare => Strategy::InitialShare,
        };
        let aside = self.first_pass(first);
        if !self.fits() && strategies == FairSharing::FinalThenInitial {
            self.second_pass(aside);
        }
        if self.taken.is_empty() || !self.fits() {
            return false;
        }
        for at in (0..self.taken.len() - 1).rev() {
            let back = self.taken.remove(at);
            self.charge(&back, 1);
            if !self.fits() {
                self.charge(&back, -1);
                self.taken.insert(at, back);
            }
        }
        true
    }

    /// Whether a victim would take its place again.
    fn comes_back(&self, one: &Work) -> bool {
        if one.queue == self.work.queue || self.owns {
            return false;
        }
        let (own, other) = self.sides(&one.queue);
        let mut with = self.left.clone();
        with.change(one, self.pair, 1);
        let takes_back = match with.queue(&one.queue).preemption.reclaim {
            PreemptReclaim::Never => false,
            PreemptReclaim::LowerPriority => self.work.priority < one.priority,
            PreemptReclaim::Any => true,
        };
        if !takes_back {
            return false;
        }
        let borrows = |queue: &Text| with.beyond(queue, self.pair);
        let reclaims = !borrows(&one.queue) && borrows(&self.work.queue);
        reclaims || with.model().share(&other) < with.model().share(&own)
    }

    fn charge(&mut self, work: &Work, sign: i64) {
        self.left.change(work, self.pair, sign);
    }

    /// The preemptor is charged already: everything still fits with it, however much is borrowed.
    fn fits(&self) -> bool {
        let mut without = self.left.clone();
        without.change(self.work, self.pair, -1);
        self.work.amount <= without.model().room(&self.work.queue, self.pair).max(0)
    }

    fn pop(&mut self, queue: &Text) -> Work {
        let list = self.candidates.get_mut(queue).expect("a queue with candidates");
        let next = list.remove(0);
        if list.is_empty() {
            self.candidates.remove(queue);
        }
        next
    }

    fn take(&mut self, candidate: Work) {
        self.charge(&candidate, -1);
        self.taken.push(candidate);
    }

    /// Those that the strategy lets stay.
    fn first_pass(&mut self, strategy: Strategy) -> Vec<Work> {
        let mut aside = Vec::new();
        while !self.fits()
            && let Some(target) = self.target()
        {
            if target == self.work.queue || self.owns {
                let next = self.pop(&target);
                self.take(next);
                continue;
            }
            let (model, (own, other)) = (self.left.model(), self.sides(&target));
            let (preemptor, before) = (model.share(&own), model.share(&other));
            while self.candidates.contains_key(&target) {
                let next = self.pop(&target);
                let mut gone = self.left.clone();
                gone.change(&next, self.pair, -1);
                let after = gone.model().share(&other);
                let passes = match strategy {
                    Strategy::FinalShare => preemptor <= after,
                    Strategy::InitialShare => preemptor < before,
                };
                if passes {
                    self.take(next);
                    break;
                }
                aside.push(next);
            }
        }
        aside
    }

    /// Once more for those that were let stay, one of each queue at most.
    fn second_pass(&mut self, aside: Vec<Work>) {
        self.candidates.clear();
        for one in aside {
            self.candidates.entry(one.queue.clone()).or_default().push(one);
        }
        self.dropped.clear();
        while !self.fits()
            && let Some(target) = self.target()
        {
            let (own, other) = self.sides(&target);
            let model = self.left.model();
            if model.share(&own) < model.share(&other) {
                let next = self.pop(&target);
                self.take(next);
            }
            self.dropped.insert(target);
        }
    }

    /// Below the lowest cohort of both: the preemptor's side and a target's.
    fn sides(&self, target: &Text) -> (Text, Text) {
        let sides = self.left.model().sides(&self.work.queue, target);
        let (own, other) = sides.expect("two queues of one tree");
        let last = |path: Vec<Text>| path.last().expect("two queues").clone();
        (last(own), last(other))
    }

    /// The queue whose turn it is.
    fn target(&self) -> Option<Text> {
        let model = self.left.model();
        let own = model.node(&self.work.queue).0;
        let mut root = own;
        while let Some(parent) = model.parent(root) {
            root = parent;
        }
        self.below(root)
    }

    /// Whether anybody at or below a node may have to leave.
    fn asked(&self, node: Node<'_>) -> bool {
        let path = self.left.model().path(&self.work.queue);
        let open = path.contains(node.name()) || self.left.model().share(node.name()).borrows;
        open && match node {
            Node::Queue(name) => self.candidates.contains_key(name) && !self.dropped.contains(name),
            Node::Cohort(name) => {
                let children = self.left.model().children(name);
                children.into_iter().any(|child| self.asked(child))
            }
        }
    }

    /// The queue whose turn it is, at or below a node; `None`: nobody there has to leave.
    fn below(&self, node: Node<'_>) -> Option<Text> {
        if !self.asked(node) {
            return None;
        }
        let Node::Cohort(name) = node else { return Some(node.name().clone()) };
        let children = self.left.model().children(name).into_iter();
        let mut best: Option<(Share, bool, Node<'_>)> = None;
        for child in children.filter(|child| self.asked(*child)) {
            let cohort = matches!(child, Node::Cohort(_));
            let share = self.left.model().share(child.name());
            let better = best.as_ref().is_none_or(|(most, of_cohort, known)| {
                match share.partial_cmp(most) {
                    Some(Ordering::Greater) => true,
                    Some(Ordering::Equal) if cohort != *of_cohort => cohort,
                    Some(Ordering::Equal) => self.first_of(child) < self.first_of(*known),
                    _ => false,
                }
            });
            if better {
                best = Some((share, cohort, child));
            }
        }
        best.and_then(|(.., child)| self.below(child))
    }

    /// Place of the first candidate at or below a node.
    fn first_of(&self, node: Node<'_>) -> Option<Place> {
        match node {
            _ if !self.asked(node) => None,
            Node::Queue(name) => Some(order(&self.candidates[name][0], &self.work.queue)),
            Node::Cohort(name) => {
                let children = self.left.model().children(name).into_iter();
                children.filter_map(|child| self.first_of(child)).min()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use capstan_core::model::input::{CohortFacts, Input, Weight};

    use super::super::QuotaModel;
    use super::super::classical::Mode;
    use super::*;
    use crate::facts::{DEFAULT, cluster_queue, cohort, group, nominal, text};

    fn work(name: &str) -> Work {
        Work {
            name: text(name),
            uid: text(name),
            queue: text(&name[..1]),
            resource: text("cpu"),
            amount: 1,
            priority: 0,
            created: Time(0),
            rests: false,
            held: Some(((text(DEFAULT), text("cpu")), Time(0))),
            lost: 0,
        }
    }

    /// A cohort owns 6, of which b has 4 and c has 2; a asks 1. Weights are in halves.
    fn who_leaves(weights: [u64; 3]) -> Option<Vec<Text>> {
        let quota = |owned: i64| group(&[(DEFAULT, &[("cpu", nominal(owned))])]);
        let all = CohortFacts { groups: vec![quota(6)], ..cohort("all", None) };
        let mut facts = vec![Input::Cohort(all)];
        for (name, halves) in ["a", "b", "c"].into_iter().zip(weights) {
            let mut queue = cluster_queue(name, Some("all"), quota(0));
            queue.weight = Weight(Weight::ONE.0 / 2 * halves);
            queue.preemption.reclaim = PreemptReclaim::Any;
            facts.push(Input::ClusterQueue(queue));
        }
        let held = ["b1", "b2", "b3", "b4", "c1", "c2"].map(work).into();
        let strategy = Some(FairSharing::FinalShare);
        let rules = Classical::new(QuotaModel::new(&facts), held, strategy);
        let asks = Work { held: None, ..work("a1") };
        match rules.mode(&asks, &(text(DEFAULT), text("cpu"))) {
            Mode::Preempt(names) => Some(names),
            Mode::Blocked => None,
            other => panic!("it cannot come to {other:?}"),
        }
    }

    /// The first strategy of spec/quota.md 9.2: who asks takes no larger a share than it leaves.
    #[test]
    fn shares_are_compared_by_weight() {
        let cases: [([u64; 3], Option<&str>); 7] = [
            // 1/6 for a, and 3/6 is left to b.
            ([2, 2, 2], Some("b1")),
            // 1/6 by 1/2 is 1/3; 3/6 by 2, which is 1/4, would be left to b, and 1/6 to c.
            ([1, 4, 2], None),
            // 4/6 by 2 for b, and 2/6 by 1/2 for c: c's is larger, and 1/6 by 1/2 is left.
            ([2, 4, 1], Some("c1")),
            // Who weighs nothing has most, however little it borrows.
            ([2, 4, 0], Some("c1")),
            ([2, 0, 1], Some("b1")),
            // And takes nothing from who weighs something.
            ([0, 4, 2], None),
            // Two who weigh nothing: 1/6 for a, and 3/6 is left to b.
            ([0, 0, 2], Some("b1")),
        ];
        for (weights, leaves) in cases {
            let leaves = leaves.map(|name| vec![text(name)]);
            assert_eq!(who_leaves(weights), leaves, "{weights:?} halves");
        }
    }
}
