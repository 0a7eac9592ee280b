//! Expressions as device selectors have them, on one device.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

fn map(entries: Vec<(&str, Value)>, open: bool) -> Value {
    let entries = entries.into_iter().map(|(key, value)| (Key::Text(key.into()), value));
    Value::Map(Arc::new(Map { entries: entries.collect::<BTreeMap<_, _>>(), open }))
}

fn device() -> Value {
    let version = Value::Semver(Arc::new(Semver::parse("12.4.1", false).expect("a version")));
    let attributes = map(
        vec![
            ("model", Value::Text("A100-SXM4-80GB".into())),
            ("numa", Value::Int(1)),
            ("ecc", Value::Bool(true)),
            ("driverVersion", version),
        ],
        false,
    );
    let memory = Amount::parse("80Gi").expect("a quantity");
    map(
        vec![
            ("driver", Value::Text("gpu.example.com".into())),
            ("allowMultipleAllocations", Value::Bool(false)),
            ("attributes", map(vec![("gpu.example.com", attributes)], true)),
            (
                "capacity",
                map(
                    vec![(
                        "gpu.example.com",
                        map(vec![("memory", Value::Quantity(Arc::new(memory)))], false),
                    )],
                    true,
                ),
            ),
        ],
        false,
    )
}

fn run(text: &str) -> Result<Value, Fault> {
    evaluate(&parse(text)?, "device", device())
}

#[track_caller]
fn is(text: &str, expected: bool) {
    assert_eq!(run(text), Ok(Value::Bool(expected)), "{text}");
}

#[track_caller]
fn fails(text: &str, problem: &str) {
    let fault = run(text).expect_err(text).to_string();
    assert!(fault.contains(problem), "{text}: {fault}");
}

#[test]
fn selectors_read_driver_attributes_and_capacity() {
    is(r#"device.driver == "gpu.example.com""#, true);
    is(r#"device.attributes["gpu.example.com"].model.startsWith('A100')"#, true);
    is(r#"device.attributes["gpu.example.com"]["numa"] >= 1 && true"#, true);
    is(r#"device.attributes["gpu.example.com"].ecc"#, true);
    is(r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) > 0"#, true);
    is(r#"device.capacity["gpu.example.com"].memory.isLessThan(quantity("40Gi"))"#, false);
    is(r#"device.capacity["gpu.example.com"].memory == quantity("81920Mi")"#, true);
    let newer = r#"device.attributes["gpu.example.com"].driverVersion.isGreaterThan"#;
    is(&format!(r#"{newer}(semver("12.4.0"))"#), true);
    is(&format!(r#"{newer}(semver("v13", true))"#), false);
    is("device.allowMultipleAllocations", false);
}

#[test]
fn names_that_are_bound_stand_for_their_value() {
    let bound = r#"cel.bind(gpu, device.attributes["gpu.example.com"], gpu.ecc && gpu.numa == 1)"#;
    is(bound, true);
    is(r#"cel.bind(x, 1, cel.bind(x, x + 1, x == 2) && x == 1)"#, true);
    fails("cel.bind(1, 2, 3)", "cel.bind() needs");
    fails("cel.bind(x, 1, true) && x == 1", "x is not known");
    is("cel.bind(x, 1 / 0, true)", true);
}

#[test]
fn an_unknown_domain_is_empty_and_an_unknown_attribute_a_fault() {
    is(r#""other.example.com" in device.attributes"#, false);
    is(r#""gpu.example.com" in device.attributes"#, true);
    is(r#""x" in device.attributes["other.example.com"]"#, false);
    is(r#"has(device.attributes["other.example.com"].x)"#, false);
    is(r#"device.attributes["gpu.example.com"].?numa.orValue(0) == 1"#, true);
    is(r#"device.attributes["other.example.com"][?"x"].hasValue()"#, false);
    is(r#"device.attributes["gpu.example.com"].?numa.optMap(n, n + 1).orValue(0) == 2"#, true);
    fails(r#"device.attributes["gpu.example.com"].link"#, "no such key: link");
    fails(r#"device.attributes["other.example.com"].x == 1"#, "no such key: x");
}

#[test]
fn one_side_settles_what_the_other_cannot_say() {
    is("false && dyn(device).nothing", false);
    is("dyn(device).nothing && false", false);
    is("dyn(device).nothing || true", true);
    fails("dyn(device).nothing || false", "no such key");
    is("[1, 0].exists(x, 1 / x == 1)", true);
    is("[0, 1].exists(x, 1 / x == 1)", true);
    fails("[0, 2].exists(x, 1 / x == 1)", "division by zero");
    is("[0, 2].all(x, 1 / x == 1)", false);
}

#[test]
fn lists_and_texts_have_their_functions() {
    is("[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]", true);
    is("[1, 2, 3].filter(x, x % 2 == 1).sum() == 4", true);
    is("[1, 1].exists_one(x, x == 1)", false);
    is("device.attributes.exists(d, d.endsWith('.com'))", true);
    is("'a,b,,c'.split(',').size() == 4 && 'abc'.substring(1) == 'bc'", true);
    is("'A-100'.lowerAscii().replace('-', '') == 'a100'", true);
    is(r#"device.attributes["gpu.example.com"].model.matches("^[AH]100-.*80GB$")"#, true);
    is("[1, 3, 2].max() == 3 && [2, 1].min() == 1", true);
    is("sets.contains([1, 2], [2]) && !sets.intersects([1], [2])", true);
    is("dyn(1) == 1.0 && dyn(1u) == 1 && dyn('a') != 1 && {'a': 1}['a'] == 1", true);
    is("(true ? 1 : 2) == 1 && !(false) && -1 < 0 && 0x10 == 16", true);
    is(r#"'é\u00e9\n'.size() == 3 && r'\n'.size() == 2 // a remark"#, true);
    is(r#"device.attributes["gpu.example.com"].numa.includes(1)"#, true);
    is("[1, 2].includes(3) || ['a'].join('-') == 'b'", false);
}

#[test]
fn addresses_and_networks_have_their_functions() {
    is("cidr('10.0.0.0/8').containsIP('10.1.2.3')", true);
    is("cidr('10.0.0.0/8').containsIP(ip('11.1.2.3'))", false);
    is("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')", true);
    is("cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('::/64').prefixLength() == 64", true);
    is("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", true);
    is("isIP('::1') && !isIP('::ffff:1.2.3.4') && isCIDR('::/0') && !isCIDR('1.2.3.4')", true);
    is("ip('fe80::1').isLinkLocalUnicast() && ip('127.0.0.1').isLoopback()", true);
    is("ip('8.8.8.8').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()", true);
    is("ip('8.8.8.8').family() == 4 && string(ip('::0:1')) == '::1'", true);
    is("ip.isCanonical('::1') && !ip.isCanonical('0::1')", true);
    is("cel.bind(ip, 4, ip == 4)", true);
    fails("ip('10.0.0') == ip('10.0.0')", "\"10.0.0\" is no IP address");
    fails("ip('::1') < ip('::2')", "no such overload: IP < IP");
    fails("cidr('10.0.0.0/8').containsIP('x')", "is no IP address");
}

#[test]
fn what_is_wrong_is_said_and_nothing_panics() {
    fails("?!", "unexpected \"?\" at byte 0");
    fails("device.driver ==", "it ends too soon");
    fails("device.driver > 1", "no such overload: string > int");
    fails("1 + 'a'", "no such overload");
    fails("9223372036854775807 + 1 == 0", "too large");
    fails("'a' 'b'", "unexpected a string at byte 4");
    fails("'never ends", "does not end");
    fails("b'x'", "it is a bytes, not a bool");
    fails("google.protobuf.Duration{seconds: 1} == duration('1s')", "not supported");
    fails("'x'.matches('(')", "is no pattern");
    fails("quantity('1Xi') == quantity('1')", "is no quantity");
    fails("size(1) == 1", "no such overload: size(int)");
    fails("size(dyn(1)) == 1", "size() of a int");
    for text in ["", "(", ")", "a.", "[1,", "{1}", "'\\", "0x", "é", "-", "a.b(", "1 ? 2"] {
        assert!(run(text).is_err(), "{text}");
    }
}

#[test]
fn cost_length_and_nesting_are_bounded() {
    let ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let mut nested = "true".to_owned();
    for name in ["a", "b", "c", "d", "e", "f"] {
        nested = format!("{ten}.all({name}, {nested})");
    }
    fails(&nested, "it costs more than 1000000 steps");
    fails(&"(".repeat(5_000), "nested more than");
    fails(&"!".repeat(5_000), "it ends too soon");
    fails(&"-".repeat(5_000), "it ends too soon");
    fails(&vec!["1"; 1_000].join("+"), "too many terms");
    is(&vec!["true"; 1_000].join("&&"), true);
    fails(&format!("a{}", ".b".repeat(4_000)), "too many terms");
    fails(&" ".repeat(20_000), "longer than");
    let pattern = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
    is(&format!("'a'.matches('{}')", pattern(200)), true);
    fails(&format!("'a'.matches('{}')", pattern(300)), "is nested more than 250 deep");
    let doubled = "'x'.replace('', 'xxxxxxxxxxxxxxxxxxxx')";
    let grown = (0..20)
        .fold(doubled.to_owned(), |text, _| format!("{text}.replace('x', 'xxxxxxxxxxxxxxxxxxxx')"));
    fails(&format!("{grown} == ''"), "it costs more than");
    fails("lists.range(9223372036854775807) == []", "it costs more than");
    fails("lists.range(2000).distinct() == []", "it costs more than");
    fails("lists.range(2000).sortBy(x, -x) == []", "it costs more than");
    fails("'%.99999999f'.format([1.0]) == ''", "it costs more than");
}

#[test]
fn what_is_cheap_in_kubernetes_is_cheap_here() {
    let (l, each) = ("cel.bind(l, lists.range(1000), l.all(i,", "))");
    for text in [
        "l.size() == 1000",
        "size(l) > 1",
        "l != []",
        "l == l",
        "l.first().hasValue() && l.last().value() == 999 && l.slice(0, 1) == [0]",
    ] {
        is(&format!("{l} {text}{each}"), true);
    }
    is("cel.bind(l, lists.range(600), l.all(i, (l + l).size() == 1200))", true);
    is("lists.range(999980).size() > 0", true);
    let map = "cel.bind(m, lists.range(1000).transformMap(i, v, v), lists.range(1000)";
    is(&format!("{map}.all(i, m.size() == 1000))"), true);
    is(&format!("{map}.all(i, i in m))"), true);
    let text = format!("'a'{}", ".replace('a', 'aaaaaaaaaaaaaaaaaaaa')".repeat(3));
    for what in ["s.size() == 8000", "s.startsWith('a')", "s != 'b'"] {
        is(&format!("cel.bind(s, {text}, lists.range(1300).all(i, {what}))"), true);
    }
    // A loop that ends early looks at no more of a long list than it pays for.
    let long = "cel.bind(l, lists.range(300000), lists.range(20000).all(i,";
    is(&format!("{long} l.exists(x, x >= 0) && l.exists(at, x, at == x)))"), true);
    // What grows is paid for as it grows, and what is very long where it is looked through.
    let doubled: String = (0..40).map(|_| "cel.bind(l, l + l, ").collect();
    let ends = ")".repeat(40);
    fails(&format!("cel.bind(l, [1], {doubled}l.size() > 0{ends})"), "it costs more than");
    fails("lists.range(90000).map(x, x).size() > 0", "it costs more than");
    fails("lists.range(99000).all(x, [x].size() == 1)", "it costs more than");
}

#[test]
fn nesting_is_as_deep_as_in_kubernetes_and_no_stack_ends_before() {
    let around = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    is(&around("(", "true", ")", 249), true);
    fails(&around("(", "true", ")", 250), "nested more than 250 deep");
    is(&around("!(", "true", ")", 249), false);
    fails(&around("!(", "true", ")", 250), "nested more than 250 deep");
    is(&around("!dyn(", "true", ")", 249), false);
    is(&around("true && !dyn(", "false", ")", 249), true);
    // Each right side of a sum or of a relation is one more sum or relation.
    is(&format!("{} == 125", around("1 + (", "1", ")", 124)), true);
    fails(&format!("{} == 126", around("1 + (", "1", ")", 125)), "nested more than 250 deep");
    is(&format!("{} == 125", around("(", "1", " + 1)", 124)), true);
    is(&around("true == (", "true", ")", 124), true);
    fails(&around("true == (", "true", ")", 125), "nested more than 250 deep");
    fails(&format!("{} > 0", ["1"; 251].join("+")), "too many terms in a row");
    fails(&format!("'a'{} == 'a'", ".trim()".repeat(250)), "too many terms in a row");
    is(&format!("{} == 1", around("dyn(", "1", ")", 249)), true);
    is(&format!("{} != [] || true", around("[", "", "]", 250)), true);
    is(&format!("{}true", "false ? true : ".repeat(249)), true);
    is(&format!("{} > 0", ["1"; 250].join("+")), true);
    is(&format!("'a'{} == 'a'", ".trim()".repeat(249)), true);
    // Values as deep are written, compared and dropped; macros in each other go as deep.
    is(&format!("cel.bind(z, {}, z == z)", around("[", "1", "]", 240)), true);
    is(&format!("'%s'.format([{}]).size() > 0", around("[", "1", "]", 240)), true);
    let all: String = (0..249).map(|at| format!("[1].all(x{at}, ")).collect();
    is(&format!("{all}true{}", ")".repeat(249)), true);
    let maps = ".map(x, [x])".repeat(240);
    is(&format!("cel.bind(z, [1]{maps}, z == z && z.size() == 1)"), true);
    assert!(run(&format!("[1]{maps}")).is_err(), "it is refused, and what it may be is dropped");
}

#[test]
fn the_least_number_is_one_with_its_sign_only() {
    is("1 - -9223372036854775807 > 0 || true", true);
    is("0 in [-9223372036854775808] || -9223372036854775808 in [-9223372036854775808]", true);
    for text in ["1 - 9223372036854775808 == 1", "(1) -9223372036854775808 == 1"] {
        fails(text, "cannot be read");
    }
}

#[test]
fn signs_stand_in_any_number_before_a_member_and_never_before_each_other() {
    is(&format!("{}true", "!".repeat(5_000)), true);
    is(&format!("{}true", "!".repeat(5_001)), false);
    is("!!1 == 1 && ---1 == -1 && --1 == 1 && - -1 == 1 && 1 - - -1 == 0", true);
    fails("--'a' == 1", "no such overload: string == int");
    for text in ["!-dyn(1) || true", "-!dyn(true) == 1 || true", "--9223372036854775808 == 1"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_compared_and_sought_is_paid_for_as_deep_and_often_as_it_is_looked_at() {
    // A list of two that stands for 2^45 numbers is not paid for as two.
    let doubled = ".map(x, [x, x])".repeat(45);
    for use_of in [
        "z == z",
        "z != z",
        "z in [z]",
        "[z, z].distinct().size() == 1",
        "[z].indexOf(z) == 0",
        "[z].lastIndexOf(z) == 0",
        "sets.contains([z], [z])",
        "sets.equivalent([z], [z])",
        "{'a': z} == {'a': z}",
        "optional.of(z) == optional.of(z)",
    ] {
        fails(&format!("cel.bind(z, [1]{doubled}, {use_of})"), "it costs more than");
    }
    is(
        "cel.bind(z, [1].map(x, [x, x]), z == z && z in [z] && [z, z].distinct().size() == 1)",
        true,
    );
    // Patterns are paid for by what they are compiled to, once each; and what they look through.
    is("lists.range(9000).all(x, !'a'.matches('(?:a{0,30}){0,30}b'))", true);
    is("lists.range(12000).all(x, !'a'.matches('b'))", true);
    let many = "'(?:.{0,30}){0,30}' + string(x)";
    fails(&format!("lists.range(9000).all(x, !'a'.matches({many}))"), "it costs more than");
    fails(
        &format!(
            "cel.bind(s, 'A'{}, s.findAll('.*[^A-Z]|[A-Z]').size() > 0)",
            ".replace('A', 'AAAAAAAAAA')".repeat(5)
        ),
        "it costs more than",
    );
    is("'a1b22c333'.findAll('[0-9]+') == ['1', '22', '333']", true);
}

#[test]
fn what_can_never_be_is_refused_before_a_device_is_looked_at() {
    let refused = |text: &str, problem: &str| {
        let fault = parse(&format!("{text} || true")).expect_err(text).to_string();
        assert!(fault.contains(problem), "{text}: {fault}");
    };
    refused("1 == 1.0", "no such overload: int == double");
    refused("{'a': 1} == {'a': 1.0}", "map(string, int) == map(string, double)");
    refused("[1, 2.0] == []", "a double beside a int");
    refused("math.greatest(1, 2) == 2", "there is no function greatest()");
    refused("quantity('1').sign() == 1", "no such overload: quantity.sign()");
    refused("device.nothing == 1", "a device has no field nothing");
    refused("'a'.contains(1)", "no such overload: string.contains(int)");
    refused("duration('x') == duration('1s')", "\"x\" is no duration");
    refused("'a'.matches('(')", "is no pattern");
    refused("'%d'.format(['a']) == ''", "%d in a format of a string");
    refused("'%s'.format([1, 2]) == ''", "more values than clauses");
    refused("1.all(x, true)", "a int has no elements");
    refused("[1].all(x, x)", "a int where a bool is needed");
    refused("[1].all(x, x, true)", "has the name x twice");
    refused("package == 1", "a name that CEL keeps for itself");
    assert!(parse("1 + 1").expect_err("a number").to_string().contains("not a bool"));
    // What only a device knows may be anything, and so may what is empty.
    for text in ["device.attributes['a'].b == 1", "device.attributes['a'].b", "[] == ['a']"] {
        assert!(parse(text).is_ok(), "{text}");
    }
}

#[test]
fn attributes_that_are_versions_are_only_equal_to_versions() {
    let version = r#"device.attributes["gpu.example.com"].driverVersion"#;
    is(&format!("{version} == semver('12.4.1')"), true);
    is(&format!("{version} != '12.4.1'"), true);
    fails(&format!("{version} == '12.4.1'"), "no such overload: semver == string");
}

/// Words of which expressions are made.
const WORDS: [&str; 58] = [
    "device",
    ".",
    "attributes",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "'a'",
    "\"b\"",
    "1",
    "2.5",
    "3u",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "&&",
    "||",
    "!",
    "?",
    ":",
    ",",
    " in ",
    "x",
    "y",
    ".all(x, ",
    ".map(x, ",
    ".transformMap(x, y, ",
    ".sortBy(x, ",
    "cel.bind(x, ",
    "has(",
    ".size()",
    ".format(",
    ".matches(",
    "'(%d)'",
    "b'\\xff'",
    "timestamp(",
    "duration(",
    "'1h'",
    "'2026-01-02T03:04:05Z'",
    ".getHours(",
    "url(",
    "'https://[::1]:80/%41?a=b#c'",
    ".getQuery()",
    "optional.none()",
    ".?b",
    "[?",
    ".orValue(",
    "null",
    "true",
    "type(",
    "lists.range(",
];

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[\\[\\](){}.?!<>=&|+*/%:,'\"a-c0-9 \\\\exists`-]{0,60}") {
        drop(run(&text));
    }

    #[test]
    fn no_row_of_words_panics(places in proptest::collection::vec(0..WORDS.len(), 0..40)) {
        let text: String = places.into_iter().map(|place| WORDS[place]).collect();
        drop(run(&text));
    }

    #[test]
    fn no_argument_panics(text in ".{0,30}", number in proptest::num::i64::ANY) {
        let text = format!("{text:?}");
        for call in ["timestamp", "duration", "url", "quantity", "semver", "ip", "cidr", "double"] {
            drop(run(&format!("dyn({call}({text})) == 1")));
        }
        let methods = ["matches", "format", "split", "find", "replace", "indexOf", "substring"];
        for method in methods {
            drop(run(&format!("dyn({text}).{method}({text}) == {text}")));
            drop(run(&format!("dyn({text}).{method}({text}, {number}) == {text}")));
            drop(run(&format!("dyn({text}).{method}([{number}, 0.5, {text}]) == {text}")));
        }
        drop(run(&format!("timestamp({number}) + duration(string({number}) + 'ns') == null")));
        drop(run(&format!("[1, 2].slice({number}, 1) == [1].flatten({number})")));
        drop(run(&format!("timestamp(0).getHours({text}) == {number} / -1")));
    }
}
