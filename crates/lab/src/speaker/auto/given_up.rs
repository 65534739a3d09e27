//! Connections that were given up as silent. Once the session goes on elsewhere, they should say
//! nothing new; what they do say is written down.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Journal;
use crate::link::{Heard, Link};

/// How long, and how many of them, are listened to.
const LISTEN_ON: Duration = Duration::from_secs(30);
const AT_MOST: usize = 8;

/// The old connections of one speaker.
#[derive(Debug, Default)]
pub(super) struct GivenUp(JoinSet<()>);

impl GivenUp {
    /// Listens to one more for a while; to nothing without a journal to write to.
    pub fn listen_on(&mut self, mut link: Link, connection: u64, journal: Option<Journal>) {
        while self.0.try_join_next().is_some() {}
        let Some(journal) = journal.filter(|_| self.0.len() < AT_MOST) else { return };
        self.0.spawn(async move {
            let heard = async {
                while let Heard::Text(text) = link.hear().await {
                    let message: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
                    let sent = &message["scheduler_sent_at_ms"];
                    let sent = if sent.is_null() { &message["created_at_ms"] } else { sent };
                    let fields = json!({ "connection": connection, "type": message["type"],
                                         "index": message["utterance_index"], "sent_ms": sent });
                    journal.write("old_connection", fields);
                }
            };
            // What is said after that is nobody's concern.
            let _ = timeout(LISTEN_ON, heard).await;
        });
    }
}
