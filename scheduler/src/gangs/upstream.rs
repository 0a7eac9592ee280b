//! Gangs of Kubernetes itself: `spec.schedulingGroup` names a PodGroup of `scheduling.k8s.io`.
//!
//! v1alpha2, v1alpha3 and v1beta1 differ in nothing that is read here, but that Kubernetes 1.37,
//! which has the last two, starts no group with a pod of another priority than its own: such pods
//! are held here too. A group without `gang` starts pod by pod. `disruptionMode` needs nothing: no
//! gang is ever preempted in part below its minimum.

use capstan_core::model::input::{GangRef, GangSource, Held, Text};

use super::Member;
use super::fields::{Fields, Part};
use super::groups;
use super::kinds::Kind;
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
    GroupSays {
        min,
        parent: fields.text(part, "spec.parentCompositePodGroupName").map(Text::from),
        roles: None,
        priority: known,
        class: fields.text(part, "spec.priorityClassName").map(|name| shared.texts.text(name)),
        topology: level.map(|level| shared.texts.text(level)),
        queue: None,
    }
}

/// The gang of a pod that names a PodGroup in its spec.
pub fn resolve(member: &Member<'_>, _ignored: &mut Vec<Text>) -> Option<GangRef> {
    let name = member.chain.first()?.scheduling_group.clone()?;
    Some(groups::gang(member, Kind::UpstreamGroup, GangSource::SchedulingGroup, name))
}

/// The version of groups that only rank their pods.
const RANKS: &str = "v1alpha2";

/// Why a pod waits that says another priority than its group, which has this one.
pub fn outranked(pod: &PodDraft, group: &GroupDraft, priority: i32) -> Option<Held> {
    let own = pod.ranked.priority.filter(|own| *own != priority)?;
    let checked = group.kind == Kind::UpstreamGroup && *group.version != *RANKS;
    checked.then(|| Held::OtherPriority { pod: pod.name.clone(), own, group: priority })
}
