//! The talk page: two people, two languages, one screen. Files that are part of the binary, as the
//! dashboard's are; those below `lingua/` are `clients/web`, compiled.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};

use super::error::not_found;
use super::pages::{self, File, files, tag};

/// What a browser may do with the page. What is said and heard in it is the word of strangers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// And with the machine: the microphone, and nothing else.
const ABILITIES: &str = "microphone=(self), camera=(), geolocation=(), display-capture=()";

static FILES: [File; 26] = files! {
    "talk";
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "languages.js": "text/javascript; charset=utf-8",
    "past.js": "text/javascript; charset=utf-8",
    "sides.js": "text/javascript; charset=utf-8",
    "words.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "lingua/backoff.js": "text/javascript; charset=utf-8",
    "lingua/emitter.js": "text/javascript; charset=utf-8",
    "lingua/events.js": "text/javascript; charset=utf-8",
    "lingua/hearing.js": "text/javascript; charset=utf-8",
    "lingua/index.js": "text/javascript; charset=utf-8",
    "lingua/line.js": "text/javascript; charset=utf-8",
    "lingua/microphone.js": "text/javascript; charset=utf-8",
    "lingua/opening.js": "text/javascript; charset=utf-8",
    "lingua/opus.js": "text/javascript; charset=utf-8",
    "lingua/outbox.js": "text/javascript; charset=utf-8",
    "lingua/playback.js": "text/javascript; charset=utf-8",
    "lingua/resample.js": "text/javascript; charset=utf-8",
    "lingua/sender.js": "text/javascript; charset=utf-8",
    "lingua/session.js": "text/javascript; charset=utf-8",
    "lingua/talker.js": "text/javascript; charset=utf-8",
    "lingua/vad.js": "text/javascript; charset=utf-8",
    "lingua/wire.js": "text/javascript; charset=utf-8",
    "lingua/worklet.js": "text/javascript; charset=utf-8",
};

static TAG: LazyLock<HeaderValue> = LazyLock::new(|| tag(&FILES));

/// The page.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    serve(&FILES[0], &headers)
}

/// A part of it.
pub(crate) async fn file(Path(name): Path<String>, uri: Uri, headers: HeaderMap) -> Response {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => serve(file, &headers),
        None => not_found(uri).await.into_response(),
    }
}

fn serve(file: &File, asked: &HeaderMap) -> Response {
    let policies = [("content-security-policy", POLICY), ("permissions-policy", ABILITIES)];
    pages::serve(file, asked, &TAG, &policies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_fetched_from_elsewhere_and_nothing_becomes_markup() {
        pages::assert_own(&FILES);
        assert!(POLICY.starts_with("default-src 'none'; script-src 'self'; "), "{POLICY}");
        assert!(!POLICY.contains("unsafe") && !POLICY.contains("blob:"), "{POLICY}");
    }

    #[test]
    fn a_token_is_kept_nowhere() {
        let kept = ["sessionStorage", "cookie", "console."];
        for file in FILES.iter().filter(|file| file.kind.starts_with("text/javascript")) {
            assert!(kept.iter().all(|word| !file.text.contains(word)), "{}", file.name);
        }
    }

    #[test]
    fn both_languages_have_the_same_words() {
        let words = FILES.iter().find(|file| file.name == "words.js").unwrap().text;
        let (missing, count) = pages::unlike_words(words);
        assert!(missing.is_empty(), "{missing:?}");
        assert!(count > 50, "{count}");
    }
}
