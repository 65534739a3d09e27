//! `[cluster]`.

use std::path::PathBuf;

use super::section;

section! {
    /// Several instances over one store.
    "cluster.": Cluster in cluster {
        /// A file with the shared key of all instances of one store: 64 hexadecimal digits, such as from `openssl rand
        /// -hex 32`. It signs messages between instances and resume tokens, and is never in the store. If empty: with
        /// memory the process generates one, with file:DIR in that directory; with a Redis on this machine one is
        /// generated in the user's state directory; with any other Redis the option is required.
        key_file: Option<PathBuf> = None;
        /// Ownership lease: how long an instance owns a session or a node without renewal.
        @ owner_ttl_ms in timing.owner_ttl_ms, 300..=600_000;
        /// Interval of the snapshot for dashboard, `lingua top` and statistics.
        @ snapshot_ms in snapshot_ms, 100..=60_000;
    }
}
