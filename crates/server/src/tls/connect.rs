//! Connections to others, with TLS where their address asks for it.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Uri;
use axum::http::uri::Scheme;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::{Tls, certificates, client};

/// Whom to believe.
#[derive(Clone)]
pub enum Trust {
    /// Nobody is met but without TLS.
    Nobody,
    /// Whoever this says.
    Fixed(Arc<ClientConfig>),
    /// Other instances, as it is set up at the moment of connecting.
    Peers(Arc<Tls>),
}

impl Trust {
    /// Those whose certificates the authorities in this file signed.
    pub fn file(file: &Path) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(Trust::Fixed(Arc::new(client(Arc::new(roots)).with_no_client_auth())))
    }

    /// Those whose certificates the authorities of this machine signed.
    pub fn system() -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("the system has no certificate authorities".to_owned());
        }
        Ok(Trust::Fixed(Arc::new(client(Arc::new(roots)).with_no_client_auth())))
    }

    /// How to meet somebody at an address of this scheme; `None` without TLS.
    fn meet(&self, is_https: bool) -> Result<Option<Arc<ClientConfig>>, &'static str> {
        match self {
            Trust::Nobody if is_https => Err("it speaks TLS, and tls.peer_ca_file is not set here"),
            Trust::Nobody => Ok(None),
            Trust::Fixed(config) => Ok(is_https.then(|| Arc::clone(config))),
            Trust::Peers(tls) => match (tls.now().peers_client(), is_https) {
                (Some(config), true) => Ok(Some(config)),
                (None, true) => Err("it speaks TLS, and tls.peer_ca_file is not set here"),
                // Its address stands in the store; whoever writes there must not make us whisper
                // to strangers.
                (Some(_), false) => Err("it does not speak TLS, and tls.peer_ca_file is set here"),
                (None, false) => Ok(None),
            },
        }
    }
}

/// What hyper's client connects with.
#[derive(Clone)]
pub struct Connector {
    http: HttpConnector,
    trust: Trust,
    limit: Duration,
}

impl Connector {
    /// A connection, its handshake included, takes no longer than `limit`.
    pub fn new(trust: Trust, limit: Duration) -> Self {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(limit));
        http.enforce_http(false);
        Connector { http, trust, limit }
    }
}

/// With TLS or without.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Connection for Box<dyn Stream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let meet = self.trust.meet(to.scheme() == Some(&Scheme::HTTPS));
        let name = to.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let (connecting, limit) = (self.http.call(to), self.limit);
        Box::pin(async move {
            let meet = meet?;
            let stream = connecting.await?.into_inner();
            let Some(config) = meet else {
                let stream: Box<dyn Stream> = Box::new(stream);
                return Ok(TokioIo::new(stream));
            };
            let handshake = TlsConnector::from(config).connect(ServerName::try_from(name)?, stream);
            let stream = timeout(limit, handshake).await??;
            let stream: Box<dyn Stream> = Box::new(stream);
            Ok(TokioIo::new(stream))
        })
    }
}

/// An error with what caused it: hyper's own says only that it could not connect.
pub fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Profile};

    /// As an instance with its own certificate, and with an authority of the others or without.
    fn instance(knows_others: bool) -> Trust {
        let dir = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut config = Config::preset(Profile::Stable);
        config.tls.peer_ca_file = knows_others.then(|| cert.clone());
        (config.tls.cert_file, config.tls.key_file) = (Some(cert), Some(key));
        Trust::Peers(Tls::read(&config).unwrap().unwrap())
    }

    #[test]
    fn who_knows_the_others_by_certificates_meets_nobody_in_the_clear() {
        let (https, http) = (true, false);
        for (trust, to, tls) in [
            (Trust::Nobody, http, Some(false)),
            (Trust::Nobody, https, None),
            (instance(true), https, Some(true)),
            (instance(true), http, None),
            (instance(false), https, None),
            (instance(false), http, Some(false)),
        ] {
            assert_eq!(trust.meet(to).ok().map(|met| met.is_some()), tls, "https: {to}");
        }
    }
}
