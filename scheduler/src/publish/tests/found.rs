//! What pods say already when we begin to lead: it is compared with, not written again.

use std::sync::Arc;

use capstan_core::model::input::Text;

use super::*;
use crate::live::Unscheduled;
use crate::publish::plan::{PATIENCE, WORDS_EVERY};
use crate::publish::pods::{self, PodCondition};

/// What a pod says that waits for this.
fn says(why: &Reason, node: Option<&str>) -> Unscheduled {
    let said = pods::condition(why);
    let node = node.map(Into::into);
    Unscheduled { reason: said.reason.into(), message: said.message.into(), node }
}

/// The workload is told to a plan that sees pods say this.
fn told(plan: &mut Plan, now: Time, details: &WorkloadDetails, says: Option<&Unscheduled>) {
    plan.pods_show(now, details, |_: &Text| (says, None));
    plan.workload(now, details.clone());
}

/// Writes of conditions, and whether they move the time at which it became so.
fn written(api: &Api) -> Vec<(Arc<PodCondition>, bool)> {
    let of = |(_, write): &(Key, Write)| match write {
        Write::Condition(said, _) => Some((said.clone(), true)),
        Write::Reword(said, _) => Some((said.clone(), false)),
        _ => None,
    };
    api.writes.iter().filter_map(of).collect()
}

fn behind() -> Reason {
    Reason::Behind { ahead: 1, queue: "q".into() }
}

#[test]
fn who_leads_next_writes_nothing_that_pods_say_already_and_moves_no_time() {
    let (mut plan, mut api) = ready();
    let details = waits(gang(State::Queued), room(1), &["g-0"]);
    let (same, patience) = (says(&room(1), None), PATIENCE.0);
    for second in 0..3 {
        told(&mut plan, at(second * 1_000), &details, Some(&same));
        api.work(&mut plan, at(second * 1_000));
    }
    assert_eq!(written(&api), []);
    // Other words of the same are as late as they are of who wrote the first.
    let (mut plan, mut api) = ready();
    let next = Reason::Behind { ahead: 2, queue: "q".into() };
    let details = waits(gang(State::Queued), next.clone(), &["g-0"]);
    told(&mut plan, at(0), &details, Some(&says(&behind(), None)));
    for now in [patience, WORDS_EVERY.0 - 1] {
        api.work(&mut plan, at(now));
        assert_eq!(written(&api), []);
    }
    api.work(&mut plan, at(WORDS_EVERY.0));
    assert_eq!(written(&api), [(Arc::new(pods::condition(&next)), false)]);
    // Another reason is said, and it waits since when it did.
    let (mut plan, mut api) = ready();
    let details = waits(gang(State::Queued), behind(), &["g-0"]);
    told(&mut plan, at(0), &details, Some(&same));
    api.work(&mut plan, at(patience - 1));
    assert_eq!(written(&api), [], "it may go in this moment");
    api.work(&mut plan, at(patience));
    assert_eq!(written(&api), [(Arc::new(pods::condition(&behind())), false)]);
    // What we wrote the answer says; a watch is behind it.
    told(&mut plan, at(3_000), &details, Some(&same));
    api.work(&mut plan, at(400_000));
    assert_eq!(written(&api).len(), 1);
}

#[test]
fn who_leads_next_takes_back_what_is_not_so_any_more() {
    let (mut plan, mut api) = ready();
    let gathers = Reason::Gathering { have: 1, need: 3 };
    let mut details = waits(gang(State::Gathering), gathers.clone(), &["g-0"]);
    details.view.state = State::Gathering;
    // It waits for others, as it did.
    told(&mut plan, at(0), &details, Some(&says(&gathers, None)));
    api.work(&mut plan, at(5_000));
    assert_eq!(written(&api), []);
    let kept = plan.entries.keys().any(|key| matches!(key, Key::Pod(_)));
    assert!(!kept, "nothing is kept of it");
    // The leader before made room for it, or said that it needs some.
    let all = [says(&behind(), Some("n1")), says(&room(1), None)];
    for (n, misleads) in all.iter().enumerate() {
        let now = at(10_000 * (n as i64 + 1));
        let (mut plan, mut api) = ready();
        told(&mut plan, now, &details, Some(misleads));
        api.work(&mut plan, now.plus(PATIENCE));
        assert_eq!(written(&api), [(Arc::new(pods::condition(&gathers)), false)]);
    }
}

#[test]
fn what_the_watch_shows_later_counts_until_something_is_written() {
    let (mut plan, mut api) = ready();
    let details = waits(gang(State::Queued), behind(), &["g-0"]);
    told(&mut plan, at(0), &details, Some(&says(&behind(), None)));
    api.work(&mut plan, at(1_000));
    assert_eq!(written(&api), []);
    // What was shown was older than it seemed.
    told(&mut plan, at(2_000), &details, Some(&says(&room(1), None)));
    api.work(&mut plan, at(3_000));
    assert_eq!(written(&api).len(), 1);
    // One that says nothing waits since now.
    let (mut plan, mut api) = ready();
    told(&mut plan, at(0), &details, None);
    api.work(&mut plan, at(1_000));
    assert_eq!(written(&api), [(Arc::new(pods::condition(&behind())), true)]);
}

#[test]
fn a_condition_says_of_which_version_of_the_pod_it_is() {
    let (mut plan, mut api) = ready();
    let mut seen = |now: Time, why: Reason, generation: Option<i64>| {
        let details = waits(gang(State::Queued), why, &["g-0"]);
        plan.pods_show(now, &details, |_: &Text| (None, generation));
        plan.workload(now, details);
        api.work(&mut plan, now.plus(PATIENCE));
        let last = api.writes.iter().rev().find_map(|(_, write)| match write {
            Write::Condition(_, seen) | Write::Reword(_, seen) => Some(*seen),
            _ => None,
        });
        last.expect("it waits")
    };
    assert_eq!(seen(at(0), room(1), Some(1)), Some(1));
    assert_eq!(seen(at(10_000), behind(), Some(2)), Some(2));
    assert_eq!(seen(at(20_000), room(1), None), None, "older API servers count none");
}
