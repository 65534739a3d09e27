//! One test for each way in which the design papers lost, doubled or mixed up a sentence, and for
//! each rule of a session that a reader may want to see at work.

mod cutting;
mod ending;
pub mod resuming;
mod targets;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::eligibility::Route;
use lingua_core::session::*;
use lingua_core::{Lang, Moment};

type Event = lingua_core::session::Event<&'static str>;
type Effect = lingua_core::session::Effect<&'static str>;

fn route(src: &str, tgt: &str) -> Route {
    Route::Directed(Lang::new(src).unwrap(), Lang::new(tgt).unwrap())
}

fn key(index: u64) -> ResultKey {
    ResultKey { index, lane: Lane(0) }
}

fn lane(index: u64, lane: u8) -> ResultKey {
    ResultKey { index, lane: Lane(lane) }
}

/// A session with a clock, and short ways to say what happens.
struct Talk {
    session: Session<&'static str>,
    ms: u64,
    seq: u32,
}

impl Talk {
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        Self::into_languages(settings, Routes::one(route("en", "zh")))
    }

    fn into_languages(settings: Settings, routes: Routes) -> Self {
        let session = Session::new(settings, 1, routes, [1; 16], Moment::ZERO).unwrap();
        Talk { session, ms: 0, seq: 0 }
    }

    fn after(&mut self, ms: u64, event: Event) -> Vec<Effect> {
        self.ms += ms;
        self.session.on_event(Moment::from_millis(self.ms), event)
    }

    fn now(&mut self, event: Event) -> Vec<Effect> {
        self.after(0, event)
    }

    /// A piece of 20 ms.
    fn say(&mut self, text: &'static str) -> Vec<Effect> {
        self.chunk(text, 20, false)
    }

    fn chunk(&mut self, text: &'static str, ms: u64, is_final: bool) -> Vec<Effect> {
        let (seq, bytes) = (self.seq, Bytes::from_static(text.as_bytes()));
        self.seq += 1;
        self.now(Event::Audio { seq, bytes, duration: Duration::from_millis(ms), is_final })
    }

    /// A whole sentence; its index.
    fn sentence(&mut self, text: &'static str) -> u64 {
        cut(&self.chunk(text, 500, true)).expect("an utterance").index
    }

    fn assign(&mut self, key: ResultKey, attempt: u32) -> Vec<Effect> {
        self.now(Event::Assigned { key, attempt, hedge: false })
    }

    fn answer(&mut self, key: ResultKey, attempt: u32, text: &'static str) -> Vec<Effect> {
        let ending = Ending::Result(text);
        self.now(Event::Ended { key, attempt: Some(attempt), ending })
    }

    fn fail(&mut self, key: ResultKey, why: MissingReason) -> Vec<Effect> {
        self.now(Event::Ended { key, attempt: None, ending: Ending::Missing(why) })
    }

    /// Some event that means nothing, `ms` later: time alone does its work.
    fn wait(&mut self, ms: u64) -> Vec<Effect> {
        self.after(ms, Event::TimerFired { timer: Timer::Pause, generation: 0 })
    }
}

fn cut(effects: &[Effect]) -> Option<&Arc<Utterance>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Dispatch(utterance) => Some(utterance),
        _ => None,
    })
}

fn words(utterance: &Utterance) -> String {
    String::from_utf8(utterance.speech.audio().to_vec()).unwrap()
}

fn told(effects: &[Effect]) -> Vec<(ResultKey, Ending<&'static str>)> {
    let told = |effect: &Effect| match effect {
        Effect::Deliver(delivery) => Some((delivery.key, delivery.ending.clone())),
        _ => None,
    };
    effects.iter().filter_map(told).collect()
}

fn timers(effects: &[Effect], which: Timer) -> Vec<(u64, Moment)> {
    let set = |effect: &Effect| match effect {
        Effect::SetTimer { timer, generation, at } if *timer == which => Some((*generation, *at)),
        _ => None,
    };
    effects.iter().filter_map(set).collect()
}

fn result(text: &'static str) -> Ending<&'static str> {
    Ending::Result(text)
}

fn missing(why: MissingReason) -> Ending<&'static str> {
    Ending::Missing(why)
}
