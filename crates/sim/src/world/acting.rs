//! Doing and undoing a fault.

use std::sync::Arc;
use std::time::Duration;

use lingua_lab::chaos;
use serde_json::json;
use tokio::time::sleep;

use super::World;
use crate::fault::{Fault, Planned};
use crate::store::{Link, PROMOTION};

impl World {
    /// Does a fault, waits, and undoes it.
    pub(super) async fn befall(self: Arc<Self>, id: usize, planned: Planned) {
        let Planned { at_ms, lasts_ms, fault } = planned;
        let told = chaos::Planned { id, at_ms, lasts_ms, fault: fault.for_judge() };
        let told = serde_json::to_value(told).unwrap_or_default();
        self.story("fault", json!({ "id": id, "planned": told, "fault": fault }));
        self.hurt(&fault, Duration::from_millis(lasts_ms)).await;
        self.story("healed", json!({ "id": id }));
    }

    async fn hurt(self: &Arc<Self>, fault: &Fault, lasts: Duration) {
        match *fault {
            Fault::Kill { instance, same_name } => {
                // One that drains or stands still is in other hands.
                if self.may_take(instance) {
                    self.kill(instance);
                    sleep(lasts).await;
                    self.start(instance, !same_name);
                }
            }
            Fault::Stop { instance } if self.may_take(instance) => {
                let host = self.instances[instance].lock().host.clone();
                host.stop();
                sleep(lasts).await;
                host.go_on();
            }
            Fault::Stop { .. } => {}
            Fault::Drain { instance } if self.may_take(instance) => {
                self.drain(instance).await;
                sleep(lasts).await;
                self.start(instance, true);
            }
            Fault::Drain { .. } => {}
            Fault::Failover { skew_ms } => self.fail_over(skew_ms, lasts).await,
            Fault::Flush => {
                let empty = self.servers.empty();
                self.promote(empty).await;
            }
            Fault::NoBodies { instance, per_mille } => {
                self.instances[instance].lock().loses_bodies = per_mille;
                sleep(lasts).await;
                self.instances[instance].lock().loses_bodies = 0;
            }
            _ => {
                self.hurt_peer(fault, lasts).await;
                self.hurt_store(fault, lasts).await;
            }
        }
    }

    async fn hurt_peer(self: &Arc<Self>, fault: &Fault, lasts: Duration) {
        match *fault {
            Fault::KillNode { node } => {
                let life = {
                    let mut node = self.nodes[node].lock();
                    node.host.kill();
                    node.cut();
                    node.lives
                };
                sleep(lasts).await;
                // Another fault may have started it meanwhile.
                if self.nodes[node].lock().lives == life {
                    self.start_node(node);
                }
            }
            Fault::StopNode { node } => {
                let host = self.nodes[node].lock().host.clone();
                host.stop();
                sleep(lasts).await;
                host.go_on();
            }
            Fault::CutNode { node } => self.nodes[node].lock().cut(),
            Fault::HoldNode { node } => {
                self.nodes[node].lock().hold(true);
                sleep(lasts).await;
                self.nodes[node].lock().hold(false);
            }
            Fault::LateNode { node, by_ms } => {
                self.nodes[node].lock().delay(Duration::from_millis(by_ms));
                sleep(lasts).await;
                self.nodes[node].lock().delay(Duration::ZERO);
            }
            Fault::CutClient { speaker } => self.speakers[speaker].lock().cut(),
            Fault::StopClient { speaker } => {
                let host = self.speakers[speaker].lock().host.clone();
                host.stop();
                sleep(lasts).await;
                host.go_on();
            }
            Fault::HoldClient { speaker } => {
                self.speakers[speaker].lock().hold(true);
                sleep(lasts).await;
                self.speakers[speaker].lock().hold(false);
            }
            _ => {}
        }
    }

    async fn hurt_store(self: &Arc<Self>, fault: &Fault, lasts: Duration) {
        let link = |instance: usize| self.instances[instance].lock().link.clone();
        match fault {
            Fault::StoreCut { instance, same_connection } => {
                let Some(link) = link(*instance) else { return };
                let cut = Arc::clone(&link);
                lingua_engine::tasks::start(async move { cut.cut().await });
                sleep(lasts).await;
                link.heal(*same_connection).await;
            }
            Fault::StoreReset { instance } => {
                let Some(link) = link(*instance) else { return };
                link.reset();
                sleep(lasts).await;
                link.heal(false).await;
            }
            Fault::StoreLate { instance, by_ms } => {
                let Some(link) = link(*instance) else { return };
                link.late(Duration::from_millis(*by_ms));
                sleep(lasts).await;
                link.late(Duration::ZERO);
            }
            Fault::StoreFlaky { instance, how, per_mille } => {
                let Some(link) = link(*instance) else { return };
                link.flaky(Some((*how, *per_mille)));
                sleep(lasts).await;
                link.flaky(None);
            }
            Fault::Call { instance, call, how, times } => {
                if let Some(link) = link(*instance) {
                    link.next_calls(call, *how, *times);
                }
            }
            Fault::Calls { instance, call, how } => {
                let Some(link) = link(*instance) else { return };
                link.all_calls(call, *how, true);
                sleep(lasts).await;
                link.all_calls(call, *how, false);
            }
            Fault::Redeliver { instance } => {
                let Some(link) = link(*instance) else { return };
                link.redeliver(true);
                sleep(lasts).await;
                link.redeliver(false);
            }
            _ => {}
        }
    }

    /// Whether an instance runs and is in nobody else's hands.
    fn may_take(&self, number: usize) -> bool {
        let instance = self.instances[number].lock();
        instance.engine.is_some() && !instance.drains && instance.host.is_running()
    }

    /// What is written from now on is lost.
    async fn fail_over(&self, skew_ms: i64, lag: Duration) {
        let replica = self.servers.replica(skew_ms);
        sleep(lag).await;
        self.promote(replica).await;
    }

    /// Another server becomes the store: all connections break.
    async fn promote(&self, server: Arc<lingua_store::memory::MemoryStore>) {
        let links: Vec<Arc<Link>> =
            self.instances.iter().filter_map(|instance| instance.lock().link.clone()).collect();
        links.iter().for_each(|link| link.reset());
        self.servers.promote(server);
        sleep(PROMOTION).await;
        for link in links {
            link.heal(false).await;
        }
    }
}
