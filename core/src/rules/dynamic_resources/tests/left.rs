//! Claims that all their users leave within a transaction.

use super::*;

/// Two devices of node `a`, and two of node `b`.
fn two_nodes() -> Devices {
    let (name, pool, nodes) = ("t".into(), "q".into(), Reach::Node("b".into()));
    let of_b = SliceFacts { name, pool, nodes, ..slice(vec![device("h0"), device("h1")]) };
    all(vec![slice(vec![device("g0"), device("g1")]), of_b])
}

/// A claim for two devices, which has those of node `a`.
fn of_a(devices: &mut Devices) -> ResourceClaimKey {
    use crate::model::input::{NodeSelectorTerm, Operator, Requirement};
    let key: ResourceClaimKey = ("ns".into(), "both".into());
    let taken = ["g0", "g1"].map(|name| AllocatedDevice {
        id: ("gpu.example.com".into(), "p".into(), name.into()),
        share: false,
        consumed: BTreeMap::new(),
    });
    let values = vec!["z-a".into()];
    let requirement = Requirement { key: "zone".into(), operator: Operator::In, values };
    let term = NodeSelectorTerm { labels: vec![requirement], fields: Vec::new() };
    let nodes = Some(NodeSelector { terms: vec![term] });
    let allocation = Allocation { nodes, devices: taken.into(), ..Allocation::default() };
    devices.put_claim(ResourceClaimFacts {
        key: key.clone(),
        uid: "u".into(),
        of_one_pod: false,
        spec: Arc::new(claim(vec![ask("r", 2)])),
        allocation: Some(Arc::new(allocation)),
    });
    key
}

fn go(devices: &mut Devices, pod: PodIdx, key: &ResourceClaimKey, back: bool) -> Concerns {
    devices.go(pod, std::iter::once(key.clone()), back)
}

fn gets(devices: &Devices, shape: &PodShape, at: &str) -> PodHold {
    choose(devices, shape, (&"ns".into(), None), &node(at), None)
}

#[test]
fn a_claim_that_all_have_left_gets_others_wherever_it_is_needed() {
    let mut devices = two_nodes();
    let key = of_a(&mut devices);
    let shape = of_claims(vec![PodClaim::Named(key.clone())]);
    let [low, high] = [0, 1].map(PodIdx::stand_in);
    devices.join(low, &shape);
    let fits = |devices: &Devices| ["a", "b"].map(|at| count(devices, &shape, &node(at), 1));
    assert_eq!(fits(&devices), [1, 0], "it has devices of a");
    assert_eq!(go(&mut devices, low, &key, false), Concerns::Everybody);
    assert_eq!(fits(&devices), [1, 1]);
    let hold = gets(&devices, &shape, "b");
    devices.hold(high, hold);
    assert_eq!(devices.join(high, &shape), Concerns::Nobody);
    devices.recount_use();
    assert_eq!(fits(&devices), [0, 1], "it has devices of b now");
    let two = claim(vec![ask("r", 2)]);
    assert_eq!(found(&devices, &[&two]), Ok(vec!["g0".into(), "g1".into()]), "those of a are free");
    assert_eq!(devices.left_behind(), std::slice::from_ref(&key));
    assert_eq!(devices.given_anew(), std::slice::from_ref(&key));
    devices.leave(high, &shape);
    devices.give_up(high);
    assert_eq!(go(&mut devices, low, &key, true), Concerns::Everybody);
    assert_eq!(fits(&devices), [1, 0]);
    devices.recount(std::iter::once((low, &shape)));
}

#[test]
fn a_claim_that_all_have_left_needs_devices_beside_others() {
    let mut devices = two_nodes();
    let key = of_a(&mut devices);
    let low = PodIdx::stand_in(0);
    devices.join(low, &of_claims(vec![PodClaim::Named(key.clone())]));
    let more = untaken(&mut devices, &claim(vec![ask("r", 1)]));
    let shape = of_claims(vec![PodClaim::Named(key.clone()), more]);
    assert_eq!(count(&devices, &shape, &node("a"), 1), 0, "both devices are in use");
    go(&mut devices, low, &key, false);
    assert_eq!(count(&devices, &shape, &node("a"), 1), 0, "three are needed");
    go(&mut devices, low, &key, true);
}

#[test]
fn a_claim_that_comes_free_for_somebody_is_for_nobody_else() {
    let mut devices = two_nodes();
    let key = of_a(&mut devices);
    let keys = std::slice::from_ref(&key);
    let shape = of_claims(vec![PodClaim::Named(key.clone())]);
    let fits = |devices: &Devices| ["a", "b"].map(|at| count(devices, &shape, &node(at), 1));
    for (takes, once_free) in [(&[][..], [1, 1]), (keys, [0, 0])] {
        let concerns = devices.promise(WorkloadIdx::FIRST, (keys, takes), true);
        assert_eq!((concerns, fits(&devices)), (Concerns::Everybody, [0, 0]));
        let low = PodIdx::stand_in(0);
        devices.join(low, &shape);
        go(&mut devices, low, &key, false);
        assert_eq!(fits(&devices), once_free, "who needs it itself goes first");
        go(&mut devices, low, &key, true);
        devices.leave(low, &shape);
        devices.promise(WorkloadIdx::FIRST, (keys, takes), false);
        assert_eq!(fits(&devices), [1, 0]);
    }
}

#[test]
fn a_claim_that_is_being_given_back_is_for_nobody_until_it_shows_that() {
    let mut devices = two_nodes();
    let key = of_a(&mut devices);
    let shape = of_claims(vec![PodClaim::Named(key.clone())]);
    let fits = |devices: &Devices| ["a", "b"].map(|at| count(devices, &shape, &node(at), 1));
    devices.lose([key.clone()].into());
    assert_eq!(fits(&devices), [0, 0]);
    devices.lose(Default::default());
    assert_eq!(fits(&devices), [1, 0], "it was not given back after all");
    devices.lose([key.clone()].into());
    let claim = devices.claim(&key).expect("it is known").clone();
    devices.put_claim(ResourceClaimFacts { allocation: None, ..claim });
    assert_eq!(fits(&devices), [1, 1]);
}

fn low() -> PodIdx {
    PodIdx::stand_in(0)
}

fn other() -> PodIdx {
    PodIdx::stand_in(1)
}

/// These have reserved a claim, and nobody else; whether somebody no longer has.
fn reserve(devices: &mut Devices, key: &ResourceClaimKey, uids: &[&str]) -> bool {
    let claim = devices.claim(key).expect("it is known").clone();
    let has = Allocation::clone(claim.allocation.as_ref().expect("it has devices"));
    let reserved = uids.iter().map(|uid| Text::from(*uid)).collect();
    let allocation = Some(Arc::new(Allocation { reserved, ..has }));
    devices.put_claim(ResourceClaimFacts { allocation, ..claim });
    devices.note_reserved(key, whom)
}

/// Whom a uid names.
fn whom(uid: &Text) -> Reserver {
    match &**uid {
        "low" => Reserver::Pod(low()),
        "other" => Reserver::Pod(other()),
        "done" => Reserver::Ended,
        _ => Reserver::Unknown,
    }
}

/// Whether a claim is free once its one user has gone: within a transaction, and for good.
fn is_left(devices: &mut Devices, shape: &PodShape, key: &ResourceClaimKey) -> [bool; 2] {
    go(devices, low(), key, false);
    let left = devices.left_behind() == std::slice::from_ref(key);
    assert_eq!(count(devices, shape, &node("b"), 1) > 0, left, "it gets others then");
    devices.recount_use();
    go(devices, low(), key, true);
    devices.leave(low(), shape);
    let free = devices.coming_free(key);
    devices.join(low(), shape);
    devices.recount_use();
    [left, free]
}

#[test]
fn a_claim_that_others_have_reserved_is_not_left_by_all() {
    let mut devices = two_nodes();
    let key = of_a(&mut devices);
    let shape = of_claims(vec![PodClaim::Named(key.clone())]);
    devices.join(low(), &shape);
    for (uids, left) in [
        (&[][..], [true, true]),
        // Its end, once it is a fact, is looked at apart.
        (&["low"][..], [true, false]),
        (&["low", "done"][..], [true, false]),
        (&["low", "other"][..], [false, false]),
        (&["low", "somebody"][..], [false, false]),
        (&["done"][..], [true, true]),
        (&["somebody"][..], [false, false]),
    ] {
        reserve(&mut devices, &key, uids);
        assert_eq!(is_left(&mut devices, &shape, &key), left, "{uids:?}");
        devices.recount_reserved(whom);
    }
    // A pod that has a place and uses it too may leave with the first.
    reserve(&mut devices, &key, &["low", "other"]);
    devices.join(other(), &shape);
    go(&mut devices, low(), &key, false);
    assert!(devices.left_behind().is_empty());
    go(&mut devices, other(), &key, false);
    assert_eq!(devices.left_behind(), std::slice::from_ref(&key));
    go(&mut devices, other(), &key, true);
    go(&mut devices, low(), &key, true);
}

#[test]
fn whoever_has_ended_has_reserved_nothing_whatever_claims_say() {
    let mut devices = two_nodes();
    let key = of_a(&mut devices);
    let shape = of_claims(vec![PodClaim::Named(key.clone())]);
    devices.join(low(), &shape);
    let late = PodIdx::stand_in(2);
    let [uid, uid_of_other] = ["somebody", "other"].map(Text::from);
    assert!(!reserve(&mut devices, &key, &["low", "somebody", "other"]));
    // The claim may be told before its pod.
    assert!(devices.note_reserver(late, &uid, false));
    assert!(!devices.note_reserver(late, &uid, false), "that is no news");
    assert!(devices.note_reserver(other(), &uid_of_other, true));
    assert_eq!(is_left(&mut devices, &shape, &key), [false, false]);
    assert!(devices.note_reserver(late, &uid, true));
    assert_eq!(is_left(&mut devices, &shape, &key), [true, false]);
    assert!(devices.note_reserver(low(), &"low".into(), true));
    assert_eq!(is_left(&mut devices, &shape, &key), [true, true]);
    // Nobody knows them any more, and the claim still names one.
    let gone = |_: &Text| Reserver::Unknown;
    assert!(!devices.note_reserved(&key, gone));
    assert_eq!(is_left(&mut devices, &shape, &key), [true, true]);
    devices.recount_reserved(gone);
    // Somebody else comes, and goes.
    assert!(!reserve(&mut devices, &key, &["other"]));
    assert_eq!(is_left(&mut devices, &shape, &key), [false, false]);
    assert!(reserve(&mut devices, &key, &[]));
    assert_eq!(is_left(&mut devices, &shape, &key), [true, true]);
}

#[test]
fn a_pod_that_waits_need_not_have_reserved_what_others_use() {
    let mut devices = two_nodes();
    let key = of_a(&mut devices);
    let shape = of_claims(vec![PodClaim::Named(key.clone())]);
    let keys = std::slice::from_ref(&key);
    let of = |devices: &Devices| devices.reserved_beside_users(other(), |pod| pod == other());
    reserve(&mut devices, &key, &["low", "other"]);
    assert!(of(&devices).is_empty(), "nobody uses it");
    devices.join(low(), &shape);
    assert_eq!(of(&devices), keys);
    reserve(&mut devices, &key, &["low", "other", "done"]);
    assert_eq!(of(&devices), keys);
    for uids in [&["low"][..], &["other"], &["low", "other", "somebody"]] {
        reserve(&mut devices, &key, uids);
        assert!(of(&devices).is_empty(), "{uids:?}");
    }
}

#[test]
fn who_has_reserved_a_claim_is_known_but_for_those_who_ended() {
    let mut devices = two_nodes();
    let key = of_a(&mut devices);
    for (uids, known, all_are_these) in [
        (&[][..], &[][..], true),
        (&["other", "low"][..], &[low(), other()][..], true),
        (&["low", "done"][..], &[low()][..], true),
        (&["low", "somebody"][..], &[low()][..], false),
    ] {
        reserve(&mut devices, &key, uids);
        let pods: Vec<PodIdx> = devices.reservers(&key).collect();
        assert!(pods.iter().all(|pod| known.contains(pod)) && pods.len() == known.len());
        let all = devices.reserved_by_such(&key, |pod| known.contains(&pod));
        assert_eq!(all, all_are_these, "{uids:?}");
    }
}

/// What was done, to be taken back.
enum Step {
    Gone(PodIdx),
    Placed(PodIdx),
    Removed(PodIdx, PodHold),
}

fn undo(devices: &mut Devices, shape: &PodShape, key: &ResourceClaimKey, step: Step) {
    match step {
        Step::Gone(pod) => _ = go(devices, pod, key, true),
        Step::Placed(pod) => {
            devices.leave(pod, shape);
            devices.give_up(pod);
        }
        Step::Removed(pod, hold) => {
            devices.hold(pod, hold);
            devices.join(pod, shape);
        }
    }
}

/// Users go, others come and leave, and all of it is taken back: what is counted is what counting
/// anew finds.
#[test]
fn use_is_counted_whoever_takes_up_what_others_left() {
    let mut devices = two_nodes();
    let key = of_a(&mut devices);
    let shape = of_claims(vec![PodClaim::Named(key.clone())]);
    let told = [0, 1].map(PodIdx::stand_in);
    told.iter().for_each(|pod| _ = devices.join(*pod, &shape));
    let mut placed: Vec<PodIdx> = Vec::new();
    let mut gone: Vec<PodIdx> = Vec::new();
    let mut done: Vec<Step> = Vec::new();
    let mut state: u64 = 1;
    let mut below = |count: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % count
    };
    for _ in 0..5_000 {
        let (step, other) = (below(5), PodIdx::stand_in(2 + below(3) as u32));
        let one = told[below(2) as usize];
        let at = ["a", "b"][below(2) as usize];
        let fits = count(&devices, &shape, &node(at), 1) > 0;
        match step {
            0 if !gone.contains(&one) => {
                go(&mut devices, one, &key, false);
                gone.push(one);
                done.push(Step::Gone(one));
            }
            1 if fits && !placed.contains(&other) => {
                let hold = gets(&devices, &shape, at);
                devices.hold(other, hold);
                devices.join(other, &shape);
                placed.push(other);
                done.push(Step::Placed(other));
            }
            2 if placed.contains(&other) => {
                devices.leave(other, &shape);
                placed.retain(|pod| *pod != other);
                done.push(Step::Removed(other, devices.give_up(other)));
            }
            3 | 4 => {
                let Some(last) = done.pop() else { continue };
                match &last {
                    Step::Gone(pod) => gone.retain(|it| it != pod),
                    Step::Placed(pod) => placed.retain(|it| it != pod),
                    Step::Removed(pod, _) => placed.push(*pod),
                }
                undo(&mut devices, &shape, &key, last);
            }
            _ => {}
        }
        devices.recount_use();
    }
    while let Some(last) = done.pop() {
        undo(&mut devices, &shape, &key, last);
    }
    devices.recount(told.iter().map(|pod| (*pod, &shape)));
}
