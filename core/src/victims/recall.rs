//! What a search for victims found, for whoever asks the same again.
//!
//! Quota is looked at resource by resource before it is looked at as a whole. Of who asks one
//! resource of one flavor both are the same question, and the search is the dearest part of a
//! nomination. Kept within one transaction, while nothing is changed in it; what depends on where
//! several members go together is asked anew.

use super::removed::Extent;
use super::{Lack, Need, Victim};
use crate::model::ids::WorkloadIdx;
use crate::model::txn::Txn;
use crate::place::gang::{self, Ask};

/// Keeps what a search found in a transaction that had changed nothing.
pub(super) fn remember(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    need: &Need,
    found: &Result<Vec<Victim>, Lack>,
) {
    let (need, found) = (need.clone(), found.clone());
    txn.searched = Some(Box::new(Searched { preemptor, need, found }));
}

/// What a search found in a transaction that had changed nothing.
#[derive(Debug)]
pub(crate) struct Searched {
    preemptor: WorkloadIdx,
    need: Need,
    found: Result<Vec<Victim>, Lack>,
}

/// What the same search found before; its victims are removed again, as far as is wanted.
pub(super) fn found_before(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    need: &Need,
    (members, extent): (&[Ask], Extent),
) -> Option<Result<Vec<Victim>, Lack>> {
    let same = |known: &&Searched| known.preemptor == preemptor && known.need == *need;
    let known = txn.searched.as_deref().filter(same).filter(|_| txn.untouched())?;
    let found = known.found.clone();
    let (alone, topology) = (members.len() < 2, need.topology);
    let trial = |ask: &Ask| gang::wants_trial(txn, ask.class, ask.pods.len() as u32, topology);
    if !alone || members.iter().any(trial) || gang::are_coupled(txn, members) {
        return None;
    }
    for victim in found.iter().flatten() {
        match extent {
            Extent::Whole => drop(txn.remove_workload(victim.workload)),
            Extent::Quota => drop(txn.discharge_workload(victim.workload)),
        }
    }
    Some(found)
}
