//! The words for members that run in a queue and hold none of its quota.

use std::fmt;

use crate::explain::quantity::{amount, counted};
use crate::explain::view::Uncharged;

/// Flavors that are named; beyond, they are counted.
const NAMED_MAX: usize = 3;

impl fmt::Display for Uncharged {
    /// `1 pod on n9 holds no quota for 3 cpu: no flavor of main (a, b) fits by labels and taints`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pods = counted(i64::from(self.pods), "pod");
        let first = self.nodes.first().map_or("no node", |node| node);
        let more = match self.nodes.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {}", counted(as_count(more), "other node")),
        };
        let verb = if self.pods == 1 { "holds" } else { "hold" };
        let amounts: Vec<String> =
            self.amounts.iter().map(|(resource, held)| amount(resource, *held)).collect();
        let (amounts, queue) = (amounts.join(", "), &self.cluster_queue);
        let mut flavors = self
            .flavors
            .iter()
            .take(NAMED_MAX)
            .map(|flavor| &**flavor)
            .collect::<Vec<_>>()
            .join(", ");
        if let more @ 1.. = self.flavors.len().saturating_sub(NAMED_MAX) {
            flavors.push_str(&format!(" and {}", counted(as_count(more), "other")));
        }
        write!(
            out,
            "{pods} on {first}{more} {verb} no quota for {amounts}: no flavor of {queue} \
             ({flavors}) fits by labels and taints"
        )
    }
}

fn as_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::Text;

    #[test]
    fn pods_nodes_amounts_and_flavors_are_counted() {
        let texts = |names: &[&str]| names.iter().map(|name| Text::from(*name)).collect();
        let mut found = Uncharged {
            cluster_queue: "main".into(),
            pods: 1,
            nodes: texts(&["n9"]),
            amounts: [("cpu".into(), 3_000)].into(),
            flavors: texts(&["a"]),
        };
        let want = "1 pod on n9 holds no quota for 3 cpu: no flavor of main (a) fits by labels \
                    and taints";
        assert_eq!(found.to_string(), want);
        found.pods = 4;
        found.nodes = texts(&["n1", "n2", "n3"]);
        found.amounts.insert("nvidia.com/gpu".into(), 8);
        found.flavors = texts(&["a", "b", "c", "d"]);
        let want = "4 pods on n1 and 2 other nodes hold no quota for 3 cpu, 8 GPUs: no flavor of \
                    main (a, b, c and 1 other) fits by labels and taints";
        assert_eq!(found.to_string(), want);
    }
}
