//! Which limit in the quota tree keeps a workload waiting: whose, how much, who uses it, and until
//! when.
//!
//! The reason of a refusal says what its queue is left. Why it is left no more may lie further up:
//! a cohort's borrowing limit, or quota of the whole tree that others use. Reckoned on request.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::explain::obstacles;
use crate::explain::reason::{FlavorProblem, FlavorRefusal, Reason};
use crate::explain::view::{Binding, Holder, Limit, Obstacle};
use crate::model::ids::{FrIdx, QueueIdx, QuotaIdx};
use crate::model::input::Text;
use crate::model::txn::Txn;
use crate::quota::bound::Bound;
use crate::resources;
use crate::time::Time;

/// Users of a limit that are named.
const USERS_MAX: usize = 3;

/// Names with what they use, most first, and how many others use how much.
type Users = (Vec<(Text, i64)>, Option<(u32, i64)>);

/// Quota that is short.
pub(super) struct Short {
    pub queue: QueueIdx,
    pub fr: FrIdx,
    pub asked: i64,
    /// More is asked than could ever be had.
    pub ever: bool,
}

impl Engine {
    /// Says of an obstacle whose limit it is, if it is one of quota.
    pub(super) fn bind_to_limit(&mut self, now: Time, obstacle: &mut Obstacle) {
        obstacle.binding = self.short_of(&obstacle.reason).and_then(|it| self.binding(now, &it));
    }

    /// The quota that a reason says is short, first of all.
    pub(super) fn short_of(&self, reason: &Reason) -> Option<Short> {
        let Reason::Flavors { cluster_queue, tried, .. } = obstacles::told(reason) else {
            return None;
        };
        self.short_in(cluster_queue, tried.first()?)
    }

    /// The quota that is short in each flavor that refused.
    pub(super) fn shorts_of(&self, reason: &Reason) -> Vec<Short> {
        let Reason::Flavors { cluster_queue, tried, .. } = obstacles::told(reason) else {
            return Vec::new();
        };
        tried.iter().filter_map(|refusal| self.short_in(cluster_queue, refusal)).collect()
    }

    fn short_in(&self, cluster_queue: &Text, refusal: &FlavorRefusal) -> Option<Short> {
        let (resource, asked, ever) = match &refusal.why {
            FlavorProblem::Short { resource, asked, .. } => (resource, *asked, false),
            FlavorProblem::ExceedsMax { resource, asked, .. } => (resource, *asked, true),
            _ => return None,
        };
        let queue = self.state.quota.find_queue(cluster_queue)?;
        let flavor = self.state.quota.find_flavor(&refusal.flavor)?;
        let resource = self.state.room.resources.find(resource)?;
        Some(Short { queue, fr: self.state.quota.find_fr(flavor, resource)?, asked, ever })
    }

    fn binding(&mut self, now: Time, short: &Short) -> Option<Binding> {
        let bound = self.bound_of(short)?;
        let until = if short.ever { None } else { self.quota_is_back(now, short) };
        let quota = &self.state.quota;
        let (flavor, resource) = quota.fr(short.fr);
        let limit = if bound.borrowing { Limit::Borrowing } else { Limit::Quota };
        let (by, others) = self.users(bound.node, short.fr);
        Some(Binding {
            holder: self.holder(bound.node)?,
            limit,
            flavor: quota.flavor_name(flavor).clone(),
            resource: self.state.room.resources.name(resource).clone(),
            amount: bound.amount,
            used: bound.used,
            by,
            others,
            until,
        })
    }

    /// The limit that binds.
    pub(super) fn bound_of(&self, short: &Short) -> Option<Bound> {
        let node = self.state.quota.queue(short.queue).node?;
        let tree = &self.state.quota.tree;
        Some(match short.ever {
            true => tree.bound_ever(node, short.fr),
            false => tree.bound(node, short.fr),
        })
    }

    /// Whose node it is.
    pub(super) fn holder(&self, node: QuotaIdx) -> Option<Holder> {
        let (name, is_cohort) = self.state.quota.name_of(node)?;
        Some(match is_cohort {
            true => Holder::Cohort(name.clone()),
            false => Holder::Queue(name.clone()),
        })
    }

    /// Who uses most of what a node has, not what a queue has for itself alone; how many others use
    /// some, and how much.
    fn users(&self, top: QuotaIdx, fr: FrIdx) -> Users {
        let quota = &self.state.quota;
        let used: BTreeMap<QuotaIdx, i64> = quota.tree.users_of(top, fr).into_iter().collect();
        let uses = quota.existing().filter_map(|(_, queue)| {
            let used = queue.node.and_then(|node| used.get(&node))?;
            Some((queue.name.clone(), *used))
        });
        let mut users: Vec<(Text, i64)> = uses.collect();
        users.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
        let rest = users.split_off(users.len().min(USERS_MAX));
        let amount = resources::total(rest.iter().map(|(_, used)| *used));
        (users, (!rest.is_empty()).then_some((rest.len() as u32, amount)))
    }

    /// When as much of a quota is left as is asked, if those that run end when they said.
    fn quota_is_back(&mut self, now: Time, short: &Short) -> Option<Time> {
        let node = self.state.quota.queue(short.queue).node?;
        let declared = self.declared();
        let mut txn = Txn::begin(&mut self.state);
        for ending in declared {
            txn.remove_workload(ending.workload);
            if txn.state().quota.tree.available(node, short.fr) >= short.asked {
                return ending.at.filter(|at| *at > now);
            }
        }
        None
    }
}
