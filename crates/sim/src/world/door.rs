//! An instance's side of its connections, in place of sockets.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::node::{Declaration, Health};
use lingua_core::outcome::Code;
use lingua_core::{JobId, NodeId};
use lingua_engine::Engine;
use lingua_engine::job::{Assign, JobMessage, ToNode};
use lingua_engine::nodes::{Arrival, Connection, Heartbeat, NodeDetail, Nodes, Register, Supports};
use lingua_engine::sessions::commands::CommandReceiver;
use lingua_engine::sessions::connection::{ClientConnection, CloseReason, ConnectionEvent};
use lingua_engine::sessions::inbound::{FromClient, Opening};
use lingua_engine::sessions::outbound::ToClient;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until};

use super::World;
use super::told::Told;
use crate::wire::End;

/// What waits for a node, as on a socket.
const OUTBOX: usize = 1_024;

/// A peer of whom nothing was heard for so long is taken for dead.
const SILENCE: Duration = Duration::from_secs(90);

/// A client that takes nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(16);

/// What a node says.
pub(super) enum FromAgent {
    Register(Box<Registration>),
    Beat(Box<Heartbeat>),
    Message(JobMessage),
    Ping,
}

/// What a node says of itself.
pub(super) struct Registration {
    pub node: NodeId,
    pub declaration: Declaration,
    pub supports: Supports,
    pub running: Option<Vec<(JobId, u32)>>,
}

/// What a node is told.
pub(super) enum ToAgent {
    Registered { heartbeat: Duration },
    Refused { code: Code },
    Assign(Box<Work>),
    Cancel { job: JobId, attempt: u32 },
    ResultAck { job: JobId, attempt: u32 },
    Pong,
}

/// A job, as its node gets it.
pub(super) struct Work {
    pub job: JobId,
    pub attempt: u32,
    pub token: String,
    pub session: String,
    pub index: u64,
    pub target: String,
    pub audio: Bytes,
}

/// The node's presence, which ends with its connection.
struct Present(Arc<Nodes>, Connection);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.gone(&self.1);
    }
}

/// Speaks with a node until one of the two has had enough.
pub(super) async fn serve_node(engine: Engine, mut end: End<ToAgent, FromAgent>) {
    let (outbox, mut messages) = mpsc::channel(OUTBOX);
    let mut outbox = Some(outbox);
    let mut present: Option<Present> = None;
    let mut result_ack = false;
    loop {
        let said = tokio::select! {
            biased;
            said = tokio::time::timeout(SILENCE, end.inn.recv()) => said,
            message = messages.recv() => {
                let Some(present) = &present else { return };
                if on_outgoing(&engine, &present.1, message, result_ack, &end).is_err() {
                    return;
                }
                continue;
            }
        };
        let Ok(Some(said)) = said else { return };
        match (said, &present) {
            (FromAgent::Ping, _) => end.out.send(ToAgent::Pong),
            (FromAgent::Register(said), None) => {
                let Some(out) = outbox.take() else { return };
                result_ack = said.supports.result_ack;
                match engine.nodes.register(wish(*said, out)).await {
                    Ok(registered) => {
                        let nodes = Arc::clone(&engine.nodes);
                        present = Some(Present(nodes, registered.connection));
                        let heartbeat = registered.heartbeat;
                        end.out.send(ToAgent::Registered { heartbeat });
                    }
                    Err(refusal) => {
                        end.out.send(ToAgent::Refused { code: refusal.code });
                        return;
                    }
                }
            }
            (FromAgent::Beat(beat), Some(present)) => {
                // A list that is too long is refused; the sign of life counts.
                let _ = engine.nodes.heartbeat(&present.1, *beat);
            }
            (FromAgent::Message(message), Some(present)) => {
                let _ = engine.nodes.on_job_message(&present.1, message);
            }
            _ => {}
        }
    }
}

fn wish(said: Registration, out: mpsc::Sender<ToNode>) -> Register {
    Register {
        node: said.node,
        declaration: said.declaration,
        health: Health::Ready,
        supports: said.supports,
        arrival: Arrival::Credential,
        out,
        reports: said.running.is_some(),
        running: said.running,
        running_jobs: None,
        detail: NodeDetail::default(),
    }
}

/// Passes on what the engine wants of the node; an error ends the connection.
fn on_outgoing(
    engine: &Engine,
    connection: &Connection,
    message: Option<ToNode>,
    result_ack: bool,
    end: &End<ToAgent, FromAgent>,
) -> Result<(), ()> {
    match message {
        None | Some(ToNode::Superseded | ToNode::Blocked) => return Err(()),
        Some(ToNode::Assign(assign)) if assign.is_late() => {
            engine.nodes.send_failed(connection, assign.job, assign.attempt);
        }
        Some(ToNode::Assign(assign)) => {
            end.out.send(ToAgent::Assign(Box::new(work(&assign))));
            assign.sent();
        }
        Some(ToNode::Cancel { job, attempt, .. }) => {
            end.out.send(ToAgent::Cancel { job, attempt });
        }
        Some(ToNode::ResultAck { job, attempt }) if result_ack => {
            end.out.send(ToAgent::ResultAck { job, attempt });
        }
        Some(ToNode::ResultAck { .. } | ToNode::Control { .. }) => {}
    }
    Ok(())
}

fn work(assign: &Assign) -> Work {
    Work {
        job: assign.job,
        attempt: assign.attempt,
        token: assign.token.clone(),
        session: assign.session.to_string(),
        index: assign.work.utterance_index,
        target: assign.work.options.tgt_lang.clone(),
        audio: assign.work.audio.clone(),
    }
}

/// What a client says.
pub(super) enum FromSpeaker {
    Message(Box<FromClient>),
    Ping,
}

/// Something that a client is told, and when it was said.
pub(super) struct Sent {
    pub at_ms: u64,
    pub told: Told,
}

/// One connection of a client, as the session's task uses it.
struct ClientEnd {
    world: Arc<World>,
    end: End<Sent, FromSpeaker>,
    due: Option<Pin<Box<Sleep>>>,
    ending: Option<CloseReason>,
}

/// Opens a session for a client.
pub(super) async fn serve_client(
    world: Arc<World>,
    engine: Engine,
    opening: Opening,
    end: End<Sent, FromSpeaker>,
) {
    let connection = Box::new(ClientEnd { world, end, due: None, ending: None });
    if let Err(refused) = engine.sessions.open(opening, connection).await {
        refused.close().await;
    }
}

impl ClientEnd {
    fn tell(&self, told: Told) {
        self.end.out.send(Sent { at_ms: self.world.date_ms(), told });
    }
}

impl ClientConnection for ClientEnd {
    fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        commands: &mut CommandReceiver,
    ) -> Poll<ConnectionEvent> {
        if let Poll::Ready(Some(command)) = commands.poll_recv(cx) {
            return Poll::Ready(ConnectionEvent::Command(command));
        }
        if let Some(reason) = self.ending.clone() {
            return Poll::Ready(ConnectionEvent::Closed(reason));
        }
        while let Poll::Ready(said) = self.end.inn.poll_recv(cx) {
            match said {
                Some(FromSpeaker::Message(said)) => {
                    return Poll::Ready(ConnectionEvent::Message(*said));
                }
                Some(FromSpeaker::Ping) => self.tell(Told::Pong),
                None => {
                    let reason = CloseReason::lost("the connection ended");
                    self.ending = Some(reason.clone());
                    return Poll::Ready(ConnectionEvent::Closed(reason));
                }
            }
        }
        if let Some(due) = &mut self.due
            && due.as_mut().poll(cx).is_ready()
        {
            self.due = None;
            return Poll::Ready(ConnectionEvent::Due);
        }
        Poll::Pending
    }

    fn wake_at(&mut self, due: Option<Instant>) {
        self.due = due.map(|due| Box::pin(sleep_until(due)));
    }

    fn send(&mut self, message: ToClient<'_>) {
        let (_, oldest) = self.end.out.unread();
        if oldest.is_some_and(|oldest| oldest + PATIENCE < Instant::now()) {
            self.ending = Some(CloseReason::new(1013, "the client takes nothing"));
        }
        if let Some(told) = Told::of(&message) {
            self.tell(told);
        }
    }

    fn close(self: Box<Self>, reason: CloseReason) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if reason.code.is_some() {
            self.tell(Told::Closed);
        }
        // What was queued still goes out.
        Box::pin(async move { drop(self) })
    }
}
