//! Pods that come late with scheduling gates: their places stay theirs, and nobody is stopped for
//! their sake.

use super::*;

/// Whether anybody is stopped.
fn stops(output: &StepOutput) -> bool {
    let stops = |effect: &Effect| {
        matches!(effect.action, Action::Evict { .. } | Action::SuspendOwner { .. })
    };
    output.effects.iter().any(stops)
}

/// The launcher comes with a gate. Its place is nobody else's, nobody is stopped for its sake, and
/// it is counted once.
#[test]
fn who_comes_with_a_gate_has_its_place_once_that_is_taken_away() {
    let owner = running("m", 2);
    let mut numbered = grouped("m", 2);
    for PodFacts { gang, .. } in &mut numbered {
        gang.key = GangKey::Group(GangSource::KueueGroup, text("m"));
        (gang.source, gang.min_member, gang.total) = (GangSource::KueueGroup, None, Some(3));
    }
    let gangs = [(true, pods_of(&owner)), (false, grouped("m", 2)), (false, numbered)];
    for (owned, mut pods) in gangs {
        let mut engine = engine(3, 8);
        let facts = owned.then(|| Input::Owner(owner.clone())).into_iter();
        let facts = facts.chain(pods[..2].iter().cloned().map(Input::Pod));
        let first = engine.step(NOW, facts.collect());
        assert_eq!(binds(&first).len(), 2);
        settle(&mut engine, NOW, &first);
        engine.step(after(1), pods[..2].iter().map(|pod| bound(pod, "n")).collect());
        pods[2].gated = true;
        let came = engine.step(after(2), vec![Input::Pod(pods[2].clone()), rival("r")]);
        assert_eq!(binds(&came), []);
        settle(&mut engine, after(2), &came);
        let later = engine.step(after(7_200), vec![]);
        assert!(binds(&later).is_empty() && !stops(&later), "{:?}", later.effects);
        let told = engine.details(&text(TEAM), &text("m")).expect("it is there");
        assert_eq!((told.members, told.needed, told.placed), (3, 3, 2));
        assert_eq!(told.view.pod_sets.iter().map(|set| set.count).sum::<u32>(), 3);
        let why = told.view.reason.map(|reason| reason.to_string());
        assert_eq!(why.as_deref(), Some("2 of 3 members run; 1 pod has scheduling gates"));
        pods[2].gated = false;
        let open = seen(&mut engine, after(7_201), &pods[2..]);
        assert_eq!(binds(&open), [(pods[2].name.to_string(), "n".to_owned())]);
        assert_eq!(view(&engine, "m").reason, None);
    }
}

/// A new engine finds no room for the launcher, which has a gate: those that run are stopped only
/// once that has been taken away for as long as a gang may stay in part.
#[test]
fn nobody_is_stopped_because_of_a_gate() {
    let mut engine = Engine::new();
    let owner = running("m", 2);
    let mut pods = pods_of(&owner);
    pods[2].gated = true;
    let ground = one_queue(8).into_iter().chain([gpu_node("n", 2), Input::Owner(owner)]);
    let runs = pods[..2].iter().map(|pod| bound(pod, "n"));
    engine.step(NOW, ground.chain(runs).chain([Input::Pod(pods[2].clone())]).collect());
    let why = view(&engine, "m").reason;
    assert!(matches!(why, Some(Reason::Incomplete { have: 2, need: 3, .. })), "{why:?}");
    assert!(!stops(&engine.step(after(7_000), vec![])));
    pods[2].gated = false;
    engine.step(after(7_100), vec![Input::Pod(pods[2].clone())]);
    assert!(!stops(&engine.step(after(7_399), vec![])));
    assert!(stops(&engine.step(after(7_400), vec![])));
    engine.recount();
}

/// The first worker comes with a gate: its place stays its own, not that of another number.
#[test]
fn a_gate_leaves_the_place_of_its_number_alone() {
    let mut pods = sliced(3);
    let mut engine = Engine::new();
    let ground = [namespace(), rack("o", 3), rack("a", 2), rack("b", 1)];
    engine.step(NOW, ground.into_iter().chain([bound(&pods[0], "o")]).collect());
    pods[1].gated = true;
    let gated = engine.step(after(1), vec![Input::Pod(pods[1].clone()), rival("r")]);
    assert_eq!(binds(&gated), []);
    settle(&mut engine, after(1), &gated);
    let others = seen(&mut engine, after(2), &pods[2..]);
    assert_eq!(binds(&others), pairs(&[("g-2", "a"), ("g-3", "b")]));
    pods[1].gated = false;
    let open = seen(&mut engine, after(3), &pods[1..2]);
    assert_eq!(binds(&open), pairs(&[("g-1", "a")]));
}

/// The pod of a place that is kept is shown once, by itself.
#[test]
fn who_has_a_gate_is_shown_once() {
    let mut engine = engine(3, 8);
    let mut pods = grouped("m", 2);
    let first = seen(&mut engine, NOW, &pods[..2]);
    assert_eq!(binds(&first).len(), 2);
    engine.step(after(1), pods[..2].iter().map(|pod| bound(pod, "n")).collect());
    let mut places = view(&engine, "m").pods;
    places.retain(|it| pods.iter().all(|pod| pod.name != it.pod));
    let kept = places.pop().expect("a place is kept").pod;
    (pods[2].name, pods[2].gated) = (kept.clone(), true);
    engine.step(after(2), vec![Input::Pod(pods[2].clone())]);
    let shown = view(&engine, "m").pods;
    let of_name = shown.iter().filter(|it| it.pod == kept).count();
    assert_eq!((of_name, shown.len()), (1, 3), "{shown:?}");
}
