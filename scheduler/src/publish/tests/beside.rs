//! What is written while effects are carried out.

use capstan_core::model::input::GangSource;
use capstan_core::plan::{Preemption, PreemptionReason, State};

use serde_json::json;

use super::{Api, BORN, EVER, OURS, at, gang, lone, name, queue_view, ready};
use crate::publish::entry::{Key, Write};
use crate::publish::plan::{COMES_BACK, Plan};
use crate::publish::rates::{LATE, Limits};
use crate::publish::shown::ShownWorkload;
use crate::publish::workload;
use crate::render::fixture;

#[test]
fn beside_effects_little_is_written_and_what_changes_meanwhile_is_written_once() {
    let mut plan = Plan::new(Limits { writes: 100, events: 50 }, OURS.into());
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

#[test]
fn four_jobs_a_second_without_end_starve_nobody() {
    let mut plan = Plan::new(Limits::default(), OURS.into());
    let mut api = Api::default();
    let mut old = crate::publish::workload::object(&gang(State::Running), OURS);
    (old.metadata.name, old.metadata.uid) = (Some("old".to_owned()), Some("made".to_owned()));
    let (old_key, queue) = (Key::Workload(name("old")), Key::ClusterQueue("q".into()));
    api.objects.insert(old_key.clone(), crate::publish::diff::value(&old));
    api.objects.insert(queue.clone(), json!({"status": {}}));
    plan.listed(BORN, ShownWorkload::named(&old));
    let job = |n: i64, state| {
        let mut details = gang(state);
        (details.view.name, details.view.created) = (format!("j{n}").into(), at(n * 250));
        details.placed = 1;
        details
    };
    let (mut deleted, mut shown) = (None, Vec::new());
    plan.gone(at(0), &name("old"));
    for quarter in 0..4 * 150 {
        let now = at(quarter * 250);
        plan.workload(now, job(quarter, State::Binding));
        if quarter >= 8 {
            plan.workload(now, job(quarter - 8, State::Running));
        }
        if quarter % 4 == 0 {
            let mut view = queue_view();
            view.pending = quarter as u32;
            plan.cluster_queues(now, vec![view]);
        }
        plan.acts(now);
        let before = api.writes.len();
        api.work(&mut plan, now);
        for (key, write) in &api.writes[before..] {
            deleted = deleted.or((*key == old_key).then_some(now));
            shown.extend((*key == queue && *write != Write::Read).then_some(now));
        }
    }
    // What waits is late after a minute; half the whole rate catches up within seconds.
    let patience = LATE.0 + 5_000;
    let deleted = deleted.expect("nobody has it any more");
    assert!(deleted <= at(COMES_BACK.0 + patience), "{deleted:?}");
    let gaps = shown.windows(2).map(|pair| pair[1].since(pair[0]).0).max();
    assert!(shown[0] <= at(patience) && gaps <= Some(patience), "{shown:?}");
    let runs = |n: i64| api.status(&format!("j{n}")).state == "Running";
    let behind: Vec<i64> = (0..4 * (150 - 2) - patience / 250).filter(|n| !runs(*n)).collect();
    assert!(behind.is_empty(), "{behind:?}");
}

#[test]
fn what_is_to_outlive_the_pods_of_a_bare_gang_waits_for_no_effect() {
    let mut bare = gang(State::Running);
    (bare.owner, bare.source, bare.group) = (None, GangSource::CapstanGang, Some("g".into()));
    // More than may be written in a second of what waits.
    let names: Vec<String> = (0..40).map(|n| format!("g{n}")).collect();
    for (reason, writes) in [(PreemptionReason::Priority, 0), (PreemptionReason::Deactivated, 1)] {
        let (mut plan, mut api) = ready();
        for name in &names {
            bare.view.name = name.as_str().into();
            plan.workload(at(0), bare.clone());
        }
        api.work(&mut plan, at(0));
        plan.acts(at(10_000));
        for name in &names {
            let mut stopped = bare.clone();
            stopped.view.name = name.as_str().into();
            stopped.view.state = State::Evicting;
            stopped.view.preempted = Some(Preemption { reason, ..fixture::preemption() });
            plan.workload(at(10_000), stopped);
        }
        assert_eq!(api.work(&mut plan, at(10_000)), 40 * writes, "{reason:?}");
        for name in &names {
            let named = api.workload(name).metadata.owner_references.unwrap_or_default().len();
            assert_eq!(named, 1 - writes, "{reason:?} {name}");
        }
    }
}

/// Who ends waits for what is written until then, and for nothing else.
#[test]
fn what_is_put_off_is_owed_when_it_is_due() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), lone(State::Queued));
    assert_eq!(plan.backlog(at(0)), 1, "it is to be looked at");
    assert_eq!(api.work(&mut plan, at(0)), 0, "most pods of their own never get an object");
    let patience = workload::LONE_PATIENCE.0;
    let owed = [at(patience - 1), at(patience), EVER].map(|by| plan.backlog(by));
    assert_eq!(owed, [0, 1, 1]);
}
