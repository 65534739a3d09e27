use std::collections::VecDeque;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use lingua_core::Lang;
use lingua_core::eligibility::Route;
use lingua_store::memory::MemoryStore;
use lingua_store::{Clock, Instance};
use tokio::sync::mpsc;

use super::mail::Mailbox;
use super::resuming::Token;
use super::words::*;
use super::*;
use crate::secret::Secret;
use crate::{Engine, Settings};

/// A line whose client says what the test says, and which writes down what it is told.
struct TestLine {
    said: mpsc::Receiver<FromClient>,
    told: Arc<Mutex<Vec<String>>>,
    /// A word at which it falls over.
    trap: &'static str,
}

impl Line for TestLine {
    fn poll_event(&mut self, cx: &mut Context<'_>, mailbox: &mut Mailbox) -> Poll<LineEvent> {
        if let Poll::Ready(mail) = mailbox.poll_recv(cx) {
            return Poll::Ready(LineEvent::Mail(mail.unwrap()));
        }
        self.said.poll_recv(cx).map(|said| match said {
            Some(said) => LineEvent::Said(said),
            None => LineEvent::Ended(Bye::lost("gone")),
        })
    }

    fn wake_at(&mut self, _due: Option<Instant>) {}

    fn tell(&mut self, word: ToClient<'_>) {
        let word = match word {
            ToClient::Opened(_) => "opened",
            ToClient::Missing { reason, .. } => reason.as_str(),
            ToClient::Finalized { .. } => "finalized",
            ToClient::CloseAck => "close_ack",
            _ => "other",
        };
        assert_ne!(word, self.trap, "on purpose");
        self.told.lock().push(word.to_owned());
    }

    fn end(self: Box<Self>, bye: Bye) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.told.lock().push(format!("bye {:?}", bye.code));
        Box::pin(async {})
    }
}

fn engine() -> Engine {
    let instance = Instance { id: "a".parse().unwrap(), boot: 1 };
    let store = MemoryStore::open(Clock::system());
    Engine::start(store, instance, Settings::stable(), Secret::from_seed(b"test"))
}

fn opening() -> Opening {
    let lang = |tag| Lang::new(tag).unwrap();
    let manner = Manner {
        route: Route::Directed(lang("en"), lang("zh")),
        speech: true,
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
        tenant: TenantId::new("t").unwrap(),
        subject: Some("ann".into()),
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

async fn open(
    engine: &Engine,
    trap: &'static str,
) -> (mpsc::Sender<FromClient>, Arc<Mutex<Vec<String>>>) {
    let (say, said) = mpsc::channel(8);
    let told = Arc::new(Mutex::new(Vec::new()));
    let line = TestLine { said, told: Arc::clone(&told), trap };
    engine.sessions.open(opening(), Box::new(line)).await.unwrap();
    (say, told)
}

fn last_word() -> FromClient {
    let (audio, duration) = (Bytes::from_static(&[0; 640]), Duration::from_millis(20));
    FromClient::Audio { seq: 0, audio, duration, is_final: true }
}

async fn until(ready: impl Fn() -> bool) {
    for _ in 0..500 {
        if ready() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never was so");
}

#[tokio::test]
async fn a_mistake_ends_one_session_with_1011_and_nobody_else_notices() {
    let engine = engine();
    let (say, told) = open(&engine, "finalized").await;
    let (other, heard) = open(&engine, "").await;
    assert_eq!(engine.sessions.count(), 2);
    say.send(FromClient::Finalize).await.unwrap();
    until(|| engine.sessions.count() == 1).await;
    assert_eq!(*told.lock(), ["opened", "bye Some(1011)"]);
    other.send(last_word()).await.unwrap();
    until(|| heard.lock().len() == 2).await;
    assert_eq!(*heard.lock(), ["opened", "no_capable_node"]);
    assert!(engine.metrics().render().contains("lingua_session_panics_total 1"));
    assert!(engine.jobs.open_jobs().is_empty());
    let tenants: VecDeque<usize> = engine.sessions.open.lock().tenants.values().copied().collect();
    assert_eq!(tenants, [1], "its place is free again");
}

#[tokio::test]
async fn a_session_of_a_client_that_cannot_return_ends_with_its_line() {
    let engine = engine();
    let (say, told) = open(&engine, "").await;
    drop(say);
    until(|| engine.sessions.count() == 0).await;
    assert_eq!(*told.lock(), ["opened", "bye None"]);
}

#[test]
fn a_token_is_good_for_its_subject_tenant_and_session_alone() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _guard = runtime.enter();
    let engine = engine();
    let opening = opening();
    let key = SessionKey::new(opening.tenant.clone(), SessionId::new("s-1").unwrap());
    let seat = engine.sessions.seat(&key, &opening).unwrap();
    seat.handle.set_epoch(7);
    let token = engine.sessions.token(&seat.handle);
    let read = |opening: &Opening, token: &str| engine.sessions.read_token(opening, token);
    assert_eq!(read(&opening, &token), Some(Token { key, epoch: 7 }));
    let stranger = Opening { tenant: TenantId::new("other").unwrap(), ..opening.clone() };
    assert_eq!(read(&stranger, &token), None);
    for subject in [Some("bob".into()), None] {
        let another = Opening { subject, ..opening.clone() };
        assert_eq!(read(&another, &token), None, "another user of the tenant");
    }
    let another = token.replace(".7.", ".8.");
    for wrong in ["", "s-1", "s-1.", "s-1.7.", "s-2.7.00", "é.é.é", another.as_str()] {
        assert_eq!(read(&opening, wrong), None, "{wrong}");
    }
}
