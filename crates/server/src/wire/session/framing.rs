//! Pieces of speech into whole packets and samples, and how much speech that is.
//!
//! Clients cut their speech wherever it suits them. A job may begin and end at the end of any piece,
//! so only what is whole goes on, and the rest waits for the next piece.

mod opus;
mod wav;

use std::time::Duration;

use bytes::Bytes;
use lingua_engine::job::Refusal;
use lingua_protocol::fields::wrong;

use super::{Codec, SAMPLE_RATE};

/// Bytes of a sample of pcm16.
const SAMPLE_BYTES: usize = 2;

/// Puts pieces of speech together. It holds back less than one packet or sample.
#[derive(Debug)]
pub(crate) struct Framer {
    codec: Codec,
    /// The beginning of a packet or sample, never a whole one.
    held: Vec<u8>,
}

impl Framer {
    /// One that holds nothing back yet.
    pub(crate) fn new(codec: Codec) -> Self {
        Framer { codec, held: Vec::new() }
    }

    /// Takes a piece and gives what is whole by now, with its duration. A piece of whole packets is
    /// given back as it came, without a copy. One that is refused changes nothing.
    pub(crate) fn push(&mut self, audio: Bytes) -> Result<(Bytes, Duration), Refusal> {
        if self.held.is_empty() {
            let (end, duration) = self.whole(&audio)?;
            self.held.extend_from_slice(&audio[end..]);
            return Ok((audio.slice(..end), duration));
        }
        let before = self.held.len();
        self.held.extend_from_slice(&audio);
        match self.whole(&self.held) {
            Ok((0, _)) => Ok((Bytes::new(), Duration::ZERO)),
            Ok((end, duration)) => {
                let rest = self.held.split_off(end);
                Ok((std::mem::replace(&mut self.held, rest).into(), duration))
            }
            Err(refusal) => {
                self.held.truncate(before);
                Err(refusal)
            }
        }
    }

    /// The utterance is over: drops what never became whole, and says how many bytes that were.
    pub(crate) fn finish(&mut self) -> Option<usize> {
        let dropped = std::mem::take(&mut self.held).len();
        (dropped > 0).then_some(dropped)
    }

    /// How many of these bytes are whole packets or samples, and how much speech they are.
    fn whole(&self, audio: &[u8]) -> Result<(usize, Duration), Refusal> {
        match self.codec {
            Codec::Opus => opus::run(audio)
                .map_err(|(packet, why)| wrong(&format!("opus packet {packet}"), why)),
            Codec::Pcm16 => {
                let samples = audio.len() / SAMPLE_BYTES;
                Ok((samples * SAMPLE_BYTES, lasts(samples, u64::from(SAMPLE_RATE))))
            }
        }
    }
}

/// How much speech a whole utterance is. Of opus that is no run of packets (a file, say) it cannot be
/// told: zero, and only its bytes are bounded.
pub(crate) fn duration_of(
    format: &str,
    sample_rate: u32,
    audio: &Bytes,
) -> Result<Duration, Refusal> {
    match format {
        "pcm16" if !audio.len().is_multiple_of(SAMPLE_BYTES) => {
            Err(wrong("audio", "pcm16 has two bytes per sample, and this is an odd number"))
        }
        "pcm16" => Ok(lasts(audio.len() / SAMPLE_BYTES, u64::from(sample_rate))),
        "wav" => wav::duration(audio).map_err(|why| wrong("audio", format_args!("wav: {why}"))),
        _ if audio.starts_with(b"OggS") => Ok(Duration::ZERO),
        _ => match opus::run(audio) {
            Ok((end, duration)) if end == audio.len() => Ok(duration),
            _ => Ok(Duration::ZERO),
        },
    }
}

/// How long so many of these last, to the nanosecond. Less than 2^34 a second do not overflow.
fn lasts(count: usize, per_second: u64) -> Duration {
    let count = count as u64;
    let nanos = count % per_second * 1_000_000_000 / per_second;
    Duration::from_secs(count / per_second) + Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests;
