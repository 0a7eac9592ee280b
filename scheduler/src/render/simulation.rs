//! What a simulation says: its tables and its next command as data, for text and HTML alike.
//!
//! Rows come in the order people look for them (what was admitted, what runs, what waits), and
//! are capped, with a note that says how many more there are and how to see them.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::explain::quantity::{USD_PER_HOUR, amount, noun, price, quantity};
use capstan_core::explain::view::{QueueView, QuotaView, WorkloadView};
use capstan_core::explain::wording::reserved::Moment;
use capstan_core::explain::wording::spending::{assumption, spent_of};
use capstan_core::model::input::Text;
use capstan_core::time::{Span, Time};

use super::cluster::times_of;
use super::names::{node_list, thousands};
use super::result::{Happening, SimulationResult};
use super::state::{
    PublicState, flavors_of, full_name, is_pending, main_resource, nodes_of, shape_begun,
};
use super::table::{Cell, Column, Fit, Table, Tone};

/// Rows of one state in the workload table: a terminal shows some fifty lines.
const ROWS_OF_STATE: usize = 20;

/// Rows of the other tables.
const ROWS_OF_TABLE: usize = 40;

/// What times at which waiting work is to start take for granted.
pub(super) const STARTS_ASSUME: &str =
    "Start times assume that work ends as declared, or as such work did before.";

/// How much a medium has room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Characters of a list of nodes.
    pub nodes: usize,
    /// Whether long tables are cut.
    pub cut: bool,
}

/// The table of ClusterQueues; `None` when there are none.
pub fn queues(result: &SimulationResult, room: Room) -> Option<Table> {
    let mut shown: Vec<(&QueueView, Vec<&QuotaView>)> =
        result.queues.iter().map(|queue| (queue, shown_quotas(queue, result))).collect();
    // Who lends and who borrows stand side by side.
    shown.sort_by_key(|(queue, _)| (queue.cohort.is_none(), &queue.cohort, &queue.name));
    let resources: Vec<&Text> =
        shown.iter().flat_map(|(_, quotas)| quotas.iter().map(|quota| &quota.resource)).collect();
    let common = resources.first().filter(|first| resources.iter().all(|other| other == *first));
    let one_flavor = shown
        .iter()
        .all(|(_, quotas)| quotas.windows(2).all(|pair| pair[0].flavor == pair[1].flavor));
    let mut table = Table { columns: queue_columns(common.copied()), ..Table::default() };
    let limit = if room.cut { ROWS_OF_TABLE } else { usize::MAX };
    for (queue, quotas) in shown.iter().take(limit) {
        table.rows.extend(queue_rows(queue, quotas));
        if let Some(reason) = &queue.inactive {
            table.notes.push(format!("{}.", reason));
        }
        let assumed = queue.spending.as_deref().and_then(assumption);
        table.notes.extend(assumed.map(|words| format!("Budget of {}: {words}.", queue.name)));
    }
    note_rest(&mut table, shown.len(), limit, "queue");
    let empty: &[&str] = match (one_flavor, common.is_some()) {
        (true, true) => &["COHORT", "BUDGET", "FLAVOR", "RESOURCE"],
        (true, false) => &["COHORT", "BUDGET", "FLAVOR"],
        (false, true) => &["COHORT", "BUDGET", "RESOURCE"],
        (false, false) => &["COHORT", "BUDGET"],
    };
    let hidden = |row: &mut Vec<Cell>, at: usize| row[at] = "-".into();
    for row in &mut table.rows {
        if one_flavor {
            hidden(row, 2);
        }
        if common.is_some() {
            hidden(row, 3);
        }
    }
    (!shown.is_empty()).then(|| table.without_empty(empty))
}

/// The quota lines of the queue's main resource, one for each flavor, then those of resources
/// that work waits for in it, or that are borrowed or lent where the main one is not.
fn shown_quotas<'a>(queue: &'a QueueView, result: &'a SimulationResult) -> Vec<&'a QuotaView> {
    let main = main_resource(queue.quotas.iter().map(|quota| &quota.resource));
    let named: BTreeSet<&Text> = result
        .workloads
        .iter()
        .filter(|workload| workload.cluster_queue.as_ref() == Some(&queue.name))
        .filter(|workload| is_pending(workload))
        .filter_map(|workload| workload.reason.as_ref().filter(|it| it.kind() == "quota"))
        .filter_map(|reason| reason.resource())
        .collect();
    let of_main = queue.quotas.iter().filter(|quota| Some(&quota.resource) == main);
    let told = |quota: &&QuotaView| {
        let alike = |of: &&QuotaView| Some(&of.resource) == main && of.flavor == quota.flavor;
        let of_main = queue.quotas.iter().find(alike);
        let borrows = quota.borrowed > 0 && of_main.is_none_or(|main| main.borrowed == 0);
        let lends = quota.lent > 0 && of_main.is_none_or(|main| main.lent == 0);
        let money = &*quota.resource == USD_PER_HOUR;
        named.contains(&quota.resource) || money || borrows || lends
    };
    let others = queue.quotas.iter().filter(|quota| Some(&quota.resource) != main).filter(told);
    of_main.chain(others).collect()
}

fn queue_columns(common: Option<&Text>) -> Vec<Column> {
    let quota = match common.map(AsRef::as_ref) {
        Some("nvidia.com/gpu" | "amd.com/gpu") => "GPU QUOTA".to_owned(),
        Some("cpu") => "CPU QUOTA".to_owned(),
        Some("memory") => "MEMORY QUOTA".to_owned(),
        Some(USD_PER_HOUR) => "MONEY QUOTA".to_owned(),
        Some(other) => format!("{other} QUOTA"),
        None => "QUOTA".to_owned(),
    };
    vec![
        Column::new("QUEUE", Fit::Name),
        Column::new("COHORT", Fit::Name),
        Column::new("FLAVOR", Fit::Name),
        Column::new("RESOURCE", Fit::Name),
        Column::new(quota, Fit::Number),
        Column::new("USED", Fit::Number),
        Column::new("BORROWED", Fit::Number),
        Column::new("LENT", Fit::Number),
        Column::new("$/h", Fit::Number),
        Column::new("BUDGET", Fit::Number),
        Column::new("PENDING", Fit::Number),
    ]
}

/// One row for each flavor; what is the queue's as a whole stands in the first.
fn queue_rows(queue: &QueueView, quotas: &[&QuotaView]) -> Vec<Vec<Cell>> {
    let tone = if queue.inactive.is_some() { Tone::Waits } else { Tone::Plain };
    let cohort = queue.cohort.as_deref().unwrap_or("-");
    let per_hour = queue.per_hour.map_or_else(|| "-".to_owned(), |it| price(it, queue.unpriced));
    let budget = budget_cell(queue);
    let waits = if queue.pending > 0 { Tone::Waits } else { Tone::Plain };
    let pending = Cell::toned(thousands(i64::from(queue.pending)), waits);
    let whole = |numbers: [String; 6]| {
        let [flavor, resource, nominal, used, borrowed, lent] = numbers;
        vec![
            Cell::toned(queue.name.as_ref(), tone),
            cohort.into(),
            flavor.into(),
            resource.into(),
            nominal.into(),
            used.into(),
            borrowed.into(),
            lent.into(),
            per_hour.clone().into(),
            budget.clone(),
            pending.clone(),
        ]
    };
    if quotas.is_empty() {
        return vec![whole(["-"; 6].map(str::to_owned))];
    }
    let mut rows: Vec<Vec<Cell>> = quotas.iter().map(|quota| whole(quota_words(quota))).collect();
    for row in rows.iter_mut().skip(1) {
        for at in [0, 1, 8, 10] {
            row[at] = Cell::from("");
        }
        if queue.spending.is_some() {
            row[9] = Cell::from("");
        }
    }
    rows
}

/// What was spent of the budget and what may be.
fn budget_cell(queue: &QueueView) -> Cell {
    let Some(account) = &queue.spending else { return "-".into() };
    let tone = if account.over().is_some() { Tone::Waits } else { Tone::Plain };
    Cell::toned(spent_of(account), tone)
}

fn quota_words(quota: &QuotaView) -> [String; 6] {
    let some = |amount| match amount {
        0 => "-".to_owned(),
        amount => quantity(&quota.resource, amount),
    };
    [
        quota.flavor.to_string(),
        if &*quota.resource == USD_PER_HOUR { "money" } else { noun(&quota.resource, 2) }
            .to_owned(),
        quantity(&quota.resource, quota.nominal),
        quantity(&quota.resource, quota.used),
        some(quota.borrowed),
        some(quota.lent),
    ]
}

/// The table of workloads that run, or ran; `None` when there are none.
pub fn workloads(result: &SimulationResult, room: Room) -> Option<Table> {
    let states = [PublicState::Admitted, PublicState::Running, PublicState::Finished];
    table_of("WORKLOAD", &states, result, room)
}

/// The table of workloads that wait, or lost their place; `None` when there are none. It has
/// little to show but a long reason, so it stands apart and gives that the room.
pub fn waiting(result: &SimulationResult, room: Room) -> Option<Table> {
    let states = [PublicState::Pending, PublicState::Preempted];
    let mut table = table_of("WAITING", &states, result, room)?;
    if result.workloads.iter().any(|view| is_pending(view) && view.reserved.is_some()) {
        table.notes.push(STARTS_ASSUME.to_owned());
    }
    Some(table)
}

fn table_of(
    heading: &str,
    states: &[PublicState],
    result: &SimulationResult,
    room: Room,
) -> Option<Table> {
    let columns = vec![
        Column::new(heading, Fit::Name),
        Column::new("QUEUE", Fit::Name),
        Column::new("STATE", Fit::Word),
        Column::new("SHAPE", Fit::Word),
        Column::new("FLAVOR", Fit::Name),
        Column::new("NODES", Fit::Name),
        Column::new("$/h", Fit::Number),
        Column::new("WHY", Fit::Sentence),
    ];
    let mut table = Table { columns, ..Table::default() };
    let borrowing = Borrowing::of(result);
    let limit = match room.cut && result.workloads.len() > 3 * ROWS_OF_STATE {
        true => ROWS_OF_STATE,
        false => usize::MAX,
    };
    for state in states {
        let of_state = || result.workloads.iter().filter(|view| PublicState::of(view) == *state);
        for workload in of_state().take(limit) {
            table.rows.push(workload_row(workload, *state, result, &borrowing, room));
        }
        let more = of_state().count().saturating_sub(limit);
        if more > 0 {
            let more = thousands(i64::try_from(more).unwrap_or(i64::MAX));
            table.notes.push(format!("… and {more} more {} (--output json)", state.word()));
        }
    }
    let empty = ["QUEUE", "FLAVOR", "NODES", "$/h", "WHY"];
    (!table.rows.is_empty()).then(|| table.without_empty(&empty))
}

fn workload_row(
    workload: &WorkloadView,
    state: PublicState,
    result: &SimulationResult,
    borrowing: &Borrowing,
    room: Room,
) -> Vec<Cell> {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let queue = workload.cluster_queue.as_ref().or(workload.local_queue.as_ref());
    let flavors = flavors_of(workload);
    vec![
        full_name(workload).into(),
        queue.map_or("-", |queue| queue.as_ref()).into(),
        Cell::toned(state.word(), state.tone()),
        shape_begun(workload).into(),
        or_dash(flavors.join(",")).into(),
        or_dash(node_list(&nodes_of(workload), room.nodes)).into(),
        workload.per_hour.map_or("-".to_owned(), |usd| price(usd, workload.unpriced)).into(),
        or_dash(why(workload, state, result, borrowing)).into(),
    ]
}

/// Why it stands where it stands, in one clause or two.
fn why(
    workload: &WorkloadView,
    state: PublicState,
    result: &SimulationResult,
    borrowing: &Borrowing,
) -> String {
    let name = full_name(workload);
    let mut clauses: Vec<String> = Vec::new();
    if let (PublicState::Preempted, Some(preemption)) = (state, &workload.preempted) {
        clauses.push(match preemption.for_another() {
            true => format!("made room for {}", preemption.preemptor),
            false => preemption.because(),
        });
    }
    if is_pending(workload) {
        clauses.extend(workload.reason.as_ref().map(|reason| reason.headline()));
        let start = |start: Time| format!("to start about {}", Moment(start));
        clauses.extend(workload.reserved.map(start));
    }
    if matches!(state, PublicState::Admitted | PublicState::Running) {
        clauses.extend(borrowing.words(workload));
        let victims: Vec<&str> = result
            .preempted
            .iter()
            .filter(|preemption| preemption.for_another() && *preemption.preemptor == *name)
            .map(|preemption| preemption.victim.as_ref())
            .collect();
        match victims.as_slice() {
            [] => {}
            [one] => clauses.push(format!("took the place of {one}")),
            [one, rest @ ..] => {
                clauses.push(format!("took the place of {one} and {} more", rest.len()));
            }
        }
        let placed = workload.pods.iter().filter(|place| place.node.is_some()).count();
        // Those that ended want no place any more.
        let wanted = workload.pod_sets.iter().map(|set| set.count as usize).sum();
        if let Some(reason) = &workload.reason {
            clauses.push(reason.headline());
        } else if placed > 0 && placed < wanted {
            clauses.push(format!("{placed} of {wanted} pods placed"));
        }
        if workload.unpriced > 0 {
            clauses.push("a node's price is unknown".to_owned());
        }
    }
    clauses.extend(workload.uncharged.as_ref().map(ToString::to_string));
    clauses.join("; ")
}

/// What is known of borrowed amounts: the amount is a workload's own only when it is the one
/// borrower of its queue.
struct Borrowing<'a> {
    queues: BTreeMap<&'a str, &'a QueueView>,
    borrowers: BTreeMap<&'a str, u32>,
}

impl<'a> Borrowing<'a> {
    fn of(result: &'a SimulationResult) -> Borrowing<'a> {
        let mut borrowers = BTreeMap::new();
        for workload in result.workloads.iter().filter(|workload| workload.borrowed) {
            if let Some(queue) = &workload.cluster_queue {
                *borrowers.entry(queue.as_ref()).or_insert(0) += 1;
            }
        }
        let queues = result.queues.iter().map(|queue| (queue.name.as_ref(), queue)).collect();
        Borrowing { queues, borrowers }
    }

    fn words(&self, workload: &WorkloadView) -> Option<String> {
        let queue_name = workload.cluster_queue.as_deref().filter(|_| workload.borrowed)?;
        let queue = self.queues.get(queue_name)?;
        let cohort = queue.cohort.as_deref()?;
        let borrowed: Vec<&QuotaView> =
            queue.quotas.iter().filter(|quota| quota.borrowed > 0).collect();
        let main = main_resource(borrowed.iter().map(|quota| &quota.resource));
        let sum = borrowed
            .iter()
            .filter(|quota| Some(&quota.resource) == main)
            .fold(0, |sum: i64, quota| sum.saturating_add(quota.borrowed));
        match (main, self.borrowers.get(queue_name)) {
            (Some(main), Some(1)) => Some(format!("borrows {} from {cohort}", amount(main, sum))),
            _ => Some(format!("borrows from {cohort}")),
        }
    }
}

/// The table of victims; `None` when there are none.
pub fn preemptions(result: &SimulationResult, room: Room) -> Option<Table> {
    let columns = vec![
        Column::new("PREEMPTED", Fit::Name),
        Column::new("FOR", Fit::Name),
        Column::new("BECAUSE", Fit::Sentence),
        Column::new("LOSES", Fit::Word),
    ];
    let mut table = Table { columns, ..Table::default() };
    let limit = if room.cut { ROWS_OF_TABLE } else { usize::MAX };
    for preemption in result.preempted.iter().take(limit) {
        table.rows.push(vec![
            Cell::toned(preemption.victim.as_ref(), Tone::Lost),
            match preemption.for_another() {
                true => preemption.preemptor.as_ref().into(),
                false => "-".into(),
            },
            preemption.because().into(),
            preemption.loses().into(),
        ]);
    }
    note_rest(&mut table, result.preempted.len(), limit, "victim");
    (!table.rows.is_empty()).then_some(table)
}

/// What happened when, where a clock was played; `None` when nothing did.
pub fn timeline(result: &SimulationResult, room: Room) -> Option<Table> {
    let columns = vec![
        Column::new("TIME", Fit::Word),
        Column::new("WORKLOAD", Fit::Name),
        Column::new("EVENT", Fit::Sentence),
    ];
    let mut table = Table { columns, ..Table::default() };
    let limit = if room.cut { ROWS_OF_TABLE } else { usize::MAX };
    let times: Vec<Time> = result.timeline.iter().map(|moment| moment.at).collect();
    let times = times_of(&times);
    for (moment, time) in result.timeline.iter().zip(&times).take(limit) {
        let (words, tone) = match &moment.what {
            Happening::Arrived => ("arrived".to_owned(), Tone::Waits),
            Happening::Admitted => ("admitted".to_owned(), Tone::Runs),
            Happening::Preempted(by) => (format!("preempted for {by}"), Tone::Lost),
            Happening::Stopped(why) => (format!("stopped: {why}"), Tone::Lost),
            Happening::Resumed => ("resumed".to_owned(), Tone::Runs),
            Happening::Finished => ("finished".to_owned(), Tone::Plain),
        };
        table.rows.push(vec![
            match result.timeless {
                true => Span(moment.at.0).to_string().into(),
                false => time.as_str().into(),
            },
            moment.workload.as_str().into(),
            Cell::toned(words, tone),
        ]);
    }
    note_rest(&mut table, result.timeline.len(), limit, "event");
    (!times.is_empty()).then_some(table)
}

fn note_rest(table: &mut Table, total: usize, limit: usize, noun: &str) {
    let more = total.saturating_sub(limit);
    if more > 0 {
        let plural = if more == 1 { "" } else { "s" };
        let more = thousands(i64::try_from(more).unwrap_or(i64::MAX));
        table.notes.push(format!("… and {more} more {noun}{plural} (--output json)"));
    }
}

/// What to type next: why the first one waits, else why the first one runs where it runs. Several
/// lines, joined as a shell joins them, when one would be too wide.
pub fn next_command(result: &SimulationResult) -> Option<Vec<String>> {
    let waits = result.workloads.iter().find(|workload| is_pending(workload));
    let workload = waits.or_else(|| {
        result.workloads.iter().find(|workload| PublicState::of(workload) == PublicState::Admitted)
    })?;
    Some(explain_command(&workload.namespace, &workload.name, &result.files))
}

/// The command that explains a workload from the same files.
fn explain_command(namespace: &str, name: &str, files: &[String]) -> Vec<String> {
    /// What is left of a line behind `Next: `.
    const ROOM: usize = super::table::WIDTH - 6;
    let printable =
        |text: &str| text.chars().count() <= ROOM - 4 && !text.chars().any(char::is_control);
    let command =
        |name: &str| format!("capstan explain {}", shell_word(&format!("workload/{name}")));
    let place = |namespace: &str| format!("-n {}", shell_word(namespace));
    let mut parts = vec![command(name)];
    if namespace != "default" {
        parts.push(place(namespace));
    }
    if !parts.iter().all(|part| printable(part)) {
        parts = vec![command("NAME"), place("NAMESPACE")];
    }
    if !files.is_empty() {
        let words: Vec<String> = files.iter().map(|file| shell_word(file)).collect();
        let all = format!("-f {}", words.join(" "));
        parts.push(if printable(&all) { all } else { "-f FILES...".to_owned() });
    }
    let whole = parts.join(" ");
    if whole.chars().count() <= ROOM {
        return vec![whole];
    }
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let room = |line: &String| line.chars().count() + 1 + part.chars().count() <= ROOM - 2;
        match lines.last_mut() {
            Some(line) if room(line) => line.extend([" ", &part]),
            Some(line) => {
                line.push_str(" \\");
                lines.push(format!("  {part}"));
            }
            None => lines.push(part),
        }
    }
    lines
}

/// A word as a shell reads it.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// What was left out, in a sentence; it belongs on stderr, behind the warnings.
pub fn left_out(result: &SimulationResult) -> Option<String> {
    let kinds: Vec<String> =
        result.ignored_kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let kinds = kinds.join(", ");
    (!kinds.is_empty()).then(|| format!("ignored, of kinds that are not read: {kinds}"))
}

/// A word on results in which nothing happened, for people who expected something.
pub fn nothing(result: &SimulationResult) -> Option<String> {
    if !result.workloads.is_empty() {
        return None;
    }
    let scheduler = &result.scheduler;
    Some(match (result.ours, result.until.is_some() && !result.settled) {
        (0, _) => format!(
            "No workloads: no pod or Job in these files has spec.schedulerName: {scheduler}."
        ),
        (_, true) => "No workloads: nothing has arrived yet.".to_owned(),
        (_, false) => format!(
            "No workloads: what names scheduler {scheduler} in these files is over, left alone or \
             asks for no pods."
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(namespace: &str, name: &str, files: &[&str]) -> Vec<String> {
        let files: Vec<String> = files.iter().map(ToString::to_string).collect();
        explain_command(namespace, name, &files)
    }

    #[test]
    fn the_next_command_can_be_pasted() {
        assert_eq!(
            command("language", "finetune", &["queues.yaml", "my jobs.yaml"]),
            ["capstan explain workload/finetune -n language -f queues.yaml 'my jobs.yaml'"]
        );
        assert_eq!(command("default", "w", &[]), ["capstan explain workload/w"]);
        let long = "n".repeat(60);
        assert_eq!(
            command("default", &long, &["a.yaml", "b.yaml", "c.yaml"]),
            [format!("capstan explain workload/{long} \\"), "  -f a.yaml b.yaml c.yaml".to_owned()]
        );
        assert_eq!(
            command("ns", &"n".repeat(250), &["a\n.yaml"]),
            ["capstan explain workload/NAME -n NAMESPACE -f FILES..."]
        );
        let place = "m".repeat(63);
        let split =
            [format!("capstan explain workload/{long} \\"), format!("  -n {place} -f a.yaml")];
        assert_eq!(command(&place, &long, &["a.yaml"]), split);
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }

    #[test]
    fn starts_are_told_with_what_they_take_for_granted() {
        let mut result = crate::render::fixture::result();
        let notes = |result: &SimulationResult| {
            waiting(result, Room { nodes: 20, cut: true }).expect("some wait").notes
        };
        assert_eq!(notes(&result), [""; 0]);
        let waits = result.workloads.iter_mut().find(|view| is_pending(view)).expect("one waits");
        waits.reserved = Some(Time(0));
        assert_eq!(notes(&result), [STARTS_ASSUME]);
        let table = waiting(&result, Room { nodes: 20, cut: true }).expect("some wait");
        let text = format!("{:?}", table.rows);
        assert!(text.contains("to start about "), "{text}");
    }

    #[test]
    fn borrowers_name_the_amount_only_when_it_is_all_theirs() {
        let mut result = crate::render::fixture::result();
        let borrower = result.workloads[5].clone();
        let words = |result: &SimulationResult| Borrowing::of(result).words(&borrower);
        assert_eq!(words(&result).as_deref(), Some("borrows 8 GPUs from research"));
        result.workloads.push(borrower.clone());
        assert_eq!(words(&result).as_deref(), Some("borrows from research"));
        result.queues.clear();
        assert_eq!(words(&result), None);
    }

    #[test]
    fn what_was_ignored_is_counted_and_no_warning_is_said_again() {
        let mut result = crate::render::fixture::result();
        result.warnings.push("queues.yaml: field x is unknown".to_owned());
        let want = "ignored, of kinds that are not read: 1 ConfigMap, 2 Service";
        assert_eq!(left_out(&result).as_deref(), Some(want));
        result.ignored_kinds.clear();
        assert_eq!(left_out(&result), None);
    }

    #[test]
    fn a_result_without_workloads_says_why() {
        let mut result = SimulationResult { scheduler: "capstan".to_owned(), ..Default::default() };
        let said = |result: &SimulationResult| nothing(result).expect("nothing happened");
        assert!(said(&result).contains("no pod or Job in these files has spec.schedulerName"));
        result.ours = 1;
        assert!(said(&result).contains("is over, left alone or asks for no pods"));
        result.until = Some(Time(0));
        assert_eq!(said(&result), "No workloads: nothing has arrived yet.");
        result.settled = true;
        assert!(!said(&result).contains("arrived"));
        assert_eq!(nothing(&crate::render::fixture::result()), None);
    }
}
