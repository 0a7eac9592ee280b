//! LimitRanges: what an API server fills in for the containers of a namespace, and what it refuses.
//!
//! Decides that a template, or a pod that no API server has seen yet, is taken as its pods will
//! be: own limits become requests first (that is a default of the API itself), then each
//! LimitRange, by name, fills what is missing. A pod that has a uid went through an API server,
//! which did all that. Of all that waits the bounds are compared with what is stated or filled in;
//! a limit that nobody states is held against nobody, because pods that are older than a
//! LimitRange lack it too. What runs is not looked at.
//! (kubernetes.io/docs/concepts/policy/limit-range; the API server's LimitRanger admission.)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{Amounts, Breach, OutOfRange, PodShape, Text};
use capstan_core::requests::{ContainerRequest, InitContainer, PodResources};

use super::sharing::Shared;
use super::{Refusal, requests};
use crate::api::limits::{LimitRange, LimitRangeItem};
use crate::api::pod::{Container, PodSpec, PodStatus};

/// Requests and limits of a container, or of a pod as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Lists {
    requests: Amounts,
    limits: Amounts,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Contained {
    name: Text,
    sidecar: bool,
    lists: Lists,
}

/// What the containers of a pod that waits, or of a template, state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contents {
    containers: Vec<Contained>,
    init_containers: Vec<Contained>,
    /// `spec.resources`.
    whole: Option<Lists>,
    overhead: Amounts,
    /// An API server has seen it: nothing is missing any more.
    made: bool,
}

/// Least, most, and the largest ratio of limit and request in thousandths.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bounds {
    min: Amounts,
    max: Amounts,
    ratio: BTreeMap<Text, i64>,
}

/// A LimitRange.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitRangeDraft {
    /// What it fills in for containers.
    of_containers: Lists,
    /// And for a pod that states resources as a whole.
    of_pods: Lists,
    containers: Bounds,
    pods: Bounds,
}

/// LimitRanges by namespace and name.
#[derive(Debug, Default)]
pub struct LimitRanges {
    all: BTreeMap<Text, BTreeMap<Text, LimitRangeDraft>>,
    /// Namespaces in which they changed since that was asked last.
    anew: BTreeSet<Text>,
}

impl Contents {
    /// Of a pod spec; `made`: an API server has seen the pod.
    pub fn of(spec: &PodSpec, made: bool, shared: &mut Shared) -> Arc<Contents> {
        let asked = requests::of_pod(spec, &PodStatus::default());
        let mut contained = |container: &Container, requests: Amounts, sidecar| Contained {
            name: shared.texts.text(&container.name),
            sidecar,
            lists: Lists { requests, limits: requests::amounts(&container.resources.limits) },
        };
        let of_main = spec.containers.iter().zip(asked.containers);
        let containers = of_main.map(|(it, request)| contained(it, request.spec, false)).collect();
        let of_init = spec.init_containers.iter().zip(asked.init_containers);
        let init_containers =
            of_init.map(|(it, init)| contained(it, init.request.spec, init.sidecar)).collect();
        let limits = spec.resources.as_ref().map(|whole| requests::amounts(&whole.limits));
        let whole = asked.pod_level.zip(limits);
        let whole = whole.map(|(requests, limits)| Lists { requests, limits });
        let overhead = asked.overhead;
        let contents = Contents { containers, init_containers, whole, overhead, made };
        shared.contents.of(contents)
    }

    fn all(&self) -> impl Iterator<Item = &Contained> {
        self.containers.iter().chain(&self.init_containers)
    }

    /// Requests, or limits, of the whole pod.
    fn total(&self, of: fn(&Lists) -> &Amounts, overhead: Amounts) -> Amounts {
        let one = |lists: &Lists| ContainerRequest { spec: of(lists).clone(), resize: None };
        let init = |it: &Contained| InitContainer { request: one(&it.lists), sidecar: it.sidecar };
        let whole = PodResources {
            containers: self.containers.iter().map(|it| one(&it.lists)).collect(),
            init_containers: self.init_containers.iter().map(init).collect(),
            pod_level: self.whole.as_ref().map(|lists| of(lists).clone()),
            of_whole: None,
            overhead,
            resize_infeasible: false,
        };
        whole.effective()
    }
}

impl LimitRangeDraft {
    /// The draft of a LimitRange.
    pub fn of(range: &LimitRange) -> Result<LimitRangeDraft, Vec<Refusal>> {
        let (mut draft, mut refusals) = (LimitRangeDraft::default(), Vec::new());
        for (index, item) in range.spec.limits.iter().enumerate() {
            for (field, list) in [
                ("default", &item.default),
                ("defaultRequest", &item.default_request),
                ("min", &item.min),
                ("max", &item.max),
                ("maxLimitRequestRatio", &item.max_limit_request_ratio),
            ] {
                let path = format!("spec.limits[{index}].{field}");
                refusals.extend(Refusal::negative(list, &path));
            }
            match item.of.as_str() {
                "Container" => {
                    draft.of_containers.fill_in(item, true);
                    draft.containers.narrow(item);
                }
                "Pod" => {
                    draft.of_pods.fill_in(item, false);
                    draft.pods.narrow(item);
                }
                _ => {}
            }
        }
        if refusals.is_empty() { Ok(draft) } else { Err(refusals) }
    }
}

impl Lists {
    /// Takes the defaults of an item; for containers the API server completes them itself: the
    /// most is the limit where none is given, the limit the request, else the least.
    fn fill_in(&mut self, item: &LimitRangeItem, completes: bool) {
        let (mut limits, mut asked) =
            (requests::amounts(&item.default), requests::amounts(&item.default_request));
        if completes {
            add_missing(&mut limits, &requests::amounts(&item.max));
            add_missing(&mut asked, &limits);
            add_missing(&mut asked, &requests::amounts(&item.min));
        }
        self.limits.extend(limits);
        self.requests.extend(asked);
    }

    /// What is missing; the first limit filled in that is below the request.
    fn complete(&mut self, defaults: &Lists) -> Option<(Text, Breach)> {
        let missing = |(of, _): &(&Text, &i64)| !self.limits.contains_key(*of);
        let new: Vec<Text> =
            defaults.limits.iter().filter(missing).map(|it| it.0.clone()).collect();
        add_missing(&mut self.limits, &defaults.limits);
        add_missing(&mut self.requests, &defaults.requests);
        new.into_iter().find_map(|of| {
            let (request, limit) = (*self.requests.get(&of)?, self.limits[&of]);
            (request > limit).then_some((of, Breach::AboveDefault { request, limit }))
        })
    }
}

fn add_missing(to: &mut Amounts, from: &Amounts) {
    for (resource, amount) in from {
        to.entry(resource.clone()).or_insert(*amount);
    }
}

impl Bounds {
    /// Both hold.
    fn narrow(&mut self, item: &LimitRangeItem) {
        for (resource, least) in requests::amounts(&item.min) {
            let min = self.min.entry(resource).or_insert(least);
            *min = least.max(*min);
        }
        for (resource, most) in requests::amounts(&item.max) {
            let max = self.max.entry(resource).or_insert(most);
            *max = most.min(*max);
        }
        for (resource, ratio) in &item.max_limit_request_ratio {
            let ratio = ratio.milli();
            let most = self.ratio.entry(resource.as_str().into()).or_insert(ratio);
            *most = ratio.min(*most);
        }
    }

    /// The first that does not hold, of the least, the most and the ratio.
    fn breach(&self, requests: &Amounts, limits: &Amounts) -> Option<(Text, Breach)> {
        let below = |(of, &min): (&Text, &i64)| {
            let (request, limit) = (requests.get(of).copied(), limits.get(of).copied());
            let request = request.unwrap_or(0);
            let breach = match limit {
                _ if request < min => Some(Breach::RequestBelowMin { request, min }),
                Some(limit) if limit < min => Some(Breach::LimitBelowMin { limit, min }),
                _ => None,
            };
            Some((of.clone(), breach?))
        };
        let above = |(of, &max): (&Text, &i64)| {
            let breach = match (requests.get(of).copied(), limits.get(of).copied()) {
                (Some(request), _) if request > max => Breach::RequestAboveMax { request, max },
                (_, Some(limit)) if limit > max => Breach::LimitAboveMax { limit, max },
                _ => return None,
            };
            Some((of.clone(), breach))
        };
        let apart = |(of, &most_milli): (&Text, &i64)| {
            let (request, limit) = (*requests.get(of)?, *limits.get(of)?);
            let most = i128::from(most_milli) * i128::from(request);
            let breach = Breach::Ratio { request, limit, most_milli };
            (i128::from(limit) * 1_000 > most).then(|| (of.clone(), breach))
        };
        let first = self.min.iter().find_map(below).or_else(|| self.max.iter().find_map(above));
        first.or_else(|| self.ratio.iter().find_map(apart))
    }
}

impl LimitRanges {
    /// A LimitRange as it is now; `None`: it is gone.
    pub fn put(&mut self, namespace: &Text, name: &Text, draft: Option<LimitRangeDraft>) {
        let of_namespace = self.all.entry(namespace.clone()).or_default();
        let before = match draft.clone() {
            Some(draft) => of_namespace.insert(name.clone(), draft),
            None => of_namespace.remove(name),
        };
        if of_namespace.is_empty() {
            self.all.remove(namespace);
        }
        if before != draft {
            self.anew.insert(namespace.clone());
        }
    }

    /// Namespaces in which something changed since this was asked last.
    pub fn take_anew(&mut self) -> BTreeSet<Text> {
        std::mem::take(&mut self.anew)
    }

    /// A shape of a namespace with what is filled in, and with the first bound that does not hold;
    /// `None`: it stays as it is.
    pub fn on(&self, shape: &PodShape, namespace: &Text, contents: &Contents) -> Option<PodShape> {
        let ranges = self.all.get(namespace)?;
        let (mut filled, mut above) = (contents.clone(), None);
        let mut changed = shape.clone();
        if !contents.made {
            for (name, range) in ranges {
                above = above.or(fill(&mut filled, name, range));
            }
            changed.requests = filled.total(|lists| &lists.requests, filled.overhead.clone());
        }
        let breach = ranges.iter().find_map(|(name, range)| breach(&filled, name, range));
        changed.out_of_range = breach.or(above).map(Arc::new);
        (changed != *shape).then_some(changed)
    }
}

/// Fills in what is missing; the first request that is above a limit filled in.
fn fill(contents: &mut Contents, name: &Text, range: &LimitRangeDraft) -> Option<OutOfRange> {
    let mut found = None;
    for one in contents.containers.iter_mut().chain(&mut contents.init_containers) {
        let above = one.lists.complete(&range.of_containers);
        found = found.or_else(|| Some(out_of_range(name, &one.name, above?)));
    }
    if let Some(whole) = &mut contents.whole {
        let above = whole.complete(&range.of_pods);
        found = found.or_else(|| Some(out_of_range(name, &"".into(), above?)));
    }
    found
}

/// The first bound that does not hold: of containers, then of the pod, its overhead apart.
fn breach(contents: &Contents, name: &Text, range: &LimitRangeDraft) -> Option<OutOfRange> {
    let of_one = |one: &Contained| {
        let breach = range.containers.breach(&one.lists.requests, &one.lists.limits)?;
        Some(out_of_range(name, &one.name, breach))
    };
    contents.all().find_map(of_one).or_else(|| {
        let requests = contents.total(|lists| &lists.requests, Amounts::new());
        let limits = contents.total(|lists| &lists.limits, Amounts::new());
        Some(out_of_range(name, &"".into(), range.pods.breach(&requests, &limits)?))
    })
}

fn out_of_range(range: &Text, container: &Text, (resource, breach): (Text, Breach)) -> OutOfRange {
    OutOfRange { range: range.clone(), container: container.clone(), resource, breach }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::slice::from_ref;

    fn range(limits: Value) -> LimitRangeDraft {
        let range: LimitRange =
            serde_json::from_value(json!({ "spec": { "limits": limits } })).expect("LimitRange");
        LimitRangeDraft::of(&range).expect("draft")
    }

    /// Requests of cpu, and what is said of it.
    fn outcome(limits: &[Value], spec: Value, made: bool) -> (i64, Option<String>) {
        let spec: PodSpec = serde_json::from_value(spec).expect("spec");
        let mut shape = crate::convert::pod::shape(&spec);
        shape.requests = requests::of_pod(&spec, &PodStatus::default()).effective();
        let contents = Contents::of(&spec, made, &mut Shared::default());
        let mut ranges = LimitRanges::default();
        for (at, limits) in limits.iter().enumerate() {
            let draft = range(limits.clone());
            ranges.put(&"ns".into(), &format!("r{at}").into(), Some(draft));
        }
        let shape = ranges.on(&shape, &"ns".into(), &contents).unwrap_or(shape);
        let said = |it: Arc<OutOfRange>| {
            format!("{} {} {} {:?}", it.range, it.container, it.resource, it.breach)
        };
        let cpu = shape.requests.get("cpu").copied().unwrap_or(0);
        (cpu, shape.out_of_range.map(said))
    }

    fn one(resources: Value) -> Value {
        json!({ "containers": [{ "name": "c", "resources": resources }] })
    }

    #[test]
    fn defaults_fill_what_is_missing_as_an_api_server_would() {
        let both = json!([{ "type": "Container", "default": { "cpu": 2 },
            "defaultRequest": { "cpu": 1 } }]);
        let only_limit = json!([{ "type": "Container", "default": { "cpu": 2 } }]);
        let only_max = json!([{ "type": "Container", "max": { "cpu": 3 } }]);
        let only_min = json!([{ "type": "Container", "min": { "cpu": "250m" } }]);
        let cpu = |limits: &Value, resources| outcome(from_ref(limits), one(resources), false).0;
        assert_eq!(cpu(&both, json!({})), 1_000);
        assert_eq!(cpu(&only_limit, json!({})), 2_000);
        assert_eq!(cpu(&only_max, json!({})), 3_000);
        assert_eq!(cpu(&only_min, json!({})), 250);
        // A container's own limit is its request before a LimitRange has a say.
        assert_eq!(cpu(&both, json!({ "limits": { "cpu": "1.5" } })), 1_500);
        assert_eq!(cpu(&both, json!({ "requests": { "cpu": "0.5" } })), 500);
        // The first by name wins.
        assert_eq!(outcome(&[only_min, both], one(json!({})), false).0, 250);
    }

    #[test]
    fn every_container_is_filled_and_an_api_server_did_it_for_its_pods() {
        let limits = [json!([{ "type": "Container", "default": { "cpu": 2 } }])];
        let spec = json!({ "containers": [{ "name": "a" }, { "name": "b" }],
            "initContainers": [{ "name": "s", "restartPolicy": "Always" }, { "name": "i" }],
            "overhead": { "cpu": "500m" } });
        assert_eq!(outcome(&limits, spec.clone(), false), (6_500, None));
        assert_eq!(outcome(&limits, spec, true), (500, None));
    }

    #[test]
    fn a_pod_that_states_resources_as_a_whole_is_filled_as_a_whole() {
        let limits =
            [json!([{ "type": "Pod", "default": { "cpu": 4 } , "defaultRequest": { "cpu": 3 } }])];
        let mut spec = one(json!({ "requests": { "cpu": 1 } }));
        assert_eq!(outcome(&limits, spec.clone(), false).0, 1_000);
        spec["resources"] = json!({ "limits": { "memory": 1 } });
        assert_eq!(outcome(&limits, spec, false).0, 3_000);
    }

    #[test]
    fn the_first_bound_that_does_not_hold_is_named() {
        let bounds = json!([{ "type": "Container", "min": { "cpu": "500m" }, "max": { "cpu": 4 },
            "default": { "cpu": 3 }, "maxLimitRequestRatio": { "cpu": "1.5" } }]);
        let said = |resources, made| outcome(from_ref(&bounds), one(resources), made).1;
        let told = |what: &str| Some(format!("r0 c cpu {what}"));
        assert_eq!(said(json!({}), false), None);
        let asks = |cpu: &str| json!({ "requests": { "cpu": cpu }, "limits": { "cpu": "3" } });
        assert_eq!(said(asks("2"), false), None);
        let low = told("RequestBelowMin { request: 100, min: 500 }");
        assert_eq!(said(asks("100m"), false), low);
        let ratio = told("Ratio { request: 1000, limit: 3000, most_milli: 1500 }");
        assert_eq!(said(asks("1"), true), ratio);
        let much = told("RequestAboveMax { request: 5000, max: 4000 }");
        assert_eq!(said(json!({ "requests": { "cpu": 5 } }), true), much);
        let limit = json!({ "requests": { "cpu": 4 }, "limits": { "cpu": 5 } });
        assert_eq!(said(limit, false), told("LimitAboveMax { limit: 5000, max: 4000 }"));
        // Only what an API server fills in is below the request.
        let between = json!({ "requests": { "cpu": "3500m" } });
        assert_eq!(said(between.clone(), true), None);
        let default = told("AboveDefault { request: 3500, limit: 3000 }");
        assert_eq!(said(between, false), default);
    }

    #[test]
    fn bounds_of_pods_are_for_all_containers_together_without_overhead() {
        let limits = [json!([{ "type": "Pod", "min": { "memory": 1 }, "max": { "cpu": 3 } }])];
        let spec = |cpu: u32| {
            json!({ "overhead": { "cpu": 9 }, "containers": [
                { "name": "a", "resources": { "requests": { "cpu": cpu, "memory": 1 } } },
                { "name": "b", "resources": { "requests": { "cpu": 1 }, "limits": { "cpu": 2 } } },
            ] })
        };
        assert_eq!(outcome(&limits, spec(2), true).1, None);
        let much = "r0  cpu RequestAboveMax { request: 4000, max: 3000 }";
        assert_eq!(outcome(&limits, spec(3), true).1.as_deref(), Some(much));
        let none = "r0  memory RequestBelowMin { request: 0, min: 1 }";
        assert_eq!(outcome(&limits, one(json!({})), true).1.as_deref(), Some(none));
    }

    #[test]
    fn who_is_concerned_is_told_once() {
        let mut ranges = LimitRanges::default();
        let (a, name) = (Text::from("a"), Text::from("r"));
        let draft = range(json!([{ "type": "Container", "max": { "cpu": 1 } }]));
        ranges.put(&a, &name, Some(draft.clone()));
        assert_eq!(ranges.take_anew(), [a.clone()].into());
        ranges.put(&a, &name, Some(draft));
        assert!(ranges.take_anew().is_empty());
        ranges.put(&a, &name, None);
        assert_eq!(ranges.take_anew(), [a.clone()].into());
        ranges.put(&a, &name, None);
        assert!(ranges.take_anew().is_empty() && ranges.all.is_empty());
    }

    #[test]
    fn amounts_below_zero_are_refused() {
        let range = json!({ "spec": { "limits": [{ "type": "Pod", "max": { "cpu": -1 } }] } });
        let range: LimitRange = serde_json::from_value(range).expect("LimitRange");
        let refused = LimitRangeDraft::of(&range).expect_err("below zero");
        assert_eq!(refused[0].path, "spec.limits[0].max.cpu");
    }
}
