//! What must hold in every state that the API ever had, whatever happened to Capstan.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use capstan_tests::cluster::{Became, History, Pods, Seen};

/// How a gang fared: its members that are bound and did not fail are what stands of it.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Every time in which some of it stood and not all.
    pub in_part: Vec<InPart>,
}

/// A time in which some of a gang stood and not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPart {
    /// When it began.
    pub since: Duration,
    /// Since when as many members as it needs were there, bound or not, up to its end; a list
    /// shows them at once.
    pub complete: Option<Duration>,
    /// When and how it ended.
    pub ended: Option<(Duration, Came)>,
}

/// What became of a gang in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// All of it stands.
    Whole,
    /// Nothing of it does.
    Gone,
}

/// Times in which nobody could act: whoever leads was killed, or the API server.
pub type Away = [Range<Duration>];

/// In no state do the pods that pass hold more GPUs than this.
pub fn never_over(history: &History, what: &str, limit: i64, which: impl Fn(&Seen) -> bool) {
    let mut held = 0;
    history.replay_changes(|at, changes| {
        for (_, before, after) in changes {
            held -= before.filter(|it| which(it)).map_or(0, held_by);
            held += after.filter(|it| which(it)).map_or(0, held_by);
        }
        assert!(held <= limit, "{what} holds {held} GPUs of {limit} after {at:?}");
    });
}

/// GPUs that a pod holds.
fn held_by(pod: &Seen) -> i64 {
    if pod.holds() { pod.gpus } else { 0 }
}

/// GPUs that pods which pass hold.
pub fn held(pods: &Pods, which: impl Fn(&Seen) -> bool) -> i64 {
    pods.values().filter(|pod| pod.holds() && which(pod)).map(|pod| pod.gpus).sum()
}

/// No node ever holds more than it has, and no pod is ever on two.
pub fn binds_are_sound(history: &History, gpus_per_node: i64) {
    let mut bound: BTreeMap<String, String> = BTreeMap::new();
    let mut used: BTreeMap<String, i64> = BTreeMap::new();
    history.replay_changes(|at, changes| {
        for (uid, before, after) in changes {
            let pods = [(*before, -1), (*after, 1)];
            for (pod, sign) in pods.into_iter().filter_map(|(pod, sign)| Some((pod?, sign))) {
                let Some(node) = &pod.node else { continue };
                let first = bound.entry((*uid).to_owned()).or_insert_with(|| node.clone());
                assert_eq!(first, node, "{} moved after {at:?}", pod.name);
                *used.entry(node.clone()).or_default() += sign * held_by(pod);
            }
        }
        let over = used.iter().find(|(_, used)| **used > gpus_per_node);
        assert_eq!(over, None, "a node is over-committed after {at:?}");
    });
}

/// Every gang of Capstan's that ever had a bound member, in gangs of this size.
pub fn gangs(history: &History, size: usize) -> BTreeMap<String, Begun> {
    let mut tally = Tally { size, ..Tally::default() };
    history.replay_changes(|at, changes| tally.see(at, changes));
    tally.found
}

/// Gangs as states go by.
#[derive(Default)]
struct Tally {
    size: usize,
    found: BTreeMap<String, Begun>,
    /// How many members each gang has, and how many of them stand.
    counts: BTreeMap<String, (usize, usize)>,
    /// Since when as many members as a gang needs are there.
    complete: BTreeMap<String, Duration>,
}

impl Tally {
    fn see(&mut self, at: Duration, changes: &[Became<'_>]) {
        let ours = |pod: &&Seen| pod.scheduler == "capstan" && pod.phase != "Failed";
        let mut touched: BTreeSet<&str> = BTreeSet::new();
        for (_, before, after) in changes {
            if let Some(pod) = before.filter(ours) {
                let (members, stand) = self.counts.get_mut(&pod.gang).expect("was counted");
                (*members, *stand) = (*members - 1, *stand - usize::from(pod.node.is_some()));
                touched.insert(&pod.gang);
            }
            if let Some(pod) = after.filter(ours) {
                let (members, stand) = self.counts.entry(pod.gang.clone()).or_default();
                (*members, *stand) = (*members + 1, *stand + usize::from(pod.node.is_some()));
                touched.insert(&pod.gang);
            }
        }
        for gang in touched {
            self.look_at(at, gang);
        }
    }

    fn look_at(&mut self, at: Duration, gang: &str) {
        let (members, stand) = self.counts[gang];
        match (members >= self.size, self.complete.contains_key(gang)) {
            (true, false) => drop(self.complete.insert(gang.to_owned(), at)),
            (false, true) => drop(self.complete.remove(gang)),
            (true, true) | (false, false) => {}
        }
        if stand > 0 && !self.found.contains_key(gang) {
            self.found.insert(gang.to_owned(), Begun { in_part: Vec::new() });
        }
        if let Some(begun) = self.found.get_mut(gang) {
            begun.stands(at, stand, self.size, self.complete.get(gang).copied());
        }
    }
}

impl Begun {
    /// So many members stand, of so many; since when all of them are there.
    fn stands(&mut self, at: Duration, stand: usize, size: usize, complete: Option<Duration>) {
        let in_part = (1..size).contains(&stand);
        match self.in_part.last_mut().filter(|it| it.ended.is_none()) {
            None if in_part => self.in_part.push(InPart { since: at, complete, ended: None }),
            None => {}
            Some(open) if in_part => open.complete = complete,
            Some(open) => {
                let came = if stand == 0 { Came::Gone } else { Came::Whole };
                open.complete = complete.or(open.complete);
                open.ended = Some((at, came));
            }
        }
    }
}

/// Every gang that was begun became whole, and soon, each time: it is in part for no longer than
/// this, but for times in which nobody could act.
pub fn become_whole(gangs: &BTreeMap<String, Begun>, within: Duration, away: &Away) {
    let late = late(gangs, within, away, |it| it.since);
    assert!(late.is_empty(), "{late:#?}");
}

/// The same, counted from when the last of its members was made: what of the wait is Capstan's,
/// and not that of whoever makes the pods.
pub fn are_bound(gangs: &BTreeMap<String, Begun>, within: Duration, away: &Away) {
    let late = late(gangs, within, away, |it| it.complete.unwrap_or(it.since).max(it.since));
    assert!(late.is_empty(), "{late:#?}");
}

/// Gangs in part for too long, or for ever.
fn late(
    gangs: &BTreeMap<String, Begun>,
    within: Duration,
    away: &Away,
    from: impl Fn(&InPart) -> Duration,
) -> Vec<String> {
    let mut all = Vec::new();
    for (gang, begun) in gangs {
        for one in &begun.in_part {
            let Some((until, _)) = one.ended else {
                all.push(format!("{gang} stays in part: {begun:?}"));
                continue;
            };
            let from = from(one);
            let apart: Duration = away.iter().map(|away| overlap(away, &(from..until))).sum();
            let took = (until - from).saturating_sub(apart);
            if took > within {
                all.push(format!("{gang} was in part for {took:?}, {apart:?} apart: {one:?}"));
            }
        }
    }
    all
}

fn overlap(one: &Range<Duration>, other: &Range<Duration>) -> Duration {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

/// Pods that were bound and went without having succeeded, in the order in which they went.
pub fn stopped(history: &History) -> Vec<Seen> {
    let (mut stand, mut stopped) = (Pods::new(), Vec::new());
    history.replay(|_, pods| {
        let gone = stand.extract_if(.., |uid, _| !pods.contains_key(uid));
        stopped.extend(gone.map(|(_, pod)| pod).filter(|pod| pod.phase != "Succeeded"));
        let bound = pods.iter().filter(|(_, pod)| pod.node.is_some());
        stand.extend(bound.map(|(uid, pod)| (uid.clone(), pod.clone())));
    });
    stopped
}

/// No pod of Capstan's is put where what has stood there for a while leaves no room for it. How
/// many of its pods were put anywhere while something else stood.
pub fn what_stands_is_respected(history: &History, gpus_per_node: i64, a_while: Duration) -> usize {
    let mut judged = 0;
    let mut since: BTreeMap<String, Duration> = BTreeMap::new();
    history.replay(|at, pods| {
        since.retain(|uid, _| pods.get(uid).is_some_and(Seen::holds));
        let held = pods.iter().filter(|(_, pod)| pod.holds());
        let new: Vec<_> = held.filter(|(uid, _)| !since.contains_key(*uid)).collect();
        for (uid, pod) in new {
            let stands = |(other, it): &(&String, &Seen)| {
                let known = since.get(*other).is_some_and(|since| at - *since > a_while);
                known && it.holds()
            };
            let standing = || pods.iter().filter(stands).map(|(_, it)| it);
            let others = standing().any(|it| it.scheduler != "capstan");
            judged += usize::from(others && pod.scheduler == "capstan");
            let here = standing().filter(|it| it.node == pod.node);
            let held: i64 = here.map(|it| it.gpus).sum();
            let fits = held + pod.gpus <= gpus_per_node;
            assert!(fits || pod.scheduler != "capstan", "{} on a full node: {held}", pod.name);
            since.insert(uid.clone(), at);
        }
    });
    judged
}

#[cfg(test)]
mod tests {
    use capstan_tests::cluster::between;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Shows a gang of three by how many of its members are there, stand, and failed.
    fn shown(states: &[(usize, usize, usize)]) -> BTreeMap<String, Begun> {
        let mut tally = Tally { size: 3, ..Tally::default() };
        let mut before = Pods::new();
        for (at, (there, stand, failed)) in states.iter().enumerate() {
            let pod = |it: usize| Seen {
                namespace: String::new(),
                name: it.to_string(),
                gang: "gang".to_owned(),
                scheduler: "capstan".to_owned(),
                node: (it < stand + failed).then(|| "node".to_owned()),
                phase: if it < *failed { "Failed" } else { "Running" }.to_owned(),
                gpus: 1,
                waits: None,
            };
            let pods = (0..there + failed).map(|it| (it.to_string(), pod(it))).collect();
            tally.see(SECOND * u32::try_from(at).expect("few"), &between(&before, &pods));
            before = pods;
        }
        tally.found
    }

    fn late_by(states: &[(usize, usize, usize)], within: u32, away: &Away) -> usize {
        late(&shown(states), SECOND * within, away, |it| it.since).len()
    }

    #[test]
    fn every_time_in_part_is_judged() {
        let soon = [(3, 0, 0), (3, 1, 0), (3, 3, 0)];
        assert_eq!((late_by(&soon, 1, &[]), late_by(&soon, 0, &[])), (0, 1));
        let for_ever = [(3, 0, 0), (3, 1, 0), (3, 2, 0)];
        assert_eq!(late_by(&for_ever, 9, &[]), 1);
        let a_member_failed = [(3, 3, 0), (2, 2, 1), (3, 2, 1), (3, 2, 1), (3, 3, 1)];
        assert_eq!((late_by(&a_member_failed, 3, &[]), late_by(&a_member_failed, 2, &[])), (0, 1));
        let again = [(3, 3, 0), (0, 0, 0), (3, 1, 0), (3, 1, 0)];
        assert_eq!(late_by(&again, 9, &[]), 1, "its second run");
        let left = [(3, 3, 0), (2, 2, 0), (0, 0, 0)];
        assert_eq!(shown(&left)["gang"].in_part[0].ended, Some((SECOND * 2, Came::Gone)));
    }

    #[test]
    fn what_nobody_could_do_is_not_counted() {
        let states = [(3, 1, 0), (3, 1, 0), (3, 1, 0), (3, 1, 0), (3, 3, 0)];
        let away = [SECOND..SECOND * 3];
        assert_eq!((late_by(&states, 2, &away), late_by(&states, 1, &away)), (0, 1));
        let made_late = shown(&[(1, 1, 0), (2, 1, 0), (3, 1, 0), (3, 3, 0)]);
        let complete = made_late["gang"].in_part[0].complete;
        assert_eq!(complete, Some(SECOND * 2));
    }
}
