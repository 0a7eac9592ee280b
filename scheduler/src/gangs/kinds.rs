//! The kinds of other projects that say how many pods start together: one row each.
//!
//! Decides under which names and versions a kind is served, and which field of it stops it. None
//! of them need exist in a cluster: a kind is read while its API group is served.

/// A kind that says how many pods start together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// PodGroup of Kubernetes itself.
    UpstreamGroup,
    /// PodGroup of scheduler-plugins.
    PluginsGroup,
    /// PodGroup of Volcano.
    VolcanoGroup,
    /// Volcano's own Job; its pods are members of a PodGroup.
    VolcanoJob,
    /// TrainJob of Kubeflow's trainer; its pods are those of a JobSet.
    TrainJob,
    /// JobSet.
    JobSet,
    /// LeaderWorkerSet.
    LeaderWorkerSet,
    /// PyTorchJob of Kubeflow's training operator.
    PyTorchJob,
    /// TFJob.
    TfJob,
    /// XGBoostJob.
    XgBoostJob,
    /// PaddleJob.
    PaddleJob,
    /// JAXJob.
    JaxJob,
    /// MPIJob.
    MpiJob,
    /// RayJob; its pods are those of a RayCluster, and one that submits.
    RayJob,
    /// RayCluster.
    RayCluster,
    /// SparkApplication of Spark's operator.
    SparkApplication,
}

/// What there is to know of a kind.
#[derive(Debug)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// What people call it.
    pub name: &'static str,
    /// How owners are told apart: PodGroups of three API groups have one name, Jobs of two.
    pub key: &'static str,
    /// API group.
    pub group: &'static str,
    /// Versions that are read, newest first.
    pub versions: &'static [&'static str],
    /// Its name in paths of the API.
    pub plural: &'static str,
    /// The field that stops and starts it, if it has one.
    pub suspend: Option<&'static str>,
}

const SPEC: Option<&str> = Some("spec.suspend");
const POLICY: Option<&str> = Some("spec.runPolicy.suspend");

const fn group(
    kind: Kind,
    key: &'static str,
    group: &'static str,
    versions: &'static [&'static str],
) -> Row {
    Row { kind, name: "PodGroup", key, group, versions, plural: "podgroups", suspend: None }
}

const fn owner(
    kind: Kind,
    (name, plural): (&'static str, &'static str),
    group: &'static str,
    versions: &'static [&'static str],
    suspend: Option<&'static str>,
) -> Row {
    Row { kind, name, key: name, group, versions, plural, suspend }
}

const KUBEFLOW: &str = "kubeflow.org";

/// All kinds.
pub const TABLE: [Row; 16] = [
    group(
        Kind::UpstreamGroup,
        "PodGroup.scheduling.k8s.io",
        "scheduling.k8s.io",
        &["v1beta1", "v1alpha3", "v1alpha2"],
    ),
    group(Kind::PluginsGroup, "PodGroup.scheduling.x-k8s.io", "scheduling.x-k8s.io", &["v1alpha1"]),
    group(
        Kind::VolcanoGroup,
        "PodGroup.scheduling.volcano.sh",
        "scheduling.volcano.sh",
        &["v1beta1"],
    ),
    Row {
        kind: Kind::VolcanoJob,
        name: "Job",
        key: "Job.batch.volcano.sh",
        group: "batch.volcano.sh",
        versions: &["v1alpha1"],
        plural: "jobs",
        suspend: None,
    },
    owner(Kind::TrainJob, ("TrainJob", "trainjobs"), "trainer.kubeflow.org", &["v1alpha1"], SPEC),
    owner(Kind::JobSet, ("JobSet", "jobsets"), "jobset.x-k8s.io", &["v1alpha2"], SPEC),
    owner(
        Kind::LeaderWorkerSet,
        ("LeaderWorkerSet", "leaderworkersets"),
        "leaderworkerset.x-k8s.io",
        &["v1"],
        None,
    ),
    owner(Kind::PyTorchJob, ("PyTorchJob", "pytorchjobs"), KUBEFLOW, &["v1"], POLICY),
    owner(Kind::TfJob, ("TFJob", "tfjobs"), KUBEFLOW, &["v1"], POLICY),
    owner(Kind::XgBoostJob, ("XGBoostJob", "xgboostjobs"), KUBEFLOW, &["v1"], POLICY),
    owner(Kind::PaddleJob, ("PaddleJob", "paddlejobs"), KUBEFLOW, &["v1"], POLICY),
    owner(Kind::JaxJob, ("JAXJob", "jaxjobs"), KUBEFLOW, &["v1"], POLICY),
    owner(Kind::MpiJob, ("MPIJob", "mpijobs"), KUBEFLOW, &["v2beta1", "v1"], POLICY),
    owner(Kind::RayJob, ("RayJob", "rayjobs"), "ray.io", &["v1"], SPEC),
    owner(Kind::RayCluster, ("RayCluster", "rayclusters"), "ray.io", &["v1"], SPEC),
    owner(
        Kind::SparkApplication,
        ("SparkApplication", "sparkapplications"),
        "sparkoperator.k8s.io",
        &["v1beta2"],
        None,
    ),
];

impl Kind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Kind> {
        TABLE.iter().map(|row| row.kind)
    }

    /// Its row.
    pub fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.kind == self).expect("every kind has a row")
    }

    /// Whether it is a PodGroup, which owns nothing.
    pub fn is_group(self) -> bool {
        matches!(self, Kind::UpstreamGroup | Kind::PluginsGroup | Kind::VolcanoGroup)
    }

    /// The kind that owners of this key are.
    pub fn of_key(key: &str) -> Option<Kind> {
        TABLE.iter().find(|row| row.key == key).map(|row| row.kind)
    }

    /// The kind that an object of this version and kind is.
    pub fn of_object(api_version: &str, kind: &str) -> Option<Kind> {
        let (group, version) = api_version.split_once('/')?;
        let is = |row: &&Row| row.name == kind && row.group == group;
        TABLE.iter().filter(is).find(|row| row.versions.contains(&version)).map(|row| row.kind)
    }
}

impl Row {
    /// The API version that is written in references: the newest that is read.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.versions[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart_by_group_and_version() {
        let at = Kind::of_object;
        assert_eq!(at("scheduling.k8s.io/v1alpha2", "PodGroup"), Some(Kind::UpstreamGroup));
        assert_eq!(at("scheduling.volcano.sh/v1beta1", "PodGroup"), Some(Kind::VolcanoGroup));
        assert_eq!(at("scheduling.k8s.io/v1", "PodGroup"), None);
        assert_eq!(at("kubeflow.org/v1", "MPIJob"), Some(Kind::MpiJob));
        assert_eq!(at("v1", "PodGroup"), None);
        assert_eq!(at("batch.volcano.sh/v1alpha1", "Job"), Some(Kind::VolcanoJob));
        assert_eq!(at("batch/v1", "Job"), None);
        for kind in Kind::all() {
            assert_eq!(Kind::of_key(kind.row().key), Some(kind));
            assert_eq!(at(&kind.row().api_version(), kind.row().name), Some(kind));
        }
    }
}
