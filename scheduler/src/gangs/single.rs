//! Pods of their own: what no other source knows is a gang of one, and who leaves its gang.

use capstan_core::model::input::{GangKey, GangRef, GangSource, Text};

use super::Member;
use crate::api::keys;

/// The gang of one that a member is who leaves its gang by itself: it is no part of that any more.
pub fn leaving(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let marks = &member.chain.first()?.annotations;
    let marked =
        [keys::PREEMPTED_BY, keys::PREEMPTED_ALONE].iter().all(|key| marks.contains_key(*key));
    if marked { resolve(member, ignored) } else { None }
}

/// The gang of one.
pub fn resolve(member: &Member<'_>, _ignored: &mut Vec<Text>) -> Option<GangRef> {
    Some(GangRef {
        key: GangKey::Pod(member.uid.clone()),
        name: member.name.clone(),
        source: GangSource::Pod,
        min_member: Some(1),
        total: None,
        roles: None,
        by_itself: false,
        singly: false,
        unknown_owner: None,
        held: None,
    })
}
