//! Starts that heads of strict queues keep others from: nobody is held for what does not come.

use super::*;

fn strict(name: &str, gpus: i64) -> ClusterQueueFacts {
    ClusterQueueFacts {
        strategy: QueueingStrategy::StrictFifo,
        ..queue(name, Some("all"), nominal(gpus))
    }
}

/// Who comes to stand before it waits for work of which nobody knows when it ends.
#[test]
fn a_head_of_a_strict_queue_loses_its_start_to_who_comes_before_it() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, strict("main", 5));
    add_queue(&mut stage, queue("other", Some("all"), nominal(5)));
    submit(&mut stage, work_in("silent", (1, 2), None, Some("other")));
    submit(&mut stage, work_in("runs", (1, 6), Some(30), Some("other")));
    submit(&mut stage, work_in("first", (1, 4), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "first"), Some(30));
    at(&mut stage, 10);
    let urgent = work_in("urgent", (9, 1), Some(30), Some("main"));
    submit(&mut stage, of_priority(urgent, 1));
    assert_eq!((reserved(&stage, "first"), reserved(&stage, "urgent")), (None, None));
    submit(&mut stage, work_in("long", (1, 5), Some(120), Some("other")));
    at(&mut stage, 30);
    assert!(runs(&stage, "long"), "nothing is kept for who is not the head");
}

#[test]
fn a_head_of_a_strict_queue_keeps_its_start_where_who_comes_before_it_begins_at_once() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, strict("main", 8));
    add_queue(&mut stage, queue("other", Some("all"), nominal(2)));
    submit(&mut stage, work_in("long", (1, 5), Some(60), Some("other")));
    submit(&mut stage, work_in("longer", (1, 2), Some(80), Some("other")));
    at(&mut stage, 1);
    submit(&mut stage, work_in("big", (9, 1), Some(90), Some("main")));
    assert_eq!(reserved(&stage, "big"), Some(80));
    at(&mut stage, 2);
    submit(&mut stage, work_in("behind", (7, 1), Some(90), Some("other")));
    at(&mut stage, 3);
    let urgent = work_in("urgent", (1, 1), Some(100), Some("main"));
    submit(&mut stage, of_priority(urgent, 5));
    assert_eq!((runs(&stage, "urgent"), reserved(&stage, "big")), (true, Some(80)));
    at(&mut stage, 60);
    assert!(!runs(&stage, "behind"), "it would delay big");
    at(&mut stage, 80);
    assert!(runs(&stage, "big"));
}

/// Work of queue `main` that borrows, up to minute 30 and for ever, and one of the same cohort that
/// shares only nodes.
fn borrowed() -> Stage {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, strict("owner", 6));
    add_queue(&mut stage, queue("main", Some("all"), nominal(0)));
    add_queue(&mut stage, queue("beside", None, nominal(16)));
    submit(&mut stage, work_in("silent", (1, 1), None, Some("main")));
    submit(&mut stage, work_in("runs", (1, 2), Some(30), Some("main")));
    stage
}

#[test]
fn no_start_is_reserved_that_the_head_of_a_strict_queue_keeps_its_quota_from() {
    let mut stage = borrowed();
    submit(&mut stage, work_in("whole", (6, 1), Some(30), Some("owner")));
    submit(&mut stage, work_in("first", (1, 4), Some(30), Some("main")));
    assert_eq!((reserved(&stage, "whole"), reserved(&stage, "first")), (None, None));
    submit(&mut stage, work_in("large", (12, 1), None, Some("beside")));
    assert!(runs(&stage, "large"));
}

#[test]
fn a_start_that_is_due_and_kept_back_by_the_head_of_a_strict_queue_is_given_up() {
    let mut stage = borrowed();
    submit(&mut stage, work_in("first", (1, 4), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "first"), Some(30));
    at(&mut stage, 10);
    submit(&mut stage, work_in("whole", (6, 1), Some(30), Some("owner")));
    submit(&mut stage, work_in("large", (12, 1), None, Some("beside")));
    at(&mut stage, 30);
    assert_eq!((reserved(&stage, "whole"), reserved(&stage, "first")), (None, None));
    assert!(!runs(&stage, "whole") && !runs(&stage, "first"));
    assert!(runs(&stage, "large"));
}

/// What a head that is parked then kept back in one round is nothing that lasts.
#[test]
fn a_start_that_another_head_keeps_back_for_a_round_stays() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("owner", Some("all"), nominal(6)));
    add_queue(&mut stage, queue("main", Some("all"), nominal(0)));
    submit(&mut stage, work_in("silent", (1, 1), None, Some("main")));
    submit(&mut stage, work_in("runs", (1, 2), Some(30), Some("main")));
    submit(&mut stage, work_in("whole", (6, 1), Some(30), Some("owner")));
    submit(&mut stage, work_in("first", (1, 4), Some(30), Some("main")));
    assert_eq!((reserved(&stage, "whole"), reserved(&stage, "first")), (None, Some(30)));
    at(&mut stage, 30);
    assert!(runs(&stage, "first"));
}

/// What is told of a start is told beside what the head of a strict queue keeps, of the head of
/// another strict queue as well.
#[test]
fn no_start_is_forecast_that_the_head_of_a_strict_queue_keeps_its_quota_from() {
    let mut stage = borrowed();
    add_queue(&mut stage, strict("third", 0));
    submit(&mut stage, work_in("whole", (6, 1), Some(30), Some("owner")));
    submit(&mut stage, work_in("first", (1, 4), Some(30), Some("main")));
    submit(&mut stage, work_in("head", (1, 4), Some(30), Some("third")));
    submit(&mut stage, work_in("second", (1, 1), Some(30), Some("third")));
    for minute in [0, 30] {
        at(&mut stage, minute);
        for name in ["whole", "first", "head", "second"] {
            assert_eq!(forecast(&mut stage, name), None, "{name} at {minute}");
        }
    }
}
