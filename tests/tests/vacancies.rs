//! Quota that gangs keep for members that died. Each test feeds facts by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    BindingNote, ClusterQueueFacts, GangKey, Input, LocalQueueFacts, OwnerEnd, OwnerFacts,
    PodFacts, PodPhase, PodShape, PreemptWithin,
};
use capstan_core::plan::{Action, Preemption, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, gang, group, in_queue, job, labels, local_queue,
    namespace, node, nominal, pod, pods_of, shape, text,
};

const NOW: Time = Time(1_000_000);

fn engine() -> Engine {
    Engine::new()
}

/// A queue of so many GPUs, with a lender of as many in its cohort if it has one, and nodes for
/// all that is asked here.
fn ground(queue: ClusterQueueFacts) -> Vec<Input> {
    let lent = group(&[(DEFAULT, &[(GPU, nominal(4))])]);
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::LocalQueue(local_queue("main")),
        Input::ClusterQueue(queue),
        Input::ClusterQueue(cluster_queue("lender", Some("all"), lent)),
        Input::Node(node("n", &[("cpu", 64_000), (GPU, 64)]).into()),
    ]
}

fn queue(nominal_gpus: i64) -> ClusterQueueFacts {
    cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(nominal_gpus))])]))
}

/// The four members of `g`, a GPU each.
fn members() -> Vec<PodFacts> {
    gang("g", 4, Some(4), &shape(&[(GPU, 1)]), &in_queue(Some("main")))
}

/// The pod as the API shows it while it runs.
fn runs(pod: &PodFacts) -> Input {
    let flavors: BTreeMap<_, _> = [(text(GPU), text(DEFAULT))].into();
    let binding = BindingNote {
        flavors: Arc::new(flavors),
        admitted_at: Some(Time(1)),
        price: None,
        workload: Some(text("g")),
        queue: None,
        began_with: None,
    };
    let (node, phase) = (Some(text("n")), PodPhase::Running);
    Input::Pod(PodFacts { node, phase, binding: Some(Arc::new(binding)), ..pod.clone() })
}

fn single(name: &str, priority: i32) -> Input {
    let wishes = in_queue(Some("main"));
    Input::Pod(PodFacts { priority, ..pod(name, &shape(&[(GPU, 1)]), &wishes) })
}

fn gone(pod: &PodFacts) -> Input {
    Input::PodGone(pod.uid.clone())
}

fn bound(output: &StepOutput) -> Vec<String> {
    let name = |action: &Action| match action {
        Action::Bind { pod, .. } => Some(pod.name.to_string()),
        _ => None,
    };
    let mut all: Vec<String> = output.effects.iter().filter_map(|e| name(&e.action)).collect();
    all.sort();
    all
}

fn stopped(output: &StepOutput) -> Vec<Preemption> {
    let preemption = |action: &Action| match action {
        Action::Evict { preemption, .. } => Some(preemption.clone()),
        _ => None,
    };
    output.effects.iter().filter_map(|effect| preemption(&effect.action)).collect()
}

/// Used, borrowed, and what is left of the GPUs of `main`.
fn numbers(engine: &Engine) -> (i64, i64, i64) {
    let queues = engine.queues();
    let main = queues.iter().find(|queue| &*queue.name == "main").expect("it is there");
    let quota = &main.quotas[0];
    (quota.used, quota.borrowed, quota.available)
}

/// `g` runs in a queue of so many GPUs, and lost its last member.
fn in_part(queue: ClusterQueueFacts) -> (Engine, Vec<PodFacts>) {
    let (mut engine, members) = (engine(), members());
    let facts = ground(queue).into_iter().chain(members.iter().map(runs)).collect();
    engine.step(NOW, facts);
    engine.step(NOW, vec![gone(&members[3])]);
    engine.recount();
    (engine, members)
}

#[test]
fn nobody_gets_the_quota_of_a_member_that_died() {
    let (mut engine, members) = in_part(queue(4));
    assert_eq!(numbers(&engine), (4, 0, 0));
    let output = engine.step(NOW, vec![single("other", 100)]);
    assert_eq!(bound(&output), [""; 0]);
    let views = engine.workloads();
    let other = views.iter().find(|view| &*view.name == "other").expect("it waits");
    let why = other.reason.as_ref().expect("it says why").to_string();
    assert_eq!(why, "queue main has 0 GPUs left, 1 asked (flavor default)");

    // Another pod in its stead joins at once.
    let again = PodFacts { uid: text("again"), name: text("g-again"), ..members[3].clone() };
    let output = engine.step(NOW, vec![Input::Pod(again)]);
    assert_eq!(bound(&output), ["g-again"]);
    assert_eq!(numbers(&engine), (4, 0, 0));
    engine.recount();

    // They end one by one, and nobody stands in for them.
    let uids = members[..3].iter().map(|pod| pod.uid.clone()).chain([text("again")]);
    let ends = uids.map(|uid| bound(&engine.step(NOW, vec![Input::PodGone(uid)])).concat());
    assert_eq!(ends.collect::<Vec<_>>(), ["", "", "", "other"]);
}

#[test]
fn a_new_engine_keeps_the_same() {
    let (old, members) = in_part(queue(4));
    let mut engine = engine();
    let left = members[..3].iter().map(runs);
    let facts = ground(queue(4)).into_iter().chain(left).chain([single("other", 0)]).collect();
    let output = engine.step(NOW, facts);
    assert_eq!(bound(&output), [""; 0]);
    assert_eq!(numbers(&engine), numbers(&old));
}

#[test]
fn what_is_kept_is_borrowed_like_the_rest() {
    let lent = group(&[(DEFAULT, &[(GPU, nominal(2))])]);
    let (engine, _) = in_part(cluster_queue("main", Some("all"), lent));
    assert_eq!(numbers(&engine), (4, 2, 2));
}

#[test]
fn it_is_free_with_the_gang() {
    // All members end: two well, two not.
    let (mut engine, members) = in_part(queue(4));
    let ended = members[..3].iter().map(|pod| {
        Input::Pod(PodFacts { phase: PodPhase::Failed, node: Some(text("n")), ..pod.clone() })
    });
    let output = engine.step(NOW, ended.chain([single("other", 0)]).collect());
    assert_eq!(bound(&output), ["other"]);
    assert_eq!(numbers(&engine), (1, 0, 3));

    // They are deleted.
    let (mut engine, members) = in_part(queue(4));
    engine.step(NOW, vec![single("other", 0)]);
    let output = engine.step(NOW, members[..3].iter().map(gone).collect());
    assert_eq!(bound(&output), ["other"]);
    assert_eq!(numbers(&engine), (1, 0, 3));
    engine.recount();
}

#[test]
fn members_that_ended_well_need_no_quota() {
    let (mut engine, members) = (engine(), members());
    let facts = ground(queue(4)).into_iter().chain(members.iter().map(runs)).collect();
    engine.step(NOW, facts);
    let well = PodFacts { phase: PodPhase::Succeeded, node: Some(text("n")), ..members[3].clone() };
    let output = engine.step(NOW, vec![Input::Pod(well), single("other", 0)]);
    assert_eq!(bound(&output), ["other"]);
    assert_eq!(numbers(&engine), (4, 0, 0));
}

/// A Job of 2 pods at a time runs in a queue of 2 GPUs, with so many left to do. One of its pods
/// ended well, which it has counted or not.
fn after_one(left: Option<u32>, counted: u32) -> (Engine, OwnerFacts, Vec<PodFacts>) {
    let wishes = in_queue(Some("main"));
    let job = OwnerFacts { suspended: false, ..job("j", 2, &shape(&[(GPU, 1)]), &wishes) };
    let job = OwnerFacts { left, ..job };
    let (mut engine, pods) = (engine(), pods_of(&job));
    let facts = ground(queue(2)).into_iter().chain([Input::Owner(job.clone())]);
    engine.step(NOW, facts.chain(pods.iter().map(runs)).collect());
    let well = PodFacts { phase: PodPhase::Succeeded, node: Some(text("n")), ..pods[0].clone() };
    let left = left.map(|left| left - counted);
    let job = OwnerFacts { ended: counted, left, ..job };
    engine.step(NOW, vec![Input::Pod(well), Input::Owner(job.clone())]);
    engine.recount();
    (engine, job, pods)
}

#[test]
fn a_job_keeps_its_quota_between_waves() {
    for counted in [0, 1] {
        let (engine, ..) = after_one(Some(10), counted);
        assert_eq!(numbers(&engine), (2, 0, 0), "{counted}");
        // In its last wave, and where it makes no more pods after a success.
        for left in [Some(2), None] {
            let (engine, ..) = after_one(left, counted);
            assert_eq!(numbers(&engine), (1, 0, 1), "{left:?} {counted}");
        }
    }
}

/// A Job of as many pods at a time as its queue has GPUs runs, and has so many left to do.
fn in_waves(at_once: u32, left: u32) -> (Engine, OwnerFacts, Vec<PodFacts>) {
    let wishes = in_queue(Some("main"));
    let job = job("j", at_once, &shape(&[(GPU, 1)]), &wishes);
    let job = OwnerFacts { suspended: false, left: Some(left), replaces: left - at_once, ..job };
    let (mut engine, pods) = (engine(), pods_of(&job));
    let facts = ground(queue(at_once.into())).into_iter().chain([Input::Owner(job.clone())]);
    engine.step(NOW, facts.chain(pods.iter().map(runs)).collect());
    engine.step(NOW, vec![single("other", 100)]);
    (engine, job, pods)
}

fn ends(pod: &PodFacts, phase: PodPhase) -> Input {
    Input::Pod(PodFacts { phase, node: Some(text("n")), ..pod.clone() })
}

/// The same as a live cluster shows it: the Job counts it, and it is there no more.
fn is_over(pod: &PodFacts, phase: PodPhase) -> Input {
    Input::PodEnded { pod: pod.uid.clone(), well: phase == PodPhase::Succeeded }
}

/// Both.
const ENDS: [fn(&PodFacts, PodPhase) -> Input; 2] = [ends, is_over];

fn next(pod: &PodFacts) -> PodFacts {
    let (uid, name) = (text(format!("{}-next", pod.uid)), text(format!("{}-next", pod.name)));
    PodFacts { uid, name, ..pod.clone() }
}

#[test]
fn a_job_keeps_its_quota_when_all_of_a_wave_have_ended() {
    let phases = [PodPhase::Succeeded, PodPhase::Failed];
    for (ends, phase) in ENDS.into_iter().flat_map(|ends| phases.map(|phase| (ends, phase))) {
        let (mut engine, _, pods) = in_waves(1, 3);
        assert_eq!(bound(&engine.step(NOW, vec![ends(&pods[0], phase)])), [""; 0], "{phase:?}");
        assert_eq!(numbers(&engine), (1, 0, 0), "{phase:?}");
        engine.recount();
        let follows = next(&pods[0]);
        let output = engine.step(NOW, vec![Input::Pod(follows.clone())]);
        assert_eq!(bound(&output), ["j-0-next"], "{phase:?}");
        engine.step(NOW, vec![runs(&follows)]);
        assert_eq!(numbers(&engine), (1, 0, 0), "{phase:?}");
        // Once more, and it was there before the other was seen to end.
        let third = next(&follows);
        engine.step(NOW, vec![Input::Pod(third.clone())]);
        assert_eq!(bound(&engine.step(NOW, vec![ends(&follows, phase)])), ["j-0-next-next"]);
        engine.recount();
    }
}

#[test]
fn a_job_whose_last_pod_ended_keeps_nothing() {
    // Counted or not; failed for good; deleted; suspended by its user, before its pods or after.
    for ends in ENDS {
        let (mut engine, job, pods) = in_waves(1, 1);
        let well = ends(&pods[0], PodPhase::Succeeded);
        assert_eq!(bound(&engine.step(NOW, vec![well.clone()])), ["other"]);
        let (mut engine, ..) = in_waves(1, 1);
        let done = OwnerFacts { left: Some(0), ended: 1, ..job };
        assert_eq!(bound(&engine.step(NOW, vec![Input::Owner(done), well.clone()])), ["other"]);
        let (mut engine, job, _) = in_waves(1, 3);
        engine.step(NOW, vec![ends(&pods[0], PodPhase::Failed)]);
        let finished = OwnerFacts { finished: Some(OwnerEnd::Failed(None)), ..job };
        assert_eq!(bound(&engine.step(NOW, vec![Input::Owner(finished)])), ["other"]);
        let (mut engine, job, _) = in_waves(1, 3);
        engine.step(NOW, vec![well.clone()]);
        assert_eq!(bound(&engine.step(NOW, vec![Input::OwnerGone(job.uid)])), ["other"]);
        for first in [true, false] {
            let (mut engine, job, _) = in_waves(1, 3);
            let suspended = Input::Owner(OwnerFacts { suspended: true, ..job });
            let well = well.clone();
            let both = if first { [suspended, well] } else { [well, suspended] };
            let output = both.map(|fact| bound(&engine.step(NOW, vec![fact]))).concat();
            assert_eq!(output, ["other"], "{first}");
            engine.recount();
        }
    }
}

/// The first of two that ended left its quota to somebody, as the minimum is one.
#[test]
fn what_is_kept_between_waves_is_within_the_quota_that_is_left() {
    for ends in ENDS {
        let (mut engine, job, pods) = in_waves(2, 10);
        let job = OwnerFacts { min_member: 1, min_stated: true, ..job };
        let ended = ends(&pods[0], PodPhase::Succeeded);
        let output = engine.step(NOW, vec![Input::Owner(job), ended]);
        assert_eq!(bound(&output), ["other"]);
        let output = engine.step(NOW, vec![ends(&pods[1], PodPhase::Succeeded)]);
        assert_eq!((bound(&output), numbers(&engine)), (vec![], (2, 0, 0)));
        engine.recount();
    }
}

#[test]
fn what_a_job_keeps_between_waves_is_free_when_nobody_comes() {
    let (mut engine, _, pods) = in_waves(1, 3);
    engine.step(NOW, vec![ends(&pods[0], PodPhase::Succeeded)]);
    let almost = NOW.plus(Span::seconds(59));
    assert_eq!(bound(&engine.step(almost, vec![])), [""; 0]);
    assert_eq!(bound(&engine.step(NOW.plus(Span::seconds(60)), vec![])), ["other"]);
    engine.recount();
}

/// Its pods end one by one, before any other is made: their nodes are kept together, or none.
#[test]
fn a_wave_is_kept_whole_or_not_at_all() {
    for filled in [false, true] {
        let (mut engine, _, pods) = in_waves(2, 6);
        engine.step(NOW, vec![ends(&pods[0], PodPhase::Succeeded)]);
        if filled {
            // Somebody else's, who asks no quota.
            let large = pod("large", &shape(&[(GPU, 62)]), &in_queue(None));
            let large = PodFacts { ours: false, ..large };
            let one = PodFacts { shape: shape(&[(GPU, 1)]), ..large.clone() };
            let one = PodFacts { uid: text("one"), name: text("one"), ..one };
            engine.step(NOW, vec![runs(&large), runs(&one)]);
        }
        let output = engine.step(NOW, vec![ends(&pods[1], PodPhase::Succeeded)]);
        assert_eq!(bound(&output), if filled { vec!["other".to_owned()] } else { vec![] });
        assert_eq!(numbers(&engine).0, if filled { 1 } else { 2 });
        engine.recount();
        if !filled {
            let follow = pods.iter().map(|pod| Input::Pod(next(pod))).collect();
            assert_eq!(bound(&engine.step(NOW, follow)), ["j-0-next", "j-1-next"]);
        }
    }
}

/// A kubelet refused it: its node would again.
#[test]
fn who_never_ran_keeps_no_node() {
    let (mut engine, _, pods) = in_waves(1, 3);
    let Input::Pod(again) = runs(&next(&pods[0])) else { unreachable!("it is a pod") };
    engine.step(NOW, vec![ends(&pods[0], PodPhase::Succeeded)]);
    engine.step(NOW, vec![Input::Pod(PodFacts { phase: PodPhase::Pending, ..again.clone() })]);
    let output = engine.step(NOW, vec![ends(&again, PodPhase::Failed)]);
    assert_eq!(bound(&output), ["other"]);
}

#[test]
fn what_comes_free_is_kept_by_a_gang_in_part() {
    // As an engine would that begins now: what was taken by somebody else is free again.
    let (mut engine, one) = (engine(), members());
    let facts = ground(queue(4)).into_iter().chain(one[..3].iter().map(runs));
    let Input::Pod(other) = single("other", 0) else { unreachable!("it is a pod") };
    engine.step(NOW, facts.chain([runs(&other)]).collect());
    assert_eq!(numbers(&engine), (4, 0, 0));
    let output = engine.step(NOW, vec![gone(&other), single("next", 100)]);
    assert_eq!(bound(&output), [""; 0]);
    assert_eq!(numbers(&engine), (4, 0, 0));
}

#[test]
fn the_shape_of_who_died_is_kept() {
    let (mut engine, wishes) = (engine(), in_queue(Some("main")));
    let mut all = gang("g", 2, Some(2), &shape(&[(GPU, 1)]), &wishes);
    all[1].shape = shape(&[(GPU, 3)]);
    engine.step(NOW, ground(queue(4)).into_iter().chain(all.iter().map(runs)).collect());
    let died = PodFacts { phase: PodPhase::Failed, node: Some(text("n")), ..all[1].clone() };
    for died in [Input::Pod(died), gone(&all[1])] {
        engine.step(NOW, vec![died]);
        assert_eq!(numbers(&engine), (4, 0, 0));
    }
    engine.recount();
}

#[test]
fn a_member_of_a_new_shape_takes_up_what_is_kept_for_it() {
    let (mut engine, members) = in_part(queue(4));
    // It asks the same, and an API server added something to it.
    let mut again = PodFacts { uid: text("again"), name: text("g-again"), ..members[3].clone() };
    let new = PodShape {
        node_selector: labels(&[("kubernetes.io/hostname", "n")]),
        ..PodShape::clone(&again.shape)
    };
    again.shape = Arc::new(new);
    assert_eq!(bound(&engine.step(NOW, vec![Input::Pod(again)])), ["g-again"]);
    assert_eq!(numbers(&engine), (4, 0, 0));
    engine.recount();
}

#[test]
fn what_was_parked_is_looked_at_when_a_gang_in_part_is_told_to_leave() {
    let mut facts = queue(4);
    facts.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let (mut engine, members) = in_part(facts);
    let Input::Pod(small) = single("small", 0) else { unreachable!("it is a pod") };
    engine.step(NOW, vec![Input::Pod(small)]);
    // It wants three of the four: those that run; the one that was kept is for who waits.
    let Input::Pod(large) = single("large", 100) else { unreachable!("it is a pod") };
    let large = PodFacts { shape: shape(&[(GPU, 3)]), ..large };
    let output = engine.step(NOW, vec![Input::Pod(large)]);
    assert_eq!((stopped(&output).len(), bound(&output)), (3, vec!["small".to_owned()]));
    let output = engine.step(NOW, members[..3].iter().map(gone).collect());
    assert_eq!(bound(&output), ["large"]);
    engine.recount();
}

#[test]
fn what_a_job_held_that_lost_a_member_is_free_once_it_is_deleted() {
    let wishes = in_queue(Some("main"));
    let job = OwnerFacts {
        suspended: false,
        incarnation: 1,
        ..job("j", 2, &shape(&[(GPU, 1)]), &wishes)
    };
    let (mut engine, pods) = (engine(), pods_of(&job));
    let facts = ground(queue(2)).into_iter().chain([Input::Owner(job.clone())]);
    engine.step(NOW, facts.chain(pods.iter().map(runs)).collect());
    engine.step(NOW, vec![single("other", 0)]);
    let died = PodFacts { phase: PodPhase::Failed, node: Some(text("n")), ..pods[0].clone() };
    engine.step(NOW, vec![Input::Pod(died)]);
    let again = PodFacts { uid: text("again"), name: text("again"), ..pods[0].clone() };
    let output = engine.step(NOW, vec![Input::Pod(again.clone())]);
    assert_eq!(bound(&output), ["again"]);
    engine.step(NOW, vec![runs(&again)]);

    let finished = OwnerFacts { finished: Some(OwnerEnd::Succeeded), ..job.clone() };
    engine.step(NOW, vec![Input::Owner(finished)]);
    // What it says goes with it, the name of its queue, too.
    let orphans = [&again, &pods[1]].map(|pod| {
        let Input::Pod(mut pod) = runs(pod) else { unreachable!("it is a pod") };
        (pod.gang.unknown_owner, pod.gang.min_member) = (Some(text("Job j")), None);
        // Which run it was nobody knows any more.
        pod.gang.key = GangKey::Owner(job.uid.clone(), 0);
        pod.wishes = in_queue(None);
        Input::Pod(pod)
    });
    let gone = [Input::OwnerGone(job.uid.clone())].into_iter().chain(orphans).collect();
    assert_eq!(bound(&engine.step(NOW, gone)), [""; 0]);
    assert_eq!(numbers(&engine), (2, 0, 0), "what runs holds what it holds");
    let uids = [text("again"), pods[1].uid.clone(), pods[0].uid.clone()];
    let ends = uids.map(|uid| bound(&engine.step(NOW, vec![Input::PodGone(uid)])).concat());
    assert_eq!(ends.join(" "), "other  ", "{:?}", numbers(&engine));
}

#[test]
fn who_leaves_a_queue_leaves_its_quota_to_those_who_wait() {
    let (mut engine, members) = (engine(), members());
    let elsewhere = LocalQueueFacts { cluster_queue: text("lender"), ..local_queue("elsewhere") };
    let facts = ground(queue(4)).into_iter().chain(members.iter().map(runs));
    let facts = facts.chain([Input::LocalQueue(elsewhere), single("other", 0)]);
    engine.step(NOW, facts.collect());
    // Somebody takes the label off, or changes it: to a queue that is not there changes nothing.
    let moved = |to: &str| {
        let pod = |pod: &PodFacts| {
            let Input::Pod(pod) = runs(pod) else { unreachable!("it is a pod") };
            Input::Pod(PodFacts { wishes: in_queue(Some(to)), ..pod })
        };
        members.iter().map(pod).collect::<Vec<_>>()
    };
    assert_eq!(bound(&engine.step(NOW, moved("nowhere"))), [""; 0]);
    assert_eq!(numbers(&engine), (4, 0, 0));
    assert_eq!(bound(&engine.step(NOW, moved("elsewhere"))), ["other"]);
    assert_eq!(numbers(&engine), (1, 0, 3));
    engine.recount();
}

#[test]
fn whom_nobody_makes_members_for_keeps_nothing() {
    let (mut engine, job, pods) = after_one(Some(10), 1);
    let output = engine.step(NOW, vec![Input::OwnerGone(job.uid), single("other", 0)]);
    assert_eq!((bound(&output), numbers(&engine)), (vec!["other".to_owned()], (2, 0, 0)));

    let (mut engine, ..) = after_one(Some(10), 1);
    let Input::Pod(last) = runs(&pods[1]) else { unreachable!("it is a pod") };
    let leaves = Input::Pod(PodFacts { terminating: true, ..last });
    let output = engine.step(NOW, vec![leaves, single("other", 0)]);
    assert_eq!((bound(&output), numbers(&engine)), (vec!["other".to_owned()], (2, 0, 0)));

    // Its user suspends it.
    let (mut engine, job, _) = after_one(Some(10), 1);
    let suspended = Input::Owner(OwnerFacts { suspended: true, ..job });
    let output = engine.step(NOW, vec![suspended, single("other", 0)]);
    assert_eq!((bound(&output), numbers(&engine)), (vec!["other".to_owned()], (2, 0, 0)));
    engine.recount();
}

#[test]
fn a_gang_in_part_is_stopped_whole_for_the_quota_that_it_keeps() {
    let within = PreemptWithin::LowerPriority;
    let mut facts = queue(4);
    facts.preemption.within_cluster_queue = within;
    let (mut engine, members) = in_part(facts);
    let output = engine.step(NOW, vec![single("other", 100)]);
    let stopped = stopped(&output);
    assert_eq!(stopped.len(), 3, "{stopped:?}");
    assert!(stopped.iter().all(|stop| &*stop.preemptor == "team/other"), "{stopped:?}");
    assert_eq!(bound(&output), [""; 0], "its room is held until the members have left");
    let output = engine.step(NOW, members[..3].iter().map(gone).collect());
    assert_eq!(bound(&output), ["other"]);
    assert_eq!(numbers(&engine), (1, 0, 3));
    engine.recount();
}

#[test]
fn an_owner_that_is_to_have_more_keeps_what_is_left_if_that_is_enough() {
    let made = |pods: u32| {
        let job = job("g", pods, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
        OwnerFacts { suspended: false, ..job }
    };
    let (mut engine, members) = (engine(), pods_of(&made(4)));
    let facts = ground(queue(6)).into_iter().chain([Input::Owner(made(4))]);
    engine.step(NOW, facts.chain(members.iter().map(runs)).collect());
    assert_eq!(numbers(&engine), (4, 0, 2));
    engine.step(NOW, vec![Input::Owner(made(6))]);
    assert_eq!(numbers(&engine), (6, 0, 0));
    engine.step(NOW, vec![Input::Owner(made(7))]);
    assert_eq!(numbers(&engine), (4, 0, 2), "a part of it would help nobody");
    engine.recount();
}

/// What it is to have beyond those that it began with is above its minimum.
#[test]
fn a_gang_whose_minimum_grows_keeps_nothing() {
    let (mut engine, members) = (engine(), members());
    let facts = ground(queue(5)).into_iter().chain(members.iter().map(runs));
    engine.step(NOW, facts.collect());
    let larger = |pod: &PodFacts| {
        let mut pod = pod.clone();
        pod.gang.min_member = Some(5);
        runs(&pod)
    };
    engine.step(NOW, members.iter().map(larger).collect());
    assert_eq!(numbers(&engine), (4, 0, 1));
    assert_eq!(bound(&engine.step(NOW, vec![single("other", 0)])), ["other"]);
    engine.recount();
}

/// A number that was meant otherwise costs neither memory nor time.
#[test]
fn a_minimum_that_nobody_meant_keeps_nothing() {
    let (mut engine, members) = (engine(), members());
    let facts = ground(queue(5)).into_iter().chain(members.iter().map(runs));
    engine.step(NOW, facts.collect());
    let wishes = in_queue(Some("main"));
    let typo = gang("g", 5, Some(u32::MAX), &shape(&[(GPU, 1)]), &wishes);
    assert_eq!(bound(&engine.step(NOW, vec![Input::Pod(typo[4].clone())])), [""; 0]);
    assert_eq!(numbers(&engine), (4, 0, 1));
    engine.recount();
}

#[test]
fn two_gangs_in_part_do_not_wait_for_each_other() {
    let (mut engine, one) = (engine(), members());
    let wishes = in_queue(Some("main"));
    let two = gang("h", 4, Some(4), &shape(&[(GPU, 1)]), &wishes);
    let all = one.iter().chain(&two);
    engine.step(NOW, ground(queue(8)).into_iter().chain(all.map(runs)).collect());
    // Two of each die while the queue shrinks, so that there is enough for one of them only.
    let died = [&one[2], &one[3], &two[2], &two[3]].map(gone);
    engine.step(NOW, died.into_iter().chain([Input::ClusterQueue(queue(6))]).collect());
    assert_eq!(numbers(&engine), (6, 0, 0));
    let again = |pod: &PodFacts| {
        let (uid, name) = (text(format!("{}-again", pod.uid)), text(format!("{}-again", pod.name)));
        Input::Pod(PodFacts { uid, name, ..pod.clone() })
    };
    let others = [&one[2], &one[3], &two[2], &two[3]].map(again);
    let output = engine.step(NOW, others.into_iter().collect());
    assert_eq!(bound(&output), ["g-2-again", "g-3-again"]);
    engine.recount();
}

#[test]
fn whose_queue_shrinks_keeps_what_is_left_of_it() {
    let (mut engine, _) = in_part(queue(8));
    assert_eq!(numbers(&engine), (4, 0, 4));
    engine.step(NOW, vec![Input::ClusterQueue(queue(2))]);
    // Over its quota by what runs, and by nothing else.
    assert_eq!(numbers(&engine), (3, 1, 0));
    engine.step(NOW, vec![Input::ClusterQueue(queue(8))]);
    assert_eq!(numbers(&engine), (4, 0, 4));
    engine.recount();
}
