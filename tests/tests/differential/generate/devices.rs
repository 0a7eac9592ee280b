//! Devices: classes, pools of every kind, claims that have some and claims that want some, and
//! extended resources that devices back where nodes have none themselves.

use capstan_tests::seed::Seed;
use serde_json::{Value, json};

use super::nodes::ZONE;
use super::{Theme, one_in};
use crate::case::{Draft, Made, NAMESPACES};

/// Who drives all devices.
const DRIVER: &str = "gpu.example.com";
/// Claims in each case.
const CLAIMS: usize = 12;

/// Devices and claims that there are.
#[derive(Default)]
pub struct Stock {
    /// All objects.
    pub objects: Vec<Value>,
    claims: Vec<Claim>,
    /// Devices that no claim has yet, by node: name, and whether several may share it.
    free: Vec<(String, String, bool)>,
}

/// A claim that pods may use, and that has devices or wants some.
#[derive(Clone, PartialEq, Eq)]
struct Claim {
    namespace: &'static str,
    name: String,
    deleting: bool,
}

impl Stock {
    /// What there is on these nodes.
    pub fn new(seed: &mut Seed, theme: Theme, nodes: &[String]) -> Stock {
        let mut stock = Stock::default();
        if !theme.has(Theme::Devices) {
            return stock;
        }
        stock.objects = classes(seed);
        for node in nodes {
            stock.pool(seed, node);
        }
        if one_in(seed, 2) {
            stock.objects.push(wide(seed, nodes));
        }
        for at in 0..CLAIMS {
            let name = format!("d{at}");
            let namespace = seed.pick(&NAMESPACES).0;
            let mut claim = json!({
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"devices": wants(seed, namespace)},
            });
            let deleting = one_in(seed, 25);
            if deleting {
                claim["metadata"]["finalizers"] = json!(["example.com/hold"]);
                claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            stock.objects.push(claim);
            stock.claims.push(Claim { namespace, name, deleting });
        }
        stock
    }

    /// The devices of a node: plain, partitions of a larger one, or shared.
    fn pool(&mut self, seed: &mut Seed, node: &str) {
        let kind = seed.below(5);
        let count = seed.between(1, 4);
        let mut devices: Vec<Value> =
            (0..count).map(|at| device(seed, &format!("g{at}"))).collect();
        let mut slices = 1;
        match kind {
            2 => {
                devices.iter_mut().for_each(|one| partition(seed, one));
                slices = 2;
            }
            3 => devices.iter_mut().for_each(|one| share(seed, one)),
            _ => {}
        }
        let names = devices.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned());
        if kind != 2 {
            let free: Vec<_> = names.map(|name| (node.to_owned(), name, kind == 3)).collect();
            self.free.extend(free);
        }
        let whole = !one_in(seed, 12);
        let pool = json!({
            "name": node,
            "generation": 2,
            "resourceSliceCount": if whole { slices } else { slices + 1 },
        });
        let name = format!("s-{node}");
        let mut slice = slice(&name, &pool);
        slice["spec"]["nodeName"] = json!(node);
        slice["spec"]["devices"] = json!(devices);
        self.objects.push(slice.clone());
        if kind == 2 {
            slice["metadata"]["name"] = json!(format!("{name}-counters"));
            let value = *seed.pick(&["40Gi", "80Gi"]);
            slice["spec"].as_object_mut().expect("a spec").remove("devices");
            slice["spec"]["sharedCounters"] =
                json!([{"name": "whole", "counters": {"memory": {"value": value}}}]);
            self.objects.push(slice);
        } else if one_in(seed, 10) {
            // What is left of an earlier generation.
            slice["metadata"]["name"] = json!(format!("{name}-old"));
            slice["spec"]["pool"]["generation"] = json!(1);
            slice["spec"]["devices"] = json!([device(seed, "gone")]);
            self.objects.push(slice);
        }
    }

    /// What a pod with a place has.
    pub fn held(&mut self, seed: &mut Seed, pod: &mut Value, node: &str) {
        if one_in(seed, 3) {
            return;
        }
        let Some(at) = self.free.iter().position(|(on, ..)| on == node) else { return };
        let (_, device, shared) = self.free[at].clone();
        if !shared {
            self.free.remove(at);
        }
        let special = one_in(seed, 4);
        let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
        let claim = format!("h-{}", name.as_str().unwrap_or_default());
        let mut result =
            json!({"request": "some", "driver": DRIVER, "pool": node, "device": device});
        if shared {
            // One id for each pod.
            let number = seed.below(1_000_000_000_000);
            result["shareID"] = json!(format!("00000000-0000-4000-8000-{number:012}"));
            result["consumedCapacity"] = json!({"memory": seed.pick(&["10Gi", "20Gi"])});
        }
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
        self.objects.push(json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": claim, "namespace": pod["metadata"]["namespace"]},
            "spec": {"devices": {"requests": [
                {"name": "some", "exactly": {"deviceClassName": "any"}},
            ]}},
            "status": {
                "allocation": {
                    "devices": {"results": [result]},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
                    "allocationTimestamp": "2026-01-01T00:00:00Z",
                },
                "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
            },
        }));
        if special {
            return self.held_special(pod, &claim);
        }
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let namespace = NAMESPACES.iter().find(|it| it.0 == namespace).expect("one of ours").0;
        // Others may share it.
        if one_in(seed, 2) {
            self.claims.push(Claim { namespace, name: claim.clone(), deleting: false });
        }
        pod["spec"]["resourceClaims"] = json!([{"name": "some", "resourceClaimName": claim}]);
    }

    /// Makes the last claim one that a scheduler made for a pod's extended resources.
    fn held_special(&mut self, pod: &mut Value, claim: &str) {
        let meta = &pod["metadata"];
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": meta["name"],
            "uid": meta["uid"], "controller": true});
        let object = self.objects.last_mut().expect("a claim");
        object["metadata"]["annotations"] = json!({SPECIAL: "true"});
        object["metadata"]["ownerReferences"] = json!([owner]);
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({EXTENDED: "1"});
        let mapping =
            json!({"containerName": "main", "resourceName": EXTENDED, "requestName": "some"});
        pod["status"]["extendedResourceClaimStatus"] =
            json!({"resourceClaimName": claim, "requestMappings": [mapping]});
    }

    /// Adds a wish.
    pub fn wish(&self, seed: &mut Seed, draft: &mut Draft) {
        let pod = &mut draft.pod;
        let spec = pod["spec"].as_object_mut().expect("a spec");
        if one_in(seed, 3) {
            // kube-scheduler makes an empty claim, and fails, where a node has the resource itself
            // and the pod has claims besides.
            if spec.remove("resourceClaims").is_some() {
                (draft.unready, draft.made) = (false, Vec::new());
                draft.begun &= spec.contains_key("volumes");
            }
            return extended(seed, pod);
        }
        spec.remove("initContainers");
        spec["containers"].as_array_mut().expect("a list").truncate(1);
        if let Some(limits) = spec["containers"][0]["resources"]["limits"].as_object_mut() {
            limits.retain(|name, _| !BACKED.contains(&name.as_str()));
        }
        if one_in(seed, 5) {
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            let spec = json!({"devices": wants(seed, namespace)});
            let claim = json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec,
            });
            let foreign = one_in(seed, 12);
            draft.unready |= foreign;
            draft.made.retain(|it| it.name != "made");
            draft.made.push(Made { name: "made".to_owned(), claim, foreign });
            pod["spec"]["resourceClaims"] =
                json!([{"name": "made", "resourceClaimTemplateName": "template"}]);
            return;
        }
        let first = seed.pick(&self.claims);
        let near: Vec<&Claim> =
            self.claims.iter().filter(|it| it.namespace == first.namespace).collect();
        let other = *seed.pick(&near);
        let mut claims = vec![json!({"name": "first", "resourceClaimName": first.name})];
        draft.unready |= first.deleting;
        if one_in(seed, 3) && other != first {
            claims.push(json!({"name": "second", "resourceClaimName": other.name}));
            draft.unready |= other.deleting;
        }
        if one_in(seed, 40) {
            claims[0]["resourceClaimName"] = json!("missing");
            draft.unready = true;
        }
        // What was made for a pod stays in its namespace.
        draft.made.clear();
        if pod["spec"]["volumes"].is_array() {
            pod["spec"]["volumes"] = json!([]);
            draft.begun = false;
        }
        pod["metadata"]["namespace"] = json!(first.namespace);
        pod["spec"]["resourceClaims"] = json!(claims);
    }
}

/// The extended resource that some nodes have, and a class backs where there is one.
const EXTENDED: &str = "example.com/gpu";
/// All that a class may back.
const BACKED: [&str; 2] = [EXTENDED, "deviceclass.resource.kubernetes.io/any"];
/// Says of a claim that a scheduler made it for a pod's extended resources.
pub const SPECIAL: &str = "resource.kubernetes.io/extended-resource-claim";

/// Containers that ask for extended resources.
fn extended(seed: &mut Seed, pod: &mut Value) {
    let spec = &mut pod["spec"];
    let limits = &mut spec["containers"][0]["resources"]["limits"];
    let more = one_in(seed, 4);
    if one_in(seed, 5) {
        limits[BACKED[1]] = json!("1");
    }
    if !more || one_in(seed, 2) {
        limits[EXTENDED] = json!(seed.pick(&["1", "1", "1", "2"]));
    }
    let container = |seed: &mut Seed, name: &str| {
        let amount = *seed.pick(&["1", "1", "2", "3"]);
        json!({"name": name, "image": "example/more",
            "resources": {"limits": {EXTENDED: amount}}})
    };
    if more {
        let other = container(seed, "other");
        let containers = spec["containers"].as_array_mut().expect("a list");
        containers.truncate(1);
        containers.push(other);
    }
    if one_in(seed, 4) {
        let mut all = vec![container(seed, "first"), container(seed, "second")];
        if one_in(seed, 2) {
            all[0]["restartPolicy"] = json!("Always");
        }
        spec["initContainers"] = json!(all);
    }
}

fn classes(seed: &mut Seed) -> Vec<Value> {
    let class = |name: &str, selectors: &[&str]| {
        let selectors: Vec<Value> =
            selectors.iter().map(|it| json!({"cel": {"expression": it}})).collect();
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": selectors},
        })
    };
    let mut all = vec![
        class("any", &[]),
        class("gpu", &["device.driver == 'gpu.example.com'"]),
        class("big", &["device.driver == 'gpu.example.com'", LARGE]),
    ];
    // What is made in the same second goes by name. In the order of names kube-scheduler is right
    // whenever it sees them.
    if !one_in(seed, 4) {
        let backs = seed.between(1, 2) as usize;
        all[backs]["spec"]["extendedResourceName"] = json!(EXTENDED);
    }
    all
}

const LARGE: &str = "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0";

/// What selectors of claims say. Not all devices have all of what they read.
const SELECTORS: [&str; 14] = [
    LARGE,
    "device.attributes['gpu.example.com'].model == 'a100'",
    "device.attributes['gpu.example.com'].model in ['h100', 'b200']",
    "device.attributes['gpu.example.com'].model.matches('^[ah]')",
    "device.attributes['gpu.example.com'].numa == 0",
    "device.attributes['gpu.example.com'].numa < 1 || device.driver.startsWith('gpu')",
    "device.attributes['gpu.example.com'].version.isGreaterThan(semver('1.2.0'))",
    "device.attributes['gpu.example.com'].version.major() == 2",
    "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('50Gi'))",
    "'rare' in device.attributes['gpu.example.com'] && device.attributes['gpu.example.com'].rare",
    "has(device.attributes['gpu.example.com'].rare)",
    "device.attributes['gpu.example.com'].?rare.orValue(false)",
    "device.attributes['gpu.example.com'].rare == true",
    "!device.allowMultipleAllocations",
];

fn slice(name: &str, pool: &Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "pool": pool},
    })
}

fn device(seed: &mut Seed, name: &str) -> Value {
    let memory = *seed.pick(&["20Gi", "40Gi", "80Gi"]);
    let mut device = json!({
        "name": name,
        "attributes": {
            "model": {"string": seed.pick(&["a100", "h100", "t4"])},
            "numa": {"int": seed.between(0, 1)},
            "version": {"version": seed.pick(&["1.0.0", "1.2.0", "1.10.1", "2.0.0-rc.1", "2.1.0"])},
        },
        "capacity": {"memory": {"value": memory}},
    });
    if one_in(seed, 4) {
        device["attributes"]["rare"] = json!({"bool": one_in(seed, 2)});
    }
    if one_in(seed, 6) {
        let effect = *seed.pick(&["NoSchedule", "NoExecute"]);
        device["taints"] = json!([{"key": "example.com/sick", "value": "yes", "effect": effect}]);
    }
    device
}

/// Makes a device a part of a larger one.
fn partition(seed: &mut Seed, device: &mut Value) {
    let memory = *seed.pick(&["20Gi", "40Gi", "60Gi"]);
    device["consumesCounters"] =
        json!([{"counterSet": "whole", "counters": {"memory": {"value": memory}}}]);
}

/// Makes a device one that several claims may have parts of.
fn share(seed: &mut Seed, device: &mut Value) {
    device["allowMultipleAllocations"] = json!(true);
    let policy = match seed.below(3) {
        0 => return,
        1 => {
            json!({"default": "10Gi", "validRange": {"min": "10Gi", "step": "5Gi", "max": "20Gi"}})
        }
        _ => json!({"default": "10Gi", "validValues": ["10Gi", "20Gi"]}),
    };
    device["capacity"]["memory"]["requestPolicy"] = policy;
}

/// A pool that more than one node reaches.
fn wide(seed: &mut Seed, nodes: &[String]) -> Value {
    let pool = json!({"name": "wide", "generation": 1, "resourceSliceCount": 1});
    let mut slice = slice("s-wide", &pool);
    let mut devices = vec![device(seed, "w0"), device(seed, "w1")];
    let spec = &mut slice["spec"];
    let zone = json!([{"key": ZONE, "operator": "In", "values": ["z1", "z2"]}]);
    let zone = json!({"nodeSelectorTerms": [{"matchExpressions": zone}]});
    match seed.below(3) {
        0 => spec["allNodes"] = json!(true),
        1 => spec["nodeSelector"] = zone,
        _ => {
            spec["perDeviceNodeSelection"] = json!(true);
            devices[0]["nodeName"] = json!(seed.pick(nodes));
            devices[1]["nodeSelector"] = zone;
        }
    }
    spec["devices"] = json!(devices);
    slice
}

/// What a claim asks.
fn wants(seed: &mut Seed, namespace: &str) -> Value {
    let first = request(seed, namespace, "one");
    let mut requests = vec![first];
    if one_in(seed, 3) {
        requests.push(request(seed, namespace, "two"));
    }
    let mut wants = json!({"requests": requests});
    if one_in(seed, 3) {
        let attribute = *seed.pick(&["gpu.example.com/numa", "gpu.example.com/model"]);
        let kind = *seed.pick(&["matchAttribute", "matchAttribute", "distinctAttribute"]);
        let mut constraint = json!({kind: attribute});
        if one_in(seed, 3) {
            constraint["requests"] = json!(["one"]);
        }
        wants["constraints"] = json!([constraint]);
    }
    wants
}

fn request(seed: &mut Seed, namespace: &str, name: &str) -> Value {
    if one_in(seed, 5) {
        let option = |seed: &mut Seed, name: &str| {
            let mut option = exactly(seed, "");
            option["name"] = json!(name);
            option
        };
        let options = [option(seed, "best"), option(seed, "good")];
        return json!({"name": name, "firstAvailable": options});
    }
    json!({"name": name, "exactly": exactly(seed, namespace)})
}

fn exactly(seed: &mut Seed, namespace: &str) -> Value {
    let class = *seed.pick(&["any", "gpu", "gpu", "big", "gpu", "nothing"]);
    // A class that is not there is no rule of its own: now and then is enough.
    let class = if class == "nothing" && !one_in(seed, 4) { "gpu" } else { class };
    let mut exactly = json!({"deviceClassName": class});
    if one_in(seed, 3) {
        exactly["selectors"] = json!([{"cel": {"expression": seed.pick(&SELECTORS)}}]);
    }
    match seed.below(5) {
        0 => exactly["allocationMode"] = json!("All"),
        1 => exactly["count"] = json!(seed.between(1, 3)),
        _ => {}
    }
    if one_in(seed, 4) {
        exactly["tolerations"] = match seed.below(3) {
            0 => json!([{"operator": "Exists"}]),
            1 => json!([{"key": "example.com/sick", "operator": "Exists", "effect": "NoSchedule"}]),
            _ => json!([{"key": "example.com/sick", "operator": "Equal", "value": "no"}]),
        };
    }
    if one_in(seed, 4) {
        let memory = *seed.pick(&["5Gi", "10Gi", "12Gi", "20Gi", "30Gi"]);
        exactly["capacity"] = json!({"requests": {"memory": memory}});
    }
    if namespace == "blue" && one_in(seed, 3) {
        exactly["adminAccess"] = json!(true);
    }
    exactly
}
