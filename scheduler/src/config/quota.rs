//! `resources`: what counts against quota, and as what.
//!
//! Decides which transformations are refused: those that Kueue refuses, and those that could come
//! to nothing (`pods` are counted one by one, and money is what nodes cost, whatever is said of
//! them).

use std::collections::BTreeSet;

use capstan_core::explain::quantity::USD_PER_HOUR;
use capstan_core::policy::{self, QuotaArgs};

use super::file::{QuotaCheckStrategy, Resources, Transformation, TransformationStrategy};
use super::validate::Finding;
use crate::read::schema::field;

/// What counts against quota.
pub fn args(resources: &Resources, errors: &mut Vec<Finding>) -> QuotaArgs {
    let prefixes = resources.exclude_resource_prefixes.iter();
    check(&resources.transformations, errors);
    QuotaArgs {
        excluded_prefixes: prefixes.map(|prefix| prefix.as_str().into()).collect(),
        ignore_undeclared: matches!(
            resources.quota_check_strategy,
            Some(QuotaCheckStrategy::IgnoreUndeclared)
        ),
        transformations: resources.transformations.iter().map(transformation).collect(),
    }
}

fn transformation(given: &Transformation) -> policy::Transformation {
    let outputs = given.outputs.iter().map(|(name, each)| (name.as_str().into(), each.nano()));
    policy::Transformation {
        input: given.input.as_str().into(),
        replaces: matches!(given.strategy, Some(TransformationStrategy::Replace)),
        multiply_by: given.multiply_by.as_deref().map(Into::into),
        outputs: outputs.collect(),
    }
}

/// Why money is no part of a transformation.
const PRICED: &str = "money is what nodes cost; name another resource";

fn check(given: &[Transformation], errors: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for (index, one) in given.iter().enumerate() {
        let path = |of: &str| format!("resources.transformations[{index}].{of}");
        let mut refuse = |path: String, problem: &str| errors.push((path, problem.to_owned()));
        let counted = "pods are counted one by one; name another resource";
        match one.input.as_str() {
            "" => refuse(path("input"), "empty; name a resource"),
            "pods" => refuse(path("input"), counted),
            USD_PER_HOUR => refuse(path("input"), PRICED),
            input if !seen.insert(input) => {
                let problem = format!("{input} is transformed twice; put its outputs together");
                refuse(path("input"), &problem);
            }
            _ => {}
        }
        match one.multiply_by.as_deref() {
            Some("") => refuse(path("multiplyBy"), "empty; name a resource, or leave it out"),
            Some("pods") => refuse(path("multiplyBy"), counted),
            Some(USD_PER_HOUR) => refuse(path("multiplyBy"), PRICED),
            _ => {}
        }
        if one.outputs.contains_key("") {
            refuse(path("outputs"), "an empty name; name a resource");
        }
        if one.outputs.contains_key("pods") {
            refuse(field(&path("outputs"), "pods"), counted);
        }
        if one.outputs.contains_key(USD_PER_HOUR) {
            refuse(field(&path("outputs"), USD_PER_HOUR), PRICED);
        }
    }
}
