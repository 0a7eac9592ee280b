//! The one place where reasons become English.
//!
//! Placeholder; filled next.
