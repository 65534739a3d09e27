//! The talk page in a real Chromium with a microphone: people speak, see and hear the translation.

use crate::app;
use crate::booth;
use crate::browser;
use crate::process;
use crate::tokens;

use std::time::Duration;

use app::{On, TestApp, quick};
use booth::{Booth, CHINESE, ENGLISH, MARKUP, PARTIAL, microphone};
use browser::Browser;
use lingua_engine::Settings;
use lingua_lab::NodeOptions;
use process::Lingua;
use serde_json::{Value, json};
use tokens::Guarded;

const READY: &str = "return document.querySelector('#state').dataset.state === 'open'";
const SPACE: char = ' ';

/// Writes down what is shown for a moment only, and what is sent beside speech.
const WATCH: &str = "window.seen = []; window.sent = []; \
    for (const side of ['a', 'b']) { const own = document.querySelector(`#side-${side} .own`); \
      new MutationObserver(() => seen.push(own.textContent)).observe(own, { childList: true, characterData: true, subtree: true }); } \
    const send = WebSocket.prototype.send; WebSocket.prototype.send = function (data) { \
      sent.push(typeof data === 'string' ? JSON.parse(data).type : 'speech'); return send.call(this, data); }; return true";

/// Elements that stick out of the window.
const WIDE: &str = "return [...document.querySelectorAll('body *')].filter((e) => !e.closest('.skip, .hidden, template, option, optgroup') \
    && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 120))";

/// A window with a microphone into which somebody speaks all the time.
async fn open(width: u32, height: u32) -> (Browser, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("speech.wav");
    microphone(&file);
    let switches = [
        "--use-fake-device-for-media-stream".to_owned(),
        "--use-fake-ui-for-media-stream".to_owned(),
        format!("--use-file-for-fake-audio-capture={}", file.display()),
    ];
    (Browser::open_with(width, height, &switches).await, folder)
}

fn node(url: String) -> NodeOptions {
    NodeOptions::new(url).node_id("booth").languages(&["en", "zh"]).max_jobs(2)
}

/// A browser that ends in mid-sentence leaves a session whose client may come back: nobody waits for that here.
fn settings() -> Settings {
    Settings { drain_ms: 1_000, ..quick() }
}

/// A scheduler, a node, and the page.
async fn talk(width: u32, height: u32) -> (TestApp, Booth, Browser, tempfile::TempDir) {
    let app = TestApp::start(On::Memory, settings()).await;
    let booth = Booth::open(node(app.ws("/ws/node"))).await;
    app.meets("booth").await;
    let (browser, speech) = open(width, height).await;
    browser.go(&app.http("/talk")).await;
    browser.until("it is ready", READY).await;
    browser.run(WATCH).await;
    (app, booth, browser, speech)
}

/// Waits until so many sentences stand in the list and the newest was played to its end; gives them,
/// the newest first.
async fn played(browser: &Browser, count: usize) -> Vec<Value> {
    let rows = format!(
        "const rows = [...document.querySelectorAll('#past li')]; \
         return rows.length >= {count} && rows[0].dataset.playedS && rows.map((row) => ({{ ...row.dataset, text: row.innerText }}))"
    );
    browser.until("it was played", &rows).await.as_array().unwrap().clone()
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_talk_and_see_and_hear_each_other() {
    let (app, booth, browser, _speech) = talk(1280, 900).await;
    assert_eq!(browser.run("return [document.querySelector('#lang-a').value, document.querySelector('#lang-b').value]").await, json!(["en", "zh"]));
    browser.picture("talk-empty").await;

    // The one holds the button, with a finger.
    browser.hold("#side-a .talk", 2_600).await;
    let shows = |side, (_, means): (&str, &str)| {
        format!(
            "return document.querySelector('#side-{side} .translation').innerText === {means:?}"
        )
    };
    browser.until("it is translated", &shows('b', ENGLISH[0])).await;
    browser.picture("talk-playing").await;
    let rows = played(&browser, 1).await;
    assert_eq!((&rows[0]["src"], &rows[0]["tgt"]), (&json!("en"), &json!("zh")));
    assert!(number(&rows[0]["playedS"]) > 0.6, "{rows:?}");
    assert!(number(&rows[0]["peak"]) > 0.3, "it was silence: {rows:?}");
    assert!((1.0..60_000.0).contains(&number(&rows[0]["latencyMs"])), "{rows:?}");
    let seen = browser.run("return seen").await;
    let seen = seen.as_array().unwrap();
    let at = |words: &str| seen.iter().position(|shown| shown == words);
    assert!(at(PARTIAL).unwrap() < at(ENGLISH[0].0).unwrap(), "{seen:?}");

    // The other one by the keyboard alone.
    browser.run("document.querySelector('#side-b .talk').focus()").await;
    browser.hold_key(SPACE, 2_600).await;
    browser.until("it goes the other way", &shows('a', CHINESE[0])).await;
    let rows = played(&browser, 2).await;
    assert_eq!((&rows[0]["src"], &rows[1]["src"]), (&json!("zh"), &json!("en")), "newest first");
    assert!(number(&rows[0]["peak"]) > 0.3, "another form of speech: {rows:?}");

    // A tap is enough: who falls silent has said it.
    browser.click("#side-a .talk").await;
    let listens = "return document.querySelector('#side-a').dataset.doing === 'listening' && document.querySelector('#side-a .talk').getAttribute('aria-pressed') === 'true'";
    browser.until("it listens", listens).await;
    browser.picture("talk-listening").await;
    let rows = played(&browser, 3).await;
    assert_eq!(rows[0]["src"], "en");

    // Everything came to the node as Opus, and the loudspeaker was told of.
    let jobs = booth.jobs();
    assert_eq!(
        jobs.iter().map(|job| (&*job.src, &*job.format)).collect::<Vec<_>>(),
        [("en", "opus"), ("zh", "opus"), ("en", "opus")]
    );
    assert!(jobs.iter().all(|job| job.bytes > 2_000), "{jobs:?}");
    let sent = browser.run("return sent.filter((type) => type !== 'speech')").await;
    let tts: Vec<&str> =
        sent.as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect();
    assert_eq!(tts.iter().filter(|kind| **kind == "tts_started").count(), 3, "{tts:?}");
    assert_eq!(tts.iter().filter(|kind| **kind == "tts_play_ended").count(), 3, "{tts:?}");
    assert_eq!(tts.iter().filter(|kind| **kind == "set_languages").count(), 2, "{tts:?}");

    // What was said can be heard again, and forgotten.
    browser.click("#past li:last-child .again").await;
    browser
        .until(
            "it plays again",
            "return sent.filter((type) => type === 'tts_play_ended').length === 4",
        )
        .await;
    browser.run("scrollTo(0, 0); document.activeElement.blur()").await;
    browser.picture("talk-light").await;
    browser.click("[data-do=theme][data-value=dark]").await;
    browser.picture("talk-dark").await;
    browser.click("[data-do=lang][data-value=zh]").await;
    assert_eq!(browser.text("#past-title").await, "对话记录");
    assert!(browser.text("#past").await.contains("英语 → 中文"));
    let english = browser.run("return [...document.querySelectorAll('h2, label > span:not(.hidden), .how, .middle [data-word], .meta .took, optgroup')] \
        .map((e) => e.label || e.textContent).filter((text) => /[a-z]{4,}/i.test(text))").await;
    assert_eq!(english, json!([]));
    browser.picture("talk-chinese").await;
    browser.click("#clear").await;
    assert_eq!(browser.run("return document.querySelectorAll('#past li').length").await, 0);
    browser.is_calm().await;
    drop((browser, booth));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hands_free_the_turn_goes_back_and_forth() {
    let (app, booth, browser, _speech) = talk(1280, 900).await;
    browser.click("[data-do=auto]").await;
    let rows = played(&browser, 4).await;
    let spoken: Vec<_> = rows.iter().rev().map(|row| row["src"].as_str().unwrap()).collect();
    assert_eq!(spoken[..4], ["en", "zh", "en", "zh"]);
    browser.click("[data-do=auto]").await;
    browser.until("nobody listens", "return ['a', 'b'].every((side) => document.querySelector(`#side-${side} .talk`).getAttribute('aria-pressed') === 'false')").await;
    browser.is_calm().await;
    drop((browser, booth));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_that_nobody_serves_is_said_before_and_after() {
    let app = TestApp::start(On::Memory, settings()).await;
    let (browser, _speech) = open(1280, 900).await;
    browser.go(&app.http("/talk")).await;
    browser.until("it is ready", READY).await;
    let notice = "return !document.querySelector('#notice').hidden && document.querySelector('#notice').innerText";
    let none = browser.until("that there is nobody", notice).await;
    assert!(none.as_str().unwrap().contains("lingua node --langs en,zh"), "{none}");
    browser.hold("#side-a .talk", 1_500).await;
    let missing = "return document.querySelector('#side-a .trouble').innerText === 'English → Chinese is not available now.'";
    browser.until("the answer says so too", missing).await;
    assert!(browser.text("#past").await.contains("English → Chinese is not available now."));
    browser.picture("talk-nobody").await;

    // Somebody comes: the page learns of it, and offers it first.
    let german = NodeOptions::new(app.ws("/ws/node")).node_id("booth").languages(&["de", "en"]);
    let booth = Booth::open(german).await;
    app.meets("booth").await;
    browser.reload().await;
    let offered = "return [...document.querySelectorAll('#lang-a optgroup:first-child option')].map((option) => option.value).join()";
    browser.until("it is offered", &format!("{offered} === 'en,de'")).await;
    let notice = "return document.querySelector('#notice').hidden && document.querySelector('#lang-a').value + document.querySelector('#lang-b').value";
    assert_eq!(browser.until("a pair that works", notice).await, "ende");
    browser.run("const pick = document.querySelector('#lang-b'); pick.value = 'ko'; pick.dispatchEvent(new Event('change'))").await;
    let names = "return document.querySelector('#notice').innerText.includes('English → Korean, Korean → English')";
    browser.until("it says what is not served", names).await;
    browser.picture("talk-unserved").await;
    browser.click("[data-do=lang][data-value=zh]").await;
    browser
        .until(
            "in Chinese",
            "return document.querySelector('#notice').innerText.includes('英语 → 韩语')",
        )
        .await;
    browser.is_calm().await;
    drop((browser, booth));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn markup_of_a_node_is_text_on_the_talk_page() {
    let app = TestApp::start(On::Memory, settings()).await;
    let german = NodeOptions::new(app.ws("/ws/node")).node_id("booth").languages(&["de", "en"]);
    let booth = Booth::open(german).await;
    app.meets("booth").await;
    let (browser, _speech) = open(1100, 800).await;
    browser.go(&app.http("/talk")).await;
    browser.until("it is ready", READY).await;
    browser.hold("#side-a .talk", 2_600).await;
    let text = format!(
        "return document.querySelector('#side-b .translation').innerText === {:?} && document.querySelector('#past li .heard')?.innerText === {:?}",
        MARKUP.1, MARKUP.0
    );
    browser.until("it is shown as it is", &text).await;
    assert_eq!(browser.run("return document.querySelectorAll('main img, main i').length").await, 0);
    browser.is_calm().await;
    drop((browser, booth));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conversation_survives_a_restart_in_mid_sentence() {
    let first =
        tokio::task::spawn_blocking(|| Lingua::start(&["serve", "--listen", "127.0.0.1:0"]))
            .await
            .unwrap();
    let address = first.address().to_string();
    let booth = Booth::open(node(format!("ws://{address}/ws/node"))).await;
    let (browser, _speech) = open(1100, 900).await;
    browser.go(&format!("http://{address}/talk")).await;
    browser.until("it is ready", READY).await;
    browser.until("somebody serves", "return document.querySelector('#notice').hidden").await;
    let kill = async {
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        drop(first);
    };
    tokio::join!(browser.hold("#side-a .talk", 3_000), kill);
    let lost = "return document.querySelector('#state').dataset.state === 'reconnecting' && document.querySelector('#banner').innerText";
    let banner = browser.until("it says so", lost).await;
    assert!(banner.as_str().unwrap().contains("what you say is kept"), "{banner}");
    browser.picture("talk-lost").await;
    let listen = address.clone();
    let second =
        tokio::task::spawn_blocking(move || Lingua::start(&["serve", "--listen", &listen]))
            .await
            .unwrap();
    browser.until("it is back", READY).await;
    assert_eq!(browser.run("return document.querySelector('#banner').hidden").await, true);
    // Whether the node was back first decides what became of it; it is not forgotten.
    browser
        .until(
            "the sentence has its ending",
            "return document.querySelectorAll('#past li').length === 1",
        )
        .await;
    browser.until("somebody serves", "return document.querySelector('#notice').hidden || (document.querySelector('#lang-a').dispatchEvent(new Event('change')), false)").await;
    browser.hold("#side-a .talk", 2_600).await;
    let rows = played(&browser, 2).await;
    assert!(number(&rows[0]["peak"]) > 0.3, "{rows:?}");
    let complaints = browser.complaints().await;
    let network =
        |said: &String| said.contains("net::ERR_") || said.contains("WebSocket connection");
    assert!(complaints.iter().all(network), "{complaints:#?}");
    drop((browser, booth, second));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_asks_for_tokens_gets_one_from_a_form() {
    let guarded = tokio::task::spawn_blocking(|| Guarded::start("")).await.unwrap();
    let options = node(format!("ws://{}/ws/node", guarded.lingua.address()));
    let booth = Booth::open(options.bearer(&guarded.mint("node", "booth", &[]))).await;
    let (browser, _speech) = open(1280, 900).await;
    browser.go(&format!("{}/talk", guarded.url())).await;
    let form =
        "return !document.querySelector('#lock').hidden && document.querySelector('#main').hidden";
    browser.until("it asks", form).await;
    assert_eq!(browser.run("return document.activeElement.id").await, "lock-token");
    assert_eq!(
        browser.run("return document.querySelector('#lock-token').labels[0].innerText").await,
        "Token"
    );
    browser.picture("talk-token").await;
    for (token, why) in [
        ("not a token", "not valid here"),
        ("this.is.nothing", "not valid here"),
        (&*guarded.mint("admin", "ops", &[]), "role is not session"),
    ] {
        browser.write("#lock-token", token).await;
        browser.click("#lock-go").await;
        let said = format!(
            "return !document.querySelector('#lock').hidden && document.querySelector('#lock-why').innerText.includes({why:?})"
        );
        browser.until(why, &said).await;
        assert_eq!(browser.run("return document.querySelector('#lock-token').value").await, "");
    }
    let token = guarded.mint("session", "app", &["--tenant", "default", "--life-s", "45"]);
    let expires = tokio::time::Instant::now() + Duration::from_secs(45);
    browser.write("#lock-token", &token).await;
    browser.click("#lock-go").await;
    browser.until("it is ready", READY).await;
    browser.until("the pairs are known", "return document.querySelector('#lock').hidden && document.querySelector('#lang-a optgroup:first-child option')?.value === 'zh'").await;
    browser.hold("#side-a .talk", 2_600).await;
    played(&browser, 1).await;
    let kept = "return [location.href, document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), \
                document.documentElement.outerHTML, performance.getEntries().map((entry) => entry.name).join()].join()";
    assert!(!browser.run(kept).await.as_str().unwrap().contains(&token), "the token is kept");
    // It expires in the middle of the conversation, which goes on with another one.
    tokio::time::sleep_until(expires).await;
    browser
        .until(
            "it asks again",
            &format!("{form} && document.querySelector('#lock-why').innerText.includes('expired')"),
        )
        .await;
    browser.write("#lock-token", &guarded.mint("session", "app", &["--tenant", "default"])).await;
    browser.click("#lock-go").await;
    browser
        .until(
            "it goes on",
            &format!("{READY} && document.querySelectorAll('#past li').length === 1"),
        )
        .await;
    let complaints = browser.complaints().await;
    let refusal = |said: &String| said.contains("status of 401") || said.contains("status of 403");
    assert!(complaints.iter().all(refusal), "{complaints:#?}");
    drop((browser, booth));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phone_lies_between_two_people() {
    let (app, booth, browser, _speech) = talk(390, 844).await;
    // The one opposite reads Chinese, whatever the language of the page.
    assert!(browser.text("#side-b .who").await.contains('说'));
    // The button stays under the finger, whatever is written above it.
    let middles = "return [...document.querySelectorAll('.talk')].map((e) => e.getBoundingClientRect()).map((r) => Math.round((r.top + r.bottom) / 2))";
    let before = browser.run(middles).await;
    browser.hold("#side-a .talk", 2_600).await;
    assert_eq!(browser.run(middles).await, before);
    played(&browser, 1).await;
    assert_eq!(browser.run(middles).await, before);
    for lang in ["en", "zh"] {
        browser.click(&format!("[data-do=lang][data-value={lang}]")).await;
        assert_eq!(browser.run(WIDE).await, json!([]), "{lang}");
        browser.picture(&format!("talk-phone-{lang}")).await;
    }
    // Both buttons are there at once, and large enough for a thumb.
    let buttons = "return [...document.querySelectorAll('.talk')].map((e) => e.getBoundingClientRect()).every((r) => r.top >= 0 && r.bottom <= innerHeight && r.width >= 90)";
    assert_eq!(browser.run(buttons).await, true);
    browser.click("[data-do=flip]").await;
    browser.run("document.querySelector('#table').scrollIntoView()").await;
    let turned = "return getComputedStyle(document.querySelector('#side-b')).transform.startsWith('matrix(-1, 0, 0, -1')";
    assert_eq!(browser.run(turned).await, true);
    // Who sits there presses a button that stands on its head.
    browser.hold("#side-b .talk", 2_600).await;
    let rows = played(&browser, 2).await;
    assert_eq!(rows[0]["src"], "zh");
    browser.picture("talk-phone-flipped").await;
    browser.is_calm().await;
    drop((browser, booth));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_microphone_the_page_says_what_to_do() {
    let app = TestApp::start(On::Memory, settings()).await;
    for (switches, words) in [
        (
            &["--use-fake-device-for-media-stream", "--deny-permission-prompts"][..],
            "麦克风未被允许",
        ),
        (&["--use-fake-ui-for-media-stream"], "没有麦克风"),
    ] {
        let switches: Vec<String> = switches.iter().map(|&switch| switch.to_owned()).collect();
        let browser = Browser::open_with(1100, 800, &switches).await;
        browser.go(&app.http("/talk")).await;
        browser.until("it is ready", READY).await;
        browser.hold("#side-b .talk", 600).await;
        let says = format!(
            "return document.querySelector('#side-b .trouble').innerText.includes({words:?})"
        );
        browser.until(words, &says).await;
        browser.picture("talk-refused").await;
        browser.is_calm().await;
    }

    // By a name that is not this machine's, without TLS.
    let rules = "--host-resolver-rules=MAP lingua.test 127.0.0.1".to_owned();
    let insecure = Browser::open_with(1100, 800, &[rules]).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("lingua.toml");
    std::fs::write(&config, "[identity]\nhosts = [\"lingua.test\"]\n").unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    let called = Lingua::start(&args);
    insecure.go(&format!("http://lingua.test:{}/talk", called.address().port())).await;
    let says = "return ['a', 'b'].every((side) => document.querySelector(`#side-${side} .trouble`).innerText.includes('HTTPS'))";
    insecure.until("that it is insecure", says).await;
    drop(insecure);
    app.finish().await;
}
