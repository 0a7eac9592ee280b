//! Scenarios: a small cluster as ordinary manifests in, the explained plan out.
//!
//! A scenario is one YAML file that both `kubectl` and a reader can take in. Its leading comment
//! says which commands run on it and what must come of them; the grammar is in [`header`], what
//! is compared in [`expectation`]. [`check`] is the one way in. It runs the real command line in
//! process, so a scenario never reaches into the parts. Every simulation is played three times:
//! as JSON for the expectations; as text, at most 100 columns wide, the first one compared whole
//! with the sibling `.expected` file where there is one; and with its documents reversed, because
//! the order of manifests must not matter.

pub mod expectation;
pub mod header;
pub mod text;

use std::fs;
use std::path::{Path, PathBuf};

use expectation::Answer;
use header::{Header, Run};

/// Folders of this name hold input of neighbouring scenarios, not scenarios.
const FIXTURES: &str = "files";

/// What a command printed, and its exit code.
#[derive(Clone, Debug)]
pub struct Printed {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs the command line in process; `words` leave the program's own name out.
pub fn capstan(words: &[String]) -> Printed {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = std::iter::once("capstan".to_owned()).chain(words.iter().cloned());
    let code = capstan::cli::run(args, &mut out, &mut err);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Printed { code, out: text(out), err: text(err) }
}

/// All scenario files below `root`, sorted, or why there is something wrong with the folders.
pub fn discover(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let listed = fs::read_dir(root).map_err(|e| format!("{}: {e}", root.display()))?;
    let mut entries: Vec<PathBuf> =
        listed.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() && name != FIXTURES {
            found.extend(discover(&path)?);
        } else if path.extension().is_some_and(|e| e == "yaml") {
            found.push(path);
        } else if path.is_file() && path.extension().is_none_or(|e| e != "expected") {
            return Err(format!("{}: neither a scenario nor its .expected", path.display()));
        } else if path.is_file() && !path.with_extension("yaml").exists() {
            return Err(format!("{}: its scenario is gone", path.display()));
        }
    }
    if found.is_empty() {
        return Err(format!("{}: no scenario in it", root.display()));
    }
    Ok(found)
}

/// Plays one scenario; `Err` holds everything that is not as its header says.
pub fn check(path: &Path) -> Result<(), String> {
    let source = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let header = Header::parse(&source).map_err(|e| format!("{}:{e}", path.display()))?;
    let mut wrong = Vec::new();
    let first = header.runs.iter().position(Run::is_simulate);
    for (at, run) in header.runs.iter().enumerate() {
        let before = wrong.len();
        let printed = play(path, &source, run, &mut wrong);
        if first == Some(at) {
            snapshot(path, &printed, &mut wrong);
        }
        if let Some(first) = wrong.get_mut(before) {
            *first = format!("$ capstan {}\n  {first}", run.words.join(" "));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n  {}", path.display(), wrong.join("\n  ")))
}

/// Plays one command and returns its text.
fn play(path: &Path, source: &str, run: &Run, wrong: &mut Vec<String>) -> Printed {
    let words = resolve(run, path, path);
    let answer = Answer::new(run, capstan(&as_json(run, &words)));
    wrong.extend(answer.complaints());
    let printed = capstan(&words);
    if answer.printed.code == 2 {
        return printed;
    }
    if printed.code != answer.printed.code {
        wrong.push(format!("text exits {}, JSON {}", printed.code, answer.printed.code));
    }
    wrong.extend(text::faults(&printed.out));
    for (line, fragment) in run.text_fragments() {
        if !printed.out.contains(fragment) {
            wrong.push(format!("line {line}: text has no {fragment:?}:\n{}", printed.out));
        }
    }
    if run.is_simulate() {
        reversed(path, source, run, &answer, wrong);
    }
    printed
}

/// The same command with its answer as JSON, where it has one.
fn as_json(run: &Run, words: &[String]) -> Vec<String> {
    let mut words = words.to_vec();
    if run.answers_json() {
        words.extend(["--output", "json"].map(str::to_owned));
    }
    words
}

/// Compares the whole text with the sibling file; `UPDATE_EXPECT=1` writes it anew.
fn snapshot(path: &Path, printed: &Printed, wrong: &mut Vec<String>) {
    let expected = path.with_extension("expected");
    let Ok(before) = fs::read_to_string(&expected) else { return };
    let folder = path.parent().expect("a file has a folder");
    let now = text::stable(&printed.out, folder);
    if now == before {
        return;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&expected, now).expect("the scenario folder can be written");
        return;
    }
    wrong.push(format!("text is not as in {}; it is now:\n{now}", expected.display()));
}

/// The order of documents decides nothing.
fn reversed(path: &Path, source: &str, run: &Run, answer: &Answer, wrong: &mut Vec<String>) {
    let mut documents: Vec<&str> = source.split("\n---\n").collect();
    documents.reverse();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = path.file_name().expect("a file has a name");
    let other = folder.path().join(name);
    fs::write(&other, documents.join("\n---\n")).expect("a temporary file");
    let printed = capstan(&as_json(run, &resolve(run, &other, path)));
    if without_warnings(&printed.out) != without_warnings(&answer.printed.out) {
        wrong.push(format!("documents reversed, the answer differs:\n{}", printed.out));
    }
}

/// Warnings number the documents, so they differ with the order.
fn without_warnings(json: &str) -> Option<serde_json::Value> {
    let mut value: serde_json::Value = serde_json::from_str(json).ok()?;
    value.as_object_mut()?.remove("warnings");
    Some(value)
}

/// `THIS` becomes the file, `./x` a neighbour of the scenario.
fn resolve(run: &Run, this: &Path, scenario: &Path) -> Vec<String> {
    let folder = scenario.parent().expect("a file has a folder");
    let place = |word: &String| match word.strip_prefix("./") {
        Some(rest) => folder.join(rest).display().to_string(),
        None if word == "THIS" => this.display().to_string(),
        None => word.clone(),
    };
    run.words.iter().map(place).collect()
}
