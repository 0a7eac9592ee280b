//! Jobs, a queue, the Job controller and pods that run: what people submit.
//!
//! Contenders run and are ready, then Jobs are submitted as fast as the API server takes them; the
//! clock runs from the first pod that the Job controller made to the last bound one, and, apart,
//! from the first submission (`submitted_to_bound_s`). Capstan's Jobs name an open queue;
//! kube-scheduler's are plain. kwok runs the pods. Every run has a cluster of its own: the Job
//! controller has no past to clean up.

use std::thread;
use std::time::{Duration, Instant};

use capstan_tests::cluster::{Options, Result, Trouble};
use serde_json::{Value, json};

use super::contender::{Running, Who, order, seconds_of_servers, seconds_since};
use super::scene::{Ask, Scene};
use super::writes::Writes;

/// Two queues of one cohort: all quota is `team-b`'s, `team-a` borrows.
const QUEUES: &str = include_str!("queues.yaml");
/// What only borrows.
pub const BORROWER: &str = "team-a";
/// What owns the quota.
pub const OWNER: &str = "team-b";
/// How long a contender has for what it does after the last bind.
pub const SETTLE: Duration = Duration::from_secs(2);
/// How long binding all of it may take, and saying so.
pub const WITHIN: Duration = Duration::from_secs(300);
/// How often it is looked.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A case: Jobs into an open queue.
pub struct Submitted {
    /// Its name.
    pub name: &'static str,
    /// Nodes of eight GPUs.
    pub nodes: usize,
    /// How many Jobs.
    pub jobs: usize,
    /// Pods of each.
    pub pods: usize,
}

/// One run of one contender.
pub struct Through {
    /// Pods bound in a second, from the first that was made to the last that was bound.
    pub per_second: f64,
    /// From the first submission to the last bound pod.
    pub took: Duration,
    /// From the last bound pod until every Workload says so; who has none has nothing to say.
    pub said: Option<Duration>,
    /// Processor seconds of the contender, what it says included.
    pub processor: f64,
    /// Processor seconds of everybody else until the last pod was bound, by name.
    pub servers: Vec<(&'static str, f64)>,
    /// All writes of everybody, the Job controller and kwok included.
    pub writes: Writes,
}

/// GPUs of a node.
pub const GPUS: usize = 8;
/// A cluster in which all quota is the owner's, and as much of it as there is room.
pub fn scene(nodes: usize) -> Result<Scene> {
    let options = Options { controller_manager: true, kwok: true, ..Options::bare() };
    let scene = Scene::set(options, nodes)?;
    for team in [BORROWER, OWNER] {
        scene.plane.create_namespace(team)?;
    }
    // As much quota as there is room: what one team borrows is missing for the other.
    scene.plane.apply(&QUEUES.replace("GPUS", &(nodes * GPUS).to_string()))?;
    Ok(scene)
}

impl Submitted {
    /// Runs both as often as asked, in turns.
    pub fn run(&self, repeats: usize) -> Result<Vec<(Who, Vec<Through>)>> {
        let mut all: Vec<(Who, Vec<Through>)> =
            [Who::Capstan, Who::Kube].map(|who| (who, Vec::new())).into();
        for repeat in 0..repeats {
            for at in order(all.len(), repeat) {
                let through = self.turn(all[at].0)?;
                all[at].1.push(through);
            }
        }
        Ok(all)
    }

    fn turn(&self, who: Who) -> Result<Through> {
        let mut scene = scene(self.nodes)?;
        let mut running = who.start(&mut scene)?;
        running.wait_until_ready(&scene)?;
        let (before, idle) = (scene.writes()?, seconds_of_servers(&mut scene)?);
        let begun = Instant::now();
        scene.ask(jobs(OWNER, who, "job", self.jobs, self.pods))?;
        all_bound(&mut scene, &mut running, OWNER, self.jobs * self.pods)?;
        let (bound, writes) = (Instant::now(), scene.writes()?.since(&before));
        let servers = seconds_since(&mut scene, &idle)?;
        let said = match who {
            Who::Capstan => Some(said(&scene, self.jobs, WITHIN)?.saturating_duration_since(bound)),
            _ => None,
        };
        thread::sleep(SETTLE);
        let processor = running.processor_seconds(&mut scene)?;
        let (made, last) = scene.eye().look(|pods| {
            let made = pods.values().map(|pod| pod.made).min();
            let last = pods.values().filter_map(|pod| Some(pod.bound.as_ref()?.1)).max();
            made.zip(last).ok_or_else(|| Trouble::new("no pod was bound"))
        })?;
        running.stop(&mut scene)?;
        let per_second = (self.jobs * self.pods) as f64 / (last - made).as_secs_f64();
        Ok(Through { per_second, took: last - begun, said, processor, servers, writes })
    }
}

/// When so many Workloads were seen to say that they run.
pub fn said(scene: &Scene, workloads: usize, within: Duration) -> Result<Instant> {
    let begun = Instant::now();
    loop {
        let looked = Instant::now();
        let all = scene.plane.list("workloads.capstan.sh")?;
        let run = all.iter().filter(|it| it["status"]["state"] == "Running").count();
        if run >= workloads {
            return Ok(Instant::now());
        }
        if begun.elapsed() > within {
            let within = within.as_secs();
            let says = format!("{run} of {workloads} Workloads say that they run after {within} s");
            return Err(Trouble::new(says));
        }
        // Looking takes the machine that is looked at: most of the time nobody does.
        thread::sleep(looked.elapsed() * 4);
    }
}

/// Waits until so many pods of a team are bound.
pub fn all_bound(scene: &mut Scene, running: &mut Running, team: &str, pods: usize) -> Result<()> {
    let begun = Instant::now();
    let mut looked = begun;
    while scene.eye().bound(team) < pods {
        thread::sleep(LOOK_AGAIN);
        if looked.elapsed() > Duration::from_secs(2) {
            running.check(scene)?;
            looked = Instant::now();
        }
        if begun.elapsed() > WITHIN {
            let bound = scene.eye().bound(team);
            let says = format!("{bound} of {pods} pods of {team} are bound after 300 s");
            return Err(Trouble::new(says));
        }
    }
    Ok(())
}

/// Jobs of one team, to be made.
pub fn jobs(team: &str, who: Who, prefix: &str, count: usize, pods: usize) -> Vec<Ask> {
    let path = format!("/apis/batch/v1/namespaces/{team}/jobs");
    let job = |at| Ask::Make(path.clone(), job(team, who, &format!("{prefix}-{at}"), pods));
    (0..count).map(job).collect()
}

fn job(team: &str, who: Who, name: &str, pods: usize) -> Value {
    let amounts = json!({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1});
    let labels = if who == Who::Capstan { json!({"capstan.sh/queue": "gpus"}) } else { json!({}) };
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": team, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "template": {"spec": {
                "schedulerName": who.scheduler_name(),
                "restartPolicy": "Never",
                "containers": [{
                    "name": "main",
                    "image": "training",
                    "resources": {"requests": amounts, "limits": amounts},
                }],
            }},
        },
    })
}
