//! The playground plays to its end, keeps to 100 columns, and leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Long enough for a busy machine: alone it takes about a minute.
const PLAYED: Duration = Duration::from_secs(300);

/// Plays until the output has a text, then does what Ctrl-C does; the output.
fn played_until(text: &str) -> (String, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let out = fs::File::create(&path).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_playground"))
        .stdin(Stdio::null())
        .stderr(out.try_clone().expect("the same file"))
        .stdout(out)
        .spawn()
        .expect("started");
    let read = || fs::read_to_string(&path).expect("its output");
    let begun = Instant::now();
    while !read().contains(text) {
        let ended = child.try_wait().expect("watched");
        assert!(ended.is_none() && begun.elapsed() < PLAYED, "{ended:?}\n{}", read());
        thread::sleep(Duration::from_millis(200));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("told");
    let code = child.wait().expect("it ends").code();
    assert_eq!(code, Some(0), "{}", read());
    let out = read();
    let kubeconfig = out.lines().find_map(|line| line.strip_prefix("export KUBECONFIG="));
    let cluster = Path::new(kubeconfig.expect("it says how to look on")).parent();
    (out.clone(), cluster.expect("a folder").to_owned())
}

#[test]
fn the_whole_play_fits_a_terminal_and_leaves_nothing() {
    let (out, cluster) = played_until("# and the sweep starts");
    assert!(!cluster.exists(), "{} is left", cluster.display());
    let wide: Vec<&str> = out
        .lines()
        .filter(|line| line.chars().count() > 100 && !line.starts_with("export "))
        .collect();
    assert_eq!(wide, [""; 0]);
    for act in ["\n1  ", "\n2  ", "\n3  ", "\n4  ", "\n5  ", "\n6  "] {
        assert!(out.contains(act), "{act:?} in\n{out}");
    }
    for says in ["Queued", "Suspended", "Complete", "preempted by", "WHAT WOULD START IT"] {
        assert!(out.contains(says), "{says:?} in\n{out}");
    }
    assert!(!out.contains("Failed") && !out.contains('\u{1b}'), "{out}");
}

#[test]
fn it_can_be_ended_at_any_time() {
    let (out, cluster) = played_until("To look on");
    assert!(!cluster.exists() && !out.contains("error"), "{out}");
}
