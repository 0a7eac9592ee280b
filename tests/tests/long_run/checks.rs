//! What must hold of every round and at rest, by the slow rules.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{ClusterQueueFacts, PreemptReclaim, QueueingStrategy, Text};
use capstan_core::plan::{Action, Effect, Outcome, StepOutput};
use capstan_core::time::Time;
use capstan_tests::facts::text;
use capstan_tests::invariants::disagreements;
use capstan_tests::model::classical::{Classical, Mode, Work};

use super::{FLAVORS, Life, ROUNDS_MAX};

impl Life {
    /// One round, and what is wrong with it.
    fn round(&mut self) -> (StepOutput, Vec<String>) {
        self.stage.now = Time(self.stage.now.0 + 1_000);
        let (mut before, waiting) = (self.rules(), self.works());
        let open = self.open();
        let output = self.stage.step();
        let mut wrong = Vec::new();
        for one in &output.report.outcomes {
            self.log.push(format!("  {}: {:?}", one.workload, one.outcome));
            match kept_out(&one.outcome) {
                true => self.kept_out.insert(one.workload.clone()),
                false => self.kept_out.remove(&one.workload),
            };
        }
        let after = self.works();
        let claimed: Vec<&Text> = output
            .report
            .outcomes
            .iter()
            .filter_map(|one| match &one.outcome {
                Outcome::Preempting(list) => Some(list.iter().map(|it| &it.victim)),
                _ => None,
            })
            .flatten()
            .collect();
        let promised = std::mem::take(&mut self.promised);
        self.look_who_took(&promised, &after);
        wrong.extend(self.redeem(&mut before, &promised, (&waiting, &after), &claimed));
        if std::mem::take(&mut self.freed) || self.base.is_none() {
            self.base = Some(before.clone());
        }
        let frees =
            |it: &Effect| matches!(it.action, Action::Evict { .. } | Action::SuspendOwner { .. });
        self.freed = output.effects.iter().any(frees);
        for one in &output.report.outcomes {
            let Some(work) = find(&waiting, &one.workload) else { continue };
            let redeems = one.outcome == Outcome::Admitted && promised.contains_key(&work.name);
            if redeems {
                continue;
            }
            if let Outcome::Waiting(reason) = &one.outcome {
                match reason {
                    Reason::LostRace { .. } => self.raced.insert(work.name),
                    _ => self.raced.remove(&work.name),
                };
                continue;
            }
            let now = find(&after, &work.name).and_then(|work| work.held);
            let decided = self.decided(&before, &work, now, (&one.outcome, &claimed));
            wrong.extend(decided.map(|said| format!("{} of {} {said}", work.name, work.queue)));
            let others: Vec<Work> =
                waiting.iter().filter(|it| !promised.contains_key(&it.name)).cloned().collect();
            wrong.extend(self.passed_over(&before, &open, &others, &work));
            self.raced.remove(&work.name);
        }
        wrong.extend(self.overdrawn(&output, &after));
        if self.stage.caught_up() {
            wrong.extend(disagreements(&self.stage));
        }
        (output, wrong)
    }

    /// Whether who stopped others in the round before did so to borrow is told by its flavor.
    fn look_who_took(&mut self, promised: &BTreeMap<Text, Text>, after: &[Work]) {
        self.stopped.clear();
        for (name, flavors) in std::mem::take(&mut self.taking) {
            let held = find(after, &name).and_then(|work| work.held);
            let flavor =
                held.map(|((flavor, _), _)| flavor).or_else(|| promised.get(&name).cloned());
            if flavor.is_some_and(|flavor| flavors.contains(&&*flavor)) {
                self.note_taking(&name);
            }
        }
    }

    /// Who was promised room in the round before holds it before anybody else is looked at.
    fn redeem(
        &self,
        before: &mut Classical,
        promised: &BTreeMap<Text, Text>,
        (waiting, after): (&[Work], &[Work]),
        claimed: &[&Text],
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        // Who was promised room has it before anybody else is looked at.
        // It may be a victim at once of somebody who could not have it before.
        let victim = |name: &Text| claimed.contains(&name);
        for (name, flavor) in promised {
            let Some(work) = find(after, name).or_else(|| find(waiting, name)) else { continue };
            match work.held.is_some() {
                true => before.hold(work),
                false if victim(name) => {
                    let held = Some((work.pair(flavor), self.stage.now));
                    before.hold(Work { held, ..work });
                }
                false => wrong.push(format!("{} was promised room and has none", work.name)),
            }
        }
        wrong
    }

    /// What is wrong with one decision.
    fn decided(
        &mut self,
        before: &Classical,
        work: &Work,
        now: Option<((Text, Text), Time)>,
        (outcome, claimed): (&Outcome, &[&Text]),
    ) -> Option<String> {
        match outcome {
            Outcome::Waiting(_) => None,
            Outcome::Admitted => {
                self.tally.admitted += 1;
                match now {
                    Some((pair, _)) if before.mode(work, &pair) == Mode::Fit => {
                        self.astray(before, work, &pair.0, Mode::Fit)
                    }
                    other => Some(format!("is admitted to {other:?}, where it does not fit")),
                }
            }
            Outcome::Preempting(list) => {
                self.tally.preempted += 1;
                let mut names: Vec<Text> = list.iter().map(|it| it.victim.clone()).collect();
                names.sort();
                if !work.rests && names.iter().any(|name| !self.stopped.contains(name)) {
                    let borrows = |it: &&str| before.would_borrow(work, &work.pair(it), &names);
                    let flavors = FLAVORS.into_iter().filter(borrows).collect();
                    self.taking.insert(work.name.clone(), flavors);
                }
                names.iter().for_each(|name| self.note_stop(name));
                let shared = claimed.iter().filter(|name| names.contains(name)).count();
                let alone = shared == names.len();
                let wanted = Mode::Preempt(names.clone());
                let found = FLAVORS.iter().find(|it| before.mode(work, &work.pair(it)) == wanted);
                let named = found.is_some();
                let flavor = found.unwrap_or(&FLAVORS[0]);
                self.promised.insert(work.name.clone(), text(flavor));
                let evenly = || before.unweighted().mode(work, &work.pair(flavor));
                self.tally.weighed += usize::from(alone && named && evenly() != wanted);
                self.tally.exact += usize::from(alone && named);
                match alone {
                    true if named => self.astray(before, work, flavor, wanted),
                    true => {
                        let modes = FLAVORS.map(|it| before.mode(work, &work.pair(it)));
                        Some(format!("stops {names:?}, and the rules say {modes:?}"))
                    }
                    false => None,
                }
            }
        }
    }

    /// Whether the search for a flavor ended elsewhere than the rules say.
    fn astray(&self, before: &Classical, work: &Work, flavor: &str, mode: Mode) -> Option<String> {
        let ended = Some((text(flavor), mode));
        let begins: &[usize] = if self.raced.contains(&work.name) { &[0, 1] } else { &[0] };
        let ends: Vec<_> = begins.iter().map(|from| before.choice(work, *from)).collect();
        let found = ends.contains(&ended);
        (!found).then(|| format!("ends its search with {ended:?}, and the rules with {ends:?}"))
    }

    /// Who was admitted although there is less than it took.
    fn overdrawn(&self, output: &StepOutput, after: &[Work]) -> Vec<String> {
        let mut wrong = Vec::new();
        let taken: BTreeSet<&Text> = output
            .report
            .outcomes
            .iter()
            .filter(|one| one.outcome == Outcome::Admitted)
            .map(|one| &one.workload)
            .collect();
        let rules = self.rules();
        for work in after.iter().filter(|work| taken.contains(&work.name)) {
            let Some((pair, _)) = &work.held else { continue };
            if rules.model().room(&work.queue, pair) < 0 {
                wrong.push(format!("{} is admitted and {} overdrawn", work.name, work.queue));
            }
        }
        wrong
    }

    /// Rounds until nothing changes, then what could still be done for who waits.
    pub(super) fn settle(&mut self) -> Vec<String> {
        self.base = None;
        self.kept_out.clear();
        for _ in 0..ROUNDS_MAX {
            let (output, wrong) = self.round();
            if !wrong.is_empty() {
                return wrong;
            }
            if output.effects.is_empty() && self.stage.caught_up() && output.report.quiet {
                return self.idle();
            }
        }
        vec![format!("goes on after {ROUNDS_MAX} rounds")]
    }

    /// Who waits although something could be done for it.
    fn idle(&mut self) -> Vec<String> {
        let (rules, open, work) = (self.rules(), self.open(), self.works());
        let mut wrong = Vec::new();
        for one in work.iter().filter(|work| work.held.is_none()) {
            let Some(queue) = open.get(&one.queue) else { continue };
            if queue.strategy == QueueingStrategy::StrictFifo && !leads(&work, one) {
                continue;
            }
            self.tally.idle += 1;
            let viable = viable(&rules, queue, one);
            if viable.is_empty() {
                continue;
            }
            // What the head of a strict queue asks is kept for it in every round.
            if kept_by_strict(&rules, &open, &work, one) {
                self.tally.behind_strict += 1;
                continue;
            }
            wrong.push(format!("{} waits in {} and {viable:?}", one.name, one.queue));
        }
        wrong
    }
}

impl Life {
    /// Work of the same queue that stands before one that was decided, and for which something
    /// could have been done.
    fn passed_over(
        &mut self,
        before: &Classical,
        open: &BTreeMap<Text, ClusterQueueFacts>,
        waiting: &[Work],
        decided: &Work,
    ) -> Option<String> {
        let Some(queue) = open.get(&decided.queue) else {
            return Some(format!(
                "{} is decided in {}, which is closed",
                decided.name, decided.queue
            ));
        };
        let ahead = waiting.iter().filter(|work| {
            work.held.is_none() && work.queue == decided.queue && work.order() < decided.order()
        });
        let strict = queue.strategy == QueueingStrategy::StrictFifo;
        for work in ahead {
            let could = viable(before, queue, work);
            // Who is kept out by what a strict head keeps for itself steps aside.
            let aside = || could.is_empty() || kept_by_strict(before, open, waiting, work);
            if !strict && aside() {
                continue;
            }
            if !strict && (self.kept_out.contains(&work.name) || self.only_rose(queue, work)) {
                self.tally.later += 1;
                continue;
            }
            let (decided, over, queue) = (&decided.name, &work.name, &decided.queue);
            return Some(format!("{decided} passes over {over} in {queue}: {could:?}"));
        }
        None
    }

    /// Whether something can be done for work only because shares of others rose since anything
    /// came free: it is looked at for that when nothing else is left to decide.
    fn only_rose(&self, queue: &ClusterQueueFacts, work: &Work) -> bool {
        let base = self.base.as_ref().filter(|_| self.fair.is_some());
        base.is_some_and(|base| viable(base, queue, work).is_empty())
    }
}

/// Whether work waits for what a head kept for itself in the round in which both were looked at.
fn kept_out(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Waiting(Reason::LostRace { then }) => matches!(**then, Reason::HeldBack { .. }),
        _ => false,
    }
}

/// What can be done for work, by flavor of its queue.
fn viable(rules: &Classical, queue: &ClusterQueueFacts, work: &Work) -> Vec<(Text, Mode)> {
    let flavors = queue.groups.iter().flat_map(|group| &group.flavors);
    let modes =
        flavors.map(|flavor| (flavor.flavor.clone(), rules.mode(work, &work.pair(&flavor.flavor))));
    modes.filter(|(_, mode)| mode.viable()).collect()
}

/// Whether work is the first that waits in its queue.
fn leads(all: &[Work], work: &Work) -> bool {
    let waits = |other: &&Work| other.held.is_none() && other.queue == work.queue;
    all.iter().filter(waits).all(|other| work.order() <= other.order())
}

/// Whether the head of another, strict queue of the same tree keeps something for itself of what
/// work asks for.
fn kept_by_strict(
    rules: &Classical,
    open: &BTreeMap<Text, ClusterQueueFacts>,
    all: &[Work],
    work: &Work,
) -> bool {
    let keeps = |head: &&Work| {
        let Some(queue) = open.get(&head.queue) else { return false };
        let blocks = queue.strategy == QueueingStrategy::StrictFifo
            && queue.preemption.reclaim != PreemptReclaim::Any;
        blocks && head.held.is_none() && leads(all, head)
    };
    let near = |head: &&Work| {
        let sides = rules.model().sides(&head.queue, &work.queue);
        head.resource == work.resource && sides.is_some()
    };
    all.iter().filter(keeps).filter(near).any(|head| {
        let flavors = open[&head.queue].groups.iter().flat_map(|group| &group.flavors);
        let mut modes = flavors.map(|flavor| rules.mode(head, &head.pair(&flavor.flavor)));
        head.queue != work.queue && modes.any(|mode| mode == Mode::Blocked)
    })
}

fn find(list: &[Work], name: &Text) -> Option<Work> {
    list.iter().find(|it| it.name == *name).cloned()
}
