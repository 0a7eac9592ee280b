//! In which order pools are tried on a node.

use super::*;
use crate::model::input::ReadyWhen;

/// A slice of a pool of two, with one device.
fn part(pool: &str, node: &str, device: DeviceFacts) -> SliceFacts {
    let (name, pool) = (format!("{pool}-{node}").into(), pool.into());
    let nodes = Reach::Node(node.into());
    SliceFacts { name, pool, slices: 2, nodes, ..slice(vec![device]) }
}

fn waits(name: &str) -> DeviceFacts {
    let (conditions, failures) = (vec!["Attached".into()], Vec::new());
    let ready_when = Some(Arc::new(ReadyWhen { conditions, failures }));
    DeviceFacts { ready_when, ..device(name) }
}

#[test]
fn devices_that_are_waited_for_come_last_on_the_node_that_reaches_them() {
    let both = |of_a: DeviceFacts, of_b: DeviceFacts| {
        let plain = |node: &str, name: &str| part("q", node, device(name));
        let first = [part("p", "a", of_a), part("p", "b", of_b)];
        all(first.into_iter().chain([plain("a", "plain"), plain("b", "other")]).collect())
    };
    let one = claim(vec![ask("r", 1)]);
    let devices = both(waits("slow"), device("quick"));
    assert_eq!(found(&devices, &[&one]), Ok(vec!["plain".into()]));
    let two = claim(vec![ask("r", 2)]);
    assert_eq!(found(&devices, &[&two]), Ok(vec!["plain".into(), "slow".into()]));
    // What another node of the pool waits for is no matter of this one.
    let devices = both(device("quick"), waits("slow"));
    assert_eq!(found(&devices, &[&one]), Ok(vec!["quick".into()]));
}
