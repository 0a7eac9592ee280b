//! Where levels and slices let members go, while a search takes one after the other.
//!
//! Problem: sets that are placed one after the other, slice by slice, are found in most cases; but
//! a set may need another one that goes somewhere later, and under a spread constraint members of
//! several slices have to take turns. A search that goes through everything takes members in any
//! order, and has to know whether who is placed already can still become whole slices.
//!
//! Decides whether one more member may go to a node: its set (or the gang) is in one domain of the
//! required level, and those of its set that are still to come can complete every slice that was
//! begun. That is exact: it looks at counts alone, and the counts of a set say what it lacks. Where
//! members of a set differ, a slice is of certain members ([`Part`]), and those stay together.
//!
//! Cost: a few numbers for each domain where members of the set are.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::{DomainIdx, LevelIdx, Tree};

use crate::place::gang::TopologyAsk;
use crate::place::slices::Slices;

/// Members of a pod set, as far as they have places.
#[derive(Clone, Debug, Default)]
struct Set {
    /// All within one domain of this level.
    within: Option<LevelIdx>,
    slices: Option<Slices>,
    all: u64,
    left: u64,
    /// Members by domain of the required level.
    homes: BTreeMap<DomainIdx, u64>,
    /// Members by domain of the slices' level.
    parts: BTreeMap<DomainIdx, u64>,
}

/// What the members of an ask are part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::place) struct Part {
    /// Their set, by number.
    pub set: usize,
    /// Their slice, by number among those of all sets; `None`: any members of the set may be in
    /// one.
    pub slice: Option<usize>,
    /// How many they are.
    pub count: u32,
}

/// Where members may go.
#[derive(Clone, Debug)]
pub(in crate::place) struct Confines {
    /// Levels that hold for any set, each once.
    levels: Vec<LevelIdx>,
    /// By ask.
    of: Vec<Part>,
    sets: Vec<Set>,
    /// Members of slices that are of certain members, by domain of the slices' level.
    told: Vec<BTreeMap<DomainIdx, u64>>,
}

impl Confines {
    /// For asks each of which is part of a set, by position; this is asked for each set.
    pub fn new(of: Vec<Part>, asked: &[TopologyAsk]) -> Confines {
        // A level that holds for the whole gang is that of the domain which is searched.
        let set = |asked: &TopologyAsk| Set {
            within: asked.required.filter(|_| asked.per_set),
            slices: asked.slices,
            ..Set::default()
        };
        let mut sets: Vec<Set> = asked.iter().map(set).collect();
        for part in &of {
            sets[part.set].all += u64::from(part.count);
            sets[part.set].left += u64::from(part.count);
        }
        let slices = of.iter().filter_map(|part| part.slice);
        let told = vec![BTreeMap::new(); slices.max().map_or(0, |last| last + 1)];
        let named = |set: &Set| [set.within, set.slices.map(|of| of.level)];
        let mut levels: Vec<LevelIdx> = sets.iter().flat_map(named).flatten().collect();
        levels.sort_unstable();
        levels.dedup();
        Confines { levels, of, sets, told }
    }

    /// Others of a set are in a domain already, where all of it is to be: who joins goes there.
    pub fn settle(&mut self, set: usize, home: DomainIdx) {
        self.sets[set].homes.insert(home, 1);
    }

    /// Others of a set are in these domains of the slices' level already, so many in each: those
    /// who join complete the slices that were begun.
    pub fn join(&mut self, set: usize, parts: BTreeMap<DomainIdx, u64>) {
        let set = &mut self.sets[set];
        set.all += parts.values().sum::<u64>();
        set.parts = parts;
    }

    /// Others of a slice that is of certain members are in these domains.
    pub fn join_slice(&mut self, slice: usize, domains: BTreeSet<DomainIdx>) {
        self.told[slice] = domains.into_iter().map(|domain| (domain, 1)).collect();
    }

    /// Whether one more of an ask may go to a position.
    pub fn allow(&self, tree: &Tree, ask: usize, position: usize) -> bool {
        let part = self.of[ask];
        let set = &self.sets[part.set];
        let only = |at: &BTreeMap<DomainIdx, u64>, domain| at.keys().all(|known| *known == domain);
        let home = set.within.map(|level| tree.domain_of(level, position));
        let at_home = match home {
            None => true,
            Some(None) => false,
            Some(Some(domain)) => only(&set.homes, domain),
        };
        let Some(of) = set.slices.filter(|_| at_home) else { return at_home };
        let domain = tree.domain_of(of.level, position);
        domain.is_some_and(|domain| match part.slice {
            Some(slice) => only(&self.told[slice], domain),
            None => set.can_complete(domain, of.size.into()),
        })
    }

    /// One more of an ask is at a position.
    pub fn put(&mut self, tree: &Tree, ask: usize, position: usize) {
        self.change(tree, ask, position, true);
    }

    /// It is no more.
    pub fn take_back(&mut self, tree: &Tree, ask: usize, position: usize) {
        self.change(tree, ask, position, false);
    }

    fn change(&mut self, tree: &Tree, ask: usize, position: usize, there: bool) {
        let part = self.of[ask];
        let set = &mut self.sets[part.set];
        set.left = if there { set.left - 1 } else { set.left + 1 };
        let (within, level) = (set.within, set.slices.map(|of| of.level));
        let parts = match part.slice {
            Some(slice) => &mut self.told[slice],
            None => &mut set.parts,
        };
        for (level, counts) in [(within, &mut set.homes), (level, parts)] {
            let Some(domain) = level.and_then(|level| tree.domain_of(level, position)) else {
                continue;
            };
            let count = counts.entry(domain).or_default();
            *count = if there { *count + 1 } else { *count - 1 };
            if *count == 0 {
                counts.remove(&domain);
            }
        }
    }

    /// What nodes look like to members: the domains that they are in.
    pub fn looks(&self, tree: &Tree, position: usize, looks: &mut Vec<u32>) {
        let domain = |level: &LevelIdx| tree.domain_of(*level, position);
        looks.extend(self.levels.iter().map(|at| domain(at).map_or(u32::MAX, |domain| domain.0)));
    }
}

impl Set {
    /// Whether members that are left can make whole slices (but for one that is what is left over)
    /// of those that have places and one more in a domain.
    fn can_complete(&self, more_in: DomainIdx, size: u64) -> bool {
        let rest = self.all % size;
        let (mut lacking, mut rest_begun) = (0, false);
        let mut begun = |count: u64| {
            let part = count % size;
            lacking += (size - part) % size;
            rest_begun |= (1..=rest).contains(&part);
        };
        let there = self.parts.get(&more_in).copied().unwrap_or(0);
        begun(there + 1);
        let others = self.parts.iter().filter(|(domain, _)| **domain != more_in);
        others.for_each(|(_, count)| begun(*count));
        // What is left over goes on where so few are, or begins anew.
        let lacking = if rest_begun { lacking + rest - size } else { lacking + rest };
        lacking < self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets of members by domain, and how many are left: whether one more may go to the first.
    fn may(parts: &[u64], left: u64, size: u64) -> bool {
        let parts: BTreeMap<_, _> = (0..).map(DomainIdx).zip(parts.iter().copied()).collect();
        let all = parts.values().sum::<u64>() + left;
        let set = Set { all, left, parts, ..Set::default() };
        set.can_complete(DomainIdx(0), size)
    }

    /// The same by trying all ways to add what is left.
    fn tried(parts: &[u64], left: u64, size: u64) -> bool {
        fn any(parts: &mut [u64], at: usize, left: u64, size: u64) -> bool {
            if at == parts.len() {
                let odd: Vec<u64> =
                    parts.iter().map(|part| part % size).filter(|part| *part > 0).collect();
                return left == 0 && odd.len() < 2;
            }
            (0..=left).any(|more| {
                parts[at] += more;
                let found = any(parts, at + 1, left - more, size);
                parts[at] -= more;
                found
            })
        }
        // Two more domains are enough for whatever begins anew.
        let mut parts: Vec<u64> = parts.iter().copied().chain([0, 0]).collect();
        parts[0] += 1;
        any(&mut parts, 0, left - 1, size)
    }

    #[test]
    fn slices_that_were_begun_can_be_completed_or_not() {
        for size in 1..5 {
            for left in 1..7 {
                for code in 0..6_u64.pow(3) {
                    let parts = [code % 6, code / 6 % 6, code / 36];
                    assert_eq!(may(&parts, left, size), tried(&parts, left, size), "{parts:?}");
                }
            }
        }
    }
}
