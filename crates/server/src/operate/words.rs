//! Reasons as people read them.

/// Why a node cannot take a job, as on the dashboard.
pub(super) fn why_not(word: &str) -> &str {
    match word {
        "asr" => "does not recognise the source language",
        "semantic" => "does not repair the source language",
        "nmt" => "does not translate this direction",
        "tts" => "does not speak the target language",
        "service" => "has a service that is not ready",
        "model" => "lacks a model",
        "feature" => "lacks a feature",
        "region" => "is in another region",
        "tenant" => "serves other tenants only",
        "text" => "takes speech only, and no text",
        "private" => "takes only jobs that name it",
        "health" => "is not ready",
        "stale" => "has an overdue heartbeat",
        "unknown" => "is unknown to this scheduler",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use lingua_core::eligibility::WhyNot;

    use super::*;

    #[test]
    fn every_reason_reads_as_on_the_dashboard() {
        let page = include_str!("../dashboard/reasons.js");
        for word in WhyNot::ALL.iter().map(|reason| reason.as_str()).chain(["unknown"]) {
            assert_ne!(why_not(word), word);
            let shown = format!("\n  {word}: [\"{}\", \"", why_not(word));
            assert!(page.contains(&shown), "the dashboard has another text for {word}");
        }
    }
}
