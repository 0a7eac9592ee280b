//! What stands in a workload's way, as a list with asked against left.
//!
//! The reason that a decision leaves names the first thing that was short, because that is where
//! it stopped. People who want to start the work need all of it: every resource that a flavor
//! lacks, for every resource group and pod set that finds none, and the nodes that would be next
//! once quota is there. A flavor is told once, with what all sets that may have it ask.

use super::quantity::USD_PER_HOUR;
use super::reason::{FlavorProblem, FlavorRefusal, NodeShortage, Reason};
use super::verdict;
use super::view::{Obstacle, WorkloadView};
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::model::txn::Txn;
use crate::place::classes::Scoring;
use crate::place::coupled;
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::quota::flavors::each_part::{self, Refused};
use crate::quota::flavors::{self, Demand, SetDemand};
use crate::quota::money;
use crate::resources::{self, USD};

/// Every obstacle named by a workload's reason: one for each flavor that refused it.
pub fn of(workload: &WorkloadView) -> Vec<Obstacle> {
    let Some(reason) = &workload.reason else { return Vec::new() };
    match told(reason) {
        Reason::Flavors { cluster_queue, pod_set, tried } => {
            let one = |refusal: &FlavorRefusal| Reason::Flavors {
                cluster_queue: cluster_queue.clone(),
                pod_set: pod_set.clone(),
                tried: vec![refusal.clone()],
            };
            tried.iter().map(|refusal| obstacle(one(refusal))).collect()
        }
        other => vec![obstacle(other.clone())],
    }
}

/// The reason itself: a lost race is told as what was short afterwards, members that wait beside
/// others as what they wait for.
pub fn told(reason: &Reason) -> &Reason {
    match reason {
        Reason::LostRace { then }
        | Reason::Incomplete { then: Some(then), .. }
        | Reason::Extras { then: Some(then), .. } => told(then),
        reason => reason,
    }
}

/// What a queued workload asks for.
pub struct Asked<'a> {
    /// The workload.
    pub workload: WorkloadIdx,
    /// Its queue.
    pub queue: QueueIdx,
    /// The pod set that the flavors refused.
    pub pod_set: &'a Text,
    /// Members that need a place.
    pub sets: &'a [SetDemand],
    /// Topology asked.
    pub topology: TopologyAsk,
    /// How nodes are compared.
    pub profile: Scoring,
}

impl Asked<'_> {
    /// The same as it is asked of flavors, each looked at from the first.
    pub fn demand(&self) -> Demand<'_> {
        Demand {
            workload: self.workload,
            queue: self.queue,
            sets: self.sets,
            topology: self.topology,
            profile: self.profile,
            start: &[],
            combinations: 0,
            kept: &[],
        }
    }
}

/// All that a workload lacks: what it was told that flavors refused it for, and then what those of
/// other groups and pod sets do.
pub fn of_parts(
    txn: &mut Txn<'_>,
    asked: &Asked<'_>,
    tried: &[FlavorRefusal],
    others: &[Refused],
) -> Vec<Reason> {
    let own = tried.iter().flat_map(|refusal| of_flavor(txn, asked, refusal));
    let mut found: Vec<Reason> = own.collect();
    let mut told: Vec<&FlavorRefusal> = tried.iter().collect();
    for part in others {
        let asked = Asked { pod_set: &part.pod_set, ..*asked };
        for refusal in &part.tried {
            if !is_told(&told, refusal) {
                found.extend(of_flavor(txn, &asked, refusal));
                told.push(refusal);
            }
        }
    }
    found
}

/// Whether what a flavor lacks is told: all of its quota is where some of it is, and that it
/// excludes one set says nothing of the next.
fn is_told(told: &[&FlavorRefusal], refusal: &FlavorRefusal) -> bool {
    let of_quota = refusal.why.is_of_quota();
    told.iter().filter(|known| known.flavor == refusal.flavor).any(|known| match of_quota {
        true => known.why.is_of_quota(),
        false => !known.why.excludes() || known.why == refusal.why,
    })
}

/// All that one flavor lacks: each resource that is short, and room on its nodes.
fn of_flavor(txn: &mut Txn<'_>, asked: &Asked<'_>, refusal: &FlavorRefusal) -> Vec<Reason> {
    let (mut problems, mut room) = (Vec::new(), None);
    if refusal.why.is_of_quota() {
        let takers = match txn.state().quota.find_flavor(&refusal.flavor) {
            Some(flavor) => each_part::takers(txn, &asked.demand(), flavor),
            None => Vec::new(),
        };
        problems = shorts(txn, &Asked { sets: &takers, ..*asked }, refusal);
        room = no_room(txn, (asked, &takers), refusal);
    }
    if problems.is_empty() {
        problems.push(refusal.why.clone());
    }
    problems.extend(room);
    let cluster_queue = &txn.state().quota.queue(asked.queue).name;
    let reason = |why: FlavorProblem| Reason::Flavors {
        cluster_queue: cluster_queue.clone(),
        pod_set: asked.pod_set.clone(),
        tried: vec![FlavorRefusal { flavor: refusal.flavor.clone(), why }],
    };
    problems.into_iter().map(reason).collect()
}

/// Every resource of a flavor that is short for all that is asked, devices first.
fn shorts(txn: &mut Txn<'_>, asked: &Asked<'_>, refusal: &FlavorRefusal) -> Vec<FlavorProblem> {
    let Money { cost, least } = money_asked(txn, asked, refusal);
    let state = txn.state();
    let queue = state.quota.queue(asked.queue);
    let (Some(flavor), Some(node)) = (state.quota.find_flavor(&refusal.flavor), queue.node) else {
        return Vec::new();
    };
    let groups = queue.groups.iter().filter(|group| group.flavors.contains(&flavor));
    let mut found: Vec<(bool, FlavorProblem)> = Vec::new();
    for resource in groups.flat_map(|group| group.covered.iter().copied()) {
        let amounts = asked.sets.iter().map(|set| {
            let counted = state.room.counted(set.shape);
            counted.get(resource).saturating_mul(set.count.into())
        });
        let amounts = amounts.fold(0, i64::saturating_add);
        let (amount, least) = if resource == USD { (cost, least) } else { (amounts, amounts) };
        // Whatever is owed of what nobody asks is in nobody's way; money is asked of all.
        if amount == 0 && resource != USD {
            continue;
        }
        let Some(fr) = state.quota.find_fr(flavor, resource) else { continue };
        let most = state.quota.tree.potential(node, fr);
        let Some(short) = flavors::shortage(state, asked.queue, fr, amount) else { continue };
        let resource = state.room.resources.name(resource).clone();
        let host = !resource.contains('/');
        let why = match least > most {
            true => FlavorProblem::ExceedsMax { resource, asked: amount, others: 0, most },
            false => short.why,
        };
        found.push((host, why));
    }
    found.sort_by_key(|(host, _)| *host);
    found.into_iter().map(|(_, why)| why).collect()
}

/// What a refused flavor's money is asked.
#[derive(Default)]
struct Money {
    /// As the refusal says, if it is about that; else what members cost where there is room now;
    /// else the least.
    cost: i64,
    /// The least that members could ever cost.
    least: i64,
}

/// What is asked of the money of a refused flavor.
fn money_asked(txn: &mut Txn<'_>, asked: &Asked<'_>, refusal: &FlavorRefusal) -> Money {
    let quota = &txn.state().quota;
    let Some(flavor) = quota.find_flavor(&refusal.flavor) else { return Money::default() };
    if quota.money_group(asked.queue).is_none_or(|group| !group.flavors.contains(&flavor)) {
        return Money::default();
    }
    let ask = |set: &SetDemand| {
        let class = txn.class(set.shape, &[flavor], asked.profile);
        let pods = money::members(txn.state(), asked.workload, set.shape, set.count);
        Ask { class, pods }
    };
    let asks: Vec<Ask> = asked.sets.iter().map(ask).collect();
    let state = txn.state();
    let each = asks.iter().map(|ask| money::least(state, ask.class).unwrap_or(0));
    let counts = asked.sets.iter().map(|set| i64::from(set.count));
    let least = resources::total(each.zip(counts).map(|(each, n)| each.saturating_mul(n)));
    match &refusal.why {
        FlavorProblem::Short { resource, asked, .. } if &**resource == USD_PER_HOUR => {
            Money { cost: *asked, least: least.min(*asked) }
        }
        // With the flavors of other groups nodes are fewer.
        FlavorProblem::ExceedsMax { resource, asked, .. } if &**resource == USD_PER_HOUR => {
            Money { cost: *asked, least: least.max(*asked) }
        }
        _ => {
            let costs = money::cost_now(txn, asked.queue, &asks, asked.topology);
            let now = costs.map(|costs| resources::total(costs.iter().map(|(_, n)| *n)));
            Money { cost: now.unwrap_or(0).max(least), least }
        }
    }
}

/// Why the nodes of a flavor would be next in the way of those that it may be for.
fn no_room(
    txn: &mut Txn<'_>,
    (asked, takers): (&Asked<'_>, &[SetDemand]),
    refusal: &FlavorRefusal,
) -> Option<FlavorProblem> {
    let flavor = txn.state().quota.find_flavor(&refusal.flavor)?;
    let together = coupled::together(txn, asked.sets.iter().map(|set| set.shape));
    for set in takers {
        let class = txn.class(set.shape, &[flavor], asked.profile);
        if !gang::may_hold(txn, (class, set.count), &together, asked.topology) {
            return Some(verdict::flavor_shortage(txn, class, set.count, asked.topology));
        }
    }
    None
}

/// A reason with its numbers apart.
pub fn obstacle(reason: Reason) -> Obstacle {
    let (asked, left) = match &reason {
        Reason::Flavors { tried, .. } => match tried.first().map(|refusal| &refusal.why) {
            Some(why) => of_problem(why),
            None => (None, None),
        },
        Reason::Nodes(short) => of_nodes(short),
        Reason::Topology(short) => pods(short.asked, short.holds),
        Reason::NoRoomBeside { asked, holds, .. } => pods(*asked, *holds),
        Reason::Gathering { have, need } | Reason::RoleGathering { have, need, .. } => {
            pods(*need, *have)
        }
        Reason::HeldBack { asked, left, .. } => (Some(*asked), Some(*left)),
        // None of it is the queue's to give.
        Reason::NotCovered { asked, .. } => (Some(*asked), Some(0)),
        Reason::Together { then, .. } => {
            let Obstacle { asked, left, .. } = obstacle(Reason::clone(then));
            (asked, left)
        }
        _ => (None, None),
    };
    Obstacle { reason, asked, left, binding: None }
}

fn of_problem(why: &FlavorProblem) -> (Option<i64>, Option<i64>) {
    match why {
        FlavorProblem::ExceedsMax { asked, most, .. } => (Some(*asked), Some(*most)),
        FlavorProblem::Short { asked, left, .. } => (Some(*asked), Some(*left)),
        FlavorProblem::Nodes(short) => of_nodes(short),
        FlavorProblem::Topology(short) => pods(short.asked, short.holds),
        FlavorProblem::PriceUnknown { .. }
        | FlavorProblem::Taint { .. }
        | FlavorProblem::Affinity
        | FlavorProblem::Level { .. } => (None, None),
    }
}

/// In the unit of the node that comes closest, where there is one: its place names the resource.
fn of_nodes(short: &NodeShortage) -> (Option<i64>, Option<i64>) {
    match &short.nearest {
        Some(nearest) => (Some(nearest.asked), Some(nearest.free)),
        None => pods(short.asked, short.holds),
    }
}

fn pods(asked: u32, left: u32) -> (Option<i64>, Option<i64>) {
    (Some(asked.into()), Some(left.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::reason::Nearest;

    fn shortage(nearest: Option<Nearest>) -> Reason {
        let refusals = Vec::new();
        Reason::Nodes(Box::new(NodeShortage {
            nodes: 6,
            asked: 4,
            holds: 3,
            refusals,
            nearest,
            unwanted: None,
            gone: 0,
            ended: None,
        }))
    }

    #[test]
    fn nodes_are_counted_in_what_they_lack_else_in_pods() {
        let near = Nearest { node: "a".into(), resource: "memory".into(), asked: 64, free: 5 };
        let lacks = obstacle(shortage(Some(near)));
        assert_eq!((lacks.asked, lacks.left), (Some(64), Some(5)));
        let refuses = obstacle(shortage(None));
        assert_eq!((refuses.asked, refuses.left), (Some(4), Some(3)));
    }

    #[test]
    fn a_flavor_is_told_once_unless_it_only_excluded_others() {
        let refusal = |flavor: &str, why| FlavorRefusal { flavor: flavor.into(), why };
        let most = |resource: &str| FlavorProblem::ExceedsMax {
            resource: resource.into(),
            asked: 2,
            others: 0,
            most: 1,
        };
        let taint = |key: &str| FlavorProblem::Taint { key: key.into(), value: "".into() };
        let nodes = || match shortage(None) {
            Reason::Nodes(nodes) => FlavorProblem::Nodes(nodes),
            other => panic!("{other}"),
        };
        let rows = [
            (most("cpu"), "a", most("memory"), true),
            (most("cpu"), "b", most("cpu"), false),
            (most("cpu"), "a", FlavorProblem::Affinity, true),
            (most("cpu"), "a", nodes(), true),
            (nodes(), "a", most("cpu"), false),
            (FlavorProblem::Affinity, "a", most("cpu"), false),
            (FlavorProblem::Affinity, "a", FlavorProblem::Affinity, true),
            (taint("x"), "a", taint("y"), false),
        ];
        for (known, flavor, why, told) in rows {
            let (known, new) = (refusal("a", known), refusal(flavor, why));
            assert_eq!(is_told(&[&known], &new), told, "{known:?}, {new:?}");
        }
    }

    #[test]
    fn a_lost_race_is_told_as_what_was_short() {
        let race = Reason::LostRace { then: Box::new(shortage(None)) };
        assert_eq!(told(&race), &shortage(None));
    }
}
