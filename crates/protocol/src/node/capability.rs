//! What a node says it can do, the same over the socket and over HTTP.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use lingua_core::inventory::Inventory;
use lingua_core::lang::LangSet;
use lingua_core::limits::MAX_COST_MICROS;
use lingua_core::node::{Declaration, Health, NmtPairs, ServiceKind};
use lingua_core::outcome::Code;
use lingua_core::{Lang, Region};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use crate::Refusal;

/// Entries that any list of a node may have; what they mean may allow for fewer. A list of tens of
/// thousands is refused here, and what stands behind this entry costs nobody any time.
pub const MAX_ENTRIES: usize = 4_096;

/// A list that is refused at the first entry that it has too many.
pub fn few<'de, D, T>(from: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Few<T>>::deserialize(from)?.map(|few| few.0))
}

struct Few<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(FewOf(PhantomData)).map(Few)
    }
}

struct FewOf<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FewOf<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut read = Vec::new();
        while let Some(entry) = list.next_element()? {
            if read.len() == MAX_ENTRIES {
                let detail = format_args!("the list has more than {MAX_ENTRIES} entries");
                return Err(de::Error::custom(detail));
            }
            read.push(entry);
        }
        Ok(read)
    }
}

/// A node's translation directions as it sends them: a list of pairs, or `"any"`.
#[derive(Clone, PartialEq, Eq, Debug, ToSchema)]
#[serde(untagged)]
pub enum NmtField {
    /// Every direction, by the word `any`.
    Word(String),
    /// Just these.
    Pairs(Vec<Vec<String>>),
}

impl<'de> Deserialize<'de> for NmtField {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct WordOrPairs;

        impl<'de> Visitor<'de> for WordOrPairs {
            type Value = NmtField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"any\" or a list of pairs of languages")
            }

            fn visit_str<E>(self, word: &str) -> Result<NmtField, E> {
                Ok(NmtField::Word(word.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<NmtField, A::Error> {
                FewOf(PhantomData).visit_seq(list).map(NmtField::Pairs)
            }
        }

        from.deserialize_any(WordOrPairs)
    }
}

/// What one service type says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
pub struct TypeReady {
    /// `asr`, `nmt`, … in any case.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it works. Absent: true.
    #[serde(default)]
    pub ready: Option<bool>,
}

/// `language_capabilities` as nodes send it over the socket.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct Languages {
    /// What it recognises. Absent: what it repairs.
    #[serde(default, deserialize_with = "few")]
    #[schema(max_items = 64)]
    asr_languages: Option<Vec<String>>,
    /// What it repairs; at least one to register.
    #[serde(default, deserialize_with = "few")]
    #[schema(max_items = 64)]
    semantic_languages: Option<Vec<String>>,
    /// What it speaks. Absent: nothing.
    #[serde(default, deserialize_with = "few")]
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
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Abilities {
    /// What it recognises.
    pub asr: Option<Vec<String>>,
    /// What it repairs.
    pub semantic: Option<Vec<String>>,
    /// What it speaks.
    pub tts: Option<Vec<String>>,
    /// What it translates.
    pub nmt: Option<NmtField>,
    /// Readiness by service type.
    pub types: Vec<TypeReady>,
    /// Its slots.
    pub max_concurrent_jobs: Option<i64>,
    /// `false`: only jobs that name it.
    pub accept_public_jobs: Option<bool>,
    /// `false` while the semantic repair warms up or is down: the node can take nothing.
    pub semantic_core_ready: Option<bool>,
    /// Where it runs.
    pub region: Option<String>,
    /// What a job on it costs.
    pub cost: Option<f64>,
    /// What it has installed.
    pub inventory: Inventory,
}

impl Abilities {
    /// Takes over the lists of languages as a whole. A node that has lost its last language to
    /// repair keeps its record and is known to be unable. A newcomer without any is refused, unless it
    /// says that its services do not run yet.
    pub fn put_languages(&mut self, languages: Languages) {
        let Languages { asr_languages, semantic_languages, tts_languages, .. } = languages;
        let known = self.semantic.as_ref().is_some_and(|known| !known.is_empty());
        let lost = known && semantic_languages.as_ref().is_none_or(Vec::is_empty);
        if !lost {
            self.semantic = semantic_languages;
        }
        (self.asr, self.tts, self.nmt) = (asr_languages, tts_languages, languages.nmt_pairs);
        self.semantic_core_ready = if lost { Some(false) } else { languages.semantic_core_ready };
    }

    /// Where a node is in its life that does not say so: ready once it can repair what it hears.
    pub fn health(&self) -> Health {
        let repairs = self.semantic.as_ref().is_some_and(|languages| !languages.is_empty());
        match repairs && self.semantic_core_ready != Some(false) {
            true => Health::Ready,
            false => Health::Registering,
        }
    }

    /// Checks every list; the sentence of a refusal names the field.
    pub fn declaration(&self, default_slots: u32) -> Result<Declaration, Refusal> {
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
        let region = self.region.as_deref().filter(|name| !name.is_empty()).map(Region::new);
        let region = region.transpose().map_err(|error| incapable(format!("region: {error}")))?;
        let cost_micros = self.cost.map(micros).transpose()?.unwrap_or(0);
        let tenants = None;
        Ok(Declaration {
            semantic,
            asr,
            nmt,
            tts,
            services,
            max_slots,
            tenants,
            private,
            region,
            cost_micros,
            inventory: self.inventory.clone(),
        })
    }
}

fn incapable(detail: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidCapability, detail)
}

/// A cost in millionths, rounded.
fn micros(cost: f64) -> Result<u32, Refusal> {
    let most = f64::from(MAX_COST_MICROS) / 1e6;
    if !(0.0..=most).contains(&cost) {
        return Err(incapable(format!("cost is a number from 0 to {most}, not {cost}")));
    }
    Ok((cost * 1e6).round() as u32)
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
            let mut pairs = Vec::with_capacity(list.len());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_does_not_end_is_refused_at_its_first_entry_too_many() {
        let list = |entry: &str, many| format!("[{}]", vec![entry; many].join(","));
        for (field, entry) in [("semantic_languages", "\"en\""), ("nmt_pairs", "[\"en\",\"zh\"]")] {
            let said = |many| format!("{{\"{field}\":{}}}", list(entry, many));
            assert!(serde_json::from_str::<Languages>(&said(MAX_ENTRIES)).is_ok(), "{field}");

            // What follows is not even looked at: it would be no JSON.
            let more = said(MAX_ENTRIES + 1).replace("]}", ", what is this");
            let error = serde_json::from_str::<Languages>(&more).unwrap_err();
            assert!(error.is_data(), "{field}: {error}");
            assert!(error.to_string().contains("more than 4096 entries"), "{field}: {error}");
        }
    }

    #[test]
    fn a_region_and_a_cost_are_checked_by_their_names() {
        let abilities = |region: Option<&str>, cost| Abilities {
            region: region.map(str::to_owned),
            cost,
            ..Abilities::default()
        };
        for (cost, micros) in
            [(0.0, 0), (0.000_000_4, 0), (0.0015, 1_500), (1_000.0, 1_000_000_000)]
        {
            let declared = abilities(Some("eu-west.1"), Some(cost)).declaration(1).unwrap();
            assert_eq!(declared.cost_micros, micros, "{cost}");
            assert_eq!(declared.region.unwrap().as_str(), "eu-west.1");
        }
        for absent in [abilities(None, None), abilities(Some(""), None)] {
            let declared = absent.declaration(1).unwrap();
            assert_eq!((declared.region, declared.cost_micros), (None, 0));
        }
        for cost in [-0.1, 1_000.1, f64::NAN, f64::INFINITY] {
            let refusal = abilities(None, Some(cost)).declaration(1).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidCapability);
            assert!(refusal.detail.contains("cost is a number from 0 to 1000"), "{refusal:?}");
        }
        let refusal = abilities(Some("eu west"), None).declaration(1).unwrap_err();
        assert!(refusal.detail.contains("region: an id holds only letters"), "{refusal:?}");
    }

    #[test]
    fn a_list_that_is_absent_or_null_is_not_an_empty_one() {
        for said in ["{}", r#"{"semantic_languages": null, "nmt_pairs": null}"#] {
            let languages: Languages = serde_json::from_str(said).unwrap();
            assert_eq!((languages.semantic_languages, languages.nmt_pairs), (None, None), "{said}");
        }
        let languages: Languages = serde_json::from_str(r#"{"semantic_languages": []}"#).unwrap();
        assert_eq!(languages.semantic_languages, Some(Vec::new()));
    }
}
