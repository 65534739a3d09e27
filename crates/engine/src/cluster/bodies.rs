//! Speech and results on their way to another instance: kept here for a moment, and fetched by who
//! knows their name.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::words::BodyRef;
use crate::chance::Chance;

/// How long a body waits to be fetched: longer than any job may take to be placed again.
const KEEP: Duration = Duration::from_secs(90);

/// Bytes of all that wait; beyond it the oldest go first.
const MAX_BYTES: usize = 256 << 20;

/// The way to the bodies of other instances. The server's edge has it: no HTTP in here.
pub trait Fetch: Send + Sync {
    /// The body of this name at this instance's address.
    fn fetch(
        &self,
        address: String,
        name: String,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>>;
}

/// What waits to be fetched.
#[derive(Default)]
pub(crate) struct Bodies(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_name: HashMap<u128, Bytes, foldhash::quality::RandomState>,
    order: VecDeque<(Instant, u128, usize)>,
    bytes: usize,
}

impl Bodies {
    /// Keeps a body for a while. Its name is 128 bits that nobody can guess, and is told only to
    /// the instance that is to fetch it.
    pub fn keep(&self, body: Bytes, chance: Chance) -> BodyRef {
        let (name, now) = (chance.nonce(), Instant::now());
        let bytes = body.len();
        let mut kept = self.0.lock();
        kept.by_name.insert(name, body);
        kept.order.push_back((now, name, bytes));
        kept.bytes += bytes;
        while let Some((at, oldest, size)) = kept.order.front().copied()
            && (now - at > KEEP || kept.bytes > MAX_BYTES)
        {
            kept.order.pop_front();
            kept.by_name.remove(&oldest);
            kept.bytes -= size;
        }
        BodyRef { name: format!("{name:032x}"), bytes }
    }

    /// The body of this name, if it is still here. It stays: an answer may be lost.
    pub fn get(&self, name: &str) -> Option<Bytes> {
        let name = u128::from_str_radix(name, 16).ok()?;
        self.0.lock().by_name.get(&name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_found_by_its_name_alone() {
        let bodies = Bodies::default();
        let kept = bodies.keep(Bytes::from_static(b"speech"), Chance);
        assert_eq!(kept.bytes, 6);
        assert_eq!(bodies.get(&kept.name).as_deref(), Some(&b"speech"[..]));
        assert!(bodies.get("00").is_none() && bodies.get("é").is_none());
    }

    #[test]
    fn what_waits_is_bounded() {
        let bodies = Bodies::default();
        let first = bodies.keep(Bytes::from(vec![0; MAX_BYTES / 2]), Chance);
        bodies.keep(Bytes::from(vec![0; MAX_BYTES / 2]), Chance);
        assert!(bodies.get(&first.name).is_some());
        bodies.keep(Bytes::from_static(b"one more"), Chance);
        assert!(bodies.get(&first.name).is_none(), "the oldest goes first");
    }
}
