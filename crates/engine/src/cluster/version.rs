//! Which messages an instance understands, so that two neighbouring versions run side by side.
//!
//! Messages only ever gain fields, and an instance ignores a message that it does not know; that needs
//! no number. A change that an older instance would misread does: the newer version counts
//! [`WIRE`] up, goes on to understand the number before, and says what the others understand too.
//! Each instance says its range where it says that it lives. Those whose ranges do not meet leave
//! each other alone, and who comes last does not start.

use std::fmt;

/// The range of messages that an instance understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wire {
    pub oldest: u16,
    pub newest: u16,
}

/// What this version understands.
pub(crate) const WIRE: Wire = Wire { oldest: 1, newest: 1 };

/// Between the address and the range in what an instance says of itself.
const MARK: &str = "#wire=";

impl Wire {
    /// Whether two instances have messages in common.
    pub fn meets(self, other: Wire) -> bool {
        self.oldest <= other.newest && other.oldest <= self.newest
    }

    /// Where an instance is and what it understands, as it says it of itself.
    pub fn announced_at(self, address: &str) -> String {
        format!("{address}{MARK}{}-{}", self.oldest, self.newest)
    }

    /// Where an instance is and what it understands. One that does not say is of the first version;
    /// one that says it in a way that nobody understands is of a version that nobody understands.
    pub fn read(announced: &str) -> (&str, Wire) {
        let Some((address, range)) = announced.split_once(MARK) else {
            return (announced, Wire { oldest: 1, newest: 1 });
        };
        let range = range.split_once('-').and_then(|(oldest, newest)| {
            Some(Wire { oldest: oldest.parse().ok()?, newest: newest.parse().ok()? })
        });
        (address, range.unwrap_or(Wire { oldest: u16::MAX, newest: u16::MAX }))
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{} to {}", self.oldest, self.newest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(oldest: u16, newest: u16) -> Wire {
        Wire { oldest, newest }
    }

    #[test]
    fn neighbours_meet_and_versions_further_apart_do_not() {
        assert!(wire(1, 1).meets(wire(1, 2)) && wire(1, 2).meets(wire(1, 1)));
        assert!(wire(1, 2).meets(wire(2, 3)));
        assert!(!wire(1, 1).meets(wire(2, 3)) && !wire(2, 3).meets(wire(1, 1)));
    }

    #[test]
    fn what_is_said_is_read_again() {
        let said = wire(3, 4).announced_at("10.0.0.1:5010");
        assert_eq!(Wire::read(&said), ("10.0.0.1:5010", wire(3, 4)));
        assert_eq!(Wire::read("10.0.0.1:5010"), ("10.0.0.1:5010", wire(1, 1)));
        let (address, strange) = Wire::read("10.0.0.1:5010#wire=new");
        assert_eq!(address, "10.0.0.1:5010");
        assert!(!strange.meets(WIRE), "nobody knows what it says");
    }
}
