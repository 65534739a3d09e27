//! What is said through the real engines, and what is told of it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lingua_lab::speech::{Codec, wav};
use lingua_lab::{Speaker, SpeakerOptions};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Instant, sleep_until};

use crate::cli::Failure;
use crate::demo::screen::Screen;

/// What the speech node hears.
pub(super) const FROM: &str = "en";

/// What it says.
pub(super) const TO: &str = "es";

const SENTENCES: [&str; 4] = [
    "I would like a cup of coffee with milk and sugar.",
    "My brother works in a small library near the river.",
    "Where is the nearest hospital?",
    "Thank you very much for your help.",
];

/// Speech goes out in pieces of so many milliseconds, as a client's does.
const PIECE_MS: u64 = 100;

/// Bytes of a millisecond of pcm16 at 16 kHz.
const BYTES_PER_MS: usize = 32;

/// For one answer, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A sentence and a recording of it.
pub(super) struct Sentence {
    text: &'static str,
    audio: Bytes,
}

/// Has espeak-ng read the sentences into files.
pub(super) async fn recorded(files: &Path) -> anyhow::Result<Vec<Sentence>> {
    let mut sentences = Vec::new();
    for (n, text) in SENTENCES.into_iter().enumerate() {
        let file = files.join(format!("sentence-{}.wav", n + 1));
        let said = Command::new("espeak-ng")
            .args(["-v", "en-us", "-s", "140", "-w"])
            .arg(&file)
            .arg(text)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .context("espeak-ng does not start")?;
        let complaint = String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success(), "espeak-ng ended with {}: {complaint}", said.status);
        sentences.push(Sentence { text, audio: wav::read_file(&file)? });
    }
    Ok(sentences)
}

/// The directory of the translations' WAV files: `lingua/demo` in the user's cache directory. Every run
/// overwrites the files of the one before.
pub(super) fn recordings() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = named("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(named("HOME")?).join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    cache.join("lingua").join("demo")
}

pub(super) struct Talk {
    speaker: SpeakerOptions,
    sentences: Vec<Sentence>,
    recordings: PathBuf,
}

impl Talk {
    pub fn new(speaker: SpeakerOptions, sentences: Vec<Sentence>, recordings: PathBuf) -> Self {
        let speaker = speaker
            .languages(FROM, TO)
            .codec(Codec::Pcm16)
            .patience(PATIENCE)
            .init_with(json!({"enable_streaming_asr": true}));
        Talk { speaker, sentences, recordings }
    }

    /// Speaks one sentence after the other in real time, prints the result of each, and saves its speech.
    /// Returns the directory of the files, if there are any.
    pub async fn hold(&self, screen: &Screen) -> Result<Option<&Path>, Failure> {
        let mut speaker = Speaker::connect(self.speaker.clone()).await?;
        let mut recordings = None;
        for (n, sentence) in self.sentences.iter().enumerate() {
            screen.say("");
            screen.say(&format!("{}  said        {}", n + 1, sentence.text));
            let told = say(&mut speaker, sentence, screen).await?;
            screen.show("");
            let saved = told.save(&self.recordings.join(format!("translation-{}.wav", n + 1)))?;
            recordings = recordings.or(saved.is_some().then_some(&*self.recordings));
            for line in told.lines(saved.as_deref()) {
                screen.say(&format!("   {line}"));
            }
        }
        speaker.close_session("the demonstration has said it all").await?;
        speaker.next_of("session_close_ack").await?;
        Ok(recordings)
    }
}

async fn say(
    speaker: &mut Speaker,
    sentence: &Sentence,
    screen: &Screen,
) -> anyhow::Result<Answered> {
    let pieces = Codec::Pcm16.pieces(&sentence.audio, PIECE_MS);
    let all = pieces.len() as u64 * PIECE_MS;
    let (mut due, mut said_ms) = (Instant::now(), 0);
    for piece in pieces {
        said_ms += PIECE_MS;
        screen.show(&format!("   … speaking, {said_ms} of {all} ms"));
        speaker.say(piece).await?;
        due += Duration::from_millis(PIECE_MS);
        sleep_until(due).await;
    }
    speaker.end().await?;
    screen.show("   …");
    let said_at = Instant::now();
    loop {
        let heard = speaker.next().await?;
        match heard.kind() {
            "asr_partial" => {
                screen.show(&format!("   … {}", heard["text"].as_str().unwrap_or_default()));
            }
            "translation_result" => {
                let took = heard.at.saturating_duration_since(said_at);
                return Ok(Answered { result: heard.message, took });
            }
            "missing_result" => bail!("no translation came back: {}", heard["reason"]),
            "error" => bail!("the scheduler refuses: {}: {}", heard["code"], heard["message"]),
            _ => {}
        }
    }
}

/// What came of a sentence.
struct Answered {
    result: Value,
    /// From the end of speech.
    took: Duration,
}

impl Answered {
    /// Writes the spoken translation to this WAV file. `None` if there is none, or none that is pcm16.
    fn save(&self, file: &Path) -> anyhow::Result<Option<PathBuf>> {
        let text = |name: &str| self.result[name].as_str().unwrap_or_default();
        if text("tts_format") != "pcm16" || text("tts_audio").is_empty() {
            return Ok(None);
        }
        let samples = STANDARD.decode(text("tts_audio")).context("the speech is not base64")?;
        let write = || {
            file.parent().map(std::fs::create_dir_all).transpose()?;
            std::fs::write(file, wav::write(&samples))
        };
        write().with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Some(file.to_owned()))
    }

    fn lines(&self, saved: Option<&Path>) -> Vec<String> {
        let text = |name: &str| self.result[name].as_str().unwrap_or_default();
        let speech_ms = text("tts_audio").len() / 4 * 3 / BYTES_PER_MS;
        let saved = saved.map(|file| format!(", saved as {}", file.display())).unwrap_or_default();
        let mut lines = vec![
            format!("recognised  {}", text("text_asr")),
            format!("translated  {}", text("text_translated")),
            format!(
                "spoken      {:.1} s of speech, {}{saved}",
                speech_ms as f64 / 1e3,
                text("tts_format")
            ),
        ];
        lines.push(format!(
            "took        {} ms from the end of speech to the result{}",
            self.took.as_millis(),
            stages(&self.result["service_timings"])
        ));
        lines
    }
}

/// What each stage took, if the node says so.
fn stages(timings: &Value) -> String {
    let names = [
        ("decode_ms", "decoding"),
        ("asr_ms", "recognition"),
        ("semantic_ms", "repair"),
        ("nmt_ms", "translation"),
        ("tts_ms", "speech"),
        ("encode_ms", "encoding"),
    ];
    let stage =
        |(field, name): (&str, &str)| timings[field].as_f64().map(|ms| format!("{name} {ms:.0}"));
    let stages: Vec<String> = names.into_iter().filter_map(stage).collect();
    match stages.is_empty() {
        true => String::new(),
        false => format!(" ({})", stages.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_a_sentence_is_told_with_its_times() {
        let result = json!({"text_asr": "hello", "text_translated": "hola", "tts_format": "pcm16",
            "tts_audio": "A".repeat(64_000 * 4 / 3),
            "service_timings": {"asr_ms": 120.4, "nmt_ms": 2, "total_ms": 130}});
        let told = Answered { result, took: Duration::from_millis(150) };
        let lines = told.lines(None);
        assert_eq!(lines[0], "recognised  hello");
        assert_eq!(lines[1], "translated  hola");
        assert!(lines[2].starts_with("spoken      2.0 s of speech"), "{lines:?}");
        assert!(
            lines[3].contains("150 ms") && lines[3].ends_with("(recognition 120, translation 2)")
        );
        assert_eq!(stages(&Value::Null), "");
    }

    #[test]
    fn the_spoken_translation_is_saved_and_its_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new").join("translation-1.wav");
        let samples: Vec<u8> = (0..64).collect();
        let told = |format: &str| Answered {
            result: json!({"tts_format": format, "tts_audio": STANDARD.encode(&samples)}),
            took: Duration::ZERO,
        };
        let saved = told("pcm16").save(&file).unwrap();
        assert_eq!(saved.as_deref(), Some(&*file));
        assert_eq!(wav::read_file(&file).unwrap(), samples);
        let line = &told("pcm16").lines(saved.as_deref())[2];
        assert!(line.ends_with(&format!(", saved as {}", file.display())), "{line}");
        assert_eq!(told("opus").save(&folder.path().join("other.wav")).unwrap(), None);
        assert!(!folder.path().join("other.wav").exists());
    }
}
