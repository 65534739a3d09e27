//! The protocol features of an agent, beyond those of the oldest agents.

/// Protocol features that an agent has beyond those that every agent has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Supports {
    /// It acks a job.
    pub ack: bool,
    /// It stops a job when told to.
    pub cancel: bool,
    /// It takes audio as a binary frame.
    pub binary_audio: bool,
    /// It takes a text in place of speech.
    pub text: bool,
    /// It names the lease token in its messages.
    pub tokens: bool,
    /// It listed a feature that this version does not know, so it is none of the oldest agents.
    pub other: bool,
    /// It repeats a result until that is acknowledged.
    pub result_ack: bool,
    /// It sends each message by an HTTP call of its own, and so takes longer to ack.
    pub calls: bool,
}

impl Supports {
    /// As bits, for other instances.
    pub fn bits(self) -> u8 {
        let all = [
            self.ack,
            self.cancel,
            self.binary_audio,
            self.text,
            self.tokens,
            self.other,
            self.result_ack,
            self.calls,
        ];
        (0..).zip(all).map(|(at, set)| u8::from(set) << at).sum()
    }

    /// The features of these bits.
    pub fn from_bits(bits: u8) -> Self {
        let set = |at: u8| bits & (1 << at) != 0;
        Supports {
            ack: set(0),
            cancel: set(1),
            binary_audio: set(2),
            text: set(3),
            tokens: set(4),
            other: set(5),
            result_ack: set(6),
            calls: set(7),
        }
    }

    /// Whether it listed any feature; an older agent lists none.
    pub fn any(self) -> bool {
        self != Supports::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::TAKES_TEXT;

    #[test]
    fn bits_stand_for_features() {
        let text = Supports { text: true, ..Supports::default() };
        assert_eq!(text.bits(), TAKES_TEXT);
        for bits in 0..=u8::MAX {
            assert_eq!(Supports::from_bits(bits).bits(), bits);
        }
        assert!(Supports { other: true, ..Supports::default() }.any());
    }
}
