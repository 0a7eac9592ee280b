//! The grammar of a scenario's leading comment.
//!
//! ```text
//! # Why: what rule this shows, in prose; lines without a mark are for readers only.
//! # $ simulate THIS --cycles 1
//! # => admitted team/a team/b
//! # => pending team/c WaitingForQuota "2 left"
//! ```
//!
//! A `$` line is a command without the program's name: `THIS` is the file, `./x` a neighbour of
//! it. `=>` lines belong to the `$` line before them. Words are split at blanks; a fragment that
//! has blanks stands in double quotes. A file that nothing is expected of, or that states an
//! expectation nobody knows, does not parse.

/// What a header asks for.
#[derive(Debug)]
pub struct Header {
    /// The commands, in order; never empty.
    pub runs: Vec<Run>,
}

/// One command with its expectations.
#[derive(Debug)]
pub struct Run {
    /// Words of the command line.
    pub words: Vec<String>,
    /// What must come of it, with the line that says so; never empty.
    pub expected: Vec<(usize, Expected)>,
}

/// One expectation.
#[derive(Debug, PartialEq, Eq)]
pub enum Expected {
    /// Exit code, when it is not 0.
    Exit(i32),
    /// Newly admitted workloads: part of the whole list.
    Admitted(Vec<String>),
    /// A waiting workload: reason code (`*`: any) and fragments of its message.
    Pending(String, String, Vec<String>),
    /// A victim, its preemptor and the reason (`*`: any).
    Preempted(String, String, String),
    /// Flavors that a workload holds: resource and flavor.
    Flavor(String, Vec<(String, String)>),
    /// Nodes of a workload, each once for each pod on it, sorted.
    Nodes(String, Vec<String>),
    /// State of a workload.
    State(String, String),
    /// The workload holds borrowed quota (or, negated, does not).
    Borrowed(String, bool),
    /// A value in the JSON, by pointer; the value is JSON itself, or a bare word.
    Json(String, String),
    /// Exactly these nodes are feasible.
    Feasible(Vec<String>),
    /// A node refuses, with these fragments in its reasons.
    Refused(String, Vec<String>),
    /// The first node has the higher total score.
    Better(String, String),
    /// The first node has the higher value of a score term.
    Term(String, String, String),
    /// One line of standard error has all these fragments.
    Error(Vec<String>),
    /// The text output has this fragment.
    Text(String),
}

impl Header {
    /// Reads the leading comment of a file; the error starts with the line number.
    pub fn parse(source: &str) -> Result<Header, String> {
        let mut runs: Vec<Run> = Vec::new();
        for (at, line) in source.lines().enumerate() {
            let number = at + 1;
            let Some(rest) = line.strip_prefix('#') else { break };
            let rest = rest.trim();
            if let Some(command) = rest.strip_prefix("$ ") {
                let words = words(command).map_err(|e| format!("{number}: {e}"))?;
                runs.push(Run { words, expected: Vec::new() });
            } else if let Some(wanted) = rest.strip_prefix("=>") {
                let run = runs.last_mut().ok_or(format!("{number}: no `$` line before it"))?;
                let wanted = words(wanted).and_then(expected);
                run.expected.push((number, wanted.map_err(|e| format!("{number}: {e}"))?));
            }
        }
        match runs.iter().find(|run| run.expected.is_empty()) {
            Some(run) => Err(format!("1: nothing is expected of `{}`", run.words.join(" "))),
            None if runs.is_empty() => Err("1: no `# $ command` in the leading comment".into()),
            None => Ok(Header { runs }),
        }
    }
}

impl Run {
    /// Whether it simulates (as against explaining or checking).
    pub fn is_simulate(&self) -> bool {
        self.words.first().is_some_and(|word| word == "simulate")
    }

    /// Whether it takes `--output json`.
    pub fn answers_json(&self) -> bool {
        self.words.first().is_some_and(|word| word == "simulate" || word == "explain")
    }

    /// The exit code wanted.
    pub fn exit(&self) -> i32 {
        let stated = self.expected.iter().find_map(|(_, wanted)| match wanted {
            Expected::Exit(code) => Some(*code),
            _ => None,
        });
        stated.unwrap_or(0)
    }

    /// Fragments wanted in the text output, with their lines.
    pub fn text_fragments(&self) -> impl Iterator<Item = (usize, &str)> {
        self.expected.iter().filter_map(|(line, wanted)| match wanted {
            Expected::Text(fragment) => Some((*line, fragment.as_str())),
            _ => None,
        })
    }
}

/// Splits at blanks; double quotes keep blanks together.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut found, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("a quote is not closed")?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        found.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(found)
}

fn expected(words: Vec<String>) -> Result<Expected, String> {
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    let own = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    Ok(match texts.as_slice() {
        ["exit", code] => Expected::Exit(code.parse().map_err(|_| "exit takes a number")?),
        ["nothing"] => Expected::Admitted(Vec::new()),
        ["admitted", names @ ..] if !names.is_empty() => Expected::Admitted(own(names)),
        ["pending", name, code, rest @ ..] => {
            Expected::Pending((*name).into(), (*code).into(), own(rest))
        }
        ["pending", name] => Expected::Pending((*name).into(), "*".into(), Vec::new()),
        ["preempted", victim, "by", preemptor, rest @ ..] if rest.len() < 2 => {
            let reason = rest.first().unwrap_or(&"*");
            Expected::Preempted((*victim).into(), (*preemptor).into(), (*reason).into())
        }
        ["flavor", name, pairs @ ..] if !pairs.is_empty() => {
            let split = |pair: &&str| {
                let (resource, flavor) = pair.split_once('=').ok_or("want resource=flavor")?;
                Ok((resource.to_owned(), flavor.to_owned()))
            };
            let pairs: Result<Vec<_>, String> = pairs.iter().map(split).collect();
            Expected::Flavor((*name).into(), pairs?)
        }
        ["nodes", name, nodes @ ..] => {
            let mut nodes = own(nodes);
            nodes.sort();
            Expected::Nodes((*name).into(), nodes)
        }
        ["state", name, state] => Expected::State((*name).into(), (*state).into()),
        ["borrowed", name] => Expected::Borrowed((*name).into(), true),
        ["own", name] => Expected::Borrowed((*name).into(), false),
        ["json", pointer, value] => Expected::Json((*pointer).into(), (*value).into()),
        ["feasible", nodes @ ..] => {
            let mut nodes = own(nodes);
            nodes.sort();
            Expected::Feasible(nodes)
        }
        ["refused", node, rest @ ..] if !rest.is_empty() => {
            Expected::Refused((*node).into(), own(rest))
        }
        ["better", more, less] => Expected::Better((*more).into(), (*less).into()),
        ["term", term, more, less] => {
            Expected::Term((*term).into(), (*more).into(), (*less).into())
        }
        ["error", rest @ ..] if !rest.is_empty() => Expected::Error(own(rest)),
        ["text", fragment] => Expected::Text((*fragment).into()),
        _ => return Err(format!("no such expectation: {}", words.join(" "))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_expectations_are_read_with_their_lines() {
        let header = Header::parse(concat!(
            "# Why: a rule.\n",
            "# $ simulate THIS --cycles 1\n",
            "# => admitted a/b c/d\n",
            "# => pending a/e WaitingForQuota \"2 left\" cpu\n",
            "kind: Pod\n",
            "# => nonsense after the header is YAML's business\n",
        ))
        .expect("parses");
        let run = &header.runs[0];
        assert_eq!(run.words, ["simulate", "THIS", "--cycles", "1"]);
        assert_eq!(run.expected[0], (3, Expected::Admitted(vec!["a/b".into(), "c/d".into()])));
        let pending = Expected::Pending(
            "a/e".into(),
            "WaitingForQuota".into(),
            vec!["2 left".into(), "cpu".into()],
        );
        assert_eq!(run.expected[1], (4, pending));
    }

    #[test]
    fn a_header_that_checks_nothing_does_not_parse() {
        for (source, says) in [
            ("kind: Pod\n", "no `# $ command`"),
            ("# $ simulate THIS\nkind: Pod\n", "nothing is expected"),
            ("# => admitted a/b\n", "1: no `$` line"),
            ("# $ simulate THIS\n# => admited a/b\n", "2: no such expectation"),
            ("# $ simulate THIS\n# => text \"open\n", "2: a quote is not closed"),
        ] {
            let error = Header::parse(source).expect_err(source);
            assert!(error.contains(says), "{source:?}: {error}");
        }
    }
}
