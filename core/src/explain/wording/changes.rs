//! The words for preemptions, what they cost, and for what would start a waiting workload.

use std::fmt;

use super::reserved::{Moment, written};
use crate::explain::quantity::{USD_PER_HOUR, amount, at_least, counted, noun, quantity};
use crate::explain::view::{Change, Remedy};
use crate::model::input::{Stays, Text};
use crate::plan::{Freed, Preemption, PreemptionReason};

/// Workloads that one remedy names; beyond, it counts them.
const NAMED_MAX: usize = 3;

impl fmt::Display for PreemptionReason {
    /// The word of the API.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Display for Stays {
    /// That nobody stops it for others, and what it is.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Stays::Static => "never stopped for others (a static pod)",
            Stays::Daemon => "never stopped for others (a DaemonSet would make it again)",
        })
    }
}

impl Preemption {
    /// Why this victim: `reclaims 8 borrowed GPUs; priority 100 < 1000`.
    pub fn because(&self) -> String {
        match &self.overspent {
            Some(over) => format!("{}; {}", self.takes(), over.is_spent()),
            None => self.takes(),
        }
    }

    fn takes(&self) -> String {
        let priorities = self.priorities();
        match self.reason {
            PreemptionReason::InClusterQueue => {
                format!("takes {} in the same queue; {priorities}", self.held(false))
            }
            PreemptionReason::InCohortReclamation => {
                format!("reclaims {}; {priorities}", self.held(true))
            }
            PreemptionReason::InCohortReclaimWhileBorrowing => {
                format!("takes {} while borrowing itself; {priorities}", self.held(true))
            }
            PreemptionReason::InCohortFairSharing => {
                format!("takes {} from the larger share; {priorities}", self.held(false))
            }
            PreemptionReason::Priority => match &self.bars {
                Some(bars) => {
                    format!("cannot go to {} while it runs: {}; {priorities}", bars.node, bars.by)
                }
                None => format!("needs its room, {}; {priorities}", self.held(false)),
            },
            PreemptionReason::PodsReadyTimeout { have: 0, need, waited } => {
                let pods = if need == 1 { "pod" } else { "pods" };
                format!("none of its {need} {pods} came within {waited}")
            }
            PreemptionReason::PodsReadyTimeout { have, need, waited } => {
                format!("only {have} of the {need} members that it needs had a place for {waited}")
            }
            PreemptionReason::PodsNotReady { ready, need, waited, fell } => {
                let of = counted(i64::from(need), "pod");
                let had = match ready {
                    0 => "none".to_owned(),
                    some => format!("only {some}"),
                };
                match fell {
                    true => {
                        let was = if ready < 2 { "was" } else { "were" };
                        format!("{had} of the {of} that it needs {was} ready for {waited}")
                    }
                    false => format!("{had} of the {of} that it needs became ready in {waited}"),
                }
            }
            PreemptionReason::RequeuingLimitExceeded { stops } => {
                let times = counted(i64::from(stops), "time");
                format!(
                    "its pods did not start in time once more after {times} (waitForPodsReady, \
                     backoffLimitCount); it waits for spec.active: true on its Workload"
                )
            }
            PreemptionReason::MaximumExecutionTimeExceeded { limit } => {
                format!("it ran for {limit}, as long as it may; it waits for spec.active: true")
            }
            PreemptionReason::Deactivated => {
                "its Workload was deactivated (spec.active: false)".to_owned()
            }
            PreemptionReason::LocalQueueStopped => {
                "its LocalQueue is drained (stopPolicy: HoldAndDrain)".to_owned()
            }
            PreemptionReason::ClusterQueueStopped => {
                "its ClusterQueue is drained (stopPolicy: HoldAndDrain)".to_owned()
            }
        }
    }

    /// What the victim loses: `12m of work, $2.40`.
    pub fn loses(&self) -> String {
        match self.lost_cost {
            Some(cost) => format!("{} of work, ${cost}", self.lost),
            None => format!("{} of work", self.lost),
        }
    }

    /// `8 GPUs`; with what is borrowed of it `8 borrowed GPUs`, `16 GPUs (4 borrowed)`. Where
    /// devices are among it, only those, and what else is borrowed if they are not.
    fn held(&self, borrowed: bool) -> String {
        let device =
            |freed: &Freed| freed.resource.contains('/') && &*freed.resource != USD_PER_HOUR;
        let any = self.frees.iter().any(device);
        let theirs = self.frees.iter().any(|freed| device(freed) && freed.borrowed > 0);
        let shown = self
            .frees
            .iter()
            .filter(|freed| !any || device(freed) || (borrowed && !theirs && freed.borrowed > 0));
        let part = |freed: &Freed| {
            let (number, noun) =
                (quantity(&freed.resource, freed.amount), noun(&freed.resource, freed.amount));
            match freed.borrowed.min(freed.amount) {
                some if !borrowed || some <= 0 => amount(&freed.resource, freed.amount),
                all if all == freed.amount => {
                    format!("{number} borrowed {noun}").trim_end().to_owned()
                }
                some => {
                    let some = quantity(&freed.resource, some);
                    format!("{} ({some} borrowed)", amount(&freed.resource, freed.amount))
                }
            }
        };
        match shown.map(part).collect::<Vec<_>>() {
            none if none.is_empty() => "its place".to_owned(),
            parts => parts.join(", "),
        }
    }

    fn priorities(&self) -> String {
        let (victim, preemptor) = (self.victim_priority, self.preemptor_priority);
        match victim.cmp(&preemptor) {
            std::cmp::Ordering::Less => format!("priority {victim} < {preemptor}"),
            std::cmp::Ordering::Equal => format!("both priority {victim}"),
            std::cmp::Ordering::Greater => format!("priority {victim} > {preemptor}"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::WaitFor { workload, with, at, learned } => {
                write_wait(out, workload, with, at.is_some())?;
                match learned {
                    true => out.write_str(", going by how long such work ran before"),
                    false => Ok(()),
                }
            }
            Change::WaitUntil { awaits, .. } => write!(out, "wait {awaits}"),
            Change::DeclareRunTime { at_most, by } => {
                let (most, by) = (written(*at_most), Moment(*by));
                write!(
                    out,
                    "declare a run time of at most {most}, to end by {by} \
                     (capstan.sh/expected-runtime)"
                )
            }
            Change::RaiseBudget { cluster_queue, field, above } => {
                let above = above.at_least();
                write!(out, "raise spec.budget.{field} of {cluster_queue} above {above}")
            }
            Change::FewerPods { pods: 1 } => {
                out.write_str("start with 1 pod (capstan.sh/min-member: \"1\")")
            }
            Change::FewerPods { pods } => {
                write!(out, "start with {pods} pods (capstan.sh/min-member: \"{pods}\")")
            }
            Change::LowerParallelism { pods } => {
                write!(out, "lower spec.parallelism to {pods}")
            }
            Change::AllowCapacity { types, added } => {
                let list: Vec<String> = types.iter().map(ToString::to_string).collect();
                let old = if *added == 0 { 0 } else { list.len().saturating_sub(*added) };
                let new = listed(list[old..].to_vec());
                write!(out, "allow {new} (capstan.sh/capacity-types: {})", list.join(","))
            }
            Change::RaiseQuota { cluster_queue, flavor, resource, by, with, beside } => {
                let amounts =
                    std::iter::once((resource, by)).chain(with.iter().map(|(r, n)| (r, n)));
                let amounts = amounts.map(|(resource, by)| at_least(resource, *by)).collect();
                let (by, more) = (listed(amounts), of_other_flavors(beside));
                write!(out, "raise nominalQuota of {cluster_queue} by {by} (flavor {flavor}){more}")
            }
            Change::RaiseLimit { holder, limit, flavor, resource, by } => {
                let (field, by) = (limit.field(), at_least(resource, *by));
                write!(out, "raise {field} of {holder} by {by} (flavor {flavor})")
            }
            Change::AnotherFlavor { flavor, tolerate, select } => {
                write!(out, "use flavor {flavor} ({})", edits(tolerate, select))
            }
            Change::AllowPreemption { field, value, victims, .. } => {
                write!(out, "preempt {} (needs {field}: {value})", first_of(victims))
            }
        }
    }
}

/// For whose end to wait, in which order if that is known.
fn write_wait(
    out: &mut fmt::Formatter<'_>,
    workload: &Text,
    with: &[Text],
    dated: bool,
) -> fmt::Result {
    let names = with.iter().chain([workload]);
    match dated {
        _ if with.len() < NAMED_MAX => {
            write!(out, "wait for {} to end", listed(names.map(ToString::to_string).collect()))
        }
        true => write!(out, "wait for {} workloads to end, {workload} last", with.len() + 1),
        false => {
            let names: Vec<Text> = names.cloned().collect();
            write!(out, "wait for {} to end", first_of(&names))
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.change.fmt(out)?;
        let told = matches!(self.change, Change::AllowPreemption { .. });
        if !told && !self.preempts.is_empty() {
            write!(out, " and preempt {}", first_of(&self.preempts))?;
        }
        if let Some(words) = once_started(&self.after) {
            write!(out, ", {words}")?;
        }
        match &self.unless {
            Some(other) => write!(out, ", unless {other} goes first"),
            None => Ok(()),
        }
    }
}

/// Who has to start before: `once a/x has started`.
pub(super) fn once_started(names: &[Text]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("once {one} has started")),
        _ => Some(format!("once {} have started", first_of(names))),
    }
}

/// Amounts to add of other flavors: ` and by 2 cpu (flavor b)`.
fn of_other_flavors(amounts: &[(Text, Text, i64)]) -> String {
    let words = amounts.iter().map(|(flavor, resource, by)| {
        format!(" and by {} (flavor {flavor})", at_least(resource, *by))
    });
    words.collect()
}

/// What to write in a pod: `nodeSelector gpu: t4`, `tolerate dedicated=ml`.
fn edits(tolerate: &[(Text, Text)], select: &[(Text, Text)]) -> String {
    let select = select.iter().map(|(key, value)| format!("nodeSelector {key}: {value}"));
    let tolerate = tolerate.iter().map(|(key, value)| match &**value {
        "" => format!("tolerate {key}"),
        value => format!("tolerate {key}={value}"),
    });
    listed(select.chain(tolerate).collect())
}

/// The first of these names, and how many others.
fn first_of(names: &[Text]) -> String {
    let mut words: Vec<String> = names.iter().map(ToString::to_string).collect();
    if words.len() > NAMED_MAX {
        let others = words.len() + 1 - NAMED_MAX;
        words.truncate(NAMED_MAX - 1);
        words.push(format!("{others} others"));
    }
    listed(words)
}

/// `a`, `a and b`, `a, b and c`.
fn listed(mut words: Vec<String>) -> String {
    let Some(last) = words.pop() else { return String::new() };
    match words.is_empty() {
        true => last,
        false => format!("{} and {last}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::reason::{NodeRefusal, StorageRefusal};
    use crate::model::input::CapacityType;
    use crate::plan::Bars;
    use crate::time::{Span, Time};

    #[test]
    fn all_capacity_types_that_are_to_be_allowed_are_named() {
        let types = vec![CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];
        let words = |added| Change::AllowCapacity { types: types.clone(), added }.to_string();
        let list = "(capstan.sh/capacity-types: reserved,spot,on-demand)";
        assert_eq!(words(1), format!("allow on-demand {list}"));
        assert_eq!(words(2), format!("allow spot and on-demand {list}"));
        assert_eq!(words(0), format!("allow reserved, spot and on-demand {list}"));
    }

    #[test]
    fn who_has_to_start_before_is_told_with_what_to_do() {
        let words = |after: &[&str], unless: Option<&str>| {
            let remedy = Remedy {
                change: Change::FewerPods { pods: 1 },
                first: None,
                per_hour: None,
                preempts: Vec::new(),
                loses: None,
                after: after.iter().map(|name| (*name).into()).collect(),
                unless: unless.map(Into::into),
            };
            let told = remedy.to_string();
            let change = remedy.change.to_string();
            told.strip_prefix(&change).expect("the change comes first").to_owned()
        };
        assert_eq!(words(&[], None), "");
        assert_eq!(words(&["a/x"], None), ", once a/x has started");
        assert_eq!(words(&["a/x", "a/y"], None), ", once a/x and a/y have started");
        let many = words(&["a/u", "a/v", "a/x", "a/y"], Some("b/z"));
        assert_eq!(many, ", once a/u, a/v and 2 others have started, unless b/z goes first");
    }

    #[test]
    fn an_end_that_nobody_declared_is_told_as_such() {
        let wait = |learned| Change::WaitFor {
            workload: "a/x".into(),
            with: vec![],
            at: Some(Time(0)),
            learned,
        };
        assert_eq!(wait(false).to_string(), "wait for a/x to end");
        let words = "wait for a/x to end, going by how long such work ran before";
        assert_eq!(wait(true).to_string(), words);
    }

    #[test]
    fn who_is_in_the_way_by_a_rule_is_not_said_to_hold_room() {
        let volumes = StorageRefusal::TooManyVolumes { driver: "csi.x".into(), limit: 1 };
        let bars = Bars { node: "n1".into(), by: NodeRefusal::Storage(volumes) };
        let mut preemption = Preemption {
            victim: "default/v".into(),
            preemptor: "default/h".into(),
            reason: PreemptionReason::Priority,
            victim_priority: 0,
            preemptor_priority: 9,
            frees: vec![Freed { resource: "cpu".into(), amount: 1_000, borrowed: 0 }],
            lost: Span::minutes(1),
            lost_cost: None,
            cohort: None,
            overspent: None,
            bars: Some(Box::new(bars)),
        };
        let words = "cannot go to n1 while it runs: attaches 1 volume of csi.x at most; \
                     priority 0 < 9";
        assert_eq!(preemption.because(), words);
        preemption.bars = None;
        assert_eq!(preemption.because(), "needs its room, 1 cpu; priority 0 < 9");
    }
}
