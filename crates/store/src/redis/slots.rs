//! Who holds which slot, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::limits::{MAX_MODELS_PER_JOB, MAX_SLOTS};
use lingua_core::slots::{Commit, Confirmed, Usage};
use lingua_core::{LeaseToken, Moment, NodeId};
use redis::{Cmd, RedisWrite, Value};

use super::connection::{Call, Link};
use super::keys::{node_gaps, node_leases, node_record};
use super::reply::Reply;
use super::scripts::{
    SLOT_COMMIT, SLOT_CONFIRM, SLOT_REGAIN, SLOT_RELEASE, SLOT_RENEW, SLOT_RESERVE, SLOT_USAGE,
};
use crate::error::{Error, Result, checked_ms};
use crate::slots::{Confirm, Refusal, Report, Reserve, SlotLeases, Wish};

pub(super) struct RedisSlots {
    link: Link,
}

impl RedisSlots {
    pub(super) fn new(link: Link) -> Self {
        RedisSlots { link }
    }
}

#[async_trait]
impl SlotLeases for RedisSlots {
    async fn reserve(&self, wish: &Wish<'_>) -> Result<Reserve> {
        reserved(reserve(&self.link, wish)?.run().await?)
    }

    async fn commit(&self, node: &NodeId, token: LeaseToken, lease: Duration) -> Result<Commit> {
        let (leases, lease) = (node_leases(node), checked_ms(lease)?);
        let call = self.link.call(&SLOT_COMMIT, [leases])?.show(token).arg(lease);
        let mut reply = call.run().await?;
        if reply.word() == "over" {
            let keys = [node_record(node), node_leases(node)];
            reply = self.link.call(&SLOT_REGAIN, keys)?.show(token).arg(lease).run().await?;
        }
        Ok(match reply.word() {
            "committed" => Commit::Committed(reply.moment()?),
            "already" => Commit::Already(reply.moment()?),
            "regained" => Commit::Regained(reply.moment()?),
            "lost" => Commit::Lost,
            _ => return Err(reply.unexpected()),
        })
    }

    async fn renew(
        &self,
        node: &NodeId,
        token: LeaseToken,
        lease: Duration,
    ) -> Result<Option<Moment>> {
        let call =
            self.link.call(&SLOT_RENEW, [node_leases(node)])?.show(token).arg(checked_ms(lease)?);
        let mut reply = call.run().await?;
        match reply.word() {
            "renewed" => reply.moment().map(Some),
            "lost" => Ok(None),
            _ => Err(reply.unexpected()),
        }
    }

    async fn release(&self, node: &NodeId, token: LeaseToken) -> Result<bool> {
        let call = self.link.call(&SLOT_RELEASE, [node_leases(node)])?.show(token);
        let reply = call.run().await?;
        match reply.word() {
            "freed" => Ok(true),
            "nothing" => Ok(false),
            _ => Err(reply.unexpected()),
        }
    }

    async fn release_young(&self, node: &NodeId, token: LeaseToken, granted: Moment) -> Result<()> {
        match self.link.command(&release_young(node, token, granted)).await? {
            Value::Int(1) => Ok(()),
            // Not known, or given back before.
            _ => self.release(node, token).await.map(drop),
        }
    }

    async fn confirm(&self, node: &NodeId, report: &Report<'_>) -> Result<Confirm> {
        let tokens = report.running.unwrap_or_default();
        if tokens.len() > MAX_SLOTS as usize {
            return Err(Error::Invalid("a node runs at most 256 jobs"));
        }
        let keys = [node_record(node), node_leases(node)];
        let mut call = self
            .link
            .call(&SLOT_CONFIRM, keys)?
            .arg(report.epoch)
            .flag(report.running.is_some())
            .arg(checked_ms(report.lease)?)
            .arg(checked_ms(report.grace)?)
            .arg(checked_ms(report.reserve_lease)?)
            .arg(checked_ms(report.quarantine)?);
        for token in tokens {
            call = call.show(token);
        }
        let mut reply = call.run().await?;
        Ok(match reply.word() {
            "confirmed" => Confirm::Confirmed(Confirmed {
                unknown: reply.parsed_list()?,
                dropped: reply.parsed_list()?,
            }),
            "superseded" => Confirm::Superseded { epoch: reply.number()? },
            "unknown" => Confirm::Unknown,
            _ => return Err(reply.unexpected()),
        })
    }

    async fn usage(&self, node: &NodeId) -> Result<Usage> {
        let mut reply = self.link.call(&SLOT_USAGE, [node_leases(node)])?.run().await?;
        match reply.word() {
            "usage" => Ok(Usage { reserved: reply.small()?, running: reply.small()? }),
            _ => Err(reply.unexpected()),
        }
    }
}

/// The call that reserves a slot.
pub(super) fn reserve<'a>(link: &'a Link, wish: &Wish<'_>) -> Result<Call<'a>> {
    if wish.models.len() > MAX_MODELS_PER_JOB {
        return Err(Error::Invalid("a job names at most 8 models"));
    }
    let (record, leases) = (node_record(wish.node), node_leases(wish.node));
    let call = match wish.models {
        [] => link.call(&SLOT_RESERVE, [record, leases])?,
        _ => link.call(&SLOT_RESERVE, [record, leases, node_gaps(wish.node)])?,
    };
    let mut call = call.show(wish.token).arg(checked_ms(wish.lease)?).reign_and(wish.version);
    for model in wish.models {
        call = call.show(model);
    }
    Ok(call)
}

/// What it answered.
pub(super) fn reserved(mut reply: Reply) -> Result<Reserve> {
    Ok(match reply.word() {
        "granted" => Reserve::Granted { until: reply.moment()?, used: reply.small()? },
        "already" => Reserve::Already { until: reply.moment()? },
        "spent" => Reserve::Spent,
        "full" => Reserve::Full { used: reply.small()?, max: reply.small()? },
        "unknown" => Reserve::Refused(Refusal::UnknownNode),
        "changed" => Reserve::Refused(Refusal::Changed(reply.parse()?)),
        "closed" => Reserve::Refused(Refusal::Closed),
        "stale" => Reserve::Refused(Refusal::Stale),
        "unconfirmed" => Reserve::Refused(Refusal::Unconfirmed),
        "held" => Reserve::Refused(Refusal::Held(reply.moment()?)),
        "missing_model" => Reserve::Refused(Refusal::MissingModel),
        _ => return Err(reply.unexpected()),
    })
}

/// The command that gives a slot back, granted at this moment, and says 1 if it did: only an unspent
/// lease ends after its own beginning, so moving its end there spends it, and changes nothing where
/// that was done before. The mark is as old as the grant, and marks are kept for that much longer.
pub(super) fn release_young(node: &NodeId, token: LeaseToken, granted: Moment) -> Cmd {
    let mut add = Cmd::with_capacity(7, 192);
    add.arg("ZADD").arg(node_leases(node)).arg("XX").arg("GT").arg("CH");
    add.write_arg_fmt(format_args!("-{}9", granted.as_millis()));
    add.write_arg_fmt(token);
    add
}
