//! Devices that a victim has come free with the real controller of claims: a moment after the
//! victim is gone, and nobody else leaves meanwhile. Extended resources that devices back are
//! claimed as kube-scheduler claims them, and a claim that a try left is made no obstacle.

use capstan_tests::cluster::{ControlPlane, GpuNodes, Options, name_of};
use serde_json::{Value, json};

use crate::scene::{class, cluster, cluster_with, create, running, wait_for};

const DRIVER: &str = "gpu.example.com";

/// A node's device.
fn slice(node: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "g0"}],
        },
    })
}

/// A pod with a claim that is made for it.
fn pod(name: &str, priority: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "capstan",
            "priorityClassName": priority,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            "containers": [{
                "name": "c",
                "image": "example/main",
                "resources": {"claims": [{"name": "gpu"}]},
            }],
        },
    })
}

/// Claims that have devices, each with the pool of its first one.
fn allocated(claims: &[Value]) -> Vec<(String, Value)> {
    let of = |claim: &Value| {
        let device = claim.pointer("/status/allocation/devices/results/0/pool")?;
        Some((name_of(claim).to_owned(), device.clone()))
    };
    claims.iter().filter_map(of).collect()
}

#[test]
fn a_preemptor_gets_the_device_of_the_one_victim_that_it_needs() {
    let cluster = cluster(&GpuNodes::new("h100", 2));
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let devices = json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]});
    let nodes = wait_for(&cluster, "nodes", "both are there", |nodes| nodes.len() == 2);
    let mut all: Vec<Value> = nodes.iter().map(|node| slice(name_of(node))).collect();
    all.extend([class("low", 1), class("lower", 0), class("high", 10)]);
    all.push(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]},
    }));
    all.push(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "default"}, "spec": {"spec": {"devices": devices}},
    }));
    create(&cluster, all);
    create(&cluster, vec![pod("victim", "lower"), pod("other", "low")]);
    wait_for(&cluster, "pods", "both run", |pods| running(pods, |_| true) == 2);
    let claims = wait_for(&cluster, "resourceclaims", "both have a device", |claims| {
        allocated(claims).len() == 2
    });
    let of_victim = allocated(&claims).into_iter().find(|(name, _)| name.starts_with("victim"));
    let (_, device) = of_victim.expect("it has one");

    create(&cluster, vec![pod("boss", "high")]);
    let pods = wait_for(&cluster, "pods", "the preemptor runs", |pods| {
        running(pods, |name| name == "boss") == 1
    });
    let mut names: Vec<&str> = pods.iter().map(name_of).collect();
    names.sort_unstable();
    assert_eq!(names, ["boss", "other"], "one victim, no more");
    assert_eq!(running(&pods, |_| true), 2);
    let claims =
        wait_for(&cluster, "resourceclaims", "what was made for the victim is gone", |all| {
            all.len() == 2
        });
    let of_boss = allocated(&claims).into_iter().find(|(name, _)| name.starts_with("boss"));
    assert_eq!(of_boss.map(|(_, pool)| pool), Some(device), "the device that came free");
}

/// A pod that asks for extended resources, in an init container and in two that run together.
fn plain(name: &str, scheduler: &str, priority: &str) -> Value {
    let container = |name: &str, count: u32| {
        json!({
            "name": name, "image": "example/main",
            "resources": {"limits": {"cpu": "1", "example.com/gpu": count}},
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": scheduler,
            "priorityClassName": priority,
            "initContainers": [container("before", 3)],
            "containers": [container("one", 1), container("two", 1)],
        },
    })
}

/// What a claim and the status of its pod say, but for names and times that are their own.
fn account(claim: &Value, pod: &Value) -> Value {
    let (meta, owner) = (&claim["metadata"], &claim["metadata"]["ownerReferences"][0]);
    assert_eq!(
        (&owner["name"], &owner["uid"]),
        (&pod["metadata"]["name"], &pod["metadata"]["uid"])
    );
    let status = &pod["status"]["extendedResourceClaimStatus"];
    assert_eq!(status["resourceClaimName"], meta["name"]);
    let by = json!([{"resource": "pods", "name": owner["name"], "uid": owner["uid"]}]);
    assert_eq!(claim["status"]["reservedFor"], by);
    let base = format!("{}-extended-resources-", name_of(pod));
    assert!(name_of(claim).starts_with(&base), "{claim}");
    assert_eq!(meta["generateName"], base.as_str());
    let mut allocation = claim["status"]["allocation"].clone();
    allocation["allocationTimestamp"].take();
    json!({
        "annotations": meta["annotations"],
        "controller": owner["controller"],
        "finalizers": meta["finalizers"],
        "spec": claim["spec"],
        "allocation": allocation,
        "mappings": status["requestMappings"],
    })
}

#[test]
fn extended_resources_are_claimed_as_kube_scheduler_claims_them() {
    let cluster = cluster_with(Options::full(), &GpuNodes::new("h100", 2));
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let nodes = wait_for(&cluster, "nodes", "both are there", |nodes| nodes.len() == 2);
    let mut devices = slice(name_of(&nodes[0]));
    devices["spec"]["devices"] = json!([{"name": "g0"}, {"name": "g1"}, {"name": "g2"}]);
    create(
        &cluster,
        vec![
            devices,
            class("low", 1),
            class("high", 10),
            json!({
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "gpu"},
                "spec": {
                    "extendedResourceName": "example.com/gpu",
                    "selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}],
                },
            }),
        ],
    );
    // Each scheduler in turn, with all devices for itself.
    let mut accounts = Vec::new();
    for (name, scheduler) in [("theirs", "default-scheduler"), ("ours", "capstan")] {
        create(&cluster, vec![plain(name, scheduler, "low")]);
        let pods = wait_for(&cluster, "pods", "it runs", |pods| running(pods, |_| true) == 1);
        let claims = wait_for(&cluster, "resourceclaims", "one", |all| all.len() == 1);
        assert_eq!(pods[0]["spec"]["nodeName"], nodes[0]["metadata"]["name"]);
        accounts.push(account(&claims[0], &pods[0]));
        if scheduler == "default-scheduler" {
            cluster.kubectl(&["delete", "pod", name]).expect("deleted");
            wait_for(&cluster, "resourceclaims", "its claim is gone", <[Value]>::is_empty);
        }
    }
    assert_eq!(accounts[1], accounts[0], "ours, and kube-scheduler's");

    // The devices of a victim come free, and its claim goes with it.
    create(&cluster, vec![plain("boss", "capstan", "high")]);
    wait_for(&cluster, "pods", "the preemptor runs", |pods| {
        pods.len() == 1 && running(pods, |name| name == "boss") == 1
    });
    let claims = wait_for(&cluster, "resourceclaims", "one is left", |all| all.len() == 1);
    assert!(name_of(&claims[0]).starts_with("boss-"), "{claims:?}");

    goes_on_after_a_crash(&cluster, &claims[0]);
}

/// What an earlier try left of a claim is deleted before the pod is placed.
fn goes_on_after_a_crash(cluster: &ControlPlane, claim: &Value) {
    cluster.kubectl(&["delete", "pod", "boss"]).expect("deleted");
    let mut again = plain("again", "capstan", "low");
    again["spec"]["schedulingGates"] = json!([{"name": "test.capstan.sh/wait"}]);
    create(cluster, vec![again]);
    let pods = wait_for(cluster, "pods", "it waits", |pods| {
        pods.len() == 1 && name_of(&pods[0]) == "again"
    });
    let mut left = claim.clone();
    left["metadata"] = json!({
        "name": "left", "namespace": "default",
        "annotations": left["metadata"]["annotations"],
        "finalizers": left["metadata"]["finalizers"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "again",
            "uid": pods[0]["metadata"]["uid"], "controller": true}],
    });
    create(cluster, vec![left]);
    wait_for(cluster, "resourceclaims", "what was left is gone", <[Value]>::is_empty);
    let no_gates = "--patch={\"spec\": {\"schedulingGates\": null}}";
    cluster.kubectl(&["patch", "pod", "again", "--type=merge", no_gates]).expect("patched");
    wait_for(cluster, "pods", "it runs", |pods| running(pods, |_| true) == 1);
    let claims = wait_for(cluster, "resourceclaims", "one is made", |all| all.len() == 1);
    assert!(name_of(&claims[0]).starts_with("again-"), "{claims:?}");
}

/// A device that a rule taints is given to nobody, and one that has to be made ready is waited for:
/// the API server takes what is written for it, and its pod is bound once its driver says so.
#[test]
fn tainted_devices_are_left_alone_and_slow_ones_waited_for() {
    let cluster = cluster(&GpuNodes::new("h100", 2));
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let nodes = wait_for(&cluster, "nodes", "both are there", |nodes| nodes.len() == 2);
    let mut all: Vec<Value> = nodes.iter().map(|node| slice(name_of(node))).collect();
    let (tainted, slow) = (name_of(&nodes[0]), name_of(&nodes[1]));
    let device = &mut all[1]["spec"]["devices"][0];
    device["bindsToNode"] = true.into();
    device["bindingConditions"] = json!(["Attached"]);
    device["bindingFailureConditions"] = json!(["Broken"]);
    all.extend([class("low", 1)]);
    all.push(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {},
    }));
    all.push(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule",
        "metadata": {"name": "maintenance"},
        "spec": {
            "deviceSelector": {"pool": tainted},
            "taint": {"key": "k", "effect": "NoSchedule"},
        },
    }));
    let devices = json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]});
    all.push(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"spec": {"devices": &devices}},
    }));
    create(&cluster, all);
    create(&cluster, vec![pod("patient", "low")]);
    let claims = wait_for(&cluster, "resourceclaims", "it has the slow device", |claims| {
        allocated(claims).iter().any(|(_, pool)| pool == slow)
    });
    let result = claims[0].pointer("/status/allocation/devices/results/0").expect("a result");
    let conditions = (&result["bindingConditions"], &result["bindingFailureConditions"]);
    assert_eq!(conditions, (&json!(["Attached"]), &json!(["Broken"])));
    let pods = cluster.list("pods").expect("listed");
    assert!(pods[0]["spec"]["nodeName"].is_null(), "bound before its device is ready: {pods:?}");
    // It fails first: the claim is given back, and gets its device anew.
    say(&cluster, &claims[0], json!({"devices": said("Broken", slow)}));
    wait_for(&cluster, "resourceclaims", "it is tried again", |claims| {
        allocated(claims).len() == 1 && claims[0]["status"]["devices"].is_null()
    });
    say(&cluster, &claims[0], json!({"devices": said("Attached", slow)}));
    wait_for(&cluster, "pods", "it runs", |pods| running(pods, |_| true) == 1);
    gives_back_what_failed_for_others(&cluster, slow, &devices);
}

/// What a driver says of the device of a pool.
fn said(of: &str, pool: &str) -> Value {
    json!([{
        "driver": DRIVER, "pool": pool, "device": "g0",
        "conditions": [{
            "type": of, "status": "True", "reason": "Cable", "message": "it is loose",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }])
}

/// Writes a part of a claim's status.
fn say(cluster: &ControlPlane, claim: &Value, status: Value) {
    let (claim, status) = (name_of(claim), json!({ "status": status }).to_string());
    let words = ["patch", "resourceclaim", claim, "--subresource=status", "--type=merge", "-p"];
    cluster.kubectl(&[&words[..], &[&status]].concat()).expect("patched");
}

/// A claim that somebody else allocated, whose device failed and which nobody has reserved, is
/// given back for the pod that needs it, and gets a device anew.
fn gives_back_what_failed_for_others(cluster: &ControlPlane, pool: &str, devices: &Value) {
    cluster.kubectl(&["delete", "pod", "patient"]).expect("deleted");
    wait_for(cluster, "resourceclaims", "its claim is gone", <[Value]>::is_empty);
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "left", "namespace": "default"}, "spec": {"devices": devices},
    });
    create(cluster, vec![claim.clone()]);
    let result = json!({
        "request": "r", "driver": DRIVER, "pool": pool, "device": "g0",
        "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"],
    });
    let allocation = json!({"devices": {"results": [result]}});
    say(cluster, &claim, json!({"allocation": allocation, "devices": said("Broken", pool)}));
    let mut heir = pod("heir", "low");
    heir["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "left"}]);
    create(cluster, vec![heir]);
    wait_for(cluster, "resourceclaims", "it is allocated anew", |claims| {
        let status = &claims[0]["status"];
        let by = status["reservedFor"][0]["name"] == "heir";
        by && allocated(claims).len() == 1 && status["devices"].is_null()
    });
    say(cluster, &claim, json!({"devices": said("Attached", pool)}));
    wait_for(cluster, "pods", "it runs", |pods| running(pods, |name| name == "heir") == 1);
}
