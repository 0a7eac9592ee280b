//! VolumeRestrictions: volumes that one node cannot have twice, and claims for one pod only.
//!
//! Volumes that pods name without a claim clash with the same one of another pod on the node,
//! unless both only read it; an EBS volume clashes always. A `ReadWriteOncePod` claim that any
//! placed pod uses, wherever that is, is refused by every node; one that another scheduler
//! nominated for a node takes no such claim from anybody, but where disks are asked about. State is
//! [`Volumes`](crate::model::volumes::Volumes).

use super::Question;
use crate::explain::reason::{NodeRefusal, StorageRefusal};
use crate::model::input::{ClaimKey, Disk, DiskKind};

/// Refuses a node that has such a volume, or every node for a claim in use or one that is missing.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let Some(demand) = question.volumes else { return };
    if let Some(problem @ StorageRefusal::ClaimMissing { ephemeral: false, .. }) = &demand.problem {
        refusals.push(NodeRefusal::Storage(problem.clone()));
        return;
    }
    let held = question.room.volumes.disks(question.node);
    let wanted = question.shape.facts.volumes.iter().flat_map(|volumes| &volumes.disks);
    let taken = wanted.clone().find(|disk| held.iter().any(|held| clash(disk, held)));
    let beside = demand.clashing.as_ref().filter(|_| question.beside > 0);
    if let Some(disk) = taken.map(|disk| &disk.id).or(beside) {
        let refusal = StorageRefusal::DiskInUse { disk: disk.clone() };
        refusals.push(NodeRefusal::Storage(refusal));
        return;
    }
    // kube-scheduler asks on which node a claim is used only where it asks about disks.
    let asks = wanted.clone().any(|disk| disk.kind != DiskKind::Counted);
    let here = |claim: &&ClaimKey| {
        question.beside > 0 || asks && question.room.volumes.is_used_on(question.node, claim)
    };
    if let Some(claim) = demand.in_use.as_ref().or(demand.exclusive.iter().find(here)) {
        let refusal = StorageRefusal::ClaimInUse { claim: claim.name.clone() };
        refusals.push(NodeRefusal::Storage(refusal));
    }
}

/// Whether two pods on one node cannot both have these.
pub fn clash(one: &Disk, other: &Disk) -> bool {
    let same = (one.kind, &one.id) == (other.kind, &other.id);
    let both_read = one.read_only && other.read_only;
    same && match one.kind {
        DiskKind::GcePersistentDisk | DiskKind::Iscsi => !both_read,
        DiskKind::AwsElasticBlockStore => true,
        DiskKind::Rbd => {
            !both_read && one.monitors.iter().any(|monitor| other.monitors.contains(monitor))
        }
        DiskKind::Counted => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(kind: DiskKind, read_only: bool, monitors: &[&str]) -> Disk {
        let monitors = monitors.iter().map(|monitor| (*monitor).into()).collect();
        Disk { kind, id: "d".into(), monitors, read_only, attach: None }
    }

    #[test]
    fn readers_share_what_is_not_an_ebs_volume() {
        let clashes =
            |kind, one, other| clash(&disk(kind, one, &["m"]), &disk(kind, other, &["m"]));
        for kind in [DiskKind::GcePersistentDisk, DiskKind::Iscsi, DiskKind::Rbd] {
            assert!(!clashes(kind, true, true) && clashes(kind, true, false), "{kind:?}");
        }
        assert!(clashes(DiskKind::AwsElasticBlockStore, true, true));
        assert!(!clashes(DiskKind::Counted, false, false));
    }

    #[test]
    fn ceph_images_are_the_same_on_a_shared_monitor_only() {
        let of = |monitors: &[&str]| disk(DiskKind::Rbd, false, monitors);
        assert!(clash(&of(&["a", "b"]), &of(&["b", "c"])));
        assert!(!clash(&of(&["a"]), &of(&["b"])));
        let other = Disk { id: "e".into(), ..of(&["a"]) };
        assert!(!clash(&of(&["a"]), &other));
    }
}
