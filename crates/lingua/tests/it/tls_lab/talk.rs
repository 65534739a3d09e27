//! A client of TLS, and a way for those who speak none.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Authority, Paper};

const PATIENCE: Duration = Duration::from_secs(20);

/// Connects with what it believes and has.
#[derive(Clone)]
pub struct Client(Arc<ClientConfig>);

impl Client {
    /// Believes this authority, and shows nothing.
    pub fn new(authority: &Authority) -> Self {
        Self::make(authority, &[&TLS13], None)
    }

    pub fn with(authority: &Authority, paper: &Paper) -> Self {
        Self::make(authority, &[&TLS13], Some(paper))
    }

    pub fn speaking(authority: &Authority, version: &'static SupportedProtocolVersion) -> Self {
        Self::make(authority, &[version], None)
    }

    /// With what is in these files, as PEM.
    pub fn of_files(authority: &Path, cert: &Path, key: &Path) -> Self {
        let read = |file| CertificateDer::from_pem_file(file).unwrap();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        Self::of(read(authority), &[&TLS13], Some((read(cert), key)))
    }

    fn make(
        authority: &Authority,
        versions: &[&'static SupportedProtocolVersion],
        paper: Option<&Paper>,
    ) -> Self {
        Self::of(authority.der(), versions, paper.map(|paper| (paper.der(), paper.key_der())))
    }

    fn of(
        authority: CertificateDer<'static>,
        versions: &[&'static SupportedProtocolVersion],
        paper: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        Client(Arc::new(match paper {
            Some((cert, key)) => builder.with_client_auth_cert(vec![cert], key).unwrap(),
            None => builder.with_no_client_auth(),
        }))
    }

    /// The same, asking for another protocol inside.
    pub fn inside(&self, protocol: &str) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Client(Arc::new(config))
    }

    /// The same, agreeing anew on every connection.
    pub fn without_memory(&self) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.resumption = rustls::client::Resumption::disabled();
        Client(Arc::new(config))
    }

    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }

    pub async fn connect(&self, to: SocketAddr) -> anyhow::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(to).await?;
        let name = ServerName::try_from("127.0.0.1")?;
        let connecting = TlsConnector::from(Arc::clone(&self.0)).connect(name, stream);
        Ok(timeout(PATIENCE, connecting).await??)
    }

    /// The certificate that is shown there.
    pub async fn shown(&self, by: SocketAddr) -> anyhow::Result<CertificateDer<'static>> {
        let stream = self.connect(by).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        Ok(chain[0].clone().into_owned())
    }

    pub async fn get(&self, to: SocketAddr, path: &str) -> anyhow::Result<(u16, Value)> {
        self.call(to, "GET", path, None, &Value::Null).await
    }

    /// The head of the answer to such a request.
    pub async fn head(&self, to: SocketAddr, path: &str) -> anyhow::Result<String> {
        let mut stream = self.connect(to).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut bytes = Vec::new();
        while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
            let more = timeout(PATIENCE, stream.read_buf(&mut bytes)).await??;
            anyhow::ensure!(more > 0, "it ended before an answer");
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(text.split_inclusive("\r\n\r\n").next().unwrap_or_default().to_owned())
    }

    /// One request on a connection of its own: the status and the JSON.
    pub async fn call(
        &self,
        to: SocketAddr,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &Value,
    ) -> anyhow::Result<(u16, Value)> {
        let mut stream = self.connect(to).await?;
        ask(&mut stream, method, path, token, body).await
    }
}

/// One request on a connection that goes on after it.
pub async fn ask(
    stream: &mut TlsStream<TcpStream>,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &Value,
) -> anyhow::Result<(u16, Value)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json\r\n\
         content-length: {}\r\n{}\r\n{body}",
        body.len(),
        token.unwrap_or_default(),
    );
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    timeout(PATIENCE, answer(stream)).await?
}

async fn answer(stream: &mut TlsStream<TcpStream>) -> anyhow::Result<(u16, Value)> {
    let mut bytes = Vec::new();
    let head = loop {
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "it ended before an answer");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            break end + 4;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec())?.to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(Ok(0), str::parse)?;
    while bytes.len() < head + length {
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "it ended within an answer");
    }
    let status = text.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok((status, serde_json::from_slice(&bytes[head..]).unwrap_or(Value::Null)))
}

/// Listens without TLS on this machine and goes on with it.
pub struct Tunnel {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Tunnel {
    pub async fn open(client: &Client, to: SocketAddr) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let client = client.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut near, _)) = socket.accept().await {
                let client = client.clone();
                tokio::spawn(async move {
                    if let Ok(mut far) = client.connect(to).await {
                        let _ = copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        Tunnel { address, task }
    }

    pub fn ws(&self, path: &str) -> String {
        format!("ws://{}{path}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn http(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.task.abort();
    }
}
