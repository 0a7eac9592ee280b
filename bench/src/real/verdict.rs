//! Medians, and the bounds that fail a run: ratios within it, and counts that no machine changes.

use serde_json::{Value, json};

use super::burst::{Burst, Ran, Said};
use super::contender::Who;
use super::jobs::{Submitted, Through};
use super::reclaim::{Reclaimed, TAKEN_BACK};
use crate::line::rounded;

/// Part of the raw binder's rate that Capstan has to reach; what is wanted is more.
const OF_RAW: (f64, f64) = (0.9, 0.97);
/// Times kube-scheduler's rate.
const OF_KUBE: (f64, f64) = (4.0, 5.0);
/// Part of kube-scheduler's processor time per pod, at most.
const OF_KUBE_TIME: f64 = 0.2;
/// Part of the rate of plain Jobs.
const OF_PLAIN: f64 = 0.9;
/// Writes that a Workload may cost by the time at which it says that it runs: its create, one
/// status until it is bound, and one for all that came later, merged.
const OF_WORKLOAD: f64 = 3.0;
/// Seconds within which lent quota has to be back with its owner.
const TAKEN_BACK_WITHIN: f64 = 12.0;
/// Writes above the budget that a retry or two may take, per pod.
const SLACK: f64 = 0.01;

/// A bound with what was measured.
pub struct Check {
    /// What was compared.
    pub name: String,
    /// What came out.
    pub value: f64,
    /// The side on which it has to be.
    pub bound: Bound,
    /// More than has to be.
    pub wanted: Option<f64>,
}

/// The side of a bound.
#[derive(Clone, Copy)]
pub enum Bound {
    /// At least.
    Least(f64),
    /// At most.
    Most(f64),
}

impl Check {
    /// Whether it holds. What is no number holds nothing.
    pub fn holds(&self) -> bool {
        match self.bound {
            Bound::Least(least) => self.value >= least,
            Bound::Most(most) => self.value <= most,
        }
    }

    /// Its line.
    pub fn line(&self) -> Value {
        let mut line = json!({
            "bound": self.name,
            "value": rounded(self.value, 1e3),
            "holds": self.holds(),
        });
        match self.bound {
            Bound::Least(least) => line["least"] = json!(least),
            Bound::Most(most) => line["most"] = json!(most),
        }
        if let Some(wanted) = self.wanted {
            line["wanted"] = json!(wanted);
        }
        line
    }
}

/// The line of one contender in a burst.
pub fn burst_line(case: &Burst, who: Who, runs: &[Ran]) -> Value {
    let pods = case.pods as f64;
    let last = runs.last().expect("a run");
    let mut line = json!({
        "case": case.name(),
        "who": who.name(),
        "pods": case.pods,
        "gangs": gangs_of(case, who),
        "runs": runs.len(),
        "pods_per_s": spread(runs, 1.0, |ran| ran.per_second),
        "bound_in_s": spread(runs, 1e3, |ran| ran.took.as_secs_f64()),
        "first_bound_s": spread(runs, 1e3, |ran| ran.first.as_secs_f64()),
        "pods_per_s_from_first_bound": spread(runs, 1.0, |ran| {
            (pods - 1.0) / (ran.took - ran.first).as_secs_f64()
        }),
        "read_s": spread(runs, 1e3, |ran| ran.read.as_secs_f64()),
        "cpu_ms_per_pod": spread(runs, 1e3, |ran| ran.processor * 1e3 / pods),
        "api_writes_per_pod": spread(runs, 1e3, |ran| ran.writes.objects() as f64 / pods),
        "events_per_pod": spread(runs, 1e3, |ran| {
            ran.writes_later.of("POST events") as f64 / pods
        }),
        "writes_until_bound": last.writes.line(),
        "writes_a_second_later": last.writes_later.line(),
        "load": load(),
    });
    for at in 0..last.binding.len() {
        let of = spread(runs, 1e3, |ran| ran.binding[at].1 * 1e3 / pods);
        line["while_binding_cpu_ms_per_pod"][last.binding[at].0] = of["median"].clone();
    }
    if let Some(said) = said(runs) {
        let rate = |it: &&Said| pods / it.took.as_secs_f64();
        line["until_all_is_said"] = json!({
            "in_s": spread(&said, 1e3, |it| it.took.as_secs_f64()),
            "pods_per_s": spread(&said, 1.0, rate),
            "cpu_ms_per_pod": spread(&said, 1e3, |it| it.processor * 1e3 / pods),
            "workload_writes_per_gang": spread(&said, 1e3, |it| of_workloads(case, it)),
            "writes": said.last().expect("a run").writes.line(),
        });
    }
    line
}

/// How it stood when everything was said, if there was anything to say.
fn said(runs: &[Ran]) -> Option<Vec<&Said>> {
    runs.iter().map(|ran| ran.said.as_ref()).collect()
}

/// Creates and statuses of a gang's Workload.
fn of_workloads(case: &Burst, said: &Said) -> f64 {
    let kinds = ["POST workloads", "PATCH workloads/status", "PUT workloads/status"];
    let all: u64 = kinds.iter().map(|kind| said.writes.of(kind)).sum();
    all as f64 / case.gangs() as f64
}

/// Gangs as the contender knows them.
fn gangs_of(case: &Burst, who: Who) -> usize {
    match who {
        Who::Raw | Who::Watching => 0,
        Who::Kube if !case.upstream => 0,
        _ => case.gangs(),
    }
}

/// Part of the rate of a raw binder that watches nothing. No scheduler can do without: a figure,
/// not a bound.
pub fn without_watches(case: &Burst, all: &[(Who, Vec<Ran>)]) -> Value {
    let of = |who: Who| &all.iter().find(|it| it.0 == who).expect("everybody runs").1;
    let rate = |who| median(of(who), |ran| ran.per_second);
    let of_raw = |who| rounded(rate(who) / rate(Who::Raw), 1e3);
    json!({
        "case": case.name(),
        "to_raw_without_watches": {
            (Who::Watching.name()): of_raw(Who::Watching),
            (Who::Capstan.name()): of_raw(Who::Capstan),
            (Who::Kube.name()): of_raw(Who::Kube),
        },
    })
}

/// The bounds of a burst.
pub fn burst_checks(case: &Burst, all: &[(Who, Vec<Ran>)]) -> Vec<Check> {
    let of = |who: Who| &all.iter().find(|it| it.0 == who).expect("everybody runs").1;
    let rate = |who| median(of(who), |ran| ran.per_second);
    // What is said later, until all is said, counts too.
    let time = |who| match said(of(who)) {
        Some(said) => median(&said, |it| it.processor),
        None => median(of(who), |ran| ran.processor),
    };
    let named = |what: &str| format!("{}: {what}", case.name());
    let writes = median(of(Who::Capstan), |ran| ran.writes.objects() as f64) / case.pods as f64;
    let budget = 1.0 + 2.0 * case.gangs() as f64 / case.pods as f64;
    let least = |what, value, (least, wanted): (f64, f64)| Check {
        name: named(what),
        value,
        bound: Bound::Least(least),
        wanted: Some(wanted),
    };
    let most = |what, value, most| Check {
        name: named(what),
        value,
        bound: Bound::Most(most),
        wanted: None,
    };
    let mut all = vec![
        least("rate to raw binder with watches", rate(Who::Capstan) / rate(Who::Watching), OF_RAW),
        least("rate to kube-scheduler", rate(Who::Capstan) / rate(Who::Kube), OF_KUBE),
        most("cpu to kube-scheduler", time(Who::Capstan) / time(Who::Kube), OF_KUBE_TIME),
        most("API writes per pod until all are bound", writes, budget + SLACK),
    ];
    if let Some(said) = said(of(Who::Capstan)) {
        let writes = median(&said, |it| of_workloads(case, it));
        let what = "creates and statuses of a gang's Workload until all say that they run";
        all.push(most(what, writes, OF_WORKLOAD + SLACK));
    }
    all
}

/// The line of one contender with Jobs.
pub fn jobs_line(case: &Submitted, who: Who, runs: &[Through]) -> Value {
    let (jobs, pods) = (case.jobs as f64, (case.jobs * case.pods) as f64);
    let mut line = json!({
        "case": case.name,
        "who": who.name(),
        "jobs": case.jobs,
        "pods": case.jobs * case.pods,
        "runs": runs.len(),
        "pods_per_s": spread(runs, 10.0, |run| run.per_second),
        "submitted_to_bound_s": spread(runs, 1e3, |run| run.took.as_secs_f64()),
        "cpu_ms_per_pod": spread(runs, 1e3, |run| run.processor * 1e3 / pods),
        "all_api_writes_per_job": spread(runs, 10.0, |run| run.writes.objects() as f64 / jobs),
        "writes": runs.last().expect("a run").writes.line(),
        "load": load(),
    });
    for at in 0..runs.first().map_or(0, |run| run.servers.len()) {
        let of = spread(runs, 1e3, |run| run.servers[at].1 * 1e3 / pods);
        line["servers_cpu_ms_per_pod"][runs[0].servers[at].0] = of["median"].clone();
    }
    if runs.iter().all(|run| run.said.is_some()) {
        let said = |run: &Through| run.said.unwrap_or_default().as_secs_f64();
        line["bound_to_said_s"] = spread(runs, 1e3, said);
    }
    line
}

/// The same from the first submission to the last bound pod, which the Job controller and whoever
/// submits have the most of: a figure, not a bound.
pub fn from_submission(case: &Submitted, all: &[(Who, Vec<Through>)]) -> Value {
    let of = |who: Who| &all.iter().find(|it| it.0 == who).expect("both run").1;
    let took = |who| median(of(who), |run| run.took.as_secs_f64());
    let ratio = rounded(took(Who::Kube) / took(Who::Capstan), 1e3);
    json!({"case": case.name, "rate_to_plain_jobs_from_submission": ratio})
}

/// The bounds of quota that is taken back: how long that took, and who had to leave.
pub fn reclaim_checks(runs: &[Reclaimed]) -> Vec<Check> {
    let check = |what: &str, value, most| Check {
        name: format!("reclaim: {what}"),
        value,
        bound: Bound::Most(most),
        wanted: None,
    };
    let victims = runs.iter().map(|run| run.victims).max().unwrap_or(0);
    let took = median(runs, |run| run.took.as_secs_f64());
    vec![
        check("seconds until all is back", took, TAKEN_BACK_WITHIN),
        check("victims for what was taken back", victims as f64 / TAKEN_BACK as f64, 1.0),
    ]
}

/// The bound of a case with Jobs.
pub fn jobs_checks(case: &Submitted, all: &[(Who, Vec<Through>)]) -> Vec<Check> {
    let of = |who: Who| &all.iter().find(|it| it.0 == who).expect("both run").1;
    let rate = |who| median(of(who), |run| run.per_second);
    vec![Check {
        name: format!("{}: rate to plain Jobs", case.name),
        value: rate(Who::Capstan) / rate(Who::Kube),
        bound: Bound::Least(OF_PLAIN),
        wanted: None,
    }]
}

/// Median, least and most of a figure.
pub fn spread<T>(runs: &[T], per_unit: f64, figure: impl Fn(&T) -> f64) -> Value {
    let figures = sorted(runs, figure);
    let told = |at: usize| rounded(figures[at], per_unit);
    json!({"median": told(figures.len() / 2), "least": told(0), "most": told(figures.len() - 1)})
}

fn median<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    let figures = sorted(runs, figure);
    figures[figures.len() / 2]
}

fn sorted<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> Vec<f64> {
    let mut figures: Vec<f64> = runs.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// How busy the machine was in the last minute, all contenders and their servers included.
pub fn load() -> Value {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().and_then(|it| it.parse::<f64>().ok());
    json!(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_their_side() {
        let check = |value, bound| Check { name: String::new(), value, bound, wanted: None };
        assert!(check(0.9, Bound::Least(0.9)).holds());
        assert!(!check(0.89, Bound::Least(0.9)).holds());
        assert!(check(0.2, Bound::Most(0.2)).holds());
        assert!(!check(0.21, Bound::Most(0.2)).holds());
        assert!(!check(f64::NAN, Bound::Most(0.2)).holds());
    }

    #[test]
    fn the_median_is_told_with_its_range() {
        let told = spread(&[3.0, 1.0, 2.0], 1.0, |it| *it);
        assert_eq!(told, json!({"median": 2.0, "least": 1.0, "most": 3.0}));
    }
}
