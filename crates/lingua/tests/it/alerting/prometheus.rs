//! A Prometheus server of our own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lingua_lab::HttpClient;
use lingua_lab::ports::free_port;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How often everything is read and every rule looked at.
const EVERY: &str = "500ms";

/// How long it may take to start on a machine full of compilers.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Alerts by the scrape job that they are about.
pub type Alerts = BTreeMap<String, BTreeSet<String>>;

/// A private server that ends with its test.
pub struct Prometheus {
    child: Child,
    client: HttpClient,
    dir: TempDir,
}

impl Prometheus {
    /// Watches these targets by job, with these rules.
    pub async fn start(rules: &str, jobs: &BTreeMap<String, Vec<SocketAddr>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let scrapes = jobs.iter().map(|(job, targets)| {
            let targets: Vec<String> = targets.iter().map(SocketAddr::to_string).collect();
            json!({ "job_name": job, "static_configs": [{ "targets": targets }] })
        });
        // JSON is YAML too.
        let config = json!({
            "global": {
                "scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY,
            },
            "rule_files": ["rules.yml"],
            "scrape_configs": scrapes.collect::<Vec<Value>>(),
        });
        fs::write(dir.path().join("rules.yml"), rules).unwrap();
        Self::start_in(dir, &config.to_string()).await
    }

    /// With this configuration, and with the files of the directory beside it.
    pub async fn start_in(dir: TempDir, config: &str) -> Self {
        fs::write(dir.path().join("prometheus.yml"), config).unwrap();
        let address = format!("127.0.0.1:{}", free_port().unwrap());
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("prometheus")
            .current_dir(dir.path())
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus runs (Debian package prometheus)");
        let client = HttpClient::new(format!("http://{address}"));
        let mut server = Prometheus { child, client, dir };
        let ready = async {
            while !server.client.get("/-/ready").await.is_ok_and(|reply| reply.is_success()) {
                assert!(server.child.try_wait().unwrap().is_none(), "{}", server.log());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let ready = tokio::time::timeout(START_LIMIT, ready).await;
        assert!(ready.is_ok(), "{}", server.log());
        server
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    async fn result(&self, path: &str) -> Value {
        let answer = self.client.get(path).await.unwrap().ok();
        answer.unwrap_or_else(|error| panic!("{error}: {}", self.log()))["data"].take()
    }

    /// The answer to a query, as samples with labels.
    async fn query(&self, query: &str) -> Vec<Value> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut data = self.result(&format!("/api/v1/query?query={escaped}")).await;
        data["result"].as_array_mut().unwrap().drain(..).collect()
    }

    /// The targets: whether each is up, and why not.
    pub async fn targets(&self) -> Vec<(String, String)> {
        let data = self.result("/api/v1/targets?state=active").await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let targets = data["activeTargets"].as_array().unwrap().iter();
        targets.map(|target| (text(&target["health"]), text(&target["lastError"]))).collect()
    }

    /// Targets that answered so often.
    pub async fn seen_well(&self, times: u32) -> usize {
        self.query(&format!("sum_over_time(up[5m]) >= {times}")).await.len()
    }

    /// What fires now.
    pub async fn firing(&self) -> Alerts {
        let mut data = self.result("/api/v1/alerts").await;
        let alerts: Vec<Value> = data["alerts"].as_array_mut().unwrap().drain(..).collect();
        by_job(
            alerts.iter().filter(|alert| alert["state"] == "firing").map(|alert| &alert["labels"]),
        )
    }

    /// What has fired since it started, also if nobody looked at that moment.
    pub async fn fired(&self) -> Alerts {
        let query = "max_over_time(ALERTS{alertstate=\"firing\"}[1h])";
        by_job(self.query(query).await.iter().map(|sample| &sample["metric"]))
    }
}

fn by_job<'a>(labels: impl Iterator<Item = &'a Value>) -> Alerts {
    let mut alerts = Alerts::new();
    for labels in labels {
        let [job, name] =
            ["job", "alertname"].map(|label| labels[label].as_str().unwrap().to_owned());
        alerts.entry(job).or_default().insert(name);
    }
    alerts
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
