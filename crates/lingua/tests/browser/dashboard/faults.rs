//! Nothing and trouble, restarts, and several instances.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_and_trouble_have_a_face_too() {
    let mut app = TestApp::start(On::Redis, settings()).await;
    let browser = Browser::open(1280, 900).await;
    browser.go(&app.http("/dashboard")).await;
    browser.until("what to do first", "return document.querySelector('#headline h1').dataset.code === 'no_nodes' && document.querySelector('.first') !== null").await;
    assert!(browser.text(".first").await.contains("lingua node --count 3"));
    browser.picture("empty").await;
    for view in ["nodes", "sessions"] {
        browser.click(&format!("nav a[href='#/{view}']")).await;
        browser
            .until(
                "a word instead of nothing",
                "return document.querySelector('main .empty')?.innerText.length > 10",
            )
            .await;
    }
    let slow = Behaviour { latency: Latency::Fixed { ms: 4_000 }, ..Behaviour::default() };
    let node = FakeNode::connect(options(&app, "slow", &["en", "zh"]).max_jobs(1).behaviour(slow))
        .await
        .unwrap();
    let jobs: Vec<_> = (0..6).map(|_| job().submit(&app)).collect();
    browser.click("nav a[href='#/']").await;
    browser
        .until(
            "who waits is said",
            "return document.querySelector('[data-pair=\"en->zh\"]')?.dataset.supply === 'starved' \
         && document.querySelector('#headline h1').dataset.code === 'pair_starved'",
        )
        .await;
    browser.picture("starved").await;
    for job in jobs {
        job.until(|view| view.ended.is_some()).await;
    }
    browser.is_calm().await;
    app.redis.as_mut().unwrap().kill().unwrap();
    browser
        .until(
            "the store is gone",
            "return document.querySelector('#headline h1').dataset.code === 'store_down'",
        )
        .await;
    browser.picture("store-down").await;
    app.redis.as_mut().unwrap().restart().await.unwrap();
    browser
        .until(
            "it is back",
            "return document.querySelector('#headline h1').dataset.code !== 'store_down'",
        )
        .await;
    drop((browser, node));
    app.abandon();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_survives_a_restart_and_says_so() {
    let first = tokio::task::spawn_blocking(|| {
        Lingua::start(&["serve", "--listen", "127.0.0.1:0", "--instance-id", "one"])
    })
    .await
    .unwrap();
    let address = first.address().to_string();
    let browser = Browser::open(1100, 800).await;
    browser.go(&format!("http://{address}/dashboard")).await;
    browser.until("it is live", "return document.querySelector('#live').classList.contains('on') && document.querySelector('.tiles') !== null").await;
    browser.is_calm().await;
    drop(first);
    browser.until("it says that the line is lost", "return !document.querySelector('#banner').hidden && document.querySelector('#banner').innerText.includes('lost')").await;
    assert!(
        browser.run("return document.querySelector('.tiles') !== null").await == true,
        "the last figures stay"
    );
    browser.picture("lost").await;
    let listen = address.clone();
    let second = tokio::task::spawn_blocking(move || {
        Lingua::start(&["serve", "--listen", &listen, "--instance-id", "one"])
    })
    .await
    .unwrap();
    browser.until("it says that the scheduler restarted", "return document.querySelector('#toast').innerText.includes('restarted') && document.querySelector('#banner').hidden").await;
    browser
        .until(
            "it is live again",
            "return document.querySelector('#live').classList.contains('on')",
        )
        .await;
    let complaints = browser.complaints().await;
    assert!(complaints.iter().all(|said| said.contains("net::ERR_")), "{complaints:#?}");
    drop((browser, second));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_instance_shows_all_of_them() {
    let app = TestApp::start(On::FarMemory, settings()).await;
    let _node = FakeNode::connect(options(&app, "there", &["en", "zh"])).await.unwrap();
    app.meets("there").await;
    let browser = Browser::open(1280, 800).await;
    browser.go(&app.http("/dashboard#/instances")).await;
    let both = "const rows = [...document.querySelectorAll('[data-instance]')].map((row) => row.dataset.instance).join(); \
                return rows === 'far-1,test-1' && document.querySelectorAll('[data-instance] .chip').length === 3";
    browser.until("two instances, and every task is done by one", both).await;
    // Who speaks at either is seen at both.
    let url = app.of_nodes().ws("/ws/session");
    let elsewhere = SpeakerOptions { url, ..SpeakerOptions::default() };
    let elsewhere = Speaker::connect(elsewhere).await.unwrap();
    browser.click("nav a[href='#/sessions']").await;
    let row = format!(
        "return document.querySelector('[data-session=\"{}\"]')?.cells[3].innerText === 'far-1' \
         && document.querySelector('main').innerText.includes('1 of 1 shown')",
        elsewhere.session_id()
    );
    browser.until("a session of the other instance", &row).await;
    elsewhere.close(1000, "").await.unwrap();
    browser.click("nav a[href='#/nodes']").await;
    let there =
        "return document.querySelector('[data-node=there]')?.innerText.includes('on far-1')";
    browser.until("the node is elsewhere", there).await;
    browser.click("[data-node=there] [data-do=drain]").await;
    browser.until("it asks", "return document.querySelector('#ask').open").await;
    browser.click("#ask-yes").await;
    let drained =
        "return document.querySelector('[data-node=there]')?.innerText.includes('draining')";
    browser.until("the node drains, wherever it is", drained).await;
    browser.is_calm().await;
    drop(browser);
    app.finish().await;
}
