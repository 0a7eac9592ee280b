//! What happens to a life, one change after the other.

use capstan_core::model::input::{
    BorrowThreshold, ClusterQueueFacts, CohortFacts, GangKey, Input, OwnerFacts, PodFacts,
    PreemptReclaim, PreemptWithin, QueueingStrategy, Quota, StopPolicy, Text, Weight,
};
use capstan_tests::facts::{
    TEAM, cluster_queue, cohort, flavor, group, in_queue, job, local_queue, pod, pods_of, shape,
    text,
};
use capstan_tests::model::classical::Work;

use super::{COHORTS, FLAVORS, Life, QUEUES, RESOURCES, WEIGHTS, WORK_MAX};

impl Life {
    fn quota(&mut self, most: i64, limited: bool) -> Quota {
        let nominal = self.seed.between(0, most);
        let mut limit = |most: i64| {
            let some = limited && self.seed.below(3) == 0;
            some.then(|| self.seed.between(0, most))
        };
        let (borrowing, lending) = (limit(6), limit(nominal));
        Quota { nominal, borrowing, lending }
    }

    /// Quotas of all that work asks for.
    fn quotas(&mut self, limited: bool) -> Vec<(&'static str, Quota)> {
        let quota = |(resource, most)| (resource, self.quota(most, limited));
        RESOURCES.into_iter().map(quota).collect()
    }

    /// A queue with other quotas, limits, policies and parents than before.
    pub(super) fn queue(&mut self, name: &str) -> ClusterQueueFacts {
        let place = self.seed.below(6) as usize;
        let parent = COHORTS.get(place).copied();
        let of = |flavor| (flavor, self.quotas(parent.is_some()));
        let mut order: Vec<(&str, Vec<(&str, Quota)>)> = FLAVORS.into_iter().map(of).collect();
        if self.seed.below(2) == 0 {
            order.reverse();
        }
        if self.seed.below(4) == 0 {
            order.pop();
        }
        let listed: Vec<(&str, &[(&str, Quota)])> =
            order.iter().map(|(flavor, quotas)| (*flavor, &quotas[..])).collect();
        let mut facts = cluster_queue(name, parent, group(&listed));
        if self.seed.below(4) == 0 {
            facts.strategy = QueueingStrategy::StrictFifo;
        }
        facts.weight = self.weight();
        facts.preemption.within_cluster_queue = *self.seed.pick(&[
            PreemptWithin::Never,
            PreemptWithin::LowerPriority,
            PreemptWithin::LowerOrNewerEqual,
        ]);
        facts.preemption.reclaim = *self.seed.pick(&[
            PreemptReclaim::Never,
            PreemptReclaim::LowerPriority,
            PreemptReclaim::Any,
        ]);
        let borrows = self.fair.is_none() && facts.preemption.reclaim != PreemptReclaim::Never;
        if borrows && self.seed.below(3) == 0 {
            let max_priority = (self.seed.below(2) == 0).then_some(1);
            facts.preemption.while_borrowing = Some(BorrowThreshold { max_priority });
        }
        facts.fungibility.next_when_borrowing = self.seed.below(2) == 0;
        facts.fungibility.next_when_preempting = self.seed.below(2) == 0;
        let both = facts.fungibility.next_when_borrowing && facts.fungibility.next_when_preempting;
        facts.fungibility.prefer_preemption_over_borrowing = both && self.seed.below(2) == 0;
        facts
    }

    /// One change, and what it was.
    pub(super) fn change(&mut self) -> String {
        let work = self.works();
        let crowded = work.len() >= WORK_MAX;
        match self.seed.below(100) {
            0..50 if !crowded => self.arrive(),
            50..55 => self.flip(&work),
            55..62 => self.end(&work, |work| work.held.is_none()),
            90..100 => self.edit(),
            _ => self.end(&work, |work| work.held.is_some()),
        }
    }

    fn arrive(&mut self) -> String {
        self.made += 1;
        let name = format!("w{}", self.made);
        let queue = *self.seed.pick(&QUEUES);
        let (pods, each) = (self.seed.between(1, 3), self.seed.between(1, 3));
        let priority = self.seed.between(0, 3) as i32;
        let [(gpu, _), (cpu, _)] = RESOURCES;
        let resource = if self.seed.below(6) == 0 { cpu } else { gpu };
        let (shape, wishes) = (shape(&[(resource, each)]), in_queue(Some(queue)));
        if self.seed.below(3) == 0 {
            let mut facts = pod(&name, &shape, &wishes);
            (facts.created, facts.priority) = (self.stage.now, priority);
            self.tell(Input::Pod(facts));
            return format!("pod {name} of {each} {resource}, priority {priority}, is in {queue}");
        }
        let mut facts = job(&name, pods as u32, &shape, &wishes);
        (facts.created, facts.priority) = (self.stage.now, priority);
        self.tell(Input::Owner(facts));
        format!("job {name} of {pods} x {each} {resource}, priority {priority}, is in {queue}")
    }

    fn end(&mut self, work: &[Work], which: impl Fn(&Work) -> bool) -> String {
        let list: Vec<&Work> = work.iter().filter(|work| which(work)).collect();
        if list.is_empty() {
            return "nothing".to_owned();
        }
        let ends = *self.seed.pick(&list);
        match self.stage.owners.remove(&ends.uid) {
            Some(owner) => {
                let of = |pod: &PodFacts| match &pod.gang.key {
                    GangKey::Owner(uid, _) => *uid == owner.uid,
                    _ => false,
                };
                let gone: Vec<Text> = self
                    .stage
                    .pods
                    .values()
                    .filter(|pod| of(pod))
                    .map(|pod| pod.uid.clone())
                    .collect();
                for uid in gone {
                    self.stage.drop_pod(&uid);
                }
                self.stage.feed(Input::OwnerGone(owner.uid));
            }
            None => self.stage.drop_pod(&ends.uid),
        }
        format!("{} ends", ends.name)
    }

    fn flip(&mut self, work: &[Work]) -> String {
        if work.is_empty() {
            return "nothing".to_owned();
        }
        let flips = self.seed.pick(work).clone();
        let priority = self.seed.between(0, 3) as i32;
        if let Some(owner) = self.stage.owners.get(&flips.uid) {
            let owner = OwnerFacts { priority, ..owner.clone() };
            let made = pods_of(&owner).into_iter().map(|pod| pod.uid);
            for uid in made.collect::<Vec<_>>() {
                if let Some(pod) = self.stage.pods.get(&uid) {
                    let pod = PodFacts { priority, ..pod.clone() };
                    self.tell(Input::Pod(pod));
                }
            }
            self.tell(Input::Owner(owner));
        } else {
            let pod = PodFacts { priority, ..self.stage.pods[&flips.uid].clone() };
            self.tell(Input::Pod(pod));
        }
        format!("{} has priority {priority} now", flips.name)
    }

    /// A weight; where queues do not share fairly it means nothing, and is the usual one.
    pub(super) fn weight(&mut self) -> Weight {
        if self.fair.is_some() { *self.seed.pick(&WEIGHTS) } else { Weight::ONE }
    }

    /// A queue or cohort that is there has another weight, and is the same but for that.
    fn weigh(&mut self) -> String {
        let weight = self.weight();
        let weighs = |fact: &&Input| matches!(fact, Input::ClusterQueue(_) | Input::Cohort(_));
        let known: Vec<Input> = self.stage.rest.iter().filter(weighs).cloned().collect();
        if known.is_empty() {
            return "nothing".to_owned();
        }
        let (name, fact) = match self.seed.pick(&known).clone() {
            Input::ClusterQueue(facts) => {
                (facts.name.clone(), Input::ClusterQueue(ClusterQueueFacts { weight, ..facts }))
            }
            Input::Cohort(facts) => {
                (facts.name.clone(), Input::Cohort(CohortFacts { weight, ..facts }))
            }
            _ => unreachable!("only queues and cohorts have weights"),
        };
        self.tell(fact);
        format!("{name} has {weight:?} now")
    }

    fn edit(&mut self) -> String {
        let name = *self.seed.pick(&QUEUES);
        let known = self.stage.rest.iter().find_map(|fact| match fact {
            Input::ClusterQueue(facts) if *facts.name == *name => Some(facts.clone()),
            _ => None,
        });
        // Weights mean nothing where queues do not share fairly.
        let kinds = if self.fair.is_some() { 28 } else { 24 };
        match (self.seed.below(kinds), known) {
            (0, Some(_)) => {
                self.tell(Input::ClusterQueueGone(text(name)));
                format!("queue {name} is deleted")
            }
            (1, Some(facts)) => {
                let stop = *self.seed.pick(&[StopPolicy::Hold, StopPolicy::HoldAndDrain]);
                self.tell(Input::ClusterQueue(ClusterQueueFacts { stop, ..facts }));
                format!("queue {name} stops: {stop:?}")
            }
            (2, _) => {
                self.tell(Input::LocalQueueGone { namespace: text(TEAM), name: text(name) });
                format!("the LocalQueue of {name} is deleted")
            }
            (3, _) => {
                let flavor = *self.seed.pick(&FLAVORS);
                self.tell(Input::FlavorGone(text(flavor)));
                format!("flavor {flavor} is deleted")
            }
            (4..8, _) => {
                for name in FLAVORS {
                    self.tell(Input::Flavor(flavor(name, &[("kind", name)])));
                }
                "all flavors are there".to_owned()
            }
            (8..12, _) => {
                let name = *self.seed.pick(&COHORTS);
                let place = self.seed.below(8) as usize;
                let parent = COHORTS.get(place).copied();
                let mut facts = CohortFacts { weight: self.weight(), ..cohort(name, parent) };
                if self.seed.below(2) == 0 {
                    let quotas = self.quotas(parent.is_some());
                    facts.groups = vec![group(&[(FLAVORS[0], &quotas[..])])];
                }
                let (weight, groups) = (facts.weight, &facts.groups);
                let said = format!("cohort {name} of {weight:?} is below {parent:?}: {groups:?}");
                self.tell(Input::Cohort(facts));
                said
            }
            (24.., _) => self.weigh(),
            _ => {
                let facts = self.queue(name);
                let said = format!("queue {name} is another: {facts:?}");
                self.tell(Input::ClusterQueue(facts));
                self.tell(Input::LocalQueue(local_queue(name)));
                said
            }
        }
    }
}
