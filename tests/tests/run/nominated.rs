//! Who leaves while a PodDisruptionBudget guards another, and what the preemptor shows until then.

use capstan_tests::cluster::{GpuNodes, is_true, name_of};
use serde_json::{Value, json};

use crate::scene::{class, cluster, create, running, wait_for};

/// Keeps a pod that is being deleted until the test has looked.
const HOLD: &str = "tests.capstan.sh/hold";

/// A pod that takes all GPUs of a node.
fn pod(name: &str, priority: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": name},
            "finalizers": finalizers,
        },
        "spec": {
            "schedulerName": "capstan",
            "priorityClassName": priority,
            "containers": [{
                "name": "c",
                "image": "example/main",
                "resources": {"limits": {"nvidia.com/gpu": 8}},
            }],
        },
    })
}

fn budget(app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    })
}

fn named<'a>(pods: &'a [Value], name: &str) -> Option<&'a Value> {
    pods.iter().find(|pod| name_of(pod) == name)
}

/// Two nodes are full. The less important of the two pods there is guarded by a budget that its
/// controller keeps, so the other one leaves; until it is gone the preemptor names its node.
#[test]
fn the_preemptor_names_the_node_of_a_victim_that_no_budget_guards() {
    let cluster = cluster(&GpuNodes::new("h100", 2));
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    create(
        &cluster,
        vec![class("least", 1), class("less", 2), class("most", 3), budget("guarded")],
    );
    create(&cluster, vec![pod("guarded", "least", &[]), pod("plain", "less", &[HOLD])]);
    let pods = wait_for(&cluster, "pods", "both run", |pods| running(pods, |_| true) == 2);
    let node = named(&pods, "plain").map(|pod| pod["spec"]["nodeName"].clone()).expect("there");
    wait_for(&cluster, "poddisruptionbudgets", "its controller has spoken", |budgets| {
        budgets.iter().any(|budget| budget["status"]["expectedPods"] == 1)
    });

    create(&cluster, vec![pod("boss", "most", &[])]);
    let pods = wait_for(&cluster, "pods", "the preemptor names a node", |pods| {
        named(pods, "boss").is_some_and(|boss| !boss["status"]["nominatedNodeName"].is_null())
    });
    let boss = named(&pods, "boss").expect("there");
    assert_eq!(boss["status"]["nominatedNodeName"], node, "that of who leaves");
    assert!(boss["spec"]["nodeName"].is_null(), "nobody is bound before there is room");
    let leaves = |name: &str| {
        named(&pods, name).is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    };
    assert_eq!((leaves("plain"), leaves("guarded")), (true, false));
    says_why(named(&pods, "plain").expect("there"));

    // Nobody of its own rank takes the room that comes free for it.
    let mut quiet = class("quiet", 3);
    quiet["preemptionPolicy"] = json!("Never");
    create(&cluster, vec![quiet]);
    create(&cluster, vec![pod("rival", "quiet", &[])]);
    wait_for(&cluster, "pods", "the rival was looked at", |pods| {
        named(pods, "rival").is_some_and(|rival| is_false(rival, "PodScheduled").is_some())
    });

    let release = r#"{"metadata": {"finalizers": null}}"#;
    cluster.kubectl(&["patch", "pod", "plain", "--type=merge", "-p", release]).expect("released");
    let pods = wait_for(&cluster, "pods", "the preemptor runs", |pods| {
        running(pods, |name| name == "boss") == 1
    });
    let boss = named(&pods, "boss").expect("there");
    assert_eq!(boss["spec"]["nodeName"], node);
    assert!(boss["status"]["nominatedNodeName"].is_null(), "it has a node: {boss}");
    assert_eq!(running(&pods, |name| name == "guarded"), 1);
    let rival = named(&pods, "rival").expect("there");
    assert!(rival["spec"]["nodeName"].is_null(), "it was not for the rival: {rival}");
}

/// A pod that is stopped says for whom, and as what others know not to count as its failure.
fn says_why(victim: &Value) {
    assert_eq!(is_true(victim, "DisruptionTarget"), Some("PreemptionByScheduler"));
    let notes = &victim["metadata"]["annotations"];
    assert_eq!(notes["capstan.sh/preempted-by"], "default/boss", "{notes}");
    assert_eq!(notes["capstan.sh/preemption-reason"], "Priority", "{notes}");
}

fn is_false<'a>(pod: &'a Value, condition: &str) -> Option<&'a Value> {
    let conditions = pod["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == condition && it["status"] == "False")
}
