//! How long it takes until what a killed scheduler had works elsewhere.

use std::fmt;

use super::story::Story;
use crate::chaos::plan::Fault;
use crate::speech::Mark;

/// Another fault so near to a kill is part of what is measured.
const NEAR_US: u64 = 6_000_000;

/// Where a client was connected, and when something worked for it.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// When, and to which scheduler.
    connections: Vec<(u64, Option<usize>)>,
    gone: Vec<u64>,
    /// When, and since when it was waited for.
    worked: Vec<(u64, u64)>,
    /// Sentences that had no result: from when to when they were open, and which.
    unheard: Vec<(u64, u64, Mark)>,
}

impl Life {
    pub fn connected(&mut self, at_us: u64, scheduler: Option<usize>) {
        self.connections.push((at_us, scheduler));
    }

    pub fn gone(&mut self, at_us: u64) {
        self.gone.push(at_us);
    }

    pub fn worked(&mut self, at_us: u64, since_us: u64) {
        self.worked.push((at_us, since_us));
    }

    /// A sentence ended without a result.
    pub fn unheard(&mut self, from_us: u64, to_us: u64, mark: Mark) {
        self.unheard.push((from_us, to_us, mark));
    }

    /// Whether it was connected to this scheduler then.
    fn was_at(&self, scheduler: usize, at_us: u64) -> bool {
        let before = self.connections.iter().rev().find(|(at, _)| *at < at_us);
        before.is_some_and(|(since, there)| {
            let still = !self.gone.iter().any(|gone| since < gone && *gone < at_us);
            still && *there == Some(scheduler)
        })
    }

    /// How long after a kill it was connected again, and how long until something worked.
    fn after_kill(&self, scheduler: usize, kill_us: u64) -> Option<(u64, u64)> {
        if !self.was_at(scheduler, kill_us) {
            return None;
        }
        let (back, _) = self.connections.iter().find(|(at, _)| *at > kill_us)?;
        let (works, since) = self.worked.iter().find(|(at, _)| at > back)?;
        let waited = works.saturating_sub((*since).max(kill_us));
        Some((back - kill_us, waited.max(back - kill_us)))
    }
}

/// Times of many clients, in microseconds, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times(Vec<u64>);

impl Times {
    /// Puts them in order.
    pub fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that this share of all is not above, in milliseconds.
    pub fn share_ms(&self, share: f64) -> u64 {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).map_or(0, |us| us / 1_000)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| self.share_ms(share));
        write!(f, "p50 {p50} ms, p99 {p99} ms, max {max} ms ({})", self.count())
    }
}

/// What was measured after all kills of schedulers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How often a process was killed.
    pub kills: usize,
    /// Kills with no other fault near.
    pub alone: usize,
    /// Until a speaker's session was open elsewhere.
    pub sessions_back: Times,
    /// And until it had its next result, counted from the kill or the end of the sentence.
    pub sessions_work: Times,
    /// Until a node was registered elsewhere.
    pub nodes_back: Times,
    /// And until it had its next job.
    pub nodes_work: Times,
    /// The same, after kills with no other fault near: sessions.
    pub sessions_work_alone: Times,
    /// And nodes.
    pub nodes_work_alone: Times,
    /// Sentences that were open at a kill with no other fault near, and had no result.
    pub lost: Vec<String>,
}

impl Recovery {
    pub(super) fn measure(story: &Story, speakers: &[Life], nodes: &[Life]) -> Self {
        let mut kills = 0;
        let mut alone = 0;
        let mut all: [Vec<u64>; 6] = Default::default();
        let mut lost = Vec::new();
        for span in &story.spans {
            let Fault::KillScheduler { scheduler, .. } = span.fault else { continue };
            kills += 1;
            let (from, to) = (span.begin_us.saturating_sub(NEAR_US), span.begin_us + NEAR_US);
            let is_alone = story.during(from, to).all(|other| other.id == span.id);
            alone += usize::from(is_alone);
            for (lives, at) in [(speakers, 0), (nodes, 2)] {
                for life in lives {
                    let Some((back, works)) = life.after_kill(scheduler, span.begin_us) else {
                        continue;
                    };
                    all[at].push(back);
                    all[at + 1].push(works);
                    if is_alone {
                        all[4 + at / 2].push(works);
                        lost.extend(
                            life.unheard
                                .iter()
                                .filter(|(from, to, _)| {
                                    *from <= span.begin_us && span.begin_us <= *to
                                })
                                .map(|(_, _, mark)| {
                                    format!(
                                        "sentence {mark} at {:.3} s",
                                        story.second(span.begin_us)
                                    )
                                }),
                        );
                    }
                }
            }
        }
        let [sessions_back, sessions_work, nodes_back, nodes_work, sessions_alone, nodes_alone] =
            all.map(Times::of);
        Self {
            kills,
            alone,
            sessions_back,
            sessions_work,
            nodes_back,
            nodes_work,
            sessions_work_alone: sessions_alone,
            nodes_work_alone: nodes_alone,
            lost,
        }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "after {} kills of schedulers, {} of them alone:", self.kills, self.alone)?;
        writeln!(f, "  sessions open elsewhere     {}", self.sessions_back)?;
        writeln!(f, "  and with their next result  {}", self.sessions_work)?;
        writeln!(f, "    after kills alone         {}", self.sessions_work_alone)?;
        writeln!(f, "  nodes registered elsewhere  {}", self.nodes_back)?;
        writeln!(f, "  and with their next job     {}", self.nodes_work)?;
        write!(f, "    after kills alone         {}", self.nodes_work_alone)
    }
}
