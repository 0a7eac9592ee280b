//! Labels and annotations of Kueue that have no equal here.
//!
//! Decides which of them ask for something that nobody will get, by their value too, and what
//! happens instead: whoever moves must not find that out from work that starts when it should
//! not. Kueue's own bookkeeping on pods, and what is the rule here anyway, is not among them.

/// What Kueue's keys begin with.
pub const PREFIX: &str = "kueue.x-k8s.io/";

/// Parameters of ProvisioningRequests, which are not made here.
const PROVISIONING: &str = "provreq.kueue.x-k8s.io/";

/// What jobs say in `managedBy` whose pods are made in another cluster.
pub const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";

/// What happens to such a job instead.
pub const MADE_ELSEWHERE: &str = "no work is sent to other clusters, and here no controller makes \
    its pods while it says so: it has to be made anew without managedBy";

/// When a key asks for something.
enum Asks {
    /// Whatever it says.
    Always,
    /// Where it says `true`.
    IfTrue,
    /// Where it says `false`.
    IfFalse,
    /// Where it says anything but `0`.
    UnlessZero,
}

/// Keys without [`PREFIX`], when they ask for something, and what happens instead.
const KEYS: [(&str, Asks, &str); 12] = [
    (
        "podset-slice-required-topology-constraints",
        Asks::Always,
        "slices have one level (kueue.x-k8s.io/podset-slice-required-topology with \
         podset-slice-size)",
    ),
    (
        "pod-group-fast-admission",
        Asks::IfTrue,
        "a group waits until all its pods exist, but for those that an owner is known to make \
         once others run; others that are made so must not be counted in its total",
    ),
    ("pod-group-serving", Asks::IfTrue, "a group is finished once all its pods have ended"),
    (
        "retriable-in-group",
        Asks::IfFalse,
        "what a pod that failed held is kept for another in its place while others of its group \
         run",
    ),
    (
        "priority-boost",
        Asks::UnlessZero,
        "priority is that of the class alone (capstan.sh/priority-class)",
    ),
    (
        "elastic-job",
        Asks::IfTrue,
        "what runs stays, and what is added joins it when there is quota and room",
    ),
    (
        "job-completions-equal-parallelism",
        Asks::IfTrue,
        "completions and parallelism stay as they are: pods that do not start with the others \
         join them once there are quota and room",
    ),
    ("prebuilt-workload-name", Asks::Always, "a workload is made from pods and owners alone"),
    ("admission-gated-by", Asks::Always, "nothing but suspension and gates of pods is waited for"),
    (
        "wait-for-pods-ready",
        Asks::Always,
        "how long pods may take is said for all work, by waitForPodsReady of the configuration",
    ),
    ("safe-to-forcefully-delete", Asks::IfTrue, HANGS),
    // What Kueue called it before.
    ("safe-to-forcefully-terminate", Asks::IfTrue, HANGS),
];

/// What becomes of pods on nodes that are lost.
const HANGS: &str =
    "a pod that hangs on a lost node holds its quota until somebody deletes it by force";

/// What is lost with a key of this value, if anything.
pub fn lost(key: &str, value: &str) -> Option<&'static str> {
    let name = key.strip_prefix(PREFIX)?;
    let (_, asks, instead) = KEYS.iter().find(|(known, ..)| *known == name)?;
    let asked = match asks {
        Asks::Always => true,
        Asks::IfTrue => value == "true",
        Asks::IfFalse => value == "false",
        Asks::UnlessZero => value.trim() != "0",
    };
    asked.then_some(*instead)
}

/// The same of what is read for checks on admission only, which nobody here waits for.
pub fn lost_with_checks(key: &str) -> Option<&'static str> {
    key.starts_with(PROVISIONING).then_some("no nodes are asked for by ProvisioningRequest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_asks_for_nothing_loses_nothing() {
        let key = |name: &str| format!("{PREFIX}{name}");
        for (name, none, some) in [
            ("elastic-job", "false", "true"),
            ("pod-group-fast-admission", "", "true"),
            ("priority-boost", "0", "-60"),
            ("retriable-in-group", "true", "false"),
            ("safe-to-forcefully-delete", "false", "true"),
            ("safe-to-forcefully-terminate", "false", "true"),
        ] {
            assert_eq!(lost(&key(name), none), None, "{name}");
            assert!(lost(&key(name), some).is_some(), "{name}");
        }
        assert!(lost(&key("prebuilt-workload-name"), "").is_some());
        assert!(lost(&key("wait-for-pods-ready"), r#"{"timeoutSeconds": 30}"#).is_some());
    }

    #[test]
    fn what_is_read_or_bookkeeping_is_not_lost() {
        for key in [
            "kueue.x-k8s.io/queue-name",
            "kueue.x-k8s.io/podset-group-name",
            "kueue.x-k8s.io/pod-group-pod-index",
            "kueue.x-k8s.io/pod-group-pod-index-label",
            "kueue.x-k8s.io/podset-slice-required-topology",
            "kueue.x-k8s.io/podset-unconstrained-topology",
            "kueue.x-k8s.io/managed",
            "capstan.sh/elastic-job",
        ] {
            assert_eq!(lost(key, "true"), None, "{key}");
        }
        assert_eq!(lost_with_checks("kueue.x-k8s.io/elastic-job"), None);
        assert!(lost_with_checks("provreq.kueue.x-k8s.io/maxRunDurationSeconds").is_some());
    }
}
