//! Whom the commands believe that call a scheduler over TLS.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rustls::ClientConfig;

use super::Failure;
use crate::tls::Trust;

/// Everything that begins so is spoken with TLS.
const SECURE: [&str; 2] = ["https://", "wss://"];

/// Who signed the certificate of the scheduler that is called.
#[derive(Debug, Args)]
pub struct Authority {
    /// PEM file with the certificate authority of the scheduler, for https URLs [default: the system's
    /// certificate authorities]
    #[arg(long, env = "LINGUA_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Authority {
    /// How to meet the scheduler of this URL.
    pub fn trust(&self, url: &str) -> Result<Trust, Failure> {
        match &self.ca {
            Some(file) => Trust::file(file).map_err(|why| Failure::usage(format!("--ca: {why}"))),
            None if SECURE.iter().any(|scheme| url.starts_with(scheme)) => {
                Trust::system().map_err(|why| Failure::usage(format!("{why}; say --ca")))
            }
            None => Ok(Trust::Nobody),
        }
    }

    /// The same for a socket; nothing without TLS.
    pub fn of_socket(&self, url: &str) -> Result<Option<Arc<ClientConfig>>, Failure> {
        match self.trust(url)? {
            Trust::Fixed(config) => Ok(Some(config)),
            Trust::Nobody | Trust::Peers(_) => Ok(None),
        }
    }
}

/// The address of a socket of the scheduler; its URL may begin with http or ws, with TLS or without.
pub fn socket_url(url: &str, path: &str) -> Result<String, Failure> {
    let url = url.trim_end_matches('/').trim_end_matches(path);
    let schemes = [("http://", "ws"), ("ws://", "ws"), ("https://", "wss"), ("wss://", "wss")];
    let found = schemes.iter().find_map(|(scheme, socket)| {
        let host = url.strip_prefix(scheme).filter(|host| !host.is_empty())?;
        Some(format!("{socket}://{host}{path}"))
    });
    found.ok_or_else(|| {
        Failure::usage(format!(
            "{url:?} is no URL of a scheduler: http:// or https:// and its host"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_are_found_from_any_url_of_the_scheduler() {
        for (url, socket) in [
            ("http://h:1", "ws://h:1/ws/session"),
            ("ws://h:1/", "ws://h:1/ws/session"),
            ("ws://h:1/ws/session", "ws://h:1/ws/session"),
            ("https://h:1", "wss://h:1/ws/session"),
            ("wss://h/ws/session", "wss://h/ws/session"),
        ] {
            assert_eq!(socket_url(url, "/ws/session").map_err(|_| ()).unwrap(), socket, "{url}");
        }
        for url in ["h:1", "ftp://h", "http://", "https://", ""] {
            assert!(socket_url(url, "/ws/session").is_err(), "{url}");
        }
    }

    #[test]
    fn tls_believes_a_file_or_whom_the_machine_trusts() {
        let nobody = Authority { ca: None };
        let trusts_somebody = !rustls_native_certs::load_native_certs().certs.is_empty();
        for url in ["https://h", "wss://h"] {
            assert_eq!(nobody.trust(url).is_ok(), trusts_somebody, "{url}");
            let socket = nobody.of_socket(url);
            assert_eq!(matches!(socket, Ok(Some(_))), trusts_somebody, "{url}");
        }
        assert!(nobody.of_socket("http://h").map_err(|_| ()).unwrap().is_none());
        assert!(Authority { ca: Some("/there/is/none".into()) }.trust("https://h").is_err());
    }
}
