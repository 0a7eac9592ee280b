//! Who could leave which node, and what that would cost.
//!
//! Problem: of thousands of nodes most will not do whoever leaves them, or cost more than others,
//! and to try one takes a removal for each who leaves it.
//!
//! Wanted: nodes that cannot do are left out, and of the others those come first that may cost
//! least, so that a few tries settle it. What clearing a node costs is told as kube-scheduler tells
//! it: PodDisruptionBudgets that are broken, the highest priority that leaves, all priorities that
//! leave, and how late those of the highest began. All of that by pod: a gang that leaves for one
//! node is all its pods, wherever they are: what it can do without is looked at once victims are
//! found (`cycle/parts.rs`, `cycle/instead.rs`). Of equal priority a lone pod goes before a gang,
//! and a small gang before a large one.
//!
//! Cost: a sum for each who could leave, and sorting them by node. Nothing is changed or kept.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use capstan_topology::{NodeIdx, ResourceIdx};

use super::candidates::{Candidate, Kind};
use super::{Search, order};
use crate::model::budgets::Allowance;
use crate::model::ids::{ClassIdx, FrIdx, PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::resources;
use crate::rules::node_ports;
use crate::time::Time;

/// What it costs to clear a node; the lower, the better. What comes first decides first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// Pods whose leaving breaks a PodDisruptionBudget.
    breaks: u32,
    /// The highest priority that leaves; `None`: nobody is stopped.
    highest: Option<i32>,
    /// The priorities of all pods that leave, each counted from the lowest there is: mostly it is
    /// the number of those who leave that tells.
    sum: u64,
    /// Since when the first of those runs who have the highest priority: the later, the better.
    began: Reverse<Time>,
}

/// What somebody is missed by: whether a stop was refused of late, the priority, and how many pods;
/// `None`: it leaves anyway. Last its turn among others.
type Importance = (Option<((bool, bool), i32, u32)>, u32);

/// Somebody who could leave a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stander<'c> {
    pub(super) candidate: &'c Candidate,
    /// So many of its pods break a PodDisruptionBudget; where one pod clears one node, even if
    /// nobody else leaves.
    pub(super) breaks: u32,
    /// So many of its pods are stopped.
    pub(super) pods: u32,
}

/// Candidates on a node that might hold a member more if all of them left. Where budgets may be
/// spent in two ways there are two of a node.
pub(super) struct Stand<'c> {
    pub(super) position: usize,
    /// What the node lacks for it now: the largest share of what is asked, in millionths.
    lacks: i128,
    /// What it costs at least.
    pub(super) least: Cost,
    /// In the order in which they are taken.
    pub(super) in_order: Vec<Stander<'c>>,
}

/// Somebody who could leave a node, with its pods there.
#[derive(Clone)]
struct Here<'c> {
    stander: Stander<'c>,
    pods: Vec<PodIdx>,
    /// It goes after the others: budgets are spent by those before it.
    last: bool,
}

/// What a node lacks of a resource for a member more.
struct Gap {
    resource: ResourceIdx,
    asked: i64,
    lacking: i64,
}

impl Cost {
    /// Nobody is stopped.
    const NOTHING: Cost = Cost { breaks: 0, highest: None, sum: 0, began: Reverse(Time(i64::MAX)) };

    /// The same where so many pods break a budget.
    pub(super) fn breaking(self, breaks: u32) -> Cost {
        Cost { breaks, ..self }
    }

    /// What it costs that these leave. Who leaves already costs nothing more.
    pub(super) fn of<'c>(state: &ClusterState, all: impl Iterator<Item = Stander<'c>>) -> Cost {
        let mut cost = Cost::NOTHING;
        for stander in all.filter(|it| !it.candidate.kind.leaves()) {
            let Stander { candidate, breaks, pods, .. } = stander;
            let workload = &state.workloads[candidate.workload];
            let began = workload.assignment.as_ref().map_or(Time::MIN, |it| it.at);
            let began = match Some(workload.priority).cmp(&cost.highest) {
                Ordering::Greater => began,
                Ordering::Equal => began.min(cost.began.0),
                Ordering::Less => cost.began.0,
            };
            cost = Cost {
                breaks: cost.breaks + breaks,
                highest: cost.highest.max(Some(workload.priority)),
                sum: cost.sum + price(workload.priority, pods),
                began: Reverse(began),
            };
        }
        cost
    }
}

impl Here<'_> {
    /// Takes its pods that are stopped out of what budgets allow; for how many nothing was left.
    fn draw(&self, allowance: &mut Allowance<'_>) -> u32 {
        allowance.breaks(self.stander.candidate.workload)
    }

    /// Where one pod clears one node: who leaves already is taken first, and then who is least
    /// important, as with kube-scheduler.
    fn importance(&self, state: &ClusterState) -> Importance {
        let Stander { candidate, pods, .. } = self.stander;
        let priority = state.workloads[candidate.workload].priority;
        let stays = !candidate.kind.leaves();
        let stays = stays.then(|| (order::held_back(state, candidate), priority, pods));
        (stays, candidate.turn)
    }
}

/// What it costs that so many pods of a priority leave: each of them more than nothing.
fn price(priority: i32, pods: u32) -> u64 {
    u64::from(priority.abs_diff(i32::MIN)) * u64::from(pods)
}

/// How many of the pods of one workload are stopped with it: not those that leave already, nor any
/// that do not exist yet.
pub(super) fn stopped(state: &ClusterState, pods: impl Iterator<Item = PodIdx>) -> u32 {
    let runs = |pod: &PodIdx| !state.pods[*pod].kept() && !state.pods[*pod].terminating;
    (pods.filter(runs).count() as u32).max(1)
}

/// Those who could leave, by node, in the order in which they are taken.
fn by_node<'c>(state: &ClusterState, list: &'c [Candidate]) -> BTreeMap<NodeIdx, Vec<Here<'c>>> {
    let mut order: Vec<&'c Candidate> = list.iter().filter(|it| it.room).collect();
    order.sort_by_key(|it| (!it.kind.leaves(), it.kind != Kind::Unqueued));
    let mut by_node: BTreeMap<NodeIdx, Vec<Here<'c>>> = BTreeMap::new();
    for candidate in order {
        let pods = stopped(state, state.placed(candidate.workload));
        let stander = Stander { candidate, breaks: candidate.breaks, pods };
        for pod in state.placed(candidate.workload) {
            let Some(node) = state.pods[pod].place else { continue };
            let here = by_node.entry(node).or_default();
            match here.last_mut() {
                Some(last) if last.stander.candidate.workload == candidate.workload => {
                    last.pods.push(pod);
                }
                _ => here.push(Here { stander, pods: vec![pod], last: false }),
            }
        }
    }
    by_node
}

impl Search<'_> {
    /// Nodes that some wanted class might use, with those who may leave them. For one pod that is
    /// alone those come first that may cost least, for others those that lack least, of equals
    /// those where the fewest stand: what may be taken of many is soon used up.
    pub(super) fn stands<'c>(
        &self,
        txn: &Txn<'_>,
        list: &'c [Candidate],
        short: &[ClassIdx],
    ) -> Vec<Stand<'c>> {
        let state = txn.state();
        let mut allowance = Allowance::new(state);
        let mut stands = Vec::new();
        for (node, here) in by_node(state, list) {
            let mut wanted = short.iter().copied();
            if !wanted.any(|class| state.classes.accepts(&state.room, class, node)) {
                continue;
            }
            for here in self.orders(state, here, &mut allowance) {
                stands.extend(self.stand(state, node, here, short));
            }
        }
        stands.sort_by_key(|it| {
            let (least, many) = match self.alone {
                true => (Some(it.least), 0),
                false => (None, it.in_order.len()),
            };
            (least, it.lacks, many, it.position)
        });
        stands
    }

    /// In which order to take those of a node. One pod clears one node: what budgets allow is all
    /// for those who stand there, and who breaks one all the same goes last. That may be spent on
    /// who is taken first, or as with kube-scheduler on who would be taken last. Either way some of
    /// whom it was spent on may stay, and the other way is the better one.
    fn orders<'c>(
        &self,
        state: &ClusterState,
        mut here: Vec<Here<'c>>,
        allowance: &mut Allowance<'_>,
    ) -> Vec<Vec<Here<'c>>> {
        if !self.alone {
            return vec![here];
        }
        here.sort_by_cached_key(|it| it.importance(state));
        if state.budgets.is_empty() {
            return vec![here];
        }
        for it in &mut here {
            allowance.renew();
            it.stander.breaks = it.draw(allowance);
        }
        let stays = |it: &Here<'_>| !it.stander.candidate.kind.leaves();
        let mut other = here.clone();
        spend(allowance, here.iter_mut());
        spend(allowance, other.iter_mut().rev());
        here.sort_by_key(|it| (stays(it), it.last));
        other.sort_by_key(|it| (stays(it), it.last));
        let workload = |it: &Here<'c>| it.stander.candidate.workload;
        match here.iter().map(workload).eq(other.iter().map(workload)) {
            true => vec![here],
            false => vec![here, other],
        }
    }

    /// A node and those who could leave it; `None`: it will not do whoever of them leaves.
    fn stand<'c>(
        &self,
        state: &ClusterState,
        node: NodeIdx,
        here: Vec<Here<'c>>,
        short: &[ClassIdx],
    ) -> Option<Stand<'c>> {
        let position = state.room.tree.position(node)?;
        let mut found: Option<(i128, Cost)> = None;
        for &class in short {
            let useful = state.classes.accepts(&state.room, class, node);
            let Some(gaps) = gaps(state, class, node, &here).filter(|_| useful) else { continue };
            if !self.might_do(state, class, node, &here) {
                continue;
            }
            let lacks = gaps.iter().map(share_lacking).max().unwrap_or(0);
            let least = least(state, &gaps, &here);
            found = Some(match found {
                Some((less, cheaper)) => (less.min(lacks), cheaper.min(least)),
                None => (lacks, least),
            });
        }
        let (lacks, least) = found?;
        let in_order = here.into_iter().map(|it| it.stander).collect();
        Some(Stand { position, lacks, least, in_order })
    }

    /// Whether a node might do once all of these have left, as far as host ports and the pods
    /// around it go.
    fn might_do(
        &self,
        state: &ClusterState,
        class: ClassIdx,
        node: NodeIdx,
        here: &[Here<'_>],
    ) -> bool {
        let class_of = state.classes.class(class);
        let wanted = state.room.shape(class_of.key.shape).facts.ports.as_slice();
        let pods = here.iter().flat_map(|it| &it.pods);
        let ports = pods.flat_map(|pod| &state.room.shape(state.pods[*pod].shape).facts.ports);
        if !node_ports::would_be_free((state.room.ports.used(node), wanted), ports) {
            return false;
        }
        let outlook = class_of.outlook();
        // What others who come with it open is not known before they are placed.
        if outlook.is_empty() || self.open.contains(&class) {
            return true;
        }
        let all = here.iter().flat_map(|it| state.placed(it.stander.candidate.workload));
        let leaving: Vec<ShapeIdx> = all.map(|pod| state.pods[pod].shape).collect();
        outlook.might_take(&state.room, node, &leaving)
    }

    /// How much a workload holds of what is asked, in millionths of that.
    pub(super) fn share_held(&self, txn: &Txn<'_>, workload: WorkloadIdx) -> i128 {
        let state = txn.state();
        let asked = |fr: FrIdx| {
            let resource = state.quota.fr(fr).1;
            let mut usage = self.need.usage.iter();
            usage.find(|(of, _)| state.quota.fr(*of).1 == resource).map(|(_, amount)| *amount)
        };
        let charges = state.placed(workload).flat_map(|pod| state.charges_of(pod));
        let charges = charges.chain(state.kept_for(workload).iter().copied());
        let share = |(_, fr, held): (_, FrIdx, i64)| {
            asked(fr).map_or(0, |asked| i128::from(held) * 1_000_000 / i128::from(asked.max(1)))
        };
        charges.map(share).sum()
    }
}

/// Spends what budgets allow on these, one after the other; who is left without goes last.
fn spend<'h, 'c: 'h>(
    allowance: &mut Allowance<'_>,
    in_order: impl Iterator<Item = &'h mut Here<'c>>,
) {
    allowance.renew();
    for it in in_order {
        it.last = it.draw(allowance) > 0;
    }
}

/// What a node lacks for a member more of a class; `None`: it would not hold one even if all of
/// these left.
fn gaps(
    state: &ClusterState,
    class: ClassIdx,
    node: NodeIdx,
    here: &[Here<'_>],
) -> Option<Vec<Gap>> {
    let shape = state.classes.class(class).key.shape;
    let ledger = &state.room.ledger;
    let mut gaps = Vec::new();
    for &(resource, asked) in ledger.request(state.room.shape(shape).request).entries() {
        let free = ledger.free(node, resource);
        let leave = resources::total(here.iter().map(|it| held(state, it, resource)));
        if free.saturating_add(leave) < asked && !state.room.args.ignores_any() {
            return None;
        }
        let lacking = asked.saturating_sub(free);
        if lacking > 0 {
            gaps.push(Gap { resource, asked, lacking });
        }
    }
    Some(gaps)
}

/// What somebody holds of a resource on a node.
fn held(state: &ClusterState, here: &Here<'_>, resource: ResourceIdx) -> i64 {
    let ledger = &state.room.ledger;
    let held = |pod: &PodIdx| ledger.request(state.pods[*pod].holds).get(resource);
    resources::total(here.pods.iter().map(held))
}

fn share_lacking(gap: &Gap) -> i128 {
    i128::from(gap.lacking) * 1_000_000 / i128::from(gap.asked.max(1))
}

/// Somebody who would be stopped: what the node would have of it for each gap.
struct Gift {
    priority: i32,
    price: u64,
    breaks: bool,
    amounts: Vec<i64>,
}

/// What it costs at least to close these gaps: nobody clears the node for less, whatever else is
/// short there.
fn least(state: &ClusterState, gaps: &[Gap], here: &[Here<'_>]) -> Cost {
    if state.room.args.ignores_any() {
        return Cost::NOTHING;
    }
    let mut lacking: Vec<i64> = gaps.iter().map(|gap| gap.lacking).collect();
    let mut gifts = Vec::new();
    for it in here {
        let Stander { candidate, breaks, pods, .. } = it.stander;
        let amounts = gaps.iter().map(|gap| held(state, it, gap.resource)).collect();
        let priority = state.workloads[candidate.workload].priority;
        let price = price(priority, pods);
        let gift = Gift { priority, price, breaks: breaks > 0, amounts };
        match candidate.kind.leaves() {
            true => take(&mut lacking, &gift),
            false => gifts.push(gift),
        }
    }
    if is_closed(&lacking) {
        return Cost::NOTHING;
    }
    gifts.sort_by_key(|gift| gift.priority);
    let within = gifts.iter().filter(|gift| !gift.breaks);
    let (breaks, highest) = match highest_of(within, &lacking) {
        Some(highest) => (0, Some(highest)),
        None => (1, highest_of(gifts.iter(), &lacking)),
    };
    let count = (0..lacking.len()).map(|at| fewest(&gifts, at, lacking[at])).max().unwrap_or(0);
    let mut prices: Vec<u64> = gifts.iter().map(|gift| gift.price).collect();
    prices.sort_unstable();
    let sum = prices.iter().take(count).sum();
    Cost { breaks, highest, sum, ..Cost::NOTHING }
}

fn take(lacking: &mut [i64], gift: &Gift) {
    for (lacking, amount) in lacking.iter_mut().zip(&gift.amounts) {
        *lacking = lacking.saturating_sub(*amount);
    }
}

fn is_closed(lacking: &[i64]) -> bool {
    lacking.iter().all(|lacking| *lacking <= 0)
}

/// The priority of the last who must leave if all before it do; `None`: all are too little.
fn highest_of<'a>(mut gifts: impl Iterator<Item = &'a Gift>, lacking: &[i64]) -> Option<i32> {
    let mut lacking = lacking.to_vec();
    let last = gifts.find(|gift| {
        take(&mut lacking, gift);
        is_closed(&lacking)
    });
    last.map(|gift| gift.priority)
}

/// How many must leave at least so that one gap is closed: those who hold most.
fn fewest(gifts: &[Gift], at: usize, mut lacking: i64) -> usize {
    let mut amounts: Vec<i64> = gifts.iter().map(|gift| gift.amounts[at]).collect();
    amounts.sort_unstable_by_key(|amount| Reverse(*amount));
    let mut count = 0;
    for amount in amounts {
        if lacking <= 0 {
            break;
        }
        lacking = lacking.saturating_sub(amount);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gift(priority: i32, breaks: bool, amounts: &[i64]) -> Gift {
        Gift { priority, price: price(priority, 1), breaks, amounts: amounts.to_vec() }
    }

    fn cost(breaks: u32, highest: i32, priorities: &[i32], began: i64) -> Cost {
        let sum = priorities.iter().map(|it| price(*it, 1)).sum();
        Cost { breaks, highest: Some(highest), sum, began: Reverse(Time(began)) }
    }

    #[test]
    fn nodes_are_compared_as_kube_scheduler_does() {
        let in_order = [
            Cost::NOTHING,
            cost(0, 1, &[1], 0),
            cost(0, 1, &[-5, 1], 0),
            cost(0, 1, &[0, 1], 0),
            // More pods always cost more, those of one gang as others.
            Cost { sum: price(1, 8), ..cost(0, 1, &[], 9) },
            cost(0, 2, &[2], 7),
            cost(0, 2, &[2], 6),
            cost(1, 0, &[0], 0),
            cost(2, -3, &[-3, -3], 0),
        ];
        assert!(in_order.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn the_last_who_must_leave_is_the_first_with_whom_it_is_enough() {
        let gifts = [gift(0, true, &[4, 0]), gift(1, false, &[1, 1]), gift(5, false, &[9, 9])];
        assert_eq!(highest_of(gifts.iter(), &[5, 1]), Some(1));
        assert_eq!(highest_of(gifts.iter(), &[5, 2]), Some(5));
        assert_eq!(highest_of(gifts[1..].iter(), &[2, 0]), Some(5));
        assert_eq!(highest_of(gifts.iter(), &[99, 0]), None);
    }

    #[test]
    fn the_fewest_are_those_who_hold_most() {
        let gifts = [gift(0, false, &[1]), gift(0, false, &[6]), gift(0, false, &[2])];
        let fewest = |lacking| fewest(&gifts, 0, lacking);
        assert_eq!([0, 6, 7, 9].map(fewest), [0, 1, 2, 3]);
    }
}
