//! Money between several: who leaves for it, who lends it, and who of a round gets it.

use capstan_core::model::input::{Input, PreemptReclaim, PreemptWithin, Quota};
use capstan_core::plan::State;
use capstan_core::policy::{FairSharing, Policy};
use capstan_tests::facts::{cluster_queue, text};
use capstan_tests::hand::view;

use super::played::{Played, ask, one_group, policy, priced, queue, single, urgent, usd};

#[test]
fn lower_work_leaves_for_money() {
    let mut main = queue("main", None, 500);
    main.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let mut played = Played::new(policy(), &[main]);
    played.with([priced("n", 8, 800), single("a", "main", 3), single("b", "main", 2)]);
    played.with([urgent("c", "main", 2)]);
    // Less is lost by stopping the one that came last; it frees enough.
    assert!(!played.stage.pods.contains_key(&text("b")));
    assert_eq!((played.used("main"), played.node_of("c").as_deref()), (500, Some("n")));
}

#[test]
fn nobody_leaves_where_what_comes_free_could_not_be_paid_for() {
    let mut main = queue("main", None, 500);
    main.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let mut played = Played::new(policy(), &[main, queue("rich", None, 10_000)]);
    // The cheap node is somebody else's; the dear one costs more than the queue may ever spend.
    played.with([priced("cheap", 1, 100), single("others", "rich", 1)]);
    let whole = single("half", "main", 1);
    played.with([priced("dear", 2, 900), whole]);
    assert_eq!(played.used("main"), 450);
    let mut wide = ask("urgent", "main", 2);
    wide.priority = 10;
    played.with([Input::Pod(wide)]);
    assert!(played.stage.pods.contains_key(&text("half")), "stopped for nothing");
    assert_eq!(played.node_of("urgent"), None);
    assert_eq!(played.waits("urgent").0, "ExceedsMaxQuota");
}

#[test]
fn money_is_lent_and_taken_back() {
    let owner = |name: &str| {
        let mut queue = queue(name, Some("all"), 400);
        queue.preemption.reclaim = PreemptReclaim::Any;
        queue
    };
    let mut played = Played::new(policy(), &[owner("a"), owner("b")]);
    played.with([priced("n", 8, 800)]);
    played.with((0..8).map(|at| single(&format!("a{at}"), "a", 1)));
    assert_eq!((played.used("a"), played.used("b")), (800, 0));
    played.with([single("b0", "b", 3)]);
    assert_eq!((played.used("a"), played.used("b")), (500, 300));
    let told = view(&played.stage.engine, "b0");
    assert_eq!((told.state, told.borrowed), (State::Running, false));
}

#[test]
fn limits_on_borrowed_and_lent_money_hold() {
    let limited = Quota { nominal: usd(400), borrowing: Some(usd(200)), lending: None };
    let one = cluster_queue("a", Some("all"), one_group(limited));
    let keeps = Quota { nominal: usd(400), borrowing: None, lending: Some(usd(100)) };
    let two = cluster_queue("b", Some("all"), one_group(keeps));
    let mut played = Played::new(policy(), &[one, two]);
    played.with([priced("n", 16, 1_600)]);
    played.with((0..8).map(|at| single(&format!("a{at}"), "a", 1)));
    assert_eq!(played.used("a"), 500);
    let waits = (0..8).filter(|at| played.node_of(&format!("a{at}")).is_none()).count();
    assert_eq!(waits, 3);
}

#[test]
fn shares_are_of_money_where_that_is_what_is_borrowed_most() {
    let sharer = |name: &str| {
        let mut queue = queue(name, Some("all"), 0);
        queue.preemption.reclaim = PreemptReclaim::Any;
        queue
    };
    let mut played = Played::new(
        Policy { fair_sharing: Some(FairSharing::FinalThenInitial), ..policy() },
        &[sharer("a"), sharer("b"), queue("lender", Some("all"), 800)],
    );
    played.with([priced("n", 64, 6_400)]);
    played.with((0..8).map(|at| single(&format!("a{at}"), "a", 1)));
    assert_eq!(played.used("a"), 800);
    played.with((0..8).map(|at| single(&format!("b{at}"), "b", 1)));
    assert_eq!((played.used("a"), played.used("b")), (400, 400));
}

#[test]
fn two_heads_of_one_round_do_not_spend_the_same_money() {
    let mut played = Played::new(
        policy(),
        &[
            queue("a", Some("all"), 0),
            queue("b", Some("all"), 0),
            queue("lender", Some("all"), 500),
        ],
    );
    played.with([priced("cheap", 1, 100), priced("dear", 8, 3_200)]);
    // Both are nominated on the cheap node; the second to be settled goes to the dear one.
    played.with([single("one", "a", 1), single("two", "b", 1)]);
    let mut nodes = [played.node_of("one"), played.node_of("two")].map(Option::unwrap_or_default);
    nodes.sort();
    assert_eq!(
        (nodes, played.used("a") + played.used("b")),
        (["cheap".to_owned(), "dear".to_owned()], 500)
    );
    // A third finds neither node nor money, and everything comes to rest.
    played.with([single("three", "a", 1)]);
    assert_eq!(played.waits("three").0, "WaitingForQuota");
}

#[test]
fn who_lost_the_cheap_node_to_another_head_waits_with_the_price_of_the_next() {
    let lender = queue("lender", Some("all"), 300);
    let queues = [queue("a", Some("all"), 0), queue("b", Some("all"), 0), lender];
    let mut played = Played::new(policy(), &queues);
    played.with([priced("cheap", 1, 100), priced("dear", 8, 3_200)]);
    played.with([single("one", "a", 1), single("two", "b", 1)]);
    let (went, waits) = match played.node_of("one") {
        Some(node) => (node, "two"),
        None => (played.node_of("two").expect("one of them runs"), "one"),
    };
    let words = "cohort all has $2.00/h left to borrow, $4.00/h asked (flavor default)";
    assert_eq!((went.as_str(), played.waits(waits).1.as_str()), ("cheap", words));
}
