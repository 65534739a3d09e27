//! What a token says.

use std::collections::BTreeSet;

use lingua_core::limits::MAX_SLOTS;
use lingua_core::{NodeId, Region, TenantId};
use serde::{Deserialize, Serialize};

use super::flaw::Flaw;

/// What somebody may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Open sessions and submit jobs, for one tenant.
    Session,
    /// Act as one node.
    Node,
    /// See the state of everything, drain and block nodes, cancel jobs, revoke tokens.
    Admin,
    /// See what an administrator sees, and change nothing.
    Viewer,
    /// Read the metrics, and nothing else.
    Metrics,
}

impl Role {
    pub(crate) const ALL: [Role; 5] =
        [Role::Session, Role::Node, Role::Admin, Role::Viewer, Role::Metrics];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Role::Session => "session",
            Role::Node => "node",
            Role::Admin => "admin",
            Role::Viewer => "viewer",
            Role::Metrics => "metrics",
        }
    }

    /// What stands in `typ` of the header, so that a token of one kind is never taken for another.
    pub(super) fn typ(self) -> &'static str {
        match self {
            Role::Session => "lingua-session+jwt",
            Role::Node => "lingua-node+jwt",
            Role::Admin => "lingua-admin+jwt",
            Role::Viewer => "lingua-viewer+jwt",
            Role::Metrics => "lingua-metrics+jwt",
        }
    }

    /// Whether it is for those who run the platform: their calls have a listener of their own, if there
    /// is one.
    pub(crate) fn is_operators(self) -> bool {
        matches!(self, Role::Admin | Role::Viewer | Role::Metrics)
    }

    /// Whether it sees the sessions and jobs of all tenants, without what is said in them.
    pub(crate) fn sees_all_tenants(self) -> bool {
        matches!(self, Role::Admin | Role::Viewer)
    }
}

/// The claims as they stand in a token. Unknown ones are passed over, as the standard says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) iss: String,
    pub(super) aud: String,
    pub(super) sub: String,
    pub(super) jti: String,
    pub(super) nbf: u64,
    pub(super) exp: u64,
    pub(super) role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenants: Option<BTreeSet<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_slots: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) region: Option<String>,
}

/// Somebody who showed a good token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Credential {
    pub(crate) role: Role,
    /// A node's id; for others, whatever the issuer calls them.
    pub(crate) subject: String,
    /// Whose sessions and jobs; a session's token has one, the others none.
    pub(crate) tenant: Option<TenantId>,
    /// Whose jobs a node may hear; everybody's if absent.
    pub(crate) tenants: Option<BTreeSet<TenantId>>,
    /// How many jobs a node may have at the same time.
    pub(crate) max_slots: Option<u32>,
    /// Where a node is; anywhere if absent.
    pub(crate) region: Option<Region>,
    pub(crate) jti: String,
    /// In epoch seconds.
    pub(crate) not_before: u64,
    pub(crate) expires: u64,
}

/// Characters of names in a token.
const MAX_NAME_CHARS: usize = 64;

impl Credential {
    /// Reads the claims.
    pub(super) fn of(claims: Claims) -> Result<Self, Flaw> {
        let plain = |text: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
            !text.is_empty() && text.len() <= MAX_NAME_CHARS && text.chars().all(known)
        };
        if !plain(&claims.sub) || !plain(&claims.jti) {
            return Err(Flaw::BadClaims);
        }
        let tenant = claims.tenant.map(|tenant| TenantId::new(tenant).map_err(|_| Flaw::BadClaims));
        let tenant = tenant.transpose()?;
        let tenants = claims.tenants.map(|tenants| {
            tenants
                .into_iter()
                .map(|tenant| TenantId::new(tenant).map_err(|_| Flaw::BadClaims))
                .collect()
        });
        let tenants: Option<BTreeSet<TenantId>> = tenants.transpose()?;
        let region = claims.region.map(|region| Region::new(region).map_err(|_| Flaw::BadClaims));
        let region = region.transpose()?;
        let own = claims.max_slots.is_none() && region.is_none();
        let none = tenant.is_none() && tenants.is_none() && own;
        let fits = match claims.role {
            Role::Session => tenant.is_some() && tenants.is_none() && own,
            Role::Node => {
                let slots = claims.max_slots.is_none_or(|most| (1..=MAX_SLOTS).contains(&most));
                tenant.is_none() && NodeId::new(&claims.sub).is_ok() && slots
            }
            Role::Admin | Role::Viewer | Role::Metrics => none,
        };
        if !fits {
            return Err(Flaw::BadClaims);
        }
        Ok(Credential {
            role: claims.role,
            subject: claims.sub,
            tenant,
            tenants,
            max_slots: claims.max_slots,
            region,
            jti: claims.jti,
            not_before: claims.nbf,
            expires: claims.exp,
        })
    }

    /// Whether this one is the same somebody: a newer token of theirs may take its place.
    pub(crate) fn is_same(&self, other: &Credential) -> bool {
        self.role == other.role
            && self.subject == other.subject
            && self.tenant == other.tenant
            && self.tenants == other.tenants
            && self.max_slots == other.max_slots
            && self.region == other.region
    }
}
