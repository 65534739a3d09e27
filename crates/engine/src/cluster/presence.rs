//! The announcement of an instance in the store: its address, the message versions that it understands, and a
//! signature. Others can write to the store too, so an announcement is believed only with its signature.

use lingua_store::Instance;
use lingua_store::presence::Peer;

use super::version::{WIRE, Wire};
use crate::secret::Secret;

/// Between the payload and the signature.
const BY: &str = "#by=";

/// Why no messages are exchanged with an instance.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    /// It has no message version in common with this one.
    Version(Wire),
    /// It does not sign, like the version before.
    Unsigned,
    /// It signs with a key that this instance does not have.
    OtherKey(String),
    /// The signature does not match the payload.
    Forged,
    /// Its address is invalid.
    Address,
}

fn text(instance: &Instance, payload: &str) -> String {
    format!("presence {instance} {payload}")
}

/// The announcement of an instance.
pub(crate) fn announcement(secret: &Secret, instance: &Instance, address: &str) -> String {
    signed(secret, instance, WIRE.announced_at(address))
}

/// The payload with its signature; without one while instances of the version before may read it.
pub fn signed(secret: &Secret, instance: &Instance, payload: String) -> String {
    if secret.speaks_unsigned() {
        return payload;
    }
    let mark = secret.sign(&text(instance, &payload));
    format!("{payload}{BY}{}-{mark}", secret.fingerprint())
}

/// The address of an instance, with the signature not checked.
pub(crate) fn address(announced: &str) -> &str {
    Wire::read(announced.split_once(BY).map_or(announced, |(payload, _)| payload)).0
}

/// Where an instance is, if it is one of ours.
pub(crate) fn read<'a>(secret: &Secret, peer: &'a Peer) -> Result<&'a str, Apart> {
    let announced = peer.address.as_str();
    let (payload, by) = match announced.split_once(BY) {
        Some((payload, by)) => (payload, Some(by)),
        None => (announced, None),
    };
    let (address, wire) = Wire::read(payload);
    if !wire.meets(WIRE) {
        return Err(Apart::Version(wire));
    }
    match by.map(|by| by.split_once('-').unwrap_or((by, ""))) {
        None if !secret.takes_unsigned() => return Err(Apart::Unsigned),
        Some((by, _)) if !secret.knows(by) => return Err(Apart::OtherKey(shown(by))),
        Some((by, mark)) if !secret.verify_by(by, &text(&peer.instance, payload), mark) => {
            return Err(Apart::Forged);
        }
        _ => {}
    }
    if is_address(address) { Ok(address) } else { Err(Apart::Address) }
}

/// A fingerprint for people, whatever stands there.
fn shown(by: &str) -> String {
    by.chars().take(crate::secret::FINGERPRINT_CHARS).collect()
}

/// Whether an instance can be there: a scheme, a host and a port, and nothing more. With a path, a
/// query or a name before the host, what is asked of an instance would be asked of something else.
pub fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let Some(rest) = rest else { return false };
    let (host, port) = match rest.strip_prefix('[') {
        Some(six) => match six.split_once(']') {
            Some((host, port)) => {
                let is_six = host.parse::<std::net::Ipv6Addr>().is_ok();
                (is_six, port)
            }
            None => return false,
        },
        None => {
            let (host, port) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            (!host.is_empty() && host.chars().all(plain), port)
        }
    };
    let number = |port: &str| {
        port.bytes().all(|digit| digit.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    host && (port.is_empty() || port.strip_prefix(':').is_some_and(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Instance {
        Instance { id: "a".parse().unwrap(), boot: 1 }
    }

    fn peer(address: impl Into<String>) -> Peer {
        Peer { instance: me(), address: address.into() }
    }

    #[test]
    fn what_an_instance_says_is_believed_of_itself_alone() {
        let secret = Secret::from_seed(b"ours");
        let payload = announcement(&secret, &me(), "http://10.0.0.1:5010");
        assert_eq!(read(&secret, &peer(payload.as_str())), Ok("http://10.0.0.1:5010"));
        assert_eq!(address(&payload), "http://10.0.0.1:5010");

        let another = Peer { instance: Instance { boot: 2, ..me() }, address: payload.clone() };
        assert_eq!(read(&secret, &another), Err(Apart::Forged), "of another life");
        let moved = peer(payload.replace("10.0.0.1", "10.6.6.6"));
        assert_eq!(read(&secret, &moved), Err(Apart::Forged));
        assert_eq!(read(&secret, &peer(format!("{payload}0"))), Err(Apart::Forged));
        let bare = peer("http://10.0.0.1:5010#wire=1-1");
        assert_eq!(read(&secret, &bare), Err(Apart::Unsigned));
        let theirs = Secret::from_seed(b"theirs");
        let key = theirs.fingerprint().to_owned();
        let theirs = peer(super::announcement(&theirs, &me(), "http://10.0.0.1:5010"));
        assert_eq!(read(&secret, &theirs), Err(Apart::OtherKey(key)));
        let far = signed(&secret, &me(), "http://10.0.0.1:5010#wire=5-6".to_owned());
        assert!(matches!(read(&secret, &peer(far)), Err(Apart::Version(_))));
    }

    #[test]
    fn an_instance_is_at_a_scheme_a_host_and_a_port() {
        for good in [
            "http://127.0.0.1:5010",
            "https://scheduler-1.example.org:5010",
            "https://lingua_1",
            "http://[::1]:5010",
            "https://[2001:db8::1]",
        ] {
            assert!(is_address(good), "{good}");
        }
        for wrong in [
            "",
            "127.0.0.1:5010",
            "ftp://a:1",
            "http://",
            "http://:80",
            "http://a:",
            "http://a:0",
            "http://a:65536",
            "http://a:+1",
            "http://a:1/",
            "http://a:1/v1/node?x=",
            "http://a?x",
            "http://a#x",
            "http://user@a:1",
            "http://user:1@a",
            "http://[::1",
            "http://[::1]x",
            "http://[a]:1",
            "http://a:1:2",
            "http://a b",
        ] {
            assert!(!is_address(wrong), "{wrong}");
            let secret = Secret::from_seed(b"ours");
            assert!(read(&secret, &peer(announcement(&secret, &me(), wrong))).is_err(), "{wrong}");
        }
    }
}
