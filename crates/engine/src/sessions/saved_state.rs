//! What the next owner of a session needs, as the store keeps it.
//!
//! No speech, no text: numbers and how far they are. Written by one instance and read by another,
//! perhaps of the version before or after; so fields are only ever added, and what cannot be read
//! is as if it were not there.

use lingua_core::eligibility::Route;
use lingua_core::outcome::MissingReason;
use lingua_core::session::{Routes, SavedLane, SavedState, SavedUtterance, Span};
use lingua_core::{JobId, Moment, TurnId};
use serde::{Deserialize, Serialize};

/// What is left of a session that ended.
pub(super) const OVER: &[u8] = b"over";

#[derive(Serialize, Deserialize)]
struct Written {
    epoch: u64,
    /// The epoch before it, whose resume token is still good.
    #[serde(default)]
    former: u64,
    next: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    acked: Option<u32>,
    /// Of the whole session.
    trace: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    clients: Vec<(u64, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<WrittenUtterance>,
    /// The jobs of those that are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<SavedJob>,
    /// Endings that were delivered. Absent if there are none, and from an older version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<WrittenSpan>,
}

#[derive(Serialize, Deserialize)]
struct WrittenSpan {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    route: Option<String>,
    first: u64,
    last: u64,
}

/// A job whose ending was not delivered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct SavedJob {
    pub index: u64,
    pub lane: u8,
    pub id: JobId,
    /// For following it through all logs.
    pub trace: String,
    /// Its direction, which is written with its lane.
    #[serde(skip)]
    pub route: Option<Route>,
}

/// What an owner left to the next.
pub(super) struct SessionLeft {
    pub state: SavedState,
    pub former: u64,
    /// Of the whole session.
    pub trace: String,
    pub jobs: Vec<SavedJob>,
}

#[derive(Serialize, Deserialize)]
struct WrittenUtterance {
    i: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<u64>,
    turn: TurnId,
    part: u32,
    /// Epoch milliseconds.
    by: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u32>,
    settled: bool,
    lanes: Vec<WrittenLane>,
}

#[derive(Serialize, Deserialize)]
struct WrittenLane {
    attempt: u32,
    /// Its direction. An older version does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    route: Option<String>,
    /// Its ending was delivered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    told: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

/// Two clocks at one moment: the one that the machine goes by, and the one that all instances have.
#[derive(Clone, Copy)]
pub(super) struct Clocks {
    pub own: Moment,
    pub date: Moment,
}

impl Clocks {
    fn date_of(self, own: Moment) -> u64 {
        (self.date + self.own.until(own)).as_millis()
    }

    fn own_of(self, date: u64) -> Moment {
        self.own + self.date.until(Moment::from_millis(date))
    }
}

pub(super) fn write(
    state: &SavedState,
    former: u64,
    trace: &str,
    jobs: &[SavedJob],
    clocks: Clocks,
) -> Vec<u8> {
    let lane = |lane: &SavedLane| WrittenLane {
        attempt: lane.attempt,
        route: lane.route.map(|route| route.to_string()),
        told: lane.delivered,
        missing: lane.missing.map(|why| why.as_str().to_owned()),
    };
    let utterance = |open: &SavedUtterance| WrittenUtterance {
        i: open.index,
        client: open.client_index,
        turn: open.turn.clone(),
        part: open.part_index,
        by: clocks.date_of(open.deadline),
        seq: open.last_seq,
        settled: open.settled,
        lanes: open.lanes.iter().map(lane).collect(),
    };
    let span = |span: &Span| WrittenSpan {
        route: span.route.map(|route| route.to_string()),
        first: span.first,
        last: span.last,
    };
    let written = Written {
        epoch: state.epoch,
        former,
        next: state.next_index,
        acked: state.acked_seq,
        trace: trace.to_owned(),
        clients: state.client_indices.clone(),
        open: state.open.iter().map(utterance).collect(),
        jobs: jobs.to_vec(),
        gone: state.forgotten.iter().map(span).collect(),
    };
    serde_json::to_vec(&written).expect("numbers and words are always JSON")
}

/// What was written. The languages are those that the client names now.
pub(super) fn read(bytes: &[u8], routes: Routes, clocks: Clocks) -> Option<SessionLeft> {
    let written: Written = serde_json::from_slice(bytes).ok()?;
    let route = |text: Option<String>| text.and_then(|text| text.parse::<Route>().ok());
    let lane = |lane: WrittenLane| SavedLane {
        route: route(lane.route),
        attempt: lane.attempt,
        delivered: lane.told,
        missing: lane
            .missing
            .map(|why| MissingReason::parse(&why).unwrap_or(MissingReason::JobFailed)),
    };
    let utterance = |open: WrittenUtterance| SavedUtterance {
        index: open.i,
        client_index: open.client,
        turn: open.turn,
        part_index: open.part,
        deadline: clocks.own_of(open.by),
        last_seq: open.seq,
        settled: open.settled,
        lanes: open.lanes.into_iter().map(lane).collect(),
    };
    let open: Vec<SavedUtterance> = written.open.into_iter().map(utterance).collect();
    let span =
        |span: WrittenSpan| Span { route: route(span.route), first: span.first, last: span.last };
    let mut forgotten: Vec<Span> = written.gone.into_iter().map(span).collect();
    // Of an older version: all before the first that is open were delivered, in which languages nobody
    // knows. If none was, the first is open.
    let first = open.iter().map(|open| open.index).min().unwrap_or(written.next);
    if forgotten.is_empty() && first > 0 {
        forgotten.push(Span { route: None, first: 0, last: first - 1 });
    }
    let mut jobs = written.jobs;
    for job in &mut jobs {
        let of = open.iter().find(|open| open.index == job.index);
        job.route = of.and_then(|open| open.lanes.get(usize::from(job.lane))?.route);
    }
    let state = SavedState {
        epoch: written.epoch,
        next_index: written.next,
        acked_seq: written.acked,
        routes,
        client_indices: written.clients,
        open,
        forgotten,
    };
    let (former, trace) = (written.former, written.trace);
    Some(SessionLeft { state, former, trace, jobs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lingua_core::Lang;

    fn to(target: &str) -> Route {
        Route::Directed(Lang::new("en").unwrap(), Lang::new(target).unwrap())
    }

    fn lane(target: &str, missing: Option<MissingReason>) -> SavedLane {
        SavedLane { route: Some(to(target)), attempt: 2, delivered: false, missing }
    }

    #[test]
    fn what_is_written_is_read_again_by_another_clock() {
        let routes = Routes::new([to("zh"), to("de")]).unwrap();
        let state = SavedState {
            epoch: 7,
            next_index: 9,
            acked_seq: Some(41),
            routes: routes.clone(),
            client_indices: vec![(3, 0)],
            open: vec![SavedUtterance {
                index: 8,
                client_index: None,
                turn: TurnId::new("t").unwrap(),
                part_index: 2,
                deadline: Moment::from_millis(5_000),
                last_seq: Some(41),
                settled: true,
                lanes: vec![lane("zh", None), lane("de", Some(MissingReason::AllNodesBusy))],
            }],
            forgotten: vec![
                Span { route: None, first: 0, last: 3 },
                Span { route: Some(to("de")), first: 4, last: 7 },
            ],
        };
        let (id, trace) = ("0123456789abcdefghjkmnpqrs".parse().unwrap(), "t".to_owned());
        let job = SavedJob { index: 8, lane: 1, id, trace, route: Some(to("de")) };
        let here = Clocks { own: Moment::from_millis(1_000), date: Moment::from_millis(100_000) };
        let there = Clocks { own: Moment::from_millis(70), date: Moment::from_millis(101_000) };
        let written = write(&state, 6, "trace", std::slice::from_ref(&job), here);
        let left = read(&written, routes.clone(), there).unwrap();
        let (read_state, trace) = (left.state, left.trace);
        assert_eq!((left.former, left.jobs), (6, vec![job]));
        assert_eq!(trace, "trace");
        assert_eq!(read_state.open[0].deadline, Moment::from_millis(3_070));
        let same = SavedState { open: vec![], ..read_state.clone() };
        assert_eq!(same, SavedState { open: vec![], ..state.clone() });
        assert_eq!(read_state.open[0].lanes, state.open[0].lanes);
        assert!(read(b"{\"epoch\":1}", routes, there).is_none());
    }

    #[test]
    fn what_an_older_version_wrote_is_read_without_directions() {
        let old = br#"{"epoch":3,"former":2,"next":6,"acked":9,"trace":"t","open":[{"i":5,"turn":"t","part":0,
            "by":100000,"seq":9,"settled":true,"lanes":[{"attempt":1}]}]}"#;
        let now = Moment::from_millis(1_000);
        let routes = Routes::one(to("zh"));
        let left = read(old, routes, Clocks { own: now, date: now }).unwrap();
        let lane = SavedLane { route: None, attempt: 1, delivered: false, missing: None };
        assert_eq!(left.state.open[0].lanes, [lane]);
        assert_eq!(left.state.forgotten, [Span { route: None, first: 0, last: 4 }]);
    }
}
