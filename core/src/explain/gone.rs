//! Reasons as they are told of a search: as if others had left, or where it ended.

use super::reason::{FlavorProblem, NoVictims, Reason};
use super::shortage::SearchBound;

impl Reason {
    /// The same as if so many workloads had left that may be preempted.
    pub fn with_gone(mut self, count: u32) -> Reason {
        match self.innermost() {
            Reason::Nodes(shortage) => shortage.gone = count,
            Reason::Topology(shortage) => shortage.gone = count,
            _ => {}
        }
        self
    }

    /// The same where the search for places ended at its bound.
    pub fn with_ended(mut self, bound: SearchBound) -> Reason {
        match self.innermost() {
            Reason::Nodes(shortage) => shortage.ended = Some(bound),
            Reason::Topology(shortage) => shortage.ended = Some(bound),
            Reason::NoRoomBeside { ended, .. } => *ended = Some(bound),
            Reason::Flavors { tried, .. } => {
                tried.iter_mut().for_each(|refusal| refusal.why.end_at(bound));
            }
            _ => {}
        }
        self
    }

    /// The same where the search for whom to stop ended there: quota that is short may be had, too.
    pub fn with_victims_ended(mut self, bound: SearchBound) -> Reason {
        self.end_victims(bound, |victims| *victims == NoVictims::TooFew);
        self.with_ended(bound)
    }

    /// The same of members that join a gang: what is told of their quota does not say that it was
    /// looked for whom to stop.
    pub fn with_stops_ended(mut self, bound: SearchBound) -> Reason {
        let open = |it: &NoVictims| matches!(it, NoVictims::TooFew | NoVictims::NotAsked);
        self.end_victims(bound, open);
        self.with_ended(bound)
    }

    /// Of quota that is short it is told that the search ended, in place of such.
    fn end_victims(&mut self, bound: SearchBound, of: impl Fn(&NoVictims) -> bool) {
        let Reason::Flavors { tried, .. } = self.innermost() else { return };
        for refusal in tried {
            if let FlavorProblem::Short { victims, .. } = &mut refusal.why
                && of(victims)
            {
                *victims = NoVictims::Ended(bound);
            }
        }
    }

    /// Where the search for places ended, if it is told so.
    pub fn ended(&self) -> Option<SearchBound> {
        match self {
            Reason::Together { then, .. } => then.ended(),
            Reason::Nodes(shortage) => shortage.ended,
            Reason::Topology(shortage) => shortage.ended,
            Reason::NoRoomBeside { ended, .. } => *ended,
            Reason::Flavors { tried, .. } => tried.iter().find_map(|it| it.why.ended()),
            _ => None,
        }
    }

    /// What is said of one set, where it is said of a set beside others.
    fn innermost(&mut self) -> &mut Reason {
        match self {
            Reason::Together { then, .. } => then.innermost(),
            reason => reason,
        }
    }
}

impl FlavorProblem {
    /// The same as if so many workloads had left that may be preempted.
    pub fn with_gone(mut self, count: u32) -> FlavorProblem {
        match &mut self {
            FlavorProblem::Nodes(shortage) => shortage.gone = count,
            FlavorProblem::Topology(shortage) => shortage.gone = count,
            _ => {}
        }
        self
    }

    fn ended(&self) -> Option<SearchBound> {
        match self {
            FlavorProblem::Nodes(shortage) => shortage.ended,
            FlavorProblem::Topology(shortage) => shortage.ended,
            FlavorProblem::Short { victims: NoVictims::Ended(bound), .. } => Some(*bound),
            _ => None,
        }
    }

    fn end_at(&mut self, bound: SearchBound) {
        match self {
            FlavorProblem::Nodes(shortage) => shortage.ended = Some(bound),
            FlavorProblem::Topology(shortage) => shortage.ended = Some(bound),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::reason::{FlavorRefusal, NodeShortage};

    fn shortage() -> Box<NodeShortage> {
        Box::new(NodeShortage {
            nodes: 4,
            asked: 3,
            holds: 2,
            refusals: Vec::new(),
            nearest: None,
            unwanted: None,
            gone: 0,
            ended: None,
        })
    }

    /// Of one set, of one beside others, of who joins, and of each flavor that nodes were short of.
    #[test]
    fn where_the_search_ended_is_told_wherever_nodes_are() {
        let nodes = || Reason::Nodes(shortage());
        let short = |why| FlavorRefusal { flavor: "f".into(), why };
        let beside = Reason::Together { pod_set: "a".into(), beside: 1, then: Box::new(nodes()) };
        let flavors = Reason::Flavors {
            cluster_queue: "q".into(),
            pod_set: "a".into(),
            tried: vec![short(FlavorProblem::Affinity), short(FlavorProblem::Nodes(shortage()))],
        };
        let level = "rack".into();
        let joins = Reason::NoRoomBeside { level, domain: None, asked: 1, holds: 0, ended: None };
        for reason in [nodes(), beside, joins, flavors] {
            assert_eq!(reason.ended(), None);
            let told = reason.with_ended(SearchBound::Choices(29));
            assert_eq!(told.ended(), Some(SearchBound::Choices(29)));
            let says = "The search ended after 29 choices of members and flavors: one may fit";
            assert!(told.to_string().contains(says), "{told}");
        }
        let other = Reason::Unqueued.with_ended(SearchBound::Choices(29));
        assert_eq!((other.ended(), other), (None, Reason::Unqueued));
    }

    #[test]
    fn where_quota_is_short_it_is_told_of_those_who_might_leave() {
        let short = |victims: NoVictims| Reason::Flavors {
            cluster_queue: "q".into(),
            pod_set: "a".into(),
            tried: vec![FlavorRefusal {
                flavor: "f".into(),
                why: FlavorProblem::Short {
                    resource: "cpu".into(),
                    asked: 2,
                    others: 0,
                    left: 1,
                    cohort: None,
                    own: 1,
                    strait: None,
                    victims,
                },
            }],
        };
        let bound = SearchBound::Choices(32);
        let told = short(NoVictims::TooFew).with_victims_ended(bound);
        assert_eq!(told.ended(), Some(bound));
        let says = "(The search ended after 32 choices of members and flavors: one may fit)";
        assert!(told.to_string().contains(says), "{told}");
        // Whoever may stop nobody has nobody to look for.
        let none = short(NoVictims::NotAsked).with_victims_ended(bound);
        assert_eq!((none.ended(), none), (None, short(NoVictims::NotAsked)));
        // Of who joins a gang nothing else says that others might leave for it.
        for victims in [NoVictims::NotAsked, NoVictims::TooFew] {
            let told = short(victims).with_stops_ended(bound);
            assert_eq!(told.ended(), Some(bound));
            assert!(told.to_string().contains(says), "{told}");
        }
    }
}
