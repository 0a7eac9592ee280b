//! Gangs of Kubernetes itself: `spec.schedulingGroup` names a PodGroup of `scheduling.k8s.io`.
//!
//! v1alpha2, v1alpha3 and v1beta1 differ in nothing that is read here, but that Kubernetes 1.37,
//! which has the last two, starts no group with a pod of another priority or `preemptionPolicy`:
//! such pods are held here too. A group without `gang` starts pod by pod, and for each of its pods
//! others are stopped as for a pod of its own. By its `disruptionMode` it is preempted as a whole;
//! else it may lose members above its minimum, and never any below.
//!
//! A group that says no priority has what its API server gives to one: that of the default
//! PriorityClass, else 0, which is what kube-scheduler takes. What a group says of
//! `preemptionPolicy` is kept by API servers with the gate `PodGroupPreemptionPolicy` alone (alpha,
//! off); without it kube-scheduler asks that pods of a group are alike. So where a group says
//! nothing, its pods have to be alike here: with the gate those that never preempt would wait as
//! well, but nobody can tell the gate from such a group.

use capstan_core::model::input::{GangRef, GangSource, Held, Text};
use serde_json::Value;

use super::Member;
use super::fields::{Fields, Part};
use super::groups;
use super::kinds::Kind;
use crate::convert::directory::Directory;
use crate::convert::group::{GroupDraft, GroupSays};
use crate::convert::pod::PodDraft;
use crate::convert::sharing::Shared;

/// What a PodGroup says.
pub fn read(part: Part<'_>, fields: &mut Fields, shared: &mut Shared) -> GroupSays {
    let gang = !part.at("spec.schedulingPolicy.gang").is_null();
    let min = match gang {
        true => fields.above_zero(part, "spec.schedulingPolicy.gang.minCount"),
        false => Some(1),
    };
    let levels = fields.list(part, "spec.schedulingConstraints.topology");
    let level = levels.first().and_then(|(value, path)| {
        let level = Part { value, path };
        fields.text(level, "key").or_else(|| fields.text(level, "level"))
    });
    let priority = part.at("spec.priority");
    let known = priority.as_i64().and_then(|value| i32::try_from(value).ok());
    if known.is_none() && !priority.is_null() {
        fields.ignore(part, "spec.priority", priority, "a priority");
    }
    let never_preempts = match fields.text(part, "spec.preemptionPolicy") {
        None => None,
        Some("Never") => Some(true),
        Some("PreemptLowerPriority") => Some(false),
        Some(_) => {
            let policy = part.at("spec.preemptionPolicy");
            let wanted = "Never or PreemptLowerPriority";
            fields.ignore(part, "spec.preemptionPolicy", policy, wanted);
            None
        }
    };
    GroupSays {
        min,
        parent: fields.text(part, "spec.parentCompositePodGroupName").map(Text::from),
        roles: None,
        priority: known,
        never_preempts,
        class: fields.text(part, "spec.priorityClassName").map(|name| shared.texts.text(name)),
        topology: level.map(|level| shared.texts.text(level)),
        queue: None,
        whole: is_whole(part.at("spec.disruptionMode")),
        no_gang: !gang,
    }
}

/// Whether a group is to be disturbed as a whole only: `PodGroup` as v1alpha2 has it, `all` later.
fn is_whole(mode: &Value) -> bool {
    mode.as_str().is_some_and(|mode| mode == "PodGroup") || !mode["all"].is_null()
}

/// The gang of a pod that names a PodGroup in its spec.
pub fn resolve(member: &Member<'_>, _ignored: &mut Vec<Text>) -> Option<GangRef> {
    let name = member.chain.first()?.scheduling_group.clone()?;
    Some(groups::gang(member, Kind::UpstreamGroup, GangSource::SchedulingGroup, name))
}

/// The version of groups that only rank their pods.
const RANKS: &str = "v1alpha2";

/// Whether a group starts only with pods that are as it is.
pub fn compares(group: &GroupDraft) -> bool {
    group.kind == Kind::UpstreamGroup && *group.version != *RANKS
}

/// Why a pod waits that says (`own`) another priority than its group has, or is to preempt others
/// where the group or others of its pods are not, or the other way round.
pub fn unlike(
    pod: &PodDraft,
    (own, priority): (Option<i32>, Option<i32>),
    group: &GroupDraft,
    directory: &Directory,
) -> Option<Held> {
    if !compares(group) {
        return None;
    }
    if let (Some(own), Some(group)) = (own, priority)
        && own != group
    {
        return Some(Held::OtherPriority { pod: pod.name.clone(), own, group });
    }
    let never = pod.ranked.never_preempts?;
    let stated = group.says.never_preempts;
    let unlike = match stated {
        Some(stated) => stated != never,
        None => directory.has_preempting(&groups::key_of(group), !never),
    };
    let of_group = stated.is_some();
    unlike.then(|| Held::OtherPreemption { pod: pod.name.clone(), never, of_group })
}
