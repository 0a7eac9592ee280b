//! What a workload asks of topology, with its levels looked up.
//!
//! Decides which level each name means, and that who needs one which no node has waits, and is told
//! which there are. A preferred one that nobody knows is no obstacle.

use capstan_topology::LevelIdx;

use crate::engine::Engine;
use crate::explain::reason::Reason;
use crate::model::ids::{PodIdx, QueueIdx, WorkloadIdx};
use crate::model::input::{GangSource, SetLevels, Text};
use crate::place::gang::TopologyAsk;
use crate::place::{levels, pod_sets};

impl Engine {
    /// Topology asked, with level names resolved; or why nobody knows where its pods may run.
    pub(crate) fn topology_ask(
        &self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
    ) -> Result<TopologyAsk, Reason> {
        let (room, entry) = (&self.state.room, &self.state.workloads[workload]);
        for set in &entry.sets {
            if let Some(what) = room.shape(set.shape).facts.malformed.clone() {
                return Err(Reason::Malformed { pod_set: set.name.clone(), what });
            }
        }
        let wish = entry.topology();
        let required = wish.required.as_ref().map(|name| self.level(name)).transpose()?;
        let sliced = wish.slices.as_ref().map(|slices| self.level(&slices.level)).transpose()?;
        let slices = wish.slices.as_ref().zip(sliced);
        // These are looked up for each set as it is placed.
        for name in entry.own_levels(room).flat_map(SetLevels::needed) {
            self.level(name)?;
        }
        let own_levels = entry.own_levels(room).next().is_some();
        let by_set = wish.per_pod_set || own_levels;
        let mixed = (by_set || wish.slices.is_some())
            && pod_sets::any_mixed(room, entry.sets.iter().map(|set| set.shape));
        let close = self.state.policy.weights(self.profile(queue).profile).locality > 0;
        Ok(TopologyAsk {
            required,
            preferred: wish.preferred.as_ref().and_then(|name| levels::level_named(room, name)),
            per_set: by_set,
            own_levels,
            gives_way: false,
            slices: slices.and_then(|(of, level)| levels::slices_within(of, level, required)),
            mixed,
            anywhere: !close
                || self.is_no_gang(workload)
                || pod_sets::shun_each_other(room, &entry.sets),
        })
    }

    /// Whether its pods are each by themselves, as those of a Job that nobody wants whole: each
    /// goes to its best node, and to none for being near the others.
    fn is_no_gang(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.state.workloads[workload];
        let by_itself = |pod: &PodIdx| self.state.pods[*pod].gang.by_itself;
        entry.source == GangSource::Job && entry.members.first().is_some_and(by_itself)
    }

    /// The level of a name that is needed.
    fn level(&self, name: &Text) -> Result<LevelIdx, Reason> {
        levels::level_named(&self.state.room, name).ok_or_else(|| self.unknown_level(name))
    }

    /// That no node has a topology level.
    pub(crate) fn unknown_level(&self, name: &Text) -> Reason {
        let is_level = self.state.room.levels.contains(name);
        Reason::UnknownLevel { level: name.clone(), is_level, known: self.known_levels() }
    }

    /// Topology levels that nodes have.
    fn known_levels(&self) -> Vec<Text> {
        let room = &self.state.room;
        let levels = room.levels.iter().enumerate();
        let used = |at: usize| {
            let level = LevelIdx(at as u8);
            !room.tree.domains_at(level).is_empty()
        };
        levels.filter(|(at, _)| used(*at)).map(|(_, key)| key.clone()).collect()
    }
}
