//! What a client has seen of the endings, and which of them can no longer be delivered again.

use super::routes::{Routes, targets};
use crate::eligibility::Route;
use crate::lang::Lang;

/// Spans of forgotten endings that are kept apart. Beyond this the oldest lose their languages.
const MAX_SPANS: usize = 16;

/// Up to which index a client that comes back has seen every ending.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LastSeen {
    /// Of all targets.
    pub all: Option<u64>,
    /// Of single targets, where it has seen more of one than of another.
    pub targets: Vec<(Lang, u64)>,
}

impl LastSeen {
    /// Every ending up to that index, whatever its target.
    pub fn all(index: Option<u64>) -> Self {
        LastSeen { all: index, targets: Vec::new() }
    }

    /// Up to where endings of this route were seen. Of a route whose target the node finds out, those of
    /// either target count: they are delivered in one order.
    pub(super) fn of(&self, route: &Route) -> Option<u64> {
        targets(route).filter_map(|target| self.target(target)).max().max(self.all)
    }

    /// Up to where every ending was seen, as far as the client says, of a session with these routes.
    pub(super) fn least(&self, routes: &Routes) -> Option<u64> {
        if self.targets.is_empty() {
            return self.all;
        }
        let named = self.targets.iter().map(|(_, index)| Some(*index)).min().flatten();
        let wanted = routes.iter().map(|(_, route)| self.of(&route)).min().flatten();
        named.min(wanted).max(self.all)
    }

    /// The highest index of which any ending was seen.
    pub(super) fn highest(&self) -> Option<u64> {
        self.targets.iter().map(|(_, index)| *index).max().max(self.all)
    }

    fn target(&self, target: Lang) -> Option<u64> {
        self.targets.iter().filter(|(named, _)| *named == target).map(|(_, index)| *index).max()
    }
}

/// Endings that were delivered and are no longer kept: one for each index from `first` to `last`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Their direction. `None` if it is not known any more: then all targets of these indices are meant.
    pub route: Option<Route>,
    /// The first index.
    pub first: u64,
    /// The last index.
    pub last: u64,
}

/// All endings that were delivered and are no longer kept, in few spans.
#[derive(Default)]
pub(super) struct Forgotten(Vec<Span>);

impl Forgotten {
    pub fn restore(spans: Vec<Span>) -> Self {
        let mut forgotten = Forgotten::default();
        for span in spans.into_iter().filter(|span| span.first <= span.last) {
            forgotten.add(span);
        }
        forgotten
    }

    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Adds one ending.
    pub fn note(&mut self, index: u64, route: Option<Route>) {
        self.add(Span { route, first: index, last: index });
    }

    pub fn add(&mut self, mut span: Span) {
        let Some(route) = span.route else { return self.add_unknown(span) };
        // Indices of which no direction is known stay so.
        if let Some(unknown) = self.0.iter().find(|known| known.route.is_none())
            && unknown.first <= span.first
        {
            span.first = span.first.max(unknown.last.saturating_add(1));
            if span.first > span.last {
                return;
            }
        }
        let adjoins = |known: &&mut Span| {
            known.route == Some(route)
                && span.first <= known.last.saturating_add(1)
                && known.first <= span.last.saturating_add(1)
        };
        match self.0.iter_mut().find(adjoins) {
            Some(known) => {
                known.first = known.first.min(span.first);
                known.last = known.last.max(span.last);
            }
            None => self.0.push(span),
        }
        if self.0.len() > MAX_SPANS {
            self.merge_oldest();
        }
    }

    /// Endings behind what the client has seen.
    pub fn after(&self, seen: &LastSeen, routes: &Routes) -> Vec<Span> {
        let unseen = |span: &Span| {
            let seen = match &span.route {
                Some(route) => seen.of(route),
                None => seen.least(routes),
            };
            let first = span.first.max(seen.map_or(0, |seen| seen.saturating_add(1)));
            (first <= span.last).then(|| Span { first, ..span.clone() })
        };
        self.0.iter().filter_map(unseen).collect()
    }

    /// The oldest span loses its direction.
    fn merge_oldest(&mut self) {
        let oldest = self.0.iter().enumerate().filter(|(_, span)| span.route.is_some());
        let Some(at) = oldest.min_by_key(|(_, span)| span.last).map(|(at, _)| at) else { return };
        let span = self.0.remove(at);
        self.add_unknown(Span { route: None, ..span });
    }

    /// Nothing is known of these indices but that they were delivered: spans of single routes end before
    /// them or begin behind them.
    fn add_unknown(&mut self, span: Span) {
        let (mut first, mut last) = (span.first, span.last);
        for known in self.0.iter().filter(|known| known.route.is_none()) {
            (first, last) = (first.min(known.first), last.max(known.last));
        }
        let mut spans = vec![Span { route: None, first, last }];
        for known in self.0.drain(..).filter(|known| known.route.is_some()) {
            let Span { route, first: from, last: to } = known;
            if from < first {
                spans.push(Span { route, first: from, last: to.min(first - 1) });
            }
            if to > last {
                spans.push(Span { route, first: from.max(last + 1), last: to });
            }
        }
        self.0 = spans;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lang(tag: &str) -> Lang {
        Lang::new(tag).unwrap()
    }

    fn to(tag: &str) -> Route {
        Route::Directed(lang("en"), lang(tag))
    }

    fn seen(all: Option<u64>, targets: &[(&str, u64)]) -> LastSeen {
        LastSeen { all, targets: targets.iter().map(|(tag, index)| (lang(tag), *index)).collect() }
    }

    #[test]
    fn what_was_seen_is_counted_by_target() {
        let both = Route::Either(lang("zh"), lang("en"));
        let said = seen(Some(2), &[("zh", 5), ("de", 1)]);
        assert_eq!((said.of(&to("zh")), said.of(&to("de"))), (Some(5), Some(2)));
        assert_eq!((said.of(&to("fr")), said.of(&both)), (Some(2), Some(5)));
        assert_eq!(said.highest(), Some(5));
        let routes = Routes::new([to("zh"), to("de")]).unwrap();
        assert_eq!(said.least(&routes), Some(2));
        assert_eq!(seen(None, &[("zh", 5), ("de", 4)]).least(&routes), Some(4));
        assert_eq!(seen(None, &[("zh", 5)]).least(&routes), None, "nothing was seen of de");
    }

    #[test]
    fn steady_targets_are_one_span_each_and_only_the_unseen_are_named() {
        let mut forgotten = Forgotten::default();
        for index in 0..100 {
            forgotten.note(index, Some(to("zh")));
            forgotten.note(index, Some(to("de")));
        }
        assert_eq!(forgotten.spans().len(), 2);
        let routes = Routes::new([to("zh"), to("de")]).unwrap();
        let after = forgotten.after(&seen(None, &[("zh", 99), ("de", 97)]), &routes);
        assert_eq!(after, [Span { route: Some(to("de")), first: 98, last: 99 }]);
        assert_eq!(forgotten.after(&LastSeen::all(Some(99)), &routes), []);
    }

    #[test]
    fn unknown_indices_in_between_leave_what_is_around_them() {
        let zh = Some(to("zh"));
        let mut forgotten = Forgotten::default();
        forgotten.add(Span { route: zh, first: 0, last: 9 });
        forgotten.add(Span { route: None, first: 4, last: 5 });
        forgotten.add(Span { route: zh, first: 5, last: 5 });
        let mut spans: Vec<_> =
            forgotten.spans().iter().map(|span| (span.first, span.last, span.route)).collect();
        spans.sort_unstable();
        assert_eq!(spans, [(0, 3, zh), (4, 5, None), (6, 9, zh)]);
    }

    #[test]
    fn ever_changing_directions_take_bounded_memory_and_no_index_is_named_twice() {
        let mut forgotten = Forgotten::default();
        for index in 0..1_000 {
            forgotten.note(index, Some(to(if index % 2 == 0 { "zh" } else { "de" })));
        }
        assert!(forgotten.spans().len() <= MAX_SPANS + 1);
        let routes = Routes::one(to("zh"));
        let mut named: Vec<u64> = forgotten
            .after(&LastSeen::default(), &routes)
            .iter()
            .flat_map(|span| span.first..=span.last)
            .collect();
        named.sort_unstable();
        assert_eq!(named, (0..1_000).collect::<Vec<_>>());
    }
}
