//! Feature gates that kube-scheduler knows.
//!
//! Decides which names are accepted: those a kube-scheduler of 1.33 to 1.37 accepts that touch
//! scheduling. Only [`TOLERATION_COMPARISON`] changes a decision so far.

/// Gate of the toleration operators Gt and Lt.
pub const TOLERATION_COMPARISON: &str = "TaintTolerationComparisonOperators";

/// Names accepted, sorted.
pub const KNOWN: &[&str] = &[
    "AllAlpha",
    "AllBeta",
    "ClearingNominatedNodeNameAfterBinding",
    "CompositePodGroup",
    "ConcurrentWatchObjectDecode",
    "ContainerRestartRules",
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADerivedAttributes",
    "DRADeviceBindingConditions",
    "DRADeviceCompatibilityGroups",
    "DRADeviceTaintRules",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAFractionalCapacityRange",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DRAResourceClaimGranularStatusAuthorization",
    "DRASchedulerFilterTimeout",
    "DRAWorkloadResourceClaims",
    "DynamicResourceAllocation",
    "GangScheduling",
    "GenericWorkload",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory",
    "InPlacePodVerticalScalingSchedulerPreemption",
    "InformerResourceVersion",
    "InterPodAffinityHostnameFastPath",
    "JobManagedBy",
    "MatchLabelKeysInPodAffinity",
    "MatchLabelKeysInPodTopologySpread",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "MinDomainsInPodTopologySpread",
    "MutableCSINodeAllocatableCount",
    "MutablePVNodeAffinity",
    "MutableSchedulingDirectivesForSuspendedJobs",
    "NodeDeclaredFeatures",
    "NodeInclusionPolicyInPodTopologySpread",
    "NominatedNodeNameForExpectation",
    "OpportunisticBatching",
    "PodGroupPreemptionPolicy",
    "PodLevelResourceManagers",
    "PodLevelResources",
    "PodLifecycleSleepAction",
    "PodObservedGenerationTracking",
    "PodReadyToStartContainersCondition",
    "PodSchedulingReadiness",
    "PodTopologyLabelsAdmission",
    "ReadWriteOncePod",
    "RestartAllContainersOnContainerExits",
    "SchedulerAsyncAPICalls",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
    "SchedulerPreQueueingHints",
    "SchedulerQueueingHints",
    "SidecarContainers",
    "StorageCapacityScoring",
    "TaintTolerationComparisonOperators",
    "TopologyAwareWorkloadScheduling",
    "UserNamespacesHostNetworkSupport",
    "VolumeAttributesClass",
    "VolumeCapacityPriority",
    "VolumeLimitScaling",
    "WatchList",
    "WatchListClient",
    "WorkloadAwarePreemption",
    "WorkloadWithJob",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_the_one_that_counts_is_among_them() {
        assert!(KNOWN.is_sorted());
        assert!(KNOWN.contains(&TOLERATION_COMPARISON));
    }

    #[test]
    fn gates_that_came_with_1_37_are_known() {
        for name in ["DRAFractionalCapacityRange", "DRADerivedAttributes", "CompositePodGroup"] {
            assert!(KNOWN.binary_search(&name).is_ok(), "{name}");
        }
    }
}
