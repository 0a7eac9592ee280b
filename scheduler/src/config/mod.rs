//! The configuration: one file, checked whole, then frozen.
//!
//! Decides what the file means for the engine ([`Policy`]) and for the shell. [`file`] has the
//! fields with their documentation, [`validate`] what holds between them. Every error is
//! reported at once, with its path; an unknown field is an error.

pub mod file;
pub mod gates;
pub mod prices;
pub mod quota;
pub mod readiness;
pub mod validate;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use capstan_core::model::input::Text;
use capstan_core::policy::Policy;

pub use file::CapstanConfiguration;
pub use prices::{CapacityLabel, PriceConfig, PriceEntry};

use crate::api::GROUP;
use crate::read;
use crate::read::error::{Notice, ReadError};

/// The validated configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Knobs of the engine.
    pub policy: Policy,
    /// Pods of this `schedulerName` are ours.
    pub scheduler_name: Text,
    /// API groups whose queue objects a live scheduler reads; offline commands read both.
    pub quota_apis: Vec<QuotaApi>,
    /// Prices and capacity types of nodes.
    pub prices: PriceConfig,
    /// Feature gates that were set.
    pub feature_gates: BTreeMap<String, bool>,
    /// The file as it was read, for the parts that only the shell looks at.
    pub file: CapstanConfiguration,
    /// What is worth knowing about the file.
    pub warnings: Vec<Notice>,
}

/// An API group of queue objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaApi {
    /// `capstan.sh`.
    Capstan,
    /// `kueue.x-k8s.io`.
    Kueue,
}

impl Default for Config {
    /// What holds without a file.
    fn default() -> Config {
        Config {
            policy: Policy::default(),
            scheduler_name: "capstan".into(),
            quota_apis: vec![QuotaApi::Capstan],
            prices: PriceConfig::default(),
            feature_gates: BTreeMap::new(),
            file: CapstanConfiguration::default(),
            warnings: Vec::new(),
        }
    }
}

/// Kind of the configuration file.
pub const KIND: &str = "CapstanConfiguration";

/// Reads a configuration file; `-` is standard input.
pub fn read_config(path: &Path) -> Result<Config, Vec<ReadError>> {
    let documents = read::values_of_file(path)?;
    from_values(documents, &path.display().to_string())
}

/// Reads a configuration from a text.
pub fn read_config_text(name: &str, text: &str) -> Result<Config, Vec<ReadError>> {
    let documents = read::values_of_text(name, text)?;
    from_values(documents, name)
}

fn from_values(mut documents: Vec<read::Located>, name: &str) -> Result<Config, Vec<ReadError>> {
    if documents.len() > 1 {
        let place = documents.swap_remove(1).place;
        let problem = format!("a second document; a configuration is one {KIND}");
        return Err(vec![ReadError::at(place, problem)]);
    }
    let Some(read::Located { place, value }) = documents.pop() else {
        let place = read::error::Place::file(&name.into());
        return Err(vec![ReadError::at(place, format!("no document; write one {KIND}"))]);
    };
    let wanted = format!("{GROUP}/v1alpha1");
    let text = |key: &str| value.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    let error = |path: &str, problem: String| ReadError {
        place: Some(place.clone()),
        object: Some(KIND.into()),
        path: Some(path.to_owned()),
        problem,
    };
    if text("apiVersion") != wanted || text("kind") != KIND {
        let problem =
            format!("no configuration; it begins with apiVersion: {wanted}, kind: {KIND}");
        return Err(vec![ReadError::at(place, problem)]);
    }
    let located = |(path, problem): (String, String)| error(&path, problem);
    let file: CapstanConfiguration = match read::decode::strict(&value) {
        Ok(file) => file,
        Err(findings) => {
            let rest = beside(&value, &findings);
            let findings = findings.into_iter().map(|one| error(&one.path, one.problem));
            return Err(findings.chain(rest.into_iter().map(located)).collect());
        }
    };
    match validate::validate(file) {
        Ok((mut config, warnings)) => {
            config.warnings = warnings.into_iter().map(located).collect();
            Ok(config)
        }
        Err(errors) => Err(errors.into_iter().map(located).collect()),
    }
}

/// What else is wrong, where some fields are not even of their type: as if those, or all that
/// stands beside them under the same heading, were not there.
fn beside(value: &serde_json::Value, findings: &[read::schema::Finding]) -> Vec<validate::Finding> {
    let wrong: Vec<&str> = findings.iter().map(|one| one.path.as_str()).collect();
    let mut fine = value.clone();
    read::schema::prune(&mut fine, "", &wrong);
    let decoded = read::decode::strict::<CapstanConfiguration>(&fine).or_else(|_| {
        let mut coarse = value.clone();
        if let Some(fields) = coarse.as_object_mut() {
            let is_wrong = |key: &String| wrong.iter().any(|path| heading(path) == heading(key));
            fields.retain(|key, _| !is_wrong(key));
        }
        read::decode::strict(&coarse)
    });
    decoded.ok().and_then(|file| validate::validate(file).err()).unwrap_or_default()
}

/// The first name of a path.
fn heading(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or_default()
}
