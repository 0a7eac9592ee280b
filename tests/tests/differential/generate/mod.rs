//! Random clusters: the same number gives the same case on every machine.
//!
//! Each case is about one theme, so that rules meet each other within it and few pods fail at
//! something that is not asked about; every fifth is about all of them. Objects are such as an API
//! server takes.

mod devices;
mod nodes;
mod peers;
mod plain;
mod storage;

use capstan_tests::cluster::name_of;
use capstan_tests::seed::Seed;
use serde_json::{Value, json};

use crate::case::{Case, Draft, NAMESPACES};
pub use devices::SPECIAL;

/// Pods to try in each case.
const DRAFTS: usize = 9;

/// What a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Taints, affinity to nodes, ports, resources, features.
    Plain,
    /// Pods around pods.
    Peers,
    /// Volumes.
    Storage,
    /// Devices.
    Devices,
    /// All of it.
    All,
}

impl Theme {
    fn of(number: u64) -> Theme {
        match number % 5 {
            0 => Theme::Plain,
            1 => Theme::Peers,
            2 => Theme::Storage,
            3 => Theme::Devices,
            _ => Theme::All,
        }
    }

    /// Whether a case of this theme is about that one, too.
    fn has(self, other: Theme) -> bool {
        self == other || self == Theme::All
    }

    /// How seldom something of the plain rules is to be: one in so many, more seldom elsewhere.
    fn rarely(self, plain: u64) -> u64 {
        match self {
            Theme::Plain => plain,
            _ => plain * 2,
        }
    }
}

/// What there is in a cluster for pods to use.
struct Around {
    theme: Theme,
    /// Names of nodes.
    nodes: Vec<String>,
    /// Nodes where a pod holds a port. There is one such pod on each, since no scheduler lets two
    /// have the same, and kube-scheduler forgets a port with the first of them that ends.
    ported: Vec<String>,
    storage: storage::Stock,
    devices: devices::Stock,
}

fn one_in(seed: &mut Seed, many: u64) -> bool {
    seed.below(many) == 0
}

/// The case of a number.
pub fn case(number: u64) -> Case {
    let mut seed = Seed::new(number);
    let theme = Theme::of(number);
    let nodes = nodes::some(&mut seed, theme);
    let names: Vec<String> = nodes.iter().map(|node| name_of(node).to_owned()).collect();
    let storage = storage::Stock::new(&mut seed, theme, &names);
    let devices = devices::Stock::new(&mut seed, theme, &names);
    let mut around = Around { theme, nodes: names, ported: Vec::new(), storage, devices };
    let count = seed.between(8, 12);
    let mut standing: Vec<Value> =
        (0..count).map(|at| stands(&mut seed, &mut around, &format!("e{at}"))).collect();
    let drafts = (0..DRAFTS).map(|at| draft(&mut seed, &around, &format!("p{at}"))).collect();
    let mut objects = around.storage.objects;
    objects.append(&mut around.devices.objects);
    objects.append(&mut standing);
    Case::new(number, nodes, objects, drafts)
}

/// A pod that asks for little.
fn bare(seed: &mut Seed, name: &str) -> Value {
    let namespace = seed.pick(&NAMESPACES).0;
    let mut labels = json!({"app": seed.pick(&peers::APPS)});
    if one_in(seed, 2) {
        labels["tier"] = json!(seed.pick(&["front", "back"]));
    }
    if !one_in(seed, 3) {
        labels["version"] = json!(seed.pick(&["v1", "v2"]));
    }
    let cpu = seed.pick(&["10m", "50m", "100m"]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 3_600,
            "containers": [{
                "name": "main",
                "image": "example/main",
                "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
            }],
        },
    })
}

/// A pod with a place; a few end, or have ended.
fn stands(seed: &mut Seed, around: &mut Around, name: &str) -> Value {
    let mut pod = bare(seed, name);
    let node = seed.pick(&around.nodes).clone();
    pod["spec"]["nodeName"] = json!(node);
    pod["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    let theme = around.theme;
    if theme.has(Theme::Plain) {
        plain::held(seed, &mut pod, &mut around.ported);
    }
    if theme.has(Theme::Peers) {
        peers::held(seed, &mut pod);
    }
    if theme.has(Theme::Storage) {
        around.storage.held(seed, &mut pod);
    }
    if theme.has(Theme::Devices) {
        around.devices.held(seed, &mut pod, &node);
    }
    match seed.below(8) {
        0 => pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        1 => pod["status"]["phase"] = json!(seed.pick(&["Succeeded", "Failed"])),
        _ => {}
    }
    pod
}

/// A pod to try: one or two wishes of its theme, or a few of several.
fn draft(seed: &mut Seed, around: &Around, name: &str) -> Draft {
    let mut draft = Draft { pod: bare(seed, name), ..Draft::default() };
    if !one_in(seed, 3) {
        draft.pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    }
    let themes = match around.theme {
        Theme::All => vec![Theme::Plain, Theme::Peers, Theme::Storage, Theme::Devices],
        // What counts as a domain depends on the nodes that a pod wants.
        Theme::Peers => vec![Theme::Peers, Theme::Peers, Theme::Plain],
        one => vec![one],
    };
    let first = *seed.pick(&themes);
    let more = if around.theme == Theme::All { 3 } else { 2 };
    wish(seed, around, first, &mut draft);
    if one_in(seed, more) {
        let second = *seed.pick(&themes);
        wish(seed, around, second, &mut draft);
    }
    draft
}

fn wish(seed: &mut Seed, around: &Around, theme: Theme, draft: &mut Draft) {
    match theme {
        Theme::Plain => plain::wish(seed, &around.nodes, &mut draft.pod),
        Theme::Peers => peers::wish(seed, &mut draft.pod),
        Theme::Storage => around.storage.wish(seed, draft),
        Theme::Devices | Theme::All => around.devices.wish(seed, draft),
    }
}
