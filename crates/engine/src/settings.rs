//! Every figure of the engine that an operator may set, with its reason.

use std::collections::{BTreeMap, HashMap};

use lingua_core::budget::Timing;
use lingua_core::fleet::select::SelectPolicy;
use lingua_core::inventory::{Asks, Requirements};
use lingua_core::job::Policy;
pub use lingua_core::link::BreakerPolicy;
use lingua_core::link::{SlowStart, Thresholds};
use lingua_core::{Lang, Profile, Region, TenantId};

/// How one scheduler behaves. Correctness is not a setting.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Whose defaults these are, and that of whoever asks for none.
    pub profile: Profile,
    /// Those of tenants that have another one.
    pub tenant_profiles: HashMap<TenantId, Profile>,
    /// Regions where the speech of a tenant may be.
    pub tenant_residency: BTreeMap<TenantId, Vec<Region>>,
    /// The spans that have relations to each other.
    pub timing: Timing,
    /// How far choosing a node goes.
    pub select: SelectPolicy,
    /// Where this instance and its clients are.
    pub region: Option<Region>,
    /// Spare the node of a session's last utterance while others are free.
    pub avoid_last: bool,
    /// Begin a second copy of a job that has no answer after so long; `None` never does.
    pub hedge_after_ms: Option<u64>,
    /// A sentence whose result comes within so long of its end meets the service level.
    pub slo_ms: u64,
    /// The pause before the first retry of a failed attempt, and twice as much before each later one.
    pub retry_backoff_ms: u64,
    /// Translations by way of another language.
    pub pivot: PivotPolicy,
    /// Slots of a node that does not say how many it has.
    pub default_max_slots: u32,
    /// Whose slots are filled slowly, as the node shows that it works.
    pub slow_start: SlowStart,
    /// A process as young as this may be the successor of one that knew the nodes: it does not say of a
    /// node without a record that it is new, unless that says what it runs. One longest lease; 0 says that
    /// no process was there before.
    pub restart_hold_ms: u64,
    /// A node that reports more of a resource in use is a last resort.
    pub overload: Thresholds,
    /// When a failing node is left alone, and for how long.
    pub breaker: BreakerPolicy,
    /// How long a node that lost its connection may take to come back to the jobs it accepted.
    pub reconnect_grace_ms: u64,
    /// How long open jobs may take to end once the process is to stop.
    pub drain_ms: u64,
    /// Jobs in line for one pair, and in all lines together.
    pub waiting: WaitingBounds,
    /// What happens when a node misses a model.
    pub gaps: GapPolicy,
    /// How long and how much of ended jobs is remembered.
    pub results: Retention,
    /// The same for audio that was handed in ahead of its job.
    pub audio: Retention,
    /// Bytes of one piece of audio.
    pub max_audio_bytes: usize,
    /// Bytes of one result, as the node sends it.
    pub max_result_bytes: usize,
    /// What nodes are told as the session of a job.
    pub node_session_alias: SessionAlias,
    /// How many conversations, and how much of each.
    pub sessions: SessionBounds,
    /// How often how everything stands is put together for those who look.
    pub snapshot_ms: u64,
    /// How many jobs are taken in.
    pub admission: Admission,
    /// How much of what one node says reaches the store.
    pub node_limits: NodeLimits,
    /// Jobs of other instances that are waited for.
    pub watches: WatchBounds,
}

/// Translations by way of another language, where no node does the whole.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PivotPolicy {
    /// The languages between, in the order in which they are tried; none for no such translation.
    pub langs: Vec<Lang>,
    /// Tenants that want none.
    pub without: Vec<TenantId>,
}

impl PivotPolicy {
    /// The languages between for this tenant.
    pub fn of(&self, tenant: &TenantId) -> &[Lang] {
        if self.without.contains(tenant) { &[] } else { &self.langs }
    }
}

/// Jobs of other instances that are waited for, each once however many wait for it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WatchBounds {
    /// Of all tenants together.
    pub total: usize,
    /// Of one tenant.
    pub per_tenant: usize,
}

/// How much of what one node says reaches the store. Honest nodes stay far below.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeLimits {
    /// Registrations in a minute, and as many at once; more are refused.
    pub registrations_per_min: u32,
    /// Updates of its record in a second, and as many at once; more are written later, together.
    pub updates_per_s: u32,
    /// Jobs it names that this instance does not know, in a second; more are refused.
    pub lookups_per_s: u32,
}

/// How many jobs are taken in, before there are more than can be served.
#[derive(Clone, PartialEq, Debug)]
pub struct Admission {
    /// Open ones of this instance.
    pub jobs: usize,
    /// Of one tenant.
    pub jobs_per_tenant: usize,
    /// New ones of one tenant in a second, and as many at once; 0 for no limit.
    pub jobs_per_tenant_per_s: u32,
    /// Of tenants that get more than one share of the slots when all nodes are busy.
    pub shares: HashMap<TenantId, u32>,
}

/// How many jobs may be in line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WaitingBounds {
    /// For one pair: more could not be served within `queue_max_ms` by any fleet of that size.
    pub per_pair: usize,
    /// In all lines together.
    pub total: usize,
}

/// What happens when a node misses a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GapPolicy {
    /// How long the node is not asked for it again.
    pub remember_ms: u64,
    /// The costly reaction happens once in so long for each model.
    pub reaction_window_ms: u64,
    /// One report in so long on average, from one node.
    pub report_interval_ms: u64,
    /// Reports at once.
    pub report_burst: u32,
}

/// How long and how much is remembered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Retention {
    /// For how long.
    pub keep_ms: u64,
    /// How many, of all tenants together.
    pub max_entries: usize,
    /// How many bytes, of all tenants together.
    pub max_bytes: usize,
}

/// How many conversations, and how much of each.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SessionBounds {
    /// Of all tenants together, those whose client is away for a moment counted.
    pub total: usize,
    /// Of one tenant.
    pub per_tenant: usize,
    /// Bytes of speech of one of them, not yet cut or with open jobs.
    pub held_bytes: usize,
    /// Jobs of one of them whose endings are not told; an utterance has one for each target.
    pub open_utterances: usize,
    /// Endings of one of them, for each target, that are kept in case its client did not see them.
    pub kept_endings: usize,
    /// Bytes of those.
    pub kept_bytes: usize,
    /// Sentences said before that go along with a job, so that any node keeps the meaning.
    pub context_sentences: usize,
    /// Characters of those.
    pub context_chars: usize,
}

/// What nodes are told as the session of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionAlias {
    /// Another name for every turn, so that a node cannot follow a speaker.
    Turn,
    /// The session's own id, for agents whose lexicon or context needs it.
    Session,
}

impl Settings {
    /// The default: nothing is given up early.
    pub fn stable() -> Self {
        Settings {
            profile: Profile::Stable,
            tenant_profiles: HashMap::new(),
            tenant_residency: BTreeMap::new(),
            timing: Timing::stable(),
            select: SelectPolicy::default(),
            region: None,
            avoid_last: true,
            hedge_after_ms: None,
            slo_ms: 5_000,
            retry_backoff_ms: 200,
            pivot: PivotPolicy {
                langs: vec![Lang::new("en").expect("a tag")],
                without: Vec::new(),
            },
            default_max_slots: 4,
            slow_start: SlowStart::Strangers,
            restart_hold_ms: Timing::stable().longest_lease_ms(),
            overload: Thresholds::of_all(95.0),
            breaker: BreakerPolicy {
                failures: 3,
                first_pause_ms: 2_000,
                longest_pause_ms: 120_000,
            },
            reconnect_grace_ms: 2_000,
            // A job on a node may take so long, and a little more to be delivered.
            drain_ms: 32_000,
            waiting: WaitingBounds { per_pair: 1_000, total: 10_000 },
            gaps: GapPolicy {
                remember_ms: 60_000,
                reaction_window_ms: 10_000,
                report_interval_ms: 1_000,
                report_burst: 10,
            },
            results: Retention { keep_ms: 120_000, max_entries: 20_000, max_bytes: 128 << 20 },
            audio: Retention { keep_ms: 120_000, max_entries: 10_000, max_bytes: 256 << 20 },
            max_audio_bytes: 2 << 20,
            // 30 s of 16-bit speech at 48 kHz in base64 fit; a session takes twice as much at once.
            max_result_bytes: 4 << 20,
            node_session_alias: SessionAlias::Turn,
            sessions: SessionBounds {
                total: 50_000,
                per_tenant: 20_000,
                held_bytes: 8 << 20,
                open_utterances: 32,
                kept_endings: 16,
                kept_bytes: 512 << 10,
                context_sentences: 3,
                context_chars: 400,
            },
            snapshot_ms: 5_000,
            admission: Admission {
                jobs: 50_000,
                jobs_per_tenant: 20_000,
                jobs_per_tenant_per_s: 8_000,
                shares: HashMap::new(),
            },
            node_limits: NodeLimits {
                // A node whose network fails every other second still comes back.
                registrations_per_min: 60,
                // A heartbeat comes every 5 s, and a change of abilities with it.
                updates_per_s: 10,
                // 256 slots, every 5 s.
                lookups_per_s: 64,
            },
            watches: WatchBounds { total: 8_192, per_tenant: 2_048 },
        }
    }

    /// For fleets of quick nodes, where late is as bad as never.
    pub fn fast() -> Self {
        Settings {
            profile: Profile::Fast,
            timing: Timing::fast(),
            hedge_after_ms: Some(2_000),
            slo_ms: 2_000,
            retry_backoff_ms: 0,
            select: SelectPolicy { sample_k: 40, ..SelectPolicy::default() },
            reconnect_grace_ms: 500,
            ..Settings::stable()
        }
    }

    /// The preset of this profile.
    pub fn preset(profile: Profile) -> Self {
        match profile {
            Profile::Stable => Settings::stable(),
            Profile::Fast => Settings::fast(),
        }
    }

    /// The profile of a job: the one that was asked for, else its tenant's, else that of these settings.
    pub fn profile_of(&self, asked: Option<Profile>, tenant: &TenantId) -> Profile {
        let of_tenant = || self.tenant_profiles.get(tenant).copied();
        asked.or_else(of_tenant).unwrap_or(self.profile)
    }

    /// What a job of this tenant asks for: what was said, and where the tenant's speech may be.
    pub fn asks_of(&self, mut said: Requirements, tenant: &TenantId) -> Asks {
        if let Some(regions) = self.tenant_residency.get(tenant) {
            said.tenant_regions.clone_from(regions);
        }
        Asks::new(said)
    }

    /// The spans of jobs of this profile: as they are set in that of these settings, and as the preset has
    /// them in the other.
    pub fn timing_of(&self, profile: Profile) -> Timing {
        if profile == self.profile { self.timing } else { self.timing.with_jobs_of(profile) }
    }

    /// The figures by which jobs of this profile are decided.
    pub fn policy_of(&self, profile: Profile) -> Policy {
        let of = |settings: &Settings| Policy {
            timing: self.timing_of(profile),
            hedge_after_ms: settings.hedge_after_ms,
            reconnect_grace_ms: settings.reconnect_grace_ms,
            retry_backoff_ms: settings.retry_backoff_ms,
        };
        if profile == self.profile { of(self) } else { of(&Settings::preset(profile)) }
    }

    /// How jobs of this profile choose.
    pub fn select_of(&self, profile: Profile) -> SelectPolicy {
        if profile == self.profile {
            return self.select;
        }
        SelectPolicy { sample_k: Settings::preset(profile).select.sample_k, ..self.select }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_profile_that_was_asked_for_or_its_tenants_or_the_instances() {
        let (acme, other): (TenantId, TenantId) = ("acme".parse().unwrap(), "b".parse().unwrap());
        let tenant_profiles = [(acme.clone(), Profile::Fast)].into();
        let settings = Settings { tenant_profiles, ..Settings::stable() };
        assert_eq!(settings.profile_of(None, &other), Profile::Stable);
        assert_eq!(settings.profile_of(None, &acme), Profile::Fast);
        assert_eq!(settings.profile_of(Some(Profile::Stable), &acme), Profile::Stable);
    }

    #[test]
    fn what_is_set_counts_in_the_own_profile_and_the_other_has_its_preset() {
        let mut settings = Settings { hedge_after_ms: Some(777), ..Settings::stable() };
        settings.select.sample_k = 3;
        settings.select.scan_bound = 9;
        settings.timing.deadline_ms = 50_000;
        let (own, fast) = (settings.policy_of(Profile::Stable), settings.policy_of(Profile::Fast));
        assert_eq!((own.hedge_after_ms, own.timing.deadline_ms), (Some(777), 50_000));
        assert_eq!((fast.hedge_after_ms, fast.timing.deadline_ms), (Some(2_000), 25_000));
        assert!(own.retry_backoff_ms > 0 && fast.retry_backoff_ms == 0);
        let (own, fast) = (settings.select_of(Profile::Stable), settings.select_of(Profile::Fast));
        assert_eq!((own.sample_k, fast.sample_k), (3, 40), "fast compares more nodes");
        assert_eq!(fast.scan_bound, 9);
    }

    #[test]
    fn pivots_are_off_for_tenants_that_want_none() {
        let (acme, other): (TenantId, TenantId) = ("acme".parse().unwrap(), "b".parse().unwrap());
        let pivot = PivotPolicy { without: vec![acme.clone()], ..Settings::stable().pivot };
        assert_eq!((pivot.of(&acme).len(), pivot.of(&other).len()), (0, 1));
    }
}
