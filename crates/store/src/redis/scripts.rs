//! The Lua scripts, one atomic step each, one file each.

use std::sync::LazyLock;

/// One script.
#[derive(Debug)]
pub struct Script {
    /// The file's name without its ending.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
    sha: LazyLock<String>,
}

impl Script {
    /// What the server knows it by.
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

macro_rules! scripts {
    ($($constant:ident = $name:literal;)+) => {
        $(pub(crate) static $constant: Script = Script {
            name: $name,
            text: include_str!(concat!("../../lua/", $name, ".lua")),
            sha: LazyLock::new(|| redis::Script::new($constant.text).get_hash().to_owned()),
        };)+

        /// All of them.
        pub static SCRIPTS: &[&Script] = &[$(&$constant),+];
    };
}

scripts! {
    BUS_TAKE_OVER = "bus_take_over";
    BUS_SEND = "bus_send";
    DEADLINE_DUE = "deadline_due";
    DEADLINE_WATCH = "deadline_watch";
    HISTORY_APPEND = "history_append";
    JOB_ASSIGN = "job_assign";
    JOB_CREATE = "job_create";
    JOB_FINISH = "job_finish";
    JOB_READ = "job_read";
    LEADER_PUBLISH = "leader_publish";
    LEADER_RESIGN = "leader_resign";
    LEADER_TAKE = "leader_take";
    MARK_LIST = "mark_list";
    MARK_PUT = "mark_put";
    NODE_BEAT = "node_beat";
    NODE_FORGET = "node_forget";
    NODE_GAP = "node_gap";
    NODE_OFFLINE = "node_offline";
    NODE_PUT = "node_put";
    NODE_READ = "node_read";
    OWNER_CLAIM = "owner_claim";
    OWNER_READ = "owner_read";
    OWNER_RELEASE = "owner_release";
    OWNER_RENEW = "owner_renew";
    OWNER_SAVE = "owner_save";
    PRESENCE_ANNOUNCE = "presence_announce";
    PRESENCE_WITHDRAW = "presence_withdraw";
    RATE_TAKE = "rate_take";
    REPUTATION_KEEP = "reputation_keep";
    REPUTATION_READ = "reputation_read";
    REQUEST_CLAIM = "request_claim";
    REQUEST_RELEASE = "request_release";
    SLOT_COMMIT = "slot_commit";
    SLOT_CONFIRM = "slot_confirm";
    SLOT_REGAIN = "slot_regain";
    SLOT_RELEASE = "slot_release";
    SLOT_RENEW = "slot_renew";
    SLOT_RESERVE = "slot_reserve";
    SLOT_USAGE = "slot_usage";
    USAGE_POST = "usage_post";
}
