//! Tests of the world against scripted engines: facts and effects built in a line each, and one
//! small engine that only counts slots.

mod claims;
mod effects;
mod owners;
mod played;
mod queues;
mod slots;
mod still;

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{
    GangKey, GangRef, GangSource, Input, OwnerFacts, OwnerPodSet, PodFacts, PodPhase, PodShape,
    Rank, Text, Wishes,
};
use capstan_core::plan::{
    Action, Effect, EffectId, EffectResult, OwnerRef, PodRef, Precondition, Preemption,
    PreemptionReason, StepOutput,
};
use capstan_core::policy::Policy;
use capstan_core::time::{Span, Time};

use super::World;

/// Ten o'clock; times of tests are seconds after it.
const TEN: i64 = 1_767_261_600_000;

fn at(seconds: i64) -> Time {
    Time(TEN + seconds * 1_000)
}

/// A lone pod of ours that exists from the start, and may run for some seconds.
fn pod(name: &str, runtime: Option<i64>) -> PodFacts {
    PodFacts {
        uid: name.into(),
        namespace: "ns".into(),
        name: name.into(),
        shape: Arc::new(PodShape::default()),
        holds: None,
        ours: true,
        node: None,
        phase: PodPhase::Pending,
        nominated: false,
        goes_to: None,
        terminating: false,
        gated: false,
        rank: Rank::None,
        created: Time(0),
        bound_at: None,
        ended_at: None,
        priority: 0,
        never_preempts: false,
        stays: None,
        gang: GangRef {
            key: GangKey::Pod(name.into()),
            name: name.into(),
            source: GangSource::Pod,
            min_member: None,
            total: None,
            roles: None,
            by_itself: false,
            singly: false,
            unknown_owner: None,
            held: None,
            to_come: None,
        },
        of_job: None,
        wishes: wishes(runtime),
        binding: None,
        eviction: None,
        claims: None,
    }
}

fn wishes(runtime: Option<i64>) -> Arc<Wishes> {
    Arc::new(Wishes { expected_runtime: runtime.map(Span::seconds), ..Wishes::default() })
}

/// A member of a labelled gang that needs two.
fn member(name: &str, gang: &str) -> PodFacts {
    let gang = GangRef {
        key: GangKey::Group(GangSource::CapstanGang, gang.into()),
        name: gang.into(),
        source: GangSource::CapstanGang,
        min_member: Some(2),
        total: None,
        roles: None,
        by_itself: false,
        singly: false,
        unknown_owner: None,
        held: None,
        to_come: None,
    };
    PodFacts { gang, ..pod(name, Some(60)) }
}

/// A Job of so many pods that exists from the start.
fn job(name: &str, pods: u32) -> OwnerFacts {
    let shape = Arc::new(PodShape::default());
    let (main, count) = ("main".into(), pods);
    let set = OwnerPodSet { name: main, count, before: 0, shape, roles: None, late: None };
    OwnerFacts {
        uid: format!("job-{name}").into(),
        kind: "Job".into(),
        source: GangSource::Job,
        namespace: "ns".into(),
        name: name.into(),
        created: Time(0),
        ours: true,
        suspended: false,
        incarnation: 0,
        finished: None,
        priority: 0,
        never_preempts: false,
        wishes: wishes(None),
        pod_sets: vec![set],
        min_member: pods,
        min_stated: false,
        ended: 0,
        left: Some(pods),
        replaces: 0,
        member_of: None,
        admitted: None,
        eviction: None,
        requeued: None,
        held: None,
    }
}

/// A pod as its Job made it, before the world did.
fn pod_of(owner: &OwnerFacts, name: &str) -> PodFacts {
    let gang = GangRef {
        key: GangKey::Owner(owner.uid.clone(), owner.incarnation),
        name: owner.name.clone(),
        source: GangSource::Job,
        min_member: Some(owner.min_member),
        total: None,
        roles: None,
        by_itself: false,
        singly: false,
        unknown_owner: None,
        held: None,
        to_come: None,
    };
    let shape = owner.pod_sets[0].shape.clone();
    PodFacts { gang, shape, wishes: owner.wishes.clone(), ..pod(name, None) }
}

fn still(inputs: Vec<Input>) -> World {
    World::still(inputs, Policy::default())
}

fn pod_ref(uid: &str) -> PodRef {
    PodRef { namespace: "ns".into(), name: uid.into(), uid: uid.into() }
}

fn owner_ref(owner: &OwnerFacts) -> OwnerRef {
    OwnerRef {
        kind: owner.kind.clone(),
        namespace: owner.namespace.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    }
}

fn effect(id: u64, workload: &str, uid: &str, action: Action) -> Effect {
    Effect {
        id: EffectId(id),
        workload: workload.into(),
        decided: Time(0),
        patience: Span(i64::MAX),
        precondition: Precondition::Uid(uid.into()),
        completes: false,
        action,
    }
}

fn bind(id: u64, uid: &str, node: &str) -> Effect {
    let action = Action::Bind {
        pod: pod_ref(uid),
        node: node.into(),
        note: capstan_core::model::input::BindingNote::default(),
    };
    effect(id, &format!("ns/{uid}"), uid, action)
}

fn evict(id: u64, uid: &str) -> Effect {
    let action =
        Action::Evict { pod: pod_ref(uid), preemption: preemption(uid, "high"), alone: false };
    effect(id, &format!("ns/{uid}"), uid, action)
}

fn suspend(id: u64, owner: &OwnerFacts) -> Effect {
    let preemption = preemption(&owner.name, "high");
    let action =
        Action::SuspendOwner { owner: owner_ref(owner), preemption, requeue: Box::default() };
    effect(id, &format!("ns/{}", owner.name), &owner.uid, action)
}

fn resume(id: u64, owner: &OwnerFacts) -> Effect {
    let note = capstan_core::model::input::BindingNote {
        workload: Some(owner.name.clone()),
        ..Default::default()
    };
    let action = Action::ResumeOwner { owner: owner_ref(owner), note };
    effect(id, &format!("ns/{}", owner.name), &owner.uid, action)
}

fn preemption(victim: &str, preemptor: &str) -> Preemption {
    Preemption {
        victim: format!("ns/{victim}").into(),
        preemptor: format!("ns/{preemptor}").into(),
        reason: PreemptionReason::InClusterQueue,
        victim_priority: 0,
        preemptor_priority: 1,
        frees: Vec::new(),
        lost: Span(0),
        lost_cost: None,
        cohort: None,
        overspent: None,
        bars: None,
    }
}

/// Carries one effect out, as a round does, and gives its answer.
fn act(world: &mut World, now: Time, effect: Effect) -> EffectResult {
    world.take_changes();
    let id = effect.id;
    world.carry_out(now, effect);
    world.settle(now);
    let mut answers = world.changes.iter().filter_map(|input| match input {
        Input::Outcome { effect, result } if *effect == id => Some(result.clone()),
        _ => None,
    });
    let answer = answers.next().expect("every effect is answered");
    assert_eq!(answers.next(), None, "answered twice");
    answer
}

fn found<'a>(world: &'a World, uid: &str) -> &'a PodFacts {
    world.pods.get(uid).unwrap_or_else(|| panic!("no pod {uid}"))
}

fn owner<'a>(world: &'a World, owner: &OwnerFacts) -> &'a OwnerFacts {
    &world.owners[&owner.uid]
}

fn uids(world: &World) -> Vec<&str> {
    world.pods().map(|pod| &*pod.uid).collect()
}

/// A step that decided nothing and is quiet.
fn quiet() -> StepOutput {
    let mut output = StepOutput::default();
    output.report.rounds = 1;
    output.report.quiet = true;
    output
}

/// Pods and owners as an engine knows them after these inputs.
#[derive(Default)]
struct Known {
    pods: BTreeMap<Text, PodFacts>,
    owners: BTreeMap<Text, OwnerFacts>,
}

impl Known {
    fn learn(&mut self, inputs: Vec<Input>) {
        for input in inputs {
            match input {
                Input::Pod(pod) => drop(self.pods.insert(pod.uid.clone(), pod)),
                Input::PodGone(uid) => drop(self.pods.remove(&uid)),
                Input::Owner(owner) => drop(self.owners.insert(owner.uid.clone(), owner)),
                Input::OwnerGone(uid) => drop(self.owners.remove(&uid)),
                _ => {}
            }
        }
    }
}
