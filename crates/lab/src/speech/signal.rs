//! Test signals, and how speech is cut into the pieces that a client sends.

use std::f64::consts::TAU;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::mark::Mark;
use super::opus;

/// Samples a second of everything that is spoken here.
pub const SAMPLE_RATE: u32 = 16_000;

/// Bytes of one millisecond of 16-bit samples.
const PCM_BYTES_PER_MS: usize = SAMPLE_RATE as usize / 1000 * 2;

/// How speech is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// 16-bit little-endian samples, mono.
    Pcm16,
    /// A run of `[u16 LE length][packet]`, each of 20 ms.
    #[default]
    Opus,
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Signal {
    /// A sine.
    Tone {
        /// Its frequency.
        hz: f64,
    },
    /// Bursts of noise with the rhythm of syllables.
    Babble,
    /// No sound.
    Silence,
}

impl Codec {
    /// As the wire spells it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Pcm16 => "pcm16",
            Codec::Opus => "opus",
        }
    }

    /// So many milliseconds of test speech that begins with this mark. Opus packets last 20 ms, so
    /// for them the time is rounded up; a mark takes at least one.
    pub fn speech(self, signal: Signal, ms: u64, mark: Option<Mark>, seed: u64) -> Bytes {
        let mut dice = SmallRng::seed_from_u64(seed);
        let mut audio = Vec::new();
        match self {
            Codec::Opus => {
                opus::run(ms.div_ceil(opus::PACKET_MS), mark, &mut dice, &mut audio);
            }
            Codec::Pcm16 => {
                let samples = ms * u64::from(SAMPLE_RATE) / 1000;
                audio.reserve_exact(samples as usize * 2);
                for at in 0..samples {
                    audio.extend_from_slice(&signal.sample(at, &mut dice).to_le_bytes());
                }
                if let Some(mark) = mark.map(Mark::to_bytes) {
                    audio.resize(audio.len().max(mark.len()), 0);
                    audio[..mark.len()].copy_from_slice(&mark);
                }
            }
        }
        audio.into()
    }

    /// Cuts speech into pieces of so many milliseconds, at whole samples and packets.
    pub fn pieces(self, audio: &Bytes, piece_ms: u64) -> Vec<Bytes> {
        let mut rest = audio.clone();
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let end = match self {
                Codec::Pcm16 => rest.len().min(PCM_BYTES_PER_MS * piece_ms.max(1) as usize),
                Codec::Opus => opus::end_of(&rest, (piece_ms / opus::PACKET_MS).max(1)),
            };
            // What is no run of packets goes as it is.
            pieces.push(if end == 0 { std::mem::take(&mut rest) } else { rest.split_to(end) });
        }
        pieces
    }
}

/// How long this audio is, in the form that a job names. Packets are counted as 20 ms, as those of
/// [`Codec::Opus`] are.
pub(crate) fn millis_of(audio_format: &str, audio: &[u8]) -> u64 {
    if audio_format == Codec::Opus.name() {
        return opus::packets(audio) * opus::PACKET_MS;
    }
    (audio.len() / PCM_BYTES_PER_MS) as u64
}

impl Signal {
    fn sample(self, at: u64, dice: &mut SmallRng) -> i16 {
        let seconds = at as f64 / f64::from(SAMPLE_RATE);
        let level = match self {
            Signal::Silence => 0.0,
            Signal::Tone { hz } => (TAU * hz * seconds).sin() * 0.3,
            Signal::Babble => {
                // Four syllables a second, and a breath every two seconds.
                let syllable = (TAU * 2.0 * seconds).sin().abs();
                let breath = if seconds % 2.0 < 1.7 { 1.0 } else { 0.02 };
                dice.random_range(-0.4..0.4) * syllable * breath
            }
        };
        (level * f64::from(i16::MAX)) as i16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { speaker: 3, sentence: 9 };

    #[test]
    fn speech_has_its_length_and_its_mark() {
        let pcm = Codec::Pcm16.speech(Signal::Babble, 250, Some(MARK), 1);
        assert_eq!(pcm.len(), 250 * 32);
        assert_eq!(Mark::find(&pcm), Some(MARK));
        let opus = Codec::Opus.speech(Signal::Babble, 250, Some(MARK), 1);
        assert_eq!(opus::end_of(&opus, 13), opus.len());
        assert_eq!(Mark::find(&opus), Some(MARK));
        assert_eq!(Mark::find(&Codec::Pcm16.speech(Signal::Silence, 250, None, 1)), None);
        assert_eq!(Codec::Pcm16.speech(Signal::Silence, 0, Some(MARK), 1).len(), 16);
    }

    #[test]
    fn the_same_seed_says_the_same() {
        for codec in [Codec::Pcm16, Codec::Opus] {
            let say = |seed| codec.speech(Signal::Babble, 100, None, seed);
            assert_eq!(say(1), say(1));
            assert_ne!(say(1), say(2));
        }
    }

    #[test]
    fn pieces_are_whole_packets_and_give_the_speech_again() {
        for codec in [Codec::Pcm16, Codec::Opus] {
            let audio = codec.speech(Signal::Tone { hz: 440.0 }, 230, Some(MARK), 5);
            let pieces = codec.pieces(&audio, 100);
            assert_eq!(pieces.len(), 3, "{codec:?}");
            assert_eq!(pieces.concat(), audio);
        }
        let broken = Bytes::from_static(b"\xff");
        assert_eq!(Codec::Opus.pieces(&broken, 100), [broken]);
    }

    #[test]
    fn a_tone_is_loud_and_silence_is_not() {
        let loudest = |signal| {
            let audio = Codec::Pcm16.speech(signal, 100, None, 1);
            audio.chunks_exact(2).map(|s| i16::from_le_bytes([s[0], s[1]]).unsigned_abs()).max()
        };
        assert_eq!(loudest(Signal::Silence), Some(0));
        assert!((9_000..10_000).contains(&loudest(Signal::Tone { hz: 440.0 }).unwrap()));
        assert!(loudest(Signal::Babble).unwrap() > 5_000);
    }
}
