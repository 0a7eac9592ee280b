//! The scripted engine of these tests: a number of slots, one pod each, higher priority first.
//!
//! It places one workload a step, stops one running Job of lower priority when that would help,
//! and never looks at its inputs' meaning beyond that. Enough to play a cluster, no more.

use capstan_core::plan::{Outcome, WorkloadOutcome};

use super::*;

/// An engine that counts slots.
pub(super) struct Slots {
    slots: usize,
    known: Known,
    effects: u64,
    /// Times at which it asks to be called, whether or not there is anything to do.
    pub(super) wakes: Vec<Time>,
    /// Every time it was called at, and how many inputs came.
    pub(super) calls: Vec<(Time, usize)>,
}

/// A waiting workload.
struct Waiting {
    name: Text,
    priority: i32,
    created: Time,
    owner: Option<Text>,
    pods: Vec<Text>,
    count: usize,
}

impl Slots {
    pub(super) fn new(slots: usize) -> Slots {
        Slots { slots, known: Known::default(), effects: 0, wakes: Vec::new(), calls: Vec::new() }
    }

    pub(super) fn step(&mut self, now: Time, inputs: Vec<Input>) -> StepOutput {
        self.calls.push((now, inputs.len()));
        self.known.learn(inputs);
        let mut output = quiet();
        output.next_wake = self.wakes.iter().copied().filter(|wake| *wake > now).min();
        let bound = |pod: &&PodFacts| pod.node.is_some() && !pod.phase.terminal();
        let used = self.known.pods.values().filter(bound).count();
        for head in self.queue() {
            let outcome = if used + head.count <= self.slots {
                self.admit(&head, &mut output)
            } else if let Some(victim) = self.victim(head.priority) {
                let stop = Preemption { preemptor: head.name.clone(), ..victim.0 };
                self.push(&victim.1, &mut output);
                Outcome::Preempting(vec![stop])
            } else {
                continue;
            };
            output.report.quiet = false;
            let workload = head.name.clone();
            output.report.outcomes.push(WorkloadOutcome { round: 1, workload, outcome });
            break;
        }
        output
    }

    fn queue(&self) -> Vec<Waiting> {
        let mut gangs: BTreeMap<Text, Waiting> = BTreeMap::new();
        let pods = self.known.pods.values();
        for pod in pods.filter(|pod| pod.node.is_none() && !pod.phase.terminal()) {
            let name = Text::from(format!("{}/{}", pod.namespace, pod.gang.name));
            let gang = gangs.entry(name.clone()).or_insert_with(|| Waiting {
                name,
                priority: pod.priority,
                created: pod.created,
                owner: None,
                pods: Vec::new(),
                count: 0,
            });
            gang.pods.push(pod.uid.clone());
            gang.count += 1;
        }
        let owners = self.known.owners.values();
        for owner in owners.filter(|owner| owner.suspended && owner.finished.is_none()) {
            let name = Text::from(format!("{}/{}", owner.namespace, owner.name));
            let count = owner.min_member as usize;
            let waiting = Waiting {
                name: name.clone(),
                priority: owner.priority,
                created: owner.created,
                owner: Some(owner.uid.clone()),
                pods: Vec::new(),
                count,
            };
            gangs.insert(name, waiting);
        }
        let mut queue: Vec<Waiting> = gangs.into_values().collect();
        queue.sort_by_key(|gang| (-gang.priority, gang.created, gang.name.clone()));
        queue
    }

    fn admit(&mut self, head: &Waiting, output: &mut StepOutput) -> Outcome {
        if let Some(uid) = &head.owner {
            let mut resumed = resume(0, &self.known.owners[uid]);
            resumed.workload = head.name.clone();
            self.push(&resumed, output);
        }
        for uid in &head.pods {
            let bound = Effect { workload: head.name.clone(), ..bind(0, uid, "n1") };
            self.push(&bound, output);
        }
        Outcome::Admitted
    }

    /// The newest running Job of lower priority, and how to stop it.
    fn victim(&self, below: i32) -> Option<(Preemption, Effect)> {
        let runs = |owner: &&OwnerFacts| !owner.suspended && owner.finished.is_none();
        let owners = self.known.owners.values().filter(runs);
        let lower = owners.filter(|owner| owner.priority < below);
        let last = lower.max_by_key(|owner| (owner.created, owner.name.clone()))?;
        Some((preemption(&last.name, ""), suspend(0, last)))
    }

    fn push(&mut self, effect: &Effect, output: &mut StepOutput) {
        self.effects += 1;
        output.effects.push(Effect { id: EffectId(self.effects), ..effect.clone() });
    }
}
