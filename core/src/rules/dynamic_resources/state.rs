//! Devices, claims, and who has which.
//!
//! A device is in use by claims that the API shows as allocated, and by claims of pods that were
//! given a place: those are *held* until the API shows them. A claim that only its pod uses is held
//! with the pod; one that others use too is held once, for as long as any pod with a place needs
//! it. What is held for a claim counts for nothing once the API shows that claim as allocated.
//! Devices that victims leave are *kept* for whom they leave for, beside what the victims have.
//! A claim that all its users leave within a transaction is as if it had no devices: who takes it
//! up there gets others *anew*, and what it has counts for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_topology::NodeIdx;

use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{
    AllocatedDevice, Allocation, Answer, DeviceId, Nano, PodClaim, PodShape, Reach,
    ResourceClaimFacts, ResourceClaimKey, SliceFacts, Text,
};
use crate::plan::Chosen;
use crate::rules::dynamic_resources::answers::{Answers, News};
use crate::rules::dynamic_resources::holds::{Held, PodHold, SharedHolds, join, part};
use crate::rules::dynamic_resources::pools::{CounterAt, Device, DeviceAt, Pools};
use crate::rules::dynamic_resources::reserved::Reservations;
use crate::rules::dynamic_resources::unready::Awaited;
use crate::rules::dynamic_resources::users::{Users, named};

/// All devices and claims.
#[derive(Debug, Default)]
pub struct Devices {
    slices: BTreeMap<Text, Arc<SliceFacts>>,
    answers: Answers,
    pub(super) claims: BTreeMap<ResourceClaimKey, ResourceClaimFacts>,
    pools: Pools,
    /// Slices changed since pools were made of them.
    stale: bool,
    usage: Vec<Usage>,
    /// What devices in use take of counters.
    counted: Vec<Nano>,
    pub(super) held: BTreeMap<PodIdx, PodHold>,
    /// Pods that hold devices for a claim of their own.
    pub(super) own: BTreeMap<ResourceClaimKey, PodIdx>,
    pub(super) shared: SharedHolds,
    /// The same of claims that all others have left, as far as a transaction is concerned.
    pub(super) anew: SharedHolds,
    pub(super) users: Users,
    pub(super) reservations: Reservations,
    /// Pods that do not exist and hold devices: `PodIdx::stand_in` of each number below.
    stand_ins: u32,
    /// What comes free for those whose victims leave.
    pub(super) kept: BTreeMap<WorkloadIdx, Arc<[AllocatedDevice]>>,
    /// Claims that come free for them; whether they get devices for these themselves.
    pub(super) promised: BTreeMap<ResourceClaimKey, BTreeMap<WorkloadIdx, bool>>,
    /// Claims that lose their devices before long: these are being given back.
    pub(super) losing: BTreeSet<ResourceClaimKey>,
    /// What pods held that facts take off their node: who is put back there holds the same.
    taken_off: BTreeMap<PodIdx, (NodeIdx, PodHold)>,
    /// Slices of each pool.
    by_pool: BTreeMap<(Text, Text), BTreeSet<Text>>,
    /// Claims whose devices are not ready.
    pub(super) awaited: Awaited,
}

/// Whose numbers a change may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerns {
    /// Those of no node.
    Nobody,
    /// Those of one node.
    Node(Text),
    /// Those of all nodes.
    Everybody,
}

impl Concerns {
    /// Both.
    pub fn and(self, other: Concerns) -> Concerns {
        match (self, other) {
            (Concerns::Nobody, one) | (one, Concerns::Nobody) => one,
            (one, other) if one == other => one,
            _ => Concerns::Everybody,
        }
    }
}

/// How a device is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Claims that have all of it; more than one only where the API says so.
    pub whole: u32,
    /// Claims that have a share of it.
    pub shares: u32,
    /// What shares take.
    pub consumed: BTreeMap<Text, Nano>,
}

impl Devices {
    /// Whether there is nothing at all: no pod can have a claim then.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.claims.is_empty()
    }

    /// Whether there are claims.
    pub(crate) fn any_claims(&self) -> bool {
        !self.claims.is_empty()
    }

    /// A slice exists or changed; whom it concerns.
    pub fn put_slice(&mut self, slice: Arc<SliceFacts>) -> Concerns {
        if self.slices.get(&slice.name) == Some(&slice) {
            return Concerns::Nobody;
        }
        let before = self.unlist(&slice.name);
        let pool = (slice.driver.clone(), slice.pool.clone());
        self.by_pool.entry(pool.clone()).or_default().insert(slice.name.clone());
        self.slices.insert(slice.name.clone(), slice);
        self.stale = true;
        before.and(self.pool_concerns(&pool))
    }

    /// A slice is gone; whom that concerns.
    pub fn remove_slice(&mut self, name: &Text) -> Concerns {
        let concerned = self.unlist(name);
        match self.answers.remove_slice(name) {
            true => Concerns::Everybody,
            false => concerned,
        }
    }

    /// Takes a slice out; whom its pool concerned with it.
    fn unlist(&mut self, name: &Text) -> Concerns {
        let Some(old) = self.slices.get(name) else { return Concerns::Nobody };
        let pool = (old.driver.clone(), old.pool.clone());
        let concerned = self.pool_concerns(&pool);
        self.slices.remove(name);
        self.stale = true;
        if let Some(names) = self.by_pool.get_mut(&pool) {
            names.remove(name);
            if names.is_empty() {
                self.by_pool.remove(&pool);
            }
        }
        concerned
    }

    /// Whom the devices of a slice concern.
    fn slice_concerns(&self, name: &Text) -> Concerns {
        let Some(slice) = self.slices.get(name) else { return Concerns::Nobody };
        self.pool_concerns(&(slice.driver.clone(), slice.pool.clone()))
    }

    /// Whom the devices of a pool concern: one node, where all of them are local to it.
    fn pool_concerns(&self, pool: &(Text, Text)) -> Concerns {
        let names = self.by_pool.get(pool).into_iter().flatten();
        let concerns = |name: &Text| match &self.slices[name].nodes {
            Reach::Node(node) => Concerns::Node(node.clone()),
            Reach::Nowhere => Concerns::Nobody,
            _ => Concerns::Everybody,
        };
        names.map(concerns).fold(Concerns::Nobody, Concerns::and)
    }

    /// Whom it concerns that a pod holds these devices, or no longer does.
    pub(crate) fn hold_concerns(&self, hold: &PodHold) -> Concerns {
        // What others hold too stays as it is.
        let new = hold.shared.iter().any(|(key, _)| !self.shared.contains_key(key));
        if new || hold.anew.iter().any(|(key, _)| !self.anew.contains_key(key)) {
            return Concerns::Everybody;
        }
        let chosen = hold.own.iter().flat_map(|held| &held.chosen.devices);
        self.devices_concern(chosen.map(|one| &one.device))
    }

    /// Whom it concerns that a claim has devices, or no longer does. The nodes that can use a claim
    /// of several pods are those of its devices.
    pub(crate) fn claim_concerns(&self, key: &ResourceClaimKey) -> Concerns {
        match self.claims.get(key) {
            None => Concerns::Nobody,
            Some(claim) if !claim.of_one_pod => Concerns::Everybody,
            // No node will do for its pod.
            Some(claim) if self.unready(claim).is_some() => Concerns::Everybody,
            Some(claim) => {
                let has = claim.allocation.iter().flat_map(|has| &has.devices);
                self.devices_concern(has)
            }
        }
    }

    /// What a query says of a slice; whom that concerns.
    pub fn put_answers(&mut self, query: Text, slice: Text, answers: Arc<[Answer]>) -> Concerns {
        match self.answers.put(query, slice.clone(), answers) {
            News::None => Concerns::Nobody,
            News::OfSlice => self.slice_concerns(&slice),
            News::OfQuery => Concerns::Everybody,
        }
    }

    /// Nobody asks a query any more.
    pub fn remove_query(&mut self, query: &Text) {
        self.answers.remove_query(query);
    }

    /// A claim exists or changed; `false`: nothing new.
    pub fn put_claim(&mut self, facts: ResourceClaimFacts) -> bool {
        let old = self.claims.get(&facts.key);
        if old == Some(&facts) {
            return false;
        }
        self.change_claim(&facts.key.clone(), Some(facts));
        true
    }

    /// A claim is gone; `false`: it was not there.
    pub fn remove_claim(&mut self, key: &ResourceClaimKey) -> bool {
        let known = self.claims.contains_key(key);
        if known {
            self.change_claim(key, None);
        }
        known
    }

    fn change_claim(&mut self, key: &ResourceClaimKey, facts: Option<ResourceClaimFacts>) {
        self.refresh();
        self.count_claim(key, false);
        if let Some(old) = self.claims.remove(key) {
            self.awaited.note(&old, false);
        }
        if let Some(facts) = facts {
            self.awaited.note(&facts, true);
            self.claims.insert(key.clone(), facts);
        }
        self.count_claim(key, true);
    }

    /// A claim.
    pub fn claim(&self, key: &ResourceClaimKey) -> Option<&ResourceClaimFacts> {
        self.claims.get(key)
    }

    /// Makes pools of slices again if they changed, and counts anew who uses what.
    pub fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.pools = Pools::of(&self.slices);
        (self.usage, self.counted) = self.use_anew();
    }

    /// All pools.
    pub(super) fn pools(&self) -> &Pools {
        &self.pools
    }

    /// How a device is used.
    pub(super) fn usage(&self, device: DeviceAt) -> &Usage {
        &self.usage[device as usize]
    }

    /// What devices in use take of a counter.
    pub(super) fn counted(&self, counter: CounterAt) -> Nano {
        self.counted[counter as usize]
    }

    /// What a query says of a device; `None`: nobody has said it yet.
    pub(super) fn answer(&self, query: &Text, device: &Device) -> Option<&Answer> {
        self.answers.of(query, &device.slice.name, device.at)
    }

    /// On how many slices a query is still being evaluated, and of how many, if on any.
    pub(super) fn awaited_answers(&self, query: &Text) -> Option<(usize, usize)> {
        self.answers.awaited(query)
    }

    /// Whether a query fails on some device.
    pub(super) fn fails(&self, query: &Text) -> bool {
        self.answers.fails(query)
    }

    /// What a shared claim holds that is not allocated yet.
    pub(super) fn held_for(&self, key: &ResourceClaimKey) -> Option<&Arc<Chosen>> {
        let holds = if self.vacated(key) { &self.anew } else { &self.shared };
        holds.get(key).map(|hold| &hold.chosen)
    }

    /// Whether a claim has no devices, and none are held for it: whoever needs it first gets some.
    pub(crate) fn is_untaken(&self, key: &ResourceClaimKey) -> bool {
        self.claims.contains_key(key) && self.shown(key).is_none() && self.held_for(key).is_none()
    }

    /// Whether more than one node can use some devices.
    pub(crate) fn any_wide(&self) -> bool {
        self.pools.any_wide()
    }

    /// Whether devices of pools of which an allocation has some might meet a request of such a pod:
    /// with less of a pool in use others of it may be free, too.
    pub(crate) fn may_meet(&self, shape: &PodShape, has: &Allocation) -> bool {
        let specs = shape.claims.iter().filter_map(|claim| match claim {
            PodClaim::Own { spec, .. } => Some(&**spec),
            PodClaim::Extended { claim, .. } => Some(&claim.spec),
            PodClaim::Named(key) => self.claims.get(key).map(|claim| &*claim.spec),
            PodClaim::Unusable(_) => None,
        });
        let options = specs.flat_map(|spec| &spec.requests).flat_map(|request| &request.options);
        let queries: BTreeSet<&Text> = options.map(|ask| &ask.query).collect();
        let pools = has.devices.iter().map(|one| (one.id.0.clone(), one.id.1.clone()));
        let pools: BTreeSet<(Text, Text)> = pools.collect();
        let mut slices = pools.iter().filter_map(|pool| self.by_pool.get(pool)).flatten();
        slices.any(|slice| {
            let mut devices = 0..self.slices[slice].devices.len();
            devices.any(|at| {
                let may = |query: &&Text| self.answers.of(query, slice, at) != Some(&Answer::No);
                queries.iter().any(may)
            })
        })
    }

    /// What a pod holds.
    pub(crate) fn held_by(&self, pod: PodIdx) -> Option<&PodHold> {
        self.held.get(&pod)
    }

    /// A pod holds this for its claims. The inverse is [`Devices::give_up`].
    pub(crate) fn hold(&mut self, pod: PodIdx, hold: PodHold) {
        if hold.is_empty() {
            return;
        }
        for held in &hold.own {
            self.count_held(held, true);
            self.own.extend(held.key.clone().map(|key| (key, pod)));
        }
        for (key, chosen) in &hold.shared {
            if join(&mut self.shared, (key, chosen), pod) && self.open(key) {
                self.count_chosen(chosen, true);
            }
        }
        for (key, chosen) in &hold.anew {
            if join(&mut self.anew, (key, chosen), pod) && self.vacated(key) {
                self.count_chosen(chosen, true);
            }
        }
        let old = self.held.insert(pod, hold);
        assert!(old.is_none(), "a pod holds devices once");
    }

    /// A pod that does not exist holds this. The inverse is [`Devices::give_up_last`].
    pub(crate) fn hold_as_another(&mut self, hold: PodHold) {
        self.hold(PodIdx::stand_in(self.stand_ins), hold);
        self.stand_ins += 1;
    }

    /// The last pod that does not exist holds nothing any more; what it held.
    pub(crate) fn give_up_last(&mut self) -> PodHold {
        self.stand_ins -= 1;
        self.give_up(PodIdx::stand_in(self.stand_ins))
    }

    /// A pod gives up what it holds, which comes back.
    pub(crate) fn give_up(&mut self, pod: PodIdx) -> PodHold {
        let Some(hold) = self.held.remove(&pod) else { return PodHold::default() };
        for held in &hold.own {
            self.count_held(held, false);
            held.key.iter().for_each(|key| _ = self.own.remove(key));
        }
        for (key, chosen) in &hold.shared {
            if part(&mut self.shared, key, pod) && self.open(key) {
                self.count_chosen(chosen, false);
            }
        }
        for (key, chosen) in &hold.anew {
            if part(&mut self.anew, key, pod) && self.vacated(key) {
                self.count_chosen(chosen, false);
            }
        }
        hold
    }

    /// Remembers what a pod held that is taken off a node.
    pub(crate) fn take_off(&mut self, pod: PodIdx, node: NodeIdx, hold: PodHold) {
        if !hold.is_empty() {
            self.taken_off.insert(pod, (node, hold));
        }
    }

    /// What a pod held that comes back to a node.
    pub(crate) fn taken_off(&mut self, pod: PodIdx, node: NodeIdx) -> Option<PodHold> {
        let (from, hold) = self.taken_off.remove(&pod)?;
        (from == node).then_some(hold)
    }

    /// Who is not back by now does not come back.
    pub(crate) fn forget_taken_off(&mut self) {
        self.taken_off.clear();
    }

    /// Whom it concerns that such devices are used, or no longer are.
    pub(crate) fn devices_concern<'a>(
        &self,
        devices: impl Iterator<Item = &'a AllocatedDevice>,
    ) -> Concerns {
        let of = |device: &AllocatedDevice| {
            self.pool_concerns(&(device.id.0.clone(), device.id.1.clone()))
        };
        devices.map(of).fold(Concerns::Nobody, Concerns::and)
    }

    /// What the API shows a claim to have, unless all who use it have gone.
    pub(super) fn shown(&self, key: &ResourceClaimKey) -> Option<&Arc<Allocation>> {
        let shown = self.claims.get(key)?.allocation.as_ref()?;
        (!self.vacated(key)).then_some(shown)
    }

    /// Whether what is held for a claim is all that it has, and somebody who uses it stays.
    fn open(&self, key: &ResourceClaimKey) -> bool {
        self.claims.get(key).is_none_or(|claim| claim.allocation.is_none()) && !self.vacated(key)
    }

    /// Counts what is held for a pod's own claim, unless that is allocated by now.
    fn count_held(&mut self, held: &Held, take: bool) {
        if held.key.as_ref().is_none_or(|key| self.open(key)) {
            self.count_chosen(&held.chosen, take);
        }
    }

    /// Counts all that is used for a claim: what the API shows, else what is held for it.
    pub(super) fn count_claim(&mut self, key: &ResourceClaimKey, take: bool) {
        if let Some(allocation) = self.shown(key).cloned() {
            for device in &allocation.devices {
                self.count(device, take);
            }
        }
        if self.vacated(key) {
            if let Some(chosen) = self.anew.get(key).map(|hold| hold.chosen.clone()) {
                self.count_chosen(&chosen, take);
            }
            return;
        }
        if !self.open(key) {
            return;
        }
        if let Some(chosen) = self.shared.get(key).map(|hold| hold.chosen.clone()) {
            self.count_chosen(&chosen, take);
        }
        let held = self.own.get(key).map(|pod| &self.held[pod].own);
        let held = held.into_iter().flatten().find(|held| held.key.as_ref() == Some(key));
        if let Some(chosen) = held.map(|held| held.chosen.clone()) {
            self.count_chosen(&chosen, take);
        }
    }

    fn count_chosen(&mut self, chosen: &Chosen, take: bool) {
        for chosen in chosen.devices.iter().filter(|chosen| !chosen.admin) {
            self.count(&chosen.device, take);
        }
    }

    pub(super) fn count(&mut self, device: &AllocatedDevice, take: bool) {
        if let Some(at) = self.pools.find(&device.id) {
            count(&self.pools, &mut self.usage, &mut self.counted, at, device, take);
        }
    }

    /// Who uses what, counted from scratch.
    fn use_anew(&self) -> (Vec<Usage>, Vec<Nano>) {
        let mut usage = vec![Usage::default(); self.pools.len()];
        let mut counted = vec![Nano::default(); self.pools.counters().len()];
        let shown = self.claims.keys().filter_map(|key| self.shown(key));
        let shown = shown.flat_map(|allocation| &allocation.devices);
        let kept = self.kept.values().flat_map(|devices| devices.iter());
        let own = self.held.values().flat_map(|hold| &hold.own);
        let own = own.filter(|held| held.key.as_ref().is_none_or(|key| self.open(key)));
        let shared = self.shared.iter().filter(|(key, _)| self.open(key));
        let shared = shared.map(|(_, hold)| &hold.chosen);
        let anew = self.anew.iter().filter(|(key, _)| self.vacated(key));
        let anew = anew.map(|(_, hold)| &hold.chosen);
        let chosen = own.map(|held| &held.chosen).chain(shared).chain(anew);
        let chosen = chosen.flat_map(|chosen| &chosen.devices).filter(|one| !one.admin);
        for device in shown.chain(kept).chain(chosen.map(|one| &one.device)) {
            if let Some(at) = self.pools.find(&device.id) {
                count(&self.pools, &mut usage, &mut counted, at, device, true);
            }
        }
        (usage, counted)
    }

    /// Compares what is counted with what it should be; `placed`: pods with a place, each with its
    /// shape.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount<'a>(&self, placed: impl Iterator<Item = (PodIdx, &'a PodShape)>) {
        self.answers.recount();
        if self.stale {
            return;
        }
        let with: BTreeMap<PodIdx, &PodShape> =
            placed.filter(|(_, shape)| !shape.claims.is_empty()).collect();
        let users = with.iter().flat_map(|(pod, shape)| named(shape).map(|key| (key, *pod)));
        self.users.recount(users.map(|(key, pod)| (key.clone(), pod)));
        assert!(self.anew.is_empty(), "claims are given anew within a transaction only");
        self.recount_awaited();
        self.recount_use();
        let mut shared: BTreeMap<&ResourceClaimKey, BTreeSet<PodIdx>> = BTreeMap::new();
        for (pod, hold) in &self.held {
            assert!(with.contains_key(pod), "a pod without a place holds devices");
            for (key, _) in &hold.shared {
                shared.entry(key).or_default().insert(*pod);
            }
        }
        let known = self.shared.iter().map(|(key, hold)| (key, &hold.users));
        assert!(known.eq(shared.iter().map(|(key, users)| (*key, users))), "users of claims");
    }

    /// The part of it that holds within a transaction, too.
    pub(super) fn recount_use(&self) {
        let (usage, counted) = self.use_anew();
        for (at, (kept, anew)) in self.usage.iter().zip(&usage).enumerate() {
            let (_, _, name) = self.pools.device(at as DeviceAt).id();
            assert_eq!(kept, anew, "use of device {name}");
        }
        assert_eq!(self.counted, counted, "counters that devices take");
    }
}

/// Takes a device, or gives it back.
fn count(
    pools: &Pools,
    usage: &mut [Usage],
    counted: &mut [Nano],
    at: DeviceAt,
    device: &AllocatedDevice,
    take: bool,
) {
    let used = &mut usage[at as usize];
    let was = used.whole + used.shares > 0;
    let sign = if take { 1 } else { -1 };
    match device.share {
        true => {
            used.shares = used.shares.checked_add_signed(sign as i32).expect("a share that is had");
            for (name, amount) in &device.consumed {
                let sum = used.consumed.entry(name.clone()).or_default();
                sum.0 = sum.0.saturating_add(sign * amount.0);
                if *sum == Nano(0) {
                    used.consumed.remove(name);
                }
            }
        }
        false => {
            used.whole = used.whole.checked_add_signed(sign as i32).expect("a device that is had");
        }
    }
    let is = used.whole + used.shares > 0;
    if was != is {
        for (counter, amount) in &pools.device(at).consumes {
            let sum = &mut counted[*counter as usize];
            sum.0 = sum.0.saturating_add(sign * amount.0);
        }
    }
}

/// A device as a claim has it.
pub(super) fn allocated(id: DeviceId, share: Option<&[(Text, Nano)]>) -> AllocatedDevice {
    let consumed = share.into_iter().flatten().cloned().collect();
    AllocatedDevice { id, share: share.is_some(), consumed }
}
