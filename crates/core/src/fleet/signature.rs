//! Bit sets that exclude most classes from a pool at little cost.

use std::hash::BuildHasher;

use super::SafeMap;
use super::offers::{Sort, each_offer};
use crate::eligibility::{Form, Route, WhyNot};
use crate::inventory::Asks;
use crate::lang::{Lang, LangSet};
use crate::node::{NmtPairs, NodeProfile, ServiceKind};

/// The languages and names of a profile as sets of bits, or those that a job asks for.
///
/// A class that serves a direction always passes. Some pass that do not serve it, because tags share bits. This
/// check is a hundred times faster than the predicate, which is applied to those that pass when they are
/// first drawn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signature {
    asr: u64,
    semantic: u64,
    into: u64,
    pairs: u64,
    tts: u64,
    /// Names of services, models and features. Of these all that are wanted are needed.
    names: u64,
    region: u64,
}

impl Signature {
    pub fn of(profile: &NodeProfile, bits: &mut TagBits) -> Self {
        let ready = |kind: &str, set: u64| if profile.service_ready(kind) { set } else { 0 };
        let (into, pairs) = match &profile.nmt {
            NmtPairs::Any => (u64::MAX, u64::MAX),
            NmtPairs::Product(_, into) => (bits.of_set(into), u64::MAX),
            NmtPairs::Pairs(list) => list.iter().fold((0, 0), |(targets, pairs), (from, into)| {
                let (from, into) = (bits.number(from.as_str()), bits.number(into.as_str()));
                (targets | 1 << into, pairs | 1 << pair_number(from, into))
            }),
        };
        let (mut names, mut region) = (0, 0);
        each_offer(profile, |sort, name, _| {
            let set = if sort == Sort::Region { &mut region } else { &mut names };
            *set |= bits.of_name(sort, name);
        });
        Signature {
            asr: ready(ServiceKind::ASR, bits.of_set(&profile.asr)),
            semantic: ready(ServiceKind::SEMANTIC, bits.of_set(&profile.semantic)),
            into: ready(ServiceKind::NMT, into),
            pairs: ready(ServiceKind::NMT, pairs),
            tts: ready(ServiceKind::TTS, bits.of_set(&profile.tts)),
            names,
            region,
        }
    }

    /// What is wanted of a node that serves a direction.
    pub fn wanted(src: &Lang, tgt: &Lang, form: Form, bits: &mut TagBits) -> Self {
        let (from, into) = (bits.that_serve(src), bits.that_serve(tgt));
        let set = |numbers: &[u8]| numbers.iter().fold(0, |set, n| set | 1u64 << n);
        let pairs = from.iter().flat_map(|from| into.iter().map(|into| pair_number(*from, *into)));
        let translated = src != tgt;
        Signature {
            asr: if form.typed { 0 } else { set(&from) },
            semantic: set(&from),
            into: if translated { set(&into) } else { 0 },
            pairs: if translated { set(&pairs.collect::<Vec<_>>()) } else { 0 },
            tts: if form.speech { set(&into) } else { 0 },
            ..Signature::default()
        }
    }

    /// The same, and what is asked for by name.
    pub fn and_asked(mut self, asks: &Asks, bits: &mut TagBits) -> Self {
        let lists = [
            (Sort::Service, &asks.services),
            (Sort::Model, &asks.models),
            (Sort::Feature, &asks.features),
        ];
        for (sort, list) in lists {
            for required in list {
                self.names |= bits.of_name(sort, required.name.as_str());
            }
        }
        // Of two lists that both hold one is enough to leave most out.
        let regions = if asks.regions.is_empty() { &asks.tenant_regions } else { &asks.regions };
        for region in regions {
            self.region |= bits.of_name(Sort::Region, region.as_str());
        }
        self
    }

    /// Whether this profile may have all that is wanted.
    fn has(&self, wanted: &Signature) -> bool {
        [WhyNot::Semantic, WhyNot::Nmt, WhyNot::Tts, WhyNot::Asr, WhyNot::Model, WhyNot::Region]
            .iter()
            .all(|reason| self.may_pass(*reason, wanted))
    }

    /// Whether this profile may have what keeps it from being refused for this reason.
    pub fn may_pass(&self, reason: WhyNot, wanted: &Signature) -> bool {
        let meets = |have: u64, want: u64| want == 0 || have & want != 0;
        match reason {
            WhyNot::Asr => meets(self.asr, wanted.asr),
            WhyNot::Semantic => meets(self.semantic, wanted.semantic),
            WhyNot::Nmt => meets(self.into, wanted.into) && meets(self.pairs, wanted.pairs),
            WhyNot::Tts => meets(self.tts, wanted.tts),
            WhyNot::Service | WhyNot::Model | WhyNot::Feature => {
                self.names & wanted.names == wanted.names
            }
            WhyNot::Region => meets(self.region, wanted.region),
            _ => true,
        }
    }
}

fn pair_number(from: u8, into: u8) -> u8 {
    from.wrapping_mul(29).wrapping_add(into.wrapping_mul(11)) % 64
}

/// What every member of a pool must have, as signatures: one for each direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignatureFilter {
    first: Signature,
    second: Option<Signature>,
}

impl SignatureFilter {
    pub fn new(route: &Route, form: Form, asks: &Asks, bits: &mut TagBits) -> Self {
        let mut wanted = route
            .directions()
            .map(|(a, b)| Signature::wanted(&a, &b, form, bits).and_asked(asks, bits));
        let first = wanted.next().expect("a route has a direction");
        SignatureFilter { first, second: wanted.next() }
    }

    pub fn passes(&self, class: &Signature) -> bool {
        class.has(&self.first) && self.second.as_ref().is_none_or(|second| class.has(second))
    }
}

/// Which bit stands for which language tag, and which for which other name.
#[derive(Debug, Default)]
pub(super) struct TagBits {
    langs: Bits,
    names: Bits,
}

impl TagBits {
    fn number(&mut self, tag: &str) -> u8 {
        self.langs.number(tag)
    }

    fn of_set(&mut self, set: &LangSet) -> u64 {
        set.iter().fold(0, |bits, tag| bits | 1 << self.number(tag.as_str()))
    }

    fn of_name(&mut self, sort: Sort, name: &str) -> u64 {
        1 << self.names.number(&sort.word(name))
    }

    /// Of the tag itself and of each more general one.
    fn that_serve(&mut self, wanted: &Lang) -> Vec<u8> {
        let mut tag = wanted.as_str();
        let mut numbers = vec![self.number(tag)];
        while let Some(end) = tag.rfind('-') {
            tag = &tag[..end];
            numbers.push(self.number(tag));
        }
        numbers
    }
}

/// Which bit stands for which word, for good, so that no signature ever has to be written anew. The
/// first words of a fleet, which tend to be those of most nodes, have one each. All others share the
/// rest among themselves: so a rare word is never mistaken for a common one.
#[derive(Debug, Default)]
struct Bits(SafeMap<Box<str>, u8>);

/// Words with a bit of their own.
const OWN_BITS: u8 = 48;

impl Bits {
    fn number(&mut self, word: &str) -> u8 {
        if let Some(number) = self.0.get(word) {
            return *number;
        }
        let next = self.0.len() as u8;
        if next < OWN_BITS {
            self.0.insert(word.into(), next);
            return next;
        }
        let shared = u64::from(64 - OWN_BITS);
        OWN_BITS + (self.0.hasher().hash_one(word) % shared) as u8
    }
}
