//! What a script answered: a word, then its values.

use std::str::FromStr;

use lingua_core::Moment;
use redis::Value;

use crate::error::{Error, Result};
use crate::nodes::Fenced;

/// A reply being read from left to right: a list that begins with the word, or one line with spaces
/// between word and values, cheaper for the server on the way of a job.
#[derive(Debug)]
pub(crate) struct Reply {
    script: &'static str,
    /// The line; of a list only the word.
    line: String,
    /// Where the word ends in it, and how far it has been read.
    word: usize,
    read: usize,
    /// What follows the word of a list.
    list: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(crate) fn new(script: &'static str, value: Value) -> Result<Self> {
        let (first, list) = match value {
            Value::Array(values) => {
                let mut list = values.into_iter();
                (list.next().unwrap_or(Value::Nil), list)
            }
            line => (line, Vec::new().into_iter()),
        };
        let line = text(script, first)?;
        let word = line.find(' ').unwrap_or(line.len());
        Ok(Reply { script, line, word, read: word, list })
    }

    pub(crate) fn word(&self) -> &str {
        &self.line[..self.word]
    }

    /// The word is none that the script is known to answer.
    pub(crate) fn unexpected(self) -> Error {
        Error::corrupt(self.script, self.word())
    }

    /// What comes next in a line.
    fn next_of_line(&mut self) -> Option<&str> {
        let from = self.read + 1;
        let rest = self.line.get(from..)?;
        self.read = from + rest.find(' ').unwrap_or(rest.len());
        Some(&self.line[from..self.read])
    }

    pub(crate) fn value(&mut self) -> Result<Value> {
        if let Some(word) = self.next_of_line() {
            return Ok(Value::BulkString(word.into()));
        }
        self.list.next().ok_or_else(|| Error::corrupt(self.script, "too short a reply"))
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        let value = self.value()?;
        text(self.script, value)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let script = self.script;
        if let Some(digits) = self.next_of_line() {
            return digits.parse().map_err(|_| Error::corrupt(script, digits));
        }
        match self.value()? {
            Value::Int(n) => u64::try_from(n).map_err(|_| Error::corrupt(script, n)),
            value => {
                let digits = text(script, value)?;
                digits.parse().map_err(|_| Error::corrupt(script, digits))
            }
        }
    }

    pub(crate) fn small(&mut self) -> Result<u32> {
        let n = self.number()?;
        u32::try_from(n).map_err(|_| Error::corrupt(self.script, n))
    }

    pub(crate) fn moment(&mut self) -> Result<Moment> {
        self.number().map(Moment::from_millis)
    }

    pub(crate) fn parse<T: FromStr>(&mut self) -> Result<T> {
        let text = self.text()?;
        text.parse().map_err(|_| Error::corrupt(self.script, text))
    }

    /// Nothing for an empty text.
    pub(crate) fn optional<T: FromStr>(&mut self) -> Result<Option<T>> {
        match self.text()? {
            text if text.is_empty() => Ok(None),
            text => text.parse().map(Some).map_err(|_| Error::corrupt(self.script, text)),
        }
    }

    pub(crate) fn list(&mut self) -> Result<Vec<Value>> {
        match self.value()? {
            Value::Array(values) => Ok(values),
            value => Err(Error::corrupt(self.script, value)),
        }
    }

    pub(crate) fn parsed_list<T: FromStr>(&mut self) -> Result<Vec<T>> {
        let script = self.script;
        let parse = |value| {
            let text = text(script, value)?;
            text.parse().map_err(|_| Error::corrupt(script, text))
        };
        self.list()?.into_iter().map(parse).collect()
    }

    /// `done`, `superseded epoch` or `unknown`.
    pub(crate) fn fenced(mut self) -> Result<Fenced> {
        match self.word() {
            "done" => Ok(Fenced::Done),
            "superseded" => Ok(Fenced::Superseded { epoch: self.number()? }),
            "unknown" => Ok(Fenced::Unknown),
            _ => Err(self.unexpected()),
        }
    }
}

/// A text value; nil is an empty one.
pub(crate) fn text(what: &'static str, value: Value) -> Result<String> {
    match value {
        Value::BulkString(bytes) => {
            String::from_utf8(bytes).map_err(|e| Error::corrupt(what, e.as_bytes()))
        }
        Value::SimpleString(text) => Ok(text),
        Value::Nil => Ok(String::new()),
        value => Err(Error::corrupt(what, value)),
    }
}
