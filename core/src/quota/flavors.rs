//! Flavor assignment: which flavor each pod set gets of each resource group, and how well that
//! fits.
//!
//! Flavors are tried in the queue's order. One that its taints or labels exclude is passed over;
//! for the others every requested resource has a mode: it fits, it would fit after preemption, or
//! it does not. Room on nodes counts like quota: a flavor's mode is the worse of the two. The
//! queue's fungibility says when the scan stops; where it stopped is remembered, so that a
//! workload that lost a race goes on with the next flavor. Usage of earlier pod sets of the same
//! workload counts for later ones.

use capstan_topology::ResourceIdx;

use crate::explain::reason::{FlavorProblem, FlavorRefusal, NoVictims, Reason, Strait};
use crate::explain::view::Holder;
use crate::model::ids::{ClassIdx, FlavorIdx, FrIdx, QueueIdx, QuotaIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{Fungibility, PreemptReclaim, PreemptWithin, Text};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::classes::Scoring;
use crate::place::coupled;
use crate::place::gang::TopologyAsk;
use crate::resources::USD;
use crate::victims::{self, Lack, Need};

use self::priced::Priced;
pub use self::priced::too_dear;
use self::standing::Quota;
use self::unit::Part;

pub mod as_things_are;
mod combinations;
pub mod each_part;
pub mod lacking;
mod one_unit;
mod priced;
mod standing;
mod unit;
pub mod with_victims;

/// How well something fits, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// It does not, whoever left.
    NoFit,
    /// It would, but nobody may be preempted for it.
    NoCandidates,
    /// After preemption in the own queue.
    Preempt,
    /// After reclaiming from other queues.
    Reclaim,
    /// It does.
    Fit,
}

/// Members of one shape that flavors are wanted for.
#[derive(Clone, Debug)]
pub struct SetDemand {
    /// Shape.
    pub shape: ShapeIdx,
    /// Name of the set.
    pub name: Text,
    /// Members.
    pub count: u32,
}

/// What is asked of the assigner.
pub struct Demand<'a> {
    /// The workload.
    pub workload: WorkloadIdx,
    /// Its queue.
    pub queue: QueueIdx,
    /// Its sets.
    pub sets: &'a [SetDemand],
    /// Topology asked.
    pub topology: TopologyAsk,
    /// How nodes are compared.
    pub profile: Scoring,
    /// Where to start, per (set, group).
    pub start: &'a [((usize, usize), usize)],
    /// Combinations of flavors that may be tried where those found first do not do.
    pub combinations: u32,
    /// By group name of pod sets, a flavor that running members of it have: those get no other.
    pub kept: &'a [(Text, FlavorIdx)],
}

impl Demand<'_> {
    /// Shapes that come together, if what some find may depend on others.
    fn together(&self, txn: &Txn<'_>) -> Vec<ShapeIdx> {
        coupled::together(txn, self.sets.iter().map(|set| set.shape))
    }
}

/// The flavors found.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Worst mode of all parts.
    pub mode: Mode,
    /// Highest borrowing level of all parts; 0: none borrows.
    pub borrowing: u32,
    /// Per set: resource to flavor.
    pub sets: Vec<Vec<(ResourceIdx, FlavorIdx)>>,
    /// What the whole workload charges.
    pub usage: Vec<(FrIdx, i64)>,
    /// Flavors and resources that need preemption.
    pub contested: Vec<FrIdx>,
    /// How each part (what one set asks of one group) stands in its flavor by itself.
    pub parts: Vec<((usize, usize), Stands)>,
    /// Where the next scan would start; empty when every scan reached the end.
    pub next: Vec<((usize, usize), usize)>,
    /// With more room on nodes something else might have been found.
    pub room: bool,
    /// Why it is not a fit.
    pub reason: Option<Reason>,
}

impl Choice {
    /// Nothing chosen yet.
    fn none() -> Self {
        Choice {
            mode: Mode::Fit,
            borrowing: 0,
            sets: Vec::new(),
            usage: Vec::new(),
            contested: Vec::new(),
            parts: Vec::new(),
            next: Vec::new(),
            room: false,
            reason: None,
        }
    }

    /// Work without a queue needs no flavors.
    pub fn without_queue(sets: usize) -> Self {
        Choice { sets: vec![Vec::new(); sets], ..Choice::none() }
    }
}

/// One flavor's result for one set and group.
#[derive(Clone)]
struct Candidate {
    flavor: FlavorIdx,
    /// The worst of any resource.
    mode: Mode,
    /// The farthest of any resource.
    borrowing: u32,
    contested: Vec<FrIdx>,
    /// What is asked of its money.
    money: i64,
}

impl Candidate {
    /// A flavor that fits as far as is known.
    fn fitting(flavor: FlavorIdx, money: i64) -> Candidate {
        Candidate { flavor, mode: Mode::Fit, borrowing: 0, contested: Vec::new(), money }
    }
}

/// How something stands: its mode, and how far it borrows. Of a flavor it is how the resource
/// that is worst stands by both together, not the worst of each (spec/quota.md 6.3).
pub type Stands = (Mode, u32);

/// Chooses flavors for every set of a workload.
pub fn assign(txn: &mut Txn<'_>, demand: &Demand<'_>) -> Choice {
    let mut choice = Choice::without_queue(demand.sets.len());
    for unit in unit::units(txn.state(), demand) {
        let uncovered = unit.iter().find_map(|at| covered(txn, demand, &demand.sets[*at]).err());
        if let Some(reason) = uncovered {
            return Choice { mode: Mode::NoFit, reason: Some(reason), ..choice };
        }
        assign_unit(txn, demand, unit, &mut choice);
        if choice.mode == Mode::NoFit {
            return choice;
        }
    }
    choice
}

/// Chooses flavors for one unit: group by group, and where somebody would leave or nothing was
/// found, of all groups together. Of several units the first of those is told that are farthest
/// from a fit.
fn assign_unit(txn: &mut Txn<'_>, demand: &Demand<'_>, unit: Vec<usize>, choice: &mut Choice) {
    let groups = txn.state().quota.queue(demand.queue).groups.len();
    let (mode, told) = (std::mem::replace(&mut choice.mode, Mode::Fit), choice.reason.take());
    let before = (groups > 1).then(|| choice.clone());
    for group in 0..groups {
        if let Some(part) = unit::part(txn, demand, &unit, group) {
            assign_part(txn, demand, &part, choice);
        }
        if choice.mode == Mode::NoFit {
            break;
        }
    }
    let own = choice.mode;
    let stays = viable(own) && !fungibility(txn, demand.queue).next_when_preempting;
    if let Some(before) = before.filter(|_| own < Mode::Fit && !stays) {
        let apart = std::mem::replace(choice, Choice::none());
        *choice = one_unit::improve(txn, demand, unit, before, (apart, own));
    }
    if told.is_some() && mode <= choice.mode {
        choice.reason = told;
    }
    choice.mode = choice.mode.min(mode);
    assert!(choice.mode == Mode::Fit || choice.reason.is_some(), "what does not fit has a reason");
}

/// When a queue's scan of flavors stops.
pub fn fungibility(txn: &Txn<'_>, queue: QueueIdx) -> Fungibility {
    let facts = txn.state().quota.queue(queue).facts.as_ref();
    facts.expect("only existing queues have heads").fungibility
}

/// What a queue lacks of a flavor and resource for so much more; `None`: nothing.
pub fn shortage(
    state: &ClusterState,
    queue: QueueIdx,
    fr: FrIdx,
    asked: i64,
) -> Option<FlavorRefusal> {
    let slot = state.quota.queue(queue);
    let (node, tree) = (slot.node?, &state.quota.tree);
    let (flavor, resource) = state.quota.fr(fr);
    let left = tree.available(node, fr);
    (left < asked).then(|| FlavorRefusal {
        flavor: state.quota.flavor_name(flavor).clone(),
        why: FlavorProblem::Short {
            resource: state.room.resources.name(resource).clone(),
            asked,
            others: 0,
            left,
            cohort: slot.facts.as_ref().and_then(|facts| facts.cohort.clone()),
            own: tree.unused(node, fr),
            strait: strait(state, node, fr),
            victims: NoVictims::NotAsked,
        },
    })
}

/// What leaves a queue no more of something, where it is not just that others use what there is.
fn strait(state: &ClusterState, queue: QuotaIdx, fr: FrIdx) -> Option<Box<Strait>> {
    let tree = &state.quota.tree;
    let over = tree.debt(queue, fr);
    if over > 0 {
        // A queue without a cohort has nobody's debts but its own.
        let (cohort, _) = state.quota.name_of(tree.root(queue)).filter(|(_, cohort)| *cohort)?;
        return Some(Box::new(Strait::Debt { cohort: cohort.clone(), over }));
    }
    let bound = Some(tree.bound(queue, fr)).filter(|bound| bound.borrowing)?;
    let (name, is_cohort) = state.quota.name_of(bound.node)?;
    let holder = match is_cohort {
        true => Holder::Cohort(name.clone()),
        false => Holder::Queue(name.clone()),
    };
    Some(Box::new(Strait::Borrowing { holder, limit: bound.amount, borrowed: bound.used }))
}

/// Whether every resource asked that counts is in some group. `pods` need not be.
fn covered(txn: &Txn<'_>, demand: &Demand<'_>, set: &SetDemand) -> Result<(), Reason> {
    let state = txn.state();
    let queue = state.quota.queue(demand.queue);
    if state.policy.quota.ignore_undeclared {
        return Ok(());
    }
    for &(resource, amount) in state.room.counted(set.shape).entries() {
        let known = queue.groups.iter().any(|group| group.covered.contains(&resource));
        if !known && resource != crate::resources::PODS {
            return Err(Reason::NotCovered {
                cluster_queue: queue.name.clone(),
                resource: state.room.resources.name(resource).clone(),
                asked: amount.saturating_mul(set.count.into()),
            });
        }
    }
    Ok(())
}

fn assign_part(txn: &mut Txn<'_>, demand: &Demand<'_>, part: &Part, choice: &mut Choice) {
    let flavors = &part.flavors;
    let start = demand.start.iter().find(|(of, _)| *of == part.key()).map_or(0, |(_, n)| *n);
    let mut refused: Vec<FlavorRefusal> = Vec::new();
    let mut best: Option<(Stands, Candidate)> = None;
    let mut last = flavors.len() - 1;
    for (tried, &flavor) in flavors.iter().enumerate().skip(start) {
        let (stands, candidate) = match try_flavor(txn, demand, part, flavor, choice) {
            Ok((stands, candidate, problem)) => {
                refused.extend(problem.map(|why| refusal(txn, flavor, why)));
                (stands, candidate)
            }
            Err(why) => {
                refused.push(refusal(txn, flavor, why));
                continue;
            }
        };
        let stop = stops(txn, demand.queue, stands);
        let beats = |(best, _): &(Stands, _)| better(txn, demand.queue, stands, *best);
        if stop || best.as_ref().is_none_or(beats) {
            best = Some((stands, candidate));
        }
        if stop {
            last = tried;
            break;
        }
    }
    if last + 1 < flavors.len() {
        choice.next.push((part.key(), last + 1));
    }
    let best = best.map(|(_, candidate)| candidate);
    take(txn, demand, part, best, refused, choice);
}

fn refusal(txn: &Txn<'_>, flavor: FlavorIdx, why: FlavorProblem) -> FlavorRefusal {
    FlavorRefusal { flavor: txn.state().quota.flavor_name(flavor).clone(), why }
}

/// Adds the best candidate of a group to the choice, or says why there is none.
fn take(
    txn: &Txn<'_>,
    demand: &Demand<'_>,
    part: &Part,
    best: Option<Candidate>,
    tried: Vec<FlavorRefusal>,
    choice: &mut Choice,
) {
    choice.room |= tried.iter().any(|refusal| refusal.why.wants_room());
    let mode = best.as_ref().map_or(Mode::NoFit, |best| best.mode);
    // Groups are all needed: the one that is farthest from a fit is told.
    let tells = mode < Mode::Fit && (choice.reason.is_none() || mode < choice.mode);
    choice.mode = choice.mode.min(mode);
    if tells {
        let quota = &txn.state().quota;
        choice.reason = Some(Reason::Flavors {
            cluster_queue: quota.queue(demand.queue).name.clone(),
            pod_set: demand.sets[unit::spokesman(txn.state(), demand, &part.unit)].name.clone(),
            tried,
        });
    }
    let Some(best) = best else { return };
    choice.borrowing = choice.borrowing.max(best.borrowing);
    choice.contested.extend(best.contested);
    choice.parts.push((part.key(), (best.mode, best.borrowing)));
    let quota = &txn.state().quota;
    for (at, own) in &part.sets {
        choice.sets[*at].extend(own.iter().map(|resource| (*resource, best.flavor)));
    }
    for &(resource, amount) in &part.asked {
        let amount = if resource == USD { best.money } else { amount };
        let fr = quota.listed_fr(best.flavor, resource);
        match choice.usage.iter_mut().find(|(known, _)| *known == fr) {
            Some((_, used)) => *used = used.saturating_add(amount),
            None => choice.usage.push((fr, amount)),
        }
    }
}

/// Whether something can be done.
fn viable(mode: Mode) -> bool {
    mode > Mode::NoCandidates
}

/// Whether the scan stops at a flavor that stands so, whatever comes after.
fn stops(txn: &Txn<'_>, queue: QueueIdx, (mode, borrowing): Stands) -> bool {
    let fungibility = fungibility(txn, queue);
    let preempts = matches!(mode, Mode::Preempt | Mode::Reclaim);
    viable(mode)
        && !(preempts && fungibility.next_when_preempting)
        && !(borrowing > 0 && fungibility.next_when_borrowing)
}

/// Whether one that stands so beats the best so far; equal ones do not. Of two that both would
/// have to preempt and find nobody, the one that borrows less is kept back for.
fn better(txn: &Txn<'_>, queue: QueueIdx, one: Stands, best: Stands) -> bool {
    if one.0 == Mode::NoFit || best.0 == Mode::NoFit || viable(one.0) != viable(best.0) {
        return one.0 > best.0;
    }
    let less_borrowing = best.1.cmp(&one.1);
    let mode = one.0.cmp(&best.0);
    match fungibility(txn, queue).prefer_preemption_over_borrowing {
        true => less_borrowing.then(mode).is_gt(),
        false => mode.then(less_borrowing).is_gt(),
    }
}

/// One flavor for one part: how it stands over all resources and on nodes. `Err`: it is excluded.
/// A problem beside a candidate says why it is less than a fit.
fn try_flavor(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    part: &Part,
    flavor: FlavorIdx,
    chosen: &Choice,
) -> Result<(Stands, Candidate, Option<FlavorProblem>), FlavorProblem> {
    unit::check(txn.state(), demand, part, flavor)?;
    let usage = &chosen.usage;
    let asks = unit::asks(txn, demand, part, flavor, chosen);
    let priced = priced::of_part(txn, demand, part, flavor, (&asks, chosen));
    let mut candidate = Candidate::fitting(flavor, priced.amount());
    let total = |&(resource, own): &(ResourceIdx, i64)| {
        let fr = txn.state().quota.listed_fr(flavor, resource);
        let earlier = usage.iter().find(|(known, _)| *known == fr).map_or(0, |(_, n)| *n);
        (resource, (fr, earlier.saturating_add(own), own))
    };
    let totals: Vec<(ResourceIdx, Total)> = priced.asked.iter().map(total).collect();
    // All are needed: what can never be had decides, whatever else is short now.
    let never = totals.iter().find_map(|(resource, amounts)| {
        priced.beyond(txn.state(), demand.queue, *resource, *amounts)
    });
    if let Some(why) = never {
        let why = lacking::no_nodes_of_it(txn, demand, &asks).unwrap_or(why);
        let candidate = Candidate { mode: Mode::NoFit, ..candidate };
        return Ok(((Mode::NoFit, 0), candidate, Some(why)));
    }
    let (mut stands, mut problem) =
        by_amounts(txn, demand, &asks, (&priced, &totals), &mut candidate);
    if candidate.mode == Mode::Fit
        && let Some(ask) = unit::without_room(txn, demand, &asks)
    {
        let frs: Vec<(FrIdx, i64)> = totals.iter().map(|(_, (fr, _, own))| (*fr, *own)).collect();
        candidate.mode = room_mode(txn, demand, frs, &asks);
        stands.0 = candidate.mode;
        problem = Some(lacking::nodes_for(txn, demand, ask));
    }
    Ok((stands, candidate, problem))
}

/// What is asked of a flavor and resource, by sets before this one too, and by this one.
type Total = (FrIdx, i64, i64);

/// How a flavor stands by amounts, and the most telling of what is short.
fn by_amounts(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    asks: &[(ClassIdx, u32)],
    (priced, totals): (&Priced<'_>, &[(ResourceIdx, Total)]),
    candidate: &mut Candidate,
) -> (Stands, Option<FlavorProblem>) {
    let mut problem: Option<((Mode, u8), FlavorProblem)> = None;
    let mut stands = (Mode::Fit, 0);
    for &(resource, (fr, total, amount)) in totals {
        let quota = priced.quota(txn.state(), demand, resource, (fr, total, amount));
        let (mode, borrowing, why) = quota_mode(txn, demand, (fr, total), quota, asks);
        if mode < Mode::Fit {
            candidate.contested.push(fr);
        }
        candidate.mode = candidate.mode.min(mode);
        candidate.borrowing = candidate.borrowing.max(borrowing);
        if better(txn, demand.queue, stands, (mode, borrowing)) {
            stands = (mode, borrowing);
        }
        if let Some(why) = why {
            let stands = (mode, why.remoteness());
            if problem.as_ref().is_none_or(|(worst, _)| stands < *worst) {
                problem = Some((stands, why));
            }
        }
        if mode == Mode::NoFit {
            break;
        }
    }
    (stands, problem.map(|(_, why)| why))
}

/// The class of members of a shape that may go where these flavors, and perhaps one more, lead.
fn class_with(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    shape: ShapeIdx,
    chosen: &[(ResourceIdx, FlavorIdx)],
    flavor: Option<FlavorIdx>,
) -> ClassIdx {
    let flavors = chosen.iter().map(|(_, flavor)| *flavor).chain(flavor);
    class_of(txn, shape, flavors, demand.profile)
}

/// The class of members of a shape that may go where all of some flavors lead, each named once or
/// more.
pub fn class_of(
    txn: &mut Txn<'_>,
    shape: ShapeIdx,
    flavors: impl Iterator<Item = FlavorIdx> + Clone,
    scoring: Scoring,
) -> ClassIdx {
    let mut others = flavors.clone();
    // Most have one for everything.
    if let Some(first) = others.next()
        && others.all(|flavor| flavor == first)
    {
        return txn.class(shape, &[first], scoring);
    }
    let mut flavors: Vec<FlavorIdx> = flavors.collect();
    flavors.sort_unstable();
    flavors.dedup();
    txn.class(shape, &flavors, scoring)
}

/// Whether anybody might be stopped for the workload.
fn may_preempt(state: &ClusterState, demand: &Demand<'_>) -> bool {
    let facts = state.quota.queue(demand.queue).facts.as_ref();
    let policy = facts.expect("only existing queues have heads").preemption;
    let any = policy.within_cluster_queue != PreemptWithin::Never
        || policy.reclaim != PreemptReclaim::Never;
    any && !state.workloads[demand.workload].never_preempts
}

/// Mode of one flavor and resource by quota, with the borrowing level.
fn quota_mode(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    (fr, total): (FrIdx, i64),
    quota: Quota,
    asks: &[(ClassIdx, u32)],
) -> (Mode, u32, Option<FlavorProblem>) {
    let (never, why) = match quota {
        Quota::Fits(height) => return (Mode::Fit, height, None),
        Quota::Never(height, why) => (Some(height), why),
        Quota::Short(why) => (None, why),
    };
    if let Some(nodes) = lacking::no_nodes_of_it(txn, demand, asks) {
        return (Mode::NoFit, 0, Some(nodes));
    }
    if let Some(height) = never {
        return (Mode::NoFit, height, Some(why));
    }
    let need = Need {
        usage: vec![(fr, total)],
        contested: vec![fr],
        asks: asks.to_vec(),
        together: demand.together(txn),
        topology: demand.topology,
        ..Need::default()
    };
    let node = txn.state().quota.queue(demand.queue).node.expect("only existing queues have heads");
    let start = txn.checkpoint();
    let found = victims::search_in(txn, demand.workload, &need);
    let (height, _) = txn.state().quota.tree.borrow_height(node, fr, total);
    txn.rollback_to(start);
    let mode = found.as_ref().map_or(Mode::NoCandidates, |found| mode_of(txn, demand.queue, found));
    // Who would be enough for this may not be enough for all that is asked.
    let lack = found.err().unwrap_or(Lack::Quota);
    (mode, height, Some(lacking::of_flavor(txn, demand, (lack, &need), asks, why)))
}

fn mode_of(txn: &Txn<'_>, queue: QueueIdx, victims: &[victims::Victim]) -> Mode {
    let own = |victim: &victims::Victim| {
        let assignment = txn.state().workloads[victim.workload].assignment.as_ref();
        assignment.is_some_and(|assignment| assignment.queue == Some(queue))
    };
    if victims.iter().any(own) { Mode::Preempt } else { Mode::Reclaim }
}

/// Mode of a flavor whose quota fits and whose nodes do not.
fn room_mode(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    usage: Vec<(FrIdx, i64)>,
    asks: &[(ClassIdx, u32)],
) -> Mode {
    let (contested, together) = (Vec::new(), demand.together(txn));
    let asks = asks.to_vec();
    let topology = demand.topology;
    let need = Need { usage, contested, asks, together, topology, ..Need::default() };
    let start = txn.checkpoint();
    let found = victims::search_in(txn, demand.workload, &need);
    txn.rollback_to(start);
    found.map_or(Mode::NoFit, |victims| mode_of(txn, demand.queue, &victims))
}
