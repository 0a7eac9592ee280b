//! What came of all pairs: counts by rule, and disagreements as scenario files.

use std::collections::BTreeMap;
use std::fmt::Write;

use capstan_tests::cluster::name_of;
use serde_json::Value;

use crate::case::{Case, Draft, always, pin};
use crate::verdict::{RULES, Rule, Verdict, concerned, refused_by};

/// What kube-scheduler 1.37 does otherwise than 1.36, with which the cases were made that Capstan
/// is held to: the rule, what it does, and what Capstan does about it.
pub const SINCE: [(Rule, &str, &str); 3] = [
    (
        "NodeResourcesFit",
        "a resize counts by sums over containers, init containers among them, and by the pod's own \
         status, not by the largest of each container",
        "Capstan does the same, whatever the version",
    ),
    (
        "NodeVolumeLimits",
        "a CSIDriver may keep pods with its volumes from nodes where it is not",
        "Capstan does the same, whatever the version",
    ),
    (
        "DynamicResources",
        "a DeviceTaintRule taints devices of others",
        "Capstan does the same, whatever the version; no case has one",
    ),
];

/// A disagreement that is accepted.
pub struct Difference {
    /// What it is about, and why it stands.
    pub why: &'static str,
    /// Whether a disagreement is this one.
    pub is: fn(&Pair<'_>) -> bool,
}

/// All that are known and accepted.
pub const KNOWN: [Difference; 0] = [];

/// A pod and a node, and what both schedulers made of them.
pub struct Pair<'a> {
    /// The cluster.
    pub case: &'a Case,
    /// The pod.
    pub draft: &'a Draft,
    /// The node.
    pub node: &'a Value,
    /// kube-scheduler's answer.
    pub theirs: Verdict,
    /// Capstan's.
    pub ours: Verdict,
}

/// All counts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Pairs tried.
    pub pairs: usize,
    /// Pairs that were tried again before both agreed.
    pub again: usize,
    /// By rule: pairs taken that it has something to say of, and pairs refused by it.
    pub rules: BTreeMap<Rule, (usize, usize)>,
    /// Disagreements that are known, by what they are about.
    pub known: BTreeMap<&'static str, usize>,
    /// Disagreements that are not.
    pub disagreements: Vec<String>,
}

impl Tally {
    /// Counts a pair.
    pub fn add(&mut self, pair: &Pair<'_>) {
        self.pairs += 1;
        if !pair.theirs.agrees(&pair.ours) {
            match KNOWN.iter().find(|known| (known.is)(pair)) {
                Some(known) => *self.known.entry(known.why).or_default() += 1,
                None => {
                    let scenario = scenario(pair);
                    say(&scenario);
                    self.disagreements.push(scenario);
                }
            }
            return;
        }
        match &pair.theirs {
            Verdict::Takes => {
                for rule in concerned(&pair.draft.pod, pair.node) {
                    self.rules.entry(rule).or_default().0 += 1;
                }
            }
            Verdict::Refuses(why) => {
                let pin = pin(name_of(pair.node));
                if let Some(rule) = refused_by(why, &pin, pair.case.nodes.len()) {
                    self.rules.entry(rule).or_default().1 += 1;
                }
            }
            Verdict::Silent(_) => {}
        }
    }

    /// Adds what another counted.
    pub fn join(&mut self, other: Tally) {
        self.pairs += other.pairs;
        self.again += other.again;
        for (rule, (takes, refuses)) in other.rules {
            let entry = self.rules.entry(rule).or_default();
            (entry.0, entry.1) = (entry.0 + takes, entry.1 + refuses);
        }
        for (why, count) in other.known {
            *self.known.entry(why).or_default() += count;
        }
        self.disagreements.extend(other.disagreements);
    }

    /// Rules that were not asked often enough to say that both agree on them.
    pub fn thin(&self, least: usize) -> Vec<Rule> {
        let enough = |rule: &Rule| {
            self.rules.get(rule).is_some_and(|(takes, refuses)| *takes.min(refuses) >= least)
        };
        RULES.iter().map(|(rule, _)| *rule).filter(|rule| !enough(rule)).collect()
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "{} pairs, {} of them tried again", self.pairs, self.again)?;
        writeln!(out, "{:<22}{:>8}{:>9}", "rule", "taken", "refused")?;
        for (rule, _) in RULES {
            let (takes, refuses) = self.rules.get(rule).copied().unwrap_or_default();
            writeln!(out, "{rule:<22}{takes:>8}{refuses:>9}")?;
        }
        for (rule, does, ours) in SINCE {
            writeln!(out, "since 1.37: {rule}: {does}. {ours}")?;
        }
        for (why, count) in &self.known {
            writeln!(out, "known: {count} times {why}")?;
        }
        Ok(())
    }
}

#[allow(clippy::print_stdout, reason = "the harness shows it when the test fails")]
fn say(what: &str) {
    println!("{what}");
}

/// A disagreement as a scenario that expects what kube-scheduler says.
fn scenario(pair: &Pair<'_>) -> String {
    let Pair { case, draft, node, theirs, ours } = pair;
    let (name, node) = (name_of(&draft.pod).to_owned(), name_of(node));
    let namespace = draft.pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut text = String::new();
    let mut line = |words: &str| {
        let _ = writeln!(text, "{}", words.replace('\n', " "));
    };
    line(&format!("# Case {}: pod {name} on node {node}.", case.number));
    line(&format!("# kube-scheduler {theirs}"));
    line(&format!("# Capstan {ours}"));
    for made in &draft.made {
        let whose = if made.foreign { "another pod" } else { "it" };
        line(&format!("# Claim {} is made for {whose}: {}", made.name, made.claim));
    }
    line(&format!("# $ explain pod/{name} -n {namespace} -f THIS"));
    match theirs {
        Verdict::Takes => line(&format!("# => feasible {node}")),
        _ => {
            line("# => exit 1");
            line("# => feasible");
        }
    }
    let pod = draft.copy(&name, node, "capstan");
    let objects = case.nodes.iter().cloned().chain(always()).chain(case.objects.iter().cloned());
    // JSON is YAML, and a line for each object is easier to cut down.
    let documents: Vec<String> = objects.chain([pod]).map(|object| object.to_string()).collect();
    text + &documents.join("\n---\n")
}
