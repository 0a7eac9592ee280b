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

/// What waits for the sake of a head that waits.
pub fn write_for_head(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    match reason {
        Reason::Exposes { .. } => write_exposes(out, reason),
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
    let Reason::Exposes { head, head_queue, cluster_queue, flavor, resource, borrowed } = reason
    else {
        return Ok(());
    };
    let borrowed = amount(resource, *borrowed);
    write!(
        out,
        "with one more, {cluster_queue} would borrow {borrowed} (flavor {flavor}), and {head}, \
         which waits in {head_queue}, could reclaim it and the gang with it"
    )
}
