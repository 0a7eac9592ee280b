//! Who is held and comes to stand before the start that it is held for: it has its turn first.

use capstan_core::model::input::{PreemptReclaim, PreemptionPolicy};
use capstan_core::policy::FairSharing;
use capstan_tests::facts::cohort;

use super::*;

/// Queue `own` uses all of its half of eight GPUs, one less from minutes 20, 25 and 31 on, and has
/// the start of `whole` reserved at 120. Until 31 it would borrow for `mine`, which is held for
/// `big`, which borrows from then on.
fn held_for_a_borrower(reclaim: PreemptReclaim) -> Stage {
    let mut stage = stage(&["a"]);
    let mut own = queue("own", Some("all"), nominal(4));
    own.preemption = PreemptionPolicy { reclaim, ..own.preemption };
    add_queue(&mut stage, own);
    add_queue(&mut stage, queue("lend", Some("all"), nominal(4)));
    for (name, minutes) in [("first", 20), ("second", 25), ("third", 31), ("long", 120)] {
        submit(&mut stage, work_in(name, (1, 1), Some(minutes), Some("own")));
    }
    submit(&mut stage, work_in("other", (1, 1), Some(40), Some("lend")));
    at(&mut stage, 2);
    submit(&mut stage, work_in("whole", (1, 8), Some(10), Some("own")));
    at(&mut stage, 5);
    submit(&mut stage, work_in("big", (1, 6), Some(60), Some("lend")));
    assert_eq!((reserved(&stage, "whole"), reserved(&stage, "big")), (Some(120), Some(31)));
    at(&mut stage, 10);
    submit(&mut stage, work_in("mine", (1, 3), Some(60), Some("own")));
    assert_eq!(held_for(&stage, "mine"), Some(("team/big".into(), 31)));
    stage
}

/// What comes free is just what the borrower waits for.
#[test]
fn who_comes_to_borrow_nothing_has_its_turn_before_a_borrower() {
    for reclaim in [PreemptReclaim::Any, PreemptReclaim::Never] {
        let mut stage = held_for_a_borrower(reclaim);
        for minute in [20, 25] {
            at(&mut stage, minute);
            assert_eq!(held_for(&stage, "mine"), Some(("team/big".into(), 31)), "it would borrow");
        }
        at(&mut stage, 31);
        assert!(runs(&stage, "mine"), "{reclaim:?}");
        assert_eq!((reserved(&stage, "whole"), reserved(&stage, "big")), (Some(120), Some(130)));
        for minute in [40, 91, 120, 130] {
            at(&mut stage, minute);
        }
        assert!(runs(&stage, "big"));
    }
}

#[test]
fn nobody_is_looked_at_who_still_borrows_after_an_end() {
    let mut stage = held_for_a_borrower(PreemptReclaim::Never);
    // What is free beside big is noted when it was looked at once.
    at(&mut stage, 20);
    stage.now = Time((1_000 + 25) * MINUTE);
    end_due(&mut stage, &[]);
    let outputs = stage.settle(|_| {});
    let plays: u64 = outputs.iter().map(|output| output.report.counts.plays).sum();
    assert_eq!((plays, held_for(&stage, "mine")), (0, Some(("team/big".into(), 31))));
}

/// The start of a borrower that is as good as that of a head was found behind it if it comes after
/// it, and before it if it comes before: then whoever stands behind that head would put off both.
#[test]
fn an_owner_is_held_for_those_borrowers_alone_that_go_before_its_head() {
    for whole_first in [true, false] {
        let mut stage = stage(&["a"]);
        add_queue(&mut stage, queue("own", Some("all"), nominal(4)));
        add_queue(&mut stage, queue("lend", Some("all"), nominal(3)));
        let running = [
            ("long", "own", 2, 120),
            ("ends", "own", 1, 30),
            ("other", "lend", 1, 31),
            ("another", "lend", 1, 40),
        ];
        for (name, queue, gpus, minutes) in running {
            submit(&mut stage, work_in(name, (1, gpus), Some(minutes), Some(queue)));
        }
        let mut heads = [("whole", 7, 10, "own"), ("big", 4, 60, "lend")];
        if !whole_first {
            heads.reverse();
        }
        for (minute, (name, gpus, runs, queue)) in [2, 5].into_iter().zip(heads) {
            at(&mut stage, minute);
            submit(&mut stage, work_in(name, (1, gpus), Some(runs), Some(queue)));
        }
        assert_eq!((reserved(&stage, "whole"), reserved(&stage, "big")), (Some(120), Some(31)));
        at(&mut stage, 30);
        submit(&mut stage, work_in("mine", (1, 2), Some(60), Some("own")));
        let held: Option<(String, i64)> = (!whole_first).then(|| ("team/big".into(), 31));
        assert_eq!((runs(&stage, "mine"), held_for(&stage, "mine")), (whole_first, held));
        let starts = (Some(120), Some(if whole_first { 130 } else { 31 }));
        assert_eq!((reserved(&stage, "whole"), reserved(&stage, "big")), starts);
    }
}

/// With `late` its queue has as large a share as the other with `big`, until `ends` has ended.
#[test]
fn who_comes_to_have_the_smaller_share_has_its_turn_first() {
    let mut stage = stage(&[]);
    let policy = Policy {
        fair_sharing: Some(FairSharing::FinalThenInitial),
        reservations: Some(Reserving { most: 1, ..Reserving::default() }),
        ..Policy::default()
    };
    stage.add([Input::Policy(policy.into()), Input::Cohort(cohort("all", None))]);
    stage.add([Input::Node(node("a", &[(GPU, 32)]).into())]);
    for (name, gpus) in [("bank", 9), ("one", 0), ("two", 0)] {
        add_queue(&mut stage, queue(name, Some("all"), nominal(gpus)));
    }
    let running = [("ends", "one", 3, 30), ("short", "bank", 1, 20), ("long", "bank", 3, 60)];
    for (name, queue, gpus, minutes) in running {
        submit(&mut stage, work_in(name, (1, gpus), Some(minutes), Some(queue)));
    }
    at(&mut stage, 5);
    submit(&mut stage, work_in("big", (1, 5), Some(60), Some("two")));
    assert_eq!(reserved(&stage, "big"), Some(30));
    at(&mut stage, 10);
    submit(&mut stage, work_in("late", (1, 2), Some(60), Some("one")));
    for minute in [10, 20] {
        at(&mut stage, minute);
        assert_eq!(held_for(&stage, "late"), Some(("team/big".into(), 30)), "minute {minute}");
    }
    at(&mut stage, 30);
    assert_eq!((runs(&stage, "late"), reserved(&stage, "big")), (true, Some(60)));
    at(&mut stage, 60);
    assert!(runs(&stage, "big"));
}
