//! What people look at, from the engine's thread, without slowing what it decides.
//!
//! News of a step are told a few at a time between steps. Everything else (queues, metrics, all
//! workloads in pages) is looked at once a second, and less often where that would take more than
//! a twentieth of the thread's time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use capstan_core::Engine;
use capstan_core::explain::view::QueueView;
use capstan_core::model::input::Text;
use capstan_core::plan::Effect;

use super::desk::Tools;
use super::places::Places;
use crate::live::{Group, Kind, Live};
use crate::metrics::Look;
use crate::publish::Publisher;
use crate::read::kinds::Queueing;

/// News told between two steps.
const NEWS_MAX: usize = 256;
/// Workloads told in one look, changed or not.
const PAGE: usize = 500;
/// How often it is looked, at most.
const EVERY: Duration = Duration::from_secs(1);
/// How many times as long as a look took nobody looks again.
const REST: u32 = 20;
/// How often all names are compared with what the API shows.
const NAMES_EVERY: Duration = Duration::from_secs(600);

/// What is still to be told, and when to look next.
pub struct Looks {
    news: VecDeque<Effect>,
    next: Instant,
    names: Instant,
    /// Where the next page begins.
    mark: usize,
    places: Places,
}

impl Looks {
    /// Looks at once.
    pub fn new() -> Looks {
        let now = Instant::now();
        Looks { news: VecDeque::new(), next: now, names: now, mark: 0, places: Places::new(now) }
    }

    /// Keeps news until there is time for them.
    pub fn news(&mut self, says: Vec<Effect>) {
        self.news.extend(says);
    }

    /// How long there is nothing to say.
    pub fn patience(&self) -> Duration {
        match self.news.is_empty() {
            true => self.next.saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        }
    }

    /// Tells some news.
    pub fn tell(&mut self, publisher: &Publisher, live: &Live, engine: &Engine) {
        let some = self.news.len().min(NEWS_MAX);
        self.news.drain(..some).for_each(|effect| publisher.publish(&effect, engine, live));
    }

    /// Looks at everything, if it is time.
    pub fn look(&mut self, tools: &Tools, live: &Live, engine: &mut Engine) {
        let begun = Instant::now();
        if begun < self.next {
            return;
        }
        if begun >= self.names {
            self.names = begun + NAMES_EVERY;
            tools.publisher.standing(engine.names());
            tools.publisher.groups_there(live);
        }
        self.places.look(begun, tools, live, engine);
        let (page, mark) = engine.details_from(self.mark, PAGE);
        self.mark = mark.unwrap_or(0);
        tools.publisher.workloads(page, live);
        tools.publisher.open_groups(live);
        let (mut queues, local) = (engine.queues(), engine.local_queues());
        let now = tools.clock.now();
        queues.iter_mut().for_each(|queue| queue.advance(now));
        let census = engine.census(tools.metrics.shows_asked());
        tools.metrics.look(&Look { queues: &queues, local_queues: &local, census: &census });
        tools.metrics.footprint(&engine.footprint());
        // Kueue's queues are read, never written.
        let (none, own) = (Text::from(""), Group::Capstan);
        let of = |kind, namespace: &Text, name: &Text| {
            live.holds(Kind::Queueing(kind, own), namespace, name)
        };
        let queues = queues.into_iter().filter(|it| of(Queueing::ClusterQueue, &none, &it.name));
        let mut queues: Vec<_> = queues.collect();
        for name in live.unread_queues() {
            queues.retain(|queue| queue.name != *name);
            queues.push(engine.unread_queue(name));
        }
        for name in live.replaced_queues() {
            queues.retain(|queue| queue.name != *name);
            queues.push(QueueView { admitted: 0, ..engine.unread_queue(name) });
        }
        tools.publisher.queues(queues);
        let cohorts = engine.cohorts().into_iter();
        let cohorts = cohorts.filter(|it| of(Queueing::Cohort, &none, &it.name));
        tools.publisher.cohorts(cohorts.collect());
        let local =
            local.into_iter().filter(|it| of(Queueing::LocalQueue, &it.namespace, &it.name));
        tools.publisher.local_queues(local.collect());
        tools.publisher.observed(live.generations());
        self.next = Instant::now() + EVERY.max(begun.elapsed() * REST);
    }
}
