//! Evictions that an engine before this one began.
//!
//! A victim is marked, then deleted, in two requests. Whoever is killed between the two leaves
//! pods that bear the mark and stay: the next engine takes them for leaving, and would wait for
//! ever. Whether the second request was sent shows in the API; where it does not, it is asked for
//! again, once. What is refused to this engine itself it need not find out from marks
//! ([`super::stops`]). Owners are marked and suspended in one request, so nothing is left of
//! theirs.
//!
//! The mark names the preemptor, and is all that shows a promise. Claims are made anew from it: as
//! long as a victim is leaving, who it leaves for is settled before anybody else if no more than
//! that has to leave, and may count on it whatever its policy says now (half of what a queue
//! borrowed may be gone already, and the rest is no longer borrowed).

use std::collections::BTreeMap;

use crate::cycle::Head;
use crate::engine::Engine;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::EvictionNote;
use crate::model::standing;
use crate::plan::{Preemption, State};
use crate::time::Time;
use crate::victims::Victim;

impl Engine {
    /// Looks whether a workload bears marks that nobody here made.
    pub(crate) fn file_eviction(&mut self, workload: WorkloadIdx) {
        match self.left_for(workload) {
            Some(note) => self.state.inherited.insert(workload, note),
            None => self.state.inherited.remove(&workload),
        };
        let half = self.state.workloads.get(workload).is_some_and(|entry| {
            let stays = |pod: &PodIdx| {
                let pod = &self.state.pods[*pod];
                pod.eviction.is_some() && pod.active() && !pod.terminating
            };
            entry.state == State::Evicting
                && !entry.stop_asked
                && entry.owner.is_none()
                && entry.members.iter().any(stays)
        });
        match half {
            true => self.half_evicted.insert(workload),
            false => self.half_evicted.remove(&workload),
        };
    }

    /// For whom a workload leaves and why, if an engine before this one began that.
    fn left_for(&self, workload: WorkloadIdx) -> Option<EvictionNote> {
        let entry = self.state.workloads.get(workload)?;
        let ours = entry.evicting.is_some() && !self.state.inherited.contains_key(&workload);
        if entry.state != State::Evicting || ours {
            return None;
        }
        let of_owner = self.state.owner_mark(workload);
        let mut of_pods = entry.members.iter().map(|pod| &self.state.pods[*pod].eviction);
        let of_pods = || of_pods.find_map(|mark| mark.as_deref());
        of_owner.or_else(of_pods).cloned()
    }

    /// Work to look at for which victims are leaving on behalf of an engine before this one, the
    /// first of its queue or not, with those victims.
    pub(crate) fn promised_before(&self) -> Vec<(Head, Vec<Victim>)> {
        let mut victims: BTreeMap<WorkloadIdx, Vec<Victim>> = BTreeMap::new();
        for (&workload, note) in &self.state.inherited {
            if let Some(preemptor) = self.workload_named(&note.preemptor) {
                let victim = Victim { workload, reason: note.reason };
                victims.entry(preemptor).or_default().push(victim);
            }
        }
        let waiting = |(preemptor, victims)| {
            let queue = self.waiting.to_look_at(preemptor)?;
            Some(((queue, preemptor), victims))
        };
        victims.into_iter().filter_map(waiting).collect()
    }

    /// The workload of a namespace and name, be that the one that an engine before this one gave
    /// it beside another of its plain name, which is gone.
    pub(super) fn workload_named(&self, full_name: &str) -> Option<WorkloadIdx> {
        let (namespace, name) = full_name.split_once('/')?;
        let named = |name: &str| {
            let key = (namespace.into(), name.into());
            self.state.workload_by_name.get(&key).copied()
        };
        let plain = || {
            name.rmatch_indices('-').find_map(|(end, _)| {
                let found = named(&name[..end])?;
                let source = self.state.workloads.get(found)?.source;
                standing::is_name_of(name, &name[..end], source).then_some(found)
            })
        };
        named(name).or_else(plain)
    }

    /// Evicts again what is marked and stays.
    pub(crate) fn finish_evictions(&mut self, now: Time) {
        let half = std::mem::take(&mut self.half_evicted).into_iter();
        let there = |workload: &WorkloadIdx| self.state.workloads.get(*workload).is_some();
        let mut half: Vec<WorkloadIdx> = half.filter(there).collect();
        self.state.in_queue_order(&mut half);
        for workload in half {
            let Some(preemption) = self.marked(now, workload) else { continue };
            let entry = &mut self.state.workloads[workload];
            entry.stop_asked = true;
            entry.evicting = Some(Box::new(preemption.clone()));
            self.evict_members(now, workload, &preemption);
        }
    }

    /// The preemption that the marks of a workload tell of, with what it costs now.
    fn marked(&self, now: Time, workload: WorkloadIdx) -> Option<Preemption> {
        let members = &self.state.workloads.get(workload)?.members;
        let note = members.iter().find_map(|pod| self.state.pods[*pod].eviction.clone())?;
        let preemptor = self.workload_named(&note.preemptor).unwrap_or(workload);
        let victim = Victim { workload, reason: note.reason };
        let told = self.preemptions(now, preemptor, &[victim], &[]).pop()?;
        Some(Preemption { preemptor: note.preemptor.clone(), ..told })
    }
}
