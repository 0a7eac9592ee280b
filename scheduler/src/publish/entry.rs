//! One object that is written: what is wanted of it, what the API shows of it, and the request that
//! brings the one to the other.
//!
//! Decides whether anything is to be written at all, what, and what goes first; leaves rates and
//! order to [`super::plan`].

use std::sync::Arc;

use capstan_core::explain::view::{CohortView, LocalQueueView, QueueView, WorkloadDetails};
use capstan_core::model::input::Text;
use capstan_core::plan::{PodRef, State};
use capstan_core::time::Time;
use serde_json::{Value, json};

use super::groups::{self, Ends, GroupKey, GroupWish, ShownGroup, Stands};
use super::in_use::{self, Due, ShownQueue};
use super::observed::{OF_QUEUES, OF_WORKLOADS, observe};
use super::places::{self, PLACES_EVERY, Standings};
use super::plan::{EVERY, Name, ROOM_PATIENCE, WORDS_EVERY};
use super::pods::PodCondition;
use super::rates::What;
use super::shown::ShownWorkload;
use super::whose::is_anothers;
use super::{accrued, diff, finished, podless, queues, stopped, untaken, workload};
use crate::api::cluster_queue::CohortStatus;
use crate::api::local_queue::LocalQueueStatus;
use crate::api::workload::Workload;
use crate::live::Stopped;

/// An object that is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A Workload.
    Workload(Name),
    /// A ClusterQueue: its status, and what keeps it there.
    ClusterQueue(Text),
    /// A LocalQueue's status.
    LocalQueue(Name),
    /// A Cohort's status.
    Cohort(Text),
    /// A pod's PodScheduled condition.
    Pod(PodRef),
    /// A PodGroup's status.
    Group(GroupKey),
}

impl Key {
    /// The kind of the object.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Key::Workload(_) => "Workload",
            Key::ClusterQueue(_) => "ClusterQueue",
            Key::LocalQueue(_) => "LocalQueue",
            Key::Cohort(_) => "Cohort",
            Key::Pod(_) => "Pod",
            Key::Group(_) => "PodGroup",
        }
    }
}

/// What is wanted of an object.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Workload(Box<WorkloadDetails>),
    ClusterQueue(Box<QueueView>),
    LocalQueue(Box<LocalQueueView>),
    Cohort(Box<CohortView>),
    Pod(Arc<PodCondition>),
    Group(Box<GroupWish>),
    /// It should not be there, from then on.
    Gone(Time),
    /// Of an owner that has had no pods since the first time, what is said from the second on.
    Podless(Time, Time),
}

/// What the API shows of an object, as last read or written.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// A Workload.
    Workload(ShownWorkload),
    /// A ClusterQueue.
    ClusterQueue(Box<ShownQueue>),
    /// A LocalQueue's status.
    LocalQueue(Box<LocalQueueStatus>),
    /// A Cohort's status.
    Cohort(Box<CohortStatus>),
    /// A pod's condition; shared by members that say the same.
    Pod(Arc<PodCondition>),
    /// A PodGroup.
    Group(Box<ShownGroup>),
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create the Workload.
    Create(Box<Workload>),
    /// Merge-patch the object itself.
    Object(Value),
    /// Merge-patch its status.
    Status(Value),
    /// Set the pod's condition, as of this version of the pod.
    Condition(Arc<PodCondition>, Option<i64>),
    /// Set it in other words, or for another node: it is as false as it was, since then.
    Reword(Arc<PodCondition>, Option<i64>),
    /// Delete the object with this uid.
    Delete(Option<String>),
    /// Read a status that was never seen.
    Read,
    /// Count how the pods of a PodGroup ended.
    Count,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Done (or read); the API shows this now.
    Shows(Shown),
    /// So many pods of a PodGroup ended.
    Counted(Ends),
    /// There is no such object (any more).
    Gone,
    /// It failed; try again later.
    Failed,
}

/// An object as it stands.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) wanted: Option<Wanted>,
    pub(super) shown: Option<Shown>,
    pub(super) flying: bool,
    /// Another object is under this name since the request on its way was sent.
    pub(super) outlived: bool,
    /// The next request goes no earlier.
    pub(super) next_at: Time,
    /// When it was last written.
    pub(super) written_at: Time,
    /// Since when it shows what it does, where that was there before we wrote; of a pod only.
    pub(super) seen_at: Time,
    /// Since when room is made for this member of a gang, which is said later; of a pod only.
    pub(super) room_since: Option<Time>,
    /// Of which version of the object what is wanted is; `None`: nobody says.
    pub(super) generation: Option<i64>,
    /// What the owner of a workload bears of its last stop, if the engine knows of none.
    pub(super) stopped: Option<Box<Stopped>>,
    /// When a place in a queue was last written.
    pub(super) placed_at: Time,
    /// The request that failed, or is on its way, patches the object itself and not its status.
    pub(super) of_object: bool,
    /// The object itself is patched no earlier: it could not be. Its status is written meanwhile.
    pub(super) object_at: Time,
    pub(super) object_failures: u32,
    pub(super) failures: u32,
    /// The patch of its status that was sent last.
    pub(super) sent: Option<Box<untaken::Sent>>,
    pub(super) filed: Option<Filed>,
}

/// Where it stands in line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filed {
    Later(Time),
    Ready(u8, u64),
}

/// What to do about an entry now.
pub(super) enum Next {
    Do(Write),
    Wait(Time),
    Nothing,
}

/// What an object is compared with besides itself.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// Workloads were listed.
    pub(super) listed: bool,
    /// Where work stands in its queue.
    pub(super) standings: &'a Standings,
    /// Our scheduler's name.
    pub(super) scheduler: &'a str,
}

/// The Workload that the API shows.
pub(super) fn shown_workload(entry: &Entry) -> Option<&ShownWorkload> {
    match &entry.shown {
        Some(Shown::Workload(shown)) => Some(shown),
        _ => None,
    }
}

/// How many ranks there are.
pub(super) const RANKS: usize = 4;

/// Whether an object is to be written beside effects as fast as without: it is to outlive its pods,
/// which those effects stop.
pub(super) fn is_urgent(entry: &Entry) -> bool {
    let wanted = entry.wanted.as_ref().filter(|_| entry.shown.is_some());
    matches!(wanted, Some(Wanted::Workload(it)) if workload::lets_go(it))
}

/// What is written first: what people wait for, then what merely follows. An object that shows
/// nothing yet is made whole before another is made, and one that is to outlive its pods is written
/// while they are there.
pub(super) fn rank(key: &Key, entry: &Entry) -> u8 {
    match (key, &entry.wanted, &entry.shown) {
        (_, Some(Wanted::Gone(_) | Wanted::Podless(..)), _) => 3,
        (Key::Workload(_), ..) if is_urgent(entry) => 0,
        (Key::Workload(_), _, Some(Shown::Workload(shown))) if shown.bare() => 0,
        (Key::Workload(_), _, None) => 1,
        (Key::Pod(_), ..) => 1,
        _ => 2,
    }
}

/// The request that is to be sent now.
pub(super) fn next(now: Time, key: &Key, entry: &Entry, around: Around<'_>) -> Next {
    untaken::but_for_vain(now, entry, due(now, key, entry, around))
}

/// The request that brings what is shown to what is wanted. Of a Workload that is another
/// scheduler's nothing is, and one that does not say that it is ours is not deleted.
fn due(now: Time, key: &Key, entry: &Entry, around: Around<'_>) -> Next {
    let Around { listed, scheduler, .. } = around;
    let Some(wanted) = &entry.wanted else { return Next::Nothing };
    let patch = |patch: Value, make: fn(Value) -> Write| match patch {
        Value::Null => Next::Nothing,
        patch => Next::Do(make(patch)),
    };
    match (wanted, &entry.shown) {
        (Wanted::Workload(_), None) if !listed => Next::Wait(now.plus(EVERY)),
        (Wanted::Workload(details), None) => match workload::due_from(details) {
            Some(at) if at <= now => {
                Next::Do(Write::Create(Box::new(workload::object(details, scheduler))))
            }
            Some(at) => Next::Wait(at),
            None => Next::Nothing,
        },
        (Wanted::Workload(_), Some(Shown::Workload(shown))) if is_anothers(shown, scheduler) => {
            Next::Nothing
        }
        (Wanted::Workload(details), Some(Shown::Workload(shown)))
            if workload::is_of_before(shown, details) =>
        {
            Next::Do(Write::Delete(shown.uid().map(str::to_owned)))
        }
        (Wanted::Workload(details), Some(Shown::Workload(shown))) => {
            next_of_workload(now, (key, entry), (details, shown), around)
        }
        (Wanted::ClusterQueue(_) | Wanted::LocalQueue(_) | Wanted::Cohort(_), None) => {
            Next::Do(Write::Read)
        }
        (Wanted::Group(wish), shown) => group(now, key, entry, wish, shown.as_ref()),
        (Wanted::ClusterQueue(view), Some(Shown::ClusterQueue(shown))) => {
            next_of_queue(now, entry, view, shown)
        }
        (Wanted::LocalQueue(view), Some(Shown::LocalQueue(shown))) => {
            let mut after = queues::local_queue(shown, view, now);
            observe(&mut after.conditions, &OF_QUEUES, entry.generation);
            let before = before(shown, &shown.conditions);
            patch(of_status(before, diff::value(&after)), Write::Status)
        }
        (Wanted::Cohort(view), Some(Shown::Cohort(shown))) => {
            let mut after = queues::cohort(shown, view, now);
            observe(&mut after.conditions, &OF_QUEUES, entry.generation);
            let before = before(shown, &shown.conditions);
            patch(of_status(before, diff::value(&after)), Write::Status)
        }
        (Wanted::Pod(wanted), _) => next_of_pod(now, entry, wanted),
        (Wanted::Gone(at) | Wanted::Podless(_, at), _) if now < *at => Next::Wait(*at),
        (Wanted::Gone(_) | Wanted::Podless(..), Some(Shown::Workload(shown)))
            if shown.scheduler() != Some(scheduler) =>
        {
            Next::Nothing
        }
        // Whoever holds an owner's work by it goes on holding it.
        (Wanted::Gone(_), Some(Shown::Workload(shown))) if shown.holds_an_owner() => Next::Nothing,
        (Wanted::Gone(_), Some(Shown::Workload(shown))) => {
            Next::Do(Write::Delete(shown.uid().map(str::to_owned)))
        }
        (Wanted::Podless(since, _), Some(Shown::Workload(shown))) => {
            let shown = shown.unpack();
            let before = shown.status.unwrap_or_default();
            let mut after = podless::status(&before, *since);
            observe(&mut after.conditions, &OF_WORKLOADS, shown.generation);
            patch(of_status(diff::value(&before), diff::value(&after)), Write::Status)
        }
        (Wanted::Gone(_) | Wanted::Podless(..), _) => Next::Nothing,
        (wanted, Some(shown)) => unreachable!("{key:?} wants {wanted:?} and shows {shown:?}"),
    }
}

/// The patch of a status; null: they are equal.
fn of_status(shown: Value, wanted: Value) -> Value {
    match diff::merge_patch(&shown, &wanted) {
        Some(changes) => json!({ "status": changes }),
        None => Value::Null,
    }
}

/// What is to be done about a Workload that is there. Where it does no more than stand elsewhere in
/// its queue, that is said again only after a while. The object itself goes first; where it could
/// not be written it keeps no status back.
fn next_of_workload(
    now: Time,
    (key, entry): (&Key, &Entry),
    (details, shown): (&WorkloadDetails, &ShownWorkload),
    around: Around<'_>,
) -> Next {
    let uid = shown.uid();
    let shown = shown.unpack();
    let refused = entry.of_object && entry.object_failures > 0;
    let object = match workload::object_patch(uid, &shown, details, around.scheduler) {
        None => Next::Nothing,
        Some(_) if now < entry.object_at => Next::Wait(entry.object_at),
        Some(changes) => Next::Do(Write::Object(changes)),
    };
    if matches!(object, Next::Do(_)) && !refused {
        return object;
    }
    let before = shown.status.unwrap_or_default();
    let known = stopped::said(before.clone(), details, entry.stopped.as_deref());
    let mut after = workload::status(&known, details, now);
    finished::keep(&known, &shown.spec, &mut after, details);
    if let Key::Workload(name) = key {
        places::say(&mut after, details, name, around.standings);
    }
    observe(&mut after.conditions, &OF_WORKLOADS, shown.generation);
    let changes = of_status(diff::value(&before), diff::value(&after));
    let at = entry.placed_at.plus(PLACES_EVERY);
    let place_only = before.queue_position.is_some() && places::only(&changes["status"]);
    match (changes, object) {
        (Value::Null, object) => object,
        (_, Next::Do(object)) if place_only && now < at => Next::Do(object),
        (_, Next::Wait(again_at)) if place_only && now < at => Next::Wait(at.min(again_at)),
        (_, Next::Nothing) if place_only && now < at => Next::Wait(at),
        _ => {
            accrued::reckon(&before, &mut after, &details.view, now);
            Next::Do(Write::Status(of_status(diff::value(&before), diff::value(&after))))
        }
    }
}

/// What is to be done about a ClusterQueue that is there: first what keeps it, and where that could
/// not be written its status all the same.
fn next_of_queue(now: Time, entry: &Entry, view: &QueueView, shown: &ShownQueue) -> Next {
    if shown.gone() {
        return Next::Nothing;
    }
    let look_at = entry.written_at.plus(EVERY);
    let object = match in_use::due(shown, view) {
        Due::Nothing => Next::Nothing,
        Due::Look if now < look_at => Next::Wait(look_at),
        Due::Look => Next::Do(Write::Read),
        Due::Patch(_) if now < entry.object_at => Next::Wait(entry.object_at),
        Due::Patch(patch) => Next::Do(Write::Object(patch)),
    };
    let refused = entry.of_object && entry.object_failures > 0;
    if matches!(object, Next::Do(_)) && !refused {
        return object;
    }
    let status = &shown.status;
    let mut after = queues::cluster_queue(status, view, now);
    observe(&mut after.conditions, &OF_QUEUES, entry.generation);
    match of_status(before(status, &status.conditions), diff::value(&after)) {
        Value::Null => object,
        changes => Next::Do(Write::Status(changes)),
    }
}

/// What is to be done about a pod that waits. What others act on does not stand for longer than it
/// is so; else it is said later that room is made for it.
fn next_of_pod(now: Time, entry: &Entry, wanted: &Arc<PodCondition>) -> Next {
    let shown = match &entry.shown {
        Some(Shown::Pod(shown)) if shown == wanted => return Next::Nothing,
        Some(Shown::Pod(shown)) => Some(shown),
        _ => None,
    };
    let since = entry.room_since.filter(|_| shown.is_none_or(|shown| !shown.is_acted_on()));
    let room_at = since.map_or(now, |since| since.plus(ROOM_PATIENCE));
    match shown {
        _ if now < room_at => Next::Wait(room_at),
        Some(shown) => next_words(now, entry, wanted, shown),
        None => Next::Do(Write::Condition(wanted.clone(), entry.generation)),
    }
}

/// What a pod says instead: at once where its reason or node is another, else now and then.
fn next_words(now: Time, entry: &Entry, wanted: &Arc<PodCondition>, shown: &PodCondition) -> Next {
    let since = entry.written_at.max(entry.seen_at);
    let words_only = (&wanted.reason, &wanted.node) == (&shown.reason, &shown.node);
    let at = if words_only { since.plus(WORDS_EVERY) } else { now };
    if now < at {
        Next::Wait(at)
    } else {
        Next::Do(Write::Reword(wanted.clone(), entry.generation))
    }
}

/// What is to be done about the status of a PodGroup.
fn group(now: Time, key: &Key, entry: &Entry, wish: &GroupWish, shown: Option<&Shown>) -> Next {
    let (Key::Group(key), Some(Shown::Group(shown))) = (key, shown) else {
        return Next::Do(Write::Read);
    };
    if shown.uid != wish.uid {
        // Another one is there, or is to come.
        let at = entry.written_at.plus(EVERY);
        return if at <= now { Next::Do(Write::Read) } else { Next::Wait(at) };
    }
    if wish.stands == Stands::Left {
        return Next::Do(Write::Count);
    }
    let at = entry.written_at.plus(WORDS_EVERY);
    let fresh = at <= now;
    match groups::patch(key, shown, wish, (now, fresh)) {
        Some(patch) => Next::Do(Write::Status(patch)),
        None if !fresh && groups::patch(key, shown, wish, (now, true)).is_some() => Next::Wait(at),
        None => Next::Nothing,
    }
}

/// What a queue's status is compared with. Before the first, even a zero is news.
fn before<S: serde::Serialize, C>(shown: &S, conditions: &[C]) -> Value {
    if conditions.is_empty() { json!({}) } else { diff::value(shown) }
}

/// What it is counted as.
pub(super) fn counted(key: &Key, write: &Write, entry: &Entry) -> What {
    match (write, key, &entry.wanted) {
        (Write::Create(_), ..) => What::Created,
        (Write::Object(_), Key::ClusterQueue(_), _) => What::QueueFinalizer,
        (Write::Object(_), ..) => What::Object,
        (Write::Condition(..) | Write::Reword(..), ..) => What::PodCondition,
        (Write::Delete(_), ..) => What::Deleted,
        (Write::Read | Write::Count, ..) => What::Read,
        (Write::Status(_), Key::Group(_), _) => What::GroupStatus,
        (Write::Status(patch), Key::Workload(_), _) if places::only(&patch["status"]) => {
            What::StatusPlace
        }
        (Write::Status(_), Key::Workload(_), Some(Wanted::Workload(details))) => {
            match details.view.state {
                State::Running | State::Evicting | State::Finished => What::StatusLater,
                _ => What::StatusUntilBound,
            }
        }
        (Write::Status(_), ..) => What::QueueStatus,
    }
}
