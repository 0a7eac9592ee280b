//! Which effect is next, and how many are under way.
//!
//! Binds go first, in the order in which they were decided; everything else after them. But while
//! anything else waits, one slot of [`SHARE`] is for that: what frees room, or resumes who has it,
//! never waits for thousands of binds to end. An effect that pauses holds no slot, and goes before
//! the others of its kind when its pause is over.
//!
//! Many are under way together, and end in any order. So that a gang which was begun by a leader
//! that is no more is whole before others begin, the binds that complete it go alone: others wait
//! for the first answer to each of them, however slow the server is, but not once none of these
//! came for [`HOLD_MAX`].
//!
//! What is done to one owner is done in the order in which it was decided, each after the answer to
//! the one before: one that is stopped while its resume is still on its way would seem to be
//! stopped already, and run for nobody when that arrives.
//!
//! Of evictions of one group whose object is to outlive its pods the first goes alone until that
//! object has let go of them (`outlive`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use capstan_core::model::input::Text;
use capstan_core::plan::EffectId;
use kube::Client;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::flight::{self, Flight};
use super::nodes::Nodes;
use super::outlive::Gate;
use super::{Answers, Limits, Means};
use crate::client::bucket::Bucket;
use crate::clock::Clock;
use crate::lease::Leadership;

/// How long binds that complete gangs hold up others while none of their first answers comes.
const HOLD_MAX: Duration = Duration::from_secs(5);
/// One slot of so many is for what is no bind, while there is any.
const SHARE: usize = 8;

/// What all effects of one executor share.
pub(super) struct Shared {
    pub(super) writes: Client,
    /// What binds keep to.
    pub(super) of_binds: Bucket,
    /// What all else keeps to.
    pub(super) of_others: Bucket,
    pub(super) leadership: Leadership,
    pub(super) answers: Answers,
    pub(super) clock: Clock,
    pub(super) limits: Limits,
    /// Where nothing is bound any more that waits.
    pub(super) nodes: Nodes,
    runtime: Handle,
    queue: Mutex<Queue>,
    /// Effects without an answer.
    pub(super) owed: watch::Sender<usize>,
    /// When an effect was answered last; the beginning, if none was.
    pub(super) answered: Mutex<Instant>,
    /// Whether everything is given up.
    closed: watch::Sender<bool>,
}

#[derive(Default)]
struct Queue {
    /// Binds that complete a gang which was begun before.
    completing: VecDeque<Flight>,
    /// Those of them that hold up other binds.
    holding: BTreeSet<EffectId>,
    /// When the first answer to one of these came last.
    tried: Option<Instant>,
    binds: VecDeque<Flight>,
    others: VecDeque<Flight>,
    /// What waits for the answer to what is done to its owner before, by uid of those owners.
    turns: BTreeMap<Text, VecDeque<Flight>>,
    /// What waits behind the first eviction of its group, by `namespace/name` of those groups.
    gates: BTreeMap<Text, VecDeque<Flight>>,
    under_way: usize,
    /// How many of those under way are no binds.
    others_under_way: usize,
    closed: bool,
}

impl Queue {
    fn of(&mut self, flight: &Flight) -> &mut VecDeque<Flight> {
        match flight.is_bind() {
            true if flight.effect.completes => &mut self.completing,
            true => &mut self.binds,
            false => &mut self.others,
        }
    }

    /// The effect itself, if it is its turn; else it is kept until then.
    fn in_turn(&mut self, flight: Flight) -> Option<Flight> {
        let Some(owner) = flight.owner() else { return Some(flight) };
        match self.turns.entry(owner.clone()) {
            Entry::Vacant(free) => {
                free.insert(VecDeque::new());
                Some(flight)
            }
            Entry::Occupied(mut taken) => {
                taken.get_mut().push_back(flight);
                None
            }
        }
    }

    /// The effect itself, with what has to come about before it, if it is the first that needs
    /// that; one that another sees to the same for is kept until then.
    fn through_gate(&mut self, shared: &Arc<Shared>, mut flight: Flight) -> Option<Flight> {
        if !flight.needs_gate() {
            return Some(flight);
        }
        match self.gates.entry(flight.effect.workload.clone()) {
            Entry::Vacant(free) => {
                free.insert(VecDeque::new());
                flight.gate = Some(Box::new(Gate::before(shared, &flight)));
                Some(flight)
            }
            Entry::Occupied(mut taken) => {
                taken.get_mut().push_back(flight);
                None
            }
        }
    }

    /// How many may begin.
    fn ready(&self) -> usize {
        let binds = if self.holding.is_empty() { self.binds.len() } else { 0 };
        self.completing.len() + binds + self.others.len()
    }

    /// The next one, where so many slots are for what is no bind.
    fn next(&mut self, for_others: usize) -> Option<Flight> {
        let mut next = match self.others_under_way < for_others {
            true => self.others.pop_front(),
            false => None,
        };
        if next.is_none() {
            next = self.completing.pop_front();
        }
        if next.is_none() && self.holding.is_empty() {
            next = self.binds.pop_front();
        }
        next.or_else(|| self.others.pop_front())
    }
}

impl Shared {
    pub(super) fn new(means: Means, limits: Limits, runtime: Handle) -> Shared {
        let Means { writes, rate, leadership, answers, clock } = means;
        Shared {
            writes,
            of_others: rate.in_turns(),
            of_binds: rate,
            leadership,
            answers,
            clock,
            limits,
            nodes: Nodes::default(),
            runtime,
            queue: Mutex::default(),
            owed: watch::channel(0).0,
            answered: Mutex::new(Instant::now()),
            closed: watch::channel(false).0,
        }
    }

    pub(super) fn owed(&self) -> watch::Receiver<usize> {
        self.owed.subscribe()
    }

    /// Takes new effects on.
    pub(super) fn take_on(self: &Arc<Shared>, flights: Vec<Flight>) {
        let mut queue = self.queue.lock();
        if queue.closed {
            drop(queue);
            return drop(flights);
        }
        let mut holding = Vec::new();
        for flight in flights {
            let Some(flight) = queue.in_turn(flight) else { continue };
            let Some(flight) = queue.through_gate(self, flight) else { continue };
            if flight.is_bind() && flight.effect.completes {
                holding.push(flight.effect.id);
            }
            queue.of(&flight).push_back(flight);
        }
        queue.holding.extend(&holding);
        drop(queue);
        if !holding.is_empty() {
            self.runtime.spawn(let_go(self.clone(), holding));
        }
        self.start();
    }

    /// Whether all slots are taken, and a bind waits for one.
    pub(super) fn has_plenty(&self) -> bool {
        let queue = self.queue.lock();
        let waiting = queue.completing.len() + queue.binds.len();
        // Slots are taken before those who have them take effects.
        queue.under_way >= self.limits.in_flight && waiting > 0
    }

    /// One that completes a gang was tried: from the first time on it holds up nobody.
    pub(super) fn tried(self: &Arc<Shared>, completing: EffectId) {
        let mut queue = self.queue.lock();
        if !queue.holding.contains(&completing) {
            return;
        }
        queue.tried = Some(Instant::now());
        drop(queue);
        self.hold_no_more(&[completing]);
    }

    /// These do not hold up others any more.
    fn hold_no_more(self: &Arc<Shared>, completing: &[EffectId]) {
        let mut queue = self.queue.lock();
        let held = !queue.holding.is_empty();
        for id in completing {
            queue.holding.remove(id);
        }
        let freed = held && queue.holding.is_empty();
        drop(queue);
        if freed {
            self.start();
        }
    }

    /// What was done to an owner is answered: the next may begin.
    pub(super) fn next_of(self: &Arc<Shared>, owner: &Text) {
        let mut queue = self.queue.lock();
        // None of a queue that was closed before its turn came.
        let Some(waiting) = queue.turns.get_mut(owner) else { return };
        let Some(next) = waiting.pop_front() else {
            queue.turns.remove(owner);
            return;
        };
        queue.others.push_back(next);
        drop(queue);
        self.start();
    }

    /// Others of this group may begin.
    pub(super) fn let_out(self: &Arc<Shared>, workload: &Text) {
        let mut queue = self.queue.lock();
        // None of a queue that was closed before.
        let Some(waiting) = queue.gates.remove(workload) else { return };
        queue.others.extend(waiting);
        drop(queue);
        self.start();
    }

    /// Others of this group, which wait no more.
    pub(super) fn waiting_at(&self, workload: &Text) -> VecDeque<Flight> {
        self.queue.lock().gates.remove(workload).unwrap_or_default()
    }

    /// Takes an effect on again after its pause.
    pub(super) fn resume(self: &Arc<Shared>, flight: Flight) {
        let mut queue = self.queue.lock();
        if queue.closed {
            // Its answer is given outside the lock.
            drop(queue);
            return drop(flight);
        }
        queue.of(&flight).push_front(flight);
        drop(queue);
        self.start();
    }

    /// Puts free slots to work, one for each effect that waits.
    fn start(self: &Arc<Shared>) {
        let mut queue = self.queue.lock();
        let free = self.limits.in_flight.max(1).saturating_sub(queue.under_way);
        let more = free.min(queue.ready());
        queue.under_way += more;
        drop(queue);
        for _ in 0..more {
            self.runtime.spawn(work(Slot { shared: Some(self.clone()), other: false }));
        }
    }

    /// Pauses without a slot, then goes on.
    pub(super) fn pause(self: &Arc<Shared>, flight: Flight, pause: std::time::Duration) {
        let shared = self.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(pause) => shared.resume(flight),
                () = shared.given_up() => drop(flight),
            }
        });
    }

    /// Gives everything up.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let left = [
            std::mem::take(&mut queue.completing),
            std::mem::take(&mut queue.binds),
            std::mem::take(&mut queue.others),
        ];
        let waiting = [std::mem::take(&mut queue.turns), std::mem::take(&mut queue.gates)];
        drop(queue);
        drop((left, waiting));
        self.closed.send_replace(true);
    }

    /// Waits until everything is given up.
    pub(super) async fn given_up(&self) {
        // The sender is ours, so the wait cannot fail.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }
}

/// Lets others begin before these once no first answer came for too long.
async fn let_go(shared: Arc<Shared>, completing: Vec<EffectId>) {
    let mut until = Instant::now() + HOLD_MAX;
    while Instant::now() < until {
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = shared.given_up() => return,
        }
        let tried = shared.queue.lock().tried;
        until = tried.map_or(until, |at| until.max(at + HOLD_MAX));
    }
    shared.hold_no_more(&completing);
}

/// Carries out one effect after the other while there are any.
async fn work(mut slot: Slot) {
    while let Some((shared, flight)) = slot.next() {
        flight::fly(shared, flight).await;
    }
}

/// The right to have one effect under way; given back when there is none left, or however else
/// the work ends.
struct Slot {
    shared: Option<Arc<Shared>>,
    /// What it was used for last was no bind, and is counted as such.
    other: bool,
}

impl Slot {
    fn next(&mut self) -> Option<(Arc<Shared>, Flight)> {
        let shared = self.shared.clone()?;
        let mut queue = shared.queue.lock();
        queue.others_under_way -= usize::from(std::mem::take(&mut self.other));
        if let Some(flight) = queue.next(shared.limits.in_flight / SHARE) {
            self.other = !flight.is_bind();
            queue.others_under_way += usize::from(self.other);
            drop(queue);
            return Some((shared, flight));
        }
        // Under the same lock: who adds an effect from now on sees a free slot.
        queue.under_way -= 1;
        self.shared = None;
        None
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            let mut queue = shared.queue.lock();
            queue.under_way -= 1;
            queue.others_under_way -= usize::from(self.other);
        }
    }
}
