//! The words for budgets of queues: what may be spent, what was, and until when.

use std::fmt;

use crate::calendar::{Period, Stamp};
use crate::explain::reason::Overspent;
use crate::model::input::Enforcement;
use crate::quota::spending::{Account, Amount, Over};

const SECONDS_OF_AN_HOUR: i64 = 3_600;

impl fmt::Display for Period {
    /// `day`, as in "a day".
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Period::Day => "day",
            Period::Week => "week",
            Period::Month => "month",
        })
    }
}

impl Amount {
    /// The number with its unit in front, if that is where it stands.
    fn number(self) -> String {
        match self {
            Amount::Usd(usd) => format!("${usd}"),
            Amount::GpuSeconds(seconds) => gpu_hours(seconds),
        }
    }

    /// Never less than it is, where people are told what is not enough: `$500.01`.
    pub(super) fn at_least(self) -> String {
        let number = match self {
            Amount::Usd(usd) => format!("${}", usd.rounded_up()),
            Amount::GpuSeconds(seconds) => {
                let thousandths = i128::from(seconds) * 1_000;
                let up = thousandths + i128::from(SECONDS_OF_AN_HOUR) - 1;
                thousandths_in_words(up / i128::from(SECONDS_OF_AN_HOUR))
            }
        };
        format!("{number}{}", self.unit())
    }

    fn unit(self) -> &'static str {
        match self {
            Amount::Usd(_) => "",
            Amount::GpuSeconds(_) => " GPU-hours",
        }
    }
}

impl fmt::Display for Amount {
    /// `$500.00`, `12.5 GPU-hours`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.number(), self.unit())
    }
}

impl Overspent {
    /// `budget of team, $500.00 a day, is spent ($512.40)`.
    pub fn is_spent(&self) -> String {
        let Overspent { cluster_queue, over, period, .. } = self;
        let (limit, spent) = (over.limit, over.spent.number());
        format!("budget of {cluster_queue}, {limit} a {period}, is spent ({spent})")
    }
}

impl fmt::Display for Overspent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overspent { cluster_queue, over, period, until } = self;
        if over.for_ever() {
            return write!(
                out,
                "budget of {cluster_queue} is {} a {period}: it admits nothing",
                over.limit
            );
        }
        write!(out, "{}; admits again {}", self.is_spent(), Stamp(*until))
    }
}

/// GPU-hours, with three decimals at most, rounded down.
fn gpu_hours(seconds: i64) -> String {
    thousandths_in_words(i128::from(seconds) * 1_000 / i128::from(SECONDS_OF_AN_HOUR))
}

fn thousandths_in_words(thousandths: i128) -> String {
    match (thousandths / 1_000, thousandths % 1_000) {
        (whole, 0) => whole.to_string(),
        (whole, rest) => {
            let rest = format!("{rest:03}");
            format!("{whole}.{}", rest.trim_end_matches('0'))
        }
    }
}

/// What an account has of its budget: pairs of what was spent and what may be.
fn pairs(account: &Account) -> Vec<(Amount, Amount)> {
    let limit = account.limit();
    let usd = limit.usd.map(|limit| (Amount::Usd(account.usd()), Amount::Usd(limit)));
    let gpus = limit
        .gpu_seconds
        .map(|limit| (Amount::GpuSeconds(account.gpu_seconds()), Amount::GpuSeconds(limit)));
    usd.into_iter().chain(gpus).collect()
}

/// Spent and may be spent, for a table: `$312.40/$500.00`, `12.5/100 GPU-hours`. Where members
/// run at unknown prices dollars have a `+`, where at such as nobody recorded a `~`.
pub fn spent_of(account: &Account) -> String {
    let rate = account.rate();
    let words = pairs(account).into_iter().map(|(spent, limit)| {
        let said = |so: bool, mark| if so && matches!(spent, Amount::Usd(_)) { mark } else { "" };
        let (about, more) = (said(rate.assumed > 0, "~"), said(rate.unpriced > 0, "+"));
        format!("{about}{}{more}/{}{}", spent.number(), limit.number(), limit.unit())
    });
    words.collect::<Vec<_>>().join(", ")
}

/// What is taken for granted of what is spent now, if anything is.
pub fn assumption(account: &Account) -> Option<String> {
    let pods = account.rate().assumed;
    account.limit().usd.filter(|_| pods > 0)?;
    Some(match pods {
        1 => "1 pod of which no price was recorded is charged as its node costs now".to_owned(),
        pods => {
            format!(
                "{pods} pods of which no price was recorded are charged as their nodes cost now"
            )
        }
    })
}

/// What may be spent: `$500.00 and 100 GPU-hours a day`.
fn limit_of(account: &Account) -> String {
    let limits = pairs(account).into_iter().map(|(_, limit)| limit.to_string());
    format!("{} a {}", limits.collect::<Vec<_>>().join(" and "), account.limit().period)
}

/// What may be spent, what follows once it is, and what is taken for granted.
pub fn standing(account: &Account) -> String {
    let says = within(account);
    match assumption(account) {
        Some(assumes) => format!("{says}; {assumes}"),
        None => says,
    }
}

fn within(account: &Account) -> String {
    let limit = limit_of(account);
    if account.over().is_none() {
        return format!("may spend {limit}");
    }
    let until = Stamp(account.period().1);
    let for_ever = account.reached().any(Over::for_ever);
    match account.limit().enforcement {
        Enforcement::Hard if for_ever => {
            format!("budget is {limit}: it admits nothing, what runs goes on")
        }
        Enforcement::Hard => {
            format!("budget of {limit} is spent; admits again {until}, what runs goes on")
        }
        Enforcement::Soft => {
            format!("budget of {limit} is spent; until {until} its work is reclaimed first")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::SpendingLimit;
    use crate::money::MicroUsd;
    use crate::quota::rate::Rate;
    use crate::time::Time;

    #[test]
    fn a_budget_that_is_spent_is_said_with_its_numbers_and_its_end() {
        let usd = |cents: i64| Amount::Usd(MicroUsd(cents * 10_000));
        let over = Over { limit: usd(50_000), spent: usd(51_240) };
        let until = Time(1_795_737_600_000);
        let period = Period::Day;
        let money = Overspent { cluster_queue: "team".into(), over, period, until };
        assert_eq!(
            money.to_string(),
            "budget of team, $500.00 a day, is spent ($512.40); admits again 2026-11-27T00:00:00Z"
        );
        let (limit, spent) = (Amount::GpuSeconds(360_000), Amount::GpuSeconds(360_900));
        let over = Over { limit, spent };
        let gpus = Overspent { over, period: Period::Week, ..money };
        assert!(gpus.to_string().contains("100 GPU-hours a week, is spent (100.25)"), "{gpus}");
        let none = Overspent { over: Over { limit: usd(0), spent: usd(0) }, ..gpus };
        assert_eq!(none.to_string(), "budget of team is $0.00 a week: it admits nothing");
    }

    #[test]
    fn prices_that_nobody_recorded_are_said() {
        let limit = |usd: Option<i64>| SpendingLimit {
            usd: usd.map(|usd| MicroUsd(usd * 1_000_000)),
            gpu_seconds: Some(360_000),
            period: Period::Day,
            enforcement: Enforcement::Hard,
        };
        let per_hour = MicroUsd(2_000_000);
        let rate = |assumed, unpriced| Rate { per_hour, milli_gpus: 4_000, unpriced, assumed };
        let now = Time(1_795_651_200_000);
        let said = |usd, rate| {
            let account = Account::begun(limit(usd), now, rate);
            (spent_of(&account), standing(&account))
        };
        let may = "may spend $50.00 and 100 GPU-hours a day";
        let (spent, says) = said(Some(50), rate(0, 0));
        assert_eq!((&*spent, &*says), ("$0.00/$50.00, 0/100 GPU-hours", may));
        let (spent, says) = said(Some(50), rate(1, 2));
        let one = "1 pod of which no price was recorded is charged as its node costs now";
        assert_eq!(spent, "~$0.00+/$50.00, 0/100 GPU-hours");
        assert_eq!(says, format!("{may}; {one}"));
        let (_, says) = said(Some(50), rate(3, 0));
        let three = "3 pods of which no price was recorded are charged as their nodes cost now";
        assert!(says.ends_with(three), "{says}");
        let (spent, says) = said(None, rate(3, 0));
        assert_eq!((&*spent, &*says), ("0/100 GPU-hours", "may spend 100 GPU-hours a day"));
    }

    #[test]
    fn gpu_hours_are_rounded_down() {
        let rows = [(0, "0"), (3_600, "1"), (1_800, "0.5"), (3_599, "0.999"), (45, "0.012")];
        for (seconds, words) in rows {
            assert_eq!(gpu_hours(seconds), words);
        }
    }

    #[test]
    fn what_is_not_enough_is_never_told_too_small() {
        let rows = [
            (Amount::GpuSeconds(3_600), "1 GPU-hours"),
            (Amount::GpuSeconds(3_599), "1 GPU-hours"),
            (Amount::GpuSeconds(45), "0.013 GPU-hours"),
            (Amount::Usd(MicroUsd(25_000_000)), "$25.00"),
            (Amount::Usd(MicroUsd(25_004_000)), "$25.01"),
        ];
        for (amount, words) in rows {
            assert_eq!(amount.at_least(), words);
        }
    }
}
