//! What fails a run: slopes and ratios within it, and counts that no machine changes.
//!
//! A slope is the least-squares slope of log(time per decision) over log(size), from the fastest
//! repeat of each case in processor time. Absolute times never fail anything: machines differ, and
//! neighbours are noisy.

use serde_json::{Value, json};

use crate::line::rounded;
use crate::measure::Measured;

/// What is compared.
#[derive(Clone, Copy)]
enum Figure {
    /// Slope of deciding time per decision over nodes within a family.
    SlopeOverNodes(&'static str),
    /// The same over pending pods.
    SlopeOverPending(&'static str),
    /// Deciding time per decision of one family over that of another, at 5,000 nodes.
    Ratio(&'static str, &'static str),
    /// Nodes evaluated per decision, the most of any size in a family.
    Evaluated(&'static str),
    /// Virtual time until all work of a family had ended, over the least that it could take beside
    /// what was stopped, as rules of priority and quota want it, and ran again.
    Makespan(&'static str),
    /// Deciding time per decision of one family over that of another, whatever their sizes.
    PerDecision(&'static str, &'static str),
}

/// One bound, and why it is where it is.
struct Bound {
    figure: Figure,
    most: f64,
    why: &'static str,
}

const fn bound(figure: Figure, most: f64, why: &'static str) -> Bound {
    Bound { figure, most, why }
}

use Figure::{Evaluated, Makespan, PerDecision, Ratio, SlopeOverNodes, SlopeOverPending};

/// All bounds.
const BOUNDS: [Bound; 27] = [
    bound(SlopeOverNodes("fill-1-gpu"), 0.35, "a pod costs the depth of an index, not nodes"),
    bound(SlopeOverNodes("gang-8"), 0.35, "a gang costs its size and one pass over racks"),
    bound(SlopeOverNodes("gang-64"), 0.35, "a gang costs its size and one pass over racks"),
    bound(SlopeOverNodes("gang-512"), 0.35, "a gang costs its size and one pass over blocks"),
    bound(SlopeOverNodes("gang-5000"), 0.35, "a gang costs its size and one pass over zones"),
    bound(SlopeOverNodes("spread-5000"), 0.6, "a pod costs its host, and all once a row is full"),
    bound(SlopeOverNodes("apart-5000"), 0.35, "a pod that keeps apart costs its host"),
    bound(SlopeOverNodes("anyway-5000"), 0.6, "a pod costs its host, and all once a row is full"),
    bound(SlopeOverNodes("one-gang-5000"), 0.35, "one decision, and the first look at all nodes"),
    bound(SlopeOverNodes("one-gpu-short-80x1"), 1.1, "its proof looks at every node, once"),
    bound(SlopeOverNodes("one-gpu-short-10x8"), 1.1, "its proof looks at every node, once"),
    bound(SlopeOverNodes("restart"), 0.35, "a pod that runs costs its name, not all others"),
    bound(SlopeOverNodes("echo"), 0.35, "an answer costs its pod and its gang"),
    bound(SlopeOverNodes("churn"), 0.35, "a change costs itself, not the size of the cluster"),
    bound(SlopeOverNodes("preempt-near"), 1.1, "a gang looks at all nodes some times, no more"),
    bound(SlopeOverPending("pending"), 0.1, "work that is equal is refused once, together"),
    bound(SlopeOverPending("pending-queued"), 0.1, "a queue looks at its head only"),
    bound(Ratio("gang-8", "fill-1-gpu"), 1.5, "members share what a lone pod pays alone"),
    bound(Ratio("gang-5000", "gang-8"), 2.0, "a member costs the same in a gang of any size"),
    bound(Evaluated("fill-1-gpu"), 3.0, "after the first look at all nodes only the changed one"),
    bound(Evaluated("gang-64"), 3.0, "after the first look at all nodes only the changed ones"),
    bound(Evaluated("apart-5000"), 6.0, "who keeps apart turns its own host only"),
    bound(Evaluated("queues-1000"), 3.0, "queues of one flavor share one index"),
    bound(PerDecision("held-3000", "held-300"), 2.0, "an end costs those whose turn it is"),
    bound(Makespan("kueue-baseline"), 1.05, "what ends is replaced at once, by what fits"),
    bound(Makespan("kueue-large-scale"), 1.05, "what ends is replaced at once, by what fits"),
    bound(
        PerDecision("kueue-large-scale", "kueue-baseline"),
        2.0,
        "an admission costs its queue and its cohort, not all queues",
    ),
];

/// A bound with what was measured.
pub struct Check {
    /// What was compared.
    pub name: String,
    /// What came out.
    value: f64,
    most: f64,
    why: &'static str,
    slope: bool,
}

impl Check {
    /// Whether the bound holds.
    pub fn holds(&self) -> bool {
        self.value <= self.most
    }

    /// Its line.
    pub fn line(&self) -> Value {
        json!({
            "bound": self.name,
            "value": rounded(self.value, 1e3),
            "most": self.most,
            "holds": self.holds(),
            "why": self.why,
        })
    }
}

/// Every bound whose cases were run.
pub fn check(results: &[Measured]) -> Vec<Check> {
    let of = |bound: &Bound| {
        let (name, value) = value(bound.figure, results)?;
        let slope = matches!(bound.figure, SlopeOverNodes(_) | SlopeOverPending(_));
        Some(Check { name, value, most: bound.most, why: bound.why, slope })
    };
    BOUNDS.iter().filter_map(of).collect()
}

/// The slopes among the checks, by name.
pub fn slopes(checks: &[Check]) -> Value {
    let slopes = checks.iter().filter(|check| check.slope);
    slopes.map(|check| (check.name.clone(), json!(rounded(check.value, 1e3)))).collect()
}

fn value(figure: Figure, results: &[Measured]) -> Option<(String, f64)> {
    let family = |name| results.iter().filter(move |result| result.family == name);
    match figure {
        SlopeOverNodes(name) => {
            let points = family(name).map(|r| (f64::from(r.nodes), r.fastest_ns()));
            Some((format!("slope over nodes: {name}"), slope(points.collect())?))
        }
        SlopeOverPending(name) => {
            let points = family(name).map(|r| (f64::from(r.pods), r.fastest_ns()));
            Some((format!("slope over pending pods: {name}"), slope(points.collect())?))
        }
        Ratio(above, below) => {
            let at = |name| family(name).find(|r| r.nodes == 5_000).map(Measured::fastest_ns);
            Some((format!("ratio: {above} to {below}"), at(above)? / at(below)?))
        }
        Makespan(name) => {
            let one = family(name).next()?;
            let sample = one.samples[0];
            let took = sample.virtual_ms as f64 / sample.least_beside_ms as f64;
            Some((format!("virtual time over the least possible: {name}"), took))
        }
        PerDecision(above, below) => {
            let of = |name| family(name).next().map(Measured::fastest_ns);
            let name = format!("ratio of time per decision: {above} to {below}");
            Some((name, of(above)? / of(below)?))
        }
        Evaluated(name) => {
            let each = family(name).map(|r| r.samples[0]);
            let each = each.map(|s| s.evaluated as f64 / s.decisions as f64);
            let most = each.max_by(f64::total_cmp)?;
            Some((format!("nodes evaluated per decision: {name}"), most))
        }
    }
}

/// Least-squares slope of log y over log x; `None`: fewer than three points.
fn slope(points: Vec<(f64, f64)>) -> Option<f64> {
    if points.len() < 3 {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let rise: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let run: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    Some(rise / run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_power_is_its_exponent() {
        let power = |exponent: f64| {
            let points = [1_000.0_f64, 5_000.0, 15_000.0].map(|x| (x, 3.0 * x.powf(exponent)));
            slope(points.to_vec()).expect("three points")
        };
        for exponent in [0.0, 0.35, 1.0] {
            assert!((power(exponent) - exponent).abs() < 1e-9);
        }
        assert_eq!(slope(vec![(1.0, 1.0), (2.0, 2.0)]), None);
    }
}
