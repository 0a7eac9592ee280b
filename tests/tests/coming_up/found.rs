//! What a new engine finds that was admitted longer ago than it had to start, and of which no
//! member has started: nobody was there to stop it.

use super::*;

/// A train that was stopped once for its pods, and admitted an hour ago; its members, made so long
/// after that, wait for their images. Stops once a new engine is there.
fn stops(ready: PodsReady, made: Span) -> Vec<(Preemption, RequeueNote)> {
    let mut owner = train("train", 2);
    let note = RequeueNote { at: after(-9_000), unready: 1, ..RequeueNote::default() };
    (owner.requeued, owner.incarnation, owner.suspended) = (Some(note.into()), 1, false);
    let admitted = after(-3_600);
    let written = BindingNote { admitted_at: Some(admitted), ..BindingNote::default() };
    owner.admitted = Some(written.clone());
    let found = pods_of(&owner).into_iter().map(|pod| {
        let (binding, created) = (Some(written.clone().into()), admitted.plus(made));
        let node = Some(text("n"));
        Input::Pod(PodFacts { node, phase: PodPhase::Pending, binding, created, ..pod })
    });
    let facts = ground(ready, 2).into_iter().chain(found);
    let mut engine = Engine::new();
    let begun = engine.step(NOW, facts.chain([Input::Owner(owner.clone())]).collect());
    let next = engine.step(after(1), vec![]);
    engine.recount();
    [begun, next].iter().flat_map(suspends).collect()
}

/// It is stopped at once as what never started, and counts as that: with or without time to recover
/// from what fails later.
#[test]
fn what_never_started_is_stopped_by_whoever_comes_next() {
    for recovery in [None, Some(Span::minutes(2))] {
        let stops = stops(PodsReady { recovery, ..ready() }, Span::seconds(5));
        let [(stop, note)] = &stops[..] else { panic!("{stops:?} with {recovery:?}") };
        let never = matches!(stop.reason, PreemptionReason::PodsNotReady { fell: false, .. });
        assert!(never && note.unready == 2, "{:?} {note:?}", stop.reason);
    }
}

/// Members that were made after it had to start stand in for others: it was not stopped then.
#[test]
fn what_has_members_that_were_made_later_had_started() {
    let stops = stops(ready(), Span::minutes(30));
    assert!(stops.is_empty(), "{stops:?}");
}
