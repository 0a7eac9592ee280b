//! WorkloadPriorityClasses that change, come and go: work has the value of its class, and once that
//! is gone its last one, until it names another.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    GangKey, GangRef, Held, Input, OwnerEnd, OwnerFacts, PodFacts, Wishes,
};
use capstan_core::plan::{Action, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{GPU, gang, in_queue, job, pod, pods_of, shape, text};
use capstan_tests::hand::{binds, bound, gpu_node, one_queue, view};

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

fn class(name: &str, value: i32) -> Input {
    Input::WorkloadPriorityClass { name: text(name), value }
}

fn wishes(class: &str) -> Arc<Wishes> {
    let wishes = Wishes::clone(&in_queue(Some("main")));
    Arc::new(Wishes { priority_class: Some(text(class)), ..wishes })
}

fn lone(name: &str, gpus: i64, class: &str) -> PodFacts {
    pod(name, &shape(&[(GPU, gpus)]), &wishes(class))
}

/// Eight GPUs, all of them taken by `runs`, whose class is worth 100.
fn running() -> Engine {
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), class("high", 100), class("low", 5)]);
    facts.push(bound(&lone("runs", 8, "high"), "n"));
    engine.step(NOW, facts);
    engine
}

fn priority(engine: &Engine, name: &str) -> i32 {
    view(engine, name).priority
}

fn evicted(output: &StepOutput) -> usize {
    let evicts = |action: &Action| matches!(action, Action::Evict { .. });
    output.effects.iter().filter(|effect| evicts(&effect.action)).count()
}

#[test]
fn editing_a_class_changes_what_comes_and_what_is_there() {
    let mut engine = running();
    engine.step(after(1), vec![Input::Pod(lone("waits", 8, "high"))]);
    engine.step(after(2), vec![class("high", 1)]);
    engine.step(after(3), vec![Input::Pod(lone("new", 8, "high"))]);
    let all = ["runs", "waits", "new"].map(|name| priority(&engine, name));
    assert_eq!(all, [1, 1, 1]);
    // What is told again of old work changes nothing.
    let again = vec![Input::Pod(lone("waits", 8, "high")), bound(&lone("runs", 8, "high"), "n")];
    engine.step(after(4), again);
    assert_eq!(priority(&engine, "waits"), 1);
    assert_eq!(priority(&engine, "runs"), 1);
    engine.recount();
}

/// Who waits for what `runs` has, and is worth 50.
fn rival() -> Input {
    let mut rival = pod("rival", &shape(&[(GPU, 8)]), &in_queue(Some("main")));
    rival.priority = 50;
    Input::Pod(rival)
}

#[test]
fn who_runs_is_not_safe_from_an_edit() {
    let mut engine = running();
    assert_eq!(evicted(&engine.step(after(1), vec![rival()])), 0);
    assert_eq!(evicted(&engine.step(after(2), vec![class("high", 1)])), 1, "it is worth less now");
    engine.recount();
}

#[test]
fn who_runs_is_not_safe_from_another_class() {
    let mut engine = running();
    assert_eq!(evicted(&engine.step(after(1), vec![rival()])), 0);
    let lower = bound(&lone("runs", 8, "low"), "n");
    assert_eq!(evicted(&engine.step(after(2), vec![lower])), 1, "it names another class");
    assert_eq!(priority(&engine, "runs"), 5);
    engine.recount();
}

#[test]
fn who_names_another_class_and_the_first_again_takes_its_present_value() {
    let mut engine = running();
    engine.step(after(1), vec![Input::Pod(lone("waits", 8, "high")), class("high", 1)]);
    assert_eq!(priority(&engine, "waits"), 1, "it came with the edit");
    let mut values = Vec::new();
    for (second, (value, names)) in [(7, "low"), (8, "high"), (9, "high")].into_iter().enumerate() {
        let facts = vec![class("high", value), Input::Pod(lone("waits", 8, names))];
        engine.step(after(2 + second as i64), facts);
        values.push(priority(&engine, "waits"));
    }
    assert_eq!(values, [5, 8, 9]);
}

#[test]
fn a_class_that_comes_later_counts_from_then_and_still_once_it_is_gone() {
    let mut engine = running();
    let mut waits = lone("waits", 8, "late");
    waits.priority = 3;
    engine.step(after(1), vec![Input::Pod(waits)]);
    assert_eq!(priority(&engine, "waits"), 3, "its own");
    let mut values = Vec::new();
    let gone = || Input::WorkloadPriorityClassGone(text("late"));
    for (second, change) in [class("late", 7), class("late", 9), gone()].into_iter().enumerate() {
        engine.step(after(2 + second as i64), vec![change]);
        values.push(priority(&engine, "waits"));
    }
    assert_eq!(values, [7, 9, 9]);
    engine.step(after(9), vec![Input::Pod(lone("new", 8, "late"))]);
    assert_eq!(priority(&engine, "new"), 0, "there is no such class");
}

#[test]
fn the_next_run_of_an_owner_is_the_same_work() {
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), class("high", 100)]);
    let mut owner = job("train", 2, &shape(&[(GPU, 1)]), &wishes("high"));
    owner.suspended = false;
    facts.push(Input::Owner(owner.clone()));
    facts.extend(pods_of(&owner).iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, facts);
    engine.step(after(1), vec![class("high", 50)]);
    engine.step(after(2), vec![Input::WorkloadPriorityClassGone(text("high"))]);
    assert_eq!(priority(&engine, "train"), 50);
    let before = pods_of(&owner);
    (owner.suspended, owner.incarnation) = (true, 1);
    let mut facts = vec![Input::Owner(owner)];
    facts.extend(before.iter().map(|pod| Input::PodGone(pod.uid.clone())));
    let output = engine.step(after(3), facts);
    assert_eq!(binds(&output).len(), 0, "its pods are not made yet");
    assert_eq!(priority(&engine, "train"), 50);
    engine.recount();
}

/// What its owner said is gone with it: whom it ran before may not stop its pods for that. Pods
/// name an owner that is gone, and are deleted; or they are to stay, and name none any more before
/// it is gone.
#[test]
fn work_whose_owner_is_deleted_keeps_its_priority_while_it_runs() {
    for stays in [false, true] {
        let (four, high) = (shape(&[(GPU, 4)]), wishes("high"));
        let job = OwnerFacts { suspended: false, incarnation: 1, ..job("j", 2, &four, &high) };
        let pods = pods_of(&job);
        let mut engine = Engine::new();
        let mut facts = one_queue(8);
        facts.extend([gpu_node("n", 8), class("high", 100), class("low", 5)]);
        facts.push(Input::Owner(job.clone()));
        facts.extend(pods.iter().map(|pod| bound(pod, "n")));
        engine.step(NOW, facts);
        engine.step(after(1), vec![Input::Pod(lone("waits", 4, "low"))]);
        assert_eq!((priority(&engine, "j"), priority(&engine, "waits")), (100, 5));
        let orphan = |pod: &PodFacts| {
            let mut pod = pod.clone();
            (pod.gang.unknown_owner, pod.gang.min_member) = (Some(text("Job j")), None);
            // Which run it was nobody knows any more.
            pod.gang.key = GangKey::Owner(job.uid.clone(), 0);
            if stays {
                pod.gang = GangRef::of_one(&pod.uid, &pod.name);
            }
            pod.wishes = in_queue(None);
            bound(&pod, "n")
        };
        if stays {
            let deleted = OwnerFacts { finished: Some(OwnerEnd::Deleted), ..job.clone() };
            let output = engine.step(after(2), vec![Input::Owner(deleted)]);
            assert_eq!(evicted(&output), 0);
            let output = engine.step(after(3), pods.iter().map(orphan).collect());
            assert_eq!((evicted(&output), priority(&engine, "j")), (0, 100));
        }
        let gone = [Input::OwnerGone(job.uid.clone())].into_iter();
        let output = engine.step(after(4), gone.chain(pods.iter().map(orphan)).collect());
        assert_eq!((evicted(&output), priority(&engine, "j")), (0, 100), "they stay: {stays}");
        // The class itself still counts.
        engine.step(after(5), vec![class("high", 50)]);
        assert_eq!(priority(&engine, "j"), 50);
        let output = engine.step(after(6), vec![class("high", 1)]);
        assert!(evicted(&output) > 0 && priority(&engine, "j") == 1);
        engine.recount();
    }
}

/// It names no owner any more while that goes on: whoever took it off wants it apart.
#[test]
fn a_pod_that_is_taken_off_its_owner_is_work_of_its_own() {
    let (four, high) = (shape(&[(GPU, 4)]), wishes("high"));
    let job = OwnerFacts { suspended: false, ..job("j", 2, &four, &high) };
    let pods = pods_of(&job);
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), class("high", 100), Input::Owner(job.clone())]);
    facts.extend(pods.iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, facts);
    let mut apart = pods[0].clone();
    apart.gang = GangRef::of_one(&apart.uid, &apart.name);
    engine.step(after(1), vec![bound(&apart, "n")]);
    assert_eq!(engine.workloads().len(), 2);
    engine.recount();
}

#[test]
fn work_whose_group_is_deleted_keeps_its_priority_while_it_runs() {
    let (four, wishes) = (shape(&[(GPU, 4)]), in_queue(Some("main")));
    let mut pods = gang("g", 2, Some(2), &four, &wishes);
    // As its group says.
    pods.iter_mut().for_each(|pod| pod.priority = 50);
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), class("low", 5)]);
    facts.extend(pods.iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, facts);
    engine.step(after(1), vec![Input::Pod(lone("waits", 8, "low"))]);
    let left = pods.iter().map(|pod| {
        let mut pod = PodFacts { priority: 0, ..pod.clone() };
        pod.gang.held = Some(Held::GroupMissing(text("PodGroup g")));
        bound(&pod, "n")
    });
    let output = engine.step(after(2), left.collect());
    assert_eq!((evicted(&output), priority(&engine, "g")), (0, 50));
    engine.recount();
}

/// What a pod is worth was settled when it was made: a class that came or went since changes what
/// its owner will make, and nothing of what it has.
#[test]
fn pods_of_an_owner_are_worth_what_they_were_made_with() {
    let two = shape(&[(GPU, 2)]);
    for (template, made_with, made, worth) in [
        // The class is gone since, and counts for nothing in the template.
        (0, 1_000, 2, 1_000),
        // It came since, or admission had other thoughts.
        (100, 0, 2, 0),
        // One is still to be made, which will have what the template says.
        (100, 0, 1, 100),
        (0, 1_000, 1, 1_000),
        (100, 0, 0, 100),
    ] {
        let mut engine = Engine::new();
        let mut owner = job("train", 2, &two, &in_queue(Some("main")));
        (owner.suspended, owner.priority) = (made == 0, template);
        let mut facts = one_queue(8);
        facts.extend([gpu_node("n", 8), Input::Owner(owner.clone())]);
        for mut pod in pods_of(&owner).into_iter().take(made) {
            pod.priority = made_with;
            facts.push(Input::Pod(pod));
        }
        engine.step(NOW, facts);
        assert_eq!(priority(&engine, "train"), worth, "{template} {made_with} {made}");
        engine.recount();
    }
}

/// An owner whose pods are still to be made has places kept for them: they are worth what its
/// template says now.
#[test]
fn places_for_pods_that_are_still_to_be_made_are_worth_what_the_template_says() {
    let mut engine = Engine::new();
    let mut owner = job("train", 2, &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    owner.priority = 3;
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Owner(owner.clone())]);
    engine.step(NOW, facts);
    assert_eq!(priority(&engine, "train"), 3);
    owner.priority = 1;
    engine.step(after(1), vec![Input::Owner(owner)]);
    assert_eq!(priority(&engine, "train"), 1);
    engine.recount();
}

/// An owner whose template says that its pods stop nobody, and then does not.
#[test]
fn places_for_pods_that_are_still_to_be_made_stop_others_if_the_template_lets_them() {
    let mut engine = Engine::new();
    let mut owner = job("train", 2, &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    (owner.priority, owner.never_preempts) = (50, true);
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), class("low", 5), bound(&lone("runs", 8, "low"), "n")]);
    facts.push(Input::Owner(owner.clone()));
    assert_eq!(evicted(&engine.step(NOW, facts)), 0);
    owner.never_preempts = false;
    assert_eq!(evicted(&engine.step(after(1), vec![Input::Owner(owner)])), 1);
    engine.recount();
}

/// Places go before the pod that another scheduler nominated once the template is worth more.
#[test]
fn places_go_before_who_is_worth_less_than_the_template() {
    let mut engine = Engine::new();
    let mut owner = job("train", 2, &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let resumes = |output: &StepOutput| {
        let resumes = |action: &Action| matches!(action, Action::ResumeOwner { .. });
        output.effects.iter().filter(|effect| resumes(&effect.action)).count()
    };
    let mut theirs = pod("theirs", &shape(&[(GPU, 8)]), &in_queue(None));
    (theirs.ours, theirs.nominated, theirs.priority) = (false, true, 2);
    theirs.node = Some(text("n"));
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Pod(theirs)]);
    engine.step(NOW, facts);
    for (priority, begun) in [(1, 0), (3, 1)] {
        owner.priority = priority;
        let output = engine.step(after(i64::from(priority)), vec![Input::Owner(owner.clone())]);
        assert_eq!(resumes(&output), begun, "{priority}");
        engine.recount();
    }
}
