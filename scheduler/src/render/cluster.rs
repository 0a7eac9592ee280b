//! The sentences about a whole cluster: what it has, what is used, what it costs, how the
//! simulation ended.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_core::explain::quantity::{amount, counted};
use capstan_core::explain::view::NodeView;
use capstan_core::model::input::{CapacityType, UNLIMITED};
use capstan_core::money::MicroUsd;
use capstan_core::time::{Span, Time};

use super::names::thousands;
use super::result::SimulationResult;
use super::state::whole_gpus;

/// Totals over all nodes and workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// GPUs of all nodes.
    pub gpus: i64,
    /// GPUs that pods hold.
    pub gpus_used: i64,
    /// Price of all nodes, as far as known.
    pub nodes_per_hour: MicroUsd,
    /// Nodes without a known price.
    pub nodes_unpriced: usize,
    /// Price of what pods hold, as far as known.
    pub used_per_hour: MicroUsd,
}

impl Totals {
    /// The totals of a result.
    pub fn of(result: &SimulationResult) -> Totals {
        let mut totals = Totals::default();
        for node in &result.nodes {
            totals.gpus = totals.gpus.saturating_add(whole_gpus(&node.allocatable));
            totals.gpus_used = totals.gpus_used.saturating_add(whole_gpus(&node.used));
            match &node.price {
                Some(price) => totals.nodes_per_hour = totals.nodes_per_hour.plus(price.per_hour),
                None => totals.nodes_unpriced += 1,
            }
            totals.used_per_hour = totals.used_per_hour.plus(node.used_per_hour);
        }
        totals
    }
}

/// `6 nodes, 40 GPUs (32 A100: 16 spot, 16 on-demand; 8 T4 spot), $57.15/h. In use: 24 GPUs,
/// $36.75/h. Settled after 3 rounds in 1.8 ms.`
pub fn sentence(result: &SimulationResult) -> String {
    let totals = Totals::of(result);
    let mut parts = vec![format!("{} nodes", thousands(length(result.nodes.len())))];
    if result.nodes.len() == 1 {
        parts = vec!["1 node".to_owned()];
    }
    let mut used = Vec::new();
    if totals.gpus > 0 {
        parts.push(format!("{}{}", gpus(totals.gpus), models(result)));
        used.push(gpus(totals.gpus_used));
    } else {
        for resource in ["cpu", "memory"] {
            if let Some((has, holds)) = sum(&result.nodes, resource) {
                parts.push(amount(resource, has));
                used.push(amount(resource, holds));
            }
        }
    }
    if totals.nodes_unpriced < result.nodes.len() {
        let unpriced = match totals.nodes_unpriced {
            0 => String::new(),
            nodes => format!(" ({} without a price)", counted(length(nodes), "node")),
        };
        parts.push(format!("${}/h{unpriced}", totals.nodes_per_hour));
        used.push(format!("${}/h", totals.used_per_hour));
    }
    let in_use =
        if used.is_empty() { String::new() } else { format!(" In use: {}.", used.join(", ")) };
    format!("{}.{in_use} {}", parts.join(", "), ending(result))
}

/// How the simulation ended and how long it took.
fn ending(result: &SimulationResult) -> String {
    let rounds = counted(i64::from(result.rounds), "round");
    let took = duration(result.elapsed);
    let clock = |until: Time| match result.timeless {
        true => Span(until.0).to_string(),
        false => moment(until),
    };
    match (result.until, result.settled) {
        (Some(until), true) => {
            format!("Played in {rounds}, {took}; nothing happens after {}.", clock(until))
        }
        (Some(until), false) => {
            let word = if result.timeless { "for" } else { "until" };
            format!("Played {word} {} in {rounds}, {took}.", clock(until))
        }
        (None, true) => format!("Settled after {rounds} in {took}."),
        (None, false) => format!("Stopped after {rounds} in {took}, not settled."),
    }
}

/// GPUs by model and capacity type, the most numerous first.
fn models(result: &SimulationResult) -> String {
    let mut counts: BTreeMap<&str, BTreeMap<CapacityType, i64>> = BTreeMap::new();
    for node in &result.nodes {
        let gpus = whole_gpus(&node.allocatable);
        if gpus > 0 {
            let model = result.gpu_models.get(&node.name).map_or("", String::as_str);
            let by = counts.entry(model).or_default().entry(node.capacity_type).or_default();
            *by = by.saturating_add(gpus);
        }
    }
    let mut rows: Vec<_> = counts.iter().map(|(model, by)| (sum_of(by), *model, by)).collect();
    rows.sort_by_key(|(gpus, model, _): &(i64, &str, _)| (std::cmp::Reverse(*gpus), *model));
    let only = rows.len() == 1;
    let shown: Vec<String> = rows
        .iter()
        .map(|(gpus, model, by)| model_words(*gpus, model, by, only))
        .filter(|words| !words.is_empty())
        .collect();
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join("; ")) }
}

fn sum_of(by: &BTreeMap<CapacityType, i64>) -> i64 {
    by.values().fold(0, |sum: i64, gpus| sum.saturating_add(*gpus))
}

/// `32 A100: 16 spot, 16 on-demand`, `8 T4 spot`; nothing for the only model when it is unknown.
fn model_words(gpus: i64, model: &str, by: &BTreeMap<CapacityType, i64>, only: bool) -> String {
    let known = by.keys().any(|bought| *bought != CapacityType::Unknown);
    let name = match (model, only) {
        ("", true) => String::new(),
        ("", false) => format!("{gpus} of unknown model"),
        (model, true) => model.to_owned(),
        (model, false) => format!("{gpus} {model}"),
    };
    if !known {
        return name;
    }
    let types: Vec<String> = match by.len() {
        1 => by.keys().map(ToString::to_string).collect(),
        _ => by.iter().map(|(bought, count)| format!("{count} {bought}")).collect(),
    };
    match (name.as_str(), by.len()) {
        ("", _) => types.join(", "),
        (name, 1) => format!("{name} {}", types.join("")),
        (name, _) => format!("{name}: {}", types.join(", ")),
    }
}

/// What all nodes have and use of a resource; `None` where some state no limit.
fn sum(nodes: &[NodeView], resource: &str) -> Option<(i64, i64)> {
    let mut total = (0_i64, 0_i64);
    for node in nodes {
        let has = node.allocatable.get(resource).copied().unwrap_or(0);
        if has == UNLIMITED {
            return None;
        }
        total.0 = total.0.saturating_add(has);
        total.1 = total.1.saturating_add(node.used.get(resource).copied().unwrap_or(0));
    }
    (total.0 > 0).then_some(total)
}

fn gpus(count: i64) -> String {
    if count == 1 { "1 GPU".to_owned() } else { format!("{} GPUs", thousands(count)) }
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// `1.8 ms`, `2.3 s`.
fn duration(elapsed: Duration) -> String {
    let micros = elapsed.as_micros();
    if micros < 1_000_000 {
        format!("{}.{} ms", micros / 1_000, micros / 100 % 10)
    } else {
        format!("{}.{} s", micros / 1_000_000, micros / 100_000 % 10)
    }
}

/// A point in time: `2026-08-01 14:20:00 UTC`.
pub fn moment(time: Time) -> String {
    strftime(time, "%Y-%m-%d %H:%M:%S UTC")
}

/// A point in time seen from another: `14:20` on the same day, `Aug 3 14:20` on others.
pub fn clock_time(time: Time, now: Time) -> String {
    let format = match (same_day(time, now), same_year(time, now)) {
        (true, _) => "%H:%M UTC",
        (false, true) => "%b %-d %H:%M UTC",
        (false, false) => "%b %-d %Y %H:%M UTC",
    };
    strftime(time, format)
}

/// Times to the second, each with its day and year where those are not all the same: `14:20:05`,
/// `Aug 3 14:20:05`, `Aug 3 2026 14:20:05`.
pub fn times_of(times: &[Time]) -> Vec<String> {
    let all = |same: fn(Time, Time) -> bool| times.iter().all(|time| same(*time, times[0]));
    let format = match (all(same_day), all(same_year)) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%b %-d %H:%M:%S",
        (false, false) => "%b %-d %Y %H:%M:%S",
    };
    times.iter().map(|time| strftime(*time, format)).collect()
}

fn same_year(one: Time, other: Time) -> bool {
    strftime(one, "%Y") == strftime(other, "%Y")
}

/// Whether two times are of one day (UTC).
fn same_day(one: Time, other: Time) -> bool {
    one.0.div_euclid(86_400_000) == other.0.div_euclid(86_400_000)
}

fn strftime(time: Time, format: &str) -> String {
    match jiff::Timestamp::from_millisecond(time.0) {
        Ok(stamp) => stamp.strftime(format).to_string(),
        Err(_) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture;

    #[test]
    fn the_cluster_in_one_sentence() {
        let mut result = fixture::result();
        assert_eq!(
            sentence(&result),
            "6 nodes, 40 GPUs (32 A100: 16 spot, 16 on-demand; 8 T4 spot), $93.70/h. In use: 40 \
             GPUs, $49.25/h. Settled after 3 rounds in 1.8 ms."
        );
        result.nodes[0].price = None;
        result.settled = false;
        result.gpu_models.clear();
        assert_eq!(
            sentence(&result),
            "6 nodes, 40 GPUs (24 spot, 16 on-demand), $81.20/h (1 node without a price). In use: \
             40 GPUs, $49.25/h. Stopped after 3 rounds in 1.8 ms, not settled."
        );
    }

    #[test]
    fn a_cluster_without_gpus_counts_cpu_and_memory() {
        let mut result = SimulationResult { rounds: 1, settled: true, ..Default::default() };
        assert_eq!(sentence(&result), "0 nodes. Settled after 1 round in 0.0 ms.");
        let mut node = fixture::node("n", 0, CapacityType::Unknown, None);
        node.allocatable = [("cpu".into(), 8_000), ("memory".into(), 31 << 30)].into();
        node.used = [("cpu".into(), 500)].into();
        result.nodes = vec![node];
        result.until = Some(Time(1_785_578_400_000));
        assert_eq!(
            sentence(&result),
            "1 node, 8 cpu, 31Gi memory. In use: 500m cpu, 0 memory. \
             Played in 1 round, 0.0 ms; nothing happens after 2026-08-01 10:00:00 UTC."
        );
        (result.settled, result.nodes) = (false, Vec::new());
        let cut = "0 nodes. Played until 2026-08-01 10:00:00 UTC in 1 round, 0.0 ms.";
        assert_eq!(sentence(&result), cut);
    }

    #[test]
    fn without_any_time_in_the_input_times_are_counted_from_the_start() {
        let until = Some(Time(5_400_000));
        let result = SimulationResult { timeless: true, until, rounds: 2, ..Default::default() };
        assert_eq!(sentence(&result), "0 nodes. Played for 1h30m in 2 rounds, 0.0 ms.");
    }

    #[test]
    fn durations_and_times_read_easily() {
        assert_eq!(duration(Duration::from_micros(1_849)), "1.8 ms");
        assert_eq!(duration(Duration::from_millis(2_345)), "2.3 s");
        let now = Time(1_785_578_400_000);
        assert_eq!(clock_time(Time(now.0 + 3_600_000), now), "11:00 UTC");
        assert_eq!(clock_time(Time(now.0 + 2 * 86_400_000), now), "Aug 3 10:00 UTC");
        assert_eq!(clock_time(Time(now.0 + 365 * 86_400_000), now), "Aug 1 2027 10:00 UTC");
        assert_eq!(moment(Time(i64::MAX)), "-");
    }
}
