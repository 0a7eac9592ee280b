//! What the engine tells of workloads, and what it shows of one that is asked for by name.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Inactive;
use capstan_core::explain::view::FIRST_PODS;
use capstan_core::model::input::{
    Input, OwnerEnd, OwnerFacts, PodFacts, PodPhase, PreemptWithin, Price, PriceSource,
    QueueingStrategy, Roles, Wishes,
};
use capstan_core::money::MicroUsd;
use capstan_core::plan::{Action, EffectResult, State, StepOutput, WorkloadStatus};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, cohort, flavor, gang, group, in_queue, job, local_queue,
    namespace, node, nominal, pod, pods_of, shape, text,
};
use capstan_tests::hand::{binds, bound, evicted};

const NOW: Time = Time(1_000_000);

fn gpu_node(name: &str, gpus: i64) -> Input {
    Input::Node(node(name, &[("cpu", 64_000), (GPU, gpus)]).into())
}

fn one_queue(gpus: i64) -> Vec<Input> {
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::ClusterQueue(cluster_queue(
            "main",
            None,
            group(&[(DEFAULT, &[(GPU, nominal(gpus))])]),
        )),
        Input::LocalQueue(local_queue("main")),
    ]
}

fn told(output: &StepOutput) -> Vec<&WorkloadStatus> {
    let mut told = Vec::new();
    for effect in &output.effects {
        if let Action::Status(status) = &effect.action {
            told.push(&**status);
        }
    }
    told
}

fn states(output: &StepOutput) -> Vec<(String, State)> {
    told(output).iter().map(|status| (status.name.to_string(), status.state)).collect()
}

/// Reason and words of every event.
fn events(output: &StepOutput) -> Vec<(&str, &str)> {
    let said = output.effects.iter().filter_map(|effect| match &effect.action {
        Action::Event { reason, message, .. } => Some((&**reason, &**message)),
        _ => None,
    });
    said.collect()
}

/// The outcome of every effect, and every bound pod as the API then shows it.
fn confirmed(output: &StepOutput, pods: &[PodFacts], phase: PodPhase) -> Vec<Input> {
    let mut news = Vec::new();
    for effect in &output.effects {
        news.push(Input::Outcome { effect: effect.id, result: EffectResult::Done });
        if let Action::Bind { pod, node, note } = &effect.action {
            let mut facts = pods.iter().find(|known| known.uid == pod.uid).expect("known").clone();
            (facts.node, facts.phase) = (Some(node.clone()), phase);
            facts.binding = Some(note.clone().into());
            news.push(Input::Pod(facts));
        }
    }
    news
}

fn fed(ground: Vec<Input>, pods: &[PodFacts]) -> Vec<Input> {
    ground.into_iter().chain(pods.iter().cloned().map(Input::Pod)).collect()
}

#[test]
fn a_gang_is_told_once_a_step_when_it_is_admitted_and_when_it_runs() {
    let mut engine = Engine::new();
    let pods = gang("g", 3, Some(3), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let ground = one_queue(8).into_iter().chain([gpu_node("n", 8)]).collect();
    let first = engine.step(NOW, fed(ground, &pods));
    assert_eq!(states(&first), [("g".to_owned(), State::Binding)]);
    let bound = engine.step(NOW, confirmed(&first, &pods, PodPhase::Pending));
    assert_eq!(states(&bound), [("g".to_owned(), State::Running)]);
    let details = engine.details(&text(TEAM), &text("g")).expect("it is there");
    assert_eq!((details.started, details.placed, details.members), (false, 3, 3));
    let started = engine.step(NOW, confirmed(&first, &pods, PodPhase::Running));
    assert_eq!(states(&started), [("g".to_owned(), State::Running)], "its pods have started");
    assert!(engine.details(&text(TEAM), &text("g")).expect("it is there").started);
    let again = engine.step(NOW, confirmed(&first, &pods, PodPhase::Running));
    assert_eq!(states(&again), [], "nothing changed");
}

#[test]
fn a_pod_of_its_own_is_told_only_once_it_has_waited() {
    let mut engine = Engine::new();
    let gpu = shape(&[(GPU, 1)]);
    let pods = [pod("quick", &gpu, &in_queue(None)), pod("slow", &gpu, &in_queue(None))];
    let first = engine.step(NOW, fed(vec![gpu_node("n", 1)], &pods));
    let waits = told(&first);
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert_eq!((&*waits[0].name, waits[0].state), ("slow", State::Queued));
    assert!(waits[0].reason.is_some());
    let details = engine.details(&text(TEAM), &text("slow")).expect("it waits");
    assert!(details.lone);
    assert_eq!(details.waiting.len(), 1);
    assert_eq!(details.first_pods, details.waiting);
    let mut more = confirmed(&first, &pods, PodPhase::Running);
    more.push(gpu_node("n2", 1));
    let placed = engine.step(NOW, more);
    assert_eq!(states(&placed), [("slow".to_owned(), State::Binding)], "it waits no more");
}

#[test]
fn work_without_an_owner_names_the_first_of_its_pods_and_a_job_one() {
    let mut engine = Engine::new();
    let gpu = shape(&[(GPU, 1)]);
    let mut pods = gang("g", 20, Some(19), &gpu, &in_queue(None));
    pods[0].terminating = true;
    let mut owner = job("j", 4, &gpu, &in_queue(None));
    owner.suspended = false;
    let all = [pods.clone(), pods_of(&owner)].concat();
    engine.step(NOW, fed(vec![gpu_node("n", 1), Input::Owner(owner)], &all));
    let named = |of: &str| engine.details(&text(TEAM), &text(of)).expect("it is there").first_pods;
    assert_eq!((named("g").len(), named("j").len()), (FIRST_PODS, 1));
    assert!(named("g").iter().all(|pod| pod.uid != pods[0].uid), "who goes is named last");
}

#[test]
fn who_comes_before_an_equal_that_was_refused_says_what_that_one_met() {
    let mut engine = Engine::new();
    let three = |name: &str| gang(name, 3, Some(3), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let pods = [three("m"), three("z")].concat();
    let ground = one_queue(2).into_iter().chain([gpu_node("n", 8)]).collect();
    engine.step(NOW, fed(ground, &pods));
    let why = |engine: &Engine, name: &str| {
        let details = engine.details(&text(TEAM), &text(name)).expect("it waits");
        details.view.reason.expect("it says why").to_string()
    };
    let refused = why(&engine, "m");
    assert!(refused.contains("3 asked"), "{refused}");
    assert_eq!(why(&engine, "z"), refused);
    // Created in the same second, and before the others by its uid.
    engine.step(NOW, fed(Vec::new(), &three("a")));
    for name in ["a", "m", "z"] {
        assert_eq!(why(&engine, name), refused, "{name}");
    }
}

#[test]
fn all_that_waits_is_found_page_by_page_whoever_was_looked_at() {
    let mut engine = Engine::new();
    let gpu = shape(&[(GPU, 1)]);
    let pods: Vec<PodFacts> =
        (0..10).map(|n| pod(&format!("p{n}"), &gpu, &in_queue(None))).collect();
    let first = engine.step(NOW, fed(vec![gpu_node("n", 1)], &pods));
    assert_eq!(told(&first).len(), 1, "equal work is looked at once");
    let (mut mark, mut found, mut pages) = (Some(0), Vec::new(), 0);
    while let Some(from) = mark {
        let (page, next) = engine.details_from(from, 4);
        assert!(page.len() <= 4);
        assert!(page.iter().all(|one| one.view.reason.is_some()), "{page:?}");
        found.extend(page.into_iter().map(|one| one.view.name.to_string()));
        (mark, pages) = (next, pages + 1);
    }
    found.sort();
    assert_eq!(found.len(), 9, "the tenth is being bound, and never waited: {found:?}");
    assert_eq!(pages, 3);
    assert_eq!(engine.names().len(), 10);
}

#[test]
fn the_victim_and_its_preemptor_name_each_other() {
    let mut engine = Engine::new();
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(2))])]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let mut ground = one_queue(2);
    ground[2] = Input::ClusterQueue(queue);
    ground.push(gpu_node("n", 2));
    let gpus = shape(&[(GPU, 2)]);
    let low = [pod("low", &gpus, &in_queue(Some("main")))];
    let first = engine.step(NOW, fed(ground, &low));
    engine.step(NOW, confirmed(&first, &low, PodPhase::Running));
    let mut high = pod("high", &gpus, &in_queue(Some("main")));
    high.priority = 100;
    let output = engine.step(NOW.plus(Span::seconds(1)), vec![Input::Pod(high)]);
    let mut seen = states(&output);
    seen.sort();
    let want = [("high".to_owned(), State::Reserved), ("low".to_owned(), State::Evicting)];
    assert_eq!(seen, want);
    let high = engine.details(&text(TEAM), &text("high")).expect("it waits");
    assert_eq!(high.victims, [text("team/low")]);
    let low = engine.details(&text(TEAM), &text("low")).expect("it leaves").view.preempted;
    assert_eq!(low.expect("it was preempted").preemptor, text("team/high"));
}

/// One of two of a role begins: the first once `low` leaves, the second where room came free, which
/// a head before it takes in the same round.
#[test]
fn who_waits_for_victims_goes_on_to_do_so_after_a_try_without_them() {
    let queue = |name: &str| {
        let quota = [("x", nominal(9)), ("y", nominal(9))];
        let mut queue = cluster_queue(name, None, group(&[(DEFAULT, &quota)]));
        queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
        [Input::ClusterQueue(queue), Input::LocalQueue(local_queue(name))]
    };
    let one = |name: &str, kind: &str, priority: i32, queue: &str| PodFacts {
        priority,
        ..pod(name, &shape(&[(kind, 1)]), &in_queue(Some(queue)))
    };
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[]))];
    facts.extend(queue("main").into_iter().chain(queue("other")));
    facts.extend([Input::Node(node("n-x", &[("x", 1)]).into())]);
    facts.extend([Input::Node(node("n-y", &[("y", 1)]).into())]);
    facts.extend([bound(&one("low", "x", -1, "main"), "n-x")]);
    facts.extend([bound(&one("busy", "y", 0, "other"), "n-y")]);
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let mut crew = gang("g", 2, Some(1), &shape(&[("x", 1)]), &in_queue(Some("main")));
    crew[1].shape = shape(&[("y", 1)]);
    let least = Arc::new([(text("a"), 1)].into());
    let role = Arc::new(Roles { own: Some(text("a")), least, replica: None });
    crew.iter_mut().for_each(|member| member.gang.roles = Some(role.clone()));
    let output = engine.step(NOW, fed(Vec::new(), &crew));
    assert_eq!(evicted(&output), ["low"]);
    let waiting = |engine: &Engine| -> Vec<String> {
        let details = engine.details(&text(TEAM), &text("g")).expect("it waits");
        details.waiting.iter().map(|pod| pod.name.to_string()).collect()
    };
    assert_eq!(waiting(&engine), ["g-0"]);
    let head = one("head", "y", 10, "other");
    let output = engine.step(NOW, vec![Input::PodGone(text("busy")), Input::Pod(head)]);
    assert_eq!(binds(&output), [("head".to_owned(), "n-y".to_owned())]);
    assert_eq!(waiting(&engine), ["g-0"]);
    engine.recount();
    let output = engine.step(NOW, vec![Input::PodGone(text("low"))]);
    assert_eq!(binds(&output), [("g-0".to_owned(), "n-x".to_owned())]);
    engine.recount();
}

#[test]
fn a_name_is_told_gone_only_when_nobody_bears_it() {
    let mut engine = Engine::new();
    let gpu = shape(&[(GPU, 1)]);
    let lone = pod("lone", &gpu, &in_queue(None));
    let mut owner = job("train", 2, &gpu, &in_queue(Some("main")));
    owner.suspended = true;
    let mut facts = one_queue(8);
    facts.extend([Input::Pod(lone.clone()), Input::Owner(owner.clone())]);
    assert_eq!(engine.step(NOW, facts).report.gone, []);
    // Another run of the same owner bears its name.
    owner.incarnation += 1;
    assert_eq!(engine.step(NOW, vec![Input::Owner(owner.clone())]).report.gone, []);
    assert!(engine.details(&text(TEAM), &text("train")).is_some());
    let gone = engine.step(NOW, vec![Input::OwnerGone(owner.uid), Input::PodGone(lone.uid)]);
    assert_eq!(gone.report.gone, [(text(TEAM), text("lone")), (text(TEAM), text("train"))]);
    assert_eq!(engine.details(&text(TEAM), &text("train")), None);
}

#[test]
fn runs_of_one_owner_share_its_name_and_the_last_bears_it() {
    let mut engine = Engine::new();
    let mut owner = job("train", 1, &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    owner.suspended = false;
    let mut old = pods_of(&owner).remove(0);
    (old.node, old.phase) = (Some(text("n")), PodPhase::Running);
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), Input::Owner(owner.clone()), Input::Pod(old.clone())]);
    engine.step(NOW, facts);
    // It is suspended; the pod of the run that ended is still leaving, which is news of it.
    (owner.suspended, owner.incarnation) = (true, 1);
    let mut outputs = vec![engine.step(NOW, vec![Input::Owner(owner)])];
    old.terminating = true;
    outputs.push(engine.step(NOW, vec![Input::Pod(old.clone())]));
    let both = engine.names();
    assert_eq!(both, [(text(TEAM), text("train")), (text(TEAM), text("train"))]);
    let details = engine.details(&text(TEAM), &text("train")).expect("it is there");
    assert_eq!(details.view.state, State::Queued, "the last run is what people look at");
    let (page, _) = engine.details_from(0, 9);
    let page: Vec<State> = page.iter().map(|one| one.view.state).collect();
    assert_eq!(page, [State::Queued], "nobody is shown what the run before it does");
    outputs.push(engine.step(NOW, vec![Input::PodGone(old.uid)]));
    let train = |output: &StepOutput| told(output).iter().all(|told| &*told.name == "train");
    assert!(outputs.iter().all(train), "{outputs:?}");
    assert!(outputs.iter().all(|output| output.report.gone.is_empty()), "{outputs:?}");
    let details = engine.details(&text(TEAM), &text("train")).expect("it is there");
    assert_eq!(details.view.state, State::Resuming);
}

#[test]
fn a_name_stays_with_its_work_when_a_plainer_one_comes_free() {
    let mut engine = Engine::new();
    let gpu = shape(&[(GPU, 1)]);
    let first = pod("twin", &gpu, &in_queue(None));
    let mut owner = job("twin", 2, &gpu, &in_queue(Some("main")));
    owner.created = Time(5);
    let mut facts = one_queue(8);
    facts.extend([Input::Pod(first.clone()), Input::Owner(owner.clone())]);
    let both = engine.step(NOW, facts);
    assert!(states(&both).iter().any(|(name, _)| name == "twin-job"), "{:?}", states(&both));
    let left = engine.step(NOW, vec![Input::PodGone(first.uid.clone())]);
    assert_eq!(left.report.gone, [(text(TEAM), text("twin"))]);
    owner.priority = 7;
    let changed = engine.step(NOW, vec![Input::Owner(owner.clone())]);
    assert_eq!(engine.names(), [(text(TEAM), text("twin-job"))]);
    assert_eq!(changed.report.gone, []);
    // Who is older has the plain name, whoever is seen first.
    let mut engine = Engine::new();
    engine.step(NOW, one_queue(8).into_iter().chain([Input::Owner(owner)]).collect());
    assert_eq!(engine.names(), [(text(TEAM), text("twin"))]);
    let both = engine.step(NOW, vec![Input::Pod(first)]);
    assert!(states(&both).iter().any(|(name, _)| name == "twin-job"), "{:?}", states(&both));
    assert_eq!(both.report.gone, []);
}

/// It was deleted and made again while its pods were leaving: people mean the new one by its name,
/// and whoever leads next calls it so.
#[test]
fn who_is_made_anew_has_the_name_and_not_what_is_left_of_the_one_before() {
    let gpu = shape(&[(GPU, 1)]);
    let made = |uid: &str, created| {
        let owner = job("train", 1, &gpu, &in_queue(Some("main")));
        OwnerFacts { uid: text(uid), created: Time(created), ..owner }
    };
    let old = OwnerFacts { suspended: false, ..made("old", 1) };
    let left = bound(&pods_of(&old)[0], "n");
    let new = made("new", 2);
    let called = |engine: &Engine| {
        let owner = |name: &str| engine.details(&text(TEAM), &text(name))?.owner;
        (owner("train").map(|owner| owner.uid), engine.names())
    };
    let both = [(text(TEAM), text("train")), (text(TEAM), text("train-job"))];
    let mut ground = one_queue(8);
    ground.push(gpu_node("n", 8));
    let mut engine = Engine::new();
    engine.step(NOW, [ground.clone(), vec![Input::Owner(old), left.clone()]].concat());
    engine.step(NOW, vec![Input::OwnerGone(text("old"))]);
    engine.step(NOW, vec![Input::Owner(new.clone())]);
    assert_eq!(called(&engine), (Some(text("new")), both.to_vec()));
    engine.step(NOW, vec![Input::PodGone(text("train-0"))]);
    let mut anew = Engine::new();
    anew.step(NOW, [ground, vec![left, Input::Owner(new)]].concat());
    assert_eq!(called(&anew), (Some(text("new")), both.to_vec()));
}

/// Its object stays for as long as it goes on: what it has cost so far stands there.
#[test]
fn an_owner_that_has_no_pods_for_now_is_not_gone() {
    let mut owner = job("train", 1, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    owner.suspended = false;
    let name = [(text(TEAM), text("train"))];
    let pods = pods_of(&owner);
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Owner(owner.clone()), bound(&pods[0], "n")]);
    let mut engine = Engine::new();
    let first = engine.step(NOW, facts.clone());
    assert_eq!((first.report.gone, first.report.podless), (vec![], vec![]));
    let lost = [Input::NodeGone(text("n")), Input::PodGone(pods[0].uid.clone())];
    let output = engine.step(NOW, lost.into());
    assert_eq!((output.report.gone, output.report.podless), (vec![], name.to_vec()));
    assert_eq!(engine.names(), name, "whoever deletes what nobody stands for leaves it");
    // It is told once, whatever else is said of the owner.
    owner.ended += 1;
    let output = engine.step(NOW, vec![Input::Owner(owner.clone())]);
    assert!(!output.report.gone.contains(&name[0]), "{:?}", output.report.gone);
    assert_eq!(output.report.podless, []);
    // Others come, and go with their owner.
    let output = engine.step(NOW, vec![Input::Pod(pods[0].clone())]);
    assert_eq!((output.report.gone, output.report.podless), (vec![], vec![]));
    let output = engine.step(NOW, vec![Input::PodGone(pods[0].uid.clone())]);
    assert_eq!(output.report.podless, name);
    let output = engine.step(NOW, vec![Input::OwnerGone(owner.uid.clone())]);
    assert_eq!((output.report.gone, engine.names()), (name.to_vec(), vec![]));
    // A new engine meets it without pods.
    facts.pop();
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    assert_eq!((output.report.podless, engine.names()), (name.to_vec(), name.to_vec()));
    // Who is none of ours any more has no object of ours.
    owner.ours = false;
    let output = engine.step(NOW, vec![Input::Owner(owner)]);
    assert_eq!((output.report.gone, engine.names()), (name.to_vec(), vec![]));
}

/// A Job that was stopped holds its quota until its pods have left, and waits from then on.
#[test]
fn a_job_whose_pods_are_leaving_is_counted_once() {
    let mut engine = Engine::new();
    let mut owner = job("train", 1, &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    owner.suspended = false;
    let old = pods_of(&owner).remove(0);
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), Input::Owner(owner.clone()), bound(&old, "n")]);
    engine.step(NOW, facts);
    let counted = |engine: &Engine| {
        let (queue, local) = (engine.queues().remove(0), engine.local_queues().remove(0));
        let tally = engine.census(false).queues.remove(&text("main")).expect("it is there");
        let (waits, why) = (tally.active + tally.inadmissible, tally.why.values().sum::<u32>());
        let of_tally = [(waits, tally.admitted), (why, tally.admitted)];
        [(queue.pending, queue.admitted), (local.pending, local.admitted), of_tally[0], of_tally[1]]
    };
    assert_eq!(counted(&engine), [(0, 1); 4]);
    (owner.suspended, owner.incarnation) = (true, 1);
    engine.step(NOW, vec![Input::Owner(owner)]);
    assert_eq!(counted(&engine), [(0, 1); 4], "its pod is there");
    engine.step(NOW, vec![Input::NodeGone(text("n")), Input::PodGone(old.uid)]);
    assert_eq!(counted(&engine), [(1, 0); 4]);
}

#[test]
fn a_local_queue_shows_what_waits_in_it_and_what_it_holds() {
    let mut engine = Engine::new();
    let gpus = shape(&[(GPU, 2)]);
    let pods: Vec<PodFacts> =
        (0..3).map(|n| pod(&format!("p{n}"), &gpus, &in_queue(Some("main")))).collect();
    let ground = one_queue(4).into_iter().chain([gpu_node("n", 8)]).collect();
    engine.step(NOW, fed(ground, &pods));
    let queues = engine.local_queues();
    assert_eq!(queues.len(), 1);
    let queue = &queues[0];
    assert_eq!((queue.pending, queue.admitted, &queue.inactive), (1, 2, &None));
    assert_eq!(queue.used[&(text(DEFAULT), text(GPU))], 4);
    assert_eq!(engine.queues()[0].pending, 1);
    engine.step(NOW, vec![Input::ClusterQueueGone(text("main"))]);
    let queue = &engine.local_queues()[0];
    assert_eq!(queue.inactive.as_ref().map(|why| why.code()), Some("Misconfigured"));
    assert_eq!((queue.pending, queue.admitted), (1, 0), "what runs charges a queue that is gone");
}

/// What waits at the head of a strict queue is looked at in every step; as long as nothing comes
/// free, it goes through its flavors once, and its reason is not told again and again.
#[test]
fn a_strict_head_comes_to_rest() {
    let flavors = group(&[("first", &[(GPU, nominal(4))]), ("second", &[(GPU, nominal(2))])]);
    let mut queue = cluster_queue("main", None, flavors);
    queue.strategy = QueueingStrategy::StrictFifo;
    let mut members = gang("g", 2, None, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    // No group covers cpu: the first pod set goes from flavor to flavor in vain.
    members[1].shape = shape(&[(GPU, 1), ("cpu", 1_000)]);
    let mut facts = vec![namespace(), gpu_node("n", 8), Input::ClusterQueue(queue)];
    facts.extend(["first", "second"].map(|name| Input::Flavor(flavor(name, &[]))));
    facts.push(Input::LocalQueue(local_queue("main")));
    let mut engine = Engine::new();
    let mut news = fed(facts, &members);
    let mut steps = 0;
    while !news.is_empty() {
        let output = engine.step(NOW, news);
        assert!(output.report.quiet && steps < 4, "in step {steps}: {:?}", output.effects);
        news = confirmed(&output, &members, PodPhase::Running);
        steps += 1;
    }
}

#[test]
fn who_asks_about_a_pod_is_told_what_its_workload_waits_for() {
    let mut engine = Engine::new();
    let waits = pod("p", &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let ground = one_queue(2).into_iter().chain([gpu_node("n", 8)]).collect();
    engine.step(NOW, fed(ground, std::slice::from_ref(&waits)));
    let explained = engine.explain_pod(TEAM, "p").expect("it is there");
    assert!(explained.nodes[0].refusals.is_empty(), "the node would take it");
    assert_eq!(explained.waits.expect("it has no quota").code(), "ExceedsMaxQuota");
}

#[test]
fn what_is_asked_in_vain_is_said_once_each_and_never_without_end() {
    let mut engine = Engine::new();
    let asks = |ignored: &[&str]| {
        let ignored = ignored.iter().map(text).collect();
        let wishes = Wishes { ignored, ..Wishes::default() };
        vec![Input::Pod(pod("p", &shape(&[(GPU, 1)]), &Arc::new(wishes)))]
    };
    let first = engine.step(NOW, asks(&["a: no time"]));
    assert_eq!(events(&first), [("InvalidAnnotation", "a: no time")]);
    assert_eq!(events(&engine.step(NOW, asks(&["a: no time"]))), [], "once");
    // Another one that comes later is said by itself.
    let more = ["a: no time", "b: no count", "c: no list"];
    let second = engine.step(NOW, asks(&more));
    assert_eq!(events(&second), [("InvalidAnnotation", "b: no count; c: no list")]);
    assert_eq!(events(&engine.step(NOW, asks(&["c: no list"]))), [], "it was said");
    let mut said = 3;
    for round in 0..100 {
        let nonsense = format!("d: {round} is nothing");
        said += events(&engine.step(NOW, asks(&[&nonsense]))).len();
    }
    assert_eq!(said, 16, "whoever goes on is heard no more");
    // Its name is free for another.
    engine.step(NOW, vec![Input::PodGone(text("p"))]);
    assert_eq!(events(&engine.step(NOW, asks(&["a: no time"]))).len(), 1);
}

#[test]
fn how_an_owner_ended_is_told_when_it_is_known() {
    let mut engine = Engine::new();
    let gpu = shape(&[(GPU, 1)]);
    let job = OwnerFacts { suspended: false, ..job("j", 1, &gpu, &in_queue(None)) };
    let mut members = pods_of(&job);
    engine.step(NOW, vec![gpu_node("n", 1), Input::Owner(job.clone())]);
    let first = engine.step(NOW, fed(Vec::new(), &members));
    engine.step(NOW, confirmed(&first, &members, PodPhase::Running));
    (members[0].node, members[0].phase) = (Some(text("n")), PodPhase::Failed);
    let ended = engine.step(NOW, fed(Vec::new(), &members));
    assert_eq!(states(&ended), [("j".to_owned(), State::Finished)]);
    let end = |engine: &Engine| engine.details(&text(TEAM), &text("j")).expect("there").owner_end;
    assert_eq!(end(&engine), None);
    let why = OwnerEnd::Failed(Some(text("BackoffLimitExceeded")));
    let failed = OwnerFacts { finished: Some(why.clone()), ..job };
    let told = engine.step(NOW, vec![Input::Owner(failed.clone())]);
    assert_eq!(states(&told), [("j".to_owned(), State::Finished)], "that is news");
    assert_eq!(end(&engine), Some(why));
    assert_eq!(states(&engine.step(NOW, vec![Input::Owner(failed)])), []);
}

#[test]
fn cohorts_in_a_cycle_say_so_and_those_below_a_broken_one() {
    let mut engine = Engine::new();
    let mut broken = cohort("broken", None);
    broken.broken = vec![text("a rule")];
    let all = [
        cohort("left", Some("right")),
        cohort("right", Some("left")),
        broken,
        cohort("below", Some("broken")),
        cohort("sound", Some("named-only")),
    ];
    engine.step(NOW, all.into_iter().map(Input::Cohort).collect());
    let says = |engine: &Engine| -> Vec<(String, bool)> {
        let all = engine.cohorts().into_iter();
        all.map(|it| (it.name.to_string(), it.inactive.is_none())).collect()
    };
    let want =
        [("below", false), ("broken", false), ("left", false), ("right", false), ("sound", true)];
    assert_eq!(says(&engine), want.map(|(name, sound)| (name.to_owned(), sound)));
    let cycle = engine.cohorts().remove(2).inactive;
    assert!(matches!(cycle, Some(Inactive::CohortCycle(_))), "{cycle:?}");
    engine.step(NOW, vec![Input::Cohort(cohort("left", None))]);
    assert!(says(&engine)[2..].iter().all(|(_, sound)| *sound));
}

#[test]
fn a_queue_whose_flavor_lacks_its_topology_comes_back_with_that() {
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    let mut racked = flavor(DEFAULT, &[]);
    racked.topology = Some(text("racks"));
    facts.push(Input::Flavor(racked));
    let mut host = node("host", &[("cpu", 64_000), (GPU, 8)]);
    host.labels.insert(text("rack"), text("r1"));
    facts.extend([Input::Node(host.into()), gpu_node("bare", 8)]);
    facts.push(Input::Pod(pod("p", &shape(&[(GPU, 2)]), &in_queue(Some("main")))));
    engine.step(NOW, facts);
    let why = |engine: &Engine| engine.queues().remove(0).inactive.map(|why| why.to_string());
    let said = why(&engine).expect("it is inactive");
    assert!(said.contains("Topology racks"), "{said}");
    let levels = vec![text("rack")];
    let told = engine.step(NOW, vec![Input::Topology { name: text("racks"), levels }]);
    assert_eq!(why(&engine), None);
    let bound = told.effects.iter().filter_map(|effect| match &effect.action {
        Action::Bind { node, .. } => Some(node.to_string()),
        _ => None,
    });
    assert_eq!(bound.collect::<Vec<_>>(), ["host"], "the other node has no rack");
    engine.step(NOW, vec![Input::TopologyGone(text("racks"))]);
    assert!(why(&engine).is_some());
}

#[test]
fn a_queue_says_what_is_known_of_its_price_and_how_much_is_not() {
    let mut engine = Engine::new();
    let mut priced = node("priced", &[("cpu", 64_000), (GPU, 4)]);
    let per_hour = MicroUsd(8_000_000);
    priced.price = Some(Price { per_hour, source: PriceSource::Catalogue });
    let mut facts = one_queue(8);
    facts.extend([Input::Node(priced.into()), gpu_node("unpriced", 4)]);
    let one = |name: &str| pod(name, &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    facts.extend([bound(&one("a"), "priced"), bound(&one("b"), "unpriced")]);
    facts.push(bound(&one("c"), "unpriced"));
    engine.step(NOW, facts);
    let queues = engine.queues();
    let known = Some(MicroUsd(4_000_000));
    assert_eq!((queues[0].per_hour, queues[0].unpriced, queues[0].admitted), (known, 2, 3));
    let local = engine.local_queues();
    assert_eq!((local[0].per_hour, local[0].unpriced, local[0].admitted), (known, 2, 3));
    // What ended costs nothing, known or not.
    engine.step(NOW, ["b", "c"].map(|name| Input::PodGone(one(name).uid)).to_vec());
    let (queue, local) = (engine.queues().remove(0), engine.local_queues().remove(0));
    assert_eq!((queue.per_hour, queue.unpriced), (known, 0));
    assert_eq!((local.per_hour, local.unpriced), (known, 0));
    engine.step(NOW, vec![Input::PodGone(one("a").uid)]);
    assert_eq!(engine.queues()[0].per_hour, None);
}
