//! The arrows `topology <- core <- scheduler`, and who may use which library for what.
//!
//! The table below is the whole permission: a new dependency is a new row, with its reason in
//! the commit. `tests` and `bench` may use all of ours; nobody but `bench` may use `tests`.

use crate::Finding;
use crate::tree::File;

/// Crate folder and what it may name under `[dependencies]` and `[dev-dependencies]`.
const MAY_USE: [(&str, &[&str]); 5] = [
    ("topology", &["petgraph"]),
    ("core", &["capstan-topology", "hashbrown", "priority-queue", "proptest"]),
    (
        "scheduler",
        &[
            "capstan-core",
            "capstan-topology",
            "anstream",
            "anstyle",
            "axum",
            "clap",
            "clap_complete",
            "futures",
            "http",
            "hyper",
            "hyper-rustls",
            "hyper-util",
            "jiff",
            "expect-test",
            "k8s-openapi",
            "kube",
            "maud",
            "mimalloc",
            "parking_lot",
            "prometheus",
            "proptest",
            "regex",
            "ring",
            "schemars",
            "serde",
            "serde-saphyr",
            "serde_json",
            "serde_path_to_error",
            "tempfile",
            "tokio",
            "tokio-rustls",
            "tower",
            "tracing",
            "tracing-subscriber",
        ],
    ),
    (
        "tests",
        &[
            "capstan",
            "capstan-core",
            "capstan-topology",
            "futures",
            "k8s-openapi",
            "kube",
            "pem",
            "proc-macro2",
            "proptest",
            "ring",
            "rustix",
            "serde-saphyr",
            "serde_json",
            "syn",
            "tempfile",
            "tokio",
            "toml",
        ],
    ),
    (
        "bench",
        &[
            "capstan",
            "capstan-core",
            "capstan-tests",
            "capstan-topology",
            "futures",
            "http",
            "k8s-openapi",
            "kube",
            "mimalloc",
            "rustix",
            "serde_json",
            "tokio",
            "tower",
        ],
    ),
];

/// Only these may be used outside tests of the crate itself: proptest and tempfile prove.
const PROOF_ONLY: [&str; 2] = ["proptest", "tempfile"];

/// Every dependency of one manifest against the table.
pub fn check(file: &File) -> Vec<Finding> {
    let Ok(manifest) = file.text.parse::<toml::Table>() else {
        return vec![Finding::new(&file.path, 0, "is no TOML")];
    };
    let Some((_, allowed)) = MAY_USE.iter().find(|(folder, _)| *folder == file.folder()) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else { continue };
        for (name, value) in table {
            let line = line_of(&file.text, name);
            if !allowed.contains(&name.as_str()) {
                let says = format!(
                    "{} may not depend on {name}: use what the table in {} allows",
                    file.folder(),
                    "tests/tests/tidy/arrows.rs"
                );
                findings.push(Finding::new(&file.path, line, says));
            }
            let shipped = section == "dependencies" && file.folder() != "tests";
            if shipped && PROOF_ONLY.contains(&name.as_str()) {
                let says = format!("{name} belongs under [dev-dependencies]: it proves, only");
                findings.push(Finding::new(&file.path, line, says));
            }
            let inherited = value.get("workspace").and_then(toml::Value::as_bool);
            if inherited != Some(true) {
                let says =
                    format!("{name}: write `{name}.workspace = true`; versions have a table");
                findings.push(Finding::new(&file.path, line, says));
            }
        }
    }
    for section in ["target", "patch", "features"] {
        if manifest.contains_key(section) && section != "features" {
            let says = format!("[{section}] goes around the table of arrows: remove it");
            findings.push(Finding::new(&file.path, 0, says));
        }
    }
    findings
}

fn line_of(text: &str, name: &str) -> usize {
    let starts = |line: &str| {
        let rest = line.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    text.lines().position(starts).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(folder: &str, text: &str) -> Vec<String> {
        let file = File::new(&format!("{folder}/Cargo.toml"), text);
        check(&file).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn an_arrow_the_wrong_way_is_found() {
        for (folder, name) in [
            ("topology", "capstan-core"),
            ("core", "capstan"),
            ("core", "tokio"),
            ("core", "serde"),
            ("topology", "serde"),
            ("scheduler", "capstan-tests"),
            ("core", "capstan-tests"),
        ] {
            let says = said(folder, &format!("[dependencies]\n{name}.workspace = true\n"));
            assert_eq!(says.len(), 1, "{folder} -> {name}: {says:?}");
            let start = format!("{folder}/Cargo.toml:2: {folder} may not depend on {name}:");
            assert!(says[0].starts_with(&start), "{}", says[0]);
        }
        let dev = said("core", "[dev-dependencies]\ncapstan-tests.workspace = true\n");
        assert_eq!(dev.len(), 1, "no way round through dev-dependencies");
    }

    #[test]
    fn arrows_the_right_way_pass() {
        assert!(said("core", "[dependencies]\ncapstan-topology.workspace = true\n").is_empty());
        assert!(said("bench", "[dependencies]\ncapstan-tests.workspace = true\n").is_empty());
        assert!(said("core", "[dev-dependencies]\nproptest.workspace = true\n").is_empty());
    }

    #[test]
    fn versions_and_proof_libraries_in_the_wrong_place_are_found() {
        let own = said("core", "[dependencies]\npriority-queue = \"2\"\n");
        assert!(own[0].contains("write `priority-queue.workspace = true`"), "{own:?}");
        let shipped = said("core", "[dependencies]\nproptest.workspace = true\n");
        assert!(shipped[0].contains("[dev-dependencies]"), "{shipped:?}");
        assert_eq!(said("core", "[target.'cfg(unix)'.dependencies]\ntokio = \"1\"\n").len(), 1);
    }
}
