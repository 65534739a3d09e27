//! `lingua token`: keys and tokens.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Authority;
use super::duration::seconds;
use super::serve::SettingFlags;
use crate::identity::Role;

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Generate a key pair: the private key signs tokens, the schedulers get the public key
    Key(TokenKey),
    /// Sign and print a token
    Mint(Box<TokenMint>),
    /// Decode a token from standard input, and check whether a scheduler with this configuration would
    /// accept it
    Inspect(TokenInspect),
    /// Revoke a token, or all tokens of a subject, on all instances. Without --subject the token is read
    /// from standard input
    Revoke(TokenRevoke),
}

#[derive(Debug, Args)]
pub struct TokenKey {
    /// Name of the key: the `kid` of its tokens, and the first part of both file names
    #[arg(long)]
    pub(crate) name: String,

    /// Directory for the two files
    #[arg(long, default_value = ".", value_name = "DIRECTORY")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub struct TokenMint {
    /// File with the private key
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,

    /// Role of the token
    #[arg(long, value_enum)]
    pub(crate) role: Role,

    /// Subject of the token: the id of a node, else a name for the audit log
    #[arg(long)]
    pub(crate) subject: String,

    /// Tenant of a session token; required for the role session
    #[arg(long)]
    pub(crate) tenant: Option<String>,

    /// Tenants whose jobs a node may get, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    pub(crate) tenants: Vec<String>,

    /// Maximum number of slots of a node
    #[arg(long)]
    pub(crate) max_slots: Option<u32>,
    /// Region of a node; it cannot register in another one
    #[arg(long)]
    pub(crate) region: Option<String>,

    /// Lifetime of the token [default: the maximum of its role: 15m for sessions, 1h for
    /// administrators, 24h for viewers, 720h for nodes and metrics]
    #[arg(long = "life", alias = "life-s", value_name = "TIME", value_parser = seconds(1..=31_536_000))]
    pub(crate) life_s: Option<u64>,

    /// The `iss` of the token
    #[arg(long, default_value = "lingua")]
    pub(crate) issuer: String,

    /// The `aud` of the token
    #[arg(long, default_value = "lingua")]
    pub(crate) audience: String,
}

#[derive(Debug, Args)]
pub struct TokenInspect {
    #[command(flatten)]
    pub(crate) settings: SettingFlags,

    /// Show it to this scheduler instead, which also knows whether it was revoked
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) authority: Authority,
}

#[derive(Debug, Args)]
pub struct TokenRevoke {
    /// URL of the scheduler. LINGUA_TOKEN must hold an administrator's token
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Revoke all tokens that this subject has now
    #[arg(long, requires = "role")]
    pub(crate) subject: Option<String>,

    /// Role of the subject
    #[arg(long, value_enum, requires = "subject")]
    pub(crate) role: Option<Role>,
}
