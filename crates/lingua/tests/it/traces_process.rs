//! `lingua serve --otlp`: a process that traces, also behind TLS.

use crate::collector;
use crate::process;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use collector::{Collector, Mood};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lingua_lab::HttpClient;
use process::Lingua;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Hands in a job that nobody takes.
async fn ask(server: &Lingua, traceparent: Option<&str>) {
    let mut client = HttpClient::new(format!("http://{}", server.address()));
    if let Some(traceparent) = traceparent {
        client = client.header("traceparent", traceparent).unwrap();
    }
    let job = json!({ "session_id": "me", "src_lang": "en", "tgt_lang": "zh", "audio": "AAEC" });
    let reply = client.post("/v1/dispatch/f2f", &job).await.unwrap();
    assert_eq!(reply.json().unwrap()["error"], "NO_CAPABLE_NODE", "{}", reply.text());
}

async fn ends_well(mut server: Lingua) {
    server.signal("TERM");
    let code = tokio::task::spawn_blocking(move || server.exit_code()).await.unwrap();
    assert_eq!(code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flag_turns_traces_on_and_the_last_are_brought_at_the_end() {
    let collector = Collector::start(Mood::Well).await;
    let url = collector.url();
    let args = ["serve", "--listen", "127.0.0.1:0", "--otlp", &url, "--trace-share", "1"];
    let server = Lingua::start(&[&args[..], &["--instance-id", "i-1"]].concat());
    ask(&server, None).await;
    ends_well(server).await;
    let spans = collector.has("job", 1).await;
    assert_eq!((spans[0].instance.as_str(), spans.len()), ("i-1", 3), "{spans:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_never_answers_does_not_keep_it_from_ending() {
    let collector = Collector::start(Mood::Silent).await;
    let url = collector.url();
    let args = ["serve", "--listen", "127.0.0.1:0", "--otlp", &url, "--trace-share", "1"];
    let server = Lingua::start(&args);
    ask(&server, None).await;
    let end = tokio::time::timeout(Duration::from_secs(30), ends_well(server)).await;
    assert!(end.is_ok(), "it hangs");
}

fn openssl(dir: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    let output = command.current_dir(dir).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An authority `ca.pem`, and a server's configuration that it vouches for.
fn certificates(dir: &Path) -> ServerConfig {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let ca = "-x509 -days 2 -subj /CN=lingua-test-ca -keyout ca.key -out ca.pem";
    openssl(dir, &format!("req {key} {ca}"));
    openssl(dir, &format!("req {key} -subj /CN=127.0.0.1 -keyout server.key -out server.csr"));
    std::fs::write(dir.join("extensions"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    let sign = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions";
    openssl(dir, &format!("x509 -req -in server.csr {sign} -out server.pem"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(dir.join("server.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(dir.join("server.key")).unwrap(),
        )
        .unwrap()
}

async fn behind_tls(config: ServerConfig) -> Collector {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (collector, router) = Collector::behind(socket.local_addr().unwrap());
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        loop {
            let (tcp, _) = socket.accept().await.unwrap();
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                // One that does not trust us hangs up.
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                let server = hyper::server::conn::http1::Builder::new();
                let service = TowerToHyperService::new(router);
                let _ = server.serve_connection(TokioIo::new(tls), service).await;
            });
        }
    });
    collector
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_behind_tls_is_told_only_if_its_authority_is_trusted() {
    const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let dir = tempfile::tempdir().unwrap();
    let collector = behind_tls(certificates(dir.path())).await;
    let url = format!("https://{}", collector.address);
    let authority = dir.path().join("ca.pem").to_str().unwrap().to_owned();
    // By settings, as a container has it.
    let settings = [("LINGUA_OTLP", url.as_str()), ("LINGUA_TRACE_SHARE", "0")];
    let (stranger, log) = Lingua::logged(&["serve", "--listen", "127.0.0.1:0"], &settings);
    ask(&stranger, Some(CALLER)).await;
    ends_well(stranger).await;
    assert_eq!(collector.requests(), 0, "nobody vouches for it");
    let log = tokio::task::spawn_blocking(move || log.all()).await.unwrap();
    assert!(log.contains("the trace collector takes nothing"), "{log}");

    let settings = [&settings[..], &[("SSL_CERT_FILE", authority.as_str())]].concat();
    let (server, _log) = Lingua::logged(&["serve", "--listen", "127.0.0.1:0"], &settings);
    ask(&server, Some(CALLER)).await;
    let spans = collector.has("job", 1).await;
    assert_eq!(spans[0].trace, "4bf92f3577b34da6a3ce929d0e0e4736");
    ends_well(server).await;
}
