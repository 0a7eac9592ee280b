//! What must hold in every state that the API ever had, whatever happened to Capstan.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_tests::cluster::{History, Pods, Seen};

/// How far a gang got.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// When all of its members had been created; a list shows them at once.
    pub complete: Option<Duration>,
    /// When its first member was bound.
    pub first: Duration,
    /// When all of them were.
    pub whole: Option<Duration>,
}

/// In no state do the pods that pass hold more GPUs than this.
pub fn never_over(history: &History, what: &str, limit: i64, which: impl Fn(&Seen) -> bool) {
    history.replay(|at, pods| {
        let held = held(pods, &which);
        assert!(held <= limit, "{what} holds {held} GPUs of {limit} after {at:?}");
    });
}

/// GPUs that pods which pass hold.
pub fn held(pods: &Pods, which: impl Fn(&Seen) -> bool) -> i64 {
    pods.values().filter(|pod| pod.holds() && which(pod)).map(|pod| pod.gpus).sum()
}

/// No node ever holds more than it has, and no pod is ever on two.
pub fn binds_are_sound(history: &History, gpus_per_node: i64) {
    let mut bound: BTreeMap<String, String> = BTreeMap::new();
    history.replay(|at, pods| {
        let mut used: BTreeMap<&str, i64> = BTreeMap::new();
        for (uid, pod) in pods {
            let Some(node) = &pod.node else { continue };
            let first = bound.entry(uid.clone()).or_insert_with(|| node.clone());
            assert_eq!(first, node, "{} moved after {at:?}", pod.name);
            if pod.holds() {
                *used.entry(node).or_default() += pod.gpus;
            }
        }
        let over = used.iter().find(|(_, used)| **used > gpus_per_node);
        assert_eq!(over, None, "a node is over-committed after {at:?}");
    });
}

/// Every gang of Capstan's that ever had a bound member, in gangs of this size.
pub fn gangs(history: &History, size: usize) -> BTreeMap<String, Begun> {
    let mut found: BTreeMap<String, Begun> = BTreeMap::new();
    let mut complete: BTreeMap<String, Duration> = BTreeMap::new();
    history.replay(|at, pods| {
        let mut seen: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for pod in pods.values().filter(|pod| pod.scheduler == "capstan") {
            let (members, bound) = seen.entry(&pod.gang).or_default();
            *members += 1;
            *bound += usize::from(pod.node.is_some());
        }
        for (gang, (members, bound)) in seen {
            if members >= size && !complete.contains_key(gang) {
                complete.insert(gang.to_owned(), at);
            }
            if bound == 0 {
                continue;
            }
            let new = Begun { complete: complete.get(gang).copied(), first: at, whole: None };
            let begun = found.entry(gang.to_owned()).or_insert(new);
            if bound >= size {
                begun.whole.get_or_insert(at);
            }
        }
    });
    found
}

/// Every gang that was begun was whole soon after the last of its members was made: what of the
/// wait is Capstan's, and not that of whoever makes the pods.
pub fn are_bound(gangs: &BTreeMap<String, Begun>, within: Duration) {
    for (gang, begun) in gangs {
        let complete = begun.complete.unwrap_or_else(|| panic!("{gang} lacks members: {begun:?}"));
        let whole = begun.whole.unwrap_or_else(|| panic!("{gang} stays in part: {begun:?}"));
        let took = whole - complete;
        assert!(took < within, "{gang} was bound {took:?} after it could be");
    }
}

/// Every gang that was begun became whole, and soon.
pub fn become_whole(gangs: &BTreeMap<String, Begun>, within: Duration) {
    for (gang, begun) in gangs {
        let whole = begun.whole.unwrap_or_else(|| panic!("{gang} stays in part: {begun:?}"));
        let took = whole - begun.first;
        assert!(took < within, "{gang} was in part for {took:?}");
    }
}

/// No pod of Capstan's is put where what has stood there for a while leaves no room for it.
pub fn what_stands_is_respected(history: &History, gpus_per_node: i64, a_while: Duration) {
    let mut since: BTreeMap<String, Duration> = BTreeMap::new();
    history.replay(|at, pods| {
        since.retain(|uid, _| pods.get(uid).is_some_and(Seen::holds));
        let held = pods.iter().filter(|(_, pod)| pod.holds());
        let new: Vec<_> = held.filter(|(uid, _)| !since.contains_key(*uid)).collect();
        for (uid, pod) in new {
            let stands = |(other, it): &(&String, &Seen)| {
                let known = since.get(*other).is_some_and(|since| at - *since > a_while);
                known && it.holds() && it.node == pod.node
            };
            let held: i64 = pods.iter().filter(stands).map(|(_, it)| it.gpus).sum();
            let fits = held + pod.gpus <= gpus_per_node;
            assert!(fits || pod.scheduler != "capstan", "{} on a full node: {held}", pod.name);
            since.insert(uid.clone(), at);
        }
    });
}
