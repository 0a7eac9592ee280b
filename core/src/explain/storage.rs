//! Why the volumes of a pod keep it from a node.

use crate::model::input::Text;

/// A volume rule's verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageRefusal {
    /// A volume that the pod names is used by another pod of the node.
    DiskInUse {
        /// The volume.
        disk: Text,
    },
    /// A claim for one pod only is used by another.
    ClaimInUse {
        /// The claim.
        claim: Text,
    },
    /// A claim does not exist.
    ClaimMissing {
        /// The claim.
        claim: Text,
        /// It is made for the pod, by a controller.
        ephemeral: bool,
    },
    /// The volume of a claim is lost.
    ClaimLost {
        /// The claim.
        claim: Text,
        /// The volume.
        volume: Text,
    },
    /// A claim is being deleted.
    ClaimDeleting {
        /// The claim.
        claim: Text,
    },
    /// A claim has the name of one that is made for the pod, and was not made for it.
    ClaimForeign {
        /// The claim.
        claim: Text,
    },
    /// A claim that does not wait for a pod is not bound yet.
    ClaimUnbound {
        /// The claim.
        claim: Text,
    },
    /// The volume that a claim is bound to does not exist.
    VolumeMissing {
        /// The volume.
        volume: Text,
    },
    /// The volume that a claim is bound to cannot be used on the node.
    VolumeElsewhere {
        /// The volume.
        volume: Text,
    },
    /// A claim finds no volume for the node, and none can be made for it there.
    NoVolume {
        /// The claim.
        claim: Text,
    },
    /// Too little storage is left where the node could use it.
    NoStorage {
        /// The claim.
        claim: Text,
    },
    /// The node attaches no more volumes of a driver.
    TooManyVolumes {
        /// The driver.
        driver: Text,
        /// How many it attaches.
        limit: i64,
    },
    /// The node lacks a driver that pods with its volumes must not be without.
    DriverMissing {
        /// The driver.
        driver: Text,
    },
    /// The volume that a claim is bound to is in another zone.
    VolumeZone {
        /// The volume.
        volume: Text,
    },
}

impl StorageRefusal {
    /// Whether removing pods could help.
    pub fn removable(&self) -> bool {
        matches!(
            self,
            StorageRefusal::DiskInUse { .. }
                | StorageRefusal::ClaimInUse { .. }
                | StorageRefusal::TooManyVolumes { .. }
        )
    }

    /// Whether it is about the pod alone: no node takes it, whatever the node has.
    pub fn of_pod(&self) -> bool {
        matches!(
            self,
            StorageRefusal::ClaimMissing { .. }
                | StorageRefusal::ClaimLost { .. }
                | StorageRefusal::ClaimDeleting { .. }
                | StorageRefusal::ClaimForeign { .. }
                | StorageRefusal::ClaimUnbound { .. }
        )
    }
}
