//! What people asked of a workload: queue, priority class, topology, capacity, run time.
//!
//! Decides where each wish is read (the pod first, then its owners; our spelling before
//! Kueue's) and that a value which cannot be read is ignored and named, never an obstacle.

use capstan_core::model::input::{CapacityType, SetLevels, SliceWish, Text, TopologyWish, Wishes};
use capstan_core::time::Span;

use super::annotation;
use crate::api::{duration, keys};
use crate::convert::marks::Marks;
use crate::convert::note;

/// Wishes, and the capacity types that belong to the pods' shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Wishes; `ignored` is left to the caller.
    pub wishes: Wishes,
    /// Ordered allow-list; empty: all.
    pub capacity_types: Vec<CapacityType>,
    /// Pod sets of this name are looked at together.
    pub set_group: Option<Text>,
}

/// Reads the wishes of a chain of objects, nearest first.
pub fn read(chain: &[&Marks], ignored: &mut Vec<Text>) -> Asked {
    for odd in chain.iter().flat_map(|marks| marks.odd_keys()) {
        if !ignored.contains(&odd) {
            ignored.push(odd);
        }
    }
    let names =
        [(keys::QUEUE, keys::KUEUE_QUEUE), (keys::PRIORITY_CLASS, keys::KUEUE_PRIORITY_CLASS)];
    ignored.extend(names.iter().filter_map(|(key, alias)| contradicted(chain, key, alias)));
    let expected_runtime = run_time(chain, keys::EXPECTED_RUNTIME, ignored);
    let max_runtime =
        run_time(chain, keys::MAX_RUNTIME, ignored).or_else(|| kueues_run_time(chain, ignored));
    let types = annotation(chain, keys::CAPACITY_TYPES).map(|text| capacity_types(text, ignored));
    Asked {
        wishes: Wishes {
            queue: queue(chain),
            priority_class: named(chain, keys::PRIORITY_CLASS, keys::KUEUE_PRIORITY_CLASS),
            pod_class: None,
            topology: topology(chain, ignored),
            expected_runtime,
            max_runtime,
            ignored: Vec::new(),
        },
        capacity_types: types.unwrap_or_default(),
        set_group: set_group(chain),
    }
}

/// The name that pod sets share which are looked at together.
pub fn set_group(chain: &[&Marks]) -> Option<Text> {
    let name = |key: &str| annotation(chain, key).map(|text| Text::from(text.trim()));
    let ours = name(keys::SET_GROUP).filter(|name| !name.is_empty());
    ours.or_else(|| name(keys::KUEUE_SET_GROUP).filter(|name| !name.is_empty()))
}

/// A duration above zero.
fn run_time(chain: &[&Marks], key: &str, ignored: &mut Vec<Text>) -> Option<Span> {
    let text = annotation(chain, key)?;
    let span = duration::parse(text.trim()).filter(|span| span.0 > 0);
    if span.is_none() {
        let wanted = "a duration above zero (try 600s, 10m, 1h30m)";
        ignored.push(note::malformed(key, text, wanted));
    }
    span
}

/// A label of whole seconds above zero.
fn kueues_run_time(chain: &[&Marks], ignored: &mut Vec<Text>) -> Option<Span> {
    let key = keys::KUEUE_MAX_RUNTIME;
    let text = chain.iter().find_map(|marks| marks.any(key))?;
    let seconds = text.parse::<u32>().ok().filter(|seconds| *seconds > 0);
    if seconds.is_none() {
        ignored.push(note::malformed(key, text, "a number of seconds above zero"));
    }
    seconds.map(|seconds| Span::seconds(seconds.into()))
}

/// The queue that a chain of objects names.
pub fn queue(chain: &[&Marks]) -> Option<Text> {
    named(chain, keys::QUEUE, keys::KUEUE_QUEUE)
}

/// The first name under a key of ours or its alias; the nearest object wins.
fn named(chain: &[&Marks], key: &str, alias: &str) -> Option<Text> {
    let at = |marks: &&Marks| marks.any(key).or_else(|| marks.any(alias)).cloned();
    chain.iter().find_map(at).filter(|name| !name.is_empty())
}

/// That the object whose name counts has another one under the alias.
fn contradicted(chain: &[&Marks], key: &str, alias: &str) -> Option<Text> {
    let named = |marks: &&&Marks| marks.any(key).is_some() || marks.any(alias).is_some();
    let marks = chain.iter().find(named)?;
    let (ours, other) = (marks.any(key)?, marks.any(alias)?);
    (ours != other).then(|| note::contradicted((key, &**ours), (alias, &**other)))
}

/// Whether levels or slices are asked for each pod set by itself.
pub fn per_pod_set(chain: &[&Marks]) -> bool {
    topology(chain, &mut Vec::new()).per_pod_set
}

/// Our annotations by which levels and slices are asked for.
const OURS: [&str; 4] =
    [keys::REQUIRED_TOPOLOGY, keys::PREFERRED_TOPOLOGY, keys::SLICE_TOPOLOGY, keys::SLICE_SIZE];
/// Kueue's.
const KUEUES: [&str; 5] = [
    keys::KUEUE_REQUIRED_TOPOLOGY,
    keys::KUEUE_PREFERRED_TOPOLOGY,
    keys::KUEUE_UNCONSTRAINED_TOPOLOGY,
    keys::KUEUE_SLICE_TOPOLOGY,
    keys::KUEUE_SLICE_SIZE,
];

/// That pod sets of one owner ask other levels or slices of the whole gang than the first of them,
/// which is heard alone. Each has a name, so many pods, and what its template says before these
/// objects `above`. A pod by itself is within one domain wherever it goes.
pub fn unlike<'a>(sets: &[(&Text, u32, &'a Marks)], above: &[&'a Marks]) -> Option<Text> {
    let says = |marks: &'a Marks, key: &str| {
        let own = marks.annotations.get(key).or_else(|| annotation(above, key));
        own.map(|text| text.trim()).filter(|text| !text.is_empty())
    };
    let &(first, _, of_first) = sets.first()?;
    let differs = |key: &'static str| {
        let holds = says(of_first, key);
        // It is said of all, by whichever of the templates.
        let others = sets[1..].iter().filter(|(_, pods, _)| *pods > 1);
        let mut said = others.map(|&(name, _, marks)| (name, says(marks, key)));
        let (name, own) = said.find(|(_, own)| own.is_some() && *own != holds)?;
        Some((key, name, own, holds))
    };
    let (key, name, own, holds) = OURS.into_iter().find_map(differs)?;
    Some(note::of_first(key, (&**name, own), (&**first, holds)))
}

/// Our annotations hold for the whole gang; Kueue's for each pod set by itself.
pub fn topology(chain: &[&Marks], ignored: &mut Vec<Text>) -> TopologyWish {
    let ours = TopologyWish {
        required: level(chain, keys::REQUIRED_TOPOLOGY),
        preferred: level(chain, keys::PREFERRED_TOPOLOGY),
        slices: slices(chain, (keys::SLICE_TOPOLOGY, keys::SLICE_SIZE), ignored),
        per_pod_set: false,
    };
    if ours != TopologyWish::default() {
        ignored.extend(lifted_in_vain(chain));
        return ours;
    }
    let kueues = of_set(chain, ignored);
    let per_pod_set = kueues != SetLevels::default();
    let SetLevels { required, preferred, slices } = kueues;
    TopologyWish { required, preferred, slices, per_pod_set }
}

/// What is asked for a pod set by itself, where nothing is asked of the whole gang.
pub fn of_set(chain: &[&Marks], ignored: &mut Vec<Text>) -> SetLevels {
    let near = not_lifted(chain, ignored);
    SetLevels {
        required: level(near, keys::KUEUE_REQUIRED_TOPOLOGY),
        preferred: level(near, keys::KUEUE_PREFERRED_TOPOLOGY),
        slices: slices(chain, (keys::KUEUE_SLICE_TOPOLOGY, keys::KUEUE_SLICE_SIZE), ignored),
    }
}

/// Objects whose levels hold for a pod set: who says that it may go anywhere lifts what is said
/// above. Its own levels go before that, as in Kueue, which takes one of the three from an object.
fn not_lifted<'a>(chain: &'a [&'a Marks], ignored: &mut Vec<Text>) -> &'a [&'a Marks] {
    let key = keys::KUEUE_UNCONSTRAINED_TOPOLOGY;
    let mut said = chain.iter().enumerate();
    let said = said.find_map(|(at, marks)| Some((at, marks.annotations.get(key)?)));
    let Some((at, text)) = said else { return chain };
    match text.trim() {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => &chain[..=at],
        "0" | "f" | "F" | "false" | "False" | "FALSE" => chain,
        _ => {
            ignored.push(note::malformed(key, text, "true or false"));
            chain
        }
    }
}

/// That a pod set may go anywhere, below who asks a level of the whole gang, which holds.
fn lifted_in_vain(chain: &[&Marks]) -> Option<Text> {
    let near = not_lifted(chain, &mut Vec::new());
    let lifts = (keys::KUEUE_UNCONSTRAINED_TOPOLOGY, "true");
    [keys::REQUIRED_TOPOLOGY, keys::PREFERRED_TOPOLOGY].into_iter().find_map(|key| {
        let holds = level(chain, key).filter(|_| level(near, key).is_none())?;
        Some(note::contradicted((key, &*holds), lifts))
    })
}

/// Whether an object says something of topology for a pod set by itself.
pub fn says_of_set(marks: &Marks) -> bool {
    KUEUES.into_iter().any(|key| marks.annotations.contains_key(key))
}

/// Levels that each pod set has by itself, none of which holds for all.
pub fn each_its_own() -> TopologyWish {
    TopologyWish { per_pod_set: true, ..TopologyWish::default() }
}

/// Whether something is asked of the whole gang.
pub fn is_of_whole(wish: &TopologyWish) -> bool {
    !wish.per_pod_set && *wish != TopologyWish::default()
}

/// The level of a key.
fn level(chain: &[&Marks], key: &str) -> Option<Text> {
    annotation(chain, key).map(|text| Text::from(text.trim())).filter(|text| !text.is_empty())
}

/// Level and size go together; one without the other, or a size that is none, is said and ignored.
fn slices(
    chain: &[&Marks],
    (level, size): (&str, &str),
    ignored: &mut Vec<Text>,
) -> Option<SliceWish> {
    let text =
        |key: &str| annotation(chain, key).map(|text| text.trim()).filter(|it| !it.is_empty());
    match (text(level), text(size)) {
        (Some(level), Some(text)) => match text.parse::<u32>().ok().filter(|size| *size > 0) {
            Some(size) => Some(SliceWish { level: level.into(), size }),
            None => {
                ignored.push(note::malformed(size, text, "a number of pods above zero"));
                None
            }
        },
        (None, None) => None,
        (Some(text), None) => {
            ignored.push(note::malformed(level, text, &format!("enough without {size}")));
            None
        }
        (None, Some(text)) => {
            ignored.push(note::malformed(size, text, &format!("enough without {level}")));
            None
        }
    }
}

/// An ordered allow-list. A word that nobody knows allows nothing more, so the others still hold;
/// where none is known the whole list is as if it were not there. Both are said.
fn capacity_types(text: &str, ignored: &mut Vec<Text>) -> Vec<CapacityType> {
    const KNOWN: &str = "spot, on-demand and reserved";
    let mut types = Vec::new();
    let mut odd: Vec<&str> = Vec::new();
    for word in text.split(',').map(str::trim) {
        match capacity_type(word) {
            Some(kind) if types.contains(&kind) => {}
            Some(kind) => types.push(kind),
            None => odd.push(word),
        }
    }
    let key = keys::CAPACITY_TYPES;
    if types.is_empty() {
        let said = note::malformed(key, text, &format!("a list of {KNOWN}"));
        ignored.push(format!("{said}, so any capacity type will do").into());
        return types;
    }
    for word in odd.into_iter().filter(|word| !word.is_empty()) {
        let shown: String = word.chars().take(60).collect();
        let kept: Vec<String> = types.iter().map(ToString::to_string).collect();
        let kept = kept.join(", ");
        ignored.push(format!("{key}: {shown:?} is none of {KNOWN}; {kept} counts").into());
    }
    types
}

/// The capacity type of this name.
pub fn capacity_type(word: &str) -> Option<CapacityType> {
    match word {
        "spot" => Some(CapacityType::Spot),
        "on-demand" => Some(CapacityType::OnDemand),
        "reserved" => Some(CapacityType::Reserved),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(list: &[(&str, &str)]) -> Marks {
        Marks { labels: pairs(list), ..Default::default() }
    }

    fn annotations(list: &[(&str, &str)]) -> Marks {
        Marks { annotations: pairs(list), ..Default::default() }
    }

    fn pairs(list: &[(&str, &str)]) -> capstan_core::model::input::Labels {
        list.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn asked(chain: &[&Marks]) -> (Asked, Vec<Text>) {
        let mut ignored = Vec::new();
        (read(chain, &mut ignored), ignored)
    }

    #[test]
    fn the_nearest_object_wins_and_ours_goes_before_kueues() {
        let pod = labels(&[("kueue.x-k8s.io/queue-name", "kueues")]);
        let owner = labels(&[("capstan.sh/queue", "owners"), ("capstan.sh/priority-class", "p")]);
        let (read, _) = asked(&[&pod, &owner]);
        assert_eq!(read.wishes.queue.as_deref(), Some("kueues"));
        assert_eq!(read.wishes.priority_class.as_deref(), Some("p"));
        let mut both = pod.clone();
        both.annotations = pairs(&[("capstan.sh/queue", "ours")]);
        assert_eq!(asked(&[&both]).0.wishes.queue.as_deref(), Some("ours"));
    }

    #[test]
    fn who_names_two_queues_is_told_which_counts() {
        let two =
            |key: &str, name: &str| labels(&[("kueue.x-k8s.io/queue-name", "a"), (key, name)]);
        let (read, ignored) = asked(&[&two("capstan.sh/queue", "b")]);
        let says = "capstan.sh/queue: \"b\" counts, and not \"a\", as \
                    kueue.x-k8s.io/queue-name has it";
        assert_eq!((read.wishes.queue.as_deref(), &*ignored[0]), (Some("b"), says));
        assert!(asked(&[&two("capstan.sh/queue", "a")]).1.is_empty(), "they agree");
        let owner = labels(&[("capstan.sh/queue", "b")]);
        assert!(asked(&[&two("app", "x"), &owner]).1.is_empty(), "the nearer one counts");
    }

    #[test]
    fn kueues_old_queue_annotation_is_read_too() {
        let pod = annotations(&[("kueue.x-k8s.io/queue-name", "old")]);
        assert_eq!(asked(&[&pod]).0.wishes.queue.as_deref(), Some("old"));
    }

    #[test]
    fn topology_of_the_gang_goes_before_topology_of_a_pod_set() {
        let kueues = annotations(&[("kueue.x-k8s.io/podset-required-topology", "rack")]);
        let wish = asked(&[&kueues]).0.wishes.topology;
        assert_eq!((wish.required.as_deref(), wish.per_pod_set), (Some("rack"), true));
        let ours = annotations(&[("capstan.sh/preferred-topology", "zone")]);
        let wish = asked(&[&kueues, &ours]).0.wishes.topology;
        assert_eq!((wish.required, wish.preferred.as_deref()), (None, Some("zone")));
        assert_eq!(asked(&[]).0.wishes.topology, TopologyWish::default());
    }

    #[test]
    fn who_may_go_anywhere_has_no_level_from_above() {
        let key = "kueue.x-k8s.io/podset-unconstrained-topology";
        let anywhere = |value: &str| annotations(&[(key, value)]);
        let rack = annotations(&[("kueue.x-k8s.io/podset-required-topology", "rack")]);
        let zone = annotations(&[("kueue.x-k8s.io/podset-preferred-topology", "zone")]);
        let wish = |chain: &[&Marks]| {
            let (read, ignored) = asked(chain);
            (read.wishes.topology, ignored.len())
        };
        for value in ["true", " 1 ", "T"] {
            assert_eq!(wish(&[&anywhere(value), &rack, &zone]), (TopologyWish::default(), 0));
        }
        for (value, said) in [("false", 0), ("yes", 1)] {
            let (held, ignored) = wish(&[&anywhere(value), &rack]);
            assert_eq!((held.required.as_deref(), ignored), (Some("rack"), said));
        }
        let (held, _) = wish(&[&rack, &anywhere("true"), &zone]);
        assert_eq!((held.required.as_deref(), held.preferred), (Some("rack"), None));
        // What is said of the whole gang holds, and that is told.
        let ours = annotations(&[("capstan.sh/required-topology", "rack")]);
        let (read, ignored) = asked(&[&anywhere("true"), &ours]);
        let says = "capstan.sh/required-topology: \"rack\" counts, and not \"true\", as \
                    kueue.x-k8s.io/podset-unconstrained-topology has it";
        assert_eq!(read.wishes.topology.required.as_deref(), Some("rack"));
        assert_eq!(ignored, [says.into()]);
        assert_eq!(asked(&[&ours, &anywhere("true")]).1.len(), 0);
    }

    #[test]
    fn pod_sets_of_a_group_are_named_by_ours_before_kueues() {
        let kueues = annotations(&[("kueue.x-k8s.io/podset-group-name", " a ")]);
        let ours = annotations(&[("capstan.sh/podset-group-name", "b")]);
        let empty = annotations(&[("capstan.sh/podset-group-name", " ")]);
        let name = |chain: &[&Marks]| asked(chain).0.set_group;
        assert_eq!(name(&[&kueues]).as_deref(), Some("a"));
        assert_eq!(name(&[&kueues, &ours]).as_deref(), Some("b"));
        assert_eq!(name(&[&empty, &kueues]).as_deref(), Some("a"));
        assert_eq!(name(&[&empty]), None);
    }

    #[test]
    fn lists_and_durations_are_read() {
        let pod = annotations(&[
            ("capstan.sh/capacity-types", "spot, on-demand,spot"),
            ("capstan.sh/expected-runtime", "1h30m"),
        ]);
        let (read, ignored) = asked(&[&pod]);
        assert_eq!(read.capacity_types, [CapacityType::Spot, CapacityType::OnDemand]);
        assert_eq!(read.wishes.expected_runtime, Some(Span::minutes(90)));
        assert!(ignored.is_empty());
    }

    #[test]
    fn the_longest_run_time_is_ours_before_kueues() {
        let kueues = labels(&[("kueue.x-k8s.io/max-exec-time-seconds", "600")]);
        let ours = annotations(&[("capstan.sh/max-runtime", "1h")]);
        let read = |chain: &[&Marks]| {
            let (read, ignored) = asked(chain);
            (read.wishes.max_runtime, ignored.len())
        };
        assert_eq!(read(&[&kueues]), (Some(Span::minutes(10)), 0));
        assert_eq!(read(&[&kueues, &ours]), (Some(Span::minutes(60)), 0));
        for odd in [
            labels(&[("kueue.x-k8s.io/max-exec-time-seconds", "0")]),
            labels(&[("kueue.x-k8s.io/max-exec-time-seconds", "10m")]),
            annotations(&[("capstan.sh/max-runtime", "long")]),
        ] {
            assert_eq!(read(&[&odd]), (None, 1), "{odd:?}");
        }
    }

    #[test]
    fn slices_have_a_level_and_a_size() {
        let ours =
            annotations(&[("capstan.sh/slice-topology", "rack"), ("capstan.sh/slice-size", " 4 ")]);
        let kueues = annotations(&[
            ("kueue.x-k8s.io/podset-slice-required-topology", "block"),
            ("kueue.x-k8s.io/podset-slice-size", "2"),
        ]);
        let slices = |level: &str, size| Some(SliceWish { level: level.into(), size });
        let wish = |chain: &[&Marks]| asked(chain).0.wishes.topology;
        assert_eq!(wish(&[&ours, &kueues]).slices, slices("rack", 4));
        assert_eq!(
            (wish(&[&kueues]).slices, wish(&[&kueues]).per_pod_set),
            (slices("block", 2), true)
        );
        for (list, said) in [
            (&[("capstan.sh/slice-topology", "rack")][..], "without capstan.sh/slice-size"),
            (&[("capstan.sh/slice-size", "4")], "without capstan.sh/slice-topology"),
            (
                &[("capstan.sh/slice-topology", "rack"), ("capstan.sh/slice-size", "0")],
                "a number of pods above zero",
            ),
        ] {
            let (read, ignored) = asked(&[&annotations(list)]);
            assert_eq!(read.wishes.topology.slices, None);
            assert!(ignored.len() == 1 && ignored[0].contains(said), "{ignored:?}");
        }
    }

    #[test]
    fn pod_sets_that_ask_something_else_of_the_gang_than_the_first_are_named() {
        let (none, own) = (Marks::default(), labels(&[("capstan.sh/queue", "q")]));
        let rack = annotations(&[("capstan.sh/required-topology", "rack")]);
        let zone = annotations(&[("capstan.sh/required-topology", "zone")]);
        let kueues = annotations(&[("kueue.x-k8s.io/podset-required-topology", "rack")]);
        let [driver, workers] = [Text::from("driver"), Text::from("workers")];
        let said = |first: &Marks, (pods, second): (u32, &Marks), above: &Marks| {
            let sets = [(&driver, 1, first), (&workers, pods, second)];
            unlike(&sets, &[above]).map(|told| String::from(&*told))
        };
        let told = said(&none, (4, &rack), &own).expect("they differ");
        let want = "capstan.sh/required-topology: it is asked of the whole gang, by the first \
                    template: workers says \"rack\", but driver nothing, which holds for all";
        assert_eq!(told, want);
        let told = said(&zone, (4, &rack), &own).expect("they differ");
        assert!(told.ends_with("workers says \"rack\", but driver \"zone\", which holds for all"));
        for (first, second, above) in [
            (&rack, (4, &rack), &own),
            // The owner says it for all.
            (&none, (4, &rack), &rack),
            // A pod by itself is in one rack anyhow.
            (&none, (1, &rack), &own),
            // It is said of the whole gang.
            (&rack, (4, &none), &own),
            (&rack, (4, &kueues), &own),
            // Each set has its own of these.
            (&none, (4, &kueues), &own),
            (&kueues, (4, &none), &own),
        ] {
            assert_eq!(said(first, second, above), None, "{first:?} {second:?} {above:?}");
        }
    }

    #[test]
    fn a_misspelt_capacity_type_allows_nothing_more() {
        let key = "capstan.sh/capacity-types";
        let (read, ignored) = asked(&[&annotations(&[(key, "spot,cheap,,on-demand")])]);
        assert_eq!(read.capacity_types, [CapacityType::Spot, CapacityType::OnDemand]);
        let want =
            r#"capstan.sh/capacity-types: "cheap" is none of spot, on-demand and reserved; "#;
        assert_eq!(ignored, [format!("{want}spot, on-demand counts").into()]);
        let (_, ignored) = asked(&[&annotations(&[(key, "sopt")])]);
        let want = r#"capstan.sh/capacity-types: "sopt" is not a list of spot, on-demand and "#;
        let want = format!("{want}reserved; it is ignored, so any capacity type will do");
        assert_eq!(ignored, [want.into()]);
    }

    #[test]
    fn misspelt_keys_are_named_once_for_a_chain() {
        let pod = annotations(&[("capstan.sh/min-members", "4"), ("capstan.sh/min-member", "4")]);
        let owner = labels(&[("capstan.sh/min-members", "4"), ("capstan.sh/qeue", "main")]);
        let (read, ignored) = asked(&[&pod, &owner]);
        assert_eq!((read, ignored.len()), (Asked::default(), 2), "{ignored:?}");
        assert!(ignored[0].starts_with("capstan.sh/min-members: no such label or annotation"));
    }

    #[test]
    fn what_cannot_be_read_is_ignored_and_named() {
        for (key, value) in [
            ("capstan.sh/capacity-types", "sopt"),
            ("capstan.sh/capacity-types", ""),
            ("capstan.sh/expected-runtime", "soon"),
            ("capstan.sh/expected-runtime", "0s"),
        ] {
            let (read, ignored) = asked(&[&annotations(&[(key, value)])]);
            assert_eq!(read, Asked::default(), "{key}={value}");
            assert!(ignored[0].starts_with(key), "{ignored:?}");
        }
    }
}
