//! Results as JSON lines: figures with their unit in the name, medians with their range.

use serde_json::{Value, json};

use crate::cases::Target;
use crate::measure::{Measured, Sample};

/// The line of a case.
pub fn of(measured: &Measured) -> Value {
    let samples = &measured.samples;
    let decisions = samples[0].decisions;
    let all = |s: &Sample| (s.apply.wall + s.decide.wall).as_secs_f64();
    let decide = |s: &Sample| s.decide.wall.as_secs_f64();
    let (seconds, _, _) = spread(samples, all);
    let (deciding, fastest, slowest) = spread(samples, decide);
    let (applying, _, _) = spread(samples, |s| s.apply.wall.as_secs_f64());
    let mut line = json!({
        "case": measured.name,
        "nodes": measured.nodes,
        "pods": measured.pods,
        "gangs": measured.gangs,
        "decisions": decisions,
        "seconds": rounded(seconds, 1e6),
        "apply_ms": rounded(applying * 1e3, 1e3),
        "decide_ms": rounded(deciding * 1e3, 1e3),
        "decide_ms_range": [rounded(fastest * 1e3, 1e3), rounded(slowest * 1e3, 1e3)],
        "decisions_per_s": rounded(decisions as f64 / seconds, 1.0),
        "decisions_per_s_deciding": rounded(decisions as f64 / deciding, 1.0),
        "ns_per_decision": rounded(seconds * 1e9 / decisions as f64, 1.0),
        "ns_per_decision_deciding": rounded(deciding * 1e9 / decisions as f64, 1.0),
        "processor_ns_per_decision_deciding": rounded(measured.fastest_ns(), 1.0),
        "evaluated_nodes": samples[0].evaluated,
        "rounds": samples[0].rounds,
        "repeats": samples.len(),
    });
    if samples[0].least_ms > 0 {
        line["virtual_ms"] = json!(samples[0].virtual_ms);
        line["least_virtual_ms"] = json!(samples[0].least_ms);
        line["least_virtual_ms_beside_what_was_stopped"] = json!(samples[0].least_beside_ms);
        line["evicted"] = json!(samples[0].evicted);
    }
    let (target, met) = match measured.target {
        None => return line,
        Some(Target::PerSecond(least)) => {
            (json!({"decisions_per_s": least}), decisions as f64 / seconds >= least)
        }
        Some(Target::Milliseconds(most)) => (json!({"milliseconds": most}), seconds * 1e3 <= most),
    };
    line["target"] = target;
    line["met"] = json!(met);
    line
}

/// Median, least and most of a figure.
fn spread(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> (f64, f64, f64) {
    let mut figures: Vec<f64> = samples.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    (figures[figures.len() / 2], figures[0], figures[figures.len() - 1])
}

/// A figure without digits that mean nothing.
pub fn rounded(figure: f64, per_unit: f64) -> f64 {
    (figure * per_unit).round() / per_unit
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Took;

    #[test]
    fn a_figure_is_told_with_its_range() {
        let took = |ms| Took { wall: Duration::from_millis(ms), ..Took::default() };
        let sample = |ms| Sample {
            apply: took(1),
            decide: took(ms),
            decisions: 10,
            evaluated: 0,
            rounds: 1,
            ..Sample::default()
        };
        let samples = [sample(3), sample(9), sample(4)];
        let figures = spread(&samples, |s| s.decide.wall.as_secs_f64() * 1e3);
        assert_eq!(figures, (4.0, 3.0, 9.0));
    }
}
