//! Flavors of all resource groups of one unit of pod sets, looked at together.
//!
//! Problem: each group finds its flavor by itself (cpu by capacity type, GPUs by model), and only
//! nodes tell which flavors exist together. Group by group, cpu stops at the first type that
//! fits, though its nodes have no GPUs that are free; or passes over the type whose GPUs lower
//! work holds for one whose nodes have none at all.
//!
//! Wanted: nobody leaves, and nobody waits, where some combination of flavors fits; and where
//! none does, victims are found wherever some combination has them. Nodes alone are a reason to
//! take another flavor than a group finds by itself: groups share no quota, so what is best for
//! each by quota is best for all. (They do share victims: who is stopped because the group beside
//! would take its flavor back frees this group's too. Nobody is stopped so where that group has
//! another flavor of its own choice, quota and nodes.)
//!
//! Phases, where group by group somebody would leave or nothing was found: every combination in
//! the queue's order of flavors, the first group's changing last, is judged as a whole for one
//! that fits as things are; then, for who would wait, for one that fits once others have left.
//! The rules of when to stop and what is better are those of one group. Who waits all the same is
//! told, flavor by flavor, what came closest.
//!
//! Cost: [`Demand::combinations`] combinations, and [`LOOKS_MAX`] searches for victims. Nothing
//! survives a restart.

use super::as_things_are::{Most, most_borrowing};
use super::combinations::{Seeker, Walk, height_of, quota_for, with};
use super::unit::{self, Part};
use super::with_victims::ways_back;
use super::{Choice, Demand, Mode, better, lacking, mode_of, refusal, stops, viable};
use crate::explain::reason::{FlavorProblem, FlavorRefusal, Reason};
use crate::model::ids::{ClassIdx, FlavorIdx, FrIdx};
use crate::model::txn::Txn;
use crate::victims::{self, Lack, Need};

/// Combinations for which victims are looked for.
const LOOKS_MAX: u32 = 16;

/// Combinations of one unit under way.
struct OneUnit<'a, 'd> {
    demand: &'a Demand<'d>,
    unit: &'a [usize],
    parts: &'a [Part],
    most: &'a Most,
    /// The flavors that groups find by themselves.
    apart: &'a Choice,
    /// Searches for victims that may still be made; none in a look for what fits as things are.
    looks: Option<u32>,
    /// The best so far: how it stands, and the flavors.
    best: Option<(Mode, Choice)>,
    /// What stood in the way, the most telling problem of each flavor, in the order tried.
    tried: Vec<FlavorRefusal>,
    /// Some combination lacked nothing but room on nodes, or was not looked at.
    room: bool,
    /// The combination that came closest, and how close: whether no node is of all its flavors,
    /// and its problem.
    closest: Option<((bool, u8), Choice)>,
}

/// The flavors of the first groups.
#[derive(Clone)]
struct Chosen {
    choice: Choice,
    /// What is short of quota.
    short: Vec<FrIdx>,
    /// Which flavors lack it, and how much of what tells most.
    why: Vec<(FlavorIdx, FlavorProblem)>,
}

/// Better flavors for one unit than those found group by group, beside what was chosen for the
/// units before it; or those, with the most telling reason. `own`: how well the unit stands with
/// them.
pub(super) fn improve(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    unit: Vec<usize>,
    before: Choice,
    (apart, own): (Choice, Mode),
) -> Choice {
    let units = [unit];
    let parts = unit::parts(txn, demand, &units);
    if parts.len() < 2 {
        return apart;
    }
    let most = if viable(own) { most_borrowing(txn, demand.queue, &apart) } else { Most::ANY };
    let start = Chosen { choice: before, short: Vec::new(), why: Vec::new() };
    let walk = |txn: &mut Txn<'_>, looks| {
        let mut search = OneUnit::new(demand, (&units[0], &parts), (&most, &apart), looks);
        let cut = Walk::new(&parts, demand.combinations).run(txn, &mut search, &start);
        search.room |= cut;
        search
    };
    let mut search = walk(txn, None);
    if search.best.is_none() && !viable(own) {
        let looks = LOOKS_MAX.min(demand.combinations);
        search = walk(txn, Some(looks));
    }
    let cluster_queue = txn.state().quota.queue(demand.queue).name.clone();
    let spokesman = unit::spokesman(txn.state(), demand, &units[0]);
    let pod_set = demand.sets[spokesman].name.clone();
    let OneUnit { best, looks, closest, tried, room, .. } = search;
    let room = apart.room || room;
    // What was not looked at says nothing new.
    let found_out = looks.is_some() && !tried.is_empty();
    let reason = Some(Reason::Flavors { cluster_queue, pod_set, tried });
    let found = match best {
        Some((Mode::Fit, found)) => Choice { next: apart.next, ..found },
        Some((mode, found)) if viable(mode) || mode > own => {
            Choice { next: apart.next, reason, ..found }
        }
        _ if !found_out => apart,
        _ => match closest.filter(|_| own == Mode::NoFit) {
            Some((_, closest)) => Choice { mode: own, next: apart.next, reason, ..closest },
            None => Choice { reason, ..apart },
        },
    };
    Choice { room, ..found }
}

impl Seeker for OneUnit<'_, '_> {
    type Chosen = Chosen;

    fn with(
        &mut self,
        txn: &mut Txn<'_>,
        part: &Part,
        flavor: FlavorIdx,
        chosen: &Chosen,
    ) -> Option<Chosen> {
        let (candidate, short) = match quota_for(txn, self.demand, part, flavor, &chosen.choice) {
            Ok(found) => found,
            Err(why) => {
                self.refused(txn, flavor, why);
                return None;
            }
        };
        if !self.most.allows(part, candidate.borrowing) {
            return None;
        }
        let lacks = [&chosen.short[..], &candidate.contested].concat();
        let why = chosen.why.iter().cloned().chain(short.map(|why| (flavor, why)));
        let why = why.collect();
        let choice = with(txn, self.demand, part, candidate, &chosen.choice);
        Some(Chosen { choice, short: lacks, why })
    }

    fn judge(&mut self, txn: &mut Txn<'_>, flavor: FlavorIdx, mut chosen: Chosen) -> bool {
        let demand = self.demand;
        let asks = unit::asks_of(txn, demand, self.unit, &chosen.choice);
        let holds = unit::without_room(txn, demand, &asks).is_none();
        let mut mode = Mode::Fit;
        if !holds || !chosen.short.is_empty() {
            self.room |= chosen.short.is_empty();
            if self.looks.is_none() {
                return false;
            }
            let Chosen { choice, short, .. } = &chosen;
            if !ways_back(txn, demand, self.parts, (self.apart, choice), short).is_empty() {
                return false;
            }
            mode = self.judge_short(txn, flavor, &asks, &mut chosen);
        }
        let mut choice = chosen.choice;
        if mode == Mode::NoFit {
            return false;
        }
        let stands = (mode, choice.borrowing);
        let beats =
            |(best, of): &(Mode, Choice)| better(txn, demand.queue, stands, (*best, of.borrowing));
        let stop = stops(txn, demand.queue, stands);
        if stop || self.best.as_ref().is_none_or(beats) {
            choice.mode = choice.mode.min(mode);
            self.best = Some((mode, choice));
        }
        stop
    }
}

impl<'a, 'd> OneUnit<'a, 'd> {
    fn new(
        demand: &'a Demand<'d>,
        (unit, parts): (&'a [usize], &'a [Part]),
        (most, apart): (&'a Most, &'a Choice),
        looks: Option<u32>,
    ) -> Self {
        let (tried, room) = (Vec::new(), false);
        let (best, closest) = (None, None);
        OneUnit { demand, unit, parts, most, apart, looks, best, tried, room, closest }
    }

    /// How one stands that lacks quota or room, and what that is: where those who may be stopped
    /// would free the quota, it is nodes.
    fn judge_short(
        &mut self,
        txn: &mut Txn<'_>,
        flavor: FlavorIdx,
        asks: &[(ClassIdx, u32)],
        chosen: &mut Chosen,
    ) -> Mode {
        let Chosen { choice, short, why } = chosen;
        let nowhere = asks.iter().any(|(class, _)| !lacking::some_node_accepts(txn, *class));
        let (mut mode, mut even_then) = (Mode::NoFit, None);
        if self.looks > Some(0) && !nowhere {
            self.looks = self.looks.map(|looks| looks - 1);
            let need = Need {
                usage: choice.usage.clone(),
                contested: choice.contested.clone(),
                asks: asks.to_vec(),
                together: self.demand.together(txn),
                topology: self.demand.topology,
                ..Need::default()
            };
            let (found, height) = self.after_preemption(txn, &need, short);
            choice.borrowing = choice.borrowing.max(height);
            let quota_short = !short.is_empty();
            mode = found.unwrap_or(if quota_short { Mode::NoCandidates } else { Mode::NoFit });
            let lack = found.err().unwrap_or(Lack::Quota);
            if lack == Lack::Room
                && let Some((_, why)) = why.first()
            {
                even_then =
                    Some(lacking::of_flavor(txn, self.demand, (lack, &need), asks, why.clone()));
            }
            let victims = lacking::no_victims(txn, self.demand, lack, &need);
            why.iter_mut().for_each(|(_, why)| lacking::put(why, &victims));
        }
        let nodes = nowhere || short.is_empty() && !viable(mode) || why.is_empty();
        if let Some(nodes) = even_then {
            *why = vec![(flavor, nodes)];
        } else if nodes {
            let nodes = lacking::nodes_for_any(txn, self.demand, asks);
            *why = vec![(flavor, nodes)];
        }
        let nearest = why.iter().map(|(_, why)| why.remoteness()).min();
        let far = (nowhere, nearest.expect("it lacks quota or room"));
        if self.closest.as_ref().is_none_or(|(known, _)| far < *known) {
            self.closest = Some((far, choice.clone()));
        }
        why.sort_by_key(|(_, why)| is_of_host(why));
        std::mem::take(why).into_iter().for_each(|(of, why)| self.refused(txn, of, why));
        mode
    }

    /// How it stands once those have left who may be stopped for it, and how far what is `short`
    /// borrows then.
    fn after_preemption(
        &self,
        txn: &mut Txn<'_>,
        need: &Need,
        short: &[FrIdx],
    ) -> (Result<Mode, Lack>, u32) {
        let start = txn.checkpoint();
        let found = victims::search_in(txn, self.demand.workload, need);
        let height = height_of(txn, self.demand, &need.usage, short);
        txn.rollback_to(start);
        let mode = found.map(|victims| mode_of(txn, self.demand.queue, &victims));
        (mode, height)
    }

    /// Keeps what tells most of each flavor.
    fn refused(&mut self, txn: &Txn<'_>, flavor: FlavorIdx, why: FlavorProblem) {
        if self.looks.is_none() {
            return;
        }
        let one = refusal(txn, flavor, why);
        match self.tried.iter_mut().find(|known| known.flavor == one.flavor) {
            Some(known) if one.why.remoteness() < known.why.remoteness() => *known = one,
            Some(_) => {}
            None => self.tried.push(one),
        }
    }
}

/// Whether it is about cpu, memory and the like; of several shortages that of devices tells most.
fn is_of_host(why: &FlavorProblem) -> bool {
    matches!(why, FlavorProblem::Short { resource, .. } if !resource.contains('/'))
}
