//! The files of the repository that people write.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file.
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// Content.
    pub text: String,
}

impl File {
    /// A file that is not on disk, for tests of the checks.
    #[cfg(test)]
    pub fn new(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    /// The crate folder that it is in: its path's first part.
    pub fn folder(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }
}

/// What is built, not written.
const SKIPPED: [&str; 4] = ["target", ".git", "Cargo.lock", "proptest-regressions"];

/// Every text file of the repository, sorted by path.
pub fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace");
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.iter().any(|file| file.path == "core/src/lib.rs"), "looked in the wrong place");
    found
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<File>) {
    let listed = fs::read_dir(folder).expect("a folder of the repository can be read");
    let paths: Vec<PathBuf> = listed.filter_map(|entry| entry.ok()).map(|e| e.path()).collect();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Only at the root a target is what a build makes.
        if SKIPPED.contains(&name) && (name != "target" || folder == root) {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root).expect("below the root").display().to_string();
            found.push(File { path, text });
        }
    }
}
