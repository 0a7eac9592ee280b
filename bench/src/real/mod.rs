//! End to end on a real control plane: `--real`.
//!
//! Capstan, the raw binder and kube-scheduler, each a process, on clusters of the testkit, in the
//! same run and seen by the same watcher. Prints a JSON line for each contender of a case, one
//! for each bound, and a verdict. Ratios between contenders and counts fail a run, and the time in
//! which lent quota has to be back, which leaves a slow machine room; other absolute figures never
//! do.
//!
//! - `burst`: pods that wait, bound as fast as can be; `jobs`: Jobs, quota and the Job controller
//!   in the loop; `reclaim`: quota taken back; `footprint`: memory of a large cluster
//!   (`answers` is the server that its Workloads are written to).
//! - `scene` is a cluster with our watcher (`eye`) and our writes; `contender` who takes turns on
//!   it, `raw` the one that decides nothing; `gate` is the lease at which they stand by until
//!   clocks start; `writes` counts what the API server was asked.
//! - `verdict` has medians and bounds.

mod answers;
mod burst;
mod contender;
mod eye;
mod footprint;
mod gate;
mod jobs;
mod raw;
mod reclaim;
mod scene;
mod verdict;
mod writes;

use std::io::{self, Write};
use std::process::ExitCode;

use capstan_tests::cluster::{Result, Trouble};
use serde_json::{Value, json};

use self::burst::Burst;
use self::contender::{AS_CAPSTAN, AS_RAW, AS_WATCHING};
use self::jobs::Submitted;
use self::reclaim::{LENT, STAGES, TAKEN_BACK};
use self::verdict::{Bound, Check};

/// Serves as one of the contenders if the program was called as one.
pub fn serve_if_called() -> Option<ExitCode> {
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    match words.get(1)?.to_str()? {
        AS_CAPSTAN => {
            let words = words.iter().take(1).chain(&words[2..]).cloned();
            let code = capstan::cli::run(words, &mut io::stdout(), &mut io::stderr());
            Some(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
        }
        named @ (AS_RAW | AS_WATCHING) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            let ended = runtime.map_err(|e| e.to_string()).and_then(|runtime| {
                let kubeconfig = words.get(2).ok_or("a kubeconfig is missing")?;
                runtime.block_on(raw::bind_all(kubeconfig.into(), named == AS_WATCHING))
            });
            let _ = writeln!(io::stderr(), "{ended:?}");
            Some(ExitCode::FAILURE)
        }
        _ => None,
    }
}

/// Everything that came out so far.
struct Told<'a> {
    out: &'a mut dyn Write,
    lines: usize,
    checks: Vec<Check>,
}

impl Told<'_> {
    fn line(&mut self, line: &Value) -> Result<()> {
        self.lines += 1;
        self.write(line)
    }

    fn write(&mut self, line: &Value) -> Result<()> {
        let told = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
        told.map_err(|e| Trouble::new(format!("nobody reads: {e}")))
    }

    fn checks(&mut self, checks: Vec<Check>) -> Result<()> {
        checks.iter().try_for_each(|check| self.write(&check.line()))?;
        self.checks.extend(checks);
        Ok(())
    }
}

/// Runs every case whose name has `only` in it and says whether every bound holds.
pub fn run(only: &str, repeats: usize, out: &mut dyn Write) -> Result<bool> {
    let mut told = Told { out, lines: 0, checks: Vec::new() };
    let wanted = |name: &str| name.contains(only);
    // Memory goes first: it must not start from what other cases left behind.
    if wanted("footprint") {
        footprint(&mut told)?;
    }
    for case in bursts().into_iter().filter(|case| wanted(&case.name())) {
        let all = case.run(repeats)?;
        for (who, runs) in &all {
            told.line(&verdict::burst_line(&case, *who, runs))?;
        }
        told.line(&verdict::without_watches(&case, &all))?;
        told.checks(verdict::burst_checks(&case, &all))?;
    }
    for case in submitted().into_iter().filter(|case| wanted(case.name)) {
        let all = case.run(repeats)?;
        for (who, runs) in &all {
            told.line(&verdict::jobs_line(&case, *who, runs))?;
        }
        told.line(&verdict::from_submission(&case, &all))?;
        told.checks(verdict::jobs_checks(&case, &all))?;
    }
    if wanted("reclaim") {
        take_back(&mut told, repeats)?;
    }
    let failed: Vec<&str> =
        told.checks.iter().filter(|it| !it.holds()).map(|it| it.name.as_str()).collect();
    let (lines, checks, whole) = (told.lines, told.checks.len(), failed.is_empty());
    let summary = json!({"summary": true, "cases": lines, "bounds": checks, "failed": failed});
    told.write(&summary)?;
    Ok(whole)
}

fn bursts() -> Vec<Burst> {
    let mut all = Vec::new();
    for nodes in [1_000, 5_000] {
        let burst = |family, pods, size, upstream| Burst { family, nodes, pods, size, upstream };
        all.push(burst("pods-5000", 5_000, 1, false));
        all.push(burst("gangs-500x8", 4_000, 8, true));
        // kube-scheduler gets these as lone pods.
        all.push(burst("gang-1000", 1_000, 1_000, false));
    }
    all
}

fn submitted() -> [Submitted; 2] {
    [
        Submitted { name: "jobs-2000x1", nodes: 300, jobs: 2_000, pods: 1 },
        Submitted { name: "jobs-250x8", nodes: 300, jobs: 250, pods: 8 },
    ]
}

fn footprint(told: &mut Told<'_>) -> Result<()> {
    let bytes = match footprint::bytes_per_pod() {
        Ok(bytes) => bytes,
        Err(why) => {
            told.line(&json!({"case": "footprint", "unsupported": why}))?;
            // What is not measured does not hold.
            u64::MAX
        }
    };
    told.line(&json!({"case": "footprint", "nodes": 15_000, "bytes_per_pod": bytes}))?;
    told.checks(vec![Check {
        name: "footprint: bytes per pod above the empty process".to_owned(),
        value: bytes as f64,
        bound: Bound::Most(footprint::MOST as f64),
        wanted: None,
    }])
}

fn take_back(told: &mut Told<'_>, repeats: usize) -> Result<()> {
    let (mut runs, mut by_hand) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        by_hand.push(reclaim::by_hand()?);
        runs.push(reclaim::run()?);
    }
    let took = verdict::spread(&runs, 1e3, |run| run.took.as_secs_f64());
    let victims: Vec<usize> = runs.iter().map(|run| run.victims).collect();
    let mut line = json!({
        "case": "reclaim",
        "who": "capstan",
        "lent_gpus": LENT,
        "taken_back_gpus": TAKEN_BACK,
        "runs": runs.len(),
        "taken_back_in_s": took,
        "victims": victims,
        "by_hand_in_s": verdict::spread(&by_hand, 1e3, |took| took.as_secs_f64()),
        "cpu_s": verdict::spread(&runs, 1e2, |run| run.processor),
        "writes": runs.last().expect("a run").writes.line(),
        "load": verdict::load(),
    });
    for (at, stage) in STAGES.iter().enumerate() {
        line["until_s"][stage] =
            verdict::spread(&runs, 1e3, |run| run.stages[at])["median"].clone();
    }
    for at in 0..runs.first().map_or(0, |run| run.servers.len()) {
        let of = verdict::spread(&runs, 1e2, |run| run.servers[at].1);
        line["servers_cpu_s"][runs[0].servers[at].0] = of["median"].clone();
    }
    told.line(&line)?;
    told.checks(verdict::reclaim_checks(&runs))
}
