use std::collections::VecDeque;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use lingua_core::Lang;
use lingua_core::eligibility::Route;
use lingua_core::fleet::Fallbacks;
use lingua_core::inventory::Requirements;
use lingua_core::session::Routes;
use lingua_protocol::asked::Asked;
use lingua_store::memory::MemoryStore;
use lingua_store::{Clock, Instance};
use tokio::sync::mpsc;

use super::commands::CommandReceiver;
use super::connection::*;
use super::inbound::*;
use super::options::SpeechOptions;
use super::outbound::*;
use super::resume::Token;
use super::*;
use lingua_protocol::node::message::read_message;

use crate::job::{JobOptions, JobReport, NodeResult};
use crate::secret::Secret;
use crate::testing::{TestNode, World};
use crate::{Engine, Settings};

/// A connection whose client says what the test says, and which writes down what it is told.
struct TestConnection {
    said: mpsc::Receiver<FromClient>,
    told: Arc<Mutex<Vec<String>>>,
    /// A word at which it falls over.
    trap: &'static str,
}

impl ClientConnection for TestConnection {
    fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        commands: &mut CommandReceiver,
    ) -> Poll<ConnectionEvent> {
        if let Poll::Ready(command) = commands.poll_recv(cx) {
            return Poll::Ready(ConnectionEvent::Command(command.unwrap()));
        }
        self.said.poll_recv(cx).map(|said| match said {
            Some(said) => ConnectionEvent::Message(said),
            None => ConnectionEvent::Closed(CloseReason::lost("gone")),
        })
    }

    fn wake_at(&mut self, _due: Option<Instant>) {}

    fn send(&mut self, word: ToClient<'_>) {
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

    fn close(self: Box<Self>, reason: CloseReason) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.told.lock().push(format!("closed {:?}", reason.code));
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
    let options = SpeechOptions {
        routes: Routes::one(Route::Directed(lang("en"), lang("zh"))),
        speech: true,
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
        tenant: TenantId::new("t").unwrap(),
        subject: Some("ann".into()),
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

async fn open(
    engine: &Engine,
    trap: &'static str,
) -> (mpsc::Sender<FromClient>, Arc<Mutex<Vec<String>>>) {
    let (say, said) = mpsc::channel(8);
    let told = Arc::new(Mutex::new(Vec::new()));
    let connection = TestConnection { said, told: Arc::clone(&told), trap };
    engine.sessions.open(opening(), Box::new(connection)).await.unwrap();
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
    assert_eq!(*told.lock(), ["opened", "closed Some(1011)"]);
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
    assert_eq!(*told.lock(), ["opened", "closed None"]);
}

#[test]
fn a_token_is_good_for_its_subject_tenant_and_session_alone() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _guard = runtime.enter();
    let engine = engine();
    let opening = opening();
    let key = SessionKey::new(opening.tenant.clone(), SessionId::new("s-1").unwrap());
    let registration = engine.sessions.register(&key, &opening).unwrap();
    registration.handle.set_epoch(7);
    let token = engine.sessions.token(&registration.handle);
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

#[tokio::test(start_paused = true)]
async fn a_sentence_tells_how_the_service_level_of_its_pair_stands() {
    let world = World::new();
    let (engine, _) = world.instance("a", Settings::stable()).await;
    let mut node = TestNode::register(&engine, "n", 4).await;
    let (say, told) = open(&engine, "").await;
    let slo = Duration::from_millis(engine.settings().slo_ms);
    let result = |text: &'static str| read_message(Bytes::from_static(text.as_bytes()));
    let silence = NodeResult::Empty { body: result("{}"), reason: "NO_SPEECH".into() };
    let failure = |code: &str| NodeResult::Failure {
        code: code.into(),
        message: String::new(),
        missing_model: None,
    };
    let good = || NodeResult::Success(result("{\"text_asr\":\"hello\"}"));
    let cases = [
        (slo / 2, good()),
        (slo * 2, good()),
        (Duration::ZERO, silence),
        (Duration::ZERO, failure("NODE_BROKE")),
    ];
    for (seq, (takes, ending)) in (0..).zip(cases) {
        let (audio, duration) = (Bytes::from_static(&[0; 640]), Duration::from_millis(20));
        say.send(FromClient::Audio { seq, audio, duration, is_final: true }).await.unwrap();
        // A job that failed finds no other node to be tried on.
        let job = node.assigned().await;
        node.accepts(job);
        tokio::time::sleep(takes).await;
        node.beats();
        node.says(job, JobReport::Result(ending));
        let heard = || told.lock().len() == 2 + seq as usize;
        crate::testing::within(Duration::from_secs(60), "the ending", heard).await;
    }
    let text = engine.scrape();
    let level = |level: &str, count: u32| {
        let sample =
            format!("lingua_sentences_total{{pair=\"en->zh\",level=\"{level}\"}} {count}\n");
        assert!(text.contains(&sample), "{sample}{text}");
    };
    level("met", 1);
    level("late", 1);
    level("missing", 1);
    assert!(text.contains("lingua_endings_total{ending=\"silence_detected\"} 1"));
}

pub(crate) mod resuming;
