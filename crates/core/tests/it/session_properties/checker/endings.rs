//! Exactly one ending for each index and target, in order, and nothing after it.

use std::time::Duration;

use lingua_core::session::*;

use super::*;

impl Checker {
    pub fn delivered(&mut self, event: &Event<u32>, delivery: &Delivery<u32>) {
        assert!(self.connected, "nobody is there");
        let (key, exact) = (delivery.key, self.punctual && self.undisturbed);
        let index = usize::try_from(key.index).unwrap();
        let account = &self.utterances[index];
        let lane = &account.lanes[usize::from(key.lane.0)];
        let (route, single) = (lane.route, account.lanes.len() == 1);
        assert_eq!(delivery.route, Some(route), "{key:?}");
        assert_eq!(Some(&delivery.ending), lane.ending.as_ref(), "{key:?}");
        if delivery.again {
            assert!(lane.told && matches!(event, Event::Resumed { .. }));
        } else {
            assert!(!lane.told, "{key:?} ended twice");
            assert!(!exact || self.now <= account.deadline, "{key:?} ended late");
            self.in_turn(index, usize::from(key.lane.0));
        }
        for of in targets(&route).map(Some).chain(single.then_some(None)) {
            if let Some(last) = self.last_of.insert(of, key.index) {
                assert!(last < key.index, "{key:?} of {of:?} after {last}");
            }
        }
        self.utterances[index].lanes[usize::from(key.lane.0)].told = true;
        if !delivery.again {
            // The last piece up to which, with it, everything is delivered.
            let told = |u: &&Account| u.lanes.iter().all(|lane| lane.told);
            let complete = self.utterances.iter().take_while(told).count();
            let up_to_it = &self.utterances[..complete];
            let mut behind = up_to_it.iter().skip(index).filter_map(|u| u.seqs);
            let acks = behind.next_back().map(|(_, last)| last).filter(|_| complete > index);
            assert_eq!(delivery.audio_ack, acks, "{key:?}");
        }
    }

    /// Nothing that comes before this ending is missing.
    fn in_turn(&self, index: usize, lane: usize) {
        let account = &self.utterances[index];
        let own = &account.lanes[lane];
        for (earlier, before) in self.utterances[..index].iter().enumerate() {
            for other in before.lanes.iter().filter(|other| !other.told) {
                let first = before.precedes(other, account, own);
                assert!(!first, "{index}/{lane} before {earlier} to {:?}", other.route);
            }
        }
        let safe = self.utterances[..=index].iter().all(Account::is_safe);
        assert!(account.seqs.is_none() || safe, "{index}/{lane} is out before its speech is safe");
    }

    pub fn resumed(
        &mut self,
        epoch: u64,
        last_seen: &LastSeen,
        forgotten: &[Span],
        all: &[Effect<u32>],
    ) {
        assert!(self.may_resume(epoch));
        self.epoch = epoch;
        self.connected = true;
        self.resume_until = None;
        self.timers.remove(&Timer::Resume);
        let again: Vec<ResultKey> = all
            .iter()
            .filter_map(|e| match e {
                Effect::Deliver(d) if d.again => Some(d.key),
                _ => None,
            })
            .collect();
        assert!(again.len() <= self.kept * 3, "for each of three targets at most");
        for (index, account) in (0u64..).zip(&self.utterances) {
            for (at, lane) in (0u8..).zip(&account.lanes) {
                let seen = seen_of(last_seen, &lane.route).is_some_and(|seen| index <= seen);
                let named = |span: &&Span| {
                    (span.first..=span.last).contains(&index)
                        && span.route.is_none_or(|route| route == lane.route)
                };
                let key = ResultKey { index, lane: Lane(at) };
                let gone: Vec<&Span> = forgotten.iter().filter(named).collect();
                let told = gone.len() + again.iter().filter(|again| **again == key).count();
                assert!(told <= 1, "{key:?} comes {told} times");
                assert!(!lane.told || seen || told == 1, "{key:?} is silently lost");
                let known = gone.iter().any(|span| span.route.is_some());
                assert!(!known || (lane.told && !seen), "{key:?} is lost for no reason");
            }
        }
    }

    /// What holds between any two events.
    pub fn standing(&self, session: &Session<u32>) {
        assert_eq!(session.held_bytes(), self.held_bytes());
        assert!(self.held_bytes() <= HELD_BYTES);
        let pending = if self.pending_bytes() > 0 { self.routes.lanes() } else { 0 };
        let jobs = self.open_jobs() + pending;
        let first = self.utterances.iter().map(|u| u.lanes.len()).max().unwrap_or(0).max(pending);
        assert!(jobs <= self.max_open.max(first), "{jobs} jobs are open");
        assert_eq!(session.is_closed(), self.closed);
        if self.closed {
            return;
        }
        let mut safe = true;
        for (index, account) in self.utterances.iter().enumerate() {
            safe &= account.is_safe();
            for (at, lane) in account.lanes.iter().enumerate() {
                if lane.ending.is_none() {
                    let (_, alarm) = self.timers[&Timer::Deadline];
                    assert!(alarm <= account.deadline, "nobody watches {index}");
                }
                let held_back = lane.ending.is_none()
                    || (account.seqs.is_some() && !safe)
                    || self.utterances[..index].iter().any(|before| {
                        let open = |other: &&LaneAccount| !other.told;
                        before.lanes.iter().filter(open).any(|o| before.precedes(o, account, lane))
                    });
                let due = self.connected && !held_back;
                assert!(!due || lane.told, "{index}/{at} is kept back for nothing");
            }
        }
        if self.pending_bytes() > 0 && self.connected {
            let quiet_since = self.loud_until.map_or(self.quiet_since, |u| u.max(self.quiet_since));
            let pause = quiet_since + Duration::from_millis(PAUSE_MS);
            assert!(self.now < pause, "the pause was not heard");
            assert!(self.timers[&Timer::Pause].1 <= pause, "the pause will be heard too late");
        }
        assert!(self.resume_until.is_none() || self.timers.contains_key(&Timer::Resume));
    }
}
