//! What is there and kept for others, in words.

use std::fmt;

use super::super::quantity::{amount, quantity};
use super::Reason;

/// Quota that preempted work holds until it has stopped.
pub fn write_still_held(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
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

/// Quota that a head keeps back while it waits.
pub fn write_held_back(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
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
