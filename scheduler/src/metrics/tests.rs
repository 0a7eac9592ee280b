//! Metrics: what is counted, what is set, and what Prometheus reads of it.

use super::*;
use capstan_core::explain::view::{Account, QuotaView, Rate};
use capstan_core::model::input::{Enforcement, Period, SpendingLimit};
use capstan_core::money::MicroUsd;
use capstan_core::plan::{Counts, Preemption, WorkloadOutcome};
use capstan_core::time::{Span, Time};

fn workload(name: &str, queue: Option<&str>, state: State) -> WorkloadView {
    WorkloadView {
        namespace: "ns".into(),
        name: name.into(),
        local_queue: None,
        cluster_queue: queue.map(Text::from),
        priority: 0,
        state,
        found_running: false,
        preempted: None,
        pod_sets: Vec::new(),
        pods: Vec::new(),
        min_member: 1,
        borrowed: false,
        per_hour: None,
        unpriced: 0,
        reason: None,
        uncharged: None,
        created: Time(0),
        waits_since: Time(0),
        admitted_at: None,
        gpus: 0,
    }
}

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
        cohort: None,
        inactive: None,
        quotas: vec![line("cpu", 1_000), line("nvidia.com/gpu", 1)],
        pending: 3,
        admitted: 2,
        per_hour: Some(MicroUsd(36_750_000)),
        unpriced: 0,
        share: None,
        spending: None,
    }
}

fn decided(workload: &str, outcome: Outcome) -> WorkloadOutcome {
    WorkloadOutcome { round: 1, workload: workload.into(), outcome }
}

fn stop(victim: &str) -> Outcome {
    Outcome::Preempting(vec![Preemption {
        victim: victim.into(),
        preemptor: "ns/high".into(),
        reason: PreemptionReason::InClusterQueue,
        victim_priority: 0,
        preemptor_priority: 1,
        frees: Vec::new(),
        lost: Span(0),
        lost_cost: None,
        cohort: None,
    }])
}

fn has(metrics: &Metrics, line: &str) {
    let text = metrics.encode();
    assert!(text.lines().any(|found| found == line), "no line {line:?} in\n{text}");
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
    metrics.footprint(&Footprint {
        pods: 3,
        effects_in_flight: 2,
        sweeps: 7,
        ..Footprint::default()
    });
    metrics.footprint(&Footprint {
        pods: 1,
        effects_in_flight: 2,
        sweeps: 8,
        ..Footprint::default()
    });
    has(&metrics, "capstan_engine_entries{table=\"pods\"} 1");
    has(&metrics, "capstan_engine_entries{table=\"effects_in_flight\"} 2");
    has(&metrics, "capstan_engine_sweeps 8");
    let engine = capstan_core::Engine::new();
    metrics.footprint(&engine.footprint());
    has(&metrics, "capstan_engine_entries{table=\"effects_in_flight\"} 0");
}

#[test]
fn admissions_and_preemptions_carry_the_queue_that_the_views_name() {
    let metrics = Metrics::new();
    let outcomes = vec![
        decided("ns/low", Outcome::Admitted),
        decided("ns/loose", Outcome::Admitted),
        decided("ns/high", stop("ns/low")),
        // It waits for its victim and says so again.
        decided("ns/high", stop("ns/low")),
    ];
    metrics.step(&Report { outcomes, ..Report::default() }, Duration::ZERO);
    let views = [
        workload("high", Some("team"), State::Reserved),
        workload("loose", None, State::Running),
        workload("low", Some("team"), State::Evicting),
    ];
    metrics.views(&views, &[queue()]);
    has(&metrics, "capstan_admitted_workloads_total{cluster_queue=\"team\"} 1");
    has(&metrics, "capstan_admitted_workloads_total{cluster_queue=\"\"} 1");
    let labels = "preempting_cluster_queue=\"team\",reason=\"InClusterQueue\"";
    has(&metrics, &format!("capstan_preempted_workloads_total{{{labels}}} 1"));
    metrics.views(&views, &[queue()]);
    has(&metrics, "capstan_admitted_workloads_total{cluster_queue=\"team\"} 1");
}

#[test]
fn a_victim_that_came_back_counts_again() {
    let metrics = Metrics::new();
    let outcomes = vec![
        decided("ns/high", stop("ns/low")),
        decided("ns/low", Outcome::Admitted),
        decided("ns/high", stop("ns/low")),
    ];
    metrics.step(&Report { outcomes, ..Report::default() }, Duration::ZERO);
    metrics.views(&[], &[]);
    let labels = "preempting_cluster_queue=\"\",reason=\"InClusterQueue\"";
    has(&metrics, &format!("capstan_preempted_workloads_total{{{labels}}} 2"));
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
    let rate = Rate { per_hour: MicroUsd(5_000_000), gpus: 2, unpriced: 0 };
    let account = Account::begun(limit, Time(0), rate).on(Time(1_800_000));
    let spends = QueueView { spending: Some(account.into()), ..queue() };
    let idle = QueueView { name: "idle".into(), ..queue() };
    metrics.views(&[], &[spends, idle.clone()]);
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
    assert!(!metrics.encode().contains("budget_usd{cluster_queue=\"idle\"}"), "it has none");
    metrics.views(&[], &[idle]);
    assert!(!metrics.encode().contains("budget_usd{"), "and nobody has any more");
}

#[test]
fn queues_show_quota_in_base_units_and_dollars() {
    let metrics = Metrics::new();
    let views = [workload("loose", None, State::Queued)];
    metrics.views(&views, &[queue()]);
    let gpu = "{cluster_queue=\"team\",flavor=\"a100\",resource=\"nvidia.com/gpu\"}";
    let cpu = "{cluster_queue=\"team\",flavor=\"a100\",resource=\"cpu\"}";
    has(&metrics, &format!("capstan_cluster_queue_nominal_quota{gpu} 8"));
    has(&metrics, &format!("capstan_cluster_queue_resource_usage{cpu} 12"));
    has(&metrics, &format!("capstan_cluster_queue_borrowed{gpu} 4"));
    has(&metrics, "capstan_cluster_queue_usd_per_hour{cluster_queue=\"team\"} 36.75");
    let unpriced = QueueView { per_hour: None, unpriced: 2, ..queue() };
    let idle = QueueView { name: "idle".into(), per_hour: None, admitted: 0, ..queue() };
    let shown = Metrics::new();
    shown.views(&[], &[unpriced, idle]);
    has(&shown, "capstan_cluster_queue_usd_per_hour{cluster_queue=\"idle\"} 0");
    let price = "capstan_cluster_queue_usd_per_hour{cluster_queue=\"team\"}";
    assert!(!shown.encode().contains(price), "nobody knows what it costs");
    has(&metrics, "capstan_pending_workloads{cluster_queue=\"team\"} 3");
    has(&metrics, "capstan_pending_workloads{cluster_queue=\"\"} 1");
    has(&metrics, "capstan_admitted_active_workloads{cluster_queue=\"team\"} 2");
}

#[test]
fn a_queue_that_is_gone_leaves_no_gauge() {
    let metrics = Metrics::new();
    metrics.views(&[], &[queue()]);
    metrics.views(&[], &[]);
    assert!(!metrics.encode().contains("team"));
}

#[test]
fn who_is_stopped_is_counted_by_why_and_how_long_who_is_admitted_waited() {
    let metrics = Metrics::new();
    let Outcome::Preempting(mut stopped) = stop("ns/held") else { unreachable!("a stop") };
    stopped[0].reason = PreemptionReason::Deactivated;
    let outcomes = vec![
        decided("ns/high", stop("ns/low")),
        decided("ns/high", stop("ns/low")),
        decided("ns/quick", Outcome::Admitted),
    ];
    metrics.step(&Report { outcomes, stopped, ..Report::default() }, Duration::ZERO);
    let mut quick = workload("quick", Some("team"), State::Binding);
    (quick.waits_since, quick.admitted_at) = (Time(1_000), Some(Time(4_000)));
    let mut held = workload("held", Some("team"), State::Evicting);
    held.reason = Some(capstan_core::explain::reason::Reason::RoomTaken);
    let mut low = workload("low", Some("other"), State::Queued);
    low.reason = Some(capstan_core::explain::reason::Reason::RoomTaken);
    metrics.views(&[quick, held, low], &[queue()]);
    let evicted = "capstan_evicted_workloads_total";
    has(&metrics, &format!("{evicted}{{cluster_queue=\"other\",reason=\"Preempted\"}} 1"));
    has(&metrics, &format!("{evicted}{{cluster_queue=\"team\",reason=\"Deactivated\"}} 1"));
    let waited = "capstan_admission_wait_time_seconds";
    has(&metrics, &format!("{waited}_sum{{cluster_queue=\"team\"}} 3"));
    has(&metrics, &format!("{waited}_bucket{{cluster_queue=\"team\",le=\"5\"}} 1"));
    has(&metrics, &format!("{waited}_bucket{{cluster_queue=\"team\",le=\"2.5\"}} 0"));
    let why = "cluster_queue=\"other\",reason=\"PendingEvaluation\"";
    has(&metrics, &format!("capstan_unadmitted_workloads{{{why}}} 1"));
    assert_eq!(metrics.encode().matches("capstan_unadmitted_workloads{").count(), 1);
}

#[test]
fn a_queue_shows_whether_it_admits_and_its_share() {
    let metrics = Metrics::new();
    let of = |share, inactive: bool| {
        let why = || capstan_core::explain::reason::Reason::Unqueued;
        QueueView { share, inactive: inactive.then(why), ..queue() }
    };
    metrics.views(&[], &[of(Some(250), false)]);
    has(&metrics, "capstan_cluster_queue_weighted_share{cluster_queue=\"team\"} 250");
    let status =
        |word| format!("capstan_cluster_queue_status{{cluster_queue=\"team\",status={word:?}}}");
    has(&metrics, &format!("{} 1", status("active")));
    metrics.views(&[], &[of(Some(i64::MAX), true)]);
    has(&metrics, "capstan_cluster_queue_weighted_share{cluster_queue=\"team\"} inf");
    has(&metrics, &format!("{} 0", status("active")));
    has(&metrics, &format!("{} 1", status("inactive")));
    metrics.views(&[], &[of(None, false)]);
    assert!(!metrics.encode().contains("weighted_share{"));
}
