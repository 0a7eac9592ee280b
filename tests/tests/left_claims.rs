//! Claims on devices that a preemptor shares with those whom it stops: they are as good as free
//! once all these are gone, wherever the preemptor goes, and nobody else takes them up meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    AllocatedDevice, Allocation, Input, NodeSelector, NodeSelectorTerm, Operator, PodClaim,
    PodFacts, PodPhase, PodShape, Requirement, ResourceClaimFacts,
};
use capstan_core::plan::{Action, Effect, EffectResult, StepOutput};
use capstan_core::time::Time;
use capstan_tests::devices::{self, key, slice};
use capstan_tests::facts::{self, amounts, namespace, node, text};
use capstan_tests::hand::{answer, binds, evicted, view};

fn cpu(name: &str, milli: i64) -> Input {
    Input::Node(node(name, &[("cpu", milli)]).into())
}

/// The claim that all of them name, for one device.
fn claim() -> ResourceClaimFacts {
    devices::claim("shared", false, devices::spec(1))
}

/// The same with the device `x` of a node.
fn on(at: &str) -> Input {
    reserved(at, &[])
}

/// The same, which these have reserved.
fn reserved(at: &str, by: &[&str]) -> Input {
    let id = (text("d"), text(at), text("x"));
    let devices = vec![AllocatedDevice { id, share: false, consumed: BTreeMap::new() }];
    let (key, values) = (text("metadata.name"), vec![text(at)]);
    let only = Requirement { key, operator: Operator::In, values };
    let term = NodeSelectorTerm { labels: Vec::new(), fields: vec![only] };
    let nodes = Some(NodeSelector { terms: vec![term] });
    let reserved = by.iter().map(text).collect();
    let allocation = Allocation { nodes, devices, reserved, ..Allocation::default() };
    let allocation = Some(Arc::new(allocation));
    Input::ResourceClaim(ResourceClaimFacts { allocation, ..claim() })
}

/// A pod by itself that names the claim.
fn user(name: &str, priority: i32, milli: i64) -> PodFacts {
    let member = devices::member(name, 1, PodClaim::Named(key("shared")), "shared");
    let requests = amounts(&[("cpu", milli)]);
    let shape = Arc::new(PodShape { requests, ..PodShape::clone(&member.shape) });
    let gang = facts::pod(name, &shape, &member.wishes).gang;
    PodFacts { priority, shape, gang, ..member }
}

fn runs(pod: PodFacts, at: &str) -> Input {
    Input::Pod(PodFacts { node: Some(text(at)), phase: PodPhase::Running, ..pod })
}

/// Pods that get their claims, each with its node.
fn granted(output: &StepOutput) -> Vec<(String, String)> {
    let of = output.effects.iter().filter_map(|effect| match &effect.action {
        Action::AllocateClaims { pod, node, .. } => Some((pod.name.to_string(), node.to_string())),
        _ => None,
    });
    let mut all: Vec<(String, String)> = of.collect();
    all.sort();
    all
}

/// Pods that give claims back, with the effects that do so.
fn given_back(output: &StepOutput) -> Vec<(&str, &Effect)> {
    let effects = output.effects.iter().filter_map(|effect| match &effect.action {
        Action::ReleaseClaims { pod, .. } => Some((&*pod.name, effect)),
        _ => None,
    });
    effects.collect()
}

/// Why a pod waits.
fn why(engine: &Engine, name: &str) -> String {
    view(engine, name).reason.map(|reason| reason.to_string()).unwrap_or_default()
}

/// Somebody runs on the small of two nodes with the claim's device; `by`: who has reserved it.
fn two_nodes(by: &[&str]) -> Engine {
    let mut engine = Engine::new();
    let low = runs(user("low", 0, 1_000), "a");
    let mut inputs = vec![namespace(), cpu("a", 2_000), cpu("b", 8_000), reserved("a", by), low];
    inputs.extend([slice("a", &["x"]), slice("b", &["x"])]);
    engine.observe(Time(10), inputs);
    engine
}

fn done(output: &StepOutput) -> Vec<Input> {
    output.effects.iter().map(|effect| answer(effect, EffectResult::Done)).collect()
}

/// Somebody runs on the small node with the claim's device, and work comes that fits on the large
/// one only. Who comes in the victim's stead does not keep the claim where it is.
fn plays(mut engine: Engine) {
    let first = engine.step(Time(11), vec![Input::Pod(user("high", 5, 4_000))]);
    assert_eq!((evicted(&first), granted(&first)), (vec!["low".to_owned()], Vec::new()));
    engine.recount();
    let second = engine.step(Time(12), vec![Input::Pod(user("next", 0, 1_000))]);
    assert_eq!((evicted(&second), granted(&second)), (Vec::new(), Vec::new()));
    let said = why(&engine, "next");
    assert!(said.contains("resourceclaim \"shared\" is kept for others"), "{said}");
    let third = engine.step(Time(13), vec![Input::PodGone(text("low"))]);
    assert_eq!((evicted(&third), granted(&third)), (Vec::new(), Vec::new()));
    let said = why(&engine, "high");
    assert!(said.starts_with("waits until the devices of claim team/shared are free"), "{said}");
    engine.recount();
    let fourth = engine.step(Time(14), vec![Input::ResourceClaim(claim())]);
    let both = ["high", "next"].map(|name| (name.to_owned(), "b".to_owned()));
    assert_eq!((evicted(&fourth), granted(&fourth)), (Vec::new(), both.to_vec()));
    engine.recount();
}

#[test]
fn a_claim_goes_where_the_preemptor_goes() {
    let mut engine = Engine::new();
    let low = runs(user("low", 0, 1_000), "a");
    let mut inputs = vec![namespace(), cpu("a", 2_000), cpu("b", 8_000), on("a"), low];
    inputs.extend([slice("a", &["x"]), slice("b", &["x"])]);
    engine.observe(Time(10), inputs);
    plays(engine);
}

/// What is held for the claim since then counts no more than what the API shows.
#[test]
fn so_does_one_that_this_engine_gave_to_the_victim() {
    let mut engine = Engine::new();
    let low = user("low", 0, 1_000);
    let mut inputs = vec![namespace(), cpu("a", 2_000), slice("a", &["x"])];
    inputs.extend([Input::ResourceClaim(claim()), Input::Pod(low.clone())]);
    let first = engine.step(Time(1), inputs);
    assert_eq!(granted(&first), [("low".to_owned(), "a".to_owned())]);
    let second = engine.step(Time(2), done(&first));
    let mut shown = done(&second);
    shown.extend([on("a"), runs(low, "a")]);
    engine.step(Time(3), shown);
    engine.observe(Time(10), vec![cpu("b", 8_000), slice("b", &["x"])]);
    plays(engine);
}

/// The preemptor needs the claim and one device more, of one that there is: nobody leaves in vain.
#[test]
fn a_claim_that_both_need_is_not_counted_twice() {
    let mut engine = Engine::new();
    let low = runs(user("low", 0, 1_000), "a");
    engine.observe(Time(0), vec![namespace(), cpu("a", 8_000), slice("a", &["x"]), on("a"), low]);
    let mut high = user("high", 5, 1_000);
    let mut shape = PodShape::clone(&high.shape);
    shape.claims.push(PodClaim::Named(key("more")));
    (high.shape, high.claims) =
        (Arc::new(shape), Some(Arc::new(vec![text("shared"), text("more")])));
    let more = devices::claim("more", false, devices::spec(1));
    let output = engine.step(Time(1), vec![Input::ResourceClaim(more), Input::Pod(high)]);
    assert_eq!(evicted(&output), Vec::<String>::new());
    engine.recount();
}

/// A claim keeps its devices for whoever has reserved it: nobody leaves before that is over.
#[test]
fn nobody_leaves_for_a_claim_that_somebody_else_has_reserved() {
    let foreign = || Input::Pod(PodFacts { ours: false, ..user("x", 9, 1_000) });
    for (known, over) in [(false, reserved("a", &["low"])), (true, Input::PodGone(text("x")))] {
        let mut engine = two_nodes(&["low", "x"]);
        if known {
            engine.observe(Time(10), vec![foreign()]);
        }
        let first = engine.step(Time(11), vec![Input::Pod(user("high", 5, 4_000))]);
        assert_eq!((evicted(&first), given_back(&first).len()), (Vec::new(), 0));
        let said = why(&engine, "high");
        assert!(!said.is_empty() && !said.contains("waits until"), "{said}");
        engine.recount();
        let second = engine.step(Time(12), vec![over]);
        assert_eq!(evicted(&second), ["low"]);
        engine.recount();
    }
}

/// What the preemptor itself has reserved stands in its way only until it has given that back.
#[test]
fn a_preemptor_gives_its_own_reservation_back_before_anybody_leaves() {
    let mut engine = two_nodes(&["low", "high"]);
    let first = engine.step(Time(11), vec![Input::Pod(user("high", 5, 4_000))]);
    let back = given_back(&first);
    assert_eq!((evicted(&first), back.len(), back[0].0), (Vec::new(), 1, "high"));
    engine.recount();
    let shown = vec![answer(back[0].1, EffectResult::Done), reserved("a", &["low"])];
    let second = engine.step(Time(12), shown);
    assert_eq!((evicted(&second), given_back(&second).len()), (vec!["low".to_owned()], 0));
    engine.recount();
}

/// Somebody reserves the claim when victims are on their way: who waited is decided anew once they
/// are gone, and others may have its room.
#[test]
fn a_reservation_that_turns_up_later_is_not_waited_for() {
    for before in [true, false] {
        let mut engine = two_nodes(&["low"]);
        let first = engine.step(Time(11), vec![Input::Pod(user("high", 5, 4_000))]);
        assert_eq!(evicted(&first), ["low"]);
        let (gone, shown) = (Input::PodGone(text("low")), reserved("a", &["low", "x"]));
        let news = if before { [shown, gone] } else { [gone, shown] };
        for (at, fact) in [12, 13].into_iter().zip(news) {
            engine.step(Time(at), vec![fact]);
            engine.recount();
        }
        let said = why(&engine, "high");
        assert!(!said.is_empty() && !said.contains("waits until"), "{said}");
        let shape = PodShape { requests: amounts(&[("cpu", 6_000)]), ..PodShape::default() };
        let other = facts::pod("other", &Arc::new(shape), &facts::in_queue(None));
        let next = engine.step(Time(14), vec![Input::Pod(other)]);
        assert_eq!(binds(&next), [("other".to_owned(), "b".to_owned())]);
        engine.recount();
    }
}

/// Nobody is sent to devices that a claim is about to lose: who shares it goes where it is then, or
/// to where it is still if it was not given back after all.
#[test]
fn a_claim_that_is_on_its_way_back_is_for_nobody() {
    let pod = |name: &str, at: &str| (name.to_owned(), at.to_owned());
    for refused in [false, true] {
        let mut engine = Engine::new();
        let mut facts = vec![namespace(), cpu("a", 2_000), cpu("b", 8_000), on("a")];
        facts.extend([slice("a", &["x"]), slice("b", &["x"])]);
        engine.observe(Time(10), facts);
        let come = [user("large", 5, 4_000), user("small", 1, 1_000)].map(Input::Pod);
        let first = engine.step(Time(11), come.into());
        let back = given_back(&first);
        assert_eq!((back.len(), back[0].0, granted(&first)), (1, "large", Vec::new()));
        let said = why(&engine, "small");
        assert!(said.contains("resourceclaim \"shared\" is being given back"), "{said}");
        engine.recount();
        let (answered, expected) = match refused {
            true => {
                let result = EffectResult::Refused(text("not now"));
                (vec![answer(back[0].1, result)], vec![pod("small", "a")])
            }
            false => {
                let done = answer(back[0].1, EffectResult::Done);
                let expected = vec![pod("large", "b"), pod("small", "b")];
                (vec![Input::ResourceClaim(claim()), done], expected)
            }
        };
        assert_eq!(granted(&engine.step(Time(12), answered)), expected);
        engine.recount();
    }
}

/// A claim that nobody uses has a device of the small of two nodes; `by`: who has reserved it.
fn idle(by: &[&str]) -> Engine {
    let mut engine = Engine::new();
    let mut facts = vec![namespace(), cpu("a", 2_000), cpu("b", 8_000), reserved("a", by)];
    facts.extend([slice("a", &["x"]), slice("b", &["x"])]);
    engine.observe(Time(10), facts);
    engine
}

/// Names of pods that give claims back.
fn givers(output: &StepOutput) -> Vec<&str> {
    let mut names: Vec<&str> = given_back(output).iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names
}

/// What answers that a pod has given its claim back.
fn answered(output: &StepOutput, name: &str, result: EffectResult) -> Input {
    let back = given_back(output);
    let (_, effect) = back.iter().find(|(of, _)| *of == name).expect("it gives one back");
    answer(effect, result)
}

#[test]
fn two_that_have_reserved_a_claim_do_not_wait_for_each_other() {
    let mut engine = idle(&["p", "q"]);
    let come = [user("p", 5, 4_000), user("q", 5, 4_000)].map(Input::Pod);
    let first = engine.step(Time(11), come.into());
    assert_eq!((givers(&first), granted(&first)), (vec!["p", "q"], Vec::new()));
    engine.recount();
    // Nobody is sent there, nor gives back once more, while one of them is still to be seen.
    let shown = vec![answered(&first, "p", EffectResult::Done), reserved("a", &["q"])];
    let second = engine.step(Time(12), shown);
    assert_eq!((given_back(&second).len(), granted(&second)), (0, Vec::new()));
    engine.recount();
    let shown = vec![answered(&first, "q", EffectResult::Done), Input::ResourceClaim(claim())];
    let third = engine.step(Time(13), shown);
    let both = ["p", "q"].map(|name| (name.to_owned(), "b".to_owned()));
    assert_eq!((given_back(&third).len(), granted(&third)), (0, both.to_vec()));
    engine.recount();
}

#[test]
fn who_waits_and_fits_nowhere_is_taken_off_a_claim_for_who_would_fit() {
    let mut engine = idle(&["p", "huge"]);
    let come = [user("p", 5, 4_000), user("huge", 1, 50_000)].map(Input::Pod);
    let first = engine.step(Time(11), come.into());
    assert_eq!(givers(&first), ["p"]);
    let shown = vec![answered(&first, "p", EffectResult::Done), reserved("a", &["huge"])];
    let second = engine.step(Time(12), shown);
    assert_eq!((givers(&second), granted(&second)), (vec!["huge"], Vec::new()));
    engine.recount();
    // What fails is tried again after a pause of who needs it.
    let refused = EffectResult::Refused(text("not now"));
    let third = engine.step(Time(13), vec![answered(&second, "huge", refused)]);
    assert_eq!(given_back(&third).len(), 0);
    assert!(why(&engine, "p").contains("nor given back: not now"), "{}", why(&engine, "p"));
    let fourth = engine.step(third.next_wake.expect("a pause"), Vec::new());
    assert_eq!(givers(&fourth), ["huge"]);
    engine.recount();
    let done = answered(&fourth, "huge", EffectResult::Done);
    let last = engine.step(Time(20_000), vec![done, Input::ResourceClaim(claim())]);
    assert_eq!(granted(&last), [("p".to_owned(), "b".to_owned())]);
    engine.recount();
}

#[test]
fn what_a_pod_of_another_scheduler_has_reserved_too_stays_reserved() {
    for users in [false, true] {
        let by: &[&str] = if users { &["low", "p", "x"] } else { &["p", "x"] };
        let mut engine = if users { two_nodes(by) } else { idle(by) };
        let foreign = PodFacts { ours: false, ..user("x", 9, 1_000) };
        let come = [foreign, user("p", 5, 4_000)].map(Input::Pod);
        let first = engine.step(Time(11), come.into());
        assert_eq!((given_back(&first).len(), granted(&first)), (0, Vec::new()));
        engine.recount();
    }
}

/// A claim in use comes free for whom its user leaves once all have taken themselves off who wait.
#[test]
fn all_who_wait_give_back_what_they_have_reserved_of_a_claim_in_use() {
    let mut engine = two_nodes(&["low", "p", "q"]);
    let come = [user("p", 5, 4_000), user("q", 4, 4_000)].map(Input::Pod);
    let first = engine.step(Time(11), come.into());
    assert_eq!((givers(&first), evicted(&first)), (vec!["p", "q"], Vec::new()));
    engine.recount();
    let mut shown = vec![reserved("a", &["low"])];
    shown.extend(done(&first));
    let second = engine.step(Time(12), shown);
    assert_eq!((given_back(&second).len(), evicted(&second)), (0, vec!["low".to_owned()]));
    engine.recount();
}

/// More would have to leave if the preemptor kept what it has reserved than if it did not.
#[test]
fn nobody_leaves_beside_who_must_for_what_a_preemptor_has_reserved_itself() {
    let mut engine = Engine::new();
    let shape = PodShape { requests: amounts(&[("cpu", 3_000)]), ..PodShape::default() };
    let mid = facts::pod("mid", &Arc::new(shape), &facts::in_queue(None));
    let mid = PodFacts { priority: 4, ..mid };
    let by = &["low", "high"];
    let mut inputs = vec![namespace(), cpu("a", 4_000), cpu("b", 8_000), reserved("a", by)];
    inputs.extend([slice("a", &["x"]), slice("b", &["x"])]);
    inputs.extend([runs(user("low", 0, 1_000), "a"), runs(mid, "a")]);
    engine.observe(Time(10), inputs);
    let first = engine.step(Time(11), vec![Input::Pod(user("high", 5, 4_000))]);
    assert_eq!((givers(&first), evicted(&first)), (vec!["high"], Vec::new()));
    engine.recount();
    // Nobody does before the answer, nor before the claim shows it.
    let early = engine.step(Time(12), vec![cpu("c", 100)]);
    let done = answered(&first, "high", EffectResult::Done);
    let told = engine.step(Time(13), vec![done]);
    for output in [early, told] {
        assert_eq!((given_back(&output).len(), evicted(&output)), (0, Vec::new()));
    }
    let last = engine.step(Time(14), vec![reserved("a", &["low"])]);
    assert_eq!((given_back(&last).len(), evicted(&last)), (0, vec!["low".to_owned()]));
    engine.recount();
}
