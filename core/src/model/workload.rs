//! A workload: a gang of pod sets, and what was decided about it.
//!
//! Members and pod sets are derived from pods and owners; `state`, `assignment` and `requeue` are
//! the engine's. What must survive a restart is written on pods and owners when it is decided
//! (see [`crate::model::assemble`] for how each state is rebuilt).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::explain::reason::Reason;
use crate::model::ids::{FlavorIdx, FrIdx, PodIdx, QueueIdx, ShapeIdx};
use crate::model::input::{
    GangKey, GangSource, RequeueNote, SetLevels, Stays, Stops, Text, TopologyWish, Wishes,
};
use crate::model::room::Room;
use crate::plan::{EffectId, Preemption, State};
use crate::time::{Span, Time};

/// Identity of a workload, and the last tie of every order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadId {
    /// Namespace.
    pub namespace: Text,
    /// Gang within it.
    pub key: GangKey,
}

/// A workload.
#[derive(Debug)]
pub struct Workload {
    /// Identity.
    pub id: WorkloadId,
    /// Name, unique in the namespace.
    pub name: Text,
    /// `namespace/name`, as effects and reports name it.
    pub full_name: Text,
    /// Where membership was found.
    pub source: GangSource,
    /// Uid of the owner that can be suspended and resumed, if any.
    pub owner: Option<Text>,
    /// Active members, by creation, name and uid.
    pub members: Vec<PodIdx>,
    /// Members by shape, in order of their first member.
    pub sets: Vec<PodSet>,
    /// Members that must run together.
    pub min_member: u32,
    /// With how many it was whole, where it may be asked for more by now.
    pub began: Option<Box<Began>>,
    /// Priority that orders it.
    pub priority: i32,
    /// The lowest that `spec.priority` of a member says.
    pub lowest_priority: i32,
    /// Its pods may not preempt.
    pub never_preempts: bool,
    /// Why nobody stops it for others, if nobody stops any of its pods: as the first of them says.
    pub stays: Option<Stays>,
    /// Creation: the earliest member's, or the owner's.
    pub created: Time,
    /// Uid for ties: the owner's, else the first member's.
    pub uid: Text,
    /// What people asked.
    pub wishes: Arc<Wishes>,
    /// The WorkloadPriorityClass that it names, with its value, or the last that it had: deleting a
    /// class changes what comes, not what is there.
    pub class: Option<(Text, i32)>,
    /// Queue, once queues are known.
    pub queue: QueueRef,
    /// ClusterQueue that it belongs to, whether or not that admits anything.
    pub cluster_queue: Option<QueueIdx>,
    /// State.
    pub state: State,
    /// Flavors and charges, while it holds quota.
    pub assignment: Option<Arc<Assignment>>,
    /// Waiting: what was tried and when to try again.
    pub requeue: Requeue,
    /// Why it waits, as last decided.
    pub reason: Option<Reason>,
    /// Placed members were there before this engine decided anything.
    pub found_running: bool,
    /// It is being stopped for another.
    pub evicting: Option<Box<Preemption>>,
    /// This engine asked for its end, and was not refused.
    pub stop_asked: bool,
    /// When the last stop that this engine asked for was refused: marks on its pods, which are of
    /// that, mean nothing.
    pub stop_refused: Option<Time>,
    /// The first effect of the last stop that this engine asked for: answers to those before it are
    /// of other stops.
    pub stop_from: Option<EffectId>,
    /// The owner's suspend or resume in flight.
    pub owner_effect: Option<EffectId>,
    /// Its owner was resumed: places are kept until then for pods that do not exist yet.
    pub kept_until: Option<Time>,
    /// Places are kept, for as long as it takes, for pods of it that are made once others run.
    pub late: bool,
    /// It is in part, and all that it lacks for its minimum are members that have gates.
    pub gates: bool,
    /// How many of its pods were seen to end well, and are gone, that its owner has not counted; it
    /// may count before they are seen, or such as were never seen.
    pub uncounted: i32,
    /// Places are kept for pods that follow others of the same run, of which none is left.
    pub between: bool,
    /// It must be derived again from its pods and owner.
    pub dirty: bool,
    /// Members came, or were made at another time, since they were put in order.
    pub unordered: bool,
    /// Enough members have started to run.
    pub started: bool,
    /// As many members run and are ready as it needs, or as will ever come; it may be in the middle
    /// of something.
    pub up: bool,
    /// It was at some time since it was admitted.
    pub came_up: bool,
    /// What was told of it last: its state, and whether it had started or its owner had ended, and
    /// whether it was up.
    pub told: Option<(State, (bool, bool))>,
    /// It has news to be told at the end of this step.
    pub news: bool,
    /// How far its run is, as far as that was counted.
    pub run: Run,
}

/// With how many members a gang was whole; all with those that ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    /// How many had to run together.
    pub members: u32,
    /// How many must by what its source says now; it joins them as room comes.
    pub asked: u32,
    /// How many of each role had to; `None`: that is not known.
    pub roles: Option<Arc<BTreeMap<Text, u32>>>,
}

/// How far a run of a workload is, as far as that was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Run {
    /// It holds nothing.
    #[default]
    Waits,
    /// It was admitted.
    Begun,
    /// Enough of its members had started.
    Ready,
    /// Its work is done.
    Over,
}

/// Members of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSet {
    /// Name.
    pub name: Text,
    /// Shape.
    pub shape: ShapeIdx,
    /// Active members.
    pub count: u32,
    /// Of these, neither gated nor being deleted.
    pub ready: u32,
}

/// The queue that a workload is in.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueRef {
    /// No queue at all: the implicit one.
    Unqueued,
    /// A ClusterQueue through a LocalQueue.
    Queue(QueueIdx),
    /// None that works, and why.
    Broken(Reason),
}

/// What a workload holds quota with.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// ClusterQueue; `None`: unqueued work, which charges nothing.
    pub queue: Option<QueueIdx>,
    /// Per shape.
    pub sets: Vec<SetAssignment>,
    /// When quota was taken.
    pub at: Time,
}

/// Flavors of one pod set and what one member charges.
#[derive(Clone, Debug, PartialEq)]
pub struct SetAssignment {
    /// Shape of the set.
    pub shape: ShapeIdx,
    /// Resource name to flavor, for notes and views.
    pub flavors: Vec<(capstan_topology::ResourceIdx, FlavorIdx)>,
    /// Flavors whose nodes it may use, sorted, each once.
    pub nodes_of: Vec<FlavorIdx>,
    /// Quota that one member takes; [`BY_NODE`]: what it costs where it is.
    pub charge: Vec<(FrIdx, i64)>,
}

/// What a set charges of money for each member stands in its bill ([`crate::model::bills`]): no
/// other amount that is charged is zero.
pub const BY_NODE: i64 = 0;

impl SetAssignment {
    /// The flavor of whose money its members are charged.
    pub fn money(&self) -> Option<FrIdx> {
        self.charge.iter().find(|(_, amount)| *amount == BY_NODE).map(|(fr, _)| *fr)
    }
}

/// An assignment with this many sets forgets those of shapes that no member has before it gets
/// one more. A member that dies may come back with its shape and then gets the flavors that it
/// had; but a workload that never ends and whose members change their shape every day must not
/// remember them all.
pub const SETS_MAX: usize = 16;

impl Assignment {
    /// Adds the part for one more shape. When there are many, those go that no member has.
    pub fn extend(&mut self, set: SetAssignment, has_member: impl Fn(ShapeIdx) -> bool) {
        if self.sets.len() >= SETS_MAX {
            self.sets.retain(|set| has_member(set.shape));
        }
        self.sets.push(set);
    }

    /// The part for one shape, if it has one.
    pub fn set(&self, shape: ShapeIdx) -> Option<&SetAssignment> {
        self.sets.iter().find(|set| set.shape == shape)
    }
}

/// What a waiting workload remembers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requeue {
    /// Not before this time, after failures.
    pub not_before: Option<Time>,
    /// Failures in a row.
    pub failures: u32,
    /// Stops before this run, and since when it is in part; of few, so not many bytes of all.
    past: Option<Box<Past>>,
    /// Where the flavor scan goes on.
    pub scan: Option<Box<FlavorScan>>,
}

/// Memory of the flavor scan: for each pod set and resource group the flavor tried last.
///
/// A scan that goes on round after round is one *run*. It ends where every set's flavors are
/// tried, and after as many rounds as there are flavors to try: sets that end at different times
/// begin anew beside each other, and would otherwise take turns for ever. What was looked at first
/// may have come free in the meantime, so a run of several rounds ends with one look from the
/// start.
#[derive(Clone, Debug, PartialEq)]
pub struct FlavorScan {
    /// (set, group) to the index to start at; empty: the run has ended.
    pub next: Vec<((usize, usize), usize)>,
    /// Generation of the queue's tree when it was recorded.
    pub generation: u64,
    /// Round in which it was recorded.
    pub round: u64,
    /// Round in which the run began.
    pub began: u64,
    /// The run went through all flavors, the first ones long ago: they are looked at once more
    /// before the workload is refused, and its reason is of that look.
    pub once_more: bool,
    /// Some look of the run found that more room on nodes might have led elsewhere.
    pub room: bool,
}

/// What happened to a workload before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Past {
    /// When it was stopped last; `None`: never.
    stopped_at: Option<Time>,
    /// Stops in a row because its pods did not come up.
    unready: u32,
    /// When its last stop was, if it was one of those.
    unready_at: Option<Time>,
    /// How long earlier runs held quota, all together.
    ran: Span,
    /// Why it was ever stopped.
    stops: Stops,
    /// When its quota went with the last of its members that had started; `None`: it never did.
    lost_at: Option<Time>,
    /// What it will have to know once its members have left that are being stopped.
    next: Option<RequeueNote>,
    /// Since when it has not been whole that had come up.
    down_since: Option<Time>,
}

impl Requeue {
    /// Takes over what an owner bears of its runs before this one, once.
    pub fn adopt(&mut self, note: &RequeueNote) {
        if self.stopped_at().is_none_or(|known| known < note.at) {
            self.not_before = note.not_before;
            let past = self.past.get_or_insert_default();
            (past.stopped_at, past.unready, past.ran) = (Some(note.at), note.unready, note.ran);
            (past.unready_at, past.stops) = (note.unready_at, note.stops);
        }
    }

    /// Its members are being stopped, and no owner bears what their next run has to know.
    pub fn stops(&mut self, note: RequeueNote) {
        self.past.get_or_insert_default().next = Some(note);
    }

    /// They are not stopped after all.
    pub fn stays(&mut self) {
        if let Some(past) = &mut self.past {
            past.next = None;
        }
    }

    /// It may begin anew: somebody says that it may run again.
    pub fn begin_anew(&mut self) {
        self.not_before = None;
        if let Some(past) = &mut self.past {
            (past.unready, past.unready_at, past.ran) = (0, None, Span(0));
        }
    }

    /// It held quota for so long and has lost it without being stopped; `lost_at`: now, if it had
    /// started.
    pub fn held_for(&mut self, held: Span, lost_at: Option<Time>) {
        let past = self.past.get_or_insert_default();
        past.ran = Span(past.ran.0.saturating_add(held.0.max(0)));
        past.lost_at = lost_at.or(past.lost_at);
    }

    /// When it was stopped because its pods did not come up, if that was its last stop, unless it
    /// has come up since.
    pub fn unready_at(&self) -> Option<Time> {
        self.past().unready_at
    }

    fn past(&self) -> Past {
        self.past.as_deref().copied().unwrap_or_default()
    }

    /// When it was stopped last; `None`: never.
    pub fn stopped_at(&self) -> Option<Time> {
        self.past().stopped_at
    }

    /// Why it was ever stopped, as far as its owner bears that.
    pub fn stopped_for(&self) -> Stops {
        self.past().stops
    }

    /// When it lost its quota though it had started, unless it was stopped since.
    pub fn lost_at(&self) -> Option<Time> {
        let past = self.past();
        past.lost_at.filter(|at| past.stopped_at.is_none_or(|stopped| stopped < *at))
    }

    /// Stops in a row because its pods did not come up.
    pub fn unready(&self) -> u32 {
        self.past().unready
    }

    /// How long earlier runs held quota, all together.
    pub fn ran(&self) -> Span {
        self.past().ran
    }

    /// Since when it has not been whole that had come up; `None`: it never had, or is.
    pub fn down_since(&self) -> Option<Time> {
        self.past().down_since
    }

    /// It is whole: how often it was stopped is forgotten.
    pub fn came_up(&mut self) {
        if let Some(past) = &mut self.past {
            (past.unready, past.unready_at, past.down_since) = (0, None, None);
        }
    }

    /// It is not whole any more.
    pub fn fell(&mut self, now: Time) {
        self.past.get_or_insert_default().down_since.get_or_insert(now);
    }

    /// It holds nothing.
    pub fn left(&mut self) {
        let Some(past) = &mut self.past else { return };
        past.down_since = None;
        if let Some(note) = past.next.take() {
            self.adopt(&note);
        }
    }
}

impl Workload {
    /// Remembers whether it came up since it was admitted: of which so many have places, and
    /// enough are ready.
    pub fn note_whether_up(&mut self, placed: u32, enough: bool, now: Time) {
        let stays = !matches!(self.state, State::Evicting | State::Finished);
        self.up = stays && placed > 0 && enough;
        match () {
            () if placed == 0 => {
                self.came_up = false;
                self.requeue.left();
            }
            () if self.up => {
                self.came_up = true;
                self.requeue.came_up();
            }
            () if self.came_up => self.requeue.fell(now),
            () => {}
        }
    }

    /// Its owner has counted so many members that ended well, and had counted so many before. One
    /// that counts from the beginning again makes all anew.
    pub fn count_ended(&mut self, before: u32, now: u32) {
        self.uncounted = match i32::try_from(now.saturating_sub(before)) {
            _ if now < before => 0,
            Ok(more) => self.uncounted.saturating_sub(more),
            Err(_) => i32::MIN,
        };
    }

    /// Whether places that are kept for its pods are looked for beside those that it has.
    pub fn keeps(&self) -> bool {
        self.kept_until.is_some() || self.late
    }

    /// Since when it waits, if it does: its creation, its last stop, or the end of the last of its
    /// members.
    pub fn waits_since(&self) -> Time {
        let last = self.requeue.stopped_at().max(self.requeue.lost_at());
        self.created.max(last.unwrap_or(self.created))
    }

    /// Whether it waits: for members, quota, nodes or victims.
    pub fn pending(&self) -> bool {
        matches!(self.state, State::Gathering | State::Queued | State::Reserved)
    }

    /// Whether it is counted among what waits in its queue: what somebody holds is not.
    pub fn competes(&self) -> bool {
        let held = matches!(self.queue, QueueRef::Broken(Reason::Deactivated { .. }));
        self.pending() && !held
    }

    /// Whether it is a pod of its own, without an owner that we know.
    pub fn lone(&self) -> bool {
        self.source == GangSource::Pod && self.owner.is_none() && self.members.len() <= 1
    }

    /// Topology that it wants.
    pub fn topology(&self) -> &TopologyWish {
        &self.wishes.topology
    }

    /// What pod sets want of topology by themselves. Nothing where something is wanted for the
    /// whole gang, which goes before it.
    pub fn own_levels<'a>(&'a self, room: &'a Room) -> impl Iterator<Item = &'a SetLevels> {
        let wish = self.topology();
        let by_set = wish.per_pod_set || *wish == TopologyWish::default();
        let sets = self.sets.iter().filter(move |_| by_set);
        sets.filter_map(|set| room.shape(set.shape).facts.levels.as_deref())
    }

    /// Whether some of its pod sets are cut into slices.
    pub fn in_slices(&self, room: &Room) -> bool {
        self.topology().slices.is_some() || self.own_levels(room).any(|own| own.slices.is_some())
    }

    /// Members of one shape, in member order.
    pub fn members_of<'a>(
        &'a self,
        shape: ShapeIdx,
        pods: &'a crate::model::ids::Arena<crate::model::pod::Pod>,
    ) -> impl Iterator<Item = PodIdx> + 'a {
        self.members.iter().copied().filter(move |pod| pods[*pod].shape == shape)
    }
}
