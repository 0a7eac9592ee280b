//! NodeVolumeLimits: a node attaches so many volumes of a driver and no more.
//!
//! What counts is every volume once, by driver and handle: those of pods on the node, those that
//! its VolumeAttachments name, and those that the pod adds. A claim that is not bound yet counts
//! for the driver of its class. A node whose CSINode says nothing of a driver has no limit.

use std::collections::BTreeSet;

use super::Question;
use crate::explain::reason::{NodeRefusal, StorageRefusal};
use crate::model::volumes::{Counted, by_attach};

/// Refuses a node that would have more volumes of a driver than it attaches; names the first.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    if question.volumes.is_none() {
        return;
    }
    let (volumes, name) = (&question.room.volumes, &question.facts().name);
    let Some(limits) = volumes.limits(name) else { return };
    let Some(wanted) = &question.shape.facts.volumes else { return };
    let claims = wanted.claims.iter().filter_map(|using| volumes.counted(&using.claim));
    let disks = wanted.disks.iter().filter_map(|disk| disk.attach.as_ref()).map(by_attach);
    let limited = |counted: &Counted<'_>| limits.contains_key(counted.0);
    let mut new: BTreeSet<Counted<'_>> = claims.chain(disks).filter(limited).collect();
    if new.is_empty() {
        return;
    }
    let there = volumes.counted_on(question.node, name);
    new.retain(|counted| !there.contains(counted));
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
