//! Who is compared: each a process of its own, started when it is its turn, with all processor
//! time that it used.

use std::env;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{Capstan, Part, Process, Result, Trouble, capstan_config};

use super::gate::{self, Gate};
use super::raw;
use super::scene::Scene;

/// First argument that makes this program the raw binder; the next is a kubeconfig.
pub const AS_RAW: &str = "as-raw-binder";
/// The same, with all watches that Capstan has.
pub const AS_WATCHING: &str = "as-watching-raw-binder";
/// First argument that makes this program Capstan; the next are Capstan's own.
pub const AS_CAPSTAN: &str = "as-capstan";
/// Ticks of a second in what the kernel tells of processor time, on every Linux.
const TICKS: f64 = 100.0;
/// How long a process may take to end in good order.
const END_WITHIN: Duration = Duration::from_secs(60);

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Capstan's client, which decides nothing and watches nothing.
    Raw,
    /// The same beside the watches that Capstan has.
    Watching,
    /// Capstan.
    Capstan,
    /// kube-scheduler.
    Kube,
}

impl Who {
    /// What it is called in the lines.
    pub fn name(self) -> &'static str {
        match self {
            Who::Raw => "raw-without-watches",
            Who::Watching => "raw-with-watches",
            Who::Capstan => "capstan",
            Who::Kube => "kube-scheduler",
        }
    }

    /// What pods name it by.
    pub fn scheduler_name(self) -> &'static str {
        match self {
            Who::Raw | Who::Watching => raw::NAME,
            Who::Capstan => "capstan",
            Who::Kube => "default-scheduler",
        }
    }

    /// The lease that it waits for.
    pub fn gate(self) -> Gate {
        Gate(match self {
            Who::Raw | Who::Watching => raw::NAME,
            Who::Capstan => "capstan",
            Who::Kube => "kube-scheduler",
        })
    }

    /// Starts it.
    pub fn start(self, scene: &mut Scene) -> Result<Running> {
        let this = env::current_exe().map_err(|e| Trouble::new(format!("this program: {e}")))?;
        let mut call = Command::new(this);
        match self {
            Who::Raw | Who::Watching => {
                call.arg(if self == Who::Raw { AS_RAW } else { AS_WATCHING });
                call.arg(scene.kubeconfig());
                Ok(Running::Raw(scene.plane.spawn("raw-binder", &call)?))
            }
            Who::Capstan => {
                let config = scene.plane.folder().join("capstan.yaml");
                let says = |e| Trouble::new(format!("{}: {e}", config.display()));
                let lease = format!("leaderElection: {{resourceNamespace: {}}}", gate::NAMESPACE);
                fs::write(&config, capstan_config(&lease)).map_err(says)?;
                call.args([AS_CAPSTAN, "run", "--config"]).arg(&config);
                call.arg("--kubeconfig").arg(scene.kubeconfig());
                let capstan = scene.plane.capstan_called("capstan", call, &config)?;
                Ok(Running::Capstan(capstan))
            }
            Who::Kube => {
                scene.plane.start_again(Part::Scheduler)?;
                Ok(Running::Kube)
            }
        }
    }
}

/// In which order so many contenders take their turns in a run: over as many runs as there are of
/// them everybody comes once at each place, and once right after each other one (a Williams
/// design; for an even number), so that nobody always follows the same one.
pub fn order(contenders: usize, run: usize) -> Vec<usize> {
    let zigzag = |at: usize| if at % 2 == 1 { at.div_ceil(2) } else { contenders - at / 2 };
    (0..contenders).map(|at| (zigzag(at) + run) % contenders).collect()
}

/// A contender that runs.
pub enum Running {
    /// The raw binder.
    Raw(Process),
    /// Capstan.
    Capstan(Capstan),
    /// kube-scheduler, which the cluster keeps.
    Kube,
}

impl Running {
    fn process<'a>(&'a mut self, scene: &'a mut Scene) -> Result<&'a mut Process> {
        match self {
            Running::Raw(process) => Ok(process),
            Running::Capstan(capstan) => Ok(&mut capstan.process),
            Running::Kube => scene.plane.process(Part::Scheduler),
        }
    }

    /// Fails with the end of its log if it does not run any more.
    pub fn check(&mut self, scene: &mut Scene) -> Result<()> {
        let process = self.process(scene)?;
        if process.runs() { Ok(()) } else { Err(process.trouble("ended")) }
    }

    /// Waits until it stands by for its lease, all read and nothing left to do.
    pub fn wait_at_gate(&mut self, scene: &mut Scene) -> Result<()> {
        if let Running::Capstan(capstan) = self {
            capstan.wait_until(&scene.plane, "standing by")?;
        }
        // The others do not say when they have read everything: they are idle then. What has only
        // just been started is idle, too.
        thread::sleep(LOOK);
        let mut calm = 0;
        for _ in 0..LOOKS_MAX {
            self.check(scene)?;
            let before = seconds_of_all(scene, self)?;
            thread::sleep(LOOK);
            let now = seconds_of_all(scene, self)?;
            calm = if is_calm(&before, &now) { calm + 1 } else { 0 };
            if calm == CALM_LOOKS {
                return Ok(());
            }
        }
        Err(Trouble::new("a contender that stands by did not calm down within a minute"))
    }

    /// Waits until it would take work at once.
    pub fn wait_until_ready(&mut self, scene: &Scene) -> Result<()> {
        match self {
            Running::Capstan(capstan) => capstan.wait_until(&scene.plane, "leading"),
            // It says nothing of itself; reading a few hundred nodes takes it less.
            Running::Raw(_) | Running::Kube => {
                std::thread::sleep(Duration::from_secs(3));
                Ok(())
            }
        }
    }

    /// All processor time that it used, in seconds.
    pub fn processor_seconds(&mut self, scene: &mut Scene) -> Result<f64> {
        seconds_of(self.process(scene)?.pid())
    }

    /// Ends it.
    pub fn stop(self, scene: &mut Scene) -> Result<()> {
        match self {
            Running::Raw(mut process) => process.kill(),
            Running::Capstan(mut capstan) => drop(capstan.process.end(END_WITHIN)?),
            Running::Kube => scene.plane.kill(Part::Scheduler)?,
        }
        Ok(())
    }
}

/// Processor time of the contender, the servers and this program.
pub fn seconds_of_all(
    scene: &mut Scene,
    running: &mut Running,
) -> Result<Vec<(&'static str, f64)>> {
    let mut all = vec![("contender", running.processor_seconds(scene)?)];
    all.extend(seconds_of_servers(scene)?);
    Ok(all)
}

/// Processor time of the servers that run and of this program, in seconds, by name.
pub fn seconds_of_servers(scene: &mut Scene) -> Result<Vec<(&'static str, f64)>> {
    let mut all = vec![("bench", seconds_of(std::process::id())?)];
    for (name, part) in [
        ("etcd", Part::Etcd),
        ("api_server", Part::ApiServer),
        ("controllers", Part::ControllerManager),
        ("kwok", Part::Kwok),
    ] {
        // A bare cluster has neither controllers nor kwok.
        if let Ok(process) = scene.plane.process(part) {
            all.push((name, seconds_of(process.pid())?));
        }
    }
    Ok(all)
}

/// How long the servers are looked at for being calm.
const LOOK: Duration = Duration::from_millis(300);
/// Part of one processor that calm servers use at most.
const CALM: f64 = 0.1;
/// So many calm looks in a row at a contender that stands by.
const CALM_LOOKS: usize = 3;
/// Looks at servers that do not calm down: this is no measure of anything.
const LOOKS_MAX: usize = 200;

/// Waits until the servers do next to nothing. What a turn leaves behind, garbage above all, would
/// be collected later, and whoever comes next would pay for it: it is collected first.
pub fn calm(scene: &mut Scene) -> Result<()> {
    scene.collect_garbage()?;
    for _ in 0..LOOKS_MAX {
        let before = seconds_of_servers(scene)?;
        thread::sleep(LOOK);
        if is_calm(&before, &seconds_of_servers(scene)?) {
            return Ok(());
        }
    }
    Err(Trouble::new("the servers did not calm down within a minute"))
}

/// Whether next to nothing was used between two looks.
fn is_calm(before: &[(&'static str, f64)], now: &[(&'static str, f64)]) -> bool {
    let sum = |all: &[(&'static str, f64)]| all.iter().map(|it| it.1).sum::<f64>();
    sum(now) - sum(before) <= CALM * LOOK.as_secs_f64()
}

/// What that became since.
pub fn seconds_since(
    scene: &mut Scene,
    before: &[(&'static str, f64)],
) -> Result<Vec<(&'static str, f64)>> {
    let mut all = seconds_of_servers(scene)?;
    all.iter_mut().zip(before).for_each(|((_, now), (_, before))| *now -= before);
    Ok(all)
}

fn seconds_of(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(|e| Trouble::new(format!("{path}: {e}")))?;
    ticks(&text).map(|ticks| ticks / TICKS).ok_or_else(|| Trouble::new(format!("{path}?")))
}

/// User and system time of `/proc/PID/stat`: the 14th and 15th field, counted behind the name,
/// which may have anything in it.
fn ticks(stat: &str) -> Option<f64> {
    let rest = stat.rsplit_once(") ")?.1;
    let mut fields = rest.split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_always_follows_the_same_one() {
        for contenders in [2, 4] {
            let mut pairs = std::collections::BTreeSet::new();
            let mut firsts = std::collections::BTreeSet::new();
            for run in 0..contenders {
                let order = order(contenders, run);
                firsts.insert(order[0]);
                pairs.extend(order.windows(2).map(|pair| (pair[0], pair[1])));
            }
            assert_eq!(firsts.len(), contenders);
            assert_eq!(pairs.len(), contenders * (contenders - 1), "{pairs:?}");
        }
    }

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 30 12 0 0 20 0 9 0 55 1 2 3\n";
        assert_eq!(ticks(stat), Some(42.0));
        assert_eq!(ticks("7 nothing"), None);
    }
}
