//! What pods want of the pods around them: affinity, anti-affinity, spread.

use capstan_tests::seed::Seed;
use serde_json::{Value, json};

use super::nodes::{HOSTNAME, ZONE};
use super::one_in;
use crate::case::NAMESPACES;

/// Values of the label that most selectors read.
pub const APPS: [&str; 3] = ["web", "db", "cache"];

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Adds a wish.
pub fn wish(seed: &mut Seed, pod: &mut Value) {
    match seed.below(8) {
        0..=3 => spread(seed, pod),
        4 | 5 => peers(seed, pod, "podAffinity"),
        _ => peers(seed, pod, "podAntiAffinity"),
    }
}

/// What a pod with a place keeps away.
pub fn held(seed: &mut Seed, pod: &mut Value) {
    if one_in(seed, 5) {
        peers(seed, pod, "podAntiAffinity");
    }
}

fn key(seed: &mut Seed) -> &'static str {
    let key: &&str = seed.pick(&[HOSTNAME, ZONE, ZONE, "rack"]);
    key
}

fn selector(seed: &mut Seed) -> Value {
    let app = *seed.pick(&APPS);
    match seed.below(10) {
        0 => json!({}),
        1 => json!({"matchLabels": {"app": app, "tier": seed.pick(&["front", "back"])}}),
        2 => expression("app", "In", &[app, "other"]),
        3 => expression("app", "NotIn", &[app]),
        4 => expression("tier", "Exists", &[]),
        5 => expression("tier", "DoesNotExist", &[]),
        _ => json!({"matchLabels": {"app": app}}),
    }
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    let mut one = json!({"key": key, "operator": operator});
    if !values.is_empty() {
        one["values"] = json!(values);
    }
    json!({"matchExpressions": [one]})
}

fn peers(seed: &mut Seed, pod: &mut Value, kind: &str) {
    let count = if one_in(seed, 4) { 2 } else { 1 };
    let terms: Vec<Value> = (0..count).map(|_| term(seed)).collect();
    pod["spec"]["affinity"][kind][REQUIRED] = json!(terms);
}

fn term(seed: &mut Seed) -> Value {
    let mut term = json!({"topologyKey": key(seed)});
    let labels = !one_in(seed, 12);
    if labels {
        term["labelSelector"] = selector(seed);
    }
    let namespace = seed.pick(&NAMESPACES).0;
    match seed.below(8) {
        0 => term["namespaces"] = json!([namespace]),
        1 => term["namespaceSelector"] = json!({}),
        2 => term["namespaceSelector"] = json!({"matchLabels": {"tier": "gold"}}),
        3 => {
            let team = expression("team", "In", &["red", "grey"]);
            term["namespaceSelector"] = team;
        }
        4 => {
            term["namespaces"] = json!([namespace]);
            term["namespaceSelector"] = json!({"matchLabels": {"team": "blue"}});
        }
        _ => {}
    }
    if labels && one_in(seed, 5) {
        let kind = *seed.pick(&["matchLabelKeys", "mismatchLabelKeys"]);
        term[kind] = json!(["version"]);
    }
    term
}

fn spread(seed: &mut Seed, pod: &mut Value) {
    let mut constraints = vec![constraint(seed)];
    if one_in(seed, 3) {
        let other = constraint(seed);
        if other["topologyKey"] != constraints[0]["topologyKey"] {
            constraints.push(other);
        }
    }
    pod["spec"]["topologySpreadConstraints"] = json!(constraints);
}

fn constraint(seed: &mut Seed) -> Value {
    let mut constraint = json!({
        "topologyKey": key(seed),
        "maxSkew": seed.between(1, 2),
        "whenUnsatisfiable": "DoNotSchedule",
    });
    let labels = !one_in(seed, 12);
    if labels {
        constraint["labelSelector"] = selector(seed);
    }
    if one_in(seed, 10) {
        constraint["whenUnsatisfiable"] = json!("ScheduleAnyway");
    } else if one_in(seed, 3) {
        constraint["minDomains"] = json!(seed.between(1, 4));
    }
    if labels && one_in(seed, 4) {
        constraint["matchLabelKeys"] = json!(["version"]);
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if one_in(seed, 3) {
            constraint[policy] = json!(seed.pick(&["Honor", "Ignore"]));
        }
    }
    constraint
}
