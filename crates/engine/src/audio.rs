//! Audio that was handed in ahead of its job: kept for a while, found only by the reference that was
//! given out for it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lingua_core::TenantId;
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::job::Refusal;
use crate::retention::TenantRetention;
use crate::shared::Shared;

const SCHEME: &str = "blob://";

/// When one who keeps nothing and finds no room may try again.
const RETRY_MS: u64 = 1_000;

/// The name of its limit, as the configuration and the metrics have it.
const KEPT: &str = "audio_keep_bytes";

/// The store of audio of one instance. Bounded in time, number and bytes; never written anywhere. What
/// is taken is kept for its time.
pub struct Audio {
    shared: Arc<Shared>,
    inner: Mutex<Inner>,
}

struct Inner {
    blobs: HashMap<u128, Bytes>,
    kept: TenantRetention<u128>,
}

impl Audio {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let settings = &shared.settings;
        let kept = TenantRetention::new(settings.audio, settings.admission.shares.clone());
        let inner = Mutex::new(Inner { blobs: HashMap::new(), kept });
        Audio { shared, inner }
    }

    /// Keeps the bytes; the reference is good until the given epoch milliseconds. Refuses what would
    /// take room that is promised to others.
    pub fn keep(&self, tenant: &TenantId, audio: Bytes) -> Result<(String, u64), Refusal> {
        let settings = &self.shared.settings;
        if audio.is_empty() {
            return Err(Refusal::new(Code::InvalidMessage, "there is no audio in the body"));
        }
        if audio.len() > settings.max_audio_bytes {
            return Err(too_large(settings.max_audio_bytes));
        }
        let id = self.shared.chance.nonce();
        let now = Instant::now();
        {
            let mut inner = self.inner.lock();
            let Inner { blobs, kept } = &mut *inner;
            while let Some(over) = kept.expire(now) {
                blobs.remove(&over);
            }
            if !kept.has_room(tenant, audio.len()) {
                let wait = kept.next_expiry(tenant, now).map_or(RETRY_MS, millis);
                drop(inner);
                self.shared.metrics.limited(KEPT);
                let full = "quota: the tenant has uploaded as much audio as it may keep; send it inline, or retry later";
                return Err(Refusal::new(Code::QuotaExceeded, full).retry_after(wait.max(1)));
            }
            kept.insert(tenant, id, audio.len(), now);
            blobs.insert(id, audio);
        }
        let expires = self.shared.clock.now().as_millis() + settings.audio.keep_ms;
        let name = format!("{id:032x}.{expires}");
        let mark = self.shared.secret.sign(&format!("{tenant} {name}"));
        Ok((format!("{SCHEME}{name}.{mark}"), expires))
    }

    /// The bytes of a reference that was made here, for this tenant, and is still good.
    pub fn fetch(&self, tenant: &TenantId, reference: &str) -> Result<Bytes, Refusal> {
        let wrong = || {
            let detail = "audio_ref is not a reference that was made here; POST /v1/audio takes the audio \
                          and answers with one";
            Refusal::new(Code::InvalidMessage, detail)
        };
        let name = reference.strip_prefix(SCHEME).unwrap_or(reference);
        let (name, mark) = name.rsplit_once('.').ok_or_else(wrong)?;
        if !self.shared.secret.verify(&format!("{tenant} {name}"), mark) {
            return Err(wrong());
        }
        let (id, expires) = name.split_once('.').ok_or_else(wrong)?;
        let id = u128::from_str_radix(id, 16).map_err(|_| wrong())?;
        let expires: u64 = expires.parse().map_err(|_| wrong())?;
        let found = self.inner.lock().blobs.get(&id).cloned();
        let good = expires > self.shared.clock.now().as_millis();
        found.filter(|_| good).ok_or_else(|| {
            Refusal::new(Code::NotFound, "the audio of this reference is no longer kept here")
        })
    }
}

/// A piece of audio is too large.
pub fn too_large(limit: usize) -> Refusal {
    Refusal::new(Code::MessageTooLarge, format!("audio has at most {limit} bytes"))
}
