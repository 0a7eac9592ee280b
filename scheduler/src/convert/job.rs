//! batch/v1 Jobs, as far as they can be understood without their owners and classes.
//!
//! Decides how many pods a Job makes, whether it is done, and which of its runs the next one is.

use std::sync::Arc;

use capstan_core::model::input::{
    BindingNote, EvictionNote, Held, OwnerEnd, PodShape, RequeueNote, Text,
};
use capstan_core::time::Time;

use super::devices::PodClaimDraft;
use super::directory::Directory;
use super::marks::{self, Marks, OwnerName};
use super::pod;
use super::ranges::Contents;
use super::ranks::Ranked;
use super::runtime::Runtime;
use super::sharing::{Pairs, Shared};
use super::storage::{self, Holder};
use super::{Refusal, devices, neighbours, note, requests, selector, time};
use crate::api::job::Job;
use crate::api::keys;
use crate::api::pod::{PodStatus, is_true};
use crate::gangs;

/// A Job that waits for its owners and classes.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDraft {
    /// Unique id.
    pub uid: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Creation time, if given.
    pub created: Option<Time>,
    /// Our labels and annotations on its template.
    pub template: Arc<Marks>,
    /// Labels of its pods.
    pub labels: Pairs,
    /// Our labels and annotations on the Job.
    pub marks: Arc<Marks>,
    /// Who owns it.
    pub owner: Option<OwnerName>,
    /// Who schedules its pods.
    pub scheduler: Option<Text>,
    /// Who makes its pods, if that is not the controller of Jobs.
    pub elsewhere: Option<Text>,
    /// `spec.suspend`.
    pub suspended: bool,
    /// How often we suspended it.
    pub incarnation: u32,
    /// It carries our mark of suspension. One that we resumed and that is suspended all the same
    /// was suspended by somebody else, who will say when it goes on.
    pub marked: bool,
    /// How its work ended, once it has.
    pub finished: Option<OwnerEnd>,
    /// Pods that it makes at a time from now on.
    pub count: u32,
    /// `status.succeeded`.
    pub succeeded: u32,
    /// Indexes that failed for good.
    pub failed: u32,
    /// Successes that are missing; `None`: it makes no more pods once one has ended well.
    pub left: Option<u32>,
    /// In place of how many pods that end well it makes others.
    pub replaces: u32,
    /// Every index runs at the same time.
    pub parallel_by_index: bool,
    /// Shape of its pods, without the capacity types that an owner may add.
    pub shape: Arc<PodShape>,
    /// The RuntimeClass of its pods, which has a say in their shape.
    pub runtime: Option<Box<Runtime>>,
    /// What their containers state, of which LimitRanges have a say.
    pub contents: Arc<Contents>,
    /// Claims of its pods on devices, if they have any.
    pub claims: Option<Arc<Vec<PodClaimDraft>>>,
    /// How its pods are ranked.
    pub ranked: Ranked,
    /// What it was resumed with.
    pub admitted: Option<BindingNote>,
    /// Who wants its room, while it still has pods.
    pub eviction: Option<EvictionNote>,
    /// What it bears of the runs that we stopped.
    pub requeued: Option<Box<RequeueNote>>,
    /// Values of ours that could not be read.
    pub ignored: Vec<Text>,
}

/// The draft of a Job.
pub fn draft(job: &Job, shared: &mut Shared) -> Result<JobDraft, Vec<Refusal>> {
    let (meta, spec, status) = (&job.metadata, &job.spec, &job.status);
    let template = &spec.template;
    refuse(job)?;
    let marks = shared.marks_of(meta);
    let mut ignored = Vec::new();
    let mut shape = pod::shape(&template.spec);
    shape.requests = requests::of_pod(&template.spec, &PodStatus::default()).effective();
    selector::add_default_tolerations(&mut shape.tolerations);
    let namespace = shared.texts.text(marks::namespace(meta));
    let uid = marks::uid(meta, "job");
    let labels = labels(job, &uid, shared);
    shape.neighbours = neighbours::of(&template.spec, &namespace, &labels);
    let node_name = template.spec.node_name.as_deref().filter(|name| !name.is_empty());
    shape.node_name = node_name.map(|name| shared.texts.text(name));
    let holder = Holder { namespace: marks::namespace(meta), pod: None };
    shape.volumes = storage::of_pod(&template.spec.volumes, &holder, shared);
    let times = marks.annotations.get(keys::SUSPENDED);
    let counted = times.and_then(|text| text.parse::<u32>().ok());
    if let Some(text) = times.filter(|_| counted.is_none()) {
        ignored.push(note::malformed(keys::SUSPENDED, text, "a count"));
    }
    let leaving = spec.suspend && (status.active > 0 || status.terminating > 0);
    Ok(JobDraft {
        uid,
        namespace,
        labels,
        name: marks::name(meta).into(),
        created: meta.creation_timestamp.as_ref().map(time),
        template: shared.marks_of_pod(&template.metadata, &template.spec),
        owner: marks::owner(meta, shared),
        scheduler: template.spec.scheduler_name.as_deref().map(|name| shared.texts.text(name)),
        elsewhere: gangs::made_elsewhere(None, spec.managed_by.as_deref())
            .map(|by| shared.texts.text(by)),
        suspended: spec.suspend,
        incarnation: counted.unwrap_or(0),
        marked: counted.is_some_and(|count| count > 0)
            && !(spec.suspend && marks.annotations.contains_key(keys::ADMITTED)),
        finished: finished(job),
        count: count(job),
        succeeded: u32::try_from(status.succeeded).unwrap_or(0),
        failed: failed(job),
        left: left(job),
        replaces: replaces(job),
        parallel_by_index: spec.completion_mode.as_deref() == Some("Indexed")
            && spec.completions.is_some()
            && spec.completions == Some(spec.parallelism.unwrap_or(1)),
        shape: shared.shapes.of(shape),
        runtime: Runtime::of(&template.spec, shared),
        contents: Contents::of(&template.spec, false, shared),
        claims: devices::of_pod(&template.spec, None, shared),
        ranked: Ranked::of(&template.spec, shared),
        admitted: note::admitted(&marks.annotations, shared, &mut ignored),
        eviction: if leaving { note::eviction(&marks, &mut ignored) } else { None },
        requeued: note::requeued(&marks.annotations, &mut ignored).map(Box::new),
        marks,
        ignored,
    })
}

/// Labels of its pods. An API server writes who made them into the template; a file may not have
/// seen one yet.
fn labels(job: &Job, uid: &Text, shared: &mut Shared) -> Pairs {
    const MADE_BY: [&str; 2] = ["batch.kubernetes.io/", ""];
    let mut labels = job.spec.template.metadata.labels.clone().unwrap_or_default();
    for prefix in MADE_BY {
        for (key, value) in [("job-name", marks::name(&job.metadata)), ("controller-uid", &**uid)] {
            labels.entry(format!("{prefix}{key}")).or_insert_with(|| value.to_owned());
        }
    }
    shared.labels_of(Some(&labels))
}

/// How its work ended. One that is being deleted makes no more pods.
fn finished(job: &Job) -> Option<OwnerEnd> {
    let holds = |kind| is_true(&job.status.conditions, kind);
    if holds("Complete").is_some() {
        return Some(OwnerEnd::Succeeded);
    }
    if let Some(failed) = holds("Failed") {
        let reason = Some(&failed.reason).filter(|reason| !reason.is_empty());
        return Some(OwnerEnd::Failed(reason.map(|reason| reason.as_str().into())));
    }
    job.metadata.deletion_timestamp.is_some().then_some(OwnerEnd::Deleted)
}

/// What an API server would not take in a Job, beyond wrong types.
fn refuse(job: &Job) -> Result<(), Vec<Refusal>> {
    let spec = &job.spec;
    let counts = [("parallelism", spec.parallelism), ("completions", spec.completions)];
    let mut refusals: Vec<Refusal> = Vec::new();
    for (key, count) in counts {
        if let Some(count) = count.filter(|count| *count < 0) {
            let problem = format!("{count} is below zero; write 0 or more");
            refusals.push(Refusal::new(format!("spec.{key}"), problem));
        }
    }
    let pods = pod::refuse(&spec.template.spec, "spec.template.spec");
    refusals.extend(pods.err().unwrap_or_default());
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

/// Pods at a time: parallelism, but never more than successes are missing.
fn count(job: &Job) -> u32 {
    parallelism(job).min(left(job).unwrap_or(u32::MAX))
}

fn parallelism(job: &Job) -> u32 {
    u32::try_from(job.spec.parallelism.unwrap_or(1)).unwrap_or(0)
}

/// In place of how many pods that end well it makes others: as many as it is to bring to a good end
/// beyond those of one time, and no others; none where one success is enough.
fn replaces(job: &Job) -> u32 {
    let completions = u32::try_from(job.spec.completions.unwrap_or(0)).unwrap_or(0);
    completions.saturating_sub(failed(job)).saturating_sub(parallelism(job))
}

/// Successes that are missing and may still come: not those of indexes that failed for good.
fn left(job: &Job) -> Option<u32> {
    let missing = job.spec.completions?.saturating_sub(job.status.succeeded);
    Some(u32::try_from(missing).unwrap_or(0).saturating_sub(failed(job)))
}

/// Indexes that failed for good.
fn failed(job: &Job) -> u32 {
    job.status.failed_indexes.as_deref().map_or(0, indexes)
}

/// How many indexes a list of numbers and ranges names; what is neither names none.
fn indexes(list: &str) -> u32 {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let named = |part: &str| match part.split_once('-') {
        Some((first, last)) => (number(last)?).checked_sub(number(first)?)?.checked_add(1),
        None => number(part).map(|_| 1),
    };
    list.split(',').filter_map(named).fold(0, u32::saturating_add)
}

impl JobDraft {
    /// Labels and annotations that count for its pods: its template's, its own, its owners'.
    pub fn chain<'a>(&'a self, directory: &'a Directory) -> Vec<&'a Marks> {
        let above = directory.above(&self.namespace, self.owner.as_ref());
        let mut chain = vec![&*self.template, &*self.marks];
        chain.extend(above.iter().map(|owner| owner.marks()));
        chain
    }

    /// Whether its pods name this scheduler.
    pub fn ours(&self, scheduler: &str) -> bool {
        self.scheduler.as_deref() == Some(scheduler)
    }

    /// Whether it is work of this scheduler: its pods name it; or its template names nobody, and
    /// we suspended it, whose pods were ours: what gave them their scheduler will do so again.
    pub fn is_work_of(&self, scheduler: &str) -> bool {
        let nobody = marks::names_nobody(self.scheduler.as_deref());
        self.ours(scheduler) || self.marked && nobody
    }

    /// Why nobody here resumes it: its template says that another scheduler places its pods.
    pub fn held(&self, scheduler: &str) -> Option<Held> {
        let nobody = marks::names_nobody(self.scheduler.as_deref());
        (!nobody && !self.ours(scheduler)).then_some(Held::ForeignMembers(self.count))
    }

    /// Whether it may make fewer pods than it began with: none stands in for those that are over.
    pub fn is_under_way(&self) -> bool {
        self.succeeded > 0 || self.failed > 0
    }

    /// Whether its pods would notice no difference if it became the other.
    ///
    /// They look at who it is, what it says, and which and how many of them run together.
    pub fn same_below(&self, other: &JobDraft) -> bool {
        let identity = |job: &JobDraft| (job.uid.clone(), job.namespace.clone(), job.name.clone());
        let runs = |job: &JobDraft| (job.suspended, job.incarnation, job.count);
        let flags = |job: &JobDraft| (job.is_under_way(), job.parallel_by_index);
        identity(self) == identity(other)
            && (&self.marks, &self.owner) == (&other.marks, &other.owner)
            && (runs(self), flags(self)) == (runs(other), flags(other))
            && self.admitted == other.admitted
    }

    /// The run that a pod of this Job belongs to.
    ///
    /// What exists while the Job is suspended is of the run that ended; so is what is still
    /// being deleted and older than the run that was admitted last.
    pub fn incarnation_of(&self, terminating: bool, created: Option<Time>) -> u32 {
        if self.suspended || (terminating && is_older(created, self.admitted.as_ref())) {
            return self.incarnation.saturating_sub(1);
        }
        self.incarnation
    }
}

/// Whether a pod was made before its owner was admitted last. The API gives creation times in whole
/// seconds, rounded down: who was made in the second of the admission was most likely made for it.
pub(super) fn is_older(created: Option<Time>, admitted: Option<&BindingNote>) -> bool {
    let admitted = admitted.and_then(|note| note.admitted_at);
    let (Some(created), Some(admitted)) = (created, admitted) else { return false };
    created.0 < admitted.0 - admitted.0.rem_euclid(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(spec: Value, status: Value, annotations: Value) -> JobDraft {
        let mut job = json!({
            "metadata": { "name": "j", "annotations": annotations },
            "spec": spec,
            "status": status,
        });
        job["spec"]["template"] =
            json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
        let job: Job = serde_json::from_value(job).expect("job");
        draft(&job, &mut Shared::default()).expect("draft")
    }

    #[test]
    fn a_job_makes_no_more_pods_than_successes_are_missing() {
        for (parallelism, completions, succeeded, want) in [
            (json!(null), json!(null), 0, 1),
            (json!(4), json!(null), 3, 4),
            (json!(null), json!(5), 0, 1),
            (json!(4), json!(6), 3, 3),
            (json!(4), json!(6), 7, 0),
            (json!(0), json!(6), 0, 0),
        ] {
            let spec = json!({ "parallelism": parallelism, "completions": completions });
            let job = read(spec, json!({ "succeeded": succeeded }), json!({}));
            assert_eq!(job.count, want);
        }
    }

    #[test]
    fn no_pod_stands_in_for_an_index_that_failed_for_good() {
        let spec = json!({
            "parallelism": 8, "completions": 8, "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
        });
        for (failed, want) in [("", 7), ("3", 6), ("0,2-4", 3), ("1-7", 0), ("x,2-1,-", 7)] {
            let status = json!({ "succeeded": 1, "failedIndexes": failed });
            let job = read(spec.clone(), status, json!({}));
            assert_eq!((job.count, job.left), (want, Some(want)), "{failed}");
        }
    }

    #[test]
    fn a_job_makes_others_in_place_of_those_that_end_before_its_last() {
        for (parallelism, completions, succeeded, want) in [
            (json!(2), json!(5), 0, 3),
            (json!(2), json!(5), 4, 3),
            (json!(2), json!(2), 1, 0),
            (json!(5), json!(2), 0, 0),
            (json!(2), json!(null), 1, 0),
            (json!(null), json!(3), 0, 2),
        ] {
            let spec = json!({ "parallelism": parallelism, "completions": completions });
            let job = read(spec, json!({ "succeeded": succeeded }), json!({}));
            assert_eq!(job.replaces, want);
        }
        let spec = json!({ "parallelism": 2, "completions": 5, "completionMode": "Indexed" });
        let job = read(spec, json!({ "failedIndexes": "1,3" }), json!({}));
        assert_eq!(job.replaces, 1, "those that failed for good end nothing well");
    }

    #[test]
    fn full_parallel_by_index_needs_both_numbers_equal() {
        let spec = json!({ "parallelism": 4, "completions": 4, "completionMode": "Indexed" });
        assert!(read(spec, json!({}), json!({})).parallel_by_index);
        let spec = json!({ "parallelism": 4, "completions": 4 });
        assert!(!read(spec, json!({}), json!({})).parallel_by_index);
        let spec = json!({ "parallelism": 2, "completions": 4, "completionMode": "Indexed" });
        assert!(!read(spec, json!({}), json!({})).parallel_by_index);
    }

    #[test]
    fn our_marks_are_read_and_bad_ones_named() {
        let marks = json!({
            "capstan.sh/suspended": "2",
            "capstan.sh/preempted-by": "a/b",
        });
        let job = read(json!({ "suspend": true }), json!({ "active": 1 }), marks);
        assert!(job.marked && job.eviction.is_some());
        assert_eq!(job.incarnation_of(false, None), 1);
        let marks = json!({
            "capstan.sh/suspended": "2",
            "capstan.sh/admitted": r#"{"admittedAt":"1970-01-01T00:00:09Z"}"#,
        });
        let job = read(json!({}), json!({}), marks.clone());
        assert!(job.marked && job.admitted.is_some());
        let job = read(json!({ "suspend": true }), json!({}), marks);
        assert!(!job.marked, "whoever suspended it after we resumed it is not us");
        let marks = json!({ "capstan.sh/suspended": "often" });
        let job = read(json!({}), json!({}), marks);
        assert_eq!((job.incarnation, job.marked, job.ignored.len()), (0, false, 1));
    }

    #[test]
    fn pods_older_than_the_last_admission_belong_to_the_run_before() {
        let marks = json!({
            "capstan.sh/suspended": "2",
            "capstan.sh/admitted": r#"{"admittedAt":"1970-01-01T00:00:09Z"}"#,
        });
        let job = read(json!({}), json!({}), marks);
        assert_eq!(job.incarnation_of(true, Some(Time(8_000))), 1);
        assert_eq!(job.incarnation_of(false, Some(Time(8_000))), 2);
        assert_eq!(job.incarnation_of(true, Some(Time(9_000))), 2);
        let marks = json!({
            "capstan.sh/suspended": "2",
            "capstan.sh/admitted": r#"{"admittedAt":"1970-01-01T00:00:09.700Z"}"#,
        });
        let job = read(json!({}), json!({}), marks);
        assert_eq!(job.incarnation_of(true, Some(Time(8_000))), 1);
        assert_eq!(job.incarnation_of(true, Some(Time(9_000))), 2, "it may be of 9.8 s");
    }

    #[test]
    fn counts_below_zero_are_refused() {
        let template = json!({ "spec": { "containers": [{}] } });
        let spec = json!({ "parallelism": -1, "completions": -2, "template": template });
        let job = json!({ "metadata": { "name": "j" }, "spec": spec });
        let job: Job = serde_json::from_value(job).expect("job");
        let refusals = draft(&job, &mut Shared::default()).expect_err("refused");
        let paths: Vec<&str> = refusals.iter().map(|refusal| &*refusal.path).collect();
        assert_eq!(paths, ["spec.parallelism", "spec.completions"]);
    }

    #[test]
    fn a_job_that_is_being_deleted_is_finished() {
        let job = json!({
            "metadata": { "name": "j", "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "template": { "spec": { "containers": [{}] } } },
        });
        let job: Job = serde_json::from_value(job).expect("job");
        let draft = draft(&job, &mut Shared::default()).expect("draft");
        assert_eq!(draft.finished, Some(OwnerEnd::Deleted));
    }

    #[test]
    fn done_is_complete_or_failed() {
        let failed = |reason: Option<&str>| Some(OwnerEnd::Failed(reason.map(Into::into)));
        for (kind, reason, want) in [
            ("Complete", "", Some(OwnerEnd::Succeeded)),
            ("Failed", "", failed(None)),
            ("Failed", "BackoffLimitExceeded", failed(Some("BackoffLimitExceeded"))),
            ("Suspended", "JobSuspended", None),
        ] {
            let condition = json!({ "type": kind, "status": "True", "reason": reason });
            let status = json!({ "conditions": [condition] });
            assert_eq!(read(json!({}), status, json!({})).finished, want);
        }
    }
}
