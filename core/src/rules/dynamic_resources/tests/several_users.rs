//! Devices of which several claims may have a share.

use super::*;

fn memory(amount: i128) -> BTreeMap<Text, Capacity> {
    [("memory".into(), Capacity { value: Nano(amount), policy: None })].into()
}

fn shared(name: &str, amount: i128) -> DeviceFacts {
    DeviceFacts { shared: true, capacity: memory(amount), ..device(name) }
}

#[test]
fn shares_of_a_device_end_where_its_capacity_does() {
    let memory = Capacity { value: Nano(100), policy: None };
    let shared =
        DeviceFacts { shared: true, capacity: [("memory".into(), memory)].into(), ..device("g0") };
    let mut devices = all(vec![slice(vec![shared])]);
    let asking = |amount: i128| {
        let capacity = [("memory".into(), Nano(amount))].into();
        claim(vec![DeviceAsk { capacity, ..ask("r", 1) }])
    };
    let (forty, sixty) = (asking(40), asking(60));
    assert_eq!(found(&devices, &[&forty, &sixty]).map(|all| all.len()), Ok(2));
    assert_eq!(found(&devices, &[&sixty, &sixty]), Err(Stop::None));
    assert_eq!(found(&devices, &[&claim(vec![ask("r", 1)]), &forty]), Err(Stop::None));
    allocated(&mut devices, &["g0"], true);
    assert!(found(&devices, &[&sixty]).is_ok());
    assert_eq!(found(&devices, &[&asking(61)]), Err(Stop::None));
    devices.recount(std::iter::empty());
}

#[test]
fn where_one_of_all_is_used_up_there_are_not_all() {
    let mut devices = all(vec![slice(vec![shared("g0", 50), shared("g1", 20)])]);
    let capacity = [("memory".into(), Nano(20))].into();
    let every = claim(vec![DeviceAsk { count: DeviceCount::All, capacity, ..ask("r", 0) }]);
    assert_eq!(found(&devices, &[&every]), Ok(vec!["g0".into(), "g1".into()]));
    // Of g0 ten are left.
    allocated(&mut devices, &["g0"], true);
    assert_eq!(found(&devices, &[&every]), Err(Stop::None));
}

#[test]
fn a_device_that_is_shared_no_more_is_not_free_while_somebody_has_a_share() {
    let whole = |name: &str| DeviceFacts { capacity: memory(50), ..device(name) };
    let mut devices = all(vec![slice(vec![whole("g0"), whole("g1")])]);
    allocated(&mut devices, &["g0"], true);
    let one = claim(vec![ask("r", 1)]);
    assert_eq!(found(&devices, &[&one]), Ok(vec!["g1".into()]));
    assert_eq!(found(&devices, &[&one, &one]), Err(Stop::None));
    devices.recount(std::iter::empty());
}
