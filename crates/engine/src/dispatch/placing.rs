//! How a job gets onto a node: choose, reserve, write down, send; or wait in line.

use std::sync::Arc;

use lingua_core::NodeId;
use lingua_core::eligibility::Need;
use lingua_core::job::JobStep;
use lingua_core::outcome::Code;
use lingua_core::select::{Candidate, Passed, Selector, Source, Verdict, Wish};
use tokio::time::Instant;

use super::JobEvent;
use super::asking::Asked;
use super::registry::Job;
use super::run::Run;
use crate::job::{Ended, Past, Refusal};

/// Nodes that look full and are asked all the same before the job gets in line: the store may know
/// of a slot that this instance does not.
const ASKED_THOUGH_FULL: u32 = 2;

impl Run {
    /// Gets the job onto a node. With `wait` it gets in line if all is full; without, it is content
    /// with nothing. `Err` is the job's ending; `Err(None)` if another instance has it.
    pub(super) async fn place(&mut self, wait: bool) -> Result<(), Option<Ended>> {
        self.traced.searches();
        let placed = self.find_place(wait).await;
        if let Err(ended) = &placed {
            self.traced.found_nobody(ended.as_ref());
        }
        placed
    }

    async fn find_place(&mut self, wait: bool) -> Result<(), Option<Ended>> {
        if wait {
            self.job.change(|view| Job::step(view, JobStep::Select));
        }
        let wish = self.wish().await;
        // Nodes that miss something for it and are asked all the same, because no other is left.
        let mut unmarked = Vec::new();
        let mut selector = self.selector(&wish, &unmarked);
        let (mut handed, mut full_asked) = (None, 0);
        // Called out of the line, and not yet back in it.
        let mut called = false;
        loop {
            if let Err(ended) = self.check_cancelled() {
                self.pass_on(handed);
                return Err(ended);
            }
            let paid = handed.is_some();
            let candidate = match handed.take().and_then(|node| self.handed(node)) {
                Some(handed) => Some(handed),
                None if !called && self.others_wait() => {
                    self.d.shared.fleet.choose_free(&mut selector)
                }
                None => self.d.shared.fleet.choose(&mut selector),
            };
            if let Some(candidate) = candidate {
                full_asked += u32::from(candidate.source == Source::Full);
                let passed = selector.preferred_passed();
                if let Some(passed) = passed.filter(|_| selector.candidates() == 1) {
                    self.note(format!("preferred node passed over: {}", passed_text(passed)));
                }
                let preferred = candidate.source == Source::Preferred;
                let asked = self.ask(candidate).await;
                match (&asked, paid) {
                    (Asked::Placed, false) if called => {
                        self.d.waiting.charge(&self.spec.need.tenant);
                        // Where one found a slot by looking there may be more.
                        self.d.waiting.look_again();
                    }
                    (Asked::Refused, true) => self.d.waiting.refund(&self.spec.need.tenant),
                    _ => {}
                }
                match asked {
                    Asked::Placed => return Ok(()),
                    Asked::Over(ended) => return Err(ended),
                    Asked::Refused if preferred => {
                        self.note("preferred node passed over: it has no slot free".into());
                        continue;
                    }
                    Asked::Refused if full_asked < ASKED_THOUGH_FULL => continue,
                    Asked::Refused => {}
                }
            }
            if !wait {
                return Err(None);
            }
            // Nodes that said they are busy are asked again, once no other is left.
            let busy = full_asked >= ASKED_THOUGH_FULL || !self.busy.is_empty();
            self.busy.clear();
            let verdict = if busy { Verdict::Busy } else { selector.verdict() };
            full_asked = 0;
            if self.is_content_with_less(verdict, &mut unmarked) {
                selector = self.selector(&wish, &unmarked);
                continue;
            }
            if let Some(ended) = self.hopeless(verdict) {
                return Err(Some(ended));
            }
            handed = self.wait_in_line(wish.strict).await?;
            called = true;
            selector = self.selector(&wish, &unmarked);
        }
    }

    /// Whether others are in line for the same. Then a slot of a node that looks full is on its way to
    /// one of them, and whoever asked for it in this moment would take it out of turn.
    fn others_wait(&self) -> bool {
        let need = &self.spec.need;
        self.d.waiting.length(need.route, need.speech) > 0
    }

    /// What the job wishes about its node, apart from those that failed it.
    async fn wish(&self) -> Wish {
        let spec = &self.spec;
        let past = match &spec.past {
            Some(past) => past.clone(),
            None => self.d.conversations.past(&spec.session),
        };
        let Past { last, heard } = past;
        let turn_node = match &spec.turn {
            Some(turn) => {
                let bound = self.d.shared.store.jobs.turn_node(&spec.session, turn).await;
                bound.unwrap_or_default()
            }
            None => None,
        };
        Wish {
            preferred: spec.preferred.clone(),
            strict: spec.strict,
            turn_node,
            avoid_last: last.filter(|_| self.d.shared.settings.avoid_last),
            excluded: Vec::new(),
            heard,
        }
    }

    fn selector(&self, wish: &Wish, unmarked: &[NodeId]) -> Selector {
        let mut excluded = self.d.nodes.marks().of(self.spec.need.route, Instant::now());
        excluded.retain(|node| !unmarked.contains(node));
        excluded.extend_from_slice(&self.excluded);
        excluded.extend_from_slice(&self.busy);
        excluded.extend(self.tries.iter().map(|live| live.slot.node.id.clone()));
        let wish = Wish { excluded, ..wish.clone() };
        let policy = self.d.shared.settings.select;
        Selector::new(self.spec.need.clone(), wish, policy, self.d.shared.chance.bits())
    }

    /// Whether the job looks again for less than it wanted.
    fn is_content_with_less(&mut self, verdict: Verdict, unmarked: &mut Vec<NodeId>) -> bool {
        let oldest = self.oldest_mark(verdict, unmarked);
        let found = oldest.is_some();
        unmarked.extend(oldest);
        found || self.is_content_with_text(verdict)
    }

    /// Of the nodes that are marked for this direction the one whose mark is the oldest, if no other is
    /// able: it may have what it missed by now, and nobody else can tell.
    fn oldest_mark(&self, verdict: Verdict, unmarked: &[NodeId]) -> Option<NodeId> {
        let only_marked = Verdict::PreferredNotCapable(Passed::Excluded);
        if verdict != Verdict::OnlyFailed && verdict != only_marked {
            return None;
        }
        let marked = self.d.nodes.marks().of(self.spec.need.route, Instant::now());
        let wanted = self.spec.preferred.as_ref().filter(|_| self.spec.strict);
        let mut marked = marked.into_iter().filter(|node| wanted.is_none_or(|only| only == node));
        marked.find(|node| !unmarked.contains(node) && !self.excluded.contains(node))
    }

    /// Whether the job goes on without a voice: no node has one for it, and its caller did not insist.
    fn is_content_with_text(&mut self, verdict: Verdict) -> bool {
        let asked = verdict == Verdict::NoneEligible && self.failure.is_none();
        if !(asked && self.spec.need.speech && self.spec.text_will_do) {
            return false;
        }
        let text = Need { speech: false, ..self.spec.need.clone() };
        let content = self.d.shared.fleet.lock().shortage(&text).is_none();
        if content {
            self.d.demand.note(self.spec.need.route, true);
            self.spec.need = text;
            self.spec.work = Arc::new(self.spec.work.without_voice());
            self.note("no node speaks the target language: the answer is text".into());
        }
        content
    }

    /// A node whose freed slot was handed to this job.
    fn handed(&self, node: NodeId) -> Option<Candidate> {
        let fleet = self.d.shared.fleet.lock();
        let version = *fleet.get(&node)?.version();
        Some(Candidate { node, version, source: Source::Handed })
    }

    fn check_cancelled(&mut self) -> Result<(), Option<Ended>> {
        while let Ok(event) = self.events.try_recv() {
            match event {
                // Beside a live attempt everything counts, and is looked at right after.
                event if !self.tries.is_empty() => self.later.push_back(event),
                JobEvent::Cancel { reason } => return Err(Some(Ended::Cancelled(reason.into()))),
                _ => {}
            }
        }
        if Instant::now() >= self.deadline {
            let late = Refusal::new(Code::JobTimeout, "the job's deadline passed");
            return Err(Some(Ended::Failed(late)));
        }
        Ok(())
    }

    /// No node may take the job now: what is missing, and when to try again if it passes.
    fn nobody(&self) -> Refusal {
        let shared = &self.d.shared;
        let shortage = shared.fleet.lock().shortage(&self.spec.need);
        let (code, detail) = match shortage {
            Some(shortage) => (shortage.code(), shortage.to_string()),
            None => {
                let changed = "The nodes that could take it changed a moment ago; try again.";
                (Code::NodeUnavailable, changed.to_owned())
            }
        };
        let refusal = Refusal::new(code, detail);
        match code {
            Code::NodeUnavailable => refusal.retry_after(shared.settings.timing.heartbeat_ms),
            _ => refusal,
        }
    }

    /// The ending, if waiting would not help.
    fn hopeless(&self, verdict: Verdict) -> Option<Ended> {
        let refusal = match verdict {
            Verdict::Busy | Verdict::PreferredBusy => return None,
            // Nobody is left after an attempt that failed: its failure is the ending.
            _ if self.failure.is_some() => self.failure.clone().expect("looked at a moment ago"),
            Verdict::PreferredNotCapable(_) => Refusal::new(
                Code::PreferredNodeNotCapable,
                "the node asked for cannot take this job, and no other is wanted",
            ),
            Verdict::OnlyFailed => {
                Refusal::new(Code::ModelNotAvailable, "every able node misses a model for it")
                    .retry_after(1_000)
            }
            Verdict::NoneEligible => {
                self.d.shared.metrics.pool_empty.inc();
                self.d.demand.note(self.spec.need.route, self.spec.need.speech);
                self.nobody()
            }
        };
        Some(Ended::Failed(refusal))
    }
}

fn passed_text(passed: Passed) -> String {
    match passed {
        Passed::Unknown => "unknown".into(),
        Passed::Excluded => "it failed this job".into(),
        Passed::NotEligible(why) => {
            let words: Vec<&str> = why.iter().map(|reason| reason.as_str()).collect();
            format!("not able ({})", words.join(", "))
        }
    }
}
