//! The words for limits in the quota tree: whose, how much, and who uses it.

use std::fmt;

use crate::explain::quantity::{amount, counted, quantity};
use crate::explain::view::{Binding, Holder, Limit};

impl fmt::Display for Holder {
    /// `team-a`, `cohort research`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Queue(name) => out.write_str(name),
            Holder::Cohort(name) => write!(out, "cohort {name}"),
        }
    }
}

impl Limit {
    /// The field of a queue's or cohort's quota that it is.
    pub fn field(self) -> &'static str {
        match self {
            Limit::Quota => "nominalQuota",
            Limit::Borrowing => "borrowingLimit",
            Limit::Lending => "lendingLimit",
        }
    }
}

impl fmt::Display for Binding {
    /// `quota of cohort research: 32 GPUs (flavor a100), 24 used, by team-vision (24)`;
    /// `borrowingLimit of team-a: 2 GPUs (flavor a100), 1 borrowed`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, verb) = match self.limit {
            Limit::Quota => ("quota", "used"),
            Limit::Borrowing => ("borrowingLimit", "borrowed"),
            Limit::Lending => ("lendingLimit", "lent"),
        };
        let (all, used) =
            (amount(&self.resource, self.amount), quantity(&self.resource, self.used));
        write!(out, "{what} of {}: {all} (flavor {}), {used} {verb}", self.holder, self.flavor)?;
        // Of one queue's own quota that says nothing new.
        let own =
            matches!((&self.holder, &self.by[..]), (Holder::Queue(own), [(by, _)]) if own == by);
        if self.by.is_empty() || own || self.limit != Limit::Quota {
            return Ok(());
        }
        let of =
            |(queue, used): &(_, i64)| format!("{queue} ({})", quantity(&self.resource, *used));
        write!(out, " by {}", self.by.iter().map(of).collect::<Vec<_>>().join(", "))?;
        match self.others {
            Some((queues, used)) => {
                let queues = counted(queues.into(), "other queue");
                write!(out, " and {queues} ({})", quantity(&self.resource, used))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_said_with_its_holder_and_who_uses_it() {
        let binding = |holder, limit, amount, used, by: &[(&str, i64)]| Binding {
            holder,
            limit,
            flavor: "a100".into(),
            resource: "nvidia.com/gpu".into(),
            amount,
            used,
            by: by.iter().map(|(queue, used)| ((*queue).into(), *used)).collect(),
            others: None,
            until: None,
        };
        let all = Holder::Cohort("all".into());
        let shared = binding(all.clone(), Limit::Quota, 32, 24, &[("b", 20), ("a", 4)]);
        let words = "quota of cohort all: 32 GPUs (flavor a100), 24 used by b (20), a (4)";
        assert_eq!(shared.to_string(), words);
        let more = Binding { used: 31, others: Some((3, 7)), ..shared };
        let words = "quota of cohort all: 32 GPUs (flavor a100), 31 used by b (20), a (4) and 3 \
                     other queues (7)";
        assert_eq!(more.to_string(), words);
        let own = binding(Holder::Queue("a".into()), Limit::Quota, 8, 6, &[("a", 6)]);
        assert_eq!(own.to_string(), "quota of a: 8 GPUs (flavor a100), 6 used");
        let limit = binding(all, Limit::Borrowing, 1, 1, &[("a", 4)]);
        let words = "borrowingLimit of cohort all: 1 GPU (flavor a100), 1 borrowed";
        assert_eq!(limit.to_string(), words);
    }
}
