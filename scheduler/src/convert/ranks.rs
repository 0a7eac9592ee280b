//! The priorities of pods, and whether they never preempt others.
//!
//! Decides what counts of what pods, PodGroups and PriorityClasses say; a class may stand after the
//! pods that name it.

use std::sync::Arc;

use capstan_core::model::input::{Text, Wishes};

use super::facts::{ClassKind, Facts};
use super::gathered::PriorityClassDraft;
use super::group::GroupDraft;
use super::sharing::Shared;
use crate::api::pod::PodSpec;
use crate::gangs;

/// Priorities of the classes that every cluster has.
const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// What a pod spec says of priority, before classes are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ranked {
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// `spec.priorityClassName`.
    pub class: Option<Text>,
    /// `spec.preemptionPolicy` is given, and is `Never`.
    pub never_preempts: Option<bool>,
}

impl Ranked {
    /// Whether a PriorityClass still has a say.
    pub fn open(&self) -> bool {
        self.priority.is_none() || self.never_preempts.is_none()
    }

    /// Of a pod spec.
    pub fn of(spec: &PodSpec, shared: &mut Shared) -> Ranked {
        let class = spec.priority_class_name.as_deref().filter(|name| !name.is_empty());
        Ranked {
            priority: spec.priority,
            class: class.map(|name| shared.texts.text(name)),
            never_preempts: spec.preemption_policy.as_deref().map(|policy| policy == "Never"),
        }
    }
}

impl Facts<'_> {
    /// The priority that a PodGroup gives its members.
    pub(super) fn rank_of_group(&mut self, group: &GroupDraft) -> Option<i32> {
        let says = &group.says;
        match (says.priority, &says.class) {
            (Some(priority), _) => Some(priority),
            (None, Some(class)) => self.class(class, false).map(|class| class.value),
            (None, None) => {
                gangs::upstream::compares(group).then(|| self.rank(&Ranked::default()).0)
            }
        }
    }

    /// Priority, and whether it never preempts.
    pub(super) fn rank(&mut self, ranked: &Ranked) -> (i32, bool) {
        let class = match &ranked.class {
            Some(name) => self.class(name, ranked.priority.is_some()),
            None => self.default_class().map(|(_, class)| *class),
        };
        let priority = ranked.priority.or(class.map(|class| class.value)).unwrap_or(0);
        let never = class.is_some_and(|class| class.never_preempts);
        (priority, ranked.never_preempts.unwrap_or(never))
    }

    /// The class of pods that name none. Of several the API server takes the lowest.
    fn default_class(&self) -> Option<(&Text, &PriorityClassDraft)> {
        let defaults = self.directory.classes.iter().filter(|(_, class)| class.global_default);
        defaults.min_by_key(|(_, class)| class.value)
    }

    /// The shared copy of wishes, which say what class such pods have, members of this group.
    pub(super) fn of_class(
        &mut self,
        mut wishes: Wishes,
        ranked: &Ranked,
        group: Option<&GroupDraft>,
    ) -> Arc<Wishes> {
        wishes.pod_class = match group.filter(|group| group.says.class.is_some()) {
            Some(group) => self.known_class(group.says.priority, group.says.class.as_ref()),
            // Where a pod has both, the API server has looked the class up.
            None if ranked.priority.is_some() => ranked.class.clone(),
            None => self.class_of_template(ranked),
        };
        self.shared.wishes.of(wishes)
    }

    /// The same of pods of a template.
    pub(super) fn of_template(&mut self, mut wishes: Wishes, ranked: &Ranked) -> Arc<Wishes> {
        wishes.pod_class = self.class_of_template(ranked);
        self.shared.wishes.of(wishes)
    }

    /// The name of the class by which pods of such a template have their priority.
    pub(super) fn class_of_template(&self, ranked: &Ranked) -> Option<Text> {
        self.known_class(ranked.priority, ranked.class.as_ref())
    }

    /// One that there is: no API server looks at what owners and groups name, beside a priority or
    /// not, and what people make up there would be a label of metrics for ever.
    fn known_class(&self, priority: Option<i32>, class: Option<&Text>) -> Option<Text> {
        let there = |name: &Text| {
            let system = SYSTEM_CLASSES.iter().any(|(system, _)| **system == **name);
            system || self.directory.classes.contains_key(name)
        };
        match class {
            Some(name) => there(name).then(|| name.clone()),
            None if priority.is_some() => None,
            None => self.default_class().map(|(name, _)| name.clone()),
        }
    }

    /// A PriorityClass. One that there is not is noted, unless what names it is `settled`.
    pub(super) fn class(&mut self, name: &Text, settled: bool) -> Option<PriorityClassDraft> {
        if let Some(class) = self.directory.classes.get(name) {
            return Some(*class);
        }
        let system = SYSTEM_CLASSES.iter().find(|(system, _)| **system == **name);
        if let Some((_, value)) = system {
            let value = *value;
            return Some(PriorityClassDraft {
                value,
                global_default: false,
                never_preempts: false,
            });
        }
        if !settled {
            *self.missing.0.entry((ClassKind::Priority, name.clone())).or_default() += 1;
        }
        None
    }
}
