//! Versions as semver 2.0.0 has them.

use std::cmp::Ordering;

/// A version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    /// Major, minor, patch.
    pub numbers: [u64; 3],
    /// What stands behind a `-`.
    before: Vec<String>,
    /// What stands behind a `+`; it decides nothing.
    build: Vec<String>,
}

impl Semver {
    /// Reads a version; `lenient`: with a `v` before it, leading zeros, or parts left out.
    pub fn parse(text: &str, lenient: bool) -> Option<Semver> {
        let text = if lenient { text.strip_prefix('v').unwrap_or(text) } else { text };
        let (rest, build) = match text.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (text, None),
        };
        let (core, before) = match rest.split_once('-') {
            Some((core, before)) => (core, Some(before)),
            None => (rest, None),
        };
        let mut numbers = [0; 3];
        let parts: Vec<&str> = core.split('.').collect();
        let whole =
            parts.len() == 3 || (lenient && parts.len() < 3 && before.is_none() && build.is_none());
        for (number, part) in numbers.iter_mut().zip(&parts) {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if !digits || (!lenient && part.len() > 1 && part.starts_with('0')) {
                return None;
            }
            *number = part.parse().ok()?;
        }
        let (before, build) = (identifiers(before, true)?, identifiers(build, false)?);
        whole.then_some(Semver { numbers, before, build })
    }

    /// Which goes first.
    pub fn precedence(&self, other: &Semver) -> Ordering {
        let by_number = self.numbers.cmp(&other.numbers);
        by_number.then_with(|| match (self.before.is_empty(), other.before.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let mut pairs = self.before.iter().zip(&other.before);
                let differs = pairs.find_map(|(a, b)| Some(part(a, b)).filter(|it| it.is_ne()));
                differs.unwrap_or(self.before.len().cmp(&other.before.len()))
            }
        })
    }
}

fn part(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

fn identifiers(text: Option<&str>, numbers: bool) -> Option<Vec<String>> {
    let Some(text) = text else { return Some(Vec::new()) };
    let one = |part: &str| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        let good = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let zeros = numbers && digits && part.len() > 1 && part.starts_with('0');
        (good && !part.is_empty() && !zeros).then(|| part.to_owned())
    };
    text.split('.').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_semver_says() {
        let order =
            ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0", "1.10.0"];
        let versions = order.map(|text| Semver::parse(text, false).expect(text));
        assert!(versions.windows(2).all(|pair| pair[0].precedence(&pair[1]).is_lt()));
        let built = Semver::parse("1.0.0+x", false).expect("a build");
        assert!(built.precedence(&versions[4]).is_eq());
        for odd in ["1.0", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.x.0", "1.0.0.0", ""] {
            assert_eq!(Semver::parse(odd, false), None, "{odd}");
        }
        assert!(Semver::parse("v1.02", true).is_some());
    }
}
