//! Every answer that suspending and resuming can meet.

use super::*;
use crate::gangs::kinds::{Kind, TABLE};

fn with(job: Value, annotations: Value) -> Value {
    let mut job = job;
    job["metadata"]["annotations"] = annotations;
    job
}

#[tokio::test(start_paused = true)]
async fn suspending_counts_the_next_run_and_names_who_wants_the_room() {
    let marks = json!({ "capstan.sh/suspended": "2", "capstan.sh/admitted": "{}", "mine": "x" });
    for (job, run) in [(job("j", false), "1"), (with(job("j", false), marks), "3")] {
        let server = Server::with(&[job]);
        assert_eq!(carry(&server, suspend("j")).await, EffectResult::Done);
        assert_eq!(server.log(), ["GET j", "PATCH j"]);
        assert_eq!(server.body(1)["metadata"]["uid"], "uid-j");
        assert!(server.body(1)["metadata"]["resourceVersion"].is_string());
        let found = server.get("jobs/j").expect("there");
        let annotations = &found["metadata"]["annotations"];
        assert_eq!(found["spec"]["suspend"], true);
        assert_eq!(annotations["capstan.sh/suspended"], run);
        assert_eq!(annotations["capstan.sh/preempted-by"], "b/winner");
        assert_eq!(annotations["capstan.sh/preemption-reason"], "InCohortReclamation");
        assert_eq!(annotations["capstan.sh/admitted"], Value::Null);
        assert!(run == "1" || annotations["mine"] == "x");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_stops_for_nobody_bears_no_name() {
    let old = json!({ "capstan.sh/preempted-by": "b/old", "capstan.sh/preemption-reason": "x" });
    let server = Server::with(&[with(job("j", false), old)]);
    let action =
        Action::SuspendOwner { owner: owner_ref("j"), preemption: stop(), requeue: requeue() };
    assert_eq!(carry(&server, action).await, EffectResult::Done);
    let found = server.get("jobs/j").expect("there");
    let requeued = r#"{"at":"2026-01-01T12:00:00Z","unready":1,"ranSeconds":0}"#;
    let marks = json!({ "capstan.sh/suspended": "1", "capstan.sh/requeued": requeued });
    assert_eq!(found["metadata"]["annotations"], marks);
}

#[tokio::test(start_paused = true)]
async fn a_workload_is_deactivated_by_one_patch_or_not_at_all() {
    use Fault::*;
    let workload = json!({
        "kind": "Workload",
        "metadata": { "namespace": "a", "name": "w", "uid": "uid-w" },
        "spec": { "active": true, "queueName": "q" },
    });
    let action = Action::Deactivate { namespace: "a".into(), name: "w".into() };
    let log = ["PATCH w", "GET w", "PATCH w"];
    for (fault, requests) in [(None, 1), (LostAfter, 2), (Instead(500, 0), 3)] {
        let server = Server::with(std::slice::from_ref(&workload)).faults(&[fault]);
        assert_eq!(carry(&server, action.clone()).await, EffectResult::Done, "{fault:?}");
        assert_eq!(server.log(), log[..requests], "{fault:?}");
        let spec = server.get("workloads/w").expect("there")["spec"].clone();
        assert_eq!(spec, json!({ "active": false, "queueName": "q" }));
    }
    assert_eq!(carry(&Server::default(), action.clone()).await, EffectResult::Gone);
    // One that always fails comes to an end.
    let faults = [Instead(500, 0), None].repeat(40);
    let server = Server::with(&[workload]).faults(&faults);
    let result = carry(&server, action).await;
    assert_eq!(words(&result), ("refused", "not done in time: a fault (500)"));
}

#[tokio::test(start_paused = true)]
async fn a_run_is_counted_once_whatever_is_lost() {
    use Fault::*;
    for fault in [LostAfter, Despite(500), HangsAfter] {
        let server = Server::with(&[job("j", false)]).faults(&[None, fault]);
        assert_eq!(carry(&server, suspend("j")).await, EffectResult::Done, "{fault:?}");
        assert_eq!(server.log(), ["GET j", "PATCH j", "GET j"]);
        let found = server.get("jobs/j").expect("there");
        assert_eq!(found["metadata"]["annotations"]["capstan.sh/suspended"], "1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_changes_meanwhile_is_read_again() {
    let server = Server::with(&[job("j", false)]);
    let later = server.clone();
    let counted = with(job("j", false), json!({ "capstan.sh/suspended": "4" }));
    server.before(1, move || later.put(counted));
    assert_eq!(carry(&server, suspend("j")).await, EffectResult::Done);
    assert_eq!(server.log(), ["GET j", "PATCH j", "GET j", "PATCH j"]);
    let found = server.get("jobs/j").expect("there");
    assert_eq!(found["metadata"]["annotations"]["capstan.sh/suspended"], "5");
}

#[tokio::test(start_paused = true)]
async fn resuming_is_one_patch_with_what_it_was_admitted_with() {
    let marks = json!({ "capstan.sh/suspended": "2", "capstan.sh/preempted-by": "b/winner" });
    let server = Server::with(&[with(job("j", true), marks)]);
    assert_eq!(carry(&server, resume("j")).await, EffectResult::Done);
    assert_eq!(server.log(), ["PATCH j"]);
    assert_eq!(server.body(0)["metadata"]["uid"], "uid-j");
    let found = server.get("jobs/j").expect("there");
    let annotations = &found["metadata"]["annotations"];
    assert_eq!(found["spec"]["suspend"], false);
    assert_eq!(annotations["capstan.sh/suspended"], "2");
    assert_eq!(annotations["capstan.sh/preempted-by"], Value::Null);
    let admitted = annotations["capstan.sh/admitted"].as_str().expect("a note");
    let admitted: Value = serde_json::from_str(admitted).expect("JSON");
    assert_eq!(admitted["flavors"], json!({ "cpu": "spot" }));
}

#[tokio::test(start_paused = true)]
async fn a_lost_resume_is_read_back() {
    use Fault::*;
    for (fault, log) in [
        (LostAfter, vec!["PATCH j", "GET j"]),
        (Despite(504), vec!["PATCH j", "GET j"]),
        (LostBefore, vec!["PATCH j", "GET j", "PATCH j"]),
        (Instead(429, 0), vec!["PATCH j", "PATCH j"]),
    ] {
        let server = Server::with(&[job("j", true)]).faults(&[fault]);
        assert_eq!(carry(&server, resume("j")).await, EffectResult::Done, "{fault:?}");
        assert_eq!(server.log(), log, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_stopped_while_its_resume_is_on_its_way_is_stopped_after_it() {
    use Fault::*;
    for fault in [None, Instead(429, 5), LostBefore, LostAfter, HangsAfter] {
        let server = Server::with(&[job("j", true), job("k", false)]).faults(&[fault]);
        let bench = Bench::alone(&server);
        bench.executor.dispatch(vec![effect(1, resume("j"))]);
        bench.executor.dispatch(vec![effect(2, suspend("j")), effect(3, suspend("k"))]);
        let answers = bench.answers().await;
        assert!(answers.iter().all(|it| it.result == EffectResult::Done), "{fault:?}: {answers:?}");
        let order: Vec<u64> = answers.iter().map(|it| it.effect.0).filter(|id| *id < 3).collect();
        assert_eq!(order, [1, 2], "{fault:?}");
        for name in ["jobs/j", "jobs/k"] {
            let found = server.get(name).expect("there");
            assert_eq!(found["spec"]["suspend"], true, "{fault:?}: {name}");
            let annotations = &found["metadata"]["annotations"];
            assert_eq!(annotations["capstan.sh/suspended"], "1", "{fault:?}: {name}");
            assert_eq!(annotations["capstan.sh/admitted"], Value::Null, "{fault:?}: {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_fails_for_all_of_its_time_is_refused_when_it_was_read_back() {
    let fails = Fault::Instead(500, 0);
    for (action, suspended, failing) in
        [(resume("j"), true, [fails, Fault::None]), (suspend("j"), false, [Fault::None, fails])]
    {
        let server = Server::with(&[job("j", suspended)]).faults(&failing.repeat(1_000));
        let result = carry(&server, action).await;
        assert_eq!(words(&result), ("refused", "not done in time: a fault (500)"));
        assert_eq!(server.log().last().map(String::as_str), Some("GET j"));
    }
}

/// Its answer is lost; until it is read back, it was stopped again.
#[tokio::test(start_paused = true)]
async fn a_resume_in_doubt_is_not_for_an_owner_that_was_stopped_since() {
    let requeued = r#"{"at":"2026-01-01T12:00:01Z","ranSeconds":0}"#;
    let stopped = json!({ "capstan.sh/suspended": "1", "capstan.sh/requeued": requeued });
    let next = json!({ "capstan.sh/requeued": requeued, "capstan.sh/admitted": "{}" });
    for now in [with(job("j", true), stopped), with(job("j", false), next)] {
        let server = Server::with(&[job("j", true)]).faults(&[Fault::LostAfter]);
        let later = server.clone();
        server.before(1, move || later.put(now));
        let result = carry(&server, resume("j")).await;
        assert_eq!(words(&result), ("conflict", "it was stopped since"));
        assert_eq!(server.log(), ["PATCH j", "GET j"]);
    }
    // Nor for one that somebody else suspended.
    let server = Server::with(&[job("j", true)]).faults(&[Fault::LostAfter]);
    let later = server.clone();
    server.before(1, move || {
        let mut resumed = later.get("jobs/j").expect("there");
        resumed["spec"]["suspend"] = json!(true);
        later.put(resumed);
    });
    let result = carry(&server, resume("j")).await;
    assert_eq!(words(&result), ("conflict", "it was suspended since"));
    // What it was stopped for before it was admitted is no matter.
    let requeued = r#"{"at":"2026-01-01T11:59:59Z","ranSeconds":0}"#;
    let before = with(job("j", true), json!({ "capstan.sh/requeued": requeued }));
    let server = Server::with(&[before]).faults(&[Fault::LostBefore]);
    assert_eq!(carry(&server, resume("j")).await, EffectResult::Done);
    assert_eq!(server.log(), ["PATCH j", "GET j", "PATCH j"]);
    assert!(server.body(2)["metadata"]["resourceVersion"].is_string(), "as it was read");
}

#[tokio::test(start_paused = true)]
async fn a_suspension_in_doubt_does_not_stop_the_next_run() {
    let server = Server::with(&[job("j", false)]).faults(&[Fault::None, Fault::LostAfter]);
    let later = server.clone();
    let next = json!({ "capstan.sh/suspended": "1", "capstan.sh/admitted": "{}" });
    server.before(2, move || later.put(with(job("j", false), next)));
    assert_eq!(carry(&server, suspend("j")).await, EffectResult::Done);
    assert_eq!(server.log(), ["GET j", "PATCH j", "GET j"]);
    assert_eq!(server.get("jobs/j").expect("there")["spec"]["suspend"], false);
}

#[tokio::test(start_paused = true)]
async fn what_hangs_each_time_is_refused_when_nothing_can_come_of_it_any_more() {
    for (action, suspended, hangs) in [
        (resume("j"), true, [Fault::Hangs, Fault::None]),
        (suspend("j"), false, [Fault::None, Fault::Hangs]),
    ] {
        let server = Server::with(&[job("j", suspended)]);
        let hung = server.clone();
        let faults = hangs.repeat(4);
        let server = server.faults(&faults);
        let bench = Bench::alone(&server);
        bench.executor.dispatch(vec![effect(1, action)]);
        let answers = bench.answers().await;
        assert_eq!(answers.len(), 1);
        let said = words(&answers[0].result);
        assert_eq!(said, ("refused", "not done in time: the API server does not answer"));
        let patches = hung.log().iter().filter(|line| *line == "PATCH j").count();
        assert!(patches <= 4, "it is written once more at most: {:?}", hung.log());
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_ended_or_gone_is_neither_suspended_nor_resumed() {
    let mut complete = job("j", false);
    complete["status"]["conditions"] = json!([{ "type": "Complete", "status": "True" }]);
    let mut leaving = job("j", false);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut other = job("j", false);
    other["metadata"]["uid"] = json!("uid-2");
    for action in [suspend("j"), resume("j")] {
        let server = Server::with(&[complete.clone()]);
        let result = carry(&server, action.clone()).await;
        assert_eq!(words(&result), ("conflict", "it has finished"));
        let server = Server::with(&[leaving.clone()]);
        let result = carry(&server, action.clone()).await;
        assert_eq!(words(&result), ("conflict", "it is being deleted"));
        let server = Server::with(&[other.clone()]);
        assert_eq!(carry(&server, action.clone()).await, EffectResult::Gone);
        assert_eq!(carry(&Server::default(), action).await, EffectResult::Gone);
    }
    let refused = Server::with(&[job("j", false)]).faults(&[Fault::None, Fault::Instead(422, 0)]);
    assert_eq!(words(&carry(&refused, suspend("j")).await), ("refused", "a fault (422)"));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_suspended_is_refused_by_name() {
    let owner = OwnerRef { kind: "LeaderWorkerSet".into(), ..owner_ref("j") };
    let server = Server::default();
    let action = Action::SuspendOwner { owner, preemption: preemption(), requeue: requeue() };
    let result = carry(&server, action).await;
    assert_eq!(words(&result), ("refused", "a LeaderWorkerSet cannot be suspended or resumed"));
    assert_eq!(server.log(), [""; 0]);
}

/// An owner of another project, in the version in which it is served.
fn of_others(kind: Kind, version: &str) -> Value {
    let row = kind.row();
    json!({
        "kind": row.name,
        "apiVersion": format!("{}/{version}", row.group),
        "metadata": { "namespace": "a", "name": "j", "uid": "uid-j" },
        "spec": { "runPolicy": { "cleanPodPolicy": "None" } },
    })
}

#[tokio::test(start_paused = true)]
async fn owners_of_other_projects_are_suspended_and_resumed_where_they_have_the_field() {
    let rows = TABLE.iter().filter_map(|row| Some((row, row.suspend?)));
    let versions = rows.flat_map(|(row, field)| row.versions.iter().map(move |v| (row, field, v)));
    for (row, field, version) in versions {
        let server = Server::with(&[of_others(row.kind, version)]);
        let owner = OwnerRef { kind: row.name.into(), ..owner_ref("j") };
        let stop = Action::SuspendOwner {
            owner: owner.clone(),
            preemption: preemption(),
            requeue: requeue(),
        };
        assert_eq!(carry(&server, stop).await, EffectResult::Done, "{}", row.name);
        let shown = || server.get(&format!("{}/j", row.plural)).expect("there");
        let pointer = format!("/{}", field.replace('.', "/"));
        assert_eq!(shown().pointer(&pointer), Some(&json!(true)), "{}", row.name);
        assert_eq!(shown()["metadata"]["annotations"]["capstan.sh/suspended"], "1");
        assert_eq!(shown()["spec"]["runPolicy"]["cleanPodPolicy"], "None", "the rest stays");
        let resume = Action::ResumeOwner { owner, note: note() };
        assert_eq!(carry(&server, resume).await, EffectResult::Done, "{}", row.name);
        assert_eq!(shown().pointer(&pointer), Some(&json!(false)), "{}", row.name);
        assert!(shown()["metadata"]["annotations"]["capstan.sh/admitted"].is_string());
    }
}

#[tokio::test(start_paused = true)]
async fn owners_of_other_projects_that_have_ended_are_let_be() {
    let ended = [
        (Kind::JobSet, json!({ "terminalState": "Completed" })),
        (Kind::TrainJob, json!({ "conditions": [{ "type": "Complete", "status": "True" }] })),
        (Kind::TfJob, json!({ "conditions": [{ "type": "Failed", "status": "True" }] })),
        (Kind::RayJob, json!({ "jobDeploymentStatus": "Complete" })),
        (Kind::RayJob, json!({ "jobDeploymentStatus": "ValidationFailed" })),
    ];
    for (kind, status) in ended {
        let mut object = of_others(kind, kind.row().versions[0]);
        object["status"] = status;
        let owner = OwnerRef { kind: kind.row().name.into(), ..owner_ref("j") };
        let stop = Action::SuspendOwner { owner, preemption: preemption(), requeue: requeue() };
        let result = carry(&Server::with(&[object]), stop).await;
        assert_eq!(words(&result), ("conflict", "it has finished"), "{kind:?}");
    }
}
