//! Gangs named by `capstan.sh/gang`, a label or annotation.
//!
//! The minimum is `capstan.sh/min-member`; without one as many as exist must run together.

use capstan_core::model::input::{GangKey, GangRef, GangSource, Text};

use super::{Member, count, held, late, workload_name};
use crate::api::keys;
use crate::convert::directory::OwnerKey;
use crate::convert::marks::Marks;

/// The gang that a pod names.
pub fn resolve(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let name = member.chain.iter().find_map(|marks| marks.any(keys::GANG))?;
    if name.is_empty() {
        return None;
    }
    let stated = count(member.chain, keys::MIN_MEMBER, ignored);
    let least = stated.map(|stated| late::at_most(member, stated));
    let held = held(member, &key(member.namespace, name));
    Some(GangRef {
        key: GangKey::Group(GangSource::CapstanGang, name.clone()),
        name: workload_name(name),
        source: GangSource::CapstanGang,
        // Those of others will never be members here: it is not they who are waited for.
        min_member: if held.is_some() { Some(1) } else { least },
        total: None,
        roles: None,
        unknown_owner: None,
        held,
    })
}

/// The gang that a pod names itself.
pub(super) fn named_by(marks: &Marks, namespace: &Text) -> Option<OwnerKey> {
    marks.any(keys::GANG).filter(|name| !name.is_empty()).map(|name| key(namespace, name))
}

fn key(namespace: &Text, name: &Text) -> OwnerKey {
    (keys::GANG.into(), namespace.clone(), name.clone())
}
