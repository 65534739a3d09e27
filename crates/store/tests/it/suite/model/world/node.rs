//! One node: its leases, and whether it is trusted with more.

use super::*;

impl Node {
    pub(super) fn used(&self, now: Moment) -> u32 {
        self.leases.iter().filter(|lease| lease.until > now).count() as u32
    }

    pub(super) fn recovering(&self, now: Moment) -> bool {
        match self.record.as_ref().map(|record| record.trust) {
            Some(Trust::Unconfirmed) => true,
            Some(Trust::HeldUntil(until)) => until > now,
            Some(Trust::Full) | None => false,
        }
    }

    pub(super) fn remove(&mut self, token: LeaseToken) -> Option<Lease> {
        let at = self.leases.iter().position(|lease| lease.token == token)?;
        Some(self.leases.remove(at))
    }

    pub(super) fn reserve(
        &mut self,
        now: Moment,
        token: LeaseToken,
        refusal: Option<Refusal>,
        lease: Duration,
    ) -> Reserve {
        match self.leases.iter().find(|lease| lease.token == token) {
            Some(lease) if lease.until > now => return Reserve::Already { until: lease.until },
            Some(_) => return Reserve::Spent,
            None if self.spent.contains(&token) => return Reserve::Spent,
            None => {}
        }
        if let Some(refusal) = refusal {
            return Reserve::Refused(refusal);
        }
        let (used, max) = (self.used(now), self.max());
        if used >= max {
            return Reserve::Full { used, max };
        }
        let until = now + lease;
        self.leases.push(Lease { token, running: false, until });
        Reserve::Granted { until, used: used + 1 }
    }

    pub(super) fn refusal(
        &self,
        now: Moment,
        cast: &Cast,
        profile: usize,
        model: bool,
    ) -> Option<Refusal> {
        let Some(record) = &self.record else { return Some(Refusal::UnknownNode) };
        if record.profile != profile {
            return Some(Refusal::Changed(cast.version(record.profile)));
        }
        if record.vitals.health != Health::Ready {
            return Some(Refusal::Closed);
        }
        if record.fresh_until <= now {
            return Some(Refusal::Stale);
        }
        match record.trust {
            Trust::Unconfirmed => return Some(Refusal::Unconfirmed),
            Trust::HeldUntil(until) if until > now => return Some(Refusal::Held(until)),
            _ => {}
        }
        let missing = self.missing_model_until.is_some_and(|until| until > now);
        (model && missing).then_some(Refusal::MissingModel)
    }

    pub(super) fn max(&self) -> u32 {
        self.record.as_ref().map_or(0, |record| record.vitals.max)
    }

    pub(super) fn commit(
        &mut self,
        now: Moment,
        token: LeaseToken,
        lease: Duration,
        max: u32,
    ) -> Commit {
        let known = self.leases.iter().find(|lease| lease.token == token).copied();
        let live = known.is_some_and(|lease| lease.until > now);
        let regainable = known.is_some() || (self.recovering(now) && !self.spent.contains(&token));
        if !live && (!regainable || self.used(now) >= max) {
            return Commit::Lost;
        }
        self.remove(token);
        let until = now + lease;
        self.leases.push(Lease { token, running: true, until });
        match known {
            Some(lease) if live && lease.running => Commit::Already(until),
            Some(_) if live => Commit::Committed(until),
            _ => Commit::Regained(until),
        }
    }

    pub(super) fn release(&mut self, now: Moment, token: LeaseToken) -> bool {
        let freed = self.remove(token).is_some_and(|lease| lease.until > now);
        self.spent.push(token);
        freed
    }

    pub(super) fn confirm(
        &mut self,
        now: Moment,
        epoch: u64,
        running: Option<Vec<LeaseToken>>,
        lease: Duration,
        hold: Duration,
    ) -> Confirm {
        let recovering = self.recovering(now);
        let Some(record) = &mut self.record else { return Confirm::Unknown };
        if record.epoch > epoch {
            return Confirm::Superseded { epoch: record.epoch };
        }
        let max = if recovering { u32::MAX } else { record.vitals.max };
        let unconfirmed = record.trust == Trust::Unconfirmed;
        let held = Trust::HeldUntil(now + if running.is_some() { hold } else { 2 * hold });
        let mut confirmed = Confirmed::default();
        if let Some(running) = running {
            let recent = now + (lease - GRACE);
            let gone = |lease: &&Lease| {
                lease.running
                    && lease.until > now
                    && lease.until <= recent
                    && !running.contains(&lease.token)
            };
            confirmed.dropped = self.leases.iter().filter(gone).map(|l| l.token).collect();
            confirmed.dropped.sort_by_key(ToString::to_string);
            // What it no longer runs makes room for what it runs, or a second report would find
            // room that the first one did not.
            for token in &confirmed.dropped {
                self.release(now, *token);
            }
            for token in running {
                if self.commit(now, token, lease, max) == Commit::Lost {
                    confirmed.unknown.push(token);
                }
            }
        }
        if let Some(record) = self.record.as_mut().filter(|_| unconfirmed) {
            record.trust = held;
        }
        Confirm::Confirmed(confirmed)
    }
}
