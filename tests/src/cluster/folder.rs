//! The folder of a cluster: data, keys, kubeconfigs and logs.
//!
//! A cluster that ends well takes its folder along. One whose test fails leaves it, without the
//! store, and says where. A test that is killed can do neither, so every start sweeps away the
//! folders whose owner is gone: owners hold a lock on a file there for as long as they live.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::trouble::{Result, Trouble};

/// How the folders begin, in the folder for temporary files.
const PREFIX: &str = "capstan-cluster-";
/// The locked file.
const OWNER: &str = "owner";
/// Says that a folder was left on purpose.
const KEPT: &str = "kept";
/// The store's folder.
const STORE: &str = "etcd";
/// The folder of logs.
const LOGS: &str = "logs";

/// The folder, removed when this is dropped unless it was kept.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    kept: bool,
    _owner: File,
}

impl Folder {
    /// Makes a folder of its own, after sweeping.
    pub fn new() -> Result<Folder> {
        let temporary = env::temp_dir();
        sweep(&temporary);
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&temporary);
        let root = made.map_err(Trouble::at(&temporary))?.keep();
        // Locked before it has its name, so that no sweeper finds it without its lock.
        let (new, path) = (root.join("owner.new"), root.join(OWNER));
        let owner = File::create(&new).map_err(Trouble::at(&new))?;
        owner.lock().map_err(Trouble::at(&new))?;
        fs::rename(&new, &path).map_err(Trouble::at(&path))?;
        let folder = Folder { root, kept: false, _owner: owner };
        for inner in [STORE, LOGS] {
            let path = folder.path(inner);
            fs::create_dir(&path).map_err(Trouble::at(&path))?;
        }
        Ok(folder)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Where the store is.
    pub fn store(&self) -> PathBuf {
        self.path(STORE)
    }

    /// Where the logs are.
    pub fn logs(&self) -> PathBuf {
        self.path(LOGS)
    }

    /// Writes a file; its path.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, content).map_err(Trouble::at(&path))?;
        Ok(path)
    }

    /// Empties the store, to begin anew.
    pub fn clear(&self) -> Result<()> {
        let store = self.store();
        fs::remove_dir_all(&store).map_err(Trouble::at(&store))?;
        fs::create_dir(&store).map_err(Trouble::at(&store))
    }

    /// Leaves it when dropped, store apart.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Whether it will be left.
    pub fn is_kept(&self) -> bool {
        self.kept
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.root);
            return;
        }
        let _ = fs::remove_dir_all(self.store());
        let _ = fs::write(self.path(KEPT), "");
    }
}

/// Removes folders whose owner was killed. What cannot be removed is left: it does no harm.
fn sweep(temporary: &Path) {
    let Ok(listed) = fs::read_dir(temporary) else { return };
    for path in listed.filter_map(|entry| entry.ok()).map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with(PREFIX) || path.join(KEPT).exists() {
            continue;
        }
        let Ok(owner) = File::open(path.join(OWNER)) else { continue };
        if owner.try_lock().is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_go_with_their_owner_unless_kept() {
        let mut kept = Folder::new().expect("a folder");
        let gone = Folder::new().expect("a folder");
        let paths = [kept.path(""), gone.path("")];
        fs::write(kept.logs().join("log"), "line").expect("written");
        sweep(&env::temp_dir());
        assert!(paths.iter().all(|path| path.exists()), "their owner lives");
        kept.keep();
        drop((kept, gone));
        assert!(!paths[1].exists());
        sweep(&env::temp_dir());
        assert!(paths[0].join(LOGS).join("log").exists());
        assert!(!paths[0].join(STORE).exists(), "the store is large and says little");
        fs::remove_dir_all(&paths[0]).expect("removed");
    }

    #[test]
    fn what_a_killed_owner_left_is_swept() {
        let left = env::temp_dir().join(format!("{PREFIX}left-{}", std::process::id()));
        fs::create_dir_all(left.join(STORE)).expect("a folder");
        fs::write(left.join(OWNER), "").expect("a file");
        let _new = Folder::new().expect("a folder");
        assert!(!left.exists());
    }
}
