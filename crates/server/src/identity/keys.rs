//! The keys that tokens are signed with: Ed25519 by ring, read from PEM files as openssl writes them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use signature::{Signer, Verifier};

use crate::config::kid;

/// What stands before the 32 bytes of an Ed25519 public key (RFC 8410).
pub(super) const SPKI_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Keys by their names.
#[derive(Clone, Default)]
pub(crate) struct Keys(HashMap<String, DecodingKey>);

impl Keys {
    /// Reads public keys; each has the name of its file up to the first dot.
    pub(crate) fn read(files: &[PathBuf]) -> Result<Self, String> {
        install();
        let mut keys = HashMap::new();
        for file in files {
            let name = kid(file).ok_or_else(|| format!("{}: it has no name", file.display()))?;
            keys.insert(name, public_key(file)?);
        }
        Ok(Keys(keys))
    }

    /// The one key of this name.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn one(name: &str, key: &[u8; 32]) -> Self {
        install();
        Keys(HashMap::from([(name.to_owned(), DecodingKey::from_ed_der(key))]))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, kid: &str) -> Option<&DecodingKey> {
        self.0.get(kid)
    }

    /// Their names, for a log line.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

fn public_key(file: &Path) -> Result<DecodingKey, String> {
    let wrong = |why: String| format!("{}: {why}", file.display());
    let der = SubjectPublicKeyInfoDer::from_pem_file(file)
        .map_err(|error| wrong(format!("not a public key in PEM: {error}")))?;
    match der.strip_prefix(&SPKI_PREFIX) {
        Some(key) if key.len() == 32 => Ok(DecodingKey::from_ed_der(key)),
        _ => Err(wrong("not an Ed25519 key; `lingua token key` generates one".to_owned())),
    }
}

/// Reads a private key.
pub(super) fn private_key(file: &Path) -> Result<EncodingKey, String> {
    install();
    let der = PrivatePkcs8KeyDer::from_pem_file(file)
        .map_err(|error| format!("{}: not a private key in PEM: {error}", file.display()))?;
    let key = EncodingKey::from_ed_der(der.secret_pkcs8_der());
    RingSigner::new(&key)
        .map_err(|_| format!("{}: not an Ed25519 key", file.display()))
        .map(|_| key)
}

/// ring signs and checks; the library of tokens would otherwise bring a second implementation along.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| match algorithm {
        Algorithm::EdDSA => Ok(Box::new(RingSigner::new(key)?) as Box<dyn JwtSigner>),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    },
    verifier_factory: |algorithm, key| match algorithm {
        Algorithm::EdDSA => Ok(Box::new(RingVerifier(key.clone())) as Box<dyn JwtVerifier>),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    },
    key_utils: KeyUtils::new_unimplemented(),
};

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Nobody else in this process uses the library.
        let _ = PROVIDER.install_default();
    });
}

struct RingSigner(Ed25519KeyPair);

impl RingSigner {
    fn new(key: &EncodingKey) -> Result<Self, Error> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.as_bytes());
        pair.map(RingSigner).map_err(|_| ErrorKind::InvalidEddsaKey.into())
    }
}

impl Signer<Vec<u8>> for RingSigner {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(self.0.sign(message).as_ref().to_vec())
    }
}

impl JwtSigner for RingSigner {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

struct RingVerifier(DecodingKey);

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), signature::Error> {
        let key = self.0.try_get_as_bytes().map_err(signature::Error::from_source)?;
        let checked = UnparsedPublicKey::new(&ED25519, key).verify(message, signed);
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

/// A signature over any bytes, for tokens that `mint` would not make.
#[cfg(test)]
pub(super) fn sign_for_tests(file: &Path, message: &[u8]) -> Vec<u8> {
    let key = private_key(file).expect("a key");
    RingSigner::new(&key).expect("a key").sign(message)
}
