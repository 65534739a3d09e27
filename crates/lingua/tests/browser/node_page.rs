//! The page for owners of nodes, in a real Chromium.

use crate::browser::Browser;
use crate::tokens::Guarded;

use lingua_lab::{FakeNode, HttpClient, NodeOptions};
use serde_json::json;

async fn start() -> Guarded {
    tokio::task::spawn_blocking(|| Guarded::start("")).await.unwrap()
}

async fn show(browser: &Browser, token: &str) {
    browser.write("#token", token).await;
    browser.click("#go").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_own_token_shows_the_node_and_no_other() {
    let guarded = start().await;
    let url = format!("ws://{}/ws/node", guarded.lingua.address());
    let token = guarded.mint("node", "gpu-1", &[]);
    let node = NodeOptions::new(url).node_id("gpu-1").languages(&["en", "zh"]).bearer(&token);
    let _node = FakeNode::connect(node).await.unwrap();
    let browser = Browser::open(390, 844).await;
    browser.go(&format!("{}/node", guarded.url())).await;
    browser.until("it is drawn", "return document.querySelector('#go').innerText === 'Show'").await;

    show(&browser, &guarded.mint("node", "gpu-2", &[])).await;
    let unknown =
        "return document.querySelector('#problem').innerText.includes('gpu-2 is not registered')";
    browser.until("its own node is not there", unknown).await;
    browser.write("#name", "gpu-1").await;
    show(&browser, &guarded.mint("node", "gpu-2", &[])).await;
    let refused = "return document.querySelector('#problem').innerText.includes('is refused')";
    browser.until("another node is refused", refused).await;
    browser.write("#name", "").await;

    show(&browser, &token).await;
    let shown = "return document.querySelector('#problem').hidden \
                 && document.querySelector('#node').innerText.includes('gpu-1 is ready')";
    browser.until("the node is shown", shown).await;
    let said = browser.text("#node").await;
    for part in ["It can get jobs.", "declared", "en, zh", "Last failures", "None."] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("[object"), "{said}");
    let wide = browser.run("return document.documentElement.scrollWidth <= innerWidth").await;
    assert_eq!(wide, true, "nothing is cut off on a phone");

    // What somebody asks for and nobody serves, with what this node lacks for it.
    let app = HttpClient::new(guarded.url());
    let app = app.bearer(&guarded.mint("session", "app", &["--tenant", "acme"])).unwrap();
    let french = json!({"session_id": "s", "src_lang": "en", "tgt_lang": "fr", "audio": "AAAA",
        "options": {"require_tts": true}});
    assert_eq!(app.post("/v1/dispatch/f2f", &french).await.unwrap().status, 422);
    let useful = "return document.querySelector('#node').innerText.includes(\
                  'en → fr (spoken): this node does not speak the target language')";
    browser.until("what would make it more useful", useful).await;

    browser.click("#lang").await;
    let said = browser.text("#node").await;
    for part in ["gpu-1 已就绪", "en → fr (含语音)：此节点不合成该语言"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let kept = "return [location.href, document.cookie, JSON.stringify(localStorage), \
                JSON.stringify(sessionStorage), document.documentElement.outerHTML].join()";
    let kept = browser.run(kept).await;
    assert!(!kept.as_str().unwrap().contains(&token), "the token is kept");
}
