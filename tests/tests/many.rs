//! Numbers that hardly anybody writes, and that anybody may: each ends in a decision or a reason.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Input, Kin, Neighbours, Operator, PeerSelector, PeerTerm, PodFacts, PodShape, PreemptReclaim,
    Requirement, Text,
};
use capstan_core::plan::{Action, StepOutput};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, TEAM, amounts, cluster_queue, cohort, flavor, gang, group, in_queue, labels,
    local_queue, namespace, node, nominal, pod, shape, text,
};
use capstan_tests::hand::{bound as there, evicted};

const NOW: Time = Time(1_000_000);

/// A gang whose members ask for 1, 2, 3 and so on of a processor's thousandths.
fn of_many_shapes(count: usize, min_member: Option<u32>, queue: Option<&str>) -> Vec<PodFacts> {
    let wishes = in_queue(queue);
    let mut pods = gang("g", count as u32, min_member, &shape(&[("cpu", 1)]), &wishes);
    for (at, pod) in pods.iter_mut().enumerate() {
        pod.shape = shape(&[("cpu", at as i64 + 1)]);
    }
    pods
}

/// What five nodes have that have 2864, 1726, 2775, 2074 and 1489.
const SIZES: [i64; 20] = [
    588, 616, 623, 141, 323, 365, 876, 597, 388, 514, 242, 410, 466, 494, 697, 949, 243, 530, 964,
    902,
];

fn bound(output: &StepOutput) -> usize {
    output.effects.iter().filter(|effect| matches!(effect.action, Action::Bind { .. })).count()
}

#[test]
fn a_gang_of_more_shapes_than_indexes_are_kept_starts_whole() {
    let mut engine = Engine::new();
    let mut facts = vec![Input::Node(node("n", &[("cpu", 100_000), ("pods", 1000)]).into())];
    facts.extend(of_many_shapes(300, None, None).into_iter().map(Input::Pod));
    assert_eq!(bound(&engine.step(NOW, facts)), 300);
}

/// More ways lead nowhere than a search can try that puts down one after the other; whether members
/// depend on each other's places or not.
#[test]
fn twenty_members_of_as_many_sizes_fill_their_nodes() {
    let all = Requirement { key: text("app"), operator: Operator::In, values: vec![text("g")] };
    let peers = PeerSelector {
        namespaces: vec![text(TEAM)],
        namespace_selector: None,
        labels: Some(vec![all]),
    };
    let near = PeerTerm { key: text("zone"), peers };
    let wants = Neighbours { affinity: vec![near], ..Neighbours::default() };
    let kin = Kin { namespace: text(TEAM), labels: labels(&[("app", "g")]) };
    for wants in [None, Some(Arc::new(wants))] {
        let mut facts = vec![namespace()];
        for (at, cpu) in [2864, 1726, 2775, 2074, 1489].into_iter().enumerate() {
            let mut facts_of = node(&format!("n{at}"), &[("cpu", cpu), ("pods", 100)]);
            facts_of.labels.insert(text("zone"), text("z"));
            facts.push(Input::Node(facts_of.into()));
        }
        let mut pods = of_many_shapes(SIZES.len(), None, None);
        for (pod, size) in pods.iter_mut().zip(SIZES) {
            let (kin, neighbours) = (Some(Arc::new(kin.clone())), wants.clone());
            let requests = amounts(&[("cpu", size)]);
            pod.shape = Arc::new(PodShape { requests, kin, neighbours, ..PodShape::default() });
        }
        facts.extend(pods.into_iter().map(Input::Pod));
        let mut engine = Engine::new();
        assert_eq!(bound(&engine.step(NOW, facts)), SIZES.len());
        engine.recount();
    }
}

#[test]
fn a_minimum_of_many_shapes_that_waits_says_why() {
    let mut engine = Engine::new();
    let queue = cluster_queue("main", None, group(&[(DEFAULT, &[("cpu", nominal(0))])]));
    let mut facts = vec![
        Input::Node(node("n", &[("cpu", 100_000), ("pods", 1000)]).into()),
        Input::Flavor(flavor(DEFAULT, &[])),
        namespace(),
        Input::ClusterQueue(queue),
        Input::LocalQueue(local_queue("main")),
    ];
    let pods = of_many_shapes(400, Some(300), Some("main"));
    facts.extend(pods.into_iter().map(Input::Pod));
    assert_eq!(bound(&engine.step(NOW, facts)), 0);
    let views = engine.workloads();
    let said = views[0].reason.as_ref().expect("it waits").to_string();
    assert!(said.contains("can never have more than 0 cpu"), "{said}");
}

/// Cohorts as deep as nobody builds them: whoever takes back what it lent looks through all.
#[test]
fn cohorts_of_any_depth_are_looked_through() {
    const DEEP: usize = 10_000;
    let quota = |name: &str, cohort: &str, cpu: i64| {
        let own = group(&[(DEFAULT, &[("cpu", nominal(cpu))])]);
        let mut queue = cluster_queue(name, Some(cohort), own);
        queue.preemption.reclaim = PreemptReclaim::Any;
        queue
    };
    let (guest, owner) = (quota("guest", "c0", 1), quota("owner", &format!("c{DEEP}"), 5));
    let mut facts = vec![
        Input::Node(node("n", &[("cpu", 6), ("pods", 10)]).into()),
        Input::Flavor(flavor(DEFAULT, &[])),
        namespace(),
    ];
    facts.extend(
        (0..DEEP).map(|at| Input::Cohort(cohort(&format!("c{at}"), Some(&format!("c{}", at + 1))))),
    );
    for queue in [guest, owner] {
        facts.push(Input::LocalQueue(local_queue(&queue.name)));
        facts.push(Input::ClusterQueue(queue));
    }
    let lent = pod("lent", &shape(&[("cpu", 4)]), &in_queue(Some("guest")));
    facts.push(there(&lent, "n"));
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let back = pod("back", &shape(&[("cpu", 5)]), &in_queue(Some("owner")));
    let output = engine.step(NOW, vec![Input::Pod(back)]);
    assert_eq!(evicted(&output), ["lent"]);
}

#[test]
fn more_topology_levels_than_can_be_told_apart_are_no_end() {
    let mut engine = Engine::new();
    let level = |at: usize| -> Vec<Text> { vec![text(format!("level-{at}"))] };
    let mut facts: Vec<Input> =
        (0..300).map(|at| Input::Topology { name: text(at), levels: level(at) }).collect();
    facts.push(Input::Node(node("n", &[("cpu", 8), ("pods", 10)]).into()));
    facts.extend(of_many_shapes(2, None, None).into_iter().map(Input::Pod));
    assert_eq!(bound(&engine.step(NOW, facts)), 2);
}
