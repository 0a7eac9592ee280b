//! Pods of a resumed owner that come for the places kept for them, and find that their nodes refuse
//! them: a webhook made them others than their template says, or something became of the nodes.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Input, Kin, Neighbours, NodeFacts, Operator, OwnerFacts, PeerSelector, PeerTerm, PodFacts,
    PodShape, Rank, Requirement,
};
use capstan_core::plan::{Action, EffectResult, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{GPU, TEAM, in_queue, job, labels, node, pod, pods_of, shape, text};
use capstan_tests::hand::{answer, binds, bound, one_queue, view};

const NOW: Time = Time(1_000_000);

/// A node with so many GPUs, which its labels name.
fn named(name: &str, gpus: i64, pool: &str) -> NodeFacts {
    let facts = node(name, &[("cpu", 64_000), (GPU, gpus)]);
    NodeFacts { labels: labels(&[("host", name), ("pool", pool)]), ..facts }
}

/// A Job of two pods with one GPU each that keeps both GPUs of node `a`, and the Job as it is then.
fn resumed(engine: &mut Engine) -> OwnerFacts {
    let owner = job("train", 2, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut facts = one_queue(2);
    facts.extend([Input::Node(named("a", 2, "old").into()), Input::Owner(owner.clone())]);
    let first = engine.step(NOW, facts);
    let resumes = first.effects.iter().find(|e| matches!(e.action, Action::ResumeOwner { .. }));
    engine.step(NOW, vec![answer(resumes.expect("it fits"), EffectResult::Done)]);
    OwnerFacts { suspended: false, ..owner }
}

/// The Job is seen resumed, another node is there, and these of its pods come.
fn come(engine: &mut Engine, owner: &OwnerFacts, pods: &[PodFacts]) -> StepOutput {
    let facts = [Input::Owner(owner.clone()), Input::Node(named("b", 2, "new").into())];
    let facts = facts.into_iter().chain(pods.iter().cloned().map(Input::Pod));
    let output = engine.step(NOW, facts.collect());
    engine.recount();
    output
}

fn changed(owner: &OwnerFacts, change: impl Fn(&mut PodShape)) -> Vec<PodFacts> {
    let mut pods = pods_of(owner);
    for pod in &mut pods {
        change(Arc::make_mut(&mut pod.shape));
    }
    pods
}

fn on(output: &StepOutput) -> Vec<String> {
    binds(output).into_iter().map(|(_, node)| node).collect()
}

/// A pod of the application that terms name.
fn kin() -> Arc<Kin> {
    Arc::new(Kin { namespace: text(TEAM), labels: labels(&[("app", "x")]) })
}

/// Pods of that application on one node.
fn term() -> PeerTerm {
    let means = Requirement { key: text("app"), operator: Operator::In, values: vec![text("x")] };
    let peers = PeerSelector {
        namespaces: vec![text(TEAM)],
        namespace_selector: None,
        labels: Some(vec![means]),
    };
    PeerTerm { key: text("host"), peers }
}

#[test]
fn pods_that_were_made_to_want_other_nodes_go_there() {
    let mut engine = Engine::new();
    let owner = resumed(&mut engine);
    let pods = changed(&owner, |shape| shape.node_selector = labels(&[("pool", "new")]));
    assert_eq!(on(&come(&mut engine, &owner, &pods)), ["b", "b"]);
    assert_eq!(view(&engine, "train").state, State::Binding);
    assert_eq!(engine.queues()[0].quotas[0].used, 2);
}

/// The quota of the place that it gives up is its own: nobody else starts with it.
#[test]
fn a_pod_that_gives_its_place_up_joins_the_one_that_keeps_its_own() {
    let mut engine = Engine::new();
    let owner = resumed(&mut engine);
    let mut pods = pods_of(&owner);
    let wants = PodShape { node_selector: labels(&[("pool", "new")]), ..(*pods[1].shape).clone() };
    pods[1].shape = Arc::new(wants);
    let first = come(&mut engine, &owner, &pods[..1]);
    assert_eq!(on(&first), ["a"]);
    let second = come(&mut engine, &owner, &pods[1..]);
    assert_eq!(on(&second), ["b"]);
    assert_eq!(engine.queues()[0].quotas[0].used, 2);
}

#[test]
fn pods_that_were_made_to_keep_away_from_each_other_do() {
    let mut engine = Engine::new();
    let owner = resumed(&mut engine);
    let away = Arc::new(Neighbours { anti_affinity: vec![term()], ..Neighbours::default() });
    let pods = changed(&owner, |shape| {
        shape.kin = Some(kin());
        shape.neighbours = Some(away.clone());
    });
    let mut nodes = on(&come(&mut engine, &owner, &pods));
    nodes.sort();
    assert_eq!(nodes, ["a", "b"]);
}

/// Whom they want near is on the other node; on theirs are only they.
#[test]
fn pods_that_were_made_to_be_near_others_are_not_enough_for_each_other() {
    let mut engine = Engine::new();
    let owner = resumed(&mut engine);
    let served = PodShape { kin: Some(kin()), ..PodShape::default() };
    let server = pod("server", &Arc::new(served), &in_queue(None));
    let nodes = Input::Node(named("b", 2, "new").into());
    engine.step(NOW, vec![nodes, bound(&server, "b")]);
    let near = Arc::new(Neighbours { affinity: vec![term()], ..Neighbours::default() });
    let pods = changed(&owner, |shape| {
        shape.kin = Some(kin());
        shape.neighbours = Some(near.clone());
    });
    assert_eq!(on(&come(&mut engine, &owner, &pods)), ["b", "b"]);
}

/// Nothing of the pods changed; their node is no more for anybody who comes.
#[test]
fn nobody_is_bound_to_a_node_that_was_cordoned_after_it_was_chosen() {
    let mut engine = Engine::new();
    let owner = resumed(&mut engine);
    engine.step(
        NOW,
        vec![Input::Node(NodeFacts { unschedulable: true, ..named("a", 2, "") }.into())],
    );
    assert_eq!(on(&come(&mut engine, &owner, &pods_of(&owner))), ["b", "b"]);
}

/// Two roles ask the same amounts on different nodes, and a webhook changed the pods of both: each
/// takes the place of its own role, whatever number it has, and whoever comes first.
#[test]
fn changed_pods_take_the_places_that_were_kept_for_those_most_like_them() {
    let mut engine = Engine::new();
    let role = |pool: &str| {
        let node_selector = labels(&[("pool", pool)]);
        Arc::new(PodShape { node_selector, ..(*shape(&[(GPU, 1)])).clone() })
    };
    let mut owner = job("train", 1, &role("old"), &in_queue(Some("main")));
    let mut second = owner.pod_sets[0].clone();
    (second.name, second.shape) = (text("second"), role("new"));
    owner.pod_sets.push(second);
    owner.min_member = 2;
    let nodes = [named("a", 2, "old"), named("b", 2, "new")];
    let nodes = nodes.into_iter().map(|node| Input::Node(node.into()));
    let facts = one_queue(2).into_iter().chain(nodes).chain([Input::Owner(owner.clone())]);
    let first = engine.step(NOW, facts.collect());
    let resumes = first.effects.iter().find(|e| matches!(e.action, Action::ResumeOwner { .. }));
    engine.step(NOW, vec![answer(resumes.expect("it fits"), EffectResult::Done)]);
    let owner = OwnerFacts { suspended: false, ..owner };
    let mut pods = changed(&owner, |shape| shape.features = vec![text("f")]);
    pods.iter_mut().for_each(|pod| pod.rank = Rank::Number(0));
    // Neither node declares what they need now: both give their places up.
    let refused = come(&mut engine, &owner, &pods);
    assert_eq!((on(&refused).len(), view(&engine, "train").state), (0, State::Queued));
    let mut engine = Engine::new();
    let nodes = [named("a", 2, "old"), named("b", 2, "new")];
    let nodes = nodes.into_iter().map(|node| Input::Node(node.into()));
    let waits = OwnerFacts { suspended: true, ..owner.clone() };
    let facts = one_queue(2).into_iter().chain(nodes).chain([Input::Owner(waits)]);
    let first = engine.step(NOW, facts.collect());
    let resumes = first.effects.iter().find(|e| matches!(e.action, Action::ResumeOwner { .. }));
    engine.step(NOW, vec![answer(resumes.expect("it fits"), EffectResult::Done)]);
    let mut pods = changed(&owner, |shape| shape.images = vec![text("i")]);
    pods.iter_mut().for_each(|pod| pod.rank = Rank::Number(0));
    let last = come(&mut engine, &owner, &pods[1..]);
    assert_eq!(on(&last), ["b"]);
    assert_eq!(on(&come(&mut engine, &owner, &pods[..1])), ["a"]);
}

/// Where nothing else fits a pod that lost its place waits, and is placed once something does.
#[test]
fn a_pod_without_another_place_waits_for_one() {
    let mut engine = Engine::new();
    let owner = resumed(&mut engine);
    let pods = changed(&owner, |shape| shape.node_selector = labels(&[("pool", "newer")]));
    assert_eq!(on(&come(&mut engine, &owner, &pods)), [""; 0]);
    assert_eq!(view(&engine, "train").state, State::Queued);
    let later = NOW.plus(Span::seconds(5));
    let found = engine.step(later, vec![Input::Node(named("c", 2, "newer").into())]);
    assert_eq!(on(&found), ["c", "c"]);
    engine.recount();
}
