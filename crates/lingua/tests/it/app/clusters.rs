//! Redis Clusters for one test after the other: forming one takes longer than most tests.
//!
//! Statics are not dropped when a process ends, so nothing that owns a process is kept in one: every
//! test that runs holds the shelf, and the last one that lets go of it ends the clusters on it.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::sync::{Arc, Weak};

use lingua_lab::RedisCluster;
use parking_lot::Mutex;

/// Clusters that no test has at the moment.
type Shelf = Mutex<Vec<RedisCluster>>;

static SHELF: Mutex<Weak<Shelf>> = Mutex::new(Weak::new());

/// An empty cluster for one test.
pub struct Lent {
    cluster: Option<RedisCluster>,
    shelf: Arc<Shelf>,
}

impl Lent {
    /// One that another test has done with, or a new one.
    pub async fn take() -> Self {
        let shelf = {
            let mut known = SHELF.lock();
            known.upgrade().unwrap_or_else(|| {
                let shelf = Arc::new(Shelf::default());
                *known = Arc::downgrade(&shelf);
                shelf
            })
        };
        let used = shelf.lock().pop();
        let cluster = match used {
            Some(cluster) => {
                for server in cluster.servers() {
                    server.command(&["FLUSHALL"]).await.unwrap().into_result().unwrap();
                }
                cluster
            }
            None => RedisCluster::start(3, 0).await.unwrap(),
        };
        Lent { cluster: Some(cluster), shelf }
    }

    pub fn url(&self) -> String {
        self.cluster.as_ref().unwrap().url()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // One that a failed test leaves behind may be in any state.
        if !std::thread::panicking() {
            self.shelf.lock().extend(self.cluster.take());
        }
    }
}
