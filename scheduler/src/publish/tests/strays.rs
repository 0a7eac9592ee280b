//! Workloads that nobody stands for.

use super::*;

#[test]
fn what_no_gang_stands_for_is_deleted() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), waits(gang(State::Queued), room(1), &["g-0"]));
    api.work(&mut plan, at(1_000));
    plan.gone(at(2_000), &name("g"));
    assert_eq!(api.work(&mut plan, at(2_000)), 0, "it may come back");
    assert_eq!(api.work(&mut plan, at(7_000)), 1);
    assert_eq!(api.writes.last().expect("one").1, Write::Delete(Some("made".to_owned())));
    assert_eq!(plan.backlog(EVER), 0);
    // At a start: what the list shows and the engine does not know.
    for listed_first in [true, false] {
        let mut plan = Plan::new(Limits::default(), OURS.into());
        let mut stray = super::workload::object(&gang(State::Queued), OURS);
        stray.metadata.uid = Some("old".to_owned());
        let mut kept = stray.clone();
        kept.metadata.name = Some("kept".to_owned());
        let all = [stray, kept].map(|it| ShownWorkload::named(&it).expect("it has a name"));
        let names = || BTreeSet::from([name("kept")]);
        match listed_first {
            true => {
                plan.listed(at(0), all);
                plan.standing(at(0), names());
            }
            false => {
                plan.standing(at(0), names());
                plan.listed(at(0), all);
            }
        }
        let want = (Key::Workload(name("g")), Write::Delete(Some("old".to_owned())));
        assert_eq!((plan.next(at(4_999)), plan.next(at(5_000))), (None, Some(want)));
        assert_eq!(plan.next(at(5_000)), None);
    }
}

#[test]
fn what_stood_at_the_start_judges_the_first_list_alone() {
    let mut plan = Plan::new(Limits::default(), OURS.into());
    let mut api = Api::default();
    plan.standing(at(0), BTreeSet::new());
    plan.listed(at(0), []);
    plan.workload(at(1_000), gang(State::Queued));
    api.work(&mut plan, at(1_000));
    assert_eq!((api.work(&mut plan, at(3_000)), plan.backlog(EVER)), (0, 0), "all of it is shown");
    let shown = ShownWorkload::named(&api.workload("g")).expect("it has a name");
    plan.listed(at(60_000), [shown]);
    assert_eq!(plan.next(at(66_000)), None, "work that came since stands for it");
}

#[test]
fn what_ends_before_the_first_list_leaves_nothing_to_wait_for() {
    let mut plan = Plan::new(Limits::default(), OURS.into());
    let mut api = Api::default();
    plan.workload(at(0), gang(State::Queued));
    plan.standing(at(0), BTreeSet::from([name("g")]));
    plan.gone(at(1_000), &name("g"));
    assert_eq!((plan.next(at(9_000)), plan.backlog(EVER)), (None, 0), "there may never be a list");
    let mut left = super::workload::object(&gang(State::Queued), OURS);
    left.metadata.uid = Some("old".to_owned());
    api.objects.insert(Key::Workload(name("g")), json!(left));
    plan.listed(at(10_000), ShownWorkload::named(&left));
    assert_eq!(api.work(&mut plan, at(14_999)), 0, "it may come back");
    assert_eq!(api.work(&mut plan, at(15_000)), 1);
    assert!(!api.objects.contains_key(&Key::Workload(name("g"))));
}

/// Of several that bore one name in turn a new engine knows the last by another name than the one
/// by which people hold it.
#[test]
fn what_holds_an_owner_stays_until_it_is_active_again() {
    for owner in [true, false] {
        let mut plan = Plan::new(Limits::default(), OURS.into());
        let mut held = super::workload::object(&gang(State::Queued), OURS);
        held.metadata.uid = Some("old".to_owned());
        held.spec.active = false;
        if !owner {
            held.metadata.owner_references = None;
        }
        plan.listed(at(0), ShownWorkload::named(&held));
        plan.standing(at(0), BTreeSet::from([name("of-now")]));
        let delete = (Key::Workload(name("g")), Write::Delete(Some("old".to_owned())));
        if !owner {
            assert_eq!(plan.next(at(9_000)), Some(delete), "nobody's work is held by it");
            continue;
        }
        assert_eq!((plan.next(at(9_000)), plan.backlog(EVER)), (None, 0));
        held.spec.active = true;
        plan.listed(at(10_000), ShownWorkload::named(&held));
        plan.standing(at(11_000), BTreeSet::from([name("of-now")]));
        assert_eq!(plan.next(at(16_000)), Some(delete));
    }
}
