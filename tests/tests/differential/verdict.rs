//! What a scheduler made of a copy, read from the API, and which rule it was.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// Whether a node takes a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was bound there, or what has to be bound before it was told so.
    Takes,
    /// It was not, and this is why.
    Refuses(String),
    /// Nothing was said in time; Capstan's own account, if it is Capstan that is silent.
    Silent(String),
}

impl Verdict {
    /// Whether both say the same, whatever their words.
    pub fn agrees(&self, other: &Verdict) -> bool {
        match self {
            Verdict::Takes => *other == Verdict::Takes,
            Verdict::Refuses(_) => matches!(other, Verdict::Refuses(_)),
            Verdict::Silent(_) => false,
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Takes => out.write_str("takes it"),
            Verdict::Refuses(why) => write!(out, "refuses it: {why}"),
            Verdict::Silent(account) => write!(out, "says nothing: {account}"),
        }
    }
}

/// What kube-scheduler says when volumes were not bound while it waited: it had chosen them.
const CHOSE: &str = "running PreBind plugin \"VolumeBinding\"";

/// What the API shows of a pod that is pinned to a node; `None`: nothing yet.
pub fn of(pod: &Pod, node: &str) -> Option<Verdict> {
    if let Some(there) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
        assert_eq!(there, node, "a pin holds a pod to one node");
        return Some(Verdict::Takes);
    }
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut scheduled = conditions.filter(|it| it.type_ == "PodScheduled");
    let condition = scheduled.next().filter(|it| it.status == "False")?;
    let reason = condition.reason.as_deref().unwrap_or_default();
    let message = condition.message.as_deref().unwrap_or_default();
    match reason {
        "SchedulingGated" => None,
        "SchedulerError" if message.contains(CHOSE) => Some(Verdict::Takes),
        _ => Some(Verdict::Refuses(format!("{reason}: {message}"))),
    }
}

/// A rule, by kube-scheduler's name for its plugin. NodeName is none of these: a pod that names
/// its node is placed already, and no scheduler sees it.
pub type Rule = &'static str;

/// The rules, each with words that only it refuses with. The first four are asked before
/// resources are, and so refuse nodes that the pin would keep away.
pub const RULES: [(Rule, &[&str]); 13] = [
    ("NodeUnschedulable", &["were unschedulable"]),
    ("TaintToleration", &["untolerated taint", "taints that the pod"]),
    ("NodeAffinity", &["node affinity/selector"]),
    ("NodePorts", &["free ports"]),
    ("NodeResourcesFit", &["Insufficient ", "Too many pods"]),
    ("VolumeRestrictions", &["no available disk", "ReadWriteOncePod"]),
    ("NodeVolumeLimits", &["max volume count", "CSI driver is not installed"]),
    (
        "VolumeBinding",
        &[
            "persistentvolumeclaim",
            "PersistentVolumeClaim",
            "persistent volumes to bind",
            "PersistentVolume's node affinity",
            "enough free storage",
            "non-existent pv",
            "storageclass",
        ],
    ),
    ("VolumeZone", &["available volume zone"]),
    ("PodTopologySpread", &["topology spread constraints"]),
    ("InterPodAffinity", &["affinity rules"]),
    ("DynamicResources", &["claim", "device"]),
    ("NodeDeclaredFeatures", &["required features"]),
];

/// How many of them are asked before resources are.
const EARLY: usize = 4;

/// Which rule kube-scheduler's words say that the pinned node refused by; `None`: that is not to
/// be told from them, since other nodes refuse by such a rule too.
pub fn refused_by(message: &str, pin: &str, nodes: usize) -> Option<Rule> {
    let said = message.split("preemption:").next().unwrap_or_default();
    let said = said.split_once("nodes are available: ").map_or(said, |(_, said)| said);
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut pinned = 0;
    for part in said.split(", ") {
        let (count, text) = part.split_once(' ').unwrap_or_default();
        let (count, text) = match count.parse::<usize>() {
            Ok(count) => (count, text),
            Err(_) => (nodes, part),
        };
        if text.contains(pin) {
            pinned += count;
            continue;
        }
        let rule = RULES.iter().position(|(_, words)| words.iter().any(|word| text.contains(word)));
        if let Some(rule) = rule {
            *counts.entry(rule).or_default() += count;
        }
    }
    if let Some(late) = counts.keys().find(|rule| **rule > EARLY) {
        return Some(RULES[*late].0);
    }
    let early: Vec<usize> = counts.keys().copied().filter(|rule| *rule < EARLY).collect();
    let refused_early: usize = early.iter().map(|rule| counts[rule]).sum();
    match (refused_early + pinned >= nodes, early.as_slice()) {
        (false, _) => counts.contains_key(&EARLY).then_some(RULES[EARLY].0),
        (true, [one]) => Some(RULES[*one].0),
        (true, _) => None,
    }
}

/// Rules that have something to say of a pod and a node.
pub fn concerned(pod: &Value, node: &Value) -> Vec<Rule> {
    let (spec, host) = (&pod["spec"], &node["spec"]);
    let some = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    let claims =
        |it: &Value| it["persistentVolumeClaim"].is_object() || it["ephemeral"].is_object();
    let claimed = spec["volumes"].as_array().is_some_and(|all| all.iter().any(claims));
    let affinity = &spec["affinity"];
    let whole = spec.to_string();
    let heeds = [
        host["unschedulable"] == true,
        some(&host["taints"]) && some(&spec["tolerations"]),
        affinity["nodeAffinity"].is_object() || spec["nodeSelector"].is_object(),
        whole.contains("\"hostPort\"") || whole.contains("\"hostNetwork\""),
        true,
        some(&spec["volumes"]),
        some(&spec["volumes"]),
        claimed,
        claimed,
        some(&spec["topologySpreadConstraints"]),
        affinity["podAffinity"].is_object() || affinity["podAntiAffinity"].is_object(),
        some(&spec["resourceClaims"]),
        whole.contains("restartPolicyRules") || whole.contains("\"hostUsers\""),
    ];
    RULES.iter().zip(heeds).filter(|(_, heeds)| *heeds).map(|((rule, _), _)| *rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_told_from_the_words_where_it_can_be() {
        let by = |message: &str| refused_by(message, "pin.capstan.sh/n1", 5);
        let says = |words: &str| by(&format!("Unschedulable: 0/5 nodes are available: {words}"));
        let pin = "Insufficient pin.capstan.sh/n1";
        assert_eq!(
            says(&format!("1 node(s) had untolerated taint(s), 4 {pin}. preemption: 0/5")),
            Some("TaintToleration")
        );
        assert_eq!(
            says(&format!("1 node(s) had untolerated taint(s), 2 Insufficient cpu, 3 {pin}.")),
            Some("NodeResourcesFit")
        );
        let two = "1 node(s) were unschedulable, 2 node(s) had untolerated taint(s)";
        assert_eq!(says(&format!("{two}, 2 {pin}.")), None, "one of both");
        assert_eq!(
            says(&format!("1 node(s) didn't match pod affinity rules, 4 {pin}.")),
            Some("InterPodAffinity")
        );
        assert_eq!(says("persistentvolumeclaim \"c\" not found."), Some("VolumeBinding"));
    }
}
