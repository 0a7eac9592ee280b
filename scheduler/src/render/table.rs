//! Tables as data, and their text: aligned, right-aligned numbers, never wider than [`WIDTH`].
//!
//! A column that names things shortens its cells in the middle, unless two would read the same:
//! those wrap, as one does that explains things; numbers are never cut. Colours are ANSI codes
//! here, and whoever writes to a stream strips them when it is no terminal. Texts come from users'
//! files: control characters are replaced, so that no name can move a terminal's cursor.

use std::collections::{BTreeMap, BTreeSet};

use anstyle::{AnsiColor, Style};

use super::names::shorten_middle;

/// Columns of a terminal that everything fits in.
pub const WIDTH: usize = 100;

/// Lines that one wrapped cell may take: more than this is for `explain`.
const CELL_LINES: usize = 4;

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Columns, left to right.
    pub columns: Vec<Column>,
    /// Rows; each has a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Sentences under the table: rows left out, queues that are inactive.
    pub notes: Vec<String>,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Heading, in capitals, with the unit.
    pub heading: String,
    /// What happens when room is short.
    pub fit: Fit,
}

/// What a column does when room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Numbers: right-aligned, never cut.
    Number,
    /// Short words: never cut.
    Word,
    /// Names: the middle gives way.
    Name,
    /// Sentences: wrapped.
    Sentence,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// How it is set apart.
    pub tone: Tone,
}

/// How a text is set apart; three colours and bold, no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Not at all.
    #[default]
    Plain,
    /// Bold.
    Strong,
    /// Green: runs.
    Runs,
    /// Yellow: waits.
    Waits,
    /// Red: lost.
    Lost,
}

/// How wide everything is, and which names may not be shortened.
struct Layout {
    widths: Vec<usize>,
    gap: usize,
    ambiguous: Vec<BTreeSet<String>>,
}

impl Tone {
    /// The text with its ANSI codes.
    pub fn paint(self, text: &str) -> String {
        let style = match self {
            Tone::Plain => return text.to_owned(),
            Tone::Strong => Style::new().bold(),
            Tone::Runs => AnsiColor::Green.on_default(),
            Tone::Waits => AnsiColor::Yellow.on_default(),
            Tone::Lost => AnsiColor::Red.on_default(),
        };
        format!("{style}{text}{style:#}")
    }
}

impl Column {
    /// A column.
    pub fn new(heading: impl Into<String>, fit: Fit) -> Column {
        Column { heading: heading.into(), fit }
    }
}

impl Cell {
    /// A cell in a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), tone: Tone::Plain }
    }
}

impl Table {
    /// Leaves out the named columns that say nothing in any row.
    pub fn without_empty(mut self, headings: &[&str]) -> Table {
        let says_nothing = |at: usize| self.rows.iter().all(|row| row[at].text == "-");
        let kept: Vec<bool> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| !headings.contains(&column.heading.as_str()) || !says_nothing(at))
            .collect();
        retain(&mut self.columns, &kept);
        for row in &mut self.rows {
            retain(row, &kept);
        }
        self
    }

    /// The table as text; every line ends in a newline.
    pub fn text(&self) -> String {
        let (widths, gap) = self.layout();
        let ambiguous = self.ambiguous(&widths);
        let layout = Layout { widths, gap, ambiguous };
        let mut out = String::new();
        let headings: Vec<Cell> = self
            .columns
            .iter()
            .map(|column| Cell::toned(column.heading.as_str(), Tone::Strong))
            .collect();
        self.write_row(&mut out, &headings, &layout);
        for row in &self.rows {
            self.write_row(&mut out, row, &layout);
        }
        for note in &self.notes {
            out.push_str(&paragraph(note, ""));
        }
        out
    }

    /// Widths of the columns, and of the gap between them.
    fn layout(&self) -> (Vec<usize>, usize) {
        let wanted = |(at, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| row[at].text.chars().count());
            cells.max().unwrap_or(0).max(column.heading.chars().count())
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(wanted).collect();
        let gaps = widths.len().saturating_sub(1);
        let gap = if widths.iter().sum::<usize>() + 3 * gaps <= WIDTH { 3 } else { 2 };
        let room = WIDTH.saturating_sub(gap * gaps);
        // Sentences give way first, then names, then sentences again, then whatever is left:
        // a table of absurd numbers is cut rather than too wide.
        self.narrow(&mut widths, room, Some(Fit::Sentence), 36);
        self.narrow(&mut widths, room, Some(Fit::Name), 20);
        self.narrow(&mut widths, room, Some(Fit::Sentence), 18);
        self.narrow(&mut widths, room, Some(Fit::Name), 8);
        self.narrow(&mut widths, room, None, 4);
        (widths, gap)
    }

    /// Takes columns from the widest columns of a kind until the table fits or all are at `least`.
    fn narrow(&self, widths: &mut [usize], room: usize, fit: Option<Fit>, least: usize) {
        while widths.iter().sum::<usize>() > room {
            let widest = (0..widths.len())
                .filter(|at| fit.is_none_or(|fit| self.columns[*at].fit == fit))
                .max_by_key(|at| widths[*at])
                .filter(|at| widths[*at] > least);
            match widest {
                Some(at) => widths[at] -= 1,
                None => return,
            }
        }
    }

    /// Per column, what shortened names stand for more than one name.
    fn ambiguous(&self, widths: &[usize]) -> Vec<BTreeSet<String>> {
        let of_column = |(at, width): (usize, &usize)| {
            let (mut meant, mut twice) = (BTreeMap::new(), BTreeSet::new());
            let long = |row: &&Vec<Cell>| row[at].text.chars().count() > *width;
            for row in self.rows.iter().filter(long) {
                let short = shorten_middle(&clean(&row[at].text), *width);
                if *meant.entry(short.clone()).or_insert(&row[at].text) != &row[at].text {
                    twice.insert(short);
                }
            }
            twice
        };
        widths.iter().enumerate().map(of_column).collect()
    }

    fn write_row(&self, out: &mut String, row: &[Cell], layout: &Layout) {
        let Layout { widths, gap, ambiguous } = layout;
        let lines_of = |(at, cell): (usize, &Cell)| {
            if self.columns[at].fit == Fit::Sentence {
                return wrap(&cell.text, widths[at], CELL_LINES);
            }
            let short = shorten_middle(&clean(&cell.text), widths[at]);
            match self.columns[at].fit == Fit::Name && ambiguous[at].contains(&short) {
                true => wrap(&cell.text, widths[at], usize::MAX),
                false => vec![short],
            }
        };
        let cells: Vec<Vec<String>> = row.iter().enumerate().map(lines_of).collect();
        let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..lines {
            let mut line = String::new();
            let mut owed = 0;
            for (column, lines) in cells.iter().enumerate() {
                let text = lines.get(at).map_or("", String::as_str);
                let blank = widths[column].saturating_sub(text.chars().count());
                let (before, after) = match self.columns[column].fit {
                    Fit::Number => (blank, 0),
                    Fit::Word | Fit::Name | Fit::Sentence => (0, blank),
                };
                owed += before;
                if !text.is_empty() {
                    line.extend(std::iter::repeat_n(' ', owed));
                    line.push_str(&row[column].tone.paint(text));
                    owed = 0;
                }
                owed += after + *gap;
            }
            out.push_str(&line);
            out.push('\n');
        }
    }
}

/// A sentence as lines of at most [`WIDTH`], each after the first behind `indent`.
pub fn paragraph(text: &str, indent: &str) -> String {
    let width = WIDTH - indent.chars().count();
    let mut out = String::new();
    for (at, line) in wrap(text, width, usize::MAX).iter().enumerate() {
        if at > 0 {
            out.push_str(indent);
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// The text in lines of at most `width`, broken at spaces where possible; what is beyond the last
/// line allowed is replaced by `…`.
fn wrap(text: &str, width: usize, lines_max: usize) -> Vec<String> {
    let text = clean(text);
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word: Vec<char> = word.chars().collect();
        if length > 0 && length + 1 + word.len() > width {
            lines.push(String::new());
            length = 0;
        }
        while word.len() > width {
            let rest = word.split_off(cut(&word, width));
            lines.last_mut().expect("starts with one line").extend(word);
            lines.push(String::new());
            word = rest;
        }
        let line = lines.last_mut().expect("starts with one line");
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        length += word.len();
        line.extend(word);
    }
    if lines.len() > lines_max {
        lines.truncate(lines_max);
        let last = lines.last_mut().expect("at least one line is allowed");
        let kept: String = last.chars().take(width.saturating_sub(1)).collect();
        *last = format!("{}…", kept.trim_end());
    }
    lines
}

/// Where a word that is wider than its column is cut: behind the last of the marks between which
/// names and paths have their parts, unless that leaves half of the line empty.
fn cut(word: &[char], width: usize) -> usize {
    let fits = &word[..width.max(1)];
    let behind = fits.iter().rposition(|c| matches!(c, '/' | '.' | '-' | '_' | ':' | ',' | ']'));
    behind.map(|at| at + 1).filter(|at| 2 * at > width).unwrap_or(fits.len())
}

/// The text without control characters.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn retain<T>(items: &mut Vec<T>, kept: &[bool]) {
    let mut flags = kept.iter();
    items.retain(|_| *flags.next().unwrap_or(&true));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, why: &str) -> Table {
        Table {
            columns: vec![
                Column::new("NAME", Fit::Name),
                Column::new("GPUS", Fit::Number),
                Column::new("QUEUE", Fit::Word),
                Column::new("WHY", Fit::Sentence),
            ],
            rows: vec![
                vec![name.into(), "8".into(), "-".into(), why.into()],
                vec!["b".into(), "1024".into(), "-".into(), "-".into()],
            ],
            notes: vec![],
        }
    }

    fn plain(table: &Table) -> String {
        anstream::adapter::strip_str(&table.text()).to_string()
    }

    #[test]
    fn columns_align_and_numbers_stand_right() {
        let text = plain(&table("a", "short").without_empty(&["QUEUE"]));
        assert_eq!(text, "NAME   GPUS   WHY\na         8   short\nb      1024   -\n");
    }

    #[test]
    fn sentences_wrap_under_their_heading_and_names_lose_their_middle() {
        let why = "a long sentence with many words ".repeat(20);
        let text = plain(&table(&"n".repeat(90), &why));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        let column = lines[0].find("WHY").expect("the heading");
        assert_eq!(lines.len(), 1 + CELL_LINES + 1);
        assert!(lines[2].starts_with(&" ".repeat(column)));
        assert!(lines[CELL_LINES].ends_with('…'));
        assert!(lines[1].contains('…'));
    }

    #[test]
    fn names_that_would_read_the_same_wrap() {
        let long = |middle: &str| format!("team-{middle}-{}", "n".repeat(60));
        let mut table = table(&long("a"), &"a long sentence with many words ".repeat(9));
        table.rows[1][0] = long("b").into();
        let text = plain(&table);
        assert!(text.contains("team-a-") && text.contains("team-b-"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        table.rows[1][0] = long("a").into();
        let text = plain(&table);
        assert_eq!(text.matches('…').count(), 2 + 1, "one name twice is no confusion: {text}");
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let text = plain(&table("a\x1b[31m\n\tb", "one\r\ntwo"));
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }

    #[test]
    fn words_wider_than_the_column_are_cut_into_pieces() {
        assert_eq!(wrap("abcdefgh ij", 3, 9), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("", 3, 9), [""]);
        let name = "team-alpha/low-priority-job";
        assert_eq!(wrap(name, 20, 9), ["team-alpha/low-", "priority-job"], "between its parts");
        assert_eq!(wrap("a/bcdefghijklmn", 8, 9), ["a/bcdefg", "hijklmn"], "no short lines");
        assert_eq!(wrap("one two three", 7, 1), ["one tw…"]);
    }
}
