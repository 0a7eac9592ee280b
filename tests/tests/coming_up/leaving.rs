//! Owners that make no new pods before those of their last run have gone, as Jobs with
//! `podReplacementPolicy: Failed`.

use super::*;

/// A train that was stopped for another while it ran, and is resumed on another node at once; its
/// old pods take their time.
fn resumed(ready: Option<PodsReady>) -> (Engine, OwnerFacts, Vec<PodFacts>) {
    let mut owner = train("train", 2);
    let note = RequeueNote { at: NOW, ..RequeueNote::default() };
    let mut facts = ground(super::ready(), 2);
    facts.retain(|fact| !matches!(fact, Input::Policy(_)));
    let policy = Policy { pods_ready: ready, ..Policy::default() };
    facts.extend([Input::Policy(policy.into()), gpu_node("other", 2)]);
    let old = pods_of(&owner).into_iter();
    let old = old.map(|pod| PodFacts {
        node: Some(text("n")),
        phase: PodPhase::Running,
        terminating: true,
        ..pod
    });
    let old: Vec<PodFacts> = old.collect();
    facts.extend(old.iter().cloned().map(Input::Pod));
    (owner.requeued, owner.incarnation) = (Some(note.into()), 1);
    facts.push(Input::Owner(owner.clone()));
    for fact in &mut facts {
        if let Input::ClusterQueue(queue) = fact {
            *queue = cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(4))])]));
        }
    }
    let mut engine = Engine::new();
    let output = engine.step(after(1), facts);
    let [(name, note)] = &resumes(&output)[..] else { panic!("{:?}", output.effects) };
    assert_eq!(name, "train");
    (owner.suspended, owner.admitted) = (false, Some(note.clone()));
    let done = output.effects.iter().map(|effect| answer(effect, EffectResult::Done));
    let done: Vec<Input> = done.chain([Input::Owner(owner.clone())]).collect();
    engine.step(after(2), done);
    (engine, owner, old)
}

/// With or without a time to start: it has its time once the last of them has gone.
#[test]
fn whose_own_pods_leave_is_not_stopped_for_pods_that_do_not_come() {
    let ten = PodsReady { timeout: Span::minutes(10), ..ready() };
    for (ready, patience) in [(None, 60), (Some(ten), 600)] {
        let (mut engine, _, old) = resumed(ready);
        for second in (30..=1_200).step_by(30) {
            let output = engine.step(after(second), vec![]);
            assert!(suspends(&output).is_empty(), "at {second}");
            if ready.is_some() && second == 570 {
                break;
            }
        }
        let begin = if ready.is_some() { 571 } else { 1_201 };
        let gone = old.iter().map(|pod| Input::PodGone(pod.uid.clone()));
        assert!(suspends(&engine.step(after(begin), gone.collect())).is_empty());
        let mut stopped = None;
        for second in (begin..begin + 2 * patience).step_by(10) {
            let output = engine.step(after(second), vec![]);
            if let [(_, note)] = &suspends(&output)[..] {
                stopped = Some((second, note.unready));
                break;
            }
        }
        let (second, unready) = stopped.expect("none of its pods comes");
        assert!(second <= begin + patience + 10, "{second}");
        assert_eq!(unready, 1, "the pause before it is tried again is longer each time");
        engine.recount();
    }
}
