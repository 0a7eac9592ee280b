//! Who leaves for whom while queues share fairly: slow, and straight from spec/quota.md 9.4.

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
    let mut search = Search::new(rules, work, pair);
    let first = match strategies {
        FairSharing::FinalShare | FairSharing::FinalThenInitial => Strategy::FinalShare,
        FairSharing::InitialShare => Strategy::InitialShare,
    };
    let aside = search.first_pass(first);
    if !search.fits() && strategies == FairSharing::FinalThenInitial {
        search.second_pass(aside);
    }
    if search.taken.is_empty() || !search.fits() {
        return None;
    }
    for at in (0..search.taken.len() - 1).rev() {
        let back = search.taken.remove(at);
        search.charge(&back, 1);
        if !search.fits() {
            search.charge(&back, -1);
            search.taken.insert(at, back);
        }
    }
    Some(names_of(&search.taken))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    FinalShare,
    InitialShare,
}

/// Place among candidates of the same queue; those of other queues come first.
fn order(candidate: &Work, own: &Text) -> (bool, i32, Reverse<Option<Time>>, Text) {
    let taken = candidate.held.as_ref().map(|(_, at)| *at);
    (candidate.queue == *own, candidate.priority, Reverse(taken), candidate.uid.clone())
}

struct Search<'a> {
    /// With the preemptor charged, and without those that were taken.
    left: Classical,
    work: &'a Work,
    pair: &'a Pair,
    /// Candidates that are left, by queue, the next one first.
    candidates: BTreeMap<Text, Vec<Work>>,
    taken: Vec<Work>,
    dropped: BTreeSet<Text>,
}

impl<'a> Search<'a> {
    fn new(rules: &Classical, work: &'a Work, pair: &'a Pair) -> Search<'a> {
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
            if on_it && allowed {
                candidates.entry(one.queue.clone()).or_default().push(one.clone());
            }
        }
        for list in candidates.values_mut() {
            list.sort_by_key(|one| order(one, &work.queue));
        }
        let mut left = rules.clone();
        left.change(work, pair, 1);
        Search { left, work, pair, candidates, taken: Vec::new(), dropped: BTreeSet::new() }
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
            let model = self.left.model();
            let used = model.used(&self.work.queue, self.pair);
            let owned = used <= model.nominal_of(&self.work.queue, self.pair);
            if target == self.work.queue || owned {
                let next = self.pop(&target);
                self.take(next);
                continue;
            }
            let (own, other) = self.sides(&target);
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

    /// The same below a node; `None`: nobody there has to leave.
    fn below(&self, node: Node<'_>) -> Option<Text> {
        let Node::Cohort(name) = node else {
            let queue = node.name();
            let there = self.candidates.contains_key(queue) && !self.dropped.contains(queue);
            let borrows = *queue == self.work.queue || self.left.beyond(queue, self.pair);
            return (there && borrows).then(|| queue.clone());
        };
        let own_path = self.left.model().path(&self.work.queue);
        let mut best: Option<(Share, bool, Text)> = None;
        for child in self.left.model().children(name) {
            let cohort = matches!(child, Node::Cohort(_));
            let share = self.left.model().share(child.name());
            if cohort && !share.borrows && !own_path.contains(child.name()) {
                continue;
            }
            let Some(target) = self.below(child) else { continue };
            let better = best.as_ref().is_none_or(|(most, of_cohort, known)| {
                match share.partial_cmp(most) {
                    Some(Ordering::Greater) => true,
                    Some(Ordering::Equal) if cohort != *of_cohort => cohort,
                    Some(Ordering::Equal) => self.first_of(&target) < self.first_of(known),
                    _ => false,
                }
            });
            if better {
                best = Some((share, cohort, target));
            }
        }
        best.map(|(.., target)| target)
    }

    fn first_of(&self, queue: &Text) -> (bool, i32, Reverse<Option<Time>>, Text) {
        order(&self.candidates[queue][0], &self.work.queue)
    }
}
