//! Where waiting work stands in its queue, and when it may start: for the first of every queue, so
//! that `kubectl` shows it. Who else wants to know asks ([`crate::serve`]).
//!
//! Wanted: a queue of any length costs as much as its first [`SHOWN`]; positions are renewed every
//! [`EVERY`], forecasts a few at a time, because each is a dozen nominations for everybody up to
//! its place: those reckoned longest ago are next. Where nobody knows when what runs ends, each
//! costs one look, and after the first few nothing is reckoned until positions are renewed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use capstan_core::Engine;
use capstan_core::explain::view::{Forecast, Position};
use capstan_core::time::Time;

use super::desk::Tools;
use crate::live::Live;
use crate::publish::{Name, Standing};

/// Work of each queue that is shown with its position.
const SHOWN: usize = 20;
/// How often positions are renewed.
const EVERY: Duration = Duration::from_secs(30);
/// Forecasts reckoned when positions are renewed, and at each look in between.
const AT_ONCE: usize = 8;
const BETWEEN: usize = 2;
/// Workloads told of in one look because they stand elsewhere.
const TOLD_MAX: usize = 500;

/// What was found last.
pub struct Places {
    next: Instant,
    positions: BTreeMap<Name, Position>,
    forecasts: BTreeMap<Name, Forecast>,
    /// Whose forecast is reckoned next.
    line: VecDeque<Name>,
    /// Some forecast was found since positions were renewed.
    any: bool,
    /// Who stands elsewhere than was told.
    changed: VecDeque<Name>,
}

impl Places {
    /// Looks from then on.
    pub fn new(now: Instant) -> Places {
        Places {
            next: now,
            positions: BTreeMap::new(),
            forecasts: BTreeMap::new(),
            line: VecDeque::new(),
            any: false,
            changed: VecDeque::new(),
        }
    }

    /// Renews what is due, and tells some of what changed.
    pub fn look(&mut self, begun: Instant, tools: &Tools, live: &Live, engine: &mut Engine) {
        let now = tools.clock.now();
        if begun >= self.next {
            self.next = begun + EVERY;
            self.renew(engine);
            self.any = self.reckon(now, AT_ONCE, engine);
            let changed = tools.publisher.standings(self.standings(now));
            self.changed = changed.into();
        } else if self.any {
            self.reckon(now, BETWEEN, engine);
        }
        let some = self.changed.len().min(TOLD_MAX);
        let told = self.changed.drain(..some);
        let details = told.filter_map(|(namespace, name)| engine.details(&namespace, &name));
        let details: Vec<_> = details.collect();
        if !details.is_empty() {
            tools.publisher.workloads(details, live);
        }
    }

    fn renew(&mut self, engine: &Engine) {
        let places = engine.positions(SHOWN).into_iter();
        self.positions =
            places.map(|place| ((place.namespace, place.name), place.position)).collect();
        let positions = &self.positions;
        self.forecasts.retain(|name, _| positions.contains_key(name));
        self.line.retain(|name| positions.contains_key(name));
        // Who is new comes before those that were reckoned already, heads first.
        let known: BTreeSet<&Name> = self.line.iter().collect();
        let mut new: Vec<&Name> = positions.keys().filter(|name| !known.contains(name)).collect();
        new.sort_by_key(|name| (positions[*name].in_cluster_queue, *name));
        let new: Vec<Name> = new.into_iter().cloned().collect();
        new.into_iter().rev().for_each(|name| self.line.push_front(name));
    }

    /// Reckons some forecasts; whether there was any.
    fn reckon(&mut self, now: Time, most: usize, engine: &mut Engine) -> bool {
        let some = self.line.len().min(most);
        if some == 0 {
            return false;
        }
        let names: Vec<Name> = self.line.drain(..some).collect();
        let found = engine.forecasts_of(now, &names);
        let any = found.iter().any(Option::is_some);
        for (name, forecast) in names.iter().zip(found) {
            match forecast {
                Some(forecast) => drop(self.forecasts.insert(name.clone(), forecast)),
                None => drop(self.forecasts.remove(name)),
            }
        }
        self.line.extend(names);
        any || !self.forecasts.is_empty()
    }

    /// All that is shown.
    fn standings(&self, now: Time) -> BTreeMap<Name, Standing> {
        let standing = |(name, position): (&Name, &Position)| {
            let forecast = self.forecasts.get(name).filter(|forecast| forecast.start > now);
            let forecast = forecast.map(|it| (it.start, it.assumes.to_string()));
            // People count from one.
            let position = i32::try_from(position.in_cluster_queue).unwrap_or(i32::MAX);
            (name.clone(), Standing { position: position.saturating_add(1), forecast })
        };
        self.positions.iter().map(standing).collect()
    }
}
