//! One effect under way: what is left of its time, what is in doubt, and the answer that it owes.
//!
//! Decides when an effect is tried again and what is answered when its time is up. Leaves to the
//! protocols what a try is.

use std::sync::Arc;
use std::time::Duration;

use capstan_core::model::input::Text;
use capstan_core::plan::{Action, Effect, EffectId, EffectResult, Precondition};
use tokio::time::Instant;

use super::line::Line;
use super::outlive::{self, Gate};
use super::queue::Shared;
use super::{Answer, bind, claims, deactivate, evict, owner, tolerate, volumes};
use crate::client::REQUEST_TIMEOUT;

/// The longest pause that a server may ask for: an effect in doubt is not left so for as long as
/// whatever stands in the server's place may say.
const ASKED_MAX: Duration = Duration::from_secs(60);

/// For how long a request that was not answered may be carried out yet, whatever a reading shows:
/// the API server gives none more than a minute.
const LOST_MAX: Duration = Duration::from_secs(60);

/// What is said of a request without an answer.
const UNANSWERED: &str = "the API server does not answer";

/// An effect that was taken on.
pub(super) struct Flight {
    pub(super) effect: Effect,
    pub(super) progress: Progress,
    /// The Workload object of its work is to outlive the pods of that.
    pub(super) outlives: bool,
    /// What has to come about before it, which others wait for, too.
    pub(super) gate: Option<Box<Gate>>,
    /// What is left of its time: tries and the pauses between them take it.
    left: Duration,
    tries: u32,
    owed: Owed,
}

/// What earlier tries have left behind.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// A write of ours may or may not have been carried out.
    pub(super) doubt: bool,
    /// When the last one was sent that had no answer, or none that settles anything.
    pub(super) lost: Option<Instant>,
    /// What the API server said of the last one, if that was that it failed.
    pub(super) failed: Option<String>,
    /// The time of the effect is up: what is known not to be done is not tried any more.
    late: bool,
    /// It was sent once more since.
    last: bool,
    /// When this try began, until it was asked what its readings say of earlier writes.
    begun: Option<Instant>,
    /// The victim bears our marks.
    pub(super) marked: bool,
    /// Since when its marks are being taken back.
    pub(super) unmarking: Option<Instant>,
    /// The victim's deletion was asked for.
    pub(super) deleting: bool,
    /// The run of the owner that we counted as stopped.
    pub(super) counted: Option<u32>,
}

/// Why a try ended without being done.
#[derive(Debug)]
pub(super) enum Stop {
    /// There is an answer.
    Answer(EffectResult),
    /// It may succeed later.
    Again {
        /// What was in the way.
        why: String,
        /// How long the server wants to be left alone.
        after: Option<Duration>,
    },
    /// Nothing may be sent any more.
    GiveUp,
}

impl Progress {
    /// Whether the time of the effect is up.
    pub(super) fn is_late(&self) -> bool {
        self.late
    }

    /// A reading shows that nothing was carried out. Where the API server had said that it failed,
    /// that is the end of the doubt, and after the time of the effect the end of that.
    ///
    /// What had no answer is sent again; after the time of the effect once, as an outage may be
    /// over. What has none then either is read alone, until nothing can come of it any more: not
    /// by a reading that may have begun before.
    ///
    /// A try that reads several objects is judged by the first of them.
    pub(super) fn not_done(&mut self) -> Result<(), Stop> {
        let Some(begun) = self.begun.take() else { return Ok(()) };
        if self.lost.is_some_and(|at| begun.saturating_duration_since(at) < LOST_MAX) {
            return match self.late && std::mem::replace(&mut self.last, true) {
                true => Err(Stop::again(UNANSWERED)),
                false => Ok(()),
            };
        }
        let unanswered = || self.last.then(|| UNANSWERED.to_owned());
        let Some(why) = self.failed.take().or_else(unanswered) else {
            self.last = self.late;
            return Ok(());
        };
        self.doubt = false;
        if self.late { Err(Stop::Answer(too_late(&why))) } else { Ok(()) }
    }
}

/// The result of a try.
pub(super) type Try = Result<EffectResult, Stop>;

impl Stop {
    /// It may succeed later.
    pub(super) fn again(why: impl Into<String>) -> Stop {
        Stop::Again { why: why.into(), after: None }
    }
}

/// The answer that an effect owes; unknown, if nobody knows better when it is dropped.
struct Owed {
    shared: Arc<Shared>,
    effect: EffectId,
    action: &'static str,
    /// Whose next effect waits for it.
    owner: Option<Text>,
    result: Option<EffectResult>,
}

impl Drop for Owed {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or(EffectResult::TimedOut);
        (self.shared.answers)(Answer { effect: self.effect, action: self.action, result });
        *self.shared.answered.lock() = Instant::now();
        self.shared.owed.send_modify(|owed| *owed -= 1);
        if let Some(owner) = &self.owner {
            self.shared.next_of(owner);
        }
    }
}

impl Flight {
    pub(super) fn new(shared: &Arc<Shared>, effect: Effect, outlives: bool) -> Flight {
        shared.owed.send_modify(|owed| *owed += 1);
        let action = super::word(&effect.action);
        let owner = owner_of(&effect.action).cloned();
        let owed = Owed { shared: shared.clone(), effect: effect.id, action, owner, result: None };
        let left = Duration::from_millis(u64::try_from(effect.patience.0).unwrap_or(0));
        // Longer than a year is as good as a year, and never overflows a clock.
        let left = left.min(Duration::from_secs(365 * 24 * 3_600));
        let progress = Progress::default();
        Flight { effect, progress, outlives, gate: None, left, tries: 0, owed }
    }

    pub(super) fn is_bind(&self) -> bool {
        matches!(self.effect.action, Action::Bind { .. })
    }

    /// The owner that it suspends or resumes, by uid.
    pub(super) fn owner(&self) -> Option<&Text> {
        owner_of(&self.effect.action)
    }

    /// Whether it stops a pod that the object of its work has to let go of before.
    pub(super) fn needs_gate(&self) -> bool {
        self.outlives && matches!(self.effect.action, Action::Evict { .. })
    }

    /// How long it is tried at most, before it began.
    pub(super) fn patience(&self) -> Duration {
        self.left
    }

    pub(super) fn answer(mut self, result: EffectResult) {
        self.owed.result = Some(result);
    }

    /// Some of its time is gone.
    fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    /// Whether it is over: what was certainly not done is not tried any more, what may have been
    /// is pursued until that is known: [`Progress::not_done`] ends it then.
    fn is_over(&self) -> bool {
        self.left.is_zero() && !self.progress.doubt && !self.progress.marked
    }

    /// How long one try may take.
    fn time(&self) -> Duration {
        if self.left.is_zero() { REQUEST_TIMEOUT } else { self.left }
    }

    /// Says so where it had to wait for longer than it may take.
    fn note_wait(&self, shared: &Shared) {
        let waited = shared.clock.now().since(self.effect.decided);
        if self.tries == 0 && waited > self.effect.patience {
            let (effect, workload) = (self.effect.id.0, &self.effect.workload);
            tracing::debug!(effect, %workload, %waited, "its turn came late");
        }
    }

    /// One try failed. The pause before the next one: half of it is spread by the effect's number,
    /// so that what failed together does not come back together.
    pub(super) fn failed(
        &mut self,
        shared: &Shared,
        (why, after): (&str, Option<Duration>),
    ) -> Duration {
        let doubled = 1_u32.checked_shl(self.tries).unwrap_or(u32::MAX);
        let limits = &shared.limits;
        let full = limits.first_pause.saturating_mul(doubled).min(limits.longest_pause);
        let spread = u32::try_from(self.effect.id.0.wrapping_mul(37) % 64).expect("below 64");
        let asked = after.unwrap_or_default().min(ASKED_MAX);
        self.tries += 1;
        let (effect, tries) = (self.effect.id.0, self.tries);
        tracing::debug!(effect, workload = %self.effect.workload, tries, why, "not done yet");
        asked.max(full / 2) + full / 2 * spread / 64
    }
}

fn owner_of(action: &Action) -> Option<&Text> {
    match action {
        Action::SuspendOwner { owner, .. } | Action::ResumeOwner { owner, .. } => Some(&owner.uid),
        _ => None,
    }
}

/// The answer of what certainly was not done in its time.
pub(super) fn too_late(why: &str) -> EffectResult {
    EffectResult::Refused(format!("not done in time: {why}").into())
}

/// One try, and what follows from it.
pub(super) async fn fly(shared: Arc<Shared>, flight: Flight) {
    flight.note_wait(&shared);
    let Some(mut flight) = outlive::pass(&shared, flight).await else { return };
    let begun = Instant::now();
    let line = Line::new(&shared, flight.is_bind(), flight.time());
    flight.progress.late = flight.left.is_zero();
    flight.progress.begun = Some(begun);
    let of = (&flight.effect, flight.outlives);
    let tried = one_try(&line, of, &mut flight.progress).await;
    flight.spend(begun.elapsed().saturating_sub(line.waited()));
    if flight.effect.completes {
        shared.tried(flight.effect.id);
    }
    match tried {
        Ok(result) | Err(Stop::Answer(result)) => flight.answer(result),
        // Whatever was sent before may have been carried out; the next leader will see.
        Err(Stop::GiveUp) => flight.answer(EffectResult::TimedOut),
        Err(Stop::Again { why, after }) => {
            let pause = flight.failed(&shared, (&why, after));
            flight.spend(pause);
            if flight.is_over() {
                return flight.answer(too_late(&why));
            }
            shared.pause(flight, pause);
        }
    }
}

async fn one_try(
    line: &Line<'_>,
    (effect, outlives): (&Effect, bool),
    progress: &mut Progress,
) -> Try {
    let wanted = match &effect.precondition {
        Precondition::Uid(uid) => Some(uid),
        Precondition::None => None,
    };
    let same = |uid: &Text| match wanted.filter(|wanted| *wanted != uid) {
        None => Ok(()),
        Some(wanted) => {
            let why = format!("the uid is {uid}, not {wanted}");
            Err(Stop::Answer(EffectResult::Conflict(why.into())))
        }
    };
    match &effect.action {
        Action::Bind { pod, node, note } => {
            same(&pod.uid)?;
            bind::bind(line, progress, pod, (node, effect.decided), note).await
        }
        Action::Evict { pod, preemption, alone } => {
            same(&pod.uid)?;
            evict::evict(line, progress, pod, (preemption, *alone)).await
        }
        Action::SuspendOwner { owner, preemption, requeue } => {
            same(&owner.uid)?;
            owner::suspend(line, progress, owner, preemption, requeue).await
        }
        Action::ResumeOwner { owner, note } => {
            same(&owner.uid)?;
            owner::resume(line, progress, owner, note).await
        }
        Action::AddTolerations { pod, tolerations } => {
            same(&pod.uid)?;
            tolerate::add(line, progress, pod, tolerations).await
        }
        Action::SelectVolumes { pod, settings } => {
            same(&pod.uid)?;
            volumes::select(line, progress, settings).await
        }
        Action::AllocateClaims { pod, claims, .. } => {
            same(&pod.uid)?;
            claims::allocate(line, progress, pod, claims).await
        }
        Action::ReleaseClaims { pod, claims } => {
            same(&pod.uid)?;
            claims::release(line, progress, pod, claims).await
        }
        Action::Deactivate { namespace, name } => {
            deactivate::deactivate(line, progress, (namespace, name), outlives).await
        }
        // They report, and are the publisher's.
        Action::Status(_) | Action::Event { .. } => Ok(EffectResult::Done),
    }
}
