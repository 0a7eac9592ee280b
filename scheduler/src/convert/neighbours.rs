//! What pods want of the pods around them: pod affinity, topology spread, and which labels matter.
//!
//! Decides what depends on the pod alone: its own namespace where a term names none, and what
//! `matchLabelKeys` and `mismatchLabelKeys` mean with its labels (an API server merges those of
//! pods, and leaves templates as they are). Labels
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
use crate::api::pod::{Affinity, PodSpec};

/// Largest weight of a preference that an API server takes.
const WEIGHT_MAX: i32 = 100;

/// Namespaces that terms name, beyond which labels count everywhere: with each of these all pods
/// are seen anew once, and where so many teams look at pods, one kind of pod more is no harm.
const NAMESPACES_MAX: usize = 8;

/// What a pod in a namespace wants; `None`: nothing.
pub fn of(spec: &PodSpec, namespace: &Text, labels: &[(Text, Text)]) -> Option<Arc<Neighbours>> {
    of_terms((&spec.affinity, &spec.topology_spread_constraints[..]), namespace, labels)
}

/// The same, of what its spec says of that.
pub fn of_terms(
    (affinity, constraints): (&Affinity, &[full::TopologySpreadConstraint]),
    namespace: &Text,
    labels: &[(Text, Text)],
) -> Option<Arc<Neighbours>> {
    let (near, apart) = (&affinity.pod_affinity, &affinity.pod_anti_affinity);
    let terms = |list: &[full::PodAffinityTerm]| -> Vec<PeerTerm> {
        list.iter().map(|term| peer_term(term, namespace, labels)).collect()
    };
    let mut preferred = Vec::new();
    for (list, sign) in [
        (&near.preferred_during_scheduling_ignored_during_execution, 1),
        (&apart.preferred_during_scheduling_ignored_during_execution, -1),
    ] {
        preferred.extend(list.iter().filter(|it| it.weight > 0).map(|it| PreferredPeers {
            weight: sign * it.weight.min(WEIGHT_MAX),
            term: peer_term(&it.pod_affinity_term, namespace, labels),
        }));
    }
    let wants = Neighbours {
        affinity: terms(&near.required_during_scheduling_ignored_during_execution),
        anti_affinity: terms(&apart.required_during_scheduling_ignored_during_execution),
        preferred,
        spread: constraints.iter().map(|constraint| spread(constraint, labels)).collect(),
    };
    (wants != Neighbours::default()).then(|| Arc::new(wants))
}

fn peer_term(term: &full::PodAffinityTerm, namespace: &Text, own: &[(Text, Text)]) -> PeerTerm {
    let named = term.namespaces.as_deref().unwrap_or_default();
    let mut namespaces: Vec<Text> = named.iter().map(|name| name.as_str().into()).collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.push(namespace.clone());
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    let mut labels = term.label_selector.as_ref().map(label_selector);
    if let Some(labels) = &mut labels {
        merge(labels, (&term.match_label_keys, Operator::In), own);
        merge(labels, (&term.mismatch_label_keys, Operator::NotIn), own);
    }
    let peers = PeerSelector {
        namespaces,
        namespace_selector: term.namespace_selector.as_ref().map(label_selector),
        labels,
    };
    PeerTerm { key: term.topology_key.as_str().into(), peers }
}

fn spread(constraint: &full::TopologySpreadConstraint, own: &[(Text, Text)]) -> Spread {
    let mut labels = constraint.label_selector.as_ref().map(label_selector);
    if let Some(labels) = &mut labels {
        merge(labels, (&constraint.match_label_keys, Operator::In), own);
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

/// Adds to a selector that pods have, or have not, a pod's own values of some labels: none of those
/// that it lacks, and none where an API server did so.
fn merge(
    labels: &mut LabelSelector,
    (keys, operator): (&Option<Vec<String>>, Operator),
    own: &[(Text, Text)],
) {
    let keys = keys.iter().flatten();
    for (key, value) in keys.filter_map(|key| own.iter().find(|(own, _)| **own == **key)) {
        if labels.iter().all(|known| known.key != *key || known.operator != operator) {
            let (key, values) = (key.clone(), vec![value.clone()]);
            labels.push(Requirement { key, operator, values });
        }
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

/// Which labels of pods some selector reads, and of which pods.
#[derive(Debug, Default)]
pub struct Relevance {
    keys: BTreeSet<Text>,
    /// Those of pods anywhere.
    everywhere: bool,
    /// Those of pods in these namespaces: that pods of one look at each other, as those of the
    /// cluster's own DNS do, makes no kinds of pods elsewhere.
    namespaces: BTreeSet<Text>,
}

impl Relevance {
    /// A kind of pod was seen that is ours, or that stands somewhere; whether more of others
    /// matters now than did.
    pub fn meet(&mut self, shape: &PodShape, ours: bool) -> bool {
        let Some(wants) = &shape.neighbours else { return false };
        // Which namespace it is spread in, a shape does not say.
        let spread = ours && !wants.spread.is_empty();
        let mut more = spread && !std::mem::replace(&mut self.everywhere, true);
        for peers in terms(wants).map(|term| &term.peers) {
            let Some(labels) = &peers.labels else { continue };
            more |= self.read_keys(labels);
            more |= peers.namespace_selector.is_some()
                && !std::mem::replace(&mut self.everywhere, true);
            for namespace in peers.namespaces.iter().filter(|_| !self.everywhere) {
                more |= self.namespaces.insert(namespace.clone());
            }
        }
        self.everywhere |= self.namespaces.len() > NAMESPACES_MAX;
        for labels in wants.spread.iter().filter_map(|spread| spread.labels.as_ref()) {
            more |= ours && self.read_keys(labels);
        }
        more
    }

    fn read_keys(&mut self, labels: &LabelSelector) -> bool {
        let mut more = false;
        for requirement in labels {
            more |= self.keys.insert(requirement.key.clone());
        }
        more
    }

    /// A shape as others may see it; of pods that we do not place only what others heed.
    pub fn applied(
        &self,
        shape: &Arc<PodShape>,
        (namespace, labels): (&Text, &Pairs),
        ours: bool,
        shared: &mut Shared,
    ) -> Arc<PodShape> {
        let wants = shape.neighbours.as_ref();
        let heeded = match ours {
            // A term without a selector means no pod, and a node without its key is refused for it.
            true => wants.cloned(),
            false => wants.and_then(|wants| heeded(wants)),
        };
        let seen = self.everywhere || self.namespaces.contains(namespace) || heeded.is_some();
        if !seen && wants.is_none() {
            return shape.clone();
        }
        let mut own = PodShape { neighbours: heeded, ..PodShape::clone(shape) };
        if seen {
            let read = labels.iter().filter(|(key, _)| self.keys.contains(key)).cloned();
            let kin = Kin { namespace: namespace.clone(), labels: read.collect::<Labels>() };
            own.kin = Some(shared.kin.of(kin));
        }
        shared.shapes.of(own)
    }
}

/// Every term about pods around that is not of a spread constraint.
fn terms(wants: &Neighbours) -> impl Iterator<Item = &PeerTerm> {
    let required = wants.affinity.iter().chain(&wants.anti_affinity);
    required.chain(wants.preferred.iter().map(|preferred| &preferred.term))
}

/// What pods of another scheduler want of those that come: whom they keep away, and whom they would
/// have near or not. Whether they are spread themselves is not ours to see to.
fn heeded(wants: &Neighbours) -> Option<Arc<Neighbours>> {
    let means = |term: &&PeerTerm| term.peers.labels.is_some();
    let of = |terms: &[PeerTerm]| terms.iter().filter(means).cloned().collect::<Vec<_>>();
    let preferred = wants.preferred.iter().filter(|it| means(&&it.term)).cloned().collect();
    let heeded = Neighbours {
        affinity: of(&wants.affinity),
        anti_affinity: of(&wants.anti_affinity),
        preferred,
        spread: Vec::new(),
    };
    (heeded != Neighbours::default()).then(|| Arc::new(heeded))
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
    fn keys_of_terms_mean_the_pods_own_values() {
        let term = |expressions: serde_json::Value| {
            serde_json::json!({"affinity": {"podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "topologyKey": "zone",
                    "labelSelector": {"matchLabels": {"app": "x"}, "matchExpressions": expressions},
                    "matchLabelKeys": ["job", "absent"],
                    "mismatchLabelKeys": ["try"],
                }],
            }}})
        };
        let labels = [("app", "x"), ("job", "j"), ("try", "2")];
        let of_template = shape(term(serde_json::json!([])), &labels);
        let wants = of_template.neighbours.as_ref().expect("a term");
        let selects = wants.affinity[0].peers.labels.as_ref().expect("a selector");
        let means = |key: &str, operator, value: &str| Requirement {
            key: key.into(),
            operator,
            values: vec![value.into()],
        };
        let own = [means("job", Operator::In, "j"), means("try", Operator::NotIn, "2")];
        assert_eq!(selects[..], [&[means("app", Operator::In, "x")][..], &own].concat());
        // As an API server has merged them into a pod.
        let merged = serde_json::json!([
            {"key": "job", "operator": "In", "values": ["j"]},
            {"key": "try", "operator": "NotIn", "values": ["2"]},
        ]);
        assert_eq!(shape(term(merged), &labels), of_template);
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
    fn of_others_terms_are_heeded_and_how_they_are_spread_is_not() {
        let (mut relevance, mut shared) = (Relevance::default(), Shared::default());
        let mut both = anti("app");
        let term = |key: &str| {
            let labels = serde_json::json!({"matchLabels": {key: "x"}});
            serde_json::json!({"topologyKey": "zone", "labelSelector": labels})
        };
        let of_nobody = serde_json::json!({"topologyKey": "zone"});
        both["affinity"]["podAffinity"] = serde_json::json!({
            "requiredDuringSchedulingIgnoredDuringExecution": [term("near"), of_nobody],
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 7, "podAffinityTerm": term("wished")},
                {"weight": 7, "podAffinityTerm": of_nobody},
            ],
        });
        both["topologySpreadConstraints"] = serde_json::json!([{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"role": "x"}},
        }]);
        let theirs = Arc::new(shape(both, &[]));
        relevance.meet(&theirs, false);
        let labels = ["near", "role", "wished"].map(|key| (key.into(), "x".into()));
        let labels: Pairs = labels.into();
        let seen = relevance.applied(&theirs, (&"ns".into(), &labels), false, &mut shared);
        let kin = seen.kin.as_deref().expect("they mean each other");
        assert_eq!(kin.labels.keys().map(|key| &**key).collect::<Vec<_>>(), ["near", "wished"]);
        let wants = seen.neighbours.as_deref().expect("terms");
        assert_eq!((wants.affinity.len(), wants.anti_affinity.len()), (1, 1));
        assert_eq!((wants.preferred.len(), wants.spread.len()), (1, 0));
    }

    #[test]
    fn what_is_wanted_in_one_namespace_makes_no_kinds_elsewhere() {
        let (mut relevance, mut shared) = (Relevance::default(), Shared::default());
        let plain = Arc::new(PodShape::default());
        let labels: Pairs = [("app".into(), "x".into())].into();
        assert!(relevance.meet(&shape(anti("app"), &[]), false));
        let mut at = |relevance: &Relevance, namespace: &str| {
            let named = (&namespace.into(), &labels);
            relevance.applied(&plain, named, true, &mut shared).kin.clone()
        };
        assert!(at(&relevance, "ns").is_some_and(|kin| !kin.labels.is_empty()));
        assert!(at(&relevance, "other").is_none());
        let wants_in = |shape: &mut PodShape, namespace: &str| {
            let wants = Arc::make_mut(shape.neighbours.as_mut().expect("a term"));
            wants.anti_affinity[0].peers.namespace_selector = None;
            wants.anti_affinity[0].peers.namespaces = vec![namespace.into()];
        };
        let mut anywhere = shape(anti("app"), &[]);
        let wants = Arc::make_mut(anywhere.neighbours.as_mut().expect("a term"));
        wants.anti_affinity[0].peers.namespace_selector = Some(Vec::new());
        let mut all = Relevance::default();
        assert!(all.meet(&anywhere, false));
        assert!(at(&all, "other").is_some());
        for number in 1..=NAMESPACES_MAX {
            assert!(at(&relevance, "other").is_none(), "{number}");
            wants_in(&mut anywhere, &format!("n{number}"));
            assert!(relevance.meet(&anywhere, false));
        }
        assert!(at(&relevance, "other").is_some());
        wants_in(&mut anywhere, "late");
        assert!(!relevance.meet(&anywhere, false), "it counts there already");
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
