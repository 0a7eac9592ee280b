//! How nodes are compared for a class of pods: by which profile, and what prices have to do with
//! it.

/// How nodes are compared for a class, and which are left out because of their price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scoring {
    /// Index of the scoring profile.
    pub profile: u32,
    /// What prices have to do with it.
    pub paying: Paying,
}

/// What prices have to do with where a class goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paying {
    /// Nothing but what the profile makes of them.
    #[default]
    Free,
    /// Its queue has a quota of money: nodes whose price is not known will not do.
    Pays,
    /// The same, and the cheapest nodes are best, whatever the profile says.
    Cheapest,
}

impl Scoring {
    /// The same, the cheapest nodes first.
    pub fn cheapest(self) -> Scoring {
        Scoring { paying: Paying::Cheapest, ..self }
    }

    /// Whether nothing but prices counts.
    pub fn is_thrifty(self) -> bool {
        self.paying == Paying::Cheapest
    }
}
