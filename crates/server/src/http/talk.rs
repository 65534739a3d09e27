//! The talk page: two people, two languages, one screen. The files below `lingua/` are `clients/web`, compiled.

use super::pages::page;

/// The microphone, and nothing else.
const PERMISSIONS: &str = "microphone=(self), camera=(), geolocation=(), display-capture=()";

page! {
    TALK: "talk", Some(PERMISSIONS);
    "index.html", "style.css", "app.js", "languages.js", "past.js", "sides.js", "words.js", "icon.svg",
    "lingua/backoff.js", "lingua/emitter.js", "lingua/events.js", "lingua/hearing.js", "lingua/index.js",
    "lingua/line.js", "lingua/microphone.js", "lingua/opening.js", "lingua/opus.js", "lingua/outbox.js",
    "lingua/playback.js", "lingua/resample.js", "lingua/sender.js", "lingua/session.js", "lingua/talker.js",
    "lingua/vad.js", "lingua/wire.js", "lingua/worklet.js",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_talk_page_is_of_our_own_files_in_both_languages() {
        TALK.assert_own(50);
    }

    #[test]
    fn a_token_is_kept_nowhere() {
        let kept = ["sessionStorage", "cookie", "console."];
        for file in TALK.files.iter().filter(|file| file.name.ends_with(".js")) {
            assert!(kept.iter().all(|word| !file.text.contains(word)), "{}", file.name);
        }
    }
}
