//! The code map: ARCHITECTURE.md names every folder of code, and no folder is a drawer.

use std::collections::BTreeSet;

use crate::Finding;
use crate::tree::File;

/// Names that say nothing about what is inside.
const DRAWERS: [&str; 7] = ["utils", "util", "helpers", "helper", "common", "misc", "shared"];

/// Every folder with files in it, hidden ones apart, and module names.
pub fn check(files: &[File], architecture: &str) -> Vec<Finding> {
    let mut folders = BTreeSet::new();
    let mut findings = Vec::new();
    for file in files {
        let Some((folder, name)) = file.path.rsplit_once('/') else { continue };
        if file.path.ends_with(".rs") {
            let module = name.trim_end_matches(".rs");
            let last = folder.rsplit('/').next().unwrap_or_default();
            if let Some(drawer) = DRAWERS.iter().find(|d| **d == module || **d == last) {
                let says = format!("{drawer} is a drawer: name the module by its concept");
                findings.push(Finding::new(&file.path, 0, says));
            }
        }
        if !folder.starts_with('.') {
            folders.insert(folder.to_owned());
            folders.insert(file.folder().to_owned());
        }
    }
    for folder in folders {
        if !architecture.contains(&format!("`{folder}/`")) {
            let says = format!("ARCHITECTURE.md does not name `{folder}/`: add it to the code map");
            findings.push(Finding::new(&folder, 0, says));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_the_map_does_not_name_is_found() {
        let files = [
            File::new("core/src/quota/tree.rs", ""),
            File::new("core/src/lib.rs", ""),
            File::new("core/data/prices.json", ""),
            File::new(".ci/run", ""),
        ];
        let all = "`core/`, `core/src/`, `core/src/quota/`, `core/data/`";
        assert!(check(&files, all).is_empty());
        let says = check(&files, "`core/` and `core/src/` and quota");
        let wanted = ["does not name `core/data/`", "does not name `core/src/quota/`"];
        assert_eq!(says.len(), wanted.len());
        assert!(says.iter().zip(wanted).all(|(says, wanted)| says.says.contains(wanted)));
    }

    #[test]
    fn drawers_are_found() {
        let map = "`core/` `core/src/` `core/src/common/`";
        for path in ["core/src/utils.rs", "core/src/common/quota.rs"] {
            assert_eq!(check(&[File::new(path, "")], map).len(), 1, "{path}");
        }
    }
}
