//! Pods of their own: what no other source knows is a gang of one, and who leaves its gang.

use capstan_core::model::input::{GangRef, Text};

use super::Member;
use crate::api::keys;
use crate::convert::pod::PodDraft;

/// The gang of a pod, as it counts: whoever leaves its gang by itself is no part of that any more.
pub fn as_it_leaves(pod: &PodDraft, gang: GangRef) -> GangRef {
    let alone = pod.marks.annotations.contains_key(keys::PREEMPTED_ALONE);
    match alone && pod.eviction.is_some() {
        true => gang.apart(&pod.uid, &pod.name),
        false => gang,
    }
}

/// The gang of one.
pub fn resolve(member: &Member<'_>, _ignored: &mut Vec<Text>) -> Option<GangRef> {
    Some(GangRef::of_one(member.uid, member.name))
}
