//! Events: what happened to a workload, said once where people look for it: on its Workload, and
//! on its owner or its pod.
//!
//! An event names its object by uid, which a Workload has from the API only: what is to be said of
//! one that is not there yet waits until it is. That something is stopped is said once it is: as
//! long as the API may refuse it, nothing is.
//!
//! They are the first to go: their queue is short, and what does not fit in it is dropped and
//! counted. The same words about the same object are not repeated within [`AGAIN`], but for those
//! of stops: each is said.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use capstan_core::explain::view::{WorkloadDetails, WorkloadView};
use capstan_core::model::input::Text;
use capstan_core::plan::{PodRef, Preemption, State};
use capstan_core::time::{Span, Time};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Resource;
use kube::api::ObjectMeta;

use super::plan::Name;
use super::rates::{Bucket, What};
use super::shown::ShownWorkload;
use super::{pods, workload};
use crate::api::workload::Workload;

/// Events that wait to be sent.
const QUEUE_MAX: usize = 1_000;
/// Events that are remembered, so that they are not repeated.
const REMEMBERED_MAX: usize = 4_096;
/// The same event is sent again after this long.
const AGAIN: Span = Span::minutes(5);
/// New numbers of the same reason are an event after this long.
const NUMBERS_AGAIN: Span = Span::minutes(1);
/// Events that wait for one Workload to be there.
const HELD_MAX: usize = 4;
/// Bytes that a note may have, and how it ends when cut.
const NOTE_MAX: usize = 1_024;
const CUT: &str = " ...";

/// An object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// API version.
    pub api_version: Text,
    /// Kind.
    pub kind: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Unique id.
    pub uid: Text,
}

/// An event to send.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// What it is about.
    pub regarding: Object,
    /// It is a warning.
    pub warning: bool,
    /// Machine-readable word.
    pub reason: String,
    /// What was being done.
    pub action: &'static str,
    /// For people.
    pub note: String,
}

/// Events that wait, and what was said lately.
#[derive(Debug)]
pub struct Notes {
    queue: VecDeque<Told>,
    bucket: Bucket,
    /// By digest: their words would be most of what is kept here.
    said: BTreeMap<u64, Time>,
    /// By workload: state, reason and when that was said.
    last: BTreeMap<Name, (State, &'static str, Time)>,
    /// What is to be said of Workloads that the API does not show yet.
    held: BTreeMap<Name, Vec<Told>>,
    /// Workloads whose stop was asked for, as they were then: said once they are stopped.
    asked: BTreeMap<Name, Box<WorkloadDetails>>,
    counts: BTreeMap<What, u64>,
}

impl Notes {
    /// None yet.
    pub fn new(per_second: u32) -> Notes {
        Notes {
            queue: VecDeque::new(),
            bucket: Bucket::new(per_second),
            said: BTreeMap::new(),
            last: BTreeMap::new(),
            held: BTreeMap::new(),
            asked: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn take_counts(&mut self) -> BTreeMap<What, u64> {
        std::mem::take(&mut self.counts)
    }

    fn count(&mut self, what: What) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Queues an event, unless it was said lately or too many wait.
    pub fn tell(&mut self, now: Time, told: Told) {
        let digest = digest(&told);
        if self.said.get(&digest).is_some_and(|at| now < at.plus(AGAIN)) {
            return self.count(What::EventRepeated);
        }
        if self.queue.len() >= QUEUE_MAX {
            return self.count(What::EventDropped);
        }
        if self.said.len() >= REMEMBERED_MAX {
            self.said.retain(|_, at| now < at.plus(AGAIN));
            if self.said.len() >= REMEMBERED_MAX {
                self.said.clear();
            }
        }
        self.said.insert(digest, now);
        self.queue.push_back(told);
    }

    /// The next event, if the rate allows one and there is any.
    pub(super) fn next(&mut self, now: Time, beside: bool) -> Option<Told> {
        if self.queue.is_empty() || !self.bucket.take(now, beside) {
            return None;
        }
        self.count(What::Event);
        self.queue.pop_front()
    }

    /// Events that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// A workload is gone for now. One that had its places may come back to say how it ended: its
    /// pods went before its owner knew.
    pub(super) fn left(&mut self, name: &Name) {
        self.held.remove(name);
        let waits =
            |state: State| matches!(state, State::Gathering | State::Queued | State::Reserved);
        if self.last.get(name).is_some_and(|(state, ..)| waits(*state)) {
            self.last.remove(name);
        }
    }

    /// A workload is gone, and so is its object.
    pub(super) fn forget(&mut self, name: &Name) {
        self.last.remove(name);
        self.held.remove(name);
        self.asked.remove(name);
    }

    /// A workload is about to be stopped, unless that is refused.
    pub(super) fn asked_to_stop(&mut self, name: Name, details: WorkloadDetails) {
        self.asked.insert(name, Box::new(details));
    }

    /// A workload is gone, before it was known that it was stopped.
    pub(super) fn gone<'a>(
        &mut self,
        now: Time,
        name: &Name,
        shown: impl Fn(&Name) -> Option<&'a ShownWorkload>,
    ) {
        if let Some(asked) = self.asked.remove(name) {
            self.changed(now, &asked, &shown);
        }
    }

    /// The API shows a Workload: what waited for that is said.
    pub(super) fn shown(&mut self, now: Time, name: &Name, shown: &ShownWorkload) {
        let Some(regarding) = object_of(name, shown) else { return };
        for told in self.held.remove(name).unwrap_or_default() {
            self.tell(now, Told { regarding: regarding.clone(), ..told });
        }
    }

    /// Says something of a Workload, as the API shows it; when it does not yet, later.
    fn tell_of_workload(
        &mut self,
        now: Time,
        (name, shown): (&Name, Option<&ShownWorkload>),
        told: Told,
    ) {
        if let Some(regarding) = shown.and_then(|shown| object_of(name, shown)) {
            return self.tell(now, Told { regarding, ..told });
        }
        let known = self.held.get(name).map(Vec::len);
        let room = known.map_or(self.held.len() < QUEUE_MAX, |held| held < HELD_MAX);
        match room {
            true => self.held.entry(name.clone()).or_default().push(told),
            false => self.count(What::EventDropped),
        }
    }

    /// Says something of a Workload, and of whom it says it is about.
    fn tell_of_both(&mut self, now: Time, object: (&Name, Option<&ShownWorkload>), told: Told) {
        self.tell_of_workload(now, object, told.clone());
        self.tell(now, told);
    }

    /// What happened to a workload since it was last looked at; `shown`: the Workloads that the API
    /// has.
    pub(super) fn of_workload<'a>(
        &mut self,
        now: Time,
        details: &WorkloadDetails,
        shown: impl Fn(&Name) -> Option<&'a ShownWorkload>,
    ) {
        let view = &details.view;
        let name = (view.namespace.clone(), view.name.clone());
        // What was said of work that had its name before is not of this one, nor its object.
        let before = shown(&name).is_some_and(|shown| workload::is_of_before(shown, details));
        if before {
            self.forget(&name);
        }
        let shown = |of: &Name| shown(of).filter(|_| !before || *of != name);
        if let Some(asked) = self.asked.remove(&name) {
            // It stays: it was not stopped.
            let same_run = view.admitted_at == asked.view.admitted_at;
            if !(admitted(Some(view.state)) && same_run) {
                self.changed(now, &asked, &shown);
            }
        }
        self.changed(now, details, &shown);
    }

    fn changed<'a>(
        &mut self,
        now: Time,
        details: &WorkloadDetails,
        shown: &impl Fn(&Name) -> Option<&'a ShownWorkload>,
    ) {
        let view = &details.view;
        let name = (view.namespace.clone(), view.name.clone());
        let ended = workload::ended(details).filter(|_| view.state == State::Finished);
        let of_reason = || view.reason.as_ref().map_or("", |reason| reason.code());
        let code = ended.as_ref().map_or_else(of_reason, |(word, _)| word);
        let before = self.last.get(&name).copied();
        let Some(about) = about(details) else { return };
        let same = before.is_some_and(|(state, of, at)| {
            let numbers = view.reason.is_some() && now >= at.plus(NUMBERS_AGAIN);
            (state, of) == (view.state, code) && !numbers
        });
        if same {
            return;
        }
        self.last.insert(name.clone(), (view.state, code, now));
        let object = (&name, shown(&name));
        let was = before.map(|(state, ..)| state);
        let told = |warning, reason: &str, action, note| Told {
            regarding: about.clone(),
            warning,
            reason: reason.to_owned(),
            action,
            note,
        };
        match view.state {
            State::Queued | State::Reserved => {
                // Where none of its pods came nothing has to leave: it queues at once.
                if admitted(was) {
                    self.stops(now, details, object, (&about, shown));
                }
                self.waits(now, details, object, (&about, was));
            }
            // It runs, or is in part, and some of its members find no place.
            State::Binding | State::Running if admitted(was) && view.reason.is_some() => {
                self.waits(now, details, object, (&about, was));
            }
            _ if begins(was, view) => {
                if let Some(queue) = &view.cluster_queue {
                    let note = format!("quota reserved in ClusterQueue {queue}");
                    let told = told(false, "QuotaReserved", "Admitting", note);
                    self.tell_of_workload(now, object, told);
                }
                let waited = now.since(view.waits_since);
                let note = format!("admitted after waiting {waited}");
                self.tell_of_both(now, object, told(false, "Admitted", "Admitting", note));
            }
            State::Evicting if was != Some(State::Evicting) => {
                self.stops(now, details, object, (&about, shown));
            }
            State::Finished if was.is_some() => {
                let told_before = before
                    .is_some_and(|(state, code, _)| state == State::Finished && !code.is_empty());
                if let Some((_, note)) = ended.filter(|_| !told_before) {
                    self.tell_of_workload(now, object, told(false, "Finished", "Finishing", note));
                }
            }
            _ => {}
        }
    }

    /// Why it waits.
    fn waits(
        &mut self,
        now: Time,
        details: &WorkloadDetails,
        object: (&Name, Option<&ShownWorkload>),
        (about, was): (&Object, Option<State>),
    ) {
        let ran = matches!(was, Some(State::Binding | State::Running));
        let stopped = ran && details.view.state == State::Queued && details.suspended;
        if stopped && details.view.preempted.is_none() {
            let by_hand = Told {
                regarding: about.clone(),
                warning: false,
                reason: "Suspended".to_owned(),
                action: "Requeueing",
                note: suspended(object.0),
            };
            self.tell_of_both(now, object, by_hand);
        }
        let Some(why) = &details.view.reason else { return };
        let said = pods::condition(why);
        let room = said.reason == "Unschedulable";
        let reason = if room { "FailedScheduling".to_owned() } else { said.reason };
        let one = Told {
            regarding: about.clone(),
            warning: room,
            reason,
            action: "Scheduling",
            note: said.message,
        };
        if let Some(pod) = details.waiting.first() {
            let regarding = of_pod(pod);
            self.tell(now, Told { regarding, ..one.clone() });
        }
        match &*about.kind {
            "Pod" => self.tell_of_workload(now, object, one),
            _ => self.tell_of_both(now, object, one),
        }
    }

    /// It was stopped, if it was: that is said of it, and of whom it was for.
    fn stops<'a>(
        &mut self,
        now: Time,
        details: &WorkloadDetails,
        object: (&Name, Option<&ShownWorkload>),
        (about, shown): (&Object, &impl Fn(&Name) -> Option<&'a ShownWorkload>),
    ) {
        let Some(why) = &details.view.preempted else { return };
        let told = |reason: &str, note| Told {
            regarding: about.clone(),
            warning: false,
            reason: reason.to_owned(),
            action: "Preempting",
            note,
        };
        self.stopped(now, object, told("Preempted", workload::stopped_because(why)), why);
        let taker = why.preemptor.split_once('/').filter(|_| why.for_another());
        if let Some(taker) = taker.map(|(of, name)| (of.into(), name.into())) {
            let one = told("PreemptedWorkload", took(object.0, why));
            self.tell_of_workload(now, (&taker, shown(&taker)), one);
        }
    }

    /// It is stopped: in our words on both if it is for another, and in Kueue's on its Workload.
    fn stopped(
        &mut self,
        now: Time,
        object: (&Name, Option<&ShownWorkload>),
        stop: Told,
        why: &Preemption,
    ) {
        let evicted =
            Told { reason: format!("EvictedDueTo{}", workload::evicted_for(why)), ..stop.clone() };
        // Another stop is news, be it in the words of the last one.
        for one in [&stop, &evicted] {
            let of_it = object.1.and_then(|shown| object_of(object.0, shown));
            let of_it = of_it.map(|regarding| Told { regarding, ..one.clone() });
            for said in of_it.iter().chain([one]) {
                self.said.remove(&digest(said));
            }
        }
        match why.for_another() {
            true => {
                self.tell_of_both(now, object, stop);
                self.tell_of_workload(now, object, evicted);
            }
            false => self.tell_of_both(now, object, evicted),
        }
    }

    /// A pod was bound.
    pub fn scheduled(&mut self, now: Time, pod: &PodRef, node: &Text) {
        // Thousands are bound in a second: no word is put together in vain.
        if self.queue.len() >= QUEUE_MAX {
            return self.count(What::EventDropped);
        }
        let note = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
        let (regarding, reason) = (of_pod(pod), "Scheduled".to_owned());
        self.tell(now, Told { regarding, warning: false, reason, action: "Binding", note });
    }
}

/// Its owner was suspended, not by us.
fn suspended((namespace, name): &Name) -> String {
    format!(
        "its owner was suspended by somebody else: it is queued again and starts when it is its \
         turn; to hold it, set spec.active: false on Workload {namespace}/{name}"
    )
}

/// What the preemptor's Workload says of its victim.
fn took((namespace, name): &Name, why: &Preemption) -> String {
    format!("preempted {namespace}/{name}: {}; {} lost", why.because(), why.loses())
}

/// An event in eight bytes. Two that share theirs cost the second, once in a very long while.
fn digest(told: &Told) -> u64 {
    let mut hasher = DefaultHasher::new();
    told.hash(&mut hasher);
    hasher.finish()
}

/// Whether it was known to hold quota already.
fn admitted(state: Option<State>) -> bool {
    matches!(state, Some(State::Resuming | State::Preparing | State::Binding | State::Running))
}

/// Whether it was admitted since it was last looked at. What an engine before this one admitted was
/// said then; what is bound in a burst may run before anybody looks.
fn begins(was: Option<State>, view: &WorkloadView) -> bool {
    let waited = matches!(was, Some(State::Gathering | State::Queued | State::Reserved));
    match view.state {
        State::Resuming | State::Preparing | State::Binding if was.is_none() => !view.found_running,
        State::Resuming | State::Preparing | State::Binding => !admitted(was),
        State::Running => waited && !view.found_running,
        _ => false,
    }
}

/// What people look at when they ask for a workload: its owner, else its first pod.
pub fn about(details: &WorkloadDetails) -> Option<Object> {
    match &details.owner {
        Some(owner) => Some(Object {
            api_version: workload::api_version(&owner.kind)?.into(),
            kind: owner.kind.clone(),
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }),
        None => details.first_pods.first().map(of_pod),
    }
}

/// A Workload that the API shows.
fn object_of((namespace, name): &Name, shown: &ShownWorkload) -> Option<Object> {
    Some(Object {
        api_version: (&*Workload::api_version(&())).into(),
        kind: (&*Workload::kind(&())).into(),
        namespace: namespace.clone(),
        name: name.clone(),
        uid: shown.uid()?.into(),
    })
}

fn of_pod(pod: &PodRef) -> Object {
    Object {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    }
}

/// The event as the API takes it.
pub fn object(told: &Told, now: Time, controller: &str, instance: &str) -> Event {
    let about = &told.regarding;
    let at = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            namespace: Some(about.namespace.to_string()),
            // The API server takes no prefix that ends with a dot.
            generate_name: Some(format!("{}-", about.name)),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(at)),
        reporting_controller: Some(controller.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        type_: Some(if told.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(told.reason.clone()),
        action: Some(told.action.to_owned()),
        note: Some(cut(&told.note)),
        regarding: Some(ObjectReference {
            api_version: Some(about.api_version.to_string()),
            kind: Some(about.kind.to_string()),
            namespace: Some(about.namespace.to_string()),
            name: Some(about.name.to_string()),
            uid: Some(about.uid.to_string()),
            ..ObjectReference::default()
        }),
        ..Event::default()
    }
}

/// A note that the API takes, cut as kube-scheduler cuts its own.
fn cut(note: &str) -> String {
    if note.len() <= NOTE_MAX {
        return note.to_owned();
    }
    let mut end = NOTE_MAX - CUT.len();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &note[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reason: &str, name: &str) -> Told {
        let pod = PodRef { namespace: "ns".into(), name: name.into(), uid: name.into() };
        Told {
            regarding: of_pod(&pod),
            warning: true,
            reason: reason.to_owned(),
            action: "Scheduling",
            note: "why".to_owned(),
        }
    }

    #[test]
    fn a_burst_is_dropped_and_counted_and_nothing_is_repeated() {
        let mut notes = Notes::new(10);
        for at in 0..QUEUE_MAX + 7 {
            notes.tell(Time(0), told("R", &format!("p{at}")));
        }
        notes.tell(Time(1), told("R", "p0"));
        let sent = (0..).map_while(|_| notes.next(Time(1), false)).count();
        assert_eq!(sent, 10, "one second's worth");
        assert!(notes.next(Time(50), false).is_none());
        assert!(notes.next(Time(101), false).is_some(), "a tenth of a second brings one");
        let counts = notes.take_counts();
        let count = |what| counts.get(&what).copied().unwrap_or(0);
        assert_eq!(count(What::EventDropped), 7);
        assert_eq!((count(What::EventRepeated), count(What::Event)), (1, 11));
        notes.queue.clear();
        notes.tell(Time(0).plus(AGAIN), told("R", "p0"));
        assert_eq!(notes.waiting(), 1, "it is said again after a while");
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "é".repeat(NOTE_MAX);
        let said = cut(&long);
        assert!(said.len() <= NOTE_MAX && said.ends_with("é ..."), "{}", said.len());
        let event = object(&told("FailedScheduling", "p"), Time(1_500), "capstan", "here");
        assert_eq!(event.metadata.generate_name.as_deref(), Some("p-"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.regarding.and_then(|about| about.uid).as_deref(), Some("p"));
    }
}
