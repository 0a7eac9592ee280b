//! Why nobody leaves for who lacks quota, in words of the flavor.
//!
//! Decides what is told where a search for victims came to nothing: that those allowed are too
//! few; that they may be stopped only for one that borrows nothing; or, where the quota could be
//! had, what nodes lack even then. What is free now says nothing there: the shortage is that of
//! the cluster without those who may be stopped.

use capstan_topology::ResourceIdx;

use super::{Choice, Demand, may_preempt, unit};
use crate::explain::reason::{FlavorProblem, FlavorRefusal, NoVictims, Reason};
use crate::explain::{together, verdict};
use crate::model::ids::{ClassIdx, FlavorIdx, FrIdx};
use crate::model::input::Text;
use crate::model::txn::Txn;
use crate::place::coupled;
use crate::place::gang::Ask;
use crate::quota::flavors;
use crate::rules;
use crate::victims::{self, Lack, Need};

/// What nodes lack for members of one class: where others of their gang may open some for them,
/// once as many of those as go have places.
pub(super) fn nodes_for(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    (class, count): (ClassIdx, u32),
) -> FlavorProblem {
    let together = demand.together(txn);
    if !coupled::waits_for(txn, class, &together) {
        return verdict::flavor_shortage(txn, class, count, demand.topology);
    }
    let own = txn.state().classes.class(class).key.shape;
    let mut asks = vec![(class, count)];
    for set in demand.sets.iter().filter(|set| set.shape != own) {
        // Of whatever flavor: which one the others get is not known yet.
        asks.push((txn.class(set.shape, &[], demand.profile), set.count));
    }
    verdict::beside_others(txn, &asks, demand.topology)
}

/// The same for the first of several classes that may find no nodes, or for the first of all.
pub(super) fn nodes_for_any(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    asks: &[(ClassIdx, u32)],
) -> FlavorProblem {
    let first = match asks {
        [only] => *only,
        several => unit::without_room(txn, demand, several).unwrap_or(several[0]),
    };
    nodes_for(txn, demand, first)
}

/// What nodes lack for the first of these classes that no node of its flavors will do for.
pub(super) fn no_nodes_of_it(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    asks: &[(ClassIdx, u32)],
) -> Option<FlavorProblem> {
    let ask = asks.iter().find(|(class, _)| no_node_of_it_will_do(txn, *class))?;
    Some(nodes_for(txn, demand, *ask))
}

/// What one flavor lacks for members of these classes, whose quota is short like this.
pub(super) fn of_flavor(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    (lack, need): (Lack, &Need),
    asks: &[(ClassIdx, u32)],
    mut short: FlavorProblem,
) -> FlavorProblem {
    if lack != Lack::Room {
        put(&mut short, &no_victims(txn, demand, lack, need));
        return short;
    }
    let now = nodes_for_any(txn, demand, asks);
    let then = victims::with_all_gone(txn, demand.workload, need, &[], |txn, gone| {
        (nodes_for_any(txn, demand, asks), gone)
    });
    match then {
        Some((then, gone)) if then != now => then.with_gone(gone),
        _ => now,
    }
}

/// What a gang lacks whose flavors were found part by part, and for which all together nobody
/// leaves: its reason is made that.
pub fn of_gang(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    (lack, need): (Lack, &Need),
    asks: &[Ask],
    choice: &mut Choice,
) {
    let reason = match (lack, asks) {
        (Lack::Room, [ask]) => {
            let Some(FlavorRefusal { flavor, why }) = first_short(txn, demand, need) else {
                return;
            };
            let ask = (ask.class, ask.pods.len() as u32);
            let why = of_flavor(txn, demand, (lack, need), &[ask], why);
            Some(of_set(txn, demand, choice, FlavorRefusal { flavor, why }))
        }
        (Lack::Room, _) => {
            let names: Vec<&Text> = demand.sets.iter().map(|set| &set.name).collect();
            victims::with_all_gone(txn, demand.workload, need, asks, |txn, gone| {
                together::shortage(txn, asks, &names, demand.topology).with_gone(gone)
            })
        }
        _ => first_short(txn, demand, need).map(|mut short| {
            put(&mut short.why, &no_victims(txn, demand, lack, need));
            of_set(txn, demand, choice, short)
        }),
    };
    choice.reason = reason.or(choice.reason.take());
}

/// What is short first for all together, devices before others.
fn first_short(txn: &Txn<'_>, demand: &Demand<'_>, need: &Need) -> Option<FlavorRefusal> {
    let state = txn.state();
    let short = |&(fr, amount): &(FrIdx, i64)| {
        let short = flavors::shortage(state, demand.queue, fr, amount)?;
        Some((!state.room.resources.name(state.quota.fr(fr).1).contains('/'), short))
    };
    let all = need.usage.iter().filter_map(short);
    all.min_by_key(|(host, _)| *host).map(|(_, short)| short)
}

/// A refusal in the words of the first set that is of that flavor; other flavors of a set that
/// were refused stay beside it.
fn of_set(txn: &Txn<'_>, demand: &Demand<'_>, choice: &Choice, refusal: FlavorRefusal) -> Reason {
    let quota = &txn.state().quota;
    let is_of = |set: &Vec<(ResourceIdx, FlavorIdx)>| {
        set.iter().any(|(_, flavor)| *quota.flavor_name(*flavor) == refusal.flavor)
    };
    let at = choice.sets.iter().position(is_of).unwrap_or(0);
    let pod_set = demand.sets[at].name.clone();
    let cluster_queue = quota.queue(demand.queue).name.clone();
    let mut tried = match &choice.reason {
        Some(Reason::Flavors { tried, pod_set: of, .. }) if *of == pod_set => tried.clone(),
        _ => Vec::new(),
    };
    match tried.iter_mut().find(|known| known.flavor == refusal.flavor) {
        Some(known) => *known = refusal,
        None => tried = vec![refusal],
    }
    Reason::Flavors { cluster_queue, pod_set, tried }
}

/// Whether a class can run on no node of its flavors whatever becomes free, and there are some: its
/// own selector, capacity types or node name exclude them. Quota of such a flavor is of no use.
/// Ends at the first node that will do, be it cordoned today.
fn no_node_of_it_will_do(txn: &Txn<'_>, class: ClassIdx) -> bool {
    let state = txn.state();
    let class = state.classes.class(class);
    let (mut unwanted, mut scratch) = (false, Vec::new());
    for &node in state.room.tree.order() {
        let question = class.question(&state.room, node);
        if !rules::flavor::is_of_all(&question) {
            continue;
        }
        if class.knows(&state.room, node) || !rules::is_unwanted(&question, &mut scratch) {
            return false;
        }
        unwanted = true;
    }
    unwanted
}

/// Whether the facts of any node, and the volumes that it reaches, admit a class: else nobody who
/// leaves makes room for it. What its volumes mean is looked at first: a class that nobody asked
/// yet knows of none.
pub(crate) fn some_node_accepts(txn: &mut Txn<'_>, class: ClassIdx) -> bool {
    let shape = txn.state().classes.class(class).key.shape;
    if txn.state().room.shape(shape).facts.volumes.is_some() {
        txn.fresh(class);
    }
    let state = txn.state();
    let question = |node| state.classes.class(class).question(&state.room, node);
    let mut nodes = state.room.tree.order().iter();
    nodes.any(|node| {
        state.classes.accepts(&state.room, class, *node)
            && rules::volume_binding::is_reached(&question(*node))
    })
}

/// Why nobody leaves.
pub(super) fn no_victims(txn: &Txn<'_>, demand: &Demand<'_>, lack: Lack, need: &Need) -> NoVictims {
    let state = txn.state();
    if let Lack::Share { queue, own, most } = lack {
        let queue = state.quota.queue(queue).name.clone();
        return NoVictims::Share { own: own.shown(), queue, most: most.shown() };
    }
    if let Lack::Lasts { workload, until } = lack {
        return NoVictims::Lasts { holder: state.workloads[workload].full_name.clone(), until };
    }
    if let Lack::Turns(times) = lack {
        return NoVictims::Turns { times };
    }
    let Lack::WouldBorrow(fr) = lack else {
        return if may_preempt(state, demand) { NoVictims::TooFew } else { NoVictims::NotAsked };
    };
    let node = state.quota.queue(demand.queue).node.expect("only existing queues have heads");
    let tree = &state.quota.tree;
    let asked = need.usage.iter().find(|(known, _)| *known == fr).map_or(0, |(_, n)| *n);
    let used = tree.usage(node, fr).saturating_add(asked);
    let resource = state.room.resources.name(state.quota.fr(fr).1).clone();
    NoVictims::WouldBorrow { resource, amount: used.saturating_sub(tree.nominal(node, fr)) }
}

/// Says it of a flavor that is short of quota.
pub(super) fn put(why: &mut FlavorProblem, no_victims: &NoVictims) {
    if let FlavorProblem::Short { victims, .. } = why {
        *victims = no_victims.clone();
    }
}
