//! What one class of pods prefers of the pods around each node: sums by domain, and their scale.
//!
//! Two wishes, added up as kube-scheduler adds them:
//! - Pull: every pod that a preferred term of the class means counts its weight in its domain
//!   (below zero: to be away), and so does every pod there of which a preferred term means the
//!   class; one that requires such pods near counts [`REQUIRED_WEIGHT`].
//! - Spread: every pod that a ScheduleAnyway constraint counts counts the constraint's weight, the
//!   logarithm of how many domains there are: an uneven zone is worse than an uneven host.
//!
//! What is best depends on the others: three pods are many where elsewhere are none. kube-scheduler
//! takes the nodes that are left in a try for comparison. Here it is all nodes whose facts admit
//! the class, full or not: so the scale is the same for all of them, belongs to the class, and
//! changes with the least and the most that any node has. Whoever keeps scores asks after each
//! change whose may be others ([`Preferences::moved`]).
//!
//! A node has what its domains of all keys have together. With one key the least and the most of
//! domains are those of nodes; with several perhaps no node is in the least domain of each, so
//! sums of nodes are compared, group by group: a zone's least is that of its hosts and its own.

use std::collections::BTreeMap;

use capstan_topology::NodeIdx;

use super::keys::{KeyIdx, KeyTable};
use super::outlook::makes_domains;
use crate::model::room::Room;
use crate::rules::{self, Question};
use crate::score::FULL;

/// What a pod counts that requires others near which the class has. kube-scheduler's default.
pub const REQUIRED_WEIGHT: i32 = 1;

/// A node that is in no group.
const NOWHERE: u32 = u32::MAX;

/// A logarithm of 1, as logarithms are kept.
const LOG_ONE: i64 = 1 << 10;

/// What the natural logarithm says of one more that a constraint allows domains to differ, by which
/// kube-scheduler makes it matter less: `LOG_ONE` over the logarithm of 2.
const SKEW_ONE: i64 = 1_477;

/// What a tally adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Weights of terms by which the class and the pods around draw each other near, or away.
    Pull,
    /// Pods that a ScheduleAnyway constraint counts, by its place.
    Spread(usize),
}

/// Sums of one wish, by domain of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tally {
    wish: Wish,
    key: KeyIdx,
    /// By node slot.
    seen: Vec<Seen>,
    in_domain: Vec<i64>,
    /// Nodes that admit the class, by domain; of a constraint, those that count.
    open_in: Vec<u32>,
    /// Domains that have such nodes, by sum.
    by_sum: BTreeMap<i64, u32>,
    /// How many there are.
    domains: u32,
    /// Nodes that admit the class and are in no domain.
    outside: u32,
    /// What a pod counts.
    weight: i64,
    /// What all domains count, for the skew that is allowed.
    slack: i64,
}

/// A node as it was last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    sum: i32,
    /// Its pods count.
    counts: bool,
    open: bool,
}

/// The least and the most that nodes have, all tallies of a wish together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scale {
    least: i64,
    most: i64,
}

/// Several tallies of one wish. All but the one with the most domains divide the nodes into groups:
/// if that is by hosts, the others by zones may be. Nodes of a group have the same of those others:
/// that is added to the least and the most that any of them has of the one.
#[derive(Clone, Debug, Default)]
struct Together {
    /// The tallies, the one with the most domains last.
    tallies: Vec<usize>,
    /// Group by node slot.
    of: Vec<u32>,
    groups: Vec<Group>,
    scale: Scale,
}

/// Nodes in the same domains of all tallies but the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    nodes: Vec<NodeIdx>,
    /// The least and the most of the last tally that nodes have which admit the class; `None`:
    /// there are none.
    ends: Option<(i64, i64)>,
    /// They may be others.
    stale: bool,
}

/// All that a class prefers of the pods around.
#[derive(Clone, Debug, Default)]
pub struct Preferences {
    tallies: Vec<Tally>,
    /// The class itself has preferred terms.
    asks: bool,
    /// Nodes that admit the class, by slot; empty without tallies.
    open: Vec<bool>,
    pull: Scale,
    spread: Scale,
    /// What those come from where there are several tallies of a wish.
    together: [Together; 2],
    /// Nodes that began or ceased to admit the class of late; empty unless there are several.
    reopened: Vec<NodeIdx>,
    /// Domains whose sum changed of late, by tally.
    changed: Vec<(usize, usize)>,
    /// So did the scale.
    all_changed: bool,
}

impl Tally {
    fn new(wish: Wish, key: KeyIdx, max_skew: u32, (slots, table): (usize, &KeyTable)) -> Tally {
        let domains = table.domains();
        Tally {
            wish,
            key,
            seen: vec![Seen::default(); slots],
            in_domain: vec![0; domains],
            open_in: vec![0; domains],
            by_sum: BTreeMap::new(),
            domains: 0,
            outside: 0,
            weight: LOG_ONE,
            slack: SKEW_ONE * (i64::from(max_skew.max(1)) - 1),
        }
    }

    /// Sees a node anew; whether the sum of its domain is another one, and whether pods count as
    /// much as before.
    fn set(&mut self, node: NodeIdx, domain: Option<usize>, now: Seen) -> (bool, bool) {
        let was = std::mem::replace(&mut self.seen[node.at()], now);
        let grown = |count: u32| count - u32::from(was.open) + u32::from(now.open);
        let Some(domain) = domain else {
            self.outside = grown(self.outside);
            return (false, true);
        };
        let (had, nodes) = (self.in_domain[domain], self.open_in[domain]);
        let (has, left) = (had - i64::from(was.sum) + i64::from(now.sum), grown(nodes));
        (self.in_domain[domain], self.open_in[domain]) = (has, left);
        if (had, nodes > 0) != (has, left > 0) {
            self.count(had, nodes > 0, -1);
            self.count(has, left > 0, 1);
        }
        let before = self.weight;
        if (nodes > 0) != (left > 0) {
            self.weight = log2(self.domains.saturating_add(2));
        }
        (had != has, before == self.weight)
    }

    fn count(&mut self, sum: i64, open: bool, by: i32) {
        if !open {
            return;
        }
        let domains = self.by_sum.entry(sum).or_default();
        *domains = domains.checked_add_signed(by).expect("a domain is counted before it goes");
        if *domains == 0 {
            self.by_sum.remove(&sum);
        }
        self.domains = self.domains.checked_add_signed(by).expect("as many as are counted");
    }

    /// The least and the most that any node has of it that admits the class.
    fn scale(&self) -> Scale {
        let ends = (self.by_sum.first_key_value(), self.by_sum.last_key_value());
        let (Some((least, _)), Some((most, _))) = ends else { return Scale::default() };
        match (self.wish, self.outside) {
            (Wish::Pull, 0) => Scale { least: *least, most: *most },
            (Wish::Pull, _) => Scale { least: *least.min(&0), most: *most.max(&0) },
            (Wish::Spread(_), _) => {
                Scale { least: self.weight * least, most: self.weight * most + self.slack }
            }
        }
    }

    /// What a pod counts in the sum of a node.
    fn factor(&self) -> i64 {
        match self.wish {
            Wish::Pull => 1,
            Wish::Spread(_) => self.weight,
        }
    }

    /// The least and the most that nodes have which admit the class, before they are weighed.
    fn ends(&self, table: &KeyTable, nodes: &[NodeIdx]) -> Option<(i64, i64)> {
        let open = nodes.iter().filter(|node| self.seen[node.at()].open);
        let sums = open.map(|node| table.domain(*node).map_or(0, |at| self.in_domain[at]));
        sums.fold(None, |ends: Option<(i64, i64)>, sum| match ends {
            None => Some((sum, sum)),
            Some((least, most)) => Some((least.min(sum), most.max(sum))),
        })
    }

    /// Without slots of nodes that are gone.
    fn cut(&self, slots: usize) -> Tally {
        let mut cut = self.clone();
        let gone = cut.seen.drain(slots.min(cut.seen.len())..);
        assert!(gone.into_iter().all(|seen| seen == Seen::default()), "a node that is gone");
        cut
    }
}

impl Together {
    /// Groups for these tallies of all, which are to be looked at.
    fn new(room: &Room, all: &[Tally], mut tallies: Vec<usize>) -> Together {
        tallies.sort_by_key(|at| all[*at].in_domain.len());
        let others = tallies.split_last().map_or(&[][..], |(_, others)| others);
        let keys = &room.neighbourhood.keys;
        let domain = |at: &usize, node| keys.table(all[*at].key).domain(node);
        let mut known: BTreeMap<Vec<Option<usize>>, u32> = BTreeMap::new();
        let (mut of, mut groups) = (vec![NOWHERE; room.slots()], Vec::<Group>::new());
        for &node in room.tree.order() {
            let domains = others.iter().map(|at| domain(at, node)).collect();
            let next = groups.len() as u32;
            let group = *known.entry(domains).or_insert(next);
            if group == next {
                groups.push(Group { stale: true, ..Group::default() });
            }
            of[node.at()] = group;
            groups[group as usize].nodes.push(node);
        }
        Together { tallies, of, groups, scale: Scale::default() }
    }

    /// Domains have other sums, by tally, and these nodes began or ceased to admit the class.
    fn note(
        &mut self,
        room: &Room,
        all: &[Tally],
        (changed, reopened): (&[(usize, usize)], &[NodeIdx]),
    ) {
        let Some(&last) = self.tallies.last() else { return };
        let table = room.neighbourhood.keys.table(all[last].key);
        let of_last = changed.iter().filter(|(at, _)| *at == last);
        let moved = of_last.flat_map(|(_, domain)| table.nodes(*domain));
        for node in moved.chain(reopened) {
            let group = self.of.get(node.at()).copied().unwrap_or(NOWHERE);
            if let Some(group) = self.groups.get_mut(group as usize) {
                group.stale = true;
            }
        }
    }

    /// Finds the least and the most that any node has which admits the class.
    fn measure(&mut self, room: &Room, all: &[Tally]) -> Scale {
        let Some((last, others)) = self.tallies.split_last() else { return Scale::default() };
        let (last, keys) = (&all[*last], &room.neighbourhood.keys);
        let slack: i64 = self.tallies.iter().map(|at| all[*at].slack).sum();
        let mut scale: Option<Scale> = None;
        for group in &mut self.groups {
            if std::mem::take(&mut group.stale) {
                group.ends = last.ends(keys.table(last.key), &group.nodes);
            }
            let Some((least, most)) = group.ends else { continue };
            let of_others = others.iter().map(|at| {
                let domain = keys.table(all[*at].key).domain(group.nodes[0]);
                domain.map_or(0, |domain| all[*at].factor() * all[*at].in_domain[domain])
            });
            let base: i64 = of_others.sum();
            let least = base + last.factor() * least;
            let most = base + last.factor() * most + slack;
            scale = Some(match scale {
                None => Scale { least, most },
                Some(of) => Scale { least: of.least.min(least), most: of.most.max(most) },
            });
        }
        self.scale = scale.unwrap_or_default();
        self.scale
    }
}

impl Preferences {
    /// Whether the class has none, and nobody around has any that mean it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tallies.is_empty()
    }

    /// How many sums it keeps of each node.
    #[inline]
    pub fn len(&self) -> usize {
        self.tallies.len()
    }

    /// Takes in a ScheduleAnyway constraint of the class, before any node is counted.
    pub fn add_spread(&mut self, room: &Room, place: usize, key: KeyIdx, max_skew: u32) {
        self.add(room, Wish::Spread(place), key, max_skew);
    }

    /// Takes in a preferred term of the class, before any node is counted.
    pub fn add_term(&mut self, room: &Room, key: KeyIdx) {
        self.asks = true;
        if self.pulling(key).is_none() {
            self.add(room, Wish::Pull, key, 1);
        }
    }

    /// The tally of who draws the class near or away within domains of a key; a new one has seen
    /// of every node what it is, and nobody on it.
    pub fn pull_by(&mut self, question: &Question<'_>, key: KeyIdx) -> u16 {
        if let Some(known) = self.pulling(key) {
            return known;
        }
        let room = question.room;
        let at = self.add(room, Wish::Pull, key, 1);
        let (tally, table) = (&mut self.tallies[at], room.neighbourhood.keys.table(key));
        let offered = room.tree.order().iter().filter(|node| room.facts(**node).is_some());
        for &node in offered {
            let open = rules::facts_accept(&Question { node, ..*question }, &mut Vec::new());
            self.open[node.at()] = open;
            let domain = table.domain(node);
            tally.set(node, domain, Seen { sum: 0, counts: domain.is_some(), open });
        }
        at as u16
    }

    fn pulling(&self, key: KeyIdx) -> Option<u16> {
        let same = |tally: &Tally| tally.wish == Wish::Pull && tally.key == key;
        self.tallies.iter().position(same).map(|at| at as u16)
    }

    fn add(&mut self, room: &Room, wish: Wish, key: KeyIdx, max_skew: u32) -> usize {
        self.open.resize(room.slots(), false);
        let sizes = (room.slots(), room.neighbourhood.keys.table(key));
        self.tallies.push(Tally::new(wish, key, max_skew, sizes));
        self.tallies.len() - 1
    }

    /// Tallies of ScheduleAnyway constraints, and the places of those.
    pub fn constraints(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        let tallies = self.tallies.iter().zip(0..);
        tallies.filter_map(|(tally, at)| match tally.wish {
            Wish::Spread(place) => Some((at, place)),
            Wish::Pull => None,
        })
    }

    /// What a tally is of.
    #[inline]
    pub fn wish(&self, at: u16) -> Wish {
        self.tallies[at as usize].wish
    }

    /// Forgets whose sums changed before.
    pub fn begin(&mut self) {
        self.changed.clear();
        self.reopened.clear();
        self.all_changed = false;
    }

    /// Counts one node anew, by tally; `facts`: what it is may be something else, too.
    pub fn count(&mut self, question: &Question<'_>, sums: &[i64], facts: bool) {
        let (room, node) = (question.room, question.node);
        if facts && !self.is_empty() {
            self.open[node.at()] = rules::facts_accept(question, &mut Vec::new());
        }
        let several = self.tallies.len() > 1;
        for (at, tally) in self.tallies.iter_mut().enumerate() {
            let domain = room.neighbourhood.keys.table(tally.key).domain(node);
            let counts = match tally.wish {
                Wish::Pull => domain.is_some(),
                Wish::Spread(place) if facts => makes_domains(question, place),
                Wish::Spread(_) => tally.seen[node.at()].counts,
            };
            let compared = counts || tally.wish == Wish::Pull;
            let sum = sums[at].clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
            let sum = if counts { sum } else { 0 };
            let seen = Seen { sum, counts, open: self.open[node.at()] && compared };
            let reopened = tally.seen[node.at()].open != seen.open;
            self.reopened.extend(Some(node).filter(|_| several && reopened));
            let (moved, same_weight) = tally.set(node, domain, seen);
            self.all_changed |= !same_weight;
            self.changed.extend(domain.filter(|_| moved).map(|domain| (at, domain)));
        }
    }

    /// All nodes that changed are counted.
    pub fn end(&mut self, room: &Room) {
        self.changed.sort_unstable();
        self.changed.dedup();
        let mut together = std::mem::take(&mut self.together);
        let [pulls, spreads] = &mut together;
        let pull = self.measure(room, Wish::is_pull, pulls);
        let spread = self.measure(room, Wish::is_spread, spreads);
        self.together = together;
        self.reopened = Vec::new();
        self.all_changed |= (pull, spread) != (self.pull, self.spread);
        (self.pull, self.spread) = (pull, spread);
    }

    /// The least and the most that any node has of a wish which admits the class.
    fn measure(&self, room: &Room, wanted: fn(Wish) -> bool, together: &mut Together) -> Scale {
        let mut own = self.tallies.iter().filter(|tally| wanted(tally.wish));
        match (own.next(), own.next()) {
            (None, _) => return Scale::default(),
            (Some(one), None) => return one.scale(),
            (Some(_), Some(_)) => {}
        }
        if together.tallies.len() != 2 + own.count() {
            let own = self.tallies.iter().enumerate().filter(|(_, tally)| wanted(tally.wish));
            *together = Together::new(room, &self.tallies, own.map(|(at, _)| at).collect());
        } else if self.changed.is_empty() && self.reopened.is_empty() {
            return together.scale;
        } else {
            together.note(room, &self.tallies, (&self.changed, &self.reopened));
        }
        together.measure(room, &self.tallies)
    }

    /// Nodes whose values may be others since [`Preferences::begin`], and of each whether it is in
    /// the domains of the one before, so that its values are the same.
    pub fn moved(&self, room: &Room, mut each: impl FnMut(NodeIdx, bool)) {
        let keys = &room.neighbourhood.keys;
        let mut last = None;
        let mut tell = |node: NodeIdx| {
            let before = last.replace(node);
            let alike = |before| {
                let mut tables = self.tallies.iter().map(|tally| keys.table(tally.key));
                tables.all(|table| table.domain(before) == table.domain(node))
            };
            each(node, before.is_some_and(alike));
        };
        if self.all_changed {
            return room.tree.order().iter().copied().for_each(tell);
        }
        for (tally, domain) in &self.changed {
            let table = keys.table(self.tallies[*tally].key);
            table.nodes(*domain).iter().copied().for_each(&mut tell);
        }
    }

    /// How much the pods around draw the class to a node: all where nobody is drawn more, nothing
    /// where nobody is drawn less. `None`: nobody is drawn anywhere.
    #[inline]
    pub fn pull(&self, room: &Room, node: NodeIdx) -> Option<u32> {
        let Scale { least, most } = self.pull;
        if least == most {
            return self.asks.then_some(FULL);
        }
        let here = self.of(room, node, Wish::is_pull);
        let sum: i64 = here.filter_map(|(tally, at)| Some(tally.in_domain[at?])).sum();
        Some(part(sum.saturating_sub(least), most - least))
    }

    /// How empty the domains of a node are: all where none is emptier, nothing where none is fuller
    /// or where a key is missing. `None`: the class does not care.
    #[inline]
    pub fn spread(&self, room: &Room, node: NodeIdx) -> Option<u32> {
        let (mut sum, mut any) = (0_i64, false);
        for (tally, domain) in self.of(room, node, Wish::is_spread) {
            any = true;
            let Some(domain) = domain else { return Some(0) };
            sum = sum.saturating_add(tally.weight * tally.in_domain[domain]);
        }
        let Scale { least, most } = self.spread;
        any.then(|| match most {
            0 => FULL,
            _ => part(most.saturating_add(least).saturating_sub(sum), most),
        })
    }

    /// Tallies of a wish, with the domain in which a node is.
    fn of<'a>(
        &'a self,
        room: &'a Room,
        node: NodeIdx,
        wanted: fn(Wish) -> bool,
    ) -> impl Iterator<Item = (&'a Tally, Option<usize>)> + 'a {
        let tallies = self.tallies.iter().filter(move |tally| wanted(tally.wish));
        tallies.map(move |tally| (tally, room.neighbourhood.keys.table(tally.key).domain(node)))
    }

    /// Compares every sum with those made anew, and every group with one that is looked at anew.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, anew: &Preferences, room: &Room) {
        for tally in &self.tallies {
            let same = |other: &&Tally| (other.wish, other.key) == (tally.wish, tally.key);
            match anew.tallies.iter().find(same) {
                Some(other) => {
                    assert_eq!(tally.cut(room.slots()), *other, "pods that are preferred")
                }
                None => assert!(tally.in_domain.iter().all(|sum| *sum == 0), "of pods not there"),
            }
        }
        for together in self.together.iter().filter(|together| !together.tallies.is_empty()) {
            let mut again = Together::new(room, &self.tallies, together.tallies.clone());
            again.measure(room, &self.tallies);
            assert_eq!(together.groups, again.groups, "what groups of nodes have");
            assert_eq!(together.scale, again.scale, "the scale of groups of nodes");
        }
        assert_eq!((self.pull, self.spread), (anew.pull, anew.spread), "scales of preferences");
    }
}

impl Wish {
    fn is_pull(self) -> bool {
        self == Wish::Pull
    }

    fn is_spread(self) -> bool {
        !self.is_pull()
    }
}

/// `part / whole` of the best value; nodes that do not admit the class may lie beyond.
fn part(part: i64, whole: i64) -> u32 {
    let full = i64::from(FULL);
    let value = match part.checked_mul(full) {
        Some(product) => product / whole,
        None if part < 0 => 0,
        None => (i128::from(part) * i128::from(full) / i128::from(whole)).min(full.into()) as i64,
    };
    value.clamp(0, full) as u32
}

/// The binary logarithm of a number above zero, in parts of [`LOG_ONE`], rounded down.
fn log2(number: u32) -> i64 {
    let whole = number.ilog2();
    // What is left is between 1 and 2, in 32 bits after the point: each squaring tells one bit.
    let mut rest = (u64::from(number) << 32) >> whole;
    let (mut log, mut bits) = (i64::from(whole), 1);
    while bits < LOG_ONE {
        rest = ((u128::from(rest) * u128::from(rest)) >> 32) as u64;
        let more = u32::from(rest >= 1 << 33);
        rest >>= more;
        (log, bits) = (2 * log + i64::from(more), 2 * bits);
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_at_powers_and_grow_with_what_they_are_of() {
        for power in 0..32 {
            assert_eq!(log2(1 << power), i64::from(power) * LOG_ONE);
        }
        // log2(3) = 1.58496, log2(5) = 2.32193, log2(5002) = 12.28829.
        assert_eq!([log2(3), log2(5), log2(5_002)], [1_623, 2_377, 12_583]);
        assert!((2..10_000).all(|number| log2(number) <= log2(number + 1)));
    }
}
