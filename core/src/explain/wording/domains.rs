//! The words for a level no one domain of which holds a gang.

use super::nodes;
use crate::explain::quantity::counted;
use crate::explain::reason::DomainShortage;

/// The answer; `whole`: with what keeps the next out of the domain that holds most.
pub(super) fn shortage(short: &DomainShortage, whole: bool) -> String {
    let (level, holds, all) = (&short.level, short.holds, short.holds >= short.asked);
    let pods = counted(i64::from(short.asked), "pod");
    let fit = if short.asked == 1 { "fits" } else { "fit" };
    let said = match (short.slice, &short.best) {
        (Some(size), _) => {
            let size = counted(i64::from(size), "pod");
            let slices = format!("in slices of {size}, each within one {level}");
            match all {
                true => format!("{pods} {fit} one by one, not {slices}"),
                false => format!("{holds} of {pods} fit {slices}"),
            }
        }
        (None, Some(_)) if all => {
            format!("{pods} {fit} into one {level}, not all of the gang with them")
        }
        (None, Some(best)) => format!("no one {level} holds {pods}; {best} holds most, {holds}"),
        (None, None) => format!("no one {level} holds {pods}; none holds any"),
    };
    let next = match &short.next {
        Some(next) if whole => format!("; there {}", nodes::next(next)),
        _ => String::new(),
    };
    let (even, ended) = (nodes::even_then(short.gone), nodes::ended_behind(short.ended));
    format!("{even}{said}{next}{ended}")
}

/// Which room is missing, without the numbers that have columns of their own.
pub(super) fn place(short: &DomainShortage) -> String {
    let (level, then) = (&short.level, nodes::then(short.gone));
    match &short.best {
        Some(best) => format!("pods within one {level}; most in {best}{then}"),
        None => format!("pods within one {level}{then}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::reason::{Nearest, NodeRefusal, NodeShortage};

    fn four(best: Option<&str>, holds: u32, slice: Option<u32>) -> DomainShortage {
        let (level, best) = ("rack".into(), best.map(Into::into));
        DomainShortage { level, asked: 4, best, holds, next: None, slice, gone: 0, ended: None }
    }

    fn beside(nearest: Option<Nearest>) -> Box<NodeShortage> {
        let spread = NodeRefusal::Spread { key: "zone".into(), count: 0, least: 0, max_skew: 0 };
        Box::new(NodeShortage {
            nodes: 2,
            asked: 4,
            holds: 3,
            refusals: vec![(spread, 2)],
            nearest,
            unwanted: None,
            gone: 0,
            ended: None,
        })
    }

    #[test]
    fn what_the_next_lacks_where_most_are_is_told_with_the_whole() {
        let most = "no one rack holds 4 pods; r1 holds most, 3";
        let next = Some(beside(None));
        let short = DomainShortage { next, ..four(Some("r1"), 3, None) };
        assert_eq!(shortage(&short, false), most);
        let zone = "its zone would be further ahead than maxSkew allows";
        let said = format!("{most}; there no node takes the next: {zone} on all 2");
        assert_eq!(shortage(&short, true), said);
        let near = Nearest { node: "n1".into(), resource: "cpu".into(), asked: 6_000, free: 2_000 };
        let next = Some(beside(Some(near)));
        let short = DomainShortage { next, ..four(Some("r1"), 3, None) };
        let lacks = "the next needs 6 cpu, the fullest match n1 has 2 left beside them";
        assert_eq!(shortage(&short, true), format!("{most}; there {lacks}"));
    }

    #[test]
    fn who_fits_one_by_one_is_not_said_to_be_too_many() {
        let rows = [
            (four(None, 2, Some(2)), "2 of 4 pods fit in slices of 2 pods, each within one rack"),
            (
                four(None, 4, Some(2)),
                "4 pods fit one by one, not in slices of 2 pods, each within one rack",
            ),
            (four(Some("r1"), 9, None), "4 pods fit into one rack, not all of the gang with them"),
            (four(None, 0, None), "no one rack holds 4 pods; none holds any"),
        ];
        for (short, words) in rows {
            assert_eq!(shortage(&short, true), words);
        }
    }
}
