//! A Workload object as it should be, from what the engine shows and what the API shows.
//!
//! What the engine does not know is left as the API has it: `spec.active`, which people set, and
//! conditions of others. What it knows replaces the rest; where it stands in its queue is said by
//! [`super::places`].

use std::collections::BTreeMap;

use capstan_core::explain::quantity::price;
use capstan_core::explain::reason::Reason;
use capstan_core::explain::view::{PodSetView, WorkloadDetails, WorkloadView};
use capstan_core::model::input::{GangSource, OwnerEnd, Text};
use capstan_core::plan::{Preemption, PreemptionReason, State};
use capstan_core::time::{Span, Time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use kube::api::ObjectMeta;
use serde_json::{Map, Value, json};

use super::conditions::{Says, api_time, engine_time, holds, set};
use super::shown::{Compared, ShownWorkload};
use super::{diff, finished, requeued};
use crate::api::GROUP;
use crate::api::keys;
use crate::api::workload::{
    NAMES_MAX, POD_SET_MAX, POD_SETS_MAX, PodSet, PriorityClassRef, Workload, WorkloadSpec,
    WorkloadStatus,
};
use crate::convert::selector::is_label_value;
use crate::gangs::kinds::Kind;
use crate::read::names::is_object_name;

/// A pod of its own gets an object once it has waited this long: most never do.
pub const LONE_PATIENCE: Span = Span::seconds(30);
/// A gang that is still gathering gets one after this long: most are whole by then.
pub const GATHERING_PATIENCE: Span = Span::seconds(5);

/// Nodes that a column names.
const NAMED: usize = 3;

/// From when on a workload without an object gets one; `None`: it needs none.
pub fn due_from(details: &WorkloadDetails) -> Option<Time> {
    let view = &details.view;
    let stopped = view.preempted.is_some() || view.state == State::Evicting;
    if details.source == GangSource::Job && details.owner.is_none() {
        // What stands for a Job goes with it.
        return None;
    }
    match view.state {
        _ if details.lone && stopped => Some(Time::MIN),
        State::Gathering | State::Queued | State::Reserved | State::Provisioning
            if details.lone =>
        {
            Some(view.created.plus(LONE_PATIENCE))
        }
        _ if details.lone => None,
        State::Gathering => Some(view.created.plus(GATHERING_PATIENCE)),
        _ => Some(Time::MIN),
    }
}

/// Whether an object of ours is of work that had this name before, with another owner: what it says
/// is not so of this one. It goes, and one is made anew.
pub(super) fn is_of_before(shown: &ShownWorkload, details: &WorkloadDetails) -> bool {
    let owner = details.owner.as_ref().filter(|_| shown.scheduler().is_some());
    owner.is_some_and(|owner| shown.is_of_another(&owner.uid))
}

/// The object as this scheduler creates it: everything but its status.
pub fn object(details: &WorkloadDetails, scheduler: &str) -> Workload {
    let view = &details.view;
    let spec = spec(None, details);
    let whose = (keys::SCHEDULER_NAME.to_owned(), scheduler.to_owned());
    let queue = queue_label(&spec).map(|queue| (keys::QUEUE.to_owned(), queue));
    Workload {
        metadata: ObjectMeta {
            namespace: Some(view.namespace.to_string()),
            name: Some(view.name.to_string()),
            labels: Some([whose].into_iter().chain(queue).collect()),
            owner_references: Some(owners(details)).filter(|owners| !owners.is_empty()),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// The label that says its queue, to select by; a name may be longer than a label.
fn queue_label(spec: &WorkloadSpec) -> Option<String> {
    let queue = &spec.queue_name;
    (!queue.is_empty() && is_label_value(queue)).then(|| queue.clone())
}

/// Who it goes with: its owner, else the first of its pods. It stays while one of those named is
/// there.
fn owners(details: &WorkloadDetails) -> Vec<OwnerReference> {
    let owner = |api_version: String, kind: &str, name: &str, uid: &str| OwnerReference {
        api_version,
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    match &details.owner {
        Some(it) => {
            let version = api_version(&it.kind);
            version.map(|version| owner(version, &it.kind, &it.name, &it.uid)).into_iter().collect()
        }
        None => {
            let pods = details.first_pods.iter();
            pods.map(|pod| owner("v1".to_owned(), "Pod", &pod.name, &pod.uid)).collect()
        }
    }
}

/// Whether work is a group without an owner: its object goes with its pods, unless it holds it.
pub fn is_bare(details: &WorkloadDetails) -> bool {
    details.group.is_some() && details.owner.is_none()
}

/// Whether a group without an owner is being stopped that may not run: its object has to let go of
/// its pods while they are there.
pub fn lets_go(details: &WorkloadDetails) -> bool {
    let why = details.view.preempted.as_ref().map(|stop| stop.reason.as_str());
    let held = details.held || why == Some("Deactivated");
    is_bare(details) && details.view.state == State::Evicting && held
}

/// Whether an object keeps a group without an owner from running: it says so, or the engine saw
/// that it does.
fn holds_back(shown: &Compared, details: &WorkloadDetails) -> bool {
    let seen = details.held || matches!(details.view.reason, Some(Reason::Deactivated { .. }));
    is_bare(details) && (!shown.spec.active || seen) || lets_go(details)
}

/// Who it should go with, where it is to be said anew: its owner is another, or no more than half
/// of the pods that could be named are. Pods come and go, and none of them is worth a write, unless
/// the work is held: that would end with the last that is named.
///
/// What holds a group goes with nobody: its pods are stopped all at once, and who makes them again
/// would find the hold gone with them. Nobody else deletes it then; we do once its work is gone.
/// That it lets go before we stop any of them, [`crate::act`] sees to; this is for however else
/// they end.
fn owners_anew(shown: &Compared, details: &WorkloadDetails) -> Option<Vec<OwnerReference>> {
    if holds_back(shown, details) {
        return (!shown.owners.is_empty()).then(Vec::new);
    }
    let wanted = owners(details);
    let named = wanted.iter().filter(|owner| shown.owners.contains(&owner.uid)).count();
    let few = named <= wanted.len() / 2 || !shown.spec.active;
    (named < wanted.len() && few).then_some(wanted)
}

/// The API version of owners that run as a gang.
pub(super) fn api_version(kind: &str) -> Option<String> {
    match kind {
        "Job" => Some("batch/v1".to_owned()),
        _ => Kind::of_key(kind).map(|kind| kind.row().api_version()),
    }
}

/// The spec; what people set of the one shown stays. Names that no object can have, which people
/// write all the same, are in no spec, because no API server takes them there: the status says why
/// the work waits.
pub fn spec(shown: Option<&WorkloadSpec>, details: &WorkloadDetails) -> WorkloadSpec {
    let view = &details.view;
    if let Some(shown) = shown.filter(|shown| finished::stands(shown, details)) {
        return shown.clone();
    }
    let class = |name: &Option<Text>, group: &str, kind: &str| {
        let name = name.as_ref().filter(|name| is_object_name(name))?.to_string();
        Some(PriorityClassRef { group: group.to_owned(), kind: kind.to_owned(), name })
    };
    let of_pods = || class(&details.pod_class, "scheduling.k8s.io", "PriorityClass");
    let class = class(&details.priority_class, GROUP, "WorkloadPriorityClass").or_else(of_pods);
    let all: u32 = view.pod_sets.iter().map(|set| set.count).sum();
    let named = |set: &&PodSetView| (1..=POD_SET_MAX).contains(&set.name.chars().count());
    let mut sets: Vec<&PodSetView> = view.pod_sets.iter().filter(named).collect();
    sets.sort_by(|a, b| a.name.cmp(&b.name));
    let sets = sets.into_iter().take(POD_SETS_MAX).map(|set| PodSet {
        name: set.name.to_string(),
        count: number(set.count),
        // A minimum is the whole gang's: of several sets none has one of its own.
        min_count: (view.pod_sets.len() == 1 && view.min_member < all)
            .then(|| number(view.min_member)),
    });
    // Where another priority came from says nothing of this one.
    let before = shown.filter(|shown| shown.priority == view.priority);
    let queue = view.local_queue.as_deref().filter(|name| is_object_name(name));
    WorkloadSpec {
        queue_name: queue.unwrap_or_default().to_owned(),
        priority: view.priority,
        priority_class_ref: class.or_else(|| before.and_then(|s| s.priority_class_ref.clone())),
        active: shown.is_none_or(|shown| shown.active),
        pod_sets: finished::sets(shown, details).unwrap_or_else(|| sets.collect()),
    }
}

pub(super) fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The status that should be shown, given the one that is; what finished work goes on saying is
/// said by [`super::finished`].
pub fn status(shown: &WorkloadStatus, details: &WorkloadDetails, now: Time) -> WorkloadStatus {
    let view = &details.view;
    let mut status = shown.clone();
    if view.state != State::Finished {
        // Others came for members of its that failed: it was not the end.
        status.conditions.retain(|known| known.type_ != "Finished");
    }
    conditions(&mut status.conditions, details, now);
    replacements(&mut status.conditions, details, now);
    requeued::requeued(&mut status.conditions, details, now);
    let waits = matches!(
        view.state,
        State::Gathering | State::Queued | State::Reserved | State::Provisioning
    );
    status.state = view.state.to_string();
    let end = ended(details).filter(|_| view.state == State::Finished);
    status.reason = match (&view.reason, end) {
        (Some(reason), _) if !matches!(view.state, State::Evicting | State::Finished) => {
            reason.headline()
        }
        (_, Some((_, how))) => how,
        _ => String::new(),
    };
    (status.pods, status.gpus) = (pods(details), view.gpus);
    status.usd_per_hour = view.per_hour.map(|usd| price(usd, view.unpriced)).unwrap_or_default();
    status.waiting_since = waits.then(|| api_time(queued_since(shown, view)));
    let waited_from = shown.waiting_since.as_ref().map(engine_time);
    if let Some(at) = view.admitted_at
        && !waits
        && (waited_from.is_some() || shown.waited_seconds.is_none())
    {
        status.waited_seconds = Some(at.since(waited_from.unwrap_or(view.waits_since)).0 / 1_000);
    }
    status.waited = status.waited_seconds.map(length).unwrap_or_default();
    status.cluster_queue = view.cluster_queue.as_ref().map(ToString::to_string);
    status.flavors = flavors(details);
    let mut nodes: Vec<String> =
        view.pods.iter().filter_map(|pod| pod.node.as_ref()).map(ToString::to_string).collect();
    nodes.sort_unstable();
    nodes.dedup();
    status.nodes_summary = summary(&nodes);
    nodes.truncate(NAMES_MAX);
    status.nodes = nodes;
    if let Some(preempted) = view.preempted.as_ref().filter(|stop| stop.for_another()) {
        status.preemptor = Some(preempted.preemptor.to_string());
    } else if !waits && view.state != State::Evicting {
        status.preemptor = None;
    }
    let mut victims: Vec<String> = details.victims.iter().map(ToString::to_string).collect();
    victims.sort_unstable();
    victims.truncate(NAMES_MAX);
    status.victims = victims;
    requeued::failures(&mut status, details);
    status
}

/// Where it is, short enough for a column: `n1`, `2 nodes: n1, n2`, `12 nodes: n1, n2, n3, …`.
fn summary(nodes: &[String]) -> String {
    match nodes {
        [] => String::new(),
        [one] => one.clone(),
        all => {
            let more = if all.len() > NAMED { ", …" } else { "" };
            let named = all[..all.len().min(NAMED)].join(", ");
            format!("{} nodes: {named}{more}", all.len())
        }
    }
}

/// How long, as kubectl writes ages: `4s`, `12m`, `3h5m`, `2d4h`.
fn length(seconds: i64) -> String {
    let part = |amount: i64, unit| match amount {
        0 => String::new(),
        amount => format!("{amount}{unit}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        ..120 => format!("{}s", seconds.max(0)),
        120..600 => format!("{minutes}m{}", part(seconds % 60, "s")),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => format!("{hours}h{}", part(minutes % 60, "m")),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => format!("{days}d{}", part(hours % 24, "h")),
        _ => format!("{days}d"),
    }
}

/// `running/all`; members that are lacking count among all.
fn pods(details: &WorkloadDetails) -> String {
    let all = details.members.max(details.placed).max(details.needed);
    format!("{}/{all}", details.placed)
}

/// When it began to wait: what the engine knows of it, or, of members that were made anew, when it
/// was evicted last.
fn queued_since(shown: &WorkloadStatus, view: &WorkloadView) -> Time {
    let evicted = holds(&shown.conditions, "Evicted");
    let evicted = evicted.map(|condition| engine_time(&condition.last_transition_time));
    view.waits_since.max(evicted.unwrap_or(Time::MIN))
}

fn flavors(details: &WorkloadDetails) -> BTreeMap<String, BTreeMap<String, String>> {
    let sets = details.view.pod_sets.iter().filter(|set| !set.flavors.is_empty());
    let named = sets.take(POD_SETS_MAX).map(|set| {
        let pairs = set.flavors.iter().map(|(of, flavor)| (of.to_string(), flavor.to_string()));
        (set.name.to_string(), pairs.collect())
    });
    named.collect()
}

/// Of work whose pods have nodes, and do not run yet.
const BEING_STARTED: &str = "its pods are being started";

fn conditions(conditions: &mut Vec<Condition>, details: &WorkloadDetails, now: Time) {
    let view = &details.view;
    let decided = conditions.iter().any(|known| known.type_ == "QuotaReserved");
    let before = conditions.iter().find(|known| known.type_ == "PodsReady").cloned();
    let before = before.as_ref();
    let mut say = |of, status, reason: &str, message: String| {
        set(conditions, Says { of, status, reason, message }, now);
    };
    // Between two pods of a Job that follow each other, none of which was lost.
    let stays_up = details.up && before.is_some_and(|it| it.status == "True");
    let state = match view.state {
        State::Binding if stays_up => State::Running,
        state => state,
    };
    match state {
        // Nothing was decided yet: no condition is written. What was before is so no more.
        State::Gathering => {
            if decided {
                holds_nothing(&mut say, view);
            }
            return;
        }
        State::Queued | State::Reserved => holds_nothing(&mut say, view),
        State::Provisioning => {
            say("QuotaReserved", true, "QuotaReserved", reserved_in(details));
            say("Admitted", false, "PendingDelayedTopologyRequests", "nodes are built".to_owned());
        }
        State::Resuming | State::Preparing | State::Binding if before.is_some_and(recovers) => {
            admitted(&mut say, details);
            let message = match &view.reason {
                Some(reason) => reason.to_string(),
                None => "members that it lost are being replaced".to_owned(),
            };
            say("PodsReady", false, "WaitForRecovery", message);
        }
        State::Resuming | State::Preparing | State::Binding => {
            admitted(&mut say, details);
            say("PodsReady", false, "WaitForStart", BEING_STARTED.to_owned());
        }
        State::Running => {
            admitted(&mut say, details);
            if let Some((status, reason, message)) = ready(details, before) {
                say("PodsReady", status, reason, message);
            }
        }
        State::Evicting => {}
        State::Finished => {
            if let Some((reason, message)) = ended(details) {
                say("Finished", true, reason, message);
            }
        }
    }
    let stopped = matches!(view.state, State::Evicting | State::Queued | State::Reserved);
    if let Some(preempted) = view.preempted.as_ref().filter(|_| stopped) {
        let message = stopped_because(preempted);
        say("Evicted", true, evicted_for(preempted), message.clone());
        if preempted.for_another() {
            say("Preempted", true, preempted.reason.as_str(), message);
        }
        say("PodsReady", false, "WaitForStart", "its pods are stopped".to_owned());
    } else if !matches!(view.state, State::Evicting | State::Queued | State::Reserved) {
        for of in ["Evicted", "Preempted"] {
            if holds(conditions, of).is_some() && view.state != State::Finished {
                let message = "admitted again".to_owned();
                set(conditions, Says { of, status: false, reason: "QuotaReserved", message }, now);
            }
        }
    }
}

/// Whether work had started by what PodsReady says, and is whole or recovers.
fn recovers(before: &Condition) -> bool {
    before.status == "True" || before.reason == "WaitForRecovery"
}

/// What PodsReady says of work that runs, if anything, given what it said before.
fn ready(
    details: &WorkloadDetails,
    before: Option<&Condition>,
) -> Option<(bool, &'static str, String)> {
    let fell = before.is_some_and(|it| matches!(&*it.reason, "WaitForRecovery" | "Recovered"));
    match (details.up, before.is_some_and(recovers)) {
        (true, _) => {
            let word = if fell { "Recovered" } else { "Started" };
            Some((true, word, "enough pods are ready".to_owned()))
        }
        (false, true) => Some((false, "WaitForRecovery", few_are_ready(details))),
        // What it said while it waited for nodes is no longer so.
        (false, false) => before.map(|_| (false, "WaitForStart", BEING_STARTED.to_owned())),
    }
}

fn few_are_ready(details: &WorkloadDetails) -> String {
    format!("{} of the {} pods that it needs are ready", details.ready, details.needed)
}

/// Whether a group that runs lacks members that whoever made them has to make anew, in Kueue's
/// words. What an owner lacks it makes by itself.
fn replacements(conditions: &mut Vec<Condition>, details: &WorkloadDetails, now: Time) {
    let of = "WaitingForReplacementPods";
    let made_by_hand =
        !matches!(details.source, GangSource::Job | GangSource::Owner | GangSource::Pod);
    let runs = matches!(details.view.state, State::Binding | State::Running) && details.placed > 0;
    let (members, needed) = (details.members, details.needed);
    if made_by_hand && runs && members < needed {
        let message = format!("{members} of {needed} members exist; those that ended are missing");
        return set(conditions, Says { of, status: true, reason: "PodsFailed", message }, now);
    }
    if holds(conditions, of).is_some() {
        let message = "no members are missing".to_owned();
        set(conditions, Says { of, status: false, reason: "PodsReady", message }, now);
    }
}

/// Why a workload is stopped, as its condition `Evicted` has it: in Kueue's words, with what is
/// behind it where it was not people who deactivated it.
pub fn evicted_for(stop: &Preemption) -> &'static str {
    match stop.reason {
        reason if reason.for_another() => "Preempted",
        PreemptionReason::RequeuingLimitExceeded { .. } => "DeactivatedDueToRequeuingLimitExceeded",
        PreemptionReason::MaximumExecutionTimeExceeded { .. } => {
            "DeactivatedDueToMaximumExecutionTimeExceeded"
        }
        reason => reason.as_str(),
    }
}

/// The same for people.
pub fn stopped_because(stop: &Preemption) -> String {
    let (by, because, loses) = (&stop.preemptor, stop.because(), stop.loses());
    match stop.for_another() {
        true => format!("preempted by {by}: {because}; {loses} lost"),
        false => format!("{because}; {loses} lost"),
    }
}

/// How its work ended: one word, and for people. An owner says so itself, maybe a moment after the
/// last of its pods; without one, its members do.
pub fn ended(details: &WorkloadDetails) -> Option<(&'static str, String)> {
    let Some(owner) = &details.owner else {
        let owned = matches!(details.source, GangSource::Job | GangSource::Owner);
        return Some(match (owned, details.failed) {
            // It is gone, and did not say how its work ended.
            (true, _) => ("Deleted", "its owner was deleted".to_owned()),
            (false, true) => ("Failed", "a member failed, or was deleted".to_owned()),
            (false, false) => ("Succeeded", "all members ended well".to_owned()),
        });
    };
    let kind = &owner.kind;
    Some(match details.owner_end.as_ref()? {
        OwnerEnd::Succeeded => ("Succeeded", format!("its {kind} is complete")),
        OwnerEnd::Failed(Some(why)) => ("Failed", format!("its {kind} failed: {why}")),
        OwnerEnd::Failed(None) => ("Failed", format!("its {kind} failed")),
        OwnerEnd::Deleted => ("Deleted", format!("its {kind} is being deleted")),
    })
}

fn holds_nothing(say: &mut impl FnMut(&'static str, bool, &str, String), view: &WorkloadView) {
    let reason = view.reason.as_ref();
    let code = reason.map_or("PendingEvaluation", |reason| reason.code());
    let message = reason.map(ToString::to_string).into_iter();
    let unreserved = view.unreserved.map(|why| why.to_string());
    let message: Vec<String> = message.chain(unreserved).collect();
    say("QuotaReserved", false, code, message.join("; "));
    say("Admitted", false, "NoReservation", "the workload holds no quota".to_owned());
    say("PodsReady", false, "WaitForStart", "its pods have no nodes".to_owned());
}

fn admitted(say: &mut impl FnMut(&'static str, bool, &str, String), details: &WorkloadDetails) {
    say("QuotaReserved", true, "QuotaReserved", reserved_in(details));
    let message = match &details.view.reason {
        // Some of its members still wait.
        Some(reason) => reason.to_string(),
        None => "the workload is admitted".to_owned(),
    };
    say("Admitted", true, "Admitted", message);
}

fn reserved_in(details: &WorkloadDetails) -> String {
    match &details.view.cluster_queue {
        Some(queue) => format!("quota reserved in ClusterQueue {queue}"),
        None => "needs no quota".to_owned(),
    }
}

/// What differs of the object itself: spec, queue label, whose it is if it was nobody's, and owners
/// that are others by now. It names the object that it means.
pub fn object_patch(
    uid: Option<&str>,
    shown: &Compared,
    details: &WorkloadDetails,
    scheduler: &str,
) -> Option<Value> {
    let owners = owners_anew(shown, details);
    let mut wanted = spec(Some(&shown.spec), details);
    // Who deactivated the work of an owner that is gone did not mean its successor.
    let another = owners.is_some() && !shown.owners.is_empty();
    wanted.active |= another && details.owner.is_some();
    let mut patch = Map::new();
    if let Some(changes) = diff::merge_patch(&diff::value(&shown.spec), &diff::value(&wanted)) {
        patch.insert("spec".to_owned(), changes);
    }
    let (mut meta, mut labels) = (Map::new(), Map::new());
    let queue = queue_label(&wanted);
    if shown.queue != queue {
        labels.insert(keys::QUEUE.to_owned(), json!(queue));
    }
    if shown.scheduler.is_none() {
        labels.insert(keys::SCHEDULER_NAME.to_owned(), json!(scheduler));
    }
    if !labels.is_empty() {
        meta.insert("labels".to_owned(), Value::Object(labels));
    }
    if let Some(owners) = owners {
        // None is said by their absence.
        let owners = Some(owners).filter(|owners| !owners.is_empty());
        meta.insert("ownerReferences".to_owned(), json!(owners));
    }
    if patch.is_empty() && meta.is_empty() {
        return None;
    }
    if let Some(uid) = uid {
        meta.insert("uid".to_owned(), json!(uid));
    }
    patch.insert("metadata".to_owned(), Value::Object(meta));
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_and_the_first_are_named() {
        let of = |count: usize| {
            let nodes: Vec<String> = (1..=count).map(|at| format!("n{at}")).collect();
            summary(&nodes)
        };
        assert_eq!((of(0), of(1)), (String::new(), "n1".to_owned()));
        assert_eq!((of(2), of(3)), ("2 nodes: n1, n2".into(), "3 nodes: n1, n2, n3".into()));
        assert_eq!(of(300), "300 nodes: n1, n2, n3, …");
    }

    #[test]
    fn a_wait_that_is_over_reads_as_an_age_does() {
        let table = [
            (-1, "0s"),
            (4, "4s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (725, "12m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (190_000, "2d4h"),
            (800_000, "9d"),
        ];
        for (seconds, reads) in table {
            assert_eq!(length(seconds), reads, "{seconds}");
        }
    }
}
