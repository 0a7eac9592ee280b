//! Members counted by gang: what is pending, what runs, and whose run time counts.
//!
//! A member's end is planned once its gang runs: at least the minimum is bound or has already
//! done its work. Until then nobody works, so nobody ends. Nothing here scans pods.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::{GangKey, PodFacts, PodPhase, Text};
use capstan_core::time::{Span, Time};

use super::agenda::{Agenda, Event};
use super::named;

/// Gangs that have members, by namespace and key.
#[derive(Debug, Default)]
pub(super) struct Gangs {
    by_key: BTreeMap<(Text, GangKey), Gang>,
    pending: u32,
    /// Gangs that may run now and did not before.
    changed: BTreeSet<(Text, GangKey)>,
}

#[derive(Debug)]
struct Gang {
    workload: Text,
    ours: bool,
    minimum: Option<u32>,
    /// Members that exist, terminal ones included.
    present: u32,
    /// Members that are not terminal.
    alive: u32,
    /// Members that are bound and not terminal.
    bound: u32,
    /// Members that did their work.
    succeeded: u32,
    /// Its members work, or did: how long each takes counts from its own bind.
    started: bool,
    /// Bound members whose end is not planned yet: since when, and how long each works.
    unplanned: Vec<(Text, Time, Span)>,
}

impl Gang {
    fn needs(&self) -> u32 {
        self.minimum.unwrap_or(self.alive + self.succeeded)
    }

    fn runs(&self) -> bool {
        self.bound + self.succeeded >= self.needs()
    }

    /// When it began to run: with the bind that made up its minimum.
    fn begins(&self) -> Time {
        let missing = self.needs().saturating_sub(self.succeeded) as usize;
        let mut begun: Vec<Time> = self.unplanned.iter().map(|(_, begun, _)| *begun).collect();
        begun.sort_unstable();
        let last = missing.min(begun.len()).checked_sub(1);
        last.map_or(Time::MIN, |last| begun[last])
    }

    fn pending(&self) -> bool {
        self.ours && self.alive > 0 && self.bound == 0
    }

    fn count(&mut self, pod: &PodFacts, step: fn(u32, u32) -> u32) {
        self.present = step(self.present, 1);
        if !pod.phase.terminal() {
            self.alive = step(self.alive, 1);
            self.bound = step(self.bound, u32::from(pod.node.is_some()));
        }
        self.succeeded = step(self.succeeded, u32::from(pod.phase == PodPhase::Succeeded));
    }
}

fn key(pod: &PodFacts) -> (Text, GangKey) {
    (pod.namespace.clone(), pod.gang.key.clone())
}

impl Gangs {
    /// Gangs of ours with members but none bound.
    pub(super) fn pending(&self) -> u32 {
        self.pending
    }

    /// Whether the pod's gang has a member.
    pub(super) fn knows(&self, pod: &PodFacts) -> bool {
        self.by_key.contains_key(&key(pod))
    }

    /// Members of the pod's gang that are not terminal.
    pub(super) fn alive(&self, pod: &PodFacts) -> u32 {
        self.by_key.get(&key(pod)).map_or(0, |gang| gang.alive)
    }

    /// The name of the pod's workload: the engine's own word once it has bound a member.
    pub(super) fn workload(&self, pod: &PodFacts) -> Text {
        let found = self.by_key.get(&key(pod)).map(|gang| gang.workload.clone());
        found.unwrap_or_else(|| named(&pod.namespace, &pod.gang.name))
    }

    /// Remembers what the engine calls the pod's workload.
    pub(super) fn call(&mut self, pod: &PodFacts, workload: &Text) {
        if let Some(gang) = self.by_key.get_mut(&key(pod)) {
            gang.workload = workload.clone();
        }
    }

    /// Counts a pod in, and the facts that it replaces out.
    pub(super) fn replace(&mut self, old: Option<&PodFacts>, new: &PodFacts) {
        let gang = self.by_key.entry(key(new)).or_insert_with(|| Gang {
            workload: named(&new.namespace, &new.gang.name),
            ours: new.ours,
            minimum: None,
            present: 0,
            alive: 0,
            bound: 0,
            succeeded: 0,
            started: false,
            unplanned: Vec::new(),
        });
        let was = gang.pending();
        gang.ours = new.ours;
        gang.minimum = new.gang.min_member.or(new.gang.total);
        gang.count(new, u32::saturating_add);
        self.pending = moved(self.pending, was, gang.pending());
        if let Some(old) = old {
            self.remove(old);
        }
    }

    /// Counts a pod out.
    pub(super) fn remove(&mut self, pod: &PodFacts) {
        let key = key(pod);
        let Some(gang) = self.by_key.get_mut(&key) else { return };
        let was = gang.pending();
        gang.count(pod, u32::saturating_sub);
        self.pending = moved(self.pending, was, gang.pending());
        if gang.present == 0 {
            self.by_key.remove(&key);
        }
    }

    /// A member that was bound then, and works so long once its gang runs.
    pub(super) fn will_end(&mut self, pod: &PodFacts, begun: Time, works: Span) {
        if let Some(gang) = self.by_key.get_mut(&key(pod)) {
            gang.unplanned.push((pod.uid.clone(), begun, works));
        }
    }

    /// The gang of this pod may run now.
    pub(super) fn changes(&mut self, pod: &PodFacts) {
        self.changed.insert(key(pod));
    }

    /// Plans the ends of bound members of gangs that run now. Asked once all that happens at one
    /// time has happened: how many members a gang without a minimum has is not known before.
    pub(super) fn start_whole(&mut self, now: Time, agenda: &mut Agenda) {
        for key in std::mem::take(&mut self.changed) {
            let Some(gang) = self.by_key.get_mut(&key).filter(|gang| gang.runs()) else { continue };
            let begins = if gang.started { Time::MIN } else { gang.begins() };
            gang.started = true;
            for (uid, begun, works) in gang.unplanned.drain(..) {
                // What should have ended before its gang ran ends now.
                let due = begun.max(begins).plus(works).max(now);
                agenda.plan(due, Event::End(uid));
            }
        }
    }
}

fn moved(pending: u32, was: bool, is: bool) -> u32 {
    match (was, is) {
        (false, true) => pending + 1,
        (true, false) => pending - 1,
        (true, true) | (false, false) => pending,
    }
}
