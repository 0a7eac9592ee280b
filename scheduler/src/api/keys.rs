//! Every label and annotation key that Capstan reads or writes, in one place.
//!
//! Decides spellings, and what is said of one that nobody knows. Kueue's spellings of the same
//! wish are aliases, and come second.

use crate::api::no_equal;
use crate::read::schema;

/// What every key of ours begins with.
pub const PREFIX: &str = "capstan.sh/";

/// LocalQueue of a workload; label or annotation.
pub const QUEUE: &str = "capstan.sh/queue";
/// WorkloadPriorityClass of a workload; label or annotation.
pub const PRIORITY_CLASS: &str = "capstan.sh/priority-class";
/// Gang that a pod belongs to; label or annotation.
pub const GANG: &str = "capstan.sh/gang";
/// Members of a gang that must run together; annotation.
pub const MIN_MEMBER: &str = "capstan.sh/min-member";
/// Level within one domain of which a gang must be; annotation.
pub const REQUIRED_TOPOLOGY: &str = "capstan.sh/required-topology";
/// Level within one domain of which a gang had better be; annotation.
pub const PREFERRED_TOPOLOGY: &str = "capstan.sh/preferred-topology";
/// Level within one domain of which each slice of a pod set goes; annotation.
pub const SLICE_TOPOLOGY: &str = "capstan.sh/slice-topology";
/// Members of a slice; annotation.
pub const SLICE_SIZE: &str = "capstan.sh/slice-size";
/// Name that pod sets of a gang share which get flavors and domains together; annotation.
pub const SET_GROUP: &str = "capstan.sh/podset-group-name";
/// Ordered allow-list of capacity types; annotation.
pub const CAPACITY_TYPES: &str = "capstan.sh/capacity-types";
/// Run time that the owner declares, a Go duration; annotation. Of a Job that makes pods in turn it
/// is that of each.
pub const EXPECTED_RUNTIME: &str = "capstan.sh/expected-runtime";

/// Run time after which a workload is deactivated, a Go duration; annotation.
pub const MAX_RUNTIME: &str = "capstan.sh/max-runtime";

/// Whose a Workload is: the name of the scheduler that made it, or took it over when it was
/// nobody's; label.
pub const SCHEDULER_NAME: &str = "capstan.sh/scheduler-name";
/// Workload that a pod was bound for; written with the binding.
pub const WORKLOAD: &str = "capstan.sh/workload";
/// ClusterQueue whose quota a pod was bound with.
pub const CLUSTER_QUEUE: &str = "capstan.sh/cluster-queue";
/// Flavors that a pod was bound with: a JSON map of resource to flavor.
pub const FLAVORS: &str = "capstan.sh/flavors";
/// When the workload took its quota, RFC 3339. What lies more than a minute ahead is not believed.
pub const ADMITTED_AT: &str = "capstan.sh/admitted-at";
/// What the pod cost per hour when it was bound, in decimal US dollars.
pub const PRICE: &str = "capstan.sh/price";

/// How many members of its gang had to run together when a pod was bound: a gang that is to have
/// more since goes on with those that it has.
pub const BEGAN_WITH: &str = "capstan.sh/began-with";

/// How often we suspended an owner: the number of its next run.
pub const SUSPENDED: &str = "capstan.sh/suspended";
/// On an owner, what its next run has to know of those that we stopped: a JSON object, written by
/// the patch that suspends it.
pub const REQUEUED: &str = "capstan.sh/requeued";
/// On an owner, what it was resumed with: a JSON object, written by the patch that resumes it. A
/// time of admission that lies more than a minute ahead is not believed: nobody of ours wrote it.
pub const ADMITTED: &str = "capstan.sh/admitted";
/// On a victim, `namespace/name` of the workload that takes its room.
pub const PREEMPTED_BY: &str = "capstan.sh/preempted-by";
/// On a victim, the reason in Kueue's words.
pub const PREEMPTION_REASON: &str = "capstan.sh/preemption-reason";
/// On a victim that leaves by itself a gang which goes on: `true`.
pub const PREEMPTED_ALONE: &str = "capstan.sh/preempted-alone";

/// On the Lease that a leader gives back: for how long it had changed nothing, a Go duration, and
/// the `renewTime` that it said so with (`1500ms at 2026-11-27T12:00:00.000000Z`). Who leads next
/// need not wait for watches to show what is older.
pub const IDLE: &str = "capstan.sh/idle";

/// The finalizer of a ClusterQueue: it stays while work holds quota in it.
pub const IN_USE: &str = "capstan.sh/in-use";

/// Kueue's queue label (once an annotation too).
pub const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Kueue's priority class label.
pub const KUEUE_PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";
/// Kueue's pod group label.
pub const KUEUE_GROUP_NAME: &str = "kueue.x-k8s.io/pod-group-name";
/// Kueue's size of a pod group; annotation.
pub const KUEUE_GROUP_TOTAL: &str = "kueue.x-k8s.io/pod-group-total-count";
/// Kueue's index of a pod in its pod group; label.
pub const KUEUE_GROUP_INDEX: &str = "kueue.x-k8s.io/pod-group-pod-index";
/// Kueue's name of another label that has that index; annotation.
pub const KUEUE_GROUP_INDEX_LABEL: &str = "kueue.x-k8s.io/pod-group-pod-index-label";
/// Kueue's required topology of one pod set; annotation.
pub const KUEUE_REQUIRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-required-topology";
/// Kueue's preferred topology of one pod set; annotation.
pub const KUEUE_PREFERRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-preferred-topology";
/// Kueue's word that one pod set may go anywhere; annotation.
pub const KUEUE_UNCONSTRAINED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-unconstrained-topology";
/// Kueue's level of slices of one pod set; annotation.
pub const KUEUE_SLICE_TOPOLOGY: &str = "kueue.x-k8s.io/podset-slice-required-topology";
/// Kueue's size of a slice; annotation.
pub const KUEUE_SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
/// Kueue's name of pod sets that get flavors and domains together; annotation.
pub const KUEUE_SET_GROUP: &str = "kueue.x-k8s.io/podset-group-name";
/// Kueue's smallest parallelism of a Job; annotation.
pub const KUEUE_JOB_MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";

/// Kueue's run time after which a workload is deactivated, in seconds; label.
pub const KUEUE_MAX_RUNTIME: &str = "kueue.x-k8s.io/max-exec-time-seconds";

/// What a kubelet writes on the mirror of a pod that it runs by itself; annotation.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// PodGroup of scheduler-plugins; label.
pub const PLUGINS_GROUP: &str = "scheduling.x-k8s.io/pod-group";
/// PodGroup of Volcano; annotation.
pub const VOLCANO_GROUP: &str = "scheduling.k8s.io/group-name";
/// The same, under Volcano's own prefix.
pub const VOLCANO_GROUP_OWN: &str = "scheduling.volcano.sh/group-name";
/// Role of a pod in a PodGroup of Volcano; annotation.
pub const VOLCANO_TASK: &str = "volcano.sh/task-spec";
/// The Job that made a pod, by name; label.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The same, as Jobs have said it from the beginning.
pub const JOB_NAME_OLD: &str = "job-name";
/// JobSet of a pod; label.
pub const JOBSET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// The same by uid; label.
pub const JOBSET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";
/// Jobs of the role of a pod of a JobSet; label.
pub const JOBSET_ROLE_JOBS: &str = "jobset.sigs.k8s.io/replicatedjob-replicas";
/// Jobs of a JobSet; label.
pub const JOBSET_JOBS: &str = "jobset.sigs.k8s.io/global-replicas";
/// Group of roles of a JobSet; label.
pub const JOBSET_GROUP: &str = "jobset.sigs.k8s.io/group-name";
/// Which of the Jobs of a JobSet a pod's is; label.
pub const JOBSET_JOB_OF_ALL: &str = "jobset.sigs.k8s.io/job-global-index";
/// Job of Kubeflow's that a pod is of; label.
pub const KUBEFLOW_JOB: &str = "training.kubeflow.org/job-name";
/// Role of a pod of such a job; label.
pub const KUBEFLOW_ROLE: &str = "training.kubeflow.org/replica-type";
/// `master` or the like, where its kind says so; label.
pub const KUBEFLOW_DUTY: &str = "training.kubeflow.org/job-role";
/// Which controller makes the pods of such a job; label.
pub const KUBEFLOW_OPERATOR: &str = "training.kubeflow.org/operator-name";
/// Role of a pod of a JobSet; label.
pub const JOBSET_ROLE: &str = "jobset.sigs.k8s.io/replicatedjob-name";
/// Try of a JobSet that a pod belongs to; label.
pub const JOBSET_ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
/// Level of which each Job of a JobSet, or of a role of it, has a domain to itself; annotation.
pub const JOBSET_EXCLUSIVE: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
/// Those domains were labelled beforehand: nothing waits for a first pod; annotation.
pub const JOBSET_LABELLED: &str = "alpha.jobset.sigs.k8s.io/node-selector";
/// LeaderWorkerSet of a pod; label.
pub const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
/// Group of a LeaderWorkerSet that a pod is in; label.
pub const LWS_GROUP: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// What tells a group from all others, those of other sets too; label.
pub const LWS_GROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";
/// Which of the pods of its group a pod is, the leader is 0; label.
pub const LWS_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// Which subgroup of its group a pod is in; label.
pub const LWS_SUBGROUP: &str = "leaderworkerset.sigs.k8s.io/subgroup-index";
/// What tells a subgroup from all others; label.
pub const LWS_SUBGROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/subgroup-key";
/// Revision of the template that a pod was made from; label.
pub const LWS_REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
/// Pods of a group; annotation.
pub const LWS_SIZE: &str = "leaderworkerset.sigs.k8s.io/size";
/// The leader of a worker, which leaders do not have; annotation.
pub const LWS_LEADER: &str = "leaderworkerset.sigs.k8s.io/leader-name";
/// Level of which each group of a LeaderWorkerSet has a domain to itself; annotation.
pub const LWS_EXCLUSIVE: &str = "leaderworkerset.sigs.k8s.io/exclusive-topology";
/// The same for each subgroup of a group; annotation.
pub const LWS_SUBGROUP_EXCLUSIVE: &str = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology";
/// RayCluster of a pod; label.
pub const RAY_CLUSTER: &str = "ray.io/cluster";
/// That a pod is one of a RayCluster; label.
pub const RAY_NODE: &str = "ray.io/is-ray-node";
/// RayCluster and node type in one; label.
pub const RAY_IDENTIFIER: &str = "ray.io/identifier";
/// `head` or `worker` of a RayCluster; label.
pub const RAY_NODE_TYPE: &str = "ray.io/node-type";
/// Group of workers of a RayCluster; label.
pub const RAY_GROUP: &str = "ray.io/group";
/// Replica of a group that has several hosts in each, where KubeRay numbers those; label.
pub const RAY_REPLICA: &str = "ray.io/worker-group-replica-name";
/// Run of a Spark application; label.
pub const SPARK_APPLICATION: &str = "spark-app-selector";
/// `driver` or `executor`; label.
pub const SPARK_ROLE: &str = "spark-role";
/// Name of a Spark application as Spark has it; label.
pub const SPARK_NAME: &str = "spark-app-name";
/// Name of a Spark application as its operator has it; label.
pub const SPARK_OPERATOR_NAME: &str = "sparkoperator.k8s.io/app-name";

/// Which of the Jobs of its role in a JobSet a pod's is.
pub const JOBSET_JOB: &str = "jobset.sigs.k8s.io/job-index";

/// Labels by which owners name the role of a pod, that of the least first where pods have several.
pub const ROLES: [&str; 5] = [
    JOBSET_ROLE,
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    RAY_GROUP,
    RAY_NODE_TYPE,
];

/// Which of the pods of its Job a pod is; label.
pub const JOB_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Which of the pods of its StatefulSet a pod is; label.
pub const SET_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Its name, which a StatefulSet gives to a pod as a label too.
pub const SET_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Revision of the StatefulSet or DaemonSet that made a pod, which is made with that; label.
pub const SET_REVISION: &str = "controller-revision-hash";

/// Labels of pods that have an index among their peers: Jobs (each Job of a JobSet by itself),
/// StatefulSets, LeaderWorkerSets, Kubeflow's jobs and Volcano's. Names have it too.
pub const INDEXES: [&str; 5] = [
    JOB_INDEX,
    SET_INDEX,
    LWS_INDEX,
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
];

/// Keys of other projects that say which gang a pod is in. All members of a gang, or of a role or a
/// replica in it, have the same values: what tells one member from the other would cost memory for
/// each.
pub const OF_GANGS: [&str; 19] = [
    PLUGINS_GROUP,
    VOLCANO_GROUP,
    VOLCANO_GROUP_OWN,
    VOLCANO_TASK,
    JOBSET_ROLE,
    JOBSET_ATTEMPT,
    LWS_NAME,
    LWS_GROUP,
    LWS_REVISION,
    LWS_SIZE,
    LWS_LEADER,
    LWS_EXCLUSIVE,
    RAY_NODE_TYPE,
    RAY_GROUP,
    RAY_REPLICA,
    SPARK_APPLICATION,
    SPARK_ROLE,
    SPARK_NAME,
    SPARK_OPERATOR_NAME,
];

/// The label that every namespace has: its own name.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// What a preempted pod's DisruptionTarget condition gives as its reason.
pub const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";

/// Keys of ours that pods, their templates and their owners may carry; one that is missing here is
/// warned of as misspelt.
const READ: [&str; 24] = [
    QUEUE,
    PRIORITY_CLASS,
    GANG,
    MIN_MEMBER,
    REQUIRED_TOPOLOGY,
    PREFERRED_TOPOLOGY,
    SLICE_TOPOLOGY,
    SLICE_SIZE,
    SET_GROUP,
    CAPACITY_TYPES,
    EXPECTED_RUNTIME,
    MAX_RUNTIME,
    WORKLOAD,
    CLUSTER_QUEUE,
    FLAVORS,
    ADMITTED_AT,
    PRICE,
    BEGAN_WITH,
    SUSPENDED,
    REQUEUED,
    ADMITTED,
    PREEMPTED_BY,
    PREEMPTION_REASON,
    PREEMPTED_ALONE,
];

/// Keys of the API that change nothing yet, without their prefix.
const RESERVED: [&str; 9] = [
    "on-demand-after",
    "interruptible",
    "checkpoint-interval",
    "checkpoint-duration",
    "restart-time",
    "last-checkpoint",
    "min-runtime",
    "deadline",
    "max-wait",
];

/// What is wrong with a key of ours or of Kueue's that has this value, if anything: misspelt ones
/// of ours must not be trusted in silence, nor those of either that change nothing.
pub fn problem(key: &str, value: &str) -> Option<String> {
    if let Some(instead) = no_equal::lost(key, value) {
        return Some(format!("has no effect in this version: {instead}"));
    }
    let name = key.strip_prefix(PREFIX).filter(|_| !READ.contains(&key))?;
    if RESERVED.contains(&name) {
        return Some("has no effect in this version".to_owned());
    }
    let known = READ.into_iter().filter_map(|known| known.strip_prefix(PREFIX)).chain(RESERVED);
    let near = schema::nearest(name, known);
    let meant = near.map_or(String::new(), |near| format!(" (did you mean {PREFIX}{near}?)"));
    Some(format!("no such label or annotation; it is ignored{meant}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_keys_are_named_with_the_one_that_was_meant() {
        for known in READ.into_iter().chain(["kueue.x-k8s.io/queue-nam", "capstan.dev/qeue"]) {
            assert_eq!(problem(known, "true"), None, "{known}");
        }
        for (key, meant) in [
            ("capstan.sh/min-members", "min-member"),
            ("capstan.sh/priorty-class", "priority-class"),
            ("capstan.sh/Queue", "queue"),
            ("capstan.sh/queue-name", "queue"),
            ("capstan.sh/dedline", "deadline"),
        ] {
            let want = format!(
                "no such label or annotation; it is ignored (did you mean capstan.sh/{meant}?)"
            );
            assert_eq!(problem(key, ""), Some(want), "{key}");
        }
        let odd = problem("capstan.sh/colour", "").expect("unknown");
        assert_eq!(odd, "no such label or annotation; it is ignored");
        let reserved = problem("capstan.sh/max-wait", "").expect("reserved");
        assert_eq!(reserved, "has no effect in this version");
        let kueues = problem("kueue.x-k8s.io/elastic-job", "true").expect("without equal");
        assert!(kueues.starts_with("has no effect in this version: "), "{kueues}");
    }
}
