//! The dashboard of a scheduler that asks for tokens, in a real Chromium.

use crate::browser;
use crate::tokens;

use browser::Browser;
use lingua_lab::{FakeNode, NodeOptions};
use serde_json::json;
use tokens::Guarded;

const FORM: &str = "return !document.querySelector('#lock').hidden";
const LIVE: &str = "return document.querySelector('#lock').hidden \
                    && document.querySelector('#live').classList.contains('on') \
                    && document.querySelector('.tiles') !== null";
const ENTER: char = '\u{e007}';

async fn start() -> Guarded {
    let more = "[cluster]\nsnapshot_ms = 1000";
    tokio::task::spawn_blocking(move || Guarded::start(more)).await.unwrap()
}

async fn says(browser: &Browser, why: &str) {
    let said = format!("return document.querySelector('#lock-why').innerText.includes({why:?})");
    browser.until(why, &said).await;
    assert_eq!(browser.run(FORM).await, true);
}

/// Chromium writes down every answer that is a refusal. There is nothing else to complain about, and
/// no token in it.
async fn only_refusals(browser: &Browser) {
    let complaints = browser.complaints().await;
    let refused = |said: &String| said.contains("status of 401") || said.contains("status of 403");
    assert!(complaints.iter().all(refused), "{complaints:#?}");
    assert!(complaints.iter().all(|said| !said.contains("eyJ")), "{complaints:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_the_page_until_it_expires() {
    let guarded = start().await;
    let node = NodeOptions::new(format!("ws://{}/ws/node", guarded.lingua.address()));
    let node = node.node_id("gpu-1").languages(&["en", "zh"]);
    let node = node.bearer(&guarded.mint("node", "gpu-1", &[]));
    let _node = FakeNode::connect(node).await.unwrap();

    let browser = Browser::open(1280, 900).await;
    browser.go(&format!("{}/dashboard", guarded.url())).await;
    browser.until("it asks", FORM).await;
    says(&browser, "requires a token").await;
    assert_eq!(browser.run("return document.activeElement.id").await, "lock-token");
    assert_eq!(browser.run("return document.querySelector('#lock-token').type").await, "password");
    let labelled = "return document.querySelector('#lock-token').labels[0].innerText";
    assert_eq!(browser.run(labelled).await, "Token");
    assert!(browser.text("#lock").await.contains("lingua token mint --role admin"));
    assert_eq!(browser.run("return document.querySelector('#banner').hidden").await, true);

    // What is no administrator's is told apart.
    let stranger = guarded.mint_with("wrong", "admin", "ops", &[]);
    let session = guarded.mint("session", "app", &["--tenant", "acme"]);
    for (token, why) in [
        ("not a token", "This is not a token"),
        ("this.is.nothing", "not valid here: it cannot be read as a signed JWT"),
        (&stranger, "not valid here: it is signed with a key"),
        (&session, "neither admin nor viewer"),
    ] {
        browser.write("#lock-token", token).await;
        browser.press(ENTER).await;
        says(&browser, why).await;
        assert_eq!(browser.run("return document.querySelector('#lock-token').value").await, "");
    }

    // The right one, by the keyboard alone.
    let admin = guarded.mint("admin", "ops", &[]);
    browser.write("#lock-token", &admin).await;
    browser.press(ENTER).await;
    browser.until("it is live", LIVE).await;
    assert_eq!(browser.run("return document.activeElement.id").await, "main");
    let age = "return window.seen !== (window.seen ??= document.querySelector('#foot').innerText) \
               || document.querySelector('#age').innerText.startsWith('0')";
    browser.until("news come", age).await;
    browser.click("nav a[href='#/nodes']").await;
    browser.click("[data-node=gpu-1] [data-do=drain]").await;
    browser.click("#ask-yes").await;
    let drained = "return document.querySelector('[data-node=gpu-1]').innerText.includes('an administrator drains it')";
    browser.until("it is drained", drained).await;

    // It is nowhere but in the script's memory.
    let kept = "return [location.href, document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), \
                document.documentElement.outerHTML].join()";
    let kept = browser.run(kept).await;
    assert!(!kept.as_str().unwrap().contains(&admin), "the token is kept");

    // And it is forgotten, with all that it showed.
    browser.click("[data-do=forget]").await;
    browser.until("it asks once more", FORM).await;
    says(&browser, "requires a token").await;
    assert_eq!(browser.run("return document.querySelector('[data-node]') === null").await, true);

    // On the overview nothing is asked for but the stream, which ends with the token.
    browser.run("location.hash = '#/'").await;
    browser.write("#lock-token", &guarded.mint("admin", "ops", &["--life-s", "25"])).await;
    browser.click("#lock-go").await;
    browser.until("the overview", LIVE).await;
    browser.until("it asks again", FORM).await;
    says(&browser, "has expired").await;
    let stays = "return [document.querySelector('.tiles') !== null, document.querySelector('main').hidden, document.querySelector('#banner').hidden]";
    assert_eq!(browser.run(stays).await, json!([true, false, true]), "the figures stay");
    browser.picture("token-expired").await;

    browser.write("#lock-token", &guarded.mint("admin", "ops", &[])).await;
    browser.click("#lock-go").await;
    browser.until("it is live again", LIVE).await;
    browser.picture("token-live").await;
    only_refusals(&browser).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_sees_everything_and_has_no_button_to_change_it() {
    let guarded = start().await;
    let node = NodeOptions::new(format!("ws://{}/ws/node", guarded.lingua.address()));
    let node = node.node_id("gpu-1").languages(&["en", "zh"]);
    let node = node.bearer(&guarded.mint("node", "gpu-1", &[]));
    let _node = FakeNode::connect(node).await.unwrap();
    let browser = Browser::open(1280, 900).await;
    for (role, buttons) in [("viewer", 0), ("admin", 2)] {
        browser.go("about:blank").await;
        browser.go(&format!("{}/dashboard#/nodes/gpu-1", guarded.url())).await;
        browser.until("it asks", FORM).await;
        browser.write("#lock-token", &guarded.mint(role, "eve", &[])).await;
        browser.press(ENTER).await;
        let shown =
            "return document.querySelector('section[data-node=gpu-1][data-state=ready]') !== null";
        browser.until("the node", shown).await;
        let count = "return document.querySelectorAll('[data-do=drain], [data-do=block]').length";
        assert_eq!(browser.run(count).await, buttons, "{role}");
    }
    only_refusals(&browser).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_form_is_for_every_screen_and_both_languages() {
    let guarded = start().await;
    for (width, height) in [(1280, 900), (390, 844)] {
        let browser = Browser::open(width, height).await;
        browser.go(&format!("{}/dashboard#/nodes", guarded.url())).await;
        browser.until("it asks", FORM).await;
        for (lang, theme, word) in [("en", "light", "Open"), ("zh", "dark", "打开")] {
            browser.click(&format!("[data-do=lang][data-value={lang}]")).await;
            browser.click(&format!("[data-do=theme][data-value={theme}]")).await;
            let shown = format!("return document.querySelector('#lock-go').innerText === '{word}'");
            browser.until("the language", &shown).await;
            let wide = "return [...document.querySelectorAll('body *')].filter((e) => !e.closest('nav, svg, .skip') \
                        && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 120))";
            assert_eq!(browser.run(wide).await, json!([]), "{width} {lang}");
            browser.picture(&format!("token-{width}-{theme}")).await;
        }
        browser.write("#lock-token", "nothing.of.value").await;
        browser.press(ENTER).await;
        says(&browser, "在这里无效").await;
        browser.picture(&format!("token-{width}-wrong")).await;
        only_refusals(&browser).await;
    }
}
