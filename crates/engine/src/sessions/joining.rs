//! Pieces that a client sends as whole utterances, put together.
//!
//! Existing mobile clients send every 200 ms as an `utterance` that the speaker did not end. Each as
//! a job of its own would be translated without the words around it, so pieces become one utterance:
//! until the speaker ends it, nothing comes for a pause, or it is as long as one may be.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lingua_core::session::Settings;
use tokio::time::Instant;

use super::actor::Actor;
use super::inbound::WholeUtterance;
use super::options::SpeechOptions;

/// An utterance that is not shorter is no piece.
const PIECE: Duration = Duration::from_secs(1);

/// What was put together so far.
#[derive(Default)]
pub(super) struct Joining(Option<Box<Joined>>);

struct Joined {
    /// The first piece, with the number of the last; its audio is in `audio`.
    whole: WholeUtterance,
    audio: BytesMut,
    /// When the pause is over.
    due: Instant,
}

/// How long and large an utterance may become.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub pause: Duration,
    pub longest: Duration,
    pub bytes: usize,
}

impl Bounds {
    pub fn of(settings: &Settings) -> Self {
        Bounds {
            pause: settings.pause,
            longest: settings.max_utterance,
            bytes: settings.max_utterance_bytes,
        }
    }
}

impl Joining {
    /// Takes an utterance in; gives what is complete now, in order.
    pub fn take(
        &mut self,
        whole: WholeUtterance,
        bounds: Bounds,
        now: Instant,
    ) -> Vec<WholeUtterance> {
        let is_short = whole.duration < PIECE && joins(&whole.options);
        let mut complete = Vec::new();
        if let Some(joined) = &mut self.0 {
            if whole.client_index.is_some_and(|index| Some(index) <= joined.whole.client_index) {
                // Said again while it waits: it is in there.
                return complete;
            }
            let fits = is_short
                && same(&joined.whole.options, &whole.options)
                && joined.audio.len() + whole.audio.len() <= bounds.bytes;
            if fits {
                joined.add(&whole, now + bounds.pause);
                if whole.manual_cut || joined.whole.duration >= bounds.longest {
                    complete.extend(self.end());
                }
                return complete;
            }
            complete.extend(self.end());
        }
        if is_short && !whole.manual_cut && !whole.audio.is_empty() {
            self.0 = Some(Box::new(Joined::begin(whole, now + bounds.pause)));
        } else {
            complete.push(whole);
        }
        complete
    }

    /// When what there is becomes an utterance by itself.
    pub fn due(&self) -> Option<Instant> {
        self.0.as_ref().map(|joined| joined.due)
    }

    /// Makes an utterance of what there is.
    pub fn end(&mut self) -> Option<WholeUtterance> {
        let Joined { mut whole, audio, .. } = *self.0.take()?;
        whole.audio = audio.freeze();
        Some(whole)
    }
}

impl Joined {
    fn begin(mut whole: WholeUtterance, due: Instant) -> Self {
        let audio = BytesMut::from(&std::mem::take(&mut whole.audio)[..]);
        Joined { whole, audio, due }
    }

    fn add(&mut self, piece: &WholeUtterance, due: Instant) {
        self.audio.extend_from_slice(&piece.audio);
        self.whole.duration = self.whole.duration.saturating_add(piece.duration);
        self.whole.client_index = piece.client_index;
        self.whole.manual_cut = piece.manual_cut;
        self.due = due;
    }
}

/// Whether pieces in that form are one when they follow each other; a file has a head, and a text is whole.
fn joins(options: &SpeechOptions) -> bool {
    !options.typed && matches!(options.audio_format, "opus" | "pcm16")
}

/// Whether pieces are of one utterance.
fn same(a: &SpeechOptions, b: &SpeechOptions) -> bool {
    a.routes == b.routes
        && (a.speech, a.fallbacks) == (b.speech, b.fallbacks)
        && (a.audio_format, a.sample_rate) == (b.audio_format, b.sample_rate)
        && (&a.job.src_lang, &a.job.tgt_lang) == (&b.job.src_lang, &b.job.tgt_lang)
        && a.job.dialect == b.job.dialect
        && a.job.pipeline == b.job.pipeline
}

impl Actor {
    /// A whole utterance came, or a piece of one.
    pub(super) fn on_utterance(&mut self, whole: WholeUtterance) {
        for whole in self.joining.take(whole, self.bounds, Instant::now()) {
            self.on_whole(Box::new(whole));
        }
    }

    /// What was put together is an utterance, for something else follows it.
    pub(super) fn end_joining(&mut self) {
        if let Some(whole) = self.joining.end() {
            self.on_whole(Box::new(whole));
        }
    }

    /// The same if the pause behind it is over.
    pub(super) fn end_joining_if_due(&mut self, now: Instant) {
        if self.joining.due().is_some_and(|due| due <= now) {
            self.end_joining();
        }
    }

    /// The client is gone in the middle of it.
    pub(super) fn abandon_joining(&mut self) {
        if let Some(whole) = self.joining.end() {
            self.service.shared.metrics.audio_dropped("abandoned", Bytes::len(&whole.audio));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lingua_core::Lang;
    use lingua_core::eligibility::Route;
    use lingua_core::fleet::Fallbacks;
    use lingua_core::inventory::Requirements;
    use lingua_core::session::Routes;
    use lingua_protocol::JobOptions;
    use lingua_protocol::asked::Asked;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { pause: Duration::from_secs(3), longest: Duration::from_secs(10), bytes: 100_000 };

    fn whole(index: u64, ms: u64, manual_cut: bool) -> WholeUtterance {
        let (en, zh) = (Lang::new("en").unwrap(), Lang::new("zh").unwrap());
        let options = SpeechOptions {
            routes: Routes::one(Route::Directed(en, zh)),
            speech: true,
            typed: false,
            asked: Asked::default(),
            asks: Requirements::default(),
            fallbacks: Fallbacks { captions: true, ..Fallbacks::NONE },
            says_form: false,
            profile: None,
            steps: None,
            job: JobOptions {
                src_lang: "en".into(),
                tgt_lang: "zh".into(),
                ..JobOptions::default()
            },
            untranslated: None,
            audio_format: "pcm16",
            sample_rate: 16_000,
        };
        WholeUtterance {
            client_index: Some(index),
            options: Arc::new(options),
            audio: vec![index as u8; ms as usize].into(),
            duration: Duration::from_millis(ms),
            manual_cut,
            trace_id: None,
            traceparent: None,
        }
    }

    /// The number, bytes and kind of end of each.
    fn told(complete: Vec<WholeUtterance>) -> Vec<(u64, usize, bool)> {
        complete
            .iter()
            .map(|one| (one.client_index.unwrap(), one.audio.len(), one.manual_cut))
            .collect()
    }

    #[tokio::test]
    async fn pieces_become_one_utterance_that_the_speaker_or_a_pause_ends() {
        let (mut joining, now) = (Joining::default(), Instant::now());
        let mut take = |whole| told(joining.take(whole, BOUNDS, now));
        assert_eq!(take(whole(1, 200, false)), []);
        assert_eq!(take(whole(2, 200, false)), []);
        assert_eq!(take(whole(2, 200, false)), [], "said again");
        assert_eq!(take(whole(3, 200, true)), [(3, 600, true)]);
        assert_eq!(take(whole(4, 200, false)), []);
        assert_eq!(joining.due(), Some(now + BOUNDS.pause));
        assert_eq!(told(joining.end().into_iter().collect()), [(4, 200, false)]);
        assert_eq!(joining.due(), None);
    }

    #[tokio::test]
    async fn what_is_no_piece_goes_as_it_is_behind_what_was_put_together() {
        let (mut joining, now) = (Joining::default(), Instant::now());
        let mut take = |whole| told(joining.take(whole, BOUNDS, now));
        assert_eq!(take(whole(1, 1_000, false)), [(1, 1_000, false)]);
        assert_eq!(take(whole(2, 200, true)), [(2, 200, true)], "the speaker ended it");
        assert_eq!(take(whole(3, 200, false)), []);
        assert_eq!(take(whole(4, 3_000, true)), [(3, 200, false), (4, 3_000, true)]);
        assert_eq!(take(whole(5, 200, false)), []);
        let mut other = whole(6, 200, false);
        Arc::make_mut(&mut other.options).audio_format = "opus";
        assert_eq!(take(other), [(5, 200, false)], "another form begins another utterance");
        let mut file = whole(7, 200, false);
        Arc::make_mut(&mut file.options).audio_format = "wav";
        assert_eq!(take(file), [(6, 200, false), (7, 200, false)], "a file has a head");
        assert_eq!(take(whole(8, 200, false)), []);
        let mut text = whole(9, 0, true);
        Arc::make_mut(&mut text.options).typed = true;
        text.audio = Bytes::from_static(b"text");
        assert_eq!(take(text), [(8, 200, false), (9, 4, true)], "a text is whole");
        let mut unnumbered = whole(0, 0, true);
        Arc::make_mut(&mut unnumbered.options).typed = true;
        unnumbered.client_index = None;
        assert_eq!(take(whole(10, 200, false)), []);
        assert_eq!(joining.take(unnumbered, BOUNDS, now).len(), 2, "it needs no number");
    }

    #[tokio::test]
    async fn an_utterance_of_pieces_is_as_long_and_large_as_any_other() {
        let (mut joining, now) = (Joining::default(), Instant::now());
        let mut cuts = Vec::new();
        for index in 0..120 {
            cuts.extend(told(joining.take(whole(index, 200, false), BOUNDS, now)));
        }
        assert_eq!(cuts, [(49, 10_000, false), (99, 10_000, false)]);
        let small = Bounds { bytes: 500, ..BOUNDS };
        let mut joining = Joining::default();
        for index in 0..2 {
            assert_eq!(told(joining.take(whole(index, 200, false), small, now)), []);
        }
        assert_eq!(told(joining.take(whole(2, 200, false), small, now)), [(1, 400, false)]);
    }
}
