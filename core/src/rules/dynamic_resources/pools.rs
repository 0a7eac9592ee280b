//! Pools of devices, from slices that come in any order and generation.
//!
//! Decides which slices count (those of a pool's newest generation), whether a pool is whole and
//! sound, and which devices a node can reach, in the order in which they are tried: pools by driver
//! and name (last those with devices that have to be made ready for that node), slices by name,
//! devices as their slice has them; and which nodes can use devices that were chosen on one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use crate::model::input::{
    DeviceFacts, DeviceId, Nano, NodeFacts, NodeSelector, NodeSelectorTerm, Operator, Reach,
    Requirement, SliceFacts, Text,
};
use crate::rules::selector::node_matches;

/// A device, by its place in the order of all.
pub(super) type DeviceAt = u32;
/// A counter of a pool.
pub(super) type CounterAt = u32;

/// All pools, as slices say.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pools: Vec<Pool>,
    /// Pools that one node alone reaches in part or whole, by its name.
    local: BTreeMap<Text, Vec<u32>>,
    /// Pools with devices that more than one node may reach.
    wide: Vec<u32>,
    devices: Vec<Device>,
    by_id: BTreeMap<DeviceId, DeviceAt>,
    /// Some devices can be shared.
    shared: bool,
    /// What counters have in all.
    counters: Vec<Nano>,
}

/// A pool in its newest generation.
#[derive(Debug)]
pub(super) struct Pool {
    /// `driver/pool`.
    pub name: Text,
    /// Some of its slices were not seen.
    pub incomplete: bool,
    /// What is wrong with it.
    pub invalid: Option<Text>,
    slices: Vec<Part>,
}

/// A slice of a pool: its devices, one after the other.
#[derive(Debug)]
struct Part {
    facts: Arc<SliceFacts>,
    first: DeviceAt,
    /// Some of them have to be waited for.
    waits: bool,
}

/// A device.
#[derive(Debug)]
pub(super) struct Device {
    /// Its slice.
    pub slice: Arc<SliceFacts>,
    /// Where it stands there.
    pub at: usize,
    /// What it takes of counters.
    pub consumes: Vec<(CounterAt, Nano)>,
    /// The first device of its pool that is like it in all but its name.
    pub kind: DeviceAt,
}

impl Device {
    /// Its facts.
    pub fn facts(&self) -> &DeviceFacts {
        &self.slice.devices[self.at]
    }

    /// Who it is.
    pub fn id(&self) -> DeviceId {
        (self.slice.driver.clone(), self.slice.pool.clone(), self.facts().name.clone())
    }
}

/// What a node reaches.
#[derive(Debug, Default)]
pub(super) struct Reached<'a> {
    /// Devices of whole and sound pools, in the order in which they are tried.
    pub devices: Vec<DeviceAt>,
    /// A pool that is not whole or not sound, with what is wrong.
    pub unusable: Option<(&'a Text, Option<&'a Text>)>,
}

impl Pools {
    /// Pools of all slices.
    pub fn of(slices: &BTreeMap<Text, Arc<SliceFacts>>) -> Pools {
        let mut by_pool: BTreeMap<(&Text, &Text), Vec<&Arc<SliceFacts>>> = BTreeMap::new();
        for slice in slices.values() {
            let newest = by_pool.entry((&slice.driver, &slice.pool)).or_default();
            match newest.first().map(|first| first.generation) {
                Some(known) if known > slice.generation => continue,
                Some(known) if known < slice.generation => newest.clear(),
                _ => {}
            }
            newest.push(slice);
        }
        let mut pools = Pools::default();
        for ((driver, pool), slices) in by_pool {
            pools.add(format!("{driver}/{pool}").into(), &slices);
        }
        pools
    }

    fn add(&mut self, name: Text, slices: &[&Arc<SliceFacts>]) {
        let index = self.pools.len() as u32;
        let mut counters: BTreeMap<(&Text, &Text), CounterAt> = BTreeMap::new();
        let mut invalid = None;
        let mut sets: BTreeSet<&Text> = BTreeSet::new();
        for (set, values) in slices.iter().flat_map(|slice| &slice.counters) {
            if !sets.insert(set) {
                invalid = Some(format!("it has the counter set {set} twice").into());
            }
            for (counter, value) in values {
                counters.insert((set, counter), self.counters.len() as CounterAt);
                self.counters.push(*value);
            }
        }
        let (mut parts, mut names) = (Vec::new(), BTreeSet::new());
        let (mut kinds, mut nodes) = (Vec::<DeviceAt>::new(), BTreeSet::<&Text>::new());
        let mut wide = false;
        for slice in slices {
            match &slice.nodes {
                Reach::Node(node) => _ = nodes.insert(node),
                Reach::Nowhere => {}
                _ => wide = true,
            }
            parts.push(Part {
                facts: (*slice).clone(),
                first: self.devices.len() as DeviceAt,
                waits: slice.devices.iter().any(|one| one.ready_when.is_some()),
            });
            for (at, facts) in slice.devices.iter().enumerate() {
                if !names.insert(&facts.name) {
                    invalid = Some(format!("it has the device {} twice", facts.name).into());
                }
                let found = |(set, counter, amount): &(Text, Text, Nano)| {
                    Some((*counters.get(&(set, counter))?, *amount))
                };
                let consumes: Option<Vec<_>> = facts.consumes.iter().map(found).collect();
                if consumes.is_none() {
                    let device = &facts.name;
                    invalid = Some(format!("its device {device} uses a counter unknown").into());
                }
                let alike = kinds.iter().find(|other| self.alike(**other, slice, facts)).copied();
                let at_all = self.devices.len() as DeviceAt;
                if alike.is_none() && kinds.len() < KINDS_MAX {
                    kinds.push(at_all);
                }
                let kind = alike.unwrap_or(at_all);
                self.shared |= facts.shared;
                let consumes = consumes.unwrap_or_default();
                self.devices.push(Device { slice: (*slice).clone(), at, consumes, kind });
                let id = (slice.driver.clone(), slice.pool.clone(), facts.name.clone());
                self.by_id.insert(id, at_all);
            }
        }
        let incomplete = slices.iter().any(|slice| slice.slices != slices.len() as i64);
        for node in nodes {
            self.local.entry(node.clone()).or_default().push(index);
        }
        if wide {
            self.wide.push(index);
        }
        self.pools.push(Pool { name, incomplete, invalid, slices: parts });
    }

    /// Whether devices differ in nothing but their names.
    fn alike(&self, one: DeviceAt, slice: &SliceFacts, other: &DeviceFacts) -> bool {
        let one = &self.devices[one as usize];
        let facts = one.facts();
        one.slice.nodes == slice.nodes
            && (&facts.nodes, &facts.attributes) == (&other.nodes, &other.attributes)
            && (&facts.taints, &facts.consumes) == (&other.taints, &other.consumes)
            && (facts.shared, facts.binds) == (other.shared, other.binds)
            && (&facts.capacity, &facts.ready_when) == (&other.capacity, &other.ready_when)
    }

    /// The device of an id.
    pub fn find(&self, id: &DeviceId) -> Option<DeviceAt> {
        self.by_id.get(id).copied()
    }

    /// A device.
    pub fn device(&self, at: DeviceAt) -> &Device {
        &self.devices[at as usize]
    }

    /// Number of devices.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Devices that more than one node can use.
    pub fn wide(&self) -> impl Iterator<Item = &Device> {
        let slices = self.wide.iter().flat_map(|at| &self.pools[*at as usize].slices);
        let wide = slices.filter(|part| !matches!(part.facts.nodes, Reach::Node(_)));
        let devices = wide.flat_map(|part| {
            let first = part.first as usize;
            &self.devices[first..first + part.facts.devices.len()]
        });
        devices.filter(|device| !device.facts().binds)
    }

    /// Whether there are such.
    pub fn any_wide(&self) -> bool {
        !self.wide.is_empty()
    }

    /// Whether some devices can be shared.
    pub fn any_shared(&self) -> bool {
        self.shared
    }

    /// What counters have in all.
    pub fn counters(&self) -> &[Nano] {
        &self.counters
    }

    /// What a node reaches.
    pub fn reached(&self, node: &NodeFacts) -> Reached<'_> {
        let mut found = Reached::default();
        let local = self.local.get(&node.name).map_or(&[][..], Vec::as_slice);
        let mut all: Vec<u32> = local.iter().chain(&self.wide).copied().collect();
        all.sort_unstable();
        all.dedup();
        let mut last = Vec::new();
        for pool in all.into_iter().map(|at| &self.pools[at as usize]) {
            let before = found.devices.len();
            let (mut relevant, mut waits) = (false, false);
            for part in &pool.slices {
                if part.reach(node, &mut found.devices) {
                    (relevant, waits) = (true, waits || part.waits);
                }
            }
            if relevant && (pool.incomplete || pool.invalid.is_some()) {
                found.devices.truncate(before);
                found.unusable.get_or_insert((&pool.name, pool.invalid.as_ref()));
            } else if waits {
                // As kube-scheduler has it, whatever slices of the pool say that are for others.
                last.extend(found.devices.drain(before..));
            }
        }
        found.devices.append(&mut last);
        found
    }
}

/// Kinds of devices in a pool that are told apart; any further device is a kind of its own.
const KINDS_MAX: usize = 64;

impl Part {
    /// Adds the devices that a node reaches; `false`: the slice is not for it.
    fn reach(&self, node: &NodeFacts, into: &mut Vec<DeviceAt>) -> bool {
        let all = self.first..self.first + self.facts.devices.len() as DeviceAt;
        if self.facts.nodes != Reach::PerDevice {
            let reaches = reaches(&self.facts.nodes, node);
            if reaches {
                into.extend(all);
            }
            return reaches;
        }
        let before = into.len();
        let mine = |at: &DeviceAt| {
            let facts = &self.facts.devices[(*at - self.first) as usize];
            facts.nodes.as_ref().is_some_and(|nodes| reaches(nodes, node))
        };
        into.extend(all.filter(mine));
        into.len() > before
    }
}

fn reaches(reach: &Reach, node: &NodeFacts) -> bool {
    match reach {
        Reach::Node(name) => *name == node.name,
        Reach::Selected(selector) => node_matches(selector, &node.labels, &node.name),
        Reach::Everywhere => true,
        Reach::PerDevice | Reach::Nowhere => false,
    }
}

/// Field by which one node is named.
static NAME: LazyLock<Text> = LazyLock::new(|| "metadata.name".into());

/// The nodes that can use devices which were chosen on one node, as kube-scheduler writes it: that
/// node alone, if any device is local to a node; else what the slices' selectors say together.
pub(super) fn nodes_of<'a>(
    devices: impl Iterator<Item = &'a Device>,
    node: &Text,
) -> Option<NodeSelector> {
    let mut term = NodeSelectorTerm::default();
    for device in devices {
        let reach = match &device.slice.nodes {
            Reach::PerDevice => device.facts().nodes.as_ref(),
            reach => Some(reach),
        };
        let one_node = device.facts().binds || matches!(reach, Some(Reach::Node(_)));
        match reach {
            _ if one_node => {
                let (key, values) = (NAME.clone(), vec![node.clone()]);
                let fields = vec![Requirement { key, operator: Operator::In, values }];
                let labels = Vec::new();
                return Some(NodeSelector { terms: vec![NodeSelectorTerm { labels, fields }] });
            }
            Some(Reach::Selected(selector)) => {
                // An API server takes one term only.
                for of in selector.terms.iter().take(1) {
                    let new = |known: &[Requirement], one: &&Requirement| !known.contains(one);
                    let labels: Vec<_> =
                        of.labels.iter().filter(|one| new(&term.labels, one)).cloned().collect();
                    let fields: Vec<_> =
                        of.fields.iter().filter(|one| new(&term.fields, one)).cloned().collect();
                    term.labels.extend(labels);
                    term.fields.extend(fields);
                }
            }
            _ => {}
        }
    }
    let says = !term.labels.is_empty() || !term.fields.is_empty();
    says.then(|| NodeSelector { terms: vec![term] })
}
