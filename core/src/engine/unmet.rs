//! What a workload asks for and is scheduled without.
//!
//! Decides which wishes of a workload come to nothing although it goes on: values that could not
//! be read, a WorkloadPriorityClass that does not exist, a preferred topology level that no node
//! has. Each of them is told once, as an event on the workload, and so is another one that comes
//! later; a wish that holds it up (a required level) is its reason to wait instead.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::explain::wording::quoted;
use crate::model::ids::WorkloadIdx;
use crate::model::input::Text;
use crate::model::workload::QueueRef;
use crate::place::levels;
use crate::plan::{Action, Unmet};
use crate::time::Time;

/// Wishes of one workload that are told at most: whoever writes new nonsense again and again is
/// heard no more.
const TOLD_MAX: usize = 16;

/// A wish that comes to nothing: what it is remembered by, and what is said of it.
type Vain = (Text, Text);

impl Engine {
    /// Whether anything is to be said of a workload, and was not.
    pub(super) fn asks_in_vain(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.state.workloads[workload];
        let own = || entry.own_levels(&self.state.room).next().is_some();
        let levels = entry.topology().preferred.is_some() || own();
        let wishes = &entry.wishes;
        // Most ask nothing that might be in vain.
        if wishes.ignored.is_empty() && wishes.priority_class.is_none() && !levels {
            return false;
        }
        let mut kinds = Unmet::ALL.into_iter();
        kinds.any(|kind| !self.untold(workload, kind).is_empty())
    }

    /// Says what a workload asks for in vain: each wish once, those of a kind together.
    pub(super) fn tell_unmet(&mut self, now: Time, workload: WorkloadIdx) {
        for kind in Unmet::ALL {
            let vain = self.untold(workload, kind);
            if vain.is_empty() {
                continue;
            }
            let says: Vec<&str> = vain.iter().map(|(_, says)| &**says).collect();
            let message = says.join("; ").into();
            let told = self.told.entry(workload).or_default();
            told.extend(vain.into_iter().map(|(wish, _)| (kind, wish)));
            let about = self.state.workloads[workload].full_name.clone();
            let action = Action::Event { about, reason: kind.as_str().into(), message };
            self.effect(now, workload, None, action);
        }
    }

    /// Forgets what was told of a workload that is gone.
    pub(super) fn forget_told(&mut self, workload: WorkloadIdx) {
        self.told.remove(&workload);
    }

    /// What was not told yet, as far as there is room to remember it.
    fn untold(&self, workload: WorkloadIdx, kind: Unmet) -> Vec<Vain> {
        let mut vain = self.asked_in_vain(workload, kind);
        if let Some(told) = self.told.get(&workload).filter(|_| !vain.is_empty()) {
            vain.retain(|(wish, _)| !told.contains(&(kind, wish.clone())));
            vain.truncate(TOLD_MAX.saturating_sub(told.len()));
        }
        vain.truncate(TOLD_MAX);
        vain
    }

    /// Whether a level is preferred since others will be pinned to where the first member is:
    /// nobody asked for it.
    fn follows_from_place(&self, workload: WorkloadIdx, level: &Text) -> bool {
        let members = self.state.workloads[workload].members.iter();
        let mut known = members.filter_map(|pod| self.state.pods[*pod].gang.to_come.as_ref());
        known.any(|known| known.level.as_ref() == Some(level))
    }

    fn asked_in_vain(&self, workload: WorkloadIdx, kind: Unmet) -> Vec<Vain> {
        let entry = &self.state.workloads[workload];
        match kind {
            Unmet::InvalidAnnotation => {
                entry.wishes.ignored.iter().map(|says| (says.clone(), says.clone())).collect()
            }
            Unmet::PriorityClassNotFound => {
                let counts = !matches!(entry.queue, QueueRef::Unqueued);
                let named = entry.wishes.priority_class.iter().filter(|_| counts);
                let vain = named.filter(|_| entry.class.is_none());
                let own = entry.priority;
                let says = |name: &Text| {
                    let name = quoted(name);
                    format!("WorkloadPriorityClass {name} does not exist; priority {own} was taken")
                };
                vain.map(|name| (name.clone(), says(name).into())).collect()
            }
            Unmet::UnknownTopologyLevel => {
                let room = &self.state.room;
                let own = entry.own_levels(room).filter_map(|own| own.preferred.as_ref());
                let names: BTreeSet<&Text> = entry.topology().preferred.iter().chain(own).collect();
                let unknown = |name: &&Text| levels::level_named(room, name).is_none();
                let asked = |name: &&Text| !self.follows_from_place(workload, name);
                let vain = names.into_iter().filter(unknown).filter(asked);
                let says = |level: &Text| format!("preferred {}", self.unknown_level(level));
                vain.map(|level| (level.clone(), says(level).into())).collect()
            }
        }
    }
}
