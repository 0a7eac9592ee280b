//! Whatever happens to whatever request: one answer for each effect, and it is true.

use super::*;
use proptest::prelude::*;

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => prop_oneof![Just(409), Just(429), Just(500), Just(503), Just(504)]
            .prop_map(|code| Fault::Instead(code, 0)),
        1 => Just(Fault::Instead(429, 3)),
        1 => prop_oneof![Just(500), Just(504)].prop_map(Fault::Despite),
        1 => Just(Fault::LostBefore),
        1 => Just(Fault::LostAfter),
        1 => Just(Fault::Hangs),
        1 => Just(Fault::HangsAfter),
    ]
}

fn action(kind: usize, name: &str) -> Action {
    match kind {
        0 => bind(name),
        1 => evict(name),
        2 => suspend(name),
        _ => resume(name),
    }
}

/// What the server must show for an answer to be true.
fn true_for(result: &EffectResult, kind: usize, found: &Value) -> bool {
    let annotations = &found["metadata"]["annotations"];
    let done = match kind {
        0 => found["spec"]["nodeName"] == "n1",
        1 => !found["metadata"]["deletionTimestamp"].is_null(),
        2 => found["spec"]["suspend"] == true && annotations["capstan.sh/suspended"] == "1",
        _ => found["spec"]["suspend"] == false && !annotations["capstan.sh/admitted"].is_null(),
    };
    match result {
        EffectResult::Done => done,
        EffectResult::Refused(_) | EffectResult::Conflict(_) | EffectResult::Gone => !done,
        EffectResult::TimedOut => true,
    }
}

/// After a write whose fate is unknown, the next request of the same object is a reading.
fn reads_back(log: &[String], faults: &[Fault]) -> bool {
    let unknown = |fault: &Fault| match fault {
        Fault::Instead(code, _) | Fault::Despite(code) => *code >= 500,
        Fault::None => false,
        _ => true,
    };
    let fated = log.iter().zip(faults).zip(log.iter().skip(1));
    fated
        .filter(|((request, fault), _)| !request.starts_with("GET") && unknown(fault))
        .all(|(_, next)| next.starts_with("GET"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_effect_alone_reads_back_what_it_does_not_know(
        kind in 0..4_usize,
        faults in prop::collection::vec(fault(), 0..12),
    ) {
        let server = Server::with(&[pod("x"), job("j", kind == 3)]).faults(&faults);
        let name = if kind < 2 { "x" } else { "j" };
        let result = in_paused_time(carry(&server, action(kind, name)));
        let path = if kind < 2 { "pods/x" } else { "jobs/j" };
        let found = server.get(path).expect("nothing is removed");
        prop_assert!(true_for(&result, kind, &found), "{result:?}: {found}");
        prop_assert!(reads_back(&server.log(), &faults), "{:?}", server.log());
    }

    #[test]
    fn many_effects_have_one_true_answer_each(
        kinds in prop::collection::vec(0..4_usize, 1..20),
        faults in prop::collection::vec(fault(), 0..60),
        in_flight in 1..20_usize,
    ) {
        let name = |index: usize| format!("x{index}");
        let objects: Vec<Value> = kinds.iter().enumerate().map(|(index, kind)| {
            if *kind < 2 { pod(&name(index)) } else { job(&name(index), *kind == 3) }
        }).collect();
        let server = Server::with(&objects).faults(&faults);
        let answers = in_paused_time(async {
            let limits = Limits { in_flight, ..Limits::default() };
            let bench = Bench::new(&server, Leadership::alone(), limits);
            let actions = kinds.iter().enumerate().map(|(i, kind)| action(*kind, &name(i)));
            bench.executor.dispatch((0..).zip(actions).map(|(i, a)| {
                Effect { completes: i % 3 == 1, ..effect(i, a) }
            }).collect());
            bench.answers().await
        });
        let mut ids: Vec<u64> = answers.iter().map(|answer| answer.effect.0).collect();
        ids.sort_unstable();
        prop_assert!(ids.iter().copied().eq(0..kinds.len() as u64), "{ids:?}");
        for answer in &answers {
            let index = usize::try_from(answer.effect.0).expect("small");
            let kinds_of = if kinds[index] < 2 { "pods" } else { "jobs" };
            let found = server.get(&format!("{kinds_of}/{}", name(index))).expect("there");
            prop_assert!(true_for(&answer.result, kinds[index], &found), "{answer:?}: {found}");
        }
        prop_assert!(server.most() <= in_flight);
    }
}

fn in_paused_time<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(future)
}
