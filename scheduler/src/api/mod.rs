//! The API objects that Capstan reads: its own kinds, and slim views of Kubernetes' kinds.
//!
//! Decides which fields exist for us. A slim view names only what the engine needs, so that a
//! pod costs little to decode and to keep; fields that it does not name are skipped. Meaning is
//! given to these types in [`crate::convert`] only.

pub mod budget;
pub mod classes;
pub mod cluster_queue;
pub mod crds;
pub mod devices;
pub mod duration;
pub mod flavor;
pub mod job;
pub mod keys;
pub mod limits;
pub mod local_queue;
pub mod meta;
pub mod no_equal;
pub mod node;
pub mod pod;
pub mod storage;
pub mod usage;
pub mod workload;

pub use duration::GoDuration;
pub use meta::Object;

/// Our API group.
pub const GROUP: &str = "capstan.sh";

/// Kueue's API group, whose queue objects are read as they are.
pub const KUEUE_GROUP: &str = "kueue.x-k8s.io";

/// Implements `kube::Resource` for a slim type by delegation to the full type's names.
macro_rules! resource_like {
    ($slim:ty, $full:ty) => {
        impl kube::Resource for $slim {
            type DynamicType = ();
            type Scope = <$full as kube::Resource>::Scope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube::Resource>::kind(&())
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube::Resource>::group(&())
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube::Resource>::version(&())
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube::Resource>::plural(&())
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(
                &mut self,
            ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use resource_like;
