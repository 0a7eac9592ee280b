//! Go programs of a module, built once into a cache of this user.
//!
//! The cache key is a hash of the module's `go.mod` and `go.sum`, the toolchain and the flags, so
//! a change of any of them builds anew and nothing else does. Programs are built beside and the
//! whole folder is renamed at the end: what is there under its key is whole. A locked file
//! keeps a second builder waiting, who says so. Deleting the cache is always safe.
//!
//! Progress goes to the process's own stderr, past the test harness, which would hold it back.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ring::digest;

use super::process::last_lines;
use super::trouble::{Result, Trouble};

/// How often a long build says that it goes on.
const STILL: Duration = Duration::from_secs(20);
/// How much of the hash names a folder: 64 bits, to tell a handful of versions apart.
const KEY_BYTES: usize = 8;

/// What to build.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// What people call it.
    pub name: String,
    /// The folder of `go.mod` and `go.sum`.
    pub module: PathBuf,
    /// Programs: file name, and the package that it is built from.
    pub programs: Vec<(String, String)>,
    /// Flags for the linker.
    pub linker_flags: String,
    /// Where the `go` command is looked for, instead of this process's PATH.
    pub search_path: Option<PathBuf>,
    /// Where progress is told, instead of stderr.
    pub listener: Option<Sender<String>>,
}

impl Recipe {
    /// The folder with all programs, below `cache`; builds what is not there.
    pub fn built(&self, cache: &Path) -> Result<PathBuf> {
        let key = self.key()?;
        let done = cache.join(&key);
        if self.whole(&done) {
            return Ok(done);
        }
        fs::create_dir_all(cache).map_err(Trouble::at(cache))?;
        let _held = self.lock(&cache.join(format!("{key}.lock")))?;
        // Somebody else may have built it meanwhile.
        if !self.whole(&done) {
            self.build(cache, &key, &done)?;
        }
        Ok(done)
    }

    fn whole(&self, folder: &Path) -> bool {
        self.programs.iter().all(|(file, _)| folder.join(file).is_file())
    }

    fn build(&self, cache: &Path, key: &str, done: &Path) -> Result<()> {
        let begun = Instant::now();
        let count = self.programs.len();
        let to = done.display();
        self.say(&format!("{}: built once, with Go, into {to}", self.name));
        let beside = cache.join(format!("{key}.building"));
        for folder in [&beside, done] {
            if folder.exists() {
                fs::remove_dir_all(folder).map_err(Trouble::at(folder))?;
            }
        }
        fs::create_dir_all(&beside).map_err(Trouble::at(&beside))?;
        let log = cache.join(format!("{key}.log"));
        for (at, (file, package)) in self.programs.iter().enumerate() {
            let title = format!("{}: {file} ({} of {count})", self.name, at + 1);
            self.build_one(&title, package, &beside.join(file), &log)?;
        }
        fs::rename(&beside, done).map_err(Trouble::at(done))?;
        self.say(&format!("{}: ready after {} s", self.name, begun.elapsed().as_secs()));
        Ok(())
    }

    fn build_one(&self, title: &str, package: &str, to: &Path, log: &Path) -> Result<()> {
        self.say(title);
        let out = File::create(log).map_err(Trouble::at(log))?;
        let begun = Instant::now();
        let status = self.still(title, begun, || {
            self.go()
                .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags"])
                .arg(&self.linker_flags)
                .arg("-o")
                .args([to.as_os_str(), package.as_ref()])
                .stdout(Stdio::null())
                .stderr(out)
                .status()
        });
        let status = status.map_err(|error| self.no_go(&error))?;
        if status.success() && to.is_file() {
            self.say(&format!("{title}: {} s", begun.elapsed().as_secs()));
            return Ok(());
        }
        Err(Trouble::new(format!(
            "{title}: `go build {package}` failed in {}; the end of {}:\n{}",
            self.module.display(),
            log.display(),
            last_lines(log)
        )))
    }

    /// The `go` command in the module, without what a user's workspace would add; without cgo,
    /// so that no C compiler is needed and programs run wherever the cache is mounted.
    fn go(&self) -> Command {
        let name = Path::new("go");
        let program = self.search_path.as_ref().map_or(name.to_owned(), |path| path.join(name));
        let mut command = Command::new(program);
        command.current_dir(&self.module).env("GOWORK", "off").env("CGO_ENABLED", "0");
        command.stdin(Stdio::null());
        command
    }

    fn key(&self) -> Result<String> {
        let toolchain = self.go().args(["env", "GOVERSION", "GOOS", "GOARCH"]).output();
        let toolchain = toolchain.map_err(|error| self.no_go(&error))?;
        if !toolchain.status.success() {
            let says = String::from_utf8_lossy(&toolchain.stderr).into_owned();
            return Err(self.no_go(&io::Error::other(says.trim().to_owned())));
        }
        let mut hash = digest::Context::new(&digest::SHA256);
        for file in ["go.mod", "go.sum"] {
            let path = self.module.join(file);
            let bytes = fs::read(&path).map_err(Trouble::at(&path))?;
            hash.update(&bytes.len().to_be_bytes());
            hash.update(&bytes);
        }
        hash.update(&toolchain.stdout);
        hash.update(self.linker_flags.as_bytes());
        for (file, package) in &self.programs {
            hash.update(format!("{file}={package}\n").as_bytes());
        }
        let digest = hash.finish();
        Ok(digest.as_ref()[..KEY_BYTES].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn no_go(&self, error: &io::Error) -> Trouble {
        let names: Vec<&str> = self.programs.iter().map(|(file, _)| file.as_str()).collect();
        Trouble::new(format!(
            "{} needs the Go toolchain, {} or newer, to be built once, and `go` cannot be run: \
             {error}. Install Go and have `go` on PATH, or set KUBEBUILDER_ASSETS to a folder \
             with {}",
            self.name,
            required_go(&self.module).unwrap_or("any version".to_owned()),
            names.join(", ")
        ))
    }

    fn lock(&self, path: &Path) -> Result<File> {
        let file = File::options().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(Trouble::at(path))?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(Trouble::at(path)(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let title = format!("{}: another process builds them; waiting", self.name);
        self.say(&title);
        self.still(&title, Instant::now(), || file.lock()).map_err(Trouble::at(path))?;
        Ok(file)
    }

    /// Does something slow, and says now and then that it goes on.
    fn still<T>(&self, title: &str, begun: Instant, slow: impl FnOnce() -> T) -> T {
        let (done, wait) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                while wait.recv_timeout(STILL) == Err(RecvTimeoutError::Timeout) {
                    self.say(&format!("{title}: {} s so far", begun.elapsed().as_secs()));
                }
            });
            let result = slow();
            drop(done);
            result
        })
    }

    fn say(&self, line: &str) {
        // Whoever listened may be gone; then nobody wants to know.
        let _ = match &self.listener {
            Some(listener) => listener.send(line.to_owned()).map_err(io::Error::other),
            None => writeln!(io::stderr(), "{line}"),
        };
    }
}

/// The version in `go.mod`.
fn required_go(module: &Path) -> Option<String> {
    let text = fs::read_to_string(module.join("go.mod")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("go ")).map(|version| version.trim().to_owned())
}

/// The cache of this user.
pub fn user_cache() -> Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache = cache.ok_or_else(|| Trouble::new("no cache folder: set HOME or XDG_CACHE_HOME"))?;
    Ok(cache.join("capstan").join("controlplane"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with one program that prints a word, and needs nothing from elsewhere.
    fn recipe(folder: &Path, word: &str) -> Recipe {
        let module = folder.join("module");
        fs::create_dir_all(&module).expect("a folder");
        let main = format!("package main\n\nfunc main() {{ println(\"{word}\") }}\n");
        for (file, text) in
            [("go.mod", "module example\n\ngo 1.26.0\n"), ("go.sum", ""), ("main.go", &main)]
        {
            fs::write(module.join(file), text).expect("a file");
        }
        Recipe {
            name: "words".to_owned(),
            module,
            programs: vec![("word".to_owned(), "example".to_owned())],
            linker_flags: "-s".to_owned(),
            search_path: None,
            listener: Some(channel().0),
        }
    }

    fn runs(program: &Path) -> String {
        let out = Command::new(program).output().expect("it runs");
        String::from_utf8(out.stderr).expect("text").trim().to_owned()
    }

    #[test]
    fn built_once_by_several_at_once_and_again_when_the_key_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        let mut recipe = recipe(folder.path(), "first");
        let (listener, said) = channel();
        recipe.listener = Some(listener);
        let built: Vec<PathBuf> = thread::scope(|scope| {
            let builders: Vec<_> = (0..3).map(|_| scope.spawn(|| recipe.built(&cache))).collect();
            builders.into_iter().map(|b| b.join().expect("no panic").expect("built")).collect()
        });
        assert!(built.iter().all(|path| *path == built[0]));
        assert_eq!(runs(&built[0].join("word")), "first");
        let written = |path: &Path| fs::metadata(path).expect("there").modified().expect("a time");
        let before = written(&built[0].join("word"));
        let said: Vec<String> = said.try_iter().collect();
        let count = said.iter().filter(|line| *line == "words: word (1 of 1)").count();
        assert_eq!(count, 1, "{said:?}");
        assert_eq!(recipe.built(&cache).expect("cached"), built[0]);
        assert_eq!(written(&built[0].join("word")), before, "not built again");

        fs::write(recipe.module.join("go.mod"), "module example\n\ngo 1.26\n").expect("written");
        assert_ne!(recipe.built(&cache).expect("built"), built[0], "another key");
    }

    #[test]
    fn who_waits_for_another_builder_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        fs::create_dir_all(&cache).expect("a folder");
        let mut recipe = recipe(folder.path(), "fifth");
        let (listener, said) = channel();
        recipe.listener = Some(listener);
        let lock = cache.join(format!("{}.lock", recipe.key().expect("a key")));
        let held = recipe.lock(&lock).expect("free");
        thread::scope(|scope| {
            let builder = scope.spawn(|| recipe.built(&cache));
            let first = said.recv().expect("a line");
            assert_eq!(first, "words: another process builds them; waiting");
            assert!(said.recv_timeout(Duration::from_millis(100)).is_err(), "it waits");
            drop(held);
            builder.join().expect("no panic").expect("built");
        });
    }

    #[test]
    fn what_a_killed_builder_left_is_no_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        let recipe = recipe(folder.path(), "second");
        let key = recipe.key().expect("a key");
        for half in [format!("{key}.building"), key.clone()] {
            fs::create_dir_all(cache.join(&half)).expect("a folder");
            fs::write(cache.join(&half).join("other"), "half").expect("a file");
        }
        let built = recipe.built(&cache).expect("built");
        assert_eq!(built, cache.join(&key));
        assert_eq!(runs(&built.join("word")), "second");
        assert!(!built.join("other").exists());
        assert!(!cache.join(format!("{key}.building")).exists());
    }

    #[test]
    fn a_failing_build_quotes_go_and_leaves_no_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        let recipe = recipe(folder.path(), "third");
        fs::write(recipe.module.join("main.go"), "package main\n\nfunc main() { x }\n")
            .expect("written");
        let says = recipe.built(&cache).unwrap_err().to_string();
        assert!(says.contains("words: word (1 of 1): `go build example` failed"), "{says}");
        assert!(says.contains("undefined: x"), "{says}");
        assert!(!cache.join(recipe.key().expect("a key")).exists());
    }

    #[test]
    fn without_go_it_says_what_to_install() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut recipe = recipe(folder.path(), "fourth");
        recipe.search_path = Some(folder.path().join("nothing"));
        let says = recipe.built(&folder.path().join("cache")).unwrap_err().to_string();
        let start = "words needs the Go toolchain, 1.26.0 or newer, to be built once, and `go` \
                     cannot be run: No such file or directory";
        assert!(says.starts_with(start), "{says}");
        assert!(says.ends_with("or set KUBEBUILDER_ASSETS to a folder with word"), "{says}");
    }
}
