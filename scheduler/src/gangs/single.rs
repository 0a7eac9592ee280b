//! Pods of their own: what no other source knows is a gang of one.

use capstan_core::model::input::{GangKey, GangRef, GangSource, Text};

use super::Member;

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
        unknown_owner: None,
        held: None,
    })
}
