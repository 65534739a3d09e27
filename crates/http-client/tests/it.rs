//! The HTTP client against a server of a few lines.

#![allow(clippy::unwrap_used, reason = "the steps that tests share fail as tests do")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use lingua_http_client::HttpClient;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// Answers every call with what it was; returns its address and the count of its connections.
async fn echo() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let server = http1::Builder::new();
                let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            });
        }
    });
    (base, connections)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    match parts.uri.path() {
        "/slow" => sleep(Duration::from_secs(60)).await,
        "/raw" => return Ok(Response::new(Full::new(body))),
        _ => {}
    }
    let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap());
    let told = json!({
        "method": parts.method.as_str(),
        "target": parts.uri.to_string(),
        "type": header("content-type"),
        "authorization": header("authorization"),
        "body": String::from_utf8_lossy(&body),
    });
    let mut response = Response::new(Full::new(told.to_string().into()));
    response.headers_mut().insert("x-answer", "yes".parse().unwrap());
    if parts.uri.path() == "/busy" {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

#[tokio::test]
async fn calls_carry_method_path_headers_and_body_over_one_connection() {
    let (base, connections) = echo().await;
    let client = HttpClient::new(base).bearer("T").unwrap();
    let get = client.get("/v1/job/1?wait_ms=5").await.unwrap();
    assert_eq!((get.status, get.header("x-answer")), (200, Some("yes")));
    assert_eq!(
        get.ok().unwrap(),
        json!({ "method": "GET", "target": "/v1/job/1?wait_ms=5", "type": null,
                "authorization": "Bearer T", "body": "" })
    );
    let post = client.post("/v1/x", &json!({ "a": [1] })).await.unwrap().ok().unwrap();
    assert_eq!((&post["method"], &post["type"]), (&json!("POST"), &json!("application/json")));
    assert_eq!(post["body"], r#"{"a":[1]}"#);
    let delete = client.delete("/v1/job/1").await.unwrap().ok().unwrap();
    assert_eq!(delete["method"], "DELETE");
    let raw = client.post_bytes("/raw", "audio/pcm", vec![0, 159, 255]).await.unwrap();
    assert_eq!(raw.body, vec![0, 159, 255]);
    assert_eq!(connections.load(Ordering::Relaxed), 1, "the connection is kept");
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_silence_an_error() {
    let (base, _) = echo().await;
    let client = HttpClient::new(base).limit(Duration::from_millis(200));
    let busy = client.get("/busy").await.unwrap();
    assert_eq!((busy.status, busy.is_success()), (503, false));
    assert_eq!(busy.json().unwrap()["target"], "/busy");
    assert!(format!("{:#}", busy.ok().unwrap_err()).contains("status 503"));

    let error = client.get("/slow").await.unwrap_err();
    assert!(format!("{error:#}").contains("/slow: no answer within 200ms"), "{error:#}");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = HttpClient::new(format!("http://127.0.0.1:{port}")).get("/x").await.unwrap_err();
    assert!(format!("{error:#}").contains("GET http://127.0.0.1"), "{error:#}");
}
