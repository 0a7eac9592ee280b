//! Gangs of scheduler-plugins: a label names a PodGroup of `scheduling.x-k8s.io`.
//!
//! Kubeflow's operators, KubeRay and the trainer make such groups, and set the label. What a group
//! says of `minResources` adds nothing to what its members ask once they exist, and before that
//! nothing is kept for it (as for Volcano's).

use capstan_core::model::input::{GangRef, GangSource, Text};

use super::Member;
use super::fields::{Fields, Part};
use super::groups;
use super::kinds::Kind;
use crate::api::keys;
use crate::convert::group::GroupSays;

/// What a PodGroup says.
pub fn read(part: Part<'_>, fields: &mut Fields) -> GroupSays {
    GroupSays { min: fields.above_zero(part, "spec.minMember"), ..GroupSays::default() }
}

/// The gang of a pod that has the label.
pub fn resolve(member: &Member<'_>, _ignored: &mut Vec<Text>) -> Option<GangRef> {
    let name = member.chain.first()?.labels.get(keys::PLUGINS_GROUP)?;
    let named = !name.is_empty();
    named.then(|| groups::gang(member, Kind::PluginsGroup, GangSource::PodGroup, name.clone()))
}
