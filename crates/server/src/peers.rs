//! What people said and nodes answered, from one instance to another, directly: asked for by names that
//! the two know and signed with the key that only instances have, several in one request when there are
//! several to ask for. [`mod@ask`]: what people want to see of other instances.

pub(crate) mod ask;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lingua_engine::Engine;
use lingua_engine::peers::Asker;
use lingua_engine::peers::bodies::Fetch;
use lingua_store::Instance;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::tls::{Connector, Trust, whole};

/// For one request, from the connection to its last byte.
const LIMIT: Duration = Duration::from_secs(2);

/// No body is larger: a node's message has at most so much.
const MAX_BODY: usize = 16 << 20;

/// Bodies of one request.
const BATCH: usize = 32;

/// Requests to one instance at the same time: while they are under way, others gather.
const AT_ONCE: usize = 2;

/// Bodies of one instance that are wanted and not asked for yet.
const LINE: usize = 4_096;

/// Stands for the length of a body that is not there.
const MISSING: u32 = u32::MAX;

/// Carries the mark of the instance that asks.
const MARK: HeaderName = HeaderName::from_static("x-lingua-instance");

/// Fetches bodies from other instances.
pub(crate) struct Peers {
    client: Client<Connector, Full<Bytes>>,
    asker: Asker,
    lines: Mutex<HashMap<Place, mpsc::Sender<Wanted>>>,
}

/// An instance and where it is.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    instance: Instance,
    address: String,
}

struct Wanted {
    name: String,
    answer: oneshot::Sender<Result<Bytes, String>>,
}

impl Peers {
    pub(crate) fn new(trust: Trust, asker: Asker) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(AT_ONCE)
            .build(Connector::new(trust, LIMIT));
        Peers { client, asker, lines: Mutex::default() }
    }

    /// Where wishes for bodies of this instance gather.
    fn line(&self, place: Place) -> mpsc::Sender<Wanted> {
        let mut lines = self.lines.lock();
        if let Some(line) = lines.get(&place).filter(|line| !line.is_closed()) {
            return line.clone();
        }
        // Instances come and go; of those that went nothing is kept.
        lines.retain(|_, line| !line.is_closed());
        let (sender, wanted) = mpsc::channel(LINE);
        lines.insert(place.clone(), sender.clone());
        let asking = Asking { client: self.client.clone(), asker: self.asker.clone(), place };
        tokio::spawn(gather(Arc::new(asking), wanted));
        sender
    }
}

impl Fetch for Peers {
    fn fetch(
        &self,
        from: Instance,
        address: String,
        name: String,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>> {
        let line = self.line(Place { instance: from, address });
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            line.try_send(Wanted { name, answer }).map_err(|_| "too much is asked for at once")?;
            answered.await.unwrap_or_else(|_| Err("nobody asked for it".to_owned()))
        })
    }
}

/// An instance of which nothing was wanted for so long may be gone.
const IDLE: Duration = Duration::from_secs(60);

/// What it takes to ask one instance.
struct Asking {
    client: Client<Connector, Full<Bytes>>,
    asker: Asker,
    place: Place,
}

async fn gather(asking: Arc<Asking>, mut wanted: mpsc::Receiver<Wanted>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let mut batch = Vec::new();
        match timeout(IDLE, wanted.recv_many(&mut batch, BATCH)).await {
            Ok(0) => return,
            Ok(_) => {}
            Err(_) => {
                // What came in this very moment is still asked for.
                wanted.close();
                continue;
            }
        }
        let asking = Arc::clone(&asking);
        tokio::spawn(async move {
            let asked = timeout(LIMIT, asking.ask(&batch)).await;
            let answers = asked.unwrap_or_else(|_| Err("it took too long".to_owned()));
            drop(place);
            match answers {
                Ok(bodies) => {
                    for (wanted, body) in batch.into_iter().zip(bodies) {
                        let _ = wanted.answer.send(body.ok_or_else(|| "it is gone".to_owned()));
                    }
                }
                Err(why) => {
                    for wanted in batch {
                        let _ = wanted.answer.send(Err(why.clone()));
                    }
                }
            }
        });
    }
}

impl Asking {
    /// Asks for several bodies; `None` for one that is not there.
    async fn ask(&self, batch: &[Wanted]) -> Result<Vec<Option<Bytes>>, String> {
        let Place { instance, address } = &self.place;
        let names: Vec<&str> = batch.iter().map(|wanted| wanted.name.as_str()).collect();
        let path = format!("/internal/v1/bodies/{}", names.join(","));
        let uri: Uri = format!("{address}{path}")
            .parse()
            .map_err(|error| format!("{address} is no address: {error}"))?;
        let mut request = Request::new(Full::default());
        *request.uri_mut() = uri;
        let mark = HeaderValue::try_from(self.asker.mark(instance, &path));
        request.headers_mut().insert(MARK, mark.expect("hexadecimal"));
        let answer = self.client.request(request).await.map_err(|error| whole(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(format!("it answered {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), BATCH * MAX_BODY).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        split(body, batch.len()).ok_or_else(|| "its answer cannot be read".to_owned())
    }
}

/// Takes an answer apart: each body behind its length.
fn split(mut answer: Bytes, count: usize) -> Option<Vec<Option<Bytes>>> {
    let mut bodies = Vec::with_capacity(count);
    for _ in 0..count {
        let length = answer.try_get_u32_le().ok()?;
        if length == MISSING {
            bodies.push(None);
            continue;
        }
        let length = length as usize;
        if length > answer.len() {
            return None;
        }
        bodies.push(Some(answer.split_to(length)));
    }
    answer.is_empty().then_some(bodies)
}

/// Whether another instance asks this one for bodies.
pub(crate) fn asks_for_bodies(engine: &Engine, headers: &HeaderMap, uri: &Uri) -> bool {
    let mark = headers.get(MARK).map(|mark| mark.to_str().unwrap_or_default());
    engine.is_for_peers(uri.path(), mark)
}

/// The bodies of these names, one after the other.
pub(crate) fn bodies(engine: &Engine, names: &str) -> Response {
    let names: Vec<&str> = names.split(',').take(BATCH + 1).collect();
    if names.len() > BATCH {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let found: Vec<Option<Bytes>> = names.into_iter().map(|name| engine.body(name)).collect();
    join(&found).into_response()
}

fn join(bodies: &[Option<Bytes>]) -> Bytes {
    let size: usize = bodies.iter().map(|body| 4 + body.as_ref().map_or(0, Bytes::len)).sum();
    let mut answer = BytesMut::with_capacity(size);
    for body in bodies {
        match body {
            Some(body) => {
                answer.put_u32_le(u32::try_from(body.len()).unwrap_or(MISSING));
                answer.put_slice(body);
            }
            None => answer.put_u32_le(MISSING),
        }
    }
    answer.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_apart_as_they_were_put_together() {
        let bodies = vec![Some(Bytes::from_static(b"one")), None, Some(Bytes::new())];
        let answer = join(&bodies);
        assert_eq!(split(answer.clone(), 3), Some(bodies));
        for broken in [answer.slice(..answer.len() - 1), answer.slice(1..), Bytes::new()] {
            assert_eq!(split(broken, 3), None);
        }
        assert_eq!(split(answer, 2), None, "something is left over");
    }
}
