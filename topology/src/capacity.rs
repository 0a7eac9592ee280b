//! Integer resource vectors: dense for what a node has, sparse for what a pod asks.

use crate::ids::ResourceIdx;

/// An amount that never runs out; it absorbs every subtraction.
pub const UNLIMITED: i64 = i64::MAX;

/// Amounts by resource, dense; what is not stored is zero.
#[derive(Clone, Debug, Default)]
pub struct Vector<N> {
    amounts: Vec<N>,
}

/// What somebody has or asks.
pub type ResourceVector = Vector<i64>;

/// What many ask together: no sum of amounts that fit an [`i64`] overflows it, so what was added
/// can be taken away again.
pub type ResourceSum = Vector<i128>;

impl<N: Copy + Default + PartialEq> Vector<N> {
    /// The amount of one resource.
    #[inline]
    pub fn get(&self, resource: ResourceIdx) -> N {
        self.amounts.get(resource.at()).copied().unwrap_or_default()
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, resource: ResourceIdx, amount: N) {
        *self.slot(resource) = amount;
    }

    /// Resources with an amount other than zero, in index order.
    pub fn entries(&self) -> impl Iterator<Item = (ResourceIdx, N)> + '_ {
        let indexed = self.amounts.iter().enumerate();
        indexed.filter(|(_, a)| **a != N::default()).map(|(i, a)| (ResourceIdx(i as u16), *a))
    }

    fn slot(&mut self, resource: ResourceIdx) -> &mut N {
        if self.amounts.len() <= resource.at() {
            self.amounts.resize(resource.at() + 1, N::default());
        }
        &mut self.amounts[resource.at()]
    }
}

impl ResourceSum {
    /// Adds (or with a negative amount takes away).
    pub fn add(&mut self, resource: ResourceIdx, amount: i64) {
        *self.slot(resource) += i128::from(amount);
    }
}

impl<N: Copy + Default + PartialEq> PartialEq for Vector<N> {
    /// Equal amounts; trailing zeros do not count.
    fn eq(&self, other: &Vector<N>) -> bool {
        self.entries().eq(other.entries())
    }
}

impl<N: Copy + Default + PartialEq> Eq for Vector<N> {}

/// What one pod asks: sorted by resource, every amount above zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    entries: Box<[(ResourceIdx, i64)]>,
}

impl Request {
    /// Builds a request; zero and negative amounts are dropped, equal resources are added up.
    pub fn new(amounts: impl IntoIterator<Item = (ResourceIdx, i64)>) -> Request {
        let mut entries: Vec<(ResourceIdx, i64)> =
            amounts.into_iter().filter(|(_, amount)| *amount > 0).collect();
        entries.sort_unstable();
        entries.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        Request { entries: entries.into_boxed_slice() }
    }

    /// The amounts, sorted by resource.
    #[inline]
    pub fn entries(&self) -> &[(ResourceIdx, i64)] {
        &self.entries
    }

    /// The amount of one resource, zero when it is not asked.
    pub fn get(&self, resource: ResourceIdx) -> i64 {
        match self.entries.binary_search_by_key(&resource, |entry| entry.0) {
            Ok(at) => self.entries[at].1,
            Err(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_sorted_merged_and_positive() {
        let r = |i| ResourceIdx(i);
        let request = Request::new([(r(2), 5), (r(0), 0), (r(1), -3), (r(2), 1), (r(0), 4)]);
        assert_eq!(request.entries(), [(r(0), 4), (r(2), 6)]);
        assert_eq!((request.get(r(2)), request.get(r(1))), (6, 0));
    }

    #[test]
    fn vectors_compare_by_amount_not_by_length() {
        let mut a = ResourceSum::default();
        let mut b = ResourceSum::default();
        a.add(ResourceIdx(0), 7);
        b.add(ResourceIdx(0), 7);
        b.add(ResourceIdx(5), 1);
        assert_ne!(a, b);
        b.add(ResourceIdx(5), -1);
        assert_eq!(a, b);
    }
}
