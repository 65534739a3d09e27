//! Gaps that ended before their time, because the node has the service now.
//!
//! The store keeps a gap until its time is over, and a record that is read later still has it.

use std::time::Duration;

use lingua_core::ModelId;
use lingua_core::link::MAX_GAPS;
use tokio::time::Instant;

/// What a node misses, each until when.
pub(super) type Gaps = Vec<(ModelId, Instant)>;

/// The end of one gap differs by so much between the instance that noted it and the store.
const SAME_GAP: Duration = Duration::from_secs(1);

/// The gaps of one node that were closed, each with the end that it had.
#[derive(Default)]
pub(super) struct ClosedGaps(Gaps);

impl ClosedGaps {
    /// Removes the gaps of these models.
    pub fn close(&mut self, open: &mut Gaps, models: &[ModelId]) {
        let now = Instant::now();
        self.0.retain(|(model, until)| *until > now && !models.contains(model));
        let closed = open.extract_if(.., |(model, _)| models.contains(model));
        self.0.extend(closed);
        self.0.truncate(MAX_GAPS);
    }

    /// Removes from the gaps of a record those that were closed. A gap that was noted later has a later end.
    pub fn remove_from(&self, gaps: &mut Gaps) {
        let is_closed = |(model, until): &(ModelId, Instant)| {
            self.0.iter().any(|(closed, end)| closed == model && *until <= *end + SAME_GAP)
        };
        gaps.retain(|gap| !is_closed(gap));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gap_does_not_come_back_with_a_record_and_a_later_one_does() {
        let model = |name: &str| ModelId::new(name).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let mut closed = ClosedGaps::default();
        let mut open = vec![(model("a"), end), (model("b"), end)];
        closed.close(&mut open, &[model("a"), model("c")]);
        assert_eq!(open, [(model("b"), end)]);
        let read = end + Duration::from_millis(20);
        let mut record = vec![(model("a"), read), (model("b"), read)];
        closed.remove_from(&mut record);
        assert_eq!(record, [(model("b"), read)]);
        let later = end + Duration::from_secs(5);
        let mut record = vec![(model("a"), later)];
        closed.remove_from(&mut record);
        assert_eq!(record, [(model("a"), later)], "missing again");
    }
}
