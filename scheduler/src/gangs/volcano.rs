//! Gangs of Volcano: an annotation names a PodGroup of `scheduling.volcano.sh`.
//!
//! Volcano's controllers, Kubeflow's operators, KubeRay and Spark make such groups and annotate
//! their pods. Its queue is taken for a LocalQueue of that name; `default`, which Volcano writes
//! itself, is no wish of anybody's.

use capstan_core::model::input::{GangRef, GangSource, Text};

use super::Member;
use super::fields::{Fields, Part};
use super::groups;
use super::kinds::Kind;
use crate::api::keys;
use crate::convert::group::GroupSays;
use crate::convert::sharing::Shared;

/// The queue that Volcano gives to whoever names none.
pub(super) const DEFAULT_QUEUE: &str = "default";

/// What a PodGroup says. A minimum for each task adds up to one for all of them.
pub fn read(part: Part<'_>, fields: &mut Fields, shared: &mut Shared) -> GroupSays {
    let stated = fields.count(part, "spec.minMember").filter(|count| *count > 0);
    let tasks = fields.map(part, "spec.minTaskMember");
    let of_tasks = tasks.into_iter().fold(0_u32, |sum, (_, count, path)| {
        sum.saturating_add(fields.count_of(count, path).unwrap_or(0))
    });
    let queue = fields.text(part, "spec.queue").filter(|queue| *queue != DEFAULT_QUEUE);
    GroupSays {
        // A group without a number is Volcano's for a pod of a controller that knows no gangs.
        min: Some(stated.unwrap_or(1).max(of_tasks)),
        queue: queue.map(|name| shared.texts.text(name)),
        class: fields.text(part, "spec.priorityClassName").map(|name| shared.texts.text(name)),
        ..GroupSays::default()
    }
}

/// The gang of a pod that has the annotation.
pub fn resolve(member: &Member<'_>, _ignored: &mut Vec<Text>) -> Option<GangRef> {
    let marks = &member.chain.first()?.annotations;
    let name = marks.get(keys::VOLCANO_GROUP).or_else(|| marks.get(keys::VOLCANO_GROUP_OWN))?;
    let named = !name.is_empty();
    named.then(|| groups::gang(member, Kind::VolcanoGroup, GangSource::VolcanoGroup, name.clone()))
}
