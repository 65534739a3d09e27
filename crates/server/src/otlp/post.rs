//! One request to the collector, over a connection that is kept.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use axum::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Endpoint;
use super::words::refused_spans;

/// Of an answer; it says next to nothing.
const MAX_ANSWER: usize = 64 * 1024;

/// A collector is not waited for longer than this, whatever it asks for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// What the collector says to a batch.
pub(super) enum Answer {
    /// It has it, but for so many spans.
    Taken { refused: u64 },
    /// It does not want it, now or later.
    Refused(String),
    /// It may take it later, if it says so after this time.
    Later { why: String, after: Option<Duration> },
}

impl Answer {
    pub fn later(why: impl Into<String>) -> Self {
        Answer::Later { why: why.into(), after: None }
    }
}

/// A collector and the line to it.
pub(super) struct Collector {
    pub at: Endpoint,
    line: Option<SendRequest<Full<Bytes>>>,
    tls: Option<TlsConnector>,
}

impl Collector {
    pub fn new(at: Endpoint) -> Self {
        let tls = at.tls.then(connector);
        Collector { at, line: None, tls }
    }

    /// Dropped half way, the line goes too.
    pub async fn post(&mut self, body: Bytes) -> Answer {
        let mut line = match self.line.take().filter(|line| !line.is_closed()) {
            Some(line) => line,
            None => match self.connect().await {
                Ok(line) => line,
                Err(why) => return Answer::later(why),
            },
        };
        let request = match self.request(body) {
            Ok(request) => request,
            Err(error) => return Answer::Refused(error.to_string()),
        };
        if let Err(error) = line.ready().await {
            return Answer::later(error.to_string());
        }
        let answer = match line.send_request(request).await {
            Ok(answer) => answer,
            Err(error) => return Answer::later(error.to_string()),
        };
        let (head, body) = answer.into_parts();
        let body = match Limited::new(body, MAX_ANSWER).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) if head.status.is_success() => return Answer::Taken { refused: 0 },
            Err(error) => return Answer::later(error.to_string()),
        };
        self.line = Some(line);
        read(head.status, &head.headers, &body)
    }

    fn request(&self, body: Bytes) -> axum::http::Result<Request<Full<Bytes>>> {
        Request::post(&self.at.path)
            .header(HOST, format!("{}:{}", self.at.host, self.at.port))
            .header(USER_AGENT, concat!("lingua/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, body.len())
            .body(Full::new(body))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let host = self.at.host.trim_matches(['[', ']']);
        let tcp = TcpStream::connect((host, self.at.port)).await.map_err(|e| e.to_string())?;
        let Some(tls) = &self.tls else { return open(TokioIo::new(tcp)).await };
        let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
        let secured = tls.connect(name, tcp).await.map_err(|e| e.to_string())?;
        open(TokioIo::new(secured)).await
    }
}

async fn open<T>(io: T) -> Result<SendRequest<Full<Bytes>>, String>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let (line, connection) = handshake(io).await.map_err(|error| error.to_string())?;
    // Ends when the line is dropped; what breaks it is told to whoever uses the line.
    tokio::spawn(async move { drop(connection.await) });
    Ok(line)
}

/// Trusts whom the system trusts, or `SSL_CERT_FILE`.
fn connector() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        tracing::warn!(
            "the system has no certificate authorities, so traces cannot be sent over TLS"
        );
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// What OTLP says that an answer means.
fn read(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Answer {
    if status.is_success() {
        return Answer::Taken { refused: refused_spans(body) };
    }
    let why = format!("it answered {status}");
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Answer::Later { why, after: retry_after(headers) },
        _ => Answer::Refused(why),
    }
}

/// In seconds; a date is not worth reading.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, after: Option<&str>) -> Answer {
        let mut headers = HeaderMap::new();
        if let Some(after) = after {
            headers.insert(RETRY_AFTER, after.parse().unwrap());
        }
        read(StatusCode::from_u16(status).unwrap(), &headers, b"{}")
    }

    #[test]
    fn only_what_may_pass_is_asked_again() {
        for status in [429, 502, 503, 504] {
            assert!(matches!(answer(status, None), Answer::Later { after: None, .. }), "{status}");
        }
        for status in [301, 400, 401, 404, 413, 500, 501] {
            assert!(matches!(answer(status, None), Answer::Refused(_)), "{status}");
        }
        assert!(matches!(answer(200, None), Answer::Taken { refused: 0 }));
    }

    #[test]
    fn a_wish_to_be_asked_later_is_kept_within_bounds() {
        let after = |said: &str| match answer(503, Some(said)) {
            Answer::Later { after, .. } => after,
            _ => panic!("it was later"),
        };
        assert_eq!(after("2"), Some(Duration::from_secs(2)));
        assert_eq!(after("99999999"), Some(LONGEST_RETRY_AFTER));
        assert_eq!(after("-1"), None);
        assert_eq!(after("Wed, 21 Oct 2026 07:28:00 GMT"), None);
    }
}
