//! What an explanation says: its answer and tables as data, for text and HTML alike.
//!
//! Verdicts come best first, then refusals by name; neighbours that refuse for the same reason
//! share a row, and what is beyond the cap is counted in kube-scheduler's words.

use capstan_core::explain::quantity::counted;
use capstan_core::explain::reason::{NodeRefusal, Reason};
use capstan_core::explain::view::{
    Binding, Change, NodeVerdict, PodExplanation, Position, Remedy, ScoreView, TermView,
    WorkloadExplanation, WorkloadView,
};
use capstan_core::explain::wording::nodes::{counts, kube_reason};
use capstan_core::explain::wording::obstacle_amounts;
use capstan_core::plan::State;
use capstan_core::time::Time;

use super::cluster::clock_time;
use super::names::{node_list, node_span, thousands};
use super::result::Explained;
use super::state::{PublicState, flavors_of, full_name, is_pending, nodes_of, shape_in_words};
use super::table::{Cell, Column, Fit, Table, Tone};

/// Rows of the node table: enough to see a pattern.
const ROWS_OF_NODES: usize = 30;

/// The answer in one sentence: `language/finetune waits for quota: ...`.
pub fn workload_answer(explained: &Explained<WorkloadExplanation>) -> String {
    let workload = &explained.explanation.workload;
    let name = full_name(workload);
    if is_pending(workload) {
        return match &workload.reason {
            Some(reason) => format!("{name} {}.", waits_for(reason)),
            None => format!("{name} waits: it has not been considered yet."),
        };
    }
    match (PublicState::of(workload), &workload.preempted) {
        (PublicState::Preempted, Some(preemption)) if !preemption.for_another() => {
            format!("{name} was stopped: {}.", preemption.because())
        }
        (PublicState::Preempted, Some(preemption)) => {
            let (preemptor, because) = (&preemption.preemptor, preemption.because());
            format!("{name} was preempted: {preemptor} {because}; {} lost.", preemption.loses())
        }
        (PublicState::Preempted, None) => format!("{name} is being evicted."),
        (PublicState::Finished, _) => format!("{name} is finished."),
        (state, _) => {
            let verb = if state == PublicState::Running { "runs" } else { "was admitted" };
            let nodes = node_list(&nodes_of(workload), 40);
            let place = if nodes.is_empty() { String::new() } else { format!(" on {nodes}") };
            let price = match workload.per_hour {
                Some(usd) if workload.unpriced == 0 => format!(" for ${usd}/h"),
                Some(usd) => format!(" for ${usd}/h and an unknown price"),
                None => " at an unknown price".to_owned(),
            };
            let others =
                workload.reason.as_ref().map_or_else(String::new, |why| format!("; {why}"));
            format!("{name} {verb}{place}{price}{others}.")
        }
    }
}

/// `waits for quota: ...`.
fn waits_for(reason: &Reason) -> String {
    let what = match reason.kind() {
        "quota" => " for quota",
        "nodes" => " for nodes",
        "topology" => " for topology",
        "pods" => " for its pods",
        _ => "",
    };
    let words = reason.to_string();
    match words.strip_prefix("waits ") {
        Some(rest) if what.is_empty() => format!("waits {rest}"),
        _ => format!("waits{what}: {words}"),
    }
}

/// Who it is: `Gang of 4×8 GPUs, queue team-language, priority 1000, waiting 12m, first in its
/// queue.`
pub fn workload_facts(explained: &Explained<WorkloadExplanation>) -> String {
    let workload = &explained.explanation.workload;
    let pods: u32 = workload.pod_sets.iter().fold(0, |sum, set| sum.saturating_add(set.count));
    let mut facts = vec![match pods {
        _ if workload.pod_sets.is_empty() => "Its pods are gone".to_owned(),
        0 | 1 => format!("Pod of {}", shape_in_words(workload)),
        pods if workload.min_member < pods => format!(
            "Gang of {} (at least {} together)",
            shape_in_words(workload),
            counted(i64::from(workload.min_member), "pod")
        ),
        _ => format!("Gang of {}", shape_in_words(workload)),
    }];
    if let Some(queue) = workload.cluster_queue.as_ref().or(workload.local_queue.as_ref()) {
        facts.push(format!("queue {queue}"));
    }
    let flavors = flavors_of(workload);
    if !flavors.is_empty() {
        facts.push(format!("flavor {}", flavors.join(",")));
    }
    facts.push(format!("priority {}", workload.priority));
    facts.extend(workload.stays.map(|stays| stays.to_string()));
    facts.extend(time_fact(workload, explained.now));
    let position = explained.explanation.position.filter(|_| is_pending(workload));
    facts.extend(position.map(|position| place_in_words(workload, position)));
    format!("{}.", facts.join(", "))
}

/// `first in its queue`, `behind 3 of its queue, 1 of them from its LocalQueue`.
fn place_in_words(workload: &WorkloadView, position: Position) -> String {
    let number = |count: u32| thousands(i64::from(count));
    match (position.in_cluster_queue, position.in_local_queue) {
        (0, _) => "first in its queue".to_owned(),
        (ahead, Some(own)) if own < ahead => {
            let local = workload.local_queue.as_deref().unwrap_or("its own");
            let (ahead, own) = (number(ahead), number(own));
            format!("behind {ahead} of its queue, {own} of them from LocalQueue {local}")
        }
        (ahead, _) => format!("behind {} of its queue", number(ahead)),
    }
}

/// What else people should know of it: `1 pod on n9 holds no quota for 3 cpu: ...`.
pub fn workload_notes(workload: &WorkloadView) -> Vec<String> {
    let unreserved = workload.unreserved.filter(|_| is_pending(workload));
    let uncharged = workload.uncharged.iter().map(ToString::to_string);
    unreserved.iter().map(|why| sentence(&why.to_string())).chain(uncharged).collect()
}

/// Words that begin a sentence.
fn sentence(words: &str) -> String {
    let mut rest = words.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// When it is to start, and what else people should know of it.
pub fn notes(explanation: &WorkloadExplanation) -> Vec<String> {
    let forecast = explanation.forecast.iter().map(|forecast| format!("It {forecast}"));
    let beyond = no_forecast(explanation).map(|why| format!("No start is forecast: {why}"));
    let nothing = nothing_starts_it(explanation);
    let notes = workload_notes(&explanation.workload);
    forecast.chain(beyond).chain(notes).chain(nothing).collect()
}

/// That there is no table of what would start it, and why.
fn nothing_starts_it(explanation: &WorkloadExplanation) -> Option<String> {
    let workload = &explanation.workload;
    let waits = is_pending(workload) && explanation.remedies.is_empty();
    let reason = workload.reason.as_ref().filter(|_| waits)?;
    match (reason, reason.kind()) {
        (Reason::BehindHead { head, .. }, _) => {
            let name = short(head);
            let away =
                head.split_once('/').filter(|(namespace, _)| **namespace != *workload.namespace);
            let there = away.map_or_else(String::new, |(namespace, _)| format!(" -n {namespace}"));
            Some(format!(
                "It starts after {head}: explain workload/{name}{there} tells what that lacks"
            ))
        }
        // Its turn comes.
        (Reason::Behind { .. } | Reason::RoomTaken, _) => None,
        (Reason::Reserved { .. }, _) | (_, "quota" | "nodes" | "topology" | "flavor") => {
            let nothing = || "Nothing that was tried would start it".to_owned();
            // When it starts is told.
            explanation.forecast.is_none().then(nothing)
        }
        (_, "queue" | "pods") => {
            let waits = "Room and quota are not what it waits for";
            Some(format!("{waits}: nothing was tried that would start it"))
        }
        // It starts by itself.
        _ => None,
    }
}

/// Why it has no forecast, if a bound is the reason.
pub fn no_forecast(explanation: &WorkloadExplanation) -> Option<String> {
    let beyond = explanation.beyond.filter(|_| explanation.forecast.is_none())?;
    Some(format!("it is beyond the first {} of its queue", thousands(i64::from(beyond))))
}

fn time_fact(workload: &WorkloadView, now: Time) -> Option<String> {
    match workload.state {
        State::Finished => None,
        _ if is_pending(workload) => Some(format!("waiting {}", now.since(workload.waits_since))),
        _ => workload.admitted_at.map(|at| format!("admitted {} ago", now.since(at))),
    }
}

/// What stands in the way, asked against left.
pub fn in_the_way(explanation: &WorkloadExplanation, now: Time) -> Option<Table> {
    let columns = vec![
        Column::new("IN THE WAY", Fit::Word),
        Column::new("", Fit::Sentence),
        Column::new("ASKED", Fit::Number),
        Column::new("LEFT", Fit::Number),
    ];
    let mut table = Table { columns, ..Table::default() };
    for obstacle in &explanation.in_the_way {
        let (asked, left) = match (obstacle.asked, obstacle.left) {
            (Some(asked), Some(left)) => obstacle_amounts(&obstacle.reason, asked, left),
            (asked, left) => (or_dash(asked), or_dash(left)),
        };
        let kind = Cell::toned(obstacle.reason.kind(), Tone::Waits);
        table.rows.push(vec![kind, obstacle.reason.place().into(), asked.into(), left.into()]);
        table.notes.extend(obstacle.binding.as_ref().map(|binding| binding_note(binding, now)));
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Whose limit it is that leaves no more, and until when.
fn binding_note(binding: &Binding, now: Time) -> String {
    match binding.until {
        Some(until) => {
            let at = clock_time(until, now);
            format!("Limit: {binding}; enough is back at {at}, if what runs ends when it said.")
        }
        None => format!("Limit: {binding}."),
    }
}

fn or_dash(amount: Option<i64>) -> String {
    amount.map_or("-".to_owned(), |amount| amount.to_string())
}

/// What would start it.
pub fn remedies(explanation: &WorkloadExplanation, now: Time) -> Option<Table> {
    let columns = vec![
        Column::new("WHAT WOULD START IT", Fit::Sentence),
        Column::new("WHEN", Fit::Word),
        Column::new("COSTS", Fit::Word),
    ];
    let mut table = Table { columns, ..Table::default() };
    for remedy in &explanation.remedies {
        let change = Cell::toned(remedy.to_string(), Tone::Runs);
        table.rows.push(vec![change, when(remedy, now).into(), costs(remedy).into()]);
    }
    if let Some(ahead @ 1..) = explanation.ahead {
        table.notes.push(format!(
            "Tried as if it were first in its queue; the {} before it may take the room.",
            counted(i64::from(ahead), "workload")
        ));
    }
    (!table.rows.is_empty()).then_some(table)
}

fn when(remedy: &Remedy, now: Time) -> String {
    match &remedy.change {
        Change::WaitFor { at: Some(at), .. } if *at <= now => "overdue".to_owned(),
        Change::WaitFor { at: Some(at), .. } => clock_time(*at, now),
        Change::WaitFor { at: None, .. } => "-".to_owned(),
        Change::WaitUntil { at, .. } => clock_time(*at, now),
        _ if !remedy.after.is_empty() => "then".to_owned(),
        _ if remedy.preempts.is_empty() => "now".to_owned(),
        _ => "once gone".to_owned(),
    }
}

fn costs(remedy: &Remedy) -> String {
    let named = matches!(remedy.change, Change::FewerPods { .. });
    let of = match remedy.first.filter(|_| !named) {
        Some(pods) => format!(" for {}", counted(i64::from(pods), "pod")),
        None => String::new(),
    };
    match (remedy.per_hour, remedy.loses) {
        (Some(price), Some(lost)) => format!("${price}/h{of}, ${lost} lost"),
        (Some(price), None) => format!("${price}/h{of}"),
        (None, Some(lost)) => format!("${lost} of lost work"),
        (None, None) => "-".to_owned(),
    }
}

/// The name without its namespace.
fn short(workload: &str) -> &str {
    workload.split_once('/').map_or(workload, |(_, name)| name)
}

/// The answer for a pod in one sentence.
pub fn pod_answer(explanation: &PodExplanation) -> String {
    let name = format!("{}/{}", explanation.namespace, explanation.name);
    let nodes = &explanation.nodes;
    let fits: Vec<&NodeVerdict> =
        nodes.iter().filter(|verdict| verdict.refusals.is_empty()).collect();
    let best = ordered(nodes).first().copied().filter(|verdict| verdict.refusals.is_empty());
    match best {
        Some(best) => {
            let score = match &best.score {
                Some(score) => format!(" with a score of {}", score.total),
                None => String::new(),
            };
            let of = thousands(i64::try_from(nodes.len()).unwrap_or(i64::MAX));
            let beside = match (&explanation.workload, &explanation.waits) {
                (Some(workload), Some(reason)) => {
                    let (waits, name) = (waits_for(reason), short(workload));
                    format!(" But its workload {waits}. explain workload/{name} tells more.")
                }
                (Some(_), None) if explanation.beside => {
                    " To be near its gang may count for more.".to_owned()
                }
                (Some(workload), None) => format!(
                    " Quota and other work that waits are not counted here; explain workload/{} \
                     does.",
                    short(workload)
                ),
                (None, _) => String::new(),
            };
            let word = if explanation.beside { "by score the best is" } else { "best is" };
            let (fits, best) = (fits.len(), &best.node);
            format!("{name} fits {fits} of {of} nodes; {word} {best}{score}.{beside}")
        }
        None if nodes.is_empty() => format!("{name} fits nowhere: there are no nodes."),
        None => {
            let nowhere = format!("{name} fits nowhere: {}.", histogram(nodes.iter(), nodes.len()));
            let hint = explanation.workload.as_ref().map_or_else(String::new, |workload| {
                format!(
                    " This view preempts nobody; explain workload/{} tells what Capstan would do.",
                    short(workload)
                )
            });
            nowhere + &hint
        }
    }
}

/// `0/12 nodes are available: ...` over verdicts, each node counted once for each kind of refusal.
fn histogram<'a>(verdicts: impl Iterator<Item = &'a NodeVerdict>, nodes: usize) -> String {
    format!("0/{nodes} nodes are available: {}", kube_counts(verdicts))
}

fn kube_counts<'a>(verdicts: impl Iterator<Item = &'a NodeVerdict>) -> String {
    let each_once = |verdict: &'a NodeVerdict| {
        let mut refusals: Vec<&NodeRefusal> = verdict.refusals.iter().collect();
        refusals.sort_by_cached_key(|refusal| kube_reason(refusal));
        refusals.dedup_by_key(|refusal| kube_reason(refusal));
        refusals
    };
    counts(verdicts.flat_map(each_once).map(|refusal| (refusal, 1)))
}

/// Best score first, then what refuses, by name.
fn ordered(nodes: &[NodeVerdict]) -> Vec<&NodeVerdict> {
    let mut ordered: Vec<&NodeVerdict> = nodes.iter().collect();
    ordered.sort_by_key(|verdict| {
        let total = verdict.score.as_ref().map_or(0, |score| score.total);
        (!verdict.refusals.is_empty(), std::cmp::Reverse(total))
    });
    ordered
}

/// Node by node, for a member of the workload, and for which.
pub fn workload_verdicts(explanation: &WorkloadExplanation, cut: bool) -> Option<Table> {
    let mut table = verdicts(&explanation.nodes, cut)?;
    table.notes.extend(match (&explanation.nodes_as, &explanation.nodes_of) {
        (Some(pod), _) => Some(format!("Nodes as pod {pod} finds them, taken out where it is.")),
        (None, Some(set)) => Some(format!("Nodes as a pod of pod set {set} finds them.")),
        (None, None) => None,
    });
    Some(table)
}

/// Node by node: the verdict, and the score term by term.
pub fn verdicts(nodes: &[NodeVerdict], cut: bool) -> Option<Table> {
    let (terms, alike) = terms(nodes);
    let mut columns = vec![Column::new("NODE", Fit::Name), Column::new("VERDICT", Fit::Sentence)];
    if nodes.iter().any(|verdict| verdict.score.is_some()) {
        columns.push(Column::new("SCORE", Fit::Number));
        let heading = |term: &&TermView| term.name.to_uppercase().replace('_', " ");
        columns.extend(terms.iter().map(|term| Column::new(heading(term), Fit::Number)));
    }
    let mut table = Table { columns, ..Table::default() };
    let ordered = ordered(nodes);
    let groups: Vec<&[&NodeVerdict]> = ordered
        .chunk_by(|one, other| {
            one.score.is_none() && one.refusals == other.refusals && other.score.is_none()
        })
        .collect();
    let limit = if cut { ROWS_OF_NODES } else { usize::MAX };
    for group in groups.iter().take(limit) {
        let names: Vec<&str> = group.iter().map(|verdict| verdict.node.as_ref()).collect();
        let mut row = vec![node_span(&names).into(), verdict_words(group[0])];
        let numbers = score_cells(group[0].score.as_ref(), &terms);
        row.extend(numbers.into_iter().take(table.columns.len() - 2));
        table.rows.push(row);
    }
    let rest: Vec<&NodeVerdict> =
        groups.iter().skip(limit).flat_map(|group| group.iter().copied()).collect();
    if !rest.is_empty() {
        table.notes.push(rest_words(&rest));
    }
    let scored = nodes.iter().find_map(|verdict| verdict.score.as_ref());
    let one = nodes.iter().filter(|verdict| verdict.score.is_some()).count() == 1;
    let those = if one { "On the node that fits" } else { "The same on all nodes that fit" };
    table.notes.extend(scored.and_then(|score| score_note(score, (&alike, those))));
    (!table.rows.is_empty()).then_some(table)
}

/// Terms of the score that tell nodes apart, and those that have one value on all of them: these
/// would only take room from names and reasons.
fn terms(nodes: &[NodeVerdict]) -> (Vec<&TermView>, Vec<&TermView>) {
    let scores: Vec<&ScoreView> = nodes.iter().filter_map(|it| it.score.as_ref()).collect();
    let Some(first) = scores.first() else { return Default::default() };
    let differs = |term: &&TermView| {
        let value = |score: &&ScoreView| {
            score.terms.iter().find(|it| it.name == term.name).map(|it| it.value)
        };
        scores.iter().any(|score| value(score) != Some(term.value))
    };
    first.terms.iter().filter(|term| term.weight > 0).partition(differs)
}

/// How the score comes about.
fn score_note(score: &ScoreView, (alike, those): (&[&TermView], &str)) -> Option<String> {
    let list = |terms: &[&TermView], number: fn(&TermView) -> i64| {
        let words = terms.iter().map(|term| format!("{} {}", term.name, number(term)));
        words.collect::<Vec<_>>().join(", ")
    };
    let all: Vec<&TermView> = score.terms.iter().filter(|term| term.weight > 0).collect();
    let weights = list(&all, |term| i64::from(term.weight));
    let alike = match list(alike, |term| i64::from(term.value)) {
        none if none.is_empty() => none,
        some => format!(" {those}: {some}."),
    };
    let mean = "Score: weighted mean of the terms, 0 to 1000.";
    (!all.is_empty()).then(|| format!("{mean} Weights: {weights}.{alike}"))
}

fn verdict_words(verdict: &NodeVerdict) -> Cell {
    if verdict.refusals.is_empty() {
        let unpriced = verdict.score.as_ref().is_some_and(|score| score.price_unknown);
        let words = if unpriced { "fits; price unknown" } else { "fits" };
        return Cell::toned(words, Tone::Runs);
    }
    let refusals: Vec<String> = verdict.refusals.iter().map(NodeRefusal::to_string).collect();
    Cell::from(refusals.join("; "))
}

fn score_cells(score: Option<&ScoreView>, terms: &[&TermView]) -> Vec<Cell> {
    let Some(score) = score else { return vec!["-".into(); 1 + terms.len()] };
    let value = |wanted: &&TermView| {
        let found = score.terms.iter().find(|term| term.name == wanted.name);
        Cell::from(found.map_or("-".to_owned(), |term| term.value.to_string()))
    };
    let mut cells = vec![Cell::toned(score.total.to_string(), Tone::Strong)];
    cells.extend(terms.iter().map(value));
    cells
}

fn rest_words(rest: &[&NodeVerdict]) -> String {
    let fits = rest.iter().filter(|verdict| verdict.refusals.is_empty()).count();
    let refused = kube_counts(rest.iter().copied());
    let total = thousands(i64::try_from(rest.len()).unwrap_or(i64::MAX));
    let parts: Vec<String> = [(fits > 0).then(|| format!("{fits} fit")), Some(refused)]
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    format!("… and {total} more nodes: {} (--output json)", parts.join(", "))
}
