//! The search on small nodes: each test says in its name what is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::search::{Search, Stop};
use super::state::Devices;
use super::*;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{
    AllocatedDevice, Allocation, Answer, Attribute, Capacity, CapacityType, Constraint, DeviceAsk,
    DeviceFacts, Labels, Nano, Reach, ResourceClaimFacts, SliceFacts, Taint, TaintEffect,
    Toleration, TolerationOperator,
};

mod attributes;
mod idle;
mod left;
mod order;
mod partitions;
mod several_users;

fn node(name: &str) -> NodeFacts {
    NodeFacts {
        name: name.into(),
        labels: Labels::from([("zone".into(), format!("z-{name}").into())]),
        taints: Vec::new(),
        unschedulable: false,
        allocatable: BTreeMap::new(),
        features: Vec::new(),
        images: Arc::default(),
        capacity_type: CapacityType::Unknown,
        price: None,
    }
}

fn device(name: &str) -> DeviceFacts {
    DeviceFacts {
        name: name.into(),
        nodes: None,
        attributes: BTreeMap::new(),
        taints: Vec::new(),
        consumes: Vec::new(),
        shared: false,
        capacity: BTreeMap::new(),
        ready_when: None,
        binds: false,
    }
}

fn with(name: &str, attribute: &str, value: i64) -> DeviceFacts {
    let attributes = [(attribute.into(), Attribute::Int(value))].into();
    DeviceFacts { attributes, ..device(name) }
}

/// A slice of the one pool `p` that node `a` reaches, alone in it.
fn slice(devices: Vec<DeviceFacts>) -> SliceFacts {
    SliceFacts {
        name: "s".into(),
        driver: "gpu.example.com".into(),
        pool: "p".into(),
        generation: 1,
        slices: 1,
        nodes: Reach::Node("a".into()),
        devices,
        counters: Vec::new(),
    }
}

fn all(slices: Vec<SliceFacts>) -> Devices {
    let mut devices = Devices::default();
    for slice in slices {
        devices.put_slice(Arc::new(slice));
    }
    devices.refresh();
    devices
}

fn ask(name: &str, count: u64) -> DeviceAsk {
    DeviceAsk {
        name: name.into(),
        query: "".into(),
        count: DeviceCount::Exactly(count),
        admin: false,
        tolerations: Vec::new(),
        capacity: BTreeMap::new(),
    }
}

fn request(ask: DeviceAsk) -> RequestSpec {
    RequestSpec { name: ask.name.clone(), options: vec![ask] }
}

fn claim(asks: Vec<DeviceAsk>) -> ClaimSpec {
    ClaimSpec { requests: asks.into_iter().map(request).collect(), ..ClaimSpec::default() }
}

fn same(attribute: &str) -> Constraint {
    Constraint { requests: Vec::new(), attribute: attribute.into(), distinct: false }
}

/// Names of the devices that the claims get on node `a`.
fn found(devices: &Devices, claims: &[&ClaimSpec]) -> Result<Vec<String>, Stop> {
    let node = node("a");
    let mut search = Search::new(devices, &node, claims);
    let picks = search.next()?.iter();
    Ok(picks.map(|pick| devices.pools().device(pick.device).id().2.to_string()).collect())
}

fn allocated(devices: &mut Devices, names: &[&str], share: bool) {
    let taken = names.iter().map(|name| AllocatedDevice {
        id: ("gpu.example.com".into(), "p".into(), (*name).into()),
        share,
        consumed: if share { [("memory".into(), Nano(40))].into() } else { BTreeMap::new() },
    });
    let allocation = Allocation { devices: taken.collect(), ..Allocation::default() };
    devices.put_claim(ResourceClaimFacts {
        key: ("ns".into(), names.join("-").into()),
        uid: "u".into(),
        of_one_pod: true,
        spec: Arc::default(),
        allocation: Some(Arc::new(allocation)),
    });
}

#[test]
fn a_count_takes_the_first_that_are_free() {
    let mut devices = all(vec![slice(vec![device("g0"), device("g1"), device("g2")])]);
    allocated(&mut devices, &["g1"], false);
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 2)])]), Ok(vec!["g0".into(), "g2".into()]));
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 3)])]), Err(Stop::None));
    let two = claim(vec![ask("r", 1)]);
    assert_eq!(found(&devices, &[&two, &two]).map(|all| all.len()), Ok(2));
    assert_eq!(found(&devices, &[&two, &two, &two]), Err(Stop::None));
    devices.recount(std::iter::empty());
}

#[test]
fn all_takes_every_match_and_at_least_one() {
    let every = DeviceAsk { count: DeviceCount::All, ..ask("r", 0) };
    let mut devices = all(vec![slice(vec![device("g0"), device("g1")])]);
    assert_eq!(found(&devices, &[&claim(vec![every.clone()])]).map(|all| all.len()), Ok(2));
    allocated(&mut devices, &["g1"], false);
    assert_eq!(found(&devices, &[&claim(vec![every.clone()])]), Err(Stop::None), "one is taken");
    assert_eq!(found(&all(vec![slice(vec![])]), &[&claim(vec![every])]), Err(Stop::None));
}

#[test]
fn incomplete_pools_give_nothing_and_stop_who_wants_all() {
    let half = SliceFacts { slices: 2, ..slice(vec![device("g0")]) };
    let devices = all(vec![half]);
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 1)])]), Err(Stop::None));
    let every = claim(vec![DeviceAsk { count: DeviceCount::All, ..ask("r", 0) }]);
    let Err(Stop::Broken(0, problem)) = found(&devices, &[&every]) else { panic!("found") };
    assert!(problem.contains("pool gpu.example.com/p is being updated"), "{problem}");
}

#[test]
fn only_the_newest_generation_counts() {
    let old = slice(vec![device("g0"), device("g1")]);
    let new = SliceFacts { name: "t".into(), generation: 2, ..slice(vec![device("g0")]) };
    let devices = all(vec![old, new]);
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 2)])]), Err(Stop::None));
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 1)])]), Ok(vec!["g0".into()]));
}

#[test]
fn a_device_twice_makes_its_pool_invalid() {
    let devices = all(vec![slice(vec![device("g0"), device("g0")])]);
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 1)])]), Err(Stop::None));
}

#[test]
fn constraints_are_searched_for_and_not_only_checked() {
    let numa = "gpu.example.com/numa";
    // The first device alone on its side is a wrong choice that has to be taken back.
    let sides = vec![with("g0", "numa", 0), with("g1", "numa", 1), with("g2", "numa", 1)];
    let devices = all(vec![slice(sides)]);
    let mut spec = claim(vec![ask("r", 2)]);
    spec.constraints = vec![same(numa)];
    assert_eq!(found(&devices, &[&spec]), Ok(vec!["g1".into(), "g2".into()]));
    spec.constraints[0].distinct = true;
    assert_eq!(found(&devices, &[&spec]), Ok(vec!["g0".into(), "g1".into()]));
    spec.requests = claim(vec![ask("r", 3)]).requests;
    assert_eq!(found(&devices, &[&spec]), Err(Stop::None));
    spec.constraints = vec![same("gpu.example.com/unknown")];
    assert_eq!(found(&devices, &[&spec]), Err(Stop::None), "who lacks the attribute is out");
    spec.constraints[0].requests = vec!["other".into()];
    assert!(found(&devices, &[&spec]).is_ok(), "it is for another request");
}

#[test]
fn all_of_which_a_constraint_keeps_one_out_ends_the_search() {
    // Other devices than the first would do for the request before.
    let sides = vec![with("g0", "numa", 0), with("g1", "numa", 1), with("g2", "numa", 1)];
    let mut devices = all(vec![slice(sides)]);
    let answers = [Answer::No, Answer::No, Answer::Yes];
    devices.put_answers("last".into(), "s".into(), answers.into());
    let every = DeviceAsk { count: DeviceCount::All, query: "last".into(), ..ask("all", 0) };
    let mut spec = claim(vec![ask("r", 1), every]);
    assert_eq!(found(&devices, &[&spec]), Ok(vec!["g0".into(), "g2".into()]));
    spec.constraints = vec![same("gpu.example.com/numa")];
    let Err(Stop::Broken(0, problem)) = found(&devices, &[&spec]) else { panic!("found") };
    assert_eq!(&*problem, "request all: a constraint keeps g2 out");
}

#[test]
fn the_first_option_that_can_be_had_is_taken() {
    let devices = all(vec![slice(vec![device("g0"), device("g1")])]);
    let options = vec![ask("r/many", 3), ask("r/two", 2), ask("r/one", 1)];
    let spec = ClaimSpec {
        requests: vec![RequestSpec { name: "r".into(), options }],
        ..ClaimSpec::default()
    };
    assert_eq!(found(&devices, &[&spec]).map(|all| all.len()), Ok(2));
    // Beside another claim only the last option is left: it is gone back to.
    let other = claim(vec![ask("r", 1)]);
    assert_eq!(found(&devices, &[&spec, &other]).map(|all| all.len()), Ok(2));
}

#[test]
fn which_alternative_is_met_is_told_where_there_are_several() {
    let devices = all(vec![slice(vec![device("g0"), device("g1")])]);
    let options = vec![ask("r/many", 3), ask("r/two", 2), ask("r/one", 1)];
    let either = RequestSpec { name: "r".into(), options };
    let spec = ClaimSpec { requests: vec![either], ..ClaimSpec::default() };
    let met =
        |spec: &ClaimSpec, on: &str| alternatives(&devices, &of_claims(vec![own(spec)]), &node(on));
    assert_eq!(met(&spec, "a"), [(1, 3)], "there are two");
    assert!(met(&spec, "b").is_empty(), "it reaches none");
    assert!(met(&claim(vec![ask("r", 1)]), "a").is_empty());
}

#[test]
fn access_for_administration_takes_what_is_in_use_and_keeps_nothing() {
    let mut devices = all(vec![slice(vec![device("g0")])]);
    allocated(&mut devices, &["g0"], false);
    let admin = claim(vec![DeviceAsk { admin: true, ..ask("r", 1) }]);
    assert_eq!(found(&devices, &[&admin]), Ok(vec!["g0".into()]));
    let twice = claim(vec![DeviceAsk { admin: true, ..ask("r", 2) }]);
    assert_eq!(found(&devices, &[&twice]), Err(Stop::None), "one device once in a claim");
}

#[test]
fn taints_are_tolerated_by_request() {
    let taint = Taint { key: "bad".into(), value: "ecc".into(), effect: TaintEffect::NoSchedule };
    let devices = all(vec![slice(vec![DeviceFacts { taints: vec![taint], ..device("g0") }])]);
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 1)])]), Err(Stop::None));
    let tolerating = |key: &str, operator, value: &str, effect| {
        let toleration = Toleration { key: key.into(), operator, value: value.into(), effect };
        let spec = claim(vec![DeviceAsk { tolerations: vec![toleration], ..ask("r", 1) }]);
        found(&devices, &[&spec]).is_ok()
    };
    assert!(tolerating("bad", TolerationOperator::Exists, "", None));
    assert!(tolerating("", TolerationOperator::Equal, "ecc", Some(TaintEffect::NoSchedule)));
    assert!(!tolerating("bad", TolerationOperator::Equal, "", None));
    assert!(!tolerating("bad", TolerationOperator::Exists, "", Some(TaintEffect::NoExecute)));
}

#[test]
fn partitions_share_counters() {
    let part = |name: &str, slices: i128| DeviceFacts {
        consumes: vec![("gpu".into(), "slices".into(), Nano(slices))],
        ..device(name)
    };
    let counters = SliceFacts {
        name: "c".into(),
        slices: 2,
        devices: Vec::new(),
        counters: vec![("gpu".into(), [("slices".into(), Nano(7))].into())],
        ..slice(vec![])
    };
    let parts = vec![part("whole", 7), part("half-0", 3), part("half-1", 3), part("one", 1)];
    let mut devices = all(vec![counters, SliceFacts { slices: 2, ..slice(parts) }]);
    // The whole comes first and leaves nothing: for two, the search goes back on it.
    let two = claim(vec![ask("r", 2)]);
    assert_eq!(found(&devices, &[&two]), Ok(vec!["half-0".into(), "half-1".into()]));
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 3)])]).map(|all| all.len()), Ok(3));
    allocated(&mut devices, &["half-0"], false);
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 1)])]), Ok(vec!["half-1".into()]));
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 3)])]), Err(Stop::None));
    devices.recount(std::iter::empty());
    devices.remove_claim(&("ns".into(), "half-0".into()));
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 1)])]), Ok(vec!["whole".into()]));
    devices.recount(std::iter::empty());
}

#[test]
fn selectors_decide_and_say_where_they_fail() {
    let mut devices = all(vec![slice(vec![device("g0"), device("g1"), device("g2")])]);
    let answers = [Answer::No, Answer::Yes, Answer::Fails("selector #0: no such key".into())];
    devices.put_answers("q".into(), "s".into(), answers.into());
    let asking = |count| claim(vec![DeviceAsk { query: "q".into(), ..ask("r", count) }]);
    assert_eq!(found(&devices, &[&asking(1)]), Ok(vec!["g1".into()]), "the first will do");
    let Err(Stop::Broken(0, problem)) = found(&devices, &[&asking(2)]) else { panic!("found") };
    let says = "request r: selector #0: no such key on device gpu.example.com/p/g2";
    assert_eq!(&*problem, says);
    let unknown = claim(vec![DeviceAsk { query: "new".into(), ..ask("r", 1) }]);
    assert_eq!(found(&devices, &[&unknown]), Err(Stop::None), "nobody has said anything yet");
}

#[test]
fn nobody_gets_devices_by_selectors_that_are_still_being_evaluated_somewhere() {
    let of_two =
        |name: &str, device| SliceFacts { name: name.into(), slices: 2, ..slice(vec![device]) };
    let mut devices = all(vec![of_two("s", device("g0")), of_two("t", device("g1"))]);
    let mut say = |slice: &str, answer: Answer| {
        let before = devices.put_answers("q".into(), slice.into(), [answer].into());
        let asked = claim(vec![DeviceAsk { query: "q".into(), ..ask("r", 1) }]);
        (before, found(&devices, &[&asked]))
    };
    assert_eq!(say("s", Answer::Yes).1, Ok(vec!["g0".into()]));
    let (concerns, got) = say("t", Answer::Awaited);
    assert_eq!(concerns, Concerns::Everybody);
    let Err(Stop::Broken(0, problem)) = got else { panic!("found {got:?}") };
    assert_eq!(&*problem, "request r: its selectors are still being evaluated on 1 of 2 slices");
    let (concerns, got) = say("s", Answer::No);
    assert_eq!(concerns, Concerns::Nobody, "it is awaited as before");
    assert!(matches!(got, Err(Stop::Broken(..))));
    assert_eq!(say("t", Answer::No), (Concerns::Everybody, Err(Stop::None)));
    // What is awaited of a slice is settled by its end, too.
    assert_eq!(say("t", Answer::Awaited).0, Concerns::Everybody);
    assert_eq!(devices.remove_slice(&"t".into()), Concerns::Everybody);
}

#[test]
fn devices_are_reached_from_where_their_slice_says() {
    let reaching = |nodes| SliceFacts { nodes, ..slice(vec![device("g0")]) };
    let one = claim(vec![ask("r", 1)]);
    let on_a = |slice: SliceFacts| found(&all(vec![slice]), &[&one]).is_ok();
    assert!(on_a(reaching(Reach::Everywhere)));
    assert!(!on_a(reaching(Reach::Node("b".into()))));
    assert!(!on_a(reaching(Reach::Nowhere)));
    let zone = |value: &str| {
        use crate::model::input::{NodeSelectorTerm, Operator, Requirement};
        let values = vec![value.into()];
        let requirement = Requirement { key: "zone".into(), operator: Operator::In, values };
        let term = NodeSelectorTerm { labels: vec![requirement], fields: Vec::new() };
        Reach::Selected(NodeSelector { terms: vec![term] })
    };
    assert!(on_a(reaching(zone("z-a"))) && !on_a(reaching(zone("z-b"))));
    let own = |name: &str, node: &str| DeviceFacts {
        nodes: Some(Reach::Node(node.into())),
        ..device(name)
    };
    let each = SliceFacts {
        nodes: Reach::PerDevice,
        ..slice(vec![own("g0", "b"), own("g1", "a"), device("g2")])
    };
    assert_eq!(found(&all(vec![each]), &[&one]), Ok(vec!["g1".into()]));
}

#[test]
fn too_many_devices_and_too_long_a_search_are_said() {
    let devices = all(vec![slice(vec![device("g0")])]);
    let Err(Stop::Broken(0, problem)) = found(&devices, &[&claim(vec![ask("r", 33)])]) else {
        panic!("found")
    };
    assert!(problem.contains("33 devices; a claim has 32 at most"), "{problem}");
    // Forty devices that all differ, of which no twelve go together.
    let many = (0..40).map(|at| with(&format!("g{at:02}"), "numa", at)).collect();
    let devices = all(vec![slice(many)]);
    let mut spec = claim(vec![ask("r", 6), ask("s", 6)]);
    let distinct = Constraint { distinct: true, ..same("gpu.example.com/numa") };
    let none = Constraint { requests: vec!["s".into()], ..same("gpu.example.com/numa") };
    spec.constraints = vec![distinct, none];
    assert_eq!(found(&devices, &[&spec]), Err(Stop::TooLong));
}

#[test]
fn devices_that_are_alike_are_tried_once() {
    let many = (0..100).map(|at| device(&format!("g{at:02}"))).collect();
    let devices = all(vec![slice(many)]);
    let mut spec = claim(vec![ask("r", 16), ask("s", 16)]);
    spec.constraints = vec![Constraint { requests: vec!["s".into()], ..same("x/y") }];
    assert_eq!(found(&devices, &[&spec]), Err(Stop::None), "and not that it took too long");
}

/// Whoever uses claims comes, leaves, goes for a while and comes back, devices are kept for others,
/// and claims get and lose devices: what is counted is what counting anew finds.
#[test]
fn use_of_devices_is_counted_whoever_goes() {
    let names = ["g0", "g1", "g2"];
    let key = |claim: usize| -> (Text, Text) { ("ns".into(), names[claim].into()) };
    let mut devices = all(vec![slice(names.map(device).into())]);
    let mut placed: BTreeMap<PodIdx, PodShape> = BTreeMap::new();
    let mut away: BTreeMap<PodIdx, Vec<(Text, Text)>> = BTreeMap::new();
    let mut state: u64 = 1;
    let mut below = |count: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % count
    };
    for _ in 0..20_000 {
        let (step, claim) = (below(7), below(3) as usize);
        let pod = PodIdx::stand_in(below(4) as u32);
        let here = placed.contains_key(&pod) && !away.contains_key(&pod);
        match step {
            0 if !placed.contains_key(&pod) => {
                let claims = [claim, (claim + 1) % 3].map(|at| PodClaim::Named(key(at)));
                let shape = PodShape { claims: claims.into(), ..PodShape::default() };
                devices.join(pod, &shape);
                placed.insert(pod, shape);
            }
            1 if here => _ = devices.leave(pod, &placed.remove(&pod).expect("it is here")),
            2 if here => {
                let keys: Vec<_> = users::named(&placed[&pod]).cloned().collect();
                devices.go(pod, keys.iter().cloned(), false);
                away.insert(pod, keys);
            }
            3 => {
                let keys = away.remove(&pod).into_iter().flatten();
                devices.go(pod, keys, true);
            }
            4 => allocated(&mut devices, &[names[claim]], false),
            5 => _ = devices.remove_claim(&key(claim)),
            6 => {
                devices.let_go(WorkloadIdx::FIRST);
                let id = ("gpu.example.com".into(), "p".into(), names[claim].into());
                let kept = AllocatedDevice { id, share: false, consumed: BTreeMap::new() };
                devices.keep(WorkloadIdx::FIRST, &[kept].into());
            }
            _ => {}
        }
        devices.recount_use();
        if away.is_empty() {
            devices.recount(placed.iter().map(|(pod, shape)| (*pod, shape)));
        }
    }
}

#[test]
fn extended_resources_are_asked_of_devices_where_the_node_has_none_itself() {
    let extended = |left: bool| {
        let claim = ExtendedClaim {
            spec: claim(vec![ask("of-x", 1), ask("of-y", 2)]),
            resources: vec!["x".into(), "y".into()],
            classes: vec!["c".into(), "c".into()],
            mappings: Vec::new(),
        };
        let claims = vec![PodClaim::Extended { claim: Arc::new(claim), left }];
        PodShape { claims, ..PodShape::default() }
    };
    let devices = all(vec![slice(vec![device("g0"), device("g1"), device("g2")])]);
    let shape = extended(false);
    let got = |allocatable: &[(&str, i64)]| {
        let allocatable = allocatable.iter().map(|(name, has)| ((*name).into(), *has)).collect();
        let node = NodeFacts { allocatable, ..node("a") };
        let names = ["n".into()];
        let names = (&"ns".into(), Some(&names[..]));
        let hold = choose(&devices, &shape, names, &node, None);
        let chosen = hold.own(0).map(|chosen| chosen.devices.clone()).unwrap_or_default();
        chosen.iter().map(|one| one.request.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(got(&[]), ["of-x", "of-y", "of-y"]);
    assert_eq!(got(&[("x", 0), ("y", 4)]), ["of-x"], "none of it is as if it were not there");
    assert_eq!(got(&[("x", 1)]), ["of-y", "of-y"]);
    assert_eq!(got(&[("x", 1), ("y", 1)]), [""; 0], "no claim is made");
    let (left, has) = (extended(true), [("x".into(), 1), ("y".into(), 1)].into());
    assert!(needs(&devices, &left, &node("a")).is_err(), "what was left goes first");
    let offers = NodeFacts { allocatable: has, ..node("a") };
    assert!(needs(&devices, &left, &offers).is_ok_and(|needs| needs.specs.is_empty()));
}

fn own(spec: &ClaimSpec) -> PodClaim {
    PodClaim::Own { name: "o".into(), spec: Arc::new(spec.clone()) }
}

/// The claim `c`, which nobody has devices for yet.
fn untaken(devices: &mut Devices, spec: &ClaimSpec) -> PodClaim {
    let key: (Text, Text) = ("ns".into(), "c".into());
    devices.put_claim(ResourceClaimFacts {
        key: key.clone(),
        uid: "u".into(),
        of_one_pod: false,
        spec: Arc::new(spec.clone()),
        allocation: None,
    });
    PodClaim::Named(key)
}

#[test]
fn choices_tell_what_a_shared_claim_has_and_for_own_ones_only_what_is_taken() {
    let local = slice(vec![device("l")]);
    let (name, pool) = ("t".into(), "q".into());
    let wide = SliceFacts { name, pool, nodes: Reach::Everywhere, ..slice(vec![device("w")]) };
    let mut devices = all(vec![local, wide]);
    let one = claim(vec![ask("r", 1)]);
    let admin = claim(vec![DeviceAsk { admin: true, ..ask("r", 1) }]);
    let count = |devices: &Devices, claims: Vec<PodClaim>| {
        let shape = PodShape { claims, ..PodShape::default() };
        let mut kinds = ways::Kinds::of(devices, std::iter::once(&shape));
        let (found, whole) = ways::ways(devices, &shape, &node("a"), &mut kinds, 64);
        assert!(whole, "all were looked at");
        found.len()
    };
    assert_eq!(count(&devices, vec![own(&one), own(&one)]), 1);
    assert_eq!(count(&devices, vec![own(&admin)]), 1);
    let shared = untaken(&mut devices, &one);
    assert_eq!(count(&devices, vec![own(&one), shared.clone()]), 2);
    assert_eq!(count(&devices, vec![shared]), 2);
    let shared = untaken(&mut devices, &admin);
    assert_eq!(count(&devices, vec![shared]), 2);
}

#[test]
fn the_first_that_do_may_not_leave_the_most() {
    let shared = |name: &str| DeviceFacts { shared: true, ..device(name) };
    let mut plain = all(vec![slice(vec![device("g0"), device("g1")])]);
    let of_shares = all(vec![slice(vec![shared("g0"), shared("g1")])]);
    let choosy = |devices: &Devices, claims: Vec<PodClaim>| {
        ways::are_choosy(devices, &PodShape { claims, ..PodShape::default() })
    };
    let [one, two] = [1, 2].map(|count| claim(vec![ask("r", count)]));
    assert!(!choosy(&plain, vec![own(&two)]));
    assert!(!choosy(&of_shares, vec![own(&one)]));
    assert!(choosy(&of_shares, vec![own(&two)]));
    let named = untaken(&mut plain, &one);
    assert!(!choosy(&plain, vec![named.clone()]));
    assert!(choosy(&plain, vec![own(&one), named]), "it may have what only the pods' own can have");
}

#[test]
fn no_more_pods_are_counted_than_others_leave_room_for() {
    let devices = all(vec![slice((0..5).map(|at| device(&format!("g{at}"))).collect())]);
    let claims = vec![own(&claim(vec![ask("r", 1)]))];
    let (node, shape) = (node("a"), PodShape { claims, ..PodShape::default() });
    for (most, counted) in [(0, 0), (1, 1), (4, 4), (5, 5), (6, 5), (u32::MAX, 5)] {
        assert_eq!(count(&devices, &shape, &node, most), counted, "{most}");
    }
    assert_eq!(count(&devices, &PodShape::default(), &node, 7), 7);
}

fn of_claims(claims: Vec<PodClaim>) -> PodShape {
    PodShape { claims, ..PodShape::default() }
}

#[test]
fn devices_are_the_part_of_a_node_that_they_are_of_all_that_match() {
    let eight: Vec<DeviceFacts> = (0..8).map(|at| device(&format!("g{at}"))).collect();
    let mut devices = all(vec![slice(eight)]);
    let mut answers = vec![Answer::No; 8];
    answers[..2].fill(Answer::Yes);
    devices.put_answers("large".into(), "s".into(), answers.into());
    allocated(&mut devices, &["g1", "g2"], false);
    let part = |claims: Vec<PodClaim>| shares::of_node(&devices, &of_claims(claims), &node("a"));
    let of = |asks: Vec<DeviceAsk>| part(vec![own(&claim(asks))]);
    assert_eq!(of(vec![ask("r", 1)]), (1, 8), "those in use are of them");
    assert_eq!(of(vec![ask("r", 1), ask("s", 2)]), (3, 8));
    assert_eq!(of(vec![ask("r", 9)]), (8, 8), "no more than there are");
    let one = own(&claim(vec![ask("r", 1)]));
    assert_eq!(part(vec![one.clone(), one.clone()]), (2, 8));
    let large = DeviceAsk { query: "large".into(), ..ask("r", 1) };
    assert_eq!(of(vec![ask("r", 3), large.clone()]), (1, 2), "the larger part");
    assert_eq!(of(vec![ask("r", 5), large.clone()]), (5, 8));
    let every = DeviceAsk { count: DeviceCount::All, ..large.clone() };
    assert_eq!(of(vec![every]), (2, 2));
    let admin = DeviceAsk { admin: true, ..ask("r", 4) };
    assert_eq!(of(vec![admin]), (0, 1), "it keeps nothing");
    // Of alternatives the first that the node could meet.
    let three = DeviceAsk { count: DeviceCount::Exactly(3), ..large };
    let options = vec![three, ask("r/b", 2)];
    let either = ClaimSpec {
        requests: vec![RequestSpec { name: "r".into(), options }],
        ..ClaimSpec::default()
    };
    assert_eq!(part(vec![own(&either)]), (2, 8));
    let elsewhere = shares::of_node(&devices, &of_claims(vec![one]), &node("b"));
    assert_eq!(elsewhere, (0, 1), "nothing that is there");
    assert_eq!(part(vec![PodClaim::Named(("ns".into(), "none".into()))]), (0, 1));
}

#[test]
fn gpus_are_counted_where_they_are_had() {
    let profile = [("profile".into(), Attribute::Text("1g.10gb".into()))].into();
    let mig = DeviceFacts { attributes: profile, ..device("m0") };
    let memory = Capacity { value: Nano(80), policy: None };
    let capacity = [("memory".into(), memory)].into();
    let shared = DeviceFacts { shared: true, capacity, ..device("s0") };
    let mut devices = all(vec![slice(vec![device("g0"), device("g1"), mig, shared, device("g2")])]);
    allocated(&mut devices, &["g0", "g1"], false);
    allocated(&mut devices, &["m0"], false);
    allocated(&mut devices, &["s0"], true);
    let pod = PodIdx::FIRST;
    let named = |name: &str| PodClaim::Named(("ns".into(), name.into()));
    let seen = &mut std::collections::BTreeSet::new();
    assert_eq!(devices.milli_gpus((pod, None), &of_claims(vec![named("g0-g1")]), seen), 2_000);
    let both = of_claims(vec![named("g0-g1"), named("m0")]);
    assert_eq!(devices.milli_gpus((pod, None), &both, seen), 143, "once for all who share it");
    let half = of_claims(vec![named("s0")]);
    assert_eq!(devices.milli_gpus((pod, None), &half, seen), 500, "40 of 80");
    // What is not allocated yet, and what keeps nothing from others.
    let watch = DeviceAsk { admin: true, ..ask("watch", 1) };
    let waits = of_claims(vec![own(&claim(vec![ask("r", 1), watch]))]);
    assert_eq!(devices.milli_gpus((pod, None), &waits, seen), 0);
    let hold = choose(&devices, &waits, (&"ns".into(), None), &node("a"), None);
    devices.hold(pod, hold);
    assert_eq!(devices.milli_gpus((pod, None), &waits, seen), 1_000);
    assert!(devices.pods_with(&("ns".into(), "g0-g1".into())).is_empty(), "nobody with a place");
}
