//! The dashboard in a real Chromium, over a real scheduler with simulated nodes and speakers.

mod faults;

use crate::app;
use crate::browser;
use crate::process;

use std::time::Duration;

use app::jobs::{done, job};
use app::{On, TestApp, quick};
use browser::{Browser, agrees, same};
use lingua_engine::Settings;
use lingua_lab::fake_node::{Behaviour, Latency};
use lingua_lab::{FakeNode, HttpClient, NodeOptions, Speaker, SpeakerOptions};
use process::Lingua;
use serde_json::json;

/// A snapshot every second, and a line that is longer than that, so that who waits is seen.
pub fn settings() -> Settings {
    let mut settings = Settings { snapshot_ms: 1_000, ..quick() };
    settings.timing.queue_max_ms = 3_000;
    settings.timing.deadline_ms = 9_000;
    settings.timing.check().unwrap();
    settings
}

pub fn options(app: &TestApp, id: &str, langs: &[&str]) -> NodeOptions {
    let options = NodeOptions::new(app.ws("/ws/node")).node_id(id).languages(langs).max_jobs(3);
    let latency = Latency::Spread { p50_ms: 60, p99_ms: 400 };
    options.behaviour(Behaviour { latency, ..Behaviour::default() })
}

/// A scheduler with three nodes, a speaker, and jobs until the end.
pub struct Busy {
    pub app: TestApp,
    _nodes: Vec<FakeNode>,
    pub speaker: Speaker,
    load: tokio::task::JoinHandle<()>,
}

impl Busy {
    pub async fn start() -> Self {
        let app = TestApp::start(On::Memory, settings()).await;
        let mut nodes = Vec::new();
        for (id, langs) in
            [("gpu-1", &["en", "zh"][..]), ("gpu-2", &["en", "zh"]), ("eu-1", &["en", "de"])]
        {
            nodes.push(FakeNode::connect(options(&app, id, langs)).await.unwrap());
        }
        let speaker = SpeakerOptions { url: app.ws("/ws/session"), ..SpeakerOptions::default() };
        let speaker = Speaker::connect(speaker).await.unwrap();
        let client = HttpClient::new(app.http(""));
        let load = tokio::spawn(async move {
            for n in 0.. {
                let tgt = if n % 3 == 0 { "de" } else { "zh" };
                let body = json!({ "session_id": format!("s-{n}"), "src_lang": "en", "tgt_lang": tgt, "audio": "AAEC" });
                let _ = client.post("/v1/dispatch/f2f", &body).await;
                if n % 20 == 0 {
                    let nobody = json!({ "session_id": format!("k-{n}"), "src_lang": "ko", "tgt_lang": "zh", "audio": "AAEC" });
                    let _ = client.post("/v1/dispatch/f2f", &nobody).await;
                }
                tokio::time::sleep(Duration::from_millis(60)).await;
            }
        });
        Busy { app, _nodes: nodes, speaker, load }
    }

    pub async fn end(self) {
        self.load.abort();
        drop(self.speaker);
        self.app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_shown_with_the_numbers_of_the_api() {
    let busy = Busy::start().await;
    let browser = Browser::open(1280, 1300).await;
    browser.go(&busy.app.http("/")).await;
    assert!(browser.run("return location.pathname").await == "/dashboard", "the root leads to it");
    browser
        .until("the charts are drawn", "return document.querySelectorAll('svg.chart').length === 3")
        .await;

    agrees(&browser).await;
    assert_eq!(
        browser.run("return document.querySelector('#headline h1').parentElement.getAttribute('aria-live')").await,
        "polite"
    );
    assert!(browser.run("return document.querySelector('[data-pair=\"ko->zh\"]').classList.contains('unserved')").await == true);

    browser.until("endings by reason are counted", "const r = new XMLHttpRequest(); r.open('GET', '/api/v1/history', false); r.send(); \
         const points = JSON.parse(r.responseText).points; const sum = (code) => points.reduce((n, p) => n + (p.ended[code] || 0), 0); \
         const shown = (code) => Number(document.querySelector(`[data-chart=endings] [data-series=${code}]`)?.innerText.replace(/,/g, '')); \
         return shown('ok') === sum('ok') && shown('NO_CAPABLE_NODE') === sum('NO_CAPABLE_NODE') && sum('ok') > 10").await;
    browser.click("[data-do=latency][data-of=dispatch]").await;
    same(&browser, "another latency can be chosen", "return Math.abs(parseFloat(document.querySelector('[data-chart=latency] [data-series=p50_ms]').innerText) \
         - snapshot.latency.dispatch.p50_ms) < 1").await;

    // A job that failed, from the list to its own view.
    browser.click("#failures tbody a.id").await;
    browser.until("the job's view", "return !!document.querySelector('[data-job]')").await;
    assert!(browser.text("main").await.contains("NO_CAPABLE_NODE"));
    assert!(browser.text("main").await.contains("It was not sent to any node."));
    browser.is_calm().await;

    // Sessions, instances.
    browser.click("nav a[href='#/sessions']").await;
    let session = busy.speaker.session_id();
    browser
        .until(
            "the session",
            &format!("return !!document.querySelector('[data-session=\"{session}\"]')"),
        )
        .await;
    assert!(browser.text("[data-session]").await.contains("en → zh"));
    browser.click("nav a[href='#/instances']").await;
    same(&browser, "the instances", "const row = document.querySelector('[data-instance=\"test-1\"]'); const one = snapshot.instances[0]; \
         return row && row.innerText.includes('deadlines') && row.innerText.includes(one.address) && row.cells[2].innerText === String(one.nodes)").await;
    assert_eq!(
        browser.run("return document.querySelectorAll('[data-instance] .chip').length").await,
        3
    );
    browser.is_calm().await;
    busy.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_shows_its_attempts() {
    let app = TestApp::start(On::Memory, settings()).await;
    let failing =
        Behaviour { fail: 1.0, latency: Latency::Fixed { ms: 80 }, ..Behaviour::default() };
    let bad = options(&app, "bad", &["en", "zh"]).behaviour(failing);
    let _bad = FakeNode::connect(bad).await.unwrap();
    let _good = FakeNode::connect(options(&app, "good", &["en", "zh"])).await.unwrap();
    let retried = job().prefer("bad").submit(&app);
    done(&retried).await;
    let browser = Browser::open(1100, 900).await;
    browser.go(&app.http(&format!("/dashboard#/jobs/{}", retried.id))).await;
    browser
        .until("two attempts", "return document.querySelectorAll('[data-attempt]').length === 2")
        .await;
    let attempts = browser.run("return [...document.querySelectorAll('[data-attempt]')].map((one) => [one.innerText.includes(one.dataset.attempt === '1' ? 'bad' : 'good'), one.dataset.outcome])").await;
    assert_eq!((&attempts[0][0], &attempts[1]), (&json!(true), &json!([true, "ok"])), "{attempts}");
    assert_ne!(attempts[0][1], "ok");
    browser.picture("job").await;
    // A link to one that nobody remembers is an answer too, and so is the box that finds one.
    browser.click("nav a[href='#/jobs']").await;
    browser.write("#job-id", "00000000000000000000000000").await;
    browser.press('\u{e007}').await;
    let no_such = "return document.querySelector('main').innerText.includes('No such job')";
    browser.until("no such job", no_such).await;
    let complaints = browser.complaints().await;
    assert!(complaints.iter().all(|said| said.contains("404")), "{complaints:#?}");
    drop(browser);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_drained_after_a_question_and_resumed() {
    let app = TestApp::start(On::Memory, settings()).await;
    let _nodes = [
        FakeNode::connect(options(&app, "a", &["en", "zh"])).await.unwrap(),
        FakeNode::connect(options(&app, "b", &["de", "zh"])).await.unwrap(),
    ];
    let order = |id: &str| {
        let view = app.engine.node_view(&id.parse().unwrap()).unwrap();
        format!("{:?}", view.order)
    };
    let browser = Browser::open(1280, 900).await;
    browser.go(&app.http("/dashboard#/nodes")).await;
    browser.click("[data-node=a] [data-do=drain]").await;
    browser.until("it asks first", "return document.querySelector('#ask').open").await;
    browser.picture("question").await;
    browser.click("#ask-no").await;
    browser.until("the question is gone", "return !document.querySelector('#ask').open").await;
    assert_eq!(order("a"), "Serve", "a no is a no");
    browser.click("[data-node=a] [data-do=drain]").await;
    browser.click("#ask-yes").await;
    browser
        .until(
            "it says what it did",
            "return document.querySelector('#toast').innerText.includes('a is draining')",
        )
        .await;
    assert_eq!((order("a"), order("b")), ("Drain".to_owned(), "Serve".to_owned()));
    browser.until("the row says so", "return document.querySelector('[data-node=a]').innerText.includes('an administrator drains it')").await;

    // The node's own view, and back to work from there.
    browser.click("[data-node=a] th a").await;
    browser
        .until(
            "its own view",
            "return !!document.querySelector('section[data-node=a] [data-do=resume]')",
        )
        .await;
    browser.click("section[data-node=a] [data-do=resume]").await;
    browser.click("#ask-yes").await;
    browser
        .until(
            "it serves again",
            "return document.querySelector('section[data-node=a]')?.dataset.state === 'ready'",
        )
        .await;
    assert_eq!(order("a"), "Serve");
    browser.click("section[data-node=a] [data-do=block]").await;
    browser.click("#ask-yes").await;
    browser.until("it is blocked", "return document.querySelector('section[data-node=a]').innerText.includes('an administrator blocked it')").await;
    assert_eq!(order("a"), "Block");

    // Filter and sort, the latter by keyboard.
    browser.click("nav a[href='#/nodes']").await;
    browser.write("#node-filter", "de").await;
    browser
        .until("one row", "return document.querySelectorAll('tr[data-node]').length === 1")
        .await;
    browser.write("#node-filter", " ").await;
    browser.run("document.querySelector('[data-by=id]').focus()").await;
    browser.press('\u{e007}').await;
    let down = "return document.querySelector('th[aria-sort=descending] [data-by=id]') !== null \
                && [...document.querySelectorAll('tr[data-node]')].map((row) => row.dataset.node).join() === 'b,a'";
    browser.until("sorted the other way, the focus where it was", down).await;
    assert_eq!(browser.run("return document.activeElement.dataset.by").await, "id");
    browser.is_calm().await;
    drop(browser);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_box_explains_why_a_job_would_go_where() {
    let app = TestApp::start(On::Memory, settings()).await;
    let _node = FakeNode::connect(options(&app, "a", &["en", "zh"])).await.unwrap();
    let browser = Browser::open(1100, 800).await;
    browser.go(&app.http("/dashboard#/explain?src=en&tgt=zh&node=a")).await;
    browser
        .until(
            "an answer",
            "return document.querySelector('[data-eligible]')?.dataset.eligible === '1'",
        )
        .await;
    assert!(browser.text("#answer").await.contains("a could take it."));
    browser.write("#e-src", "de").await;
    browser.click("[data-form=explain] button").await;
    browser
        .until(
            "another answer",
            "return document.querySelector('[data-eligible]')?.dataset.eligible === '0'",
        )
        .await;
    let answer = browser.text("#answer").await;
    assert!(
        answer.contains("No node supports semantic(de)")
            && answer.contains("does not recognise the source language"),
        "{answer}"
    );
    browser.picture("explain").await;
    browser.write("#e-src", "not a language").await;
    browser.click("[data-form=explain] button").await;
    browser
        .until(
            "what is wrong is said",
            "return document.querySelector('#answer .problem')?.innerText.startsWith('src:')",
        )
        .await;
    drop(browser);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn language_and_theme_switch_and_stay() {
    let busy = Busy::start().await;
    let browser = Browser::open(1280, 1300).await;
    browser.go(&busy.app.http("/dashboard")).await;
    browser.until("the charts", "return document.querySelectorAll('svg.chart').length === 3").await;
    if browser::pictures().is_some() {
        // Charts with something in them.
        tokio::time::sleep(Duration::from_secs(15)).await;
    }
    browser.click("[data-do=theme][data-value=light]").await;
    browser.picture("light").await;
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let light = browser.run(ground).await;
    browser.click("[data-do=theme][data-value=dark]").await;
    browser.picture("dark").await;
    let dark = browser.run(ground).await;
    assert_ne!(light, dark);
    browser.click("[data-do=lang][data-value=zh]").await;
    browser.until("it is Chinese", "return document.documentElement.lang === 'zh-CN' && document.querySelector('nav').innerText.includes('节点')").await;
    browser.reload().await;
    browser.until("it stays", "return document.querySelectorAll('svg.chart').length === 3").await;
    assert_eq!(browser.run(ground).await, dark);
    assert!(browser.text("nav").await.contains("实例"));
    browser.picture("chinese").await;
    // No word is left in the other language where there should be one.
    for view in ["", "nodes", "sessions", "instances", "explain"] {
        browser.run(&format!("location.hash = '#/{view}'")).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        let english = browser.run("return [...document.querySelectorAll('h2, th button, dt, nav a, label, .note')].map((e) => e.firstChild?.data || '') \
             .filter((text) => /[a-z]{4,}/i.test(text) && !/[\\u4e00-\\u9fff]/.test(text))").await;
        assert_eq!(english, json!([]), "{view}");
    }
    browser.is_calm().await;
    drop(browser);
    busy.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_phone_nothing_is_cut_off() {
    let busy = Busy::start().await;
    let browser = Browser::open(390, 844).await;
    for lang in ["en", "zh"] {
        browser.go(&busy.app.http("/dashboard")).await;
        browser
            .until("it is drawn", "return document.querySelectorAll('svg.chart').length === 3")
            .await;
        browser.click(&format!("[data-do=lang][data-value={lang}]")).await;
        for view in
            ["", "nodes", "nodes/gpu-1", "jobs", "sessions", "instances", "explain?src=en&tgt=zh"]
        {
            browser.run(&format!("location.hash = '#/{view}'")).await;
            tokio::time::sleep(Duration::from_millis(900)).await;
            let wide = browser.run("return [...document.querySelectorAll('body *')].filter((e) => !e.closest('.wide, nav, svg, .skip') \
                 && e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).concat(document.documentElement.scrollWidth === 390 ? [] : [document.documentElement.scrollWidth])").await;
            assert_eq!(wide, json!([]), "{lang} {view}");
            let name =
                if view.is_empty() { "overview" } else { view.split(['/', '?']).next().unwrap() };
            browser.picture(&format!("phone-{lang}-{name}")).await;
        }
    }
    browser.is_calm().await;
    drop(browser);
    busy.end().await;
}

/// A node's word about itself is a stranger's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_says_is_text_and_nothing_else() {
    let app = TestApp::start(On::Memory, settings()).await;
    let markup = "<img src=x onerror=alert(1)><script>alert(2)</script>";
    let hostile = options(&app, "hostile", &["en", "zh"])
        .register_with(json!({ "version": markup, "platform": markup }));
    let _node = FakeNode::connect(hostile).await.unwrap();
    let browser = Browser::open(1100, 800).await;
    browser.go(&app.http("/dashboard#/nodes/hostile")).await;
    browser
        .until(
            "it is shown as it is",
            &format!("return document.querySelector('main').innerText.includes({markup:?})"),
        )
        .await;
    assert_eq!(
        browser.run("return document.querySelectorAll('main img, main script').length").await,
        0
    );
    let inline = browser.run("const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); return !!window.ran").await;
    assert_eq!(inline, false, "the policy forbids what is not ours");
    drop(browser);
    app.finish().await;
}
