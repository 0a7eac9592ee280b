//! ClusterQueues that are deleted while somebody may hold quota in them.

use capstan_core::model::input::ClusterQueueFacts;

use super::*;
use crate::convert::quota::cluster_queue;
use crate::progress::Progress;
use crate::read::kinds::Origin;
use crate::world::run::play;
use crate::world::{Deadline, Ending, Mode, Scenario, StartTimes};

fn queue(deleted: Option<Time>) -> Input {
    let spec = serde_json::from_str("{}").expect("a spec");
    let facts = cluster_queue("q", &spec, Origin::Capstan);
    Input::ClusterQueue(ClusterQueueFacts { deleted, ..facts })
}

/// What a run tells of queues, and when; from ten seconds on nobody holds quota in them.
fn told(mode: Mode) -> (Vec<(Time, Input)>, Ending) {
    let start = StartTimes { latest: at(5), earliest: at(0) };
    let inputs = vec![queue(Some(at(5)))];
    let scenario = Scenario { inputs, policy: Policy::default(), start, mode };
    let mut seen = Vec::new();
    let played = play(scenario, &Progress::default(), &mut |now, inputs| {
        let of =
            |input: &Input| matches!(input, Input::ClusterQueue(_) | Input::ClusterQueueGone(_));
        seen.extend(inputs.into_iter().filter(of).map(|input| (now, input)));
        let mut output = quiet();
        match seen.last() {
            Some((_, Input::ClusterQueue(queue))) if queue.deleted.is_some() => {
                output.next_wake = Some(at(10));
                output.report.unused.extend((now >= at(10)).then(|| "q".into()));
                // A name that nothing bears is nobody's.
                output.report.unused.push("other".into());
            }
            _ => {}
        }
        output
    });
    (seen, played.ending)
}

#[test]
fn a_queue_is_deleted_at_its_time_and_goes_once_nobody_uses_it() {
    let (seen, ending) = told(Mode::Until(Deadline::After(Span::minutes(1))));
    let gone = Input::ClusterQueueGone("q".into());
    let want = [(at(0), queue(None)), (at(5), queue(Some(at(5)))), (at(10), gone)];
    assert_eq!((seen.as_slice(), ending), (&want[..], Ending::Settled));
}

#[test]
fn where_time_stands_still_it_is_being_deleted_from_the_start_and_stays_while_it_is_used() {
    let (seen, ending) = told(Mode::UntilStable);
    assert_eq!((seen.as_slice(), ending), (&[(at(5), queue(Some(at(5))))][..], Ending::Settled));
}
