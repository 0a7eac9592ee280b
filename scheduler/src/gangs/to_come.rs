//! Pods of which the first members of a gang know that they are made after them.
//!
//! Problem: no minimum waits for members that are made once others run (`late` sees to that), and
//! who starts without a thought of them holds what others need, and never gets what it waits for.
//! Where the owner of all is the gang it says of which pods that is so; of a gang that a group, a
//! label or a set of many gangs makes its members have to say it.
//!
//! Decides what a member says of such: who makes them, from which template, how many of them its
//! gang needs. Only of those that will be in the same gang, which their template names, or their
//! owner for all: a place for who is elsewhere would be kept in vain. Nothing is said where the
//! gang is held. Of a group of Kueue's, which Kueue's own controllers put on pods as they are made,
//! that is told by its number as well: one that has as many as the maker of a member makes has all
//! of those.
//!
//! In a group that many make, or others beside an owner, a minimum counts all of them. So a member
//! says too what is stated, and how many pods of its own maker may be among those that have no
//! places: nobody could wait for these, and for all others somebody has to.
//!
//! Each place costs the engine some three hundred bytes, and whoever writes a number nothing. Where
//! a gang would have too many none is kept, and the first of its members start without.
//!
//! No sum is bounded over all gangs of a namespace, as that of its owners is
//! ([`crate::convert::crowd`]). An owner says its number without a pod; here a pod has to exist for
//! each gang, an object of the API that a ResourceQuota counts (`pods`), for which 1.2 MB are kept
//! at most. And a sum would do harm: owners that are one too many wait, and say so, while a gang
//! that has begun would lose what is kept for its last members because others of its namespace were
//! made, and pods that did not change would have to be told again.

use std::sync::Arc;

use capstan_core::model::input::{GangKey, GangRef, GangSource, Neighbours, Text, ToCome};

use super::late::{self, Made};
use super::owner::{self, Gang};
use super::{Member, capstan_gang, count, groups, kueue_group, lws, named_in, names_any, volcano};
use crate::api::keys;
use crate::convert::gang::{Quorum, Role};
use crate::convert::marks::Marks;
use crate::convert::sharing::Pairs;

/// Pods that are still to come of which places are kept in one gang, at most: more than the largest
/// of those have that are made so.
pub(super) const PLACES_MAX: u32 = 4_096;

/// What a member knows.
#[derive(Debug)]
pub struct Later<'a> {
    /// Who makes them and the member, by uid.
    pub maker: Text,
    /// What that is called: a gang may have several who make pods that come later.
    pub name: Text,
    /// The pod set of the member.
    pub own: Option<Text>,
    /// Those that are made after it.
    pub sets: Vec<Set<'a>>,
    /// Members that must run together, those among them, if that is less than all.
    pub least: Option<u32>,
    /// Members that must run together once all of those are there, where that may be less than with
    /// them before.
    pub stated: Option<u32>,
    /// Labels and annotations that count for them after their templates.
    pub owners: Vec<&'a Marks>,
    /// They bear the names of their sets as roles, where their templates give them none.
    pub by_name: bool,
    /// The owner that tells its pod sets apart, if it does.
    pub of: Option<Gang<'a>>,
    /// The node label of which the gang has a value to itself: they will be where the first of its
    /// members is.
    pub level: Option<&'a Text>,
}

/// Pods that are made after others, and that look alike.
#[derive(Clone, Debug)]
pub struct Set<'a> {
    /// What they are made of.
    pub role: &'a Role,
    /// What they are called together.
    pub name: Text,
    /// How many the gang needs.
    pub count: u32,
    /// The number of the first of them.
    pub first: u32,
    /// Their labels, as far as these are known.
    pub labels: Pairs,
    /// What they want of the pods around them.
    pub wants: Option<Arc<Neighbours>>,
}

impl<'a> Set<'a> {
    /// So many pods of a role, the first of which has this number, as its template has them.
    pub(super) fn of(role: &'a Role, count: u32, first: u32) -> Set<'a> {
        let (name, labels) = (role.name.clone(), role.labels.clone());
        Set { role, name, count, first, labels, wants: role.shape.neighbours.clone() }
    }
}

/// What a member of a gang, with these labels, knows of others that are made after it.
pub fn of<'a>(member: &Member<'a>, gang: &GangRef, labels: &[(Text, Text)]) -> Option<Later<'a>> {
    if gang.held.is_some() || gang.unknown_owner.is_some() {
        return None;
    }
    let in_group = || {
        let later = lws::to_come(member, labels).or_else(|| volcano::to_come(member));
        later.or_else(|| of_owner(member, gang, labels))
    };
    let later = match &gang.key {
        GangKey::Pod(_) => None,
        GangKey::Group(GangSource::KueueGroup, _) => {
            in_group().map(|it| of_kueue(member, gang, it))
        }
        GangKey::Group(..) => in_group(),
        // Other owners say it themselves.
        GangKey::Owner(..) => lws::to_come(member, labels),
    };
    let places =
        |later: &Later<'_>| later.sets.iter().fold(0_u32, |sum, set| sum.saturating_add(set.count));
    later.filter(|later| places(later) <= PLACES_MAX)
}

/// What a member knows of those, with what is stated of its whole gang, and how many pods that this
/// may count have no places, where some are made once others run.
pub fn with_stated(member: &Member<'_>, gang: &GangRef, known: Option<ToCome>) -> Option<ToCome> {
    let in_group = matches!(gang.key, GangKey::Group(..));
    if !in_group || gang.held.is_some() || gang.unknown_owner.is_some() {
        return known;
    }
    let Some((Made { maker, others, .. }, counted)) = late::made(member).zip(stated(member)) else {
        return known;
    };
    let known = known.unwrap_or_else(|| ToCome { maker, ..ToCome::default() });
    let places = known.sets.iter().fold(0_u32, |sum, set| sum.saturating_add(set.count));
    Some(ToCome { counted: Some(counted), unplaced: others.saturating_sub(places), ..known })
}

/// Of what a member of a group of Kueue's knows that which will be in it too.
fn of_kueue<'a>(member: &Member<'a>, gang: &GangRef, mut later: Later<'a>) -> Later<'a> {
    let all = late::made(member).map(|made| made.exist.saturating_add(made.others));
    let has_all = gang.total.zip(all).is_some_and(|(total, all)| total >= all);
    let group = kueue_group::named_in(member.chain, member.namespace);
    let maker = later.of.map_or(*member, |gang| under(member, &gang));
    let joins = group.as_ref().map(|group| owner::in_gang(&maker, group));
    later.sets.retain(|set| {
        let named = joins.as_ref().is_some_and(|joins| joins(set.role));
        named || has_all && !names_any(&set.role.template, member.namespace)
    });
    later
}

/// The role that pods of a set will bear in the group of a member, if that states a minimum of it:
/// by one that they do not bear nobody would ever stand in for them.
pub fn role_in_group(member: &Member<'_>, role: &Role, by_name: bool) -> Option<Text> {
    let group = groups::of(member.chain.first()?, member.namespace, member.directory)?;
    let task = role.template.annotations.get(keys::VOLCANO_TASK).filter(|task| !task.is_empty());
    let name = task.or(by_name.then_some(&role.name))?;
    let (name, _) = group.says.roles.as_ref()?.get_key_value(name)?;
    Some(name.clone())
}

/// What is stated of the minimum of a member's group.
pub(super) fn stated(member: &Member<'_>) -> Option<u32> {
    if let Some(group) = groups::of(member.chain.first()?, member.namespace, member.directory) {
        return group.says.min;
    }
    let of_kueue = capstan_gang::named_in(member.chain, member.namespace).is_none()
        && kueue_group::named_in(member.chain, member.namespace).is_some();
    let key = if of_kueue { keys::KUEUE_GROUP_TOTAL } else { keys::MIN_MEMBER };
    count(member.chain, key, &mut Vec::new())
}

/// A member as if the owner of all had made it: what names a group below that (the cluster that a
/// RayJob makes) does not for who submits it.
fn under<'a>(member: &Member<'a>, gang: &Gang<'_>) -> Member<'a> {
    let at = member.above.iter().position(|owner| *owner.uid() == gang.top.uid);
    Member { above: &member.above[at.unwrap_or(0)..], ..*member }
}

/// The launcher of an MPIJob that waits for its workers, and what submits a RayJob. How far their
/// owner is the engine knows: its pods are not told.
fn of_owner<'a>(
    member: &Member<'a>,
    group: &GangRef,
    labels: &[(Text, Text)],
) -> Option<Later<'a>> {
    // Which of those are in a group of Kueue's its number tells as well.
    let of_kueue = matches!(group.key, GangKey::Group(GangSource::KueueGroup, _));
    let gang = Gang::above(member.above, member.directory)?;
    let roles = &gang.of.says.roles;
    let late = |role: &&Role| role.quorum == Quorum::Late && role.count() > 0;
    if gang.top.says.suspended || !roles.iter().any(|role| late(&role)) {
        return None;
    }
    let group = named_in(member.chain, member.namespace)?;
    let of_job = member.owner.is_some_and(|owner| &*owner.kind == "Job");
    let own = gang.role_of(labels, of_job);
    let mut sets = Vec::new();
    if own.is_none_or(|role| !late(&role)) {
        let of_top = under(member, &gang);
        let joins = owner::in_gang(&of_top, &group);
        let roles = roles.iter().filter(late).filter(|role| of_kueue || joins(role));
        sets.extend(roles.map(|role| Set::of(role, role.count(), 0)));
    }
    Some(Later {
        maker: gang.top.uid.clone(),
        name: gang.top.name.clone(),
        own: own.map(|role| role.name.clone()),
        sets,
        least: None,
        stated: stated(member),
        owners: gang.marks_above(member.above),
        by_name: true,
        of: Some(gang),
        level: None,
    })
}
