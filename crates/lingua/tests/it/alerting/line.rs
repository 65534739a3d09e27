//! A client's line that falls over: what a mistake in the scheduler's own code does to a session.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lingua_core::eligibility::Route;
use lingua_core::{Lang, TenantId};
use lingua_engine::sessions::mail::Mailbox;
use lingua_engine::sessions::words::{
    Bye, FromClient, Line, LineEvent, Manner, Opening, Supports, ToClient,
};
use tokio::time::Instant;

/// Its client ends a sentence at once, and the answer to that is too much for it.
pub struct FallingLine {
    said: bool,
}

impl FallingLine {
    pub fn new() -> Box<Self> {
        Box::new(FallingLine { said: false })
    }
}

impl Line for FallingLine {
    fn poll_event(&mut self, cx: &mut Context<'_>, mailbox: &mut Mailbox) -> Poll<LineEvent> {
        if let Poll::Ready(Some(mail)) = mailbox.poll_recv(cx) {
            return Poll::Ready(LineEvent::Mail(mail));
        }
        match std::mem::replace(&mut self.said, true) {
            false => Poll::Ready(LineEvent::Said(FromClient::Finalize)),
            true => Poll::Pending,
        }
    }

    fn wake_at(&mut self, _due: Option<Instant>) {}

    fn tell(&mut self, word: ToClient<'_>) {
        assert!(!matches!(word, ToClient::Finalized { .. }), "falls over on purpose");
    }

    fn end(self: Box<Self>, _bye: Bye) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async {})
    }
}

/// How a client opens a session from English into Chinese.
pub fn opening() -> Opening {
    let lang = |tag| Lang::new(tag).unwrap();
    let manner = Manner {
        route: Route::Directed(lang("en"), lang("zh")),
        speech: false,
        insists_on_speech: false,
        src_lang: "en".into(),
        tgt_lang: "zh".into(),
        mode: None,
        lang_a: None,
        lang_b: None,
        dialect: None,
        features: None,
        pipeline: Arc::from(serde_json::value::RawValue::from_string("{}".into()).unwrap()),
        auto_langs: None,
        enable_streaming_asr: false,
        partial_update_interval_ms: None,
        audio_format: "pcm16",
        sample_rate: 16_000,
    };
    Opening {
        tenant: TenantId::new("default").unwrap(),
        subject: None,
        address: IpAddr::from([127, 0, 0, 1]),
        manner: Arc::new(manner),
        trace_id: None,
        traceparent: None,
        supports: Supports::default(),
        pause: None,
        max_utterance: None,
        resume: None,
    }
}
