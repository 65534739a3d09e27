//! The first message of a client: who it is, and what it asks for.

use super::*;

impl SessionConnection {
    /// Waits for the message that opens the session.
    pub(super) async fn handshake(
        &mut self,
        address: std::net::IpAddr,
    ) -> Result<Init, CloseReason> {
        let by = Instant::now() + self.handshake;
        self.wire.wake_at(by);
        loop {
            let event = std::future::poll_fn(|cx| {
                self.wire.poll_event(cx, |_| Poll::<std::convert::Infallible>::Pending)
            });
            let refusal = match event.await {
                Event::Text(text) => match session::decode_init(&text, address) {
                    Ok(init) => return Ok(init),
                    Err(refusal) => match session::aside(&text) {
                        Some(aside) => {
                            self.on_aside(aside);
                            continue;
                        }
                        None => refusal,
                    },
                },
                Event::Binary(_) => {
                    Refusal::new(Code::InvalidMessage, "session_init comes first, as text")
                }
                Event::Due if by <= Instant::now() => {
                    self.engine.metrics().limited("handshake_timeout_ms");
                    return Err(CloseReason::new(
                        close::HANDSHAKE_TIMEOUT,
                        "no session_init in time",
                    ));
                }
                // How much a stranger may send is bounded, in frames of whatever size.
                Event::Due | Event::Alive | Event::Frames(_) | Event::Written => continue,
                Event::Ended(end) => return Err(close_reason(end)),
                Event::Outgoing(never) => match never {},
            };
            self.offence(&refusal);
            if let Some(reason) = self.ending.take() {
                return Err(reason);
            }
        }
    }

    /// Lets the client in by its token, as the tenant whose token it is.
    pub(super) fn enter(&mut self, mut init: Init) -> Result<Init, Refusal> {
        self.socket_peer.enter(Role::Session, init.token.as_deref(), self.engine.now_ms())?;
        if let Caller::Known(known) = self.socket_peer.auth.caller()
            && let Some(tenant) = &known.tenant
        {
            if init.named.as_ref().is_some_and(|named| named != tenant) {
                let detail = "tenant_id: the token belongs to another tenant";
                let refusal = Refusal::new(Code::Forbidden, detail);
                self.socket_peer.note(Role::Session, Err(&refusal));
                return Err(refusal);
            }
            init.opening.tenant = tenant.clone();
            init.opening.subject = Some(known.subject.as_str().into());
        }
        if let Err(refusal) = self.socket_peer.sit_down(self.sessions_per_subject) {
            self.engine.metrics().limited("sessions_per_subject");
            self.socket_peer.note(Role::Session, Err(&refusal));
            return Err(refusal);
        }
        self.socket_peer.note(Role::Session, Ok(()));
        self.wire.is_known(Some(init.opening.tenant.clone()));
        Ok(init)
    }

    /// Takes a newer token.
    pub(super) fn renew(&mut self, token: &str) -> Result<(), Refusal> {
        let expires = self.socket_peer.auth.renew(token, self.engine.now_ms() / 1_000)?;
        let mut text = String::new();
        session::auth_ack(&self.session_id, expires.map(|s| s * 1_000), &mut text);
        self.wire.send(text);
        Ok(())
    }
}
