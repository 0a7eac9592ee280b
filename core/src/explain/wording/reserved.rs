//! Reserved starts and forecasts in words.

use std::fmt;

use super::super::forecast::{Assumptions, Awaited, Forecast, Unreserved};
use super::super::quantity::counted;
use super::Reason;
use super::changes::once_started;
use crate::calendar::date;
use crate::model::input::Text;
use crate::time::{Span, Time};

/// What would delay a head whose start is reserved.
pub fn write_reserved(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let Reason::Reserved { head, queue, start, runs } = reason else { return Ok(()) };
    match runs {
        Some(runs) => write!(out, "runs for {runs}")?,
        None => out.write_str("says not how long it runs (capstan.sh/expected-runtime)")?,
    }
    write!(out, ", and would delay {head}")?;
    if let Some(queue) = queue {
        write!(out, " of queue {queue}")?;
    }
    write!(out, ", whose start about {} is reserved", Moment(*start))
}

impl fmt::Display for Forecast {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "starts about {}", Moment(self.start))?;
        if self.reserved {
            out.write_str(" (reserved)")?;
        }
        let said = self.assumes.to_string();
        match self.assumes.last.is_empty() {
            _ if said.is_empty() => Ok(()),
            true => write!(out, ", {said}"),
            false => write!(out, " {said}"),
        }
    }
}

impl fmt::Display for Assumptions {
    /// `if a/x ends as declared, once a/y has started, once the budget of q begins anew, after 1
    /// other of its queue unless it fits before`; no words where nothing is assumed.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let anew = |queue: &Text| format!("once the budget of {queue} begins anew");
        let ahead = (self.ahead > 0).then(|| {
            let others = counted(i64::from(self.ahead), "other");
            let sooner = if self.passes { " unless it fits before" } else { "" };
            format!("after {others} of its queue{sooner}")
        });
        let started = once_started(&self.after);
        let said = [ends_of(self), started, self.budget_of.as_ref().map(anew), ahead];
        out.write_str(&said.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// What has to end: `if a/x ends as declared`.
fn ends_of(assumed: &Assumptions) -> Option<String> {
    let last = assumed.last.first()?;
    let who = match assumed.last.as_slice() {
        _ if assumed.ends <= 1 => format!("{last} ends"),
        [one, other] if assumed.ends == 2 => format!("{one} and {other} end"),
        _ => format!("{} workloads end", assumed.ends),
    };
    let how = match assumed.learned {
        true => "as declared, or when such work did before",
        false => "as declared",
    };
    let unnamed = assumed.ends > 2 || assumed.ends == 2 && assumed.last.len() == 1;
    let latest = if unnamed { format!(", {last} last") } else { String::new() };
    Some(format!("if {who} {how}{latest}"))
}

impl fmt::Display for Awaited {
    /// What follows `wait`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaited::Turn => out.write_str("until it would delay no start that is reserved"),
            Awaited::Period { budget_of } => {
                write!(out, "for the next period of the budget of {budget_of}")
            }
            Awaited::RoomInPeriod { budget_of } => write!(
                out,
                "for the next period of the budget of {budget_of}, and then until there is quota \
                 and room for it"
            ),
        }
    }
}

impl fmt::Display for Unreserved {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreserved::Limit { most } => write!(
                out,
                "no start is reserved for it: {} (reservations.maxReserved) kept for others that \
                 wait for the same nodes or quota",
                match most {
                    1 => "1 is".to_owned(),
                    most => format!("{most} are"),
                }
            ),
            Unreserved::Behind { others } => write!(
                out,
                "no start is reserved for it: none was found for {} before it in its queue, and \
                 at a time no more are looked at",
                counted(i64::from(*others), "other")
            ),
            Unreserved::Plays { most } => write!(
                out,
                "no start is reserved for it: at a time {most} timetables are played to find \
                 starts, and those of others took all of them"
            ),
            Unreserved::Ends { looked_at, left_out } => write!(
                out,
                "no start is reserved for it: it does not fit after the first {looked_at} ends \
                 that could help it, and the other {left_out} are not looked at"
            ),
        }
    }
}

/// A point in time, to the minute: `2026-08-01 14:20 UTC`. What is reserved may be days away.
pub struct Moment(pub Time);

impl fmt::Display for Moment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = Span(self.0.0).0.div_euclid(60_000);
        let (year, month, day) = date(minutes.div_euclid(1_440));
        let (hour, minute) = (minutes.rem_euclid(1_440) / 60, minutes.rem_euclid(60));
        write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }
}

/// A run time as an annotation says it, in whole seconds: `26h30m`, `45s`.
pub(super) fn written(span: Span) -> String {
    let seconds = span.0 / 1_000;
    let parts = [(seconds / 3_600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let shown = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = shown.map(|(count, unit)| format!("{count}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.concat() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::view::Change;

    /// 2026-08-01 14:20 UTC.
    const START: Time = Time(1_785_594_000_000);

    #[test]
    fn moments_are_dates_of_the_calendar() {
        let shown = [0, 951_782_399_999, 951_782_400_000, START.0, -1];
        let shown = shown.map(|at| Moment(Time(at)).to_string());
        assert_eq!(
            shown,
            [
                "1970-01-01 00:00 UTC",
                "2000-02-28 23:59 UTC",
                "2000-02-29 00:00 UTC",
                "2026-08-01 14:20 UTC",
                "1969-12-31 23:59 UTC",
            ]
        );
    }

    #[test]
    fn who_would_delay_a_reserved_start_is_told_whose_and_when() {
        let reason = |runs| Reason::Reserved {
            head: "language/big".into(),
            queue: Some("team-language".into()),
            start: START,
            runs,
        };
        assert_eq!(
            reason(Some(Span::minutes(90))).to_string(),
            "runs for 1h30m, and would delay language/big of queue team-language, whose start \
             about 2026-08-01 14:20 UTC is reserved"
        );
        assert!(reason(None).to_string().starts_with("says not how long it runs"));
        assert_eq!((reason(None).code(), reason(None).kind()), ("HeldForReservation", "queue"));
    }

    #[test]
    fn forecasts_name_what_they_take_for_granted() {
        let words = |reserved, ends, last: &[&str], ahead| {
            let last = last.iter().map(|name| (*name).into()).collect();
            let learned = ends == 9;
            let assumes = Assumptions { ends, last, learned, ahead, ..Assumptions::default() };
            Forecast { start: START, reserved, assumes }.to_string()
        };
        let rows = [
            (words(true, 1, &["a/x"], 0), " (reserved) if a/x ends as declared"),
            (words(false, 2, &["a/x", "a/y"], 0), " if a/x and a/y end as declared"),
            (
                words(false, 5, &["a/x"], 2),
                " if 5 workloads end as declared, a/x last, after 2 others of its queue",
            ),
            (
                words(false, 9, &["a/x"], 0),
                " if 9 workloads end as declared, or when such work did before, a/x last",
            ),
            (words(false, 0, &[], 1), ", after 1 other of its queue"),
        ];
        for (said, rest) in rows {
            assert_eq!(said, format!("starts about 2026-08-01 14:20 UTC{rest}"));
        }
    }

    #[test]
    fn who_has_no_start_because_of_a_bound_is_told_the_number() {
        let limit = |most| Unreserved::Limit { most }.to_string();
        assert!(limit(1).contains("1 is (reservations.maxReserved) kept for others"));
        assert!(limit(16).contains("16 are (reservations.maxReserved) kept for others"));
        let behind = Unreserved::Behind { others: 4 }.to_string();
        assert!(behind.contains("none was found for 4 others before it in its queue"));
        let plays = Unreserved::Plays { most: 512 }.to_string();
        assert!(plays.contains("at a time 512 timetables are played to find starts"));
        let ends = Unreserved::Ends { looked_at: 2_048, left_out: 7 }.to_string();
        assert!(ends.contains("first 2048 ends") && ends.contains("other 7 are not looked at"));
    }

    #[test]
    fn what_is_taken_for_granted_is_told_by_itself() {
        let words = |ends, last: &[&str], ahead, passes| {
            let last = last.iter().map(|name| (*name).into()).collect();
            Assumptions { ends, last, ahead, passes, ..Assumptions::default() }.to_string()
        };
        let after = "if a/x ends as declared, after 1 other of its queue";
        assert_eq!(words(1, &["a/x"], 1, false), after);
        assert_eq!(words(1, &["a/x"], 1, true), format!("{after} unless it fits before"));
        assert_eq!(words(1, &["a/x"], 0, true), "if a/x ends as declared");
        assert_eq!(words(0, &[], 2, false), "after 2 others of its queue");
        assert_eq!(words(0, &[], 2, true), "after 2 others of its queue unless it fits before");
        assert_eq!(words(0, &[], 0, true), "");
    }

    #[test]
    fn a_start_says_that_it_waits_for_a_budget_to_begin_anew() {
        let words = |last: &[&str], ahead| {
            let last: Vec<Text> = last.iter().map(|name| (*name).into()).collect();
            let (ends, budget_of) = (last.len() as u32, Some("q".into()));
            let assumes = Assumptions { ends, last, budget_of, ahead, ..Assumptions::default() };
            Forecast { start: START, reserved: false, assumes }.to_string()
        };
        let budget = "once the budget of q begins anew";
        let rows = [
            (words(&[], 0), format!(", {budget}")),
            (words(&[], 1), format!(", {budget}, after 1 other of its queue")),
            (words(&["a/x"], 0), format!(" if a/x ends as declared, {budget}")),
        ];
        for (said, rest) in rows {
            assert_eq!(said, format!("starts about 2026-08-01 14:20 UTC{rest}"));
        }
    }

    #[test]
    fn a_start_says_who_has_to_have_started_before() {
        let words = |last: &[&str], after: &[&str], budget_of: Option<&str>| {
            let names =
                |of: &[&str]| -> Vec<Text> { of.iter().map(|name| (*name).into()).collect() };
            let (last, after) = (names(last), names(after));
            let (ends, budget_of) = (last.len() as u32, budget_of.map(Into::into));
            let assumes = Assumptions { ends, last, after, budget_of, ..Assumptions::default() };
            Forecast { start: START, reserved: false, assumes }.to_string()
        };
        let (ends, anew) = (" if a/x ends as declared", "once the budget of q begins anew");
        let rows = [
            (words(&[], &["b/y"], None), ", once b/y has started".to_owned()),
            (words(&["a/x"], &["b/y"], None), format!("{ends}, once b/y has started")),
            (
                words(&["a/x"], &["b/y", "b/z"], Some("q")),
                format!("{ends}, once b/y and b/z have started, {anew}"),
            ),
        ];
        for (said, rest) in rows {
            assert_eq!(said, format!("starts about 2026-08-01 14:20 UTC{rest}"));
        }
    }

    #[test]
    fn run_times_are_written_as_annotations_are_read() {
        let shown = [0, 45_999, 90_000, 7_200_000, 95_400_000, 3_601_000];
        let shown = shown.map(|ms| written(Span(ms)));
        assert_eq!(shown, ["0s", "45s", "1m30s", "2h", "26h30m", "1h1s"]);
    }

    #[test]
    fn ways_around_a_reserved_start_are_told() {
        let change = Change::DeclareRunTime { at_most: Span(5_400_000), by: Time(7_200_000) };
        let words = "declare a run time of at most 1h30m, to end by 1970-01-01 02:00 UTC \
                     (capstan.sh/expected-runtime)";
        assert_eq!(change.to_string(), words);
        let waits = |awaits| Change::WaitUntil { at: Time(0), awaits }.to_string();
        assert_eq!(waits(Awaited::Turn), "wait until it would delay no start that is reserved");
        let period = "wait for the next period of the budget of q";
        assert_eq!(waits(Awaited::Period { budget_of: "q".into() }), period);
        let room = format!("{period}, and then until there is quota and room for it");
        assert_eq!(waits(Awaited::RoomInPeriod { budget_of: "q".into() }), room);
    }
}
