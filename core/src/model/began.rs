//! With how many members a gang began that is to have more by now.
//!
//! Problem: whoever made a gang that runs may want more of it. An owner raises its count, a
//! PodGroup its minimum, a ReplicaSet makes one more pod of a gang that says no number. What ran
//! whole would be in part by that, and be stopped after a while if the new ones find no room.
//!
//! Decides that a gang which was whole needs no more members than it had to have then. Those that
//! it is to have beyond them are extra members: they join as room and quota come, and stop nobody.
//! Once it is whole with them it has to have them too. A gang that lost members of those it began
//! with is below its minimum as ever. Members that are only made once others run are no growth:
//! what others see, who have places, is less than they say. An owner in a queue asks for all that
//! it says: it is stopped where that does not fit, and queues. Of a gang that says its number, and
//! of which all who have places are being deleted, nobody began: it begins anew with all of that.
//!
//! Restart: what is bound bears how many had to run when it was. Of what others bound it is taken
//! that it was whole where all of it runs and whoever waits was made later; not where pods say
//! themselves how many they are, since that was so when they were made. A gang that says no number
//! grows only by those: whoever was made with the others is one of them, though some began before.
//! With how many of each role a gang began is not known then: as long as it has as many as it began
//! with, no role lacks any.
//!
//! Cost: a look at the members of each gang that is derived.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{GangKey, GangSource, Held, Roles, Text};
use crate::model::pod::Pod;
use crate::model::standing::is_name_of;
use crate::model::state::ClusterState;
use crate::model::workload::{Began, QueueRef};
use crate::plan::State;

/// The most that members of one maker say of a minimum.
#[derive(Default)]
struct Said {
    /// Some of them have places.
    any: bool,
    /// Those that have places.
    placed: Option<u32>,
    /// Those that wait.
    waiting: Option<u32>,
}

impl ClusterState {
    /// Lowers the minimum of a gang that is to have more members to that with which it was whole.
    /// The minimum is what its members and its owner say, without those that ended well.
    pub(super) fn derive_began(&mut self, workload: WorkloadIdx) {
        if !self.may_grow(workload) || self.begins_anew(workload) {
            self.workloads[workload].began = None;
            return;
        }
        if self.hides_how_many(workload) {
            return;
        }
        let done = self.done_of(workload);
        let late = self.comes_late(workload);
        let entry = &self.workloads[workload];
        let asked = entry.min_member.saturating_add(done);
        let known = entry.began.as_deref();
        let before = known.map(|began| began.members).or_else(|| self.written(workload));
        let members = match before {
            _ if late => Some(asked),
            Some(members) if self.says_how_many(workload) => Some(members.min(asked)),
            _ => {
                let written = self.written(workload).unwrap_or(0);
                self.found_whole(workload).map(|found| found.max(written))
            }
        };
        let Some(members) = members else {
            self.workloads[workload].began = None;
            return;
        };
        let roles = known.filter(|_| !late).and_then(|began| began.roles.clone());
        let least = members.saturating_sub(done).max(1);
        let entry = &mut self.workloads[workload];
        entry.min_member = entry.min_member.min(least);
        entry.began = Some(Box::new(Began { members, asked, roles }));
    }

    /// Remembers with how many members a gang that says a number is whole, if it is.
    pub(super) fn note_began(&mut self, workload: WorkloadIdx) {
        let entry = &self.workloads[workload];
        if entry.state != State::Running || !self.may_grow(workload) {
            return;
        }
        if !self.says_how_many(workload) || self.hides_how_many(workload) {
            return;
        }
        let done = self.done_of(workload);
        let here = entry.min_member.saturating_add(done);
        let asked = entry.began.as_deref().map_or(here, |began| began.asked);
        let placed = self.placed(workload).count() as u32;
        let roles = self.roles_of(workload).map(|roles| roles.least.clone()).unwrap_or_default();
        let lacks = self.lacks(workload, &roles).values().any(|lacks| *lacks > 0);
        if !lacks && placed.saturating_add(done) >= asked {
            let began = Began { members: asked, asked, roles: Some(roles) };
            self.workloads[workload].began = Some(Box::new(began));
        }
    }

    /// With how many members a gang begins by what is being bound, those that ended well included;
    /// `None`: that is of no use to anybody.
    pub(super) fn begins_with(&self, workload: WorkloadIdx) -> Option<u32> {
        if !self.may_grow(workload) {
            return None;
        }
        let (entry, done) = (&self.workloads[workload], self.done_of(workload));
        let placed = (self.placed(workload).count() as u32).saturating_add(done);
        Some(match entry.began.as_deref() {
            Some(began) if placed >= began.asked => began.asked,
            Some(began) => began.members,
            None if self.hides_how_many(workload) => return None,
            None => entry.min_member.saturating_add(done),
        })
    }

    /// How many of each role must run together: no more than did when the gang was whole.
    pub(super) fn least_of_roles(
        &self,
        workload: WorkloadIdx,
        roles: &Roles,
    ) -> Arc<BTreeMap<Text, u32>> {
        let entry = &self.workloads[workload];
        let Some(began) = entry.began.as_deref() else { return roles.least.clone() };
        let stay = entry.members.iter().filter(|pod| self.pods[**pod].stays()).count() as u32;
        match &began.roles {
            Some(known) if *known == roles.least => known.clone(),
            Some(known) => {
                let least = roles.least.iter().map(|(role, least)| {
                    let known = known.get(role).copied().unwrap_or(0);
                    (role.clone(), known.min(*least))
                });
                Arc::new(least.collect())
            }
            None if began.asked > began.members && stay >= entry.min_member => Arc::default(),
            None => roles.least.clone(),
        }
    }

    /// Whether members that a workload is to have beyond those that it began with may wait while
    /// it goes on: a gang with places that is no owner which queues with all that it says.
    fn may_grow(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.workloads[workload];
        let charged = entry.assignment.as_ref().is_some_and(|held| held.queue.is_some());
        let queued = charged || matches!(entry.queue, QueueRef::Queue(_));
        let queues = || queued && self.owner_of(workload).is_some();
        let gang = !matches!(entry.id.key, GangKey::Pod(_));
        gang && self.placed(workload).any(|pod| !self.pods[pod].kept()) && !queues()
    }

    /// Whether all who have places in a gang that says its number are being deleted: who joins them
    /// begins it, whatever it began with before.
    fn begins_anew(&self, workload: WorkloadIdx) -> bool {
        self.says_how_many(workload) && !self.placed(workload).any(|pod| self.pods[pod].stays())
    }

    /// Whether somebody says how many members must run together.
    fn says_how_many(&self, workload: WorkloadIdx) -> bool {
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let says = |pod: &Pod| pod.gang.min_member.is_some() || pod.gang.total.is_some();
        let mut counting = members.filter(|pod| pod.counts());
        self.owner_of(workload).is_some() || counting.any(says)
    }

    /// Whether nobody says how many members it needs now, which one is asked for instead: its group
    /// is gone or part of a tree, or others of it are another scheduler's.
    fn hides_how_many(&self, workload: WorkloadIdx) -> bool {
        let members = self.workloads[workload].members.iter();
        let mut held = members.filter_map(|pod| self.pods[*pod].gang.held.as_ref());
        held.any(|held| matches!(held, Held::GroupMissing(_) | Held::OfTree(_)))
            || self.lacks_strangers(workload)
    }

    /// How many members ended well, where the minimum is without those.
    fn done_of(&self, workload: WorkloadIdx) -> u32 {
        match self.owner_of(workload).is_none() && self.says_how_many(workload) {
            true => self.done_of_least(workload),
            false => 0,
        }
    }

    /// With how many members a gang began, by what is written on those that are bound and stay.
    /// What was written on one while it was in another gang says nothing of this one.
    fn written(&self, workload: WorkloadIdx) -> Option<u32> {
        let source = self.workloads[workload].source;
        let began = |pod: PodIdx| {
            let pod = &self.pods[pod];
            let note = pod.note.as_ref().filter(|_| pod.stays())?;
            let own = |name: &Text| is_name_of(name, &pod.gang.name, source);
            note.began_with.filter(|_| note.workload.as_ref().is_none_or(own))
        };
        self.placed(workload).filter_map(began).max()
    }

    /// Whether members wait that were made once others ran, and that say what those do not know:
    /// of who makes them, where others make members too.
    fn comes_late(&self, workload: WorkloadIdx) -> bool {
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let counting = members.filter(|pod| pod.counts() && !pod.kept());
        // What an owner's pods say of their minimum by their own annotations is no matter here.
        let owned = self.owner_of(workload).is_some();
        let says = |pod: &Pod| match pod.gang.source {
            GangSource::Owner if owned => pod.gang.total,
            GangSource::Owner => pod.gang.min_member.max(pod.gang.total),
            _ if owned => None,
            _ => pod.gang.min_member,
        };
        let mut of_makers: BTreeMap<Option<&Text>, Said> = BTreeMap::new();
        for pod in counting {
            let said = of_makers.entry(pod.maker_counted()).or_default();
            match pod.place {
                Some(_) => (said.any, said.placed) = (true, said.placed.max(says(pod))),
                None => said.waiting = said.waiting.max(says(pod)),
            }
        }
        of_makers.into_values().any(|said| said.any && said.waiting > said.placed)
    }

    /// How many members of a gang run that this scheduler did not bind, or that says no number,
    /// where it was whole with them: whoever waits was made after all of them were bound, and so
    /// was whoever has joined them since.
    fn found_whole(&self, workload: WorkloadIdx) -> Option<u32> {
        let entry = &self.workloads[workload];
        let of_pods = [GangSource::CapstanGang, GangSource::KueueGroup].contains(&entry.source);
        let says = self.says_how_many(workload);
        if says && of_pods {
            return None;
        }
        let members = entry.members.iter().map(|pod| &self.pods[*pod]);
        let counting = members.filter(|pod| pod.counts() && !pod.kept());
        let (placed, waiting): (Vec<&Pod>, Vec<&Pod>) =
            counting.partition(|pod| pod.place.is_some());
        let bound = |pod: &&Pod| pod.bound_at.map_or(pod.created, |at| at.max(pod.created));
        let made = waiting.iter().map(|pod| pod.created).min()?;
        let (first, joined): (Vec<&Pod>, Vec<&Pod>) =
            placed.into_iter().partition(|pod| bound(pod) < made);
        let last = first.iter().map(bound).max()?;
        let ran = first.iter().all(|pod| pod.phase.runs() && !(says && pod.note.is_some()));
        let later = joined.iter().all(|pod| pod.created > last);
        (ran && later).then_some(first.len() as u32)
    }
}
