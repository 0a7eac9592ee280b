//! What is said of pods and Jobs that are taken in nonetheless: values that could not be read,
//! work that is left alone, gangs that contradict themselves.
//!
//! Decides which object a remark is about (the one that carries the value, not the pods that
//! inherit it), and that equal remarks on many objects of a namespace are one.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::explain::wording::quoted;
use capstan_core::model::input::{
    GangKey, GangSource, Held, OwnerFacts, PodFacts, Text, TopologyWish, Wishes,
};

use super::facts::MEMBERS_MAX;
use super::gang::GangDraft;
use super::gathered::Identity;
use super::job::JobDraft;
use super::marks::{self, Marks};
use crate::api::{keys, no_equal};
use crate::read::error::{Notice, Place};

/// An object that may carry a value.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Kind.
    pub kind: &'a str,
    /// Name.
    pub name: &'a Text,
    /// Labels and annotations of ours: on its template (nearest to its pods), then on itself.
    pub marks: [Option<&'a Marks>; 2],
}

impl Known<'_> {
    /// What it says under a key.
    fn value(&self, key: &str) -> Option<&Text> {
        self.marks.iter().flatten().find_map(|marks| marks.any(key))
    }

    /// Whether it has that value under a key, itself or in its template.
    fn says(&self, key: &str, value: Option<&Text>) -> bool {
        let mut marks = self.marks.iter().flatten();
        value.is_some() && marks.any(|marks| marks.any(key) == value)
    }

    /// The same, to stand beside others that do not live as long.
    fn again<'b>(self) -> Known<'b>
    where
        Self: 'b,
    {
        Known { ..self }
    }
}

/// One thing that was remarked on one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct About {
    /// Kind; a gang is `gang`.
    pub kind: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// What was said.
    pub problem: Text,
}

impl About {
    /// Whether it is about the same object.
    pub fn same(&self, other: &About) -> bool {
        let at = |about: &About| (about.kind.clone(), about.namespace.clone(), about.name.clone());
        at(self) == at(other)
    }

    /// Whether it is about a gang.
    pub fn is_gang(&self) -> bool {
        &*self.kind == GANG
    }
}

/// What remarks call a gang.
const GANG: &str = "gang";

/// What is said of a gang whose pods ask different levels or slices of all of it.
const LEVELS: &str = "its pods ask for different topology levels or slices; those of the first \
    hold for all, as capstan.sh annotations are of the whole gang";

/// Remarks by kind, namespace and text, with the objects that each is about.
#[derive(Debug, Default)]
pub struct Remarks {
    said: BTreeMap<(Text, Text, Text), BTreeSet<Text>>,
    /// Queues that members of each named group name; `None`: no queue.
    queues: BTreeMap<(Text, GangKey), BTreeSet<Option<Text>>>,
    /// Levels and slices that members of each named group ask of all of it.
    levels: BTreeMap<(Text, GangKey), BTreeSet<TopologyWish>>,
    /// How many pods Kueue's groups have by what their pods say, with the first that says so.
    totals: BTreeMap<(Text, Text), BTreeMap<u32, Text>>,
}

impl Remarks {
    /// Remarks on a Job whose facts are these.
    pub fn on_job<'a>(
        &mut self,
        job: &JobDraft,
        ours: bool,
        facts: &OwnerFacts,
        above: impl Iterator<Item = Known<'a>>,
    ) {
        let marks = [Some(&*job.template), Some(&*job.marks)];
        let own = Known { kind: "Job", name: &job.name, marks };
        let chain: Vec<Known<'_>> = std::iter::once(own).chain(above.map(Known::again)).collect();
        self.ignored(&concerning(&facts.wishes.ignored, ours), &job.namespace, &chain);
        if ours && job.count > MEMBERS_MAX {
            let problem = format!(
                "runs {} pods at once, more than the {MEMBERS_MAX} that a cluster is made for: \
                 left alone (spec.parallelism)",
                job.count
            );
            self.say("Job", &job.namespace, &problem, &job.name);
        } else if ours && facts.member_of.is_none() {
            self.on_sleeper("Job", facts);
        }
        if ours {
            self.on_group_of_owner(own, facts);
        }
    }

    /// Remarks on an owner of another project whose facts are these.
    pub fn on_gang<'a>(
        &mut self,
        own: Known<'a>,
        ours: bool,
        facts: &OwnerFacts,
        above: impl Iterator<Item = Known<'a>>,
    ) {
        let kind = own.kind;
        let chain: Vec<Known<'_>> = std::iter::once(own).chain(above).collect();
        self.ignored(&concerning(&facts.wishes.ignored, ours), &facts.namespace, &chain);
        if ours && facts.left.is_some_and(|left| left > MEMBERS_MAX) {
            let problem = format!(
                "runs more pods at once than the {MEMBERS_MAX} that a cluster is made for: left \
                 alone"
            );
            self.say(kind, &facts.namespace, &problem, &facts.name);
        } else if ours && facts.member_of.is_none() {
            self.on_sleeper(kind, facts);
        }
        if ours {
            self.on_group_of_owner(own, facts);
        }
    }

    /// An owner names a PodGroup, and its template none: only pods are members of one.
    fn on_group_of_owner(&mut self, own: Known<'_>, facts: &OwnerFacts) {
        let [_, Some(itself)] = own.marks else { return };
        if facts.member_of.is_some() || facts.finished.is_some() {
            return;
        }
        let label = itself.labels.get(keys::PLUGINS_GROUP).map(|name| (keys::PLUGINS_GROUP, name));
        let annotation = |key: &'static str| Some((key, itself.annotations.get(key)?));
        let annotations = [keys::VOLCANO_GROUP, keys::VOLCANO_GROUP_OWN];
        let named = label.or_else(|| annotations.into_iter().find_map(annotation));
        if let Some((key, name)) = named.filter(|(_, name)| !name.is_empty()) {
            let problem = format!(
                "{key}: its pods are no members of group {}: what their template says counts",
                quoted(name)
            );
            self.say(own.kind, &facts.namespace, &problem, own.name);
        }
    }

    /// An owner whose pods are to be ours leaves it to another than its controller to make them.
    pub fn on_elsewhere(&mut self, kind: &str, by: &str, facts: &OwnerFacts) {
        if facts.finished.is_none() {
            let problem = format!(
                "says managedBy: {}, so the controller of {kind}s makes no pods of it, and nothing \
                 here starts it: left alone",
                quoted(by)
            );
            self.say(kind, &facts.namespace, &problem, &facts.name);
        }
    }

    /// An owner whose pods are ours is suspended, and nobody will resume it.
    fn on_sleeper(&mut self, kind: &str, facts: &OwnerFacts) {
        if facts.suspended && facts.finished.is_none() && !facts.ours {
            let problem = format!(
                "is suspended and names no queue: left alone (label {}; a default LocalQueue does \
                 not take suspended {kind}s)",
                keys::QUEUE
            );
            self.say(kind, &facts.namespace, &problem, &facts.name);
        }
    }

    /// An owner that would be resumed is a member of a group: that starts with pods that are there,
    /// and nobody resumes it.
    pub fn on_sleeping_member(&mut self, kind: &str, facts: &OwnerFacts) {
        let group = facts.member_of.as_ref().map(|gang| &gang.key);
        let Some(GangKey::Group(_, group)) = group else { return };
        if facts.ours && facts.suspended && facts.finished.is_none() {
            let problem = format!(
                "is suspended, and its pods are members of group {}, which starts with pods that \
                 are there: left alone until somebody resumes it",
                quoted(group)
            );
            self.say(kind, &facts.namespace, &problem, &facts.name);
        }
    }

    /// An owner whose pods are no gang that is made at once, as it or what it made says; those of
    /// this scheduler are waited for in vain where nothing else makes them.
    pub fn on_unplayed(&mut self, owner: &GangDraft, of: &GangDraft, scheduler: &str) {
        if of.names(scheduler) || of.says.workers.as_deref() == Some(scheduler) {
            let problem = "which of its pods there are when is up to its controller, and none of \
                 them are here: put them into the files";
            self.say(owner.kind.row().name, &owner.namespace, problem, &owner.name);
        }
    }

    /// A TrainJob lacks the JobSet that says what its pods are.
    pub fn on_unmade(&mut self, owner: &GangDraft) {
        let problem = "has no JobSet yet: what its pods ask is not known until its controller \
             makes that";
        self.say(owner.kind.row().name, &owner.namespace, problem, &owner.name);
    }

    /// Remarks on an owner that only passes its labels on.
    pub fn on_owner<'a>(
        &mut self,
        own: Known<'a>,
        namespace: &Text,
        above: impl Iterator<Item = Known<'a>>,
    ) {
        let odd: Vec<Text> =
            own.marks.iter().flatten().flat_map(|marks| marks.odd_keys()).collect();
        let chain: Vec<Known<'_>> = std::iter::once(own).chain(above).collect();
        // Whose pods it makes they say themselves.
        self.ignored(&concerning(&odd, false), namespace, &chain);
    }

    /// Remarks on a pod whose facts are these.
    pub fn on_pod<'a>(
        &mut self,
        facts: &PodFacts,
        marks: &Marks,
        above: impl Iterator<Item = Known<'a>>,
    ) {
        if !facts.wishes.ignored.is_empty() {
            let own = Known { kind: "Pod", name: &facts.name, marks: [Some(marks), None] };
            let chain: Vec<Known<'_>> =
                std::iter::once(own).chain(above.map(Known::again)).collect();
            let ignored = concerning(&facts.wishes.ignored, facts.ours);
            self.ignored(&ignored, &facts.namespace, &chain);
        }
        let GangKey::Group(source, name) = &facts.gang.key else { return };
        if !facts.ours {
            return;
        }
        let gang = (facts.namespace.clone(), facts.gang.key.clone());
        self.gang_asks(gang, &facts.wishes);
        if let (GangSource::KueueGroup, Some(total)) = (source, facts.gang.total) {
            let totals = self.totals.entry((facts.namespace.clone(), name.clone())).or_default();
            let first = totals.entry(total).or_insert_with(|| facts.name.clone());
            *first = first.clone().min(facts.name.clone());
        }
    }

    /// A member's gang has so many pods of ours: others of it, that name another scheduler, may be
    /// more than its number.
    pub fn on_strangers(&mut self, facts: &PodFacts, ours: u32) {
        let GangKey::Group(_, group) = &facts.gang.key else { return };
        let (Some(Held::ForeignMembers(pods)), Some(total)) = (&facts.gang.held, facts.gang.total)
        else {
            return;
        };
        if facts.ours && ours >= total {
            let (noun, verb) = if *pods == 1 { ("pod", "names") } else { ("pods", "name") };
            let problem = format!(
                "{pods} {noun} beyond its pod-group-total-count of {total} {verb} another \
                 scheduler: left alone, and not waited for"
            );
            self.say(GANG, &facts.namespace, &problem, group);
        }
    }

    /// A member of a named gang names this queue, and asks for these levels.
    pub fn gang_asks(&mut self, gang: (Text, GangKey), asked: &Wishes) {
        // Each pod set has its own of others.
        let whole = Some(&asked.topology).filter(|wish| !wish.per_pod_set);
        let levels = self.levels.entry(gang.clone()).or_default();
        levels.insert(whole.cloned().unwrap_or_default());
        self.queues.entry(gang).or_default().insert(asked.queue.clone());
    }

    /// Leaves what was not said before, and notes that it is said now.
    pub fn retain_new(&mut self, before: &mut BTreeSet<About>) {
        let mut is_new = |kind: &Text, (namespace, name): (&Text, &Text), problem: &Text| {
            let [kind, namespace, name, problem] =
                [kind, namespace, name, problem].map(Text::clone);
            before.insert(About { kind, namespace, name, problem })
        };
        for ((kind, namespace, problem), names) in &mut self.said {
            names.retain(|name| is_new(kind, (namespace, name), problem));
        }
        let gang = Text::from(GANG);
        self.queues.retain(|(namespace, key), queues| {
            let GangKey::Group(_, name) = key else { return false };
            queues.len() > 1 && is_new(&gang, (namespace, name), &queue_names(queues).into())
        });
        self.levels.retain(|(namespace, key), levels| {
            let GangKey::Group(_, name) = key else { return false };
            levels.len() > 1 && is_new(&gang, (namespace, name), &LEVELS.into())
        });
        self.totals.retain(|(namespace, name), totals| {
            totals.len() > 1 && is_new(&gang, (namespace, name), &unequal(totals).into())
        });
    }

    /// Everything that was remarked, by kind, namespace and text.
    pub fn notices(self, places: &BTreeMap<Identity, Place>) -> Vec<Notice> {
        let mut notices: Vec<Notice> = Vec::new();
        for ((kind, namespace, problem), names) in self.said {
            let Some(first) = names.first() else { continue };
            let group = match &*kind {
                "Pod" => "",
                "Job" => "batch",
                _ => marks::owner_group(&kind).unwrap_or("apps"),
            };
            let identity = (group.into(), kind.clone(), namespace.clone(), first.clone());
            let problem = match names.len() - 1 {
                0 => problem.to_string(),
                more => format!("{problem} (so says {more} more in {namespace})"),
            };
            notices.push(Notice {
                place: places.get(&identity).cloned(),
                object: Some(object(&kind, &namespace, first)),
                path: None,
                problem,
            });
        }
        for ((namespace, key), queues) in self.queues.into_iter().filter(|(_, all)| all.len() > 1) {
            let GangKey::Group(_, name) = key else { continue };
            let names = queue_names(&queues);
            let problem = format!("its pods name different queues ({names}); name the same on all");
            let object = Some(object(GANG, &namespace, &name));
            notices.push(Notice { place: None, object, path: None, problem });
        }
        for ((namespace, key), _) in self.levels.into_iter().filter(|(_, all)| all.len() > 1) {
            let GangKey::Group(_, name) = key else { continue };
            let (object, problem) = (Some(object(GANG, &namespace, &name)), LEVELS.to_owned());
            notices.push(Notice { place: None, object, path: None, problem });
        }
        for ((namespace, name), totals) in self.totals.iter().filter(|(_, all)| all.len() > 1) {
            let object = Some(object(GANG, namespace, name));
            let problem = unequal(totals);
            notices.push(Notice { place: None, object, path: None, problem });
        }
        notices
    }

    /// Keys and values that are ignored, each on the object where it comes from: what is nearest
    /// counts, and the outermost that says the same has passed it on.
    fn ignored(&mut self, ignored: &[Text], namespace: &Text, chain: &[Known<'_>]) {
        for problem in ignored {
            let key = problem.split_once(": ").map_or("", |(key, _)| key);
            let counts = chain.iter().find_map(|known| known.value(key));
            let says = |known: &&Known<'_>| known.says(key, counts);
            let Some(known) = chain.iter().rfind(says).or(chain.first()) else { continue };
            self.say(known.kind, namespace, problem, known.name);
        }
    }

    fn say(&mut self, kind: &str, namespace: &Text, problem: &str, name: &Text) {
        let about = (Text::from(kind), namespace.clone(), Text::from(problem));
        self.said.entry(about).or_default().insert(name.clone());
    }
}

/// What is ignored and concerns us: what Kueue's keys say of its own work is no matter of ours.
fn concerning(ignored: &[Text], ours: bool) -> Vec<Text> {
    let concerns = |says: &&Text| ours || !says.starts_with(no_equal::PREFIX);
    ignored.iter().filter(concerns).cloned().collect()
}

/// `a, b, no queue`.
fn queue_names(queues: &BTreeSet<Option<Text>>) -> String {
    let name = |queue: &Option<Text>| quoted(queue.as_deref().unwrap_or("no queue")).into_owned();
    queues.iter().map(name).collect::<Vec<String>>().join(", ")
}

/// `its pods say different ... (2 on a, 3 on b); ...`
fn unequal(totals: &BTreeMap<u32, Text>) -> String {
    let said: Vec<String> = totals.iter().map(|(total, pod)| format!("{total} on {pod}")).collect();
    format!(
        "its pods say different numbers in {} ({}); the largest counts, write the same on all",
        keys::KUEUE_GROUP_TOTAL,
        said.join(", ")
    )
}

/// `Pod a`, `Pod team/a`.
pub fn object(kind: &str, namespace: &str, name: &str) -> Text {
    match namespace {
        "default" => format!("{kind} {name}"),
        _ => format!("{kind} {namespace}/{name}"),
    }
    .into()
}
