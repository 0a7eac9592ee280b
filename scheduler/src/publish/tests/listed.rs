//! Our kinds go and come back: Workloads are there again at once.

use super::*;

fn key() -> Key {
    Key::Workload(name("g"))
}

/// Answers all that is sent for so many seconds as an API server does that has no Workloads.
fn without_the_kind(plan: &mut Plan, seconds: std::ops::Range<i64>) {
    for second in seconds {
        let now = at(second * 1_000);
        plan.workload(now, gang(State::Running));
        while let Some((key, write)) = plan.next(now) {
            assert!(matches!(write, Write::Create(_)), "{write:?}");
            plan.answered(now, &key, Answer::Failed);
        }
    }
}

#[test]
fn what_could_not_be_made_is_made_once_its_kind_is_listed_again() {
    let (mut plan, mut api) = ready();
    without_the_kind(&mut plan, 0..40);
    assert!(plan.wake().expect("it is tried again") > at(60_000), "its pause is long by now");
    plan.listed(at(40_000), []);
    assert_eq!(api.work(&mut plan, at(40_000)), 2, "nobody has to wait for that");
    assert_eq!(api.status("g").state, "Running");
    assert_eq!((api.work(&mut plan, at(90_000)), plan.backlog(EVER)), (0, 0));
}

#[test]
fn a_request_that_was_on_its_way_then_is_tried_again_soon() {
    let (mut plan, mut api) = ready();
    without_the_kind(&mut plan, 0..31);
    plan.workload(at(31_000), gang(State::Running));
    let (on_its_way, _) = plan.next(at(31_000)).expect("its pause is over");
    plan.listed(at(31_100), []);
    assert_eq!(api.work(&mut plan, at(31_100)), 0, "one at a time");
    plan.answered(at(31_200), &on_its_way, Answer::Failed);
    assert_eq!(api.work(&mut plan, at(31_200).plus(EVERY)), 2);
    assert!(api.objects.contains_key(&key()));
}

#[test]
fn a_list_does_not_have_what_is_refused_sent_more_than_once_a_second() {
    let (mut plan, _) = ready();
    let mut sent = 0;
    for tenth in 0..100 {
        let now = at(tenth * 100);
        plan.workload(now, gang(State::Running));
        plan.listed(now, []);
        while let Some((key, _)) = plan.next(now) {
            sent += 1;
            plan.answered(now, &key, Answer::Failed);
        }
    }
    assert!((9..=10).contains(&sent), "in ten seconds: {sent}");
}
