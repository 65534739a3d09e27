//! What a caller accepts: `Accept` and `Accept-Encoding` as far as they are answered here (RFC 9110 12.5).

use axum::http::{HeaderMap, HeaderName, header};

/// How much a caller wants something, in thousandths; 0 is not at all.
type Weight = u32;

/// The weight that a header gives exactly this word; `None` if it does not name it.
fn weight(headers: &HeaderMap, header: &HeaderName, word: &str) -> Option<Weight> {
    let lines = headers.get_all(header).iter().filter_map(|line| line.to_str().ok());
    let entries = lines.flat_map(|line| line.split(','));
    entries
        .filter_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let named = parts.next()?.eq_ignore_ascii_case(word);
            let q = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            named.then(|| q.map_or(1_000, thousandths))
        })
        .max()
}

/// `0.5` as 500; what is no weight is none.
fn thousandths(text: &str) -> Weight {
    match text.trim().parse::<f64>() {
        Ok(q) if (0.0..=1.0).contains(&q) => (q * 1_000.0) as Weight,
        _ => 0,
    }
}

/// Whether refusals are to be `application/problem+json`: it is named, and not after plain JSON.
pub(super) fn wants_problem(headers: &HeaderMap) -> bool {
    let of = |kind| weight(headers, &header::ACCEPT, kind);
    let problem = of("application/problem+json").unwrap_or(0);
    problem > 0 && problem >= of("application/json").unwrap_or(0)
}

/// Whether a table is to be CSV: it is named, and before JSON.
pub(super) fn wants_csv(headers: &HeaderMap) -> bool {
    let of = |kind| weight(headers, &header::ACCEPT, kind);
    let csv = of("text/csv").unwrap_or(0);
    csv > 0 && csv > of("application/json").unwrap_or(0)
}

/// Whether an answer may be compressed with gzip. Who takes everything has not asked for it.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    weight(headers, &header::ACCEPT_ENCODING, "gzip").is_some_and(|weight| weight > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, lines: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name.clone(), line.parse().unwrap());
        }
        headers
    }

    #[test]
    fn problems_are_for_who_names_them_and_does_not_prefer_plain_json() {
        let wants = |lines: &[&'static str]| wants_problem(&with(header::ACCEPT, lines));
        assert!(wants(&["application/problem+json"]));
        assert!(wants(&["application/json, application/problem+json"]));
        assert!(wants(&["text/html", "Application/Problem+JSON;q=0.5"]));
        for other in [
            "*/*",
            "application/json",
            "application/*",
            "application/problem+json;q=0",
            "application/problem+json;q=0.5, application/json",
            "application/problem+json;q=nothing",
        ] {
            assert!(!wants(&[other]), "{other}");
        }
        assert!(!wants(&[]));
    }

    #[test]
    fn a_table_is_for_who_names_it_and_wants_it_more_than_json() {
        let wants = |lines: &[&'static str]| wants_csv(&with(header::ACCEPT, lines));
        assert!(wants(&["text/csv"]) && wants(&["application/json;q=0.5, text/csv"]));
        for other in ["*/*", "text/*", "text/csv;q=0", "text/csv, application/json"] {
            assert!(!wants(&[other]), "{other}");
        }
    }

    #[test]
    fn gzip_is_for_who_names_it() {
        let takes = |lines: &[&'static str]| takes_gzip(&with(header::ACCEPT_ENCODING, lines));
        assert!(takes(&["gzip"]) && takes(&["deflate, gzip;q=0.2, br"]) && takes(&["br", "GZIP"]));
        assert!(!takes(&[]) && !takes(&["br"]) && !takes(&["gzip;q=0"]) && !takes(&["*"]));
    }
}
