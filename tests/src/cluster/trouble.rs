//! What can go wrong with a cluster of a test, as a sentence.
//!
//! Nobody reacts to kinds of trouble here: a test fails with it. So it is a text, and its debug
//! form is the text too, since `unwrap` and `expect` print that.

use std::fmt;
use std::io;
use std::path::Path;

/// A sentence that says what failed and what to do about it.
#[derive(Clone, PartialEq, Eq)]
pub struct Trouble(String);

/// With trouble as its error.
pub type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    /// From its sentence.
    pub fn new(says: impl Into<String>) -> Trouble {
        Trouble(says.into())
    }

    /// For `map_err` on something done with a file.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Trouble {
        let path = path.display().to_string();
        move |error| Trouble(format!("{path}: {error}"))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}

impl From<kube::Error> for Trouble {
    fn from(error: kube::Error) -> Trouble {
        match error {
            // Its own words would print the whole status twice.
            kube::Error::Api(status) => Trouble(format!("{} ({})", status.message, status.code)),
            other => Trouble(other.to_string()),
        }
    }
}
