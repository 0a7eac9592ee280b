//! Volumes: classes, drivers and what nodes attach, claims in every state, disks without claims.

use capstan_tests::seed::Seed;
use serde_json::{Value, json};

use super::nodes::{HOSTNAME, REGION, ZONE};
use super::{Theme, one_in};
use crate::case::{Draft, Made, NAMESPACES};

/// Makes volumes when asked, where nodes attach few of them.
const DISKS: &str = "disks.example.com";
/// Makes volumes where it has said that there is room.
const CAPPED: &str = "capped.example.com";
/// Whom disks of the oldest kind are counted for.
const EBS: &str = "ebs.csi.aws.com";
/// The label of the zone before that of today.
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// Says that the binding of a claim is complete.
const COMPLETE: &str = "pv.kubernetes.io/bind-completed";
/// Says which node a volume is made for.
const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// Claims in each case.
const CLAIMS: usize = 14;
/// Volumes without a claim.
const FREE: usize = 6;

/// Volumes and claims that there are.
#[derive(Default)]
pub struct Stock {
    /// All objects.
    pub objects: Vec<Value>,
    claims: Vec<Claim>,
}

/// A claim that pods may use.
#[derive(Clone)]
struct Claim {
    namespace: &'static str,
    name: String,
    bound: bool,
    begun: bool,
}

impl Stock {
    /// What there is on these nodes.
    pub fn new(seed: &mut Seed, theme: Theme, nodes: &[String]) -> Stock {
        let mut stock = Stock::default();
        if !theme.has(Theme::Storage) {
            return stock;
        }
        stock.objects = classes(seed);
        stock.objects.extend(nodes.iter().filter_map(|node| limits(seed, node)));
        for at in 0..FREE {
            let volume = free(seed, nodes, &format!("free-{at}"));
            stock.objects.push(volume);
        }
        for at in 0..CLAIMS {
            stock.claim(seed, nodes, &format!("c{at}"));
        }
        stock
    }

    /// A claim in some state, and the volume that it may have.
    fn claim(&mut self, seed: &mut Seed, nodes: &[String], name: &str) {
        let namespace = seed.pick(&NAMESPACES).0;
        let kind = seed.below(16);
        let class = match kind {
            0..=7 => *seed.pick(&["local", "late", "now"]),
            8 | 9 => "local",
            10 => "late",
            11 => "capped",
            12 => "now",
            13 => "nowhere",
            _ => *seed.pick(&["local", "late"]),
        };
        let mut claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "annotations": {}},
            "spec": of_class(seed, class),
        });
        let mut note = Claim { namespace, name: name.to_owned(), bound: false, begun: false };
        match kind {
            0..=7 => {
                note.bound = true;
                self.bind(seed, nodes, &mut claim);
            }
            14 => {
                claim["metadata"]["annotations"][SELECTED] = json!(seed.pick(nodes));
                note.begun = true;
            }
            15 => {
                // Somebody has named a volume, and nobody has bound it.
                claim["spec"]["volumeName"] = json!("free-0");
            }
            _ => {}
        }
        if one_in(seed, 12) {
            claim["metadata"]["finalizers"] = json!(["example.com/hold"]);
            claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        self.objects.push(claim);
        self.claims.push(note);
    }

    /// Gives a claim a volume; one in a few is lost, or not there.
    fn bind(&mut self, seed: &mut Seed, nodes: &[String], claim: &mut Value) {
        let name = claim["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let (volume, uid) = (format!("v-{name}"), format!("uid-of-{name}"));
        claim["metadata"]["uid"] = json!(uid);
        claim["metadata"]["annotations"][COMPLETE] = json!("yes");
        claim["spec"]["volumeName"] = json!(volume);
        let alone = one_in(seed, 4);
        if alone {
            claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
        }
        let phase = if one_in(seed, 12) { "Lost" } else { "Bound" };
        claim["status"] = json!({"phase": phase});
        if one_in(seed, 10) {
            return;
        }
        let mut object = of_some_kind(seed, nodes, &volume);
        object["spec"]["storageClassName"] = claim["spec"]["storageClassName"].clone();
        object["spec"]["accessModes"] = claim["spec"]["accessModes"].clone();
        object["spec"]["claimRef"] = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim["metadata"]["namespace"],
            "name": name,
            "uid": uid,
        });
        object["status"] = json!({"phase": "Bound"});
        if one_in(seed, 2) {
            self.objects.push(json!({
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": {"name": format!("a-{name}")},
                "spec": {
                    "attacher": seed.pick(&[DISKS, DISKS, EBS]),
                    "nodeName": seed.pick(nodes),
                    "source": {"persistentVolumeName": volume},
                },
            }));
        }
        self.objects.push(object);
    }

    /// What a pod with a place uses.
    pub fn held(&self, seed: &mut Seed, pod: &mut Value) {
        match seed.below(3) {
            0 => {}
            1 => pod["spec"]["volumes"] = json!([disk(seed)]),
            _ => {
                let here = |it: &&Claim| pod["metadata"]["namespace"] == it.namespace && it.bound;
                let claims: Vec<&Claim> = self.claims.iter().filter(here).collect();
                if !claims.is_empty() {
                    let claim = *seed.pick(&claims);
                    pod["spec"]["volumes"] = json!([volume(claim)]);
                }
            }
        }
    }

    /// Adds a wish.
    pub fn wish(&self, seed: &mut Seed, draft: &mut Draft) {
        let mut volumes = Vec::new();
        match seed.below(8) {
            0 | 1 => volumes.push(disk(seed)),
            2 => {
                let class = *seed.pick(&["local", "late", "capped", "now"]);
                let spec = of_class(seed, class);
                volumes.push(json!({
                    "name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": spec}},
                }));
                let claim = json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec,
                });
                let foreign = one_in(seed, 6);
                draft.made.retain(|it| it.name != "own");
                draft.made.push(Made { name: "own".to_owned(), claim, foreign });
            }
            kind => {
                // A pod goes where the claims are that it uses, and leaves others behind.
                let first = seed.pick(&self.claims).clone();
                draft.made.clear();
                draft.unready = false;
                let pod = &mut draft.pod;
                pod["spec"].as_object_mut().expect("a spec").remove("resourceClaims");
                pod["metadata"]["namespace"] = json!(first.namespace);
                let near: Vec<&Claim> =
                    self.claims.iter().filter(|it| it.namespace == first.namespace).collect();
                let second = *seed.pick(&near);
                let two = kind > 5 && second.name != first.name;
                volumes.push(volume(&first));
                if two {
                    volumes.push(volume(second));
                }
                draft.begun |= first.begun || two && second.begun;
                if kind == 7 && one_in(seed, 6) {
                    volumes[0]["persistentVolumeClaim"]["claimName"] = json!("missing");
                }
            }
        }
        draft.pod["spec"]["volumes"] = json!(volumes);
    }
}

fn volume(claim: &Claim) -> Value {
    json!({"name": claim.name, "persistentVolumeClaim": {"claimName": claim.name}})
}

/// Classes and drivers, and where there is room for capped ones.
fn classes(seed: &mut Seed) -> Vec<Value> {
    let class = |name: &str, provisioner: &str, waits: bool| {
        let mode = if waits { "WaitForFirstConsumer" } else { "Immediate" };
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
        })
    };
    let needed = one_in(seed, 3);
    let driver = |name: &str, capped: bool| {
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": name},
            "spec": {"storageCapacity": capped, "preventPodSchedulingIfMissing": needed},
        })
    };
    let mut late = class("late", DISKS, true);
    if one_in(seed, 2) {
        let zones = json!([{"key": ZONE, "values": ["z1", seed.pick(&["z2", "z3"])]}]);
        late["allowedTopologies"] = json!([{"matchLabelExpressions": zones}]);
    }
    let mut all = vec![
        class("local", "kubernetes.io/no-provisioner", true),
        late,
        class("capped", CAPPED, true),
        class("now", DISKS, false),
        driver(DISKS, false),
        driver(CAPPED, true),
    ];
    for zone in ["z1", "z2", "z3"] {
        let mut room = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": format!("room-{zone}"), "namespace": "grey"},
            "storageClassName": "capped",
            "nodeTopology": {"matchLabels": {ZONE: zone}},
        });
        match seed.below(4) {
            0 => continue,
            1 => room["capacity"] = json!("2Gi"),
            2 => {
                room["capacity"] = json!("100Gi");
                room["maximumVolumeSize"] = json!("3Gi");
            }
            _ => room["capacity"] = json!("100Gi"),
        }
        all.push(room);
    }
    all
}

/// How many volumes a node attaches.
fn limits(seed: &mut Seed, node: &str) -> Option<Value> {
    if one_in(seed, 3) {
        return None;
    }
    let driver = |seed: &mut Seed, name: &str| {
        let mut driver = json!({"name": name, "nodeID": node, "topologyKeys": []});
        if !one_in(seed, 4) {
            driver["allocatable"] = json!({"count": seed.between(1, 3)});
        }
        driver
    };
    let drivers = json!([driver(seed, DISKS), driver(seed, EBS)]);
    let mut limits = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node},
        "spec": {"drivers": drivers},
    });
    if one_in(seed, 2) {
        let annotation = json!({"storage.alpha.kubernetes.io/migrated-plugins":
            "kubernetes.io/aws-ebs"});
        limits["metadata"]["annotations"] = annotation;
    }
    Some(limits)
}

/// What a claim of a class asks.
fn of_class(seed: &mut Seed, class: &str) -> Value {
    let size = *seed.pick(&["1Gi", "2Gi", "4Gi"]);
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": class,
    });
    if class == "local" && one_in(seed, 4) {
        spec["selector"] = json!({"matchLabels": {"speed": "fast"}});
    }
    spec
}

/// A volume that nobody has claimed.
fn free(seed: &mut Seed, nodes: &[String], name: &str) -> Value {
    let mut volume = local(seed, nodes, name);
    if one_in(seed, 3) {
        volume["metadata"]["labels"]["speed"] = json!("fast");
    }
    if one_in(seed, 6) {
        volume["spec"]["accessModes"] = json!(["ReadOnlyMany"]);
    }
    if one_in(seed, 6) {
        // Kept for a claim by its author.
        volume["spec"]["claimRef"] = json!({"namespace": "red", "name": "c9"});
    }
    let phase = if one_in(seed, 8) { "Pending" } else { "Available" };
    volume["status"] = json!({"phase": phase});
    volume
}

fn plain(seed: &mut Seed, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {}},
        "spec": {
            "capacity": {"storage": seed.pick(&["1Gi", "2Gi", "3Gi", "8Gi"])},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
        },
    })
}

fn local(seed: &mut Seed, nodes: &[String], name: &str) -> Value {
    let mut volume = plain(seed, name);
    volume["spec"]["local"] = json!({"path": "/mnt"});
    let here = match seed.below(3) {
        0 => json!({"key": ZONE, "operator": "In", "values": [seed.pick(&["z1", "z2", "z3"])]}),
        _ => json!({"key": HOSTNAME, "operator": "In", "values": [seed.pick(nodes)]}),
    };
    let terms = json!([{"matchExpressions": [here]}]);
    volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    volume
}

/// A volume of some kind: local, in a zone, attached by a driver of today or of old.
fn of_some_kind(seed: &mut Seed, nodes: &[String], name: &str) -> Value {
    if one_in(seed, 4) {
        return local(seed, nodes, name);
    }
    let mut volume = plain(seed, name);
    match seed.below(4) {
        0 | 1 => {
            let zones = *seed.pick(&["z1", "z2", "z1__z3"]);
            let key = *seed.pick(&[ZONE, ZONE, OLD_ZONE]);
            volume["metadata"]["labels"][key] = json!(zones);
            if one_in(seed, 3) {
                volume["metadata"]["labels"][REGION] = json!("r1");
            }
            volume["spec"]["nfs"] = json!({"server": "files.example.com", "path": "/"});
        }
        2 if one_in(seed, 2) => {
            volume["spec"]["awsElasticBlockStore"] =
                json!({"volumeID": format!("aws://z1/vol-{name}")});
            let key = *seed.pick(&[ZONE, OLD_ZONE]);
            match seed.below(3) {
                0 => volume["metadata"]["labels"][key] = json!("z1__z2"),
                1 => {
                    let zones = json!({"key": key, "operator": "In", "values": ["z1", "z2"]});
                    let terms = json!([{"matchExpressions": [zones]}]);
                    let required = json!({"nodeSelectorTerms": terms});
                    volume["spec"]["nodeAffinity"] = json!({"required": required});
                }
                _ => {}
            }
        }
        _ => volume["spec"]["csi"] = json!({"driver": DISKS, "volumeHandle": name}),
    }
    volume
}

/// A disk that a pod names without a claim.
fn disk(seed: &mut Seed) -> Value {
    let reads = one_in(seed, 2);
    let number = if one_in(seed, 4) { 2 } else { 1 };
    let mut disk = json!({"name": "disk"});
    match seed.below(4) {
        0 => {
            disk["gcePersistentDisk"] =
                json!({"pdName": format!("pd-{number}"), "readOnly": reads});
        }
        1 => disk["awsElasticBlockStore"] = json!({"volumeID": format!("vol-{number}")}),
        2 => {
            let iqn = format!("iqn.2026-01.com.example:{number}");
            disk["iscsi"] = json!({
                "targetPortal": "10.0.0.9:3260", "iqn": iqn, "lun": 0, "readOnly": reads,
            });
        }
        _ => {
            let monitors = match seed.below(3) {
                0 => json!(["m1", "m2"]),
                1 => json!(["m2", "m3"]),
                _ => json!(["m3"]),
            };
            disk["rbd"] = json!({
                "monitors": monitors, "image": format!("i{number}"), "readOnly": reads,
            });
        }
    }
    disk
}
