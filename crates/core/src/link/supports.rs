//! What a node understands beyond what the oldest agents do.

/// What a node understands beyond the protocol that every agent speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Supports {
    /// It says that it takes a job.
    pub ack: bool,
    /// It stops a job when told to.
    pub cancel: bool,
    /// It takes audio as a binary frame.
    pub binary_audio: bool,
    /// It fetches audio by reference.
    pub audio_ref: bool,
    /// It sends the lease's name along.
    pub tokens: bool,
    /// It sends progress.
    pub progress: bool,
    /// It repeats a result until it is told that it arrived.
    pub result_ack: bool,
    /// It speaks by HTTP calls of its own, one for each word, and so takes longer to ack.
    pub calls: bool,
}

impl Supports {
    /// As bits, for other instances.
    pub fn bits(self) -> u8 {
        let all = [
            self.ack,
            self.cancel,
            self.binary_audio,
            self.audio_ref,
            self.tokens,
            self.progress,
            self.result_ack,
            self.calls,
        ];
        (0..).zip(all).map(|(at, set)| u8::from(set) << at).sum()
    }

    /// What such bits stand for.
    pub fn from_bits(bits: u8) -> Self {
        let set = |at: u8| bits & (1 << at) != 0;
        Supports {
            ack: set(0),
            cancel: set(1),
            binary_audio: set(2),
            audio_ref: set(3),
            tokens: set(4),
            progress: set(5),
            result_ack: set(6),
            calls: set(7),
        }
    }

    /// Whether it listed anything at all; an older agent lists nothing.
    pub fn any(self) -> bool {
        self != Supports::default()
    }
}
