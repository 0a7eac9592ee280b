//! What is wrong with an input, and where.
//!
//! Decides the one form in which every complaint about files is shown:
//! `file, document 3, ClusterQueue team-a: spec.path: what is wrong and what to do`.

use std::fmt;

use capstan_core::model::input::Text;

/// Where an object was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// File as the user named it; `-` is standard input.
    pub file: Text,
    /// Document in the file, from 1.
    pub document: Option<u32>,
    /// Object in a List, from 1, counting through nested Lists.
    pub item: Option<u32>,
}

impl Place {
    /// A whole file.
    pub fn file(file: &Text) -> Place {
        Place { file: file.clone(), document: None, item: None }
    }

    /// A document of a file.
    pub fn document(file: &Text, document: u32) -> Place {
        Place { file: file.clone(), document: Some(document), item: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.file)?;
        if let Some(document) = self.document {
            write!(out, ", document {document}")?;
        }
        if let Some(item) = self.item {
            write!(out, ", item {item}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadError {
    /// Where; `None`: it concerns the input as a whole.
    pub place: Option<Place>,
    /// Kind and name.
    pub object: Option<Text>,
    /// Field.
    pub path: Option<String>,
    /// What is wrong and what to do.
    pub problem: String,
}

/// One thing worth knowing that stops nothing.
pub type Notice = ReadError;

impl ReadError {
    /// A complaint about a file or document as a whole.
    pub fn at(place: Place, problem: impl Into<String>) -> ReadError {
        ReadError { place: Some(place), object: None, path: None, problem: problem.into() }
    }

    /// Whether it is about an object of this namespace whose name begins so, or about no object
    /// alone. As [`crate::convert::remarks::object`] has it, names in namespace `default`, and of
    /// what has no namespace, stand alone.
    pub fn is_about(&self, namespace: &str, name: &str) -> bool {
        let named = |object: &Text| {
            let full = object.split(' ').next_back().unwrap_or_default();
            let (of, it) = full.split_once('/').unwrap_or(("default", full));
            of == namespace && it.starts_with(name)
        };
        self.object.as_ref().is_none_or(named)
    }

    /// A complaint about the input as a whole.
    pub fn overall(problem: impl Into<String>) -> ReadError {
        ReadError { place: None, object: None, path: None, problem: problem.into() }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(place) = &self.place {
            write!(out, "{place}")?;
            separator = ", ";
        }
        if let Some(object) = &self.object {
            write!(out, "{separator}{object}")?;
            separator = ", ";
        }
        if !separator.is_empty() {
            write!(out, ": ")?;
        }
        match self.path.as_deref() {
            Some(path) if !path.is_empty() => write!(out, "{path}: {}", self.problem),
            _ => write!(out, "{}", self.problem),
        }
    }
}

impl std::error::Error for ReadError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_file_document_object_and_path() {
        let error = ReadError {
            place: Some(Place::document(&"queues.yaml".into(), 3)),
            object: Some("ClusterQueue team-a".into()),
            path: Some("spec.cohortName".into()),
            problem: "a number".into(),
        };
        let want = "queues.yaml, document 3, ClusterQueue team-a: spec.cohortName: a number";
        assert_eq!(error.to_string(), want);
        assert_eq!(ReadError::overall("no file").to_string(), "no file");
        let place = Place { file: "-".into(), document: Some(1), item: Some(7) };
        assert_eq!(ReadError::at(place, "odd").to_string(), "-, document 1, item 7: odd");
    }

    #[test]
    fn who_is_asked_about_is_found_in_every_namespace() {
        let notice = |namespace: &str, name: &str| Notice {
            object: Some(crate::convert::remarks::object("Pod", namespace, name)),
            ..Notice::overall("odd")
        };
        for namespace in ["default", "team"] {
            let train = notice(namespace, "train-0");
            assert!(train.is_about(namespace, "train"), "{train}");
            assert!(!train.is_about(namespace, "other"), "{train}");
            assert!(!train.is_about("elsewhere", "train"), "{train}");
        }
        assert!(!notice("team", "train").is_about("default", "train"));
        assert!(Notice::overall("no nodes").is_about("default", "train"));
    }
}
