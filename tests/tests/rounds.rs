//! The bound of rounds of a simulation: who reaches it is told that the plan is not final.

use capstan_tests::scenario::capstan;
use serde_json::{Value, json};

/// Work without a queue takes a round each, so one pod more than there are rounds is left over.
const PODS: u32 = 10_001;

#[test]
fn a_plan_that_is_not_final_says_so() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let pod = |at: u32| {
        let metadata = json!({"name": format!("p{at}"), "namespace": "team"});
        let spec = json!({"schedulerName": "capstan", "containers": [{"name": "c"}]});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    };
    let items: Vec<Value> = std::iter::once(node).chain((0..PODS).map(pod)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("many.json");
    std::fs::write(&file, list.to_string()).expect("a temporary file");
    let run = |words: &[&str]| {
        let mut words: Vec<String> = words.iter().map(ToString::to_string).collect();
        words.push(file.display().to_string());
        capstan(&words)
    };

    let printed = run(&["simulate", "--output", "json"]);
    let said = "stopped after 10,000 rounds while things still changed: this plan is not final";
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(printed.err.contains(said), "{}", printed.err);
    let answer: Value = serde_json::from_str(&printed.out).expect("JSON");
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains(said), "tools read it too: {warnings}");

    let asked = run(&["simulate", "--cycles", "3"]);
    assert!(!asked.err.contains("not final"), "so many were asked for: {}", asked.err);
}
