//! Pages that are part of the binary: nothing is fetched from elsewhere, and nothing in them is a program but
//! the scripts themselves, which their policy makes certain.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::error::not_found;

/// What a browser may do with a page. Names of nodes, codes and languages are the word of strangers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// A page: its files, the first of which is the page itself.
pub(super) struct Page {
    pub(super) files: &'static [File],
    /// What it may do with the machine, if it may do anything: a `permissions-policy`.
    pub(super) permissions: Option<&'static str>,
    pub(super) tag: LazyLock<HeaderValue>,
}

/// A part of a page.
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

impl File {
    fn kind(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }
}

/// The page of these files below a folder of the sources, and of some that it shares with another page.
macro_rules! page {
    ($page:ident: $folder:literal, $permissions:expr; $($name:literal),+ $(,)? $(; from $other:literal: $($shared:literal),+)?) => {
        pub(super) static $page: $crate::http::pages::Page = $crate::http::pages::Page {
            files: &[$($crate::http::pages::File {
                name: $name,
                text: include_str!(concat!("../", $folder, "/", $name)),
            },)+ $($($crate::http::pages::File {
                name: $shared,
                text: include_str!(concat!("../", $other, "/", $shared)),
            },)+)?],
            permissions: $permissions,
            tag: std::sync::LazyLock::new(|| $crate::http::pages::tag($page.files)),
        };
    };
}

pub(super) use page;

/// Of all files together, so that a page never runs with scripts of two versions.
pub(super) fn tag(files: &[File]) -> HeaderValue {
    let bytes = files.iter().flat_map(|file| file.text.bytes());
    // FNV: it tells versions apart and keeps nobody out.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    HeaderValue::from_str(&format!("\"{hash:016x}\"")).expect("hexadecimal")
}

impl Page {
    /// The page itself.
    pub(super) async fn index(&self, headers: HeaderMap) -> Response {
        self.serve(&self.files[0], &headers)
    }

    /// A part of it.
    pub(super) async fn file(&self, name: Path<String>, uri: Uri, headers: HeaderMap) -> Response {
        match self.files.iter().find(|file| file.name == *name) {
            Some(file) => self.serve(file, &headers),
            None => not_found(uri).await.into_response(),
        }
    }

    /// The file, or that it is known already.
    fn serve(&self, file: &File, asked: &HeaderMap) -> Response {
        // Weakly: what was compressed has the tag of the version, not of its bytes.
        let known = asked.get(header::IF_NONE_MATCH).is_some_and(|shown| {
            let shown = shown.as_bytes();
            shown.strip_prefix(b"W/").unwrap_or(shown) == self.tag.as_bytes()
        });
        let mut answer = match known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => file.text.into_response(),
        };
        let headers = answer.headers_mut();
        for (name, value) in [
            ("content-type", Some(file.kind())),
            ("x-content-type-options", Some("nosniff")),
            ("referrer-policy", Some("no-referrer")),
            ("cache-control", Some("no-cache")),
            ("content-security-policy", Some(POLICY)),
            ("permissions-policy", self.permissions),
        ] {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        headers.insert(header::ETAG, self.tag.clone());
        answer
    }
}

#[cfg(test)]
impl Page {
    pub(super) fn text(&self, name: &str) -> &'static str {
        self.files.iter().find(|file| file.name == name).unwrap().text
    }

    /// Fails if a file has what no page of ours may have, or its two languages have different words.
    /// `least` is how many words there are at least.
    pub(super) fn assert_own(&self, least: usize) {
        for file in self.files {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            let never = [
                "http://",
                "https://",
                "//cdn",
                "innerHTML",
                "outerHTML",
                "eval(",
                "insertAdjacent",
            ];
            for never in never {
                assert!(!text.contains(never), "{} has {never}", file.name);
            }
        }
        let page = self.files[0].text;
        assert!(!page.contains("style=") && !page.contains("onclick"), "the policy forbids it");
        let (missing, count) = unlike_words(self.text("words.js"));
        assert!(missing.is_empty(), "{missing:?}");
        assert!(count > least, "{count}");
    }
}

/// The keys that one language has and the other has not, and how many there are.
#[cfg(test)]
fn unlike_words(words: &'static str) -> (Vec<&'static str>, usize) {
    let (en, zh) = words.split_once("\n  zh: {").unwrap();
    let zh = zh.split_once("\n  },\n").unwrap().0;
    let is_key = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || ".-_".contains(c));
    let keys = |text: &'static str| -> std::collections::BTreeSet<&str> {
        let before = text.split("\": \"");
        before.filter_map(|before| Some(before.rsplit_once('"')?.1)).filter(is_key).collect()
    };
    let (en, zh) = (keys(en.split_once("en: {").unwrap().1), keys(zh));
    (en.symmetric_difference(&zh).copied().collect(), en.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_scripts_run_and_they_talk_to_nobody_else() {
        assert!(POLICY.starts_with("default-src 'none'; script-src 'self'; "), "{POLICY}");
        assert!(POLICY.contains("connect-src 'self'") && POLICY.contains("form-action 'none'"));
        assert!(!POLICY.contains("unsafe") && !POLICY.contains("blob:") && !POLICY.contains('*'));
    }
}
