//! The commands that speak.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use lingua_lab::speech::Codec;

use super::{Authority, LoadPart, duration, ms, seconds};

const SPEAK_EXAMPLES: &str = "\
Examples:
  lingua speak                                   three seconds of test signal, English to Chinese
  lingua speak --file a.wav --src en --tgt zh    a recording, in real time
  lingua speak --signal 2s --sentences 10 --pause 500ms --speed 4
  lingua speak --two-way en,zh --file talk.wav --json

Exit code 0 if every sentence has a result, else 1. Ctrl-C ends the sentence, waits for open results and
closes the session; a second Ctrl-C exits at once.";

#[derive(Debug, Args)]
#[command(after_help = SPEAK_EXAMPLES)]
pub struct Speak {
    /// URL of the scheduler
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Source language
    #[arg(
        long = "src",
        alias = "from",
        value_name = "LANG",
        default_value = "en",
        conflicts_with = "two_way"
    )]
    pub(crate) from: String,

    /// Target language
    #[arg(
        long = "tgt",
        alias = "to",
        value_name = "LANG",
        default_value = "zh",
        conflicts_with = "two_way"
    )]
    pub(crate) to: String,

    /// Two-way session between two languages; the node detects which one is spoken
    #[arg(long, value_name = "LANG_A,LANG_B", value_parser = two_languages)]
    pub(crate) two_way: Option<(String, String)>,

    /// Recording to send: WAV with 16-bit samples, any sample rate, up to eight channels
    #[arg(long, value_name = "FILE", conflicts_with = "signal")]
    pub(crate) file: Option<PathBuf>,

    /// Length of the test signal of each sentence
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = signal)]
    pub(crate) signal: f64,

    /// Audio codec: pcm16, or opus for the test signal only [default: pcm16 for a recording, opus for the
    /// test signal]
    #[arg(long, value_parser = codec)]
    pub(crate) codec: Option<Codec>,

    /// Speed of sending, as a multiple of real time
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub(crate) speed: f64,

    /// How often the recording or signal is sent
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) sentences: u32,

    /// Pause after each sentence
    #[arg(long = "pause", alias = "pause-ms", default_value = "1s", value_name = "TIME", value_parser = ms(0..=60_000))]
    pub(crate) pause_ms: u64,

    /// Print events as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

const LOAD_EXAMPLES: &str = "\
Examples:
  lingua load                                     1000 speakers in real time, 32 nodes, one minute
  lingua load --sessions 200 --closed-loop --svg latency.svg
  lingua load --store redis --json report.json    the same over a private redis-server
  lingua load --url http://127.0.0.1:5010 --nodes 0
  lingua load restarts                            sentences lost by restarts; see its --help

Exit code 1 if a sentence is lost, duplicated, reordered, split or changed, or if a speaker could not
speak. Runs against schedulers on this machine only.";

#[derive(Debug, Args)]
#[command(after_help = LOAD_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Load {
    #[command(subcommand)]
    pub(crate) part: Option<LoadPart>,

    /// Number of speakers, each with its own connection
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) sessions: u32,

    /// Number of simulated nodes; 0 uses the nodes of a running scheduler
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(0..=2_000))]
    pub(crate) nodes: u32,

    /// Slots per node
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,

    /// Median time that a node takes for one job
    #[arg(long = "node-p50", alias = "node-p50-ms", default_value = "300ms", value_name = "TIME", value_parser = ms(0..=60_000))]
    pub(crate) node_p50_ms: u64,

    /// 99th percentile of that time
    #[arg(long = "node-p99", alias = "node-p99-ms", default_value = "900ms", value_name = "TIME", value_parser = ms(0..=60_000))]
    pub(crate) node_p99_ms: u64,

    /// Bytes of speech per result
    #[arg(long, default_value_t = 8_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) tts_bytes: u32,

    /// How long all speakers speak, after all have started
    #[arg(long = "duration", alias = "duration-s", default_value = "60s", value_name = "TIME", value_parser = seconds(1..=3_600))]
    pub(crate) duration_s: u64,

    /// Time over which the speakers start [default: 200 start per second]
    #[arg(long = "ramp", alias = "ramp-s", value_name = "TIME", value_parser = seconds(0..=600))]
    pub(crate) ramp_s: Option<u64>,

    /// URL of a running scheduler on this machine. Without it a scheduler is started as a process, and its
    /// CPU time and memory are measured
    #[arg(long, env = "LINGUA_URL", value_name = "URL")]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Store of the started scheduler: memory, redis for a private redis-server, or a URL
    #[arg(long, default_value = "memory", conflicts_with = "url", value_name = "STORE")]
    pub(crate) store: String,

    /// Send each sentence at once and the next when it has ended, instead of in real time
    #[arg(long)]
    pub(crate) closed_loop: bool,

    /// Length of sentences, shortest to longest
    #[arg(long = "utterance", alias = "utterance-ms", default_value = "2s..6s", value_name = "TIME..TIME", value_parser = sentence_range)]
    pub(crate) utterance_ms: RangeInclusive<u64>,

    /// Length of pauses, shortest to longest
    #[arg(long = "pause", alias = "pause-ms", default_value = "500ms..3s", value_name = "TIME..TIME", value_parser = pause_range)]
    pub(crate) pause_ms: RangeInclusive<u64>,

    /// Audio codec: opus or pcm16
    #[arg(long, default_value = "opus", value_parser = codec)]
    pub(crate) codec: Codec,

    /// Number of speakers per loopback address
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) per_address: u32,

    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write a chart of latency over time to this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Seed of the random sentences
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

fn two_languages(text: &str) -> Result<(String, String), String> {
    match text.split_once(',') {
        Some((one, other)) if !one.is_empty() && !other.is_empty() && one != other => {
            Ok((one.to_owned(), other.to_owned()))
        }
        _ => Err("write two languages as en,zh".into()),
    }
}

fn codec(text: &str) -> Result<Codec, String> {
    match text {
        "pcm16" => Ok(Codec::Pcm16),
        "opus" => Ok(Codec::Opus),
        _ => Err("the codec is pcm16 or opus".into()),
    }
}

/// Seconds of test signal; a bare number is seconds too.
fn signal(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.or_else(|| Some(duration(text).ok()?.as_secs_f64()));
    let seconds = seconds.filter(|seconds| (0.02..=600.0).contains(seconds));
    seconds.ok_or_else(|| "a signal is from 20ms to 10m long".into())
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.1..=100.0).contains(&speed) => Ok(speed),
        _ => Err("a speed is from 0.1 to 100".into()),
    }
}

/// The scheduler keeps an utterance of at most 30 s in one piece.
fn sentence_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    range(text, 20..=29_000)
}

fn pause_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    range(text, 0..=60_000)
}

fn range(text: &str, within: RangeInclusive<u64>) -> Result<RangeInclusive<u64>, String> {
    let wrong = || {
        let (least, most) = (within.start(), within.end());
        format!("a range is written like 500ms..3s, within {least}ms..{most}ms")
    };
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let read = |part: &str| ms(within.clone())(part).map_err(|_| wrong());
    let (from, to) = (read(from)?, read(to.trim_start_matches('='))?);
    if from > to { Err(wrong()) } else { Ok(from..=to) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_languages_are_read_or_refused() {
        assert_eq!(pause_range("500..3000"), Ok(500..=3000));
        assert_eq!(pause_range("500ms..3s"), Ok(500..=3000));
        assert_eq!((signal("2"), signal("1500ms")), (Ok(2.0), Ok(1.5)));
        assert!(signal("0").is_err() && signal("1d").is_err());
        assert_eq!(pause_range("7"), Ok(7..=7));
        for wrong in ["", "x..y", "3..2", "1..99999999", "-1..2"] {
            assert!(pause_range(wrong).is_err(), "{wrong}");
        }
        assert!(sentence_range("0..100").is_err());
        assert_eq!(two_languages("en,zh"), Ok(("en".into(), "zh".into())));
        assert!(two_languages("en").is_err() && two_languages("en,en").is_err());
    }
}
