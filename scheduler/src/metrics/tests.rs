//! Metrics: what is counted, what is set, and what Prometheus reads of it.

use std::collections::BTreeMap;

use super::*;
use capstan_core::explain::census::{CohortQuota, CohortTally, Limits, QueueShape, Tally};
use capstan_core::explain::milestone::{Milestone, Passage, Recomputation, Stop, Whose};
use capstan_core::explain::reason::{Inactive, Reason};
use capstan_core::explain::view::{Account, QuotaView, Rate};
use capstan_core::model::input::{Enforcement, Period, SpendingLimit, Text};
use capstan_core::money::MicroUsd;
use capstan_core::plan::{Counts, Outcome, PreemptionReason, WorkloadOutcome};
use capstan_core::time::{Span, Time};

fn queue() -> QueueView {
    let line = |resource: &str, scale: i64| QuotaView {
        flavor: "a100".into(),
        resource: resource.into(),
        nominal: 8 * scale,
        used: 12 * scale,
        borrowed: 4 * scale,
        lent: 0,
        available: 0,
    };
    QueueView {
        name: "team".into(),
        cohort: Some("research".into()),
        inactive: None,
        quotas: vec![
            line("cpu", 1_000),
            line("nvidia.com/gpu", 1),
            line("capstan.sh/usd-per-hour", 1_000_000),
        ],
        pending: 3,
        admitted: 2,
        per_hour: Some(MicroUsd(36_750_000)),
        unpriced: 0,
        share: None,
        spending: None,
    }
}

fn local_queue() -> LocalQueueView {
    LocalQueueView {
        namespace: "ns".into(),
        name: "gpus".into(),
        cluster_queue: "team".into(),
        inactive: None,
        pending: 1,
        admitted: 2,
        used: [(("a100".into(), "cpu".into()), 1_500)].into(),
        consumed: None,
        usage: Some(2_500),
        per_hour: None,
        unpriced: 0,
    }
}

/// Two workloads of the queue are looked at, one is not, one is done; one has no queue.
fn census() -> Census {
    let tally = Tally {
        active: 2,
        inadmissible: 1,
        finished: 1,
        why: [("WaitingForQuota", 3), ("PendingTopology", 1)].into(),
        asked: [("cpu".into(), 4_500)].into(),
        ..Tally::default()
    };
    let loose = Tally { active: 1, admitted: 5, ..Tally::default() };
    let limit = Limits {
        flavor: "a100".into(),
        resource: "cpu".into(),
        borrowing: Some(2_000),
        lending: None,
        reserved: 13_000,
    };
    let research = CohortTally {
        name: "research".into(),
        parent: Some("all".into()),
        root: "all".into(),
        share: Some(125),
        admitted: 7,
        quotas: vec![CohortQuota {
            flavor: "a100".into(),
            resource: "cpu".into(),
            quota: 16_000,
            reserved: 13_000,
        }],
    };
    Census {
        queues: [("".into(), loose), ("team".into(), tally.clone())].into(),
        local_queues: [(("ns".into(), "gpus".into()), tally)].into(),
        shapes: vec![QueueShape {
            name: "team".into(),
            cohorts: vec!["research".into(), "all".into()],
            limits: vec![limit],
        }],
        cohorts: vec![research],
    }
}

fn show(metrics: &Metrics, queues: &[QueueView]) {
    let census = census();
    metrics.look(&Look { queues, local_queues: &[local_queue()], census: &census });
}

fn whose() -> Whose {
    Whose {
        namespace: "ns".into(),
        local_queue: Some("gpus".into()),
        cluster_queue: Some("team".into()),
        priority_class: Some("high".into()),
    }
}

fn passed(of: &Whose, all: impl IntoIterator<Item = Passage>) -> Report {
    let milestone = |what| Milestone { of: of.clone().into(), what };
    Report { milestones: all.into_iter().map(milestone).collect(), ..Report::default() }
}

fn has(metrics: &Metrics, line: &str) {
    let text = metrics.encode();
    assert!(text.lines().any(|found| found == line), "no line {line:?} in\n{text}");
}

fn lacks(metrics: &Metrics, part: &str) {
    let text = metrics.encode();
    assert!(!text.contains(part), "{part:?} in\n{text}");
}

#[test]
fn steps_are_counted_and_timed() {
    let metrics = Metrics::new();
    let counts = Counts { considered: 5, bound: 3, ..Counts::default() };
    let report = Report { rounds: 2, counts, ..Report::default() };
    metrics.step(&report, Duration::from_micros(40));
    has(&metrics, "capstan_rounds_total 2");
    has(&metrics, "capstan_workloads_considered_total 5");
    has(&metrics, "capstan_pods_bound_total 3");
    has(&metrics, "capstan_step_duration_seconds_bucket{le=\"0.00001\"} 0");
    has(&metrics, "capstan_step_duration_seconds_bucket{le=\"0.00005\"} 1");
    has(&metrics, "capstan_step_duration_seconds_count 1");
}

#[test]
fn a_step_that_was_cut_short_is_counted() {
    let metrics = Metrics::new();
    let report = |rounds, quiet| Report { rounds, quiet, ..Report::default() };
    // The second is one round of a simulation.
    for report in [report(9, true), report(1, false), report(9, false)] {
        metrics.step(&report, Duration::ZERO);
    }
    has(&metrics, "capstan_steps_cut_short_total 1");
}

#[test]
fn what_the_engine_keeps_is_shown_by_table() {
    let metrics = Metrics::new();
    for (pods, sweeps) in [(3, 7), (1, 8)] {
        let effects_in_flight = 2;
        metrics.footprint(&Footprint { pods, effects_in_flight, sweeps, ..Footprint::default() });
    }
    has(&metrics, "capstan_engine_entries{table=\"pods\"} 1");
    has(&metrics, "capstan_engine_entries{table=\"effects_in_flight\"} 2");
    has(&metrics, "capstan_engine_sweeps 8");
    let engine = capstan_core::Engine::new();
    metrics.footprint(&engine.footprint());
    has(&metrics, "capstan_engine_entries{table=\"effects_in_flight\"} 0");
}

#[test]
fn rounds_with_work_are_attempts_by_what_came_of_them() {
    let metrics = Metrics::new();
    let of = |round, outcome| WorkloadOutcome { round, workload: "ns/a".into(), outcome };
    let waits = || Outcome::Waiting(Reason::RoomTaken);
    let outcomes = vec![of(1, waits()), of(1, Outcome::Admitted), of(2, waits())];
    metrics.step(&Report { outcomes, ..Report::default() }, Duration::ZERO);
    metrics.step(&Report { outcomes: vec![of(1, waits())], ..Report::default() }, Duration::ZERO);
    metrics.step(&Report::default(), Duration::ZERO);
    let attempts = |word| format!("capstan_admission_attempts_total{{result={word:?}}}");
    has(&metrics, &format!("{} 1", attempts("success")));
    has(&metrics, &format!("{} 2", attempts("inadmissible")));
    let seconds = "capstan_admission_attempt_duration_seconds_count";
    has(&metrics, &format!("{seconds}{{result=\"success\"}} 1"));
    has(&metrics, &format!("{seconds}{{result=\"inadmissible\"}} 1"));
}

#[test]
fn passages_are_counted_and_timed_by_queue_and_class() {
    let metrics = Metrics::new();
    let second = Span::seconds(1);
    let all = [
        Passage::Admitted { waited: Span::seconds(3) },
        Passage::Ready { waited: Span::seconds(9), admitted: Span::seconds(6) },
        Passage::Left { reason: PreemptionReason::InClusterQueue.into(), took: second },
        Passage::Finished { ran: Span::minutes(10) },
    ];
    metrics.step(&passed(&whose(), all), Duration::ZERO);
    let none = passed(&Whose::default(), [Passage::Admitted { waited: second }]);
    metrics.step(&none, Duration::ZERO);
    let of = "{cluster_queue=\"team\",priority_class=\"high\"}";
    for name in ["quota_reserved", "admitted", "finished"] {
        has(&metrics, &format!("capstan_{name}_workloads_total{of} 1"));
    }
    let none = "{cluster_queue=\"\",priority_class=\"\"}";
    has(&metrics, &format!("capstan_admitted_workloads_total{none} 1"));
    let times = [
        ("quota_reserved_wait_time", 3),
        ("admission_wait_time", 3),
        ("ready_wait_time", 9),
        ("admitted_until_ready_wait_time", 6),
        ("execution_time", 600),
    ];
    for (name, seconds) in times {
        has(&metrics, &format!("capstan_{name}_seconds_sum{of} {seconds}"));
    }
    let bucket = "cluster_queue=\"team\",priority_class=\"high\",le=\"2.5\"";
    has(&metrics, &format!("capstan_admission_wait_time_seconds_bucket{{{bucket}}} 0"));
    let latency = "capstan_workload_eviction_latency_seconds_sum";
    has(&metrics, &format!("{latency}{{cluster_queue=\"team\",reason=\"Preempted\"}} 1"));
    lacks(&metrics, "local_queue_");
}

#[test]
fn who_is_stopped_is_counted_by_why_and_for_whom() {
    let metrics = Metrics::new();
    let stop = |reason, preempting: Option<&str>, first| {
        let preempting = preempting.map(Text::from);
        Passage::Evicted(Box::new(Stop { reason, preempting, first }))
    };
    let waited = Span::minutes(5);
    let late = PreemptionReason::PodsNotReady { ready: 0, need: 2, waited, fell: true };
    let all = [
        stop(PreemptionReason::InCohortReclamation, Some("other"), true),
        stop(PreemptionReason::InCohortReclamation, Some("other"), false),
        stop(late, None, false),
        stop(PreemptionReason::RequeuingLimitExceeded { stops: 3 }, None, false),
    ];
    metrics.step(&passed(&whose(), all), Duration::ZERO);
    let line = |name: &str, reason: &str, cause: &str, count: u32| {
        let of = format!("cluster_queue=\"team\",priority_class=\"high\",reason=\"{reason}\"");
        format!("capstan_{name}{{{of},underlying_cause=\"{cause}\"}} {count}")
    };
    let all = "evicted_workloads_total";
    has(&metrics, &line(all, "Preempted", "", 2));
    has(&metrics, &line(all, "PodsReadyTimeout", "WaitForRecovery", 1));
    has(&metrics, &line(all, "Deactivated", "RequeuingLimitExceeded", 1));
    has(&metrics, &line("evicted_workloads_once_total", "Preempted", "", 1));
    assert_eq!(metrics.encode().matches("evicted_workloads_once_total{").count(), 1);
    let says = "Different workloads that were stopped at least once, by why.";
    has(&metrics, &format!("# HELP capstan_evicted_workloads_once_total {says}"));
    let labels = "preempting_cluster_queue=\"other\",reason=\"InCohortReclamation\"";
    has(&metrics, &format!("capstan_preempted_workloads_total{{{labels}}} 2"));
}

#[test]
fn who_was_passed_over_is_shown_until_the_next_step_that_looks_at_any() {
    let metrics = Metrics::new();
    let skips = "capstan_admission_cycle_preemption_skips{cluster_queue=\"team\"}";
    let counts = Counts { considered: 1, ..Counts::default() };
    let two = Report { counts, ..passed(&whose(), [Passage::Skipped, Passage::Skipped]) };
    metrics.step(&two, Duration::ZERO);
    metrics.step(&Report::default(), Duration::ZERO);
    has(&metrics, &format!("{skips} 2"));
    metrics.step(&Report { counts, ..Report::default() }, Duration::ZERO);
    lacks(&metrics, skips);
}

#[test]
fn victims_that_were_looked_for_anew_are_counted_by_what_came_of_it() {
    let metrics = Metrics::new();
    let came = [Recomputation::NewTargets, Recomputation::DeferredFit, Recomputation::Skipped];
    let all = came.into_iter().chain([Recomputation::Skipped]).map(Passage::Recomputed);
    metrics.step(&passed(&whose(), all), Duration::ZERO);
    for (result, count) in [("new_targets", 1), ("deferred_fit", 1), ("skipped", 2)] {
        let of = format!("{{cluster_queue=\"team\",result={result:?}}} {count}");
        has(&metrics, &format!("capstan_preemption_target_recomputations_total{of}"));
    }
}

#[test]
fn cohorts_count_what_is_admitted_below_them_once_the_tree_was_looked_at() {
    let metrics = Metrics::new();
    let admitted = passed(&whose(), [Passage::Admitted { waited: Span(0) }]);
    metrics.step(&admitted, Duration::ZERO);
    lacks(&metrics, "cohort_subtree_admitted_workloads_total{");
    show(&metrics, &[queue()]);
    show(&metrics, &[queue()]);
    for cohort in ["research", "all"] {
        let labels = format!("cohort=\"{cohort}\",priority_class=\"high\"");
        has(&metrics, &format!("capstan_cohort_subtree_admitted_workloads_total{{{labels}}} 1"));
    }
}

#[test]
fn queues_show_what_they_may_spend_and_did() {
    let metrics = Metrics::new();
    let limit = SpendingLimit {
        usd: Some(MicroUsd(2_500_000)),
        gpu_seconds: Some(7_200),
        period: Period::Day,
        enforcement: Enforcement::Hard,
    };
    let rate = Rate { per_hour: MicroUsd(5_000_000), milli_gpus: 2_000, unpriced: 0, assumed: 0 };
    let account = Account::begun(limit, Time(0), rate).on(Time(1_800_000));
    let spends = QueueView { spending: Some(account.into()), ..queue() };
    let idle = QueueView { name: "idle".into(), ..queue() };
    show(&metrics, &[spends, idle.clone()]);
    for (name, value) in [
        ("usd", "2.5"),
        ("spent_usd", "2.5"),
        ("gpu_hours", "2"),
        ("spent_gpu_hours", "1"),
        ("exhausted", "1"),
    ] {
        let line = format!("capstan_cluster_queue_budget_{name}{{cluster_queue=\"team\"}} {value}");
        has(&metrics, &line);
    }
    lacks(&metrics, "budget_usd{cluster_queue=\"idle\"}");
    show(&metrics, &[idle]);
    lacks(&metrics, "budget_usd{");
}

#[test]
fn queues_show_quota_in_base_units_and_dollars() {
    let metrics = Metrics::new();
    show(&metrics, &[queue()]);
    let of = |resource| {
        let at = "cluster_queue=\"team\",cohort=\"research\",flavor=\"a100\"";
        format!("{{{at},resource=\"{resource}\"}}")
    };
    let (gpu, cpu) = (of("nvidia.com/gpu"), of("cpu"));
    has(&metrics, &format!("capstan_cluster_queue_nominal_quota{gpu} 8"));
    has(&metrics, &format!("capstan_cluster_queue_resource_usage{cpu} 12"));
    has(&metrics, &format!("capstan_cluster_queue_borrowed{gpu} 4"));
    let money = of("capstan.sh/usd-per-hour");
    has(&metrics, &format!("capstan_cluster_queue_resource_usage{money} 12"));
    has(&metrics, "capstan_cluster_queue_usd_per_hour{cluster_queue=\"team\"} 36.75");
    let unpriced = QueueView { per_hour: None, unpriced: 2, ..queue() };
    let idle = QueueView { name: "idle".into(), per_hour: None, admitted: 0, ..queue() };
    let shown = Metrics::new();
    show(&shown, &[unpriced, idle]);
    has(&shown, "capstan_cluster_queue_usd_per_hour{cluster_queue=\"idle\"} 0");
    lacks(&shown, "capstan_cluster_queue_usd_per_hour{cluster_queue=\"team\"}");
    for absent in ["borrowing_limit", "lending_limit", "resource_reservation", "resource_pending"] {
        lacks(&metrics, &format!("capstan_cluster_queue_{absent}"));
    }

    metrics.configure(Switches { amounts: Amounts::All, locals: false });
    show(&metrics, &[queue()]);
    has(&metrics, &format!("capstan_cluster_queue_borrowing_limit{cpu} 2"));
    has(&metrics, &format!("capstan_cluster_queue_resource_reservation{cpu} 13"));
    let asked = "{cluster_queue=\"team\",resource=\"cpu\"}";
    has(&metrics, &format!("capstan_cluster_queue_resource_pending{asked} 4.5"));
    has(&metrics, &format!("capstan_cluster_queue_lending_limit{cpu} inf"));

    metrics.configure(Switches { amounts: Amounts::None, locals: false });
    show(&metrics, &[queue()]);
    lacks(&metrics, "flavor=");
    lacks(&metrics, "resource=");
}

#[test]
fn work_is_counted_by_where_it_stands_and_why() {
    let metrics = Metrics::new();
    show(&metrics, &[queue()]);
    let pending = |queue, status, count| {
        let labels = format!("cluster_queue=\"{queue}\",status=\"{status}\"");
        has(&metrics, &format!("capstan_pending_workloads{{{labels}}} {count}"));
    };
    pending("team", "active", 2);
    pending("team", "inadmissible", 1);
    pending("", "active", 1);
    for (name, of_team, of_none) in [("reserving_active", 2, 5), ("admitted_active", 2, 5)] {
        has(&metrics, &format!("capstan_{name}_workloads{{cluster_queue=\"team\"}} {of_team}"));
        has(&metrics, &format!("capstan_{name}_workloads{{cluster_queue=\"\"}} {of_none}"));
    }
    has(&metrics, "capstan_finished_workloads{cluster_queue=\"team\"} 1");
    let why = |reason, cause, count| {
        let labels = format!("cluster_queue=\"team\",reason=\"{reason}\"");
        let line = format!("{{{labels},underlying_cause=\"{cause}\"}} {count}");
        has(&metrics, &format!("capstan_unadmitted_workloads{line}"));
    };
    why("NoReservation", "WaitingForQuota", 3);
    why("PendingDelayedTopologyRequests", "PendingTopology", 1);
}

#[test]
fn what_is_gone_leaves_no_gauge() {
    let metrics = Metrics::new();
    metrics.configure(Switches { amounts: Amounts::All, locals: true });
    show(&metrics, &[queue()]);
    let census = Census { queues: BTreeMap::new(), ..Census::default() };
    metrics.look(&Look { queues: &[], local_queues: &[], census: &census });
    for name in ["team", "research", "gpus"] {
        lacks(&metrics, name);
    }
}

#[test]
fn what_was_counted_of_queues_goes_with_them() {
    let metrics = Metrics::new();
    metrics.configure(Switches { locals: true, ..Switches::default() });
    let admitted = || Passage::Admitted { waited: Span::seconds(3) };
    let reason = PreemptionReason::InCohortReclamation;
    let stop = Stop { reason, preempting: Some("team".into()), first: true };
    let anew = Passage::Recomputed(Recomputation::NewTargets);
    let all = [admitted(), Passage::Evicted(Box::new(stop)), Passage::Skipped, anew];
    metrics.step(&passed(&whose(), all), Duration::ZERO);
    metrics.step(&passed(&Whose::default(), [admitted()]), Duration::ZERO);
    show(&metrics, &[queue()]);
    show(&metrics, &[queue()]);
    let of = |queue: &str, class: &str| {
        let labels = format!("cluster_queue={queue:?},priority_class={class:?}");
        format!("capstan_admitted_workloads_total{{{labels}}} 1")
    };
    has(&metrics, &of("team", "high"));
    metrics.look(&Look { queues: &[], local_queues: &[], census: &Census::default() });
    for name in ["\"team\"", "\"gpus\"", "\"research\"", "\"all\""] {
        lacks(&metrics, name);
    }
    has(&metrics, &of("", ""));
    // One of the same name begins at zero.
    metrics.step(&passed(&whose(), [admitted()]), Duration::ZERO);
    show(&metrics, &[queue()]);
    has(&metrics, &of("team", "high"));
}

#[test]
fn what_is_counted_of_a_queue_that_has_gone_goes_with_the_next_look() {
    let metrics = Metrics::new();
    metrics.configure(Switches { locals: true, ..Switches::default() });
    let census = Census::default();
    let nobody = Look { queues: &[], local_queues: &[], census: &census };
    show(&metrics, &[queue()]);
    metrics.look(&nobody);
    // Its last work ends after it; another queue came and went unseen.
    let reason = PreemptionReason::InCohortReclamation;
    let stop = Stop { reason, preempting: Some("brief".into()), first: true };
    metrics.step(&passed(&whose(), [Passage::Finished { ran: Span::seconds(60) }]), Duration::ZERO);
    metrics.look(&nobody);
    metrics.step(&passed(&Whose::default(), [Passage::Evicted(stop.into())]), Duration::ZERO);
    metrics.look(&nobody);
    for name in ["\"team\"", "\"gpus\"", "\"brief\""] {
        lacks(&metrics, name);
    }
}

#[test]
fn a_queue_shows_whether_it_admits_its_cohorts_and_its_share() {
    let metrics = Metrics::new();
    let of = |share, why: Option<Inactive>| {
        let inactive = why.map(|why| Reason::Inactive { cluster_queue: "team".into(), why });
        QueueView { share, inactive, ..queue() }
    };
    let status =
        |word| format!("capstan_cluster_queue_status{{cluster_queue=\"team\",status={word:?}}}");
    show(&metrics, &[of(Some(250), None)]);
    let share = "capstan_cluster_queue_weighted_share{cluster_queue=\"team\",cohort=\"research\"}";
    has(&metrics, &format!("{share} 250"));
    has(&metrics, &format!("{} 1", status("active")));
    show(&metrics, &[of(Some(i64::MAX), Some(Inactive::Stopped))]);
    has(&metrics, &format!("{share} inf"));
    has(&metrics, &format!("{} 0", status("active")));
    has(&metrics, &format!("{} 1", status("pending")));
    show(&metrics, &[of(None, Some(Inactive::Terminating))]);
    has(&metrics, &format!("{} 1", status("terminating")));
    lacks(&metrics, "cluster_queue_weighted_share{");
    let places = "cluster_queue=\"team\",parent_cohort=\"research\"";
    has(&metrics, &format!("capstan_cluster_queue_info{{{places},root_cohort=\"all\"}} 1"));
}

#[test]
fn cohorts_show_their_tree_their_share_and_their_amounts() {
    let metrics = Metrics::new();
    show(&metrics, &[queue()]);
    let places = "cohort=\"research\",parent_cohort=\"all\",root_cohort=\"all\"";
    has(&metrics, &format!("capstan_cohort_info{{{places}}} 1"));
    has(&metrics, "capstan_cohort_weighted_share{cohort=\"research\"} 125");
    let of = "{cohort=\"research\",flavor=\"a100\",resource=\"cpu\"}";
    has(&metrics, &format!("capstan_cohort_subtree_quota{of} 16"));
    has(&metrics, &format!("capstan_cohort_subtree_resource_reservations{of} 13"));
    has(&metrics, "capstan_cohort_subtree_admitted_active_workloads{cohort=\"research\"} 7");
}

#[test]
fn local_queues_have_twins_of_it_all_once_they_are_asked_for() {
    let metrics = Metrics::new();
    show(&metrics, &[queue()]);
    lacks(&metrics, "local_queue_");
    metrics.configure(Switches { locals: true, ..Switches::default() });
    let all = [
        Passage::Admitted { waited: Span::seconds(3) },
        Passage::Finished { ran: Span::minutes(1) },
    ];
    metrics.step(&passed(&whose(), all), Duration::ZERO);
    show(&metrics, &[queue()]);
    let of = "name=\"gpus\",namespace=\"ns\"";
    let lines = [
        format!("admitted_workloads_total{{{of},priority_class=\"high\"}} 1"),
        format!("finished_workloads_total{{{of},priority_class=\"high\"}} 1"),
        format!("admission_wait_time_seconds_sum{{{of},priority_class=\"high\"}} 3"),
        format!("pending_workloads{{{of},status=\"active\"}} 2"),
        format!("reserving_active_workloads{{{of}}} 2"),
        format!("admitted_active_workloads{{{of}}} 2"),
        format!("finished_workloads{{{of}}} 1"),
        format!("status{{active=\"True\",{of}}} 1"),
        format!("status{{active=\"False\",{of}}} 0"),
        format!("resource_usage{{flavor=\"a100\",{of},resource=\"cpu\"}} 1.5"),
        format!("resource_reservation{{flavor=\"a100\",{of},resource=\"cpu\"}} 1.5"),
        format!("admission_fair_sharing_usage{{cluster_queue=\"team\",{of}}} 2.5"),
        format!(
            "unadmitted_workloads{{cluster_queue=\"team\",{of},reason=\"NoReservation\",\
             underlying_cause=\"WaitingForQuota\"}} 3"
        ),
    ];
    lines.iter().for_each(|line| has(&metrics, &format!("capstan_local_queue_{line}")));
    // Switched off again, nothing of them stays.
    metrics.configure(Switches::default());
    show(&metrics, &[queue()]);
    lacks(&metrics, "local_queue_");
}

#[test]
fn the_configuration_says_which_series_there_are() {
    let of = |text: &str| {
        let head = "apiVersion: capstan.sh/v1alpha1\nkind: CapstanConfiguration\n";
        let config = crate::config::read_config_text("c", &format!("{head}{text}"));
        Switches::of(&config.expect("usable").file.metrics)
    };
    assert_eq!(of(""), Switches { amounts: Amounts::Some, locals: false });
    let all = "metrics: {enableClusterQueueResources: true, localQueueMetrics: {enable: true}}\n";
    assert_eq!(of(all), Switches { amounts: Amounts::All, locals: true });
    let none =
        "metrics: {enableClusterQueueResources: false, localQueueMetrics: {enable: false}}\n";
    assert_eq!(of(none), Switches { amounts: Amounts::None, locals: false });
    assert!(of("metrics: {localQueueMetrics: {}}\n").locals);
}
