//! What instances fetch from each other, in place of HTTP.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use lingua_engine::peers::bodies::Fetch;
use lingua_store::Instance;
use tokio::time::sleep;

use super::World;
use crate::dice::Dice;

/// An instance that does not answer is given up after so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// The way of one instance to the bodies of others.
pub(super) struct Bodies {
    /// The engines have it, and the world has them.
    world: Weak<World>,
    dice: Dice,
}

impl Bodies {
    pub fn new(world: &Arc<World>, number: usize) -> Self {
        let dice = Dice::of(world.plan.seed, "bodies", number);
        Bodies { world: Arc::downgrade(world), dice }
    }
}

impl Fetch for Bodies {
    fn fetch(
        &self,
        from: Instance,
        address: String,
        name: String,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>> {
        let (world, dice) = (self.world.clone(), self.dice.clone());
        Box::pin(async move {
            sleep(Duration::from_millis(dice.between(0, 4))).await;
            let world = world.upgrade().ok_or("the world has ended")?;
            let Some((number, host, engine)) = world.at(&address) else {
                return Err("nobody is there".to_owned());
            };
            if *engine.instance() != from {
                return Err("another process is there".to_owned());
            }
            if !host.is_running() {
                sleep(PATIENCE).await;
                return Err("it does not answer".to_owned());
            }
            let loses = world.instances[number].lock().loses_bodies;
            if dice.happens(loses) {
                return Err("the connection broke".to_owned());
            }
            let body = engine.body(&name);
            sleep(Duration::from_millis(dice.between(0, 4))).await;
            body.ok_or_else(|| "nobody has it".to_owned())
        })
    }
}
