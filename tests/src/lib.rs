//! The testkit: scenarios, fact builders, generators, a player of effects, a slow model, and real
//! control planes.
//!
//! Nothing here is shipped. Test targets in `tests/` and the benchmarks in `bench/` use it; it
//! drives Capstan through its public contract only (the command line, or `Engine::step` and the
//! views), so that a change inside the engine never has to change a test.

pub mod around;
pub mod cluster;
pub mod devices;
pub mod disks;
pub mod exercise;
pub mod facts;
pub mod hand;
pub mod invariants;
pub mod kinds;
pub mod large;
pub mod model;
pub mod play;
pub mod playground;
pub mod preferred;
pub mod scenario;
pub mod seed;
pub mod strategy;
