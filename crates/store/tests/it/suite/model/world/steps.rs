//! What each step is answered, and what it changes.

use super::*;

impl World {
    /// Node records.
    pub(super) fn about_nodes(&mut self, now: Moment, cast: &Cast, step: &Step) -> Option<Answer> {
        Some(match step.clone() {
            Step::Put { node, owner, claim, profile, vitals, known } => {
                let owner = cast.instances[owner].clone();
                let record = &mut self.nodes[node].record;
                let before = record.as_ref().map(|record| record.epoch);
                let epoch = match claim {
                    Claim::Newest => next_epoch(before, now),
                    Claim::Again(epoch) => epoch,
                };
                if let Some(newer) = before.filter(|before| *before > epoch) {
                    return Some(Answer::Put(Put::Superseded { epoch: newer }));
                }
                let replaced = record.as_ref().map(|record| record.owner.clone());
                let replaced = replaced.filter(|before| *before != owner);
                let new = if known { Trust::Unconfirmed } else { Trust::Full };
                let trust = record.as_ref().map_or(new, |record| record.trust);
                let fresh_until = now + vitals.fresh_for;
                *record = Some(Record { epoch, owner, profile, vitals, fresh_until, trust });
                Answer::Put(Put::Stored { epoch, replaced })
            }
            Step::Beat { node, epoch, profile, vitals } => {
                Answer::Beat(match &mut self.nodes[node].record {
                    Some(record) if record.epoch > epoch => {
                        BeatReply::Superseded { epoch: record.epoch }
                    }
                    Some(record) if record.epoch == epoch && record.profile == profile => {
                        record.vitals = vitals;
                        record.fresh_until = now + vitals.fresh_for;
                        BeatReply::Kept { confirmed: record.trust != Trust::Unconfirmed }
                    }
                    _ => BeatReply::PutAgain,
                })
            }
            Step::Offline { node, epoch } => Answer::Fenced(match &mut self.nodes[node].record {
                Some(record) if record.epoch > epoch => Fenced::Superseded { epoch: record.epoch },
                Some(record) => {
                    record.vitals.health = Health::Offline;
                    Fenced::Done
                }
                None => Fenced::Unknown,
            }),
            Step::Gap { node, lasting } => {
                let node = &mut self.nodes[node];
                if node.record.is_some() {
                    node.missing_model_until = node.missing_model_until.max(Some(now + lasting));
                }
                Answer::Noted
            }
            Step::Node { node } => Answer::Node(self.node(now, cast, node).map(Box::new)),
            _ => return None,
        })
    }

    /// Slot leases.
    pub(super) fn about_slots(&mut self, now: Moment, cast: &Cast, step: &Step) -> Option<Answer> {
        Some(match step.clone() {
            Step::Reserve { node, token, profile, model, lease } => {
                let node = &mut self.nodes[node];
                let refusal = node.refusal(now, cast, profile, model);
                Answer::Reserve(node.reserve(now, cast.tokens[token], refusal, lease))
            }
            Step::Commit { node, token, lease } => {
                let max = self.nodes[node].max();
                Answer::Commit(self.nodes[node].commit(now, cast.tokens[token], lease, max))
            }
            Step::Renew { node, token, lease } => {
                let token = cast.tokens[token];
                let renewed = self.nodes[node]
                    .leases
                    .iter_mut()
                    .find(|lease| lease.token == token && lease.running && lease.until > now);
                Answer::Renew(renewed.map(|known| {
                    known.until = now + lease;
                    known.until
                }))
            }
            Step::Release { node, token } => {
                Answer::Release(self.nodes[node].release(now, cast.tokens[token]))
            }
            Step::Confirm { node, epoch, running, lease, hold } => {
                let running =
                    running.map(|running| running.into_iter().map(|t| cast.tokens[t]).collect());
                Answer::Confirm(self.nodes[node].confirm(now, epoch, running, lease, hold))
            }
            Step::Usage { node } => {
                let count = |running| {
                    let live = self.nodes[node].leases.iter().filter(|l| l.until > now);
                    live.filter(|lease| lease.running == running).count() as u32
                };
                Answer::Usage(Usage { reserved: count(false), running: count(true) })
            }
            _ => return None,
        })
    }

    fn assign(&mut self, job: usize, to: Assignment) -> Answer {
        Answer::Assign(match &mut self.jobs[job] {
            None => Assign::Unknown,
            Some(job) if job.record.state.is_terminal() => Assign::Ended(job.record.state),
            Some(job) if job.record.assignment.as_ref() == Some(&to) => Assign::Assigned,
            Some(job) if to.token.attempt <= job.attempt() => {
                Assign::Stale { attempt: job.attempt() }
            }
            Some(_) if to.token.attempt > MAX_ATTEMPTS => Assign::Exhausted,
            Some(job) => {
                job.record.state = JobState::Dispatched;
                job.record.assignment = Some(to);
                Assign::Assigned
            }
        })
    }

    /// Job records.
    pub(super) fn about_jobs(&mut self, now: Moment, cast: &Cast, step: &Step) -> Option<Answer> {
        Some(match step.clone() {
            Step::Create { job, epoch, first, deadline_in } => {
                let newer = self.session.as_ref().map(|owner| owner.epoch);
                let newer = newer.filter(|newer| epoch.is_some_and(|epoch| epoch < *newer));
                Answer::Create(match (&self.jobs[job], newer) {
                    (_, Some(epoch)) => Create::Superseded { epoch },
                    (Some(known), None) => Create::Exists(known.record.clone()),
                    (None, None) => {
                        let deadline = now + deadline_in;
                        let state =
                            if first.is_some() { JobState::Dispatched } else { JobState::New };
                        let record = JobRecord {
                            session: cast.session.clone(),
                            state,
                            assignment: first.map(|first| cast.assignment(first)),
                            deadline,
                            code: String::new(),
                        };
                        self.jobs[job] = Some(Job { record, ended_by: None });
                        Create::Created
                    }
                })
            }
            Step::Assign { job, to } => self.assign(job, cast.assignment(to)),
            Step::Finish { job, by, state, code } => {
                let by = by.map_or(EndedBy::Owner, |by| EndedBy::Assignment(cast.assignment(by)));
                Answer::Finish(match &mut self.jobs[job] {
                    None => Finish::Unknown,
                    Some(job) if job.is_stale(&by) => Finish::Stale { attempt: job.attempt() },
                    Some(job) if job.record.state.is_terminal() => {
                        // A node's attempt ends once; an owner's endings differ by their code.
                        let same_code = by != EndedBy::Owner || job.record.code == code;
                        let same_way = job.record.state == state && same_code;
                        if same_way && job.ended_by == Some(by) {
                            Finish::Repeated
                        } else {
                            Finish::Ended(job.record.state)
                        }
                    }
                    Some(job) => {
                        job.record.state = state;
                        job.record.code = code.to_owned();
                        job.ended_by = Some(by);
                        Finish::Finished
                    }
                })
            }
            Step::Job { job } => {
                Answer::Job(self.jobs[job].as_ref().map(|known| known.record.clone()))
            }
            _ => return None,
        })
    }

    /// The owner of the session.
    pub(super) fn about_owner(&mut self, now: Moment, cast: &Cast, step: &Step) -> Option<Answer> {
        Some(match step.clone() {
            Step::Claim { owner, ttl } => {
                let instance = cast.instances[owner].clone();
                let epoch = next_epoch(self.session.as_ref().map(|owner| owner.epoch), now);
                let before = self.session.take().filter(|before| before.until > now);
                let replaced = before.map(|before| before.instance);
                let replaced = replaced.filter(|before| *before != instance);
                self.session = Some(Owner { instance, epoch, until: now + ttl });
                Answer::Claimed(Claimed { epoch, replaced })
            }
            Step::Keep { owner, epoch, ttl } => Answer::Fenced(match &self.session {
                Some(known) if known.epoch > epoch => Fenced::Superseded { epoch: known.epoch },
                _ => {
                    let instance = cast.instances[owner].clone();
                    self.session = Some(Owner { instance, epoch, until: now + ttl });
                    Fenced::Done
                }
            }),
            Step::GiveUp { epoch } => Answer::Fenced(match &mut self.session {
                Some(known) if known.epoch > epoch => Fenced::Superseded { epoch: known.epoch },
                Some(known) => {
                    known.until = known.until.min(now);
                    Fenced::Done
                }
                None => Fenced::Unknown,
            }),
            Step::Owner => Answer::Owner(self.session.clone().filter(|owner| owner.until > now)),
            _ => return None,
        })
    }

    fn node(&self, now: Moment, cast: &Cast, node: usize) -> Option<NodeRecord> {
        let record = self.nodes[node].record.as_ref()?;
        let gap = self.nodes[node].missing_model_until.filter(|until| *until > now);
        Some(NodeRecord {
            node: cast.nodes[node].clone(),
            epoch: record.epoch,
            owner: record.owner.clone(),
            profile: cast.profiles[record.profile].clone(),
            version: cast.version(record.profile),
            max: record.vitals.max,
            health: record.vitals.health,
            overloaded: record.vitals.overloaded,
            fresh_until: record.fresh_until,
            gaps: gap.map(|until| (cast.model.clone(), until)).into_iter().collect(),
            order: Order::Serve,
            read_at: Moment::ZERO,
        })
    }
}
