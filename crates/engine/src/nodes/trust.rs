//! How many slots of a node are open: a stranger's word about itself is not believed at once.

/// Begins with one slot and doubles with every success, up to what the node declares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trust {
    open: u32,
}

impl Trust {
    /// Of a node that nobody knows, or of one that is believed at once.
    pub fn new(slow_start: bool) -> Self {
        Trust { open: if slow_start { 1 } else { u32::MAX } }
    }

    /// Slots open of those declared.
    pub fn slots(&self, declared: u32) -> u32 {
        self.open.min(declared)
    }

    /// A job succeeded. Says whether more slots are open now.
    pub fn success(&mut self, declared: u32) -> bool {
        let before = self.slots(declared);
        // Not beyond what is declared: a later, larger word must be earned as well.
        self.open = self.open.saturating_mul(2).min(declared.max(self.open));
        self.slots(declared) != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flaw 16.
    #[test]
    fn a_stranger_with_a_million_slots_begins_with_one() {
        let mut trust = Trust::new(true);
        assert_eq!(trust.slots(1_000_000), 1);
        assert!(trust.success(6) && trust.success(6));
        assert_eq!(trust.slots(6), 4);
        assert!(trust.success(6) && !trust.success(6));
        assert_eq!(trust.slots(6), 6);
        assert_eq!(trust.slots(100), 6, "more is earned, not said");
        assert!(trust.success(100));
        assert_eq!(Trust::new(false).slots(9), 9);
    }
}
