//! Tidy: the shape of the repository, checked on every test run.
//!
//! [`size`] bounds files, functions and lines and wants headers; [`words`] knows what each crate
//! must never contain; [`arrows`] knows which crate may depend on what; [`folders`] compares the
//! tree with ARCHITECTURE.md. Every check is a function from text to findings, tested on a bad
//! snippet beside it, so that each can fail. Text in comments and strings is never judged.

mod arrows;
mod folders;
mod size;
mod tree;
mod words;

use std::fmt;

/// Something that is not as the rules want it.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// Path from the repository's root.
    path: String,
    /// Line, from 1; 0 for the file as a whole.
    line: usize,
    /// Which rule, and what to do about it.
    says: String,
}

impl Finding {
    fn new(path: &str, line: usize, says: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, says: says.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.says)
    }
}

/// Fails with one line for each finding.
fn none(findings: Vec<Finding>) {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "\n{}\n{} findings", lines.join("\n"), lines.len());
}

#[test]
fn files_functions_and_lines_are_short_and_files_have_headers() {
    none(tree::files().iter().flat_map(size::check).collect());
}

#[test]
fn no_crate_contains_what_it_must_never_contain() {
    none(tree::files().iter().flat_map(words::check).collect());
}

#[test]
fn dependencies_follow_the_arrows() {
    let manifests: Vec<tree::File> =
        tree::files().into_iter().filter(|file| file.path.ends_with("Cargo.toml")).collect();
    assert_eq!(manifests.len(), 6, "five crates and the workspace");
    none(manifests.iter().flat_map(arrows::check).collect());
}

#[test]
fn the_architecture_names_every_folder() {
    let files = tree::files();
    let map = files.iter().find(|file| file.path == "ARCHITECTURE.md").expect("it is there");
    none(folders::check(&files, &map.text));
}
