//! What one class of pods makes of the pods around each node.
//!
//! An outlook has a counter for each thing that the class wants, and one for each key by which
//! others keep it away. Which counters a pod counts for depends on its shape alone, so that is
//! found once for each shape. [`Outlook::catch_up`] is told which nodes changed and answers which
//! others have to be looked at again. What is only preferred turns no answer: its sums are
//! [`Preferences`], found and brought up to date in the same walk.

use std::sync::Arc;

use capstan_topology::NodeIdx;

use super::counter::{Aim, Balance, Before, Counter};
use super::keys::KeyIdx;
use super::preferences::{Preferences, REQUIRED_WEIGHT, Wish};
use super::spread_counts;
use crate::model::ids::ShapeIdx;
use crate::model::input::{Kin, Neighbours, PeerTerm, PodShape, Text};
use crate::model::room::Room;
use crate::rules::{self, Question};

/// Counters of one class, and which of them pods of each shape count for.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    counters: Vec<Counter>,
    preferences: Preferences,
    /// By shape slot; `None`: not looked at yet.
    shares: Vec<Option<Arc<Shares>>>,
    /// It matches all its own affinity terms: it may be the first.
    first: bool,
    epoch: u64,
    /// For a node at a time: pods of each counter, and those that are only nominated.
    counts: Vec<[u32; 2]>,
    /// The same for preferences.
    sums: Vec<i64>,
}

/// What a pod of a shape counts for.
#[derive(Debug, Default)]
struct Shares {
    /// One each.
    counters: Vec<u16>,
    /// Preferences, and how much of each.
    sums: Vec<(u16, i64)>,
}

/// How uneven a spread constraint would become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew<'a> {
    /// Key of the domains.
    pub key: &'a Text,
    /// Pods in the domain, with the one that asks if it counts itself.
    pub count: u32,
    /// Pods in the emptiest one.
    pub least: u32,
    /// Largest difference.
    pub max_skew: u32,
}

impl Outlook {
    /// Whether nothing around a node matters to the class.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.preferences.is_empty()
    }

    /// What is preferred, by the class or by those around.
    #[inline]
    pub fn preferences(&self) -> &Preferences {
        &self.preferences
    }

    /// Whether it was made before something that voids it.
    pub fn is_void(&self, room: &Room) -> bool {
        self.epoch != room.neighbourhood.epoch()
    }

    /// Forgets what it knows of shapes that are gone, whose slots others may get.
    pub fn forget(&mut self, used: &[bool]) {
        for (at, share) in self.shares.iter_mut().enumerate() {
            if !used.get(at).copied().unwrap_or(false) {
                *share = None;
            }
        }
    }

    /// Looks at every node. Asks nothing of the class that is kept elsewhere.
    pub fn rebuild(&mut self, question: &Question<'_>) {
        let room = question.room;
        *self = Outlook { epoch: room.neighbourhood.epoch(), ..Outlook::default() };
        let shape = &*question.shape.facts;
        let Some(kin) = shape.kin.as_deref() else {
            assert!(shape.neighbours.is_none(), "who looks at others is seen by them");
            return;
        };
        if let Some(wants) = shape.neighbours.as_deref() {
            let means = |term: &PeerTerm| room.neighbourhood.selects(&term.peers, kin);
            self.first = wants.affinity.iter().all(means);
            self.add_wants(room, wants, kin);
        }
        let nodes = room.tree.order();
        let mut before = Vec::new();
        for node in nodes {
            self.count_node(&Question { node: *node, ..*question }, true, &mut before);
            before.clear();
        }
        self.shares_of(question, question.shape.index);
        self.preferences.end(room);
    }

    fn add_wants(&mut self, room: &Room, wants: &Neighbours, kin: &Kin) {
        for (aim, terms) in [(Aim::Near, &wants.affinity), (Aim::Apart, &wants.anti_affinity)] {
            for term in terms {
                self.counter(room, aim, &term.key, None);
            }
        }
        for preferred in &wants.preferred {
            self.preferences.add_term(room, key_of(room, &preferred.term.key));
        }
        for (at, spread) in wants.spread.iter().enumerate() {
            let skew = spread.max_skew;
            if !spread.required {
                let key = key_of(room, &spread.key);
                self.preferences.add_spread(room, at, key, skew);
                continue;
            }
            let own = spread.labels.as_ref();
            let own = own.is_some_and(|it| rules::selector::selects(it, &kin.labels));
            let balance = Balance::new(own, skew, spread.min_domains);
            self.counter(room, Aim::Spread(at), &spread.key, Some(balance));
        }
    }

    /// The counter of this aim and key; a new one has counted nothing.
    fn counter(&mut self, room: &Room, aim: Aim, key: &Text, balance: Option<Balance>) -> u16 {
        let key = key_of(room, key);
        let same = |counter: &Counter| counter.aim == aim && counter.key == key;
        if let Some(known) = self.counters.iter().position(same) {
            return known as u16;
        }
        let mut counter = Counter::new(aim, key, balance);
        counter.size(room.slots(), room.neighbourhood.keys.table(key));
        self.counters.push(counter);
        (self.counters.len() - 1) as u16
    }

    /// What a pod of another shape counts for.
    fn shares_of(&mut self, question: &Question<'_>, other: ShapeIdx) -> Arc<Shares> {
        if let Some(Some(known)) = self.shares.get(other.at()) {
            return known.clone();
        }
        let room = question.room;
        let (own, facts) = (&*question.shape.facts, &*room.shape(other).facts);
        let mut all = Shares::default();
        if let (Some(kin), Some(theirs)) = (own.kin.as_deref(), facts.kin.as_deref()) {
            self.wanted(room, (own, kin), theirs, &mut all.counters);
            let around = &room.neighbourhood;
            for term in facts.neighbours.iter().flat_map(|theirs| &theirs.anti_affinity) {
                if around.selects(&term.peers, kin) {
                    all.counters.push(self.counter(room, Aim::Repelled, &term.key, None));
                }
            }
            self.preferred(question, (own, kin), (facts, theirs), &mut all.sums);
        }
        all.counters.sort_unstable();
        all.counters.dedup();
        let all = Arc::new(all);
        if self.shares.len() <= other.at() {
            self.shares.resize(other.at() + 1, None);
        }
        self.shares[other.at()] = Some(all.clone());
        all
    }

    /// Counters of what the class itself wants.
    fn wanted(&self, room: &Room, (own, kin): (&PodShape, &Kin), theirs: &Kin, all: &mut Vec<u16>) {
        let Some(wants) = own.neighbours.as_deref() else { return };
        let around = &room.neighbourhood;
        let near = wants.affinity.iter().all(|term| around.selects(&term.peers, theirs));
        for (at, counter) in self.counters.iter().enumerate() {
            let keyed = |key: &Text| around.keys.find(key) == Some(counter.key);
            let apart = |term: &PeerTerm| keyed(&term.key) && around.selects(&term.peers, theirs);
            let counts = match counter.aim {
                Aim::Near => near,
                Aim::Apart => wants.anti_affinity.iter().any(apart),
                Aim::Repelled => false,
                Aim::Spread(at) => {
                    kin.namespace == theirs.namespace
                        && spread_counts(wants.spread[at].labels.as_ref(), theirs)
                }
            };
            if counts {
                all.push(at as u16);
            }
        }
    }

    /// Preferences for which a pod counts that the class means, or that means the class.
    fn preferred(
        &mut self,
        question: &Question<'_>,
        (own, kin): (&PodShape, &Kin),
        (other, theirs): (&PodShape, &Kin),
        all: &mut Vec<(u16, i64)>,
    ) {
        let (room, around) = (question.room, &question.room.neighbourhood);
        let means = |term: &PeerTerm, kin: &Kin| around.selects(&term.peers, kin);
        let mine = terms_of(own, false).filter(|(_, term)| means(term, theirs));
        let others = terms_of(other, true).filter(|(_, term)| means(term, kin));
        for (weight, term) in mine.chain(others) {
            let at = self.preferences.pull_by(question, key_of(room, &term.key));
            all.push((at, i64::from(weight)));
        }
        let Some(wants) = own.neighbours.as_deref() else { return };
        for (at, place) in self.preferences.constraints() {
            let labels = wants.spread[place].labels.as_ref();
            if kin.namespace == theirs.namespace && spread_counts(labels, theirs) {
                all.push((at, 1));
            }
        }
    }

    /// Brings counts up to date with nodes that changed; `facts`: whether what a node is changed,
    /// too. Adds nodes whose answer may have turned; `false`: all may have.
    pub fn catch_up(
        &mut self,
        question: &Question<'_>,
        nodes: &[NodeIdx],
        facts: impl Fn(NodeIdx) -> bool,
        turned: &mut Vec<NodeIdx>,
    ) -> bool {
        let open = self.open();
        let mut before: Vec<Before> = self.counters.iter().map(Counter::before).collect();
        self.preferences.begin();
        for node in nodes {
            self.count_node(&Question { node: *node, ..*question }, facts(*node), &mut before);
        }
        self.preferences.end(question.room);
        if self.open() != open {
            return false;
        }
        let keys = &question.room.neighbourhood.keys;
        for (counter, before) in self.counters.iter().zip(&before) {
            let table = keys.table(counter.key);
            counter.turned(before, |domain| turned.extend_from_slice(table.nodes(domain)));
            turned.extend(counter.turned_beside(before));
        }
        true
    }

    /// Counts one node anew.
    fn count_node(&mut self, question: &Question<'_>, facts: bool, before: &mut Vec<Before>) {
        let (room, node) = (question.room, question.node);
        let mut counts = std::mem::take(&mut self.counts);
        let mut sums = std::mem::take(&mut self.sums);
        counts.clear();
        sums.clear();
        for tenants in room.neighbourhood.on(node) {
            let shares = self.shares_of(question, tenants.shape);
            counts.resize(self.counters.len(), [0; 2]);
            sums.resize(self.preferences.len(), 0);
            for &at in &shares.counters {
                let leaving = match self.counters[at as usize].aim {
                    Aim::Spread(_) => 0,
                    _ => tenants.leaving,
                };
                let [count, nominated] = &mut counts[at as usize];
                *count += tenants.staying + leaving;
                *nominated += tenants.nominated;
            }
            for &(at, weight) in &shares.sums {
                let leaving = match self.preferences.wish(at) {
                    Wish::Spread(_) => 0,
                    Wish::Pull => tenants.leaving,
                };
                sums[at as usize] += weight * i64::from(tenants.staying + leaving);
            }
        }
        counts.resize(self.counters.len(), [0; 2]);
        sums.resize(self.preferences.len(), 0);
        while before.len() < self.counters.len() {
            before.push(self.counters[before.len()].before());
        }
        if room.facts(node).is_some() {
            for (at, counter) in self.counters.iter_mut().enumerate() {
                let domain = room.neighbourhood.keys.table(counter.key).domain(node);
                let eligible = match counter.aim {
                    Aim::Spread(at) if facts => makes_domains(question, at),
                    _ => counter.eligible(node),
                };
                counter.set((node, domain), (counts[at], eligible), &mut before[at]);
            }
            self.preferences.count(question, &sums, facts);
        }
        (self.counts, self.sums) = (counts, sums);
    }

    /// Whether the next pod may be the first of those that want to be near each other.
    fn open(&self) -> bool {
        let mut near = self.counters.iter().filter(|counter| counter.aim == Aim::Near);
        self.first && near.all(|counter| counter.total() == 0)
    }

    /// Domains, with their counters, that a node is in; `None` for a key that it lacks.
    fn around<'a>(
        &'a self,
        room: &'a Room,
        node: NodeIdx,
        wanted: impl Fn(Aim) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a Counter, Option<usize>)> + 'a {
        let keys = &room.neighbourhood.keys;
        let counters = self.counters.iter().filter(move |counter| wanted(counter.aim));
        counters.map(move |counter| (counter, keys.table(counter.key).domain(node)))
    }

    /// Whether required affinity holds on a node.
    pub fn is_near(&self, room: &Room, node: NodeIdx) -> bool {
        let open = self.open();
        let mut near = self.around(room, node, |aim| aim == Aim::Near);
        near.all(|(counter, domain)| domain.is_some_and(|at| counter.takes(at, open)))
    }

    /// How many pods that its anti-affinity means a node's domains have; those that are nominated
    /// for the node among them.
    pub fn unwanted(&self, room: &Room, node: NodeIdx) -> u32 {
        self.kept_away(room, node, Aim::Apart)
    }

    /// How many pods whose anti-affinity means it a node's domains have.
    pub fn repelling(&self, room: &Room, node: NodeIdx) -> u32 {
        self.kept_away(room, node, Aim::Repelled)
    }

    fn kept_away(&self, room: &Room, node: NodeIdx, aim: Aim) -> u32 {
        let all = self.around(room, node, move |of| of == aim);
        let there = |counter: &Counter, domain| counter.count(domain) + counter.nominated(node);
        let counts = all.filter_map(|(counter, domain)| Some(there(counter, domain?)));
        counts.max().unwrap_or(0)
    }

    /// The first required spread constraint that a node would break; `Err`: it lacks the key.
    pub fn skewed<'a>(&self, question: &Question<'a>) -> Option<Result<Skew<'a>, &'a Text>> {
        let spread = &question.shape.facts.neighbours.as_deref()?.spread;
        let spread: &'a [crate::model::input::Spread] = spread;
        let hard = |aim| matches!(aim, Aim::Spread(_));
        let mut lacks = self.around(question.room, question.node, hard);
        if let Some((counter, _)) = lacks.find(|(_, domain)| domain.is_none()) {
            return Some(Err(&spread[counter.spread()?].key));
        }
        let (node, mut all) = (question.node, self.around(question.room, question.node, hard));
        let (counter, domain) = all.find_map(|(counter, domain)| {
            let takes = |at| counter.takes(at, false) && counter.takes_beside(node, at);
            domain.filter(|domain| !takes(*domain)).map(|domain| (counter, domain))
        })?;
        let balance = counter.balance.as_ref()?;
        let (count, least) = counter.unevenness(node, domain, balance);
        let (count, max_skew) = (count + balance.own, balance.max_skew);
        Some(Ok(Skew { key: &spread[counter.spread()?].key, count, least, max_skew }))
    }

    /// Whether a node would do as far as pods around it go.
    #[inline]
    pub fn takes(&self, room: &Room, node: NodeIdx) -> bool {
        if self.counters.is_empty() {
            return true;
        }
        let open = self.open();
        let mut all = self.around(room, node, |_| true);
        all.all(|(counter, domain)| match (counter.aim, domain) {
            (Aim::Apart | Aim::Repelled, None) => true,
            (_, None) => false,
            (_, Some(domain)) => counter.takes(domain, open) && counter.takes_beside(node, domain),
        })
    }

    /// Whether a node may come to do, as far as pods around it go, once pods of these shapes have
    /// left it; some of them may be elsewhere. `false`: it will not do whoever of those leaves.
    pub fn might_take(&self, room: &Room, node: NodeIdx, leaving: &[ShapeIdx]) -> bool {
        let open = self.open();
        let mut gone = vec![0_u32; self.counters.len()];
        for shape in leaving {
            let shares = self.shares.get(shape.at()).and_then(Option::as_deref);
            let counted = shares.map_or(&[][..], |shares| &shares.counters);
            counted.iter().for_each(|at| gone[usize::from(*at)] += 1);
        }
        self.counters.iter().zip(gone).all(|(counter, gone)| {
            let domain = room.neighbourhood.keys.table(counter.key).domain(node);
            match (counter.aim, domain) {
                (Aim::Apart | Aim::Repelled, None) => true,
                (_, None) => false,
                // Where nobody is near now, nobody who is wanted stands on the node.
                (Aim::Near, Some(domain)) => counter.takes(domain, open),
                (_, Some(domain)) => counter.might_take(domain, gone),
            }
        })
    }

    /// Whether a pod of the class on a node keeps others of it off that node: not if the node
    /// lacks the keys by which they do.
    pub fn repels_own(&self, question: &Question<'_>) -> bool {
        let keys = &question.room.neighbourhood.keys;
        let keyed = |counter: &Counter| keys.table(counter.key).domain(question.node).is_some();
        let mut own = self.shared(question.shape.index);
        own.any(|counter| matches!(counter.aim, Aim::Apart | Aim::Repelled) && keyed(counter))
    }

    /// Whether a pod of another shape, once placed, turns the answer for other nodes than its own.
    pub fn reaches(&self, room: &Room, other: ShapeIdx) -> bool {
        let keys = &room.neighbourhood.keys;
        self.shared(other).any(|counter| match counter.aim {
            Aim::Near | Aim::Spread(_) => true,
            Aim::Apart | Aim::Repelled => !keys.table(counter.key).single(),
        })
    }

    /// Whether pods that come may open nodes for it: it wants some near, or spreads.
    pub fn opens(&self) -> bool {
        self.counters.iter().any(Counter::opens)
    }

    /// Whether pods of another shape that come may open nodes for it.
    pub fn is_opened_by(&self, other: ShapeIdx) -> bool {
        self.shared(other).any(Counter::opens)
    }

    /// Keys of the domains of which each has one of the class at most.
    pub fn keys_apart(&self, own: ShapeIdx) -> impl Iterator<Item = KeyIdx> + '_ {
        let apart = |counter: &&Counter| matches!(counter.aim, Aim::Apart | Aim::Repelled);
        self.shared(own).filter(apart).map(|counter| counter.key)
    }

    /// Keys of its required spread constraints, and no more pods of the class than that come into a
    /// domain while pods of these shapes come, so many of each.
    pub fn spreads<'a>(
        &'a self,
        own: ShapeIdx,
        coming: &'a [(ShapeIdx, u32)],
    ) -> impl Iterator<Item = (KeyIdx, impl Fn(usize) -> u64 + 'a)> + 'a {
        let all = self.counters.iter().filter(|counter| counter.balance.is_some());
        all.map(move |counter| {
            // A constraint without a selector counts nobody, the class itself neither.
            let counts = |shape: ShapeIdx| self.shared(shape).any(|it| std::ptr::eq(it, counter));
            let counted = coming.iter().filter(|(shape, _)| counts(*shape));
            let counted = counted.map(|(_, count)| u64::from(*count)).fold(0, u64::saturating_add);
            let least = counter.least_after(counted);
            let itself = counts(own);
            (counter.key, move |domain| counter.most(domain, least, itself))
        })
    }

    /// Keys of which a pod of the class comes into whichever domain, as the first of those that
    /// want to be near each other, and all others of them into the same ones; none, where some are
    /// there already.
    pub fn keys_of_first(&self) -> impl Iterator<Item = KeyIdx> + '_ {
        let open = self.open();
        let near = self.counters.iter().filter(move |counter| open && counter.aim == Aim::Near);
        near.map(|counter| counter.key)
    }

    /// Whether pods of another shape are among those that it wants near.
    pub fn wants_near(&self, other: ShapeIdx) -> Option<KeyIdx> {
        let mut near = self.shared(other).filter(|counter| counter.aim == Aim::Near);
        near.next().map(|counter| counter.key)
    }

    /// Whether it matters to the class that a pod of another shape goes.
    pub fn minds(&self, other: ShapeIdx) -> bool {
        self.shared(other).any(|counter| match counter.aim {
            Aim::Apart | Aim::Repelled | Aim::Spread(_) => true,
            Aim::Near => false,
        })
    }

    fn shared(&self, other: ShapeIdx) -> impl Iterator<Item = &Counter> {
        let shares = self.shares.get(other.at()).and_then(Option::as_deref);
        let counters = shares.map_or(&[][..], |shares| shares.counters.as_slice());
        counters.iter().map(|at| &self.counters[*at as usize])
    }

    /// Learns which counters pods of these shapes count for, placed or not.
    pub fn learn(&mut self, question: &Question<'_>, shapes: impl Iterator<Item = ShapeIdx>) {
        if question.shape.facts.kin.is_some() {
            shapes.for_each(|shape| drop(self.shares_of(question, shape)));
        }
    }

    /// What tells nodes apart for pods to come: for keys whose domains are single nodes what is
    /// counted there, else the domain.
    pub fn looks(&self, room: &Room, node: NodeIdx, looks: &mut Vec<u32>) {
        for (counter, domain) in self.around(room, node, |_| true) {
            let table = room.neighbourhood.keys.table(counter.key);
            looks.push(u32::from(domain.is_some()) + 2 * u32::from(counter.eligible(node)));
            looks.push(counter.nominated(node));
            looks.extend(domain.map(|domain| match table.single() {
                true => counter.count(domain),
                false => domain as u32,
            }));
        }
    }

    /// Compares every count with one made anew.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, question: &Question<'_>) {
        let mut anew = Outlook::default();
        anew.rebuild(question);
        for counter in &self.counters {
            let same = |other: &&Counter| (other.aim, other.key) == (counter.aim, counter.key);
            match anew.counters.iter().find(same) {
                // A class that nobody asks about does not see that nodes at the end are forgotten.
                Some(other) => {
                    let counter = counter.cut(question.room.slots());
                    assert_eq!(counter, *other, "a count of pods around nodes");
                }
                None => assert!(counter.is_empty(), "a count of pods that are not there"),
            }
        }
        self.preferences.recount(&anew.preferences, question.room);
    }
}

impl Counter {
    /// Whether pods that count for it may open nodes.
    fn opens(&self) -> bool {
        match self.aim {
            Aim::Near | Aim::Spread(_) => true,
            Aim::Apart | Aim::Repelled => false,
        }
    }

    fn spread(&self) -> Option<usize> {
        match self.aim {
            Aim::Spread(at) => Some(at),
            _ => None,
        }
    }
}

/// Preferred terms of a shape and their weights; the required ones count when it is the others'.
fn terms_of(shape: &PodShape, required: bool) -> impl Iterator<Item = (i32, &PeerTerm)> {
    let wants = shape.neighbours.as_deref();
    let preferred = wants.into_iter().flat_map(|wants| &wants.preferred);
    let near = wants.filter(|_| required).into_iter().flat_map(|wants| &wants.affinity);
    let near = near.map(|term| (REQUIRED_WEIGHT, term));
    preferred.map(|preferred| (preferred.weight, &preferred.term)).chain(near)
}

/// A key that some shape's terms name.
fn key_of(room: &Room, key: &Text) -> KeyIdx {
    room.neighbourhood.keys.find(key).expect("keys of known shapes are known")
}

/// Whether a node makes a domain of a spread constraint: it has the keys of all constraints of its
/// kind, and is not left out by what the constraint honours.
pub(super) fn makes_domains(question: &Question<'_>, at: usize) -> bool {
    let Some(wants) = question.shape.facts.neighbours.as_deref() else { return false };
    let (spread, node) = (&wants.spread[at], question.facts());
    let mut of_kind = wants.spread.iter().filter(|other| other.required == spread.required);
    if !of_kind.all(|other| node.labels.contains_key(&other.key)) {
        return false;
    }
    // A list of capacity types selects nodes as labels do.
    let affine = || {
        rules::node_affinity::wanted(question)
            && rules::capacity_type::is_allowed(question)
            && rules::flavor::is_of_all(question)
    };
    let mut refusals = Vec::new();
    if spread.honors_taints {
        rules::taints::check(question, &mut refusals);
    }
    refusals.is_empty() && (!spread.honors_affinity || affine())
}
