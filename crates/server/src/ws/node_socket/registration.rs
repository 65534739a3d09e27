//! What a node says of itself: who it is, what it can do, that it lives.

use lingua_core::NodeId;
use lingua_core::node::{Declaration, NodeProfile};
use lingua_core::outcome::{Code, Retry};
use lingua_engine::job::Refusal;
use lingua_engine::nodes::{Heartbeat, Register};
use lingua_protocol::close;
use lingua_protocol::node::NodeStatus;
use lingua_protocol::node::capability::Abilities;

use super::{Close, Flow, NodeSocket, superseded};
use crate::identity::{Caller, Role};
use crate::wire::node as wire;

impl NodeSocket {
    /// The node says who it is, for the first time or once more.
    pub(super) async fn register(&mut self, mut said: NodeStatus) -> Flow {
        if let Err(refusal) = self.enter(&said) {
            self.refuse(&refusal);
            return Err(Close::new(close::POLICY, refusal.detail));
        }
        let node = match self.name(said.node_id.as_deref()) {
            Ok(node) => node,
            Err(refusal) => return self.not_registered(refusal),
        };
        let mut abilities = Abilities::default();
        said.put_over(&mut abilities);
        let declaration = abilities.declaration(self.engine.settings().default_max_slots);
        let read = declaration.and_then(|declared| Ok((declared, said.health()?)));
        let (declaration, health) = match read {
            Ok(read) => read,
            Err(refusal) => return self.not_registered(refusal),
        };
        let running = said.running();
        let declaration = match self.socket_peer.auth.caller().narrowed(declaration) {
            Ok(declaration) => declaration,
            Err(refusal) => return self.not_registered(refusal),
        };
        let out = match &self.outbox {
            Ok(strong) => Some(strong.clone()),
            Err(weak) => weak.upgrade(),
        };
        let Some(out) = out else { return Err(superseded()) };
        let (reports, running) = (running.is_some(), running);
        let (jobs, strangers) = running.map(|r| (r.jobs, r.strangers)).unzip();
        let supports = said.supports();
        let wish = Register {
            node,
            declaration,
            health: health.unwrap_or_else(|| abilities.health()),
            supports,
            arrival: self.socket_peer.auth.caller().arrival(self.socket_peer.auth.address()),
            out,
            reports,
            running: jobs,
            running_jobs: said.usage().running_jobs(),
            detail: said.detail(),
        };
        let over = self.present.connection.as_ref();
        let registered = match self.engine.nodes.register_over(wish, over).await {
            Ok(registered) => registered,
            Err(refusal) => return self.not_registered(refusal),
        };
        let mut ack = String::new();
        wire::register_ack(&registered, &mut ack);
        self.wire.send(ack);
        self.wire.is_known(None);
        self.cancel_strangers(strangers.unwrap_or_default());
        self.present.connection = Some(registered.connection);
        if let Ok(strong) = &self.outbox {
            self.outbox = Err(strong.downgrade());
        }
        (self.supports, self.abilities) = (supports, abilities);
        self.says_health = health.is_some();
        Ok(())
    }

    /// A registration is refused. Existing agents read no `error` and register once for each connection: a
    /// newcomer is sent away at once, with the code in the close. One that is registered keeps what it has,
    /// unless it was blocked.
    fn not_registered(&mut self, refusal: Refusal) -> Flow {
        if self.present.connection.is_some() && refusal.code != Code::Forbidden {
            return self.offence(refusal);
        }
        self.refuse(&refusal);
        let code =
            if refusal.code.retry() == Retry::Caller { close::TRY_AGAIN } else { close::POLICY };
        Err(Close::new(code, format!("{}: {}", refusal.code, refusal.detail)))
    }

    /// Lets the node in by its token or its certificate, as the one whose it is.
    fn enter(&mut self, said: &NodeStatus) -> Result<(), Refusal> {
        let first = self.present.connection.is_none();
        if first {
            let now = self.engine.now_ms();
            self.socket_peer.enter(Role::Node, said.token.as_deref(), now)?;
        }
        let theirs = match &said.node_id {
            Some(node) => self.socket_peer.auth.caller().is_node(node),
            None => Ok(()),
        };
        if first || theirs.is_err() {
            self.socket_peer.note(Role::Node, theirs.as_ref().copied());
        }
        theirs
    }

    /// Takes a newer token.
    pub(super) fn renew(&mut self, token: &str) -> Flow {
        match self.socket_peer.auth.renew(token, self.engine.now_ms() / 1_000) {
            Ok(expires) => {
                let mut ack = String::new();
                wire::auth_ack(expires.map(|s| s * 1_000), &mut ack);
                self.wire.send(ack);
                Ok(())
            }
            Err(refusal) => self.offence(refusal),
        }
    }

    /// The name that the node registers under.
    fn name(&self, said: Option<&str>) -> Result<NodeId, Refusal> {
        let invalid = |detail: String| Refusal::new(Code::InvalidMessage, detail);
        let said = said
            .map(|id| NodeId::new(id).map_err(|error| invalid(format!("node_id: {error}"))))
            .transpose()?;
        let own = self.present.connection.as_ref().map(|connection| connection.node_id().clone());
        match (said, own) {
            (Some(said), Some(own)) if said != own => {
                Err(invalid(format!("node_id: this connection is {own}'s")))
            }
            (Some(name), _) | (None, Some(name)) => Ok(name),
            (None, None) => match self.socket_peer.auth.caller() {
                Caller::Anyone => Ok(self.fresh_name()),
                Caller::Known(known) => NodeId::new(&known.subject)
                    .map_err(|error| invalid(format!("the token's subject: {error}"))),
                Caller::Certified(node) => Ok(node.clone()),
            },
        }
    }

    fn fresh_name(&self) -> NodeId {
        loop {
            let chance = self.engine.chance().bits() as u32;
            let name = NodeId::new(format!("node-{chance:08X}")).expect("within an id's letters");
            if self.engine.node_view(&name).is_none() {
                return name;
            }
        }
    }

    pub(super) fn heartbeat(&mut self, mut said: NodeStatus) -> Flow {
        let Some(connection) = &self.present.connection else { return Ok(()) };
        if let Some(id) = said.node_id.as_deref().filter(|id| *id != self.present.name()) {
            let detail =
                format!("node_id: this connection is {}'s, not {id:?}'s", self.present.name());
            return self.offence(Refusal::new(Code::InvalidMessage, detail));
        }
        let health = match said.health() {
            Ok(health) => health,
            Err(refusal) => return self.offence(refusal),
        };
        let running = said.running();
        let mut abilities = self.abilities.clone();
        said.put_over(&mut abilities);
        let changed = abilities != self.abilities;
        let declared =
            changed.then(|| abilities.declaration(self.engine.settings().default_max_slots));
        // A word about its abilities that cannot be is refused; that it lives is true all the same.
        let narrowed = |declared| self.socket_peer.auth.caller().narrowed(declared);
        let declared = declared.map(|declared| declared.and_then(checked).and_then(narrowed));
        let (declaration, refusal) = match declared {
            None => (None, None),
            Some(Ok(declaration)) => (Some(declaration), None),
            Some(Err(refusal)) => (None, Some(refusal)),
        };
        self.says_health |= health.is_some();
        let follows = changed && refusal.is_none() && !self.says_health;
        let (jobs, strangers) = running.map(|running| (running.jobs, running.strangers)).unzip();
        let usage = said.usage();
        let beat = Heartbeat {
            declaration,
            health: health.or_else(|| follows.then(|| abilities.health())),
            running: jobs,
            running_jobs: usage.running_jobs(),
            services: said.services(&abilities),
            percents: usage.percents(),
        };
        let taken = self.engine.nodes.heartbeat(connection, beat);
        let node = connection.node_id().clone();
        self.cancel_strangers(strangers.unwrap_or_default());
        if let Err(refusal) = taken {
            self.refuse(&refusal);
            return Ok(());
        }
        if self.supports.any() {
            let mut ack = String::new();
            let why_idle = self.engine.why_idle(&node);
            wire::heartbeat_ack(self.engine.now_ms(), &why_idle, &mut ack);
            self.wire.send(ack);
        }
        match refusal {
            Some(refusal) => self.offence(refusal),
            None => {
                self.abilities = abilities;
                Ok(())
            }
        }
    }

    /// What cannot be a job of ours is stopped like one that we no longer know.
    fn cancel_strangers(&mut self, strangers: Vec<(String, u32)>) {
        for (job, attempt) in strangers {
            let mut cancel = String::new();
            wire::cancel_stranger(&job, attempt, &mut cancel);
            self.wire.send(cancel);
        }
    }
}

/// Refuses what a profile cannot be made of.
fn checked(declaration: Declaration) -> Result<Declaration, Refusal> {
    NodeProfile::from_declaration(declaration.clone())
        .map(|_| declaration)
        .map_err(|error| Refusal::new(Code::InvalidCapability, error.to_string()))
}
