//! What happened, written down as it happens: one JSON object a line, with the time on
//! [`crate::monotonic_us`]. Each line is one write to the end of the file, so that a killed process
//! leaves everything that it did, and nothing by halves.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::monotonic_us;

/// A file that lines are added to.
#[derive(Debug, Clone)]
pub struct Journal {
    file: Arc<File>,
}

impl Journal {
    /// Opens it, and goes on behind what is there.
    pub fn append(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file: Arc::new(file) })
    }

    /// Writes down what happens now.
    pub fn write(&self, event: &str, fields: Value) {
        self.write_at(monotonic_us(), event, fields);
    }

    /// Writes down what happened then.
    pub fn write_at(&self, at_us: u64, event: &str, fields: Value) {
        let mut line = serde_json::json!({ "at_us": at_us, "event": event });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        // A full disk ends no node; what is missing in the file is missed when it is read.
        let _ = (&*self.file).write_all(format!("{line}\n").as_bytes());
    }
}
