//! Claims whose devices will not be ready (binding conditions, KEP-5007).
//!
//! Decides which claims nobody can use although they have devices: a driver says that one of them
//! never will be ready, or their time is over and a condition is still missing. A pod with such a
//! claim is refused by every node. Once the claim is given back (`engine/readiness.rs`) it can be
//! allocated anew.
//!
//! Time is an argument: whoever steps tells it, and what it changed is looked up in the order in
//! which claims got their devices. A claim that does not say when it got them has no end.

use std::collections::BTreeSet;

use super::state::Devices;
use crate::model::input::{Readiness, ResourceClaimFacts, ResourceClaimKey, Text};
use crate::time::{Span, Time};

/// Why the devices of a claim will not be ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Which device, and which conditions.
    pub what: Text,
    /// Until when they had to be; `None`: a driver says that they never will.
    pub until: Option<Time>,
}

/// Claims whose devices are not ready, of which there are few.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Awaited {
    /// Those that wait, by when they got their devices.
    since: BTreeSet<(Time, ResourceClaimKey)>,
    /// Those of which a device failed.
    failed: BTreeSet<ResourceClaimKey>,
    /// What claims got until then had its time; `None`: nobody has said yet when this is.
    overdue: Option<Time>,
    /// How long devices have.
    timeout: Span,
}

impl Awaited {
    fn is_overdue(&self, at: Time) -> bool {
        self.overdue.is_some_and(|until| at <= until)
    }

    /// The first that got its devices after this.
    fn first_after(&self, at: Time) -> Option<Time> {
        if self.since.is_empty() {
            return None;
        }
        let from = (at.plus(Span(1)), ResourceClaimKey::default());
        self.since.range(from..).next().map(|(at, _)| *at)
    }

    /// A claim is as these facts say, or no longer is.
    pub fn note(&mut self, claim: &ResourceClaimFacts, is: bool) {
        let Some(given) = &claim.allocation else { return };
        match (&given.readiness, given.at) {
            (Readiness::Failed(_), _) => match is {
                true => _ = self.failed.insert(claim.key.clone()),
                false => _ = self.failed.remove(&claim.key),
            },
            (Readiness::Waits(_), Some(at)) => match is {
                true => _ = self.since.insert((at, claim.key.clone())),
                false => _ = self.since.remove(&(at, claim.key.clone())),
            },
            (Readiness::Waits(_), None) | (Readiness::Ready, _) => {}
        }
    }
}

impl Devices {
    /// Why the devices of a claim will not be ready; `None`: they are, or may still be.
    pub(crate) fn unready(&self, claim: &ResourceClaimFacts) -> Option<Problem> {
        let given = claim.allocation.as_ref()?;
        match &given.readiness {
            Readiness::Ready => None,
            Readiness::Failed(what) => Some(Problem { what: what.clone(), until: None }),
            Readiness::Waits(what) => {
                let at = given.at.filter(|at| self.awaited.is_overdue(*at))?;
                let until = Some(at.plus(self.awaited.timeout));
                Some(Problem { what: what.clone(), until })
            }
        }
    }

    /// Whether there is any such claim.
    pub(crate) fn any_unready(&self) -> bool {
        let first = self.awaited.since.first();
        let overdue = first.is_some_and(|(at, _)| self.awaited.is_overdue(*at));
        overdue || !self.awaited.failed.is_empty()
    }

    /// States when this is, and how long devices have; whether that changes which claims can be
    /// used.
    pub(crate) fn let_lapse(&mut self, now: Time, timeout: Span) -> bool {
        let until = Time(now.0.saturating_sub(timeout.0));
        let before = self.awaited.overdue.replace(until).unwrap_or(Time::MIN);
        self.awaited.timeout = timeout;
        // A longer timeout gives back what a shorter one took.
        let first = self.awaited.first_after(before.min(until));
        first.is_some_and(|at| at <= before.max(until))
    }

    /// When the time of the next claim is over.
    pub(crate) fn next_lapse(&self) -> Option<Time> {
        let next = self.awaited.first_after(self.awaited.overdue?)?;
        Some(next.plus(self.awaited.timeout))
    }

    /// Compares what is noted of claims with the claims.
    ///
    /// # Panics
    /// When they differ.
    pub(super) fn recount_awaited(&self) {
        let Awaited { overdue, timeout, .. } = self.awaited;
        let mut anew = Awaited { overdue, timeout, ..Awaited::default() };
        self.claims.values().for_each(|claim| anew.note(claim, true));
        assert_eq!(self.awaited, anew, "claims whose devices are not ready");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::input::Allocation;

    fn key(name: &str) -> ResourceClaimKey {
        ("ns".into(), name.into())
    }

    fn put(devices: &mut Devices, name: &str, readiness: Readiness, at: Option<i64>) {
        let at = at.map(Time);
        let allocation = Allocation { readiness, at, ..Allocation::default() };
        devices.put_claim(ResourceClaimFacts {
            key: key(name),
            uid: "u".into(),
            of_one_pod: false,
            spec: Arc::default(),
            allocation: Some(Arc::new(allocation)),
        });
        devices.recount_awaited();
    }

    fn waits() -> Readiness {
        Readiness::Waits("device x is not Attached".into())
    }

    /// Until when the devices of a claim had to be ready; `None`: it may be used.
    fn over(devices: &Devices, name: &str) -> Option<Option<i64>> {
        let problem = devices.unready(devices.claim(&key(name)).expect("there"))?;
        Some(problem.until.map(|until| until.0))
    }

    #[test]
    fn what_waits_for_too_long_is_over_when_its_time_is() {
        let mut devices = Devices::default();
        let (ten, five) = (Span(10), Span(5));
        assert!(!devices.let_lapse(Time(0), ten) && devices.next_lapse().is_none());
        for (name, at) in [("a", Some(0)), ("b", Some(3)), ("c", None)] {
            put(&mut devices, name, waits(), at);
        }
        assert_eq!(devices.next_lapse(), Some(Time(10)));
        assert!(!devices.let_lapse(Time(9), ten) && !devices.any_unready());
        assert!(devices.let_lapse(Time(10), ten) && devices.any_unready());
        let all = |devices: &Devices| ["a", "b", "c"].map(|name| over(devices, name));
        assert_eq!(all(&devices), [Some(Some(10)), None, None]);
        assert_eq!(devices.next_lapse(), Some(Time(13)));
        assert!(!devices.let_lapse(Time(12), ten), "nothing is new");
        // A shorter time ends at once what a longer one would have left, and the other way round.
        assert!(devices.let_lapse(Time(12), five));
        assert_eq!(all(&devices), [Some(Some(5)), Some(Some(8)), None]);
        assert!(devices.let_lapse(Time(12), ten));
        assert_eq!(all(&devices), [Some(Some(10)), None, None]);
        devices.recount_awaited();
    }

    #[test]
    fn what_failed_is_over_and_what_changes_is_forgotten() {
        let mut devices = Devices::default();
        devices.let_lapse(Time(100), Span(10));
        put(&mut devices, "a", waits(), Some(1));
        put(&mut devices, "b", Readiness::Failed("device x failed: Broken".into()), Some(99));
        assert_eq!([over(&devices, "a"), over(&devices, "b")], [Some(Some(11)), Some(None)]);
        put(&mut devices, "a", Readiness::Ready, Some(1));
        put(&mut devices, "b", Readiness::Failed("device x failed: Burnt".into()), Some(99));
        assert_eq!([over(&devices, "a"), over(&devices, "b")], [None, Some(None)]);
        devices.remove_claim(&key("b"));
        devices.recount_awaited();
        assert!(!devices.any_unready() && devices.next_lapse().is_none());
    }
}
