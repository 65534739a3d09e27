//! How everything stands, for however many look: all of it is read from memory.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::{BufMut, Bytes, BytesMut};
use lingua_core::NodeId;
use lingua_core::outcome::Code;
use lingua_engine::chance::Chance;
use lingua_engine::job::Refusal;
use lingua_engine::metrics::CountGuard;
use lingua_engine::snapshot::view::{InstanceView, Point, Stats};
use lingua_engine::snapshot::{Board, Frame, MINUTE_MS, NodePoint, merged};
use lingua_engine::{Engine, tasks};
use serde::Serialize;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::Door;
use super::error::{Answer, Refused, refusals};
use super::everywhere::gather;
use super::guard;
use super::query::{Params, Segment, named};
use crate::identity::{Caller, Role, SocketAuth};
use crate::listener::Peer;
use crate::wire::http::wrong;

/// Readers of the stream at the same time.
const MAX_READERS: usize = 1_000;

/// When a reader that found no room may try again.
const RETRY_AFTER_MS: u64 = 5_000;

/// After so long without news a reader is told that the line is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// News go out to one reader after the other, not to all at once: jobs go through the same threads. So
/// long for each, and so long in all.
const SPREAD_MS: (u64, u64) = (20, 2_000);

/// A reader that takes nothing for so long loses its place.
const PATIENCE: Duration = Duration::from_secs(10);

refusals!(EventRefusals: QuotaExceeded);
refusals!(HistoryRefusals: InvalidMessage);

/// Get the current state of the whole system
///
/// The snapshot of all instances, made every five seconds, and findings. It does not read the store.
#[utoipa::path(
    get, path = "/api/v1/stats", operation_id = "get_stats", tag = "admin",
    responses((status = 200, body = Stats))
)]
pub(crate) async fn stats(State(engine): State<Engine>) -> Response {
    json(engine.board.frame().json)
}

/// Get the history of the whole system
///
/// The last half hour with a point for every snapshot that this instance has seen since it started; or the
/// last 24 hours with a point for every minute, which the store keeps.
#[utoipa::path(
    get, path = "/api/v1/history", operation_id = "get_history", tag = "admin",
    params(("by" = Option<String>, Query, description = "`snapshot` (the default) or `minute`")),
    responses((status = 200, body = History), HistoryRefusals)
)]
pub(crate) async fn history(State(engine): State<Engine>, params: Params) -> Answer<Json<History>> {
    let by: Option<String> = params.get("by")?;
    let snapshot_ms = engine.settings().snapshot_ms;
    Ok(Json(match by.as_deref() {
        None | Some("snapshot") => {
            History { points: engine.board.history(), interval_ms: snapshot_ms }
        }
        Some("minute") => History { points: engine.board.day(), interval_ms: MINUTE_MS },
        Some(_) => return Err(wrong("by", "is snapshot or minute").into()),
    }))
}

/// Get the history of a node by the minute
///
/// At most the last 24 hours, as far as running instances have it: each keeps it in memory, for fewer hours
/// the more nodes there are beyond 694.
#[utoipa::path(
    get, path = "/api/v1/nodes/{id}/history", operation_id = "get_node_history", tag = "admin",
    params(("id" = String, Path, description = "The node's id")),
    responses((status = 200, body = NodeHistoryBody), HistoryRefusals)
)]
pub(crate) async fn node_history(
    State(door): State<Door>,
    segment: Segment,
) -> Answer<Json<NodeHistoryBody>> {
    let id: NodeId = named("id", segment)?;
    let path = format!("/internal/v1/nodes/{id}/history");
    let gathered = gather(&door, None, || door.engine.board.node_history(&id), &path).await?;
    Ok(Json(NodeHistoryBody {
        node_id: id.to_string(),
        points: merged(gathered.parts.into_iter().flatten()),
        interval_ms: MINUTE_MS,
        silent: gathered.silent,
    }))
}

/// `/internal/v1/nodes/{id}/history`: what this instance saw of a node, for another one.
pub(crate) async fn node_history_of_this_one(
    State(engine): State<Engine>,
    segment: Segment,
) -> Answer {
    let id: NodeId = named("id", segment)?;
    Ok(Json(engine.board.node_history(&id)).into_response())
}

/// List the instances
///
/// The nodes, sessions and jobs of each, the background tasks that it leads, and when it was last seen.
#[utoipa::path(
    get, path = "/api/v1/cluster", operation_id = "get_cluster", tag = "admin",
    responses((status = 200, body = Cluster))
)]
pub(crate) async fn cluster(State(engine): State<Engine>) -> Json<Cluster> {
    let frame = engine.board.frame();
    let snapshot = frame.stats.snapshot.as_ref();
    Json(Cluster {
        instance: frame.stats.instance.clone(),
        at_ms: snapshot.map(|snapshot| snapshot.at_ms),
        instances: snapshot.map(|snapshot| snapshot.instances.clone()).unwrap_or_default(),
    })
}

/// Follow the state of the whole system
///
/// Server-sent events: `stats` with the answer of `/api/v1/stats`, at once and with every change. A slow
/// subscriber misses some of them; one that reads nothing is disconnected.
#[utoipa::path(
    get, path = "/api/v1/events", operation_id = "follow_stats", tag = "admin",
    responses(
        (status = 200, content_type = "text/event-stream", body = String, description = "Events without end"),
        EventRefusals
    )
)]
pub(crate) async fn events(
    State(door): State<Door>,
    Extension(peer): Extension<Peer>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Answer<Response> {
    // The stream ends with the token that opened it.
    let mut auth = SocketAuth::none(Arc::clone(&door.authenticator), peer.address);
    let token = guard::token(&headers).map_err(Refused)?;
    let role = caller.role().unwrap_or(Role::Admin);
    auth.show(role, token, door.engine.now_ms() / 1_000).map_err(Refused)?;
    let Some(permit) = door.readers.permit() else {
        let full = Refusal::new(
            Code::QuotaExceeded,
            "quota: too many subscribers of /api/v1/events on this instance",
        );
        return Err(Refused(full.retry_after(RETRY_AFTER_MS)));
    };
    let (sender, receiver) = mpsc::channel(1);
    let (board, chance) = (Arc::clone(&door.engine.board), door.engine.chance());
    let place = (permit, door.engine.metrics().reader());
    tasks::start(feed(board, chance, sender, peer, auth, place));
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
        let event: Bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    let mut answer = Body::from_stream(stream).into_response();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// Brings one reader its events until it is gone, too slow, may no longer listen, or the process ends.
async fn feed(
    board: Arc<Board>,
    chance: Chance,
    reader: mpsc::Sender<Bytes>,
    mut peer: Peer,
    mut auth: SocketAuth,
    (permit, _held): (ReaderPermit, CountGuard),
) {
    let mut frames = board.frames();
    frames.mark_changed();
    let place = chance.bits();
    let first = Bytes::from_static(b"retry: 2000\n\n");
    let (mut event, mut told) = (first, false);
    loop {
        if !matches!(tokio::time::timeout(PATIENCE, reader.send(event)).await, Ok(Ok(()))) {
            return;
        }
        event = tokio::select! {
            changed = frames.changed() => match changed {
                Ok(()) => {
                    // Whoever just came is not kept waiting.
                    if told {
                        tokio::time::sleep(permit.turn(place)).await;
                    }
                    told = true;
                    written(&frames.borrow_and_update())
                }
                Err(_) => return,
            },
            () = tokio::time::sleep(ALIVE_EVERY) => written(&frames.borrow()),
            _ = peer.ending.changed() => return,
            _ = auth.dismissed() => return,
            () = reader.closed() => return,
        };
    }
}

/// A frame as an event. JSON has no line breaks of its own.
fn written(frame: &Frame) -> Bytes {
    let mut event = BytesMut::with_capacity(frame.json.len() + 32);
    event.put_slice(b"event: stats\ndata: ");
    event.put_slice(&frame.json);
    event.put_slice(b"\n\n");
    event.freeze()
}

fn json(text: Bytes) -> Response {
    let mut answer = text.into_response();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Who follows the stream.
#[derive(Clone, Default)]
pub(crate) struct Readers(Arc<AtomicUsize>);

/// A reader's place; free again when it is dropped.
struct ReaderPermit(Arc<AtomicUsize>);

impl Readers {
    fn permit(&self) -> Option<ReaderPermit> {
        let room = |readers: usize| (readers < MAX_READERS).then_some(readers + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        Some(ReaderPermit(Arc::clone(&self.0)))
    }
}

impl ReaderPermit {
    /// How long this reader waits for its turn among all of them.
    fn turn(&self, place: u64) -> Duration {
        let (each, most) = SPREAD_MS;
        let readers = self.0.load(Ordering::Relaxed) as u64;
        Duration::from_millis(place % (each * readers).clamp(1, most))
    }
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The history of the whole system.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct History {
    /// The oldest first.
    points: Vec<Point>,
    /// How far apart they are.
    #[schema(example = 5_000)]
    interval_ms: u64,
}

/// What a node did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeHistoryBody {
    #[schema(example = "gpu-7")]
    node_id: String,
    /// The oldest first; the last is of the minute that has begun.
    points: Vec<NodePoint>,
    /// How far apart they are.
    #[schema(example = 60_000)]
    interval_ms: u64,
    /// Instances that did not answer: what they saw is not in it.
    silent: Vec<String>,
}

/// The instances.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cluster {
    /// The one that answers.
    #[schema(example = "eu-1")]
    instance: String,
    /// When this was put together; absent until it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_ms: Option<u64>,
    /// All of them, by name.
    instances: Vec<InstanceView>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_have_so_many_places_and_give_them_back() {
        let readers = Readers::default();
        let seats: Vec<_> = (0..MAX_READERS).map(|_| readers.permit().unwrap()).collect();
        assert!(readers.permit().is_none());
        drop(seats);
        assert!(readers.permit().is_some());
    }

    #[test]
    fn news_reach_a_few_readers_soon_and_many_one_after_the_other() {
        let longest = |count: usize| {
            let readers = Readers::default();
            let seats: Vec<_> = (0..count).map(|_| readers.permit().unwrap()).collect();
            (0..5_000).map(|place| seats[0].turn(place)).max().unwrap().as_millis()
        };
        assert_eq!(
            (longest(1), longest(10), longest(100), longest(1_000)),
            (19, 199, 1_999, 1_999)
        );
    }
}
