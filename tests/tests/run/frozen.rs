//! Connections that die in silence, all at once and in the middle of work: seen from the API, with
//! a proxy between Capstan and the API server.

use std::fs;
use std::time::Duration;

use capstan_tests::cluster::{
    ControlPlane, GpuNodes, History, Options, Proxy, eventually, name_of,
};
use k8s_openapi::jiff::Timestamp;

use crate::judge;
use crate::kills::{bound_once, say};
use crate::scene::{Job, SOON, cluster_with, running, submit, wait_within, written};

/// Members of a gang.
const SIZE: usize = 8;
/// A watch that is silent for 10 s is asked whether it is still there and has 10 s to say so, a
/// write has 10 s, and a busy machine makes a half more of that.
const NOTICED: Duration = Duration::from_secs(30);
/// Nobody else may lead before that much has passed without a renewal.
const LEASE: Duration = Duration::from_secs(10);
/// Kinds that are watched, all on connections of their own, where a cluster has none of other
/// projects; there are some more.
const WATCHES: usize = 20;
/// So few writes a second that a burst is still under way whenever a test looks.
const SLOWLY: &str = "clientConnection: {qps: 20, burst: 1}\n";

fn gangs(prefix: &str, count: usize) -> Vec<Job> {
    (0..count).map(|at| Job::of("default", &format!("{prefix}-{at}"), SIZE as u32)).collect()
}

/// Freezes all connections.
fn freeze(proxy: &Proxy) {
    let frozen = proxy.freeze();
    say(&format!("{frozen} connections are frozen"));
    assert!(frozen >= WATCHES, "{frozen}");
}

/// Waits until all of some gangs run; how long that took.
fn run(cluster: &ControlPlane, history: &History, prefix: &str, count: usize) -> Duration {
    let begun = history.time();
    wait_within(SOON, cluster, "pods", &format!("{prefix} runs"), |pods| {
        running(pods, |name| name.starts_with(prefix)) == count * SIZE
    });
    history.time() - begun
}

/// The longest time that passed without a renewal of the lease since a moment, from the audit log.
fn without_lease(cluster: &ControlPlane, since: Timestamp) -> Duration {
    let writes = written(cluster, "capstan").into_iter();
    let renewals = writes.filter(|it| it.resource == "leases" && it.is_done());
    let mut times: Vec<Timestamp> = renewals.map(|it| it.received).collect();
    times.sort_unstable();
    let gaps = times.windows(2).filter(|pair| pair[1] > since);
    let gaps = gaps.map(|pair| pair[1].duration_since(pair[0]).unsigned_abs());
    gaps.max().expect("it was renewed")
}

/// It led all the time.
fn led_throughout(cluster: &ControlPlane) {
    let leases = cluster.list("leases").expect("leases");
    let of = |it: &&serde_json::Value| name_of(it).starts_with("capstan");
    let lease = leases.iter().find(of).unwrap_or_else(|| panic!("no lease in {leases:?}"));
    assert_eq!(lease["spec"]["leaseTransitions"], 0, "{lease}");
}

#[test]
fn connections_that_freeze_are_given_up_soon_and_nothing_is_bound_twice() {
    let parts = Options { controller_manager: true, kwok: true, audit: true, ..Options::bare() };
    let parts = parts.user("capstan", &["system:masters"]);
    let cluster = cluster_with(parts, &GpuNodes::new("h100", 12));
    let history = cluster.watch_pods().expect("a watch");
    let proxy = cluster.proxy().expect("a proxy");
    let own = cluster.kubeconfig_through(&proxy, "capstan").expect("a user");
    let mut capstan = cluster.capstan_as("capstan-0", SLOWLY, &own).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    submit(&cluster, &gangs("before", 1));
    run(&cluster, &history, "before", 1);

    // At rest: nothing is under way but watches, and what comes next is seen on no connection.
    let since = Timestamp::now();
    freeze(&proxy);
    submit(&cluster, &gangs("unseen", 1));
    let took = run(&cluster, &history, "unseen", 1);
    say(&format!("what was made unseen ran after {took:?}"));
    assert!(took < NOTICED, "{took:?}");

    // In the middle of a burst: some are bound, and answers to others are lost.
    submit(&cluster, &gangs("burst", 8));
    let bound = eventually("some are bound", SOON, || {
        let bound = history.look(|all| {
            let ours = all.values().filter(|pod| pod.gang.starts_with("burst"));
            ours.filter(|pod| pod.node.is_some()).count()
        });
        if bound > 0 { Ok(bound) } else { Err("none") }
    });
    freeze(&proxy);
    assert!(bound.expect("it binds") < 8 * SIZE, "all were bound when it froze");
    let took = run(&cluster, &history, "burst", 8);
    say(&format!("a burst ran on after {took:?}"));
    assert!(took < NOTICED, "{took:?}");

    let alone = without_lease(&cluster, since);
    say(&format!("the lease was not renewed for {alone:?} at most"));
    assert!(alone < LEASE, "{alone:?}");
    led_throughout(&cluster);
    let log = fs::read_to_string(capstan.process.log()).expect("a log");
    assert!(capstan.process.runs() && !log.contains("deposed"), "{log}");
    judge::binds_are_sound(&history, 8);
    judge::are_bound(&judge::gangs(&history, SIZE), NOTICED, &[]);
    // What was on its way when it froze may be asked for once more.
    bound_once(&cluster.audited().expect("the audit log"), 1);
}
