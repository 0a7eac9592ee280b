//! `imageLocality`: how much of a pod's images is on a node already and need not be pulled.
//!
//! Bytes are valued as kube-scheduler does: of each image the part that is the share of nodes
//! which have it, so that one that few nodes have does not draw all its pods there; a few bytes
//! are worth nothing, and beyond a gigabyte for each container more is not worth more.

use crate::model::images::ALL;
use crate::model::input::{Images, Text};
use crate::rules::Question;

use super::FULL;

/// Bytes that are worth nothing.
const LEAST: i64 = 23 << 20;
/// Bytes that count, for each container.
const MOST: i64 = 1_000 << 20;

/// Its value, given the shares of nodes that have the pod's images; `None`: it names none.
pub fn value(question: &Question<'_>, shares: &[u32]) -> Option<u32> {
    let wanted = &question.shape.facts.images;
    (!wanted.is_empty()).then(|| worth(&question.facts().images, wanted, shares))
}

/// What these images are worth that are there, to a pod that names some; `shares`: of nodes that
/// have those, as [`ImageCounts::shares`](crate::model::images::ImageCounts::shares) tells.
pub fn worth(there: &Images, wanted: &[Text], shares: &[u32]) -> u32 {
    if shares.is_empty() || there.is_empty() {
        return 0;
    }
    let bytes = wanted.iter().zip(shares).filter_map(|(image, share)| {
        let size = there.get(image).copied()?;
        Some(size.saturating_mul(i64::from(*share)) / i64::from(ALL))
    });
    let bytes = bytes.fold(0_i64, i64::saturating_add);
    let most = MOST.saturating_mul(i64::try_from(wanted.len()).unwrap_or(i64::MAX));
    let over = i128::from(bytes.clamp(LEAST, most) - LEAST);
    (over * i128::from(FULL) / i128::from(most - LEAST)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    fn of(sizes: &[i64], shares: &[u32]) -> u32 {
        let names: Vec<Text> = (0..sizes.len()).map(|at| format!("i{at}").into()).collect();
        let there: Images = names.iter().cloned().zip(sizes.iter().copied()).collect();
        worth(&there, &names, shares)
    }

    #[test]
    fn bytes_count_by_the_share_of_nodes_that_have_them() {
        assert_eq!(of(&[1_000 * MIB], &[1_000]), FULL);
        assert_eq!(of(&[1_000 * MIB], &[500]), (500 - 23) * 1_000 / (1_000 - 23));
        assert_eq!(of(&[2_000 * MIB], &[500]), FULL);
        assert_eq!(of(&[1_000 * MIB], &[23]), 0);
        let two = (300 + 40 - 23) * 1_000 / (2 * 1_000 - 23);
        assert_eq!(of(&[600 * MIB, 400 * MIB], &[500, 100]), two);
    }

    #[test]
    fn what_nobody_has_and_what_is_beyond_all_bounds_have_a_value() {
        assert_eq!(of(&[1_000 * MIB], &[]), 0);
        assert_eq!(of(&[i64::MAX, i64::MAX], &[1_000, 1_000]), FULL);
        assert_eq!(of(&[-5, 24 * MIB], &[1_000, 1_000]), 0);
    }
}
