//! Records as they lie in the store, as targets for `fuzz/`.

use lingua_core::{JobId, Moment, NodeId};
use redis::Value;

use super::reply::Reply;
use super::{jobs, nodes};

/// The three lines of a job.
pub(crate) fn job_record(data: &[u8]) {
    let Ok(stored) = str::from_utf8(data) else { return };
    let job: JobId = "0123456789abcdefghjkmnpqrs".parse().expect("within an id's letters");
    let forgotten = Moment::from_millis(1_000_000);
    let Ok(record) = jobs::record(&job, forgotten, stored) else { return };
    assert!(record.deadline <= forgotten);
    if let Some(assignment) = record.assignment {
        assert_eq!(assignment.token.job, job, "a record speaks of its own job");
    }
}

/// What a script answers about a node: a word, then one value a line; the gaps come last.
pub(crate) fn node_record(data: &[u8]) {
    let mut values: Vec<Value> =
        data.split(|byte| *byte == b'\n').map(|line| Value::BulkString(line.into())).collect();
    let gaps = values.split_off(values.len().min(11));
    values.push(Value::Array(gaps));
    let node = NodeId::new("node-1").expect("within an id's letters");
    let Ok(reply) = Reply::new("node_read", Value::Array(values)) else { return };
    if let Ok(record) = nodes::record(&node, reply) {
        assert!(record.gaps.is_sorted_by(|a, b| a.0 <= b.0));
    }
}
