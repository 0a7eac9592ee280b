//! VolumeBinding: claims must exist, and be bound or be bindable where the pod goes.
//!
//! A bound claim's volume must be usable on the node: where a driver has taken the volume's kind
//! over, by the labels that the driver gives to nodes. One that waits for its first consumer takes
//! the smallest volume that suits it there, else one is made if its class can do that for the
//! node. What is chosen is kept with the claim (see [`crate::model::volumes`]); the next pod that
//! uses it has to suit the choice.

use super::{Question, volume_zone};
use crate::explain::reason::{NodeRefusal, StorageRefusal};
use crate::model::volumes::Need;

/// Refuses a node that some claim cannot be used on; every node where a claim is not fit for use.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let Some(demand) = question.volumes else { return };
    if let Some(problem) = &demand.problem {
        refusals.push(NodeRefusal::Storage(problem.clone()));
        return;
    }
    let (node, volumes) = (question.facts(), &question.room.volumes);
    let away = demand.claims.iter().find_map(|wanted| match &wanted.need {
        Need::Bound(volume) if !volumes.reaches_bound(node, volume) => Some(volume),
        _ => None,
    });
    if let Some(volume) = away {
        let refusal = StorageRefusal::VolumeElsewhere { volume: volume.name.clone() };
        refusals.push(NodeRefusal::Storage(refusal));
    }
    let made = demand.on(node, volumes).and_then(|_| demand.could_be_made(node, volumes));
    refusals.extend(made.err().map(NodeRefusal::Storage));
    let nowhere = demand.claims.iter().find_map(|wanted| match &wanted.need {
        Need::Nowhere(volume) => Some(volume),
        _ => None,
    });
    if let Some(volume) = nowhere {
        let refusal = StorageRefusal::VolumeMissing { volume: volume.clone() };
        refusals.push(NodeRefusal::Storage(refusal));
    }
}

/// Whether a node reaches the volumes that claims have, whoever is there: what they may still get
/// is not looked at.
pub fn is_reached(question: &Question<'_>) -> bool {
    let Some(demand) = question.volumes else { return true };
    let mut claims = demand.claims.iter();
    let bound = claims.all(|wanted| match &wanted.need {
        Need::Bound(volume) => question.room.volumes.reaches_bound(question.facts(), volume),
        Need::Nowhere(_) => false,
        _ => true,
    });
    let mut elsewhere = Vec::new();
    volume_zone::check(question, &mut elsewhere);
    bound && demand.problem.is_none() && elsewhere.is_empty()
}
