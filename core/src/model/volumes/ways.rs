//! What else a pod's open claims could take on a node than the smallest volumes.
//!
//! A pod takes the smallest volume that suits a claim there, as kube-scheduler has it. That may be
//! one that another member of its gang needs, who is tied to a node that no other volume reaches.
//! Here are all choices that can matter to others: of volumes that the same nodes reach, and that
//! the same claims may have, only the smallest is looked at, as whoever could do with that one can
//! do with the larger one, too.

use super::demand::{Candidates, Made, Making, Need};
use super::holdings::choice;
use super::{Choices, Demand, Volumes};
use crate::model::input::{NodeFacts, Text, VolumeFacts};

/// What was found so far.
struct Ways<'a> {
    demand: &'a Demand,
    volumes: &'a Volumes,
    node: &'a NodeFacts,
    most: usize,
    /// Choices for claims before the one that is looked at.
    made: Choices,
    taken: Vec<&'a Text>,
    found: Vec<Choices>,
    /// Choices for a claim that may still be tried: most of them may lead nowhere.
    tries: usize,
}

/// Choices for a claim that are tried for each that is asked for.
const TRIES_EACH: usize = 16;

impl Demand {
    /// All choices on a node that can matter to others, that of [`Demand::on`] first if there is
    /// one; `false`: there are more than `most`, or not all were tried.
    pub fn ways(&self, volumes: &Volumes, node: &NodeFacts, most: usize) -> (Vec<Choices>, bool) {
        let (made, taken, found) = (Choices::new(), Vec::new(), Vec::new());
        let tries = most.saturating_mul(TRIES_EACH);
        let mut ways = Ways { demand: self, volumes, node, most, made, taken, found, tries };
        let whole = ways.from(0);
        (ways.found, whole)
    }
}

impl<'a> Ways<'a> {
    /// Goes on with a claim; `false`: there is more than was asked for.
    fn from(&mut self, at: usize) -> bool {
        let demand = self.demand;
        let Some(wanted) = demand.claims.get(at) else {
            let more = self.found.len() == self.most;
            self.found.extend((!more).then(|| self.made.clone()));
            return !more;
        };
        match &wanted.need {
            Need::Bound(_) | Need::Nowhere(_) => self.from(at + 1),
            Need::Chosen(..) if !wanted.need.suits_choice(self.node) => true,
            Need::Chosen(..) => self.from(at + 1),
            Need::Selected(node, _) if *node != self.node.name => true,
            Need::Selected(_, making) => self.with_new(at, making),
            Need::Open(candidates, making) => {
                self.with_each(at, candidates) && self.with_new(at, making)
            }
        }
    }

    fn with_each(&mut self, at: usize, candidates: &'a Candidates) -> bool {
        let mut tried: Vec<&VolumeFacts> = Vec::new();
        let claim = &self.demand.claims[at].claim;
        for volume in candidates.reached(self.node) {
            let like = |known: &&VolumeFacts| alike(known, volume);
            if self.taken.contains(&&volume.name)
                || !self.volumes.is_free(volume, claim)
                || tried.iter().any(like)
            {
                continue;
            }
            tried.push(volume);
            self.taken.push(&volume.name);
            let whole = self.with(at, Some(&volume.name));
            self.taken.pop();
            if !whole {
                return false;
            }
        }
        true
    }

    /// A new volume, if one could be made here.
    fn with_new(&mut self, at: usize, making: &Making) -> bool {
        making.on(self.node) != Made::Yes || self.with(at, None)
    }

    fn with(&mut self, at: usize, volume: Option<&Text>) -> bool {
        let Some(left) = self.tries.checked_sub(1) else { return false };
        self.tries = left;
        let claim = self.demand.claims[at].claim.clone();
        self.made.push((claim, choice(self.node, volume)));
        let whole = self.from(at + 1);
        self.made.pop();
        whole
    }
}

/// Whether the same nodes reach two volumes of a class, and the same claims may have them, sizes
/// apart.
fn alike(one: &VolumeFacts, other: &VolumeFacts) -> bool {
    (&one.nodes, &one.labels, one.modes) == (&other.nodes, &other.labels, other.modes)
}

impl Volumes {
    /// Whether nobody made any of these choices, or took their volumes.
    pub fn are_open(&self, choices: &Choices) -> bool {
        choices.iter().all(|(claim, choice)| {
            let volume = choice.volume.as_ref().and_then(|name| self.volumes.get(name));
            self.choice(claim).is_none() && volume.is_none_or(|it| it.chosen_for.is_none())
        })
    }
}
