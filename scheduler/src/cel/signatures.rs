//! The functions and operators that an expression may use, with the types they take and give.
//!
//! Decides what the checks of types know, as Kubernetes 1.37 gives it to device selectors: CEL's
//! own functions, its optional values, sets, lists, texts of version 2 and loops with two
//! variables, and what Kubernetes adds for lists, patterns, URLs, quantities, versions, addresses
//! and formats.
//!
//! A line is a function, `name(types) type`, or a method, `type: name(types) type`. `A` and `B`
//! stand for any type, `C` for one that has an order, `S` for one that has a sum, `N` and `M` for
//! numbers, `K` for what has an order and is no number.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::Type;

/// What a function takes and gives.
pub(super) struct Signature {
    /// Whether it is a method: what it takes first stands before the dot.
    pub method: bool,
    /// What it takes.
    pub takes: Vec<Type>,
    /// What it gives.
    pub gives: Type,
}

/// The functions of a name; none: there is no such function.
pub(super) fn of(name: &str) -> &'static [Signature] {
    ALL.get(name).map_or(&[], Vec::as_slice)
}

static ALL: LazyLock<BTreeMap<&'static str, Vec<Signature>>> = LazyLock::new(|| {
    let mut all: BTreeMap<&'static str, Vec<Signature>> = BTreeMap::new();
    for line in OPERATORS.iter().chain(&CORE).chain(&TEXTS).chain(&LISTS).chain(&KUBERNETES) {
        let (name, signature) = read(line).expect("a line of the tables below");
        all.entry(name).or_default().push(signature);
    }
    all
});

fn read(line: &'static str) -> Option<(&'static str, Signature)> {
    let (receiver, rest) = match line.split_once(": ") {
        Some((receiver, rest)) => (Some(receiver), rest),
        None => (None, line),
    };
    let (name, rest) = rest.split_once('(')?;
    let (takes, gives) = rest.split_once(") ")?;
    let listed = receiver.into_iter().chain(takes.split(", ").filter(|it| !it.is_empty()));
    let takes = listed.map(Type::read).collect::<Option<Vec<Type>>>()?;
    Some((name, Signature { method: receiver.is_some(), takes, gives: Type::read(gives)? }))
}

const OPERATORS: [&str; 44] = [
    "!(bool) bool",
    "&&(bool, bool) bool",
    "||(bool, bool) bool",
    "?:(bool, A, A) A",
    "==(A, A) bool",
    "!=(A, A) bool",
    "in(A, list<A>) bool",
    "in(A, map<A,B>) bool",
    "<(N, M) bool",
    "<(K, K) bool",
    "<=(N, M) bool",
    "<=(K, K) bool",
    ">(N, M) bool",
    ">(K, K) bool",
    ">=(N, M) bool",
    ">=(K, K) bool",
    "+(bytes, bytes) bytes",
    "+(double, double) double",
    "+(duration, duration) duration",
    "+(duration, timestamp) timestamp",
    "+(timestamp, duration) timestamp",
    "+(int, int) int",
    "+(list<A>, list<A>) list<A>",
    "+(string, string) string",
    "+(uint, uint) uint",
    "-(double, double) double",
    "-(duration, duration) duration",
    "-(int, int) int",
    "-(timestamp, duration) timestamp",
    "-(timestamp, timestamp) duration",
    "-(uint, uint) uint",
    "-(int) int",
    "-(double) double",
    "*(double, double) double",
    "*(int, int) int",
    "*(uint, uint) uint",
    "/(double, double) double",
    "/(int, int) int",
    "/(uint, uint) uint",
    "%(int, int) int",
    "%(uint, uint) uint",
    "[](list<A>, int) A",
    "[](map<A,B>, A) B",
    "[?](list<A>, int) optional<A>",
];

const CORE: [&str; 85] = [
    "[?](map<A,B>, A) optional<B>",
    "[?](optional<list<A>>, int) optional<A>",
    "[?](optional<map<A,B>>, A) optional<B>",
    "[](optional<list<A>>, int) optional<A>",
    "[](optional<map<A,B>>, A) optional<B>",
    "size(string) int",
    "size(bytes) int",
    "size(list<A>) int",
    "size(map<A,B>) int",
    "string: size() int",
    "bytes: size() int",
    "list<A>: size() int",
    "map<A,B>: size() int",
    "type(A) type",
    "dyn(A) dyn",
    "bool(bool) bool",
    "bool(string) bool",
    "bytes(bytes) bytes",
    "bytes(string) bytes",
    "double(double) double",
    "double(int) double",
    "double(string) double",
    "double(uint) double",
    "duration(duration) duration",
    "duration(string) duration",
    "int(int) int",
    "int(double) int",
    "int(duration) int",
    "int(string) int",
    "int(timestamp) int",
    "int(uint) int",
    "string(string) string",
    "string(bool) string",
    "string(bytes) string",
    "string(double) string",
    "string(duration) string",
    "string(int) string",
    "string(timestamp) string",
    "string(uint) string",
    "timestamp(timestamp) timestamp",
    "timestamp(int) timestamp",
    "timestamp(string) timestamp",
    "uint(uint) uint",
    "uint(double) uint",
    "uint(int) uint",
    "uint(string) uint",
    "string: contains(string) bool",
    "string: endsWith(string) bool",
    "string: startsWith(string) bool",
    "string: matches(string) bool",
    "matches(string, string) bool",
    "timestamp: getFullYear() int",
    "timestamp: getFullYear(string) int",
    "timestamp: getMonth() int",
    "timestamp: getMonth(string) int",
    "timestamp: getDayOfYear() int",
    "timestamp: getDayOfYear(string) int",
    "timestamp: getDayOfMonth() int",
    "timestamp: getDayOfMonth(string) int",
    "timestamp: getDate() int",
    "timestamp: getDate(string) int",
    "timestamp: getDayOfWeek() int",
    "timestamp: getDayOfWeek(string) int",
    "timestamp: getHours() int",
    "timestamp: getHours(string) int",
    "timestamp: getMinutes() int",
    "timestamp: getMinutes(string) int",
    "timestamp: getSeconds() int",
    "timestamp: getSeconds(string) int",
    "timestamp: getMilliseconds() int",
    "timestamp: getMilliseconds(string) int",
    "duration: getHours() int",
    "duration: getMinutes() int",
    "duration: getSeconds() int",
    "duration: getMilliseconds() int",
    "optional.of(A) optional<A>",
    "optional.ofNonZeroValue(A) optional<A>",
    "optional.none() optional<A>",
    "optional.unwrap(list<optional<A>>) list<A>",
    "list<optional<A>>: unwrapOpt() list<A>",
    "optional<A>: hasValue() bool",
    "optional<A>: value() A",
    "optional<A>: or(optional<A>) optional<A>",
    "optional<A>: orValue(A) A",
    "sets.contains(list<A>, list<A>) bool",
];

const TEXTS: [&str; 23] = [
    "string: charAt(int) string",
    "string: indexOf(string) int",
    "string: indexOf(string, int) int",
    "string: lastIndexOf(string) int",
    "string: lastIndexOf(string, int) int",
    "string: lowerAscii() string",
    "string: upperAscii() string",
    "string: replace(string, string) string",
    "string: replace(string, string, int) string",
    "string: split(string) list<string>",
    "string: split(string, int) list<string>",
    "string: substring(int) string",
    "string: substring(int, int) string",
    "string: trim() string",
    "string: format(list<dyn>) string",
    "strings.quote(string) string",
    "list<string>: join() string",
    "list<string>: join(string) string",
    "string: find(string) string",
    "string: findAll(string) list<string>",
    "string: findAll(string, int) list<string>",
    "sets.equivalent(list<A>, list<A>) bool",
    "sets.intersects(list<A>, list<A>) bool",
];

const LISTS: [&str; 16] = [
    "list<C>: isSorted() bool",
    "list<S>: sum() S",
    "list<C>: max() C",
    "list<C>: min() C",
    "list<A>: indexOf(A) int",
    "list<A>: lastIndexOf(A) int",
    "dyn: includes(dyn) bool",
    "list<A>: slice(int, int) list<A>",
    "list<list<A>>: flatten() list<A>",
    "list<dyn>: flatten(int) list<dyn>",
    "list<C>: sort() list<C>",
    "lists.range(int) list<int>",
    "list<A>: reverse() list<A>",
    "list<A>: distinct() list<A>",
    "list<A>: first() optional<A>",
    "list<A>: last() optional<A>",
];

const KUBERNETES: [&str; 69] = [
    "url(string) URL",
    "isURL(string) bool",
    "URL: getScheme() string",
    "URL: getHost() string",
    "URL: getHostname() string",
    "URL: getPort() string",
    "URL: getEscapedPath() string",
    "URL: getQuery() map<string,list<string>>",
    "quantity(string) quantity",
    "isQuantity(string) bool",
    // A function and no method, whatever the documents say.
    "sign(quantity) int",
    "quantity: isGreaterThan(quantity) bool",
    "quantity: isLessThan(quantity) bool",
    "quantity: compareTo(quantity) int",
    "quantity: asApproximateFloat() double",
    "quantity: asInteger() int",
    "quantity: isInteger() bool",
    "quantity: add(quantity) quantity",
    "quantity: add(int) quantity",
    "quantity: sub(quantity) quantity",
    "quantity: sub(int) quantity",
    "semver(string) semver",
    "semver(string, bool) semver",
    "isSemver(string) bool",
    "isSemver(string, bool) bool",
    "semver: isGreaterThan(semver) bool",
    "semver: isLessThan(semver) bool",
    "semver: compareTo(semver) int",
    "semver: major() int",
    "semver: minor() int",
    "semver: patch() int",
    "ip(string) IP",
    "isIP(string) bool",
    "ip.isCanonical(string) bool",
    "IP: family() int",
    "IP: isUnspecified() bool",
    "IP: isLoopback() bool",
    "IP: isLinkLocalMulticast() bool",
    "IP: isLinkLocalUnicast() bool",
    "IP: isGlobalUnicast() bool",
    "string(IP) string",
    "cidr(string) CIDR",
    "isCIDR(string) bool",
    "CIDR: containsIP(string) bool",
    "CIDR: containsIP(IP) bool",
    "CIDR: containsCIDR(string) bool",
    "CIDR: containsCIDR(CIDR) bool",
    "CIDR: ip() IP",
    "CIDR: prefixLength() int",
    "CIDR: masked() CIDR",
    "string(CIDR) string",
    "format.named(string) optional<format>",
    "format: validate(string) optional<list<string>>",
    "format.dns1123Label() format",
    "format.dns1123Subdomain() format",
    "format.dns1035Label() format",
    "format.qualifiedName() format",
    "format.dns1123LabelPrefix() format",
    "format.dns1123SubdomainPrefix() format",
    "format.dns1035LabelPrefix() format",
    "format.labelValue() format",
    "format.uri() format",
    "format.uuid() format",
    "format.byte() format",
    "format.date() format",
    "format.datetime() format",
    // `sortBy(x, key)`, with the keys where the loop over them stands.
    "sortBy(list<A>, C) list<A>",
    "optMap(optional<A>, B) optional<B>",
    "optFlatMap(optional<A>, optional<B>) optional<B>",
];
