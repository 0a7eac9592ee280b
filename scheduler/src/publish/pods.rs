//! What a waiting pod's PodScheduled condition says, and which node it is nominated for.
//!
//! `nominatedNodeName` says where room is being made by preemption, and nothing else: autoscalers
//! build no node for such a pod. It is cleared with the plan.
//!
//! `Unschedulable` is what autoscalers build nodes for, so only work that waits for room carries
//! it, with kube-scheduler's words; whoever waits for quota, a queue, members or victims carries
//! the word of that.

use capstan_core::explain::reason::{FlavorProblem, NodeShortage, Reason};
use capstan_core::explain::wording::nodes::histogram;
use capstan_core::model::input::Text;
use capstan_core::plan::State;

use crate::live::Unscheduled;

/// What autoscalers build nodes for.
const UNSCHEDULABLE: &str = "Unschedulable";

/// Reason and message of `PodScheduled: False`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCondition {
    /// One word.
    pub reason: String,
    /// For people; for room in kube-scheduler's form.
    pub message: String,
    /// `status.nominatedNodeName`: where victims make room for it.
    pub node: Option<Text>,
}

impl PodCondition {
    /// What a pod says already.
    pub fn found(found: &Unscheduled) -> PodCondition {
        let (reason, message) = (found.reason.to_string(), found.message.to_string());
        PodCondition { reason, message, node: found.node.clone() }
    }

    /// Whether it is what a pod says already.
    pub fn is(&self, found: &Unscheduled) -> bool {
        *self.reason == *found.reason && *self.message == *found.message && self.node == found.node
    }

    /// Whether it is not so of a member that waits and of which nothing is decided now: that room
    /// is being made for it, or, while others are missing, that it would start with more nodes.
    pub fn misleads(&self, state: State) -> bool {
        self.node.is_some() || state == State::Gathering && self.reason == UNSCHEDULABLE
    }

    /// Whether autoscalers act on it: they build nodes for who asks for them, and none for who
    /// names one.
    pub fn is_acted_on(&self) -> bool {
        self.node.is_some() || self.reason == UNSCHEDULABLE
    }
}

/// What a member that waits for this reason says.
pub fn condition(reason: &Reason) -> PodCondition {
    match shortage(reason) {
        Some(nodes) => {
            let (reason, message) = (UNSCHEDULABLE.to_owned(), histogram(nodes));
            PodCondition { reason, message, node: None }
        }
        None => {
            let (reason, message) = (reason.code().to_owned(), reason.to_string());
            PodCondition { reason, message, node: None }
        }
    }
}

/// What a member says of which nothing is decided, and that named a node before.
pub fn undecided() -> PodCondition {
    let (reason, message) = ("PendingEvaluation".to_owned(), "has not been considered yet".into());
    PodCondition { reason, message, node: None }
}

/// The nodes that lack room, if that is what it waits for.
fn shortage(reason: &Reason) -> Option<&NodeShortage> {
    match reason {
        Reason::Nodes(nodes) => Some(nodes),
        Reason::Flavors { tried, .. } if reason.kind() == "nodes" => {
            tried.iter().find_map(|refusal| match &refusal.why {
                FlavorProblem::Nodes(nodes) => Some(&**nodes),
                _ => None,
            })
        }
        Reason::LostRace { then }
        | Reason::Together { then, .. }
        | Reason::Incomplete { then: Some(then), .. }
        | Reason::Extras { then: Some(then), .. } => shortage(then),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use capstan_core::explain::reason::{DomainShortage, FlavorRefusal, NoVictims, NodeRefusal};

    use super::*;

    fn nodes() -> Box<NodeShortage> {
        let insufficient = NodeRefusal::Insufficient {
            resource: "nvidia.com/gpu".into(),
            asked: 8,
            free: 0,
            beyond_node: false,
        };
        let refusals = vec![(insufficient, 2)];
        Box::new(NodeShortage {
            nodes: 2,
            asked: 1,
            holds: 0,
            refusals,
            nearest: None,
            unwanted: None,
            gone: 0,
            ended: None,
        })
    }

    fn short() -> FlavorProblem {
        FlavorProblem::Short {
            resource: "nvidia.com/gpu".into(),
            asked: 8,
            others: 0,
            left: 4,
            cohort: None,
            own: 4,
            strait: None,
            victims: NoVictims::NotAsked,
        }
    }

    fn flavors(why: FlavorProblem) -> Reason {
        either([why])
    }

    fn either<const N: usize>(whys: [FlavorProblem; N]) -> Reason {
        let refusal = |why| FlavorRefusal { flavor: "f".into(), why };
        let tried = whys.into_iter().map(refusal).collect();
        Reason::Flavors { cluster_queue: "q".into(), pod_set: "main".into(), tried }
    }

    #[test]
    fn only_room_is_unschedulable() {
        let text = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.";
        let incomplete =
            Reason::Incomplete { have: 1, need: 2, then: Some(Box::new(Reason::Nodes(nodes()))) };
        let extras = Reason::Extras { waiting: 3, then: Some(Box::new(Reason::Nodes(nodes()))) };
        let of_flavor = flavors(FlavorProblem::Nodes(nodes()));
        let rooms = [Reason::Nodes(nodes()), of_flavor, incomplete, extras];
        for room in rooms {
            let said = condition(&room);
            assert_eq!((said.reason.as_str(), said.message.as_str()), ("Unschedulable", text));
        }
        let others = [
            (flavors(short()), "WaitingForQuota"),
            (Reason::WaitingForVictims { victims: 1 }, "WaitingForPreemptedWorkloads"),
            (Reason::Behind { ahead: 2, queue: "q".into() }, "PendingEvaluation"),
            (Reason::LostRace { then: Box::new(flavors(short())) }, "WaitingForQuota"),
        ];
        for (reason, word) in others {
            let said = condition(&reason);
            assert_eq!(said.reason, word);
            assert!(!said.message.contains("nodes are available"), "{}", said.message);
        }
        // With quota for the one flavor it would have no need of the other's nodes.
        for both in
            [[short(), FlavorProblem::Nodes(nodes())], [FlavorProblem::Nodes(nodes()), short()]]
        {
            assert_eq!(condition(&either(both)).reason, "WaitingForQuota");
        }
    }

    /// Alerts read these: they are words of Kueue's API.
    #[test]
    fn reasons_why_work_waits_are_kueues() {
        let most = FlavorProblem::ExceedsMax {
            resource: "nvidia.com/gpu".into(),
            asked: 8,
            others: 0,
            most: 4,
        };
        let topology = Reason::Topology(Box::new(DomainShortage {
            level: "rack".into(),
            asked: 4,
            best: None,
            holds: 2,
            next: None,
            slice: None,
            gone: 0,
            ended: None,
        }));
        let missing = Reason::LocalQueueMissing { namespace: "n".into(), name: "q".into() };
        let rows = [
            (flavors(FlavorProblem::Affinity), "NoMatchingFlavor"),
            (flavors(short()), "WaitingForQuota"),
            (flavors(most), "ExceedsMaxQuota"),
            (topology, "TopologyPlacementFailed"),
            (Reason::WaitingForVictims { victims: 1 }, "WaitingForPreemptedWorkloads"),
            (missing, "Misconfigured"),
            (Reason::LocalQueueStopped { local_queue: "n/q".into() }, "Suspended"),
            (Reason::Behind { ahead: 2, queue: "q".into() }, "PendingEvaluation"),
            (Reason::AwaitsOthers { workload: "n/w".into() }, "WaitingForPodsReady"),
        ];
        for (reason, word) in rows {
            assert_eq!(condition(&reason).reason, word, "{reason}");
        }
    }

    #[test]
    fn who_lacks_quota_says_of_what_in_which_flavor_and_how_much() {
        let said = condition(&flavors(short())).message;
        for part in ["q has 4 GPUs left", "8 asked", "flavor f"] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
}
