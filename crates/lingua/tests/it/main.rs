//! The product as its users meet it: the binary `lingua` as a process, and the scheduler in this process, over real
//! sockets and real servers. One binary, so that it is linked once and its tests share what they start.
//!
//! Scenarios (nodes and jobs) and conversations (sessions) run on the embedded store and on two instances over Redis. The
//! feature `long` has the other kinds of stores.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "what tests share is shared with the browser's binary too")]

mod app;
mod alerting;
mod collector;
mod gated;
mod process;
mod scenarios;
mod talking;
mod terminal;
mod tls_lab;
mod tokens;
#[path = "../../../store/tests/it/acl/mod.rs"]
mod acl;

mod alerts;
mod asked_by_name;
mod asyncapi;
mod audit;
mod auth;
mod board;
mod canary;
mod canary_store;
mod cluster_key;
mod commands_with_tls;
mod commands_with_tokens;
mod demo;
mod deploy;
mod docs;
mod edge;
mod fairness;
mod file_store;
mod guarantees;
mod held_back;
mod hostile;
mod http_api;
mod http_bad_input;
mod http_edge;
mod http_lists;
mod http_nodes;
mod http_words;
mod job_lists;
mod kept_bytes;
mod languages;
mod leading;
mod logs;
mod looking;
mod needs;
mod modes;
mod no_oversell;
mod observing;
mod openapi;
mod owners;
mod operating;
mod paper_calls;
mod randomness;
mod restarts;
mod revocations;
mod rolling;
mod scrape;
mod serve;
mod service;
mod session_faults;
mod slow_start;
mod soak;
mod speaking;
mod store_down;
mod store_load;
mod supply;
mod threats;
mod tls;
mod tls_cost;
mod tls_nodes;
mod tls_peers;
mod top;
mod traces;
mod traces_process;
mod tutorial;
mod unfinished;
mod usage;
mod versions;

/// Nodes and jobs on each kind of store.
mod dispatch {
    mod memory {
        crate::scenarios::scenarios!(crate::app::On::Memory);
    }
    mod far_redis {
        crate::scenarios::scenarios!(crate::app::On::FarRedis);
    }
    mod redis;
    #[cfg(feature = "long")]
    mod far_memory {
        crate::scenarios::scenarios!(crate::app::On::FarMemory);
    }
    #[cfg(feature = "long")]
    mod far_cluster {
        crate::scenarios::scenarios!(crate::app::On::FarCluster);
    }
}

/// Sessions on each kind of store.
mod sessions {
    mod memory {
        crate::talking::conversations!(crate::app::On::Memory);
    }
    mod far_redis {
        crate::talking::conversations!(crate::app::On::FarRedis);
    }
    #[cfg(feature = "long")]
    mod redis {
        crate::talking::conversations!(crate::app::On::Redis);
    }
    #[cfg(feature = "long")]
    mod far_memory {
        crate::talking::conversations!(crate::app::On::FarMemory);
    }
    #[cfg(feature = "long")]
    mod far_cluster {
        crate::talking::conversations!(crate::app::On::FarCluster);
    }
}
