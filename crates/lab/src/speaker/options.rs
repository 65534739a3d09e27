//! What one simulated speaker says of itself and how it keeps its connection.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde_json::{Value, json};

use super::voice::Continuing;
use crate::fake_node::merge;
use crate::speech::Codec;
use crate::{Journal, Persistence};

/// Everything that a current client can say that it supports.
pub const SUPPORTS: [&str; 4] = ["binary", "audio_ack", "resume", "events"];

/// One speaker. The default is a current client that speaks English and is translated to Chinese.
#[derive(Debug, Clone)]
pub struct SpeakerOptions {
    /// `ws://127.0.0.1:PORT/ws/session`
    pub url: String,
    /// From this language.
    pub src_lang: String,
    /// Into this one.
    pub tgt_lang: String,
    /// Into these, as a list; empty for a client that names one target.
    pub targets: Vec<String>,
    /// The two languages of a conversation in which the node finds out who speaks; the source is
    /// `auto` then.
    pub two_way: Option<(String, String)>,
    /// How its speech is written; said to the scheduler only by a client that lists `supports`.
    pub codec: Codec,
    /// Sent as it is; the field is left out if it is empty, as existing clients do. The speaker
    /// keeps audio until it is acknowledged, and can resume, only if it says so here.
    pub supports: Vec<String>,
    /// Numbers of chunks begin anew with each utterance, as those of some existing clients do.
    pub seq_per_utterance: bool,
    /// Time without a piece of speech that ends an utterance.
    pub pause_ms: Option<u64>,
    /// Speech after which one is cut.
    pub max_utterance_ms: Option<u64>,
    /// The credential.
    pub token: Option<String>,
    /// Put over the `session_init`: objects merge, anything else replaces.
    pub init_overrides: Value,
    /// The page that a browser names in the request for the socket, such as
    /// `http://localhost:9001`; apps name none.
    pub page: Option<String>,
    /// `web`, `android`, …
    pub platform: String,
    /// After how long an existing client makes a lost connection again, with a new session; never
    /// longer, never shorter.
    pub reconnect_after: Duration,
    /// More headers of the upgrade request.
    pub headers: Vec<(String, String)>,
    /// Whom to believe, for a URL that begins with `wss://`.
    pub tls: Option<Arc<ClientConfig>>,
    /// The local address, such as 127.0.0.7; the system's choice without it.
    pub from: Option<IpAddr>,
    /// How much is read from the socket at once.
    pub read_buffer_bytes: usize,
    /// How many bytes of speech are kept until they are acknowledged; the oldest go first.
    pub keep_bytes: usize,
    /// How many events a speaker's log holds; the oldest go first. Zero keeps none.
    pub log_capacity: usize,
    /// How long a wait for the scheduler may take before it is a failure.
    pub patience: Duration,
    /// What it does about schedulers that come and go.
    pub persistence: Persistence,
    /// Where it writes down what it says, hears and goes through.
    pub journal: Option<Journal>,
}

impl Default for SpeakerOptions {
    fn default() -> Self {
        Self {
            url: "ws://127.0.0.1:5010/ws/session".to_owned(),
            src_lang: "en".to_owned(),
            tgt_lang: "zh".to_owned(),
            targets: Vec::new(),
            two_way: None,
            codec: Codec::Opus,
            supports: SUPPORTS.map(str::to_owned).to_vec(),
            seq_per_utterance: false,
            pause_ms: None,
            max_utterance_ms: None,
            token: None,
            init_overrides: Value::Null,
            page: None,
            platform: "web".to_owned(),
            reconnect_after: Duration::from_secs(1),
            headers: Vec::new(),
            tls: None,
            from: None,
            read_buffer_bytes: 4 * 1024,
            keep_bytes: 4 << 20,
            log_capacity: 0,
            patience: Duration::from_secs(5),
            persistence: Persistence::default(),
            journal: None,
        }
    }
}

impl SpeakerOptions {
    /// The default speaker at that address.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Is a web client from before `supports`: audio in JSON, no acknowledgements, a new session
    /// after a lost connection. `go_away`, the `ERROR` of a `ui_event` and `missing_result` mean
    /// nothing to it; every `error` is a popup, which [`super::Report::popups`] counts.
    pub fn existing_client(mut self) -> Self {
        self.supports.clear();
        // It is served from another port than the scheduler, and may be by another name.
        self.page = Some("http://localhost:9001".to_owned());
        self
    }

    /// Is a mobile client from before `supports`: no page, samples instead of packets. It sends what
    /// [`super::Speaker::mobile_sentence`] says.
    pub fn mobile_client(mut self) -> Self {
        self = self.existing_client().codec(Codec::Pcm16);
        self.page = None;
        self.platform = "android".to_owned();
        self
    }

    /// Whether it is a client from before `supports`.
    pub(super) fn is_existing(&self) -> bool {
        self.supports.is_empty()
    }

    /// Is on this page.
    pub fn page(mut self, page: impl Into<String>) -> Self {
        self.page = Some(page.into());
        self
    }

    /// Supports these and nothing else.
    pub fn supports(mut self, supports: &[&str]) -> Self {
        self.supports = supports.iter().map(|&support| support.to_owned()).collect();
        self
    }

    /// Does not support that.
    pub fn without(mut self, support: &str) -> Self {
        self.supports.retain(|listed| listed != support);
        self
    }

    /// Shows this token in the request for the socket, before its first message.
    pub fn bearer(mut self, token: &str) -> Self {
        self.headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        self
    }

    /// From the one language into the other.
    pub fn languages(mut self, from: &str, to: &str) -> Self {
        (self.src_lang, self.tgt_lang) = (from.to_owned(), to.to_owned());
        self
    }

    /// From the one language into these, as a list.
    pub fn targets(mut self, from: &str, to: &[&str]) -> Self {
        self.src_lang = from.to_owned();
        self.tgt_lang = to.first().map(|tag| (*tag).to_owned()).unwrap_or_default();
        self.targets = to.iter().map(|tag| (*tag).to_owned()).collect();
        self
    }

    /// Both directions between these languages.
    pub fn two_way(mut self, one: &str, other: &str) -> Self {
        self.two_way = Some((one.to_owned(), other.to_owned()));
        self
    }

    /// Writes its speech so.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Ends an utterance after so long without a piece of speech.
    pub fn pause_ms(mut self, ms: u64) -> Self {
        self.pause_ms = Some(ms);
        self
    }

    /// Cuts an utterance after so much speech.
    pub fn max_utterance_ms(mut self, ms: u64) -> Self {
        self.max_utterance_ms = Some(ms);
        self
    }

    /// Comes from this local address.
    pub fn from_address(mut self, from: impl Into<IpAddr>) -> Self {
        self.from = Some(from.into());
        self
    }

    /// Shows this credential.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Puts these fields over the `session_init`.
    pub fn init_with(mut self, fields: Value) -> Self {
        self.init_overrides = fields;
        self
    }

    /// Writes down the last `capacity` events.
    pub fn logging(mut self, capacity: usize) -> Self {
        self.log_capacity = capacity;
        self
    }

    /// Waits this long before it calls a wait a failure.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether it lists that.
    pub(super) fn does(&self, support: &str) -> bool {
        self.supports.iter().any(|listed| listed == support)
    }

    /// `session_init`; for one that comes back, with where it was.
    pub(super) fn init(&self, continuing: Option<&Continuing>) -> Value {
        let mut message = json!({
            "type": "session_init",
            "client_version": env!("CARGO_PKG_VERSION"),
            "platform": self.platform,
            "src_lang": self.src_lang,
            "tgt_lang": self.tgt_lang,
            "dialect": null,
            "features": {},
            "pairing_code": null,
            "mode": "one_way",
        });
        if let Some((one, other)) = &self.two_way {
            let two_way = json!({ "mode": "two_way_auto", "src_lang": "auto", "lang_a": one,
                                  "lang_b": other, "auto_langs": [one, other] });
            merge(&mut message, &two_way);
        }
        if !self.supports.is_empty() {
            let new = json!({ "supports": self.supports, "codec": self.codec.name() });
            merge(&mut message, &new);
        }
        for (name, value) in
            [("pause_ms", self.pause_ms), ("max_utterance_ms", self.max_utterance_ms)]
        {
            if let Some(value) = value {
                message[name] = value.into();
            }
        }
        if let Some(token) = &self.token {
            message["token"] = json!(token);
        }
        if !self.targets.is_empty() {
            message["targets"] = json!(self.targets);
        }
        if let Some(Continuing { resume_token, last_index, last_indexes }) = continuing {
            message["resume_token"] = json!(resume_token);
            match self.targets.is_empty() {
                true => message["last_index"] = json!(last_index),
                false => message["last_indexes"] = json!(last_indexes),
            }
        }
        merge(&mut message, &self.init_overrides);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_client_sends_no_field_that_is_newer_than_it() {
        let message = SpeakerOptions::default().existing_client().init(None);
        for new in [
            "supports",
            "codec",
            "token",
            "resume_token",
            "last_index",
            "pause_ms",
            "max_utterance_ms",
        ] {
            assert!(message.get(new).is_none(), "{new}: {message}");
        }
        for needed in ["client_version", "platform", "src_lang", "tgt_lang"] {
            assert!(message[needed].is_string(), "{needed}: {message}");
        }
    }

    #[test]
    fn a_current_client_says_what_it_can_and_where_it_was() {
        let options = SpeakerOptions::default()
            .two_way("en", "zh")
            .codec(Codec::Pcm16)
            .pause_ms(500)
            .init_with(json!({ "tenant_id": "t" }));
        let last_indexes = [("zh".to_owned(), 4), ("de".to_owned(), 2)].into();
        let was = Continuing { resume_token: "R".into(), last_index: Some(4), last_indexes };
        let message = options.init(Some(&was));
        assert_eq!(message["supports"], json!(SUPPORTS));
        assert_eq!((&message["codec"], &message["pause_ms"]), (&json!("pcm16"), &json!(500)));
        assert_eq!(
            (&message["mode"], &message["src_lang"]),
            (&json!("two_way_auto"), &json!("auto"))
        );
        assert_eq!((&message["resume_token"], &message["last_index"]), (&json!("R"), &json!(4)));
        assert_eq!(message["tenant_id"], "t");
        let several = SpeakerOptions::default().targets("en", &["zh", "de"]).init(Some(&was));
        assert_eq!(
            (&several["targets"], &several["tgt_lang"]),
            (&json!(["zh", "de"]), &json!("zh"))
        );
        assert_eq!(several["last_indexes"], json!({ "zh": 4, "de": 2 }));
        assert!(several.get("last_index").is_none());
    }
}
