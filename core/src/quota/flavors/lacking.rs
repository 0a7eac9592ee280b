//! Why nobody leaves for who lacks quota, in words of the flavor.
//!
//! Decides what is told where a search for victims came to nothing: that those allowed are too
//! few; that they may be stopped only for one that borrows nothing; or, where the quota could be
//! had, what nodes lack even then. What is free now says nothing there: the shortage is that of
//! the cluster without those who may be stopped.

use super::{Choice, Demand, may_preempt};
use crate::explain::reason::{FlavorProblem, FlavorRefusal, NoVictims, Reason};
use crate::explain::{together, verdict};
use crate::model::ids::ClassIdx;
use crate::model::input::Text;
use crate::model::txn::Txn;
use crate::place::gang::Ask;
use crate::victims::{self, Lack, Need};

/// What one flavor lacks for members of one class, whose quota is short like this.
pub(super) fn of_flavor(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    (lack, need): (Lack, &Need),
    (class, count): (ClassIdx, u32),
    mut short: FlavorProblem,
) -> FlavorProblem {
    if lack != Lack::Room {
        put(&mut short, &no_victims(txn, demand, lack, need));
        return short;
    }
    let now = verdict::flavor_shortage(txn, class, count, demand.topology);
    let then = victims::with_all_gone(txn, demand.workload, need, &[], |txn, gone| {
        (verdict::flavor_shortage(txn, class, count, demand.topology), gone)
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
    let sets = &choice.sets;
    let chosen: Vec<Text> = sets
        .iter()
        .flatten()
        .map(|(_, flavor)| *flavor)
        .map(|flavor| txn.state().quota.flavor_name(flavor).clone())
        .collect();
    let Some(Reason::Flavors { tried, .. }) = &mut choice.reason else { return };
    let is_short = |refusal: &&mut FlavorRefusal| {
        chosen.contains(&refusal.flavor) && matches!(refusal.why, FlavorProblem::Short { .. })
    };
    if let ([ask], Some(refusal)) = (asks, tried.iter_mut().find(is_short)) {
        let ask = (ask.class, ask.pods.len() as u32);
        let short = refusal.why.clone();
        refusal.why = of_flavor(txn, demand, (lack, need), ask, short);
        return;
    }
    if lack != Lack::Room {
        let victims = no_victims(txn, demand, lack, need);
        tried.iter_mut().for_each(|refusal| put(&mut refusal.why, &victims));
        return;
    }
    let names: Vec<&Text> = demand.sets.iter().map(|set| &set.name).collect();
    let then = victims::with_all_gone(txn, demand.workload, need, asks, |txn, gone| {
        together::shortage(txn, asks, &names, demand.topology).with_gone(gone)
    });
    choice.reason = then.or(choice.reason.take());
}

/// Why nobody leaves.
pub(super) fn no_victims(txn: &Txn<'_>, demand: &Demand<'_>, lack: Lack, need: &Need) -> NoVictims {
    let state = txn.state();
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
