//! The words for volumes that keep a pod from a node.

use std::borrow::Cow;
use std::fmt;

use crate::explain::quantity::counted;
use crate::explain::reason::StorageRefusal;

/// kube-scheduler's words, without the count.
pub fn kube_reason(refusal: &StorageRefusal) -> Cow<'static, str> {
    Cow::Borrowed(match refusal {
        StorageRefusal::DiskInUse { .. } => "node(s) had no available disk",
        StorageRefusal::ClaimInUse { .. } => {
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
             already in-use by another pod"
        }
        StorageRefusal::ClaimMissing { .. }
        | StorageRefusal::ClaimLost { .. }
        | StorageRefusal::ClaimDeleting { .. }
        | StorageRefusal::ClaimForeign { .. } => return Cow::Owned(detail(refusal)),
        StorageRefusal::ClaimUnbound { .. } => "pod has unbound immediate PersistentVolumeClaims",
        StorageRefusal::VolumeMissing { .. } => {
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
        }
        StorageRefusal::VolumeElsewhere { .. } => {
            "node(s) didn't match PersistentVolume's node affinity"
        }
        StorageRefusal::NoVolume { .. } => {
            "node(s) didn't find available persistent volumes to bind"
        }
        StorageRefusal::NoStorage { .. } => "node(s) did not have enough free storage",
        StorageRefusal::TooManyVolumes { .. } => "node(s) exceed max volume count",
        StorageRefusal::DriverMissing { driver } => {
            return Cow::Owned(format!("{driver} CSI driver is not installed on the node"));
        }
        StorageRefusal::VolumeZone { .. } => "node(s) had no available volume zone",
    })
}

/// What is wrong with a volume, by name.
pub fn detail(refusal: &StorageRefusal) -> String {
    match refusal {
        StorageRefusal::DiskInUse { disk } => format!("volume {disk} is used by a pod there"),
        StorageRefusal::ClaimInUse { claim } => {
            format!("claim {claim} is for one pod and used by another")
        }
        StorageRefusal::ClaimMissing { claim, ephemeral: true } => format!(
            "waiting for ephemeral volume controller to create the \
             persistentvolumeclaim \"{claim}\""
        ),
        StorageRefusal::ClaimMissing { claim, .. } => {
            format!("persistentvolumeclaim \"{claim}\" not found")
        }
        StorageRefusal::ClaimLost { claim, volume } => format!(
            "persistentvolumeclaim \"{claim}\" bound to non-existent persistentvolume \"{volume}\""
        ),
        StorageRefusal::ClaimDeleting { claim } => {
            format!("persistentvolumeclaim \"{claim}\" is being deleted")
        }
        StorageRefusal::ClaimForeign { claim } => {
            format!("PVC {claim} was not created for the pod (pod is not owner)")
        }
        StorageRefusal::ClaimUnbound { claim } => {
            format!("claim {claim} is not bound, and its class does not wait for a pod")
        }
        StorageRefusal::VolumeMissing { volume } => {
            format!("volume {volume}, which a claim is bound to, does not exist")
        }
        StorageRefusal::VolumeElsewhere { volume } => {
            format!("volume {volume} cannot be used there")
        }
        StorageRefusal::NoVolume { claim } => {
            format!("no volume suits claim {claim} there, and none can be made")
        }
        StorageRefusal::NoStorage { claim } => {
            format!("too little storage is left for claim {claim} there")
        }
        StorageRefusal::TooManyVolumes { driver, limit } => {
            format!("attaches {} of {driver} at most", counted(*limit, "volume"))
        }
        StorageRefusal::DriverMissing { driver } => format!("has no CSI driver {driver}"),
        StorageRefusal::VolumeZone { volume } => format!("volume {volume} is in another zone"),
    }
}

impl fmt::Display for StorageRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&detail(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::reason::{NodeRefusal, NodeShortage};
    use crate::explain::wording::nodes::histogram;

    #[test]
    fn volumes_speak_in_detail_and_in_kube_words() {
        let rows = [
            (
                StorageRefusal::DiskInUse { disk: "pd".into() },
                "volume pd is used by a pod there",
                "node(s) had no available disk",
            ),
            (
                StorageRefusal::ClaimInUse { claim: "c".into() },
                "claim c is for one pod and used by another",
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                 mode already in-use by another pod",
            ),
            (
                StorageRefusal::TooManyVolumes { driver: "ebs.csi.aws.com".into(), limit: 1 },
                "attaches 1 volume of ebs.csi.aws.com at most",
                "node(s) exceed max volume count",
            ),
            (
                StorageRefusal::ClaimMissing { claim: "c".into(), ephemeral: false },
                "persistentvolumeclaim \"c\" not found",
                "persistentvolumeclaim \"c\" not found",
            ),
            (
                StorageRefusal::VolumeElsewhere { volume: "pv".into() },
                "volume pv cannot be used there",
                "node(s) didn't match PersistentVolume's node affinity",
            ),
        ];
        for (refusal, words, kube) in rows {
            assert_eq!((&*detail(&refusal), &*kube_reason(&refusal)), (words, kube));
        }
    }

    #[test]
    fn what_is_wrong_with_the_pod_itself_is_not_counted_by_nodes() {
        let missing = StorageRefusal::ClaimMissing { claim: "c".into(), ephemeral: false };
        let shortage = NodeShortage {
            nodes: 3,
            asked: 1,
            holds: 0,
            refusals: vec![(NodeRefusal::Unschedulable, 1), (NodeRefusal::Storage(missing), 2)],
            nearest: None,
            unwanted: None,
            gone: 0,
            ended: None,
        };
        let said = "0/3 nodes are available: persistentvolumeclaim \"c\" not found.";
        assert_eq!(histogram(&shortage), said);
    }
}
