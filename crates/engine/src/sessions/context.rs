//! The last sentences of a session, which go along with each job: whichever node gets it then knows
//! what the talk is about.

use std::collections::VecDeque;

use lingua_core::eligibility::Route;

/// The last sentences that were recognised.
pub(super) struct Context {
    last: VecDeque<Sentence>,
    max_sentences: usize,
    max_chars: usize,
}

struct Sentence {
    index: u64,
    route: Route,
    text: String,
}

impl Context {
    pub fn new(max_sentences: usize, max_chars: usize) -> Self {
        Context { last: VecDeque::new(), max_sentences, max_chars }
    }

    /// Adds what was recognised of an utterance. Of several targets the first counts: what was said is the
    /// same.
    pub fn add(&mut self, index: u64, route: Route, text: &str) {
        let text = text.trim();
        let known = self.last.iter().any(|sentence| sentence.index == index);
        if text.is_empty() || self.max_sentences == 0 || known {
            return;
        }
        if self.last.len() == self.max_sentences {
            if self.last.front().is_some_and(|oldest| index < oldest.index) {
                return;
            }
            self.last.pop_front();
        }
        // The end of a long one says more about what follows than its beginning.
        let skip = text.chars().count().saturating_sub(self.max_chars);
        let text = text.chars().skip(skip).collect();
        // A slow target may be the first to tell of an older sentence.
        let at = self.last.partition_point(|sentence| sentence.index < index);
        self.last.insert(at, Sentence { index, route, text });
    }

    /// What was said in the language that is spoken now; the newest that fit.
    pub fn before(&self, route: Route) -> Option<String> {
        let mut left = self.max_chars;
        let mut said: Vec<&str> = Vec::new();
        for Sentence { text, .. } in
            self.last.iter().rev().filter(|past| same_source(past.route, route))
        {
            let chars = text.chars().count();
            if chars > left {
                break;
            }
            left -= chars;
            said.push(text);
        }
        said.reverse();
        (!said.is_empty()).then(|| said.join(" "))
    }
}

/// Whether two routes are spoken in the same language; of one that leaves it open nobody knows.
fn same_source(a: Route, b: Route) -> bool {
    match (a, b) {
        (Route::Directed(a, _), Route::Directed(b, _)) => a == b,
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lingua_core::Lang;

    fn to(target: &str) -> Route {
        Route::Directed(Lang::new("en").unwrap(), Lang::new(target).unwrap())
    }

    #[test]
    fn a_sentence_counts_once_however_many_targets_it_has() {
        let mut context = Context::new(2, 40);
        context.add(1, to("zh"), "one");
        context.add(1, to("de"), "one");
        context.add(0, to("de"), " nought ");
        assert_eq!(context.before(to("fr")).as_deref(), Some("nought one"));
        context.add(2, to("de"), "two");
        assert_eq!(context.before(to("zh")).as_deref(), Some("one two"));
        let other = Route::Directed(Lang::new("zh").unwrap(), Lang::new("en").unwrap());
        assert_eq!(context.before(other), None);
    }
}
