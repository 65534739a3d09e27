//! The processes of the instances: started, found by their peers, killed, stopped and drained.

use std::sync::Arc;
use std::time::Duration;

use lingua_engine::chance::Chance;
use lingua_engine::engine::Surroundings;
use lingua_engine::secret::Secret;
use lingua_engine::tasks::{self, Host};
use lingua_engine::{Engine, Settings};
use serde_json::json;
use tokio::time::sleep;

use super::World;
use super::bodies::Bodies;
use crate::dice::Dice;
use crate::store::Link;

/// A process whose name is still its predecessor's, or whose store is away, is started again after so long.
const AGAIN: Duration = Duration::from_millis(200);

/// One instance, over all its lives.
#[derive(Default)]
pub(super) struct Instance {
    pub host: Host,
    pub engine: Option<Engine>,
    pub link: Option<Arc<Link>>,
    /// Processes so far, and names so far.
    lives: u64,
    names: u64,
    /// Peers find it.
    accepts: bool,
    /// It is on its way out.
    pub drains: bool,
    /// Of a thousand bodies so many cannot be fetched from it.
    pub loses_bodies: u32,
}

impl Instance {
    /// The process ends where it stands.
    pub fn leave(&mut self) {
        self.host.kill();
        (self.engine, self.link, self.accepts, self.drains) = (None, None, false, false);
    }
}

impl World {
    pub(super) fn settings(&self) -> Settings {
        if self.plan.fast { Settings::fast() } else { Settings::stable() }
    }

    /// The first process of an instance knows that none was there before it.
    fn settings_of(&self, life: u64) -> Settings {
        let settings = self.settings();
        let restart_hold_ms = if life == 1 { 0 } else { settings.restart_hold_ms };
        Settings { restart_hold_ms, ..settings }
    }

    /// Starts a process that does not run.
    pub(super) fn start(self: &Arc<Self>, number: usize, new_name: bool) {
        let plan = &self.plan.instances[number];
        let mut instance = self.instances[number].lock();
        if instance.engine.is_some() {
            return;
        }
        instance.lives += 1;
        instance.names += u64::from(new_name);
        let (life, name) = (instance.lives, instance.names);
        let seed = self.plan.seed;
        let dice = Dice::of(seed, "store", number + 1_000 * life as usize);
        let link =
            Link::new(number, plan.store_ms, dice, &self.servers, &self.record, &self.canary);
        let id = format!("i{number}-{name}").parse().expect("a name");
        let boot = Dice::of(seed, "boot", number + 1_000 * life as usize).bits();
        let host = Host::taking_turns(&self.turns);
        let clock = self.servers.clock(plan.skew_ms);
        let chance =
            Chance::seeded(Dice::of(seed, "engine", number + 1_000 * life as usize).bits());
        let surroundings = Surroundings { clock, chance };
        let own = lingua_store::Instance { id, boot };
        let secret = Secret::from_seed(b"of a simulation");
        let engine = host.enter(|| {
            Engine::start_in(surroundings, link.backend(), own, self.settings_of(life), secret)
        });
        (instance.host, instance.link) = (host.clone(), Some(link));
        (instance.engine, instance.accepts) = (Some(engine.clone()), false);
        drop(instance);
        self.story("started", json!({ "scheduler": number, "life": life, "name": name }));
        let world = Arc::clone(self);
        host.enter(|| {
            tasks::start(async move {
                let address = format!("http://instance-{number}:{life}");
                let fetch = Arc::new(Bodies::new(&world, number));
                while engine.join(&address, Arc::clone(&fetch) as _).await.is_err() {
                    sleep(AGAIN).await;
                }
                let mut instance = world.instances[number].lock();
                if instance.lives == life {
                    instance.accepts = true;
                }
            });
        });
    }

    /// Where a peer connects to: another instance than the one to avoid, if there is one.
    pub(super) fn choose(&self, dice: &Dice, avoid: Option<usize>) -> Option<usize> {
        let accepts = |number: &usize| {
            let instance = self.instances[*number].lock();
            instance.accepts && !instance.drains
        };
        let mut open: Vec<usize> = (0..self.instances.len()).filter(accepts).collect();
        if open.len() > 1 {
            open.retain(|number| Some(*number) != avoid);
        }
        (!open.is_empty()).then(|| dice.pick(&open))
    }

    /// Starts a task of an instance.
    pub(super) fn as_instance<F>(&self, number: usize, work: impl FnOnce(Engine) -> F) -> Option<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (host, engine) = {
            let instance = self.instances[number].lock();
            (instance.host.clone(), instance.engine.clone()?)
        };
        host.enter(|| tasks::start(work(engine)));
        Some(())
    }

    /// The number of the instance at this address, if that life of it still is there.
    pub(super) fn at(&self, address: &str) -> Option<(usize, Host, Engine)> {
        let (number, life) = address.strip_prefix("http://instance-")?.split_once(':')?;
        let number: usize = number.parse().ok()?;
        let instance = self.instances.get(number)?.lock();
        let is_it = instance.lives.to_string() == life;
        let engine = instance.engine.clone().filter(|_| is_it)?;
        Some((number, instance.host.clone(), engine))
    }

    pub(super) fn kill(&self, number: usize) {
        self.instances[number].lock().leave();
    }

    /// Has an instance end by itself, and writes down how it did.
    pub(super) async fn drain(self: &Arc<Self>, number: usize) {
        let (host, engine) = {
            let mut instance = self.instances[number].lock();
            let Some(engine) = instance.engine.clone().filter(|_| !instance.drains) else { return };
            instance.drains = true;
            (instance.host.clone(), engine)
        };
        self.story("drain", json!({ "scheduler": number }));
        let ends = host.enter(|| {
            tasks::spawn("drain", async move {
                engine.drain();
                engine.end().await;
            })
        });
        let ended = matches!(ends.await, Ok(Some(())));
        let code = ended.then_some(0);
        self.story("drained", json!({ "scheduler": number, "code": code }));
        self.kill(number);
    }

    /// Waits until every instance runs and is found.
    pub(super) async fn all_back(self: &Arc<Self>) {
        for number in 0..self.instances.len() {
            while self.instances[number].lock().drains {
                sleep(AGAIN).await;
            }
            self.instances[number].lock().host.go_on();
            self.start(number, true);
            while !self.instances[number].lock().accepts {
                sleep(AGAIN).await;
            }
        }
    }
}
