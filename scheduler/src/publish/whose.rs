//! Whose a Workload is. Several Capstans may run in one cluster, each for the pods that name it,
//! and none of them may write or delete what another shows.
//!
//! A Workload says whose it is by a label, from when it is made. One of another scheduler is left
//! as it is, also where work of ours bears its name: it goes when its owners are gone, and ours is
//! made then. One that does not say it (an older version or somebody by hand made it) is taken over
//! when work of ours bears its name, by the patch that says who owns it; else it stays, and the
//! garbage collector deletes it when its owners are gone. Whatever holds work by such an object
//! goes on holding it. What is left alone is said once.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::Text;

use super::entry::{Entry, Key, shown_workload};
use super::plan::Name;
use super::shown::ShownWorkload;

/// A Workload that is left as it is, for who reads the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftAlone {
    /// Work of ours bears its name, and it says that it is this scheduler's.
    Anothers(Name, String),
    /// It does not say whose it is, and no work of ours bears its name.
    Nobodys(Name),
}

/// Our name, and what was said of objects that are not ours.
#[derive(Debug)]
pub struct Whose {
    scheduler: Text,
    said: BTreeSet<Name>,
    to_say: Vec<LeftAlone>,
}

impl Whose {
    /// Of the scheduler of this name.
    pub fn new(scheduler: Text) -> Whose {
        Whose { scheduler, said: BTreeSet::new(), to_say: Vec::new() }
    }

    /// Our name.
    pub fn scheduler(&self) -> &str {
        &self.scheduler
    }

    /// Whether an object whose name work of ours bears is another scheduler's; said once.
    pub fn is_anothers(&mut self, name: &Name, shown: &ShownWorkload) -> bool {
        let whose = shown.scheduler().filter(|whose| **whose != *self.scheduler);
        let Some(whose) = whose.map(str::to_owned) else { return false };
        self.say(name, LeftAlone::Anothers(name.clone(), whose));
        true
    }

    /// Whether an object whose name no work of ours bears is nobody's; said once.
    pub fn is_nobodys(&mut self, name: &Name, shown: &ShownWorkload) -> bool {
        if shown.scheduler().is_some() {
            return false;
        }
        self.say(name, LeftAlone::Nobodys(name.clone()));
        true
    }

    /// Objects that are left alone, each once.
    pub fn take_to_say(&mut self) -> Vec<LeftAlone> {
        std::mem::take(&mut self.to_say)
    }

    /// Nothing was said of objects that are gone.
    pub fn forget(&mut self, gone: impl Fn(&Name) -> bool) {
        self.said.retain(|name| !gone(name));
    }

    fn say(&mut self, name: &Name, what: LeftAlone) {
        if self.said.insert(name.clone()) {
            self.to_say.push(what);
        }
    }
}

/// Whether a Workload is another scheduler's than this.
pub fn is_anothers(shown: &ShownWorkload, scheduler: &str) -> bool {
    shown.scheduler().is_some_and(|whose| whose != scheduler)
}

/// The Workload of this name that the API shows, unless it is another scheduler's.
pub(super) fn ours<'a>(
    entries: &'a BTreeMap<Key, Entry>,
    whose: &Whose,
    name: &Name,
) -> Option<&'a ShownWorkload> {
    let shown = entries.get(&Key::Workload(name.clone())).and_then(shown_workload);
    shown.filter(|shown| !is_anothers(shown, whose.scheduler()))
}

impl LeftAlone {
    /// Says it to who reads the log.
    pub fn log(&self) {
        let (LeftAlone::Anothers((namespace, name), _) | LeftAlone::Nobodys((namespace, name))) =
            self;
        match self {
            LeftAlone::Anothers(_, whose) => tracing::warn!(
                %namespace, %name, %whose,
                "a Workload of another scheduler has the name of work of ours, which has none \
                 until that one is gone"
            ),
            LeftAlone::Nobodys(_) => tracing::info!(
                %namespace, %name,
                "a Workload that does not say whose it is has no work here: it is left as it is"
            ),
        }
    }
}
