//! What the Workload of finished work goes on saying.

use capstan_core::explain::view::PodPlace;
use capstan_core::model::input::OwnerEnd;
use capstan_core::money::MicroUsd;

use super::*;

/// A Job of two pods with four GPUs each, which run on two nodes.
fn runs() -> WorkloadDetails {
    let mut runs = gang(State::Running);
    (runs.members, runs.needed, runs.placed, runs.ready) = (2, 2, 2, 2);
    (runs.started, runs.up) = (true, true);
    let view = &mut runs.view;
    (view.local_queue, view.cluster_queue) = (Some("lq".into()), Some("cq".into()));
    (view.priority, view.gpus, view.min_member) = (100, 8, 2);
    (view.admitted_at, view.per_hour) = (Some(at(0)), Some(MicroUsd(3_600_000)));
    view.pod_sets[0].count = 2;
    view.pod_sets[0].flavors = [(fixture::gpu(), "a100".into())].into();
    view.pods = places(&["n1", "n2"]);
    runs
}

fn places(nodes: &[&str]) -> Vec<PodPlace> {
    let place =
        |node: &&str| PodPlace { pod: format!("g-{node}").into(), node: Some((*node).into()) };
    nodes.iter().map(place).collect()
}

/// The same once it is complete and none of its pods goes on.
fn over() -> WorkloadDetails {
    let mut over = runs();
    (over.members, over.needed, over.placed, over.ready) = (0, 1, 0, 0);
    (over.started, over.owner_end) = (false, Some(OwnerEnd::Succeeded));
    let view = &mut over.view;
    view.state = State::Finished;
    (view.pod_sets, view.pods) = (Vec::new(), Vec::new());
    (view.priority, view.gpus, view.min_member) = (0, 0, 1);
    (view.admitted_at, view.per_hour) = (None, None);
    over
}

/// Whether what is shown of the ended work is what it ran with.
fn as_it_ran(api: &Api) {
    let spec = api.workload("g").spec;
    let sets: Vec<(&str, i32)> = spec.pod_sets.iter().map(|it| (&*it.name, it.count)).collect();
    assert_eq!((sets, spec.priority, &*spec.queue_name), (vec![("main", 2)], 100, "lq"));
    let status = api.status("g");
    assert_eq!((&*status.state, status.gpus), ("Finished", 8));
    assert_eq!(status.cluster_queue.as_deref(), Some("cq"));
    assert_eq!(status.flavors["main"]["nvidia.com/gpu"], "a100");
    assert_eq!((status.nodes, &*status.nodes_summary), (both(), "2 nodes: n1, n2"));
}

fn both() -> Vec<String> {
    ["n1", "n2"].map(str::to_owned).into()
}

#[test]
fn finished_work_says_what_it_ran_with_and_its_spec_is_not_written_again() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), runs());
    assert_eq!(api.work(&mut plan, at(0)), 2);
    plan.workload(at(5_000), over());
    assert_eq!(api.work(&mut plan, at(5_000)), 1);
    assert!(matches!(api.writes[2].1, Write::Status(_)), "{:?}", api.writes[2]);
    as_it_ran(&api);
    // None of it runs, and it costs nothing any more.
    let status = api.status("g");
    assert_eq!((&*status.pods, &*status.usd_per_hour), ("0/2", ""));
    assert_eq!((status.accruing, status.accrued_micro_usd), (None, Some(5_000)));
    plan.workload(at(9_000), over());
    assert_eq!((api.work(&mut plan, at(9_000)), plan.backlog(EVER)), (0, 0));
}

#[test]
fn who_leads_next_keeps_what_is_said_of_work_that_it_did_not_see_run() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), runs());
    api.work(&mut plan, at(0));
    for (second, writes) in [(5, 1), (10, 0)] {
        let now = at(second * 1_000);
        let mut next = Plan::new(Limits::default(), OURS.into());
        next.listed(now, [api.listed("g")]);
        next.workload(now, over());
        assert_eq!(api.work(&mut next, now), writes, "at {second}");
        as_it_ran(&api);
    }
}

#[test]
fn members_that_leave_after_the_end_take_nothing_with_them() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), runs());
    api.work(&mut plan, at(0));
    let mut leaves = runs();
    (leaves.members, leaves.placed, leaves.owner_end) = (1, 1, Some(OwnerEnd::Failed(None)));
    (leaves.view.state, leaves.view.gpus) = (State::Finished, 4);
    (leaves.view.pod_sets[0].count, leaves.view.pods) = (1, places(&["n2"]));
    plan.workload(at(5_000), leaves);
    assert_eq!(api.work(&mut plan, at(5_000)), 1);
    as_it_ran(&api);
    assert_eq!(api.status("g").pods, "1/2", "one is there still");
    plan.workload(at(9_000), over());
    api.work(&mut plan, at(9_000));
    as_it_ran(&api);
    assert_eq!(api.status("g").pods, "0/2");
}

/// The same where its owner, or pods of it that are there, still tell how many it had.
fn over_and_told() -> WorkloadDetails {
    let (mut told, ran) = (over(), runs().view);
    (told.view.pod_sets, told.view.gpus, told.ended) = (ran.pod_sets, ran.gpus, 2);
    told.view.pod_sets[0].flavors.clear();
    told
}

#[test]
fn members_that_end_one_after_the_other_are_named_by_the_spec_to_the_end() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), runs());
    api.work(&mut plan, at(0));
    let mut fewer = runs();
    (fewer.members, fewer.needed, fewer.placed, fewer.ended) = (1, 1, 1, 1);
    (fewer.view.pod_sets[0].count, fewer.view.gpus) = (1, 4);
    fewer.view.pods = places(&["n2"]);
    plan.workload(at(5_000), fewer);
    assert_eq!(api.work(&mut plan, at(5_000)), 1);
    let status = api.status("g");
    assert_eq!((&*status.pods, status.gpus, &*status.nodes_summary), ("1/1", 4, "n2"));
    assert_eq!(api.workload("g").spec.pod_sets[0].count, 2);
    plan.workload(at(10_000), over_and_told());
    assert_eq!(api.work(&mut plan, at(10_000)), 1);
    let status = api.status("g");
    assert_eq!((&*status.pods, status.gpus, &*status.nodes_summary), ("0/2", 8, "n2"));
    assert_eq!(status.flavors["main"]["nvidia.com/gpu"], "a100");
    assert_eq!(api.workload("g").spec.pod_sets[0].count, 2);
}

#[test]
fn members_that_were_deleted_are_no_part_of_it_any_more() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), runs());
    api.work(&mut plan, at(0));
    let mut fewer = runs();
    (fewer.members, fewer.needed, fewer.placed) = (1, 1, 1);
    (fewer.view.pod_sets[0].count, fewer.view.gpus) = (1, 4);
    plan.workload(at(5_000), fewer);
    api.work(&mut plan, at(5_000));
    assert_eq!(api.workload("g").spec.pod_sets[0].count, 1);
}

#[test]
fn work_of_which_nothing_was_said_before_its_end_says_how_large_it_was() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), over_and_told());
    assert_eq!(api.work(&mut plan, at(0)), 2);
    let status = api.status("g");
    assert_eq!((&*status.state, &*status.pods, status.gpus), ("Finished", "0/2", 8));
    assert_eq!(api.workload("g").spec.pod_sets[0].count, 2);
    assert_eq!((api.work(&mut plan, at(9_000)), plan.backlog(EVER)), (0, 0));
}

#[test]
fn work_that_waited_when_it_ended_ran_nowhere() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), runs());
    api.work(&mut plan, at(0));
    let mut queued = waits(runs(), room(1), &[]);
    (queued.placed, queued.view.admitted_at, queued.view.per_hour) = (0, None, None);
    queued.view.pod_sets[0].flavors.clear();
    queued.view.pods = Vec::new();
    plan.workload(at(5_000), queued);
    api.work(&mut plan, at(5_000));
    plan.workload(at(10_000), over());
    api.work(&mut plan, at(10_000));
    let status = api.status("g");
    assert_eq!((&*status.state, &*status.pods, status.gpus), ("Finished", "0/2", 8));
    assert!(status.flavors.is_empty() && status.nodes.is_empty(), "{status:?}");
    assert_eq!(api.workload("g").spec.pod_sets[0].count, 2);
}

#[test]
fn work_that_begins_anew_says_what_it_is_now() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), runs());
    api.work(&mut plan, at(0));
    plan.workload(at(5_000), over());
    api.work(&mut plan, at(5_000));
    let mut gathers = gang(State::Gathering);
    (gathers.members, gathers.view.gpus) = (1, 8);
    (gathers.view.pod_sets[0].count, gathers.view.pods) = (1, Vec::new());
    plan.workload(at(10_000), gathers);
    api.work(&mut plan, at(10_000));
    api.work(&mut plan, at(11_000));
    let status = api.status("g");
    assert_eq!((&*status.state, &*status.pods), ("Gathering", "0/3"));
    assert!(status.flavors.is_empty() && status.nodes.is_empty(), "{status:?}");
    assert_eq!(api.workload("g").spec.pod_sets[0].count, 1);
}

#[test]
fn what_has_finished_still_says_how_large_it_was() {
    let (mut plan, mut api) = ready();
    let mut runs = gang(State::Running);
    (runs.placed, runs.view.gpus) = (3, 24);
    plan.workload(at(0), runs);
    api.work(&mut plan, at(0));
    let mut done = gang(State::Finished);
    (done.members, done.view.gpus) = (0, 0);
    plan.workload(at(5_000), done);
    api.work(&mut plan, at(5_000));
    let status = api.status("g");
    assert_eq!((status.state.as_str(), status.pods.as_str(), status.gpus), ("Finished", "0/3", 24));
}
