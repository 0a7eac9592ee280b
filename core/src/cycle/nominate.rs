//! Nomination: what could be done for one head, as things are.
//!
//! Nothing is changed: what is tried is rolled back, and what the scan of flavors remembers is
//! read here and written when the head is settled.

use capstan_topology::ResourceIdx;

use crate::cycle::{Entry, Verdict, elastic};
use crate::engine::Engine;
use crate::explain::reason::{Reason, SearchBound};
use crate::explain::together;
use crate::model::ids::{ClassIdx, FlavorIdx, PodIdx, QueueIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::workload::FlavorScan;
use crate::place::classes::{Paying, Scoring};
use crate::place::coupled;
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::quota::flavors::as_things_are::{self, Most};
use crate::quota::flavors::{self, Choice, Demand, Mode, SetDemand, lacking, with_victims};
use crate::quota::money::{self, Costs, Purse, Unplaced};
use crate::victims::{self, Need, Victim};

/// Combinations of flavors tried where those found first do not do: of several sets, or of several
/// groups of resources.
pub(super) const COMBINATIONS_MAX: u32 = 64;

/// The same for one of the many tries of an elastic gang with fewer members.
pub(super) const COMBINATIONS_FEWER: u32 = 4;

/// Where a look at flavors begins, and whether more looks follow it.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    /// Per (set, group), the flavor to begin with; the first where none is named.
    pub start: &'a [((usize, usize), usize)],
    /// Combinations of flavors that may be tried.
    pub combinations: u32,
    /// Under which it looks.
    pub premise: Premise<'a>,
}

/// What a nomination takes for granted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Premise<'a> {
    /// These have left.
    pub gone: &'a [WorkloadIdx],
    /// Nobody else may leave: what does not fit then does not.
    pub nobody_leaves: bool,
}

impl Engine {
    /// What could be done for a head.
    pub(crate) fn nominate(&mut self, queue: Option<QueueIdx>, workload: WorkloadIdx) -> Entry {
        self.nominate_as(queue, workload, Premise::default())
    }

    /// What could be done under a premise.
    pub(crate) fn nominate_as(
        &mut self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
        premise: Premise<'_>,
    ) -> Entry {
        let passed = self.state.pass_nominated(workload);
        let entry = self.look(queue, workload, premise);
        self.state.restore_nominated(passed);
        entry
    }

    fn look(
        &mut self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
        premise: Premise<'_>,
    ) -> Entry {
        let sets = self.demands(workload);
        let topology = match self.admissible(queue, workload, &sets) {
            Ok(topology) => topology,
            Err(reason) => return refused(queue, workload, sets, reason),
        };
        let asked: u32 = sets.iter().map(|set| set.count).sum();
        let least = self.state.workloads[workload].min_member.min(asked);
        let start = self.scan_start(queue, workload).to_vec();
        let look = Look { start: &start, combinations: COMBINATIONS_MAX, premise };
        if least == asked {
            let whole = self.try_sets(queue, workload, sets, topology, look);
            return self.others_of_roles(whole, (topology, premise));
        }
        let whole = self.try_sets(queue, workload, sets.clone(), topology, look);
        let stops = matches!(whole.verdict, Verdict::Preempt(_));
        if whole.verdict == Verdict::Fit || stops && self.starts_in_part(workload) {
            return whole;
        }
        let fewer = self.nominate_fewer(&whole, &sets, (least, asked), (topology, premise));
        let rather = match fewer.verdict {
            Verdict::Fit => true,
            // Nobody is stopped for what is above the minimum.
            Verdict::Preempt(_) => !stops || !self.each_by_itself(workload),
            Verdict::Blocked | Verdict::NoFit => !stops,
        };
        if rather { fewer } else { whole }
    }

    /// Whom to stop for a head with the flavors that it chose, as things are once those have left
    /// who are `gone`; `None`: nobody would do, or with other flavors only, which are for its next
    /// turn.
    pub(super) fn nominate_again(
        &mut self,
        entry: &Entry,
        gone: &[WorkloadIdx],
    ) -> Option<(Entry, Vec<Victim>)> {
        let groups = entry.queue.map(|queue| &self.state.quota.queue(queue).groups);
        let groups = groups.map_or(&[][..], |groups| groups);
        let mut start = Vec::new();
        for (at, chosen) in entry.choice.sets.iter().enumerate() {
            for (number, group) in groups.iter().enumerate() {
                let of_group = chosen.iter().find(|(of, _)| group.covered.contains(of));
                let place = of_group.and_then(|(_, flavor)| {
                    group.flavors.iter().position(|listed| listed == flavor)
                });
                start.extend(place.map(|place| ((at, number), place)));
            }
        }
        let topology = self.topology_ask(entry.queue, entry.workload).ok()?;
        let premise = Premise { gone, ..Premise::default() };
        let look = Look { start: &start, combinations: COMBINATIONS_MAX, premise };
        let sets = entry.sets.clone();
        let mut again = self.try_sets(entry.queue, entry.workload, sets, topology, look);
        let verdict = std::mem::replace(&mut again.verdict, Verdict::NoFit);
        let victims = match verdict {
            Verdict::Preempt(victims) => victims,
            Verdict::Fit => Vec::new(),
            Verdict::Blocked | Verdict::NoFit => return None,
        };
        (again.choice.sets == entry.choice.sets).then_some((again, victims))
    }

    /// The topology asked, unless the workload asks what nothing can meet.
    fn admissible(
        &self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
        sets: &[SetDemand],
    ) -> Result<TopologyAsk, Reason> {
        for set in sets {
            if let Some(excess) = &self.state.room.shape(set.shape).facts.above_limit {
                let (pod_set, excess) = (set.name.clone(), excess.clone());
                return Err(Reason::AboveLimit { pod_set, excess });
            }
            // What has no queue is nobody's to hold back: its pods are there already.
            let out = &self.state.room.shape(set.shape).facts.out_of_range;
            if let Some(what) = out.as_ref().filter(|_| queue.is_some()) {
                let (pod_set, what) = (set.name.clone(), what.clone());
                return Err(Reason::OutOfRange { pod_set, what });
            }
        }
        if let Some(reason) = self.overspent_for(queue, workload) {
            return Err(reason);
        }
        self.topology_ask(queue, workload)
    }

    /// Members of each shape that must find a place together for the workload to start: of an
    /// elastic gang those that need least, and no shape that no node admits while others make up
    /// the minimum.
    pub(crate) fn least_demands(&mut self, workload: WorkloadIdx) -> Vec<SetDemand> {
        self.demands_of(workload, self.state.workloads[workload].min_member)
    }

    /// The same of what is being stopped, once it queues again.
    pub(super) fn least_demands_anew(&mut self, workload: WorkloadIdx) -> Vec<SetDemand> {
        let sets = self.demands_anew(workload);
        self.least_of(sets, self.state.workloads[workload].min_member)
    }

    /// The same of so many of the members that need a place.
    pub(super) fn demands_of(&mut self, workload: WorkloadIdx, least: u32) -> Vec<SetDemand> {
        let sets = self.demands(workload);
        self.least_of(sets, least)
    }

    /// So many of these members, those first that find a place more easily.
    fn least_of(&mut self, sets: Vec<SetDemand>, least: u32) -> Vec<SetDemand> {
        let asked: u32 = sets.iter().map(|set| set.count).sum();
        let least = least.min(asked);
        if least == asked {
            return sets;
        }
        let mut order: Vec<usize> = (0..sets.len()).collect();
        let mut txn = Txn::begin(&mut self.state);
        // Of whatever flavor, and how well it suits does not matter.
        let (flavors, profile) = (&[], Scoring::default());
        let class = |set: &SetDemand| (txn.class(set.shape, flavors, profile), set.count);
        let asks: Vec<(ClassIdx, u32)> = sets.iter().map(class).collect();
        let coupled = coupled::are_coupled(&mut txn, &asks);
        let wanted = if coupled { coupled::are_wanted(&mut txn, &asks) } else { Vec::new() };
        order.sort_by_cached_key(|at| {
            let accepted = lacking::some_node_accepts(&mut txn, asks[*at].0);
            let wanted = wanted.get(*at).is_some_and(|wanted| *wanted);
            (!accepted, !wanted, txn.state().room.size(sets[*at].shape))
        });
        let (mut counts, mut left) = (vec![0; sets.len()], least);
        for at in order {
            counts[at] = sets[at].count.min(left);
            left -= counts[at];
        }
        elastic::with_counts(&sets, &counts)
    }

    /// Members of each shape that still need a place.
    pub(crate) fn demands(&self, workload: WorkloadIdx) -> Vec<SetDemand> {
        let entry = &self.state.workloads[workload];
        let mut sets = Vec::new();
        for set in &entry.sets {
            let needy = |pod: &PodIdx| self.state.pods[*pod].needs_place();
            // Without an assignment nothing is placed, and there is no need to look at the pods.
            let count = match entry.assignment {
                None => set.ready,
                Some(_) => {
                    let members = entry.members_of(set.shape, &self.state.pods);
                    members.filter(needy).count() as u32
                }
            };
            sets.push(SetDemand { shape: set.shape, name: set.name.clone(), count });
        }
        sets.retain(|set| set.count > 0);
        sets
    }

    /// Members of each shape that will need a place once a workload that runs was stopped.
    pub(super) fn demands_anew(&self, workload: WorkloadIdx) -> Vec<SetDemand> {
        let entry = &self.state.workloads[workload];
        let pods = &self.state.pods;
        let asks = |pod: &PodIdx| pods[*pod].place.is_some() || pods[*pod].needs_place();
        let sets = entry.sets.iter().map(|set| {
            let count = entry.members_of(set.shape, pods).filter(asks).count() as u32;
            SetDemand { shape: set.shape, name: set.name.clone(), count }
        });
        sets.filter(|set| set.count > 0).collect()
    }

    /// How nodes are compared for work of a queue.
    pub(crate) fn profile(&self, queue: Option<QueueIdx>) -> Scoring {
        let facts = queue.and_then(|queue| self.state.quota.queue(queue).facts.as_ref());
        let pays = queue.is_some_and(|queue| self.state.quota.money_group(queue).is_some());
        Scoring {
            profile: self.state.policy.profile(facts.and_then(|facts| facts.profile.as_ref())),
            paying: if pays { Paying::Pays } else { Paying::Free },
        }
    }

    /// What could be done for these members of a workload.
    pub(super) fn try_sets(
        &mut self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
        sets: Vec<SetDemand>,
        topology: TopologyAsk,
        look: Look<'_>,
    ) -> Entry {
        let profile = self.profile(queue);
        let mut txn = Txn::begin(&mut self.state);
        txn.remove_workloads(look.premise.gone.iter().copied());
        let attempt = Attempt { workload, queue, sets: &sets, topology, profile, look };
        let (mut choice, verdict) = attempt.outcome(&mut txn);
        attempt.split_amounts(txn.state(), &mut choice);
        let room = choice.room || choice.reason.as_ref().is_some_and(wants_room);
        Entry { workload, queue, sets, choice, verdict, room, later: None }
    }

    /// Where the flavor scan of a workload goes on, if its memory still holds.
    pub(super) fn scan_start(
        &self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
    ) -> &[((usize, usize), usize)] {
        let Some(queue) = queue else { return &[] };
        let generation = self.state.quota.generation(queue);
        let holds = |scan: &&FlavorScan| {
            scan.generation == generation || scan.round + 1 == self.round_number
        };
        let memory = self.state.workloads[workload].requeue.scan.as_deref();
        memory.filter(holds).map_or(&[], |scan| &scan.next)
    }
}

fn refused(
    queue: Option<QueueIdx>,
    workload: WorkloadIdx,
    sets: Vec<SetDemand>,
    reason: Reason,
) -> Entry {
    let mut choice = Choice::without_queue(sets.len());
    let room = wants_room(&reason);
    (choice.mode, choice.reason) = (Mode::NoFit, Some(reason));
    Entry { workload, queue, sets, choice, verdict: Verdict::NoFit, room, later: None }
}

/// Whether room on nodes is part of why something waits.
fn wants_room(reason: &Reason) -> bool {
    match reason {
        Reason::Nodes(_)
        | Reason::PriceUnknown { .. }
        | Reason::Topology(_)
        | Reason::Together { .. }
        | Reason::UnknownLevel { .. } => true,
        Reason::Flavors { tried, .. } => tried.iter().any(|refusal| refusal.why.wants_room()),
        _ => false,
    }
}

/// Members and classes to be placed for an entry.
pub(super) fn asks(txn: &mut Txn<'_>, entry: &Entry, profile: Scoring) -> Vec<Ask> {
    asks_with(txn, entry.workload, &entry.sets, &entry.choice.sets, profile)
}

fn asks_with(
    txn: &mut Txn<'_>,
    workload: WorkloadIdx,
    sets: &[SetDemand],
    chosen: &[Vec<(ResourceIdx, FlavorIdx)>],
    profile: Scoring,
) -> Vec<Ask> {
    let mut asks = Vec::new();
    for (set, chosen) in sets.iter().zip(chosen) {
        let chosen = chosen.iter().map(|(_, flavor)| *flavor);
        let class: ClassIdx = flavors::class_of(txn, set.shape, chosen, profile);
        let pods = money::members(txn.state(), workload, set.shape, set.count);
        asks.push(Ask { class, pods });
    }
    asks
}

/// Members of a workload for which flavors, nodes and victims are looked for.
struct Attempt<'a> {
    workload: WorkloadIdx,
    queue: Option<QueueIdx>,
    sets: &'a [SetDemand],
    topology: TopologyAsk,
    profile: Scoring,
    look: Look<'a>,
}

impl Attempt<'_> {
    /// Amounts that all sets ask together are told with the name of one: which part is its own.
    fn split_amounts(&self, state: &ClusterState, choice: &mut Choice) {
        let Some(Reason::Flavors { pod_set, tried, .. }) = &mut choice.reason else { return };
        let named = self.sets.iter().find(|set| set.name == *pod_set);
        let Some(set) = named.filter(|_| self.sets.len() > 1) else { return };
        let counted = state.room.counted(set.shape);
        for refusal in tried {
            refusal.why.split(|resource| {
                let asked = state.room.resources.find(resource).map_or(0, |at| counted.get(at));
                asked.saturating_mul(set.count.into())
            });
        }
    }

    /// The flavors found and what can be done with them.
    ///
    /// Other combinations of flavors are tried where each set fits and all together do not; where
    /// somebody would have to leave, unless the queue prefers to preempt; and where it would wait,
    /// which may be so because of what sets before took: first for one that fits, then with
    /// victims. For one set, too, where nobody leaves for all that it asks of a flavor, though
    /// somebody would for each resource by itself.
    fn outcome(&self, txn: &mut Txn<'_>) -> (Choice, Verdict) {
        let mut choice = match self.queue {
            Some(queue) => flavors::assign(txn, &self.demand(queue, self.look.start)),
            None => Choice::without_queue(self.sets.len()),
        };
        let found = choice.mode;
        let mut verdict = Verdict::NoFit;
        if found == Mode::Fit {
            let first = self.asks(txn, &choice);
            match self.holds_all(txn, &first) {
                Ok(costs) => {
                    self.pay(txn, &mut choice, &costs);
                    return (choice, Verdict::Fit);
                }
                Err(Unplaced::TooDear(costs)) => self.cannot_pay(txn, &mut choice, &costs),
                Err(Unplaced::NoRoom) => {}
            }
        }
        let mut most = Most::ANY;
        if found > Mode::NoFit {
            if let Some(queue) = self.queue {
                most = as_things_are::most_borrowing(txn, queue, &choice);
            }
            let looks = self.sets.len() > 1 && (found == Mode::Fit || self.rather_goes_on(txn));
            if looks && self.others_fit(txn, &mut choice, &most) {
                return (choice, Verdict::Fit);
            }
            if !self.look.premise.nobody_leaves {
                verdict = self.judge(txn, &mut choice);
            }
        }
        let waits = matches!(verdict, Verdict::NoFit | Verdict::Blocked);
        // What goes on from the middle went through all of them when it began.
        let all = self.look.start.is_empty() || choice.next.is_empty();
        let untried = match (self.sets.len(), &verdict) {
            (1, Verdict::Blocked) => matches!(found, Mode::Preempt | Mode::Reclaim),
            (sets, _) => sets > 1 && (found < Mode::Fit || !most.is_any()),
        };
        if waits && untried && all && self.others_fit(txn, &mut choice, &Most::ANY) {
            return (choice, Verdict::Fit);
        }
        if waits && all && !self.look.premise.nobody_leaves {
            match self.last_look(txn, &choice) {
                Ok(other) => {
                    choice = other;
                    verdict = self.judge(txn, &mut choice);
                }
                Err(bound) => self.tell_end(&mut choice, bound),
            }
        }
        (choice, verdict)
    }

    /// Says where the last look ended, if it did not look at all. With fewer members more choices
    /// are looked at elsewhere.
    fn tell_end(&self, choice: &mut Choice, bound: Option<SearchBound>) {
        let whole = self.look.combinations == COMBINATIONS_MAX;
        let Some(bound) = bound.filter(|_| whole) else { return };
        choice.reason = choice.reason.take().map(|reason| match reason.ended() {
            None => reason.with_victims_ended(bound),
            Some(_) => reason,
        });
    }

    /// Other flavors for which others would have to leave, where those found part by part do not
    /// do together.
    fn last_look(&self, txn: &mut Txn<'_>, choice: &Choice) -> Result<Choice, Option<SearchBound>> {
        let Some(queue) = self.queue else { return Err(None) };
        let demand = self.demand(queue, &[]);
        // The end of a scan that began in the middle is not what parts find by themselves.
        let whole = match self.look.start.is_empty() {
            true => choice.clone(),
            false => flavors::assign(txn, &demand),
        };
        let victims = |txn: &mut Txn<'_>, other: &Choice| {
            let asks = self.asks(txn, other);
            let need = self.need(txn, other, &asks);
            victims::search_exact(txn, self.workload, &need, &asks).ok()
        };
        let hold = |txn: &mut Txn<'_>, chosen: &[Vec<(ResourceIdx, FlavorIdx)>]| {
            let asks = asks_with(txn, self.workload, self.sets, chosen, self.profile);
            self.holds_all(txn, &asks).is_ok()
        };
        let alone = match &self.asks(txn, choice)[..] {
            [only] => {
                let count = only.pods.len() as u32;
                count > 1 && gang::wants_trial(txn, only.class, count, self.topology)
            }
            _ => false,
        };
        let found = with_victims::find(txn, &demand, (&whole, alone), victims, hold);
        found.map(|found| Choice { next: choice.next.clone(), ..found })
    }

    /// What must fit once others have left.
    fn need(&self, txn: &Txn<'_>, choice: &Choice, asks: &[Ask]) -> Need {
        let mut usage = choice.usage.clone();
        if let Some(queue) = self.queue {
            money::put_least(txn.state(), queue, asks, &mut usage);
        }
        Need {
            usage,
            contested: choice.contested.clone(),
            asks: asks.iter().map(|ask| (ask.class, ask.pods.len() as u32)).collect(),
            together: coupled::together(txn, self.sets.iter().map(|set| set.shape)),
            topology: self.topology,
            ..Need::default()
        }
    }

    /// What is asked of the assigner.
    fn demand<'d>(&'d self, queue: QueueIdx, start: &'d [((usize, usize), usize)]) -> Demand<'d> {
        Demand {
            workload: self.workload,
            queue,
            sets: self.sets,
            topology: self.topology,
            profile: self.profile,
            start,
            combinations: self.look.combinations,
            kept: &[],
        }
    }

    fn asks(&self, txn: &mut Txn<'_>, choice: &Choice) -> Vec<Ask> {
        asks_with(txn, self.workload, self.sets, &choice.sets, self.profile)
    }

    /// Whether all members find nodes together, as things are, and what they cost there.
    fn holds_all(&self, txn: &mut Txn<'_>, asks: &[Ask]) -> Result<Costs, Unplaced> {
        let purse = Purse::of(txn.state(), self.queue, asks);
        // Of some members only placing them tells.
        if purse.is_empty()
            && let [only] = asks
        {
            let count = only.pods.len() as u32;
            if count == 1 || !gang::wants_trial(txn, only.class, count, self.topology) {
                let holds = gang::holds(txn, only.class, count, self.topology);
                return if holds { Ok(Costs::new()) } else { Err(Unplaced::NoRoom) };
            }
        }
        money::trial(txn, asks, self.topology, &purse)
    }

    /// All members have places, which cost this.
    fn pay(&self, txn: &Txn<'_>, choice: &mut Choice, costs: &Costs) {
        choice.pay(costs);
        let quota = &txn.state().quota;
        let node = self.queue.and_then(|queue| quota.queue(queue).node);
        let height = |(fr, cost): &(_, i64)| Some(quota.tree.borrow_height(node?, *fr, *cost).0);
        let highest = costs.iter().filter_map(height).max();
        choice.borrowing = choice.borrowing.max(highest.unwrap_or(0));
    }

    /// Part by part it could be paid for, and all members together cost more than is left.
    fn cannot_pay(&self, txn: &Txn<'_>, choice: &mut Choice, costs: &Costs) {
        let Some(queue) = self.queue else { return };
        choice.pay(costs);
        let reason = flavors::too_dear(txn.state(), queue, self.sets, choice);
        (choice.mode, choice.reason) = (Mode::NoCandidates, reason);
        assert!(choice.reason.is_some(), "what costs too much is short of quota");
        choice.contested.extend(costs.iter().map(|(fr, _)| *fr));
    }

    /// Whether the queue looks at further flavors before it preempts.
    fn rather_goes_on(&self, txn: &Txn<'_>) -> bool {
        self.queue.is_some_and(|queue| flavors::fungibility(txn, queue).next_when_preempting)
    }

    /// Whether other flavors than those found hold all members and borrow no further than `most`;
    /// then they are chosen.
    fn others_fit(&self, txn: &mut Txn<'_>, choice: &mut Choice, most: &Most) -> bool {
        let Some(queue) = self.queue else { return false };
        let demand = self.demand(queue, &[]);
        let (found, room, cut) = as_things_are::find(txn, &demand, most, |txn, other| {
            let asks = self.asks(txn, other);
            self.holds_all(txn, &asks).is_ok()
        });
        choice.room |= room || cut;
        let Some(found) = found else {
            // With fewer members more choices are looked at elsewhere.
            if cut && self.look.combinations == COMBINATIONS_MAX {
                let asks = self.asks(txn, choice);
                let asks = asks.iter().map(|ask| (ask.class, ask.pods.len() as u32));
                let bound = SearchBound::Choices(COMBINATIONS_MAX);
                txn.note_end(&asks.collect::<Vec<_>>(), bound);
            }
            return false;
        };
        let next = std::mem::take(&mut choice.next);
        *choice = Choice { next, ..found };
        true
    }

    /// What does not fit as things are: victims, or why there are none.
    fn judge(&self, txn: &mut Txn<'_>, choice: &mut Choice) -> Verdict {
        let asks = self.asks(txn, choice);
        let quota_short = choice.mode < Mode::Fit;
        let need = self.need(txn, choice, &asks);
        if !quota_short {
            let names: Vec<&Text> = self.sets.iter().map(|set| &set.name).collect();
            choice.reason = Some(together::shortage(txn, &asks, &names, self.topology));
        }
        match victims::search_for(txn, self.workload, &need, &asks) {
            Ok(victims) if !victims.is_empty() => Verdict::Preempt(victims),
            found if quota_short => {
                // Part by part it could be had.
                if let (Err(lack), Some(queue)) = (found, self.queue)
                    && choice.mode > Mode::NoCandidates
                {
                    let demand = self.demand(queue, &[]);
                    lacking::of_gang(txn, &demand, (lack, &need), &asks, choice);
                }
                Verdict::Blocked
            }
            _ => {
                let of_one = || need.asks.iter().find_map(|ask| txn.ended(&[*ask]));
                if let Some(bound) = txn.ended(&need.asks).or_else(of_one) {
                    choice.reason = choice.reason.take().map(|reason| reason.with_ended(bound));
                }
                Verdict::NoFit
            }
        }
    }
}
