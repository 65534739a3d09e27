//! What a client is told, kept until it arrives.

use lingua_engine::sessions::outbound::{Detail, ToClient};
use lingua_lab::speaker::Event;
use lingua_lab::speech::Echo;
use serde_json::{Value, json};

/// What a client is told.
pub(super) enum Told {
    Opened {
        session: String,
        token: Option<String>,
        recovered: Option<bool>,
    },
    /// An ending, or something on the way; with the piece of speech up to which nothing is needed any more.
    Event {
        event: Event,
        acked: Option<u32>,
    },
    AudioAck {
        seq: u32,
    },
    Hold {
        ms: u64,
    },
    GoAway {
        deadline_ms: u64,
    },
    Refused {
        retry_after_ms: Option<u64>,
    },
    CloseAck,
    Closed,
    Pong,
}

impl Told {
    /// `None` for what no client of a simulation acts on.
    pub fn of(message: &ToClient<'_>) -> Option<Self> {
        Some(match message {
            ToClient::Opened(opened) => Told::Opened {
                session: opened.session.to_string(),
                token: opened.resume_token.clone(),
                recovered: opened.recovered,
            },
            ToClient::Result { about, body, audio_ack, .. } => {
                let extra = body.field("extra").and_then(|text| serde_json::from_str(text).ok());
                let echo = Echo::read(&json!({ "extra": extra.unwrap_or(Value::Null) }));
                let target = about.direction.tgt_lang().map(str::to_owned);
                let event = Event::Result { index: about.utterance_index, target, echo };
                Told::Event { event, acked: *audio_ack }
            }
            ToClient::Missing { utterance_index, direction, reason, audio_ack, .. } => {
                let event = Event::Missing {
                    index: *utterance_index,
                    target: direction.tgt_lang().map(str::to_owned),
                    reason: reason.as_str().to_owned(),
                };
                Told::Event { event, acked: *audio_ack }
            }
            ToClient::Partial { about, .. } => {
                let target = about.direction.tgt_lang().map(str::to_owned);
                let (index, kind) = (about.utterance_index, "asr_partial".to_owned());
                Told::Event { event: Event::About { index, target, kind }, acked: None }
            }
            ToClient::AudioAck { seq } => Told::AudioAck { seq: *seq },
            ToClient::Backpressure { resume_after_ms, .. } => {
                Told::Hold { ms: resume_after_ms.unwrap_or(1_000) }
            }
            ToClient::GoAway { deadline_ms, .. } => Told::GoAway { deadline_ms: *deadline_ms },
            ToClient::Error { refusal, details } => match dropped(details) {
                Some(event) => Told::Event { event, acked: None },
                None => Told::Refused { retry_after_ms: refusal.retry_after_ms },
            },
            ToClient::CloseAck => Told::CloseAck,
            ToClient::Finalized { .. } | ToClient::Event { .. } | ToClient::Failed { .. } => {
                return None;
            }
        })
    }
}

/// What an error says of speech that was not taken; the next instance takes what one that goes away does not.
fn dropped(details: &[(&str, Detail<'_>)]) -> Option<Event> {
    let number = |name: &str| {
        details.iter().find_map(|(found, detail)| match detail {
            Detail::Number(number) if *found == name => Some(*number),
            _ => None,
        })
    };
    let goes =
        details.iter().any(|(_, detail)| matches!(detail, Detail::Word("draining" | "closed")));
    let seq = |name| number(name).and_then(|seq| u32::try_from(seq).ok());
    let seqs = seq("first_seq").zip(seq("last_seq")).filter(|_| !goes)?;
    Some(Event::Dropped { seqs, bytes: number("bytes").unwrap_or(0) })
}
