//! From a value to a type, with every mistake named.
//!
//! Decides how strictly a kind is read. Kubernetes' own kinds are decoded at once and only
//! looked at closely when that fails; queue objects and the configuration are always held
//! against their schema first.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::schema::{self, Finding};

/// Decodes a value whose unknown fields do not matter.
pub fn lenient<T: DeserializeOwned + JsonSchema + 'static>(
    value: &Value,
) -> Result<T, Vec<Finding>> {
    T::deserialize(value).map_err(|_| {
        let mut found = schema::check(&schema::of::<T>(), value, "");
        found.retain(|one| !one.unknown);
        if found.is_empty() { vec![first::<T>(value)] } else { found }
    })
}

/// Decodes a value in which everything must be known.
pub fn strict<T: DeserializeOwned + JsonSchema + 'static>(
    value: &Value,
) -> Result<T, Vec<Finding>> {
    let found = schema::check(&schema::of::<T>(), value, "");
    if found.is_empty() { decoded(value) } else { Err(found) }
}

/// Decodes a value and names what is unknown in it.
pub fn tolerant<T: DeserializeOwned + JsonSchema + 'static>(
    value: &Value,
) -> Result<(T, Vec<Finding>), Vec<Finding>> {
    let found = schema::check(&schema::of::<T>(), value, "");
    let (unknown, wrong): (Vec<Finding>, Vec<Finding>) =
        found.into_iter().partition(|one| one.unknown);
    if wrong.is_empty() { Ok((decoded(value)?, unknown)) } else { Err(wrong) }
}

fn decoded<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<Finding>> {
    T::deserialize(value).map_err(|_| vec![first::<T>(value)])
}

/// The first mistake, in the decoder's words.
fn first<T: DeserializeOwned>(value: &Value) -> Finding {
    match serde_path_to_error::deserialize::<_, T>(value) {
        Ok(_) => Finding { path: String::new(), problem: "unreadable".to_owned(), unknown: false },
        Err(error) => {
            let path = error.path().to_string();
            let path = if path == "." { String::new() } else { path };
            Finding { path, problem: error.inner().to_string(), unknown: false }
        }
    }
}
