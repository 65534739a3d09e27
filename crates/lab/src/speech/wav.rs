//! Recordings: WAV files of 16-bit samples, brought to the rate and the one channel of the wire.

use std::collections::HashMap;
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

/// A WAV file of 16-bit little-endian samples at [`SAMPLE_RATE`], mono. An incomplete last sample is left out.
pub fn write(samples: &[u8]) -> Vec<u8> {
    const SAMPLE_BYTES: u16 = 2;
    const FORMAT_BYTES: u32 = 16;
    let samples = &samples[..samples.len() / 2 * 2];
    let data_bytes = u32::try_from(samples.len()).unwrap_or(u32::MAX);
    // What follows the length: "WAVE", the format chunk and the data chunk, each with its name and length.
    let all_bytes = data_bytes.saturating_add(4 + 8 + FORMAT_BYTES + 8);
    let mut file = Vec::with_capacity(samples.len() + 44);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&all_bytes.to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&FORMAT_BYTES.to_le_bytes());
    file.extend_from_slice(&PCM.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&SAMPLE_RATE.to_le_bytes());
    file.extend_from_slice(&(SAMPLE_RATE * u32::from(SAMPLE_BYTES)).to_le_bytes());
    file.extend_from_slice(&SAMPLE_BYTES.to_le_bytes());
    file.extend_from_slice(&(8 * SAMPLE_BYTES).to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&data_bytes.to_le_bytes());
    file.extend_from_slice(samples);
    file
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

    /// One channel at our rate.
    fn convert(self, data: &[u8]) -> Bytes {
        let mono: Vec<f32> = data
            .chunks_exact(2 * self.channels)
            .map(|frame| {
                let samples =
                    frame.chunks_exact(2).map(|s| f32::from(i16::from_le_bytes([s[0], s[1]])));
                samples.sum::<f32>() / self.channels as f32
            })
            .collect();
        let mut out = Vec::new();
        let mut put = |sample: f32| out.extend_from_slice(&(sample.round() as i16).to_le_bytes());
        match self.rate {
            SAMPLE_RATE => mono.into_iter().for_each(&mut put),
            rate => resample(&mono, rate, put),
        }
        out.into()
    }
}

/// Brings samples to our rate. What is too high for the lower of both rates is taken out, so that it
/// does not fold back: a recogniser hears that.
fn resample(samples: &[f32], rate: u32, mut put: impl FnMut(f32)) {
    let (rate, ours) = (u64::from(rate), u64::from(SAMPLE_RATE));
    // The places between two samples that are asked for come again and again.
    let mut kernels: HashMap<u64, Kernel> = HashMap::new();
    for number in 0..samples.len() as u64 * ours / rate {
        let (first, phase) = (number * rate / ours, number * rate % ours);
        let kernel = kernels.entry(phase).or_insert_with(|| Kernel::new(phase, rate, ours));
        put(kernel.at(samples, first as usize));
    }
}

/// What the samples around a place between two of them count.
struct Kernel {
    weights: Vec<f32>,
    /// Samples before the place.
    before: usize,
}

impl Kernel {
    /// Waves of sin(x)/x on either side, under a raised cosine.
    const WAVES: f64 = 16.0;

    fn new(phase: u64, rate: u64, ours: u64) -> Self {
        use std::f64::consts::PI;
        // Waves a sample; a little less than would just do, for the edge is not sharp.
        let cutoff = (ours as f64 / rate as f64).min(1.0) * 0.95;
        let before = (Self::WAVES / cutoff).ceil() as usize;
        let at = before as f64 + phase as f64 / ours as f64;
        let weight = |i: usize| {
            let x = (i as f64 - at) * cutoff;
            if x.abs() >= Self::WAVES {
                return 0.0;
            }
            let wave = if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) };
            (wave * (0.5 + 0.5 * (PI * x / Self::WAVES).cos())) as f32
        };
        Kernel { weights: (0..2 * before + 2).map(weight).collect(), before }
    }

    /// The sample at the place behind `first`. Beyond the ends there is nothing to count.
    fn at(&self, samples: &[f32], first: usize) -> f32 {
        let skipped = self.before.saturating_sub(first);
        let around = samples[(first + skipped - self.before)..].iter();
        let (mut sum, mut weights) = (0.0, 0.0);
        for (weight, sample) in self.weights[skipped..].iter().zip(around) {
            sum += weight * sample;
            weights += weight;
        }
        if weights == 0.0 { 0.0 } else { sum / weights }
    }
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
    fn a_written_file_is_read_as_the_same_samples() {
        let said: Vec<u8> = [0_i16, 1000, -1000, 7].iter().flat_map(|s| s.to_le_bytes()).collect();
        let file = write(&said);
        assert_eq!(read(&file).unwrap(), said);
        let announced = u32::from_le_bytes([file[4], file[5], file[6], file[7]]) as usize;
        assert_eq!(announced, file.len() - 8);
        assert_eq!(samples(&write(&said[..5])), [0, 1000], "an incomplete sample is left out");
    }

    #[test]
    fn channels_are_mixed_and_rates_brought_to_ours() {
        assert_eq!(samples(&wav(1, 2, 16_000, 16, &[100, 300, -5, 5])), [200, 0]);
        let second = vec![500; 44_100 * 2];
        let heard = samples(&wav(1, 2, 44_100, 16, &second));
        assert_eq!((heard.len(), heard[0], heard[15_999]), (16_000, 500, 500));
        assert_eq!(samples(&wav(1, 1, 44_100, 16, &[])), [0_i16; 0]);
    }

    /// So much of a tone of that many hertz.
    fn tone(rate: u32, hertz: f64) -> Vec<i16> {
        let turn = std::f64::consts::TAU * hertz / f64::from(rate);
        (0..rate / 2).map(|i| (10_000.0 * (f64::from(i) * turn).sin()) as i16).collect()
    }

    fn loudness(samples: &[i16]) -> f64 {
        let squares: f64 = samples.iter().map(|sample| f64::from(*sample).powi(2)).sum();
        (squares / samples.len() as f64).sqrt()
    }

    #[test]
    fn tones_that_fit_stay_and_those_that_do_not_are_taken_out() {
        for rate in [8_000, 12_000, 22_050, 44_100, 48_000] {
            let heard = samples(&wav(1, 1, rate, 16, &tone(rate, 1_000.0)));
            assert_eq!(heard.len(), 8_000, "{rate}");
            let wanted = tone(16_000, 1_000.0);
            let middle = 500..7_500;
            let error: Vec<i16> = middle.clone().map(|i| heard[i] - wanted[i]).collect();
            assert!(loudness(&error) < 30.0, "{rate}: {}", loudness(&error));
            // It would fold back to a tone of 4 or 5 kHz.
            if rate > 22_050 {
                let folded = samples(&wav(1, 1, rate, 16, &tone(rate, 11_500.0)));
                assert!(loudness(&folded[middle]) < 30.0, "{rate}");
            }
        }
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
