//! The dashboard: a few files that are part of the binary. Nothing is fetched from elsewhere and
//! nothing in them is a program but the scripts themselves, which the policy below makes certain.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};

use super::error::not_found;

/// What a browser may do with the page. Names of nodes are the word of strangers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

struct File {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($name:literal: $kind:literal),+ $(,)?) => {
        [$(File { name: $name, kind: $kind, text: include_str!(concat!("../dashboard/", $name)) }),+]
    };
}

static FILES: [File; 11] = files! {
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

/// Of all files together, so that a page never runs with scripts of two versions.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| {
    let bytes = FILES.iter().flat_map(|file| file.text.bytes());
    // FNV: it tells versions apart and keeps nobody out.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    HeaderValue::from_str(&format!("\"{hash:016x}\"")).expect("hexadecimal")
});

/// Whoever opens the door without knowing what is behind it.
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
    let known = asked.get(header::IF_NONE_MATCH).is_some_and(|tag| *tag == *TAG);
    let mut answer = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => file.text.into_response(),
    };
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, file.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::ETAG, TAG.clone());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_fetched_from_elsewhere_and_nothing_becomes_markup() {
        for file in &FILES {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for never in [
                "http://",
                "https://",
                "//cdn",
                "innerHTML",
                "outerHTML",
                "eval(",
                "insertAdjacent",
            ] {
                assert!(!text.contains(never), "{} has {never}", file.name);
            }
        }
        let page = FILES[0].text;
        assert!(!page.contains("style=") && !page.contains("onclick"), "the policy forbids it");
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
        let (en, zh) = words.split_once("\n  zh: {").unwrap();
        let zh = zh.split_once("\n  },\n").unwrap().0;
        let is_key = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '.');
        let keys = |text: &'static str| -> std::collections::BTreeSet<&str> {
            let before = text.split("\": \"");
            before.filter_map(|before| Some(before.rsplit_once('"')?.1)).filter(is_key).collect()
        };
        let (en, zh) = (keys(en.split_once("en: {").unwrap().1), keys(zh));
        let missing: Vec<_> = en.symmetric_difference(&zh).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(en.len() > 100, "{}", en.len());
    }
}
