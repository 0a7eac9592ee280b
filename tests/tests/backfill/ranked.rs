//! Heads of different ranks with reserved starts: who goes after a head never moves its start, be
//! it by way of others.

use capstan_tests::facts::cohort;

use super::shares::share_fairly;
use super::*;

/// Two nodes of which one is full until minute 60, by work of queue `main`.
fn half_full() -> Stage {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("main", Some("all"), nominal(16)));
    add_queue(&mut stage, queue("other", Some("all"), nominal(0)));
    submit(&mut stage, work_in("long", (1, 8), Some(60), Some("main")));
    stage
}

/// Whoever comes next of the same queue would run a little longer than until then.
#[test]
fn younger_work_of_a_queue_does_not_pass_its_head_behind_work_without_a_queue() {
    let mut stage = half_full();
    submit(&mut stage, of_priority(work("urgent", (2, 8), Some(30)), 10));
    assert_eq!(reserved(&stage, "urgent"), Some(60));
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    assert_eq!((reserved(&stage, "big"), reserved(&stage, "urgent")), (Some(60), Some(90)));
    for minute in (10..60).step_by(10) {
        at(&mut stage, minute);
        let name = format!("young-{minute}");
        submit(&mut stage, work_in(&name, (1, 8), Some(55), Some("main")));
        assert_eq!(held_for(&stage, &name), Some(("team/big".into(), 60)));
        assert_eq!(reserved(&stage, "big"), Some(60), "minute {minute}");
    }
    at(&mut stage, 60);
    assert!(runs(&stage, "big"));
}

/// Who comes next would borrow nothing, and goes before the borrower that its head waits behind.
#[test]
fn who_stands_behind_a_head_is_held_for_whom_that_waits_for() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("main", Some("all"), nominal(8)));
    add_queue(&mut stage, queue("other", Some("all"), nominal(16)));
    submit(&mut stage, work_in("x", (1, 8), Some(60), Some("other")));
    submit(&mut stage, work_in("y", (1, 8), Some(40), Some("main")));
    submit(&mut stage, work_in("owner", (2, 8), Some(30), Some("other")));
    let big = work_in("big", (2, 8), Some(30), Some("main"));
    submit(&mut stage, of_priority(big, 5));
    assert_eq!((reserved(&stage, "owner"), reserved(&stage, "big")), (Some(60), Some(90)));
    at(&mut stage, 40);
    // It would put off the owner, and with it big, be that as it may to end before big starts.
    let young = work_in("young", (1, 8), Some(45), Some("main"));
    submit(&mut stage, of_priority(young, 5));
    assert_eq!(held_for(&stage, "young"), Some(("team/owner".into(), 60)));
    at(&mut stage, 60);
    assert!(runs(&stage, "owner"));
    at(&mut stage, 90);
    assert!(runs(&stage, "big"));
}

#[test]
fn a_borrower_of_higher_priority_does_not_move_an_owners_start() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("main", Some("all"), nominal(16)));
    add_queue(&mut stage, queue("other", Some("all"), nominal(0)));
    submit(&mut stage, work_in("long", (1, 8), Some(60), Some("main")));
    submit(&mut stage, work_in("owner", (2, 8), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "owner"), Some(60));
    let urgent = work_in("urgent", (2, 8), Some(30), Some("other"));
    submit(&mut stage, of_priority(urgent, 10));
    assert_eq!((reserved(&stage, "owner"), reserved(&stage, "urgent")), (Some(60), Some(90)));
    at(&mut stage, 60);
    assert!(runs(&stage, "owner"));
}

#[test]
fn work_without_a_queue_does_not_move_a_start_of_lower_priority_in_one() {
    let mut stage = half_full();
    submit(&mut stage, work_in("owner", (2, 8), Some(30), Some("main")));
    submit(&mut stage, of_priority(work("urgent", (2, 8), Some(30)), 10));
    assert_eq!((reserved(&stage, "owner"), reserved(&stage, "urgent")), (Some(60), Some(90)));
    at(&mut stage, 60);
    assert!(runs(&stage, "owner"));
    // That is no matter of who came first.
    let mut stage = half_full();
    submit(&mut stage, of_priority(work("urgent", (2, 8), Some(30)), 10));
    at(&mut stage, 1);
    submit(&mut stage, work_in("owner", (2, 8), Some(30), Some("main")));
    assert_eq!((reserved(&stage, "owner"), reserved(&stage, "urgent")), (Some(60), Some(90)));
}

/// Members above the minimum of a gang that borrows nothing wait for who borrows, too.
#[test]
fn extra_members_delay_no_borrower_of_their_priority() {
    let mut stage = stage(&["a"]);
    add_queue(&mut stage, queue("main", Some("all"), nominal(8)));
    add_queue(&mut stage, queue("other", Some("all"), nominal(0)));
    submit(&mut stage, work_in("runs", (1, 6), Some(60), Some("other")));
    let (shape, wishes) = (shape(&[(GPU, 1)]), wishes(None, Some("main")));
    submit(&mut stage, gang("elastic", 1, Some(1), &shape, &wishes));
    submit(&mut stage, work_in("big", (1, 7), Some(30), Some("other")));
    assert_eq!(reserved(&stage, "big"), Some(60));
    submit(&mut stage, gang("elastic", 2, Some(1), &shape, &wishes).split_off(1));
    let placed = |stage: &Stage| {
        view(stage, "elastic").pods.iter().filter(|place| place.node.is_some()).count()
    };
    assert_eq!(placed(&stage), 1, "the GPU that is free is needed at 60");
    at(&mut stage, 60);
    assert_eq!((runs(&stage, "big"), placed(&stage)), (true, 1));
}

/// It could start at 50, but would borrow then, and two that borrow nothing go before it there: one
/// takes that start, and one would have taken its own, too.
#[test]
fn a_start_without_borrowing_is_kept_while_others_take_a_sooner_one() {
    let mut stage = stage(&["a", "b"]);
    for (name, gpus) in [("main", 8), ("other", 8), ("third", 16)] {
        add_queue(&mut stage, queue(name, Some("all"), nominal(gpus)));
    }
    submit(&mut stage, work_in("long", (1, 8), Some(60), Some("main")));
    submit(&mut stage, of_priority(work("stray", (1, 8), Some(50)), 10));
    let small = (0..17).map(|at| node(&format!("small-{at:02}"), &[(GPU, 1)]));
    stage.add(small.map(|it| Input::Node(it.into())));
    submit(&mut stage, work_in("wide", (17, 1), Some(100), Some("third")));
    let big = work_in("big", (1, 8), Some(10), Some("main"));
    submit(&mut stage, of_priority(big, 5));
    assert_eq!((runs(&stage, "wide"), reserved(&stage, "big")), (true, Some(60)));
    let wide: Vec<Text> = stage.pods.keys().filter(|it| it.starts_with("wide")).cloned().collect();
    wide.iter().for_each(|uid| stage.drop_pod(uid));
    at(&mut stage, 10);
    assert_eq!(reserved(&stage, "big"), Some(60), "at 50 it would borrow");
    submit(&mut stage, work_in("both", (2, 8), Some(30), Some("third")));
    submit(&mut stage, work_in("short", (1, 8), Some(5), Some("other")));
    assert_eq!((reserved(&stage, "short"), reserved(&stage, "both")), (Some(50), Some(70)));
    for minute in [50, 55, 60] {
        at(&mut stage, minute);
    }
    assert!(runs(&stage, "big"));
    at(&mut stage, 70);
    assert!(runs(&stage, "both"));
}

/// Of ten GPUs that queues of one cohort may borrow nine are in use until minute 60, and all from
/// then on until 120, when `endless`, which says no end, is to start. At 60 `late`, which came
/// before it, comes to the front of a queue whose first flavor can never be enough for it: it would
/// borrow the other one as far as that does. Six more GPUs of a cohort above are in use until 170.
fn with_an_endless_equal(above: Option<&str>) -> Stage {
    let mut stage = stage(&["a", "b", "c"]);
    stage.add([Input::Flavor(flavor("spare", &[])), Input::Cohort(cohort("all", above))]);
    let of = |gpus: i64, spare: Quota| {
        group(&[("spare", &[(GPU, spare)]), (DEFAULT, &[(GPU, nominal(gpus))])])
    };
    add_queue(&mut stage, cluster_queue("bank", Some("all"), of(10, nominal(10))));
    let limited = Quota { borrowing: Some(1), ..nominal(0) };
    let strict = cluster_queue("strict", Some("all"), of(0, limited));
    let strategy = QueueingStrategy::StrictFifo;
    add_queue(&mut stage, ClusterQueueFacts { strategy, ..strict });
    for name in ["main", "lab"] {
        add_queue(&mut stage, queue(name, Some("all"), nominal(0)));
    }
    if above.is_some() {
        add_queue(&mut stage, queue("outer", above, nominal(6)));
        submit(&mut stage, work_in("outer", (6, 1), Some(170), Some("outer")));
    }
    submit(&mut stage, work_in("runs", (9, 1), Some(60), Some("main")));
    submit(&mut stage, work_in("big", (8, 1), Some(60), Some("main")));
    submit(&mut stage, work_in("first", (2, 1), Some(90), Some("strict")));
    submit(&mut stage, work_in("late", (5, 1), Some(30), Some("strict")));
    at(&mut stage, 5);
    submit(&mut stage, work_in("endless", (6, 1), None, Some("lab")));
    assert_eq!(reserved(&stage, "endless"), Some(120));
    at(&mut stage, 60);
    assert!(runs(&stage, "big") && runs(&stage, "first"));
    stage
}

#[test]
fn a_promised_start_is_not_put_off_by_an_equal_that_would_borrow_nothing_of_another_flavor() {
    let mut stage = with_an_endless_equal(None);
    assert_eq!((reserved(&stage, "endless"), reserved(&stage, "late")), (Some(120), None));
    at(&mut stage, 120);
    assert!(runs(&stage, "endless"));
}

#[test]
fn who_finds_no_start_behind_an_equal_has_one_where_it_borrows_further() {
    let mut stage = with_an_endless_equal(Some("company"));
    assert_eq!((reserved(&stage, "endless"), reserved(&stage, "late")), (Some(120), Some(170)));
    for minute in [120, 150, 170] {
        at(&mut stage, minute);
    }
    assert!(runs(&stage, "endless") && runs(&stage, "late"));
}

/// `both`, of higher priority, needs two nodes, of which one is in use until minute 120. `one`
/// would still run then if it began at 100, when the other comes free. Once `early` has ended that
/// is at 60, and it is through before; from 120 on there is no node until 180.
#[test]
fn a_start_moves_to_where_it_has_ended_before_others_start() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("main", None, nominal(32)));
    let strategy = QueueingStrategy::StrictFifo;
    let strict = ClusterQueueFacts { strategy, ..queue("strict", None, nominal(32)) };
    add_queue(&mut stage, strict);
    submit(&mut stage, work_in("long", (1, 8), Some(120), Some("main")));
    submit(&mut stage, work_in("soon", (1, 4), Some(60), Some("main")));
    submit(&mut stage, work_in("early", (1, 4), Some(100), Some("main")));
    submit(&mut stage, of_priority(work_in("both", (2, 8), Some(60), Some("main")), 5));
    submit(&mut stage, work_in("one", (1, 8), Some(30), Some("strict")));
    assert_eq!((reserved(&stage, "both"), reserved(&stage, "one")), (Some(120), Some(180)));
    stage.drop_pod(&"early".into());
    at(&mut stage, 10);
    assert_eq!((reserved(&stage, "both"), reserved(&stage, "one")), (Some(120), Some(60)));
    for minute in [60, 90, 120] {
        at(&mut stage, minute);
    }
    assert!(runs(&stage, "both"));
}

/// Beside work of low priority until minute 60 a gang runs, of which a member comes late that needs
/// more than is free: the gang lacks it, or it is work of its own. And `big`, which stops nobody,
/// is to start at 60.
fn with_late_member(priority: i32, lacks: bool) -> Stage {
    let mut stage = stage(&["a"]);
    submit(&mut stage, of_priority(work("low", (1, 5), Some(60)), -1));
    let least = if lacks { 2 } else { 1 };
    let members = gang("g", 3, Some(least), &shape(&[(GPU, 1)]), &wishes(None, None));
    let mut members = of_priority(members, priority);
    let mut late = members.pop().expect("it has three");
    (late.shape, late.gang.by_itself) = (shape(&[(GPU, 3)]), !lacks);
    let lost = members[1].uid.clone();
    members.truncate(least as usize);
    submit(&mut stage, members);
    let mut big = work("big", (1, 6), Some(30));
    (big[0].never_preempts, big[0].priority) = (true, 5);
    submit(&mut stage, big);
    assert_eq!(reserved(&stage, "big"), Some(60));
    if lacks {
        stage.drop_pod(&lost);
    }
    submit(&mut stage, vec![late]);
    stage
}

fn has(stage: &Stage, name: &str) -> bool {
    stage.pods.values().any(|pod| &*pod.name == name)
}

#[test]
fn nobody_leaves_for_a_late_member_that_would_delay_a_reserved_start() {
    for lacks in [false, true] {
        let stage = with_late_member(0, lacks);
        assert!(has(&stage, "low"), "it leaves room for big at 60");
        let reason = view(&stage, "g").reason;
        let Some(Reason::Extras { then, .. } | Reason::Incomplete { then, .. }) = &reason else {
            panic!("{reason:?}");
        };
        let Some(Reason::Reserved { head, start, .. }) = then.as_deref() else {
            panic!("{then:?}");
        };
        assert_eq!((&**head, start.0), ("team/big", 1_060 * MINUTE));
    }
    let mut stage = with_late_member(0, false);
    at(&mut stage, 60);
    assert!(runs(&stage, "big"));
}

/// Who would be settled after its gang waits for it.
#[test]
fn others_leave_for_a_late_member_of_higher_priority_whatever_is_reserved() {
    for lacks in [false, true] {
        let stage = with_late_member(10, lacks);
        let places = view(&stage, "g").pods;
        assert!(!has(&stage, "low"), "{:?}", view(&stage, "g").reason);
        assert_eq!(places.iter().filter(|place| place.node.is_some()).count(), 2);
    }
}

/// Three borrow from the bank: two below cohort `left`, which has most of it, one below `right`.
fn sharing() -> Stage {
    let mut stage = stage(&["a", "b", "c", "d"]);
    share_fairly(&mut stage);
    stage.add(["left", "right"].map(|name| Input::Cohort(cohort(name, Some("all")))));
    let queues = [("bank", "all", 32), ("la", "left", 0), ("lb", "left", 0), ("ra", "right", 0)];
    for (name, above, gpus) in queues {
        add_queue(&mut stage, queue(name, Some(above), nominal(gpus)));
    }
    submit(&mut stage, work_in("most", (2, 8), Some(60), Some("lb")));
    submit(&mut stage, work_in("less", (1, 8), Some(60), Some("ra")));
    stage
}

/// By shares the cohorts are compared, not the queues in them: though its own queue has nothing
/// yet, that of cohort `left` goes behind.
#[test]
fn starts_are_reserved_in_the_order_in_which_a_round_compares_cohorts() {
    for left_first in [true, false] {
        let mut stage = sharing();
        let mut heads = [("of-left", "la"), ("of-right", "ra")];
        if !left_first {
            heads.reverse();
        }
        for (name, queue) in heads {
            submit(&mut stage, work_in(name, (4, 8), Some(30), Some(queue)));
        }
        let starts = (reserved(&stage, "of-right"), reserved(&stage, "of-left"));
        assert_eq!(starts, (Some(60), Some(90)), "{left_first}");
    }
    // Below one cohort the queues are.
    let mut stage = sharing();
    submit(&mut stage, work_in("of-lb", (4, 8), Some(30), Some("lb")));
    submit(&mut stage, work_in("of-la", (4, 8), Some(30), Some("la")));
    assert_eq!((reserved(&stage, "of-la"), reserved(&stage, "of-lb")), (Some(60), Some(90)));
}
