//! The dashboard: a few files that are part of the binary. Nothing is fetched from elsewhere and
//! nothing in them is a program but the scripts themselves, which the policy below makes certain.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse, Redirect, Response};

use super::error::not_found;
use super::pages::{self, File, files, tag};

/// What a browser may do with the page. Names of nodes are the word of strangers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

static FILES: [File; 11] = files! {
    "dashboard";
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "app.js": "text/javascript; charset=utf-8",
    "dom.js": "text/javascript; charset=utf-8",
    "line.js": "text/javascript; charset=utf-8",
    "words.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "overview.js": "text/javascript; charset=utf-8",
    "nodes.js": "text/javascript; charset=utf-8",
    "rest.js": "text/javascript; charset=utf-8",
};

static TAG: LazyLock<HeaderValue> = LazyLock::new(|| tag(&FILES));

/// Whoever opens the door without knowing what is behind it, or by the name of an older page.
pub(crate) async fn root() -> Redirect {
    Redirect::temporary("/dashboard")
}

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
    pages::serve(file, asked, &TAG, &[("content-security-policy", POLICY)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_fetched_from_elsewhere_and_nothing_becomes_markup() {
        pages::assert_own(&FILES);
    }

    #[test]
    fn only_our_own_scripts_run_and_they_talk_to_nobody_else() {
        assert!(POLICY.starts_with("default-src 'none'; script-src 'self'; "), "{POLICY}");
        assert!(POLICY.contains("connect-src 'self'") && POLICY.contains("form-action 'none'"));
        assert!(!POLICY.contains("unsafe") && !POLICY.contains('*'), "{POLICY}");
        // A token is kept nowhere, and stands in no address.
        let line = FILES.iter().find(|file| file.name == "line.js").unwrap().text;
        assert!(["Storage", "cookie", "location", "console"].iter().all(|w| !line.contains(w)));
    }

    #[test]
    fn both_languages_have_the_same_words() {
        let words = FILES.iter().find(|file| file.name == "words.js").unwrap().text;
        let (missing, count) = pages::unlike_words(words);
        assert!(missing.is_empty(), "{missing:?}");
        assert!(count > 100, "{count}");
    }
}
