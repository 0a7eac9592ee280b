//! What pods want of the pods around them: pod affinity, topology spread, and which labels matter.
//!
//! Decides what depends on the pod alone: its own namespace where a term names none, and
//! `matchLabelKeys` of spread constraints (those of affinity an API server has merged). Labels
//! that no selector in the cluster reads are left out of what the engine is told, so that pods
//! which differ in nothing else stay one kind; [`Relevance`] knows which are read. A key counts
//! from the first pod that names it until the process ends: labels that nobody reads any more
//! change no answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::model::input::{
    Kin, LabelSelector, Labels, Neighbours, Operator, PeerSelector, PeerTerm, PodShape,
    PreferredPeers, Requirement, Spread, Text,
};
use k8s_openapi::api::core::v1 as full;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::selector;
use super::sharing::{Pairs, Shared};
use crate::api::pod::PodSpec;

/// Largest weight of a preference that an API server takes.
const WEIGHT_MAX: i32 = 100;

/// What a pod in a namespace wants; `None`: nothing.
pub fn of(spec: &PodSpec, namespace: &Text, labels: &[(Text, Text)]) -> Option<Arc<Neighbours>> {
    let (near, apart) = (&spec.affinity.pod_affinity, &spec.affinity.pod_anti_affinity);
    let terms = |list: &[full::PodAffinityTerm]| -> Vec<PeerTerm> {
        list.iter().map(|term| peer_term(term, namespace)).collect()
    };
    let mut preferred = Vec::new();
    for (list, sign) in [
        (&near.preferred_during_scheduling_ignored_during_execution, 1),
        (&apart.preferred_during_scheduling_ignored_during_execution, -1),
    ] {
        preferred.extend(list.iter().filter(|it| it.weight > 0).map(|it| PreferredPeers {
            weight: sign * it.weight.min(WEIGHT_MAX),
            term: peer_term(&it.pod_affinity_term, namespace),
        }));
    }
    let constraints = spec.topology_spread_constraints.iter();
    let wants = Neighbours {
        affinity: terms(&near.required_during_scheduling_ignored_during_execution),
        anti_affinity: terms(&apart.required_during_scheduling_ignored_during_execution),
        preferred,
        spread: constraints.map(|constraint| spread(constraint, labels)).collect(),
    };
    (wants != Neighbours::default()).then(|| Arc::new(wants))
}

fn peer_term(term: &full::PodAffinityTerm, namespace: &Text) -> PeerTerm {
    let named = term.namespaces.as_deref().unwrap_or_default();
    let mut namespaces: Vec<Text> = named.iter().map(|name| name.as_str().into()).collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.push(namespace.clone());
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    let peers = PeerSelector {
        namespaces,
        namespace_selector: term.namespace_selector.as_ref().map(label_selector),
        labels: term.label_selector.as_ref().map(label_selector),
    };
    PeerTerm { key: term.topology_key.as_str().into(), peers }
}

fn spread(constraint: &full::TopologySpreadConstraint, own: &[(Text, Text)]) -> Spread {
    let mut labels = constraint.label_selector.as_ref().map(label_selector);
    if let Some(labels) = &mut labels {
        let keys = constraint.match_label_keys.iter().flatten();
        let had = keys.filter_map(|key| own.iter().find(|(own, _)| **own == **key));
        let wanted = |(key, value): &(Text, Text)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.clone()],
        };
        labels.extend(had.map(wanted));
    }
    let policy = |policy: &Option<String>, default: bool| match policy.as_deref() {
        Some("Honor") => true,
        Some("Ignore") => false,
        _ => default,
    };
    Spread {
        key: constraint.topology_key.as_str().into(),
        max_skew: u32::try_from(constraint.max_skew).unwrap_or(0).max(1),
        min_domains: constraint.min_domains.and_then(|it| u32::try_from(it).ok()).unwrap_or(1),
        labels,
        required: constraint.when_unsatisfiable != "ScheduleAnyway",
        honors_affinity: policy(&constraint.node_affinity_policy, true),
        honors_taints: policy(&constraint.node_taints_policy, false),
    }
}

/// A label selector of the API: pairs and expressions.
pub(super) fn label_selector(selector: &meta::LabelSelector) -> LabelSelector {
    let pairs = selector.match_labels.iter().flatten().map(|(key, value)| Requirement {
        key: key.as_str().into(),
        operator: Operator::In,
        values: vec![value.as_str().into()],
    });
    let expressions = selector.match_expressions.iter().flatten().map(|it| Requirement {
        key: it.key.as_str().into(),
        // Selectors of labels know no order.
        operator: match selector::operator(&it.operator) {
            Operator::Gt | Operator::Lt => Operator::Unknown,
            known => known,
        },
        values: it.values.iter().flatten().map(|value| value.as_str().into()).collect(),
    });
    pairs.chain(expressions).collect()
}

/// Which labels of pods some selector reads.
#[derive(Debug, Default)]
pub struct Relevance {
    keys: BTreeSet<Text>,
    any: bool,
}

impl Relevance {
    /// A kind of pod was seen; whether more of others matters now than did.
    pub fn meet(&mut self, shape: &PodShape, ours: bool) -> bool {
        let Some(wants) = &shape.neighbours else { return false };
        // A term without a selector means no pod, and a node without its key is refused for it.
        let mut more = ours && !std::mem::replace(&mut self.any, true);
        for labels in selectors(wants, ours) {
            more |= self.read(labels);
        }
        more
    }

    /// A selector of something that is no pod reads labels; whether it reads more than others did.
    pub fn read(&mut self, labels: &LabelSelector) -> bool {
        let mut more = !std::mem::replace(&mut self.any, true);
        for requirement in labels {
            more |= self.keys.insert(requirement.key.clone());
        }
        more
    }

    /// A shape as others may see it; of pods that we do not place only what others must heed.
    pub fn applied(
        &self,
        shape: &Arc<PodShape>,
        (namespace, labels): (&Text, &Pairs),
        ours: bool,
        shared: &mut Shared,
    ) -> Arc<PodShape> {
        if !self.any {
            return match &shape.neighbours {
                None => shape.clone(),
                // Of others: terms that mean no pod at all.
                Some(_) => {
                    shared.shapes.of(PodShape { neighbours: None, ..PodShape::clone(shape) })
                }
            };
        }
        let read = labels.iter().filter(|(key, _)| self.keys.contains(key)).cloned();
        let kin = Kin { namespace: namespace.clone(), labels: read.collect::<Labels>() };
        let mut own = PodShape::clone(shape);
        own.kin = Some(shared.kin.of(kin));
        if !ours {
            let heeded = own.neighbours.take().filter(|wants| !wants.anti_affinity.is_empty());
            own.neighbours = heeded.map(|wants| {
                let anti_affinity = wants.anti_affinity.clone();
                Arc::new(Neighbours { anti_affinity, ..Neighbours::default() })
            });
        }
        shared.shapes.of(own)
    }
}

/// Selectors whose answer matters to us.
fn selectors(wants: &Neighbours, ours: bool) -> impl Iterator<Item = &LabelSelector> {
    let own = wants.affinity.iter().chain(wants.preferred.iter().map(|it| &it.term));
    let own = own.filter(move |_| ours).chain(&wants.anti_affinity);
    let of_terms = own.filter_map(|term| term.peers.labels.as_ref());
    let spread = wants.spread.iter().filter(move |_| ours);
    of_terms.chain(spread.filter_map(|spread| spread.labels.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(spec: serde_json::Value, labels: &[(&str, &str)]) -> PodShape {
        let mut spec = spec;
        spec["containers"] = serde_json::json!([]);
        let spec: PodSpec = serde_json::from_value(spec).expect("a pod spec");
        let labels: Vec<(Text, Text)> =
            labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        PodShape { neighbours: of(&spec, &"ns".into(), &labels), ..PodShape::default() }
    }

    fn anti(key: &str) -> serde_json::Value {
        serde_json::json!({"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "zone",
                "labelSelector": {"matchLabels": {key: "x"}}
            }],
        }}})
    }

    #[test]
    fn a_term_without_namespaces_means_its_own() {
        let wants = shape(anti("app"), &[]).neighbours.expect("a term");
        assert_eq!(wants.anti_affinity[0].peers.namespaces, ["ns".into()]);
    }

    #[test]
    fn labels_count_once_somebody_reads_them() {
        let (mut relevance, mut shared) = (Relevance::default(), Shared::default());
        let plain = Arc::new(PodShape::default());
        let labels: Pairs = [("app".into(), "x".into()), ("index".into(), "7".into())].into();
        let own = (&"ns".into(), &labels);
        assert!(relevance.applied(&plain, own, true, &mut shared).kin.is_none());
        assert!(relevance.meet(&shape(anti("app"), &[]), false));
        assert!(!relevance.meet(&shape(anti("app"), &[]), true), "nothing new");
        let seen = relevance.applied(&plain, own, true, &mut shared);
        let kin = seen.kin.as_deref().expect("somebody looks");
        assert_eq!(kin.labels, [("app".into(), "x".into())].into());
    }

    #[test]
    fn of_others_only_anti_affinity_is_heeded() {
        let (mut relevance, mut shared) = (Relevance::default(), Shared::default());
        let mut both = anti("app");
        both["topologySpreadConstraints"] = serde_json::json!([{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"role": "x"}},
        }]);
        let theirs = Arc::new(shape(both, &[]));
        relevance.meet(&theirs, false);
        let labels: Pairs = [("role".into(), "x".into())].into();
        let seen = relevance.applied(&theirs, (&"ns".into(), &labels), false, &mut shared);
        assert!(seen.kin.as_deref().is_some_and(|kin| kin.labels.is_empty()));
        let wants = seen.neighbours.as_deref().expect("anti-affinity");
        assert_eq!((wants.anti_affinity.len(), wants.spread.len()), (1, 0));
    }

    #[test]
    fn a_spread_that_means_no_pod_reads_keys_of_nodes_all_the_same() {
        let spread = serde_json::json!({
            "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        });
        let spreads = shape(serde_json::json!({"topologySpreadConstraints": [spread]}), &[]);
        let mut relevance = Relevance::default();
        assert!(!relevance.meet(&spreads, false), "others are not placed by us");
        assert!(relevance.meet(&spreads, true));
        let own = (&"ns".into(), &Pairs::default());
        let seen = relevance.applied(&Arc::new(spreads), own, true, &mut Shared::default());
        assert!(seen.kin.is_some() && seen.neighbours.is_some(), "{seen:?}");
    }

    #[test]
    fn keys_to_match_are_of_the_pod_that_spreads() {
        let spec = serde_json::json!({"topologySpreadConstraints": [{
            "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {}, "matchLabelKeys": ["rev", "none"],
        }]});
        let wants = shape(spec, &[("rev", "3")]).neighbours.expect("a constraint");
        let labels = wants.spread[0].labels.as_ref().expect("a selector");
        assert_eq!((labels.len(), &*labels[0].values[0]), (1, "3"));
        assert!(!wants.spread[0].required);
    }
}
