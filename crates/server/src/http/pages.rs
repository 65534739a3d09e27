//! Pages that are part of the binary: nothing is fetched from elsewhere.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A part of a page.
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) text: &'static str,
}

/// The files below a folder of the sources, each with what it is.
macro_rules! files {
    ($folder:literal; $($name:literal: $kind:literal),+ $(,)?) => {
        [$($crate::http::pages::File {
            name: $name,
            kind: $kind,
            text: include_str!(concat!("../", $folder, "/", $name)),
        }),+]
    };
}

pub(super) use files;

/// Of all files together, so that a page never runs with scripts of two versions.
pub(super) fn tag(files: &[File]) -> HeaderValue {
    let bytes = files.iter().flat_map(|file| file.text.bytes());
    // FNV: it tells versions apart and keeps nobody out.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    HeaderValue::from_str(&format!("\"{hash:016x}\"")).expect("hexadecimal")
}

/// The file, or that it is known already.
pub(super) fn serve(
    file: &File,
    asked: &HeaderMap,
    tag: &HeaderValue,
    policies: &[(&'static str, &'static str)],
) -> Response {
    let known = asked.get(header::IF_NONE_MATCH).is_some_and(|shown| shown == tag);
    let mut answer = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => file.text.into_response(),
    };
    let headers = answer.headers_mut();
    for (name, value) in [
        ("content-type", file.kind),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-cache"),
    ]
    .iter()
    .chain(policies)
    {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    headers.insert(header::ETAG, tag.clone());
    answer
}

/// Fails if a file has what no page of ours may have.
#[cfg(test)]
pub(super) fn assert_own(files: &[File]) {
    for file in files {
        let text = file.text.replace("http://www.w3.org/2000/svg", "");
        for never in
            ["http://", "https://", "//cdn", "innerHTML", "outerHTML", "eval(", "insertAdjacent"]
        {
            assert!(!text.contains(never), "{} has {never}", file.name);
        }
    }
    let page = files[0].text;
    assert!(!page.contains("style=") && !page.contains("onclick"), "the policy forbids it");
}

/// The keys that one language has and the other has not, and how many there are.
#[cfg(test)]
pub(super) fn unlike_words(words: &'static str) -> (Vec<&'static str>, usize) {
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
