//! The one place where reasons become English.
//!
//! The same words appear in `simulate`, `explain`, events, conditions and the log, so tools and
//! people can search for them: the answer comes first, numbers always, no full stop. Nodes speak
//! in [`nodes`] (kube-scheduler's histogram too), preemptions and remedies in [`changes`];
//! machine-readable words are [`Reason::code`], which are Kueue's wherever Kueue has one.
//! Amounts are written by [`super::quantity`]; widths and colours are left to who prints.

mod asked;
pub mod changes;
mod domains;
mod limits;
mod money;
pub mod nodes;
pub mod reserved;
mod short;
pub mod spending;
mod states;
mod storage;
mod uncharged;
mod waits;

use std::fmt;

pub use self::asked::quoted;
use self::nodes::{histogram_entries, shortage};
use self::short::Of;
use self::states::{write_inactive, write_unselected};
use super::quantity::{amount as amount_of, counted, pair, quantity};
use super::reason::{FlavorProblem, FlavorRefusal, Inactive, NoVictims, NodeShortage, Reason};
use crate::model::input::Text;

impl Reason {
    /// The machine-readable word, for conditions, metrics and `"reason"` in JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Gathering { .. }
            | Reason::RoleGathering { .. }
            | Reason::OwnerUnknown { .. }
            | Reason::GroupMissing { .. } => "Gathering",
            Reason::Incomplete { then: Some(then), .. } => then.code(),
            Reason::Incomplete { then: None, .. } => "WaitingForQuota",
            Reason::Extras { then: Some(then), .. } => then.code(),
            Reason::Extras { then: None, .. } => "WaitingForQuota",
            Reason::Gated { .. } => "SchedulingGated",
            Reason::ForeignMembers { .. }
            | Reason::ClaimOfTooMany { .. }
            | Reason::OtherPriority { .. }
            | Reason::OtherPreemption { .. }
            | Reason::Crowded { .. }
            | Reason::Surplus { .. }
            | Reason::LocalQueueMissing { .. }
            | Reason::ClusterQueueMissing { .. }
            | Reason::LocalQueueBroken { .. }
            | Reason::NamespaceNotSelected { .. }
            | Reason::UnknownLevel { .. }
            | Reason::OfTree { .. }
            | Reason::AboveLimit { .. }
            | Reason::OutOfRange { .. }
            | Reason::Malformed { .. } => "Misconfigured",
            Reason::Inactive { why: Inactive::Stopped | Inactive::Terminating, .. }
            | Reason::LocalQueueStopped { .. }
            | Reason::Unqueued => "Suspended",
            Reason::Deactivated { .. } => "Deactivated",
            Reason::Preparing { .. } => "Preparing",
            Reason::BudgetExhausted(_) => "BudgetExhausted",
            Reason::AwaitsOthers { .. } => "WaitingForPodsReady",
            Reason::Inactive { .. } => "Misconfigured",
            Reason::NotCovered { .. }
            | Reason::NoFlavorYet { .. }
            | Reason::FlavorNotListed { .. } => "NoMatchingFlavor",
            Reason::Flavors { tried, .. } => most_telling(tried).map_or("NoMatchingFlavor", code),
            Reason::Nodes(_) => "WaitingForCapacity",
            Reason::PriceUnknown { .. } => PRICE_UNKNOWN,
            Reason::Topology(_) | Reason::NoRoomBeside { .. } => "TopologyPlacementFailed",
            Reason::WaitingForVictims { .. }
            | Reason::WaitingForDevices { .. }
            | Reason::InTheWay { .. }
            | Reason::StillHeld { .. } => "WaitingForPreemptedWorkloads",
            Reason::LostRace { then } | Reason::Together { then, .. } => then.code(),
            Reason::HeldBack { .. } | Reason::Exposes { .. } => "WaitingForQuota",
            Reason::Reserved { .. } => "HeldForReservation",
            Reason::Backoff { .. } => "Backoff",
            Reason::TriedAgain { .. } => "PodsReadyTimeout",
            Reason::Preempted { .. } => "Preempted",
            Reason::BehindHead { .. } | Reason::Behind { .. } | Reason::RoomTaken => {
                "PendingEvaluation"
            }
        }
    }

    /// One clause for a table cell: the most telling problem, without the histogram of nodes.
    pub fn headline(&self) -> String {
        match self {
            Reason::Nodes(nodes) => nodes::headline(nodes),
            Reason::Topology(short) => domains::shortage(short, false),
            Reason::Flavors { cluster_queue, pod_set, tried } => {
                let Some(first) = most_telling(tried) else { return self.to_string() };
                let problem = problem_words(&first.why, cluster_queue, false);
                let others = match tried.len() - 1 {
                    0 => format!("(flavor {})", first.flavor),
                    more => format!("(flavor {}; {} refused too)", first.flavor, other(more)),
                };
                format!("{}{problem} {others}", of_pod_set(pod_set))
            }
            Reason::LostRace { then } => then.headline(),
            Reason::Together { pod_set, beside, then } => {
                together(pod_set, *beside, &then.headline())
            }
            Reason::Incomplete { have, need, then } => {
                incomplete((*have, *need), then.as_deref(), Reason::headline)
            }
            Reason::Extras { waiting, then: Some(then) } => extras(*waiting, &then.headline()),
            _ => self.to_string(),
        }
    }

    /// What kind of thing is in the way: `quota`, `flavor`, `nodes`, `topology`, `queue`,
    /// `pods`, `victims`, `time`.
    pub fn kind(&self) -> &'static str {
        match self {
            Reason::Gathering { .. }
            | Reason::RoleGathering { .. }
            | Reason::OwnerUnknown { .. }
            | Reason::GroupMissing { .. }
            | Reason::OfTree { .. }
            | Reason::Incomplete { .. }
            | Reason::Gated { .. }
            | Reason::Surplus { .. }
            | Reason::ForeignMembers { .. }
            | Reason::ClaimOfTooMany { .. }
            | Reason::OtherPriority { .. }
            | Reason::OtherPreemption { .. }
            | Reason::Crowded { .. }
            | Reason::AboveLimit { .. }
            | Reason::Preparing { .. }
            | Reason::OutOfRange { .. }
            | Reason::Malformed { .. } => "pods",
            Reason::LocalQueueMissing { .. }
            | Reason::ClusterQueueMissing { .. }
            | Reason::LocalQueueStopped { .. }
            | Reason::LocalQueueBroken { .. }
            | Reason::Inactive { .. }
            | Reason::NamespaceNotSelected { .. }
            | Reason::Unqueued
            | Reason::Deactivated { .. }
            | Reason::AwaitsOthers { .. }
            | Reason::Reserved { .. }
            | Reason::BehindHead { .. }
            | Reason::Behind { .. } => "queue",
            Reason::NotCovered { .. }
            | Reason::BudgetExhausted(_)
            | Reason::HeldBack { .. }
            | Reason::Exposes { .. }
            | Reason::Extras { then: None, .. } => "quota",
            Reason::Extras { then: Some(then), .. } => then.kind(),
            Reason::NoFlavorYet { .. } | Reason::FlavorNotListed { .. } => "flavor",
            Reason::Flavors { tried, .. } => match most_telling(tried).map(|first| &first.why) {
                Some(FlavorProblem::Nodes(_) | FlavorProblem::PriceUnknown { .. }) => "nodes",
                Some(FlavorProblem::Topology(_) | FlavorProblem::Level { .. }) => "topology",
                Some(FlavorProblem::Taint { .. } | FlavorProblem::Affinity) => "flavor",
                _ => "quota",
            },
            Reason::Nodes(_) | Reason::PriceUnknown { .. } | Reason::RoomTaken => "nodes",
            Reason::UnknownLevel { .. } | Reason::Topology(_) | Reason::NoRoomBeside { .. } => {
                "topology"
            }
            Reason::WaitingForVictims { .. }
            | Reason::WaitingForDevices { .. }
            | Reason::StillHeld { .. }
            | Reason::InTheWay { .. }
            | Reason::Preempted { .. } => "victims",
            Reason::Backoff { .. } | Reason::TriedAgain { .. } => "time",
            Reason::LostRace { then } | Reason::Together { then, .. } => then.kind(),
        }
    }

    /// The resource whose amounts this is about, if it is about amounts.
    pub fn resource(&self) -> Option<&Text> {
        match self {
            Reason::NotCovered { resource, .. }
            | Reason::NoFlavorYet { resource, .. }
            | Reason::FlavorNotListed { resource, .. }
            | Reason::HeldBack { resource, .. }
            | Reason::Exposes { resource, .. }
            | Reason::StillHeld { resource, .. } => Some(resource),
            Reason::Nodes(nodes) => nodes.nearest.as_ref().map(|nearest| &nearest.resource),
            Reason::Flavors { tried, .. } => match most_telling(tried).map(|first| &first.why)? {
                FlavorProblem::ExceedsMax { resource, .. }
                | FlavorProblem::Short { resource, .. } => Some(resource),
                FlavorProblem::Nodes(nodes) => {
                    nodes.nearest.as_ref().map(|nearest| &nearest.resource)
                }
                FlavorProblem::PriceUnknown { .. }
                | FlavorProblem::Taint { .. }
                | FlavorProblem::Affinity
                | FlavorProblem::Level { .. }
                | FlavorProblem::Topology(_) => None,
            },
            Reason::LostRace { then }
            | Reason::Together { then, .. }
            | Reason::Extras { then: Some(then), .. } => then.resource(),
            _ => None,
        }
    }

    /// The flavor that the answer is about.
    pub fn flavor(&self) -> Option<&Text> {
        match self {
            Reason::Flavors { tried, .. } => most_telling(tried).map(|first| &first.flavor),
            Reason::LostRace { then } => then.flavor(),
            _ => None,
        }
    }

    /// Where the obstacle is, without its numbers: a row of the table "in the way" has columns
    /// for those.
    pub fn place(&self) -> String {
        match self {
            Reason::NotCovered { cluster_queue, resource, .. } => {
                format!("{cluster_queue} has no quota for {resource}")
            }
            Reason::Flavors { cluster_queue, tried, .. } => match most_telling(tried) {
                Some(first) => place_of_flavor(cluster_queue, first),
                None => cluster_queue.to_string(),
            },
            Reason::Nodes(nodes) => nodes::place(nodes),
            Reason::Topology(short) => domains::place(short),
            Reason::NoRoomBeside { level, domain, .. } => {
                format!("pods in {}", named_domain(level, domain.as_ref()))
            }
            Reason::LostRace { then }
            | Reason::Together { then, .. }
            | Reason::Extras { then: Some(then), .. } => then.place(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Incomplete { have, need, then } => {
                out.write_str(&incomplete((*have, *need), then.as_deref(), Reason::to_string))
            }
            Reason::Extras { waiting, then } => write_extras(out, *waiting, then.as_deref()),
            Reason::Gathering { .. } | Reason::RoleGathering { .. } | Reason::Crowded { .. } => {
                asked::write_few(out, self)
            }
            Reason::Surplus { .. }
            | Reason::ForeignMembers { .. }
            | Reason::ClaimOfTooMany { .. }
            | Reason::OtherPriority { .. }
            | Reason::OtherPreemption { .. } => asked::write_unlike(out, self),
            Reason::OwnerUnknown { owner } => write_unknown(out, owner),
            Reason::GroupMissing { group } => write_group_missing(out, group),
            Reason::Gated { pods } => write_gated(out, *pods),
            Reason::LocalQueueMissing { namespace, name } => {
                write!(out, "LocalQueue {namespace}/{} does not exist", quoted(name))
            }
            Reason::ClusterQueueMissing { local_queue, name } => write!(
                out,
                "LocalQueue {local_queue} points to ClusterQueue {name}, which does not exist"
            ),
            Reason::LocalQueueStopped { .. }
            | Reason::LocalQueueBroken { .. }
            | Reason::AwaitsOthers { .. }
            | Reason::Deactivated { .. } => waits::write_stopped(out, self),
            Reason::Inactive { cluster_queue, why } => write_inactive(out, cluster_queue, why),
            Reason::NamespaceNotSelected { .. } => write_unselected(out, self),
            Reason::Unqueued => out.write_str(UNQUEUED),
            Reason::NotCovered { .. }
            | Reason::NoFlavorYet { .. }
            | Reason::FlavorNotListed { .. } => asked::write_no_quota(out, self),
            Reason::Flavors { cluster_queue, pod_set, tried } => {
                write_flavors(out, cluster_queue, pod_set, tried)
            }
            Reason::Nodes(nodes) => write_nodes(out, nodes),
            Reason::PriceUnknown { nodes } => out.write_str(&money::unknown(*nodes)),
            Reason::RoomTaken => out.write_str("its room went to others of this round"),
            Reason::AboveLimit { .. }
            | Reason::Malformed { .. }
            | Reason::OutOfRange { .. }
            | Reason::OfTree { .. } => asked::write_odd(out, self),
            Reason::UnknownLevel { .. } => asked::write_unknown_level(out, self),
            Reason::Topology(short) => out.write_str(&domains::shortage(short, true)),
            Reason::NoRoomBeside { level, domain, asked, holds, ended } => {
                write_no_room_beside(out, &named_domain(level, domain.as_ref()), *asked, *holds)?;
                out.write_str(&nodes::ended_behind(*ended))
            }
            Reason::WaitingForVictims { .. }
            | Reason::WaitingForDevices { .. }
            | Reason::StillHeld { .. } => waits::write_leaving(out, self),
            Reason::Preparing { pods, what } => waits::write_preparing(out, *pods, what),
            Reason::HeldBack { .. } | Reason::Exposes { .. } | Reason::InTheWay { .. } => {
                waits::write_for_head(out, self)
            }
            Reason::Reserved { .. } => reserved::write_reserved(out, self),
            Reason::BudgetExhausted(over) => over.fmt(out),
            Reason::LostRace { then } => then.fmt(out),
            Reason::Together { pod_set, beside, then } => {
                out.write_str(&together(pod_set, *beside, &then.to_string()))
            }
            Reason::Backoff { until, failure } => waits::write_backoff(out, *until, failure),
            Reason::TriedAgain { stops } => write!(out, "tried again: {}", waits::unready(*stops)),
            Reason::Preempted { preemptor } => write_preempted(out, preemptor),
            Reason::BehindHead { head, queue } => write_behind_head(out, head, queue),
            Reason::Behind { ahead, queue } => write_behind(out, *ahead, queue),
        }
    }
}

/// That nobody knows what nodes cost, for work whose queue is charged for it.
const PRICE_UNKNOWN: &str = "PriceUnknown";

const UNQUEUED: &str = "has no queue, and unqueuedWorkloads: Hold keeps such work waiting";

/// `1 pod has`, `2 pods have`.
fn pods_that(pods: u32, one: &str, many: &str) -> String {
    format!("{} {}", counted(i64::from(pods), "pod"), if pods == 1 { one } else { many })
}

/// Below its minimum, and why, in words of either length.
fn incomplete(
    (have, need): (u32, u32),
    then: Option<&Reason>,
    why: fn(&Reason) -> String,
) -> String {
    match then {
        None => format!("{have} of {need} members run; quota for the others is short"),
        Some(Reason::Gathering { have: exist, .. }) => {
            format!("{have} of {need} members run; {exist} of {need} exist")
        }
        Some(lacks @ (Reason::Gated { .. } | Reason::RoleGathering { .. })) => {
            format!("{have} of {need} members run; {lacks}")
        }
        Some(then) => format!("{have} of {need} members run; for the others {}", why(then)),
    }
}

fn write_group_missing(out: &mut fmt::Formatter<'_>, group: &str) -> fmt::Result {
    write!(out, "waits for {group}, which does not exist")
}

fn write_gated(out: &mut fmt::Formatter<'_>, pods: u32) -> fmt::Result {
    write!(out, "{} scheduling gates", pods_that(pods, "has", "have"))
}

fn write_unknown(out: &mut fmt::Formatter<'_>, owner: &str) -> fmt::Result {
    write!(out, "{owner}, which its pods belong to, is gone or was not seen yet")
}

fn write_extras(out: &mut fmt::Formatter<'_>, waiting: u32, then: Option<&Reason>) -> fmt::Result {
    let short = || "quota for them is short".to_owned();
    out.write_str(&extras(waiting, &then.map_or_else(short, ToString::to_string)))
}

/// `1 extra member waits: ...`, `2 extra members wait: ...`.
fn extras(waiting: u32, why: &str) -> String {
    let verb = if waiting == 1 { "waits" } else { "wait" };
    format!("{} {verb}: {why}", counted(i64::from(waiting), "extra member"))
}

fn write_preempted(out: &mut fmt::Formatter<'_>, preemptor: &str) -> fmt::Result {
    write!(out, "was preempted for {preemptor} and cannot come back by itself")
}

fn write_behind_head(out: &mut fmt::Formatter<'_>, head: &str, queue: &str) -> fmt::Result {
    write!(out, "{head} is before it in StrictFIFO queue {queue}")
}

fn write_behind(out: &mut fmt::Formatter<'_>, ahead: u32, queue: &str) -> fmt::Result {
    match ahead {
        0 => write!(out, "has not been considered yet (it is first in {queue})"),
        1 => write!(out, "1 workload is before it in {queue}"),
        _ => write!(out, "{ahead} workloads are before it in {queue}"),
    }
}

impl fmt::Display for FlavorProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlavorProblem::Nodes(nodes) => write_nodes(out, nodes),
            other => out.write_str(&problem_words(other, "the queue", true)),
        }
    }
}

/// The flavor that came closest; among equals the first tried.
fn most_telling(tried: &[FlavorRefusal]) -> Option<&FlavorRefusal> {
    tried.iter().min_by_key(|refusal| refusal.why.remoteness())
}

fn code(refusal: &FlavorRefusal) -> &'static str {
    match refusal.why {
        FlavorProblem::Short { .. } => "WaitingForQuota",
        FlavorProblem::Nodes(_) => "WaitingForCapacity",
        FlavorProblem::PriceUnknown { .. } => PRICE_UNKNOWN,
        FlavorProblem::Topology { .. } => "TopologyPlacementFailed",
        FlavorProblem::ExceedsMax { .. } => "ExceedsMaxQuota",
        FlavorProblem::Taint { .. } | FlavorProblem::Affinity | FlavorProblem::Level { .. } => {
            "NoMatchingFlavor"
        }
    }
}

/// One flavor: `... (flavor a)`; several: `a: ...; b: ...`, in the order tried.
fn write_flavors(
    out: &mut fmt::Formatter<'_>,
    queue: &str,
    pod_set: &str,
    tried: &[FlavorRefusal],
) -> fmt::Result {
    out.write_str(&of_pod_set(pod_set))?;
    match tried {
        [] => write!(out, "no flavor of {queue} takes it"),
        [only] => {
            write!(out, "{} (flavor {})", problem_words(&only.why, queue, true), only.flavor)?;
            write_histogram(out, &only.why)
        }
        several => {
            for (at, refusal) in several.iter().enumerate() {
                let comma = if at == 0 { "" } else { "; " };
                let problem = problem_words(&refusal.why, queue, true);
                write!(out, "{comma}flavor {}: {problem}", refusal.flavor)?;
                write_histogram(out, &refusal.why)?;
            }
            Ok(())
        }
    }
}

fn write_histogram(out: &mut fmt::Formatter<'_>, why: &FlavorProblem) -> fmt::Result {
    match why {
        FlavorProblem::Nodes(nodes) if !nodes.refusals.is_empty() => {
            write!(out, "; {}", histogram_entries(nodes))
        }
        _ => Ok(()),
    }
}

fn write_nodes(out: &mut fmt::Formatter<'_>, nodes: &NodeShortage) -> fmt::Result {
    out.write_str(&shortage(nodes))?;
    if nodes.refusals.is_empty() {
        return Ok(());
    }
    write!(out, "; {}", histogram_entries(nodes))
}

/// The only pod set of most workloads is called `main`, which says nothing.
fn of_pod_set(pod_set: &str) -> String {
    if pod_set == "main" { String::new() } else { format!("pod set {}: ", quoted(pod_set)) }
}

fn together(pod_set: &str, beside: u32, then: &str) -> String {
    let pod_set = quoted(pod_set);
    if beside == 0 {
        return format!("pod set {pod_set}: {then}");
    }
    let pods = counted(i64::from(beside), "pod");
    format!("pod set {pod_set}, beside {pods} of its gang: {then}")
}

fn other(count: usize) -> String {
    if count == 1 { "1 other".to_owned() } else { format!("{count} others") }
}

/// The problem without its histogram; `whole` also says whether preemption was tried.
fn problem_words(why: &FlavorProblem, queue: &str, whole: bool) -> String {
    match why {
        FlavorProblem::Taint { key, value } if value.is_empty() => {
            format!("taint {key} is not tolerated")
        }
        FlavorProblem::Taint { key, value } => format!("taint {key}={value} is not tolerated"),
        FlavorProblem::Affinity => {
            "node selector or affinity excludes the flavor's nodes".to_owned()
        }
        FlavorProblem::Level { topology, known, .. } if known.is_empty() => {
            format!("its Topology {topology} has no levels")
        }
        FlavorProblem::Level { level, topology, known } => {
            format!("its Topology {topology} has no level {level}, only {}", known.join(", "))
        }
        FlavorProblem::ExceedsMax { resource, asked, others, most } => {
            let (asked, most) = pair(resource, *asked, *most);
            let noun = short::spaced_noun(resource, most == "1");
            let asked = format!("{asked} asked{}", by_others(resource, *others));
            format!("{queue} can never have more than {most}{noun}, {asked}")
        }
        FlavorProblem::Short { resource, asked, others, left, cohort, own, strait, victims } => {
            let of = Of { queue, cohort: cohort.as_deref(), resource };
            let others = by_others(resource, *others);
            let short = format!("{}{others}", of.short(*asked, *left, *own, strait.as_deref()));
            match victims {
                NoVictims::TooFew | NoVictims::AboveNominal { .. } | NoVictims::Ended(_)
                    if !whole =>
                {
                    short
                }
                victims => format!("{short}{}", no_victims(victims)),
            }
        }
        FlavorProblem::Nodes(nodes) if whole => shortage(nodes),
        FlavorProblem::Nodes(nodes) => nodes::headline(nodes),
        FlavorProblem::PriceUnknown { nodes } => money::unknown(*nodes),
        FlavorProblem::Topology(short) => domains::shortage(short, whole),
    }
}

/// Which part of an amount the pod set that is named does not ask itself.
fn by_others(resource: &str, others: i64) -> String {
    match others {
        0 => String::new(),
        others => format!(" ({} by other pod sets)", quantity(resource, others)),
    }
}

fn no_victims(victims: &NoVictims) -> String {
    match victims {
        NoVictims::NotAsked => String::new(),
        NoVictims::TooFew => "; no allowed victims free enough".to_owned(),
        NoVictims::WouldBorrow { resource, amount } => {
            let borrowed = amount_of(resource, *amount);
            format!("; its queue would borrow {borrowed}, and who borrows may not reclaim")
        }
        NoVictims::AboveNominal { resource, nominal } => short::above(resource, *nominal),
        NoVictims::Share { own, queue, most } => short::shares(*own, queue, *most),
        NoVictims::Lasts { holder, until } => short::lasts(holder, *until),
        NoVictims::Turns { times } => short::turns(*times),
        NoVictims::Ended(bound) => nodes::ended_behind(Some(*bound)),
    }
}

fn write_no_room_beside(
    out: &mut fmt::Formatter<'_>,
    domain: &str,
    asked: u32,
    holds: u32,
) -> fmt::Result {
    write!(out, "{domain}, where its members run, has room for {holds} of {asked}")
}

pub(super) fn named_domain(level: &str, domain: Option<&Text>) -> String {
    match domain {
        Some(domain) => format!("{level} {domain}"),
        None => format!("the {level}"),
    }
}

fn place_of_flavor(queue: &str, refusal: &FlavorRefusal) -> String {
    let flavor = &refusal.flavor;
    match &refusal.why {
        FlavorProblem::Short { resource, cohort, asked, own, .. } => {
            Of { queue, cohort: cohort.as_deref(), resource }.place(flavor, asked <= own)
        }
        FlavorProblem::ExceedsMax { resource, .. } => {
            format!("{}: the most that {queue} can have, {flavor}", money::noun(resource))
        }
        FlavorProblem::Nodes(nodes) => format!("{} ({flavor})", nodes::place(nodes)),
        FlavorProblem::Topology(short) => domains::place(short),
        FlavorProblem::PriceUnknown { .. } => format!("prices of its nodes ({flavor})"),
        why @ (FlavorProblem::Taint { .. }
        | FlavorProblem::Affinity
        | FlavorProblem::Level { .. }) => {
            format!("{} ({flavor})", problem_words(why, queue, false))
        }
    }
}

/// The amount asked and left of an obstacle, in the unit of its resource.
pub fn obstacle_amounts(reason: &Reason, asked: i64, left: i64) -> (String, String) {
    match reason.resource() {
        Some(resource) => pair(resource, asked, left),
        None => (asked.to_string(), left.to_string()),
    }
}

#[cfg(test)]
mod tests;
