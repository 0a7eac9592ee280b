//! Who may start, and who leaves for whom, one workload and one resource at a time: slow, and
//! straight from spec/quota.md 6.3 to 6.5, 7 and 8; while queues share fairly, see [`super::fair`].
//!
//! It knows no nodes, rounds, parking or memory: given who holds what, it says what nomination of
//! a workload with one flavor comes to, and which flavor it gets. Every number is taken from
//! [`QuotaModel`] anew, and a try is a copy of all usage.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use capstan_core::model::input::{
    ClusterQueueFacts, PreemptReclaim, PreemptWithin, PreemptionPolicy, Text,
};
use capstan_core::policy::FairSharing;
use capstan_core::time::Time;

use super::fair;
use super::{Node, Pair, QuotaModel};

/// A workload of one pod set that asks for one resource.
#[derive(Clone, Debug)]
pub struct Work {
    /// Full name.
    pub name: Text,
    /// Where ties end.
    pub uid: Text,
    /// Its ClusterQueue.
    pub queue: Text,
    /// What it asks for.
    pub resource: Text,
    /// How much all its members ask.
    pub amount: i64,
    /// Higher goes first.
    pub priority: i32,
    /// Creation.
    pub created: Time,
    /// It had so many turns of late that it stops others only within its queue's own quota.
    pub rests: bool,
    /// What it is charged to, and when it took that; `None`: it waits.
    pub held: Option<(Pair, Time)>,
    /// How long its members have run, each counted by the share of its node that it uses: of those
    /// who took what they hold at one time the one leaves first that loses least.
    pub lost: i64,
}

impl Work {
    /// A flavor of what it asks for.
    pub fn pair(&self, flavor: &str) -> Pair {
        (flavor.into(), self.resource.clone())
    }

    /// Where it stands among those that wait in its queue.
    pub fn order(&self) -> (Reverse<i32>, Time, Text) {
        (Reverse(self.priority), self.created, self.uid.clone())
    }
}

/// What nomination finds for one flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It could never fit, or may not preempt.
    NoFit,
    /// It may preempt, and nobody suitable is there.
    Blocked,
    /// It fits once these have left: names, sorted.
    Preempt(Vec<Text>),
    /// It fits.
    Fit,
}

impl Mode {
    /// Something can be done for it.
    pub fn viable(&self) -> bool {
        matches!(self, Mode::Preempt(_) | Mode::Fit)
    }
}

/// How well a flavor suits, the worst first (6.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    NoFit,
    Blocked,
    /// Work of the own queue leaves, and perhaps others.
    Preempt,
    /// Others leave.
    Reclaim,
    Fit,
}

/// How a flavor stands: how well it suits, and how far the queue borrows for it.
#[derive(Clone, Copy)]
struct Stand {
    rank: Rank,
    level: usize,
}

impl Stand {
    /// Whether it is better than the best before it (6.5). What cannot be had is no better for
    /// borrowing less.
    fn beats(self, best: Stand, borrowing_first: bool) -> bool {
        let viable = |stand: Stand| stand.rank > Rank::Blocked;
        let less = best.level.cmp(&self.level);
        let better = self.rank.cmp(&best.rank);
        let order = match borrowing_first {
            _ if !viable(self) || !viable(best) => better,
            true => less.then(better),
            false => better.then(less),
        };
        order.is_gt()
    }
}

/// A candidate of the list of section 8.
#[derive(Clone)]
struct Candidate {
    work: Work,
    kind: Kind,
    /// The cohort in which preemptor and candidate meet; `None`: one queue.
    meet: Option<Text>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Hierarchical,
    /// By priority, also while the preemptor borrows.
    WhileBorrowing,
    WithoutBorrowing,
    SameQueue,
}

impl Kind {
    /// Place in the list: both kinds by priority stand together.
    fn rank(self) -> u8 {
        match self {
            Kind::Hierarchical => 0,
            Kind::WhileBorrowing | Kind::WithoutBorrowing => 1,
            Kind::SameQueue => 2,
        }
    }
}

/// What holds quota, and what the rules make of it.
#[derive(Clone, Debug)]
pub struct Classical {
    model: QuotaModel,
    holders: Vec<Work>,
    fair: Option<FairSharing>,
    /// Queues that admit nothing: their quota and usage count, and nobody there is stopped for
    /// others (1.3).
    closed: BTreeSet<Text>,
}

impl Classical {
    /// Queues without usage, all who hold something, and whether queues share fairly.
    pub fn new(mut model: QuotaModel, holders: Vec<Work>, fair: Option<FairSharing>) -> Classical {
        for work in &holders {
            let (pair, _) = work.held.as_ref().expect("who holds something");
            model.charge(&work.queue, &pair.0, &pair.1, work.amount);
        }
        Classical { model, holders, fair, closed: BTreeSet::new() }
    }

    /// The same where these queues admit nothing.
    pub fn closed(self, closed: BTreeSet<Text>) -> Classical {
        Classical { closed, ..self }
    }

    /// The same where all queues and cohorts weigh the same.
    pub fn unweighted(&self) -> Classical {
        Classical { model: self.model.clone().unweighted(), ..self.clone() }
    }

    /// The quotas, with usage.
    pub fn model(&self) -> &QuotaModel {
        &self.model
    }

    /// Who holds something.
    pub fn holders(&self) -> &[Work] {
        &self.holders
    }

    /// One more holds something.
    pub fn hold(&mut self, work: Work) {
        let (pair, _) = work.held.as_ref().expect("who holds something");
        self.model.charge(&work.queue, &pair.0, &pair.1, work.amount);
        self.holders.push(work);
    }

    /// What nomination of a workload with one flavor comes to (6.3).
    pub fn mode(&self, work: &Work, pair: &Pair) -> Mode {
        if work.amount > self.model.potential(&work.queue, pair) {
            return Mode::NoFit;
        }
        if work.amount <= self.model.room(&work.queue, pair).max(0) {
            return Mode::Fit;
        }
        let policy = &self.queue(&work.queue).preemption;
        let allowed = work.amount <= self.model.nominal_of(&work.queue, pair)
            || policy.while_borrowing.is_some()
            || self.fair.is_some() && policy.reclaim != PreemptReclaim::Never
            || self.reclaims_in_hierarchy(work, pair);
        if !allowed {
            return Mode::NoFit;
        }
        let victims = match self.fair {
            Some(strategies) => fair::victims(self, work, pair, strategies),
            None => self.victims(work, pair),
        };
        victims.map_or(Mode::Blocked, Mode::Preempt)
    }

    /// The flavor of its queue that a workload gets if the search for one begins at this place in
    /// the list, and what nomination with it comes to (6.5); `None`: there is none from there on.
    pub fn choice(&self, work: &Work, from: usize) -> Option<(Text, Mode)> {
        let queue = self.queue(&work.queue);
        let how = queue.fungibility;
        let flavors = queue.groups.iter().flat_map(|group| &group.flavors).skip(from);
        let mut best: Option<(Stand, Text, Mode)> = None;
        for flavor in flavors {
            let pair = work.pair(&flavor.flavor);
            let mode = self.mode(work, &pair);
            let stand = self.stand(work, &pair, &mode);
            let preempts = matches!(mode, Mode::Preempt(_));
            let goes_on = !mode.viable()
                || preempts && how.next_when_preempting
                || stand.level > 0 && how.next_when_borrowing;
            let first = how.prefer_preemption_over_borrowing;
            let better = best.as_ref().is_none_or(|(best, ..)| stand.beats(*best, first));
            if !goes_on || better {
                best = Some((stand, flavor.flavor.clone(), mode));
            }
            if !goes_on {
                break;
            }
        }
        best.map(|(_, flavor, mode)| (flavor, mode))
    }

    fn stand(&self, work: &Work, pair: &Pair, mode: &Mode) -> Stand {
        let Mode::Preempt(names) = mode else {
            let rank = match mode {
                Mode::NoFit => Rank::NoFit,
                Mode::Fit => Rank::Fit,
                _ => Rank::Blocked,
            };
            return Stand { rank, level: self.level(work, pair) };
        };
        let leave = self.holders.iter().filter(|one| names.contains(&one.name));
        let own = leave.clone().any(|one| one.queue == work.queue);
        let mut left = self.clone();
        leave.for_each(|one| left.change(one, pair, -1));
        let rank = if own { Rank::Preempt } else { Rank::Reclaim };
        Stand { rank, level: left.level(work, pair) }
    }

    /// How far a queue borrows for what is asked (6.4): not at all, or as many cohorts up as it
    /// takes to one whose subtree has it. (Of one queue it is no matter that heights are counted
    /// from below: a cohort further up is higher.)
    fn level(&self, work: &Work, pair: &Pair) -> usize {
        let model = &self.model;
        let (mut node, mut remaining, mut level) = (model.node(&work.queue).0, work.amount, 0);
        while let Some(parent) = model.parent(node)
            && model.usage(node, pair) + remaining > model.subtree(node, pair)
        {
            remaining -= self.local_room(node, pair);
            (node, level) = (parent, level + 1);
        }
        level
    }

    pub(super) fn queue(&self, name: &Text) -> &ClusterQueueFacts {
        &self.model.queues[name]
    }

    /// The lowest subtree that could hold the work on top of what is used is not the whole tree.
    fn reclaims_in_hierarchy(&self, work: &Work, pair: &Pair) -> bool {
        let model = &self.model;
        let mut remaining = work.amount;
        let mut at = Some(model.node(&work.queue).0);
        while let Some(node) = at {
            let parent = model.parent(node);
            if model.usage(node, pair) + remaining <= model.subtree(node, pair) {
                return parent.is_some();
            }
            remaining -= self.local_room(node, pair);
            at = parent;
        }
        false
    }

    /// What a node keeps from others and does not use.
    fn local_room(&self, node: Node<'_>, pair: &Pair) -> i64 {
        (self.model.local(node, pair) - self.model.usage(node, pair)).max(0)
    }

    /// Whether a queue or cohort borrows.
    pub(super) fn beyond(&self, node: &Text, pair: &Pair) -> bool {
        let node = self.model.node(node).0;
        self.model.usage(node, pair) > self.model.subtree(node, pair)
    }

    /// Names of those who leave, sorted; `None`: nothing allowed would do (8.4).
    fn victims(&self, work: &Work, pair: &Pair) -> Option<Vec<Text>> {
        let mut list = self.candidates(work, pair);
        let policy = &self.queue(&work.queue).preemption;
        let others = list.iter().any(|candidate| candidate.kind != Kind::SameQueue);
        let hierarchical = list.iter().any(|candidate| candidate.kind == Kind::Hierarchical);
        let while_borrowing = policy.while_borrowing.is_some();
        let (used, nominal) =
            (self.model.used(&work.queue, pair), self.model.nominal_of(&work.queue, pair));
        if work.rests && !while_borrowing && used >= nominal {
            list.retain(|candidate| candidate.kind != Kind::WithoutBorrowing);
        }
        let attempts: &[bool] = match while_borrowing {
            _ if work.rests => &[false],
            _ if !others => &[true],
            false if used >= nominal => &[true],
            false if !hierarchical => &[false, true],
            _ => &[true, false],
        };
        attempts.iter().find_map(|borrows| self.attempt(work, pair, &list, *borrows))
    }

    fn attempt(
        &self,
        work: &Work,
        pair: &Pair,
        list: &[Candidate],
        borrows: bool,
    ) -> Option<Vec<Text>> {
        let mut left = self.clone();
        let mut taken: Vec<Work> = Vec::new();
        for candidate in list {
            if left.fits(work, pair, borrows) {
                break;
            }
            let skipped = borrows && candidate.kind == Kind::WithoutBorrowing;
            if !skipped && left.still_borrows(candidate, pair) {
                left.change(&candidate.work, pair, -1);
                taken.push(candidate.work.clone());
            }
        }
        if taken.is_empty() || !left.fits(work, pair, borrows) {
            return None;
        }
        for at in (0..taken.len() - 1).rev() {
            left.change(&taken[at], pair, 1);
            match left.fits(work, pair, borrows) {
                true => drop(taken.remove(at)),
                false => left.change(&taken[at], pair, -1),
            }
        }
        Some(names_of(&taken))
    }

    /// Names of those of its own queue who leave so that work stays within what its queue owns.
    pub(super) fn own_victims(&self, work: &Work, pair: &Pair) -> Option<Vec<Text>> {
        let mut list = self.candidates(work, pair);
        list.retain(|candidate| candidate.kind == Kind::SameQueue);
        self.attempt(work, pair, &list, false)
    }

    /// Whether the queue of work holds more than it owns once these have left and it runs.
    pub fn would_borrow(&self, work: &Work, pair: &Pair, gone: &[Text]) -> bool {
        let own = self.holders.iter().filter(|one| {
            let on_it = one.held.as_ref().is_some_and(|(held, _)| held == pair);
            on_it && one.queue == work.queue && gone.contains(&one.name)
        });
        let gone: i64 = own.map(|one| one.amount).sum();
        let used = self.model.used(&work.queue, pair) - gone + work.amount;
        used > self.model.nominal_of(&work.queue, pair)
    }

    /// Charges a queue with what work asks, or takes it back.
    pub(super) fn change(&mut self, work: &Work, pair: &Pair, sign: i64) {
        self.model.charge(&work.queue, &pair.0, &pair.1, sign * work.amount);
    }

    fn fits(&self, work: &Work, pair: &Pair, borrows: bool) -> bool {
        let used = self.model.used(&work.queue, pair);
        let within = used + work.amount <= self.model.nominal_of(&work.queue, pair);
        (borrows || within) && work.amount <= self.model.room(&work.queue, pair).max(0)
    }

    /// Everything between a candidate's queue and the cohort where both meet still borrows.
    fn still_borrows(&self, candidate: &Candidate, pair: &Pair) -> bool {
        let Some(meet) = &candidate.meet else { return true };
        let path = self.model.path(&candidate.work.queue);
        path.iter().take_while(|name| *name != meet).all(|name| self.beyond(name, pair))
    }

    /// The list of candidates, in order (8.1 to 8.3).
    fn candidates(&self, work: &Work, pair: &Pair) -> Vec<Candidate> {
        let policy = &self.queue(&work.queue).preemption;
        let mut list = Vec::new();
        for one in self.of_queue(&work.queue, pair) {
            if within(policy, work, one) {
                list.push(Candidate { work: one.clone(), kind: Kind::SameQueue, meet: None });
            }
        }
        if policy.reclaim != PreemptReclaim::Never {
            self.elsewhere(work, pair, &mut list);
        }
        list.sort_by_key(|one| {
            let taken = one.work.held.as_ref().map(|(_, at)| *at);
            let work = &one.work;
            (one.kind.rank(), work.priority, Reverse(taken), work.lost, work.uid.clone())
        });
        list
    }

    fn elsewhere(&self, work: &Work, pair: &Pair, list: &mut Vec<Candidate>) {
        let model = &self.model;
        let own = model.node(&work.queue).0;
        let mut advantage = model.usage(own, pair) + work.amount <= model.subtree(own, pair);
        let mut remaining = work.amount - self.local_room(own, pair);
        let mut seen = own;
        while let Some(above) = model.parent(seen) {
            for queue in self.borrowers_below(above, seen, pair) {
                for one in self.of_queue(&queue, pair) {
                    let policy = &self.queue(&work.queue).preemption;
                    if let Some(kind) = elsewhere_kind(policy, work, one, advantage) {
                        let meet = Some(above.name().clone());
                        list.push(Candidate { work: one.clone(), kind, meet });
                    }
                }
            }
            advantage |= model.usage(above, pair) + remaining <= model.subtree(above, pair);
            remaining -= self.local_room(above, pair);
            seen = above;
        }
    }

    /// Queues below a cohort that borrow, with all cohorts between, outside one of its branches.
    fn borrowers_below(&self, top: Node<'_>, except: Node<'_>, pair: &Pair) -> Vec<Text> {
        let mut found = Vec::new();
        for child in self.model.children(top.name()) {
            let beyond = || self.model.usage(child, pair) > self.model.subtree(child, pair);
            match child {
                _ if child == except || !beyond() => {}
                Node::Queue(name) => found.push(name.clone()),
                Node::Cohort(_) => found.extend(self.borrowers_below(child, except, pair)),
            }
        }
        found
    }

    /// Whether the queue of who holds something is one from which others may take.
    pub(super) fn may_leave(&self, work: &Work) -> bool {
        !self.closed.contains(&work.queue)
    }

    fn of_queue(&self, queue: &Text, pair: &Pair) -> impl Iterator<Item = &Work> {
        self.holders.iter().filter(move |work| {
            let on_it = work.held.as_ref().is_some_and(|(held, _)| held == pair);
            work.queue == *queue && on_it && self.may_leave(work)
        })
    }
}

/// Full names, sorted.
pub(super) fn names_of(list: &[Work]) -> Vec<Text> {
    let mut names: Vec<Text> = list.iter().map(|work| work.name.clone()).collect();
    names.sort();
    names
}

/// Whether a candidate of the same queue may leave (8.1).
pub(super) fn within(policy: &PreemptionPolicy, work: &Work, candidate: &Work) -> bool {
    let lower = candidate.priority < work.priority;
    let newer = candidate.priority == work.priority && work.created < candidate.created;
    match policy.within_cluster_queue {
        PreemptWithin::Never => false,
        PreemptWithin::LowerPriority => lower,
        PreemptWithin::LowerOrNewerEqual => lower || newer,
    }
}

fn elsewhere_kind(
    policy: &PreemptionPolicy,
    work: &Work,
    candidate: &Work,
    advantage: bool,
) -> Option<Kind> {
    let lower = candidate.priority < work.priority;
    let allowed = match policy.reclaim {
        PreemptReclaim::Never => false,
        PreemptReclaim::LowerPriority => lower,
        PreemptReclaim::Any => true,
    };
    let low_enough = policy.while_borrowing.is_some_and(|threshold| {
        lower && threshold.max_priority.is_none_or(|most| candidate.priority <= most)
    });
    match (allowed, advantage, low_enough) {
        (false, ..) => None,
        (true, true, _) => Some(Kind::Hierarchical),
        (true, false, true) => Some(Kind::WhileBorrowing),
        (true, false, false) => Some(Kind::WithoutBorrowing),
    }
}

#[cfg(test)]
mod tests {
    use capstan_core::model::input::Input;

    use super::*;
    use crate::facts::{DEFAULT, cluster_queue, group, nominal, text};

    /// Of two flavors a would borrow the first, and get the second once its own work leaves.
    #[test]
    fn fungibility_chooses_the_flavor() {
        let queue = |name: &str, [first, second]: [i64; 2]| {
            let quotas = [first, second].map(|owned| [("cpu", nominal(owned))]);
            let flavors: [(&str, &[_]); 2] = [("first", &quotas[0]), ("second", &quotas[1])];
            cluster_queue(name, Some("all"), group(&flavors))
        };
        let waits = Work {
            name: text("waits"),
            uid: text("waits"),
            queue: text("a"),
            resource: text("cpu"),
            amount: 1,
            priority: 0,
            created: Time(0),
            rests: false,
            held: None,
            lost: 0,
        };
        let held = Some((waits.pair("second"), Time(0)));
        let low = Work { name: text("low"), priority: -1, held, ..waits.clone() };
        let borrows = ("first", Mode::Fit);
        let preempts = ("second", Mode::Preempt(vec![text("low")]));
        let cases = [
            ((false, true, false), 0, &borrows),
            ((true, true, false), 0, &borrows),
            ((true, true, true), 0, &preempts),
            ((true, false, false), 0, &preempts),
            ((false, true, false), 1, &preempts),
        ];
        for (how, from, (flavor, mode)) in cases {
            let mut a = queue("a", [0, 1]);
            a.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
            a.fungibility.next_when_borrowing = how.0;
            a.fungibility.next_when_preempting = how.1;
            a.fungibility.prefer_preemption_over_borrowing = how.2;
            let facts = [Input::ClusterQueue(a), Input::ClusterQueue(queue("b", [1, 0]))];
            let rules = Classical::new(QuotaModel::new(&facts), vec![low.clone()], None);
            let expected = Some((text(flavor), mode.clone()));
            assert_eq!(rules.choice(&waits, from), expected, "{how:?} from {from}");
        }
    }

    /// The worked example of spec/quota.md 8.5.
    #[test]
    fn the_worked_example() {
        let queue = |name: &str| {
            let mut facts =
                cluster_queue(name, Some("all"), group(&[(DEFAULT, &[("cpu", nominal(2))])]));
            facts.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
            facts.preemption.reclaim = PreemptReclaim::Any;
            Input::ClusterQueue(facts)
        };
        let pair = (text(DEFAULT), text("cpu"));
        let work = |name: &str, amount: i64, priority: i32| Work {
            name: text(name),
            uid: text(name),
            queue: text(&name[..1]),
            resource: text("cpu"),
            amount,
            priority,
            created: Time(0),
            rests: false,
            held: Some((pair.clone(), Time(0))),
            lost: 0,
        };
        let mut held = vec![work("a1", 1, -1), work("b5", 1, -1)];
        held.extend(["b1", "b2", "b3", "b4"].map(|name| work(name, 1, 0)));
        let facts = [queue("a"), queue("b"), queue("c")];
        let rules = Classical::new(QuotaModel::new(&facts), held, None);
        let asks = Work { held: None, ..work("a2", 2, 0) };
        let expected = Mode::Preempt(vec![text("a1"), text("b5")]);
        assert_eq!(rules.mode(&asks, &pair), expected);
        assert_eq!(rules.mode(&Work { amount: 7, ..asks.clone() }, &pair), Mode::NoFit);
        assert_eq!(
            rules.mode(&Work { queue: text("c"), ..asks }, &pair),
            Mode::Preempt(vec![text("b1"), text("b5"),])
        );
    }
}
