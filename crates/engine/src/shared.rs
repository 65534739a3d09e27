//! What every service of one engine has in common.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lingua_core::outcome::Code;
use lingua_core::{NodeId, SessionKey};
use lingua_store::usage::Day;
use lingua_store::{Backend, Clock, Instance};
use tokio::sync::mpsc;

use crate::chance::Chance;
use crate::fleet::FleetView;
use crate::job::{JobSpec, OrphanedOutcome};
use crate::job_log::JobLog;
use crate::metrics::Metrics;
use crate::peers::outbox::Outbox;
use crate::secret::Secret;
use crate::settings::Settings;
use crate::trace::{Context, Kind, Live, Tracer};
use crate::usage::{self, UsageBook};

/// What every service of one engine has in common.
pub(crate) struct Shared {
    pub settings: Settings,
    pub store: Backend,
    pub instance: Instance,
    /// For dates on the wire; timers go by the runtime's clock.
    pub clock: Clock,
    pub chance: Chance,
    pub secret: Secret,
    pub fleet: Arc<FleetView>,
    pub metrics: Arc<Metrics>,
    /// The way to other instances.
    pub outbox: Arc<Outbox>,
    /// Where endings go that nobody here waits for.
    pub orphans: mpsc::Sender<OrphanedOutcome>,
    /// Jobs that ended lately.
    pub job_log: JobLog,
    /// What is used.
    pub usage: Arc<UsageBook>,
    /// Unset while nobody traces.
    pub tracer: OnceLock<Arc<Tracer>>,
}

impl Shared {
    /// Begins the trace of something that a client asks for: if the client's own says so, or else if
    /// its conversation is among those that are traced.
    pub fn trace(
        &self,
        (name, kind): (&'static str, Kind),
        caller: Option<Context>,
        session: &SessionKey,
    ) -> Option<Live> {
        let tracer = self.tracer.get()?;
        let traced = match caller {
            Some(caller) => caller.sampled,
            None => tracer.chooses(session, &self.secret),
        };
        traced.then(|| {
            let mut live = tracer.begin(name, kind, caller);
            live.note("session.id", session.session().as_str());
            live.note("instance.id", self.instance.id.as_str());
            live
        })
    }

    /// The day of now.
    pub fn today(&self) -> Day {
        Day::of(self.clock.now())
    }

    /// A node answered a job.
    pub fn count_answer(&self, spec: &JobSpec, node: &NodeId) {
        self.usage.worked(self.today(), &self.fleet, spec, (node, true));
    }

    /// An attempt of a job failed on a node. One that is full has not failed.
    pub fn count_failure(&self, spec: &JobSpec, node: &NodeId, code: Code) {
        if code != Code::AllNodesBusy {
            self.usage.worked(self.today(), &self.fleet, spec, (node, false));
        }
    }

    /// Posts what was used here.
    pub async fn post_usage(&self) {
        self.usage.post(&self.store, &self.instance).await;
    }

    /// Runs until the engine ends: posts what was used here.
    pub fn keep_posting_usage(&self) -> impl Future<Output = ()> + Send + 'static {
        let (store, me) = (self.store.clone(), self.instance.clone());
        usage::keep_posting(Arc::clone(&self.usage), store, me)
    }

    /// Waits for a store that is down; says whether it is up.
    pub async fn store_up_within(&self, wait: Duration) -> bool {
        let mut status = self.store.status.clone();
        let up = tokio::time::timeout(wait, status.wait_for(|status| status.is_up())).await;
        matches!(up, Ok(Ok(_)))
    }
}
