//! A real Chromium, driven by the words of WebDriver over plain HTTP: a page needs no more than a
//! handful of them, so no crate is needed for it.
#![allow(dead_code, clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use lingua_lab::HttpClient;
use serde_json::{Value, json};

/// How long a test waits for the page to be as it is to be. It is spent only by a test that fails, and a machine with other
/// work may take long for a page.
const PATIENCE: Duration = Duration::from_secs(90);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts of a browser. Chromium gives up on itself on a machine that is busy enough.
const STARTS: u32 = 4;

/// What a driver says of an element that the page drew anew, moved or covered between being found and being used.
const MOVED: [&str; 4] = [
    "stale element reference",
    "element click intercepted",
    "element not interactable",
    "no such element",
];

/// Two browsers at once are too many for a small machine.
static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A window of its own, with nothing remembered.
pub struct Browser {
    started: Started,
    phone: bool,
    _turn: tokio::sync::MutexGuard<'static, ()>,
}

/// A driver and its browser; both end with this.
struct Started {
    driver: Child,
    address: SocketAddr,
    client: HttpClient,
    /// Empty as long as there is no browser.
    session: String,
}

impl Browser {
    /// A window of this size; a narrow one is a phone's.
    pub async fn open(width: u32, height: u32) -> Self {
        Self::open_with(width, height, &[]).await
    }

    /// The same with these switches of Chromium.
    pub async fn open_with(width: u32, height: u32, more: &[String]) -> Self {
        let turn = ONE.lock().await;
        let mut args = vec![
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--hide-scrollbars".to_owned(),
            // What it would do on its own: look for hosts of its maker, many times, while a test waits for it.
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--lang=en".to_owned(),
            format!("--window-size={width},{height}"),
        ];
        args.extend_from_slice(more);
        let mut chrome = json!({ "args": args });
        if width < 600 {
            let metrics = json!({ "width": width, "height": height, "pixelRatio": 2 });
            chrome["mobileEmulation"] = json!({ "deviceMetrics": metrics });
        }
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": chrome,
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let mut failures = Vec::new();
        for _ in 0..STARTS {
            match start(&wanted).await {
                Ok(started) => return Browser { started, phone: width < 600, _turn: turn },
                Err(why) => failures.push(why),
            }
        }
        panic!("the browser does not start: {failures:#?}");
    }

    async fn tell(&self, what: &str, body: Value) -> Value {
        self.try_to(what, body).await.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// The value, or what the driver says against it.
    async fn try_to(&self, what: &str, body: Value) -> Result<Value, String> {
        let path = format!("/session/{}/{what}", self.started.session);
        let reply = self.started.client.post(&path, &body).await.unwrap();
        let value = value_of(&reply.body);
        match value["error"].as_str() {
            Some(error) if reply.status >= 400 => {
                Err(format!("{error}: {}", value["message"].as_str().unwrap_or_default()))
            }
            _ => Ok(value),
        }
    }

    pub async fn go(&self, url: &str) {
        self.tell("url", json!({ "url": url })).await;
    }

    pub async fn reload(&self) {
        self.tell("refresh", json!({})).await;
    }

    /// What a function with this body returns in the page.
    pub async fn run(&self, body: &str) -> Value {
        self.tell("execute/sync", json!({ "script": body, "args": [] })).await
    }

    /// Waits until the page says so. A script that fails is a page that is not there yet, or just going away.
    pub async fn until(&self, what: &str, body: &str) -> Value {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let found = self.try_to("execute/sync", json!({ "script": body, "args": [] })).await;
            match &found {
                Ok(Value::Null | Value::Bool(false)) => {}
                Ok(found) => return found.clone(),
                Err(error) if error.starts_with("javascript error") => {}
                Err(error) if error.contains("navigation") => {}
                Err(error) => panic!("{what}: {error}"),
            }
            if tokio::time::Instant::now() > end {
                self.picture("failed").await;
                let shown = self.run("return document.body.innerText").await;
                panic!("never: {what}, {found:?}\n{}", shown.as_str().unwrap_or_default());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The text of the first such element; empty if there is none.
    pub async fn text(&self, selector: &str) -> String {
        let body = format!("return document.querySelector({selector:?})?.innerText ?? ''");
        self.run(&body).await.as_str().unwrap_or_default().to_owned()
    }

    async fn element(&self, selector: &str) -> String {
        let present = format!("return !!document.querySelector({selector:?})");
        self.until(selector, &present).await;
        let using = json!({ "using": "css selector", "value": selector });
        loop {
            // The page may take it away in between, and put another in its place.
            match self.try_to("element", using.clone()).await {
                Ok(found) => {
                    return found
                        .as_object()
                        .unwrap()
                        .values()
                        .next()
                        .unwrap()
                        .as_str()
                        .unwrap()
                        .to_owned();
                }
                Err(error) if is_moved(&error) => {
                    self.until(selector, &present).await;
                }
                Err(error) => panic!("{selector}: {error}"),
            }
        }
    }

    /// Does this with an element, and again if the page draws it anew meanwhile.
    async fn use_element(&self, selector: &str, what: &str, body: Value) {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let element = self.element(selector).await;
            match self.try_to(&format!("element/{element}/{what}"), body.clone()).await {
                Ok(_) => return,
                Err(error) if is_moved(&error) && tokio::time::Instant::now() < end => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => panic!("{what} {selector}: {error}"),
            }
        }
    }

    /// A click as a person's: it must be seen and in nobody's way.
    pub async fn click(&self, selector: &str) {
        self.use_element(selector, "click", json!({})).await;
    }

    /// Holds a button down for so long: on a phone with a finger, else with a mouse.
    pub async fn hold(&self, selector: &str, ms: u64) {
        let element = self.element(selector).await;
        let origin = json!({ "element-6066-11e4-a52e-4f735466cecf": element });
        let actions = json!([
            { "type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin },
            { "type": "pointerDown", "button": 0 },
            { "type": "pause", "duration": ms },
            { "type": "pointerUp", "button": 0 },
        ]);
        let touch = json!({ "pointerType": if self.phone { "touch" } else { "mouse" } });
        let finger =
            json!({ "type": "pointer", "id": "finger", "parameters": touch, "actions": actions });
        self.tell("actions", json!({ "actions": [finger] })).await;
    }

    /// Holds a key down for so long, for whatever has the focus.
    pub async fn hold_key(&self, key: char, ms: u64) {
        let keys = json!([
            { "type": "keyDown", "value": key },
            { "type": "pause", "duration": ms },
            { "type": "keyUp", "value": key },
        ]);
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": keys }] });
        self.tell("actions", actions).await;
    }

    /// Writes into a field.
    pub async fn write(&self, selector: &str, text: &str) {
        self.use_element(selector, "clear", json!({})).await;
        self.use_element(selector, "value", json!({ "text": text })).await;
    }

    /// Presses a key for whatever has the focus.
    pub async fn press(&self, key: char) {
        let keys = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": keys }] });
        self.tell("actions", actions).await;
    }

    /// What the page complained about.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.tell("se/log", json!({ "type": "browser" })).await;
        let entries = log.as_array().unwrap().iter();
        entries.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Fails if the page complained about anything.
    pub async fn is_calm(&self) {
        let complaints = self.complaints().await;
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    /// A picture for people, if `LINGUA_PICTURES` names a folder for it.
    pub async fn picture(&self, name: &str) {
        let Some(folder) = pictures() else { return };
        // A moment for what moves.
        tokio::time::sleep(Duration::from_millis(400)).await;
        let path = format!("/session/{}/screenshot", self.started.session);
        let picture = self.started.client.get(&path).await.unwrap().ok().unwrap();
        let text = picture["value"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        std::fs::write(format!("{folder}/{name}.png"), bytes).unwrap();
    }
}

impl Drop for Started {
    /// The browser first: a driver that is killed leaves it behind.
    fn drop(&mut self) {
        if self.session.is_empty() {
            // The driver ends a browser that did not start.
        } else if let Ok(mut socket) = TcpStream::connect(self.address) {
            // The answer comes once the browser has ended, with the connections that it had.
            let _ = socket.set_read_timeout(Some(PATIENCE));
            let _ = write!(
                socket,
                "DELETE /session/{} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
                self.session, self.address
            );
            let _ = socket.read(&mut [0; 256]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// What the page and the API say must be the same; both move, so they are asked together.
pub async fn same(browser: &Browser, what: &str, body: &str) -> Value {
    let body = format!(
        "const stats = JSON.parse((() => {{ const r = new XMLHttpRequest(); r.open('GET', '/api/v1/stats', false); \
         r.send(); return r.responseText; }})()); const snapshot = stats.snapshot; if (!snapshot) return null; {body}"
    );
    browser.until(what, &body).await
}

/// Fails unless headline, matrix, figures and charts of the overview hold what the API gives.
pub async fn agrees(browser: &Browser) {
    // The headline is the gravest finding, or that all is well.
    same(browser, "the headline is the worst finding", "const first = stats.findings.find((f) => f.severity !== 'ok'); \
         return document.querySelector('#headline h1').dataset.code === (first ? first.code : 'well')").await;

    // Every pair that the API has is a cell with its figures, and there is no other.
    same(browser, "the matrix is the API's", "const cells = [...document.querySelectorAll('[data-pair]')]; \
         return snapshot.pairs.length > 3 && cells.length === snapshot.pairs.length && snapshot.pairs.every((pair) => { \
           const cell = cells.find((one) => one.dataset.pair === `${pair.src}->${pair.tgt}`); \
           return cell && cell.dataset.supply === pair.supply && Number(cell.dataset.waiting) === pair.waiting \
             && cell.innerText.includes(`${pair.free}/${pair.slots}`); })").await;

    // The figures and the newest values of the charts.
    same(browser, "the figures are the API's", "const of = (key) => document.querySelector(`[data-figure=${key}] .value`).innerText; \
         return of('sessions') === String(snapshot.work.sessions) && of('waiting') === String(snapshot.work.waiting) \
           && of('slots') === String(snapshot.nodes.used) && Math.abs(parseFloat(of('rate')) - snapshot.work.ended_per_s) < 0.06").await;
    same(browser, "the charts are the API's", "const of = (chart, key) => document.querySelector(`[data-chart=${chart}] [data-series=${key}]`)?.innerText; \
         return snapshot.latency.job.count > 0 && Math.abs(parseFloat(of('rate', 'rate')) - snapshot.work.ended_per_s) < 0.06 \
           && Math.abs(parseFloat(of('latency', 'p50_ms')) - snapshot.latency.job.p50_ms) < 1 \
           && document.querySelectorAll('[data-chart=endings] rect.bar').length > 1").await;
}

/// Where pictures for people go, if anybody wants them.
pub fn pictures() -> Option<String> {
    std::env::var("LINGUA_PICTURES").ok()
}

/// A driver with a browser, or why there is none.
async fn start(wanted: &Value) -> Result<Started, String> {
    let (driver, address) = tokio::task::spawn_blocking(start_driver).await.unwrap();
    let client = HttpClient::new(format!("http://{address}")).limit(Duration::from_secs(120));
    let mut started = Started { driver, address, client, session: String::new() };
    let reply = started.client.post("/session", wanted).await.map_err(|error| error.to_string())?;
    let made = value_of(&reply.body);
    let session = made["sessionId"].as_str().ok_or_else(|| made["message"].to_string())?;
    started.session = session.to_owned();
    Ok(started)
}

fn value_of(body: &[u8]) -> Value {
    serde_json::from_slice::<Value>(body).unwrap()["value"].take()
}

fn is_moved(error: &str) -> bool {
    MOVED.iter().any(|moved| error.starts_with(moved))
}

/// It takes a port by itself, and now and then one that somebody else has for another address.
fn start_driver() -> (Child, SocketAddr) {
    for _ in 0..10 {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("scripts/test installs chromium and chromium-driver");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse::<u16>().ok()
        });
        let Some(port) = port else {
            let _ = driver.kill();
            let _ = driver.wait();
            continue;
        };
        // It goes on talking; somebody must listen.
        std::thread::spawn(move || for _ in lines {});
        return (driver, SocketAddr::from(([127, 0, 0, 1], port)));
    }
    panic!("chromedriver does not start");
}
