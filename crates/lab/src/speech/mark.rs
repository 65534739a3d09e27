//! The mark that a sentence begins with, the digest of its audio, and what a node tells of both.

use std::fmt;

use serde_json::{Value, json};

/// What a mark begins with: nothing that speech or a tone begins with by chance.
const MAGIC: [u8; 8] = *b"\x7fLgMk\x80\x01\xfe";

/// Bytes of a mark. Even, so that 16-bit samples stay aligned.
pub const MARK_BYTES: usize = 16;

/// Where a mark is found: at the start, or behind the length and first byte of an Opus packet.
const PLACES: [usize; 2] = [0, 3];

/// Which sentence of which speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The speaker, as whoever runs the test counts them.
    pub speaker: u32,
    /// Its sentence, counted from 0 in the order of speaking.
    pub sentence: u32,
}

/// How much audio, and which: equal for the same bytes, however they were cut into pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    /// How many bytes.
    pub bytes: u64,
    hash: u64,
}

/// What a simulated node tells about the audio of a job, found in its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The mark it began with.
    pub mark: Option<Mark>,
    /// All of it.
    pub digest: Digest,
    /// When the job came from the node's socket, on [`crate::monotonic_us`].
    pub assigned_us: Option<u64>,
    /// When the result was handed to the node's socket, on the same clock.
    pub answered_us: Option<u64>,
}

impl Mark {
    /// The mark as it stands in audio.
    pub fn to_bytes(self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.speaker.to_le_bytes());
        bytes[12..].copy_from_slice(&self.sentence.to_le_bytes());
        bytes
    }

    /// The mark that this audio begins with.
    pub fn find(audio: &[u8]) -> Option<Self> {
        PLACES.into_iter().find_map(|at| {
            let (found, _) = audio.get(at..)?.split_first_chunk::<MARK_BYTES>()?;
            let word = |at: usize| {
                found[at..].first_chunk().map_or(0, |bytes: &[u8; 4]| u32::from_le_bytes(*bytes))
            };
            found.starts_with(&MAGIC).then(|| Self { speaker: word(8), sentence: word(12) })
        })
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let (speaker, sentence) = text.split_once('/')?;
        Some(Self { speaker: speaker.parse().ok()?, sentence: sentence.parse().ok()? })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.speaker, self.sentence)
    }
}

impl Default for Digest {
    fn default() -> Self {
        // FNV-1a: a few lines, and a piece can be added to what came before.
        Self { bytes: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Digest {
    /// The digest of this audio.
    pub fn of(audio: &[u8]) -> Self {
        let mut digest = Self::default();
        digest.add(audio);
        digest
    }

    /// More audio behind it.
    pub fn add(&mut self, audio: &[u8]) {
        self.bytes += audio.len() as u64;
        self.hash = audio
            .iter()
            .fold(self.hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }

    /// As [`Self::read`] reads it.
    pub(crate) fn to_value(self) -> Value {
        json!({ "bytes": self.bytes, "hash": format!("{:016x}", self.hash) })
    }

    /// The digest of a result's `extra.lab`.
    pub(crate) fn read(lab: &Value) -> Option<Self> {
        let hash = u64::from_str_radix(lab["hash"].as_str()?, 16).ok()?;
        Some(Self { bytes: lab["bytes"].as_u64()?, hash })
    }

    /// Tells equal amounts of audio apart.
    pub fn hash(self) -> u64 {
        self.hash
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes {:016x}", self.bytes, self.hash)
    }
}

impl Echo {
    /// What a simulated node put into this `translation_result` or `job_result`; `None` if it is
    /// not of a simulated node.
    pub fn read(result: &Value) -> Option<Self> {
        Self::read_lab(&result["extra"]["lab"])
    }

    /// As [`Self::read_lab`] reads it.
    pub(crate) fn to_value(self) -> Value {
        let mut lab = self.digest.to_value();
        lab["mark"] = self.mark.map(|mark| mark.to_string()).into();
        lab["assigned_us"] = self.assigned_us.into();
        lab["answered_us"] = self.answered_us.into();
        lab
    }

    /// The `extra.lab` alone.
    pub(crate) fn read_lab(lab: &Value) -> Option<Self> {
        Some(Self {
            mark: lab["mark"].as_str().and_then(Mark::read),
            digest: Digest::read(lab)?,
            assigned_us: lab["assigned_us"].as_u64(),
            answered_us: lab["answered_us"].as_u64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { speaker: 7, sentence: 4_000_000_000 };

    #[test]
    fn a_mark_is_found_in_samples_and_in_a_packet_and_nowhere_else() {
        let mut audio = MARK.to_bytes().to_vec();
        audio.extend_from_slice(b"speech");
        assert_eq!(Mark::find(&audio), Some(MARK));
        let packet = [&[0x20, 0, 0x08][..], &audio].concat();
        assert_eq!(Mark::find(&packet), Some(MARK));
        for other in [&b""[..], b"speech", &audio[..15], &audio[1..], &packet[1..]] {
            assert_eq!(Mark::find(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_digest_does_not_depend_on_the_pieces_and_sees_every_change() {
        let whole = Digest::of(b"one two three");
        let mut pieces = Digest::default();
        for piece in [&b"one"[..], b"", b" two", b" three"] {
            pieces.add(piece);
        }
        assert_eq!(pieces, whole);
        assert_ne!(Digest::of(b"one three two"), whole);
        assert_ne!(Digest::of(b"one two thre"), whole);
    }

    #[test]
    fn what_a_node_tells_is_read_back() {
        let digest = Digest::of(b"speech");
        let lab = json!({ "mark": MARK.to_string(), "bytes": 6,
                          "hash": format!("{:016x}", digest.hash()), "assigned_us": 1 });
        let result = json!({ "type": "translation_result", "extra": { "lab": lab } });
        let echo = Echo { mark: Some(MARK), digest, assigned_us: Some(1), answered_us: None };
        assert_eq!(Echo::read(&result), Some(echo));
        assert_eq!(Echo::read(&json!({ "extra": { "lab": { "hash": "x" } } })), None);
        assert_eq!(Echo::read(&json!({})), None);
    }
}
