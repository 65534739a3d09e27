//! The traits of the store, each call by way of the link.

use std::fmt::Debug;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lingua_core::link::Reputation;
use lingua_core::slots::{Commit, Usage};
use lingua_core::{
    JobId, LeaseToken, ModelId, Moment, NodeId, RequestId, SessionKey, TenantId, TurnId,
};
use lingua_store::bus::{Delivery, EntryId, Envelope, Inboxes, Posting, TakeOver};
use lingua_store::history::{History, Series};
use lingua_store::jobs::{
    Assign, Assignment, Create, EndedBy, Ending, Finish, JobDeadlines, JobRecord, JobRecords,
    NewJob,
};
use lingua_store::leaders::{Lead, Leaders, Task};
use lingua_store::memory::MemoryStore;
use lingua_store::nodes::{
    Beat, BeatReply, Changes, FeedCursor, Fenced, NodeFeed, NodeOrders, NodeRecord, NodeRecords,
    Order, Put, Registration,
};
use lingua_store::owners::{Claimed, Owner, SessionOwners};
use lingua_store::presence::{Announce, Peer, Presence};
use lingua_store::rates::{Name, Rate, RateLimits, Take};
use lingua_store::reputations::Reputations;
use lingua_store::requests::RequestIds;
use lingua_store::revocations::Revocations;
use lingua_store::slots::{Confirm, Report, Reserve, SlotLeases, Wish};
use lingua_store::snapshots::Snapshots;
use lingua_store::turns::TurnBindings;
use lingua_store::usage::{Day, Posted, UsageDays};
use lingua_store::{Instance, Result};

use super::Link;

/// An argument, as it is looked through: bytes as they are, everything else as it is shown.
struct Shown<T>(T);

impl Shown<&[u8]> {
    fn show(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
        out.push(b' ');
    }
}

impl Shown<&Envelope> {
    fn show(&self, out: &mut Vec<u8>) {
        Shown(self.0.body.as_slice()).show(out);
    }
}

trait ByDebug {
    fn show(&self, out: &mut Vec<u8>);
}

impl<T: Debug> ByDebug for Shown<T> {
    fn show(&self, out: &mut Vec<u8>) {
        // Writing into memory cannot fail.
        let _ = write!(out, "{:?} ", self.0);
    }
}

macro_rules! simulated {
    ($part:ident { $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $out:ty;)* } $($rest:tt)*) => {
        #[async_trait]
        impl $part for Link {
            $(async fn $name(&self $(, $arg: $type)*) -> Result<$out> {
                self.call(
                    concat!(stringify!($part), ".", stringify!($name)),
                    |_out| { $(Shown($arg).show(_out);)* },
                    move |store| async move { <MemoryStore as $part>::$name(&store $(, $arg)*).await },
                )
                .await
            })*
            $($rest)*
        }
    };
}

simulated!(NodeRecords {
    fn put(&self, node: &NodeId, registration: &Registration) -> Put;
    fn beat(&self, node: &NodeId, beat: &Beat) -> BeatReply;
    fn offline(&self, node: &NodeId, epoch: u64) -> Fenced;
    fn forget(&self, node: &NodeId, unseen_for: Duration) -> bool;
    fn note_gap(&self, node: &NodeId, model: &ModelId, lasting: Duration) -> ();
    fn get(&self, node: &NodeId) -> Option<NodeRecord>;
});

simulated!(NodeFeed {
    fn shard(&self, shard: u32) -> Vec<NodeRecord>;
    fn changes(&self, cursor: Option<&FeedCursor>, wait: Duration) -> Changes;
});

simulated!(NodeOrders {
    fn set(&self, node: &NodeId, order: Order) -> bool;
    fn get(&self, node: &NodeId) -> Order;
});

simulated!(Reputations {
    fn keep(&self, node: &NodeId, epoch: u64, known: &Reputation) -> Fenced;
    fn read(&self, node: &NodeId) -> Option<Reputation>;
});

simulated!(SlotLeases {
    fn reserve(&self, wish: &Wish<'_>) -> Reserve;
    fn commit(&self, node: &NodeId, token: LeaseToken, lease: Duration) -> Commit;
    fn renew(&self, node: &NodeId, token: LeaseToken, lease: Duration) -> Option<Moment>;
    fn release(&self, node: &NodeId, token: LeaseToken) -> bool;
    fn release_young(&self, node: &NodeId, token: LeaseToken, granted: Moment) -> ();
    fn confirm(&self, node: &NodeId, report: &Report<'_>) -> Confirm;
    fn usage(&self, node: &NodeId) -> Usage;
});

simulated!(JobRecords {
    fn create(&self, job: &NewJob<'_>) -> Create;
    fn assign(&self, job: &JobId, assignment: &Assignment, max_attempts: u32) -> Assign;
    fn finish(&self, job: &JobId, by: &EndedBy, ending: &Ending) -> Finish;
    fn get(&self, job: &JobId) -> Option<JobRecord>;
});

simulated!(JobDeadlines {
    fn watch(&self, job: &JobId, deadline_in: Duration) -> ();
    fn unwatch(&self, job: &JobId) -> ();
    fn due(&self, limit: usize) -> Vec<JobId>;
});

simulated!(RequestIds {
    fn claim(&self, tenant: &TenantId, request: &RequestId, job: &JobId, keep_for: Duration) -> JobId;
    fn release(&self, tenant: &TenantId, request: &RequestId, job: &JobId) -> ();
});

simulated!(TurnBindings {
    fn bind(&self, session: &SessionKey, turn: &TurnId, node: &NodeId, lease: Duration) -> ();
    fn node(&self, session: &SessionKey, turn: &TurnId) -> Option<NodeId>;
});

simulated!(SessionOwners {
    fn claim(&self, session: &SessionKey, instance: &Instance, ttl: Duration) -> Claimed;
    fn renew(&self, session: &SessionKey, instance: &Instance, epoch: u64, ttl: Duration) -> Fenced;
    fn release(&self, session: &SessionKey, epoch: u64) -> Fenced;
    fn owner(&self, session: &SessionKey) -> Option<Owner>;
    fn save(&self, session: &SessionKey, epoch: u64, state: &[u8], keep_for: Duration) -> Fenced;
    fn load(&self, session: &SessionKey) -> Option<Vec<u8>>;
});

simulated!(Leaders {
    fn lead(&self, task: Task, instance: &Instance, ttl: Duration) -> Lead;
    fn resign(&self, task: Task, instance: &Instance, fence: u64) -> ();
});

simulated!(Snapshots {
    fn post_part(&self, me: &Instance, part: &[u8], ttl: Duration) -> ();
    fn parts(&self) -> Vec<Vec<u8>>;
    fn publish(&self, task: Task, fence: u64, what: &[u8]) -> Fenced;
    fn published(&self, task: Task) -> Option<Vec<u8>>;
});

simulated!(Presence {
    fn announce(&self, me: &Instance, address: &str, ttl: Duration) -> Announce;
    fn withdraw(&self, me: &Instance) -> ();
    fn peers(&self) -> Vec<Peer>;
});

simulated!(Inboxes {
    fn send(&self, to: &Instance, envelope: &Envelope) -> Posting;
    fn ack(&self, inbox: &Instance, entries: &[EntryId]) -> ();
    fn depth(&self, inbox: &Instance) -> usize;
    fn orphans(&self) -> Vec<Instance>;
    fn take_over(&self, dead: &Instance, successor: &Instance, ttl: Duration) -> TakeOver;
}
    async fn receive(&self, me: &Instance, wait: Duration) -> Result<Vec<Delivery>> {
        let work = move |store: Arc<MemoryStore>| async move {
            <MemoryStore as Inboxes>::receive(&store, me, wait).await
        };
        self.call("Inboxes.receive", |out| Shown(me).show(out), work).await.map(|all| self.shuffled(all))
    }

    async fn rewind(&self, me: &Instance) {
        self.servers.current().rewind(me).await;
    }
);

simulated!(RateLimits {
    fn first(&self, name: &Name, window: Duration) -> bool;
    fn take(&self, name: &Name, rate: Rate) -> Take;
});

simulated!(Revocations {
    fn add(&self, entry: &Name, keep_for: Duration) -> bool;
    fn list(&self) -> Vec<Name>;
});

simulated!(History {
    fn append(&self, series: &Series, point: &[u8]) -> bool;
    fn last(&self, series: &Series, count: u32) -> Vec<Vec<u8>>;
});

simulated!(UsageDays {
    fn post(&self, day: Day, me: &Instance, serial: u64, counts: &[u8]) -> Posted;
    fn posted(&self, day: Day) -> Vec<Vec<u8>>;
});
