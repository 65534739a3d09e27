//! Which language tags the nodes of a fleet mention, and so which questions they can tell apart.

use super::{Ability, PoolKey, SafeMap};
use crate::eligibility::{Need, Route};
use crate::lang::Lang;
use crate::node::{NmtPairs, NodeProfile};

/// Stands for every target that no node mentions: only those who translate into anything serve it.
const UNMENTIONED: &str = "und";

/// Every tag that some node mentions anywhere in its profile, and how often.
#[derive(Debug, Default)]
pub(super) struct Tags {
    mentions: SafeMap<Box<str>, (Lang, u64)>,
    translate_anything: usize,
}

impl Tags {
    pub fn learn(&mut self, profile: &NodeProfile) {
        self.translate_anything += usize::from(profile.nmt == NmtPairs::Any);
        each_tag(profile, |tag| {
            if let Some((_, count)) = self.mentions.get_mut(tag.as_str()) {
                *count += 1;
            } else {
                self.mentions.insert(tag.as_str().into(), (*tag, 1));
            }
        });
    }

    pub fn forget(&mut self, profile: &NodeProfile) {
        self.translate_anything -= usize::from(profile.nmt == NmtPairs::Any);
        each_tag(profile, |tag| {
            let (_, count) = self.mentions.get_mut(tag.as_str()).expect("learnt before");
            *count -= 1;
            if *count == 0 {
                self.mentions.remove(tag.as_str());
            }
        });
    }

    /// The most special tag that a node mentions and that serves `wanted`. Whoever serves the one
    /// serves the other, because every list with a tag that serves `wanted` has this one or a more
    /// general one in it.
    fn narrow(&self, wanted: &Lang) -> Option<Lang> {
        let mut tag = wanted.as_str();
        loop {
            if let Some((lang, _)) = self.mentions.get(tag) {
                return Some(*lang);
            }
            tag = &tag[..tag.rfind('-')?];
        }
    }

    /// The tag that stands for `wanted` in pools.
    pub fn nearest(&self, wanted: &Lang) -> Lang {
        self.narrow(wanted).unwrap_or_else(|| Lang::new(UNMENTIONED).expect("a tag"))
    }

    /// See [`super::Fleet::key`]. Also says whether every member of that pool has all that the pair
    /// asks for. It is not so for two tags that fall into one: they make a pair that needs no
    /// translation, whose pool holds all that serve the two and maybe more.
    pub fn key(&self, route: Route, speech: bool) -> Option<(PoolKey, bool)> {
        let (route, exact) = match route {
            Route::Either(a, b) if a != b => {
                let (a, b) = (self.narrow(&a)?, self.narrow(&b)?);
                // Both directions are asked for, whichever is named first.
                let both = Route::Either(a.min(b), a.max(b));
                if a == b { (Route::Directed(a, a), false) } else { (both, true) }
            }
            Route::Directed(from, into) | Route::Either(from, into) => {
                let src = self.narrow(&from)?;
                match self.narrow(&into) {
                    Some(tgt) => (Route::Directed(src, tgt), (src == tgt) == (from == into)),
                    None if speech || self.translate_anything == 0 => return None,
                    None => {
                        let exact = !self.mentions.contains_key(UNMENTIONED);
                        (Route::Directed(src, self.nearest(&into)), exact)
                    }
                }
            }
        };
        Some((PoolKey { route, speech }, exact))
    }

    /// What nobody can do for a job because no node mentions one of its languages, as far as it can
    /// be said without looking at any node. `None` if every language is mentioned, or is a target
    /// in writing that those may serve who translate into anything.
    pub fn unheard_of(&self, need: &Need) -> Option<Vec<Ability>> {
        let mut missing = Vec::new();
        for (src, tgt) in need.route.directions() {
            let (from, into) = (self.narrow(&src).is_some(), self.narrow(&tgt).is_some());
            if !from {
                missing.push(Ability::Semantic(src));
            }
            if src != tgt && !(from && into) && self.translate_anything == 0 {
                missing.push(Ability::Nmt(src, tgt));
            }
            if need.speech && !into {
                missing.push(Ability::Tts(tgt));
            }
        }
        (!missing.is_empty()).then_some(missing)
    }
}

fn each_tag(profile: &NodeProfile, mut visit: impl FnMut(&Lang)) {
    for set in [&profile.asr, &profile.semantic, &profile.tts] {
        set.iter().for_each(&mut visit);
    }
    match &profile.nmt {
        NmtPairs::Any => {}
        NmtPairs::Product(from, into) => from.iter().chain(into.iter()).for_each(visit),
        NmtPairs::Pairs(pairs) => pairs.iter().for_each(|(from, into)| {
            visit(from);
            visit(into);
        }),
    }
}
