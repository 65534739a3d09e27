//! The charts of the dashboard: values by pointer and by keyboard.

use crate::browser::Browser;
use crate::dashboard::Busy;

const TOLD: &str = "return [...document.querySelectorAll('.charts .when')].map((e) => e.innerText)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_values_of_a_moment_are_read_by_pointer_and_by_keyboard_in_all_charts() {
    let busy = Busy::start().await;
    let browser = Browser::open(1280, 1300).await;
    browser.go(&busy.app.http("/dashboard")).await;
    // Steps go back by one moment each, and stop at the first.
    let drawn = "const line = document.querySelector('[data-chart=rate] .line'); \
                 return document.querySelectorAll('svg.chart').length === 3 && line?.getAttribute('d').split('L').length > 6";
    browser.until("three charts of some moments", drawn).await;
    assert_eq!(browser.run(TOLD).await, serde_json::json!([]), "the newest values, and no time");

    // The one before the last.
    browser.run("document.querySelector('[data-chart=latency] .chart').focus()").await;
    browser.press(LEFT).await;
    browser.press(LEFT).await;
    let three = "const told = [...document.querySelectorAll('.charts .when')].map((e) => e.innerText); \
                 return told.length === 3 && new Set(told).size === 1 && told[0]";
    let first = browser.until("one moment in all of them", three).await;
    let label =
        "return document.querySelector('[data-chart=rate] .chart').getAttribute('aria-label')";
    let said = browser.run(label).await;
    assert!(said.as_str().unwrap().contains(first.as_str().unwrap()), "also for who hears: {said}");
    // Some of them may be within one second.
    for _ in 0..4 {
        browser.press(LEFT).await;
    }
    let other = format!("{three} !== {first} && told[0]");
    browser.until("a moment before", &other).await;
    browser.picture("chart-read").await;
    browser.press(ESCAPE).await;
    browser
        .until("the newest again", "return document.querySelector('.charts .when') === null")
        .await;

    let point = "const chart = document.querySelector('[data-chart=endings] .chart'); document.activeElement.blur(); \
                 const box = chart.getBoundingClientRect(); \
                 chart.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: box.right - 12, clientY: box.top + 40 })); return true";
    browser.run(point).await;
    browser.until("the moment under the pointer", three).await;
    browser.is_calm().await;
    drop(browser);
    busy.end().await;
}

/// As WebDriver names the keys.
const LEFT: char = '\u{e012}';
const ESCAPE: char = '\u{e00c}';
