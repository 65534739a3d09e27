//! deploy/prometheus/prometheus-tls.yml: Prometheus reads a scheduler over TLS, with a token from a file.

use crate::alerting::prometheus::Prometheus;
use crate::tls_lab::House;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A directory with the example and what it names, but for the places and the targets of this machine.
fn example(house: &House, target: &str, token: &str) -> (tempfile::TempDir, String) {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus");
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::copy(deploy.join("alerts.yml"), at("alerts.yml")).unwrap();
    std::fs::write(at("lingua.token"), token).unwrap();
    std::fs::write(at("lingua-ca.pem"), house.instances.pem()).unwrap();
    let mut text = std::fs::read_to_string(deploy.join("prometheus-tls.yml")).unwrap();
    for (from, to) in [
        ("/etc/prometheus/lingua.token\n", format!("{}\n", at("lingua.token").display())),
        ("/etc/prometheus/lingua-ca.pem\n", format!("{}\n", at("lingua-ca.pem").display())),
        ("['10.0.0.11:5010', '10.0.0.12:5010', '10.0.0.13:5010']", format!("['{target}']")),
        ("scrape_interval: 15s", "scrape_interval: 500ms\n  scrape_timeout: 500ms".to_owned()),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, &to);
    }
    (directory, text)
}

/// Waits until the only target is up or down; why it is down.
async fn health(prometheus: &Prometheus, wanted: &str) -> String {
    for _ in 0..400 {
        let targets = prometheus.targets().await;
        if let [(health, why)] = &targets[..]
            && health == wanted
        {
            return why.clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never {wanted}: {:?}", prometheus.targets().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_scrapes_over_tls_with_a_token_for_metrics_from_a_file() {
    let house = House::new().asking_for_tokens();
    house.configure("", "");
    let lingua = house.start();
    let target = lingua.address().to_string();
    let token = house.token("metrics", "prometheus", &["--life", "720h"]);
    let (directory, config) = example(&house, &target, &token);
    std::fs::write(directory.path().join("prometheus.yml"), &config).unwrap();
    let checked = Command::new("promtool")
        .args(["check", "config", "prometheus.yml"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let file = directory.path().join("lingua.token");
    let prometheus = Prometheus::start_in(directory, &config).await;
    health(&prometheus, "up").await;
    // The file is read for every scrape: one of another role, none, and a new good one.
    let session = house.token("session", "app", &["--tenant", "acme"]);
    for (shown, why) in [(session.as_str(), "403"), ("nothing", "401")] {
        std::fs::write(&file, shown).unwrap();
        let said = health(&prometheus, "down").await;
        assert!(said.contains(why), "{said}");
        std::fs::write(&file, house.token("metrics", "prometheus", &[])).unwrap();
        health(&prometheus, "up").await;
    }
}
