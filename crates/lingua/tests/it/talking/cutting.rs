//! Where speech is cut, and that all of it arrives.

use std::time::Duration;

use bytes::Bytes;
use lingua_lab::speech::Codec;
use serde_json::{Value, json};

use super::{
    audio_of, calm, eventually, finish, is_error, is_result, mark, metric, node, node_options,
    node_with, options, part, speaker, speaker_with, speech, take, worker,
};
use crate::app::{On, TestApp};

/// A node whose assigns carry their audio in the text.
async fn listener(app: &TestApp, id: &str) -> lingua_lab::ScriptedNode {
    node_with(app, node_options(app, id).without("binary_audio")).await
}

pub async fn a_sentence_goes_to_a_node_and_comes_back(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = listener(&app, "a").await;
    let mut client = speaker(&app).await;
    let said = speech(Codec::Opus, 1, 600);
    client.sentence(said.clone()).await.unwrap();
    let assign = take(&mut node).await;
    assert_eq!(audio_of(&mut node, &assign).await, said);
    assert_eq!((&assign["src_lang"], &assign["tgt_lang"]), (&json!("en"), &json!("zh")));
    assert_eq!((&assign["audio_format"], &assign["sample_rate"]), (&json!("opus"), &json!(16000)));
    assert_eq!((&assign["is_manual_cut"], &assign["padding_ms"]), (&json!(true), &json!(280)));
    assert_eq!((&assign["utterance_index"], &assign["part_index"]), (&json!(0), &json!(0)));
    node.result(&assign, "translated").await.unwrap();
    let ending = client.ending().await.unwrap();
    is_result(&ending, 0);
    assert_eq!(ending["text_translated"], "translated");
    assert_eq!(ending["session_id"], client.session_id());
    assert!(ending["job_id"].is_string() && ending["group_id"].is_string(), "{ending:?}");
    assert_eq!(ending["part_index"], 0);
    assert!(ending["scheduler_sent_at_ms"].is_u64());
    finish(app, client).await;
}

pub async fn pieces_arrive_as_they_were_said(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = listener(&app, "a").await;
    for codec in [Codec::Opus, Codec::Pcm16] {
        for supports in [&["binary", "audio_ack"][..], &["events"][..]] {
            let mut client = speaker_with(options(&app).codec(codec).supports(supports)).await;
            let said = speech(codec, 7, 900);
            for piece in codec.pieces(&said, 60) {
                client.say(piece).await.unwrap();
            }
            client.end().await.unwrap();
            let assign = take(&mut node).await;
            assert_eq!(assign["audio_format"], codec.name());
            assert_eq!(audio_of(&mut node, &assign).await, said, "{codec:?} {supports:?}");
            node.result(&assign, "yes").await.unwrap();
            is_result(&client.ending().await.unwrap(), 0);
            client.close_session("done").await.unwrap();
            client.next_of("session_close_ack").await.unwrap();
        }
    }
    app.finish().await;
}

pub async fn a_second_final_cuts_nothing(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker(&app).await;
    client.say_last(speech(Codec::Opus, 1, 300)).await.unwrap();
    client.end().await.unwrap();
    client.end().await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    // The client's next word is answered behind anything that the finals brought about.
    client.heartbeat().await.unwrap();
    client.next_of("server_heartbeat").await.unwrap();
    assert_eq!(metric(&app, "lingua_utterances_total{cut=\"final\"}"), 1);
    finish(app, client).await;
}

pub async fn a_final_on_nothing_is_nothing(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker(&app).await;
    client.end().await.unwrap();
    client.finalize().await.unwrap();
    let answer = client.next_of("finalized").await.unwrap();
    assert_eq!(answer["utterance_index"], Value::Null);
    client.sentence(speech(Codec::Opus, 1, 300)).await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}

pub async fn a_pause_ends_an_utterance(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker_with(options(&app).pause_ms(300)).await;
    client.say(speech(Codec::Opus, 1, 300)).await.unwrap();
    client.falls_silent();
    let assign = take(&mut node).await;
    assert_eq!(assign["is_timeout_triggered"], true);
    assert_eq!(assign["padding_ms"], 220);
    assert!(assign.get("is_manual_cut").is_none());
    node.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    // Silence alone brings nothing about.
    client.hears_nothing_for(Duration::from_millis(700)).await.unwrap();
    finish(app, client).await;
}

pub async fn a_final_that_races_the_pause_cuts_once(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker_with(options(&app).pause_ms(200)).await;
    for n in 0..10u32 {
        client.say(speech(Codec::Opus, n, 100)).await.unwrap();
        // Around the moment at which the pause is heard: 196, 197, … 205 ms.
        tokio::time::sleep(Duration::from_millis(196 + u64::from(n))).await;
        client.end().await.unwrap();
        is_result(&client.ending().await.unwrap(), u64::from(n));
    }
    let cut = |by| metric(&app, &format!("lingua_utterances_total{{cut=\"{by}\"}}"));
    assert_eq!(cut("pause") + cut("final"), 10);
    // The speaker cannot know which of the two it was.
    part(app, client).await;
}

pub async fn endless_speech_is_cut_and_stays_on_one_node(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (listener(&app, "a").await, listener(&app, "b").await);
    let mut client = speaker_with(options(&app).max_utterance_ms(1_000)).await;
    let said = speech(Codec::Opus, 1, 3_500);
    for piece in Codec::Opus.pieces(&said, 100) {
        client.say(piece).await.unwrap();
    }
    client.end().await.unwrap();
    let first = tokio::select! {
        first = a.next_of("job_assign") => ("a", first.unwrap().message),
        first = b.next_of("job_assign") => ("b", first.unwrap().message),
    };
    let node = if first.0 == "a" { &mut a } else { &mut b };
    let mut parts = vec![first.1];
    for _ in 1..4 {
        parts.push(node.next_of("job_assign").await.unwrap().message);
    }
    let mut heard = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        assert_eq!(part["part_index"], n);
        assert_eq!(part["turn_id"], parts[0]["turn_id"], "all parts are of one turn");
        assert_eq!(part.get("is_max_duration_triggered").is_some(), n < 3, "{part}");
        heard.extend(audio_of(node, part).await);
        node.ack(part).await.unwrap();
        node.result(part, "part").await.unwrap();
    }
    assert_eq!(heard, said, "every byte once");
    let endings = client.endings(4).await.unwrap();
    for (n, ending) in endings.iter().enumerate() {
        is_result(ending, n as u64);
        assert_eq!(ending["group_id"], endings[0]["group_id"]);
        assert_eq!(ending["part_index"], n);
    }
    part(app, client).await;
}

pub async fn the_byte_cap_cuts(on: On) {
    let mut settings = calm();
    settings.max_audio_bytes = 20_000;
    let app = TestApp::start(on, settings).await;
    let mut node = listener(&app, "a").await;
    let mut client = speaker_with(options(&app).codec(Codec::Pcm16)).await;
    let said = speech(Codec::Pcm16, 1, 1_600);
    for piece in Codec::Pcm16.pieces(&said, 100) {
        client.say(piece).await.unwrap();
    }
    client.end().await.unwrap();
    let mut heard = Vec::new();
    for _ in 0..3 {
        let assign = take(&mut node).await;
        let audio = audio_of(&mut node, &assign).await;
        assert!(audio.len() <= 20_000);
        heard.extend(audio);
        node.result(&assign, "part").await.unwrap();
    }
    assert_eq!(heard, said);
    client.endings(3).await.unwrap();
    assert_eq!(metric(&app, "lingua_utterances_total{cut=\"max_bytes\"}"), 2);
    part(app, client).await;
}

pub async fn pieces_of_one_byte_are_put_together(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = listener(&app, "a").await;
    for codec in [Codec::Pcm16, Codec::Opus] {
        let client = speaker_with(options(&app).codec(codec).without("resume")).await;
        let said = speech(codec, 1, 20).slice(..600.min(speech(codec, 1, 20).len()));
        for n in 0..said.len() {
            client.say(said.slice(n..=n)).await.unwrap();
        }
        client.end().await.unwrap();
        let assign = take(&mut node).await;
        assert_eq!(audio_of(&mut node, &assign).await, said, "{codec:?}");
        node.result(&assign, "yes").await.unwrap();
        let mut client = client;
        is_result(&client.ending().await.unwrap(), 0);
        client.close_session("done").await.unwrap();
        client.next_of("session_close_ack").await.unwrap();
    }
    app.finish().await;
}

pub async fn pieces_of_two_mebibytes_are_taken_or_refused_whole(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker_with(options(&app).codec(Codec::Pcm16)).await;
    // A minute of speech in one piece is more than an utterance may be.
    client.say(Bytes::from(vec![1; 2 << 20])).await.unwrap();
    let refused = client.next_of("error").await.unwrap();
    is_error(&refused, "MESSAGE_TOO_LARGE");
    assert_eq!(refused["details"]["bytes"], 2 << 20);
    client.say_last(speech(Codec::Pcm16, 1, 300)).await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    part(app, client).await;
}

pub async fn a_loudspeaker_holds_the_pause_off(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker_with(options(&app).pause_ms(300)).await;
    client.say(speech(Codec::Opus, 1, 300)).await.unwrap();
    client.tts_started("group").await.unwrap();
    node.hears_nothing_for(Duration::from_millis(900)).await.unwrap();
    client.falls_silent();
    client.tts_ended("group").await.unwrap();
    let assign = take(&mut node).await;
    assert_eq!(assign["is_timeout_triggered"], true);
    node.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}

pub async fn finalize_says_which_utterance_it_made(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker(&app).await;
    for n in 0..3u32 {
        client.say(speech(Codec::Opus, n, 200)).await.unwrap();
        client.finalize().await.unwrap();
        assert_eq!(client.next_of("finalized").await.unwrap()["utterance_index"], n);
    }
    eventually("all are told", || client.open_sentences() == 0).await;
    finish(app, client).await;
}

pub async fn languages_change_between_sentences(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.say(speech(Codec::Opus, 1, 200)).await.unwrap();
    // What was said belongs to the languages it was said under.
    client.set_languages("zh", "en").await.unwrap();
    client.say_last(speech(Codec::Opus, 2, 200)).await.unwrap();
    let mut assigns = [take(&mut node).await, take(&mut node).await];
    assigns.sort_by_key(|assign| assign["utterance_index"].as_u64());
    let languages = |assign: &Value| (assign["src_lang"].clone(), assign["tgt_lang"].clone());
    assert_eq!(languages(&assigns[0]), (json!("en"), json!("zh")));
    assert_eq!(languages(&assigns[1]), (json!("zh"), json!("en")));
    for assign in &assigns {
        node.result(assign, "yes").await.unwrap();
    }
    client.endings(2).await.unwrap();
    finish(app, client).await;
}

pub async fn two_languages_go_to_a_node_that_can_both(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _one_way = node_with(&app, node_options(&app, "one-way").pairs(&[("en", "zh")])).await;
    let mut both = node(&app, "both").await;
    let mut client = speaker_with(options(&app).two_way("en", "zh")).await;
    client.marked_sentence(mark(1), 300).await.unwrap();
    let assign = take(&mut both).await;
    assert_eq!((&assign["src_lang"], &assign["mode"]), (&json!("auto"), &json!("two_way_auto")));
    assert_eq!((&assign["lang_a"], &assign["lang_b"]), (&json!("en"), &json!("zh")));
    both.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}

pub async fn the_next_node_is_told_what_was_said(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    let mut told = Vec::new();
    for n in 0..6u32 {
        client.marked_sentence(mark(n), 200).await.unwrap();
        let assign = take(&mut node).await;
        told.push(assign["context_text"].as_str().map(str::to_owned));
        node.about(
            &assign,
            "job_result",
            json!({"success": true, "text_asr": format!("Sentence {n}."), "text_translated": "x"}),
        )
        .await
        .unwrap();
        is_result(&client.ending().await.unwrap(), n.into());
    }
    assert_eq!(told[0], None);
    assert_eq!(told[1].as_deref(), Some("Sentence 0."));
    assert_eq!(told[5].as_deref(), Some("Sentence 2. Sentence 3. Sentence 4."));
    client.set_languages("zh", "en").await.unwrap();
    client.marked_sentence(mark(9), 200).await.unwrap();
    let assign = take(&mut node).await;
    assert!(assign.get("context_text").is_none(), "nothing was said in that language: {assign}");
    node.result(&assign, "yes").await.unwrap();
    client.ending().await.unwrap();
    part(app, client).await;
}

pub async fn long_silence_does_no_harm(on: On) {
    let mut settings = calm();
    settings.timing.resume_window_ms = 10_000;
    let app = TestApp::start(on, settings).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(1), 200).await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    // Longer than a client may be away.
    client.hears_nothing_for(Duration::from_secs(15)).await.unwrap();
    client.marked_sentence(mark(2), 200).await.unwrap();
    is_result(&client.ending().await.unwrap(), 1);
    finish(app, client).await;
}

pub async fn a_broken_packet_is_refused_and_nothing_else(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = listener(&app, "a").await;
    let mut client = speaker(&app).await;
    let said = speech(Codec::Opus, 1, 200);
    client.say(said.clone()).await.unwrap();
    // A packet without anything in it.
    client
        .about_session("audio_chunk", json!({"seq": 1, "is_final": false, "payload": "AAA="}))
        .await
        .unwrap();
    is_error(&client.next_of("error").await.unwrap(), "INVALID_MESSAGE");
    client.say_as(2, Bytes::new(), true).await.unwrap();
    let assign = take(&mut node).await;
    assert_eq!(audio_of(&mut node, &assign).await, said);
    node.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}
