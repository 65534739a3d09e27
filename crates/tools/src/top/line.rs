//! The way to the scheduler: its events without end, and what is asked for beside them.

use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use axum::http::{HeaderMap, Request, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::news::{Events, History, News};
use super::state::{State, View};
use super::words::tame;
use crate::cli::Failure;
use lingua_server::client::{Connector, Trust};

/// For one answer, and for the first word of the events.
const LIMIT: Duration = Duration::from_secs(5);

/// A scheduler says something at least every 15 s; a line that is dead without a word is given up.
const SILENCE: Duration = Duration::from_secs(25);

/// The first pause before it is tried again, by how much each is longer, and the longest.
const PAUSE: (Duration, f64, Duration) = (Duration::from_millis(500), 1.5, Duration::from_secs(10));

/// The largest answer that is taken.
const MAX_ANSWER: usize = 16 << 20;

/// Nodes and sessions that are asked for.
const LISTED: u32 = 200;

type Body = hyper_util::client::legacy::ResponseFuture;

/// The way to one scheduler.
#[derive(Clone)]
pub(crate) struct Line {
    client: Client<Connector, Empty<Bytes>>,
    base: String,
    headers: HeaderMap,
}

impl Line {
    /// To the scheduler of this URL, with this token if there is one.
    pub(crate) fn to(url: &str, token: Option<&str>, trust: Trust) -> Result<Self, Failure> {
        let base = url.trim_end_matches('/').to_owned();
        let host = base.strip_prefix("http://").or_else(|| base.strip_prefix("https://"));
        if host.is_none_or(str::is_empty) || base.parse::<Uri>().is_err() {
            return Err(Failure::usage(format!("{url:?} is not an http:// or https:// URL")));
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            let mut shown = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Failure::usage("LINGUA_TOKEN is not a token"))?;
            shown.set_sensitive(true);
            headers.insert(AUTHORIZATION, shown);
        }
        let client = Client::builder(TokioExecutor::new()).build(Connector::new(trust, LIMIT));
        Ok(Line { client, base, headers })
    }

    pub(crate) fn url(&self) -> &str {
        &self.base
    }

    fn ask(&self, path: &str) -> Result<Body, String> {
        let mut request = Request::new(Empty::new());
        let uri = format!("{}{path}", self.base);
        *request.uri_mut() = uri.parse().map_err(|error| format!("{uri}: {error}"))?;
        request.headers_mut().clone_from(&self.headers);
        Ok(self.client.request(request))
    }

    /// What it answers, as it is.
    pub(crate) async fn text(&self, path: &str) -> Result<String, String> {
        let away = |why: String| format!("the scheduler at {} does not answer: {why}", self.base);
        let asked = async {
            let answer = self.ask(path)?.await.map_err(|error| away(why(&error)))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| away(error.to_string()))?.to_bytes();
            let body = String::from_utf8_lossy(&body).into_owned();
            if !status.is_success() {
                let said = tame(&body);
                return Err(format!("the scheduler at {} answers {status}: {said}", self.base));
            }
            Ok(body)
        };
        timeout(LIMIT, asked).await.unwrap_or_else(|_| Err(away(format!("not within {LIMIT:?}"))))
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let text = self.text(path).await?;
        serde_json::from_str(&text)
            .map_err(|error| format!("the answer to {path} cannot be read: {error}"))
    }

    async fn nodes(&self) -> News {
        News::Nodes(self.read(&format!("/api/v1/nodes?limit={LISTED}")).await)
    }

    async fn sessions(&self) -> News {
        News::Sessions(self.read(&format!("/api/v1/sessions?limit={LISTED}")).await)
    }

    async fn history(&self) -> Option<News> {
        let history: History = self.read("/api/v1/history").await.ok()?;
        Some(News::History(history.points))
    }

    /// Everything, once.
    pub(crate) async fn once(&self) -> Result<State, String> {
        let mut state = State::new(&self.base);
        let now = super::screen::now_ms();
        let stats = self.read("/api/v1/stats").await?;
        state.hear(now, News::Stats(Box::new(stats)));
        let beside = [self.history().await, Some(self.nodes().await), Some(self.sessions().await)];
        beside.into_iter().flatten().for_each(|news| state.hear(now, news));
        Ok(state)
    }

    /// Brings news for as long as somebody takes them; `looked_at` is what is shown, and only that
    /// is asked for beside the events.
    pub(crate) async fn follow(
        self,
        news: mpsc::Sender<News>,
        mut looked_at: watch::Receiver<View>,
    ) {
        let (first, growth, longest) = PAUSE;
        let mut pause = first;
        loop {
            let (heard, why) = self.listen(&news, &mut looked_at).await;
            if heard {
                pause = first;
            }
            // Not everybody who was cut off comes back in the same moment.
            let wait = pause.mul_f64(0.7 + 0.6 * rand::random::<f64>());
            let again_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            if news.send(News::Away { why, again_ms }).await.is_err() {
                return;
            }
            tokio::time::sleep(wait).await;
            pause = pause.mul_f64(growth).min(longest);
        }
    }

    /// Listens until the line is lost: whether anything was heard, and why it was lost.
    async fn listen(
        &self,
        news: &mpsc::Sender<News>,
        looked_at: &mut watch::Receiver<View>,
    ) -> (bool, String) {
        let mut heard = false;
        let why = self.hear(news, looked_at, &mut heard).await;
        (heard, why.err().unwrap_or_else(|| "it closed the connection".to_owned()))
    }

    async fn hear(
        &self,
        news: &mpsc::Sender<News>,
        looked_at: &mut watch::Receiver<View>,
        heard: &mut bool,
    ) -> Result<(), String> {
        let answer = timeout(LIMIT, self.ask("/api/v1/events")?).await;
        let answer = answer.map_err(|_| format!("no answer within {LIMIT:?}"))?;
        let answer = answer.map_err(|error| why(&error))?;
        if !answer.status().is_success() {
            return Err(format!("it answers {}", answer.status()));
        }
        let (mut body, mut events) = (answer.into_body(), Events::default());
        loop {
            tokio::select! {
                frame = timeout(SILENCE, body.frame()) => {
                    let frame = frame.map_err(|_| "no message for 25 s")?;
                    let Some(frame) = frame else { return Ok(()) };
                    let frame = frame.map_err(|error| why(&error))?;
                    let Some(bytes) = frame.data_ref() else { continue };
                    // Of several that came at once the last is the one that holds.
                    let Some(last) = events.feed(bytes)?.pop() else { continue };
                    let stats = serde_json::from_slice(&last)
                        .map_err(|error| format!("its message cannot be read: {error}"))?;
                    let first = !std::mem::replace(heard, true);
                    self.bring(news, News::Stats(Box::new(stats))).await?;
                    if first && let Some(history) = self.history().await {
                        self.bring(news, history).await?;
                    }
                }
                changed = looked_at.changed() => changed.map_err(|_| "nobody looks")?,
            }
            let view = *looked_at.borrow_and_update();
            match view {
                View::Nodes => self.bring(news, self.nodes().await).await?,
                View::Sessions => self.bring(news, self.sessions().await).await?,
                View::Overview | View::Pairs | View::Instances => {}
            }
        }
    }

    async fn bring(&self, news: &mpsc::Sender<News>, one: News) -> Result<(), String> {
        news.send(one).await.map_err(|_| "nobody looks".to_owned())
    }
}

/// The innermost reason: what is around it says only that something went wrong.
fn why(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_urls_are_taken_and_a_token_is_never_told() {
        let to = |url, token| Line::to(url, token, Trust::Nobody);
        assert!(to("http://127.0.0.1:5010/", None).is_ok());
        for url in ["127.0.0.1:5010", "ws://h", "http://", "https://", "", "http://a b"] {
            assert!(to(url, None).is_err(), "{url}");
        }
        let line = to("http://h", Some("se-cret")).map_err(|_| ()).unwrap();
        assert_eq!(line.headers[AUTHORIZATION], "Bearer se-cret");
        assert!(!format!("{:?}", line.headers).contains("se-cret"));
        let wrong = to("http://h", Some("se\ncret")).err().unwrap();
        assert!(!format!("{wrong:?}").contains("cret\""), "{wrong:?}");
    }
}
