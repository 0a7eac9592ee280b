//! Formats that texts may have: `format.dns1123Label().validate(..)` and its like.
//!
//! Which texts fit is as Kubernetes has it; what is said of one that does not is worded here.

use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::time;
use super::url::Url;
use super::value::Value;

/// Names of formats, as they stand behind `format.`.
const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// What is wrong with a text, if not all of it.
type Problems = Vec<&'static str>;

/// A format, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named(&'static str);

static LABEL: LazyLock<Regex> = LazyLock::new(|| pattern("[a-z0-9]([-a-z0-9]*[a-z0-9])?"));
static SUBDOMAIN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"));
static LABEL_1035: LazyLock<Regex> = LazyLock::new(|| pattern("[a-z]([-a-z0-9]*[a-z0-9])?"));
static KEY: LazyLock<Regex> = LazyLock::new(|| pattern("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"));
static UUID: LazyLock<Regex> = LazyLock::new(|| {
    pattern("(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})")
});
static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
});

fn pattern(text: &str) -> Regex {
    Regex::new(&format!("^(?:{text})$")).expect("a pattern of ours")
}

impl Named {
    /// The format of a name.
    pub fn of(name: &str) -> Option<Named> {
        NAMES.into_iter().find(|known| *known == name).map(Named)
    }

    /// `format.validate(text)`: what is wrong with it, if anything.
    pub fn validate(self, text: &str) -> Value {
        let problems = self.problems(text);
        let list: Vec<Value> = problems.into_iter().map(|it| Value::Text(it.into())).collect();
        Value::Optional((!list.is_empty()).then(|| Arc::new(Value::List(Arc::new(list)))))
    }

    fn problems(self, text: &str) -> Problems {
        match self.0 {
            "dns1123Label" => label(text),
            "dns1123LabelPrefix" => label(&prefix(text)),
            "dns1123Subdomain" => subdomain(text),
            "dns1123SubdomainPrefix" => subdomain(&prefix(text)),
            "dns1035Label" => label_1035(text),
            "dns1035LabelPrefix" => label_1035(&prefix(text)),
            "qualifiedName" => qualified(text),
            "labelValue" => {
                let fits = text.is_empty() || KEY.is_match(text);
                let short = bound(text, 63, "must be no more than 63 characters");
                with(short, !fits, "must be empty or begin and end with a letter or digit")
            }
            "uri" => with(Vec::new(), !Url::is(text), "is no URI"),
            "uuid" => with(Vec::new(), !UUID.is_match(text), "is no UUID"),
            "byte" => with(Vec::new(), !base64(text), "is no base64"),
            "date" => with(Vec::new(), !date(text), "is no date"),
            _ => with(Vec::new(), !datetime(text), "is no date and time"),
        }
    }
}

fn with(mut problems: Problems, wrong: bool, problem: &'static str) -> Problems {
    problems.extend(wrong.then_some(problem));
    problems
}

fn bound(text: &str, most: usize, problem: &'static str) -> Problems {
    with(Vec::new(), text.len() > most, problem)
}

fn label(text: &str) -> Problems {
    let short = bound(text, 63, "must be no more than 63 characters");
    let problem = match SUBDOMAIN.is_match(text) {
        true => "must not contain dots",
        false => "must be lower case letters, digits and '-', with no '-' at its ends",
    };
    with(short, !LABEL.is_match(text), problem)
}

fn subdomain(text: &str) -> Problems {
    let short = bound(text, 253, "must be no more than 253 characters");
    let problem = "must be labels of lower case letters, digits and '-', with dots between them";
    with(short, !SUBDOMAIN.is_match(text), problem)
}

fn label_1035(text: &str) -> Problems {
    let short = bound(text, 63, "must be no more than 63 characters");
    let problem = "must be lower case letters, digits and '-', and begin with a letter";
    with(short, !LABEL_1035.is_match(text), problem)
}

fn qualified(text: &str) -> Problems {
    let problem = "name part must begin and end with a letter or digit";
    let (mut problems, name) = match text.split_once('/') {
        None => (Vec::new(), text),
        Some((_, rest)) if rest.contains('/') => {
            return vec!["must be a name with at most one '/' before it"];
        }
        Some(("", name)) => (vec!["prefix part must be non-empty"], name),
        Some((domain, name)) => (subdomain(domain), name),
    };
    problems.extend(name.is_empty().then_some("name part must be non-empty"));
    problems.extend((name.len() > 63).then_some("name part must be no more than 63 characters"));
    with(problems, !KEY.is_match(name), problem)
}

/// What generated names begin with may end with a `-`.
fn prefix(text: &str) -> String {
    let before = text.len().checked_sub(2).filter(|_| text.ends_with('-'));
    match before.and_then(|end| text.get(..end)) {
        Some(before) => format!("{before}a"),
        None => text.to_owned(),
    }
}

fn date(text: &str) -> bool {
    time::date(text).is_some()
}

fn datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(day), Some(clock)) = (parts.next(), parts.next()) else { return false };
    let found = CLOCK.captures(clock);
    let within =
        |found: regex::Captures<'_>| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59";
    date(day) && found.is_some_and(within)
}

/// Base64 in groups of four, with its padding.
fn base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let whole = !text.is_empty() && text.len().is_multiple_of(4) && text.len() - digits.len() <= 2;
    whole && digits.bytes().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, good: &[&str], bad: &[&str]) {
        let format = Named::of(name).expect(name);
        for text in good {
            assert_eq!(format.problems(text), Problems::new(), "{name}: {text}");
        }
        for text in bad {
            assert!(!format.problems(text).is_empty(), "{name}: {text}");
        }
    }

    #[test]
    fn texts_fit_their_formats() {
        let long = "a".repeat(64);
        check("dns1123Label", &["a", "1-a"], &["", "-a", "a.b", "A", "a-", &long]);
        check("dns1123LabelPrefix", &["a-"], &["-", "_a-"]);
        check("dns1123Subdomain", &["a", "a.b-c.1"], &["", "a..b", "A.b", "a.", "a_b"]);
        check("dns1035Label", &["a1"], &["1a", "a-", ""]);
        check("qualifiedName", &["a", "A.b_c", "x.y/Z"], &["", "/a", "a/", "a/b/c", "_a", "X/a"]);
        check("labelValue", &["", "A_b.c"], &["-a", "a b", &long]);
        check("uri", &["https://a/b", "/a"], &["", "a b", "../a"]);
        check("uuid", &["123e4567-e89b-12d3-a456-426614174000"], &["", "123e4567"]);
        check("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ", "Y!==", "====", "YQ=a"]);
        check("date", &["2026-02-28"], &["2026-02-29", "2026-2-28", ""]);
        check(
            "datetime",
            &["2026-02-28T01:02:03Z", "2026-02-28t01:02:03.5+01:00"],
            &["2026-02-28"],
        );
        assert!(Named::of("nothing").is_none());
        assert!(NAMES.into_iter().all(|name| Named::of(name).is_some()));
    }
}
