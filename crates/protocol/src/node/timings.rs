//! How long the steps of a node's work took, by its own word.

use std::time::Duration;

use lingua_core::job::NodeMessage;

use crate::raw::RawFields;

/// A step that takes longer than this took so long only by a mistake of the node.
const LONGEST: Duration = Duration::from_secs(600);

/// Timings that are longer than this are not looked into.
const MAX_BYTES: usize = 16 * 1024;

/// A step of a node's work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// Speech recognition.
    Asr,
    /// Semantic repair of what was recognised.
    Repair,
    /// Translation of the repaired text.
    Nmt,
    /// Speech synthesis.
    Tts,
}

impl Step {
    /// All of them, in the order of the work.
    pub const ALL: [Step; 4] = [Step::Asr, Step::Repair, Step::Nmt, Step::Tts];

    /// A stable word for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Asr => "asr",
            Step::Repair => "repair",
            Step::Nmt => "nmt",
            Step::Tts => "tts",
        }
    }

    /// The step that a field of `service_timings` is about. Agents call repair by either name.
    fn of(field: &str) -> Option<Step> {
        match field {
            "asr_ms" => Some(Step::Asr),
            "semantic_ms" | "repair_ms" => Some(Step::Repair),
            "nmt_ms" => Some(Step::Nmt),
            "tts_ms" => Some(Step::Tts),
            _ => None,
        }
    }
}

/// The known steps in `service_timings` of a result. What is no time, or one that cannot be, is left out; of a step
/// that is there twice the last counts.
pub fn timings(result: &NodeMessage) -> [Option<Duration>; Step::ALL.len()] {
    let mut found = [None; Step::ALL.len()];
    let fits = |json: &&str| json.starts_with('{') && json.len() <= MAX_BYTES;
    let Some(json) = result.field("service_timings").filter(fits) else { return found };
    for (name, value) in RawFields::read_up_to_fault(json).entries() {
        let ms = value.parse::<f64>().ok().filter(|ms| ms.is_finite() && *ms >= 0.0);
        let took = ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1_000.0).ok());
        if let (Some(step), Some(took)) = (Step::of(name), took.filter(|took| *took <= LONGEST)) {
            found[step as usize] = Some(took);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::node::message::read_message;

    fn ms(json: &str) -> [Option<u128>; 4] {
        let message = read_message(Bytes::copy_from_slice(json.as_bytes()));
        timings(&message).map(|took| took.map(|took| took.as_micros()))
    }

    #[test]
    fn known_steps_are_read_and_others_are_left_alone() {
        let json = r#"{"service_timings":{"decode_ms":3,"asr_ms":120.5,"semantic_ms":7,
            "nmt_ms":30,"tts_ms":80,"total_ms":240}}"#;
        assert_eq!(ms(json), [Some(120_500), Some(7_000), Some(30_000), Some(80_000)]);
        let again = r#"{"service_timings":{"repair_ms":1,"repair_ms":2}}"#;
        assert_eq!(ms(again), [None, Some(2_000), None, None]);
    }

    #[test]
    fn what_is_no_time_is_left_out() {
        for bad in ["-1", "\"12\"", "null", "1e300", "600001", "[1]", "{\"asr_ms\":1}"] {
            let json = format!("{{\"service_timings\":{{\"asr_ms\":{bad},\"nmt_ms\":1}}}}");
            assert_eq!(ms(&json), [None, None, Some(1_000), None], "{bad}");
        }
        for none in ["{}", r#"{"service_timings":[1]}"#, r#"{"service_timings":null}"#] {
            assert_eq!(ms(none), [None; 4], "{none}");
        }
    }
}
