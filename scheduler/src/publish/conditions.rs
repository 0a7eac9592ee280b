//! Conditions as the API keeps them: one of a type, its time that of its last change of status.

use capstan_core::time::Time;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time as ApiTime};

/// Characters that a condition's message may have.
const MESSAGE_MAX: usize = 32_768;

/// A point in time as the API writes it: whole seconds.
pub fn api_time(at: Time) -> ApiTime {
    let seconds = at.0.div_euclid(1_000);
    ApiTime(jiff::Timestamp::from_second(seconds).unwrap_or_default())
}

/// The engine's time of a time of the API.
pub fn engine_time(at: &ApiTime) -> Time {
    Time(at.0.as_millisecond())
}

/// What a condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Says<'a> {
    /// Type.
    pub of: &'a str,
    /// `True` or `False`.
    pub status: bool,
    /// One word.
    pub reason: &'a str,
    /// For people.
    pub message: String,
}

/// Sets a condition; its time moves only if its status does.
pub fn set(conditions: &mut Vec<Condition>, says: Says<'_>, now: Time) {
    let status = if says.status { "True" } else { "False" };
    let message: String = says.message.chars().take(MESSAGE_MAX).collect();
    if let Some(known) = conditions.iter_mut().find(|known| known.type_ == says.of) {
        if known.status != status {
            known.status = status.to_owned();
            known.last_transition_time = api_time(now);
        }
        known.reason = says.reason.to_owned();
        known.message = message;
        return;
    }
    conditions.push(Condition {
        last_transition_time: api_time(now),
        message,
        observed_generation: None,
        reason: says.reason.to_owned(),
        status: status.to_owned(),
        type_: says.of.to_owned(),
    });
}

/// A condition that holds.
pub fn holds<'a>(conditions: &'a [Condition], of: &str) -> Option<&'a Condition> {
    conditions.iter().find(|known| known.type_ == of && known.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(status: bool, reason: &str) -> Says<'_> {
        Says { of: "Admitted", status, reason, message: format!("because {reason}") }
    }

    #[test]
    fn the_time_is_that_of_the_last_change_of_status() {
        let mut all = Vec::new();
        set(&mut all, says(false, "One"), Time(1_500));
        assert_eq!(all[0].last_transition_time, api_time(Time(1_000)));
        set(&mut all, says(false, "Two"), Time(9_000));
        assert_eq!(all[0].last_transition_time, api_time(Time(1_000)), "still False");
        assert_eq!((all[0].reason.as_str(), all[0].message.as_str()), ("Two", "because Two"));
        assert!(holds(&all, "Admitted").is_none());
        set(&mut all, says(true, "Three"), Time(20_000));
        assert_eq!(all[0].last_transition_time, api_time(Time(20_000)));
        assert_eq!(all.len(), 1, "one of a type");
        assert!(holds(&all, "Admitted").is_some());
        assert_eq!(engine_time(&api_time(Time(20_999))), Time(20_000));
    }
}
