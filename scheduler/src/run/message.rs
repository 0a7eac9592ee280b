//! What the engine's thread is told: one queue, in the order in which it happened.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use capstan_core::explain::view::{Place, PodExplanation, WorkloadExplanation};
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::act::Answer;
use crate::config::Config;
use crate::live::Seen;
use crate::render::Explained;
use crate::run::barrier::Marks;
use crate::serve;

/// Events in one message at most.
const BATCH_MAX: usize = 512;
/// Messages with events that wait at most: watches are slowed when the engine is behind.
const BATCHES_MAX: usize = 64;
/// Questions that wait at most, those among them whose askers have gone: who asks beyond is told
/// to ask again.
const ASKED_MAX: usize = 32;

/// Something that the engine's thread has to know or to do.
pub enum Message {
    /// Watches saw something.
    Seen(Batch),
    /// An effect was answered.
    Answer(Answer),
    /// Somebody asks.
    Ask(Asked),
    /// We lead; the API server was at these versions when we began to, and who led before us had
    /// changed nothing for so long.
    Lead(Marks, Duration),
    /// Another configuration holds.
    Config(Box<Config>),
    /// Nothing is decided any more.
    Stop,
    /// Somebody waits until all messages before this one were acted on.
    Settled(oneshot::Sender<()>),
    /// The thread ends.
    End,
}

/// Events of watches; they count as waiting until this is dropped.
pub struct Batch {
    /// The events, in order.
    pub seen: Vec<Seen>,
    _room: OwnedSemaphorePermit,
}

#[cfg(test)]
impl Batch {
    /// Events that came by no channel.
    pub fn of(seen: Vec<Seen>) -> Batch {
        let room = Arc::new(Semaphore::new(1));
        let room = room.try_acquire_owned().expect("nobody else has it");
        Batch { seen, _room: room }
    }
}

/// A question; it counts as waiting until this is dropped.
pub struct Asked {
    /// The question.
    pub question: Question,
    /// Whose it is that is asked about, where another scheduler is to place it.
    pub whose: Option<String>,
    _room: OwnedSemaphorePermit,
}

#[cfg(test)]
impl Asked {
    /// One that was asked by no [`Asker`].
    pub fn of(question: Question) -> Asked {
        let room = Arc::new(Semaphore::new(1));
        let room = room.try_acquire_owned().expect("nobody else has it");
        Asked { question, whose: None, _room: room }
    }
}

/// Where an explanation goes, or whose it is that there is none.
type To<T> = oneshot::Sender<Result<Explained<T>, Option<String>>>;

/// A question of people, with where its answer goes.
pub enum Question {
    /// Why a pod may or may not run.
    Pod(String, String, To<PodExplanation>),
    /// Why a workload waits or runs.
    Workload(String, String, To<WorkloadExplanation>),
    /// What waits in a ClusterQueue, or in a LocalQueue of a namespace.
    Line(Option<String>, String, oneshot::Sender<Option<Vec<Place>>>),
}

impl Question {
    /// Whether nobody waits for the answer any more.
    pub fn in_vain(&self) -> bool {
        match self {
            Question::Pod(.., to) => to.is_closed(),
            Question::Workload(.., to) => to.is_closed(),
            Question::Line(.., to) => to.is_closed(),
        }
    }

    /// Whether it is about a pod, of which an engine knows all without having decided anything.
    pub fn is_of_a_pod(&self) -> bool {
        matches!(self, Question::Pod(..))
    }
}

/// Brings what watches see to the engine's thread, as much at a time as there is.
pub async fn gather(mut from: Receiver<Seen>, to: Sender<Message>) {
    let room = Arc::new(Semaphore::new(BATCHES_MAX));
    loop {
        let mut seen = Vec::new();
        if from.recv_many(&mut seen, BATCH_MAX).await == 0 {
            return;
        }
        let Ok(room) = room.clone().acquire_owned().await else { return };
        if to.send(Message::Seen(Batch { seen, _room: room })).is_err() {
            return;
        }
    }
}

/// Asks the engine's thread.
pub struct Asker {
    to: Sender<Message>,
    room: Arc<Semaphore>,
}

impl Asker {
    /// One that may have so many questions waiting.
    pub fn new(to: Sender<Message>) -> Asker {
        Asker { to, room: Arc::new(Semaphore::new(ASKED_MAX)) }
    }

    /// A thread that is gone drops the question, which is an answer too.
    fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
    ) -> Option<oneshot::Receiver<T>> {
        let room = self.room.clone().try_acquire_owned().ok()?;
        let (sender, answer) = oneshot::channel();
        let asked = Asked { question: question(sender), whose: None, _room: room };
        drop(self.to.send(Message::Ask(asked)));
        Some(answer)
    }
}

impl serve::Ask for Asker {
    fn explain_pod(&self, namespace: &str, name: &str) -> Option<serve::Answer<PodExplanation>> {
        self.ask(|to| Question::Pod(namespace.to_owned(), name.to_owned(), to))
    }

    fn explain_workload(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<serve::Answer<WorkloadExplanation>> {
        self.ask(|to| Question::Workload(namespace.to_owned(), name.to_owned(), to))
    }

    fn line(&self, namespace: Option<&str>, name: &str) -> Option<serve::Line> {
        self.ask(|to| Question::Line(namespace.map(str::to_owned), name.to_owned(), to))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::serve::Ask;

    #[test]
    fn so_many_questions_wait_and_no_more() {
        let (to, messages) = mpsc::channel();
        let asker = Asker::new(to);
        let answers: Vec<_> = (0..ASKED_MAX).map(|_| asker.line(None, "q")).collect();
        assert!(answers.iter().all(Option::is_some));
        assert!(asker.explain_pod("ns", "p").is_none(), "too many");
        // That who asked has gone helps nobody: the thread has still to look at the question.
        drop(answers);
        assert!(asker.explain_workload("ns", "w").is_none(), "too many still");
        drop(messages.recv());
        assert!(asker.explain_workload("ns", "w").is_some());
        assert!(asker.explain_workload("ns", "w").is_none());
    }
}
