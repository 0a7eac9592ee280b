//! DynamicResources: all claims of a pod must be met on its node.
//!
//! A claim that has devices says itself which nodes can use them. One that has none yet gets some
//! when its pod gets a place, within the transaction, so that no two members of a gang get the same
//! ones; a claim that several pods use gets them once, with the first of them.
//!
//! | file | decides |
//! |---|---|
//! | [`pools`] | which devices a node reaches, in which order |
//! | [`search`] | which of them meet all claims of a pod together |
//! | [`answers`] | what selectors say of devices, and whether all of it is known |
//! | [`capacity`] | what a claim takes of a device that several may share |
//! | [`state`] | who has which devices |
//! | [`holds`] | what pods have that the API does not show yet |
//! | [`users`] | who uses which claims, and what comes free with whom |
//! | [`reserved`] | who has reserved them |
//! | [`shares`] | what part of a node devices are, and of GPUs |
//! | [`unready`] | claims that have devices which will not be ready |
//! | [`ways`] | what else they could take than the first that will do |
//!
//! Devices that victims have are free for whom they leave for, which kube-scheduler does not look
//! at: it stops nobody for devices. They come free a moment after the victims are gone, once the
//! controller of claims has taken them back: until then they are kept, and waited for. A claim that
//! only victims use gets others then, if the preemptor needs it too.
//!
//! An extended resource that a DeviceClass backs is met by devices of that class on nodes that have
//! none of it themselves (DRAExtendedResource, KEP-5004): there [`resources_fit`] has no say, and
//! all such resources of a pod together are one more claim of its own. On a node that has the
//! resource, of a device plugin, the ordinary count decides and no claim is made.
//!
//! Devices whose driver has to say that they are ready before a pod is bound (binding conditions)
//! are tried last, and waited for once they are allocated (`engine/readiness.rs`). A claim that has
//! devices which will not be ready is of no use to a pod on any node.
//!
//! What is found with devices of no use is given back (`engine/giving_back.rs`), and so is what
//! pods that wait have reserved: by a preemptor before anybody leaves for it. From when a claim is
//! to lose its devices by that until it shows so, no node will do for a pod that names it: they
//! would be gone when it comes for them.
//!
//! Restart: all of it is derived from slices, claims and pods. What is kept follows from marks on
//! victims that are still there; between the end of the last one and that of its claim nothing
//! tells of it.
//!
//! [`resources_fit`]: super::resources_fit

use std::borrow::Cow;
use std::sync::Arc;

use crate::explain::reason::NodeRefusal;
use crate::model::input::{
    Answer, ClaimSpec, DeviceAsk, DeviceCount, ExtendedClaim, NodeFacts, NodeSelector, PodClaim,
    PodShape, RequestSpec, ResourceClaimKey, Text,
};
use crate::plan::{Chosen, ChosenDevice};
use crate::rules::Question;
use crate::rules::selector::node_matches;

mod answers;
mod capacity;
mod holds;
mod pools;
mod reserved;
pub(crate) mod search;
pub(crate) mod shares;
mod state;
mod unready;
mod users;
pub(crate) mod ways;

#[cfg(test)]
mod tests;

pub use holds::PodHold;
pub(crate) use reserved::Reserver;
pub use state::{Concerns, Devices};
pub(crate) use users::named;

use holds::Held;
use search::{Pick, Search, Stop};
use unready::Problem;
use ways::DeviceWay;

/// Pods of one kind for which devices are counted on one node: far more than a node runs. What
/// takes no devices (access for administration, say) ends there.
const SLOTS_MAX: u32 = 1_024;

/// Pods that may use one claim at a time, as the API has it (`reservedFor`).
pub const USERS_MAX: u32 = 256;

/// What a pod's claims need on a node: those of its own, then shared ones without devices yet.
struct Needs<'a> {
    specs: Vec<Cow<'a, ClaimSpec>>,
    /// Positions among the pod's claims.
    claims: Vec<usize>,
    /// How many of them are its own.
    own: usize,
}

impl Needs<'_> {
    fn specs(&self) -> Vec<&ClaimSpec> {
        self.specs.iter().map(|spec| &**spec).collect()
    }
}

/// Refuses a node where a claim cannot be used, or where none can be allocated for the pod.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let shape = &question.shape.facts;
    if shape.claims.is_empty() {
        return;
    }
    let devices = &question.room.devices;
    let needs = match needs(devices, shape, question.facts()) {
        Ok(needs) => needs,
        Err(refusal) => return refusals.push(refusal),
    };
    let specs = needs.specs();
    let mut search = Search::new(devices, question.facts(), &specs);
    for before in 0..=question.beside.min(SLOTS_MAX) {
        if before > 0 {
            search.only(needs.own);
        }
        if let Err(stop) = search.next() {
            return refusals.push(refusal(&search, stop, &needs, shape));
        }
        if search.took_nothing() {
            return;
        }
    }
}

/// How many more pods get what they need, up to so many: of those that find no room otherwise
/// nobody need know. A node may reach a thousand devices, and each pod is counted by looking at all
/// that those before it took.
pub fn slots(question: &Question<'_>, most: u32) -> u32 {
    count(&question.room.devices, &question.shape.facts, question.facts(), most)
}

fn count(devices: &Devices, shape: &PodShape, node: &NodeFacts, most: u32) -> u32 {
    if shape.claims.is_empty() || most == 0 {
        return most;
    }
    let Ok(needs) = needs(devices, shape, node) else { return 0 };
    let specs = needs.specs();
    let mut search = Search::new(devices, node, &specs);
    let mut slots = 0;
    while slots < most.min(SLOTS_MAX) && search.next().is_ok() {
        slots += 1;
        // Claims that others use too have their devices now.
        search.only(needs.own);
        if needs.own == 0 || search.took_nothing() {
            return most;
        }
    }
    slots
}

/// Of each request with alternatives that a pod's claims would have met on a node as things are:
/// the position of the one that is met, and how many there are.
pub(crate) fn alternatives(
    devices: &Devices,
    shape: &PodShape,
    node: &NodeFacts,
) -> Vec<(usize, usize)> {
    let several = |request: &RequestSpec| request.options.len() > 1;
    let wants = |spec: &ClaimSpec| spec.requests.iter().any(several);
    let open = |claim: &PodClaim| match claim {
        PodClaim::Own { spec, .. } => wants(spec),
        PodClaim::Named(key) => devices.claim(key).is_some_and(|facts| wants(&facts.spec)),
        PodClaim::Extended { .. } | PodClaim::Unusable(_) => false,
    };
    if !shape.claims.iter().any(open) {
        return Vec::new();
    }
    let Ok(needs) = needs(devices, shape, node) else { return Vec::new() };
    let specs = needs.specs();
    let mut search = Search::new(devices, node, &specs);
    let Ok(picks) = search.next() else { return Vec::new() };
    let mut met = Vec::new();
    for (claim, spec) in specs.iter().enumerate() {
        for (at, request) in spec.requests.iter().enumerate().filter(|(_, one)| several(one)) {
            let pick = picks.iter().find(|pick| (pick.claim, pick.request) == (claim, at));
            met.extend(pick.map(|pick| (pick.option, request.options.len())));
        }
    }
    met
}

/// Whether only devices that one node alone can use meet some request of a claim: then all who
/// need it go to that node.
pub(crate) fn is_of_one_node(devices: &Devices, key: &ResourceClaimKey) -> bool {
    let Some(claim) = devices.claim(key) else { return false };
    let reached = || devices.pools().wide();
    let may_be = |ask: &DeviceAsk, device| devices.answer(&ask.query, device) != Some(&Answer::No);
    claim.spec.requests.iter().any(|request| {
        let mut asks = request.options.iter();
        asks.all(|ask| reached().all(|device| !may_be(ask, device)))
    })
}

/// Devices for a pod that gets a place on a node that was found to have them; `names`: its claims,
/// where they exist; `way`: those devices, and not the first. Nothing, where the node has none
/// after all: facts put the pod there.
pub(crate) fn choose(
    devices: &Devices,
    shape: &PodShape,
    (namespace, names): (&Text, Option<&[Text]>),
    node: &NodeFacts,
    way: Option<&DeviceWay>,
) -> PodHold {
    let mut hold = PodHold::default();
    for claim in &shape.claims {
        if let PodClaim::Named(key) = claim
            && let Some(chosen) = devices.held_for(key)
        {
            hold.put(devices, key, chosen.clone());
        }
    }
    let Ok(needs) = needs(devices, shape, node) else { return hold };
    let specs = needs.specs();
    let mut search = Search::new(devices, node, &specs);
    let picks = match way {
        Some(way) => &way.picks[..],
        None => match search.next() {
            Ok(picks) => picks,
            Err(_) => return hold,
        },
    };
    for (at, &claim) in needs.claims.iter().enumerate() {
        let of_claim = picks.iter().filter(|pick| pick.claim == at);
        let chosen = Arc::new(chosen(devices, specs[at], of_claim, &node.name));
        match &shape.claims[claim] {
            PodClaim::Named(key) => hold.put(devices, key, chosen),
            _ => {
                let name = names.and_then(|names| names.get(claim));
                let key = name.map(|name| (namespace.clone(), name.clone()));
                hold.own.push(Held { claim, key, chosen });
            }
        }
    }
    hold
}

fn chosen<'a>(
    devices: &Devices,
    spec: &ClaimSpec,
    picks: impl Iterator<Item = &'a Pick> + Clone,
    node: &Text,
) -> Chosen {
    let pools = devices.pools();
    let one = |pick: &Pick| ChosenDevice {
        request: spec.requests[pick.request].options[pick.option].name.clone(),
        device: state::allocated(pools.device(pick.device).id(), pick.share.as_deref()),
        admin: pick.admin,
        ready_when: pools.device(pick.device).facts().ready_when.clone(),
    };
    let entries = picks.clone().map(|pick| pools.device(pick.device));
    Chosen { nodes: pools::nodes_of(entries, node), devices: picks.map(one).collect() }
}

/// Which claims need devices on a node, if those that have some can be used there.
fn needs<'a>(
    devices: &'a Devices,
    shape: &'a PodShape,
    node: &NodeFacts,
) -> Result<Needs<'a>, NodeRefusal> {
    let (mut own, mut shared) = (Vec::new(), Vec::new());
    for (at, claim) in shape.claims.iter().enumerate() {
        match claim {
            PodClaim::Own { spec, .. } => own.push((at, Cow::Borrowed(&**spec))),
            PodClaim::Extended { claim, left } => {
                let Some(spec) = asked_of_devices(claim, node) else { continue };
                if *left {
                    let problem = "the resourceclaim of an earlier try is not gone yet".into();
                    return Err(NodeRefusal::ClaimUnusable { problem, of_pod: false });
                }
                own.push((at, spec));
            }
            PodClaim::Unusable(problem) => {
                let problem = problem.clone();
                return Err(NodeRefusal::ClaimUnusable { problem, of_pod: true });
            }
            PodClaim::Named(key) => {
                let Some(facts) = devices.claim(key) else {
                    let problem = format!("resourceclaim \"{}\" not found", key.1).into();
                    return Err(NodeRefusal::ClaimUnusable { problem, of_pod: true });
                };
                if devices.is_promised(key) {
                    let problem = format!("resourceclaim \"{}\" is kept for others", key.1).into();
                    return Err(NodeRefusal::ClaimUnusable { problem, of_pod: true });
                }
                let shown = devices.shown(key);
                let unready = shown.and_then(|_| devices.unready(facts));
                if let Some(Problem { what, until }) = unready {
                    let claim = key.1.clone();
                    return Err(NodeRefusal::ClaimUnready { claim, what, until });
                }
                if shown.is_some() && devices.losing().contains(key) {
                    let problem = format!("resourceclaim \"{}\" is being given back", key.1).into();
                    return Err(NodeRefusal::ClaimUnusable { problem, of_pod: true });
                }
                let shown = shown.map(|allocation| &allocation.nodes);
                let fixed = shown.or_else(|| devices.held_for(key).map(|chosen| &chosen.nodes));
                match fixed {
                    None => shared.push((at, Cow::Borrowed(&*facts.spec))),
                    Some(nodes) if reachable(nodes.as_ref(), node) => {}
                    Some(_) => {
                        return Err(NodeRefusal::ClaimElsewhere { claim: key.1.clone() });
                    }
                }
            }
        }
    }
    let count = own.len();
    own.append(&mut shared);
    let (claims, specs) = own.into_iter().unzip();
    Ok(Needs { specs, claims, own: count })
}

/// What a pod's extended resources ask of devices on a node: those of which it has none itself.
fn asked_of_devices<'a>(claim: &'a ExtendedClaim, node: &NodeFacts) -> Option<Cow<'a, ClaimSpec>> {
    let backed = |resource: &Text| node.allocatable.get(resource).is_none_or(|has| *has == 0);
    let count = claim.resources.iter().filter(|resource| backed(resource)).count();
    if count == 0 {
        return None;
    }
    if count == claim.resources.len() {
        return Some(Cow::Borrowed(&claim.spec));
    }
    let mut spec = claim.spec.clone();
    let mut resources = claim.resources.iter();
    spec.requests.retain(|_| resources.next().is_some_and(backed));
    Some(Cow::Owned(spec))
}

fn reachable(nodes: Option<&NodeSelector>, node: &NodeFacts) -> bool {
    nodes.is_none_or(|selector| node_matches(selector, &node.labels, &node.name))
}

/// The claim's name, as its pod has it.
fn name_of(claim: &PodClaim) -> Text {
    match claim {
        PodClaim::Own { name, .. } => name.clone(),
        PodClaim::Named(key) => key.1.clone(),
        PodClaim::Extended { .. } => "extended-resources".into(),
        PodClaim::Unusable(problem) => problem.clone(),
    }
}

fn refusal(search: &Search<'_>, stop: Stop, needs: &Needs<'_>, shape: &PodShape) -> NodeRefusal {
    let named = |claim: usize| name_of(&shape.claims[needs.claims[claim]]);
    match stop {
        Stop::TooLong => NodeRefusal::DevicesTooLong { tries: search.tried() },
        Stop::Broken(claim, problem) => {
            let problem = format!("resourceclaim {}: {problem}", named(claim)).into();
            // A fault of the claim, or of its classes, is the same on every node.
            let of_pod = needs.specs[claim].fault.is_some();
            NodeRefusal::ClaimUnusable { problem, of_pod }
        }
        Stop::None => {
            let (claim, request) = search.stuck_at();
            let asked = &needs.specs[claim].requests[request];
            let ask = &asked.options[0];
            let (matching, free) = search.counts(ask);
            NodeRefusal::Devices {
                claim: named(claim),
                request: asked.name.clone(),
                asked: match ask.count {
                    DeviceCount::Exactly(count) => Some(count),
                    DeviceCount::All => None,
                },
                matching,
                free,
            }
        }
    }
}
