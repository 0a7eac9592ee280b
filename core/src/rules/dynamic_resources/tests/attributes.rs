//! Attributes that have several values: devices match by one that all of them have.

use super::*;

fn links(name: &str, values: &[i64]) -> DeviceFacts {
    let list = Attribute::List(values.iter().map(|value| Attribute::Int(*value)).collect());
    DeviceFacts { attributes: [("links".into(), list)].into(), ..device(name) }
}

fn pair(distinct: bool) -> ClaimSpec {
    let constraint = Constraint { distinct, ..same("gpu.example.com/links") };
    ClaimSpec { constraints: vec![constraint], ..claim(vec![ask("r", 2)]) }
}

#[test]
fn all_must_have_a_value_in_common_and_not_each_two() {
    let devices = all(vec![slice(vec![links("g0", &[1, 2]), links("g1", &[2, 3])])]);
    assert_eq!(found(&devices, &[&pair(false)]), Ok(vec!["g0".into(), "g1".into()]));
    assert_eq!(found(&devices, &[&pair(true)]), Err(Stop::None));
    let ring = vec![links("g0", &[1, 2]), links("g1", &[2, 3]), links("g2", &[3, 1])];
    let three = ClaimSpec { requests: claim(vec![ask("r", 3)]).requests, ..pair(false) };
    assert_eq!(found(&all(vec![slice(ring)]), &[&three]), Err(Stop::None));
}

#[test]
fn one_value_is_a_list_of_it() {
    let devices = vec![links("g0", &[1, 2]), with("g1", "links", 3), with("g2", "links", 2)];
    let devices = all(vec![slice(devices)]);
    assert_eq!(found(&devices, &[&pair(false)]), Ok(vec!["g0".into(), "g2".into()]));
    assert_eq!(found(&devices, &[&pair(true)]), Ok(vec!["g0".into(), "g1".into()]));
}
