//! The dashboard, the talk page and the page for owners of nodes in a real Chromium.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "what tests share is shared with the other binary too")]

#[path = "../it/app/mod.rs"]
mod app;
mod booth;
mod browser;
#[path = "../it/process/mod.rs"]
mod process;
#[path = "../it/tokens/mod.rs"]
mod tokens;

mod cors;
mod dashboard;
mod dashboard_charts;
mod dashboard_demo;
mod dashboard_jobs;
mod dashboard_tokens;
mod node_page;
mod talk;
