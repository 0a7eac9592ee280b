//! What the playground prints: at most 100 columns; colours on a terminal only. kubectl's tables
//! are laid out anew: a few columns are left out, and long sentences wrapped.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use capstan::render::table::{Cell, Column, Fit, Table, Tone, WIDTH, paragraph};

use super::End;

/// Words of kubectl's tables that are set apart, and how.
const TONES: [(&str, Tone); 8] = [
    ("Running", Tone::Runs),
    ("Admitted", Tone::Runs),
    ("Binding", Tone::Runs),
    ("Complete", Tone::Runs),
    ("Queued", Tone::Waits),
    ("Suspended", Tone::Waits),
    ("Pending", Tone::Waits),
    ("Failed", Tone::Lost),
];

/// Columns that nobody misses here: the namespace says whose queue it is, headings say when.
const LEFT_OUT: [&str; 3] = ["QUEUE", "WAIT", "AGE"];

/// Where it is printed.
pub struct Screen {
    begun: Instant,
    plain: bool,
}

impl Screen {
    /// Standard output, from now on.
    pub fn new() -> Screen {
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Screen { begun: Instant::now(), plain: no_color || !io::stdout().is_terminal() }
    }

    /// One line, as it is. Who reads no more wants no more: that ends the playground.
    pub fn line(&self, text: &str) -> Result<(), End> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()).map_err(|_| End::Asked)
    }

    /// A heading, and at its right how long it took to get here.
    pub fn heading(&self, text: &str) -> Result<(), End> {
        let at = format!("{:.0} s", self.begun.elapsed().as_secs_f64());
        let room = WIDTH.saturating_sub(text.chars().count());
        self.line("")?;
        self.line(&format!("{}{at:>room$}", self.paint(Tone::Strong, text)))
    }

    /// A paragraph.
    pub fn says(&self, text: &str) -> Result<(), End> {
        self.line(&paragraph(text, ""))
    }

    /// A command and the table that it printed.
    pub fn table(&self, command: &str, printed: &str) -> Result<(), End> {
        self.command(command, &table(printed).text())
    }

    /// A command and what it printed.
    pub fn command(&self, command: &str, printed: &str) -> Result<(), End> {
        self.line("")?;
        self.line(&self.paint(Tone::Strong, &format!("$ {command}")))?;
        self.line(&if self.plain { without_codes(printed) } else { printed.to_owned() })
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        if self.plain { text.to_owned() } else { tone.paint(text) }
    }
}

/// What kubectl printed: a heading, and rows that are aligned with it.
fn table(printed: &str) -> Table {
    let heading = printed.lines().next().unwrap_or_default();
    let starts: Vec<usize> = heading
        .match_indices(|c: char| c != ' ')
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || heading[..*at].ends_with("  "))
        .collect();
    let cells = |line: &str| -> Vec<Cell> {
        let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
        let parts = starts.iter().zip(ends).map(|(start, end)| {
            let cell: String = line.chars().skip(*start).take(end - start).collect();
            cell.trim().to_owned()
        });
        parts.map(cell).collect()
    };
    let columns = cells(heading).into_iter().map(|it| column(it.text)).collect();
    let rows = printed.lines().skip(1).map(cells).collect();
    let mut table = Table { columns, rows, notes: Vec::new() };
    for row in &mut table.rows {
        for (at, column) in table.columns.iter().enumerate() {
            if LEFT_OUT.contains(&column.heading.as_str()) {
                row[at] = cell(String::new());
            }
        }
    }
    table.without_empty(&LEFT_OUT).without_empty(&["CPU", "$/H", "REASON"])
}

fn column(heading: String) -> Column {
    let fit = match heading.as_str() {
        "NAME" | "NAMESPACE" | "QUEUE" | "CLUSTERQUEUE" => Fit::Name,
        "REASON" => Fit::Sentence,
        "PRIORITY" | "PODS" | "GPUS" | "CPU" | "$/H" => Fit::Number,
        "PENDING WORKLOADS" | "ADMITTED WORKLOADS" => Fit::Number,
        _ => Fit::Word,
    };
    Column::new(heading, fit)
}

fn cell(text: String) -> Cell {
    let tone = TONES.iter().find(|(word, _)| text == *word).map(|(_, tone)| *tone);
    let text = if text.is_empty() { "-".to_owned() } else { text };
    Cell::toned(text, tone.unwrap_or_default())
}

/// The text without ANSI codes, which begin with an escape and end with an `m` here.
fn without_codes(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_kubectl_is_read_by_its_heading() {
        let printed = "\
NAME   QUEUE   STATE     PENDING WORKLOADS   REASON                 AGE
a      q       Running   12                                         1s
b      q       Queued    0                   2 GPUs left, 3 asked   1s
";
        let read = table(printed);
        let painted = Tone::Waits.paint("Queued");
        let text = read.text();
        assert!(text.contains(&painted), "{text}");
        let want = "\
NAME   STATE     PENDING WORKLOADS   REASON
a      Running                  12   -
b      Queued                    0   2 GPUs left, 3 asked
";
        assert_eq!(without_codes(&text), want);
        let none = table(&printed.replace("2 GPUs left, 3 asked", &" ".repeat(20)));
        assert!(!none.text().contains("REASON"));
    }
}
