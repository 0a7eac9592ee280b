//! Addresses and networks: `ip(..)`, `cidr(..)` and their methods, which selectors of network
//! devices use. As Kubernetes has them: no zones, no IPv4 inside IPv6, no leading zeros.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Fault;
use super::value::Value;

/// A network as written: its address need not be the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    /// The first address of the network of `bits` around an address.
    fn first(address: IpAddr, bits: u8) -> IpAddr {
        match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        }
    }

    fn masked(self) -> Cidr {
        Cidr { address: Cidr::first(self.address, self.bits), bits: self.bits }
    }

    fn contains(self, address: IpAddr) -> bool {
        let same = self.address.is_ipv4() == address.is_ipv4();
        same && Cidr::first(address, self.bits) == self.masked().address
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.address, self.bits)
    }
}

/// An address.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    (!mapped).then_some(address)
}

/// A network.
pub(super) fn network(text: &str) -> Option<Cidr> {
    let (before, bits) = text.rsplit_once('/')?;
    let address = address(before)?;
    let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (bits.len() == 1 || !bits.starts_with('0'));
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits: u8 = bits.parse().ok().filter(|bits| plain && *bits <= most)?;
    Some(Cidr { address, bits })
}

/// A text as an address, or why it is none.
pub(super) fn parse_address(text: &str) -> Result<Value, Fault> {
    let fault = || Fault::new(format!("{text:?} is no IP address"));
    address(text).map(Value::Ip).ok_or_else(fault)
}

/// A text as a network, or why it is none.
pub(super) fn parse_network(text: &str) -> Result<Value, Fault> {
    let fault = || Fault::new(format!("{text:?} is no CIDR"));
    network(text).map(Value::Cidr).ok_or_else(fault)
}

/// `address.name(args)`.
pub(super) fn of_address(address: IpAddr, name: &str, args: &[Value]) -> Option<Value> {
    if !args.is_empty() {
        return None;
    }
    let multicast_near = match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    };
    let unicast_near = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    };
    let everybody = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    Some(match name {
        "family" => Value::Int(if address.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Value::Bool(address.is_unspecified()),
        "isLoopback" => Value::Bool(address.is_loopback()),
        "isLinkLocalMulticast" => Value::Bool(multicast_near),
        "isLinkLocalUnicast" => Value::Bool(unicast_near),
        "isGlobalUnicast" => Value::Bool(
            !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !unicast_near
                && !everybody,
        ),
        _ => return None,
    })
}

/// `network.name(args)`.
pub(super) fn of_network(cidr: Cidr, name: &str, args: &[Value]) -> Result<Option<Value>, Fault> {
    let inside = |other: Cidr| {
        let around = Cidr { address: other.address, bits: cidr.bits };
        Value::Bool(cidr.bits <= other.bits && cidr.contains(around.address))
    };
    Ok(match (name, args) {
        ("containsIP", [Value::Ip(other)]) => Some(Value::Bool(cidr.contains(*other))),
        ("containsIP", [Value::Text(text)]) => match parse_address(text)? {
            Value::Ip(other) => Some(Value::Bool(cidr.contains(other))),
            _ => None,
        },
        ("containsCIDR", [Value::Cidr(other)]) => Some(inside(*other)),
        ("containsCIDR", [Value::Text(text)]) => match parse_network(text)? {
            Value::Cidr(other) => Some(inside(other)),
            _ => None,
        },
        ("ip", []) => Some(Value::Ip(cidr.address)),
        ("masked", []) => Some(Value::Cidr(cidr.masked())),
        ("prefixLength", []) => Some(Value::Int(cidr.bits.into())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_an_address_and_what_is_not() {
        for good in ["10.0.0.1", "::1", "2001:db8::ff00:42:8329", "0.0.0.0"] {
            assert!(address(good).is_some(), "{good}");
        }
        for bad in ["10.0.0", "010.0.0.1", "::ffff:1.2.3.4", "fe80::1%eth0", "", "1.2.3.4/8"] {
            assert!(address(bad).is_none(), "{bad}");
        }
        for good in ["10.0.0.0/8", "10.1.2.3/0", "::/0", "fe80::/128"] {
            assert!(network(good).is_some(), "{good}");
        }
        for bad in ["10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/+8", "10.0.0.0", "::/129", "::/"] {
            assert!(network(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn networks_contain_what_is_in_them() {
        let net = |text: &str| network(text).expect("a network");
        let at = |text: &str| address(text).expect("an address");
        assert!(net("10.1.2.3/8").contains(at("10.255.0.1")));
        assert!(!net("10.0.0.0/8").contains(at("11.0.0.1")));
        assert!(!net("0.0.0.0/0").contains(at("::1")), "another family");
        assert!(net("::/0").contains(at("::1")) && net("::1/128").contains(at("::1")));
        assert_eq!(net("10.1.2.3/8").masked().to_string(), "10.0.0.0/8");
        let holds = |one: &str, other: &str| {
            let args = [Value::Text(other.into())];
            of_network(net(one), "containsCIDR", &args) == Ok(Some(Value::Bool(true)))
        };
        assert!(holds("10.0.0.0/8", "10.1.0.0/16") && holds("10.0.0.0/8", "10.0.0.0/8"));
        assert!(!holds("10.1.0.0/16", "10.0.0.0/8") && !holds("10.0.0.0/8", "::/16"));
    }
}
