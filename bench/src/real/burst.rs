//! Pods that wait, and how fast they are bound.
//!
//! All pods are there before a contender is started, so that making them takes nothing from it on
//! a machine that all share, and so that everybody has the same work from the first moment on; it
//! starts once the servers have cleaned up after that, reads everything, and stands by for its
//! lease (`gate`).
//! Rates run from when it took the lease to the last bound pod that the watcher saw, deciding
//! included. Beside it stands the same from the first bound pod on, which a process has that reads
//! all of it first; processor time is that of the whole life of the process. What Capstan says of
//! its gangs comes after their binds and is looked at apart: when all Workloads say that they run,
//! and what was written and used by then.
//! Contenders take turns on one cluster, in another order each time. No kwok here: nodes are ready
//! as they are made, and pods stay as they were bound, so that nobody else works while a contender
//! does.

use std::thread;
use std::time::{Duration, Instant};

use capstan_tests::cluster::{Options, Result, Trouble};
use serde_json::{Value, json};

use super::contender::{self, Who, order, seconds_of_all};
use super::jobs;
use super::scene::{Ask, Scene};
use super::writes::Writes;

/// Where everything is made.
const NAMESPACE: &str = "bench";
const PODS: &str = "/api/v1/namespaces/bench/pods";
const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/bench/podgroups";
const WORKLOADS: &str = "/apis/capstan.sh/v1alpha1/namespaces/bench/workloads";
/// GPUs of a node.
const GPUS: usize = 8;
/// How often the watcher is asked; times are taken when it sees, not when it is asked.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a contender has for what it does after the last bind.
const SETTLE: Duration = Duration::from_secs(1);
/// How long after that Workloads have to say that they run.
const SAID_WITHIN: Duration = Duration::from_secs(60);

/// A case.
pub struct Burst {
    /// Start of its name.
    pub family: &'static str,
    /// Nodes of eight GPUs.
    pub nodes: usize,
    /// Pods of one GPU.
    pub pods: usize,
    /// Members of a gang; 1: no gangs.
    pub size: usize,
    /// Whether kube-scheduler's gangs are used; else it gets the pods as lone ones.
    pub upstream: bool,
}

/// One run of one contender.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Pods bound in a second, from the lease to the last.
    pub per_second: f64,
    /// From the start of the process until it stood by with everything read, rounded up to looks.
    pub read: Duration,
    /// From the lease to the first bound pod.
    pub first: Duration,
    /// From the lease to the last.
    pub took: Duration,
    /// Seconds of the process.
    pub processor: f64,
    /// Seconds of everybody from the first bound pod to the last, by name.
    pub binding: Vec<(&'static str, f64)>,
    /// Until the last pod was bound.
    pub writes: Writes,
    /// Until a moment after.
    pub writes_later: Writes,
    /// When all Workloads say that they run; who has none has nothing to say.
    pub said: Option<Said>,
}

/// How it stands once every Workload of a burst says that it runs.
#[derive(Clone, Debug)]
pub struct Said {
    /// From the lease until that was seen, a moment after the last one at the earliest.
    pub took: Duration,
    /// Seconds of the process.
    pub processor: f64,
    /// Everything written by then.
    pub writes: Writes,
}

impl Burst {
    /// What `--only` selects by.
    pub fn name(&self) -> String {
        format!("{}/{}-nodes", self.family, self.nodes)
    }

    /// Gangs of two or more.
    pub fn gangs(&self) -> usize {
        if self.size > 1 { self.pods / self.size } else { 0 }
    }

    /// Runs everybody as often as asked, in turns.
    pub fn run(&self, repeats: usize) -> Result<Vec<(Who, Vec<Ran>)>> {
        let options = Options { upstream_gangs: self.upstream, elects: true, ..Options::bare() };
        let mut scene = Scene::set(options, self.nodes)?;
        scene.plane.create_namespace(NAMESPACE)?;
        let mut all: Vec<(Who, Vec<Ran>)> =
            [Who::Raw, Who::Watching, Who::Capstan, Who::Kube].map(|who| (who, Vec::new())).into();
        for repeat in 0..repeats {
            for at in order(all.len(), repeat) {
                let ran = self.turn(&mut scene, all[at].0, repeat)?;
                all[at].1.push(ran);
            }
        }
        Ok(all)
    }

    fn turn(&self, scene: &mut Scene, who: Who, repeat: usize) -> Result<Ran> {
        scene.ask(self.work(who, repeat))?;
        let there = |count: usize| move |eye: &super::eye::Eye| eye.there(NAMESPACE) == count;
        scene.until("all pods are seen", there(self.pods))?;
        contender::calm(scene)?;
        let before = scene.writes()?;

        who.gate().close(scene)?;
        let started = Instant::now();
        let mut running = who.start(scene)?;
        running.wait_at_gate(scene)?;
        let (read, begun) = (started.elapsed(), Instant::now());
        who.gate().open(scene)?;
        let what = format!("{} binds all pods", who.name());
        let (mut looked, mut idle) = (Instant::now(), None);
        loop {
            let bound = scene.eye().bound(NAMESPACE);
            if bound > 0 && idle.is_none() {
                idle = Some(seconds_of_all(scene, &mut running)?);
            }
            if bound == self.pods {
                break;
            }
            thread::sleep(LOOK_AGAIN);
            if looked.elapsed() > Duration::from_secs(2) {
                running.check(scene)?;
                looked = Instant::now();
            }
            if begun.elapsed() > Duration::from_secs(300) {
                let bound = scene.eye().bound(NAMESPACE);
                return Err(Trouble::new(format!("{what}: {bound} of {} in 300 s", self.pods)));
            }
        }
        let mut binding = seconds_of_all(scene, &mut running)?;
        let idle = idle.into_iter().flatten();
        binding.iter_mut().zip(idle).for_each(|((_, now), (_, idle))| *now -= idle);
        let writes = scene.writes()?.since(&before);
        thread::sleep(SETTLE);
        let processor = running.processor_seconds(scene)?;
        let writes_later = scene.writes()?.since(&before);
        let (first, last) = times(scene)?;
        let led = who.gate().taken(scene)?;
        let said = match who {
            Who::Capstan if self.gangs() > 0 => {
                let took = jobs::said(scene, self.gangs(), SAID_WITHIN)? - led;
                let processor = running.processor_seconds(scene)?;
                Some(Said { took, processor, writes: scene.writes()?.since(&before) })
            }
            _ => None,
        };
        running.stop(scene)?;
        self.clean(scene, who, repeat)?;
        scene.until("no pod is left", there(0))?;
        scene.eye().forget();
        let (first, took) = (first - led, last - led);
        let per_second = self.pods as f64 / took.as_secs_f64();
        Ok(Ran { per_second, read, first, took, processor, binding, writes, writes_later, said })
    }

    /// Everything that is made for a turn.
    fn work(&self, who: Who, repeat: usize) -> Vec<Ask> {
        let mut asks = Vec::new();
        if who == Who::Kube && self.upstream {
            let group = |gang: usize| {
                json!({
                    "apiVersion": "scheduling.k8s.io/v1beta1",
                    "kind": "PodGroup",
                    "metadata": {"name": format!("g-{repeat}-{gang}"), "namespace": NAMESPACE},
                    "spec": {"schedulingPolicy": {"gang": {"minCount": self.size}}},
                })
            };
            asks.extend((0..self.gangs()).map(|it| Ask::Make(GROUPS.to_owned(), group(it))));
        }
        let pod = |at| Ask::Make(PODS.to_owned(), self.pod(who, repeat, at));
        asks.extend((0..self.pods).map(pod));
        asks
    }

    fn pod(&self, who: Who, repeat: usize, at: usize) -> Value {
        let gang = format!("g-{repeat}-{}", at / self.size);
        let amounts = json!({"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": 1});
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod_name(who, repeat, at), "namespace": NAMESPACE},
            "spec": {
                "schedulerName": who.scheduler_name(),
                "containers": [{
                    "name": "main",
                    "image": "training",
                    "resources": {"requests": amounts, "limits": amounts},
                }],
            },
        });
        if self.size > 1 {
            match who {
                Who::Kube if !self.upstream => {}
                Who::Kube => pod["spec"]["schedulingGroup"] = json!({"podGroupName": gang}),
                Who::Raw | Who::Watching | Who::Capstan => {
                    pod["metadata"]["labels"] = json!({"capstan.sh/gang": gang});
                    let size = self.size.to_string();
                    pod["metadata"]["annotations"] = json!({"capstan.sh/min-member": size});
                }
            }
        }
        pod
    }

    /// Removes what was made, and what was made of it.
    fn clean(&self, scene: &Scene, who: Who, repeat: usize) -> Result<()> {
        let name = |at| Ask::Remove(PODS.to_owned(), pod_name(who, repeat, at));
        scene.ask((0..self.pods).map(name).collect())?;
        if self.upstream {
            scene.remove_all(GROUPS)?;
        }
        scene.remove_all(WORKLOADS)
    }
}

fn pod_name(who: Who, repeat: usize, at: usize) -> String {
    format!("{}-{repeat}-{at}", who.name())
}

/// When the first and the last pod were bound; no node may hold more than it has.
fn times(scene: &Scene) -> Result<(Instant, Instant)> {
    scene.eye().look(|pods| {
        let bound: Vec<(&str, Instant)> = pods
            .values()
            .filter_map(|pod| pod.bound.as_ref().map(|(node, at)| (node.as_str(), *at)))
            .collect();
        let mut used = std::collections::BTreeMap::<&str, usize>::new();
        bound.iter().for_each(|(node, _)| *used.entry(node).or_default() += 1);
        if let Some((node, used)) = used.iter().find(|(_, used)| **used > GPUS) {
            return Err(Trouble::new(format!("{node} has {GPUS} GPUs and holds {used} pods")));
        }
        let first = bound.iter().map(|it| it.1).min();
        let last = bound.iter().map(|it| it.1).max();
        first.zip(last).ok_or_else(|| Trouble::new("no pod was bound"))
    })
}
