//! A stage: facts, one engine, and a world that carries out every effect at once.
//!
//! The smallest loop that closes the circle: `step`, play the effects on the facts, feed what
//! changed and the outcomes back, until nothing more comes. Victims are gone before the next
//! step, or linger for a few; bare pods do not come back, owners do, their pods at once or one by
//! one. It is for properties of the engine itself; the virtual cluster with time and faults is
//! another's.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::Engine;
use capstan_core::model::input::{
    EvictionNote, GangKey, Input, OwnerFacts, PodFacts, PodPhase, Text,
};
use capstan_core::plan::{Action, Effect, EffectResult, Preemption, StepOutput};
use capstan_core::time::Time;

use crate::facts::pods_of;
use crate::seed::Seed;

/// Steps until a stage must have settled; more is a livelock.
const STEPS_MAX: usize = 1_000;
/// Steps that a victim lingers, at most.
const LINGERS_MAX: u64 = 4;

/// Facts and the engine that sees them.
#[derive(Debug, Default)]
pub struct Stage {
    /// The engine.
    pub engine: Engine,
    /// Pods by uid, as the API would show them now.
    pub pods: BTreeMap<Text, PodFacts>,
    /// Owners by uid.
    pub owners: BTreeMap<Text, OwnerFacts>,
    /// All other facts, as fed.
    pub rest: Vec<Input>,
    /// Now.
    pub now: Time,
    /// How long each victim lingers, and each pod of an owner is to come; `None`: not at all.
    pub lingers: Option<Seed>,
    /// Victims that linger, with the steps until they are gone.
    leaving: BTreeMap<Text, u64>,
    /// Pods that owners have still to make, with the steps until they do.
    coming: Vec<(u64, PodFacts)>,
    news: Vec<Input>,
}

impl Stage {
    /// An empty stage at a time.
    pub fn new(now: Time) -> Stage {
        Stage { now, ..Stage::default() }
    }

    /// The same stage led by another engine, which has been told everything that is shown.
    pub fn taken_over_by(&self, engine: Engine) -> Stage {
        assert!(self.caught_up(), "what is on its way is known to the old engine only");
        Stage {
            engine,
            pods: self.pods.clone(),
            owners: self.owners.clone(),
            rest: self.rest.clone(),
            now: self.now,
            lingers: self.lingers.clone(),
            leaving: BTreeMap::new(),
            coming: Vec::new(),
            news: Vec::new(),
        }
    }

    /// The same stage led by a new engine that is told what the API shows, whatever is on its way:
    /// victims that linger go when they would have gone.
    pub fn restarted(&self) -> Stage {
        Stage {
            engine: Engine::new(),
            pods: self.pods.clone(),
            owners: self.owners.clone(),
            rest: self.rest.clone(),
            now: self.now,
            lingers: self.lingers.clone(),
            leaving: self.leaving.clone(),
            coming: self.coming.clone(),
            news: self.shown(),
        }
    }

    /// Adds facts, to be fed at the next step.
    pub fn add(&mut self, inputs: impl IntoIterator<Item = Input>) {
        for input in inputs {
            match &input {
                Input::Pod(pod) => {
                    self.pods.insert(pod.uid.clone(), pod.clone());
                }
                Input::Owner(owner) => {
                    self.owners.insert(owner.uid.clone(), owner.clone());
                }
                other => self.rest.push(other.clone()),
            }
            self.news.push(input);
        }
    }

    /// Feeds something that is no longer shown.
    pub fn feed(&mut self, input: Input) {
        self.news.push(input);
    }

    /// A pod ends, and is gone.
    pub fn drop_pod(&mut self, uid: &Text) {
        self.remove(uid);
    }

    /// Everything that the API shows now: what a new engine would be fed.
    pub fn shown(&self) -> Vec<Input> {
        let pods = self.pods.values().cloned().map(Input::Pod);
        let owners = self.owners.values().cloned().map(Input::Owner);
        self.rest.iter().cloned().chain(owners).chain(pods).collect()
    }

    /// One step, with its effects played.
    pub fn step(&mut self) -> StepOutput {
        self.let_go();
        self.make_pods();
        let news = std::mem::take(&mut self.news);
        let output = self.engine.step(self.now, news);
        for effect in &output.effects {
            self.play(effect);
            let outcome = Input::Outcome { effect: effect.id, result: EffectResult::Done };
            self.news.push(outcome);
        }
        output
    }

    /// Steps until no effect comes and nothing is left to feed; `look` sees every state between.
    pub fn settle(&mut self, mut look: impl FnMut(&Stage)) -> Vec<StepOutput> {
        let mut outputs = Vec::new();
        for _ in 0..STEPS_MAX {
            let output = self.step();
            let quiet = output.effects.is_empty() && self.caught_up() && output.report.quiet;
            outputs.push(output);
            look(self);
            if quiet {
                return outputs;
            }
        }
        panic!("not settled after {STEPS_MAX} steps: the engine goes in circles");
    }

    /// Whether the engine has been told everything that happened.
    pub fn caught_up(&self) -> bool {
        self.news.is_empty() && self.leaving.is_empty() && self.coming.is_empty()
    }

    /// For whom anybody leaves a node, as marks will show it at the next step.
    pub fn preemptors(&self) -> BTreeSet<Text> {
        let lingers = |pod: &&PodFacts| {
            let stays = self.leaving.get(&pod.uid).is_some_and(|steps| *steps > 1);
            stays && pod.node.is_some()
        };
        let mark = |pod: &PodFacts| match &pod.gang.key {
            GangKey::Owner(uid, _) => self.owners.get(uid)?.eviction.clone(),
            _ => pod.eviction.clone(),
        };
        let marks = self.pods.values().filter(lingers).filter_map(mark);
        marks.map(|mark| mark.preemptor).collect()
    }

    /// Whether a Job was resumed of which a pod has no node yet.
    pub fn resumes(&self) -> bool {
        let owned = |pod: &&PodFacts| matches!(pod.gang.key, GangKey::Owner(..));
        !self.coming.is_empty() || self.pods.values().filter(owned).any(|pod| pod.node.is_none())
    }

    /// Whether the owner of a gang has still to make pods of it.
    pub fn makes_more(&self, gang: &GangKey) -> bool {
        self.coming.iter().any(|(_, pod)| pod.gang.key == *gang)
    }

    /// Whether an owner runs, and fewer pods of it exist than it makes.
    pub fn lacks_pods(&self, owner: &OwnerFacts) -> bool {
        let of =
            |pod: &&PodFacts| matches!(&pod.gang.key, GangKey::Owner(uid, _) if *uid == owner.uid);
        let all: u32 = owner.pod_sets.iter().map(|set| set.count).sum();
        !owner.suspended && self.pods.values().filter(of).count() < all as usize
    }

    /// Owners make the pods whose time has come.
    fn make_pods(&mut self) {
        self.coming.iter_mut().for_each(|(steps, _)| *steps -= 1);
        let due = self.coming.extract_if(.., |(steps, _)| *steps == 0);
        let due: Vec<Input> = due.map(|(_, pod)| Input::Pod(pod)).collect();
        self.add(due);
    }

    /// Victims that lingered long enough are gone.
    fn let_go(&mut self) {
        self.leaving.values_mut().for_each(|steps| *steps -= 1);
        let due: Vec<Text> =
            self.leaving.extract_if(.., |_, steps| *steps == 0).map(|(uid, _)| uid).collect();
        due.iter().for_each(|uid| self.remove(uid));
        let marked = self.owners.values().filter(|owner| owner.eviction.is_some());
        let marked: Vec<Text> = marked.map(|owner| owner.uid.clone()).collect();
        marked.iter().for_each(|uid| self.tell_of_owner(uid));
    }

    /// An owner bears its mark for as long as pods of it linger.
    fn tell_of_owner(&mut self, uid: &Text) {
        let Some(owner) = self.owners.get_mut(uid) else { return };
        let lingers = |pod: &PodFacts| matches!(&pod.gang.key, GangKey::Owner(of, _) if of == uid);
        if !self.pods.values().any(lingers) {
            owner.eviction = None;
        }
        self.news.push(Input::Owner(owner.clone()));
    }

    fn play(&mut self, effect: &Effect) {
        match &effect.action {
            Action::Bind { pod, node, note } => {
                if let Some(facts) = self.pods.get_mut(&pod.uid) {
                    assert!(facts.node.is_none(), "{} is bound twice", pod.name);
                    assert!(!facts.terminating, "{} is bound while it leaves", pod.name);
                    facts.node = Some(node.clone());
                    facts.bound_at = Some(self.now);
                    facts.phase = PodPhase::Running;
                    facts.binding = Some(note.clone().into());
                    self.news.push(Input::Pod(facts.clone()));
                }
            }
            Action::Evict { pod, preemption, alone } => {
                if let Some(facts) = self.pods.get_mut(&pod.uid) {
                    facts.eviction = mark(preemption);
                    if *alone {
                        facts.gang = facts.gang.apart(&facts.uid, &facts.name);
                    }
                }
                self.forget(&pod.uid);
            }
            Action::ResumeOwner { owner, note } => {
                let facts = self.owners.get_mut(&owner.uid).expect("a known owner is resumed");
                assert!(facts.suspended, "{} is resumed twice", owner.name);
                facts.suspended = false;
                facts.admitted = Some(note.clone());
                facts.eviction = None;
                let facts = facts.clone();
                let pods = pods_of(&facts);
                self.news.push(Input::Owner(facts));
                for pod in pods {
                    let steps = self.lingers.as_mut().map_or(0, |seed| seed.below(LINGERS_MAX + 1));
                    match steps {
                        0 => self.add([Input::Pod(pod)]),
                        steps => self.coming.push((steps, pod)),
                    }
                }
            }
            Action::SuspendOwner { owner, preemption, requeue } => {
                let facts = self.owners.get_mut(&owner.uid).expect("a known owner is suspended");
                let gone: Vec<Text> = pods_of(facts).into_iter().map(|pod| pod.uid).collect();
                facts.suspended = true;
                facts.incarnation += 1;
                facts.admitted = None;
                facts.eviction = mark(preemption);
                facts.requeued = Some(requeue.clone());
                self.coming.retain(|(_, pod)| !gone.contains(&pod.uid));
                gone.iter().for_each(|uid| self.forget(uid));
                self.tell_of_owner(&owner.uid);
            }
            Action::AddTolerations { .. }
            | Action::SelectVolumes { .. }
            | Action::AllocateClaims { .. }
            | Action::ReleaseClaims { .. }
            | Action::Deactivate { .. }
            | Action::Status(_)
            | Action::Event { .. } => {}
        }
    }

    /// A victim is to go: now, or once it has lingered.
    fn forget(&mut self, uid: &Text) {
        let steps = self.lingers.as_mut().map_or(0, |seed| seed.below(LINGERS_MAX + 1));
        if steps == 0 {
            return self.remove(uid);
        }
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.terminating = true;
            self.news.push(Input::Pod(pod.clone()));
            self.leaving.insert(uid.clone(), steps);
        }
    }

    fn remove(&mut self, uid: &Text) {
        if self.pods.remove(uid).is_some() {
            self.news.push(Input::PodGone(uid.clone()));
        }
    }
}

/// What is written on who is stopped; nobody's name where it is for nobody's sake.
fn mark(preemption: &Preemption) -> Option<EvictionNote> {
    let preemptor = preemption.preemptor.clone();
    preemption.for_another().then_some(EvictionNote { preemptor, reason: preemption.reason })
}

/// What a plan does to the cluster, without identities of effects and without mere reports.
pub fn deeds(outputs: &[StepOutput]) -> Vec<(Text, Action)> {
    let effects = outputs.iter().flat_map(|output| &output.effects);
    let acts = effects.filter(|e| !matches!(e.action, Action::Status(_) | Action::Event { .. }));
    acts.map(|effect| (effect.workload.clone(), effect.action.clone())).collect()
}
