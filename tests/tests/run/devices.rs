//! Devices that a victim has come free with the real controller of claims: a moment after the
//! victim is gone, and nobody else leaves meanwhile.

use capstan_tests::cluster::{GpuNodes, name_of};
use serde_json::{Value, json};

use crate::scene::{cluster, running, wait_for};

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
    let create = |items: Vec<Value>| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");
    };
    let class = |name: &str, value: i32| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value,
        })
    };
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
    create(all);
    create(vec![pod("victim", "lower"), pod("other", "low")]);
    wait_for(&cluster, "pods", "both run", |pods| running(pods, |_| true) == 2);
    let claims = wait_for(&cluster, "resourceclaims", "both have a device", |claims| {
        allocated(claims).len() == 2
    });
    let of_victim = allocated(&claims).into_iter().find(|(name, _)| name.starts_with("victim"));
    let (_, device) = of_victim.expect("it has one");

    create(vec![pod("boss", "high")]);
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
