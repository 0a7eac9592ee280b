//! What a pod counts against quota, which may be something else than what it asks of nodes.
//!
//! Resources with an excluded prefix are left out first; then every transformation of the
//! configuration adds its outputs for what is left of its input, and takes that away if it
//! replaces it (spec/quota.md 2). Sums are exact down to a billionth of a unit and are rounded up
//! once, for one pod; what comes out below zero is zero. Nodes are charged what is asked.

use std::collections::BTreeMap;

use crate::explain::quantity::USD_PER_HOUR;
use crate::model::input::{Amounts, Text};
use crate::policy::{QuotaArgs, Transformation};

/// Thousandths of a unit in one of what the engine counts a resource in.
fn milli(resource: &str) -> i128 {
    if resource == "cpu" { 1 } else { 1_000 }
}

/// Parts of one unit in which outputs are added up: billionths of the factor, thousandths of the
/// input and thousandths of what multiplies it.
const PARTS: i128 = 1_000_000_000 * 1_000 * 1_000;

/// What a pod that asks this counts against quota, the one of `pods` apart. Money is never asked:
/// it is what the pod costs where it goes.
pub fn counted(args: &QuotaArgs, asked: &Amounts) -> Amounts {
    let mut counted = of_requests(args, asked);
    counted.remove(USD_PER_HOUR);
    counted
}

fn of_requests(args: &QuotaArgs, asked: &Amounts) -> Amounts {
    let left = asked.iter().filter(|(name, _)| args.counts(name));
    let left: Amounts = left.map(|(name, amount)| (name.clone(), *amount)).collect();
    if !args.transformations.iter().any(|it| left.contains_key(&it.input)) {
        return left;
    }
    let mut kept = left.clone();
    let mut made: BTreeMap<&Text, i128> = BTreeMap::new();
    for transformation in &args.transformations {
        let Some(&amount) = left.get(&transformation.input) else { continue };
        if transformation.replaces {
            kept.remove(&transformation.input);
        }
        for (output, each) in &transformation.outputs {
            let sum = made.entry(output).or_default();
            *sum = sum.saturating_add(parts(transformation, amount, &left).saturating_mul(*each));
        }
    }
    for (output, parts) in made {
        let made = amount_of(output, parts);
        if made > 0 {
            let amount = kept.entry(output.clone()).or_default();
            *amount = amount.saturating_add(made);
        }
    }
    kept
}

/// So much of an input, times what multiplies it: in thousandths, times a thousand. What is not
/// asked multiplies nothing.
fn parts(transformation: &Transformation, amount: i64, asked: &Amounts) -> i128 {
    let by = transformation.multiply_by.as_ref();
    let by = by.and_then(|name| Some(i128::from(*asked.get(name)?) * milli(name)));
    let amount = i128::from(amount) * milli(&transformation.input);
    amount.saturating_mul(by.unwrap_or(1_000))
}

/// Parts of a unit in what the engine counts a resource in, rounded up; below zero is zero.
fn amount_of(resource: &str, parts: i128) -> i64 {
    let step = PARTS * milli(resource) / 1_000;
    let whole = parts.max(0) / step + i128::from(parts.max(0) % step != 0);
    i64::try_from(whole).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: i128 = 1_000_000_000;

    fn amounts(list: &[(&str, i64)]) -> Amounts {
        list.iter().map(|(name, amount)| ((*name).into(), *amount)).collect()
    }

    fn from(input: &str, replaces: bool, outputs: &[(&str, i128)]) -> Transformation {
        let outputs = outputs.iter().map(|(name, each)| ((*name).into(), *each)).collect();
        Transformation { input: input.into(), replaces, multiply_by: None, outputs }
    }

    fn args(transformations: Vec<Transformation>) -> QuotaArgs {
        QuotaArgs { transformations, ..QuotaArgs::default() }
    }

    #[test]
    fn an_input_is_kept_or_replaced() {
        let asked = amounts(&[("cpu", 500), ("x.io/slice", 2)]);
        let kept = args(vec![from("x.io/slice", false, &[("x.io/memory", 10 * UNIT)])]);
        let all = [("cpu", 500), ("x.io/memory", 20), ("x.io/slice", 2)];
        assert_eq!(counted(&kept, &asked), amounts(&all));
        let replaced = args(vec![from("x.io/slice", true, &[("x.io/memory", 10 * UNIT)])]);
        assert_eq!(counted(&replaced, &asked), amounts(&[("cpu", 500), ("x.io/memory", 20)]));
        assert_eq!(counted(&replaced, &amounts(&[("cpu", 500)])), amounts(&[("cpu", 500)]));
    }

    #[test]
    fn outputs_of_several_inputs_add_up_to_what_is_asked_itself() {
        let both = args(vec![
            from("x.io/a", true, &[("x.io/credits", UNIT / 2)]),
            from("x.io/b", true, &[("x.io/credits", UNIT / 4)]),
        ]);
        let asked = amounts(&[("x.io/a", 3), ("x.io/b", 1), ("x.io/credits", 5)]);
        // 1.5 and 0.25 are rounded up together.
        assert_eq!(counted(&both, &asked), amounts(&[("x.io/credits", 7)]));
    }

    #[test]
    fn cpu_is_counted_in_milli_units_on_both_sides() {
        let from_cpu = args(vec![from("cpu", false, &[("x.io/credits", 3 * UNIT)])]);
        let all = [("cpu", 1_500), ("x.io/credits", 5)];
        assert_eq!(counted(&from_cpu, &amounts(&[("cpu", 1_500)])), amounts(&all));
        let to_cpu = args(vec![from("x.io/a", true, &[("cpu", UNIT / 4)])]);
        let asked = amounts(&[("cpu", 100), ("x.io/a", 3)]);
        assert_eq!(counted(&to_cpu, &asked), amounts(&[("cpu", 850)]));
    }

    #[test]
    fn another_resource_multiplies_what_comes_out_and_not_what_is_kept() {
        let mut by = from("x.io/mem", false, &[("x.io/total", UNIT)]);
        by.multiply_by = Some("x.io/gpu".into());
        let by = args(vec![by]);
        let asked = amounts(&[("x.io/gpu", 4), ("x.io/mem", 10)]);
        let all = [("x.io/gpu", 4), ("x.io/mem", 10), ("x.io/total", 40)];
        assert_eq!(counted(&by, &asked), amounts(&all));
        let alone = [("x.io/mem", 10), ("x.io/total", 10)];
        assert_eq!(counted(&by, &amounts(&[("x.io/mem", 10)])), amounts(&alone));
    }

    #[test]
    fn an_allowance_cancels_outputs_and_never_what_is_asked() {
        let allowed = args(vec![
            from("cpu", false, &[("x.io/credits", UNIT)]),
            from("x.io/gpu", false, &[("x.io/credits", -4 * UNIT), ("memory", -UNIT)]),
        ]);
        let asked = |cpu: i64| amounts(&[("cpu", cpu), ("memory", 9), ("x.io/gpu", 1)]);
        assert_eq!(counted(&allowed, &asked(3_000)), asked(3_000));
        assert_eq!(counted(&allowed, &asked(6_000)).get("x.io/credits"), Some(&2));
        assert_eq!(counted(&allowed, &asked(6_000)).get("memory"), Some(&9));
    }

    #[test]
    fn what_is_left_out_is_no_input() {
        let excluded_prefixes = vec!["x.io/".into()];
        let transformations = vec![from("x.io/a", false, &[("x.io/b", UNIT)])];
        let args = QuotaArgs { excluded_prefixes, transformations, ..QuotaArgs::default() };
        assert_eq!(counted(&args, &amounts(&[("x.io/a", 1), ("y", 1)])), amounts(&[("y", 1)]));
    }

    #[test]
    fn sums_saturate() {
        let huge = args(vec![from("x.io/a", true, &[("x.io/b", i128::MAX)])]);
        let asked = amounts(&[("x.io/a", i64::MAX)]);
        assert_eq!(counted(&huge, &asked), amounts(&[("x.io/b", i64::MAX)]));
    }
}
