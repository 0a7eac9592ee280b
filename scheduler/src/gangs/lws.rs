//! LeaderWorkerSets: one gang for each group, a leader and its workers.
//!
//! A group's pods start together. With `LeaderReady` the workers are made once the leader runs, and
//! with an exclusive topology once it has a node, whose domain they are pinned to: so it does not
//! wait for them. It knows of what their template says, and what they will look like ([`workers`]),
//! and starts where and when they will have places too, which are kept until they come. They wait
//! for each other, and the group that lacks them is in part. Group index and revision tell groups,
//! and tries of one, apart. A group has the size that its own pods bear, whatever the set was
//! changed to since: that is for groups of later revisions, and so is its template. A leader whose
//! workers will name another scheduler is held as if they were there: it would wait for them half
//! started.

use capstan_core::model::input::{GangKey, GangRef, GangSource, Held, Text};

use super::fields::{Fields, Part};
use super::kinds::Kind;
use super::to_come::Later;
use super::workers::{self, Leader};
use super::{Member, annotation, count, held, workload_name};
use crate::api::keys;
use crate::convert::directory::{Directory, Owner, OwnerKey};
use crate::convert::gang::{GangDraft, Says};
use crate::convert::marks::Marks;
use crate::convert::sharing::Shared;

/// Who schedules pods that name nobody.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// What a LeaderWorkerSet says.
pub fn read(part: Part<'_>, fields: &mut Fields, shared: &mut Shared) -> Says {
    Says {
        worker: workers::read(part, &fields.namespace, shared),
        size: fields.above_zero(part, "spec.leaderWorkerTemplate.size").unwrap_or(1),
        leader_first: part.at("spec.startupPolicy") == "LeaderReady"
            || part.at("metadata.annotations")[keys::LWS_EXCLUSIVE].is_string(),
        parted: parted(part, fields),
        workers: part
            .at("spec.leaderWorkerTemplate.workerTemplate.spec.schedulerName")
            .as_str()
            .map(Text::from),
        ..Says::default()
    }
}

/// Who schedules leaders and who workers, as far as templates say that these differ.
fn parted(part: Part<'_>, fields: &mut Fields) -> Option<(Text, Text)> {
    let mut of = |template: &str| -> Option<Text> {
        let path = format!("spec.leaderWorkerTemplate.{template}");
        part.at(&path).as_object()?;
        let name = fields.text(part, &format!("{path}.spec.schedulerName"));
        Some(name.unwrap_or(DEFAULT_SCHEDULER).into())
    };
    // Without a template of their own leaders have that of workers.
    let (leaders, workers) = (of("leaderTemplate")?, of("workerTemplate")?);
    (leaders != workers).then_some((leaders, workers))
}

/// The gang of a pod of a group. Workers are owned by their leader, so that labels name the set.
pub fn resolve(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let marks = member.chain.first()?;
    let key = named_by(marks, member.namespace)?;
    let index = marks.labels.get(keys::LWS_GROUP)?;
    let revision = marks.labels.get(keys::LWS_REVISION).map_or("", |text| text);
    let Group { set, size, leader_first, leads } = group(member, &key);
    let uid = set
        .map_or_else(|| format!("leaderworkerset/{}/{}", key.1, key.2), |set| set.uid.to_string());
    let min_member = match leader_first && leads {
        true => Some(1),
        false => count(member.chain, keys::MIN_MEMBER, ignored).or(size),
    };
    let held = group_named_by(marks, member.namespace).and_then(|group| held(member, &group));
    let held = held.or_else(|| workers_of_another(member, &key));
    let unknown = set.is_none() && member.directory.whole;
    Some(GangRef {
        key: GangKey::Owner(format!("{uid}/{index}/{revision}").into(), 0),
        name: workload_name(&format!("{}-{index}", key.2).into()),
        source: GangSource::Owner,
        // Those of others will never be members here: it is not they who are waited for.
        min_member: if held.is_some() { Some(1) } else { min_member },
        total: None,
        roles: None,
        by_itself: false,
        singly: false,
        unknown_owner: unknown.then(|| format!("LeaderWorkerSet {}", key.2).into()),
        held,
        to_come: None,
    })
}

/// What a member of a group, with these labels, knows of workers that are made once its leader has
/// a node or runs: so many of them as must run together with it.
pub(super) fn to_come<'a>(member: &Member<'a>, labels: &[(Text, Text)]) -> Option<Later<'a>> {
    let marks = member.chain.first()?;
    let key = named_by(marks, member.namespace)?;
    let index = marks.labels.get(keys::LWS_GROUP)?;
    let revision = marks.labels.get(keys::LWS_REVISION).map_or("", |text| text);
    let Group { set, size, leader_first, leads } = group(member, &key);
    let (set, size) = (set.filter(|_| leader_first)?, size?);
    let workers = set.says.worker.as_deref()?;
    let least = count(member.chain, keys::MIN_MEMBER, &mut Vec::new()).unwrap_or(size);
    // The leader is the first of all.
    let after = least.min(size).saturating_sub(1);
    let sets = match leads && is_of_template(member, marks) {
        true => {
            let leader = Leader { namespace: member.namespace, name: member.name, labels };
            workers.after(leader, (size, after))?
        }
        false => Vec::new(),
    };
    Some(Later {
        maker: format!("{}/{index}/{revision}", set.uid).into(),
        own: (!leads).then(|| workers.kind_of(labels)),
        sets,
        least: None,
        stated: None,
        owners: vec![&*set.marks],
        by_name: false,
        of: None,
        level: level_of(member),
    })
}

/// Whether a leader is of the revision of its set that this has now: the StatefulSet that made it
/// bears that. Where this is not known nobody knows what its workers will be made of. Who names no
/// revision or no owner was written by hand.
fn is_of_template(member: &Member<'_>, marks: &Marks) -> bool {
    let Some(own) = marks.labels.get(keys::LWS_REVISION) else { return true };
    let now = |owner: &&Owner| owner.marks().labels.get(keys::LWS_REVISION) == Some(own);
    member.owner.is_none() || member.above.first().is_some_and(now)
}

/// The node label of which the group of a pod has a value to itself, if it has.
fn level_of<'a>(member: &Member<'a>) -> Option<&'a Text> {
    named_by(member.chain.first()?, member.namespace)?;
    annotation(member.chain, keys::LWS_EXCLUSIVE).filter(|level| !level.is_empty())
}

/// Why a leader waits whose workers are made once it runs, for another scheduler. Where it is not
/// itself scheduled as its template says, what that says of workers tells nothing either.
fn workers_of_another(member: &Member<'_>, key: &OwnerKey) -> Option<Held> {
    let Group { set, size, leader_first, leads } = group(member, key);
    let (leaders, workers) = set?.says.parted.as_ref()?;
    let ours = |name: &Text| **name == *member.directory.scheduler;
    let held = leader_first && leads && ours(leaders) && !ours(workers);
    let workers = size?.saturating_sub(1);
    (held && workers > 0).then_some(Held::ForeignMembers(workers))
}

/// What is known of the group of a pod.
struct Group<'a> {
    /// The set.
    set: Option<&'a GangDraft>,
    /// Its pods: as many as they say themselves, else as many as the set says now.
    size: Option<u32>,
    /// Its workers are made once its leader runs.
    leader_first: bool,
    /// The pod is the leader.
    leads: bool,
}

/// The group of a pod of the set at this key.
fn group<'a>(member: &Member<'a>, key: &OwnerKey) -> Group<'a> {
    let own = &member.chain[..1];
    let set = member.directory.owners.get(key).and_then(|owner| owner.gang());
    let stated = annotation(own, keys::LWS_SIZE).and_then(|text| text.parse().ok());
    let stated = stated.filter(|size: &u32| *size > 0);
    let exclusive = annotation(own, keys::LWS_EXCLUSIVE).is_some();
    Group {
        set,
        size: stated.or(set.map(|set| set.says.size)),
        leader_first: exclusive || set.is_some_and(|set| set.says.leader_first),
        leads: annotation(own, keys::LWS_LEADER).is_none(),
    }
}

/// Pods of its group that can exist once this one does, where not all can from the beginning.
pub(super) fn exist(member: &Member<'_>) -> Option<u32> {
    let marks = member.chain.first()?;
    let key = named_by(marks, member.namespace)?;
    marks.labels.get(keys::LWS_GROUP)?;
    let group = group(member, &key);
    match (group.leader_first, group.leads) {
        (false, _) => None,
        (true, true) => Some(1),
        (true, false) => group.size,
    }
}

/// What a set says for a pod that names it: its owners lead to its leader, not to the set.
pub fn marks_of<'a>(
    marks: &Marks,
    namespace: &Text,
    above: &[&Owner],
    directory: &'a Directory,
) -> Option<&'a Marks> {
    let set = directory.owners.get(&named_by(marks, namespace)?)?;
    let there = above.iter().any(|owner| std::ptr::eq(*owner, set));
    (!there).then(|| set.marks())
}

/// The group of its set that a pod belongs to, by its labels.
pub(super) fn group_named_by(marks: &Marks, namespace: &Text) -> Option<OwnerKey> {
    let (_, _, set) = named_by(marks, namespace)?;
    let index = marks.labels.get(keys::LWS_GROUP)?;
    let revision = marks.labels.get(keys::LWS_REVISION).map_or("", |text| text);
    let group = format!("{set}/{index}/{revision}");
    Some((keys::LWS_GROUP.into(), namespace.clone(), group.into()))
}

/// The set that a pod belongs to, by its label.
pub fn named_by(marks: &Marks, namespace: &Text) -> Option<OwnerKey> {
    let name = marks.labels.get(keys::LWS_NAME).filter(|name| !name.is_empty())?;
    Some((Kind::LeaderWorkerSet.row().key.into(), namespace.clone(), name.clone()))
}
