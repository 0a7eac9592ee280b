//! What `kubectl get` makes of Capstan's kinds: short names, the category, columns, and the
//! status as a part of its own.

use capstan_tests::cluster::{ControlPlane, Options};
use serde_json::{Value, json};

use crate::setup::path;

/// A kind, its short names, its columns, and those that `-o wide` adds (Age stays the last).
struct Shown {
    plural: &'static str,
    short: &'static [&'static str],
    columns: &'static [&'static str],
    wide: &'static [&'static str],
    status: bool,
}

const SHOWN: [Shown; 7] = [
    Shown {
        plural: "workloads",
        short: &["wl"],
        columns: &[
            "NAME", "QUEUE", "PRIORITY", "STATE", "PODS", "GPUS", "$/H", "WAIT", "REASON", "AGE",
        ],
        wide: &["CLUSTERQUEUE", "POSITION", "FORECAST", "WAITED", "NODES", "PREEMPTOR"],
        status: true,
    },
    Shown {
        plural: "clusterqueues",
        short: &["cq"],
        columns: &["NAME", "COHORT", "PENDING WORKLOADS", "GPUS", "CPU", "$/H", "ACTIVE", "AGE"],
        wide: &["STRATEGY", "ADMITTED WORKLOADS", "MEMORY", "BUDGET", "REASON"],
        status: true,
    },
    Shown {
        plural: "localqueues",
        short: &["lq", "queue", "queues"],
        columns: &[
            "NAME",
            "CLUSTERQUEUE",
            "PENDING WORKLOADS",
            "ADMITTED WORKLOADS",
            "GPUS",
            "CPU",
            "$/H",
            "ACTIVE",
            "AGE",
        ],
        wide: &["REASON"],
        status: true,
    },
    Shown {
        plural: "cohorts",
        short: &["co"],
        columns: &["NAME", "PARENT", "ACTIVE", "AGE"],
        wide: &["REASON"],
        status: true,
    },
    Shown {
        plural: "resourceflavors",
        short: &["rf", "flavor", "flavors"],
        columns: &["NAME", "TOPOLOGY", "AGE"],
        wide: &[],
        status: false,
    },
    Shown {
        plural: "topologies",
        short: &["topo"],
        columns: &["NAME", "AGE"],
        wide: &[],
        status: false,
    },
    Shown {
        plural: "workloadpriorityclasses",
        short: &["wpc"],
        columns: &["NAME", "VALUE", "AGE"],
        wide: &[],
        status: false,
    },
];

/// One object of each kind, named `it`.
const OBJECTS: &str = include_str!("one-of-each.yaml");

/// The cells of a line, which kubectl sets at least three spaces apart.
fn cells(line: &str) -> Vec<&str> {
    line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

fn installed() -> ControlPlane {
    let cluster = ControlPlane::start(Options::bare()).expect("a control plane");
    cluster.kubectl(&["apply", "--server-side", "-f", &path("manifests/crds")]).expect("applied");
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.kubectl(&wait).expect("established");
    cluster.apply(OBJECTS).expect("applied");
    cluster
}

#[test]
fn short_names_the_category_and_columns_are_served() {
    let cluster = installed();
    for shown in SHOWN {
        for name in shown.short.iter().chain([&shown.plural]) {
            let said = cluster.kubectl(&["get", name, "--output", "name"]).expect(name);
            assert_eq!(said.trim(), format!("{}.capstan.sh/it", singular(shown.plural)), "{name}");
        }
        let header = |wide: &[&str]| {
            let words = [&["get", shown.plural][..], wide].concat();
            let said = cluster.kubectl(&words).expect("listed");
            cells(said.lines().next().unwrap_or_default())
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(header(&[]), shown.columns, "{}", shown.plural);
        let mut wide = header(&["--output", "wide"]);
        wide.retain(|column| !shown.columns.contains(&column.as_str()));
        assert_eq!(wide, shown.wide, "{}", shown.plural);
    }
    let mut all = cluster.kubectl(&["get", "capstan", "--output", "name"]).expect("a category");
    all = all.replace(".capstan.sh/it", "");
    let mut all: Vec<&str> = all.lines().collect();
    all.sort_unstable();
    let mut kinds: Vec<&str> = SHOWN.iter().map(|shown| singular(shown.plural)).collect();
    kinds.sort_unstable();
    assert_eq!(all, kinds);
    let help = cluster.kubectl(&["explain", "clusterqueue.spec.budget"]).expect("explained");
    assert!(help.contains("usd"), "{help}");
}

fn singular(plural: &'static str) -> &'static str {
    match plural {
        "topologies" => "topology",
        "workloadpriorityclasses" => "workloadpriorityclass",
        other => other.strip_suffix('s').expect("a plural"),
    }
}

#[test]
fn a_status_is_written_beside_the_spec_and_shown() {
    let cluster = installed();
    let patch = |kind: &str, status: bool, body: &Value| {
        let part = if status { "--subresource=status" } else { "--type=merge" };
        let patch = format!("--patch={body}");
        cluster.kubectl(&["patch", kind, "it", "--type=merge", part, &patch])
    };
    let read = |kind: &str| -> Value {
        let said = cluster.kubectl(&["get", kind, "it", "--output", "json"]).expect("it is there");
        serde_json::from_str(&said).expect("JSON")
    };
    for shown in SHOWN {
        let body = json!({"status": {"conditions": []}, "metadata": {"labels": {"a": "b"}}});
        if !shown.status {
            assert!(patch(shown.plural, true, &body).is_err(), "{}", shown.plural);
            continue;
        }
        let before = read(shown.plural);
        // A whole object changes nothing in the status, a status nothing in the spec.
        patch(shown.plural, false, &json!({"status": {"conditions": []}})).expect("patched");
        assert_eq!(read(shown.plural).get("status"), before.get("status"), "{}", shown.plural);
        let body = json!({"status": {"conditions": []}, "spec": {"stopPolicy": "Hold"}});
        patch(shown.plural, true, &body).expect("patched");
        let after = read(shown.plural);
        assert_eq!(after["status"]["conditions"], json!([]), "{}", shown.plural);
        assert_eq!(after["spec"], before["spec"], "{}", shown.plural);
    }
    let workload = json!({"status": {
        "state": "Queued", "pods": "0/4", "gpus": 32, "usdPerHour": "131.07",
        "reason": "WaitingForQuota", "waitingSince": "2026-03-02T09:00:00Z",
    }});
    patch("wl", true, &workload).expect("patched");
    let said = cluster.kubectl(&["get", "wl", "it"]).expect("shown");
    let row = cells(said.lines().nth(1).expect("a row"));
    let fixed = [&row[..7], &row[8..9]].concat();
    let wanted = ["it", "default", "1000", "Queued", "0/4", "32", "131.07", "WaitingForQuota"];
    assert_eq!(fixed, wanted, "{said}");
    assert!(row[7].ends_with('d'), "a wait since spring: {said}");
    let queue = json!({"status": {
        "gpus": "24/16", "cpu": "96/128", "usdPerHour": "65.59+", "pendingWorkloads": 3,
        "conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": "it",
            "lastTransitionTime": "2026-03-02T09:00:00Z"}],
    }});
    patch("cq", true, &queue).expect("patched");
    let said = cluster.kubectl(&["get", "cq", "it"]).expect("shown");
    let row = cells(said.lines().nth(1).expect("a row"));
    assert_eq!(row[..7], ["it", "all", "3", "24/16", "96/128", "65.59+", "True"], "{said}");
    // Kueue's commonest trap: here a queue without a selector is for every namespace.
    assert_eq!(read("cq")["spec"]["namespaceSelector"], json!({}));
}
