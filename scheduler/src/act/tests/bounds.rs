//! How many effects are under way, which go first, and how all of it ends.

use super::*;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn ten_thousand_binds_stay_within_the_bound_and_all_are_answered() {
    let names: Vec<String> = (0..10_000).map(|i| format!("p{i}")).collect();
    let pods: Vec<Value> = names.iter().map(|name| pod(name)).collect();
    let server = Server::with(&pods).delay(Duration::from_millis(5));
    let bench = Bench::alone(&server);
    let effects = (0..).zip(&names).map(|(id, name)| effect(id, bind(name))).collect();
    let start = Instant::now();
    bench.executor.dispatch(effects);
    let mut answers = bench.answers().await;
    answers.sort_by_key(|answer| answer.effect);
    assert_eq!(answers.len(), 10_000);
    for (id, answer) in (0..).zip(&answers) {
        assert_eq!((answer.effect, &answer.result), (EffectId(id), &EffectResult::Done));
    }
    assert_eq!(server.most(), 256);
    assert!(start.elapsed() < Duration::from_secs(1), "slots are refilled: {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn binds_go_before_everything_else() {
    let server = Server::with(&[pod("p"), pod("q"), pod("r"), job("j", true)]);
    let limits = Limits { in_flight: 1, ..Limits::default() };
    let bench = Bench::new(&server, Leadership::alone(), limits);
    let actions = [evict("p"), resume("j"), bind("q"), bind("r")];
    bench.executor.dispatch((0..).zip(actions).map(|(id, action)| effect(id, action)).collect());
    let order: Vec<u64> = bench.answers().await.iter().map(|answer| answer.effect.0).collect();
    assert_eq!(order, [2, 3, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn it_has_plenty_while_a_bind_waits_for_others() {
    let server = Server::with(&["p", "q", "r"].map(pod)).delay(Duration::from_millis(5));
    let limits = Limits { in_flight: 2, ..Limits::default() };
    let bench = Bench::new(&server, Leadership::alone(), limits);
    assert!(!bench.executor.has_plenty());
    bench.executor.dispatch(vec![effect(0, bind("p"))]);
    assert!(!bench.executor.has_plenty(), "another one could begin");
    bench.executor.dispatch(vec![effect(1, bind("q")), effect(2, bind("r"))]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(bench.executor.has_plenty(), "two are under way, and one waits");
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(!bench.executor.has_plenty(), "it is under way");
    assert_eq!(bench.answers().await.len(), 3);
    assert!(!bench.executor.has_plenty());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_bind_is_not_plenty() {
    let server = Server::with(&[pod("p"), pod("q")]).delay(Duration::from_millis(5));
    let limits = Limits { in_flight: 1, ..Limits::default() };
    let bench = Bench::new(&server, Leadership::alone(), limits);
    bench.executor.dispatch(vec![effect(0, evict("p")), effect(1, evict("q"))]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!bench.executor.has_plenty(), "a new bind would go first");
    assert_eq!(bench.answers().await.len(), 2);
}

fn completing(id: u64, name: &str) -> Effect {
    Effect { completes: true, ..effect(id, bind(name)) }
}

#[tokio::test(start_paused = true)]
async fn gangs_that_were_begun_are_whole_before_others_begin() {
    let server = Server::with(&["p", "q", "r", "s"].map(pod)).delay(Duration::from_millis(5));
    let bench = Bench::alone(&server);
    let first = vec![effect(0, bind("p")), completing(1, "q"), effect(2, evict("s"))];
    bench.executor.dispatch(first);
    bench.executor.dispatch(vec![completing(3, "r")]);
    let order: Vec<u64> = bench.answers().await.iter().map(|answer| answer.effect.0).collect();
    assert_eq!(order.len(), 4);
    let at = |id: u64| order.iter().position(|it| *it == id);
    assert!(at(0) > at(1) && at(0) > at(3), "{order:?}");
    assert_eq!(server.most(), 3, "evictions wait for nobody");
}

#[tokio::test(start_paused = true)]
async fn one_that_completes_a_gang_and_hangs_does_not_hold_others_up_for_long() {
    for fault in [Fault::Hangs, Fault::Instead(429, 20)] {
        let server = Server::with(&[pod("p"), pod("q")]).faults(&[fault]);
        let bench = Bench::alone(&server);
        let start = Instant::now();
        bench.executor.dispatch(vec![effect(0, bind("p")), completing(1, "q")]);
        while bench.answers.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(bench.answers.lock()[0].effect, EffectId(0));
        let held = if matches!(fault, Fault::Hangs) { 5 } else { 0 };
        assert_eq!(start.elapsed().as_secs(), held);
        assert_eq!(bench.answers().await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn those_that_complete_gangs_hold_others_up_as_long_as_answers_come() {
    let names = ["p", "q", "r", "s", "t"];
    let server = Server::with(&names.map(pod)).delay(Duration::from_secs(3));
    let limits = Limits { in_flight: 3, ..Limits::default() };
    let bench = Bench::new(&server, Leadership::alone(), limits);
    let start = Instant::now();
    let first = (1..).zip(&names[1..]).map(|(id, name)| completing(id, name));
    bench.executor.dispatch([effect(0, bind("p"))].into_iter().chain(first).collect());
    assert_eq!(bench.answers().await.len(), 5);
    assert_eq!(start.elapsed().as_secs(), 9, "after the second three seconds of the others");
}

#[tokio::test(start_paused = true)]
async fn one_that_pauses_holds_nobody_up() {
    let server = Server::with(&[pod("p"), pod("q")]).faults(&[Fault::Instead(429, 20)]);
    let limits = Limits { in_flight: 1, ..Limits::default() };
    let bench = Bench::new(&server, Leadership::alone(), limits);
    let start = Instant::now();
    bench.executor.dispatch(vec![effect(0, bind("p")), effect(1, bind("q"))]);
    while bench.answers.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(bench.answers.lock()[0].effect, EffectId(1));
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(bench.answers().await.len(), 2);
}

/// As whatever stands before a server that is being updated may answer.
#[tokio::test(start_paused = true)]
async fn one_in_doubt_that_is_to_come_back_tomorrow_comes_back_in_a_minute() {
    let server = Server::with(&[pod("p")]).faults(&[Fault::Instead(503, 86_400)]);
    let bench = Bench::alone(&server);
    let start = Instant::now();
    bench.executor.dispatch(vec![effect(0, bind("p"))]);
    let answers = bench.answers().await;
    assert_eq!((answers.len(), &answers[0].result), (1, &EffectResult::Done));
    assert_eq!((server.log().len(), start.elapsed().as_secs()), (3, 60), "asked, looked, bound");
}

#[tokio::test(start_paused = true)]
async fn one_that_waited_long_for_its_turn_has_all_of_its_time_then() {
    let server = Server::with(&[pod("p"), pod("q")]).faults(&[Fault::Hangs; 9]);
    let limits = Limits { in_flight: 1, ..Limits::default() };
    let bench = Bench::new(&server, Leadership::alone(), limits);
    let late = Effect { patience: Span::seconds(1), ..effect(1, bind("q")) };
    bench.executor.dispatch(vec![effect(0, bind("p")), late]);
    let answers = bench.answers().await;
    assert_eq!(answers.len(), 2);
    for answer in &answers {
        assert_eq!(answer.result, EffectResult::Done, "it was pursued until it was known");
    }
    // A gang whose members have their turns over more than the time of each.
    let names: Vec<String> = (0..20).map(|i| format!("p{i}")).collect();
    let pods: Vec<Value> = names.iter().map(|name| pod(name)).collect();
    let slow = Server::with(&pods).delay(Duration::from_secs(4));
    let bench = Bench::new(&slow, Leadership::alone(), limits);
    let start = Instant::now();
    bench.executor.dispatch((0..).zip(&names).map(|(id, name)| effect(id, bind(name))).collect());
    let answers = bench.answers().await;
    assert!(answers.iter().all(|answer| answer.result == EffectResult::Done), "{answers:?}");
    assert_eq!((answers.len(), slow.log().len(), start.elapsed().as_secs()), (20, 20, 80));
}

#[tokio::test(start_paused = true)]
async fn others_get_out_among_ten_thousand_binds() {
    let names: Vec<String> = (0..10_000).map(|i| format!("p{i}")).collect();
    let mut objects: Vec<Value> = names.iter().map(|name| pod(name)).collect();
    for at in 0..50 {
        objects.extend([pod(&format!("v{at}")), job(&format!("j{at}"), at % 2 == 0)]);
    }
    let server = Server::with(&objects).delay(Duration::from_millis(5));
    let bench = Bench::alone(&server);
    bench.executor.dispatch((0..).zip(&names).map(|(id, name)| effect(id, bind(name))).collect());
    // All slots are taken by binds, and thousands wait.
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(bench.executor.has_plenty());
    let others = (0..50).flat_map(|at| {
        let name = format!("j{at}");
        let of_owner = if at % 2 == 0 { resume(&name) } else { suspend(&name) };
        [evict(&format!("v{at}")), of_owner]
    });
    bench.executor.dispatch((20_000..).zip(others).map(|(id, it)| effect(id, it)).collect());
    assert!(bench.executor.has_plenty(), "binds wait for others all the same");
    let start = Instant::now();
    let answers = bench.answers().await;
    assert!(answers.iter().all(|answer| answer.result == EffectResult::Done));
    let others: Vec<bool> = answers.iter().map(|answer| answer.effect.0 >= 20_000).collect();
    assert_eq!(others.iter().filter(|other| **other).count(), 100);
    let last = others.iter().rposition(|other| *other).expect("there are some");
    assert!(last < 3_000, "the last of them came after {last} of 10,100");
    // What they leave to binds is an eighth less while they last.
    assert_eq!(server.most(), 256);
    assert!(start.elapsed() < Duration::from_millis(300), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn thousands_of_others_leave_most_slots_to_binds() {
    let names: Vec<String> = (0..2_000).map(|i| format!("v{i}")).collect();
    let mut objects: Vec<Value> = names.iter().map(|name| pod(name)).collect();
    let bound: Vec<String> = (0..500).map(|i| format!("p{i}")).collect();
    objects.extend(bound.iter().map(|name| pod(name)));
    let server = Server::with(&objects).delay(Duration::from_millis(5));
    let bench = Bench::alone(&server);
    bench.executor.dispatch((0..).zip(&names).map(|(id, name)| effect(id, evict(name))).collect());
    tokio::time::sleep(Duration::from_millis(2)).await;
    let binds = (20_000..).zip(&bound).map(|(id, name)| effect(id, bind(name)));
    bench.executor.dispatch(binds.collect());
    let answers = bench.answers().await;
    let last = answers.iter().rposition(|answer| answer.effect.0 >= 20_000).expect("some");
    assert!(last < 1_000, "the last bind came after {last} of 2,500");
}

#[tokio::test(start_paused = true)]
async fn draining_ends_with_an_answer_for_everything() {
    let server = Server::with(&[pod("p"), pod("q"), pod("r")])
        .faults(&[Fault::Hangs, Fault::Instead(429, 20)]);
    let limits = Limits { in_flight: 2, ..Limits::default() };
    let bench = Bench::new(&server, Leadership::alone(), limits);
    let actions = [bind("p"), bind("q"), bind("r")];
    bench.executor.dispatch((0..).zip(actions).map(|(id, action)| effect(id, action)).collect());
    let start = Instant::now();
    assert_eq!(bench.executor.drain(Duration::from_secs(1)).await, 2, "one hangs, one pauses");
    assert_eq!(start.elapsed().as_secs(), 1);
    bench.executor.dispatch(vec![effect(3, bind("r"))]);
    let answers = bench.answers().await;
    let unknown = |answer: &&Answer| answer.result == EffectResult::TimedOut;
    assert_eq!((answers.len(), answers.iter().filter(unknown).count()), (4, 3));
    assert_eq!(server.log().len(), 3);
}

#[test]
fn dispatching_works_from_a_thread_without_a_runtime() {
    let server = Server::with(&[pod("p")]);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
    let bench = runtime.block_on(async { Bench::alone(&server) });
    bench.executor.dispatch(vec![effect(0, bind("p"))]);
    let answers = runtime.block_on(bench.answers());
    let done = Answer { effect: EffectId(0), action: "bind", result: EffectResult::Done };
    assert_eq!(answers, [done]);
}
