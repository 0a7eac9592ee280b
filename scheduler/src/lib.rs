//! Placeholder.
pub mod metrics;
pub mod progress;
pub mod world;
