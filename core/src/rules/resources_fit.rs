//! NodeResourcesFit: everything a pod asks must be free on the node.
//!
//! Only what is asked is looked at, so a zero request passes an overcommitted node; the `pods`
//! slot is always asked. All insufficient resources are named. An extended resource that a
//! DeviceClass backs is without limit where the node has none of it: devices decide there, see
//! [`super::dynamic_resources`].

use capstan_topology::ResourceIdx;

use super::Question;
use crate::explain::reason::NodeRefusal;
use crate::resources::PODS;

/// Refuses a node that lacks something; names every resource that it lacks, by name.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let ledger = &question.room.ledger;
    for &(resource, asked) in ledger.request(question.shape.request).entries() {
        let beside = asked.saturating_mul(question.beside.into());
        let free = ledger.free(question.node, resource).saturating_sub(beside);
        if free >= asked || ignored(question, resource) {
            continue;
        }
        let has = ledger.allocatable(question.node, resource);
        refusals.push(match resource {
            PODS => NodeRefusal::TooManyPods { limit: has },
            _ => NodeRefusal::Insufficient {
                resource: question.room.resources.name(resource).clone(),
                asked,
                free,
                beyond_node: asked > has,
            },
        });
    }
    refusals.sort();
}

/// How many more pods the node holds.
#[inline]
pub fn slots(question: &Question<'_>) -> u32 {
    let args = &question.room.args;
    if !args.ignores_any() {
        return question.room.ledger.slots(question.node, question.shape.request);
    }
    let ledger = &question.room.ledger;
    let mut slots = i64::from(u32::MAX);
    for &(resource, asked) in ledger.request(question.shape.request).entries() {
        if !ignored(question, resource) {
            slots = slots.min(ledger.free(question.node, resource).max(0) / asked);
        }
    }
    slots as u32
}

/// Whether the configuration leaves an extended resource out of the check.
fn ignored(question: &Question<'_>, resource: ResourceIdx) -> bool {
    let args = &question.room.args;
    if !args.ignores_any() {
        return false;
    }
    let name = question.room.resources.name(resource);
    let Some((group, _)) = name.split_once('/') else { return false };
    args.ignored_resources.contains(name)
        || args.ignored_resource_groups.iter().any(|ignored| &**ignored == group)
}
