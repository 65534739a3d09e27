//! What a node says it can do, checked and completed once.

mod has;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{Region, TenantId};
use crate::inventory::{Inventory, ItemError};
use crate::lang::{Lang, LangSet};
use crate::limits::{
    MAX_COST_MICROS, MAX_ID_CHARS, MAX_NMT_PAIRS, MAX_SERVICES_PER_NODE, MAX_SLOTS,
    MAX_TENANTS_PER_NODE,
};

/// Where a node is in its life. Only a ready one gets jobs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Connected, warming up.
    Registering,
    /// Takes jobs.
    Ready,
    /// Failed too often, or says itself that it is unwell.
    Degraded,
    /// Finishes what it has, takes nothing new.
    Draining,
    /// Gone, by its own word or its owner's.
    Offline,
}

impl Health {
    /// All of them, in the order of a node's life.
    pub const ALL: [Health; 5] =
        [Health::Registering, Health::Ready, Health::Degraded, Health::Draining, Health::Offline];

    /// The word used on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Registering => "registering",
            Health::Ready => "ready",
            Health::Degraded => "degraded",
            Health::Draining => "draining",
            Health::Offline => "offline",
        }
    }

    /// The health that `word` names.
    pub fn parse(word: &str) -> Option<Health> {
        Self::ALL.into_iter().find(|health| health.as_str() == word)
    }
}

/// What an administrator wants of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// Nothing in particular.
    #[default]
    Serve,
    /// Finish what it has, take nothing new.
    Drain,
    /// Stay out.
    Block,
}

impl Order {
    /// A stable word for records and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Order::Serve => "serve",
            Order::Drain => "drain",
            Order::Block => "block",
        }
    }

    /// The order that such a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        [Order::Serve, Order::Drain, Order::Block].into_iter().find(|order| order.as_str() == word)
    }
}

/// A kind of service (`asr`, `nmt`, `tts`, `tone`, `semantic`, …): an open set, case does not matter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServiceKind(String);

impl ServiceKind {
    /// Speech recognition.
    pub const ASR: &'static str = "asr";
    /// Semantic repair of what was recognised; no job goes without it.
    pub const SEMANTIC: &'static str = "semantic";
    /// The translation service.
    pub const NMT: &'static str = "nmt";
    /// Speech synthesis.
    pub const TTS: &'static str = "tts";

    /// The kind that `text` names in any case; at most 64 printable ASCII characters.
    pub fn new(text: &str) -> Result<Self, CapabilityError> {
        let printable = text.chars().all(|c| c.is_ascii_graphic());
        if text.is_empty() || text.len() > MAX_ID_CHARS || !printable {
            return Err(CapabilityError::ServiceKind(text.chars().take(MAX_ID_CHARS).collect()));
        }
        Ok(ServiceKind(text.to_ascii_lowercase()))
    }

    /// The kind in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ServiceKind {
    type Error = CapabilityError;
    fn try_from(text: String) -> Result<Self, CapabilityError> {
        ServiceKind::new(&text)
    }
}

impl From<ServiceKind> for String {
    fn from(kind: ServiceKind) -> String {
        kind.0
    }
}

impl std::borrow::Borrow<str> for ServiceKind {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which directions a node translates.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NmtPairs {
    /// Every direction.
    Any,
    /// From every language of the first set into every one of the second.
    Product(LangSet, LangSet),
    /// Just these, sorted.
    Pairs(Vec<(Lang, Lang)>),
}

impl NmtPairs {
    /// Just `pairs`; repeats count once.
    pub fn pairs(pairs: impl IntoIterator<Item = (Lang, Lang)>) -> Result<Self, CapabilityError> {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        pairs.dedup();
        if pairs.len() > MAX_NMT_PAIRS {
            return Err(CapabilityError::TooManyPairs(pairs.len()));
        }
        Ok(NmtPairs::Pairs(pairs))
    }

    /// Whether `src -> tgt` is served; a language into itself needs no translation.
    pub fn serves(&self, src: &Lang, tgt: &Lang) -> bool {
        src == tgt
            || match self {
                NmtPairs::Any => true,
                NmtPairs::Product(from, into) => from.serves(src) && into.serves(tgt),
                NmtPairs::Pairs(pairs) => {
                    pairs.iter().any(|(from, into)| from.serves(src) && into.serves(tgt))
                }
            }
    }
}

/// Why a node's word about itself is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// Semantic repair is a hard gate; a node without it can serve nobody.
    #[error("semantic languages are empty: a node must list at least one language it can repair")]
    NoSemanticLanguage,
    /// More pairs than two full lists make.
    #[error("at most {MAX_NMT_PAIRS} translation pairs, this list has {0}")]
    TooManyPairs(usize),
    /// No slot, or more than any node has.
    #[error("max_concurrent_jobs is from 1 to {MAX_SLOTS}, not {0}")]
    Slots(u32),
    /// A service kind that is empty, too long or not printable.
    #[error("{0:?} is not a service type: 1 to {MAX_ID_CHARS} printable ASCII characters")]
    ServiceKind(String),
    /// More services than are kept.
    #[error("at most {MAX_SERVICES_PER_NODE} service types, this list has {0}")]
    TooManyServices(usize),
    /// A cost above all bounds.
    #[error("cost is from 0 to {}, counted in millionths", MAX_COST_MICROS / 1_000_000)]
    Cost,
    /// More tenants than are kept.
    #[error("at most {MAX_TENANTS_PER_NODE} tenants on an allow-list, this one has {0}")]
    TooManyTenants(usize),
    /// More of something than is kept.
    #[error(transparent)]
    Item(#[from] ItemError),
}

/// What a node declares; whatever it leaves out is `None`.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// Languages it repairs; at least one, unless it lists the service as not ready.
    pub semantic: LangSet,
    /// Languages it recognises; left out: those it repairs.
    pub asr: Option<LangSet>,
    /// Directions it translates; left out: from what it repairs into what it speaks, or into what
    /// it repairs if it speaks nothing.
    pub nmt: Option<NmtPairs>,
    /// Languages it speaks; left out: none, a text-only node.
    pub tts: Option<LangSet>,
    /// Which services are ready. A kind that is not listed counts as ready if the languages say so.
    pub services: BTreeMap<ServiceKind, bool>,
    /// Jobs it works on at the same time.
    pub max_slots: u32,
    /// Only these tenants' jobs; `None` for everybody's.
    pub tenants: Option<BTreeSet<TenantId>>,
    /// Only jobs that name this node.
    pub private: bool,
    /// Where it runs.
    pub region: Option<Region>,
    /// What a job on it costs, in millionths of a unit that all nodes share.
    pub cost_micros: u32,
    /// What it has installed.
    pub inventory: Inventory,
}

/// A node's abilities, complete and within bounds. It changes only as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeProfile {
    /// Languages it recognises.
    pub asr: LangSet,
    /// Languages it repairs.
    pub semantic: LangSet,
    /// Directions it translates.
    pub nmt: NmtPairs,
    /// Languages it speaks.
    pub tts: LangSet,
    /// Readiness of the services it listed.
    pub services: BTreeMap<ServiceKind, bool>,
    /// Jobs it works on at the same time, within what its credential allows.
    pub max_slots: u32,
    /// Only these tenants' jobs; `None` for everybody's.
    pub tenants: Option<BTreeSet<TenantId>>,
    /// Only jobs that name this node.
    pub private: bool,
    /// What its agent understands, as bits that only the scheduler's instances read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: u8,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub region: Option<Region>,
    /// What a job on it costs, in millionths of a unit that all nodes share; 0 if it does not say.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_micros: u32,
    /// What it has installed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inventory: Inventory,
}

/// The bit of [`NodeProfile::agent`] of an agent that takes a text in place of speech.
pub const TAKES_TEXT: u8 = 1 << 3;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl NodeProfile {
    /// Of a node that has said nothing yet: it can do nothing.
    pub fn none() -> Self {
        NodeProfile {
            asr: LangSet::default(),
            semantic: LangSet::default(),
            nmt: NmtPairs::Pairs(Vec::new()),
            tts: LangSet::default(),
            services: BTreeMap::new(),
            max_slots: 0,
            tenants: None,
            private: false,
            agent: 0,
            region: None,
            cost_micros: 0,
            inventory: Inventory::default(),
        }
    }

    /// Checks a declaration and fills in what it leaves out.
    pub fn from_declaration(declared: Declaration) -> Result<Self, CapabilityError> {
        let Declaration { semantic, asr, nmt, tts, services, max_slots, tenants, private, .. } =
            declared;
        let Declaration { region, cost_micros, inventory, .. } = declared;
        let inventory = inventory.bounded()?;
        // A node may be there before its services run; it has no language until they do.
        let warming = services.get(ServiceKind::SEMANTIC) == Some(&false);
        if semantic.is_empty() && !warming {
            return Err(CapabilityError::NoSemanticLanguage);
        }
        if !(1..=MAX_SLOTS).contains(&max_slots) {
            return Err(CapabilityError::Slots(max_slots));
        }
        if services.len() > MAX_SERVICES_PER_NODE {
            return Err(CapabilityError::TooManyServices(services.len()));
        }
        if let Some(tenants) = tenants.as_ref().filter(|t| t.len() > MAX_TENANTS_PER_NODE) {
            return Err(CapabilityError::TooManyTenants(tenants.len()));
        }
        if cost_micros > MAX_COST_MICROS {
            return Err(CapabilityError::Cost);
        }
        let tts = tts.unwrap_or_default();
        let spoken = if tts.is_empty() { &semantic } else { &tts };
        let nmt = nmt.unwrap_or_else(|| NmtPairs::Product(semantic.clone(), spoken.clone()));
        let asr = asr.unwrap_or_else(|| semantic.clone());
        Ok(NodeProfile {
            asr,
            semantic,
            nmt,
            tts,
            services,
            max_slots,
            tenants,
            private,
            agent: 0,
            region,
            cost_micros,
            inventory,
        })
    }

    /// Whether the service counts as running. An agent that lists nothing in `supports` makes its
    /// language lists from what it can do, and lists services that it does not need as stopped: its
    /// languages decide.
    pub(crate) fn service_ready(&self, kind: &str) -> bool {
        self.agent == 0 || !self.is_listed_down(kind)
    }

    /// Whether its agent takes a text in place of speech.
    pub fn takes_text(&self) -> bool {
        self.agent & TAKES_TEXT != 0
    }

    /// Whether the node lists the service as not ready.
    pub fn is_listed_down(&self, kind: &str) -> bool {
        self.services.get(kind) == Some(&false)
    }

    /// The services that the node lists as not ready.
    pub fn listed_down(&self) -> impl Iterator<Item = &ServiceKind> {
        self.services.iter().filter(|(_, ready)| !**ready).map(|(kind, _)| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn langs(tags: &[&str]) -> LangSet {
        LangSet::new(tags.iter().map(|t| Lang::new(t).unwrap())).unwrap()
    }

    fn lang(tag: &str) -> Lang {
        Lang::new(tag).unwrap()
    }

    #[test]
    fn a_node_without_semantic_languages_is_refused() {
        let declared =
            Declaration { max_slots: 1, asr: Some(langs(&["en"])), ..Default::default() };
        assert_eq!(
            NodeProfile::from_declaration(declared),
            Err(CapabilityError::NoSemanticLanguage)
        );
    }

    #[test]
    fn a_node_whose_services_do_not_run_yet_may_be_without_languages() {
        let services = [(ServiceKind::new(ServiceKind::SEMANTIC).unwrap(), false)].into();
        let declared = Declaration { max_slots: 1, services, ..Default::default() };
        let node = NodeProfile::from_declaration(declared).unwrap();
        assert!(node.semantic.is_empty() && node.asr.is_empty() && node.tts.is_empty());
        assert_eq!(node.listed_down().map(ServiceKind::as_str).collect::<Vec<_>>(), ["semantic"]);
    }

    #[test]
    fn what_a_node_leaves_out_follows_from_what_it_repairs() {
        let text_only =
            Declaration { semantic: langs(&["en", "zh"]), max_slots: 2, ..Default::default() };
        let node = NodeProfile::from_declaration(text_only.clone()).unwrap();
        assert_eq!(node.asr, node.semantic);
        assert!(node.tts.is_empty());
        assert!(
            node.nmt.serves(&lang("en"), &lang("zh")) && !node.nmt.serves(&lang("en"), &lang("de"))
        );

        let speaking = Declaration { tts: Some(langs(&["de"])), ..text_only };
        let node = NodeProfile::from_declaration(speaking).unwrap();
        assert!(
            node.nmt.serves(&lang("en"), &lang("de")) && !node.nmt.serves(&lang("en"), &lang("zh"))
        );
    }

    #[test]
    fn slots_are_at_least_one_and_bounded() {
        for slots in [0, MAX_SLOTS + 1, u32::MAX] {
            let declared =
                Declaration { semantic: langs(&["en"]), max_slots: slots, ..Default::default() };
            assert_eq!(NodeProfile::from_declaration(declared), Err(CapabilityError::Slots(slots)));
        }
    }

    #[test]
    fn translation_pairs_are_directed() {
        let pairs = NmtPairs::pairs([(lang("zh"), lang("en"))]).unwrap();
        assert!(
            pairs.serves(&lang("zh-CN"), &lang("en")) && !pairs.serves(&lang("en"), &lang("zh"))
        );
        assert!(
            pairs.serves(&lang("fr"), &lang("fr")),
            "a language into itself needs no translation"
        );
    }
}
