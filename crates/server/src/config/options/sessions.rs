//! `[sessions]`.

use super::engine_section;

engine_section! {
    /// Sessions: utterances, resume and context.
    "sessions." {
        /// Time without an audio chunk after which an utterance ends, unless the client asks for another. There is no
        /// voice detection here: a chunk that contains silence is a chunk.
        pause_ms in timing.pause_ms, 1..=60_000;
        /// Length after which an utterance is cut and its turn continues. Longer than pause_ms.
        max_utterance_ms in timing.max_utterance_ms, 1..=30_000;
        /// How long a session waits for its client to resume. Longer than cluster.owner_ttl_ms.
        resume_window_ms in timing.resume_window_ms, 1..=3_600_000;
        /// Size of one audio chunk in bytes.
        max_audio_bytes in max_audio_bytes, 1_024..=33_554_432;
        /// Buffered audio of one session in bytes: not yet cut, or with open jobs.
        held_bytes in sessions.held_bytes, 1_024..=1_073_741_824;
        /// Jobs of one session without an ending; an utterance has one for each target.
        open_utterances in sessions.open_utterances, 1..=1_000;
        /// Endings of one session, for each target, kept for replay after a resume.
        kept_endings in sessions.kept_endings, 0..=1_000;
        /// Size of the kept endings in bytes.
        kept_bytes in sessions.kept_bytes, 0..=67_108_864;
        /// Earlier sentences sent along with a job as context for the translation.
        context_sentences in sessions.context_sentences, 0..=20;
        /// Size of the context in characters.
        context_chars in sessions.context_chars, 0..=10_000;
    }
}
