//! JSON of any size, one object in memory at a time.
//!
//! Decides how much of a file may be read for one object, and that a syntax error ends the file
//! (nothing after it can be trusted) while objects before it count.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use capstan_core::model::input::Text;
use serde::de::DeserializeSeed;
use serde_json::Value;

use super::error::{Place, ReadError};
use super::value::{OBJECT_BYTES_MAX, Sink, Streamed};

/// Takes objects with their places, and complaints.
pub trait Take {
    /// One object.
    fn object(&mut self, place: Place, value: Value);

    /// One complaint.
    fn complain(&mut self, error: ReadError);
}

/// Ends a read that goes on for too long without a new object.
struct Limited<R> {
    inner: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.get().checked_sub(count) {
            Some(left) => self.left.set(left),
            None => return Err(io::Error::other("one object is larger than 128 MiB")),
        }
        Ok(count)
    }
}

/// Numbers the objects of one document.
pub struct Numbered<'a> {
    /// File.
    pub file: &'a Text,
    /// Document, from 1.
    pub document: u32,
    /// Items seen.
    pub items: u32,
    /// Who takes them.
    pub take: &'a mut dyn Take,
    /// Set back at each object.
    pub left: Rc<Cell<usize>>,
}

impl Sink for Numbered<'_> {
    fn begin(&mut self) {
        self.left.set(OBJECT_BYTES_MAX);
    }

    fn object(&mut self, value: Value, item: bool) {
        let mut place = Place::document(self.file, self.document);
        if item {
            self.items += 1;
            place.item = Some(self.items);
        }
        self.take.object(place, value);
    }

    fn complain(&mut self, problem: &str) {
        self.take.complain(ReadError::at(Place::document(self.file, self.document), problem));
    }

    fn twice(&mut self, object: Option<Text>, path: String, item: bool) {
        let mut place = Place::document(self.file, self.document);
        place.item = item.then_some(self.items + 1);
        let problem = "is written twice; remove one".to_owned();
        self.take.complain(ReadError { place: Some(place), object, path: Some(path), problem });
    }
}

/// Reads JSON documents, one after another, and returns how many there were.
pub fn read(file: &Text, reader: impl Read, take: &mut dyn Take) -> u32 {
    let left = Rc::new(Cell::new(OBJECT_BYTES_MAX));
    let limited = Limited { inner: reader, left: left.clone() };
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(limited));
    let mut document = 0;
    while deserializer.end().is_err() {
        document += 1;
        let mut sink = Numbered { file, document, items: 0, take, left: left.clone() };
        sink.begin();
        let result = Streamed { sink: &mut sink, item: false }.deserialize(&mut deserializer);
        let items = sink.items;
        if let Err(error) = result {
            let mut place = Place::document(file, document);
            place.item = (items > 0).then_some(items + 1);
            take.complain(ReadError::at(place, broken(&error)));
            break;
        }
    }
    document
}

/// What is said of a syntax error.
fn broken(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return format!("truncated: the JSON ends in the middle, in line {}", error.line());
    }
    if error.is_io() {
        return format!("cannot be read to its end: {error}");
    }
    format!("no JSON: {error}; what follows was not read")
}
