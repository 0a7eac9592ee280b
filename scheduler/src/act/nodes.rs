//! Nodes that closed while binds to them waited for their turn.
//!
//! A bind may wait for thousands before it, and the API server takes a pod for a node that is no
//! more: it would be found there, ended for good, and fail a Job that may not lose any. So what was
//! decided before its node was deleted or cordoned is not sent any more. What is decided after that
//! knew of it, and may be meant so: some pods tolerate a cordoned node.
//!
//! Taints are not looked at: whether a pod tolerates one is for the engine to say.
//!
//! Cost: one look-up for each bind; nothing is kept while nothing is under way.

use std::collections::BTreeMap;

use capstan_core::model::input::{Input, Text};
use capstan_core::time::Time;
use parking_lot::Mutex;

/// What is said of a node that was deleted, and of one that was cordoned.
const GONE: &str = "is gone";
const CORDONED: &str = "is cordoned";

/// Nodes that closed, since when, and how.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    closed: Mutex<BTreeMap<Text, (Time, &'static str)>>,
}

impl Nodes {
    /// Takes in what the engine is told at this time; whether any effect waits, or is under way.
    pub(super) fn learn(&self, now: Time, fact: &Input, under_way: bool) {
        let (node, how) = match fact {
            Input::NodeGone(node) => (node, Some(GONE)),
            Input::Node(facts) => (&facts.name, facts.unschedulable.then_some(CORDONED)),
            _ => return,
        };
        let mut closed = self.closed.lock();
        if !under_way {
            closed.clear();
            return;
        }
        match how {
            // That it is still so is no news.
            Some(how) if closed.get(node).is_none_or(|(_, known)| *known != how) => {
                closed.insert(node.clone(), (now, how));
            }
            Some(_) => {}
            None => _ = closed.remove(node),
        }
    }

    /// Why nothing that was decided at this time is sent to a node any more.
    pub(super) fn closed(&self, node: &Text, decided: Time) -> Option<String> {
        let closed = self.closed.lock();
        let (_, how) = closed.get(node).filter(|(since, _)| *since > decided)?;
        Some(format!("node {node} {how}"))
    }
}
