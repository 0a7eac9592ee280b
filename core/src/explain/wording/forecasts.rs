//! The words for when work may start, and on what that rests.

use std::fmt;

use crate::explain::quantity::counted;
use crate::explain::view::Forecast;

impl fmt::Display for Forecast {
    /// What is assumed: `if 2 workloads end when they said, and none of the 3 before it takes the
    /// room first`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ended, verb, they) = match self.ended {
            1 => ("1 workload that runs".to_owned(), "ends", "it"),
            more => (format!("{} that run", counted(i64::from(more), "workload")), "end", "they"),
        };
        write!(out, "if {ended} {verb} when {they} said")?;
        match self.ahead {
            0 => Ok(()),
            1 => out.write_str(", and the workload before it does not take the room first"),
            more => write!(out, ", and none of the {more} before it takes the room first"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn what_is_assumed_is_said_with_numbers() {
        let rows = [
            ((1, 0), "if 1 workload that runs ends when it said"),
            (
                (2, 1),
                "if 2 workloads that run end when they said, and the workload before it does not \
                 take the room first",
            ),
            (
                (3, 4),
                "if 3 workloads that run end when they said, and none of the 4 before it takes \
                 the room first",
            ),
        ];
        for ((ended, ahead), words) in rows {
            assert_eq!(Forecast { at: Time(0), ended, ahead }.to_string(), words);
        }
    }
}
