//! What the engine does between a decision and its confirmation: answers to effects, pauses,
//! resumed owners, broken gangs. Each test feeds facts and outcomes by hand.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    BindingNote, CapacityType, EvictionNote, Input, PodPhase, PodShape, PreemptReclaim, Price,
    PriceSource, Taint, TaintEffect, Toleration, TolerationOperator, Wishes,
};
use capstan_core::money::MicroUsd;
use capstan_core::plan::{Action, Effect, EffectResult, PreemptionReason, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, gang, group, in_queue, job, local_queue, namespace, node,
    nominal, pod, pods_of, shape, text,
};
use capstan_tests::hand::{answer, binds, bound, gpu_node, is_bind, one_queue, view};

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

#[test]
fn a_refused_bind_gives_the_room_back_and_waits_longer_each_time() {
    let mut engine = Engine::new();
    let lone = pod("lone", &shape(&[(GPU, 8)]), &in_queue(None));
    let first = engine.step(NOW, vec![gpu_node("n", 8), Input::Pod(lone)]);
    let bind = first.effects.iter().find(is_bind).expect("it fits").clone();
    let refused = EffectResult::Conflict("the node is full".into());
    let second = engine.step(NOW, vec![answer(&bind, refused.clone())]);
    assert!(binds(&second).is_empty(), "not at once");
    assert_eq!(second.next_wake, Some(after(1)));
    assert!(matches!(view(&engine, "lone").reason, Some(Reason::Backoff { .. })));
    assert_eq!(engine.nodes()[0].used.get(GPU), None, "the room is free again");
    let mut now = after(1);
    for pause in [2, 4, 8, 10, 10] {
        let again = engine.step(now, vec![]);
        let bind = again.effects.iter().find(is_bind).expect("tried again").clone();
        let waits = engine.step(now, vec![answer(&bind, refused.clone())]);
        now = now.plus(Span::seconds(pause));
        assert_eq!(waits.next_wake, Some(now), "twice as long, ten seconds at most");
    }
}

#[test]
fn a_bind_without_answer_frees_nothing() {
    let mut engine = Engine::new();
    let lone = pod("lone", &shape(&[(GPU, 8)]), &in_queue(None));
    let other = pod("other", &shape(&[(GPU, 8)]), &in_queue(None));
    let first = engine.step(NOW, vec![gpu_node("n", 8), Input::Pod(lone.clone())]);
    let bind = first.effects.iter().find(is_bind).expect("it fits");
    let timed_out = answer(bind, EffectResult::TimedOut);
    let second = engine.step(NOW, vec![timed_out, Input::Pod(other)]);
    assert!(binds(&second).is_empty(), "the node may be taken");
    let third = engine.step(NOW, vec![bound(&lone, "n")]);
    assert!(binds(&third).is_empty());
    assert_eq!(view(&engine, "lone").state, State::Running);
}
#[test]
fn a_suspended_job_is_resumed_and_its_pods_take_the_places_kept() {
    let mut engine = Engine::new();
    let mut owner = job("train", 2, &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Owner(owner.clone())]);
    let first = engine.step(NOW, facts);
    let resume = first.effects.iter().find(|e| matches!(e.action, Action::ResumeOwner { .. }));
    let done = answer(resume.expect("it fits"), EffectResult::Done);
    assert_eq!(view(&engine, "train").state, State::Resuming);
    assert_eq!(first.next_wake, Some(after(60)));
    // The room is kept: nobody else gets it.
    let lone = pod("lone", &shape(&[(GPU, 4)]), &in_queue(None));
    let second = engine.step(NOW, vec![done, Input::Pod(lone)]);
    assert!(binds(&second).is_empty());
    owner.suspended = false;
    let pods = pods_of(&owner).into_iter().map(Input::Pod);
    let third =
        engine.step(NOW, std::iter::once(Input::Owner(owner.clone())).chain(pods).collect());
    assert_eq!(binds(&third).len(), 2);
    assert_eq!(view(&engine, "train").state, State::Binding);
    engine.recount();
}

/// A Job of two pods with 4 GPUs each on a node of 8, resumed; its owner as it then is.
fn resumed(engine: &mut Engine) -> capstan_core::model::input::OwnerFacts {
    let mut owner = job("train", 2, &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Owner(owner.clone())]);
    let first = engine.step(NOW, facts);
    let resume = first.effects.iter().find(|e| matches!(e.action, Action::ResumeOwner { .. }));
    engine.step(NOW, vec![answer(resume.expect("it fits"), EffectResult::Done)]);
    owner.suspended = false;
    owner
}

#[test]
fn pods_that_admission_gave_tolerations_take_the_places_kept_too() {
    let mut engine = Engine::new();
    let owner = resumed(&mut engine);
    let mut more = (*shape(&[(GPU, 4)])).clone();
    more.tolerations = vec![Toleration {
        key: text("node.kubernetes.io/not-ready"),
        operator: TolerationOperator::Exists,
        value: text(""),
        effect: Some(TaintEffect::NoExecute),
    }];
    let pods = pods_of(&owner).into_iter().map(|mut pod| {
        pod.shape = Arc::new(more.clone());
        Input::Pod(pod)
    });
    let facts = std::iter::once(Input::Owner(owner.clone())).chain(pods).collect();
    let bound = engine.step(NOW, facts);
    assert_eq!(binds(&bound).len(), 2);
    assert_eq!(view(&engine, "train").state, State::Binding);
    assert_eq!(engine.queues()[0].quotas[0].used, 8);
    engine.recount();
}

#[test]
fn pods_that_admission_made_larger_are_placed_as_what_they_are() {
    for (gpus, fits) in [(3, true), (5, false)] {
        let mut engine = Engine::new();
        let owner = resumed(&mut engine);
        let pods = pods_of(&owner).into_iter().map(|mut pod| {
            pod.shape = shape(&[(GPU, gpus)]);
            Input::Pod(pod)
        });
        let facts = std::iter::once(Input::Owner(owner.clone())).chain(pods).collect();
        let output = engine.step(NOW, facts);
        assert_eq!(binds(&output).len(), if fits { 2 } else { 0 }, "{gpus}");
        let state = if fits { State::Binding } else { State::Queued };
        assert_eq!(view(&engine, "train").state, state, "{gpus}");
        let used = if fits { 2 * gpus } else { 0 };
        assert_eq!(engine.queues()[0].quotas[0].used, used, "{gpus}");
        engine.recount();
    }
}

#[test]
fn a_victim_that_was_marked_and_never_deleted_is_evicted_again_once() {
    let whole = shape(&[(GPU, 8)]);
    let mut low = pod("low", &whole, &in_queue(Some("main")));
    (low.node, low.phase) = (Some(text("n")), PodPhase::Running);
    low.eviction = Some(capstan_core::model::input::EvictionNote {
        preemptor: text("team/high"),
        reason: capstan_core::plan::PreemptionReason::InClusterQueue,
    });
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Pod(low.clone())]);
    let evicts = |output: &StepOutput| -> Vec<Effect> {
        let evicts = |e: &&Effect| matches!(e.action, Action::Evict { .. });
        output.effects.iter().filter(evicts).cloned().collect()
    };
    // A standby only looks; whoever leads deletes it.
    let mut engine = Engine::new();
    engine.observe(NOW, facts.clone());
    let asked = evicts(&engine.step(NOW, vec![]));
    assert_eq!(asked.len(), 1);
    // It is refused, and the pod's mark is still seen: it is not asked for over and over.
    let refused = answer(&asked[0], EffectResult::Refused(text("no")));
    assert_eq!(evicts(&engine.step(NOW, vec![refused, Input::Pod(low.clone())])).len(), 0);
    // What is being deleted needs nothing more.
    let mut engine = Engine::new();
    low.terminating = true;
    facts.pop();
    facts.push(Input::Pod(low));
    assert_eq!(evicts(&engine.step(NOW, facts)).len(), 0);
}

#[test]
fn for_whom_a_victim_leaves_is_settled_before_others_after_a_restart() {
    let whole = shape(&[(GPU, 8)]);
    let mut low = pod("low", &whole, &in_queue(None));
    (low.node, low.phase, low.terminating) = (Some(text("n")), PodPhase::Running, true);
    let note =
        EvictionNote { preemptor: text("team/second"), reason: PreemptionReason::InClusterQueue };
    let waiting = |name: &str, queue: Option<&str>| {
        let mut pod = pod(name, &whole, &in_queue(queue));
        pod.priority = 1;
        Input::Pod(pod)
    };
    let quota = group(&[("default", &[(GPU, nominal(8))])]);
    let mut facts = vec![namespace(), Input::Flavor(flavor("default", &[])), gpu_node("n", 8)];
    for queue in ["a", "b"] {
        facts.push(Input::ClusterQueue(cluster_queue(queue, None, quota.clone())));
        facts.push(Input::LocalQueue(local_queue(queue)));
    }
    facts.push(waiting("first", Some("a")));
    let promised = Some(note);
    for (eviction, queue, gets) in [
        (None, Some("b"), "first"),
        (promised.clone(), Some("b"), "second"),
        (None, None, "first"),
        (promised, None, "second"),
    ] {
        low.eviction = eviction;
        let mut engine = Engine::new();
        let pods = vec![waiting("second", queue), Input::Pod(low.clone())];
        engine.step(NOW, [facts.clone(), pods].concat());
        let gone = engine.step(NOW, vec![Input::PodGone(low.uid.clone())]);
        assert_eq!(binds(&gone), [(gets.to_owned(), "n".to_owned())]);
    }
}

/// Half of a gang that borrowed is gone; what is left of it is within its queue's own quota, and no
/// policy would let anybody stop it now.
#[test]
fn what_is_left_of_a_victim_is_still_its_preemptors_after_a_restart() {
    let queue = |name, gpus| {
        let mut queue =
            cluster_queue(name, Some("all"), group(&[("default", &[(GPU, nominal(gpus))])]));
        queue.preemption.reclaim = PreemptReclaim::Any;
        queue
    };
    let mut facts = vec![namespace(), Input::Flavor(flavor("default", &[])), gpu_node("n", 6)];
    for (name, gpus) in [("owner", 6), ("borrower", 2), ("other", 4)] {
        facts.push(Input::ClusterQueue(queue(name, gpus)));
        facts.push(Input::LocalQueue(local_queue(name)));
    }
    let members = gang("low", 2, None, &shape(&[(GPU, 2)]), &in_queue(Some("borrower")));
    let mut left = members[0].clone();
    (left.node, left.phase, left.terminating) = (Some(text("n")), PodPhase::Running, true);
    facts.push(Input::Pod(pod("high", &shape(&[(GPU, 6)]), &in_queue(Some("owner")))));
    facts.push(Input::Pod(pod("other", &shape(&[(GPU, 4)]), &in_queue(Some("other")))));
    let note = EvictionNote {
        preemptor: text("team/high"),
        reason: PreemptionReason::InCohortReclamation,
    };
    let on_n = |name: &str| vec![(name.to_owned(), "n".to_owned())];
    for (eviction, at_once, then) in
        [(None, on_n("other"), vec![]), (Some(note), vec![], on_n("high"))]
    {
        left.eviction = eviction;
        let mut engine = Engine::new();
        let first = engine.step(NOW, [facts.clone(), vec![Input::Pod(left.clone())]].concat());
        assert_eq!(binds(&first), at_once);
        let evicts = |e: &&Effect| matches!(e.action, Action::Evict { .. });
        assert_eq!(first.effects.iter().filter(evicts).count(), 0, "it is leaving");
        let gone = engine.step(NOW, vec![Input::PodGone(left.uid.clone())]);
        assert_eq!(binds(&gone), then);
        engine.recount();
    }
}

/// What is marked on a Job is of the run that it stopped: whom it names goes first after a restart,
/// and the next run is free to start beside what lingers of that one.
#[test]
fn the_mark_of_a_job_is_of_the_run_before() {
    let note =
        EvictionNote { preemptor: text("team/second"), reason: PreemptionReason::InClusterQueue };
    let mut owner = job("low", 1, &shape(&[(GPU, 8)]), &in_queue(Some("main")));
    let mut left = pods_of(&owner).remove(0);
    (left.node, left.phase, left.terminating) = (Some(text("n")), PodPhase::Running, true);
    owner.incarnation = 1;
    let waiting = |name: &str, priority: i32| {
        let mut pod = pod(name, &shape(&[(GPU, 8)]), &in_queue(Some("main")));
        pod.priority = priority;
        Input::Pod(pod)
    };
    for (eviction, gets) in [(None, "first"), (Some(note.clone()), "second")] {
        owner.eviction = eviction;
        let mut facts = one_queue(8);
        facts.extend([gpu_node("n", 8), waiting("first", 9), waiting("second", 5)]);
        facts.extend([Input::Owner(owner.clone()), Input::Pod(left.clone())]);
        let mut engine = Engine::new();
        engine.step(NOW, facts);
        let gone = engine.step(NOW, vec![Input::PodGone(left.uid.clone())]);
        assert_eq!(binds(&gone), [(gets.to_owned(), "n".to_owned())]);
    }
    // The pods of its next run are seen before it is seen resumed and without its mark.
    let mut facts = one_queue(16);
    facts.extend([gpu_node("n", 8), gpu_node("m", 8)]);
    facts.extend([Input::Owner(owner.clone()), Input::Pod(left)]);
    let mut engine = Engine::new();
    let first = engine.step(NOW, facts);
    let resumes = |e: &&Effect| matches!(e.action, Action::ResumeOwner { .. });
    assert_eq!(first.effects.iter().filter(resumes).count(), 1);
    let next = engine.step(NOW, pods_of(&owner).into_iter().map(Input::Pod).collect());
    assert_eq!(binds(&next).len(), 1);
    engine.recount();
}

/// A Job is stopped between its resumption and its pods: they get nodes only if the API refuses
/// to stop it.
#[test]
fn pods_of_a_job_that_is_being_stopped_get_no_node() {
    for refused in [false, true] {
        let mut engine = Engine::new();
        let owner = resumed(&mut engine);
        let mut high = pod("high", &shape(&[(GPU, 8)]), &in_queue(Some("main")));
        high.priority = 1;
        let stopped = engine.step(NOW, vec![Input::Pod(high)]);
        let suspend = |e: &&Effect| matches!(e.action, Action::SuspendOwner { .. });
        let suspend = stopped.effects.iter().find(suspend).expect("it is stopped").clone();
        let pods = pods_of(&owner).into_iter().map(Input::Pod);
        let facts = std::iter::once(Input::Owner(owner.clone())).chain(pods).collect();
        let arrived = engine.step(NOW, facts);
        assert_eq!(binds(&arrived), [], "they are about to be deleted");
        assert_eq!(view(&engine, "train").state, State::Evicting);
        let result = match refused {
            true => EffectResult::Refused("a webhook says no".into()),
            false => EffectResult::Done,
        };
        let after = engine.step(NOW, vec![answer(&suspend, result)]);
        let bound = |after| binds(after).iter().filter(|(name, _)| name != "high").count();
        assert_eq!(bound(&after), if refused { 2 } else { 0 });
        engine.recount();
    }
}

#[test]
fn a_resumed_job_without_pods_is_suspended_again() {
    let mut engine = Engine::new();
    let owner = job("train", 2, &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Owner(owner)]);
    let first = engine.step(NOW, facts);
    let resume = first.effects.iter().find(|e| matches!(e.action, Action::ResumeOwner { .. }));
    engine.step(NOW, vec![answer(resume.expect("it fits"), EffectResult::Done)]);
    let late = engine.step(after(60), vec![]);
    let suspends = |e: &&Effect| matches!(e.action, Action::SuspendOwner { .. });
    assert_eq!(late.effects.iter().filter(suspends).count(), 1);
    assert_eq!(engine.queues()[0].quotas[0].used, 0);
    assert!(matches!(view(&engine, "train").reason, Some(Reason::Backoff { .. })));
    engine.recount();
}

#[test]
fn a_job_that_was_resumed_but_makes_no_pods_is_suspended_again() {
    let mut engine = Engine::new();
    let mut owner = job("train", 2, &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Owner(owner.clone())]);
    engine.step(NOW, facts);
    owner.suspended = false;
    engine.step(NOW, vec![Input::Owner(owner)]);
    let late = engine.step(after(60), vec![]);
    let suspends = |e: &&Effect| matches!(e.action, Action::SuspendOwner { .. });
    assert_eq!(late.effects.iter().filter(suspends).count(), 1);
    assert_eq!(engine.queues()[0].quotas[0].used, 0);
    engine.recount();
}

#[test]
fn a_gang_found_in_part_is_completed_around_what_runs() {
    let mut engine = Engine::new();
    let members = gang("half", 2, Some(2), &shape(&[(GPU, 8)]), &in_queue(None));
    let facts = vec![
        gpu_node("a", 8),
        gpu_node("b", 8),
        bound(&members[0], "a"),
        Input::Pod(members[1].clone()),
    ];
    let output = engine.step(NOW, facts);
    assert_eq!(binds(&output), [("half-1".to_owned(), "b".to_owned())]);
}

#[test]
fn members_deleted_before_they_ran_do_not_count() {
    let mut engine = Engine::new();
    let mut members = gang("g", 3, Some(3), &shape(&[(GPU, 1)]), &in_queue(None));
    members[2].terminating = true;
    let mut facts = vec![gpu_node("n", 8)];
    facts.extend(members.into_iter().map(Input::Pod));
    let output = engine.step(NOW, facts);
    assert!(binds(&output).is_empty());
    assert_eq!(view(&engine, "g").reason, Some(Reason::Gathering { have: 2, need: 3 }));
}

#[test]
fn members_above_the_minimum_follow_when_there_is_room() {
    let mut engine = Engine::new();
    let members = gang("g", 3, Some(2), &shape(&[(GPU, 4)]), &in_queue(None));
    let mut facts = vec![gpu_node("a", 8)];
    facts.extend(members.into_iter().map(Input::Pod));
    assert_eq!(binds(&engine.step(NOW, facts)).len(), 2, "the minimum");
    let grown = engine.step(NOW, vec![gpu_node("b", 4)]);
    assert_eq!(binds(&grown), [("g-2".to_owned(), "b".to_owned())]);
}

#[test]
fn a_toleration_that_only_the_flavor_has_is_patched_before_any_bind() {
    let mut engine = Engine::new();
    let toleration = Toleration {
        key: text("spot"),
        operator: TolerationOperator::Exists,
        value: text(""),
        effect: None,
    };
    let mut spot = flavor(DEFAULT, &[]);
    spot.tolerations = vec![toleration.clone()];
    let mut tainted = node("n", &[("cpu", 64_000), (GPU, 8)]);
    tainted.taints =
        vec![Taint { key: text("spot"), value: text(""), effect: TaintEffect::NoExecute }];
    let mut facts = one_queue(8);
    facts.extend([Input::Flavor(spot), Input::Node(tainted.into())]);
    let members = gang("g", 2, Some(2), &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    facts.extend(members.iter().cloned().map(Input::Pod));
    let first = engine.step(NOW, facts);
    assert!(binds(&first).is_empty());
    let patches: Vec<&Effect> = first
        .effects
        .iter()
        .filter(|e| {
            matches!(&e.action, Action::AddTolerations { tolerations, .. }
            if *tolerations == [toleration.clone()])
        })
        .collect();
    assert_eq!(patches.len(), 2);
    assert_eq!(view(&engine, "g").state, State::Preparing);
    let half = engine.step(NOW, vec![answer(patches[0], EffectResult::Done)]);
    assert!(binds(&half).is_empty(), "none before all are prepared");
    // The pod as it is now may be seen together with the answer.
    let mut patched = members[1].clone();
    let tolerations = vec![toleration];
    patched.shape = Arc::new(PodShape { tolerations, ..PodShape::clone(&patched.shape) });
    let news = vec![Input::Pod(patched), answer(patches[1], EffectResult::Done)];
    let all = engine.step(NOW, news);
    assert_eq!(binds(&all).len(), 2);
}

#[test]
fn a_pod_found_on_a_node_of_no_flavor_is_charged_once_its_node_is_of_one() {
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    facts.push(Input::Flavor(flavor(DEFAULT, &[("pool", "gpu")])));
    facts.push(bound(&pod("found", &shape(&[(GPU, 4)]), &in_queue(Some("main"))), "n"));
    let used = |engine: &Engine| engine.queues()[0].quotas[0].used;
    let says = |engine: &Engine| view(engine, "found").uncharged.map(|found| found.to_string());
    let want = "1 pod on n holds no quota for 4 GPUs: no flavor of main (default) fits by labels \
                and taints";
    engine.step(NOW, facts);
    assert_eq!((used(&engine), says(&engine).as_deref()), (0, Some(want)), "the node is not known");
    engine.step(NOW, vec![gpu_node("n", 8)]);
    assert_eq!((used(&engine), says(&engine).as_deref()), (0, Some(want)), "the label is missing");
    engine.recount();
    let mut labelled = node("n", &[("cpu", 64_000), (GPU, 8)]);
    labelled.labels.insert(text("pool"), text("gpu"));
    engine.step(NOW, vec![Input::Node(labelled.into())]);
    assert_eq!((used(&engine), says(&engine)), (4, None));
    engine.recount();
}

#[test]
fn wishes_that_cannot_be_read_are_told_once() {
    let mut engine = Engine::new();
    let wishes = Wishes { ignored: vec![text("capstan.sh/min-member: many")], ..Wishes::default() };
    let lone = pod("lone", &shape(&[(GPU, 1)]), &Arc::new(wishes));
    let events = |output: &StepOutput| {
        output.effects.iter().filter(|e| matches!(e.action, Action::Event { .. })).count()
    };
    let first = engine.step(NOW, vec![gpu_node("n", 8), Input::Pod(lone.clone())]);
    assert_eq!((events(&first), binds(&first).len()), (1, 1), "and it is scheduled all the same");
    assert_eq!(events(&engine.step(NOW, vec![bound(&lone, "n")])), 0);
}

#[test]
fn wishes_that_cannot_be_met_are_told_once_each() {
    let mut engine = Engine::new();
    let mut wishes = Wishes::clone(&in_queue(Some("main")));
    wishes.priority_class = Some(text("high"));
    wishes.topology.preferred = Some(text("rack"));
    let lone = pod("lone", &shape(&[(GPU, 4)]), &Arc::new(wishes));
    let told = |output: StepOutput| -> Vec<String> {
        let events = output.effects.into_iter().filter_map(|effect| match effect.action {
            Action::Event { reason, message, .. } => Some(format!("{reason}: {message}")),
            _ => None,
        });
        events.collect()
    };
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Pod(lone.clone())]);
    let level = "UnknownTopologyLevel: preferred topology level rack is unknown; known: \
                 kubernetes.io/hostname (a Topology object adds levels)";
    let no_class = "PriorityClassNotFound: WorkloadPriorityClass high does not exist; \
                    priority 0 was taken";
    assert_eq!(told(engine.step(NOW, facts)), [no_class, level]);
    let class = Input::WorkloadPriorityClass { name: text("high"), value: 7 };
    assert_eq!(told(engine.step(NOW, vec![class])), [""; 0]);
    let gone = Input::WorkloadPriorityClassGone(text("high"));
    assert_eq!(told(engine.step(NOW, vec![gone])), [""; 0], "its value is kept");
}

#[test]
fn what_is_told_does_not_depend_on_the_order_of_facts() {
    let mut wishes = Wishes::clone(&in_queue(Some("missing")));
    wishes.ignored = vec![text("min-member: \"x\" is not a number")];
    let wishes = Arc::new(wishes);
    let (one, two) = (pod("one", &shape(&[]), &wishes), pod("two", &shape(&[]), &wishes));
    let facts = vec![Input::Pod(one), Input::Pod(two)];
    let turned = facts.iter().rev().cloned().collect();
    assert_eq!(Engine::new().step(NOW, facts), Engine::new().step(NOW, turned));
}

#[test]
fn work_that_cannot_fit_is_not_looked_at_again_until_something_changes() {
    let mut engine = Engine::new();
    let big = shape(&[(GPU, 16)]);
    let waiting = (0..50).map(|at| Input::Pod(pod(&format!("w{at}"), &big, &in_queue(None))));
    let mut facts: Vec<Input> = waiting.collect();
    facts.push(gpu_node("n", 8));
    let first = engine.step(NOW, facts);
    assert_eq!(first.report.outcomes.len(), 1, "equal work is refused once");
    assert!(engine.step(NOW, vec![]).report.outcomes.is_empty());
    let grown = engine.step(NOW, vec![gpu_node("n", 16)]);
    assert_eq!(binds(&grown).len(), 1);
}

#[test]
fn what_a_restart_needs_and_what_a_pod_costs_is_written_on_it() {
    let mut engine = Engine::new();
    let mut priced = node("n", &[("cpu", 64_000), (GPU, 8)]);
    priced.capacity_type = CapacityType::Spot;
    let per_hour = MicroUsd(8_000_000);
    priced.price = Some(Price { per_hour, source: PriceSource::Catalogue });
    let two = shape(&[(GPU, 2)]);
    let lone = Input::Pod(pod("lone", &two, &in_queue(None)));
    let both = gang("both", 2, Some(2), &two, &in_queue(None)).into_iter().map(Input::Pod);
    let mut output = engine.step(NOW, vec![Input::Node(priced.into()), lone]);
    output.effects.extend(engine.step(NOW, both.collect()).effects);
    let notes = output.effects.iter().filter_map(|effect| match &effect.action {
        Action::Bind { note, .. } => Some(note.clone()),
        _ => None,
    });
    let notes: Vec<_> = notes.collect();
    let price = Some(MicroUsd(2_000_000));
    let of = |workload: &str, began_with: Option<u32>| {
        let (admitted_at, workload) = (Some(NOW), Some(text(workload)));
        BindingNote { admitted_at, price, workload, began_with, ..BindingNote::default() }
    };
    let both = of("both", Some(2));
    assert_eq!(notes, [of("lone", None), both.clone(), both], "each a quarter of the node");
    assert_eq!(view(&engine, "lone").per_hour, Some(MicroUsd(2_000_000)));
}
#[test]
fn a_waiting_head_goes_before_the_extras_of_a_running_gang() {
    let mut engine = Engine::new();
    let (one, queue) = (shape(&[(GPU, 1)]), in_queue(Some("main")));
    let members = gang("train", 2, Some(1), &one, &queue);
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 2), bound(&members[0], "n")]);
    engine.step(NOW, facts);
    let head = pod("head", &one, &queue);
    let next = engine.step(NOW, vec![Input::Pod(members[1].clone()), Input::Pod(head)]);
    assert_eq!(binds(&next), [("head".to_owned(), "n".to_owned())]);
    engine.recount();
}

#[test]
fn a_running_pod_that_changes_its_queue_is_charged_there() {
    let mut engine = Engine::new();
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[])), gpu_node("n", 8)];
    for name in ["one", "two"] {
        let quota = group(&[(DEFAULT, &[(GPU, nominal(4))])]);
        facts.push(Input::ClusterQueue(cluster_queue(name, None, quota)));
        facts.push(Input::LocalQueue(local_queue(name)));
    }
    let running = |queue| bound(&pod("w", &shape(&[(GPU, 2)]), &in_queue(Some(queue))), "n");
    facts.push(running("one"));
    engine.step(NOW, facts);
    let used = |engine: &Engine, name: &str| {
        let queues = engine.queues();
        queues.iter().find(|queue| &*queue.name == name).expect("a queue").quotas[0].used
    };
    assert_eq!((used(&engine, "one"), used(&engine, "two")), (2, 0));
    engine.step(NOW, vec![running("two")]);
    assert_eq!((used(&engine, "one"), used(&engine, "two")), (0, 2));
    engine.recount();
}

#[test]
fn images_that_come_to_a_node_wake_nobody_and_count_from_then_on() {
    let mut engine = Engine::new();
    let image = text("registry.local/train:1");
    let pictured = PodShape { images: vec![image.clone()], ..(*shape(&[(GPU, 1)])).clone() };
    let stuck = pod("stuck", &shape(&[(GPU, 9)]), &in_queue(None));
    let facts = vec![gpu_node("a", 8), gpu_node("b", 8), Input::Pod(stuck)];
    assert!(binds(&engine.step(NOW, facts)).is_empty());
    let Input::Node(mut pulled) = gpu_node("b", 8) else { unreachable!("it is a node") };
    Arc::make_mut(&mut pulled).images = Arc::new([(image, 9 << 30)].into());
    let quiet = engine.step(NOW, vec![Input::Node(pulled)]);
    assert_eq!(quiet.report.counts.considered, 0, "more room it is not");
    let next = pod("next", &Arc::new(pictured), &in_queue(None));
    let bound = engine.step(NOW, vec![Input::Pod(next)]);
    assert_eq!(binds(&bound), [("next".to_owned(), "b".to_owned())]);
}
