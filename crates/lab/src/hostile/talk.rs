//! Those who are let in and then say what nobody should.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::Malice;
use crate::speech::{Codec, Signal};
use crate::{FakeNode, NodeOptions, Speaker, SpeakerOptions};

/// As large as a message of a client may be by default, and larger.
const GIANTS: [usize; 2] = [(2 << 20) / 3 * 4, 8 << 20];

/// Deeper than any message is, and within what may be sent at once.
const DEPTH: usize = 60_000;

const LANGUAGES: u32 = 64_000;

/// Nodes that claim too much at the same time.
const NODES: u32 = 4;

pub(super) async fn session(
    malice: Malice,
    from: IpAddr,
    target: SocketAddr,
) -> anyhow::Result<()> {
    let options = SpeakerOptions::new(format!("ws://{target}/ws/session"))
        .from_address(from)
        .patience(Duration::from_secs(60));
    match malice {
        Malice::NeverReads => {
            let speaker = Speaker::connect(options).await?;
            speaker.stop_reading().await?;
            for n in 0..100_000 {
                let audio = Codec::Opus.speech(Signal::Babble, 100, None, n);
                speaker.whole(n, audio, json!({})).await?;
            }
        }
        Malice::Endless => {
            let speaker = Speaker::connect(options.codec(Codec::Pcm16)).await?;
            let audio = Codec::Pcm16.speech(Signal::Babble, 1_000, None, 1);
            loop {
                speaker.say(audio.clone()).await?;
            }
        }
        Malice::Giants => {
            for bytes in GIANTS {
                let speaker = Speaker::connect(options.clone()).await?;
                let field = "x".repeat(bytes);
                let message = json!({ "type": "client_heartbeat", "session_id": speaker.session_id(),
                                      "more": field });
                for _ in 0..20 {
                    speaker.send(message.clone()).await?;
                }
            }
        }
        Malice::Nested => {
            let speaker = Speaker::connect(options).await?;
            let deep = "[".repeat(DEPTH);
            let hidden = format!(
                r#"{{"type":"client_heartbeat","session_id":{:?},"more":{}{}}}"#,
                speaker.session_id(),
                r#"{"a":"#.repeat(DEPTH / 5),
                "}".repeat(DEPTH / 5)
            );
            loop {
                speaker.send_text(deep.clone()).await?;
                speaker.send_text(hidden.clone()).await?;
            }
        }
        _ => {
            let speaker = Speaker::connect(options).await?;
            loop {
                speaker.heartbeat().await?;
            }
        }
    }
    Ok(())
}

/// Nodes that claim what they cannot be, each on one socket for as long as it is let.
pub(super) async fn nodes(malice: Malice, target: SocketAddr) -> anyhow::Result<()> {
    let claim = match malice {
        Malice::ManySlots => json!({ "type": "node_register", "max_concurrent_jobs": 1_000_000 }),
        _ => {
            let languages: Vec<String> = (0..LANGUAGES).map(language).collect();
            json!({ "type": "node_heartbeat", "language_capabilities": {
                "semantic_languages": languages, "asr_languages": languages,
                "tts_languages": languages, "nmt_pairs": "any" } })
        }
    };
    join_all((0..NODES).map(|n| node(n, &claim, target))).await.into_iter().collect()
}

async fn node(n: u32, claim: &Value, target: SocketAddr) -> anyhow::Result<()> {
    let name = format!("greedy-{n}");
    let options = NodeOptions::new(format!("ws://{target}/ws/node")).node_id(&name);
    // It gets no jobs: what it would do with them is another matter.
    let options = NodeOptions { accept_public_jobs: false, ..options };
    let mut node = FakeNode::scripted(options).await?;
    node.register().await?;
    let mut message = json!({ "node_id": name, "version": "1", "platform": "linux" });
    crate::fake_node::merge(&mut message, claim);
    let message = message.to_string();
    loop {
        // Refused, as it should be; so it says the same again, until it is shown the door.
        node.send_text(message.clone()).await?;
        node.next().await?;
    }
}

/// A tag of four letters, another one for every number.
fn language(n: u32) -> String {
    let letter = |n: u32| char::from(b'a' + u8::try_from(n % 26).unwrap_or(0));
    [letter(n / 17_576), letter(n / 676), letter(n / 26), letter(n)].iter().collect()
}
