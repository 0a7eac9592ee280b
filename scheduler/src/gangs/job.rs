//! Pods of batch/v1 Jobs.
//!
//! Decides how many must run together: what people say; else all in a queue, less where
//! `job-min-parallelism` says so; else all of an Indexed Job whose indexes all run at once; else
//! each by itself.

use capstan_core::model::input::{GangKey, GangRef, GangSource, Text};

use super::{Member, annotation, count};
use crate::api::keys;
use crate::convert::job::JobDraft;
use crate::convert::marks::Marks;

/// One run of a Job that is known.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The Job.
    pub job: &'a JobDraft,
    /// Which of its runs.
    pub incarnation: u32,
    /// It queues.
    pub in_queue: bool,
}

/// The gang of a pod that a Job owns, even if only its name is known.
pub fn resolve(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let gang = |uid: &Text, run: u32, name: &Text, min_member: Option<u32>| GangRef {
        key: GangKey::Owner(uid.clone(), run),
        name: name.clone(),
        source: GangSource::Job,
        min_member,
        total: None,
        roles: None,
        by_itself: false,
        singly: false,
        unknown_owner: None,
        held: None,
        to_come: None,
    };
    if let Some(Run { job, incarnation, in_queue }) = member.job {
        let least = min_member(job, member.chain, in_queue, ignored);
        let stated = annotation(member.chain, keys::MIN_MEMBER).is_some();
        let by_itself = !in_queue && !stated && !job.parallel_by_index;
        return Some(GangRef { by_itself, ..gang(&job.uid, incarnation, &job.name, Some(least)) });
    }
    let owner = member.owner.filter(|owner| &*owner.kind == "Job")?;
    let uid: Text = match &*owner.uid {
        "" => format!("job/{}/{}", member.namespace, owner.name).into(),
        _ => owner.uid.clone(),
    };
    Some(gang(&uid, 0, &owner.name, count(member.chain, keys::MIN_MEMBER, ignored)))
}

/// The Job that made a member of a gang that is no owner's, by uid.
pub fn maker(gang: &GangRef, run: Option<Run<'_>>) -> Option<Text> {
    let of_group = matches!(gang.key, GangKey::Group(..));
    run.filter(|_| of_group).map(|run| run.job.uid.clone())
}

/// Members of a Job that must run together.
pub fn min_member(
    job: &JobDraft,
    chain: &[&Marks],
    in_queue: bool,
    ignored: &mut Vec<Text>,
) -> u32 {
    let all = job.count.max(1);
    if let Some(asked) = count(chain, keys::MIN_MEMBER, ignored) {
        // Near its end a Job makes fewer pods than it began with: those are all there will be.
        return if job.is_under_way() { asked.min(all) } else { asked };
    }
    if !in_queue {
        return if job.parallel_by_index { all } else { 1 };
    }
    count(chain, keys::KUEUE_JOB_MIN_PARALLELISM, ignored).map_or(all, |least| least.min(all))
}

/// Whether people state the minimum of a Job itself, so that it stays if the Job makes fewer pods.
pub fn states_minimum(job: &JobDraft, chain: &[&Marks]) -> bool {
    !job.is_under_way() && count(chain, keys::MIN_MEMBER, &mut Vec::new()).is_some()
}
