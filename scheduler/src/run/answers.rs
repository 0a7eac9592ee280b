//! Questions of people: which is answered next, and by which engine.
//!
//! Problem: an answer takes many milliseconds where each remedy is tried on the engine, binds wait
//! for the thread that gives it, and whoever reaches the port may ask. A replica that stands by has
//! looked at nobody, so that its engine knows no reasons.
//!
//! Wanted: a turn of a leader answers one question; who has gone gets no answer; a take-over waits
//! for none. Who stands by says what an engine that began to lead now would: it hands all that was
//! seen to an engine of its own on a thread of its own, one at a time, once for all questions that
//! came meanwhile, and so seldom that gathering it takes a small [`PART`] of the engine's thread.
//! How many questions there may be at all is bounded where they are asked ([`super::message`]).

use std::collections::VecDeque;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capstan_core::Engine;
use capstan_core::model::input::{Input, Text};
use capstan_core::time::Time;

use super::ENGINE_STACK;
use super::message::{Asked, Question};
use crate::gangs;
use crate::live::Live;
use crate::render::Explained;

/// From one engine of its own to the next, at least...
const APART: Duration = Duration::from_millis(500);
/// ...and so many times as long as it took to gather what it is told.
const PART: u32 = 10;
/// How often it is looked whether it has ended.
const GLANCE: Duration = Duration::from_millis(10);

/// Questions that wait.
#[derive(Default)]
pub struct Questions {
    waiting: VecDeque<Asked>,
    /// Who answers some of them with an engine of its own.
    apart: Option<JoinHandle<()>>,
    /// When the next may.
    next: Option<Instant>,
}

impl Questions {
    /// One more.
    pub fn push(&mut self, asked: Asked) {
        self.waiting.push_back(asked);
    }

    /// Whether any waits that somebody waits for; others are gone.
    pub fn any(&mut self) -> bool {
        self.waiting.retain(|asked| !asked.question.in_vain());
        !self.waiting.is_empty()
    }

    /// None is answered any more.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// How long there is nothing to do for them, on who leads or stands by; `None`: for as long as
    /// nobody asks.
    pub fn patience(&self, leads: bool, at: Instant) -> Option<Duration> {
        if self.waiting.is_empty() {
            return None;
        }
        let next = self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(at));
        Some(match self.runs() {
            _ if leads => Duration::ZERO,
            true => next.max(GLANCE),
            false => next,
        })
    }

    /// Finds out of each whose it is what it asks about: an engine of its own is told of ours only.
    pub fn learn(&mut self, live: &Live) {
        for asked in &mut self.waiting {
            asked.whose = match &asked.question {
                Question::Pod(namespace, name, _) => live.says_whose(true, namespace, name),
                Question::Workload(namespace, name, _) => live.says_whose(false, namespace, name),
                Question::Line(..) => None,
            };
        }
    }

    /// Answers the first. All pods are looked through only for what the engine does not know.
    pub fn answer_one(&mut self, engine: &mut Engine, live: &Live, now: Time) {
        let says = |of_pod, namespace: &str, name: &str| live.says_whose(of_pod, namespace, name);
        if let Some(asked) = self.waiting.pop_front() {
            answer(engine, now, asked.question, says);
        }
    }

    /// Whether an engine of its own may be made now.
    pub fn may_go_apart(&self, at: Instant) -> bool {
        !self.runs() && self.next.is_none_or(|next| next <= at)
    }

    /// Has all of the first one's kind answered by an engine of its own that is told this, which
    /// took so long to gather.
    pub fn go_apart(&mut self, at: Instant, took: Duration, (now, told): (Time, Vec<Input>)) {
        let of_pods = self.waiting.front().is_some_and(|asked| asked.question.is_of_a_pod());
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (asked, others): (VecDeque<Asked>, VecDeque<Asked>) =
            all.partition(|asked| asked.question.is_of_a_pod() == of_pods);
        self.waiting = others;
        self.next = Some(at + APART.max(took * PART));
        let thread = std::thread::Builder::new().name("answers".to_owned());
        let begun = thread.stack_size(ENGINE_STACK).spawn(move || {
            let mut engine = Engine::new();
            match of_pods {
                true => engine.observe(now, told),
                // What is decided here is carried out by nobody.
                false => drop(engine.step(now, told)),
            }
            for Asked { question, whose, .. } in asked {
                answer(&mut engine, now, question, |_, _, _| whose);
            }
        });
        match begun {
            Ok(thread) => self.apart = Some(thread),
            // Who asked sees that nobody answers.
            Err(error) => tracing::warn!(%error, "no thread that answers"),
        }
    }

    fn runs(&self) -> bool {
        self.apart.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

/// Answers who still waits; of what the engine does not know that which `says` tells.
fn answer(
    engine: &mut Engine,
    now: Time,
    question: Question,
    says: impl FnOnce(bool, &str, &str) -> Option<String>,
) {
    if question.in_vain() {
        return;
    }
    // Who asked may have gone; nobody else wants the answer.
    match question {
        Question::Pod(namespace, name, to) => {
            let found = engine.explain_pod(&namespace, &name);
            let found = found.map(|explanation| explained(explanation, now));
            drop(to.send(found.ok_or_else(|| says(true, &namespace, &name))));
        }
        Question::Workload(namespace, name, to) => {
            let find = |name: Text| engine.explain_workload(now, &namespace, &name);
            let found = gangs::names_of(&name).find_map(find);
            let found = found.map(|explanation| explained(explanation, now));
            drop(to.send(found.ok_or_else(|| says(false, &namespace, &name))));
        }
        Question::Line(None, name, to) => {
            drop(to.send(engine.line_of_cluster_queue(&name)));
        }
        Question::Line(Some(namespace), name, to) => {
            let (namespace, name) = (namespace.into(), name.into());
            drop(to.send(engine.line_of_local_queue(&namespace, &name)));
        }
    }
}

/// An explanation as of now, on a live cluster.
pub fn explained<E>(explanation: E, now: Time) -> Explained<E> {
    Explained { explanation, now, files: Vec::new(), warnings: Vec::new() }
}

#[cfg(test)]
mod tests {
    use capstan_core::explain::view::Place;
    use tokio::sync::oneshot;

    use super::*;

    type Line = oneshot::Receiver<Option<Vec<Place>>>;

    /// A question for the line of a queue that is not there, and where its answer comes.
    fn line(name: &str) -> (Asked, Line) {
        let (to, answer) = oneshot::channel();
        (Asked::of(Question::Line(None, name.to_owned(), to)), answer)
    }

    fn says_no(answer: Line) -> bool {
        answer.blocking_recv().expect("an answer").is_none()
    }

    #[test]
    fn engines_of_their_own_follow_each_other_and_take_all_that_was_asked_meanwhile() {
        let at = Instant::now();
        let mut questions = Questions::default();
        assert_eq!((questions.any(), questions.patience(false, at)), (false, None));
        let (first, answer) = line("q");
        questions.push(first);
        assert!(questions.any() && questions.may_go_apart(at));
        assert_eq!(questions.patience(false, at), Some(Duration::ZERO));
        questions.go_apart(at, APART / PART, (Time(0), Vec::new()));
        assert!(says_no(answer));
        questions.apart.take().expect("it began").join().expect("it ended");

        let (both, answers): (Vec<Asked>, Vec<Line>) = ["a", "b"].map(line).into_iter().unzip();
        both.into_iter().for_each(|asked| questions.push(asked));
        assert!(!questions.may_go_apart(at + APART / 2), "not so soon after the last");
        assert_eq!(questions.patience(false, at + APART / 2), Some(APART / 2));
        assert_eq!(questions.patience(true, at), Some(Duration::ZERO), "a leader needs none");
        assert!(questions.may_go_apart(at + APART));
        questions.go_apart(at + APART, APART, (Time(0), Vec::new()));
        assert!(answers.into_iter().all(says_no));
        assert!(!questions.any());
        questions.apart.take().expect("it began").join().expect("it ended");
        let long = APART * PART;
        assert!(!questions.may_go_apart(at + long), "that took long to gather");
        assert!(questions.may_go_apart(at + APART + long));
    }

    #[test]
    fn while_one_answers_no_other_is_made() {
        let at = Instant::now();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let apart = Some(std::thread::spawn(move || _ = ended.recv()));
        let mut questions = Questions { apart, ..Questions::default() };
        questions.push(line("q").0);
        assert!(!questions.may_go_apart(at));
        assert_eq!(questions.patience(false, at), Some(GLANCE), "it is looked at again soon");
        drop(end);
        questions.apart.take().expect("it runs").join().expect("it ended");
        assert!(questions.may_go_apart(at));
    }
}
