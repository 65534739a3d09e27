//! The schedulers and what they stand on.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use lingua_lab::{Balancer, RedisConfig, RedisServer};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::catalogue::CatalogueFile;
use super::instance::{Instance, Plan};
use super::screen::Screen;
use crate::cli::{Demo, Failure};

/// News of the schedulers that nobody has read yet.
const NEWS: usize = 64;

/// What a scarce demo says of itself.
const SCARCE: &str = "Scarce on purpose: Korean has one slow slot, no node serves Swahili, oslo-flaky sometimes fails, and \
                      lisbon-night is drained at times. The dashboard shows warnings about them.";

/// What nodes and speakers connect to.
pub(super) enum Stage {
    /// A scheduler in this process, with the embedded store.
    Alone(Alone),
    /// Processes over a Redis.
    Many(Box<Many>),
}

pub(super) struct Alone {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// Dropped in this order: what stands on something goes before it.
pub(super) struct Many {
    balancer: Balancer,
    pub instances: Vec<Instance>,
    pub redis: Option<RedisServer>,
    /// What happens to the schedulers; taken by whoever tells it.
    news: Option<mpsc::Receiver<String>>,
}

impl Stage {
    pub async fn start(options: &Demo, screen: &Screen) -> Result<Self, Failure> {
        if !options.listen.ip().is_loopback() {
            return Err(Failure::refused(format!(
                "{} is not a loopback address; the demo listens on loopback only",
                options.listen
            )));
        }
        let processes = options.processes()?;
        // Before anything else is started: a port that is taken is the likeliest trouble.
        let socket = TcpListener::bind(options.listen).await.map_err(|error| {
            Failure::failed(format!(
                "cannot listen on {}: {error}; perhaps another lingua does; choose another address \
                 with --listen, such as 127.0.0.1:0 for a free port",
                options.listen
            ))
        })?;
        match processes {
            None => Alone::start(socket).await.map(Stage::Alone),
            Some(count) => {
                let many = Many::start(socket, count, options, screen).await?;
                Ok(Stage::Many(Box::new(many)))
            }
        }
    }

    /// Where nodes and speakers connect.
    pub fn address(&self) -> SocketAddr {
        match self {
            Stage::Alone(alone) => alone.address,
            Stage::Many(many) => many.balancer.address(),
        }
    }

    /// Where each scheduler listens.
    pub fn doors(&self) -> Vec<SocketAddr> {
        match self {
            Stage::Alone(alone) => vec![alone.address],
            Stage::Many(many) => many.instances.iter().map(Instance::address).collect(),
        }
    }

    /// What happens to the schedulers by themselves, the first time that it is asked for.
    pub fn take_news(&mut self) -> Option<mpsc::Receiver<String>> {
        match self {
            Stage::Alone(_) => None,
            Stage::Many(many) => many.news.take(),
        }
    }

    /// What runs, in a few lines.
    pub fn greeting(&self, options: &Demo) -> Vec<String> {
        let (nodes, speakers) = (options.nodes, options.speakers);
        let mut lines = Vec::new();
        match self {
            Stage::Alone(_) => lines.push(format!(
                "A scheduler with the embedded store, {nodes} nodes and {speakers} speakers, all in \
                 this process."
            )),
            Stage::Many(many) => {
                let store = match &many.redis {
                    Some(redis) => {
                        let pid = redis.pid().unwrap_or_default();
                        format!("a private redis-server ({}, pid {pid})", redis.url())
                    }
                    None => "the given store".to_owned(),
                };
                let count = many.instances.len();
                lines.push(format!(
                    "{count} schedulers over {store}, a load balancer in front, {nodes} nodes and \
                     {speakers} speakers."
                ));
                for (n, instance) in many.instances.iter().enumerate() {
                    let (address, pid) = (instance.address(), instance.pid().unwrap_or_default());
                    lines.push(format!("Scheduler {}: http://{address} pid {pid}", n + 1));
                }
            }
        }
        let address = self.address();
        if options.scarce {
            lines.push(SCARCE.to_owned());
        }
        lines.push(format!(
            "Talk: http://{address}/talk (simulated nodes return a placeholder text)"
        ));
        lines.push(format!("Dashboard: http://{address}/dashboard"));
        let end = match options.seconds {
            0 => "Ctrl-C stops everything.".to_owned(),
            seconds => format!("Stops after {seconds} s, or with Ctrl-C."),
        };
        lines.push(format!("From a shell: lingua speak --url http://{address}. {end}"));
        lines
    }

    /// Puts right what a fault left broken, so that the end can be an orderly one.
    pub async fn mend(&mut self) -> anyhow::Result<()> {
        if let Stage::Many(many) = self
            && let Some(redis) = &mut many.redis
            && redis.pid().is_none()
        {
            redis.restart().await?;
        }
        Ok(())
    }

    /// Ends the schedulers in order, and then what they stand on.
    pub async fn end(self, screen: &Screen) -> Result<(), Failure> {
        match self {
            Stage::Alone(alone) => alone.end(screen).await,
            Stage::Many(many) => many.end(screen).await,
        }
    }
}

impl Alone {
    async fn start(socket: TcpListener) -> Result<Self, Failure> {
        let address = socket.local_addr().context("the listener has no address")?;
        let engine = lingua_server::start_embedded().await?;
        let (stop, stopped) = oneshot::channel();
        let catalogue = CatalogueFile::write().context("the catalogue")?;
        let served = tokio::spawn(async move {
            let stop = async {
                // Also when whoever would say so is gone.
                let _ = stopped.await;
            };
            lingua_server::serve_with(Some(catalogue.path()), socket, engine, stop).await;
        });
        Ok(Alone { address, stop, served })
    }

    async fn end(self, screen: &Screen) -> Result<(), Failure> {
        let _ = self.stop.send(());
        self.served.await.context("the scheduler panicked")?;
        screen.say("The scheduler has stopped.");
        Ok(())
    }
}

impl Many {
    async fn start(
        socket: TcpListener,
        count: u32,
        options: &Demo,
        screen: &Screen,
    ) -> Result<Self, Failure> {
        let redis = match &options.store {
            Some(_) => None,
            None => {
                screen.say("Starting a private redis-server.");
                // What was written outlives a restart, as it should in earnest.
                let config = RedisConfig::new().line("appendonly yes").apart();
                Some(config.start().await?)
            }
        };
        let store = redis.as_ref().map(RedisServer::url).or_else(|| options.store.clone());
        let store = store.expect("one or the other is there");
        // On a store that others use too, names must be unlike theirs.
        let name = match &redis {
            Some(_) => "demo".to_owned(),
            None => format!("demo-{}", std::process::id()),
        };
        let (tell, news) = mpsc::channel(NEWS);
        let mut instances = Vec::new();
        let catalogue = Arc::new(CatalogueFile::write().context("the catalogue")?);
        for number in 1..=count {
            let catalogue = Arc::clone(&catalogue);
            let plan = Plan { number, store: store.clone(), name: name.clone(), catalogue };
            instances.push(Instance::start(plan, tell.clone()).await?);
        }
        let addresses: Vec<SocketAddr> = instances.iter().map(Instance::address).collect();
        let balancer = Balancer::start(socket, &addresses).await.context("the load balancer")?;
        Ok(Many { balancer, instances, redis, news: Some(news) })
    }

    async fn end(self, screen: &Screen) -> Result<(), Failure> {
        let Many { balancer, instances, redis, .. } = self;
        let ends = instances.into_iter().map(Instance::end);
        let ended = futures_util::future::join_all(ends).await;
        let mut wrong = Vec::new();
        for (n, ended) in ended.into_iter().enumerate() {
            if let Err(why) = ended {
                wrong.push(format!("scheduler {}: {why}", n + 1));
            }
        }
        if wrong.is_empty() {
            screen.say("The schedulers have stopped, each with exit code 0.");
        }
        drop(balancer);
        if let Some(mut redis) = redis {
            redis.shutdown().await?;
            drop(redis);
            screen.say("redis-server has stopped, and its directory is removed.");
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Failure::failed(wrong.join("; "))),
        }
    }
}
