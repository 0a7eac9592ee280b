//! Why runs were stopped, as stops are counted: each kind has a word of its condition, and maybe
//! one for what is behind it.

use crate::plan::PreemptionReason;

/// Why a run was stopped, as stops are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// For another.
    Preempted,
    /// Its pods did not come up.
    NeverReady,
    /// They had, and did not recover.
    NotReadyAgain,
    /// Somebody wrote that it may not run.
    Deactivated,
    /// Its pods did not come up too often.
    RequeuingLimitExceeded,
    /// It ran as long as it was to run at most.
    MaximumExecutionTimeExceeded,
    /// Its LocalQueue is drained.
    LocalQueueStopped,
    /// Its ClusterQueue is drained.
    ClusterQueueStopped,
}

impl StopKind {
    /// All kinds.
    pub const ALL: [StopKind; 8] = [
        StopKind::Preempted,
        StopKind::NeverReady,
        StopKind::NotReadyAgain,
        StopKind::Deactivated,
        StopKind::RequeuingLimitExceeded,
        StopKind::MaximumExecutionTimeExceeded,
        StopKind::LocalQueueStopped,
        StopKind::ClusterQueueStopped,
    ];

    /// The kind of a stop.
    pub fn of(reason: PreemptionReason) -> StopKind {
        use PreemptionReason as Why;
        match reason {
            Why::InClusterQueue
            | Why::InCohortReclamation
            | Why::InCohortReclaimWhileBorrowing
            | Why::InCohortFairSharing
            | Why::Priority => StopKind::Preempted,
            Why::PodsReadyTimeout { .. } | Why::PodsNotReady { fell: false, .. } => {
                StopKind::NeverReady
            }
            Why::PodsNotReady { fell: true, .. } => StopKind::NotReadyAgain,
            Why::Deactivated => StopKind::Deactivated,
            Why::RequeuingLimitExceeded { .. } => StopKind::RequeuingLimitExceeded,
            Why::MaximumExecutionTimeExceeded { .. } => StopKind::MaximumExecutionTimeExceeded,
            Why::LocalQueueStopped => StopKind::LocalQueueStopped,
            Why::ClusterQueueStopped => StopKind::ClusterQueueStopped,
        }
    }

    /// The word of its condition, and of what is behind that; an empty one: nothing more is.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            StopKind::Preempted => ("Preempted", ""),
            StopKind::NeverReady => ("PodsReadyTimeout", "WaitForStart"),
            StopKind::NotReadyAgain => ("PodsReadyTimeout", "WaitForRecovery"),
            StopKind::Deactivated => ("Deactivated", ""),
            StopKind::RequeuingLimitExceeded => ("Deactivated", "RequeuingLimitExceeded"),
            StopKind::MaximumExecutionTimeExceeded => {
                ("Deactivated", "MaximumExecutionTimeExceeded")
            }
            StopKind::LocalQueueStopped => ("LocalQueueStopped", ""),
            StopKind::ClusterQueueStopped => ("ClusterQueueStopped", ""),
        }
    }

    fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

/// Kinds of stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops(u8);

impl Stops {
    /// Whether one is among them.
    pub fn has(self, kind: StopKind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// These and one more.
    #[must_use]
    pub fn with(self, kind: StopKind) -> Stops {
        Stops(self.0 | kind.bit())
    }

    /// Those among them, in the order of all.
    pub fn iter(self) -> impl Iterator<Item = StopKind> {
        StopKind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

impl FromIterator<StopKind> for Stops {
    fn from_iter<I: IntoIterator<Item = StopKind>>(kinds: I) -> Stops {
        kinds.into_iter().fold(Stops::default(), Stops::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_in_the_set_by_itself() {
        for kind in StopKind::ALL {
            let one = Stops::default().with(kind);
            assert_eq!(one.iter().collect::<Vec<_>>(), [kind]);
            assert!(StopKind::ALL.iter().all(|other| one.has(*other) == (*other == kind)));
        }
        let all: Stops = StopKind::ALL.into_iter().collect();
        assert_eq!(all.iter().collect::<Vec<_>>(), StopKind::ALL);
    }
}
