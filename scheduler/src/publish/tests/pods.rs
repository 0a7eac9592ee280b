//! What pods say while they wait, and how often.

use super::*;
use crate::publish::plan::{PATIENCE, ROOM_PATIENCE};

/// Pod and reason of every condition that was written.
fn conditions(api: &Api) -> Vec<(String, String)> {
    let said = api.writes.iter().filter_map(|(key, write)| match (key, write) {
        (Key::Pod(pod), Write::Condition(said, _) | Write::Reword(said, _)) => {
            Some((pod.name.to_string(), said.reason.clone()))
        }
        _ => None,
    });
    said.collect()
}

#[test]
fn pods_that_wait_say_so_once_for_each_reason() {
    let (mut plan, mut api) = ready();
    let pods = ["g-0", "g-1", "g-2"];
    plan.workload(at(0), waits(gang(State::Queued), room(1), &pods));
    api.work(&mut plan, at(1_000));
    let all: Vec<_> = pods.map(|pod| (pod.to_owned(), "Unschedulable".to_owned())).into();
    assert_eq!(conditions(&api), all, "all of a gang at once");
    // New numbers of the same reason wait, however often there are others; the Workload is fresher.
    let of = |nodes| {
        Reason::Nodes(Box::new(NodeShortage {
            nodes,
            asked: 1_000,
            holds: nodes,
            refusals: Vec::new(),
            nearest: None,
            unwanted: None,
            gone: 0,
            ended: None,
        }))
    };
    let again = 5 * 60 + 1;
    for second in 2..again {
        plan.workload(at(second * 1_000), waits(gang(State::Queued), of(second as u32), &pods));
        api.work(&mut plan, at(second * 1_000));
    }
    assert_eq!(conditions(&api).len(), 3, "none of them is worth a write");
    let says = api.status("g").conditions[0].message.clone();
    assert!(says.contains(&format!("{} of 1000", again - 1)), "{says}");
    api.work(&mut plan, at(again * 1_000));
    assert_eq!(conditions(&api).len(), 6, "once in five minutes");
    // A new reason is said at once.
    let behind = Reason::Behind { ahead: 1, queue: "q".into() };
    let changed = (again + 1) * 1_000;
    plan.workload(at(changed), waits(gang(State::Queued), of(7), &pods));
    api.work(&mut plan, at(changed));
    plan.workload(at(changed), waits(gang(State::Queued), behind, &pods));
    api.work(&mut plan, at(changed));
    assert_eq!(conditions(&api)[6], ("g-0".to_owned(), "PendingEvaluation".to_owned()));
    // What is placed says nothing more, not even what was due.
    plan.workload(at(changed + 100), waits(gang(State::Queued), room(1), &pods));
    plan.workload(at(changed + 200), gang(State::Binding));
    api.work(&mut plan, at(changed + 9_000));
    assert_eq!(conditions(&api).len(), 9);
    let first = api.writes.iter().filter(|(_, write)| matches!(write, Write::Condition(..)));
    assert_eq!(first.count(), 3, "since when a pod waits is said once");
}

#[test]
fn extra_members_of_a_gang_that_runs_say_what_they_wait_for() {
    let (mut plan, mut api) = ready();
    let mut runs = waits(gang(State::Running), room(0), &["g-3"]);
    runs.view.state = State::Running;
    runs.view.reason = Some(Reason::Extras { waiting: 1, then: Some(Box::new(room(0))) });
    plan.workload(at(0), runs.clone());
    api.work(&mut plan, at(1_000));
    let said = |api: &Api| {
        api.writes.iter().filter(|(_, write)| matches!(write, Write::Condition(..))).count()
    };
    assert_eq!(said(&api), 1);
    let status = api.status("g");
    let admitted = holds(&status.conditions, "Admitted").expect("it runs");
    assert!(admitted.message.starts_with("1 extra member waits: "), "{}", admitted.message);
    // Those that run say nothing.
    (runs.view.reason, runs.waiting) = (None, Vec::new());
    plan.workload(at(9_000), runs);
    api.work(&mut plan, at(20_000));
    assert_eq!(said(&api), 1);
}

#[test]
fn members_of_a_gang_that_is_not_whole_yet_say_nothing() {
    let (mut plan, mut api) = ready();
    let mut gathering =
        waits(gang(State::Gathering), Reason::Gathering { have: 1, need: 3 }, &["g-0"]);
    gathering.view.state = State::Gathering;
    for second in 0..60 {
        plan.workload(at(second * 1_000), gathering.clone());
        api.work(&mut plan, at(second * 1_000));
    }
    assert_eq!(conditions(&api), []);
    assert_eq!(api.status("g").conditions, [], "nor does its Workload");
    // What was due while it was whole is not said either.
    plan.workload(at(60_000), waits(gang(State::Queued), room(1), &["g-0"]));
    plan.workload(at(60_500), gathering);
    api.work(&mut plan, at(90_000));
    assert_eq!(conditions(&api), []);
}

/// Autoscalers would build nodes for what cannot start.
#[test]
fn members_ask_for_no_nodes_once_others_of_their_gang_are_missing() {
    let (mut plan, mut api) = ready();
    let pods = ["g-0", "g-1"];
    plan.workload(at(0), waits(gang(State::Queued), room(1), &pods));
    api.work(&mut plan, at(1_000));
    let mut gathers = waits(gang(State::Queued), Reason::Gathering { have: 2, need: 3 }, &pods);
    gathers.view.state = State::Gathering;
    plan.workload(at(5_000), gathers.clone());
    api.work(&mut plan, at(6_000));
    let all: Vec<_> = ["Unschedulable", "Gathering"]
        .iter()
        .flat_map(|why| pods.map(|pod| (pod.to_owned(), (*why).to_owned())))
        .collect();
    assert_eq!(conditions(&api), all);
    plan.workload(at(400_000), gathers);
    api.work(&mut plan, at(800_000));
    assert_eq!(conditions(&api), all, "and nothing more of that");
}

/// Pods and nodes for which they were nominated, in the order written.
fn nominations(api: &Api) -> Vec<(String, Option<String>)> {
    let of = |(key, write): &(Key, Write)| match (key, write) {
        (Key::Pod(pod), Write::Condition(said, _) | Write::Reword(said, _)) => {
            Some((pod.name.to_string(), said.node.as_ref().map(ToString::to_string)))
        }
        _ => None,
    };
    api.writes.iter().filter_map(of).collect()
}

/// Members of a gang for which room is made on these nodes.
fn reserved(on: &[(&str, &str)]) -> WorkloadDetails {
    let pods: Vec<&str> = on.iter().map(|it| it.0).collect();
    let mut details = waits(gang(State::Reserved), Reason::WaitingForVictims { victims: 1 }, &pods);
    details.view.state = State::Reserved;
    for (pod, (_, node)) in details.waiting.iter().zip(on) {
        details.planned.insert(pod.uid.clone(), (*node).into());
    }
    details
}

fn named(pod: &str, node: &str) -> (String, Option<String>) {
    (pod.to_owned(), Some(node.to_owned()))
}

#[test]
fn members_name_the_nodes_where_room_is_made_for_them_until_it_is_not() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), reserved(&[("g-0", "n1"), ("g-1", "n2")]));
    api.work(&mut plan, at(ROOM_PATIENCE.0));
    assert_eq!(nominations(&api), [named("g-0", "n1"), named("g-1", "n2")]);
    // Another plan is told at once, though the word for why it waits is the same.
    plan.workload(at(6_000), reserved(&[("g-0", "n1"), ("g-1", "n3")]));
    api.work(&mut plan, at(7_000));
    assert_eq!(nominations(&api)[2..], [named("g-1", "n3")]);
    // The plan is given up: it gathers, of which nothing else would be told.
    let victims = Reason::WaitingForVictims { victims: 1 };
    let mut gathering = waits(gang(State::Gathering), victims, &["g-0", "g-1"]);
    gathering.view.state = State::Gathering;
    gathering.view.reason = Some(Reason::Gathering { have: 2, need: 3 });
    plan.workload(at(8_000), gathering.clone());
    api.work(&mut plan, at(10_000));
    let cleared = |pod: &str| (pod.to_owned(), None);
    assert_eq!(nominations(&api)[3..], [cleared("g-0"), cleared("g-1")]);
    plan.workload(at(400_000), gathering);
    api.work(&mut plan, at(800_000));
    assert_eq!(nominations(&api).len(), 5);
}

/// A team takes its quota back: hundreds of members are told where they go, and go there.
#[test]
fn a_preemption_that_goes_through_at_once_is_not_told_on_members_of_a_gang() {
    let (mut plan, mut api) = ready();
    let patience = ROOM_PATIENCE.0;
    // It waits for quota for a moment; another plan does not begin the wait anew.
    let behind = Reason::Behind { ahead: 1, queue: "q".into() };
    plan.workload(at(0), waits(gang(State::Queued), behind, &["g-0", "g-1"]));
    for (ms, node) in [(100, "n1"), (2_000, "n2")] {
        plan.workload(at(ms), reserved(&[("g-0", node), ("g-1", node)]));
        api.work(&mut plan, at(ms));
    }
    api.work(&mut plan, at(100 + patience - 1));
    assert_eq!(nominations(&api), []);
    plan.workload(at(100 + patience - 1), gang(State::Binding));
    api.work(&mut plan, at(60_000));
    assert_eq!(nominations(&api), [], "they have nodes by now");
    // Its victims take their time.
    plan.workload(at(100_000), reserved(&[("g-0", "n1")]));
    plan.workload(at(102_000), reserved(&[("g-0", "n2")]));
    api.work(&mut plan, at(100_000 + patience));
    assert_eq!(nominations(&api), [named("g-0", "n2")]);
    let first = api.writes.iter().filter(|(_, write)| matches!(write, Write::Condition(..)));
    assert_eq!(first.count(), 1);
}

#[test]
fn who_asked_for_nodes_or_is_no_gang_names_its_node_at_once() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), waits(gang(State::Queued), room(1), &["g-0"]));
    api.work(&mut plan, at(1_000));
    plan.workload(at(2_000), reserved(&[("g-0", "n1")]));
    api.work(&mut plan, at(2_000));
    assert_eq!(nominations(&api), [("g-0".to_owned(), None), named("g-0", "n1")]);
    // A word that nobody acts on may stand for a while.
    let behind = || Reason::Behind { ahead: 1, queue: "q".into() };
    plan.workload(at(3_000), waits(gang(State::Queued), behind(), &["g-1"]));
    api.work(&mut plan, at(4_000));
    plan.workload(at(5_000), reserved(&[("g-1", "n1")]));
    api.work(&mut plan, at(5_000 + ROOM_PATIENCE.0 - 1));
    assert_eq!(nominations(&api)[2..], [("g-1".to_owned(), None)]);
    api.work(&mut plan, at(5_000 + ROOM_PATIENCE.0));
    assert_eq!(nominations(&api)[3..], [named("g-1", "n1")]);
    // It is tried first where it is nominated, by whoever leads then.
    let mut alone = waits(lone(State::Reserved), behind(), &["p"]);
    alone.view.state = State::Reserved;
    alone.planned.insert(alone.waiting[0].uid.clone(), "n7".into());
    plan.workload(at(20_000), alone);
    api.work(&mut plan, at(20_000 + PATIENCE.0));
    assert_eq!(nominations(&api)[4..], [named("p", "n7")]);
}
