//! Who signs the certificates of others.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use super::{certificates, pem_says, provider};

/// Somebody who signs certificates, or several.
#[derive(Clone, Debug)]
pub(super) struct Authority {
    roots: Arc<RootCertStore>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Authority {
    /// Reads its certificates. What the lists take back is not believed, and with lists nothing is
    /// that none of them is about.
    pub(super) fn read(
        file: &Path,
        crls: &[CertificateRevocationListDer<'static>],
    ) -> Result<Self, String> {
        let says = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
        let mut roots = RootCertStore::empty();
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| says(&error))?;
        }
        let roots = Arc::new(roots);
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider());
        let verifier = builder
            .with_crls(crls.iter().cloned())
            .only_check_end_entity_revocation()
            .build()
            .map_err(|error| says(&error))?;
        Ok(Authority { roots, verifier })
    }

    pub(super) fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }

    /// Whether it signed this, for one who calls, and it is good now.
    pub(super) fn signed(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> bool {
        self.verify(chain, now).is_ok()
    }

    fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let (leaf, others) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        self.verifier.verify_client_cert(leaf, others, now)
    }
}

/// Lists of certificates that were taken back.
pub(super) fn crls(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let says = |error| format!("{}: {}", file.display(), pem_says(&error));
    let all = CertificateRevocationListDer::pem_file_iter(file).map_err(says)?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(says)?;
    match all.is_empty() {
        true => Err(format!("{} has no list of revoked certificates", file.display())),
        false => Ok(all),
    }
}

/// Asks everybody who connects for a certificate and takes none for an answer; one that is shown has to
/// be signed by one of the two.
#[derive(Debug)]
pub(super) struct Either {
    authorities: Vec<Authority>,
    /// What to show: the names of all.
    hints: Vec<DistinguishedName>,
}

impl Either {
    /// `None` without any authority.
    pub(super) fn of(one: Option<&Authority>, other: Option<&Authority>) -> Option<Self> {
        let authorities: Vec<Authority> = one.into_iter().chain(other).cloned().collect();
        let hints = authorities.iter().flat_map(|authority| authority.roots.subjects()).collect();
        (!authorities.is_empty()).then_some(Either { authorities, hints })
    }
}

impl ClientCertVerifier for Either {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut refused = Error::NoCertificatesPresented;
        for authority in &self.authorities {
            match authority.verifier.verify_client_cert(end_entity, intermediates, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities[0].verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities[0].verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities[0].verifier.supported_verify_schemes()
    }
}
