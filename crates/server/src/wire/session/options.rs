//! How a client wants its speech to be worked on.

use lingua_core::eligibility::{Form, Route};
use lingua_core::inventory::Requirements;
use lingua_core::session::settings::MAX_LANES;
use lingua_core::session::{Routes, RoutesError};
use lingua_core::{Lang, Profile};
use lingua_engine::job::{JobOptions, Refusal};
use lingua_engine::sessions::options::SpeechOptions;
use lingua_protocol::asked::{Asked, AskedFields, switched_on};
use lingua_protocol::client::inbound::Targets;
use lingua_protocol::fields::{
    AUTO, accepted, direction, invalid, language, whole_pipeline, wrong,
};
use lingua_protocol::options::{JsonObject, Switch};
use lingua_protocol::raw::RawMessage;
use serde::Deserialize;

use super::{Codec, SAMPLE_RATE};

/// What `session_init` says beside the languages.
pub(super) struct WantedOptions<'a> {
    /// Whether the translation is to be spoken.
    pub(super) speech: Option<bool>,
    /// What the person takes.
    pub(super) accept: Option<&'a [&'a str]>,
    pub(super) profile: Option<Profile>,
    /// The client is from before there was a list of what it supports.
    pub(super) existing: bool,
}

/// What a message says about how to work on speech.
pub(super) struct Wishes {
    job: JobOptions,
    targets: Option<Vec<String>>,
    asked: AskedFields,
}

impl Wishes {
    /// Of `session_init` or `set_languages`.
    pub(super) fn of_session(message: &RawMessage<'_>) -> Result<Self, Refusal> {
        let job = message.view().map_err(invalid)?;
        let Targets { targets } = message.view().map_err(invalid)?;
        Ok(Wishes { job, targets, asked: message.view().map_err(invalid)? })
    }

    /// Of `utterance`, which has one target.
    pub(super) fn of_utterance(message: &RawMessage<'_>) -> Result<Self, Refusal> {
        let (job, asked) = (message.view().map_err(invalid)?, message.view().map_err(invalid)?);
        Ok(Wishes { job, targets: None, asked })
    }

    /// The options of a new session, with what it said about speech; a client that lists nothing expects
    /// partials unless it says otherwise.
    pub(super) fn opening(
        self,
        codec: Codec,
        said: &WantedOptions<'_>,
    ) -> Result<SpeechOptions, Refusal> {
        let WantedOptions { speech: wanted, accept, profile, existing } = *said;
        let mut job = self.job;
        let (speech, fallbacks) = accepted(accept, "accept", wanted, "speech")?;
        let routes = directions(&mut job, self.targets)?;
        let asked = self.asked.read("", &mut job, &Asked::default())?;
        job.check()?;
        let streaming = job.enable_streaming_asr.0.unwrap_or(existing);
        job.enable_streaming_asr = Switch(Some(streaming));
        let own = job.pipeline.take();
        let form = Form { speech, typed: false };
        let (pipeline, spoken) = steps(own.clone(), translated(&routes), form)?;
        if spoken != speech && (wanted.is_some() || accept.is_some()) {
            let text = "contradicts what is said of speech beside it";
            return Err(wrong("pipeline.use_tts", text));
        }
        job.pipeline = Some(pipeline);
        Ok(SpeechOptions {
            asks: asks(&asked, own.as_ref()),
            asked,
            speech: spoken,
            typed: false,
            fallbacks,
            says_form: accept.is_some(),
            profile,
            job,
            untranslated: untranslated(&routes, spoken),
            steps: own,
            audio_format: codec.as_str(),
            sample_rate: SAMPLE_RATE,
            routes,
        })
    }

    /// The options of what names its own direction within a session. What it leaves out is as in the
    /// session, where that fits the direction.
    pub(super) fn within(
        self,
        session: &SpeechOptions,
        typed: bool,
    ) -> Result<SpeechOptions, Refusal> {
        let Wishes { mut job, targets, asked } = self;
        let asked = asked.read("", &mut job, &session.asked)?;
        let (before, pipeline) = (&session.job, job.pipeline.take());
        if job.mode.is_none() {
            // Only a node that may find out the language itself is told that it goes both ways.
            let fits =
                |mode: &String| mode == "one_way" && !job.src_lang.eq_ignore_ascii_case(AUTO);
            job.mode = before.mode.clone().filter(fits);
        }
        if job.dialect.is_none() && job.src_lang.eq_ignore_ascii_case(&before.src_lang) {
            // A dialect is one of its language.
            job.dialect.clone_from(&before.dialect);
        }
        let (mode, dialect) = (job.mode.clone(), job.dialect.clone());
        job.fill_from(before);
        (job.mode, job.dialect, job.pipeline) = (mode, dialect, pipeline);
        let routes = directions(&mut job, targets)?;
        job.check()?;
        let form = Form { speech: session.speech, typed };
        let said = job.pipeline.take();
        // A text takes other steps than the speech that those of the session are for.
        let own = said.or_else(|| session.steps.clone().filter(|_| !typed));
        let (pipeline, speech) = steps(own.clone(), translated(&routes), form)?;
        job.pipeline = Some(pipeline);
        Ok(SpeechOptions {
            asks: asks(&asked, own.as_ref()),
            asked,
            speech,
            typed,
            fallbacks: session.fallbacks,
            says_form: session.says_form,
            profile: session.profile,
            job,
            untranslated: untranslated(&routes, speech),
            steps: own,
            audio_format: session.audio_format,
            sample_rate: session.sample_rate,
            routes,
        })
    }
}

/// What is asked for by name, and by the switches of the client's own steps.
fn asks(asked: &Asked, own: Option<&JsonObject>) -> Requirements {
    let mut asks = asked.named.clone();
    asks.services.extend(own.into_iter().flat_map(switched_on));
    asks
}

/// The directions that a client names: into `tgt_lang`, or into several `targets`, of which it is one. The mode
/// becomes what the node is told, and the target the first of several.
fn directions(job: &mut JobOptions, targets: Option<Vec<String>>) -> Result<Routes, Refusal> {
    let (a, b) = (job.lang_a.as_deref(), job.lang_b.as_deref());
    let (route, mode) = direction(&job.src_lang, &job.tgt_lang, job.mode.take(), a, b)?;
    job.mode = mode;
    let Some(targets) = targets else { return Ok(Routes::one(route)) };
    if targets.len() > MAX_LANES {
        return Err(wrong("targets", RoutesError::TooMany(targets.len())));
    }
    let tags: Vec<Lang> =
        targets.iter().map(|tag| language("targets", tag)).collect::<Result<_, Refusal>>()?;
    let Some(first) = targets.into_iter().next() else {
        return Err(wrong("targets", RoutesError::None));
    };
    if !tags.contains(&language("tgt_lang", &job.tgt_lang)?) {
        return Err(wrong("tgt_lang", "is not among the targets"));
    }
    let both_ways =
        matches!(route, Route::Either(..)) || job.mode.as_deref() == Some("two_way_auto");
    if tags.len() > 1 && both_ways {
        let text = "several are possible one way only: name the source, without two_way_auto";
        return Err(wrong("targets", text));
    }
    job.tgt_lang = first;
    let routes = match route {
        Route::Either(..) => Ok(Routes::one(route)),
        Route::Directed(source, _) => {
            Routes::new(tags.iter().map(|target| Route::Directed(source, *target)))
        }
    };
    routes.map_err(|error| wrong("targets", error))
}

/// A direction that needs translation, if there is one.
fn translated(routes: &Routes) -> Route {
    let needs = |(_, route): &(_, Route)| route.directions().any(|(src, tgt)| src != tgt);
    routes.iter().find(needs).map_or(routes.first(), |(_, route)| route)
}

/// The steps for a target that is the language spoken, if there is one among several.
fn untranslated(routes: &Routes, speech: bool) -> Option<JsonObject> {
    let same = |(_, route): &(_, Route)| route.directions().all(|(src, tgt)| src == tgt);
    let (_, route) = routes.iter().find(same).filter(|_| routes.lanes() > 1)?;
    Some(JsonObject(whole_pipeline(route, Form { speech, typed: false })))
}

/// The steps that a node is to take, and whether the last of them is to speak.
fn steps(own: Option<JsonObject>, route: Route, form: Form) -> Result<(JsonObject, bool), Refusal> {
    #[derive(Deserialize)]
    struct Steps {
        use_asr: Option<bool>,
        use_tts: Option<bool>,
    }
    let Some(own) = own else {
        return Ok((JsonObject(whole_pipeline(route, form)), form.speech));
    };
    let steps: Steps = serde_json::from_str(own.get())
        .map_err(|_| wrong("pipeline.use_tts and use_asr", "are true or false, and said once"))?;
    if form.typed && steps.use_asr == Some(true) {
        return Err(wrong("pipeline.use_asr", "is true, and of a text nothing is recognised"));
    }
    Ok((own, steps.use_tts.unwrap_or(form.speech)))
}
