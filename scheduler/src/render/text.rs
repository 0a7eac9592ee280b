//! The text of a simulation or an explanation, for a terminal: the answer, the numbers, the next
//! command.
//!
//! Texts carry ANSI codes; write them through `anstream`, which strips them where nobody would
//! see colours. No line is wider than [`super::table::WIDTH`].

use capstan_core::explain::view::{PodExplanation, WorkloadExplanation};

use super::result::{Explained, SimulationResult};
use super::simulation::{self, Room};
use super::table::{Table, Tone, paragraph};
use super::{cluster, explanation};

/// What a terminal has room for.
const TERMINAL: Room = Room { nodes: 24, cut: true };

/// A simulation.
pub fn simulation(result: &SimulationResult) -> String {
    let mut out = paragraph(&cluster::sentence(result), "");
    let tables = [
        simulation::queues(result, TERMINAL),
        simulation::workloads(result, TERMINAL),
        simulation::waiting(result, TERMINAL),
        simulation::preemptions(result, TERMINAL),
        simulation::timeline(result, TERMINAL).filter(|_| result.until.is_some()),
    ];
    write_tables(&mut out, tables.into_iter().flatten());
    if let Some(nothing) = simulation::nothing(result) {
        out.push('\n');
        out.push_str(&paragraph(&nothing, ""));
    }
    if let Some(command) = simulation::next_command(result) {
        let next = Tone::Strong.paint("Next:");
        out.push_str(&format!("\n{next} {}\n", command.join("\n      ")));
    }
    out
}

/// Why a workload waits or runs.
pub fn workload(explained: &Explained<WorkloadExplanation>) -> String {
    let mut out = paragraph(&explanation::workload_answer(explained), "");
    out.push_str(&paragraph(&explanation::workload_facts(explained), ""));
    let view = &explained.explanation;
    for note in explanation::notes(view) {
        out.push_str(&paragraph(&format!("{note}."), ""));
    }
    let tables = [
        explanation::in_the_way(view, explained.now),
        explanation::remedies(view, explained.now),
        explanation::workload_verdicts(view, true),
    ];
    write_tables(&mut out, tables.into_iter().flatten());
    out
}

/// On which nodes a pod may run.
pub fn pod(explained: &Explained<PodExplanation>) -> String {
    let mut out = paragraph(&explanation::pod_answer(&explained.explanation), "");
    write_tables(&mut out, explanation::verdicts(&explained.explanation.nodes, true).into_iter());
    out
}

fn write_tables(out: &mut String, tables: impl Iterator<Item = Table>) {
    for table in tables {
        out.push('\n');
        out.push_str(&table.text());
    }
}
