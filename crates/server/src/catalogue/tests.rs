use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use lingua_store::memory::MemoryStore;
use lingua_store::{Clock, Instance};
use parking_lot::Mutex;

use super::*;
use crate::site::CatalogueUrl;

const QUICK: Duration = Duration::from_millis(20);

const GOOD: &str = r#"{"services":[{"id":"whisper","kind":"asr","versions":[{"version":"3"}]}]}"#;
const OTHER: &str = r#"{"services":[{"id":"opus","kind":"nmt"},{"id":"piper","kind":"tts"}]}"#;

/// What the server of a test answers next.
#[derive(Clone)]
enum Answer {
    /// This, under this name; 304 to whoever has it.
    Body(String, &'static str),
    Status(StatusCode),
    /// Nothing, for longer than anybody waits.
    Silence,
}

#[derive(Clone)]
struct Server {
    answer: Arc<Mutex<Answer>>,
    /// Answers with a body, and answers that there is nothing new.
    sent: Arc<[AtomicU64; 2]>,
}

async fn answer(State(server): State<Server>, headers: HeaderMap) -> Response {
    let answer = server.answer.lock().clone();
    match answer {
        Answer::Silence => std::future::pending().await,
        Answer::Status(status) => status.into_response(),
        Answer::Body(body, etag) => {
            let known = headers.get(header::IF_NONE_MATCH).and_then(|etag| etag.to_str().ok());
            if known == Some(etag) {
                server.sent[1].fetch_add(1, Ordering::Relaxed);
                return StatusCode::NOT_MODIFIED.into_response();
            }
            server.sent[0].fetch_add(1, Ordering::Relaxed);
            ([(header::ETAG, etag)], body).into_response()
        }
    }
}

impl Server {
    async fn start(first: Answer) -> (Self, Source) {
        let server = Server { answer: Arc::new(Mutex::new(first)), sent: Arc::default() };
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/services.json?all=1", socket.local_addr().unwrap());
        let router = Router::new().route("/services.json", get(answer)).with_state(server.clone());
        tokio::spawn(async move { axum::serve(socket, router).await.unwrap() });
        (server, Source::Url(url.parse().unwrap()))
    }

    fn answers(&self, next: Answer) {
        *self.answer.lock() = next;
    }
}

fn engine() -> Engine {
    let instance = Instance { id: "a".parse().unwrap(), boot: 1 };
    let secret = lingua_engine::secret::Secret::from_seed(b"test");
    let settings = lingua_engine::Settings::stable();
    Engine::start(MemoryStore::open(Clock::system()), instance, settings, secret)
}

fn quick(source: Source, engine: &Engine) -> CatalogueCache {
    CatalogueCache::read_every(QUICK, Reader::new(source).unwrap(), engine)
}

async fn until(cache: &CatalogueCache, is_so: impl Fn(&Known) -> bool) -> Known {
    for _ in 0..1_000 {
        let known = cache.known();
        if is_so(&known) {
            return known;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never so: {:?}", cache.known().problem);
}

fn first_id(known: &Known) -> Option<&str> {
    Some(&*known.catalogue.as_ref()?.services.first()?.id)
}

fn good() -> Answer {
    Answer::Body(GOOD.to_owned(), "\"1\"")
}

#[tokio::test]
async fn a_catalogue_is_asked_for_again_and_sent_once_until_it_changes() {
    let (server, source) = Server::start(good()).await;
    let engine = engine();
    let cache = quick(source, &engine);
    let first = until(&cache, |known| first_id(known) == Some("whisper")).await;
    until(&cache, |known| known.confirmed > first.confirmed).await;
    assert_eq!(server.sent[0].load(Ordering::Relaxed), 1);
    assert!(server.sent[1].load(Ordering::Relaxed) > 0);
    server.answers(Answer::Body(OTHER.to_owned(), "\"2\""));
    until(&cache, |known| first_id(known) == Some("opus")).await;
    assert_eq!(server.sent[0].load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn the_last_good_catalogue_is_kept_whatever_comes_later() {
    let (server, source) = Server::start(good()).await;
    let engine = engine();
    let cache = quick(source, &engine);
    until(&cache, |known| known.catalogue.is_some()).await;
    let large = format!("{{\"services\":[],\"x\":\"{}\"}}", "x".repeat(1 << 20));
    for (bad, said) in [
        (Answer::Body("<html>".to_owned(), "\"3\""), "not a JSON object"),
        (Answer::Body("{\"services\":[{}]}".to_owned(), "\"4\""), "services[0]: `id` is missing"),
        (Answer::Body(large, "\"5\""), "length limit exceeded"),
        (Answer::Status(StatusCode::INTERNAL_SERVER_ERROR), "the server answered 500"),
        (Answer::Status(StatusCode::FOUND), "the server answered 302"),
    ] {
        server.answers(bad);
        let says = |known: &Known| known.problem.as_ref().is_some_and(|why| why.contains(said));
        let kept = until(&cache, says).await;
        assert_eq!(first_id(&kept), Some("whisper"), "{said}");
        let age = kept.confirmed;
        tokio::time::sleep(3 * QUICK).await;
        assert_eq!(cache.known().confirmed, age, "it is told how old it is");
        server.answers(good());
        until(&cache, |known| known.problem.is_none() && known.confirmed > age).await;
    }
}

#[tokio::test]
async fn a_source_that_is_not_there_is_a_problem_and_no_wait_for_anybody() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let source = Source::Url(format!("http://{nobody}/").parse().unwrap());
    let engine = engine();
    let cache = quick(source, &engine);
    assert!(cache.known().catalogue.is_none(), "nobody waited for it");
    until(&cache, |known| known.problem.is_some()).await;
    let (server, source) = Server::start(Answer::Silence).await;
    let silent = quick(source, &engine);
    tokio::time::sleep(3 * QUICK).await;
    assert!(silent.known().problem.is_none(), "it is still waited for");
    drop(server);
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn a_file_is_read_again_when_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalogue.json");
    let engine = engine();
    let cache = quick(Source::File(path.clone()), &engine);
    until(&cache, |known| known.problem.is_some()).await;
    write(&path, GOOD);
    until(&cache, |known| first_id(known) == Some("whisper") && known.problem.is_none()).await;
    write(&path, "{");
    let kept = until(&cache, |known| known.problem.is_some()).await;
    assert_eq!(first_id(&kept), Some("whisper"));
    write(&path, OTHER);
    until(&cache, |known| first_id(known) == Some("opus")).await;
    write(&path, &" ".repeat((1 << 20) + 1));
    let large = |known: &Known| known.problem.as_deref() == Some("is larger than 1 MiB");
    until(&cache, large).await;
}

#[test]
fn an_address_has_a_host_and_no_password() {
    for bad in ["", "x", "/etc/catalogue.json", "ftp://a/b", "http://", "https://u:p@a/b"] {
        assert!(bad.parse::<CatalogueUrl>().is_err(), "{bad}");
    }
    let good: CatalogueUrl = "https://models.example.org:8443/a?b=c".parse().unwrap();
    assert_eq!(good.to_string(), "https://models.example.org:8443/a?b=c");
}
