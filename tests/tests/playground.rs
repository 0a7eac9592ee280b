//! The playground plays to its end, keeps to 100 columns, and leaves nothing behind.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Long enough for a busy machine: alone it takes about a minute.
const PLAYED: Duration = Duration::from_secs(300);

/// Plays until the output has a text, and looks on from another terminal if that is wanted; then
/// does what Ctrl-C does. The output, and the cluster's folder.
fn played_until(text: &str, look_on: bool) -> (String, PathBuf) {
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
    if look_on {
        looks(&read());
    }
    let ended = child.try_wait().expect("watched");
    assert!(ended.is_none(), "it stays until it is told to end: {ended:?}\n{}", read());
    kill_process(Pid::from_child(&child), Signal::INT).expect("told");
    let code = child.wait().expect("it ends").code();
    assert_eq!(code, Some(0), "{}", read());
    let out = read();
    let kubeconfig = exported(&out, "KUBECONFIG");
    let cluster = Path::new(&kubeconfig).parent().expect("a folder").to_owned();
    let mark = cluster.to_str().expect("UTF-8");
    let left: Vec<String> = command_lines().filter(|line| line.contains(mark)).collect();
    assert_eq!(left, [""; 0], "processes are left");
    (out, cluster)
}

/// The value of a variable that it says to export.
fn exported(out: &str, name: &str) -> String {
    let start = format!("export {name}=");
    let line = out.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {start} in\n{out}")).trim_matches('"').to_owned()
}

/// What it prints for another terminal works there, and still does after a moment.
fn looks(out: &str) {
    let path = exported(out, "PATH").replace("$PATH", &env::var("PATH").unwrap_or_default());
    let mut call = Command::new("sh");
    call.args(["-c", "sleep 2; kubectl get wl,cq,lq -A"]);
    call.env("KUBECONFIG", exported(out, "KUBECONFIG")).env("PATH", path);
    let said = call.output().expect("a shell");
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}\n{out}");
}

/// Command lines of all processes.
fn command_lines() -> impl Iterator<Item = String> {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let line = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).ok();
    processes.filter_map(line).map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
}

#[test]
fn the_whole_play_fits_a_terminal_and_leaves_nothing() {
    let (out, cluster) = played_until("# and the sweep starts", true);
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
    let (out, cluster) = played_until("To look on", false);
    assert!(!cluster.exists() && !out.contains("error"), "{out}");
}
