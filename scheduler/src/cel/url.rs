//! URLs: `url(..)` and its methods, as Kubernetes has them.
//!
//! Absolute ones and absolute paths. Parts are told apart as RFC 3986 says; hosts may have any
//! bytes beyond ASCII, and paths what they were written with.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::Fault;
use super::value::{Key, Map, Value};

/// Most parameters of a query; one with more has none.
const PARAMETERS_MAX: usize = 10_000;

/// A URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    /// What stands before the `@`.
    user: Option<String>,
    /// With the port.
    host: String,
    /// As it is written, or what takes its place where it may not be written so.
    path: String,
    query: String,
    fragment: String,
    /// What stands behind the scheme of `mailto:a` and its like.
    opaque: String,
}

/// Where a text stands, which decides what may be written there as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    User,
    Host,
    Zone,
    Path,
    Query,
    Fragment,
}

impl Url {
    /// Reads a URL.
    pub fn parse(text: &str) -> Option<Url> {
        // What is asked of a server has no fragment; yet it is read as if that were a part of it.
        Url::whole(text, true)?;
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        unescape(fragment, Part::Fragment)?;
        let mut url = Url::whole(before, false)?;
        url.fragment = fragment.to_owned();
        Some(url)
    }

    /// Whether a text is a URL.
    pub fn is(text: &str) -> bool {
        Url::whole(text, true).is_some()
    }

    fn of_path(scheme: String, path: &str, query: &str) -> Url {
        let (path, query) = (path.to_owned(), query.to_owned());
        let (host, opaque) = (String::new(), String::new());
        Url { scheme, user: None, host, path, query, fragment: String::new(), opaque }
    }

    /// `asked`: `//a` is a path, as a server is asked for it, and not a host.
    fn whole(text: &str, asked: bool) -> Option<Url> {
        if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        if text == "*" {
            return Some(Url::of_path(String::new(), "*", ""));
        }
        let (scheme, rest) = scheme(text)?;
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !before.starts_with('/') {
            let mut url = Url::of_path(scheme.to_ascii_lowercase(), "", query);
            before.clone_into(&mut url.opaque);
            return (!scheme.is_empty()).then_some(url);
        }
        let mut url = Url::of_path(scheme.to_ascii_lowercase(), "", query);
        let bare = !asked && !before.starts_with("///");
        let authority = before.strip_prefix("//").filter(|_| !scheme.is_empty() || bare);
        let path = match authority {
            None => before,
            Some(all) => {
                let (authority, path) = all.split_at(all.find('/').unwrap_or(all.len()));
                let host = match authority.rsplit_once('@') {
                    Some((user, host)) => {
                        url.user = Some(checked_user(user)?);
                        host
                    }
                    None => authority,
                };
                url.host = checked_host(&url.scheme, host)?;
                path
            }
        };
        let plain = unescape(path, Part::Path)?;
        let kept = path.bytes().all(|byte| {
            let marks = b"!$&'()*+,;=:@[]%";
            marks.contains(&byte) || stays(byte, Part::Path)
        });
        url.path = if kept { path.to_owned() } else { escape(&plain) };
        Some(url)
    }

    /// Host without port and brackets, and the port.
    fn host_and_port(&self) -> (&str, &str) {
        let host = self.host.as_str();
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
            _ => (host, ""),
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        (bare.unwrap_or(name), port)
    }

    /// `url.name()`.
    pub(super) fn call(&self, name: &str) -> Option<Value> {
        let text = match name {
            "getScheme" => &self.scheme,
            "getHost" => &self.host,
            "getHostname" => self.host_and_port().0,
            "getPort" => self.host_and_port().1,
            "getEscapedPath" => &self.path,
            "getQuery" => return Some(self.query()),
            _ => return None,
        };
        Some(Value::Text(text.into()))
    }

    fn query(&self) -> Value {
        let mut entries: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
        let few = self.query.matches('&').count() < PARAMETERS_MAX;
        let parts = self.query.split('&').filter(|_| few);
        for part in parts.filter(|part| !part.is_empty() && !part.contains(';')) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let text = |part: &str| unescape(part, Part::Query).map(|bytes| lossy(&bytes));
            if let (Some(key), Some(value)) = (text(key), text(value)) {
                let values = entries.entry(Key::Text(key.into())).or_default();
                values.push(Value::Text(value.into()));
            }
        }
        let entries = entries.into_iter().map(|(key, all)| (key, Value::List(Arc::new(all))));
        Value::Map(Arc::new(Map { entries: entries.collect(), open: false }))
    }
}

/// The scheme, and what follows it. `None`: a colon without one.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
    match end.map(|at| (at, text.as_bytes()[at])) {
        Some((0, b':')) => None,
        Some((at, b':')) if text.as_bytes()[0].is_ascii_alphabetic() => {
            Some((&text[..at], &text[at + 1..]))
        }
        _ => Some(("", text)),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn checked_user(user: &str) -> Option<String> {
    let marks = b"-._:~!$&'()*+,;=%@";
    let good = user.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte));
    unescape(user, Part::User).filter(|_| good).map(|bytes| lossy(&bytes))
}

fn checked_host(scheme: &str, host: &str) -> Option<String> {
    let port = |port: &str| {
        let digits = port.strip_prefix(':');
        digits.map_or(port.is_empty(), |it| it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match (host.rfind('['), host.find(':')) {
        (Some(0), _) => {
            let end = host.rfind(']')?;
            let (inside, behind) = (&host[1..end], &host[end + 1..]);
            let zone = inside.find("%25").unwrap_or(inside.len());
            let address = lossy(&unescape(&inside[..zone], Part::Host)?);
            let zone = lossy(&unescape(&inside[zone..], Part::Zone)?);
            let literal = matches!(address.parse(), Ok(IpAddr::V6(_))) && zone != "%";
            (literal && port(behind)).then(|| format!("[{address}{zone}]{behind}"))
        }
        (Some(_), _) => None,
        (None, colon) => {
            // Some databases list hosts with their ports; web servers are one host.
            let web = matches!(scheme, "http" | "https");
            let colon = if web { colon } else { host.rfind(':') };
            let fits = colon.is_none_or(|at| port(&host[at..]));
            unescape(host, Part::Host).filter(|_| fits).map(|bytes| lossy(&bytes))
        }
    }
}

/// Whether a byte may be written as it is.
fn stays(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return true;
    }
    match part {
        Part::Host | Part::Zone => b"!$&'()*+,;=:[]<>\"".contains(&byte),
        Part::Path => b"$&+,/:;=@".contains(&byte),
        Part::User | Part::Query | Part::Fragment => false,
    }
}

/// `%41` as `A`.
fn unescape(text: &str, part: Part) -> Option<Vec<u8>> {
    let host = matches!(part, Part::Host | Part::Zone);
    let mut made = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let code = (digit()? * 16 + digit()?) as u8;
                let odd = match part {
                    Part::Host => code < 0x80 && code != b'%',
                    Part::Zone => !matches!(code, b'%' | b' ') && !stays(code, Part::Host),
                    _ => false,
                };
                if odd {
                    return None;
                }
                made.push(code);
            }
            b'+' if part == Part::Query => made.push(b' '),
            byte if host && byte < 0x80 && !stays(byte, part) => return None,
            byte => made.push(byte),
        }
    }
    Some(made)
}

fn escape(path: &[u8]) -> String {
    let mut made = String::with_capacity(path.len());
    for byte in path {
        match stays(*byte, Part::Path) {
            true => made.push(char::from(*byte)),
            false => made.push_str(&format!("%{byte:02X}")),
        }
    }
    made
}

/// A text as a URL, or why it is none.
pub(super) fn parse(text: &str) -> Result<Value, Fault> {
    let fault = || Fault::new(format!("{text:?} is no URL"));
    Url::parse(text).map(|url| Value::Url(Arc::new(url))).ok_or_else(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(url: &str, name: &str) -> String {
        match Url::parse(url).expect(url).call(name) {
            Some(Value::Text(text)) => text.to_string(),
            other => panic!("{url}: {name}: {other:?}"),
        }
    }

    #[test]
    fn what_is_a_url_and_what_is_not() {
        let good = ["https://example.com", "/path", "mailto:a@b", "http://[::1]:80/", "*", "//a"];
        for url in good.into_iter().chain(["https://u:p@h/x?y#z", "a:", "h://a:1,b:2/", "/#x"]) {
            assert!(Url::is(url) && Url::parse(url).is_some(), "{url}");
        }
        let bad =
            ["", "../a", "example.com", ":80", "https://a:b:c/", "http://a b/", "http://[::1"];
        for url in
            bad.into_iter().chain(["/%zz", "/%2", "http://a:x/", "a\u{7}:", "http://[1.2.3.4]/"])
        {
            assert!(!Url::is(url) && Url::parse(url).is_none(), "{url}");
        }
    }

    #[test]
    fn the_parts_of_a_url() {
        let url = "HTTPS://u:p@Example.com:80/a%2fb/c?k=1&k=2#f";
        assert_eq!(part(url, "getScheme"), "https");
        assert_eq!(part(url, "getHost"), "Example.com:80");
        assert_eq!(part(url, "getHostname"), "Example.com");
        assert_eq!(part(url, "getPort"), "80");
        assert_eq!(part(url, "getEscapedPath"), "/a%2fb/c");
        assert_eq!(part("https://[::1]:80/", "getHostname"), "::1");
        assert_eq!(part("https://[::1]/", "getHost"), "[::1]");
        assert_eq!(part("/with space/é", "getEscapedPath"), "/with%20space/%C3%A9");
        assert_eq!(part("/path", "getHost"), "");
    }
}
