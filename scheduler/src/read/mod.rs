//! Files become facts: manifests, Lists and dumps of any size, in bounded memory.
//!
//! Decides how a file is taken apart; [`collect`] what its objects are; [`crate::convert`] what
//! they mean. All mistakes of all files are reported at once, each with file, document, object
//! and path. Nothing in a file makes this panic or take unbounded time or memory.

pub mod collect;
pub mod decode;
pub mod error;
mod json;
pub mod kinds;
pub mod kueue;
pub mod names;
pub mod queueing;
pub mod schema;
mod value;
mod yaml;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use capstan_core::Input;
use capstan_core::model::input::Text;
use capstan_core::time::Time;
use serde_json::Value;

use crate::config::Config;
use crate::convert::theirs::Theirs;
use crate::convert::{self, Gathered};
use collect::Collector;
use error::{Notice, Place, ReadError};
use json::Take;

/// Everything that was read from files, ready for the engine.
///
/// The configuration's policy is not among the inputs: whoever feeds the engine adds its own.
#[derive(Debug, Default)]
pub struct Objects {
    /// Facts: what others refer to first.
    pub inputs: Vec<Input>,
    /// Members of groups, each with the owner that made it, by uid.
    pub made_by: BTreeMap<Text, Text>,
    /// What is worth knowing.
    pub warnings: Vec<Notice>,
    /// Objects of kinds that nobody knows, by kind.
    pub ignored: BTreeMap<String, usize>,
    /// Latest time of creation, binding or start: now, for a run without a clock. Where no object
    /// has one, claims that wait for devices since a known time had all the time that they have.
    pub latest: Option<Time>,
    /// Pods and Jobs whose spec names our scheduler.
    pub ours: usize,
    /// Owners whose pods do not, and pods without an owner, by namespace and name.
    pub theirs: BTreeMap<(Text, Text), Theirs>,
    /// Earliest creation of a pod or Job, else of anything. Work without a creation time was
    /// created then.
    pub earliest: Option<Time>,
}

impl Objects {
    /// Facts for a world that plays owners' controllers: see [`convert::resolve::to_be_played`].
    pub fn to_be_played(&mut self) -> Vec<Input> {
        convert::resolve::to_be_played(std::mem::take(&mut self.inputs), &self.made_by)
    }
}

/// Reads files; `-` is standard input.
pub fn read_files(paths: &[PathBuf], config: &Config) -> Result<Objects, Vec<ReadError>> {
    let mut collector = Collector::new(config);
    if paths.is_empty() {
        collector.complain(ReadError::overall("no file; name at least one, or - for stdin"));
    }
    let mut given = BTreeSet::new();
    for path in paths {
        if !given.insert(path) {
            let place = Place::file(&path.display().to_string().into());
            collector.complain(ReadError::at(place, "named twice; name it once"));
            continue;
        }
        read_file(path, &mut collector);
    }
    finish(collector)
}

/// Reads a text as if it were a file of this name.
pub fn read_text(name: &str, text: &str, config: &Config) -> Result<Objects, Vec<ReadError>> {
    read_bytes(name, text.as_bytes(), config)
}

/// Reads bytes as if they were a file of this name.
pub fn read_bytes(name: &str, bytes: &[u8], config: &Config) -> Result<Objects, Vec<ReadError>> {
    let mut collector = Collector::new(config);
    read_stream(&name.into(), bytes, &mut collector);
    finish(collector)
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Located {
    /// Where.
    pub place: Place,
    /// The value, without nulls.
    pub value: Value,
}

/// Gives every object of these files to somebody, one at a time; what is wrong comes back.
pub fn each_object(paths: &[PathBuf], give: &mut dyn FnMut(Place, Value)) -> Vec<ReadError> {
    let mut each = Each { give, errors: Vec::new() };
    paths.iter().for_each(|path| read_file(path, &mut each));
    each.errors
}

/// The same for a text.
pub fn each_object_of(
    name: &str,
    text: &str,
    give: &mut dyn FnMut(Place, Value),
) -> Vec<ReadError> {
    let mut each = Each { give, errors: Vec::new() };
    read_stream(&name.into(), text.as_bytes(), &mut each);
    each.errors
}

struct Each<'a> {
    give: &'a mut dyn FnMut(Place, Value),
    errors: Vec<ReadError>,
}

impl Take for Each<'_> {
    fn object(&mut self, place: Place, value: Value) {
        (self.give)(place, value);
    }

    fn complain(&mut self, error: ReadError) {
        self.errors.push(error);
    }
}

/// The plain values of a small file, such as a configuration.
pub fn values_of_file(path: &Path) -> Result<Vec<Located>, Vec<ReadError>> {
    values(|give| each_object(&[path.to_owned()], give))
}

/// The plain values of a text.
pub fn values_of_text(name: &str, text: &str) -> Result<Vec<Located>, Vec<ReadError>> {
    values(|give| each_object_of(name, text, give))
}

/// All values that a reader gives, unless something is wrong.
fn values(
    read: impl FnOnce(&mut dyn FnMut(Place, Value)) -> Vec<ReadError>,
) -> Result<Vec<Located>, Vec<ReadError>> {
    let mut values = Vec::new();
    let errors = read(&mut |place, value| values.push(Located { place, value }));
    if errors.is_empty() { Ok(values) } else { Err(errors) }
}

fn finish(collector: Collector<'_>) -> Result<Objects, Vec<ReadError>> {
    let device_timeout = collector.config.policy.device_timeout;
    let Collector { gathered, mut errors, errors_beyond, warnings, ignored, times, .. } = collector;
    if errors_beyond > 0 {
        errors.push(ReadError::overall(format!("{errors_beyond} more errors are not shown")));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let scheduler = &gathered.scheduler;
    let pods = gathered.pods.iter().filter(|pod| pod.ours(scheduler)).count();
    let ours = pods
        + gathered.jobs.iter().filter(|job| job.ours(scheduler)).count()
        + gathered.gangs.iter().filter(|gang| gang.waits_for(scheduler)).count();
    // Where nothing else says when this is, what claims say is long past.
    let undated = times.devices_given.filter(|_| times.latest.is_none());
    let undated = undated.map(|at| at.plus(device_timeout));
    let latest = times.latest.or(undated);
    let earliest = times.earliest_work.or(times.earliest).or(undated);
    let start = earliest.or(latest).unwrap_or_default();
    let theirs = theirs(&gathered);
    let resolved = convert::resolve(gathered, start);
    Ok(Objects {
        inputs: resolved.inputs,
        made_by: resolved.made_by,
        warnings: warnings.into_iter().chain(resolved.notices).collect(),
        ignored,
        latest,
        ours,
        theirs,
        earliest,
    })
}

/// Owners whose pods another scheduler is to place, and such pods without an owner; of several of
/// one name a Job goes before a pod, and one of another project before both.
fn theirs(gathered: &Gathered) -> BTreeMap<(Text, Text), Theirs> {
    let ours = &gathered.scheduler;
    let alone = gathered.pods.iter().filter(|pod| pod.owner.is_none());
    let pods = alone.filter_map(|pod| {
        let name = (pod.namespace.clone(), pod.name.clone());
        Some((name, Theirs::of_pod(pod, ours)?))
    });
    let jobs = gathered.jobs.iter().filter_map(|job| {
        let name = (job.namespace.clone(), job.name.clone());
        Some((name, Theirs::of_job(job, ours)?))
    });
    let gangs = gathered.gangs.iter().filter_map(|gang| {
        let name = (gang.namespace.clone(), gang.name.clone());
        Some((name, Theirs::of_gang(gang, ours)?))
    });
    pods.chain(jobs).chain(gangs).collect()
}

fn read_file(path: &Path, take: &mut dyn Take) {
    let file: Text = path.display().to_string().into();
    if path == Path::new("-") {
        return read_stream(&file, io::stdin().lock(), take);
    }
    if path.is_dir() {
        let problem = "a directory; name the files in it";
        return take.complain(ReadError::at(Place::file(&file), problem));
    }
    match File::open(path) {
        Ok(opened) => read_stream(&file, opened, take),
        Err(error) => {
            let problem = match error.kind() {
                io::ErrorKind::NotFound => "no such file".to_owned(),
                io::ErrorKind::PermissionDenied => {
                    "may not be read; check its permissions".to_owned()
                }
                _ => format!("cannot be opened: {error}"),
            };
            take.complain(ReadError::at(Place::file(&file), problem));
        }
    }
}

/// Reads one stream as JSON or YAML.
fn read_stream(file: &Text, stream: impl Read, take: &mut dyn Take) {
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    let documents = match format(file, &mut reader) {
        Ok(Format::Json) => json::read(file, reader, take),
        Ok(Format::Yaml) => yaml::read(file, reader, take),
        Ok(Format::Nothing) => 0,
        Ok(Format::Utf16) => {
            let problem = "UTF-16; save it as UTF-8";
            return take.complain(ReadError::at(Place::file(file), problem));
        }
        Err(error) => {
            let problem = format!("cannot be read: {error}");
            return take.complain(ReadError::at(Place::file(file), problem));
        }
    };
    if documents == 0 {
        let problem = "empty: there is no object in it";
        take.complain(ReadError::at(Place::file(file), problem));
    }
}

enum Format {
    Json,
    Yaml,
    Utf16,
    Nothing,
}

/// Tells the format from the first bytes, and skips a byte order mark.
fn format(file: &str, reader: &mut impl BufRead) -> io::Result<Format> {
    let start = reader.fill_buf()?;
    if start.starts_with(&[0xFE, 0xFF]) || start.starts_with(&[0xFF, 0xFE]) {
        return Ok(Format::Utf16);
    }
    if start.starts_with(&[0xEF, 0xBB, 0xBF]) {
        reader.consume(3);
    }
    let start = reader.fill_buf()?;
    if start.is_empty() {
        return Ok(Format::Nothing);
    }
    let mut bytes = start.iter().filter(|byte| !byte.is_ascii_whitespace());
    let yaml_name = [".yaml", ".yml"].iter().any(|end| file.to_lowercase().ends_with(end));
    // `{a: b}` is YAML's own, and JSON in a YAML file may be followed by `---`.
    let json = match (bytes.next(), bytes.next()) {
        (Some(b'{'), Some(b'"' | b'}') | None) | (Some(b'['), _) => !yaml_name,
        _ => file.to_lowercase().ends_with(".json"),
    };
    Ok(if json { Format::Json } else { Format::Yaml })
}
