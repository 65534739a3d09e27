//! `[identity]`.

use std::path::PathBuf;

use super::section;

section! {
    /// Authentication and browser access. Without key_files there is no authentication.
    "identity.": Identity in identity {
        /// Public keys that verify tokens, as PEM (Ed25519); `lingua token key` makes a key pair. The `kid` of a
        /// token is the file name up to its first dot. To rotate, keep the old key until its last token has expired.
        key_files: Vec<PathBuf> = Vec::new() => reloads;
        /// The required `iss` of tokens.
        issuer: String = "lingua".to_owned() => reloads;
        /// The required `aud` of tokens. Use a different one for each platform of the same issuer.
        audience: String = "lingua".to_owned() => reloads;
        /// The maximum lifetime of session tokens, from `nbf` to `exp`. A short one limits the use of a stolen
        /// token.
        session_life_s: u64 = 900, 10..=86_400 => reloads;
        /// The maximum lifetime of node tokens. Long, because nodes cannot easily get new ones; revoke a stolen one.
        node_life_s: u64 = 2_592_000, 10..=31_536_000 => reloads;
        /// The maximum lifetime of administrator tokens.
        admin_life_s: u64 = 3_600, 10..=86_400 => reloads;
        /// The maximum lifetime of viewer tokens. Viewers read what administrators read and change nothing.
        viewer_life_s: u64 = 86_400, 10..=31_536_000 => reloads;
        /// The maximum lifetime of metrics tokens, which only read `/metrics`. Long, because Prometheus reads its token
        /// from a file that an operator has to replace.
        metrics_life_s: u64 = 2_592_000, 10..=31_536_000 => reloads;
        /// The allowed clock skew between token issuer and scheduler.
        leeway_s: u64 = 5, 0..=60 => reloads;
        /// How often the revocation list is read from the store: the time until a revocation takes effect.
        recheck_ms: u64 = 2_000, 100..=60_000;
        /// Allowed browser origins, such as https://talk.example.org, by exact match. The pages of the scheduler
        /// itself are always allowed; without key_files also pages on localhost, on any port.
        origins: Vec<String> = Vec::new() => reloads;
        /// Host names of this scheduler, such as lingua.example.org, to prevent DNS rebinding. localhost is always
        /// allowed, and any IP address if the scheduler listens beyond loopback. Requests for other hosts are
        /// refused (421): always without key_files, and with key_files only if this list is not empty.
        hosts: Vec<String> = Vec::new() => reloads;
    }
}
