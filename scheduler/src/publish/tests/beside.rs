//! What is written while effects are carried out.

use capstan_core::plan::State;

use super::{Api, BORN, at, gang};
use crate::publish::entry::{Key, Write};
use crate::publish::plan::Plan;
use crate::publish::rates::Limits;

#[test]
fn beside_effects_little_is_written_and_what_changes_meanwhile_is_written_once() {
    let mut plan = Plan::new(Limits { writes: 100, events: 50 });
    plan.listed(BORN, []);
    let mut api = Api::default();
    let name = |n: usize| format!("g{n}");
    let mut told = 0;
    for second in 0..5 {
        // Binds begin and end all the time; twenty gangs come and run.
        for n in 0..20 {
            let state = if second == 0 { State::Binding } else { State::Running };
            let mut details = gang(state);
            details.view.name = name(n).into();
            details.owner.as_mut().expect("a Job").uid = name(n).into();
            plan.workload(at(second * 1_000), details);
        }
        for tenth in 0..10 {
            let now = at(second * 1_000 + tenth * 100);
            plan.acts(now);
            api.work(&mut plan, now);
            told += usize::from(plan.next_event(now).is_some());
        }
        assert!(second > 2 || api.writes.is_empty(), "most bursts are over in three seconds");
    }
    assert_eq!((api.writes.len(), told), (5, 5), "two and one a second");
    // No effect any more: the rest comes at the whole rate.
    for second in 5..8 {
        api.work(&mut plan, at(second * 1_000 + 500));
    }
    let later = |(_, write): &&(Key, Write)| matches!(write, Write::Status(_));
    let statuses = api.writes.iter().filter(later).count();
    assert!((0..20).all(|n| api.status(&name(n)).state == "Running"));
    assert!((20..=22).contains(&statuses), "who was late is written once: {statuses}");
    // Under a load without end, nobody waits for much more than a minute.
    for second in 0..100 {
        let mut details = gang(State::Binding);
        for n in 0..10 {
            details.view.name = format!("more-{second}-{n}").into();
            plan.workload(at(10_000 + second * 1_000), details.clone());
        }
        plan.acts(at(10_000 + second * 1_000));
        api.work(&mut plan, at(10_000 + second * 1_000));
    }
    assert!(!api.status("more-38-9").state.is_empty());
}
