//! Forgetting: what the engine keeps is bounded by what is alive, whatever came before, and when
//! it forgets changes nothing that it decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::view::Footprint;
use capstan_core::model::input::{
    Input, NodeSelector, NodeSelectorTerm, Operator, PodFacts, PodPhase, PodShape, PreemptWithin,
    Requirement, Text, Toleration, TolerationOperator,
};
use capstan_core::plan::StepOutput;
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, amounts, cluster_queue, flavor, gang, group, in_queue, job, labels, local_queue,
    namespace, node, nominal, pod, shape, text,
};
use capstan_tests::play::Stage;
use capstan_tests::seed::Seed;
use capstan_tests::strategy::{Cluster, cluster};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(3_600_000);

/// Jobs of the long run, and how many come at once.
const JOBS: usize = 20_000;
const BATCH: usize = 100;
/// Batches that are there at once.
const BATCHES_ALIVE: usize = 3;

/// A kind of pod that no other job has: its size, its affinity and its tolerations.
fn own_shape(number: usize, cpu: i64) -> Arc<PodShape> {
    let others = Requirement {
        key: text("example.com/reserved-for"),
        operator: Operator::NotIn,
        values: vec![text(format!("job-{number}"))],
    };
    let term = NodeSelectorTerm { labels: vec![others], fields: Vec::new() };
    Arc::new(PodShape {
        requests: amounts(&[("cpu", cpu), ("memory", 1 + number as i64), (GPU, 1)]),
        node_selector: labels(&[("kubernetes.io/os", "linux")]),
        node_affinity: Some(NodeSelector { terms: vec![term] }),
        tolerations: vec![Toleration {
            key: text(format!("example.com/job-{number}")),
            operator: TolerationOperator::Exists,
            value: text(""),
            effect: None,
        }],
        ..PodShape::default()
    })
}

fn linux(name: &str) -> Input {
    let mut facts = node(name, &[("cpu", 64_000), ("memory", 1 << 30), (GPU, 32)]);
    facts.labels.insert(text("kubernetes.io/os"), text("linux"));
    Input::Node(facts.into())
}

/// A queue whose higher priorities preempt its lower ones.
fn queue() -> Vec<Input> {
    let quotas = [("cpu", nominal(2_000_000)), ("memory", nominal(1 << 40)), (GPU, nominal(90))];
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &quotas)]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::ClusterQueue(queue),
        Input::LocalQueue(local_queue("main")),
    ]
}

/// One job of its own kind: a lone pod, a gang, or a suspended Job; some in the queue, some
/// important, some that fit nowhere.
fn work(number: usize) -> Vec<Input> {
    let cpu = if number.is_multiple_of(10) { 1 << 40 } else { 100 + number as i64 % 900 };
    let shape = own_shape(number, cpu);
    let wishes = in_queue((!number.is_multiple_of(3)).then_some("main"));
    let name = format!("job-{number}");
    let pods = match number % 4 {
        0 => gang(&name, 2, Some(2), &shape, &wishes),
        1 if !number.is_multiple_of(3) => {
            return vec![Input::Owner(job(&name, 2, &shape, &wishes))];
        }
        _ => vec![pod(&name, &shape, &wishes)],
    };
    let important = |mut pod: PodFacts| {
        pod.priority = i32::from(number.is_multiple_of(7));
        Input::Pod(pod)
    };
    pods.into_iter().map(important).collect()
}

/// Everything of a job ends and is deleted, whatever became of it.
fn delete(stage: &mut Stage, number: usize) {
    let name = format!("job-{number}");
    let of_job = |pod: &PodFacts| *pod.gang.name == *name;
    let gone: Vec<Text> =
        stage.pods.values().filter(|pod| of_job(pod)).map(|pod| pod.uid.clone()).collect();
    for uid in gone {
        stage.pods.remove(&uid);
        stage.add([Input::PodGone(uid)]);
    }
    let owner = text(format!("job-{name}"));
    if stage.owners.remove(&owner).is_some() {
        stage.add([Input::OwnerGone(owner)]);
    }
}

/// The tables that are swept, by name.
fn swept(footprint: &Footprint) -> [(&'static str, usize); 8] {
    [
        ("shapes", footprint.shapes),
        ("requests", footprint.requests),
        ("classes", footprint.classes),
        ("indexes", footprint.indexes),
        ("groups", footprint.groups),
        ("node slots", footprint.node_slots),
        ("preemptions", footprint.preemptions),
        ("effects in flight", footprint.effects_in_flight),
    ]
}

#[test]
fn jobs_of_ever_new_shapes_take_no_more_than_those_alive() {
    let mut stage = Stage::new(NOW);
    stage.add(queue());
    let batches = JOBS / BATCH;
    for batch in 0..batches + BATCHES_ALIVE {
        stage.now = Time(stage.now.0 + 60_000);
        if batch < batches {
            stage.add((batch * BATCH..(batch + 1) * BATCH).flat_map(work));
            // Spot nodes come under new names and go.
            stage.add((0..4).map(|at| linux(&format!("spot-{batch}-{at}"))));
        }
        stage.settle(|_| {});
        if let Some(old) = batch.checked_sub(BATCHES_ALIVE) {
            (old * BATCH..(old + 1) * BATCH).for_each(|number| delete(&mut stage, number));
            let nodes = (0..4).map(|at| Input::NodeGone(text(format!("spot-{old}-{at}"))));
            stage.add(nodes.collect::<Vec<_>>());
            stage.settle(|_| {});
        }
        let footprint = stage.engine.footprint();
        assert!(footprint.workloads <= (BATCHES_ALIVE + 1) * BATCH, "{footprint:?}");
        for (table, entries) in swept(&footprint) {
            // Two classes or so for each shape alive, as many again before the next sweep.
            let most = 4 * (BATCHES_ALIVE + 1) * BATCH;
            assert!(entries <= most, "batch {batch}: {entries} {table} in {footprint:?}");
        }
        if batch.is_multiple_of(50) {
            stage.engine.recount();
        }
    }
    let last = stage.engine.footprint();
    assert_eq!((last.pods, last.workloads, last.owners, last.nodes), (0, 0, 0, 0), "{last:?}");
    for (table, entries) in swept(&last) {
        assert_eq!(entries, 0, "{table} in {last:?}");
    }
    assert!(last.sweeps as usize <= 2 * batches, "sweeping costs no more than it gives: {last:?}");
}

/// Who stands by for weeks keeps no more than who leads.
#[test]
fn who_only_observes_forgets_too() {
    let mut engine = Engine::new();
    engine.observe(NOW, vec![linux("n")]);
    for number in 0..JOBS {
        let name = format!("pod-{number}");
        let one = pod(&name, &own_shape(number, 100), &in_queue(None));
        engine.observe(NOW, vec![Input::Pod(one)]);
        engine.observe(NOW, vec![Input::PodGone(text(&name))]);
    }
    let footprint = engine.footprint();
    for (table, entries) in swept(&footprint) {
        assert!(entries <= 8_192, "{table}: {entries}");
    }
}

#[test]
fn nothing_new_is_never_swept() {
    let mut stage = Stage::new(NOW);
    stage.add(queue());
    stage.add((0..4).map(|at| linux(&format!("n{at}"))));
    let same = shape(&[("cpu", 100), ("memory", 1), (GPU, 1)]);
    for round in 0..200 {
        let name = |at| format!("pod-{round}-{at}");
        let pods: Vec<_> =
            (0..20).map(|at| pod(&name(at), &same, &in_queue(Some("main")))).collect();
        stage.add(pods.into_iter().map(Input::Pod));
        stage.settle(|_| {});
        (0..20).for_each(|at| {
            stage.pods.remove(&text(name(at)));
        });
        stage.add((0..20).map(|at| Input::PodGone(text(name(at)))).collect::<Vec<_>>());
        stage.settle(|_| {});
    }
    let footprint = stage.engine.footprint();
    assert_eq!((footprint.sweeps, footprint.shapes, footprint.groups), (0, 1, 1), "{footprint:?}");
}

#[test]
fn queues_and_flavors_that_come_and_go_leave_no_names() {
    let mut engine = Engine::new();
    engine.step(NOW, vec![namespace(), linux("n")]);
    let one = shape(&[("cpu", 100)]);
    for number in 0..400 {
        let name = format!("team-{number}");
        let quotas = group(&[(name.as_str(), &[("cpu", nominal(1_000))])]);
        let waits = pod(&name, &one, &in_queue(Some(&name)));
        let facts = vec![
            Input::Flavor(flavor(&name, &[])),
            Input::ClusterQueue(cluster_queue(&name, None, quotas)),
            Input::LocalQueue(local_queue(&name)),
            Input::Pod(waits),
        ];
        engine.step(NOW, facts);
        let local_queue =
            Input::LocalQueueGone { namespace: text("team"), name: text(name.as_str()) };
        let gone = vec![
            Input::PodGone(text(name.as_str())),
            local_queue,
            Input::ClusterQueueGone(text(name.as_str())),
            Input::FlavorGone(text(name.as_str())),
        ];
        engine.step(NOW, gone);
        let footprint = engine.footprint();
        let names = footprint.queues + footprint.flavors + footprint.flavor_resources;
        assert!(names <= 160, "{footprint:?}");
        assert!(footprint.groups <= 80, "a queue takes its groups with it: {footprint:?}");
    }
    engine.sweep();
    let footprint = engine.footprint();
    assert_eq!((footprint.queues, footprint.flavors, footprint.flavor_resources), (0, 0, 0));
    engine.recount();
}

#[test]
fn binds_that_nobody_answers_are_forgotten_with_their_pods() {
    let mut engine = Engine::new();
    engine.step(NOW, vec![linux("n")]);
    let one = shape(&[("cpu", 100)]);
    for number in 0..1_000 {
        let name = format!("p{number}");
        let output = engine.step(NOW, vec![Input::Pod(pod(&name, &one, &in_queue(None)))]);
        assert!(!output.effects.is_empty(), "it is bound");
        engine.step(NOW, vec![Input::PodGone(text(name))]);
        let footprint = engine.footprint();
        assert!(footprint.effects_in_flight <= 160, "{footprint:?}");
    }
}

#[test]
fn a_gang_without_end_does_not_remember_every_shape_it_had() {
    let mut engine = Engine::new();
    engine.step(NOW, queue());
    engine.step(NOW, vec![linux("n")]);
    let shape_of = |number| own_shape(number, 100);
    let member = |number: usize, bound: bool| {
        let mut member = gang("service", 1, Some(1), &shape_of(number), &in_queue(Some("main")));
        let mut member = member.remove(0);
        (member.uid, member.name) = (text(number), text(format!("service-{number}")));
        if bound {
            (member.node, member.phase) = (Some(text("n")), PodPhase::Running);
        }
        Input::Pod(member)
    };
    engine.step(NOW, vec![member(0, false)]);
    engine.step(NOW, vec![member(0, true)]);
    for number in 1..300 {
        // The next one comes before the last one goes: the gang never ends.
        engine.step(NOW, vec![member(number, false)]);
        engine.step(NOW, vec![member(number, true)]);
        engine.step(NOW, vec![Input::PodGone(text(number - 1))]);
    }
    engine.sweep();
    let footprint = engine.footprint();
    assert_eq!((footprint.pods, footprint.workloads), (1, 1), "{footprint:?}");
    assert!(footprint.shapes <= 17, "{footprint:?}");
    engine.recount();
}

#[test]
fn flavors_of_a_member_that_died_are_kept_while_its_gang_runs() {
    let mut engine = Engine::new();
    engine.step(NOW, queue());
    engine.step(NOW, vec![linux("n")]);
    let mut members = gang("g", 2, Some(1), &own_shape(1, 100), &in_queue(Some("main")));
    members[1].shape = own_shape(2, 200);
    engine.step(NOW, members.iter().cloned().map(Input::Pod).collect());
    for member in &mut members {
        (member.node, member.phase) = (Some(text("n")), PodPhase::Running);
    }
    engine.step(NOW, members.iter().cloned().map(Input::Pod).collect());
    engine.step(NOW, vec![Input::PodGone(members[1].uid.clone())]);
    engine.sweep();
    assert_eq!(engine.footprint().shapes, 2, "what the gang holds quota with names both");
    engine.step(NOW, vec![Input::PodGone(members[0].uid.clone())]);
    engine.sweep();
    assert_eq!(engine.footprint().shapes, 0, "and with the gang both go");
}

/// Plays a cluster piece by piece; between pieces some pods and a node go, and come back under
/// other names. `sweep`: after every step.
fn played(cluster: &Cluster, seed: u64, sweep: bool) -> (Vec<StepOutput>, Engine) {
    let mut stage = Stage::new(NOW);
    let mut random = Seed::new(seed);
    let mut outputs = Vec::new();
    stage.add(cluster.ground.clone());
    for (piece, work) in cluster.work.iter().enumerate() {
        stage.now = Time(stage.now.0 + 60_000);
        stage.add(work.iter().cloned());
        settle(&mut stage, sweep, &mut outputs);
        let uids: Vec<Text> = stage.pods.keys().cloned().collect();
        let gone: BTreeSet<Text> = uids.into_iter().filter(|_| random.below(3) == 0).collect();
        stage.pods.retain(|uid, _| !gone.contains(uid));
        stage.add(gone.into_iter().map(Input::PodGone));
        if let Some(name) = stage.rest.iter().find_map(name_of_node) {
            let on_it = |pod: &PodFacts| pod.node.as_ref() == Some(&name);
            if !stage.pods.values().any(on_it) {
                let mut other = node(&format!("new-{piece}"), &[("cpu", 4), (GPU, 4)]);
                other.labels = labels(&[("kubernetes.io/hostname", &other.name)]);
                stage.rest.retain(|fact| name_of_node(fact).as_ref() != Some(&name));
                stage.add([Input::NodeGone(name), Input::Node(other.into())]);
            }
        }
        settle(&mut stage, sweep, &mut outputs);
    }
    (outputs, stage.engine)
}

fn name_of_node(fact: &Input) -> Option<Text> {
    match fact {
        Input::Node(node) => Some(node.name.clone()),
        _ => None,
    }
}

fn settle(stage: &mut Stage, sweep: bool, outputs: &mut Vec<StepOutput>) {
    for _ in 0..100 {
        let mut output = stage.step();
        // Who forgot more looks at more nodes again; that is effort, and decides nothing.
        output.report.counts.nodes_scored = 0;
        let quiet = output.effects.is_empty() && stage.caught_up() && output.report.quiet;
        outputs.push(output);
        if sweep {
            stage.engine.sweep();
            stage.engine.recount();
        }
        if quiet {
            return;
        }
    }
    panic!("not settled after 100 steps");
}

proptest! {
    #![proptest_config(Config {
        cases: 256,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    })]

    #[test]
    fn when_it_forgets_changes_no_plan(cluster in cluster(), seed: u64) {
        let (always, swept) = played(&cluster, seed, true);
        let (seldom, grown) = played(&cluster, seed, false);
        prop_assert_eq!(always, seldom);
        prop_assert_eq!(swept.nodes(), grown.nodes());
        prop_assert_eq!(swept.queues(), grown.queues());
        let shapes = |engine: &Engine| engine.footprint().shapes;
        prop_assert!(shapes(&swept) <= shapes(&grown));
    }
}
