//! Room for thousands of sockets in one process.

use std::net::Ipv4Addr;

use anyhow::ensure;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Files and sockets of a process beside those that were asked for.
const OTHERS: u64 = 200;

/// Lets this process, and those it starts from now on, open so many sockets, as far as the system
/// allows without asking anybody.
pub fn make_room_for(sockets: u64) -> anyhow::Result<()> {
    let wanted = sockets + OTHERS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let most = limit.maximum;
    ensure!(
        most.is_none_or(|most| most >= wanted),
        "{sockets} sockets are more than this machine lets a process open; ulimit -Hn says {}",
        most.unwrap_or(0)
    );
    limit.current = most.or(Some(wanted));
    setrlimit(Resource::Nofile, limit)?;
    Ok(())
}

/// The loopback address of the speaker with this number, when so many share one: 127.0.0.2 and up.
pub fn address_of(speaker: u32, per_address: u32) -> Ipv4Addr {
    // Within 127.0.0.0/8, whatever the number.
    let number = (speaker / per_address.max(1)).saturating_add(2).min(0x00ff_fffe);
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 0, 0, 0).to_bits() | number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_on_loopback() {
        assert_eq!(address_of(0, 100), Ipv4Addr::new(127, 0, 0, 2));
        assert_eq!(address_of(99, 100), Ipv4Addr::new(127, 0, 0, 2));
        assert_eq!(address_of(100, 100), Ipv4Addr::new(127, 0, 0, 3));
        assert_eq!(address_of(254, 1), Ipv4Addr::new(127, 0, 1, 0));
        assert!(address_of(u32::MAX, 0).is_loopback());
    }

    #[test]
    fn room_is_made_as_far_as_there_is_any() {
        make_room_for(10).unwrap();
        let error = make_room_for(u64::MAX / 2).unwrap_err().to_string();
        assert!(error.contains("ulimit"), "{error}");
    }
}
