//! What is there and kept for others, in words.

use std::fmt;

use super::super::quantity::{amount, counted, quantity};
use super::Reason;
use crate::calendar::Stamp;
use crate::explain::reason::{Unprepared, Waits};
use crate::time::Time;

impl Reason {
    /// It was stopped so often in a row because its pods did not start, and waits.
    pub fn not_ready(until: Time, stops: u32) -> Reason {
        Reason::Backoff { until, failure: unready(stops).into() }
    }
}

/// That pods did not come up, so often in a row.
pub fn unready(stops: u32) -> String {
    let times = match stops {
        1 => String::new(),
        stops => format!(", {stops} times in a row"),
    };
    format!("its pods did not start in time{times}")
}

/// What waits out a failure.
pub fn write_backoff(out: &mut fmt::Formatter<'_>, until: Time, failure: &str) -> fmt::Result {
    // As long as the configuration says: that may be days.
    write!(out, "waits until {} after a failure: {failure}", Stamp(until))
}

/// What waits until preempted work has left.
pub fn write_leaving(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    match reason {
        Reason::WaitingForVictims { victims } => {
            let victims = counted(i64::from(*victims), "preempted workload");
            write!(out, "waits for {victims} to leave")?;
        }
        Reason::WaitingForDevices { claim, more } => {
            write!(out, "waits until the devices of claim {claim}")?;
            if *more > 0 {
                write!(out, " and of {}", counted(i64::from(*more), "other claim"))?;
            }
            out.write_str(" are free, whose users were preempted")?;
        }
        _ => return write_still_held(out, reason),
    }
    out.write_str("; the room is held for it")
}

/// Quota that preempted work holds until it has stopped.
fn write_still_held(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let Reason::StillHeld { cluster_queue, flavor, resource, asked, left } = reason else {
        return Ok(());
    };
    let (asked, left) = (quantity(resource, *asked), amount(resource, *left));
    write!(
        out,
        "{left} left in {cluster_queue} until preempted work has stopped, {asked} asked (flavor \
         {flavor})"
    )
}

/// What members wait for that have their places.
pub fn write_preparing(out: &mut fmt::Formatter<'_>, pods: u32, what: &Unprepared) -> fmt::Result {
    match what {
        Unprepared::Volume(claim) => write!(out, "claim {claim} is being bound to a volume")?,
        Unprepared::Device(device) => write!(out, "not ready yet: {device}")?,
    }
    match pods {
        0 | 1 => Ok(()),
        pods => write!(out, "; {pods} pods wait for what they use"),
    }
}

/// What somebody holds by its queue or its Workload object.
pub fn write_stopped(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    match reason {
        Reason::LocalQueueStopped { local_queue } => {
            write!(out, "LocalQueue {local_queue} is stopped (stopPolicy)")
        }
        Reason::LocalQueueBroken { local_queue, rule } => {
            write!(out, "LocalQueue {local_queue} is inactive: {rule}")
        }
        Reason::AwaitsOthers { workload } => write!(
            out,
            "waits until {workload} has started, which was admitted before (waitForPodsReady with \
             blockAdmission)"
        ),
        Reason::Deactivated { workload } => {
            write!(out, "deactivated: Workload {workload} has spec.active: false")
        }
        _ => Ok(()),
    }
}

/// What waits for the sake of a head that waits.
pub fn write_for_head(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    match reason {
        Reason::Exposes { .. } => write_exposes(out, reason),
        Reason::InTheWay { .. } => write_in_the_way(out, reason),
        _ => write_held_back(out, reason),
    }
}

/// Quota that a head keeps back while it waits.
fn write_held_back(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let Reason::HeldBack { head, queue, flavor, resource, kept, asked, left } = reason else {
        return Ok(());
    };
    let (asked, kept) = (quantity(resource, *asked), amount(resource, *kept));
    let left = quantity(resource, *left);
    write!(
        out,
        "{head}, first in {queue}, keeps {kept} back until it starts; {left} left beside that, \
         {asked} asked (flavor {flavor})"
    )
}

/// Extra members that somebody who waits could take back, with all of their gang.
fn write_exposes(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let Reason::Exposes { head, head_queue, cluster_queue, flavor, resource, borrowed, waits } =
        reason
    else {
        return Ok(());
    };
    let borrowed = amount(resource, *borrowed);
    let waits = told_of(*waits);
    write!(
        out,
        "with one more, {cluster_queue} would borrow {borrowed} (flavor {flavor}), and {head}, \
         {waits} in {head_queue}, could reclaim it and the gang with it"
    )
}

/// Extra members beside which somebody who waits would stop work without a queue.
fn write_in_the_way(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let Reason::InTheWay { head, queue, leaving, waits } = reason else { return Ok(()) };
    let who = told_of(*waits);
    write!(out, "beside one more, {head}, {who}")?;
    if let Some(queue) = queue {
        write!(out, " in {queue}")?;
    }
    let have = if *leaving == 1 { "has" } else { "have" };
    let leaving = counted(i64::from(*leaving), "preempted workload");
    let would = if *waits == Waits::OnceStopped { "could" } else { "would" };
    write!(out, ", {would} stop work without a queue once {leaving} {have} left")
}

/// What of somebody waits for whose sake others wait.
fn told_of(waits: Waits) -> &'static str {
    match waits {
        Waits::Whole => "which waits",
        Waits::Members => "members of which wait",
        Waits::OnceStopped => "which is being preempted and queues again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_again_says_what_happened_before() {
        let said = [1, 3].map(|stops| Reason::TriedAgain { stops }.to_string());
        let begins = "tried again: its pods did not start in time";
        assert_eq!(said, [begins.to_owned(), format!("{begins}, 3 times in a row")]);
        assert_eq!(Reason::TriedAgain { stops: 1 }.code(), "PodsReadyTimeout");
    }

    #[test]
    fn extra_members_that_are_in_the_way_name_whom_they_wait_for() {
        let of = |queue: Option<&str>, leaving, waits| {
            let (head, queue) = ("t/high".into(), queue.map(Into::into));
            let then = Some(Box::new(Reason::InTheWay { head, queue, leaving, waits }));
            Reason::Extras { waiting: 1, then }
        };
        let begins = "1 extra member waits: beside one more, t/high,";
        let said = of(Some("main"), 1, Waits::Members).to_string();
        let rest = "would stop work without a queue once";
        let members = "members of which wait in main,";
        assert_eq!(said, format!("{begins} {members} {rest} 1 preempted workload has left"));
        let said = of(None, 2, Waits::Whole).to_string();
        assert_eq!(said, format!("{begins} which waits, {rest} 2 preempted workloads have left"));
        let said = of(Some("main"), 1, Waits::OnceStopped).to_string();
        let again = "which is being preempted and queues again in main,";
        let rest = rest.replace("would", "could");
        assert_eq!(said, format!("{begins} {again} {rest} 1 preempted workload has left"));
        let reason = of(None, 2, Waits::Whole);
        assert_eq!((reason.code(), reason.kind()), ("WaitingForPreemptedWorkloads", "victims"));
    }
}
