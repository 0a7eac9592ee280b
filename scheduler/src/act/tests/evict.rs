//! Every answer that an eviction can meet.

use super::*;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn marked_with_who_and_why_then_deleted() {
    let server = Server::with(&[pod("p")]);
    assert_eq!(carry(&server, evict("p")).await, EffectResult::Done);
    assert_eq!(server.log(), ["PATCH status", "DELETE p"]);
    let (mark, deletion) = (server.body(0), server.body(1));
    assert_eq!(mark["metadata"]["uid"], "uid-p");
    assert_eq!(mark["metadata"]["annotations"]["capstan.sh/preempted-by"], "b/winner");
    let reason = &mark["metadata"]["annotations"]["capstan.sh/preemption-reason"];
    assert_eq!(reason, "InCohortReclamation");
    let condition = &mark["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("True"), &json!("PreemptionByScheduler"))
    );
    assert!(condition["message"].as_str().is_some_and(|text| text.contains("b/winner")));
    let time = condition["lastTransitionTime"].as_str().expect("a time");
    assert!(time.ends_with('Z') && !time.contains('.'), "{time}");
    assert_eq!(deletion, json!({ "preconditions": { "uid": "uid-p" } }), "default grace period");
}

#[tokio::test(start_paused = true)]
async fn who_is_stopped_for_nobody_bears_no_name() {
    let action = || Action::Evict { pod: pod_ref("p"), preemption: stop(), alone: false };
    let server = Server::with(&[pod("p")]);
    assert_eq!(carry(&server, action()).await, EffectResult::Done);
    let mark = server.body(0);
    assert_eq!(mark["metadata"]["annotations"]["capstan.sh/preempted-by"], Value::Null);
    let message = &mark["status"]["conditions"][0]["message"];
    let want = "stopped: only 1 of the 2 members that it needs had a place for 5m";
    assert_eq!(message, &json!(format!("{want} (PodsReadyTimeout)")));
    // A lost answer is read back: the mark is ours though it names nobody.
    let server = Server::with(&[pod("p")]).faults(&[Fault::LostAfter]);
    assert_eq!(carry(&server, action()).await, EffectResult::Done);
    assert_eq!(server.log(), ["PATCH status", "GET p", "DELETE p"]);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_a_gang_by_itself_bears_that_until_it_is_refused() {
    let action = || Action::Evict { pod: pod_ref("p"), preemption: preemption(), alone: true };
    let server = Server::with(&[pod("p")]);
    assert_eq!(carry(&server, action()).await, EffectResult::Done);
    assert_eq!(server.body(0)["metadata"]["annotations"]["capstan.sh/preempted-alone"], "true");
    let server = Server::with(&[pod("p")]).faults(&[Fault::None, Fault::Instead(403, 0)]);
    assert_eq!(words(&carry(&server, action()).await), ("refused", "a fault (403)"));
    let left = server.get("pods/p").expect("it stays");
    assert_eq!(left["metadata"]["annotations"], json!({}));
    // Who asks again for what an engine before it began takes nothing back of the mark.
    let server = Server::with(&[pod("p")]);
    assert_eq!(carry(&server, evict("p")).await, EffectResult::Done);
    let marks = &server.body(0)["metadata"]["annotations"];
    assert!(marks.as_object().is_some_and(|all| !all.contains_key("capstan.sh/preempted-alone")));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_gone_already_is_gone() {
    assert_eq!(carry(&Server::default(), evict("p")).await, EffectResult::Gone);
    let mut other = pod("p");
    other["metadata"]["uid"] = json!("uid-2");
    let server = Server::with(&[other.clone()]);
    assert_eq!(carry(&server, evict("p")).await, EffectResult::Gone);
    assert_eq!(server.get("pods/p").expect("still there")["status"], Value::Null);
    // Between the mark and the deletion the pod went and another one came.
    let server = Server::with(&[pod("p")]);
    let later = server.clone();
    server.before(1, move || later.put(other));
    assert_eq!(carry(&server, evict("p")).await, EffectResult::Done);
    assert_eq!(server.log(), ["PATCH status", "DELETE p", "GET p"]);
    let left = server.get("pods/p").expect("the other one");
    assert_eq!(left["metadata"]["deletionTimestamp"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_fate_is_read_back_and_nothing_is_done_twice() {
    use Fault::*;
    for fault in [LostAfter, Despite(500), HangsAfter] {
        let server = Server::with(&[pod("p")]).faults(&[fault]);
        assert_eq!(carry(&server, evict("p")).await, EffectResult::Done, "{fault:?}");
        assert_eq!(server.log(), ["PATCH status", "GET p", "DELETE p"], "{fault:?}");
        let server = Server::with(&[pod("p")]).faults(&[None, fault]);
        assert_eq!(carry(&server, evict("p")).await, EffectResult::Done, "{fault:?}");
        assert_eq!(server.log(), ["PATCH status", "DELETE p", "GET p"], "{fault:?}");
    }
    let server = Server::with(&[pod("p")]).faults(&[LostBefore, None, None, LostBefore]);
    assert_eq!(carry(&server, evict("p")).await, EffectResult::Done);
    let log = ["PATCH status", "GET p", "PATCH status", "DELETE p", "GET p", "DELETE p"];
    assert_eq!(server.log(), log);
}

#[tokio::test(start_paused = true)]
async fn without_leadership_the_second_request_is_not_sent() {
    let server = Server::with(&[pod("p")]);
    let (sender, until) =
        tokio::sync::watch::channel(Some(Instant::now() + Duration::from_secs(9)));
    server.before(0, move || {
        sender.send_replace(None);
    });
    let result = carry_by(&server, Leadership::new(until), evict("p")).await;
    assert_eq!(result, EffectResult::TimedOut);
    assert_eq!(server.log(), ["PATCH status"]);
    // The same when it runs out, instead of being taken.
    let server = Server::with(&[pod("p")]).delay(Duration::from_secs(2));
    let end = Instant::now() + Duration::from_secs(3);
    let (_sender, until) = tokio::sync::watch::channel(Some(end));
    let result = carry_by(&server, Leadership::new(until), evict("p")).await;
    assert_eq!((result, server.log().len()), (EffectResult::TimedOut, 2));
    assert_eq!(Instant::now().duration_since(end).as_secs(), 0, "it was not waited for");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_refused_takes_the_mark_back() {
    let server = Server::with(&[pod("p")]).faults(&[Fault::None, Fault::Instead(403, 0)]);
    let result = carry(&server, evict("p")).await;
    assert_eq!(words(&result), ("refused", "a fault (403)"));
    assert_eq!(server.log(), ["PATCH status", "DELETE p", "PATCH status"]);
    let left = server.get("pods/p").expect("it stays");
    assert_eq!(left["status"]["conditions"], json!([]));
    assert_eq!(left["metadata"]["annotations"], json!({}));
    let server = Server::with(&[pod("p")]).faults(&[Fault::Instead(422, 0)]);
    assert_eq!(words(&carry(&server, evict("p")).await), ("refused", "a fault (422)"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_for_all_of_its_time_takes_the_mark_back() {
    let mut faults = vec![Fault::None];
    faults.extend([Fault::Instead(500, 0), Fault::None].repeat(40));
    let server = Server::with(&[pod("p")]).faults(&faults);
    let result = carry(&server, evict("p")).await;
    assert_eq!(words(&result), ("refused", "not done in time: a fault (500)"));
    let left = server.get("pods/p").expect("it stays");
    assert_eq!(left["status"]["conditions"], json!([]));
    assert_eq!(left["metadata"]["annotations"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_cannot_be_taken_back_at_once_is_not_left() {
    // Somebody else wrote at the same time: the next try begins with the deletion.
    let faults = [Fault::None, Fault::Instead(403, 0), Fault::Instead(409, 0)];
    let server = Server::with(&[pod("p")]).faults(&faults).faults(&faults[..2]);
    let result = carry(&server, evict("p")).await;
    assert_eq!(words(&result), ("refused", "a fault (403)"));
    let log = ["PATCH status", "DELETE p", "PATCH status", "GET p", "DELETE p", "PATCH status"];
    assert_eq!(server.log(), log);
    let left = server.get("pods/p").expect("it stays");
    assert_eq!(left["status"]["conditions"], json!([]));
    // The pod is gone by then, by whatever hand.
    let faults = [Fault::None, Fault::Instead(403, 0), Fault::Instead(404, 0)];
    let server = Server::with(&[pod("p")]).faults(&faults);
    assert_eq!(carry(&server, evict("p")).await, EffectResult::Done);
}

#[tokio::test(start_paused = true)]
async fn what_is_marked_is_deleted_however_late() {
    let mut faults = vec![Fault::None];
    faults.extend([Fault::Instead(429, 0); 40]);
    let server = Server::with(&[pod("p")]).faults(&faults);
    assert_eq!(carry(&server, evict("p")).await, EffectResult::Done);
    assert!(server.log().len() > 40);
}

/// What stands for ever is said in the log; the effect ends as any other.
#[tokio::test(start_paused = true)]
async fn a_mark_that_cannot_be_taken_back_at_all_holds_nobody_up() {
    for (code, requests) in [(422, 4), (403, 3)] {
        let faults = [Fault::None, Fault::Instead(403, 0), Fault::Instead(code, 0)];
        let server = Server::with(&[pod("p")]).faults(&faults);
        let result = carry(&server, evict("p")).await;
        assert_eq!(words(&result), ("refused", "a fault (403)"), "why it was not deleted");
        let log = ["PATCH status", "DELETE p", "PATCH status", "GET p"];
        assert_eq!(server.log(), log[..requests]);
    }
    // A webhook that fails, and goes on to fail.
    let mut faults = vec![Fault::None];
    faults.extend([Fault::Instead(500, 0), Fault::None].repeat(1_000));
    let server = Server::with(&[pod("p")]).faults(&faults);
    let begun = Instant::now();
    let result = carry(&server, evict("p")).await;
    assert_eq!(words(&result), ("refused", "not done in time: a fault (500)"));
    let took = begun.elapsed().as_secs();
    assert!((90..120).contains(&took), "its time, and that of the mark: {took} s");
}
