//! Whether flavors have something for all that waiting work asks at least, without a look at nodes.
//!
//! Two ask: `out_of_quota`, whether quota is left of flavors that it lacks nodes of, and
//! `crossings`, whether what it asks is owned where it is, which it might take back.
//!
//! Restart: nothing is kept. Cost: a comparison of a few numbers for each flavor that sets may
//! have.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::engine::waiting::Waiting;
use crate::model::ids::{FlavorIdx, FrIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::input::PreemptReclaim;
use crate::model::workload::QueueRef;
use crate::quota::build::Group;

impl Waiting {
    /// The first of each group that is parked and waits for quota, of some queues.
    fn lacking_quota(
        &self,
        queues: impl Fn(QueueIdx) -> bool,
    ) -> impl Iterator<Item = WorkloadIdx> {
        let those = self.lines.iter().filter(move |(queue, _)| queue.is_some_and(&queues));
        those.flat_map(|(_, line)| &line.groups).filter_map(|group| {
            group.parked.as_ref().filter(|parked| parked.wake.quota)?;
            group.members.values().next().map(|(first, _)| *first)
        })
    }
}

impl Engine {
    /// Groups that wait for quota in these trees, and that might take back what others borrow: what
    /// they ask at least is owned where they are. The first of each.
    pub(crate) fn might_take_back(&self, risen: &BTreeSet<QuotaIdx>) -> Vec<WorkloadIdx> {
        let (quota, tree) = (&self.state.quota, &self.state.quota.tree);
        let policy = |queue| quota.queue(queue).facts.as_ref().map(|facts| &facts.preemption);
        let takes_back = |queue| {
            policy(queue).is_some_and(|policy| policy.reclaim != PreemptReclaim::Never)
                && quota.root(queue).is_some_and(|root| risen.contains(&root))
        };
        let owns = |first: &WorkloadIdx| {
            let QueueRef::Queue(queue) = self.state.workloads[*first].queue else { return false };
            let borrows = policy(queue).is_some_and(|policy| policy.while_borrowing.is_some());
            borrows
                || self.has_flavors(*first, &[], |node, fr, n| tree.borrow_height(node, fr, n).1)
        };
        self.waiting.lacking_quota(takes_back).filter(owns).collect()
    }

    /// Whether for what each set of a workload asks of a group of resources at least this holds of
    /// some flavor among these, or of any where none of the group is named.
    pub(super) fn has_flavors(
        &self,
        index: WorkloadIdx,
        among: &[FlavorIdx],
        holds: impl Fn(QuotaIdx, FrIdx, i64) -> bool,
    ) -> bool {
        let (entry, quota) = (&self.state.workloads[index], &self.state.quota);
        let QueueRef::Queue(queue) = entry.queue else { return true };
        let Some(node) = quota.queue(queue).node else { return true };
        entry.sets.iter().all(|set| {
            let counted = self.state.room.counted(set.shape);
            let least = match entry.sets.len() {
                1 => set.count.min(entry.min_member.max(1)),
                // Who of them begins is not known.
                _ if entry.min_member < entry.members.len() as u32 => 1,
                _ => set.count,
            };
            let enough = |group: &Group, flavor: FlavorIdx| {
                group.covered.iter().all(|&resource| {
                    let asked = counted.get(resource).saturating_mul(least.into());
                    let fr = quota.find_fr(flavor, resource);
                    asked <= 0 || fr.is_some_and(|fr| holds(node, fr, asked))
                })
            };
            quota.queue(queue).groups.iter().all(|group| {
                let named = group.flavors.iter().any(|flavor| among.contains(flavor));
                let mut those = group.flavors.iter();
                those.any(|flavor| (!named || among.contains(flavor)) && enough(group, *flavor))
            })
        })
    }
}
