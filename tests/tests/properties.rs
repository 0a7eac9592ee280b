//! Properties of the engine through its public contract: `step`, effects, views.
//!
//! Each plays generated clusters on a [`Stage`]; what must hold in every state is in
//! `capstan_tests::invariants`. A failure prints the smallest cluster that shows it; keep it
//! as a scenario or as a named case here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{GangKey, Input, PodFacts, PodPhase, Quota, Text};
use capstan_core::plan::{Action, Outcome, State, StepOutput};
use capstan_core::policy::{Policy, QuotaArgs, Transformation};
use capstan_core::time::Time;
use capstan_core::{Engine, Input as Fact};
use capstan_tests::facts::{GPU, gang, in_queue, node, shape, text};
use capstan_tests::invariants::{bound, broken};
use capstan_tests::play::{Stage, deeds};
use capstan_tests::seed::Seed;
use capstan_tests::strategy::{Cluster, cluster, lone_gang, lone_queued_gang, nodes};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(3_600_000);

fn config() -> Config {
    Config {
        cases: 256,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

/// Plays a cluster to its end and checks every state on the way.
fn settled(facts: impl IntoIterator<Item = Fact>) -> Result<Stage, TestCaseError> {
    let mut stage = Stage::new(NOW);
    stage.add(facts);
    let mut wrong = Vec::new();
    stage.settle(|stage| wrong.extend(broken(stage)));
    prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(stage)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_state_keeps_the_invariants(cluster in cluster()) {
        settled(cluster.facts())?;
    }

    #[test]
    fn work_that_arrives_piece_by_piece_keeps_them_too(cluster in cluster()) {
        let mut stage = Stage::new(NOW);
        stage.add(cluster.ground.clone());
        let mut wrong = Vec::new();
        for work in &cluster.work {
            stage.now = Time(stage.now.0 + 10_000);
            stage.add(work.iter().cloned());
            stage.settle(|stage| wrong.extend(broken(stage)));
        }
        prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Who was promised what its victims leave gets it, however long they take and whoever else
    /// comes meanwhile.
    /// Quota of twice as many credits, two for each GPU, is the same quota.
    #[test]
    fn what_counts_as_others_is_planned_as_if_it_were_itself(cluster in cluster()) {
        let plain = settled(cluster.facts())?;
        let credits = settled(cluster.facts().into_iter().map(in_credits).chain([credits()]))?;
        let nodes = |stage: &Stage| -> Vec<(Text, Option<Text>)> {
            stage.pods.values().map(|pod| (pod.name.clone(), pod.node.clone())).collect()
        };
        prop_assert_eq!(nodes(&plain), nodes(&credits));
    }

    #[test]
    fn promises_are_kept(cluster in cluster(), seed: u64) {
        let mut stage = Stage::new(NOW);
        stage.lingers = Some(Seed::new(seed));
        stage.add(cluster.ground.clone());
        let mut promised = BTreeSet::new();
        let mut wrong = Vec::new();
        for work in &cluster.work {
            stage.now = Time(stage.now.0 + 10_000);
            stage.add(work.iter().cloned());
            // Not to the end: the next work comes while victims linger.
            for _ in 0..2 {
                let output = stage.step();
                wrong.extend(broken(&stage));
                wrong.extend(broken_promises(&mut promised, &output));
            }
        }
        for output in stage.settle(|stage| wrong.extend(broken(stage))) {
            wrong.extend(broken_promises(&mut promised, &output));
        }
        wrong.extend(promised.iter().map(|workload| format!("{workload} never got it")));
        prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn shuffled_facts_give_an_equal_plan(cluster in cluster(), seed: u64) {
        let facts = cluster.facts();
        let mut other = facts.clone();
        Seed::new(seed).shuffle(&mut other);
        let one = Engine::new().step(NOW, facts);
        let two = Engine::new().step(NOW, other);
        prop_assert_eq!(one, two);
    }

    #[test]
    fn facts_fed_twice_change_nothing(cluster in cluster()) {
        let mut twice = cluster.facts();
        twice.extend(cluster.facts());
        let one = Engine::new().step(NOW, cluster.facts());
        prop_assert_eq!(one, Engine::new().step(NOW, twice));
    }

    #[test]
    fn a_second_run_is_quiet(cluster in cluster()) {
        let mut stage = settled(cluster.facts())?;
        let again = stage.step();
        prop_assert!(again.effects.is_empty(), "{:?}", again.effects);
        let fresh = Engine::new().step(stage.now, stage.shown());
        let acts = deeds(&[fresh]);
        prop_assert!(acts.is_empty(), "a new engine would act: {:?}", acts);
    }

    #[test]
    fn one_outcome_for_each_workload_of_a_round(cluster in cluster()) {
        let mut stage = Stage::new(NOW);
        stage.add(cluster.facts());
        for output in stage.settle(|_| {}) {
            let mut seen: Vec<_> =
                output.report.outcomes.iter().map(|o| (o.round, o.workload.clone())).collect();
            let all = seen.len();
            seen.sort();
            seen.dedup();
            prop_assert_eq!(seen.len(), all);
        }
    }

    #[test]
    fn more_capacity_never_admits_less_of_a_lone_gang(cluster in lone_gang(), more in nodes()) {
        let before = bound(&settled(cluster.facts())?);
        let mut larger = cluster.clone();
        larger.ground.extend(more.into_iter().map(renamed));
        let after = bound(&settled(larger.facts())?);
        prop_assert!(after >= before, "{before} members before, {after} with more nodes");
    }

    #[test]
    fn more_quota_never_admits_less_of_a_lone_gang(
        cluster in lone_queued_gang(),
        more in 1..9_i64,
    ) {
        let before = bound(&settled(cluster.facts())?);
        let mut larger = cluster.clone();
        for fact in &mut larger.ground {
            let Input::ClusterQueue(queue) = fact else { continue };
            let flavors = queue.groups.iter_mut().flat_map(|group| &mut group.flavors);
            for (_, quota) in flavors.flat_map(|flavor| &mut flavor.resources) {
                quota.nominal += more;
            }
        }
        let after = bound(&settled(larger.facts())?);
        prop_assert!(after >= before, "{before} members before, {after} with more quota");
    }

    /// Also while victims are leaving and Jobs are resumed: a new engine takes over in the middle,
    /// keeps all limits, and whoever it promises room gets it in the end.
    #[test]
    fn a_new_engine_goes_on_in_the_middle(cluster in cluster(), seed: u64, steps in 1..6_usize) {
        let mut stage = Stage::new(NOW);
        stage.lingers = Some(Seed::new(seed));
        stage.add(with_one_flavor(&cluster, ..cluster.work.len()));
        let (mut promised, mut wrong) = (BTreeSet::new(), Vec::new());
        for _ in 0..steps {
            let output = stage.step();
            wrong.extend(broken_promises(&mut promised, &output));
        }
        // What was promised for victims that are gone shows on no object, nor does where Jobs that
        // are being resumed were to go.
        let shown = stage.preemptors();
        promised.retain(|workload| shown.contains(workload) && !stage.resumes());
        let mut stage = stage.restarted();
        for output in stage.settle(|stage| wrong.extend(broken(stage))) {
            wrong.extend(broken_promises(&mut promised, &output));
        }
        wrong.extend(promised.iter().map(|workload| format!("{workload} never got it")));
        prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_new_engine_plans_the_same(cluster in cluster()) {
        let half = cluster.work.len() / 2;
        let mut old = settled(with_one_flavor(&cluster, ..half))?;
        let mut new = Stage::new(old.now);
        new.add(old.shown());
        new.settle(|_| {});
        goes_on_alike(&mut old, &mut new, &cluster.work[half..])?;
    }
}

proptest! {
    #![proptest_config(config())]

    /// Who only watched until now goes on as the one that led.
    #[test]
    fn a_warm_standby_plans_the_same(cluster in cluster()) {
        let half = cluster.work.len() / 2;
        let facts = with_one_flavor(&cluster, ..half);
        let mut warm = Engine::new();
        warm.observe(NOW, facts.clone());
        let mut old = settled(facts.clone())?;
        let mut seen = old.shown();
        seen.extend(facts.iter().filter_map(|fact| match fact {
            Input::Pod(pod) if !old.pods.contains_key(&pod.uid) => {
                Some(Input::PodGone(pod.uid.clone()))
            }
            _ => None,
        }));
        warm.observe(old.now, seen);
        warm.recount();
        let mut new = old.taken_over_by(warm);
        // What was refused before is parked by whoever refused it; the other one looks first.
        new.settle(|_| {});
        goes_on_alike(&mut old, &mut new, &cluster.work[half..])?;
    }
}

/// Notes who was promised room by preemption and who got it; who was told to wait instead.
fn broken_promises(promised: &mut BTreeSet<Text>, output: &StepOutput) -> Vec<String> {
    let mut wrong = Vec::new();
    for told in &output.report.outcomes {
        match &told.outcome {
            Outcome::Preempting(_) => _ = promised.insert(told.workload.clone()),
            Outcome::Admitted => _ = promised.remove(&told.workload),
            Outcome::Waiting(reason) if promised.contains(&told.workload) => {
                wrong.push(format!("{} was promised room and waits: {reason:?}", told.workload));
            }
            Outcome::Waiting(_) => {}
        }
    }
    wrong
}

proptest! {
    #![proptest_config(config())]

    /// Whatever comes later wakes all that it helps: a new engine finds nothing left to do.
    #[test]
    fn nothing_sleeps_through_what_would_start_it(cluster in cluster(), more in nodes()) {
        let mut stage = settled(with_one_flavor(&cluster, ..cluster.work.len()))?;
        for node in more.into_iter().map(renamed) {
            stage.add([node]);
            stage.settle(|_| {});
            let fresh = Engine::new().step(stage.now, stage.shown());
            let acts = deeds(&[fresh]);
            prop_assert!(acts.is_empty(), "a new engine would act: {:?}", acts);
        }
    }

    /// Queues are edited and flavors go while gangs run and grow: what is bound from then on is
    /// charged to what its queue lists.
    #[test]
    fn what_is_bound_is_charged_to_what_its_queue_lists(
        cluster in cluster(),
        other in cluster(),
        gone in any::<bool>(),
        extras in 1..3_u32,
    ) {
        let mut stage = settled(cluster.facts())?;
        let queue = |fact: &&Input| matches!(fact, Input::ClusterQueue(_) | Input::Flavor(_));
        let edits: Vec<Input> = other.ground.iter().filter(queue).cloned().collect();
        let joining = joining(&stage, extras);
        stage.add(edits.iter().cloned());
        stage.add(gone.then(|| Input::FlavorGone("first".into())));
        stage.add(joining);
        let listed = listed(&edits);
        for output in stage.settle(|stage| stage.engine.recount()) {
            for (_, action) in deeds(&[output]) {
                let Action::Bind { pod, note, .. } = action else { continue };
                let Some(queue) = stage.pods.get(&pod.uid).and_then(|p| p.wishes.queue.clone())
                else { continue };
                for (resource, flavor) in note.flavors.iter() {
                    let pair = (queue.clone(), flavor.clone());
                    prop_assert!(listed.contains(&pair), "{} has {flavor} of {resource}", pod.name);
                    prop_assert!(!gone || &**flavor != "first", "{} has what is gone", pod.name);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// Extra members join where that costs nobody who runs what they have: no gang grows and is
    /// stopped for somebody who waited when it grew.
    #[test]
    fn no_gang_that_runs_is_stopped_because_it_grew(cluster in cluster(), extras in 1..3_u32) {
        let mut stage = settled(cluster.facts())?;
        let views = stage.engine.workloads().into_iter();
        let runs: BTreeSet<String> = views
            .filter(|view| view.state == State::Running)
            .map(|view| format!("{}/{}", view.namespace, view.name))
            .collect();
        let more = joining(&stage, extras).into_iter().filter(|fact| match fact {
            Input::Pod(pod) => runs.contains(&format!("{}/{}", pod.namespace, pod.gang.name)),
            _ => false,
        });
        stage.add(more);
        let mut grown = BTreeSet::new();
        for effect in stage.settle(|_| {}).into_iter().flat_map(|output| output.effects) {
            let name = effect.workload.to_string();
            match effect.action {
                Action::Bind { .. } if !effect.completes && runs.contains(&name) => {
                    grown.insert(name);
                }
                Action::Evict { .. } | Action::SuspendOwner { .. } => {
                    prop_assert!(!grown.contains(&name), "{name} grew and was stopped");
                }
                _ => {}
            }
        }
    }
}

/// More members for every gang: the same, and a larger kind.
fn joining(stage: &Stage, extras: u32) -> Vec<Input> {
    let mut first: BTreeMap<_, &PodFacts> = BTreeMap::new();
    for pod in stage.pods.values().filter(|pod| matches!(pod.gang.key, GangKey::Group(..))) {
        first.entry(&pod.gang.key).or_insert(pod);
    }
    let more = |(pod, at): (&PodFacts, u32)| {
        let mut pod = pod.clone();
        let name: Text = format!("{}-more-{at}", pod.name).into();
        (pod.uid, pod.name, pod.node) = (name.clone(), name, None);
        (pod.phase, pod.bound_at, pod.binding) = (PodPhase::Pending, None, None);
        if at % 2 == 1 {
            pod.shape = shape(&[(GPU, 1), ("cpu", 1)]);
        }
        Input::Pod(pod)
    };
    first.into_values().flat_map(|pod| (0..extras).map(move |at| (pod, at))).map(more).collect()
}

/// Queue and flavor of everything that queues list.
fn listed(facts: &[Input]) -> BTreeSet<(Text, Text)> {
    let mut pairs = BTreeSet::new();
    for fact in facts {
        let Input::ClusterQueue(queue) = fact else { continue };
        for flavor in queue.groups.iter().flat_map(|group| &group.flavors) {
            pairs.insert((queue.name.clone(), flavor.flavor.clone()));
        }
    }
    pairs
}

/// Gives both stages the same further work; what became of all pods and owners must be the same.
fn goes_on_alike(
    old: &mut Stage,
    new: &mut Stage,
    work: &[Vec<Fact>],
) -> Result<(), TestCaseError> {
    for stage in [&mut *old, &mut *new] {
        stage.now = Time(stage.now.0 + 10_000);
        stage.add(work.iter().flatten().cloned());
        stage.settle(|_| {});
    }
    prop_assert_eq!(&old.pods, &new.pods);
    prop_assert_eq!(&old.owners, &new.owners);
    Ok(())
}

/// Nodes of a second draw must not replace those of the first.
fn renamed(fact: Input) -> Input {
    match fact {
        Input::Node(mut node) => {
            Arc::make_mut(&mut node).name = format!("more-{}", node.name).into();
            Input::Node(node)
        }
        other => other,
    }
}

/// The ground and some work. Scan memory is apart from what a restart must rebuild: with one
/// flavor left in each group there is none.
fn with_one_flavor(cluster: &Cluster, work: std::ops::RangeTo<usize>) -> Vec<Input> {
    let mut ground = cluster.ground.clone();
    for fact in &mut ground {
        if let Input::ClusterQueue(queue) = fact {
            queue.groups.iter_mut().for_each(|group| group.flavors.truncate(1));
        }
    }
    ground.into_iter().chain(cluster.work[work].iter().flatten().cloned()).collect()
}

/// The engine does something at all: a test that a stub must not pass.
#[test]
fn a_gang_that_fits_is_bound_whole() {
    let mut stage = Stage::new(NOW);
    stage.add([Input::Node(node("n", &[("cpu", 8), (GPU, 4)]).into())]);
    let members = gang("g", 4, None, &shape(&[(GPU, 1)]), &in_queue(None));
    stage.add(members.into_iter().map(Input::Pod));
    let outputs = stage.settle(|_| {});
    let binds = deeds(&outputs);
    assert_eq!(binds.len(), 4);
    assert!(binds.iter().all(|(_, action)| matches!(action, Action::Bind { .. })));
    assert_eq!(bound(&stage), 4);
}

/// The same work, all members of a gang alike: what flavors one had that died only an engine knows
/// that saw it, unless others of its shape run.
fn of_one_shape(mut cluster: Cluster) -> Cluster {
    for work in &mut cluster.work {
        let first = work.iter().find_map(|fact| match fact {
            Input::Pod(pod) => Some(pod.shape.clone()),
            _ => None,
        });
        for fact in work {
            if let (Input::Pod(pod), Some(first)) = (fact, &first) {
                pod.shape = first.clone();
            }
        }
    }
    cluster
}

/// What is used, borrowed and available of each flavor and resource of a queue.
type QuotaOf = (Text, Vec<(i64, i64, i64)>);

/// The quota of all queues.
fn quotas(engine: &Engine) -> Vec<QuotaOf> {
    let numbers = |view: capstan_core::explain::view::QueueView| {
        let quotas = view.quotas.iter().map(|it| (it.used, it.borrowed, it.available));
        (view.name.clone(), quotas.collect())
    };
    engine.queues().into_iter().map(numbers).collect()
}

proptest! {
    #![proptest_config(config())]

    /// Members die one by one and are made again, or not: what is kept for them is what a new
    /// engine would keep, nobody sleeps through what comes free, and nothing exceeds its quota.
    #[test]
    fn members_die_and_are_made_again(
        cluster in cluster(),
        deaths in proptest::collection::vec(any::<u16>(), 1..6),
    ) {
        let cluster = of_one_shape(cluster);
        let mut stage = settled(with_one_flavor(&cluster, ..cluster.work.len()))?;
        let mut dead: Vec<PodFacts> = Vec::new();
        for (at, death) in deaths.into_iter().enumerate() {
            let bound: Vec<Text> = stage.pods.values()
                .filter(|pod| pod.node.is_some() && !pod.phase.terminal() && !pod.terminating)
                .map(|pod| pod.uid.clone())
                .collect();
            let Some(uid) = bound.get(death as usize % bound.len().max(1)) else { break };
            let pod = stage.pods.remove(uid).expect("just listed");
            stage.add([Input::PodGone(pod.uid.clone())]);
            dead.push(pod);
            if at % 2 == 1 {
                let again = dead.swap_remove(0);
                stage.add([Input::Pod(PodFacts {
                    uid: format!("{}+{at}", again.uid).into(),
                    name: format!("{}-{at}", again.name).into(),
                    node: None,
                    phase: PodPhase::Pending,
                    binding: None,
                    bound_at: None,
                    ..again
                })]);
            }
            let mut wrong = Vec::new();
            stage.settle(|stage| {
                stage.engine.recount();
                let model = capstan_tests::invariants::charged(stage);
                wrong.extend(model.overruns());
            });
            prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
            // Which nodes are kept for pods that a resumed owner has still to make again shows
            // nowhere: a new engine may choose others.
            if stage.owners.values().any(|owner| stage.lacks_pods(owner)) {
                continue;
            }
            let mut fresh = Engine::new();
            let acts = deeds(&[fresh.step(stage.now, stage.shown())]);
            prop_assert!(acts.is_empty(), "a new engine would act: {:?}", acts);
            prop_assert_eq!(quotas(&fresh), quotas(&stage.engine));
        }
    }
}

const CREDITS: &str = "example.com/credits";

/// Each GPU counts as two credits, and no more as a GPU.
fn credits() -> Input {
    let outputs = vec![(text(CREDITS), 2_000_000_000)];
    let of_gpus = Transformation { input: text(GPU), replaces: true, multiply_by: None, outputs };
    let quota = QuotaArgs { transformations: vec![of_gpus], ..QuotaArgs::default() };
    Input::Policy(Arc::new(Policy { quota, ..Policy::default() }))
}

/// The same quota in credits.
fn in_credits(mut fact: Input) -> Input {
    if let Input::ClusterQueue(queue) = &mut fact {
        for group in &mut queue.groups {
            let gpus = group.covered.iter_mut().filter(|name| ***name == *GPU);
            gpus.for_each(|name| *name = text(CREDITS));
            for flavor in &mut group.flavors {
                let Some(quota) = flavor.resources.remove(GPU) else { continue };
                let twice = |limit: Option<i64>| limit.map(|limit| limit * 2);
                let (borrowing, lending) = (twice(quota.borrowing), twice(quota.lending));
                let quota = Quota { nominal: quota.nominal * 2, borrowing, lending };
                flavor.resources.insert(text(CREDITS), quota);
            }
        }
    }
    fact
}
