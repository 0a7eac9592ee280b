//! LocalQueues of one ClusterQueue that take turns by what they used of late. Facts are fed by
//! hand and the clock is moved.

use std::collections::BTreeMap;

use capstan_core::Engine;
use capstan_core::model::input::{
    ClusterQueueFacts, Input, LocalQueueFacts, LocalQueueUsage, PodFacts, PodPhase, PreemptReclaim,
    PreemptWithin, QueueingStrategy, Weight,
};
use capstan_core::plan::{Action, Effect, EffectResult, StepOutput};
use capstan_core::policy::{Policy, UsageSharing};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, group, in_queue, local_queue, namespace, nominal,
    pod, shape, text,
};
use capstan_tests::hand::{answer, binds, gpu_node};

const NOW: Time = Time(1_000_000);
const HALF_LIFE: Span = Span::minutes(60);

fn after(minutes: i64) -> Time {
    NOW.plus(Span::minutes(minutes))
}

fn sharing() -> UsageSharing {
    let weights = BTreeMap::from([(text("cpu"), 0)]);
    UsageSharing { half_life: HALF_LIFE, interval: Span::minutes(5), weights }
}

fn policy(usage_sharing: Option<UsageSharing>) -> Input {
    Input::Policy(Policy { usage_sharing, ..Policy::default() }.into())
}

fn queue(name: &str, weight: Weight) -> Input {
    Input::LocalQueue(LocalQueueFacts { name: text(name), weight, ..local_queue("main") })
}

/// One ClusterQueue of so many GPUs and two LocalQueues, the second of this weight.
fn ground(gpus: i64, weight: Weight, facts: impl Fn(&mut ClusterQueueFacts)) -> Vec<Input> {
    let mut main = cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(gpus))])]));
    main.usage_based = true;
    facts(&mut main);
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::ClusterQueue(main),
        queue("a", Weight::ONE),
        queue("b", weight),
        gpu_node("n", gpus),
    ]
}

/// A pod of one GPU from a LocalQueue.
fn job(queue: &str, number: usize, priority: i32) -> PodFacts {
    let made = pod(&format!("{queue}-{number}"), &shape(&[(GPU, 1)]), &in_queue(Some(queue)));
    PodFacts { priority, created: Time(number as i64), ..made }
}

fn done(output: &StepOutput) -> Vec<Input> {
    output.effects.iter().map(|effect| answer(effect, EffectResult::Done)).collect()
}

/// Names of the pods that a step binds.
fn bound(output: &StepOutput) -> Vec<String> {
    binds(output).into_iter().map(|(pod, _)| pod).collect()
}

/// Whoever has the one GPU has it for so long, again and again: how many of each queue had it.
fn turns(engine: &mut Engine, mut facts: Vec<Input>, rounds: i64, each: i64) -> (usize, usize) {
    let jobs = (0..rounds as usize).flat_map(|number| [job("a", number, 9), job("b", number, 0)]);
    let jobs: BTreeMap<String, PodFacts> = jobs.map(|pod| (pod.name.to_string(), pod)).collect();
    facts.extend(jobs.values().cloned().map(Input::Pod));
    let (mut a, mut b) = (0, 0);
    for round in 0..rounds {
        let output = engine.step(after(round * each), std::mem::take(&mut facts));
        let [name] = &bound(&output)[..] else { panic!("one at a time: {:?}", bound(&output)) };
        if name.starts_with('a') {
            a += 1
        } else {
            b += 1
        }
        let runs =
            PodFacts { node: Some(text("n")), phase: PodPhase::Running, ..jobs[name].clone() };
        let shown = done(&output).into_iter().chain([Input::Pod(runs)]);
        // Usage is looked at while it runs.
        let mut next = engine.step(after(round * each), shown.collect()).next_wake;
        while let Some(at) = next.filter(|at| *at < after((round + 1) * each)) {
            next = engine.step(at, vec![]).next_wake;
        }
        facts.push(Input::PodGone(jobs[name].uid.clone()));
    }
    engine.recount();
    (a, b)
}

#[test]
fn queues_take_turns_by_weight_whatever_their_priorities() {
    let two = Weight(2 * Weight::ONE.0);
    for (weight, wanted) in [(Weight::ONE, 60), (two, 80)] {
        for strategy in [QueueingStrategy::BestEffortFifo, QueueingStrategy::StrictFifo] {
            let mut engine = Engine::new();
            let mut facts = ground(1, weight, |main| main.strategy = strategy);
            facts.push(policy(Some(sharing())));
            let (a, b) = turns(&mut engine, facts, 120, 7);
            assert!(b.abs_diff(wanted) <= 4, "{a} and {b}, weight {weight:?}, {strategy:?}");
        }
    }
}

#[test]
fn without_it_priority_decides() {
    for (usage_sharing, usage_based) in [(None, true), (Some(sharing()), false)] {
        let mut engine = Engine::new();
        let mut facts = ground(1, Weight::ONE, |main| main.usage_based = usage_based);
        facts.push(policy(usage_sharing));
        assert_eq!(turns(&mut engine, facts, 10, 7), (10, 0));
    }
}

/// Many small jobs of one queue do not pass in one go: each counts as soon as it is admitted.
#[test]
fn an_admission_counts_at_once() {
    let mut engine = Engine::new();
    let mut facts = ground(8, Weight::ONE, |_| {});
    facts.push(policy(Some(sharing())));
    facts.extend((0..8).flat_map(|at| [job("a", at, 9), job("b", at, 0)]).map(Input::Pod));
    let output = engine.step(NOW, facts);
    let of_a = bound(&output).iter().filter(|name| name.starts_with('a')).count();
    assert_eq!((of_a, bound(&output).len()), (4, 8));
    engine.recount();
}

/// Three small jobs use what one large one does: neither passes the other for how that is rounded.
#[test]
fn who_used_the_same_in_parts_stands_by_priority() {
    let mut engine = Engine::new();
    let mut facts = ground(7, Weight::ONE, |_| {});
    facts.push(policy(Some(sharing())));
    let large = PodFacts { shape: shape(&[(GPU, 3)]), ..job("a", 0, 9) };
    let small = (0..4).map(|number| job("b", number, 0)).chain([job("a", 1, 9)]);
    facts.extend([large].into_iter().chain(small).map(Input::Pod));
    let output = engine.step(NOW, facts);
    assert_eq!(bound(&output), ["a-0", "a-1", "b-0", "b-1", "b-2"]);
    engine.recount();
}

/// What a status shows is what a new engine goes on with; it shows what the engine knows.
#[test]
fn a_new_engine_goes_on_with_what_statuses_show() {
    let used = |name: &str, thousandths: i64, at: Time| {
        let consumed = BTreeMap::from([(text(GPU), thousandths)]);
        Input::LocalQueueUsed(LocalQueueUsage {
            namespace: text(TEAM),
            name: text(name),
            consumed,
            at,
        })
    };
    for (a, b, first) in [(4_000, 2_000, "b-0"), (2_000, 4_000, "a-0")] {
        let mut engine = Engine::new();
        let mut facts = ground(1, Weight::ONE, |_| {});
        facts.extend([policy(Some(sharing())), used("a", a, NOW), used("b", b, NOW)]);
        facts.extend([job("a", 0, 0), job("b", 0, 0)].map(Input::Pod));
        let output = engine.step(NOW.plus(HALF_LIFE), facts);
        assert_eq!(bound(&output), [first]);
        let shown = engine.local_queues();
        let of = |name: &str| {
            let view = shown.iter().find(|view| &*view.name == name).expect("there");
            view.consumed.clone().expect("it takes turns")
        };
        let half = |used: i64| (BTreeMap::from([(text(GPU), used / 2)]), NOW.plus(HALF_LIFE));
        assert_eq!((of("a"), of("b")), (half(a), half(b)));
        // What was admitted counts as used for one interval: 1 - 0.5^(5/60) of a GPU.
        let by = |at: usize| (shown[at].usage.expect("it takes turns") - [a, b][at] / 2).abs();
        let (admitted, waits) = if first == "a-0" { (by(0), by(1)) } else { (by(1), by(0)) };
        assert!((55..=57).contains(&admitted) && waits <= 1, "{admitted} {waits}");
        // What comes back from the API is what it wrote.
        engine.step(NOW.plus(HALF_LIFE), vec![used("a", 100_000, NOW)]);
        assert_eq!(engine.local_queues()[0].consumed, Some(half(a)));
    }
}

/// Short work that comes all the time counts for as long as it ran, and no longer.
#[test]
fn many_short_jobs_count_for_what_they_used() {
    let mut engine = Engine::new();
    let mut facts = ground(4, Weight::ONE, |_| {});
    facts.push(policy(Some(sharing())));
    engine.step(NOW, facts);
    let at = |seconds: i64| NOW.plus(Span::seconds(seconds));
    let runs = |pod: &PodFacts| {
        Input::Pod(PodFacts { node: Some(text("n")), phase: PodPhase::Running, ..pod.clone() })
    };
    let long = job("b", 0, 0);
    let output = engine.step(at(0), vec![Input::Pod(long.clone())]);
    engine.step(at(0), done(&output).into_iter().chain([runs(&long)]).collect());
    // A second of every ten, for ten minutes, beside one that runs all the time.
    for number in 0..60 {
        let (short, now) = (job("a", number, 0), 10 * number as i64);
        let output = engine.step(at(now), vec![Input::Pod(short.clone())]);
        engine.step(at(now), done(&output).into_iter().chain([runs(&short)]).collect());
        engine.step(at(now + 1), vec![Input::PodGone(short.uid.clone())]);
    }
    engine.step(at(600), vec![]);
    let used = |name: &str| {
        let views = engine.local_queues();
        let view = views.iter().find(|view| &*view.name == name).expect("there");
        view.consumed.clone().expect("it takes turns").0.get(&text(GPU)).copied().unwrap_or(0)
    };
    let (a, b) = (used("a"), used("b"));
    assert!(b > 0 && a * 2 < b, "a tenth of the time, and each look later by up to 30 s: {a} {b}");
    engine.recount();
}

/// Who leaves for higher priority: of LocalQueues that take turns those that used most, before any
/// priority of their work; within one of them the lower.
#[test]
fn who_used_most_leaves_first_whatever_its_priority() {
    let used = |name: &str, thousandths: i64| {
        let consumed = BTreeMap::from([(text(GPU), thousandths)]);
        let (namespace, name) = (text(TEAM), text(name));
        Input::LocalQueueUsed(LocalQueueUsage { namespace, name, consumed, at: NOW })
    };
    let preempts = |main: &mut ClusterQueueFacts| {
        main.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    };
    for (usage_based, a, b, victim) in
        [(true, 90_000, 1_000, "a-1"), (true, 1_000, 90_000, "b-1"), (false, 90_000, 1_000, "b-1")]
    {
        let mut engine = Engine::new();
        let mut facts = ground(4, Weight::ONE, |main| {
            preempts(main);
            main.usage_based = usage_based;
        });
        facts.extend([policy(Some(sharing())), used("a", a), used("b", b)]);
        for (queue, number, priority) in [("a", 0, 7), ("a", 1, 6), ("b", 0, 3), ("b", 1, 2)] {
            let runs = job(queue, number, priority);
            let runs = PodFacts { node: Some(text("n")), phase: PodPhase::Running, ..runs };
            facts.push(Input::Pod(runs));
        }
        engine.step(NOW, facts);
        let output = engine.step(NOW, vec![Input::Pod(job("b", 9, 9))]);
        let evicted: Vec<&str> = output.effects.iter().filter_map(victim_of).collect();
        assert_eq!(evicted, [victim], "{usage_based} {a} {b}");
        engine.recount();
    }
}

/// Use tells nothing about work of other ClusterQueues: it stays where its priority puts it among
/// those that take turns.
#[test]
fn work_of_other_queues_stands_where_it_stood() {
    let of = |name: &str, gpus: i64| {
        cluster_queue(name, Some("all"), group(&[(DEFAULT, &[(GPU, nominal(gpus))])]))
    };
    let (mut owner, mut main) = (of("owner", 3), of("main", 0));
    owner.preemption.reclaim = PreemptReclaim::Any;
    main.usage_based = true;
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[])), gpu_node("n", 3)];
    facts.extend([owner, main, of("other", 0)].map(Input::ClusterQueue));
    facts.extend(["owner", "other"].map(|name| Input::LocalQueue(local_queue(name))));
    facts.extend([queue("a", Weight::ONE), queue("b", Weight::ONE), policy(Some(sharing()))]);
    let consumed = BTreeMap::from([(text(GPU), 90_000)]);
    let (namespace, name) = (text(TEAM), text("a"));
    facts.push(Input::LocalQueueUsed(LocalQueueUsage { namespace, name, consumed, at: NOW }));
    for (queue, priority) in [("a", 5), ("b", 1), ("other", 3)] {
        let runs = job(queue, 0, priority);
        let runs = PodFacts { node: Some(text("n")), phase: PodPhase::Running, ..runs };
        facts.push(Input::Pod(runs));
    }
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    // By priority `b`, `other`, `a`; in the places of `b` and `a` goes first who used most.
    let asks = pod("owns", &shape(&[(GPU, 2)]), &in_queue(Some("owner")));
    let output = engine.step(NOW, vec![Input::Pod(asks)]);
    let evicted: Vec<&str> = output.effects.iter().filter_map(victim_of).collect();
    assert_eq!(evicted, ["a-0", "other-0"]);
}

/// The pod that an effect evicts.
fn victim_of(effect: &Effect) -> Option<&str> {
    match &effect.action {
        Action::Evict { pod, .. } => Some(&pod.name),
        _ => None,
    }
}
