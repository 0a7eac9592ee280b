//! What gangs of PodGroups have in common, whichever API group those are of.
//!
//! Decides that members wait for a group that does not exist, while others of them name another
//! scheduler, and where the group is part of a tree of groups: half of what belongs together must
//! not start and hold what the other half needs.

use capstan_core::explain::wording::quoted;
use capstan_core::model::input::{GangKey, GangRef, GangSource, Held, Text};

use super::kinds::Kind;
use super::volcano::{group_of, roles};
use super::{Member, held, late, workload_name};
use crate::api::keys;
use crate::convert::directory::{Directory, Owner, OwnerKey};
use crate::convert::group::GroupDraft;
use crate::convert::marks::Marks;

/// Owners that make another pod for one that is deleted, and think nothing of it.
pub(super) const REPLACE: [&str; 3] = ["ReplicaSet", "ReplicationController", "StatefulSet"];

/// Keys that name a group, and no part in it.
const NAMES: [&str; 3] = [keys::PLUGINS_GROUP, keys::VOLCANO_GROUP, keys::VOLCANO_GROUP_OWN];

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
        by_itself: late::is_uncounted(member)
            || group.filter(|_| held.is_none()).is_some_and(|group| group.says.no_gang),
        singly: group.filter(|_| held.is_none()).is_some_and(|group| singly(member, group)),
        unknown_owner: None,
        held,
        to_come: None,
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

/// Whether a member may be stopped while others of its group go on: the group does not want all or
/// none, nobody made the pod or somebody who makes another in its stead, and nothing says that it
/// has a part of its own. A Job counts a pod that is deleted as a failure; operators stop the
/// others, or start all of them anew, and without its driver an application is over.
fn singly(member: &Member<'_>, group: &GroupDraft) -> bool {
    let replaced = member.owner.is_none_or(|owner| REPLACE.contains(&&*owner.kind));
    let plain = |owner: &&Owner| matches!(owner, Owner::Other(_) | Owner::Group(_));
    let has_part = member.chain.first().is_some_and(|marks| {
        keys::OF_GANGS.iter().any(|key| !NAMES.contains(key) && marks.any(key).is_some())
    });
    !group.says.whole && replaced && !has_part && member.above.iter().all(plain)
}

/// Where the directory has a PodGroup.
fn key(kind: Kind, namespace: &Text, name: &Text) -> OwnerKey {
    (kind.row().key.into(), namespace.clone(), name.clone())
}

/// Where the directory has this one.
pub fn key_of(group: &GroupDraft) -> OwnerKey {
    key(group.kind, &group.namespace, &group.name)
}

/// The group that a pod is a member of, by what it says itself; the best source first.
pub fn named_by(marks: &Marks, namespace: &Text) -> Option<OwnerKey> {
    let of = |kind: Kind, name: &Text| key(kind, namespace, name);
    let label = |key: &str| marks.labels.get(key).filter(|name| !name.is_empty());
    if let Some(name) = &marks.scheduling_group {
        return Some(of(Kind::UpstreamGroup, name));
    }
    if let Some(name) = label(keys::PLUGINS_GROUP) {
        return Some(of(Kind::PluginsGroup, name));
    }
    Some(of(Kind::VolcanoGroup, group_of(marks)?))
}

/// The group of a member, if it exists.
pub fn of<'a>(marks: &Marks, namespace: &Text, directory: &'a Directory) -> Option<&'a GroupDraft> {
    directory.group(&named_by(marks, namespace)?)
}
