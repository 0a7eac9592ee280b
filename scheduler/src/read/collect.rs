//! Takes objects as they are read: finds out their kind, decodes them, drafts their facts.
//!
//! Decides what counts as a mistake, what as a warning and what is ignored; one broken object
//! never hides another. Objects themselves are dropped at once, so that memory grows with what
//! the engine needs and not with the size of the files.

use std::collections::BTreeMap;

use capstan_core::model::input::Text;
use capstan_core::time::Time;
use serde_json::Value;

use super::decode;
use super::error::{Notice, Place, ReadError};
use super::json::Take;
use super::kinds::{self, DeviceKind, Known, OUR_KINDS, Origin, Queueing, StorageKind};
use super::kueue::{is_deactivated, without_equal};
use super::names;
use super::queueing;
use super::schema::{self, Finding};
use crate::api::budget::PodDisruptionBudget;
use crate::api::classes::{PriorityClass, RuntimeClass};
use crate::api::devices::DeviceObject;
use crate::api::job::Job;
use crate::api::limits::LimitRange;
use crate::api::meta::OnlyMeta;
use crate::api::node::Node;
use crate::api::pod::Pod;
use crate::api::{GROUP, KUEUE_GROUP, storage};
use crate::config::Config;
use crate::convert::gang::GangDraft;
use crate::convert::gathered::{Identity, OwnerDraft, PriorityClassDraft};
use crate::convert::group::GroupDraft;
use crate::convert::quota::Draft;
use crate::convert::ranges::LimitRangeDraft;
use crate::convert::runtime::RuntimeClassDraft;
use crate::convert::storage::Storage;
use crate::convert::{self, Gathered, Refusal, budget, devices, job, marks, node, pod};
use crate::gangs;

/// Complaints kept; more would help nobody.
const ERRORS_MAX: usize = 1_000;

/// Takes objects of any number of files.
pub struct Collector<'a> {
    /// The configuration that they are read by.
    pub config: &'a Config,
    /// Drafts and facts.
    pub gathered: Gathered,
    /// What is wrong.
    pub errors: Vec<ReadError>,
    /// How many more things are wrong.
    pub errors_beyond: usize,
    /// What is worth knowing.
    pub warnings: Vec<Notice>,
    /// Objects of kinds that nobody knows.
    pub ignored: BTreeMap<String, usize>,
    /// Times seen.
    pub times: Times,
    /// How many names were made of each beginning.
    generated: BTreeMap<Identity, u32>,
}

/// Earliest and latest times of what was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Latest time of creation, binding or start, or of a queue's deletion.
    pub latest: Option<Time>,
    /// Earliest creation of a pod or Job.
    pub earliest_work: Option<Time>,
    /// Earliest creation of anything.
    pub earliest: Option<Time>,
    /// The latest time at which a claim got devices that are not ready yet.
    pub devices_given: Option<Time>,
}

impl Times {
    fn created(&mut self, time: Option<Time>, work: bool) {
        self.saw(time);
        self.earliest = earlier(self.earliest, time);
        if work {
            self.earliest_work = earlier(self.earliest_work, time);
        }
    }

    fn saw(&mut self, time: Option<Time>) {
        self.latest = self.latest.max(time);
    }
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// An object whose kind and name are known.
struct Named {
    place: Place,
    known: Known,
    object: Text,
    name: String,
    /// Fields of its name that were complained of.
    misnamed: Vec<&'static str>,
    value: Value,
}

impl Take for Collector<'_> {
    fn object(&mut self, place: Place, value: Value) {
        if let Some(named) = self.name(place, value) {
            self.read(&named);
        }
    }

    fn complain(&mut self, error: ReadError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        } else {
            self.errors_beyond += 1;
        }
    }
}

impl<'a> Collector<'a> {
    /// Nothing taken yet.
    pub fn new(config: &'a Config) -> Collector<'a> {
        Collector {
            config,
            gathered: Gathered { scheduler: config.scheduler_name.clone(), ..Gathered::default() },
            errors: Vec::new(),
            errors_beyond: 0,
            warnings: Vec::new(),
            ignored: BTreeMap::new(),
            times: Times::default(),
            generated: BTreeMap::new(),
        }
    }

    /// Finds out what an object is; `None`: a mistake, or nothing that is read.
    fn name(&mut self, place: Place, mut value: Value) -> Option<Named> {
        if !value.is_object() {
            let problem =
                format!("{}, not an object with apiVersion and kind", schema::named(&value));
            self.complain(ReadError::at(place, problem));
            return None;
        }
        let api_version = self.word(&place, &value, "apiVersion")?;
        let kind = self.word(&place, &value, "kind")?;
        let Some(known) = kinds::known(&api_version, &kind) else {
            if kinds::is_list(&api_version, &kind) && !value["items"].is_null() {
                let problem = schema::mistyped("array", &value["items"]);
                let (object, path) = (Some(kind.into()), Some("items".to_owned()));
                self.complain(ReadError { place: Some(place), object, path, problem });
                return None;
            }
            self.ignore(place, &api_version, &kind, &value);
            return None;
        };
        if let Known::Queueing(_, origin) = known {
            queueing::upgrade(&mut value, origin);
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let told = self.generate((group, &kind), known, &mut value);
        let meta = &value["metadata"];
        let namespace = namespace_of(meta, known);
        let name = meta["name"].as_str().unwrap_or_default().to_owned();
        let object: Text = match (namespace, &*name) {
            (_, "") => kind.clone(),
            ("" | "default", _) => format!("{kind} {name}"),
            _ => format!("{kind} {namespace}/{name}"),
        }
        .into();
        let problems = names::problems(meta, known, namespace);
        let misnamed = problems.iter().map(|(path, _)| *path).collect();
        for (path, problem) in problems {
            let (place, object) = (Some(place.clone()), Some(object.clone()));
            self.complain(ReadError { place, object, path: Some(path.to_owned()), problem });
        }
        if name.is_empty() {
            return Some(Named { place, known, object, name, misnamed, value });
        }
        if told {
            let problem = format!(
                "left to an API server (generateName); called {name} here, others that begin so by \
                 the numbers that follow"
            );
            let (place, path) = (Some(place.clone()), Some("metadata.name".to_owned()));
            self.warnings.push(Notice { place, object: Some(object.clone()), path, problem });
        }
        let mut share = |text: &str| self.gathered.shared.texts.text(text);
        let identity = (share(group), share(&kind), share(namespace), Text::from(name.as_str()));
        if let Some(first) = self.gathered.places.get(&identity) {
            let problem = format!("given twice; first in {first}; remove one");
            let place = Some(place);
            self.complain(ReadError { place, object: Some(object), path: None, problem });
            return None;
        }
        self.gathered.places.insert(identity, place.clone());
        Some(Named { place, known, object, name, misnamed, value })
    }

    /// Names an object that leaves that to an API server by what it says and a number, in the order
    /// in which they are read; whether it is the first that begins so.
    fn generate(&mut self, (group, kind): (&str, &str), known: Known, value: &mut Value) -> bool {
        let meta = &value["metadata"];
        let Some(begins) = names::to_be_generated(meta) else { return false };
        let mut share = |text: &str| self.gathered.shared.texts.text(text);
        let (group, kind) = (share(group), share(kind));
        let namespace = share(namespace_of(meta, known));
        let identity = |name: &str| -> Identity {
            (group.clone(), kind.clone(), namespace.clone(), Text::from(name))
        };
        let count = self.generated.entry(identity(begins)).or_default();
        let first = *count == 0;
        let name = loop {
            *count += 1;
            let name = format!("{begins}{count}");
            if !self.gathered.places.contains_key(&identity(&name)) {
                break name;
            }
        };
        value["metadata"]["name"] = name.into();
        first
    }

    fn word(&mut self, place: &Place, value: &Value, key: &str) -> Option<String> {
        let problem = match &value[key] {
            Value::String(word) if !word.is_empty() => return Some(word.clone()),
            Value::Null | Value::String(_) => {
                "missing; every object needs apiVersion and kind".to_owned()
            }
            other => schema::mistyped("string", other),
        };
        let path = Some(key.to_owned());
        self.complain(ReadError { place: Some(place.clone()), object: None, path, problem });
        None
    }

    fn ignore(&mut self, place: Place, api_version: &str, kind: &str, value: &Value) {
        let of = |group| api_version.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'));
        let known = OUR_KINDS.contains(&kind);
        // Kueue's Workloads are its own bookkeeping, whatever their version.
        let theirs = of(KUEUE_GROUP) && known && kind != "Workload";
        if of(GROUP) || theirs {
            let mut problem = match kind {
                _ if theirs => {
                    format!("{api_version} is not read; {KUEUE_GROUP}/v1beta2 and v1beta1 are")
                }
                crate::config::KIND => "is no object; pass it with --config".to_owned(),
                _ if known => format!("{api_version} is not read; write {GROUP}/v1alpha1"),
                _ => format!("no kind of {GROUP}; it was ignored"),
            };
            if let Some(near) = schema::nearest(kind, OUR_KINDS.into_iter()).filter(|_| !known) {
                problem.push_str(&format!(" (did you mean {near}?)"));
            }
            let object = Some(kind.into());
            return self.warnings.push(Notice { place: Some(place), object, path: None, problem });
        }
        if of("scheduling.k8s.io") && kind == "CompositePodGroup" {
            let problem = "trees of groups are not started: PodGroups in one wait".to_owned();
            let object = Some(kind.into());
            return self.warnings.push(Notice { place: Some(place), object, path: None, problem });
        }
        if of(KUEUE_GROUP) && kind == "Workload" && is_deactivated(value) {
            let text = |key: &str| value["metadata"][key].as_str().unwrap_or_default();
            let object = match text("namespace") {
                "" | "default" => format!("{kind} {}", text("name")),
                namespace => format!("{kind} {namespace}/{}", text("name")),
            };
            let (object, path) = (Some(object.into()), Some("spec.active".to_owned()));
            let problem = "false in Kueue, whose Workloads are not read: its work starts here \
                           unless a Workload of capstan.sh holds it, which capstan migrate kueue \
                           writes";
            let (place, problem) = (Some(place), problem.to_owned());
            return self.warnings.push(Notice { place, object, path, problem });
        }
        if let Some(problem) = without_equal(kind, value).filter(|_| of(KUEUE_GROUP)) {
            let name = value["metadata"]["name"].as_str().unwrap_or_default();
            let (place, object) = (Some(place), Some(format!("{kind} {name}").into()));
            return self.warnings.push(Notice { place, object, path: None, problem });
        }
        let counted = if known { format!("{kind} ({api_version})") } else { kind.to_owned() };
        *self.ignored.entry(counted).or_default() += 1;
    }

    fn read(&mut self, named: &Named) {
        let result = match named.known {
            Known::Node => self.node(named),
            Known::Pod => self.pod(named),
            Known::Job => self.job(named),
            Known::Namespace => self.namespace(named),
            Known::PriorityClass => self.priority_class(named),
            Known::RuntimeClass => self.runtime_class(named),
            Known::LimitRange => self.limit_range(named),
            Known::Budget => self.budget(named),
            Known::Devices(kind) => self.devices(named, kind),
            Known::Owner => self.owner(named),
            Known::Storage(kind) => self.storage(named, kind),
            Known::Gang(kind) => self.gang(named, kind),
            Known::Queueing(kind, origin) => self.queueing(named, kind, origin),
        };
        for finding in result.err().unwrap_or_default() {
            if named.misnamed.contains(&&*finding.path) {
                continue;
            }
            self.complain(located(named, finding));
        }
    }

    fn node(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: Node = decode::lenient(&named.value)?;
        node::refuse(&object).map_err(refused)?;
        if let Some(problem) = node::remark(&object) {
            self.warn(named, None, problem);
        }
        self.times.created(object.metadata.creation_timestamp.as_ref().map(convert::time), false);
        let facts = node::facts(&object, &self.config.prices, &mut self.gathered.shared);
        self.gathered.nodes.push(facts);
        Ok(())
    }

    fn pod(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: Pod = decode::lenient(&named.value)?;
        let draft = pod::draft(&object, &mut self.gathered.shared).map_err(refused)?;
        self.times.created(draft.created, true);
        self.times.saw(draft.bound_at);
        self.times.saw(object.status.start_time.as_ref().map(convert::time));
        self.gathered.pods.push(draft);
        Ok(())
    }

    fn job(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: Job = decode::lenient(&named.value)?;
        let draft = job::draft(&object, &mut self.gathered.shared).map_err(refused)?;
        self.times.created(draft.created, true);
        self.gathered.jobs.push(draft);
        Ok(())
    }

    fn namespace(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: OnlyMeta = decode::lenient(&named.value)?;
        self.times.created(object.metadata.creation_timestamp.as_ref().map(convert::time), false);
        let labels = marks::labels(&object.metadata.labels, &mut self.gathered.shared);
        self.gathered.namespaces.insert(named.name.as_str().into(), labels);
        Ok(())
    }

    fn priority_class(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: PriorityClass = decode::lenient(&named.value)?;
        let draft = PriorityClassDraft::of(&object);
        self.gathered.priority_classes.insert(named.name.as_str().into(), draft);
        Ok(())
    }

    fn runtime_class(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: RuntimeClass = decode::lenient(&named.value)?;
        let draft = RuntimeClassDraft::of(&object).map_err(refused)?;
        self.gathered.runtime_classes.insert(named.name.as_str().into(), draft);
        Ok(())
    }

    fn limit_range(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: LimitRange = decode::lenient(&named.value)?;
        let draft = LimitRangeDraft::of(&object).map_err(refused)?;
        let (namespace, name) = (marks::namespace(&object.metadata), named.name.as_str());
        self.gathered.limit_ranges.put(&namespace.into(), &name.into(), Some(draft));
        Ok(())
    }

    fn storage(&mut self, named: &Named, kind: StorageKind) -> Result<(), Vec<Finding>> {
        let value = &named.value;
        let object: Box<dyn Storage> = match kind {
            StorageKind::Claim => Box::new(decode::lenient::<storage::Claim>(value)?),
            StorageKind::Volume => Box::new(decode::lenient::<storage::Volume>(value)?),
            StorageKind::Class => Box::new(decode::lenient::<storage::StorageClass>(value)?),
            StorageKind::Driver => Box::new(decode::lenient::<storage::CsiDriver>(value)?),
            StorageKind::Node => Box::new(decode::lenient::<storage::CsiNode>(value)?),
            StorageKind::Capacity => Box::new(decode::lenient::<storage::StorageCapacity>(value)?),
            StorageKind::Attachment => Box::new(decode::lenient::<storage::Attachment>(value)?),
        };
        let fact = object.fact(&mut self.gathered.shared);
        self.gathered.storage.push(fact);
        object.note_default(&mut self.gathered.default_class);
        Ok(())
    }

    fn budget(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: PodDisruptionBudget = decode::lenient(&named.value)?;
        let draft = budget::draft(&object, &mut self.gathered.shared);
        self.gathered.budgets.push(draft);
        Ok(())
    }

    fn devices(&mut self, named: &Named, kind: DeviceKind) -> Result<(), Vec<Finding>> {
        let value = &named.value;
        let object = match kind {
            DeviceKind::Slice => DeviceObject::Slice(decode::lenient(value)?),
            DeviceKind::Class => DeviceObject::Class(decode::lenient(value)?),
            DeviceKind::Claim => DeviceObject::Claim(decode::lenient(value)?),
            DeviceKind::Template => DeviceObject::Template(decode::lenient(value)?),
            DeviceKind::TaintRule => DeviceObject::TaintRule(decode::lenient(value)?),
        };
        let created = object.metadata().creation_timestamp.as_ref().map(convert::time);
        self.times.created(created, false);
        if let DeviceObject::Claim(claim) = &object {
            let given = devices::waits_since(&claim.status);
            self.times.devices_given = self.times.devices_given.max(given);
        }
        self.gathered.devices.put(&object, &mut self.gathered.shared);
        Ok(())
    }

    fn owner(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: OnlyMeta = decode::lenient(&named.value)?;
        let kind = named.value["kind"].as_str().unwrap_or_default();
        // Only marks are read there, so a template that is odd is no mistake.
        let template: OnlyMeta =
            decode::lenient(&named.value["spec"]["template"]).unwrap_or_default();
        let draft =
            OwnerDraft::of(kind, &object.metadata, &template.metadata, &mut self.gathered.shared);
        self.gathered.owners.push(draft);
        Ok(())
    }

    fn gang(&mut self, named: &Named, kind: gangs::kinds::Kind) -> Result<(), Vec<Finding>> {
        decode::lenient::<OnlyMeta>(&named.value)?;
        let shared = &mut self.gathered.shared;
        let odd = if kind.is_group() {
            let (draft, odd) = GroupDraft::of(kind, &named.value, shared);
            self.gathered.groups.push(draft);
            odd
        } else {
            let (draft, odd) = GangDraft::of(kind, &named.value, shared).map_err(refused)?;
            self.times.created(draft.created, true);
            self.gathered.gangs.push(draft);
            odd
        };
        for Refusal { path, problem } in odd {
            self.warn(named, Some(path), problem);
        }
        Ok(())
    }

    fn queueing(
        &mut self,
        named: &Named,
        kind: Queueing,
        origin: Origin,
    ) -> Result<(), Vec<Finding>> {
        let namespace = named.value["metadata"]["namespace"].as_str();
        let namespace = namespace.filter(|name| !name.is_empty()).unwrap_or("default");
        let names = (namespace, named.name.as_str());
        let mut decoded = queueing::decode(kind, origin, names, &named.value)?;
        if !origin.is_kueue() && !decoded.unknown.is_empty() {
            return Err(decoded.unknown);
        }
        let created = named.value["metadata"]["creationTimestamp"].as_str();
        let created = created.and_then(|text| text.parse::<k8s_openapi::jiff::Timestamp>().ok());
        self.times.created(created.map(|stamp| Time(stamp.as_millisecond())), false);
        if let Some(draft) = decoded.draft.take() {
            if let Draft::ClusterQueue(queue, _) = &draft {
                self.times.saw(queue.deleted);
            }
            self.gathered.queueing.take(origin, draft);
        }
        for (path, problem) in decoded.said() {
            self.warn(named, path, problem);
        }
        Ok(())
    }

    fn warn(&mut self, named: &Named, path: Option<String>, problem: String) {
        let (place, object) = (Some(named.place.clone()), Some(named.object.clone()));
        self.warnings.push(Notice { place, object, path, problem });
    }
}

/// The namespace that an object is in; empty where its kind has none.
fn namespace_of(meta: &Value, known: Known) -> &str {
    let said = meta["namespace"].as_str().filter(|text| !text.is_empty());
    if known.namespaced() { said.unwrap_or("default") } else { "" }
}

fn refused(refusals: Vec<Refusal>) -> Vec<Finding> {
    let one =
        |refusal: Refusal| Finding { path: refusal.path, problem: refusal.problem, unknown: false };
    refusals.into_iter().map(one).collect()
}

fn located(named: &Named, finding: Finding) -> ReadError {
    ReadError {
        place: Some(named.place.clone()),
        object: Some(named.object.clone()),
        path: Some(finding.path),
        problem: finding.problem,
    }
}
