//! Opens a store by its URL. No other code has to know which backends there are.

use std::path::{Path, PathBuf};

use crate::backend::{Backend, Options};
use crate::clock::Clock;
use crate::error::OpenError;
use crate::memory::MemoryStore;
#[cfg(feature = "redis")]
use crate::redis;

/// The URL of the embedded store that keeps nothing.
pub const MEMORY: &str = "memory";

/// Before the directory in the URL of the embedded store that keeps what it has.
const FILE: &str = "file:";

/// Opens the store at this URL: `memory`, `file:DIR`, or a Redis if the feature is on.
pub async fn open(url: &str, options: Options) -> Result<Backend, OpenError> {
    if url == MEMORY {
        return Ok(MemoryStore::open(Clock::system()));
    }
    if let Some(directory) = directory(url)? {
        return MemoryStore::open_in(directory, Clock::system());
    }
    #[cfg(feature = "redis")]
    return redis::open(url, options).await;
    #[cfg(not(feature = "redis"))]
    {
        let _ = options;
        Err(OpenError::Url(
            "this build has only the stores memory and file:, and no Redis".to_owned(),
        ))
    }
}

/// The directory that a URL names, if it names one.
fn directory(url: &str) -> Result<Option<&Path>, OpenError> {
    let Some(path) = url.strip_prefix(FILE) else { return Ok(None) };
    // `file:///var/lib/x` is `/var/lib/x`; two slashes would begin with a host.
    let path = match path.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(_) => return Err(OpenError::Url(format!("{url}: after file: comes a directory"))),
        None => path,
    };
    match path {
        "" => Err(OpenError::Url(
            "after file: comes a directory, as in file:/var/lib/lingua/store".into(),
        )),
        path => Ok(Some(Path::new(path))),
    }
}

/// Where the store of a URL is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// In this process. Also of a URL that cannot be read: [`open`] says what is wrong with it.
    Process,
    /// In this process, and kept in this directory.
    Directory(PathBuf),
    /// On this machine.
    Machine,
    /// Beyond this machine.
    Network {
        /// For people, without secrets.
        store: String,
        /// Everything on the way to it is encrypted.
        encrypted: bool,
    },
}

impl Location {
    /// Where the store of this URL is.
    pub fn of(url: &str) -> Self {
        if let Ok(Some(directory)) = directory(url) {
            return Location::Directory(directory.to_owned());
        }
        #[cfg(feature = "redis")]
        if let Ok(target) = redis::Target::parse(url) {
            return match target.is_loopback() {
                true => Location::Machine,
                false => Location::Network { store: target.to_string(), encrypted: target.tls },
            };
        }
        Location::Process
    }

    /// Whether several instances may share it.
    pub fn is_shared(&self) -> bool {
        matches!(self, Location::Machine | Location::Network { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_embedded_store_is_opened_by_its_name() {
        let store = open(MEMORY, Options::default()).await.unwrap();
        assert!(store.description.contains("memory"));
        assert_eq!(Location::of(MEMORY), Location::Process);
        let error = open("nowhere", Options::default()).await.unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
    }

    #[test]
    fn a_directory_is_named_as_people_write_it() {
        for (url, directory) in [
            ("file:/var/lib/lingua", "/var/lib/lingua"),
            ("file:///var/lib/lingua", "/var/lib/lingua"),
            ("file:state", "state"),
            ("file:./a b", "./a b"),
        ] {
            assert_eq!(Location::of(url), Location::Directory(directory.into()), "{url}");
            assert!(!Location::of(url).is_shared());
        }
        for url in ["file:", "file://host/state", "file://"] {
            assert_eq!(Location::of(url), Location::Process, "{url}");
            assert_eq!(directory(url).unwrap_err().exit_code(), 2, "{url}");
        }
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_store_is_located_by_its_url() {
        assert_eq!(Location::of("redis://127.0.0.1:6379/0"), Location::Machine);
        assert_eq!(Location::of("redis://[::1]:6379/0"), Location::Machine);
        for (url, encrypted) in [("redis://:canary@host/0", false), ("rediss://host/0", true)] {
            let Location::Network { store, encrypted: found } = Location::of(url) else { panic!() };
            assert_eq!(found, encrypted);
            assert!(store.contains("host") && !store.contains("canary"), "{store}");
        }
    }

    #[cfg(not(feature = "redis"))]
    #[tokio::test]
    async fn without_the_feature_a_redis_is_refused() {
        let error = open("redis://127.0.0.1:6379/0", Options::default()).await.unwrap_err();
        assert!(error.to_string().contains("no Redis"), "{error}");
    }
}
