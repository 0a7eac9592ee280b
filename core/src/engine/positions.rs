//! Where work stands in its queue.
//!
//! Problem: people ask how many go before them, and when it will be their turn.
//!
//! The order is the one in which a queue is served: first work that room is being made for (it has
//! its places already, Kueue's sticky head), then what waits, in the order in which rounds take
//! heads (turns of LocalQueues, priority, time, uid), be it parked or not; last what waits out a
//! pause after a failure, because nothing of it is looked at before that. Positions count from 0,
//! as `positionInClusterQueue` and `positionInLocalQueue` of Kueue's visibility API do. Work that
//! has no queue at all stands in the implicit one. What is in no line has no position: a gang that
//! is not whole, work that somebody holds, or whose queue is missing or stopped.
//!
//! A position is no promise: a parked one may be passed, unless the queue is strict.
//!
//! Cost: one queue is put in order when it is asked for. The first of all queues together cost a
//! few looks for each kind of work that waits, and are asked for a few times a minute.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::explain::view::{Place, Position};
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::model::workload::QueueRef;
use crate::plan::State;

/// Work that is in a line without being looked at, by queue.
type Beside = BTreeMap<Option<QueueIdx>, Vec<WorkloadIdx>>;

impl Engine {
    /// Where a workload stands in its queue; `None`: in no line.
    pub fn position(&self, namespace: &Text, name: &Text) -> Option<Position> {
        let key = (namespace.clone(), name.clone());
        let index = *self.state.workload_by_name.get(&key)?;
        self.position_of(index)
    }

    /// The same by index.
    pub(super) fn position_of(&self, index: WorkloadIdx) -> Option<Position> {
        let entry = self.state.workloads.get(index)?;
        let queue = self.line_of(index)?;
        let (promised, pausing) = self.beside_lines();
        let line = self.line(queue, (&promised, &pausing), usize::MAX);
        let at = line.iter().position(|other| *other == index)?;
        let local = self.local_queue_of(index);
        let of_local = |other: &&WorkloadIdx| {
            let namespace = &self.state.workloads[**other].id.namespace;
            *namespace == entry.id.namespace && self.local_queue_of(**other) == local
        };
        let before = local.as_ref().map(|_| line[..at].iter().filter(of_local).count() as u32);
        Some(Position { in_cluster_queue: at as u32, in_local_queue: before })
    }

    /// The first `most` of every queue, with their positions.
    pub fn positions(&self, most: usize) -> Vec<Place> {
        let (promised, pausing) = self.beside_lines();
        let mut queues: Vec<Option<QueueIdx>> = self.waiting.lines().collect();
        queues.extend(promised.keys().chain(pausing.keys()).copied());
        queues.sort_unstable();
        queues.dedup();
        let mut places = Vec::new();
        for queue in queues {
            places.extend(self.places(&self.line(queue, (&promised, &pausing), most)));
        }
        places.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        places
    }

    /// All that stand in the line of a ClusterQueue, in order; `None`: there is no such queue.
    pub fn line_of_cluster_queue(&self, name: &str) -> Option<Vec<Place>> {
        let queue = self.state.quota.find_queue(name)?;
        let (promised, pausing) = self.beside_lines();
        Some(self.places(&self.line(Some(queue), (&promised, &pausing), usize::MAX)))
    }

    /// The same of those that came by a LocalQueue.
    pub fn line_of_local_queue(&self, namespace: &Text, name: &Text) -> Option<Vec<Place>> {
        let facts = self.state.facts.local_queue(namespace, Some(name))?;
        let mut line = self.line_of_cluster_queue(&facts.cluster_queue).unwrap_or_default();
        line.retain(|it| it.namespace == *namespace && it.local_queue.as_ref() == Some(name));
        Some(line)
    }

    /// A whole line, or the first of it, with positions.
    fn places(&self, line: &[WorkloadIdx]) -> Vec<Place> {
        let mut locals: BTreeMap<(Text, Text), u32> = BTreeMap::new();
        let mut places = Vec::with_capacity(line.len());
        for (at, index) in line.iter().enumerate() {
            let entry = &self.state.workloads[*index];
            let namespace = &entry.id.namespace;
            let local_queue = self.local_queue_of(*index);
            let in_local_queue = local_queue.clone().map(|local| {
                let count = locals.entry((namespace.clone(), local)).or_default();
                *count += 1;
                *count - 1
            });
            places.push(Place {
                namespace: namespace.clone(),
                name: entry.name.clone(),
                local_queue,
                priority: entry.priority,
                created: entry.created,
                position: Position { in_cluster_queue: at as u32, in_local_queue },
            });
        }
        places
    }

    /// The line that a workload would stand in.
    fn line_of(&self, index: WorkloadIdx) -> Option<Option<QueueIdx>> {
        match &self.state.workloads[index].queue {
            QueueRef::Unqueued => Some(None),
            QueueRef::Queue(queue) => Some(Some(*queue)),
            QueueRef::Broken(_) => None,
        }
    }

    /// Work that room is being made for, and work that waits out a pause, each in order.
    fn beside_lines(&self) -> (Beside, Beside) {
        let workloads = &self.state.workloads;
        let by_queue = |all: &mut dyn Iterator<Item = WorkloadIdx>, state: State| {
            let mut found = Beside::new();
            let of_state =
                |index: &WorkloadIdx| workloads.get(*index).is_some_and(|it| it.state == state);
            for index in all.filter(of_state) {
                if let Some(queue) = self.line_of(index) {
                    found.entry(queue).or_default().push(index);
                }
            }
            found.values_mut().for_each(|line| {
                self.state.in_queue_order(line);
                line.dedup();
            });
            found
        };
        let promised = by_queue(&mut self.state.claims.workloads(), State::Reserved);
        let delayed = self.delayed.in_order();
        let mut delayed = delayed.filter(|index| !self.waiting.contains(*index));
        (promised, by_queue(&mut delayed, State::Queued))
    }

    /// The first of one queue.
    fn line(
        &self,
        queue: Option<QueueIdx>,
        (promised, pausing): (&Beside, &Beside),
        most: usize,
    ) -> Vec<WorkloadIdx> {
        let of = |beside: &Beside| beside.get(&queue).cloned().unwrap_or_default();
        let mut line = of(promised);
        line.truncate(most);
        line.extend(self.waiting.in_order(queue, most - line.len()));
        let rest = most - line.len();
        line.extend(of(pausing).into_iter().take(rest));
        line
    }
}
