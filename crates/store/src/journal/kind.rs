//! What there is to keep.

/// What an entry is about. The numbers are on disk: they are never changed, and never used again. In their order
/// entries are read back, so what others stand on comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A node's profile. Key: node.
    Profile = 1,
    /// The rest of a node's record. Key: node.
    Node = 2,
    /// A slot lease, or a spent token. Key: node, nonce.
    Lease = 3,
    /// The models that a node misses. Key: node.
    Gaps = 4,
    /// What an administrator wants of a node. Key: node.
    Order = 5,
    /// A job record. Key: job.
    Job = 6,
    /// A deadline that is watched. Key: job.
    Deadline = 7,
    /// The job of a request id. Key: tenant, request.
    Request = 8,
    /// The node of a turn. Key: tenant, session, turn.
    Turn = 9,
    /// The owner of a session. Key: tenant, session.
    Owner = 10,
    /// What the owner of a session saved. Key: tenant, session.
    Saved = 11,
    /// The leader of a task. Key: task.
    Leader = 12,
    /// What the leader of a task published. Key: task.
    Published = 13,
    /// A window that has begun. Key: name.
    Window = 14,
    /// A rate. Key: name.
    Rate = 15,
    /// A revocation. Key: entry.
    Revocation = 16,
    /// A point of a series. Key: series, step.
    Point = 17,
    /// What is known of a node. Key: node.
    Reputation = 18,
    /// What a process counted on a day. Key: day, process.
    Usage = 19,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 19] = [
        Kind::Profile,
        Kind::Node,
        Kind::Lease,
        Kind::Gaps,
        Kind::Order,
        Kind::Job,
        Kind::Deadline,
        Kind::Request,
        Kind::Turn,
        Kind::Owner,
        Kind::Saved,
        Kind::Leader,
        Kind::Published,
        Kind::Window,
        Kind::Rate,
        Kind::Revocation,
        Kind::Point,
        Kind::Reputation,
        Kind::Usage,
    ];

    /// The kind with this number.
    pub(super) fn of(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}
