//! Making keys and tokens. A scheduler never does: it has public keys only.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, Header, encode};
use lingua_engine::chance::Chance;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::Value;

use super::claims::{Claims, Credential, Role};
use super::keys::{SPKI_PREFIX, private_key};
use crate::config::kid;

/// What a token is to say.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) role: Role,
    pub(crate) subject: String,
    pub(crate) tenant: Option<String>,
    pub(crate) tenants: Option<BTreeSet<String>>,
    pub(crate) max_slots: Option<u32>,
    pub(crate) region: Option<String>,
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) not_before_s: u64,
    pub(crate) life_s: u64,
}

/// Signs a token with the private key in this file.
pub(crate) fn mint(key_file: &Path, wish: Wish) -> Result<String, String> {
    let key = private_key(key_file)?;
    let kid = kid(key_file).ok_or_else(|| format!("{}: it has no name", key_file.display()))?;
    let claims = Claims {
        iss: wish.issuer,
        aud: wish.audience,
        sub: wish.subject,
        jti: format!("{:016x}{:016x}", Chance::system().bits(), Chance::system().bits()),
        nbf: wish.not_before_s,
        exp: wish.not_before_s.saturating_add(wish.life_s),
        role: wish.role,
        tenant: wish.tenant,
        tenants: wish.tenants,
        max_slots: wish.max_slots,
        region: wish.region,
    };
    Credential::of(claims.clone()).map_err(|_| {
        "the token cannot be: a session's has a tenant, a node's has its id as the subject and may \
         have tenants, slots and a region, an administrator's, a viewer's and one for metrics have none of these; names are letters, digits and ._@-"
            .to_owned()
    })?;
    let header = Header {
        typ: Some(wish.role.typ().to_owned()),
        kid: Some(kid),
        ..Header::new(Algorithm::EdDSA)
    };
    encode(&header, &claims, &key).map_err(|error| error.to_string())
}

/// From so long a life on it is warned of.
const LONG_LIFE_S: u64 = 30 * 24 * 3_600;

/// What who makes such a token should know. `usual_s` is how long a token of the role lives at most
/// where nothing is configured.
pub(crate) fn warnings(role: Role, life_s: u64, usual_s: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if role == Role::Admin {
        warnings.push(
            "this token can drain and block nodes, cancel jobs and revoke tokens; a token with --role viewer \
             reads the same and changes nothing"
                .to_owned(),
        );
    }
    if life_s > usual_s {
        let role = role.as_str();
        warnings.push(format!(
            "a scheduler refuses this token unless its identity.{role}_life_s is at least {life_s}; the \
             default is {usual_s}"
        ));
    }
    if life_s > LONG_LIFE_S {
        let days = life_s / (24 * 3_600);
        warnings.push(format!(
            "this token is good for {days} days, also for who steals it; `lingua token revoke` ends it earlier"
        ));
    }
    warnings
}

/// What a token says, whether or not it is good.
pub(crate) fn claims_of(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (header, claims) = (parts.next()?, parts.next()?);
    let read = |part: &str| -> Option<Value> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
    };
    let mut all = read(claims)?;
    let said = all.as_object_mut()?;
    let header = read(header)?;
    for name in ["alg", "typ", "kid"] {
        said.insert(name.to_owned(), header.get(name)?.clone());
    }
    Some(all)
}

/// What stands before the 32 bytes of an Ed25519 private key (RFC 8410): PKCS#8 of the first version, without
/// the public key behind it. openssl and the libraries of other languages read no newer one.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A new pair of keys as PEM: the private one and the public one.
pub(crate) fn make_key() -> Result<(String, String), String> {
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).map_err(|_| "no randomness")?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| "the key cannot be made")?;
    let private = [&PKCS8_PREFIX[..], &seed].concat();
    let public = [&SPKI_PREFIX[..], pair.public_key().as_ref()].concat();
    Ok((pem("PRIVATE KEY", &private), pem("PUBLIC KEY", &public)))
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        (0..text.len()).step_by(64).map(|from| &text[from..text.len().min(from + 64)]).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}
