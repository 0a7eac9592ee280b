//! The words for quota that is short: whose it is, and who has it.

use super::money;
use super::reserved::Moment;
use crate::explain::quantity::{USD_PER_HOUR, amount as amount_of, is_gpu, noun, pair, quantity};
use crate::explain::reason::Strait;
use crate::time::Time;

/// What is short, and of whom.
pub(super) struct Of<'a> {
    pub queue: &'a str,
    pub cohort: Option<&'a str>,
    pub resource: &'a str,
}

impl Of<'_> {
    /// What is left of it for one who asks more; `own` is the queue's own that it does not use,
    /// what others borrow of it included.
    pub(super) fn short(&self, asked: i64, left: i64, own: i64, strait: Option<&Strait>) -> String {
        let (left, resource) = (left.max(0), self.resource);
        let (asks, amount) = pair(resource, asked, left);
        let noun = spaced_noun(resource, amount == "1");
        let Some(cohort) = self.cohort else {
            return format!("queue {} has {amount}{noun} left, {asks} asked", self.queue);
        };
        if let Some(Strait::Debt { cohort, over }) = strait {
            let over = quantity(resource, *over);
            let of = spaced_noun(resource, over == "1");
            return format!("cohort {cohort} is over-committed by {over}{of}, {asks} asked");
        }
        if asked <= own {
            let unused = quantity(resource, own);
            let (queue, noun) = (self.queue, spaced_noun(resource, unused == "1"));
            let some = match own - left {
                lent if left == 0 || lent <= 0 => String::new(),
                lent => {
                    let them = if is_gpu(resource) { "them" } else { "it" };
                    format!("{} of {them} ", quantity(resource, lent))
                }
            };
            return format!(
                "{queue} has {unused}{noun} unused, {some}lent to cohort {cohort}: {amount} left, \
                 {asks} asked"
            );
        }
        if let Some(Strait::Borrowing { holder, limit, borrowed }) = strait {
            let (limit, borrowed) = (amount_of(resource, *limit), quantity(resource, *borrowed));
            return format!(
                "borrowingLimit of {holder} is {limit}, {borrowed} borrowed: {amount} left, {asks} \
                 asked"
            );
        }
        let borrowed = left - own.min(left);
        if borrowed == left {
            return format!("cohort {cohort} has {amount}{noun} left to borrow, {asks} asked");
        }
        let borrowed = quantity(resource, borrowed);
        let them = if is_gpu(resource) { "them" } else { "it" };
        format!("{amount}{noun} left, {borrowed} of {them} from cohort {cohort}, {asks} asked")
    }

    /// Where it is missing; `lent`: the queue's own would do, were it not lent.
    pub(super) fn place(&self, flavor: &str, lent: bool) -> String {
        let (queue, resource) = (self.queue, self.resource);
        let money = resource == USD_PER_HOUR;
        let what = if is_gpu(resource) || money { money::noun(resource) } else { resource };
        match self.cohort {
            Some(cohort) if lent => format!("{what}: {queue}, {flavor}, lent to {cohort}"),
            Some(cohort) => format!("{what}: {queue}, {flavor}, borrowing from {cohort}"),
            None => format!("{what}: {queue}, {flavor}"),
        }
    }
}

/// That nobody borrows a larger share than its queue would, in thousandths of what is lent.
pub(super) fn shares(own: i64, queue: &str, most: i64) -> String {
    let figure = |share: i64| match share {
        i64::MAX => "infinite".to_owned(),
        share => share.to_string(),
    };
    let (own, most) = (figure(own), figure(most));
    format!("; its queue's share would be {own}, and no other is larger: {queue} has {most}")
}

/// That its queue owns less than is asked, which is why nobody leaves whom it may preempt.
pub(super) fn above(resource: &str, nominal: i64) -> String {
    let owned = crate::explain::quantity::amount(resource, nominal);
    format!("; its queue owns {owned}, and who asks more preempts nobody")
}

/// That no share stops work for now, though it has the larger one.
pub(super) fn lasts(holder: &str, until: Time) -> String {
    let until = Moment(until);
    format!(
        "; {holder} has the larger share, but waited for its start, which was reserved, and no \
         share stops it before {until}"
    )
}

/// That work took too many turns to stop others but for what its queue owns.
pub(super) fn turns(times: u32) -> String {
    format!(
        "; it stopped others and was itself stopped {times} times of late, it stops nobody to \
         borrow for now"
    )
}

/// What a resource is called behind an amount; nothing where the amount says it.
pub(super) fn spaced_noun(resource: &str, one: bool) -> String {
    match noun(resource, if one { 1 } else { 2 }) {
        "" => String::new(),
        noun => format!(" {noun}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::view::Holder;

    #[test]
    fn shares_are_said_with_both_figures() {
        let words = shares(445, "b", 223);
        assert_eq!(words, "; its queue's share would be 445, and no other is larger: b has 223");
        let words = shares(i64::MAX, "b", i64::MAX);
        assert!(words.ends_with("no other is larger: b has infinite"), "{words}");
    }

    #[test]
    fn until_when_no_share_stops_a_holder_is_said() {
        let words = lasts("t/big", Time(1_785_594_000_000));
        assert!(words.starts_with("; t/big has the larger share"), "{words}");
        assert!(words.ends_with("no share stops it before 2026-08-01 14:20 UTC"), "{words}");
    }

    #[test]
    fn what_a_queue_owns_is_said_to_who_asks_more() {
        let rows = [("cpu", 4_000, "4 cpu"), ("nvidia.com/gpu", 1, "1 GPU")];
        for (resource, nominal, owns) in rows {
            let words = format!("; its queue owns {owns}, and who asks more preempts nobody");
            assert_eq!(above(resource, nominal), words);
        }
    }

    #[test]
    fn turns_are_said_with_their_number() {
        assert!(turns(2).starts_with("; it stopped others and was itself stopped 2 times of late"));
    }

    #[test]
    fn what_is_lent_is_not_counted_as_borrowed() {
        let of = Of { queue: "q", cohort: Some("co"), resource: "nvidia.com/gpu" };
        let rows = [
            ((10, 2, 8), "2 GPUs left, 0 of them from cohort co, 10 asked"),
            ((10, 9, 8), "9 GPUs left, 1 of them from cohort co, 10 asked"),
            ((8, 2, 8), "q has 8 GPUs unused, 6 of them lent to cohort co: 2 left, 8 asked"),
            ((1, 0, 1), "q has 1 GPU unused, lent to cohort co: 0 left, 1 asked"),
            ((1, 0, 0), "cohort co has 0 GPUs left to borrow, 1 asked"),
        ];
        for ((asked, left, own), words) in rows {
            assert_eq!(of.short(asked, left, own, None), words);
        }
        let debt = Strait::Debt { cohort: "root".into(), over: 3 };
        let words = "cohort root is over-committed by 3 GPUs, 8 asked";
        assert_eq!(of.short(8, -3, 8, Some(&debt)), words, "and not its own cohort");
    }

    #[test]
    fn a_borrowing_limit_is_blamed_with_its_holder_and_not_the_cohort() {
        let of = Of { queue: "q", cohort: Some("co"), resource: "nvidia.com/gpu" };
        let limit = |holder, limit, borrowed| Strait::Borrowing { holder, limit, borrowed };
        let own = limit(Holder::Queue("q".into()), 1, 1);
        let words = "borrowingLimit of q is 1 GPU, 1 borrowed: 0 left, 2 asked";
        assert_eq!(of.short(2, 0, 0, Some(&own)), words);
        let above = limit(Holder::Cohort("left".into()), 4, 0);
        let words = "borrowingLimit of cohort left is 4 GPUs, 0 borrowed: 6 left, 8 asked";
        assert_eq!(of.short(8, 6, 2, Some(&above)), words);
        // Its own would do, were it not lent: that says more.
        let words = "q has 8 GPUs unused, 6 of them lent to cohort co: 2 left, 8 asked";
        assert_eq!(of.short(8, 2, 8, Some(&above)), words);
    }
}
