//! What a node says, in one pass over the text.

use std::borrow::Cow;

use bytes::Bytes;
use lingua_core::JobId;
use lingua_core::job::outcome::is_fault;
use lingua_core::job::{JobEvent, NodeMessage, NodeResult, Refusal, Reject};
use lingua_core::link::event::MessageKind;
use lingua_core::outcome::Code;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::message::message;
use super::registration::NodeStatus;
use crate::json::{self, Kind, Text};
use crate::raw::RawFields;

/// Characters of a sentence that goes back to a node.
const MAX_SENTENCE: usize = 300;

/// Characters of a node's own sentence that are kept.
const MAX_TEXT: usize = 512;

/// Characters of a node's own code, reason or model.
const MAX_WORD: usize = 64;

const MODEL_NOT_AVAILABLE: &str = "MODEL_NOT_AVAILABLE";

/// Why there is no text: none was recognised.
const EMPTY: &str = "ASR_EMPTY";

/// What a node says.
pub enum FromNode {
    /// Who it is and what it can do.
    Register(Box<NodeStatus>),
    /// That it lives, and what changed.
    Heartbeat(Box<NodeStatus>),
    /// Something about a job.
    Job(JobMessage),
    /// A newer token.
    Auth(String),
    /// That something is wrong with it.
    Error {
        /// Its own code.
        code: String,
        /// For people.
        message: String,
    },
}

/// What a node says about a job.
pub struct JobMessage {
    /// The id under which the node knows the job.
    pub job: JobId,
    /// Which dispatch; some messages do not say.
    pub attempt: Option<u32>,
    /// The name of the lease, if the node sends it.
    pub token: Option<String>,
    /// What it says.
    pub report: JobReport,
}

/// What a node says about a job.
pub enum JobReport {
    /// It takes it.
    Ack,
    /// It has begun.
    Started,
    /// It does not take it.
    Reject(Reject),
    /// Something on the way.
    Partial(NodeMessage),
    /// It is done with it, one way or the other.
    Result(NodeResult),
}

impl JobReport {
    /// The same, unless it holds more bytes than one result may: then the attempt failed, or what was on
    /// the way is left out. Says whether it did.
    pub fn bounded(self, most: usize) -> (Self, bool) {
        match self {
            JobReport::Partial(body) if body.len() > most => (JobReport::Started, true),
            JobReport::Result(NodeResult::Success(body) | NodeResult::Empty { body, .. })
                if body.len() > most =>
            {
                let result = NodeResult::Failure {
                    code: Code::MessageTooLarge.as_str().to_owned(),
                    message: format!("the result has {} bytes, more than {most}", body.len()),
                    missing_model: None,
                };
                (JobReport::Result(result), true)
            }
            other => (other, false),
        }
    }

    /// What kind of word it is.
    pub fn message_kind(&self) -> MessageKind {
        match self {
            JobReport::Ack => MessageKind::Ack,
            JobReport::Started => MessageKind::Started,
            JobReport::Reject(_) => MessageKind::Reject,
            JobReport::Partial(_) => MessageKind::Partial,
            JobReport::Result(NodeResult::Success(_)) => MessageKind::Success,
            JobReport::Result(NodeResult::Empty { .. }) => MessageKind::Empty,
            JobReport::Result(NodeResult::Failure { code, .. }) => {
                MessageKind::Failure { fault: is_fault(code) }
            }
        }
    }

    /// What the job hears of it.
    pub fn into_event(self, attempt: u32) -> JobEvent {
        match self {
            JobReport::Ack | JobReport::Started => JobEvent::Ack { attempt },
            JobReport::Reject(reason) => JobEvent::Reject { attempt, reason: Box::new(reason) },
            JobReport::Partial(body) => JobEvent::Partial { attempt, body: Box::new(body) },
            JobReport::Result(result) => JobEvent::Result { attempt, result: Box::new(result) },
        }
    }
}

/// The fields of messages about jobs that are decided on. Those of a result that only pass through are
/// [`super::ResultFields`].
#[derive(Deserialize, ToSchema)]
pub(super) struct JobFields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    /// As in `job_assign`.
    #[serde(borrow)]
    #[schema(value_type = Option<String>, pattern = "^[0-9a-hjkmnp-tv-z]{26}$")]
    job_id: Option<Text<'a>>,
    /// As in `job_assign`; older agents leave it out.
    attempt_id: Option<u32>,
    /// As in `job_assign`, for a node with `tokens`.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    lease_token: Option<Text<'a>>,
    /// Whether there is a result.
    success: Option<bool>,
    /// `BUSY`, `MODEL_NOT_AVAILABLE`, or a text of the node's own.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    reason: Option<Text<'a>>,
    /// The node's own code.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    code: Option<Text<'a>>,
    /// For people.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    message: Option<Text<'a>>,
    /// If it failed: what went wrong. A sentence alone is taken as its message.
    #[serde(borrow)]
    #[schema(value_type = Option<Failed<'a>>, inline)]
    error: Option<&'a RawValue>,
    /// Reaches the client. With `reason` `ASR_EMPTY` or `NO_TEXT_ASSIGNED`, nothing was said.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    extra: Option<&'a RawValue>,
    /// With `MODEL_NOT_AVAILABLE`: which model.
    #[serde(borrow)]
    #[schema(value_type = Option<Model<'a>>, inline)]
    details: Option<&'a RawValue>,
}

/// What a failed result says about itself.
#[derive(Deserialize, ToSchema)]
struct Failed<'a> {
    /// `BUSY`, `MODEL_NOT_AVAILABLE`, or one of the node's own, which callers see.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    code: Option<Text<'a>>,
    /// For people.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    message: Option<Text<'a>>,
    /// With `MODEL_NOT_AVAILABLE`: which model.
    #[serde(borrow)]
    #[schema(value_type = Option<Model<'a>>, inline)]
    details: Option<&'a RawValue>,
}

/// A model or service that a node misses.
#[derive(Deserialize, ToSchema)]
struct Model<'a> {
    /// Its name, as older agents say it.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    model: Option<Text<'a>>,
    /// Its name.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    model_id: Option<Text<'a>>,
    /// Its version.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    version: Option<Text<'a>>,
    /// The service that does not run, as older agents say it.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    service_id: Option<Text<'a>>,
}

/// Reads one message. `whole` makes the bytes of it that are kept with a result.
pub fn decode(text: &str, whole: impl FnOnce() -> Bytes) -> Result<FromNode, Refusal> {
    // A list of the fields' values would be read as well.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(invalid("a message is one JSON object"));
    }
    // What it says of itself may be long: it is read once, not as a word about a job before.
    if let Some(kind @ ("node_heartbeat" | "heartbeat" | "node_register" | "register")) =
        json::leading_kind(text)
    {
        return about_itself(kind, text);
    }
    let read = RawFields::read(text).and_then(|all| Ok((all.view::<JobFields<'_>>()?, all)));
    // Some field is wrong; whether it is one that counts, the message's type says.
    let Ok((fields, all)) = read else { return decode_again(text) };
    let whole = || message(whole(), text, &all);
    match fields.kind.as_ref() {
        "job_result" => fields.job(|fields| fields.result(&all, whole)),
        "job_ack" => fields.job(|_| Ok(JobReport::Ack)),
        "asr_partial" | "job_progress" => fields.job(|_| Ok(JobReport::Partial(whole()))),
        "job_started" => fields.job(|_| Ok(JobReport::Started)),
        "job_reject" => fields.job(|fields| Ok(JobReport::Reject(fields.reject()))),
        "node_error" => Ok(fields.node_error()),
        other => about_itself(other, text),
    }
}

#[derive(Deserialize, ToSchema)]
pub(super) struct Auth {
    /// A newer token of the same node.
    token: String,
}

fn about_itself(kind: &str, text: &str) -> Result<FromNode, Refusal> {
    match kind {
        "node_heartbeat" | "heartbeat" => Ok(FromNode::Heartbeat(read(text)?)),
        "node_register" | "register" => Ok(FromNode::Register(read(text)?)),
        "auth" => {
            let Auth { token } = read(text)?;
            Ok(FromNode::Auth(token))
        }
        other => {
            let name: String = other.chars().take(MAX_WORD).collect();
            let detail = format!("{name:?} is not a message that a node sends");
            Err(Refusal::new(Code::UnsupportedMessage, detail))
        }
    }
}

/// Finds out what is wrong with a message that could not be read.
fn decode_again(text: &str) -> Result<FromNode, Refusal> {
    let Kind { kind } = read(text)?;
    match kind.as_ref() {
        "job_result" | "job_ack" | "asr_partial" | "job_progress" | "job_started"
        | "job_reject" | "node_error" => match read::<JobFields<'_>>(text) {
            Err(refusal) => Err(refusal),
            Ok(_) => Err(invalid("the message could not be read")),
        },
        other => about_itself(other, text),
    }
}

/// Reads a message of a known shape; a refusal names the field.
pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Refusal> {
    json::read(text).map_err(invalid)
}

pub(super) fn invalid(detail: impl Into<String>) -> Refusal {
    let detail: String = detail.into();
    Refusal::new(Code::InvalidMessage, cut(&detail, MAX_SENTENCE))
}

/// At most so many characters of it.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

impl JobFields<'_> {
    fn job(
        self,
        report: impl FnOnce(&Self) -> Result<JobReport, Refusal>,
    ) -> Result<FromNode, Refusal> {
        let id = self.job_id.as_ref().ok_or_else(|| missing("job_id"))?;
        let job: JobId = id.0.parse().map_err(|error| invalid(format!("job_id: {error}")))?;
        let report = report(&self)?;
        let token = self.lease_token.map(|token| token.0.into_owned());
        Ok(FromNode::Job(JobMessage { job, attempt: self.attempt_id, token, report }))
    }

    fn reject(&self) -> Reject {
        let reason = self.reason.as_ref().map_or("", |reason| reason.0.as_ref());
        if reason.eq_ignore_ascii_case("BUSY") {
            return Reject::Busy;
        }
        if reason.eq_ignore_ascii_case(MODEL_NOT_AVAILABLE) {
            return Reject::MissingModel(self.details.and_then(model));
        }
        Reject::Other(cut(reason, MAX_TEXT))
    }

    fn node_error(self) -> FromNode {
        let word = |text: Option<Text<'_>>, most| text.map_or(String::new(), |t| cut(&t.0, most));
        FromNode::Error { code: word(self.code, MAX_WORD), message: word(self.message, MAX_TEXT) }
    }

    fn result(
        &self,
        all: &RawFields<'_>,
        whole: impl FnOnce() -> NodeMessage,
    ) -> Result<JobReport, Refusal> {
        let result = match self.success.ok_or_else(|| missing("success"))? {
            true => match self.extra.and_then(empty_reason).or_else(|| says_nothing(all)) {
                Some(reason) => NodeResult::Empty { body: whole(), reason },
                None => NodeResult::Success(whole()),
            },
            false => {
                let Failure { code, message, missing_model } = failure(self.error);
                // An older agent has no other way to refuse.
                if code.eq_ignore_ascii_case("BUSY") {
                    return Ok(JobReport::Reject(Reject::Busy));
                }
                NodeResult::Failure { code, message, missing_model }
            }
        };
        Ok(JobReport::Result(result))
    }
}

/// A result that has its texts, and nothing in any of them, is of silence though it does not say so. One
/// without any text field is no recognition at all, and passes.
fn says_nothing(all: &RawFields<'_>) -> Option<String> {
    let present = |name| all.get(name).filter(|value| value.get() != "null");
    let texts = ["text_asr", "text_translated"].map(present);
    let nothing = texts.into_iter().chain([present("tts_audio")]).flatten().all(is_blank);
    let has_texts = texts.iter().any(Option::is_some);
    (has_texts && nothing).then(|| EMPTY.to_owned())
}

fn missing(field: &str) -> Refusal {
    invalid(format!("missing field `{field}`"))
}

/// The word for an ending without text, if `extra` holds it.
fn empty_reason(extra: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Extra<'a> {
        #[serde(borrow)]
        reason: Option<Text<'a>>,
    }
    // Mostly there is none, and what passes through may be large.
    if !extra.get().contains("reason") {
        return None;
    }
    // Whatever else `extra` is, it is the node's affair.
    let extra: Extra<'_> = serde_json::from_str(extra.get()).ok()?;
    let reason = extra.reason?.0;
    let known = [EMPTY, "NO_TEXT_ASSIGNED"];
    known.into_iter().find(|word| reason.eq_ignore_ascii_case(word)).map(str::to_owned)
}

struct Failure {
    code: String,
    message: String,
    missing_model: Option<String>,
}

/// What a failed result says about itself; a node that says nothing has failed all the same.
fn failure(error: Option<&RawValue>) -> Failure {
    let raw = error.map_or("{}", RawValue::get);
    let fields = serde_json::from_str(raw).unwrap_or_else(|_| Failed {
        code: None,
        // Some say it as a string instead.
        message: serde_json::from_str(raw).ok(),
        details: None,
    });
    let word = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.0.to_string());
    let code = cut(&word(&fields.code).unwrap_or_default(), MAX_WORD);
    let code = if code.eq_ignore_ascii_case(MODEL_NOT_AVAILABLE) {
        MODEL_NOT_AVAILABLE.to_owned()
    } else if code.is_empty() {
        Code::ProcessingError.as_str().to_owned()
    } else {
        code
    };
    let message = word(&fields.message).filter(|message| !message.is_empty());
    let message = message.unwrap_or_else(|| "the node did not say why".to_owned());
    let missing_model = fields.details.filter(|_| code == MODEL_NOT_AVAILABLE).and_then(model);
    Failure { code, message: cut(&message, MAX_TEXT), missing_model }
}

/// The model that details name, with its version if they name that too.
fn model(details: &RawValue) -> Option<String> {
    let details: Model<'_> = serde_json::from_str(details.get()).ok()?;
    let name = details.model_id.or(details.model).or(details.service_id)?.0;
    let full = match details.version {
        Some(version) => format!("{name}@{}", version.0),
        None => name.into_owned(),
    };
    (full.len() <= MAX_WORD).then_some(full)
}

/// A string of nothing but blanks. What is no string passes on as it came.
fn is_blank(value: &RawValue) -> bool {
    serde_json::from_str::<Text<'_>>(value.get()).is_ok_and(|text| text.0.trim().is_empty())
}

#[cfg(test)]
mod tests;
