//! Sizes: files of at most 600 lines, functions of 70, lines of 100 columns; `//!` headers.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::Finding;
use crate::tree::File;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const COLUMNS: usize = 100;

/// Data and recorded output: as wide as they have to be.
const DATA: [&str; 11] = [
    ".json",
    ".jsonl",
    ".yaml",
    ".toml",
    ".csv",
    ".expected",
    ".svg",
    ".txt",
    ".mod",
    ".sum",
    "LICENSE",
];

/// All size rules on one file.
pub fn check(file: &File) -> Vec<Finding> {
    let mut findings = columns(file);
    if file.path.ends_with(".rs") {
        let lines = file.text.lines().count();
        if lines > FILE_LINES {
            let says = format!("{lines} lines, at most {FILE_LINES}: split it by concept");
            findings.push(Finding::new(&file.path, 0, says));
        }
        if !file.text.starts_with("//!") {
            let says = "no `//!` header: say what it decides, assumes and leaves to others";
            findings.push(Finding::new(&file.path, 1, says));
        }
        findings.extend(functions(file));
    }
    findings
}

fn columns(file: &File) -> Vec<Finding> {
    let table = |line: &str| file.path.ends_with(".md") && line.trim_start().starts_with('|');
    if DATA.iter().any(|end| file.path.ends_with(end)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let width = line.chars().count();
        if width > COLUMNS && !table(line) {
            let says = format!("{width} columns, at most {COLUMNS}: break the line");
            findings.push(Finding::new(&file.path, at + 1, says));
        }
    }
    findings
}

fn functions(file: &File) -> Vec<Finding> {
    let parsed = match syn::parse_file(&file.text) {
        Ok(parsed) => parsed,
        Err(error) => {
            let line = error.span().start().line;
            return vec![Finding::new(&file.path, line, format!("does not parse: {error}"))];
        }
    };
    let mut long = Long { path: &file.path, findings: Vec::new() };
    long.visit_file(&parsed);
    long.findings
}

struct Long<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl Long<'_> {
    /// From `fn` to the closing brace; attributes and docs do not count.
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let start = signature.fn_token.span().start().line;
        let lines = block.brace_token.span.close().end().line + 1 - start;
        if lines > FUNCTION_LINES {
            let name = &signature.ident;
            let says = format!("fn {name}: {lines} lines, at most {FUNCTION_LINES}: split it");
            self.findings.push(Finding::new(self.path, start, says));
        }
    }
}

impl<'ast> Visit<'ast> for Long<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        check(&File::new(path, text)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_long_file_is_found() {
        let text = format!("//! Long.\n{}", "\n".repeat(FILE_LINES));
        assert_eq!(said("a.rs", &text), ["a.rs:0: 601 lines, at most 600: split it by concept"]);
        assert!(said("a.rs", &format!("//! Long.\n{}", "\n".repeat(FILE_LINES - 1))).is_empty());
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        let says = said("a.rs", "// A comment.\nfn f() {}\n");
        assert_eq!(says.len(), 1, "{says:?}");
        assert!(says[0].starts_with("a.rs:1: no `//!` header"));
    }

    #[test]
    fn a_wide_line_is_found_unless_it_is_a_table_or_data() {
        let wide = "x".repeat(COLUMNS + 1);
        assert_eq!(said("a.md", &wide), ["a.md:1: 101 columns, at most 100: break the line"]);
        assert_eq!(said("a.rs", &format!("//! A.\n// {wide}")).len(), 1);
        assert!(said("a.md", &format!("| {wide} |")).is_empty());
        assert!(said("a.yaml", &wide).is_empty());
        assert!(said("a.md", &"×".repeat(COLUMNS)).is_empty(), "columns, not bytes");
    }

    #[test]
    fn long_functions_of_every_kind_are_found() {
        let body = "\n".repeat(FUNCTION_LINES);
        for text in [
            format!("//! A.\nfn f() {{{body}}}"),
            format!("//! A.\nimpl S {{ fn f() {{{body}}} }}"),
            format!("//! A.\ntrait T {{ fn f() {{{body}}} }}"),
            format!("//! A.\nfn g() {{ fn f() {{{body}}} }}"),
        ] {
            let says = said("a.rs", &text);
            assert!(says.iter().any(|s| s.starts_with("a.rs:2: fn f: 71 lines")), "{says:?}");
        }
        let short = "\n".repeat(FUNCTION_LINES - 1);
        assert!(said("a.rs", &format!("//! A.\n#[a]\n#[b]\nfn f() {{{short}}}")).is_empty());
    }
}
