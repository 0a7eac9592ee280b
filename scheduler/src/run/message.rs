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

/// Something that the engine's thread has to know or to do.
pub enum Message {
    /// Watches saw something.
    Seen(Batch),
    /// An effect was answered.
    Answer(Answer),
    /// Somebody asks.
    Ask(Question),
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

/// A question of people, with where its answer goes.
pub enum Question {
    /// Why a pod may or may not run.
    Pod(String, String, oneshot::Sender<Option<Explained<PodExplanation>>>),
    /// Why a workload waits or runs.
    Workload(String, String, oneshot::Sender<Option<Explained<WorkloadExplanation>>>),
    /// What waits in a ClusterQueue, or in a LocalQueue of a namespace.
    Line(Option<String>, String, oneshot::Sender<Option<Vec<Place>>>),
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
pub struct Asker(pub Sender<Message>);

impl serve::Ask for Asker {
    fn explain_pod(&self, namespace: &str, name: &str) -> serve::Answer<PodExplanation> {
        let (sender, answer) = oneshot::channel();
        self.ask(Question::Pod(namespace.to_owned(), name.to_owned(), sender));
        answer
    }

    fn explain_workload(&self, namespace: &str, name: &str) -> serve::Answer<WorkloadExplanation> {
        let (sender, answer) = oneshot::channel();
        self.ask(Question::Workload(namespace.to_owned(), name.to_owned(), sender));
        answer
    }

    fn line(&self, namespace: Option<&str>, name: &str) -> serve::Line {
        let (sender, answer) = oneshot::channel();
        self.ask(Question::Line(namespace.map(str::to_owned), name.to_owned(), sender));
        answer
    }
}

impl Asker {
    /// A thread that is gone drops the question, which is an answer too.
    fn ask(&self, question: Question) {
        drop(self.0.send(Message::Ask(question)));
    }
}
