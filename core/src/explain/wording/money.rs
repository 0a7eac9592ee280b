//! The words for quota of money: what it is called, and that prices are not known.

use crate::explain::quantity::{self, USD_PER_HOUR, counted};

/// What is short, without a number.
pub(super) fn noun(resource: &str) -> &str {
    if resource == USD_PER_HOUR { "money" } else { quantity::noun(resource, 2) }
}

/// That nobody knows what the nodes cost that would take it, and how to say so.
pub(super) fn unknown(nodes: u32) -> String {
    let nodes = counted(i64::from(nodes), "node");
    format!(
        "nobody knows the price of {nodes} that would take it, and its queue has a quota of \
         {USD_PER_HOUR} (annotate nodes with capstan.sh/price, or list prices in the configuration)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::reason::{FlavorProblem, FlavorRefusal, Reason};

    #[test]
    fn unknown_prices_say_what_to_configure() {
        let words = "nobody knows the price of 2 nodes that would take it, and its queue has a \
                     quota of capstan.sh/usd-per-hour (annotate nodes with capstan.sh/price, or \
                     list prices in the configuration)";
        let (by_itself, why) =
            (Reason::PriceUnknown { nodes: 2 }, FlavorProblem::PriceUnknown { nodes: 2 });
        assert_eq!((by_itself.code(), by_itself.kind()), ("PriceUnknown", "nodes"));
        assert_eq!(by_itself.to_string(), words);
        let of_flavor = Reason::Flavors {
            cluster_queue: "team".into(),
            pod_set: "main".into(),
            tried: vec![FlavorRefusal { flavor: "spot".into(), why }],
        };
        assert_eq!((of_flavor.code(), of_flavor.kind()), ("PriceUnknown", "nodes"));
        assert_eq!(of_flavor.to_string(), format!("{words} (flavor spot)"));
        assert_eq!(of_flavor.place(), "prices of its nodes (spot)");
    }

    #[test]
    fn money_has_a_name_where_no_amount_stands_beside_it() {
        assert_eq!((noun(USD_PER_HOUR), noun("cpu")), ("money", "cpu"));
    }
}
