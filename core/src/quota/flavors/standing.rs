//! How quota stands for an amount of one flavor and resource, before anybody is looked for who
//! might leave: it is there, it might be after preemption, or it never is.

use super::{Demand, lacking, may_preempt, shortage};
use crate::explain::reason::{FlavorProblem, FlavorRefusal, NoVictims};
use crate::model::ids::{FrIdx, QueueIdx};
use crate::model::input::PreemptReclaim;
use crate::model::state::ClusterState;

/// How quota stands for one flavor and resource, with the borrowing level.
#[derive(Clone)]
pub(super) enum Quota {
    /// It fits.
    Fits(u32),
    /// It would after preemption, as far as that is known without looking for victims; how far it
    /// borrows is known when they have left.
    Short(FlavorProblem),
    /// It does not, whoever left.
    Never(u32, FlavorProblem),
}

/// How quota stands; of the total, `own` is the set's, the rest that of sets before it.
pub(super) fn quota_of(
    state: &ClusterState,
    demand: &Demand<'_>,
    fr: FrIdx,
    total: i64,
    own: i64,
) -> Quota {
    let queue = state.quota.queue(demand.queue);
    let node = queue.node.expect("only existing queues have heads");
    let tree = &state.quota.tree;
    if let Some(why) = beyond(state, demand.queue, fr, (total, own)) {
        return Quota::Never(0, why);
    }
    let (height, may_reclaim) = tree.borrow_height(node, fr, total);
    let Some(FlavorRefusal { mut why, .. }) = shortage(state, demand.queue, fr, total) else {
        return Quota::Fits(height);
    };
    if total > tree.potential(node, fr) {
        return Quota::Never(0, why);
    }
    let policy = queue.facts.as_ref().expect("only existing queues have heads").preemption;
    let shares = state.quota.shares_fairly() && policy.reclaim != PreemptReclaim::Never;
    let while_borrowing = policy.while_borrowing.is_some() || shares;
    let nominal = tree.nominal(node, fr);
    if total <= nominal || may_reclaim || while_borrowing {
        return Quota::Short(why);
    }
    if may_preempt(state, demand) {
        let resource = state.room.resources.name(state.quota.fr(fr).1).clone();
        lacking::put(&mut why, &NoVictims::AboveNominal { resource, nominal });
    }
    Quota::Never(height, why)
}

/// That more is asked than queue and cohort could ever give; of the total, `own` is the set's.
/// Where the queue lists other flavors, sets before it might have those: then only what it asks
/// itself can be too much for ever.
pub(super) fn beyond(
    state: &ClusterState,
    queue: QueueIdx,
    fr: FrIdx,
    (total, own): (i64, i64),
) -> Option<FlavorProblem> {
    let node = state.quota.queue(queue).node.expect("only existing queues have heads");
    let most = state.quota.tree.potential(node, fr);
    let (flavor, _) = state.quota.fr(fr);
    let mut groups = state.quota.queue(queue).groups.iter();
    let mut only = || groups.any(|group| group.flavors == [flavor]);
    let never_short = || shortage(state, queue, fr, total).is_none();
    let for_ever = own > most || total > most && (only() || never_short());
    for_ever.then(|| {
        let resource = state.room.resources.name(state.quota.fr(fr).1).clone();
        FlavorProblem::ExceedsMax { resource, asked: total, others: 0, most }
    })
}
