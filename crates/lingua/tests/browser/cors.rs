//! Pages of other sites that call the API, in a real Chromium.

use crate::browser::Browser;
use crate::tokens::Guarded;

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::Value;

/// An empty page on a port, and so an origin, of its own.
///
/// Each connection has a thread: Chromium opens some in advance and sends nothing on them.
fn site() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                if matches!(stream.read(&mut [0; 4_096]), Ok(1..)) {
                    let _ = stream.write_all(
                        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi",
                    );
                }
            });
        }
    });
    port
}

/// What the page gets to read of each call: the status, the request's name and a word of the body, or `blocked`.
async fn calls(browser: &Browser, api: &str, token: &str) -> Value {
    let script = format!(
        "window.told = null;
         const headers = {{ authorization: 'Bearer {token}', 'x-request-id': 'from-a-page' }};
         const json = {{ ...headers, 'content-type': 'application/json', 'idempotency-key': 'k' }};
         const one = (path, options) => fetch('{api}' + path, options)
           .then(async (answer) => [answer.status, answer.headers.get('x-request-id'), (await answer.json()).error ?? 'ok'].join(' '))
           .catch(() => 'blocked');
         Promise.all([
           one('/api/v1/pools', {{ headers }}),
           one('/api/v1/pools', {{}}),
           one('/api/v1/nodes/nobody/drain', {{ method: 'POST', headers: json, body: '{{}}' }}),
           one('/openapi.json', {{}}),
         ]).then((told) => {{ window.told = told; }});"
    );
    browser.run(&script).await;
    browser.until("all calls ended", "return window.told").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_named_origin_calls_the_api_and_other_pages_read_nothing() {
    let (named, other) = (site(), site());
    let guarded = tokio::task::spawn_blocking(move || {
        let lines = format!("origins = [\"http://localhost:{named}\"]");
        Guarded::start_with("", &lines)
    })
    .await
    .unwrap();
    let token = guarded.mint("admin", "ops", &[]);
    let browser = Browser::open(800, 600).await;

    browser.go(&format!("http://localhost:{named}/")).await;
    let told = calls(&browser, &guarded.url(), &token).await;
    let texts: Vec<&str> =
        told.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(texts[0], "200 from-a-page ok");
    assert!(texts[1].starts_with("401 ") && texts[1].ends_with(" UNAUTHORIZED"), "{texts:?}");
    assert_eq!(texts[2], "404 from-a-page NOT_FOUND", "the preflight let it through");
    assert!(texts[3].starts_with("200 "), "{texts:?}");

    // Another port, another name of the same machine and port.
    for origin in [format!("http://localhost:{other}/"), format!("http://127.0.0.1:{named}/")] {
        browser.go(&origin).await;
        let told = calls(&browser, &guarded.url(), &token).await;
        assert_eq!(
            told,
            serde_json::json!(["blocked", "blocked", "blocked", "blocked"]),
            "{origin}"
        );
    }
}
