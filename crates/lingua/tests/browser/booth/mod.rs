//! An interpreter's booth: a node that answers with words and audible speech, and a microphone that
//! somebody speaks into.
#![allow(dead_code, clippy::unwrap_used, reason = "a test may panic")]

use std::f64::consts::TAU;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use lingua_lab::{FakeNode, NodeOptions};
use serde_json::{Value, json};

/// Words on the way.
pub const PARTIAL: &str = "good mor";

/// How long its speech is.
pub const SPEECH_MS: u32 = 700;

/// What somebody says and what it means, in the order of a conversation.
pub const ENGLISH: [(&str, &str); 2] = [
    ("Good morning. Where is the railway station?", "早上好。请问火车站在哪里？"),
    ("Thank you. Is it open on Sundays?", "谢谢。星期天开门吗？"),
];
pub const CHINESE: [(&str, &str); 1] =
    [("沿这条路走，大约十分钟。", "Go along this street, about ten minutes.")];

/// What must stay text wherever it is shown.
pub const MARKUP: (&str, &str) = ("<i>something</i>", "<img src=x onerror=alert(1)>");

/// What a job was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub src: String,
    pub tgt: String,
    pub format: String,
    pub bytes: usize,
}

/// The node; it goes away with this.
pub struct Booth {
    jobs: Arc<Mutex<Vec<Job>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Booth {
    /// Comes, and comes back whenever the scheduler does.
    pub async fn open(options: NodeOptions) -> Self {
        let patience = Duration::from_secs(3_600);
        let options =
            NodeOptions { patience, ..options.heartbeat_every(Duration::from_millis(200)) };
        let jobs = Arc::<Mutex<Vec<Job>>>::default();
        let seen = Arc::clone(&jobs);
        let task = tokio::spawn(async move {
            loop {
                if let Ok(mut node) = FakeNode::scripted(options.clone()).await {
                    while let Ok(message) = node.next().await {
                        if message["type"] != "job_assign" {
                            continue;
                        }
                        let bytes = message.audio.as_ref().map_or(0, |audio| audio.len());
                        seen.lock().unwrap().push(Job {
                            src: message["src_lang"].as_str().unwrap().to_owned(),
                            tgt: message["tgt_lang"].as_str().unwrap().to_owned(),
                            format: message["audio_format"].as_str().unwrap().to_owned(),
                            bytes,
                        });
                        let _ = node.ack(&message).await;
                        let _ = node.partial(&message, PARTIAL).await;
                        // A moment in which they are seen.
                        tokio::time::sleep(Duration::from_millis(400)).await;
                        let _ = node.about(&message, "job_result", answer(&message)).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Booth { jobs, task }
    }

    pub fn jobs(&self) -> Vec<Job> {
        self.jobs.lock().unwrap().clone()
    }
}

impl Drop for Booth {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Words that name the utterance, and a tone in each of the forms that there are.
fn answer(job: &Value) -> Value {
    let (src, tgt) = (job["src_lang"].as_str().unwrap(), job["tgt_lang"].as_str().unwrap());
    let index = &job["utterance_index"];
    let n = usize::try_from(index.as_u64().unwrap()).unwrap() / 2;
    let (heard, means) = match (src, tgt) {
        ("en", "zh") => ENGLISH[n % ENGLISH.len()],
        ("zh", "en") => CHINESE[n % CHINESE.len()],
        // Nodes are strangers.
        _ => MARKUP,
    };
    let (speech, format) = match tgt {
        "zh" => (pcm16(&tone(SPEECH_MS, 16_000), 16_000).split_off(44), "pcm16"),
        _ => (pcm16(&tone(SPEECH_MS, 22_050), 22_050), "wav"),
    };
    json!({
        "success": true,
        "text_asr": heard,
        "text_translated": means,
        "tts_audio": BASE64.encode(speech),
        "tts_format": format,
        "utterance_index": index,
    })
}

fn tone(ms: u32, rate: u32) -> Vec<f64> {
    let at = |n: u32| f64::from(n) / f64::from(rate);
    (0..rate / 1_000 * ms).map(|n| 0.4 * (TAU * 440.0 * at(n)).sin()).collect()
}

/// Something like speech: syllables of a deep voice, in phrases with silence between them.
fn voice(rate: u32, speech_s: f64, silence_s: f64, phrases: u32) -> Vec<f64> {
    let length = (speech_s + silence_s) * f64::from(rate);
    let mut noise = 7_u32;
    let sample = |n: u32| {
        let t = f64::from(n) / f64::from(rate);
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let hiss = f64::from(noise >> 16) / 65_536.0 - 0.5;
        let phase = t % (speech_s + silence_s);
        if phase < silence_s {
            return hiss * 0.001;
        }
        let syllable = (TAU * 4.0 * phase).sin().max(0.0).sqrt();
        let pitch = 130.0 + 25.0 * (TAU * 0.9 * phase).sin();
        let voice: f64 =
            (1..=14).map(|k| (TAU * pitch * f64::from(k) * phase).sin() / f64::from(k)).sum();
        0.22 * syllable * voice + hiss * 0.01
    };
    (0..length as u32 * phrases).map(sample).collect()
}

/// A recording for `--use-file-for-fake-audio-capture`, which is played again and again.
pub fn microphone(path: &Path) {
    std::fs::write(path, pcm16(&voice(48_000, 1.6, 1.6, 3), 48_000)).unwrap();
}

/// As a WAV file.
fn pcm16(samples: &[f64], rate: u32) -> Vec<u8> {
    let bytes = u32::try_from(samples.len() * 2).unwrap();
    let mut wav = Vec::with_capacity(44 + samples.len() * 2);
    wav.extend_from_slice(b"RIFF");
    wav.extend_from_slice(&(36 + bytes).to_le_bytes());
    wav.extend_from_slice(b"WAVEfmt ");
    wav.extend_from_slice(&16_u32.to_le_bytes());
    wav.extend_from_slice(&[1, 0, 1, 0]);
    wav.extend_from_slice(&rate.to_le_bytes());
    wav.extend_from_slice(&(rate * 2).to_le_bytes());
    wav.extend_from_slice(&[2, 0, 16, 0]);
    wav.extend_from_slice(b"data");
    wav.extend_from_slice(&bytes.to_le_bytes());
    for sample in samples {
        let held = (sample.clamp(-1.0, 1.0) * 32_767.0) as i16;
        wav.extend_from_slice(&held.to_le_bytes());
    }
    wav
}
