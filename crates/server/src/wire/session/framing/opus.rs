//! A run of Opus packets, `[u16 LE length][packet]`, and their durations by RFC 6716, section 3.

use std::time::Duration;

/// Bytes before each packet that say its length.
const LENGTH_BYTES: usize = 2;

/// The longest that a packet may last.
const MAX_PACKET_MICROS: u64 = 120_000;

/// Which packet of a run is wrong, from 0, and why.
type Wrong = (usize, &'static str);

/// How many of the bytes are whole packets, and how much speech they are. A packet is looked at as
/// soon as its first bytes are there: what is left over is the beginning of a right one.
pub(super) fn run(audio: &[u8]) -> Result<(usize, Duration), Wrong> {
    let (mut end, mut micros) = (0, 0);
    for number in 0.. {
        let rest = &audio[end..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { break };
        let length = usize::from(u16::from_le_bytes(*length));
        let begun = &rest[..length.min(rest.len())];
        let lasts = packet_micros(begun, length).map_err(|why| (number, why))?;
        if begun.len() < length {
            break;
        }
        end += LENGTH_BYTES + length;
        micros += lasts.unwrap_or_default();
    }
    Ok((end, Duration::from_micros(micros)))
}

/// How long a packet of this length lasts, of which the beginning is there; `None` if that does not
/// tell yet.
fn packet_micros(begun: &[u8], length: usize) -> Result<Option<u64>, &'static str> {
    if length == 0 {
        return Err("has no bytes");
    }
    let Some(toc) = begun.first() else { return Ok(None) };
    let frames = match toc & 0b11 {
        0 => 1,
        1 | 2 => 2,
        _ if length == 1 => return Err("has no frame count byte"),
        _ => match begun.get(1) {
            Some(count) => u64::from(count & 0b11_1111),
            None => return Ok(None),
        },
    };
    if frames == 0 {
        return Err("has no frames");
    }
    let micros = frames * frame_micros(toc >> 3);
    if micros > MAX_PACKET_MICROS { Err("lasts more than 120 ms") } else { Ok(Some(micros)) }
}

/// How long a frame of this configuration lasts.
pub(super) fn frame_micros(config: u8) -> u64 {
    match config {
        // SILK
        0..12 => [10_000, 20_000, 40_000, 60_000][usize::from(config % 4)],
        // Hybrid
        12..16 => [10_000, 20_000][usize::from(config % 2)],
        // CELT
        _ => [2_500, 5_000, 10_000, 20_000][usize::from(config % 4)],
    }
}
