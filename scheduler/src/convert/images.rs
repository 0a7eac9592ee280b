//! The images that a pod runs or reads.

use capstan_core::model::input::Text;

use crate::api::pod::PodSpec;

/// Images of containers and volumes as nodes name them: with a tag.
pub fn of(spec: &PodSpec) -> Vec<Text> {
    let all = spec.containers.iter().chain(&spec.init_containers);
    let run = all.filter_map(|container| container.image.as_deref());
    let mounted = spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
    let named = run.chain(mounted.map(|image| image.reference.as_str()));
    let mut images: Vec<Text> = named
        .filter(|image| !image.is_empty())
        .map(|image| {
            let last = image.rsplit_once('/').map_or(image, |(_, last)| last);
            match last.contains([':', '@']) {
                true => image.into(),
                false => format!("{image}:latest").into(),
            }
        })
        .collect();
    images.sort_unstable();
    images
}
