//! The machine of one node's connection and the attempts on it: `on_event(now, Event) -> Effects`.
//!
//! It decides and performs nothing. It guarantees, for any order of events:
//!
//! - It puts an attempt on the connection only while the node has fewer attempts than slots open.
//! - After a report of the node and the store's answer, the attempts of the node and the leases agree.
//! - An older connection changes nothing, and neither does a message about an attempt that the node does not
//!   have.
//! - Every token is released at most once, and unknown jobs are looked up within a rate.
//!
//! In reading order: [`event`] the two closed lists, `machine` the node's state, `view` its queries, `attempt` its attempts,
//! `assign` how attempts come and go, `inbound` the node's messages about them, `record` what the store is told,
//! `reconcile` what a report means, `maintenance` a node that keeps failing. `reputation` outlives the connection;
//! `vouching` decides whether a node without a record is new. `breaker`, `trust`, `overload`, `freshness` and `health`
//! are one question each. `supports` has the protocol features of an agent.

mod assign;
mod attempt;
mod breaker;
pub mod event;
mod freshness;
mod health;
mod machine;
mod maintenance;
mod overload;
mod reconcile;
mod record;
mod reputation;
mod supports;
mod trust;
mod view;
mod vouching;
mod inbound;

pub use attempt::{Attempt, NewAttempt};
pub use breaker::{
    Breaker, BreakerMemory, BreakerPolicy, BreakerState, BreakerView, Fault, PUT_ASIDE_AFTER,
};
pub use event::{Effect, Effects, Event, Kinds};
pub use freshness::HEARTBEATS_UNTIL_OVERDUE;
pub use health::{Audience, HealthFacts};
pub use machine::{
    ADOPTION, FORGET_AFTER, GRACE_FOR_LATE_RESULTS, INHIBITION, MAX_GAPS, MAX_UNCLAIMED, Machine,
    Policy,
};
pub use maintenance::Aside;
pub use overload::{Overload, OverloadPolicy, Percents, Thresholds};
pub use reconcile::{Counted, Reconciled, by_count};
pub use record::TELL_AGAIN;
pub use reputation::{NodeFailure, Reputation};
pub use supports::Supports;
pub use trust::{Arrival, GOOD_RECORD, SlowStart, Trust, TrustMemory};
pub use vouching::Acquaintance;
