//! `storageCapacity`: how little a pod's new volumes take of the storage that is left.
//!
//! For volumes that are made where their pod goes, by drivers that say what they can still make
//! (CSIStorageCapacity), as kube-scheduler has it since 1.37: the share that is left of each class,
//! all classes alike. A volume that is there already takes nothing of it, however large it is;
//! kube-scheduler prefers one that is far larger than what is asked, most of which is wasted.

use crate::model::volumes::Storage;
use crate::rules::Question;

use super::{FULL, share};

/// Its value; `None`: nobody counts what would be made for the pod.
pub fn value(question: &Question<'_>) -> Option<u32> {
    let demand = question.volumes?;
    let classes = demand.storage_on(question.facts(), &question.room.volumes)?;
    let sum: u32 = classes.iter().map(worth).sum();
    Some(sum.checked_div(classes.len() as u32).unwrap_or(FULL))
}

/// What one class is worth; nothing, where more is asked than is left.
fn worth(storage: &Storage) -> u32 {
    let Storage { asked, left } = *storage;
    if left <= 0 {
        return 0;
    }
    share(left - asked.clamp(0, left), left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_worth_the_share_that_is_left_of_it() {
        let of = |asked, left| worth(&Storage { asked, left });
        assert_eq!([of(0, 10), of(8, 10), of(10, 10)], [FULL, 200, 0]);
        assert_eq!([of(11, 10), of(1, 0), of(1, -1), of(-1, 10)], [0, 0, 0, FULL]);
        assert_eq!([of(1, i64::MAX), of(i64::MAX, i64::MAX)], [FULL - 1, 0]);
    }
}
