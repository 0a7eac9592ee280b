//! Writes what people look at: Workload objects, statuses of queues, conditions of pods, events.
//!
//! Problem: say everything that people need without slowing what matters.
//!
//! Wanted: for one object only the newest text is ever written, and only if it differs from what
//! the API shows; at most one write a second for an object (the first at once), and a bounded
//! rate in all, behind binds; a burst drops events first, and counts what it drops; nothing here
//! is needed for a decision or a restart.
//!
//! Cost: the write budget of the design: for a gang (or work with an owner) one Workload create
//! and one status patch until it is bound; a waiting member one patch for each change of reason;
//! later patches merged.
