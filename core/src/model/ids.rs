//! Handles into the engine's arenas.
//!
//! A handle is valid for one [`ClusterState`](super::state::ClusterState) and never leaves it:
//! names and uids do. Pods and workloads come and go, so theirs carry a generation that is
//! checked at every use. What is interned (shapes, names of queues and flavors) has plain indices;
//! they are given to others once nothing holds them (see [`crate::model::sweep`]), so their order
//! depends on what was there before and decides nothing.

use std::fmt;
use std::marker::PhantomData;

/// A generation-checked handle to a `T` in an [`Arena`].
pub struct Handle<T> {
    slot: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

/// A pod.
pub type PodIdx = Handle<super::pod::Pod>;
/// A workload.
pub type WorkloadIdx = Handle<super::workload::Workload>;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a position in a slice.
            pub fn at(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// A ResourceFlavor name; in use while its object exists or something is charged to it.
    FlavorIdx
);
index!(
    /// A pair of flavor and resource, the unit of quota.
    FrIdx
);
index!(
    /// A ClusterQueue name.
    QueueIdx
);
index!(
    /// A node of the quota tree; valid until the tree is built again.
    QuotaIdx
);
index!(
    /// An interned pod shape.
    ShapeIdx
);
index!(
    /// A pod class: shape, flavors and scoring profile; valid within one step.
    ClassIdx
);

/// Slots that are reused, with generations so that a stale handle is noticed. They stand in
/// blocks that never move: growing by one never copies the others.
#[derive(Debug)]
pub struct Arena<T> {
    blocks: Vec<Box<[Slot<T>; BLOCK]>>,
    /// So many were given; those behind them in the last block never were.
    slots: usize,
    free: Vec<u32>,
}

/// A generation and what lives in it. Each look reads the one and whether there is the other: as
/// they stand here they are near each other, where else the one would come behind all of the other.
#[derive(Debug)]
#[repr(C)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Slots of a block: some tens of kilobytes of the largest values. That all blocks have as many is
/// known when this is compiled: a look at a value, of which each decision takes thousands, reads
/// where its block is and no length.
const BLOCK: usize = 1 << 7;

impl<T> Default for Arena<T> {
    fn default() -> Arena<T> {
        Arena { blocks: Vec::new(), slots: 0, free: Vec::new() }
    }
}

impl<T> Arena<T> {
    /// Stores a value.
    pub fn insert(&mut self, value: T) -> Handle<T> {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let place = self.slot_mut(slot);
        place.value = Some(value);
        Handle { slot, generation: place.generation, of: PhantomData }
    }

    /// Makes one more slot.
    fn grow(&mut self) -> u32 {
        if self.slots.is_multiple_of(BLOCK) {
            let slots = (0..BLOCK).map(|_| Slot { generation: 0, value: None });
            let block: Box<[Slot<T>]> = slots.collect();
            let block: Result<Box<[Slot<T>; BLOCK]>, _> = block.try_into();
            self.blocks.push(block.unwrap_or_else(|_| unreachable!("as many as a block has")));
        }
        self.slots += 1;
        (self.slots - 1) as u32
    }

    #[inline]
    fn slot_mut(&mut self, slot: u32) -> &mut Slot<T> {
        &mut self.blocks[slot as usize / BLOCK][slot as usize % BLOCK]
    }

    /// Takes a value out; its handle is stale from now on.
    pub fn remove(&mut self, handle: Handle<T>) -> T {
        let place = self.slot_mut(handle.slot);
        assert_eq!(place.generation, handle.generation, "stale handle removed");
        place.generation += 1;
        let value = place.value.take().expect("a live generation has a value");
        self.free.push(handle.slot);
        value
    }

    /// The value, unless it was removed.
    #[inline]
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        let slot = handle.slot as usize;
        let Slot { generation, value } = &self.blocks.get(slot / BLOCK)?[slot % BLOCK];
        value.as_ref().filter(|_| *generation == handle.generation)
    }

    /// All live values with their handles, in slot order (an order without meaning).
    pub fn iter(&self) -> impl Iterator<Item = (Handle<T>, &T)> {
        let slots = self.blocks.iter().flat_map(|block| block.iter());
        slots.enumerate().filter_map(|(slot, Slot { generation, value })| {
            let handle = Handle { slot: slot as u32, generation: *generation, of: PhantomData };
            value.as_ref().map(|value| (handle, value))
        })
    }

    /// Number of live values.
    pub fn len(&self) -> usize {
        self.slots - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> std::ops::Index<Handle<T>> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, handle: Handle<T>) -> &T {
        self.get(handle).expect("handle of a live value")
    }
}

impl<T> std::ops::IndexMut<Handle<T>> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, handle: Handle<T>) -> &mut T {
        let place = self.slot_mut(handle.slot);
        assert_eq!(place.generation, handle.generation, "stale handle");
        place.value.as_mut().expect("a live generation has a value")
    }
}

impl<T> Handle<T> {
    /// Before all others, for ranges of ordered tables.
    pub const FIRST: Handle<T> = Handle { slot: 0, generation: 0, of: PhantomData };

    /// One that stands in for a value that does not exist: no arena comes to have as many.
    pub fn stand_in(number: u32) -> Handle<T> {
        Handle { slot: u32::MAX - number, ..Handle::FIRST }
    }

    /// Its slot, for tables beside the arena; another value may live there later.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// Handles, to be asked for one of them: a look costs one read. Four bytes for each slot of the
/// arena up to the highest that is in it.
#[derive(Debug)]
pub struct HandleSet<T> {
    /// By slot one more than the generation that is in it; 0: none.
    slots: Vec<u32>,
    of: PhantomData<fn() -> T>,
}

impl<T> Default for HandleSet<T> {
    fn default() -> HandleSet<T> {
        HandleSet { slots: Vec::new(), of: PhantomData }
    }
}

impl<T> HandleSet<T> {
    /// Whether it is in it.
    #[inline]
    pub fn contains(&self, handle: Handle<T>) -> bool {
        self.slots.get(handle.slot()) == Some(&(handle.generation + 1))
    }

    /// Puts it in, and out whatever had its slot before.
    pub fn insert(&mut self, handle: Handle<T>) {
        if self.slots.len() <= handle.slot() {
            self.slots.resize(handle.slot() + 1, 0);
        }
        self.slots[handle.slot()] = handle.generation + 1;
    }

    /// Takes it out.
    pub fn remove(&mut self, handle: Handle<T>) {
        if self.contains(handle) {
            self.slots[handle.slot()] = 0;
        }
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Handle<T>) -> bool {
        (self.slot, self.generation) == (other.slot, other.generation)
    }
}

impl<T> Eq for Handle<T> {}

impl<T> PartialOrd for Handle<T> {
    fn partial_cmp(&self, other: &Handle<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Handle<T> {
    fn cmp(&self, other: &Handle<T>) -> std::cmp::Ordering {
        (self.slot, self.generation).cmp(&(other.slot, other.generation))
    }
}

impl<T> std::hash::Hash for Handle<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.slot, self.generation).hash(state);
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "#{}.{}", self.slot, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing() {
        let mut arena = Arena::default();
        let first = arena.insert('a');
        assert_eq!(arena.remove(first), 'a');
        let second = arena.insert('b');
        assert_eq!((arena.get(first), arena.get(second)), (None, Some(&'b')));
        assert_eq!((arena.len(), arena.iter().count()), (1, 1));
    }

    #[test]
    fn a_set_tells_what_lives_in_a_slot_from_what_lived_there() {
        let mut arena = Arena::default();
        let handles: Vec<_> = (0..3).map(|n| arena.insert(n)).collect();
        let mut set = HandleSet::default();
        assert!(!set.contains(handles[2]));
        set.insert(handles[2]);
        assert_eq!(
            handles.iter().map(|h| set.contains(*h)).collect::<Vec<_>>(),
            [false, false, true]
        );
        arena.remove(handles[2]);
        let again = arena.insert(7);
        assert_eq!((again.slot, set.contains(again), set.contains(handles[2])), (2, false, true));
        set.remove(again);
        assert!(set.contains(handles[2]));
        set.insert(again);
        assert_eq!((set.contains(again), set.contains(handles[2])), (true, false));
        set.remove(again);
        assert!(!set.contains(again));
    }

    #[test]
    fn values_of_all_blocks_are_found_in_slot_order() {
        let mut arena = Arena::default();
        let handles: Vec<_> = (0..2 * BLOCK + 3).map(|n| arena.insert(n)).collect();
        arena.remove(handles[BLOCK]);
        assert_eq!((arena.len(), arena[handles[2 * BLOCK]]), (2 * BLOCK + 2, 2 * BLOCK));
        assert!(arena.iter().map(|(_, n)| *n).eq((0..2 * BLOCK + 3).filter(|n| *n != BLOCK)));
        assert_eq!(arena.insert(7).slot, handles[BLOCK].slot);
    }
}
