//! Claims that were found with devices which nobody uses: they go back where their pods fit
//! elsewhere only, and stay as they are where that wins nothing. Those that an earlier try left are
//! deleted, however long that takes.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    AllocatedDevice, Allocation, ExtendedClaim, Input, NodeSelector, NodeSelectorTerm, Operator,
    PodClaim, PodPhase, PodShape, Requirement, ResourceClaimFacts,
};
use capstan_core::plan::{Action, ClaimGrant, Effect, EffectResult, Seen, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::devices::{self, key, slice};
use capstan_tests::facts::{amounts, namespace, node, text};
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
