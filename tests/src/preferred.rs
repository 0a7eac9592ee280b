//! kube-scheduler's scores of pods around by their definition: every question scans all nodes and
//! pods.
//!
//! Slow and obviously right, for properties: by how much the pods around draw a pod to a node, and
//! how full a node's domains are of pods that a pod had rather be spread among. Floating point, as
//! there.

use std::collections::BTreeSet;

use capstan_core::model::input::{PeerTerm, PodShape, Spread, Text};
use capstan_core::rules::neighbours::Tenancy;

use crate::around::{Cluster, Placed, counts};

/// The best score.
const BEST: f64 = 100.0;

impl Cluster {
    /// The nodes that a pod's selector and their taints leave it.
    pub fn candidates(&self, shape: &PodShape) -> Vec<usize> {
        let all = (0..self.nodes.len()).filter(|node| self.selects(*node, shape));
        all.filter(|node| self.nodes[*node].taints.is_empty()).collect()
    }

    /// InterPodAffinity before it is scaled.
    pub fn drawn(&self, node: usize, shape: &PodShape) -> i64 {
        let there = self.placed.iter().filter(|placed| placed.tenancy != Tenancy::Nominated);
        there.map(|placed| self.drawn_by(node, shape, placed)).sum()
    }

    /// InterPodAffinity of nodes that are left, from none to a thousand, rounded down: from the
    /// node with the least to the one with the most. `None`: all have the same.
    pub fn attraction(&self, nodes: &[usize], shape: &PodShape) -> Option<Vec<u32>> {
        let sums: Vec<i64> = nodes.iter().map(|node| self.drawn(*node, shape)).collect();
        let (least, most) = (*sums.iter().min()?, *sums.iter().max()?);
        let scaled = |sum: &i64| ((sum - least) * 1_000 / (most - least)) as u32;
        (least < most).then(|| sums.iter().map(scaled).collect())
    }

    fn drawn_by(&self, node: usize, shape: &PodShape, placed: &Placed) -> i64 {
        let together = |term: &PeerTerm| {
            let value = self.value(node, &term.key);
            value.is_some() && value == self.value(placed.node, &term.key)
        };
        let preferred = |of: &PodShape, meant: &PodShape| -> i64 {
            let wants = of.neighbours.iter().flat_map(|wants| wants.preferred.clone());
            let held = wants.filter(|it| together(&it.term) && self.means(&it.term.peers, meant));
            held.map(|it| i64::from(it.weight)).sum()
        };
        let required = placed.shape.neighbours.iter().flat_map(|wants| wants.affinity.clone());
        let required = required.filter(|term| together(term) && self.means(&term.peers, shape));
        preferred(shape, &placed.shape) + preferred(&placed.shape, shape) + required.count() as i64
    }

    /// PodTopologySpread, of nodes that are left: raw sums, and those scaled to 0 to 100. `None`:
    /// the node lacks a key.
    pub fn fullness(&self, nodes: &[usize], shape: &PodShape) -> Vec<Option<(f64, f64)>> {
        let spread = shape.neighbours.iter().flat_map(|wants| &wants.spread);
        let soft: Vec<&Spread> = spread.filter(|spread| !spread.required).collect();
        let has_all = |node: usize| soft.iter().all(|it| self.value(node, &it.key).is_some());
        let sum = |node: usize| {
            let of_one = |spread: &&Spread| {
                let values = nodes.iter().filter(|node| has_all(**node));
                let values: BTreeSet<Option<&Text>> =
                    values.map(|node| self.value(*node, &spread.key)).collect();
                let weight = ((values.len() + 2) as f64).ln();
                let count = self.counted(spread, shape, node, &has_all);
                count as f64 * weight + f64::from(spread.max_skew - 1)
            };
            has_all(node).then(|| soft.iter().map(of_one).sum::<f64>())
        };
        let sums: Vec<Option<f64>> = nodes.iter().map(|node| sum(*node)).collect();
        let known = || sums.iter().flatten().copied();
        let (least, most) = (known().fold(f64::MAX, f64::min), known().fold(0.0, f64::max));
        let scaled = |sum: f64| match most {
            0.0 => BEST,
            _ => BEST * (most + least - sum) / most,
        };
        sums.iter().map(|sum| sum.map(|sum| (sum, scaled(sum)))).collect()
    }

    /// Pods in the domain of a node that a constraint counts.
    fn counted(
        &self,
        spread: &Spread,
        shape: &PodShape,
        node: usize,
        has_all: &dyn Fn(usize) -> bool,
    ) -> usize {
        let counted = self.placed.iter().filter(|placed| {
            let selected = !spread.honors_affinity || self.selects(placed.node, shape);
            let untainted = !spread.honors_taints || self.nodes[placed.node].taints.is_empty();
            has_all(placed.node)
                && selected
                && untainted
                && placed.tenancy != Tenancy::Nominated
                && self.value(placed.node, &spread.key) == self.value(node, &spread.key)
                && counts(spread, shape, placed)
        });
        counted.count()
    }
}
