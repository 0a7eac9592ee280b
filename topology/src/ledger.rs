//! The ledger: what every node has, what is held on it, and what is claimed there.
//!
//! *Held* is what placed pods use. *Claimed* is room kept for work whose victims are still
//! leaving; it counts like held for everybody else. Free may be negative: facts from outside can
//! overcommit a node, which then blocks only those that ask for that resource. Mutators return
//! their undo and keep no history; [`Ledger::recount`] recomputes `held` from scratch. Requests and
//! node slots that nothing uses any more are forgotten when the owner says so.

use crate::capacity::{Request, ResourceSum, ResourceVector, UNLIMITED};
use crate::ids::{NodeIdx, RequestIdx, ResourceIdx};
use crate::intern::Interner;

/// Capacity, holdings and claims of all nodes.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    nodes: Vec<NodeLedger>,
    /// By number; a free one asks nothing.
    requests: Vec<Request>,
    known: Interner<Request>,
}

#[derive(Clone, Debug, Default)]
struct NodeLedger {
    allocatable: ResourceVector,
    held: ResourceSum,
    claimed: ResourceSum,
    pods: u32,
}

/// Takes one change of the ledger back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerUndo {
    /// A request was taken.
    Taken(NodeIdx, RequestIdx),
    /// A request was given back.
    Given(NodeIdx, RequestIdx),
    /// A claim grew by an amount (shrank, if negative).
    Claimed(NodeIdx, ResourceIdx, i64),
}

impl LedgerUndo {
    /// The node whose numbers change.
    pub fn node(self) -> NodeIdx {
        match self {
            LedgerUndo::Taken(node, _)
            | LedgerUndo::Given(node, _)
            | LedgerUndo::Claimed(node, _, _) => node,
        }
    }
}

impl Ledger {
    /// The handle of a request, the same for equal requests.
    pub fn intern(&mut self, request: Request) -> RequestIdx {
        if let Some(known) = self.known.find(&request) {
            return RequestIdx(known);
        }
        let index = RequestIdx(self.known.add(request.clone()));
        self.requests.resize_with(self.known.slots(), Request::default);
        self.requests[index.at()] = request;
        index
    }

    /// The requests that are interned.
    pub fn requests(&self) -> &Interner<Request> {
        &self.known
    }

    /// Forgets the requests that are not marked.
    pub fn sweep_requests(&mut self, used: &[bool]) {
        self.known.sweep(used, &mut self.requests, |request| *request = Request::default());
    }

    /// Forgets what a node has. Nothing may be held or claimed there.
    pub fn forget_node(&mut self, node: NodeIdx) {
        let entry = std::mem::take(&mut self.nodes[node.at()]);
        let empty = ResourceSum::default();
        assert!(entry.pods == 0 && entry.held == empty && entry.claimed == empty, "in use");
    }

    /// Gives back the memory of node slots from one on, which were all forgotten.
    pub fn truncate_nodes(&mut self, slots: usize) {
        self.nodes.truncate(slots);
    }

    /// The request behind a handle.
    #[inline]
    pub fn request(&self, index: RequestIdx) -> &Request {
        &self.requests[index.at()]
    }

    /// States what a node has; holdings stay as they are.
    pub fn set_allocatable(&mut self, node: NodeIdx, allocatable: ResourceVector) {
        if self.nodes.len() <= node.at() {
            self.nodes.resize_with(node.at() + 1, NodeLedger::default);
        }
        self.nodes[node.at()].allocatable = allocatable;
    }

    /// What a node has of a resource; [`UNLIMITED`] never runs out.
    #[inline]
    pub fn allocatable(&self, node: NodeIdx, resource: ResourceIdx) -> i64 {
        self.nodes[node.at()].allocatable.get(resource)
    }

    /// All that a node has.
    pub fn capacity(&self, node: NodeIdx) -> &ResourceVector {
        &self.nodes[node.at()].allocatable
    }

    /// All that is held on a node.
    pub fn held(&self, node: NodeIdx) -> &ResourceSum {
        &self.nodes[node.at()].held
    }

    /// Pods that hold something on a node.
    pub fn pods(&self, node: NodeIdx) -> u32 {
        self.nodes[node.at()].pods
    }

    /// What is neither held nor claimed; negative after overcommitment from outside.
    #[inline]
    pub fn free(&self, node: NodeIdx, resource: ResourceIdx) -> i64 {
        let node = &self.nodes[node.at()];
        match node.allocatable.get(resource) {
            UNLIMITED => UNLIMITED,
            has => clamped(i128::from(has) - node.held.get(resource) - node.claimed.get(resource)),
        }
    }

    /// How many more pods of this request the node holds, at most `u32::MAX`.
    #[inline]
    pub fn slots(&self, node: NodeIdx, request: RequestIdx) -> u32 {
        let mut slots = i64::from(u32::MAX);
        for &(resource, asked) in self.requests[request.at()].entries() {
            let free = self.free(node, resource);
            if free < asked {
                return 0;
            }
            slots = slots.min(free / asked);
        }
        slots as u32
    }

    /// A pod takes what it asks.
    pub fn take(&mut self, node: NodeIdx, request: RequestIdx) -> LedgerUndo {
        self.change(node, request, 1);
        LedgerUndo::Taken(node, request)
    }

    /// A pod gives back what it held.
    pub fn give(&mut self, node: NodeIdx, request: RequestIdx) -> LedgerUndo {
        self.change(node, request, -1);
        LedgerUndo::Given(node, request)
    }

    /// A claim grows by `amount`, or shrinks when that is negative.
    pub fn claim(&mut self, node: NodeIdx, resource: ResourceIdx, amount: i64) -> LedgerUndo {
        let claimed = &mut self.nodes[node.at()].claimed;
        claimed.add(resource, amount);
        assert!(claimed.get(resource) >= 0, "a claim below zero");
        LedgerUndo::Claimed(node, resource, amount)
    }

    /// Takes one change back; undos must come in reverse order.
    pub fn undo(&mut self, undo: LedgerUndo) {
        match undo {
            LedgerUndo::Taken(node, request) => self.change(node, request, -1),
            LedgerUndo::Given(node, request) => self.change(node, request, 1),
            LedgerUndo::Claimed(node, resource, amount) => {
                self.claim(node, resource, -amount);
            }
        }
    }

    fn change(&mut self, node: NodeIdx, request: RequestIdx, sign: i64) {
        let entry = &mut self.nodes[node.at()];
        for &(resource, amount) in self.requests[request.at()].entries() {
            entry.held.add(resource, sign * amount);
        }
        match sign {
            1 => entry.pods += 1,
            _ => entry.pods = entry.pods.checked_sub(1).expect("gave back more than was taken"),
        }
    }

    /// Compares `held` and `pods` of every node with a count from scratch over all holdings.
    ///
    /// # Panics
    /// When they differ: the ledger and its users disagree, which is our own error.
    pub fn recount(&self, holdings: impl Iterator<Item = (NodeIdx, RequestIdx)>) {
        self.known.recount();
        let mut counted: Vec<(ResourceSum, u32)> =
            vec![(ResourceSum::default(), 0); self.nodes.len()];
        for (node, request) in holdings {
            let (held, pods) = &mut counted[node.at()];
            for &(resource, amount) in self.requests[request.at()].entries() {
                held.add(resource, amount);
            }
            *pods += 1;
        }
        for (at, (held, pods)) in counted.iter().enumerate() {
            assert_eq!(&self.nodes[at].held, held, "held on node slot {at}");
            assert_eq!(self.nodes[at].pods, *pods, "pods on node slot {at}");
        }
    }

    /// Compares what is claimed on every node with the claims that exist.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount_claims(&self, claims: impl Iterator<Item = (NodeIdx, ResourceIdx, i64)>) {
        let mut counted = vec![ResourceSum::default(); self.nodes.len()];
        for (node, resource, amount) in claims {
            counted[node.at()].add(resource, amount);
        }
        for (at, claimed) in counted.iter().enumerate() {
            assert_eq!(&self.nodes[at].claimed, claimed, "claimed on node slot {at}");
        }
    }
}

/// The nearest that an [`i64`] holds.
#[inline]
pub fn clamped(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: ResourceIdx = ResourceIdx(1);
    const NODE: NodeIdx = NodeIdx(0);

    fn one_node(gpus: i64) -> (Ledger, RequestIdx) {
        let mut ledger = Ledger::default();
        let mut has = ResourceVector::default();
        has.set(GPU, gpus);
        ledger.set_allocatable(NODE, has);
        let two = ledger.intern(Request::new([(GPU, 2)]));
        (ledger, two)
    }

    #[test]
    fn slots_count_whole_pods_only() {
        let (mut ledger, two) = one_node(7);
        assert_eq!(ledger.slots(NODE, two), 3);
        ledger.take(NODE, two);
        assert_eq!((ledger.slots(NODE, two), ledger.free(NODE, GPU)), (2, 5));
        ledger.claim(NODE, GPU, 4);
        assert_eq!((ledger.slots(NODE, two), ledger.free(NODE, GPU)), (0, 1));
    }

    #[test]
    fn undo_restores_every_number() {
        let (mut ledger, two) = one_node(8);
        let before = ledger.free(NODE, GPU);
        let undos = [ledger.take(NODE, two), ledger.claim(NODE, GPU, 3), ledger.give(NODE, two)];
        for undo in undos.into_iter().rev() {
            ledger.undo(undo);
        }
        assert_eq!(ledger.free(NODE, GPU), before);
        ledger.recount(std::iter::empty());
        ledger.recount_claims(std::iter::empty());
    }

    #[test]
    fn sums_beyond_any_amount_are_taken_back_whole() {
        let (mut ledger, _) = one_node(i64::MAX - 1);
        let huge = ledger.intern(Request::new([(GPU, i64::MAX / 3 * 2)]));
        let undos = [ledger.take(NODE, huge), ledger.take(NODE, huge), ledger.claim(NODE, GPU, 5)];
        assert_eq!((ledger.slots(NODE, huge), ledger.free(NODE, GPU) < 0), (0, true));
        ledger.recount([(NODE, huge), (NODE, huge)].into_iter());
        for undo in undos.into_iter().rev() {
            ledger.undo(undo);
        }
        assert_eq!((ledger.slots(NODE, huge), ledger.free(NODE, GPU)), (1, i64::MAX - 1));
    }

    #[test]
    fn debt_from_outside_is_a_negative_number_and_blocks_only_its_resource() {
        let (mut ledger, two) = one_node(1);
        ledger.take(NODE, two);
        assert_eq!(ledger.free(NODE, GPU), -1);
        let nothing = ledger.intern(Request::new([]));
        assert_eq!(ledger.slots(NODE, nothing), u32::MAX);
    }

    #[test]
    fn unlimited_never_runs_out() {
        let (mut ledger, two) = one_node(UNLIMITED);
        ledger.take(NODE, two);
        assert_eq!(ledger.free(NODE, GPU), UNLIMITED);
    }

    #[test]
    fn a_forgotten_request_gives_its_number_back() {
        let (mut ledger, two) = one_node(8);
        let one = ledger.intern(Request::new([(GPU, 1)]));
        ledger.take(NODE, one);
        ledger.sweep_requests(&[false, true]);
        assert_eq!(ledger.requests().len(), 1);
        assert_eq!(ledger.request(one).get(GPU), 1, "what is used stays where it is");
        assert_eq!(ledger.intern(Request::new([(GPU, 5)])), two);
        assert_eq!(ledger.slots(NODE, two), 1);
        ledger.recount([(NODE, one)].into_iter());
    }

    #[test]
    fn a_forgotten_node_has_nothing() {
        let (mut ledger, two) = one_node(8);
        ledger.take(NODE, two);
        ledger.give(NODE, two);
        ledger.forget_node(NODE);
        ledger.recount(std::iter::empty());
        assert_eq!(ledger.slots(NODE, two), 0);
        ledger.truncate_nodes(0);
        ledger.recount(std::iter::empty());
    }

    #[test]
    #[should_panic(expected = "in use")]
    fn a_node_that_holds_something_is_not_forgotten() {
        let (mut ledger, two) = one_node(8);
        ledger.take(NODE, two);
        ledger.forget_node(NODE);
    }

    #[test]
    #[should_panic(expected = "held on node slot 0")]
    fn recount_notices_a_lost_holding() {
        let (mut ledger, two) = one_node(8);
        ledger.take(NODE, two);
        ledger.recount(std::iter::empty());
    }
}
