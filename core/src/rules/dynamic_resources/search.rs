//! Which devices of a node meet all claims of a pod together.
//!
//! The search is exact: claims, requests, options and devices are tried in order, each choice can
//! be taken back, and the first solution is taken, which is kube-scheduler's. Devices of one
//! request are tried in one order only, and of devices that are alike only the first. What bounds
//! it is a count of tries, and one of devices gone past, so that a replay finds the same; a search
//! that ends there says so.

use crate::model::input::{
    Answer, Attribute, ClaimSpec, Constraint, DeviceAsk, DeviceCount, DeviceFacts, Nano, NodeFacts,
    TaintEffect, Text, Toleration, TolerationOperator,
};
use crate::rules::dynamic_resources::capacity;
use crate::rules::dynamic_resources::pools::{DeviceAt, Reached};
use crate::rules::dynamic_resources::state::Devices;
use crate::rules::dynamic_resources::ways::Others;

/// Devices that match and are tried for the claims of one pod on one node. Eight GPUs in partitions
/// of all sizes, of which four must be of one GPU, take half of that where no GPU has them; and it
/// is some milliseconds.
pub const TRIES_MAX: u32 = 50_000;

/// Devices gone past, be they of use or not: a node may reach a thousand.
const LOOKS_MAX: u32 = 500_000;

/// Devices of one claim: as many as its status can name.
pub(crate) const CLAIM_DEVICES_MAX: usize = 32;

/// A device chosen for a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pick {
    /// Position of the claim among those asked for.
    pub claim: usize,
    /// Position of the request in it.
    pub request: usize,
    /// Position of the option in that.
    pub option: usize,
    /// The device.
    pub device: DeviceAt,
    /// For administration: it keeps the device from nobody but claims of the same pod.
    pub admin: bool,
    /// What it takes of a device that others may share; `None`: all of the device.
    pub share: Option<Vec<(Text, Nano)>>,
}

/// Why no devices were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The node has none that will do.
    None,
    /// The bound was reached: there may be some.
    TooLong,
    /// Something is wrong with claim, class or pool: position of the claim, and what.
    Broken(usize, Text),
}

/// A search for the claims of pods on one node.
pub(crate) struct Search<'a> {
    devices: &'a Devices,
    reached: Reached<'a>,
    claims: &'a [&'a ClaimSpec],
    /// All that match, of requests for all devices, by claim, request and option.
    all: Vec<(Asked, Vec<DeviceAt>)>,
    /// Which of the devices that are reached match an option, as far as it was looked up.
    known: Vec<(Asked, Vec<Option<bool>>)>,
    /// What earlier pods of the same search took, then what this one does.
    picks: Vec<Pick>,
    /// Where those of this pod begin.
    own: usize,
    tries: u32,
    looks: u32,
    /// The furthest that it got.
    furthest: (usize, usize),
    /// Where choices go that are not the first; `None`: nobody asks for those.
    pub(super) others: Option<Others<'a>>,
}

/// Claim, request and option.
type Asked = (usize, usize, usize);

/// What is looked for next.
#[derive(Clone, Copy)]
struct At {
    claim: usize,
    request: usize,
    option: usize,
    nth: usize,
}

impl<'a> Search<'a> {
    /// A search on a node.
    pub fn new(devices: &'a Devices, node: &NodeFacts, claims: &'a [&'a ClaimSpec]) -> Search<'a> {
        Search {
            devices,
            reached: devices.pools().reached(node),
            claims,
            all: Vec::new(),
            known: Vec::new(),
            picks: Vec::new(),
            own: 0,
            tries: 0,
            looks: 0,
            furthest: (0, 0),
            others: None,
        }
    }

    /// Finds devices for one more pod beside those found before.
    pub fn next(&mut self) -> Result<&[Pick], Stop> {
        (self.own, self.furthest) = (self.picks.len(), (0, 0));
        (self.tries, self.looks) = (0, 0);
        if self.own == 0 {
            self.prepare()?;
        }
        match self.claim(0)? {
            true => Ok(&self.picks[self.own..]),
            false => Err(Stop::None),
        }
    }

    /// From the next pod on, only the first claims are asked for.
    pub fn only(&mut self, claims: usize) {
        self.claims = &self.claims[..claims];
    }

    /// Whether the last pod keeps no device from the next.
    pub fn took_nothing(&self) -> bool {
        self.picks[self.own..].iter().all(|pick| pick.admin)
    }

    /// Devices that the last search tried, until it ended for having tried so many.
    pub fn tried(&self) -> u32 {
        self.tries.min(TRIES_MAX)
    }

    /// The request at which the search that failed last got stuck: claim and request.
    pub fn stuck_at(&self) -> (usize, usize) {
        self.furthest
    }

    /// Devices that match an option, and those of them that are free for it.
    pub fn counts(&self, ask: &DeviceAsk) -> (u32, u32) {
        let matching =
            self.reached.devices.iter().filter(|at| self.answer(ask, **at) == Some(true));
        let (mut all, mut free) = (0, 0);
        for &at in matching {
            all += 1;
            let taints = &self.devices.pools().device(at).facts().taints;
            let tolerated = taints.iter().all(|taint| tolerated(&ask.tolerations, taint));
            free += u32::from(tolerated && !self.in_use(at) && self.fits(at, ask).is_some());
        }
        (all, free)
    }

    /// What can be said before the search: what "all" is, and that a claim is not too large.
    fn prepare(&mut self) -> Result<(), Stop> {
        for (claim, spec) in self.claims.iter().enumerate() {
            if let Some(fault) = &spec.fault {
                return Err(Stop::Broken(claim, fault.clone()));
            }
            let mut least = 0_u64;
            for (request, asked) in spec.requests.iter().enumerate() {
                let mut of_request = u64::MAX;
                for (option, ask) in asked.options.iter().enumerate() {
                    self.settled(claim, ask)?;
                    let count = match ask.count {
                        DeviceCount::Exactly(count) => count,
                        DeviceCount::All => {
                            let all = self.all_of(claim, ask)?;
                            let count = all.len() as u64;
                            self.all.push(((claim, request, option), all));
                            count
                        }
                    };
                    of_request = of_request.min(count);
                }
                least = least.saturating_add(of_request);
            }
            if least > CLAIM_DEVICES_MAX as u64 {
                let most = CLAIM_DEVICES_MAX;
                let problem = format!("it asks for {least} devices; a claim has {most} at most");
                return Err(Stop::Broken(claim, problem.into()));
            }
        }
        Ok(())
    }

    /// Stops where it is not known of every device yet whether it matches.
    fn settled(&self, claim: usize, ask: &DeviceAsk) -> Result<(), Stop> {
        let Some((left, all)) = self.devices.awaited_answers(&ask.query) else { return Ok(()) };
        let left = format!("on {left} of {all} slices");
        let problem =
            format!("request {}: its selectors are still being evaluated {left}", ask.name);
        Err(Stop::Broken(claim, problem.into()))
    }

    /// All devices that match, free or not: where one is used up, kube-scheduler refuses the node.
    fn all_of(&self, claim: usize, ask: &DeviceAsk) -> Result<Vec<DeviceAt>, Stop> {
        if let Some((pool, invalid)) = self.reached.unusable {
            let why = match invalid {
                Some(why) => format!("is invalid: {why}"),
                None => "is being updated".to_owned(),
            };
            let problem = format!("request {} is for all devices, and pool {pool} {why}", ask.name);
            return Err(Stop::Broken(claim, problem.into()));
        }
        let mut all = Vec::new();
        for &at in &self.reached.devices {
            if self.matches(claim, ask, at)? {
                let facts = self.devices.pools().device(at).facts();
                if capacity::taken(facts, &ask.capacity).is_some() {
                    all.push(at);
                }
            }
        }
        Ok(all)
    }

    /// Meets a claim and all after it.
    fn claim(&mut self, claim: usize) -> Result<bool, Stop> {
        if claim < self.claims.len() {
            return self.request(claim, 0);
        }
        let own = &self.picks[self.own..];
        Ok(self.others.as_mut().is_none_or(|others| others.take(self.devices, own)))
    }

    /// What a device is to whoever tries no two that are alike.
    fn kind(&mut self, device: DeviceAt) -> u32 {
        match &mut self.others {
            None => self.devices.pools().device(device).kind,
            Some(others) => others.kind(self.devices, device),
        }
    }

    /// Meets a request and all that comes after it.
    fn request(&mut self, claim: usize, request: usize) -> Result<bool, Stop> {
        let claims = self.claims;
        let Some(asked) = claims[claim].requests.get(request) else {
            return self.claim(claim + 1);
        };
        self.furthest = self.furthest.max((claim, request));
        for option in 0..asked.options.len() {
            if self.device(At { claim, request, option, nth: 0 }, 0)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the next device of an option, from one on, and all that comes after it.
    fn device(&mut self, at: At, from: usize) -> Result<bool, Stop> {
        let claims = self.claims;
        let ask = &claims[at.claim].requests[at.request].options[at.option];
        let key = (at.claim, at.request, at.option);
        let need = match ask.count {
            DeviceCount::Exactly(count) => count,
            DeviceCount::All => self.all_devices(key).len() as u64,
        };
        let all = ask.count == DeviceCount::All;
        if all && need == 0 {
            return Ok(false);
        }
        if at.nth as u64 >= need {
            return self.request(at.claim, at.request + 1);
        }
        let has = self.picks[self.own..].iter().filter(|pick| pick.claim == at.claim).count();
        if need - at.nth as u64 > (CLAIM_DEVICES_MAX - has) as u64 {
            return Ok(false);
        }
        let next = At { nth: at.nth + 1, ..at };
        if all {
            let device = self.all_devices(key)[at.nth];
            return self.with(at, ask, device, |search| search.device(next, 0));
        }
        let mut failed: Vec<u32> = Vec::new();
        for place in from..self.reached.devices.len() {
            let device = self.reached.devices[place];
            let kind = self.kind(device);
            let plain = !self.devices.pools().device(device).facts().shared
                && self.devices.usage(device).shares == 0;
            if plain && failed.contains(&kind) && !self.in_use(device) {
                continue;
            }
            self.looks += 1;
            let free = ask.admin || !self.in_use(device);
            let tried = free && self.is_match(key, ask, place)?;
            self.tries += u32::from(tried);
            if self.tries > TRIES_MAX || self.looks > LOOKS_MAX {
                return Err(Stop::TooLong);
            }
            if tried {
                let before = self.picks.len();
                if self.with(at, ask, device, |search| search.device(next, place + 1))? {
                    return Ok(true);
                }
                debug_assert_eq!(before, self.picks.len(), "a choice that failed is taken back");
                if plain && !self.in_use(device) {
                    failed.push(kind);
                }
            }
        }
        Ok(false)
    }

    /// Whether the device at a place among those that are reached matches an option.
    fn is_match(&mut self, key: Asked, ask: &DeviceAsk, place: usize) -> Result<bool, Stop> {
        let at = match self.known.iter().position(|(known, _)| *known == key) {
            Some(at) => at,
            None => {
                self.known.push((key, vec![None; self.reached.devices.len()]));
                self.known.len() - 1
            }
        };
        if let Some(known) = self.known[at].1[place] {
            return Ok(known);
        }
        let found = self.matches(key.0, ask, self.reached.devices[place])?;
        self.known[at].1[place] = Some(found);
        Ok(found)
    }

    fn all_devices(&self, key: Asked) -> &[DeviceAt] {
        let found = self.all.iter().find(|(known, _)| *known == key);
        &found.expect("what all is, is known for every such request").1
    }

    /// Takes a device if it can be had, and goes on; what leads nowhere is taken back.
    fn with(
        &mut self,
        at: At,
        ask: &DeviceAsk,
        device: DeviceAt,
        then: impl FnOnce(&mut Self) -> Result<bool, Stop>,
    ) -> Result<bool, Stop> {
        let facts = self.devices.pools().device(device).facts();
        let usable = if ask.admin { !self.picked(at.claim, device) } else { !self.in_use(device) };
        if !usable
            || !self.counters_last(device)
            || facts.taints.iter().any(|taint| !tolerated(&ask.tolerations, taint))
        {
            return Ok(false);
        }
        if !self.constraints_hold(at, device) {
            return match ask.count {
                DeviceCount::Exactly(_) => Ok(false),
                // As kube-scheduler has it: other devices for earlier requests are not tried.
                DeviceCount::All => {
                    let device = self.devices.pools().device(device).id().2;
                    let problem = format!("request {}: a constraint keeps {device} out", ask.name);
                    Err(Stop::Broken(at.claim, problem.into()))
                }
            };
        }
        let Some(taken) = self.fits(device, ask) else { return Ok(false) };
        let share = facts.shared.then(|| taken.into_iter().collect());
        let At { claim, request, option, .. } = at;
        self.picks.push(Pick { claim, request, option, device, admin: ask.admin, share });
        let found = then(self);
        if found != Ok(true) {
            self.picks.pop();
        }
        found
    }

    /// Whether class and request selectors match a device.
    fn matches(&self, claim: usize, ask: &DeviceAsk, device: DeviceAt) -> Result<bool, Stop> {
        let entry = self.devices.pools().device(device);
        match self.devices.answer(&ask.query, entry) {
            None | Some(Answer::No | Answer::Awaited) => Ok(false),
            Some(Answer::Yes) => Ok(true),
            Some(Answer::Fails(why)) => {
                let (driver, pool, name) = entry.id();
                let problem =
                    format!("request {}: {why} on device {driver}/{pool}/{name}", ask.name);
                Err(Stop::Broken(claim, problem.into()))
            }
        }
    }

    fn answer(&self, ask: &DeviceAsk, device: DeviceAt) -> Option<bool> {
        let entry = self.devices.pools().device(device);
        let answer = self.devices.answer(&ask.query, entry)?;
        Some(*answer == Answer::Yes)
    }

    /// Whether somebody has all of a device.
    fn in_use(&self, device: DeviceAt) -> bool {
        let whole = |pick: &Pick| pick.device == device && pick.share.is_none() && !pick.admin;
        let by_admin = |pick: &Pick| pick.device == device && pick.share.is_none() && pick.admin;
        self.devices.usage(device).whole > 0
            || self.picks.iter().any(whole)
            || self.picks[self.own..].iter().any(by_admin)
    }

    /// Whether a claim of this pod has a device already, shares apart.
    fn picked(&self, claim: usize, device: DeviceAt) -> bool {
        let own = &self.picks[self.own..];
        own.iter().any(|p| (p.claim, p.device) == (claim, device) && p.share.is_none())
    }

    /// What an option takes of a device's capacity, if there is so much left: also of one that was
    /// shared and is no more, while somebody has a share.
    fn fits(
        &self,
        device: DeviceAt,
        ask: &DeviceAsk,
    ) -> Option<std::collections::BTreeMap<Text, Nano>> {
        let facts = self.devices.pools().device(device).facts();
        let taken = capacity::taken(facts, &ask.capacity)?;
        let usage = self.devices.usage(device);
        if !facts.shared && usage.shares == 0 {
            return Some(taken);
        }
        let used = &usage.consumed;
        for (name, amount) in &taken {
            let mut sum = amount.0.saturating_add(used.get(name).map_or(0, |nano| nano.0));
            for pick in self.picks.iter().filter(|pick| pick.device == device) {
                let share = pick.share.iter().flatten().filter(|(of, _)| of == name);
                sum = share.fold(sum, |sum, (_, nano)| sum.saturating_add(nano.0));
            }
            if sum > facts.capacity[name].value.0 {
                return None;
            }
        }
        Some(taken)
    }

    /// Whether what a device takes of counters is left. One that others share already takes none
    /// anew.
    fn counters_last(&self, device: DeviceAt) -> bool {
        let pools = self.devices.pools();
        let entry = pools.device(device);
        if entry.consumes.is_empty() {
            return true;
        }
        let shared = |pick: &Pick| pick.device == device && pick.share.is_some();
        let usage = self.devices.usage(device);
        if entry.facts().shared && (usage.shares > 0 || self.picks.iter().any(shared)) {
            return true;
        }
        for (counter, amount) in &entry.consumes {
            let mut sum = self.devices.counted(*counter).0.saturating_add(amount.0);
            for (at, pick) in self.picks.iter().enumerate() {
                let again = self.picks[..at].iter().any(|before| {
                    before.device == pick.device && pick.share.is_some() && before.share.is_some()
                });
                if again || (pick.share.is_some() && self.devices.usage(pick.device).shares > 0) {
                    continue;
                }
                let of = pools.device(pick.device).consumes.iter();
                let of = of.filter(|(other, _)| other == counter);
                sum = of.fold(sum, |sum, (_, nano)| sum.saturating_add(nano.0));
            }
            if sum > pools.counters()[*counter as usize].0 {
                return false;
            }
        }
        true
    }

    /// Whether a device goes together with those that its claim has already.
    fn constraints_hold(&self, at: At, device: DeviceAt) -> bool {
        let claims = self.claims;
        let spec = claims[at.claim];
        spec.constraints.iter().all(|constraint| {
            if !concerns(constraint, spec, at.request, at.option) {
                return true;
            }
            let value = |device: DeviceAt| {
                let entry = self.devices.pools().device(device);
                attribute(entry.facts(), &entry.slice.driver, &constraint.attribute)
            };
            let Some(mine) = value(device) else { return false };
            let others = self.picks[self.own..].iter().filter(|pick| {
                pick.claim == at.claim && concerns(constraint, spec, pick.request, pick.option)
            });
            let mut others = others.filter_map(|pick| value(pick.device));
            let has = |other: &Attribute, one: &Attribute| other.values().contains(one);
            match constraint.distinct {
                true => others.all(|other| !mine.values().iter().any(|one| has(other, one))),
                // One value that all of them have.
                false => mine.values().iter().any(|one| others.clone().all(|it| has(it, one))),
            }
        })
    }
}

/// Whether a constraint is for an option of a request.
fn concerns(constraint: &Constraint, spec: &ClaimSpec, request: usize, option: usize) -> bool {
    let request = &spec.requests[request];
    let named = |name: &Text| *name == request.name || *name == request.options[option].name;
    constraint.requests.is_empty() || constraint.requests.iter().any(named)
}

/// An attribute by its full name; a driver's own need not name its domain.
pub(super) fn attribute<'a>(
    device: &'a DeviceFacts,
    driver: &str,
    name: &Text,
) -> Option<&'a Attribute> {
    let short = || name.split_once('/').filter(|(domain, _)| *domain == driver);
    device.attributes.get(name).or_else(|| device.attributes.get(short()?.1))
}

/// Whether a request tolerates a taint of a device. A toleration without a key is for all of
/// them, whatever its operator.
pub(super) fn tolerated(tolerations: &[Toleration], taint: &crate::model::input::Taint) -> bool {
    taint.effect == TaintEffect::PreferNoSchedule
        || tolerations.iter().any(|toleration| {
            toleration.effect.is_none_or(|effect| effect == taint.effect)
                && (toleration.key.is_empty() || toleration.key == taint.key)
                && match toleration.operator {
                    TolerationOperator::Equal => toleration.value == taint.value,
                    TolerationOperator::Exists => true,
                    _ => false,
                }
        })
}
