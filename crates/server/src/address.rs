//! Addresses to listen on.

use std::net::{SocketAddr, ToSocketAddrs};

/// Reads `127.0.0.1:5010`, `[::1]:5010` or a name such as `localhost:5010`. A name that has both kinds of addresses
/// stands for its IPv4 address, as clients try it too.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let wrong = |why: String| format!("{text:?} is no address such as 127.0.0.1:5010: {why}");
    if !text.contains(':') {
        return Err(wrong("it has no port".to_owned()));
    }
    let found: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    let first = found.iter().find(|one| one.is_ipv4()).or(found.first()).copied();
    first.ok_or_else(|| wrong("the name has no address".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_read_and_nonsense_is_refused() {
        for (text, read) in [
            ("127.0.0.1:5010", "127.0.0.1:5010"),
            ("[::1]:1", "[::1]:1"),
            ("localhost:5010", "127.0.0.1:5010"),
            ("0.0.0.0:0", "0.0.0.0:0"),
        ] {
            assert_eq!(address(text).map(|one| one.to_string()), Ok(read.to_owned()), "{text}");
        }
        for wrong in
            ["", "localhost", "5010", "localhost:", "localhost:x", "localhost:70000", ":::"]
        {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
