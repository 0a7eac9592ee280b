//! The exact texts, reason by reason: whoever changes one sees who reads it.

use super::*;
use crate::explain::reason::{DomainShortage, Nearest, NodeRefusal, SearchBound, Unprepared};
use crate::explain::view::Change;
use crate::model::input::CapacityType;
use crate::money::MicroUsd;
use crate::plan::{Freed, Preemption, PreemptionReason};
use crate::time::{Span, Time};

fn gpus() -> Text {
    "nvidia.com/gpu".into()
}

fn shortage_of(asked: u32, holds: u32) -> NodeShortage {
    NodeShortage {
        nodes: 12,
        asked,
        holds,
        refusals: vec![
            (NodeRefusal::Taint { key: "a".into(), value: "".into() }, 3),
            (NodeRefusal::Taint { key: "b".into(), value: "".into() }, 1),
            (insufficient(8, 5, false), 8),
        ],
        nearest: Some(Nearest { node: "gpu-node-3".into(), resource: gpus(), asked: 8, free: 5 }),
        unwanted: None,
        gone: 0,
        ended: None,
    }
}

/// No rack holds four; this one holds most.
fn no_rack(best: Option<&str>, holds: u32) -> Reason {
    let (level, best) = ("rack".into(), best.map(Text::from));
    let (next, slice, ended) = (None, None, None);
    let short = DomainShortage { level, asked: 4, best, holds, next, slice, gone: 0, ended };
    Reason::Topology(Box::new(short))
}

fn insufficient(asked: i64, free: i64, beyond_node: bool) -> NodeRefusal {
    NodeRefusal::Insufficient { resource: gpus(), asked, free, beyond_node }
}

fn flavors(tried: Vec<FlavorRefusal>) -> Reason {
    Reason::Flavors { cluster_queue: "team-a".into(), pod_set: "main".into(), tried }
}

fn refusal(flavor: &str, why: FlavorProblem) -> FlavorRefusal {
    FlavorRefusal { flavor: flavor.into(), why }
}

fn short(cohort: Option<&str>, left: i64, asked: i64, tried: bool) -> FlavorProblem {
    short_of_own(0, cohort, left, asked, tried)
}

fn short_of_own(
    own: i64,
    cohort: Option<&str>,
    left: i64,
    asked: i64,
    tried: bool,
) -> FlavorProblem {
    let cohort = cohort.map(Text::from);
    let victims = if tried { NoVictims::TooFew } else { NoVictims::NotAsked };
    let (others, strait) = (0, None);
    FlavorProblem::Short { resource: gpus(), asked, others, left, cohort, own, strait, victims }
}

#[test]
fn queue_reasons_read_as_sentences() {
    let queue: Text = "team-a".into();
    let inactive = |why| Reason::Inactive { cluster_queue: "team-a".into(), why };
    let unselected = |selector_absent| Reason::NamespaceNotSelected {
        cluster_queue: "team-a".into(),
        namespace: "vision".into(),
        selector_absent,
    };
    let rows = [
        (Reason::Gathering { have: 3, need: 8 }, "Gathering", "3 of 8 pods exist"),
        (Reason::Gated { pods: 1 }, "SchedulingGated", "1 pod has scheduling gates"),
        (Reason::ForeignMembers { pods: 2 }, "Misconfigured", "2 pods name another scheduler"),
        (
            Reason::LocalQueueMissing { namespace: "vision".into(), name: "lq".into() },
            "Misconfigured",
            "LocalQueue vision/lq does not exist",
        ),
        (
            Reason::ClusterQueueMissing { local_queue: "vision/lq".into(), name: "cq".into() },
            "Misconfigured",
            "LocalQueue vision/lq points to ClusterQueue cq, which does not exist",
        ),
        (
            Reason::LocalQueueStopped { local_queue: "vision/lq".into() },
            "Suspended",
            "LocalQueue vision/lq is stopped (stopPolicy)",
        ),
        (inactive(Inactive::Stopped), "Suspended", "ClusterQueue team-a is stopped (stopPolicy)"),
        (
            inactive(Inactive::FlavorMissing("a100".into())),
            "Misconfigured",
            "ClusterQueue team-a is inactive: flavor a100 does not exist",
        ),
        (
            inactive(Inactive::CohortCycle("ai".into())),
            "Misconfigured",
            "ClusterQueue team-a is inactive: cohort ai is its own ancestor",
        ),
        (
            unselected(true),
            "Misconfigured",
            "ClusterQueue team-a has no namespaceSelector, which selects no namespace \
             (set namespaceSelector: {})",
        ),
        (
            unselected(false),
            "Misconfigured",
            "namespaceSelector of ClusterQueue team-a does not match namespace vision",
        ),
        (
            Reason::Unqueued,
            "Suspended",
            "has no queue, and unqueuedWorkloads: Hold keeps such work waiting",
        ),
        (
            Reason::NotCovered { cluster_queue: queue.clone(), resource: gpus(), asked: 8 },
            "NoMatchingFlavor",
            "ClusterQueue team-a has no quota for nvidia.com/gpu, 8 asked",
        ),
        (
            Reason::Behind { ahead: 1, queue },
            "PendingEvaluation",
            "1 workload is before it in team-a",
        ),
    ];
    for (reason, code, text) in rows {
        assert_eq!((reason.code(), reason.to_string().as_str()), (code, text));
        assert_eq!(reason.headline(), text, "short ones are their own headline");
    }
}

#[test]
fn what_is_held_and_what_is_not_ready_reads_as_a_sentence() {
    let device = Unprepared::Device("claim c: device g0 is not Attached".into());
    let rows = [
        (
            Reason::Deactivated { workload: "vision/train".into() },
            "Deactivated",
            "deactivated: Workload vision/train has spec.active: false",
        ),
        (
            Reason::Preparing { pods: 1, what: Unprepared::Volume("data-0".into()) },
            "Preparing",
            "claim data-0 is being bound to a volume",
        ),
        (
            Reason::Preparing { pods: 3, what: device },
            "Preparing",
            "not ready yet: claim c: device g0 is not Attached; 3 pods wait for what they use",
        ),
    ];
    for (reason, code, text) in rows {
        assert_eq!((reason.code(), reason.to_string().as_str()), (code, text));
    }
}

#[test]
fn reasons_of_members_that_join_read_as_sentences() {
    let rows = [
        (
            Reason::OwnerUnknown { owner: "Job train".into() },
            "Gathering",
            "Job train, which its pods belong to, is gone or was not seen yet",
        ),
        (
            Reason::GroupMissing { group: "PodGroup train (scheduling.x-k8s.io)".into() },
            "Gathering",
            "waits for PodGroup train (scheduling.x-k8s.io), which does not exist",
        ),
        (
            Reason::FlavorNotListed {
                cluster_queue: "team-a".into(),
                flavor: "a100".into(),
                resource: gpus(),
            },
            "NoMatchingFlavor",
            "ClusterQueue team-a does not list flavor a100, which those that run have for \
             nvidia.com/gpu",
        ),
        (
            Reason::BehindHead { head: "vision/big".into(), queue: "team-a".into() },
            "PendingEvaluation",
            "vision/big is before it in StrictFIFO queue team-a",
        ),
        (
            Reason::Extras { waiting: 2, then: None },
            "WaitingForQuota",
            "2 extra members wait: quota for them is short",
        ),
        (
            Reason::Extras { waiting: 1, then: Some(Box::new(Reason::Unqueued)) },
            "Suspended",
            "1 extra member waits: has no queue, and unqueuedWorkloads: Hold keeps such work \
             waiting",
        ),
    ];
    for (reason, code, text) in rows {
        assert_eq!((reason.code(), reason.to_string().as_str()), (code, text));
    }
}

#[test]
fn waiting_reasons_read_as_sentences() {
    let rows = [
        (
            Reason::NoFlavorYet {
                cluster_queue: "team-a".into(),
                resource: gpus(),
                pods: 2,
                asked: 8,
            },
            "NoMatchingFlavor",
            "no flavor of team-a can take 8 GPUs: none fits 2 pods that run",
        ),
        (
            Reason::LocalQueueBroken { local_queue: "vision/lq".into(), rule: "Twin: two".into() },
            "Misconfigured",
            "LocalQueue vision/lq is inactive: Twin: two",
        ),
        (
            Reason::WaitingForVictims { victims: 2 },
            "WaitingForPreemptedWorkloads",
            "waits for 2 preempted workloads to leave; the room is held for it",
        ),
        (
            Reason::WaitingForDevices { claim: "red/low-gpu".into(), more: 1 },
            "WaitingForPreemptedWorkloads",
            "waits until the devices of claim red/low-gpu and of 1 other claim are free, whose \
             users were preempted; the room is held for it",
        ),
        (
            Reason::StillHeld {
                cluster_queue: "team-a".into(),
                flavor: "h100".into(),
                resource: gpus(),
                asked: 8,
                left: 3,
            },
            "WaitingForPreemptedWorkloads",
            "3 GPUs left in team-a until preempted work has stopped, 8 asked (flavor h100)",
        ),
        (
            Reason::Backoff { until: Time(36_300_000), failure: "bind refused".into() },
            "Backoff",
            "waits until 1970-01-01T10:05:00Z after a failure: bind refused",
        ),
        (
            Reason::Preempted { preemptor: "language/eval".into() },
            "Preempted",
            "was preempted for language/eval and cannot come back by itself",
        ),
        (
            Reason::LostRace { then: Box::new(Reason::Gated { pods: 2 }) },
            "SchedulingGated",
            "2 pods have scheduling gates",
        ),
    ];
    for (reason, code, text) in rows {
        assert_eq!((reason.code(), reason.to_string().as_str()), (code, text));
    }
}

#[test]
fn levels_and_rooms_read_as_sentences() {
    let rows: Vec<(Reason, &str, &str)> = vec![
        (
            Reason::UnknownLevel {
                level: "rack".into(),
                is_level: false,
                known: vec!["zone".into(), "host".into()],
            },
            "Misconfigured",
            "topology level rack is unknown; known: zone, host (a Topology object adds levels)",
        ),
        (
            Reason::UnknownLevel { level: "rack".into(), is_level: true, known: vec![] },
            "Misconfigured",
            "topology level rack: no node has that label; levels in use: none",
        ),
        (
            no_rack(Some("r1"), 3),
            "TopologyPlacementFailed",
            "no one rack holds 4 pods; r1 holds most, 3",
        ),
        (
            Reason::Nodes(Box::new(shortage_of(4, 3))).with_gone(2),
            "WaitingForCapacity",
            "even with 2 workloads preempted, 3 of 4 pods fit; the next needs 8 nvidia.com/gpu, \
             the fullest match gpu-node-3 has 5 left beside them; 0/12 nodes are available: \
             4 node(s) had untolerated taint(s), 8 Insufficient nvidia.com/gpu",
        ),
    ];
    for (reason, code, text) in rows {
        assert_eq!((reason.code(), reason.to_string().as_str()), (code, text));
    }
}

#[test]
fn who_keeps_quota_back_is_named() {
    let reason = Reason::HeldBack {
        head: "team/big".into(),
        queue: "main".into(),
        flavor: "spot".into(),
        resource: gpus(),
        kept: 8,
        asked: 4,
        left: 0,
    };
    let said = "team/big, first in main, keeps 8 GPUs back until it starts; 0 left beside that, 4 \
                asked (flavor spot)";
    assert_eq!((reason.code(), reason.to_string().as_str()), ("WaitingForQuota", said));
}

#[test]
fn a_set_without_room_beside_others_is_named() {
    let then = Box::new(no_rack(Some("r1"), 3));
    let reason = Reason::Together { pod_set: "driver".into(), beside: 2, then };
    let said =
        "pod set driver, beside 2 pods of its gang: no one rack holds 4 pods; r1 holds most, 3";
    assert_eq!((reason.code(), reason.to_string().as_str()), ("TopologyPlacementFailed", said));
}

#[test]
fn quota_reasons_name_queue_flavor_and_numbers() {
    let taint = FlavorProblem::Taint { key: "gpu".into(), value: "h100".into() };
    let most = FlavorProblem::ExceedsMax { resource: gpus(), asked: 64, others: 0, most: 40 };
    let rows = [
        (
            vec![refusal("a100", short(Some("ai"), 12, 16, false))],
            "WaitingForQuota",
            "cohort ai has 12 GPUs left to borrow, 16 asked (flavor a100)",
        ),
        (
            vec![refusal("a100", short_of_own(8, Some("ai"), 2, 8, false))],
            "WaitingForQuota",
            "team-a has 8 GPUs unused, 6 of them lent to cohort ai: 2 left, 8 asked (flavor a100)",
        ),
        (
            vec![refusal("a100", short_of_own(8, Some("ai"), 12, 16, false))],
            "WaitingForQuota",
            "12 GPUs left, 4 of them from cohort ai, 16 asked (flavor a100)",
        ),
        (
            vec![refusal("a100", short(None, 1, 16, true))],
            "WaitingForQuota",
            "queue team-a has 1 GPU left, 16 asked; no allowed victims free enough (flavor a100)",
        ),
        (
            vec![refusal("a100", short(None, -3, 1, false))],
            "WaitingForQuota",
            "queue team-a has 0 GPUs left, 1 asked (flavor a100)",
        ),
        (
            vec![refusal("h100", taint.clone()), refusal("a100", most.clone())],
            "ExceedsMaxQuota",
            "flavor h100: taint gpu=h100 is not tolerated; flavor a100: team-a can never have \
             more than 40 GPUs, 64 asked",
        ),
        (
            vec![refusal("h100", FlavorProblem::Affinity)],
            "NoMatchingFlavor",
            "node selector or affinity excludes the flavor's nodes (flavor h100)",
        ),
        (
            vec![refusal("a100", FlavorProblem::Nodes(Box::new(shortage_of(1, 0))))],
            "WaitingForCapacity",
            "needs 8 nvidia.com/gpu, the fullest match gpu-node-3 has 5 free (flavor a100); \
             0/12 nodes are available: 4 node(s) had untolerated taint(s), \
             8 Insufficient nvidia.com/gpu",
        ),
    ];
    for (tried, code, text) in rows {
        let reason = flavors(tried);
        assert_eq!((reason.code(), reason.to_string().as_str()), (code, text));
    }
    let tried = flavors(vec![refusal("a100", short(None, 4, 16, true))]);
    assert_eq!(tried.headline(), "queue team-a has 4 GPUs left, 16 asked (flavor a100)");
    let two = flavors(vec![refusal("h100", taint), refusal("a100", short(None, 4, 16, false))]);
    assert_eq!(
        two.headline(),
        "queue team-a has 4 GPUs left, 16 asked (flavor a100; 1 other refused too)"
    );
    assert_eq!((two.code(), two.kind()), ("WaitingForQuota", "quota"));
}

#[test]
fn node_reasons_give_the_nearest_node_and_the_histogram() {
    let single = Reason::Nodes(Box::new(shortage_of(1, 0)));
    assert_eq!(single.code(), "WaitingForCapacity");
    assert_eq!(
        single.headline(),
        "needs 8 nvidia.com/gpu, the fullest match gpu-node-3 has 5 free; 4 nodes are excluded by \
         taints"
    );
    assert_eq!(
        single.to_string(),
        "needs 8 nvidia.com/gpu, the fullest match gpu-node-3 has 5 free; 0/12 nodes are \
         available: 4 node(s) had untolerated taint(s), 8 Insufficient nvidia.com/gpu"
    );
    assert_eq!(
        nodes::histogram(&shortage_of(1, 0)),
        "0/12 nodes are available: 4 node(s) had untolerated taint(s), \
         8 Insufficient nvidia.com/gpu."
    );
    let gang = Reason::Nodes(Box::new(shortage_of(4, 3)));
    assert_eq!(
        gang.headline(),
        "3 of 4 pods fit; the next needs 8 nvidia.com/gpu, gpu-node-3 has 5 left; 4 nodes excluded \
         by taints"
    );
    assert_eq!(gang.place(), "4th pod: 8 nvidia.com/gpu free on one node; nearest is gpu-node-3");
    let none = NodeShortage {
        nodes: 0,
        asked: 1,
        holds: 0,
        refusals: vec![],
        nearest: None,
        unwanted: None,
        gone: 0,
        ended: None,
    };
    assert_eq!(Reason::Nodes(Box::new(none)).to_string(), "no nodes available to schedule pods");
    let bare = NodeShortage { nearest: None, ..shortage_of(1, 0) };
    assert_eq!(
        Reason::Nodes(Box::new(bare)).headline(),
        "no node takes it: less than 8 nvidia.com/gpu on 8 of 12"
    );
}

#[test]
fn where_the_search_ended_it_is_not_the_cluster_that_says_no() {
    let short = NodeShortage { ended: Some(SearchBound::Tries(16)), ..shortage_of(4, 3) };
    let reason = Reason::Nodes(Box::new(short.clone()));
    let words = "The search for places ended after 16 tries: there may be some";
    assert!(reason.to_string().contains(&format!(" ({words})")), "{reason}");
    assert!(nodes::histogram(&short).ends_with(&format!("nvidia.com/gpu. {words}.")));
    let uncleared = no_rack(None, 0).with_ended(SearchBound::Cleared(16)).to_string();
    assert_eq!(
        uncleared,
        "no one rack holds 4 pods; none holds any (The search for whom to preempt ended after 16 \
         domains: there may be some)"
    );
    let large = no_rack(None, 0).with_ended(SearchBound::Nodes(256)).to_string();
    assert_eq!(
        large,
        "no one rack holds 4 pods; none holds any (Places are searched for in every order on up \
         to 256 nodes, not on so many)"
    );
}

#[test]
fn who_would_fit_is_not_said_to_lack_anything() {
    let nodes = Reason::Nodes(Box::new(shortage_of(4, 4)));
    let said = "4 pods would fit, not all of the gang with them";
    assert_eq!((nodes.headline().as_str(), nodes.place().as_str()), (said, said));
    assert!(nodes.to_string().starts_with(said), "{nodes}");
}

#[test]
fn the_first_of_a_queue_is_behind_nobody() {
    let first = Reason::Behind { ahead: 0, queue: "team-a".into() };
    assert_eq!(first.to_string(), "has not been considered yet (it is first in team-a)");
    assert_eq!(first.code(), "PendingEvaluation");
}

#[test]
fn headlines_name_the_rule_that_excludes_most_nodes() {
    let spot = NodeRefusal::CapacityType { node: CapacityType::Spot };
    let reserved = NodeRefusal::CapacityType { node: CapacityType::Reserved };
    let mut nodes = shortage_of(1, 0);
    nodes.refusals = vec![
        (NodeRefusal::Unschedulable, 1),
        (spot, 1),
        (reserved, 2),
        (NodeRefusal::Flavor { flavor: "a100".into(), lacks: None }, 9),
        (insufficient(8, 0, false), 1),
    ];
    nodes.nearest = Some(Nearest { node: "sp".into(), resource: gpus(), asked: 8, free: 0 });
    let want = "needs 8 nvidia.com/gpu, the fullest match sp has 0 free; 3 nodes are excluded by \
                capacity-types";
    assert_eq!(Reason::Nodes(Box::new(nodes.clone())).headline(), want);
    let queued = flavors(vec![refusal("a100", FlavorProblem::Nodes(Box::new(nodes.clone())))]);
    assert_eq!(queued.headline(), format!("{want} (flavor a100)"));
    nodes.refusals = vec![(NodeRefusal::Affinity, 1), (insufficient(8, 0, false), 1)];
    assert_eq!(
        Reason::Nodes(Box::new(nodes)).headline(),
        "needs 8 nvidia.com/gpu, sp has 0 free; 1 node excluded by node selector or affinity"
    );
}

#[test]
fn preemptions_say_why_and_what_is_lost() {
    let preemption = |reason, cohort: Option<&str>| Preemption {
        victim: "vision/sweep-7".into(),
        preemptor: "language/eval".into(),
        reason,
        victim_priority: 100,
        preemptor_priority: 1000,
        frees: vec![Freed { resource: gpus(), amount: 8, borrowed: 8 }],
        lost: Span::minutes(12),
        lost_cost: Some(MicroUsd(2_400_000)),
        cohort: cohort.map(Text::from),
        overspent: None,
        bars: None,
    };
    let rows = [
        (PreemptionReason::InClusterQueue, "takes 8 GPUs in the same queue; priority 100 < 1000"),
        (PreemptionReason::InCohortReclamation, "reclaims 8 borrowed GPUs; priority 100 < 1000"),
        (
            PreemptionReason::InCohortReclaimWhileBorrowing,
            "takes 8 borrowed GPUs while borrowing itself; priority 100 < 1000",
        ),
        (
            PreemptionReason::InCohortFairSharing,
            "takes 8 GPUs from the larger share; priority 100 < 1000",
        ),
        (PreemptionReason::Priority, "needs its room, 8 GPUs; priority 100 < 1000"),
    ];
    for (reason, text) in rows {
        assert_eq!(preemption(reason, Some("ai")).because(), text);
    }
    assert_eq!(preemption(PreemptionReason::Priority, None).loses(), "12m of work, $2.40");
    let freed =
        |resource: &str, amount, borrowed| Freed { resource: resource.into(), amount, borrowed };
    let rows = [
        (vec![freed("nvidia.com/gpu", 16, 4)], "reclaims 16 GPUs (4 borrowed)"),
        (vec![freed("cpu", 9_000, 9_000)], "reclaims 9 borrowed cpu"),
        (
            vec![freed("cpu", 9_000, 9_000), freed("nvidia.com/gpu", 8, 2)],
            "reclaims 8 GPUs (2 borrowed)",
        ),
        (
            vec![freed("cpu", 9_000, 1_500), freed("nvidia.com/gpu", 8, 0)],
            "reclaims 9 cpu (1.5 borrowed), 8 GPUs",
        ),
    ];
    for (frees, text) in rows {
        let one = Preemption { frees, ..preemption(PreemptionReason::InCohortReclamation, None) };
        assert_eq!(one.because(), format!("{text}; priority 100 < 1000"));
    }
}

#[test]
fn remedies_say_what_to_write() {
    let types = vec![CapacityType::Spot, CapacityType::OnDemand];
    let raise = Change::RaiseQuota {
        cluster_queue: "team-a".into(),
        flavor: "a100".into(),
        resource: gpus(),
        by: 8,
        with: vec![("cpu".into(), 16_000)],
        beside: vec![],
    };
    let wait = |with: &[&str]| Change::WaitFor {
        workload: "vision/train".into(),
        with: with.iter().map(|name| (*name).into()).collect(),
        at: None,
        learned: false,
    };
    let mut dated = wait(&["a/b", "a/c", "a/d"]);
    if let Change::WaitFor { at, .. } = &mut dated {
        *at = Some(crate::time::Time(0));
    }
    let preempt = |victims: &[&str]| Change::AllowPreemption {
        cluster_queue: "team-a".into(),
        field: "reclaimWithinCohort",
        value: "Any",
        victims: victims.iter().map(|name| (*name).into()).collect(),
    };
    let rows = [
        (wait(&[]), "wait for vision/train to end"),
        (wait(&["a/b"]), "wait for a/b and vision/train to end"),
        (wait(&["a/b", "a/c", "a/d"]), "wait for a/b, a/c and 2 others to end"),
        (dated, "wait for 4 workloads to end, vision/train last"),
        (preempt(&["a/b"]), "preempt a/b (needs reclaimWithinCohort: Any)"),
        (
            preempt(&["a/b", "a/c", "a/d", "a/e"]),
            "preempt a/b, a/c and 2 others (needs reclaimWithinCohort: Any)",
        ),
        (Change::FewerPods { pods: 3 }, "start with 3 pods (capstan.sh/min-member: \"3\")"),
        (
            Change::AllowCapacity { types, added: 1 },
            "allow on-demand (capstan.sh/capacity-types: spot,on-demand)",
        ),
        (raise, "raise nominalQuota of team-a by 8 GPUs and 16 cpu (flavor a100)"),
    ];
    for (change, text) in rows {
        assert_eq!(change.to_string(), text);
    }
}
