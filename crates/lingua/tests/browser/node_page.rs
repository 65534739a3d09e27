//! The page for owners of nodes, in a real Chromium.

use crate::browser::Browser;
use crate::tokens::Guarded;

use lingua_lab::{FakeNode, NodeOptions};

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
        "return document.querySelector('#problem').innerText.includes('does not know gpu-2')";
    browser.until("its own node is not there", unknown).await;
    browser.write("#name", "gpu-1").await;
    show(&browser, &guarded.mint("node", "gpu-2", &[])).await;
    let refused = "return document.querySelector('#problem').innerText.includes('is not taken')";
    browser.until("another node is refused", refused).await;
    browser.write("#name", "").await;

    show(&browser, &token).await;
    let shown = "return document.querySelector('#problem').hidden \
                 && document.querySelector('#node').innerText.includes('gpu-1 is ready')";
    browser.until("the node is shown", shown).await;
    let said = browser.text("#node").await;
    for part in ["Nothing is in the way of jobs.", "declared", "en, zh", "Last failures", "None."] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("[object"), "{said}");
    let wide = browser.run("return document.documentElement.scrollWidth <= innerWidth").await;
    assert_eq!(wide, true, "nothing is cut off on a phone");

    browser.click("#lang").await;
    assert!(browser.text("#node").await.contains("gpu-1 已就绪"));
    let kept = "return [location.href, document.cookie, JSON.stringify(localStorage), \
                JSON.stringify(sessionStorage), document.documentElement.outerHTML].join()";
    let kept = browser.run(kept).await;
    assert!(!kept.as_str().unwrap().contains(&token), "the token is kept");
}
