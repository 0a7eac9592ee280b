//! Where work stands in its queue: against the order in which queues are really served.

use std::collections::BTreeMap;

use capstan_core::explain::view::{Place, Position};
use capstan_core::model::input::{
    ClusterQueueFacts, Input, LocalQueueFacts, PodFacts, PreemptWithin, Text,
};
use capstan_core::plan::{Action, Effect, EffectResult, State};
use capstan_core::policy::{FairSharing, Policy};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, cohort, flavor, group, in_queue, local_queue, namespace,
    node, nominal, pod, shape, text,
};
use capstan_tests::play::Stage;
use capstan_tests::strategy::cluster;
use proptest::prelude::*;

const HOUR: i64 = 3_600_000;

/// A queue of eight GPUs on one node, with two LocalQueues.
fn stage(edit: impl FnOnce(&mut ClusterQueueFacts)) -> Stage {
    let mut stage = Stage::new(Time(HOUR));
    let mut queue = cluster_queue("q", None, group(&[(DEFAULT, &[(GPU, nominal(8))])]));
    edit(&mut queue);
    stage.add([
        namespace(),
        Input::Node(node("a", &[(GPU, 8), ("cpu", 64_000)]).into()),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::LocalQueue(local_queue("q")),
        Input::LocalQueue(LocalQueueFacts { name: text("other"), ..local_queue("q") }),
        Input::ClusterQueue(queue),
    ]);
    stage.settle(|_| {});
    stage
}

fn work(name: &str, gpus: i64, (priority, created): (i32, i64), queue: &str) -> PodFacts {
    let mut pod = pod(name, &shape(&[(GPU, gpus)]), &in_queue(Some(queue)));
    (pod.priority, pod.created) = (priority, Time(created));
    pod
}

fn submit(stage: &mut Stage, pods: impl IntoIterator<Item = PodFacts>) {
    stage.add(pods.into_iter().map(Input::Pod));
    stage.settle(|_| {});
}

/// Names in the order of their positions.
fn order(stage: &Stage, most: usize) -> Vec<String> {
    let mut places: Vec<Place> = stage.engine.positions(most);
    places.sort_by_key(|place| place.position.in_cluster_queue);
    places.into_iter().map(|place| place.name.to_string()).collect()
}

fn position(stage: &Stage, name: &str) -> Option<Position> {
    stage.engine.position(&text(TEAM), &text(name))
}

fn at(in_cluster_queue: u32, in_local_queue: u32) -> Option<Position> {
    Some(Position { in_cluster_queue, in_local_queue: Some(in_local_queue) })
}

#[test]
fn work_stands_by_priority_then_time_in_both_its_queues() {
    let mut stage = stage(|_| {});
    submit(&mut stage, [work("runs", 8, (0, 0), "q")]);
    let waits = [
        work("late", 8, (0, 9), "q"),
        work("early", 8, (0, 1), "other"),
        work("high", 8, (5, 20), "q"),
        work("small", 7, (0, 5), "other"),
    ];
    submit(&mut stage, waits);
    assert_eq!(order(&stage, 20), ["high", "early", "small", "late"]);
    assert_eq!(position(&stage, "high"), at(0, 0));
    assert_eq!(position(&stage, "early"), at(1, 0));
    assert_eq!(position(&stage, "small"), at(2, 1));
    assert_eq!(position(&stage, "late"), at(3, 1), "one of its own LocalQueue is before it");
    assert_eq!(position(&stage, "runs"), None);
    assert_eq!(position(&stage, "nobody"), None);
    assert_eq!(order(&stage, 2), ["high", "early"], "the first ones only");
}

#[test]
fn work_that_room_is_made_for_stands_first_whatever_came_since() {
    let mut stage = stage(|queue| {
        queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    });
    submit(&mut stage, [work("low", 8, (0, 0), "q")]);
    // Its victim does not leave at once.
    stage.add([work("first", 8, (5, 1), "q")].map(Input::Pod));
    stage.step();
    let views = stage.engine.workloads();
    let first = views.iter().find(|view| &*view.name == "first").expect("it waits");
    assert_eq!(first.state, State::Reserved);
    stage.engine.observe(stage.now, vec![Input::Pod(work("higher", 8, (9, 2), "q"))]);
    assert_eq!(order(&stage, 20), ["first", "higher"]);
    assert_eq!(position(&stage, "first"), at(0, 0));
}

#[test]
fn who_waits_out_a_failure_stands_last_and_what_is_held_nowhere() {
    let mut stage = stage(|_| {});
    submit(&mut stage, [work("runs", 7, (0, 0), "q")]);
    let output = stage.engine.step(stage.now, vec![Input::Pod(work("fails", 1, (9, 1), "q"))]);
    let binds = |effect: &&Effect| matches!(effect.action, Action::Bind { .. });
    let bind = output.effects.iter().find(binds).expect("it fits");
    let result = EffectResult::Refused("no".into());
    let waits = Input::Pod(work("waits", 8, (0, 5), "q"));
    let astray = Input::Pod(work("astray", 1, (0, 5), "nowhere"));
    let told = vec![Input::Outcome { effect: bind.id, result }, waits, astray];
    stage.engine.step(stage.now, told);
    assert_eq!(order(&stage, 20), ["waits", "fails"]);
    assert_eq!(position(&stage, "fails"), at(1, 1));
    assert_eq!(position(&stage, "astray"), None);
}

#[test]
fn work_without_a_queue_stands_in_the_implicit_one() {
    let mut stage = Stage::new(Time(HOUR));
    stage.add([namespace(), Input::Node(node("a", &[(GPU, 8)]).into())]);
    let plain = |name: &str, created| {
        let mut pod = pod(name, &shape(&[(GPU, 9)]), &in_queue(None));
        pod.created = Time(created);
        pod
    };
    submit(&mut stage, [plain("b", 1), plain("a", 2)]);
    assert_eq!(order(&stage, 20), ["b", "a"]);
    let second = Position { in_cluster_queue: 1, in_local_queue: None };
    assert_eq!(position(&stage, "a"), Some(second));
}

/// Three queues in two cohorts borrow from a bank of four GPUs, and six works wait in each.
fn by_shares(queues: [&str; 3]) -> Stage {
    let mut stage = Stage::new(Time(HOUR));
    let fair_sharing = Some(FairSharing::FinalThenInitial);
    let policy = Policy { fair_sharing, reservations: None, ..Policy::default() };
    stage.add([Input::Policy(policy.into()), namespace(), Input::Flavor(flavor(DEFAULT, &[]))]);
    stage.add([Input::Node(node("a", &[(GPU, 4)]).into())]);
    stage.add(["left", "right"].map(|name| Input::Cohort(cohort(name, Some("all")))));
    let above = ["left", "left", "right"];
    for (name, above) in [("bank", "all")].into_iter().chain(queues.into_iter().zip(above)) {
        let quota = nominal(if name == "bank" { 4 } else { 0 });
        let queue = cluster_queue(name, Some(above), group(&[(DEFAULT, &[(GPU, quota)])]));
        stage.add([Input::LocalQueue(local_queue(name)), Input::ClusterQueue(queue)]);
    }
    submit(&mut stage, [work("all", 4, (0, 0), "bank")]);
    for (at, queue) in queues.into_iter().enumerate() {
        let priorities = [0, 5, 0, 2, 5, 1].into_iter().enumerate();
        let works = priorities.map(|(number, priority)| {
            let created = (10 * number + at) as i64;
            work(&format!("{queue}-{number}"), 1, (priority, created), queue)
        });
        submit(&mut stage, works);
    }
    stage
}

/// What was found of a LocalQueue for some work holds for other work until the object changes, and
/// no longer.
#[test]
fn work_waits_where_its_local_queue_leads_now() {
    let mut stage = stage(|_| {});
    let line = |stage: &Stage, queue: &str| -> Vec<String> {
        let line = stage.engine.line_of_cluster_queue(queue).expect("it exists");
        line.into_iter().map(|place| place.name.to_string()).collect()
    };
    submit(&mut stage, [work("runs", 8, (0, 0), "q")]);
    submit(&mut stage, [work("first", 8, (0, 1), "other")]);
    submit(&mut stage, [work("second", 8, (0, 2), "other")]);
    assert_eq!(line(&stage, "q"), ["first", "second"]);
    let queue = cluster_queue("r", None, group(&[(DEFAULT, &[(GPU, nominal(8))])]));
    let elsewhere = LocalQueueFacts { name: text("other"), ..local_queue("r") };
    stage.add([Input::ClusterQueue(queue), Input::LocalQueue(elsewhere)]);
    submit(&mut stage, [work("third", 8, (0, 3), "other"), work("stays", 8, (0, 4), "q")]);
    assert_eq!(line(&stage, "r"), ["first", "second", "third"]);
    assert_eq!(line(&stage, "q"), ["stays"]);
    stage.add([Input::LocalQueueGone { namespace: text(TEAM), name: text("other") }]);
    submit(&mut stage, [work("fourth", 8, (0, 5), "other")]);
    assert!(line(&stage, "r").is_empty());
    assert_eq!(line(&stage, "q"), ["stays"]);
}

/// With fair sharing the cohorts' shares decide which queue has its turn, and who stands first in
/// it has that turn.
#[test]
fn by_shares_queues_take_turns_and_each_is_served_in_its_order() {
    let queues = ["la", "lb", "ra"];
    let mut stage = by_shares(queues);
    let line = |stage: &Stage, queue: &str| -> Vec<String> {
        let line = stage.engine.line_of_cluster_queue(queue).expect("it exists");
        line.into_iter().map(|place| place.name.to_string()).collect()
    };
    assert_eq!(line(&stage, "la"), ["la-1", "la-4", "la-3", "la-5", "la-0", "la-2"]);
    let mut ends = text("all");
    for turn in 0..8 {
        let before = queues.map(|queue| line(&stage, queue));
        stage.drop_pod(&ends);
        stage.settle(|_| {});
        for (queue, before) in queues.iter().zip(&before) {
            let after = line(&stage, queue);
            assert_eq!(after, before[before.len() - after.len()..], "{queue}, turn {turn}");
        }
        let placed = stage.pods.values().filter(|pod| pod.node.is_some());
        let running: Vec<Text> = placed.map(|pod| pod.uid.clone()).collect();
        let of = |queue: &str| running.iter().filter(|uid| uid.starts_with(queue)).count();
        assert_eq!(queues.map(of), [1, 1, 2], "half of it for each cohort, turn {turn}");
        ends = running[turn % running.len()].clone();
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// All positions of a queue are those of its works one by one, each is had once, and asking
    /// for forecasts changes nothing.
    #[test]
    fn positions_are_a_count_and_agree(cluster in cluster()) {
        let mut stage = Stage::new(Time(HOUR));
        stage.add(cluster.ground.iter().cloned());
        for work in &cluster.work {
            stage.add(work.iter().cloned());
            stage.settle(|_| {});
            let places = stage.engine.positions(usize::MAX);
            let views = stage.engine.workloads();
            let mut by_queue: BTreeMap<Option<Text>, Vec<u32>> = BTreeMap::new();
            for place in &places {
                let alone = stage.engine.position(&place.namespace, &place.name);
                prop_assert_eq!(alone, Some(place.position));
                let of = |view: &&capstan_core::explain::view::WorkloadView| {
                    (&view.namespace, &view.name) == (&place.namespace, &place.name)
                };
                let view = views.iter().find(of).expect("it exists");
                prop_assert!(matches!(view.state, State::Queued | State::Reserved));
                let unqueued = view.local_queue.is_none();
                let queue = view.cluster_queue.clone().filter(|_| !unqueued);
                by_queue.entry(queue).or_default().push(place.position.in_cluster_queue);
            }
            for counts in by_queue.values_mut() {
                counts.sort_unstable();
                prop_assert!(counts.iter().copied().eq(0..counts.len() as u32), "{:?}", counts);
            }
            let names: Vec<(Text, Text)> =
                places.iter().map(|it| (it.namespace.clone(), it.name.clone())).collect();
            stage.engine.forecasts_of(stage.now, &names);
            stage.engine.recount();
            prop_assert_eq!(stage.engine.workloads(), views);
        }
    }
}
