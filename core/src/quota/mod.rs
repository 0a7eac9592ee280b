//! Quota: who may use how much of which flavor, borrowing and lending included.
//!
//! [`tree`] is the arithmetic of hierarchical cohorts; [`eligible`] and [`flavors`] choose flavors
//! for a workload; [`build`] turns queue objects into the tree and says which are inactive;
//! [`lending`] says who lends what is borrowed, [`share`] who borrows most; [`counted`] what a pod
//! counts as; [`spending`] what queues spend of their budgets.

pub mod bound;
pub mod build;
pub mod counted;
pub mod eligible;
pub mod flavors;
pub mod history;
pub mod lending;
pub mod money;
pub mod rate;
pub mod share;
pub mod spending;
pub mod tree;
