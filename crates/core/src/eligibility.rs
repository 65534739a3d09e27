//! The one predicate that says whether a node may take a job, with every reason why not.
//!
//! Pools are built with it, and a grant holds only on the very profile it was evaluated on: the
//! store refuses a reservation whose profile version is not the node's current one.

use std::fmt;
use std::str::FromStr;

use crate::ids::{ModelId, TenantId};
use crate::inventory::{Ask, Asks};
use crate::lang::Lang;
use crate::node::{Health, NodeProfile, ServiceKind};

/// The direction of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Route {
    /// From the first into the second.
    Directed(Lang, Lang),
    /// The node finds out which of the two is spoken, so it must serve both directions.
    Either(Lang, Lang),
}

impl Route {
    /// The directions a node must serve.
    pub fn directions(&self) -> impl Iterator<Item = (Lang, Lang)> {
        let (first, second) = match *self {
            Route::Directed(src, tgt) => ((src, tgt), None),
            Route::Either(a, b) => ((a, b), (a != b).then_some((b, a))),
        };
        std::iter::once(first).chain(second)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Directed(src, tgt) => write!(f, "{src}->{tgt}"),
            Route::Either(a, b) => write!(f, "{a}<->{b}"),
        }
    }
}

impl FromStr for Route {
    type Err = NotARoute;

    /// Reads what `Display` writes: `src->tgt`, or `a<->b`.
    fn from_str(text: &str) -> Result<Self, NotARoute> {
        let lang = |tag: &str| tag.parse::<Lang>().map_err(|_| NotARoute);
        // The sign of both directions contains that of one.
        if let Some((a, b)) = text.split_once("<->") {
            return Ok(Route::Either(lang(a)?, lang(b)?));
        }
        let (src, tgt) = text.split_once("->").ok_or(NotARoute)?;
        Ok(Route::Directed(lang(src)?, lang(tgt)?))
    }
}

/// The text is neither `src->tgt` nor `a<->b` with two languages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a direction is src->tgt, or a<->b for both")]
pub struct NotARoute;

/// What a job asks of a node's abilities.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Need {
    /// The direction.
    pub route: Route,
    /// The answer must be spoken.
    pub speech: bool,
    /// What is to be translated is a text: nothing has to be recognised.
    pub typed: bool,
    /// What the job asks for by name: services beyond recognition, repair, translation and speech, models,
    /// features and regions.
    pub asks: Asks,
    /// Whose job it is.
    pub tenant: TenantId,
    /// The job names this very node, so a private one may take it.
    pub named: bool,
}

impl Need {
    /// Whether what goes in is text, and what comes out speech.
    pub fn form(&self) -> Form {
        Form { speech: self.speech, typed: self.typed }
    }

    /// A direction and nothing beyond it.
    pub fn of(route: Route, speech: bool, tenant: TenantId) -> Self {
        Need { route, speech, typed: false, asks: Asks::NONE, tenant, named: false }
    }
}

/// Whether what goes in is text, and what comes out speech.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Form {
    /// The answer must be spoken.
    pub speech: bool,
    /// What is to be translated is a text.
    pub typed: bool,
}

/// What a node is at the moment, apart from its abilities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Where it is in its life.
    pub health: Health,
    /// Its heartbeat is not overdue.
    pub fresh: bool,
    /// It reports too little resource left. That is a preference, not a reason: others first.
    pub overloaded: bool,
    /// Slots that it fills like any other node; those above are opened only for a job that finds no
    /// other free slot.
    pub trusted: u32,
    /// Models it reported missing and whose absence is still remembered.
    pub missing_models: Vec<ModelId>,
}

impl Standing {
    /// A node that takes jobs.
    pub const READY: Standing = Standing {
        health: Health::Ready,
        fresh: true,
        overloaded: false,
        trusted: u32::MAX,
        missing_models: Vec::new(),
    };
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $word:literal),+ $(,)?) => {
        /// One reason why a node cannot take a job.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum WhyNot { $($(#[$doc])* $name),+ }

        impl WhyNot {
            /// Every reason, in the order of the tests.
            pub const ALL: &[WhyNot] = &[$(WhyNot::$name),+];

            /// A stable word for metrics, logs and answers.
            pub fn as_str(self) -> &'static str {
                match self { $(WhyNot::$name => $word),+ }
            }
        }
    };
}

reasons! {
    /// It does not recognise the source language.
    Asr = "asr",
    /// It takes speech, and the job has a text.
    Text = "text",
    /// It does not repair the source language.
    Semantic = "semantic",
    /// It does not translate this direction.
    Nmt = "nmt",
    /// It does not speak the target language.
    Tts = "tts",
    /// A needed service is not there or not ready.
    Service = "service",
    /// A needed model is not there or not loaded, or it reported it missing.
    Model = "model",
    /// A needed feature is not there.
    Feature = "feature",
    /// It is in none of the regions where the job may be.
    Region = "region",
    /// The tenant is not on its allow-list.
    Tenant = "tenant",
    /// It takes only jobs that name it.
    Private = "private",
    /// Its health is not ready.
    Health = "health",
    /// Its heartbeat is overdue.
    Stale = "stale",
}

impl WhyNot {
    /// Why a node that has not what is asked for may not take the job.
    pub fn of(ask: Ask<'_>) -> Self {
        match ask {
            Ask::Service(_) => WhyNot::Service,
            Ask::Model(_) => WhyNot::Model,
            Ask::Feature(_) => WhyNot::Feature,
            Ask::Regions(_) => WhyNot::Region,
        }
    }
}

/// A set of reasons; empty means eligible.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct WhyNots(u16);

impl WhyNots {
    /// Whether nothing speaks against the node.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `reason` is one of them.
    pub fn contains(self, reason: WhyNot) -> bool {
        self.0 & (1 << reason as u16) != 0
    }

    /// The reasons, in the order of the tests.
    pub fn iter(self) -> impl Iterator<Item = WhyNot> {
        WhyNot::ALL.iter().copied().filter(move |reason| self.contains(*reason))
    }

    fn add_if(&mut self, applies: bool, reason: WhyNot) {
        self.0 |= u16::from(applies) << reason as u16;
    }
}

impl fmt::Debug for WhyNots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Whether the node may take the job.
pub fn eligible(node: &NodeProfile, standing: &Standing, need: &Need) -> bool {
    why_not(node, standing, need).is_empty()
}

/// Every reason why the node may not take the job; none means it may.
pub fn why_not(node: &NodeProfile, standing: &Standing, need: &Need) -> WhyNots {
    let mut why = WhyNots::default();
    for (src, tgt) in need.route.directions() {
        let translates = src == tgt || node.service_ready(ServiceKind::NMT);
        let hears = node.asr.serves(&src) && node.service_ready(ServiceKind::ASR);
        why.add_if(!(need.typed || hears), WhyNot::Asr);
        why.add_if(
            !(node.semantic.serves(&src) && node.service_ready(ServiceKind::SEMANTIC)),
            WhyNot::Semantic,
        );
        why.add_if(!(node.nmt.serves(&src, &tgt) && translates), WhyNot::Nmt);
        let speaks = node.tts.serves(&tgt) && node.service_ready(ServiceKind::TTS);
        why.add_if(need.speech && !speaks, WhyNot::Tts);
    }
    why.add_if(need.typed && !node.takes_text(), WhyNot::Text);
    for ask in need.asks.each() {
        why.add_if(!node.has(ask, &standing.missing_models), WhyNot::of(ask));
    }
    let allowed = node.tenants.as_ref().is_none_or(|list| list.contains(&need.tenant));
    why.add_if(!allowed, WhyNot::Tenant);
    why.add_if(node.private && !need.named, WhyNot::Private);
    why.add_if(standing.health != Health::Ready, WhyNot::Health);
    why.add_if(!standing.fresh, WhyNot::Stale);
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{Required, Requirements};
    use crate::lang::LangSet;
    use crate::node::{Declaration, NmtPairs, TAKES_TEXT};

    fn lang(tag: &str) -> Lang {
        Lang::new(tag).unwrap()
    }

    fn langs(tags: &[&str]) -> LangSet {
        LangSet::new(tags.iter().map(|t| lang(t))).unwrap()
    }

    fn declared() -> Declaration {
        Declaration {
            semantic: langs(&["en", "zh"]),
            tts: Some(langs(&["en", "zh"])),
            max_slots: 2,
            ..Default::default()
        }
    }

    fn need(src: &str, tgt: &str) -> Need {
        let route = Route::Directed(lang(src), lang(tgt));
        Need::of(route, true, TenantId::new("t").unwrap())
    }

    fn required(words: &[&str]) -> Vec<Required> {
        words.iter().map(|word| word.parse().unwrap()).collect()
    }

    fn runs(words: &[&str]) -> Asks {
        Asks::new(Requirements { services: required(words), ..Requirements::default() })
    }

    fn reasons(declared: Declaration, standing: Standing, need: &Need) -> Vec<WhyNot> {
        let node = NodeProfile::from_declaration(declared).unwrap();
        why_not(&node, &standing, need).iter().collect()
    }

    #[test]
    fn an_able_node_has_no_reason_against_it() {
        assert_eq!(reasons(declared(), Standing::READY, &need("en", "zh")), []);
        assert_eq!(reasons(declared(), Standing::READY, &need("en-US", "zh-CN")), []);
    }

    #[test]
    fn semantic_repair_of_the_source_is_a_hard_gate() {
        let d = Declaration { asr: Some(langs(&["de"])), nmt: Some(NmtPairs::Any), ..declared() };
        assert_eq!(reasons(d, Standing::READY, &need("de", "en")), [WhyNot::Semantic]);
    }

    #[test]
    fn a_pair_is_directed_and_its_reverse_is_another_pair() {
        let zh_en = NmtPairs::pairs([(lang("zh"), lang("en"))]).unwrap();
        let d = Declaration { nmt: Some(zh_en), ..declared() };
        assert_eq!(reasons(d.clone(), Standing::READY, &need("zh", "en")), []);
        assert_eq!(reasons(d.clone(), Standing::READY, &need("en", "zh")), [WhyNot::Nmt]);
        let either = Need { route: Route::Either(lang("zh"), lang("en")), ..need("zh", "en") };
        assert_eq!(reasons(d, Standing::READY, &either), [WhyNot::Nmt]);
    }

    #[test]
    fn a_direction_is_read_as_it_is_written() {
        for route in
            [Route::Directed(lang("de"), lang("en")), Route::Either(lang("de"), lang("zh-Hant"))]
        {
            assert_eq!(route.to_string().parse(), Ok(route));
        }
        for bad in ["", "de", "->", "de->", "<->en", "de<-en", "de< ->en"] {
            assert_eq!(bad.parse::<Route>(), Err(NotARoute), "{bad}");
        }
    }

    #[test]
    fn a_language_into_itself_needs_no_translation_service() {
        let d = Declaration {
            nmt: Some(NmtPairs::pairs([]).unwrap()),
            services: [(ServiceKind::new("NMT").unwrap(), false)].into(),
            ..declared()
        };
        let node = NodeProfile::from_declaration(d).unwrap();
        let node = NodeProfile { agent: 1, ..node };
        assert!(eligible(&node, &Standing::READY, &need("en", "en")));
        let why = why_not(&node, &Standing::READY, &need("en", "zh"));
        assert_eq!(why.iter().collect::<Vec<_>>(), [WhyNot::Nmt]);
    }

    #[test]
    fn a_text_only_node_serves_only_jobs_that_want_no_speech() {
        let d = Declaration { tts: None, ..declared() };
        assert_eq!(reasons(d.clone(), Standing::READY, &need("en", "zh")), [WhyNot::Tts]);
        let text = Need { speech: false, ..need("en", "zh") };
        assert_eq!(reasons(d, Standing::READY, &text), []);
    }

    #[test]
    fn overload_and_little_trust_are_no_reasons_against_a_node() {
        let busy = Standing { overloaded: true, trusted: 0, ..Standing::READY };
        assert_eq!(reasons(declared(), busy, &need("en", "zh")), []);
    }

    /// Existing agents list every installed service, also those that are stopped.
    #[test]
    fn the_language_lists_of_an_agent_without_supports_decide() {
        let stopped = ["asr", "semantic", "nmt", "tts"];
        let services = stopped.map(|kind| (ServiceKind::new(kind).unwrap(), false)).into();
        let node = NodeProfile::from_declaration(Declaration { services, ..declared() }).unwrap();
        let why = |agent: u8| {
            let node = NodeProfile { agent, ..node.clone() };
            why_not(&node, &Standing::READY, &need("en", "zh")).iter().collect::<Vec<_>>()
        };
        assert_eq!(why(0), []);
        assert_eq!(why(1), [WhyNot::Asr, WhyNot::Semantic, WhyNot::Nmt, WhyNot::Tts]);
        let tone = Need { asks: runs(&["nmt"]), ..need("en", "zh") };
        let why: Vec<_> = why_not(&node, &Standing::READY, &tone).iter().collect();
        assert_eq!(why, [WhyNot::Service], "a service that the job names must be ready");
    }

    #[test]
    fn every_reason_is_reported_and_not_only_the_first() {
        let d = Declaration {
            tenants: Some([TenantId::new("other").unwrap()].into()),
            private: true,
            ..declared()
        };
        let standing = Standing {
            health: Health::Draining,
            fresh: false,
            overloaded: true,
            trusted: 0,
            missing_models: vec![ModelId::new("m.1").unwrap()],
        };
        let asks = Asks::new(Requirements {
            services: required(&["tone"]),
            models: required(&["m@1"]),
            features: required(&["emotion"]),
            regions: vec!["eu".parse().unwrap()],
            ..Requirements::default()
        });
        let need = Need { asks, ..need("fr", "de") };
        // A text needs no recognition, so one of the two is never there.
        let speech: Vec<WhyNot> =
            WhyNot::ALL.iter().copied().filter(|why| *why != WhyNot::Text).collect();
        assert_eq!(reasons(d.clone(), standing.clone(), &need), speech);
        let text: Vec<WhyNot> =
            WhyNot::ALL.iter().copied().filter(|why| *why != WhyNot::Asr).collect();
        assert_eq!(reasons(d, standing, &Need { typed: true, ..need }), text);
    }

    #[test]
    fn a_text_needs_no_recogniser_and_a_node_that_takes_text() {
        let deaf = Declaration { asr: Some(LangSet::default()), ..declared() };
        let node = NodeProfile::from_declaration(deaf).unwrap();
        let takes = NodeProfile { agent: TAKES_TEXT, ..node.clone() };
        let (spoken, typed) = (need("en", "zh"), Need { typed: true, ..need("en", "zh") });
        let why = |node: &NodeProfile, need: &Need| {
            why_not(node, &Standing::READY, need).iter().collect::<Vec<_>>()
        };
        assert_eq!(why(&takes, &typed), []);
        assert_eq!(why(&node, &typed), [WhyNot::Text]);
        assert_eq!(why(&takes, &spoken), [WhyNot::Asr]);
        let unrepaired = Need { typed: true, ..need("de", "zh") };
        assert_eq!(why(&takes, &unrepaired), [WhyNot::Semantic, WhyNot::Nmt]);
    }
}
