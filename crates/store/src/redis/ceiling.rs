//! The most that a server and this client can do: the cheapest scripts for the three steps of a
//! slot as the design asks for them, and nothing else.
//!
//! Reserve counts the leases of both sets against the node's own maximum and adds one that ends on
//! the server's clock; commit moves it to the running set with a new end; finish takes it out of
//! both. No eligibility, no epochs, no fences, no marks against late messages, no job record: a
//! yardstick for `lingua bench store`, never a store.

use std::sync::LazyLock;

use redis::{ErrorKind, RedisResult, Script, ServerErrorKind, Value};

use super::wire::{Connected, Wire, connect};
use super::{OpenError, Options, Target};
use crate::error::{Error, Result};

/// Calls per life.
pub const CALLS: u32 = 3;

const RESERVE: &str = "local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local max = tonumber(redis.call('HGET', KEYS[1], 'max') or 1000000)
if redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3]) >= max then return 0 end
return redis.call('ZADD', KEYS[2], string.format('%d', now + ARGV[2]), ARGV[1])";

const COMMIT: &str = "local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('ZADD', KEYS[2], string.format('%d', now + ARGV[2]), ARGV[1])";

const FINISH: &str =
    "return redis.call('ZREM', KEYS[1], ARGV[1]) + redis.call('ZREM', KEYS[2], ARGV[1])";

static SHAS: LazyLock<[String; 3]> =
    LazyLock::new(|| [RESERVE, COMMIT, FINISH].map(|text| Script::new(text).get_hash().to_owned()));

/// A connection that runs nothing but the cheapest scripts.
#[derive(Clone)]
pub struct Ceiling {
    wire: Wire,
}

impl Ceiling {
    /// Connects with the same client and settings as the store does.
    pub async fn open(url: &str, options: &Options) -> std::result::Result<Self, OpenError> {
        let target = Target::parse(url).map_err(OpenError::Url)?;
        let Connected { wire, .. } = connect(&target, options, options.response_timeout).await?;
        Ok(Ceiling { wire })
    }

    /// Takes a slot of a node, commits it and gives it back: [`CALLS`] calls.
    pub async fn life(&mut self, node: usize, token: &str) -> Result<()> {
        let record = format!("lingua:ceiling:{{n:{node}}}:record");
        let reserved = format!("lingua:ceiling:{{n:{node}}}:reserved");
        let running = format!("lingua:ceiling:{{n:{node}}}:running");
        let failed = |e: redis::RedisError| Error::Unknown(e.to_string());
        self.run(RESERVE, &SHAS[0], &[&record, &reserved, &running], &[token, "3000"])
            .await
            .map_err(failed)?;
        self.run(COMMIT, &SHAS[1], &[&reserved, &running], &[token, "15000"])
            .await
            .map_err(failed)?;
        self.run(FINISH, &SHAS[2], &[&reserved, &running], &[token]).await.map_err(failed)?;
        Ok(())
    }

    async fn run(
        &mut self,
        text: &str,
        sha: &str,
        keys: &[&str],
        args: &[&str],
    ) -> RedisResult<Value> {
        let command = |verb: &str, script: &str| {
            let mut cmd = redis::cmd(verb);
            cmd.arg(script).arg(keys.len()).arg(keys).arg(args);
            cmd
        };
        match self.wire.query(&command("EVALSHA", sha)).await {
            Err(e) if e.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.wire.query(&command("EVAL", text)).await
            }
            answer => answer,
        }
    }
}
