//! The dashboard.

use axum::response::Redirect;

use super::pages::page;

page! {
    DASHBOARD: "dashboard", None;
    "index.html", "style.css", "icon.svg", "app.js", "dom.js", "line.js", "words.js", "charts.js",
    "overview.js", "nodes.js",
    "links.js", "jobs.js", "sessions.js", "rest.js", "reasons.js",
    "usage.js", "usage_words.js",
}

/// Whoever opens the door without knowing what is behind it, or by the name of an older page.
pub(crate) async fn root() -> Redirect {
    Redirect::temporary("/dashboard")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_is_of_our_own_files_in_both_languages() {
        DASHBOARD.assert_own(100);
    }

    #[test]
    fn a_token_is_kept_nowhere_and_stands_in_no_address() {
        let line = DASHBOARD.text("line.js");
        assert!(["Storage", "cookie", "location", "console"].iter().all(|w| !line.contains(w)));
    }
}
