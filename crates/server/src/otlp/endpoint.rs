//! Where a collector is.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;

/// What is asked for behind the collector's own path.
const PATH: &str = "/v1/traces";

/// A collector's address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// From the root, with what OTLP adds.
    pub(super) path: String,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("a collector is http://host:4318 or https://…: {why}");
        let uri: Uri = text.parse().map_err(|_| wrong("this is no URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it begins with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        // It would be in logs and in the list of processes.
        if authority.as_str().contains('@') {
            return Err(wrong("it must not contain a user or password"));
        }
        if uri.query().is_some() {
            return Err(wrong("it has no ?"));
        }
        let host = authority.host();
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        // Without a port it is that of OTLP, unless TLS says that a proxy is there.
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 4318 });
        let base = uri.path().trim_end_matches('/');
        let base = base.strip_suffix(PATH).unwrap_or(base);
        Ok(Endpoint { tls, host: host.to_owned(), port, path: format!("{base}{PATH}") })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_with_or_without_what_otlp_adds() {
        for (said, meant) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector", "http://collector:4318/v1/traces"),
            ("https://collector/otlp/", "https://collector:443/otlp/v1/traces"),
            ("https://[::1]:4318/otlp", "https://[::1]:4318/otlp/v1/traces"),
        ] {
            assert_eq!(said.parse::<Endpoint>().unwrap().to_string(), meant, "{said}");
        }
    }

    #[test]
    fn what_is_no_collector_is_refused_with_a_reason() {
        for (said, why) in [
            ("", "no URL"),
            ("collector:4318", "begins with"),
            ("/v1/traces", "begins with"),
            ("grpc://collector:4317", "begins with"),
            ("http://me:secret@collector", "password"),
            ("http://collector?x=1", "no ?"),
        ] {
            let refused = said.parse::<Endpoint>().unwrap_err();
            assert!(refused.contains(why), "{said}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
