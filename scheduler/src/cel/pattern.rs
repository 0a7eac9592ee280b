//! Patterns as Go reads them, written for the engine that is here.
//!
//! Decides what a pattern is: the syntax of RE2 as Go has it, with its flags, classes, escapes and
//! bounds. What is made of it says all of that without a flag that lasts. Scripts and categories
//! are those that Go knows by name, in the Unicode of the engine. Groups catch nothing: nobody
//! asks what they caught.

/// Most often that something is repeated, by itself and by what is around it.
const REPEATS_MAX: u64 = 1_000;

/// What no character is in.
const NOTHING: &str = "[a&&b]";

/// Scripts whose name is one word; Go finds no other.
const SCRIPTS: &str = "Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki \
    Bopomofo Brahmi Braille Buginese Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic \
    Cuneiform Cypriot Cyrillic Deseret Devanagari Dogra Duployan Elbasan Elymaic Ethiopic \
    Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran Hebrew \
    Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi \
    Lao Latin Lepcha Limbu Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean \
    Marchen Medefaidrin Miao Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari Newa Nko \
    Nushu Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic Samaritan Saurashtra \
    Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac Tagalog Tagbanwa Takri \
    Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi \
    Wancho Yezidi Yi";

/// Categories, each with its long names.
const CATEGORIES: [(&str, &[&str]); 39] = [
    ("C", &["Other"]),
    ("Cc", &["Control", "Cntrl"]),
    ("Cf", &["Format"]),
    ("Cn", &["Unassigned"]),
    ("Co", &["Privateuse"]),
    ("Cs", &["Surrogate"]),
    ("L", &["Letter"]),
    ("Lc", &["Casedletter"]),
    ("Ll", &["Lowercaseletter"]),
    ("Lm", &["Modifierletter"]),
    ("Lo", &["Otherletter"]),
    ("Lt", &["Titlecaseletter"]),
    ("Lu", &["Uppercaseletter"]),
    ("M", &["Mark", "Combiningmark"]),
    ("Mc", &["Spacingmark"]),
    ("Me", &["Enclosingmark"]),
    ("Mn", &["Nonspacingmark"]),
    ("N", &["Number"]),
    ("Nd", &["Decimalnumber", "Digit"]),
    ("Nl", &["Letternumber"]),
    ("No", &["Othernumber"]),
    ("P", &["Punctuation", "Punct"]),
    ("Pc", &["Connectorpunctuation"]),
    ("Pd", &["Dashpunctuation"]),
    ("Pe", &["Closepunctuation"]),
    ("Pf", &["Finalpunctuation"]),
    ("Pi", &["Initialpunctuation"]),
    ("Po", &["Otherpunctuation"]),
    ("Ps", &["Openpunctuation"]),
    ("S", &["Symbol"]),
    ("Sc", &["Currencysymbol"]),
    ("Sk", &["Modifiersymbol"]),
    ("Sm", &["Mathsymbol"]),
    ("So", &["Othersymbol"]),
    ("Z", &["Separator"]),
    ("Zl", &["Lineseparator"]),
    ("Zp", &["Paragraphseparator"]),
    ("Zs", &["Spaceseparator"]),
    ("Any", &[]),
];

/// Classes of ASCII by their name between colons.
const NAMED: [(&str, &str); 14] = [
    ("alnum", "0-9A-Za-z"),
    ("alpha", "A-Za-z"),
    ("ascii", r"\x00-\x7F"),
    ("blank", r"\t\x20"),
    ("cntrl", r"\x00-\x1F\x7F"),
    ("digit", "0-9"),
    ("graph", r"\x21-\x7E"),
    ("lower", "a-z"),
    ("print", r"\x20-\x7E"),
    ("punct", r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E"),
    ("space", r"\x09-\x0D\x20"),
    ("upper", "A-Z"),
    ("word", "0-9A-Za-z_"),
    ("xdigit", "0-9A-Fa-f"),
];

/// How a part of a pattern is read.
#[derive(Clone, Copy, Default)]
struct Flags {
    /// `i`: upper case is lower case.
    fold: bool,
    /// `m`: lines begin and end within the text.
    lines: bool,
    /// `s`: `.` is an end of a line, too.
    newline: bool,
    /// `U`: what repeats takes as little as it can.
    lazy: bool,
}

/// What stands last, and may be repeated.
struct Last {
    /// Where it begins in what is made.
    begins: usize,
    /// How often what is in it is repeated.
    times: u64,
    /// It is repeated itself.
    repeated: bool,
}

/// What is around a group.
struct Around {
    flags: Flags,
    begins: usize,
    times: u64,
}

struct Reader<'a> {
    rest: &'a str,
    made: String,
    flags: Flags,
    groups: Vec<Around>,
    last: Option<Last>,
    /// How often something in this group is repeated, before what stands last.
    times: u64,
}

/// A pattern for the engine; `None`: it is none.
pub(super) fn translated(pattern: &str) -> Option<String> {
    let mut reader = Reader {
        rest: pattern,
        made: String::with_capacity(2 * pattern.len()),
        flags: Flags::default(),
        groups: Vec::new(),
        last: None,
        times: 1,
    };
    let mut repeated = false;
    while let Some(next) = reader.rest.chars().next() {
        repeated = reader.part(next, repeated)?;
    }
    reader.groups.is_empty().then_some(reader.made)
}

impl Reader<'_> {
    /// Reads one part, behind one that repeats or not; whether it is one that repeats.
    fn part(&mut self, next: char, repeated: bool) -> Option<bool> {
        match next {
            '(' if self.rest.starts_with("(?") => self.special()?,
            '(' => {
                self.skip(1);
                self.open(self.flags);
            }
            ')' => self.close()?,
            '|' => {
                self.skip(1);
                self.settle();
                self.made.push('|');
            }
            '^' => self.sign(if self.flags.lines { "(?m:^)" } else { r"\A" }),
            '$' => self.sign(if self.flags.lines { "(?m:$)" } else { r"\z" }),
            '.' => self.sign(if self.flags.newline { "(?s:.)" } else { "." }),
            '*' | '+' | '?' => {
                let most = (next == '?').then_some(1);
                self.skip(1);
                // Only counts are bounded.
                self.repeat(&next.to_string(), (0, most), false, repeated)?;
                return Some(true);
            }
            '{' => {
                let Some((least, most, length)) = counts(self.rest) else {
                    self.skip(1);
                    self.literal(u32::from('{'));
                    return Some(false);
                };
                let within = least.max(most.unwrap_or(0)) <= REPEATS_MAX;
                if !within || most.is_some_and(|most| least > most) {
                    return None;
                }
                let sign = self.rest[..length].to_owned();
                self.skip(length);
                self.repeat(&sign, (least, most), true, repeated)?;
                return Some(true);
            }
            '[' => self.class()?,
            '\\' => self.escape()?,
            _ => {
                self.skip(next.len_utf8());
                self.literal(next.into());
            }
        }
        Some(false)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    /// What stood last is not repeated any more.
    fn settle(&mut self) {
        if let Some(last) = self.last.take() {
            self.times = self.times.max(last.times);
        }
    }

    fn push(&mut self, made: &str) {
        self.settle();
        self.last = Some(Last { begins: self.made.len(), times: 1, repeated: false });
        self.made.push_str(made);
    }

    fn sign(&mut self, made: &str) {
        self.skip(1);
        self.push(made);
    }

    fn literal(&mut self, code: u32) {
        let cased = code >= 0x80 || char::from_u32(code).is_some_and(|c| c.is_ascii_alphabetic());
        let made = match char::from_u32(code) {
            None => NOTHING.to_owned(),
            Some(_) if self.flags.fold && cased => format!(r"(?i:\x{{{code:x}}})"),
            Some(c) if c.is_ascii_alphanumeric() => c.to_string(),
            Some(_) => format!(r"\x{{{code:x}}}"),
        };
        self.push(&made);
    }

    /// A class, or a part of one by itself.
    fn folded(&mut self, class: &str) {
        match self.flags.fold {
            true => self.push(&format!("(?i:{class})")),
            false => self.push(class),
        }
    }

    fn open(&mut self, flags: Flags) {
        self.settle();
        let around = Around { flags: self.flags, begins: self.made.len(), times: self.times };
        self.groups.push(around);
        (self.flags, self.times) = (flags, 1);
        self.made.push_str("(?:");
    }

    fn close(&mut self) -> Option<()> {
        self.skip(1);
        self.settle();
        let Around { flags, begins, times } = self.groups.pop()?;
        self.made.push(')');
        self.last = Some(Last { begins, times: self.times, repeated: false });
        (self.flags, self.times) = (flags, times);
        Some(())
    }

    /// Repeats what stands last.
    fn repeat(
        &mut self,
        sign: &str,
        (least, most): (u64, Option<u64>),
        counted: bool,
        repeated: bool,
    ) -> Option<()> {
        let mut lazy = self.flags.lazy;
        if self.rest.starts_with('?') {
            self.skip(1);
            lazy = !lazy;
        }
        let last = self.last.as_mut().filter(|_| !repeated)?;
        if std::mem::replace(&mut last.repeated, true) {
            self.made.insert_str(last.begins, "(?:");
            self.made.push(')');
        }
        self.made.push_str(sign);
        if lazy {
            self.made.push('?');
        }
        if counted {
            last.times = match most {
                Some(0) => 1,
                most => last.times.saturating_mul(most.unwrap_or(least).max(1)),
            };
            let bounded = least.max(most.unwrap_or(0)) >= 2;
            return (!bounded || last.times <= REPEATS_MAX).then_some(());
        }
        Some(())
    }

    /// What begins with `(?`: flags, or a group with flags or a name.
    fn special(&mut self) -> Option<()> {
        let inner = &self.rest[2..];
        if let Some(named) = inner.strip_prefix("P<").or_else(|| inner.strip_prefix('<')) {
            let (name, rest) = named.split_once('>')?;
            let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(known) {
                return None;
            }
            self.rest = &self.rest[self.rest.len() - rest.len()..];
            self.open(self.flags);
            return Some(());
        }
        let (mut flags, mut on, mut any) = (self.flags, true, false);
        for (at, letter) in inner.char_indices() {
            match letter {
                'i' => flags.fold = on,
                'm' => flags.lines = on,
                's' => flags.newline = on,
                'U' => flags.lazy = on,
                '-' if on => (on, any) = (false, false),
                ':' | ')' if on || any => {
                    self.skip(2 + at + 1);
                    match letter {
                        ':' => self.open(flags),
                        _ => self.flags = flags,
                    }
                    return Some(());
                }
                _ => return None,
            }
            any |= letter != '-';
        }
        None
    }

    /// What begins with a backslash, outside of a class.
    fn escape(&mut self) -> Option<()> {
        match self.rest[1..].chars().next()? {
            'A' => self.assertion(r"\A"),
            'z' => self.assertion(r"\z"),
            'b' => self.assertion(r"(?-u:\b)"),
            'B' => self.assertion(r"(?-u:\B)"),
            'Q' => {
                let quoted = &self.rest[2..];
                let (text, rest) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                let text = text.to_owned();
                self.rest = &self.rest[self.rest.len() - rest.len()..];
                text.chars().for_each(|c| self.literal(c.into()));
            }
            _ => match self.set()? {
                Some(set) => self.folded(&format!("[{set}]")),
                None => {
                    let code = self.character()?;
                    self.literal(code);
                }
            },
        }
        Some(())
    }

    fn assertion(&mut self, made: &str) {
        self.skip(1);
        self.sign(made);
    }

    /// A class.
    fn class(&mut self) -> Option<()> {
        self.skip(1);
        let mut made = String::from("[");
        if self.rest.starts_with('^') {
            self.skip(1);
            made.push('^');
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if self.rest.starts_with("[:")
                && let Some((name, rest)) = self.rest[2..].split_once(":]")
            {
                let (not, name) = name.strip_prefix('^').map_or(("", name), |name| ("^", name));
                let (_, ranges) = NAMED.iter().find(|(known, _)| *known == name)?;
                made.push_str(&format!("[{not}{ranges}]"));
                self.rest = rest;
                continue;
            }
            if let Some(set) = self.set()? {
                made.push_str(&set);
                continue;
            }
            let low = self.character()?;
            let mut high = low;
            if self.rest.starts_with('-') && !self.rest[1..].starts_with(']') && self.rest.len() > 1
            {
                self.skip(1);
                high = self.character()?;
            }
            if high < low {
                return None;
            }
            made.push_str(&range(low, high));
        }
        self.skip(1);
        made.push(']');
        self.folded(&made);
        Some(())
    }

    /// What begins with a backslash and stands for several characters, as a part of a class;
    /// nothing: it stands for one, or does not begin with a backslash.
    fn set(&mut self) -> Option<Option<String>> {
        let Some(behind) = self.rest.strip_prefix('\\') else { return Some(None) };
        let made = match behind.chars().next() {
            Some('d') => "0-9",
            Some('D') => "[^0-9]",
            Some('s') => r"\t\n\x0C\r\x20",
            Some('S') => r"[^\t\n\x0C\r\x20]",
            Some('w') => "0-9A-Za-z_",
            Some('W') => "[^0-9A-Za-z_]",
            Some(sign @ ('p' | 'P')) => {
                let (name, rest) = match behind[1..].strip_prefix('{') {
                    Some(inner) => inner.split_once('}')?,
                    None => {
                        let one = behind[1..].chars().next()?;
                        behind[1..].split_at(one.len_utf8())
                    }
                };
                let (negated, name) = name.strip_prefix('^').map_or((false, name), |it| (true, it));
                let made = property(name, (sign == 'P') != negated)?;
                self.rest = &self.rest[self.rest.len() - rest.len()..];
                return Some(Some(made));
            }
            _ => return Some(None),
        };
        self.skip(2);
        Some(Some(made.to_owned()))
    }

    /// A character, or an escape that stands for one: its code.
    fn character(&mut self) -> Option<u32> {
        let next = self.take()?;
        if next != '\\' {
            return Some(next.into());
        }
        let octal = |rest: &str| rest.chars().next().and_then(|digit| digit.to_digit(8));
        Some(match self.take()? {
            // One digit that is not zero is a group of before, and there are none.
            digit @ '0'..='7' if digit == '0' || octal(self.rest).is_some() => {
                let mut code = u32::from(digit) - u32::from('0');
                for _ in 1..3 {
                    let Some(digit) = octal(self.rest) else { break };
                    code = 8 * code + digit;
                    self.skip(1);
                }
                code
            }
            'x' => match self.take()? {
                '{' => {
                    let (digits, rest) = self.rest.split_once('}')?;
                    let known = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_hexdigit());
                    let significant = digits.trim_start_matches('0');
                    let code = u32::from_str_radix(&format!("0{significant}"), 16).ok();
                    self.rest = rest;
                    code.filter(|code| known && *code <= u32::from(char::MAX))?
                }
                digit => 16 * digit.to_digit(16)? + self.take()?.to_digit(16)?,
            },
            'a' => 0x07,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'v' => 0x0b,
            sign if sign.is_ascii() && !sign.is_ascii_alphanumeric() => sign.into(),
            _ => return None,
        })
    }

    fn take(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.skip(next.len_utf8());
        Some(next)
    }
}

/// Characters from one to another, as a part of a class. Halves of characters are in no text.
fn range(low: u32, high: u32) -> String {
    let halves = 0xd800..=0xdfff;
    let low = if halves.contains(&low) { 0xe000 } else { low };
    let high = if halves.contains(&high) { 0xd7ff } else { high };
    match low <= high {
        true => format!(r"\x{{{low:x}}}-\x{{{high:x}}}"),
        false => NOTHING.to_owned(),
    }
}

/// A script or category by its name, whatever its case and with any signs between words.
fn property(name: &str, negated: bool) -> Option<String> {
    let plain: String = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).collect();
    let (first, rest) = plain.split_at_checked(1)?;
    let name = format!("{}{}", first.to_ascii_uppercase(), rest.to_ascii_lowercase());
    let letter = if negated { 'P' } else { 'p' };
    match name.as_str() {
        "Ascii" if negated => return Some(r"[^\x00-\x7F]".to_owned()),
        "Ascii" => return Some(r"\x00-\x7F".to_owned()),
        "Assigned" => return property("Cn", !negated),
        _ => {}
    }
    let known = |(short, long): &&(&str, &[&str])| *short == name || long.contains(&&*name);
    Some(match CATEGORIES.iter().find(known) {
        // No character of a text is half of one.
        Some(("Cs", _)) if negated => r"\p{Any}".to_owned(),
        Some(("Cs", _)) => NOTHING.to_owned(),
        Some(("Any", _)) => format!(r"\{letter}{{Any}}"),
        Some((category, _)) => format!(r"\{letter}{{gc={category}}}"),
        None => {
            let script = SCRIPTS.split_ascii_whitespace().find(|script| *script == name)?;
            format!(r"\{letter}{{sc={script}}}")
        }
    })
}

/// `{least,most}` and its like, and how long it is; `None`: it is characters like others.
fn counts(rest: &str) -> Option<(u64, Option<u64>, usize)> {
    let (inner, _) = rest[1..].split_once('}')?;
    let count = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let plain = digits && (text == "0" || !text.starts_with('0'));
        plain.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (least, most) = match inner.split_once(',') {
        None => (count(inner)?, Some(count(inner)?)),
        Some((least, "")) => (count(least)?, None),
        Some((least, most)) => (count(least)?, Some(count(most)?)),
    };
    Some((least, most, inner.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is no pattern.
    const NONE: &str = r"a** a{2}{3} *a |* (*) (?i)* a{3,2} a{1001} (a{32}){32} (a{1000}){2} {2}
        \C \Z \8 \1 \q \E \é \x \x4 \x{} \x{110000} [a-\d] [z-a] [] [^] [[:foo:]] [\b] [\Qa] [a
        \pX \p{Grek} \p{Alphabetic} \p{gc=Lu} \p{Old_Italic} \p{^} \p{ (?P<>a) (?P<a-b>c) (?<a
        (?P=a) (?P>a) (?'a'b) (?>a) (?#a) (?-)a (?i-)a (?--i)a (?x)a (?R)a (?u)a (?i (? a) (a \";

    /// Patterns, each with a text that it fits.
    const FITS: &str = r"^\Qa+b\E+$ a+bb ^\Q\d \d ^a\Q\E*$ aaa ^\pN$ 5 ^\p{^Greek}$ a
        ^\P{^Greek}$ α ^\p{lowercase_letter}$ a ^\p{LC}$ a ^\p{ascii}$ a ^\PN$ a ^[\pN\P{Latin}]$ 5
        ^(?P<n>a)(?<_n>b)(?<n>c)$ abc ^a{,2}$ a{,2} ^a{01}$ a{01} ^{a}{}$ {a}{} ^(a{1000}){0}b b
        ^(?:a{0}){1000}b b ^a*(?i)*$ aaa ^a(?i)b(?-i)c$ aBc ^(?:(?i)a|b)c$ Bc ^(?i)a|B$ b
        ^^a$$ a ^(?)a(?:b)$ ab ^[[:word:]-]+$ a_- ^[[:^word:]]$ - ^[a\-z]+$ a-z ^[a-]+$ a-
        ^[\d-z]+$ 1-z ^[--/]+$ -./ ^[]-a]+$ ]^a ^[[:x]+$ [:x ^\x41\x{042}\103$ ABC ^\_\-\/$ _-/
        ^[\x{d800}a]$ a ^[^\x{d800}]$ a ^(?i)[^x]$ y ^\B-\B$ - ^(|a)+$ a ^a||b$ b a\z a
        ^(?i)\w$ ſ";

    /// Patterns, each with a text that it does not fit.
    const UNFIT: &str = r"^(?i:a)b$ AB ^\x{d800}$ a ^\p{Cs}$ a ^(?i)\W$ ſ ^\d$ ٤ \bé é (?m)^$ a
        ^a{0}$ a ^(?i-i)a$ A ^[^\W]$ é ^\P{Any}$ a ^[^[:^alpha:]]$ 1";

    fn fits(pattern: &str, text: &str) -> bool {
        let made = translated(pattern).expect(pattern);
        regex::Regex::new(&made).expect(pattern).is_match(text)
    }

    #[test]
    fn patterns_are_those_of_go() {
        for pattern in NONE.split_ascii_whitespace() {
            assert_eq!(translated(pattern), None, "{pattern}");
        }
        for (pairs, expected) in [(FITS, true), (UNFIT, false)] {
            let words: Vec<&str> = pairs.split_ascii_whitespace().collect();
            for pair in words.chunks_exact(2) {
                assert_eq!(fits(pair[0], pair[1]), expected, "{pair:?}");
            }
        }
        // Ends of lines are none of the text, unless it says so.
        assert!(fits("(?m)^b$", "a\nb\nc") && fits("(?s)a.b", "a\nb") && fits("^[^a]$", "\n"));
        assert!(!fits("a$", "a\n") && !fits(".", "\n") && !fits("(?m)a.b", "a\nb"));
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_panics_and_what_is_made_is_read(
            pattern in "([a-b]|[\\[\\](){}.?*+^$|,:\\-\\\\<>=!PpQEdDsSwWbBAzCximsU0-9]){0,24}",
        ) {
            if let Some(made) = translated(&pattern) {
                let read = regex::RegexBuilder::new(&made).size_limit(1 << 24).build();
                let large = matches!(read, Err(regex::Error::CompiledTooBig(_)));
                proptest::prop_assert!(read.is_ok() || large, "{pattern}: {made}");
            }
        }
    }
}
