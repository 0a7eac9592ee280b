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

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{GangRef, GangSource, Roles, Text};

use super::fields::{Fields, Part};
use super::groups;
use super::kinds::Kind;
use super::{Member, late};
use crate::api::keys;
use crate::convert::gang::Says;
use crate::convert::group::GroupSays;
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
    Says { scheduler: scheduler.map(|name| shared.texts.text(name)), ..Says::default() }
}

/// The roles of a group, as this member sees them.
pub(super) fn roles(member: &Member<'_>, says: &GroupSays) -> Option<Arc<Roles>> {
    let least = late::roles(member, says.roles.clone()?)?;
    let marks = &member.chain.first()?.annotations;
    let own = marks.get(keys::VOLCANO_TASK).filter(|role| !role.is_empty()).cloned();
    Some(Arc::new(Roles { own, least }))
}

/// The gang of a pod that has the annotation.
pub fn resolve(member: &Member<'_>, _ignored: &mut Vec<Text>) -> Option<GangRef> {
    let marks = &member.chain.first()?.annotations;
    let name = marks.get(keys::VOLCANO_GROUP).or_else(|| marks.get(keys::VOLCANO_GROUP_OWN))?;
    let named = !name.is_empty();
    named.then(|| groups::gang(member, Kind::VolcanoGroup, GangSource::VolcanoGroup, name.clone()))
}
