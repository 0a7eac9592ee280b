//! YAML of any size: document by document, and a large block-style List item by item.
//!
//! Decides where documents and items begin by lines alone, which YAML allows: `---` at the
//! start of a line is a separator wherever it stands, and the items of a block list begin at one
//! indent that nothing inside them can have. Small documents are parsed whole, so that anchors
//! may reach across items.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, Read};
use std::rc::Rc;

use capstan_core::model::input::Text;
use serde::de::DeserializeSeed;
use serde_json::Value;

use super::error::{Place, ReadError};
use super::json::{Numbered, Take};
use super::value::{ListKind, OBJECT_BYTES_MAX, Pruned, Sink, hand_over};

/// A document larger than this is split into its items, if it is a block-style List.
const SPLIT_FROM: usize = 4 << 20;

/// Bytes of one document, or of one item of a List.
const DOCUMENT_BYTES_MAX: usize = 32 << 20;

/// Nesting of one document; also what keeps the parser off the end of the stack.
const DEPTH_MAX: usize = 128;

/// Reads YAML documents, and returns how many had something in them.
pub fn read(file: &Text, mut reader: impl BufRead, take: &mut dyn Take) -> u32 {
    let mut pieces =
        Pieces { file, take, document: Document::default(), line: 0, count: 0, full: 0 };
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = DOCUMENT_BYTES_MAX as u64;
        match Read::take(&mut reader, limit).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) if line.len() == DOCUMENT_BYTES_MAX => {
                pieces.complain(0, "a line of more than 32 MiB; the rest was not read");
                return pieces.full.max(1);
            }
            Ok(_) => pieces.line(&line),
            Err(error) => {
                pieces.complain(0, &format!("cannot be read to its end: {error}"));
                return pieces.full.max(1);
            }
        }
    }
    pieces.end_document();
    pieces.full
}

/// The document that is being collected.
#[derive(Default)]
struct Document {
    text: Vec<u8>,
    /// Line of the file that `text` begins in, from 1.
    first_line: u32,
    layout: Layout,
    /// Something other than blanks, comments and directives was seen.
    content: bool,
    directives: bool,
    /// A separator opened it: it counts even when empty.
    opened: bool,
    /// Set once items were handed over: the List's own kind.
    split: Option<ListKind>,
    items: u32,
    too_large: bool,
}

/// Where the items of a block-style List stand in the text.
#[derive(Default)]
struct Layout {
    state: State,
    /// Offsets at which items begin.
    starts: Vec<usize>,
    /// Where the List's fields go on after its items.
    tail: Option<usize>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    /// Before `items:`.
    #[default]
    Head,
    /// Behind `items:`, no item yet.
    Opened,
    /// Among items that begin at this indent.
    Items(usize),
    /// Behind the items.
    Tail,
    /// No block-style List.
    Opaque,
}

impl Layout {
    fn line(&mut self, line: &[u8], offset: usize) {
        let indent = line.iter().take_while(|byte| **byte == b' ').count();
        let rest = line[indent..].trim_ascii_end();
        if rest.is_empty() || rest[0] == b'#' {
            return;
        }
        let dash = rest == b"-" || rest.starts_with(b"- ");
        self.state = match self.state {
            State::Head if indent == 0 && opens_items(rest) => State::Opened,
            State::Opened if dash => {
                self.starts.push(offset);
                State::Items(indent)
            }
            State::Opened => State::Opaque,
            State::Items(at) if indent == at && dash => {
                self.starts.push(offset);
                State::Items(at)
            }
            State::Items(at) if indent > at => State::Items(at),
            State::Items(_) if indent == 0 => {
                self.tail = Some(offset);
                State::Tail
            }
            State::Items(_) => State::Opaque,
            same => same,
        };
    }

    /// Whether two items or more can be told apart.
    fn splits(&self) -> bool {
        matches!(self.state, State::Items(_) | State::Tail) && self.starts.len() > 1
    }
}

fn opens_items(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"items:") else { return false };
    let rest = rest.trim_ascii_start();
    rest.is_empty() || rest[0] == b'#'
}

struct Pieces<'a> {
    file: &'a Text,
    take: &'a mut dyn Take,
    document: Document,
    line: u32,
    /// Documents begun.
    count: u32,
    /// Documents with something in them.
    full: u32,
}

impl Pieces<'_> {
    fn line(&mut self, line: &[u8]) {
        self.line += 1;
        if marker(line, b"...") {
            self.end_document();
            return;
        }
        let document = &self.document;
        if marker(line, b"---") && (document.opened || document.content || !document.directives) {
            self.end_document();
        }
        let document = &mut self.document;
        document.opened |= marker(line, b"---");
        let bare = line.trim_ascii();
        match bare.first() {
            None | Some(b'#') => {}
            Some(b'%') if !document.content => document.directives = true,
            _ => document.content |= bare != b"---",
        }
        if document.text.is_empty() {
            document.first_line = self.line;
        }
        if document.too_large {
            return;
        }
        document.layout.line(line, document.text.len());
        document.text.extend_from_slice(line);
        if document.text.len() <= SPLIT_FROM {
            return;
        }
        if document.layout.splits() {
            self.split();
        }
        if self.document.text.len() > DOCUMENT_BYTES_MAX {
            self.document.too_large = true;
            self.document.text.clear();
            self.number();
            self.complain(0, "a document or item of more than 32 MiB; write a large List as JSON");
        }
    }

    /// Gives the document its number, once.
    fn number(&mut self) -> u32 {
        if self.document.items == 0 && self.document.split.is_none() {
            self.count += 1;
        }
        self.count
    }

    /// Hands over all items but the last, which may not be whole yet.
    fn split(&mut self) {
        if self.document.split.is_none() {
            self.number();
            let first = self.document.layout.starts[0];
            let head = self.document.text[..first].to_vec();
            let fields = parse(&head, self.document.first_line).ok();
            let list = fields.as_ref().and_then(Value::as_object).map(ListKind::of);
            self.document.split = Some(list.unwrap_or_default());
            self.cut(first);
        }
        let starts = std::mem::take(&mut self.document.layout.starts);
        let keep = *starts.last().expect("a document that splits has items");
        self.items(&starts);
        self.document.layout.starts.push(keep);
        self.cut(keep);
    }

    /// Forgets the text before an offset.
    fn cut(&mut self, offset: usize) {
        let document = &mut self.document;
        document.first_line += lines(&document.text[..offset]);
        document.text.drain(..offset);
        for start in &mut document.layout.starts {
            *start -= offset;
        }
        document.layout.tail = document.layout.tail.map(|tail| tail - offset);
    }

    /// Parses and hands over the items between these offsets.
    fn items(&mut self, bounds: &[usize]) {
        let first = bounds.first().copied().unwrap_or(0);
        let mut line = self.document.first_line + lines(&self.document.text[..first]);
        for pair in bounds.windows(2) {
            self.item(pair[0], pair[1], line);
            line += lines(&self.document.text[pair[0]..pair[1]]);
        }
    }

    /// Parses and hands over one item.
    fn item(&mut self, from: usize, to: usize, line: u32) {
        let document = &mut self.document;
        let parsed = parse(&document.text[from..to], line);
        document.items += 1;
        let place = Place {
            file: self.file.clone(),
            document: Some(self.count),
            item: Some(document.items),
        };
        match parsed {
            Ok(Value::Array(items)) => {
                let list = document.split.clone().unwrap_or_default();
                let items = items.into_iter().map(|mut item| {
                    list.complete(&mut item);
                    item
                });
                let items: Vec<Value> = items.collect();
                let seen = document.items - 1;
                self.document.items = self.deliver(Value::Array(items), seen);
            }
            Ok(other) => self.take.object(place, other),
            Err(problem) => self.take.complain(ReadError::at(place, problem)),
        }
    }

    fn deliver(&mut self, value: Value, seen: u32) -> u32 {
        let mut sink = Numbered {
            file: self.file,
            document: self.count,
            items: seen,
            take: self.take,
            left: Rc::new(Cell::new(0)),
        };
        hand_over(value, false, &mut sink as &mut dyn Sink);
        sink.items
    }

    /// Ends the document: hands over what is left of it.
    fn end_document(&mut self) {
        if self.document.too_large || self.document.split.is_some() {
            self.full += 1;
            self.end_split();
        } else if self.document.content {
            self.number();
            match parse(&self.document.text, self.document.first_line) {
                Ok(Value::Null) => {}
                Ok(value) => {
                    self.full += 1;
                    self.deliver(value, 0);
                }
                Err(problem) => {
                    self.full += 1;
                    self.complain(self.count, &problem);
                }
            }
        } else if self.document.opened {
            self.number();
        }
        self.document = Document::default();
    }

    fn end_split(&mut self) {
        if self.document.too_large {
            return;
        }
        let end = self.document.layout.tail.unwrap_or(self.document.text.len());
        let mut starts = std::mem::take(&mut self.document.layout.starts);
        starts.push(end);
        self.items(&starts);
    }

    /// Complains of a document; 0: the one being read.
    fn complain(&mut self, document: u32, problem: &str) {
        let number = if document == 0 { self.count.max(1) } else { document };
        self.take.complain(ReadError::at(Place::document(self.file, number), problem));
    }
}

fn lines(text: &[u8]) -> u32 {
    text.iter().filter(|byte| **byte == b'\n').count() as u32
}

/// Whether a line is a document marker.
fn marker(line: &[u8], mark: &[u8]) -> bool {
    line.strip_prefix(mark).is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

/// Parses one document, or one item of a List.
fn parse(text: &[u8], first_line: u32) -> Result<Value, String> {
    let text = std::str::from_utf8(text).map_err(|error| {
        format!("line {} is not UTF-8", first_line + lines(&text[..error.valid_up_to()]))
    })?;
    if let Some(at) = text.find('\0') {
        return Err(format!("line {} has a NUL byte", first_line + lines(&text.as_bytes()[..at])));
    }
    // A field that stands twice is an error of this parser's own.
    let (left, refused) = (Cell::new(OBJECT_BYTES_MAX), RefCell::new(Vec::new()));
    let options = serde_saphyr::options! {
        with_snippet: false,
        // YAML 1.2: a node may be called `n` or `on`.
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: 8_000_000,
            max_events: 32_000_000,
            max_total_scalar_bytes: OBJECT_BYTES_MAX,
        },
    };
    let parsed = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        Pruned { left: &left, twice: &refused, at: None }.deserialize(yaml)
    });
    parsed.map_err(|error| explain(&error, first_line))
}

fn explain(error: &serde_saphyr::Error, first_line: u32) -> String {
    let error = error.without_snippet();
    let line = error.location().map(|location| {
        let line = u64::from(first_line) + location.line().saturating_sub(1);
        format!("line {line}")
    });
    if let Some(words) = words(error) {
        return line.map_or(words.clone(), |line| format!("{line}: {words}"));
    }
    let said = error.to_string();
    let said = said.lines().next().unwrap_or_default().trim();
    let Some(line) = line else { return format!("no YAML: {said}") };
    let bare = said.split(" at line ").next().unwrap_or_default();
    // What the library advises is meant for programmers.
    let bare = bare.split("; use ").next().unwrap_or_default();
    format!("{line} is no YAML: {}", bare.trim_end_matches([':', ',']))
}

/// What is wrong, in words for people, where the library's own are for programmers.
fn words(error: &serde_saphyr::Error) -> Option<String> {
    use serde_saphyr::Error;
    use serde_saphyr::budget::BudgetBreach;
    let words = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            let key: String = key.chars().take(60).collect();
            return Some(format!("key {key} is written twice; remove one"));
        }
        Error::DuplicateMappingKey { key: None, .. } => "a key is written twice; remove one",
        Error::NullIntoString { .. } => "a key is missing or empty; write one before the colon",
        Error::UnknownAnchor { .. } => "an alias (*name) without an anchor (&name) before it",
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an alias inside its own anchor",
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => TOO_MANY_ALIASES,
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Aliases { .. }
            | BudgetBreach::Anchors { .. }
            | BudgetBreach::AliasAnchorRatio { .. }
            | BudgetBreach::RecordedAnchorEvents { .. }
            | BudgetBreach::RecordedAnchorBytes { .. }
            | BudgetBreach::MergeKeys { .. } => TOO_MANY_ALIASES,
            BudgetBreach::Depth { .. } => "nested more than 128 deep",
            BudgetBreach::SequenceUnbalanced => "a list or map ends that never began",
            _ => "too large for one document; write a large List as JSON",
        },
        other if other.to_string().contains("recursion limit") => "nested more than 128 deep",
        // The same breach, found while an alias is replayed.
        other if other.to_string().contains("budget breached") => TOO_MANY_ALIASES,
        _ => return None,
    };
    Some(words.to_owned())
}

/// What is said of documents that a few bytes would blow up.
const TOO_MANY_ALIASES: &str = "too many anchors or aliases (&name, *name); write the values out";
