//! Each kind of effect, and how it answers when its precondition no longer holds.

use std::collections::BTreeSet;

use capstan_core::model::input::{
    BindingNote, Input, PodPhase, TaintEffect, Toleration, TolerationOperator,
};
use capstan_core::plan::{Action, EffectResult, Precondition, State, WorkloadStatus};
use capstan_core::time::Time;

use super::*;

#[test]
fn a_bound_pod_runs_on_its_node_from_now_on() {
    let mut world = still(vec![Input::Pod(pod("a", None))]);
    assert_eq!(act(&mut world, at(5), bind(1, "a", "n1")), EffectResult::Done);
    let bound = found(&world, "a");
    assert_eq!(bound.node.as_deref(), Some("n1"));
    assert_eq!((bound.phase, bound.bound_at), (PodPhase::Running, Some(at(5))));
    assert_eq!(bound.binding, Some(BindingNote::default().into()));
    let expected = Input::Pod(bound.clone());
    assert!(world.stirred() && world.take_changes().contains(&expected));
    assert!(!world.stirred() && !world.changed());
}

#[test]
fn binding_again_is_done_and_elsewhere_a_conflict() {
    let mut world = still(vec![Input::Pod(pod("a", None))]);
    act(&mut world, at(0), bind(1, "a", "n1"));
    assert_eq!(act(&mut world, at(9), bind(2, "a", "n1")), EffectResult::Done);
    let answer = act(&mut world, at(9), bind(3, "a", "n2"));
    assert_eq!(answer, EffectResult::Conflict("already bound to n1".into()));
    assert_eq!(found(&world, "a").bound_at, Some(at(0)));
}

#[test]
fn what_is_gone_answers_gone() {
    let ghost = job("ghost", 1);
    let mut world = still(vec![]);
    for effect in [bind(1, "x", "n1"), evict(2, "x"), suspend(3, &ghost), resume(4, &ghost)] {
        assert_eq!(act(&mut world, at(0), effect), EffectResult::Gone);
    }
}

#[test]
fn another_uid_is_a_conflict_and_changes_nothing() {
    let mut world = still(vec![Input::Pod(pod("a", None))]);
    let mut effect = bind(1, "a", "n1");
    effect.precondition = Precondition::Uid("earlier".into());
    let answer = act(&mut world, at(0), effect);
    assert!(matches!(answer, EffectResult::Conflict(_)), "{answer:?}");
    assert_eq!(found(&world, "a").node, None);
}

#[test]
fn pods_that_end_or_are_gated_are_not_bound() {
    let done = PodFacts { phase: PodPhase::Failed, ..pod("done", None) };
    let gated = PodFacts { gated: true, ..pod("gated", None) };
    let mut world = still(vec![Input::Pod(done), Input::Pod(gated)]);
    let answer = act(&mut world, at(0), bind(1, "done", "n1"));
    assert!(matches!(answer, EffectResult::Conflict(_)), "{answer:?}");
    let answer = act(&mut world, at(0), bind(2, "gated", "n1"));
    assert!(matches!(answer, EffectResult::Refused(_)), "{answer:?}");
}

#[test]
fn an_evicted_bare_pod_is_marked_leaves_and_does_not_come_back() {
    let mut world = still(vec![Input::Pod(pod("a", None))]);
    act(&mut world, at(0), bind(1, "a", "n1"));
    assert_eq!(act(&mut world, at(1), evict(2, "a")), EffectResult::Done);
    let changes = world.take_changes();
    let marked = changes.iter().position(|input| match input {
        Input::Pod(pod) => pod.eviction.as_ref().is_some_and(|note| &*note.preemptor == "ns/high"),
        _ => false,
    });
    let gone = changes.iter().position(|input| *input == Input::PodGone("a".into()));
    assert!(marked.is_some() && marked < gone, "{changes:?}");
    world.settle(at(1));
    assert!(uids(&world).is_empty());
    assert!(!world.changed());
}

#[test]
fn an_evicted_pod_of_a_running_job_is_replaced_by_a_new_one() {
    let job = job("train", 2);
    let mut world = still(vec![Input::Owner(job)]);
    let victim = "pod/ns/train-0";
    act(&mut world, at(0), bind(1, victim, "n1"));
    act(&mut world, at(7), evict(2, victim));
    assert_eq!(uids(&world), ["pod/ns/train-1", "pod/ns/train-2"]);
    assert_eq!(found(&world, "pod/ns/train-2").created, at(7));
}

#[test]
fn tolerations_are_added_once_and_members_keep_sharing_a_shape() {
    let toleration = Toleration {
        key: "spot".into(),
        operator: TolerationOperator::Exists,
        value: "".into(),
        effect: Some(TaintEffect::NoExecute),
    };
    let job = job("train", 2);
    let mut world = still(vec![Input::Owner(job)]);
    let (first, second) = ("pod/ns/train-0", "pod/ns/train-1");
    for (id, uid) in [(1, first), (2, second), (3, second)] {
        let tolerations = vec![toleration.clone()];
        let action = Action::AddTolerations { pod: pod_ref(uid), tolerations };
        assert_eq!(act(&mut world, at(0), effect(id, "w", uid, action)), EffectResult::Done);
    }
    assert_eq!(found(&world, second).shape.tolerations, [toleration]);
    assert_eq!(found(&world, first).shape, found(&world, second).shape);
}

#[test]
fn volumes_and_claims_are_settled_at_once() {
    let mut world = still(vec![Input::Pod(pod("a", None))]);
    let (pod, node) = (pod_ref("a"), Text::from("n1"));
    let actions = [
        Action::SelectVolumes { pod: pod.clone(), settings: Vec::new() },
        Action::AllocateClaims { pod: pod.clone(), node, claims: Vec::new() },
        Action::ReleaseClaims { pod, claims: Vec::new() },
    ];
    for (id, action) in (1..).zip(actions) {
        assert_eq!(act(&mut world, at(0), effect(id, "w", "a", action)), EffectResult::Done);
    }
    assert_eq!(world.carried().preparations, 3);
}

#[test]
fn reports_are_counted_kept_and_answered_but_stir_nothing() {
    let mut world = still(vec![]);
    world.take_changes();
    for (id, state) in [(1, State::Queued), (2, State::Running)] {
        let status =
            WorkloadStatus { namespace: "ns".into(), name: "a".into(), state, reason: None };
        let effect = effect(id, "ns/a", "", Action::Status(Box::new(status)));
        world.carry_out(at(0), Effect { precondition: Precondition::None, ..effect });
    }
    let event = Action::Event { about: "ns/a".into(), reason: "R".into(), message: "m".into() };
    let event = effect(3, "ns/a", "", event);
    world.carry_out(at(0), Effect { precondition: Precondition::None, ..event });
    assert_eq!(world.status("ns/a").map(|status| status.state), Some(State::Running));
    assert_eq!((world.carried().statuses, world.carried().events), (2, 1));
    let told = BTreeMap::from([(("R".into(), "m".into()), BTreeSet::from(["ns/a".into()]))]);
    assert_eq!(world.events().0, told);
    assert!(!world.stirred());
    assert_eq!(world.take_changes().len(), 3);
}

#[test]
fn facts_are_what_a_new_engine_would_be_fed() {
    let node = Input::NamespaceGone("nothing".into());
    let namespace = Input::Namespace { name: "ns".into(), labels: Default::default() };
    let mut world = still(vec![node, namespace.clone(), Input::Pod(pod("a", None))]);
    act(&mut world, at(3), bind(1, "a", "n1"));
    let facts = world.facts();
    assert!(matches!(&facts[0], Input::Policy(policy) if policy.rounds_max == 1));
    assert_eq!(facts[1..], [namespace, Input::Pod(found(&world, "a").clone())]);
    let again = World::still(facts.clone(), Policy::default());
    assert_eq!(again.facts(), facts);
}

#[test]
fn facts_change_from_outside_too() {
    let mut world = still(vec![Input::Namespace { name: "a".into(), labels: Default::default() }]);
    world.take_changes();
    world.change(Input::NamespaceGone("a".into()));
    world.change(Input::Policy(Arc::new(Policy::default())));
    world.change(Input::Outcome { effect: EffectId(1), result: EffectResult::Done });
    let changes = world.take_changes();
    assert_eq!(changes[0], Input::NamespaceGone("a".into()));
    assert!(matches!(&changes[1], Input::Policy(policy) if policy.rounds_max == 1));
    assert_eq!((changes.len(), world.facts().len()), (2, 1));
}

#[test]
fn a_terminating_pod_is_seen_leaving_by_one_step() {
    let leaving = PodFacts { terminating: true, node: Some("n1".into()), ..pod("a", None) };
    let mut world = still(vec![Input::Pod(leaving.clone())]);
    assert!(world.take_changes().contains(&Input::Pod(leaving)));
    world.settle(Time(0));
    assert_eq!(world.take_changes(), [Input::PodGone("a".into())]);
}
