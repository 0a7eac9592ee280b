//! How much devices are: what part of a node's devices claims ask for, which is what they cost
//! there.
//!
//! A pod that asks for one of eight devices takes an eighth of its node, whatever else it takes
//! little of. Asked is what its claims say, and the whole is what the node's slices publish of what
//! the selectors match, free or not: neither depends on who runs there or on which devices it is
//! in the end, so that a price is known before, and the same after. Of a request with alternatives
//! the first counts that the node could meet if nobody else were there. A claim that several pods
//! use counts for each of them: who can use a device holds it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::asked_of_devices;
use super::pools::Reached;
use super::state::Devices;
use crate::model::input::{
    Answer, ClaimSpec, DeviceAsk, DeviceCount, NodeFacts, PodClaim, PodShape, RequestSpec, Text,
};

/// The largest part that claims of a pod of a shape ask of a node's devices of one kind, as a
/// fraction.
pub(crate) fn of_node(devices: &Devices, shape: &PodShape, node: &NodeFacts) -> (i64, i64) {
    let specs: Vec<Cow<'_, ClaimSpec>> = shape
        .claims
        .iter()
        .filter_map(|claim| match claim {
            PodClaim::Own { spec, .. } => Some(Cow::Borrowed(&**spec)),
            PodClaim::Extended { claim, .. } => asked_of_devices(claim, node),
            PodClaim::Named(key) => devices.claim(key).map(|claim| Cow::Borrowed(&*claim.spec)),
            PodClaim::Unusable(_) => None,
        })
        .collect();
    let counts = Counts { devices, reached: devices.pools().reached(node) };
    let mut asked: BTreeMap<&Text, (i64, i64)> = BTreeMap::new();
    for request in specs.iter().flat_map(|spec| &spec.requests) {
        let Some((ask, count, matching)) = counts.met(request) else { continue };
        let sum = asked.entry(&ask.query).or_insert((0, matching));
        sum.0 = sum.0.saturating_add(count).min(matching);
    }
    asked.into_values().fold((0, 1), larger)
}

/// The larger of two parts; of equal ones the first.
pub(crate) fn larger(one: (i64, i64), other: (i64, i64)) -> (i64, i64) {
    let (mine, its) = (i128::from(one.0), i128::from(other.0));
    if its * i128::from(one.1) > mine * i128::from(other.1) { other } else { one }
}

/// What a node has of what is asked.
struct Counts<'a> {
    devices: &'a Devices,
    reached: Reached<'a>,
}

impl Counts<'_> {
    /// The option that counts of a request, how many devices it is for, and of how many; `None`:
    /// the node has none, or it keeps none from others.
    fn met<'r>(&self, request: &'r RequestSpec) -> Option<(&'r DeviceAsk, i64, i64)> {
        let counted = |ask: &'r DeviceAsk| {
            let matching = self.matching(ask);
            let count = match ask.count {
                DeviceCount::Exactly(count) => i64::try_from(count).unwrap_or(i64::MAX),
                DeviceCount::All => matching,
            };
            (ask, count, matching)
        };
        let mut options = request.options.iter().map(counted);
        let first = options.next()?;
        let could = |(_, count, matching): &(_, i64, i64)| *matching > 0 && count <= matching;
        let met = if could(&first) { first } else { options.find(could).unwrap_or(first) };
        Some(met).filter(|(ask, _, matching)| !ask.admin && *matching > 0)
    }

    fn matching(&self, ask: &DeviceAsk) -> i64 {
        let pools = self.devices.pools();
        let matches =
            |at: &&u32| self.devices.answer(&ask.query, pools.device(**at)) == Some(&Answer::Yes);
        let count = self.reached.devices.iter().filter(matches).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }
}
