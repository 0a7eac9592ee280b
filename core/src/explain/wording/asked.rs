//! What was asked in a way that nothing can meet, in words.

use std::borrow::Cow;
use std::fmt;

use super::super::quantity::{amount, counted, quantity};
use super::Reason;
use crate::model::input::{Breach, OutOfRange};
use crate::rules::dynamic_resources::USERS_MAX;

/// Letters that are quoted of what people wrote.
const QUOTED_MAX: usize = 60;

/// What people wrote in a label or annotation, as far as a sentence has room for it: an annotation
/// may have 256 KiB.
pub fn quoted(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

/// A container that requests more than its own limit, or is out of a LimitRange; a selector that
/// cannot be read; a group that is started with others only.
pub fn write_odd(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let (pod_set, excess) = match reason {
        Reason::AboveLimit { pod_set, excess } => (pod_set, excess),
        Reason::Malformed { pod_set, what } => {
            let who = super::of_pod_set(pod_set);
            return write!(out, "{who}{}: {}", what.field, what.problem);
        }
        Reason::OutOfRange { pod_set, what } => return write_range(out, pod_set, what),
        Reason::OfTree { parent } => {
            return write!(
                out,
                "its PodGroup is part of {parent}: trees of groups are not started"
            );
        }
        _ => return Ok(()),
    };
    let resource = &*excess.resource;
    let (request, limit) = (amount(resource, excess.request), quantity(resource, excess.limit));
    write_who(out, pod_set, &excess.container)?;
    write!(out, " requests {request} above its limit of {limit}")
}

/// A bound of a LimitRange that does not hold.
fn write_range(out: &mut fmt::Formatter<'_>, pod_set: &str, what: &OutOfRange) -> fmt::Result {
    let resource = &*what.resource;
    write_who(out, pod_set, &what.container)?;
    let (asked, bound, field) = match what.breach {
        Breach::RequestBelowMin { request, min } => {
            (("requests", request), ("below", quantity(resource, min)), "min")
        }
        Breach::LimitBelowMin { limit, min } => {
            (("has a limit of", limit), ("below", quantity(resource, min)), "min")
        }
        Breach::RequestAboveMax { request, max } => {
            (("requests", request), ("above", quantity(resource, max)), "max")
        }
        Breach::LimitAboveMax { limit, max } => {
            (("has a limit of", limit), ("above", quantity(resource, max)), "max")
        }
        Breach::AboveDefault { request, limit } => {
            (("requests", request), ("above", quantity(resource, limit)), "default limit")
        }
        Breach::Ratio { request, limit, most_milli } => {
            let (limit, request) = (amount(resource, limit), quantity(resource, request));
            let most = quantity("cpu", most_milli);
            return write!(
                out,
                " has a limit of {limit} for a request of {request}, above the \
                 maxLimitRequestRatio of {most} in LimitRange {}",
                what.range
            );
        }
    };
    let ((has, asked), (side, bound)) = (asked, bound);
    let asked = amount(resource, asked);
    write!(out, " {has} {asked}, {side} the {field} of {bound} in LimitRange {}", what.range)
}

/// A container, or the pod as a whole, of a pod set.
fn write_who(out: &mut fmt::Formatter<'_>, pod_set: &str, container: &str) -> fmt::Result {
    let who = super::of_pod_set(pod_set);
    match container {
        "" => write!(out, "{who}the pod"),
        container => write!(out, "{who}container {container}"),
    }
}

/// Members that do not exist, of all or of a role, or too many of them.
pub fn write_few(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let pods = |need: u32| counted(i64::from(need), "pod");
    match reason {
        Reason::Gathering { have, need } => write!(out, "{have} of {} exist", pods(*need)),
        Reason::RoleGathering { role, have, need } => {
            write!(out, "{have} of {} of role {} exist", pods(*need), quoted(role))
        }
        Reason::Crowded { before, most } => write!(
            out,
            "{} of other owners in its namespace come first, and {most} at most are planned for: \
             delete some of those owners, or have them run fewer pods at once",
            pods(*before)
        ),
        _ => Ok(()),
    }
}

/// Pods that do not agree with what their group says, or with each other.
pub fn write_unlike(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    match reason {
        Reason::ForeignMembers { pods } => {
            write!(out, "{} another scheduler", super::pods_that(*pods, "names", "name"))
        }
        Reason::ClaimOfTooMany { claim, pods } => {
            let users = super::pods_that(*pods, "uses", "use");
            write!(out, "{users} ResourceClaim {}, {USERS_MAX} at most can", quoted(claim))
        }
        Reason::OtherPriority { pod, own, group } => {
            let pod = quoted(pod);
            write!(out, "pod {pod} has priority {own} and its PodGroup {group}: ")?;
            out.write_str("all must have the same")
        }
        Reason::OtherPreemption { pod, never, of_group } => {
            let (own, theirs) = (policy(*never), policy(!never));
            let others = if *of_group { "its PodGroup" } else { "others of its PodGroup" };
            write!(out, "pod {} has preemptionPolicy {own} and {others} {theirs}: ", quoted(pod))?;
            out.write_str("all must have the same")
        }
        _ => write_surplus(out, reason),
    }
}

fn policy(never: bool) -> &'static str {
    if never { "Never" } else { "PreemptLowerPriority" }
}

/// Pods beyond the number that their group says it has.
fn write_surplus(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let Reason::Surplus { group, total, done, leaving, pods } = reason else { return Ok(()) };
    write!(out, "pod group {} has all of its pod-group-total-count of {total}", quoted(group))?;
    if *done > 0 {
        write!(out, ", {done} of which succeeded")?;
    }
    if leaving >= pods {
        let (verb, gone) = if *leaving == 1 { ("is", "it has") } else { ("are", "they have") };
        return write!(out, ", {leaving} of which {verb} being deleted: waits until {gone} gone");
    }
    let others = counted(i64::from(*pods), "other pod");
    write!(out, "; delete the {others}, or raise the number on all its pods")
}

/// A resource without quota, or without a flavor to take it from.
pub fn write_no_quota(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    match reason {
        Reason::NotCovered { cluster_queue, resource, asked } => {
            write_not_covered(out, cluster_queue, resource, *asked)
        }
        Reason::NoFlavorYet { cluster_queue, resource, pods, asked } => {
            write_no_flavor(out, cluster_queue, (resource, *asked), *pods)
        }
        Reason::FlavorNotListed { cluster_queue, flavor, resource } => {
            write_not_listed(out, cluster_queue, flavor, resource)
        }
        _ => Ok(()),
    }
}

/// A resource without quota.
fn write_not_covered(
    out: &mut fmt::Formatter<'_>,
    queue: &str,
    resource: &str,
    asked: i64,
) -> fmt::Result {
    let asked = quantity(resource, asked);
    write!(out, "ClusterQueue {queue} has no quota for {resource}, {asked} asked")
}

/// Members whose running siblings stand on nodes of no flavor.
fn write_no_flavor(
    out: &mut fmt::Formatter<'_>,
    queue: &str,
    (resource, asked): (&str, i64),
    pods: u32,
) -> fmt::Result {
    let asked = amount(resource, asked);
    let running = super::pods_that(pods, "that runs", "that run");
    write!(out, "no flavor of {queue} can take {asked}: none fits {running}")
}

/// Members whose running siblings have a flavor that their queue does not list.
fn write_not_listed(
    out: &mut fmt::Formatter<'_>,
    queue: &str,
    flavor: &str,
    resource: &str,
) -> fmt::Result {
    write!(
        out,
        "ClusterQueue {queue} does not list flavor {flavor}, which those that run have for \
         {resource}"
    )
}

/// A topology level that no node has.
pub fn write_unknown_level(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let Reason::UnknownLevel { level, is_level, known } = reason else { return Ok(()) };
    let level = quoted(level);
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    if *is_level {
        return write!(
            out,
            "topology level {level}: no node has that label; levels in use: {known}"
        );
    }
    write!(out, "topology level {level} is unknown; known: {known} (a Topology object adds levels)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::{AboveLimit, Malformed, Text};

    #[test]
    fn of_what_people_wrote_so_much_is_quoted_as_there_is_room_for() {
        let full = "é".repeat(QUOTED_MAX);
        assert_eq!(quoted(&full), full);
        let cut = format!("{full}...");
        let long: Text = "é".repeat(5_000).into();
        assert_eq!(quoted(&long), cut);
        let (namespace, known) = ("a".into(), vec!["rack".into()]);
        let rows = [
            (
                Reason::UnknownLevel { level: long.clone(), is_level: false, known },
                format!(
                    "topology level {cut} is unknown; known: rack (a Topology object adds levels)"
                ),
            ),
            (
                Reason::LocalQueueMissing { namespace, name: long.clone() },
                format!("LocalQueue a/{cut} does not exist"),
            ),
            (
                Reason::RoleGathering { role: long.clone(), have: 1, need: 2 },
                format!("1 of 2 pods of role {cut} exist"),
            ),
            (
                Reason::Together { pod_set: long, beside: 1, then: Reason::RoomTaken.into() },
                format!("pod set {cut}, beside 1 pod of its gang: {}", Reason::RoomTaken),
            ),
        ];
        for (reason, text) in rows {
            assert_eq!((reason.to_string(), reason.headline()), (text.clone(), text));
        }
    }

    #[test]
    fn a_request_above_its_limit_names_set_and_container() {
        let rows = [
            ("main", "trainer", "container trainer requests 4 cpu above its limit of 2"),
            ("workers", "", "pod set workers: the pod requests 4 cpu above its limit of 2"),
        ];
        for (pod_set, container, text) in rows {
            let (container, resource) = (container.into(), "cpu".into());
            let excess = AboveLimit { container, resource, request: 4_000, limit: 2_000 };
            let reason = Reason::AboveLimit { pod_set: pod_set.into(), excess };
            assert_eq!((reason.code(), reason.kind()), ("Misconfigured", "pods"));
            assert_eq!(reason.to_string(), text);
        }
    }

    #[test]
    fn what_a_limit_range_does_not_allow_names_it_and_its_field() {
        let rows = [
            (
                ("main", "c", Breach::RequestBelowMin { request: 0, min: 500 }),
                "container c requests 0 cpu, below the min of 500m in LimitRange small",
            ),
            (
                ("main", "c", Breach::LimitBelowMin { limit: 100, min: 500 }),
                "container c has a limit of 100m cpu, below the min of 500m in LimitRange small",
            ),
            (
                ("workers", "", Breach::RequestAboveMax { request: 4_000, max: 2_000 }),
                "pod set workers: the pod requests 4 cpu, above the max of 2 in LimitRange small",
            ),
            (
                ("main", "c", Breach::LimitAboveMax { limit: 4_000, max: 2_000 }),
                "container c has a limit of 4 cpu, above the max of 2 in LimitRange small",
            ),
            (
                ("main", "c", Breach::AboveDefault { request: 4_000, limit: 2_000 }),
                "container c requests 4 cpu, above the default limit of 2 in LimitRange small",
            ),
            (
                ("main", "c", Breach::Ratio { request: 1_000, limit: 4_000, most_milli: 1_500 }),
                "container c has a limit of 4 cpu for a request of 1, above the \
                 maxLimitRequestRatio of 1.5 in LimitRange small",
            ),
        ];
        for ((pod_set, container, breach), text) in rows {
            let (range, container) = ("small".into(), container.into());
            let what = OutOfRange { range, container, resource: "cpu".into(), breach };
            let reason = Reason::OutOfRange { pod_set: pod_set.into(), what: what.into() };
            assert_eq!((reason.code(), reason.kind()), ("Misconfigured", "pods"));
            assert_eq!(reason.to_string(), text);
        }
    }

    #[test]
    fn what_cannot_be_read_and_who_is_lacking_is_named() {
        let (field, problem) = ("spec.affinity".into(), "\"x\" is none of In".into());
        let what = Malformed { field, problem };
        let rows = [
            (
                Reason::Malformed { pod_set: "workers".into(), what },
                "Misconfigured",
                "pod set workers: spec.affinity: \"x\" is none of In",
            ),
            (
                Reason::OfTree { parent: "CompositePodGroup t".into() },
                "Misconfigured",
                "its PodGroup is part of CompositePodGroup t: trees of groups are not started",
            ),
            (
                Reason::RoleGathering { role: "worker".into(), have: 1, need: 2 },
                "Gathering",
                "1 of 2 pods of role worker exist",
            ),
            (
                Reason::Crowded { before: 999, most: 1_000 },
                "Misconfigured",
                "999 pods of other owners in its namespace come first, and 1000 at most are \
                 planned for: delete some of those owners, or have them run fewer pods at once",
            ),
            (
                Reason::ClaimOfTooMany { claim: "c".into(), pods: 300 },
                "Misconfigured",
                "300 pods use ResourceClaim c, 256 at most can",
            ),
            (
                Reason::OtherPriority { pod: "p".into(), own: 7, group: 5 },
                "Misconfigured",
                "pod p has priority 7 and its PodGroup 5: all must have the same",
            ),
            (
                Reason::OtherPreemption { pod: "p".into(), never: true, of_group: true },
                "Misconfigured",
                "pod p has preemptionPolicy Never and its PodGroup PreemptLowerPriority: all must \
                 have the same",
            ),
            (
                Reason::OtherPreemption { pod: "p".into(), never: false, of_group: false },
                "Misconfigured",
                "pod p has preemptionPolicy PreemptLowerPriority and others of its PodGroup Never: \
                 all must have the same",
            ),
        ];
        for (reason, code, text) in rows {
            assert_eq!((reason.code(), reason.to_string().as_str()), (code, text));
        }
    }

    #[test]
    fn pods_beyond_their_groups_number_are_told_what_to_do() {
        let of = |done, leaving, pods| {
            let reason = Reason::Surplus { group: "g".into(), total: 4, done, leaving, pods };
            assert_eq!((reason.code(), reason.kind()), ("Misconfigured", "pods"));
            reason.to_string()
        };
        let all = "pod group g has all of its pod-group-total-count of 4";
        let raise = "or raise the number on all its pods";
        assert_eq!(of(0, 0, 1), format!("{all}; delete the 1 other pod, {raise}"));
        let done = format!("{all}, 2 of which succeeded");
        assert_eq!(of(2, 1, 3), format!("{done}; delete the 3 other pods, {raise}"));
        let one = format!("{done}, 1 of which is being deleted: waits until it has gone");
        assert_eq!(of(2, 1, 1), one);
        let two = format!("{all}, 2 of which are being deleted: waits until they have gone");
        assert_eq!(of(0, 2, 1), two);
    }
}
