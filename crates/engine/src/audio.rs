//! Audio that was handed in ahead of its job: kept for a while, found only by the reference that was
//! given out for it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::TenantId;
use lingua_core::outcome::Code;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::job::Refusal;
use crate::shared::Shared;

const SCHEME: &str = "blob://";

/// The store of audio of one instance. Bounded in time, number and bytes; never written anywhere.
pub struct Audio {
    shared: Arc<Shared>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    blobs: HashMap<u128, (TenantId, Bytes)>,
    order: VecDeque<(Instant, u128, usize)>,
    bytes: usize,
}

impl Audio {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Audio { shared, inner: Mutex::default() }
    }

    /// Keeps the bytes; the reference is good until the given epoch milliseconds.
    pub fn keep(&self, tenant: &TenantId, audio: Bytes) -> Result<(String, u64), Refusal> {
        let settings = &self.shared.settings;
        if audio.is_empty() {
            return Err(Refusal::new(Code::InvalidMessage, "there is no audio in the body"));
        }
        if audio.len() > settings.max_audio_bytes {
            return Err(too_large(settings.max_audio_bytes));
        }
        let id = self.shared.chance.nonce();
        let keep = Duration::from_millis(settings.audio.keep_ms);
        let now = Instant::now();
        let size = audio.len();
        {
            let mut inner = self.inner.lock();
            inner.blobs.insert(id, (tenant.clone(), audio));
            inner.order.push_back((now, id, size));
            inner.bytes += size;
            while let Some((at, oldest, size)) = inner.order.front().copied()
                && (now - at > keep
                    || inner.order.len() > settings.audio.max_entries
                    || inner.bytes > settings.audio.max_bytes)
            {
                inner.order.pop_front();
                inner.blobs.remove(&oldest);
                inner.bytes -= size;
            }
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
        let found = self.inner.lock().blobs.get(&id).map(|(_, bytes)| bytes.clone());
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
