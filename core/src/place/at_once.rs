//! Whether nodes can hold all members at once, whoever goes where and takes what: a proof that
//! they cannot, before anybody searches.
//!
//! Problem: each member by itself finds many nodes, and all together there are fewer places than
//! members: seventeen whose volumes are on sixteen nodes with room for one each. A search goes
//! through every order of them before it knows, in each domain, for each choice of victims.
//!
//! Phases: how many a node holds of those that it admits, smallest first, resource by resource;
//! volumes that must be there count as one more. Then everybody to nodes that admit it, as a flow.
//! Then each claim that takes a volume which is there gets one of its own, as a matching. Whoever
//! could be let in by others counts with what is free for it.
//!
//! `false` is a proof, `true` says nothing. Cost: a few numbers for each member and node, and a
//! path through them for each member that has to move; more than [`PAIRS_MAX`] are not looked at.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::{DomainIdx, NodeIdx, ResourceIdx};

use super::candidates::NODES_MAX;
use super::common_claims;
use super::coupled::Count;
use super::gang::Ask;
use super::search::resources;
use super::ways;
use crate::model::ids::ClassIdx;
use crate::model::input::{ClaimKey, Text};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::volumes::Need;

/// Kinds of members times nodes, claims times volumes, or volumes by claim and node, that are
/// looked at: all that are searched for, on as many nodes.
const PAIRS_MAX: usize = 131_072;

/// Whether these positions may hold all of these. Classes are up to date.
pub(super) fn may_hold(txn: &Txn<'_>, asks: &[Count], positions: &[usize]) -> bool {
    may_hold_some(txn, asks, positions, members(asks))
}

/// Whether they may hold so many of these, whichever.
pub(super) fn may_hold_some(
    txn: &Txn<'_>,
    asks: &[Count],
    positions: &[usize],
    least: u64,
) -> bool {
    let state = txn.state();
    if asks.len() < 2 || asks.len().saturating_mul(positions.len()) > PAIRS_MAX {
        return true;
    }
    let mut pairs = Pairs::new(state, asks, positions, least);
    pairs.count_resources(txn);
    if !pairs.are_enough() {
        return false;
    }
    let claims = pairs.claims();
    let volumes = !claims.is_empty() && pairs.count_volumes(&claims);
    // Who lacks a volume may be left out.
    let match_up = || least < members(asks) || pairs.volumes_match(&claims);
    if volumes && !(pairs.are_enough() && match_up()) {
        return false;
    }
    pairs.go_everywhere()
}

fn members(asks: &[Count]) -> u64 {
    asks.iter().map(|(_, count)| u64::from(*count)).sum()
}

/// The same for a domain; classes need not be up to date. Large domains may hold anything.
pub(super) fn may_fill(txn: &mut Txn<'_>, asks: &[&Ask], domain: DomainIdx) -> bool {
    let domain = txn.state().room.tree.domain(domain);
    let range = domain.start..domain.end;
    if asks.len() < 2 || range.len() > NODES_MAX {
        return true;
    }
    asks.iter().for_each(|ask| txn.fresh(ask.class));
    let counts: Vec<Count> = asks.iter().map(|ask| (ask.class, ask.pods.len() as u32)).collect();
    may_hold(txn, &counts, &range.collect::<Vec<usize>>())
}

/// Most members of each ask at a position, whoever else is placed.
pub(super) struct Most<'a> {
    state: &'a ClusterState,
    asks: &'a [Count],
    /// Others may let some in.
    let_in: Vec<bool>,
}

impl<'a> Most<'a> {
    /// For these. Classes are up to date.
    pub fn of(state: &'a ClusterState, asks: &'a [Count]) -> Most<'a> {
        let shape = |class: ClassIdx| state.classes.class(class).key.shape;
        let members = asks.iter().map(|(class, count)| (shape(*class), *count));
        let opened = ways::are_opened(&state.room, members);
        let let_in = asks.iter().zip(opened);
        let let_in = let_in.map(|(count, opened)| are_let_in(state, *count, opened)).collect();
        Most { state, asks, let_in }
    }

    /// Of one ask.
    pub fn at(&self, ask: usize, position: usize) -> u32 {
        let (class, count) = self.asks[ask];
        let most = match self.let_in[ask] {
            true => common_claims::most_on(self.state, class, position),
            false => self.state.classes.fit(class).spot(position).slots,
        };
        most.min(count)
    }
}

/// Whether others may let members of a class in where nothing has slots for them now: what is free
/// there tells then how many could go.
pub(super) fn are_let_in(state: &ClusterState, (class, count): Count, opened: bool) -> bool {
    let outlook = state.classes.class(class).outlook();
    outlook.opens() || opened || count > 1 && common_claims::choose_each(state, class)
}

/// Claims of an ask that nobody else uses and that take a volume or have one made.
type Claims<'a> = Vec<(usize, &'a ClaimKey, &'a Need)>;

/// Who goes where at most.
struct Pairs<'a> {
    state: &'a ClusterState,
    asks: &'a [Count],
    nodes: Vec<NodeIdx>,
    /// Most members by ask and node.
    most: Vec<Vec<u32>>,
    /// Most members of all asks together, by node.
    holds: Vec<u64>,
    /// Members that are to be held.
    least: u64,
}

impl<'a> Pairs<'a> {
    fn new(
        state: &'a ClusterState,
        asks: &'a [Count],
        positions: &[usize],
        least: u64,
    ) -> Pairs<'a> {
        let of = Most::of(state, asks);
        let row = |ask: usize| -> Vec<u32> {
            positions.iter().map(|position| of.at(ask, *position)).collect()
        };
        let most: Vec<Vec<u32>> = (0..asks.len()).map(row).collect();
        let all = |at: usize| most.iter().map(|row| u64::from(row[at])).sum();
        let holds = (0..positions.len()).map(all).collect();
        let order = state.room.tree.order();
        let nodes = positions.iter().map(|position| order[*position]).collect();
        Pairs { state, asks, nodes, most, holds, least }
    }

    fn are_enough(&self) -> bool {
        self.holds.iter().fold(0_u64, |sum, more| sum.saturating_add(*more)) >= self.least
    }

    /// Of each resource the smallest requests get what a node has free.
    fn count_resources(&mut self, txn: &Txn<'_>) {
        let room = &self.state.room;
        if room.args.ignores_any() {
            return;
        }
        for resource in resources(txn, self.asks.iter().map(|(class, _)| *class)) {
            let amounts: Vec<i64> =
                self.asks.iter().map(|(class, _)| self.asked(*class, resource)).collect();
            for at in 0..self.nodes.len() {
                let free = room.ledger.free(self.nodes[at], resource);
                let held = self.smallest(at, free, |ask| amounts[ask]);
                self.holds[at] = self.holds[at].min(held);
            }
        }
    }

    fn asked(&self, class: ClassIdx, resource: ResourceIdx) -> i64 {
        let shape = self.state.room.shape(self.state.classes.class(class).key.shape);
        let request = self.state.room.ledger.request(shape.request).entries().iter();
        request.filter(|(of, _)| *of == resource).map(|(_, each)| *each).sum()
    }

    /// How many members a node holds that ask so much each of what it has free.
    fn smallest(&self, at: usize, free: i64, amount: impl Fn(usize) -> i64) -> u64 {
        let mut order: Vec<(i64, u32)> = (0..self.asks.len())
            .filter(|ask| self.most[*ask][at] > 0)
            .map(|ask| (amount(ask), self.most[ask][at]))
            .collect();
        order.sort_unstable();
        let (mut left, mut held) = (free.max(0), 0_u64);
        for (each, count) in order {
            let fit = if each > 0 { (left / each).min(count.into()) } else { count.into() };
            left -= fit * each.max(0);
            held += fit as u64;
        }
        held
    }

    /// Claims that one member alone uses, and that are open.
    fn claims(&self) -> Claims<'a> {
        let mut users: BTreeMap<&ClaimKey, u64> = BTreeMap::new();
        for (class, count) in self.asks {
            let shape = self.state.room.shape(self.state.classes.class(*class).key.shape);
            for using in shape.facts.volumes.iter().flat_map(|wanted| &wanted.claims) {
                *users.entry(&using.claim).or_default() += u64::from(*count);
            }
        }
        let mut found = Claims::new();
        for (ask, (class, _)) in self.asks.iter().enumerate() {
            let Some(demand) = self.state.classes.class(*class).demand() else { continue };
            let open = demand.claims.iter().filter(|it| matches!(it.need, Need::Open(..)));
            let own = open.filter(|it| users.get(&it.claim) == Some(&1));
            found.extend(own.map(|it| (ask, &it.claim, &it.need)));
        }
        found
    }

    /// Volumes that a claim could take at a node; `None`: one could be made there, or its member
    /// does not go there.
    fn volumes(&self, (ask, claim, need): (usize, &ClaimKey, &'a Need), at: usize) -> Reach<'a> {
        let node = self.state.room.facts(self.nodes[at]);
        let Some(node) = node.filter(|_| self.most[ask][at] > 0) else { return Reach::Away };
        match need.takes_there(&self.state.room.volumes, claim, node) {
            Some(names) => Reach::These(names),
            None => Reach::Any,
        }
    }

    /// Volumes that must be there are shared out as resources are; `false`: there are too many to
    /// look at all.
    fn count_volumes(&mut self, claims: &Claims<'a>) -> bool {
        let mut looked = 0_usize;
        for at in 0..self.nodes.len() {
            let mut needs = vec![0; self.asks.len()];
            let mut there: BTreeSet<&Text> = BTreeSet::new();
            for claim in claims {
                if let Reach::These(names) = self.volumes(*claim, at) {
                    needs[claim.0] += 1;
                    looked = looked.saturating_add(names.len());
                    if looked > PAIRS_MAX {
                        return false;
                    }
                    there.extend(names);
                }
            }
            let held = self.smallest(at, there.len() as i64, |ask| needs[ask]);
            self.holds[at] = self.holds[at].min(held);
        }
        true
    }

    /// Whether all claims that take a volume wherever their members go may get one of their own.
    fn volumes_match(&self, claims: &Claims<'a>) -> bool {
        let (mut numbers, mut rows) = (BTreeMap::new(), Vec::new());
        for claim in claims {
            let mut row = BTreeSet::new();
            let mut bound = true;
            for at in 0..self.nodes.len() {
                match self.volumes(*claim, at) {
                    Reach::Away => {}
                    Reach::Any => bound = false,
                    Reach::These(names) => row.extend(names.into_iter().map(|name| {
                        let next = numbers.len();
                        *numbers.entry(name).or_insert(next)
                    })),
                }
            }
            if bound {
                rows.push(row);
            }
        }
        if rows.len().saturating_mul(numbers.len()) > PAIRS_MAX {
            return rows.len() <= numbers.len();
        }
        let row = |row: BTreeSet<usize>| {
            let mut most = vec![0; numbers.len()];
            row.into_iter().for_each(|at| most[at] = 1);
            most
        };
        let rows: Vec<Vec<u32>> = rows.into_iter().map(row).collect();
        let counts = vec![1; rows.len()];
        Flow::new(&rows, &counts, vec![1; numbers.len()]).takes_all()
    }

    /// Whether enough members go to nodes that admit them, as many to each as it holds.
    fn go_everywhere(&self) -> bool {
        let counts: Vec<u32> = self.asks.iter().map(|(_, count)| *count).collect();
        let mut flow = Flow::new(&self.most, &counts, self.holds.clone());
        match self.least < members(self.asks) {
            true => flow.takes_some(self.least),
            false => flow.takes_all(),
        }
    }
}

/// What a claim finds at a node.
enum Reach<'a> {
    /// Its member does not go there.
    Away,
    /// A volume could be made for it.
    Any,
    /// One of these.
    These(Vec<&'a Text>),
}

/// Groups of members that go to the same places, and the places.
struct Flow {
    /// Members of each group.
    counts: Vec<u64>,
    /// Most of a group at a place.
    most: Vec<Vec<u64>>,
    /// How many are there.
    there: Vec<Vec<u64>>,
    /// What each place still holds.
    left: Vec<u64>,
}

impl Flow {
    /// Those who may go to the same places are one group: whatever all of them can do, each can.
    fn new(rows: &[Vec<u32>], counts: &[u32], holds: Vec<u64>) -> Flow {
        let mut groups: BTreeMap<&Vec<u32>, (u64, u64)> = BTreeMap::new();
        for (row, count) in rows.iter().zip(counts) {
            let (rows, members) = groups.entry(row).or_default();
            *rows += 1;
            *members += u64::from(*count);
        }
        let widened = |(row, (rows, _)): (&&Vec<u32>, &(u64, u64))| -> Vec<u64> {
            row.iter().map(|most| u64::from(*most) * rows).collect()
        };
        let most: Vec<Vec<u64>> = groups.iter().map(widened).collect();
        Flow {
            counts: groups.values().map(|(_, members)| *members).collect(),
            there: vec![vec![0; holds.len()]; most.len()],
            most,
            left: holds,
        }
    }

    fn takes_all(&mut self) -> bool {
        (0..self.counts.len()).all(|group| self.take(group) == self.counts[group])
    }

    /// Whether so many of all groups find places.
    fn takes_some(&mut self, least: u64) -> bool {
        let mut taken = 0;
        (0..self.counts.len()).any(|group| {
            taken += self.take(group);
            taken >= least
        })
    }

    /// As many of a group as go beside those before it; others move for them.
    fn take(&mut self, group: usize) -> u64 {
        let mut waiting = self.counts[group];
        for place in 0..self.left.len() {
            let more = waiting.min(self.left[place]).min(self.most[group][place]);
            self.there[group][place] += more;
            self.left[place] -= more;
            waiting -= more;
        }
        while waiting > 0 && self.makes_room(group) {
            waiting -= 1;
        }
        self.counts[group] - waiting
    }

    /// One more of a group, for which others move from place to place; `false`: nobody can.
    fn makes_room(&mut self, group: usize) -> bool {
        // From which group a place was reached, and from which place a group.
        let mut by: Vec<Option<usize>> = vec![None; self.left.len()];
        let mut from: Vec<Option<usize>> = vec![None; self.counts.len()];
        let mut open = vec![group];
        let mut seen: Vec<bool> = (0..self.counts.len()).map(|other| other == group).collect();
        while let Some(mover) = open.pop() {
            for place in 0..self.left.len() {
                let full = self.there[mover][place] >= self.most[mover][place];
                if full || by[place].is_some() {
                    continue;
                }
                by[place] = Some(mover);
                if self.left[place] > 0 {
                    self.move_along(place, &by, &from);
                    return true;
                }
                for other in 0..self.counts.len() {
                    if !seen[other] && self.there[other][place] > 0 {
                        (seen[other], from[other]) = (true, Some(place));
                        open.push(other);
                    }
                }
            }
        }
        false
    }

    fn move_along(&mut self, last: usize, by: &[Option<usize>], from: &[Option<usize>]) {
        self.left[last] -= 1;
        let mut place = last;
        while let Some(mover) = by[place] {
            self.there[mover][place] += 1;
            let Some(before) = from[mover] else { return };
            self.there[mover][before] -= 1;
            place = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::apply::Changes;
    use crate::model::input::{
        AccessModes, Attach, AttachmentFacts, CapacityType, ClaimFacts, ClaimUse, Input, Labels,
        NodeFacts, PodShape, PodVolumes, StorageFact, VolumeFacts,
    };
    use crate::place::classes::Scoring;

    fn takes_all(rows: &[Vec<u32>], counts: &[u32], holds: &[u64]) -> bool {
        Flow::new(rows, counts, holds.to_vec()).takes_all()
    }

    /// A node that attaches so many volumes of a driver and has `data` attached, which nobody uses;
    /// `data` and `scratch` are bound to claims of these names.
    fn attaching(limit: i64) -> ClusterState {
        let storage = Input::Storage;
        let volume = |name: &str| VolumeFacts {
            name: name.into(),
            class: "".into(),
            capacity: 1,
            modes: AccessModes::MANY_WRITE,
            block: false,
            attributes: None,
            labels: Labels::new(),
            nodes: None,
            claim: None,
            available: false,
            deleting: false,
            attach: Some(Attach { driver: "d".into(), handle: name.into(), migrated: false }),
            taken_over: None,
        };
        let claim = |name: &str| ClaimFacts {
            key: key(name),
            uid: name.into(),
            class: "".into(),
            size: None,
            modes: AccessModes::MANY_WRITE,
            block: false,
            attributes: None,
            selector: None,
            volume: Some(name.into()),
            bound: true,
            lost: false,
            deleting: false,
            selected_node: None,
            made_for: None,
        };
        let node = NodeFacts {
            name: "n".into(),
            labels: Labels::new(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: [("cpu".into(), 9), ("pods".into(), 9)].into(),
            features: Vec::new(),
            images: Arc::default(),
            capacity_type: CapacityType::Unknown,
            price: None,
        };
        let limits = [("d".into(), limit)].into();
        let [name, volume_name] = ["a", "data"].map(Text::from);
        let attached =
            AttachmentFacts { name, node: "n".into(), driver: "d".into(), volume: volume_name };
        let mut facts = vec![Input::Node(node.into())];
        facts.extend(["data", "scratch"].map(|name| storage(StorageFact::Volume(volume(name)))));
        facts.extend(["data", "scratch"].map(|name| storage(StorageFact::Claim(claim(name)))));
        let (node, migrated) = ("n".into(), Default::default());
        facts.push(storage(StorageFact::Limits { node, limits, migrated }));
        facts.push(storage(StorageFact::Attachment(attached)));
        let (mut state, mut changes) = (ClusterState::default(), Changes::default());
        facts.into_iter().for_each(|fact| state.apply(fact, &mut changes));
        state.derive(&mut changes);
        state.recount();
        state
    }

    fn key(name: &str) -> ClaimKey {
        ClaimKey { namespace: "team".into(), name: name.into() }
    }

    /// Whether the proof lets a gang of members through that bring these.
    fn lets_in(state: &mut ClusterState, members: &[&[&str]]) -> bool {
        let ask = |brings: &&[&str]| {
            let claims = brings.iter().map(|name| ClaimUse { claim: key(name), made_for: None });
            let volumes = PodVolumes { claims: claims.collect(), ..PodVolumes::default() };
            let volumes = Some(Arc::new(volumes));
            let shape = Arc::new(PodShape { volumes, ..PodShape::default() });
            let shape = state.room.intern_shape(&shape);
            (state.class(shape, &[], Scoring::default()), 1)
        };
        let asks: Vec<Count> = members.iter().map(ask).collect();
        let mut txn = Txn::begin(state);
        asks.iter().for_each(|(class, _)| txn.fresh(*class));
        may_hold(&txn, &asks, &[0])
    }

    #[test]
    fn who_brings_a_volume_that_nobody_uses_is_let_in_after_one_that_brings_less() {
        // Attached and in nobody's use it counts twice for the first who brings it.
        assert!(lets_in(&mut attaching(2), &[&["data", "scratch"], &["data"]]));
        assert!(!lets_in(&mut attaching(2), &[&["data", "scratch"], &["scratch"]]));
        assert!(!lets_in(&mut attaching(1), &[&["data"], &["data", "scratch"]]));
        assert!(lets_in(&mut attaching(3), &[&["data", "scratch"], &["scratch"]]));
    }

    #[test]
    fn members_move_on_so_that_the_last_one_finds_its_place() {
        // Each could have either of two places but the last, who has the first alone.
        let rows = [vec![1, 1, 0], vec![0, 1, 1], vec![1, 0, 0]];
        assert!(takes_all(&rows, &[1, 1, 1], &[1, 1, 1]));
        assert!(!takes_all(&rows, &[1, 1, 1], &[1, 1, 0]));
    }

    #[test]
    fn whoever_goes_to_the_same_places_counts_together() {
        let rows = vec![vec![1; 16]; 17];
        assert!(!takes_all(&rows, &[1; 17], &[1; 16]));
        assert!(takes_all(&rows[1..], &[1; 16], &[1; 16]));
    }

    #[test]
    fn as_many_of_all_groups_as_find_places() {
        // The first two are after one place, the third has another.
        let rows = [vec![1, 0], vec![1, 0], vec![0, 2]];
        let takes = |least| Flow::new(&rows, &[1, 1, 2], vec![1, 9]).takes_some(least);
        assert!(takes(3) && !takes(4));
        let chain = [vec![1, 1], vec![1, 0]];
        assert!(Flow::new(&chain, &[1, 1], vec![1, 1]).takes_some(2), "the first moves on");
    }

    #[test]
    fn three_that_share_two_places_are_one_too_many_whatever_is_elsewhere() {
        let rows = [vec![1, 1, 0, 0], vec![1, 1, 0, 0], vec![1, 1, 0, 0], vec![9, 9, 9, 9]];
        assert!(!takes_all(&rows, &[1, 1, 1, 1], &[1, 1, 9, 9]));
        assert!(takes_all(&rows, &[1, 1, 1, 9], &[2, 1, 5, 4]));
        assert!(!takes_all(&rows, &[1, 1, 1, 9], &[2, 1, 4, 4]));
    }

    /// Every way, one member after the other.
    fn goes(rows: &mut [Vec<u32>], counts: &mut [u32], holds: &mut [u64]) -> bool {
        let Some(group) = counts.iter().position(|count| *count > 0) else { return true };
        for place in 0..holds.len() {
            if holds[place] == 0 || rows[group][place] == 0 {
                continue;
            }
            (holds[place], rows[group][place]) = (holds[place] - 1, rows[group][place] - 1);
            counts[group] -= 1;
            let all = goes(rows, counts, holds);
            (holds[place], rows[group][place]) = (holds[place] + 1, rows[group][place] + 1);
            counts[group] += 1;
            if all {
                return true;
            }
        }
        false
    }

    #[test]
    fn a_flow_finds_what_trying_every_way_finds() {
        let mut state = 12_345_u64;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut found = [0, 0];
        for _ in 0..5_000 {
            let (groups, places, one) = (1 + next(4), 1 + next(4), next(2) == 0);
            let most = if one { 2 } else { 3 };
            let mut row = || (0..places).map(|_| next(most) as u32).collect();
            let mut rows: Vec<Vec<u32>> = (0..groups).map(|_| row()).collect();
            let mut count = || if one { 1 } else { 1 + next(3) as u32 };
            let mut counts: Vec<u32> = (0..groups).map(|_| count()).collect();
            let mut holds: Vec<u64> = (0..places).map(|_| next(4)).collect();
            let told = takes_all(&rows, &counts, &holds);
            let kinds: BTreeSet<Vec<u32>> = rows.iter().cloned().collect();
            let (apart, input) =
                (kinds.len() == rows.len(), format!("{rows:?} {counts:?} {holds:?}"));
            let goes = goes(&mut rows, &mut counts, &mut holds);
            assert!(told || !goes, "{input}");
            assert!(told == goes || !one && !apart, "{input}");
            found[usize::from(told)] += 1;
        }
        assert!(found[0] > 500 && found[1] > 500, "{found:?}");
    }
}
