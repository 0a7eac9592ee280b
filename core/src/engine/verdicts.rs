//! Node by node: which nodes take a pod, as if it were not placed, and how good each is for it.
//!
//! Decides what `explain` shows of nodes. A pod is looked at as its workload would place it: with
//! the flavors that it was given, else with those that it is tried with; beside the members of its
//! gang that have places, and in their domain where one is required. Which nodes are free once
//! somebody was preempted is not for here.
//!
//! Cost: every node once, and for a member of a running gang its other members for each node.

use capstan_topology::{DomainIdx, LevelIdx, NodeIdx};

use crate::engine::Engine;
use crate::explain::reason::NodeRefusal;
use crate::explain::verdict;
use crate::explain::view::{NodeVerdict, PodExplanation};
use crate::model::ids::{ClassIdx, FlavorIdx, PodIdx, QueueIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::model::workload::QueueRef;
use crate::place::levels;
use crate::plan::State;
use crate::quota::flavors::Choice;
use crate::rules;
use crate::score;

/// What a gang means for one of its members.
#[derive(Default)]
struct Gang {
    /// Where the others are, each node once.
    company: Vec<NodeIdx>,
    /// The domain that a required level keeps it in.
    home: Option<(LevelIdx, DomainIdx)>,
    /// A required level, as known, and its name.
    required: Option<(Option<LevelIdx>, Text)>,
}

impl Engine {
    /// Why a pod may or may not run, node by node, as if it were not placed; `None`: no such pod.
    pub fn explain_pod(&mut self, namespace: &str, name: &str) -> Option<PodExplanation> {
        let named =
            |pod: &&crate::model::pod::Pod| &*pod.namespace == namespace && &*pod.name == name;
        let mut found: Vec<PodIdx> = Vec::new();
        for (index, pod) in self.state.pods.iter() {
            if named(&pod) {
                found.push(index);
            }
        }
        found.sort_by_cached_key(|pod| self.state.pods[*pod].uid.clone());
        let pod = *found.first()?;
        let (nodes, beside) = self.looked_at(pod);
        let pod = &self.state.pods[pod];
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        let workload = pod.workload.map(|workload| &self.state.workloads[workload]);
        let of = workload.map(|workload| workload.full_name.clone());
        let waits = workload.filter(|_| pod.place.is_none()).and_then(|it| it.reason.clone());
        Some(PodExplanation { namespace, name, workload: of, beside, waits, nodes })
    }

    /// Verdicts of all nodes on a pod as if it were not placed.
    pub(super) fn verdicts(&mut self, pod: PodIdx) -> Vec<NodeVerdict> {
        self.looked_at(pod).0
    }

    /// The same, and whether there are others of its gang to be near to.
    fn looked_at(&mut self, pod: PodIdx) -> (Vec<NodeVerdict>, bool) {
        let place = self.state.pods[pod].place;
        let chosen = self.state.unsettle(pod);
        let flavors = self.flavors_of(pod);
        let gang = self.gang_of(pod);
        let workload = self.state.pods[pod].workload;
        let passed = workload.map(|workload| match place {
            Some(_) => self.state.pass_nominated_for(&[pod]),
            None => self.state.pass_nominated(workload),
        });
        let nodes = self.on_all_nodes(pod, &flavors, &gang);
        passed.into_iter().for_each(|passed| self.state.restore_nominated(passed));
        if let Some(node) = place {
            self.state.settle(pod, node);
            self.state.room.volumes.restore(&chosen);
        }
        (nodes, !gang.company.is_empty())
    }

    fn on_all_nodes(
        &mut self,
        pod: PodIdx,
        flavors: &[FlavorIdx],
        gang: &Gang,
    ) -> Vec<NodeVerdict> {
        let class = self.class_of(pod, flavors);
        let state = &self.state;
        let class = state.classes.class(class);
        let pod = &state.pods[pod];
        let named = pod.named_node();
        let away = gang.home.map(|(level, home)| NodeRefusal::AwayFromGang {
            level: state.room.levels[level.at()].clone(),
            domain: verdict::name_of(state, level, home),
        });
        let mut together = gang.company.clone();
        let verdict = |(node, facts): (NodeIdx, &crate::model::input::NodeFacts)| {
            let question = class.question(&state.room, node);
            let elsewhere = named.filter(|named| **named != facts.name).cloned();
            let mut refusals: Vec<NodeRefusal> = match elsewhere {
                Some(wanted) => vec![NodeRefusal::NodeName { wanted }],
                None => rules::verdict(&question),
            };
            let inside = gang.home.is_none_or(|home| self.lies_in(node, home));
            refusals.extend(away.clone().filter(|_| !inside));
            if let Some((level, name)) = gang.required.as_ref().filter(|_| gang.home.is_none())
                && level.is_none_or(|level| self.domain_of(node, level).is_none())
            {
                refusals.push(NodeRefusal::NoDomain { level: name.clone() });
            }
            let mut locality = || {
                together.push(node);
                let value = levels::locality(&state.room, &together);
                together.pop();
                if together.is_empty() { score::FULL } else { value }
            };
            let fits = refusals.is_empty();
            let shown = || score::explain(&question, &class.weights, (locality(), class.wished()));
            let score = fits.then(shown);
            NodeVerdict { node: facts.name.clone(), refusals, score }
        };
        state.room.nodes_by_name().map(verdict).collect()
    }

    /// The class of a pod with flavors, brought up to date.
    fn class_of(&mut self, pod: PodIdx, flavors: &[FlavorIdx]) -> ClassIdx {
        let state = &self.state;
        let workload = state.pods[pod].workload.map(|workload| &state.workloads[workload]);
        let queue = workload.and_then(|w| match &w.queue {
            QueueRef::Queue(queue) => Some(*queue),
            _ => None,
        });
        let (shape, profile) = (state.pods[pod].shape, self.profile(queue));
        let class = self.state.class(shape, flavors, profile);
        self.state.classes.fresh(&self.state.room, class);
        class
    }

    fn lies_in(&self, node: NodeIdx, (level, domain): (LevelIdx, DomainIdx)) -> bool {
        self.domain_of(node, level) == Some(domain)
    }

    fn domain_of(&self, node: NodeIdx, level: LevelIdx) -> Option<DomainIdx> {
        let tree = &self.state.room.tree;
        tree.position(node).and_then(|position| tree.domain_of(level, position))
    }

    /// What the other members of a pod's gang mean for it.
    fn gang_of(&self, pod: PodIdx) -> Gang {
        let pod = &self.state.pods[pod];
        let Some(workload) = pod.workload else { return Gang::default() };
        let entry = &self.state.workloads[workload];
        let own = self.state.room.shape(pod.shape).facts.levels.as_ref();
        let own = own.and_then(|own| own.required.as_ref());
        let wanted = entry.topology().required.as_ref().or(own).cloned();
        let Ok(topology) = self.topology_ask(entry.cluster_queue, workload) else {
            return Gang { required: wanted.map(|name| (None, name)), ..Gang::default() };
        };
        let topology = topology.of_set(&self.state.room, pod.shape);
        let (mut company, home) = self.company(workload, pod.shape, topology);
        // Those that others put outside of the domain draw nobody there.
        company.retain(|node| home.is_none_or(|home| self.lies_in(*node, home)));
        company.sort_unstable();
        company.dedup();
        let levels = &self.state.room.levels;
        let named = topology.required.map(|level| (Some(level), levels[level.at()].clone()));
        Gang { company, home, required: named }
    }

    /// The flavors that a member was given, else those that it is tried with.
    fn flavors_of(&mut self, pod: PodIdx) -> Vec<FlavorIdx> {
        let (workload, shape) = (self.state.pods[pod].workload, self.state.pods[pod].shape);
        let Some(workload) = workload else { return Vec::new() };
        let entry = &self.state.workloads[workload];
        let given = entry.assignment.as_ref().and_then(|assignment| assignment.set(shape));
        // One that was found without a flavor could be on any node; what joins it could not.
        if let Some(given) = given.filter(|given| !given.nodes_of.is_empty()) {
            return given.nodes_of.clone();
        }
        let Some(queue) = entry.cluster_queue else { return Vec::new() };
        match (entry.state, &entry.queue) {
            (State::Queued, QueueRef::Queue(_)) => {
                let tried = self.nominate_afresh(workload);
                let at = tried.sets.iter().position(|set| set.shape == shape);
                self.tried(queue, at, &tried.choice)
            }
            _ => match self.choice_for_one(workload, queue, shape) {
                Some(choice) => self.tried(queue, Some(0), &choice),
                None => Vec::new(),
            },
        }
    }

    /// The flavors that a choice has for one set, or whose refusal it tells.
    fn tried(&self, queue: QueueIdx, set: Option<usize>, choice: &Choice) -> Vec<FlavorIdx> {
        let chosen = set.and_then(|at| choice.sets.get(at)).map_or(&[][..], |set| set);
        let mut flavors: Vec<FlavorIdx> = chosen.iter().map(|(_, flavor)| *flavor).collect();
        // The reason may be about another flavor of the group than the one that would be taken.
        let quota = &self.state.quota;
        let told = choice.reason.as_ref().and_then(|reason| reason.flavor());
        if let Some(told) = told.and_then(|name| quota.find_flavor(name)) {
            let groups = &quota.queue(queue).groups;
            let beside = |flavor: &FlavorIdx| {
                groups.iter().all(|g| !g.flavors.contains(flavor) || !g.flavors.contains(&told))
            };
            flavors.retain(beside);
            flavors.push(told);
        }
        flavors.sort_unstable();
        flavors.dedup();
        flavors
    }

    /// The pod set of a member, where there are several.
    pub(super) fn pod_set_of(&self, index: WorkloadIdx, pod: PodIdx) -> Option<Text> {
        let sets = &self.state.workloads[index].sets;
        let shape = self.state.pods[pod].shape;
        let set = sets.iter().filter(|_| sets.len() > 1).find(|set| set.shape == shape)?;
        Some(set.name.clone())
    }
}
