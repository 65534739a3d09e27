//! The pages of jobs and sessions on the dashboard: links, filters and buttons, in a real Chromium.

use crate::app;
use crate::browser::Browser;
use crate::dashboard::{Busy, options, settings};

use app::jobs::{done, is, job};
use app::{On, TestApp};
use lingua_core::job::JobState;
use lingua_lab::fake_node::{Behaviour, Latency};
use lingua_lab::{FakeNode, Speaker, SpeakerOptions};
use lingua_store::history::Series;
use serde_json::json;

const ENTER: char = '\u{e007}';

/// The codes and directions of the rows of the list, without doubles.
const ROWS: &str = "const rows = [...document.querySelectorAll('[data-row]')]; \
     const all = (of) => [...new Set(rows.map(of))].sort().join(); \
     const cell = (name) => (row) => row.querySelector(`[data-key=${name}]`).innerText.trim();";

async fn rows(browser: &Browser, what: &str, fits: &str) {
    browser.until(what, &format!("{ROWS} return rows.length > 0 && {fits}")).await;
}

async fn hash(browser: &Browser) -> String {
    browser.run("return location.hash").await.as_str().unwrap().to_owned()
}

/// The older ones, and back.
async fn pages_are_turned(browser: &Browser) {
    browser.run("location.hash = '#/jobs'").await;
    browser
        .until("an older page", "return document.querySelector('[data-key=older]') !== null")
        .await;
    // In one step: the list is renewed while jobs go on, and rows that were read before move to the older page.
    let newest = browser
        .run(
            "const rows = [...document.querySelectorAll('[data-row]')].map((row) => row.dataset.row); \
             document.querySelector('[data-key=older]').click(); return rows",
        )
        .await;
    let older = format!(
        "{ROWS} return rows.length > 0 && document.querySelector('[data-key=newest]') !== null \
         && rows.every((row) => !{newest}.includes(row.dataset.row))"
    );
    browser.until("others", &older).await;
    browser.click("[data-key=newest]").await;
    browser
        .until("the newest", "return document.querySelector('[data-key=newest]') === null")
        .await;
}

/// It names all that the job belongs to, and is found by the id that its node logs. Gives the job.
async fn the_page_of_a_job_leads_on(browser: &Browser, busy: &Busy) -> String {
    let one = job().session("talk").spoken().submit(&busy.app);
    done(&one).await;
    let (id, masked) = (one.id.to_string(), busy.app.engine.masked(one.id).to_string());
    browser.write("#job-id", &masked).await;
    browser.press(ENTER).await;
    let page = format!(
        "return document.querySelector('[data-job=\"{id}\"] [data-node-job=\"{masked}\"]') !== null"
    );
    browser.until("the job of that id", &page).await;
    let links = "return [...document.querySelectorAll('[data-job] a')].map((link) => link.hash)";
    let links = browser.run(links).await.to_string();
    for wanted in [
        "#/explain?src=en&tgt=zh",
        "#/sessions/talk?tenant=default",
        "#/jobs?tenant=default",
        "#/nodes/gpu-",
    ] {
        assert!(links.contains(wanted), "no {wanted} in {links}");
    }
    assert!(browser.text("[data-job]").await.contains("trace"));
    browser.click("[data-job] a[href^='#/nodes/']").await;
    browser.click("section[data-node] a[href^='#/jobs?node=']").await;
    rows(browser, "jobs of that node", "all(cell('node')).startsWith('gpu-')").await;
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_named_leads_to_its_page_and_lists_are_filtered() {
    let busy = Busy::start().await;
    let browser = Browser::open(1280, 1300).await;
    browser.go(&busy.app.http("/dashboard")).await;

    // From a finding to what it speaks of.
    browser.click("#headline a[href='#/explain?src=ko&tgt=zh']").await;
    browser
        .until("the explanation", "return document.querySelector('#answer .problem') !== null")
        .await;
    browser.click("#answer a[href^='#/jobs']").await;
    rows(&browser, "jobs of this direction", "all(cell('direction')) === 'ko → zh'").await;
    assert_eq!(hash(&browser).await, "#/jobs?src=ko&tgt=zh");

    // From a code in the table of failures to all jobs with this code.
    browser.click("nav a[href='#/']").await;
    browser.click("#failures tbody a[href^='#/jobs?code=']").await;
    rows(&browser, "jobs with this code", "all(cell('state')) === 'failed NO_CAPABLE_NODE'").await;

    // Filters, by hand: a choice is taken at once, a field with its button or the enter key.
    browser.click("[data-form=jobs] a[href='#/jobs']").await;
    rows(&browser, "all jobs", "rows.length === 50").await;
    browser
        .run("const field = document.querySelector('#by-state'); field.value = 'DONE'; field.dispatchEvent(new Event('change', { bubbles: true }))")
        .await;
    rows(&browser, "good ones", "all((row) => row.dataset.jobState) === 'DONE'").await;
    browser.write("#by-node", "eu-1").await;
    browser.press(ENTER).await;
    rows(
        &browser,
        "those of a node",
        "all(cell('node')) === 'eu-1' && all(cell('direction')) === 'en → de'",
    )
    .await;
    assert_eq!(hash(&browser).await, "#/jobs?state=DONE&node=eu-1");
    let kept = "return [document.querySelector('#by-state').value, document.querySelector('#by-node').value]";
    assert_eq!(browser.run(kept).await, json!(["DONE", "eu-1"]));

    pages_are_turned(&browser).await;
    let id = the_page_of_a_job_leads_on(&browser, &busy).await;

    // A session: from the list to its page, with its jobs.
    browser.click("nav a[href='#/sessions']").await;
    browser.click("[data-session] th a").await;
    let session = busy.speaker.session_id();
    let page = format!(
        "return document.querySelector('[data-one-session=\"{session}\"] [data-do=disconnect]') !== null"
    );
    browser.until("the session", &page).await;
    browser.run("location.hash = '#/sessions/talk?tenant=default'").await;
    let over = format!(
        "{ROWS} return all((row) => row.dataset.row) === '{id}' && document.querySelector('main').innerText.includes('No session of this id is open.')"
    );
    browser.until("the jobs of a session that is over", &over).await;
    let complaints = browser.complaints().await;
    assert!(complaints.iter().all(|said| said.contains("404")), "{complaints:#?}");
    drop(browser);
    busy.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_cancelled_and_a_session_disconnected_after_a_question() {
    let mut settings = settings();
    settings.timing.exec_max_ms = 60_000;
    settings.timing.deadline_ms = 120_000;
    let app = TestApp::start(On::Memory, settings).await;
    let mute = Behaviour { never_answer: 1.0, ..Behaviour::default() };
    let node = options(&app, "mute", &["en", "zh"]).behaviour(mute);
    let _node = FakeNode::connect(node).await.unwrap();
    let open = job().deadline_ms(120_000).submit(&app);
    is(&open, JobState::Acked).await;
    let speaker = SpeakerOptions { url: app.ws("/ws/session"), ..SpeakerOptions::default() };
    let speaker = Speaker::connect(speaker).await.unwrap();

    let browser = Browser::open(1280, 900).await;
    browser.go(&app.http("/dashboard#/jobs?state=open")).await;
    browser.click(&format!("[data-row='{}'] a[href^='#/jobs/']", open.id)).await;
    browser.click("[data-do=cancelJob]").await;
    browser.until("it asks first", "return document.querySelector('#ask').open").await;
    browser.click("#ask-no").await;
    assert_eq!(open.view().state, JobState::Acked, "a no is a no");
    browser.click("[data-do=cancelJob]").await;
    browser.click("#ask-yes").await;
    let cancelled = "return document.querySelector('[data-job-state=CANCELLED]')?.innerText.includes('by an administrator') \
         && document.querySelector('[data-do=cancelJob]') === null && document.querySelector('#toast').innerText.includes('cancelled')";
    browser.until("it is cancelled, and there is no button any more", cancelled).await;
    is(&open, JobState::Cancelled).await;

    browser.click("nav a[href='#/sessions']").await;
    browser.click(&format!("[data-session='{}'] th a", speaker.session_id())).await;
    browser.click("[data-do=disconnect]").await;
    browser.click("#ask-yes").await;
    let gone = "return document.querySelector('main').innerText.includes('No session of this id is open.') \
         && document.querySelector('[data-do=disconnect]') === null";
    browser.until("it is disconnected", gone).await;
    assert_eq!(speaker.closed().await.unwrap().code, Some(1008));
    drop(browser);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn charts_have_a_day_and_a_node_its_history() {
    let (store, _servers) = app::open(On::Memory).await;
    let now_ms = lingua_store::Clock::system().now().as_millis();
    let quantiles = json!({"p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3.0, "count": 60});
    let point = json!({"at_ms": now_ms - 7_200_000, "ended_per_s": 42.5, "ended": {"ok": 2_550},
        "latency": {"dispatch": quantiles, "job": quantiles, "sentence": quantiles},
        "waiting": 0, "sessions": 2, "slots": 8, "used": 3});
    assert!(
        store.history.append(&Series::snapshots(), point.to_string().as_bytes()).await.unwrap()
    );
    let app = TestApp::over(store, "test-1", settings()).await;
    let _node = FakeNode::connect(options(&app, "gpu-1", &["en", "zh"])).await.unwrap();
    for _ in 0..3 {
        done(&job().submit(&app)).await;
    }
    let browser = Browser::open(1280, 1100).await;
    browser.go(&app.http("/dashboard")).await;
    browser.click("[data-do=range][data-minutes='1440']").await;
    let day = "const told = (chart, series) => document.querySelector(`[data-chart=${chart}] [data-series=${series}]`)?.innerText; \
         return told('rate', 'rate') === '42.5' && told('endings', 'ok') === '2,550'";
    browser.until("what the store kept", day).await;
    browser.click("[data-do=range][data-minutes='5']").await;
    browser
        .until("the last minutes again", &format!("const day = () => {{ {day} }}; return !day()"))
        .await;

    browser.run("location.hash = '#/nodes/gpu-1'").await;
    let done = "return document.querySelector('[data-chart=done] [data-series=done]')?.innerText === '3' \
         && document.querySelector('[data-chart=slots] [data-series=slots]')?.innerText === '3'";
    browser.until("its three jobs and its three slots", done).await;
    browser.click("[data-do=nodeRange][data-minutes='1440']").await;
    browser.until("the same within a day", done).await;
    browser.is_calm().await;
    drop(browser);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_phone_the_pages_of_a_job_and_a_session_are_not_cut_off() {
    let app = TestApp::start(On::Memory, settings()).await;
    let failing =
        Behaviour { fail: 1.0, latency: Latency::Fixed { ms: 180 }, ..Behaviour::default() };
    let (first, second) =
        ("a-node-with-a-long-name-in-frankfurt-1", "another-node-with-a-long-name-in-oslo-22");
    let bad = options(&app, first, &["en", "zh"]).behaviour(failing);
    let _bad = FakeNode::connect(bad).await.unwrap();
    let slow = Behaviour { latency: Latency::Fixed { ms: 250 }, ..Behaviour::default() };
    let _good =
        FakeNode::connect(options(&app, second, &["en", "zh"]).behaviour(slow)).await.unwrap();
    let one = job().prefer(first).session("talk").submit(&app);
    done(&one).await;
    let browser = Browser::open(390, 844).await;
    for lang in ["en", "zh"] {
        browser.go(&app.http("/dashboard")).await;
        browser.click(&format!("[data-do=lang][data-value={lang}]")).await;
        for (view, shown) in [
            (format!("jobs/{}", one.id), "[data-attempt='2']"),
            ("jobs".to_owned(), "[data-row]"),
            ("sessions/talk".to_owned(), "[data-row]"),
            (format!("nodes/{second}"), "[data-chart=done] svg"),
        ] {
            browser.run(&format!("location.hash = '#/{view}'")).await;
            browser
                .until(&view, &format!("return document.querySelector({shown:?}) !== null"))
                .await;
            let wide = "return [...document.querySelectorAll('body *')].filter((e) => !e.closest('.wide, nav, .skip, svg *') \
                 && e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)) \
                 .concat(document.documentElement.scrollWidth === 390 ? [] : [document.documentElement.scrollWidth])";
            assert_eq!(browser.run(wide).await, json!([]), "{lang} {view}");
        }
    }
    drop(browser);
    app.finish().await;
}

/// A browser opens six connections to one host, and the stream of every page that it keeps for the way back was one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_were_left_hold_no_connection() {
    let app = TestApp::start(On::Memory, settings()).await;
    let browser = Browser::open(1000, 700).await;
    for _ in 0..8 {
        browser.go("about:blank").await;
        browser.go(&app.http("/dashboard")).await;
        browser
            .until("it is live", "return document.querySelector('#live')?.classList.contains('on')")
            .await;
    }
    browser.run("history.back()").await;
    browser.run("history.back()").await;
    browser
        .until(
            "live after the way back too",
            "return document.querySelector('#live')?.classList.contains('on')",
        )
        .await;
    drop(browser);
    app.finish().await;
}
