//! What gangs of PodGroups have in common, whichever API group those are of.
//!
//! Decides that members wait for a group that does not exist, while others of them name another
//! scheduler, and where the group is part of a tree of groups: half of what belongs together must
//! not start and hold what the other half needs.

use capstan_core::explain::wording::quoted;
use capstan_core::model::input::{GangKey, GangRef, GangSource, Held, Text};

use super::kinds::Kind;
use super::volcano::roles;
use super::{Member, held, late, workload_name};
use crate::api::keys;
use crate::convert::directory::{Directory, OwnerKey};
use crate::convert::group::GroupDraft;
use crate::convert::marks::Marks;

/// The gang of a member of the group of this name.
pub(super) fn gang(member: &Member<'_>, kind: Kind, source: GangSource, name: Text) -> GangRef {
    let key = key(kind, member.namespace, &name);
    let group = member.directory.group(&key);
    let held = match group {
        None => {
            let (kind, group) = (kind.row().name, kind.row().group);
            Some(Held::GroupMissing(format!("{kind} {} ({group})", quoted(&name)).into()))
        }
        Some(group) => of_tree(group).or_else(|| held(member, &key)),
    };
    GangRef {
        name: workload_name(&name),
        key: GangKey::Group(source, name),
        source,
        // What runs of a group that is gone goes on: nobody knows any more what it needs.
        // Members of others are not waited for: they are what the rest is held for.
        min_member: group.filter(|_| held.is_none()).map_or(Some(1), |group| least(member, group)),
        total: None,
        roles: group.filter(|_| held.is_none()).and_then(|group| roles(member, &group.says)),
        by_itself: late::joins_last(member),
        unknown_owner: None,
        held,
    }
}

/// Why members of a group wait that starts only together with others.
fn of_tree(group: &GroupDraft) -> Option<Held> {
    let parent = group.says.parent.as_ref()?;
    Some(Held::OfTree(format!("CompositePodGroup {}", quoted(parent)).into()))
}

/// What a group says of its minimum. An operator that makes it for a job may count pods in it
/// that it only makes once the others run (the launcher of an MPIJob that waits for its workers).
fn least(member: &Member<'_>, group: &GroupDraft) -> Option<u32> {
    Some(late::at_most(member, group.says.min?))
}

/// Where the directory has a PodGroup.
fn key(kind: Kind, namespace: &Text, name: &Text) -> OwnerKey {
    (kind.row().key.into(), namespace.clone(), name.clone())
}

/// The group that a pod is a member of, by what it says itself; the best source first.
pub fn named_by(marks: &Marks, namespace: &Text) -> Option<OwnerKey> {
    let of = |kind: Kind, name: &Text| key(kind, namespace, name);
    let annotation = |key: &str| marks.annotations.get(key).filter(|name| !name.is_empty());
    let label = |key: &str| marks.labels.get(key).filter(|name| !name.is_empty());
    if let Some(name) = &marks.scheduling_group {
        return Some(of(Kind::UpstreamGroup, name));
    }
    if let Some(name) = label(keys::PLUGINS_GROUP) {
        return Some(of(Kind::PluginsGroup, name));
    }
    let volcano =
        annotation(keys::VOLCANO_GROUP).or_else(|| annotation(keys::VOLCANO_GROUP_OWN))?;
    Some(of(Kind::VolcanoGroup, volcano))
}

/// The group of a member, if it exists.
pub fn of<'a>(marks: &Marks, namespace: &Text, directory: &'a Directory) -> Option<&'a GroupDraft> {
    directory.group(&named_by(marks, namespace)?)
}
