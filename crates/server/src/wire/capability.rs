//! What a node says it can do, the same over the socket and over HTTP.

use std::collections::BTreeMap;

use lingua_core::Lang;
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, NmtPairs, ServiceKind};
use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;
use serde::Deserialize;
use utoipa::ToSchema;

/// A node's translation directions as it sends them: a list of pairs, or `"any"`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum NmtField {
    /// Every direction, by the word `any`.
    Word(String),
    /// Just these.
    Pairs(Vec<Vec<String>>),
}

/// What one service type says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
pub(crate) struct TypeReady {
    /// `asr`, `nmt`, … in any case.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Whether it works. Absent: true.
    #[serde(default)]
    pub(crate) ready: Option<bool>,
}

/// `language_capabilities` as nodes send it over the socket.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(crate) struct Languages {
    /// What it recognises. Absent: what it repairs.
    #[schema(max_items = 64)]
    asr_languages: Option<Vec<String>>,
    /// What it repairs; at least one to register.
    #[schema(max_items = 64)]
    semantic_languages: Option<Vec<String>>,
    /// What it speaks. Absent: nothing.
    #[schema(max_items = 64)]
    tts_languages: Option<Vec<String>>,
    /// What it translates: `any`, or pairs of source and target. Absent: from what it repairs into
    /// what it speaks, or into what it repairs if it speaks nothing.
    #[schema(inline)]
    nmt_pairs: Option<NmtField>,
    /// False while it warms up.
    semantic_core_ready: Option<bool>,
}

/// The lists of a node, as they came. `None` is a list that was not sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Abilities {
    pub(crate) asr: Option<Vec<String>>,
    pub(crate) semantic: Option<Vec<String>>,
    pub(crate) tts: Option<Vec<String>>,
    pub(crate) nmt: Option<NmtField>,
    /// Readiness by service type.
    pub(crate) types: Vec<TypeReady>,
    pub(crate) max_concurrent_jobs: Option<i64>,
    pub(crate) accept_public_jobs: Option<bool>,
    /// `false` while the semantic repair warms up or is down: the node can take nothing.
    pub(crate) semantic_core_ready: Option<bool>,
}

impl Abilities {
    /// Takes over the lists of languages as a whole. A node that has lost its last language to
    /// repair keeps its record and is known to be unable; only a newcomer without any is refused.
    pub(crate) fn put_languages(&mut self, languages: Languages) {
        let Languages { asr_languages, semantic_languages, tts_languages, .. } = languages;
        let lost = semantic_languages.as_ref().is_none_or(Vec::is_empty);
        if !lost || self.semantic.is_none() {
            self.semantic = semantic_languages;
        }
        (self.asr, self.tts, self.nmt) = (asr_languages, tts_languages, languages.nmt_pairs);
        self.semantic_core_ready = if lost { Some(false) } else { languages.semantic_core_ready };
    }

    /// Checks every list; the sentence of a refusal names the field.
    pub(crate) fn declaration(&self, default_slots: u32) -> Result<Declaration, Refusal> {
        let semantic = langs("semantic languages", self.semantic.as_deref().unwrap_or(&[]))?;
        let asr = self.asr.as_deref().map(|list| langs("asr languages", list)).transpose()?;
        let tts = self.tts.as_deref().map(|list| langs("tts languages", list)).transpose()?;
        let nmt = self.nmt.as_ref().map(pairs).transpose()?;
        let mut services = BTreeMap::new();
        for TypeReady { kind, ready } in &self.types {
            let kind = ServiceKind::new(kind).map_err(|error| incapable(error.to_string()))?;
            // Several implementations of one type: one that works is enough.
            *services.entry(kind).or_insert(false) |= ready.unwrap_or(true);
        }
        if self.semantic_core_ready == Some(false) {
            services.insert(ServiceKind::new(ServiceKind::SEMANTIC).expect("a fixed word"), false);
        }
        let max_slots = match self.max_concurrent_jobs {
            None => default_slots,
            Some(slots) => u32::try_from(slots)
                .map_err(|_| incapable(format!("max_concurrent_jobs cannot be {slots}")))?,
        };
        let private = self.accept_public_jobs == Some(false);
        Ok(Declaration { semantic, asr, nmt, tts, services, max_slots, tenants: None, private })
    }
}

fn incapable(detail: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidCapability, detail)
}

fn langs(field: &str, list: &[String]) -> Result<LangSet, Refusal> {
    let wrong = |error| incapable(format!("{field}: {error}"));
    let langs: Result<Vec<Lang>, _> = list.iter().map(|tag| Lang::new(tag)).collect();
    LangSet::new(langs.map_err(wrong)?).map_err(wrong)
}

fn pairs(field: &NmtField) -> Result<NmtPairs, Refusal> {
    let wrong = |detail: String| incapable(format!("nmt_pairs: {detail}"));
    match field {
        NmtField::Word(word) if word.eq_ignore_ascii_case("any") => Ok(NmtPairs::Any),
        NmtField::Word(word) => Err(wrong(format!("{word:?} is neither \"any\" nor a list"))),
        NmtField::Pairs(list) => {
            let mut pairs = Vec::with_capacity(list.len().min(4_096));
            for pair in list {
                let [src, tgt] = pair.as_slice() else {
                    return Err(wrong("every entry is a list of two languages".into()));
                };
                let lang = |tag: &str| Lang::new(tag).map_err(|error| wrong(error.to_string()));
                pairs.push((lang(src)?, lang(tgt)?));
            }
            NmtPairs::pairs(pairs).map_err(|error| wrong(error.to_string()))
        }
    }
}
