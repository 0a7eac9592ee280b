//! What people call a GPU: `A100`, `H100`, `T4`, from whichever label names it.
//!
//! Labels differ by vendor tool (`NVIDIA-A100-SXM4-40GB-MIG-1g.5gb`, `nvidia-tesla-a100`,
//! `rtx-pro-server-6000`); memory, form factor and sharing suffixes are left out. Only for
//! showing: nothing is decided by it.

use capstan_core::model::input::Labels;

use super::{catalogue, instance_type};

/// Labels that name the GPU, the most exact first.
const KEYS: [&str; 11] = [
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.gcp/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "gpu.nvidia.com/model",
    "gpu.nvidia.com/class",
    "accelerator",
];

/// Words in front of or inside a product's name that do not tell models apart.
const FILLERS: [&str; 7] = ["NVIDIA", "TESLA", "AMD", "INSTINCT", "GEFORCE", "GRID", "SERVER"];

/// The short name of the node's GPU model, when some label or the catalogue tells it.
pub fn gpu_model(labels: &Labels) -> Option<String> {
    let labelled = KEYS.iter().filter_map(|key| labels.get(*key));
    labelled.map(|value| short_name(value)).find(Option::is_some).flatten().or_else(|| {
        let known = catalogue::find(instance_type(labels)?)?;
        short_name(&known.gpu_product)
    })
}

/// `NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition` is `RTX PRO 6000`: up to the model's number.
fn short_name(product: &str) -> Option<String> {
    let upper = product.to_ascii_uppercase();
    let words = upper.split(['-', '_', ' ']).filter(|word| !FILLERS.contains(word));
    let mut name: Vec<&str> = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        name.push(word);
        if word.bytes().any(|byte| byte.is_ascii_digit()) {
            return Some(name.join(" "));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_shorten_to_what_people_say() {
        let rows = [
            ("NVIDIA-A100-SXM4-40GB", "A100"),
            ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100"),
            ("A100-SXM4-40GB", "A100"),
            ("NVIDIA-A10G-SHARED", "A10G"),
            ("NVIDIA-H100-80GB-HBM3", "H100"),
            ("Tesla-T4", "T4"),
            ("NVIDIA-L40S", "L40S"),
            ("NVIDIA-GB200", "GB200"),
            ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX PRO 6000"),
            ("rtx-pro-server-6000", "RTX PRO 6000"),
            ("NVIDIA-GeForce-RTX-4090", "RTX 4090"),
            ("nvidia-tesla-a100", "A100"),
            ("nvidia-h100-mega-80gb", "H100"),
            ("nvidia-l4", "L4"),
            ("AMD Instinct MI300X", "MI300X"),
        ];
        for (product, expected) in rows {
            assert_eq!(short_name(product).as_deref(), Some(expected), "{product}");
        }
        assert_eq!(short_name("nvidia"), None);
        assert_eq!(short_name("true"), None);
    }

    #[test]
    fn the_most_exact_label_wins_and_the_catalogue_comes_last() {
        let read = |pairs: &[(&str, &str)]| {
            gpu_model(&pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
        };
        let both = [("nvidia.com/gpu.product", "NVIDIA-H200"), ("accelerator", "nvidia-a100")];
        assert_eq!(read(&both).as_deref(), Some("H200"));
        let vague = [("accelerator", "nvidia"), ("beta.kubernetes.io/instance-type", "g5.xlarge")];
        assert_eq!(read(&vague).as_deref(), Some("A10G"));
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn every_product_of_the_catalogue_has_a_short_name() {
        for known in catalogue::all() {
            let name = short_name(&known.gpu_product).expect("a model number");
            assert!(name.len() <= 12, "{name}");
        }
    }
}
