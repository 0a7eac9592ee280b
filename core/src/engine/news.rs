//! What is told of workloads: at the end of a step, once for each whose state or reason changed.
//!
//! Wanted: whoever shows workloads learns of every change without looking at all of them, and
//! what nobody looks at costs nothing. A pod of its own that is placed at once is never told;
//! it is once it has waited or was stopped, and from then on. Work that stands behind an equal
//! one that was refused has no news of its own: its reason is that one's
//! ([`Engine::details_from`] goes over everything, a page at a time).

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::model::ids::WorkloadIdx;
use crate::model::input::Text;
use crate::model::workload::Workload;
use crate::plan::{Action, State, WorkloadStatus};

impl Engine {
    /// There are news of a workload; they are told when the step ends, as they are then.
    pub(crate) fn mark(&mut self, workload: WorkloadIdx) {
        let entry = &mut self.state.workloads[workload];
        if !uninteresting(entry) && !std::mem::replace(&mut entry.news, true) {
            self.news.push(workload);
        }
    }

    /// Facts changed these: news if they stand otherwise than was told, or have another name.
    pub(super) fn mark_changed(&mut self, dirty: &BTreeSet<WorkloadIdx>) {
        let renamed: BTreeSet<WorkloadIdx> = self.state.renamed.drain(..).collect();
        let changed = |workload: &&WorkloadIdx| {
            let Some(entry) = self.state.workloads.get(**workload) else { return false };
            match entry.told {
                // It is told of anyway.
                _ if entry.news => false,
                Some(_) if renamed.contains(*workload) => true,
                Some(told) => told != self.stands(**workload),
                // What is queued now will be decided on in this step.
                None => entry.state != State::Queued && !uninteresting(entry),
            }
        };
        let all = dirty.iter().chain(renamed.difference(dirty));
        let mut changed: Vec<WorkloadIdx> = all.filter(changed).copied().collect();
        // What is told goes by identity, whatever the facts' order was.
        changed.sort_by(|a, b| self.state.workloads[*a].id.cmp(&self.state.workloads[*b].id));
        changed.into_iter().for_each(|workload| self.mark(workload));
    }

    /// One effect for each workload with news.
    pub(super) fn tell_news(&mut self) {
        for workload in std::mem::take(&mut self.news) {
            // It may have gone since.
            if self.state.workloads.get(workload).is_none() {
                continue;
            }
            let stands = self.stands(workload);
            let entry = &mut self.state.workloads[workload];
            entry.news = false;
            if uninteresting(entry) {
                continue;
            }
            entry.told = Some(stands);
            let status = WorkloadStatus {
                namespace: entry.id.namespace.clone(),
                name: entry.name.clone(),
                state: entry.state,
                reason: entry.reason.clone(),
            };
            self.effect(self.state.now, workload, None, Action::Status(Box::new(status)));
        }
    }

    /// What is told of a workload's standing: its state, and whether it has started, or how its
    /// owner ended is known, and whether it is up.
    fn stands(&self, workload: WorkloadIdx) -> (State, (bool, bool)) {
        let entry = &self.state.workloads[workload];
        let ended = || self.state.owner_of(workload).is_some_and(|owner| owner.finished.is_some());
        let started = entry.started || entry.state == State::Finished && ended();
        (entry.state, (started, entry.up))
    }

    /// Names of workloads that are gone, or have another name, in order; not those that are told
    /// of others now. Behind them those whose owner goes on without pods.
    pub(super) fn nameless(&mut self) -> [Vec<(Text, Text)>; 2] {
        let mut gone = std::mem::take(&mut self.gone);
        gone.append(&mut self.state.vacated);
        let podless = self.state.podless.take_news();
        let unborne = |name: &(Text, Text)| {
            let bearer = self.state.workload_by_name.get(name);
            let bearer = bearer.and_then(|bearer| self.state.workloads.get(*bearer));
            bearer.is_none_or(uninteresting)
        };
        gone.retain(|name| unborne(name) && !podless.contains(name));
        gone.sort_unstable();
        gone.dedup();
        [gone, podless.into_iter().filter(unborne).collect()]
    }
}

/// A pod of its own that never waited and was never stopped: there is nothing to tell.
pub(super) fn uninteresting(entry: &Workload) -> bool {
    let waits = match entry.state {
        State::Queued => entry.reason.is_some(),
        State::Reserved | State::Evicting => true,
        _ => entry.evicting.is_some(),
    };
    entry.told.is_none() && entry.lone() && !waits
}
