//! What `migrate kueue` writes decides as Kueue's objects themselves do here: every scenario with
//! queues of Kueue is played twice.

use std::fs;
use std::path::Path;

use capstan_tests::scenario::{self, Printed};
use serde_json::{Value, json};

const KUEUE: &str = "apiVersion: kueue.x-k8s.io/";
const OURS: &str = "apiVersion: capstan.sh/";
/// Scenarios that can be compared; there are more than this.
const LEAST: usize = 20;

fn capstan(words: &[&str]) -> Printed {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    scenario::capstan(&words)
}

/// What was decided, of one simulation.
fn decided(file: &Path) -> Option<Value> {
    let file = file.to_str().expect("a path");
    let printed = capstan(&["simulate", file, "--output", "json"]);
    if printed.code != 0 {
        return None;
    }
    let all: Value = serde_json::from_str(&printed.out).expect("JSON");
    let of = |one: &Value| {
        let parts = ["name", "state", "clusterQueue", "flavors", "borrowed", "pods"];
        parts.map(|key| one[key].clone())
    };
    let workloads = all["workloads"].as_array().expect("a list").iter().map(of);
    let workloads: Vec<_> = workloads.collect();
    Some(json!([workloads, all["admitted"], all["pending"], all["preempted"]]))
}

#[test]
fn objects_of_kueue_decide_as_what_they_are_turned_into() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let folder = tempfile::tempdir().expect("a folder");
    let (theirs, ours) = (folder.path().join("theirs.yaml"), folder.path().join("ours.yaml"));
    let mut compared = 0;
    for path in scenario::discover(&root).expect("scenarios") {
        let text = fs::read_to_string(&path).expect("a scenario");
        // Twins in both groups would be one object twice.
        if !text.contains(KUEUE) || text.contains(OURS) {
            continue;
        }
        let Some(before) = decided(&path) else { continue };
        let (kueues, rest): (Vec<&str>, Vec<&str>) =
            text.split("\n---\n").partition(|document| document.contains(KUEUE));
        fs::write(&theirs, kueues.join("\n---\n")).expect("written");
        let migrated = capstan(&["migrate", "kueue", theirs.to_str().expect("a path")]);
        assert!(migrated.code < 2, "{}: {}", path.display(), migrated.err);
        assert!(!migrated.out.contains("kueue.x-k8s.io/v1"), "{}", migrated.out);
        let all = format!("{}---\n{}", migrated.out, rest.join("\n---\n"));
        fs::write(&ours, &all).expect("written");
        let after =
            decided(&ours).unwrap_or_else(|| panic!("{}: not taken\n{all}", path.display()));
        assert_eq!(after, before, "{}\n{all}", path.display());
        compared += 1;
    }
    assert!(compared >= LEAST, "only {compared} were compared");
}
