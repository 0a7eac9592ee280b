//! The configuration file, read again when it changes.
//!
//! The file is opened anew by its path each time, so that a ConfigMap's swapped links work as an
//! edited file does. A change counts once it was read twice alike: whoever writes in two steps is
//! not caught in the middle. What is broken is said, and what held before goes on.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::{self, Config};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A configuration file and what was last read of it.
pub struct ConfigFile {
    path: PathBuf,
    /// What was taken, or said to be broken.
    known: Result<Vec<u8>, String>,
    /// What was read the last time.
    read: Result<Vec<u8>, String>,
}

impl ConfigFile {
    /// The file as it is at the start.
    pub fn open(path: PathBuf) -> Result<(ConfigFile, Config), Vec<String>> {
        let read = std::fs::read(&path).map_err(|error| error.to_string());
        let mut file = ConfigFile { path, known: Ok(Vec::new()), read: Ok(Vec::new()) };
        let config = file.parse(&read)?;
        (file.known, file.read) = (read.clone(), read);
        Ok((file, config))
    }

    fn parse(&self, read: &Result<Vec<u8>, String>) -> Result<Config, Vec<String>> {
        let name = self.path.display().to_string();
        let bytes = read.as_ref().map_err(|error| vec![format!("{name}: {error}")])?;
        let text = std::str::from_utf8(bytes).map_err(|error| vec![format!("{name}: {error}")])?;
        let shown = |errors: Vec<_>| errors.iter().map(ToString::to_string).collect();
        config::read_config_text(&name, text)
            .map_err(|errors: Vec<crate::read::error::ReadError>| shown(errors))
    }

    /// Looks once; something else than before is returned once it stays.
    fn look(&mut self) -> Option<Result<Config, Vec<String>>> {
        let read = std::fs::read(&self.path).map_err(|error| error.to_string());
        let stays = read == self.read;
        self.read = read;
        if !stays || self.read == self.known {
            return None;
        }
        self.known = self.read.clone();
        Some(self.parse(&self.read))
    }

    /// Looks from now on, and tells what changes; `None`: to something that is not usable.
    pub async fn follow(mut self, mut changed: impl FnMut(Option<Config>)) {
        loop {
            tokio::time::sleep(LOOK).await;
            match self.look() {
                None => {}
                Some(Ok(config)) => changed(Some(config)),
                Some(Err(errors)) => {
                    for error in errors {
                        tracing::error!("{error}");
                    }
                    tracing::error!("the configuration is not usable; the one before still holds");
                    changed(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(name: &str) -> String {
        format!(
            "apiVersion: capstan.sh/v1alpha1\nkind: CapstanConfiguration\nschedulerName: {name}\n"
        )
    }

    fn name(config: Option<Result<Config, Vec<String>>>) -> String {
        config.expect("something new").expect("usable").scheduler_name.to_string()
    }

    #[test]
    fn a_change_counts_once_it_stays_and_a_broken_one_is_said_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("capstan.yaml");
        assert!(ConfigFile::open(path.clone()).is_err(), "not there");
        fs::write(&path, text("one")).expect("written");
        let (mut file, config) = ConfigFile::open(path.clone()).expect("usable");
        assert_eq!(&*config.scheduler_name, "one");
        assert!(file.look().is_none());
        fs::write(&path, "apiVersion: capstan.sh/v1alpha1\nkind: Cap").expect("written");
        assert!(file.look().is_none(), "somebody is writing");
        fs::write(&path, text("two")).expect("written");
        assert!(file.look().is_none());
        assert_eq!(name(file.look()), "two");
        assert!(file.look().is_none());
        fs::write(&path, text("three") + "shedulerName: x\n").expect("written");
        assert!(file.look().is_none());
        let errors = file.look().expect("something new").expect_err("broken");
        assert!(errors[0].contains("shedulerName"), "{errors:?}");
        assert!(file.look().is_none(), "said once");
        fs::remove_file(&path).expect("removed");
        assert!(file.look().is_none());
        assert!(file.look().is_some_and(|it| it.is_err()) && file.look().is_none());
        fs::write(&path, text("two")).expect("written");
        assert!(file.look().is_none());
        assert_eq!(name(file.look()), "two");
    }

    #[test]
    fn links_of_a_config_map_are_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["one", "two"] {
            fs::create_dir(at(name)).expect("a folder");
            fs::write(at(name).join("capstan.yaml"), text(name)).expect("written");
        }
        symlink("one", at("..data")).expect("a link");
        symlink("..data/capstan.yaml", at("capstan.yaml")).expect("a link");
        let (mut file, _) = ConfigFile::open(at("capstan.yaml")).expect("usable");
        symlink("two", at("..next")).expect("a link");
        fs::rename(at("..next"), at("..data")).expect("swapped");
        assert!(file.look().is_none());
        assert_eq!(name(file.look()), "two");
    }
}
