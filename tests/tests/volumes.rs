//! Claims of a gang between the decision and the binds: what is written, what is waited for, and
//! what becomes of the gang when it does not come. Each test feeds facts and answers by hand.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    AccessModes, Attach, AttachmentFacts, ClaimFacts, ClaimUse, Input, NodeFacts, OwnerFacts,
    PodFacts, PodPhase, PodShape, PodVolumes, StorageFact, TakenOver, VolumeFacts,
};
use capstan_core::plan::{Action, Effect, EffectResult, State, StepOutput, VolumeSetting};
use capstan_core::time::{Span, Time};
use capstan_tests::disks::{claim, class, key, volume};
use capstan_tests::facts::{
    GPU, TEAM, gang, in_queue, job, labels, node, pod, pods_of, shape, text,
};
use capstan_tests::hand::{answer, binds, gpu_node, one_queue, view};

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

fn is(claim: ClaimFacts) -> Input {
    Input::Storage(StorageFact::Claim(claim))
}

fn there(volume: VolumeFacts) -> Input {
    Input::Storage(StorageFact::Volume(volume))
}

/// A gang of two with one GPU each, each with a claim of its own.
fn pair() -> Vec<PodFacts> {
    let mut pods = gang("pair", 2, None, &shape(&[(GPU, 1)]), &in_queue(None));
    for (at, pod) in pods.iter_mut().enumerate() {
        let claims = vec![ClaimUse { claim: key(&format!("c-{at}")), made_for: None }];
        let volumes = Some(Arc::new(PodVolumes { claims, ..PodVolumes::default() }));
        pod.shape = Arc::new(PodShape { volumes, ..PodShape::clone(&pod.shape) });
    }
    pods
}

/// Two nodes, a volume on each, and the gang.
fn local() -> Vec<Input> {
    let ground = [gpu_node("a", 8), gpu_node("b", 8), Input::Storage(class(None))];
    let volumes = [there(volume("v-a", "a")), there(volume("v-b", "b"))];
    let claims = [is(claim("c-0")), is(claim("c-1"))];
    let pods = pair().into_iter().map(Input::Pod);
    ground.into_iter().chain(volumes).chain(claims).chain(pods).collect()
}

/// Two nodes, a class that makes volumes, and the gang.
fn made() -> Vec<Input> {
    let ground = [gpu_node("a", 8), gpu_node("b", 8), Input::Storage(class(Some("disks")))];
    let claims = [is(claim("c-0")), is(claim("c-1"))];
    let pods = pair().into_iter().map(Input::Pod);
    ground.into_iter().chain(claims).chain(pods).collect()
}

/// What a step writes of claims, by effect.
fn selects(output: &StepOutput) -> Vec<(Effect, Vec<VolumeSetting>)> {
    let of = |effect: &Effect| match &effect.action {
        Action::SelectVolumes { settings, .. } => Some((effect.clone(), settings.clone())),
        _ => None,
    };
    output.effects.iter().filter_map(of).collect()
}

fn done(output: &StepOutput) -> Vec<Input> {
    selects(output).iter().map(|(effect, _)| answer(effect, EffectResult::Done)).collect()
}

/// A claim and its volume, once a controller bound them.
fn bound(setting: &VolumeSetting) -> [Input; 2] {
    let name = setting.volume.as_ref().expect("a volume was found");
    let node = setting.node.to_string();
    let of = Some((setting.claim.clone(), Some(setting.uid.clone())));
    let volume = VolumeFacts { claim: of, available: false, ..volume(name, &node) };
    let claim = claim(&setting.claim.name);
    let claim = ClaimFacts { volume: Some(name.clone()), bound: true, ..claim };
    [there(volume), is(claim)]
}

fn waits(engine: &Engine) -> Option<String> {
    match view(engine, "pair").reason {
        Some(Reason::Backoff { failure, .. }) => Some(failure.to_string()),
        _ => None,
    }
}

fn reason(engine: &Engine) -> Option<String> {
    view(engine, "pair").reason.map(|reason| reason.to_string())
}

/// A pod by itself takes the smallest volume that it reaches, and of equal ones that which no other
/// node reaches, whatever their names.
#[test]
fn a_pod_takes_the_smallest_volume_and_the_one_of_least_use_to_others() {
    let everywhere = VolumeFacts { nodes: None, ..volume("first", "a") };
    let takes = |sizes: [i64; 2]| {
        let mut engine = Engine::new();
        let [wide, local] = sizes;
        let mut facts = vec![gpu_node("a", 8), Input::Storage(class(None)), is(claim("c-0"))];
        facts.push(there(VolumeFacts { capacity: wide, ..everywhere.clone() }));
        facts.push(there(VolumeFacts { capacity: local, ..volume("second", "a") }));
        let mut pod = pair().swap_remove(0);
        pod.gang.min_member = Some(1);
        facts.push(Input::Pod(pod));
        let (_, settings) = selects(&engine.step(NOW, facts)).swap_remove(0);
        settings[0].volume.as_ref().expect("a volume").to_string()
    };
    assert_eq!([takes([1, 2]), takes([2, 1]), takes([1, 1])], ["first", "second", "second"]);
}

#[test]
fn a_gang_is_bound_once_all_its_claims_are() {
    let mut engine = Engine::new();
    let first = engine.step(NOW, local());
    assert_eq!(binds(&first), [], "nothing before its claims");
    assert_eq!(view(&engine, "pair").state, State::Preparing);
    let said = reason(&engine).expect("it waits for something");
    assert!(said.ends_with("is being bound to a volume; 2 pods wait for what they use"), "{said}");
    let written = selects(&first);
    let mut volumes: Vec<_> =
        written.iter().map(|(_, settings)| settings[0].volume.clone().expect("found")).collect();
    volumes.sort();
    assert_eq!(volumes, [text("v-a"), text("v-b")], "each its own");
    let second = engine.step(after(1), done(&first));
    assert_eq!(binds(&second), [], "written is not bound");
    let one = engine.step(after(2), bound(&written[0].1[0]).into());
    assert_eq!((binds(&one), view(&engine, "pair").state), (vec![], State::Preparing));
    let last = &written[1].1[0].claim.name;
    let said = format!("claim {last} is being bound to a volume");
    assert_eq!(reason(&engine), Some(said), "of one pod only: the other has its own");
    let all = engine.step(after(3), bound(&written[1].1[0]).into());
    assert_eq!(binds(&all).len(), 2);
    assert_eq!((view(&engine, "pair").state, reason(&engine)), (State::Binding, None));
    for (name, node) in binds(&all) {
        let (_, settings) = written
            .iter()
            .find(|(effect, _)| {
                matches!(&effect.action,
                Action::SelectVolumes { pod, .. } if *pod.name == *name)
            })
            .expect("written for it");
        assert_eq!(*settings[0].node, *node);
    }
    engine.recount();
}

/// While their claims are bound nobody looks at nodes; before they are bound themselves one does.
#[test]
fn a_gang_whose_node_is_cordoned_before_its_binds_goes_back() {
    let mut engine = Engine::new();
    let first = engine.step(NOW, local());
    let written = selects(&first);
    let mut facts = done(&first);
    facts.extend(written.iter().flat_map(|(_, settings)| bound(&settings[0])));
    let cordoned = node("a", &[("cpu", 64_000), (GPU, 8)]);
    facts.push(Input::Node(NodeFacts { unschedulable: true, ..cordoned }.into()));
    let back = engine.step(after(1), facts);
    assert_eq!(binds(&back), []);
    assert_eq!(waits(&engine).as_deref(), Some("on a: cordoned"));
    assert!(engine.nodes().iter().all(|node| !node.used.contains_key(GPU)), "no place is kept");
    engine.recount();
}

#[test]
fn a_volume_that_somebody_else_took_sends_the_whole_gang_back() {
    let mut engine = Engine::new();
    let first = engine.step(NOW, local());
    let written = selects(&first);
    let taken = EffectResult::Conflict("volume v-a was given to another claim".into());
    let back = engine.step(after(1), vec![answer(&written[0].0, taken)]);
    assert_eq!(binds(&back), []);
    assert_eq!(waits(&engine).as_deref(), Some("volume v-a was given to another claim"));
    assert!(engine.nodes().iter().all(|node| !node.used.contains_key(GPU)), "no place is kept");
    engine.recount();
    // What the other member's write came to changes nothing any more.
    let late = engine.step(after(1), vec![answer(&written[1].0, EffectResult::Done)]);
    assert_eq!((binds(&late), selects(&late).len()), (vec![], 0));
    let again = engine.step(after(3), vec![]);
    assert_eq!(selects(&again).len(), 2, "and it tries again");
}

#[test]
fn a_claim_that_a_provisioner_gives_back_sends_the_gang_back() {
    let mut engine = Engine::new();
    let first = engine.step(NOW, made());
    let written = selects(&first);
    let setting = &written[0].1[0];
    assert_eq!(setting.volume, None, "one is made");
    let of = claim(&setting.claim.name);
    let selected = ClaimFacts { selected_node: Some(setting.node.clone()), ..of.clone() };
    let mut facts = done(&first);
    facts.push(is(selected));
    let seen = engine.step(after(1), facts);
    assert_eq!((binds(&seen), view(&engine, "pair").state), (vec![], State::Preparing));
    engine.step(after(2), vec![is(of)]);
    let why = waits(&engine).expect("it waits");
    assert!(why.contains("no volume could be made for claim"), "{why}");
    engine.recount();
}

#[test]
fn a_gang_that_loses_a_member_before_its_claims_are_bound_is_not_begun() {
    let mut engine = Engine::new();
    let mut facts = local();
    facts.retain(|fact| !matches!(fact, Input::Pod(_)));
    let stated = |mut pod: PodFacts| {
        pod.gang.min_member = Some(2);
        Input::Pod(pod)
    };
    facts.extend(pair().into_iter().map(stated));
    let first = engine.step(NOW, facts);
    let written = selects(&first);
    let mut facts = done(&first);
    facts.push(Input::PodGone(text("pair-1")));
    facts.extend(written.iter().flat_map(|(_, settings)| bound(&settings[0])));
    let second = engine.step(after(1), facts);
    assert_eq!(binds(&second), [], "one of two");
    assert!(engine.nodes().iter().all(|node| !node.used.contains_key(GPU)));
    engine.recount();
}

/// The pods of a resumed Job come before the claims that are made for them.
#[test]
fn pods_wait_at_their_places_for_claims_that_are_made_for_them() {
    let mut engine = Engine::new();
    let owner = job("train", 2, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut facts = one_queue(8);
    facts.extend([
        gpu_node("a", 8),
        Input::Storage(class(Some("disks"))),
        Input::Owner(owner.clone()),
    ]);
    let first = engine.step(NOW, facts);
    let resume = first.effects.iter().find(|e| matches!(e.action, Action::ResumeOwner { .. }));
    let mut facts = vec![answer(resume.expect("it fits"), EffectResult::Done)];
    let owner = OwnerFacts { suspended: false, ..owner };
    facts.push(Input::Owner(owner.clone()));
    let mut claims = Vec::new();
    for mut pod in pods_of(&owner) {
        let key = key(&format!("{}-scratch", pod.name));
        let made_for = Some(pod.uid.clone());
        claims.push(ClaimFacts { made_for: made_for.clone(), ..claim(&key.name) });
        let claims = vec![ClaimUse { claim: key, made_for }];
        let volumes = Some(Arc::new(PodVolumes { claims, ..PodVolumes::default() }));
        pod.shape = Arc::new(PodShape { volumes, ..PodShape::clone(&pod.shape) });
        facts.push(Input::Pod(pod));
    }
    let came = engine.step(after(1), facts);
    assert_eq!((binds(&came), selects(&came).len()), (vec![], 0));
    assert_eq!(view(&engine, "train").state, State::Preparing);
    engine.recount();
    let one = engine.step(after(2), vec![is(claims[0].clone())]);
    assert_eq!(selects(&one).len(), 1);
    let both = engine.step(after(3), vec![is(claims[1].clone())]);
    assert_eq!(selects(&both).len(), 1);
    let mut facts = done(&one);
    facts.extend(done(&both));
    for claim in claims {
        let name = text(format!("v-{}", claim.key.name));
        let of = Some((claim.key.clone(), Some(claim.uid.clone())));
        facts.push(there(VolumeFacts { claim: of, available: false, ..volume(&name, "a") }));
        facts.push(is(ClaimFacts { volume: Some(name), bound: true, ..claim }));
    }
    let all = engine.step(after(4), facts);
    assert_eq!(binds(&all).len(), 2);
    engine.recount();
}

/// A Job of two that was resumed, as its pods come, each with a claim of its own.
fn resumed() -> (Engine, Vec<Input>) {
    let mut engine = Engine::new();
    let owner = job("train", 2, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut facts = one_queue(8);
    facts.extend([gpu_node("a", 8), Input::Storage(class(Some("disks")))]);
    facts.extend([is(claim("c-0")), is(claim("c-1")), Input::Owner(owner.clone())]);
    let first = engine.step(NOW, facts);
    let resume = first.effects.iter().find(|e| matches!(e.action, Action::ResumeOwner { .. }));
    let resume = answer(resume.expect("it fits"), EffectResult::Done);
    let owner = OwnerFacts { suspended: false, ..owner };
    let mut pods = pods_of(&owner);
    engine.step(NOW, vec![resume, Input::Owner(owner)]);
    for (at, pod) in pods.iter_mut().enumerate() {
        let claims = vec![ClaimUse { claim: key(&format!("c-{at}")), made_for: None }];
        let volumes = Some(Arc::new(PodVolumes { claims, ..PodVolumes::default() }));
        pod.shape = Arc::new(PodShape { volumes, ..PodShape::clone(&pod.shape) });
    }
    (engine, pods.into_iter().map(Input::Pod).collect())
}

/// A volume that was made for a claim on the only node, and the claim.
fn volume_for(name: &str) -> [Input; 2] {
    let of = Some((key(name), Some(text(format!("uid-{name}")))));
    let made = volume(&format!("v-{name}"), "a");
    let made = VolumeFacts { claim: of, available: false, ..made };
    let claim = ClaimFacts { volume: Some(made.name.clone()), bound: true, ..claim(name) };
    [there(made), is(claim)]
}

fn on_a(pod: &str) -> (String, String) {
    (pod.to_owned(), "a".to_owned())
}

/// Pods of a resumed Job come one after the other: whose claim is bound is not held up by the bind
/// of another, which nobody has answered yet.
#[test]
fn a_bind_that_is_not_answered_holds_nobody_up() {
    let (mut engine, pods) = resumed();
    let came = engine.step(after(1), vec![pods[0].clone()]);
    assert_eq!((binds(&came), selects(&came).len()), (vec![], 1));
    let one = engine.step(after(2), done(&came).into_iter().chain(volume_for("c-0")).collect());
    assert_eq!(binds(&one), [on_a("train-0")]);
    let late = engine.step(after(3), vec![pods[1].clone()]);
    assert_eq!((binds(&late), selects(&late).len()), (vec![], 1));
    let other = engine.step(after(4), done(&late).into_iter().chain(volume_for("c-1")).collect());
    assert_eq!(binds(&other), [on_a("train-1")]);
    engine.recount();
}

/// The second comes in the very step in which the first is prepared: it is not bound with it.
#[test]
fn who_comes_while_another_is_bound_has_its_own_claim_bound_first() {
    let (mut engine, pods) = resumed();
    let came = engine.step(after(1), vec![pods[0].clone()]);
    let facts = done(&came).into_iter().chain(volume_for("c-0")).chain([pods[1].clone()]);
    let both = engine.step(after(2), facts.collect());
    assert_eq!((binds(&both), selects(&both).len()), (vec![on_a("train-0")], 1));
    let other = engine.step(after(3), done(&both).into_iter().chain(volume_for("c-1")).collect());
    assert_eq!(binds(&other), [on_a("train-1")]);
    engine.recount();
}

/// One member of a gang waits for its volume, the other has its own: it keeps its place while more
/// is seen of it, and is bound where it is enough without the one that is gone.
#[test]
fn who_is_prepared_waits_at_its_place_for_as_long_as_others_are_not() {
    for gone in [false, true] {
        let mut engine = Engine::new();
        let mut facts = local();
        facts.retain(|fact| !matches!(fact, Input::Pod(_)));
        let mut pods = pair();
        pods.iter_mut().for_each(|pod| pod.gang.min_member = Some(1));
        facts.extend(pods.iter().cloned().map(Input::Pod));
        let first = engine.step(NOW, facts);
        let of = |name: &str| {
            let mut all = selects(&first).into_iter().map(|(_, settings)| settings[0].clone());
            all.find(|setting| &*setting.claim.name == name).expect("it is written")
        };
        let facts = done(&first).into_iter().chain(bound(&of("c-0")));
        let one = engine.step(after(1), facts.collect());
        let seen = engine.step(after(2), vec![Input::Pod(pods[0].clone())]);
        assert_eq!((binds(&one), binds(&seen)), (vec![], vec![]));
        let used =
            engine.nodes().iter().filter_map(|node| node.used.get(GPU).copied()).sum::<i64>();
        assert_eq!((view(&engine, "pair").state, used), (State::Preparing, 2));
        engine.recount();
        let facts = match gone {
            true => vec![Input::PodGone(pods[1].uid.clone())],
            false => bound(&of("c-1")).into(),
        };
        let names: Vec<String> =
            binds(&engine.step(after(3), facts)).into_iter().map(|(pod, _)| pod).collect();
        assert_eq!(names, if gone { vec!["pair-0"] } else { vec!["pair-0", "pair-1"] });
        engine.recount();
    }
}

#[test]
fn claims_have_ten_minutes_to_be_bound() {
    let mut engine = Engine::new();
    let first = engine.step(NOW, made());
    let waiting = engine.step(after(1), done(&first));
    assert_eq!(waiting.next_wake, Some(after(600)));
    let late = engine.step(after(600), vec![]);
    assert_eq!(binds(&late), []);
    let why = waits(&engine).expect("it waits");
    assert!(why.starts_with("not bound in time: c-"), "{why}");
    engine.recount();
}

#[test]
fn a_volume_that_the_node_cannot_use_sends_the_gang_back_to_where_it_is() {
    let mut engine = Engine::new();
    let first = engine.step(NOW, made());
    let written = selects(&first);
    let setting = &written[0].1[0];
    let other = if &*setting.node == "a" { "b" } else { "a" };
    let of = Some((setting.claim.clone(), Some(setting.uid.clone())));
    let made = VolumeFacts { claim: of, available: false, ..volume("new", other) };
    let of = claim(&setting.claim.name);
    let bound = ClaimFacts { volume: Some(text("new")), bound: true, ..of };
    let mut facts = done(&first);
    facts.extend([there(made), is(bound)]);
    engine.step(after(1), facts);
    let why = waits(&engine).expect("it waits");
    assert!(why.contains("which") && why.contains("cannot use"), "{why}");
    let again = engine.step(after(5), vec![]);
    let left = selects(&again);
    assert_eq!(left.len(), 1, "one claim is bound by now");
    assert_ne!(left[0].1[0].claim, setting.claim);
    engine.recount();
}

#[test]
fn a_volume_of_a_kind_that_a_driver_took_over_is_of_use_where_the_driver_says() {
    let mut engine = Engine::new();
    let mut facts = made();
    facts.extend(["a", "b"].map(|node| {
        let (limits, migrated) = (Default::default(), [text("kubernetes.io/x")].into());
        Input::Storage(StorageFact::Limits { node: text(node), limits, migrated })
    }));
    let first = engine.step(NOW, facts);
    let mut facts = done(&first);
    for (_, settings) in selects(&first) {
        let setting = &settings[0];
        let other = if &*setting.node == "a" { "b" } else { "a" };
        let nodes = volume("any", &setting.node).nodes;
        let taken_over = Some(Box::new(TakenOver { plugin: text("kubernetes.io/x"), nodes }));
        let of = Some((setting.claim.clone(), Some(setting.uid.clone())));
        let name = format!("of-{}", setting.claim.name);
        let made = volume(&name, other);
        facts.push(there(VolumeFacts { claim: of, available: false, taken_over, ..made }));
        let of = claim(&setting.claim.name);
        facts.push(is(ClaimFacts { volume: Some(text(name)), bound: true, ..of }));
    }
    let bound = engine.step(after(1), facts);
    assert_eq!(binds(&bound).len(), 2);
    engine.recount();
}

#[test]
fn a_new_engine_goes_where_claims_were_begun() {
    let mut old = Engine::new();
    let first = old.step(NOW, made());
    let nodes: Vec<_> = selects(&first).iter().map(|(_, all)| all[0].clone()).collect();
    let mut facts = made();
    for setting in &nodes {
        let of = claim(&setting.claim.name);
        facts.push(is(ClaimFacts { selected_node: Some(setting.node.clone()), ..of }));
    }
    let mut engine = Engine::new();
    let next = engine.step(after(1), facts);
    let mut again: Vec<_> = selects(&next).iter().map(|(_, all)| all[0].clone()).collect();
    again.sort_by(|a, b| a.claim.cmp(&b.claim));
    let mut before = nodes;
    before.sort_by(|a, b| a.claim.cmp(&b.claim));
    assert_eq!(again, before);
}

#[test]
fn a_claim_that_comes_wakes_who_waits_for_it_and_nobody_else() {
    let mut engine = Engine::new();
    let mut facts = made();
    facts.retain(|fact| *fact != is(claim("c-1")));
    let large = gang("large", 1, None, &shape(&[(GPU, 9)]), &in_queue(None));
    facts.extend(large.into_iter().map(Input::Pod));
    let first = engine.step(NOW, facts);
    assert_eq!(selects(&first).len(), 0);
    let woken = engine.step(after(1), vec![is(claim("c-1"))]);
    assert_eq!(selects(&woken).len(), 2);
    assert_eq!(woken.report.outcomes.len(), 1, "{:?}", woken.report.outcomes);
}

/// An attachment may be seen before the claim is seen to be bound to what is attached, and counts
/// twice until then.
#[test]
fn a_claim_that_is_attached_already_counts_once_and_wakes_who_waits_for_that() {
    let made = |name: &str, of: &str| {
        let (driver, handle) = (text("disks"), text(format!("h-{name}")));
        let attach = Some(Attach { driver, handle, migrated: false });
        let claim = Some((key(of), None));
        VolumeFacts { claim, available: false, nodes: None, attach, ..volume(name, "a") }
    };
    let given = |of: &str, name: &str| {
        is(ClaimFacts { volume: Some(text(name)), bound: true, ..claim(of) })
    };
    let user = |name: &str, of: &str| {
        let claims = vec![ClaimUse { claim: key(of), made_for: None }];
        let volumes = Some(Arc::new(PodVolumes { claims, ..PodVolumes::default() }));
        let shape = PodShape { volumes, ..PodShape::default() };
        pod(name, &Arc::new(shape), &in_queue(None))
    };
    let (node, driver) = (text("a"), text("disks"));
    let limits = [(driver.clone(), 2)].into();
    let attached =
        AttachmentFacts { name: text("x"), node: node.clone(), driver, volume: text("v-0") };
    let facts = vec![
        gpu_node("a", 8),
        Input::Storage(class(Some("disks"))),
        Input::Storage(StorageFact::Limits { node, limits, migrated: Default::default() }),
        is(claim("c-0")),
        there(made("v-0", "c-0")),
        Input::Storage(StorageFact::Attachment(attached)),
        capstan_tests::hand::bound(&user("other", "c-0"), "a"),
        given("c-1", "v-1"),
        there(made("v-1", "c-1")),
        Input::Pod(user("p", "c-1")),
    ];
    let mut engine = Engine::new();
    let first = engine.step(NOW, facts);
    assert!(binds(&first).is_empty(), "{:?}", binds(&first));
    let then = engine.step(after(1), vec![given("c-0", "v-0")]);
    assert_eq!(binds(&then).len(), 1, "{:?}", view(&engine, "p").reason);
}

#[test]
fn explaining_a_member_leaves_what_was_chosen_for_it() {
    let mut engine = Engine::new();
    let first = engine.step(NOW, local());
    let written = selects(&first);
    for pod in ["pair-0", "pair-1"] {
        engine.explain_pod(TEAM, pod).expect("known");
        engine.recount();
    }
    engine.step(after(1), done(&first));
    let facts = written.iter().flat_map(|(_, settings)| bound(&settings[0])).collect();
    assert_eq!(binds(&engine.step(after(2), facts)).len(), 2);
}

/// A claim is for one pod only, and somebody of lower priority has it on a node where the preemptor
/// may not go: it leaves. Of a claim that others may use, too, nobody has to.
#[test]
fn a_claim_for_one_pod_is_left_on_any_node() {
    for (modes, left) in
        [(AccessModes::ONE_POD, vec!["low"]), (AccessModes::MANY_WRITE, Vec::new())]
    {
        let of = Some((key("c"), Some(text("uid-c"))));
        let volume =
            VolumeFacts { modes, nodes: None, claim: of, available: false, ..volume("v", "a") };
        let claim = ClaimFacts { modes, volume: Some(text("v")), bound: true, ..claim("c") };
        let user = |name: &str, priority: i32, node: &str| {
            let claims = vec![ClaimUse { claim: key("c"), made_for: None }];
            let volumes = Some(Arc::new(PodVolumes { claims, ..PodVolumes::default() }));
            let node_selector = labels(&[("kubernetes.io/hostname", node)]);
            let one = PodShape { node_selector, volumes, ..PodShape::clone(&shape(&[(GPU, 1)])) };
            PodFacts { priority, ..pod(name, &Arc::new(one), &in_queue(None)) }
        };
        let low = user("low", 0, "b");
        let low = PodFacts { node: Some(text("b")), phase: PodPhase::Running, ..low };
        let mut engine = Engine::new();
        let ground = vec![gpu_node("a", 8), gpu_node("b", 8), there(volume), is(claim)];
        engine.observe(NOW, ground.into_iter().chain([Input::Pod(low)]).collect());
        let output = engine.step(after(1), vec![Input::Pod(user("high", 10, "a"))]);
        let stopped = |effect: &Effect| match &effect.action {
            Action::Evict { pod, .. } => Some(pod.name.to_string()),
            _ => None,
        };
        let stopped: Vec<String> = output.effects.iter().filter_map(stopped).collect();
        assert_eq!(stopped, left);
        engine.recount();
    }
}
