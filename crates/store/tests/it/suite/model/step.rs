//! What can happen in a history, and how it is asked of a store.

use std::time::Duration;

use lingua_core::Moment;
use lingua_core::job::JobState;
use lingua_core::slots::{Commit, Usage};
use lingua_store::jobs::{Assign, Create, EndedBy, Ending, Finish, JobRecord, NewJob};
use lingua_store::nodes::{Beat, BeatReply, Claim, Fenced, NodeRecord, Put, Registration, Vitals};
use lingua_store::owners::{Claimed, Owner};
use lingua_store::slots::{Confirm, Report, Reserve, Wish};
use lingua_store::{Backend, Result};

use super::cast::{Cast, MAX_ATTEMPTS};

/// One call with all its arguments, so that it can come again, late or twice.
#[derive(Clone, Debug)]
pub enum Step {
    Put {
        node: usize,
        owner: usize,
        claim: Claim,
        profile: usize,
        vitals: Vitals,
        known: bool,
    },
    Beat {
        node: usize,
        epoch: u64,
        profile: usize,
        vitals: Vitals,
    },
    Offline {
        node: usize,
        epoch: u64,
    },
    Gap {
        node: usize,
        lasting: Duration,
    },
    Reserve {
        node: usize,
        token: usize,
        profile: usize,
        model: bool,
        lease: Duration,
    },
    Commit {
        node: usize,
        token: usize,
        lease: Duration,
    },
    Renew {
        node: usize,
        token: usize,
        lease: Duration,
    },
    Release {
        node: usize,
        token: usize,
    },
    Confirm {
        node: usize,
        epoch: u64,
        running: Option<Vec<usize>>,
        lease: Duration,
        hold: Duration,
    },
    Create {
        job: usize,
        epoch: Option<u64>,
        first: Option<(usize, usize)>,
        deadline_in: Duration,
    },
    Assign {
        job: usize,
        to: (usize, usize),
    },
    Finish {
        job: usize,
        by: Option<(usize, usize)>,
        state: JobState,
        code: &'static str,
    },
    Claim {
        owner: usize,
        ttl: Duration,
    },
    Keep {
        owner: usize,
        epoch: u64,
        ttl: Duration,
    },
    GiveUp {
        epoch: u64,
    },
    // What can be seen.
    Usage {
        node: usize,
    },
    Node {
        node: usize,
    },
    Job {
        job: usize,
    },
    Owner,
}

/// How long jobs of a history are remembered after their deadline.
pub const KEPT: Duration = Duration::from_millis(90);

/// What was renewed so recently is not dropped by a report.
pub const GRACE: Duration = Duration::from_millis(7);

/// What a store says.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    Noted,
    Put(Put),
    Beat(BeatReply),
    Fenced(Fenced),
    Reserve(Reserve),
    Commit(Commit),
    Renew(Option<Moment>),
    Release(bool),
    Confirm(Confirm),
    Create(Create),
    Assign(Assign),
    Finish(Finish),
    Claimed(Claimed),
    Usage(Usage),
    Node(Option<Box<NodeRecord>>),
    Job(Option<JobRecord>),
    Owner(Option<Owner>),
}

impl Answer {
    /// The answer of a step that found itself stale or late or without ground: it changed nothing.
    pub fn is_refusal(&self) -> bool {
        match self {
            Answer::Put(put) => matches!(put, Put::Superseded { .. }),
            Answer::Beat(beat) => !matches!(beat, BeatReply::Kept { .. }),
            Answer::Fenced(fenced) => *fenced != Fenced::Done,
            Answer::Reserve(reserve) => !matches!(reserve, Reserve::Granted { .. }),
            Answer::Commit(commit) => *commit == Commit::Lost,
            Answer::Renew(renew) => renew.is_none(),
            Answer::Confirm(confirm) => !matches!(confirm, Confirm::Confirmed(_)),
            Answer::Create(create) => !matches!(create, Create::Created),
            Answer::Assign(assign) => *assign != Assign::Assigned,
            Answer::Finish(finish) => *finish != Finish::Finished,
            _ => false,
        }
    }
}

impl Step {
    /// Asks the store.
    pub async fn ask(&self, store: &Backend, cast: &Cast) -> Result<Answer> {
        if let Some(answer) = self.ask_about_nodes(store, cast).await? {
            return Ok(answer);
        }
        if let Some(answer) = self.ask_about_slots(store, cast).await? {
            return Ok(answer);
        }
        let answer = self.ask_about_jobs_and_owner(store, cast).await?;
        Ok(answer.expect("every step is about one of them"))
    }

    async fn ask_about_nodes(&self, store: &Backend, cast: &Cast) -> Result<Option<Answer>> {
        let node = |n: usize| &cast.nodes[n];
        Ok(Some(match self.clone() {
            Step::Put { node: n, owner, claim, profile, vitals, known } => {
                let registration = Registration {
                    claim,
                    owner: cast.instances[owner].clone(),
                    profile: cast.profiles[profile].clone(),
                    vitals,
                    known,
                };
                Answer::Put(store.nodes.put(node(n), &registration).await?)
            }
            Step::Beat { node: n, epoch, profile, vitals } => {
                let beat = Beat { epoch, version: cast.version(profile), vitals };
                Answer::Beat(store.nodes.beat(node(n), &beat).await?)
            }
            Step::Offline { node: n, epoch } => {
                Answer::Fenced(store.nodes.offline(node(n), epoch).await?)
            }
            Step::Gap { node: n, lasting } => {
                store.nodes.note_gap(node(n), &cast.model, lasting).await?;
                Answer::Noted
            }
            Step::Node { node: n } => {
                let record = store.nodes.get(node(n)).await?.map(|mut record| {
                    record.gaps.retain(|(_, until)| *until > record.read_at);
                    record.read_at = Moment::ZERO;
                    record
                });
                Answer::Node(record.map(Box::new))
            }
            _ => return Ok(None),
        }))
    }

    async fn ask_about_slots(&self, store: &Backend, cast: &Cast) -> Result<Option<Answer>> {
        let node = |n: usize| &cast.nodes[n];
        let token = |n: usize| cast.tokens[n];
        Ok(Some(match self.clone() {
            Step::Reserve { node: n, token: t, profile, model, lease } => {
                let models = std::slice::from_ref(&cast.model);
                let wish = Wish {
                    node: node(n),
                    token: token(t),
                    version: cast.version(profile),
                    models: if model { models } else { &[] },
                    lease,
                };
                Answer::Reserve(store.slots.reserve(&wish).await?)
            }
            Step::Commit { node: n, token: t, lease } => {
                Answer::Commit(store.slots.commit(node(n), token(t), lease).await?)
            }
            Step::Renew { node: n, token: t, lease } => {
                Answer::Renew(store.slots.renew(node(n), token(t), lease).await?)
            }
            Step::Release { node: n, token: t } => {
                Answer::Release(store.slots.release(node(n), token(t)).await?)
            }
            Step::Confirm { node: n, epoch, running, lease, hold } => {
                let running: Option<Vec<_>> =
                    running.map(|running| running.into_iter().map(token).collect());
                let report = Report {
                    epoch,
                    running: running.as_deref(),
                    lease,
                    grace: GRACE,
                    reserve_lease: hold,
                    quarantine: 2 * hold,
                };
                let mut confirm = store.slots.confirm(node(n), &report).await?;
                if let Confirm::Confirmed(confirmed) = &mut confirm {
                    confirmed.dropped.sort_by_key(ToString::to_string);
                }
                Answer::Confirm(confirm)
            }
            Step::Usage { node: n } => Answer::Usage(store.slots.usage(node(n)).await?),
            _ => return Ok(None),
        }))
    }

    async fn ask_about_jobs_and_owner(
        &self,
        store: &Backend,
        cast: &Cast,
    ) -> Result<Option<Answer>> {
        Ok(Some(match self.clone() {
            Step::Create { job, epoch, first, deadline_in } => {
                let new = NewJob {
                    id: cast.jobs[job],
                    session: &cast.session,
                    epoch,
                    first: first.map(|first| cast.assignment(first)),
                    deadline_in,
                    keep_for: KEPT,
                };
                Answer::Create(store.jobs.create(&new).await?)
            }
            Step::Assign { job, to } => {
                let to = cast.assignment(to);
                Answer::Assign(store.jobs.assign(&cast.jobs[job], &to, MAX_ATTEMPTS).await?)
            }
            Step::Finish { job, by, state, code } => {
                let by = by.map_or(EndedBy::Owner, |by| EndedBy::Assignment(cast.assignment(by)));
                let ending = Ending { state, code: code.to_owned() };
                Answer::Finish(store.jobs.finish(&cast.jobs[job], &by, &ending).await?)
            }
            Step::Job { job } => Answer::Job(store.jobs.get(&cast.jobs[job]).await?),
            Step::Claim { owner, ttl } => {
                let instance = &cast.instances[owner];
                Answer::Claimed(store.owners.claim(&cast.session, instance, ttl).await?)
            }
            Step::Keep { owner, epoch, ttl } => {
                let instance = &cast.instances[owner];
                Answer::Fenced(store.owners.renew(&cast.session, instance, epoch, ttl).await?)
            }
            Step::GiveUp { epoch } => {
                Answer::Fenced(store.owners.release(&cast.session, epoch).await?)
            }
            Step::Owner => Answer::Owner(store.owners.owner(&cast.session).await?),
            _ => return Ok(None),
        }))
    }

    /// Every look at the state.
    pub fn looks() -> impl Iterator<Item = Step> {
        let nodes =
            (0..super::cast::NODES).flat_map(|node| [Step::Usage { node }, Step::Node { node }]);
        nodes.chain((0..super::cast::JOBS).map(|job| Step::Job { job })).chain([Step::Owner])
    }

    /// Whether a second call at the same moment must leave the state as the first did. A claim is
    /// a new claim every time.
    pub fn may_be_repeated(&self) -> bool {
        !matches!(self, Step::Put { claim: Claim::Newest, .. } | Step::Claim { .. })
    }
}
