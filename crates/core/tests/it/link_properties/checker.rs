//! What a node's machine promises, kept in an account of its own.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lingua_core::link::event::{Call, JobMessage, News, ToNode};
use lingua_core::link::{Effect, Kinds, Machine};
use lingua_core::node::Order;
use lingua_core::{LeaseToken, Moment};

/// The listener is the token's nonce, the message the token itself.
pub struct Plain;

impl Kinds for Plain {
    type Listener = u128;
    type Assignment = LeaseToken;
    type Payload = u128;
    type Slot = u32;
}

pub type Node = Machine<Plain>;

pub const LOOKUPS_PER_S: u32 = 20;
pub const LOOKUP_BURST: u32 = 30;

/// Where an attempt is, by what its job did and was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stand {
    /// The job waits for it.
    Wanted,
    /// The node said how it ended; the job has to end it.
    Answered,
    /// Nobody waits for it.
    Left,
}

pub struct Account {
    pub token: LeaseToken,
    pub stand: Stand,
    /// The epoch of the connection that it was sent over.
    pub sent_over: Option<u64>,
    /// Nobody can want it after this.
    pub wanted_until: Option<Moment>,
}

#[derive(Default)]
pub struct Checker {
    pub accounts: HashMap<u128, Account>,
    pub released: HashSet<u128>,
    pub slots_freed: HashSet<u32>,
    pub timer: Option<Moment>,
    pub call: Option<(u64, Call)>,
    /// What was waited for when the call began.
    pub wanted_at_call: HashSet<u128>,
    pub looked_up: u64,
    pub orphaned: u64,
    pub refused: u64,
    pub forget: bool,
    /// The node is put aside, by what was said.
    pub aside: bool,
    /// A registration is fed: what another process knew of the node may be news.
    pub recalls: bool,
    /// The last that the node was told to do.
    pub command: Option<&'static str>,
    /// Cancels whose slots are free once they are sent.
    pub cancels: Vec<LeaseToken>,
    /// What the node was sent and told to stop.
    pub sent: Vec<ToNode<LeaseToken>>,
}

impl Checker {
    /// Takes the effects of one event into account. `node` is how the machine stands after it.
    pub fn after(&mut self, node: &Node, now: Moment, is_tick: bool, effects: Vec<Effect<Plain>>) {
        self.expire(now);
        for effect in effects {
            match effect {
                Effect::Send(message) => self.on_send(node, message),
                Effect::Tell { listener, attempt, news } => self.on_tell(listener, attempt, &news),
                Effect::Release { token, slot } => {
                    assert!(self.released.insert(token.nonce), "a token is released once");
                    let account = self.accounts.remove(&token.nonce).expect("it was held");
                    assert_eq!(account.stand, Stand::Left, "its job gives the slot back otherwise");
                    let expired = account.wanted_until.is_some();
                    assert!(slot.is_some() || expired, "with the slot that its job counted");
                    self.slot_freed(slot);
                }
                Effect::SlotFreed(slot) => self.slot_freed(Some(slot)),
                Effect::Store { epoch, call } => {
                    assert!(self.call.is_none(), "one call at a time");
                    assert_eq!(epoch, node.epoch());
                    if let Call::LookUp(jobs) = &call {
                        self.looked_up += jobs.len() as u64;
                    }
                    let wanted = node.attempts().filter(|held| held.is_wanted());
                    self.wanted_at_call = wanted.map(|held| held.token.nonce).collect();
                    self.call = Some((epoch, call));
                }
                Effect::SetTimer(at) => {
                    assert!(!is_tick || at > now, "what is due at a tick is done by it");
                    self.timer = Some(at);
                }
                Effect::Orphaned(JobMessage { kind, attempt, .. }) => {
                    assert!(kind.is_result() && attempt.is_some());
                    self.orphaned += 1;
                }
                Effect::Forget => {
                    assert!(node.is_forgettable() || !is_tick);
                    self.forget = true;
                }
                Effect::Detached(attempts) => {
                    for attempt in attempts {
                        self.accounts.remove(&attempt.token.nonce);
                    }
                    assert_eq!(node.attempts().count(), 0);
                }
                Effect::ReportRefused { retry_after, .. } => {
                    assert!(retry_after > Duration::ZERO);
                    self.refused += 1;
                }
                Effect::CloseOlder
                | Effect::NotAssigned(_)
                | Effect::Stale(_)
                | Effect::LookupLimited
                | Effect::Paced
                | Effect::Renew { .. }
                | Effect::FleetChanged
                | Effect::Idle
                | Effect::Overdue
                | Effect::BreakerOpened
                | Effect::ProbeRefused { .. } => {}
                Effect::PutAside => {
                    assert!(node.aside().is_some() && !self.aside, "once, and when it is");
                    self.aside = true;
                }
                Effect::BackInService => {
                    assert!(node.aside().is_none() && self.aside);
                    self.aside = false;
                }
            }
        }
        self.standing(node, now);
    }

    pub fn expire(&mut self, now: Moment) {
        for account in self.accounts.values_mut() {
            if account.wanted_until.is_some_and(|until| until <= now) {
                account.stand = Stand::Left;
            }
        }
    }

    fn on_send(&mut self, node: &Node, message: ToNode<LeaseToken>) {
        assert!(
            node.is_connected() || matches!(message, ToNode::Superseded),
            "nothing is sent without a connection"
        );
        match &message {
            ToNode::Assign(token) => {
                let taken = node.slots_taken();
                assert!(taken <= node.open_slots(), "{taken} of {} slots", node.open_slots());
                assert!(!self.released.contains(&token.nonce));
            }
            ToNode::Cancel { frees: Some(token), .. } => self.cancels.push(*token),
            ToNode::Control { command, .. } => self.command = Some(*command),
            _ => {}
        }
        self.sent.push(message);
    }

    fn slot_freed(&mut self, slot: Option<u32>) {
        if let Some(slot) = slot {
            assert!(self.slots_freed.insert(slot), "a slot is free once");
        }
    }

    fn on_tell(&mut self, nonce: u128, attempt: u32, news: &News<u128>) {
        let account = self.accounts.get_mut(&nonce).expect("nothing is told of what is over");
        assert_eq!(account.token.attempt, attempt);
        assert_ne!(account.stand, Stand::Left, "nobody waits for it");
        match news {
            News::Message(kind, payload) => {
                assert_eq!(*payload, nonce, "the word is about this attempt");
                if kind.frees_slot() {
                    account.stand = Stand::Answered;
                }
            }
            News::Dropped => drop(self.accounts.remove(&nonce)),
            News::NotSent | News::NodeGone | News::NodeBack | News::TurnClosed => {}
        }
    }

    /// What holds after every event.
    fn standing(&mut self, node: &Node, now: Moment) {
        let held: HashSet<u128> = node.attempts().map(|held| held.token.nonce).collect();
        for held in node.attempts() {
            let account = self.accounts.get(&held.token.nonce).expect("it holds what it was sent");
            assert_eq!(held.is_wanted(), account.stand != Stand::Left);
        }
        // What is not held any more has lapsed with nobody waiting for it.
        self.accounts.retain(|nonce, account| {
            assert!(held.contains(nonce) || account.stand == Stand::Left, "an attempt got lost");
            held.contains(nonce)
        });
        if std::mem::take(&mut self.recalls) {
            self.aside = node.aside().is_some();
        }
        assert!(!self.aside || node.aside().is_some(), "it is back, and nobody was told");
        if let (Some(aside), true, Order::Serve) = (node.aside(), node.is_connected(), node.order())
        {
            let told = if aside.probe_in.is_some() { "drain" } else { "resume" };
            assert_eq!(self.command, Some(told), "its owner knows how it stands");
        }
        let allowed = u64::from(LOOKUP_BURST) + now.as_millis() * u64::from(LOOKUPS_PER_S) / 1_000;
        assert!(self.looked_up <= allowed, "{} lookups of {allowed}", self.looked_up);
    }
}
