//! What else to do with a job for which no node does all that is wanted.

use super::Fleet;
use crate::eligibility::{Need, Route};
use crate::lang::Lang;

/// What a caller takes when the best is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fallbacks {
    /// The translation in writing, in place of speech.
    pub captions: bool,
    /// The translation by way of another language.
    pub pivot: bool,
    /// What was said, in writing and not translated.
    pub original: bool,
}

impl Fallbacks {
    /// Nothing but what was asked for.
    pub const NONE: Fallbacks = Fallbacks { captions: false, pivot: false, original: false };
}

/// In which form an answer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerForm {
    /// The translation, spoken.
    Speech,
    /// The translation in writing.
    Captions,
    /// What was said in writing, not translated.
    Original,
}

impl AnswerForm {
    /// All of them, the best first.
    pub const ALL: [AnswerForm; 3] =
        [AnswerForm::Speech, AnswerForm::Captions, AnswerForm::Original];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            AnswerForm::Speech => "speech",
            AnswerForm::Captions => "captions",
            AnswerForm::Original => "original",
        }
    }

    /// Of a translation that is to be spoken or not.
    pub fn of(speech: bool) -> Self {
        if speech { AnswerForm::Speech } else { AnswerForm::Captions }
    }
}

/// One way to be of use all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Translate in writing.
    Captions,
    /// Translate into this language first, and from there.
    Pivot {
        /// The language in between.
        via: Lang,
        /// The end of it is spoken.
        speech: bool,
    },
    /// Recognise what was said, and leave it at that.
    Original,
}

impl Fleet {
    /// The first of the ways that a node would take now, in this order: in writing, by way of one of the
    /// `pivots`, by way of one in writing, the original. A translation straight from what was said goes
    /// before one of a translation.
    pub fn another_way(&mut self, need: &Need, ways: Fallbacks, pivots: &[Lang]) -> Option<Way> {
        let text = Need { speech: false, ..need.clone() };
        let captions = ways.captions && need.speech;
        if captions && self.shortage(&text).is_none() {
            return Some(Way::Captions);
        }
        for (wanted, is_wanted) in [(need, ways.pivot), (&text, ways.pivot && captions)] {
            let via = pivots.iter().filter(|_| is_wanted).find(|via| self.can_pivot(wanted, via));
            if let Some(via) = via {
                return Some(Way::Pivot { via: *via, speech: wanted.speech });
            }
        }
        let original = original(need).filter(|_| ways.original);
        original.filter(|need| self.shortage(need).is_none()).map(|_| Way::Original)
    }

    fn can_pivot(&mut self, need: &Need, via: &Lang) -> bool {
        legs(need, via).is_some_and(|legs| legs.iter().all(|leg| self.shortage(leg).is_none()))
    }
}

/// The two needs of a translation by way of `via`: into it in writing, and from there of a text. `None` if
/// it would be no other way.
pub fn legs(need: &Need, via: &Lang) -> Option<[Need; 2]> {
    let Route::Directed(src, tgt) = need.route else { return None };
    let alike = |one: &Lang| one.serves(via) || via.serves(one);
    if src == tgt || alike(&src) || alike(&tgt) {
        return None;
    }
    let into = Need { route: Route::Directed(src, *via), speech: false, ..need.clone() };
    let from = Need { route: Route::Directed(*via, tgt), typed: true, ..need.clone() };
    Some([into, from])
}

/// What it takes to write down what was said. Of a text there is nothing to write down, and where either of
/// two languages may be spoken nobody knows which it would be in.
pub fn original(need: &Need) -> Option<Need> {
    match need.route {
        Route::Directed(src, _) if !need.typed => {
            let route = Route::Directed(src, src);
            Some(Need { route, speech: false, ..need.clone() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{entry, id, langs, need, pair, writes};
    use super::*;
    use crate::fleet::NodeEntry;
    use crate::node::{Declaration, NmtPairs, NodeProfile, TAKES_TEXT};

    const ALL: Fallbacks = Fallbacks { captions: true, pivot: true, original: true };

    fn lang(tag: &str) -> Lang {
        Lang::new(tag).unwrap()
    }

    /// Translates one direction, and takes text.
    fn node(src: &str, tgt: &str, speaks: bool) -> NodeEntry {
        let nmt = Some(NmtPairs::pairs([(lang(src), lang(tgt))]).unwrap());
        let tts = speaks.then(|| langs(&[tgt]));
        let entry = entry(Declaration { nmt, tts, ..writes(&[src], 1) });
        let profile = NodeProfile { agent: TAKES_TEXT, ..(*entry.profile).clone() };
        NodeEntry { profile: profile.into(), ..entry }
    }

    fn fleet(nodes: impl IntoIterator<Item = NodeEntry>) -> Fleet {
        let mut fleet = Fleet::default();
        for (n, node) in nodes.into_iter().enumerate() {
            fleet.put(id(&format!("n{n}")), node);
        }
        fleet
    }

    fn spoken(src: &str, tgt: &str) -> Need {
        Need { speech: true, ..need(src, tgt) }
    }

    #[test]
    fn the_straight_way_in_writing_goes_before_a_detour_and_a_detour_before_the_original() {
        let (en, fr) = (lang("en"), lang("fr"));
        let ways = |nodes: Vec<NodeEntry>, ways, pivots: &[Lang]| {
            fleet(nodes).another_way(&spoken("de", "zh"), ways, pivots)
        };
        let detour = || vec![node("de", "en", false), node("en", "zh", true)];
        let with = |one: NodeEntry| detour().into_iter().chain([one]).collect::<Vec<_>>();
        let via_en = |speech| Some(Way::Pivot { via: en, speech });
        assert_eq!(ways(with(node("de", "zh", false)), ALL, &[en]), Some(Way::Captions));
        assert_eq!(ways(detour(), ALL, &[fr, en]), via_en(true), "the first that there is");
        let in_writing = || vec![node("de", "en", false), node("en", "zh", false)];
        assert_eq!(ways(in_writing(), ALL, &[en]), via_en(false));
        let only_speech = Fallbacks { captions: false, ..ALL };
        assert_eq!(ways(in_writing(), only_speech, &[en]), Some(Way::Original));
        assert_eq!(ways(detour(), ALL, &[]), Some(Way::Original), "no pivot is named");
        assert_eq!(ways(detour(), Fallbacks { pivot: false, ..ALL }, &[en]), Some(Way::Original));
        assert_eq!(ways(detour(), Fallbacks::NONE, &[en]), None);
        assert_eq!(ways(vec![node("en", "zh", true)], ALL, &[en]), None, "nobody hears German");
    }

    #[test]
    fn a_detour_needs_a_node_that_takes_text_and_two_other_languages() {
        let en = lang("en");
        let mut deaf = node("en", "zh", true);
        deaf.profile = NodeProfile { agent: 0, ..(*deaf.profile).clone() }.into();
        let way = |nodes: Vec<NodeEntry>| {
            fleet(nodes).another_way(
                &spoken("de", "zh"),
                Fallbacks { original: false, ..ALL },
                &[en],
            )
        };
        assert_eq!(way(vec![node("de", "en", false), deaf]), None);
        for (src, tgt) in
            [("en", "zh"), ("en-GB", "zh"), ("de", "en"), ("de", "en-US"), ("de", "de")]
        {
            assert_eq!(legs(&spoken(src, tgt), &en), None, "{src} {tgt}");
        }
        let both = Need { route: Route::Either(lang("de"), lang("zh")), ..spoken("de", "zh") };
        assert_eq!((legs(&both, &en), original(&both)), (None, None));
        let [into, from] = legs(&spoken("de", "zh"), &en).unwrap();
        assert_eq!((into.route, into.speech, into.typed), (pair("de", "en"), false, false));
        assert_eq!((from.route, from.speech, from.typed), (pair("en", "zh"), true, true));
    }

    #[test]
    fn a_text_has_no_original() {
        let typed = Need { typed: true, ..need("de", "zh") };
        assert_eq!(original(&typed), None);
        assert_eq!(original(&spoken("de", "zh")).unwrap().route, pair("de", "de"));
    }
}
