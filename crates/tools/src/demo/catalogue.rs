//! The catalogue of services that the schedulers of the demonstration show: what its nodes have, and some more.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// A file with the catalogue, for as long as it is held.
pub(super) struct CatalogueFile(PathBuf);

impl CatalogueFile {
    /// Writes it where nobody had anything before.
    pub fn write() -> std::io::Result<Self> {
        let name = format!("lingua-demo-{}-catalogue.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let file_of = CatalogueFile(path);
        file.write_all(catalogue().to_string().as_bytes())?;
        Ok(file_of)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for CatalogueFile {
    fn drop(&mut self) {
        // What is left in the directory for temporary files harms nobody.
        let _ = fs::remove_file(&self.0);
    }
}

/// The simulated nodes have the version of this program.
fn catalogue() -> Value {
    let here = env!("CARGO_PKG_VERSION");
    let service = |kind: &str, title: &str, languages: &[&str], megabytes: u64| {
        json!({
            "id": format!("lab-{kind}"), "kind": kind, "title": title, "languages": languages,
            "versions": [{ "version": here, "size_bytes": megabytes * 1_000_000 }]
        })
    };
    json!({ "services": [
        service("asr", "Speech recognition", &[], 3_100),
        service("semantic", "Semantic repair", &[], 4_700),
        service("nmt", "Translation", &[], 2_400),
        service("tts", "Speech synthesis", &[], 620),
        {
            "id": "tone", "kind": "tone", "title": "Tone of voice", "languages": ["zh"],
            "versions": [{ "version": "2", "size_bytes": 900_000_000 }, { "version": "1" }]
        }
    ] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_goes_with_the_demonstration() {
        let file = CatalogueFile::write().unwrap();
        let read: Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
        assert_eq!(read, catalogue());
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }
}
