//! Whatever watches do, the facts told are those of the objects that are there in the end.
//!
//! Goal: the one promise of this folder. Method: a small cluster changes at random; the watch of
//! each kind tells of it in its own time, misses some of it, lists anew, repeats itself and names
//! what is long gone. What was told, folded, must be what the offline reader makes of the
//! objects that are left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capstan_core::Input;
use capstan_core::model::input::Text;
use capstan_core::time::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Group, Kind, Live, Object, Seen};
use crate::api::devices::DeviceObject;
use crate::config::{Config, QuotaApi};
use crate::convert::directory::OWNERS_MAX;
use crate::read::kinds::{DeviceKind, Origin, Queueing};
use crate::read::read_text;

const NOW: Time = Time(1_800_000_000_000);

/// Places where an object may stand.
fn slots() -> Vec<(Kind, &'static str, &'static str)> {
    let mut slots = vec![
        (Kind::Namespace, "", "a"),
        (Kind::Namespace, "", "default"),
        (Kind::PriorityClass, "", "high"),
        (Kind::PriorityClass, "", "usual"),
        (Kind::RuntimeClass, "", "kata"),
        (Kind::Node, "", "n"),
        (Kind::Deployment, "a", "d"),
        (Kind::ReplicaSet, "a", "r"),
        (Kind::StatefulSet, "a", "r"),
        (Kind::Job, "a", "j"),
        (Kind::Job, "a", "k"),
        (Kind::Job, "b", "j"),
    ];
    slots.extend(["p", "q", "r", "s"].map(|name| (Kind::Pod, "a", name)));
    slots.extend(["p", "q"].map(|name| (Kind::Pod, "b", name)));
    for group in [Group::Capstan, Group::Kueue] {
        let kind = |kind| Kind::Queueing(kind, group);
        slots.push((kind(Queueing::ResourceFlavor), "", "f"));
        slots.push((kind(Queueing::Topology), "", "t"));
        slots.push((kind(Queueing::WorkloadPriorityClass), "", "w"));
        slots.push((kind(Queueing::Cohort), "", "co"));
        slots.push((kind(Queueing::ClusterQueue), "", "cq"));
        slots.push((kind(Queueing::LocalQueue), "a", "default"));
        slots.push((kind(Queueing::LocalQueue), "c", "lq"));
    }
    slots
}

#[derive(Clone, Debug)]
enum Step {
    /// An object is created or changed; as another one under its name, with or without its end.
    Put { slot: usize, looks: u32, another: bool, ended: bool },
    /// It goes.
    Drop { slot: usize },
    /// Like one of these, but the watch was down.
    Miss { slot: usize, looks: Option<u32>, another: bool },
    /// The watch repeats itself.
    Again { slot: usize },
    /// The watch names the end of one that is long gone.
    Stale { slot: usize },
    /// The watch lists anew, after so many objects of a list that broke.
    Relist { slot: usize, broken: usize },
    /// The API group of the kind goes.
    Absent { slot: usize },
    /// The engine's thread takes so many events of this kind.
    Deliver { slot: usize, count: usize },
    /// It drains.
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    let slot = || 0..slots().len();
    prop_oneof![
        12 => (slot(), any::<u32>(), any::<bool>(), any::<bool>()).prop_map(
            |(slot, looks, another, ended)| Step::Put { slot, looks, another, ended }
        ),
        4 => slot().prop_map(|slot| Step::Drop { slot }),
        2 => (slot(), any::<Option<u32>>(), any::<bool>())
            .prop_map(|(slot, looks, another)| Step::Miss { slot, looks, another }),
        1 => slot().prop_map(|slot| Step::Again { slot }),
        1 => slot().prop_map(|slot| Step::Stale { slot }),
        2 => (slot(), 0..3usize).prop_map(|(slot, broken)| Step::Relist { slot, broken }),
        1 => slot().prop_map(|slot| Step::Absent { slot }),
        8 => (slot(), 1..5usize).prop_map(|(slot, count)| Step::Deliver { slot, count }),
        3 => Just(Step::Drain),
    ]
}

/// The cluster, its watches, and what was told.
struct World {
    live: Live,
    config: Config,
    objects: BTreeMap<usize, Value>,
    /// How many objects stood in each slot.
    ages: BTreeMap<usize, u32>,
    watches: BTreeMap<Kind, VecDeque<Seen>>,
    /// Kinds whose watch missed something.
    behind: BTreeSet<Kind>,
    told: BTreeMap<String, Input>,
}

impl World {
    fn new() -> World {
        let config =
            Config { quota_apis: vec![QuotaApi::Capstan, QuotaApi::Kueue], ..Config::default() };
        World {
            live: Live::new(&config),
            config,
            objects: BTreeMap::new(),
            ages: BTreeMap::new(),
            watches: BTreeMap::new(),
            behind: BTreeSet::new(),
            told: BTreeMap::new(),
        }
    }

    fn play(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Put { slot, looks, another, ended } => {
                if ended && another {
                    self.play(&Step::Drop { slot })?;
                }
                self.put(slot, looks, another);
                let event = Seen::Applied(self.object(slot));
                self.watch(slots()[slot].0, event);
            }
            Step::Drop { slot } => {
                if self.objects.contains_key(&slot) {
                    let event = Seen::Deleted(self.object(slot));
                    self.objects.remove(&slot);
                    self.watch(slots()[slot].0, event);
                }
            }
            Step::Miss { slot, looks, another } => {
                self.behind.insert(slots()[slot].0);
                match looks {
                    Some(looks) => self.put(slot, looks, another),
                    None => drop(self.objects.remove(&slot)),
                }
            }
            Step::Again { slot } => {
                if self.objects.contains_key(&slot) {
                    let event = Seen::Applied(self.object(slot));
                    self.watch(slots()[slot].0, event);
                }
            }
            Step::Stale { slot } => {
                if let Some(object) = self.objects.get(&slot) {
                    let mut old = object.clone();
                    old["metadata"]["uid"] = "long-gone".into();
                    self.watch(slots()[slot].0, Seen::Deleted(seen(slots()[slot].0, &old)));
                }
            }
            Step::Relist { slot, broken } => self.relist(slots()[slot].0, broken),
            Step::Absent { slot } => {
                let kind = slots()[slot].0;
                if matches!(kind, Kind::Queueing(..)) {
                    self.objects.retain(|slot, _| slots()[*slot].0 != kind);
                    self.behind.remove(&kind);
                    self.watches.entry(kind).or_default().push_back(Seen::Absent(kind));
                }
            }
            Step::Deliver { slot, count } => self.deliver(slots()[slot].0, count),
            Step::Drain => self.drain()?,
        }
        Ok(())
    }

    fn put(&mut self, slot: usize, looks: u32, another: bool) {
        let age = self.ages.entry(slot).or_default();
        *age += u32::from(another);
        let (kind, namespace, name) = slots()[slot];
        self.objects.insert(slot, manifest(kind, namespace, name, *age, looks));
    }

    fn object(&self, slot: usize) -> Object {
        seen(slots()[slot].0, &self.objects[&slot])
    }

    fn watch(&mut self, kind: Kind, event: Seen) {
        if self.behind.contains(&kind) {
            // What the event says is in the list already, or not any more.
            return self.relist(kind, 0);
        }
        self.watches.entry(kind).or_default().push_back(event);
    }

    fn relist(&mut self, kind: Kind, broken: usize) {
        self.behind.remove(&kind);
        let all: Vec<Object> = self
            .objects
            .iter()
            .filter(|(slot, _)| slots()[**slot].0 == kind)
            .map(|(_, value)| seen(kind, value))
            .collect();
        let events = self.watches.entry(kind).or_default();
        if broken > 0 {
            events.push_back(Seen::Listing(kind));
            events.extend(all.iter().take(broken - 1).cloned().map(Seen::Listed));
        }
        events.push_back(Seen::Listing(kind));
        events.extend(all.into_iter().map(Seen::Listed));
        events.push_back(Seen::Complete(kind));
    }

    fn deliver(&mut self, kind: Kind, count: usize) {
        let events = self.watches.entry(kind).or_default();
        for event in events.drain(..count.min(events.len())) {
            self.live.take(event);
        }
    }

    fn deliver_all(&mut self) {
        for kind in std::mem::take(&mut self.behind) {
            self.relist(kind, 0);
        }
        for kind in Kind::all(&self.config).into_iter().rev() {
            self.deliver(kind, usize::MAX);
        }
    }

    fn drain(&mut self) -> Result<(), TestCaseError> {
        let mut once = BTreeSet::new();
        for input in self.live.drain(NOW).inputs {
            let (id, gone) = id(&input);
            prop_assert!(once.insert(id.clone()), "{id} was told twice at once");
            if gone {
                prop_assert!(self.told.remove(&id).is_some(), "{id} is gone and was never told");
            } else {
                let before = self.told.insert(id.clone(), input.clone());
                // Of these nothing is kept to compare with: there and back again is told.
                let many = matches!(input, Input::Pod(_) | Input::Owner(_) | Input::Node(_));
                prop_assert!(many || before.as_ref() != Some(&input), "{id} told, unchanged");
            }
        }
        Ok(())
    }

    /// What the offline reader makes of the objects that are left.
    fn offline(&self) -> BTreeMap<String, Input> {
        let items: Vec<&Value> = self.objects.values().collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        let objects = match read_text("a.json", &list.to_string(), &self.config) {
            Ok(objects) => objects,
            Err(errors) => panic!("{errors:#?}"),
        };
        let counts = |input: &Input| match input {
            Input::Pod(pod) => pod.ours || pod.node.is_some(),
            _ => true,
        };
        let inputs = objects.inputs.into_iter().filter(counts).map(|input| match input {
            // Files may leave owners out; a cluster has them or they are gone.
            Input::Pod(mut pod) => {
                let is = |object: &&Value| object["metadata"]["uid"] == *pod.uid;
                let object = self.objects.values().find(is).expect("it came from one");
                pod.gang.unknown_owner = self.unknown_owner(object).map(Text::from);
                Input::Pod(pod)
            }
            other => other,
        });
        inputs.map(|input| (id(&input).0, input)).collect()
    }

    /// The first owner from an object up that should be there and is not.
    fn unknown_owner(&self, object: &Value) -> Option<String> {
        let mut at = object;
        for _ in 0..OWNERS_MAX {
            let owner = at["metadata"]["ownerReferences"].get(0)?;
            let foreign = owner["apiVersion"] == "x/v1";
            let is = |one: &&Value| {
                let meta = &one["metadata"];
                let ours = one["kind"] == owner["kind"] && !foreign;
                let same = meta["name"] == owner["name"] && meta["uid"] == owner["uid"];
                ours && same && meta["namespace"] == object["metadata"]["namespace"]
            };
            let text = |field: &str| owner[field].as_str().expect("text").to_owned();
            match self.objects.values().find(is) {
                Some(found) => at = found,
                None if foreign => return None,
                None => return Some(format!("{} {}", text("kind"), text("name"))),
            }
        }
        None
    }
}

/// An object as a watch decodes it.
fn seen(kind: Kind, value: &Value) -> Object {
    let value = value.clone();
    match kind {
        Kind::Pod => Object::Pod(serde_json::from_value(value).expect("pod")),
        Kind::Node => Object::Node(serde_json::from_value(value).expect("node")),
        Kind::Job => Object::Job(serde_json::from_value(value).expect("job")),
        Kind::PriorityClass => Object::PriorityClass(serde_json::from_value(value).expect("class")),
        Kind::RuntimeClass => Object::RuntimeClass(serde_json::from_value(value).expect("class")),
        Kind::Devices(kind) => Object::Devices(Box::new(device_object(kind, value))),
        Kind::Queueing(kind, _) => {
            let origin = match value["apiVersion"].as_str() {
                Some("kueue.x-k8s.io/v1beta1") => Origin::KueueV1Beta1,
                Some("kueue.x-k8s.io/v1beta2") => Origin::KueueV1Beta2,
                _ => Origin::Capstan,
            };
            Object::Queueing(kind, origin, Box::new(value))
        }
        _ => Object::Meta(kind, serde_json::from_value(value).expect("meta")),
    }
}

fn device_object(kind: DeviceKind, value: Value) -> DeviceObject {
    match kind {
        DeviceKind::Slice => DeviceObject::Slice(serde_json::from_value(value).expect("slice")),
        DeviceKind::Class => DeviceObject::Class(serde_json::from_value(value).expect("class")),
        DeviceKind::Claim => DeviceObject::Claim(serde_json::from_value(value).expect("claim")),
        DeviceKind::Template => {
            DeviceObject::Template(serde_json::from_value(value).expect("template"))
        }
    }
}

/// What tells one fact from another, and whether it is no more.
fn id(input: &Input) -> (String, bool) {
    let (kind, name, gone) = match input {
        Input::Node(node) => ("node", node.name.to_string(), false),
        Input::NodeGone(name) => ("node", name.to_string(), true),
        Input::Pod(pod) => ("pod", pod.uid.to_string(), false),
        Input::PodGone(uid) => ("pod", uid.to_string(), true),
        Input::Owner(owner) => ("owner", owner.uid.to_string(), false),
        Input::OwnerGone(uid) => ("owner", uid.to_string(), true),
        Input::ClusterQueue(queue) => ("cq", queue.name.to_string(), false),
        Input::ClusterQueueGone(name) => ("cq", name.to_string(), true),
        Input::LocalQueue(queue) => ("lq", format!("{}/{}", queue.namespace, queue.name), false),
        Input::LocalQueueGone { namespace, name } => ("lq", format!("{namespace}/{name}"), true),
        Input::Cohort(cohort) => ("cohort", cohort.name.to_string(), false),
        Input::CohortGone(name) => ("cohort", name.to_string(), true),
        Input::Flavor(flavor) => ("flavor", flavor.name.to_string(), false),
        Input::FlavorGone(name) => ("flavor", name.to_string(), true),
        Input::WorkloadPriorityClass { name, .. } => ("wpc", name.to_string(), false),
        Input::WorkloadPriorityClassGone(name) => ("wpc", name.to_string(), true),
        Input::Namespace { name, .. } => ("namespace", name.to_string(), false),
        Input::NamespaceGone(name) => ("namespace", name.to_string(), true),
        Input::Topology { name, .. } => ("topology", name.to_string(), false),
        Input::TopologyGone(name) => ("topology", name.to_string(), true),
        Input::Slice(slice) => ("slice", slice.name.to_string(), false),
        Input::SliceGone(name) => ("slice", name.to_string(), true),
        Input::Answers { query, slice, .. } => ("answers", format!("{query} {slice}"), false),
        Input::ResourceClaim(claim) => ("claim", claim.key.1.to_string(), false),
        Input::ResourceClaimGone(key) => ("claim", key.1.to_string(), true),
        Input::QueryGone(_) | Input::Policy(_) | Input::Outcome { .. } => {
            panic!("no fact of an object: {input:?}")
        }
    };
    (format!("{kind} {name}"), gone)
}

/// Choices made of the bits of one number.
struct Looks(u32);

impl Looks {
    fn of(&mut self, count: u32) -> u32 {
        let choice = self.0 % count;
        self.0 /= count;
        choice
    }

    fn one_of(&mut self, choices: &[Value]) -> Value {
        choices[self.of(choices.len() as u32) as usize].clone()
    }

    fn flag(&mut self) -> bool {
        self.of(2) == 1
    }
}

fn priority_class(looks: &mut Looks) -> Value {
    json!({
        "value": looks.of(3) * 10,
        "globalDefault": looks.flag(),
        "preemptionPolicy": looks.one_of(&[Value::Null, json!("Never")]),
    })
}

fn manifest(kind: Kind, namespace: &str, name: &str, age: u32, looks: u32) -> Value {
    let mut looks = Looks(looks);
    let mut object = match kind {
        Kind::Namespace => json!({}),
        Kind::PriorityClass => priority_class(&mut looks),
        Kind::RuntimeClass => runtime_class(&mut looks),
        Kind::Node => node(&mut looks),
        Kind::Job => job(&mut looks),
        Kind::Pod => pod(&mut looks),
        Kind::Queueing(kind, _) => queueing(kind, &mut looks),
        _ => json!({}),
    };
    let uid = format!("{}-{namespace}-{name}-{age}", kind.name());
    let mut meta = json!({ "name": name, "uid": uid,
        "creationTimestamp": "2026-01-01T00:00:00Z" });
    if kind.namespaced() {
        meta["namespace"] = namespace.into();
    }
    meta["labels"] = looks.one_of(&[
        json!({}),
        json!({ "capstan.sh/queue": "lq" }),
        json!({ "capstan.sh/gang": "g", "dept": "x" }),
        json!({}),
    ]);
    meta["annotations"] = looks.one_of(&[
        json!({}),
        json!({ "capstan.sh/min-member": "2" }),
        json!({ "capstan.sh/capacity-types": "spot" }),
        json!({ "capstan.sh/price": "2.5", "capstan.sh/suspended": "1" }),
        json!({ "capstan.sh/admitted": r#"{"admittedAt":"2026-01-02T00:00:00Z"}"# }),
    ]);
    let by = looks.one_of(&[
        Value::Null,
        json!(["Job", "j"]),
        json!(["Job", "j"]),
        json!(["ReplicaSet", "r"]),
        json!(["Deployment", "d"]),
    ]);
    if kind.namespaced() && by.is_array() && !matches!(kind, Kind::Queueing(..)) {
        let (owner, own) = (by[0].as_str().expect("kind"), by[1].as_str().expect("name"));
        let uid = format!("{owner}-{namespace}-{own}-{}", looks.of(2));
        let ours = if owner == "Job" { "batch/v1" } else { "apps/v1" };
        // Others have Jobs, too.
        let api = if looks.of(5) == 0 { "x/v1" } else { ours };
        meta["ownerReferences"] = json!([{ "apiVersion": api, "kind": owner, "name": own,
            "uid": uid, "controller": true }]);
    }
    if matches!(kind, Kind::Pod | Kind::Job) && looks.of(6) == 0 {
        meta["deletionTimestamp"] = "2026-01-03T00:00:00Z".into();
    }
    object["metadata"] = meta;
    object["kind"] = kind.name().into();
    object["apiVersion"] = match kind {
        Kind::Pod | Kind::Node | Kind::Namespace => "v1",
        Kind::PriorityClass => "scheduling.k8s.io/v1",
        Kind::RuntimeClass => "node.k8s.io/v1",
        Kind::Devices(_) => "resource.k8s.io/v1",
        Kind::Job => "batch/v1",
        Kind::ReplicaSet | Kind::StatefulSet | Kind::Deployment => "apps/v1",
        Kind::Queueing(_, Group::Capstan) => "capstan.sh/v1alpha1",
        Kind::Queueing(..) if looks.flag() => "kueue.x-k8s.io/v1beta1",
        Kind::Queueing(..) => "kueue.x-k8s.io/v1beta2",
    }
    .into();
    without_nulls(&mut object);
    object
}

/// As an API server shows objects.
fn without_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}

fn node(looks: &mut Looks) -> Value {
    json!({
        "spec": { "unschedulable": looks.flag() },
        "status": { "allocatable": { "cpu": looks.of(4), "pods": 10 } },
    })
}

fn spec(looks: &mut Looks) -> Value {
    json!({
        "schedulerName": looks.one_of(&[json!("capstan"), json!("other")]),
        "priority": looks.one_of(&[Value::Null, json!(5)]),
        "priorityClassName": looks.one_of(&[Value::Null, json!("high")]),
        "runtimeClassName": looks.one_of(&[Value::Null, json!("kata")]),
        "preemptionPolicy": looks.one_of(&[Value::Null, json!("Never")]),
        "containers": [{ "resources": { "requests": { "cpu": looks.of(2) } } }],
    })
}

fn runtime_class(looks: &mut Looks) -> Value {
    json!({
        "overhead": { "podFixed": { "cpu": looks.of(3) } },
        "scheduling": { "nodeSelector": looks.one_of(&[json!({}), json!({ "pool": "x" })]) },
    })
}

fn pod(looks: &mut Looks) -> Value {
    let mut spec = spec(looks);
    spec["nodeName"] = looks.one_of(&[Value::Null, json!("n")]);
    json!({
        "spec": spec,
        "status": { "phase": looks.one_of(&[json!("Pending"), json!("Running"), json!("Failed")]) },
    })
}

fn job(looks: &mut Looks) -> Value {
    json!({
        "spec": {
            "parallelism": 1 + looks.of(3),
            "completions": 3,
            "completionMode": looks.one_of(&[Value::Null, json!("Indexed")]),
            "suspend": looks.flag(),
            "template": { "spec": spec(looks) },
        },
        "status": { "succeeded": looks.of(3), "active": looks.of(2) },
    })
}

fn queueing(kind: Queueing, looks: &mut Looks) -> Value {
    let quota = json!({ "name": "cpu", "nominalQuota": looks.of(3),
        "lendingLimit": looks.one_of(&[Value::Null, json!(1)]) });
    let groups = json!([{ "coveredResources": ["cpu"],
        "flavors": [{ "name": "f", "resources": [quota] }] }]);
    let spec = match kind {
        Queueing::ClusterQueue => json!({ "resourceGroups": groups,
            "cohortName": looks.one_of(&[Value::Null, json!("co")]) }),
        Queueing::Cohort => json!({ "resourceGroups": groups }),
        Queueing::LocalQueue => json!({ "clusterQueue": "cq",
            "stopPolicy": looks.one_of(&[Value::Null, json!("Hold")]) }),
        Queueing::ResourceFlavor => json!({ "nodeLabels":
            looks.one_of(&[json!({}), json!({ "pool": "x" })]) }),
        Queueing::Topology => json!({ "levels": [{ "nodeLabel":
            looks.one_of(&[json!("rack"), json!("zone")]) }] }),
        Queueing::WorkloadPriorityClass => return json!({ "value": looks.of(3) }),
        Queueing::Workload => json!({}),
    };
    json!({ "spec": spec })
}

fn difference(told: &BTreeMap<String, Input>, wanted: &BTreeMap<String, Input>) -> String {
    let ids: BTreeSet<&String> = told.keys().chain(wanted.keys()).collect();
    let differ = ids.into_iter().filter(|id| told.get(*id) != wanted.get(*id));
    differ
        .map(|id| format!("{id}\n  told   {:?}\n  wanted {:?}\n", told.get(id), wanted.get(id)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_was_told_is_what_is_there(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.play(step)?;
        }
        world.deliver_all();
        world.drain()?;
        let wanted = world.offline();
        let differs = difference(&world.told, &wanted);
        prop_assert!(differs.is_empty(), "{differs}");
        let all = world.live.everything(NOW);
        let all = all.into_iter().map(|input| (id(&input).0, input)).collect();
        let differs = difference(&all, &wanted);
        prop_assert!(differs.is_empty(), "everything: {differs}");
        // What did not change is not told again, however often it is seen.
        for kind in Kind::all(&world.config) {
            world.relist(kind, 1);
        }
        world.deliver_all();
        prop_assert!(world.live.synced());
        let again = world.live.drain(NOW).inputs;
        prop_assert!(again.is_empty(), "{again:?}");
    }
}
