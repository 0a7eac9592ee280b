//! Who there is of all that labels name.
//!
//! What was counted of queues and cohorts goes with them, as Kueue's does: where each project or
//! namespace has queues of its own there would be ever more series. One that comes again begins at
//! zero, which is a reset as that of a new leader. What is counted of one later (its work ends
//! after it) goes with the next look.

use std::collections::BTreeSet;

use capstan_core::explain::milestone::{Milestone, Passage};
use capstan_core::model::input::Text;

use super::Look;

/// Names of all queues and cohorts.
#[derive(Debug, Default)]
pub(super) struct Names {
    queues: BTreeSet<Text>,
    /// By namespace and name.
    locals: BTreeSet<(Text, Text)>,
    cohorts: BTreeSet<Text>,
    /// Something was counted of others since.
    met_others: bool,
}

impl Names {
    /// Those of now. A ClusterQueue that still has work is there.
    pub(super) fn of(look: &Look<'_>) -> Names {
        let shown = look.queues.iter().map(|queue| &queue.name);
        let locals = look.local_queues.iter();
        let above = look.census.shapes.iter().flat_map(|shape| &shape.cohorts);
        let cohorts = look.census.cohorts.iter().map(|cohort| &cohort.name);
        Names {
            queues: shown.chain(look.census.queues.keys()).cloned().collect(),
            locals: locals.map(|queue| (queue.namespace.clone(), queue.name.clone())).collect(),
            cohorts: cohorts.chain(above).cloned().collect(),
            met_others: false,
        }
    }

    /// Takes in of whom something is counted.
    pub(super) fn meet(&mut self, Milestone { of, what }: &Milestone) {
        let taker = match what {
            Passage::Evicted(stop) => stop.preempting.as_ref(),
            _ => None,
        };
        let mut queues = of.cluster_queue.iter().chain(taker);
        let mut locals = of.local_queue.iter().map(|name| (of.namespace.clone(), name.clone()));
        self.met_others |= queues.any(|name| !self.queues.contains(name))
            || locals.any(|key| !self.locals.contains(&key));
    }

    /// Whether all of those, and all that were met since, are among these.
    pub(super) fn include(&self, those: &Names) -> bool {
        !those.met_others
            && those.queues.is_subset(&self.queues)
            && those.locals.is_subset(&self.locals)
            && those.cohorts.is_subset(&self.cohorts)
    }

    /// Whether there is a ClusterQueue; work without one has an empty name.
    pub(super) fn has_queue(&self, name: &str) -> bool {
        name.is_empty() || self.queues.contains(name)
    }

    /// Whether there is a LocalQueue.
    pub(super) fn has_local(&self, namespace: &str, name: &str) -> bool {
        let key: (Text, Text) = (namespace.into(), name.into());
        self.locals.contains(&key)
    }

    /// Whether there is a cohort.
    pub(super) fn has_cohort(&self, name: &str) -> bool {
        self.cohorts.contains(name)
    }
}
