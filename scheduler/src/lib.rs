//! The shell around the engine: reading, prices, the command line, and what people see.

pub mod cli;
pub mod config;
pub mod prices;
pub mod render;
