//! Every answer that a bind can meet.

use super::*;
use capstan_core::model::input::{CapacityType, Input, NodeFacts};
use serde_json::json;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn one_request_with_uid_and_annotations() {
    let server = Server::with(&[pod("p")]);
    assert_eq!(carry(&server, bind("p")).await, EffectResult::Done);
    assert_eq!(server.log(), ["POST binding"]);
    let body = server.body(0);
    assert_eq!(body["metadata"]["uid"], "uid-p");
    assert_eq!(body["target"], json!({ "apiVersion": "v1", "kind": "Node", "name": "n1" }));
    let annotations = json!({
        "capstan.sh/workload": "w",
        "capstan.sh/cluster-queue": "q",
        "capstan.sh/flavors": r#"{"cpu":"spot"}"#,
        "capstan.sh/admitted-at": "2026-01-01T12:00:00Z",
        "capstan.sh/price": "12.25",
    });
    assert_eq!(body["metadata"]["annotations"], annotations);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_fate_is_read_back_before_anything_else() {
    use Fault::*;
    for fault in [LostAfter, Despite(500), Despite(504), HangsAfter] {
        let server = Server::with(&[pod("p")]).faults(&[fault]);
        assert_eq!(carry(&server, bind("p")).await, EffectResult::Done, "{fault:?}");
        assert_eq!(server.log(), ["POST binding", "GET p"], "{fault:?}");
    }
    for fault in [LostBefore, Instead(500, 0), Instead(503, 1), Hangs] {
        let server = Server::with(&[pod("p")]).faults(&[fault]);
        assert_eq!(carry(&server, bind("p")).await, EffectResult::Done, "{fault:?}");
        assert_eq!(server.log(), ["POST binding", "GET p", "POST binding"], "{fault:?}");
    }
    // The reading may fail as well.
    let faults = [LostAfter, LostBefore, Instead(500, 0), Instead(429, 0)];
    let server = Server::with(&[pod("p")]).faults(&faults);
    assert_eq!(carry(&server, bind("p")).await, EffectResult::Done);
    assert_eq!(server.log(), ["POST binding", "GET p", "GET p", "GET p", "GET p"]);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_settled_by_the_pod_itself() {
    let changed = |change: fn(&mut Value)| {
        let mut pod = pod("p");
        change(&mut pod);
        Server::with(&[pod])
    };
    let ours = changed(|pod| pod["spec"]["nodeName"] = json!("n1"));
    assert_eq!(carry(&ours, bind("p")).await, EffectResult::Done);
    let other = changed(|pod| pod["spec"]["nodeName"] = json!("n2"));
    assert_eq!(words(&carry(&other, bind("p")).await), ("conflict", "already bound to n2"));
    let ending =
        changed(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(words(&carry(&ending, bind("p")).await), ("conflict", "the pod is ending"));
    let gated = changed(|pod| pod["spec"]["schedulingGates"] = json!([{ "name": "x" }]));
    assert_eq!(words(&carry(&gated, bind("p")).await), ("refused", "the pod has scheduling gates"));
    let another = changed(|pod| pod["metadata"]["uid"] = json!("uid-2"));
    assert_eq!(carry(&another, bind("p")).await, EffectResult::Gone);
    for server in [ours, other, ending, gated, another] {
        assert_eq!(server.log(), ["POST binding", "GET p"]);
    }
    // A conflict with nobody (the object changed while it was bound) passes.
    let nobody = Server::with(&[pod("p")]).faults(&[Fault::Instead(409, 0)]);
    assert_eq!(carry(&nobody, bind("p")).await, EffectResult::Done);
    assert_eq!(nobody.log(), ["POST binding", "GET p", "POST binding"]);
}

#[tokio::test(start_paused = true)]
async fn what_will_not_change_is_answered_at_once() {
    assert_eq!(carry(&Server::default(), bind("p")).await, EffectResult::Gone);
    for code in [400, 403, 405, 413, 422] {
        let server = Server::with(&[pod("p")]).faults(&[Fault::Instead(code, 0)]);
        let result = carry(&server, bind("p")).await;
        assert_eq!(words(&result), ("refused", &*format!("a fault ({code})")));
        assert_eq!(server.log().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn throttling_is_waited_out_as_the_server_wants() {
    let server = Server::with(&[pod("p")]).faults(&[Fault::Instead(429, 7)]);
    let start = Instant::now();
    assert_eq!(carry(&server, bind("p")).await, EffectResult::Done);
    assert!(start.elapsed() >= Duration::from_secs(7), "{:?}", start.elapsed());
    assert_eq!(server.log(), ["POST binding", "POST binding"], "nothing was in doubt");
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_the_truth_is_told_or_nothing() {
    let start = Instant::now();
    let busy = Server::with(&[pod("p")]).faults(&[Fault::Instead(429, 0); 1_000]);
    let result = carry(&busy, bind("p")).await;
    assert_eq!(words(&result), ("refused", "not done in time: a fault (429)"));
    assert!(busy.log().len() > 10, "pauses are bounded: {}", busy.log().len());
    assert!(start.elapsed() <= Duration::from_secs(31), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_bind_in_doubt_is_pursued_beyond_its_deadline_until_it_is_known() {
    let mut faults = vec![Fault::LostAfter];
    faults.extend([Fault::Instead(503, 0); 40]);
    let done = Server::with(&[pod("p")]).faults(&faults);
    let start = Instant::now();
    assert_eq!(carry(&done, bind("p")).await, EffectResult::Done);
    assert!(start.elapsed() >= Duration::from_secs(31), "{:?}", start.elapsed());
    assert_eq!(done.log().iter().filter(|line| line.starts_with("POST")).count(), 1, "once");
    // It was not carried out, and meanwhile somebody else took the pod.
    let mut faults = vec![Fault::LostBefore];
    faults.extend([Fault::Instead(503, 0); 40]);
    let stolen = Server::with(&[pod("p")]).faults(&faults);
    stolen.before(30, {
        let stolen = stolen.clone();
        move || {
            let mut taken = pod("p");
            taken["spec"]["nodeName"] = json!("n2");
            stolen.put(taken);
        }
    });
    let result = carry(&stolen, bind("p")).await;
    assert_eq!(words(&result), ("conflict", "already bound to n2"));
    // Nothing ever answers: whoever stops says that it is unknown.
    let silent = Server::with(&[pod("p")]).faults(&[Fault::Hangs; 1_000]);
    let bench = Bench::alone(&silent);
    bench.executor.dispatch(vec![effect(1, bind("p"))]);
    assert_eq!(bench.executor.drain(Duration::from_secs(120)).await, 1);
    assert_eq!(bench.answers().await[0].result, EffectResult::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_without_leadership_or_for_another_uid() {
    let server = Server::with(&[pod("p")]);
    let (_sender, never) = tokio::sync::watch::channel(None);
    let result = carry_by(&server, Leadership::new(never), bind("p")).await;
    assert_eq!(result, EffectResult::TimedOut);
    let bench = Bench::alone(&server);
    let mut stale = effect(1, bind("p"));
    stale.precondition = Precondition::Uid("uid-0".into());
    bench.executor.dispatch(vec![stale]);
    let answers = bench.answers().await;
    assert_eq!(words(&answers[0].result), ("conflict", "the uid is uid-p, not uid-0"));
    assert_eq!(server.log(), [""; 0]);
}

/// As of an admission webhook that is not there.
#[tokio::test(start_paused = true)]
async fn what_fails_for_all_of_its_time_is_refused_when_it_was_read_back() {
    let failing = [Fault::Instead(500, 0), Fault::None].repeat(1_000);
    for action in [bind("p"), evict("p")] {
        let server = Server::with(&[pod("p")]).faults(&failing);
        let start = Instant::now();
        let result = carry(&server, action).await;
        assert_eq!(words(&result), ("refused", "not done in time: a fault (500)"));
        assert_eq!(server.log().last().map(String::as_str), Some("GET p"));
        let took = start.elapsed().as_secs();
        assert!((29..=35).contains(&took), "{took}");
    }
    // One whose answer was lost may be carried out for a minute.
    let mut lost = vec![Fault::LostBefore, Fault::None];
    lost.extend(&failing);
    let server = Server::with(&[pod("p")]).faults(&lost);
    let start = Instant::now();
    let result = carry(&server, bind("p")).await;
    assert_eq!(words(&result), ("refused", "not done in time: a fault (500)"));
    let took = start.elapsed().as_secs();
    assert!((60..=65).contains(&took), "{took}");
}

fn node(unschedulable: bool) -> Input {
    let facts = NodeFacts {
        name: "n1".into(),
        labels: Default::default(),
        taints: Vec::new(),
        unschedulable,
        allocatable: Default::default(),
        features: Vec::new(),
        images: Default::default(),
        capacity_type: CapacityType::Unknown,
        price: None,
    };
    Input::Node(facts.into())
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_waited_until_its_node_closed_is_not_sent() {
    let gone = (Input::NodeGone("n1".into()), "node n1 is gone");
    for (fact, says) in [gone, (node(true), "node n1 is cordoned")] {
        let server = Server::with(&[pod("p"), pod("q")]);
        let bench = Bench::alone(&server);
        bench.executor.dispatch(vec![effect(1, bind("p"))]);
        bench.executor.learns(Time(1), &fact);
        // That it is still so is no news.
        let later = Effect { decided: Time(1), ..effect(2, bind("q")) };
        bench.executor.dispatch(vec![later]);
        bench.executor.learns(Time(2), &fact);
        let mut answers = bench.answers().await;
        answers.sort_by_key(|answer| answer.effect);
        assert_eq!(words(&answers[0].result), ("refused", says));
        assert_eq!(answers[1].result, EffectResult::Done, "who decided it knew");
        assert_eq!(server.log(), ["POST binding"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_open_again_is_bound_to() {
    let server = Server::with(&[pod("p")]);
    let bench = Bench::alone(&server);
    bench.executor.dispatch(vec![effect(1, bind("p"))]);
    bench.executor.learns(Time(1), &node(true));
    bench.executor.learns(Time(2), &node(false));
    assert_eq!(bench.answers().await[0].result, EffectResult::Done);
}

#[tokio::test(start_paused = true)]
async fn who_chose_a_node_that_was_cordoned_before_is_bound_to_it_whatever_it_tells() {
    let server = Server::with(&[pod("p")]);
    let bench = Bench::alone(&server);
    bench.executor.learns(Time(1), &node(true));
    bench.executor.dispatch(vec![Effect { decided: Time(2), ..effect(1, bind("p")) }]);
    bench.executor.learns(Time(3), &node(true));
    assert_eq!(bench.answers().await[0].result, EffectResult::Done);
}

#[tokio::test(start_paused = true)]
async fn a_bind_in_doubt_is_read_back_though_its_node_closed_and_not_sent_again() {
    for (fault, done) in [(Fault::LostAfter, true), (Fault::LostBefore, false)] {
        let server = Server::with(&[pod("p")]).faults(&[fault]);
        let bench = Bench::alone(&server);
        bench.executor.dispatch(vec![effect(1, bind("p"))]);
        tokio::time::sleep(Duration::from_millis(10)).await;
        bench.executor.learns(Time(1), &Input::NodeGone("n1".into()));
        let result = bench.answers().await[0].result.clone();
        assert_eq!(result == EffectResult::Done, done, "{result:?}");
        let posts = server.log().iter().filter(|request| request.starts_with("POST")).count();
        assert_eq!(posts, 1);
    }
}
