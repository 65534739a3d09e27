//! How many connections come from one address, so that one peer cannot take the places of all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Connections from one address at the same time: a house full of people, not a flood.
const MAX_PER_ADDRESS: usize = 4_096;

/// The connections of every address.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One of them; its place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    addresses: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// A place for one more from this address, if there is one.
    pub(super) fn seat(&self, address: IpAddr) -> Option<Seat> {
        let mut taken = self.0.lock();
        let count = taken.entry(address).or_default();
        if *count >= MAX_PER_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Seat { addresses: self.clone(), address })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.addresses.0.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_its_share_and_others_theirs() {
        let addresses = Addresses::default();
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let mut seats: Vec<Seat> = Vec::new();
        seats.extend((0..MAX_PER_ADDRESS + 5).filter_map(|_| addresses.seat(one)));
        assert_eq!(seats.len(), MAX_PER_ADDRESS);
        assert!(addresses.seat(other).is_some());
        seats.pop();
        assert!(addresses.seat(one).is_some());
        drop(seats);
        assert!(addresses.0.lock().is_empty(), "nothing is remembered of who is gone");
    }
}
