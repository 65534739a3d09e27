//! Doing a fault and undoing it.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

use super::plan::{Fault, Planned, Way};
use super::servers::Hurt;
use super::world::World;

/// Does it, waits as long as it lasts, undoes it, and writes down both. What cannot be done is
/// written down as left out: a server that another fault has already taken away, for example.
pub(super) async fn act(world: Arc<World>, planned: Planned) {
    let Planned { id, lasts_ms, fault, .. } = planned;
    let lasts = Duration::from_millis(lasts_ms);
    let text = planned.to_string();
    world.story.write("fault", json!({ "id": id, "text": text, "planned": planned }));
    let done = match fault {
        Fault::KillScheduler { scheduler, new_name } => {
            world.kill_scheduler(scheduler).await;
            sleep(lasts).await;
            world.start_scheduler(scheduler, new_name).await
        }
        Fault::StopScheduler { scheduler } => stop_scheduler(&world, scheduler, lasts).await,
        Fault::DrainScheduler { scheduler } => {
            let drained = world.drain_scheduler(scheduler).await;
            sleep(lasts).await;
            drained.and(world.ensure_scheduler(scheduler).await)
        }
        Fault::KillNodes { process } => kill_nodes(&world, process, lasts).await,
        Fault::StopNodes { process } => {
            let first = world.nodes[process].lock().await.signal(Signal::STOP);
            sleep(lasts).await;
            first.and(world.nodes[process].lock().await.signal(Signal::CONT))
        }
        Fault::StopSpeakers { process } => {
            let first = world.speakers[process].lock().await.signal(Signal::STOP);
            sleep(lasts).await;
            first.and(world.speakers[process].lock().await.signal(Signal::CONT))
        }
        Fault::Cut { wire } => {
            world.wire(wire).into_iter().for_each(crate::FaultProxy::cut);
            Ok(())
        }
        Fault::CutMidMessage { wire, after_bytes } => {
            let wire = world.wire(wire);
            wire.into_iter().for_each(|wire| wire.cut_in_mid_reply(after_bytes));
            sleep(lasts).await;
            wire.into_iter().for_each(crate::FaultProxy::pass);
            Ok(())
        }
        Fault::Partition { wire, way } => {
            let wire = world.wire(wire);
            wire.into_iter().for_each(|wire| match way {
                Way::Both => wire.black_hole(),
                Way::ToServer => wire.black_hole_upstream(),
                Way::FromServer => wire.black_hole_downstream(),
            });
            sleep(lasts).await;
            wire.into_iter().for_each(crate::FaultProxy::pass);
            Ok(())
        }
        Fault::Delay { wire, delay_ms } => {
            let wire = world.wire(wire);
            wire.into_iter().for_each(|wire| wire.delay(Duration::from_millis(delay_ms)));
            sleep(lasts).await;
            wire.into_iter().for_each(crate::FaultProxy::pass);
            Ok(())
        }
        store => hurt_the_store(&world, store, lasts).await,
    };
    match done {
        Ok(()) => world.story.write("healed", json!({ "id": id })),
        Err(error) => {
            world.story.write("healed", json!({ "id": id, "problem": format!("{error:#}") }));
        }
    }
}

async fn stop_scheduler(world: &World, index: usize, lasts: Duration) -> anyhow::Result<()> {
    world.signal_scheduler(index, Signal::STOP).await?;
    sleep(lasts).await;
    world.signal_scheduler(index, Signal::CONT).await
}

async fn kill_nodes(world: &World, process: usize, lasts: Duration) -> anyhow::Result<()> {
    world.nodes[process].lock().await.kill().await;
    sleep(lasts).await;
    *world.nodes[process].lock().await = world.node_process(process)?;
    Ok(())
}

async fn hurt_the_store(world: &World, fault: Fault, lasts: Duration) -> anyhow::Result<()> {
    let mut servers = world.servers.lock().await;
    let hurt = match fault {
        Fault::FlushAll => servers.tell_all(&["FLUSHALL"]).await.map(|()| Hurt::Nothing),
        Fault::FlushScripts => servers.tell_all(&["SCRIPT", "FLUSH"]).await.map(|()| Hurt::Nothing),
        Fault::KillStore { server } => servers.kill(server).await,
        Fault::StopStore { server } => servers.stop(server).await,
        Fault::Failover { server } => servers.fail_over(server).await,
        Fault::KillSentinel { server } => servers.kill_sentinel(server),
        Fault::StopSentinel { server } => servers.stop_sentinel(server),
        _ => Ok(Hurt::Nothing),
    }?;
    sleep(lasts).await;
    servers.heal(hurt).await
}
