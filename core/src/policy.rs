//! The validated configuration, frozen: knobs of the engine and their defaults.
//!
//! The shell reads the configuration file, reports every error at once, and hands over one
//! `Policy`. Each knob names who needs it.

use std::collections::BTreeMap;

use crate::model::input::{NodeSelector, PreferredNodes, Text};
use crate::score::Weights;
use crate::time::Span;

/// Topology levels that can be told apart.
pub const LEVELS_MAX: usize = capstan_topology::LEVELS_MAX;

/// All knobs of the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Scoring profiles by name; a ClusterQueue names one, else `default` holds.
    pub profiles: BTreeMap<Text, Weights>,
    /// What becomes of work without a queue once queues exist.
    pub unqueued: UnqueuedWorkloads,
    /// Level keys, outermost first; `None`: Topology objects, else the well-known labels.
    pub levels: Option<Vec<Text>>,
    /// Which resources count against quota.
    pub quota: QuotaArgs,
    /// How queues of a cohort share what they borrow; `None`: first come, first served, and
    /// classical preemption. For clusters whose teams all borrow.
    pub fair_sharing: Option<FairSharing>,
    /// How a ClusterQueue orders the work of its LocalQueues by what they used of late; `None`: it
    /// does not. For clusters where one team must not push the others out of a queue they share.
    pub usage_sharing: Option<UsageSharing>,
    /// Arguments of placement rules.
    pub rules: RuleArgs,
    /// Rounds of one step at most; a simulation uses 1 so that victims leave in between.
    pub rounds_max: u32,
    /// First wait after a failed bind.
    pub backoff_first: Span,
    /// Longest wait after failed binds.
    pub backoff_max: Span,
    /// A resumed owner whose pods have not appeared by then is suspended again.
    pub resume_timeout: Span,
    /// A gang that has been below its minimum for so long is stopped whole; `None`: never.
    pub recovery_timeout: Option<Span>,
    /// What becomes of queued work whose pods do not come up; `None`: it holds its quota. For
    /// clusters where images cannot be pulled, or nodes do not become ready.
    pub pods_ready: Option<PodsReady>,
    /// Starts that are kept for heads that wait, where run times tell when they can start; `None`:
    /// none, whatever fits passes what does not. For clusters where big and small work share nodes.
    pub reservations: Option<Reserving>,
    /// How long an effect is tried, from when it is begun, before it is given up as refused.
    pub effect_timeout: Span,
    /// A gang whose claims are not bound so long after what was chosen was written goes back.
    pub volume_timeout: Span,
    /// A gang whose devices are not ready so long after they were allocated goes back.
    pub device_timeout: Span,
}

/// How starts are kept for heads that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserving {
    /// At most so many for heads that compete for the same nodes or quota, those first by priority
    /// and age: what is admitted beside them is tried against each.
    pub most: u32,
    /// Work that says nothing is taken to run as long as such work did before. For clusters whose
    /// jobs are alike, and whose users do not write run times down.
    pub learns: bool,
}

impl Default for Reserving {
    fn default() -> Reserving {
        Reserving { most: 16, learns: false }
    }
}

/// Work without a queue, once queues exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnqueuedWorkloads {
    /// It runs, with the lowest standing.
    Allow,
    /// It waits until somebody gives it a queue.
    Hold,
}

/// What becomes of queued work whose pods do not come up: Kueue's `waitForPodsReady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodsReady {
    /// It is stopped when so long after its admission too few of its pods have started.
    pub timeout: Span,
    /// The same of work that had started, from when too few of its pods run; `None`: never.
    pub recovery: Option<Span>,
    /// Nothing is admitted while work that was admitted has not started.
    pub blocks_admission: bool,
    /// How work that was stopped for this queues again.
    pub requeuing: Requeuing,
}

/// How work that was stopped because its pods did not come up queues again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requeuing {
    /// In its queue it stands as if it had been made when it was stopped.
    pub behind: bool,
    /// It waits so long after the first stop, and twice as long after each further one.
    pub base: Span,
    /// It waits no longer than this.
    pub longest: Span,
    /// More stops in a row than this, and its Workload object is deactivated; `None`: never.
    pub limit: Option<u32>,
}

impl Requeuing {
    /// How long work waits that was stopped so often.
    pub fn wait(&self, stops: u32) -> Span {
        let doubled = self.base.0.saturating_mul(1_i64 << stops.saturating_sub(1).min(40));
        Span(doubled.min(self.longest.0))
    }
}

/// When the shares of two queues let the work of one stop that of the other: Kueue's
/// `fairSharing.preemptionStrategies` (spec/quota.md 9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FairSharing {
    /// `LessThanOrEqualToFinalShare`: the preemptor's share is at most the victim's afterwards.
    FinalShare,
    /// `LessThanInitialShare`: the preemptor's share is below the victim's before.
    InitialShare,
    /// The first, then the second for those that the first let stay.
    FinalThenInitial,
}

/// What LocalQueues used of late: Kueue's `admissionFairSharing` (spec/quota.md section 10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageSharing {
    /// After this long, half of what was used is forgotten; zero: all of it at each look.
    pub half_life: Span,
    /// Usage is looked at so often.
    pub interval: Span,
    /// Weights of resources in billionths, of one unit (a core, a GPU, a byte); one where absent.
    pub weights: BTreeMap<Text, u64>,
}

impl UsageSharing {
    /// A weight of one.
    pub const UNIT: u64 = 1_000_000_000;
}

/// Which resources count against quota, as Kueue's configuration says it (`resources`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaArgs {
    /// Resources whose names begin so are left out of quota.
    pub excluded_prefixes: Vec<Text>,
    /// A resource that no group of a queue covers is left out, instead of keeping the work out.
    pub ignore_undeclared: bool,
    /// Resources that count as others. For clusters whose quota is in credits, or in memory of
    /// devices, say.
    pub transformations: Vec<Transformation>,
}

/// A resource that counts as others, beside itself or instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformation {
    /// The resource; no other transformation has the same.
    pub input: Text,
    /// It does not count itself.
    pub replaces: bool,
    /// A resource whose amount multiplies the outputs, where it is asked.
    pub multiply_by: Option<Text>,
    /// Billionths of a unit for one unit of the input; below zero they take away from what other
    /// transformations make of the same resource.
    pub outputs: Vec<(Text, i128)>,
}

impl QuotaArgs {
    /// Whether a resource that is asked counts at all.
    pub fn counts(&self, resource: &str) -> bool {
        !self.excluded_prefixes.iter().any(|prefix| resource.starts_with(&**prefix))
    }

    /// Whether anything may be charged for a resource: it counts, or something counts as it.
    pub fn charges(&self, resource: &str) -> bool {
        let mut outputs = self.transformations.iter().flat_map(|it| &it.outputs);
        self.counts(resource) || outputs.any(|(output, _)| &**output == resource)
    }
}

/// Arguments of placement rules, as kube-scheduler's plugins take them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleArgs {
    /// `NodeAffinityArgs.addedAffinity`: required of every pod.
    pub added_affinity: Option<NodeSelector>,
    /// `NodeAffinityArgs.addedAffinity`: preferred for every pod.
    pub added_preferences: Vec<PreferredNodes>,
    /// Extended resources that NodeResourcesFit does not check.
    pub ignored_resources: Vec<Text>,
    /// Domains of extended resources that it does not check.
    pub ignored_resource_groups: Vec<Text>,
    /// Feature gate TaintTolerationComparisonOperators.
    pub toleration_comparison: bool,
}

impl RuleArgs {
    /// Whether any resource is left out of the check.
    pub fn ignores_any(&self) -> bool {
        !self.ignored_resources.is_empty() || !self.ignored_resource_groups.is_empty()
    }
}

/// Rounds of one step at most: enough to drain any burst that one watch batch brings, small
/// enough that inputs are never left waiting for long.
pub const ROUNDS_MAX: u32 = 10_000;

impl Policy {
    /// Index of a scoring profile; unknown names and `None` are the default profile.
    pub fn profile(&self, name: Option<&Text>) -> u32 {
        let wanted = name.map_or("default", |name| &**name);
        let at = self.profiles.keys().position(|known| &**known == wanted);
        let default = || self.profiles.keys().position(|known| &**known == "default");
        at.or_else(default).unwrap_or(0) as u32
    }

    /// Whether another configuration decides the same: only bounds and times differ, so that
    /// nothing that was derived under this one has to be derived again.
    pub(crate) fn decides_as(&self, other: &Policy) -> bool {
        let Policy { profiles, unqueued, levels, quota, fair_sharing, rules, .. } = other;
        (&self.profiles, &self.unqueued, &self.quota) == (profiles, unqueued, quota)
            && (&self.levels, &self.fair_sharing, &self.rules) == (levels, fair_sharing, rules)
            && (self.pods_ready, &self.usage_sharing) == (other.pods_ready, &other.usage_sharing)
            && self.reservations == other.reservations
    }

    /// Weights of a profile index.
    pub fn weights(&self, profile: u32) -> Weights {
        self.profiles.values().nth(profile as usize).copied().unwrap_or_default()
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            profiles: BTreeMap::from([("default".into(), Weights::default())]),
            unqueued: UnqueuedWorkloads::Allow,
            levels: None,
            quota: QuotaArgs::default(),
            fair_sharing: None,
            usage_sharing: None,
            rules: RuleArgs::default(),
            rounds_max: ROUNDS_MAX,
            backoff_first: Span::seconds(1),
            backoff_max: Span::seconds(10),
            resume_timeout: Span::seconds(60),
            recovery_timeout: Some(Span::minutes(5)),
            pods_ready: None,
            reservations: Some(Reserving::default()),
            effect_timeout: Span::seconds(30),
            volume_timeout: Span::seconds(600),
            device_timeout: Span::seconds(600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_times_decide_nothing() {
        let policy = Policy::default();
        let slower = Policy { rounds_max: 1, backoff_max: Span::seconds(99), ..policy.clone() };
        assert!(policy.decides_as(&slower) && policy != slower);
        let held = Policy { unqueued: UnqueuedWorkloads::Hold, ..policy.clone() };
        assert!(!policy.decides_as(&held));
        let fair = Policy { fair_sharing: Some(FairSharing::FinalShare), ..policy.clone() };
        assert!(!policy.decides_as(&fair));
        let requeuing = Requeuing {
            behind: true,
            base: Span::seconds(60),
            longest: Span::seconds(3_600),
            limit: None,
        };
        let timeout = Span::minutes(5);
        let ready = PodsReady { timeout, recovery: None, blocks_admission: true, requeuing };
        assert!(!policy.decides_as(&Policy { reservations: None, ..policy.clone() }));
        assert!(!policy.decides_as(&Policy { pods_ready: Some(ready), ..policy.clone() }));
    }

    #[test]
    fn who_was_stopped_waits_twice_as_long_each_time_up_to_a_limit() {
        let (base, longest) = (Span::seconds(60), Span::seconds(3_600));
        let requeuing = Requeuing { behind: true, base, longest, limit: None };
        let waits = [1, 2, 3, 7, 1_000].map(|stops| requeuing.wait(stops).0 / 1_000);
        assert_eq!(waits, [60, 120, 240, 3_600, 3_600]);
    }
}
