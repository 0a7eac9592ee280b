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

/// The text without what differs between machines: the folder's path and durations of real time.
pub fn stable(text: &str, folder: &Path) -> String {
    let folder = format!("{}/", folder.display());
    let text = text.replace(&folder, "");
    let ended = text.ends_with('\n');
    let mut lines: Vec<String> = text.lines().map(without_elapsed).collect();
    if ended {
        lines.push(String::new());
    }
    lines.join("\n")
}

/// `Settled after 3 rounds in 1.8 ms.` becomes `Settled after 3 rounds in … ms.`
fn without_elapsed(line: &str) -> String {
    let Some((before, after)) = line.split_once(" rounds in ").or(line.split_once(" round in "))
    else {
        return line.to_owned();
    };
    let gap = &line[before.len()..line.len() - after.len()];
    let number = after.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(after.len());
    let rest = after[number..].trim_start();
    let unit = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    format!("{before}{gap}… ms{}", &rest[unit..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_and_folders_are_taken_out() {
        let text = "Settled after 3 rounds in 1.8 ms.\nNext: explain -f /tmp/x/a.yaml\n";
        let stable = stable(text, Path::new("/tmp/x"));
        assert_eq!(stable, "Settled after 3 rounds in … ms.\nNext: explain -f a.yaml\n");
        assert_eq!(without_elapsed("after 1 round in 950 µs, ok"), "after 1 round in … ms, ok");
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
