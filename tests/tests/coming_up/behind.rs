//! Where work queues that did not come up once: behind others as long as that is why it waits.

use super::*;

/// It did not come up, was admitted again, and starts.
fn admitted_again(within: PreemptWithin) -> Engine {
    let mut owner = train("train", 2);
    let unready_at = Some(NOW);
    let note = RequeueNote { at: NOW, unready: 1, unready_at, ..RequeueNote::default() };
    (owner.requeued, owner.incarnation) = (Some(note.into()), 1);
    let mut facts = ground(ready(), 2);
    for fact in &mut facts {
        if let Input::ClusterQueue(queue) = fact {
            queue.preemption.within_cluster_queue = within;
        }
    }
    facts.push(Input::Owner(owner.clone()));
    let mut engine = Engine::new();
    let output = engine.step(after(60), facts);
    comes_up(&mut engine, after(61), &mut owner, &output, PodPhase::Pending);
    engine
}

/// Its next run stands where it was made: it was stopped for another, and not for its pods.
#[test]
fn who_is_preempted_since_returns_to_its_old_place() {
    let mut engine = admitted_again(PreemptWithin::LowerPriority);
    let urgent = OwnerFacts { priority: 10, ..train("urgent", 2) };
    let output = engine.step(after(70), vec![Input::Owner(urgent)]);
    let (_, note) = suspends(&output).pop().expect("it leaves for urgent");
    assert_eq!((note.unready, note.unready_at), (1, None));
    engine.recount();
}

/// Whoever was made after it is no older than it for that it did not come up once.
#[test]
fn who_is_admitted_since_is_as_old_as_it_was_made() {
    let mut engine = admitted_again(PreemptWithin::LowerOrNewerEqual);
    let rival = OwnerFacts { created: Time(5), ..train("rival", 2) };
    let output = engine.step(after(70), vec![Input::Owner(rival)]);
    assert!(suspends(&output).is_empty());
    engine.recount();
}
