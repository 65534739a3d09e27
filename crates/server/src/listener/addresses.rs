//! How many connections come from one address, so that one peer cannot take the places of all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// The connections of every address.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// Of one address: a house full of people, not a flood.
    most: usize,
}

/// One of them; its place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct AddressPermit {
    addresses: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// With so many for each.
    pub(super) fn new(most: usize) -> Self {
        Addresses { taken: Arc::default(), most }
    }

    /// A place for one more from this address, if there is one.
    pub(super) fn permit(&self, address: IpAddr) -> Option<AddressPermit> {
        let mut taken = self.taken.lock();
        let count = taken.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(AddressPermit { addresses: self.clone(), address })
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut taken = self.addresses.taken.lock();
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
        let addresses = Addresses::new(100);
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let mut permits: Vec<AddressPermit> = Vec::new();
        permits.extend((0..100 + 5).filter_map(|_| addresses.permit(one)));
        assert_eq!(permits.len(), 100);
        assert!(addresses.permit(other).is_some());
        permits.pop();
        assert!(addresses.permit(one).is_some());
        drop(permits);
        assert!(addresses.taken.lock().is_empty(), "nothing is remembered of who is gone");
    }
}
