//! What a node costs and how it is bought, read from its labels, annotations, the configured
//! price list and the built-in catalogue.
//!
//! Prices, best first: the node's annotation `capstan.sh/price` (US dollars an hour, as a plain
//! decimal; anything else is ignored), the configured list (the rule with most conditions that
//! match, the first of equals), for reserved nodes the configured price of reserved capacity
//! (zero unless configured: it is already paid, and so never the catalogue's price), the
//! catalogue by instance type, else unknown. In the catalogue a spot node whose spot price nobody
//! knows costs the on-demand price, which it never exceeds; so does a node of unknown capacity
//! type. Shares of a price and what unknown prices mean for a score are the engine's.

pub mod capacity;
pub mod catalogue;
mod product;

use capstan_core::model::input::{CapacityType, Labels, Price, PriceSource};
use capstan_core::money::MicroUsd;

use crate::config::{PriceConfig, PriceEntry};

pub use product::gpu_model;

/// The node annotation that states its price: US dollars an hour for the whole node.
pub const PRICE_ANNOTATION: &str = "capstan.sh/price";

/// How a node is bought, and for how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEconomics {
    /// How it is bought.
    pub capacity_type: CapacityType,
    /// Its price, when somebody knows it.
    pub price: Option<Price>,
}

/// What labels, annotations and configuration say about a node's price.
pub fn economics(labels: &Labels, annotations: &Labels, prices: &PriceConfig) -> NodeEconomics {
    let capacity_type = capacity::capacity_type(labels, &prices.capacity_labels);
    let price = annotated(annotations)
        .or_else(|| configured(labels, capacity_type, prices))
        .or_else(|| catalogued(labels, capacity_type));
    NodeEconomics { capacity_type, price }
}

/// US dollars written as a plain decimal (`3.06`), rounded to micro-USD; `None` for anything else.
pub fn parse_usd(text: &str) -> Option<MicroUsd> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    // Six digits are micro-USD, the seventh rounds.
    let mut micro: i64 = 0;
    for at in 0..6 {
        let digit = fraction.as_bytes().get(at).map_or(0, |byte| i64::from(byte - b'0'));
        micro = micro * 10 + digit;
    }
    let rounded = i64::from(fraction.as_bytes().get(6).is_some_and(|byte| *byte >= b'5'));
    let value = whole.checked_mul(1_000_000)?.checked_add(micro + rounded)?;
    Some(MicroUsd(value))
}

/// The instance type of a node: the well-known label, its old alias, or a provisioner's own.
pub fn instance_type(labels: &Labels) -> Option<&str> {
    const KEYS: [&str; 3] = [
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "karpenter.azure.com/sku-name",
    ];
    first_label(labels, &KEYS)
}

fn first_label<'a>(labels: &'a Labels, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| labels.get(*key)).map(|value| &**value)
}

fn annotated(annotations: &Labels) -> Option<Price> {
    let per_hour = parse_usd(annotations.get(PRICE_ANNOTATION)?.trim())?;
    Some(Price { per_hour, source: PriceSource::Annotation })
}

fn configured(labels: &Labels, bought: CapacityType, prices: &PriceConfig) -> Option<Price> {
    let mut best: Option<(usize, &PriceEntry)> = None;
    for rule in &prices.entries {
        let Some(matched) = conditions_met(rule, labels, bought) else { continue };
        if best.is_none_or(|(most, _)| matched > most) {
            best = Some((matched, rule));
        }
    }
    let reserved = (bought == CapacityType::Reserved).then_some(prices.reserved_per_hour);
    let per_hour = best.map(|(_, rule)| rule.per_hour).or(reserved)?;
    Some(Price { per_hour, source: PriceSource::Configured })
}

/// How many conditions the rule has, if all of them hold.
fn conditions_met(rule: &PriceEntry, labels: &Labels, bought: CapacityType) -> Option<usize> {
    let region = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];
    let zone = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
    let texts = [
        (&rule.instance_type, instance_type(labels)),
        (&rule.region, first_label(labels, &region)),
        (&rule.zone, first_label(labels, &zone)),
    ];
    let mut met = 0;
    for (wanted, have) in texts {
        match wanted {
            Some(wanted) if have == Some(wanted) => met += 1,
            Some(_) => return None,
            None => {}
        }
    }
    match rule.capacity_type {
        Some(wanted) if wanted == bought => met += 1,
        Some(_) => return None,
        None => {}
    }
    for (key, value) in &rule.labels {
        if labels.get(key) != Some(value) {
            return None;
        }
        met += 1;
    }
    Some(met)
}

fn catalogued(labels: &Labels, bought: CapacityType) -> Option<Price> {
    let known = catalogue::find(instance_type(labels)?)?;
    let per_hour = match bought {
        CapacityType::Spot => known.spot.or(known.on_demand),
        CapacityType::Reserved | CapacityType::OnDemand | CapacityType::Unknown => known.on_demand,
    }?;
    Some(Price { per_hour, source: PriceSource::Catalogue })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn node(bought: &str) -> Labels {
        labels(&[
            ("karpenter.sh/capacity-type", bought),
            ("node.kubernetes.io/instance-type", "p4d.24xlarge"),
            ("topology.kubernetes.io/region", "us-east-1"),
            ("topology.kubernetes.io/zone", "us-east-1a"),
            ("pool", "train"),
        ])
    }

    fn price_of(node: &Labels, annotations: &[(&str, &str)], prices: &PriceConfig) -> Price {
        economics(node, &labels(annotations), prices).price.expect("a price is known")
    }

    fn rule(per_hour: i64) -> PriceEntry {
        PriceEntry { per_hour: MicroUsd(per_hour), ..PriceEntry::default() }
    }

    #[test]
    fn decimals_become_micro_usd() {
        let rows = [
            ("3.06", Some(3_060_000)),
            ("12", Some(12_000_000)),
            ("0.0000005", Some(1)),
            ("0.00000049", Some(0)),
            ("0.9999999", Some(1_000_000)),
            ("", None),
            (".5", None),
            ("5.", None),
            ("-1", None),
            ("$3", None),
            ("1e3", None),
            ("1,5", None),
            ("99999999999999", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_usd(text).map(|usd| usd.0), expected, "{text:?}");
        }
    }

    #[test]
    fn annotation_then_list_then_catalogue_then_unknown() {
        let listed = PriceConfig { entries: vec![rule(5)], ..PriceConfig::default() };
        let none = PriceConfig::default();
        let spot = node("spot");
        let annotation = price_of(&spot, &[(PRICE_ANNOTATION, "1.5")], &listed);
        assert_eq!(
            (annotation.per_hour.0, annotation.source),
            (1_500_000, PriceSource::Annotation)
        );
        let malformed = price_of(&spot, &[(PRICE_ANNOTATION, "cheap")], &listed);
        assert_eq!((malformed.per_hour.0, malformed.source), (5, PriceSource::Configured));
        let catalogue = price_of(&spot, &[], &none);
        assert_eq!((catalogue.per_hour.0, catalogue.source), (12_500_000, PriceSource::Catalogue));
        let unknown = economics(&labels(&[("capacity-type", "spot")]), &Labels::new(), &none);
        assert_eq!((unknown.capacity_type, unknown.price), (CapacityType::Spot, None));
    }

    #[test]
    fn the_catalogue_prices_by_capacity_type() {
        let none = PriceConfig::default();
        assert_eq!(price_of(&node("on-demand"), &[], &none).per_hour, MicroUsd(32_770_000));
        let alias = labels(&[("beta.kubernetes.io/instance-type", "p4d.24xlarge")]);
        assert_eq!(price_of(&alias, &[], &none).per_hour, MicroUsd(32_770_000));
    }

    #[test]
    fn reserved_nodes_cost_what_is_configured_and_nothing_by_default() {
        let node = node("reserved");
        let zero = price_of(&node, &[], &PriceConfig::default());
        assert_eq!((zero.per_hour.0, zero.source), (0, PriceSource::Configured));
        let reserved_per_hour = MicroUsd(7);
        let config = PriceConfig { reserved_per_hour, ..PriceConfig::default() };
        assert_eq!(price_of(&node, &[], &config).per_hour.0, 7);
        let listed = PriceConfig { entries: vec![rule(9)], ..config };
        assert_eq!(price_of(&node, &[], &listed).per_hour.0, 9);
    }

    #[test]
    fn the_rule_with_most_conditions_wins_then_the_first() {
        let by_type = PriceEntry { instance_type: Some("p4d.24xlarge".into()), ..rule(2) };
        let by_place = PriceEntry {
            region: Some("us-east-1".into()),
            zone: Some("us-east-1a".into()),
            ..rule(3)
        };
        let by_labels = PriceEntry {
            capacity_type: Some(CapacityType::Spot),
            labels: [("pool".into(), "train".into())].into(),
            ..rule(4)
        };
        let elsewhere = PriceEntry {
            instance_type: Some("p4d.24xlarge".into()),
            region: Some("eu-west-1".into()),
            capacity_type: Some(CapacityType::Spot),
            ..rule(5)
        };
        let list = vec![rule(1), by_type, by_place, by_labels, elsewhere];
        let prices = PriceConfig { entries: list, ..PriceConfig::default() };
        assert_eq!(price_of(&node("spot"), &[], &prices).per_hour.0, 3);
        assert_eq!(price_of(&labels(&[]), &[], &prices).per_hour.0, 1);
    }
}
