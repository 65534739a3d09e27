//! Packets that look like Opus from outside: the right first byte, any payload. Nobody decodes them.

use rand::RngExt;
use rand::rngs::SmallRng;

use super::mark::{MARK_BYTES, Mark};

/// How long one packet is.
pub(super) const PACKET_MS: u64 = 20;

/// First bytes of packets with one frame of 20 ms, mono: SILK wideband, hybrid fullband, CELT
/// fullband (RFC 6716, 3.1: configurations 9, 15 and 31).
const TOCS: [u8; 3] = [9 << 3, 15 << 3, 31 << 3];

/// Payloads as a voice codec makes them at about 24 kbit/s.
const PAYLOAD_BYTES: std::ops::Range<usize> = 40..80;

/// Writes `[u16 LE length][packet]` for so much speech; the first packet's payload begins with the
/// mark.
pub(super) fn run(packets: u64, mark: Option<Mark>, dice: &mut SmallRng, out: &mut Vec<u8>) {
    let toc = TOCS[dice.random_range(0..TOCS.len())];
    for number in 0..packets {
        let mark = mark.filter(|_| number == 0).map(Mark::to_bytes);
        let payload = dice.random_range(PAYLOAD_BYTES);
        let len = u16::try_from(1 + payload).expect("packets are short");
        out.extend_from_slice(&len.to_le_bytes());
        out.push(toc);
        let start = out.len();
        out.resize(start + payload, 0);
        let (head, rest) = out[start..].split_at_mut(mark.map_or(0, |_| MARK_BYTES));
        head.copy_from_slice(mark.as_ref().map_or(&[], |mark| mark.as_slice()));
        dice.fill(rest);
    }
}

/// Where the first `packets` packets of this run end; its whole length if it has no more.
pub(super) fn end_of(run: &[u8], packets: u64) -> usize {
    let mut at = 0;
    for _ in 0..packets {
        let Some(len) = run.get(at..).and_then(<[u8]>::first_chunk) else { break };
        at += 2 + usize::from(u16::from_le_bytes(*len));
    }
    at.min(run.len())
}

/// How many packets there are in this run; one that is cut off counts.
pub(super) fn packets(run: &[u8]) -> u64 {
    let (mut at, mut count) = (0, 0);
    while at < run.len() {
        at += end_of(&run[at..], 1).max(1);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// Duration in ms by the first byte, after the table of RFC 6716, 3.1.
    fn packet_ms(packet: &[u8]) -> f64 {
        let config = packet[0] >> 3;
        let frame = match config {
            0..12 => [10.0, 20.0, 40.0, 60.0][usize::from(config % 4)],
            12..16 => [10.0, 20.0][usize::from(config % 2)],
            _ => [2.5, 5.0, 10.0, 20.0][usize::from(config % 4)],
        };
        assert_eq!(packet[0] & 0b111, 0, "mono, one frame");
        frame
    }

    #[test]
    fn a_run_is_packets_of_twenty_milliseconds_to_its_last_byte() {
        for seed in 0..20 {
            let mark = Mark { speaker: 1, sentence: 2 };
            let mut out = Vec::new();
            run(50, Some(mark), &mut SmallRng::seed_from_u64(seed), &mut out);
            let (mut rest, mut count) = (&out[..], 0);
            while let Some((len, behind)) = rest.split_first_chunk() {
                let (packet, behind) = behind.split_at(usize::from(u16::from_le_bytes(*len)));
                assert_eq!(packet_ms(packet), 20.0);
                count += 1;
                rest = behind;
                assert_eq!(out.len() - rest.len(), end_of(&out, count));
            }
            assert_eq!((rest, count), (&[][..], 50));
            assert_eq!(end_of(&out, 51), out.len());
            assert_eq!(Mark::find(&out), Some(mark));
        }
    }
}
