//! What pods want of nodes by themselves: taints, labels, ports, resources, features.

use capstan_tests::seed::Seed;
use serde_json::{Value, json};

use super::nodes::{REGION, ZONE};
use super::one_in;
use crate::case::HEAVY;

/// Adds a wish.
pub fn wish(seed: &mut Seed, nodes: &[String], pod: &mut Value) {
    match seed.below(14) {
        0..=3 => pod["spec"]["tolerations"] = tolerations(seed),
        4 => pod["spec"]["nodeSelector"] = labels(seed),
        5 | 6 => nodes_required(seed, nodes, pod),
        7..=9 => ports(seed, pod),
        10 | 11 => resources(seed, pod),
        _ => features(seed, pod),
    }
}

/// What a pod with a place holds.
pub fn held(seed: &mut Seed, pod: &mut Value, ported: &mut Vec<String>) {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    match seed.below(6) {
        0..=2 if !ported.contains(&node) => {
            ports(seed, pod);
            ported.push(node);
        }
        3 => resources(seed, pod),
        4 | 5 => resized(seed, pod),
        _ => {}
    }
}

fn tolerations(seed: &mut Seed) -> Value {
    let effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
    let one = |seed: &mut Seed| {
        let effect = *seed.pick(&effects);
        let key = *seed.pick(&["dedicated", "gpu", "old"]);
        match seed.below(9) {
            0 => json!({"operator": "Exists"}),
            1 => json!({"key": key, "operator": "Exists"}),
            2 => json!({"key": "dedicated", "operator": "Equal", "value": seed.pick(&["a", "b"])}),
            3 => json!({"key": "old", "value": seed.pick(&["yes", "no"]), "effect": effect}),
            4 => json!({"key": key, "operator": "Exists", "effect": effect}),
            5 => json!({"operator": "Exists", "effect": effect}),
            6 => json!({"key": "gpu", "value": ""}),
            7 => json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0,
            }),
            _ => {
                let cordon = "node.kubernetes.io/unschedulable";
                match seed.below(3) {
                    0 => json!({"key": cordon, "operator": "Exists"}),
                    1 => json!({"key": cordon, "effect": "NoSchedule"}),
                    _ => json!({"key": cordon, "operator": "Exists", "effect": "NoExecute"}),
                }
            }
        }
    };
    let count = seed.between(1, 3);
    json!((0..count).map(|_| one(seed)).collect::<Vec<Value>>())
}

fn labels(seed: &mut Seed) -> Value {
    match seed.below(4) {
        0 => json!({"disk": "ssd"}),
        1 => json!({ZONE: seed.pick(&["z1", "z2"])}),
        2 => json!({"disk": "hdd", REGION: "r1"}),
        _ => json!({"disk": ""}),
    }
}

/// An affinity to nodes.
fn nodes_required(seed: &mut Seed, nodes: &[String], pod: &mut Value) {
    let count = seed.between(1, 2);
    let terms: Vec<Value> = (0..count).map(|_| term(seed, nodes)).collect();
    let required = json!({"nodeSelectorTerms": terms});
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        required;
}

fn term(seed: &mut Seed, nodes: &[String]) -> Value {
    let mut term = json!({});
    let kind = seed.below(10);
    if kind < 8 {
        let count = seed.between(1, 2);
        let all: Vec<Value> = (0..count).map(|_| expression(seed)).collect();
        term["matchExpressions"] = json!(all);
    }
    if kind == 0 || kind == 8 {
        let (operator, node) = (seed.pick(&["In", "NotIn"]), seed.pick(nodes));
        term["matchFields"] =
            json!([{"key": "metadata.name", "operator": operator, "values": [node]}]);
    }
    term
}

fn expression(seed: &mut Seed) -> Value {
    let number = *seed.pick(&["2", "4", "5", "04"]);
    match seed.below(8) {
        0 => json!({"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}),
        1 => json!({"key": "disk", "operator": "NotIn", "values": ["hdd"]}),
        2 => json!({"key": "rack", "operator": "Exists"}),
        3 => json!({"key": "rack", "operator": "DoesNotExist"}),
        4 | 5 => json!({"key": "generation", "operator": "Gt", "values": [number]}),
        6 => json!({"key": "generation", "operator": "Lt", "values": [number]}),
        _ => json!({"key": ZONE, "operator": "In", "values": ["z1", "z2"]}),
    }
}

/// Ports of the host, of a container or a sidecar; an init container's do not count.
fn ports(seed: &mut Seed, pod: &mut Value) {
    let number = *seed.pick(&[8_080, 8_080, 8_080, 8_081]);
    let protocol = *seed.pick(&["TCP", "TCP", "TCP", "UDP"]);
    let mut port = json!({"containerPort": number, "protocol": protocol});
    let address = *seed.pick(&["", "", "", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::"]);
    let spec = &mut pod["spec"];
    if one_in(seed, 5) {
        // Where nothing else is said, each port of the container is one of the host.
        spec["hostNetwork"] = json!(true);
    } else {
        port["hostPort"] = json!(number);
        if !address.is_empty() {
            port["hostIP"] = json!(address);
        }
    }
    match seed.below(5) {
        0 => spec["initContainers"] = json!([container("side", Some("Always"), port)]),
        1 => spec["initContainers"] = json!([container("first", None, port)]),
        _ => spec["containers"][0]["ports"] = json!([port]),
    }
}

fn container(name: &str, restart: Option<&str>, port: Value) -> Value {
    let mut container = json!({"name": name, "image": "example/other", "ports": [port]});
    if let Some(restart) = restart {
        container["restartPolicy"] = json!(restart);
    }
    container
}

/// Requests of every kind that counts.
fn resources(seed: &mut Seed, pod: &mut Value) {
    let spec = &mut pod["spec"];
    let much = *seed.pick(&["300m", "700m", "1200m", "1900m"]);
    let memory = *seed.pick(&["100Mi", "300Mi", "900Mi"]);
    // No container may ask for more than the pod as a whole.
    let whole = *seed.pick(&["2100m", "3"]);
    let first = json!({"requests": {"cpu": much, "memory": memory}});
    let small = json!({"requests": {"cpu": "200m"}});
    let image = "example/other";
    let container =
        |name: &str, asks: &Value| json!({"name": name, "image": image, "resources": asks});
    let side = |name: &str, asks: &Value| {
        let mut side = container(name, asks);
        side["restartPolicy"] = json!("Always");
        side
    };
    match seed.below(11) {
        0 => spec["containers"][0]["resources"] = first,
        1 => spec["initContainers"] = json!([container("first", &first)]),
        2 => spec["initContainers"] = json!([side("side", &small), container("then", &first)]),
        3 => spec["initContainers"] = json!([container("first", &first), side("side", &small)]),
        4 => spec["runtimeClassName"] = json!(HEAVY),
        5 => spec["resources"] = json!({"requests": {"cpu": whole, "memory": "1000Mi"}}),
        6 => spec["resources"] = json!({"limits": {"cpu": whole, "memory": "1000Mi"}}),
        7 => {
            let gpus = *seed.pick(&["0", "1", "2"]);
            let name = *seed.pick(&["example.com/gpu", "example.com/gpu", "example.com/none"]);
            spec["containers"][0]["resources"]["limits"][name] = json!(gpus);
        }
        8 => {
            let much = *seed.pick(&["500Mi", "2Gi"]);
            spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] = json!(much);
        }
        9 => {
            let pages = *seed.pick(&["32Mi", "66Mi"]);
            spec["containers"][0]["resources"]["limits"]["hugepages-2Mi"] = json!(pages);
        }
        _ => {
            let zero = json!({"requests": {"cpu": "0", "memory": "0"}});
            spec["containers"][0]["resources"] = zero;
        }
    }
}

/// A pod of which something is being resized, or will not be: a container or two, one that starts
/// before them, the pod as a whole. Statuses say all of it, half, or nothing.
fn resized(seed: &mut Seed, pod: &mut Value) {
    let spec = &mut pod["spec"];
    let asks = |seed: &mut Seed| json!({"requests": amounts(seed)});
    spec["containers"][0]["resources"] = asks(seed);
    let mut main = vec![status_of(seed, "main")];
    if one_in(seed, 2) {
        let other = json!({"name": "other", "image": "example/other", "resources": asks(seed)});
        spec["containers"].as_array_mut().expect("a list").push(other);
        main.push(status_of(seed, "other"));
    }
    let mut init = Vec::new();
    if one_in(seed, 2) {
        let mut first = json!({"name": "first", "image": "example/other", "resources": asks(seed)});
        if one_in(seed, 2) {
            first["restartPolicy"] = json!("Always");
        }
        spec["initContainers"] = json!([first]);
        init.push(status_of(seed, "first"));
    }
    if one_in(seed, 4) {
        // No container may ask for more than the pod as a whole, nor all of them together.
        let whole = *seed.pick(&["1300m", "1500m"]);
        spec["resources"] = json!({"requests": {"cpu": whole, "memory": "100Mi"}});
    }
    let mut status = json!({
        "phase": "Running", "containerStatuses": main, "initContainerStatuses": init,
    });
    if one_in(seed, 3) {
        status["resources"] = json!({"requests": amounts(seed)});
    }
    if one_in(seed, 3) {
        status["allocatedResources"] = amounts(seed);
    }
    if one_in(seed, 2) {
        status["conditions"] = json!([{
            "type": "PodResizePending", "status": "True",
            "reason": seed.pick(&["Infeasible", "Deferred"]),
        }]);
    }
    pod["status"] = status;
}

fn amounts(seed: &mut Seed) -> Value {
    json!({"cpu": seed.pick(&["50m", "200m", "400m"]), "memory": "16Mi"})
}

/// What the kubelet says of a container.
fn status_of(seed: &mut Seed, name: &str) -> Value {
    let mut status = json!({
        "name": name, "image": "example/main", "imageID": "", "ready": true, "restartCount": 0,
    });
    let (allocated, actual) = (amounts(seed), amounts(seed));
    let says = seed.below(6);
    if says != 0 && says != 1 {
        status["allocatedResources"] = allocated;
    }
    if says != 0 && says != 2 {
        status["resources"] = json!({"requests": actual});
    }
    status
}

/// What kubelets have to declare.
fn features(seed: &mut Seed, pod: &mut Value) {
    let spec = &mut pod["spec"];
    if one_in(seed, 3) {
        spec["hostNetwork"] = json!(true);
        spec["hostUsers"] = json!(false);
        return;
    }
    let action = *seed.pick(&["RestartAllContainers", "RestartAllContainers", "Restart"]);
    spec["containers"][0]["restartPolicy"] = json!("Never");
    spec["containers"][0]["restartPolicyRules"] =
        json!([{"action": action, "exitCodes": {"operator": "In", "values": [42]}}]);
}
