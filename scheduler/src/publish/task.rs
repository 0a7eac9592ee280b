//! The task that carries the plan out: bounded, only while we lead.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use capstan_core::time::Time;
use kube::Client;
use tokio::task::{Id, JoinError, JoinSet};

use super::entry::{Answer, Key};
use super::whose::LeftAlone;
use super::{Publisher, events, requests, untaken};
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
    let (mut flying, mut telling) = (Flying::default(), JoinSet::new());
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
        publisher.plan.lock().untaken.take_to_say().iter().for_each(untaken::log);
        let counts = publisher.plan.lock().take_counts();
        metrics.published(counts.into_iter().map(|(what, count)| (what.word(), count)));
        let nap =
            wake.map_or(NAP, |at| publisher.clock.until(at).clamp(Duration::from_millis(1), NAP));
        tokio::select! {
            () = publisher.bell.notified() => {}
            Some((key, answer)) = flying.next() => answered(&publisher, &key, answer),
            Some(_) = telling.join_next() => publisher.plan.lock().event_answered(),
            () = tokio::time::sleep(nap) => {}
        }
        tokio::time::sleep_until(next).await;
        while let Some((key, answer)) = flying.try_next() {
            answered(&publisher, &key, answer);
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

fn answered(publisher: &Publisher, key: &Key, answer: Answer) {
    let now = publisher.clock.now();
    publisher.plan.lock().answered(now, key, answer);
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

/// Requests on their way, and what each of them writes: however one ends, it is answered.
#[derive(Default)]
struct Flying {
    requests: JoinSet<Answer>,
    keys: BTreeMap<Id, Key>,
}

impl Flying {
    fn len(&self) -> usize {
        self.requests.len()
    }

    fn spawn(&mut self, key: Key, request: impl Future<Output = Answer> + Send + 'static) {
        let id = self.requests.spawn(request).id();
        self.keys.insert(id, key);
    }

    /// What is answered next; `None`: nothing is on its way.
    async fn next(&mut self) -> Option<(Key, Answer)> {
        let done = self.requests.join_next_with_id().await?;
        self.landed(done)
    }

    /// What was answered already.
    fn try_next(&mut self) -> Option<(Key, Answer)> {
        let done = self.requests.try_join_next_with_id()?;
        self.landed(done)
    }

    fn landed(&mut self, done: Result<(Id, Answer), JoinError>) -> Option<(Key, Answer)> {
        let (id, answer) = match done {
            Ok(done) => done,
            // It panicked: what it writes is due again.
            Err(error) => (error.id(), Answer::Failed),
        };
        Some((self.keys.remove(&id)?, answer))
    }
}

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
        let of = key.clone();
        flying.spawn(key, async move {
            match leadership.holds() {
                true => requests::carry_out(&client, &of, write).await,
                false => Answer::Failed,
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_panics_is_answered_as_one_that_failed() {
        let mut flying = Flying::default();
        let key = |name: &str| Key::ClusterQueue(name.into());
        flying.spawn(key("broken"), async { panic!("of a request") });
        let (of, answer) = flying.next().await.expect("it was on its way");
        assert_eq!(of, key("broken"));
        assert!(matches!(answer, Answer::Failed), "{answer:?}");
        flying.spawn(key("whole"), async { Answer::Gone });
        let (of, answer) = flying.next().await.expect("it was on its way");
        assert_eq!(of, key("whole"));
        assert!(matches!(answer, Answer::Gone), "{answer:?}");
        assert!(flying.next().await.is_none() && flying.keys.is_empty());
    }
}
