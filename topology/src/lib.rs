//! The hardware under the scheduler: levels and domains, resource vectors, the ledger of what is
//! free, and the index that says what fits where.
//!
//! It knows shapes and numbers only. Who asks, why, in which queue and when is left to the
//! engine; names are opaque ids that the caller hands out in an order that it chose.

pub mod capacity;
pub mod fit;
pub mod ids;
pub mod intern;
pub mod ledger;
pub mod tree;

pub use capacity::{Request, ResourceSum, ResourceVector, UNLIMITED};
pub use fit::{FitIndex, Spot};
pub use ids::{DomainIdx, LevelIdx, NodeIdx, RequestIdx, ResourceIdx};
pub use intern::Interner;
pub use ledger::{Ledger, LedgerUndo, clamped};
pub use tree::{LEVELS_MAX, Place, Tree};
