//! Connections: to one server, to the primary that Sentinels name, or to a Cluster.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::time::timeout;

use super::checks;
use super::reply::text;
use super::url::{Target, Topology};
use crate::backend::Options;
use crate::error::OpenError;

/// Re-sends of the Cluster client: enough for a moved slot or a promoted replica. Every script may
/// be repeated, so they do no harm.
const CLUSTER_RETRIES: u32 = 4;

/// A connection to one server or to a Cluster.
#[derive(Clone)]
pub(crate) struct Wire {
    kind: Kind,
    /// The replication id of the server at the other end, as it writes it; every ping compares it.
    /// A Cluster has many servers and so none.
    pub(crate) generation: Arc<str>,
}

#[derive(Clone)]
enum Kind {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Wire {
    pub(crate) async fn query(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let answer = match &mut self.kind {
            Kind::Single(connection) => connection.req_packed_command(cmd).await,
            Kind::Cluster(connection) => connection.req_packed_command(cmd).await,
        };
        answer?.extract_error()
    }

    /// Sends commands in one message, one answer each; errors of the server are among them.
    pub(crate) async fn query_all(&mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        match &mut self.kind {
            Kind::Single(connection) => {
                connection.req_packed_commands(commands, 0, commands.len()).await
            }
            Kind::Cluster(connection) => {
                connection.req_packed_commands(commands, 0, commands.len()).await
            }
        }
    }

    /// Asks every primary, one answer each.
    pub(crate) async fn query_primaries(&mut self, cmd: Cmd) -> RedisResult<Vec<Value>> {
        let Kind::Cluster(cluster) = &mut self.kind else {
            return Ok(vec![self.query(&cmd).await?]);
        };
        let everywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        Ok(match cluster.route_command(cmd, everywhere).await?.extract_error()? {
            Value::Map(answers) => answers.into_iter().map(|(_, answer)| answer).collect(),
            answer => vec![answer],
        })
    }
}

/// What a connection goes to.
pub(crate) struct Connected {
    pub(crate) wire: Wire,
    /// The server that the Sentinels named.
    pub(crate) primary: Option<String>,
}

pub(crate) async fn connect(
    target: &Target,
    options: &Options,
    response_timeout: Duration,
) -> std::result::Result<Connected, OpenError> {
    if target.tls {
        name_crypto_provider();
    }
    let unreachable = |why: String| OpenError::Unreachable { store: target.to_string(), why };
    let broken = |e: RedisError| OpenError::from_connecting(target, &e);
    match &target.topology {
        Topology::Cluster => {
            let client = ClusterClientBuilder::new(target.data_urls())
                .retries(CLUSTER_RETRIES)
                .min_retry_wait(20)
                .max_retry_wait(160)
                .connection_timeout(options.connect_timeout)
                .response_timeout(response_timeout)
                .overall_response_timeout(Some(response_timeout + options.response_timeout / 2))
                .connection_concurrency_limit(options.max_in_flight)
                .build()
                .map_err(broken)?;
            let connecting = timeout(options.connect_timeout * 2, client.get_async_connection());
            let wire =
                connecting.await.map_err(|_| unreachable("it does not answer".to_owned()))?;
            let wire = Wire { kind: Kind::Cluster(wire.map_err(broken)?), generation: "".into() };
            Ok(Connected { wire, primary: None })
        }
        Topology::Standalone => {
            let url = target.data_urls().swap_remove(0);
            let wire = connect_single(&url, options, response_timeout).await.map_err(broken)?;
            Ok(Connected { wire, primary: None })
        }
        Topology::Sentinel { name } => {
            let primary = ask_sentinels(target, name, options).await.ok_or_else(|| {
                unreachable(format!("no Sentinel answers with the address of \"{name}\""))
            })?;
            let url = target.data_url(&primary);
            let wire = connect_single(&url, options, response_timeout).await.map_err(broken)?;
            Ok(Connected { wire, primary: Some(primary) })
        }
    }
}

/// The redis crate asks for the provider of the process; without one it would guess by the features of rustls. The first that is
/// named stays.
fn name_crypto_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

async fn connect_single(
    url: &str,
    options: &Options,
    response_timeout: Duration,
) -> RedisResult<Wire> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(options.connect_timeout))
        .set_response_timeout(Some(response_timeout))
        .set_pipeline_buffer_size(options.max_in_flight)
        .set_concurrency_limit(options.max_in_flight);
    let client = Client::open(url)?;
    let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    Ok(Wire { kind: Kind::Single(connection), generation: "".into() })
}

/// The address of the primary by the first Sentinel that knows it.
pub(crate) async fn ask_sentinels(
    target: &Target,
    name: &str,
    options: &Options,
) -> Option<String> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(name);
    for url in target.sentinel_urls() {
        let asking = async {
            let mut wire = connect_single(&url, options, options.response_timeout).await.ok()?;
            let answer = wire.query(&question).await.ok()?;
            let (host, port): (String, u16) = redis::from_redis_value(answer).ok()?;
            Some(format!("{host}:{port}"))
        };
        if let Ok(Some(address)) = timeout(options.connect_timeout, asking).await {
            return Some(address);
        }
    }
    None
}

/// Connects and checks what is at the other end.
pub(crate) async fn connect_checked(
    target: &Target,
    options: &Options,
) -> std::result::Result<Connected, OpenError> {
    let mut connected = connect(target, options, options.response_timeout).await?;
    let generation = checks::check(connected.wire.clone(), target).await?;
    connected.wire.generation = generation.into();
    Ok(connected)
}

/// Why a ping was not answered well.
pub(crate) enum Silence {
    Late,
    Broken(String),
}

/// Asks for a write's worth of health: a replica answers too, but is no store, and a server that
/// began a new generation is another one to us although the connection stood.
pub(crate) async fn ping(mut wire: Wire, patience: Duration) -> std::result::Result<(), Silence> {
    let probes = async {
        match &mut wire.kind {
            // By itself the client asks all primaries and wants all to answer, but one shard that
            // hangs is not the store.
            Kind::Cluster(cluster) => {
                let any = (MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::OneSucceeded));
                cluster.route_command(redis::cmd("PING"), RoutingInfo::MultiNode(any)).await
            }
            Kind::Single(_) => wire.query(redis::cmd("INFO").arg("replication")).await,
        }
    };
    match timeout(patience, probes).await {
        Err(_) => Err(Silence::Late),
        Ok(Err(e)) if e.is_timeout() => Err(Silence::Late),
        Ok(Err(e)) => Err(Silence::Broken(e.to_string())),
        Ok(Ok(_)) if matches!(wire.kind, Kind::Cluster(_)) => Ok(()),
        Ok(Ok(info)) => match text("INFO", info).unwrap_or_default() {
            info if !info.contains("role:master") => {
                Err(Silence::Broken("the server is a replica now".to_owned()))
            }
            info if !info.contains(&*wire.generation) => {
                Err(Silence::Broken("the server began a new generation".to_owned()))
            }
            _ => Ok(()),
        },
    }
}
