//! How much speech a WAV file holds, by its header.

use std::time::Duration;

/// Ways of writing samples whose size the header tells: integers, floats, and either of them with
/// more words about the channels.
const PLAIN_FORMATS: [u16; 3] = [1, 3, 0xFFFE];

/// Bytes of the part of the format chunk that every file has.
const FORMAT_BYTES: usize = 16;

/// Samples a second that make sense for speech.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=192_000;

/// How long it lasts. A length that the file does not have, as streaming writers leave it, stands
/// for all that there is.
pub(super) fn duration(file: &[u8]) -> Result<Duration, &'static str> {
    let cut_off = "the file ends within its header";
    let (head, mut rest) = file.split_at_checked(12).ok_or(cut_off)?;
    if !head.starts_with(b"RIFF") || !head.ends_with(b"WAVE") {
        return Err("begins with RIFF and WAVE");
    }
    let mut bytes_per_second = None;
    loop {
        let (head, body) = rest.split_at_checked(8).ok_or(cut_off)?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        match (&head[..4], bytes_per_second) {
            (b"fmt ", _) => {
                let format = body.get(..length.min(FORMAT_BYTES)).ok_or(cut_off)?;
                bytes_per_second = Some(speed(format)?);
            }
            (b"data", None) => return Err("the format comes before the data"),
            (b"data", Some(speed)) => {
                let length = if length == 0 { body.len() } else { length.min(body.len()) };
                return Ok(super::lasts(length, speed));
            }
            _ => {}
        }
        // Chunks begin at even places.
        let next = length.checked_next_multiple_of(2).ok_or(cut_off)?;
        rest = body.get(next..).ok_or(cut_off)?;
    }
}

/// Bytes a second by the format chunk.
fn speed(format: &[u8]) -> Result<u64, &'static str> {
    if format.len() < FORMAT_BYTES {
        return Err("the format chunk is too short");
    }
    let word = |at: usize| u16::from_le_bytes([format[at], format[at + 1]]);
    let rate = u32::from_le_bytes([format[4], format[5], format[6], format[7]]);
    let (channels, block, bits) = (word(2), word(12), word(14));
    if !PLAIN_FORMATS.contains(&word(0)) {
        return Err("its samples are integers or floats");
    }
    if !RATES.contains(&rate) {
        return Err("has 8000 to 192000 samples a second");
    }
    let bits_per_block = u32::from(channels) * u32::from(bits);
    if bits_per_block == 0 || bits_per_block.div_ceil(8) != u32::from(block) {
        return Err("channels, bits and block size do not fit together");
    }
    Ok(u64::from(rate) * u64::from(block))
}
