//! Members that join a gang together, some of a shape that runs and some of a new one: the flavor
//! of the new ones is what is left beside the others. Found by properties: what was promised to
//! them was not what they took once their victims had left, and those came back, and left again.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::model::input::{
    ClusterQueueFacts, GangKey, HostPort, Input, PodFacts, PodPhase, PodShape, PreemptReclaim,
};
use capstan_core::plan::Action;
use capstan_core::time::Time;
use capstan_tests::facts::{
    GPU, cluster_queue, cohort, flavor, gang, group, in_queue, job, labels, local_queue, namespace,
    node, nominal, shape, text,
};
use capstan_tests::play::Stage;

const NOW: Time = Time(3_600_000);

/// Nodes of one of two flavors and so many GPUs, and queues of one cohort.
fn stage(nodes: &[(&str, i64)], queues: impl IntoIterator<Item = ClusterQueueFacts>) -> Stage {
    let mut facts = vec![namespace(), Input::Cohort(cohort("all", None))];
    for (at, (kind, gpus)) in nodes.iter().enumerate() {
        let mut facts_of = node(&format!("n{at}"), &[("cpu", 8), (GPU, *gpus), ("pods", 110)]);
        facts_of.labels.extend(labels(&[("kind", kind)]));
        facts.push(Input::Node(facts_of.into()));
    }
    for kind in ["first", "second"] {
        facts.push(Input::Flavor(flavor(kind, &[("kind", kind)])));
    }
    for queue in queues {
        facts.push(Input::LocalQueue(local_queue(&queue.name)));
        facts.push(Input::ClusterQueue(queue));
    }
    let mut stage = Stage::new(NOW);
    stage.add(facts);
    stage
}

/// A queue that owns so many GPUs of each flavor, and CPUs enough.
fn owning(name: &str, first: i64, second: i64) -> ClusterQueueFacts {
    let quotas = |gpus: i64| [(GPU, nominal(gpus)), ("cpu", nominal(8))];
    let both = [("first", &quotas(first)[..]), ("second", &quotas(second)[..])];
    cluster_queue(name, Some("all"), group(&both))
}

/// With a host port, of which each node has one.
fn with_port(requests: &[(&str, i64)]) -> Arc<PodShape> {
    let port = HostPort { port: 80, protocol: text("TCP"), ip: text("0.0.0.0") };
    Arc::new(PodShape { ports: vec![port], ..PodShape::clone(&shape(requests)) })
}

/// A member more of each group, and one more of another shape.
fn joining(stage: &Stage) -> Vec<Input> {
    let mut groups = BTreeSet::new();
    let firsts = stage.pods.values().filter(|pod| groups.insert(pod.gang.key.clone()));
    let mut more = Vec::new();
    for pod in firsts.filter(|pod| matches!(pod.gang.key, GangKey::Group(..))) {
        for (at, shape) in [pod.shape.clone(), shape(&[(GPU, 1), ("cpu", 1)])].iter().enumerate() {
            let name = text(format!("{}-more-{at}", pod.name));
            let mut pod = PodFacts { uid: name.clone(), name, shape: shape.clone(), ..pod.clone() };
            (pod.node, pod.phase) = (None, PodPhase::Pending);
            (pod.bound_at, pod.binding) = (None, None);
            more.push(Input::Pod(pod));
        }
    }
    more
}

/// The one takes the last GPU of the first flavor, and the other one of the second.
#[test]
fn members_join_with_what_is_left_beside_each_other() {
    let owner = || {
        let mut queue = owning("owner", 3, 3);
        queue.preemption.reclaim = PreemptReclaim::Any;
        queue
    };
    for lent in [true, false] {
        let nodes = [("second", 3), ("first", 2), ("first", 1)];
        let mut stage = stage(&nodes, [owning("guest", 0, 0), owner()]);
        if lent {
            let guest = job("guest", 1, &shape(&[(GPU, 1)]), &in_queue(Some("guest")));
            stage.add([Input::Owner(guest)]);
        }
        let run = gang("g", 2, None, &shape(&[("cpu", 2), (GPU, 1)]), &in_queue(Some("owner")));
        stage.add(run.into_iter().map(Input::Pod));
        stage.settle(|_| {});
        stage.add(joining(&stage));
        stage.settle(|_| {});
        let g = stage.pods.values().filter(|pod| pod.name.starts_with("g-"));
        let places: Vec<Option<&str>> = g.map(|pod| pod.node.as_deref()).collect();
        assert_eq!(places.iter().flatten().count(), 4, "lent: {lent}: {places:?}");
    }
}

/// Whoever leaves for them leaves once, and nobody besides who grew meanwhile.
#[test]
fn nobody_leaves_besides_for_what_was_promised() {
    let queues = [owning("a", 1, 0), owning("b", 5, 0), owning("c", 0, 1)];
    let mut stage = stage(&[("first", 4), ("second", 4), ("first", 3)], queues);
    let three = with_port(&[(GPU, 3)]);
    let high = gang("w1", 1, None, &three, &in_queue(Some("a")));
    let high = high.into_iter().map(|pod| PodFacts { priority: 1, ..pod });
    let low = gang("w0", 1, None, &three, &in_queue(None));
    let small = gang("w2", 1, Some(1), &shape(&[(GPU, 1)]), &in_queue(None));
    stage.add(high.chain(low).chain(small).map(Input::Pod));
    stage.settle(|_| {});
    stage.add(joining(&stage));
    let outputs = stage.settle(|_| {});
    let effects = outputs.iter().flat_map(|output| &output.effects);
    let gone = effects.filter(|effect| matches!(effect.action, Action::Evict { .. }));
    let gone: BTreeSet<&str> = gone.map(|effect| &*effect.workload).collect();
    assert_eq!(gone, BTreeSet::from(["team/w0"]));
}

/// The owner lacks two: one place is free, and the guest stands on the other one. Who leaves is
/// found before the guest grows into the free one.
#[test]
fn nobody_grows_before_who_leaves_for_others_is_found() {
    let mut owner = owning("owner", 3, 0);
    owner.preemption.reclaim = PreemptReclaim::Any;
    let mut stage = stage(&[("first", 3)], [owning("guest", 0, 0), owner]);
    let run = gang("w0", 1, None, &shape(&[("cpu", 2), (GPU, 1)]), &in_queue(Some("owner")));
    let guest = gang("w1", 1, Some(1), &with_port(&[(GPU, 1)]), &in_queue(Some("guest")));
    stage.add(run.into_iter().chain(guest).map(Input::Pod));
    stage.settle(|_| {});
    stage.add(joining(&stage));
    let outputs = stage.settle(|_| {});
    let effects = outputs.iter().flat_map(|output| &output.effects);
    let binds = |action: &Action| matches!(action, Action::Bind { .. });
    let bound: Vec<&str> = effects.filter(|it| binds(&it.action)).map(|it| &*it.workload).collect();
    assert_eq!(bound, ["team/w0", "team/w0"]);
}
