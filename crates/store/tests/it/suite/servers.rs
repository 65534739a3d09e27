//! A store that is a server: time really passes there.

use std::sync::Arc;
use std::time::Duration;

use lingua_store::Backend;
use lingua_store::redis::{Options, open};

use crate::suite::StoreUnderTest;

/// Two instances of the scheduler on one group of servers.
pub struct Served<G> {
    first: Backend,
    second: Backend,
    /// Dropped last: the servers outlive the connections to them.
    _group: Arc<G>,
}

impl<G> Served<G> {
    pub async fn connect(group: Arc<G>, url: &str) -> anyhow::Result<Self> {
        // A machine that compiles something else meanwhile must not turn answers into unknowns.
        let patient = Options {
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(5),
            ..Options::default()
        };
        let first = open(url, patient.clone()).await?;
        let second = open(url, patient).await?;
        Ok(Served { first, second, _group: group })
    }
}

impl<G> StoreUnderTest for Served<G> {
    fn backend(&self) -> Backend {
        self.first.clone()
    }

    fn second(&self) -> Backend {
        self.second.clone()
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time + Duration::from_millis(2)).await;
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(250)
    }
}
