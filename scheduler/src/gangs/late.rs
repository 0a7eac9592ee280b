//! Members that are only made once others run: no stated minimum waits for them.
//!
//! Problem: who states a minimum (a PodGroup, `capstan.sh/min-member`, Kueue's total) counts all
//! members. Workers of a set with `LeaderReady`, executors, the later Jobs of a JobSet, pods of one
//! whose Jobs have domains to themselves and the launcher of an MPIJob that waits are made once
//! others run; a gang that waited for them would never start.
//!
//! Decides how many members can exist once a certain one does. Every source that reads a stated
//! minimum asks here. The greatest of what its members see is the gang's: those that come later
//! raise it to what is stated, as far as they can exist, so that they wait for each other. They see
//! it without those of steps that are over, so the pods of such a step say that they are not in it.
//!
//! A minimum may count pods of several makers, and others beside them. What each of those makers
//! has beyond what can exist is told too ([`super::to_come`]): all that is stated less that, but
//! for what has places, can be there before any of it runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{OwnerEnd, Text};

use super::owner::Gang;
use super::{Member, jobset, lws, named_in, names, spark, volcano};
use crate::api::keys;
use crate::convert::directory::OwnerKey;
use crate::convert::gang::{Quorum, Role};

/// Pods of who makes a member, where not all of them are made at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Made {
    /// Who makes them, by uid.
    pub maker: Text,
    /// How many can exist once the member does.
    pub exist: u32,
    /// How many of its gang there may be beside those: they are made once others run, or their step
    /// is over. All that can be counted: nobody knows.
    pub others: u32,
}

/// A stated minimum, without members that are only made once this one runs.
pub(super) fn at_most(member: &Member<'_>, stated: u32) -> u32 {
    made(member).map_or(stated, |made| stated.min(made.exist))
}

/// What is known of the pods of who makes a member, where some are made once others run; `None`:
/// all of them are made at once.
pub(super) fn made(member: &Member<'_>) -> Option<Made> {
    let made = spark::made(member).or_else(|| lws::made(member));
    made.or_else(|| volcano::made(member)).or_else(|| made_by_owner(member))
}

fn made_by_owner(member: &Member<'_>) -> Option<Made> {
    let gang = Gang::above(member.above, member.directory).filter(|gang| gang.joined_later())?;
    let own = named_in(member.chain, member.namespace);
    let in_own = |role: &Role| {
        let named = |own: &OwnerKey| names(&role.template, member.namespace, own);
        !role.grouped || own.as_ref().is_some_and(named)
    };
    let (mut exist, mut others) = (0_u32, 0_u32);
    for (role, pods) in gang.exist_of_roles(own_role(member), member.follows) {
        exist = exist.saturating_add(pods);
        if in_own(role) {
            others = others.saturating_add(role.count().saturating_sub(pods));
        }
    }
    Some(Made { maker: gang.top.uid.clone(), exist: exist.max(1), others })
}

/// Stated minimums of roles, without those of members that are only made once this one runs.
pub(super) fn roles(
    member: &Member<'_>,
    stated: Arc<BTreeMap<Text, u32>>,
) -> Option<Arc<BTreeMap<Text, u32>>> {
    let Some(exist) = exist_of(member) else { return Some(stated) };
    let kept = stated.iter().filter_map(|(name, stated)| {
        let pods = exist.get(name.to_ascii_lowercase().as_str()).copied();
        // Of a role that nobody knows nobody knows when it is made: all together count.
        let least = (*stated).min(pods.unwrap_or(0));
        (least > 0).then(|| (name.clone(), least))
    });
    let kept: BTreeMap<Text, u32> = kept.collect();
    (!kept.is_empty()).then(|| Arc::new(kept))
}

/// Pods of each role that can exist once this one does, by the names in small letters by which a
/// group may know them; `None`: all are made at once.
fn exist_of(member: &Member<'_>) -> Option<BTreeMap<String, u32>> {
    let mut exist: BTreeMap<String, u32> = BTreeMap::new();
    let mut add = |name: &str, pods: u32| {
        let all = exist.entry(name.to_ascii_lowercase()).or_default();
        *all = all.saturating_add(pods);
    };
    if let Some(tasks) = volcano::exist_of_tasks(member) {
        tasks.into_iter().for_each(|(task, pods)| add(task, pods));
        return Some(exist);
    }
    let gang = Gang::above(member.above, member.directory).filter(|gang| gang.joined_later())?;
    for (role, pods) in gang.exist_of_roles(own_role(member), member.follows) {
        let task = role.template.annotations.get(keys::VOLCANO_TASK);
        add(task.filter(|task| !task.is_empty()).unwrap_or(&role.name), pods);
    }
    Some(exist)
}

/// Whether a member is made last of all, and what the others do waits for it: the launcher of an
/// MPIJob that waits for its workers, the only pods there that a Job makes.
pub(super) fn joins_last(member: &Member<'_>) -> bool {
    let of_job = member.owner.is_some_and(|owner| &*owner.kind == "Job");
    let last = |gang: Gang<'_>| gang.of.says.roles.iter().any(|role| role.quorum == Quorum::Late);
    of_job && Gang::above(member.above, member.directory).is_some_and(last)
}

/// Whether no stated minimum that is read with [`at_most`] has a member in it: it is made last of
/// all, or its Job ended well, which those that are made after it know.
pub(super) fn is_uncounted(member: &Member<'_>) -> bool {
    joins_last(member) || is_past(member)
}

fn is_past(member: &Member<'_>) -> bool {
    let gang = Gang::above(member.above, member.directory);
    let Some((gang, own)) = gang.zip(own_role(member)) else { return false };
    let roles = &gang.of.says.roles;
    let own = |role: &&Role| *role.name == *own && role.done > 0;
    let Some(role) = roles.iter().find(own) else { return false };
    let followed = || roles.iter().any(|other| other.after.contains(&role.name));
    if role.quorum != Quorum::Apart && !followed() {
        return false;
    }
    match member.above.first().and_then(|owner| owner.job()) {
        Some(job) => job.finished == Some(OwnerEnd::Succeeded),
        None => role.done >= role.count(),
    }
}

fn own_role<'a>(member: &'a Member<'_>) -> Option<&'a str> {
    jobset::role_of(member).map(|role| &**role)
}
