//! Which language tags the nodes list, and so which language pairs need pools of their own.

use super::{Ability, PoolKey, SafeMap};
use crate::eligibility::{Form, Need, Route};
use crate::inventory::Asks;
use crate::lang::Lang;
use crate::node::{NmtPairs, NodeProfile};

/// Stands for every target that no node lists: only nodes that translate into anything serve it.
const UNLISTED: &str = "und";

/// Every tag in the profile of a node, and in how many classes.
#[derive(Debug, Default)]
pub(super) struct LanguageTags {
    listed: SafeMap<Box<str>, (Lang, u64)>,
    translate_anything: usize,
}

impl LanguageTags {
    pub fn add(&mut self, profile: &NodeProfile) {
        self.translate_anything += usize::from(profile.nmt == NmtPairs::Any);
        each_tag(profile, |tag| {
            if let Some((_, count)) = self.listed.get_mut(tag.as_str()) {
                *count += 1;
            } else {
                self.listed.insert(tag.as_str().into(), (*tag, 1));
            }
        });
    }

    pub fn remove(&mut self, profile: &NodeProfile) {
        self.translate_anything -= usize::from(profile.nmt == NmtPairs::Any);
        each_tag(profile, |tag| {
            let (_, count) = self.listed.get_mut(tag.as_str()).expect("added before");
            *count -= 1;
            if *count == 0 {
                self.listed.remove(tag.as_str());
            }
        });
    }

    /// The most specific tag that a node lists and that serves `wanted`. A node serves the one if and only if
    /// it serves the other: a list with a tag that serves `wanted` has this tag or a more general one.
    fn most_specific(&self, wanted: &Lang) -> Option<Lang> {
        let mut tag = wanted.as_str();
        loop {
            if let Some((lang, _)) = self.listed.get(tag) {
                return Some(*lang);
            }
            tag = &tag[..tag.rfind('-')?];
        }
    }

    /// The tag of `wanted` in keys of pools.
    pub fn pool_tag(&self, wanted: &Lang) -> Lang {
        self.most_specific(wanted).unwrap_or_else(|| Lang::new(UNLISTED).expect("a tag"))
    }

    /// See [`super::Fleet::key`]. Also says whether every member of that pool has all that the pair
    /// asks for. It is not so for two tags that fall into one: they make a pair that needs no
    /// translation, whose pool holds all that serve the two and maybe more.
    pub fn key(&self, route: Route, form: Form, asks: Asks) -> Option<(PoolKey, bool)> {
        let Form { speech, typed } = form;
        let (route, exact) = match route {
            Route::Either(a, b) if a != b => {
                let (a, b) = (self.most_specific(&a)?, self.most_specific(&b)?);
                // Both directions are asked for, whichever is named first.
                let both = Route::Either(a.min(b), a.max(b));
                if a == b { (Route::Directed(a, a), false) } else { (both, true) }
            }
            Route::Directed(from, into) | Route::Either(from, into) => {
                let src = self.most_specific(&from)?;
                match self.most_specific(&into) {
                    Some(tgt) => (Route::Directed(src, tgt), (src == tgt) == (from == into)),
                    None if speech || self.translate_anything == 0 => return None,
                    None => {
                        let exact = !self.listed.contains_key(UNLISTED);
                        (Route::Directed(src, self.pool_tag(&into)), exact)
                    }
                }
            }
        };
        Some((PoolKey { route, speech, typed, asks }, exact))
    }

    /// What no node can do for a job because none lists one of its languages. Looks at no node. Empty if every
    /// language is listed, or is a written target that a node may serve that translates into anything.
    pub fn unserved(&self, need: &Need) -> Vec<Ability> {
        let mut missing = Vec::new();
        for (src, tgt) in need.route.directions() {
            let (from, into) =
                (self.most_specific(&src).is_some(), self.most_specific(&tgt).is_some());
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
        missing
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
