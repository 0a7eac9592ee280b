//! How many writes the API server was asked for, by kind of object: its own count, not that of
//! who wrote.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Verbs that write.
const VERBS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];
/// The metric.
const REQUESTS: &str = "apiserver_request_total{";

/// Writes by verb and object, `POST pods/binding`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes(BTreeMap<String, u64>);

impl Writes {
    /// From the text of the API server's metrics.
    pub fn read(metrics: &str) -> Writes {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for line in metrics.lines().filter_map(|line| line.strip_prefix(REQUESTS)) {
            let Some((labels, count)) = line.rsplit_once("} ") else { continue };
            let verb = label(labels, "verb");
            // Counts above a million are written with an exponent.
            let (true, Ok(count)) = (VERBS.contains(&verb), count.parse::<f64>()) else { continue };
            let (resource, inner) = (label(labels, "resource"), label(labels, "subresource"));
            let slash = if inner.is_empty() { "" } else { "/" };
            *all.entry(format!("{verb} {resource}{slash}{inner}")).or_default() += count as u64;
        }
        Writes(all)
    }

    /// What was added since.
    pub fn since(&self, before: &Writes) -> Writes {
        let added = |(key, count): (&String, &u64)| {
            let added = count - before.0.get(key).copied().unwrap_or(0);
            (added > 0).then(|| (key.clone(), added))
        };
        Writes(self.0.iter().filter_map(added).collect())
    }

    /// Writes of objects: neither events, nor what says who lives or asks who may do what.
    pub fn objects(&self) -> u64 {
        const APART: [&str; 5] =
            ["events", "leases", "tokenreviews", "subjectaccessreviews", "serviceaccounts/token"];
        let kind = |key: &str| key.split_once(' ').map_or("", |it| it.1).to_owned();
        let counted = self.0.iter().filter(|(key, _)| !APART.contains(&kind(key).as_str()));
        counted.map(|it| it.1).sum()
    }

    /// Writes of one kind.
    pub fn of(&self, key: &str) -> u64 {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// All of them.
    pub fn line(&self) -> Value {
        json!(self.0)
    }
}

fn label<'a>(labels: &'a str, name: &str) -> &'a str {
    let mut found = labels.split("\",").filter_map(|pair| pair.split_once("=\""));
    let value = found.find(|(key, _)| *key == name).map_or("", |it| it.1);
    value.trim_end_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_object_and_events_apart() {
        let line = |verb, resource, inner, count| {
            format!(
                "apiserver_request_total{{code=\"201\",component=\"apiserver\",group=\"\",\
                 resource=\"{resource}\",subresource=\"{inner}\",verb=\"{verb}\",version=\"v1\"}} \
                 {count}\n"
            )
        };
        let text = [
            line("POST", "pods", "binding", "3"),
            line("POST", "pods", "binding", "1e+06"),
            line("LIST", "pods", "", "7"),
            line("POST", "events", "", "5"),
            line("PATCH", "workloads", "status", "2"),
        ];
        let read = Writes::read(&text.concat());
        assert_eq!(read.of("POST pods/binding"), 1_000_003);
        let before = Writes::read(&text[0]);
        let since = read.since(&before);
        assert_eq!(since.of("POST pods/binding"), 1_000_000);
        assert_eq!(since.objects(), 1_000_002);
        assert_eq!(since.of("POST events"), 5);
        assert_eq!(since.of("LIST pods"), 0);
    }
}
