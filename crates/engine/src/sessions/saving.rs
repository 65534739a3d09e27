//! What the next owner of a session needs, as the store keeps it.
//!
//! No speech, no text: numbers and how far they are. Written by one instance and read by another,
//! perhaps of the version before or after; so fields are only ever added, and what cannot be read
//! is as if it were not there.

use lingua_core::outcome::MissingReason;
use lingua_core::session::{Routes, SavedLane, SavedState, SavedUtterance};
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
}

/// A job whose ending was not told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct SavedJob {
    pub index: u64,
    pub lane: u8,
    pub id: JobId,
    /// For following it through all logs.
    pub trace: String,
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
        told: lane.told,
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
    let written = Written {
        epoch: state.epoch,
        former,
        next: state.next_index,
        acked: state.acked_seq,
        trace: trace.to_owned(),
        clients: state.client_indices.clone(),
        open: state.open.iter().map(utterance).collect(),
        jobs: jobs.to_vec(),
    };
    serde_json::to_vec(&written).expect("numbers and words are always JSON")
}

/// What was written. The languages are those that the client names now.
pub(super) fn read(bytes: &[u8], routes: Routes, clocks: Clocks) -> Option<SessionLeft> {
    let written: Written = serde_json::from_slice(bytes).ok()?;
    let lane = |lane: WrittenLane| SavedLane {
        attempt: lane.attempt,
        told: lane.told,
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
    let state = SavedState {
        epoch: written.epoch,
        next_index: written.next,
        acked_seq: written.acked,
        routes,
        client_indices: written.clients,
        open: written.open.into_iter().map(utterance).collect(),
    };
    let (former, trace, jobs) = (written.former, written.trace, written.jobs);
    Some(SessionLeft { state, former, trace, jobs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lingua_core::Lang;
    use lingua_core::eligibility::Route;

    #[test]
    fn what_is_written_is_read_again_by_another_clock() {
        let en = Lang::new("en").unwrap();
        let routes = Routes::one(Route::Directed(en, en));
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
                lanes: vec![
                    SavedLane { attempt: 2, told: false, missing: None },
                    SavedLane {
                        attempt: 1,
                        told: false,
                        missing: Some(MissingReason::AllNodesBusy),
                    },
                ],
            }],
        };
        let here = Clocks { own: Moment::from_millis(1_000), date: Moment::from_millis(100_000) };
        let there = Clocks { own: Moment::from_millis(70), date: Moment::from_millis(101_000) };
        let left = read(&write(&state, 6, "trace", &[], here), routes.clone(), there).unwrap();
        let (read_state, trace) = (left.state, left.trace);
        assert_eq!((left.former, left.jobs), (6, vec![]));
        assert_eq!(trace, "trace");
        assert_eq!(read_state.open[0].deadline, Moment::from_millis(3_070));
        let same = SavedState { open: vec![], ..read_state.clone() };
        assert_eq!(same, SavedState { open: vec![], ..state.clone() });
        assert_eq!(read_state.open[0].lanes, state.open[0].lanes);
        assert!(read(b"{\"epoch\":1}", routes, there).is_none());
    }
}
