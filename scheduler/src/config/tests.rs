//! Configuration files in, frozen configurations or every complaint out.

use capstan_core::model::input::CapacityType;
use capstan_core::money::MicroUsd;
use capstan_core::policy::{PodsReady, Requeuing, Reserving, Transformation, UnqueuedWorkloads};
use capstan_core::time::Span;

use super::*;

const HEAD: &str = "apiVersion: capstan.sh/v1alpha1\nkind: CapstanConfiguration\n";

fn good(rest: &str) -> Config {
    match read_config_text("c.yaml", &format!("{HEAD}{rest}")) {
        Ok(config) => config,
        Err(errors) => panic!("{errors:#?}"),
    }
}

fn complaints(text: &str) -> Vec<String> {
    match read_config_text("c.yaml", text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ReadError::to_string).collect(),
    }
}

#[test]
fn a_file_that_says_nothing_changes_nothing() {
    let (config, default) = (good(""), Config::default());
    assert_eq!(config.policy, default.policy);
    assert_eq!(config.scheduler_name, default.scheduler_name);
    assert_eq!(config.quota_apis, default.quota_apis);
    assert_eq!(config.prices, default.prices);
    assert!(config.policy.fair_sharing.is_none() && config.warnings.is_empty());
}

#[test]
fn every_part_reaches_its_place() {
    let config = good(
        "
schedulerName: batch
quotaApis: [kueue.x-k8s.io, capstan.sh]
unqueuedWorkloads: Hold
profiles:
  default: {cost: 0}
  tight: {packing: 100, gpuFit: 7, softTaints: 1}
prices:
- {instanceType: p4d.24xlarge, region: us-east-1, capacityType: on-demand, usdPerHour: 32.7726}
- {nodeLabels: {pool: own}, usdPerHour: '0.5'}
capacityTypes:
  labels: [{key: example.com/bought, values: {committed: reserved, cheap: spot}}]
  reservedUsdPerHour: 1
topology: {levels: [zone, rack, kubernetes.io/hostname]}
rules:
  nodeResourcesFit: {ignoredResources: [example.com/bbb], ignoredResourceGroups: [example.org]}
  nodeAffinity:
    addedAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [batch]}]}]
  podTopologySpread: {defaultingType: List, defaultConstraints: []}
featureGates: {TaintTolerationComparisonOperators: true}
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 30
leaderElection: {leaderElect: true, leaseDuration: 30s, renewDeadline: 20s}
clientConnection: {qps: 500, burst: 1000}
",
    );
    assert_eq!(&*config.scheduler_name, "batch");
    assert_eq!(config.quota_apis, [QuotaApi::Capstan, QuotaApi::Kueue]);
    let policy = &config.policy;
    assert_eq!(policy.unqueued, UnqueuedWorkloads::Hold);
    let tight = policy.profiles.get("tight").expect("tight");
    assert_eq!((tight.packing, tight.gpu_fit, tight.soft_taints, tight.cost), (100, 7, 1, 4));
    assert_eq!(policy.profiles.get("default").map(|weights| weights.cost), Some(0));
    assert_eq!(policy.levels.as_ref().map(Vec::len), Some(3));
    assert_eq!(&*policy.rules.ignored_resources[0], "example.com/bbb");
    assert_eq!(&*policy.rules.ignored_resource_groups[0], "example.org");
    assert_eq!(policy.rules.added_affinity.as_ref().map(|it| it.terms.len()), Some(1));
    assert!(policy.rules.toleration_comparison);
    assert_eq!((policy.backoff_first, policy.backoff_max), (Span::seconds(2), Span::seconds(30)));
    let prices = &config.prices;
    assert_eq!(prices.entries[0].per_hour, MicroUsd(32_772_600));
    assert_eq!(prices.entries[0].capacity_type, Some(CapacityType::OnDemand));
    assert_eq!(prices.entries[1].labels.len(), 1);
    assert_eq!(prices.capacity_labels[0].values.get("committed"), Some(&CapacityType::Reserved));
    assert_eq!(prices.reserved_per_hour, MicroUsd(1_000_000));
}

#[test]
fn every_mistake_is_said_at_once_with_its_path() {
    let text = format!(
        "{HEAD}
schedulerNam: x
quotaApis: [kueue]
profiles: {{default: {{cost: 101, speed: 1}}}}
prices: [{{usdPerHour: cheap}}, {{instanceType: a}}]
rules: {{nodeResourcesFit: {{ignoredResource: [a]}}, nodeFoo: {{}}}}
leaderElection: {{leaseDuration: 15}}
"
    );
    let at = "c.yaml, document 1, CapstanConfiguration: ";
    let mut want = [
        "leaderElection.leaseDuration: 15, where a text is needed; write it in quotes",
        "prices[0].usdPerHour: \"cheap\" is no quantity (try 16, 2.5, 64Gi)",
        "prices[1].usdPerHour: missing",
        "profiles.default.cost: 101 is above 100",
        "profiles.default.speed: unknown field",
        "quotaApis[0]: \"kueue\" is none of capstan.sh, kueue.x-k8s.io",
        "rules.nodeFoo: unknown field",
        "rules.nodeResourcesFit.ignoredResource: unknown field (did you mean ignoredResources?)",
        "schedulerNam: unknown field (did you mean schedulerName?)",
    ]
    .map(|one| format!("{at}{one}"));
    let mut found = complaints(&text);
    found.sort();
    want.sort();
    assert_eq!(found, want);
}

#[test]
fn what_must_hold_between_fields_is_said_at_once_too() {
    let text = format!(
        "{HEAD}
schedulerName: two words
quotaApis: []
prices: [{{usdPerHour: -1}}]
topology: {{levels: [zone, zone, '']}}
featureGates: {{GangSchedulin: true}}
podInitialBackoffSeconds: 20
podMaxBackoffSeconds: 10
leaderElection: {{leaseDuration: 5s}}
waitForPodsReady: {{timeout: -1s}}
"
    );
    let found = complaints(&text);
    assert_eq!(found.len(), 9, "{found:#?}");
    assert!(found.iter().any(|one| one.contains("(did you mean GangScheduling?)")));
}

#[test]
fn a_lease_that_no_api_server_would_hold_is_named() {
    for (text, want) in [
        (
            "leaderElection: {resourceName: 'A b'}",
            "leaderElection.resourceName: \"A b\" is no name",
        ),
        ("leaderElection: {resourceName: Capstan}", "has capitals"),
        ("leaderElection: {resourceNamespace: a.b}", "is no namespace"),
        ("schedulerName: My_own", "schedulerName: \"My_own\" is no name"),
    ] {
        let found = complaints(&format!("{HEAD}{text}\n"));
        assert!(found.len() == 1 && found[0].contains(want), "{text}: {found:?}");
    }
    let alone = "schedulerName: My_own\nleaderElection: {leaderElect: false}\n";
    assert_eq!(complaints(&format!("{HEAD}{alone}")), [] as [String; 0]);
}

#[test]
fn other_documents_are_no_configuration() {
    for (text, want) in [
        ("kind: CapstanConfiguration\n".to_owned(), "no configuration; it begins with"),
        ("apiVersion: v1\nkind: Pod\n".to_owned(), "no configuration; it begins with"),
        (format!("{HEAD}---\n{HEAD}"), "document 2: a second document"),
        ("a: [".to_owned(), "is no YAML"),
        (String::new(), "empty"),
        ("kind: List\nitems: []\n".to_owned(), "no document"),
    ] {
        let found = complaints(&text);
        assert!(found.len() == 1 && found[0].contains(want), "{text:?}: {found:?}");
    }
}

#[test]
fn fair_sharing_reaches_the_policy_with_kueues_defaults() {
    use capstan_core::policy::FairSharing;
    let (first, second) = ("LessThanOrEqualToFinalShare", "LessThanInitialShare");
    let with = |list: &str| format!("fairSharing: {{preemptionStrategies: [{list}]}}\n");
    for (text, wanted) in [
        ("fairSharing: {}\n".to_owned(), Some(FairSharing::FinalThenInitial)),
        ("fairSharing: {enable: true}\n".to_owned(), Some(FairSharing::FinalThenInitial)),
        ("fairSharing: {enable: false}\n".to_owned(), None),
        (with(first), Some(FairSharing::FinalShare)),
        (with(second), Some(FairSharing::InitialShare)),
        (with(&format!("{first}, {second}")), Some(FairSharing::FinalThenInitial)),
    ] {
        let config = good(&text);
        assert_eq!(config.policy.fair_sharing, wanted, "{text}");
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    }
    for list in [format!("{second}, {first}"), format!("{first}, {first}")] {
        let found = complaints(&format!("{HEAD}{}", with(&list)));
        let says = "fairSharing.preemptionStrategies: use LessThanOrEqualToFinalShare";
        assert!(found.len() == 1 && found[0].contains(says), "{list}: {found:?}");
    }
}

#[test]
fn what_counts_against_quota_reaches_the_policy() {
    let config = good(
        "resources:\n  excludeResourcePrefixes: [example.com/]\n  \
         quotaCheckStrategy: IgnoreUndeclared\n  \
         transformations:\n  - {input: a, strategy: Replace, multiplyBy: b, \
         outputs: {cpu: 500m, c: -2}}\n  - {input: b}\n",
    );
    for strategy in ["BlockUndeclared", "Required"] {
        let config = good(&format!("resources: {{quotaCheckStrategy: {strategy}}}\n"));
        assert!(!config.policy.quota.ignore_undeclared, "{strategy}");
    }
    let quota = &config.policy.quota;
    assert!(quota.ignore_undeclared);
    assert_eq!((quota.counts("example.com/gpu"), quota.counts("cpu")), (false, true));
    let transformation = |input: &str, replaces, by: Option<&str>, outputs| Transformation {
        input: input.into(),
        replaces,
        multiply_by: by.map(Into::into),
        outputs,
    };
    let outputs = vec![("c".into(), -2_000_000_000), ("cpu".into(), 500_000_000)];
    let want = [
        transformation("a", true, Some("b"), outputs),
        transformation("b", false, None, Vec::new()),
    ];
    assert_eq!(quota.transformations, want);
    assert!(config.warnings.is_empty());
}

#[test]
fn transformations_that_say_two_things_or_none_are_refused() {
    let found = complaints(&format!(
        "{HEAD}resources: {{transformations: [{{input: a}}, {{input: a, multiplyBy: ''}}, \
         {{input: ''}}, {{input: pods, multiplyBy: pods, outputs: {{pods: 1, '': 1}}}}, \
         {{input: b, outputs: {{capstan.sh/usd-per-hour: 2}}}}]}}\n"
    ));
    let told = [
        "[1].input: a is transformed twice; put its outputs together",
        "[1].multiplyBy: empty",
        "[2].input: empty; name a resource",
        "[3].input: pods are counted one by one; name another resource",
        "[3].multiplyBy: pods are counted",
        "[3].outputs: an empty name",
        "[3].outputs.pods: pods are counted",
        "[4].outputs[\"capstan.sh/usd-per-hour\"]: money is what nodes cost",
    ];
    for says in told {
        let says = format!("resources.transformations{says}");
        assert!(found.iter().any(|one| one.contains(&says)), "{says}: {found:?}");
    }
    assert_eq!(found.len(), told.len(), "{found:?}");
}

#[test]
fn wrong_types_do_not_hide_wrong_values() {
    let found = complaints(&format!(
        "{HEAD}unqueuedWorkloads: Maybe\nprices: [{{instanceType: x, usdPerHour: -3}}]\n\
         topology: {{levels: [a, a], colour: red}}\n"
    ));
    let named = |path: &str| found.iter().filter(|one| one.contains(path)).count();
    let paths = ["unqueuedWorkloads", "prices[0].usdPerHour", "topology.colour", "topology.levels"];
    assert_eq!(paths.map(named), [1, 1, 1, 1], "{found:?}");
    // What stands beside a wrong entry of a list cannot be judged without it.
    let found = complaints(&format!("{HEAD}prices: [7]\npodMaxBackoffSeconds: 0\n"));
    assert!(found.len() == 2, "{found:?}");
}

#[test]
fn claims_have_as_long_as_the_configuration_says() {
    let timeout = |seconds: &str| {
        let rules = format!("rules: {{volumeBinding: {{bindTimeoutSeconds: {seconds}}}}}\n");
        good(&rules).policy.volume_timeout
    };
    assert_eq!([timeout("30"), timeout("0")], [Span::seconds(30), Span::seconds(600)]);
    assert!(timeout("9223372036854775807") > Span::seconds(600));
    let text = format!("{HEAD}rules: {{volumeBinding: {{bindTimeoutSeconds: -1}}}}\n");
    let complaints = complaints(&text);
    let told = "rules.volumeBinding.bindTimeoutSeconds: -1 is below zero";
    assert!(complaints.len() == 1 && complaints[0].contains(told), "{complaints:?}");
}

#[test]
fn devices_have_as_long_as_the_configuration_says() {
    let timeout = |rules: &str| {
        let rules = format!("rules: {{dynamicResources: {{{rules}}}}}\n");
        good(&rules).policy.device_timeout
    };
    assert_eq!(timeout("bindingTimeout: 90s, filterTimeout: 10s"), Span::seconds(90));
    assert_eq!([timeout("bindingTimeout: 0s"), timeout("")], [Span::seconds(600); 2]);
    let text = format!("{HEAD}rules: {{dynamicResources: {{bindingTimeout: -1s}}}}\n");
    let complaints = complaints(&text);
    let told = "rules.dynamicResources.bindingTimeout: below zero";
    assert!(complaints.len() == 1 && complaints[0].contains(told), "{complaints:?}");
}

#[test]
fn a_lease_is_renewed_with_pauses() {
    for period in ["0s", "0ms"] {
        let text = format!("{HEAD}leaderElection: {{retryPeriod: {period}}}\n");
        let complaints = complaints(&text);
        let told = "leaderElection.retryPeriod: must be a millisecond or more";
        assert!(complaints.len() == 1 && complaints[0].contains(told), "{complaints:?}");
    }
    good("leaderElection: {retryPeriod: 500ms}\n");
}

#[test]
fn pods_come_up_as_kueue_has_it() {
    let ready = |fields: &str| good(&format!("waitForPodsReady: {{{fields}}}\n")).policy.pods_ready;
    let requeuing = Requeuing {
        behind: true,
        base: Span::seconds(60),
        longest: Span::seconds(3_600),
        limit: None,
    };
    let (timeout, recovery) = (Span::minutes(5), Some(Span::minutes(5)));
    let usual = PodsReady { timeout, recovery, blocks_admission: false, requeuing };
    assert_eq!([ready(""), ready("enable: true")], [Some(usual); 2]);
    assert_eq!([ready("enable: false, timeout: 1m"), good("").policy.pods_ready], [None; 2]);
    let timeout = Span::minutes(1);
    let short = PodsReady { timeout, recovery: Some(timeout), ..usual };
    assert_eq!(ready("timeout: 1m"), Some(short));
    assert_eq!(
        ready("timeout: 1m, recoveryTimeout: 0s"),
        Some(PodsReady { recovery: None, ..short })
    );
    let all = "blockAdmission: true, requeuingStrategy: {timestamp: Creation, \
               backoffLimitCount: 3, backoffBaseSeconds: 10, backoffMaxSeconds: 20}";
    let base = Span::seconds(10);
    let requeuing = Requeuing { behind: false, base, longest: Span::seconds(20), limit: Some(3) };
    assert_eq!(ready(all), Some(PodsReady { blocks_admission: true, requeuing, ..usual }));
    assert_eq!(good(&format!("waitForPodsReady: {{{all}}}\n")).warnings, []);
    for (fields, told) in [
        ("timeout: 0s", "waitForPodsReady.timeout: no pod is ready at once"),
        (
            "requeuingStrategy: {backoffMaxSeconds: 59}",
            "requeuingStrategy.backoffMaxSeconds: 59 is below backoffBaseSeconds (60)",
        ),
    ] {
        let found = complaints(&format!("{HEAD}waitForPodsReady: {{{fields}}}\n"));
        assert!(found.len() == 1 && found[0].contains(told), "{found:?}");
    }
}

#[test]
fn starts_are_reserved_unless_that_is_switched_off() {
    let reserving =
        |fields: &str| good(&format!("reservations: {{{fields}}}\n")).policy.reservations;
    assert_eq!([reserving(""), reserving("enable: true")], [Some(Reserving::default()); 2]);
    assert_eq!(reserving("enable: false, maxReserved: 3"), None);
    let learns = Some(Reserving { most: 3, learns: true });
    assert_eq!(reserving("maxReserved: 3, learnRunTimes: true"), learns);
    let found = complaints(&format!("{HEAD}reservations: {{maxReserved: 0}}\n"));
    assert!(found.len() == 1 && found[0].contains("maxReserved"), "{found:?}");
}
