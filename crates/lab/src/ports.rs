//! Loopback ports nobody listens on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// A port of 127.0.0.1 that was free a moment ago. Another process may take it before the caller
/// does, so whoever starts a server on it must be ready to try another one.
pub fn free_port() -> io::Result<u16> {
    let [port] = free_ports()?;
    Ok(port)
}

/// `N` different ports of 127.0.0.1 that were free a moment ago, with the same caveat as
/// [`free_port`]. All are held until the last is found, which is what makes them different.
///
/// Binding port 0 is more than convenient: Linux hands binds the odd and connects the even half of
/// its ephemeral range first, so the port of a killed server is still free when it restarts.
pub fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// `port` on 127.0.0.1.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_asked_for_together_differ_and_can_be_bound() {
        let mut ports = free_ports::<8>().unwrap().to_vec();
        let _bound: Vec<_> =
            ports.iter().map(|port| TcpListener::bind(loopback(*port)).unwrap()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 8);
    }
}
