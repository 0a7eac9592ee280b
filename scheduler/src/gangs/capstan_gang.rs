//! Gangs named by `capstan.sh/gang`, a label or annotation.
//!
//! The minimum is `capstan.sh/min-member`; without one as many as exist must run together.

use capstan_core::model::input::{GangKey, GangRef, GangSource, Text};

use super::{Member, count, late, workload_name};
use crate::api::keys;

/// The gang that a pod names.
pub fn resolve(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let name = member.chain.iter().find_map(|marks| marks.any(keys::GANG))?;
    if name.is_empty() {
        return None;
    }
    let stated = count(member.chain, keys::MIN_MEMBER, ignored);
    Some(GangRef {
        key: GangKey::Group(GangSource::CapstanGang, name.clone()),
        name: workload_name(name),
        source: GangSource::CapstanGang,
        min_member: stated.map(|stated| late::at_most(member, stated)),
        total: None,
        roles: None,
        unknown_owner: None,
        held: None,
    })
}
