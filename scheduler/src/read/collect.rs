//! Takes objects as they are read: finds out their kind, decodes them, drafts their facts.
//!
//! Decides what counts as a mistake, what as a warning and what is ignored; one broken object
//! never hides another. Objects themselves are dropped at once, so that memory grows with what
//! the engine needs and not with the size of the files.

use std::collections::BTreeMap;

use capstan_core::model::input::Text;
use capstan_core::time::Time;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decode;
use super::error::{Notice, Place, ReadError};
use super::json::Take;
use super::kinds::{self, Known, OUR_KINDS, Origin, Queueing};
use super::kueue;
use super::names;
use super::schema::{self, Finding};
use crate::api::classes::{PriorityClass, WorkloadPriorityClass};
use crate::api::cluster_queue::{ClusterQueueSpec, CohortSpec};
use crate::api::flavor::{ResourceFlavorSpec, TopologySpec};
use crate::api::job::Job;
use crate::api::local_queue::LocalQueueSpec;
use crate::api::meta::{Object, OnlyMeta};
use crate::api::node::Node;
use crate::api::pod::Pod;
use crate::api::workload::WorkloadSpec;
use crate::api::{GROUP, GoDuration};
use crate::config::Config;
use crate::convert::gathered::{OwnerDraft, PriorityClassDraft};
use crate::convert::{self, Gathered, Refusal, job, marks, node, note, pod, quota};
use crate::prices::{PRICE_ANNOTATION, parse_usd};

/// Complaints kept; more would help nobody.
const ERRORS_MAX: usize = 1_000;

/// Takes objects of any number of files.
pub struct Collector<'a> {
    config: &'a Config,
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
}

/// Earliest and latest times of what was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Latest time of creation, binding or start.
    pub latest: Option<Time>,
    /// Earliest creation of a pod or Job.
    pub earliest_work: Option<Time>,
    /// Earliest creation of anything.
    pub earliest: Option<Time>,
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
            gathered: Gathered::default(),
            errors: Vec::new(),
            errors_beyond: 0,
            warnings: Vec::new(),
            ignored: BTreeMap::new(),
            times: Times::default(),
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
            self.ignore(place, &api_version, &kind);
            return None;
        };
        if let Known::Queueing(_, Origin::KueueV1Beta1) = known {
            kueue::upgrade(&mut value);
        }
        let meta = &value["metadata"];
        let text = |key: &str| meta[key].as_str().filter(|text| !text.is_empty());
        let namespace = match known.namespaced() {
            true => text("namespace").unwrap_or("default"),
            false => "",
        };
        let name = text("name").unwrap_or_default().to_owned();
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
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
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

    fn ignore(&mut self, place: Place, api_version: &str, kind: &str) {
        let ours = api_version.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/'));
        let known = OUR_KINDS.contains(&kind);
        if ours {
            let mut problem = match kind {
                crate::config::KIND => "is no object; pass it with --config".to_owned(),
                _ if known => format!("{api_version} is not read; write {GROUP}/v1alpha1"),
                _ => format!("no kind of {GROUP}; it was ignored"),
            };
            if let Some(near) = schema::nearest(kind, OUR_KINDS.into_iter()).filter(|_| !known) {
                problem.push_str(&format!(" (did you mean {near}?)"));
            }
            let object = Some(kind.into());
            self.warnings.push(Notice { place: Some(place), object, path: None, problem });
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
            Known::Owner => self.owner(named),
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
        let annotations = object.metadata.annotations.as_ref();
        if let Some(text) = annotations.and_then(|all| all.get(PRICE_ANNOTATION))
            && parse_usd(text.trim()).is_none()
        {
            let problem = note::malformed(PRICE_ANNOTATION, text, "US dollars an hour (try 3.06)");
            self.warn(named, None, problem.to_string());
        }
        self.times.created(object.metadata.creation_timestamp.as_ref().map(convert::time), false);
        let facts = node::facts(&object, &self.config.prices, &mut self.gathered.shared);
        self.gathered.nodes.push(facts);
        Ok(())
    }

    fn pod(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: Pod = decode::lenient(&named.value)?;
        let scheduler = &self.config.scheduler_name;
        let draft = pod::draft(&object, scheduler, &mut self.gathered.shared).map_err(refused)?;
        self.times.created(draft.created, true);
        self.times.saw(draft.bound_at);
        self.times.saw(object.status.start_time.as_ref().map(convert::time));
        self.gathered.pods.push(draft);
        Ok(())
    }

    fn job(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: Job = decode::lenient(&named.value)?;
        let scheduler = &self.config.scheduler_name;
        let draft = job::draft(&object, scheduler, &mut self.gathered.shared).map_err(refused)?;
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
        let draft = PriorityClassDraft {
            value: object.value,
            global_default: object.global_default,
            never_preempts: object.preemption_policy.as_deref() == Some("Never"),
        };
        self.gathered.priority_classes.insert(named.name.as_str().into(), draft);
        Ok(())
    }

    fn owner(&mut self, named: &Named) -> Result<(), Vec<Finding>> {
        let object: OnlyMeta = decode::lenient(&named.value)?;
        let kind = named.value["kind"].as_str().unwrap_or_default();
        // Only marks are read there, so a template that is odd is no mistake.
        let template: OnlyMeta =
            decode::lenient(&named.value["spec"]["template"]).unwrap_or_default();
        let shared = &mut self.gathered.shared;
        let draft = OwnerDraft {
            kind: shared.texts.text(kind),
            namespace: shared.texts.text(marks::namespace(&object.metadata)),
            name: named.name.as_str().into(),
            uid: marks::uid(&object.metadata, &kind.to_lowercase()),
            marks: shared.marks_of(&object.metadata),
            template: shared.marks_of(&template.metadata),
            owner: marks::owner(&object.metadata, shared),
        };
        self.gathered.owners.push(draft);
        Ok(())
    }

    fn queueing(
        &mut self,
        named: &Named,
        kind: Queueing,
        origin: Origin,
    ) -> Result<(), Vec<Finding>> {
        let name = named.name.as_str();
        match kind {
            Queueing::ClusterQueue => {
                let spec: ClusterQueueSpec = self.spec(named, origin)?;
                self.without_effect(named, &spec);
                let facts = quota::cluster_queue(name, &spec, origin);
                self.gathered.cluster_queues.push((origin, facts));
            }
            Queueing::LocalQueue => {
                let spec: LocalQueueSpec = self.spec(named, origin)?;
                let namespace = named.value["metadata"]["namespace"].as_str();
                let namespace = namespace.filter(|name| !name.is_empty()).unwrap_or("default");
                let namespace = self.gathered.shared.texts.text(namespace);
                let facts = quota::local_queue(namespace, name, &spec);
                self.gathered.local_queues.push((origin, facts));
            }
            Queueing::Cohort => {
                let spec: CohortSpec = self.spec(named, origin)?;
                self.gathered.cohorts.push((origin, quota::cohort(name, &spec)));
            }
            Queueing::ResourceFlavor => {
                let spec: ResourceFlavorSpec = self.spec(named, origin)?;
                self.gathered.flavors.push((origin, quota::flavor(name, &spec)));
            }
            Queueing::Topology => {
                let spec: TopologySpec = self.spec(named, origin)?;
                let (levels, broken) = quota::topology(&spec);
                for problem in broken {
                    self.warn(named, None, problem);
                }
                self.gathered.topologies.push((origin, name.into(), levels));
            }
            Queueing::WorkloadPriorityClass => {
                let class: WorkloadPriorityClass = self.whole(named, origin)?;
                let classes = &mut self.gathered.workload_priority_classes;
                classes.push((origin, name.into(), class.value));
            }
            // What a Workload says is rebuilt from its pods.
            Queueing::Workload => drop(self.spec::<WorkloadSpec>(named, origin)?),
        }
        Ok(())
    }

    /// The spec of a queue object, strictly in our group and tolerantly in Kueue's.
    fn spec<S>(&mut self, named: &Named, origin: Origin) -> Result<S, Vec<Finding>>
    where
        S: DeserializeOwned + JsonSchema + Default + 'static,
    {
        Ok(self.whole::<Object<S>>(named, origin)?.spec)
    }

    fn whole<T>(&mut self, named: &Named, origin: Origin) -> Result<T, Vec<Finding>>
    where
        T: DeserializeOwned + JsonSchema + 'static,
    {
        let (object, unknown) = decode::tolerant::<T>(&named.value).map_err(|wrong| {
            // What is unknown is said too: the object is refused as a whole.
            let all = schema::check(&schema::of::<T>(), &named.value, "");
            let counts = |one: &Finding| !one.unknown || (counted(one) && !origin.is_kueue());
            let all: Vec<Finding> = all.into_iter().filter(counts).collect();
            if all.is_empty() { wrong } else { all }
        })?;
        let unknown: Vec<Finding> = unknown.into_iter().filter(counted).collect();
        if !origin.is_kueue() && !unknown.is_empty() {
            return Err(unknown);
        }
        for finding in unknown {
            let problem = kueue::unknown(&finding);
            self.warn(named, Some(finding.path), problem);
        }
        let created = named.value["metadata"]["creationTimestamp"].as_str();
        let created = created.and_then(|text| text.parse::<k8s_openapi::jiff::Timestamp>().ok());
        self.times.created(created.map(|stamp| Time(stamp.as_millisecond())), false);
        Ok(object)
    }

    fn warn(&mut self, named: &Named, path: Option<String>, problem: String) {
        let (place, object) = (Some(named.place.clone()), Some(named.object.clone()));
        self.warnings.push(Notice { place, object, path, problem });
    }

    /// Fields that are understood but change nothing yet must not be trusted in silence.
    fn without_effect(&mut self, named: &Named, spec: &ClusterQueueSpec) {
        let preemption = spec.preemption.as_ref();
        let duration = |given: Option<Option<GoDuration>>| given.flatten().is_some();
        let set = [
            ("spec.budget", spec.budget.is_some()),
            ("spec.preemption.minRuntime", duration(preemption.map(|it| it.min_runtime))),
            ("spec.preemption.delay", duration(preemption.map(|it| it.delay))),
            (
                "spec.preemption.victimOrder",
                preemption.is_some_and(|preemption| preemption.victim_order.is_some()),
            ),
        ];
        for (path, _) in set.iter().filter(|(_, set)| *set) {
            let problem = "has no effect in this version".to_owned();
            self.warn(named, Some((*path).to_owned()), problem);
        }
    }
}

/// Whether an unknown field is anybody's business: the API server owns metadata and status.
fn counted(finding: &Finding) -> bool {
    let top = finding.path.split(['.', '[']).next().unwrap_or_default();
    !matches!(top, "metadata" | "status" | "apiVersion" | "kind")
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
