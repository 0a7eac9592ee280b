//! Whatever watches do, the facts told are those of the objects that are there in the end.
//!
//! Goal: the one promise of this folder. Method: a small cluster changes at random; the watch of
//! each kind tells of it in its own time, misses some of it, lists anew, repeats itself and names
//! what is long gone. What was told, folded, must be what the offline reader makes of the
//! objects that are left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capstan_core::Input;
use capstan_core::model::input::{GangKey, Text};
use capstan_core::time::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::manifests::manifest;
use super::{Group, Kind, Live, Object, Seen, Stored};
use crate::api::devices::DeviceObject;
use crate::api::storage::{Claim, Volume};
use crate::config::{Config, QuotaApi};
use crate::convert::directory::OWNERS_MAX;
use crate::gangs::kinds as gangs;
use crate::read::kinds::{DeviceKind, Origin, Queueing, StorageKind};
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
        (Kind::LimitRange, "a", "l"),
        (Kind::Node, "", "n"),
        (Kind::Deployment, "a", "d"),
        (Kind::ReplicaSet, "a", "r"),
        (Kind::StatefulSet, "a", "r"),
        (Kind::Job, "a", "j"),
        (Kind::Job, "a", "k"),
        (Kind::Job, "b", "j"),
        (Kind::Budget, "a", "b"),
        (Kind::Devices(DeviceKind::Slice), "", "s"),
        (Kind::Devices(DeviceKind::TaintRule), "", "t"),
        (Kind::Devices(DeviceKind::Claim), "a", "c"),
        (Kind::Storage(StorageKind::Claim), "a", "c"),
        (Kind::Storage(StorageKind::Volume), "", "v"),
        (Kind::Job, "a", "s-w-0"),
        (Kind::Gang(gangs::Kind::TrainJob), "a", "s"),
        (Kind::Gang(gangs::Kind::JobSet), "a", "s"),
        (Kind::Gang(gangs::Kind::LeaderWorkerSet), "a", "l"),
        (Kind::Gang(gangs::Kind::PluginsGroup), "a", "g"),
        (Kind::Gang(gangs::Kind::VolcanoGroup), "a", "g"),
    ];
    slots.extend(["p", "q", "r", "s"].map(|name| (Kind::Pod, "a", name)));
    slots.extend(["p", "q"].map(|name| (Kind::Pod, "b", name)));
    slots.push((Kind::Queueing(Queueing::Workload, Group::Capstan), "a", "p"));
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

    /// What the offline reader makes of the objects that are left, but for pods of which nothing is
    /// left.
    fn offline(&self) -> BTreeMap<String, Input> {
        let items: Vec<&Value> = self.objects.values().filter(|it| !is_over(it)).collect();
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
                let lacks_set = matches!(&pod.gang.key, GangKey::Owner(uid, _)
                    if uid.starts_with("leaderworkerset/"));
                let set = || lacks_set.then(|| "LeaderWorkerSet l".to_owned());
                pod.gang.unknown_owner = self.unknown_owner(object).or_else(set).map(Text::from);
                // What is owned by nobody there is says nothing of others.
                if pod.gang.unknown_owner.is_some() {
                    pod.gang.to_come = None;
                }
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

/// Whether an object is a pod that ended and counts nowhere: it is none of ours that names a
/// PodGroup, nor one that names another gang and was not made by what makes it again in any case.
fn is_over(object: &Value) -> bool {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    let labels = &meta["labels"];
    let in_group = labels["scheduling.x-k8s.io/pod-group"].is_string()
        || meta["annotations"]["scheduling.k8s.io/group-name"].is_string();
    let owner = &meta["ownerReferences"][0];
    let replaced = owner["kind"] == "ReplicaSet" && owner["apiVersion"] != "x/v1";
    let counts = spec["schedulerName"] == "capstan"
        && meta["deletionTimestamp"].is_null()
        && (in_group || !replaced && labels["capstan.sh/gang"].is_string());
    object["kind"] == "Pod" && object["status"]["phase"] == "Failed" && !counts
}

/// An object as a watch decodes it.
fn seen(kind: Kind, value: &Value) -> Object {
    let value = value.clone();
    match kind {
        Kind::Pod => Object::Pod(serde_json::from_value(value).expect("pod")),
        Kind::Node => Object::Node(serde_json::from_value(value).expect("node")),
        Kind::Job => Object::Job(serde_json::from_value(value).expect("job")),
        Kind::Budget => Object::Budget(serde_json::from_value(value).expect("budget")),
        Kind::PriorityClass => Object::PriorityClass(serde_json::from_value(value).expect("class")),
        Kind::RuntimeClass => Object::RuntimeClass(serde_json::from_value(value).expect("class")),
        Kind::LimitRange => Object::LimitRange(serde_json::from_value(value).expect("range")),
        Kind::Devices(kind) => Object::Devices(Box::new(device_object(kind, value))),
        Kind::Queueing(kind, _) => {
            let origin = match value["apiVersion"].as_str() {
                Some("kueue.x-k8s.io/v1beta1") => Origin::KueueV1Beta1,
                Some("kueue.x-k8s.io/v1beta2") => Origin::KueueV1Beta2,
                _ => Origin::Capstan,
            };
            Object::Queueing(kind, origin, Box::new(value))
        }
        Kind::Storage(of) => storage(of, value),
        Kind::Gang(kind) => Object::Gang(kind, Box::new(value)),
        _ => Object::Meta(kind, serde_json::from_value(value).expect("meta")),
    }
}

/// A storage object as a watch shows it.
fn storage(kind: StorageKind, value: Value) -> Object {
    let meta = serde_json::from_value(value.clone()).expect("meta");
    let seen: Box<dyn Stored> = match kind {
        StorageKind::Claim => Box::new(serde_json::from_value::<Claim>(value).expect("claim")),
        StorageKind::Volume => Box::new(serde_json::from_value::<Volume>(value).expect("volume")),
        other => panic!("no slot is a {}", other.name()),
    };
    Object::Storage(kind, meta, seen)
}

/// What a claim and a volume say, each with fields of the other that nobody reads.
fn device_object(kind: DeviceKind, value: Value) -> DeviceObject {
    match kind {
        DeviceKind::Slice => DeviceObject::Slice(serde_json::from_value(value).expect("slice")),
        DeviceKind::Class => DeviceObject::Class(serde_json::from_value(value).expect("class")),
        DeviceKind::Claim => DeviceObject::Claim(serde_json::from_value(value).expect("claim")),
        DeviceKind::TaintRule => {
            DeviceObject::TaintRule(serde_json::from_value(value).expect("rule"))
        }
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
        Input::PodGone(uid) | Input::PodEnded { pod: uid, .. } => ("pod", uid.to_string(), true),
        Input::Owner(owner) => ("owner", owner.uid.to_string(), false),
        Input::OwnerGone(uid) => ("owner", uid.to_string(), true),
        Input::ClusterQueue(queue) => ("cq", queue.name.to_string(), false),
        Input::ClusterQueueGone(name) => ("cq", name.to_string(), true),
        Input::LocalQueue(queue) => ("lq", format!("{}/{}", queue.namespace, queue.name), false),
        Input::LocalQueueGone { namespace, name } => ("lq", format!("{namespace}/{name}"), true),
        Input::LocalQueueUsed(it) => ("used", format!("{}/{}", it.namespace, it.name), false),
        Input::Spent(it) => ("spent", it.cluster_queue.to_string(), false),
        Input::Deactivated(it) => ("inactive", format!("{}/{}", it.namespace, it.name), false),
        Input::Reactivated(namespace, name) => ("inactive", format!("{namespace}/{name}"), true),
        Input::Cohort(cohort) => ("cohort", cohort.name.to_string(), false),
        Input::CohortGone(name) => ("cohort", name.to_string(), true),
        Input::Flavor(flavor) => ("flavor", flavor.name.to_string(), false),
        Input::FlavorGone(name) => ("flavor", name.to_string(), true),
        Input::WorkloadPriorityClass { name, .. } => ("wpc", name.to_string(), false),
        Input::WorkloadPriorityClassGone(name) => ("wpc", name.to_string(), true),
        Input::Namespace { name, .. } => ("namespace", name.to_string(), false),
        Input::NamespaceGone(name) => ("namespace", name.to_string(), true),
        Input::Budget(it) => ("budget", format!("{}/{}", it.namespace, it.name), false),
        Input::BudgetGone { namespace, name } => ("budget", format!("{namespace}/{name}"), true),
        Input::Topology { name, .. } => ("topology", name.to_string(), false),
        Input::TopologyGone(name) => ("topology", name.to_string(), true),
        Input::Storage(fact) => {
            let ((kind, namespace, name), gone) = fact.about();
            return (format!("{kind:?} {namespace}/{name}"), gone);
        }
        Input::Slice(slice) => ("slice", slice.name.to_string(), false),
        Input::SliceGone(name) => ("slice", name.to_string(), true),
        Input::Answers { query, slice, .. } => ("answers", format!("{query} {slice}"), false),
        Input::ResourceClaim(claim) => ("claim", claim.key.1.to_string(), false),
        Input::ResourceClaimGone(key) => ("claim", key.1.to_string(), true),
        Input::BackedResources(_) => ("backed", "".to_owned(), false),
        Input::QueryGone(_) | Input::Policy(_) | Input::Outcome { .. } => {
            panic!("no fact of an object: {input:?}")
        }
    };
    (format!("{kind} {name}"), gone)
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
