//! Names and numbers made short enough for a table; who shortens several sees that they stay
//! distinct.

/// The text in at most `width` characters, its middle replaced by `…`: both ends of a Kubernetes
/// name tell more than its middle.
pub fn shorten_middle(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    // The end of a name is what differs between siblings (`-worker-12`).
    let head = kept / 2;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - (kept - head)).collect();
    if width == 0 { String::new() } else { format!("{start}…{end}") }
}

/// A list of node names in at most `width` characters: `a1 a2 a3`, else `gpu-[1-12] h4`, else as
/// many as fit and `+9 more`. The names must be distinct; order does not matter.
pub fn node_list(names: &[&str], width: usize) -> String {
    let mut sorted: Vec<(&str, Option<u64>, &str)> = names.iter().map(|name| split(name)).collect();
    sorted.sort();
    let plain = sorted.iter().map(|(_, _, name)| *name).collect::<Vec<_>>().join(" ");
    if plain.chars().count() <= width {
        return plain;
    }
    let groups = ranges(&sorted);
    let all = groups.iter().map(|group| group.0.as_str()).collect::<Vec<_>>().join(" ");
    if all.chars().count() <= width {
        return all;
    }
    cut_list(&groups, names.len(), width)
}

/// Columns that the nodes of one row may take.
const SPAN: usize = 36;

/// The nodes of one row: `b1`, `gpu-[1-12]`, `gpu-1 gpu-[3-4]`, else as many as fit and
/// `+9 more`. No node is in it that is not among the names.
pub fn node_span(names: &[&str]) -> String {
    let mut sorted: Vec<(&str, Option<u64>, &str)> = names.iter().map(|name| split(name)).collect();
    sorted.sort();
    let groups = ranges(&sorted);
    let all = groups.iter().map(|group| group.0.as_str()).collect::<Vec<_>>().join(" ");
    if names.len() < 2 || all.chars().count() <= SPAN {
        return all;
    }
    cut_list(&groups, names.len(), SPAN)
}

/// A count with thousands apart: `15,000`.
pub fn thousands(count: i64) -> String {
    let digits = count.unsigned_abs().to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if count < 0 { format!("-{out}") } else { out }
}

/// Prefix, number at the end, whole name; a number with leading zeros is part of the prefix's
/// spelling and is not joined into ranges.
fn split(name: &str) -> (&str, Option<u64>, &str) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (prefix, number) = name.split_at(name.len() - digits);
    let canonical = !number.is_empty() && (number == "0" || !number.starts_with('0'));
    match number.parse() {
        Ok(value) if canonical => (prefix, Some(value), name),
        _ => (name, None, name),
    }
}

/// Names of one prefix with consecutive numbers, or one name alone.
struct Run<'a> {
    prefix: &'a str,
    span: Option<(u64, u64)>,
    first: &'a str,
}

impl Run<'_> {
    /// How it is written, and how many names it stands for.
    fn words(&self) -> (String, usize) {
        match self.span {
            Some((first, last)) if first < last => {
                let count = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
                (format!("{}[{first}-{last}]", self.prefix), count)
            }
            _ => (self.first.to_owned(), 1),
        }
    }
}

/// Runs of consecutive numbers under one prefix, each with how many names it stands for.
fn ranges(sorted: &[(&str, Option<u64>, &str)]) -> Vec<(String, usize)> {
    let mut runs: Vec<Run> = Vec::new();
    for (prefix, number, name) in sorted {
        if let (Some(run), Some(number)) = (runs.last_mut(), *number)
            && run.prefix == *prefix
            && let Some((_, last)) = &mut run.span
            && last.checked_add(1) == Some(number)
        {
            *last = number;
        } else {
            runs.push(Run { prefix, span: number.map(|number| (number, number)), first: name });
        }
    }
    runs.iter().map(Run::words).collect()
}

/// As many groups as fit, then `+N more`; the first one is shortened if it must be.
fn cut_list(groups: &[(String, usize)], total: usize, width: usize) -> String {
    let mut best = None;
    let (mut shown, mut text) = (0, String::new());
    for (name, count) in groups {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(name);
        shown += count;
        let candidate = format!("{text} +{} more", total - shown);
        if candidate.chars().count() <= width {
            best = Some(candidate);
        }
    }
    best.unwrap_or_else(|| {
        let (first, count) = groups.first().map_or(("", 0), |(name, count)| (name, *count));
        let tail = if total > count { format!(" +{} more", total - count) } else { String::new() };
        let room = width.saturating_sub(tail.chars().count());
        if room < 6 {
            return shorten_middle(&format!("{total} nodes"), width);
        }
        format!("{}{tail}", shorten_middle(first, room))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shorten_middle("short", 5), "short");
        assert_eq!(
            shorten_middle("team-vision/train-resnet-worker-12", 20),
            "team-visi…-worker-12"
        );
        assert_eq!(shorten_middle("abc", 1), "…");
        assert_eq!(shorten_middle("abc", 0), "");
    }

    #[test]
    fn nodes_are_listed_then_joined_then_cut() {
        assert_eq!(node_list(&["a3", "a1", "a2"], 20), "a1 a2 a3");
        let many: Vec<String> = (1..=12).map(|number| format!("gpu-{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(node_list(&many, 20), "gpu-[1-12]");
        let holes = ["gpu-1", "gpu-3", "gpu-5", "gpu-7", "gpu-9", "gpu-11"];
        assert_eq!(node_list(&holes, 20), "gpu-1 gpu-3 +4 more");
        assert_eq!(node_list(&["ip-10-0-131-7.ec2.internal", "b"], 20), "b +1 more");
        assert_eq!(node_list(&["ip-10-0-131-7.ec2.internal", "x"], 12), "2 nodes");
        let long = ["ip-10-0-131-7.ec2.internal", "ip-10-0-131-8.ec2.internal"];
        assert_eq!(node_list(&long, 16), "ip-…rnal +1 more");
        assert_eq!(node_list(&long, 8), "2 nodes");
    }

    #[test]
    fn neighbours_become_a_span() {
        assert_eq!(node_span(&["b1"]), "b1");
        assert_eq!(node_span(&["b1", "b2"]), "b[1-2]");
        assert_eq!(node_span(&["b1", "b2", "b3"]), "b[1-3]");
        assert_eq!(node_span(&["b4", "b1", "b3"]), "b1 b[3-4]");
        assert_eq!(node_span(&["alpha", "beta", "gamma"]), "alpha beta gamma");
        let long = ["a-node-with-a-long-name", "b-node-with-a-long-name", "c"];
        assert_eq!(node_span(&long), "a-node-with-a-long-name +2 more");
    }

    #[test]
    fn counts_have_thousands_apart() {
        let shown: Vec<String> = [0, 999, 1_000, 15_000, -1_234_567].map(thousands).into();
        assert_eq!(shown, ["0", "999", "1,000", "15,000", "-1,234,567"]);
    }
}
