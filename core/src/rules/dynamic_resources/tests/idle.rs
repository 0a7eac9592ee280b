//! Whether devices that a claim has might be of use to others.

use super::*;

#[test]
fn devices_may_meet_what_is_asked_of_any_in_their_pool() {
    let (name, pool, nodes) = ("t".into(), "q".into(), Reach::Node("b".into()));
    let of_b = SliceFacts { name, pool, nodes, ..slice(vec![device("h0")]) };
    let mut devices = all(vec![slice(vec![device("g0"), device("g1")]), of_b]);
    devices.put_answers("large".into(), "s".into(), [Answer::No, Answer::Yes].into());
    devices.put_answers("large".into(), "t".into(), [Answer::No].into());
    let has = |pool: &str, name: &str| {
        let id = ("gpu.example.com".into(), pool.into(), name.into());
        let of = AllocatedDevice { id, share: false, consumed: BTreeMap::new() };
        Allocation { devices: vec![of], ..Allocation::default() }
    };
    let asks = |query: &str| claim(vec![DeviceAsk { query: query.into(), ..ask("r", 1) }]);
    let large = of_claims(vec![own(&asks("large"))]);
    // With less of g0 in use there may be more of g1, which is a part of the same.
    assert!(devices.may_meet(&large, &has("p", "g0")));
    assert!(!devices.may_meet(&large, &has("q", "h0")));
    assert!(!devices.may_meet(&large, &has("gone", "g0")));
    assert!(devices.may_meet(&of_claims(vec![own(&asks(""))]), &has("q", "h0")));
    assert!(!devices.may_meet(&of_claims(Vec::new()), &has("q", "h0")));
    // What nobody knows yet might be.
    assert!(devices.may_meet(&of_claims(vec![own(&asks("new"))]), &has("q", "h0")));
    // A claim that others may use too, whether it has devices or not.
    let shared = untaken(&mut devices, &asks("large"));
    assert!(devices.may_meet(&of_claims(vec![shared.clone()]), &has("p", "g0")));
    assert!(!devices.may_meet(&of_claims(vec![shared]), &has("q", "h0")));
}
