//! NodePorts: two pods on a node cannot use one host port of one protocol on one address.
//!
//! State: the host ports in use on every node, or kept for who waits for victims to leave, as a
//! sorted list. `0.0.0.0` is every address;
//! `::` is an ordinary one (as kube-scheduler has it).

use capstan_topology::NodeIdx;

use super::Question;
use crate::explain::reason::NodeRefusal;
use crate::model::input::HostPort;

/// Host ports in use, by node slot.
#[derive(Debug, Default)]
pub struct Ports {
    used: Vec<Vec<HostPort>>,
}

impl Ports {
    /// A pod's ports are in use on a node. The inverse is [`Ports::remove`].
    pub fn place(&mut self, node: NodeIdx, ports: &[HostPort]) {
        if ports.is_empty() {
            return;
        }
        if self.used.len() <= node.at() {
            self.used.resize_with(node.at() + 1, Vec::new);
        }
        let used = &mut self.used[node.at()];
        used.extend_from_slice(ports);
        used.sort_unstable();
    }

    /// A pod's ports are free again.
    pub fn remove(&mut self, node: NodeIdx, ports: &[HostPort]) {
        for port in ports {
            let used = &mut self.used[node.at()];
            let at = used.binary_search(port).expect("a port that was placed");
            used.remove(at);
        }
    }

    /// Forgets a node without ports in use.
    pub fn forget_node(&mut self, node: NodeIdx) {
        if let Some(used) = self.used.get_mut(node.at()) {
            assert!(used.is_empty(), "a node whose ports are in use");
            *used = Vec::new();
        }
    }

    /// Gives back the memory of node slots from one on, which were all forgotten.
    pub fn truncate_nodes(&mut self, slots: usize) {
        self.used.truncate(slots);
    }

    /// Ports in use on a node.
    pub fn used(&self, node: NodeIdx) -> &[HostPort] {
        self.used.get(node.at()).map_or(&[], Vec::as_slice)
    }

    /// Compares with the ports of all placed pods and of all claims.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount<'a>(&self, placed: impl Iterator<Item = (NodeIdx, &'a [HostPort])>) {
        let mut counted = Ports::default();
        for (node, ports) in placed {
            counted.place(node, ports);
        }
        for at in 0..self.used.len().max(counted.used.len()) {
            let node = NodeIdx(at as u32);
            assert_eq!(self.used(node), counted.used(node), "host ports of node slot {at}");
        }
    }
}

/// Refuses a node where a wanted port is taken; names the first.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let used = question.room.ports.used(question.node);
    let taken =
        |wanted: &&HostPort| question.beside > 0 || used.iter().any(|used| conflict(wanted, used));
    if let Some(port) = question.shape.facts.ports.iter().find(taken) {
        refusals.push(NodeRefusal::Port { port: port.port, protocol: port.protocol.clone() });
    }
}

/// At most one pod that uses host ports, unless one is taken.
pub fn slots(question: &Question<'_>) -> u32 {
    let wanted = &question.shape.facts.ports;
    if wanted.is_empty() {
        return u32::MAX;
    }
    let used = question.room.ports.used(question.node);
    let free = !wanted.iter().any(|port| used.iter().any(|used| conflict(port, used)));
    u32::from(free)
}

/// Whether wanted ports are free on a node once pods with these ports have left it.
pub fn would_be_free<'a>(
    (used, wanted): (&[HostPort], &[HostPort]),
    leaving: impl Iterator<Item = &'a HostPort> + Clone,
) -> bool {
    wanted.iter().all(|wanted| {
        let taken = used.iter().filter(|used| conflict(wanted, used)).count();
        taken <= leaving.clone().filter(|leaves| conflict(wanted, leaves)).count()
    })
}

fn conflict(a: &HostPort, b: &HostPort) -> bool {
    const EVERY: &str = "0.0.0.0";
    a.port == b.port
        && a.protocol == b.protocol
        && (a.ip == b.ip || &*a.ip == EVERY || &*b.ip == EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(port: u16, protocol: &str, ip: &str) -> HostPort {
        HostPort { port, protocol: protocol.into(), ip: ip.into() }
    }

    #[test]
    fn addresses_and_protocols_decide_conflicts() {
        let any = port(80, "TCP", "0.0.0.0");
        assert!(conflict(&any, &port(80, "TCP", "127.0.0.1")));
        assert!(!conflict(&any, &port(80, "UDP", "127.0.0.1")));
        assert!(!conflict(&any, &port(81, "TCP", "0.0.0.0")));
        assert!(!conflict(&port(80, "TCP", "10.0.0.1"), &port(80, "TCP", "10.0.0.2")));
        assert!(!conflict(&port(80, "TCP", "::"), &port(80, "TCP", "10.0.0.2")));
    }

    #[test]
    fn ports_come_free_with_all_who_use_them() {
        let (any, own) = (port(80, "TCP", "0.0.0.0"), port(80, "TCP", "10.0.0.1"));
        let other = port(80, "TCP", "10.0.0.2");
        let free = |used: &[HostPort], leaving: &[HostPort]| {
            would_be_free((used, std::slice::from_ref(&any)), leaving.iter())
        };
        assert!(free(&[], &[]));
        assert!(!free(&[own.clone(), other.clone()], std::slice::from_ref(&own)));
        assert!(free(&[own.clone(), other.clone()], &[other.clone(), own.clone()]));
        let wanted = std::slice::from_ref(&own);
        assert!(would_be_free((std::slice::from_ref(&other), wanted), [].iter()));
    }

    #[test]
    fn what_is_removed_is_free_again() {
        let mut ports = Ports::default();
        let (node, wanted) = (NodeIdx(3), [port(80, "TCP", "0.0.0.0"), port(22, "TCP", "::")]);
        ports.place(node, &wanted);
        ports.place(node, &wanted[..1]);
        ports.remove(node, &wanted);
        assert_eq!(ports.used(node), &wanted[..1]);
        ports.recount([(node, &wanted[..1])].into_iter());
    }
}
