//! Bills: what each placed member charges of its queue's quota of money.
//!
//! Problem: a queue may have a quota of money (`capstan.sh/usd-per-hour`), and what a member
//! costs depends on the node where it goes. Prices change while work runs; what was charged must
//! come back to the last millionth when it leaves.
//!
//! Wanted: the price is frozen when a member is placed: whoever is bound bears it as an annotation,
//! so that the next engine charges the same. A member that somebody else bound, or whose price was
//! not known then, bears none: its bill follows the facts of its node, as a new engine would find
//! them. What nobody knows the price of charges nothing, and is told as such.
//!
//! Kept beside the pods: where no queue has a quota of money, nobody has a bill and this costs
//! nothing. A pod keeps its bill for as long as it stays on its node, whatever is taken back and
//! charged again meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::NodeIdx;

use crate::model::apply::Changes;
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::pod::Binding;
use crate::model::state::ClusterState;
use crate::model::workload::BY_NODE;
use crate::money::MicroUsd;

/// What one member is charged, and for which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bill {
    /// The node.
    pub node: NodeIdx,
    /// Per hour; `None`: the price is not known, and nothing is charged.
    pub per_hour: Option<MicroUsd>,
}

/// All bills.
#[derive(Debug, Default)]
pub struct Bills {
    of: BTreeMap<PodIdx, Bill>,
    /// Whose price nobody froze, by node.
    open: BTreeSet<(NodeIdx, PodIdx)>,
}

impl Bills {
    /// The bill of a pod.
    pub fn get(&self, pod: PodIdx) -> Option<Bill> {
        self.of.get(&pod).copied()
    }

    /// What a pod is charged, in micro-USD per hour.
    pub fn amount(&self, pod: PodIdx) -> i64 {
        self.get(pod).and_then(|bill| bill.per_hour).unwrap_or_default().0
    }

    fn put(&mut self, pod: PodIdx, bill: Bill, open: bool) -> Option<Bill> {
        let old = self.of.insert(pod, bill);
        old.iter().for_each(|old| _ = self.open.remove(&(old.node, pod)));
        if open {
            self.open.insert((bill.node, pod));
        }
        old
    }

    fn remove(&mut self, pod: PodIdx) -> Option<Bill> {
        let old = self.of.remove(&pod);
        old.iter().for_each(|old| _ = self.open.remove(&(old.node, pod)));
        old
    }
}

impl ClusterState {
    /// The flavor of whose money a pod is charged, and its queue.
    fn payer(&self, pod: PodIdx) -> Option<(QueueIdx, FrIdx)> {
        let pod = &self.pods[pod];
        let assignment = self.workloads[pod.workload?].assignment.as_ref()?;
        Some((assignment.queue?, assignment.set(pod.shape)?.money()?))
    }

    /// The price that a pod bears since it was bound. What its author wrote there before that says
    /// nothing.
    fn noted_price(&self, pod: PodIdx) -> Option<MicroUsd> {
        let pod = &self.pods[pod];
        pod.note.as_ref().filter(|_| pod.binding == Binding::Bound)?.price
    }

    /// What a pod would be charged on a node: the price that it bears, else that of now.
    pub(crate) fn price_on(&self, pod: PodIdx, node: NodeIdx) -> Option<MicroUsd> {
        self.noted_price(pod).or_else(|| self.hourly_on(self.pods[pod].shape, node))
    }

    /// Makes the bill of a pod that comes to a node, if it pays at all; the one that it had, if
    /// that is another.
    pub(super) fn bill(&mut self, pod: PodIdx, node: NodeIdx) -> Option<Option<Bill>> {
        if self.payer(pod).is_none() {
            return self.bills.remove(pod).map(Some);
        }
        if self.bills.get(pod).is_some_and(|bill| bill.node == node) {
            return None;
        }
        let bill = Bill { node, per_hour: self.price_on(pod, node) };
        let open = self.follows_node(pod);
        Some(self.bills.put(pod, bill, open))
    }

    /// Whether nobody froze what a pod is charged.
    fn follows_node(&self, pod: PodIdx) -> bool {
        self.pods[pod].binding == Binding::Bound && self.noted_price(pod).is_none()
    }

    /// The way back of [`ClusterState::bill`].
    pub(super) fn unbill(&mut self, pod: PodIdx, old: Option<Bill>) {
        match old {
            Some(old) => {
                let open = self.follows_node(pod);
                self.bills.put(pod, old, open);
            }
            None => _ = self.bills.remove(pod),
        }
    }

    /// A pod leaves its node for good, or its price is another one than it was.
    pub(super) fn forget_bill(&mut self, pod: PodIdx) {
        self.bills.remove(pod);
    }

    /// Whether a pod that has a bill is charged what it bears, or follows its node if it bears
    /// nothing.
    pub(super) fn is_billed_as_noted(&self, pod: PodIdx) -> bool {
        let Some(bill) = self.bills.get(pod) else { return true };
        match self.noted_price(pod) {
            Some(price) => bill.per_hour == Some(price),
            None => self.follows_node(pod) == self.bills.open.contains(&(bill.node, pod)),
        }
    }

    /// A pod takes over the place of another, at the price of that.
    pub(super) fn hand_bill(&mut self, from: PodIdx, to: PodIdx) {
        if let Some(bill) = self.bills.get(from) {
            self.bills.put(to, bill, false);
        }
    }

    /// What a node costs changed: bills of its pods that nobody froze follow, and what is counted
    /// of them for budgets.
    pub(super) fn rebill(&mut self, node: Option<NodeIdx>, changes: &mut Changes) {
        if node.is_some() {
            self.spending.reprice(node);
        }
        let Some(node) = node.filter(|_| !self.bills.open.is_empty()) else { return };
        let from = self.bills.open.range((node, PodIdx::FIRST)..);
        let open: Vec<PodIdx> = from.take_while(|(of, _)| *of == node).map(|(_, p)| *p).collect();
        for pod in open {
            let per_hour = self.price_on(pod, node);
            let Some((queue, fr)) = self.payer(pod) else { continue };
            if self.bills.get(pod).is_some_and(|bill| bill.per_hour == per_hour) {
                continue;
            }
            let charged = self.pods[pod].place.is_some();
            let before = self.bills.amount(pod);
            self.bills.put(pod, Bill { node, per_hour }, true);
            if charged {
                self.quota.change(queue, fr, -before);
                self.quota.change(queue, fr, self.bills.amount(pod));
            }
            if self.bills.amount(pod) < before {
                self.quota.advance(queue);
                changes.queues.insert(queue);
            }
            changes.dirty.extend(self.pods[pod].workload);
        }
    }

    /// The same of all nodes.
    pub(super) fn rebill_all(&mut self, changes: &mut Changes) {
        self.spending.reprice(None);
        let nodes: BTreeSet<NodeIdx> = self.bills.open.iter().map(|(node, _)| *node).collect();
        nodes.into_iter().for_each(|node| self.rebill(Some(node), changes));
    }

    /// Price per hour of what a placed pod holds: what it is charged, where it is, else that of
    /// its share of the node now. `None`: not placed, or unknown.
    pub fn price(&self, pod: PodIdx) -> Option<MicroUsd> {
        match self.bills.get(pod).filter(|_| self.pods[pod].place.is_some()) {
            Some(bill) => bill.per_hour,
            None => self.pod_hourly(&self.pods[pod]),
        }
    }

    /// What one more member of a shape would be charged, as far as those say that a workload has:
    /// the most that one of its shape is, else one of any.
    pub(crate) fn dearest(&self, workload: WorkloadIdx, shape: Option<ShapeIdx>) -> i64 {
        let of = |shape: Option<ShapeIdx>| {
            let alike = |pod: &PodIdx| shape.is_none_or(|shape| self.pods[*pod].shape == shape);
            let bills = self.placed(workload).filter(alike).map(|pod| self.bills.amount(pod));
            bills.max()
        };
        of(shape).or_else(|| of(None)).unwrap_or(0)
    }

    /// Compares bills with who is to have one.
    ///
    /// # Panics
    /// When they differ: that is our own error.
    pub(super) fn recount_bills(&self) {
        let mut payers = 0;
        for (pod, entry) in self.pods.iter() {
            let Some(node) = entry.place.filter(|_| self.payer(pod).is_some()) else { continue };
            let name = &entry.name;
            let bill = self.bills.get(pod).unwrap_or_else(|| panic!("{name} has no bill"));
            assert_eq!(bill.node, node, "{name} is charged for another node");
            let open = self.bills.open.contains(&(node, pod));
            if open {
                assert_eq!(bill.per_hour, self.price_on(pod, node), "the open bill of {name}");
            }
            payers += 1;
        }
        assert_eq!(self.bills.of.len(), payers, "bills of pods that have no place");
        let known = |(node, pod): &(NodeIdx, PodIdx)| {
            self.bills.get(*pod).is_some_and(|bill| bill.node == *node)
        };
        assert!(self.bills.open.iter().all(known), "open bills that are none");
    }
}

/// An amount that a set charges for one member, or that member's bill.
pub(super) fn charged(bills: &Bills, pod: PodIdx, amount: i64) -> i64 {
    if amount == BY_NODE { bills.amount(pod) } else { amount }
}
