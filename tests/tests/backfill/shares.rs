//! Reserved starts where shares decide: they are put off until their time has come, and those that
//! others were held for, or that came late, are taken by no smaller share.

use capstan_core::model::input::{PreemptReclaim, Weight};
use capstan_core::policy::FairSharing;
use capstan_tests::facts::cohort;

use super::*;

/// What a queue may take back from others.
pub fn reclaiming(mut facts: ClusterQueueFacts, reclaim: PreemptReclaim) -> ClusterQueueFacts {
    facts.preemption.reclaim = reclaim;
    facts
}

/// Who borrows more gives way to who would borrow less.
pub fn share_fairly(stage: &mut Stage) {
    let fair_sharing = Some(FairSharing::FinalThenInitial);
    let policy = Policy { fair_sharing, ..Policy::default() };
    stage.add([Input::Policy(policy.into())]);
}

/// Whether a pod is there.
fn has(stage: &Stage, name: &str) -> bool {
    stage.pods.values().any(|pod| &*pod.name == name)
}

/// Queues of a cohort of eight GPUs that share fairly and may take back from each other like that.
fn shared(reclaim: PreemptReclaim) -> Stage {
    let mut stage = stage(&["a", "b"]);
    share_fairly(&mut stage);
    for (name, gpus) in [("bank", 4), ("large", 2), ("small", 2)] {
        add_queue(&mut stage, reclaiming(queue(name, Some("all"), nominal(gpus)), reclaim));
    }
    stage
}

/// By shares each that comes to `small` goes before `big`, which is to borrow more: once, but not
/// when its time has come; nor does one then stop it that was held for its start, or came later,
/// whatever it may take back.
#[test]
fn a_start_whose_time_has_come_is_taken_by_no_smaller_share() {
    for reclaim in [PreemptReclaim::Never, PreemptReclaim::LowerPriority, PreemptReclaim::Any] {
        let (mut stage, mut ran) = (shared(reclaim), Vec::new());
        for minute in (0..480).step_by(20) {
            at(&mut stage, minute);
            let name = format!("small-{minute}");
            submit(&mut stage, work_in(&name, (1, 2), Some(60), Some("small")));
            if minute == 60 {
                submit(&mut stage, work_in("big", (1, 6), Some(60), Some("large")));
                assert_eq!(reserved(&stage, "big"), Some(100));
            }
            if minute >= 60 && has(&stage, "big") && runs(&stage, "big") {
                ran.push(minute);
            }
        }
        assert_eq!(ran, [120, 140, 160], "{reclaim:?}");
    }
}

/// Long work of one queue, of which there is always more, and a stream of another of the same
/// weight: neither has much more than half of the time.
#[test]
fn work_that_was_late_leaves_others_their_turn() {
    let (mut stage, mut names, mut ran) = (shared(PreemptReclaim::Any), Vec::new(), 0);
    for minute in (0..2_880).step_by(20) {
        at(&mut stage, minute);
        submit(&mut stage, work_in(&format!("small-{minute}"), (1, 2), Some(60), Some("small")));
        if minute % 240 == 0 {
            names.push(format!("big-{minute}"));
            let name = names.last().expect("one was put there");
            submit(&mut stage, work_in(name, (1, 6), Some(240), Some("large")));
        }
        ran += u32::from(names.iter().any(|name| has(&stage, name) && runs(&stage, name)));
    }
    assert!((36..=78).contains(&ran), "{ran} of 144 looks");
}

/// Whoever borrows without weight gives way to everybody, however long it waits.
#[test]
fn work_of_a_queue_without_weight_is_never_late() {
    let mut stage = shared(PreemptReclaim::Any);
    let facts = queue("large", Some("all"), nominal(2));
    let facts = ClusterQueueFacts { weight: Weight(0), ..facts };
    add_queue(&mut stage, reclaiming(facts, PreemptReclaim::Any));
    for minute in (0..480).step_by(20) {
        at(&mut stage, minute);
        submit(&mut stage, work_in(&format!("small-{minute}"), (1, 2), Some(60), Some("small")));
        if minute == 60 {
            submit(&mut stage, work_in("big", (1, 6), Some(60), Some("large")));
        }
        assert!(minute < 60 || !runs(&stage, "big"), "{minute}");
        assert!(runs(&stage, &format!("small-{minute}")), "{minute}");
    }
}

/// `big` of queue `large` starts in time at 60, and nobody is held for it. Who comes at 70 to
/// `small` takes its place, until 100.
fn stopped_in_time() -> Stage {
    let mut stage = shared(PreemptReclaim::Any);
    submit(&mut stage, work_in("first", (1, 4), Some(60), Some("small")));
    at(&mut stage, 10);
    let owner = job("big", 1, &shape(&[(GPU, 6)]), &wishes(Some(60), Some("large")));
    let created = stage.now;
    stage.add([Input::Owner(OwnerFacts { created, ..owner })]);
    stage.settle(|_| {});
    assert_eq!(reserved(&stage, "big"), Some(60));
    at(&mut stage, 60);
    assert!(runs(&stage, "big"));
    at(&mut stage, 70);
    submit(&mut stage, work_in("second", (1, 4), Some(30), Some("small")));
    assert_eq!((runs(&stage, "second"), reserved(&stage, "big")), (true, Some(100)));
    stage
}

/// The start that it lost is owed to it: the next one is put off by no smaller share, and lasts.
#[test]
fn a_share_stops_a_start_that_came_in_time_only_once() {
    let mut stage = stopped_in_time();
    at(&mut stage, 80);
    submit(&mut stage, work_in("third", (1, 4), Some(60), Some("small")));
    assert_eq!(held_for(&stage, "third"), Some(("team/big".into(), 100)));
    at(&mut stage, 100);
    assert!(runs(&stage, "big") && !runs(&stage, "third"));
    at(&mut stage, 110);
    submit(&mut stage, work_in("fourth", (1, 3), Some(10), Some("small")));
    assert!(runs(&stage, "big") && !runs(&stage, "third") && !runs(&stage, "fourth"));
    let reason = view(&stage, "fourth").reason.map(|reason| reason.to_string());
    assert!(
        reason.as_ref().is_some_and(|it| it.contains("team/big has the larger share")),
        "{reason:?}"
    );
}

#[test]
fn an_owner_takes_back_from_a_start_that_no_share_stops() {
    let mut stage = stopped_in_time();
    at(&mut stage, 100);
    assert!(runs(&stage, "big"));
    at(&mut stage, 110);
    submit(&mut stage, work_in("owner", (1, 4), Some(30), Some("bank")));
    assert!(runs(&stage, "owner") && !runs(&stage, "big"));
}

/// It is to end at 160, and is believed to be late for six minutes. Time alone ends that.
#[test]
fn a_share_stops_what_should_have_ended() {
    let mut stage = stopped_in_time();
    at(&mut stage, 80);
    submit(&mut stage, work_in("third", (1, 4), Some(60), Some("small")));
    at(&mut stage, 100);
    for (minute, lasts) in [(160, true), (165, true), (166, false)] {
        stage.now = Time((1_000 + minute) * MINUTE);
        end_due(&mut stage, &["big"]);
        let next = stage.settle(|_| {}).last().and_then(|output| output.next_wake);
        stage.engine.recount();
        assert_eq!((runs(&stage, "big"), runs(&stage, "third")), (lasts, !lasts), "{minute}");
        let due = Time(1_166 * MINUTE);
        assert!(!lasts || next.is_some_and(|next| next <= due), "{next:?}");
    }
}

/// Cohorts are compared as they are, and `left` has nothing yet: who comes to `right` is held for
/// `big`, which starts in time. It would take a smaller share then than `left` has.
#[test]
fn who_was_held_for_a_start_does_not_stop_it_by_its_share() {
    let mut stage = stage(&["a", "b"]);
    share_fairly(&mut stage);
    stage.add(["left", "right"].map(|name| Input::Cohort(cohort(name, Some("all")))));
    for (name, above, gpus) in [("bank", "all", 8), ("la", "left", 0), ("ra", "right", 0)] {
        let facts = queue(name, Some(above), nominal(gpus));
        add_queue(&mut stage, reclaiming(facts, PreemptReclaim::Any));
    }
    submit(&mut stage, work_in("long", (1, 2), Some(300), Some("ra")));
    submit(&mut stage, work_in("short", (1, 4), Some(60), Some("ra")));
    at(&mut stage, 10);
    submit(&mut stage, work_in("big", (1, 6), Some(60), Some("la")));
    assert_eq!(reserved(&stage, "big"), Some(60));
    at(&mut stage, 20);
    submit(&mut stage, work_in("next", (1, 2), Some(60), Some("ra")));
    assert_eq!(held_for(&stage, "next"), Some(("team/big".into(), 60)));
    for minute in [60, 90] {
        at(&mut stage, minute);
        assert!(runs(&stage, "big") && !runs(&stage, "next"), "{minute}");
    }
    at(&mut stage, 120);
    assert!(runs(&stage, "next"));
}
