//! Gangs that run below their minimum take what they lack before any head has its turn: no start is
//! reserved, or told of, that counts on the room of that.

use capstan_core::model::input::PreemptWithin;

use super::*;

/// Work ends at minute 60, and other work nobody knows when. Beside them a gang runs and lacks a
/// member: the one that came asks as many GPUs as each of those, and as `big`, of another queue.
fn beside_a_gang(minutes: Option<i64>, recovery_timeout: Option<Span>) -> Stage {
    let mut stage = stage(&["a"]);
    stage.add([Input::Policy(Policy { recovery_timeout, ..Policy::default() }.into())]);
    for name in ["one", "two"] {
        add_queue(&mut stage, queue(name, None, nominal(50)));
    }
    submit(&mut stage, work_in("ends", (1, 3), Some(60), Some("one")));
    submit(&mut stage, work_in("stays", (1, 3), None, Some("one")));
    let mut members = gang("g", 3, Some(2), &shape(&[(GPU, 1)]), &wishes(minutes, Some("one")));
    let mut late = members.pop().expect("it has three");
    late.shape = shape(&[(GPU, 3)]);
    let lost = members[1].uid.clone();
    submit(&mut stage, members);
    stage.drop_pod(&lost);
    submit(&mut stage, vec![late]);
    submit(&mut stage, work_in("big", (1, 3), Some(30), Some("two")));
    assert_eq!(placed(&stage), 1, "there is no room for the other one");
    stage
}

/// Members of the gang that have places.
fn placed(stage: &Stage) -> usize {
    view(stage, "g").pods.iter().filter(|place| place.node.is_some()).count()
}

fn remedies(stage: &mut Stage) -> Vec<String> {
    let found = stage.engine.explain_workload(stage.now, TEAM, "big").expect("it exists");
    stage.engine.recount();
    found.remedies.iter().map(ToString::to_string).collect()
}

#[test]
fn no_start_counts_on_what_a_gang_lacks_that_runs() {
    let mut stage = beside_a_gang(None, None);
    assert_eq!((reserved(&stage, "big"), starts(&mut stage, "big")), (None, None));
    let words = |of: &str| format!("wait for team/{of} to end, unless team/g goes first");
    let told = remedies(&mut stage);
    for of in ["ends", "stays"] {
        assert!(told.contains(&words(of)), "{told:?}");
    }
    at(&mut stage, 60);
    assert_eq!((placed(&stage), runs(&stage, "big")), (2, false));
    // Whose end leaves enough for both.
    assert!(remedies(&mut stage).contains(&"wait for team/stays to end".to_owned()));
}

#[test]
fn who_waits_for_what_a_gang_lacks_starts_once_that_has_ended() {
    let mut stage = beside_a_gang(Some(120), None);
    assert_eq!((reserved(&stage, "big"), starts(&mut stage, "big")), (Some(180), Some(180)));
    at(&mut stage, 60);
    assert_eq!((placed(&stage), reserved(&stage, "big")), (2, Some(180)));
}

/// By then it is stopped.
#[test]
fn a_gang_that_does_not_stay_in_part_takes_nothing_later() {
    let mut stage = beside_a_gang(None, Some(Span::minutes(5)));
    assert_eq!((reserved(&stage, "big"), starts(&mut stage, "big")), (Some(60), Some(60)));
    let told = remedies(&mut stage);
    assert!(told.contains(&"wait for team/ends to end".to_owned()), "{told:?}");
}

/// Who could stop it once it is whole goes before it.
#[test]
fn a_gang_of_lower_priority_takes_nothing_before() {
    let mut stage = beside_a_gang(None, None);
    let urgent = of_priority(work_in("urgent", (1, 3), Some(30), Some("one")), 9);
    let mut one = queue("one", None, nominal(50));
    one.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    // It stops nobody as things are: all that would leave is worth more.
    let pods: Vec<PodFacts> = stage.pods.values().cloned().collect();
    let high = pods.into_iter().filter(|pod| ["ends", "stays"].contains(&&*pod.name));
    stage.add(high.map(|pod| Input::Pod(PodFacts { priority: 99, ..pod })));
    stage.add([Input::ClusterQueue(one)]);
    stage.settle(|_| {});
    submit(&mut stage, urgent);
    assert_eq!(reserved(&stage, "urgent"), Some(60));
    at(&mut stage, 60);
    assert_eq!((placed(&stage), runs(&stage, "urgent")), (1, true));
}
