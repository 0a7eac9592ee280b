//! What holds a group lets go of its pods before any of them is stopped.

use std::collections::BTreeSet;

use super::*;
use tokio::time::Instant;

const PODS: [&str; 3] = ["p", "q", "r"];

/// The Workload `w`, which is inactive and names owners of this kind.
fn workload(kind: &str) -> Value {
    let owner = |name: &str| {
        let uid = format!("uid-{name}");
        json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid })
    };
    json!({
        "kind": "Workload",
        "metadata": { "namespace": "a", "name": "w", "uid": "uid-w",
            "ownerReferences": PODS.map(owner) },
        "spec": { "active": false },
    })
}

/// A server with three pods, and this beside them.
fn server(beside: &[Value]) -> Server {
    Server::with(&[&PODS.map(pod)[..], beside].concat())
}

/// The pods of `a/w` are to be stopped, which its Workload is to outlive.
fn stop_all(bench: &Bench) {
    let effects = (1..).zip(PODS).map(|(id, name)| effect(id, evict(name))).collect();
    bench.executor.dispatch_outlived(effects, &BTreeSet::from(["a/w".into()]));
}

/// What was asked of the server about the Workload, and how often it was asked for anything else.
async fn stopped(server: &Server, want: &EffectResult) -> (Vec<String>, usize) {
    let bench = Bench::alone(server);
    stop_all(&bench);
    let answers = bench.answers().await;
    assert_eq!(answers.len(), PODS.len());
    assert!(answers.iter().all(|answer| answer.result == *want), "{answers:?}");
    let log = server.log();
    let first = log.iter().take_while(|it| it.ends_with(" w")).count();
    assert!(log[first..].iter().all(|it| !it.ends_with(" w")), "all of it goes first: {log:?}");
    (log[..first].to_vec(), log.len() - first)
}

/// However long each answer takes, and whoever else is slow.
#[tokio::test(start_paused = true)]
async fn it_lets_go_once_before_the_first_pod_is_marked_or_deleted() {
    let server = server(&[workload("Pod")]).delay(Duration::from_millis(500));
    let (first, rest) = stopped(&server, &EffectResult::Done).await;
    assert_eq!((first, rest), (vec!["GET w".to_owned(), "PATCH w".to_owned()], 6));
    assert_eq!(server.most(), PODS.len(), "they are stopped together");
    let patch = json!({ "metadata": { "uid": "uid-w", "ownerReferences": null } });
    assert_eq!(server.body(1), patch, "of this object, whatever its version");
    let left = server.get("workloads/w").expect("it is there");
    assert_eq!(left["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(left["spec"]["active"], false);
    // Who asks again, as another leader does, finds it done.
    let (first, rest) = stopped(&Server::with(&[left]), &EffectResult::Gone).await;
    assert_eq!((first, rest), (vec!["GET w".to_owned()], 3));
}

#[tokio::test(start_paused = true)]
async fn where_there_is_nothing_to_let_go_they_are_stopped_at_once() {
    for beside in [vec![], vec![workload("Job")]] {
        let (first, rest) = stopped(&server(&beside), &EffectResult::Done).await;
        assert_eq!((first, rest), (vec!["GET w".to_owned()], 6), "{beside:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_goes_or_may_not_be_changed_keeps_nobody() {
    use Fault::*;
    let log = ["GET w", "PATCH w", "GET w", "PATCH w"].map(str::to_owned);
    let rows: [(&[Fault], usize); 6] = [
        // The collector was faster, or a webhook says no.
        (&[None, Instead(404, 0)], 2),
        (&[None, Instead(403, 0)], 2),
        // Invalid for another reason than another uid.
        (&[None, Instead(422, 0)], 3),
        // Somebody else wrote, or nobody knows.
        (&[None, Instead(409, 0)], 4),
        (&[None, LostBefore], 4),
        (&[None, HangsAfter], 3),
    ];
    for (faults, asked) in rows {
        let server = server(&[workload("Pod")]).faults(faults);
        let (first, rest) = stopped(&server, &EffectResult::Done).await;
        assert_eq!((first, rest), (log[..asked].to_vec(), 6), "{faults:?}");
    }
    // Another one under its name, which names others.
    let server = server(&[workload("Pod")]);
    let (later, mut other) = (server.clone(), workload("Pod"));
    other["metadata"]["uid"] = json!("uid-2");
    server.before(1, move || later.put(other));
    let (first, _) = stopped(&server, &EffectResult::Done).await;
    assert_eq!(first, ["GET w", "PATCH w", "GET w", "GET w", "PATCH w"]);
    assert_eq!(server.body(4)["metadata"]["uid"], "uid-2");
}

/// Whoever decided them asks again, and what was held then still is.
#[tokio::test(start_paused = true)]
async fn what_cannot_let_go_for_all_of_their_time_is_not_left_without_pods() {
    let server = server(&[workload("Pod")]).faults(&[Fault::Instead(500, 0); 100]);
    let begun = Instant::now();
    let late = EffectResult::Refused("not done in time: a fault (500)".into());
    let (_, rest) = stopped(&server, &late).await;
    assert_eq!(rest, 0, "none of them is stopped");
    let took = begun.elapsed().as_secs();
    assert!((28..=32).contains(&took), "as long as one is tried: {took} s");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_it_holds_nobody_else_up() {
    let server = server(&[workload("Pod"), pod("other")]).faults(&[Fault::Hangs]);
    let limits = Limits { in_flight: 2, ..Limits::default() };
    let bench = Bench::new(&server, Leadership::alone(), limits);
    stop_all(&bench);
    let other = Effect { workload: "a/other".into(), ..effect(9, evict("other")) };
    let begun = Instant::now();
    bench.executor.dispatch(vec![other]);
    while bench.answers.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(bench.answers.lock()[0].effect, EffectId(9));
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(bench.answers().await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn who_leads_no_more_or_ends_answers_for_all_who_wait() {
    let server = server(&[workload("Pod")]);
    let end = Some(Instant::now() + Duration::from_secs(9));
    let (sender, until) = tokio::sync::watch::channel(end);
    server.before(0, move || {
        sender.send_replace(None);
    });
    let bench = Bench::new(&server, Leadership::new(until), Limits::default());
    stop_all(&bench);
    let unknown = |answers: &[Answer]| {
        answers.iter().filter(|answer| answer.result == EffectResult::TimedOut).count()
    };
    assert_eq!(unknown(&bench.answers().await), PODS.len());
    assert_eq!(server.log(), ["GET w"]);

    for fault in [Fault::Hangs, Fault::Instead(500, 0)] {
        let server = self::server(&[workload("Pod")]).faults(&[fault; 50]);
        let bench = Bench::alone(&server);
        stop_all(&bench);
        assert_eq!(bench.executor.drain(Duration::from_secs(1)).await, PODS.len());
        assert_eq!(unknown(&bench.answers().await), PODS.len(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_says_that_a_group_may_not_run_takes_its_pods_off_in_the_same_patch() {
    let server = server(&[workload("Pod")]);
    let bench = Bench::alone(&server);
    let action = Action::Deactivate { namespace: "a".into(), name: "w".into() };
    bench.executor.dispatch_outlived(vec![effect(1, action)], &BTreeSet::from(["a/w".into()]));
    assert_eq!(bench.answers().await.len(), 1);
    let patch = json!({ "spec": { "active": false }, "metadata": { "ownerReferences": null } });
    assert_eq!((server.log(), server.body(0)), (vec!["PATCH w".to_owned()], patch));
}
