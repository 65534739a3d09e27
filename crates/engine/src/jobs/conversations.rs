//! Which nodes had the last utterances of conversations that have no session task to remember it.

use std::collections::HashMap;

use lingua_core::{NodeId, SessionKey};
use parking_lot::Mutex;

use crate::job::Past;

/// Conversations remembered in one generation. When it is full, the generation before is forgotten and a new one
/// begins. Conversations that go on move into the new one.
const PER_GENERATION: usize = 20_000;

type Generation = HashMap<SessionKey, Past, lingua_core::hash::Quality>;

pub(super) struct Conversations {
    generations: Mutex<(Generation, Generation)>,
    /// Whether it is counted how much each node had, and not only which node had the last utterance.
    counts: bool,
}

impl Conversations {
    /// `counts` says whether to remember how much each node heard.
    pub fn new(counts: bool) -> Self {
        Conversations { generations: Mutex::default(), counts }
    }

    /// What is remembered of this one.
    pub fn past(&self, session: &SessionKey) -> Past {
        let mut generations = self.generations.lock();
        let (present, former) = &mut *generations;
        if let Some(past) = present.get(session) {
            return past.clone();
        }
        match former.remove(session) {
            Some(past) => {
                present.insert(session.clone(), past.clone());
                past
            }
            None => Past::default(),
        }
    }

    /// An utterance of it went to this node.
    pub fn note(&self, session: &SessionKey, node: &NodeId) {
        let mut generations = self.generations.lock();
        let (present, former) = &mut *generations;
        if present.len() >= PER_GENERATION && !present.contains_key(session) {
            *former = std::mem::take(present);
        }
        let past = present.entry(session.clone()).or_default();
        past.last = Some(node.clone());
        if self.counts {
            past.heard.note(node);
        }
    }
}
