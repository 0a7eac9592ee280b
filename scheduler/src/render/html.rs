//! The same tables as one self-contained page: no script, no font, nothing to fetch.
//!
//! `maud` escapes every text at compile-checked places, so no name from a manifest can become
//! markup.

use capstan_core::explain::view::{PodExplanation, WorkloadExplanation};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::result::{Explained, SimulationResult};
use super::simulation::{self, Room};
use super::table::{Fit, Table, Tone};
use super::{cluster, explanation};

/// What a page has room for.
const PAGE: Room = Room { nodes: 60, cut: false };

/// Light and dark by the reader's preference; numbers in columns line up.
const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --run: #1a7f37; --wait: #9a6700;
  --lost: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --run: #3fb950; --wait: #d29922; --lost: #f85149; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.25rem; margin: 0 0 .5rem; }
h2 { font-size: 1rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-size: .72rem; letter-spacing: .04em; white-space: nowrap; opacity: .7; }
th, td { padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
tr:hover td { background: var(--soft); }
.number { text-align: right; white-space: nowrap; }
.word { white-space: nowrap; }
.runs { color: var(--run); }
.waits { color: var(--wait); }
.lost { color: var(--lost); }
.strong { font-weight: 600; }
code { font: 13px/1.4 ui-monospace, monospace; background: var(--soft); padding: .2rem .4rem;
  border-radius: 4px; overflow-wrap: anywhere; }
.note { opacity: .7; margin: .4rem 0 0; }
";

/// A simulation.
pub fn simulation(result: &SimulationResult) -> String {
    let tables = [
        ("Queues", simulation::queues(result, PAGE)),
        ("Workloads", simulation::workloads(result, PAGE)),
        ("Waiting", simulation::waiting(result, PAGE)),
        ("Preempted", simulation::preemptions(result, PAGE)),
        ("Timeline", simulation::timeline(result, PAGE).filter(|_| result.until.is_some())),
    ];
    let body = html! {
        p { (cluster::sentence(result)) }
        (sections(tables))
        @if let Some(nothing) = simulation::nothing(result) { p { (nothing) } }
        @for warning in &result.warnings { p.note { (warning) } }
        @if let Some(left_out) = simulation::left_out(result) { p.note { (left_out) } }
        @if let Some(command) = simulation::next_command(result) {
            p { span.strong { "Next: " } code { (one_line(&command)) } }
        }
    };
    page("Capstan: simulation", &body)
}

/// Why a workload waits or runs.
pub fn workload(explained: &Explained<WorkloadExplanation>) -> String {
    let view = &explained.explanation;
    let tables = [
        ("In the way", explanation::in_the_way(view, explained.now)),
        ("What would start it", explanation::remedies(view, explained.now)),
        ("Nodes", explanation::workload_verdicts(view, false)),
    ];
    let body = html! {
        p.strong { (explanation::workload_answer(explained)) }
        p { (explanation::workload_facts(explained)) }
        @for note in explanation::notes(view) { p { (note) "." } }
        (sections(tables))
        @for warning in &explained.warnings { p.note { (warning) } }
    };
    page("Capstan: explanation", &body)
}

/// On which nodes a pod may run.
pub fn pod(explained: &Explained<PodExplanation>) -> String {
    let view = &explained.explanation;
    let body = html! {
        p.strong { (explanation::pod_answer(view)) }
        (sections([("Nodes", explanation::verdicts(&view.nodes, false))]))
        @for warning in &explained.warnings { p.note { (warning) } }
    };
    page("Capstan: explanation", &body)
}

/// A command that was broken for a terminal, whole again.
fn one_line(command: &[String]) -> String {
    let words = command.iter().map(|line| line.trim_end_matches('\\').trim());
    words.collect::<Vec<_>>().join(" ")
}

fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { h1 { (title) } (body) }
        }
    };
    page.into_string()
}

fn sections<const N: usize>(tables: [(&str, Option<Table>); N]) -> Markup {
    html! {
        @for (heading, table) in &tables {
            @if let Some(table) = table { h2 { (heading) } (table_markup(table)) }
        }
    }
}

fn table_markup(table: &Table) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for column in &table.columns {
                    th class=(fit(column.fit)) { (column.heading) }
                } } }
                tbody {
                    @for row in &table.rows { tr {
                        @for (cell, column) in row.iter().zip(&table.columns) {
                            td class=(fit(column.fit)) {
                                span class=(tone(cell.tone)) { (cell.text) }
                            }
                        }
                    } }
                }
            }
        }
        @for note in &table.notes { p.note { (note) } }
    }
}

fn fit(fit: Fit) -> &'static str {
    match fit {
        Fit::Number => "number",
        Fit::Word => "word",
        Fit::Name | Fit::Sentence => "text",
    }
}

fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Strong => "strong",
        Tone::Runs => "runs",
        Tone::Waits => "waits",
        Tone::Lost => "lost",
    }
}
