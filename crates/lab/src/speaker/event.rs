//! What happens to a speaker, as its log and its checker know it.

use serde_json::{Value, json};

use crate::speech::{Digest, Echo, Mark};

/// Something that a speaker did or was told.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A connection is open; `recovered` is what the scheduler said to one that came back.
    Opened {
        /// The session's name.
        session_id: String,
        /// Whether the session from before goes on.
        recovered: Option<bool>,
    },
    /// What is said from now on is translated into these languages. Only said of a list of targets.
    Targets {
        /// Their tags.
        targets: Vec<String>,
    },
    /// The first piece of a marked sentence went out.
    Begun {
        /// Its mark.
        mark: Mark,
    },
    /// The last piece of a sentence went out for the first time.
    Said {
        /// Its mark; `None` for audio that cannot be recognised.
        mark: Option<Mark>,
        /// Its audio.
        digest: Digest,
        /// The client's number, if it was sent as a whole.
        whole: Option<u64>,
        /// The numbers of its first and last piece, if it was sent in pieces.
        seqs: Option<(u32, u32)>,
    },
    /// The scheduler told that it did not take these pieces of speech.
    Dropped {
        /// The numbers of the first and the last of them.
        seqs: (u32, u32),
        /// How much audio that is.
        bytes: u64,
    },
    /// A `translation_result`.
    Result {
        /// Its number.
        index: u64,
        /// Its language, if the scheduler names it.
        target: Option<String>,
        /// What the node told of its audio; `None` from a node that tells nothing.
        echo: Option<Echo>,
    },
    /// A `missing_result`.
    Missing {
        /// Its number.
        index: u64,
        /// Its language; without one all are meant.
        target: Option<String>,
        /// The reason code.
        reason: String,
    },
    /// Anything else about an utterance: a partial, a `ui_event`.
    About {
        /// Its number.
        index: u64,
        /// The language of its job.
        target: Option<String>,
        /// The type of the message.
        kind: String,
    },
}

/// What a message of the scheduler is to the checker.
pub(super) fn event_of(message: &Value) -> Option<Event> {
    if message["type"] == "error" {
        let details = &message["details"];
        // What a scheduler that goes away does not take, the next one will.
        if matches!(details["reason"].as_str(), Some("draining" | "closed")) {
            return None;
        }
        let seq = |name: &str| details[name].as_u64().and_then(|seq| u32::try_from(seq).ok());
        let seqs = seq("first_seq").zip(seq("last_seq"))?;
        return Some(Event::Dropped { seqs, bytes: details["bytes"].as_u64().unwrap_or(0) });
    }
    let index = message["utterance_index"].as_u64()?;
    let target = message["tgt_lang"].as_str().map(str::to_owned);
    Some(match message["type"].as_str()? {
        "translation_result" => Event::Result { index, target, echo: Echo::read(message) },
        "missing_result" => {
            let reason = message["reason"].as_str().unwrap_or_default().to_owned();
            Event::Missing { index, target, reason }
        }
        kind @ ("asr_partial" | "ui_event") => {
            Event::About { index, target, kind: kind.to_owned() }
        }
        _ => return None,
    })
}

impl Event {
    /// Its word and fields in a journal.
    pub fn to_line(&self) -> (&'static str, Value) {
        match self {
            Event::Opened { session_id, recovered } => {
                ("opened", json!({ "session": session_id, "recovered": recovered }))
            }
            Event::Targets { targets } => ("targets", json!({ "targets": targets })),
            Event::Begun { mark } => ("begun", json!({ "mark": mark.to_string() })),
            Event::Said { mark, digest, whole, seqs } => {
                let mark = mark.map(|mark| mark.to_string());
                let digest = digest.to_value();
                ("said", json!({ "mark": mark, "digest": digest, "whole": whole, "seqs": seqs }))
            }
            Event::Dropped { seqs, bytes } => ("dropped", json!({ "seqs": seqs, "bytes": bytes })),
            Event::Result { index, target, echo } => {
                let echo = echo.map(Echo::to_value);
                ("result", json!({ "index": index, "target": target, "echo": echo }))
            }
            Event::Missing { index, target, reason } => {
                ("missing", json!({ "index": index, "target": target, "reason": reason }))
            }
            Event::About { index, target, kind } => {
                ("about", json!({ "index": index, "target": target, "kind": kind }))
            }
        }
    }

    /// Reads a line of a journal; `None` if it tells of something else.
    pub(crate) fn read_line(line: &Value) -> Option<Self> {
        let index = || line["index"].as_u64();
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        let mark = || line["mark"].as_str().and_then(Mark::read);
        let seqs = || {
            let seq = |at: usize| u32::try_from(line["seqs"][at].as_u64()?).ok();
            seq(0).zip(seq(1))
        };
        Some(match line["event"].as_str()? {
            "opened" => {
                let recovered = line["recovered"].as_bool();
                Event::Opened { session_id: text("session")?, recovered }
            }
            "targets" => {
                let targets = line["targets"].as_array()?.iter();
                let targets = targets.filter_map(|tag| tag.as_str().map(str::to_owned));
                Event::Targets { targets: targets.collect() }
            }
            "begun" => Event::Begun { mark: mark()? },
            "said" => Event::Said {
                mark: mark(),
                digest: Digest::read(&line["digest"])?,
                whole: line["whole"].as_u64(),
                seqs: seqs(),
            },
            "dropped" => Event::Dropped { seqs: seqs()?, bytes: line["bytes"].as_u64()? },
            "result" => {
                let echo = Echo::read_lab(&line["echo"]);
                Event::Result { index: index()?, target: text("target"), echo }
            }
            "missing" => {
                let reason = text("reason")?;
                Event::Missing { index: index()?, target: text("target"), reason }
            }
            "about" => {
                let kind = text("kind")?;
                Event::About { index: index()?, target: text("target"), kind }
            }
            _ => return None,
        })
    }
}

/// What else of a message is worth writing down: when the scheduler sent it, and of which job.
pub(super) fn told_with(message: &Value) -> Value {
    let sent = ["scheduler_sent_at_ms", "created_at_ms"].map(|name| message[name].as_u64());
    match sent.into_iter().flatten().next() {
        Some(sent_ms) => json!({ "sent_ms": sent_ms, "job": message["job_id"] }),
        None => Value::Null,
    }
}
