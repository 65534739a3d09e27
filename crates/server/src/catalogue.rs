//! The catalogue of services: read in the background from a URL or a file, never on the way of a job.
//!
//! The last good one is kept whatever comes later, with its age. What is wrong with a newer one is logged once, and told
//! along with it.

mod source;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::Moment;
use lingua_engine::Engine;
use lingua_protocol::catalogue::Catalogue;
use parking_lot::RwLock;

pub(crate) use source::Source;
use source::{Fetched, Reader};

/// How often it is read.
const READ_EVERY: Duration = Duration::from_secs(30);

/// What is known of the catalogue. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct CatalogueCache(Arc<RwLock<Known>>);

/// What is known of the catalogue.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// Where it is read, if anywhere.
    pub source: Option<String>,
    /// The last good one.
    pub catalogue: Option<Arc<Catalogue>>,
    /// When the source last had it.
    pub confirmed: Option<Moment>,
    /// Why the last reading was in vain.
    pub problem: Option<String>,
}

impl CatalogueCache {
    /// Begins to read; what is there before the first reading is over is empty.
    pub(crate) fn start(source: Source, engine: &Engine) -> Result<Self, String> {
        Ok(CatalogueCache::read_every(READ_EVERY, Reader::new(source)?, engine))
    }

    /// The same with a file, which needs nothing else.
    pub(crate) fn start_file(file: PathBuf, engine: &Engine) -> Self {
        CatalogueCache::read_every(READ_EVERY, Reader::of_file(file), engine)
    }

    fn read_every(every: Duration, mut reader: Reader, engine: &Engine) -> Self {
        let cache = CatalogueCache::default();
        cache.0.write().source = Some(reader.source().to_string());
        let (kept, clock) = (cache.clone(), engine.clock());
        lingua_engine::tasks::spawn("catalogue", async move {
            loop {
                kept.take(reader.read().await, clock.now());
                tokio::time::sleep(every).await;
            }
        });
        cache
    }

    /// What is known now.
    pub(crate) fn known(&self) -> Known {
        self.0.read().clone()
    }

    fn take(&self, read: Result<Fetched, String>, now: Moment) {
        let mut known = self.0.write();
        let problem = match read {
            Ok(fetched) => {
                if let Fetched::New(catalogue) = fetched {
                    tracing::info!(services = catalogue.services.len(), "the catalogue was read");
                    known.catalogue = Some(Arc::new(catalogue));
                }
                known.confirmed = Some(now);
                None
            }
            Err(problem) => Some(problem),
        };
        match (&known.problem, &problem) {
            (before, Some(now)) if before.as_ref() != Some(now) => {
                tracing::warn!(
                    reason = &**now,
                    "the catalogue cannot be read; the last good one is kept"
                );
            }
            (Some(_), None) => tracing::info!("the catalogue can be read again"),
            _ => {}
        }
        known.problem = problem;
    }
}

#[cfg(test)]
mod tests;
