//! Gangs whose members several make, each of whom makes others later: what their minimum is.

use super::*;

/// Leaders of one gang, each of a maker of its own that makes two workers once it runs.
fn led(makers: &[&str], counted: u32) -> Vec<PodFacts> {
    let one = shape(&[(GPU, 1)]);
    let mut pods = gang("g", makers.len() as u32, Some(1), &one, &in_queue(Some("main")));
    for (pod, maker) in pods.iter_mut().zip(makers) {
        let sets = vec![OwnerPodSet { before: 1, ..set("worker", 2, Some(0)) }];
        let counted = Some(counted);
        let known = ToCome { maker: text(maker), sets, counted, ..ToCome::default() };
        pod.gang.to_come = Some(Arc::new(known));
    }
    pods
}

/// Another member, which nobody makes and that says what is stated.
fn beside(counted: u32) -> PodFacts {
    let one = shape(&[(GPU, 1)]);
    let router = gang("g", 1, Some(counted), &one, &in_queue(Some("main"))).remove(0);
    PodFacts { uid: text("router"), name: text("router"), ..router }
}

#[test]
fn a_minimum_over_several_makers_counts_the_places_of_all() {
    for (gpus, begin) in [(5, 0), (6, 2)] {
        let mut engine = engine(gpus, 8);
        let output = seen(&mut engine, NOW, &led(&["a", "b"], 6));
        assert_eq!((view(&engine, "g").min_member, binds(&output).len()), (6, begin), "{gpus}");
    }
}

/// A minimum of four: a leader, its two workers, and one that is made by nobody known.
#[test]
fn who_is_made_by_another_is_waited_for_beside_places() {
    let mut engine = engine(8, 8);
    assert_eq!(binds(&seen(&mut engine, NOW, &led(&["a"], 4))), []);
    let shown = view(&engine, "g");
    let why = Some(Reason::Gathering { have: 1, need: 4 });
    assert_eq!((shown.state, shown.reason), (State::Gathering, why), "a place is no pod");
    let output = seen(&mut engine, after(1), &[beside(4)]);
    assert_eq!(binds(&output).len(), 2);
}

/// The same, and what the workers will look like nobody knows.
#[test]
fn nobody_waits_for_those_of_whom_no_places_are_kept() {
    let mut engine = engine(8, 8);
    let told = |pod: &mut PodFacts, own: Option<&str>, unplaced: u32| {
        let (maker, own, counted) = (text("a"), own.map(text), Some(4));
        let known = ToCome { maker, own, counted, unplaced, ..ToCome::default() };
        pod.gang.to_come = Some(Arc::new(known));
    };
    let mut leader = led(&["a"], 4).remove(0);
    told(&mut leader, None, 2);
    let output = seen(&mut engine, NOW, &[leader, beside(4)]);
    assert_eq!((binds(&output).len(), view(&engine, "g").min_member), (2, 2));
    // Those come, and wait for each other.
    let mut workers = led(&["a", "a", "a"], 4);
    workers.remove(0);
    for worker in &mut workers {
        worker.gang.min_member = Some(3);
        told(worker, Some("worker"), 0);
    }
    let output = seen(&mut engine, after(60), &workers[..1]);
    assert_eq!((binds(&output), view(&engine, "g").min_member), (Vec::new(), 4));
    let output = seen(&mut engine, after(61), &workers[1..]);
    assert_eq!(binds(&output).len(), 2);
}

#[test]
fn a_minimum_over_several_makers_is_less_those_that_came_last_and_ended() {
    let mut engine = engine(6, 8);
    let (mut pods, mut launchers) = (Vec::new(), Vec::new());
    for maker in ["a", "b"] {
        let mut of_maker = grouped(maker, 2);
        for pod in &mut of_maker {
            let known = pod.gang.to_come.as_deref().expect("it was said").clone();
            pod.gang.to_come = Some(Arc::new(ToCome { counted: Some(6), ..known }));
            pod.gang.key = led(&["a"], 6)[0].gang.key.clone();
            pod.gang.name = text("g");
        }
        launchers.extend(of_maker.pop());
        pods.extend(of_maker);
    }
    assert_eq!(binds(&seen(&mut engine, NOW, &pods)).len(), 4);
    assert_eq!(binds(&seen(&mut engine, after(60), &launchers)).len(), 2);
    let ended = |pod: &PodFacts| {
        let (phase, node) = (PodPhase::Succeeded, Some(text("n")));
        PodFacts { phase, node, ..pod.clone() }
    };
    seen(&mut engine, after(61), &launchers.iter().map(ended).collect::<Vec<_>>());
    assert_eq!(view(&engine, "g").min_member, 4);
}
