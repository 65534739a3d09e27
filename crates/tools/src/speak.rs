//! `lingua speak`: a speaker from the shell.

use lingua_server::say;
use std::time::Duration;

use lingua_lab::speaker::{Ended, Happening, Pace, Script, Sentence, Sentences};
use lingua_lab::speech::{Codec, Mark, Signal, wav};
use lingua_lab::{AutoSpeaker, ConnectError, SpeakerOptions, monotonic_us};
use serde_json::{Value, json};

use crate::cli::{Failure, Speak, runtime, socket_url};
use lingua_server::client::token_of_environment;

use crate::advice::advice_for;

/// Says what it has to say and prints what comes back.
pub(crate) fn run(options: &Speak) -> Result<(), Failure> {
    let speech = speech(options)?;
    let runtime = runtime()?;
    runtime.block_on(speak(options, speech))
}

/// The address of the session socket.
pub(crate) fn session_url(url: &str) -> Result<String, Failure> {
    socket_url(url, "/ws/session")
}

/// What is said, and in which codec.
fn speech(options: &Speak) -> Result<(Codec, Vec<Sentence>), Failure> {
    let pause = Duration::from_millis(options.pause_ms);
    let codec = options.codec.unwrap_or(match options.file {
        Some(_) => Codec::Pcm16,
        None => Codec::Opus,
    });
    let recording = match &options.file {
        Some(_) if codec == Codec::Opus => {
            return Err(Failure::usage(
                "a recording is spoken as pcm16; opus is for --signal only",
            ));
        }
        Some(file) => Some(wav::read_file(file)?),
        None => None,
    };
    if recording.as_ref().is_some_and(|audio| audio.is_empty()) {
        return Err(Failure::failed("the recording is empty"));
    }
    let ms = (options.signal * 1_000.0) as u64;
    let speaker = std::process::id();
    let sentence = |sentence| {
        let mark = Mark { speaker, sentence };
        let signal = || codec.speech(Signal::Babble, ms, Some(mark), u64::from(sentence));
        Sentence { audio: recording.clone().unwrap_or_else(signal), pause }
    };
    Ok((codec, (0..options.sentences).map(sentence).collect()))
}

async fn speak(options: &Speak, (codec, sentences): (Codec, Vec<Sentence>)) -> Result<(), Failure> {
    let speaker = SpeakerOptions {
        src_lang: options.from.clone(),
        tgt_lang: options.to.clone(),
        two_way: options.two_way.clone(),
        codec,
        tls: options.authority.of_socket(&options.url)?,
        init_overrides: json!({"enable_streaming_asr": true}),
        ..SpeakerOptions::new(session_url(&options.url)?)
    };
    let speaker = match token_of_environment()? {
        Some(token) => speaker.bearer(&token),
        None => speaker,
    };
    let script = Script {
        sentences: Sentences::Given(sentences),
        pace: Pace::Times(options.speed),
        ..Script::default()
    };
    let mut printer = Printer::new(options);
    let speaker = AutoSpeaker::watched(speaker, script, move |at_us, happening| {
        printer.print(at_us, &happening);
    });
    let speaker = speaker.await.map_err(|error| not_open(&options.url, &error))?;
    let ended = tokio::select! {
        ended = speaker.ended() => ended,
        _ = tokio::signal::ctrl_c() => {
            speaker.stop();
            tokio::select! {
                ended = speaker.ended() => ended,
                _ = tokio::signal::ctrl_c() => Ended::GivenUp("interrupted".to_owned()),
            }
        }
    };
    let report = speaker.report();
    if options.json {
        say(&json!({ "event": "report", "said": report.said, "results": report.results,
                     "missing": report.missing, "violations": report.violations })
        .to_string());
    } else {
        say(&report.to_string());
    }
    match ended {
        Ended::GivenUp(why) => Err(Failure::failed(format!("the speaker stopped: {why}"))),
        Ended::Finished if !report.is_clean() => {
            Err(Failure::failed("results were lost, duplicated or out of order"))
        }
        Ended::Finished => match report.missing() {
            0 => Ok(()),
            count => Err(Failure::failed(format!("{count} without a result"))),
        },
    }
}

fn not_open(url: &str, error: &anyhow::Error) -> Failure {
    match error.downcast_ref::<ConnectError>() {
        Some(refused) => {
            Failure::failed(format!("no session with {url}: {refused}{}", advice_for(error)))
        }
        None => Failure::failed(format!("the scheduler at {url} does not answer: {error:#}")),
    }
}

/// Prints what happens, each line with the time since the beginning.
struct Printer {
    began_us: u64,
    json: bool,
    pair: String,
    /// Connections before this one.
    connections: u32,
    sentence: u32,
    /// How long after its last word the ending came that is told next.
    took_us: Option<u64>,
}

impl Printer {
    fn new(options: &Speak) -> Self {
        let pair = match &options.two_way {
            Some((one, other)) => format!("{one} <-> {other}"),
            None => format!("{} -> {}", options.from, options.to),
        };
        let json = options.json;
        let began_us = monotonic_us();
        Printer { began_us, json, pair, connections: 0, sentence: 0, took_us: None }
    }

    fn print(&mut self, at_us: u64, happening: &Happening<'_>) {
        let at_us = at_us.saturating_sub(self.began_us);
        if self.json {
            if let Some(mut line) = in_json(happening) {
                line["at_ms"] = json!(at_us as f64 / 1_000.0);
                say(&line.to_string());
            }
        } else if let Some(line) = self.in_words(happening) {
            say(&format!("{:>8.3} s  {line}", at_us as f64 / 1e6));
        }
    }

    fn in_words(&mut self, happening: &Happening<'_>) -> Option<String> {
        Some(match happening {
            Happening::Opened(ack) => {
                self.connections += 1;
                let codec = ack.negotiated_codec.as_deref().unwrap_or("opus");
                match (self.connections, ack.recovered) {
                    (1, _) => format!("session {} is open: {}, {codec}", ack.session_id, self.pair),
                    (_, Some(true)) => "reconnected: the session is resumed".to_owned(),
                    _ => format!(
                        "reconnected in a new session, {}: open sentences are lost",
                        ack.session_id
                    ),
                }
            }
            Happening::Begins => {
                self.sentence += 1;
                format!("sentence {} begins", self.sentence)
            }
            Happening::Said => format!("sentence {} is sent", self.sentence),
            Happening::Message(message) => {
                let line = message_in_words(message, &self.pair)?;
                match self.took_us.take() {
                    Some(us) => format!("{line}  [{:.0} ms after its last word]", us as f64 / 1e3),
                    None => line,
                }
            }
            Happening::Answered(answered) => {
                self.took_us = Some(answered.answered_us.saturating_sub(answered.said_us));
                return None;
            }
            Happening::Lost(closed) => format!("the connection ended {closed}; reconnecting"),
            Happening::NotYet(why) => format!("not connected yet: {why:#}"),
            Happening::Late(_) => return None,
        })
    }
}

fn message_in_words(message: &Value, pair: &str) -> Option<String> {
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    let index = &message["utterance_index"];
    Some(match text("type") {
        "asr_partial" => format!("{index}  … {}", text("text")),
        "translation_result" => {
            let speech = match text("tts_audio").len() / 4 * 3 {
                0 => String::new(),
                bytes => format!("  ({bytes} bytes of speech, {})", text("tts_format")),
            };
            format!("{index}  {} => {}{speech}", text("text_asr"), text("text_translated"))
        }
        "missing_result" => match text("reason") {
            "no_capable_node" => format!(
                "{index}  no node serves {pair}; lingua explain says why, and lingua node starts a \
                 simulated one"
            ),
            "all_nodes_busy" => format!("{index}  no result: all nodes for {pair} are busy"),
            reason => format!("{index}  no result: {reason}"),
        },
        "backpressure" => format!(
            "backpressure: {} for {} ms {}",
            text("action"),
            message["resume_after_ms"],
            text("message")
        ),
        "go_away" => format!("the instance is stopping: {}", text("reason")),
        "error" => format!("error {}: {}", text("code"), text("message")),
        _ => return None,
    })
}

fn in_json(happening: &Happening<'_>) -> Option<Value> {
    Some(match happening {
        Happening::Opened(ack) => json!({ "event": "opened", "message": ack.message }),
        Happening::Begins => json!({ "event": "begins" }),
        Happening::Said => json!({ "event": "said" }),
        Happening::Message(message) => json!({ "event": "message", "message": message }),
        Happening::Answered(answered) => {
            let took_us = answered.answered_us.saturating_sub(answered.said_us);
            json!({ "event": "answered", "took_ms": took_us as f64 / 1_000.0 })
        }
        Happening::Lost(closed) => json!({ "event": "lost", "how": closed.to_string() }),
        Happening::NotYet(why) => json!({ "event": "not_back_yet", "why": format!("{why:#}") }),
        Happening::Late(_) => return None,
    })
}

fn say(line: &str) {
    say!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_nothing_serves_is_said_clearly() {
        let message = json!({ "type": "missing_result", "utterance_index": 3,
                              "reason": "no_capable_node" });
        let line = message_in_words(&message, "en -> xx").unwrap();
        assert!(line.contains("no node serves en -> xx"), "{line}");
        assert_eq!(message_in_words(&json!({ "type": "ui_event" }), ""), None);
    }
}
