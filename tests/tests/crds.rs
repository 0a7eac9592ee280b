//! The CRDs: their files are what `capstan crds` prints, and every rule has an object that breaks
//! it and one that keeps it, in `tests/crds/`.
//!
//! Those objects are for an API server, which is the only one to evaluate the rules; here they
//! are held against what reads files, which must judge alike. `UPDATE_EXPECT=1` writes the files
//! in `manifests/crds/` anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use capstan::api::crds;
use capstan::config::Config;
use capstan_core::Input;
use capstan_tests::scenario::capstan;
use serde_json::Value;

/// Broken objects that only an API server refuses, and why a file may hold them.
const ONLY_AN_API_SERVER: [(&str, &str); 4] = [
    ("clusterqueue-cohort-name", "capitals pass in names of files, here as everywhere"),
    ("cohort-own-parent", "a cycle like others: the engine says which queues it stops"),
    ("workload-min-count", "Workloads are checked for their types and not believed"),
    ("workload-pod-set-twice", "Workloads are checked for their types and not believed"),
];

/// What is said of fields that are valid and come later.
const REMARK: &str = "has no effect in this version";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace").to_owned()
}

/// Files of a folder by name without ending, and their text.
fn files(folder: &str) -> BTreeMap<String, String> {
    let listed = fs::read_dir(root().join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
    let read = |path: PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        (name, fs::read_to_string(&path).expect("text"))
    };
    listed.map(|entry| read(entry.expect("an entry").path())).collect()
}

/// What an invalid object's first line says.
fn expected(text: &str) -> &str {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("# => ").unwrap_or_else(|| panic!("no `# => message` first in\n{text}"))
}

/// Everything that reading a file finds wrong with it.
fn found_in_file(path: &Path) -> Vec<String> {
    let objects = match capstan::read::read_files(&[path.to_owned()], &Config::default()) {
        Ok(objects) => objects,
        Err(errors) => return errors.iter().map(ToString::to_string).collect(),
    };
    let mut found: Vec<String> = objects.warnings.iter().map(ToString::to_string).collect();
    for input in &objects.inputs {
        let broken = match input {
            Input::ClusterQueue(queue) => &queue.broken,
            Input::Cohort(cohort) => &cohort.broken,
            Input::Flavor(flavor) => &flavor.broken,
            _ => continue,
        };
        found.extend(broken.iter().map(ToString::to_string));
    }
    found.retain(|line| !line.ends_with(REMARK));
    found
}

#[test]
fn the_files_are_what_the_command_prints() {
    let printed = capstan(&["crds".to_owned()]);
    assert_eq!(printed.code, 0, "{}", printed.err);
    let documents: Vec<&str> = printed.out.split("---\n").collect();
    let names: Vec<String> = crds::all().into_iter().map(|crd| crd.spec.names.plural).collect();
    assert_eq!(documents.len(), names.len());
    let folder = root().join("manifests/crds");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::create_dir_all(&folder).expect("a folder");
        for (name, document) in names.iter().zip(&documents) {
            fs::write(folder.join(format!("{name}.yaml")), document).expect("it can be written");
        }
    }
    let mut on_disk = files("manifests/crds");
    for (name, document) in names.iter().zip(documents) {
        let file = on_disk.remove(name).unwrap_or_default();
        assert!(file == document, "{name}.yaml is stale: UPDATE_EXPECT=1 writes it anew");
    }
    assert_eq!(on_disk.into_keys().collect::<Vec<_>>(), Vec::<String>::new(), "nobody's files");
}

#[test]
fn what_is_printed_reads_back() {
    for crd in crds::all() {
        let read: Value = serde_saphyr::from_str(&crds::yaml(&crd)).expect("YAML");
        assert_eq!(read, serde_json::to_value(&crd).expect("plain data"));
    }
}

#[test]
fn every_invalid_object_has_a_valid_twin() {
    let (valid, invalid) = (files("tests/crds/valid"), files("tests/crds/invalid"));
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&valid), names(&invalid));
    for text in invalid.values() {
        expected(text);
    }
}

/// The fixed parts of everything that rules say: of a message that CEL makes, its literals; and
/// the field that they name.
fn sayings(schema: &Value, found: &mut Vec<Vec<String>>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let mut parts: Vec<String> = match rule["messageExpression"].as_str() {
            Some(made) => made.split('\'').skip(1).step_by(2).map(str::to_owned).collect(),
            None => vec![rule["message"].as_str().expect("every rule says something").to_owned()],
        };
        if let Some(field) = rule["fieldPath"].as_str() {
            parts.push(format!("{}: ", field.trim_start_matches('.')));
        }
        found.push(parts);
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|inner| sayings(inner, found)),
        Value::Array(list) => list.iter().for_each(|inner| sayings(inner, found)),
        _ => {}
    }
}

#[test]
fn every_rule_is_broken_by_some_object_of_its_kind() {
    let invalid = files("tests/crds/invalid");
    for crd in crds::all() {
        let kind = crd.spec.names.kind.clone();
        let mut rules = Vec::new();
        sayings(&serde_json::to_value(&crd).expect("plain data"), &mut rules);
        let said: Vec<&str> = invalid
            .values()
            .filter(|text| text.contains(&format!("kind: {kind}\n")))
            .map(|text| expected(text))
            .collect();
        assert!(!said.is_empty(), "no invalid {kind}");
        // Quotas of both kinds are one set of rules: a ClusterQueue proves the rarer ones.
        let shared: Vec<&str> = invalid.values().map(|text| expected(text)).collect();
        let heard = if kind == "Cohort" { &shared } else { &said };
        for rule in rules {
            let broken = heard.iter().any(|line| rule.iter().all(|part| line.contains(part)));
            assert!(broken, "no {kind} in tests/crds/invalid/ breaks {rule:?}");
        }
    }
}

/// The lists and maps of a spec itself; a Cohort's are a ClusterQueue's, and Workloads are ours.
#[test]
fn every_limit_of_a_spec_is_exceeded_by_some_object() {
    let invalid = files("tests/crds/invalid");
    for crd in crds::all() {
        let kind = crd.spec.names.kind.clone();
        if matches!(kind.as_str(), "Cohort" | "Workload") {
            continue;
        }
        let crd = serde_json::to_value(&crd).expect("plain data");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let spec = schema["properties"]["spec"]["properties"].as_object();
        for (field, schema) in spec.into_iter().flatten() {
            if schema["maxItems"].is_null() && schema["maxProperties"].is_null() {
                continue;
            }
            let says = format!("spec.{field}: Too many");
            let of_kind = format!("kind: {kind}\n");
            let mut said =
                invalid.values().filter(|text| text.contains(&of_kind)).map(|it| expected(it));
            assert!(said.any(|line| line.starts_with(&says)), "no {kind} breaks `{says}`");
        }
    }
}

#[test]
fn files_are_judged_as_an_api_server_judges() {
    let excused: BTreeSet<&str> = ONLY_AN_API_SERVER.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for (name, text) in files("tests/crds/invalid") {
        // Two documents are an object before and after a change, which files cannot hold.
        if text.contains("\n---\n") {
            assert!(!excused.contains(name.as_str()), "{name}: a change needs no excuse");
            continue;
        }
        let found = found_in_file(&root().join(format!("tests/crds/invalid/{name}.yaml")));
        if found.is_empty() != excused.contains(name.as_str()) {
            wrong.push(format!("invalid/{name}: {found:?}"));
        }
        let found = found_in_file(&root().join(format!("tests/crds/valid/{name}.yaml")));
        if !found.is_empty() {
            wrong.push(format!("valid/{name}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
