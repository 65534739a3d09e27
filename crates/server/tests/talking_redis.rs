//! Conversations on a real redis-server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod talking;

talking::conversations!(crate::app::On::Redis);
