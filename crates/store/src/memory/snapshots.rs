//! The parts of the snapshot, and what leaders published.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{InstanceId, Moment};
use parking_lot::Mutex;

use super::MemoryStore;
use super::expiring::Map;
use crate::error::{Result, checked_ms};
use crate::instance::Instance;
use crate::journal::{Kind, NEVER};
use crate::leaders::Task;
use crate::nodes::Fenced;
use crate::snapshots::{Snapshots, check_part, check_published};

/// By instance, each until when.
pub(super) type Parts = Mutex<Map<InstanceId, (Moment, Vec<u8>)>>;

#[async_trait]
impl Snapshots for MemoryStore {
    async fn post_part(&self, me: &Instance, part: &[u8], ttl: Duration) -> Result<()> {
        checked_ms(ttl)?;
        check_part(part)?;
        let now = self.clock.now();
        let (until, part) = (now + ttl, part.to_vec());
        let mut parts = self.parts.lock();
        parts.retain(|_, (until, _)| *until > now);
        parts.insert(me.id.clone(), (until, part));
        Ok(())
    }

    async fn parts(&self) -> Result<Vec<Vec<u8>>> {
        let now = self.clock.now();
        let parts = self.parts.lock();
        let live = parts.values().filter(|(until, _)| *until > now);
        Ok(live.map(|(_, part)| part.clone()).collect())
    }

    async fn publish(&self, task: Task, fence: u64, what: &[u8]) -> Result<Fenced> {
        check_published(what)?;
        self.change()?;
        let mut leaders = self.tasks.lock();
        let fenced = match leaders.get_mut(&task) {
            Some(leader) if leader.fence > fence => Fenced::Superseded { epoch: leader.fence },
            Some(leader) if leader.fence == fence => {
                leader.published = Some(what.to_vec());
                self.note(|journal| {
                    journal.note_bytes(Kind::Published, &[task.as_str()], NEVER, what);
                });
                Fenced::Done
            }
            _ => Fenced::Unknown,
        };
        drop(leaders);
        self.kept(fenced)
    }

    async fn published(&self, task: Task) -> Result<Option<Vec<u8>>> {
        Ok(self.tasks.lock().get(&task).and_then(|leader| leader.published.clone()))
    }
}
