//! The built-in catalogue of GPU instance types: hardware and prices, from a data file.
//!
//! `scheduler/data/instance-types.json` is the one place to correct a figure; every price there
//! names its source, and sources carry date and confidence. It is parsed once, on first use, and
//! a test proves that it parses. Which price holds for a node is decided by [`super`].

use std::collections::BTreeMap;
use std::sync::LazyLock;

use capstan_core::money::MicroUsd;
use serde::Deserialize;

use super::parse_usd;

/// What is known about an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// Name, as in `node.kubernetes.io/instance-type`.
    pub name: String,
    /// Product as the node label `nvidia.com/gpu.product` would say it.
    pub gpu_product: String,
    /// Extended resource that its GPUs are.
    pub gpu_resource: String,
    /// GPUs on one instance.
    pub gpus: u32,
    /// Memory of one GPU in MiB.
    pub gpu_memory_mib: u64,
    /// CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// NUMA nodes.
    pub numa_nodes: u32,
    /// Most GPUs that one NUMA node holds.
    pub gpus_per_numa_node: u32,
    /// GPUs that reach each other over NVLink (or the vendor's like); 1: none do.
    pub nvlink_island: u32,
    /// On-demand price of the whole instance per hour.
    pub on_demand: Option<MicroUsd>,
    /// Typical spot price of the whole instance per hour.
    pub spot: Option<MicroUsd>,
    /// Where each known price comes from: its name in the file, then source and confidence.
    pub sources: BTreeMap<String, String>,
}

/// The instance type of this name, without regard to case (Azure's differ between tools).
pub fn find(name: &str) -> Option<&'static InstanceType> {
    CATALOGUE.get(name).or_else(|| CATALOGUE.get(&name.to_ascii_lowercase()))
}

/// All instance types, by name.
pub fn all() -> impl Iterator<Item = &'static InstanceType> {
    CATALOGUE.values()
}

/// Keys are names in lower case.
static CATALOGUE: LazyLock<BTreeMap<String, InstanceType>> = LazyLock::new(|| {
    let file: File = serde_json::from_str(include_str!("../../data/instance-types.json"))
        .expect("the catalogue is part of the program and a test parses it");
    let File { sources, instances } = file;
    let known = instances.into_iter().map(|row| row.into_known(&sources));
    known.map(|known| (known.name.to_ascii_lowercase(), known)).collect()
});

#[derive(Deserialize)]
struct File {
    sources: BTreeMap<String, Source>,
    instances: Vec<Row>,
}

#[derive(Deserialize)]
struct Source {
    source: String,
    confidence: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(rename = "type")]
    name: String,
    gpu: Gpu,
    vcpu: u32,
    memory_mib: u64,
    numa: Numa,
    nvlink: Nvlink,
    #[serde(default)]
    prices: BTreeMap<String, Quote>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gpu {
    product: String,
    resource: String,
    count: u32,
    memory_mib: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Numa {
    nodes: u32,
    max_gpus_per_node: u32,
}

#[derive(Deserialize)]
struct Nvlink {
    island: u32,
}

/// A price with its source; the amount is text because floats would round it.
#[derive(Deserialize)]
struct Quote {
    usd: String,
    source: String,
}

impl Row {
    fn into_known(self, sources: &BTreeMap<String, Source>) -> InstanceType {
        let price = |name: &str| self.prices.get(name).and_then(|quote| parse_usd(&quote.usd));
        let (on_demand, spot) = (price("onDemand"), price("spot"));
        let described = |quote: &Quote| match sources.get(&quote.source) {
            Some(source) => format!("{} ({} confidence)", source.source, source.confidence),
            None => quote.source.clone(),
        };
        let sources = self.prices.iter().map(|(name, quote)| (name.clone(), described(quote)));
        InstanceType {
            sources: sources.collect(),
            name: self.name,
            gpu_product: self.gpu.product,
            gpu_resource: self.gpu.resource,
            gpus: self.gpu.count,
            gpu_memory_mib: self.gpu.memory_mib,
            cpus: self.vcpu,
            memory_mib: self.memory_mib,
            numa_nodes: self.numa.nodes,
            gpus_per_numa_node: self.numa.max_gpus_per_node,
            nvlink_island: self.nvlink.island,
            on_demand,
            spot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_holds_96_sound_instance_types() {
        assert_eq!(all().count(), 96);
        for known in all() {
            let name = &known.name;
            assert!(known.gpus > 0 && known.cpus > 0 && known.memory_mib > 0, "{name}");
            assert!(known.numa_nodes > 0 && known.nvlink_island > 0, "{name}");
            assert!(known.gpus_per_numa_node <= known.gpus, "{name}");
            assert!(known.gpus <= known.gpus_per_numa_node * known.numa_nodes, "{name}");
            for price in [known.on_demand, known.spot].into_iter().flatten() {
                assert!(price > MicroUsd(0), "{name}");
            }
            assert!(known.sources.values().all(|source| source.contains("confidence")), "{name}");
        }
    }

    #[test]
    fn every_quote_parses_and_names_a_listed_source_with_a_date() {
        let text = include_str!("../../data/instance-types.json");
        let file: File = serde_json::from_str(text).expect("the catalogue parses");
        for row in &file.instances {
            for (kind, quote) in &row.prices {
                let name = &row.name;
                assert!(parse_usd(&quote.usd).is_some(), "{name} {kind}: {}", quote.usd);
                let source = file.sources.get(&quote.source).expect("a source that is listed");
                assert!(source.source.contains("20"), "{name} {kind}: no date");
                assert!(["high", "medium", "low"].contains(&source.confidence.as_str()));
            }
        }
    }

    #[test]
    fn a_type_is_found_with_its_prices() {
        let known = find("p5.48xlarge").expect("in the catalogue");
        assert_eq!((known.gpus, known.nvlink_island, known.numa_nodes), (8, 8, 2));
        assert_eq!(known.on_demand, Some(MicroUsd(98_320_000)));
        assert_eq!(known.spot, Some(MicroUsd(19_250_000)));
        assert!(known.sources["onDemand"].starts_with("planning document, undated"));
        assert!(find("standard_nd96isr_h100_v5").is_some());
        assert!(find("m5.large").is_none());
    }
}
