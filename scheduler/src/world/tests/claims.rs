//! Claims on devices: only what a claim has is given back, and only by who has reserved it, as with
//! the API server.

use capstan_core::model::input::{
    AllocatedDevice, Allocation, NodeSelector, Readiness, ResourceClaimFacts,
};
use capstan_core::plan::{Action, Chosen, ChosenDevice, ClaimGrant, EffectResult, GivenAt, Seen};

use super::*;

fn chosen(device: &str) -> Chosen {
    let id = ("d".into(), "p".into(), device.into());
    let device = AllocatedDevice { id, share: false, consumed: BTreeMap::new() };
    let one = ChosenDevice { request: "r".into(), device, admin: false, ready_when: None };
    Chosen { devices: vec![one], nodes: None }
}

fn grants(chosen: Option<Chosen>, seen: Option<Seen>) -> Vec<ClaimGrant> {
    let key = ("ns".into(), "c".into());
    vec![ClaimGrant { key, uid: "u".into(), chosen: chosen.map(Arc::new), special: None, seen }]
}

/// A claim that has a device, reserved for these pods.
fn has(device: &str, reserved: &[&str]) -> Allocation {
    let devices = chosen(device).devices.into_iter().map(|one| one.device).collect();
    let reserved = reserved.iter().map(|by| Text::from(*by)).collect();
    Allocation { devices, reserved, ..Allocation::default() }
}

/// Two pods, and a claim that either may use.
fn world(allocation: Option<Allocation>) -> World {
    let claim = ResourceClaimFacts {
        key: ("ns".into(), "c".into()),
        uid: "u".into(),
        of_one_pod: false,
        spec: Arc::default(),
        allocation: allocation.map(Arc::new),
    };
    let names = Some(Arc::new(vec!["c".into()]));
    let user = |name| PodFacts { claims: names.clone(), ..pod(name, None) };
    let pods = ["a", "b"].map(|name| Input::Pod(user(name)));
    still(pods.into_iter().chain([Input::ResourceClaim(claim)]).collect())
}

fn allocate(world: &mut World, by: &str, chosen: Option<Chosen>) -> EffectResult {
    let (pod, node, claims) = (pod_ref(by), "n".into(), grants(chosen, None));
    act(world, at(0), effect(1, "w", by, Action::AllocateClaims { pod, node, claims }))
}

fn release(world: &mut World, by: &str, claims: Vec<ClaimGrant>) {
    let action = Action::ReleaseClaims { pod: pod_ref(by), claims };
    assert_eq!(act(world, at(0), effect(2, "w", by, action)), EffectResult::Done);
}

/// Device and reservations of the claim, while it has any.
fn shown(world: &World) -> Option<(String, Vec<String>)> {
    let claim = world.claim(&("ns".into(), "c".into())).expect("it is never deleted");
    let has = claim.allocation.as_ref()?;
    let reserved = has.reserved.iter().map(Text::to_string).collect();
    Some((has.devices[0].id.2.to_string(), reserved))
}

fn is(device: &str, reserved: &[&str]) -> Option<(String, Vec<String>)> {
    Some((device.to_owned(), reserved.iter().map(|by| (*by).to_owned()).collect()))
}

#[test]
fn a_claim_is_allocated_once_and_reserved_for_each_pod() {
    let mut world = world(None);
    for _ in 0..2 {
        assert_eq!(allocate(&mut world, "a", Some(chosen("x"))), EffectResult::Done);
        assert_eq!(shown(&world), is("x", &["a"]));
    }
    let lost = EffectResult::Conflict("claim c was allocated elsewhere".into());
    assert_eq!(allocate(&mut world, "b", Some(chosen("y"))), lost);
    assert_eq!(allocate(&mut world, "b", None), EffectResult::Done);
    assert_eq!(shown(&world), is("x", &["a", "b"]));
    let mut empty = self::world(None);
    let none = EffectResult::Conflict("claim c has no devices any more".into());
    assert_eq!(allocate(&mut empty, "a", None), none);
}

#[test]
fn a_release_leaves_what_another_try_got_and_what_others_have_reserved() {
    let mut world = world(None);
    allocate(&mut world, "a", Some(chosen("x")));
    release(&mut world, "a", grants(Some(chosen("y")), None));
    assert_eq!(shown(&world), is("x", &["a"]), "another try's");
    let other = ClaimGrant { uid: "other".into(), ..grants(Some(chosen("x")), None).remove(0) };
    release(&mut world, "a", vec![other]);
    assert_eq!(shown(&world), is("x", &["a"]), "another claim of that name");
    release(&mut world, "b", grants(Some(chosen("x")), None));
    assert_eq!(shown(&world), is("x", &["a"]), "not its pod's");
    allocate(&mut world, "b", None);
    release(&mut world, "a", grants(Some(chosen("x")), None));
    assert_eq!(shown(&world), is("x", &["b"]), "of use to another");
    release(&mut world, "b", grants(None, None));
    assert_eq!(shown(&world), None, "the last takes it");
}

#[test]
fn what_was_found_goes_back_only_if_it_still_is_what_was_seen() {
    let idle = |has: &Allocation| grants(None, Some(Seen::Idle(Arc::new(has.clone()))));
    let nodes = Some(NodeSelector { terms: Vec::new() });
    let kept = [
        ("another device", has("x", &[]), has("y", &[])),
        ("other nodes", has("x", &[]), Allocation { nodes, ..has("x", &[]) }),
        ("of another time", has("x", &[]), Allocation { at: Some(at(1)), ..has("x", &[]) }),
        ("reserved meanwhile", has("x", &["b"]), has("x", &[])),
    ];
    for (what, shows, seen) in kept {
        let mut world = world(Some(shows.clone()));
        release(&mut world, "a", idle(&seen));
        assert!(shown(&world).is_some(), "{what}");
    }
    for reserved in [&[][..], &["a"]] {
        let mut world = world(Some(has("x", reserved)));
        release(&mut world, "a", idle(&has("x", reserved)));
        assert_eq!(shown(&world), None);
    }
    let unready = grants(None, Some(Seen::Unready(GivenAt(None))));
    let failed = Readiness::Failed("x failed".into());
    for (readiness, stays) in [(Readiness::Ready, true), (failed, false)] {
        let mut world = world(Some(Allocation { readiness, ..has("x", &[]) }));
        release(&mut world, "a", unready.clone());
        assert_eq!(shown(&world).is_some(), stays);
    }
}

#[test]
fn a_claim_is_free_once_all_who_used_it_have_ended() {
    let mut world = world(None);
    for by in ["a", "b"] {
        allocate(&mut world, by, Some(chosen("x")));
        act(&mut world, at(0), bind(3, by, "n"));
    }
    act(&mut world, at(1), evict(4, "a"));
    assert_eq!(shown(&world), is("x", &["b"]));
    act(&mut world, at(1), evict(5, "b"));
    assert_eq!(shown(&world), None);
    // Who never used it takes nothing with it.
    let mut world = self::world(Some(has("x", &[])));
    act(&mut world, at(1), evict(6, "a"));
    assert_eq!(shown(&world), is("x", &[]));
}
