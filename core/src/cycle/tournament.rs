//! Who of a round's heads is settled next while fair sharing is on.
//!
//! Problem: heads of queues that share a cohort are nominated against one state, and what is left
//! to borrow goes to whoever is settled first. By shares it goes to who has least (spec/quota.md
//! 9.3, Kueue's): at every cohort each child proposes one head, and the children are compared as if
//! their heads ran. Who of them borrows nothing of what its head asks goes before who does; then
//! the smaller share, the higher priority, the earlier head, the uid. The winner stands for its
//! cohort one level up, with that cohort's share, until the root has one.
//!
//! Trees share no quota, only room: between their winners less borrowing goes first, as without
//! fair sharing.
//!
//! Kept: for each head how its queue, and the cohorts around it below the root, stand as if it ran,
//! and for each cohort who won. When a head was settled, those that changed with it are found
//! anew: the cohorts around it, and what stands below them; the whole tree where somebody has to
//! leave, because that changes the victims' queues. Debug builds compare with all found anew.
//! Nothing survives a round. Cost: for each head that is settled one comparison for each child of
//! the cohorts around it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::cycle::{Entry, Round, Verdict};
use crate::engine::Engine;
use crate::model::ids::QuotaIdx;
use crate::model::input::Text;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::quota::share::Share;
use crate::time::Time;

/// How a node stands as if a head below it ran; less goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stand {
    /// It borrows something that the head asks.
    borrows: bool,
    share: Share,
}

/// A head that was not settled yet.
struct Proposal {
    entry: Option<Entry>,
    /// Its queue, and the cohorts around it but for the root.
    path: Vec<(QuotaIdx, Stand)>,
}

/// Order of trees: that of a round without shares, of their winners.
type TreeOrder = (u32, Reverse<i32>, Time, Text, QuotaIdx);

/// The heads of a round, and who of them leads below each node.
struct Tournament {
    proposals: Vec<Proposal>,
    /// By node: who leads at or below it.
    leads: Vec<Option<usize>>,
    /// By node: children at or below which there are heads.
    below: Vec<Vec<QuotaIdx>>,
    /// Cohorts of which it is to be found anew who leads.
    stale: BTreeSet<QuotaIdx>,
    trees: BTreeSet<TreeOrder>,
}

impl Engine {
    /// Settles heads of different queues one by one, each time the one whose turn it is by shares.
    pub(super) fn settle_by_share(&mut self, now: Time, entries: Vec<Entry>, round: &mut Round) {
        self.by_share(entries, |engine, entry| {
            engine.settle(now, entry, round);
            ControlFlow::Continue(())
        });
    }

    /// Takes heads of different queues one by one in the order in which a round settles them, until
    /// it is enough.
    pub(crate) fn in_turns(
        &mut self,
        mut entries: Vec<Entry>,
        mut act: impl FnMut(&mut Engine, Entry) -> ControlFlow<()>,
    ) {
        if self.state.quota.shares_fairly() && entries.len() > 1 {
            return self.by_share(entries, act);
        }
        entries.sort_by(|a, b| self.settling_order(a).cmp(&self.settling_order(b)));
        for entry in entries {
            if act(self, entry).is_break() {
                return;
            }
        }
    }

    fn by_share(
        &mut self,
        entries: Vec<Entry>,
        mut act: impl FnMut(&mut Engine, Entry) -> ControlFlow<()>,
    ) {
        let mut tournament = Tournament::new(&mut self.state, entries);
        while let Some((entry, node)) = tournament.next(&mut self.state) {
            // A claim counts in the queues of its victims too.
            let claims = self.state.claims.get(entry.workload).is_some();
            let far = claims || matches!(entry.verdict, Verdict::Preempt(_));
            if act(self, entry).is_break() {
                return;
            }
            tournament.settled(&mut self.state, node, far);
        }
    }
}

impl Tournament {
    fn new(state: &mut ClusterState, entries: Vec<Entry>) -> Tournament {
        let nodes = state.quota.tree.len();
        let mut tournament = Tournament {
            proposals: Vec::with_capacity(entries.len()),
            leads: vec![None; nodes],
            below: vec![Vec::new(); nodes],
            stale: BTreeSet::new(),
            trees: BTreeSet::new(),
        };
        let mut linked = BTreeSet::new();
        let mut roots = BTreeSet::new();
        for (at, entry) in entries.into_iter().enumerate() {
            let queue = entry.queue.expect("heads of one round have queues of their own");
            let node = state.quota.queue(queue).node.expect("only existing queues have heads");
            let tree = &state.quota.tree;
            roots.insert(tree.root(node));
            let up = std::iter::successors(Some(node), |node| tree.parent(*node));
            for node in up.take_while(|node| linked.insert(*node)) {
                if let Some(parent) = tree.parent(node) {
                    tournament.below[parent.at()].push(node);
                    tournament.stale.insert(parent);
                }
            }
            let path = stands(state, &entry, node);
            assert!(tournament.leads[node.at()].is_none(), "one head of each queue");
            tournament.leads[node.at()] = Some(at);
            tournament.proposals.push(Proposal { entry: Some(entry), path });
        }
        tournament.find_leads(state);
        roots.into_iter().for_each(|root| tournament.file(state, root));
        tournament
    }

    /// The next head, and the node of its queue.
    fn next(&mut self, state: &mut ClusterState) -> Option<(Entry, QuotaIdx)> {
        let (.., root) = self.trees.pop_first()?;
        if cfg!(debug_assertions) && state.small() {
            self.recount(state);
        }
        let winner = self.leads[root.at()].expect("a tree that is filed has heads");
        let entry = self.proposals[winner].entry.take().expect("it was not settled yet");
        let queue = entry.queue.expect("it has a queue");
        let node = state.quota.queue(queue).node.expect("the queue exists");
        self.leads[node.at()] = None;
        Some((entry, node))
    }

    /// A head was settled: how others of its tree stand now, and who leads.
    fn settled(&mut self, state: &mut ClusterState, node: QuotaIdx, far: bool) {
        let tree = &state.quota.tree;
        let root = tree.root(node);
        let up = std::iter::successors(tree.parent(node), |node| tree.parent(*node));
        let around: Vec<QuotaIdx> = up.collect();
        self.stale.extend(&around);
        // Below the highest cohort that changed and has a share; from the root on if anything may.
        let top = if far { around.last() } else { around.iter().rev().nth(1) };
        let mut open: Vec<QuotaIdx> = top.copied().into_iter().collect();
        while let Some(node) = open.pop() {
            let children = &self.below[node.at()];
            if !children.is_empty() {
                self.stale.insert(node);
                open.extend(children);
            } else if let Some(at) = self.leads[node.at()]
                && let Some(entry) = &self.proposals[at].entry
            {
                self.proposals[at].path = stands(state, entry, node);
            }
        }
        self.find_leads(state);
        self.file(state, root);
    }

    /// Who leads in cohorts where that is to be found anew, inner ones first.
    fn find_leads(&mut self, state: &ClusterState) {
        while let Some(cohort) = self.stale.pop_last() {
            let proposed = |child: &QuotaIdx| Some((*child, self.leads[child.at()]?));
            let best = self.below[cohort.at()].iter().filter_map(proposed).min_by(|one, other| {
                let stand = |(child, at): &(QuotaIdx, usize)| self.proposals[*at].at(*child);
                let order = |at: usize| {
                    let entry = self.proposals[at].entry.as_ref().expect("it was not settled yet");
                    state.queue_order(entry.workload)
                };
                let by_share = stand(one).cmp(&stand(other));
                by_share.then_with(|| order(one.1).cmp(&order(other.1)))
            });
            self.leads[cohort.at()] = best.map(|(_, at)| at);
        }
    }

    /// Files a tree under the order of its winner, if it has one.
    fn file(&mut self, state: &ClusterState, root: QuotaIdx) {
        let Some(winner) = self.leads[root.at()] else { return };
        let entry = self.proposals[winner].entry.as_ref().expect("it was not settled yet");
        let (priority, at, uid) = state.queue_order(entry.workload);
        self.trees.insert((entry.choice.borrowing, priority, at, uid.clone(), root));
    }

    /// Compares what is kept of heads with what is found anew.
    ///
    /// # Panics
    /// When they differ.
    fn recount(&self, state: &mut ClusterState) {
        for proposal in &self.proposals {
            if let (Some(entry), Some((node, _))) = (&proposal.entry, proposal.path.first()) {
                assert_eq!(stands(state, entry, *node), proposal.path, "shares of {entry:?}");
            }
        }
    }
}

impl Proposal {
    /// How a node stands with it.
    fn at(&self, node: QuotaIdx) -> Stand {
        let known = self.path.iter().find(|(known, _)| *known == node);
        known.expect("it is at or below that node").1
    }
}

/// How a queue, and each cohort around it but for the root, stands as if its head ran.
fn stands(state: &mut ClusterState, entry: &Entry, queue: QuotaIdx) -> Vec<(QuotaIdx, Stand)> {
    // What cannot run would hold nothing, and what is claimed counts already.
    let (runs, claims) = (entry.verdict != Verdict::NoFit, state.claims.get(entry.workload));
    let claims = claims.is_some();
    let asked = || entry.choice.usage.iter().filter(move |(_, amount)| runs && *amount > 0);
    let mut txn = Txn::begin(state);
    if let Some(queue) = entry.queue.filter(|_| !claims) {
        asked().for_each(|(fr, amount)| txn.propose(queue, *fr, *amount, true));
    }
    let quota = &txn.state().quota;
    let up = std::iter::successors(Some(queue), |node| quota.tree.parent(*node));
    let below_root = up.take_while(|node| quota.tree.parent(*node).is_some());
    let stand = |node: QuotaIdx| {
        let borrows = asked().any(|(fr, _)| quota.tree.borrows(node, *fr, 0));
        (node, Stand { borrows, share: quota.share(node) })
    };
    below_root.map(stand).collect()
}
