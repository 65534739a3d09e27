//! Every key of ours, built here and nowhere else.
//!
//! The part in braces is the hash tag: keys of one script share it, so they live in one slot. Ids
//! hold neither colons nor braces, so no id can reach into another's keys.

use lingua_core::{InstanceId, JobId, NodeId, RequestId, SessionKey, TenantId, TurnId};

use crate::instance::Instance;
use crate::leaders::Task;
use crate::nodes::NODE_SHARDS;
use crate::rates::Name;
use crate::usage::Day;

/// In front of every key, with the layout's major version.
pub const PREFIX: &str = "lingua:v1:";

/// Shards of the watched deadlines.
pub(crate) const DEADLINE_SHARDS: u32 = 16;

pub(crate) fn schema() -> String {
    format!("{PREFIX}schema")
}

/// Written to see whether a store that wrote nothing down does so again.
pub(crate) fn probe() -> String {
    format!("{PREFIX}probe")
}

pub(crate) fn node_record(node: &NodeId) -> String {
    of_node(node, "record")
}

pub(crate) fn node_leases(node: &NodeId) -> String {
    of_node(node, "leases")
}

pub(crate) fn node_gaps(node: &NodeId) -> String {
    of_node(node, "gaps")
}

pub(crate) fn node_order(node: &NodeId) -> String {
    of_node(node, "order")
}

pub(crate) fn node_reputation(node: &NodeId) -> String {
    of_node(node, "reputation")
}

/// Put together, not formatted: every call of a job's life makes keys.
fn of_node(node: &NodeId, what: &str) -> String {
    [PREFIX, "{n:", node.as_str(), "}:", what].concat()
}

/// The shard of the list of all nodes that this one is in.
pub(crate) fn node_shard(node: &NodeId) -> u32 {
    let digest = blake3::hash(node.as_str().as_bytes());
    u32::from(digest.as_bytes()[0]) % NODE_SHARDS
}

pub(crate) fn nodes(shard: u32) -> String {
    format!("{PREFIX}{{nodes:{shard}}}")
}

pub(crate) fn fleet() -> String {
    format!("{PREFIX}fleet")
}

pub(crate) fn job(job: &JobId) -> String {
    [PREFIX, "{s:", job.session_tag().as_str(), "}:job:", job.as_str()].concat()
}

pub(crate) fn session_owner(key: &SessionKey) -> String {
    format!("{PREFIX}{{s:{}}}:{}:{}:owner", key.tag().as_str(), key.tenant(), key.session())
}

pub(crate) fn session_state(key: &SessionKey) -> String {
    format!("{PREFIX}{{s:{}}}:{}:{}:state", key.tag().as_str(), key.tenant(), key.session())
}

pub(crate) fn deadlines(shard: u32) -> String {
    format!("{PREFIX}deadlines:{{d{shard}}}")
}

pub(crate) fn deadline_shard(job: &JobId) -> u32 {
    let last = job.as_str().as_bytes()[job.as_str().len() - 1];
    u32::from(last) % DEADLINE_SHARDS
}

pub(crate) fn request(tenant: &TenantId, request: &RequestId) -> String {
    format!("{PREFIX}{{r:{tenant}:{request}}}")
}

pub(crate) fn turn(key: &SessionKey, turn: &TurnId) -> String {
    format!("{PREFIX}{{t:{}:{}:{turn}}}", key.tenant(), key.session())
}

pub(crate) fn leader(task: Task) -> String {
    format!("{PREFIX}leader:{}", task.as_str())
}

pub(crate) fn instances() -> String {
    format!("{PREFIX}instances")
}

pub(crate) fn presence(instance: &InstanceId) -> String {
    format!("{PREFIX}{{i:{instance}}}:presence")
}

pub(crate) fn boots(instance: &InstanceId) -> String {
    format!("{PREFIX}{{i:{instance}}}:boots")
}

pub(crate) fn inbox(instance: &Instance) -> String {
    format!("{PREFIX}{{i:{}}}:inbox:{:016x}", instance.id, instance.boot)
}

pub(crate) fn seen(instance: &Instance) -> String {
    format!("{PREFIX}{{i:{}}}:seen:{:016x}", instance.id, instance.boot)
}

pub(crate) fn inbox_successor(instance: &Instance) -> String {
    format!("{PREFIX}{{i:{}}}:heir:{:016x}", instance.id, instance.boot)
}

pub(crate) fn part(instance: &InstanceId) -> String {
    format!("{PREFIX}{{i:{instance}}}:part")
}

pub(crate) fn once(name: &Name) -> String {
    format!("{PREFIX}once:{}", name.as_str())
}

pub(crate) fn marks() -> String {
    format!("{PREFIX}marks")
}

pub(crate) fn rate(name: &Name) -> String {
    format!("{PREFIX}rate:{}", name.as_str())
}

pub(crate) fn history(series: &Name) -> String {
    format!("{PREFIX}history:{}", series.as_str())
}

pub(crate) fn usage_writers(day: Day) -> String {
    format!("{PREFIX}{{u:{}}}:writers", day.0)
}

/// `writer` is an instance and the number of its process.
pub(crate) fn usage(day: Day, writer: &str) -> String {
    format!("{PREFIX}{{u:{}}}:of:{writer}", day.0)
}
