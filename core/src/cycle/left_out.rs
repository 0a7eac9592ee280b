//! Whom an elastic gang leaves out, where its members exclude or need each other.
//!
//! Problem: with shapes filled one after the other ([`elastic`](super::elastic)) a gang may miss
//! its minimum though others of its members would make it up: two of them take the host port that
//! four others share, or nobody goes without a master that comes last in each order.
//!
//! Phases: numbers of members that find places together are searched for
//! ([`coupled::some`]), in each choice of flavors that the queue lists for them; with the first
//! that is found the gang is nominated as any other. Quota and slices are not looked at by that
//! search: where they say no, other numbers that find places are tried. If nothing is found as
//! things are, the same is looked for as if all had left who may be preempted; the nomination then
//! says who of them leaves.
//!
//! Bounds are counts. What all these searches try is shared ([`budget`](crate::place::budget)); of
//! more than [`WAYS_MAX`] numbers, or [`CHOICES_MAX`] choices of flavors, the gang is told that the
//! search ended, as if it had ended at a step.
//!
//! Members that a gang which runs lacks are looked for in the same way, beside the others; as if
//! others had left, too, for whom to stop ([`joining`](super::joining)).
//!
//! Cost: nothing for gangs of one shape, for those that lack quota alone, and for large ones that
//! were found otherwise.

use capstan_topology::NodeIdx;

use crate::cycle::Entry;
use crate::cycle::elastic::Search;
use crate::cycle::joiners::ROOM_TRIES_MAX;
use crate::cycle::promised::{asks_with, peers};
use crate::engine::Engine;
use crate::explain::reason::SearchBound;
use crate::model::ids::{FlavorIdx, PodIdx, QueueIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::coupled::{self, Count, Fewer, Ways};
use crate::place::gang::{self, TopologyAsk};
use crate::quota::build::Group;
use crate::quota::flavors::{Mode, SetDemand};
use crate::resources::USD;
use crate::victims::{self, Need};

/// Numbers of members that are tried once the first that found places was refused: all ways to
/// start six of a gang of three shapes.
pub(super) const WAYS_MAX: usize = 28;

/// Choices of flavors for all shapes: two flavors for six shapes.
const CHOICES_MAX: usize = 64;

/// Placements tried for one member more than the minimum.
const STEPS_RAISED: u32 = 1_024;

/// Whether others count as gone who may be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// They stay.
    Stay,
    /// All of them leave.
    Leave,
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// Members in all.
    pub least: u32,
    /// Beside whom.
    pub others: Others,
    /// The gang cannot start with fewer.
    pub hard: bool,
}

impl Engine {
    /// The first nomination with so many members that `fits` accepts.
    pub(super) fn members_together(
        &mut self,
        search: &mut Search<'_>,
        aim: Aim,
        fits: impl Fn(&Entry) -> bool,
    ) -> Option<Entry> {
        // Where nodes never were what was short, no others of them would do.
        if search.sets.len() < 2 || !search.room {
            return None;
        }
        let mut known = Ways::new();
        for ways in if aim.hard { &[1, WAYS_MAX][..] } else { &[1] } {
            let steps = Some(STEPS_RAISED).filter(|_| !aim.hard);
            let wanted = Fewer { least: aim.least, ways: *ways, known: &known, steps };
            let found = self.ways_to_start(search, aim.others, wanted);
            let all = found.len() < *ways;
            for counts in found {
                let entry = self.try_counts(search, &counts, &fits);
                if entry.is_some() {
                    return entry;
                }
                search.ended = search.ended.or(search.tried);
                known.push(counts);
            }
            if all {
                return None;
            }
        }
        search.ended = search.ended.or(Some(SearchBound::Choices(known.len() as u32)));
        None
    }

    /// Numbers of members of each set that find places together.
    fn ways_to_start(
        &mut self,
        search: &mut Search<'_>,
        others: Others,
        wanted: Fewer<'_>,
    ) -> Ways {
        let (queue, workload) = (search.whole.queue, search.whole.workload);
        let topology = search.topology;
        let (choices, whole) = choices_of_flavors(&self.state, queue, search.sets);
        let profile = self.profile(queue);
        let mut txn = Txn::begin(&mut self.state);
        txn.count_steps(search.steps);
        txn.remove_workloads(search.premise.gone.iter().copied());
        let (mut found, mut ended) = (Ways::new(), None);
        for flavors in choices {
            let sets = search.sets.iter().zip(&flavors);
            let class = |(set, own): (&SetDemand, &Vec<FlavorIdx>)| {
                (txn.class(set.shape, own, profile), set.count)
            };
            let asks: Vec<Count> = sets.map(class).collect();
            let known = &[wanted.known, &found].concat();
            let rest = Fewer { known, ways: wanted.ways - found.len(), ..wanted };
            let (more, bound) = match others {
                Others::Stay => coupled::some(&mut txn, &asks, topology, rest),
                Others::Leave => once_others_left(&mut txn, workload, &asks, topology, |txn| {
                    coupled::some(txn, &asks, topology, rest)
                }),
            };
            found.extend(more);
            if found.len() == wanted.ways {
                break;
            }
            ended = ended.or(bound);
        }
        search.steps = txn.count_steps(0);
        search.some |= others == Others::Stay && !found.is_empty();
        if found.len() < wanted.ways {
            let cut = Some(SearchBound::Choices(CHOICES_MAX as u32)).filter(|_| !whole);
            search.ended = search.ended.or(ended).or(cut);
        }
        found
    }

    /// Places so many members that a gang which runs lacks, whichever find places together beside
    /// the others. Kept, or only tried.
    pub(super) fn missing_together(
        &mut self,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
        missing: u32,
        keep: bool,
    ) -> bool {
        let mut known = Ways::new();
        for ways in [1, WAYS_MAX] {
            let wanted = Fewer { least: missing, ways, known: &known, steps: None };
            let (found, _) = self.ways_to_join(workload, groups, (Others::Stay, &[]), wanted);
            let all = found.len() < ways;
            for counts in found {
                if self.place_members(workload, &members_of(groups, &counts), keep) {
                    return true;
                }
                known.push(counts);
            }
            if all {
                break;
            }
        }
        false
    }

    /// Where the search for so many of these ended, if it found none and the cluster may have room
    /// for them.
    pub(super) fn join_search_ended(
        &mut self,
        workload: WorkloadIdx,
        waiting: &[PodIdx],
        missing: u32,
    ) -> Option<SearchBound> {
        let mut groups: Vec<Vec<PodIdx>> = Vec::new();
        for &pod in waiting {
            let shape = self.state.pods[pod].shape;
            match groups.iter_mut().find(|group| self.state.pods[group[0]].shape == shape) {
                Some(group) => group.push(pod),
                None => groups.push(vec![pod]),
            }
        }
        let wanted = Fewer { least: missing, ways: WAYS_MAX + 1, known: &[], steps: None };
        let (found, bound) = self.ways_to_join(workload, &groups, (Others::Stay, &[]), wanted);
        let many = (found.len() > WAYS_MAX).then_some(SearchBound::Choices(found.len() as u32));
        bound.or(many)
    }

    /// Numbers of members of each group, so many in all, that find places together beside those
    /// that run once all have left who may be stopped for them; or those who are `gone`. And where
    /// that search ended, if there may be others.
    pub(super) fn ways_once_left(
        &mut self,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
        (missing, gone): (usize, Option<&[WorkloadIdx]>),
    ) -> (Ways, Option<SearchBound>) {
        let (least, most) = (missing as u32, ROOM_TRIES_MAX as usize);
        // One more tells that there are more.
        let wanted = Fewer { least, ways: most + 1, known: &[], steps: None };
        let others = gone.map_or((Others::Leave, &[][..]), |gone| (Others::Stay, gone));
        let (mut found, bound) = self.ways_to_join(workload, groups, others, wanted);
        let more = (found.len() > most).then_some(SearchBound::Choices(ROOM_TRIES_MAX));
        found.truncate(most);
        (found, more.or(bound))
    }

    /// Numbers of members of each group that find places together beside those that run, with the
    /// flavors that the gang has: once those are `gone`, and others stay or leave.
    fn ways_to_join(
        &mut self,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
        (others, gone): (Others, &[WorkloadIdx]),
        wanted: Fewer<'_>,
    ) -> (Ways, Option<SearchBound>) {
        let least = match others {
            Others::Stay if gone.is_empty() => Mode::Fit,
            _ => Mode::Preempt,
        };
        // Who can be charged to nothing joins with no other.
        let of: Vec<usize> = (0..groups.len())
            .filter(|at| self.with_shapes(workload, &groups[*at][..1], least).is_ok())
            .collect();
        let members: Vec<PodIdx> = of.iter().flat_map(|at| groups[*at].clone()).collect();
        let Ok(assignment) = self.with_shapes(workload, &members, least) else {
            return (Ways::new(), None);
        };
        let Ok(topology) = self.topology_ask(assignment.queue, workload) else {
            return (Ways::new(), None);
        };
        let profile = self.profile(assignment.queue);
        let of_all = |counts: &Vec<u32>| -> Vec<u32> { of.iter().map(|at| counts[*at]).collect() };
        let known: Ways = wanted.known.iter().map(of_all).collect();
        let wanted = Fewer { known: &known, ..wanted };
        let passed = self.state.pass_nominated_for(&members);
        let mut txn = Txn::begin(&mut self.state);
        txn.remove_workloads(gone.iter().copied());
        let asks = asks_with(&mut txn, &assignment, members.into_iter(), profile);
        let asks = asks.filter(|asks| asks.len() > 1).unwrap_or_default();
        let counts: Vec<Count> =
            asks.iter().map(|ask| (ask.class, ask.pods.len() as u32)).collect();
        let (found, bound) = match others {
            _ if counts.is_empty() => (Ways::new(), None),
            Others::Stay => beside_peers(&mut txn, workload, &counts, topology, wanted),
            Others::Leave => {
                txn.vacate(workload);
                once_others_left(&mut txn, workload, &counts, topology, |txn| {
                    beside_peers(txn, workload, &counts, topology, wanted)
                })
            }
        };
        drop(txn);
        self.state.restore_nominated(passed);
        let spread = |counts: Vec<u32>| {
            let mut all = vec![0; groups.len()];
            of.iter().zip(counts).for_each(|(at, count)| all[*at] = count);
            all
        };
        (found.into_iter().map(spread).collect(), bound)
    }
}

/// Numbers of members that find places together, in the domain of those that run where a level is
/// required.
fn beside_peers(
    txn: &mut Txn<'_>,
    workload: WorkloadIdx,
    asks: &[Count],
    topology: TopologyAsk,
    wanted: Fewer<'_>,
) -> (Ways, Option<SearchBound>) {
    let nodes: Vec<NodeIdx> =
        peers(txn.state(), workload).into_iter().map(|(_, node)| node).collect();
    let tree = &txn.state().room.tree;
    let required = topology.required.filter(|_| !topology.per_set);
    let home = required.and_then(|level| gang::home(tree, level, &nodes));
    match home.map(|domain| tree.domain(domain)) {
        None => coupled::some(txn, asks, topology, wanted),
        Some(domain) => {
            let range = domain.start..domain.end;
            coupled::some_within(txn, asks, range, wanted)
        }
    }
}

/// So many members of each group, the first ones.
pub(super) fn members_of(groups: &[Vec<PodIdx>], counts: &[u32]) -> Vec<PodIdx> {
    let taken = groups.iter().zip(counts);
    taken.flat_map(|(group, count)| &group[..*count as usize]).copied().collect()
}

/// What is found by `look` once all have left who may be preempted, if anybody may.
fn once_others_left(
    txn: &mut Txn<'_>,
    workload: WorkloadIdx,
    asks: &[Count],
    topology: TopologyAsk,
    mut look: impl FnMut(&mut Txn<'_>) -> (Ways, Option<SearchBound>),
) -> (Ways, Option<SearchBound>) {
    let shapes = asks.iter().map(|(class, _)| txn.state().classes.class(*class).key.shape);
    let together = coupled::together(txn, shapes);
    let need = Need { asks: asks.to_vec(), together, topology, ..Need::default() };
    let mut ended = None;
    let found = victims::once_all_left(txn, workload, &need, |txn| {
        let (found, bound) = look(txn);
        ended = ended.or(bound);
        (!found.is_empty()).then_some(found)
    });
    (found.unwrap_or_default(), ended)
}

/// Flavors by set.
type Flavors = Vec<Vec<FlavorIdx>>;

/// The flavors that sets may have, for each choice of them in the queue's order, and whether these
/// are all choices.
fn choices_of_flavors(
    state: &ClusterState,
    queue: Option<QueueIdx>,
    sets: &[SetDemand],
) -> (Vec<Flavors>, bool) {
    let groups = queue.map_or(&[][..], |queue| &state.quota.queue(queue).groups[..]);
    let (mut choices, mut whole) = (vec![Flavors::new()], true);
    for set in sets {
        let counted = state.room.counted(set.shape).entries();
        let asks = |group: &&Group| {
            let covers = |resource| group.covered.contains(resource);
            covers(&USD) || counted.iter().any(|(resource, _)| covers(resource))
        };
        let mut own = vec![Vec::new()];
        for group in groups.iter().filter(asks) {
            own = each_with(&own, &group.flavors, &mut whole);
        }
        own.iter_mut().for_each(|flavors| flavors.sort_unstable());
        choices = each_with(&choices, &own, &mut whole);
    }
    (choices, whole)
}

/// Every list with every one of these behind it; not `whole`: there are more.
fn each_with<T: Clone>(lists: &[Vec<T>], more: &[T], whole: &mut bool) -> Vec<Vec<T>> {
    let with = |list: &Vec<T>| {
        let list = list.clone();
        more.iter().map(move |one| [&list[..], std::slice::from_ref(one)].concat())
    };
    let mut every: Vec<Vec<T>> = lists.iter().flat_map(with).take(CHOICES_MAX + 1).collect();
    *whole &= every.len() <= CHOICES_MAX;
    every.truncate(CHOICES_MAX);
    every
}
