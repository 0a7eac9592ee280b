//! The annotations that survive a restart: what a workload was admitted with, and who wants its
//! room.
//!
//! Decides their text in both directions, so that what one engine writes the next one reads. A
//! value that cannot be read is ignored and named.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{BindingNote, EvictionNote, Labels, RequeueNote, StopKind, Text};
use capstan_core::money::MicroUsd;
use capstan_core::plan::PreemptionReason;
use capstan_core::time::{Span, Time};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::marks::Marks;
use super::sharing::Shared;
use crate::api::keys;
use crate::quantity::Quantity;

/// Reads the binding annotations of a pod; `None`: it has none.
pub fn binding(marks: &Marks, shared: &mut Shared, ignored: &mut Vec<Text>) -> Option<BindingNote> {
    let annotations = &marks.annotations;
    let ours = [
        keys::WORKLOAD,
        keys::CLUSTER_QUEUE,
        keys::FLAVORS,
        keys::ADMITTED_AT,
        keys::PRICE,
        keys::BEGAN_WITH,
    ];
    if !ours.iter().any(|key| annotations.contains_key(*key)) {
        return None;
    }
    let mut read = |key: &str, what: &str, good: &mut dyn FnMut(&str) -> bool| {
        if let Some(value) = annotations.get(key).filter(|value| !good(value)) {
            ignored.push(malformed(key, value, what));
        }
    };
    let mut note = BindingNote {
        workload: annotations.get(keys::WORKLOAD).cloned(),
        queue: annotations.get(keys::CLUSTER_QUEUE).map(|name| shared.texts.text(name)),
        ..Default::default()
    };
    read(keys::FLAVORS, "a JSON map of resource to flavor", &mut |text| {
        serde_json::from_str(text).map(|map| note.flavors = flavors(map, shared)).is_ok()
    });
    read(keys::ADMITTED_AT, "a time such as 2026-01-31T10:00:00Z", &mut |text| {
        stamp(text).map(|time| note.admitted_at = Some(time)).is_some()
    });
    read(keys::PRICE, "a price such as 12.25", &mut |text| {
        price(text).map(|price| note.price = Some(price)).is_some()
    });
    read(keys::BEGAN_WITH, "a number above 0", &mut |text| {
        count(text).map(|members| note.began_with = Some(members)).is_some()
    });
    Some(note)
}

fn flavors(map: BTreeMap<String, String>, shared: &mut Shared) -> Arc<BTreeMap<Text, Text>> {
    let texts = &mut shared.texts;
    let map = map.into_iter().map(|(key, value)| (texts.text(&key), texts.text(&value))).collect();
    shared.flavors.of(map)
}

fn stamp(text: &str) -> Option<Time> {
    text.parse::<Timestamp>().ok().map(|stamp| Time(stamp.as_millisecond()))
}

fn price(text: &str) -> Option<MicroUsd> {
    let quantity = Quantity::parse(text)?;
    (!quantity.is_negative()).then(|| quantity.dollars())
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count: &u32| *count > 0)
}

/// What is said of a value that was ignored.
pub fn malformed(key: &str, value: &str, wanted: &str) -> Text {
    let shown: String = value.chars().take(60).collect();
    format!("{key}: {shown:?} is not {wanted}; it is ignored").into()
}

/// What is said of a value that counts although another key says something else.
pub fn contradicted((key, value): (&str, &str), (other, says): (&str, &str)) -> Text {
    let shown = |value: &str| value.chars().take(60).collect::<String>();
    let (value, says) = (shown(value), shown(says));
    format!("{key}: {value:?} counts, and not {says:?}, as {other} has it").into()
}

/// What is said of pod sets that differ in what is read of the first of them.
pub fn of_first(
    key: &str,
    (name, own): (&str, Option<&str>),
    (first, holds): (&str, Option<&str>),
) -> Text {
    let shown = |said: Option<&str>| match said {
        Some(value) => format!("{:?}", value.chars().take(60).collect::<String>()),
        None => "nothing".to_owned(),
    };
    let (own, holds) = (shown(own), shown(holds));
    format!(
        "{key}: it is asked of the whole gang, by the first template: {name} says {own}, but \
         {first} {holds}, which holds for all"
    )
    .into()
}

/// The binding annotations of a pod.
pub fn annotations(note: &BindingNote) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if let Some(workload) = &note.workload {
        all.insert(keys::WORKLOAD.to_owned(), workload.to_string());
    }
    if let Some(queue) = &note.queue {
        all.insert(keys::CLUSTER_QUEUE.to_owned(), queue.to_string());
    }
    if !note.flavors.is_empty() {
        let map = serde_json::to_string(&note.flavors).expect("a map of texts is JSON");
        all.insert(keys::FLAVORS.to_owned(), map);
    }
    if let Some(time) = note.admitted_at {
        all.insert(keys::ADMITTED_AT.to_owned(), rfc3339(time));
    }
    if let Some(price) = note.price {
        all.insert(keys::PRICE.to_owned(), dollars(price));
    }
    if let Some(members) = note.began_with {
        all.insert(keys::BEGAN_WITH.to_owned(), members.to_string());
    }
    all
}

/// A time as annotations show it; one beyond the calendar is shown as its end.
pub fn rfc3339(time: Time) -> String {
    let end = if time.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(time.0).unwrap_or(end).to_string()
}

/// Decimal dollars, to the last millionth that is not zero.
fn dollars(price: MicroUsd) -> String {
    let sign = if price.0 < 0 { "-" } else { "" };
    let micro = price.0.unsigned_abs();
    let text = format!("{sign}{}.{:06}", micro / 1_000_000, micro % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What an owner was resumed with, as one JSON annotation.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Admitted {
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_queue: Option<String>,
    flavors: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    admitted_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    began_with: Option<u32>,
}

/// Reads what an owner was resumed with.
pub fn admitted(
    annotations: &Labels,
    shared: &mut Shared,
    ignored: &mut Vec<Text>,
) -> Option<BindingNote> {
    let text = annotations.get(keys::ADMITTED)?;
    let Ok(read) = serde_json::from_str::<Admitted>(text) else {
        ignored.push(malformed(keys::ADMITTED, text, "the JSON that Capstan writes"));
        return None;
    };
    Some(BindingNote {
        flavors: flavors(read.flavors, shared),
        admitted_at: read.admitted_at.as_deref().and_then(stamp),
        price: read.price.as_deref().and_then(price),
        workload: read.workload.map(Text::from),
        queue: read.cluster_queue.map(|name| shared.texts.text(&name)),
        began_with: read.began_with,
    })
}

/// The value of [`keys::ADMITTED`] for an owner that is being resumed.
pub fn admitted_value(note: &BindingNote) -> String {
    let mut all = annotations(note);
    let flavors = note.flavors.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    let written = Admitted {
        workload: all.remove(keys::WORKLOAD),
        cluster_queue: all.remove(keys::CLUSTER_QUEUE),
        flavors: flavors.collect(),
        admitted_at: all.remove(keys::ADMITTED_AT),
        price: all.remove(keys::PRICE),
        began_with: note.began_with,
    };
    serde_json::to_string(&written).expect("texts are JSON")
}

/// What the next run of an owner has to know, as one JSON annotation.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Requeued {
    at: String,
    #[serde(skip_serializing_if = "is_zero")]
    unready: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unready_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    ran_seconds: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stops: Vec<String>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// One word for a kind of stops.
fn stop_word(kind: StopKind) -> String {
    match kind.words() {
        (word, "") => word.to_owned(),
        (word, cause) => format!("{word}DueTo{cause}"),
    }
}

/// Reads what an owner bears of the runs that we stopped.
pub fn requeued(annotations: &Labels, ignored: &mut Vec<Text>) -> Option<RequeueNote> {
    let text = annotations.get(keys::REQUEUED)?;
    let read = serde_json::from_str::<Requeued>(text).ok();
    let note = read.and_then(|read| {
        Some(RequeueNote {
            at: stamp(&read.at)?,
            unready: read.unready,
            unready_at: read.unready_at.as_deref().and_then(stamp),
            not_before: read.not_before.as_deref().and_then(stamp),
            ran: Span(read.ran_seconds.max(0).saturating_mul(1_000)),
            // A word of a later version is passed over.
            stops: StopKind::ALL
                .into_iter()
                .filter(|kind| read.stops.contains(&stop_word(*kind)))
                .collect(),
        })
    });
    if note.is_none() {
        ignored.push(malformed(keys::REQUEUED, text, "the JSON that Capstan writes"));
    }
    note
}

/// When the owner with this value of [`keys::REQUEUED`] was stopped last.
pub fn stopped_at(text: &str) -> Option<Time> {
    stamp(&serde_json::from_str::<Requeued>(text).ok()?.at)
}

/// The value of [`keys::REQUEUED`] for an owner that is being suspended.
pub fn requeued_value(note: &RequeueNote) -> String {
    let written = Requeued {
        at: rfc3339(note.at),
        unready: note.unready,
        unready_at: note.unready_at.map(rfc3339),
        not_before: note.not_before.map(rfc3339),
        ran_seconds: note.ran.0 / 1_000,
        stops: note.stops.iter().map(stop_word).collect(),
    };
    serde_json::to_string(&written).expect("texts are JSON")
}

/// Who wants the room of a victim, and why.
pub fn eviction(marks: &Marks, ignored: &mut Vec<Text>) -> Option<EvictionNote> {
    let preemptor = marks.annotations.get(keys::PREEMPTED_BY)?.clone();
    let word = marks.annotations.get(keys::PREEMPTION_REASON);
    let reason = match word.map(|word| (word, reason(word))) {
        Some((_, Some(reason))) => reason,
        Some((word, None)) => {
            let wanted = "a reason of preemption";
            ignored.push(malformed(keys::PREEMPTION_REASON, word, wanted));
            PreemptionReason::Priority
        }
        None => PreemptionReason::Priority,
    };
    Some(EvictionNote { preemptor, reason })
}

fn reason(word: &str) -> Option<PreemptionReason> {
    use PreemptionReason::*;
    let all = [
        InClusterQueue,
        InCohortReclamation,
        InCohortReclaimWhileBorrowing,
        InCohortFairSharing,
        Priority,
    ];
    all.into_iter().find(|reason| reason.as_str() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(list: &[(&str, &str)]) -> Marks {
        let annotations = list.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        Marks { annotations: annotations.collect(), ..Default::default() }
    }

    fn example() -> BindingNote {
        BindingNote {
            flavors: BTreeMap::from([("cpu".into(), "spot".into())]).into(),
            admitted_at: Some(Time(1_767_268_800_000)),
            price: Some(MicroUsd(12_250_000)),
            workload: Some("train".into()),
            queue: Some("main".into()),
            began_with: Some(3),
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let written = annotations(&example());
        assert_eq!(written.get(keys::PRICE).map(String::as_str), Some("12.25"));
        assert_eq!(
            written.get(keys::ADMITTED_AT).map(String::as_str),
            Some("2026-01-01T12:00:00Z")
        );
        let pairs: Vec<(&str, &str)> =
            written.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let mut ignored = Vec::new();
        assert_eq!(binding(&marks(&pairs), &mut Shared::default(), &mut ignored), Some(example()));
        let owner = marks(&[(keys::ADMITTED, &admitted_value(&example()))]);
        assert_eq!(
            admitted(&owner.annotations, &mut Shared::default(), &mut ignored),
            Some(example())
        );
        assert_eq!(ignored, Vec::<Text>::new());
        assert_eq!(dollars(MicroUsd(0)), "0");
    }

    #[test]
    fn what_a_next_run_has_to_know_reads_back() {
        let all = RequeueNote {
            at: Time(1_767_268_800_250),
            unready: 2,
            unready_at: Some(Time(1_767_268_800_250)),
            not_before: Some(Time(1_767_268_920_250)),
            ran: Span::seconds(90),
            stops: [StopKind::Preempted, StopKind::NeverReady].into_iter().collect(),
        };
        let few = RequeueNote { at: all.at, ..RequeueNote::default() };
        let mut ignored = Vec::new();
        for note in [all, few] {
            let owner = marks(&[(keys::REQUEUED, &requeued_value(&note))]);
            assert_eq!(requeued(&owner.annotations, &mut ignored), Some(note));
        }
        let written = requeued_value(&all);
        let words = r#""stops":["Preempted","PodsReadyTimeoutDueToWaitForStart"]"#;
        assert!(written.contains(words), "{written}");
        assert_eq!(requeued(&marks(&[]).annotations, &mut ignored), None);
        assert_eq!(ignored, Vec::<Text>::new());
        for odd in ["twice", "{}", r#"{"at":"then"}"#] {
            let owner = marks(&[(keys::REQUEUED, odd)]);
            assert_eq!(requeued(&owner.annotations, &mut ignored), None, "{odd}");
        }
        assert_eq!(ignored.len(), 3);
        assert!(ignored[0].starts_with(r#"capstan.sh/requeued: "twice" is not the JSON"#));
    }

    #[test]
    fn malformed_values_are_ignored_and_named() {
        let odd = marks(&[
            (keys::FLAVORS, "spot"),
            (keys::ADMITTED_AT, "yesterday"),
            (keys::PRICE, "-1"),
            (keys::BEGAN_WITH, "0"),
        ]);
        let mut ignored = Vec::new();
        assert_eq!(
            binding(&odd, &mut Shared::default(), &mut ignored),
            Some(BindingNote::default())
        );
        assert_eq!(ignored.len(), 4);
        assert!(ignored[0].starts_with(r#"capstan.sh/flavors: "spot" is not a JSON map"#));
        let odd = marks(&[(keys::ADMITTED, "yes")]);
        assert_eq!(admitted(&odd.annotations, &mut Shared::default(), &mut ignored), None);
        assert_eq!(ignored.len(), 5);
    }

    #[test]
    fn a_victim_names_its_preemptor() {
        let victim =
            marks(&[(keys::PREEMPTED_BY, "a/b"), (keys::PREEMPTION_REASON, "InCohortReclamation")]);
        let note = eviction(&victim, &mut Vec::new()).expect("note");
        assert_eq!((&*note.preemptor, note.reason), ("a/b", PreemptionReason::InCohortReclamation));
        assert_eq!(eviction(&marks(&[]), &mut Vec::new()), None);
    }
}
