//! A pod as the engine keeps it.

use std::cmp::Ordering;
use std::sync::Arc;

use capstan_topology::{NodeIdx, RequestIdx};

use crate::model::ids::{ShapeIdx, WorkloadIdx};
use crate::model::input::{
    BindingNote, EvictionNote, GangRef, PodPhase, Rank, Stays, Text, Wishes,
};
use crate::plan::{EffectId, PodRef};
use crate::rules::neighbours::Tenancy;
use crate::time::Time;

/// A pod, or a place kept for a pod that a suspended owner will make.
#[derive(Debug)]
pub struct Pod {
    /// Unique id; of a kept place, derived from its owner.
    pub uid: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Shape.
    pub shape: ShapeIdx,
    /// What it holds where it is placed (its shape's request, or more after a resize).
    pub holds: RequestIdx,
    /// Ours to schedule.
    pub ours: bool,
    /// Life cycle.
    pub phase: PodPhase,
    /// Another scheduler nominated it for the node that it holds, and may bind it there.
    pub nominated: bool,
    /// Being deleted.
    pub terminating: bool,
    /// Has scheduling gates.
    pub gated: bool,
    /// Its gang begins without it: others of its role go first, or its group has enough.
    pub later: bool,
    /// It has gates, and its gang keeps a place for it: that counts in its stead.
    pub place_kept: bool,
    /// Where it stands among its peers; where a kept place does, that of the pod it is for.
    pub rank: Rank,
    /// Creation time.
    pub created: Time,
    /// When it was bound, as the API shows it, or when we decided.
    pub bound_at: Option<Time>,
    /// What it cost before now is counted where that belongs: in the account of the queue that it
    /// was in then, if that has one.
    pub counted: bool,
    /// `spec.priority`.
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Why nobody stops it for others, if nobody does.
    pub stays: Option<Stays>,
    /// Gang membership as fed.
    pub gang: Arc<GangRef>,
    /// What people asked.
    pub wishes: Arc<Wishes>,
    /// What we wrote on it.
    pub note: Option<Arc<BindingNote>>,
    /// Marked by us as being evicted.
    pub eviction: Option<Arc<EvictionNote>>,
    /// We stop it by itself: it is no member of its gang any more, which goes on.
    pub apart: bool,
    /// The workload that it is a member of.
    pub workload: Option<WorkloadIdx>,
    /// Where it holds what it holds: bound, or assumed by us.
    pub place: Option<NodeIdx>,
    /// How far binding got.
    pub binding: Binding,
    /// What it has to do with places that are kept for pods of its owner.
    pub takeover: Takeover,
    /// Names of its claims on devices, where it has any.
    pub claims: Option<Arc<Vec<Text>>>,
    /// What few pods have; by itself, since there are many pods.
    pub rare: Option<Box<Rare>>,
}

/// What few pods have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rare {
    /// The node that its spec names without us having written it; only explanations ask.
    pub named_node: Option<Text>,
    /// When it ended, if it has and the API shows that.
    pub ended_at: Option<Time>,
    /// The Job that made it, by uid, where its gang is no owner's.
    pub of_job: Option<Text>,
}

/// What a pod has to do with places that are kept for pods of its resumed owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takeover {
    /// It may take one over, or has that of its shape.
    #[default]
    Open,
    /// It has one that was kept for another shape: its node is still to be asked.
    Unlike,
    /// It gave a place up, and takes over none that is kept.
    Over,
}

/// How far the binding of a pod got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Not placed, or placed only inside a transaction.
    None,
    /// A place kept for a pod that does not exist yet.
    Kept,
    /// Assumed by us; the bind is in flight.
    InFlight(EffectId),
    /// The API shows it.
    Bound,
}

impl Pod {
    /// Whether it is a member that still counts: not ended.
    pub fn active(&self) -> bool {
        !self.phase.terminal()
    }

    /// Whether it can still be part of its gang: not ended, and not deleted before it ran.
    pub fn counts(&self) -> bool {
        self.active() && !(self.terminating && self.binding == Binding::None)
    }

    /// The same, unless a place that its gang keeps counts in its stead.
    pub fn counts_itself(&self) -> bool {
        self.counts() && !self.place_kept
    }

    /// Whether nothing of its own, nor of its gang's, keeps it from a node.
    pub fn ready(&self) -> bool {
        !self.gated && !self.terminating && !self.later
    }

    /// Whether nothing of its own keeps it from a node, and it has none.
    pub fn free(&self) -> bool {
        self.place.is_none() && self.active() && !self.gated && !self.terminating
    }

    /// Whether it has a place and keeps it: nobody deletes it.
    pub fn stays(&self) -> bool {
        self.place.is_some() && !self.terminating
    }

    /// The node that its spec names without us having written it.
    pub fn named_node(&self) -> Option<&Text> {
        self.rare.as_ref()?.named_node.as_ref()
    }

    /// When it ended, if it has and the API shows that.
    pub fn ended_at(&self) -> Option<Time> {
        self.rare.as_ref()?.ended_at
    }

    /// The Job that made it, by uid, where its gang is no owner's.
    pub fn of_job(&self) -> Option<&Text> {
        self.rare.as_ref()?.of_job.as_ref()
    }

    /// Its role in its gang, where it has one with a name.
    pub fn role(&self) -> Option<&Text> {
        self.gang.roles.as_ref()?.own.as_ref()
    }

    /// Whether it is of use only together with others of its role.
    pub fn in_replica(&self) -> bool {
        self.gang.roles.as_ref().is_some_and(|roles| roles.replica.is_some())
    }

    /// Its number among its peers, where that is known.
    pub fn number(&self) -> Option<u32> {
        match self.rank {
            Rank::Number(number) => Some(number),
            Rank::None | Rank::Named | Rank::Index(_) => None,
        }
    }

    /// How it is on its node.
    pub fn tenancy(&self) -> Tenancy {
        match (self.nominated, self.terminating) {
            (true, _) => Tenancy::Nominated,
            (false, true) => Tenancy::Leaving,
            (false, false) => Tenancy::Staying,
        }
    }

    /// Whether it waits for a node: not placed, and nothing keeps it from being.
    pub fn needs_place(&self) -> bool {
        self.free() && !self.later
    }

    /// Whether it stands for a pod that does not exist yet.
    pub fn kept(&self) -> bool {
        self.binding == Binding::Kept
    }

    /// Which of two stands first among the members of their gang: those with an index after others,
    /// in order of that, whenever they were made, since neighbours are to be near each other; those
    /// without as they were made. Those whose index is not in their names are the last.
    pub fn order(&self, other: &Pod) -> Ordering {
        let by_name = || by_number(&self.name, &other.name).then_with(|| self.made(other));
        let kind = |rank: Rank| match rank {
            Rank::None => 0,
            Rank::Named | Rank::Number(_) => 1,
            Rank::Index(_) => 2,
        };
        match (self.rank, other.rank) {
            (Rank::None, Rank::None) => self.made(other),
            (Rank::Index(one), Rank::Index(two)) => one.cmp(&two).then_with(by_name),
            (one, two) => kind(one).cmp(&kind(two)).then_with(by_name),
        }
    }

    /// Which of two was made first, by name, by uid.
    pub fn made(&self, other: &Pod) -> Ordering {
        let named = || by_number(&self.name, &other.name).then_with(|| self.uid.cmp(&other.uid));
        self.created.cmp(&other.created).then_with(named)
    }

    /// Names it in the API.
    pub fn reference(&self) -> PodRef {
        PodRef { namespace: self.namespace.clone(), name: self.name.clone(), uid: self.uid.clone() }
    }
}

/// Compares names as people count: `c-2` goes before `c-10`. What is the same so is compared letter
/// by letter.
pub fn by_number(one: &str, other: &str) -> Ordering {
    let (mut a, mut b) = (one.as_bytes(), other.as_bytes());
    while let (Some(x), Some(y)) = (a.first(), b.first()) {
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (of_one, of_other) = (number(&mut a), number(&mut b));
            let longer = of_one.len().cmp(&of_other.len());
            let order = longer.then_with(|| of_one.cmp(of_other));
            if order.is_ne() {
                return order;
            }
        } else if x == y {
            (a, b) = (&a[1..], &b[1..]);
        } else {
            return x.cmp(y);
        }
    }
    a.len().cmp(&b.len()).then_with(|| one.cmp(other))
}

/// Takes the digits off that it begins with; those of them that count.
fn number<'a>(of: &mut &'a [u8]) -> &'a [u8] {
    let all = *of;
    let digits = all.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let zeros = all[..digits].iter().take_while(|byte| **byte == b'0').count();
    *of = &all[digits..];
    &all[zeros..digits]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_in_which_people_count() {
        let sorted = [
            "", "7", "a", "a-0", "a-2-9", "a-02-10", "a-2-10", "a-10", "a-10-b", "a-10b", "a2",
            "ab",
        ];
        for (at, one) in sorted.iter().enumerate() {
            for (beside, other) in sorted.iter().enumerate() {
                assert_eq!(by_number(one, other), at.cmp(&beside), "{one} and {other}");
            }
        }
        let (long, longer) = ("9".repeat(40), "1".repeat(41));
        assert_eq!(by_number(&long, &longer), Ordering::Less);
    }
}
