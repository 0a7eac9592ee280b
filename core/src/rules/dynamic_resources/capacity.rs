//! Shares of a device's capacity, as kube-scheduler counts them.
//!
//! Decides what a claim takes of each capacity of a device: what it asks, rounded up to what the
//! device's policy lets one have; where it asks nothing, the policy's default, else all of it.

use std::collections::BTreeMap;

use crate::model::input::{Capacity, CapacityRange, DeviceFacts, Nano, Text};

/// What a claim that asks so much takes of each capacity of a device; `None`: the device cannot
/// give that to anybody.
pub(super) fn taken(
    device: &DeviceFacts,
    asked: &BTreeMap<Text, Nano>,
) -> Option<BTreeMap<Text, Nano>> {
    if asked.keys().any(|name| !device.capacity.contains_key(name)) {
        return None;
    }
    let mut all = BTreeMap::new();
    for (name, capacity) in &device.capacity {
        let amount = share(capacity, asked.get(name).copied());
        if amount < Nano(0) || !allowed(capacity, amount) || amount > capacity.value {
            return None;
        }
        all.insert(name.clone(), amount);
    }
    Some(all)
}

/// What one who asks so much takes.
fn share(capacity: &Capacity, asked: Option<Nano>) -> Nano {
    let policy = capacity.policy.as_ref();
    let Some(asked) = asked else {
        return policy.and_then(|policy| policy.default).unwrap_or(capacity.value);
    };
    let Some(policy) = policy else { return asked };
    match &policy.range {
        Some(range) => rounded(range, asked),
        None => policy.values.iter().copied().find(|value| asked <= *value).unwrap_or(asked),
    }
}

/// The least amount of a range that is not below what is asked.
fn rounded(range: &CapacityRange, asked: Nano) -> Nano {
    if asked < range.min {
        return range.min;
    }
    match range.step.filter(|step| step.0 > 0) {
        None => asked,
        Some(step) => {
            let beyond = asked.0 - range.min.0;
            let steps = beyond / step.0 + i128::from(beyond % step.0 != 0);
            Nano(range.min.0.saturating_add(steps.saturating_mul(step.0)))
        }
    }
}

/// Whether a policy lets one have an amount.
fn allowed(capacity: &Capacity, amount: Nano) -> bool {
    let Some(policy) = &capacity.policy else { return true };
    if policy.default == Some(amount) {
        return true;
    }
    match &policy.range {
        Some(range) => {
            let on_a_step = |step: Nano| step.0 <= 0 || (amount.0 - range.min.0) % step.0 == 0;
            range.max.is_none_or(|max| amount <= max) && range.step.is_none_or(on_a_step)
        }
        None => policy.values.is_empty() || policy.values.contains(&amount),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::CapacityPolicy;

    fn with(policy: Option<CapacityPolicy>) -> Capacity {
        Capacity { value: Nano(80), policy }
    }

    #[test]
    fn without_a_policy_nothing_asked_is_all_of_it() {
        assert_eq!(share(&with(None), None), Nano(80));
        assert_eq!(share(&with(None), Some(Nano(7))), Nano(7));
    }

    #[test]
    fn amounts_are_rounded_up_to_what_can_be_had() {
        let range = CapacityRange { min: Nano(10), max: Some(Nano(40)), step: Some(Nano(4)) };
        let stepped = with(Some(CapacityPolicy { range: Some(range), ..Default::default() }));
        assert_eq!(share(&stepped, Some(Nano(1))), Nano(10));
        assert_eq!(share(&stepped, Some(Nano(11))), Nano(14));
        assert!(allowed(&stepped, Nano(14)) && !allowed(&stepped, Nano(13)));
        assert!(!allowed(&stepped, Nano(42)), "beyond the most");
        let values = vec![Nano(5), Nano(20)];
        let listed = with(Some(CapacityPolicy { values, ..Default::default() }));
        assert_eq!(share(&listed, Some(Nano(6))), Nano(20));
        assert!(!allowed(&listed, share(&listed, Some(Nano(21)))), "more than any value");
    }

    #[test]
    fn the_default_is_taken_where_nothing_is_asked() {
        let policy =
            CapacityPolicy { default: Some(Nano(3)), values: vec![Nano(5)], ..Default::default() };
        let capacity = with(Some(policy));
        assert_eq!(share(&capacity, None), Nano(3));
        assert!(allowed(&capacity, Nano(3)));
    }
}
