//! `[nodes]`.

use super::engine_section;

engine_section! {
    /// Nodes: heartbeats, slow start, circuit breaker, reconnection and missing models.
    "nodes." {
        /// Heartbeat interval of nodes. A node is overdue after three missed heartbeats.
        heartbeat_ms in timing.heartbeat_ms, 1..=600_000;
        /// Heartbeat interval of older node software that sends no `supports`. It ignores the configured interval.
        compat_heartbeat_ms in timing.compat_heartbeat_ms, 1..=600_000;
        /// Slots of a node that does not declare a number.
        default_max_concurrent_jobs in default_max_slots, 1..=256;
        /// Slow start: a node begins with one slot, and the number doubles with every success. "strangers": for nodes
        /// without a credential from another machine. "all": for every node. "off": for none. Slots beyond are used only
        /// for jobs that find no other free slot; with "all", nodes with a credential do not offer them at all. A node
        /// that the store knows begins with what it earned.
        slow_start in slow_start;
        /// A node that reports a higher use of CPU, GPU, GPU memory or memory is overloaded: it is used only if no other is
        /// free, until all its figures are 5 points below their thresholds.
        resource_threshold_percent in overload.resource, 1..=100;
        /// The threshold of the CPU. 0: as resource_threshold_percent.
        cpu_threshold_percent in overload.cpu, 0..=100;
        /// The threshold of the GPU. 0: as resource_threshold_percent.
        gpu_threshold_percent in overload.gpu, 0..=100;
        /// The threshold of the GPU memory. 0: as resource_threshold_percent.
        gpu_mem_threshold_percent in overload.gpu_mem, 0..=100;
        /// The threshold of the memory. 0: as resource_threshold_percent.
        mem_threshold_percent in overload.mem, 0..=100;
        /// Consecutive failures that open the circuit breaker of a node.
        breaker_failures in breaker.failures, 1..=1_000;
        /// How long the circuit breaker stays open the first time. Each further time is twice as long.
        breaker_first_pause_ms in breaker.first_pause_ms, 1..=3_600_000;
        /// The longest time that the circuit breaker stays open.
        breaker_longest_pause_ms in breaker.longest_pause_ms, 1..=86_400_000;
        /// Grace period for a disconnected node to reconnect before the jobs that it accepted are retried elsewhere.
        reconnect_grace_ms in reconnect_grace_ms, 0..=600_000;
        /// Quarantine after the store lost data, for nodes that cannot report their running jobs. At least the
        /// longest lease.
        quarantine_ms in timing.quarantine_ms, 0..=3_600_000;
        /// How long after its start a scheduler waits for what a node runs of which its store has no record: the node may
        /// still work for the process before. A node that says so when it registers (`running`) does not wait. One
        /// longest lease; 0 if nodes never outlive the scheduler.
        restart_hold_ms in restart_hold_ms, 0..=3_600_000;
        /// How long a node that reported a missing model is avoided for jobs that need it.
        gap_remember_ms in gaps.remember_ms, 1..=86_400_000;
        /// Debounce: the shortest interval between two requests to nodes to fetch the same missing model.
        gap_reaction_ms in gaps.reaction_window_ms, 1..=86_400_000;
        /// Rate limit (token bucket) of missing-model reports from one node: one per this interval.
        gap_report_ms in gaps.report_interval_ms, 1..=3_600_000;
        /// Burst of that rate limit.
        gap_report_burst in gaps.report_burst, 1..=10_000;
    }
}
