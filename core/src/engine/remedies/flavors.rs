//! Flavors that a workload's own pods exclude, and what of them to change: a taint to tolerate, a
//! label to select by.
//!
//! Each is tried with pods that are changed so; only pods' `nodeSelector` and tolerations are
//! edited, what their affinity excludes stays excluded. With labels that several flavors have in
//! common they may start in another of them: only one that some of them get then is told.

use std::sync::Arc;

use crate::engine::Engine;
use crate::explain::reason::{FlavorProblem, Reason};
use crate::explain::view::{Change, Remedy};
use crate::model::ids::{FlavorIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{
    FlavorFacts, PodShape, TaintEffect, Text, Toleration, TolerationOperator,
};
use crate::rules::taints::tolerates;
use crate::time::Time;

/// Flavors tried: queues rarely list more that some pods may not use.
const FLAVORS_MAX: usize = 4;

/// What the pods of all sets have to say.
#[derive(Debug, Default)]
struct Edits {
    tolerate: Vec<(Text, Text)>,
    select: Vec<(Text, Text)>,
}

impl Engine {
    /// Flavors that would take it, if its pods let them.
    pub(super) fn other_flavors(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        let Some(Reason::Flavors { tried, .. }) = self.nominate_afresh(index).choice.reason else {
            return Vec::new();
        };
        let excluded = tried.iter().filter(|refusal| {
            matches!(refusal.why, FlavorProblem::Taint { .. } | FlavorProblem::Affinity)
        });
        let flavors = excluded.filter_map(|refusal| {
            let flavor = self.state.quota.find_flavor(&refusal.flavor)?;
            Some((flavor, self.state.quota.flavor(flavor)?.clone()))
        });
        let flavors: Vec<(FlavorIdx, Arc<FlavorFacts>)> = flavors.take(FLAVORS_MAX).collect();
        let let_in = |(flavor, facts): &(FlavorIdx, Arc<FlavorFacts>)| {
            self.let_flavor_in(now, index, (*flavor, facts))
        };
        flavors.iter().filter_map(let_in).collect()
    }

    fn let_flavor_in(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        (flavor, facts): (FlavorIdx, &FlavorFacts),
    ) -> Option<Remedy> {
        let old: Vec<ShapeIdx> =
            self.state.workloads[index].sets.iter().map(|set| set.shape).collect();
        let compare = self.state.room.args.toleration_comparison;
        let mut edits = Edits::default();
        let mut new = Vec::with_capacity(old.len());
        for shape in &old {
            let mut pod = PodShape::clone(&self.state.room.shape(*shape).facts);
            edit(&mut pod, facts, compare, &mut edits);
            new.push(self.state.room.intern_shape(&Arc::new(pod)));
        }
        let start = self.start_reshaped(now, index, &old, &new)?;
        let Edits { tolerate, select } = edits;
        let told = Change::AnotherFlavor { flavor: facts.name.clone(), tolerate, select };
        let mut edited = new.iter().zip(&old).filter(|(new, old)| new != old);
        let gets_it = edited.any(|(shape, _)| start.flavors.contains(&(*shape, flavor)));
        gets_it.then(|| start.by(told))
    }
}

/// Has a pod let a flavor in; what for is noted once.
fn edit(pod: &mut PodShape, flavor: &FlavorFacts, compare: bool, edits: &mut Edits) {
    let note = |list: &mut Vec<(Text, Text)>, pair: (&Text, &Text)| {
        let pair = (pair.0.clone(), pair.1.clone());
        if !list.contains(&pair) {
            list.push(pair);
        }
    };
    for (key, value) in &mut pod.node_selector {
        if let Some(has) = flavor.node_labels.get(key).filter(|has| *has != value) {
            *value = has.clone();
            note(&mut edits.select, (key, has));
        }
    }
    for taint in flavor.taints.iter().filter(|it| it.effect != TaintEffect::PreferNoSchedule) {
        let known = [&pod.tolerations, &flavor.tolerations];
        if known.into_iter().any(|known| tolerates(known, taint, compare)) {
            continue;
        }
        let bare = taint.value.is_empty();
        pod.tolerations.push(Toleration {
            key: taint.key.clone(),
            operator: if bare { TolerationOperator::Exists } else { TolerationOperator::Equal },
            value: taint.value.clone(),
            effect: None,
        });
        note(&mut edits.tolerate, (&taint.key, &taint.value));
    }
}
