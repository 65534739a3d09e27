//! Nodes that miss a model or a service for a direction: they are not chosen for it for a while.

use lingua_core::NodeId;
use lingua_core::eligibility::Route;
use tokio::time::Instant;

use super::{Nodes, gap_name};

/// Marks that are kept; one more replaces the oldest.
const MAX_MARKS: usize = 4_096;

/// Which nodes are not chosen for which direction, the oldest mark first.
#[derive(Default)]
pub(crate) struct Marks(Vec<Mark>);

struct Mark {
    node: NodeId,
    route: Route,
    /// What it misses, if the node named it.
    missing: Option<String>,
    until: Instant,
}

impl Marks {
    /// Nodes that are marked for this direction, the oldest mark first.
    pub fn of(&mut self, route: Route, now: Instant) -> Vec<NodeId> {
        if self.0.is_empty() {
            return Vec::new();
        }
        self.0.retain(|mark| mark.until > now);
        self.0.iter().filter(|mark| mark.route == route).map(|mark| mark.node.clone()).collect()
    }

    /// The node misses something for this direction.
    pub fn note(&mut self, node: NodeId, route: Route, missing: Option<String>, until: Instant) {
        self.0.retain(|mark| (&mark.node, mark.route) != (&node, route));
        if self.0.len() >= MAX_MARKS {
            self.0.remove(0);
        }
        self.0.push(Mark { node, route, missing, until });
    }

    /// The node has it now.
    pub fn end(&mut self, node: &NodeId, has: &str) {
        self.0.retain(|mark| mark.node != *node || mark.missing.as_deref() != Some(has));
    }
}

impl Nodes {
    /// A node has these services now.
    pub(crate) fn end_marks(&self, id: &NodeId, services: &[String]) {
        let names = services.iter().filter_map(|service| gap_name(service));
        names.for_each(|name| self.marks().end(id, name.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lingua_core::Lang;

    use super::*;

    fn id(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn route(src: &str, tgt: &str) -> Route {
        Route::Directed(Lang::new(src).unwrap(), Lang::new(tgt).unwrap())
    }

    #[tokio::test]
    async fn marks_are_of_one_direction_and_end_by_time_or_by_the_nodes_word() {
        let (now, mut marks) = (Instant::now(), Marks::default());
        let (there, back) = (route("en", "zh"), route("zh", "en"));
        let later = |ms| now + Duration::from_millis(ms);
        marks.note(id("a"), there, Some("nmt-1".into()), later(100));
        marks.note(id("b"), there, None, later(200));
        marks.note(id("a"), back, Some("nmt-2".into()), later(300));
        assert_eq!(marks.of(there, now), [id("a"), id("b")], "the oldest first");
        marks.note(id("a"), there, Some("nmt-1".into()), later(150));
        assert_eq!(marks.of(there, now), [id("b"), id("a")]);
        marks.end(&id("b"), "nmt-1");
        marks.end(&id("a"), "nmt-2");
        assert_eq!((marks.of(there, now).len(), marks.of(back, now).len()), (2, 0));
        marks.end(&id("a"), "nmt-1");
        assert_eq!(marks.of(there, now), [id("b")]);
        assert_eq!(marks.of(there, later(200)), []);
    }

    #[tokio::test]
    async fn marks_are_bounded() {
        let (now, mut marks) = (Instant::now(), Marks::default());
        for n in 0..=MAX_MARKS {
            let until = now + Duration::from_secs(1);
            marks.note(id(&format!("n{n}")), route("en", "zh"), None, until);
        }
        assert_eq!(marks.of(route("en", "zh"), now).len(), MAX_MARKS);
    }
}
