//! The dashboard as a newcomer meets it: in a real Chromium, over a running `lingua demo`.

use crate::browser;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use browser::{Browser, agrees, same};

/// A demo that ends with its test.
struct Demo {
    child: Child,
    dashboard: String,
}

impl Demo {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lingua"))
            .args(["demo", "--listen", "127.0.0.1:0", "--seconds", "600"])
            .env_remove("LINGUA_LISTEN")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let dashboard = lines.find_map(|line| line.strip_prefix("Dashboard: ").map(str::to_owned));
        let dashboard = dashboard.expect("it says where the dashboard is").trim().to_owned();
        // It goes on talking; somebody must listen.
        std::thread::spawn(move || for _ in lines {});
        Demo { child, dashboard }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_part_of_the_page_shows_the_running_demo() {
    // First, for it may have to wait for its turn.
    let browser = Browser::open(1280, 1300).await;
    let demo = tokio::task::spawn_blocking(Demo::start).await.unwrap();
    browser.go(&demo.dashboard).await;
    browser
        .until("the charts are drawn", "return document.querySelectorAll('svg.chart').length === 3")
        .await;
    agrees(&browser).await;
    browser.picture("demo").await;

    // The list of nodes is the API's, each row with its own figures.
    browser.click("nav a[href='#/nodes']").await;
    same(&browser, "the nodes are the API's", "const r = new XMLHttpRequest(); r.open('GET', '/api/v1/nodes?limit=100', false); r.send(); \
         const { nodes, total } = JSON.parse(r.responseText); const rows = [...document.querySelectorAll('tr[data-node]')]; \
         return total === 12 && rows.length === total && nodes.every((node) => { \
           const row = rows.find((one) => one.dataset.node === node.node_id); \
           return row && row.dataset.state === node.state && row.querySelector('.load').innerText.includes(`/${node.slots.open}`); })").await;
    browser.click("tr[data-node] th a").await;
    browser
        .until(
            "a node's own view",
            "return document.querySelectorAll('section[data-node] dl.facts').length === 3",
        )
        .await;

    // People who speak come and go; each is told with the instance that has them.
    browser.click("nav a[href='#/sessions']").await;
    same(
        &browser,
        "the sessions",
        "const rows = [...document.querySelectorAll('[data-session]')]; \
         const shown = `${rows.length} of ${rows.length} shown`; \
         return rows.length > 5 && rows.every((row) => row.cells[3].innerText === stats.instance) \
           && document.querySelector('main').innerText.includes(shown)",
    )
    .await;

    browser.click("nav a[href='#/instances']").await;
    same(&browser, "the instance", "const row = document.querySelector('[data-instance]'); const one = snapshot.instances[0]; \
         return row.dataset.instance === one.id && row.cells[2].innerText === String(one.nodes) \
           && row.cells[3].innerText === String(one.sessions) && document.querySelectorAll('.chip').length === 3").await;

    // Which nodes could take a job, from a cell of the matrix.
    browser.click("nav a[href='#/']").await;
    browser.click("[data-pair=\"en->zh\"]").await;
    browser.until("who could take it", "const r = new XMLHttpRequest(); r.open('GET', '/api/v1/explain?src=en&tgt=zh&tts=true', false); r.send(); \
         const asked = JSON.parse(r.responseText).eligible; const shown = document.querySelector('[data-eligible]'); \
         if (shown && shown.dataset.eligible !== String(asked)) document.querySelector('[data-form=explain] button').click(); \
         return asked > 0 && shown?.dataset.eligible === String(asked)").await;
    browser.is_calm().await;
}
