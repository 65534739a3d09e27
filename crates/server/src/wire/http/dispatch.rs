//! A job is handed in over HTTP.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lingua_core::eligibility::{Form, Need, Route};
use lingua_core::fleet::Fallbacks;
use lingua_core::inventory::{Asks, Required};
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::limits::MAX_FEATURES_PER_JOB;
use lingua_core::time::millis;
use lingua_core::{NodeId, Profile, RequestId, SessionId, SessionKey, TenantId, TurnId};
use lingua_engine::Settings;
use lingua_engine::audio::too_large;
use lingua_engine::chance::Chance;
use lingua_engine::job::{JobInput, JobOptions, JobSpec, Refusal};
use lingua_protocol::asked::{Asked, AskedFields, as_object, lowercase, names, switched_on};
use lingua_protocol::fields::{
    MAX_INDEX, MAX_WORD_CHARS, accepted, audio_format, direction, profile, typed, whole_pipeline,
};
use lingua_protocol::options::JsonObject;
use serde::{Deserialize, Serialize};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::job::JobBody;
use super::{MAX_WAIT_MS, Object, invalid, parse, text, within, wrong};
use crate::wire::session::framing::duration_of;

/// Maximum length of the context, in characters.
const MAX_CONTEXT_CHARS: usize = 4_096;

/// An utterance to translate.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({
    "session_id": "room-888", "src_lang": "en", "tgt_lang": "zh", "audio": "AAEC", "audio_format": "opus",
    "options": {"require_tts": true, "deadline_ms": 20000, "wait_ms": 20000}, "request_id": "r-1"
}))]
pub(crate) struct DispatchFields {
    /// The conversation: 1 to 64 of `A-Z a-z 0-9 . _ -`.
    #[schema(value_type = String, example = "room-888")]
    session_id: SessionId,
    /// The speech in standard padded base64. This, `audio_ref` or `text`.
    audio: Option<String>,
    /// A reference from `POST /v1/audio`. This, `audio` or `text`.
    audio_ref: Option<String>,
    /// A text in place of speech, at most 4096 characters: no speech recognition is needed. This, `audio` or
    /// `audio_ref`.
    #[schema(min_length = 1, max_length = 4096)]
    text: Option<String>,
    /// `opus` (the default), `pcm16` or `wav`.
    audio_format: Option<String>,
    /// In Hz; 16000 if absent.
    #[schema(minimum = 8000, maximum = 192000)]
    sample_rate: Option<u64>,
    /// Further options.
    #[schema(value_type = Option<DispatchOptions>)]
    options: Option<Object<DispatchOptions>>,
    /// The same id gets the same job, however often it is sent.
    #[schema(value_type = Option<String>)]
    request_id: Option<RequestId>,
    /// The id of the utterance in all logs; generated if absent.
    trace_id: Option<String>,
    /// Context: what was said before, at most 4096 characters; passed on to the node.
    context_text: Option<String>,
}

/// An utterance to translate, with its options.
#[derive(Debug)]
pub(crate) struct DispatchRequest {
    fields: DispatchFields,
    job: JobOptions,
}

impl PartialSchema for DispatchRequest {
    fn schema() -> RefOr<Schema> {
        let mut schema = DispatchFields::schema();
        if let RefOr::T(Schema::Object(all)) = &mut schema
            && let RefOr::T(Schema::Object(job)) = JobOptions::schema()
        {
            all.properties.extend(job.properties);
            all.required.extend(job.required);
        }
        schema
    }
}

impl ToSchema for DispatchRequest {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        DispatchFields::schemas(schemas);
    }
}

/// Options of a job.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct DispatchOptions {
    /// The translation must be spoken. True: only a node with speech synthesis for it takes the job. Absent: text
    /// alone if no node has it.
    require_tts: Option<bool>,
    /// What the person takes: `speech`, `captions` (the translation in writing) and `original` (what was said,
    /// in writing), one of the first two at least. Absent: as `require_tts` says.
    #[schema(min_items = 1, max_items = 3)]
    accept: Option<Vec<String>>,
    /// `stable` or `fast`: the profile of the job. Absent: the tenant's.
    #[schema(example = "fast")]
    profile: Option<String>,
    /// The node to try first.
    #[schema(value_type = Option<String>)]
    preferred_node_id: Option<NodeId>,
    /// Try no other node than the preferred one.
    strict: Option<bool>,
    /// Time after which the result is not needed any more.
    #[schema(minimum = 100, maximum = 600000)]
    deadline_ms: Option<u64>,
    /// Wait for the end of the job, at most so long.
    #[schema(maximum = 60000)]
    wait_ms: Option<u64>,
    /// The parts of one long utterance share it, and prefer one node. More parts follow, unless
    /// `turn_ends`.
    #[schema(value_type = Option<String>)]
    turn_id: Option<TurnId>,
    /// The speaker ended the turn with this part, so nodes need not wait for another. Absent: true
    /// without `turn_id`, false with it.
    turn_ends: Option<bool>,
    /// The utterance's number within its session.
    utterance_index: Option<u64>,
    /// Services that the node must run in addition to recognition, repair, translation and speech, by type or by name:
    /// `tone`, or `tone@2` for version 2 or a later one.
    #[schema(max_items = 64)]
    services: Option<Vec<String>>,
    /// Models that the node must have loaded, as `name` or `name@version`.
    #[schema(max_items = 8)]
    models: Option<Vec<String>>,
    /// Features that the node must have, as `name` or `name@version`.
    #[schema(max_items = 64)]
    features: Option<Vec<String>>,
    /// Regions where the node may be; a node that does not say where it is is in none.
    #[schema(max_items = 16)]
    residency: Option<Vec<String>>,
    /// Where the person is: with `jobs.rank = "region"` nodes there go first. Absent: where the instance is.
    region: Option<String>,
}

/// The node of the job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Dispatched {
    /// The job, for `GET /v1/job/{job_id}`.
    #[schema(example = "7m2k9x4c0v8b3n5q1w6e2r7t4y")]
    pub(crate) job_id: String,
    /// The node that has it; empty for one by way of another language that ended on another instance.
    #[schema(example = "node-123")]
    pub(crate) node_id: String,
    /// The number of this attempt.
    #[schema(example = 1)]
    pub(crate) attempt_id: u32,
    /// Notes about the choice of the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// The job at its end; only with `options.wait_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobBody>,
}

/// A request whose every field is right.
pub(crate) struct Order {
    pub(crate) request: Option<RequestId>,
    pub(crate) audio: Source,
    /// Wait for the end of the job, at most so long.
    pub(crate) wait: Option<Duration>,
    session: SessionId,
    route: Route,
    form: Form,
    fallbacks: Fallbacks,
    profile: Option<Profile>,
    asked: Asked,
    preferred: Option<NodeId>,
    strict: bool,
    turn: Option<TurnId>,
    deadline: Option<Duration>,
    trace_id: Option<String>,
    /// Without its audio.
    work: JobInput,
}

/// Where the speech is.
pub(crate) enum Source {
    /// In the request.
    Here(Bytes),
    /// Uploaded before.
    Kept(String),
}

impl DispatchRequest {
    /// Reads a body.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        Ok(DispatchRequest { fields: parse(body)?, job: parse(body)? })
    }

    /// The same with what the header `Idempotency-Key` says, which is another name of `request_id`.
    pub(crate) fn named(mut self, key: Option<RequestId>) -> Result<Self, Refusal> {
        if key.is_some() && self.fields.request_id.is_some() && self.fields.request_id != key {
            let detail = "differs from the header Idempotency-Key, which is another name of it";
            return Err(wrong("request_id", detail).because("two_request_ids"));
        }
        self.fields.request_id = self.fields.request_id.or(key);
        Ok(self)
    }

    /// Checks every field.
    pub(crate) fn check(self, settings: &Settings) -> Result<Order, Refusal> {
        let DispatchRequest { fields, mut job } = self;
        let Object(options) = fields.options.unwrap_or_default();
        let given = (fields.audio, fields.audio_ref, fields.text);
        let (audio, typed) = source(given, settings.max_audio_bytes)?;
        let (a, b) = (job.lang_a.as_deref(), job.lang_b.as_deref());
        let (route, mode) = direction(&job.src_lang, &job.tgt_lang, job.mode.take(), a, b)?;
        job.mode = mode;
        let fields_asked = AskedFields {
            services: options.services,
            models: options.models,
            residency: options.residency,
            region: options.region,
            ..AskedFields::default()
        };
        let mut asked = fields_asked.read("options.", &mut job, &Asked::default())?;
        if let Some(words) = options.features {
            let features = names("options.features", &words, MAX_FEATURES_PER_JOB)?;
            asked.named.features.extend(lowercase(features));
            job.features.get_or_insert_with(|| as_object(&asked.named.features));
        }
        asked.named.services.extend(job.pipeline.iter().flat_map(switched_on));
        job.check()?;
        let words: Option<Vec<&str>> =
            options.accept.as_ref().map(|words| words.iter().map(String::as_str).collect());
        let said = options.require_tts;
        let (speech, fallbacks) =
            accepted(words.as_deref(), "options.accept", said, "options.require_tts")?;
        let form = Form { speech, typed };
        let strict = options.strict.unwrap_or(false);
        if strict && options.preferred_node_id.is_none() {
            return Err(wrong("options.strict", "needs options.preferred_node_id"));
        }
        let deadline_ms = options.deadline_ms;
        let deadline_ms = deadline_ms.map(|ms| within("options.deadline_ms", ms, 100..=600_000));
        let wait_ms = options.wait_ms.map(|ms| within("options.wait_ms", ms, 0..=MAX_WAIT_MS));
        let rate = within("sample_rate", fields.sample_rate.unwrap_or(16_000), 8_000..=192_000)?;
        let index = options.utterance_index.unwrap_or(0);
        job.pipeline.get_or_insert_with(|| JsonObject(whole_pipeline(route, form)));
        let turn_ends = options.turn_ends.unwrap_or(options.turn_id.is_none());
        let work = JobInput {
            options: job,
            typed,
            manual_cut: turn_ends,
            utterance_index: within("options.utterance_index", index, 0..=MAX_INDEX)?,
            audio_format: audio_format(fields.audio_format.as_deref())?.to_owned(),
            sample_rate: u32::try_from(rate).expect("checked above"),
            context_text: text("context_text", fields.context_text, MAX_CONTEXT_CHARS)?,
            ..JobInput::default()
        };
        Ok(Order {
            request: fields.request_id,
            audio,
            wait: wait_ms.transpose()?.map(Duration::from_millis),
            session: fields.session_id,
            route,
            form,
            fallbacks,
            profile: profile("options.profile", options.profile.as_deref())?,
            asked,
            preferred: options.preferred_node_id,
            strict,
            turn: options.turn_id,
            deadline: deadline_ms.transpose()?.map(Duration::from_millis),
            trace_id: text("trace_id", fields.trace_id, MAX_WORD_CHARS)?,
            work,
        })
    }
}

impl Order {
    /// The job that this is. Without a request id it is a job of its own.
    pub(crate) fn job(
        self,
        tenant: TenantId,
        audio: Bytes,
        chance: Chance,
        settings: &Settings,
    ) -> JobSpec {
        let profile = settings.profile_of(self.profile, &tenant);
        let deadline = Duration::from_millis(settings.timing_of(profile).deadline_ms);
        let session = SessionKey::new(tenant.clone(), self.session);
        let origin = match &self.request {
            Some(request) => Origin::Request(request),
            None => Origin::Unnamed(chance.nonce()),
        };
        let asks = settings.asks_of(self.asked.named, &tenant);
        let asked = features_of(self.form, &asks, &self.work.options);
        let speech_ms = speech_ms(&self.work, &audio);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let key = JobKey {
            session: &session,
            origin,
            job_type: "f2f",
            route: self.route,
            features: &asked,
        };
        // Not the job's id: a node must not learn from it which jobs are of one session.
        let trace_id = self.trace_id.unwrap_or_else(|| format!("{:032x}", chance.nonce()));
        JobSpec {
            id: key.job_id(),
            epoch: None,
            need: Need {
                route: self.route,
                speech: self.form.speech,
                typed: self.form.typed,
                asks,
                tenant,
                named: false,
            },
            fallbacks: self.fallbacks,
            profile,
            preferred: self.preferred,
            region: self.asked.region,
            strict: self.strict,
            turn: self.turn,
            past: None,
            observer: None,
            trace: None,
            work: Arc::new(JobInput { speech_ms, audio, trace_id, ..self.work }),
            deadline_in: self.deadline.unwrap_or(deadline),
            session,
        }
    }
}

/// How long the speech lasts; 0 if that is not known, as of a text.
fn speech_ms(work: &JobInput, audio: &Bytes) -> u64 {
    if work.typed {
        return 0;
    }
    let duration = duration_of(&work.audio_format, work.sample_rate, audio).unwrap_or_default();
    millis(duration)
}

/// What is wanted of a job, as its identity has it.
fn features_of(form: Form, asks: &Asks, options: &JobOptions) -> Vec<String> {
    let each = |kind: &str, list: &[Required]| -> Vec<String> {
        list.iter().map(|required| format!("{kind} {required}")).collect()
    };
    let speech = form.speech.then(|| "tts".to_owned());
    let typed = form.typed.then(|| "text".to_owned());
    let regions = asks.regions.iter().map(|region| format!("region {region}"));
    let passed = options.features.iter().map(|json| format!("features {}", json.get()));
    let mut all: Vec<String> = speech.into_iter().chain(typed).collect();
    all.extend(each("service", &asks.services));
    all.extend(each("model", &asks.models));
    all.extend(each("feature", &asks.features));
    all.extend(regions.chain(passed));
    all
}

/// Where what is to be translated is, and whether it is a text.
fn source(
    given: (Option<String>, Option<String>, Option<String>),
    max_bytes: usize,
) -> Result<(Source, bool), Refusal> {
    let audio = match given {
        (Some(audio), None, None) => audio,
        (None, Some(reference), None) => return Ok((Source::Kept(reference), false)),
        (None, None, Some(text)) => return Ok((Source::Here(typed("text", text)?), true)),
        (None, None, None) => return Err(invalid("audio, audio_ref or text is needed")),
        _ => return Err(invalid("audio, audio_ref and text: give one of them")),
    };
    if audio.is_empty() {
        return Err(wrong("audio", "is empty"));
    }
    let audio =
        STANDARD.decode(audio).map_err(|_| wrong("audio", "is not standard padded base64"))?;
    if audio.len() > max_bytes {
        return Err(too_large(max_bytes));
    }
    Ok((Source::Here(audio.into()), false))
}

#[cfg(test)]
mod tests {
    use lingua_core::outcome::Code;

    use super::*;

    fn job(json: &str) -> Result<JobSpec, Refusal> {
        let request = DispatchRequest::parse(json.as_bytes())?;
        let order = request.check(&Settings::stable())?;
        let (tenant, audio) = ("default".parse().unwrap(), Bytes::from_static(b"x"));
        Ok(order.job(tenant, audio, Chance::system(), &Settings::stable()))
    }

    #[test]
    fn a_request_id_makes_the_same_job_and_none_makes_another_each_time() {
        let named =
            r#"{"session_id":"s","src_lang":"en","tgt_lang":"zh","audio":"AAEC","request_id":"r"}"#;
        assert_eq!(job(named).unwrap().id, job(named).unwrap().id);
        for other in [
            "\"s\"/\"s2\"",
            "\"en\"/\"de\"",
            "\"r\"/\"r2\"",
            "\"AAEC\"/\"AAEC\",\"options\":{\"require_tts\":false}",
            "\"AAEC\"/\"AAEC\",\"features\":{\"x\":1}",
        ] {
            let (old, new) = other.split_once('/').unwrap();
            assert_ne!(
                job(&named.replace(old, new)).unwrap().id,
                job(named).unwrap().id,
                "{other}"
            );
        }
        let other_audio = named.replace("AAEC", "AAED");
        assert_eq!(
            job(&other_audio).unwrap().id,
            job(named).unwrap().id,
            "said again is said once"
        );
        let unnamed = r#"{"session_id":"s","src_lang":"en","tgt_lang":"zh","audio":"AAEC"}"#;
        assert_ne!(job(unnamed).unwrap().id, job(unnamed).unwrap().id);
    }

    #[test]
    fn a_job_ends_its_turn_unless_more_of_the_turn_comes() {
        for (options, ends) in [
            ("{}", true),
            (r#"{"turn_id":"t"}"#, false),
            (r#"{"turn_id":"t","turn_ends":true}"#, true),
            (r#"{"turn_ends":false}"#, false),
        ] {
            let json = format!(
                r#"{{"session_id":"s","src_lang":"en","tgt_lang":"zh","audio":"AAEC","options":{options}}}"#
            );
            let work = job(&json).unwrap().work;
            assert_eq!((work.manual_cut, work.timeout_cut), (ends, false), "{options}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let job =
            job(r#"{"session_id":"s","src_lang":"en","tgt_lang":"en-GB","audio":"AAEC"}"#).unwrap();
        assert!(job.need.speech && !job.strict && job.turn.is_none() && job.epoch.is_none());
        assert_eq!(job.deadline_in, Duration::from_millis(75_000));
        assert_eq!((job.work.audio_format.as_str(), job.work.sample_rate), ("opus", 16_000));
        assert_eq!(job.work.trace_id.len(), 32);
        let pipeline: serde_json::Value =
            serde_json::from_str(job.work.options.pipeline.as_ref().unwrap().get()).unwrap();
        assert_eq!((&pipeline["use_tts"], &pipeline["use_semantic"]), (&true.into(), &true.into()));
    }

    #[test]
    fn an_automatic_source_needs_both_languages_and_goes_either_way() {
        let json = r#"{"session_id":"s","src_lang":"auto","tgt_lang":"zh","lang_a":"en","lang_b":"zh","audio":"AAEC"}"#;
        let spec = job(json).unwrap();
        assert_eq!(spec.need.route.to_string(), "en<->zh");
        assert_eq!(spec.work.options.mode.as_deref(), Some("two_way_auto"));
        for wrong in ["\"lang_a\":\"en\",", "\"lang_b\":\"zh\","] {
            let refusal = job(&json.replace(wrong, "")).err().unwrap();
            assert_eq!(refusal.code, Code::InvalidLanguage);
        }
        let target = json.replace("\"tgt_lang\":\"zh\"", "\"tgt_lang\":\"auto\"");
        assert_eq!(job(&target).err().unwrap().code, Code::InvalidLanguage);
    }
}
