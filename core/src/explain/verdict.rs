//! Per-node verdicts and workload explanations, made on request from the live state.
//!
//! Placeholder; filled next.
