//! Which kinds are watched now; another configuration may name others.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use crate::live::{Kind, Seen};
use crate::watch;

/// The watches that run.
pub struct Watches {
    client: Client,
    to: Sender<Seen>,
    running: BTreeMap<Kind, JoinSet<()>>,
}

impl Watches {
    /// None yet.
    pub fn new(client: Client, to: Sender<Seen>) -> Watches {
        Watches { client, to, running: BTreeMap::new() }
    }

    /// Watches these kinds and no others.
    pub fn follow(&mut self, kinds: &BTreeSet<Kind>) {
        // A set of tasks that is dropped ends them.
        self.running.retain(|kind, _| kinds.contains(kind));
        for kind in kinds {
            let start = || watch::start(&self.client, &[*kind], &self.to);
            self.running.entry(*kind).or_insert_with(start);
        }
    }
}
