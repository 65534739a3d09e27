//! The legs of a job by way of another language: what they tell, and what is checked of them.

use bytes::Bytes;
use lingua_core::Lang;
use lingua_core::fleet::{Fallbacks, Way};
use lingua_core::job::{Effect, Ended, Event, Leg, LegNews, NodeMessage, Refusal};
use lingua_core::outcome::Code;

use super::{Harness, Question};

impl Harness {
    /// One leg at a time, the second after the first, none beside a slot.
    pub(super) fn check_leg(&mut self, effect: &Effect) {
        match effect {
            Effect::BeginLeg { leg, .. } => {
                assert!(self.leg.is_none(), "one leg at a time");
                assert_eq!(*leg == Leg::Second, self.first_done, "the second follows the first");
                assert!(self.current.is_empty() && self.granted.is_empty(), "a leg beside a slot");
                self.open.push(Question::BeginLeg(*leg));
                self.leg = Some(*leg);
            }
            Effect::CancelLeg { leg, .. } | Effect::LegOver { leg, .. } => {
                assert_eq!(self.leg.take(), Some(*leg));
            }
            _ => unreachable!("not about a leg"),
        }
    }

    /// A leg tells something, perhaps one that does not run.
    pub(super) fn leg_news(&mut self, leg: Leg, kind: u8) {
        let body = || NodeMessage::from(Bytes::from_static(b"{}"));
        let news = match kind % 8 {
            0 | 1 => LegNews::Assigned,
            2 => LegNews::Accepted,
            3 => LegNews::Partial(body()),
            4 | 5 => LegNews::Ended(Ended::Done(body())),
            6 => LegNews::Ended(Ended::Empty { body: None, reason: "SILENCE".into() }),
            _ => LegNews::Ended(Ended::Failed(Refusal::new(Code::AllNodesBusy, "full"))),
        };
        let begun = !self.open.contains(&Question::BeginLeg(leg));
        let runs = self.leg == Some(leg) && begun;
        if !runs && self.leg == Some(leg) {
            // Nothing is heard of a leg before it is handed in.
            return;
        }
        let done = matches!(news, LegNews::Ended(Ended::Done(_)));
        let before = self.machine.state();
        if runs && done && leg == Leg::First {
            self.first_done = true;
        }
        let effects = self.tell_raw(Event::Leg { leg, news });
        if !runs {
            assert!(matches!(effects[..], [Effect::Ignored]), "news of a leg that does not run");
            assert_eq!(before, self.machine.state());
        }
        self.check(effects);
    }

    pub(super) fn another_way(&self, ways: Fallbacks, how: u8) -> Option<Way> {
        let via = Lang::new("en").unwrap();
        let pivot = Some(Way::Pivot { via, speech: how.is_multiple_of(3) });
        [
            pivot.filter(|_| ways.pivot),
            Some(Way::Captions).filter(|_| ways.captions),
            Some(Way::Original).filter(|_| ways.original),
            None,
        ]
        .into_iter()
        .cycle()
        .nth(usize::from(how) % 4)
        .flatten()
    }

    pub(super) fn begin_leg(&mut self, leg: Leg, how: u8) -> Event {
        let refused = how.is_multiple_of(6).then(|| Refusal::new(Code::QuotaExceeded, "full"));
        Event::LegBegun { leg, refused }
    }
}
