//! Kueue's groups of plain pods: a label names the group, an annotation says how many it has.
//!
//! The group is whole, and must run as a whole, with that many members.

use capstan_core::model::input::{GangKey, GangRef, GangSource, Text};

use super::{Member, count, late, workload_name};
use crate::api::keys;

/// The pod group that a pod names.
pub fn resolve(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let labels =
        |marks: &&crate::convert::marks::Marks| marks.labels.get(keys::KUEUE_GROUP_NAME).cloned();
    let name = member.chain.iter().find_map(labels).filter(|name| !name.is_empty())?;
    let total = count(member.chain, keys::KUEUE_GROUP_TOTAL, ignored);
    let total = total.map(|total| late::at_most(member, total));
    Some(GangRef {
        name: workload_name(&name),
        key: GangKey::Group(GangSource::KueueGroup, name),
        source: GangSource::KueueGroup,
        min_member: total,
        total,
        roles: None,
        unknown_owner: None,
        held: None,
    })
}
