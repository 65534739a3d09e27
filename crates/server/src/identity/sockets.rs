//! Those who are inside. A token is good for a while, a socket may be open for hours: when the token
//! ends, so does the socket, unless its owner showed a newer one. With certificates it is the same.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use lingua_engine::job::Refusal;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Caller;
use super::authenticator::{Authenticator, unauthorized};
use super::claims::{Credential, Role};
use crate::listener::Peer;
use crate::tls::Certified;

/// Who is inside, by a number of their own.
#[derive(Default)]
pub(super) struct Sockets {
    next: AtomicU64,
    inside: Mutex<HashMap<u64, Inside>>,
}

struct Inside {
    /// By which they came in: one of the two, or both.
    token: Option<String>,
    certified: Option<Arc<Certified>>,
    expires: u64,
    dismiss: oneshot::Sender<Refusal>,
}

impl Sockets {
    /// Sends away those whose token is refused by this.
    pub(super) fn dismiss(&self, check: impl Fn(&str) -> Result<(), Refusal>) {
        self.remove(|inside| inside.token.as_deref().and_then(|token| check(token).err()));
    }

    /// Sends away those whose token or certificate has expired, or whose certificate is not believed
    /// any more.
    pub(super) fn dismiss_expired(&self, now_s: u64, leeway_s: u64) {
        self.remove(|inside| {
            if inside.certified.as_ref().is_some_and(|certified| !certified.is_believed()) {
                return Some(unauthorized("bad_certificate", "the certificate is no longer valid"));
            }
            let over = now_s >= inside.expires.saturating_add(leeway_s);
            over.then(|| match inside.token {
                Some(_) => unauthorized("expired", "the token has expired"),
                None => unauthorized("expired", "the certificate has expired"),
            })
        });
    }

    fn remove(&self, mut refuse: impl FnMut(&Inside) -> Option<Refusal>) {
        let mut inside = self.inside.lock();
        let refused: Vec<(u64, Refusal)> =
            inside.iter().filter_map(|(number, one)| Some((*number, refuse(one)?))).collect();
        for (number, refusal) in refused {
            if let Some(one) = inside.remove(&number) {
                // Its socket may have ended in this moment.
                let _ = one.dismiss.send(refusal);
            }
        }
    }
}

/// What a socket holds as long as its owner may be there.
pub(crate) struct SocketAuth {
    authenticator: Arc<Authenticator>,
    /// Where they are, and as what they came in.
    address: IpAddr,
    role: Option<Role>,
    caller: Caller,
    /// Of the connection.
    certified: Option<Arc<Certified>>,
    /// Of one who is watched.
    watched: Option<(u64, oneshot::Receiver<Refusal>)>,
}

impl SocketAuth {
    /// For a socket whose owner has shown nothing yet.
    pub(crate) fn none(authenticator: Arc<Authenticator>, address: IpAddr) -> Self {
        SocketAuth {
            authenticator,
            address,
            role: None,
            caller: Caller::Anyone,
            certified: None,
            watched: None,
        }
    }

    /// The same for a node that may have shown a certificate.
    pub(crate) fn of_node(authenticator: Arc<Authenticator>, peer: &Peer) -> Self {
        let certified = peer.certified.clone().filter(|certified| certified.node.is_some());
        let mut auth = SocketAuth::none(authenticator, peer.address);
        auth.certified = certified;
        auth
    }

    /// Where they are.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Who it is.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Who decides.
    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// Lets in who shows this token, as [`Authenticator::caller`] does, or [`Authenticator::node`] for a node, and
    /// watches over them.
    pub(crate) fn show(
        &mut self,
        role: Role,
        token: Option<&str>,
        now_s: u64,
    ) -> Result<(), Refusal> {
        let caller = match role {
            Role::Node => self.authenticator.node(self.certified.as_deref(), token, now_s)?,
            Role::Session | Role::Admin | Role::Viewer | Role::Metrics => {
                self.authenticator.caller(token, now_s)?
            }
        };
        self.forget();
        self.watched = match (&caller, token) {
            (Caller::Known(known), Some(token)) => Some(self.watch(Some((known, token)))),
            (Caller::Certified(_), _) => Some(self.watch(None)),
            _ => None,
        };
        // What changed while it was checked did not find it among those inside.
        if let (Some(_), Caller::Known(_), Some(token)) = (&self.watched, &caller, token)
            && let Err(refusal) = self.authenticator.check(token, now_s)
        {
            self.forget();
            return Err(refusal);
        }
        self.caller = caller;
        self.role = Some(role);
        Ok(())
    }

    /// Takes a newer token of the same owner; says until when it is good, in epoch seconds.
    pub(crate) fn renew(&mut self, token: &str, now_s: u64) -> Result<Option<u64>, Refusal> {
        let Caller::Known(known) = &self.caller else { return Ok(None) };
        let Caller::Known(newer) = self.authenticator.caller(Some(token), now_s)? else {
            return Ok(None);
        };
        if !newer.is_same(known) {
            let other = "the token belongs to another subject than the one that opened this socket";
            return Err(unauthorized("not_theirs", other));
        }
        self.forget();
        self.watched = Some(self.watch(Some((&newer, token))));
        self.authenticator.check(token, now_s)?;
        let expires = newer.expires;
        self.caller = Caller::Known(newer);
        Ok(Some(expires))
    }

    /// By this token, by the certificate, or by both.
    fn watch(&self, token: Option<(&Credential, &str)>) -> (u64, oneshot::Receiver<Refusal>) {
        let sockets = &self.authenticator.sockets;
        let number = sockets.next.fetch_add(1, Ordering::Relaxed);
        let (dismiss, dismissed) = oneshot::channel();
        let ends = [
            token.map(|(credential, _)| credential.expires),
            self.certified.as_ref().map(|certified| certified.expires),
        ];
        let inside = Inside {
            token: token.map(|(_, token)| token.to_owned()),
            certified: self.certified.clone(),
            expires: ends.into_iter().flatten().min().unwrap_or(u64::MAX),
            dismiss,
        };
        sockets.inside.lock().insert(number, inside);
        (number, dismissed)
    }

    fn forget(&mut self) {
        if let Some((number, _)) = self.watched.take() {
            self.authenticator.sockets.inside.lock().remove(&number);
        }
    }

    /// Resolves when its owner has to leave, which is written down.
    pub(crate) fn poll_dismissed(&mut self, cx: &mut Context<'_>) -> Poll<Refusal> {
        let Some((_, dismissed)) = &mut self.watched else { return Poll::Pending };
        match Pin::new(dismissed).poll(cx) {
            Poll::Ready(Ok(refusal)) => {
                self.watched = None;
                let role = self.role.map_or("", Role::as_str);
                if let Some(log) = self.authenticator.dismissals.get() {
                    log.dismissed(&self.caller, self.address, role, &refusal);
                }
                Poll::Ready(refusal)
            }
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// The same as a future.
    pub(crate) async fn dismissed(&mut self) -> Refusal {
        std::future::poll_fn(|cx| self.poll_dismissed(cx)).await
    }
}

impl Drop for SocketAuth {
    fn drop(&mut self) {
        self.forget();
    }
}
