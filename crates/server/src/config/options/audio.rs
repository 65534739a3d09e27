//! `[audio]`.

use super::engine_section;

engine_section! {
    /// Audio uploaded before its job.
    "audio." {
        /// How long uploaded audio is kept. Nothing is evicted earlier.
        keep_ms in audio.keep_ms, 1..=86_400_000;
        /// How many uploads are kept. A tenant may use as many as are still free, times its weight
        /// (limits.tenant_shares): one tenant alone half of them, two tenants a third each. More are refused.
        keep_entries in audio.max_entries, 1..=10_000_000;
        /// How many bytes of audio are kept, shared in the same way.
        keep_bytes in audio.max_bytes, 1..=68_719_476_736;
    }
}
