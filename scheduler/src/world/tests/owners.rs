//! What the Job controller does: pods made, counted, stopped and made again.

use capstan_core::model::input::{EvictionNote, GangKey, GangSource, Input, OwnerEnd, PodPhase};
use capstan_core::plan::{EffectResult, PreemptionReason};

use super::*;

#[test]
fn a_running_job_without_pods_gets_them_from_its_template() {
    let mut job = job("train", 3);
    (job.created, job.priority, job.min_member) = (at(1), 7, 2);
    let world = still(vec![Input::Owner(job.clone())]);
    assert_eq!(uids(&world), ["pod/ns/train-0", "pod/ns/train-1", "pod/ns/train-2"]);
    let made = found(&world, "pod/ns/train-1");
    assert_eq!((&*made.namespace, &*made.name), ("ns", "train-1"));
    assert_eq!((made.created, made.priority, made.ours), (at(1), 7, true));
    assert_eq!(made.gang.key, GangKey::Owner(job.uid.clone(), 0));
    assert_eq!((&*made.gang.name, made.gang.source), ("train", GangSource::Job));
    assert_eq!((made.gang.min_member, made.gang.total), (Some(2), None));
    assert!(Arc::ptr_eq(&made.wishes, &job.wishes));
    assert!(Arc::ptr_eq(&made.shape, &job.pod_sets[0].shape));
}

#[test]
fn a_job_whose_time_is_played_makes_no_pods_in_place_of_those_that_end() {
    let job = OwnerFacts { left: Some(6), replaces: 4, ..job("train", 2) };
    let world = still(vec![Input::Owner(job.clone())]);
    assert_eq!(owner(&world, &job).replaces, 4, "as it is");
    let world = World::playing(vec![Input::Owner(job.clone())], Policy::default(), at(0));
    assert_eq!(owner(&world, &job).replaces, 0);
}

#[test]
fn other_kinds_of_owners_are_called_owners() {
    let (kind, source) = ("JobSet".into(), GangSource::Owner);
    let set = OwnerFacts { kind, source, ..job("set", 1) };
    let world = still(vec![Input::Owner(set)]);
    assert_eq!(found(&world, "pod/ns/set-0").gang.source, GangSource::Owner);
}

#[test]
fn pods_that_exist_count_and_are_not_made_twice() {
    let job = job("train", 3);
    let there = pod_of(&job, "train-0");
    let failed = PodFacts { phase: PodPhase::Failed, ..pod_of(&job, "train-1") };
    // The order of the input does not matter.
    let world = still(vec![Input::Pod(there), Input::Owner(job), Input::Pod(failed)]);
    let made = ["pod/ns/train-2", "pod/ns/train-3", "train-0", "train-1"];
    assert_eq!(uids(&world), made);
}

/// Three pods: one runs, one ended well, and one failed, which is made again.
fn of_three(owner: &OwnerFacts) -> [PodFacts; 3] {
    let [runs, well, failed] = ["a", "b", "c"].map(|name| pod_of(owner, name));
    let well = PodFacts { phase: PodPhase::Succeeded, ..well };
    [runs, well, PodFacts { phase: PodPhase::Failed, ..failed }]
}

#[test]
fn nobody_is_made_in_place_of_who_ended_well() {
    let set = OwnerFacts { source: GangSource::Owner, ..job("j", 3) };
    let counted = OwnerFacts { ended: 1, left: Some(2), ..set.clone() };
    let another_run = OwnerFacts { incarnation: 1, ..counted.clone() };
    let follows = OwnerFacts { ended: 1, ..set.clone() };
    let job_counted = OwnerFacts { ended: 1, ..job("j", 2) };
    let job_makes_others = OwnerFacts { left: Some(6), replaces: 4, ..job("j", 2) };
    // (what it says, how many it makes)
    for (owner, makes) in [
        (&counted, 1),
        (&set, 1),
        (&follows, 2),
        (&job_counted, 1),
        (&job("j", 3), 1),
        (&job_makes_others, 1),
        (&OwnerFacts { left: None, ..job("j", 3) }, 0),
    ] {
        let pods = of_three(owner).map(Input::Pod);
        let world = still(pods.into_iter().chain([Input::Owner(owner.clone())]).collect());
        assert_eq!(uids(&world).len(), 3 + makes, "{owner:?}");
    }
    // Whoever ended well in a run before this one is no matter.
    let pods = of_three(&counted).map(Input::Pod);
    let world = still(pods.into_iter().chain([Input::Owner(another_run)]).collect());
    assert_eq!(uids(&world).len(), 5);
}

#[test]
fn who_ended_well_and_has_not_arrived_is_not_made_either() {
    let set = OwnerFacts { source: GangSource::Owner, ended: 1, left: Some(2), ..job("j", 3) };
    let pods = of_three(&set).map(|pod| Input::Pod(PodFacts { created: at(5), ..pod }));
    let inputs = pods.into_iter().chain([Input::Owner(set)]).collect();
    let mut world = World::playing(inputs, Policy::default(), at(0));
    assert_eq!(uids(&world), ["pod/ns/j-0"]);
    world.advance(at(5));
    assert_eq!(uids(&world), ["a", "b", "c", "pod/ns/j-0"]);
}

#[test]
fn a_pod_that_is_made_never_takes_the_uid_of_another() {
    let stranger = PodFacts { uid: "pod/ns/train-0".into(), ..pod("train-0", None) };
    let world = still(vec![Input::Owner(job("train", 1)), Input::Pod(stranger)]);
    assert_eq!(uids(&world), ["pod/ns/train-0", "pod/ns/train-1"]);
}

#[test]
fn each_pod_set_gets_its_own_pods() {
    let mut job = job("train", 1);
    let shape = PodShape { node_name: Some("n9".into()), ..PodShape::default() };
    let shape = Arc::new(shape);
    let (name, count) = ("workers".into(), 2);
    let workers = OwnerPodSet { name, count, before: 0, shape, roles: None, late: None };
    job.pod_sets.push(workers);
    let there = PodFacts { shape: job.pod_sets[1].shape.clone(), ..pod_of(&job, "train-w") };
    let world = still(vec![Input::Owner(job.clone()), Input::Pod(there)]);
    let of_workers = world.pods().filter(|pod| pod.shape == job.pod_sets[1].shape).count();
    assert_eq!((world.pods().count(), of_workers), (3, 2));
}

#[test]
fn suspended_and_finished_jobs_get_no_pods() {
    let suspended = OwnerFacts { suspended: true, ..job("a", 2) };
    let finished = OwnerFacts { finished: Some(OwnerEnd::Succeeded), ..job("b", 2) };
    let world = still(vec![Input::Owner(suspended), Input::Owner(finished)]);
    assert!(uids(&world).is_empty());
    assert_eq!(world.pending(), 1);
}

#[test]
fn pods_of_a_suspended_job_are_seen_leaving_and_then_its_mark_goes() {
    let note =
        EvictionNote { preemptor: "ns/high".into(), reason: PreemptionReason::InCohortReclamation };
    let half = OwnerFacts { suspended: true, eviction: Some(note), ..job("half", 1) };
    let bound = PodFacts { node: Some("n1".into()), ..pod_of(&half, "half-0") };
    let mut world = still(vec![Input::Owner(half.clone()), Input::Pod(bound)]);
    assert!(found(&world, "half-0").terminating);
    assert!(owner(&world, &half).eviction.is_some());
    world.settle(at(0));
    assert!(uids(&world).is_empty());
    assert_eq!(owner(&world, &half).eviction, None);
}

#[test]
fn suspending_takes_the_pods_and_starts_a_new_incarnation() {
    let job = job("train", 2);
    let mut world = still(vec![Input::Owner(job.clone())]);
    act(&mut world, at(0), bind(1, "pod/ns/train-0", "n1"));
    assert_eq!(act(&mut world, at(9), suspend(2, &job)), EffectResult::Done);
    let changes = world.take_changes();
    for uid in ["pod/ns/train-0", "pod/ns/train-1"] {
        assert!(changes.contains(&Input::PodGone(uid.into())), "{changes:?}");
    }
    let stopped = owner(&world, &job);
    assert!(stopped.suspended && stopped.eviction.is_none() && stopped.admitted.is_none());
    assert_eq!((stopped.incarnation, world.pods().count()), (1, 0));
    assert!(changes.contains(&Input::Owner(stopped.clone())));
    assert_eq!(world.pending(), 1);
    // A second order finds it done already.
    assert_eq!(act(&mut world, at(9), suspend(3, &job)), EffectResult::Done);
    assert_eq!(owner(&world, &job).incarnation, 1);
}

#[test]
fn resuming_notes_the_admission_and_makes_unbound_pods() {
    let mut job = job("train", 2);
    (job.suspended, job.incarnation) = (true, 1);
    let mut world = still(vec![Input::Owner(job.clone())]);
    assert_eq!(act(&mut world, at(20), resume(1, &job)), EffectResult::Done);
    assert_eq!(uids(&world), ["pod/ns/train-0#1", "pod/ns/train-1#1"]);
    let made = found(&world, "pod/ns/train-0#1").clone();
    assert_eq!((made.created, made.node.as_deref()), (at(20), None));
    assert_eq!(made.gang.key, GangKey::Owner(job.uid.clone(), 1));
    assert!(world.take_changes().contains(&Input::Pod(made)));
    world.settle(at(20));
    let resumed = owner(&world, &job);
    assert!(!resumed.suspended);
    let note = resumed.admitted.as_ref().expect("the patch that resumed it wrote the note");
    assert_eq!(note.workload.as_deref(), Some("train"));
    // A second order finds it done already and makes nothing.
    assert_eq!(act(&mut world, at(30), resume(2, &job)), EffectResult::Done);
    assert_eq!(world.pods().count(), 2);
}

#[test]
fn a_finished_job_is_neither_suspended_nor_resumed() {
    let done = OwnerFacts { finished: Some(OwnerEnd::Succeeded), ..job("done", 1) };
    let mut world = still(vec![Input::Owner(done.clone())]);
    for effect in [suspend(1, &done), resume(2, &done)] {
        let answer = act(&mut world, at(0), effect);
        assert_eq!(answer, EffectResult::Conflict("it has finished".into()));
    }
}

#[test]
fn pods_go_with_a_deleted_job() {
    let job = job("train", 2);
    let mut world = still(vec![Input::Owner(job.clone())]);
    world.take_changes();
    world.change(Input::OwnerGone(job.uid.clone()));
    world.settle(at(0));
    assert!(uids(&world).is_empty());
    assert_eq!(world.take_changes().last(), Some(&Input::OwnerGone(job.uid.clone())));
    assert_eq!(world.pending(), 0);
}

#[test]
fn pending_counts_workloads_without_a_node() {
    let foreign = PodFacts { ours: false, ..pod("foreign", None) };
    let inputs = vec![
        Input::Owner(job("train", 3)),
        Input::Pod(member("m0", "g")),
        Input::Pod(member("m1", "g")),
        Input::Pod(pod("lone", None)),
        Input::Pod(foreign),
    ];
    let mut world = still(inputs);
    assert_eq!(world.pending(), 3);
    act(&mut world, at(0), bind(1, "m0", "n1"));
    act(&mut world, at(0), bind(2, "m1", "n1"));
    assert_eq!(world.pending(), 2);
    act(&mut world, at(0), evict(3, "lone"));
    assert_eq!(world.pending(), 1);
}
