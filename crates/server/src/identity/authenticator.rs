//! Whether a token is good, here and now.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;
use lingua_store::rates::Name;
use parking_lot::{Mutex, RwLock};

use super::claims::{Claims, Credential, Role};
use super::flaw::Flaw;
use super::revocations::Remembered;
use super::sockets::Sockets;
use super::{Caller, Keys, Subjects};
use crate::config::Config;
use crate::site::{Host, Origin, OwnHosts};
use crate::tls::Certified;

/// Characters of a token; ours have some 400.
pub(crate) const MAX_TOKEN_CHARS: usize = 4_096;

/// Tokens whose signature was found good and need not be checked again.
const MAX_SEEN: usize = 16_384;

/// What tokens must say. It changes when the configuration is read again.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    pub(crate) keys: Keys,
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) session_life_s: u64,
    pub(crate) node_life_s: u64,
    pub(crate) admin_life_s: u64,
    pub(crate) viewer_life_s: u64,
    pub(crate) metrics_life_s: u64,
    pub(crate) leeway_s: u64,
    /// Nodes without a certificate are turned away.
    pub(crate) node_certs: bool,
    /// Other instances without a certificate are, too.
    pub(crate) peer_certs: bool,
    /// Of pages that may call, beside our own.
    pub(crate) origins: HashSet<Origin>,
    /// What this scheduler may be called.
    pub(crate) own_hosts: OwnHosts,
    /// That is checked although tokens are asked for.
    pub(crate) checks_hosts: bool,
}

impl Rules {
    /// Reads the keys that the configuration names.
    pub(crate) fn read(config: &Config) -> Result<Self, String> {
        let identity = &config.identity;
        let keys = Keys::read(&identity.key_files);
        Ok(Rules {
            keys: keys.map_err(|why| format!("identity.key_files: {why}"))?,
            issuer: identity.issuer.clone(),
            audience: identity.audience.clone(),
            session_life_s: identity.session_life_s,
            node_life_s: identity.node_life_s,
            admin_life_s: identity.admin_life_s,
            viewer_life_s: identity.viewer_life_s,
            metrics_life_s: identity.metrics_life_s,
            leeway_s: identity.leeway_s,
            node_certs: config.tls.require_node_cert,
            peer_certs: config.tls.peer_ca_file.is_some(),
            origins: identity.origins.iter().filter_map(|text| Origin::parse(text)).collect(),
            own_hosts: own_hosts(config),
            checks_hosts: !identity.hosts.is_empty(),
        })
    }

    /// From `nbf` to `exp` of a token of this role at most.
    pub(crate) fn life_s(&self, role: Role) -> u64 {
        match role {
            Role::Session => self.session_life_s,
            Role::Node => self.node_life_s,
            Role::Admin => self.admin_life_s,
            Role::Viewer => self.viewer_life_s,
            Role::Metrics => self.metrics_life_s,
        }
    }
}

/// The names of the configuration, and the one by which other instances call this one.
fn own_hosts(config: &Config) -> OwnHosts {
    let listens = [Some(config.main.listen), config.main.admin_listen];
    let listens = listens.into_iter().flatten().map(|address| address.ip());
    let advertised = config.main.advertise.as_deref().and_then(Origin::parse);
    let named = config.identity.hosts.iter().filter_map(|text| Host::parse(text));
    OwnHosts::new(listens, named.chain(advertised.map(Origin::into_host)))
}

/// Writes down whose connection was closed because the token is no longer good.
pub(crate) trait DismissalLog: Send + Sync {
    /// A socket of this role, which was open, had to be closed.
    fn dismissed(&self, caller: &Caller, from: IpAddr, role: &str, why: &Refusal);
}

/// Decides who comes in.
pub(crate) struct Authenticator {
    rules: RwLock<Arc<Rules>>,
    /// By the token itself. Emptied when the rules change, and when it is full.
    seen: Mutex<HashMap<String, Arc<Credential>>>,
    revoked: RwLock<Revoked>,
    pub(super) remembered: Mutex<Remembered>,
    pub(super) sockets: Sockets,
    /// Is told of those who had to leave.
    pub(super) dismissals: OnceLock<Arc<dyn DismissalLog>>,
    /// How much each of those with a token asks for.
    pub(crate) subjects: Arc<Subjects>,
    /// What was turned away by its origin or host, so that each is logged once.
    pub(super) strangers: Mutex<HashSet<String>>,
}

/// What is no longer good although it has not expired.
#[derive(Clone, Default, PartialEq)]
struct Revoked {
    tokens: HashSet<String>,
    /// Role and subject; tokens from before this second.
    subjects: HashMap<(Role, String), u64>,
}

impl Authenticator {
    pub(crate) fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Authenticator {
            rules: RwLock::new(Arc::new(rules)),
            seen: Mutex::default(),
            revoked: RwLock::default(),
            remembered: Mutex::default(),
            sockets: Sockets::default(),
            dismissals: OnceLock::new(),
            subjects: Arc::default(),
            strangers: Mutex::default(),
        })
    }

    /// Of a scheduler without tokens, which listens there.
    pub(crate) fn open(listens: Option<IpAddr>) -> Arc<Self> {
        Authenticator::new(Rules { own_hosts: OwnHosts::new(listens, []), ..Rules::default() })
    }

    /// Nobody is asked who they are.
    pub(crate) fn is_open(&self) -> bool {
        self.rules.read().keys.is_empty()
    }

    /// From now on it is written down who had to leave.
    pub(crate) fn log_dismissals(&self, to: Arc<dyn DismissalLog>) {
        // The first one stays.
        let _ = self.dismissals.set(to);
    }

    /// Whose token it is, good or no longer, if it was looked at before.
    pub(crate) fn whose(&self, token: Option<&str>) -> Caller {
        let known = token.and_then(|token| self.seen.lock().get(token).cloned());
        known.map_or(Caller::Anyone, Caller::Known)
    }

    /// From now on these rules hold. Who is inside by a key that is gone has to leave.
    pub(crate) fn replace(&self, rules: Rules, now_s: u64) {
        *self.rules.write() = Arc::new(rules);
        self.seen.lock().clear();
        self.sockets.dismiss(|token| self.check(token, now_s).map(|_| ()));
    }

    /// Who shows this token.
    pub(crate) fn caller(&self, token: Option<&str>, now_s: u64) -> Result<Caller, Refusal> {
        if self.is_open() {
            return Ok(Caller::Anyone);
        }
        let token = token.ok_or_else(|| unauthorized("no_token", "a token is needed here"))?;
        self.check(token, now_s).map(Caller::Known)
    }

    /// Which node shows this certificate and this token. A certificate says who it is; a token beside
    /// it, for how many jobs and for whom.
    pub(crate) fn node(
        &self,
        certified: Option<&Certified>,
        token: Option<&str>,
        now_s: u64,
    ) -> Result<Caller, Refusal> {
        let certified = certified.filter(|certified| certified.is_good(now_s));
        let Some(node) = certified.and_then(|certified| certified.node.as_ref()) else {
            if self.rules.read().node_certs {
                let detail = "nodes need a client certificate";
                return Err(Refusal::new(Code::Forbidden, detail).because("no_certificate"));
            }
            return self.caller(token, now_s);
        };
        let Some(token) = token.filter(|_| !self.is_open()) else {
            return Ok(Caller::Certified(node.clone()));
        };
        let credential = self.check(token, now_s)?;
        if credential.role == Role::Node && credential.subject != node.as_str() {
            let detail = "token and certificate belong to different nodes";
            return Err(Refusal::new(Code::Forbidden, detail).because("not_theirs"));
        }
        Ok(Caller::Known(credential))
    }

    /// Whether what is for other instances alone may be told to one who shows this certificate.
    pub(crate) fn is_peer(&self, certified: Option<&Certified>, now_s: u64) -> bool {
        let is_peer = |certified: &Certified| certified.is_peer && certified.is_good(now_s);
        !self.rules.read().peer_certs || certified.is_some_and(is_peer)
    }

    /// Sends away those whose token or certificate is over.
    pub(crate) fn dismiss_expired(&self, now_s: u64) {
        self.sockets.dismiss_expired(now_s, self.rules.read().leeway_s);
    }

    /// Whose token it is, if it is good now.
    pub(super) fn check(&self, token: &str, now_s: u64) -> Result<Arc<Credential>, Refusal> {
        self.check_by(&self.rules(), token, now_s)
    }

    /// Those that hold now.
    pub(super) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read())
    }

    /// The same by rules that may be replaced while it goes on.
    pub(super) fn check_by(
        &self,
        rules: &Arc<Rules>,
        token: &str,
        now_s: u64,
    ) -> Result<Arc<Credential>, Refusal> {
        let known = self.seen.lock().get(token).cloned();
        let credential = match known {
            Some(credential) => credential,
            None => {
                let credential = Arc::new(verify(rules, token).map_err(|flaw| {
                    tracing::debug!(reason = flaw.word(), "a token is refused");
                    flaw.refusal()
                })?);
                let mut seen = self.seen.lock();
                if seen.len() >= MAX_SEEN {
                    seen.clear();
                }
                // What was found good by rules that are gone meanwhile is not remembered.
                if Arc::ptr_eq(rules, &self.rules.read()) {
                    seen.insert(token.to_owned(), Arc::clone(&credential));
                }
                credential
            }
        };
        self.is_good(rules, &credential, now_s)?;
        Ok(credential)
    }

    /// Whether a token that was signed well is good at this moment.
    fn is_good(&self, rules: &Rules, token: &Credential, now_s: u64) -> Result<(), Refusal> {
        if now_s + rules.leeway_s < token.not_before {
            return Err(unauthorized("not_yet", "the token is not good yet"));
        }
        if now_s >= token.expires + rules.leeway_s {
            return Err(unauthorized("expired", "the token has expired"));
        }
        if self.is_revoked(token) {
            return Err(unauthorized("revoked", "the token is revoked"));
        }
        Ok(())
    }

    fn is_revoked(&self, token: &Credential) -> bool {
        let revoked = self.revoked.read();
        let key = (token.role, token.subject.clone());
        revoked.tokens.contains(&token.jti)
            || revoked.subjects.get(&key).is_some_and(|before| token.not_before <= *before)
    }

    /// The longest that a token of this role lives.
    pub(crate) fn life_s(&self, role: Role) -> u64 {
        self.rules.read().life_s(role)
    }

    /// Takes over what is revoked; those inside by it have to leave.
    pub(crate) fn revoke(&self, marks: &[Name], now_s: u64) {
        let mut revoked = Revoked::default();
        for mark in marks {
            match mark.as_str().split(':').collect::<Vec<_>>()[..] {
                ["jti", jti] => {
                    revoked.tokens.insert(jti.to_owned());
                }
                ["sub", role, subject, before] => {
                    let role = Role::ALL.into_iter().find(|known| known.as_str() == role);
                    let (Some(role), Ok(before)) = (role, before.parse()) else { continue };
                    let entry =
                        revoked.subjects.entry((role, subject.to_owned())).or_insert(before);
                    *entry = before.max(*entry);
                }
                _ => {}
            }
        }
        if *self.revoked.read() == revoked {
            return self.dismiss_expired(now_s);
        }
        *self.revoked.write() = revoked;
        self.sockets.dismiss(|token| self.check(token, now_s).map(|_| ()));
    }
}

/// Checks everything of a token that does not change with time.
fn verify(rules: &Rules, token: &str) -> Result<Credential, Flaw> {
    if token.len() > MAX_TOKEN_CHARS {
        return Err(Flaw::TooLong);
    }
    let header = decode_header(token).map_err(|_| Flaw::Unreadable)?;
    // Whatever it names must be understood (RFC 7515 4.1.11), and nothing is.
    if header.crit.is_some() {
        return Err(Flaw::CriticalHeader);
    }
    let key = header.kid.as_deref().and_then(|kid| rules.keys.get(kid)).ok_or(Flaw::UnknownKey)?;
    let mut validation = Validation::new(Algorithm::EdDSA);
    // Times are checked by our own clock, and again for as long as somebody is inside.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.set_required_spec_claims(&["exp", "nbf", "aud", "iss", "sub"]);
    validation.set_audience(&[&rules.audience]);
    validation.set_issuer(&[&rules.issuer]);
    let claims = decode::<Claims>(token, key, &validation).map_err(|error| {
        use jsonwebtoken::errors::ErrorKind;
        match error.kind() {
            ErrorKind::InvalidSignature => Flaw::BadSignature,
            ErrorKind::InvalidAlgorithm => Flaw::OtherAlgorithm,
            ErrorKind::InvalidAudience => Flaw::OtherAudience,
            ErrorKind::InvalidIssuer => Flaw::OtherIssuer,
            _ => Flaw::BadClaims,
        }
    })?;
    let claims = claims.claims;
    if header.typ.as_deref() != Some(claims.role.typ()) {
        return Err(Flaw::OtherType);
    }
    let life = claims.exp.checked_sub(claims.nbf).ok_or(Flaw::BadClaims)?;
    let limit = rules.life_s(claims.role);
    if life > limit {
        return Err(Flaw::LivesTooLong(claims.role, limit));
    }
    Credential::of(claims)
}

/// With a word for the audit log.
pub(super) fn unauthorized(reason: &'static str, detail: &str) -> Refusal {
    Refusal::new(Code::Unauthorized, detail).because(reason)
}
