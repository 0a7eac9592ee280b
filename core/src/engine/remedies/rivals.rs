//! What others that wait would do with the room that a remedy makes.
//!
//! A round settles the heads of all queues one by one, and who comes first takes what it needs. So
//! a change is tried with the heads of other queues: those that a round would settle before the
//! workload start with what they find, or keep back what heads of strict queues do, in a
//! transaction that is rolled back, and the workload is tried beside them. Who comes after it takes
//! nothing from it, if it starts then. Whose start is reserved may start sooner because of the
//! change: it has its turn as the others do. Where it does not start then its reserved start is
//! left alone, and that is the one that it finds at its turn, as does who had none: who waits is
//! held for it from then on. What ends by itself brings no start forward that was found with that
//! end. Before all heads gangs that run take what they lack (`cycle/lacking.rs`).
//!
//! Played is the round in which the workload has its turn, with the first of every queue. Who goes
//! before it in its own queue is told as such, and is not played; but it takes the turn of that
//! queue beside the first of all others, which so have theirs before the workload. What heads of
//! strict queues keep back they keep anew in each round, from whom that settles after them. Others
//! keep it for one round: where that leaves the workload too little it loses its turn, and has the
//! next; whoever comes after it has its turn before that. Who comes up in another queue once its
//! first has started is not played. Cost: one nomination for each of a few heads that may go first,
//! and one of the workload for each of those that take something, or have another start reserved
//! then. That is searched where it would start if not for those (`engine/reservations/tried.rs`).

use std::ops::ControlFlow;

use crate::cycle::{Entry, Verdict, place_in};
use crate::engine::Engine;
use crate::engine::remedies::Start;
use crate::model::held::Held;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::txn::{SetAside, Txn};
use crate::model::workload::QueueRef;
use crate::time::Time;

/// Heads of other queues that are played: those of its own tree first, by priority and age.
const RIVALS_MAX: usize = 16;

/// Who is refused at its turn, and whether only for the sake of reserved starts.
type Refused = (Entry, bool);

impl Engine {
    /// How a workload would start at that time, perhaps only without anybody being stopped for it,
    /// where others that wait have their turns. Else who of them takes what it needs; nobody: it
    /// would not start by itself either.
    pub(super) fn start_among(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        how: (Time, bool),
    ) -> Result<Start, Option<WorkloadIdx>> {
        let Some(found) = self.start_beside_held(now, index, how) else { return Err(None) };
        let aside = Txn::begin(&mut self.state).set_aside();
        let (aside, found) = match self.beside_gangs(now, index, how, (aside, found)) {
            (aside, Ok(found)) => self.beside_heads(now, index, how, (aside, found)),
            taken => taken,
        };
        drop(Txn::take_up(&mut self.state, aside));
        found.map_err(Some)
    }

    /// How it would start beside gangs that run and take what they lack before any head has its
    /// turn, in a transaction that was set aside; else which of them takes what it needs.
    fn beside_gangs(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        how: (Time, bool),
        (mut aside, mut found): (SetAside, Start),
    ) -> (SetAside, Result<Start, WorkloadIdx>) {
        let queue = match self.state.workloads[index].queue {
            QueueRef::Queue(queue) => Some(queue),
            _ => None,
        };
        let lacking = self.lacking(std::iter::once((queue, index)));
        for gang in lacking.first_at(how.0) {
            let Some(joined) = self.put_lacking(gang) else { continue };
            aside = aside.and(joined);
            match self.start_beside_held(now, index, how) {
                Some(start) => found = start,
                None => return (aside, Err(gang)),
            }
        }
        (aside, Ok(found))
    }

    /// The same beside heads of other queues at their turns.
    fn beside_heads(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        how: (Time, bool),
        (aside, mut found): (SetAside, Start),
    ) -> (SetAside, Result<Start, WorkloadIdx>) {
        let own = self.nominate_afresh(index);
        let mut entries = self.heads_beside(&own);
        let mut refused: Vec<Refused> = self.refused_before(&own).into_iter().collect();
        if entries.is_empty() {
            return (aside, self.beside_starts(now, index, how, (refused, found)));
        }
        // What has no queue comes after all that have one.
        let leads = self.leads(&own);
        // Once it is let in that waits for others to start, so are those.
        let waits = self.kept_out(own.queue, index).is_some();
        entries.extend(own.queue.is_some().then_some(own));
        let mut keeps = true;
        let mut briefly = Vec::new();
        let mut aside = Some(aside);
        let mut taken = None;
        self.in_turns(entries, |engine, entry| {
            let rival = entry.workload;
            if rival == index {
                keeps = false;
                if leads {
                    briefly = engine.kept_for_this_round(now, index, how, &refused);
                }
                let has_it = leads && briefly.is_empty();
                return if has_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            if !keeps && entry.verdict == Verdict::Blocked {
                refused.push((entry, false));
                return ControlFlow::Continue(());
            }
            if !waits && engine.waits_for_others(&entry) {
                return ControlFlow::Continue(());
            }
            let before = aside.take().expect("it is put back after every turn");
            let (after, acted, waits) = engine.have_turn_beside(now, before, entry, &briefly);
            aside = Some(after);
            refused.extend(waits);
            if !acted {
                return ControlFlow::Continue(());
            }
            let Some(start) = engine.start_beside_held(now, index, how) else {
                taken = Some(rival);
                return ControlFlow::Break(());
            };
            found = start;
            ControlFlow::Continue(())
        });
        let found = match taken {
            Some(rival) => Err(rival),
            None => self.beside_starts(now, index, how, (refused, found)),
        };
        self.state.let_go();
        (aside.expect("it is put back after every turn"), found)
    }

    /// The same beside the starts that those have reserved from now on who are refused, in order of
    /// their turns.
    fn beside_starts(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        how: (Time, bool),
        (refused, mut found): (Vec<Refused>, Start),
    ) -> Result<Start, WorkloadIdx> {
        if how.0 > now || !self.may_reserve() {
            return Ok(found);
        }
        let before = self.kept_starts();
        let mut delayed = None;
        for (entry, held) in refused {
            if !self.reserve_in_try(&entry, held) {
                continue;
            }
            match self.start_beside_held(now, index, how) {
                Some(start) => found = start,
                None => {
                    delayed = Some(entry.workload);
                    break;
                }
            }
        }
        self.put_back_starts(before);
        delayed.map_or(Ok(found), Err)
    }

    /// Whether some start is reserved, or could be.
    fn may_reserve(&self) -> bool {
        !self.reservations.is_empty() || !self.ends.is_empty()
    }

    /// Who stands before an entry in its own queue and has its start reserved there, or else is the
    /// first, if it is refused: it has its turn in a round before.
    fn refused_before(&mut self, own: &Entry) -> Option<Refused> {
        let queue = own.queue.filter(|_| self.may_reserve())?;
        let slots = self.slots(Some(own.workload));
        let reserved = slots.iter().find(|slot| slot.queue == own.queue).map(|slot| slot.workload);
        let head = reserved.or_else(|| self.waiting.first(queue))?;
        let order = |workload| self.head_order(own.queue, workload);
        if order(head) >= order(own.workload) {
            return None;
        }
        let entry = self.nominate_afresh(head);
        let waits = matches!(entry.verdict, Verdict::Blocked | Verdict::NoFit);
        waits.then_some((entry, false))
    }

    /// How it would start beside what is kept back now.
    fn start_beside_held(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        how: (Time, bool),
    ) -> Option<Start> {
        let held = self.state.let_go();
        let start = self.start_beside_these(now, index, how, held.clone());
        self.state.hold_again(held);
        start
    }

    /// The same beside what these keep back, and nobody else.
    fn start_beside_these(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        (then, freely): (Time, bool),
        held: Vec<Held>,
    ) -> Option<Start> {
        let start = self.start_beside(now, index, (then, Engine::would_pass), held);
        start.filter(|start| !freely || start.victims.is_empty())
    }

    /// What those that are refused before it keep back in this round, and not in the next, if it
    /// does not start beside that.
    fn kept_for_this_round(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        how: (Time, bool),
        refused: &[Refused],
    ) -> Vec<Held> {
        let lasting = self.state.let_go();
        for (entry, _) in refused {
            if self.keeps_briefly(entry) {
                self.hold_back(entry);
            }
        }
        let briefly = self.state.let_go();
        let all = lasting.iter().chain(&briefly).copied().collect();
        let starts = briefly.is_empty() || self.start_beside_these(now, index, how, all).is_some();
        self.state.hold_again(lasting);
        if starts { Vec::new() } else { briefly }
    }

    /// Whether a head is refused and may keep something back, for one round: it is parked then.
    fn keeps_briefly(&self, entry: &Entry) -> bool {
        entry.verdict == Verdict::Blocked && !self.strict(entry.queue)
    }

    /// Whether an entry is the first of its queue, and has the turn of that.
    fn leads(&self, own: &Entry) -> bool {
        own.queue.is_some_and(|queue| self.waiting.first(queue) == Some(own.workload))
    }

    /// The first of other queues that a round may settle before an entry, or before it has its turn
    /// in the next, and what could be done for each.
    fn heads_beside(&mut self, own: &Entry) -> Vec<Entry> {
        let (state, waiting) = (&self.state, &self.waiting);
        let root = |queue: QueueIdx| state.quota.root(queue);
        let tree = own.queue.and_then(root);
        let order = |workload: WorkloadIdx| state.queue_order(workload);
        // Nobody goes before who borrows nothing but those who do so neither and stand higher.
        let by_order = self.leads(own) && own.choice.borrowing == 0 && !state.quota.shares_fairly();
        let others = waiting.lines().flatten().filter(|queue| own.queue != Some(*queue));
        let first = |queue: QueueIdx| {
            let slot = state.quota.queue(queue);
            slot.node.filter(|_| slot.facts.is_some())?;
            let head = waiting.first(queue)?;
            let later = by_order && order(head) > order(own.workload);
            let open = self.preemptor_before(Some(queue), head).is_none();
            open.then_some(((later, tree.is_none() || root(queue) != tree), head))
        };
        let mut heads: Vec<((bool, bool), WorkloadIdx)> = others.filter_map(first).collect();
        heads.sort_by(|one, other| (one.0, order(one.1)).cmp(&(other.0, order(other.1))));
        heads.truncate(RIVALS_MAX);
        let mut entries: Vec<Entry> = Vec::with_capacity(heads.len());
        for ((later, _), head) in heads {
            // They count where it may lose its turn to what is kept back for a round.
            if later && !entries.iter().any(|entry| self.keeps_briefly(entry)) {
                break;
            }
            entries.push(self.nominate_afresh(head));
        }
        entries
    }

    /// Whether a head would start, and is not admitted until other work has started.
    fn waits_for_others(&self, entry: &Entry) -> bool {
        let starts = matches!(entry.verdict, Verdict::Fit | Verdict::Preempt(_));
        starts && self.kept_out(entry.queue, entry.workload).is_some()
    }

    /// The same as [`Engine::have_turn`] beside what others keep back in this round, and not in the
    /// next.
    fn have_turn_beside(
        &mut self,
        now: Time,
        aside: SetAside,
        entry: Entry,
        briefly: &[Held],
    ) -> (SetAside, bool, Option<Refused>) {
        if briefly.is_empty() {
            return self.have_turn(now, aside, entry);
        }
        let lasting = self.state.held.clone();
        briefly.iter().for_each(|held| self.state.hold(*held));
        let done = self.have_turn(now, aside, entry);
        self.state.hold_again(lasting);
        done
    }

    /// What a head does at its turn, in a transaction that is set aside; whether it takes anything,
    /// or keeps it back for more than a round, and the head itself if it is refused. Who is stopped
    /// for it counts as gone.
    fn have_turn(
        &mut self,
        now: Time,
        aside: SetAside,
        mut entry: Entry,
    ) -> (SetAside, bool, Option<Refused>) {
        if matches!(entry.verdict, Verdict::Blocked | Verdict::NoFit) {
            let keeps = entry.verdict == Verdict::Blocked && self.strict(entry.queue);
            if keeps {
                self.hold_back(&entry);
            }
            return (aside, keeps, Some((entry, false)));
        }
        let victims = match std::mem::replace(&mut entry.verdict, Verdict::NoFit) {
            Verdict::Preempt(victims) => victims,
            Verdict::Fit | Verdict::Blocked | Verdict::NoFit => Vec::new(),
        };
        let Some(kept) = self.would_pass(&mut entry, &victims, now) else {
            return (aside, false, Some((entry, true)));
        };
        let Ok(topology) = self.topology_ask(entry.queue, entry.workload) else {
            return (aside, false, None);
        };
        let profile = self.profile(entry.queue);
        let assignment = self.assignment_for(&entry, now);
        let mut txn = Txn::take_up(&mut self.state, aside);
        let before = txn.checkpoint();
        for victim in &victims {
            // Another head may have stopped it already.
            if txn.state().placed(victim.workload).next().is_some() {
                txn.remove_workload(victim.workload);
            }
        }
        let quota = &txn.state().quota;
        let node = entry.queue.and_then(|queue| quota.queue(queue).node);
        // Of money it is known once all are placed.
        let mut usage = entry.choice.usage.iter().filter(|(fr, _)| !quota.is_money(*fr));
        let fits =
            usage.all(|(fr, n)| node.is_none_or(|node| *n <= quota.tree.available(node, *fr)));
        kept.count(&mut txn, true);
        let placed = fits && place_in(&mut txn, &entry, assignment, profile, topology).is_ok();
        match placed {
            true => kept.count(&mut txn, false),
            false => txn.rollback_to(before),
        }
        (txn.set_aside(), placed, None)
    }
}
