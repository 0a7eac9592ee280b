//! What must hold in every state that a stage passes through, checked on facts and views.

use std::collections::BTreeMap;

use capstan_core::Engine;
use capstan_core::explain::quantity::USD_PER_HOUR;
use capstan_core::model::input::{GangKey, Input, NodeFacts, PodFacts, Text, UNLIMITED};

use crate::model::{QuotaModel, counted};
use crate::play::Stage;

/// All that is wrong with a stage: gangs in part, negative free, quota overrun (nothing came in
/// from outside with debt), and, once the engine knows all, views that disagree with a recount.
pub fn broken(stage: &Stage) -> Vec<String> {
    let mut wrong = partial_gangs(stage);
    wrong.extend(overfull_nodes(stage));
    let model = charged(stage);
    wrong.extend(model.overruns());
    if stage.caught_up() {
        wrong.extend(views_that_disagree(&stage.engine, &model));
    }
    wrong
}

/// Views of the engine that disagree with a recount from the facts.
pub fn disagreements(stage: &Stage) -> Vec<String> {
    views_that_disagree(&stage.engine, &charged(stage))
}

/// The quota model with all bound pods charged to what their notes say.
pub fn charged(stage: &Stage) -> QuotaModel {
    let mut model = QuotaModel::new(&stage.rest);
    let policy = stage.rest.iter().rev().find_map(|fact| match fact {
        Input::Policy(policy) => Some(policy.clone()),
        _ => None,
    });
    let args = &policy.unwrap_or_default().quota;
    let queues = model.queues();
    let mut behind: BTreeMap<(&Text, &Text), &Text> = BTreeMap::new();
    for fact in &stage.rest {
        if let Input::LocalQueue(queue) = fact {
            behind.insert((&queue.namespace, &queue.name), &queue.cluster_queue);
        }
    }
    for pod in stage.pods.values().filter(|pod| holds(pod)) {
        let Some(local) = &pod.wishes.queue else { continue };
        let note = pod.binding.clone().unwrap_or_default();
        // Where no LocalQueue leads to one any more, the one that it was bound with counts.
        let named = behind.get(&(&pod.namespace, local)).copied();
        let named = named.filter(|queue| queues.contains(queue));
        let Some(queue) = named.or(note.queue.as_ref()) else { continue };
        for (resource, flavor) in note.flavors.iter() {
            let amount = match &**resource {
                USD_PER_HOUR => note.price.unwrap_or_default().0,
                _ => counted(args, &pod.shape.requests, resource),
            };
            model.charge(queue, flavor, resource, amount);
        }
    }
    model
}

fn holds(pod: &PodFacts) -> bool {
    pod.node.is_some() && !pod.phase.terminal()
}

/// A gang has at least its minimum bound, or nothing; who is leaving does not count, nor does one
/// whose owner is still making pods: what they need is kept for them.
fn partial_gangs(stage: &Stage) -> Vec<String> {
    let mut gangs: BTreeMap<&GangKey, (Vec<&PodFacts>, usize)> = BTreeMap::new();
    for pod in stage.pods.values() {
        let (members, bound) = gangs.entry(&pod.gang.key).or_default();
        members.push(pod);
        *bound += usize::from(holds(pod) && !pod.terminating);
    }
    let mut wrong = Vec::new();
    for (gang, (members, bound)) in gangs {
        if stage.makes_more(gang) {
            continue;
        }
        let stated = members.iter().filter_map(|member| member.gang.min_member).max();
        let need = stated.map_or(members.len(), |min| min as usize);
        if bound > 0 && bound < need {
            let name = &members[0].gang.name;
            wrong.push(format!("gang {name} has {bound} of at least {need} members bound"));
        }
    }
    wrong
}

/// Free is never negative: what pods hold stays within what nodes have.
fn overfull_nodes(stage: &Stage) -> Vec<String> {
    let mut used: BTreeMap<(&Text, Text), i64> = BTreeMap::new();
    for pod in stage.pods.values().filter(|pod| holds(pod)) {
        let node = pod.node.as_ref().expect("what holds is bound");
        *used.entry((node, "pods".into())).or_default() += 1;
        for (resource, amount) in &pod.shape.requests {
            *used.entry((node, resource.clone())).or_default() += amount;
        }
    }
    let nodes: BTreeMap<&Text, &NodeFacts> = stage
        .rest
        .iter()
        .filter_map(|fact| match fact {
            Input::Node(node) => Some((&node.name, &**node)),
            _ => None,
        })
        .collect();
    let mut wrong = Vec::new();
    for ((node, resource), amount) in used {
        let Some(facts) = nodes.get(node) else {
            wrong.push(format!("{node} has pods and does not exist"));
            continue;
        };
        let has = facts.allocatable.get(&resource).copied().unwrap_or(0);
        if has != UNLIMITED && amount > has {
            wrong.push(format!("{node} has {has} {resource}, {amount} are held"));
        }
    }
    wrong
}

/// The engine's incremental numbers against the recount.
fn views_that_disagree(engine: &Engine, model: &QuotaModel) -> Vec<String> {
    let mut wrong = Vec::new();
    for view in engine.queues() {
        for quota in &view.quotas {
            let pair = (quota.flavor.clone(), quota.resource.clone());
            let name = &view.name;
            let used = model.used(name, &pair);
            let mut differs = |what: &str, have: i64, want: i64| {
                if have != want {
                    wrong.push(format!("{name} {pair:?}: {what} is shown as {have}, is {want}"));
                }
            };
            differs("used", quota.used, used);
            differs("borrowed", quota.borrowed, (used - quota.nominal).max(0));
            differs("available", quota.available, model.room(name, &pair).max(0));
        }
        let share = view.share.map(|share| (share, model.share(&view.name).shown()));
        if let Some((have, want)) = share.filter(|(have, want)| have != want) {
            wrong.push(format!("{}: a share of {have} is shown, it has {want}", view.name));
        }
    }
    for view in engine.cohorts() {
        let share = view.share.map(|share| (share, model.share(&view.name).shown()));
        if let Some((have, want)) = share.filter(|(have, want)| have != want) {
            wrong.push(format!("{}: a share of {have} is shown, it has {want}", view.name));
        }
    }
    wrong
}

/// Members bound, over all gangs and owners.
pub fn bound(stage: &Stage) -> usize {
    stage.pods.values().filter(|pod| holds(pod)).count()
}

#[cfg(test)]
mod tests {
    use capstan_core::model::input::BindingNote;
    use capstan_core::time::Time;

    use super::*;
    use crate::facts::{
        DEFAULT, amounts, cluster_queue, gang, group, in_queue, local_queue, node, nominal, shape,
        text,
    };

    /// A queue of 4 CPUs, a node of 4 and a gang of 3 pods of 2.
    fn stage() -> Stage {
        let mut stage = Stage::new(Time(0));
        let quota = group(&[(DEFAULT, &[("cpu", nominal(4))])]);
        stage.add([
            Input::Node(node("n", &[("cpu", 4)]).into()),
            Input::ClusterQueue(cluster_queue("q", None, quota)),
            Input::LocalQueue(local_queue("q")),
        ]);
        let members = gang("g", 3, Some(2), &shape(&[("cpu", 2)]), &in_queue(Some("q")));
        stage.add(members.into_iter().map(Input::Pod));
        stage
    }

    fn bind(stage: &mut Stage, members: usize) {
        let note = BindingNote {
            flavors: BTreeMap::from([(text("cpu"), text(DEFAULT))]).into(),
            ..BindingNote::default()
        };
        for pod in stage.pods.values_mut().take(members) {
            pod.node = Some(text("n"));
            pod.binding = Some(note.clone().into());
        }
    }

    #[test]
    fn whole_and_absent_gangs_are_fine_and_parts_are_not() {
        let mut stage = stage();
        assert!(partial_gangs(&stage).is_empty());
        bind(&mut stage, 1);
        assert_eq!(partial_gangs(&stage).len(), 1);
        bind(&mut stage, 2);
        assert!(partial_gangs(&stage).is_empty());
        assert_eq!(bound(&stage), 2);
    }

    #[test]
    fn overfull_nodes_and_queues_are_found() {
        let mut stage = stage();
        bind(&mut stage, 2);
        assert!(overfull_nodes(&stage).is_empty());
        assert!(charged(&stage).overruns().is_empty());
        bind(&mut stage, 3);
        assert_eq!(overfull_nodes(&stage), ["n has 4 cpu, 6 are held"]);
        assert_eq!(charged(&stage).overruns().len(), 1);
        assert_eq!(amounts(&[("cpu", 0)]).len(), 0);
    }
}
