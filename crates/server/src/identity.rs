//! Who somebody is, by the token that they show; a node also by its certificate.
//!
//! - `keys`: the keys that tokens are signed with. `claims`: what a token says. `flaw`: why one is not good.
//! - `authenticator`: whether it is good here and now. `sockets`: those who are inside, until it is not.
//! - `subjects`: how much one of them may ask for. `browsers`: which web pages may call, and by which names.
//! - `mint`: making tokens, for `lingua token`.
//!
//! Without keys the authenticator is open: everybody is [`Caller::Anyone`] and may do everything, which is for
//! a machine of one's own. With keys every route has a role, and who does not have it is refused.
//! Tokens are JWTs signed with Ed25519 and nothing else.

mod keys;
mod claims;
mod flaw;
mod authenticator;
mod browsers;
mod revocations;
mod roles;
mod sockets;
mod subjects;
mod mint;

pub(crate) use authenticator::{Authenticator, DismissalLog, MAX_TOKEN_CHARS, Rules};
pub(crate) use browsers::other_site;
pub(crate) use claims::{Credential, Role};
pub(crate) use keys::Keys;
pub(crate) use mint::{Wish, claims_of, make_key, mint, warnings};
pub(crate) use revocations::{follow_revocations, of_tokens};
pub(crate) use roles::{BearerToken, listed, other_role};
pub(crate) use sockets::SocketAuth;
pub(crate) use subjects::{SubjectPermit, Subjects};

use std::net::IpAddr;
use std::sync::Arc;

use lingua_core::node::Declaration;
use lingua_core::outcome::Code;
use lingua_core::{NodeId, TenantId};
use lingua_engine::job::Refusal;
use lingua_engine::nodes::Arrival;

/// The tenant of those who name none, where nobody is asked.
pub(crate) const DEFAULT_TENANT: &str = "default";

/// Who calls.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// The authenticator is open.
    Anyone,
    /// Somebody with a token.
    Known(Arc<Credential>),
    /// A node with a certificate and no token: exactly that one, and bounded by nothing else.
    Certified(NodeId),
}

impl Caller {
    /// Whose sessions, jobs and speech they may touch; `None` for those who have no tenant.
    pub(crate) fn tenant(&self) -> Option<TenantId> {
        match self {
            Caller::Anyone => Some(default_tenant()),
            Caller::Known(credential) => credential.tenant.clone(),
            Caller::Certified(_) => None,
        }
    }

    /// Whether something of this tenant is theirs to see.
    pub(crate) fn may_see(&self, tenant: &TenantId) -> bool {
        match self {
            Caller::Anyone => *tenant == default_tenant(),
            Caller::Known(credential) if credential.role.sees_all_tenants() => true,
            Caller::Known(credential) => credential.tenant.as_ref() == Some(tenant),
            Caller::Certified(_) => false,
        }
    }

    /// Of their token, if they showed one.
    pub(crate) fn role(&self) -> Option<Role> {
        match self {
            Caller::Known(credential) => Some(credential.role),
            Caller::Anyone | Caller::Certified(_) => None,
        }
    }

    /// Somebody with an administrator's token.
    pub(crate) fn is_admin(&self) -> bool {
        matches!(self, Caller::Known(credential) if credential.role == Role::Admin)
    }

    /// Who sees the jobs of all tenants sees how they went, and not what was said in them.
    pub(crate) fn may_read(&self) -> bool {
        match self {
            Caller::Anyone => true,
            Caller::Known(credential) => !credential.role.sees_all_tenants(),
            Caller::Certified(_) => false,
        }
    }

    /// How a node of theirs comes in from this address.
    pub(crate) fn arrival(&self, from: IpAddr) -> Arrival {
        match self {
            Caller::Anyone if from.to_canonical().is_loopback() => Arrival::Local,
            Caller::Anyone => Arrival::Open,
            Caller::Known(_) | Caller::Certified(_) => Arrival::Credential,
        }
    }

    /// What a node may be at most: its token says for how many jobs, for whom and where. One that says that it
    /// is in another region is refused.
    pub(crate) fn narrowed(&self, mut declared: Declaration) -> Result<Declaration, Refusal> {
        if let Caller::Known(credential) = self {
            if let Some(bound) = &credential.region {
                let said = declared.region.get_or_insert_with(|| bound.clone());
                if said != bound {
                    let detail = format!("region: the token is for {bound}, not for {said}");
                    return Err(Refusal::new(Code::Forbidden, detail));
                }
            }
            let most = credential.max_slots.unwrap_or(u32::MAX);
            declared.max_slots = declared.max_slots.min(most);
            declared.tenants = match (declared.tenants, credential.tenants.clone()) {
                (Some(own), Some(allowed)) => Some(own.intersection(&allowed).cloned().collect()),
                (own, allowed) => own.or(allowed),
            };
        }
        Ok(declared)
    }

    /// Refuses one who speaks for a node that is not theirs.
    pub(crate) fn is_node(&self, node: &str) -> Result<(), Refusal> {
        match self {
            Caller::Anyone => Ok(()),
            Caller::Known(credential)
                if credential.role == Role::Node && credential.subject == node =>
            {
                Ok(())
            }
            Caller::Known(_) => {
                Err(Refusal::new(Code::Forbidden, "the token belongs to another node"))
            }
            Caller::Certified(own) if own.as_str() == node => Ok(()),
            Caller::Certified(_) => {
                Err(Refusal::new(Code::Forbidden, "the certificate belongs to another node"))
            }
        }
    }
}

pub(crate) fn default_tenant() -> TenantId {
    TenantId::new(DEFAULT_TENANT).expect("within an id's letters")
}

#[cfg(test)]
mod tests;
