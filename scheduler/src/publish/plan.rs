//! What to write next: pure, with the time as an argument.
//!
//! Every object has one entry: what is wanted of it, what the API shows of it, whether a request
//! is on its way, and when the next one may go. Newest wins: what is wanted is compared with what
//! is shown when its turn comes, so that what was overtaken is never written, and what is shown
//! already costs nothing. An entry with nothing left to do keeps only what is shown.
//!
//! Rates: an object is written at once, then at most once a second (a first status right after
//! its create); a waiting pod only after [`PATIENCE`], one for which room is made after
//! [`ROOM_PATIENCE`], and for new numbers in the same words only every [`WORDS_EVERY`]. A bucket
//! bounds requests in all, to few beside effects. Events have a queue and a bucket of their own and
//! are dropped first.
//!
//! Order: by rank ([`rank`]), within a rank who was due first. Nobody stands before another rank:
//! whose first is still held is passed over, and once something is late, every other request goes
//! to what has been due for longest, of whatever rank.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::explain::view::{CohortView, LocalQueueView, QueueView, WorkloadDetails};
use capstan_core::model::input::Text;
use capstan_core::plan::PodRef;
use capstan_core::time::{Span, Time};

use super::entry::{
    Answer, Around, Entry, Filed, Key, Next, RANKS, Shown, Wanted, Write, counted, is_urgent, next,
    rank, shown_workload,
};
use super::events::{Notes, Told};
use super::groups::{Bearers, GroupKey, GroupWish, Stands};
use super::places::{self, Standing, Standings};
use super::rates::{Bucket, CALM, HOLD, LATE, Limits, What};
use super::shown::ShownWorkload;
use super::untaken::Untaken;
use super::whose::{Whose, is_anothers, ours};
use super::workload;

/// Time between two writes of one object.
pub const EVERY: Span = Span::seconds(1);
/// A pod that waits says so after this long: most are placed by then.
pub const PATIENCE: Span = Span::seconds(1);
/// A member of a gang for which room is made by preemption says so after this long: most victims
/// that end at once are gone by then, and autoscalers look every ten seconds.
pub const ROOM_PATIENCE: Span = Span::seconds(5);
/// Time between two writes of a pod's condition when only its message changed: the budget is one
/// for each reason, and thousands of pods may wait for the same one. Workloads are fresher.
pub const WORDS_EVERY: Span = Span::minutes(5);
/// A workload that is gone may come back within this: the pods of a Job end before the Job does.
pub const COMES_BACK: Span = Span::seconds(5);
/// Longest pause after writes of an object that fail.
pub const PAUSE_MAX: Span = Span::seconds(60);

/// Namespace and name.
pub type Name = (Text, Text);

/// All objects, and which is written next.
#[derive(Debug)]
pub struct Plan {
    /// Whose Workloads are.
    pub(super) whose: Whose,
    pub(super) entries: BTreeMap<Key, Entry>,
    later: BTreeSet<(Time, Key)>,
    /// By rank: what is due, in the order in which it became so, and since when.
    ready: [BTreeMap<u64, (Time, Key)>; RANKS],
    arrivals: u64,
    bucket: Bucket,
    /// Until when effects are taken to be carried out.
    beside_until: Time,
    /// Until when the whole rate is used all the same: something is late.
    whole_until: Time,
    /// The next request is the turn of what is late.
    late_turn: bool,
    /// Pods of a workload that say why they wait.
    pub(super) waiting: BTreeMap<Name, Vec<PodRef>>,
    /// PodGroups of workloads.
    bearers: Bearers,
    /// Where work stands in its queue.
    standings: Standings,
    /// Workloads were listed: one that is not shown does not exist.
    listed: bool,
    /// Their kind may have been away: they are to be listed again.
    doubtful: bool,
    /// Workloads that stood when the engine had seen everything, until the list is there.
    standing: Option<BTreeSet<Name>>,
    /// Events.
    pub notes: Notes,
    /// Events given out and not answered yet.
    telling: usize,
    counts: BTreeMap<What, u64>,
    /// Of which kinds some status was not taken.
    pub(super) untaken: Untaken,
}

impl Plan {
    /// Nothing wanted yet.
    pub fn new(limits: Limits, scheduler: Text) -> Plan {
        Plan {
            whose: Whose::new(scheduler),
            entries: BTreeMap::new(),
            later: BTreeSet::new(),
            ready: Default::default(),
            arrivals: 0,
            bucket: Bucket::new(limits.writes),
            beside_until: Time::MIN,
            whole_until: Time::MIN,
            late_turn: true,
            waiting: BTreeMap::new(),
            bearers: Bearers::default(),
            standings: None,
            listed: false,
            doubtful: false,
            standing: None,
            notes: Notes::new(limits.events),
            telling: 0,
            counts: BTreeMap::new(),
            untaken: Untaken::default(),
        }
    }

    /// What was counted since the last call.
    pub fn take_counts(&mut self) -> BTreeMap<What, u64> {
        let mut counts = std::mem::take(&mut self.counts);
        for (what, count) in self.notes.take_counts() {
            *counts.entry(what).or_default() += count;
        }
        counts
    }

    /// An effect began or ended: what is written now is beside others.
    pub fn acts(&mut self, now: Time) {
        self.beside_until = now.plus(CALM);
    }

    /// Objects with a request on its way, or to come by then.
    pub fn backlog(&self, by: Time) -> usize {
        let ready: usize = self.ready.iter().map(BTreeMap::len).sum();
        let flying = self.entries.values().filter(|e| e.flying).count();
        self.later.iter().take_while(|(at, _)| *at <= by).count() + ready + flying + self.telling
    }

    /// An event that was given out was sent, or could not be.
    pub fn event_answered(&mut self) {
        self.telling = self.telling.saturating_sub(1);
    }

    /// Our kinds were away and are there again: what is shown may be gone.
    pub fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// Whether Workloads are to be listed again; asked once.
    pub fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.doubtful)
    }

    /// Whether the API's Workloads were listed.
    pub fn has_listed(&self) -> bool {
        self.listed
    }

    /// The API's Workloads, read before anything is written, and when in doubt. What is not among
    /// them is made again when it is next told of; what could not be made while nobody served their
    /// kind, at once. Those of other schedulers are passed over: where work of ours bears the name
    /// of one, that shows when it is to be made.
    pub fn listed(&mut self, now: Time, all: impl IntoIterator<Item = (Name, ShownWorkload)>) {
        self.listed = true;
        // They name no work that comes later, which lists after this one show.
        let standing = self.standing.take();
        for (key, entry) in &mut self.entries {
            if matches!(key, Key::Workload(_)) {
                entry.shown = None;
            }
        }
        let mut strays = Vec::new();
        for (name, object) in all {
            if is_anothers(&object, self.whose.scheduler()) {
                continue;
            }
            let key = Key::Workload(name.clone());
            if standing.as_ref().is_some_and(|names| !names.contains(&name)) {
                strays.push(key.clone());
            }
            self.notes.shown(now, &name, &object);
            let entry = self.entries.entry(key).or_default();
            entry.shown = Some(Shown::Workload(object));
        }
        strays.into_iter().for_each(|key| self.stray(now, key));
        self.entries.retain(|_, e| e.wanted.is_some() || e.shown.is_some() || e.flying);
        for (key, entry) in &mut self.entries {
            if matches!(key, Key::Workload(_)) && entry.shown.is_none() && entry.failures > 0 {
                entry.failures = 0;
                entry.next_at = entry.next_at.min(entry.written_at.plus(EVERY));
            }
        }
        let wanted: Vec<Key> = self
            .entries
            .iter()
            .filter(|(_, e)| e.wanted.is_some() && !e.flying)
            .map(|(k, _)| k.clone())
            .collect();
        wanted.into_iter().for_each(|key| self.file(now, &key));
    }

    /// These workloads stand; whatever else the API shows, now or once it is listed, goes.
    pub fn standing(&mut self, now: Time, names: BTreeSet<Name>) {
        let stray = |key: &&Key| matches!(key, Key::Workload(name) if !names.contains(name));
        let strays: Vec<Key> = self.entries.keys().filter(stray).cloned().collect();
        strays.into_iter().for_each(|key| self.stray(now, key));
        let entries = &self.entries;
        self.whose.forget(|name| !entries.contains_key(&Key::Workload(name.clone())));
        self.standing = (!self.listed).then_some(names);
    }

    /// An object that no workload stands for goes, unless one was told of since, or it goes anyway
    /// if nobody comes back. One that does not say that it is ours stays: the garbage collector
    /// deletes it when its owners are gone.
    fn stray(&mut self, now: Time, key: Key) {
        let entry = self.entries.get(&key);
        let wanted = entry.and_then(|entry| entry.wanted.as_ref());
        if matches!(wanted, Some(Wanted::Workload(_) | Wanted::Gone(_) | Wanted::Podless(..))) {
            return;
        }
        if let (Key::Workload(name), Some(shown)) = (&key, entry.and_then(shown_workload))
            && self.whose.is_nobodys(name, shown)
        {
            return;
        }
        // Pods of a held group may be being made again while one leader follows another.
        self.want(now, key, Wanted::Gone(now.plus(COMES_BACK)));
    }

    /// Whether the Workload of this name is another scheduler's, as far as the API was asked.
    pub fn is_anothers(&self, name: &Name) -> bool {
        let shown = self.entries.get(&Key::Workload(name.clone())).and_then(shown_workload);
        shown.is_some_and(|shown| is_anothers(shown, self.whose.scheduler()))
    }

    /// A workload as it is now, and the conditions of its pods that wait.
    pub fn workload(&mut self, now: Time, details: WorkloadDetails) {
        let view = &details.view;
        let name = (view.namespace.clone(), view.name.clone());
        // What becomes of it is shown when that is known.
        if details.stop_asked {
            return self.notes.asked_to_stop(name, details);
        }
        self.pods_wait(now, &name, &details);
        let key = Key::Workload(name);
        let known = self.entries.get(&key).is_some_and(|e| e.shown.is_some() || e.flying);
        if !known && workload::due_from(&details).is_none() {
            self.forget(&key);
            return;
        }
        let (entries, whose) = (&self.entries, &self.whose);
        let shown = |name: &Name| ours(entries, whose, name);
        self.notes.of_workload(now, &details, shown);
        self.want(now, key, Wanted::Workload(Box::new(details)));
    }

    /// A workload is gone and nobody bears its name.
    pub fn gone(&mut self, now: Time, name: &Name) {
        if !self.left(now, name, Wanted::Gone(now.plus(COMES_BACK))) {
            // What the first list shows of it goes as whatever nobody stands for.
            _ = self.standing.as_mut().map(|names| names.remove(name));
        }
    }

    /// A workload has no pods left, and its owner goes on: its object stays.
    pub fn podless(&mut self, now: Time, name: &Name) {
        self.left(now, name, Wanted::Podless(now, now.plus(COMES_BACK)));
    }

    /// Nothing of a workload is left, and this is wanted of its object, if there is one.
    fn left(&mut self, now: Time, name: &Name, then: Wanted) -> bool {
        let (entries, whose) = (&self.entries, &self.whose);
        self.notes.gone(now, name, |name: &Name| ours(entries, whose, name));
        for pod in self.waiting.remove(name).unwrap_or_default() {
            self.forget(&Key::Pod(pod));
        }
        if let Some((key, wish)) = self.bearers.gone(name) {
            self.want(now, Key::Group(key), Wanted::Group(Box::new(wish)));
        }
        let key = Key::Workload(name.clone());
        match self.entries.get(&key) {
            Some(entry) if entry.shown.is_some() || entry.flying => {
                self.notes.left(name);
                self.want(now, key, then);
                true
            }
            _ => {
                self.forget(&key);
                false
            }
        }
    }

    /// A PodGroup as it is now, of this workload if it has one.
    pub fn group(&mut self, now: Time, workload: Option<Name>, (key, wish): (GroupKey, GroupWish)) {
        if let Some(workload) = workload {
            self.bearers.note(workload, &key, &wish);
        }
        self.want(now, Key::Group(key), Wanted::Group(Box::new(wish)));
    }

    /// Forgets PodGroups that are not there any more.
    pub fn groups_there(&mut self, there: impl Fn(&GroupKey) -> bool) {
        self.forget_all(|key| matches!(key, Key::Group(key) if !there(key)));
    }

    /// Where the first of every queue stand; who stands elsewhere than before, to be told of.
    pub fn stand(&mut self, all: BTreeMap<Name, Standing>) -> Vec<Name> {
        let moved = places::moved(&self.standings, &all);
        self.standings = Some(all);
        moved
    }

    /// ClusterQueues as they are now.
    pub fn cluster_queues(&mut self, now: Time, views: Vec<QueueView>) {
        let names: BTreeSet<Text> = views.iter().map(|view| view.name.clone()).collect();
        self.forget_all(|key| matches!(key, Key::ClusterQueue(name) if !names.contains(name)));
        for view in views {
            self.want(now, Key::ClusterQueue(view.name.clone()), Wanted::ClusterQueue(view.into()));
        }
    }

    /// LocalQueues as they are now.
    pub fn local_queues(&mut self, now: Time, views: Vec<LocalQueueView>) {
        let name = |view: &LocalQueueView| (view.namespace.clone(), view.name.clone());
        let names: BTreeSet<Name> = views.iter().map(name).collect();
        self.forget_all(|key| matches!(key, Key::LocalQueue(name) if !names.contains(name)));
        for view in views {
            self.want(now, Key::LocalQueue(name(&view)), Wanted::LocalQueue(Box::new(view)));
        }
    }

    /// Cohorts as they are now.
    pub fn cohorts(&mut self, now: Time, views: Vec<CohortView>) {
        let names: BTreeSet<Text> = views.iter().map(|view| view.name.clone()).collect();
        self.forget_all(|key| matches!(key, Key::Cohort(name) if !names.contains(name)));
        for view in views {
            self.want(now, Key::Cohort(view.name.clone()), Wanted::Cohort(view.into()));
        }
    }

    fn forget_all(&mut self, which: impl Fn(&Key) -> bool) {
        let keys: Vec<Key> = self.entries.keys().filter(|key| which(key)).cloned().collect();
        keys.iter().for_each(|key| self.forget(key));
    }

    /// The object under this name came or went: it shows nothing of what was written before, and
    /// is asked for at once.
    pub fn anew(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        (entry.shown, entry.outlived, entry.next_at) = (None, entry.flying, Time::MIN);
        entry.generation = None;
        if !entry.flying && entry.wanted.is_none() {
            self.forget(key);
        }
    }

    /// Somebody deleted a Workload: if it is the one that is shown, it is made again when it is
    /// next told of.
    pub fn workload_vanished(&mut self, now: Time, name: Name, uid: &str) {
        let key = Key::Workload(name);
        let shown = self.entries.get(&key).and_then(shown_workload);
        if shown.is_some_and(|shown| shown.uid() == Some(uid)) {
            self.anew(&key);
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.next_at = now.plus(EVERY);
            }
        }
    }

    pub(super) fn want(&mut self, now: Time, key: Key, wanted: Wanted) {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.wanted.replace(wanted).is_some() && !entry.flying {
            *self.counts.entry(What::Merged).or_default() += 1;
        }
        if matches!(key, Key::Pod(_)) && entry.shown.is_none() && entry.filed.is_none() {
            entry.next_at = entry.next_at.max(now.plus(PATIENCE));
        }
        if !entry.flying {
            self.file(now, &key);
        }
    }

    /// Nothing is wanted of it any more; what is on its way is let go.
    pub(super) fn forget(&mut self, key: &Key) {
        self.unfile(key);
        self.notes_forget(key);
        match self.entries.get_mut(key) {
            Some(entry) if entry.flying => entry.wanted = None,
            _ => drop(self.entries.remove(key)),
        }
    }

    fn notes_forget(&mut self, key: &Key) {
        if let Key::Workload(name) = key {
            self.notes.forget(name);
        }
    }

    fn unfile(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        match entry.filed.take() {
            Some(Filed::Later(at)) => drop(self.later.remove(&(at, key.clone()))),
            Some(Filed::Ready(rank, at)) => drop(self.ready[usize::from(rank)].remove(&at)),
            None => {}
        }
    }

    fn file(&mut self, now: Time, key: &Key) {
        let filed = self.entries.get(key).and_then(|entry| entry.filed);
        // What is ready already keeps its place in the line.
        if matches!(filed, Some(Filed::Ready(..))) {
            return;
        }
        self.unfile(key);
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.next_at > now {
            entry.filed = Some(Filed::Later(entry.next_at));
            self.later.insert((entry.next_at, key.clone()));
            return;
        }
        let rank = rank(key, entry);
        self.arrivals += 1;
        entry.filed = Some(Filed::Ready(rank, self.arrivals));
        self.ready[usize::from(rank)].insert(self.arrivals, (now, key.clone()));
    }

    /// When something may be due that is not now.
    pub fn wake(&self) -> Option<Time> {
        self.later.first().map(|(at, _)| *at)
    }

    /// The next request, if the rate allows one and there is any.
    pub fn next(&mut self, now: Time) -> Option<(Key, Write)> {
        while let Some((at, key)) = self.later.first().filter(|(at, _)| *at <= now).cloned() {
            self.later.remove(&(at, key.clone()));
            self.entries.get_mut(&key).expect("filed ones exist").filed = None;
            self.file(now, &key);
        }
        loop {
            let (rank, at, late) = self.turn(now)?;
            let urgent = is_urgent(&self.entries[&self.ready[rank][&at].1]);
            let beside = self.beside(now) && !urgent;
            // Before anything is put together that could not be sent.
            if !self.bucket.has(now, beside) {
                return None;
            }
            let (_, key) = self.ready[rank].remove(&at).expect("it is somebody's turn");
            let entry = self.entries.get_mut(&key).expect("filed ones exist");
            let (listed, standings) = (self.listed, &self.standings);
            let around = Around { listed, standings, scheduler: self.whose.scheduler() };
            match next(now, &key, entry, around) {
                Next::Do(write) => {
                    (entry.filed, entry.flying) = (None, true);
                    entry.written_at = now;
                    entry.note_sent(now, &write);
                    entry.of_object = matches!(write, Write::Object(_));
                    if places::told_by(&write) {
                        entry.placed_at = now;
                    }
                    // Its first status follows a create at once.
                    if !matches!(write, Write::Create(_) | Write::Read) {
                        entry.next_at = now.plus(EVERY);
                    }
                    let what = counted(&key, &write, entry);
                    *self.counts.entry(what).or_default() += 1;
                    self.bucket.take(now, beside);
                    self.late_turn = !late;
                    return Some((key, write));
                }
                Next::Wait(until) => {
                    if entry.is_held_until(until) {
                        self.untaken.note(&key);
                    }
                    // News may make it due earlier: the time of its own next write stays.
                    entry.filed = Some(Filed::Later(until));
                    self.later.insert((until, key));
                }
                Next::Nothing => {
                    (entry.filed, entry.wanted, entry.sent) = (None, None, None);
                    if entry.shown.is_none() {
                        self.entries.remove(&key);
                        self.notes_forget(&key);
                    }
                }
            }
        }
    }

    /// Whose turn it is: rank and arrival, and whether that is the turn of what is late. Looks at
    /// the first of each rank only: it is the one that has been due for longest.
    fn turn(&mut self, now: Time) -> Option<(usize, u64, bool)> {
        let first = |(rank, ready): (usize, &BTreeMap<u64, (Time, Key)>)| {
            ready.first_key_value().map(|(at, (due, _))| (*due, rank, *at))
        };
        let late = self.ready.iter().enumerate().filter_map(first).min();
        let late = late.filter(|(due, ..)| now.since(*due) >= LATE);
        if late.is_some() {
            self.whole_until = now.plus(EVERY);
        }
        let beside = self.beside(now);
        let held = |due: Time, rank: usize| beside && rank > 0 && now < due.plus(HOLD);
        let by_rank = self.ready.iter().enumerate().filter_map(first);
        let (_, rank, at) = by_rank.into_iter().find(|(due, rank, _)| !held(*due, *rank))?;
        match late.filter(|_| self.late_turn && rank > 0) {
            Some((_, rank, at)) => Some((rank, at, true)),
            None => Some((rank, at, false)),
        }
    }

    /// Whether what is written now is beside effects.
    fn beside(&self, now: Time) -> bool {
        (self.whole_until..self.beside_until).contains(&now)
    }

    /// Takes in what became of a request.
    pub fn answered(&mut self, now: Time, key: &Key, answer: Answer) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.flying = false;
        let outlived = std::mem::take(&mut entry.outlived);
        match answer {
            Answer::Shows(_) | Answer::Counted(_) | Answer::Gone if outlived => {}
            Answer::Shows(shown) => {
                entry.note_shown();
                (entry.shown, entry.failures) = (Some(shown), 0);
                if entry.of_object {
                    (entry.object_failures, entry.object_at) = (0, Time::MIN);
                }
                if let (Key::Workload(name), Some(shown)) = (key, shown_workload(entry))
                    && !self.whose.is_anothers(name, shown)
                {
                    self.notes.shown(now, name, shown);
                }
            }
            Answer::Counted(ends) => {
                entry.failures = 0;
                if let Some(Wanted::Group(wish)) = &mut entry.wanted
                    && wish.stands == Stands::Left
                {
                    wish.stands = Stands::Ended(ends);
                }
            }
            Answer::Gone => {
                (entry.shown, entry.failures) = (None, 0);
                let made_by_us = matches!(entry.wanted, Some(Wanted::Workload(_)));
                if !made_by_us {
                    entry.wanted = None;
                }
                if matches!(key, Key::ClusterQueue(_) | Key::LocalQueue(_) | Key::Cohort(_)) {
                    // Of another API group, or deleted a moment ago: it is not asked for soon.
                    entry.next_at = now.plus(PAUSE_MAX);
                    return;
                }
            }
            Answer::Failed => {
                if entry.of_object {
                    entry.object_at = now.plus(pause(entry.object_failures));
                    entry.object_failures += 1;
                    entry.next_at = now.plus(EVERY);
                } else {
                    entry.next_at = now.plus(pause(entry.failures));
                    entry.failures += 1;
                }
                *self.counts.entry(What::Failed).or_default() += 1;
            }
        }
        // What is wanted stays until it is compared again; nothing is wanted of what was let go.
        match entry.wanted.is_some() {
            true => self.file(now, key),
            false => {
                self.entries.remove(key);
                self.notes_forget(key);
            }
        }
    }

    /// The next event, if the rate allows one and there is any.
    pub fn next_event(&mut self, now: Time) -> Option<Told> {
        let next = self.notes.next(now, now < self.beside_until);
        self.telling += usize::from(next.is_some());
        next
    }
}

/// How long a write that has failed so often before waits.
fn pause(failures: u32) -> Span {
    Span(EVERY.0.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX.0))
}
