//! Effects under a low rate: who waits for it is not late, and costs those behind nothing.

use super::*;
use tokio::time::Instant;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("p{at}")).collect()
}

fn binds(names: &[String]) -> Vec<Effect> {
    (0..).zip(names).map(|(id, name)| effect(id, bind(name))).collect()
}

fn server(names: &[String]) -> Server {
    let pods: Vec<Value> = names.iter().map(|name| pod(name)).collect();
    Server::with(&pods).delay(Duration::from_millis(5))
}

fn bench(server: &Server, milli_qps: i64, burst: i32) -> Bench {
    let rate = Bucket::new(milli_qps, burst);
    Bench::at(server, Leadership::alone(), Limits::default(), rate)
}

/// How long a burst of so many pods takes, of which each is bound by one request.
async fn burst(count: usize, (milli_qps, burst): (i64, i32)) -> Duration {
    let names = names(count);
    let server = server(&names);
    let bench = bench(&server, milli_qps, burst);
    let start = Instant::now();
    bench.executor.dispatch(binds(&names));
    let answers = bench.answers().await;
    let took = start.elapsed();
    assert_eq!(answers.len(), count);
    assert!(answers.iter().all(|answer| answer.result == EffectResult::Done));
    assert_eq!(server.log().len(), count, "nothing is sent twice or read back");
    took
}

#[tokio::test(start_paused = true)]
async fn a_burst_that_takes_longer_than_any_effect_may_is_bound_whole_at_the_rate() {
    for (count, rate, seconds) in [
        (1_200, (20_000, 30), 58),
        (3_000, (50_000, 100), 58),
        (900, (20_000, 1), 44),
        (300, (1_000, 1), 299),
        (40, (500, 1), 78),
    ] {
        let took = burst(count, rate).await;
        assert_eq!(took.as_secs(), seconds, "{count} at {rate:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn doubt_costs_what_it_asks_and_everything_gets_out() {
    // The server is away for longer than any effect may take, and then slow to come back.
    let names = names(300);
    let server = server(&names).faults(&[Fault::Hangs; 400]);
    let bench = bench(&server, 20_000, 30);
    let start = Instant::now();
    bench.executor.dispatch(binds(&names));
    let answers = bench.answers().await;
    assert!(answers.iter().all(|answer| answer.result == EffectResult::Done));
    assert_eq!(answers.len(), 300);
    let requests = server.log().len();
    // What hung, and then for each one that looks and one that binds.
    assert!(requests <= 400 + 2 * 300, "{requests}");
    let most = Duration::from_secs(requests as u64 / 20 + 30);
    assert!(start.elapsed() <= most, "{requests} requests in {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_does_not_wait_for_all_binds() {
    let names = names(1_000);
    let server = server(&names);
    server.put(pod("victim"));
    let bench = bench(&server, 20_000, 30);
    bench.executor.dispatch(binds(&names));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begun = Instant::now();
    bench.executor.dispatch(vec![effect(5_000, evict("victim"))]);
    let evicted = || bench.answers.lock().iter().any(|answer| answer.effect.0 == 5_000);
    while !evicted() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(bench.answers().await.len(), 1_001);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_while_it_waits_was_never_sent() {
    let names = names(50);
    let server = server(&names);
    let bench = bench(&server, 1_000, 1);
    bench.executor.dispatch(binds(&names));
    assert_eq!(bench.executor.drain(Duration::from_millis(4_500)).await, 45);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let answers = bench.answers.lock().clone();
    let unknown = answers.iter().filter(|answer| answer.result == EffectResult::TimedOut);
    assert_eq!((server.log().len(), answers.len(), unknown.count()), (5, 50, 45));
}

#[tokio::test(start_paused = true)]
async fn who_loses_the_lease_while_it_waits_sends_nothing_more() {
    let names = names(50);
    let server = server(&names);
    let end = Instant::now() + Duration::from_millis(4_500);
    let (_lease, until) = tokio::sync::watch::channel(Some(end));
    let rate = Bucket::new(1_000, 1);
    let bench = Bench::at(&server, Leadership::new(until), Limits::default(), rate);
    bench.executor.dispatch(binds(&names));
    let answers = bench.answers().await;
    assert!(Instant::now() - end < Duration::from_secs(1), "all are answered at once");
    let done = answers.iter().filter(|answer| answer.result == EffectResult::Done).count();
    let unknown = answers.iter().filter(|it| it.result == EffectResult::TimedOut).count();
    assert_eq!((done, unknown, server.log().len()), (5, 45, 5));
}
