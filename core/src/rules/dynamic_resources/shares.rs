//! How much devices are: what part of a node's devices claims ask for, which is what they cost
//! there, and how many GPUs they have.
//!
//! A pod that asks for one of eight devices takes an eighth of its node, whatever else it takes
//! little of. Asked is what its claims say, and the whole is what the node's slices publish of what
//! the selectors match, free or not: neither depends on who runs there or on which devices it is
//! in the end, so that a price is known before, and the same after. Of a request with alternatives
//! the first counts that the node could meet if nobody else were there. A claim that several pods
//! use counts for each of them: who can use a device holds it.
//!
//! GPUs are counted where they are had: a device is the part of a GPU that [`gpus`] says, and of
//! one that several claims share, the largest part of any capacity that its claim takes. A claim
//! that several pods of a workload use counts once there. Devices for extended resources that are
//! GPUs by their names are not counted here: their pods' requests tell as many.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::asked_of_devices;
use super::pools::Reached;
use super::state::Devices;
use crate::gpus::{self, MILLI, is_gpu};
use crate::model::ids::PodIdx;
use crate::model::input::{
    AllocatedDevice, Answer, ClaimSpec, DeviceAsk, DeviceCount, NodeFacts, PodClaim, PodShape,
    RequestSpec, ResourceClaimKey, Text,
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

impl Devices {
    /// Thousandths of GPUs that a pod's claims have which its requests do not tell; `names`: its
    /// namespace, and the claims, where they exist. What it uses with others counts once for all of
    /// whom `seen` is kept.
    pub(crate) fn milli_gpus(
        &self,
        (pod, names): (PodIdx, Option<(&Text, &[Text])>),
        shape: &PodShape,
        seen: &mut BTreeSet<ResourceClaimKey>,
    ) -> i64 {
        let hold = self.held.get(&pod);
        let shown = |key: &ResourceClaimKey| self.claims.get(key)?.allocation.as_ref();
        let named = |at: usize| {
            let (of, names) = names?;
            shown(&(of.clone(), names.get(at)?.clone()))
        };
        let mut sum = 0_i64;
        for (at, claim) in shape.claims.iter().enumerate() {
            let (chosen, shown) = match claim {
                PodClaim::Named(key) if !seen.insert(key.clone()) => continue,
                PodClaim::Named(key) => (hold.and_then(|hold| hold.shared(key)), shown(key)),
                // What is left of extended resources that no class backs any more asks nothing.
                PodClaim::Own { spec, .. } if spec.requests.is_empty() => {
                    (hold.and_then(|hold| hold.own(at)), None)
                }
                PodClaim::Own { .. } => (hold.and_then(|hold| hold.own(at)), named(at)),
                PodClaim::Extended { claim, .. }
                    if !claim.resources.iter().any(|it| is_gpu(it)) =>
                {
                    (hold.and_then(|hold| hold.own(at)), named(at))
                }
                PodClaim::Extended { .. } | PodClaim::Unusable(_) => continue,
            };
            let chosen = chosen.into_iter().flat_map(|chosen| &chosen.devices);
            let chosen = chosen.filter(|one| !one.admin).map(|one| &one.device);
            // What the API shows counts, else what is held until it does.
            sum = match shown {
                Some(shown) => self.add_milli(sum, shown.devices.iter()),
                None => self.add_milli(sum, chosen),
            };
        }
        sum
    }

    fn add_milli<'a>(&self, to: i64, devices: impl Iterator<Item = &'a AllocatedDevice>) -> i64 {
        devices.map(|device| self.milli(device)).fold(to, i64::saturating_add)
    }

    /// Thousandths of a GPU that a device is, as far as it is had.
    fn milli(&self, device: &AllocatedDevice) -> i64 {
        let facts = self.pools().find(&device.id).map(|at| self.pools().device(at).facts());
        let none = BTreeMap::new();
        let attributes = facts.map_or(&none, |facts| &facts.attributes);
        let Some(share) = gpus::device_share(&device.id.0, attributes) else { return 0 };
        let Some(facts) = facts.filter(|_| device.share) else { return share.milli(1) };
        let taken = device.consumed.iter().filter_map(|(name, taken)| {
            let has = facts.capacity.get(name)?.value.0;
            (has > 0).then(|| gpus::rounded_up(taken.0, has).min(MILLI))
        });
        let millionths = share.milli(taken.max().unwrap_or(MILLI));
        gpus::rounded_up(millionths.into(), i128::from(MILLI * MILLI))
    }
}
