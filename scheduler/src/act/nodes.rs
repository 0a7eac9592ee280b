//! Nodes that closed while binds to them waited for their turn.
//!
//! A bind may wait for thousands before it, and the API server takes a pod for a node that is no
//! more: it would be found there, ended for good, and fail a Job that may not lose any. So what was
//! decided before its node was deleted or cordoned is not sent any more. What is decided after that
//! knew of it, and may be meant so: some pods tolerate a cordoned node.
//!
//! Taints are not looked at: whether a pod tolerates one is for the engine to say.
//!
//! Cost: one look-up for each bind. Of nodes that are gone nothing is kept while nothing is under
//! way; of those that are cordoned it is, because what is told of one later is no news.

use std::collections::BTreeMap;

use capstan_core::model::input::{Input, Text};
use capstan_core::time::Time;
use parking_lot::Mutex;

/// Nodes that closed, and since when.
#[derive(Debug, Default)]
pub(super) struct Nodes(Mutex<Closed>);

#[derive(Debug, Default)]
struct Closed {
    gone: BTreeMap<Text, Time>,
    cordoned: BTreeMap<Text, Time>,
}

impl Nodes {
    /// Takes in what the engine is told at this time; whether any effect waits, or is under way.
    pub(super) fn learn(&self, now: Time, fact: &Input, under_way: bool) {
        let (node, gone, cordoned) = match fact {
            Input::NodeGone(node) => (node, under_way, false),
            Input::Node(facts) => (&facts.name, false, facts.unschedulable),
            _ => return,
        };
        let mut closed = self.0.lock();
        if !under_way {
            closed.gone.clear();
        }
        let Closed { gone: all_gone, cordoned: all_cordoned } = &mut *closed;
        for (is_so, known) in [(gone, all_gone), (cordoned, all_cordoned)] {
            match is_so {
                // That it is still so is no news.
                true => _ = known.entry(node.clone()).or_insert(now),
                false => _ = known.remove(node),
            }
        }
    }

    /// Why nothing that was decided at this time is sent to a node any more.
    pub(super) fn closed(&self, node: &Text, decided: Time) -> Option<String> {
        let closed = self.0.lock();
        let since = |known: &BTreeMap<Text, Time>| known.get(node).is_some_and(|at| *at > decided);
        match (since(&closed.gone), since(&closed.cordoned)) {
            (true, _) => Some(format!("node {node} is gone")),
            (_, true) => Some(format!("node {node} is cordoned")),
            _ => None,
        }
    }
}
