//! A Job whose pods follow each other: who ended well came up, and others may take their time.

use super::*;

/// Three at a time, and so many in all; all run and are ready, and one of them ends well.
fn one_ended(all: u32) -> (Engine, OwnerFacts, Vec<PodFacts>) {
    let train = OwnerFacts { left: Some(all), replaces: all - 3, ..train("t", 3) };
    let train = OwnerFacts { suspended: false, ..train };
    let (mut engine, pods) = (Engine::new(), pods_of(&train));
    let facts = ground(ready(), 3).into_iter().chain([Input::Owner(train.clone())]);
    engine.step(NOW, facts.chain(pods.iter().map(|pod| bound(pod, "n"))).collect());
    engine.step(after(1), vec![Input::PodEnded { pod: pods[0].uid.clone(), well: true }]);
    (engine, train, pods)
}

/// Its follower waits for its image for longer than work has to recover.
#[test]
fn a_job_is_up_while_who_follows_starts() {
    let (mut engine, train, pods) = one_ended(6);
    let (uid, name) = (text("next"), text("next"));
    let next = PodFacts { uid, name, created: after(1), ..pods[0].clone() };
    let output = engine.step(after(2), vec![Input::Pod(next.clone())]);
    assert_eq!(binds(&output), [("next".to_owned(), "n".to_owned())]);
    let Input::Pod(shown) = bound(&next, "n") else { unreachable!("it is a pod") };
    let counted = OwnerFacts { ended: 1, left: Some(5), ..train };
    let shown = Input::Pod(PodFacts { phase: PodPhase::Pending, ..shown });
    engine.step(after(3), vec![shown, Input::Owner(counted)]);
    assert_eq!(suspends(&engine.step(after(900), vec![])), []);
    engine.recount();
}

/// Nobody follows: two of three have to be there.
#[test]
fn who_is_followed_by_nobody_stands_for_nobody() {
    let (mut engine, train, pods) = one_ended(3);
    let counted = OwnerFacts { ended: 1, left: Some(2), min_member: 2, ..train };
    let Input::Pod(fell) = bound(&pods[1], "n") else { unreachable!("it is a pod") };
    let fell = Input::Pod(PodFacts { phase: PodPhase::Unready, ..fell });
    engine.step(after(3), vec![fell, Input::Owner(counted)]);
    assert_eq!(suspends(&engine.step(after(900), vec![])).len(), 1);
    engine.recount();
}
