//! What else a pod's claims could take on a node than the first devices that meet them.
//!
//! A pod takes the first devices that will do, as kube-scheduler has it. Those may be the only ones
//! that another member of its gang can use. Here are all choices that can matter to the claims of a
//! gang: devices of which no request and no constraint of any of these claims says anything
//! different are alike, and of those it does not matter which one is taken.
//!
//! Pods of one kind are counted one after the other, too. Where their claims are such that other
//! choices may hold more of them, it says so, and how many there can be at most.
//!
//! Cost: devices are told apart once for a search; the choices of a pod on a node are found with
//! the search that finds the first one, which goes on.

use std::collections::{BTreeMap, BTreeSet};

use super::pools::{Device, DeviceAt};
use super::search::{Pick, Search, attribute, tolerated};
use super::{Needs, capacity, is_of_one_node, needs};
use crate::model::input::{
    Answer, ClaimSpec, DeviceAsk, DeviceCount, Nano, NodeFacts, PodClaim, PodShape, Reach,
    ResourceClaimKey, Text,
};
use crate::rules::dynamic_resources::state::Devices;

/// A number for each kind of device that some claims tell apart.
pub(crate) type Kind = u32;

/// What a choice takes, as far as others can tell.
pub(crate) type Taken = Vec<Took>;

/// A device of a choice, as far as others can tell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Took {
    /// The claim that has it, by its position among those of the pod, where others share that one:
    /// they go where its devices can be used. `None`: a claim of the pod alone.
    shared: Option<usize>,
    /// For administration: it is taken from nobody.
    admin: bool,
    kind: Kind,
    /// How much of it; `None`: all.
    share: Option<Vec<(Text, Nano)>>,
}

/// Devices for a pod's claims on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceWay {
    /// What others can tell of it; first, so that it is what ways are compared by.
    taken: Taken,
    pub(super) picks: Vec<Pick>,
}

impl DeviceWay {
    /// What it takes, as far as others can tell.
    pub(crate) fn taken(&self) -> &Taken {
        &self.taken
    }
}

/// Devices told apart by what the claims of a gang ask.
#[derive(Debug)]
pub(crate) struct Kinds {
    specs: Vec<ClaimSpec>,
    /// The first device of each kind.
    first: Vec<DeviceAt>,
    known: BTreeMap<DeviceAt, Kind>,
}

impl Kinds {
    /// Kinds for the claims of pods of these shapes.
    pub fn of<'a>(devices: &Devices, shapes: impl Iterator<Item = &'a PodShape>) -> Kinds {
        let specs = shapes.flat_map(|shape| &shape.claims).filter_map(|claim| match claim {
            PodClaim::Own { spec, .. } => Some(ClaimSpec::clone(spec)),
            PodClaim::Extended { claim, .. } => Some(claim.spec.clone()),
            PodClaim::Named(key) => devices.claim(key).map(|facts| ClaimSpec::clone(&facts.spec)),
            PodClaim::Unusable(_) => None,
        });
        let specs: BTreeSet<ClaimSpec> = specs.collect();
        Kinds { specs: specs.into_iter().collect(), first: Vec::new(), known: BTreeMap::new() }
    }

    /// The kind of a device.
    pub fn kind(&mut self, devices: &Devices, at: DeviceAt) -> Kind {
        if let Some(known) = self.known.get(&at) {
            return *known;
        }
        let same = self.first.iter().position(|other| self.alike(devices, *other, at));
        let kind = same.unwrap_or(self.first.len()) as Kind;
        if same.is_none() {
            self.first.push(at);
        }
        self.known.insert(at, kind);
        kind
    }

    /// Whether no claim tells two devices apart, but for who has them.
    fn alike(&self, devices: &Devices, one: DeviceAt, other: DeviceAt) -> bool {
        let [one, other] = [one, other].map(|at| devices.pools().device(at));
        let (mine, its) = (one.facts(), other.facts());
        let local = |device: &Device| matches!(device.slice.nodes, Reach::Node(_));
        let reach = |device: &Device| (!local(device)).then(|| device.slice.nodes.clone());
        if mine.shared || its.shared || (&mine.nodes, mine.binds) != (&its.nodes, its.binds) {
            return false;
        }
        if mine.ready_when != its.ready_when || one.consumes != other.consumes {
            return false;
        }
        reach(one) == reach(other)
            && self.specs.iter().all(|spec| {
                let asks = spec.requests.iter().flat_map(|request| &request.options);
                let mut wished = spec.constraints.iter().map(|constraint| &constraint.attribute);
                asks.into_iter().all(|ask| answers_alike(devices, ask, one, other))
                    && wished.all(|name| {
                        let [mine, its] = [one, other]
                            .map(|device| attribute(device.facts(), &device.slice.driver, name));
                        mine == its
                    })
            })
    }

    /// What a node offers to claims of these kinds: the kinds of its devices, and whether somebody
    /// has them. `false`: that does not tell all, as devices are shared or reached from elsewhere.
    pub fn look(&mut self, devices: &Devices, node: &NodeFacts, looks: &mut Vec<u32>) -> bool {
        let reached = devices.pools().reached(node);
        let mut offered: Vec<u32> = Vec::new();
        for &at in &reached.devices {
            let device = devices.pools().device(at);
            let local = matches!(device.slice.nodes, Reach::Node(_));
            let usage = devices.usage(at);
            let in_part = device.facts().shared || usage.shares > 0;
            if !local || in_part || !device.consumes.is_empty() {
                return false;
            }
            offered.push(2 * self.kind(devices, at) + u32::from(usage.whole > 0));
        }
        offered.sort_unstable();
        looks.push(offered.len() as u32);
        looks.append(&mut offered);
        reached.unusable.is_none()
    }
}

fn answers_alike(devices: &Devices, ask: &DeviceAsk, one: &Device, other: &Device) -> bool {
    let said = |device: &Device| match devices.answer(&ask.query, device) {
        None | Some(Answer::No | Answer::Awaited) => Some(false),
        Some(Answer::Yes) => Some(true),
        Some(Answer::Fails(_)) => None,
    };
    let stands = |device: &Device| {
        device.facts().taints.iter().all(|taint| tolerated(&ask.tolerations, taint))
    };
    let given = |device: &Device| capacity::taken(device.facts(), &ask.capacity).is_some();
    let (mine, its) = (said(one), said(other));
    mine.is_some() && mine == its && stands(one) == stands(other) && given(one) == given(other)
}

/// Choices of a search that goes on after the first.
pub(super) struct Others<'a> {
    kinds: &'a mut Kinds,
    /// Claims that others share, by position among those asked for.
    shared: Vec<Option<usize>>,
    most: usize,
    seen: BTreeSet<Taken>,
    found: Vec<DeviceWay>,
    more: bool,
}

impl Others<'_> {
    /// The kind of a device.
    pub fn kind(&mut self, devices: &Devices, at: DeviceAt) -> Kind {
        self.kinds.kind(devices, at)
    }

    /// Takes a choice down; `true`: there are more than were asked for.
    pub fn take(&mut self, devices: &Devices, picks: &[Pick]) -> bool {
        let tell = picks.iter().filter(|pick| !pick.admin || self.shared[pick.claim].is_some());
        let took = tell.map(|pick| Took {
            shared: self.shared[pick.claim],
            admin: pick.admin,
            kind: self.kinds.kind(devices, pick.device),
            share: pick.share.clone(),
        });
        let mut taken: Taken = took.collect();
        taken.sort_unstable();
        if self.seen.contains(&taken) {
            return false;
        }
        self.more = self.found.len() == self.most;
        if !self.more {
            self.seen.insert(taken.clone());
            self.found.push(DeviceWay { taken, picks: picks.to_vec() });
        }
        self.more
    }
}

/// All choices of devices for a pod on a node that can matter to others, the first one first;
/// `false`: there are more than `most`, or more than can be looked at.
pub(crate) fn ways(
    devices: &Devices,
    shape: &PodShape,
    node: &NodeFacts,
    kinds: &mut Kinds,
    most: usize,
) -> (Vec<DeviceWay>, bool) {
    let Ok(needs) = needs(devices, shape, node) else { return (Vec::new(), true) };
    let specs = Needs::specs(&needs);
    let mut search = Search::new(devices, node, &specs);
    let (seen, found) = (BTreeSet::new(), Vec::new());
    let shared = needs.claims.iter().enumerate();
    let shared = shared.map(|(at, claim)| (at >= needs.own).then_some(*claim)).collect();
    search.others = Some(Others { kinds, shared, most, seen, found, more: false });
    let cut = matches!(search.next(), Err(super::Stop::TooLong));
    let others = search.others.take().expect("set above");
    let whole = !cut && !others.more;
    (others.found, whole)
}

/// Whether nobody has what a choice takes all of.
pub(crate) fn are_free(devices: &Devices, way: &DeviceWay) -> bool {
    let whole = way.picks.iter().filter(|pick| !pick.admin && pick.share.is_none());
    let mut whole = whole.map(|pick| pick.device);
    whole.all(|device| devices.usage(device).whole == 0)
}

/// Whether taking the first devices that will do may leave less for the next pod of the same kind
/// than taking others: then pods that are counted one after the other may be too few.
pub(crate) fn are_choosy(devices: &Devices, shape: &PodShape) -> bool {
    let mut own = own_specs(shape);
    let (first, second) = (own.next(), own.next());
    // Several devices of one claim are different ones: of shares some may be left that are all of
    // one device.
    let several = |ask: &DeviceAsk| matches!(ask.count, DeviceCount::Exactly(2..));
    let plain = |spec: &ClaimSpec| match &spec.requests[..] {
        [request] if request.options.len() == 1 => {
            let several = request.options.iter().any(several);
            spec.constraints.is_empty() && !(several && devices.pools().any_shared())
        }
        _ => false,
    };
    let shares = |claim: &PodClaim| match claim {
        PodClaim::Named(key) => devices.is_untaken(key),
        _ => false,
    };
    let shares = || shape.claims.iter().any(shares);
    let counters = || !devices.pools().counters().is_empty();
    first.is_some_and(|spec| second.is_some() || !plain(spec) || counters() || shares())
}

/// Whether others that come with a pod, and get devices first, may open nodes for it. What stops a
/// search is a device on which a selector fails, or one of "all" that a constraint keeps out: none
/// of either is looked at once somebody has it, or has what came before. And a claim that is
/// `shared` asks nothing more of a node that can use what it got: where it is for all devices, that
/// may be a node where it could not have got them.
pub(crate) fn may_be_opened(
    devices: &Devices,
    shape: &PodShape,
    shared: impl Fn(&ResourceClaimKey) -> bool,
) -> bool {
    let any = |spec: &ClaimSpec, of: fn(&Devices, &DeviceAsk) -> bool| {
        let mut asks = spec.requests.iter().flat_map(|request| &request.options);
        asks.any(|ask| of(devices, ask))
    };
    let all = |spec: &ClaimSpec| any(spec, |_, ask| ask.count == DeviceCount::All);
    let stopped = |spec: &ClaimSpec| {
        any(spec, |devices, ask| devices.fails(&ask.query))
            || !spec.constraints.is_empty() && all(spec)
    };
    shape.claims.iter().any(|claim| match claim {
        PodClaim::Own { spec, .. } => stopped(spec),
        PodClaim::Extended { claim, .. } => stopped(&claim.spec),
        PodClaim::Named(key) if devices.is_untaken(key) => {
            let spec = devices.claim(key).map(|facts| &facts.spec);
            spec.is_some_and(|spec| {
                stopped(spec) || shared(key) && all(spec) && !is_of_one_node(devices, key)
            })
        }
        PodClaim::Named(_) | PodClaim::Unusable(_) => false,
    })
}

/// Claims of each pod of a kind.
fn own_specs(shape: &PodShape) -> impl Iterator<Item = &ClaimSpec> {
    shape.claims.iter().filter_map(|claim| match claim {
        PodClaim::Own { spec, .. } => Some(&**spec),
        PodClaim::Extended { claim, .. } => Some(&claim.spec),
        PodClaim::Named(_) | PodClaim::Unusable(_) => None,
    })
}

/// No more pods of a kind than this get devices of a node, by their number alone.
pub(crate) fn most(devices: &Devices, shape: &PodShape, node: &NodeFacts) -> u32 {
    let Ok(needs) = needs(devices, shape, node) else { return 0 };
    let least = |ask: &DeviceAsk| match ask.count {
        _ if ask.admin => 0,
        DeviceCount::Exactly(count) => count,
        DeviceCount::All => 1,
    };
    let own = needs.specs.iter().take(needs.own).flat_map(|spec| &spec.requests);
    let least = own.map(|request| request.options.iter().map(least).min().unwrap_or(0));
    let least = least.fold(0, u64::saturating_add);
    let reached = devices.pools().reached(node).devices;
    let shared = |at: &DeviceAt| devices.pools().device(*at).facts().shared;
    if least == 0 || reached.iter().any(shared) {
        return u32::MAX;
    }
    let free = reached.iter().filter(|at| devices.usage(**at).whole == 0).count() as u64;
    u32::try_from(free / least).unwrap_or(u32::MAX)
}
