//! A client's connection that fails: what a mistake in the scheduler's own code does to a session.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lingua_core::eligibility::Route;
use lingua_core::fleet::Fallbacks;
use lingua_core::inventory::Requirements;
use lingua_core::session::Routes;
use lingua_core::{Lang, TenantId};
use lingua_engine::job::{Asked, JobOptions};
use lingua_engine::sessions::commands::CommandReceiver;
use lingua_engine::sessions::connection::{ClientConnection, CloseReason, ConnectionEvent};
use lingua_engine::sessions::inbound::{FromClient, Opening, Supports};
use lingua_engine::sessions::options::SpeechOptions;
use lingua_engine::sessions::outbound::ToClient;
use tokio::time::Instant;

/// Its client ends a sentence at once, and the answer to that is too much for it.
pub struct FailingConnection {
    said: bool,
}

impl FailingConnection {
    pub fn new() -> Box<Self> {
        Box::new(FailingConnection { said: false })
    }
}

impl ClientConnection for FailingConnection {
    fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        commands: &mut CommandReceiver,
    ) -> Poll<ConnectionEvent> {
        if let Poll::Ready(Some(command)) = commands.poll_recv(cx) {
            return Poll::Ready(ConnectionEvent::Command(command));
        }
        match std::mem::replace(&mut self.said, true) {
            false => Poll::Ready(ConnectionEvent::Message(FromClient::Finalize)),
            true => Poll::Pending,
        }
    }

    fn wake_at(&mut self, _due: Option<Instant>) {}

    fn send(&mut self, message: ToClient<'_>) {
        assert!(!matches!(message, ToClient::Finalized { .. }), "falls over on purpose");
    }

    fn close(self: Box<Self>, _reason: CloseReason) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async {})
    }
}

/// How a client opens a session from English into Chinese.
pub fn opening() -> Opening {
    let lang = |tag| Lang::new(tag).unwrap();
    let options = SpeechOptions {
        routes: Routes::one(Route::Directed(lang("en"), lang("zh"))),
        speech: false,
        typed: false,
        asked: Asked::default(),
        asks: Requirements::default(),
        fallbacks: Fallbacks { captions: true, ..Fallbacks::NONE },
        says_form: false,
        profile: None,
        steps: None,
        job: JobOptions { src_lang: "en".into(), tgt_lang: "zh".into(), ..JobOptions::default() },
        untranslated: None,
        audio_format: "pcm16",
        sample_rate: 16_000,
    };
    Opening {
        tenant: TenantId::new("default").unwrap(),
        subject: None,
        address: IpAddr::from([127, 0, 0, 1]),
        options: Arc::new(options),
        trace_id: None,
        traceparent: None,
        supports: Supports::default(),
        pause: None,
        max_utterance: None,
        resume: None,
    }
}
