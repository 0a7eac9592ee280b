//! Plays every scenario file below `tests/scenarios`; each prints what differs from its header.
//!
//! `SCENARIO=part-of-a-path` plays only those; `UPDATE_EXPECT=1` rewrites `.expected` files.

use std::path::Path;

use capstan_tests::scenario::{check, discover};

#[test]
fn every_scenario_is_as_its_header_says() {
    // Relative to this package, so that lines break alike wherever the clone is.
    let root = Path::new("scenarios").to_owned();
    let only = std::env::var("SCENARIO").unwrap_or_default();
    let mut files = discover(&root).expect("the scenario folder is in order");
    files.retain(|file| file.to_string_lossy().contains(&only));
    assert!(!files.is_empty(), "no scenario's path has {only:?} in it");
    let failures: Vec<String> = files.iter().filter_map(|file| check(file).err()).collect();
    let (failed, all) = (failures.len(), files.len());
    assert!(failures.is_empty(), "{}\n\n{failed} of {all} scenarios fail", failures.join("\n\n"));
}

#[test]
fn a_folder_without_scenarios_is_a_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert!(discover(folder.path()).expect_err("empty").contains("no scenario"));
    std::fs::write(folder.path().join("stray.txt"), "x").expect("writes");
    assert!(discover(folder.path()).expect_err("stray").contains("neither a scenario"));
}

#[test]
fn a_scenario_that_is_not_as_it_says_is_a_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("wrong.yaml");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {schedulerName: capstan, \
               containers: [{name: c}]}\n";
    std::fs::write(&file, format!("# $ simulate THIS\n# => admitted default/other\n{pod}"))
        .expect("writes");
    let error = check(&file).expect_err("no such workload is admitted");
    assert!(error.contains("admitted"), "{error}");
}
