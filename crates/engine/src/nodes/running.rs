//! What a node says it runs: jobs of this process, jobs of others, and jobs that nobody knows.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::try_join_all;
use lingua_core::{JobId, LeaseToken};
use tokio::time::Instant;

use super::Nodes;
use super::state::{Inner, NodeState, Running};
use crate::job::{Refusal, ToNode};

impl Nodes {
    /// Notes what the node says it runs, for the store to be told. A report with more unknown jobs than
    /// the node may have looked up is refused whole: half of one would take slots from what runs.
    pub(super) fn note_running(
        &self,
        inner: &mut Inner,
        named: &[(JobId, u32)],
    ) -> Result<(), Refusal> {
        let running = self.running_of(inner, named);
        if !running.foreign.is_empty() {
            self.look_up(&mut inner.store_use, running.foreign.len())?;
        }
        inner.todo.report = Some(running);
        Ok(())
    }

    /// Which of the jobs that a node names were sent by this process, each once. One that was given
    /// up while the node was away is to be stopped now.
    fn running_of(&self, inner: &Inner, named: &[(JobId, u32)]) -> Running {
        let mut running = Running { said: Instant::now(), known: Vec::new(), foreign: Vec::new() };
        let mut seen = HashSet::with_capacity(named.len());
        for (masked, attempt) in named.iter().filter(|named| seen.insert(**named)) {
            let job = self.shared.secret.masked(*masked);
            match inner.held.get(&job).filter(|held| held.attempt == *attempt) {
                Some(held) if held.job.is_some() => running.known.push(held.token),
                Some(_) => {
                    let cancel =
                        ToNode::Cancel { job: *masked, attempt: *attempt, reason: "given_up" };
                    if let Some(link) = &inner.link {
                        let _ = link.out.try_send(cancel);
                    }
                }
                None => running.foreign.push((job, *attempt)),
            }
        }
        running
    }

    /// The tokens of what a node says it runs. Jobs that another process sent are looked up, all at
    /// once; one that nobody knows, or that is over, the node is told to stop.
    pub(super) async fn tokens(
        &self,
        node: &Arc<NodeState>,
        running: Running,
    ) -> lingua_store::Result<Vec<LeaseToken>> {
        let Running { mut known, foreign, .. } = running;
        let records = foreign.iter().map(|(job, _)| self.shared.store.jobs.get(job));
        let records = try_join_all(records).await?;
        // One that does not obey works on; its slot stays its own.
        let obeys = node.lock().link.as_ref().is_some_and(|link| link.supports.cancel);
        for ((job, attempt), record) in foreign.into_iter().zip(records) {
            let current = record.filter(|record| !(obeys && record.state.is_terminal()));
            let token = current.and_then(|record| record.assignment).filter(|assignment| {
                assignment.node == node.id && assignment.token.attempt == attempt
            });
            match token {
                Some(assignment) => known.push(assignment.token),
                None => {
                    let job = self.shared.secret.masked(job);
                    node.tell(ToNode::Cancel { job, attempt, reason: "unknown" });
                }
            }
        }
        Ok(known)
    }
}
