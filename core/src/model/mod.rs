//! The cluster as the engine knows it.
pub mod input;
