//! `waitForPodsReady`: what becomes of work whose pods do not come up.
//!
//! Decides the defaults, which are Kueue's, and refuses waits that could never be kept.

use capstan_core::policy::{PodsReady, Requeuing};
use capstan_core::time::Span;

use super::file::{CapstanConfiguration, RequeuingTimestamp, WaitForPodsReady};
use super::validate::Finding;

/// Time until all pods are ready, where the file does not say.
const TIMEOUT: Span = Span::minutes(5);
/// First and longest wait of work that was stopped, in seconds, where the file does not say.
const BACKOFF: (i32, i32) = (60, 3_600);

/// How long a gang may run in part: as Kueue has it, but by default too.
pub fn recovery_timeout(file: &CapstanConfiguration, default: Option<Span>) -> Option<Span> {
    let Some(ready) = file.wait_for_pods_ready.as_ref() else { return default };
    let given = ready.recovery_timeout.or(ready.timeout).map(|it| it.0);
    match (ready.enable, given) {
        (Some(false), _) => None,
        (_, None) => default,
        (_, Some(span)) => (span.0 > 0).then_some(span),
    }
}

/// What becomes of work whose pods do not come up; `None`: it holds its quota.
pub fn pods_ready(file: &CapstanConfiguration, errors: &mut Vec<Finding>) -> Option<PodsReady> {
    let ready = file.wait_for_pods_ready.as_ref()?;
    check(ready, errors);
    if ready.enable == Some(false) {
        return None;
    }
    let timeout = ready.timeout.map_or(TIMEOUT, |given| given.0);
    let recovery = ready.recovery_timeout.map_or(timeout, |given| given.0);
    let strategy = &ready.requeuing_strategy;
    let seconds = |given: Option<i32>, usual: i32| Span::seconds(given.unwrap_or(usual).into());
    Some(PodsReady {
        timeout,
        recovery: (recovery.0 > 0).then_some(recovery),
        blocks_admission: ready.block_admission.unwrap_or(false),
        requeuing: Requeuing {
            behind: strategy.timestamp != Some(RequeuingTimestamp::Creation),
            base: seconds(strategy.backoff_base_seconds, BACKOFF.0),
            longest: seconds(strategy.backoff_max_seconds, BACKOFF.1),
            limit: strategy.backoff_limit_count.and_then(|limit| u32::try_from(limit).ok()),
        },
    })
}

fn check(ready: &WaitForPodsReady, errors: &mut Vec<Finding>) {
    if ready.timeout.is_some_and(|given| given.0.0 == 0) {
        let problem = "no pod is ready at once; give it time, or set enable: false";
        errors.push(("waitForPodsReady.timeout".to_owned(), problem.to_owned()));
    }
    let strategy = &ready.requeuing_strategy;
    let base = strategy.backoff_base_seconds.unwrap_or(BACKOFF.0);
    if let Some(longest) = strategy.backoff_max_seconds.filter(|longest| *longest < base) {
        let problem = format!("{longest} is below backoffBaseSeconds ({base}); raise it");
        errors.push(("waitForPodsReady.requeuingStrategy.backoffMaxSeconds".to_owned(), problem));
    }
}
