//! README and the examples: two commands, a picture that is what the first prints, and manifests
//! that simulate.
//!
//! `UPDATE_EXPECT=1` writes the picture anew.

use std::fs;
use std::path::{Path, PathBuf};

use capstan_tests::scenario::{capstan, text};

/// The command whose output README shows.
const SHOWN: &str = "cargo run --release -- simulate manifests/examples/quickstart.yaml";
/// The command that runs the tests.
const TESTS: &str = "cargo test --workspace";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Code blocks of a Markdown text: language and content.
fn blocks(markdown: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in markdown.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (None, Some((_, content))) => content.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a code block is not closed");
    found
}

fn simulate(file: &str) -> String {
    // Relative, so that lines break alike wherever the clone is.
    let printed = capstan(&["simulate".to_owned(), format!("../{file}")]);
    assert_eq!(printed.code, 0, "{file}: {}", printed.err);
    assert_eq!(text::faults(&printed.out), Vec::<String>::new(), "{file}");
    printed.out.replace("../", "")
}

#[test]
fn the_readme_has_exactly_two_commands() {
    let commands: Vec<String> = blocks(&read("README.md"))
        .into_iter()
        .filter(|(language, _)| language == "sh")
        .flat_map(|(_, content)| content.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(commands, [SHOWN, TESTS]);
    assert!(read(".ci/run").contains(TESTS), "CI runs what README says");
}

#[test]
fn the_playground_is_started_as_the_readme_says() {
    let line = "`cargo run --release -p capstan-tests --bin playground`";
    assert!(read("README.md").replace('\n', " ").contains(line), "README has no {line}");
    let program = Path::new(env!("CARGO_BIN_EXE_playground"));
    assert_eq!(program.file_stem().and_then(|name| name.to_str()), Some("playground"));
}

#[test]
fn the_picture_is_what_the_first_command_prints() {
    let readme = read("README.md");
    let found = blocks(&readme).into_iter().find(|(language, _)| language == "text");
    let (_, picture) = found.expect("README has a text block");
    let now = simulate("manifests/examples/quickstart.yaml");
    let same = text::stable(&picture, &root()) == text::stable(&now, &root());
    if !same && std::env::var_os("UPDATE_EXPECT").is_some() {
        let fresh = readme.replacen(&picture, &now, 1);
        fs::write(root().join("README.md"), fresh).expect("README can be written");
        return;
    }
    assert!(same, "{picture}\nis now\n{now}\nUPDATE_EXPECT=1 writes README anew");
}

#[test]
fn the_quickstart_shows_what_it_says() {
    let out = simulate("manifests/examples/quickstart.yaml");
    for word in ["language/eval", "vision/embed", "language/finetune", "vision/sweep-8"] {
        assert!(out.contains(word), "no {word} in:\n{out}");
    }
    let path = root().join("manifests/examples/quickstart.yaml").display().to_string();
    let words = ["simulate", &path, "--output", "json"].map(str::to_owned);
    let json: serde_json::Value =
        serde_json::from_str(&capstan(&words).out).expect("JSON on stdout");
    let mut admitted: Vec<&str> =
        json["admitted"].as_array().expect("a list").iter().filter_map(|n| n.as_str()).collect();
    admitted.sort_unstable();
    assert_eq!(admitted, ["language/eval", "vision/embed"]);
    assert_eq!(json["pending"], serde_json::json!(["language/finetune"]));
    let preempted = json["preempted"].as_array().expect("a list");
    assert_eq!(preempted.len(), 1);
    assert_eq!(preempted[0]["name"], "vision/sweep-8");
    assert_eq!(preempted[0]["by"], "language/eval");
    assert_eq!(preempted[0]["reason"], "InCohortReclamation");
    let mut workloads = json["workloads"].as_array().expect("a list").iter();
    let embed = workloads.find(|w| w["name"] == "vision/embed").expect("it is listed");
    assert_eq!(embed["borrowed"], true, "a gang that borrows");
}

#[test]
fn every_example_simulates_together_with_its_queues() {
    simulate("manifests/examples/two-teams.yaml");
    simulate("manifests/examples/training-job.yaml");
}
