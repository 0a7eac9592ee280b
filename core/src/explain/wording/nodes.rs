//! The words for nodes that refuse a pod: in detail with numbers, and as kube-scheduler counts
//! them.
//!
//! `0/N nodes are available: ...` is searched for by autoscalers and people, so
//! [`kube_reason`] uses kube-scheduler 1.37's words exactly; refusals that it does not know
//! (capacity type, flavor) follow its form.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::explain::quantity::{counted, named, ordinal, pair, quantity};
use crate::explain::reason::{NodeRefusal, NodeShortage, SearchBound};
use crate::explain::wording::reserved::Moment;
use crate::explain::wording::{named_domain, storage};

/// The words of kube-scheduler's histogram, without the count.
pub fn kube_reason(refusal: &NodeRefusal) -> Cow<'static, str> {
    Cow::Borrowed(match refusal {
        NodeRefusal::NodeName { .. } => "node(s) didn't match the requested node name",
        NodeRefusal::Unschedulable => "node(s) were unschedulable",
        NodeRefusal::Taint { .. } => "node(s) had untolerated taint(s)",
        NodeRefusal::Affinity => "node(s) didn't match Pod's node affinity/selector",
        NodeRefusal::EnforcedAffinity => "node(s) didn't match scheduler-enforced node affinity",
        NodeRefusal::Port { .. } => "node(s) didn't have free ports for the requested pod ports",
        NodeRefusal::TooManyPods { .. } => "Too many pods",
        NodeRefusal::Insufficient { resource, .. } => {
            return Cow::Owned(format!("Insufficient {resource}"));
        }
        NodeRefusal::Storage(refusal) => return storage::kube_reason(refusal),
        NodeRefusal::Features { .. } => "node(s) didn't match Pod's required features",
        NodeRefusal::SpreadKey { .. } => {
            "node(s) didn't match pod topology spread constraints (missing required label)"
        }
        NodeRefusal::Spread { .. } => "node(s) didn't match pod topology spread constraints",
        NodeRefusal::PodAffinity => "node(s) didn't match pod affinity rules",
        NodeRefusal::PodAntiAffinity { .. } => "node(s) didn't match pod anti-affinity rules",
        NodeRefusal::ExistingAntiAffinity { .. } => {
            "node(s) didn't satisfy existing pods anti-affinity rules"
        }
        NodeRefusal::CapacityType { .. } => "node(s) had a capacity type that is not allowed",
        NodeRefusal::PriceUnknown => "node(s) had no known price",
        NodeRefusal::Flavor { lacks: None, .. } => "node(s) were not of the chosen flavor",
        NodeRefusal::Flavor { lacks: Some(_), .. } => {
            "node(s) lacked a level of the chosen flavor's topology"
        }
        NodeRefusal::ClaimUnusable { problem, .. } => return Cow::Owned(problem.to_string()),
        NodeRefusal::ClaimElsewhere { .. } | NodeRefusal::ClaimUnready { .. } => {
            "resourceclaim not available on the node"
        }
        NodeRefusal::Devices { .. } => "cannot allocate all claims",
        NodeRefusal::DevicesTooLong { .. } => "gave up trying to allocate devices",
        NodeRefusal::NoDomain { .. } => "node(s) had no domain of the required topology level",
        NodeRefusal::AwayFromGang { .. } => "node(s) were not where the gang runs",
    })
}

/// What one node lacks, with numbers: `8 nvidia.com/gpu asked, 5 free`.
pub fn detail(refusal: &NodeRefusal) -> String {
    match refusal {
        NodeRefusal::NodeName { wanted } => format!("spec.nodeName is {wanted}"),
        NodeRefusal::Unschedulable => "cordoned".to_owned(),
        NodeRefusal::Taint { key, value } if value.is_empty() => {
            format!("taint {key} is not tolerated")
        }
        NodeRefusal::Taint { key, value } => format!("taint {key}={value} is not tolerated"),
        NodeRefusal::Affinity => "node selector or affinity does not match".to_owned(),
        NodeRefusal::EnforcedAffinity => "the configured addedAffinity does not match".to_owned(),
        NodeRefusal::Port { port, protocol } => format!("host port {port}/{protocol} is taken"),
        NodeRefusal::TooManyPods { limit: 0 } => "no pod slot is free".to_owned(),
        NodeRefusal::TooManyPods { limit } => {
            format!("all {} are taken", counted(*limit, "pod slot"))
        }
        NodeRefusal::Insufficient { resource, asked, free, beyond_node } => {
            let (asked, free) = pair(resource, *asked, *free);
            let never = if *beyond_node { " (more than the node has)" } else { "" };
            format!("{asked} {resource} asked, {free} free{never}")
        }
        NodeRefusal::Storage(refusal) => storage::detail(refusal),
        NodeRefusal::Features { missing } => format!("its kubelet does not declare {missing}"),
        NodeRefusal::SpreadKey { key } => format!("has no label {key} to spread over"),
        NodeRefusal::Spread { key, max_skew: 0, .. } => {
            format!("its {key} would be further ahead than maxSkew allows")
        }
        NodeRefusal::Spread { key, count, least, max_skew } => format!(
            "{} in its {key}, {least} in the emptiest, maxSkew {max_skew}",
            counted((*count).into(), "pod")
        ),
        NodeRefusal::PodAffinity => "no pod that its affinity requires is near".to_owned(),
        NodeRefusal::PodAntiAffinity { pods } => {
            format!("{} near that its anti-affinity excludes", some_pods(*pods))
        }
        NodeRefusal::ExistingAntiAffinity { pods } => {
            format!("{} near whose anti-affinity excludes it", some_pods(*pods))
        }
        NodeRefusal::CapacityType { node } => format!("capacity type {node} is not allowed"),
        NodeRefusal::PriceUnknown => "its price is not known".to_owned(),
        NodeRefusal::Flavor { flavor, lacks: None } => format!("not a node of flavor {flavor}"),
        NodeRefusal::Flavor { flavor, lacks: Some(level) } => {
            format!("no label {level}, a level of the topology of flavor {flavor}")
        }
        NodeRefusal::ClaimUnusable { problem, .. } => problem.to_string(),
        NodeRefusal::ClaimElsewhere { claim } => {
            format!("claim {claim} has devices that it does not reach")
        }
        NodeRefusal::ClaimUnready { claim, what, until: None } => format!("claim {claim}: {what}"),
        NodeRefusal::ClaimUnready { claim, what, until: Some(until) } => {
            format!("claim {claim}: {what}, overdue since {}", Moment(*until))
        }
        NodeRefusal::Devices { claim, request, asked, matching, free } => {
            let asked = match asked {
                Some(asked) => counted(i64::try_from(*asked).unwrap_or(i64::MAX), "device"),
                None => "all devices".to_owned(),
            };
            let of = format!("request {request} of claim {claim}");
            format!("{asked} asked by {of}, {free} of {matching} that match can be had")
        }
        NodeRefusal::DevicesTooLong { tries } => {
            format!("no devices found in {tries} tries, which is where the search ends")
        }
        NodeRefusal::NoDomain { level } => format!("in no {level}"),
        NodeRefusal::AwayFromGang { level, domain } => {
            format!("not in {}, where its gang runs", named_domain(level, domain.as_ref()))
        }
    }
}

impl fmt::Display for NodeRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&detail(self))
    }
}

/// kube-scheduler's sentence, as it stands in pod conditions and `FailedScheduling` events:
/// `0/12 nodes are available: 4 node(s) had untolerated taint(s), 8 Insufficient nvidia.com/gpu.`
pub fn histogram(nodes: &NodeShortage) -> String {
    if nodes.nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let (then, entries) = (even_then(nodes.gone), histogram_entries(nodes));
    match nodes.ended {
        None => format!("{then}{entries}."),
        Some(bound) => format!("{then}{entries}. {}.", ended(bound)),
    }
}

/// That the bound of the search, not the cluster, said no.
pub(super) fn ended(bound: SearchBound) -> String {
    match bound {
        SearchBound::Tries(tries) => {
            format!("The search for places ended after {tries} tries: there may be some")
        }
        SearchBound::Domains(1) => {
            "The search for places ended after one domain: there may be some".to_owned()
        }
        SearchBound::Domains(tried) => {
            format!("The search for places ended after {tried} domains: there may be some")
        }
        SearchBound::Nodes(most) => {
            format!("Places are searched for in every order on up to {most} nodes, not on so many")
        }
        SearchBound::Members(most) => {
            format!("Places are searched for in every order for up to {most} pods, not for so many")
        }
        SearchBound::Victims(tried) => {
            format!("The search for whom to preempt ended after {tried} tries: there may be some")
        }
        SearchBound::Cleared(tried) => {
            format!("The search for whom to preempt ended after {tried} domains: there may be some")
        }
        SearchBound::Choices(tried) => {
            format!("The search ended after {tried} choices of members and flavors: one may fit")
        }
    }
}

/// The same at the end of a sentence.
pub(super) fn ended_behind(bound: Option<SearchBound>) -> String {
    bound.map_or_else(String::new, |bound| format!(" ({})", ended(bound)))
}

/// That what follows would hold with so many workloads preempted, too.
pub(super) fn even_then(gone: u32) -> String {
    match gone {
        0 => String::new(),
        _ => format!("even with {} preempted, ", counted(i64::from(gone), "workload")),
    }
}

/// The same without the full stop, for use inside a sentence.
pub(super) fn histogram_entries(nodes: &NodeShortage) -> String {
    let refusals = nodes.refusals.iter().map(|(refusal, count)| (refusal, *count));
    format!("0/{} nodes are available: {}", nodes.nodes, counts(refusals))
}

/// Refusals, each with a number of nodes, as kube-scheduler counts them. What is wrong with the pod
/// itself keeps it from looking at any node, and stands alone.
pub fn counts<'a>(refusals: impl Iterator<Item = (&'a NodeRefusal, u32)>) -> String {
    let mut counts: BTreeMap<Cow<'static, str>, u64> = BTreeMap::new();
    for (refusal, count) in refusals {
        let words = kube_reason(refusal);
        if refusal.of_pod() {
            return words.into_owned();
        }
        *counts.entry(words).or_default() += u64::from(count);
    }
    // kube-scheduler sorts the finished entries as strings, count first.
    let mut entries: Vec<String> =
        counts.iter().map(|(words, count)| format!("{count} {words}")).collect();
    entries.sort();
    entries.join(", ")
}

/// Columns that a headline may take, as far as names allow.
const HEADLINE_COLUMNS: usize = 100;

/// The answer for a table cell: the nearest node, and what keeps most other nodes out of the
/// race before room is even looked at, because that is often the better thing to change.
pub(super) fn headline(nodes: &NodeShortage) -> String {
    let whole = shortage(nodes);
    if all_fit(nodes) {
        return whole;
    }
    let (Some(nearest), Some((count, by))) = (&nodes.nearest, most_excluded(nodes)) else {
        return whole;
    };
    let verb = if count == 1 { "is" } else { "are" };
    let others = counted(i64::from(count), "node");
    let said = format!("{whole}; {others} {verb} excluded by {by}");
    if said.chars().count() <= HEADLINE_COLUMNS {
        return said;
    }
    let (asked, free) = pair(&nearest.resource, nearest.asked, nearest.free);
    let (node, resource) = (&nearest.node, &nearest.resource);
    let (then, who) = (even_then(nodes.gone), whose_needs(nodes));
    let free = if nodes.holds == 0 { format!("{free} free") } else { format!("{free} left") };
    let untried = nodes.ended.map_or("", |_| " (not every way was tried)");
    let short = format!("{then}{who}needs {asked} {resource}, {node} has {free}{untried}");
    let said = format!("{short}; {others} excluded by {by}");
    if said.chars().count() <= HEADLINE_COLUMNS { said } else { short }
}

/// So many pods; of many nodes together no number is told.
fn some_pods(count: u32) -> String {
    match count {
        0 => "pods".to_owned(),
        _ => counted(count.into(), "pod"),
    }
}

/// The rule that excludes most nodes whatever their room, with their number; the first of equals.
fn most_excluded(nodes: &NodeShortage) -> Option<(u32, &'static str)> {
    let mut counts: BTreeMap<(u8, &'static str), u32> = BTreeMap::new();
    for (refusal, count) in &nodes.refusals {
        let rule = match refusal {
            NodeRefusal::CapacityType { .. } => (0, "capacity-types"),
            NodeRefusal::Taint { .. } => (1, "taints"),
            NodeRefusal::Affinity => (2, "node selector or affinity"),
            NodeRefusal::EnforcedAffinity => (3, "the configured addedAffinity"),
            NodeRefusal::Unschedulable => (4, "cordons"),
            NodeRefusal::NodeName { .. } => (5, "spec.nodeName"),
            NodeRefusal::Features { .. } => (6, "features of their kubelets"),
            NodeRefusal::SpreadKey { .. } => (7, "labels to spread over"),
            NodeRefusal::PodAffinity => (8, "pod affinity"),
            NodeRefusal::PriceUnknown => (9, "prices that nobody knows"),
            NodeRefusal::Flavor { lacks: Some(_), .. } => (10, "labels of topology levels"),
            NodeRefusal::Storage(why) if !why.removable() && !why.of_pod() => {
                (11, "volumes of its claims")
            }
            NodeRefusal::Port { .. }
            | NodeRefusal::Spread { .. }
            | NodeRefusal::PodAntiAffinity { .. }
            | NodeRefusal::ExistingAntiAffinity { .. }
            | NodeRefusal::TooManyPods { .. }
            | NodeRefusal::Insufficient { .. }
            | NodeRefusal::Storage(_)
            | NodeRefusal::Flavor { lacks: None, .. }
            | NodeRefusal::ClaimUnusable { .. }
            | NodeRefusal::ClaimElsewhere { .. }
            | NodeRefusal::ClaimUnready { .. }
            | NodeRefusal::Devices { .. }
            | NodeRefusal::DevicesTooLong { .. }
            | NodeRefusal::NoDomain { .. }
            | NodeRefusal::AwayFromGang { .. } => continue,
        };
        let sum = counts.entry(rule).or_default();
        *sum = sum.saturating_add(*count);
    }
    let most = counts.values().copied().max().filter(|most| *most > 0)?;
    counts.iter().find(|(_, count)| **count == most).map(|((_, words), _)| (most, *words))
}

/// How many of a gang fit, and whose needs follow.
fn whose_needs(nodes: &NodeShortage) -> String {
    match (nodes.asked, nodes.holds) {
        (0 | 1, _) => String::new(),
        (asked, 0) => format!("0 of {asked} pods fit; each "),
        (asked, holds) => format!("{holds} of {asked} pods fit; the next "),
    }
}

/// The answer without the histogram.
pub(super) fn shortage(nodes: &NodeShortage) -> String {
    if nodes.nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let ended = ended_behind(nodes.ended);
    format!("{}{}{ended}", even_then(nodes.gone), shortage_then(nodes))
}

fn shortage_then(nodes: &NodeShortage) -> String {
    let pods = || counted(nodes.asked.into(), "pod");
    match (needs(nodes), nodes.asked) {
        _ if all_fit(nodes) => format!("{} would fit, not all of the gang with them", pods()),
        (Some(needs), _) => format!("{}{needs}", whose_needs(nodes)),
        (None, 0 | 1) => refused(nodes),
        (None, _) => format!("{} of {} fit; {}", nodes.holds, pods(), refused(nodes)),
    }
}

/// Whether nodes hold all that were asked about: what is missing is not theirs.
fn all_fit(nodes: &NodeShortage) -> bool {
    nodes.asked > 0 && nodes.holds >= nodes.asked
}

/// What keeps the next out, once some have places.
pub(super) fn next(nodes: &NodeShortage) -> String {
    needs(nodes).map_or_else(|| refused(nodes), |needs| format!("the next {needs}"))
}

/// What the node that comes closest lacks, where there is one.
fn needs(nodes: &NodeShortage) -> Option<String> {
    let nearest = nodes.nearest.as_ref()?;
    let (asked, free) = pair(&nearest.resource, nearest.asked, nearest.free);
    let (node, resource) = (&nearest.node, &nearest.resource);
    let left = if nodes.holds == 0 { "free" } else { "left beside them" };
    Some(format!("needs {asked} {resource}, the fullest match {node} has {free} {left}"))
}

/// That no node takes one more, and what refuses it on most.
fn refused(nodes: &NodeShortage) -> String {
    let pod = pod(nodes);
    match common_refusal(nodes) {
        Some((words, count)) if count == nodes.nodes => {
            format!("no node takes {pod}: {words} on all {count}")
        }
        Some((words, count)) => {
            format!("no node takes {pod}: {words} on {count} of {}", nodes.nodes)
        }
        None => format!("no node takes {pod}"),
    }
}

/// Which room is missing, without the numbers that have columns of their own.
pub(super) fn place(nodes: &NodeShortage) -> String {
    let nearest = nodes.nearest.as_ref().filter(|_| !all_fit(nodes));
    let Some(nearest) = nearest else { return shortage(nodes) };
    let needs = named(&nearest.resource, nearest.asked);
    let (node, then) = (&nearest.node, then(nodes.gone));
    match (nodes.asked, nodes.holds) {
        (0 | 1, _) => format!("{needs} free on one node; nearest is {node}{then}"),
        (_, holds) => format!(
            "{} pod: {needs} free on one node; nearest is {node}{then}",
            ordinal(holds.saturating_add(1))
        ),
    }
}

/// That a row of a table speaks of the cluster without those who may be preempted.
pub(super) fn then(gone: u32) -> &'static str {
    if gone == 0 { "" } else { " (after preemption)" }
}

/// Whom no node takes.
fn pod(nodes: &NodeShortage) -> &'static str {
    match (nodes.asked, nodes.holds) {
        (0 | 1, _) => "it",
        (_, 0) => "any",
        _ => "the next",
    }
}

/// The refusal that most nodes share; the first one among equals. What the pod's author excludes
/// for good comes before what passes (a cordoned node would not do afterwards either), and what
/// keeps it away whatever room there is before amounts.
fn common_refusal(nodes: &NodeShortage) -> Option<(String, u32)> {
    if let Some((refusal, count)) = &nodes.unwanted {
        return Some((common_words(refusal), *count));
    }
    let most = nodes.refusals.iter().map(|(_, count)| *count).max()?;
    let found = nodes.refusals.iter().find(|(_, count)| *count == most);
    found.map(|(refusal, count)| (common_words(refusal), *count))
}

/// Numbers differ from node to node; what is asked does not.
fn common_words(refusal: &NodeRefusal) -> String {
    match refusal {
        NodeRefusal::Insufficient { resource, asked, .. } => {
            format!("less than {} {resource}", quantity(resource, *asked))
        }
        NodeRefusal::Devices { claim, request, asked, .. } => {
            let of = format!("request {request} of claim {claim}");
            match asked {
                Some(asked) => {
                    let asked = counted(i64::try_from(*asked).unwrap_or(i64::MAX), "device");
                    format!("less than {asked} for {of}")
                }
                None => format!("not all devices free for {of}"),
            }
        }
        other => detail(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::reason::Nearest;
    use crate::model::input::CapacityType;
    use crate::time::Time;

    fn gpus(asked: i64, free: i64, beyond_node: bool) -> NodeRefusal {
        NodeRefusal::Insufficient { resource: "nvidia.com/gpu".into(), asked, free, beyond_node }
    }

    #[test]
    fn a_short_headline_says_that_the_search_ended_too() {
        let taint = NodeRefusal::Taint { key: "mig".into(), value: "on".into() };
        let resource = "nvidia.com/gpu".into();
        let shortage = NodeShortage {
            nodes: 3,
            asked: 1,
            holds: 0,
            refusals: vec![(taint, 2), (gpus(16, 3, false), 1)],
            nearest: Some(Nearest { node: "n1".into(), resource, asked: 16, free: 3 }),
            unwanted: None,
            gone: 0,
            ended: Some(SearchBound::Tries(64)),
        };
        assert_eq!(
            headline(&shortage),
            "needs 16 nvidia.com/gpu, n1 has 3 free (not every way was tried); 2 nodes excluded by \
             taints"
        );
    }

    #[test]
    fn pods_around_speak_with_numbers_and_in_kube_words() {
        let key = || "zone".into();
        let rows = [
            (
                NodeRefusal::SpreadKey { key: key() },
                "has no label zone to spread over",
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ),
            (
                NodeRefusal::Spread { key: key(), count: 3, least: 1, max_skew: 1 },
                "3 pods in its zone, 1 in the emptiest, maxSkew 1",
                "node(s) didn't match pod topology spread constraints",
            ),
            (
                NodeRefusal::Spread { key: key(), count: 0, least: 0, max_skew: 0 },
                "its zone would be further ahead than maxSkew allows",
                "node(s) didn't match pod topology spread constraints",
            ),
            (
                NodeRefusal::PodAntiAffinity { pods: 0 },
                "pods near that its anti-affinity excludes",
                "node(s) didn't match pod anti-affinity rules",
            ),
            (
                NodeRefusal::PodAffinity,
                "no pod that its affinity requires is near",
                "node(s) didn't match pod affinity rules",
            ),
            (
                NodeRefusal::PodAntiAffinity { pods: 1 },
                "1 pod near that its anti-affinity excludes",
                "node(s) didn't match pod anti-affinity rules",
            ),
            (
                NodeRefusal::ExistingAntiAffinity { pods: 2 },
                "2 pods near whose anti-affinity excludes it",
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ),
        ];
        for (refusal, detail, kube) in rows {
            assert_eq!(refusal.to_string(), detail);
            assert_eq!(kube_reason(&refusal), kube);
        }
    }

    #[test]
    fn claims_that_will_not_be_ready_say_why_and_since_when() {
        let unready = |what: &str, until| NodeRefusal::ClaimUnready {
            claim: "c".into(),
            what: what.into(),
            until,
        };
        let rows = [
            (unready("device x failed: Broken", None), "claim c: device x failed: Broken"),
            (
                unready("device x is not Warm", Some(Time(600_000))),
                "claim c: device x is not Warm, overdue since 1970-01-01 00:10 UTC",
            ),
        ];
        for (refusal, detail) in rows {
            assert_eq!(refusal.to_string(), detail);
            assert_eq!(kube_reason(&refusal), "resourceclaim not available on the node");
        }
    }

    #[test]
    fn what_is_wrong_with_the_pod_itself_is_counted_by_no_nodes() {
        let claim =
            |of_pod| NodeRefusal::ClaimUnusable { problem: "class c is gone".into(), of_pod };
        let said = |of_pod| {
            let all = [(NodeRefusal::Unschedulable, 1), (claim(of_pod), 2)];
            counts(all.iter().map(|(refusal, count)| (refusal, *count)))
        };
        assert_eq!(said(true), "class c is gone");
        assert_eq!(said(false), "1 node(s) were unschedulable, 2 class c is gone");
    }

    #[test]
    fn a_node_speaks_in_detail_and_in_kube_words() {
        let taint = |value: &str| NodeRefusal::Taint { key: "mig".into(), value: value.into() };
        let memory = NodeRefusal::Insufficient {
            resource: "memory".into(),
            asked: 64 << 30,
            free: (64 << 30) - 1,
            beyond_node: false,
        };
        let rows = [
            (
                NodeRefusal::NodeName { wanted: "n7".into() },
                "spec.nodeName is n7",
                "node(s) didn't match the requested node name",
            ),
            (NodeRefusal::Unschedulable, "cordoned", "node(s) were unschedulable"),
            (taint("on"), "taint mig=on is not tolerated", "node(s) had untolerated taint(s)"),
            (taint(""), "taint mig is not tolerated", "node(s) had untolerated taint(s)"),
            (
                NodeRefusal::Affinity,
                "node selector or affinity does not match",
                "node(s) didn't match Pod's node affinity/selector",
            ),
            (
                NodeRefusal::EnforcedAffinity,
                "the configured addedAffinity does not match",
                "node(s) didn't match scheduler-enforced node affinity",
            ),
            (
                NodeRefusal::Port { port: 8080, protocol: "TCP".into() },
                "host port 8080/TCP is taken",
                "node(s) didn't have free ports for the requested pod ports",
            ),
            (
                NodeRefusal::TooManyPods { limit: 110 },
                "all 110 pod slots are taken",
                "Too many pods",
            ),
            (NodeRefusal::TooManyPods { limit: 0 }, "no pod slot is free", "Too many pods"),
            (gpus(8, 5, false), "8 nvidia.com/gpu asked, 5 free", "Insufficient nvidia.com/gpu"),
            (
                gpus(8, 0, true),
                "8 nvidia.com/gpu asked, 0 free (more than the node has)",
                "Insufficient nvidia.com/gpu",
            ),
            (memory, "64Gi memory asked, 63.9Gi free", "Insufficient memory"),
            (
                NodeRefusal::Features { missing: "A, B".into() },
                "its kubelet does not declare A, B",
                "node(s) didn't match Pod's required features",
            ),
            (
                NodeRefusal::CapacityType { node: CapacityType::OnDemand },
                "capacity type on-demand is not allowed",
                "node(s) had a capacity type that is not allowed",
            ),
            (
                NodeRefusal::Flavor { flavor: "a100".into(), lacks: Some("rack".into()) },
                "no label rack, a level of the topology of flavor a100",
                "node(s) lacked a level of the chosen flavor's topology",
            ),
        ];
        for (refusal, detail, kube) in rows {
            assert_eq!(refusal.to_string(), detail);
            assert_eq!(kube_reason(&refusal), kube);
        }
    }
}
