//! Workloads of another scheduler, and those that do not say whose they are.

use super::super::whose::LeftAlone;
use super::*;
use crate::api::keys;

/// The other one.
const THEIRS: &str = "capstan-dev";

/// An object that says that it is this scheduler's, or nothing of that.
fn object_of(scheduler: Option<&str>, uid: &str) -> Workload {
    let mut object = workload::object(&gang(State::Queued), scheduler.unwrap_or_default());
    object.metadata.uid = Some(uid.to_owned());
    if scheduler.is_none() {
        object.metadata.labels.as_mut().expect("labels").remove(keys::SCHEDULER_NAME);
    }
    object
}

fn named(object: &Workload) -> (Name, ShownWorkload) {
    ShownWorkload::named(object).expect("it has a name")
}

#[test]
fn what_is_made_says_whose_it_is() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), gang(State::Queued));
    api.work(&mut plan, at(0));
    let labels = api.workload("g").metadata.labels.unwrap_or_default();
    assert_eq!(labels.get(keys::SCHEDULER_NAME).map(String::as_str), Some(OURS));
}

#[test]
fn what_is_not_ours_is_not_deleted() {
    for (whose, said) in [(Some(THEIRS), vec![]), (None, vec![LeftAlone::Nobodys(name("g"))])] {
        for listed_first in [true, false] {
            let mut plan = Plan::new(Limits::default(), OURS.into());
            let all = [named(&object_of(whose, "old"))];
            match listed_first {
                true => {
                    plan.listed(at(0), all);
                    plan.standing(at(0), BTreeSet::new());
                }
                false => {
                    plan.standing(at(0), BTreeSet::new());
                    plan.listed(at(0), all);
                }
            }
            assert_eq!(plan.next(at(1_000)), None, "{whose:?}");
            assert_eq!(plan.whose.take_to_say(), said);
            plan.standing(at(600_000), BTreeSet::new());
            assert_eq!((plan.next(at(601_000)), plan.whose.take_to_say()), (None, vec![]));
        }
    }
}

#[test]
fn work_whose_name_anothers_object_has_is_shown_once_that_one_is_gone() {
    let mut plan = Plan::new(Limits::default(), OURS.into());
    let theirs = object_of(Some(THEIRS), "theirs");
    plan.listed(at(0), [named(&theirs)]);
    plan.workload(at(1_000), gang(State::Queued));
    // The API server says that there is one already, and which.
    let (key, write) = plan.next(at(1_000)).expect("it is to be made");
    assert!(matches!(write, Write::Create(_)), "{write:?}");
    plan.answered(at(1_000), &key, Answer::Shows(Shown::Workload(ShownWorkload::of(&theirs))));
    assert!(plan.is_anothers(&name("g")) && !plan.is_anothers(&name("other")));
    let said = vec![LeftAlone::Anothers(name("g"), THEIRS.to_owned())];
    assert_eq!((plan.next(at(2_000)), plan.whose.take_to_say()), (None, said));
    for second in 3..9 {
        let now = at(second * 1_000);
        plan.workload(now, waits(gang(State::Queued), room(second as u32), &[]));
        assert_eq!((plan.next(now), plan.whose.take_to_say()), (None, vec![]));
    }
    plan.gone(at(10_000), &name("g"));
    assert_eq!(plan.next(at(30_000)), None, "nor is it deleted when ours is gone");
    plan.workload(at(31_000), gang(State::Queued));
    assert_eq!(plan.next(at(31_000)), None);
    plan.workload_vanished(at(32_000), name("g"), "theirs");
    plan.workload(at(33_000), gang(State::Queued));
    let (_, write) = plan.next(at(33_000)).expect("its name is free");
    assert!(matches!(write, Write::Create(_)), "{write:?}");
}

#[test]
fn what_is_nobodys_is_taken_over_by_whose_work_bears_its_name() {
    let (mut plan, mut api) = ready();
    let mut old = object_of(None, "old");
    old.spec.active = false;
    api.objects.insert(Key::Workload(name("g")), crate::publish::diff::value(&old));
    plan.listed(at(0), [api.listed("g")]);
    plan.workload(at(1_000), gang(State::Queued));
    assert_eq!(api.work(&mut plan, at(1_000)), 1, "its label");
    assert_eq!(api.work(&mut plan, at(3_000)), 1, "its status");
    let object = api.workload("g");
    let labels = object.metadata.labels.unwrap_or_default();
    assert_eq!(labels.get(keys::SCHEDULER_NAME).map(String::as_str), Some(OURS));
    assert_eq!((object.spec.active, plan.whose.take_to_say()), (false, vec![]));
    // From then on it is as any other.
    plan.gone(at(10_000), &name("g"));
    assert_eq!(api.work(&mut plan, at(20_000)), 0, "an owner is held by it");
    api.objects.get_mut(&Key::Workload(name("g"))).expect("it stays")["spec"]["active"] =
        json!(true);
    plan.listed(at(21_000), [api.listed("g")]);
    plan.gone(at(22_000), &name("g"));
    assert_eq!(api.work(&mut plan, at(30_000)), 1);
    assert!(api.objects.is_empty());
}
