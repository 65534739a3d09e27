//! `[limits]`.

use super::section;

section! {
    /// Limits, rate limits and quotas.
    "limits.": Limits in limits {
        /// Open connections. Further ones wait in the accept queue of the kernel.
        connections: usize = 65_536, 16..=1_000_000;
        /// Open connections from one address. Behind a load balancer all clients share one.
        connections_per_address: usize = 4_096, 1..=1_000_000;
        /// Time for the TLS handshake and the headers of the first request of a connection.
        header_timeout_ms: u64 = 5_000, 100..=60_000;
        /// Keep-alive timeout: time until the headers of the next request of a connection.
        idle_timeout_ms: u64 = 15_000, 100..=3_600_000;
        /// Time from the opening of a WebSocket to the registration of a node or the opening of a session. Other
        /// messages do not extend it.
        handshake_timeout_ms: u64 = 10_000, 100..=60_000;
        /// Time from the first to the last byte of a WebSocket message or request body. Long enough for the largest
        /// message on a slow link.
        message_timeout_ms: u64 = 30_000, 100..=3_600_000;
        /// Time after which a WebSocket without a message or a pong is closed.
        silence_ms: u64 = 90_000, 1_000..=3_600_000;
        /// Size of one client message in bytes. A whole utterance fits, in base64 too.
        session_message_bytes: usize = (2 << 20) / 3 * 4 + (64 << 10), 1_024..=67_108_864;
        /// Size of one node message in bytes. Several times the size of a result with audio.
        node_message_bytes: usize = 16 << 20, 65_536..=67_108_864;
        /// Size of one result in bytes, as the node sends it; a larger one fails its attempt. Below the 8 MiB that
        /// may be queued for one client, so that no result ends a session.
        @ result_bytes in max_result_bytes, 65_536..=7_340_032;
        /// Rate limit (token bucket) of messages per second from one client; burst: twice the rate. A client above
        /// it is read more slowly (back-pressure). A continuation frame below 1 KiB counts as a message.
        session_messages_per_s: u32 = 200, 1..=100_000;
        /// Rate limit (token bucket) of messages per second from one node, without those about its jobs; burst:
        /// twice the rate. A continuation frame below 1 KiB counts as a message. A node above it is disconnected.
        node_messages_per_s: u32 = 2_000, 1..=100_000;
        /// Rate limit (token bucket) of registrations per minute of one node; burst: the same number. More are
        /// refused. Enough for a node that reconnects every other second.
        @ node_registrations_per_min in node_limits.registrations_per_min, 1..=6_000;
        /// Rate limit (token bucket) of writes per second of one node's record to the store; burst: the same number.
        /// Updates above it are coalesced and written later.
        @ node_updates_per_s in node_limits.updates_per_s, 1..=1_000;
        /// Rate limit (token bucket) of jobs per second that one node reports and this instance has to look up in
        /// the store; burst: 512, or the rate if that is higher. More are refused. Enough for a node with 256 slots
        /// that moved here and reports them in every heartbeat.
        @ node_lookups_per_s in node_limits.lookups_per_s, 1..=10_000;
        /// Memory for incomplete messages and request bodies, on all connections. Above it messages wait to be read,
        /// and bodies are refused.
        unfinished_bytes: usize = 256 << 20, 1_048_576..=1_099_511_627_776;
        /// The same for one address. Behind a load balancer all clients share one.
        unfinished_bytes_per_address: usize = 64 << 20, 1_048_576..=1_099_511_627_776;
        /// The same for one tenant.
        unfinished_bytes_per_tenant: usize = 64 << 20, 1_048_576..=1_099_511_627_776;
        /// Sessions of this instance, including those whose client is disconnected and may resume.
        @ sessions in sessions.total, 1..=1_000_000;
        /// Sessions of one tenant.
        @ sessions_per_tenant in sessions.per_tenant, 1..=1_000_000;
        /// Sessions of one subject of a tenant: one user, or one program that acts for many.
        sessions_per_subject: usize = 1_000, 1..=1_000_000;
        /// Rate limit (token bucket) of HTTP calls per second of one subject; burst: the same number. 0 disables it.
        /// Does not apply to nodes.
        calls_per_subject_per_s: u32 = 1_000, 0..=1_000_000;
        /// Open jobs of this instance. New ones are refused above it (load shedding).
        @ jobs in admission.jobs, 1..=1_000_000;
        /// Open jobs of one tenant.
        @ jobs_per_tenant in admission.jobs_per_tenant, 1..=1_000_000;
        /// Rate limit (token bucket) of new jobs per second of one tenant; burst: the same number. 0 disables it.
        /// The default is half of what one instance can do, so that no tenant takes all of it.
        @ jobs_per_tenant_per_s in admission.jobs_per_tenant_per_s, 0..=1_000_000;
        /// Jobs of other instances for which callers wait here (wait_ms), each counted once. More are refused.
        /// Each costs one message to every instance and one reply.
        @ job_watches in watches.total, 1..=1_000_000;
        /// The same for one tenant.
        @ job_watches_per_tenant in watches.per_tenant, 1..=1_000_000;
        /// Weights of tenants for fair sharing when all nodes are busy, as "tenant=weight". Other tenants have
        /// weight 1.
        @ tenant_shares in admission.shares;
    }
}
