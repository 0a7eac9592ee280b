//! What nobody should do to a cluster, and somebody does: kinds that go and come back, annotations
//! and objects that mean nothing. Capstan keeps working, and says what it met.

use std::fs;

use capstan_tests::cluster::{Capstan, ControlPlane, GpuNodes, eventually};
use capstan_tests::exercise::KINDS_OF_KUEUE;
use serde_json::{Value, json};

use crate::scene::{Job, SOON, bare_gang, cluster, running, says, submit, wait_for};

/// A queue for all.
const QUEUE: &str = include_str!("one-queue.yaml");
/// Kinds of `capstan.sh` that are read: queues of both kinds, cohorts, flavors, priority classes
/// and topologies.
const WATCHED: usize = 6;
/// Objects without sense, and one queue with.
const NONSENSE: &str = include_str!("nonsense.yaml");
/// What is said of each of them.
const NAMED: [&str; 6] = [
    "ClusterQueue numbers: spec: 7, where an object is needed",
    "ClusterQueue words: spec.resourceGroups[0].flavors[0].resources[2].nominalQuota: \
     \"16 GPUs\" is no quantity",
    "ClusterQueue lists: spec.resourceGroups: an object, where a list is needed",
    "LocalQueue empty: spec.clusterQueue: a list, where a text is needed",
    "ResourceFlavor lists: spec.nodeLabels: a list, where an object is needed",
    "ResourceFlavor lists: spec.tolerations: \"never\", where a list is needed",
];

fn queued(name: &str, pods: u32) -> Job {
    Job { queue: Some("gpus"), ..Job::of("default", name, pods) }
}

fn run(cluster: &ControlPlane, prefix: &str, members: usize) {
    wait_for(cluster, "pods", &format!("{members} of {prefix} run"), |pods| {
        running(pods, |name| name.starts_with(prefix)) == members
    });
}

/// How often its log says of one of Capstan's kinds that it is not there.
fn unserved(capstan: &Capstan) -> usize {
    let log = fs::read_to_string(capstan.process.log()).unwrap_or_default();
    log.matches("watch: not served; it is read once it is").count()
}

#[test]
fn kinds_that_are_deleted_and_made_again_are_picked_up() {
    let cluster = cluster(&GpuNodes::new("h100", 6));
    cluster.apply(QUEUE).expect("applied");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    submit(&cluster, &[queued("before", 8)]);
    run(&cluster, "before-", 8);
    for again in 0..2 {
        let crds = cluster.kubectl(&["get", "crd", "-o", "name"]).expect("listed");
        let words: Vec<&str> = ["delete"].into_iter().chain(crds.lines()).collect();
        let before = unserved(&capstan);
        // Its work runs: it would stay, and its kind with it, until somebody lets it go.
        let queue = "clusterqueues.capstan.sh/gpus";
        cluster.kubectl(&["delete", queue, "--wait=false"]).expect("deleted");
        let free = r#"{"metadata":{"finalizers":null}}"#;
        cluster.kubectl(&["patch", queue, "--type", "merge", "-p", free]).expect("let go");
        cluster.kubectl(&words).expect("deleted");
        // Without any queue it is a plain gang scheduler, whatever label says which.
        eventually("it says so", SOON, || match unserved(&capstan) {
            now if now >= before + WATCHED => Ok(()),
            now => Err(format!("{now} lines, {before} before")),
        })
        .expect("said");
        let name = format!("between-{again}");
        submit(&cluster, &[Job::of("default", &name, 4)]);
        run(&cluster, &name, 4);
        run(&cluster, "before-", 8);
        cluster.install_crds().expect("installed");
        cluster.apply(QUEUE).expect("applied");
        let name = format!("after-{again}");
        submit(&cluster, &[queued(&name, 8)]);
        run(&cluster, &name, 8);
        let held = format!("{}/320", 8 + 8 * (again + 1));
        wait_for(&cluster, "clusterqueues.capstan.sh", "what ran before is counted", |queues| {
            queues.iter().any(|queue| queue["status"]["gpus"] == held)
        });
        wait_for(&cluster, "workloads.capstan.sh", "Workloads are there again", |all| {
            let runs = |it: &&Value| it["status"]["state"] == "Running";
            all.iter().filter(runs).count() == 1 + 2 * (again + 1)
        });
    }
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

/// More letters than the name of any object has.
const ENDLESS: &str = concat!(
    "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
    "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
    "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
    "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
);
/// A LocalQueue of this name may be, and no label has room for it.
const LONG: &str = "a-queue-with-a-name-of-seventy-letters-which-is-more-than-labels-admit";

/// Annotations that mean nothing, and what is said of each; the gang `odd-N` has the Nth.
const MALFORMED: [(&str, &str, &str); 11] = [
    ("min-member", "many", r#"capstan.sh/min-member: "many" is not a count above zero"#),
    ("min-member", "-3", r#"capstan.sh/min-member: "-3" is not a count above zero"#),
    ("required-topology", "{{}}", "topology level {{}} is unknown; known: "),
    ("expected-runtime", "soon", r#"capstan.sh/expected-runtime: "soon" is not a duration"#),
    ("capacity-types", "gold,,", r#"capstan.sh/capacity-types: "gold,," is not a list of spot, "#),
    ("price", "cheap", r#"capstan.sh/price: "cheap" is not a price"#),
    ("admitted-at", "yesterday", r#"capstan.sh/admitted-at: "yesterday" is not a time"#),
    ("flavors", "[1", r#"capstan.sh/flavors: "[1" is not a JSON map"#),
    ("preferred-topology", "rak", "preferred topology level rak is unknown"),
    ("queue", "GPUs_A", "LocalQueue default/GPUs_A does not exist"),
    ("priority-class", ENDLESS, "WorkloadPriorityClass ccccccccccccccccccccccccccccccccc"),
];
/// Those of them that are no mere wish: who requires what there is not has to wait.
const HELD: [usize; 2] = [2, 9];

/// Gangs with annotations that mean nothing.
fn malformed() -> Vec<Value> {
    let mut all = Vec::new();
    for (at, (key, value, _)) in MALFORMED.into_iter().enumerate() {
        for mut pod in bare_gang(&format!("odd-{at}"), 2) {
            pod["metadata"]["annotations"][format!("capstan.sh/{key}")] = json!(value);
            if key == "priority-class" {
                // Only queues ask for a class.
                pod["metadata"]["labels"]["capstan.sh/queue"] = json!("gpus");
            }
            all.push(pod);
        }
    }
    for mut pod in bare_gang("long", 2) {
        pod["metadata"]["annotations"]["capstan.sh/queue"] = json!(LONG);
        all.push(pod);
    }
    for mut pod in bare_gang("typo", 2) {
        pod["metadata"]["labels"]["capstan.sh/queue"] = json!("gpus");
        pod["metadata"]["labels"]["capstan.sh/priority-class"] = json!("hihg");
        all.push(pod);
    }
    all
}

#[test]
fn annotations_and_objects_without_sense_stop_nothing_and_are_named() {
    let cluster = cluster(&GpuNodes::new("h100", 6));
    cluster.apply(KINDS_OF_KUEUE).expect("applied");
    let words = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.kubectl(&words).expect("served");
    cluster.apply(QUEUE).expect("applied");
    cluster
        .apply(&QUEUE.replace("name: gpus, namespace", &format!("name: {LONG}, namespace")))
        .expect("applied");
    cluster.apply(NONSENSE).expect("applied");
    let config = "quotaApis: [capstan.sh, kueue.x-k8s.io]\n";
    let mut capstan = cluster.capstan("capstan-0", config).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": malformed()});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");
    submit(&cluster, &[queued("good", 8)]);
    run(&cluster, "good-", 8);
    // Ignored, not obeyed.
    for gang in (0..MALFORMED.len()).filter(|gang| !HELD.contains(gang)) {
        run(&cluster, &format!("odd-{gang}-"), 2);
    }
    run(&cluster, "typo-", 2);
    run(&cluster, "long-", 2);
    says(&capstan, &NAMED);
    let class = "WorkloadPriorityClass hihg does not exist";
    let ignored = MALFORMED.iter().enumerate().filter(|(gang, _)| !HELD.contains(gang));
    let ignored = ignored.map(|(gang, (.., says))| (format!("odd-{gang}"), *says));
    let said: Vec<(String, &str)> = ignored.chain([("typo".to_owned(), class)]).collect();
    wait_for(&cluster, "events", "each of them is named, on a pod of its gang", |events| {
        said.iter().all(|(gang, says)| {
            events.iter().any(|it| {
                let about = &it["involvedObject"];
                let pod = about["name"].as_str().and_then(|name| name.strip_prefix(&**gang));
                let message = it["message"].as_str().unwrap_or_default();
                let here = about["kind"] == "Pod" && pod.is_some_and(|it| it.starts_with('-'));
                here && message.contains(says)
            })
        })
    });
    // What no object can be called keeps nobody's Workload from being there.
    let names = (0..MALFORMED.len()).map(|gang| format!("odd-{gang}"));
    let names: Vec<String> = names.chain(["typo".to_owned(), "long".to_owned()]).collect();
    wait_for(&cluster, "workloads.capstan.sh", "all say that they run, or why not", |all| {
        names.iter().enumerate().all(|(gang, name)| {
            let Some(shown) = all.iter().find(|it| it["metadata"]["name"] == **name) else {
                return false;
            };
            let why = shown["status"]["reason"].as_str().unwrap_or_default();
            match HELD.contains(&gang) {
                true => why.contains(MALFORMED[gang].2),
                false => shown["status"]["state"] == "Running",
            }
        })
    });
    for held in HELD {
        run(&cluster, &format!("odd-{held}-"), 0);
    }
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
    // Mended while it runs, they count.
    let mended = NONSENSE.replace("\"16 GPUs\"", "16");
    cluster.apply(&mended).expect("applied");
    submit(&cluster, &[Job { queue: Some("words"), ..Job::of("default", "mended", 4) }]);
    run(&cluster, "mended-", 4);
}

/// A queue of 5 cpu, and pods that take some beside their containers.
const SANDBOXED: &str = include_str!("sandboxed.yaml");

#[test]
fn overhead_of_a_runtime_class_is_counted_before_there_are_pods() {
    let cluster = cluster(&GpuNodes::new("h100", 6));
    cluster.apply(SANDBOXED).expect("applied");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let mut job = Job { queue: Some("sandboxed"), ..Job::of("default", "kata", 2) }.manifest();
    job["spec"]["suspend"] = json!(true);
    job["spec"]["template"]["spec"]["runtimeClassName"] = json!("kata");
    cluster.kubectl_with(&["create", "-f", "-"], &job.to_string()).expect("created");
    // Twice 2 cpu would fit; twice 3 are never to be had.
    wait_for(&cluster, "workloads.capstan.sh", "overhead is counted", |all| {
        let says = all.iter().map(|it| it["status"]["conditions"].to_string());
        all.len() == 1 && says.into_iter().all(|says| says.contains("more than 5 cpu, 6 asked"))
    });
    cluster.apply(&SANDBOXED.replace("cpu: 1}", "cpu: 500m}")).expect("applied");
    run(&cluster, "kata-", 2);
    wait_for(
        &cluster,
        "clusterqueues.capstan.sh",
        "its pods hold what it was admitted with",
        |all| {
            let usage = all[0]["status"]["flavorsUsage"].to_string();
            usage.contains(r#""total":"5""#) && !usage.contains("borrowed\":\"1")
        },
    );
}
