//! The sockets behind the HTTP door.
//!
//! - `node_socket`: the conversation with one node. `session_socket`: the line of one client.
//! - `outbound`: one connection, read and written in batches.
//! - `upgrade`: how a request becomes a socket. `socket`: the protocol, by the library.
//! - `inbound`, with `frames`: what comes in, and what it costs before a message is whole.
//! - `limits`: how much a peer may say, and how much nonsense.

mod frames;
mod inbound;
mod limits;
mod node_socket;
mod outbound;
mod session_socket;
mod socket;
mod upgrade;

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::response::Response;
use lingua_engine::Engine;
use lingua_engine::job::Refusal;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::audit::{Audit, Outcome};
use crate::identity::{
    Authenticator, BearerToken, Caller, Role, SocketAuth, SubjectPermit, other_role,
};
use crate::listener::Peer;
use inbound::Inbound;
use socket::Socket;
use upgrade::Upgrade;

/// Read from the socket at once. The library clears the whole buffer before every read and keeps it
/// while the socket is idle, so that a larger one costs processor and memory on every connection.
const READ_BUFFER: usize = 4_096;

/// Gathered before the socket is written to; a flush writes whatever is there.
const WRITE_BUFFER: usize = 32 << 10;

/// No single message of ours is so large: the largest is an assign with its audio in base64.
const MAX_WRITE_BUFFER: usize = 32 << 20;

/// What somebody may send of whom nobody knows who they are: a registration with everything that may be
/// in it fits several times. Otherwise strangers could have as much memory as they have connections.
const STRANGERS_BYTES: u64 = 256 << 10;

/// `/ws/node`
pub(crate) async fn node(
    upgrade: Upgrade,
    State(engine): State<Engine>,
    State(authenticator): State<Arc<Authenticator>>,
    State(audit): State<Arc<Audit>>,
    Extension(peer): Extension<Peer>,
    Extension(shown): Extension<BearerToken>,
) -> Response {
    let socket_peer =
        SocketPeer { auth: SocketAuth::of_node(authenticator, &peer), audit, shown, permit: None };
    peer.is_stranger(STRANGERS_BYTES);
    upgrade.agree(move |stream| {
        let most = peer.limits.node_message_bytes;
        let stream = Inbound::new(stream, peer.account(), most);
        let socket = Socket::new(stream, config(most, WRITE_BUFFER));
        node_socket::serve(socket, engine, peer, socket_peer)
    })
}

/// `/ws/session`
pub(crate) async fn session(
    upgrade: Upgrade,
    State(engine): State<Engine>,
    State(authenticator): State<Arc<Authenticator>>,
    State(audit): State<Arc<Audit>>,
    Extension(peer): Extension<Peer>,
    Extension(shown): Extension<BearerToken>,
) -> Response {
    let socket_peer = SocketPeer {
        auth: SocketAuth::none(authenticator, peer.address),
        audit,
        shown,
        permit: None,
    };
    peer.is_stranger(STRANGERS_BYTES);
    upgrade.agree(move |stream| {
        let most = peer.limits.session_message_bytes;
        let stream = Inbound::new(stream, peer.account(), most);
        let socket = Socket::new(stream, config(most, 0));
        session_socket::serve(socket, engine, peer, socket_peer)
    })
}

/// How the library reads and writes.
fn config(max_message: usize, write_buffer: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(max_message))
        .max_frame_size(Some(max_message))
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(write_buffer)
        .max_write_buffer_size(MAX_WRITE_BUFFER)
}

/// Who is at the other end of a socket, as far as is known.
struct SocketPeer {
    auth: SocketAuth,
    audit: Arc<Audit>,
    /// A token that came with the request.
    shown: BearerToken,
    /// One of the sessions that its subject may have.
    permit: Option<SubjectPermit>,
}

impl SocketPeer {
    /// Lets the peer in by the token of its first message, or by the one that came before it.
    fn enter(&mut self, role: Role, token: Option<&str>, now_ms: u64) -> Result<(), Refusal> {
        let token = token.or(self.shown.0.as_deref());
        let entered = self.auth.show(role, token, now_ms / 1_000).and_then(|()| self.may_be(role));
        if let Err(refusal) = &entered {
            let shown = self.auth.authenticator().whose(token);
            self.audit.socket(&shown, self.auth.address(), role.as_str(), Err(refusal));
        }
        entered
    }

    /// Takes one of the sessions that the subject may have.
    fn sit_down(&mut self, most: usize) -> Result<(), Refusal> {
        if let Caller::Known(known) = self.auth.caller() {
            self.permit = Some(self.auth.authenticator().subjects.permit(known, most)?);
        }
        Ok(())
    }

    fn may_be(&self, role: Role) -> Result<(), Refusal> {
        match self.auth.caller() {
            Caller::Known(known) if known.role != role => Err(other_role(&[role], known.role)),
            _ => Ok(()),
        }
    }

    /// Writes down what became of one whose token was good.
    fn note(&self, role: Role, outcome: Outcome<'_>) {
        self.audit.socket(self.auth.caller(), self.auth.address(), role.as_str(), outcome);
    }
}
