//! One of everything that a store keeps, written and looked for.

use std::time::Duration;

use lingua_core::eligibility::Route;
use lingua_core::inventory::Inventory;
use lingua_core::job::JobState;
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::node::{Health, Order};
use lingua_core::{
    InstanceId, JobId, Lang, LeaseToken, ModelId, NodeId, RequestId, SessionId, SessionKey,
    TenantId, TurnId,
};
use lingua_store::history::Series;
use lingua_store::jobs::{Assignment, EndedBy, Ending, Finish, NewJob};
use lingua_store::leaders::{Lead, Task};
use lingua_store::nodes::{Fenced, ProfileVersion, Registration};
use lingua_store::rates::{Name, Rate, Take};
use lingua_store::slots::Reserve;
use lingua_store::{Backend, Instance};

use crate::suite::Outcome;
use crate::suite::samples::*;

/// One event an hour.
const RATE: Rate = Rate { interval: Duration::from_secs(3_600), burst: 1 };

/// What was written. Names and numbers follow from one word, so that a directory of another day is read with the same
/// ones.
pub struct Kept {
    node: TestNode,
    running: LeaseToken,
    reserved: LeaseToken,
    spent: LeaseToken,
    model: ModelId,
    done: JobId,
    open: JobId,
    session: SessionKey,
    request: (TenantId, RequestId),
    turn: TurnId,
    me: Instance,
    /// The epochs and the fence: the store's time of the writing.
    epoch: u64,
    task: Task,
    name: Name,
    series: Series,
    assignment: Assignment,
}

pub fn request() -> anyhow::Result<RequestId> {
    Ok(RequestId::new(chance())?)
}

pub async fn drain(store: &Backend, node: &NodeId) -> Outcome {
    assert!(store.orders.set(node, Order::Drain).await?);
    Ok(())
}

pub async fn is_drained(store: &Backend, node: &NodeId) -> anyhow::Result<bool> {
    Ok(store.orders.get(node).await? == Order::Drain)
}

/// The time of a clock by hand at its beginning.
const BEGINNING: u64 = 1_000_000;

impl Kept {
    /// What is written under this word on a clock by hand at its beginning.
    pub fn named(word: &str) -> anyhow::Result<Self> {
        let me = Instance { id: InstanceId::new(word)?, boot: 7 };
        let registration = Registration { owner: me.clone(), ..registration(4) };
        let id = NodeId::new(format!("gpu-{word}"))?;
        let version = ProfileVersion::of(&registration.profile);
        let node = TestNode { id, epoch: BEGINNING, version, registration };
        let session = SessionKey::new(TenantId::new("acme")?, SessionId::new(word)?);
        let job = |number| {
            let lang = |tag| Lang::new(tag).expect("a language");
            let route = Route::Directed(lang("en"), lang("zh"));
            let origin = Origin::Unnamed(number);
            JobKey { session: &session, origin, job_type: "f2f", route, features: &[] }.job_id()
        };
        let [done, open] = [job(1), job(2)];
        let token =
            |attempt| LeaseToken { job: done, attempt, nonce: u128::MAX / u128::from(attempt) };
        Ok(Kept {
            running: token(1),
            reserved: token(2),
            spent: token(3),
            model: ModelId::new(format!("model-{word}"))?,
            done,
            open,
            request: (TenantId::new("acme")?, RequestId::new(word)?),
            turn: TurnId::new(word)?,
            me,
            epoch: BEGINNING,
            task: match word {
                "one" => Task::Snapshot,
                "two" => Task::Janitor,
                _ => Task::Deadlines,
            },
            name: Name::new(word)?,
            series: Series { name: Name::new(format!("series:{word}"))?, step: LONG, points: 3 },
            assignment: Assignment { node: node.id.clone(), token: token(4) },
            session,
            node,
        })
    }

    /// The same, written so much later.
    pub fn later(mut self, by: Duration) -> Self {
        self.epoch += by.as_millis() as u64;
        self
    }

    pub async fn write(store: &Backend, word: &str) -> anyhow::Result<Self> {
        let mut kept = Kept::named(word)?;
        let node =
            TestNode::put(store, kept.node.id.clone(), kept.node.registration.clone()).await?;
        kept.epoch = node.epoch;
        kept.node = node;
        kept.write_node(store).await?;
        kept.write_job(store).await?;
        kept.write_rest(store).await?;
        Ok(kept)
    }

    async fn write_node(&self, store: &Backend) -> Outcome {
        let node = &self.node;
        node.run(store, self.running, LONG).await?;
        node.reserve(store, self.reserved, LONG).await?;
        node.run(store, self.spent, LONG).await?;
        store.slots.release(&node.id, self.spent).await?;
        store.nodes.note_gap(&node.id, &self.model, LONG).await?;
        drain(store, &node.id).await
    }

    async fn write_job(&self, store: &Backend) -> Outcome {
        let session = &self.session;
        let first = Some(self.assignment.clone());
        store.jobs.create(&NewJob { first, ..new_job(self.done, session) }).await?;
        assert_eq!(self.finish(store).await?, Finish::Finished);
        store.jobs.create(&new_job(self.open, session)).await?;
        store.deadlines.watch(&self.open, Duration::from_millis(1)).await?;
        store.requests.claim(&self.request.0, &self.request.1, &self.open, LONG).await?;
        store.turns.bind(session, &self.turn, &self.node.id, LONG).await?;
        Ok(())
    }

    async fn finish(&self, store: &Backend) -> anyhow::Result<Finish> {
        let by = EndedBy::Assignment(self.assignment.clone());
        let ending = Ending { state: JobState::Failed, code: "no_luck".to_owned() };
        Ok(store.jobs.finish(&self.done, &by, &ending).await?)
    }

    async fn write_rest(&self, store: &Backend) -> Outcome {
        let Kept { session, me, epoch, .. } = self;
        assert_eq!(store.owners.claim(session, me, LONG).await?.epoch, *epoch);
        assert_eq!(store.owners.save(session, *epoch, b"{\"next\": 7}", LONG).await?, Fenced::Done);
        store.leaders.lead(self.task, me, LONG).await?;
        store.snapshots.publish(self.task, *epoch, b"{\"all\": 1}").await?;
        assert!(store.rates.first(&self.name, LONG).await?);
        assert_eq!(store.rates.take(&self.name, RATE).await?, Take::Allowed);
        assert!(store.revocations.add(&self.name, LONG).await?);
        assert!(store.history.append(&self.series, b"{\"point\": 1}").await?);
        Ok(())
    }

    /// The same, of a node that said nothing of what it has installed: schema 1 began before there was that.
    pub fn without_inventory(mut self) -> Self {
        self.node.registration.profile.inventory = Inventory::default();
        self.node.version = ProfileVersion::of(&self.node.registration.profile);
        self
    }

    /// All of it is there. Changes nothing that a second look would miss.
    pub async fn check(&self, store: &Backend) -> Outcome {
        self.check_node(store).await?;
        self.check_job(store).await?;
        self.check_rest(store).await
    }

    async fn check_node(&self, store: &Backend) -> Outcome {
        let Kept { node, .. } = self;
        let record = node.record(store).await?;
        assert_eq!((record.epoch, &record.owner), (self.epoch, &self.me));
        assert_eq!((&record.profile, record.version), (&node.registration.profile, node.version));
        assert_eq!((record.max, record.health, record.order), (4, Health::Ready, Order::Drain));
        assert_eq!(record.gaps.first().map(|(model, _)| model), Some(&self.model));
        assert!(is_drained(store, &node.id).await?);
        assert_eq!(node.usage(store).await?, (1, 1));
        let again = |token| async move { store.slots.reserve(&node.wish(token)).await };
        assert!(matches!(again(self.running).await?, Reserve::Already { .. }));
        assert!(matches!(again(self.reserved).await?, Reserve::Already { .. }));
        assert_eq!(again(self.spent).await?, Reserve::Spent);
        Ok(())
    }

    async fn check_job(&self, store: &Backend) -> Outcome {
        let Kept { session, .. } = self;
        assert_eq!(self.finish(store).await?, Finish::Repeated);
        let done = store.jobs.get(&self.done).await?.expect("it is remembered");
        assert_eq!(done.assignment.as_ref(), Some(&self.assignment));
        assert_eq!(
            (done.state, &*done.code, &done.session),
            (JobState::Failed, "no_luck", session)
        );
        let open = store.jobs.get(&self.open).await?.expect("it is open");
        assert_eq!((open.state, open.assignment), (JobState::New, None));
        let (tenant, request) = &self.request;
        let bound = store.requests.claim(tenant, request, &self.done, LONG).await?;
        assert_eq!(bound, self.open);
        let bound = store.turns.node(session, &self.turn).await?;
        assert_eq!(bound.as_ref(), Some(&self.node.id));
        Ok(())
    }

    async fn check_rest(&self, store: &Backend) -> Outcome {
        let Kept { session, me, epoch, .. } = self;
        let owner = store.owners.owner(session).await?.expect("its lease is not over");
        assert_eq!((&owner.instance, owner.epoch), (me, *epoch));
        assert_eq!(store.owners.load(session).await?.as_deref(), Some(&b"{\"next\": 7}"[..]));
        let led = store.leaders.lead(self.task, me, LONG).await?;
        assert_eq!(led, Lead::Leading { fence: *epoch });
        let published = store.snapshots.published(self.task).await?;
        assert_eq!(published.as_deref(), Some(&b"{\"all\": 1}"[..]));
        assert!(!store.rates.first(&self.name, LONG).await?);
        assert!(matches!(store.rates.take(&self.name, RATE).await?, Take::Limited { .. }));
        assert!(store.revocations.list().await?.contains(&self.name));
        assert_eq!(store.history.last(&self.series, 9).await?, [b"{\"point\": 1}"]);
        Ok(())
    }
}
