//! PodGroups of whichever API group, as far as scheduling looks at them.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{Text, TopologyWish, Wishes};
use serde_json::Value;

use super::marks::{self, Marks, OwnerName};
use super::sharing::Shared;
use super::{Refusal, gang};
use crate::gangs::fields::{Fields, Part};
use crate::gangs::kinds::Kind;
use crate::gangs::{plugins, upstream, volcano};

/// A PodGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupDraft {
    /// Of which API group.
    pub kind: Kind,
    /// In which version of that it is served.
    pub version: Text,
    /// Unique id.
    pub uid: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Our labels and annotations on it.
    pub marks: Arc<Marks>,
    /// Who owns it.
    pub owner: Option<OwnerName>,
    /// Volcano's, and its phase does not let anybody make its pods yet.
    pub shut: bool,
    /// What it says.
    pub says: GroupSays,
}

/// What a PodGroup says of its members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSays {
    /// Members that must run together; `None`: as many as exist.
    pub min: Option<u32>,
    /// The group above it in a tree of groups, which start together or not at all.
    pub parent: Option<Text>,
    /// Members of each role that must run together, where that counts for each by itself.
    pub roles: Option<Arc<BTreeMap<Text, u32>>>,
    /// Queue, by the name of a LocalQueue.
    pub queue: Option<Text>,
    /// Priority.
    pub priority: Option<i32>,
    /// PriorityClass, which counts where there is no priority.
    pub class: Option<Text>,
    /// Whether its pods never preempt others, where it says that.
    pub never_preempts: Option<bool>,
    /// Level within one domain of which they must be.
    pub topology: Option<Text>,
    /// All of them are disturbed, or none.
    pub whole: bool,
    /// They are no gang: each starts, and has others stopped for it, by itself.
    pub no_gang: bool,
}

impl GroupSays {
    /// Adds what it says to wishes of a member, where nobody nearer says anything.
    pub fn add_to(&self, wishes: &mut Wishes) {
        if wishes.queue.is_none() {
            wishes.queue = self.queue.clone();
        }
        let unasked = wishes.topology == TopologyWish::default();
        if let Some(level) = self.topology.as_ref().filter(|_| unasked) {
            wishes.topology.required = Some(level.clone());
        }
    }
}

impl GroupDraft {
    /// The draft of a PodGroup, and what was odd about it.
    pub fn of(kind: Kind, value: &Value, shared: &mut Shared) -> (GroupDraft, Vec<Refusal>) {
        let meta = gang::meta(value);
        let namespace = shared.texts.text(marks::namespace(&meta));
        let mut fields = Fields { namespace: namespace.clone(), odd: Vec::new() };
        let part = Part::whole(value);
        let says = match kind {
            Kind::UpstreamGroup => upstream::read(part, &mut fields, shared),
            Kind::VolcanoGroup => volcano::read(part, &mut fields, shared),
            _ => plugins::read(part, &mut fields),
        };
        let version = value["apiVersion"].as_str().and_then(|it| it.rsplit_once('/'));
        let phase = part.at("status.phase").as_str().unwrap_or_default();
        let draft = GroupDraft {
            kind,
            version: shared.texts.text(version.map_or(kind.row().versions[0], |it| it.1)),
            shut: kind == Kind::VolcanoGroup && matches!(phase, "" | "Pending"),
            uid: marks::uid(&meta, &kind.row().key.to_lowercase()),
            namespace,
            name: marks::name(&meta).into(),
            marks: shared.marks_of(&meta),
            owner: marks::owner(&meta, shared),
            says,
        };
        (draft, fields.odd)
    }

    /// Whether its members would notice no difference if it became the other: what is written of
    /// how far it is does not concern them.
    pub fn same_below(&self, other: &GroupDraft) -> bool {
        let still = |draft: &GroupDraft| GroupDraft { shut: false, ..draft.clone() };
        still(self) == still(other)
    }
}
