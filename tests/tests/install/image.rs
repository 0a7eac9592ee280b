//! The program of the Dockerfile, built by the Dockerfile's own command and run as the image
//! would run it: nothing beside it but what a pod gets mounted, a user without a name or a right,
//! and nothing that it could write to.
//!
//! There is no container engine here: that the image itself is put together, pulled and started
//! is not proven. Only root may change the root folder and the user; whoever else runs this test
//! runs the program as themselves, in a folder that is as read-only.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use capstan_tests::cluster::{Capstan, ControlPlane};
use serde_json::Value;

use crate::scene;
use crate::setup::{NAMESPACE, SOON, arguments, below, cluster, deployed, mount, path, root};

/// What a pod finds of its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A name of every API server that its certificate has.
const NAME: &str = "kubernetes.default.svc";
/// The only file of the image.
const PROGRAM: &str = "/capstan";

/// A line of the Dockerfile that begins so, with those that continue it.
fn line(begins: &str, has: &str) -> String {
    let text = fs::read_to_string(root().join("Dockerfile")).expect("a Dockerfile");
    let joined = text.replace("\\\n", " ");
    let mut found = joined.lines().filter_map(|line| line.strip_prefix(begins));
    found.find(|line| line.contains(has)).expect("the Dockerfile has it").trim().to_owned()
}

/// Runs the Dockerfile's build command, with this test's target folder; the program comes to
/// `to`. What cargo says is on this test's own stderr: it takes minutes the first time.
fn build(to: &Path) {
    let here = env::current_exe().expect("this program");
    let target = here.ancestors().nth(3).expect("target/debug/deps/install");
    let command = line("RUN ", "cargo build");
    let copies = format!(" {PROGRAM}");
    let command = command.strip_suffix(&copies).expect("it ends with where the program goes");
    let mut call = Command::new("sh");
    call.args(["-e", "-c", &format!("{command} \"$OUT\"")]).current_dir(root());
    // What cargo told this test about itself would make it build other things anew.
    let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_ENCODED_RUSTFLAGS", "LD_LIBRARY_PATH"];
    for (name, _) in env::vars_os() {
        if ours.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            call.env_remove(name);
        }
    }
    let status = call.env("CARGO_TARGET_DIR", target).env("OUT", to).status();
    let status = status.expect("a shell");
    assert!(status.success(), "{status}: {command}");
}

/// Little-endian numbers of an ELF file.
struct Elf(Vec<u8>);

impl Elf {
    fn number(&self, at: usize, bytes: usize) -> usize {
        let read = self.0[at..at + bytes].iter().rev();
        read.fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    }

    /// Kind, offset and size of all segments.
    fn segments(&self) -> Vec<(usize, usize, usize)> {
        assert_eq!(self.0[..6], *b"\x7fELF\x02\x01", "an ELF file of 64 bits, little-endian");
        let (first, size, count) = (self.number(32, 8), self.number(54, 2), self.number(56, 2));
        let starts = (0..count).map(|at| first + at * size);
        let read = |at| (self.number(at, 4), self.number(at + 8, 8), self.number(at + 32, 8));
        starts.map(read).collect()
    }

    /// Whether it needs a loader, and how many libraries.
    fn needs(&self) -> (bool, usize) {
        const LOADED: usize = 1;
        const DYNAMIC: usize = 2;
        const LOADER: usize = 3;
        const LIBRARY: usize = 1;
        let segments = self.segments();
        assert!(segments.iter().any(|(kind, ..)| *kind == LOADED), "a program has code");
        let dynamic = segments.iter().filter(|(kind, ..)| *kind == DYNAMIC);
        let entries = dynamic.flat_map(|(_, from, size)| (*from..from + size).step_by(16));
        let libraries = entries.filter(|at| self.number(*at, 8) == LIBRARY).count();
        (segments.iter().any(|(kind, ..)| *kind == LOADER), libraries)
    }
}

/// Every path below a folder with what would change if it were written to.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (u32, u64, i64, i64)> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        let is = fs::metadata(&path).expect("it is there");
        if is.is_dir() {
            let listed = fs::read_dir(&path).expect("listed");
            open.extend(listed.map(|entry| entry.expect("an entry").path()));
        }
        all.insert(path, (is.mode(), is.size(), is.mtime(), is.mtime_nsec()));
    }
    all
}

/// Takes the right to write from everybody.
fn seal(folder: &Path) {
    for (path, (mode, ..)) in everything(folder) {
        let mode = mode & 0o111 | 0o444;
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its owner may");
    }
}

/// Lets it be removed again, by who is not root too.
fn unseal(folder: &Path) {
    for path in everything(folder).into_keys().filter(|path| path.is_dir()) {
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("its owner may");
    }
}

/// The file system of the container: the image, and what the kubelet mounts.
fn container(cluster: &ControlPlane, deployment: &Value, program: &Path) -> PathBuf {
    let folder = cluster.folder().join("container");
    mount(cluster, deployment, &folder);
    let account = below(&folder, ACCOUNT);
    fs::create_dir_all(&account).expect("a folder");
    let token = cluster.token_of_service_account(NAMESPACE, "capstan").expect("a token");
    for (file, text) in [("token", token.as_str()), ("namespace", NAMESPACE)] {
        fs::write(account.join(file), text).expect("written");
    }
    fs::copy(cluster.authority(), account.join("ca.crt")).expect("copied");
    fs::write(below(&folder, "/etc/hosts"), format!("127.0.0.1 {NAME}\n")).expect("written");
    // By name, as a kubeconfig may have it: names are looked up by the program itself.
    let text = fs::read_to_string(cluster.kubeconfig()).expect("a kubeconfig");
    let authority = cluster.authority().display().to_string();
    let text = text.replace("127.0.0.1", NAME);
    let text = text.replace(&authority, &format!("{ACCOUNT}/ca.crt"));
    fs::write(below(&folder, "/kubeconfig"), text).expect("written");
    fs::copy(program, below(&folder, PROGRAM)).expect("copied");
    seal(&folder);
    folder
}

/// The program in its container, for root; else the program.
fn call(cluster: &ControlPlane, folder: &Path) -> Command {
    let mut call = if rustix::process::geteuid().is_root() {
        let mut call = Command::new("chroot");
        call.arg(format!("--userspec={}", line("USER ", ":"))).arg(folder).arg(PROGRAM);
        call
    } else {
        Command::new(below(folder, PROGRAM))
    };
    let url = cluster.server_url();
    let (_, port) = url.rsplit_once(':').expect("a port");
    call.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", port);
    call.env_remove("KUBECONFIG").current_dir(folder);
    call
}

/// Starts it with the arguments of the Deployment. Only root can give it the paths of a pod.
fn start(cluster: &ControlPlane, deployment: &Value, folder: &Path) -> Capstan {
    let mut call = call(cluster, folder);
    let is_root = rustix::process::geteuid().is_root();
    for word in arguments(deployment) {
        match word.strip_prefix("--config=") {
            Some(path) if !is_root => {
                call.arg(format!("--config={}", below(folder, path).display()))
            }
            _ => call.arg(word),
        };
    }
    if !is_root {
        let kubeconfig = cluster.kubeconfig_of_service_account(NAMESPACE, "capstan");
        call.env("KUBECONFIG", kubeconfig.expect("a token"));
    }
    cluster.capstan_called("capstan-image", call, folder).expect("started")
}

/// A line of what the kernel says of a process.
fn kernel_says(pid: u32, what: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(what)).expect("a line of it");
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_image_s_program_needs_nothing_and_runs_as_nobody() {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let built = below(elsewhere.path(), PROGRAM);
    build(&built);
    let program = fs::read(&built).expect("built");
    assert_eq!(Elf(program).needs(), (false, 0), "a static program needs no loader, no library");
    let other = fs::read(env::current_exe().expect("this program")).expect("read");
    let (loader, libraries) = Elf(other).needs();
    assert!(loader && libraries > 0, "this program is an ordinary one, and is told apart");

    let cluster = cluster(&scene::nodes());
    cluster.kubectl(&["apply", "--server-side", "-k", &path("manifests")]).expect("applied");
    let (deployment, _) = deployed(&cluster, NAMESPACE);
    let folder = container(&cluster, &deployment, &built);
    let before = everything(&folder);

    let mut capstan = start(&cluster, &deployment, &folder);
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let (pid, user) = (capstan.process.pid(), line("USER ", ":"));
    let (user, _) = user.split_once(':').expect("user and group");
    if rustix::process::geteuid().is_root() {
        assert_eq!(kernel_says(pid, "Uid:"), [user; 4]);
        assert_eq!(kernel_says(pid, "Gid:"), [user; 4]);
        assert_eq!(kernel_says(pid, "Groups:"), [""; 0]);
    }
    assert_eq!(kernel_says(pid, "CapEff:"), ["0000000000000000"]);

    cluster.apply(scene::QUEUES).expect("applied");
    let gang = scene::Pods { name: "gang", queue: "open", class: "low", gpus: 2, runs_for: None };
    cluster.apply(&gang.job(4).to_string()).expect("applied");
    scene::run(&cluster, "gang-", 4);
    if rustix::process::geteuid().is_root() {
        let words = ["explain", "workload/gang", "-n", "team", "--kubeconfig=/kubeconfig"];
        let said = call(&cluster, &folder).args(words).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = format!("{}{}", text(&said.stdout), text(&said.stderr));
        assert!(said.contains("team/gang") && said.contains("open-0"), "{said}");
    }
    assert_eq!(capstan.process.end(SOON).expect("it ends"), 0);
    assert!(!crate::rights::asked(&cluster, NAMESPACE).is_empty());
    assert_eq!(everything(&folder), before, "it writes nothing");
    unseal(&folder);
}
