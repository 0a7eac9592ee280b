//! Gangs of Volcano: an annotation names a PodGroup of `scheduling.volcano.sh`.
//!
//! Volcano's controllers, Kubeflow's operators, KubeRay and Spark make such groups and annotate
//! their pods. Its queue is taken for a LocalQueue of that name; `default`, which Volcano writes
//! itself, is no wish of anybody's. What a group says of `minResources` adds nothing to what its
//! members ask once they exist, and before that nothing is kept for it: an estimate of a shape that
//! nobody knows yet would hold quota and nodes that the pods then do not fit.
//!
//! Minimums of tasks count each by itself, where they add up to no more than the group's own
//! minimum; where that is smaller it is the only one that counts, as for Volcano: its Jobs have the
//! replicas of each task for minimums, and start with fewer if their `minAvailable` says so.
//!
//! Pods of a task that depends on others (`dependsOn`) are made once those run: they are late
//! members. Those that are made first know what its template says: as many of it as the minimum
//! counts have places before any of them starts, which are kept until they come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{GangRef, GangSource, Roles, Text};

use super::fields::{Fields, Part};
use super::groups;
use super::kinds::Kind;
use super::late::Made;
use super::to_come::{Later, Set, stated};
use super::{Member, late};
use crate::api::keys;
use crate::convert::gang::{Role, Says, Task};
use crate::convert::group::GroupSays;
use crate::convert::marks::Marks;
use crate::convert::sharing::Shared;

/// The queue that Volcano gives to whoever names none.
pub(super) const DEFAULT_QUEUE: &str = "default";

/// What a PodGroup says.
pub fn read(part: Part<'_>, fields: &mut Fields, shared: &mut Shared) -> GroupSays {
    let stated = fields.count(part, "spec.minMember").filter(|count| *count > 0);
    let mut roles: BTreeMap<Text, u32> = BTreeMap::new();
    for (role, count, path) in fields.map(part, "spec.minTaskMember") {
        if let Some(least) = fields.count_of(count, path).filter(|count| *count > 0) {
            roles.insert(shared.texts.text(role), least);
        }
    }
    let of_roles = roles.values().fold(0_u32, |sum, least| sum.saturating_add(*least));
    // A group without a number is Volcano's for a pod of a controller that knows no gangs.
    let min = match stated {
        Some(stated) if stated < of_roles => {
            roles.clear();
            stated
        }
        stated => stated.unwrap_or(1).max(of_roles),
    };
    // Its tiers are those of HyperNodes, which nobody reads here.
    let instead = format!("a level is asked for with annotation {}", keys::REQUIRED_TOPOLOGY);
    fields.unread(part, "spec.networkTopology", &instead);
    let (level, size) = (keys::SLICE_TOPOLOGY, keys::SLICE_SIZE);
    let instead = format!("members count one by one; annotations {level} and {size} divide them");
    fields.unread(part, "spec.subGroupPolicy", &instead);
    let queue = fields.text(part, "spec.queue").filter(|queue| *queue != DEFAULT_QUEUE);
    GroupSays {
        min: Some(min),
        roles: (!roles.is_empty()).then(|| Arc::new(roles)),
        queue: queue.map(|name| shared.texts.text(name)),
        class: fields.text(part, "spec.priorityClassName").map(|name| shared.texts.text(name)),
        ..GroupSays::default()
    }
}

/// What a Job of Volcano's says: all else is said by its PodGroup.
pub fn read_job(part: Part<'_>, fields: &mut Fields, shared: &mut Shared) -> Says {
    let scheduler = fields.text(part, "spec.schedulerName");
    let mut tasks = Vec::new();
    for (value, path) in fields.list(part, "spec.tasks") {
        let task = Part { value, path: &path };
        let named = fields.list(task, "dependsOn.name");
        let named = named.iter().filter_map(|(name, _)| name.as_str());
        let after: Vec<Text> = named.map(|name| shared.texts.text(name)).collect();
        let name = shared.texts.text(fields.text(task, "name").unwrap_or_default());
        let role = match after.is_empty() {
            true => None,
            false => role(task, (&name, &fields.namespace), shared),
        };
        tasks.push(Task {
            name,
            pods: fields.count(task, "replicas").unwrap_or(1),
            after,
            any: fields.text(task, "dependsOn.iteration") == Some("any"),
            role,
        });
    }
    if tasks.iter().all(|task| task.after.is_empty()) {
        tasks.clear();
    }
    let scheduler = scheduler.map(|name| shared.texts.text(name));
    Says { scheduler, tasks, ..Says::default() }
}

/// What pods of a task are made of; `None`: there is no template, or none that an API server would
/// take.
fn role(
    task: Part<'_>,
    (name, namespace): (&Text, &Text),
    shared: &mut Shared,
) -> Option<Arc<Role>> {
    let at = task.path_of("template");
    let template = Part { value: task.at("template"), path: &at };
    template.value.as_object()?;
    let added = [(keys::VOLCANO_TASK, &**name)];
    Role::of(name, (template, namespace, &added[..]), 1, shared).ok().map(Arc::new)
}

/// Tasks of a job of which a member knows that they are made later, so many at most: each of its
/// pods knows of all.
const LATER_MAX: usize = 64;

/// What a member knows of tasks that are made once others run: as many pods of each as must run
/// together with those that are there, by what is stated.
pub(super) fn to_come<'a>(member: &Member<'a>) -> Option<Later<'a>> {
    let job = member.above.first()?.gang()?;
    let exist = exist_of_tasks(member)?;
    let group = groups::of(member.chain.first()?, member.namespace, member.directory);
    let roles = group.and_then(|group| group.says.roles.as_deref());
    let stated = stated(member);
    let there = exist.iter().fold(0_u32, |sum, (_, pods)| sum.saturating_add(*pods));
    let mut left = stated.map_or(u32::MAX, |stated| stated.saturating_sub(there));
    let (mut sets, mut all) = (Vec::new(), there);
    for (task, (_, pods)) in job.says.tasks.iter().zip(&exist) {
        let Some(role) = task.role.as_deref().filter(|_| *pods == 0) else { continue };
        let least = match roles {
            Some(roles) => roles.get(&task.name).copied().unwrap_or(0),
            None => left,
        };
        let count = least.min(task.pods);
        if count > 0 && sets.len() < LATER_MAX {
            left = left.saturating_sub(count);
            sets.push(Set::of(role, count, 0));
            all = all.saturating_add(count);
        }
    }
    Some(Later {
        maker: job.uid.clone(),
        name: job.name.clone(),
        own: task_of(member).cloned(),
        least: stated.map(|stated| stated.min(all)).filter(|_| !sets.is_empty()),
        sets,
        stated: None,
        owners: member.above.iter().map(|owner| owner.marks()).collect(),
        by_name: true,
        of: None,
        level: None,
    })
}

/// Pods of each task that can exist once this pod does, where a Job of Volcano's makes some only
/// once those of other tasks run: its own task, those before it, and those that wait for nobody.
/// Of several of which one will do nobody knows which it was. Each task is looked at once: a Job
/// may have tens of thousands of them.
pub(super) fn exist_of_tasks<'a>(member: &'a Member<'_>) -> Option<Vec<(&'a Text, u32)>> {
    let tasks = &member.above.first()?.gang()?.says.tasks;
    if tasks.is_empty() {
        return None;
    }
    let mut named: BTreeMap<&Text, Vec<&Task>> = BTreeMap::new();
    for task in tasks.iter().filter(|task| !task.any && !task.after.is_empty()) {
        named.entry(&task.name).or_default().push(task);
    }
    let mut there: BTreeSet<&Text> = task_of(member).into_iter().collect();
    let mut new: Vec<&Text> = there.iter().copied().collect();
    while let Some(name) = new.pop() {
        let tasks = named.remove(name).unwrap_or_default();
        let before = tasks.into_iter().flat_map(|task| &task.after);
        new.extend(before.filter(|name| there.insert(*name)));
    }
    let exists = |task: &Task| task.after.is_empty() || there.contains(&task.name);
    let pods = |task: &'a Task| (&task.name, if exists(task) { task.pods } else { 0 });
    Some(tasks.iter().map(pods).collect())
}

/// The same in all, and how many are made later.
pub(super) fn made(member: &Member<'_>) -> Option<Made> {
    let exist = exist_of_tasks(member)?;
    let job = member.above.first()?.gang()?;
    let exist = exist.iter().fold(0_u32, |sum, (_, pods)| sum.saturating_add(*pods));
    let all = job.says.tasks.iter().fold(0_u32, |sum, task| sum.saturating_add(task.pods));
    let others = all.saturating_sub(exist);
    Some(Made { maker: job.uid.clone(), exist: exist.max(1), others })
}

/// The task of a pod.
fn task_of<'a>(member: &'a Member<'_>) -> Option<&'a Text> {
    let marks = &member.chain.first()?.annotations;
    marks.get(keys::VOLCANO_TASK).filter(|role| !role.is_empty())
}

/// The roles of a group, as this member sees them.
pub(super) fn roles(member: &Member<'_>, says: &GroupSays) -> Option<Arc<Roles>> {
    let least = late::roles(member, says.roles.clone()?)?;
    Some(Arc::new(Roles { own: task_of(member).cloned(), least, replica: None }))
}

/// The gang of a pod that has the annotation.
pub fn resolve(member: &Member<'_>, _ignored: &mut Vec<Text>) -> Option<GangRef> {
    let name = group_of(member.chain.first()?)?.clone();
    Some(groups::gang(member, Kind::VolcanoGroup, GangSource::VolcanoGroup, name))
}

/// The group that annotations name: an empty name is none.
pub(super) fn group_of(marks: &Marks) -> Option<&Text> {
    let of = |key: &str| marks.annotations.get(key).filter(|name| !name.is_empty());
    of(keys::VOLCANO_GROUP).or_else(|| of(keys::VOLCANO_GROUP_OWN))
}
