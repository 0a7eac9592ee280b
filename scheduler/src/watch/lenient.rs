//! Objects that cannot be read must not hide others.
//!
//! With `kube`'s watcher one object that does not decode makes a whole list fail, for ever; in a
//! streamed list it is left out, which looks as if it were gone, and in a watch its last version
//! stays. So every object is first taken as text. One that cannot be read keeps its name and says
//! what is wrong with it.
//!
//! What is `null` is the same as absent, as in a file: the API server writes that for lists which
//! have nothing and may not be left out, as the names of an image that lost its last, or the
//! drivers of a node that has none. It is looked for only where reading fails without.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::meta::OnlyMeta;
use crate::read::queueing::without_nulls;

/// An object as far as it can be read.
#[derive(Clone, Debug)]
pub enum Lenient<K> {
    /// All of it.
    Read(K),
    /// Only its metadata: the field that is in the way, and why.
    Broken(Box<OnlyMeta>, String, String),
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lenient<K>, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        if let Ok(object) = serde_json::from_str(text.get()) {
            return Ok(Lenient::Read(object));
        }
        let value: Value = match serde_json::from_str(text.get()) {
            Ok(value) => value,
            // Nested too deep, say. Lines and columns are those of the wire, and nobody's business.
            Err(error) => {
                let meta = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                let problem = error.to_string();
                let problem = problem.split(" at line ").next().unwrap_or_default();
                return Ok(Lenient::Broken(meta, ".".into(), format!("cannot be read: {problem}")));
            }
        };
        Lenient::of(value).map_err(D::Error::custom)
    }
}

impl<K: DeserializeOwned> Lenient<K> {
    /// What is read of an object; an error: not even its metadata.
    pub fn of(mut value: Value) -> Result<Lenient<K>, serde_json::Error> {
        without_nulls(&mut value);
        let meta = OnlyMeta::deserialize(&value)?;
        let (path, problem) = match serde_path_to_error::deserialize::<_, K>(value) {
            Ok(object) => return Ok(Lenient::Read(object)),
            Err(error) => (error.path().to_string(), error.into_inner()),
        };
        Ok(Lenient::Broken(Box::new(meta), path, format!("cannot be read: {problem}")))
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Lenient<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Lenient::Read(object) => object.meta(),
            Lenient::Broken(object, ..) => &object.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Lenient::Read(object) => object.meta_mut(),
            Lenient::Broken(object, ..) => &mut object.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};

    use super::*;
    use crate::api::limits::LimitRange;
    use crate::api::node::Node;
    use crate::api::pod::Pod;
    use crate::api::storage::CsiNode;

    fn pod(name: &str, cpu: &str) -> String {
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"a",
            "uid":"u-{name}","resourceVersion":"7"}},"spec":{{"containers":[{{"name":"c",
            "resources":{{"requests":{{"cpu":{cpu}}}}}}}]}}}}"#
        )
    }

    fn brief(one: &Lenient<Pod>) -> String {
        match one {
            Lenient::Read(pod) => pod.metadata.name.clone().unwrap_or_default(),
            Lenient::Broken(meta, path, problem) => {
                format!("{}: {path}: {problem}", meta.metadata.name.as_deref().unwrap_or_default())
            }
        }
    }

    #[test]
    fn one_that_cannot_be_read_hides_no_other() {
        let says = "q: spec.containers[0].resources.requests.cpu: cannot be read: ";
        let text = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},
            "items":[{},{},{}]}}"#,
            pod("p", "\"1\""),
            pod("q", "{}"),
            pod("r", "\"2\"")
        );
        let list: ObjectList<Lenient<Pod>> = serde_json::from_str(&text).expect("a list");
        let found: Vec<String> = list.items.iter().map(brief).collect();
        assert_eq!((found[0].as_str(), found[2].as_str()), ("p", "r"));
        assert!(found[1].starts_with(says) && !found[1].contains("line"), "{found:?}");
        assert!(serde_json::from_str::<ObjectList<Pod>>(&text).is_err(), "what this is for");
        let text = format!(r#"{{"type":"MODIFIED","object":{}}}"#, pod("q", "{}"));
        let event: WatchEvent<Lenient<Pod>> = serde_json::from_str(&text).expect("an event");
        let WatchEvent::Modified(found) = event else { panic!("{event:?}") };
        assert!(brief(&found).starts_with(says));
        assert_eq!(found.meta().resource_version.as_deref(), Some("7"), "the watch goes on");
    }

    #[test]
    fn one_that_is_nested_too_deep_hides_no_other() {
        let deep = format!(r#"{{"deep":{}{},"metadata":"#, "[".repeat(200), "]".repeat(200));
        let broken =
            pod("q", "{}").replacen(r#"{"kind":"Pod","apiVersion":"v1","metadata":"#, &deep, 1);
        let text = format!(r#"{{"metadata":{{}},"items":[{broken},{}]}}"#, pod("r", "\"2\""));
        let list: ObjectList<Lenient<Pod>> = serde_json::from_str(&text).expect("a list");
        let found: Vec<String> = list.items.iter().map(brief).collect();
        assert_eq!(found, ["q: .: cannot be read: recursion limit exceeded", "r"]);
    }

    /// As the API server writes lists that have nothing and no `omitempty`.
    #[test]
    fn what_is_null_is_absent() {
        fn read<K: DeserializeOwned>(text: &str) -> K {
            match serde_json::from_str(text).expect("an object") {
                Lenient::Read(object) => object,
                Lenient::Broken(_, path, problem) => panic!("{path}: {problem}"),
            }
        }
        let node: Node = read(
            r#"{"metadata":{"name":"n","uid":"u","managedFields":null},"spec":{"taints":null},
            "status":{"allocatable":{"cpu":"8"},"images":[{"names":null,"sizeBytes":1},
            {"names":["img:1"],"sizeBytes":2}]}}"#,
        );
        let status = node.status;
        let names: Vec<usize> = status.images.iter().map(|image| image.names.len()).collect();
        assert_eq!(names, [0, 1]);
        read::<CsiNode>(r#"{"metadata":{"name":"n","uid":"u"},"spec":{"drivers":null}}"#);
        read::<LimitRange>(r#"{"metadata":{"name":"l","uid":"u"},"spec":{"limits":null}}"#);
    }
}
