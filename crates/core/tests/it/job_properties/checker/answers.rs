//! The answers of an owner, by chance.

use lingua_core::job::event::{AssignAnswer, CommitAnswer, NotSent, RecordAnswer};
use lingua_core::job::{Event, Link, NodeResult};

pub(super) fn record_answer(how: u8) -> RecordAnswer {
    match how % 8 {
        0 => RecordAnswer::Exists,
        1 => RecordAnswer::Superseded,
        2 => RecordAnswer::StoreDown,
        _ => RecordAnswer::Written,
    }
}

pub(super) fn failure(code: &str) -> NodeResult {
    NodeResult::Failure { code: code.into(), message: String::new(), missing_model: None }
}

pub(super) fn assign_answer(how: u8) -> AssignAnswer {
    match how % 8 {
        0 => AssignAnswer::Unknown,
        1 => AssignAnswer::Ended,
        2 => AssignAnswer::Refused,
        3 => AssignAnswer::StoreDown,
        _ => AssignAnswer::Written,
    }
}

pub(super) fn send_answer(attempt: u32, how: u8) -> Event {
    match how % 6 {
        0 => Event::NotSent { attempt, reason: NotSent::Full },
        1 => Event::NotSent { attempt, reason: NotSent::Unreachable },
        n => {
            let (calls, keeps_speech) = (n == 2, n == 3);
            let link = Link { result_ack: how > 128, calls, keeps_speech };
            Event::Sent { attempt, link }
        }
    }
}

pub(super) fn commit_answer(how: u8) -> CommitAnswer {
    match how % 4 {
        0 => CommitAnswer::Lost,
        1 => CommitAnswer::StoreDown,
        _ => CommitAnswer::Kept,
    }
}
