//! Which instance leads a task, and what leaders published.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::Moment;
use lingua_core::planted::{self, Flaw};
use parking_lot::Mutex;

use super::expiring::Map;
use super::{MemoryStore, next_epoch};
use crate::error::{Result, checked_ms};
use crate::instance::Instance;
use crate::journal::{Entry, Kind, NEVER};
use crate::leaders::{Lead, Leaders, Task};

pub(super) type Tasks = Mutex<Map<Task, Leader>>;

/// The leader of a task, or the last one it had: its fence is the next one's floor.
#[derive(Clone)]
pub(super) struct Leader {
    instance: Instance,
    pub(super) fence: u64,
    until: Moment,
    pub(super) published: Option<Vec<u8>>,
}

#[async_trait]
impl Leaders for MemoryStore {
    async fn lead(&self, task: Task, instance: &Instance, ttl: Duration) -> Result<Lead> {
        checked_ms(ttl)?;
        let now = self.change()?;
        let mut leaders = self.tasks.lock();
        let last = leaders.get(&task);
        let fence = match last.filter(|leader| leader.until > now) {
            Some(leader) if leader.instance == *instance => leader.fence,
            Some(leader) => return Ok(Lead::Held { by: leader.instance.clone() }),
            None => next_epoch(last.map(|leader| leader.fence), now),
        };
        let published = leaders.remove(&task).and_then(|leader| leader.published);
        let leader = Leader { instance: instance.clone(), fence, until: now + ttl, published };
        self.note_leader(task, &leader);
        leaders.insert(task, leader);
        drop(leaders);
        self.kept(Lead::Leading { fence })
    }

    async fn resign(&self, task: Task, instance: &Instance, fence: u64) -> Result<()> {
        let now = self.change()?;
        let mut leaders = self.tasks.lock();
        let current = leaders.get_mut(&task);
        let own = |l: &&mut Leader| l.instance == *instance && l.fence == fence;
        let any = planted::on(Flaw::OldLeaderResignsNext);
        if let Some(leader) = current.filter(|leader| own(leader) || any) {
            leader.until = leader.until.min(now);
            self.note_leader(task, leader);
        }
        drop(leaders);
        self.kept(())
    }
}

impl MemoryStore {
    fn note_leader(&self, task: Task, leader: &Leader) {
        self.note(|journal| {
            let kept = (leader.instance.to_string(), leader.fence, leader.until);
            journal.note(Kind::Leader, &[task.as_str()], NEVER, &kept);
        });
    }

    /// Puts back what was kept of a task; `None` if it cannot be read. A task that is no more is passed over.
    pub(super) fn put_back_task(&self, entry: &Entry) -> Option<()> {
        let Some(task) = Task::ALL.into_iter().find(|task| entry.key == [task.as_str()]) else {
            return Some(());
        };
        let mut leaders = self.tasks.lock();
        if entry.kind == Kind::Published {
            leaders.get_mut(&task)?.published = Some(entry.value.clone());
        } else {
            let (instance, fence, until): (String, u64, Moment) = entry.json()?;
            let instance = instance.parse().ok()?;
            leaders.insert(task, Leader { instance, fence, until, published: None });
        }
        Some(())
    }
}
