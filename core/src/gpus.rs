//! Which resources and devices are GPUs, and what part of a GPU one unit of each is. Nobody else
//! knows that.
//!
//! Accelerators of all makers are GPUs here, and a unit is a whole one, except where its name or
//! its node says that it is a part:
//! - `nvidia.com/gpu`, `amd.com/gpu`, `gpu.intel.com/i915`, `gpu.intel.com/xe`, `habana.ai/gaudi`,
//!   `google.com/tpu`, `aws.amazon.com/neuron` and `neurondevice` count whole ones; so does
//!   `neuroncore`, since nothing says how many of them a device has.
//! - `nvidia.com/mig-1g.10gb` and the like are their compute slices of all that such a card has: of
//!   7, of 4 on A30 and RTX PRO 6000. So is `nvidia.com/gpu` on a node whose GPUs are all cut alike
//!   (strategy single, or GKE's partitions).
//! - Any of NVIDIA's, with `.shared` or without, is as small a part of that as the node says that
//!   it is shared in replicas. Where no node says it, nothing is taken off.
//! - A device of a driver whose name begins with `gpu`, `gaudi`, `tpu` or `neuron` is a whole one;
//!   its slices where it has a MIG profile.
//!
//! A profile of 1g.24gb is a quarter of some cards and a seventh of others. The node's product
//! tells; where it does not, it is the larger.

use std::collections::BTreeMap;

use crate::model::input::{Attribute, Labels, Text};

/// Thousandths of a GPU that a whole one is.
pub const MILLI: i64 = 1_000;

const NVIDIA: &str = "nvidia.com/gpu";
const MIG: &str = "nvidia.com/mig-";
/// What the name of a shared resource ends in, where it was renamed.
const SHARED: &str = ".shared";

/// Resources that count devices, one name for each device of a node.
const WHOLE: [&str; 7] = [
    NVIDIA,
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "google.com/tpu",
    "aws.amazon.com/neuron",
];

/// Other names under which nodes offer the same devices.
const BESIDE: [&str; 2] = ["aws.amazon.com/neurondevice", "aws.amazon.com/neuroncore"];

/// What names of drivers of GPUs begin with, up to the first dot.
const DRIVERS: [&str; 4] = ["gpu", "gaudi", "tpu", "neuron"];

const PRODUCT: &str = "nvidia.com/gpu.product";
const GKE_PARTITION: &str = "cloud.google.com/gke-gpu-partition-size";
const GKE_CLIENTS: &str = "cloud.google.com/gke-max-shared-clients-per-gpu";

/// Whether one unit of a resource is a GPU or a part of one.
pub fn is_gpu(resource: &str) -> bool {
    let resource = resource.strip_suffix(SHARED).unwrap_or(resource);
    WHOLE.contains(&resource) || BESIDE.contains(&resource) || resource.starts_with(MIG)
}

/// Whether a resource counts the GPUs of a node: not partitions or replicas by their own name, nor
/// a second name for the same devices.
pub fn is_whole_gpu(resource: &str) -> bool {
    WHOLE.contains(&resource)
}

/// A part of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    part: i64,
    of: i64,
}

impl Share {
    const WHOLE: Share = Share { part: 1, of: 1 };

    /// So many such parts in thousandths of a GPU, rounded up.
    pub fn milli(self, amount: i64) -> i64 {
        let parts = i128::from(amount.max(0)) * i128::from(self.part);
        rounded_up(parts, self.of.into())
    }
}

/// A fraction in thousandths, rounded up.
pub(crate) fn rounded_up(part: i128, of: i128) -> i64 {
    let (part, of) = (part.max(0).saturating_mul(MILLI.into()), of.max(1));
    i64::try_from(part / of + i128::from(part % of > 0)).unwrap_or(i64::MAX)
}

/// What part of a GPU one unit of a resource is on a node with these labels; `None`: none of it.
pub fn share(resource: &str, labels: &Labels) -> Option<Share> {
    if !is_gpu(resource) {
        return None;
    }
    let resource = resource.strip_suffix(SHARED).unwrap_or(resource);
    let label = |key: &str| labels.get(key).map(|value| &**value);
    let product = label(&format!("{resource}.product")).or_else(|| label(PRODUCT));
    let profile = match resource.strip_prefix(MIG) {
        None if resource == NVIDIA => cut(product).or_else(|| label(GKE_PARTITION)),
        profile => profile,
    };
    let whole = profile.and_then(|profile| slices(profile, product)).unwrap_or(Share::WHOLE);
    let stated = |key: &str| label(key)?.parse::<u32>().ok().filter(|replicas| *replicas > 0);
    let clients = || stated(GKE_CLIENTS).filter(|_| resource == NVIDIA);
    let replicas = stated(&format!("{resource}.replicas")).or_else(clients).unwrap_or(1);
    Some(Share { of: whole.of * i64::from(replicas), ..whole })
}

/// Whether labels of a node tell the same of its GPUs.
pub fn tell_the_same(one: &Labels, other: &Labels) -> bool {
    let of_gpus = |(key, _): &(&Text, &Text)| {
        let key: &str = key;
        key.starts_with("nvidia.com/") || [GKE_PARTITION, GKE_CLIENTS].contains(&key)
    };
    one.iter().filter(of_gpus).eq(other.iter().filter(of_gpus))
}

/// The profile into which all GPUs of a node are cut, as their product says it.
fn cut(product: Option<&str>) -> Option<&str> {
    let (_, profile) = product?.split_once("-MIG-")?;
    Some(profile.strip_suffix("-SHARED").unwrap_or(profile))
}

/// What part a device of a driver is, by its attributes; `None`: it is no GPU.
pub fn device_share(driver: &str, attributes: &BTreeMap<Text, Attribute>) -> Option<Share> {
    let kind = driver.split('.').next().unwrap_or_default();
    if !DRIVERS.contains(&kind) {
        return None;
    }
    let text = |name: &str| {
        let full = format!("{driver}/{name}");
        match attributes.get(name).or_else(|| attributes.get(&*full))? {
            Attribute::Text(text) => Some(&**text),
            _ => None,
        }
    };
    let share = text("profile").and_then(|profile| slices(profile, text("productName")));
    Some(share.unwrap_or(Share::WHOLE))
}

/// The compute slices of a MIG profile, of those that its card has; `None`: no profile that is
/// known.
fn slices(profile: &str, product: Option<&str>) -> Option<Share> {
    let (part, memory) = profile.split_once("g.")?;
    let (memory, more) = memory.split_once("gb")?;
    let (part, memory) = (part.parse::<u8>().ok()?, memory.parse::<u16>().ok()?);
    let of = match (part, memory) {
        (1, 6) | (2, 12) | (4, 24) | (2, 48) | (4, 96) => 4,
        (1, 24) => match product {
            Some(product) if more.is_empty() && !is_rtx_pro(product) => 7,
            _ => 4,
        },
        _ => 7,
    };
    (1..=of).contains(&part).then(|| Share { part: part.into(), of: of.into() })
}

fn is_rtx_pro(product: &str) -> bool {
    product.replace('-', " ").contains("RTX PRO 6000")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(all: &[(&str, &str)]) -> Labels {
        all.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn milli(resource: &str, amount: i64, of_node: &[(&str, &str)]) -> Option<i64> {
        share(resource, &labels(of_node)).map(|share| share.milli(amount))
    }

    #[test]
    fn a_unit_is_what_its_name_says() {
        let rows = [
            ("nvidia.com/gpu", Some(8_000)),
            ("amd.com/gpu", Some(8_000)),
            ("habana.ai/gaudi", Some(8_000)),
            ("google.com/tpu", Some(8_000)),
            ("aws.amazon.com/neuron", Some(8_000)),
            ("aws.amazon.com/neuroncore", Some(8_000)),
            ("nvidia.com/gpu.shared", Some(8_000)),
            // Eight sevenths, rounded up once.
            ("nvidia.com/mig-1g.10gb", Some(1_143)),
            ("nvidia.com/mig-1g.10gb.me", Some(1_143)),
            ("nvidia.com/mig-3g.40gb", Some(3_429)),
            ("nvidia.com/mig-7g.80gb", Some(8_000)),
            ("nvidia.com/mig-1g.6gb", Some(2_000)),
            ("nvidia.com/mig-4g.24gb", Some(8_000)),
            ("nvidia.com/mig-4g.20gb", Some(4_572)),
            ("nvidia.com/mig-2g.48gb", Some(4_000)),
            // Nothing that is known: it is not made less.
            ("nvidia.com/mig-9g.10gb", Some(8_000)),
            ("nvidia.com/mig-1c.2g.10gb", Some(8_000)),
            ("nvidia.com/mig-", Some(8_000)),
            ("cpu", None),
            ("nvidia.com/gpumem", None),
            ("rdma/hca", None),
        ];
        for (resource, expected) in rows {
            assert_eq!(milli(resource, 8, &[]), expected, "{resource}");
            assert_eq!(is_gpu(resource), expected.is_some(), "{resource}");
        }
        assert_eq!(milli("nvidia.com/mig-1g.10gb", 7, &[]), Some(1_000), "all slices: one GPU");
        assert_eq!(milli("nvidia.com/gpu", i64::MAX, &[]), Some(i64::MAX));
        assert_eq!(milli("nvidia.com/gpu", -1, &[]), Some(0));
    }

    #[test]
    fn devices_are_counted_under_one_name() {
        let whole = ["nvidia.com/gpu", "habana.ai/gaudi", "google.com/tpu"];
        assert!(whole.into_iter().all(is_whole_gpu));
        let others = ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", BESIDE[0], BESIDE[1]];
        assert!(!others.into_iter().any(is_whole_gpu));
    }

    #[test]
    fn nodes_say_how_their_gpus_are_cut_and_shared() {
        let shared = [("nvidia.com/gpu.replicas", "4")];
        assert_eq!(milli("nvidia.com/gpu", 1, &shared), Some(250));
        assert_eq!(milli("nvidia.com/gpu.shared", 6, &shared), Some(1_500));
        assert_eq!(milli("amd.com/gpu", 1, &shared), Some(1_000), "not its label");
        assert_eq!(milli("nvidia.com/mig-1g.10gb", 7, &shared), Some(1_000), "not its label");
        let slices = [("nvidia.com/mig-1g.10gb.replicas", "2")];
        assert_eq!(milli("nvidia.com/mig-1g.10gb.shared", 7, &slices), Some(500));
        for silent in ["0", "", "-1", "many"] {
            let none = [("nvidia.com/gpu.replicas", silent)];
            assert_eq!(milli("nvidia.com/gpu", 1, &none), Some(1_000), "{silent}");
        }
        let single = [("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb")];
        assert_eq!(milli("nvidia.com/gpu", 7, &single), Some(2_000));
        let both = [
            ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED"),
            ("nvidia.com/gpu.replicas", "2"),
        ];
        assert_eq!(milli("nvidia.com/gpu", 7, &both), Some(500));
        let gke = [(GKE_PARTITION, "3g.20gb"), (GKE_CLIENTS, "3")];
        assert_eq!(milli("nvidia.com/gpu", 7, &gke), Some(1_000));
        let most = [("nvidia.com/gpu.replicas", "4294967295")];
        assert_eq!(milli("nvidia.com/gpu", 1, &most), Some(1), "never nothing");
    }

    #[test]
    fn a_profile_of_two_cards_follows_the_product() {
        let on = |product: &str| milli("nvidia.com/mig-1g.24gb", 4, &[(PRODUCT, product)]);
        assert_eq!(on("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"), Some(1_000));
        assert_eq!(on("NVIDIA-GH200-480GB"), Some(572));
        assert_eq!(milli("nvidia.com/mig-1g.24gb", 4, &[]), Some(1_000), "the larger");
        let own = [("nvidia.com/mig-1g.24gb.product", "NVIDIA-H100-NVL-MIG-1g.24gb")];
        assert_eq!(milli("nvidia.com/mig-1g.24gb", 4, &own), Some(572));
    }

    #[test]
    fn devices_of_drivers_follow_their_attributes() {
        let text = |name: &str, value: &str| (name.into(), Attribute::Text(value.into()));
        let of = |driver: &str, attributes: &[(Text, Attribute)]| {
            let attributes = attributes.iter().cloned().collect();
            device_share(driver, &attributes).map(|share| share.milli(1))
        };
        for driver in ["gpu.nvidia.com", "gpu.amd.com", "gaudi.intel.com", "tpu.google.com"] {
            assert_eq!(of(driver, &[]), Some(1_000), "{driver}");
        }
        for driver in ["dra.net", "gpunet.example.com", "compute-domain.nvidia.com", ""] {
            assert_eq!(of(driver, &[]), None, "{driver}");
        }
        let nvidia = "gpu.nvidia.com";
        assert_eq!(of(nvidia, &[text("profile", "1g.10gb")]), Some(143));
        assert_eq!(of(nvidia, &[text("gpu.nvidia.com/profile", "4g.40gb")]), Some(572));
        assert_eq!(of(nvidia, &[(Text::from("profile"), Attribute::Int(1))]), Some(1_000));
        let rtx = text("productName", "NVIDIA RTX PRO 6000 Blackwell Server Edition");
        assert_eq!(of(nvidia, &[text("profile", "1g.24gb"), rtx]), Some(250));
    }

    #[test]
    fn only_labels_of_gpus_matter() {
        let base = labels(&[("zone", "a"), ("nvidia.com/gpu.replicas", "2")]);
        let other = labels(&[("zone", "b"), ("nvidia.com/gpu.replicas", "2")]);
        assert!(tell_the_same(&base, &other));
        let more = labels(&[("zone", "a"), ("nvidia.com/gpu.replicas", "4")]);
        assert!(!tell_the_same(&base, &more) && !tell_the_same(&base, &Labels::new()));
    }
}
