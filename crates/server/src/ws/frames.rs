//! Where a client's stream of WebSocket frames stands, told from the headers of its frames (RFC 6455, section 5.2).
//!
//! The library gives out whole messages only. What a peer costs before a message is whole, frames without
//! end and messages without an end, is told here. What is wrong is the library's to refuse: this follows
//! what it is shown.

/// Of a header: two bytes, eight of a length, four of a mask.
const MAX_HEADER: usize = 14;

/// A frame of fewer bytes that continues a message counts as a message. Who cuts messages into larger ones
/// is bounded by the bytes that a message may have.
const SHORT: u64 = 1_024;

/// Of a control frame.
const MAX_CONTROL: u64 = 125;

/// Where the stream stands.
#[derive(Default, Debug)]
pub(super) struct Frames {
    header: [u8; MAX_HEADER],
    /// Bytes of the header that have arrived.
    header_len: usize,
    /// Bytes of the frame's payload that have not arrived.
    payload: u64,
    /// The message that has begun and is not whole.
    message: Option<Message>,
    /// The frame that is arriving is the last one of its message.
    is_last: bool,
    /// Short frames that continue a message, since they were last asked for.
    short: u32,
}

/// A message that has begun.
#[derive(Clone, Copy, Default, Debug)]
struct Message {
    /// What its frames so far hold, by their headers.
    bytes: u64,
    /// The largest of them.
    largest: u64,
    /// It came in more than one frame, or will.
    in_pieces: bool,
}

/// What a step came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Part of a header, or of a payload.
    Within,
    /// The header of a frame ends here; what its message is known to hold with it.
    Header(MessageSize),
    /// The last byte of a message.
    Whole,
    /// A control frame with more than it may have.
    Wrong,
}

/// What a message takes, as far as it is announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MessageSize {
    /// Bytes of the message.
    pub(super) message: u64,
    /// Bytes of the frame that begins.
    pub(super) frame: u64,
    /// Memory for it: a message in pieces is put together beside the piece that is arriving.
    pub(super) memory: u64,
}

impl Frames {
    /// Follows the stream to the next thing that happens in `bytes`; how many of them that took. There is
    /// at least one.
    pub(super) fn step(&mut self, bytes: &[u8]) -> (usize, Step) {
        if self.payload > 0 {
            let taken = usize::try_from(self.payload).unwrap_or(usize::MAX).min(bytes.len());
            self.payload -= taken as u64;
            return (taken, if self.payload == 0 { self.frame_ends() } else { Step::Within });
        }
        let taken = self.missing().min(bytes.len());
        self.header[self.header_len..self.header_len + taken].copy_from_slice(&bytes[..taken]);
        self.header_len += taken;
        if self.missing() > 0 {
            return (taken, Step::Within);
        }
        (taken, self.header_ends())
    }

    /// Bytes until this frame's header ends or, if it has, its payload; more may be told by the header.
    pub(super) fn until_end(&self) -> u64 {
        if self.payload > 0 { self.payload } else { self.missing() as u64 }
    }

    /// Something has begun that is not whole.
    pub(super) fn is_unfinished(&self) -> bool {
        self.header_len > 0 || self.payload > 0 || self.message.is_some()
    }

    /// Short frames that continued a message, since this was last asked.
    pub(super) fn take_short(&mut self) -> u32 {
        std::mem::take(&mut self.short)
    }

    /// The same, for one who only looks.
    pub(super) fn short(&self) -> u32 {
        self.short
    }

    /// Bytes of the header that have to arrive before more is known.
    fn missing(&self) -> usize {
        let whole = match self.header_len {
            0 | 1 => 2,
            _ => {
                let length = match self.header[1] & 0x7f {
                    126 => 2,
                    127 => 8,
                    _ => 0,
                };
                let mask = if self.header[1] & 0x80 == 0 { 0 } else { 4 };
                2 + length + mask
            }
        };
        whole - self.header_len
    }

    fn header_ends(&mut self) -> Step {
        let header = &self.header;
        let length = match header[1] & 0x7f {
            126 => u64::from(u16::from_be_bytes([header[2], header[3]])),
            127 => {
                let mut long = [0; 8];
                long.copy_from_slice(&header[2..10]);
                u64::from_be_bytes(long)
            }
            short => u64::from(short),
        };
        let (is_final, opcode) = (header[0] & 0x80 != 0, header[0] & 0x0f);
        self.header_len = 0;
        self.payload = length;
        let is_control = opcode & 0x8 != 0;
        self.is_last = is_final && !is_control;
        if is_control {
            return if length > MAX_CONTROL { Step::Wrong } else { Step::Within };
        }
        if opcode == 0 && length < SHORT {
            self.short = self.short.saturating_add(1);
        }
        let message = self.message.get_or_insert_default();
        message.in_pieces |= !is_final;
        message.bytes = message.bytes.saturating_add(length);
        message.largest = message.largest.max(length);
        let beside = if message.in_pieces { message.largest } else { 0 };
        let memory = message.bytes.saturating_add(beside);
        let held = MessageSize { message: message.bytes, frame: length, memory };
        if length == 0 && self.frame_ends() == Step::Whole {
            return Step::Whole;
        }
        Step::Header(held)
    }

    fn frame_ends(&mut self) -> Step {
        match self.is_last {
            true => {
                self.message = None;
                self.is_last = false;
                Step::Whole
            }
            false => Step::Within,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

    use super::*;

    /// A frame as a client sends it.
    fn frame(opcode: OpCode, is_final: bool, length: usize) -> Vec<u8> {
        let mut frame = Frame::message(vec![7; length], opcode, is_final);
        frame.header_mut().mask = Some([1, 2, 3, 4]);
        let mut bytes = Vec::new();
        frame.format(&mut bytes).unwrap();
        bytes
    }

    const TEXT: OpCode = OpCode::Data(Data::Text);
    const MORE: OpCode = OpCode::Data(Data::Continue);

    /// What happens when these bytes come in pieces of at most so many.
    fn follow(frames: &mut Frames, bytes: &[u8], most: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for mut piece in bytes.chunks(most) {
            while !piece.is_empty() {
                let (taken, step) = frames.step(piece);
                assert!(taken > 0);
                piece = &piece[taken..];
                if step != Step::Within {
                    steps.push(step);
                }
            }
        }
        steps
    }

    #[test]
    fn a_message_in_pieces_takes_what_it_has_and_its_largest_piece_again() {
        let mut frames = Frames::default();
        let held = |message, frame, memory| Step::Header(MessageSize { message, frame, memory });
        assert_eq!(
            follow(&mut frames, &frame(TEXT, true, 5_000), 9),
            [held(5_000, 5_000, 5_000), Step::Whole]
        );
        assert_eq!(
            follow(&mut frames, &frame(TEXT, false, 5_000), 9),
            [held(5_000, 5_000, 10_000)]
        );
        assert!(frames.is_unfinished());
        assert_eq!(
            follow(&mut frames, &frame(MORE, true, 2_000), 9),
            [held(7_000, 2_000, 12_000), Step::Whole]
        );
        assert!(!frames.is_unfinished());
    }

    #[test]
    fn only_short_frames_that_continue_a_message_are_counted() {
        let mut frames = Frames::default();
        let ping = vec![0x89, 0x80 | 3, 0, 0, 0, 0, 1, 2, 3];
        for (bytes, short) in [
            (frame(TEXT, true, 0), 0),
            (frame(TEXT, false, 0), 0),
            (frame(MORE, false, 0), 1),
            (ping, 0),
            (frame(MORE, false, SHORT as usize), 0),
            (frame(MORE, true, SHORT as usize - 1), 1),
        ] {
            follow(&mut frames, &bytes, usize::MAX);
            assert_eq!(frames.take_short(), short);
        }
        assert!(!frames.is_unfinished());
    }

    #[test]
    fn one_byte_of_a_header_is_unfinished() {
        let mut frames = Frames::default();
        follow(&mut frames, &[0x81], 1);
        assert!(frames.is_unfinished());
        assert_eq!(frames.until_end(), 1);
        follow(&mut frames, &[0x80 | 126], 1);
        assert_eq!(frames.until_end(), 6);
    }

    #[test]
    fn a_control_frame_that_is_too_large_is_wrong_before_it_arrives() {
        let mut frames = Frames::default();
        assert_eq!(follow(&mut frames, &[0x89, 0x80 | 126, 0, 126, 0, 0, 0, 0], 99), [Step::Wrong]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Wherever the stream is cut, the same things happen.
        #[test]
        fn it_does_not_matter_where_the_stream_is_cut(
            lengths in prop::collection::vec((0usize..70_000, any::<bool>()), 1..8),
            most in 1usize..5_000,
        ) {
            let mut bytes = Vec::new();
            let mut begun = false;
            for (length, is_final) in &lengths {
                let opcode = if begun { MORE } else { TEXT };
                bytes.extend(frame(opcode, *is_final, *length));
                begun = !is_final;
            }
            let (mut whole, mut cut) = (Frames::default(), Frames::default());
            let expected = follow(&mut whole, &bytes, usize::MAX);
            prop_assert_eq!(follow(&mut cut, &bytes, most), expected);
            prop_assert_eq!(cut.take_short(), whole.take_short());
            prop_assert_eq!(cut.is_unfinished(), begun);
        }

        /// Nothing that comes can break it.
        #[test]
        fn any_bytes_are_followed_to_their_end(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let mut frames = Frames::default();
            follow(&mut frames, &bytes, 100);
        }
    }
}
