//! Carries effects out on the API server; every effect gets exactly one answer.
//!
//! Problem: thousands of small writes a second, of which any may be refused, answered twice,
//! answered late or not at all.
//!
//! Wanted: nothing is sent without leadership ([`crate::lease::Leadership::holds`], asked right
//! before each request); nothing is sent twice blindly (after a timeout or 5xx the object is read
//! back before anything is concluded); uid preconditions on every write; one slow object does not
//! hold up others, and one owner is stopped and started in the order in which that was decided;
//! binds go before everything else; what is answered is the truth or
//! [`TimedOut`](capstan_core::plan::EffectResult::TimedOut), never a guess; binds by the thousand
//! leave a part of all that is bounded to evictions, resumes and claims.
//!
//! Phases of one effect: slot (bounded) -> leadership -> rate -> request -> classify the answer ->
//! pause without a slot and try again, read back, or answer.
//!
//! - `queue` says which effect is next and how many are under way; `flight` is one effect with its
//!   time, its doubts and the answer that it owes; `line` sends its requests.
//! - `nodes` knows which nodes closed while binds waited; `outlive` has the object that holds a
//!   group let go of its pods before they are stopped.
//! - `bind`, `claims` (with `special`, the claims for extended resources), `deactivate`, `evict`,
//!   `owner`, `tolerate`, `volumes` are the protocols, one file each.
//!
//! An effect has its time (`Effect::patience`) from when it has a slot; waiting for one, and for
//! the rate, takes none of it. So what is decided at once and more than the server takes in that
//! time is carried out all the same, late: were it refused for that, a gang could lose the places
//! of members whose turn had not come while the others were bound.
//!
//! What bounds it: a request has ten seconds until its answer begins, and not more than what is
//! left of the effect's time; a slot is held during one try only. When its time is over, an effect
//! that certainly was not carried out (always throttled, never connected, never sent) is `Refused`.
//! One that may have been is pursued until that is known: its object is read back, and what is not
//! there is written again, for as long as we lead. It is `Refused`, too, once a reading shows
//! nothing of it where the API server said that it failed (as if an admission webhook is not
//! there), or where it did not answer so long ago that nothing can come of that any more. Only who
//! leads no more, or ends, answers `TimedOut`: the next leader reads what became of it. How long an
//! effect waits for its turn is bounded by those before it alone; what it was decided on may be
//! gone by then, and uids and versions in each write see to that, `nodes` where it is a node.
//!
//! `Status` and `Event` effects are not for here ([`crate::publish`]); they are done at once.

mod bind;
mod claims;
mod deactivate;
mod evict;
mod flight;
mod line;
mod nodes;
mod outlive;
mod owner;
mod queue;
mod special;
#[cfg(test)]
mod tests;
mod tolerate;
mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use capstan_core::model::input::{Input, Text};
use capstan_core::plan::{Action, Effect, EffectId, EffectResult};
use capstan_core::time::Time;
use kube::Client;
use tokio::runtime::Handle;
use tokio::time::timeout;

use self::flight::Flight;
use self::queue::Shared;
use crate::client::bucket::Bucket;
use crate::clock::Clock;
use crate::lease::Leadership;

/// The answer to one effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The effect.
    pub effect: EffectId,
    /// What kind of action it was, as metrics name it.
    pub action: &'static str,
    /// What became of it.
    pub result: EffectResult,
}

impl Answer {
    /// Its result as metrics name it.
    pub fn word(&self) -> &'static str {
        match self.result {
            EffectResult::Done => "done",
            EffectResult::Conflict(_) => "conflict",
            EffectResult::Gone => "gone",
            EffectResult::Refused(_) => "refused",
            EffectResult::TimedOut => "unknown",
        }
    }
}

fn word(action: &Action) -> &'static str {
    match action {
        Action::Bind { .. } => "bind",
        Action::Evict { .. } => "evict",
        Action::SuspendOwner { .. } => "suspend_owner",
        Action::ResumeOwner { .. } => "resume_owner",
        Action::AddTolerations { .. } => "add_tolerations",
        Action::SelectVolumes { .. } => "select_volumes",
        Action::AllocateClaims { .. } => "allocate_claims",
        Action::ReleaseClaims { .. } => "release_claims",
        Action::Deactivate { .. } => "deactivate",
        Action::Status(_) => "status",
        Action::Event { .. } => "event",
    }
}

/// Where answers go; it never blocks, and the receiver outlives all executors.
pub type Answers = Arc<dyn Fn(Answer) + Send + Sync>;

/// What an executor works with.
pub struct Means {
    /// The client for writes that matter; it sends nothing twice by itself.
    pub writes: Client,
    /// What its requests keep to.
    pub rate: Bucket,
    /// Whether requests may be sent.
    pub leadership: Leadership,
    /// Where answers go.
    pub answers: Answers,
    /// The clock that effects are decided by.
    pub clock: Clock,
}

/// Bounds of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Effects under way at a time. More in flight than a connection has streams (100 to 250 on
    /// an API server) wait inside the client.
    pub in_flight: usize,
    /// Pause after a first failure; it doubles each time.
    pub first_pause: Duration,
    /// Longest pause, unless the server asks for a longer one, of up to a minute.
    pub longest_pause: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            in_flight: 256,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(2),
        }
    }
}

/// Carries effects out, many at a time. Dropping it lets what was dispatched finish.
pub struct Executor {
    shared: Arc<Shared>,
}

impl Executor {
    /// An executor that works on the present tokio runtime.
    pub fn new(means: Means, limits: Limits) -> Executor {
        Executor { shared: Arc::new(Shared::new(means, limits, Handle::current())) }
    }

    /// Takes effects on; never blocks, from any thread. Each is answered once, from another
    /// thread.
    pub fn dispatch(&self, effects: Vec<Effect>) {
        self.dispatch_outlived(effects, &BTreeSet::new());
    }

    /// The same, where the Workload objects of some work (`namespace/name`) are to outlive its
    /// pods, which they may name as their owners: they let go of them before the first of those is
    /// stopped, and when they say that the work may not run.
    pub fn dispatch_outlived(&self, effects: Vec<Effect>, outliving: &BTreeSet<Text>) {
        let flight = |effect: Effect| {
            let outlives = outliving.contains(&effect.workload);
            Flight::new(&self.shared, effect, outlives)
        };
        self.shared.take_on(effects.into_iter().map(flight).collect());
    }

    /// What the engine is told at this time: binds that were decided before their node was deleted
    /// or cordoned, and were not sent yet, are refused.
    pub fn learns(&self, now: Time, fact: &Input) {
        let under_way = *self.shared.owed.borrow() > 0;
        self.shared.nodes.learn(now, fact, under_way);
    }

    /// Whether as many effects are under way as may be, and a bind waits: one that was dispatched
    /// now would not begin before others have ended.
    pub fn has_plenty(&self) -> bool {
        self.shared.has_plenty()
    }

    /// For how long nothing was changed: since the last answer, and not at all while one is owed.
    pub fn idle(&self) -> Duration {
        let owed = *self.shared.owed().borrow();
        if owed > 0 { Duration::ZERO } else { self.shared.answered.lock().elapsed() }
    }

    /// Waits until every effect has its answer. After `patience` the rest is given up, each
    /// answered as unknown; says how many those were. Effects that come later are given up at once.
    pub async fn drain(&self, patience: Duration) -> usize {
        let owed = self.shared.owed();
        let all = timeout(patience, owed.clone().wait_for(|owed| *owed == 0)).await.is_ok();
        let left = if all { 0 } else { *owed.borrow() };
        self.shared.close();
        left
    }
}
