//! Extra members of gangs without a queue, while others are being stopped: they take nothing for
//! which work of higher priority would stop their gang once those have left. Facts by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{BindingNote, Input, PodFacts, PodPhase, PreemptReclaim};
use capstan_core::plan::StepOutput;
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, gang, group, in_queue, local_queue, namespace, node,
    nominal, pod, shape, text,
};
use capstan_tests::hand::{binds, evicted, view};

const NOW: Time = Time(1_000_000);

/// Where work of higher priority waits, and whether it is a member that a gang lacks.
const WAITING: [(Option<&str>, bool); 3] =
    [(Some("lends"), true), (Some("lends"), false), (None, false)];

/// A world in which two members of `low`, which has 3 GPUs of `lends` on node `n0`, are stopped for
/// a member that gang `takes` lacks of 1 GPU, and `high` waits for 2 of these GPUs.
struct World {
    engine: Engine,
    high: PodFacts,
    takes: PodFacts,
    grows: PodFacts,
}

/// The pod as the API shows it after a bind.
fn bound(pod: &PodFacts, node: &str) -> Input {
    let mut pod = pod.clone();
    (pod.node, pod.phase) = (Some(text(node)), PodPhase::Running);
    let queued = pod.wishes.queue.is_some();
    let flavors = [GPU, "cpu"].into_iter().filter(|_| queued);
    let flavors: BTreeMap<_, _> = flavors.map(|of| (text(of), text(DEFAULT))).collect();
    let (admitted_at, workload) = (Some(Time(1)), Some(pod.gang.name.clone()));
    let flavors = Arc::new(flavors);
    let note = BindingNote { flavors, admitted_at, workload, ..BindingNote::default() };
    pod.binding = Some(Arc::new(note));
    Input::Pod(pod)
}

/// Two queues of a cohort, of which `takes` takes back what it owns.
fn ground() -> Vec<Input> {
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[]))];
    for (name, gpus, reclaim) in
        [("takes", 2, PreemptReclaim::Any), ("lends", 4, PreemptReclaim::Never)]
    {
        let quotas = [(GPU, nominal(gpus)), ("cpu", nominal(20))];
        let mut queue = cluster_queue(name, Some("all"), group(&[(DEFAULT, &quotas)]));
        queue.preemption.reclaim = reclaim;
        facts.push(Input::ClusterQueue(queue));
        facts.push(Input::LocalQueue(local_queue(name)));
    }
    for (name, cpu) in [("n0", 8), ("n1", 4)] {
        facts.push(Input::Node(node(name, &[("cpu", cpu), (GPU, 3)]).into()));
    }
    facts
}

impl World {
    /// Nobody leaves yet; `high` asks for so many GPUs.
    fn new((queue, joins): (Option<&str>, bool), gpus: i64) -> World {
        let takes =
            gang("takes", 2, Some(2), &shape(&[(GPU, 1), ("cpu", 2)]), &in_queue(Some("takes")));
        let mut low =
            gang("low", 2, Some(2), &shape(&[(GPU, 1), ("cpu", 1)]), &in_queue(Some("lends")));
        low[1].shape = shape(&[(GPU, 2), ("cpu", 1)]);
        let mut grows = gang("grows", 2, Some(1), &shape(&[("cpu", 3)]), &in_queue(None));
        grows[1].shape = shape(&[("cpu", 2)]);
        let (kind, asks) = (shape(&[(GPU, 2), ("cpu", 2)]), shape(&[(GPU, gpus), ("cpu", 2)]));
        let (mut runs, mut high) = match joins {
            true => {
                let mut high = gang("high", 2, Some(2), &kind, &in_queue(queue));
                high[1].shape = asks;
                (high[0].clone(), high[1].clone())
            }
            false => {
                let runs = pod("runs", &kind, &in_queue(Some("lends")));
                (runs, pod("high", &asks, &in_queue(queue)))
            }
        };
        (runs.priority, high.priority) = (1, 1);
        let mut facts = ground();
        facts.extend([bound(&takes[0], "n1"), bound(&runs, "n1"), bound(&grows[0], "n0")]);
        facts.extend(low.iter().map(|pod| bound(pod, "n0")));
        facts.push(Input::Pod(high.clone()));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        assert_eq!((names(&output), evicted(&output)), (Vec::new(), Vec::new()), "nothing to do");
        let [takes, grows] = [takes, grows].map(|members| members[1].clone());
        World { engine, high, takes, grows }
    }

    fn step(&mut self, facts: impl IntoIterator<Item = Input>) -> StepOutput {
        let output = self.engine.step(NOW, facts.into_iter().collect());
        self.engine.recount();
        output
    }

    /// What `takes` lacks comes, and one more of `grows`.
    fn begin(&mut self) -> StepOutput {
        let came = [&self.takes, &self.grows].map(|pod| Input::Pod(pod.clone()));
        let output = self.step(came);
        assert_eq!(evicted(&output), ["low-0", "low-1"]);
        output
    }

    /// Why the extra member waits.
    fn said(&self) -> String {
        view(&self.engine, "grows").reason.map_or_else(String::new, |why| why.to_string())
    }
}

fn gone(names: &[&str]) -> Vec<Input> {
    names.iter().map(|name| Input::PodGone(text(name))).collect()
}

fn names(output: &StepOutput) -> Vec<String> {
    binds(output).into_iter().map(|(pod, node)| format!("{pod} {node}")).collect()
}

#[test]
fn what_grows_is_in_nobodys_way_once_others_have_left() {
    for (queue, joins) in WAITING {
        let mut world = World::new((queue, joins), 2);
        let output = world.begin();
        assert_eq!(names(&output), [""; 0], "{queue:?}, {joins}");
        let waits = match (queue, joins) {
            (_, true) => "members of which wait in lends",
            (Some(_), false) => "which waits in lends",
            (None, false) => "which waits",
        };
        let want = format!(
            "1 extra member waits: beside one more, team/high, {waits}, would stop work without a \
             queue once 1 preempted workload has left"
        );
        assert_eq!(world.said(), want);
        world.engine.renew_reasons();
        assert_eq!(world.said(), want, "with the numbers of now, too");
        // Both start on what they leave, and nobody else is stopped.
        let output = world.step(gone(&["low-0", "low-1"]));
        let high = format!("{} n0", world.high.name);
        assert_eq!(names(&output), [&high[..], "takes-1 n0"], "{queue:?}, {joins}");
        assert_eq!(evicted(&output), [""; 0]);
        let said = world.said();
        assert!(said.starts_with("1 extra member waits: needs 2"), "{said}");
        let more = Input::Node(node("n2", &[("cpu", 2)]).into());
        assert_eq!(names(&world.step([more])), ["grows-1 n2"]);
        assert_eq!(world.said(), "");
    }
}

#[test]
fn what_grows_joins_once_nobody_waits_who_would_stop_it() {
    for (queue, joins) in WAITING {
        let mut world = World::new((queue, joins), 2);
        assert_eq!(names(&world.begin()), [""; 0], "{queue:?}, {joins}");
        let high = world.high.uid.clone();
        let output = world.step(gone(&[&high]));
        assert_eq!(names(&output), ["grows-1 n0"], "{queue:?}, {joins}: {}", world.said());
    }
}

#[test]
fn what_grows_waits_for_nobody_who_would_not_start_once_others_have_left() {
    for (queue, joins) in WAITING {
        let mut world = World::new((queue, joins), 4);
        let output = world.begin();
        assert_eq!(names(&output), ["grows-1 n0"], "{queue:?}, {joins}: {}", world.said());
    }
}
