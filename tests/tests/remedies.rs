//! Remedies keep their word: whoever does what `explain` says sees the workload start.
//!
//! Each test leaves something waiting, takes the remedy that the engine offers, does exactly that
//! to the facts, and lets the engine decide again. A property adds that asking changes nothing.

use std::sync::Arc;

use capstan_core::explain::view::{Binding, Change, Remedy};
use capstan_core::model::input::{
    CapacityType, ClusterQueueFacts, CohortFacts, Input, Labels, PodFacts, PodShape,
    PreemptReclaim, Price, PriceSource, QueueingStrategy, Quota, Taint, TaintEffect, Text,
    Toleration, TolerationOperator, Wishes,
};
use capstan_core::money::MicroUsd;
use capstan_core::plan::State;
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, cohort, flavor, gang, group, in_queue, local_queue,
    namespace, node, nominal, pod, shape,
};
use capstan_tests::play::Stage;
use capstan_tests::strategy::{Cluster, cluster};
use proptest::prelude::*;

const HOUR: i64 = 3_600_000;

/// A settled stage of nodes with eight GPUs each, at one dollar per GPU and hour.
fn stage(nodes: &[&str]) -> Stage {
    let mut stage = Stage::new(Time(HOUR));
    stage.add([namespace()]);
    stage.add(nodes.iter().map(|name| {
        let mut facts = node(name, &[(GPU, 8), ("cpu", 64_000)]);
        let per_hour = MicroUsd(8_000_000);
        facts.price = Some(Price { per_hour, source: PriceSource::Annotation });
        Input::Node(facts.into())
    }));
    stage.settle(|_| {});
    stage
}

/// A queue that covers GPUs and CPU in the flavor without labels.
fn queue(name: &str, cohort: Option<&str>, gpus: Quota, cpu: i64) -> ClusterQueueFacts {
    cluster_queue(name, cohort, group(&[(DEFAULT, &[(GPU, gpus), ("cpu", nominal(cpu))])]))
}

fn add_queue(stage: &mut Stage, facts: ClusterQueueFacts) {
    stage.add([
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::LocalQueue(local_queue(&facts.name)),
        Input::ClusterQueue(facts),
    ]);
}

fn gpus(count: i64) -> Arc<PodShape> {
    shape(&[(GPU, count), ("cpu", 1_000)])
}

/// Wishes that declare a run time.
fn for_hours(hours: i64, queue: Option<&str>) -> Arc<Wishes> {
    let expected_runtime = Some(Span(hours * HOUR));
    Arc::new(Wishes { expected_runtime, ..(*in_queue(queue)).clone() })
}

fn submit(stage: &mut Stage, pods: impl IntoIterator<Item = PodFacts>) {
    stage.add(pods.into_iter().map(Input::Pod));
    stage.settle(|_| {});
}

fn state_of(stage: &Stage, name: &str) -> State {
    let views = stage.engine.workloads();
    views.iter().find(|view| &*view.name == name).expect("the workload exists").state
}

fn remedies(stage: &mut Stage, name: &str) -> Vec<Remedy> {
    let found = stage.engine.explain_workload(stage.now, TEAM, name).expect("it exists");
    stage.engine.recount();
    found.remedies
}

/// The only remedy of a kind.
fn only(found: &[Remedy], kind: impl Fn(&Change) -> bool) -> Remedy {
    let of_kind: Vec<&Remedy> = found.iter().filter(|remedy| kind(&remedy.change)).collect();
    assert_eq!(of_kind.len(), 1, "{found:#?}");
    of_kind[0].clone()
}

fn end(stage: &mut Stage, names: &[Text]) {
    for name in names {
        let uid = name.strip_prefix("team/").expect("all work is the team's");
        stage.pods.remove(uid).expect("it runs");
        stage.add([Input::PodGone(uid.into())]);
    }
    stage.settle(|_| {});
}

#[test]
fn waiting_for_those_that_are_due_first_starts_it() {
    let mut stage = stage(&["a", "b"]);
    let declared = [("late", 6, 3), ("soon", 5, 1), ("next", 3, 2), ("last", 2, 9)];
    submit(
        &mut stage,
        declared.map(|(name, count, hours)| pod(name, &gpus(count), &for_hours(hours, None))),
    );
    submit(&mut stage, [pod("idler", &shape(&[("cpu", 500)]), &for_hours(1, None))]);
    submit(&mut stage, [pod("big", &gpus(8), &in_queue(None))]);
    assert_eq!(state_of(&stage, "big"), State::Queued);

    let found = remedies(&mut stage, "big");
    let wait = only(&found, |change| matches!(change, Change::WaitFor { .. }));
    let Change::WaitFor { workload, with, at, learned: false } = wait.change else {
        unreachable!()
    };
    assert_eq!(at, Some(Time(HOUR + 2 * HOUR)), "the later of the two");
    assert_eq!((&*workload, with.as_slice()), ("team/next", &["team/soon".into()][..]));
    assert_eq!(wait.per_hour, Some(MicroUsd(8_000_000)));
    end(&mut stage, &["team/soon".into()]);
    assert_eq!(state_of(&stage, "big"), State::Queued, "one of them is not enough");
    end(&mut stage, &["team/next".into()]);
    assert_eq!(state_of(&stage, "big"), State::Running);
}

#[test]
fn what_declares_no_end_is_waited_for_alone_else_together() {
    let mut stage = stage(&["a", "b"]);
    let running = [pod("x", &gpus(8), &in_queue(None)), pod("y", &gpus(8), &in_queue(None))];
    submit(&mut stage, running);
    submit(&mut stage, [pod("one", &gpus(8), &in_queue(None))]);
    submit(&mut stage, gang("both", 2, None, &gpus(8), &in_queue(None)));

    let alone: Vec<Change> = remedies(&mut stage, "one").into_iter().map(|r| r.change).collect();
    let wait = |workload: &str, with: &[&str]| {
        let with = with.iter().map(|name| (*name).into()).collect();
        Change::WaitFor { workload: workload.into(), with, at: None, learned: false }
    };
    assert_eq!(alone, [wait("team/x", &[]), wait("team/y", &[])]);
    let found = remedies(&mut stage, "both");
    let together = only(&found, |change| matches!(change, Change::WaitFor { .. }));
    assert_eq!(together.change, wait("team/y", &["team/x"]));
    let fewer = found.iter().any(|remedy| matches!(remedy.change, Change::FewerPods { .. }));
    assert!(!fewer, "not a single pod fits: {found:#?}");
}

#[test]
fn a_queued_workload_waits_for_quota_to_come_back() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("q", None, nominal(8), 64_000));
    submit(&mut stage, [pod("holder", &gpus(6), &for_hours(4, Some("q")))]);
    submit(&mut stage, [pod("next", &gpus(8), &in_queue(Some("q")))]);
    let found = remedies(&mut stage, "next");
    let wait = only(&found, |change| matches!(change, Change::WaitFor { .. }));
    let expected = (Some(Time(5 * HOUR)), "wait for team/holder to end".to_owned());
    let Change::WaitFor { at, .. } = wait.change else { unreachable!() };
    assert_eq!((at, wait.change.to_string()), expected);
    end(&mut stage, &["team/holder".into()]);
    assert_eq!(state_of(&stage, "next"), State::Running);
}

#[test]
fn a_gang_starts_with_as_many_pods_as_fit() {
    let mut stage = stage(&["a", "b", "c"]);
    submit(&mut stage, [pod("other", &gpus(4), &in_queue(None))]);
    let members = gang("train", 4, None, &gpus(8), &in_queue(None));
    submit(&mut stage, members.clone());
    assert_eq!(state_of(&stage, "train"), State::Queued);

    let found = remedies(&mut stage, "train");
    let fewer = only(&found, |change| matches!(change, Change::FewerPods { .. }));
    assert_eq!(fewer.change, Change::FewerPods { pods: 2 });
    assert_eq!(fewer.per_hour, Some(MicroUsd(16_000_000)));
    for wanted in [3, 2] {
        let written = members.iter().cloned().map(|mut pod| {
            pod.gang.min_member = Some(wanted);
            pod
        });
        submit(&mut stage, written);
        let started = state_of(&stage, "train") == State::Running;
        assert_eq!(started, wanted == 2, "with a minimum of {wanted}");
    }
}

#[test]
fn another_capacity_type_starts_it() {
    let mut stage = stage(&["a"]);
    let kinds =
        [("s", CapacityType::Spot), ("d", CapacityType::OnDemand), ("r", CapacityType::Reserved)];
    stage.add(kinds.map(|(name, capacity_type)| {
        let count = if name == "r" { 4 } else { 8 };
        let mut facts = node(name, &[(GPU, count), ("cpu", 64_000)]);
        facts.capacity_type = capacity_type;
        Input::Node(facts.into())
    }));
    let only_spot = PodShape { capacity_types: vec![CapacityType::Spot], ..(*gpus(8)).clone() };
    let only_spot = Arc::new(only_spot);
    submit(&mut stage, [pod("first", &only_spot, &in_queue(None))]);
    submit(&mut stage, [pod("second", &only_spot, &in_queue(None))]);
    let found = remedies(&mut stage, "second");
    let allow = only(&found, |change| matches!(change, Change::AllowCapacity { .. }));
    let Change::AllowCapacity { types, .. } = allow.change else { unreachable!() };
    assert_eq!(types, [CapacityType::Spot, CapacityType::OnDemand], "the reserved node is small");
    assert_eq!(allow.per_hour, None, "nobody knows what that node costs");
    let wider = PodShape { capacity_types: types, ..(*only_spot).clone() };
    submit(&mut stage, [pod("second", &Arc::new(wider), &in_queue(None))]);
    assert_eq!(state_of(&stage, "second"), State::Running);
}

#[test]
fn exactly_the_missing_quota_starts_it() {
    let mut stage = stage(&["a", "b"]);
    let limit = Quota { nominal: 4, borrowing: Some(1), lending: Some(2) };
    let own = queue("q", Some("all"), limit, 1_500);
    add_queue(&mut stage, own.clone());
    add_queue(&mut stage, queue("lender", Some("all"), nominal(3), 64_000));
    submit(&mut stage, [pod("running", &gpus(3), &in_queue(Some("q")))]);
    submit(&mut stage, gang("train", 2, None, &gpus(4), &in_queue(Some("q"))));
    assert_eq!(state_of(&stage, "train"), State::Queued);

    let found = remedies(&mut stage, "train");
    let raise = only(&found, |change| matches!(change, Change::RaiseQuota { .. }));
    let words = "raise nominalQuota of q by 6 GPUs (flavor default)";
    assert_eq!(raise.change.to_string(), words);
    for (by, started) in [(5, false), (6, true)] {
        let mut raised = own.clone();
        let resources = &mut raised.groups[0].flavors[0].resources;
        resources.get_mut(GPU).expect("covered").nominal += by;
        stage.add([Input::ClusterQueue(raised)]);
        stage.settle(|_| {});
        assert_eq!(state_of(&stage, "train") == State::Running, started, "raised by {by}");
    }
}

#[test]
fn a_raise_is_told_no_smaller_than_it_is() {
    const MI: i64 = 1 << 20;
    let mut stage = stage(&[]);
    stage.add([Input::Node(node("m", &[("memory", 65_536 * MI), ("cpu", 8_000)]).into())]);
    let memory = |of| group(&[(DEFAULT, &[("memory", nominal(of))])]);
    let owns = |of| cluster_queue("q", None, memory(of));
    add_queue(&mut stage, owns(8_192 * MI));
    submit(&mut stage, [pod("p", &shape(&[("memory", 10_300 * MI)]), &in_queue(Some("q")))]);
    let found = remedies(&mut stage, "p");
    let raise = only(&found, |change| matches!(change, Change::RaiseQuota { .. }));
    let words = "raise nominalQuota of q by 2108Mi memory (flavor default)";
    assert_eq!(raise.change.to_string(), words);
    for (by, starts) in [(2_107, false), (2_108, true)] {
        stage.add([Input::ClusterQueue(owns((8_192 + by) * MI))]);
        stage.settle(|_| {});
        assert_eq!(state_of(&stage, "p") == State::Running, starts, "raised by {by}Mi");
    }
}

#[test]
fn a_debt_of_the_cohort_is_raised_away() {
    let mut stage = stage(&["a", "b"]);
    let own = |name: &str, gpus| queue(name, Some("all"), nominal(gpus), 64_000);
    add_queue(&mut stage, own("large", 6));
    add_queue(&mut stage, own("small", 1));
    submit(&mut stage, [pod("runs", &gpus(6), &in_queue(Some("large")))]);
    stage.add([Input::ClusterQueue(own("large", 1))]);
    submit(&mut stage, [pod("p", &gpus(1), &in_queue(Some("small")))]);
    assert_eq!((state_of(&stage, "runs"), state_of(&stage, "p")), (State::Running, State::Queued));
    let found = remedies(&mut stage, "p");
    let raise = only(&found, |change| matches!(change, Change::RaiseQuota { .. }));
    assert!(raise.change.to_string().starts_with("raise nominalQuota of small by 5 GPUs"));
    for (by, starts) in [(4, false), (5, true)] {
        stage.add([Input::ClusterQueue(own("small", 1 + by))]);
        stage.settle(|_| {});
        assert_eq!(state_of(&stage, "p") == State::Running, starts, "raised by {by}");
    }
}

#[test]
fn no_remedy_takes_a_start_that_is_reserved() {
    let mut stage = stage(&["a", "b"]);
    let owns = |gpus, cpu| queue("q", None, nominal(gpus), cpu);
    add_queue(&mut stage, owns(8, 4_000));
    submit(&mut stage, [pod("runs", &gpus(4), &for_hours(2, Some("q")))]);
    submit(&mut stage, [pod("head", &gpus(8), &for_hours(1, Some("q")))]);
    let asks = shape(&[(GPU, 1), ("cpu", 4_000)]);
    submit(&mut stage, [pod("little", &asks, &in_queue(Some("q")))]);
    // One CPU is short; with it alone it would take a GPU that is reserved for the head.
    let found = remedies(&mut stage, "little");
    let words: Vec<String> = found.iter().map(|remedy| remedy.change.to_string()).collect();
    assert_eq!(words, ["raise nominalQuota of q by 1 GPU and 1 cpu (flavor default)"]);
    for (gpus, cpu, starts) in [(8, 5_000, false), (9, 5_000, true)] {
        stage.add([Input::ClusterQueue(owns(gpus, cpu))]);
        stage.settle(|_| {});
        let started = state_of(&stage, "little") == State::Running;
        assert_eq!(started, starts, "with {gpus} GPUs and {cpu} cpu");
    }
    assert_eq!(state_of(&stage, "head"), State::Queued);
}

#[test]
fn every_short_resource_is_raised_at_once() {
    let mut stage = stage(&["a"]);
    add_queue(&mut stage, queue("q", None, nominal(4), 250));
    submit(&mut stage, [pod("p", &gpus(8), &in_queue(Some("q")))]);
    let found = remedies(&mut stage, "p");
    let words: Vec<String> = found.iter().map(|remedy| remedy.change.to_string()).collect();
    assert_eq!(words, ["raise nominalQuota of q by 4 GPUs and 750m cpu (flavor default)"]);
    let mut explained = stage.engine.explain_workload(stage.now, TEAM, "p").expect("it exists");
    let numbers = explained.in_the_way.drain(..).map(|row| (row.asked, row.left));
    let numbers: Vec<_> = numbers.collect();
    assert_eq!(numbers, [(Some(8), Some(4)), (Some(1_000), Some(250))], "both are in the way");
    stage.add([Input::ClusterQueue(queue("q", None, nominal(8), 1_000))]);
    stage.settle(|_| {});
    assert_eq!(state_of(&stage, "p"), State::Running);
}

#[test]
fn quota_is_no_remedy_where_nodes_are_short_too() {
    let mut stage = stage(&["a"]);
    add_queue(&mut stage, queue("q", None, nominal(4), 64_000));
    submit(&mut stage, gang("p", 2, None, &gpus(8), &in_queue(Some("q"))));
    assert_eq!(remedies(&mut stage, "p"), []);
    let explained = stage.engine.explain_workload(stage.now, TEAM, "p").expect("it exists");
    let kinds: Vec<&str> = explained.in_the_way.iter().map(|row| row.reason.kind()).collect();
    assert_eq!(kinds, ["quota", "nodes"]);
}

#[test]
fn the_preemption_that_would_help_is_named_with_its_victims() {
    use capstan_core::model::input::PreemptReclaim;
    let mut stage = stage(&["a"]);
    let owner = queue("owner", Some("all"), nominal(8), 64_000);
    add_queue(&mut stage, owner.clone());
    add_queue(&mut stage, queue("guest", Some("all"), nominal(0), 0));
    submit(&mut stage, [pod("guest", &gpus(8), &in_queue(Some("guest")))]);
    stage.now = Time(3 * HOUR);
    submit(&mut stage, [pod("mine", &gpus(8), &in_queue(Some("owner")))]);
    assert_eq!(state_of(&stage, "mine"), State::Queued);

    let found = remedies(&mut stage, "mine");
    let preempt = only(&found, |change| matches!(change, Change::AllowPreemption { .. }));
    let words = "preempt team/guest (needs reclaimWithinCohort: Any)";
    assert_eq!(preempt.change.to_string(), words);
    assert_eq!(preempt.preempts, [Text::from("team/guest")]);
    assert_eq!(preempt.loses, Some(MicroUsd(16_000_000)), "two hours of eight GPUs");
    let mut allowed = owner;
    allowed.preemption.reclaim = PreemptReclaim::Any;
    stage.add([Input::ClusterQueue(allowed)]);
    stage.settle(|_| {});
    assert_eq!(state_of(&stage, "mine"), State::Running);
}

#[test]
fn what_lacks_something_else_gets_no_remedy() {
    let mut stage = stage(&["a"]);
    let mut strict = queue("strict", None, nominal(8), 64_000);
    strict.strategy = QueueingStrategy::StrictFifo;
    add_queue(&mut stage, strict);
    submit(&mut stage, [pod("holder", &gpus(6), &in_queue(Some("strict")))]);
    submit(&mut stage, gang("partly", 2, Some(3), &gpus(1), &in_queue(None)));
    submit(&mut stage, [pod("astray", &gpus(1), &in_queue(Some("nowhere")))]);
    let mut first = pod("first", &gpus(8), &in_queue(Some("strict")));
    first.created = Time(1);
    let mut second = pod("second", &gpus(4), &in_queue(Some("strict")));
    second.created = Time(2);
    submit(&mut stage, [first, second]);
    for (name, expected) in
        [("partly", State::Gathering), ("astray", State::Queued), ("second", State::Queued)]
    {
        assert_eq!(state_of(&stage, name), expected, "{name}");
        assert_eq!(remedies(&mut stage, name), [], "{name}");
        let explained = stage.engine.explain_workload(stage.now, TEAM, name).expect("exists");
        assert_eq!(explained.in_the_way.len(), 1, "{name}: {:?}", explained.in_the_way);
    }
    assert_eq!(remedies(&mut stage, "holder"), [], "it runs");
    assert!(!remedies(&mut stage, "first").is_empty(), "it only lacks quota");
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Asking about everything leaves no trace: the same answers again, nothing new to do, and
    /// the same plan for what comes next.
    #[test]
    fn asking_changes_nothing(cluster in cluster()) {
        let run = |cluster: &Cluster, ask: bool| {
            let mut stage = Stage::new(Time(HOUR));
            stage.add(cluster.ground.iter().cloned());
            let mut answers = Vec::new();
            for work in &cluster.work {
                stage.add(work.iter().cloned());
                stage.settle(|_| {});
                let names = stage.engine.workloads();
                for view in names.iter().filter(|_| ask) {
                    let mut again = || {
                        stage.engine.explain_workload(stage.now, &view.namespace, &view.name)
                    };
                    let once = again();
                    prop_assert_eq!(&once, &again());
                    answers.push(once);
                    stage.engine.recount();
                }
            }
            Ok(stage.engine.workloads())
        };
        prop_assert_eq!(run(&cluster, true)?, run(&cluster, false)?);
    }
}

/// What a head kept back counts while it waits, and no longer: an engine that only observes
/// decides nothing anew, and forgets what is gone all the same.
#[test]
fn what_a_head_kept_back_that_is_gone_is_in_nobodys_way() {
    let mut stage = stage(&["a", "b"]);
    let mut strict = queue("strict", Some("all"), nominal(4), 64_000);
    strict.strategy = QueueingStrategy::StrictFifo;
    strict.preemption.reclaim = PreemptReclaim::LowerPriority;
    add_queue(&mut stage, strict);
    add_queue(&mut stage, queue("runs", Some("all"), nominal(4), 64_000));
    add_queue(&mut stage, queue("asks", Some("all"), nominal(0), 64_000));
    let mut running = pod("running", &gpus(6), &in_queue(Some("runs")));
    running.priority = 10;
    submit(&mut stage, [running]);
    let holder = pod("holder", &gpus(4), &in_queue(Some("strict")));
    submit(&mut stage, [holder.clone()]);
    submit(&mut stage, [pod("asker", &gpus(2), &in_queue(Some("asks")))]);
    assert_eq!(state_of(&stage, "asker"), State::Queued);
    let waits = |change: &Change| matches!(change, Change::WaitFor { .. });
    only(&remedies(&mut stage, "asker"), waits);

    stage.engine.observe(stage.now, vec![Input::PodGone(holder.uid)]);
    assert_eq!(remedies(&mut stage, "asker"), [], "it would start now");
    stage.engine.observe(stage.now, vec![Input::ClusterQueueGone("strict".into())]);
    stage.engine.sweep();
    only(&remedies(&mut stage, "asker"), waits);
}

/// Two flavors with a node each: `t4` is tainted, and selected by a label.
fn two_kinds() -> Stage {
    let mut stage = stage(&[]);
    let kinds = [("a", "a100"), ("t", "t4")];
    stage.add(kinds.map(|(name, kind)| {
        let mut facts = node(name, &[(GPU, 8), ("cpu", 64_000)]);
        facts.labels.insert("gpu".into(), kind.into());
        if kind == "t4" {
            facts.taints = vec![only_for_ml()];
        }
        facts.price = Some(Price { per_hour: MicroUsd(8_000_000), source: PriceSource::Catalogue });
        Input::Node(facts.into())
    }));
    let mut t4 = flavor("t4", &[("gpu", "t4")]);
    t4.taints = vec![only_for_ml()];
    let quotas = [(GPU, nominal(8)), ("cpu", nominal(64_000))];
    stage.add([
        Input::Flavor(flavor("a100", &[("gpu", "a100")])),
        Input::Flavor(t4),
        Input::LocalQueue(local_queue("q")),
        Input::ClusterQueue(cluster_queue("q", None, group(&[("a100", &quotas), ("t4", &quotas)]))),
    ]);
    stage.settle(|_| {});
    stage
}

fn only_for_ml() -> Taint {
    Taint { key: "for".into(), value: "ml".into(), effect: TaintEffect::NoSchedule }
}

#[test]
fn a_flavor_that_its_pods_exclude_starts_it_once_they_do_not() {
    let mut stage = two_kinds();
    submit(&mut stage, [pod("holder", &gpus(8), &in_queue(Some("q")))]);
    let selects =
        PodShape { node_selector: [("gpu".into(), "a100".into())].into(), ..(*gpus(4)).clone() };
    submit(&mut stage, [pod("p", &Arc::new(selects.clone()), &in_queue(Some("q")))]);
    assert_eq!(state_of(&stage, "p"), State::Queued);
    let found = remedies(&mut stage, "p");
    let other = only(&found, |change| matches!(change, Change::AnotherFlavor { .. }));
    let words = "use flavor t4 (nodeSelector gpu: t4 and tolerate for=ml)";
    assert_eq!(other.change.to_string(), words);
    assert_eq!(other.per_hour, Some(MicroUsd(4_000_000)));
    // Either edit alone is not enough.
    let tolerates = vec![Toleration {
        key: "for".into(),
        operator: TolerationOperator::Equal,
        value: "ml".into(),
        effect: None,
    }];
    let t4: Labels = [("gpu".into(), "t4".into())].into();
    let edits = [
        (t4.clone(), Vec::new(), false),
        (selects.node_selector.clone(), tolerates.clone(), false),
        (t4, tolerates, true),
    ];
    for (node_selector, tolerations, starts) in edits {
        let edited = PodShape { node_selector, tolerations, ..selects.clone() };
        submit(&mut stage, [pod("p", &Arc::new(edited), &in_queue(Some("q")))]);
        assert_eq!(state_of(&stage, "p") == State::Running, starts);
    }
}

#[test]
fn no_other_flavor_is_a_remedy_where_that_has_no_room_either() {
    let mut stage = two_kinds();
    submit(&mut stage, [pod("holder", &gpus(8), &in_queue(Some("q")))]);
    let tolerant = PodShape { tolerations: vec![tolerate_all()], ..(*gpus(6)).clone() };
    submit(&mut stage, [pod("other", &Arc::new(tolerant), &in_queue(Some("q")))]);
    assert_eq!(state_of(&stage, "other"), State::Running);
    submit(&mut stage, [pod("p", &gpus(4), &in_queue(Some("q")))]);
    let other = remedies(&mut stage, "p");
    let other = other.iter().any(|it| matches!(it.change, Change::AnotherFlavor { .. }));
    assert!(!other, "t4 has two GPUs left");
}

fn tolerate_all() -> Toleration {
    let (key, value) = (Text::from(""), Text::from(""));
    Toleration { key, operator: TolerationOperator::Exists, value, effect: None }
}

/// Binding limit of the first thing in the way.
fn limit(stage: &mut Stage, name: &str) -> Binding {
    let found = stage.engine.explain_workload(stage.now, TEAM, name).expect("it exists");
    found.in_the_way.into_iter().find_map(|it| it.binding).expect("quota is short")
}

/// `left` of `root` may borrow two GPUs beyond the four of its queue `q`.
fn limited(stage: &mut Stage) -> CohortFacts {
    let limit = Quota { nominal: 0, borrowing: Some(2), lending: None };
    let groups = vec![group(&[(DEFAULT, &[(GPU, limit), ("cpu", nominal(0))])])];
    let left = CohortFacts { groups, ..cohort("left", Some("root")) };
    stage.add([Input::Cohort(left.clone())]);
    add_queue(stage, queue("q", Some("left"), nominal(4), 64_000));
    add_queue(stage, queue("lender", Some("root"), nominal(8), 64_000));
    left
}

#[test]
fn a_cohort_that_may_borrow_no_more_is_named_and_its_limit_raised() {
    let mut stage = stage(&["a", "b"]);
    let left = limited(&mut stage);
    submit(&mut stage, [pod("runs", &gpus(5), &for_hours(2, Some("q")))]);
    submit(&mut stage, [pod("p", &gpus(4), &in_queue(Some("q")))]);
    let binding = limit(&mut stage, "p");
    let words = "borrowingLimit of cohort left: 2 GPUs (flavor default), 1 borrowed";
    assert_eq!((binding.to_string().as_str(), binding.until), (words, Some(Time(3 * HOUR))));
    let found = remedies(&mut stage, "p");
    let raise = only(&found, |change| matches!(change, Change::RaiseLimit { .. }));
    let words = "raise borrowingLimit of cohort left by 3 GPUs (flavor default)";
    assert_eq!(raise.change.to_string(), words);
    for (by, starts) in [(2, false), (3, true)] {
        let mut edited = left.clone();
        let quota = edited.groups[0].flavors[0].resources.get_mut(GPU).expect("it has one");
        quota.borrowing = Some(2 + by);
        stage.add([Input::Cohort(edited)]);
        stage.settle(|_| {});
        assert_eq!(state_of(&stage, "p") == State::Running, starts, "raised by {by}");
    }
}

#[test]
fn who_keeps_quota_for_itself_is_asked_to_lend_it() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("q", Some("all"), nominal(4), 64_000));
    let keeps = |lending| {
        let quota = Quota { nominal: 8, borrowing: None, lending: Some(lending) };
        queue("lender", Some("all"), quota, 64_000)
    };
    add_queue(&mut stage, keeps(1));
    submit(&mut stage, [pod("p", &gpus(8), &in_queue(Some("q")))]);
    let binding = limit(&mut stage, "p");
    let words = "quota of cohort all: 5 GPUs (flavor default), 0 used";
    assert_eq!((binding.to_string().as_str(), binding.until), (words, None));
    let found = remedies(&mut stage, "p");
    let lend = only(&found, |change| matches!(change, Change::RaiseLimit { .. }));
    let words = "raise lendingLimit of lender by 3 GPUs (flavor default)";
    assert_eq!(lend.change.to_string(), words);
    for (lending, starts) in [(3, false), (4, true)] {
        stage.add([Input::ClusterQueue(keeps(lending))]);
        stage.settle(|_| {});
        assert_eq!(state_of(&stage, "p") == State::Running, starts, "lends {lending}");
    }
}

#[test]
fn the_quota_that_binds_is_told_with_who_uses_it_and_until_when() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("q", Some("all"), nominal(4), 64_000));
    add_queue(&mut stage, queue("guest", Some("all"), nominal(6), 64_000));
    submit(
        &mut stage,
        [
            pod("one", &gpus(5), &for_hours(1, Some("guest"))),
            pod("two", &gpus(2), &for_hours(3, Some("guest"))),
            pod("own", &gpus(1), &in_queue(Some("q"))),
        ],
    );
    submit(&mut stage, [pod("p", &gpus(6), &in_queue(Some("q")))]);
    let binding = limit(&mut stage, "p");
    let words = "quota of cohort all: 10 GPUs (flavor default), 8 used by guest (7), q (1)";
    assert_eq!((binding.to_string().as_str(), binding.until), (words, Some(Time(2 * HOUR))));
    submit(&mut stage, [pod("large", &gpus(11), &in_queue(Some("q")))]);
    let binding = limit(&mut stage, "large");
    assert_eq!((binding.amount, binding.until), (10, None), "never");
}
