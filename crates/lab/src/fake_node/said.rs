//! What a simulated node says it heard and translated, for people who look at it: `[zh] sentence 3, 2.1 s`.

use super::wire::Incoming;
use crate::speech::millis_of;

/// The languages of a job and how much was said.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    src: Box<str>,
    tgt: Box<str>,
    format: Box<str>,
    ms: u64,
    /// It was to find out what is spoken.
    auto: bool,
    /// What was typed, where nothing was spoken.
    words: Option<Box<str>>,
}

impl Said {
    pub fn of(assign: &Incoming<'_>) -> Self {
        let text = |field| Box::from(Incoming::text(field));
        // Where either language may be spoken, it takes the first one for spoken.
        let auto = matches!(Incoming::text(&assign.src_lang), "auto" | "");
        let (src, tgt) = match auto {
            true => (text(&assign.lang_a), text(&assign.lang_b)),
            false => (text(&assign.src_lang), text(&assign.tgt_lang)),
        };
        let words = assign.text.as_ref().map(|text| Box::from(text.0.as_ref()));
        Self { src, tgt, format: text(&assign.audio_format), ms: 0, auto, words }
    }

    /// More speech.
    pub fn hear(&mut self, audio: &[u8]) {
        self.ms += millis_of(&self.format, audio);
    }

    /// The language that it found to be spoken, if it was to find that out.
    pub fn found(&self) -> Option<&str> {
        self.auto.then_some(&*self.src)
    }

    /// In the language that was spoken; sentences count from 1.
    pub fn heard(&self, index: u64) -> String {
        match &self.words {
            Some(words) => words.to_string(),
            None => self.text(&self.src, index),
        }
    }

    /// In the other one.
    pub fn translated(&self, index: u64) -> String {
        match &self.words {
            Some(words) => format!("[{}] {words}", self.tgt),
            None => self.text(&self.tgt, index),
        }
    }

    fn text(&self, language: &str, index: u64) -> String {
        let number = index.saturating_add(1);
        match self.ms {
            0 => format!("[{language}] sentence {number}"),
            ms => format!("[{language}] sentence {number}, {:.1} s", ms as f64 / 1_000.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(assign: &str) -> Said {
        Said::of(&serde_json::from_str(assign).unwrap())
    }

    #[test]
    fn a_sentence_is_told_with_its_language_number_and_length() {
        let mut one =
            said(r#"{"type":"job_assign","src_lang":"en","tgt_lang":"zh","audio_format":"pcm16"}"#);
        assert_eq!(one.translated(2), "[zh] sentence 3");
        // 16 kHz, 16 bits, mono.
        one.hear(&vec![0; 2_100 * 32]);
        assert_eq!(one.heard(2), "[en] sentence 3, 2.1 s");
        assert_eq!(one.translated(2), "[zh] sentence 3, 2.1 s");
    }

    #[test]
    fn of_two_languages_the_first_is_taken_for_spoken() {
        let one = said(
            r#"{"type":"job_assign","src_lang":"auto","tgt_lang":"de","lang_a":"de","lang_b":"fr"}"#,
        );
        assert_eq!(
            (one.heard(0), one.translated(0)),
            ("[de] sentence 1".into(), "[fr] sentence 1".into())
        );
        assert_eq!(one.found(), Some("de"));
        let one_way = said(r#"{"type":"job_assign","src_lang":"en","tgt_lang":"zh"}"#);
        assert_eq!(one_way.found(), None);
    }
}
