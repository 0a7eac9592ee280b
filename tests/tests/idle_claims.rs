//! Claims that were found with devices which nobody uses: they go back where their pods fit
//! elsewhere only, or where others fit with what pods keep that fit nowhere, and stay as they are
//! where that wins nothing. Those that an earlier try left are deleted, however long that takes.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    AllocatedDevice, Allocation, ExtendedClaim, Input, NodeSelector, NodeSelectorTerm, Operator,
    PodClaim, PodFacts, PodPhase, PodShape, QueueingStrategy, Requirement, ResourceClaimFacts,
};
use capstan_core::plan::{Action, ClaimGrant, Effect, EffectResult, Seen, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::devices::{self, key, slice};
use capstan_tests::facts::{
    self, DEFAULT, amounts, cluster_queue, flavor, group, in_queue, local_queue, namespace, node,
    nominal, text,
};
use capstan_tests::hand::{answer, binds, view};

fn cpu(name: &str, milli: i64) -> Input {
    Input::Node(node(name, &[("cpu", milli)]).into())
}

/// One node.
fn only(name: &str) -> Option<NodeSelector> {
    let key = text("metadata.name");
    let of = Requirement { key, operator: Operator::In, values: vec![text(name)] };
    Some(NodeSelector { terms: vec![NodeSelectorTerm { labels: Vec::new(), fields: vec![of] }] })
}

fn claim(name: &str) -> ResourceClaimFacts {
    devices::claim(name, false, devices::spec(1))
}

/// A claim with a device of a node.
fn has(name: &str, (at, device): (&str, &str), reserved: &[&str]) -> Input {
    let id = (text("d"), text(at), text(device));
    let devices = vec![AllocatedDevice { id, share: false, consumed: Default::default() }];
    let reserved = reserved.iter().map(text).collect();
    let allocation = Allocation { nodes: only(at), devices, reserved, ..Allocation::default() };
    let allocation = Some(Arc::new(allocation));
    Input::ResourceClaim(ResourceClaimFacts { allocation, ..claim(name) })
}

/// A member that wants one cpu.
fn user(pod: &str, of: u32, claim: &str) -> Input {
    Input::Pod(devices::member(pod, of, PodClaim::Named(key(claim)), claim))
}

fn effects<'a>(
    output: &'a StepOutput,
    of: impl Fn(&'a Action) -> Option<(&'a str, &'a [ClaimGrant])> + 'a,
) -> Vec<(&'a Effect, &'a str, &'a [ClaimGrant])> {
    let all = output.effects.iter();
    all.filter_map(|effect| of(&effect.action).map(|(pod, claims)| (effect, pod, claims))).collect()
}

/// Claims that are given back because nobody uses them.
fn back(output: &StepOutput) -> Vec<(&Effect, &str, &[ClaimGrant])> {
    let idle = |grant: &ClaimGrant| matches!(grant.seen, Some(Seen::Idle(_)));
    effects(output, move |action| match action {
        Action::ReleaseClaims { pod, claims } if claims.iter().all(idle) => {
            Some((&*pod.name, &claims[..]))
        }
        _ => None,
    })
}

fn allocations(output: &StepOutput) -> Vec<(&Effect, &str, &[ClaimGrant])> {
    effects(output, |action| match action {
        Action::AllocateClaims { pod, claims, .. } => Some((&*pod.name, &claims[..])),
        _ => None,
    })
}

/// Effects that have to do with claims.
fn any(output: &StepOutput) -> usize {
    let of = |effect: &&Effect| {
        matches!(effect.action, Action::AllocateClaims { .. } | Action::ReleaseClaims { .. })
    };
    output.effects.iter().filter(of).count()
}

/// Node `a` is too small for the pod, and `b` is not; both have a device.
fn two_nodes() -> Vec<Input> {
    let slices = vec![slice("a", &["x", "y"]), slice("b", &["x", "y"])];
    [vec![namespace(), cpu("a", 500), cpu("b", 4_000)], slices].concat()
}

fn why(engine: &Engine) -> String {
    view(engine, "g").reason.map(|reason| reason.to_string()).unwrap_or_default()
}

#[test]
fn a_claim_on_a_node_without_room_goes_back_once_and_its_pod_goes_elsewhere() {
    for reserved in [&[][..], &["p"]] {
        let mut engine = Engine::new();
        let facts = vec![has("c", ("a", "x"), reserved), user("p", 1, "c")];
        let first = engine.step(Time(1_000), [two_nodes(), facts].concat());
        let gone = back(&first);
        assert_eq!((gone.len(), any(&first)), (1, 1));
        assert_eq!((gone[0].1, &*gone[0].2[0].key.1), ("p", "c"));
        engine.recount();
        // Nothing is asked twice, whatever wakes it before the claim shows what became of it.
        let second = engine.step(Time(2_000), vec![cpu("c", 4_000)]);
        let done = vec![answer(gone[0].0, EffectResult::Done), cpu("d", 4_000)];
        let third = engine.step(Time(3_000), done);
        assert_eq!((any(&second), any(&third)), (0, 0));
        let last = engine.step(Time(4_000), vec![Input::ResourceClaim(claim("c"))]);
        let anew = allocations(&last);
        let chosen = anew[0].2[0].chosen.as_ref().expect("it gets devices anew");
        assert_eq!(&*chosen.devices[0].device.id.1, "b");
        engine.recount();
        let bound = engine.step(Time(5_000), vec![answer(anew[0].0, EffectResult::Done)]);
        assert_eq!(binds(&bound), [("p".to_owned(), "b".to_owned())]);
    }
}

#[test]
fn a_claim_for_extended_resources_that_is_not_deleted_is_tried_again_after_a_pause() {
    let extended = ExtendedClaim {
        spec: (*devices::spec(1)).clone(),
        resources: vec![text("example.com/gpu")],
        classes: vec![text("gpu")],
        ..ExtendedClaim::default()
    };
    let left = PodClaim::Extended { claim: Arc::new(extended), left: true };
    let waits = Input::Pod(devices::member("p", 1, left, "c"));
    let mut engine = Engine::new();
    let facts = vec![namespace(), Input::ResourceClaim(claim("c")), waits];
    let first = engine.step(Time(1_000), facts);
    let mut now = Time(1_000);
    let mut tried: Vec<Effect> = first.effects.into_iter().filter(is_release).collect();
    for times in 1..4 {
        assert_eq!(tried.len(), 1, "{times}");
        let refused = EffectResult::Refused("not by you".into());
        let answered = engine.step(now.plus(Span(10)), vec![answer(&tried[0], refused)]);
        assert_eq!(any(&answered), 0, "{times}: it pauses");
        assert!(why(&engine).contains("not by you"), "{}", why(&engine));
        now = answered.next_wake.expect("it is tried again");
        let output = engine.step(now, Vec::new());
        tried = output.effects.into_iter().filter(is_release).collect();
    }
    engine.recount();
}

fn is_release(effect: &Effect) -> bool {
    matches!(effect.action, Action::ReleaseClaims { .. })
}

#[test]
fn nobody_is_sent_to_where_a_claim_is_that_is_on_its_way_back() {
    let mut engine = Engine::new();
    let facts = vec![has("c", ("a", "x"), &[]), user("p", 1, "c")];
    let first = engine.step(Time(1_000), [two_nodes(), facts].concat());
    let gone = back(&first);
    assert_eq!(gone.len(), 1);
    // It would fit where the claim is now: but that may be given back under it.
    let second = engine.step(Time(2_000), vec![cpu("a", 64_000)]);
    assert_eq!(any(&second), 0);
    engine.recount();
    // It could not be given back: it is used where it is.
    let refused = EffectResult::Conflict("changed".into());
    engine.step(Time(3_000), vec![answer(gone[0].0, refused)]);
    let last = engine.step(Time(600_000), Vec::new());
    assert_eq!(allocations(&last).len(), 1);
    engine.recount();
}

#[test]
fn what_somebody_else_has_reserved_or_uses_stays_until_that_is_over() {
    let mut engine = Engine::new();
    let facts = vec![has("c", ("a", "x"), &["p", "other"]), user("p", 1, "c")];
    let first = engine.step(Time(1_000), [two_nodes(), facts].concat());
    assert_eq!(any(&first), 0);
    let more = engine.step(Time(2_000), vec![has("c", ("a", "x"), &["p", "other", "third"])]);
    assert_eq!(any(&more), 0);
    // Only who has reserved it is another now.
    let second = engine.step(Time(3_000), vec![has("c", ("a", "x"), &["p"])]);
    assert_eq!(back(&second).len(), 1);
    engine.recount();

    // One that runs uses it, though it has not reserved it.
    let mut engine = Engine::new();
    let mut runs = devices::member("r", 1, PodClaim::Named(key("c")), "c");
    let requests = amounts(&[("cpu", 100)]);
    runs.shape = Arc::new(PodShape { requests, ..PodShape::clone(&runs.shape) });
    (runs.node, runs.phase, runs.ours) = (Some(text("a")), PodPhase::Running, false);
    runs.gang = capstan_tests::facts::pod("r", &runs.shape, &Default::default()).gang;
    let uid = runs.uid.clone();
    let facts = vec![has("c", ("a", "x"), &[]), Input::Pod(runs), user("p", 1, "c")];
    let first = engine.step(Time(1_000), [two_nodes(), facts].concat());
    assert_eq!(any(&first), 0);
    let second = engine.step(Time(2_000), vec![Input::PodGone(uid)]);
    assert_eq!(back(&second).len(), 1);
    engine.recount();
}

#[test]
fn a_claim_whose_pod_fits_nowhere_else_or_where_it_is_keeps_its_devices() {
    let user = || vec![has("c", ("a", "x"), &[]), user("p", 1, "c")];
    // No other node has devices.
    let mut engine = Engine::new();
    let nodes = vec![namespace(), cpu("a", 500), cpu("b", 4_000), slice("a", &["x"])];
    let first = engine.step(Time(1_000), [nodes, user()].concat());
    assert_eq!(any(&first), 0);
    let second = engine.step(Time(2_000), vec![cpu("c", 4_000)]);
    assert_eq!(any(&second), 0, "nor after news that do not help");
    engine.recount();
    let third = engine.step(Time(3_000), vec![slice("c", &["x"])]);
    assert_eq!(back(&third).len(), 1, "and once it would help it goes back");
    // No other node is large enough.
    let mut engine = Engine::new();
    let nodes = vec![namespace(), cpu("a", 500), cpu("b", 500)];
    let slices = vec![slice("a", &["x"]), slice("b", &["x"])];
    assert_eq!(any(&engine.step(Time(1_000), [nodes, slices, user()].concat())), 0);
    // It fits where its devices are.
    let mut engine = Engine::new();
    let nodes = vec![namespace(), cpu("a", 1_000), cpu("b", 4_000)];
    let slices = vec![slice("a", &["x"]), slice("b", &["x"])];
    let first = engine.step(Time(1_000), [nodes, slices, user()].concat());
    assert_eq!((allocations(&first).len(), any(&first)), (1, 1));
    assert!(allocations(&first)[0].2[0].chosen.is_none(), "it has its devices");
}

#[test]
fn of_a_gang_only_claims_go_back_that_keep_it_from_its_nodes() {
    let mut engine = Engine::new();
    // One of them has room on a, the other has not.
    let nodes = vec![namespace(), cpu("a", 1_500), cpu("b", 1_500)];
    let slices = vec![slice("a", &["x", "y"]), slice("b", &["x"])];
    let claims = vec![has("c", ("a", "x"), &[]), has("d", ("a", "y"), &["q"])];
    let members = vec![user("p", 2, "c"), user("q", 2, "d")];
    let first = engine.step(Time(1_000), [nodes, slices, claims, members].concat());
    let gone = back(&first);
    assert_eq!((gone.len(), any(&first)), (1, 1));
    assert_eq!((gone[0].1, &*gone[0].2[0].key.1), ("q", "d"));
    engine.recount();
    let freed = vec![Input::ResourceClaim(claim("d")), answer(gone[0].0, EffectResult::Done)];
    let last = engine.step(Time(2_000), freed);
    assert_eq!(allocations(&last).len(), 2);
    engine.recount();
}

#[test]
fn a_member_that_joins_a_gang_that_runs_gives_its_claim_back_too() {
    let mut engine = Engine::new();
    let mut runs = devices::member("p", 2, PodClaim::Named(key("c")), "c");
    (runs.node, runs.phase) = (Some(text("b")), PodPhase::Running);
    let claims = vec![has("c", ("b", "x"), &["p"]), has("d", ("a", "x"), &[])];
    let members = vec![Input::Pod(runs), user("q", 2, "d")];
    let first = engine.step(Time(1_000), [two_nodes(), claims, members].concat());
    let gone = back(&first);
    assert_eq!((gone.len(), any(&first)), (1, 1));
    assert_eq!(gone[0].1, "q");
    engine.recount();
    let freed = vec![Input::ResourceClaim(claim("d")), answer(gone[0].0, EffectResult::Done)];
    let last = engine.step(Time(2_000), freed);
    assert_eq!(allocations(&last).len(), 1);
    engine.recount();
}

#[test]
fn who_joins_a_gang_of_which_most_leave_gives_its_claim_back_too() {
    let mut engine = Engine::new();
    let runs = |(name, claim, terminating): (&str, &str, bool)| {
        let mut runs = devices::member(name, 3, PodClaim::Named(key(claim)), claim);
        (runs.node, runs.phase, runs.terminating) =
            (Some(text("b")), PodPhase::Running, terminating);
        Input::Pod(runs)
    };
    let there = [("p", "c", false), ("q", "d", true), ("r", "e", true)].map(runs);
    let nodes = vec![namespace(), cpu("a", 500), cpu("b", 8_000)];
    let slices = vec![slice("a", &["v"]), slice("b", &["v", "w", "x", "y", "z"])];
    let used = [("c", "x", "p"), ("d", "y", "q"), ("e", "z", "r")];
    let used = used.map(|(name, device, by)| has(name, ("b", device), &[by]));
    let mut claims: Vec<Input> = used.into();
    // One of those who come has devices where there is no room, the other has none.
    claims.extend([has("f", ("a", "v"), &[]), Input::ResourceClaim(claim("g"))]);
    let come = vec![user("s", 3, "f"), user("t", 3, "g")];
    let first = engine.step(Time(1_000), [nodes, slices, claims, there.to_vec(), come].concat());
    let gone = back(&first);
    assert_eq!((gone.len(), any(&first)), (1, 1));
    assert_eq!((gone[0].1, &*gone[0].2[0].key.1), ("s", "f"));
    engine.recount();
    let freed = vec![Input::ResourceClaim(claim("f")), answer(gone[0].0, EffectResult::Done)];
    let last = engine.step(Time(2_000), freed);
    assert_eq!(allocations(&last).len(), 2);
    engine.recount();
}

#[test]
fn a_write_that_fails_is_tried_again_after_a_pause() {
    let mut engine = Engine::new();
    let facts = vec![has("c", ("a", "x"), &[]), user("p", 1, "c")];
    let first = engine.step(Time(1_000), [two_nodes(), facts].concat());
    let failed = answer(back(&first)[0].0, EffectResult::Refused(text("no right to")));
    let second = engine.step(Time(2_000), vec![failed]);
    assert_eq!(any(&second), 0);
    let says = "devices of c are where it does not fit, nor given back: no right to";
    assert!(why(&engine).contains(says), "{}", why(&engine));
    let again = engine.step(second.next_wake.expect("a pause"), Vec::new());
    assert_eq!(back(&again).len(), 1);
    engine.recount();
}

#[test]
fn nobody_is_stopped_for_room_that_an_idle_claim_stands_in_the_way_of() {
    let mut engine = Engine::new();
    let shape = Arc::new(PodShape { requests: amounts(&[("cpu", 1_000)]), ..PodShape::default() });
    let mut low = capstan_tests::facts::pod("low", &shape, &Default::default());
    (low.node, low.phase, low.priority) = (Some(text("a")), PodPhase::Running, -10);
    let nodes = vec![namespace(), cpu("a", 1_000), cpu("b", 4_000)];
    let slices = vec![slice("a", &["x"]), slice("b", &["x"])];
    let facts = vec![Input::Pod(low), has("c", ("a", "x"), &[]), user("p", 1, "c")];
    let first = engine.step(Time(1_000), [nodes, slices, facts].concat());
    assert_eq!((back(&first).len(), first.effects.iter().filter(evicts).count()), (1, 0));
    // Nor while it is on its way back.
    let second = engine.step(Time(2_000), vec![cpu("c", 100)]);
    assert_eq!((any(&second), second.effects.iter().filter(evicts).count()), (0, 0));
    let done = answer(back(&first)[0].0, EffectResult::Done);
    let last = engine.step(Time(3_000), vec![Input::ResourceClaim(claim("c")), done]);
    assert_eq!(allocations(&last).len(), 1);
    engine.recount();
}

fn evicts(effect: &&Effect) -> bool {
    matches!(effect.action, Action::Evict { .. } | Action::SuspendOwner { .. })
}

/// A pod by itself that names a claim.
fn alone(name: &str, priority: i32, requests: &[(&str, i64)], claim: &str) -> PodFacts {
    let claims = vec![PodClaim::Named(key(claim))];
    let shape = PodShape { requests: amounts(requests), claims, ..PodShape::default() };
    let claims = Some(Arc::new(vec![text(claim)]));
    PodFacts { priority, claims, ..facts::pod(name, &Arc::new(shape), &in_queue(None)) }
}

/// A pod that takes so much of a node, and that nobody stops.
fn taken(at: &str, milli: i64) -> Input {
    let shape = PodShape { requests: amounts(&[("cpu", milli)]), ..PodShape::default() };
    let pod = facts::pod(&format!("on-{at}"), &Arc::new(shape), &in_queue(None));
    Input::Pod(PodFacts { node: Some(text(at)), phase: PodPhase::Running, priority: 100, ..pod })
}

/// Node `a` is large and has no devices; of the small node `b`, which has these, half is taken.
fn half_of_b(devices: &[&str]) -> Vec<Input> {
    let nodes = vec![namespace(), cpu("a", 8_000), cpu("b", 4_000)];
    [nodes, vec![slice("b", devices), taken("b", 2_000)]].concat()
}

/// One that fits nowhere as long as that is so, and has a device of `b`.
fn large(name: &str, priority: i32, claim: &str) -> Input {
    Input::Pod(alone(name, priority, &[("cpu", 4_000)], claim))
}

/// One that fits there, and has no devices yet.
fn small(name: &str, priority: i32, claim: &str) -> Input {
    Input::Pod(alone(name, priority, &[("cpu", 1_000)], claim))
}

fn open(name: &str) -> Input {
    Input::ResourceClaim(claim(name))
}

/// Who gives which claim back.
fn givers(output: &StepOutput) -> Vec<(&str, &str)> {
    let all = back(output).into_iter();
    let of = all.flat_map(|(_, pod, claims)| claims.iter().map(move |it| (pod, &*it.key.1)));
    of.collect()
}

/// Who gets devices.
fn takers(output: &StepOutput) -> Vec<&str> {
    allocations(output).into_iter().map(|(_, pod, _)| pod).collect()
}

fn done(output: &StepOutput) -> Vec<Input> {
    back(output).into_iter().map(|(effect, ..)| answer(effect, EffectResult::Done)).collect()
}

#[test]
fn what_one_who_fits_nowhere_keeps_is_for_who_fits_once_and_for_all() {
    // Who goes first of the two, and whether the claim is reserved, changes nothing.
    let x = &["x"][..];
    for (reserved, priority) in [(x, 0), (x, 5), (x, -5), (&[][..], 5)] {
        let mut engine = Engine::new();
        let claims = vec![has("d", ("b", "x"), reserved), open("c")];
        let pods = vec![large("x", 0, "d"), small("p", priority, "c")];
        let first = engine.step(Time(1_000), [half_of_b(&["x"]), claims, pods].concat());
        assert_eq!((givers(&first), any(&first)), (vec![("x", "d")], 1), "{priority}");
        engine.recount();
        // Nothing is asked twice, whatever wakes it before the claim shows what became of it.
        let second = engine.step(Time(2_000), vec![cpu("c", 100)]);
        let third = engine.step(Time(3_000), [done(&first), vec![cpu("d", 100)]].concat());
        assert_eq!((any(&second), any(&third)), (0, 0));
        let last = engine.step(Time(4_000), vec![open("d")]);
        assert_eq!((takers(&last), any(&last)), (vec!["p"], 1));
        engine.recount();
        if priority < 0 {
            continue;
        }
        // Who gave it up gets it once it fits, and no sooner.
        let shown = vec![answer(allocations(&last)[0].0, EffectResult::Done)];
        let bound = engine.step(Time(5_000), shown);
        assert_eq!((binds(&bound).len(), any(&bound)), (1, 0));
        let later = engine.step(Time(6_000), vec![Input::PodGone(text("on-b"))]);
        assert_eq!(any(&later), 0, "there is not room for both");
        let over = engine.step(Time(7_000), vec![Input::PodGone(text("p"))]);
        assert_eq!(takers(&over), ["x"]);
        engine.recount();
    }
}

#[test]
fn who_would_start_where_its_claim_is_keeps_it() {
    for priority in [-5, 5] {
        let mut engine = Engine::new();
        let nodes = vec![namespace(), cpu("a", 8_000), cpu("b", 4_000), slice("b", &["x"])];
        let claims = vec![has("d", ("b", "x"), &["x"]), open("c")];
        let pods = vec![large("x", 0, "d"), small("p", priority, "c")];
        let first = engine.step(Time(1_000), [nodes, claims, pods].concat());
        assert_eq!((takers(&first), any(&first)), (vec!["x"], 1), "{priority}");
        engine.recount();
    }
}

#[test]
fn what_others_keep_stays_where_that_starts_nobody() {
    // Two are asked for, or another scheduler's pod has reserved the one, or some pod that is not
    // looked at: it lacks the other of its gang.
    let two = || ResourceClaimFacts { spec: devices::spec(2), ..claim("c") };
    let foreign = || Input::Pod(PodFacts { ours: false, ..alone("y", 0, &[("cpu", 1)], "d") });
    let cases = [
        (vec![Input::ResourceClaim(two()), large("x", 0, "d")], &["x"][..]),
        (vec![open("c"), large("x", 0, "d"), foreign()], &["x", "y"][..]),
        (vec![open("c"), user("x", 2, "d")], &["x"][..]),
    ];
    for (case, reserved) in cases {
        let mut engine = Engine::new();
        let facts = vec![has("d", ("b", "x"), reserved), small("p", 5, "c")];
        let first = engine.step(Time(1_000), [half_of_b(&["x"]), facts, case].concat());
        assert_eq!(any(&first), 0);
        engine.recount();
    }
}

#[test]
fn who_is_last_in_order_gives_up_its_own_and_nobody_beside() {
    let mut engine = Engine::new();
    let claims = ["d", "e", "f"].map(|name| has(name, ("b", name), &[]));
    let pods = [("x", 3, "d"), ("y", 1, "e"), ("z", 2, "f")];
    let pods = pods.map(|(name, priority, claim)| large(name, priority, claim));
    let facts = [half_of_b(&["d", "e", "f"]), claims.into(), pods.into()].concat();
    assert_eq!(any(&engine.step(Time(1_000), facts)), 0, "nobody asks for them");
    let first = engine.step(Time(2_000), vec![open("c"), small("p", 5, "c")]);
    assert_eq!((givers(&first), any(&first)), (vec![("y", "e")], 1));
    engine.recount();
}

#[test]
fn two_of_which_each_has_what_the_other_needs_both_start() {
    let mut engine = Engine::new();
    let nodes = [("a", [("cpu", 1_000), ("disk", 1)]), ("b", [("cpu", 4_000), ("disk", 0)])];
    let nodes = nodes.map(|(name, has)| Input::Node(node(name, &has).into()));
    let mut facts = vec![namespace(), slice("a", &["x"]), slice("b", &["x"])];
    facts.extend(nodes);
    facts.extend([has("c", ("a", "x"), &["p"]), has("d", ("b", "x"), &["q"])]);
    let on_b = alone("p", 0, &[("cpu", 4_000)], "c");
    let on_a = alone("q", 0, &[("cpu", 1_000), ("disk", 1)], "d");
    facts.extend([on_b, on_a].map(Input::Pod));
    let first = engine.step(Time(1_000), facts);
    let mut give = givers(&first);
    give.sort_unstable();
    assert_eq!(give, [("p", "c"), ("q", "d")]);
    engine.recount();
    let shown = [done(&first), vec![open("c"), open("d")]].concat();
    let second = engine.step(Time(2_000), shown);
    let mut both = takers(&second);
    both.sort_unstable();
    assert_eq!((both, any(&second)), (vec!["p", "q"], 2));
    engine.recount();
}

#[test]
fn nobody_is_stopped_for_devices_that_somebody_keeps_in_vain() {
    let mut engine = Engine::new();
    let low = PodFacts {
        node: Some(text("b")),
        phase: PodPhase::Running,
        ..alone("low", -10, &[("cpu", 500)], "l")
    };
    let claims = vec![has("d", ("b", "x"), &["x"]), has("l", ("b", "y"), &["low"]), open("c")];
    let pods = vec![Input::Pod(low), large("x", 0, "d"), small("p", 5, "c")];
    let first = engine.step(Time(1_000), [half_of_b(&["x", "y"]), claims, pods].concat());
    let stopped = |output: &StepOutput| output.effects.iter().filter(evicts).count();
    assert_eq!((givers(&first), stopped(&first)), (vec![("x", "d")], 0));
    // Nor while it is on its way back, and nobody gives up more for it.
    let second = engine.step(Time(2_000), vec![cpu("c", 100)]);
    assert_eq!((any(&second), stopped(&second)), (0, 0));
    let last = engine.step(Time(3_000), [done(&first), vec![open("d")]].concat());
    assert_eq!((takers(&last), stopped(&last)), (vec!["p"], 0));
    engine.recount();
}

#[test]
fn who_was_looked_at_before_gets_what_somebody_keeps_in_vain_later() {
    let mut engine = Engine::new();
    let claims = vec![has("d", ("b", "x"), &["x"]), open("c")];
    let pods = vec![user("x", 2, "d"), small("p", 0, "c")];
    let first = engine.step(Time(1_000), [half_of_b(&["x"]), claims, pods].concat());
    assert_eq!(any(&first), 0, "a gang that is not whole is not looked at");
    // It is whole now, and finds no place: that is no news for the other, which is woken for it.
    let shape = PodShape { requests: amounts(&[("cpu", 64_000)]), ..PodShape::default() };
    let gang = devices::member("x", 2, PodClaim::Named(key("d")), "d").gang;
    let huge = facts::pod("huge", &Arc::new(shape), &in_queue(None));
    let second = engine.step(Time(2_000), vec![Input::Pod(PodFacts { gang, ..huge })]);
    assert_eq!((givers(&second), any(&second)), (vec![("x", "d")], 1));
    engine.recount();
}

#[test]
fn the_first_of_a_strict_queue_takes_from_those_behind_it() {
    let quota = group(&[(DEFAULT, &[("cpu", nominal(100_000))])]);
    let mut queue = cluster_queue("main", None, quota);
    queue.strategy = QueueingStrategy::StrictFifo;
    let queues = vec![
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::ClusterQueue(queue),
        Input::LocalQueue(local_queue("main")),
    ];
    let queued = |name: &str, priority: i32, claim: &str| {
        let pod = alone(name, priority, &[("cpu", 1_000)], claim);
        Input::Pod(PodFacts { wishes: in_queue(Some("main")), ..pod })
    };
    let mut engine = Engine::new();
    let claims = vec![has("d", ("b", "x"), &["x"]), open("c")];
    // The second would fit, and has no turn before the first.
    let pods = vec![queued("x", 1, "d"), queued("p", 5, "c")];
    let first = engine.step(Time(1_000), [half_of_b(&["x"]), queues, claims, pods].concat());
    assert_eq!((givers(&first), any(&first)), (vec![("x", "d")], 1));
    engine.recount();
    let second = engine.step(Time(2_000), [done(&first), vec![open("d")]].concat());
    assert_eq!((takers(&second), any(&second)), (vec!["p"], 1));
    engine.recount();
}

#[test]
fn work_that_only_lacks_quota_keeps_what_it_has_where_it_fits() {
    for room in [4_000, 500] {
        let quota = group(&[(DEFAULT, &[("cpu", nominal(10))])]);
        let queues = vec![
            Input::Flavor(flavor(DEFAULT, &[])),
            Input::ClusterQueue(cluster_queue("main", None, quota)),
            Input::LocalQueue(local_queue("main")),
        ];
        let nodes = vec![namespace(), cpu("a", 8_000), cpu("b", room), slice("b", &["x"])];
        let claims = vec![has("d", ("b", "x"), &["x"]), open("c")];
        let waits = alone("x", 0, &[("cpu", 1_000)], "d");
        let waits = Input::Pod(PodFacts { wishes: in_queue(Some("main")), ..waits });
        let other = Input::Pod(alone("p", 0, &[("cpu", 100)], "c"));
        let mut engine = Engine::new();
        let facts = [nodes, queues, claims, vec![waits, other]].concat();
        let first = engine.step(Time(1_000), facts);
        let expected = if room > 1_000 { Vec::new() } else { vec![("x", "d")] };
        assert_eq!(givers(&first), expected, "{room}");
        engine.recount();
    }
}

#[test]
fn who_asked_for_what_is_not_given_back_waits_a_while() {
    let mut engine = Engine::new();
    let claims = vec![has("d", ("b", "x"), &["x"]), open("c")];
    let pods = vec![large("x", 0, "d"), small("p", 0, "c")];
    let first = engine.step(Time(1_000), [half_of_b(&["x"]), claims, pods].concat());
    let refused = EffectResult::Refused(text("no right to"));
    let second = engine.step(Time(2_000), vec![answer(back(&first)[0].0, refused)]);
    assert_eq!(any(&second), 0);
    let reason = |name| view(&engine, name).reason.map(|why| why.to_string()).unwrap_or_default();
    let says = "devices of d are kept by who fits nowhere, nor given back: no right to";
    assert!(reason("p").contains(says), "{}", reason("p"));
    assert!(reason("x").contains("cpu"), "{}", reason("x"));
    let again = engine.step(second.next_wake.expect("a pause"), Vec::new());
    assert_eq!(givers(&again), [("x", "d")]);
    engine.recount();
}
