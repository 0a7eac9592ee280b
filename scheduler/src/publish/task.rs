//! The task that carries the plan out: bounded, only while we lead.

use std::time::Duration;

use capstan_core::time::Time;
use kube::Client;
use tokio::task::JoinSet;

use super::entry::{Answer, Key};
use super::whose::LeftAlone;
use super::{Publisher, events, requests};
use crate::lease::Leadership;
use crate::metrics::Metrics;

/// Requests on their way at once: enough for the rate while the server answers within 16 ms, and
/// ever fewer in a second the longer it takes, so that a busy server is left to what matters.
const FLYING_MAX: usize = 8;
/// Events on their way at once; in the same way.
const EVENTS_MAX: usize = 1;
/// How often leadership is looked at while we do not lead.
const LOOK: Duration = Duration::from_millis(200);
/// Pause after a list that failed, or that nobody serves.
const LIST_PAUSE: Duration = Duration::from_secs(5);
/// Time from one look at the plan to the next, at least: what comes in a burst is one look.
const PACE: Duration = Duration::from_millis(5);
/// Longest sleep: permits come back without a bell.
const NAP: Duration = Duration::from_millis(100);

/// Who reports: events name it.
#[derive(Clone, Debug)]
pub struct Reporter {
    /// The scheduler's name.
    pub controller: String,
    /// This replica.
    pub instance: String,
}

/// Writes what the publisher was told, for as long as it is polled. Events go by a client of
/// their own, so that they never stand before anything else.
pub async fn run(
    publisher: Publisher,
    (writes, events): (Client, Client),
    leadership: Leadership,
    metrics: std::sync::Arc<Metrics>,
    reporter: Reporter,
) {
    let (mut flying, mut telling) = (JoinSet::new(), JoinSet::new());
    let mut listed = None;
    loop {
        if !leadership.holds() {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        let next = tokio::time::Instant::now() + PACE;
        let due = listed.is_none_or(|until: Option<tokio::time::Instant>| {
            until.is_some_and(|until| until <= tokio::time::Instant::now())
        });
        if publisher.plan.lock().take_doubt() || due {
            listed = Some(list(&publisher, &writes).await);
        }
        let clients = (&writes, &events);
        let wake = start(&publisher, clients, &leadership, &reporter, (&mut flying, &mut telling));
        let left_alone = publisher.plan.lock().whose.take_to_say();
        left_alone.iter().for_each(LeftAlone::log);
        let counts = publisher.plan.lock().take_counts();
        metrics.published(counts.into_iter().map(|(what, count)| (what.word(), count)));
        let nap =
            wake.map_or(NAP, |at| publisher.clock.until(at).clamp(Duration::from_millis(1), NAP));
        tokio::select! {
            () = publisher.bell.notified() => {}
            Some(done) = flying.join_next() => answered(&publisher, done),
            Some(_) = telling.join_next() => publisher.plan.lock().event_answered(),
            () = tokio::time::sleep(nap) => {}
        }
        tokio::time::sleep_until(next).await;
        while let Some(done) = flying.try_join_next() {
            answered(&publisher, done);
        }
        while telling.try_join_next().is_some() {
            publisher.plan.lock().event_answered();
        }
    }
}

impl Publisher {
    /// Carries out all that is due by then, one request after the other: for who plays a cluster
    /// and its time. [`run`] is for a real one.
    pub async fn catch_up(&self, by: Time, client: &Client) {
        let unlisted = !self.plan.lock().has_listed();
        if unlisted && let Ok(Some(all)) = requests::list(client).await {
            self.plan.lock().listed(by, all);
        }
        loop {
            let Some((key, write)) = self.plan.lock().next(by) else { break };
            let answer = requests::carry_out(client, &key, write).await;
            self.plan.lock().answered(by, &key, answer);
        }
        loop {
            let Some(told) = self.plan.lock().next_event(by) else { break };
            let event = events::object(&told, by, "capstan", "capstan");
            if let Err(error) = requests::send(client, &event).await {
                tracing::warn!(error = crate::client::explain(&error), "event not sent");
            }
            self.plan.lock().event_answered();
        }
    }
}

fn answered(publisher: &Publisher, done: Result<(Key, Answer), tokio::task::JoinError>) {
    if let Ok((key, answer)) = done {
        let now = publisher.clock.now();
        publisher.plan.lock().answered(now, &key, answer);
    }
}

/// Lists Workloads. `Some`: it is to be tried again then.
async fn list(publisher: &Publisher, client: &Client) -> Option<tokio::time::Instant> {
    let again = || Some(tokio::time::Instant::now() + LIST_PAUSE);
    match requests::list(client).await {
        Ok(Some(all)) => {
            let now = publisher.clock.now();
            publisher.plan.lock().listed(now, all);
            None
        }
        // Without its kind there is nothing to write; pods and events are written all the same.
        Ok(None) => again(),
        Err(error) => {
            tracing::warn!(%error, "workloads not listed");
            again()
        }
    }
}

type Flying = JoinSet<(Key, Answer)>;

/// Starts requests as far as the plan and the bounds allow; when the plan wants to be asked next.
fn start(
    publisher: &Publisher,
    (writes, notes): (&Client, &Client),
    leadership: &Leadership,
    reporter: &Reporter,
    (flying, telling): (&mut Flying, &mut JoinSet<()>),
) -> Option<Time> {
    let now = publisher.clock.now();
    while flying.len() < FLYING_MAX && leadership.holds() {
        let Some((key, write)) = publisher.plan.lock().next(now) else { break };
        let (client, leadership) = (writes.clone(), leadership.clone());
        flying.spawn(async move {
            let answer = match leadership.holds() {
                true => requests::carry_out(&client, &key, write).await,
                false => Answer::Failed,
            };
            (key, answer)
        });
    }
    while telling.len() < EVENTS_MAX && leadership.holds() {
        let Some(told) = publisher.plan.lock().next_event(now) else { break };
        let event = events::object(&told, now, &reporter.controller, &reporter.instance);
        let client = notes.clone();
        telling.spawn(async move {
            if let Err(error) = requests::send(&client, &event).await {
                tracing::warn!(error = crate::client::explain(&error), "event not sent");
            }
        });
    }
    publisher.plan.lock().wake()
}
