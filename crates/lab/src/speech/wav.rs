//! Recordings: WAV files of 16-bit samples, brought to the rate and the one channel of the wire.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;

use super::signal::SAMPLE_RATE;

/// Half an hour of CD audio; more is not read into memory.
const MAX_BYTES: u64 = 320 << 20;

/// The format tag of plain samples, and the one whose real tag stands further behind.
const PCM: u16 = 1;
const EXTENSIBLE: u16 = 0xfffe;

/// The samples of a file, as 16-bit little-endian at [`SAMPLE_RATE`], mono.
pub fn read_file(path: &Path) -> anyhow::Result<Bytes> {
    let read = || {
        let len = std::fs::metadata(path)?.len();
        ensure!(len <= MAX_BYTES, "{len} bytes are more than the {MAX_BYTES} that are read");
        read(&std::fs::read(path)?)
    };
    read().with_context(|| format!("cannot use {}", path.display()))
}

/// The same of a file's bytes.
pub fn read(file: &[u8]) -> anyhow::Result<Bytes> {
    let (riff, mut rest) = file.split_at_checked(12).context("not a WAV file: too short")?;
    if !(riff.starts_with(b"RIFF") && riff.ends_with(b"WAVE")) {
        bail!("not a WAV file: it does not begin with RIFF and WAVE");
    }
    let mut format = None;
    while let Some((head, body)) = rest.split_at_checked(8) {
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        // Writers that were cut off, or wrote to a pipe, leave a length that is too long.
        let (chunk, behind) = body.split_at(len.min(body.len()));
        match &head[..4] {
            b"fmt " => format = Some(Format::read(chunk)?),
            b"data" => {
                let format = format.context("the samples come before their format")?;
                return Ok(format.convert(chunk));
            }
            _ => {}
        }
        // Chunks begin at even places.
        rest = behind.get(len % 2..).unwrap_or_default();
    }
    bail!("the file has no samples")
}

#[derive(Debug, Clone, Copy)]
struct Format {
    channels: usize,
    rate: u32,
}

impl Format {
    fn read(chunk: &[u8]) -> anyhow::Result<Self> {
        let word = |at: usize| {
            let bytes = chunk.get(at..at + 2).context("the format is cut off")?;
            anyhow::Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
        };
        let tag = match word(0)? {
            EXTENSIBLE => word(24)?,
            tag => tag,
        };
        let (channels, bits) = (word(2)?, word(14)?);
        let rate = u32::from(word(4)?) | u32::from(word(6)?) << 16;
        ensure!(
            tag == PCM && bits == 16,
            "only plain 16-bit samples are read, not format {tag} with {bits} bits; \
             ffmpeg -i FILE -ac 1 -ar 16000 -c:a pcm_s16le OUT.wav makes them"
        );
        ensure!((1..=8).contains(&channels), "{channels} channels");
        ensure!((4_000..=384_000).contains(&rate), "{rate} samples a second");
        Ok(Self { channels: usize::from(channels), rate })
    }

    /// One channel at our rate. A lower rate takes the mean of what falls into a sample, so that
    /// little folds back; a higher one goes straight from sample to sample.
    fn convert(self, data: &[u8]) -> Bytes {
        let mono: Vec<f32> = data
            .chunks_exact(2 * self.channels)
            .map(|frame| {
                let samples =
                    frame.chunks_exact(2).map(|s| f32::from(i16::from_le_bytes([s[0], s[1]])));
                samples.sum::<f32>() / self.channels as f32
            })
            .collect();
        let step = f64::from(self.rate) / f64::from(SAMPLE_RATE);
        let count = (mono.len() as f64 / step).floor() as usize;
        let mut out = Vec::with_capacity(count * 2);
        for number in 0..count {
            let from = number as f64 * step;
            let sample = if step > 1.0 { mean(&mono, from, step) } else { between(&mono, from) };
            out.extend_from_slice(&(sample.round() as i16).to_le_bytes());
        }
        out.into()
    }
}

fn mean(samples: &[f32], from: f64, step: f64) -> f32 {
    let first = from as usize;
    let last = ((from + step).ceil() as usize).clamp(first + 1, samples.len());
    let part = &samples[first..last];
    part.iter().sum::<f32>() / part.len() as f32
}

fn between(samples: &[f32], at: f64) -> f32 {
    let first = at as usize;
    let next = samples.get(first + 1).unwrap_or(&samples[first]);
    samples[first] + (next - samples[first]) * (at - first as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wav(tag: u16, channels: u16, rate: u32, bits: u16, samples: &[i16]) -> Vec<u8> {
        let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let mut format = Vec::new();
        format.extend_from_slice(&tag.to_le_bytes());
        format.extend_from_slice(&channels.to_le_bytes());
        format.extend_from_slice(&rate.to_le_bytes());
        format.extend_from_slice(&(rate * u32::from(channels) * 2).to_le_bytes());
        format.extend_from_slice(&(channels * 2).to_le_bytes());
        format.extend_from_slice(&bits.to_le_bytes());
        let mut file = b"RIFF\0\0\0\0WAVE".to_vec();
        for (name, chunk) in [(b"fmt ", &format), (b"LIST", &vec![1, 2, 3]), (b"data", &data)] {
            file.extend_from_slice(name);
            file.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
            file.extend_from_slice(chunk);
            file.resize(file.len() + chunk.len() % 2, 0);
        }
        file
    }

    fn samples(file: &[u8]) -> Vec<i16> {
        let audio = read(file).unwrap();
        audio.chunks_exact(2).map(|s| i16::from_le_bytes([s[0], s[1]])).collect()
    }

    #[test]
    fn a_file_at_our_rate_comes_out_as_it_is() {
        let said = [0, 1000, -1000, i16::MAX, i16::MIN, 7];
        assert_eq!(samples(&wav(1, 1, 16_000, 16, &said)), said);
    }

    #[test]
    fn channels_are_mixed_and_rates_brought_to_ours() {
        assert_eq!(samples(&wav(1, 2, 16_000, 16, &[100, 300, -5, 5])), [200, 0]);
        assert_eq!(samples(&wav(1, 1, 32_000, 16, &[10, 30, 50, 70])), [20, 60]);
        assert_eq!(samples(&wav(1, 1, 8_000, 16, &[0, 100, 200])), [0, 50, 100, 150, 200, 200]);
        let second = vec![500; 44_100 * 2];
        let heard = samples(&wav(1, 2, 44_100, 16, &second));
        assert_eq!((heard.len(), heard[0], heard[15_999]), (16_000, 500, 500));
        assert_eq!(samples(&wav(1, 1, 44_100, 16, &[])), [0_i16; 0]);
    }

    #[test]
    fn a_file_that_cannot_be_used_says_why() {
        let good = wav(1, 1, 16_000, 16, &[1, 2, 3]);
        for (file, says) in [
            (Vec::new(), "too short"),
            (b"ID3 something else".to_vec(), "RIFF"),
            (good[..40].to_vec(), "no samples"),
            (wav(3, 1, 16_000, 32, &[]), "format 3 with 32 bits"),
            (wav(1, 1, 16_000, 8, &[]), "8 bits"),
            (wav(1, 0, 16_000, 16, &[]), "0 channels"),
            (wav(1, 1, 1, 16, &[]), "1 samples a second"),
        ] {
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
        let error = read_file(Path::new("/nowhere.wav")).unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere.wav"), "{error:#}");
    }

    #[test]
    fn a_file_that_breaks_off_gives_what_is_there() {
        let whole = wav(1, 1, 16_000, 16, &[1, 2, 3]);
        assert_eq!(samples(&whole[..whole.len() - 2]), [1, 2]);
        for end in 0..whole.len() {
            // Whatever it says, it does not panic.
            let _ = read(&whole[..end]);
        }
    }
}
