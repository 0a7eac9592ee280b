//! What pods say while they wait, and how often.

use super::*;

/// Pod and reason of every condition that was written.
fn conditions(api: &Api) -> Vec<(String, String)> {
    let said = api.writes.iter().filter_map(|(key, write)| match (key, write) {
        (Key::Pod(pod), Write::Condition(said)) => {
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
            asked: 3,
            holds: nodes,
            refusals: Vec::new(),
            nearest: None,
            unwanted: None,
            gone: 0,
        }))
    };
    let again = 5 * 60 + 1;
    for second in 2..again {
        plan.workload(at(second * 1_000), waits(gang(State::Queued), of(second as u32), &pods));
        api.work(&mut plan, at(second * 1_000));
    }
    assert_eq!(conditions(&api).len(), 3, "none of them is worth a write");
    let says = api.status("g").conditions[0].message.clone();
    assert!(says.contains(&format!("{} of 3", again - 1)), "{says}");
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
        api.writes.iter().filter(|(_, write)| matches!(write, Write::Condition(_))).count()
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
