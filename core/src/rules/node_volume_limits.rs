//! NodeVolumeLimits: a node attaches so many volumes of a driver and no more.
//!
//! What counts is every volume once, by driver and handle: those of pods on the node, those that
//! its VolumeAttachments name, and those that the pod adds. One that is attached, and that no pod
//! there uses any more, counts once more for the pod that wants it, as kube-scheduler has it. A
//! claim that is not bound yet counts for the driver of its class. A node whose CSINode says
//! nothing of a driver has no limit; but there are drivers that a node must have for its volumes:
//! where there is no CSINode, those of kinds that a driver took over need none.

use std::collections::BTreeSet;

use super::Question;
use crate::explain::reason::{NodeRefusal, StorageRefusal};
use crate::model::input::ClaimKey;
use crate::model::volumes::Counted;

/// Refuses a node that lacks a driver which it must have, or that would have more volumes of a
/// driver than it attaches; names the first.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    if question.volumes.is_none() {
        return;
    }
    let (volumes, name) = (&question.room.volumes, &question.facts().name);
    let Some(wanted) = &question.shape.facts.volumes else { return };
    let limits = volumes.limits(name);
    let counts = |claim: Option<&ClaimKey>| {
        limits.is_some() || claim.is_some_and(|claim| !volumes.is_migrated(claim))
    };
    let new = volumes.counted_of(wanted).filter(|(_, claim)| counts(*claim));
    let mut new: BTreeSet<Counted<'_>> = new.map(|(counted, _)| counted).collect();
    let here = |counted: &Counted<'_>| limits.is_some_and(|all| all.contains_key(counted.0));
    if let Some((driver, _)) = new.iter().find(|it| volumes.requires(it.0) && !here(it)) {
        let refusal = StorageRefusal::DriverMissing { driver: (*driver).into() };
        refusals.push(NodeRefusal::Storage(refusal));
        return;
    }
    let Some(limits) = limits else { return };
    new.retain(here);
    if new.is_empty() {
        return;
    }
    let mut there = volumes.counted_on(question.node);
    new.retain(|counted| !there.contains(counted));
    there.extend(volumes.attached_to(name));
    for (driver, limit) in limits {
        let of = |counted: &&Counted<'_>| *counted.0 == **driver;
        let more = new.iter().filter(of).count();
        let all = more + there.iter().filter(of).count();
        if more > 0 && all as i64 > *limit {
            let (driver, limit) = (driver.clone(), *limit);
            let refusal = StorageRefusal::TooManyVolumes { driver, limit };
            refusals.push(NodeRefusal::Storage(refusal));
            return;
        }
    }
}
