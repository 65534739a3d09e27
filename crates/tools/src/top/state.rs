//! What is known and what is looked at. Nothing here knows of a terminal, a socket or a clock.

use lingua_engine::snapshot::view::{Point, Snapshot, Stats};

use super::news::{News, Nodes, Sessions};

/// Points that are kept: half an hour of one every five seconds.
const HISTORY: usize = 360;

/// How long it is said that the line is back.
const NOTICE_MS: u64 = 8_000;

/// What can be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum View {
    #[default]
    Overview,
    Pairs,
    Nodes,
    Sessions,
    Instances,
}

impl View {
    pub(crate) const ALL: [View; 5] =
        [View::Overview, View::Pairs, View::Nodes, View::Sessions, View::Instances];

    pub(crate) fn name(self) -> &'static str {
        match self {
            View::Overview => "Overview",
            View::Pairs => "Pairs",
            View::Nodes => "Nodes",
            View::Sessions => "Sessions",
            View::Instances => "Instances",
        }
    }

    /// By what its list can be sorted; the first at the beginning.
    pub(crate) fn orders(self) -> &'static [&'static str] {
        match self {
            View::Overview => &[],
            View::Pairs => &["trouble", "name", "free slots", "queued"],
            View::Nodes => &["name", "state", "load", "time", "done"],
            View::Sessions => &["name", "instance", "newest", "utterances"],
            View::Instances => &["name", "sessions", "jobs", "inbox"],
        }
    }

    fn step(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// How one view is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub(crate) scroll: usize,
    pub(crate) order: usize,
    pub(crate) backwards: bool,
}

/// Whether the scheduler is heard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// Not yet.
    Waiting,
    /// It is.
    Live,
    /// It is not.
    Away {
        /// The reason, for people.
        why: String,
        /// When it is tried again.
        again_at_ms: u64,
    },
}

/// A key, by what it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Press {
    Next,
    Previous,
    Go(usize),
    Down,
    Up,
    PageDown,
    PageUp,
    Top,
    Bottom,
    Sort,
    Reverse,
    Help,
    Escape,
    Quit,
}

/// Everything that is known.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) url: String,
    pub(crate) stats: Option<Stats>,
    pub(crate) points: Vec<Point>,
    pub(crate) nodes: Option<Result<Nodes, String>>,
    pub(crate) sessions: Option<Result<Sessions, String>>,
    pub(crate) link: Link,
    pub(crate) now_ms: u64,
    /// When the scheduler was last heard.
    pub(crate) heard_ms: u64,
    pub(crate) view: View,
    pub(crate) help: bool,
    looks: [Look; View::ALL.len()],
    /// The life of the instance that answers, to notice its next one.
    boot: Option<(String, String)>,
    notice: Option<(u64, &'static str)>,
}

impl State {
    pub(crate) fn new(url: &str) -> Self {
        State {
            url: url.to_owned(),
            stats: None,
            points: Vec::new(),
            nodes: None,
            sessions: None,
            link: Link::Waiting,
            now_ms: 0,
            heard_ms: 0,
            view: View::default(),
            help: false,
            looks: [Look::default(); View::ALL.len()],
            boot: None,
            notice: None,
        }
    }

    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.stats.as_ref()?.snapshot.as_ref()
    }

    pub(crate) fn look(&self) -> Look {
        self.looks[self.view as usize]
    }

    pub(crate) fn look_at(&self, view: View) -> Look {
        self.looks[view as usize]
    }

    /// What is worth saying for a moment.
    pub(crate) fn notice(&self) -> Option<&'static str> {
        self.notice.filter(|(until, _)| *until > self.now_ms).map(|(_, said)| said)
    }

    /// Takes over what came.
    pub(crate) fn hear(&mut self, now_ms: u64, news: News) {
        self.now_ms = now_ms;
        match news {
            News::Stats(stats) => self.hear_stats(*stats),
            News::History(points) => {
                let known = std::mem::take(&mut self.points);
                self.points = points;
                known.into_iter().for_each(|point| self.keep(point));
            }
            News::Nodes(nodes) => self.nodes = Some(nodes),
            News::Sessions(sessions) => self.sessions = Some(sessions),
            News::Away { why, again_ms } => {
                self.link = Link::Away { why, again_at_ms: now_ms + again_ms };
            }
        }
    }

    fn hear_stats(&mut self, stats: Stats) {
        let back = self.stats.is_some() && self.link != Link::Live;
        let until = self.now_ms + NOTICE_MS;
        let boot = stats.snapshot.as_ref().and_then(|snapshot| {
            let me = snapshot.instances.iter().find(|one| one.id == stats.instance)?;
            Some((me.id.clone(), me.boot.clone()))
        });
        // Behind a load balancer another instance may answer: that is no restart.
        let same = |(known, new): &(&(String, String), &(String, String))| known.0 == new.0;
        let lives = self.boot.as_ref().zip(boot.as_ref()).filter(same);
        if lives.is_some_and(|(known, new)| known != new) {
            self.notice = Some((until, "Connected again: the scheduler has restarted."));
        } else if back {
            self.notice = Some((until, "Connected again."));
        }
        if boot.is_some() {
            self.boot = boot;
        }
        if let Some(snapshot) = &stats.snapshot {
            self.keep(Point::of(snapshot));
        }
        (self.stats, self.heard_ms, self.link) = (Some(stats), self.now_ms, Link::Live);
    }

    /// Keeps a point in its place; one that is known already is left as it is.
    fn keep(&mut self, point: Point) {
        if let Err(place) = self.points.binary_search_by_key(&point.at_ms, |known| known.at_ms) {
            self.points.insert(place, point);
        }
        let over = self.points.len().saturating_sub(HISTORY);
        self.points.drain(..over);
    }

    /// The points of the last minute.
    pub(crate) fn minute(&self) -> &[Point] {
        let since = self.snapshot().map_or(0, |snapshot| snapshot.at_ms).saturating_sub(60_000);
        let first = self.points.partition_point(|point| point.at_ms <= since);
        &self.points[first..]
    }

    /// Does what a key asks for; false if it is to end. `page` is how many lines are seen, and
    /// `last` the last line that can be the first one seen.
    pub(crate) fn press(&mut self, press: Press, page: usize, last: usize) -> bool {
        let look = &mut self.looks[self.view as usize];
        let step = page.saturating_sub(1).max(1);
        look.scroll = look.scroll.min(last);
        match press {
            Press::Quit => return false,
            Press::Help => self.help = !self.help,
            Press::Escape => self.help = false,
            Press::Next => self.go(self.view.step(1)),
            Press::Previous => self.go(self.view.step(View::ALL.len() - 1)),
            Press::Go(at) => self.go(View::ALL.get(at).copied().unwrap_or(self.view)),
            Press::Down => look.scroll = (look.scroll + 1).min(last),
            Press::Up => look.scroll = look.scroll.saturating_sub(1),
            Press::PageDown => look.scroll = (look.scroll + step).min(last),
            Press::PageUp => look.scroll = look.scroll.saturating_sub(step),
            Press::Top => look.scroll = 0,
            Press::Bottom => look.scroll = last,
            Press::Sort => {
                look.order = (look.order + 1) % self.view.orders().len().max(1);
                (look.scroll, look.backwards) = (0, false);
            }
            Press::Reverse => look.backwards = !look.backwards,
        }
        true
    }

    fn go(&mut self, view: View) {
        (self.view, self.help) = (view, false);
    }
}

#[cfg(test)]
pub(crate) mod tests;
