//! Typed indices into arenas. An index is valid for one arena and never stored outside.

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The index as a position in a slice.
            pub fn at(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// A node slot; reused some time after the node is gone and nothing is left on it.
    NodeIdx(u32)
);
index!(
    /// A resource name, numbered in the order first met.
    ResourceIdx(u16)
);
index!(
    /// An interned request vector; reused some time after the last pod that asks it is gone.
    RequestIdx(u32)
);
index!(
    /// A domain of the topology tree; valid until the tree is built again.
    DomainIdx(u32)
);
index!(
    /// A level of the tree, 0 the outermost.
    LevelIdx(u8)
);
