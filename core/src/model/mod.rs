//! The cluster as the engine knows it.
//!
//! [`input`] is what comes in; [`apply`], [`assemble`], [`standing`] and [`adopt`] turn it into
//! [`state`]; [`txn`] is the only way to change it speculatively; [`claim`] keeps room for
//! reserved work, [`vacancy`] quota for members that died; [`bills`] what members cost where they
//! are, for queues with a quota of money; `apart` knows who may leave a gang that goes on, `roles`
//! minimums of roles, `surplus` who is too many in a group, `replicas` which members are of use
//! only together, `began` with how many a gang began, `late` keeps places for members that are made
//! once others run, `between` those of who ended, for who follows; `admitted` knows what is
//! believed of when work was admitted, `nominated` pods of others that may come; [`images`] knows
//! how many nodes have which, [`volumes`] storage; [`sweep`] forgets what nothing uses any more.

mod admitted;
pub mod adopt;
mod apart;
pub mod apply;
pub mod assemble;
mod began;
mod between;
pub mod bills;
pub mod budgets;
pub mod claim;
mod devices;
pub mod facts;
pub mod held;
mod holds;
pub mod ids;
pub mod images;
pub mod input;
mod late;
mod lifecycle;
pub mod lookup;
mod nominated;
pub mod pod;
pub mod podless;
mod replicas;
pub(crate) mod roles;
pub mod room;
pub mod standing;
pub mod state;
mod surplus;
pub mod sweep;
mod to_come;
pub mod txn;
pub mod vacancy;
pub mod volumes;
pub mod workload;
