//! Quota of money, as `kubectl` shows it: what work costs where it runs, who waits for how much,
//! and that a new price is nobody's who runs already, over an end of Capstan either.

use capstan_tests::cluster::{ControlPlane, GpuNodes, name_of};
use serde_json::{Value, json};

use crate::scene::{Job, SOON, led, running, submit, wait_for};

const QUEUES: &str = "clusterqueues.capstan.sh";
const WORKLOADS: &str = "workloads.capstan.sh";

/// The queue's group, with so much money an hour.
fn may_use(cluster: &ControlPlane, usd: &str) {
    let amount = |name: &str, quota: &str| json!({"name": name, "nominalQuota": quota});
    let groups = json!([{
        "coveredResources": ["cpu", "memory", "nvidia.com/gpu", "capstan.sh/usd-per-hour"],
        "flavors": [{"name": "h100", "resources": [
            amount("cpu", "100k"),
            amount("memory", "1Pi"),
            amount("nvidia.com/gpu", "320"),
            amount("capstan.sh/usd-per-hour", usd),
        ]}],
    }]);
    let patch = json!({"spec": {"resourceGroups": groups}}).to_string();
    let words = ["patch", QUEUES, "gpus", "--type", "merge", "-p", &patch];
    cluster.kubectl(&words).expect("patched");
}

/// What the queue's column of money says.
fn shown(cluster: &ControlPlane) -> String {
    let queues = cluster.list(QUEUES).expect("queues");
    queues[0]["status"]["usdPerHour"].as_str().unwrap_or_default().to_owned()
}

fn price(cluster: &ControlPlane, usd: &str) {
    let note = format!("capstan.sh/price={usd}");
    let words = ["annotate", "nodes", "--all", "--overwrite", &note];
    cluster.kubectl(&words).expect("priced");
}

#[test]
fn money_an_hour_is_quota_and_a_new_price_is_for_the_next() {
    let (cluster, mut capstan) = led(&GpuNodes::new("h100", 1));
    // Four dollars an hour for each of its eight GPUs.
    price(&cluster, "32");
    may_use(&cluster, "20");
    let job = |name: &str, pods| Job { queue: Some("gpus"), ..Job::of("default", name, pods) };
    let runs = |pods: &[Value], name: &str| running(pods, |pod| pod.starts_with(name));
    submit(&cluster, &[job("first", 4)]);
    wait_for(&cluster, "pods", "the first runs", |pods| runs(pods, "first-") == 4);
    submit(&cluster, &[job("second", 2)]);
    let message = |all: &[Value]| {
        let second = all.iter().find(|it| name_of(it) == "second")?;
        let conditions = second["status"]["conditions"].as_array()?;
        let quota = conditions.iter().find(|it| it["type"] == "QuotaReserved")?;
        Some(quota["message"].as_str()?.to_owned())
    };
    let waits = "queue gpus has $4.00/h left, $8.00/h asked";
    wait_for(&cluster, WORKLOADS, "the second waits for money", |all| {
        message(all).is_some_and(|it| it.contains(waits))
    });
    let queues =
        wait_for(&cluster, QUEUES, "what is used is shown", |_| shown(&cluster) == "16.00/20.00");
    assert_eq!(queues.len(), 1);
    let table = cluster.kubectl(&["get", "cq"]).expect("a table");
    assert!(table.contains("$/H") && table.contains("16.00/20.00"), "{table}");

    // A new price holds for who comes, and not for who runs, whoever leads.
    price(&cluster, "64");
    assert_eq!(capstan.process.end(SOON).expect("it ends"), 0);
    let mut second = cluster.capstan("second", "").expect("started");
    second.wait_until(&cluster, "leading").expect("it leads");
    wait_for(&cluster, WORKLOADS, "it would cost twice as much", |all| {
        message(all).is_some_and(|it| it.contains("has $4.00/h left, $16.00/h asked"))
    });
    assert_eq!(shown(&cluster), "16.00/20.00");
    may_use(&cluster, "32");
    wait_for(&cluster, "pods", "both run", |pods| {
        (runs(pods, "first-"), runs(pods, "second-")) == (4, 2)
    });
    wait_for(&cluster, QUEUES, "each at its price", |_| shown(&cluster) == "32.00/32.00");
    assert!(second.process.runs(), "{}", second.process.trouble("ended"));
}
