//! Status of PodGroups: the condition of Kubernetes' own, phases of those of others.
//!
//! Problem: who makes a group looks at its status, and some of them wait for it: Volcano's
//! controller, and Kubeflow's operators, make no pods before the phase is `Inqueue`.
//!
//! Decides nothing: how a gang stands is what the engine says of its workload, in the words of
//! whichever project the group is of. Only groups whose members name this scheduler are written,
//! and those of Volcano whose owner says that its pods will.
//!
//! | | Kubernetes | scheduler-plugins | Volcano |
//! |---|---|---|---|
//! | no pods are made yet | | | `Inqueue` |
//! | pods are lacking | | `Pending` | `Inqueue`, Unschedulable |
//! | it waits | False | `Pending` | `Inqueue`, Unschedulable |
//! | part of it runs, the rest waits | False | `Unknown` | `Unknown`, Unschedulable |
//! | it has its nodes | True | `Scheduling` | `Running`, Scheduled |
//! | it has started | True | `Running` | `Running`, Scheduled |
//! | all of its pods ended | | `Finished` or `Failed` | `Completed` |
//!
//! Kubernetes' condition is of the first success only: once it is True it stays. A group of
//! Volcano's is let in at once, and never shut again: what Capstan admits are pods, which hold
//! nothing while they wait, so there is nothing to protect by keeping them from being made.
//! `minResources` is not looked at for the same reason.
//!
//! Pods that ended count as long as they are there and nobody deletes them. How those ended that
//! were being deleted is asked for once, when the last is gone. What was said of a group all of
//! whose pods ended stays while they are deleted one after the other, whoever leads by then.
//! Whatever else a status has is left as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::explain::reason::Reason;
use capstan_core::explain::view::WorkloadDetails;
use capstan_core::model::input::{GangSource, Text};
use capstan_core::plan::State;
use capstan_core::time::Time;
use serde_json::{Map, Value, json};

use super::conditions::api_time;
use super::diff;
use super::plan::Name;
use super::pods::{self, PodCondition};
use crate::convert::group::GroupDraft;
use crate::gangs::groups::key_of;
use crate::gangs::kinds::Kind;
use crate::live::Live;

/// Where a group is in the API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// Of which API group.
    pub kind: Kind,
    /// The version in which it is served.
    pub version: Text,
    /// Namespace and name.
    pub name: Name,
}

/// What a status is to say.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupWish {
    /// Unique id of the group that is meant.
    pub uid: Text,
    /// Members that must run together.
    pub least: u32,
    /// Who owns its first member, `namespace/name`.
    pub occupied_by: Option<Text>,
    /// Members that run.
    pub running: u32,
    /// Members that ended.
    pub ended: Ends,
    /// How it stands.
    pub stands: Stands,
}

/// How a group stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Stands {
    /// Its pods may be made.
    Open,
    /// Pods are lacking.
    Gathers(Arc<PodCondition>),
    /// It waits for room, quota, or whatever else this says.
    Waits(Arc<PodCondition>),
    /// Some of it has nodes, fewer than must run together, and this is why.
    InPart(Arc<PodCondition>),
    /// Enough of it has nodes.
    Placed,
    /// Enough of it runs.
    Started,
    /// Its last pod is gone; nobody has counted yet how they ended.
    Left,
    /// All of its pods ended in this way.
    Ended(Ends),
}

/// Pods that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Well.
    pub succeeded: u32,
    /// Badly.
    pub failed: u32,
}

/// What the API shows of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownGroup {
    /// Unique id.
    pub uid: Text,
    /// Which of its versions this is: a patch that is made for another is refused.
    pub resource_version: String,
    /// Its spec's version.
    pub generation: Option<i64>,
    /// Its status; `null` where it has none.
    pub status: Value,
}

impl ShownGroup {
    /// What is shown by an object.
    pub fn of(object: &Value) -> ShownGroup {
        let meta = &object["metadata"];
        ShownGroup {
            uid: meta["uid"].as_str().unwrap_or_default().into(),
            resource_version: meta["resourceVersion"].as_str().unwrap_or_default().to_owned(),
            generation: meta["generation"].as_i64(),
            status: object["status"].clone(),
        }
    }
}

/// Groups of workloads.
#[derive(Debug, Default)]
pub struct Bearers {
    groups: BTreeMap<Name, (GroupKey, GroupWish)>,
    workloads: BTreeMap<GroupKey, Name>,
}

impl Bearers {
    /// The workload of this name is of this group.
    pub fn note(&mut self, workload: Name, key: &GroupKey, wish: &GroupWish) {
        self.workloads.insert(key.clone(), workload.clone());
        self.groups.insert(workload, (key.clone(), wish.clone()));
    }

    /// A workload is gone; its group, unless that is another's by now, and what it is to say.
    pub fn gone(&mut self, workload: &Name) -> Option<(GroupKey, GroupWish)> {
        let (key, wish) = self.groups.remove(workload)?;
        if self.workloads.get(&key) != Some(workload) {
            return None;
        }
        self.workloads.remove(&key);
        // Kubernetes' condition says nothing of the end, and of what ended well the pods that did
        // say no more once they are deleted.
        let ends = key.kind != Kind::UpstreamGroup && !matches!(wish.stands, Stands::Ended(_));
        ends.then_some((key, GroupWish { running: 0, stands: Stands::Left, ..wish }))
    }
}

/// The group of a workload, and what its status is to say; `None`: it has none, or nothing is to
/// be said of it now.
pub fn of_workload(details: &WorkloadDetails, live: &Live) -> Option<(GroupKey, GroupWish)> {
    let kind = match details.source {
        GangSource::SchedulingGroup => Kind::UpstreamGroup,
        GangSource::PodGroup => Kind::PluginsGroup,
        GangSource::VolcanoGroup => Kind::VolcanoGroup,
        _ => return None,
    };
    let namespace = &details.view.namespace;
    let group = live.group(kind, namespace, details.group.as_ref()?)?;
    let (succeeded, failed) = live.ended_in(&key_of(group));
    let ended = Ends { succeeded, failed };
    let stands = match details.view.state {
        State::Finished => ended_so(group, ended)?,
        _ => stands(details)?,
    };
    let first = details.first_pods.first().and_then(|pod| live.owner_of(&pod.uid));
    let wish = GroupWish {
        least: group.says.min.unwrap_or(details.needed),
        occupied_by: first.map(|owner| format!("{namespace}/{}", owner.name).into()),
        running: details.running,
        ended,
        ..wish(group, stands)
    };
    Some((key(group), wish))
}

/// A group whose pods may be made.
pub fn opened(group: &GroupDraft) -> (GroupKey, GroupWish) {
    (key(group), wish(group, Stands::Open))
}

/// Where a group is in the API.
pub fn key(group: &GroupDraft) -> GroupKey {
    let name = (group.namespace.clone(), group.name.clone());
    GroupKey { kind: group.kind, version: group.version.clone(), name }
}

fn wish(group: &GroupDraft, stands: Stands) -> GroupWish {
    GroupWish {
        uid: group.uid.clone(),
        least: group.says.min.unwrap_or(1),
        occupied_by: None,
        running: 0,
        ended: Ends::default(),
        stands,
    }
}

/// How a group stands none of whose pods goes on; `None`: nobody can say. One that is not let in
/// was made again: who ended were pods of the one before.
fn ended_so(group: &GroupDraft, ended: Ends) -> Option<Stands> {
    let tells = !group.shut && ended != Ends::default();
    tells.then_some(Stands::Ended(ended))
}

/// How the gang of a workload stands; `None`: it is on its way from one to the other, or others
/// have a say in it.
fn stands(details: &WorkloadDetails) -> Option<Stands> {
    let view = &details.view;
    let why = || {
        let why = view.reason.as_ref();
        let why = why.filter(|why| !matches!(why, Reason::ForeignMembers { .. }))?;
        Some(Arc::new(pods::condition(why)))
    };
    match view.state {
        State::Gathering => Some(Stands::Gathers(why()?)),
        State::Queued | State::Reserved | State::Provisioning => Some(Stands::Waits(why()?)),
        State::Binding if details.placed < details.needed => Some(Stands::InPart(why()?)),
        State::Running if details.started => Some(Stands::Started),
        State::Running => Some(Stands::Placed),
        State::Binding | State::Resuming | State::Preparing | State::Evicting | State::Finished => {
            None
        }
    }
}

/// The patch that makes a status say what it is to say; `None`: it does. A message alone is
/// changed only if it is `fresh`.
pub fn patch(
    key: &GroupKey,
    shown: &ShownGroup,
    wish: &GroupWish,
    (now, fresh): (Time, bool),
) -> Option<Value> {
    if is_said(&shown.status, wish) {
        return None;
    }
    let status = match key.kind {
        Kind::UpstreamGroup => {
            let condition = upstream(&key.version, shown, wish, (now, fresh))?;
            // Patched by its type, so that those of others stay whatever became of them.
            json!({ "conditions": [condition] })
        }
        Kind::VolcanoGroup => changes(&shown.status, volcano(&shown.status, wish, (now, fresh)))?,
        _ => changes(&shown.status, plugins(&shown.status, wish, now))?,
    };
    let meta = match key.kind {
        Kind::UpstreamGroup => json!({ "uid": &*wish.uid }),
        // Lists are replaced whole: by who has seen them.
        _ => json!({ "uid": &*wish.uid, "resourceVersion": shown.resource_version }),
    };
    Some(json!({ "metadata": meta, "status": status }))
}

/// Whether a status says already how pods ended, these and maybe others, some of which were deleted
/// since.
fn is_said(status: &Value, wish: &GroupWish) -> bool {
    let Stands::Ended(ends) = &wish.stands else { return false };
    let count = |key: &str| status[key].as_u64().unwrap_or(0);
    let is_over = matches!(status["phase"].as_str(), Some("Finished" | "Failed" | "Completed"));
    is_over
        && count("running") == u64::from(wish.running)
        && count("succeeded") >= u64::from(ends.succeeded)
        && count("failed") >= u64::from(ends.failed)
}

/// Whether a status that was answered has what a patch said.
pub fn taken(patch: &Value, shown: &ShownGroup) -> bool {
    let empty = Value::Null;
    let said = &patch["status"];
    let conditions = |of: &Value| of["conditions"].as_array().cloned().unwrap_or_default();
    let all = said.as_object().into_iter().flatten().all(|(key, said)| match key.as_str() {
        "conditions" => true,
        key => shown.status.get(key).unwrap_or(&empty) == said,
    });
    let shows = conditions(&shown.status);
    all && conditions(said).iter().all(|one| shows.iter().any(|it| it["type"] == one["type"]))
}

fn changes(shown: &Value, wanted: Map<String, Value>) -> Option<Value> {
    let differs = |(key, value): &(String, Value)| match (shown.get(key), value) {
        // What is left out is zero.
        (None | Some(Value::Null), Value::Number(zero)) => zero.as_u64() != Some(0),
        (shown, value) => shown != Some(value),
    };
    let changes: Map<String, Value> = wanted.into_iter().filter(differs).collect();
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// The condition of Kubernetes' own, if it is to be written.
fn upstream(
    version: &str,
    shown: &ShownGroup,
    wish: &GroupWish,
    (now, fresh): (Time, bool),
) -> Option<Value> {
    // Its name was another before v1alpha3.
    let of = match version {
        "v1alpha2" => "PodGroupScheduled",
        _ => "PodGroupInitiallyScheduled",
    };
    let (status, reason, message) = match &wish.stands {
        Stands::Placed | Stands::Started => ("True", "Scheduled", ""),
        Stands::Waits(why) | Stands::InPart(why) => {
            // Who waits for quota is told so: more nodes would not help.
            let word = if is_malformed(why) { "SchedulerError" } else { why.reason.as_str() };
            ("False", word, why.message.as_str())
        }
        Stands::Open | Stands::Gathers(_) | Stands::Left | Stands::Ended(_) => return None,
    };
    let message = short(message);
    let known = conditions(&shown.status).into_iter().find(|known| known["type"] == of);
    let known = known.unwrap_or_default();
    let same = known["status"] == status && known["reason"] == reason;
    if known["status"] == "True" || same && (!fresh || text(&known["message"]) == message) {
        return None;
    }
    let since = match known["status"] == status {
        true => known["lastTransitionTime"].clone(),
        false => diff::value(&api_time(now)),
    };
    Some(json!({
        "type": of,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": shown.generation,
    }))
}

/// Fields of scheduler-plugins' status.
fn plugins(shown: &Value, wish: &GroupWish, now: Time) -> Map<String, Value> {
    let mut status = Map::new();
    let phase = match &wish.stands {
        Stands::Open | Stands::Left => None,
        Stands::Gathers(_) | Stands::Waits(_) => Some("Pending"),
        Stands::InPart(_) => Some("Unknown"),
        Stands::Placed => Some("Scheduling"),
        Stands::Started => Some("Running"),
        // Who failed may have been replaced.
        Stands::Ended(ends) if ends.succeeded >= wish.least => Some("Finished"),
        Stands::Ended(ends) if ends.failed > 0 => Some("Failed"),
        Stands::Ended(_) => None,
    };
    status.extend(phase.map(|phase| ("phase".to_owned(), json!(phase))));
    counts(&mut status, wish);
    let lacks = |key: &str| matches!(&shown[key], Value::Null) || shown[key] == "";
    let begun = matches!(wish.stands, Stands::Waits(_) | Stands::Placed | Stands::Started);
    if begun && lacks("scheduleStartTime") {
        status.insert("scheduleStartTime".to_owned(), diff::value(&api_time(now)));
    }
    if let Some(owner) = wish.occupied_by.as_ref().filter(|_| lacks("occupiedBy")) {
        status.insert("occupiedBy".to_owned(), json!(&**owner));
    }
    status
}

/// Fields of Volcano's status.
fn volcano(shown: &Value, wish: &GroupWish, (now, fresh): (Time, bool)) -> Map<String, Value> {
    let mut status = Map::new();
    let phase = match &wish.stands {
        Stands::Open | Stands::Gathers(_) | Stands::Waits(_) => Some("Inqueue"),
        Stands::InPart(_) if wish.running > 0 => Some("Unknown"),
        Stands::InPart(_) => Some("Inqueue"),
        Stands::Placed | Stands::Started => Some("Running"),
        Stands::Ended(ends) if ends.succeeded + ends.failed > 0 => Some("Completed"),
        Stands::Left | Stands::Ended(_) => None,
    };
    status.extend(phase.map(|phase| ("phase".to_owned(), json!(phase))));
    counts(&mut status, wish);
    let (of, reason, message) = match &wish.stands {
        Stands::Gathers(why) => ("Unschedulable", "NotEnoughTasks", why.message.as_str()),
        Stands::Waits(why) | Stands::InPart(why) => {
            let room = why.reason == "Unschedulable";
            let word = if room { "NotEnoughResources" } else { why.reason.as_str() };
            ("Unschedulable", word, why.message.as_str())
        }
        Stands::Placed | Stands::Started => {
            ("Scheduled", "tasks in gang are ready to be scheduled", "")
        }
        Stands::Open | Stands::Left | Stands::Ended(_) => return status,
    };
    let message = short(message);
    let all = conditions(shown);
    let own = |it: &Value| it["type"] == "Unschedulable" || it["type"] == "Scheduled";
    let holds = |it: &Value| it["type"] == of && it["status"] == "True";
    let known = all.iter().find(|it| holds(it));
    let same = known
        .is_some_and(|it| it["reason"] == reason && (!fresh || text(&it["message"]) == message));
    if same && all.iter().filter(|it| own(it)).count() == 1 {
        return status;
    }
    let since = known.map(|it| it["lastTransitionTime"].clone());
    let since = since.unwrap_or_else(|| diff::value(&api_time(now)));
    // One of the two: who makes the pods warns of the first, whatever its status.
    let mut kept: Vec<Value> = all.into_iter().filter(|it| !own(it)).collect();
    kept.push(json!({
        "type": of,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }));
    status.insert("conditions".to_owned(), Value::Array(kept));
    status
}

/// Pods that run, and those that ended.
fn counts(status: &mut Map<String, Value>, wish: &GroupWish) {
    let ended = match &wish.stands {
        Stands::Open | Stands::Left => return,
        Stands::Ended(ends) => ends,
        _ => &wish.ended,
    };
    status.insert("running".to_owned(), json!(wish.running));
    status.insert("succeeded".to_owned(), json!(ended.succeeded));
    status.insert("failed".to_owned(), json!(ended.failed));
}

fn conditions(status: &Value) -> Vec<Value> {
    status["conditions"].as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether it waits for somebody to change what it asks.
fn is_malformed(why: &PodCondition) -> bool {
    why.reason == "Misconfigured"
}

/// Characters that a message may have: a group is read by many, and its Workload says everything.
const MESSAGE_MAX: usize = 4_096;

fn short(message: &str) -> String {
    message.chars().take(MESSAGE_MAX).collect()
}
