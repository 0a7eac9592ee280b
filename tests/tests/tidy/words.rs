//! What each crate must never contain, as identifiers and paths.
//!
//! Only identifiers, paths, macros and literals of the token stream are judged; comments and
//! strings may say what they like. A rule is one row of a table. Unfinished code (`todo!`,
//! `unimplemented!`, `dbg!`, `#[ignore]`) is refused everywhere.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use crate::Finding;
use crate::tree::File;

/// What a rule looks for.
#[derive(Clone, Copy)]
enum Never {
    /// An identifier that is exactly this.
    Ident(&'static str),
    /// An identifier with this among its words (`gpu_label`, `LabelSelector` have `label`).
    Word(&'static str),
    /// A path that starts with this (`std::fs`), in `use` or in place, braces resolved.
    Path(&'static str),
    /// A macro call.
    Macro(&'static str),
    /// An attribute.
    Attribute(&'static str),
    /// A number with a fraction or a power of ten.
    Float,
}

use Never::{Attribute, Float, Ident, Macro, Path, Word};

/// Rules for all crates.
const EVERYWHERE: [(Never, &str); 4] = [
    (Macro("todo"), "unfinished: finish it or open an issue"),
    (Macro("unimplemented"), "unfinished: finish it or open an issue"),
    (Macro("dbg"), "left over from debugging: remove it"),
    (Attribute("ignore"), "a test that never runs proves nothing: fix or remove it"),
];

/// What decides is the same wherever and whenever it runs: `topology` and `core` have no clock, no
/// randomness, no I/O, no floats, no order of a hash, and say nothing but by their results.
const DECIDING: [(Never, &str); 34] = [
    (Path("serde"), "what decides is never serialised: the shell has its own types for that"),
    (Path("serde_json"), "what decides is never serialised: the shell has its own types for that"),
    (Path("kube"), "no Kubernetes type: the shell turns objects into plain values"),
    (Path("k8s_openapi"), "no Kubernetes type: the shell turns objects into plain values"),
    (Path("tokio"), "sans-I/O: effects leave as data"),
    (Ident("SystemTime"), "no clock: time is an argument"),
    (Ident("Instant"), "no clock: time is an argument"),
    (Path("std::time"), "no clock: time is an argument"),
    (Path("core::time"), "no clock: time is an argument"),
    (Path("std::fs"), "no I/O"),
    (Path("std::io"), "no I/O"),
    (Path("std::net"), "no I/O"),
    (Path("core::net"), "no I/O"),
    (Path("std::process"), "no I/O"),
    (Path("std::env"), "no environment: knobs are arguments"),
    (Path("std::thread"), "one thread owns the engine"),
    (Path("rand"), "no randomness: break ties by an id"),
    (Path("log"), "nothing is logged: put it in the report"),
    (Path("tracing::info"), "nothing is logged: put it in the report"),
    (Path("tracing::warn"), "nothing is logged: put it in the report"),
    (Path("tracing::error"), "nothing is logged: put it in the report"),
    (Path("tracing::debug"), "nothing is logged: put it in the report"),
    (Path("tracing::trace"), "nothing is logged: put it in the report"),
    (Path("tracing::event"), "nothing is logged: put it in the report"),
    (Macro("println"), "nothing is printed: put it in the report"),
    (Macro("eprintln"), "nothing is printed: put it in the report"),
    (Macro("print"), "nothing is printed: put it in the report"),
    (Macro("eprint"), "nothing is printed: put it in the report"),
    (Ident("HashMap"), "its order would decide: use BTreeMap or an arena"),
    (Ident("HashSet"), "its order would decide: use BTreeSet or a bitset"),
    (Ident("RandomState"), "its order would decide: use a fixed-seed hasher"),
    (Ident("f32"), "no floats in decisions: use integers or exact fractions"),
    (Ident("f64"), "no floats in decisions: use integers or exact fractions"),
    (Float, "no floats in decisions: use integers or exact fractions"),
];

/// Hardware only: no Kubernetes, labels, queues or time.
const TOPOLOGY: [(Never, &str); 6] = [
    (Word("kubernetes"), "topology knows no Kubernetes: pass plain values in"),
    (Word("label"), "topology knows no labels: core turns them into levels and domains"),
    (Word("labels"), "topology knows no labels: core turns them into levels and domains"),
    (Word("queue"), "topology knows no queues: quota is core's"),
    (Word("queues"), "topology knows no queues: quota is core's"),
    (Ident("Time"), "topology knows no time"),
];

/// The pure engine.
const CORE: [(Never, &str); 1] =
    [(Path("prometheus"), "core has no metrics: put the number in `Counts`")];

/// What the shell may name of `capstan_core`: the contract. All else in core decides (quota,
/// placement, fairness, victims), and the shell decides nothing.
const CONTRACT: [&str; 11] = [
    "engine", "explain", "model", "money", "plan", "policy", "requests", "score", "time", "Engine",
    "Input",
];

/// Deeper parts of the contract: of these modules only what is listed.
const CONTRACT_PARTS: [(&str, &[&str]); 2] = [("model", &["input"]), ("score", &["Weights"])];

/// All word rules on one file.
pub fn check(file: &File) -> Vec<Finding> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let Ok(tokens) = file.text.parse::<TokenStream>() else {
        return vec![Finding::new(&file.path, 0, "does not parse")];
    };
    let rules: Vec<(Never, &str)> = match file.folder() {
        "topology" => [&DECIDING[..], &TOPOLOGY[..]].concat(),
        "core" => [&DECIDING[..], &CORE[..]].concat(),
        _ => Vec::new(),
    };
    let shell = file.folder() == "scheduler";
    let mut search = Search { path: &file.path, rules: &rules, shell, findings: Vec::new() };
    search.stream(tokens, &[]);
    search.findings.dedup();
    search.findings
}

struct Search<'a> {
    path: &'a str,
    rules: &'a [(Never, &'static str)],
    shell: bool,
    findings: Vec<Finding>,
}

impl Search<'_> {
    /// Walks tokens; `prefix` is the path that a group in braces continues (`use std::{..}`).
    fn stream(&mut self, stream: TokenStream, prefix: &[String]) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let punct = |at: usize, c: char| match tokens.get(at) {
            Some(TokenTree::Punct(found)) => found.as_char() == c,
            _ => false,
        };
        let joined = |at: usize| punct(at, ':') && punct(at + 1, ':');
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(first) => {
                    let span = first.span();
                    let mut path = prefix.to_vec();
                    path.push(first.to_string());
                    self.ident(&path[path.len() - 1].clone(), span);
                    while joined(at + 1)
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                    {
                        path.push(next.to_string());
                        self.ident(&next.to_string(), next.span());
                        at += 3;
                    }
                    self.path(&path, span);
                    if punct(at + 1, '!') && !punct(at + 2, '=') {
                        self.macro_call(&path, span);
                    }
                    if joined(at + 1)
                        && let Some(TokenTree::Group(group)) = tokens.get(at + 3)
                        && group.delimiter() == Delimiter::Brace
                    {
                        self.stream(group.stream(), &path);
                        at += 3;
                    }
                }
                TokenTree::Group(group) => {
                    let attribute = group.delimiter() == Delimiter::Bracket
                        && at > 0
                        && (punct(at - 1, '#')
                            || (at > 1 && punct(at - 1, '!') && punct(at - 2, '#')));
                    if attribute {
                        self.attribute(group.stream());
                    }
                    self.stream(group.stream(), &[]);
                }
                // After a dot it is a field of a field of a tuple: `x.0.1`.
                TokenTree::Literal(_) if at > 0 && punct(at - 1, '.') => {}
                TokenTree::Literal(literal) => self.literal(&literal.to_string(), literal.span()),
                TokenTree::Punct(_) => {}
            }
            at += 1;
        }
    }

    fn report(&mut self, span: Span, what: &str, says: &str) {
        let finding = Finding::new(self.path, span.start().line, format!("{what}: {says}"));
        self.findings.push(finding);
    }

    fn apply(&mut self, span: Span, what: &str, hit: impl Fn(Never) -> bool) {
        for (never, says) in self.rules.iter().chain(EVERYWHERE.iter()) {
            if hit(*never) {
                self.report(span, what, says);
            }
        }
    }

    fn ident(&mut self, ident: &str, span: Span) {
        let parts = parts(ident);
        self.apply(span, ident, |never| match never {
            Ident(name) => name == ident,
            Word(word) => parts.iter().any(|part| part == word),
            _ => false,
        });
    }

    fn path(&mut self, path: &[String], span: Span) {
        let text = path.join("::");
        self.apply(span, &text, |never| match never {
            // One segment alone is an ordinary name unless it is rooted as in `use`.
            Path(start) => {
                path.len() > 1 && (text == start || text.starts_with(&format!("{start}::")))
            }
            _ => false,
        });
        if self.shell && path[0] == "capstan_core" && path.len() > 1 {
            self.contract(path, span);
        }
    }

    /// The shell may name the contract only.
    fn contract(&mut self, path: &[String], span: Span) {
        let parts = CONTRACT_PARTS.iter().find(|(module, _)| *module == path[1]);
        let deeper = match (parts, path.get(2)) {
            (Some((_, names)), Some(name)) => names.contains(&name.as_str()),
            _ => true,
        };
        if !CONTRACT.contains(&path[1].as_str()) || !deeper {
            let says = "the shell decides nothing: it may use core's contract only";
            self.report(span, &path.join("::"), says);
        }
    }

    fn macro_call(&mut self, path: &[String], span: Span) {
        let name = path.last().expect("a path has a segment").clone();
        self.apply(span, &format!("{name}!"), |never| match never {
            Macro(refused) => refused == name,
            _ => false,
        });
    }

    fn attribute(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let Some(TokenTree::Ident(name)) = tokens.first() else { return };
        let text = name.to_string();
        self.apply(name.span(), &format!("#[{text}]"), |never| match never {
            Attribute(refused) => refused == text,
            _ => false,
        });
        // Attributes that hold where a condition does follow it after a comma.
        if let (true, Some(TokenTree::Group(group))) = (text == "cfg_attr", tokens.get(1)) {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let comma = |token: &TokenTree| match token {
                TokenTree::Punct(found) => found.as_char() == ',',
                _ => false,
            };
            for attribute in inner.split(comma).skip(1) {
                self.attribute(attribute.iter().cloned().collect());
            }
        }
    }

    fn literal(&mut self, literal: &str, span: Span) {
        let number = literal.starts_with(|c: char| c.is_ascii_digit());
        let based = ["0x", "0o", "0b"].iter().any(|base| literal.starts_with(base));
        let float =
            number && !based && literal.contains(['.', 'e', 'E']) && !literal.ends_with("size");
        self.apply(span, literal, |never| matches!(never, Float) && float);
    }
}

/// The words of an identifier, in lower case: `gpu_label`, `GpuLabel` and `GPU_LABEL` alike.
fn parts(ident: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before_lower = false;
    for c in ident.chars() {
        let starts = c.is_uppercase() && before_lower;
        if c == '_' || starts {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().expect("never empty").extend(c.to_lowercase());
        }
        before_lower = c.is_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        check(&File::new(path, text)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn core_is_kept_pure() {
        for bad in [
            "use tokio::sync::mpsc;",
            "use std::{cmp::Ordering, collections::{BTreeMap, HashMap}};",
            "use std::collections::HashSet as Set;",
            "fn f() -> std::time::Instant { std::time::Instant::now() }",
            "use std::{fs, fmt};",
            "fn f() { let x = std::fs::read(p); }",
            "fn f(x: f64) {}",
            "const HALF: i64 = 0.5;",
            "const MANY: i64 = 1e3 as i64;",
            "fn f(after: core::time::Duration) {}",
            "use core::net::IpAddr;",
            "fn f() { tracing::info!(\"x\"); }",
            "use tracing::{debug, Span};",
            "fn f() { println!(\"x\"); }",
            "#[derive(serde::Serialize)] struct S;",
            "use k8s_openapi::api::core::v1::Pod;",
            "fn f() { rand::random() }",
        ] {
            assert!(!said("core/src/a.rs", bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn comments_strings_and_other_words_are_free() {
        let good = "//! HashMap, serde and tokio are not here.\n\
                    /// No f64 either.\n\
                    fn log(rand: u64, kube: u64) -> &'static str { \"HashMap f64 todo!()\" }\n\
                    fn g() { let t = x.0.1; a != b; let v = vec![ignore]; }\n";
        assert_eq!(said("core/src/a.rs", good), Vec::<String>::new());
        assert!(said("scheduler/src/a.rs", "use std::collections::HashMap;").is_empty());
    }

    #[test]
    fn topology_knows_hardware_only() {
        for bad in [
            "fn f(node_labels: u8) {}",
            "struct LabelSelector;",
            "use std::io::Write;",
            "struct QueueName;",
            "use serde::Serialize;",
            "const KUBERNETES_ZONE: u8 = 0;",
            "fn f(now: Time) {}",
            "fn f() { println!(\"x\"); }",
            "fn f(share: f64) {}",
            "use std::thread;",
            "fn f() { std::process::exit(1) }",
        ] {
            let says = said("topology/src/a.rs", bad);
            assert!(!says.is_empty(), "{bad}");
            assert!(says[0].starts_with("topology/src/a.rs:1: "), "{says:?}");
        }
        let good = "fn timeline(unlabelled: u8) -> usize { 7usize + 0x1e3 }";
        assert!(said("topology/src/a.rs", good).is_empty());
    }

    #[test]
    fn the_shell_uses_the_contract_only() {
        for bad in [
            "use capstan_core::quota::tree::Tree;",
            "use capstan_core::{Engine, victims::search};",
            "fn f() { capstan_core::rules::fits(); }",
            "use capstan_core::model::state::ClusterState;",
            "use capstan_core::score::packing::Packing;",
        ] {
            assert_eq!(said("scheduler/src/a.rs", bad).len(), 1, "{bad}");
        }
        let good = "use capstan_core::{Engine, model::input::{Input, Text}, score::Weights};";
        assert_eq!(said("scheduler/src/a.rs", good), Vec::<String>::new());
    }

    #[test]
    fn unfinished_code_is_found_everywhere() {
        for bad in ["fn f() { todo!() }", "fn f() { unimplemented!(\"x\") }", "fn f() { dbg!(1); }"]
        {
            assert_eq!(said("tests/src/a.rs", bad).len(), 1, "{bad}");
        }
        assert_eq!(said("bench/src/a.rs", "#[test]\n#[ignore]\nfn f() {}").len(), 1);
        assert_eq!(said("bench/src/a.rs", "#[ignore = \"slow\"]\nfn f() {}").len(), 1);
        assert_eq!(said("bench/src/a.rs", "#[cfg_attr(all(), ignore)]\nfn f() {}").len(), 1);
    }

    #[test]
    fn identifiers_split_into_words() {
        assert_eq!(parts("gpu_label"), ["gpu", "label"]);
        assert_eq!(parts("LabelSelector"), ["label", "selector"]);
        assert_eq!(parts("KUBERNETES_ZONE"), ["kubernetes", "zone"]);
    }
}
