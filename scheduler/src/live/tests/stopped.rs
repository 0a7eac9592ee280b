//! What the marks of an owner say of its last stop.

use capstan_core::model::input::EvictionNote;
use capstan_core::plan::{OwnerRef, PreemptionReason};

use super::*;
use crate::live::Stopped;

#[test]
fn the_last_stop_of_a_job_is_that_of_its_marks_unless_it_was_resumed_since() {
    let mut live = synced(&Config::default());
    let at = Time(1_767_225_605_000);
    let owner = |uid: &str| OwnerRef {
        kind: "Job".into(),
        namespace: "ns".into(),
        name: "j".into(),
        uid: uid.into(),
    };
    let mut marked = |suspend: bool, note: &str, more: Value| {
        let mut value = job_value("j", "u");
        value["spec"]["suspend"] = json!(suspend);
        value["metadata"]["annotations"] = more;
        value["metadata"]["annotations"]["capstan.sh/suspended"] = json!("1");
        value["metadata"]["annotations"]["capstan.sh/requeued"] = json!(note);
        live.take(Seen::Applied(job(value)));
        assert_eq!(live.stopped(&owner("another")), None);
        live.stopped(&owner("u"))
    };
    let note = r#"{"at":"2026-01-01T00:00:05Z","unready":0,"ranSeconds":0}"#;
    let by_another = json!({
        "capstan.sh/preempted-by": "ns/high",
        "capstan.sh/preemption-reason": "InClusterQueue",
    });
    let by = EvictionNote { preemptor: "ns/high".into(), reason: PreemptionReason::InClusterQueue };
    let stopped = Stopped { at, by: Some(by), unready: false };
    assert_eq!(marked(true, note, by_another.clone()), Some(stopped));
    let unready = r#"{"at":"2026-01-01T00:00:05Z","unready":1,
        "unreadyAt":"2026-01-01T00:00:05Z","ranSeconds":0}"#;
    let stopped = Stopped { at, by: None, unready: true };
    assert_eq!(marked(true, unready, json!({})), Some(stopped));
    assert_eq!(marked(false, note, by_another), None, "it was resumed");
    assert_eq!(marked(true, note, json!({"capstan.sh/admitted": "{}"})), None, "and suspended");
}
