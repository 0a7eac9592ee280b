//! Whether a flavor may serve a pod at all, by its taints and labels (Kueue's rules).
//!
//! Taints: every NoSchedule and NoExecute taint must be tolerated by the pod or the flavor.
//! Affinity: the pod's selectors are tested against the flavor's own labels, after dropping every
//! requirement on a key that this flavor does not have; a term that becomes empty matches, and so
//! does a flavor without labels.
//! Topology: a flavor that has one takes no other level as required, of a gang or of slices.

use crate::explain::reason::FlavorProblem;
use crate::model::input::{FlavorFacts, PodShape, Taint, TaintEffect};
use crate::model::room::Room;
use crate::place::gang::TopologyAsk;
use crate::rules::selector::holds;
use crate::rules::taints::tolerates;

/// Refuses a flavor that excludes the pod.
pub fn check(pod: &PodShape, flavor: &FlavorFacts, compare: bool) -> Result<(), FlavorProblem> {
    if let Some(taint) = untolerated(pod, flavor, compare) {
        return Err(FlavorProblem::Taint { key: taint.key.clone(), value: taint.value.clone() });
    }
    match affinity_allows(pod, flavor) {
        true => Ok(()),
        false => Err(FlavorProblem::Affinity),
    }
}

/// Refuses a flavor whose Topology lacks a level that is required.
pub fn check_levels(
    room: &Room,
    flavor: &FlavorFacts,
    asked: TopologyAsk,
) -> Result<(), FlavorProblem> {
    let Some(topology) = &flavor.topology else { return Ok(()) };
    let levels = asked.required.into_iter().chain(asked.slices.map(|slices| slices.level));
    let mut keys = levels.map(|level| &room.levels[usize::from(level.0)]);
    match keys.find(|level| !flavor.levels.contains(level)) {
        None => Ok(()),
        Some(level) => Err(FlavorProblem::Level {
            level: level.clone(),
            topology: topology.clone(),
            known: flavor.levels.clone(),
        }),
    }
}

/// The first hard taint of a flavor that neither the pod nor the flavor tolerates.
pub fn untolerated<'a>(
    pod: &PodShape,
    flavor: &'a FlavorFacts,
    compare: bool,
) -> Option<&'a Taint> {
    let blocks = |taint: &&Taint| {
        taint.effect != TaintEffect::PreferNoSchedule
            && !tolerates(&pod.tolerations, taint, compare)
            && !tolerates(&flavor.tolerations, taint, compare)
    };
    flavor.taints.iter().find(blocks)
}

fn affinity_allows(pod: &PodShape, flavor: &FlavorFacts) -> bool {
    let labels = &flavor.node_labels;
    let selected =
        pod.node_selector.iter().all(|(key, value)| labels.get(key).is_none_or(|has| has == value));
    let Some(affinity) = &pod.node_affinity else { return selected };
    let matches = |term: &crate::model::input::NodeSelectorTerm| {
        let mut known = term.labels.iter().filter(|r| labels.contains_key(&r.key));
        known.all(|requirement| holds(requirement, labels.get(&requirement.key)))
    };
    selected && affinity.terms.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::{NodeSelector, NodeSelectorTerm, Operator, Requirement};

    fn flavor(labels: &[(&str, &str)]) -> FlavorFacts {
        let labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        FlavorFacts {
            name: "f".into(),
            node_labels: labels,
            taints: vec![],
            tolerations: vec![],
            topology: None,
            levels: vec![],
            broken: vec![],
        }
    }

    fn wants(key: &str, values: &[&str]) -> PodShape {
        let requirement = Requirement {
            key: key.into(),
            operator: Operator::In,
            values: values.iter().map(|v| (*v).into()).collect(),
        };
        let term = NodeSelectorTerm { labels: vec![requirement], fields: vec![] };
        PodShape { node_affinity: Some(NodeSelector { terms: vec![term] }), ..PodShape::default() }
    }

    #[test]
    fn only_the_flavors_own_keys_count() {
        let pod = wants("gpu", &["a100"]);
        assert_eq!(check(&pod, &flavor(&[("gpu", "a100")]), false), Ok(()));
        assert_eq!(check(&pod, &flavor(&[("gpu", "t4")]), false), Err(FlavorProblem::Affinity));
        assert_eq!(check(&pod, &flavor(&[("zone", "a")]), false), Ok(()));
        assert_eq!(check(&pod, &flavor(&[]), false), Ok(()));
    }

    #[test]
    fn soft_taints_of_flavors_are_ignored() {
        let mut tainted = flavor(&[]);
        let taint = |effect| Taint { key: "k".into(), value: "v".into(), effect };
        tainted.taints = vec![taint(TaintEffect::PreferNoSchedule)];
        assert_eq!(check(&PodShape::default(), &tainted, false), Ok(()));
        tainted.taints = vec![taint(TaintEffect::NoExecute)];
        assert!(check(&PodShape::default(), &tainted, false).is_err());
    }
}
