//! What reading a dump costs in memory: objects as `kubectl get -o json` and `-o yaml` print them,
//! most of whose bytes are of no use.
//!
//! One test in a process of its own, so that the peak is its alone. The bound is a part of the
//! file: what is kept of an object stays, the text of it does not.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use capstan::config::Config;
use capstan::read::read_files;
use capstan_core::model::input::Input;

/// Objects in a dump.
const PODS: usize = 15_000;
/// Bytes of `managedFields` and the like in each.
const BALLAST: usize = 20_000;
/// Peak of memory above what was there before, at most: a tenth of the file.
const PART: u64 = 10;

#[test]
fn a_dump_of_300_megabytes_is_read_in_a_part_of_that_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, write) in [("dump.json", json as fn(&mut dyn Write)), ("dump.yaml", yaml)] {
        let path = folder.path().join(name);
        written(&path, write);
        let size = path.metadata().expect("written").len();
        assert!(size > 300_000_000, "{size} bytes");
        let reset = reset_peak();
        let before = peak();
        let read = read_files(std::slice::from_ref(&path), &Config::default());
        let pods = read.expect("read").inputs.into_iter().filter(|it| matches!(it, Input::Pod(_)));
        assert_eq!(pods.count(), PODS);
        let used = peak() - before;
        assert!(used < size / PART, "{name}: {used} bytes for {size}");
        assert!(used > 1_000_000 || !reset, "{name}: {used} bytes: nothing was measured");
        std::fs::remove_file(&path).expect("removed");
    }
}

fn written(path: &Path, write: fn(&mut dyn Write)) {
    let mut file = BufWriter::new(File::create(path).expect("created"));
    write(&mut file);
    file.flush().expect("flushed");
}

fn json(out: &mut dyn Write) {
    let ballast = "f:x".repeat(BALLAST / 3);
    write!(out, r#"{{"apiVersion":"v1","kind":"List","items":["#).expect("written");
    for at in 0..PODS {
        let comma = if at == 0 { "" } else { "," };
        write!(
            out,
            r#"{comma}{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{at}","namespace":"a",
"managedFields":[{{"manager":"kubectl","fieldsV1":{{"{ballast}":{{}}}}}}]}},
"spec":{{"nodeName":"n{node}",
"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"1"}}}}}}]}},
"status":{{"phase":"Running"}}}}"#,
            node = at / 100
        )
        .expect("written");
    }
    write!(out, "]}}").expect("written");
}

fn yaml(out: &mut dyn Write) {
    let value = "f:x".repeat(BALLAST / 3);
    writeln!(out, "apiVersion: v1\nkind: List\nitems:").expect("written");
    for at in 0..PODS {
        writeln!(
            out,
            "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p{at}\n    namespace: a\n    \
             managedFields:\n    - manager: kubectl\n      operation: {value}\n  spec:\n    \
             nodeName: n{node}\n    containers:\n    - name: c\n      resources:\n        \
             requests:\n          cpu: \"1\"\n  status:\n    phase: Running",
            node = at / 100
        )
        .expect("written");
    }
}

/// Forgets the peak so far; `false`: the kernel refuses, and a file that costs less than the one
/// before it shows nothing.
fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The most memory that this process had resident, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.expect("VmHWM") * 1_024
}
