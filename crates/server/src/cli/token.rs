//! `lingua token`: keys and tokens.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Authority;
use super::duration::seconds;
use super::serve::SettingFlags;
use crate::identity::Role;

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a pair of keys: the private one signs tokens, the public one goes to the schedulers
    Key(TokenKey),
    /// Sign a token, and print it
    Mint(Box<TokenMint>),
    /// Say what a token is, and whether the scheduler of this configuration would take it. It is read
    /// from standard input, so that it stands in no list of processes
    Inspect(TokenInspect),
    /// Tell a scheduler, and all that share its store, that a token is no longer good. Without
    /// --subject the token is read from standard input
    Revoke(TokenRevoke),
}

#[derive(Debug, Args)]
pub struct TokenKey {
    /// The key's name: tokens name it, and the two files begin with it
    #[arg(long)]
    pub(crate) name: String,

    /// Where the two files go
    #[arg(long, default_value = ".", value_name = "DIRECTORY")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub struct TokenMint {
    /// The private key
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,

    /// What the token lets somebody do
    #[arg(long, value_enum)]
    pub(crate) role: Role,

    /// Whose it is: a node's id; for others, a name that stands in the audit log
    #[arg(long)]
    pub(crate) subject: String,

    /// For whom sessions are held and jobs handed in; a session's token needs one
    #[arg(long)]
    pub(crate) tenant: Option<String>,

    /// Whose jobs a node may hear; everybody's without it
    #[arg(long, value_delimiter = ',')]
    pub(crate) tenants: Vec<String>,

    /// How many jobs a node may have at the same time
    #[arg(long)]
    pub(crate) max_slots: Option<u32>,

    /// How long it is good; as long as the role allows by default: 15m for sessions, 1h for
    /// administrators, 720h for nodes
    #[arg(long = "life", alias = "life-s", value_name = "TIME", value_parser = seconds(1..=31_536_000))]
    pub(crate) life_s: Option<u64>,

    /// What it says in `iss`
    #[arg(long, default_value = "lingua")]
    pub(crate) issuer: String,

    /// What it says in `aud`
    #[arg(long, default_value = "lingua")]
    pub(crate) audience: String,
}

#[derive(Debug, Args)]
pub struct TokenInspect {
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Args)]
pub struct TokenRevoke {
    /// The scheduler; LINGUA_TOKEN has an administrator's token for it
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// All tokens of this subject that were made until now
    #[arg(long, requires = "role")]
    pub(crate) subject: Option<String>,

    /// The role of the subject's tokens
    #[arg(long, value_enum, requires = "subject")]
    pub(crate) role: Option<Role>,
}
