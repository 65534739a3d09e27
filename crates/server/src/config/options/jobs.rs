//! `[jobs]`.

use super::engine_section;

engine_section! {
    /// Jobs: timeouts, retries, leases, node selection and the wait queue. deadline_ms has to be at least
    /// queue_max_ms + max_attempts * (send_ms + ack_ms) + exec_max_ms + margin_ms.
    "jobs." {
        /// Deadline of a job, from the end of the utterance to its result or failure.
        deadline_ms in timing.deadline_ms, 1..=3_600_000;
        /// The longest time that a job waits in the queue when every eligible node is full.
        queue_max_ms in timing.queue_max_ms, 0..=600_000;
        /// Attempts per job, including the first: 2 means one retry.
        max_attempts in timing.max_attempts, 1..=10;
        /// Timeout for sending a job to the node's socket, also through another instance.
        send_ms in timing.send_ms, 1..=60_000;
        /// Timeout for the node's ack after that.
        ack_ms in timing.ack_ms, 1..=60_000;
        /// Ack timeout of nodes that ack over HTTP, if longer than ack_ms: they poll for jobs and open a connection
        /// for every call. Their slots are reserved for as much longer.
        http_ack_ms in timing.http_ack_ms, 1..=60_000;
        /// Timeout for the work of a node on one job.
        exec_max_ms in timing.exec_max_ms, 1..=3_600_000;
        /// Allowance for the scheduler itself: store, messages between instances, delivery.
        margin_ms in timing.margin_ms, 0..=60_000;
        /// Lease of a slot reserved for a job that is being sent. Longer than send_ms + ack_ms.
        reserve_lease_ms in timing.reserve_lease_ms, 1..=600_000;
        /// Lease of the slot of a running job. The node's reports renew it.
        running_lease_ms in timing.running_lease_ms, 1..=3_600_000;
        /// Hedging: start a second attempt on another node after this time without a result. 0 disables it.
        hedge_after_ms in hedge_after_ms, 0..=600_000;
        /// The service level: a sentence meets it if its result comes within this time of its end. Only counted
        /// (lingua_sentences_total), never enforced.
        slo_ms in slo_ms, 1..=600_000;
        /// The pause before the first retry of a failed attempt; before each later one it is twice as long. 0 disables
        /// it.
        retry_backoff_ms in retry_backoff_ms, 0..=60_000;
        /// Tenants whose jobs have another profile than this instance, as "tenant=fast" or "tenant=stable". A session or
        /// job that names a profile has that one. The options of this section set the figures of the profile of the
        /// instance; the other one has the figures of its preset.
        tenant_profiles in tenant_profiles;
        /// Tenants whose jobs may only go to nodes of some regions, as "tenant=eu" or "tenant=eu+uk". A node that does not
        /// say where it is gets none of them.
        tenant_residency in tenant_residency;
        /// Languages by way of which a job is translated when no node translates directly: two jobs, one deadline. The
        /// second one needs a node with "text" in supports. Tried in this order; empty disables it.
        pivot_langs in pivot.langs;
        /// Tenants whose jobs are never translated by way of another language.
        no_pivot_tenants in pivot.without;
        /// Random sample of eligible nodes, of which the least loaded is chosen. At 80 % load the best of 20 refuses
        /// one job in ten thousand; a single random choice refuses one in three.
        sample_k in select.sample_k, 1..=256;
        /// Which node of the sample is tried first. "load": the least loaded, then the fastest. "region": as "load",
        /// but among equally loaded nodes those of the session's region first, or of this one if it names none. "cheapest": the lowest cost, then the least
        /// loaded. Nodes register with a region and a cost. Ties are broken at random.
        rank in select.rank;
        /// The region of this instance and its clients, such as "eu-west". Required for rank = "region".
        region in region;
        /// Further candidates to try after the sample, each one reservation attempt in the store, before the job is
        /// queued.
        scan_bound in select.scan_bound, 1..=10_000;
        /// The largest percentage of one conversation that a node may hear while other nodes are free. 100 disables
        /// the cap.
        exposure_cap_percent in select.exposure_cap_percent, 1..=100;
        /// Avoid the node of the session's last utterance while other nodes are free.
        avoid_last in avoid_last;
        /// The session id that nodes see. "turn": a different pseudonym for every turn, so that nodes cannot link
        /// the turns of a speaker. "session": the real id, for node software that needs it.
        node_session_alias in node_session_alias;
        /// Queued jobs per language pair. More could not be served in time.
        waiting_per_pair in waiting.per_pair, 1..=1_000_000;
        /// Queued jobs of all language pairs.
        waiting in waiting.total, 1..=1_000_000;
        /// How long ended jobs and their results are kept for callers who poll.
        keep_ms in results.keep_ms, 1..=86_400_000;
        /// How many ended jobs are kept. Above it the tenant that uses most for its weight (limits.tenant_shares)
        /// loses its oldest, so that no tenant evicts what is within the share of another.
        keep_entries in results.max_entries, 1..=10_000_000;
        /// How many bytes of ended jobs are kept, with the same eviction.
        keep_bytes in results.max_bytes, 1..=68_719_476_736;
    }
}
