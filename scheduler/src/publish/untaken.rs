//! Statuses of which the API server drops what it does not know.
//!
//! Problem: definitions that are older than this binary (Helm upgrades none, and an image may come
//! before them) have no such fields. What is wanted of them never shows, and an object would be
//! written again each second, each time for nothing.
//!
//! Decides: a patch that was answered and is wanted again all the same came to nothing, but for
//! what work has cost, which goes with any patch. It is not sent again for [`AGAIN`], as long as it
//! is the same; of each kind of object that is said once. What the definitions do take is written
//! as ever. Once all is shown that is wanted the patch is forgotten: it costs no memory, and who
//! undoes by hand what was taken finds it put back at once.

use std::collections::BTreeSet;

use capstan_core::time::{Span, Time};
use serde_json::Value;

use super::entry::{Entry, Key, Next, Write};

/// How long a patch that came to nothing is not sent again: definitions may be new by then.
const AGAIN: Span = Span::minutes(10);

/// The patch of a status that was sent last.
#[derive(Debug)]
pub(super) struct Sent {
    patch: Value,
    at: Time,
    /// It is on its way.
    flies: bool,
    /// The API took it, or said so.
    answered: bool,
}

impl Sent {
    /// Until when the same is not sent again.
    fn again(&self) -> Time {
        self.at.plus(AGAIN)
    }
}

/// Of which kinds some status was not taken.
#[derive(Debug, Default)]
pub(super) struct Untaken {
    said: BTreeSet<&'static str>,
    to_say: Vec<Key>,
}

/// What is to be done, but for a patch that came to nothing a while ago.
pub(super) fn but_for_vain(now: Time, entry: &Entry, next: Next) -> Next {
    let Next::Do(Write::Status(patch)) = &next else { return next };
    let answered = entry.sent.as_ref().filter(|sent| sent.answered && now < sent.again());
    match answered.filter(|sent| sent.patch == but_for_cost(patch)) {
        Some(sent) => Next::Wait(sent.again()),
        None => next,
    }
}

/// A patch without what work has cost until now.
fn but_for_cost(patch: &Value) -> Value {
    let mut patch = patch.clone();
    if let Some(status) = patch["status"].as_object_mut() {
        ["accruing", "accruedMicroUsd"].iter().for_each(|cost| drop(status.remove(*cost)));
    }
    patch
}

impl Entry {
    /// A request for it goes out.
    pub(super) fn note_sent(&mut self, now: Time, write: &Write) {
        match (write, &mut self.sent) {
            (Write::Status(patch), _) => {
                let patch = but_for_cost(patch);
                self.sent = Some(Box::new(Sent { patch, at: now, flies: true, answered: false }));
            }
            (_, Some(sent)) => sent.flies = false,
            _ => {}
        }
    }

    /// The API shows what became of a request.
    pub(super) fn note_shown(&mut self) {
        if let Some(sent) = self.sent.as_mut().filter(|sent| sent.flies) {
            (sent.flies, sent.answered) = (false, true);
        }
    }

    /// Whether it is written no earlier than then because a patch came to nothing.
    pub(super) fn is_held_until(&self, until: Time) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.answered && sent.again() == until)
    }
}

impl Untaken {
    /// A patch of this object came to nothing.
    pub(super) fn note(&mut self, key: &Key) {
        if self.said.insert(key.kind()) {
            self.to_say.push(key.clone());
        }
    }

    /// The first of each kind, of which it was not said yet.
    pub(super) fn take_to_say(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.to_say)
    }
}

/// Says it.
pub(super) fn log(key: &Key) {
    let kind = key.kind();
    tracing::warn!(
        object = ?key,
        "the API server drops some of the status of a {kind}: its definition is older than this \
         version of Capstan; apply the CRDs of this version (capstan crds)"
    );
}
