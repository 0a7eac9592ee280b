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
//!
//! Leader and workers may be in different gangs, since only the ones name a group, or each their
//! own. Neither waits for the other then, nor keeps places for it. That it is so the pods of a
//! group show ([`super::grouped`]), and a leader knows it from the templates before it has workers.
//! Who puts a leader into a group that no template names does so with its workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{GangKey, GangRef, GangSource, Held, Text};

use super::fields::{Fields, Part};
use super::kinds::Kind;
use super::late::Made;
use super::to_come::Later;
use super::workers::{self, Leader};
use super::{Member, annotation, count, grouped, held, named_in, workload_name};
use crate::api::keys;
use crate::api::pod::PodTemplate;
use crate::convert::directory::{Directory, Owner, OwnerKey};
use crate::convert::gang::{self, GangDraft, Says};
use crate::convert::marks::Marks;
use crate::convert::sharing::Shared;
use crate::read::decode;

/// Who schedules pods that name nobody.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// What the leader of a group is called as a part of it.
const LEADER: &str = "leader";
/// What its workers are.
const WORKER: &str = "worker";

/// What a LeaderWorkerSet says.
pub fn read(part: Part<'_>, fields: &mut Fields, shared: &mut Shared) -> Says {
    Says {
        worker: workers::read(part, &fields.namespace, shared),
        size: fields.above_zero(part, "spec.leaderWorkerTemplate.size").unwrap_or(1),
        leader_first: part.at("spec.startupPolicy") == "LeaderReady"
            || part.at("metadata.annotations")[keys::LWS_EXCLUSIVE].is_string(),
        parted: parted(part, fields),
        gangs: gangs(part, &fields.namespace, shared),
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

/// Which gangs leaders and workers will be in, by what templates name, and the set for all of them,
/// where that is not the same; `None` among these: that of their group.
fn gangs(
    part: Part<'_>,
    namespace: &Text,
    shared: &mut Shared,
) -> Option<Box<[Option<OwnerKey>; 2]>> {
    let mut of = |template: &str| -> Option<Arc<Marks>> {
        let value = part.at(&format!("spec.leaderWorkerTemplate.{template}"));
        value.as_object()?;
        let found: PodTemplate = decode::lenient(value).ok()?;
        Some(shared.marks_of_pod(&found.metadata, &found.spec))
    };
    // Without a template of their own leaders have that of workers.
    let (leaders, workers) = (of("leaderTemplate")?, of("workerTemplate")?);
    let set = shared.marks_of(&gang::meta(part.value));
    let named = |template: &Marks| named_in(&[template, &*set], namespace);
    let (leaders, workers) = (named(&leaders), named(&workers));
    (leaders != workers).then(|| Box::new([leaders, workers]))
}

/// The gang of a pod of a group. Workers are owned by their leader, so that labels name the set.
pub fn resolve(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let marks = member.chain.first()?;
    let key = named_by(marks, member.namespace)?;
    let index = marks.labels.get(keys::LWS_GROUP)?;
    let revision = marks.labels.get(keys::LWS_REVISION).map_or("", |text| text);
    let of = group(member, &key);
    let Group { set, size, leader_first, leads, .. } = of;
    let uid = set
        .map_or_else(|| format!("leaderworkerset/{}/{}", key.1, key.2), |set| set.uid.to_string());
    let min_member = match leader_first && leads {
        true => Some(1),
        false => {
            let least = count(member.chain, keys::MIN_MEMBER, ignored).or(size);
            let here = here(member, &of);
            // What is asked counts those that are in another gang as well.
            least.map(|least| here.map_or(least, |here| least.min(here)))
        }
    };
    let held = group_named_by(marks, member.namespace).and_then(|group| held(member, &group));
    let held = held.or_else(|| workers_of_another(&of, &member.directory.scheduler));
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
    let Group { set, size, leader_first, leads, parted } = group(member, &key);
    if leads && parted {
        return None;
    }
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
        name: format!("{}-{index}", set.name).into(),
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
/// itself scheduled as its template says, what that says of workers tells nothing either. Those
/// that will be in another gang are not waited for.
fn workers_of_another(of: &Group<'_>, scheduler: &Text) -> Option<Held> {
    let Group { set, size, leader_first, leads, parted } = *of;
    let (leaders, workers) = set?.says.parted.as_ref()?;
    let ours = |name: &Text| name == scheduler;
    let held = leader_first && leads && !parted && ours(leaders) && !ours(workers);
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
    /// The others, its workers or its leader, are in another gang than the pod, as far as known.
    parted: bool,
}

/// The group of a pod of the set at this key.
fn group<'a>(member: &Member<'a>, key: &OwnerKey) -> Group<'a> {
    let own = &member.chain[..1];
    let set = member.directory.owners.get(key).and_then(|owner| owner.gang());
    let stated = annotation(own, keys::LWS_SIZE).and_then(|text| text.parse().ok());
    let stated = stated.filter(|size: &u32| *size > 0);
    let exclusive = annotation(own, keys::LWS_EXCLUSIVE).is_some();
    let (marks, gang) = (member.chain[0], named_in(member.chain, member.namespace));
    let leads = leads(marks);
    let templates = set.and_then(|set| set.says.gangs.as_deref());
    let templates = templates.filter(|_| !leads || is_of_template(member, marks));
    let told = templates.is_some_and(|[leaders, workers]| {
        let others = if leads { workers } else { leaders };
        gang != *others
    });
    let others = if leads { WORKER } else { LEADER };
    let seen = || elsewhere(member).is_some_and(|roles| roles.contains_key(others));
    Group {
        set,
        size: stated.or(set.map(|set| set.says.size)),
        leader_first: exclusive || set.is_some_and(|set| set.says.leader_first),
        leads,
        parted: told || gang.is_none() && seen(),
    }
}

/// Whether a pod with these marks is the leader of its group.
fn leads(marks: &Marks) -> bool {
    !marks.annotations.contains_key(keys::LWS_LEADER)
}

/// Parts of the group of a pod, leader and workers, of which pods are in another gang than it.
fn elsewhere<'a>(member: &Member<'a>) -> Option<&'a BTreeMap<Text, u32>> {
    let part = part_of(member.chain.first()?, member.namespace)?;
    member.directory.grouped.roles(&part.owner)
}

/// Pods of its group that are, or will be, in one gang with a pod that is in that of the group,
/// where this is known and some are not. If none were left it would not be here: all count.
fn here(member: &Member<'_>, of: &Group<'_>) -> Option<u32> {
    let (size, seen) = (of.size?, elsewhere(member));
    let there = |role: &str| seen.is_some_and(|roles| roles.contains_key(role));
    let workers = there(WORKER) || of.leads && of.parted;
    let elsewhere = u32::from(there(LEADER)) + if workers { size - 1 } else { 0 };
    size.checked_sub(elsewhere).filter(|here| (1..size).contains(here))
}

/// The part of a group of its set that a pod with these marks is.
pub(super) fn part_of(marks: &Marks, namespace: &Text) -> Option<grouped::Part> {
    let key = group_named_by(marks, namespace)?;
    let owner = format!("leaderworkerset/{}/{}", key.1, key.2).into();
    let role = if leads(marks) { LEADER } else { WORKER };
    Some(grouped::Part { key, owner, role: role.into() })
}

/// Pods of its group that can exist once this one does, where not all can from the beginning. Where
/// leader and workers are in different gangs what is stated counts none of the others, unless their
/// set states it: that is for all pods of a group.
pub(super) fn exist(member: &Member<'_>) -> Option<u32> {
    let marks = member.chain.first()?;
    let key = named_by(marks, member.namespace)?;
    marks.labels.get(keys::LWS_GROUP)?;
    let group = group(member, &key);
    if group.parted {
        let states = |chain: &[&Marks]| annotation(chain, keys::MIN_MEMBER).is_some();
        let of_set = !states(&member.chain[..1]) && states(member.chain);
        let own = if group.leads { 1 } else { group.size?.saturating_sub(1).max(1) };
        return of_set.then_some(own);
    }
    match (group.leader_first, group.leads) {
        (false, _) => None,
        (true, true) => Some(1),
        (true, false) => group.size,
    }
}

/// The same, and how many of its group are made later: as many as nobody says where nobody says its
/// size.
pub(super) fn made(member: &Member<'_>) -> Option<Made> {
    let exist = exist(member)?;
    let marks = member.chain.first()?;
    let key = named_by(marks, member.namespace)?;
    let index = marks.labels.get(keys::LWS_GROUP)?;
    let revision = marks.labels.get(keys::LWS_REVISION).map_or("", |text| text);
    let of = group(member, &key);
    let set = of.set.map_or_else(|| format!("{}/{}", key.1, key.2), |set| set.uid.to_string());
    let others = of.size.map_or(u32::MAX, |size| size.saturating_sub(exist));
    Some(Made { maker: format!("{set}/{index}/{revision}").into(), exist, others })
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
