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
    let name = name_in(member.chain)?;
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
        by_itself: late::is_uncounted(member),
        singly: false,
        unknown_owner: None,
        held,
        to_come: None,
    })
}

/// The gang that a pod names, or its owners, the nearest first.
pub(super) fn named_in(chain: &[&Marks], namespace: &Text) -> Option<OwnerKey> {
    name_in(chain).map(|name| key(namespace, name))
}

fn name_in<'a>(chain: &[&'a Marks]) -> Option<&'a Text> {
    chain.iter().find_map(|marks| marks.any(keys::GANG)).filter(|name| !name.is_empty())
}

fn key(namespace: &Text, name: &Text) -> OwnerKey {
    (keys::GANG.into(), namespace.clone(), name.clone())
}
