//! A pod as the engine keeps it.

use std::sync::Arc;

use capstan_topology::{NodeIdx, RequestIdx};

use crate::model::ids::{ShapeIdx, WorkloadIdx};
use crate::model::input::{BindingNote, EvictionNote, GangRef, PodPhase, Text, Wishes};
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
    /// The node that its spec names without us having written it; only explanations ask.
    pub named_node: Option<Text>,
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
    /// Creation time.
    pub created: Time,
    /// When it was bound, as the API shows it, or when we decided.
    pub bound_at: Option<Time>,
    /// When it ended, if it has and the API shows that.
    pub ended_at: Option<Time>,
    /// `spec.priority`.
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Gang membership as fed.
    pub gang: Arc<GangRef>,
    /// What people asked.
    pub wishes: Arc<Wishes>,
    /// What we wrote on it.
    pub note: Option<Arc<BindingNote>>,
    /// Marked by us as being evicted.
    pub eviction: Option<Arc<EvictionNote>>,
    /// The workload that it is a member of.
    pub workload: Option<WorkloadIdx>,
    /// Where it holds what it holds: bound, or assumed by us.
    pub place: Option<NodeIdx>,
    /// How far binding got.
    pub binding: Binding,
    /// Names of its claims on devices, where it has any.
    pub claims: Option<Arc<Vec<Text>>>,
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

    /// Its role in its gang, where it has one with a name.
    pub fn role(&self) -> Option<&Text> {
        self.gang.roles.as_ref()?.own.as_ref()
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

    /// Where it stands among the members of its gang: who was made first, by name, by uid.
    pub fn order(&self) -> (Time, &Text, &Text) {
        (self.created, &self.name, &self.uid)
    }

    /// Names it in the API.
    pub fn reference(&self) -> PodRef {
        PodRef { namespace: self.namespace.clone(), name: self.name.clone(), uid: self.uid.clone() }
    }
}
