//! The timers of a session, each with a generation, and the clock of pauses.

use std::time::Duration;

use super::event::{Effect, Timer};
use crate::time::Moment;

/// Which timers are set. A timer of an older generation than the one here means nothing.
#[derive(Default)]
pub(super) struct Timers {
    armed: [Option<Armed>; 3],
    generation: u64,
}

#[derive(Clone, Copy)]
struct Armed {
    generation: u64,
    at: Moment,
}

impl Timers {
    /// Sets the timer unless it is set for `at` or before: one that fires too early is set again
    /// then, which is far rarer than the pieces of speech that move its moment.
    #[must_use]
    pub fn at_latest<R>(&mut self, timer: Timer, at: Moment) -> Option<Effect<R>> {
        let early = self.armed[timer as usize].is_some_and(|armed| armed.at <= at);
        (!early).then(|| self.set(timer, at))
    }

    /// Sets the timer, in place of what it was set for.
    #[must_use]
    pub fn set<R>(&mut self, timer: Timer, at: Moment) -> Effect<R> {
        self.generation += 1;
        let generation = self.generation;
        self.armed[timer as usize] = Some(Armed { generation, at });
        Effect::SetTimer { timer, generation, at }
    }

    /// Forgets the timer; should it fire, it is stale.
    pub fn disarm(&mut self, timer: Timer) {
        self.armed[timer as usize] = None;
    }

    /// Whether the timer's moment has come. Then it is no longer set.
    pub fn take_due(&mut self, timer: Timer, now: Moment) -> bool {
        let due = self.armed[timer as usize].is_some_and(|armed| armed.at <= now);
        if due {
            self.disarm(timer);
        }
        due
    }

    /// The timer that fired before its moment is set again; a stale one is nothing.
    #[must_use]
    pub fn fired_early<R>(&mut self, timer: Timer, generation: u64) -> Option<Effect<R>> {
        let armed = self.armed[timer as usize].filter(|armed| armed.generation == generation)?;
        Some(self.set(timer, armed.at))
    }
}

/// Since when the speaker is silent.
pub(super) struct PauseClock {
    quiet_since: Moment,
    /// The client's loudspeaker plays, at most until then.
    held_until: Option<Moment>,
}

impl PauseClock {
    pub fn new(now: Moment) -> Self {
        PauseClock { quiet_since: now, held_until: None }
    }

    /// Something was heard.
    pub fn touch(&mut self, now: Moment) {
        self.quiet_since = now;
    }

    /// The loudspeaker plays. Said again while it does, this does not hold for longer.
    pub fn hold(&mut self, now: Moment, at_most: Duration) {
        if self.held_until.is_none_or(|until| until <= now) {
            self.held_until = Some(now + at_most);
        }
    }

    /// The loudspeaker is silent: the pause is counted from here.
    pub fn release(&mut self, now: Moment) {
        if let Some(until) = self.held_until.take() {
            self.quiet_since = self.quiet_since.max(until.min(now));
        }
    }

    /// The client came back: neither its absence nor what it played before counts.
    pub fn restart(&mut self, now: Moment) {
        *self = PauseClock::new(now);
    }

    /// When the pause is long enough to cut, if no further piece comes.
    pub fn due(&self, pause: Duration) -> Moment {
        self.quiet_since.max(self.held_until.unwrap_or(Moment::ZERO)) + pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    #[test]
    fn a_loudspeaker_holds_the_pause_off_and_not_for_ever() {
        let (pause, most) = (Duration::from_millis(100), Duration::from_millis(1000));
        let mut clock = PauseClock::new(at(0));
        clock.hold(at(50), most);
        clock.hold(at(900), most);
        assert_eq!(clock.due(pause), at(1150), "a second start does not prolong the first");
        clock.release(at(400));
        assert_eq!(clock.due(pause), at(500));
        clock.hold(at(450), most);
        clock.release(at(9000));
        assert_eq!(clock.due(pause), at(1550), "a very late end counts as the end of the hold");
    }
}
