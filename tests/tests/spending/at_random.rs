//! Against the sum over all that ever ran, by its definition: random lives of a queue with a
//! budget.

use proptest::prelude::*;

use super::*;

/// What happens to a queue's work.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Comes {
        gpus: i64,
    },
    Ends {
        which: usize,
    },
    Passes {
        seconds: i64,
    },
    /// After a while something that runs is of another gang, or of none.
    Moves {
        which: usize,
        gang: Option<usize>,
        seconds: i64,
    },
    Restarts,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let seconds = prop_oneof![1..4_000_i64, 20_000..90_000_i64];
    let turn = prop_oneof![
        3 => (1..=3_i64).prop_map(|gpus| Turn::Comes { gpus }),
        2 => (0..4_usize).prop_map(|which| Turn::Ends { which }),
        4 => seconds.prop_map(|seconds| Turn::Passes { seconds }),
        3 => (0..4_usize, proptest::option::of(0..2_usize), 0..4_000_i64)
            .prop_map(|(which, gang, seconds)| Turn::Moves { which, gang, seconds }),
        1 => Just(Turn::Restarts),
    ];
    proptest::collection::vec(turn, 1..40)
}

/// All work of a queue, and what it costs by the definition.
struct Books {
    now: Time,
    waiting: Vec<PodFacts>,
    running: Vec<(PodFacts, Time)>,
    /// Since when, until when, GPUs.
    ended: Vec<(Time, Time, i64)>,
}

const GPUS: i64 = 6;
const MAY_SPEND: i64 = 30;

fn gpus(pod: &PodFacts) -> i64 {
    pod.shape.requests[GPU]
}

impl Books {
    /// GPU-seconds since midnight.
    fn gpu_seconds(&self) -> i64 {
        let (start, _) = Period::Day.around(self.now);
        let runs = self.running.iter().map(|(pod, since)| (*since, self.now, gpus(pod)));
        let all = self.ended.iter().copied().chain(runs);
        all.map(|(since, until, gpus)| until.since(since.max(start)).0 / 1_000 * gpus).sum()
    }

    fn is_spent(&self) -> bool {
        self.gpu_seconds() * PRICE >= MAY_SPEND * 3_600
    }

    /// Who begins: in order of creation all that fit, unless the budget is spent.
    fn begin(&mut self) -> Vec<String> {
        let mut left = GPUS - self.running.iter().map(|(pod, _)| gpus(pod)).sum::<i64>();
        let (mut begun, spent, now) = (Vec::new(), self.is_spent(), self.now);
        self.waiting.retain(|pod| {
            let begins = !spent && gpus(pod) <= left;
            if begins {
                left -= gpus(pod);
                begun.push(pod.name.to_string());
                self.running.push((pod.clone(), now));
            }
            !begins
        });
        begun
    }

    /// Something that runs is a member of a gang from now on, or of none; what is shown of it.
    fn moves(&mut self, which: usize, gang: Option<usize>) -> Option<Input> {
        let (pod, since) = self.running.get_mut(which)?;
        let named = gang.map(|gang| format!("g{gang}"));
        *pod = moved::into(pod, named.as_deref());
        Some(Input::Pod(runs(pod, *since)))
    }

    /// What a new engine is fed.
    fn facts(&self, status: Input) -> Vec<Input> {
        let mut facts = ground(&[queue("main", GPUS, Some(usd(MAY_SPEND)))], GPUS);
        facts.push(status);
        facts.extend(self.running.iter().map(|(pod, since)| Input::Pod(runs(pod, *since))));
        facts.extend(self.waiting.iter().cloned().map(Input::Pod));
        facts
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Against the sum over all that ever ran; nothing begins while that has reached the budget,
    /// and whatever fits does while it has not.
    #[test]
    fn what_is_spent_is_the_sum_over_all_that_ran(turns in turns()) {
        let mut engine = Engine::new();
        let (waiting, running, ended) = (Vec::new(), Vec::new(), Vec::new());
        let mut books = Books { now: at(600), waiting, running, ended };
        let mut all: Vec<PodFacts> = Vec::new();
        let mut facts = ground(&[queue("main", GPUS, Some(usd(MAY_SPEND)))], GPUS);
        let mut restarts = 0;
        for (number, turn) in turns.into_iter().enumerate() {
            match turn {
                Turn::Comes { gpus } => {
                    let mut pod = job(&format!("j{number:02}"), "main", gpus);
                    pod.created = Time(number as i64);
                    books.waiting.push(pod.clone());
                    facts.push(Input::Pod(pod.clone()));
                    all.push(pod);
                }
                Turn::Ends { which } if which < books.running.len() => {
                    let (pod, since) = books.running.remove(which);
                    books.ended.push((since, books.now, gpus(&pod)));
                    facts.push(gone(&pod));
                }
                Turn::Ends { .. } => {}
                Turn::Passes { seconds } => books.now = books.now.plus(Span::seconds(seconds)),
                Turn::Moves { which, gang, seconds } => {
                    books.now = books.now.plus(Span::seconds(seconds));
                    facts.extend(books.moves(which, gang));
                }
                Turn::Restarts if number > 0 => {
                    restarts += 1;
                    facts = books.facts(written(&engine, "main", books.now));
                    engine = Engine::new();
                }
                Turn::Restarts => {}
            }
            let begun = play(&mut engine, books.now, std::mem::take(&mut facts), &all);
            let mut wanted = books.begin();
            wanted.sort();
            prop_assert_eq!(begun, wanted, "turn {}, {:?}", number, turn);
            let account = account(&engine, "main", books.now);
            prop_assert_eq!(account.gpu_seconds(), books.gpu_seconds(), "turn {}", number);
            // Each restart may lose less than a millionth of a dollar.
            let money = i128::from(books.gpu_seconds()) * i128::from(PRICE) * 1_000_000 / 3_600;
            let lost = money - i128::from(account.usd().0);
            prop_assert!((0..=restarts).contains(&lost), "{} lost", lost);
        }
    }
}
