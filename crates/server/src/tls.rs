//! TLS 1.3: what this instance shows, and whose certificates it believes.
//!
//! - `certificate`: what a certificate says: until when it is good, and which node it names.
//! - `authority`: who signs the certificates of nodes and of other instances.
//! - `connect`: connections to others, with TLS where their address asks for it.
//!
//! All of it is read from files at the start and again on SIGHUP. Connections that stand keep what
//! they agreed on; who came by a certificate that is no longer believed has to leave.

mod authority;
mod certificate;
mod connect;

pub use connect::{Connector, Trust, whole};

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lingua_core::NodeId;
use parking_lot::{Mutex, RwLock};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::{ClientConfig, ServerConfig};

use crate::config::Config;
use authority::{Authority, Either};
use certificate::Certificate;

/// What is spoken inside; nothing else is offered.
const ALPN: &[u8] = b"http/1.1";

/// A certificate that ends so soon is spoken of.
const SOON_S: u64 = 7 * 24 * 3_600;

/// How often somebody looks.
const LOOK: Duration = Duration::from_secs(12 * 3_600);

/// TLS as it is set up at this moment.
pub struct Tls {
    material: RwLock<Arc<Material>>,
    /// Who showed a certificate and may still be there.
    shown: Mutex<Vec<Weak<Certified>>>,
    /// For the two sides to agree.
    pub(crate) handshake: Duration,
}

/// What the files hold.
pub(crate) struct Material {
    pub(crate) server: Arc<ServerConfig>,
    /// What other instances are met with; without their authority, none of them is.
    peers_client: Option<Arc<ClientConfig>>,
    nodes: Option<Authority>,
    peers: Option<Authority>,
    /// Our own.
    own: Certificate,
}

/// Somebody whose certificate was signed by an authority of ours.
#[derive(Debug)]
pub(crate) struct Certified {
    /// The node that it is.
    pub(crate) node: Option<NodeId>,
    /// It is another instance.
    pub(crate) is_peer: bool,
    /// In epoch seconds.
    pub(crate) expires: u64,
    chain: Vec<CertificateDer<'static>>,
    /// By the files as they were last read.
    is_believed: AtomicBool,
}

impl Certified {
    pub(crate) fn is_believed(&self) -> bool {
        self.is_believed.load(Ordering::Acquire)
    }

    /// Believes it or not, by these files.
    fn judge(&self, material: &Material) {
        let now = material.certified(&self.chain);
        let same = now.is_some_and(|now| now.node == self.node && now.is_peer == self.is_peer);
        self.is_believed.store(same, Ordering::Release);
    }

    /// Whether it is still believed and has not expired.
    pub(crate) fn is_good(&self, now_s: u64) -> bool {
        self.is_believed() && now_s < self.expires
    }
}

impl Tls {
    /// Reads what the configuration names; nothing if it names nothing.
    pub(crate) fn read(config: &Config) -> Result<Option<Arc<Self>>, String> {
        let Some(material) = Material::read(config)? else { return Ok(None) };
        let handshake = Duration::from_millis(config.limits.header_timeout_ms);
        let material = RwLock::new(Arc::new(material));
        Ok(Some(Arc::new(Tls { material, shown: Mutex::default(), handshake })))
    }

    /// What is in force.
    pub(crate) fn now(&self) -> Arc<Material> {
        Arc::clone(&self.material.read())
    }

    /// From now on this is, also for those whose certificates were believed before; says what
    /// changed.
    pub(crate) fn replace(&self, material: Material) -> Option<String> {
        let material = Arc::new(material);
        let old = std::mem::replace(&mut *self.material.write(), Arc::clone(&material));
        let shown: Vec<_> = self.shown.lock().iter().filter_map(Weak::upgrade).collect();
        for certified in shown {
            certified.judge(&material);
        }
        let (old, new) = (old.own.fingerprint(), material.own.fingerprint());
        (old != new).then(|| format!("{old} -> {new}"))
    }

    /// Whose certificates these are. A handshake that goes on from an earlier one does not ask the
    /// authorities, so they are asked here in any case.
    pub(crate) fn certified(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<Certified>> {
        let material = self.now();
        let certified = Arc::new(material.certified(chain)?);
        let mut shown = self.shown.lock();
        if shown.len() == shown.capacity() {
            shown.retain(|one| one.strong_count() > 0);
        }
        shown.push(Arc::downgrade(&certified));
        drop(shown);
        // Files that were read again in this moment may not have found it there yet.
        let now = self.now();
        if !Arc::ptr_eq(&now, &material) {
            certified.judge(&now);
        }
        Some(certified)
    }

    /// Says again and again that the certificate ends soon, if it does.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            self.now().warn_of_the_end(now_s());
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Material {
    /// Reads what the configuration names; nothing if it names nothing.
    pub(crate) fn read(config: &Config) -> Result<Option<Self>, String> {
        let files = &config.tls;
        let (Some(cert_file), Some(key_file)) = (&files.cert_file, &files.key_file) else {
            return Ok(None);
        };
        let chain = certificates(cert_file).map_err(|why| format!("tls.cert_file: {why}"))?;
        let key = || {
            PrivateKeyDer::from_pem_file(key_file).map_err(|error| {
                format!("tls.key_file: {}: {}", key_file.display(), pem_says(&error))
            })
        };
        let own = Certificate::read(&chain[0])
            .map_err(|why| format!("tls.cert_file: {}: {why}", cert_file.display()))?;
        let authority = |file: &Option<std::path::PathBuf>, crls: &[_], option: &str| {
            match file {
                Some(file) => Authority::read(file, crls).map(Some),
                None => Ok(None),
            }
            .map_err(|why: String| format!("{option}: {why}"))
        };
        let crls = match &files.node_crl_file {
            Some(file) => {
                authority::crls(file).map_err(|why| format!("tls.node_crl_file: {why}"))?
            }
            None => Vec::new(),
        };
        let nodes = authority(&files.node_ca_file, &crls, "tls.node_ca_file")?;
        let peers = authority(&files.peer_ca_file, &[], "tls.peer_ca_file")?;
        let unfit = |error: rustls::Error| {
            format!("tls.cert_file and tls.key_file do not go together: {error}")
        };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider knows TLS 1.3");
        let builder = match Either::of(nodes.as_ref(), peers.as_ref()) {
            Some(either) => builder.with_client_cert_verifier(Arc::new(either)),
            None => builder.with_no_client_auth(),
        };
        let mut server = builder.with_single_cert(chain.clone(), key()?).map_err(unfit)?;
        server.alpn_protocols = vec![ALPN.to_vec()];
        let peers_client = match &peers {
            Some(peers) => {
                let client = client(peers.roots().clone());
                let client = client.with_client_auth_cert(chain, key()?).map_err(unfit)?;
                Some(Arc::new(client))
            }
            None => None,
        };
        Ok(Some(Material { server: Arc::new(server), peers_client, nodes, peers, own }))
    }

    /// Whose certificates these are, by these authorities.
    fn certified(&self, chain: &[CertificateDer<'_>]) -> Option<Certified> {
        let leaf = chain.first()?;
        let now = UnixTime::now();
        let certificate = Certificate::read(leaf).ok()?;
        let signed = |by: &Option<Authority>| by.as_ref().is_some_and(|by| by.signed(chain, now));
        let node = certificate.node().cloned().filter(|_| signed(&self.nodes));
        // Whoever names a node is one, should both have the same authority.
        let is_peer = certificate.names_no_node() && signed(&self.peers);
        (node.is_some() || is_peer).then(|| Certified {
            node,
            is_peer,
            expires: certificate.expires(),
            chain: chain.iter().map(|one| one.clone().into_owned()).collect(),
            is_believed: AtomicBool::new(true),
        })
    }

    /// What to meet other instances with.
    pub(crate) fn peers_client(&self) -> Option<Arc<ClientConfig>> {
        self.peers_client.clone()
    }

    /// Why our own certificate is not good at this moment, if it is not.
    pub(crate) fn is_out_of_date(&self, now_s: u64) -> Option<String> {
        let own = &self.own;
        if now_s >= own.expires() {
            return Some(format!(
                "tls.cert_file: the certificate {} has expired",
                own.fingerprint()
            ));
        }
        (now_s < own.begins()).then(|| {
            format!("tls.cert_file: the certificate {} is not good yet", own.fingerprint())
        })
    }

    /// Says so if our own certificate ends soon.
    pub(crate) fn warn_of_the_end(&self, now_s: u64) {
        let days = self.own.expires().saturating_sub(now_s) / (24 * 3_600);
        if let Some(why) = self.is_out_of_date(now_s) {
            tracing::error!("{why}: clients turn away");
        } else if self.own.expires() < now_s + SOON_S {
            let certificate = self.own.fingerprint();
            tracing::warn!(certificate, days, "the certificate of this instance expires soon");
        }
    }
}

/// In epoch seconds, by the clock that certificates go by.
pub(crate) fn now_s() -> u64 {
    UnixTime::now().as_secs()
}

/// The one implementation of it all.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

type ClientBuilder = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn client(roots: Arc<rustls::RootCertStore>) -> ClientBuilder {
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider knows TLS 1.3")
        .with_root_certificates(roots)
}

/// All of a file; at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let says = |error| format!("{}: {}", file.display(), pem_says(&error));
    let all = CertificateDer::pem_file_iter(file).map_err(says)?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(says)?;
    match all.is_empty() {
        true => Err(format!("{} has no certificate", file.display())),
        false => Ok(all),
    }
}

/// Nothing of what the file holds.
fn pem_says(error: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match error {
        Error::Io(error) => error.to_string(),
        Error::NoItemsFound => "it holds nothing of the kind, as PEM".to_owned(),
        _ => "it is no PEM".to_owned(),
    }
}
