//! What holds for every text output, and what is taken out of it before it is compared.

use std::path::Path;

/// Widest line that people should meet.
pub const COLUMNS: usize = 100;

/// What is wrong with a text output whatever it says.
pub fn faults(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in text.lines() {
        let width = line.chars().count();
        if width > COLUMNS {
            wrong.push(format!("text line of {width} columns: {line}"));
        }
        if line.contains('\u{1b}') {
            wrong.push(format!("colour although this is no terminal: {line:?}"));
        }
        if line.ends_with(' ') || line.contains('\t') {
            wrong.push(format!("a blank at the end of a line, or a tab: {line:?}"));
        }
    }
    if text.trim().is_empty() {
        wrong.push("nothing printed".into());
    }
    wrong
}

/// The text without what differs between machines: the folder's path, and how long it took. Where
/// the first paragraph breaks depends on that duration, so its words are compared in one line.
pub fn stable(text: &str, folder: &Path) -> String {
    let folder = format!("{}/", folder.display());
    let text = text.replace(&folder, "");
    let (first, rest) = text.split_at(text.find("\n\n").unwrap_or(text.len()));
    if !first.contains("round") {
        return text;
    }
    let words = first.replace('\n', " ");
    format!("{}{rest}", without_elapsed(&words))
}

/// `Settled after 3 rounds in 1.8 ms.` becomes `Settled after 3 rounds in … ms.`
fn without_elapsed(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    for at in 1..words.len() {
        let unit = words[at].trim_end_matches(['.', ',']);
        let number = words[at - 1].chars().all(|c| c.is_ascii_digit() || c == '.');
        if number && matches!(unit, "µs" | "ms" | "s") {
            words[at - 1] = "…";
            words[at] = if words[at].ends_with('.') { "ms." } else { "ms," };
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_and_folders_are_taken_out() {
        let text = "Settled after 3\nrounds in 1.8 ms.\n\nNext: explain -f /tmp/x/a.yaml\n";
        let stable = stable(text, Path::new("/tmp/x"));
        assert_eq!(stable, "Settled after 3 rounds in … ms.\n\nNext: explain -f a.yaml\n");
        assert_eq!(without_elapsed("in 1 round, 950 µs, ok"), "in 1 round, … ms, ok");
    }

    #[test]
    fn wide_coloured_and_empty_text_is_found() {
        assert_eq!(faults(&"×".repeat(COLUMNS)), Vec::<String>::new());
        assert_eq!(faults(&"x".repeat(COLUMNS + 1)).len(), 1);
        assert_eq!(faults("\u{1b}[1mbold\u{1b}[0m").len(), 1);
        assert_eq!(faults("\n").len(), 1);
        assert_eq!(faults("a \n").len(), 1);
    }
}
