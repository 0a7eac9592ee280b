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

    /// Whether it is about an object whose namespace and name begin so, or about no object alone.
    pub fn is_about(&self, full_name: &str) -> bool {
        let named = |object: &Text| {
            object.split(' ').next_back().is_some_and(|it| it.starts_with(full_name))
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
}
